"""The channels that a command solves from: built ones, or the planned channel above the universe.

The planned channel is the repodata that recipes and release locks would give. The universe stands
in for conda-forge: ``universe.yaml`` made into repodata, always the same, and without a network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ctk.core.checkout import UserFolders, Workspace, base_channel, settings
from ctk.core.console import Reporter
from ctk.core.document import load_by_hand
from ctk.core.errors import ChannelMissing, Unsolvable
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.lock.components import unmeasured
from ctk.lock.model import release_locks
from ctk.package.records import REPODATA, records
from ctk.plan import known
from ctk.plan.conda_forge import OtherChannels, other_channels
from ctk.plan.names import Names, known_names
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    repodata_of,
    write_repodata,
)
from ctk.plan.recipes import Recipe, find_recipes, maker_of
from ctk.solve.advice import Checkout, CheckoutCatalogue, Maker
from ctk.solve.solve import Catalogue

UNIVERSE = Path(__file__).with_name("universe.yaml")

Repodata = Mapping[str, Mapping[str, Any]]
"""Subdir -> content of its ``repodata.json``."""

_CUDA_VERSION = re.compile(r"^cuda-version >=(?P<major>\d+)\S* (?P<fit>native|compat)_\*$")
_FREE_THREADED = re.compile(r"\*_cp\d+t\b")
_SOME_DAY = 1_790_000_000_000  # a timestamp of repodata, in milliseconds


class TwinBuild(NamedTuple):
    """A build of a package that has two builds for each CUDA major."""

    fit: str  # native or compat
    major: str


Twins = Mapping[tuple[str, str, str], TwinBuild]
"""Name, version and build of a package -> the kind of the build."""


class Channels(NamedTuple):
    """Folders of channels for a solver."""

    folders: tuple[Path, Path]  # this channel, then the universe
    subdirs: tuple[str, ...]  # the platforms of this channel
    twins: Twins


# --- the channels of a command


def catalogue(
    workspace: Workspace,
    base: str,
    subdir: str,
    report: Reporter | None = None,
    as_planned: bool = False,
    others: Sequence[str] = (),
) -> Catalogue:
    """The channel and its base channel for a platform.

    `others` are folders and URLs in place of the channel. For a platform that is not this
    machine's, the planned channel replaces a channel without packages for it, and the universe
    replaces such a base channel of ours; `report` gets a line about that. With `as_planned`, both
    are always replaced.
    """
    channels = [workspace.channel, base_channel(base, workspace)]
    foreign = subdir != this_platform()
    if others:
        channels[:1] = [base_channel(name, workspace) for name in others]
    elif as_planned or (foreign and not records(workspace.channel, subdir)):
        # The same as `ctk verify` has, so that a scenario which it prints is solved here as it was
        # there.
        channels[0] = write_repodata(planned(workspace), workspace.notes / "planned" / "channel")
    if base == "local" and (
        as_planned or (foreign and not records(workspace.base_channel, subdir))
    ):
        channels[-1] = write_repodata(universe(), workspace.notes / "planned" / "base")
    if report and not others and workspace.channel not in channels:
        why = "" if as_planned else f"nothing is built for {subdir} here: "
        stand_in = (
            ", with a stand-in for conda-forge"
            if base == "local" and workspace.base_channel not in channels
            else ""
        )
        report.line(f"{why}solved against what recipes and release locks say{stand_in}")
    return _catalogue(channels, subdir, workspace, is_named=bool(others))


def built_catalogue(
    workspace: Workspace, base: str, subdir: str, others: Sequence[str] = ()
) -> Catalogue:
    """As `catalogue`, with built packages only.

    Raises:
        Unsolvable: Nothing is built for the platform.
    """
    if subdir != this_platform() and not others:
        if not records(workspace.channel, subdir):
            raise Unsolvable(
                f"nothing is built for {subdir} here", f"run `ctk build --platform {subdir}` first"
            )
        if base == "local" and not records(workspace.base_channel, subdir):
            raise Unsolvable(
                f"the base channel that is made here has no Python for {subdir}",
                "name one that has, such as --base conda-forge or a folder",
            )
    named = [base_channel(name, workspace) for name in others] or [workspace.channel]
    return _catalogue(
        [*named, base_channel(base, workspace)], subdir, workspace, is_named=bool(others)
    )


def _catalogue(
    channels: Sequence[Path | str], subdir: str, workspace: Workspace, is_named: bool
) -> Catalogue:
    built = os.path.realpath(workspace.channel)
    own = [place for place in channels[:-1] if os.path.realpath(place) == built]

    @cache
    def all_built() -> Catalogue:
        content = planned(workspace, [subdir], Request(releases=_measured(workspace)))
        ours = write_repodata(content, workspace.notes / "planned" / subdir / "channel")
        checkout = Checkout(is_planned=True, known_names=names, other_channels=others)
        places = [ours if place in own else place for place in channels]
        return CheckoutCatalogue(places, subdir, checkout)

    names, others = _known(workspace)
    is_planned = channels[0] == workspace.notes / "planned" / "channel"
    checkout = Checkout(
        maker=makers(workspace),
        is_named=is_named,
        may_build=bool(own) or not is_named,
        planned=all_built if own else None,
        is_planned=is_planned,
        known_names=names,
        other_channels=others,
    )
    return CheckoutCatalogue(channels, subdir, checkout)


def _measured(workspace: Workspace) -> tuple[str, ...]:
    """The releases that are measured, if some are not yet: others have no plan. () for all.

    After `ctk release add`, what is built and what the other releases give is solved all the same.
    """
    locks = release_locks(workspace)
    measured = tuple(name for name, lock in locks.items() if not unmeasured(lock))
    return () if len(measured) == len(locks) else measured


def _known(
    workspace: Workspace,
) -> tuple[Callable[[], Names], Callable[[], OtherChannels]]:
    """What is known of names and of other channels: by recipes, or else by this package."""
    if isinstance(workspace, UserFolders):
        file = workspace.names
        return lambda: known.read(file).names, lambda: known.read(file).other_channels
    return partial(known_names, workspace), partial(other_channels, workspace)


def makers(workspace: Workspace) -> Callable[[str], Maker | None]:
    """A function that finds the recipe of this checkout which makes a package.

    It reads the recipes once, when it is first asked.
    """

    @cache
    def recipes() -> Mapping[str, Recipe]:
        return find_recipes(workspace.recipes)

    @cache
    def maker(package: str) -> Maker | None:
        recipe = maker_of(package, recipes())
        if not recipe:
            return None
        default = settings(workspace.root).default.recipes
        return Maker(recipe, default is None or recipe in default)

    return maker


# --- the planned channel


def planned(
    workspace: Workspace, subdirs: Sequence[str] = (), request: Request | None = None
) -> Repodata:
    """The repodata that the recipes and locks of a checkout would give, for all platforms or some.

    Takes seconds.
    A request names the releases and recipes, by default all.

    If all else is equal, solvers prefer the package with the later timestamp. A pick must not
    depend on the time of a build, so packages that should be picked last have the latest timestamps
    here.
    """
    wanted = replace(request or Request(), platforms=tuple(subdirs) or tuple(PLATFORMS))
    content = planned_repodata(
        plan(published_set(workspace), wanted, python_tags(workspace.build_config))
    )
    for record in _records(*content.values()):
        needs = " ".join(record["depends"])
        hours = (
            4 * bool(_FREE_THREADED.search(needs))
            + 2 * (" compat_" in needs)
            + ("cuda-version >=12" in needs)
        )
        record["timestamp"] = _SOME_DAY + hours * 3_600_000
    return content


def built(folder: Path) -> Repodata:
    """The repodata of a channel in a folder.

    Raises:
        ChannelMissing: It has no packages for a platform.
    """
    found = {
        file.parent.name: records(folder, file.parent.name)
        for file in sorted(folder.glob(f"*/{REPODATA}"))
    }
    content = {
        s: repodata_of(s, {n.partition("/")[2]: r for n, r in by.items()})
        for s, by in found.items()
    }
    if not any(_platforms(content)):
        raise ChannelMissing(
            f"there is no channel with packages for a platform in {folder}",
            "name one that has some, or leave --channel out to verify what would be built",
        )
    return content


def without_virtual_constraints(content: Repodata) -> Repodata:
    """A copy without constraints on virtual packages, for clients that ignore them."""
    copy: dict[str, dict[str, Any]] = json.loads(json.dumps(content))
    for record in _records(*copy.values()):
        if "constrains" in record:
            record["constrains"] = [c for c in record["constrains"] if not c.startswith("__")]
    return copy


def write(content: Repodata, folder: Path) -> Channels:
    """Writes the repodata of this channel and of the universe below a folder."""
    own = write_repodata({NOARCH: repodata_of(NOARCH, {}), **content}, folder / "channel")
    base = write_repodata(universe(), folder / "universe")
    twins: dict[tuple[str, str, str], TwinBuild] = {}
    for record in _records(*content.values()):
        key = record["name"], record["version"], record["build"]
        if record["name"] == "cuda-version":
            twins[key] = TwinBuild(record["build"].split("_")[0], record["version"].split(".")[0])
        for need in record["depends"]:
            if match := _CUDA_VERSION.match(need):
                twins[key] = TwinBuild(match["fit"], match["major"])
    return Channels((own, base), tuple(_platforms(content)), twins)


def _platforms(content: Repodata) -> Iterator[str]:
    return (s for s in PLATFORMS if s in content and any(_records(content[s])))


def _records(*subdirs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for content in subdirs:
        for kind in ("packages", "packages.conda"):
            yield from content.get(kind, {}).values()


# --- the universe


def pythons() -> tuple[str, ...]:
    """The tags of all Pythons in the universe, oldest first: ``cp310`` to ``cp315t``."""
    return tuple(_read_universe()["pythons"])


def universe() -> dict[str, dict[str, Any]]:
    """Subdir -> the repodata of the universe."""
    by_subdir: dict[str, dict[str, Any]] = {subdir: {} for subdir in (*PLATFORMS, NOARCH)}
    for package, words in _packages(_read_universe()):
        on = package.get("on")
        for subdir in [NOARCH] if on == [NOARCH] else PLATFORMS:
            if on in (None, [NOARCH]) or subdir in on or subdir.split("-")[0] in on:
                record = _record(package, subdir, words)
                by_subdir[subdir][
                    f"{record['name']}-{record['version']}-{record['build']}.conda"
                ] = record
    return {subdir: repodata_of(subdir, records) for subdir, records in by_subdir.items()}


def universe_names() -> set[str]:
    """The names of the packages in the universe."""
    return {record["name"] for record in _records(*universe().values())}


def _read_universe() -> dict[str, Any]:
    content: dict[str, Any] = load_by_hand(UNIVERSE.read_bytes())
    return content


def _packages(data: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All packages of the data, each with the values of its placeholders.

    In all versions and for all Pythons.
    """
    kinds = {tag: _words(tag, python) for tag, python in data["pythons"].items()}
    for package in data["packages"]:
        tags = kinds if package.get("pythons") == "all" else package.get("pythons", [""])
        versions = (
            package["version"] if isinstance(package["version"], list) else [package["version"]]
        )
        for tag, version in product(tags, versions):
            yield {**package, "version": version}, kinds.get(tag, {})
    abi = ["python_abi {minor}.* *_{tag}"]
    for tag, words in kinds.items():
        # The package python: its build with the GIL is the default; since 3.13 it depends on its
        # python_abi.
        whole = {
            "name": "python",
            "version": "{version}",
            "number": 100,
            "build": "h{digest}_{number}_{python}",
        }
        if data["pythons"][tag].get("free_threaded"):
            whole |= {"track_features": "py_freethreading", "number": 0}
        tie = "constrains" if words["python"] == "cpython" else "needs"
        yield {**data["python"], **whole, tie: abi}, words
    for package in data["compiled"]:
        for tag in package["pythons"]:
            needs = ["python >={minor},<{next}.0a0", *abi]
            if kinds[tag]["python"] != "cpython":  # since 3.13 the build of python has the tag too
                needs.append(f"{needs[0]} *_{{tag}}")
            yield {"build": "py{py}h{digest}_{number}", **package, "needs": needs}, kinds[tag]


