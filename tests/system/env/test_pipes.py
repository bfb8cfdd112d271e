"""A pipe in place of a file of an environment, its cache or its records: nothing waits for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from kit.odd_packages import OLD, SITE, odd_checkout
from kit.packs import checkout, create
from kit.tiny_packages import application, pure, tiny
from kit.world import command as line_of

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return odd_checkout(tmp_path_factory.mktemp("a checkout"))


@pytest.fixture(scope="module")
def environment(where: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment under a path with a space."""
    prefix = tmp_path_factory.mktemp("an environment") / "env"
    create(where, prefix, "application", "folder", "placed")
    return prefix


CACHED = (
    "{package}.lock",
    "{package}/site-packages/pure.py",
    "{package}/info/index.json",
    "{package}/info/paths.json",
)
LIMIT = 120  # seconds; a run takes two, and one that waits for a pipe has no end


@pytest.mark.parametrize("place", [*CACHED, "old-1.0-0/info/index.json"])
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe"])
def test_a_pipe_in_the_cache_is_not_waited_for(place: str, kind: str, tmp_path: Path) -> None:
    """Each of them held `ctk env create` for ever, also that of a package that nobody asked for."""
    where = checkout(
        tmp_path, application(), pure(), tiny("old", files={f"{OLD}/old.py": b"x = 1\n"})
    )
    base = ("--base", str(where.root / "base"))
    for name in ("old", "pure"):
        create(where, tmp_path / name, name)
    odd = where.packages / place.format(package="pure-1.0-0")
    odd.unlink()
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        os.mkfifo(tmp_path / "pipe")
        odd.symlink_to(tmp_path / "pipe")
    line = ["env", "create", "application", "pure", *base, "--prefix", str(tmp_path / "again")]
    variables = {**os.environ, "CTK_ROOT": str(where.root)}
    subprocess.run(line_of(line), env=variables, check=True, capture_output=True, timeout=LIMIT)
    assert (tmp_path / "again" / SITE / "pure.py").is_file()
    assert not (odd.is_symlink() or odd.is_fifo())


@pytest.mark.parametrize("place", ["history", "pure-1.0-0.json", "zzz-1.0-0.json", "ctk.lock"])
def test_a_pipe_among_the_records_is_not_waited_for(
    place: str, where: Workspace, tmp_path: Path
) -> None:
    prefix = tmp_path / "env"
    create(where, prefix, "pure")
    odd = prefix / "conda-meta" / place
    odd.unlink(missing_ok=True)
    os.mkfifo(odd)
    variables = {**os.environ, "CTK_ROOT": str(where.root)}
    line = [
        "env",
        "create",
        "application",
        "--base",
        str(where.root / "base"),
        "--prefix",
        str(prefix),
    ]
    for words in (["doctor", str(prefix)], line):
        done = subprocess.run(
            line_of(words), env=variables, capture_output=True, text=True, timeout=LIMIT
        )
        named = words[0] == "doctor" and place.endswith("json")
        assert ("no records: " + place in done.stdout) == named
    assert done.returncode == 0, done.stderr
    assert not odd.is_fifo() or place == "ctk.lock"
