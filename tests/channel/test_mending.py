"""What time and others do to a published folder: wrong clocks, growth, damaged packages, files that are not ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_channels import build, digit, sound
from typer.testing import Result

from ctk.channel.folder import Folder, Keep
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue

pytest_plugins = ["channel_fixtures"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "www", tmp_path / "recipes", Keep(states=2))


def channel(place: Path, *digits: int) -> Path:
    return build(place / "-".join(map(str, digits)), *(sound(digit(number)) for number in digits))


def files(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


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
