"""Chooses versions of projects that are locked by CUDA major: Python projects, and libraries.

Of each project the newest version that works is locked, and older versions that other projects or
older Pythons need.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.core.console import listing
from ctk.core.errors import NotPublished, UnknownName
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.index.index import Index, IndexFile
from ctk.index.inside import applies, read_requirements, stated_requirements
from ctk.lock import wheels
from ctk.lock.components import (
    AS_REQUIRED,
    CTK_COMPONENTS,
    EXTENDED,
    LIBRARIES,
    MANIFEST,
    OLDER_TOOLKITS,
    PYTHON_PROJECTS,
    PYTHON_ROOT,
    WITHOUT_TOOLKIT,
)
from ctk.lock.model import LIBRARY_LOCK, ReleaseLock

VERSIONED_BY_CUDA = ("cuda-python", "cuda-bindings")
"""Projects whose major version is CUDA's."""
COOLDOWN = timedelta(days=14)
"""A client that takes nothing younger (``exclude-newer`` of pixi) finds a version of each project
in the locks.
"""
_NO_EXTRA = {"extra": ""}
_CTK_PROJECTS = frozenset(component.project for component in CTK_COMPONENTS)
_OTHER_VERSION = "name another version; `ctk release check -v` shows the newest"
_MOST_NAMED = 8
_STEP = "look at what the newest versions require; a mirror may have to fetch more of them"


@dataclass(frozen=True)
class ChosenProject:
    """The chosen versions of a project.

    Attributes:
        files: Version -> its wheels, newest version first; empty if no version works.
        targets: Version -> the targets that it is locked for.
        older: Each older version -> why it is locked beside the newest, in sentences.
        newest: The newest final version on the index; of a project in `VERSIONED_BY_CUDA`, of this
            major.
        held_back: Why `newest` is not chosen; empty if it is.
    """

    files: Mapping[Version, list[IndexFile]]
    targets: Mapping[Version, list[str]]
    older: Mapping[Version, tuple[str, ...]]
    newest: Version
    held_back: str


Chosen = dict[str, ChosenProject]
"""By the name of the component; without libraries that have no wheel for the CUDA major."""


def release_of(
    index: Index, name: str, toolkits: Iterable[ReleaseLock], tags: tuple[str, ...]
) -> ReleaseLock:
    """The lock ``python-13`` or ``libraries-13`` of the chosen versions.

    Raises the errors of `choose`.
    """
    components = {}
    for project, chosen in choose(index, name, toolkits, tags).items():
        for version, files in chosen.files.items():
            key = f"{project}-{files[0].version}" if version in chosen.older else project
            targets = chosen.targets[version]
            component = wheels.component(index, project, files, targets)
            if targets[0] in PLATFORMS:  # a lock says of each whether it has a wheel
                artefacts = dict.fromkeys(PLATFORMS) | dict(component.artefacts)
                component = replace(component, artefacts=artefacts)
            components[key] = component
    return ReleaseLock(name, None, dict(sorted(components.items())))


def choose(
    index: Index, name: str, toolkits: Iterable[ReleaseLock], tags: tuple[str, ...]
) -> Chosen:
    """Chooses the versions for ``python-13`` or ``libraries-13``, for the Pythons of these tags.

    Raises:
        UnknownName: The index has nothing for that major.
        NotPublished: No version of a Python project can be used, or no version is compatible with
            the others.
    """
    kind, _, major = name.rpartition("-")
    if f"{kind}-" != LIBRARY_LOCK:
        return _python_projects(index, major, tags)
    return _libraries(
        index, major, [lock for lock in toolkits if lock.is_ctk and lock.major == major], list(tags)
    )


# ---- the Python projects of a CUDA major


