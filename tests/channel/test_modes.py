"""Readers are other users: what they need is for all to read and for nobody else to write, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_channels import build, digit

from ctk.channel.folder import Folder


class Signs:
    """Attests without a signature."""

    def bundle(self, file: str, sha256: str) -> str:
        return "{}"


@pytest.fixture(params=[0o077, 0o027, 0o000], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def odd(place: Path) -> dict[str, str]:
    """The files and folders whose mode is not what it should be."""
    found = {p: stat.S_IMODE(p.stat().st_mode) for p in (place, *place.rglob("*")) if p.name != "lock"}
    return {str(p): oct(mode) for p, mode in found.items() if mode != (0o755 if p.is_dir() else 0o644)}


@pytest.mark.usefixtures("umask")
def test_what_is_built_and_published_can_be_read_by_all(tmp_path: Path) -> None:
    tmp_path.chmod(0o710)
    built = build(tmp_path / "output" / "channel", digit(1), digit(2))
    assert odd(built) == {}
    folder = Folder(tmp_path / "srv" / "www" / "cuda", tmp_path)
    folder.publish(built, attester=Signs())
    folder.publish(build(tmp_path / "output" / "channel", digit(1), digit(4)), exact=True, attester=Signs())
    folder.rollback()
    assert odd(tmp_path / "srv") == {}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o710


@pytest.mark.usefixtures("umask")
def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (www := tmp_path / "www").mkdir()
    www.chmod(0o2750)
    Folder(www, tmp_path).publish(build(tmp_path / "channel", digit(1)))
    assert stat.S_IMODE(www.stat().st_mode) == 0o2750
    assert {p.name: stat.S_IMODE(p.stat().st_mode) & 0o777 for p in www.glob("*/")} == {
        "noarch": 0o755,
        ".history": 0o755,
    }
