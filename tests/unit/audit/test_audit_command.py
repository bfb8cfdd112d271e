"""`ctk check` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ctk.cli.main import app
from ctk.core.errors import AuditFailed, ChannelMissing, UnknownName
from kit.binaries import elf
from kit.packages import Draft, good_set
from kit.tiny_packages import write_channel


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTK_ROOT", str(tmp_path / "checkout"))
    monkeypatch.setenv("COLUMNS", "120")  # no word of a table on two lines


def test_a_good_channel_passes(tmp_path: Path) -> None:
    for draft in good_set().values():
        draft.write(tmp_path / "channel")
    done = run(str(tmp_path / "channel"))
    assert done.exit_code == 0, done.output
    assert "9 packages" in done.output
    assert "nothing found" in done.output


def test_a_broken_package_fails_and_is_shown_with_its_fix(tmp_path: Path) -> None:
    path = good_set()["libcufile"].with_(licenses={}).write(tmp_path / "channel")
    done = run(str(path))
    assert isinstance(done.exception, AuditFailed)
    assert "LicenseIsInside" in done.output
    assert "license_file" in done.output


def test_the_base_channel_is_audited_where_it_is_checked(tmp_path: Path) -> None:
    base = tmp_path / "checkout" / "output" / "base"
    binary = elf(("libc.so.6",), versions={"libc.so.6": ["GLIBC_2.36"]})
    package = Draft("libgcc", files={"lib/libgcc_s.so.1": binary})
    write_channel(base, [package])
    assert "GlibcIsDeclared" in run(str(base)).output
    sound = package.with_(depends=("__glibc >=2.36,<3.0.a0",))
    write_channel(base, [sound])
    assert "nothing found" in run(str(base)).output


def test_one_check_alone_and_json(tmp_path: Path) -> None:
    path = good_set()["libcufile"].with_(licenses={}).write(tmp_path / "channel")
    report = json.loads(run(str(path), "--check", "NoBuildPath", "--json").output)
    assert report["ok"]
    assert report["checks"] == {"NoBuildPath": 0}


def test_a_named_place_without_packages_is_an_error_and_not_a_good_channel(tmp_path: Path) -> None:
    """A gate with a wrong folder would always pass."""
    channel = tmp_path / "output" / "channel"
    good_set()["libcufile"].write(channel)
    (tmp_path / "empty").mkdir()
    assert isinstance(run(str(tmp_path / "nowhere")).exception, ChannelMissing)
    for place in (tmp_path / "empty", tmp_path / "output"):
        refused = run(str(channel), str(place)).exception
        assert isinstance(refused, UnknownName)
        assert refused.cause == f"there are no packages in {place}"
        assert "noarch" in refused.step
