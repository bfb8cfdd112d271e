"""`ctk audit` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crafted_packages import good_set
from typer.testing import CliRunner, Result

from ctk.audit import CHECKS
from ctk.cli import app
from ctk.errors import AuditFailed


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTK_ROOT", str(tmp_path / "checkout"))


def test_a_good_channel_passes(tmp_path: Path) -> None:
    for draft in good_set().values():
        draft.write(tmp_path / "channel")
    done = run(str(tmp_path / "channel"))
    assert done.exit_code == 0, done.output
    assert "9 packages" in done.output
    assert "nothing found" in done.output


def test_a_broken_package_fails_and_is_shown_with_what_to_mend(tmp_path: Path) -> None:
    path = good_set()["libcufile"].with_(licenses={}).write(tmp_path / "channel")
    done = run(str(path))
    assert isinstance(done.exception, AuditFailed)
    assert "LicenseIsInside" in done.output
    assert "license_file" in done.output


def test_one_check_alone_and_json(tmp_path: Path) -> None:
    path = good_set()["libcufile"].with_(licenses={}).write(tmp_path / "channel")
    report = json.loads(run(str(path), "--check", "NoBuildPath", "--json").output)
    assert report["ok"]
    assert report["checks"] == {"NoBuildPath": 0}


def test_the_list_explains_every_check() -> None:
    output = run("--list").output
    assert all(check.id() in output for check in CHECKS)


def test_packages_that_do_not_exist_are_an_error(tmp_path: Path) -> None:
    assert run(str(tmp_path / "nowhere")).exit_code == 1
