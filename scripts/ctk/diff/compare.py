"""The changes between two releases as data: from their locks, and from contents.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ctk.core.checkout import Workspace
from ctk.core.children import run_program
from ctk.core.errors import BadValue, LockError, UnknownName, problems
from ctk.core.platforms import NOARCH
from ctk.core.versions import version_key
from ctk.diff import FORMS
from ctk.diff.licences import LicenceChange
from ctk.lock import contents
from ctk.lock.contents import Contents
from ctk.lock.facts import needs_measuring
from ctk.lock.model import (
    Artefact,
    ReleaseLock,
    find_release,
    known_gpus,
    load,
    parse_lock,
    release_locks,
)


class Release(NamedTuple):
    """A release, and the contents of artefacts that are measured."""

    lock: ReleaseLock
    contents: Contents
    revision: str = ""  # such as ``HEAD:``; "" for the lock in place

    @property
    def name(self) -> str:
        """As the command line names it."""
        return self.revision + (self.lock.minor or self.lock.name)


def find(name: str, workspace: Workspace) -> Release:
    """The release that a word of the command line names, in one of `FORMS`."""
    revision, colon, release = name.rpartition(":")
    if not colon:
        path = workspace.variants / f"cuda-{name}.lock"
        lock = load(path) if path.exists() else find_release(release_locks(workspace), name)
        return Release(lock, contents.load(workspace))
    folder = workspace.variants.name
    stem = release if release[:1].isalpha() else f"cuda-{release}"
    file = f"{folder}/{stem}.lock"
    found, wrong = parse_lock(_git_show(revision, file, workspace))
    if found is None:
        raise problems(LockError, f"{revision}:{file}", wrong, f"name another one: {FORMS}")
    return Release(
        found,
        contents.parse(_git_show(revision, f"{folder}/{contents.FILE}", workspace)),
        revision + colon,
    )


def _git_show(revision: str, file: str, workspace: Workspace) -> str:
    command = ["git", "-C", str(workspace.root), "show", "--end-of-options", f"{revision}:./{file}"]
    done = run_program(command)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["git gives no reason"])[0].removeprefix(
            "fatal: "
        )
        raise BadValue(f"{revision}:{file} cannot be read: {reason}", "see `git log -- variants`")
    return done.stdout


def same_kind(old: ReleaseLock, new: ReleaseLock) -> None:
    """Raises UnknownName for two releases of different kinds: CTK, Python projects, libraries."""
    if old.name.partition("-")[0] != new.name.partition("-")[0]:
        raise UnknownName(
            f"{old.name} and {new.name} have nothing in common", "name two releases of one kind"
        )


@dataclass(frozen=True)
# Of its libraries, for DLLs their file names; None if not all are measured.
class ReleaseSide:
    """A group of components in a release on a platform."""

    versions: tuple[str, ...]  # each once; empty if the release does not have the components
    size: int  # bytes of the artefacts
    glibc: str | None  # newest symbol version needed; "" if none is; None if it is not measured
    sonames: tuple[str, ...] | None


@dataclass(frozen=True)
class ComponentChange:
    """The change of a group of components on a platform."""

    # Several if a release has them in one artefact, as CUDA 12 has nvcc, crt and nvvm.
    components: tuple[str, ...]
    platform: str
    old: ReleaseSide
    new: ReleaseSide
    same: bool  # whether the artefacts are the very same files

    @property
    def name(self) -> str:
        return ", ".join(self.components)

    @property
    def is_measured(self) -> bool:
        return None not in (self.old.sonames, self.new.sonames)

    @property
    def added(self) -> list[str]:
        """SONAMEs that only the new release has."""
        return (
            sorted({*(self.new.sonames or ())} - {*(self.old.sonames or ())})
            if self.is_measured
            else []
        )

    @property
    def removed(self) -> list[str]:
        """SONAMEs that only the old release has."""
        return (
            sorted({*(self.old.sonames or ())} - {*(self.new.sonames or ())})
            if self.is_measured
            else []
        )


@dataclass(frozen=True)
class ReleaseDifference:
    """The changes between two releases."""

    old: ReleaseLock
    new: ReleaseLock
    components: tuple[ComponentChange, ...]  # every group on every platform asked for
    known: tuple[str, ...]  # every GPU architecture that some release has
    unmeasured: tuple[str, ...] = ()  # the names of releases that are not measured, or not wholly
    licences: tuple[LicenceChange, ...] = ()

    @property
    def within_major(self) -> bool:
        """Whether programs made with the old one must run with the new one."""
        return self.old.major == self.new.major

    @property
    def architectures(self) -> list[tuple[str, ...] | None]:
        """GPU architectures of both releases; None if not measured."""
        return [
            lock.facts.gpu_architectures if lock.facts else None for lock in (self.old, self.new)
        ]

    @property
    def ptx_isa(self) -> list[str | None]:
        """PTX ISA of both releases; None if not measured."""
        return [lock.facts.ptx_isa if lock.facts else None for lock in (self.old, self.new)]

    @property
    def gpu_code(self) -> list[tuple[str, str, str, str]]:
        """Component, platform, old and new GPUs, where code runs on other GPUs now.

        Nothing for two majors, and for components that are not measured.
        """
        was, now = (
            {(n, p): g for n, found in k.gpu_code.items() for p, g in found.items()}
            for k in (self.old, self.new)
        )
        common = (
            [key for key in was if key in now and key[1] in self.platforms]
            if self.within_major
            else []
        )
        return [(*key, was[key], now[key]) for key in common if was[key] != now[key]]

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.platform for c in self.components))


def compare(
    old: Release, new: Release, platforms: Sequence[str], others: Iterable[ReleaseLock] = ()
) -> ReleaseDifference:
    """Compares two releases on some platforms; an artefact for all platforms counts for each.

    Other releases say which GPU architectures there are.
    """
    groups = _groups(old.lock, new.lock)
    components = [
        _component(group, platform, old, new) for platform in platforms for group in groups
    ]
    unmeasured = tuple(
        release.name for release in (old, new) if needs_measuring(release.lock, release.contents)
    )
    known = known_gpus([old.lock, new.lock, *others])
    return ReleaseDifference(
        old.lock, new.lock, tuple(c for c in components if c), known, unmeasured
    )


def _groups(old: ReleaseLock, new: ReleaseLock) -> list[tuple[str, ...]]:
    """Groups of components: those that share an artefact in one of the releases are together."""
    groups: dict[str, set[str]] = {
        name: {name} for name in sorted({*old.components, *new.components})
    }
    for lock in (old, new):
        first: dict[str, str] = {}
        for artefact in lock.artefacts:
            other = first.setdefault(artefact.sha256, artefact.component)
            if groups[other] is not groups[artefact.component]:
                groups[other] |= groups[artefact.component]
                for name in groups[other]:
                    groups[name] = groups[other]
    return list(dict.fromkeys(tuple(sorted(group)) for group in groups.values()))


def _component(
    group: tuple[str, ...], platform: str, old: Release, new: Release
) -> ComponentChange | None:
    (before, was), (after, now) = (_side(release, group, platform) for release in (old, new))
    return ComponentChange(group, platform, was, now, before == after) if before or after else None


def _side(release: Release, group: Sequence[str], platform: str) -> tuple[set[str], ReleaseSide]:
    """The sha256s of the artefacts of a group on a platform, and what is said of them."""
    lock = release.lock
    components = [lock.components[name] for name in group if name in lock.components]
    artefacts = {
        a.sha256: a for c in components for a in c.artefacts.values() if a and _is_for(a, platform)
    }
    read = {
        a.sha256
        for c in components
        for a in contents.representatives(c.artefacts)
        if _is_for(a, platform)
    }
    glibc = (
        [lock.facts.glibc.get(platform, {}).get(name, "") for name in group] if lock.facts else []
    )
    versions = tuple(dict.fromkeys(a.version for a in artefacts.values()))
    size = sum(a.size for a in artefacts.values())
    newest = (
        None
        if lock.is_ctk and artefacts and not lock.facts
        else max(glibc, key=version_key, default="")
    )
    return set(artefacts), ReleaseSide(versions, size, newest, _sonames(release.contents, read))


def _is_for(artefact: Artefact, platform: str) -> bool:
    return artefact.subdir in (NOARCH, platform)


def _sonames(known: Contents, shas: Iterable[str]) -> tuple[str, ...] | None:
    """The SONAMEs of the libraries in some artefacts; None if one is not measured."""
    found: set[str] = set()
    for members in map(known.members, shas):
        if members is None:
            return None
        for path, content in members.items():
            if binary := content.binary:
                is_dll = binary.format == "pe" and path.lower().endswith(".dll")
                found |= {path.rpartition("/")[2] if is_dll else binary.soname} - {""}
    return tuple(sorted(found))


Kind = Literal["SONAME", "component", "GPU architectures"]


@dataclass(frozen=True)
class Break:
    """A part of the old release that programs use and the new release does not have."""

    kind: Kind
    platform: str  # "" for all platforms
    place: str  # the component
    text: str


def breaks(difference: ReleaseDifference) -> tuple[Break, ...]:
    """The changes that break programs; none between two majors, where everything may change."""
    return tuple(_breaks(difference)) if difference.within_major else ()


def _breaks(difference: ReleaseDifference) -> Iterator[Break]:
    old, new = difference.architectures
    if gone := [a for a in old or () if new is not None and a not in new]:
        yield Break("GPU architectures", "", "nvrtc", f"no longer for {', '.join(gone)}")
    there: dict[
        str, set[str]
    ] = {}  # platform -> the SONAMEs of the new release: a library may move to a component
    for change in difference.components:
        there.setdefault(change.platform, set()).update(change.new.sonames or ())
    for change in difference.components:
        if change.old.versions and not change.new.versions:
            yield Break("component", change.platform, change.name, "no longer published")
        for soname in change.removed:
            if soname not in there[change.platform] and not _serves_minor(
                soname, difference.old.minor
            ):
                yield Break("SONAME", change.platform, change.name, f"{soname} is gone")


def _serves_minor(soname: str, minor: str) -> bool:
    """Whether a library is for its own release, as libnvrtc-builtins.so.13.4."""
    forms = "|".join(re.escape(form) for form in (minor, minor.replace(".", "")))
    return bool(minor) and re.search(rf"(?<!\d)({forms})(?!\d)", soname) is not None
