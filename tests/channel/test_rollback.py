"""The way back: states of published folders, and what is not possible."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ctk.channel.publish import Folder, Keep
from ctk.channel.repodata import read_index
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelMissing, UnknownName
from kit.small_channels import build, digit

pytest_plugins = ["kit.channel_fixtures"]


def names(place: Path) -> set[str]:
    return {record["name"] for record in read_index(place).records.values()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "www", tmp_path, Keep(states=3))


def make(folder: Folder, *digits: int, exact: bool = True) -> None:
    folder.publish(build(folder.recipes / "source", *map(digit, digits)), exact=exact)


def test_a_folder_returns_to_the_state_before_and_forth(folder: Folder) -> None:
    for digits in ((1,), (1, 2), (3,)):
        make(folder, *digits)
    assert (folder.rollback().number, names(folder.path)) == (2, {"digit1", "digit2"})
    assert (folder.rollback().packages, names(folder.path)) == (1, {"digit1"})
    assert folder.history().current == 1
    assert (folder.rollback(3).number, names(folder.path)) == (3, {"digit3"})


def test_after_a_return_the_next_state_follows_and_adds_to_the_one_that_readers_saw(folder: Folder) -> None:
    make(folder, 1)
    make(folder, 2)
    folder.rollback()
    make(folder, 3, exact=False)
    assert (folder.history().current, names(folder.path)) == (3, {"digit1", "digit3"})
    assert (folder.rollback().number, names(folder.path)) == (1, {"digit1"})


def test_only_as_many_states_are_kept_as_asked_for(folder: Folder) -> None:
    for number in range(1, 5):
        make(folder, number)
    assert [s.number for s in folder.history().states] == [2, 3, 4]
    with pytest.raises(UnknownName, match="no state 1; kept are 2, 3, 4"):
        folder.rollback(1)


def test_what_is_not_possible_is_said(folder: Folder) -> None:
    make(folder, 1)
    for number, words in (
        (None, "no state before the one it shows; kept are 1"),
        (7, "no state 7; kept are 1"),
        (1, "shows state 1 already"),
    ):
        with pytest.raises(UnknownName, match=words):
            folder.rollback(number)


def test_the_commands(two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path) -> None:
    www = str(tmp_path / "www")
    assert "state 1 of" in run_ctk("publish", "--to", www).stdout
    build(two_states.channel, digit(1))
    assert "1 package, 0 new, 1 no longer in the index" in run_ctk("publish", "--to", www, "--exact").stdout
    listed = json.loads(run_ctk("rollback", www, "--json").stdout)
    shown = [(s["number"], s["before"], s["packages"], s["current"]) for s in listed["states"]]
    assert shown == [(1, None, 2, False), (2, 1, 1, True)]
    assert "readers see it" in run_ctk("rollback", www).stdout
    assert "shows state 1" in run_ctk("rollback", www, "--to", "1").stdout
    assert names(tmp_path / "www") == {"digit1", "digit2"}
    refused = run_ctk("rollback", www, "--to", "9")
    assert isinstance(refused.exception, UnknownName)
    assert refused.exception.step == f"see `ctk rollback {www}`"
    assert isinstance(run_ctk("rollback", "absent").exception, ChannelMissing)
    built = run_ctk("rollback", str(two_states.channel)).exception
    assert isinstance(built, UnknownName) and "nothing was published into" in built.cause