def _python_projects(index: Index, major: str, tags: tuple[str, ...]) -> Chosen:
    """Chooses, of each project, the newest version that runs on all these Pythons.

    The index must have its requirements.

    Requirements of other projects do not hold it back: the version that such a project accepts is
    chosen beside it. So are two sets in which all projects accept each other, `PYTHON_ROOT` first,
    then in the order of `PYTHON_PROJECTS`: the newest, and the newest `COOLDOWN` before the
    youngest wheel of all these, if the index states upload times.
    """
    majors = sorted({v.major for v in wheels.final_versions(index.files(PYTHON_ROOT))})
    if major not in map(str, majors):
        raise UnknownName.of("CUDA major", major, [*map(str, majors)])
    choice = _VersionChoice(index, major, tags)
    alone = {name: choice.alone(name) for name in PYTHON_PROJECTS}
    sets = [choice.together(PYTHON_PROJECTS), *(versions for versions, _ in alone.values())]
    with suppress(NotPublished):  # a project that is younger
        sets.append(choice.before(sets).together(PYTHON_PROJECTS))
    return {name: choice.of(name, sets, held_back) for name, (_, held_back) in alone.items()}


class _VersionChoice:
    """Versions of Python projects for a CUDA major and the Pythons of these tags.

    Requirements are read once.
    With a time (seconds since 1970), only versions whose wheels were all uploaded by then.
    Versions that are `preferred`, by project, are taken before newer ones.
    """

    def __init__(
        self,
        index: Index,
        major: str,
        tags: tuple[str, ...],
        until: float = math.inf,
        preferred: Mapping[str, Sequence[Version]] | None = None,
    ) -> None:
        self._index, self._major, self._tags, self._until = index, major, tags, until
        self._preferred = preferred or {}
        self._reasons: dict[tuple[str, Version], str] = {}
        self._requirements = cache(self._read_requirements)

    def before(self, sets: Iterable[Mapping[str, Version]]) -> _VersionChoice:
        """The choice `COOLDOWN` before the youngest wheel of these versions."""
        youngest = max(
            self._uploaded(*project) for versions in sets for project in versions.items()
        )
        return _VersionChoice(
            self._index, self._major, self._tags, youngest - COOLDOWN.total_seconds()
        )

    def alone(self, name: str) -> tuple[dict[str, Version], str]:
        """The newest usable version of a project with its requirements, and why newer are not."""
        held_back = ""
        for version in self._versions(name):
            reason = self._unusable(name, version)
            if not reason:
                return self.together([name], {name: version}), held_back
            held_back = held_back or reason
        newest = self._versions(name)[0]
        raise NotPublished(
            f"the package index has no {name} that can be used; {newest}: {held_back}", _STEP
        )

    def together(
        self, names: Collection[str], chosen: Mapping[str, Version] | None = None
    ) -> dict[str, Version]:
        """The newest versions of projects and their requirements that all accept each other.

        Else NotPublished.
        """
        chosen = dict(chosen or {})
        while open_ := [
            n
            for n in PYTHON_PROJECTS
            if n not in chosen and (n in names or self._accepted(n, chosen))
        ]:
            name = open_[0]
            accepted = SpecifierSet(
                ",".join(str(need.specifier) for _, need in self._accepted(name, chosen))
            )
            usable = (
                v for v in self._versions(name) if v in accepted and not self._unusable(name, v)
            )
            version = next((v for v in usable if not self._refused(name, v, chosen)), None)
            if version is None:
                fixed = ", ".join(f"{other} {v}" for other, v in chosen.items()) or "any"
                tags = ", ".join(self._tags)
                cause = (
                    f"the package index has no {name}{accepted} for Python {tags} that goes with"
                    f" {fixed}"
                )
                raise NotPublished(cause, _STEP)
            chosen[name] = version
        return chosen

    def of(self, name: str, sets: Sequence[Mapping[str, Version]], held_back: str) -> ChosenProject:
        """The versions of a project that are in some set.

        Each set has versions that accept each other.
        """
        newest, *older = sorted(
            {versions[name] for versions in sets if name in versions}, reverse=True
        )
        why = {
            v: {
                s: None
                for versions in sets
                if versions.get(name) == v
                for s in self._against(name, newest, versions)
            }
            for v in older
        }
        listed = self._index.files(name)
        files = {version: wheels.files_of(listed, version) for version in (newest, *older)}
        cooldown = f"it is for clients that take nothing younger than {COOLDOWN.days} days"
        reasons = {v: tuple(sentences) or (cooldown,) for v, sentences in why.items()}
        targets = {version: _targets(wheels_, self._tags) for version, wheels_ in files.items()}
        return ChosenProject(files, targets, reasons, self._versions(name)[0], held_back)

    def with_what_it_requires(self, name: str, version: Version) -> dict[str, Version]:
        """A version, whether it is the newest or not, and what goes with it.

        Else NotPublished.
        """
        if version not in self._versions(name):
            raise no_such_version(self._index.files(name), name, version)
        files = wheels.files_of(self._index.files(name), version)
        if not any(wheels.wheel_for(files, target) for target in _targets(files, self._tags)):
            raise NotPublished(
                f"{name} {version} has no wheel for Python {', '.join(self._tags)}", _OTHER_VERSION
            )
        return self.together([name], {name: version})

    def _against(self, name: str, version: Version, chosen: Mapping[str, Version]) -> Iterator[str]:
        """The requirements in a set that exclude a version of one of its projects, as sentences."""
        others = {other: v for other, v in chosen.items() if other != name}
        for other, need in self._accepted(name, others):
            if version not in need.specifier:
                yield f"{other} {chosen[other]} requires {name}{need.specifier}"
        for need in self._refused(name, version, others):
            yield (
                f"{name} {version} requires {need.name}{need.specifier}, and {need.name}"
                f" {chosen[need.name]} is there"
            )

    def _accepted(self, name: str, chosen: Mapping[str, Version]) -> list[tuple[str, Requirement]]:
        """The requirements of chosen projects on another project, each with its project."""
        needs = [
            (other, need)
            for other, version in chosen.items()
            for need in self._requirements(other, version)
        ]
        return [(other, need) for other, need in needs if need.name == name]

    def _refused(
        self, name: str, version: Version, chosen: Mapping[str, Version]
    ) -> list[Requirement]:
        """The requirements of a version that the chosen versions do not meet."""
        needs = self._requirements(name, version)
        return [
            need
            for need in needs
            if need.name in chosen and chosen[need.name] not in need.specifier
        ]

    def _versions(self, name: str) -> list[Version]:
        """All final versions, newest first."""
        of_major = SpecifierSet(f"=={self._major}.*") if name in VERSIONED_BY_CUDA else None
        versions = wheels.final_versions(self._index.files(name), of_major)
        if self._until < math.inf:
            versions = [v for v in versions if self._uploaded(name, v) <= self._until]
        if not versions:
            raise NotPublished(f"the package index has no {name} for CUDA {self._major}", _STEP)
        first = [v for v in self._preferred.get(name, ()) if v in versions]
        return first + [v for v in versions if v not in first]

    def _uploaded(self, name: str, version: Version) -> float:
        """When the last wheel of a version was uploaded, in seconds since 1970.

        -inf if the index does not say.
        """
        stated = [
            f.uploaded
            for f in wheels.files_of(self._index.files(name), version)
            if f.uploaded is not None
        ]
        return max(stated, default=-math.inf)

    def _unusable(self, name: str, version: Version) -> str:
        """Why a version cannot be used with any versions of other projects; empty if it can."""
        if (name, version) not in self._reasons:
            self._reasons[name, version] = ""  # two projects may require each other
            try:
                self._reasons[name, version] = reason = self._wrong_wheels(name, version)
                if not reason:
                    self.together([name], {name: version})
            except NotPublished as error:
                self._reasons[name, version] = error.cause
        return self._reasons[name, version]

    def _wrong_wheels(self, name: str, version: Version) -> str:
        """Why the wheels of a version are not for this matrix; empty if they are."""
        files, tags = wheels.files_of(self._index.files(name), version), self._tags
        if not any(wheels.wheel_for(files, target) for target in _targets(files, tags)):
            return f"it has no wheel for Python {', '.join(tags)} on {', '.join(PLATFORMS)}"
        refused = [tag for tag in tags if not all(wheels.runs_on(file, tag) for file in files)]
        if refused:
            stated = ", ".join(sorted({file.requires_python or "" for file in files} - {""}))
            return f"it requires Python {stated}, and is to run on {', '.join(refused)} too"
        return ""

    def _read_requirements(self, name: str, version: Version) -> list[Requirement]:
        """The requirements of a version on other projects, without extras or for the major."""
        files = wheels.files_of(self._index.files(name), version)
        stated = read_requirements(self._index.metadata(min(files, key=lambda f: f.file)), name)
        extras = {"", f"cu{self._major}"}
        while True:
            required = [r for r in stated if _holds(r, *extras)]
            # An extra may name another extra of its project: cuda-cccl[cu13] is
            # cuda-cccl[minimal-cu13] and more.
            own = {extra for r in required if r.name == name for extra in r.extras}
            if own <= extras:
                return [r for r in required if r.name in PYTHON_PROJECTS and r.name != name]
            extras |= own


