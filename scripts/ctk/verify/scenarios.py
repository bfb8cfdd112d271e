"""The matrix of drivers, GPUs, platforms, Pythons, requests, pins: a sample, or a covering set."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from math import prod
from typing import Any

from ctk.core.errors import BadValue, LockError, refuse_unknown_names
from ctk.core.platforms import PLATFORMS
from ctk.core.versions import python_name
from ctk.lock.model import ReleaseLock, variant_keys
from ctk.solve.machine import impossible, python_specs
from ctk.solve.solve import Scenario
from ctk.verify.oracle import REQUESTS, OracleFacts, Question, Toolkit, version

Machine = tuple[str | None, str | None]
"""Driver and GPU; no client detects a GPU without a driver."""

# The last driver before the oldest CUDA major of this channel.
_TOO_OLD = "11.8"
# Since CUDA 13, the wheel nvcc has the whole compiler. Before, it has ptxas and headers.
_WHOLE_COMPILER = 13


def facts(locks: Iterable[ReleaseLock]) -> OracleFacts:
    """The oracle's facts, read from the release locks.

    Raises:
        LockError: There is no lock, or a lock was not measured.
    """
    toolkits, python_sets = [], {}
    locks = list(locks)
    projects = {
        lock.major: _codes(lock) for lock in locks if not (lock.is_ctk or lock.is_library_set)
    }
    for lock in (lock for lock in locks if not lock.is_library_set):
        published: dict[str, frozenset[str]] = {}
        for component in (
            lock.components.values()
        ):  # for a project in several versions, the targets of all versions
            targets = {
                target for target, artefact in component.artefacts.items() if artefact is not None
            }
            published[component.name] = published.get(component.name, frozenset()) | targets
        if not lock.is_ctk:
            python_sets[lock.major] = published
        else:
            if int(lock.major) >= _WHOLE_COMPILER:
                published["compiler"] = published.get("nvcc", frozenset())
            gpus = tuple(_in_order(lock.require_facts().gpu_architectures))
            toolkits.append(
                Toolkit(lock.minor, gpus, published, projects.get(lock.major, {}) | _codes(lock))
            )
    if not toolkits:
        raise LockError(
            "there is no release lock", "run `ctk release add 13.4 --write`, or any other release"
        )
    return OracleFacts(tuple(toolkits), python_sets)


def _codes(lock: ReleaseLock) -> dict[str, dict[str, str]]:
    """Component -> subdir -> the GPUs that it has code for."""
    keys = {subdir: variant_keys(lock, subdir) for subdir in PLATFORMS}
    return {name: _code(f"{name.replace('-', '_')}_gpus", keys) for name in lock.gpu_code}


def _code(key: str, keys: Mapping[str, Mapping[str, list[str]]]) -> dict[str, str]:
    # Of several versions, the first is the newest.
    found = {subdir: own[key][0] for subdir, own in keys.items() if key in own}
    return {subdir: gpus for subdir, gpus in found.items() if gpus}


@dataclass(frozen=True)
class Matrix:
    """All values of each dimension; its members are all combinations that can exist."""

    drivers: tuple[str | None, ...]  # None, then CUDA versions, oldest first
    # None, then compute capabilities, oldest first; the last is newer than every toolkit.
    gpus: tuple[str | None, ...]
    subdirs: tuple[str, ...]
    pythons: tuple[str | None, ...]  # None, then 3.10, 3.14t ...
    requests: tuple[str, ...]
    # None, then CUDA majors, then minors, with a minor that is not locked.
    pins: tuple[str | None, ...]
    facts: OracleFacts

    @property
    def machines(self) -> list[Machine]:
        """Every driver with every GPU that it can run, and the machine without a driver."""
        return self._possible(product(self.drivers, self.gpus))

    def _possible(self, machines: Iterable[Machine]) -> list[Machine]:
        return [(d, gpu) for d, gpu in machines if (d or not gpu) and not impossible(d, gpu)]

    @property
    def _axes(self) -> list[Sequence[Any]]:
        return [self.subdirs, self.requests, self.pins, self.pythons, self.machines]

    def __len__(self) -> int:
        return prod(len(axis) for axis in self._axes)

    def on(self, subdirs: Sequence[str]) -> Matrix:
        """The part of the matrix for these platforms."""
        return replace(self, subdirs=tuple(s for s in self.subdirs if s in subdirs))

    def sample(self, size: int, seed: int) -> list[Question]:
        """So many different members, in the order of the matrix.

        The same seed gives the same members.
        """
        if not 0 < size <= len(self):
            raise BadValue(
                f"a sample of {size} is not possible",
                f"there are {len(self)} scenarios to choose from",
            )
        axes, chosen = self._axes, []
        for index in sorted(random.Random(seed).sample(range(len(self)), size)):
            values: list[Any] = []
            for axis in reversed(axes):
                index, place = divmod(index, len(axis))
                values.insert(0, axis[place])
            chosen.append(_question(*values))
        return chosen

    def covering(self) -> list[Question]:
        """The members that ``ctk verify`` solves by default.

        All values of a dimension if it can change the answer. Without a pin and with any Python,
        every machine. With a pin, every driver with a GPU of each kind that toolkits treat
        differently. With a Python, the machines at the edges; and each pin on two machines.
        """
        kinds, drivers = self._gpu_kinds, [d for d in self.drivers if d]
        pinned: list[Machine] = [(None, None)]
        for number, driver in enumerate(drivers):
            of_kinds = (self._possible((driver, gpu) for gpu in kind) for kind in kinds)
            pinned += [(driver, None), *(there[-(number % 2)] for there in of_kinds if there)]
        # The oldest driver, the oldest and newest of each CUDA major, and the driver that is newer
        # than all toolkits.
        majors = [list(same) for _, same in groupby(drivers, lambda d: d.split(".")[0])]
        at_edge = _in_order(end for same in majors for end in (same[0], same[-1]))
        edges = [
            (None, None),
            *self._possible(product(at_edge, (None, *(kind[0] for kind in kinds[:2])))),
        ]
        pins, pythons = (
            [pin for pin in self.pins if pin],
            [python for python in self.pythons if python],
        )
        anyone = [None] if None in self.pythons else []
        parts: list[tuple[Sequence[str | None], Sequence[str | None], Sequence[Machine]]] = [
            ([None], anyone, self.machines),
            (pins, anyone, pinned),
            ([None], pythons, edges),
            (pins, pythons, [edges[0], edges[-1]]),
        ]
        chosen = (
            _question(*values)
            for part in parts
            for values in product(self.subdirs, self.requests, *part)
        )
        return list(dict.fromkeys(chosen))

    @property
    def _gpu_kinds(self) -> list[list[str]]:
        """Groups of GPUs that every toolkit treats the same.

        GPUs newer than all toolkits are a group too.
        """
        kinds: dict[tuple[tuple[bool, bool], ...], list[str]] = {}
        for gpu in filter(None, self.gpus):
            known = (t.architectures for t in self.facts.toolkits)
            seen = tuple((gpu in gpus, version(gpus[0]) <= version(gpu)) for gpus in known)
            kinds.setdefault(seen, []).append(gpu)
        return list(kinds.values())


def matrix(
    facts: OracleFacts,
    tags: Iterable[str],
    subdirs: Iterable[str] = (),
    requests: Iterable[str] = (),
    any_python: bool = True,
) -> Matrix:
    """The matrix for the facts and for Pythons as wheel tags (``cp314t``).

    For all platforms and requests if empty.
    """
    refuse_unknown_names("platform", subdirs, PLATFORMS)
    refuse_unknown_names("request", requests, REQUESTS)
    minors = _in_order(t.minor for t in facts.toolkits)
    gpus = _in_order(gpu for t in facts.toolkits for gpu in t.architectures)
    return Matrix(
        drivers=(None, *_drivers(minors)),
        gpus=(None, *gpus, f"{version(gpus[-1])[0] + 1}.0"),
        subdirs=tuple(s for s in PLATFORMS if not subdirs or s in set(subdirs)),
        pythons=(*((None,) if any_python else ()), *map(python_name, tags)),
        requests=tuple(r for r in REQUESTS if not requests or r in set(requests)),
        pins=(None, *_pins(minors)),
        facts=facts,
    )


def scenario(question: Question) -> Scenario:
    """The scenario of a question, for a solver."""
    pin = (f"cuda-version={question.pin}",) if question.pin else ()
    python = python_specs(question.python) if question.python else ()
    return Scenario(
        (*pin, *question.request.split(), *python), question.subdir, question.driver, question.arch
    )


def command(question: Question) -> str:
    """The command line for a question, to try it by hand."""
    words = ["ctk solve"]
    if question.pin:
        words.append(f"cuda-version={question.pin}")
    words += map(shlex.quote, question.request.split())
    if question.python:
        words.append(f"--python {question.python}")
    words.append(f"--platform {question.subdir} --driver {question.driver or 'none'}")
    if question.arch:
        words.append(f"--arch {question.arch}")
    return " ".join(words)


def _question(
    subdir: str, request: str, pin: str | None, python: str | None, machine: Machine
) -> Question:
    return Question(request, subdir, *machine, python, pin)


def _drivers(minors: list[str]) -> list[str]:
    """Drivers: one too old for every toolkit, all minors of locked majors, one newer than all."""
    newest = {major: minor for major, minor in map(version, minors)}  # noqa: C416
    newest[max(newest)] += 1
    return [
        _TOO_OLD,
        *(f"{major}.{minor}" for major in newest for minor in range(newest[major] + 1)),
    ]


def _pins(minors: list[str]) -> list[str]:
    """All majors, all locked minors, and the oldest minor between them that is not locked."""
    majors = list(dict.fromkeys(m.split(".")[0] for m in minors))
    between = (f"{major}.{minor}" for major in majors for minor in range(100))
    missing = next(m for m in between if m not in minors and version(m) > version(minors[0]))
    return [*majors, *minors, missing]


def _in_order(values: Iterable[str]) -> list[str]:
    """Different versions, oldest first."""
    return sorted(set(values), key=version)
