"""For the review of new locks: the locks compared with the index, and the changes of files.

Generated files are first shown as a difference, and written on request.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from ctk.core.checkout import Workspace, settings
from ctk.core.console import listing
from ctk.core.disk import disk_errors
from ctk.core.errors import LockError, NotPublished, problems
from ctk.core.files import make_folder, replace_file
from ctk.index.index import Index
from ctk.lock.components import MANIFEST
from ctk.lock.model import ReleaseLock, dump, parse_lock, variant_config
from ctk.plan import conda_forge
from ctk.plan.conda_forge import CONDA_FORGE, RAPIDS
from ctk.plan.plan import Request, python_tags, small
from ctk.release import added, choose
from ctk.release.release import PublishedRelease, manifest_of, published, published_minors

_AT_ONCE = 4  # releases that the index is asked about
_STEP = "nothing was written; look at those files on the index, and ask whoever runs it"


# ---- the toolkits that conda-forge compiles with

# Widely used, rebuilt soon after conda-forge's compiler moves, and with a run-export of it.
_COMPILED = ("libtorch", "onnxruntime", "llama.cpp")


def compiled_with(channel: str | Path) -> list[str]:
    """The newest CTK minor of each CUDA major that packages of a channel are compiled with.

    A channel such as conda-forge.

    It is the lower bound of cuda-version in the newest version of some packages for linux-64.

    Raises:
        ChannelMissing, IndexUnavailable: The channel cannot be read.
    """
    from ctk.solve.solve import Catalogue

    catalogue, found = Catalogue([channel], "linux-64"), set()
    for records in map(catalogue.records, _COMPILED):
        needs = {need for r in records if r.version == records[0].version for need in r.depends}
        found |= {
            Version(m[1]) for need in needs if (m := re.match(r"cuda-version >=(\d+\.\d+)", need))
        }
    return [str(minor) for minor in sorted({v.major: v for v in sorted(found)}.values())]


@dataclass(frozen=True)
class CompilesWith:
    """The minors that a channel is known to compile with, beside the settings of a checkout.

    Attributes:
        channel: ``conda-forge`` or ``rapidsai``.
        minors: The minors, oldest first.
        source: Where that was read.
        read: The day.
        table: The table of ``pyproject.toml`` for the channel.
        stated: The minors of that table.
        lacking: The minors that the default set lacks.
    """

    channel: str
    minors: tuple[str, ...]
    source: str
    read: str
    table: str
    stated: tuple[str, ...]
    lacking: tuple[str, ...]

    @property
    def has_moved(self) -> bool:
        return bool(self.lacking) or self.stated != self.minors

    def __str__(self) -> str:
        return f"{self.channel} with {listing(self.minors)} (read {self.read})"


def compiles_with(workspace: Workspace) -> list[CompilesWith]:
    """What is known of the channels that others' files use, without asking anyone."""
    stated = settings(workspace.root)
    tables = {
        CONDA_FORGE: ("[tool.ctk.conda_forge]", stated.conda_forge.minors),
        RAPIDS: ("[tool.ctk.rapids]", stated.rapids.minors),
    }
    default = small(Request(), workspace).releases
    found = []
    for channel, known in conda_forge.read().compiled.items():
        table, minors = tables[channel]
        if not minors:  # the settings say nothing of it
            continue
        lacking = tuple(minor for minor in known.minors if default and minor not in default)
        day = known.read.isoformat()
        found.append(
            CompilesWith(channel, known.minors, known.source, day, table, tuple(minors), lacking)
        )
    return found


# ---- the locks compared with the index