# ---- the libraries and programs for the toolkits of a CUDA major


def _libraries(
    index: Index, major: str, toolkits: Sequence[ReleaseLock], tags: Sequence[str]
) -> Chosen:
    """Chooses, of each project, the newest version that the toolkit and earlier projects accept.

    The toolkit is one of the major; the projects are in the order of choosing.

    If that version does not run on older Pythons of the matrix, the newest version for each of them
    is chosen, too; and the newest for each of `OLDER_TOOLKITS`. A project with a distribution for
    each major has the major in its name, as majors share versions.
    """
    wanted = wanted_of(major)
    distributions = {r.name for r in wanted.values()}
    choice = _LibraryChoice(index, major, toolkits, tags, distributions)
    found = {key_of(n, major): choice.of(n, r) for n, r in wanted.items()}
    chosen = {name: project for name, project in found.items() if project}
    for name in AS_REQUIRED.get(major, ()):
        if (key := f"{name}-cu{major}") in chosen:
            for version, files, reason in choice.required(wanted[name].name):
                chosen[key] = _joined(
                    chosen[key], version, files, _library_targets(files, tags), reason
                )
    for minor, projects in OLDER_TOOLKITS.items():
        until = [lock for lock in toolkits if Version(lock.minor) <= Version(minor)]
        choice = _LibraryChoice(index, major, until, tags, distributions)
        for name in projects.get(major, ()):
            if name in chosen and (older := choice.of(name, wanted[name])):
                for version, files in older.files.items():
                    reason = f"it is the newest for CUDA Toolkit {minor}"
                    chosen[name] = _joined(
                        chosen[name], version, files, older.targets[version], reason
                    )
    if not any(name.endswith(f"-cu{major}") for name in chosen):
        raise UnknownName(
            f"the package index has no library for CUDA {major}",
            "majors are those of the locked toolkits",
        )
    return chosen


