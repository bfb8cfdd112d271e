"""Notes of a published folder or of a built channel that are damaged or lost: nothing that is kept is written over."""

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
from small_channels import build, digit, sound
from typer.testing import Result

from ctk.channel import states
from ctk.channel.folder import HISTORY, NAMES, TIMES, UNUSED, Folder
from ctk.channel.index_files import read_index
from ctk.channel.states import STATES
from ctk.check.channel import check_channel
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken

pytest_plugins = ["channel_fixtures"]

REPODATA = "linux-64/repodata.json"
START = datetime(2027, 1, 15, 8, tzinfo=UTC)
DAMAGED = [b"", b"[]", b"\xff", b"[" * 100_000, b'{"x": 7}']
STATE = b'{"number": %s, "before": null, "made": "%s", "packages": 1}'
MADE = b"2027-01-15T08:00:00+00:00"
HISTORIES = [
    *DAMAGED,
    b'{"states": [7], "current": 1}',
    b'{"states": [], "current": 3}',
    b'{"states": [], "current": true}',
    b'{"states": [%s], "current": "../../x"}' % (STATE % (b'"../../x"', MADE)),
    b'{"states": [%s], "current": 1}' % (STATE % (b"1", b"today")),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a published folder and a built channel, each with three states, of which the second is shown.

    What left the index of the published folder is digit2; beside it is the channel that is published next.
    """
    place = tmp_path_factory.mktemp("original")
    www = Folder(place / "www", place, now=lambda: START)
    www.publish(build(place / "one", sound(digit(1)), sound(digit(2))))
    www.publish(build(place / "two", sound(digit(1)), sound(digit(4))), exact=True)
    www.publish(build(place / "three", sound(digit(1)), sound(digit(6))))
    www.rollback(2)
    build(place / "next", sound(digit(1)), sound(digit(8)))
    for number in (1, 2, 3):
        build(place / "channel", *map(digit, range(1, number + 1)))
    states.rollback(place / "channel")
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return Path(shutil.copytree(original, tmp_path / "copy", symlinks=True))


@pytest.fixture
def folder(place: Path) -> Folder:
    return Folder(place / "www", place, now=lambda: START)


@pytest.fixture
def four(place: Path) -> Path:
    """What is published next."""
    return (place / "next").resolve()


def kept_states(folder: Folder) -> dict[str, bytes]:
    """The kept states, file by file."""
    place = folder.path / HISTORY
    return {p.relative_to(place).as_posix(): p.read_bytes() for p in sorted(place.glob("*/*/*"))}


def shown(place: Path) -> set[str]:
    return {record["name"] for record in read_index(place).records.values()}


def does(error: ChannelBroken) -> None:
    """Does what the next step of an error says, as a shell would."""
    commands = re.findall(r"\((rm [^)]+)\)", error.step)
    assert len(commands) == 1
    subprocess.run(["sh", "-c", commands[0]], check=True)


@pytest.mark.parametrize("content", HISTORIES, ids=range(len(HISTORIES)))
def test_a_damaged_history_stops_a_run_and_its_next_step_works(folder: Folder, four: Path, content: bytes) -> None:
    before, file = kept_states(folder), folder.path / HISTORY / STATES
    file.write_bytes(content)
    for act in (folder.history, folder.rollback, lambda: folder.publish(four)):
        with pytest.raises(ChannelBroken, match=r"history\.json cannot be read") as error:
            act()
    assert f"{HISTORY}/{STATES}" in [problem.where for problem in check_channel(folder.path).findings]
    assert kept_states(folder) == before
    assert shown(folder.path) == {"digit1", "digit4"}
    does(error.value)
    assert [(s.number, s.before, s.packages) for s in folder.history().states] == [(1, None, 2), (2, 1, 2), (3, 2, 3)]
    assert folder.history().current == 2
    assert folder.publish(four).state == 4
    assert kept_states(folder).items() >= before.items()
    assert check_channel(folder.path).findings == ()
    assert folder.rollback(1).packages == 2
    assert shown(folder.path) == {"digit1", "digit2"}


def test_what_readers_see_becomes_a_state_where_no_state_is_it(folder: Folder, four: Path) -> None:
    (folder.path / HISTORY / STATES).unlink()
    shutil.rmtree(folder.path / HISTORY / "2")
    before = kept_states(folder)
    assert folder.history().current is None
    assert folder.publish(four).state == 5
    assert kept_states(folder).items() >= before.items()
    assert shown(folder.path / HISTORY / "4") == {"digit1", "digit4"}
    assert shown(folder.path) == {"digit1", "digit4", "digit8"}


@pytest.mark.parametrize("damage", ["lost", "lost in part", "no JSON"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_state_that_is_not_whole_is_named_and_the_next_step_works(
    folder: Folder, four: Path, damage: str, number: int
) -> None:
    place = folder.path / HISTORY / str(number)
    if damage == "lost":
        shutil.rmtree(place)
    elif damage == "lost in part":
        (place / REPODATA).unlink()
    else:
        (place / REPODATA).write_bytes(b"no JSON")
    with pytest.raises(ChannelBroken, match=f"state {number} of .* (has lost index files|cannot be read)") as error:
        folder.publish(four)
    assert shown(folder.path) >= {"digit1", "digit4"}
    assert f"delete it with {folder.path / HISTORY / STATES}" in error.value.step
    shutil.rmtree(place, ignore_errors=True)
    (folder.path / HISTORY / STATES).unlink()
    folder.publish(four)
    assert shown(folder.path) == {"digit1", "digit4", "digit8"}
    assert folder.history().shown is not None


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_names_stop_a_run_and_its_next_step_works(folder: Folder, four: Path, content: bytes) -> None:
    file = folder.path / HISTORY / NAMES
    noted = json.loads(file.read_bytes())
    file.write_bytes(content)
    for act in (folder.names, lambda: folder.publish(four)):
        with pytest.raises(ChannelBroken, match=r"names\.json cannot be read") as error:
            act()
    does(error.value)
    folder.publish(four)
    assert json.loads(file.read_bytes()).items() >= noted.items()


@pytest.mark.parametrize(
    "content", [*DAMAGED, b'{"linux-64/digit2-1.0-h0_0.conda": "2027-01-15"}'], ids=range(len(DAMAGED) + 1)
)
@pytest.mark.parametrize("name", [TIMES, UNUSED])
def test_damaged_times_lose_nothing(folder: Folder, four: Path, name: str, content: bytes) -> None:
    (folder.path / HISTORY / name).write_bytes(content)
    times = read_index(folder.path).times()
    # Months later: of a package of which is not known since when it is unused, that is from now on.
    later = replace(folder, now=lambda: START + timedelta(days=90), keep=replace(folder.keep, states=1))
    done = later.publish(four)
    assert done.deleted == ()
    assert read_index(folder.path).times().items() >= times.items()
    assert check_channel(folder.path).findings == ()


@pytest.mark.parametrize("content", [*HISTORIES, None], ids=range(len(HISTORIES) + 1))
def test_a_history_of_a_built_channel_that_is_damaged_or_lost(place: Path, content: bytes | None) -> None:
    built, place = place / "channel", place / ".channel-states"
    kept = {p: p.read_bytes() for p in place.rglob("*.conda")}
    if content is None:
        (place / "history.json").unlink()
    else:
        (place / "history.json").write_bytes(content)
        for act in (lambda: states.history(built), lambda: states.rollback(built), lambda: build(built, digit(5))):
            with pytest.raises(ChannelBroken, match=r"history\.json cannot be read") as error:
                act()
        assert {p: p.read_bytes() for p in place.rglob("*.conda")} == kept
        does(error.value)
    known = states.history(built)
    assert [(s.number, s.before, s.packages) for s in known.states] == [(1, None, 1), (2, 1, 2), (3, 2, 3)]
    assert known.current == 2
    assert build(built, digit(5)).name == "4"
    assert states.rollback(built, 3).packages == 3


def test_the_commands_say_it_in_words(folder: Folder, two_states: Workspace, run_ctk: Callable[..., Result]) -> None:
    www = str(folder.path)
    (folder.path / HISTORY / NAMES).write_text("{")
    for words in (("publish", "--to", www), ("channel", "check", "--published", www)):
        assert isinstance(run_ctk(*words).exception, ChannelBroken)
    (folder.path / HISTORY / STATES).write_text("{")
    (two_states.channel.parent / ".channel-states" / "history.json").write_text("{")
    for words in (("channel", "history", www), ("channel", "rollback", www), ("channel", "history")):
        assert isinstance(run_ctk(*words).exception, ChannelBroken)
    assert run_ctk("channel", "rollback").exception.exit_code == 26  # type: ignore[union-attr]
