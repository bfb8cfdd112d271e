"""The repodata that scenarios are solved from: this channel, planned or built, above the universe.

The universe stands in for conda-forge: ``universe.yaml`` made into repodata, always the same, and without a network.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.plan import repodata
from ctk.plan.plan import Request, plan, published_set, python_tags

UNIVERSE = Path(__file__).with_name("universe.yaml")

Repodata = Mapping[str, Mapping[str, Any]]
"""Subdir -> content of its ``repodata.json``."""

_CUDA_VERSION = re.compile(r"^cuda-version >=(?P<major>\d+)\S* (?P<fit>native|compat)_\*$")
_FREE_THREADED = re.compile(r"\*_cp\d+t\b")
# In milliseconds, as repodata has it.
_SOME_DAY = 1_790_000_000_000


@dataclass(frozen=True)
class TwinBuild:
    """Which of a package's two builds one is, ``native`` or ``compat``, and for which CUDA major."""

    fit: str
    major: str


@dataclass(frozen=True)
class Channels:
    """Channel folders, ready for a solver."""

    folders: tuple[Path, Path]  # this channel, then the universe
    subdirs: tuple[str, ...]  # the platforms that this channel is for
    twins: Mapping[tuple[str, str, str], TwinBuild]  # by name, version and build


def planned(workspace: Workspace, subdirs: Sequence[str] = ()) -> Repodata:
    """The repodata that this checkout's recipes and locks would give, for all platforms or some. Takes seconds.

    When packages were built must decide nothing, so those are given the later dates here that should be taken last:
    solvers prefer what was built later when all else is equal.
    """
    wanted = Request((), (), tuple(subdirs) or tuple(PLATFORMS), ())
    content = repodata.planned(plan(published_set(workspace), wanted, python_tags(workspace.build_config)))
    for subdir in content.values():
        for record in _records(subdir):
            needs = " ".join(record["depends"])
            hours = 4 * bool(_FREE_THREADED.search(needs)) + 2 * (" compat_" in needs) + ("cuda-version >=12" in needs)
            record["timestamp"] = _SOME_DAY + hours * 3_600_000
    return content


def built(folder: Path) -> Repodata:
    """The repodata of a channel's folder, which must have packages for a platform."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*/repodata.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            list(_records(content))
        except (OSError, ValueError, AttributeError) as error:
            raise Unsolvable(
                f"{file} cannot be read as repodata: {error}", "run `ctk build` to make the channel anew"
            ) from error
        found[file.parent.name] = content
    if not any(subdir in PLATFORMS and any(_records(content)) for subdir, content in found.items()):
        raise Unsolvable(
            f"there is no channel with packages for a platform in {folder}",
            "run `ctk build` first, or leave --channel out to verify what would be built",
        )
    return found


def without_virtual_constraints(content: Repodata) -> Repodata:
    """A copy without constraints on virtual packages, as clients see it that ignore them."""
    copy: dict[str, dict[str, Any]] = json.loads(json.dumps(content))
    for subdir in copy.values():
        for record in _records(subdir):
            if "constrains" in record:
                record["constrains"] = [c for c in record["constrains"] if not c.startswith("__")]
    return copy


def write(content: Repodata, folder: Path) -> Channels:
    """Writes this channel's repodata and the universe's below a folder."""
    own = repodata.write({NOARCH: repodata.index(NOARCH, {}), **content}, folder / "channel")
    base = repodata.write(universe(), folder / "universe")
    subdirs = tuple(s for s in PLATFORMS if s in content and any(_records(content[s])))
    return Channels((own, base), subdirs, dict(_twins(content)))


def _twins(content: Repodata) -> Iterator[tuple[tuple[str, str, str], TwinBuild]]:
    for subdir in content.values():
        for record in _records(subdir):
            key = (record["name"], record["version"], record["build"])
            if record["name"] == "cuda-version":
                yield key, TwinBuild(record["build"].split("_")[0], record["version"].split(".")[0])
            for need in record["depends"]:
                if match := _CUDA_VERSION.match(need):
                    yield key, TwinBuild(match["fit"], match["major"])


def _records(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in ("packages", "packages.conda"):
        yield from content.get(kind, {}).values()


# --- the universe


def universe() -> dict[str, dict[str, Any]]:
    """The universe's repodata, by subdir."""
    by_subdir: dict[str, dict[str, Any]] = {subdir: {} for subdir in (*PLATFORMS, NOARCH)}
    for record in _universe_records(YAML(typ="safe").load(UNIVERSE)):
        file = f"{record['name']}-{record['version']}-{record['build']}.conda"
        by_subdir[record["subdir"]][file] = record
    return {subdir: repodata.index(subdir, records) for subdir, records in by_subdir.items()}