def _joined(
    project: ChosenProject,
    version: Version,
    files: list[IndexFile],
    targets: list[str],
    reason: str,
) -> ChosenProject:
    """A project with one more, older version, and why it is locked."""
    if version in project.files:
        return project
    return replace(
        project,
        files={**project.files, version: files},
        targets={**project.targets, version: targets},
        older={**project.older, version: (reason,)},
    )


@dataclass(frozen=True)
class _Demand:
    """The requirement of a chosen version on another library, for the Pythons it was chosen for."""

    by: str
    requirement: Requirement
    tags: Sequence[str]


class _LibraryChoice:
    """Versions of the projects for a CUDA major, chosen one after another.

    `names` are their distributions.
    """

    def __init__(
        self,
        index: Index,
        major: str,
        toolkits: Sequence[ReleaseLock],
        tags: Sequence[str],
        names: Collection[str],
    ) -> None:
        self._index, self._major, self._toolkits, self._tags, self._names = (
            index,
            major,
            toolkits,
            tags,
            names,
        )
        self._demands: list[_Demand] = []
        self._chosen: dict[str, ChosenProject] = {}

    def of(self, name: str, wanted: Requirement) -> ChosenProject | None:
        """The newest versions compatible with the projects chosen so far; None without a wheel."""
        if chosen := self._of(name, wanted):
            self._chosen[name] = chosen
        return chosen

    def _of(self, name: str, wanted: Requirement) -> ChosenProject | None:
        distribution, without_toolkit = wanted.name, name.endswith(WITHOUT_TOOLKIT)
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
                held_back = held_back or ("" if files else "it has no wheel for this matrix")
                continue
            needs = [r for _, r in stated_requirements(self._index.metadata(offered[0])) if r]
            places = _platforms(needs, without_toolkit)
            against = [] if without_toolkit else list(self._against(needs, wanted.extras))
            if distribution in EXTENDED:
                extended = self._extended(name)
                places = extended.places if extended else ()
                against += (
                    extended.against(needs, compiled_with(self._index, offered, places))
                    if extended
                    else [f"no version of {EXTENDED[distribution]} is locked, which it extends"]
                )
            refused = {
                tag: reason for tag in runs if (reason := self._refusal(distribution, version, tag))
            }
            served = [tag for tag in runs if not against and tag not in refused]
            if served and (not files or served[0] == open_[0]):
                files[version] = offered
                targets[version] = [
                    t for t in _library_targets(offered, served) if t.startswith(places)
                ]
                if len(files) > 1:
                    older[version] = (f"it is the newest for Python {', '.join(served)}",)
                if not without_toolkit:
                    self._demands += [
                        _Demand(f"{distribution} {version}", r, served)
                        for r in needs
                        if self._asks(r)
                    ]
                # An older version does not run on a newer Python either.
                open_ = open_[: open_.index(served[0])]
            elif not files and not held_back:
                held_back = "; ".join(against or dict.fromkeys(refused.values()))
            if not open_:
                break
        return ChosenProject(files, targets, older, versions[0], held_back) if versions else None

    def asked(self, name: str, wanted: Requirement, version: Version) -> AskedVersion:
        """A version that is asked for, whether it is the newest or not; else NotPublished."""
        listed, without_toolkit = self._index.files(wanted.name), name.endswith(WITHOUT_TOOLKIT)
        files = wheels.files_of(listed, version)
        if not files or version not in wheels.final_versions(listed):
            raise no_such_version(listed, wanted.name, version)
        runs = _served(files, self._tags)
        if not runs:
            raise NotPublished(
                f"{wanted.name} {version} has no wheel for Python {', '.join(self._tags)}",
                _OTHER_VERSION,
            )
        needs = [r for _, r in stated_requirements(self._index.metadata(files[0])) if r]
        against = [] if without_toolkit else list(self._against(needs, wanted.extras))
        if against:
            raise NotPublished(f"{wanted.name} {version}: {'; '.join(against)}", _OTHER_VERSION)
        places = _platforms(needs, without_toolkit)
        targets = [t for t in _library_targets(files, runs) if t.startswith(places)]
        on_libraries = [] if without_toolkit else [need for need in needs if self._asks(need)]
        return AskedVersion(files, targets, on_libraries)

    def _extended(self, name: str) -> _Extended | None:
        """What was chosen of the project that this one extends; None if nothing was."""
        end = WITHOUT_TOOLKIT if name.endswith(WITHOUT_TOOLKIT) else ""
        project = self._chosen.get(f"{EXTENDED[name.removesuffix(end)]}{end}")
        return _Extended.of(self._index, project) if project and project.files else None

    def required(self, distribution: str) -> Iterator[tuple[Version, list[IndexFile], str]]:
        """The versions that a chosen project requires exactly.

        With their wheels, and the requirement in words.
        """
        listed = self._index.files(distribution)
        for demand in self._demands:
            for pin in (
                demand.requirement.specifier if demand.requirement.name == distribution else ()
            ):
                version = (
                    Version(pin.version)
                    if pin.operator == "==" and "*" not in pin.version
                    else None
                )
                if version and (files := wheels.files_of(listed, version)):
                    yield (
                        version,
                        files,
                        f"{demand.by} requires {distribution}{demand.requirement.specifier}",
                    )

    def _against(self, needs: Sequence[Requirement], extras: Iterable[str]) -> Iterator[str]:
        """Reasons against a version that do not depend on other choices."""
        for extra in extras:
            if not any(_holds(r, extra) and not _holds(r, "") for r in needs):
                yield f"it does not say what it needs for {extra}"
        asked = [r for r in needs if _holds(r, "", *extras)]
        unmet = [
            f"{r.name}{r.specifier}"
            for r in asked
            if not any(_meets(lock, r) for lock in self._toolkits)
        ]
        if unmet:
            yield (
                f"it requires {', '.join(dict.fromkeys(unmet))}, which no locked toolkit of CUDA"
                f" {self._major} has"
            )

    def _refusal(self, distribution: str, version: Version, tag: str) -> str:
        """The requirement that excludes a version for a Python, as a sentence.

        Empty if none does.
        """
        for demand in self._demands:
            need = demand.requirement
            if need.name == distribution and tag in demand.tags and version not in need.specifier:
                return f"{demand.by} requires {need.name}{need.specifier}"
        return ""

    def _asks(self, requirement: Requirement) -> bool:
        """Whether a requirement is on one of the libraries.

        It has to apply without extras or for this CUDA major.
        """
        return requirement.name in self._names and _holds(
            requirement, "", f"cu{self._major}", f"cuda{self._major}"
        )


