"""The states of a built channel: what readers see, and when."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.build import build
from ctk.channel import local
from ctk.channel.repodata import COMPRESSED, FILES
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, UnknownName
from ctk.fetch import fetch
from ctk.index.index import Index
from kit import small_channels
from kit.small_channels import digit
from kit.tiny import tiny_checkout, tiny_plan


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = tiny_checkout(tmp_path_factory.mktemp("checkout"))
    fetch.fetch(tiny_plan(workspace).artefacts, workspace, Index)
    return workspace


@pytest.fixture(scope="module")
def made(checkout: Workspace) -> tuple[build.Built, ...]:
    return build.run(tiny_plan(checkout), checkout).built[::-1]  # hello, follower


def names(where: Path, subdir: str) -> set[str]:
    return set(json.loads((where / subdir / "repodata.json").read_text())["packages.conda"])


def test_a_staged_state_is_not_seen_until_it_is_committed_and_one_of_a_dead_run_goes(
    made: tuple[build.Built, ...], tmp_path: Path
) -> None:
    place = tmp_path / "channel"
    staged = local.stage(local.candidates(made[:1], place))
    assert not place.exists()
    local.commit(staged)
    assert names(place, "linux-64") == {made[0].packages[0].name}
    dead = local.stage(local.candidates(made, place))
    assert names(place, "noarch") == set()
    local.commit(local.stage(local.candidates(made, place)))
    assert not dead.path.exists()
    assert names(place, "noarch") == {made[1].packages[0].name}


def test_the_index_has_every_form_that_clients_ask_for(
    made: tuple[build.Built, ...], tmp_path: Path
) -> None:
    local.commit(local.stage(local.candidates(made, tmp_path / "channel")))
    for subdir in ("linux-64", "noarch"):
        found = {
            p.name
            for p in (tmp_path / "channel" / subdir).iterdir()
            if not p.name.endswith(".conda")
        }
        assert found == {*FILES}
    exports = json.loads((tmp_path / "channel" / "linux-64" / "run_exports.json").read_text())
    assert exports["packages.conda"][made[0].packages[0].name] == {
        "run_exports": {"weak": ["hello >=13"]}
    }


def test_only_what_changed_makes_a_new_state_and_a_lost_index_file_is_written_again(
    made: tuple[build.Built, ...], tmp_path: Path
) -> None:
    place = tmp_path / "channel"
    local.commit(local.stage(local.candidates(made, place)))
    again = local.stage(local.candidates(made, place))
    assert (again.changed, again.path) == (False, place.resolve())
    (place / "noarch" / COMPRESSED).unlink()
    local.commit(local.stage(local.candidates(made, place)))
    assert (place / "noarch" / COMPRESSED).is_file()


@pytest.mark.parametrize(
    "damage", [lambda index: index.write_text("{"), Path.unlink], ids=["cut", "lost"]
)
def test_a_damaged_index_is_made_again_from_the_packages_that_are_whole(
    made: tuple[build.Built, ...], tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    place = tmp_path / "channel"
    local.commit(local.stage(local.candidates(made, place)))
    index = place / "noarch" / "repodata.json"
    sound = index.read_bytes()
    damage(index)
    # Of the other build, whose index is damaged, nothing.
    local.commit(local.stage(local.candidates(made[:1], place)))
    assert index.read_bytes() == sound
    damage(index)
    (package,) = (place / "noarch").glob("*.conda")
    package.unlink()  # a link of the file in the cache
    package.write_bytes(b"")
    with pytest.raises(ChannelBroken, match="has other content"):
        local.stage(local.candidates(made[:1], place))
    assert local.stage(local.candidates(made, place)).changed  # the step that it names


def test_packages_of_other_builds_stay_and_replaced_ones_go(
    made: tuple[build.Built, ...], tmp_path: Path
) -> None:
    place = tmp_path / "channel"
    local.commit(local.stage(local.candidates(made, place)))
    renamed = tmp_path / "linux-64" / "hello-14-h0_0.conda"
    renamed.parent.mkdir()
    os.link(made[0].packages[0], renamed)
    (record,) = made[0].records.values()
    newer = replace(
        made[0], key="other", home=tmp_path, records={"linux-64/hello-14-h0_0.conda": record}
    )
    staged = local.stage(local.candidates([newer], place))
    assert sorted(p.name for p in local.packages(staged.path)) == sorted(
        [made[1].packages[0].name, renamed.name]
    )


def test_what_other_builds_made_stays_when_the_cache_is_deleted(
    made: tuple[build.Built, ...], tmp_path: Path
) -> None:
    hello, follower = made
    place, cache = tmp_path / "channel", tmp_path / "cache"
    shutil.copytree(follower.home, cache)
    local.commit(local.stage(local.candidates([replace(follower, home=cache)], place)))
    shutil.rmtree(cache)
    local.commit(local.stage(local.candidates([hello], place)))
    assert names(place, "noarch") == {follower.packages[0].name}
    assert names(place, "linux-64") == {hello.packages[0].name}
    assert not local.stage(local.candidates([hello], place)).changed


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda file: (file.unlink(), file.write_bytes(b"other"))]
)
def test_a_package_that_the_channel_lost_comes_back_from_the_cache(
    made: tuple[build.Built, ...], tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    place = tmp_path / "channel"
    local.commit(local.stage(local.candidates(made, place)))
    (package,) = (place / "noarch").glob("*.conda")
    damage(package)
    found = local.candidates(made[:1], place, cache=made[1].home.parent)
    assert found.is_new and not found.gone
    local.commit(local.stage(found))
    assert (place / "noarch" / package.name).read_bytes() == made[1].packages[0].read_bytes()


def test_a_reader_of_a_state_sees_it_whole_until_enough_newer_ones_were_made(
    tmp_path: Path,
) -> None:
    seen = small_channels.build(tmp_path / "channel", digit(1), digit(2))
    for number in range(3, 2 + local.KEPT):
        small_channels.build(tmp_path / "channel", digit(number))
        assert len(local.packages(seen)) == 2
    small_channels.build(tmp_path / "channel", digit(9))
    assert not seen.exists()


def test_a_folder_that_is_no_built_channel_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(UnknownName, match="is not a channel that ctk built"):
        small_channels.build(tmp_path / "plain", digit(1))
