"""What the package index has that the release locks do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.version import Version

from ctk import projects, wheels
from ctk.components import MANIFEST
from ctk.errors import NotPublished
from ctk.index import Index
from ctk.lock import ReleaseLock
from ctk.paths import Workspace
from ctk.project import python_tags
from ctk.release import published_minors


@dataclass(frozen=True)
class Row:
    """One distribution of one release.

    Attributes:
        release: ``cuda-13.4`` or ``python-13``.
        what: The distribution.
        locked: Version in the lock; None when the release is not locked.
        lockable: Version that `ctk release add` would lock now.
        newest: Newest final version on the index, which others may not accept yet.
        is_newer: Whether `ctk release add` would bring something newer.
    """

    release: str
    what: str
    locked: str | None
    lockable: str
    newest: str
    is_newer: bool

    @property
    def cells(self) -> tuple[str, ...]:
        if self.is_newer:
            verdict = "newer" if self.locked else "newer minor"
        elif self.locked is None:
            verdict = "not locked"
        else:
            verdict = "up to date" if self.newest == self.lockable else "up to date; the newest does not fit the set"
        return self.release, self.what, self.locked or "-", self.lockable, self.newest, verdict


def compare(index: Index, locks: Mapping[str, ReleaseLock], workspace: Workspace) -> list[Row]:
    """Every release, locked or not, against the index; minors first, oldest first."""
    return [*_minors(index, locks), *_projects(index, locks, workspace)]


def _minors(index: Index, locks: Mapping[str, ReleaseLock]) -> Iterator[Row]:
    locked = {lock.minor: Version(lock.manifest.version) for lock in locks.values() if lock.manifest}
    published = published_minors(index)
    gone = sorted(set(locked) - set(published), key=Version)
    if gone:
        raise NotPublished(
            f"the package index has no {MANIFEST} of {', '.join(gone)} any more",
            "a mirror may have to fetch them again",
        )
    latest = max(locked.values(), default=Version("0"))
    for minor, version in published.items():
        have = locked.get(minor)
        newer = version > (have or latest)
        yield Row(f"cuda-{minor}", MANIFEST, str(have) if have else None, str(version), str(version), newer)


def _projects(index: Index, locks: Mapping[str, ReleaseLock], workspace: Workspace) -> Iterator[Row]:
    tags = python_tags(workspace.build_config)
    for lock in locks.values():
        if lock.is_ctk:
            continue
        for name, files in projects.choose(index, projects.Goal(lock.major, tags)).items():
            have = lock.components[name].version if name in lock.components else None
            lockable = Version(files[0].version)
            newest = next(v for v in wheels.final_versions(index.files(name)) if _is_of(v, name, lock.major))
            newer = have is None or lockable > Version(have)
            yield Row(lock.name, name, have, str(lockable), str(newest), newer)


def _is_of(version: Version, name: str, major: str) -> bool:
    """Whether a version belongs to a CUDA major: two of the projects carry it in their version."""
    return name not in projects.VERSIONED_BY_CUDA or str(version.major) == major
