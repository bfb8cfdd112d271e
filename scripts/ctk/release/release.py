"""Making release locks from what the package index holds.

A CTK manifest is read strictly, so that a form that is new to this tool is an error and not a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
from ctk.lock.model import BASE, LIBRARY_LOCK, Artefact, Component, ReleaseLock, in_order, load, path_of
from ctk.plan.plan import python_tags
from ctk.release import choose

_NEW_FORM = "the form of the manifest is new: extend ctk/release/release.py or lock/components.py; nothing was written"
_EXTRAS = {"all", *(component.name for component in CTK_COMPONENTS)}  # the first names every component once more
_ANSWERS = {
    name: {platform.marker_environment[name] for platform in PLATFORMS.values()}
    for name in next(iter(PLATFORMS.values())).marker_environment
}
"""Variable of a marker -> its values on our platforms."""


# ---- what a manifest states


@dataclass(frozen=True)
class Pin:
    """One requirement of a manifest, with the line that states it."""

    requirement: Requirement
    line: str

    @property
    def extra(self) -> str | None:
        """The extra under which it is stated; None for an unconditional one."""
        stated = re.search(r"""extra == ["']([^"']+)["']""", str(self.requirement.marker or ""))
        return stated[1] if stated else None

    @property
    def accepted(self) -> SpecifierSet:
        """The versions that it means.

        ``==13.4.92.*`` means the newest there is of it. ``<14,>=13.4.92`` means 13.4.92, the release's own: a lock
        does not drift when a newer toolkit is published.
        """
        stated = {s.operator: s.version for s in self.requirement.specifier}
        return SpecifierSet(f"=={stated['>=']}") if ">=" in stated else self.requirement.specifier

    @property
    def subdirs(self) -> tuple[str, ...]:
        """The subdirs for which the marker says that the component exists; LockError where it has no answer."""
        extra = {"extra": self.extra or ""}
        return tuple(p.subdir for p in PLATFORMS.values() if applies(self.requirement, [p.marker_environment | extra]))

    @property
    def places(self) -> dict[str, tuple[str, ...]]:
        """Where a wheel must be: a name of each place -> the subdirs of which one is enough.

        A marker that names machines asks for a wheel for each: ``win-64``. An older manifest's marker names operating
        systems only, and NVIDIA never published for every machine of them: one wheel for ``linux``, one for ``win``.
        """
        subdirs = self.subdirs
        if "machine" in str(self.requirement.marker):
            return {subdir: (subdir,) for subdir in subdirs}
        of_system = {name: tuple(s for s in members if s in subdirs) for name, members in SYSTEMS.items()}
        return {name: members for name, members in of_system.items() if members}


def pins(metadata: Message) -> list[Pin]:
    """Every line of a manifest that is a requirement, whatever it requires."""
    return [Pin(stated, f"Requires-Dist: {line}") for line, stated in stated_requirements(metadata) if stated]


def read_manifest(metadata: Message, version: str) -> list[Pin]:
    """The requirements of a manifest; LockError with each line whose form is new."""
    stated, major = pins(metadata), version.partition(".")[0]
    wrong = [
        f"no requirement that the standard knows:\n    Requires-Dist: {line}"
        for line, requirement in stated_requirements(metadata)
        if not requirement
    ]
    wrong += [f"{problem}:\n    {pin.line}" for pin in stated for problem in _strange(pin, major)]
    if wrong:
        raise problems(LockError, f"{MANIFEST} {version}", wrong, _NEW_FORM)
    return stated


def _pins_of(component: CtkComponent, major: str, manifest: Sequence[Pin]) -> list[Pin]:
    """What a manifest states of a component: of all requirements of its extra, those on its own distribution.

    An extra also names what the component needs (``nvcc`` names cudart and nvvm); those have extras of their own.
    """
    own = component.distribution(major)
    return [pin for pin in manifest if pin.extra == component.name and pin.requirement.name == own]


def _strange(pin: Pin, major: str) -> Iterator[str]:
    """What is not understood of one line."""
    requirement, marker = pin.requirement, str(pin.requirement.marker or "")
    if requirement.name not in {component.distribution(major) for component in CTK_COMPONENTS}:
        yield f"an unknown distribution {requirement.name}"
    operators = sorted(s.operator for s in requirement.specifier)
    if requirement.url or operators not in (["=="], ["<", ">="]):
        yield "neither a pin nor a range"
    words = re.findall(r"\"([^\"]*)\"|([a-z_]+)", marker)
    variables = [name for _, name in words if name and name not in ("and", "or", "in", "not")]
    asked = sorted(set(variables) - {"extra"} - _ANSWERS.keys())
    values = sorted({value for value, _ in words if value} - {pin.extra} - set().union(*_ANSWERS.values()))
    if variables.count("extra") != 1 or pin.extra is None:
        yield "not of exactly one extra"
    elif pin.extra not in _EXTRAS:
        yield f"an unknown extra {pin.extra}"
    elif asked:
        yield f"a marker that asks for {', '.join(asked)}"
    elif values:
        yield f"a marker that names {', '.join(values)}"


# ---- what the index has of a CTK release


@dataclass(frozen=True)
class WantedComponent:
    """What a manifest wants of one component, and what of it the index has.

    Attributes:
        accepted: The versions that the manifest means.
        files: The wheels of the newest of them that is whole, else of the newest; none where the index has none.
        places: Where a wheel must be (`Pin.places`).
    """

    name: str
    distribution: str
    accepted: SpecifierSet
    files: tuple[IndexFile, ...]
    places: Mapping[str, tuple[str, ...]]

    @property
    def missing(self) -> tuple[str, ...]:
        """The places for which the index has no wheel."""
        return tuple(
            place for place, subdirs in self.places.items() if not any(wheels.wheel_for(self.files, s) for s in subdirs)
        )

    def __str__(self) -> str:
        version = self.files[0].version if self.files else self.accepted
        return f"{self.name}: {self.distribution} {version} for {', '.join(self.missing)}"


@dataclass(frozen=True)
class PublishedRelease:
    """A CTK release as the index has it: its manifest, and every component that this states."""

    version: Version
    file: IndexFile
    parts: tuple[WantedComponent, ...]

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Component -> the places for which it lacks a wheel."""
        return {part.name: part.missing for part in self.parts if part.missing}

    @property
    def wanted(self) -> int:
        """How many artefacts the manifest asks for."""
        return sum(len(part.places) for part in self.parts)


