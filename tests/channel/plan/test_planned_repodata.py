"""Built packages have the planned repodata, so `ctk verify` can solve for platforms that were not
built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conftest import NEWEST
from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.core.versions import this_python
from ctk.plan.plan import (
    FROM_BUILD,
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    small,
)

Repodata = dict[str, dict[str, Any]]
EVERYWHERE = tuple(PLATFORMS)


@cache
def planned_for(
    project: Workspace,
    platforms: tuple[str, ...],
    releases: tuple[str, ...] = (),
    whole: bool = False,
) -> Repodata:
    # The channel of this machine is built for its Python.
    pythons = (this_python().tag,) if platforms == (this_platform(),) else ()
    request = Request(releases=releases, platforms=platforms, pythons=pythons)
    request = request if whole else small(request, project)
    return planned_repodata(
        plan(published_set(project), request, python_tags(project.build_config))
    )


def indexed_in(channel: Path, subdir: str) -> dict[str, Any]:
    return json.loads((channel / subdir / "repodata.json").read_text())


def known_before(records: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        file: {k: v for k, v in r.items() if k not in FROM_BUILD} for file, r in records.items()
    }


def differences(
    ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """File -> field -> (planned, indexed), for packages that both have."""
    return {
        file: {
            k: (ours[file].get(k), theirs[file].get(k))
            for k in sorted(ours[file].keys() | theirs[file].keys())
            if ours[file].get(k) != theirs[file].get(k)
        }
        for file in sorted(ours.keys() & theirs.keys())
        if ours[file] != theirs[file]
    }


@pytest.mark.parametrize("subdir", ["this platform", NOARCH])
def test_every_package_of_the_channel_is_indexed_as_planned(built: Workspace, subdir: str) -> None:
    place = this_platform() if subdir == "this platform" else subdir
    found = known_before(indexed_in(built.channel, place)["packages.conda"])
    here = planned_for(built, (this_platform(),))[place]["packages.conda"]
    # The same channel may have more, also for other platforms.
    anywhere = planned_for(built, EVERYWHERE, whole=True)[place]["packages.conda"]
    assert sorted(here.keys() - found.keys()) == [], "planned, but not in the channel"
    assert sorted(found.keys() - anywhere.keys()) == [], "in the channel, but not planned"
    assert differences(anywhere, found) == {}


@pytest.mark.sweep
def test_the_newest_release_is_indexed_as_planned_on_all_platforms(
    built: Workspace, all_platforms: Path
) -> None:
    planned = planned_for(built, EVERYWHERE, (NEWEST,))
    assert set(planned) == {*PLATFORMS, NOARCH}
    for subdir, ours in planned.items():
        found = known_before(indexed_in(all_platforms, subdir)["packages.conda"])
        assert sorted(ours["packages.conda"]) == sorted(found)
        assert differences(ours["packages.conda"], found) == {}


def test_the_rest_of_the_index_is_as_planned(built: Workspace) -> None:
    for subdir, ours in planned_for(built, (this_platform(),)).items():
        theirs = indexed_in(built.channel, subdir)
        assert {k: v for k, v in ours.items() if k != "packages.conda"} == {
            k: v for k, v in theirs.items() if k != "packages.conda"
        }
