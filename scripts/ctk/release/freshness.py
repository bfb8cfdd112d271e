"""What the package index has that the release locks do not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, NotPublished
from ctk.index.index import Index
from ctk.lock import manifest, projects
from ctk.lock.components import MANIFEST
from ctk.lock.exclusions import Unpublished
from ctk.lock.lock import ReleaseLock
from ctk.plan.project import python_tags
from ctk.release.release import Published, manifest_of, published, published_minors


@dataclass(frozen=True)
class Row:
    """One distribution of one release.

    Attributes:
        release: ``cuda-13.4`` or ``python-13``.
        what: The distribution.
        locked: Version in the lock; None when the release is not locked.
        lockable: Version that `ctk release add` would lock now.
        newest: Newest final version on the index.
        is_newer: Whether `ctk release add` would bring something newer.
        held_back: Why it would not lock the newest version; empty when it would.
        older: Each version that it would lock beside the newest -> why, in sentences.
    """

    release: str
    what: str
    locked: str | None
    lockable: str
    newest: str
    is_newer: bool
    held_back: str = ""
    older: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[str, ...]:
        if self.is_newer:
            verdict = "newer" if self.locked else "newer minor"
        elif self.locked is None:
            verdict = "not locked"
        else:
            verdict = "up to date"
        if self.held_back:
            verdict += "; the newest is held back"
        return self.release, self.what, self.locked or "-", self.lockable, self.newest, verdict

    @property
    def reasons(self) -> Iterator[str]:
        """What holds the newest version back, and what an older one is there for, a sentence each."""
        if self.held_back:
            yield f"{self.release}: {self.what} {self.newest} is held back; {self.held_back}"
        for version, sentences in self.older.items():
            yield f"{self.release}: {self.what} {version} is there beside {self.lockable}: {'; '.join(sentences)}"


def compare(index: Index, locks: Mapping[str, ReleaseLock], workspace: Workspace) -> list[Row]:
    """Every release, locked or not, against the index; minors first, oldest first."""
    return [*_minors(index, locks), *_projects(index, locks, workspace)]


@dataclass(frozen=True)
class State:
    """How complete a CTK release is on the index.

    Attributes:
        minor: E.g. ``13.4``.
        version: The manifest's.
        published: What the index has of it; None when its manifest cannot be read.
        problem: Why not.
        withdrawn: Files of the release lock that are yanked or no longer on the index.
        listed: Entries of the written list that say the release lacks what its manifest names.
    """

    minor: str
    version: str
    published: Published | None
    problem: str
    withdrawn: tuple[str, ...]
    listed: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        if self.published is None:
            return f"cuda-{self.minor}", self.version, "?", "its manifest cannot be read"
        missing = [str(part) for part in self.published.parts if part.missing]
        count = sum(len(part.missing) for part in self.published.parts)
        have = f"{self.published.wanted - count} of {self.published.wanted}"
        return f"cuda-{self.minor}", self.version, have, "\n".join(missing) or "complete"


def states(
    index: Index, locks: Mapping[str, ReleaseLock], unpublished: Sequence[Unpublished], minors: Collection[str] = ()
) -> list[State]:
    """How complete CTK releases are, oldest first.

    Args:
        index: Asked for files and metadata.
        locks: The release locks.
        unpublished: The written list.
        minors: Which; by default the locked ones and those that are newer than the oldest of these.

    Raises:
        UnknownName: For a minor that the index does not have.
    """
    locked = {lock.minor: lock for lock in locks.values() if lock.is_ctk}
    oldest = min((Version(minor) for minor in locked), default=Version("0"))
    chosen = minors or [minor for minor in published_minors(index) if Version(minor) >= oldest]
    return [_state(index, minor, locked.get(minor), unpublished) for minor in sorted(chosen, key=Version)]


def _state(index: Index, minor: str, lock: ReleaseLock | None, unpublished: Sequence[Unpublished]) -> State:
    version, file = manifest_of(index, minor)
    problem, release = "", None
    try:
        release = published(index, minor)
    except LockError as error:
        problem = error.cause
    pins = manifest.pins(index.metadata(file))
    listed = tuple(entry.name for entry in unpublished if entry.is_in(minor, pins))
    return State(minor, str(version), release, problem, tuple(_withdrawn(index, lock)) if lock else (), listed)


def _withdrawn(index: Index, lock: ReleaseLock) -> Iterator[str]:
    for artefact in {a.file: a for a in lock.artefacts}.values():
        try:
            offers = [f for f in index.files(artefact.distribution) if f.file == artefact.file]
        except NotPublished:
            offers = []
        if not offers:
            yield f"{artefact.file} is no longer on the index"
        elif all(f.yanked for f in offers):
            yield f"{artefact.file} is yanked"


def _minors(index: Index, locks: Mapping[str, ReleaseLock]) -> Iterator[Row]:
    locked = {lock.minor: Version(lock.manifest.version) for lock in locks.values() if lock.manifest}
    found = published_minors(index)
    gone = sorted(set(locked) - set(found), key=Version)
    if gone:
        raise NotPublished(
            f"the package index has no {MANIFEST} of {', '.join(gone)} any more",
            "a mirror may have to fetch them again",
        )
    latest = max(locked.values(), default=Version("0"))
    for minor, version in found.items():
        have = locked.get(minor)
        newer = version > (have or latest)
        yield Row(f"cuda-{minor}", MANIFEST, str(have) if have else None, str(version), str(version), newer)


def _projects(index: Index, locks: Mapping[str, ReleaseLock], workspace: Workspace) -> Iterator[Row]:
    tags = python_tags(workspace.build_config)
    for lock in locks.values():
        if lock.is_ctk:
            continue
        for name, chosen in projects.choose(index, projects.Goal(lock.major, tags)).items():
            have = lock.components[name].version if name in lock.components else None
            locked = {Version(c.version) for c in lock.components.values() if c.name == name}
            lockable, *_ = chosen.files
            older = {str(version): why for version, why in chosen.older.items()}
            newer = have is None or lockable > Version(have) or not locked >= chosen.older.keys()
            yield Row(lock.name, name, have, str(lockable), str(chosen.newest), newer, chosen.held_back, older)
