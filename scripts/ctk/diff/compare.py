"""What changed between two releases, as data: from two locks, and where they are at hand from two sets of surfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ctk.core.platforms import NOARCH
from ctk.diff.files import FileChanges, compare_files
from ctk.diff.libraries import LibraryChange, pair
from ctk.diff.surface import File, Shown, Surface
from ctk.lock.lock import Artefact, Component, ReleaseLock
from ctk.package.binaries import version_key


@dataclass(frozen=True)
class Side:
    """A group of components in one release on one platform.

    Attributes:
        versions: The components' versions, each once; empty when the release does not have them.
        size: Bytes of the artefacts; 0 when none is published.
        unpacked: Bytes of the files in them; None when they were not read.
        glibc: Newest glibc symbol version needed, "" without any or when it is not known.
    """

    versions: tuple[str, ...] = ()
    size: int = 0
    unpacked: int | None = None
    glibc: str = ""


@dataclass(frozen=True)
class ComponentChange:
    """What became of the components of one group of artefacts on one platform.

    Attributes:
        components: Their names; several where a release has them in one artefact, as CUDA 12 has nvcc, crt and nvvm.
        same: Whether the artefacts are the very same files.
        files: None when they were not read.
        libraries: Programs and libraries that differ.
    """

    components: tuple[str, ...]
    platform: str
    old: Side
    new: Side
    same: bool
    files: FileChanges | None = None
    libraries: tuple[LibraryChange, ...] = ()

    @property
    def name(self) -> str:
        return ", ".join(self.components)

    @property
    def is_older(self) -> bool:
        """Whether the new release has an older version."""
        return len(self.old.versions) == len(self.new.versions) == 1 and version_key(
            self.new.versions[0]
        ) < version_key(self.old.versions[0])


@dataclass(frozen=True)
class Difference:
    """What changed between two releases.

    Attributes:
        old: The first release, e.g. ``13.3.1``.
        new: The second.
        minors: CTK minors of both, "" for what is none.
        within_major: Whether programs made with the old one must run with the new one.
        with_binaries: Whether the artefacts were read.
        architectures: GPU architectures of both; None where they are not measured.
        ptx_isa: PTX ISA of both; None where it is not measured.
        components: Every group of components on every platform asked for.
        sonames: Platform -> every SONAME of the new release, whichever component has it.
    """

    old: str
    new: str
    minors: tuple[str, str]
    within_major: bool
    with_binaries: bool
    architectures: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
    ptx_isa: tuple[str | None, str | None]
    components: tuple[ComponentChange, ...]
    sonames: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def changed(self) -> tuple[ComponentChange, ...]:
        return tuple(c for c in self.components if not c.same)


def compare(
    old: ReleaseLock,
    new: ReleaseLock,
    platforms: Sequence[str],
    surfaces: Mapping[str, Surface] | None = None,
    only: Sequence[str] = (),
) -> Difference:
    """Compares two releases.

    Args:
        old: The first release.
        new: The second.
        platforms: Subdirs; what is the same for all of them counts for each.
        surfaces: Of every artefact of both by sha256; without them only the locks are compared.
        only: Components; all of them when empty.
    """
    groups = _groups(old, new, only)
    components = [_component(group, platform, old, new, surfaces) for platform in platforms for group in groups]
    return Difference(
        old.release,
        new.release,
        (old.minor, new.minor),
        old.major == new.major,
        surfaces is not None,
        (_architectures(old), _architectures(new)),
        (_ptx_isa(old), _ptx_isa(new)),
        tuple(c for c in components if c is not None),
        {platform: _sonames(new, platform, surfaces) for platform in platforms} if surfaces is not None else {},
    )


def wanted(
    old: ReleaseLock, new: ReleaseLock, platforms: Sequence[str], only: Sequence[str] = ()
) -> tuple[Artefact, ...]:
    """The artefacts whose surfaces `compare` needs."""
    names = {name for group in _groups(old, new, only) for name in group}
    return tuple(a for a in (*old.artefacts, *new.artefacts) if a.component in names and _is_for(a, platforms))


def _architectures(lock: ReleaseLock) -> tuple[str, ...] | None:
    return lock.facts.gpu_architectures if lock.facts else None


def _ptx_isa(lock: ReleaseLock) -> str | None:
    return lock.facts.ptx_isa if lock.facts else None


def _is_for(artefact: Artefact, platforms: Sequence[str]) -> bool:
    """Targets are a platform, a platform with a Python tag, or noarch."""
    return artefact.target == NOARCH or any(f"{artefact.target}-".startswith(f"{p}-") for p in platforms)


def _groups(old: ReleaseLock, new: ReleaseLock, only: Sequence[str]) -> list[tuple[str, ...]]:
    """Components by name; those that share an artefact in one of the releases are together."""
    groups: dict[str, set[str]] = {name: {name} for name in sorted({*old.components, *new.components})}
    for lock in (old, new):
        first: dict[str, str] = {}
        for artefact in lock.artefacts:
            other = first.setdefault(artefact.sha256, artefact.component)
            if groups[other] is not groups[artefact.component]:
                groups[other] |= groups[artefact.component]
                for name in groups[other]:
                    groups[name] = groups[other]
    unique = {tuple(sorted(group)): None for group in groups.values()}
    return [group for group in unique if not only or set(group) & set(only)]


def _component(
    group: tuple[str, ...], platform: str, old: ReleaseLock, new: ReleaseLock, surfaces: Mapping[str, Surface] | None
) -> ComponentChange | None:
    before, after = (_artefacts(lock, group, platform) for lock in (old, new))
    if not before and not after:
        return None
    same = {a.sha256 for a in before} == {a.sha256 for a in after}
    had = _side(old, group, platform, before, surfaces)
    has = _side(new, group, platform, after, surfaces)
    if surfaces is None or same:
        return ComponentChange(group, platform, had, has, same)
    libraries = pair(_binaries(before, surfaces), _binaries(after, surfaces))
    changed = tuple(library for library in libraries if library.is_changed)
    files = compare_files(_files(before, surfaces), _files(after, surfaces))
    return ComponentChange(group, platform, had, has, False, files, changed)


def _artefacts(lock: ReleaseLock, group: Iterable[str], platform: str) -> tuple[Artefact, ...]:
    components: list[Component] = [lock.components[name] for name in group if name in lock.components]
    found = (a for c in components for a in c.artefacts.values() if a and _is_for(a, [platform]))
    return tuple({a.sha256: a for a in found}.values())


def _side(
    lock: ReleaseLock,
    group: Iterable[str],
    platform: str,
    artefacts: Sequence[Artefact],
    surfaces: Mapping[str, Surface] | None,
) -> Side:
    versions = tuple(dict.fromkeys(a.version for a in artefacts))
    size = sum(a.size for a in artefacts)
    if surfaces is None:
        known = lock.facts.glibc.get(platform, {}) if lock.facts else {}
        return Side(versions, size, None, _newest(known.get(name, "") for name in group))
    glibc = _newest(shown.glibc for shown in _binaries(artefacts, surfaces))
    return Side(versions, size, sum(surfaces[a.sha256].size for a in artefacts), glibc)


def _newest(versions: Iterable[str]) -> str:
    return max(versions, key=version_key, default="")


def _files(artefacts: Sequence[Artefact], surfaces: Mapping[str, Surface]) -> dict[str, File]:
    return {f"{_tag(a)}{p}": file for a in artefacts for p, file in surfaces[a.sha256].files.items()}


def _binaries(artefacts: Sequence[Artefact], surfaces: Mapping[str, Surface]) -> list[Shown]:
    return [shown for a in artefacts for shown in surfaces[a.sha256].binaries]


def _tag(artefact: Artefact) -> str:
    """What tells apart the files of one project for several Pythons."""
    tag = artefact.target.rpartition("-")[2]
    return f"{tag}: " if tag.startswith("cp") else ""


def _sonames(lock: ReleaseLock, platform: str, surfaces: Mapping[str, Surface]) -> frozenset[str]:
    found = (a for a in lock.artefacts if _is_for(a, [platform]) and a.sha256 in surfaces)
    return frozenset(shown.soname for a in found for shown in surfaces[a.sha256].binaries if shown.soname)
