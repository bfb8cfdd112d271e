"""Making release locks from what the package index holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError, Incomplete, LockError, NotPublished, UnknownName, problems
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.index.index import Index, IndexFile
from ctk.lock import facts, manifest, projects, wheels
from ctk.lock.components import CTK_COMPONENTS, MANIFEST
from ctk.lock.lock import BASE, Artefact, Component, ReleaseLock, in_order, load, path_of
from ctk.plan.project import python_tags


@dataclass(frozen=True)
class Part:
    """What a manifest wants of one component, and what of it the index has.

    Attributes:
        name: Our name of the component.
        distribution: Its name on the index.
        accepted: The versions that the manifest means.
        files: The wheels of the newest of them that is whole, else of the newest; none where the index has none.
        places: Where a wheel must be (`ctk.lock.manifest.Pin.places`).
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
class Published:
    """A CTK release as the index has it.

    Attributes:
        version: The manifest's.
        file: The manifest.
        parts: Every component that the manifest states.
    """

    version: Version
    file: IndexFile
    parts: tuple[Part, ...]

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Component -> the places for which it lacks a wheel."""
        return {part.name: part.missing for part in self.parts if part.missing}

    @property
    def wanted(self) -> int:
        """How many artefacts the manifest asks for."""
        return sum(len(part.places) for part in self.parts)


def make(index: Index, name: str, workspace: Workspace, *, partial: bool = False) -> ReleaseLock:
    """A release as the index has it now, with what is known of the present lock's files where they are the same.

    That is their facts, and when they were uploaded: what was built of them has that time.

    Args:
        index: Asked for files and metadata.
        name: ``cuda-13.4``, ``python-13`` or ``base``.
        workspace: Holds the present lock, and the Pythons of the matrix.
        partial: Take a CTK release of which the index lacks something.

    Raises:
        Incomplete: When the index lacks something and it is not to be taken.
    """
    new = _as_published(index, name, workspace, partial)
    old = present(workspace, name)
    if old is None:
        return new
    new = _uploaded_as_before(old, new)
    if not new.is_ctk:
        return new
    if facts.still_true(old, new):
        return facts.with_facts(new, old.facts)
    return replace(new, measured=facts.still_measured(old, new))


def lockable(index: Index, names: Iterable[str], workspace: Workspace) -> list[ReleaseLock]:
    """Releases as `make` gives them, whole or not, without those whose manifest this tool does not understand."""
    made = []
    for name in names:
        with suppress(LockError):
            made.append(make(index, name, workspace, partial=True))
    return made


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


def _as_published(index: Index, name: str, workspace: Workspace, partial: bool) -> ReleaseLock:
    kind, _, number = name.partition("-")
    if kind == BASE:
        return base.base_release(index, python_tags(workspace.build_config))
    if kind == "python":
        return projects.python_release(index, projects.Goal(number, python_tags(workspace.build_config)))
    return ctk_release(index, number, partial=partial)


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


def names_of(arguments: Sequence[str]) -> list[str]:
    """The releases that arguments like ``13.4``, ``python-13`` or ``base`` name; a minor brings its major's Python set.

    Raises:
        UnknownName: For an argument of another form.
    """
    minors: dict[Version, str] = {}
    majors: dict[int, str] = {}
    for argument in arguments:
        if found := re.fullmatch(r"(?:cuda-)?(\d+\.\d+)", argument):
            version = Version(found[1])
            minors[version] = f"cuda-{minor_of(version)}"
            majors[version.major] = f"python-{version.major}"
        elif found := re.fullmatch(r"python-(\d+)", argument):
            majors[int(found[1])] = f"python-{int(found[1])}"
        elif argument != "base":
            raise UnknownName(f"{argument!r} names no release", "write a minor like 13.4, or python-13, or base")
    last = ["base"] if "base" in arguments else []
    return [minors[v] for v in sorted(minors)] + [majors[m] for m in sorted(majors)] + last


def published_minors(index: Index) -> dict[str, Version]:
    """Every CTK minor of the index with its newest final patch, oldest first."""
    newest: dict[str, Version] = {}
    for version in reversed(wheels.final_versions(index.files(MANIFEST))):
        newest[minor_of(version)] = version
    return newest


def minor_of(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def release_of(version: Version) -> str:
    """``12.9.2`` for a manifest of version 12.9.2.0."""
    return f"{version.major}.{version.minor}.{version.micro}"


def ctk_release(index: Index, minor: str, *, partial: bool = False) -> ReleaseLock:
    """The lock of the newest final patch of a CTK minor, without facts.

    Raises:
        UnknownName: When the index has no such minor.
        LockError: When the manifest states something this tool does not understand.
        Incomplete: When the index lacks an artefact that the manifest asks for, unless the lock may be partial.
    """
    found = published(index, minor)
    if found.missing and not partial:
        raise incomplete({minor: found})
    components = {part.name: _component(index, part) for part in found.parts if part.files}
    artefact = wheels.artefact(index, MANIFEST, NOARCH, found.file)
    held = {name: c for name, c in components.items() if any(c.artefacts.values())}
    since = _since(index, minor)
    return ReleaseLock(release_of(found.version), artefact, held, missing=found.missing, since=since)


def _since(index: Index, minor: str) -> int:
    """When the first manifest of a minor was uploaded."""
    files = index.files(MANIFEST)
    first = min(v for v in wheels.final_versions(files) if minor_of(v) == minor)
    return min(index.uploaded(file) for file in wheels.files_of(files, first))


def published(index: Index, minor: str) -> Published:
    """What the index has of the newest final patch of a CTK minor.

    Raises:
        UnknownName: When the index has no such minor.
        LockError: When the manifest states something this tool does not understand.
    """
    version, file = manifest_of(index, minor)
    pins = manifest.read(index.metadata(file), str(version))
    return Published(version, file, tuple(_parts(index, str(version.major), pins)))


def manifest_of(index: Index, minor: str) -> tuple[Version, IndexFile]:
    """The manifest of the newest final patch of a CTK minor; its errors are those of `published`."""
    minors = published_minors(index)
    if minor not in minors:
        raise UnknownName.of("CTK minor", minor, minors)
    version = minors[minor]
    file = wheels.wheel_for(wheels.files_of(index.files(MANIFEST), version), NOARCH)
    if file is None:
        raise LockError(f"{MANIFEST} {version} has no wheel for every platform", "look at its files on the index")
    return version, file


def incomplete(releases: Mapping[str, Published]) -> CtkError:
    """The error that names every artefact that the index lacks of CTK minors."""
    found = [f"{minor} {part}" for minor, release in releases.items() for part in release.parts if part.missing]
    names = ", ".join(f"{MANIFEST} {release.version}" for release in releases.values())
    step = "wait until they are published, or a mirror has them; --partial takes what there is"
    return problems(Incomplete, f"the package index lacks artefacts of {names}", found, step)


def _parts(index: Index, major: str, pins: Sequence[manifest.Pin]) -> Iterator[Part]:
    """The components of a manifest; an older release lacks some, and the plan then has no build of them."""
    for known in CTK_COMPONENTS:
        stated = manifest.pins_of(known, major, pins)
        if not stated and known.inside is not None:
            container = next(c for c in CTK_COMPONENTS if c.name == known.inside)
            stated = manifest.pins_of(container, major, pins)
        if stated:
            name, accepted = stated[0].requirement.name, stated[0].accepted
            places = {place: subdirs for pin in stated for place, subdirs in pin.places.items()}
            offered = [Part(known.name, name, accepted, files, places) for files in _offers(index, name, accepted)]
            # A version can be uploaded piece by piece: the newest that is whole, else the newest.
            yield next((part for part in offered if not part.missing), offered[0])


def _offers(index: Index, distribution: str, accepted: SpecifierSet) -> list[tuple[IndexFile, ...]]:
    """The wheels of each accepted final version, newest first; of an index that has none, nothing once."""
    try:
        files = index.files(distribution)
    except NotPublished:
        files = ()
    return [tuple(wheels.files_of(files, v)) for v in wheels.final_versions(files, accepted)] or [()]


def _component(index: Index, part: Part) -> Component:
    subdirs = {subdir for members in part.places.values() for subdir in members}
    made = wheels.component(index, part.name, part.files, [s for s in PLATFORMS if s in subdirs])
    return replace(made, artefacts={s: made.artefacts.get(s) for s in PLATFORMS})
