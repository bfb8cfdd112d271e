"""Making release locks from what the package index holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.message import Message

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk import base, facts, projects, wheels
from ctk.components import CTK_COMPONENTS, MANIFEST, CtkComponent, Pin, pins_of
from ctk.errors import LockError, NotPublished, UnknownName
from ctk.index import Index, IndexFile
from ctk.lock import Component, ReleaseLock, load
from ctk.paths import Workspace
from ctk.platforms import NOARCH, PLATFORMS
from ctk.project import python_tags

_STEP = "the manifest's form is new to this tool: extend ctk/release.py; nothing was written"


def make(index: Index, name: str, workspace: Workspace) -> ReleaseLock:
    """A release as the index has it now, with the facts of the present lock where they still hold.

    Args:
        index: Asked for files and metadata.
        name: ``cuda-13.4``, ``python-13`` or ``base``.
        workspace: Holds the present lock, and the Pythons of the matrix.
    """
    kind, _, number = name.partition("-")
    if kind == "base":
        return base.base_release(index, python_tags(workspace.build_config))
    if kind == "python":
        return projects.python_release(index, projects.Goal(number, python_tags(workspace.build_config)))
    new = ctk_release(index, number)
    try:
        old = load(workspace.variants / f"{name}.lock")
    except LockError:  # absent, or not to be trusted
        return new
    return facts.with_facts(new, old.facts) if facts.still_true(old, new) else new


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


def ctk_release(index: Index, minor: str) -> ReleaseLock:
    """The lock of the newest final patch of a CTK minor, without facts.

    Raises:
        UnknownName: When the index has no such minor.
        LockError: When the manifest states something this tool does not understand.
        NotPublished: When the manifest pins what the index does not have.
    """
    minors = published_minors(index)
    if minor not in minors:
        raise UnknownName.of("CTK minor", minor, minors)
    version = minors[minor]
    file = wheels.wheel_for(wheels.files_of(index.files(MANIFEST), version), NOARCH)
    if file is None:
        raise LockError(f"{MANIFEST} {version} has no wheel for every platform", _STEP)
    pins = manifest_pins(index.metadata(file))
    components: dict[str, Component] = {}
    for known in CTK_COMPONENTS:
        own = known if pins_of(known, str(version.major), pins) or known.inside is None else _container(known)
        stated = pins_of(own, str(version.major), pins)
        if stated:  # an older release lacks some components; the plan then has no build of them
            components[known.name] = _component(index, known.name, stated)
    return ReleaseLock(release_of(version), wheels.artefact(index, MANIFEST, NOARCH, file), components)


def manifest_pins(metadata: Message) -> list[Pin]:
    """Every requirement of a manifest.

    Raises:
        LockError: With the first line that is no requirement.
    """
    pins = []
    for text in metadata.get_all("Requires-Dist") or []:
        line = f"Requires-Dist: {text}"
        try:
            pins.append(Pin(Requirement(text), line))
        except InvalidRequirement as error:
            raise _unknown(line, "no requirement that the standard knows") from error
    return pins


def pinned_version(pin: Pin, files: Sequence[IndexFile]) -> Version:
    """The version that a manifest means by a requirement.

    ``==13.4.92.*`` means the newest there is of it. ``<14,>=13.4.92`` means 13.4.92, the release's own: a lock does
    not drift when a newer toolkit is published.

    Raises:
        LockError: For any other form.
        NotPublished: When the index has no such version.
    """
    specifiers = {s.operator: s.version for s in pin.requirement.specifier}
    if pin.requirement.url or len(specifiers) != len(pin.requirement.specifier):
        raise _unknown(pin.line, "neither a pin nor a range")
    if set(specifiers) == {"=="}:
        accepted = pin.requirement.specifier
    elif set(specifiers) == {">=", "<"}:
        accepted = SpecifierSet(f"=={specifiers['>=']}")
    else:
        raise _unknown(pin.line, "neither a pin nor a range")
    versions = wheels.final_versions(files, accepted)
    if not versions:
        raise NotPublished(
            f"the package index has no final version {accepted} of {pin.requirement.name}, which {MANIFEST} pins",
            "a mirror may have to fetch it first",
        )
    return versions[0]


def subdirs_of(pin: Pin) -> set[str]:
    """The subdirs for which a requirement's marker says that the component exists.

    Raises:
        LockError: When the marker asks something that no platform answers.
    """
    marker = pin.requirement.marker
    extra = re.search(r"""extra == ["']([^"']+)["']""", str(marker))
    environment = {"extra": extra[1] if extra else ""}
    try:
        return {
            p.subdir
            for p in PLATFORMS.values()
            if marker is None or marker.evaluate(p.marker_environment | environment)
        }
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        raise _unknown(pin.line, "a marker that has no value on our platforms") from error


def _component(index: Index, name: str, stated: Sequence[Pin]) -> Component:
    """A component from its requirements: one, or one for each group of platforms."""
    files = index.files(stated[0].requirement.name)
    if len({str(pin.requirement.specifier) for pin in stated}) != 1:
        raise _unknown(stated[-1].line, "another version than an earlier line of the same extra")
    version = pinned_version(stated[0], files)
    subdirs = set().union(*(subdirs_of(pin) for pin in stated))
    made = wheels.component(index, name, wheels.files_of(files, version), [s for s in PLATFORMS if s in subdirs])
    artefacts = {subdir: made.artefacts.get(subdir) for subdir in PLATFORMS}
    if not any(artefacts.values()):
        raise NotPublished(
            f"{made.distribution} {made.version} has no wheel for any of {', '.join(PLATFORMS)}", "look at its files"
        )
    return Component(name, made.distribution, made.version, artefacts)


def _container(component: CtkComponent) -> CtkComponent:
    return next(c for c in CTK_COMPONENTS if c.name == component.inside)


def _unknown(line: str, what: str) -> LockError:
    return LockError(f"{MANIFEST} states {what}:\n  {line}", _STEP)
