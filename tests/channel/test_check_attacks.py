"""Whoever changes a channel so that a client gets something else is seen, on the disk and from outside."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attacks import OF_INDEX, OF_PACKAGE, ONE, TWO, Attack
from small_channels import build, digit, serve, sound

from ctk.channel.folder import Folder
from ctk.check.channel import check_channel, mirrored


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder on a web server, with a published channel in it; the URL of the folder."""
    place = tmp_path_factory.mktemp("server")
    folder = Folder(place / "sound", place, now=lambda: datetime(2027, 1, 15, 8, tzinfo=UTC))
    folder.publish(build(place / "built" / "channel", sound(digit(1)), sound(digit(2, depends=("digit1",)))))
    with serve(place) as url:
        yield place, url


def found(place: Path) -> set[tuple[str, str]]:
    return {(problem.where, problem.check) for problem in check_channel(place).findings}


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        *((attack, (TWO, check)) for attack, check in OF_PACKAGE.values()),
        *((attack, (file, "")) for attack, file in OF_INDEX.values()),
    ],
    ids=[*OF_PACKAGE, *OF_INDEX],
)
def test_an_attack_is_a_problem(
    server: tuple[Path, str], tmp_path: Path, attack: Attack, problem: tuple[str, str]
) -> None:
    place, url = server
    www = Path(shutil.copytree(place / "sound", place / tmp_path.name))
    attack(www)
    lines = found(www)
    assert problem in lines or (problem[0] in {package for package, _ in lines} and not problem[1])
    assert not any(package == ONE for package, _ in lines)
    with mirrored(f"{url}/{www.name}", tmp_path) as seen:
        assert found(seen) == lines


def test_a_sound_channel_has_no_problem_from_outside(server: tuple[Path, str], tmp_path: Path) -> None:
    with mirrored(f"{server[1]}/sound", tmp_path) as seen:
        assert (seen / ".history").is_dir()
        assert found(seen) == set()