@dataclass(frozen=True)
class AskedVersion:
    """A version of a library that a maintainer asks for.

    Attributes:
        files: Its wheels.
        targets: The targets that it is locked for.
        needs: What it requires of the libraries.
    """

    files: list[IndexFile]
    targets: list[str]
    needs: list[Requirement]


def wanted_of(major: str) -> dict[str, Requirement]:
    """Library -> its distribution for a CUDA major, with the extras whose requirements count."""
    return {name: Requirement(form.format(major=major)) for name, form in LIBRARIES.items()}


def key_of(name: str, major: str) -> str:
    """The name of a library in the lock of a major; majors share versions of some."""
    is_for_each_major = LIBRARIES[name] == LIBRARIES[name].format(major=major)
    return name if is_for_each_major else f"{name}-cu{major}"


def library_choice(
    index: Index, major: str, toolkits: Iterable[ReleaseLock], tags: Sequence[str]
) -> _LibraryChoice:
    """The versions of the libraries for a CUDA major, with all its locked toolkits."""
    of_major = [lock for lock in toolkits if lock.is_ctk and lock.major == major]
    names = {requirement.name for requirement in wanted_of(major).values()}
    return _LibraryChoice(index, major, of_major, tags, names)


def project_versions(
    index: Index,
    major: str,
    tags: tuple[str, ...],
    name: str,
    version: Version,
    locked: Mapping[str, Sequence[Version]],
) -> dict[str, ChosenProject]:
    """A version of a Python project, and what goes with it, locked versions first.

    Raises:
        NotPublished: The index has no such version for the major, or nothing goes with it.
    """
    choice = _VersionChoice(index, major, tags, preferred=locked)
    versions = choice.with_what_it_requires(name, version)
    return {project: choice.of(project, [versions], "") for project in versions}


