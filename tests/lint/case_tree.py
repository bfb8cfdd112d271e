"""A case of a check as a small checkout: the recipe, script or variant file of the case, between small releases.

A case is the file itself, where one file says it, with comments for the test at its top:

    # expect 4: no build number       what a failing case is told, and at which line
    # as base/thing/recipe.yaml       where the file lies; a recipe of recipes/ otherwise

or, with `files`, a folder in one file: `files` (path -> text), `locks` (release -> component -> version), `edit` (lists
of path, old and new text), and `expect` with file, line and message.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.lock import Artefact, Component, Facts, ReleaseLock, dump, variant_config

CONFIG = """cuda_major:
  - "12"
  - "13"
cuda_fit:
  - native
  - compat
python:
  - "3.11.* *_cpython"
  - "3.12.* *_cpython"
python_tag:
  - cp311
  - cp312
zip_keys:
  - [python, python_tag]
c_stdlib_version:
  - "2.17"
"""
LOCKS = {"12.9.2": {"cudart": "12.9.79"}, "13.4.3": {"cudart": "13.4.92"}, "python-13": {"cuda-core": "1.2.2"}}
TAGS = {"linux-64": "manylinux2014_x86_64", "linux-aarch64": "manylinux2014_aarch64"}
TAGS |= {"win-64": "win_amd64", "win-arm64": "win_arm64"}
DISTRIBUTIONS = {c.name: c for c in CTK_COMPONENTS}
TIME = 1_757_000_000


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        check: Name of the check.
        path: The file that says it.
        file: Where the finding is expected, "" for a passing case.
        line: At which line.
        message: A part of what is said.
        text: Of the file.
        where: Where the file lies in the checkout; "" for a folder.
        folder: What a folder has.
    """

    check: str
    path: Path
    file: str
    line: int
    message: str
    text: str
    where: str
    folder: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        return self.path.name.startswith("fail")


def read(path: Path) -> Case:
    """The case that a file holds."""
    text = path.read_bytes().decode("latin-1")  # a case may be no UTF-8
    check = path.parent.name
    if re.search(r"^(files|locks|edit):", text, re.M) and "# as " not in text:
        folder = YAML(typ="safe").load(text)
        expect = folder.get("expect", {})
        found = expect.get("file", ""), expect.get("line", 0), expect.get("message", "")
        return Case(check, path, *found, "", "", folder)
    said = dict(re.findall(r"^# (as|expect) (.*)$", text, re.M))
    where = said.get("as", "recipes/thing/recipe.yaml")
    line, _, message = said.get("expect", "0: ").partition(": ")
    return Case(check, path, where, int(line), message, text, where)


def write(case: Case, root: Path) -> None:
    """Writes the checkout of a case."""
    _write_state(root, case.folder)
    if case.where:
        (root / case.where).parent.mkdir(parents=True, exist_ok=True)
        (root / case.where).write_bytes(case.text.encode("latin-1"))


def _write_state(root: Path, state: Mapping[str, Any]) -> None:
    for name in ("variants", "recipes"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "conda_build_config.yaml").write_text(CONFIG)
    for release, components in state.get("locks", LOCKS).items():
        made = release_lock(release, components)
        (root / "variants" / f"{made.name}.lock").write_text(dump(made))
        (root / "variants" / f"{made.name}.yaml").write_text(variant_config(made))
    for name, text in state.get("files", {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, old, new in state.get("edit", ()):
        text = (root / name).read_text()
        assert old in text, (name, old)
        (root / name).write_text(text.replace(old, new, 1))


def release_lock(release: str, versions: Mapping[str, str]) -> ReleaseLock:
    """A valid lock with one artefact of each component for each platform; Python projects are the same on all."""
    ctk = release[0].isdigit()
    components = {}
    for name, version in sorted(versions.items()):
        known = DISTRIBUTIONS.get(name)
        distribution = known.distribution(release.split(".")[0]) if ctk and known else name
        targets = PLATFORMS if ctk else [NOARCH]
        artefacts = {t: artefact(name, distribution, version, t) for t in targets}
        licence = "LicenseRef-NVIDIA-Proprietary" if ctk else "Apache-2.0"
        texts = (hashlib.sha256(licence.encode()).hexdigest(),)
        components[name] = Component(name, distribution, version, artefacts, licence, texts)
    if not ctk:
        return ReleaseLock(release, None, components)
    manifest = artefact("cuda-toolkit", "cuda-toolkit", release, NOARCH)
    facts = Facts(("7.5", "9.0"), "9.4" if release.startswith("13") else "8.8", {s: {} for s in TAGS if "linux" in s})
    return ReleaseLock(release, manifest, components, facts, since=TIME)


def artefact(component: str, distribution: str, version: str, target: str) -> Artefact:
    file = f"{distribution.replace('-', '_')}-{version}-py3-none-{TAGS.get(target, 'any')}.whl"
    return Artefact(component, distribution, version, target, file, hashlib.sha256(file.encode()).hexdigest(), 9, TIME)
