"""The newest release, built for all four platforms from this machine, passes the audit: a sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS

pytestmark = pytest.mark.sweep


def names(channel: Path, subdir: str) -> set[str]:
    records = json.loads((channel / subdir / "repodata.json").read_text())["packages.conda"]
    return {f"{subdir}/{file}" for file in records}


def test_the_audit_passes_on_all_of_them(project: Workspace, all_platforms: Path) -> None:
    done = ctk(project, "check", *map(str, sorted(all_platforms.glob("*/*.conda"))), "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["packages"] == sum(len(names(all_platforms, s)) for s in [*PLATFORMS, "noarch"])
    assert not [f for f in report["findings"] if f["severity"] == "error"]
