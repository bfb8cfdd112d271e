"""Notes of a published folder that are damaged or lost: nothing that is kept is written over."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import Result

from ctk.channel.check import check_channel
from ctk.channel.history import STATES
from ctk.channel.publish import HISTORY, NAMES, TIMES, UNUSED, Folder
from ctk.channel.repodata import read_index
from ctk.core.errors import ChannelBroken
from kit.small_channels import build, digit, sound

pytest_plugins = ["kit.channel_fixtures"]

START = datetime(2027, 1, 15, 8, tzinfo=UTC)
DAMAGED = [b"", b"[]", b'{"x": 7, "states": 7}']


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A published folder with two states, of which the first is shown; beside it is what is published next."""
    made = Folder(tmp_path / "www", tmp_path, now=lambda: START)
    made.publish(build(tmp_path / "one", sound(digit(1)), sound(digit(2))))
    made.publish(build(tmp_path / "two", sound(digit(1)), sound(digit(4))))
    made.rollback(1)
    build(tmp_path / "next", sound(digit(1)), sound(digit(8)))
    return made


@pytest.fixture
def coming(folder: Folder) -> Path:
    return (folder.path.parent / "next").resolve()


def kept(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*/*/*") if path.is_file()}


def shown(place: Path) -> set[str]:
    return {record["name"] for record in read_index(place).records.values()}


def does(error: ChannelBroken) -> None:
    """Does what the next step of an error says, as a shell would."""
    (command,) = re.findall(r"\((rm [^)]+)\)", error.step)
    subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_history_stops_a_run_and_its_next_step_works(folder: Folder, coming: Path, content: bytes) -> None:
    before, file = kept(folder.notes), folder.notes / STATES
    file.write_bytes(content)
    for act in (folder.history, folder.rollback, lambda: folder.publish(coming)):
        with pytest.raises(ChannelBroken, match=r"history\.json cannot be read") as error:
            act()
    assert f"{HISTORY}/{STATES}" in [problem.where for problem in check_channel(folder.path).findings]
    assert kept(folder.notes) == before
    does(error.value)
    assert folder.publish(coming).state == 2
    assert shown(folder.path) == {"digit1", "digit2", "digit8"}
    assert check_channel(folder.path).findings == ()
    folder.rollback()
    assert shown(folder.path) == {"digit1", "digit2"}


@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_state_that_is_not_whole_is_named_and_the_next_step_works(folder: Folder, coming: Path, damage: str) -> None:
    place = folder.notes / "2"
    if damage == "lost":
        shutil.rmtree(place)
    else:
        (place / "linux-64" / "repodata.json").write_bytes(b"no JSON")
    with pytest.raises(ChannelBroken, match=r"state 2 of .* has lost index files") as error:
        folder.publish(coming)
    assert shown(folder.path) >= {"digit1", "digit2"}
    assert f"delete {folder.notes / STATES}" in error.value.step
    (folder.notes / STATES).unlink()
    folder.publish(coming)
    assert check_channel(folder.path).findings == ()


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_names_stop_a_run_and_its_next_step_works(folder: Folder, coming: Path, content: bytes) -> None:
    file = folder.notes / NAMES
    noted = json.loads(file.read_bytes())
    file.write_bytes(content)
    for act in (folder.names, lambda: folder.publish(coming)):
        with pytest.raises(ChannelBroken, match=r"names\.json cannot be read") as error:
            act()
    does(error.value)
    folder.publish(coming)
    assert json.loads(file.read_bytes()).items() >= noted.items()


@pytest.mark.parametrize("content", [*DAMAGED, b'{"linux-64/digit2-1.0-h0_0.conda": "2027-01-15"}'], ids=range(4))
@pytest.mark.parametrize("name", [TIMES, UNUSED])
def test_damaged_times_lose_nothing(folder: Folder, coming: Path, name: str, content: bytes) -> None:
    (folder.notes / name).write_bytes(content)
    times = read_index(folder.path).times()
    # Months later: of a package of which is not known since when it is unused, that is from now on.
    later = replace(folder, now=lambda: START + timedelta(days=90), keep=replace(folder.keep, states=1))
    assert later.publish(coming).deleted == ()
    assert read_index(folder.path).times().items() >= times.items()
    # Whose a package is that left the index is not known then.
    assert {f.check for f in check_channel(folder.path).findings} == ({"orphan"} if name == TIMES else set())


def test_the_commands_say_it_in_words(folder: Folder, run_ctk: Callable[..., Result]) -> None:
    www = str(folder.path)
    (folder.notes / NAMES).write_text("{")
    for words in (("publish", "--to", www), ("check", "--published", www)):
        assert isinstance(run_ctk(*words).exception, ChannelBroken)
    (folder.notes / STATES).write_text("{")
    for words in (("rollback", www), ("rollback", www, "--to", "1")):
        assert isinstance(run_ctk(*words).exception, ChannelBroken)
