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
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, ChannelBroken, UnknownName

pytest_plugins = ["channel_fixtures"]


def names(place: Path) -> set[str]:
    found = set()
    for repodata in place.glob("*/repodata.json"):
        found |= {record["name"] for record in json.loads(repodata.read_text())["packages.conda"].values()}
    return found


def test_a_built_channel_returns_to_the_state_before_and_forth(tmp_path: Path) -> None:
    place = tmp_path / "channel"
    build(place, digit(1))
    build(place, digit(1), digit(2))
    assert names(place) == {"digit1", "digit2"}
    assert states.rollback(place).packages == 1
    assert names(place) == {"digit1"}
    known = states.history(place)
    assert known.current == known.states[0].number
    states.rollback(place, known.states[1].number)
    assert names(place) == {"digit1", "digit2"}


def test_after_a_return_the_next_state_follows_the_one_that_readers_saw(tmp_path: Path) -> None:
    place = tmp_path / "channel"
    build(place, digit(1))
    build(place, digit(2))
    states.rollback(place)
    build(place, digit(3))
    assert names(place) == {"digit3"}
    assert states.rollback(place).number == 1
    assert names(place) == {"digit1"}


def test_a_reader_that_followed_the_link_keeps_a_whole_state_while_newer_ones_are_made(tmp_path: Path) -> None:
    place = tmp_path / "channel"
    seen = build(place, digit(1), digit(2))
    for number in range(3, 3 + states.KEPT - 1):
        build(place, digit(number))
        for repodata in seen.glob("*/repodata.json"):
            for file in json.loads(repodata.read_text())["packages.conda"]:
                assert (repodata.parent / file).is_file()
    assert names(seen) == {"digit1", "digit2"}
    build(place, digit(9))
    assert not seen.exists()
    assert len(states.history(place).states) == states.KEPT


def test_a_channel_from_before_there_was_a_history_has_the_state_that_it_shows(tmp_path: Path) -> None:
    place = tmp_path / "channel"
    build(place, digit(1))
    (tmp_path / ".channel-states" / "history.json").unlink()
    assert [s.packages for s in states.history(place).states] == [1]
    build(place, digit(2))
    assert states.rollback(place).number == 1


def test_a_published_folder_returns_to_the_index_before(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(1)))
    folder.publish(build(tmp_path / "two", digit(2)))
    folder.publish(build(tmp_path / "three", digit(3)), exact=True)
    assert names(folder.path) == {"digit3"}
    assert folder.rollback().number == 2
    assert names(folder.path) == {"digit1", "digit2"}
    assert folder.rollback().number == 1
    assert names(folder.path) == {"digit1"}
    assert folder.rollback(3).number == 3
    assert names(folder.path) == {"digit3"}


def test_publishing_after_a_return_adds_to_what_readers_see_then(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(1)))
    folder.publish(build(tmp_path / "two", digit(2)))
    folder.rollback()
    assert folder.publish(build(tmp_path / "three", digit(3))).state == 3
    assert names(folder.path) == {"digit1", "digit3"}
    assert folder.rollback().number == 1


def test_what_is_not_possible_is_said(tmp_path: Path) -> None:
    place = tmp_path / "channel"
    with pytest.raises(UnknownName, match="no state before the one it shows; no state is kept"):
        states.rollback(place)
    build(place, digit(1))
    with pytest.raises(UnknownName, match="no state before the one it shows; kept are 1"):
        states.rollback(place)
    with pytest.raises(UnknownName, match="no state 7; kept are 1"):
        states.rollback(place, 7)
    with pytest.raises(UnknownName, match="shows state 1 already"):
        states.rollback(place, 1)
    (tmp_path / "plain").mkdir()
    with pytest.raises(UnknownName, match="is no channel that ctk built"):
        states.rollback(tmp_path / "plain")
    with pytest.raises(UnknownName, match="nothing was published into"):
        Folder(tmp_path / "plain", tmp_path).rollback()


def test_nothing_is_left_beside_what_is_no_channel(two_states: Workspace, run_ctk: Callable[..., Result]) -> None:
    words = two_states.root / "README.md"
    words.write_text("words\n")
    before = sorted(two_states.root.iterdir())
    refused = run_ctk("channel", "rollback", str(words)).exception
    assert isinstance(refused, UnknownName)
    assert "is no channel that ctk built" in refused.cause
    assert [path for path in sorted(two_states.root.iterdir()) if path not in before] == []


def test_a_state_that_is_not_whole_is_not_returned_to(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(2)))
    folder.publish(build(tmp_path / "two", digit(4)), exact=True)
    (folder.path / "linux-64" / "digit2-1.0-h0_0.conda").unlink()
    with pytest.raises(ChannelBroken, match=r"state 1 of .* lacks linux-64/digit2-1\.0-h0_0\.conda"):
        folder.rollback()
    assert names(folder.path) == {"digit4"}
    place = tmp_path / "channel"
    first = build(place, digit(2))
    build(place, digit(4))
    (first / "linux-64" / "digit2-1.0-h0_0.conda").unlink()
    with pytest.raises(ChannelBroken, match=r"state 1 of .* is not whole"):
        states.rollback(place)
    assert names(place) == {"digit4"}


def test_only_as_many_states_are_kept_as_asked_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path, Keep(states=3))
    for number in range(1, 7):
        folder.publish(build(tmp_path / str(number), digit(number)))
    assert [s.number for s in folder.history().states] == [4, 5, 6]
    assert {p.name for p in (folder.path / HISTORY).iterdir() if p.is_dir()} == {"4", "5", "6"}
    with pytest.raises(UnknownName, match="no state 1; kept are 4, 5, 6"):
        folder.rollback(1)


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
    assert "no state 9; kept are 1, 2" in refused.exception.cause
    assert refused.exception.step == f"see `ctk channel history {www}`"
    for words in (("history", "absent"), ("rollback", "absent")):
        assert isinstance(run_ctk("channel", *words).exception, UnknownName)
        assert isinstance(run_ctk("channel", words[0], "https://conda.example.org/cuda").exception, BadValue)
    assert isinstance(run_ctk("publish").exception, BadValue)
