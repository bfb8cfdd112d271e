"""A case of a check as a small checkout: the recipe of the case, between small releases.

A case is the recipe itself, and one that fails says at its top what is expected and at which line:

    # expect 4: has run exports

or, where a recipe does not say it, `expect` (file, line, message) with `files` (path -> text),
`locks` (release -> component -> version), `targets` (component -> where it is published), and
`unmeasured` (releases).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from conftest import ROOT
from ctk.lock.model import dump, variant_config
from kit.ctk_release import measured

LOCKS = {
    "12.9.2": {"cudart": "12.9.79"},
    "13.4.3": {"cudart": "13.4.92"},
    "python-13": {"cuda-core": "1.2.2"},
}


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
    state = YAML(typ="safe").load(path)  # an error then names the file
    return Case(path, state, state.get("expect", {}))


def write(case: Case, root: Path) -> None:
    """Writes the checkout of a case."""
    for name in ("variants", "recipes"):
        (root / name).mkdir()
    shutil.copyfile(ROOT / "conda_build_config.yaml", root / "conda_build_config.yaml")
    for release, components in case.state.get("locks", LOCKS).items():
        made = measured(release, components, case.state.get("targets", {}))
        if release in case.state.get("unmeasured", ()):
            made = replace(made, facts=None)
        (root / "variants" / f"{made.name}.lock").write_text(dump(made))
        (root / "variants" / f"{made.name}.yaml").write_text(variant_config(made))
    for name, text in case.state.get("files", {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