def no_such_version(
    listed: Iterable[IndexFile], distribution: str, version: Version
) -> NotPublished:
    """The error for a version that the index lacks, with the nearest that it has."""
    files = list(listed)
    versions = wheels.final_versions(files)
    near = [v for v in versions if v.major == version.major] or versions
    names = listing([*map(str, near)], most=_MOST_NAMED)
    cause = f"the package index has no wheel of {distribution} {version}"
    stated = [file for file in files if file.version == str(version)]
    if stated and all(file.yanked for file in stated):
        cause = f"{distribution} {version} was withdrawn by its publisher (yanked)"
    return NotPublished(cause, f"name one that it has: {names}" if near else _STEP)


@dataclass(frozen=True)
class _Extended:
    """The newest chosen version of a project that others extend: PyTorch.

    `places` are the platforms that it is locked for, and `cuda` is what `compiled_with` says.
    """

    distribution: str
    version: Version
    cuda: str
    places: tuple[str, ...]

    @classmethod
    def of(cls, index: Index, project: ChosenProject) -> _Extended:
        version, files = next(iter(project.files.items()))
        targets = [t for t in project.targets[version] if wheels.wheel_for(files, t)]
        places = tuple(dict.fromkeys(target.partition("-cp")[0] for target in targets))
        cuda = compiled_with(index, files, places)
        return cls(files[0].distribution, version, cuda, places)

    def against(self, needs: Iterable[Requirement], cuda: str) -> Iterator[str]:
        """Reasons why a version does not go with it that has these needs and was compiled so.

        It may have been compiled with an older minor of the same CUDA major.
        """
        for need in needs:
            is_met = need.name != self.distribution or self.version in need.specifier
            if not is_met and _holds(need, ""):
                yield f"it requires {need.name}{need.specifier}, and {self.version} is there"
        ours, theirs = _cuda_minor(cuda), _cuda_minor(self.cuda)
        is_older = ours[:-1] == theirs[:-1] and ours <= theirs
        if cuda != self.cuda and not (ours and theirs and is_older):
            yield (
                f"it was compiled for {cuda or 'no CUDA that it names'}, and"
                f" {self.distribution} {self.version} for {self.cuda}"
            )


