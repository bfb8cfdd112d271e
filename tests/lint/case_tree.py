"""A case of a check as a small checkout: the recipe of the case, between small releases.

A case is the recipe itself, and one that fails says at its top what is expected and at which line:

    # expect 4: has run exports

or, where a recipe does not say it, `expect` (file, line, message) with `files` (path -> text), `locks` (release ->
component -> version), `targets` (component -> where it is published), `missing` (release -> component -> places) and
`unmeasured` (releases).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.model import Artefact, Component, Facts, ReleaseLock, dump, variant_config

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
    """A case: its file, the contents of its checkout, and the expected finding, if any."""

    path: Path
    state: Mapping[str, Any]
    expect: Mapping[str, Any]

    @property
    def check(self) -> str:
        return self.path.parent.name


def read(path: Path) -> Case:
    """The case in a file."""
    text = path.read_text()
    if re.search(r"^schema_version", text, re.M):
        name = "recipes/thing/recipe.yaml"
        found = re.match(r"# expect (\d+): (.*)", text)
        expect = {"file": name, "line": int(found[1]), "message": found[2]} if found else {}
        return Case(path, {"files": {name: text}}, expect)
    state = YAML(typ="safe").load(text)
    return Case(path, state, state.get("expect", {}))


def write(case: Case, root: Path) -> None:
    """Writes the checkout of a case."""
    for name in ("variants", "recipes"):
        (root / name).mkdir()
    (root / "conda_build_config.yaml").write_text(CONFIG)
    for release, components in case.state.get("locks", LOCKS).items():
        made = release_lock(release, components, case.state.get("targets", {}))
        lacks = {name: tuple(places) for name, places in case.state.get("missing", {}).get(release, {}).items()}
        made = replace(made, missing=lacks, facts=None if release in case.state.get("unmeasured", ()) else made.facts)
        (root / "variants" / f"{made.name}.lock").write_text(dump(made))
        (root / "variants" / f"{made.name}.yaml").write_text(variant_config(made))
    for name, text in case.state.get("files", {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def release_lock(
    release: str, versions: Mapping[str, str], published: Mapping[str, Sequence[str]] | None = None
) -> ReleaseLock:
    """A valid lock with an artefact of each component for each platform; those of Python projects are noarch."""
    ctk = release[0].isdigit()
    components = {}
    for name, version in sorted(versions.items()):
        known = DISTRIBUTIONS.get(name)
        distribution = known.distribution(release.split(".")[0]) if ctk and known else name
        targets = (published or {}).get(name, PLATFORMS if ctk else [NOARCH])
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
    subdir, _, python = target.partition("-cp")
    tag = f"cp{python}-cp{python}" if python else "py3-none"
    file = f"{distribution.replace('-', '_')}-{version}-{tag}-{TAGS.get(subdir, 'any')}.whl"
    return Artefact(component, distribution, version, target, file, hashlib.sha256(file.encode()).hexdigest(), 9, TIME)
