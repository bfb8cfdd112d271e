"""The results of `scripts/acceptance`: which pieces run again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import acceptance
from ctk.core.checkout import Workspace, git


def test_what_passed_is_known_elsewhere_until_something_changes_that_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, results = tmp_path / "checkout", tmp_path / "results.json"
    (checkout / "docs" / "evidence").mkdir(parents=True)
    _commit(checkout, "recipe", "1")
    where = Workspace(checkout)
    piece = acceptance.Piece("lint", [["true"]], acceptance.ALL)
    fails = replace(piece, name="fails", commands=[["false"]])

    def run() -> acceptance.Run:
        return acceptance.Run(where, tmp_path, results)

    (tmp_path / "clone").mkdir()
    assert not run().has_passed(piece)
    assert run().run(piece)
    assert not run().run(fails)
    assert "passed lint (0 s, 0.0 GB)" in capsys.readouterr().out
    assert (
        json.loads(results.read_text())["lint"]["commit"] == git(checkout, "rev-parse", "HEAD")[:8]
    )
    assert run().has_passed(piece)
    assert not run().has_passed(fails)
    _commit(checkout, "docs/evidence/acceptance.json", "{}")
    assert run().has_passed(piece)
    assert not run().has_passed(replace(piece, commands=[["true", "again"]]))
    _commit(checkout, "recipe", "2")
    assert not run().has_passed(piece)


def _commit(checkout: Path, name: str, text: str) -> None:
    (checkout / name).write_text(text)
    git(checkout, "init", "--quiet")
    git(checkout, "add", "--all")
    git(checkout, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", name)
