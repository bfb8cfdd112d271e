"""Publishing into a folder: its files, old packages, permissions, killed runs, and the return to a
state.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from filelock import FileLock
from typer.testing import Result

from ctk.channel.publish import SITE, Folder, Keep, Published
from ctk.channel.repodata import FILES, read_index
from ctk.core import console
from ctk.core.checkout import HISTORY, Workspace
from ctk.core.errors import (
    BadValue,
    Busy,
    ChannelBroken,
    ChannelMissing,
    PublishFailed,
    UnknownName,
    WouldLose,
)
from kit.packages import Draft
from kit.small_channels import Stamp, build, digit

pytest_plugins = ["kit.channel_fixtures"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "www", tmp_path / "recipes")


CLIENTS = ("repodata.json", "repodata.json.zst")
"""The forms of the index that a client takes."""


def seen_by(client: str, folder: Path) -> set[str]:
    """The names in the index of a subdir, as a client reads it.

    Their packages and run exports are there.
    """
    file = folder / client
    content = file.read_bytes()
    text = zstandard.ZstdDecompressor().decompress(content) if file.suffix == ".zst" else content
    records = json.loads(text)["packages.conda"]
    assert (
        records.keys()
        <= json.loads((folder / "run_exports.json").read_bytes())["packages.conda"].keys()
    )
    for name, record in records.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == record["sha256"]
    return {record["name"] for record in records.values()}


def indexed(place: Path) -> set[str]:
    """The names in the index, in which its forms agree."""
    folders = [file.parent for file in place.glob("*/repodata.json")]
    plain, packed = (
        set.union(*(seen_by(client, folder) for folder in folders)) for client in CLIENTS
    )
    assert plain == packed
    return plain


def test_what_is_published_is_what_was_built(folder: Folder, tmp_path: Path) -> None:
    built = build(tmp_path / "channel", digit(1), digit(2))
    done = folder.publish(built)
    assert done == Published(1, 2, done.added, (), (), ())
    assert sorted(done.added) == ["linux-64/digit2-1.0-h0_0.conda", "noarch/digit1-1.0-h0_0.conda"]
    assert indexed(folder.path) == {"digit1", "digit2"}
    assert read_index(folder.path) == read_index(built).dated(folder.times())
    files = {p.relative_to(folder.path).as_posix() for p in folder.path.rglob("*") if p.is_file()}
    visible = {f for f in files if not f.startswith(HISTORY)}
    assert visible == {
        "channel.cdx.json",
        *done.added,
        *(f"{subdir}/{file}" for subdir in ("linux-64", "noarch") for file in FILES),
    }
    assert not any(p.is_symlink() for p in folder.path.rglob("*"))


def test_nothing_is_published_into_a_built_channel(
    run_ctk: Callable[..., Result], two_states: Workspace
) -> None:
    """Its states would be hidden by those of a published folder.

    Nor is a channel published into itself.
    """
    copy = two_states.root / "copy"
    shutil.copytree(two_states.channel, copy)
    states = two_states.channel.resolve()
    for channel in (two_states.channel, states / "noarch", states.parent, copy):
        before = sorted(two_states.root.rglob("*"))
        refused = run_ctk("publish", str(copy), "--to", str(channel)).exception
        assert isinstance(refused, BadValue) and "nothing can be published into it" in refused.cause
        assert sorted(two_states.root.rglob("*")) == before


def test_nothing_is_published_into_a_site(
    run_ctk: Callable[..., Result], two_states: Workspace, tmp_path: Path
) -> None:
    """`ctk site` replaces its folder as a whole."""
    site = tmp_path / "site"
    site.mkdir()
    (site / SITE).touch()
    refused = run_ctk("publish", str(two_states.channel), "--to", str(site)).exception
    assert (
        isinstance(refused, BadValue) and refused.cause == f"{site} is a site that `ctk site` wrote"
    )
    assert [file.name for file in site.iterdir()] == [SITE]


def test_a_damaged_index_of_others_is_left_as_it_is(
    run_ctk: Callable[..., Result], two_states: Workspace, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "linux-64").mkdir(parents=True)
    (other / "linux-64" / "repodata.json").write_text("{")
    before = sorted(other.rglob("*"))
    refused = run_ctk("publish", str(two_states.channel), "--to", str(other)).exception
    assert isinstance(refused, BadValue) and "linux-64/repodata.json" in refused.cause
    assert "name another folder" in refused.step and "ctk publish" not in refused.step
    assert sorted(other.rglob("*")) == before


def test_a_folder_whose_first_publish_was_stopped_does_not_pass_for_packages(
    run_ctk: Callable[..., Result], two_states: Workspace, tmp_path: Path
) -> None:
    package = next(two_states.channel.glob("*/*.conda"))
    (tmp_path / HISTORY).mkdir()
    (tmp_path / package.parent.name).mkdir()
    shutil.copy(package, tmp_path / package.parent.name)
    found = run_ctk("check", str(tmp_path)).exception
    assert isinstance(found, ChannelBroken) and "was stopped" in found.cause


def test_publishing_the_same_again_changes_no_file(folder: Folder, tmp_path: Path) -> None:
    built = build(tmp_path / "channel", digit(1), digit(2))
    folder.publish(built)
    before = {
        p: p.stat().st_mtime_ns
        for p in folder.path.rglob("*")
        if p.is_file() and HISTORY not in p.parts
    }
    assert folder.publish(built) == Published(1, 2, (), (), (), ())
    assert before == {p: p.stat().st_mtime_ns for p in before}


START = datetime(2026, 1, 1, tzinfo=UTC)


def on(folder: Folder, day: int) -> Folder:
    return replace(folder, now=lambda: START + timedelta(days=day))


def days(place: Path) -> dict[str, float]:
    """Name of a package -> days from `START` to its publication, by the index."""
    moments = {
        name.partition("/")[2].partition("-")[0]: text
        for name, text in read_index(place).times().items()
    }
    return {name: (datetime.fromisoformat(text) - START).days for name, text in moments.items()}


def test_an_index_says_when_each_package_was_published_first(
    folder: Folder, tmp_path: Path
) -> None:
    one, two = (
        build(tmp_path / "one", digit(1), digit(2)),
        build(tmp_path / "two", digit(1), digit(4)),
    )
    on(folder, 0).publish(one)
    assert days(folder.path) == {"digit1": 0, "digit2": 0}
    record = read_index(folder.path).records["noarch/digit1-1.0-h0_0.conda"]
    assert record["indexed_timestamp"] == START.timestamp() * 1000  # in milliseconds, CEP 47
    on(folder, 3).publish(two, exact=True)
    assert days(folder.path) == {"digit1": 0, "digit4": 3}
    on(folder, 5).publish(two)
    assert days(folder.path) == {"digit1": 0, "digit4": 3}
    on(folder, 7).publish(one)  # what left the index and comes back was published when it was
    assert days(folder.path) == {"digit1": 0, "digit2": 0, "digit4": 3}
    on(folder, 8).rollback(1)
    assert days(folder.path) == {"digit1": 0, "digit2": 0}
    on(folder, 9).rollback(2)
    assert days(folder.path) == {"digit1": 0, "digit4": 3}
    # A built channel has no such times.
    assert days(one) == {}


def test_a_package_is_deleted_days_after_the_last_kept_state_that_names_it(
    folder: Folder, tmp_path: Path
) -> None:
    gone = "linux-64/digit2-1.0-h0_0.conda"
    one, *others = [build(tmp_path / f"channel{n}", digit(1), digit(n)) for n in (2, 4, 6)]
    www = replace(folder, keep=Keep(states=2, unused=timedelta(days=7)))
    on(www, 0).publish(one)
    done = on(www, 30).publish(others[0], exact=True)
    assert (done.left, done.deleted) == ((gone,), ())  # state 1 is kept, and can be returned to
    for day in (31, 37):  # from the first of these days on it is unused
        assert on(www, day).publish(others[1], exact=True).deleted == ()
        assert (folder.path / gone).is_file()
    assert on(www, 38).publish(others[1], exact=True).deleted == (gone,)
    assert not (folder.path / gone).exists()
    assert indexed(folder.path) == {"digit1", "digit6"}
    assert gone not in read_index(folder.path).run_exports
    # Its name is still known, since mirrors may have the file.
    assert gone in folder.names()


def test_a_package_that_is_named_again_is_not_deleted(folder: Folder, tmp_path: Path) -> None:
    one, two = build(tmp_path / "one", digit(2)), build(tmp_path / "two", digit(4))
    www = replace(folder, keep=Keep(states=2, unused=timedelta(days=2)))
    for day, channel in enumerate([one, two, two, one, two, one] * 2):
        assert on(www, day).publish(channel, exact=True).deleted == ()


def test_a_folder_that_had_an_index_is_continued(folder: Folder, tmp_path: Path) -> None:
    built = build(tmp_path / "one", digit(1))
    for file in built.rglob("*"):
        if file.is_file():
            target = folder.path / file.relative_to(built)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    assert folder.publish(build(tmp_path / "two", digit(2))).state == 2
    assert indexed(folder.path) == {"digit1", "digit2"}
    assert folder.rollback().number == 1
    assert indexed(folder.path) == {"digit1"}


def test_a_package_that_is_not_what_its_index_says_is_not_published(
    folder: Folder, tmp_path: Path
) -> None:
    built = build(tmp_path / "channel", digit(1), digit(2))
    folder.publish(build(tmp_path / "good", digit(1)))
    file = built / "linux-64" / "digit2-1.0-h0_0.conda"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        PublishFailed, match=r"digit2-1\.0-h0_0\.conda is not the package that its index names"
    ):
        folder.publish(built)
    assert indexed(folder.path) == {"digit1"}
    assert not (folder.path / "linux-64" / file.name).exists()


def test_two_at_once_do_not_meet(folder: Folder, tmp_path: Path) -> None:
    built = build(tmp_path / "channel", digit(1))
    folder.publish(built)
    with (
        FileLock(folder.path / HISTORY / "lock"),
        pytest.raises(Busy, match="another run publishes"),
    ):
        folder.publish(built)


class Killed(BaseException):
    """An exception that no code of ours catches."""


def dies(function: Callable[..., Any], at: int, calls: list[int]) -> Callable[..., Any]:
    """The function, which dies before call (at + 1) / 2 for an odd `at`, and after call at / 2 for
    an even one.
    """

    def call(*arguments: Any) -> Any:
        calls[0] += 1
        if 2 * calls[0] - 1 == at:
            raise Killed
        result = function(*arguments)
        if 2 * calls[0] == at:
            raise Killed
        return result

    return call


def test_readers_see_whole_indexes_while_a_run_goes_on_or_dies_before_or_after_any_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (
        build(tmp_path / name, digit(1), digit(number)) for name, number in (("one", 2), ("two", 4))
    )
    old, new = {"digit1", "digit2"}, {"digit1", "digit4"}
    rename, seen = os.replace, set()
    for at in range(1, 200):
        folder, calls = on(Folder(tmp_path / f"www{at}", tmp_path), 0), [0]
        folder.publish(one)
        monkeypatch.setattr(os, "replace", dies(rename, at, calls))
        try:
            on(folder, 1).publish(two, exact=True)
            ended = True
        except Killed:
            ended = False
        monkeypatch.setattr(os, "replace", rename)
        for client in CLIENTS:
            shown = seen_by(client, folder.path / "noarch") | seen_by(
                client, folder.path / "linux-64"
            )
            assert shown >= old or shown >= new
            seen.add(frozenset(shown))
        if ended:
            break
        said = days(folder.path)
        done = on(folder, 2).publish(two, exact=True)
        assert indexed(folder.path) == new
        assert days(folder.path).items() >= {n: day for n, day in said.items() if n in new}.items()
        assert done.packages == 2
        assert not list(folder.path.rglob(".*.part"))
        assert folder.rollback().number == 1
        assert indexed(folder.path) == old
    assert at > 30
    assert {frozenset(old), frozenset(old | new), frozenset(new)} <= seen


@pytest.mark.parametrize("mask", [0o077, 0o000], ids=oct)
def test_what_is_built_and_published_can_be_read_by_all_and_written_by_nobody_else(
    tmp_path: Path, mask: int
) -> None:
    tmp_path.chmod(0o710)
    (www := tmp_path / "there" / "www").mkdir(parents=True)
    www.chmod(0o2750)
    before = os.umask(mask)
    try:
        built = build(tmp_path / "output" / "channel", digit(1), digit(2))
        folders = Folder(tmp_path / "srv" / "www" / "cuda", tmp_path), Folder(www, tmp_path)
        for folder in folders:
            folder.publish(built, attester=Stamp("us"))
            folder.publish(build(tmp_path / "output" / "channel", digit(1), digit(4)), exact=True)
            folder.rollback()
    finally:
        os.umask(before)
    for place in (built, tmp_path / "srv"):
        for path in (place, *place.rglob("*")):
            if path.name != "lock":
                assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), (
                    path
                )
    # Existing folders keep their mode.
    assert (stat.S_IMODE(tmp_path.stat().st_mode), stat.S_IMODE(www.stat().st_mode)) == (
        0o710,
        0o2750,
    )


# The return to a state


def make(folder: Folder, *digits: int, exact: bool = True) -> None:
    folder.publish(build(folder.recipes / "source", *map(digit, digits)), exact=exact)


def test_a_folder_returns_to_the_state_before_and_forth(folder: Folder) -> None:
    for digits in ((1,), (1, 2), (3,)):
        make(folder, *digits)
    assert (folder.rollback().number, indexed(folder.path)) == (2, {"digit1", "digit2"})
    assert (folder.rollback().packages, indexed(folder.path)) == (1, {"digit1"})
    assert folder.history().current == 1
    assert (folder.rollback(3).number, indexed(folder.path)) == (3, {"digit3"})


def test_after_a_return_the_next_state_follows_and_adds_to_the_one_that_readers_saw(
    folder: Folder,
) -> None:
    make(folder, 1)
    make(folder, 2)
    folder.rollback()
    make(folder, 3, exact=False)
    assert (folder.history().current, indexed(folder.path)) == (3, {"digit1", "digit3"})
    assert (folder.rollback().number, indexed(folder.path)) == (1, {"digit1"})


def test_only_as_many_states_are_kept_as_asked_for(folder: Folder) -> None:
    folder = replace(folder, keep=Keep(states=3))
    for number in range(1, 5):
        make(folder, number)
    assert [s.number for s in folder.history().states] == [2, 3, 4]
    with pytest.raises(UnknownName, match="no state 1; kept are 2, 3, 4"):
        folder.rollback(1)


def test_a_state_that_is_not_kept_or_is_shown_is_an_error(folder: Folder) -> None:
    make(folder, 1)
    for number, words in (
        (None, "no state before the one it shows; kept are 1"),
        (7, "no state 7; kept are 1"),
        (1, "shows state 1 already"),
    ):
        with pytest.raises(UnknownName, match=words):
            folder.rollback(number)
    index = folder.path / "noarch" / "repodata.json"
    before = index.read_bytes()
    index.write_bytes(before[:9])
    assert folder.rollback(1).number == 1 and index.read_bytes() == before, (
        "a damaged index is written again"
    )


@pytest.mark.parametrize("answer", ["y", "n", ""])
def test_exact_asks_at_a_terminal(
    two_states: Workspace,
    run_ctk: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    www = str(tmp_path / "www")
    run_ctk("publish", "--to", www)
    build(two_states.channel, digit(1))
    monkeypatch.setattr(console, "can_ask", lambda: True)
    done = run_ctk("publish", "--to", www, "--exact", answers=f"{answer}\n" if answer else "")
    assert "1 of 2 packages out of the index" in done.stdout
    assert "publish so? [y/N]" in done.stdout
    taken = {"digit1"} if answer == "y" else {"digit1", "digit2"}
    assert indexed(tmp_path / "www") == taken
    assert isinstance(done.exception, WouldLose) == (answer == "n")


def test_the_commands(
    two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    www = str(tmp_path / "www")
    assert "state 1 of" in run_ctk("publish", "--to", www).stdout
    build(two_states.channel, digit(1))
    kept = run_ctk("publish", "--to", www, "--exact").exception
    assert isinstance(kept, WouldLose) and "1 of 2 packages out of the index" in kept.cause
    assert "linux-64/digit2" in kept.cause and "--yes" in kept.step
    assert indexed(tmp_path / "www") == {"digit1", "digit2"}
    said = run_ctk("publish", "--to", www, "--exact", "--yes").stdout
    assert (
        "1 package, 0 new, 1 no longer in the index\nno longer in the index: linux-64/digit2"
        in said
    )
    listed = json.loads(run_ctk("rollback", www, "--json").stdout)
    shown = [
        [s[key] for key in ("number", "before", "packages", "current", "added", "left")]
        for s in listed["states"]
    ]
    assert shown == [[1, None, 2, False, None, None], [2, 1, 1, True, 0, 1]]
    assert re.search(r" 1  \+0 -1 +to readers", run_ctk("rollback", www).stdout)
    assert "shows state 1" in run_ctk("rollback", www, "--to", "1").stdout
    assert indexed(tmp_path / "www") == {"digit1", "digit2"}
    (file := tmp_path / "file").touch()
    for place in (two_states.root, two_states.channel, file, file / "www"):
        assert isinstance(run_ctk("publish", "--to", str(place)).exception, BadValue)
    for place in (www, tmp_path / "www" / "linux-64", tmp_path / "www" / ".history", tmp_path):
        refused = run_ctk("publish", "--to", str(place)).exception
        assert refused is None if place == www else isinstance(refused, BadValue), place
    toolkits = [
        Draft("cuda-version", minor, "native_100", "noarch") for minor in ("12.6", "12.10", "13.0")
    ]
    build(two_states.channel, digit(1), *toolkits)
    run_ctk("publish", "--to", www)
    build(two_states.channel, digit(1), toolkits[1], replace(toolkits[2], build="native_101"))
    assert "gone" not in run_ctk("publish", "--to", www).stdout
    said = run_ctk("publish", "--to", www, "--exact", "--yes").stdout
    assert "toolkits that are gone: 12.6 (a driver for it now gets no native one)\n" in said
    assert f"every machine: ctk solve cuda-version --everywhere --channel {www}\n" in said
    build(two_states.channel, digit(1), toolkits[1])
    words = ("publish", "--to", www, "--exact", "--yes", "--keep", "2")
    assert (
        "gone: 13.0 (a driver for it now gets 12.10)\n"
        in run_ctk("publish", "--to", www, "--exact", "--yes").stdout
    )
    build(two_states.channel, digit(1))
    said = run_ctk(*words).stdout
    assert "no longer kept, because of --keep 2: state 1, 2, 3, 4 and 5" in said
    assert "12.10 (a driver for it now gets no native one)" in said
    assert "every machine" not in said, "no cuda-version is left"
    next(two_states.channel.glob("*/digit1*.conda")).unlink()
    lost = run_ctk("publish", "--to", www)
    assert (
        isinstance(lost.exception, ChannelBroken) and "lacks noarch/digit1" in lost.exception.cause
    )
    refused = run_ctk("rollback", www, "--to", "9")
    assert isinstance(refused.exception, UnknownName)
    assert refused.exception.step == f"see `ctk rollback {www}`"
    assert isinstance(run_ctk("rollback", "absent").exception, ChannelMissing)
    built = run_ctk("rollback", str(two_states.channel)).exception
    assert isinstance(built, UnknownName) and "nothing was published into" in built.cause
