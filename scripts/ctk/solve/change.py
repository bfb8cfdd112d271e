"""What a change of packages makes worse, as data: kinds and packages.

`ctk.cli.work.change` has the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from re import findall

from rattler import PackageRecord, RepoDataRecord, Version, VersionSpec

from ctk.package.records import match_spec, spec_name
from ctk.solve.solve import Pick, older, parse_spec

_TOOLKIT, _PYTHON, _NVJITLINK = "cuda-version", "python", "libnvjitlink"
_TIED = ("native", "with")
"""First words of builds of libnvjitlink that depend on their own toolkit: ``native_...``,
``with_compat_...``.
"""


class Kind(StrEnum):
    """How a change can make an environment worse, or other than what was asked for."""

    NATIVE_TO_COMPAT = "native-to-compat"
    TOOLKIT_OLDER = "toolkit-older"
    TOOLKIT_NEWER = "toolkit-newer"
    TOOLKIT_GONE = "toolkit-gone"
    PYTHON_CHANGES = "python-changes"  # another minor
    CUDA_TO_CPU = "cuda-to-cpu"
    ASKED_FOR_GONE = "asked-for-gone"
    NVJITLINK_LEAVES = "nvjitlink-leaves"  # its toolkit, though nobody asked for that


TOOLKIT = (Kind.NATIVE_TO_COMPAT, Kind.TOOLKIT_OLDER, Kind.TOOLKIT_NEWER, Kind.TOOLKIT_GONE)
"""The kinds that are about the toolkit. Two of them can be of one change."""


@dataclass(frozen=True)
class Package:
    """The name, version and build of a package."""

    name: str
    version: str
    build: str

    @classmethod
    def of(cls, record: PackageRecord) -> Package:
        return cls(record.name.normalized, str(record.version), str(record.build))

    @property
    def minor(self) -> str:
        """``13.0`` of 13.0.88."""
        return ".".join(self.version.split(".")[:2])

    @property
    def fit(self) -> str:
        """``native`` or ``compat`` of a cuda-version of this project; "" of other packages."""
        word = self.build.partition("_")[0]
        return word if self.name == _TOOLKIT and word in ("native", "compat") else ""


@dataclass(frozen=True)
class Worse:
    """A package that a change makes worse: as it is, and as it would be.

    None where it is not there.
    """

    kind: Kind
    before: Package | None
    after: Package | None


@dataclass(frozen=True)
class Change:
    """What a solve would make of an environment; all sorted by name.

    Attributes:
        added: Packages that are not there now.
        removed: Packages that would go.
        changed: Packages that stay with another version or build: as they are, and as they would
            be.
        worse: What the change makes worse.
    """

    added: tuple[Package, ...] = ()
    removed: tuple[Package, ...] = ()
    changed: tuple[tuple[Package, Package], ...] = ()
    worse: tuple[Worse, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare(
    before: Iterable[RepoDataRecord],
    after: Iterable[RepoDataRecord],
    asked: Iterable[str],
    request: Iterable[str],
) -> Change:
    """Compares the packages of an environment with those that a solver picks for it.

    Args:
        before: The installed packages.
        after: The picked packages.
        asked: The specs that were asked for until now.
        request: The specs that are asked for with the change.
    """
    old = {record.name.normalized: record for record in before}
    new = {record.name.normalized: record for record in after}
    both = sorted(old.keys() & new.keys())
    pairs = [(Package.of(old[name]), Package.of(new[name])) for name in both]
    return Change(
        added=tuple(Package.of(new[name]) for name in sorted(new.keys() - old.keys())),
        removed=tuple(Package.of(old[name]) for name in sorted(old.keys() - new.keys())),
        changed=tuple((one, other) for one, other in pairs if one != other),
        worse=tuple(_worse(old, new, [*asked], [*request])),
    )


_Records = Mapping[str, RepoDataRecord]


def _worse(old: _Records, new: _Records, asked: list[str], request: list[str]) -> Iterator[Worse]:
    yield from _worse_toolkit(_package(old, _TOOLKIT), _package(new, _TOOLKIT))
    python, other = _package(old, _PYTHON), _package(new, _PYTHON)
    if python and other and python.minor != other.minor:
        yield Worse(Kind.PYTHON_CHANGES, python, other)
    stay = old.keys() & new.keys() - {_TOOLKIT}
    for name in sorted(stay):
        if needs_cuda(old[name]) and not needs_cuda(new[name]):
            yield Worse(Kind.CUDA_TO_CPU, Package.of(old[name]), Package.of(new[name]))
    go = old.keys() - new.keys() - {_TOOLKIT}
    for name in sorted(go & {parse_spec(spec).name for spec in asked}):
        yield Worse(Kind.ASKED_FOR_GONE, Package.of(old[name]), None)
    left = unasked_nvjitlink(new.values(), request)
    if left and not unasked_nvjitlink(old.values(), asked):
        yield Worse(Kind.NVJITLINK_LEAVES, _package(old, _NVJITLINK), left)


def _package(records: _Records, name: str) -> Package | None:
    record = records.get(name)
    return Package.of(record) if record else None


def _worse_toolkit(before: Package | None, after: Package | None) -> Iterator[Worse]:
    if before is None:
        return
    if after is None:
        yield Worse(Kind.TOOLKIT_GONE, before, None)
        return
    if before.fit == "native" and after.fit == "compat":
        yield Worse(Kind.NATIVE_TO_COMPAT, before, after)
    if older(after.version, before.version):
        yield Worse(Kind.TOOLKIT_OLDER, before, after)
    elif older(before.version, after.version):
        yield Worse(Kind.TOOLKIT_NEWER, before, after)


def needs_cuda(record: PackageRecord) -> bool:
    """Whether it is a CUDA build, by its dependencies."""
    return any(spec_name(need) in ("__cuda", _TOOLKIT) for need in record.depends)


def cpu_instead(pick: Pick | None, other: Pick) -> list[str]:
    """The packages with a CUDA build in `pick` and a CPU build in `other`.

    Without those that others depend on.
    """
    if pick is None:
        return []
    cuda = {record.name for record in pick.records if needs_cuda(record)}
    cpu = [record for record in other.records if record.name in cuda and not needs_cuda(record)]
    brought = {need.split()[0] for record in cpu for need in record.depends}
    names = [record.name.normalized for record in cpu]
    return [name for name in names if name not in brought]


# --- nvJitLink, whose PTX a driver refuses if it is newer


def unasked_nvjitlink(records: Iterable[PackageRecord], specs: Iterable[str]) -> Package | None:
    """The nvJitLink of another toolkit than that of its environment.

    None if something asks for that. A package asks for it whose dependency or constraint no version
    of the toolkit's own minor satisfies, and so does such a spec of the request.

    Args:
        records: The packages of the environment.
        specs: What was asked for.
    """
    by_name = {record.name.normalized: record for record in records}
    left, toolkit = nvjitlink_of_another_toolkit(by_name.values())
    if left is None or toolkit is None:
        return None
    wanted = list(specs)
    for name, record in by_name.items():
        if name != _NVJITLINK:
            wanted += [*record.depends, *record.constrains]
    for spec in wanted:
        if spec_name(spec) == _NVJITLINK and _excludes(spec, toolkit.minor):
            return None
    return left


def wants_nvjitlink_of_another_toolkit(records: Iterable[PackageRecord], minor: str) -> str:
    """The package that needs another nvJitLink than that of a toolkit; "" if none does."""
    for record in records:
        name = record.name.normalized
        for spec in (*record.depends, *record.constrains):
            if name != _NVJITLINK and spec_name(spec) == _NVJITLINK and _excludes(spec, minor):
                return name
    return ""


def nvjitlink_of_another_toolkit(
    records: Iterable[PackageRecord],
) -> tuple[Package | None, Package | None]:
    """The nvJitLink that is not of the toolkit beside it, and that toolkit.

    None and None if it is, or if one lacks. Toolkits 12.0 to 12.2 have none that the set can use:
    builds for 12.3 are tied to these, as their own.
    """
    found = {
        r.name.normalized: Package.of(r)
        for r in records
        if r.name.normalized in (_NVJITLINK, _TOOLKIT)
    }
    library, toolkit = found.get(_NVJITLINK), found.get(_TOOLKIT)
    if library is None or toolkit is None or library.minor == toolkit.minor:
        return None, None
    if library.build.partition("_")[0] in _TIED:
        return None, None
    return library, toolkit


def _excludes(spec: str, minor: str) -> bool:
    """Whether no version of a minor satisfies a spec of libnvjitlink.

    False of a spec that cannot be read.
    """
    try:
        match = match_spec(spec)
        if str(match.build or "").startswith("newer"):
            return True
        if match.version is None:
            return False
        versions = VersionSpec(str(match.version))
        # The ends of the minor, and what the spec names: a range begins or ends there.
        named = findall(rf"(?<![\d.]){minor}(?:\.\d+)*", spec)
        candidates = [f"{minor}.0", f"{minor}.99999", *named]
        return not any(versions.matches(Version(version)) for version in candidates)
    except Exception:  # rattler's own, of many kinds
        return False
