"""The lock of what stands on the toolkit of a CUDA major: libraries that have a version of their own, and programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import Version

from ctk.core.errors import NotPublished, UnknownName
from ctk.core.platforms import NOARCH, PLATFORMS, SYSTEMS
from ctk.index.index import Index, IndexFile
from ctk.index.inside import applies, stated_requirements
from ctk.lock import wheels
from ctk.lock.components import CTK_COMPONENTS, MANIFEST, SECOND_RING
from ctk.lock.lock import LIBRARY_LOCK, ReleaseLock
from ctk.release.python_set import ChosenProject, runs_on


def library_release(index: Index, major: str, toolkits: Iterable[ReleaseLock], tags: Sequence[str]) -> ReleaseLock:
    """The lock of the second ring for a CUDA major and the Pythons of these tags; its errors are those of `choose`."""
    components, missing = {}, {}
    for name, chosen in choose(index, major, toolkits, tags).items():
        if chosen is None:
            missing[name] = tuple(SYSTEMS)
            continue
        for version, files in chosen.files.items():
            key = f"{name}-{files[0].version}" if version in chosen.older else name
            components[key] = wheels.component(index, name, files, chosen.targets[version])
    return ReleaseLock(f"{LIBRARY_LOCK}{major}", None, dict(sorted(components.items())), missing=missing)


def choose(
    index: Index, major: str, toolkits: Iterable[ReleaseLock], tags: Sequence[str]
) -> dict[str, RingProject | None]:
    """Of each library and program the newest version that a locked toolkit of the major, and those before it, accept.

    Beside it, for each Python of the matrix that is older than all that it runs on, the newest that runs there. By name
    with the major where a project has a distribution for each: majors share versions. None for one of which the index
    has no wheel for that major; without files where no locked toolkit goes with it.

    Raises:
        UnknownName: When the index has none at all for the major.
    """
    choice = _Choice(index, major, [lock for lock in toolkits if lock.is_ctk and lock.major == major], list(tags))
    chosen = {}
    for name, form in SECOND_RING.items():
        wanted = Requirement(form.format(major=major))
        chosen[name if form == str(wanted) else f"{name}-cu{major}"] = choice.of(wanted)
    if not any(project for name, project in chosen.items() if name.endswith(f"-cu{major}")):
        raise UnknownName(
            f"the package index has no library for CUDA {major}", "majors are those of the locked toolkits"
        )
    return chosen


@dataclass(frozen=True)
class RingProject(ChosenProject):
    """What is chosen of one project.

    Attributes:
        targets: Version -> what it is locked for; of an older one only the Pythons that it is there for.
    """

    targets: Mapping[Version, list[str]]


@dataclass(frozen=True)
class _Demand:
    """What a chosen version requires of another project of the ring, on the Pythons that it is there for."""

    by: str
    requirement: Requirement
    tags: Sequence[str]


class _Choice:
    def __init__(self, index: Index, major: str, toolkits: Sequence[ReleaseLock], tags: list[str]) -> None:
        self._index, self._major, self._toolkits, self._tags = index, major, toolkits, tags
        self._demands: list[_Demand] = []

    def of(self, wanted: Requirement) -> RingProject | None:
        """What is chosen of a project, given what is chosen of those before it."""
        distribution = wanted.name
        try:
            listed = self._index.files(distribution)
        except NotPublished:
            return None
        held_back = ""
        files: dict[Version, list[IndexFile]] = {}
        older: dict[Version, tuple[str, ...]] = {}
        targets: dict[Version, list[str]] = {}
        versions, open_ = wheels.final_versions(listed), self._tags
        for version in versions:
            offered = wheels.files_of(listed, version)
            if not (runs := _served(offered, open_)):
                continue
            needs = [r for _, r in stated_requirements(self._index.metadata(offered[0])) if r]
            against = list(self._against(needs, wanted.extras))
            refused = {tag: reason for tag in runs if (reason := self._refusal(distribution, version, tag))}
            served = [tag for tag in runs if not against and tag not in refused]
            if served and (not files or served[0] == open_[0]):
                files[version] = offered
                targets[version] = _targets(offered, served)
                if len(files) > 1:
                    older[version] = (f"it is the newest for Python {', '.join(served)}",)
                self._demands += [_Demand(f"{distribution} {version}", r, served) for r in needs if self._asks(r)]
                # What a newer Python lacks, no older version has.
                open_ = open_[: open_.index(served[0])]
            elif not files and not held_back:
                held_back = f"{version}: {'; '.join(against or dict.fromkeys(refused.values()))}"
            if not open_:
                break
        if not files:
            held_back = held_back or "it has no wheel for this matrix"
        return RingProject(files, older, versions[0], held_back, targets) if versions else None

    def _against(self, needs: Sequence[Requirement], extras: Iterable[str]) -> Iterator[str]:
        """What speaks against a version, whatever else is chosen."""
        for extra in extras:
            if not any(_holds(r, extra) and not _holds(r, "") for r in needs):
                yield f"it says nothing of what it needs for {extra}"
        asked = [r for r in needs if _holds(r, "", *extras)]
        if unmet := [str(r) for r in asked if not any(_meets(lock, r) for lock in self._toolkits)]:
            yield f"it requires {', '.join(unmet)}, which no locked toolkit has"

    def _refusal(self, distribution: str, version: Version, tag: str) -> str:
        """Why a version does not go with what is chosen for a Python, as a sentence; empty when it does."""
        for demand in self._demands:
            need = demand.requirement
            if need.name == distribution and tag in demand.tags and version not in need.specifier:
                return f"{demand.by} requires {need.name}{need.specifier}"
        return ""

    def _asks(self, requirement: Requirement) -> bool:
        """Whether a requirement holds by itself or for this CUDA major."""
        names = {Requirement(form.format(major=self._major)).name for form in SECOND_RING.values()}
        return requirement.name in names and _holds(requirement, "", f"cu{self._major}", f"cuda{self._major}")


def _served(files: Sequence[IndexFile], tags: Sequence[str]) -> list[str]:
    """Those of these Pythons that the wheels of a version run on: of a wheel for any Python, those that it states."""
    pure = [f for f in files if wheels.targets_of(f) & {NOARCH, *PLATFORMS}]
    if pure:
        return [tag for tag in tags if all(runs_on(file, tag) for file in pure)]
    return [tag for tag in tags if any(wheels.wheel_for(files, f"{subdir}-{tag}") for subdir in PLATFORMS)]


def _targets(files: Sequence[IndexFile], tags: Sequence[str]) -> list[str]:
    if wheels.wheel_for(files, NOARCH):
        return [NOARCH]
    if any(wheels.wheel_for(files, subdir) for subdir in PLATFORMS):
        return list(PLATFORMS)
    return [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in tags]


def _holds(requirement: Requirement, *extras: str) -> bool:
    """Whether it holds on some platform of ours, with one of these extras asked for."""
    return applies(
        requirement, [p.marker_environment | {"extra": extra} for p in PLATFORMS.values() for extra in extras]
    )


def _meets(lock: ReleaseLock, requirement: Requirement) -> bool:
    """Whether a toolkit has what is required of it; what is no part of a toolkit is not asked for."""
    if requirement.name == MANIFEST:
        return Version(lock.release) in requirement.specifier
    if re.sub(r"-cu\d+$", "", requirement.name) not in {component.project for component in CTK_COMPONENTS}:
        return True
    had = [c.version for c in lock.components.values() if c.distribution == requirement.name]
    return any(Version(version) in requirement.specifier for version in had)
