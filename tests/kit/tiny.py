"""A checkout with one tiny recipe, whose artefact is a zip of a few bytes: for tests of
the steps.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.fetch.fetch import stored
from ctk.lock.model import Artefact, Component, ReleaseLock, dump, variant_config
from ctk.plan.plan import Plan, Request, plan, published_set
from kit.ctk_release import release
from kit.fake_index import wheel

UPLOADED = 1_757_000_000
"""Seconds since 1970: the time of its packages, which the audit wants to be an honest one."""

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
about: {license: MIT, license_file: LICENSE, summary: "A greeting"}
"""

FOLLOWER = """
schema_version: 1
package: {name: follower, version: "${{ cuda_version }}"}
source: {path: LICENSE}
build: {noarch: generic, script: ["mkdir -p $PREFIX/share", "touch $PREFIX/share/follower"]}
requirements: {run: [hello]}
about: {license: MIT, license_file: LICENSE}
"""


def tiny_checkout(root: Path) -> Workspace:
    """Writes the checkout; its artefact is in the store already."""
    for name, text in {"hello": RECIPE, "follower": FOLLOWER}.items():
        (root / "recipes" / name).mkdir(parents=True)
        (root / "recipes" / name / "recipe.yaml").write_text(text)
    (root / "recipes" / "follower" / "LICENSE").write_text(
        "Permission is hereby granted, free of charge, to any person obtaining a copy\n"
    )
    (root / "conda_build_config.yaml").write_text("python_tag: [cp312]\n")
    workspace = Workspace(root)
    workspace.variants.mkdir()
    (workspace.variants / "cuda-13.4.lock").write_text(dump(lock()))
    (workspace.variants / "cuda-13.4.yaml").write_text(variant_config(lock()))
    home = stored(artefact(), workspace)
    home.parent.mkdir(parents=True)
    home.write_bytes(content())
    return workspace


def content() -> bytes:
    """The bytes of the artefact."""
    licence = b"Permission is hereby granted, free of charge, to any person obtaining a copy\n"
    files = {"greeting.txt": b"hello\n", "LICENSE": licence}
    return wheel(
        "nvidia-cuda-runtime", "13.4.92", "py3-none-manylinux2014_x86_64", [], files, licence=b""
    )


def artefact() -> Artefact:
    """The locked artefact."""
    data = content()
    digest = hashlib.sha256(data).hexdigest()
    file = "nvidia_cuda_runtime-13.4.92-py3-none-manylinux2014_x86_64.whl"
    return Artefact(
        "cudart", "nvidia-cuda-runtime", "13.4.92", "linux-64", file, digest, len(data), UPLOADED
    )


def lock() -> ReleaseLock:
    """A CTK release of one component, published for one platform."""
    artefacts = {**dict.fromkeys(PLATFORMS), "linux-64": artefact()}
    cudart = Component("cudart", "nvidia-cuda-runtime", "13.4.92", artefacts)
    return replace(release("13.4.3", cudart), since=UPLOADED)


def tiny_plan(workspace: Workspace, subdir: str = "linux-64") -> Plan:
    """Two builds: hello, and follower, which needs it."""
    return plan(published_set(workspace), Request(platforms=[subdir]), ["cp312"])
