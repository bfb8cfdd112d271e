"""The changes between two releases as data, from their locks and, if given, the surfaces of their artefacts."""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import BadValue, LockError, UnknownName, problems
from ctk.core.platforms import NOARCH
from ctk.diff import FORMS
from ctk.diff.licences import LicenceChange
from ctk.diff.scan import Shown, Surface
from ctk.lock.model import Artefact, ReleaseLock, find_release, load, parse_lock, release_locks
from ctk.package.binaries import version_key

Surfaces = Mapping[str, Surface]
"""By the artefact's sha256."""

# C++ names of both compilers, and names that a linker adds to a library.
_INTERNAL = re.compile(r"_Z|\?|(_init|_fini|_end|_edata|__bss_start)$")


def find(name: str, workspace: Workspace) -> ReleaseLock:
    """The release that a word of the command line names, in one of `FORMS`."""
    revision, colon, release = name.rpartition(":")
    if not colon:
        path = workspace.variants / f"cuda-{name}.lock"
        return load(path) if path.exists() else find_release(release_locks(workspace), name)
    file = f"{workspace.variants.name}/{release if release[:1].isalpha() else f'cuda-{release}'}.lock"
    lock, wrong = parse_lock(_git_show(revision, file, workspace))
    if lock is None:
        raise problems(LockError, f"{revision}:{file}", wrong, f"name another one: {FORMS}")
    return lock


def _git_show(revision: str, file: str, workspace: Workspace) -> str:
    command = ["git", "-C", str(workspace.root), "show", "--end-of-options", f"{revision}:./{file}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["git gives no reason"])[0].removeprefix("fatal: ")
        raise BadValue(f"{revision}:{file} cannot be read: {reason}", "see `git log -- variants`") from None


def same_kind(old: ReleaseLock, new: ReleaseLock) -> None:
    """Raises UnknownName for two releases of different kinds: CTK, Python projects, libraries."""
    if old.name.partition("-")[0] != new.name.partition("-")[0]:
        raise UnknownName(f"{old.name} and {new.name} have nothing in common", "name two releases of one kind")


@dataclass(frozen=True)
class FileChanges:
    """Paths that were added, removed or changed, sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


ABSENT = Shown("", "")
"""Stands for a program or library that a release does not have."""


@dataclass(frozen=True)
class LibraryChange:
    """A program or library in two releases; `ABSENT` where a release does not have it."""

    old: Shown
    new: Shown

    @property
    def any(self) -> Shown:
        """The new program or library, else the old."""
        return self.old if self.new is ABSENT else self.new

    @cached_property
    def removed(self) -> tuple[str, ...]:
        return tuple(sorted({*self.old.exports} - {*self.new.exports}))

    @cached_property
    def added(self) -> tuple[str, ...]:
        return tuple(sorted({*self.new.exports} - {*self.old.exports}))

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """Removed names that programs may call: not C++ names, which depend on the compiler, and not the linker's."""
        return tuple(name for name in self.removed if not _INTERNAL.match(name))

    @property
    def is_changed(self) -> bool:
        """Whether its exports or requirements differ; a file that only moved has not changed."""
        old, new = (replace(shown, path="") for shown in (self.old, self.new))
        return old != new


@dataclass(frozen=True)
class ReleaseSide:
    """A group of components in a release on a platform."""

    versions: tuple[str, ...]  # each once; empty if the release does not have the components
    size: int  # bytes of the artefacts
    glibc: str  # newest symbol version needed; "" if none is, or if it is not known


@dataclass(frozen=True)
class ComponentChange:
    """The change of a group of components on a platform."""

    components: tuple[str, ...]  # several if a release has them in one artefact, as CUDA 12 has nvcc, crt and nvvm
    platform: str
    old: ReleaseSide
    new: ReleaseSide
    same: bool  # whether the artefacts are the very same files
    files: FileChanges | None = None  # None if they were not read
    libraries: tuple[LibraryChange, ...] = ()  # programs and libraries that differ

    @property
    def name(self) -> str:
        return ", ".join(self.components)


@dataclass(frozen=True)
class ReleaseDifference:
    """The changes between two releases."""

    old: ReleaseLock
    new: ReleaseLock
    with_binaries: bool  # whether the artefacts were read
    components: tuple[ComponentChange, ...]  # every group on every platform asked for
    sonames: Mapping[str, frozenset[str]]  # platform -> those of all components of the new release
    licences: tuple[LicenceChange, ...] = ()

    @property
    def within_major(self) -> bool:
        """Whether programs made with the old one must run with the new one."""
        return self.old.major == self.new.major

    @property
    def architectures(self) -> list[tuple[str, ...] | None]:
        """GPU architectures of both releases; None if not measured."""
        return [lock.facts.gpu_architectures if lock.facts else None for lock in (self.old, self.new)]

    @property
    def ptx_isa(self) -> list[str | None]:
        """PTX ISA of both releases; None if not measured."""
        return [lock.facts.ptx_isa if lock.facts else None for lock in (self.old, self.new)]

    @property
    def gpu_code(self) -> list[tuple[str, str, str, str]]:
        """Component, platform, old and new GPUs of each component whose code runs on other GPUs now.

        Nothing for two majors, and for components that are not measured.
        """
        was, now = (
            {(n, p): g for n, found in k.gpu_code.items() for p, g in found.items()} for k in (self.old, self.new)
        )
        common = [key for key in was if key in now and key[1] in self.platforms] if self.within_major else []
        return [(*key, was[key], now[key]) for key in common if was[key] != now[key]]

    @property
    def changed(self) -> tuple[ComponentChange, ...]:
        return tuple(c for c in self.components if not c.same)

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.platform for c in self.components))


