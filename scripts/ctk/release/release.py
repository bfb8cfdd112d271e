"""Makes release locks from the package index.

A CTK manifest is read strictly: a form that is new to this tool is an error, so that no component
is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.message import Message

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError, Incomplete, LockError, NotPublished, UnknownName, problems
from ctk.core.platforms import NOARCH, PLATFORMS, SYSTEMS
from ctk.index.index import Index, IndexFile
from ctk.index.inside import applies, stated_requirements
from ctk.lock import facts, wheels
from ctk.lock.components import CTK_COMPONENTS, MANIFEST, CtkComponent
from ctk.lock.model import (
    BASE,
    LIBRARY_LOCK,
    Artefact,
    Component,
    ReleaseLock,
    in_order,
    load,
    path_of,
)
from ctk.plan.plan import python_tags
from ctk.release import added, choose

_NEW_FORM = (
    "the form of the manifest is new: extend ctk/release/release.py or lock/components.py; nothing"
    " was written"
)
# 13.4, cuda-13.4, 13.4.3, python-13, libraries-13
_OF_RELEASE = re.compile(r"(cuda-|python-|libraries-)?\d.*")
# The first names every component once more.
_EXTRAS = {"all", *(component.name for component in CTK_COMPONENTS)}
_ANSWERS = {
    name: {platform.marker_environment[name] for platform in PLATFORMS.values()}
    for name in next(iter(PLATFORMS.values())).marker_environment
}
"""Variable of a marker -> its values on our platforms."""


# ---- the manifest


@dataclass(frozen=True)
class Pin:
    """A requirement of a manifest."""

    requirement: Requirement

    @property
    def extra(self) -> str | None:
        """The extra that it belongs to; None without an extra."""
        stated = re.search(r"""extra == ["']([^"']+)["']""", str(self.requirement.marker or ""))
        return stated[1] if stated else None

    @property
    def accepted(self) -> SpecifierSet:
        """The accepted versions.

        ``==13.4.92.*`` is the newest of them. ``<14,>=13.4.92`` is 13.4.92, the version of the
        release itself: a newer toolkit does not change the lock.
        """
        stated = {s.operator: s.version for s in self.requirement.specifier}
        return SpecifierSet(f"=={stated['>=']}") if ">=" in stated else self.requirement.specifier

    @property
    def subdirs(self) -> tuple[str, ...]:
        """The subdirs for which the component exists, by the marker.

        LockError if the marker has no answer.
        """
        extra = {"extra": self.extra or ""}
        return tuple(
            p.subdir
            for p in PLATFORMS.values()
            if applies(self.requirement, [p.marker_environment | extra])
        )

    @property
    def places(self) -> dict[str, tuple[str, ...]]:
        """The places that need a wheel: name -> subdirs.

        A wheel for any of these subdirs is enough. A marker that names machines needs a wheel for
        each: ``win-64``. Markers of older manifests name only operating systems, and NVIDIA never
        published for all their machines: they need a wheel for ``linux`` and for ``win``.
        """
        subdirs = self.subdirs
        if "machine" in str(self.requirement.marker):
            return {subdir: (subdir,) for subdir in subdirs}
        of_system = {
            name: tuple(s for s in members if s in subdirs) for name, members in SYSTEMS.items()
        }
        return {name: members for name, members in of_system.items() if members}


def read_manifest(metadata: Message, version: str) -> list[Pin]:
    """The requirements of a manifest; LockError names each line whose form is new."""
    pins, wrong = [], []
    for line, requirement in stated_requirements(metadata):
        unknown: Iterable[str] = ["no requirement that the standard knows"]
        if requirement:
            pins.append(Pin(requirement))
            unknown = _strange(pins[-1], version.partition(".")[0])
        wrong += [f"{problem}:\n    Requires-Dist: {line}" for problem in unknown]
    if wrong:
        raise problems(LockError, f"{MANIFEST} {version}", wrong, _NEW_FORM)
    return pins


def _pins_of(component: CtkComponent, major: str, manifest: Sequence[Pin]) -> list[Pin]:
    """The requirements of a component's extra that are on its own distribution.

    An extra also names dependencies of the component (``nvcc`` names cudart and nvvm), which have
    their own extras.
    """
    own = component.distribution(major)
    return [pin for pin in manifest if pin.extra == component.name and pin.requirement.name == own]


def _strange(pin: Pin, major: str) -> Iterator[str]:
    """The parts of a line that are not understood."""
    requirement, marker = pin.requirement, str(pin.requirement.marker or "")
    if requirement.name not in {component.distribution(major) for component in CTK_COMPONENTS}:
        yield f"an unknown distribution {requirement.name}"
    operators = sorted(s.operator for s in requirement.specifier)
    if requirement.url or operators not in (["=="], ["<", ">="]):
        yield "neither a pin nor a range"
    words = re.findall(r"\"([^\"]*)\"|([a-z_]+)", marker)
    variables = [name for _, name in words if name and name not in ("and", "or", "in", "not")]
    asked = sorted(set(variables) - {"extra"} - _ANSWERS.keys())
    values = sorted(
        {value for value, _ in words if value} - {pin.extra} - set().union(*_ANSWERS.values())
    )
    if variables.count("extra") != 1 or pin.extra is None:
        yield "not of exactly one extra"
    elif pin.extra not in _EXTRAS:
        yield f"an unknown extra {pin.extra}"
    elif asked:
        yield f"a marker that asks for {', '.join(asked)}"
    elif values:
        yield f"a marker that names {', '.join(values)}"


# ---- a CTK release on the index


@dataclass(frozen=True)
class WantedComponent:
    """A component of a manifest, with its wheels on the index.

    Attributes:
        accepted: The versions that the manifest accepts.
        files: The wheels of the newest complete version, else of the newest version; empty if the
            index has no version.
        places: The places that need a wheel, as in `Pin.places`.
    """

    name: str
    distribution: str
    accepted: SpecifierSet
    files: tuple[IndexFile, ...]
    places: Mapping[str, tuple[str, ...]]

    @property
    def missing(self) -> tuple[str, ...]:
        """The places without a wheel on the index."""
        return tuple(
            place
            for place, subdirs in self.places.items()
            if not any(wheels.wheel_for(self.files, s) for s in subdirs)
        )

    def __str__(self) -> str:
        version = self.files[0].version if self.files else self.accepted
        return f"{self.name}: {self.distribution} {version} for {', '.join(self.missing)}"


@dataclass(frozen=True)
class PublishedRelease:
    """A CTK release on the index: its manifest, and every component that the manifest states."""

    version: Version
    file: IndexFile
    parts: tuple[WantedComponent, ...]

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Component -> the places without a wheel."""
        return {part.name: part.missing for part in self.parts if part.missing}

    @property
    def wanted(self) -> int:
        """The number of artefacts that the manifest asks for."""
        return sum(len(part.places) for part in self.parts)