def _words(tag: str, python: Mapping[str, Any]) -> dict[str, str]:
    """The values of the placeholders for a Python."""
    major, minor, _ = python["version"].split(".")
    own = {
        "tag": tag,
        "py": tag.removeprefix("cp"),
        "version": python["version"],
        "python": python.get("python", tag),
    }
    return {**own, "minor": f"{major}.{minor}", "next": f"{major}.{int(minor) + 1}"}


def _record(package: Mapping[str, Any], subdir: str, words: Mapping[str, Any]) -> dict[str, Any]:
    words = {
        "version": package["version"],
        **words,
        "subdir": subdir,
        "number": package.get("number", 0),
    }
    name, version = (package[key].format(**words) for key in ("name", "version"))
    words["version"] = version
    lists = ("depends", subdir.split("-")[0], "needs")
    depends = [text.format(**words) for key in lists for text in package.get(key, ())]
    constrains = [text.format(**words) for text in package.get("constrains", ())]
    digest = hashlib.sha256(json.dumps([name, version, depends, constrains]).encode()).hexdigest()[
        :7
    ]
    optional = {"constrains": constrains, "track_features": package.get("track_features")}
    optional["noarch"] = "generic" if subdir == NOARCH else None
    return {
        "name": name,
        "version": version,
        "build": package.get("build", "h{digest}_{number}").format(**words, digest=digest),
        "build_number": words["number"],
        "depends": depends,
        "subdir": subdir,
        **{key: value for key, value in optional.items() if value},
    }
