"""Release locks: which artefacts a release is made of, and what its binaries say of themselves.

A release is a pair of files that are generated together. ``<name>.lock`` is what fetch reads: for each component
and target the artefact. ``<name>.yaml`` is what recipes read: a standard variant config with one version for each
component, and the facts. Both are canonical: loading and dumping gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from ctk.core import upload_time
from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, UnknownName, problems

SCHEMA = 2
BASE = "base"
"""The lock of the base channel, which is beside its recipes."""
UNDECLARED = "NOASSERTION"
"""The licence of what declares none; SPDX's word for it."""
DOWNSTREAM = "downstream"
"""The lock of what somebody else builds against the channel: sources, and build tools that the base channel lacks."""
_STEP = "run `ctk release add {0} --write` to write it anew"


class Part(Protocol):
    """What names a component and its version."""

    @property
    def component(self) -> str: ...

    @property
    def version(self) -> str: ...


@dataclass(frozen=True)
class Artefact:
    """One published file.

    Attributes:
        component: Our name of what it belongs to, e.g. ``cudart``.
        distribution: Its name on the package index, e.g. ``nvidia-cuda-runtime``.
        version: Its version there.
        target: What it is for: ``<subdir>``, ``<subdir>-<python tag>`` or ``noarch``; stem of what recipes read.
        file: File name on the index.
        sha256: 64 hexadecimal digits.
        size: Bytes.
        uploaded: When its publisher uploaded it, in seconds since 1970 (UTC); see `ctk.core.upload_time`.
    """

    component: str
    distribution: str
    version: str
    target: str
    file: str
    sha256: str
    size: int
    uploaded: int = upload_time.EARLIEST


@dataclass(frozen=True)
class Component:
    """A part of a release with a version of its own.

    Attributes:
        name: Ours, e.g. ``cudart``.
        distribution: Its name on the package index.
        version: Its version there.
        artefacts: By target; one without an artefact maps to None.
        license: As its artefacts declare it, e.g. ``Apache-2.0``.
        license_texts: sha256 of each text that its artefacts have as their licence; see `ctk.lock.licences`.
    """

    name: str
    distribution: str
    version: str
    artefacts: Mapping[str, Artefact | None]
    license: str = UNDECLARED
    license_texts: tuple[str, ...] = ()

    @property
    def variant_key(self) -> str:
        """The key under which recipes find the version."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Facts:
    """What the binaries of a CTK release say of themselves.

    Attributes:
        gpu_architectures: Compute capabilities that NVRTC can compile for, lowest first, e.g. ``7.5``.
        ptx_isa: PTX ISA version that NVRTC writes, e.g. ``9.4``.
        glibc: Subdir -> component -> newest glibc symbol version that its ELF files need.
    """

    gpu_architectures: tuple[str, ...]
    ptx_isa: str
    glibc: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class ReleaseLock:
    """A whole release lock.

    Attributes:
        release: ``13.4.3`` for a CTK release, else the name itself: ``python-13``, ``base``.
        manifest: The artefact that defines a CTK release; None for the other kinds.
        components: By name, sorted. An older version of a Python project, which another one of the set requires beside
            the newest, is there as ``<name>-<version>``.
        facts: None until measured, and for the other kinds.
        missing: Component -> where it lacks a wheel that the manifest asks for, a subdir or an operating system
            (``linux``, ``win``). Empty but for a partial release.
        measured: While ``facts`` is None, the glibc that unchanged files need: subdir -> component -> version, or None.
        since: When the first manifest of this CTK minor was uploaded, in seconds since 1970. It is the time of packages
            that hold metadata only: a new patch leaves those as they are.
    """

    release: str
    manifest: Artefact | None
    components: Mapping[str, Component]
    facts: Facts | None = None
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    since: int = upload_time.EARLIEST

    @property
    def is_ctk(self) -> bool:
        return self.release[:1].isdigit()

    @property
    def name(self) -> str:
        """Stem of the pair of files."""
        return f"cuda-{self.minor}" if self.is_ctk else self.release

    @property
    def minor(self) -> str:
        """E.g. ``13.4``; empty for what is not a CTK release."""
        return ".".join(self.release.split(".")[:2]) if self.is_ctk else ""

    @property
    def major(self) -> str:
        """E.g. ``13``; empty for the base channel."""
        return self.release.split(".")[0] if self.is_ctk else self.release.partition("-")[2]

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Every artefact of every component, in the order of the file. The manifest is not one of them."""
        return tuple(a for c in self.components.values() for a in c.artefacts.values() if a is not None)

    def component_of(self, part: Part) -> Component | None:
        """The component that an artefact, or a source that a recipe reads, is of."""
        found = (c for c in self.components.values() if (c.name, c.version) == (part.component, part.version))
        return next(found, None)


def load(path: Path) -> ReleaseLock:
    """Read and check a release: the ``.lock`` at ``path`` and the ``.yaml`` beside it.

    Raises:
        LockError: With every problem of both files, each with its component and line.
    """
    from ctk.core import document
    from ctk.lock import schema as lock_schema
    from ctk.lock import text as lock_text

    path = path.with_suffix(".lock")
    lock, found = _parsed(document.read(path), path.stem)
    found = [f"{path.name} {line}" for line in found]
    if lock is not None:
        pair = path.with_suffix(".yaml")
        found += [
            f"{pair.name} {line}"
            for line in lock_schema.disagreements(document.read(pair), lock_text.variant_keys(lock))
        ]
    if found or lock is None:
        raise problems(LockError, path.stem, found, _STEP.format(path.stem.removeprefix("cuda-")))
    return lock


@cache
def _parsed(text: str, stem: str) -> tuple[ReleaseLock | None, list[str]]:
    """A lock file is parsed once per process, which takes a tenth of a second."""
    from ctk.lock import schema as lock_schema

    return lock_schema.parse_lock(text, stem)


def path_of(workspace: Workspace, name: str) -> Path:
    """Where the release ``cuda-13.4``, ``python-13`` or ``base`` has its lock."""
    return (workspace.base_recipes if name == BASE else workspace.variants) / f"{name}.lock"


def release_locks(workspace: Workspace) -> dict[str, ReleaseLock]:
    """Every release of the checkout by name: CTK releases by version, then the Python sets.

    Raises:
        LockError: For the first release that is not valid.
    """
    return {lock.name: lock for lock in in_order(load(path) for path in workspace.variants.glob("*.lock"))}


def find_release(locks: Mapping[str, ReleaseLock], name: str) -> ReleaseLock:
    """The lock that ``name`` means: ``13.4``, ``13.4.3``, ``cuda-13.4`` or ``python-13``.

    Raises:
        UnknownName: Naming the nearest valid ones.
    """
    for lock in locks.values():
        if name in (lock.name, lock.minor, lock.release):
            return lock
    raise UnknownName.of("release", name, [lock.minor or lock.name for lock in locks.values()])


def in_order(locks: Iterable[ReleaseLock]) -> list[ReleaseLock]:
    """CTK releases by version, then the others."""
    return sorted(locks, key=_order)


def _order(lock: ReleaseLock) -> tuple[bool, Version]:
    return not lock.is_ctk, Version(lock.release if lock.is_ctk else lock.major or "0")
