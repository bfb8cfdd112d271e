"""The way back: states of built channels and of published folders, and what is not possible."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from small_channels import build, digit
from typer.testing import Result

from ctk.channel import states
from ctk.channel.folder import HISTORY, Folder, Keep
from ctk.channel.index_files import read_index
from ctk.channel.states import History, State
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, ChannelBroken, ChannelMissing, UnknownName

pytest_plugins = ["channel_fixtures"]


def names(place: Path) -> set[str]:
    return {record["name"] for record in read_index(place).records.values()}


class BuiltChannel:
    """A built channel, whose states are made, listed and returned to."""

    def __init__(self, home: Path) -> None:
        self.path = home / "channel"

    def make(self, *digits: int) -> Path:
        return build(self.path, *map(digit, digits))

    def rollback(self, number: int | None = None) -> State:
        return states.rollback(self.path, number)

    def history(self) -> History:
        return states.history(self.path)


class PublishedFolder(BuiltChannel):
    """A published folder, with the same states."""

    def __init__(self, home: Path) -> None:
        self.path, self.home = home / "www", home
        self.folder = Folder(self.path, home, Keep(states=states.KEPT))

    def make(self, *digits: int) -> Path:
        self.folder.publish(build(self.home / "source", *map(digit, digits)), exact=True)
        return self.path

    def rollback(self, number: int | None = None) -> State:
        return self.folder.rollback(number)

    def history(self) -> History:
        return self.folder.history()


@pytest.fixture(params=[BuiltChannel, PublishedFolder])
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> BuiltChannel:
    made: BuiltChannel = request.param(tmp_path)
    return made


def test_a_channel_returns_to_the_state_before_and_forth(channel: BuiltChannel) -> None:
    for digits in ((1,), (1, 2), (3,)):
        channel.make(*digits)
    assert (channel.rollback().number, names(channel.path)) == (2, {"digit1", "digit2"})
    assert (channel.rollback().packages, names(channel.path)) == (1, {"digit1"})
    assert channel.history().current == 1
    assert (channel.rollback(3).number, names(channel.path)) == (3, {"digit3"})


def test_after_a_return_the_next_state_follows_the_one_that_readers_saw(channel: BuiltChannel) -> None:
    channel.make(1)
    channel.make(2)
    channel.rollback()
    channel.make(3)
    assert (channel.history().current, names(channel.path)) == (3, {"digit3"})
    assert (channel.rollback().number, names(channel.path)) == (1, {"digit1"})


def test_publishing_after_a_return_adds_to_what_readers_see_then(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    for number in (1, 2):
        folder.publish(build(tmp_path / str(number), digit(number)))
    folder.rollback()
    folder.publish(build(tmp_path / "3", digit(3)))
    assert names(folder.path) == {"digit1", "digit3"}


def test_only_as_many_states_are_kept_as_asked_for_and_a_reader_of_one_sees_it_whole(channel: BuiltChannel) -> None:
    seen = channel.make(1, 2)
    for number in range(3, 3 + states.KEPT - 1):
        channel.make(number)
        if isinstance(channel, PublishedFolder):
            seen = channel.path / HISTORY / "1"
        assert names(seen) == {"digit1", "digit2"}
    channel.make(9)
    assert not seen.exists()
    assert [s.number for s in channel.history().states] == [2, 3, 4]
    with pytest.raises(UnknownName, match="no state 1; kept are 2, 3, 4"):
        channel.rollback(1)


def test_what_is_not_possible_is_said(channel: BuiltChannel, tmp_path: Path) -> None:
    no_state = "no state before the one it shows; no state is kept|nothing was published into"
    with pytest.raises(UnknownName, match=no_state):
        channel.rollback()
    channel.make(1)
    for number, words in (
        (None, "no state before the one it shows; kept are 1"),
        (7, "no state 7; kept are 1"),
        (1, "shows state 1 already"),
    ):
        with pytest.raises(UnknownName, match=words):
            channel.rollback(number)
    (tmp_path / "plain").mkdir()
    with pytest.raises(UnknownName, match="is no channel that ctk built"):
        states.rollback(tmp_path / "plain")


def test_a_state_that_is_not_whole_is_not_returned_to(channel: BuiltChannel) -> None:
    first = channel.make(2)
    channel.make(4)
    (first / "linux-64" / "digit2-1.0-h0_0.conda").unlink()
    with pytest.raises(ChannelBroken, match=r"state 1 of .* (lacks linux-64/digit2-1\.0-h0_0\.conda|is not whole)"):
        channel.rollback()
    assert names(channel.path) == {"digit4"}


def test_nothing_is_left_beside_what_is_no_channel(two_states: Workspace, run_ctk: Callable[..., Result]) -> None:
    words = two_states.root / "README.md"
    words.write_text("words\n")
    before = sorted(two_states.root.iterdir())
    refused = run_ctk("channel", "rollback", str(words)).exception
    assert isinstance(refused, UnknownName)
    assert "is no channel that ctk built" in refused.cause
    assert [path for path in sorted(two_states.root.iterdir()) if path not in before] == []


def test_the_commands(two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path) -> None:
    www = str(tmp_path / "www")
    assert "state 1 of" in run_ctk("publish", "--to", www).stdout
    assert "shows state 1" in run_ctk("channel", "rollback").stdout
    assert names(two_states.channel) == {"digit1"}
    assert "1 package, 0 new, 1 no longer in the index" in run_ctk("publish", "--to", www, "--exact").stdout
    listed = json.loads(run_ctk("channel", "history", www, "--json").stdout)
    shown = [(s["number"], s["before"], s["packages"], s["current"]) for s in listed["states"]]
    assert shown == [(1, None, 2, False), (2, 1, 1, True)]
    assert "readers see it" in run_ctk("channel", "history").stdout
    assert "shows state 1" in run_ctk("channel", "rollback", www).stdout
    assert names(tmp_path / "www") == {"digit1", "digit2"}
    refused = run_ctk("channel", "rollback", www, "--to", "9")
    assert isinstance(refused.exception, UnknownName)
    assert refused.exception.step == f"see `ctk channel history {www}`"
    for command in ("history", "rollback"):
        assert isinstance(run_ctk("channel", command, "absent").exception, ChannelMissing)
        assert isinstance(run_ctk("channel", command, "https://conda.example.org/cuda").exception, BadValue)
    assert isinstance(run_ctk("publish").exception, BadValue)