@dataclass(frozen=True)
class LockedVersion:
    """A distribution of a release, in the lock and on the index.

    Attributes:
        release: ``cuda-13.4``, ``python-13`` or ``libraries-13``.
        what: The distribution.
        lockable: The version that `ctk release add` would lock now.
        newest: The newest final version on the index.
        held_back: Why `ctk release add` would not lock the newest version.
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
        elif self.held_back:
            verdict = "held back"
        else:
            verdict = "up to date" if self.locked else "not locked"
        return self.release, self.what, self.locked or "-", self.lockable, self.newest, verdict

    @property
    def reasons(self) -> Iterator[str]:
        """Why the newest version is held back, and why each older is locked, a sentence each."""
        if self.held_back:
            yield f"{self.release}: {self.what} {self.newest} is held back: {self.held_back}"
        for version, sentences in self.older.items():
            yield (
                f"{self.release}: {self.what} {version} is locked as well as {self.lockable}:"
                f" {'; '.join(sentences)}"
            )


def compare(
    index: Index,
    locks: Mapping[str, ReleaseLock],
    workspace: Workspace,
    named: Collection[str] = (),
) -> list[LockedVersion]:
    """Compares releases, locked or not, with the index; minors first, oldest first.

    By default all, else those with the names of locks. NotPublished if a locked minor is gone.
    """
    rows = [*_minors(index, locks), *_projects(index, locks, workspace, named or locks)]
    return [row for row in rows if not named or row.release in named]


def _minors(index: Index, locks: Mapping[str, ReleaseLock]) -> Iterator[LockedVersion]:
    locked = {
        lock.minor: Version(lock.manifest.version) for lock in locks.values() if lock.manifest
    }
    minors = published_minors(index)
    if gone := sorted(set(locked) - set(minors), key=Version):
        raise NotPublished(
            f"the package index no longer has {MANIFEST} of {', '.join(gone)}",
            "a mirror may have to fetch them again",
        )
    latest = max(locked.values(), default=Version("0"))
    for minor, version in minors.items():
        have = locked.get(minor)
        newer = version > (have or latest)
        yield LockedVersion(
            f"cuda-{minor}",
            MANIFEST,
            str(have) if have else None,
            str(version),
            str(version),
            newer,
        )


def _projects(
    index: Index,
    locks: Mapping[str, ReleaseLock],
    workspace: Workspace,
    named: Collection[str],
) -> Iterator[LockedVersion]:
    tags = python_tags(workspace.build_config)
    wanted = [lock for lock in locks.values() if lock.name in named and not lock.is_ctk]
    # Most of the time passes until the index answers hundreds of small requests.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(
            pool.map(lambda lock: choose.choose(index, lock.name, locks.values(), tags), wanted)
        )
    for lock, projects in zip(wanted, found, strict=True):
        for name, chosen in projects.items():
            have = lock.components[name].version if name in lock.components else None
            locked = {Version(c.version) for c in lock.components.values() if c.name == name}
            # None if no locked toolkit is compatible with the project.
            lockable = next(iter(chosen.files), None)
            older = {str(version): why for version, why in chosen.older.items()}
            older |= added.reasons(lock, name)
            is_ahead = lockable is not None and (have is None or lockable > Version(have))
            newer = is_ahead or not locked >= chosen.older.keys()
            shown, newest = str(lockable or "-"), str(chosen.newest)
            yield LockedVersion(
                lock.name, name, have, shown, newest, newer, chosen.held_back, older
            )


@dataclass(frozen=True)
class Completeness:
    """How complete a CTK release is on the index.

    Attributes:
        published: The release on the index; None if its manifest cannot be read, for the reason in
            `problem`.
    """

    minor: str
    version: str
    published: PublishedRelease | None
    problem: str

    @property
    def is_whole(self) -> bool:
        """Whether all of it is understood, and nothing is missing."""
        return self.published is not None and not self.published.missing

    @property
    def cells(self) -> tuple[str, ...]:
        if self.published is None:
            return f"cuda-{self.minor}", self.version, "?", "its manifest cannot be read"
        missing = [str(part) for part in self.published.parts if part.missing]
        count = sum(len(part.missing) for part in self.published.parts)
        have = f"{self.published.wanted - count} of {self.published.wanted}"
        return f"cuda-{self.minor}", self.version, have, "\n".join(missing) or "complete"


def completeness(
    index: Index, locks: Mapping[str, ReleaseLock], minors: Collection[str] = ()
) -> list[Completeness]:
    """How complete CTK releases are, oldest first.

    By default the oldest locked release and all newer ones.
    """
    locked = [lock.minor for lock in locks.values() if lock.is_ctk]
    oldest = min(map(Version, locked), default=Version("0"))
    chosen = minors or [minor for minor in published_minors(index) if Version(minor) >= oldest]
    return [_completeness(index, minor, locked) for minor in sorted(chosen, key=Version)]


def _completeness(index: Index, minor: str, locked: Sequence[str]) -> Completeness:
    version, _ = manifest_of(index, minor, locked)
    problem, release = "", None
    try:
        release = published(index, minor, locked)
    except LockError as error:
        problem = error.cause
    return Completeness(minor, str(version), release, problem)


# ---- the difference, and writing it


@dataclass(frozen=True)
class FileChange:
    """A file as it is, None without one, and as it would be."""

    path: Path
    old: str | None
    new: str

    @classmethod
    def of(cls, path: Path, new: str) -> FileChange:
        """The change that gives a file this text."""
        return cls(path, path.read_text("utf-8", "replace") if path.exists() else None, new)

    @property
    def is_needed(self) -> bool:
        return self.old != self.new

    def diff(self, root: Path) -> Iterator[str]:
        """A unified diff, line by line, with paths relative to ``root``."""
        name = self.path.relative_to(root).as_posix()
        old = f"a/{name}" if self.old is not None else "/dev/null"
        return difflib.unified_diff(
            (self.old or "").splitlines(), self.new.splitlines(), old, f"b/{name}", lineterm=""
        )


def changes(folder: Path, lock: ReleaseLock) -> list[FileChange]:
    """The changes that bring a release into ``folder``.

    LockError if the index states values that no lock may have.
    """
    halves = {".lock": dump(lock), ".yaml": variant_config(lock)}
    _, wrong = parse_lock(halves[".lock"], lock.name)
    if wrong:
        raise problems(LockError, f"what the index states for {lock.name}", wrong, _STEP)
    paths = {folder / f"{lock.name}{suffix}": text for suffix, text in halves.items()}
    return [FileChange.of(path, text) for path, text in paths.items()]


def predecessor(locks: Mapping[str, ReleaseLock], lock: ReleaseLock) -> ReleaseLock | None:
    """The lock in place that a new lock is compared with: of its name, else the newest of its kind.

    Among those of its kind, the newest of its major comes first.
    """
    kind = lock.name.partition("-")[0]
    alike = [other for other in locks.values() if other.name.partition("-")[0] == kind]
    of_major = [other for other in alike if other.major == lock.major]
    return locks.get(lock.name) or next(reversed(of_major or alike), None)


def write(needed: Sequence[FileChange]) -> None:
    """Writes every change.

    A release whose halves disagree is an error that names the command to run again.
    """
    for change in needed:
        with disk_errors(change.path.parent):
            make_folder(change.path.parent)
            replace_file(change.path, change.new.encode())
