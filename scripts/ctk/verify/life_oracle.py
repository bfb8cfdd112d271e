"""What a later command may not do to an environment, unless it was asked for.

It knows nothing of solvers. An environment whose toolkit is native stays native, if a native
toolkit for the request exists on the machine. CUDA builds stay CUDA builds. What was asked for
stays. nvJitLink has the minor of the toolkit, or one that a package or the request demands. A
command that has nothing to do with CUDA leaves the toolkit alone. No two packages have the same
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctk.verify.oracle import minors_of, version


class Harm(StrEnum):
    """What a command did unasked."""

    COMPAT = "native became compat"
    CPU = "CUDA became CPU"
    GONE = "a package that was asked for is gone"
    NVJITLINK = "nvJitLink is not the toolkit's"
    MOVED = "the toolkit changed"
    TWICE = "two packages have the same files"
    REFUSED = "refused, though there is a solution"


@dataclass(frozen=True)
class LifeFacts:
    """Facts about the channels."""

    toolkits: tuple[str, ...]  # minors
    # Package -> the minors that its CUDA builds were compiled with; one that is not here goes with
    # every toolkit.
    compiled_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """An environment."""

    builds: Mapping[str, tuple[str, str]]  # name -> version and build
    asked: tuple[str, ...]  # specs
    floors: tuple[str, ...] = ()  # dependencies on libnvjitlink of what is installed
    left: frozenset[str] = frozenset()
    """Packages whose ``-files`` package is here, though they do not depend on it."""

    @property
    def toolkit(self) -> str:
        return self.builds.get("cuda-version", ("", ""))[0]

    @property
    def fit(self) -> str:
        """``native`` or ``compat``; "" without cuda-version, or with conda-forge's."""
        kind = self.builds.get("cuda-version", ("", ""))[1].split("_")[0]
        return kind if kind in ("native", "compat") else ""

    def is_cuda(self, name: str) -> bool | None:
        """Whether a package is a CUDA build.

        None if it is not there, or has one kind of builds only.
        """
        build = self.builds.get(name, ("", ""))[1]
        return "cuda" in build if re.search("cuda|cpu", build) else None


@dataclass(frozen=True)
class Change:
    """A command and what it did."""

    before: State
    after: State | None  # None: refused
    kind: str
    specs: tuple[str, ...]
    driver: str | None


_ASKS = ("cuda-gpu", "cuda-native")
"""The packages that ask for CUDA builds."""
_CUDA_THINGS = re.compile(r"cuda|numba|cupy|jax|torch|cudf|nvjitlink")


def harms(facts: LifeFacts, change: Change) -> Iterator[Harm]:
    """What a command did unasked."""
    if change.after is None:
        if _native(facts, change):
            yield Harm.REFUSED
        return
    before, after = change.before, change.after
    if before.fit == "native" and after.fit != "native" and not _compat_is_asked(facts, change):
        yield Harm.COMPAT
    if any(_lost_cuda(change, name) for name in after.builds):
        yield Harm.CPU
    if any(name not in after.builds for name in _still_asked(change)):
        yield Harm.GONE
    if not _nvjitlink_belongs(change):
        yield Harm.NVJITLINK
    if before.toolkit != after.toolkit and not _may_move(change):
        yield Harm.MOVED
    if after.left:
        yield Harm.TWICE


def _name(spec: str) -> str:
    return re.split(r"[ =<>!~\[]", spec, maxsplit=1)[0]


def _still_asked(change: Change) -> set[str]:
    names = {_name(spec) for spec in change.before.asked}
    own = {_name(spec) for spec in change.specs}
    return names - own if change.kind == "remove" else names | own


def _versions(specs: Iterable[str]) -> list[str]:
    """The versions of cuda-version that specs name."""
    pins = [spec for spec in specs if _name(spec) == "cuda-version"]
    found = [re.search(r"=(\d+(?:\.\d+)?)", spec) for spec in pins]
    return [match[1] for match in found if match]


def _pins(change: Change) -> list[str]:
    """The versions of cuda-version that hold: the command's, else those asked for earlier."""
    return _versions(change.specs) or _versions(change.before.asked)


def _native(facts: LifeFacts, change: Change) -> list[str]:
    """The native toolkits of the machine with which everything goes that was or is asked for."""
    if change.driver is None:
        return []
    loads = [t for t in facts.toolkits if version(t) <= version(change.driver)]
    for pin in _pins(change):
        loads = [t for t in loads if version(t)[: len(version(pin))] == version(pin)]
    for name in _still_asked(change):
        minors = facts.compiled_with.get(name)
        if minors:
            loads = [t for t in loads if any(_goes_with(t, minor) for minor in minors)]
    return loads


def _goes_with(toolkit: str, compiled_with: str) -> bool:
    """Whether code for a minor runs with a toolkit: of its major, and as new."""
    same_major = version(toolkit)[0] == version(compiled_with)[0]
    return same_major and version(toolkit) >= version(compiled_with)


def _compat_is_asked(facts: LifeFacts, change: Change) -> bool:
    """Whether the command names a toolkit or CUDA builds that only compat serves here."""
    if _native(facts, change):
        return False
    if _versions(change.specs):
        return True
    if change.driver is None:
        return False
    return bool(_pins(change)) or any(name in facts.compiled_with for name in _still_asked(change))


def _lost_cuda(change: Change, name: str) -> bool:
    """Whether a package is a CPU build in place of a CUDA build that was there or asked for."""
    if change.after is None or change.after.is_cuda(name) is not False:
        return False
    if any(_name(spec) == name and "cpu" in spec for spec in change.specs):
        return False
    was = change.before.is_cuda(name)
    if was is not None:
        return was
    specs = [*change.before.asked, *change.specs]
    return any(_name(spec) in _ASKS for spec in specs)


def _nvjitlink_belongs(change: Change) -> bool:
    """Whether nvJitLink has a minor of the toolkit, or somebody asks for what it has."""
    assert change.after is not None
    after = change.after
    if "libnvjitlink" not in after.builds or not after.toolkit:
        return True
    minor = ".".join(after.builds["libnvjitlink"][0].split(".")[:2])
    allowed = minors_of("libnvjitlink", after.toolkit, for_python="cuda-bindings" in after.builds)
    if minor in allowed:
        return True
    asked = [*after.asked, *change.specs]
    specs = [spec for spec in asked if _name(spec) == "libnvjitlink"]
    floors: list[str] = []
    for spec in [*specs, *after.floors]:
        floor = re.search(r">=(\d+\.\d+)", spec)
        if floor:
            floors.append(floor[1])
    needed = max(map(version, floors), default=())
    return needed > version(allowed[0])


def _may_move(change: Change) -> bool:
    """Whether the toolkit may be another one than before."""
    if change.kind == "remove":
        return False
    if change.kind == "update --all":
        return True
    loaded = change.driver is not None and version(change.before.toolkit or "0") <= version(
        change.driver
    )
    named = any(_CUDA_THINGS.search(spec) for spec in change.specs)
    return named or (change.driver is not None and not loaded)
