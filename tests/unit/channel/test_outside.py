"""No name in an index, a history or a note of a channel leads out of its folder."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ctk.build.finished import read_note
from ctk.channel.check import check_channel
from ctk.channel.distribution import read as read_distribution
from ctk.channel.local import candidates
from ctk.channel.publish import INCOMING, TIMES, UNUSED, Folder, Keep
from ctk.channel.repodata import add, in_order, read_index
from ctk.core.checkout import HISTORY
from ctk.core.errors import ChannelBroken
from ctk.core.files import listed_packages
from ctk.core.inside import wrong_with
from ctk.package.records import records
from ctk.plan.plan import Build
from ctk.site.pages import Page, write
from kit.small_channels import build, digit, sound
from kit.tiny import tiny_checkout, tiny_plan

START = datetime(2026, 1, 1, tzinfo=UTC)
ONE = "digit1-1.0-h0_0.conda"
NAMES = [
    "../../mine/file.conda",
    "../../../../mine/file.conda",
    "/mine/file.conda",
    "x/../../../mine/file.conda",
    "sub/file.conda",
    "..\\..\\mine\\file.conda",
    "C:file.conda",
    "a\0b.conda",
    "\ud800.conda",
    "..",
    ".",
    "",
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder outside of every channel."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "file.conda").write_text("mine")
    return folder


@pytest.fixture
def www(tmp_path: Path) -> Folder:
    """A published folder with two states."""
    made = Folder(tmp_path / "www", tmp_path, Keep(2, timedelta(0)), now=lambda: START)
    made.publish(channel(tmp_path, 1, 2))
    made.publish(channel(tmp_path, 1, 4), exact=True)
    return made


def channel(place: Path, *digits: int) -> Path:
    drafts = (sound(digit(number)) for number in digits)
    return build(place / "-".join(map(str, digits)), *drafts)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def renamed(channel: Path, name: str) -> None:
    """Gives a package another file name in the index."""
    file = channel / "noarch" / "repodata.json"
    content = json.loads(file.read_bytes())
    content["packages.conda"][name] = content["packages.conda"].pop(ONE)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("name", NAMES)
def test_an_index_names_files_of_its_folder_only(tmp_path: Path, mine: Path, name: str) -> None:
    built = channel(tmp_path, 1)
    renamed(built, name)
    before = files(tmp_path)
    target = Folder(tmp_path / "www", tmp_path, now=lambda: START)
    for use in (
        lambda: records(built),
        lambda: read_index(built),
        lambda: in_order(built),
        lambda: target.publish(built),
        lambda: add(built, tmp_path / "other"),
    ):
        with pytest.raises(ChannelBroken, match="no package can have that as its file name"):
            use()
    seen = {(one.where, one.message) for one in check_channel(built).findings}
    assert ("noarch/repodata.json", f"has an entry for {name!r} that cannot be read") in seen
    assert read_distribution([]).files == {}
    assert files(tmp_path) == before and files(mine) == {"file.conda": b"mine"}


@pytest.mark.parametrize("name", NAMES)
def test_a_state_that_names_another_folder_is_not_returned_to(
    www: Folder, mine: Path, name: str
) -> None:
    renamed(www.notes / "1", name)
    before = files(www.path)
    with pytest.raises(ChannelBroken):
        www.rollback(1)
    assert files(www.path) == before and files(mine) == {"file.conda": b"mine"}


def test_the_notes_of_a_published_folder_delete_nothing_elsewhere(
    www: Folder, tmp_path: Path, mine: Path
) -> None:
    long_ago = (START - timedelta(days=900)).isoformat()
    names = [f"noarch/{name}" for name in NAMES] + ["../mine/file.conda", str(mine / "file.conda")]
    for note in (TIMES, INCOMING, UNUSED):
        content = json.loads((www.notes / note).read_bytes())
        (www.notes / note).write_text(json.dumps(content | dict.fromkeys(names, long_ago)))
    www.publish(channel(tmp_path, 1, 8))
    assert files(mine) == {"file.conda": b"mine"}
    for note in (TIMES, INCOMING, UNUSED):
        assert not any(map(wrong_with, json.loads((www.notes / note).read_bytes())))


@pytest.mark.parametrize("folder", ["noarch", "linux-64", HISTORY])
def test_a_folder_behind_a_link_is_not_published_into(
    www: Folder, tmp_path: Path, mine: Path, folder: str
) -> None:
    shutil.copytree(www.path / folder, mine / folder)
    shutil.rmtree(www.path / folder)
    (www.path / folder).symlink_to(mine / folder)
    before = files(tmp_path)
    for act in (lambda: www.rollback(1), lambda: www.publish(tmp_path / "1-2")):
        with pytest.raises(ChannelBroken, match=f"{folder} leads to {mine / folder}"):
            act()
    assert files(tmp_path) == before


def test_a_link_in_the_place_of_a_state_is_not_followed(
    www: Folder, tmp_path: Path, mine: Path
) -> None:
    for number in ("3", "9"):
        (www.notes / number).symlink_to(mine)
    www.publish(channel(tmp_path, 1, 8))
    assert files(mine) == {"file.conda": b"mine"}
    assert (www.notes / "3").is_dir() and not (www.notes / "3").is_symlink()


def test_a_deleted_package_takes_no_sidecar_of_another(www: Folder, tmp_path: Path) -> None:
    """Its name was once a pattern."""
    name = "digit*-1.0-h0_0.conda"
    built = channel(tmp_path, 1)
    shutil.copy(built / "noarch" / ONE, built / "noarch" / name)
    renamed(built, name)
    other = tmp_path / "new"
    made = Folder(other, tmp_path, Keep(2, timedelta(0)), now=lambda: START)
    made.publish(built)
    sidecar = other / "noarch" / "digit7-1.0-h0_0.conda.sigs"
    sidecar.write_text("of others")
    made.publish(channel(tmp_path, 4), exact=True)
    deleted = made.publish(channel(tmp_path, 2, 4), exact=True).deleted
    assert deleted == (f"noarch/{name}",)
    assert sidecar.exists()


@pytest.mark.parametrize("name", ["../x.conda", "/x.conda", "noarch/../../x", "a\0b", ""])
def test_the_note_of_a_build_names_files_of_its_folder_only(tmp_path: Path, name: str) -> None:
    workspace = tiny_checkout(tmp_path)
    made: Build = tiny_plan(workspace).builds[0]
    note = {"id": made.id, "packages": {name: {"sha256": "0" * 64}}, "tests": {}, "seconds": 1.0}
    assert read_note(note, made, "key", workspace, cached=True) is None
    assert listed_packages({"packages": {name: "0" * 64}}) is None
    good = {**note, "packages": {"noarch/x.conda": {"sha256": "0" * 64}}}
    assert read_note(good, made, "key", workspace, cached=True) is not None
    assert listed_packages({"packages": {"noarch/x.conda": ""}}) == {"noarch/x.conda": ""}


def test_the_state_of_a_built_channel_takes_no_file_from_elsewhere(
    tmp_path: Path, mine: Path
) -> None:
    state = tmp_path / ".channel-states" / "1"
    shutil.copytree(channel(tmp_path, 1), state)
    names = {"../../../mine/file.conda": ""}
    note = {"evil": {"key": "../../mine", "packages": names}}
    state.with_suffix(".json").write_text(json.dumps(note))
    (tmp_path / "channel").symlink_to(".channel-states/1")
    assert candidates((), tmp_path / "channel").files == {}


@pytest.mark.parametrize("path", ["../evil.html", "/evil.html", "packages/../../evil.html", ""])
def test_no_page_of_a_site_is_outside_of_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(ChannelBroken, match="no page can have the name"):
        write([Page(path, b"evil")], tmp_path / "site")
    assert files(tmp_path) == {}
