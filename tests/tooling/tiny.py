"""A checkout with one tiny recipe, whose artefact is a zip of a few bytes: for tests of the stations."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from ctk.fetch import stored
from ctk.lock import Artefact, Component, ReleaseLock
from ctk.paths import Workspace
from ctk.plan import Plan, Request, Set, plan
from ctk.recipes import find_recipes

RECIPE = """
schema_version: 1
package: {name: hello, version: "${{ cudart }}"}
source: {path: "../../.cache/artefacts/cudart/${{ cudart }}/${{ target_platform }}.zip"}
build:
  number: 0
  script:
    - mkdir -p $PREFIX/share/hello
    - cp greeting.txt $PREFIX/share/hello/
requirements: {run_exports: {weak: ["hello >=13"]}}
tests:
  - package_contents: {files: [share/hello/greeting.txt]}
  - script: [test "$(cat $PREFIX/share/hello/greeting.txt)" = hello]
about: {license: MIT, summary: "A greeting"}
"""

FOLLOWER = """
schema_version: 1
package: {name: follower, version: "${{ cuda_version }}"}
build: {noarch: generic, script: ["mkdir -p $PREFIX/share", "touch $PREFIX/share/follower"]}
requirements: {run: [hello]}
about: {license: MIT}
"""


def tiny_checkout(root: Path) -> Workspace:
    """Writes the checkout; its artefact is in the store already."""
    for name, text in {"hello": RECIPE, "follower": FOLLOWER}.items():
        (root / "recipes" / name).mkdir(parents=True)
        (root / "recipes" / name / "recipe.yaml").write_text(text)
    (root / "conda_build_config.yaml").write_text("python_tag: [cp312]\n")
    (root / "cuda-13.4.yaml").write_text('cuda_version: ["13.4"]\ncudart: ["13.4.92"]\n')
    workspace = Workspace(root)
    home = stored(artefact(), workspace)
    home.parent.mkdir(parents=True)
    home.write_bytes(content())
    return workspace


def content(text: str = "hello\n") -> bytes:
    """The bytes of the artefact."""
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("greeting.txt", "other.txt"):  # a single file would be unpacked under another name
            archive.writestr(zipfile.ZipInfo(name), text)
    return buffer.getvalue()


def artefact() -> Artefact:
    """The locked artefact."""
    data = content()
    digest = hashlib.sha256(data).hexdigest()
    return Artefact("cudart", "nvidia-cuda-runtime", "13.4.92", "linux-64", "runtime.whl", digest, len(data))


def tiny_plan(workspace: Workspace, subdir: str = "linux-64") -> Plan:
    """Two builds: hello, and follower, which needs it."""
    component = Component("cudart", "nvidia-cuda-runtime", "13.4.92", {"linux-64": artefact()})
    lock = ReleaseLock("13.4.3", None, {"cudart": component})
    what = Set(
        find_recipes(workspace.recipes),
        {"cuda-13.4": (lock, workspace.root / "cuda-13.4.yaml")},
        (workspace.build_config,),
    )
    return plan(what, Request(platforms=[subdir]), ["cp312"])
