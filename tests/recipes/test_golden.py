"""A change of what a package depends on, exports or holds is seen in review: it changes a golden file.

``python tests/recipes/update_golden.py`` writes them.
"""

from __future__ import annotations

import difflib

import golden
import pytest

from ctk.core.checkout import Workspace

UPDATE = "if this is meant: python tests/recipes/update_golden.py"


@pytest.fixture(scope="module")
def now(project: Workspace) -> dict[str, golden.Golden]:
    return golden.rendered(project)


def test_every_output_has_a_golden_file_and_no_other_exists(now: dict[str, golden.Golden]) -> None:
    assert {path.stem for path in golden.FOLDER.glob("*.yaml")} == set(now), UPDATE


def test_outputs_render_as_their_golden_files_say(now: dict[str, golden.Golden]) -> None:
    changes = []
    for name, current in sorted(now.items()):
        expected = golden.load(name)
        for record in expected.records.values():
            record.pop("files", None)
        changes += _diff(name, golden.dump(expected), golden.dump(current))
    assert not changes, "\n".join([*changes, UPDATE])


def test_built_packages_hold_the_files_of_their_golden_files(built: Workspace, now: dict[str, golden.Golden]) -> None:
    golden.add_files(now, built.channel.resolve().rglob("*.conda"))
    changes, seen = [], 0
    for name, current in sorted(now.items()):
        expected = golden.load(name)
        for variant, record in current.records.items():
            if "files" in record:
                seen += 1
                before = expected.records.get(variant, {}).get("files", [])
                changes += _diff(f"{name}, {variant}", "\n".join(before), "\n".join(record["files"]))
    assert seen
    assert not changes, "\n".join([*changes, UPDATE])


def _diff(name: str, expected: str, current: str) -> list[str]:
    lines = difflib.unified_diff(expected.splitlines(), current.splitlines(), f"{name} (golden)", f"{name} (now)", n=2)
    return [line.rstrip("\n") for line in lines]
