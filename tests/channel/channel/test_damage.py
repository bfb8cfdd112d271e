"""A published folder after wrong clocks, growth, kills and damage, and with files that are not
ours.
"""

from __future__ import annotations

import json
import re
import shlex
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
from ctk.channel.publish import NAMES, SITE, TIMES, UNUSED, Folder, Keep
from ctk.channel.repodata import read_index
from ctk.core.checkout import HISTORY, Workspace
from ctk.core.errors import ChannelBroken, NotReady, UnknownName
from kit.small_channels import build, digit, sound

pytest_plugins = ["kit.channel_fixtures"]

START = datetime(2026, 1, 1, tzinfo=UTC)
TWO = "linux-64/digit2-1.0-h0_0.conda"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "www", tmp_path / "recipes", Keep(states=2, unused=timedelta(days=7)))


def at(folder: Folder, moment: datetime | int) -> Folder:
    """The folder at a time, or so many days after `START`."""
    now = moment if isinstance(moment, datetime) else START + timedelta(days=moment)
    return replace(folder, now=lambda: now)


def channel(place: Path, *digits: int) -> Path:
    return build(place / "-".join(map(str, digits)), *(sound(digit(number)) for number in digits))


def files(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("year", [1990, 2023, 2040])
def test_with_a_clock_that_is_clearly_wrong_nothing_is_published(
    folder: Folder, tmp_path: Path, year: int
) -> None:
    """The packages were made in November 2023, and the channel was built now."""
    built = channel(tmp_path, 1)
    with pytest.raises(NotReady, match=rf"the clock of this machine says {year}-01-01") as error:
        at(folder, datetime(year, 1, 1, tzinfo=UTC)).publish(built)
    assert error.value.step.startswith("set it; `date -u` shows it")
    assert not folder.path.exists()
    at(folder, 0).publish(built)
    before = files(folder.path)
    with pytest.raises(NotReady):
        at(folder, datetime(year, 1, 1, tzinfo=UTC)).publish(built)
    assert files(folder.path) == before


@pytest.mark.parametrize("year", [1990, 2040])
def test_what_was_published_with_a_wrong_clock_is_dated_anew_by_the_next_publish(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: int
) -> None:
    wrong, built = at(folder, datetime(year, 1, 1, tzinfo=UTC)), channel(tmp_path, 1)
    with monkeypatch.context() as patch:  # as ctk did once
        patch.setattr(Folder, "_check_clock", lambda *_: None)
        wrong.publish(channel(tmp_path, 1, 2))
        wrong.publish(built, exact=True)
        replace(wrong, keep=Keep(1)).publish(built, exact=True)
    at(folder, 3).publish(built)
    assert check_channel(folder.path).findings == ()
    now = (START + timedelta(days=3)).isoformat(timespec="milliseconds")
    assert set(read_index(folder.path).times().values()) == {now}
    assert {*json.loads((folder.path / HISTORY / UNUSED).read_bytes()).values()} == {now}
    assert all(
        datetime.fromisoformat(state.made) <= START + timedelta(days=3)
        for state in folder.history().states
    )
    assert at(folder, 9).publish(built).deleted == ()
    assert at(folder, 10).publish(built).deleted == (TWO,)


def test_files_of_others_stay(folder: Folder, tmp_path: Path) -> None:
    www = at(folder, 0)
    www.publish(channel(tmp_path, 1, 2))
    others = [
        folder.path / name
        for name in ("other/a-1-0.conda", "other/.a.1.part", "linux-64/a-1-0.conda")
    ]
    others += [
        folder.path / "linux-64" / name
        for name in (".a-1-0.conda.7.part", ".rsync.part", f".{Path(TWO).name}")
    ]
    for file in others:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"theirs")
    # A note of their file, which an older ctk wrote.
    (folder.path / HISTORY / UNUSED).write_text(
        json.dumps({"linux-64/a-1-0.conda": START.isoformat()})
    )
    for day in (30, 60):
        assert at(folder, day).publish(channel(tmp_path, 1, 2)).deleted == ()
    assert {file.read_bytes() for file in others} == {b"theirs"}
    said = {
        f.message for f in check_channel(folder.path).findings if f.where.startswith("linux-64/")
    }
    assert said == {"the index does not name it"}


