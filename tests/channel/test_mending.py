"""What time and others do to a published folder: wrong clocks, growth, damaged packages, files that are not ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from small_channels import build, digit, sound
from typer.testing import Result

from ctk.channel.folder import Folder, Keep
from ctk.check.channel import check_channel
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, ChannelBroken

pytest_plugins = ["channel_fixtures"]

START = datetime(2026, 1, 1, tzinfo=UTC)
TWO = "linux-64/digit2-1.0-h0_0.conda"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "www", tmp_path / "recipes", Keep(states=2))


def at(folder: Folder, moment: datetime | int) -> Folder:
    """The same on a machine whose clock says so, or on that day after `START`."""
    now = moment if isinstance(moment, datetime) else START + timedelta(days=moment)
    return replace(folder, now=lambda: now)


def channel(place: Path, *digits: int) -> Path:
    return build(place / "-".join(map(str, digits)), *(sound(digit(number)) for number in digits))


def files(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def turned(file: Path) -> None:
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])


def led_away(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("nowhere")


@pytest.mark.parametrize("damage", [cut, turned, led_away, Path.unlink])
def test_a_damaged_package_is_named_by_a_rollback_and_mended_by_the_next_publish(
    folder: Folder, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    built, folder = channel(tmp_path, 1, 2), replace(folder, keep=Keep())
    at(folder, 0).publish(built)
    at(folder, 1).publish(channel(tmp_path, 1), exact=True)
    damage(folder.path / TWO)
    with pytest.raises(ChannelBroken, match=rf"state 1 of .* lacks {TWO}") as error:
        folder.rollback()
    assert f"`ctk publish --to {folder.path}`" in error.value.step
    done = at(folder, 2).publish(built)
    assert TWO in (*done.mended, *done.added)
    (folder.path / "linux-64" / "other").unlink(missing_ok=True)
    assert check_channel(folder.path).findings == ()
    assert folder.rollback(1).packages == 2


def test_the_command_says_what_it_mended(two_states: Workspace, run_ctk: Callable[..., Result], tmp_path: Path) -> None:
    www = tmp_path / "www"
    run_ctk("publish", "--to", str(www))
    cut(www / TWO)
    assert "2 packages, 0 new, 1 damaged and written again" in run_ctk("publish", "--to", str(www)).stdout
    cut(www / TWO)
    assert json.loads(run_ctk("publish", "--to", str(www), "--json").stdout)["mended"] == [TWO]


@pytest.mark.parametrize("place", ["channel", "channel/noarch", "channel/sub", "link", ".channel-states", "link/.."])
def test_a_built_channel_is_no_folder_to_publish_into(
    two_states: Workspace, run_ctk: Callable[..., Result], place: str
) -> None:
    output = two_states.channel.parent
    (output / "link").symlink_to("channel/linux-64")
    before = files(output)
    done = run_ctk("publish", "--to", str(output / place))
    assert isinstance(done.exception, BadValue)
    assert "nothing can be published into it" in done.exception.cause
    assert files(output) == before


def test_a_published_folder_is_not_published_into_itself(folder: Folder, tmp_path: Path) -> None:
    folder.publish(channel(tmp_path, 1))
    for place in (folder.path, folder.path / "sub"):
        with pytest.raises(BadValue):
            replace(folder, path=place).publish(folder.path)