def pythons() -> tuple[str, ...]:
    """The tags of every Python of the universe, oldest first: ``cp310`` to ``cp315t``."""
    return tuple(YAML(typ="safe").load(UNIVERSE)["pythons"])


def _universe_records(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kinds = {tag: _words(tag, python) for tag, python in data["pythons"].items()}
    for package in data["packages"]:
        tags = kinds if package.get("pythons") == "all" else package.get("pythons", [""])
        versions = package["version"] if isinstance(package["version"], list) else [package["version"]]
        for subdir, tag, version in product(_subdirs(package), tags, versions):
            yield _record(package, subdir, {"version": version, **kinds.get(tag, {})})
    abi = ["python_abi {minor}.* *_{tag}"]
    for subdir, (tag, words) in product(PLATFORMS, kinds.items()):
        # python itself: its build with the GIL is the default; since 3.13 it depends on its python_abi.
        whole = {"name": "python", "version": "{version}", "number": 100, "build": "h{digest}_{number}_{python}"}
        if data["pythons"][tag].get("free_threaded"):
            whole |= {"track_features": "py_freethreading", "number": 0}
        needs, constrains = ([], abi) if words["python"] == "cpython" else (abi, [])
        yield _record({**data["python"], **whole, "constrains": constrains}, subdir, words, needs)
    for package in data["compiled"]:
        for subdir, tag in product(_subdirs(package), package["pythons"]):
            needs = ["python >={minor},<{next}.0a0", *abi]
            if kinds[tag]["python"] != "cpython":  # since 3.13 python's own build tells its two kinds apart as well
                needs.append(f"{needs[0]} *_{{tag}}")
            build = "py{py}h{digest}_{number}"
            yield _record({"build": build, **package}, subdir, {**kinds[tag], "version": package["version"]}, needs)


def _words(tag: str, python: Mapping[str, Any]) -> dict[str, str]:
    """What the placeholders of the data stand for, for one Python."""
    major, minor, _ = python["version"].split(".")
    own = {"tag": tag, "py": tag.removeprefix("cp"), "version": python["version"], "python": python.get("python", tag)}
    return {**own, "minor": f"{major}.{minor}", "next": f"{major}.{int(minor) + 1}"}


def _subdirs(package: Mapping[str, Any]) -> list[str]:
    on = package.get("on")
    if on == [NOARCH]:
        return [NOARCH]
    return [s for s in PLATFORMS if on is None or s in on or s.split("-")[0] in on]


def _record(
    package: Mapping[str, Any], subdir: str, words: Mapping[str, Any], needs: Sequence[str] = ()
) -> dict[str, Any]:
    words = {**words, "subdir": subdir, "number": package.get("number", 0)}
    own = package.get(subdir.split("-")[0], [])
    depends = [text.format(**words) for text in (*package.get("depends", ()), *own, *needs)]
    constrains = [text.format(**words) for text in package.get("constrains", ())]
    name, version = package["name"].format(**words), words["version"]
    if isinstance(package["version"], str):
        version = package["version"].format(**words)
    digest = hashlib.sha256(json.dumps([name, version, depends, constrains]).encode()).hexdigest()[:7]
    record = {
        "name": name,
        "version": version,
        "build": package.get("build", "h{digest}_{number}").format(**words, digest=digest),
        "build_number": words["number"],
        "depends": depends,
        "subdir": subdir,
    }
    optional = {"constrains": constrains, "track_features": package.get("track_features")}
    record |= {key: value for key, value in optional.items() if value}
    return record | ({"noarch": "generic"} if subdir == NOARCH else {})