def compare(
    old: ReleaseLock,
    new: ReleaseLock,
    platforms: Sequence[str],
    surfaces: Surfaces | None = None,
) -> ReleaseDifference:
    """Compares two releases on some platforms; an artefact for all platforms counts for each.

    Without surfaces, which must then be those of all artefacts of both, only the locks are compared.
    """
    groups = _groups(old, new)
    components = [_component(group, platform, old, new, surfaces) for platform in platforms for group in groups]
    sonames = {}
    if surfaces is not None:
        for platform in platforms:
            read = [surfaces[a.sha256] for a in new.artefacts if _is_for(a, [platform])]
            sonames[platform] = frozenset(shown.soname for s in read for shown in s.binaries if shown.soname)
    return ReleaseDifference(old, new, surfaces is not None, tuple(c for c in components if c), sonames)


def wanted(old: ReleaseLock, new: ReleaseLock, platforms: Sequence[str]) -> tuple[Artefact, ...]:
    """The artefacts whose surfaces `compare` needs."""
    return tuple(a for a in (*old.artefacts, *new.artefacts) if _is_for(a, platforms))


def _is_for(artefact: Artefact, platforms: Iterable[str]) -> bool:
    return artefact.subdir in (NOARCH, *platforms)


def _groups(old: ReleaseLock, new: ReleaseLock) -> list[tuple[str, ...]]:
    """Groups of components: those that share an artefact in one of the releases are together."""
    groups: dict[str, set[str]] = {name: {name} for name in sorted({*old.components, *new.components})}
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
    group: tuple[str, ...], platform: str, old: ReleaseLock, new: ReleaseLock, surfaces: Surfaces | None
) -> ComponentChange | None:
    before, after = (_content(lock, group, platform, surfaces) for lock in (old, new))
    if not before.sha256s and not after.sha256s:
        return None
    same = before.sha256s == after.sha256s
    if surfaces is None or same:
        return ComponentChange(group, platform, before.side, after.side, same)
    libraries = [change for change in pair(before.binaries, after.binaries) if change.is_changed]
    files = compare_files(before.files, after.files)
    return ComponentChange(group, platform, before.side, after.side, False, files, tuple(libraries))


class _GroupContent(NamedTuple):
    """The artefacts of a group of components in a release on a platform, and the surfaces of these artefacts."""

    side: ReleaseSide
    sha256s: set[str]
    binaries: list[Shown]
    files: dict[str, str]


def _content(lock: ReleaseLock, group: Sequence[str], platform: str, surfaces: Surfaces | None) -> _GroupContent:
    components = [lock.components[name] for name in group if name in lock.components]
    artefacts = {a.sha256: a for c in components for a in c.artefacts.values() if a and _is_for(a, [platform])}
    binaries: list[Shown] = []
    files: dict[str, str] = {}
    read = {sha256: surfaces[sha256] for sha256 in artefacts} if surfaces is not None else {}
    for sha256, surface in read.items():
        binaries += surface.binaries
        # A Python tag before the path separates the files of a project for several Pythons.
        python = artefacts[sha256].python
        prefix = f"{python.tag}: " if python else ""
        files |= {f"{prefix}{path}": file for path, file in surface.files.items()}
    glibc = [shown.glibc for shown in binaries]
    if surfaces is None and lock.facts:
        glibc = [lock.facts.glibc.get(platform, {}).get(name, "") for name in group]
    versions = tuple(dict.fromkeys(a.version for a in artefacts.values()))
    size = sum(a.size for a in artefacts.values())
    side = ReleaseSide(versions, size, max(glibc, key=version_key, default=""))
    return _GroupContent(side, set(artefacts), binaries, files)


def compare_files(old: Mapping[str, str], new: Mapping[str, str]) -> FileChanges:
    """The changes of files that are packaged: not ``__init__.py``, and of a wheel's metadata only licences."""
    old, new = ({p: f for p, f in files.items() if _is_packaged(p)} for files in (old, new))
    return FileChanges(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(old.keys() - new.keys())),
        tuple(path for path in sorted(old.keys() & new.keys()) if old[path] != new[path]),
    )