def _cuda_minor(compiled: str) -> tuple[int, ...]:
    """``(13, 0)`` of ``cu130``; empty for anything else."""
    stated = re.fullmatch(r"cu(\d\d)(\d+)", compiled)
    return (int(stated[1]), int(stated[2])) if stated else ()


def compiled_with(index: Index, files: Sequence[IndexFile], places: Sequence[str]) -> str:
    """The CUDA that a version was compiled with, by its module ``version``.

    ``cu130`` is CUDA 13.0, and ``cpu`` is none; empty if it says nothing. The wheel for the first
    of these places is read, which may be for any Python.
    """
    for file in files:
        if any(t.partition("-cp")[0] in places[:1] for t in wheels.targets_of(file)):
            text = index.text(file, f"{file.distribution}/version.py") or ""
            stated = re.search(r"__version__ = ['\"][^+'\"]+\+(\w+)", text)
            return stated[1] if stated else ""
    return ""


def _platforms(needs: Sequence[Requirement], without_toolkit: bool) -> tuple[str, ...]:
    """The platforms of a version that requires the toolkit on some, or all and ``noarch``."""
    toolkit = [requirement for requirement in needs if _is_on_toolkit(requirement)]
    on = [
        p.subdir
        for p in PLATFORMS.values()
        if any(applies(r, [p.marker_environment | _NO_EXTRA]) for r in toolkit)
    ]
    if without_toolkit:
        return tuple(subdir for subdir in PLATFORMS if subdir not in on)
    return tuple(on) or (NOARCH, *PLATFORMS)


def _is_on_toolkit(requirement: Requirement) -> bool:
    return requirement.name == MANIFEST or _component_project(requirement) in _CTK_PROJECTS


def _component_project(requirement: Requirement) -> str:
    return re.sub(r"-cu\d+$", "", requirement.name)


def _served(files: Sequence[IndexFile], tags: Sequence[str]) -> list[str]:
    """The Pythons, of these, that the wheels of a version run on.

    A wheel for any Python states them.
    """
    pure = [f for f in files if wheels.targets_of(f) & {NOARCH, *PLATFORMS}]
    if pure:
        return [tag for tag in tags if all(wheels.runs_on(file, tag) for file in pure)]
    return [
        tag
        for tag in tags
        if any(wheels.wheel_for(files, f"{subdir}-{tag}") for subdir in PLATFORMS)
    ]


def _library_targets(files: Sequence[IndexFile], tags: Sequence[str]) -> list[str]:
    by_platform = any(wheels.wheel_for(files, subdir) for subdir in PLATFORMS)
    return (
        list(PLATFORMS)
        if by_platform and not wheels.wheel_for(files, NOARCH)
        else _targets(files, tags)
    )


def _holds(requirement: Requirement, *extras: str) -> bool:
    """Whether a requirement applies on some platform of ours with one of these extras."""
    return applies(
        requirement,
        [p.marker_environment | {"extra": extra} for p in PLATFORMS.values() for extra in extras],
    )


def _meets(lock: ReleaseLock, requirement: Requirement) -> bool:
    """Whether a toolkit meets a requirement; requirements on anything else are met."""
    if not _is_on_toolkit(requirement):
        return True
    had = [c.version for c in lock.components.values() if c.distribution == requirement.name]
    had += [lock.release] if requirement.name == MANIFEST and lock.release else []
    return any(_accepts(requirement.specifier, Version(version)) for version in had)


def _accepts(specifier: SpecifierSet, version: Version) -> bool:
    """Whether a version is accepted.

    One that is exactly required, also in a newer patch: a lock has the last.
    """
    minor = version.release[:2]
    pins = [
        Version(s.version) for s in specifier if s.operator == "==" and not s.version.endswith(".*")
    ]
    return version in specifier or any(pin < version and pin.release[:2] == minor for pin in pins)


# ---- wheels


def _targets(files: Sequence[IndexFile], tags: Sequence[str]) -> list[str]:
    if wheels.wheel_for(files, NOARCH):
        return [NOARCH]
    return [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in tags]