def published_minors(index: Index) -> dict[str, Version]:
    """Each CTK minor of the index -> its newest final patch, oldest first."""
    return {
        _minor_of(version): version
        for version in reversed(wheels.final_versions(index.files(MANIFEST)))
    }


def _minor_of(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def manifest_of(index: Index, minor: str, locked: Sequence[str]) -> tuple[Version, IndexFile]:
    """The manifest of the newest final patch of a CTK minor.

    UnknownName if the index has no such minor.
    Its step names the newest of the index, and the newest of `locked`, minors from the oldest on.
    """
    minors = published_minors(index)
    if minor not in minors:
        newest = (
            f"{next(reversed(minors), 'none')}; the newest that is locked is"
            f" {next(reversed(locked), 'none')}"
        )
        raise UnknownName(
            f"the package index has no CUDA Toolkit {minor}",
            f"see `ctk release check`; the newest there is {newest}",
        )
    version = minors[minor]
    file = wheels.wheel_for(wheels.files_of(index.files(MANIFEST), version), NOARCH)
    if file is None:
        raise LockError(
            f"{MANIFEST} {version} has no wheel for every platform",
            "look at its files on the index",
        )
    return version, file


def published(index: Index, minor: str, locked: Sequence[str]) -> PublishedRelease:
    """The newest final patch of a CTK minor on the index; raises the errors of `manifest_of`."""
    version, file = manifest_of(index, minor, locked)
    stated = read_manifest(index.metadata(file), str(version))
    return PublishedRelease(version, file, tuple(_parts(index, str(version.major), stated)))


def _parts(index: Index, major: str, manifest: Sequence[Pin]) -> Iterator[WantedComponent]:
    """The components of a manifest.

    An older release lacks some, and the plan then has no build of them.
    """
    known = {component.name: component for component in CTK_COMPONENTS}
    for component in CTK_COMPONENTS:
        stated = _pins_of(component, major, manifest)
        if not stated and component.inside is not None:
            stated = _pins_of(known[component.inside], major, manifest)
        if stated:
            name, accepted = stated[0].requirement.name, stated[0].accepted
            places = {place: subdirs for pin in stated for place, subdirs in pin.places.items()}
            offers = _offers(index, name, accepted)
            offered = [
                WantedComponent(component.name, name, accepted, files, places) for files in offers
            ]
            # A version can be uploaded piece by piece: the newest complete version, else the
            # newest.
            yield next((part for part in offered if not part.missing), offered[0])


def _offers(index: Index, distribution: str, accepted: SpecifierSet) -> list[tuple[IndexFile, ...]]:
    """The wheels of each accepted final version, newest first.

    An empty tuple if the index has no version.
    """
    try:
        files = index.files(distribution)
    except NotPublished:
        files = ()
    return [tuple(wheels.files_of(files, v)) for v in wheels.final_versions(files, accepted)] or [
        ()
    ]


def incomplete(minor: str, release: PublishedRelease) -> CtkError:
    """The error that names every artefact of a CTK minor that the index lacks."""
    lacking = [f"{minor} {part}" for part in release.parts if part.missing]
    step = "wait until they are published, or a mirror has them"
    return problems(
        Incomplete,
        f"the package index lacks artefacts of {MANIFEST} {release.version}",
        lacking,
        step,
    )


# ---- locks


def is_release(word: str) -> bool:
    """Whether a word is meant as the name of a release, and not as that of a project."""
    return word == BASE or bool(_OF_RELEASE.fullmatch(word))


def names_of(arguments: Sequence[str]) -> list[str]:
    """The names of locks that ``13.4``, ``python-13``, ``libraries-13`` or ``base`` mean.

    UnknownName for other words.
    A minor includes the Python projects of its major.
    """
    minors: set[Version] = set()
    majors: set[int] = set()
    libraries: set[int] = set()
    for argument in arguments:
        if stated := re.fullmatch(r"(?:cuda-)?(\d+\.\d+)", argument):
            minors.add(Version(stated[1]))
            majors.add(Version(stated[1]).major)
        elif stated := re.fullmatch(r"python-(\d+)", argument):
            majors.add(int(stated[1]))
        elif stated := re.fullmatch(rf"{LIBRARY_LOCK}(\d+)", argument):
            libraries.add(int(stated[1]))
        elif argument != BASE:
            step = "write a minor like 13.4, or python-13, libraries-13 or base"
            if patch := re.match(r"(?:cuda-)?(\d+\.\d+)\.\d", argument):
                step = f"write the minor, whose newest patch is locked: {patch[1]}"
            raise UnknownName(f"{argument!r} is not a name of a release here", step)
    sets = [f"python-{m}" for m in sorted(majors)] + [
        f"{LIBRARY_LOCK}{m}" for m in sorted(libraries)
    ]
    last = [BASE] if BASE in arguments else []
    return [f"cuda-{_minor_of(v)}" for v in sorted(minors)] + sets + last


def make(index: Index, name: str, workspace: Workspace) -> ReleaseLock:
    """Makes the lock of a release (``cuda-13.4``, ``python-13``, ...) from the index.

    Also of ``libraries-13`` and ``base``.

    Facts and upload times of files that are in the present lock stay: packages carry these times.

    Raises:
        Incomplete: The index lacks an artefact of a CTK release.
    """
    kind, _, number = name.partition("-")
    if kind == BASE:
        new = base.base_release(index, python_tags(workspace.build_config))
    elif kind == "cuda":
        new = _ctk_release(index, number, workspace.locked_minors)
    else:
        new = choose.release_of(
            index, name, in_place(workspace).values(), python_tags(workspace.build_config)
        )
    old = present(workspace, name)
    if old is None:
        return new
    new = added.kept(old, _uploaded_as_before(old, new))
    return facts.with_known(old, new) if new.is_measured else new


def in_place(workspace: Workspace) -> dict[str, ReleaseLock]:
    """All valid locks of a checkout by name, oldest first, with the base channel's."""
    names = [path.stem for path in workspace.variants.glob("*.lock")] + [BASE]
    return {
        lock.name: lock
        for lock in in_order(filter(None, (present(workspace, name) for name in names)))
    }


def present(workspace: Workspace, name: str) -> ReleaseLock | None:
    """The lock of a release in a checkout; None if it is absent or invalid."""
    try:
        return load(path_of(workspace, name))
    except LockError:
        return None


def _uploaded_as_before(old: ReleaseLock, new: ReleaseLock) -> ReleaseLock:
    """The new lock with the old lock's upload times of the same files, and its time of the minor.

    Packages carry these times: an index that lost the first patches, or states no times, must not
    change them.
    """
    known = {a.sha256: a.uploaded for a in (*old.artefacts, old.manifest) if a}

    def kept(artefact: Artefact | None) -> Artefact | None:
        return artefact and replace(
            artefact, uploaded=known.get(artefact.sha256, artefact.uploaded)
        )

    components = {
        name: replace(c, artefacts={target: kept(a) for target, a in c.artefacts.items()})
        for name, c in new.components.items()
    }
    return replace(new, manifest=kept(new.manifest), components=components, since=old.since)


def _ctk_release(index: Index, minor: str, locked: Sequence[str]) -> ReleaseLock:
    """The lock of the newest final patch of a CTK minor, without facts.

    Raises the errors of `make`.
    """
    release = published(index, minor, locked)
    if release.missing:
        raise incomplete(minor, release)
    listed = index.files(MANIFEST)
    first = min(v for v in wheels.final_versions(listed) if _minor_of(v) == minor)
    return ReleaseLock(
        f"{_minor_of(release.version)}.{release.version.micro}",
        wheels.artefact(index, MANIFEST, NOARCH, release.file),
        {part.name: _component(index, part) for part in release.parts},
        since=min(index.uploaded(file) for file in wheels.files_of(listed, first)),
    )


def _component(index: Index, part: WantedComponent) -> Component:
    subdirs = {subdir for members in part.places.values() for subdir in members}
    component = wheels.component(
        index, part.name, part.files, [s for s in PLATFORMS if s in subdirs]
    )
    return replace(component, artefacts={s: component.artefacts.get(s) for s in PLATFORMS})