def test_what_a_killed_publish_left_is_known_as_ours_and_leaves(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(folder, 0).publish(channel(tmp_path, 1))

    def killed(*_: object) -> None:
        half = folder.path / "linux-64" / f".{Path(TWO).name}.77.part"
        half.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Folder, "_new_state", killed)
        at(folder, 1).publish(channel(tmp_path, 1, 2, 4))
    messages = {f.message for f in check_channel(folder.path).findings}
    assert "a killed run left it; the next one removes it" in messages
    whole = "the index does not name it: a killed run brought it, and the next one completes the"
    assert f"{whole} index" in messages
    at(folder, 2).publish(channel(tmp_path, 1, 2))
    assert check_channel(folder.path).findings == ()
    assert not list(folder.path.rglob("*.part"))
    assert at(folder, 9).publish(channel(tmp_path, 1, 2)).deleted == (
        "linux-64/digit4-1.0-h0_0.conda",
    )


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_a_damaged_package_is_named_by_a_rollback_and_replaced_by_the_next_publish(
    folder: Folder, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    built, folder = channel(tmp_path, 1, 2), replace(folder, keep=Keep())
    at(folder, 0).publish(built)
    at(folder, 1).publish(channel(tmp_path, 1), exact=True)
    damage(folder.path / TWO)
    with pytest.raises(ChannelBroken, match=rf"state 1 of .* lacks {TWO}") as error:
        folder.rollback()
    assert f"ctk publish FOLDER --to {folder.path}" in error.value.step
    done = at(folder, 2).publish(built)
    assert TWO in (*done.repaired, *done.added)
    assert check_channel(folder.path).findings == ()
    assert folder.rollback(1).packages == 2


def test_publish_and_rollback_name_a_site_beside_the_folder_that_does_not_show_the_change(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    www, said = (
        tmp_path / "www",
        f"{tmp_path / 'www-site'}: these pages are older than this; run the same `ctk site`",
    )
    assert "ctk site" not in run_ctk("publish", "--to", str(www)).stdout, "there is none"
    (tmp_path / "www-site").mkdir()
    (tmp_path / "www-site" / SITE).touch()
    assert "ctk site" not in run_ctk("publish", "--to", str(www)).stdout, "nothing changed"
    build(two_states.channel, digit(8))
    assert said in run_ctk("publish", "--to", str(www)).stdout
    assert said in run_ctk("rollback", str(www), "--to", "1").stdout


def test_a_site_in_the_folder_is_no_platform_of_the_channel(published: Folder) -> None:
    (published.path / "site").mkdir()
    for name in (SITE, "index.html"):
        (published.path / "site" / name).touch()
    assert check_channel(published.path).findings == ()


def test_the_step_for_a_folder_without_its_history_repairs_it(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    """It is typed as it is printed: the folder has a space."""
    www = str(tmp_path / "my cuda")
    run_ctk("publish", "--to", www)
    for lost in (HISTORY, f"{HISTORY}/{STATES}"):
        place = Path(www, lost)
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        refused = run_ctk("rollback", www).exception
        assert isinstance(refused, UnknownName) and "is gone" in refused.cause
        program, *words = shlex.split(refused.step.partition("; ")[0])
        assert (program, words) == ("ctk", ["publish", "FOLDER", "--to", www])
        words[1] = str(two_states.channel)
        assert run_ctk(*words).exception is None
        assert run_ctk("rollback", www).exception is None


def test_a_package_that_nobody_has_is_named_by_publish(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    www = tmp_path / "www"
    run_ctk("publish", "--to", str(www))
    (www / TWO).unlink()
    build(two_states.channel, digit(1))  # without the other one
    refused = run_ctk("publish", "--to", str(www)).exception
    assert isinstance(refused, ChannelBroken) and f"has lost {TWO}" in refused.cause
    assert run_ctk("publish", "--to", str(www), "--exact", "--yes").exception is None


@pytest.mark.parametrize("lost", ["2", NAMES])
def test_check_names_what_the_next_run_would_stop_at(
    published: Folder, coming: Path, lost: str
) -> None:
    published.rollback(2)
    place = published.notes / lost
    shutil.rmtree(place) if place.is_dir() else place.write_text("{")
    messages = [finding.message for finding in check_channel(published.path).findings]
    assert lost in "\n".join(messages)
    with pytest.raises(ChannelBroken):
        published.publish(coming)


@pytest.mark.parametrize("name", [TWO, "linux-64/repodata.json"])
def test_the_command_says_what_was_damaged_and_is_written_again(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path, name: str
) -> None:
    www = tmp_path / "www"
    run_ctk("publish", "--to", str(www))
    cut(www / name)
    # The question about licences is for packages that are new.
    assert len(Folder(www, www).known()) == 2
    said = run_ctk("publish", "--to", str(www)).stdout
    assert "2 packages, 0 new" in said and f"damaged and written again: {name}" in said
    cut(www / name)
    assert json.loads(run_ctk("publish", "--to", str(www), "--json").stdout)["repaired"] == [name]


# Damaged or lost notes: kept states are never overwritten.

DAMAGED = [b"", b"[]", b'{"x": 7, "states": 7}']


@pytest.fixture
def published(tmp_path: Path) -> Folder:
    """A published folder with two states, of which the first is shown."""
    made = Folder(tmp_path / "www", tmp_path, now=lambda: START)
    made.publish(channel(tmp_path, 1, 2))
    made.publish(channel(tmp_path, 1, 4))
    made.rollback(1)
    return made


@pytest.fixture
def coming(tmp_path: Path) -> Path:
    return channel(tmp_path, 1, 8)


def kept(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*/*/*") if path.is_file()}


def shown(place: Path) -> set[str]:
    return {record["name"] for record in read_index(place).records.values()}


def does(error: ChannelBroken) -> None:
    """Runs the command in the next step of an error."""
    (command,) = re.findall(r"\((rm [^)]+)\)", error.step)
    subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_history_stops_a_run_and_its_next_step_works(
    published: Folder, coming: Path, content: bytes
) -> None:
    before, file = kept(published.notes), published.notes / STATES
    file.write_bytes(content)
    for act in (published.history, published.rollback, lambda: published.publish(coming)):
        with pytest.raises(ChannelBroken, match=r"history\.json cannot be read") as error:
            act()
    assert f"{HISTORY}/{STATES}" in [
        problem.where for problem in check_channel(published.path).findings
    ]
    assert kept(published.notes) == before
    does(error.value)
    assert published.publish(coming).state == 2
    assert shown(published.path) == {"digit1", "digit2", "digit8"}
    assert check_channel(published.path).findings == ()
    published.rollback()
    assert shown(published.path) == {"digit1", "digit2"}


@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_shown_state_that_is_not_whole_is_named_and_the_next_step_works(
    published: Folder, coming: Path, damage: str
) -> None:
    place = published.notes / "1"
    if damage == "lost":
        shutil.rmtree(place)
    else:
        (place / "linux-64" / "repodata.json").write_bytes(b"no JSON")
    with pytest.raises(ChannelBroken, match=r"state 1 of .* has lost index files") as error:
        published.publish(coming)
    assert [*published.changes(published.history()).values()] == [None]
    assert shown(published.path) == {"digit1", "digit2"}, "readers see no change"
    assert f"delete {published.notes / STATES}" in error.value.step
    (published.notes / STATES).unlink()
    published.publish(coming)
    assert check_channel(published.path).findings == ()


def test_of_the_states_only_one_that_lost_files_is_forgotten(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    www = Folder(tmp_path / "www", tmp_path)
    for number in (4, 1, 2):
        build(two_states.channel, sound(digit(number)))
        run_ctk("publish", "--to", str(www.path))
    (www.notes / "2" / "linux-64" / "repodata.json").unlink()
    refused = run_ctk("rollback", str(www.path), "--to", "2").exception
    assert isinstance(refused, ChannelBroken) and "return to another state" in refused.step
    offered = run_ctk("rollback", str(www.path)).stdout
    assert "you cannot return to state 2, whose index files are lost\n" in offered
    assert re.findall(r"^\W*(\d) ", offered, re.M) == ["1", "3"]
    build(two_states.channel, sound(digit(8)))
    assert (
        "forgotten, because their index files are lost: state 2\n"
        in run_ctk("publish", "--to", str(www.path)).stdout
    )
    assert [(state.number, state.before) for state in www.history().states] == [
        (1, None),
        (3, None),
        (4, 3),
    ]
    assert check_channel(www.path).findings == ()
    assert run_ctk("rollback", str(www.path), "--to", "1").exception is None and shown(
        www.path
    ) == {"digit4"}


def test_a_history_that_is_gone_is_said(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    www, words = Folder(tmp_path / "www", tmp_path), ("publish", "--to", str(tmp_path / "www"))
    for number in (4, 1):
        build(two_states.channel, sound(digit(number)))
        assert "no history" not in run_ctk(*words).stdout
    shutil.rmtree(www.notes)
    said = "had no history: what readers saw before is now its first state"
    assert said in " ".join(run_ctk(*words).stdout.split())
    assert [state.number for state in www.history().states] == [1]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_names_stop_a_run_and_its_next_step_works(
    published: Folder, coming: Path, content: bytes
) -> None:
    file = published.notes / NAMES
    noted = json.loads(file.read_bytes())
    file.write_bytes(content)
    for act in (published.names, lambda: published.publish(coming)):
        with pytest.raises(ChannelBroken, match=r"names\.json cannot be read") as error:
            act()
    does(error.value)
    published.publish(coming)
    assert json.loads(file.read_bytes()).items() >= noted.items()


@pytest.mark.parametrize(
    "content", [*DAMAGED, b'{"linux-64/digit2-1.0-h0_0.conda": "2027-01-15"}'], ids=range(4)
)
@pytest.mark.parametrize("name", [TIMES, UNUSED])
def test_damaged_times_lose_nothing(
    published: Folder, coming: Path, name: str, content: bytes
) -> None:
    (published.notes / name).write_bytes(content)
    times = read_index(published.path).times()
    # Months later: a package counts as unused from now on if its note is lost.
    later = replace(
        published, now=lambda: START + timedelta(days=90), keep=replace(published.keep, states=1)
    )
    assert later.publish(coming).deleted == ()
    assert read_index(published.path).times().items() >= times.items()
    # Without the times, a package that left the index is not known to be ours.
    assert {f.check for f in check_channel(published.path).findings} == (
        {"orphan"} if name == TIMES else set()
    )