def published_minors(index: Index) -> dict[str, Version]:
    """Every CTK minor of the index with its newest final patch, oldest first."""
    return {_minor_of(version): version for version in reversed(wheels.final_versions(index.files(MANIFEST)))}


def _minor_of(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def manifest_of(index: Index, minor: str) -> tuple[Version, IndexFile]:
    """The manifest of the newest final patch of a CTK minor; UnknownName when the index has none."""
    minors = published_minors(index)
    if minor not in minors:
        raise UnknownName.of("CTK minor", minor, minors)
    version = minors[minor]
    file = wheels.wheel_for(wheels.files_of(index.files(MANIFEST), version), NOARCH)
    if file is None:
        raise LockError(f"{MANIFEST} {version} has no wheel for every platform", "look at its files on the index")
    return version, file


def published(index: Index, minor: str) -> PublishedRelease:
    """What the index has of the newest final patch of a CTK minor."""
    version, file = manifest_of(index, minor)
    stated = read_manifest(index.metadata(file), str(version))
    return PublishedRelease(version, file, tuple(_parts(index, str(version.major), stated)))


def _parts(index: Index, major: str, manifest: Sequence[Pin]) -> Iterator[WantedComponent]:
    """The components of a manifest; an older release lacks some, and the plan then has no build of them."""
    known = {component.name: component for component in CTK_COMPONENTS}
    for component in CTK_COMPONENTS:
        stated = _pins_of(component, major, manifest)
        if not stated and component.inside is not None:
            stated = _pins_of(known[component.inside], major, manifest)
        if stated:
            name, accepted = stated[0].requirement.name, stated[0].accepted
            places = {place: subdirs for pin in stated for place, subdirs in pin.places.items()}
            offers = _offers(index, name, accepted)
            offered = [WantedComponent(component.name, name, accepted, files, places) for files in offers]
            # A version can be uploaded piece by piece: the newest that is whole, else the newest.
            yield next((part for part in offered if not part.missing), offered[0])


def _offers(index: Index, distribution: str, accepted: SpecifierSet) -> list[tuple[IndexFile, ...]]:
    """The wheels of each accepted final version, newest first; of an index that has none, nothing once."""
    try:
        files = index.files(distribution)
    except NotPublished:
        files = ()
    return [tuple(wheels.files_of(files, v)) for v in wheels.final_versions(files, accepted)] or [()]


def incomplete(releases: Mapping[str, PublishedRelease]) -> CtkError:
    """The error that names every artefact that the index lacks of CTK minors."""
    lacking = [f"{minor} {part}" for minor, release in releases.items() for part in release.parts if part.missing]
    names = ", ".join(f"{MANIFEST} {release.version}" for release in releases.values())
    step = "wait until they are published, or a mirror has them; --partial takes what there is"
    return problems(Incomplete, f"the package index lacks artefacts of {names}", lacking, step)


# ---- locks


def names_of(arguments: Sequence[str]) -> list[str]:
    """What ``13.4``, ``python-13``, ``libraries-13`` or ``base`` names, else UnknownName.

    A minor brings its major's Python set.
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
            raise UnknownName(f"{argument!r} names no release", step)
    sets = [f"python-{m}" for m in sorted(majors)] + [f"{LIBRARY_LOCK}{m}" for m in sorted(libraries)]
    last = [BASE] if BASE in arguments else []
    return [f"cuda-{_minor_of(v)}" for v in sorted(minors)] + sets + last


def make(index: Index, name: str, workspace: Workspace, *, partial: bool = False) -> ReleaseLock:
    """A release (``cuda-13.4``, ``python-13``, ``libraries-13`` or ``base``) as the index has it now.

    What is known of the present lock's files stays where they are the same: their facts, and when they were uploaded,
    as what was built of them has that time.
    Incomplete when the index lacks something of a CTK release, unless a partial one is taken.
    """
    kind, _, number = name.partition("-")
    if kind == BASE:
        new = base.base_release(index, python_tags(workspace.build_config))
    elif kind == "cuda":
        new = _ctk_release(index, number, partial)
    else:
        new = choose.release_of(index, name, in_place(workspace).values(), python_tags(workspace.build_config))
    old = present(workspace, name)
    if old is None:
        return new
    new = _uploaded_as_before(old, new)
    return facts.with_known(old, new) if new.is_measured else new


def in_place(workspace: Workspace) -> dict[str, ReleaseLock]:
    """Every lock in place that can be trusted, by name, oldest first; the base channel's too."""
    names = [path.stem for path in workspace.variants.glob("*.lock")] + [BASE]
    return {lock.name: lock for lock in in_order(filter(None, (present(workspace, name) for name in names)))}


def present(workspace: Workspace, name: str) -> ReleaseLock | None:
    """The lock in place of a release; None when it is absent, or not to be trusted."""
    try:
        return load(path_of(workspace, name))
    except LockError:
        return None


def _uploaded_as_before(old: ReleaseLock, new: ReleaseLock) -> ReleaseLock:
    """With the times that are locked already, of the same content and of the minor: packages have them.

    Another index, which lost the first patches or states no times, must not change what is built.
    """
    known = {a.sha256: a.uploaded for a in (*old.artefacts, old.manifest) if a}

    def kept(artefact: Artefact | None) -> Artefact | None:
        return artefact and replace(artefact, uploaded=known.get(artefact.sha256, artefact.uploaded))

    components = {
        name: replace(c, artefacts={target: kept(a) for target, a in c.artefacts.items()})
        for name, c in new.components.items()
    }
    return replace(new, manifest=kept(new.manifest), components=components, since=old.since)


def _ctk_release(index: Index, minor: str, partial: bool) -> ReleaseLock:
    """The lock of the newest final patch of a CTK minor, without facts; its errors are those of `make`."""
    release = published(index, minor)
    if release.missing and not partial:
        raise incomplete({minor: release})
    components = {part.name: _component(index, part) for part in release.parts if part.files}
    held = {name: component for name, component in components.items() if any(component.artefacts.values())}
    listed = index.files(MANIFEST)
    first = min(v for v in wheels.final_versions(listed) if _minor_of(v) == minor)
    return ReleaseLock(
        f"{_minor_of(release.version)}.{release.version.micro}",
        wheels.artefact(index, MANIFEST, NOARCH, release.file),
        held,
        missing=release.missing,
        since=min(index.uploaded(file) for file in wheels.files_of(listed, first)),
    )


def _component(index: Index, part: WantedComponent) -> Component:
    subdirs = {subdir for members in part.places.values() for subdir in members}
    component = wheels.component(index, part.name, part.files, [s for s in PLATFORMS if s in subdirs])
    return replace(component, artefacts={s: component.artefacts.get(s) for s in PLATFORMS})