def _is_packaged(path: str) -> bool:
    if path.startswith("dist-info/"):
        return "licen" in path.lower()
    return posixpath.basename(path) != "__init__.py"


def pair(old: Sequence[Shown], new: Sequence[Shown]) -> tuple[LibraryChange, ...]:
    """Pairs of the programs and libraries of both sides, sorted by path.

    Two are the same if they have the same path; else the same SONAME, else the same name without its version, if it is
    unique on both sides. CUDA 13 moved every file, and a new major renames every library. Further copies of a SONAME
    are no change: the list of files has them.
    """
    rest_old, rest_new = list(old), list(new)
    pairs: list[LibraryChange] = []
    keys: tuple[Callable[[Shown], str], ...] = (
        lambda shown: shown.path,
        lambda shown: f"{shown.machine} {shown.soname}" if shown.soname else "",
        lambda shown: f"{shown.machine} {shown.stem}",
    )
    for key in keys:
        of_old, of_new = _unique(rest_old, key), _unique(rest_new, key)
        matched = of_old.keys() & of_new.keys() - {""}
        pairs += [LibraryChange(of_old[k], of_new[k]) for k in matched]
        rest_old = [shown for shown in rest_old if key(shown) not in matched]
        rest_new = [shown for shown in rest_new if key(shown) not in matched]
    pairs += [LibraryChange(shown, ABSENT) for shown in _no_copies(rest_old, new)]
    pairs += [LibraryChange(ABSENT, shown) for shown in _no_copies(rest_new, old)]
    return tuple(sorted(pairs, key=lambda change: (change.any.path, change.new is ABSENT)))


def _unique(shown: list[Shown], key: Callable[[Shown], str]) -> dict[str, Shown]:
    counts = Counter(map(key, shown))
    return {key(s): s for s in shown if counts[key(s)] == 1}


def _no_copies(shown: Iterable[Shown], others: Iterable[Shown]) -> list[Shown]:
    """Those whose SONAME the other side does not have."""
    known = {(other.machine, other.soname) for other in others if other.soname}
    return [s for s in shown if (s.machine, s.soname) not in known]


Kind = Literal["symbols", "SONAME", "library", "component", "GPU architectures"]


@dataclass(frozen=True)
class Break:
    """A part of the old release that programs use and the new release does not have."""

    kind: Kind
    platform: str  # "" for all platforms
    place: str  # the component, and the library if it is of a library
    text: str
    names: tuple[str, ...] = ()  # removed symbols


def breaks(difference: ReleaseDifference) -> tuple[Break, ...]:
    """The changes that break programs; none between two majors, where everything may change."""
    return tuple(_breaks(difference)) if difference.within_major else ()


def _breaks(difference: ReleaseDifference) -> Iterator[Break]:
    old, new = difference.architectures
    if gone := [a for a in old or () if new is not None and a not in new]:
        yield Break("GPU architectures", "", "nvrtc", f"no longer for {', '.join(gone)}")
    minors = difference.old.minor, difference.new.minor
    for component in difference.components:
        if component.old.versions and not component.new.versions:
            yield Break("component", component.platform, component.name, "not published any more")
        sonames = difference.sonames.get(component.platform, frozenset())
        for change in component.libraries:
            for kind, text, names in _library_breaks(change, sonames, minors):
                yield Break(kind, component.platform, library_place(component, change), text, names)


def _library_breaks(
    change: LibraryChange, sonames: frozenset[str], minors: tuple[str, str]
) -> Iterator[tuple[Kind, str, tuple[str, ...]]]:
    before, after = change.old.soname, change.new.soname
    if not (before or change.old.exports):  # new, or a program
        return
    if change.new is ABSENT:
        serves_its_minor = _without_minor(before, minors[0]) != before
        if before not in sonames and not serves_its_minor:
            yield "library", "the library is gone", change.lost
    elif not follows_minor(before, after, minors):
        if before != after and before not in sonames:
            yield "SONAME", f"is now {after or 'without a SONAME'}", ()
        if change.lost:
            yield "symbols", f"{count(len(change.lost), 'symbol')} gone", change.lost


def library_place(component: ComponentChange, change: LibraryChange) -> str:
    """The component, and the library by its old name."""
    shown = change.new if change.old is ABSENT else change.old
    return f"{component.name}: {shown.soname or shown.name}"


def follows_minor(old: str, new: str, minors: tuple[str, str]) -> bool:
    """Whether two SONAMEs differ only in the minor: such a library is for its own release (nvrtc-builtins)."""
    first, second = (_without_minor(name, minor) for name, minor in zip((old, new), minors, strict=True))
    return old != new and first == second


def _without_minor(name: str, minor: str) -> str:
    if not minor:
        return name
    # As in libnvrtc-builtins.so.13.4, nvrtc-builtins64_134.dll
    forms = "|".join(re.escape(form) for form in (minor, minor.replace(".", "")))
    return re.sub(rf"(?<!\d)({forms})(?!\d)", "*", name)
