"""What scenarios are solved from: this channel, planned or built, above the universe. Metadata only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.plan import repodata
from ctk.plan.plan import Request, plan
from ctk.plan.project import published_set, python_tags
from ctk.verify.universe import universe

Repodata = Mapping[str, Mapping[str, Any]]
"""Subdir -> content of its ``repodata.json``."""

_CUDA_VERSION = re.compile(r"^cuda-version >=(?P<major>\d+)\S* (?P<fit>native|compat)_\*$")
_FREE_THREADED = re.compile(r"\*_cp\d+t\b")
# In milliseconds, as repodata has it.
_SOME_DAY = 1_790_000_000_000


@dataclass(frozen=True)
class Side:
    """What a package says of itself: which of the two builds it is, and of which CUDA major.

    Attributes:
        fit: ``native`` or ``compat``.
        major: ``13``.
    """

    fit: str
    major: str


@dataclass(frozen=True)
class Channels:
    """Channel folders, ready for a solver.

    Attributes:
        folders: This channel, then the universe.
        subdirs: The platforms that this channel is for.
        sides: Name, version and build of each package of this channel that exists in two builds -> which it is.
    """

    folders: tuple[Path, Path]
    subdirs: tuple[str, ...]
    sides: Mapping[tuple[str, str, str], Side]


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
    """The repodata of a channel's folder.

    Raises:
        Unsolvable: It is not there, cannot be read, or has packages for no platform.
    """
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
    """A copy without any constraint on a virtual package: what those clients see that ignore them."""
    copy: dict[str, dict[str, Any]] = json.loads(json.dumps(content))
    for subdir in copy.values():
        for record in _records(subdir):
            if "constrains" in record:
                record["constrains"] = [c for c in record["constrains"] if not c.startswith("__")]
    return copy


def write(content: Repodata, folder: Path) -> Channels:
    """Writes this channel's repodata and the universe's below a folder."""
    with_noarch = {NOARCH: {"info": {"subdir": NOARCH}, "packages": {}, "packages.conda": {}}, **content}
    own = repodata.write(with_noarch, folder / "channel")
    base = repodata.write(universe(), folder / "universe")
    subdirs = tuple(s for s in PLATFORMS if s in content and any(_records(content[s])))
    return Channels((own, base), subdirs, dict(_sides(content)))


def _sides(content: Repodata) -> Iterator[tuple[tuple[str, str, str], Side]]:
    for subdir in content.values():
        for record in _records(subdir):
            place = (record["name"], record["version"], record["build"])
            if record["name"] == "cuda-version":
                yield place, Side(record["build"].split("_")[0], record["version"].split(".")[0])
            for need in record["depends"]:
                if match := _CUDA_VERSION.match(need):
                    yield place, Side(match["fit"], match["major"])


def _records(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in ("packages", "packages.conda"):
        yield from content.get(kind, {}).values()
