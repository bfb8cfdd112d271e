"""Models of what clients do to an installed environment: jobs for libsolv, or for rattler.

Sources: create_install_request, create_update_request, build_remove_request and python_pin of
mamba-org/mamba 2.8 (libmamba/src/api and libmamba/src/core/pinning.cpp);
`_specs_to_request_jobs_add`, `_parse_problems` and `_solving_loop` of conda/conda-libmamba-solver;
`_collect_specs_main`, `_collect_specs_for_remove` and `_maybe_raise_for_problems` of
conda-rattler-solver 0.2; `install` of conda/conda (conda/cli/install.py). The classic solver of
conda has no model.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import rattler
from rattler import ChannelPriority, MatchSpec, RepoDataRecord, Subdir
from rattler.exceptions import SolverError

from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH
from ctk.core.process import run
from ctk.package.records import spec_name
from ctk.solve.solve import Scenario, channel_url, parse_spec
from ctk.verify.libsolv import ChannelPool, Decisions, Job
from ctk.verify.life import (
    INSTALL,
    REMOVE,
    UPDATE,
    UPDATE_ALL,
    Command,
    Environment,
    Outcome,
    Refused,
    World,
)

_MOST_ATTEMPTS = 10
"""How often both of conda's solvers try, each time with the conflicts of the last attempt released.
"""
_MOST_NEW_CONFLICTS = 10
"""With so many conflicts at once, both give up their attempts."""


def names(specs: Iterable[str]) -> list[str]:
    """The names of specs, in their order."""
    return [parse_spec(spec).name for spec in specs]


def request_after(environment: Environment, command: Command) -> tuple[str, ...]:
    """What was asked for, by name the newest, once a command has run; removed names are gone."""
    asked = {parse_spec(spec).name: spec for spec in environment.specs}
    if command.kind == REMOVE:
        for name in names(command.specs):
            asked.pop(name, None)
    elif command.kind == INSTALL:
        asked.update((parse_spec(spec).name, spec) for spec in command.specs)
    return tuple(asked.values())


def exact(record: RepoDataRecord) -> str:
    """The spec that a record alone matches."""
    return f"{record.name.normalized}=={record.version}={record.build}"


def python_pin(environment: Environment, command: Command) -> str:
    """The minor of the installed Python, which clients keep.

    "" without Python, or if the command names it.
    """
    python = environment.records.get("python")
    if python is None or "python" in names(command.specs):
        return ""
    major, minor = str(python.version).split(".")[:2]
    return f"python {major}.{minor}.*"


def dependencies_first(records: Mapping[str, RepoDataRecord]) -> list[str]:
    """Names in the order of `PrefixData::sorted_records` of libmamba: dependencies first."""
    ordered: dict[str, None] = {}
    visited: set[str] = set()

    def visit(name: str) -> None:
        if name in visited or name not in records:
            return
        visited.add(name)
        for needed in sorted({spec_name(spec) for spec in records[name].depends}):
            visit(needed)
        ordered[name] = None

    for name in sorted(records):
        visit(name)
    return list(ordered)


@dataclass(frozen=True)
class Attempt:
    """What both of conda's solvers look at for each name.

    The environment, the command, and what is in conflict.
    """

    environment: Environment
    command: Command
    conflicts: set[str]

    @cached_property
    def requested(self) -> dict[str, str]:
        """Name -> spec of the command."""
        return {parse_spec(spec).name: spec for spec in self.command.specs}

    @cached_property
    def asked(self) -> dict[str, str]:
        """Name -> spec that was asked for earlier."""
        return {parse_spec(spec).name: spec for spec in self.environment.specs}


# --- libsolv: mamba, and conda's default solver


class LibsolvClient:
    """What both clients on libsolv share: channels in memory, the environment as a file."""

    name = ""

    def __init__(self, workspace: Workspace) -> None:
        self._where = workspace
        self._pools: dict[tuple[Path, ...], ChannelPool] = {}

    def _pool(self, world: World) -> ChannelPool:
        if world.channels not in self._pools:
            self._pools[world.channels] = ChannelPool(self._where, world.channels, world.subdir)
        return self._pools[world.channels]

    def create(self, world: World, machine: Scenario) -> Outcome:
        jobs = [Job("install", spec) for spec in machine.specs]
        decided = self._pool(world).solve(machine, jobs, strict=world.strict)
        return self._outcome(world, Environment((), {}), machine.specs, decided)

    def _installed_order(self, environment: Environment) -> list[str]:
        """The names of installed packages, in the order of the client for libsolv."""
        return sorted(environment.records)

    def _solve(
        self,
        world: World,
        environment: Environment,
        jobs: Iterable[Job],
        machine: Scenario,
        *,
        downgrade: bool = True,
    ) -> Decisions:
        with tempfile.TemporaryDirectory(prefix="ctk-life-") as folder:
            file = Path(folder) / "installed.json"
            environment.write(file, self._installed_order(environment))
            pool = self._pool(world)
            return pool.solve(
                machine, jobs, installed=file, strict=world.strict, downgrade=downgrade
            )

    def _outcome(
        self, world: World, environment: Environment, specs: tuple[str, ...], decided: Decisions
    ) -> Outcome:
        if decided.problems:
            return Refused("\n".join(decided.problems))
        records = {
            name: environment.records[name] for name in decided.kept if name in environment.records
        }
        pool = self._pool(world)
        for place in decided.added:
            name, found = pool.records[place]
            records[name] = world.at(found.channel, place[1])
        return Environment(specs, records)


class Mamba(LibsolvClient):
    """mamba: what was asked for earlier does not count, but for what a removal may clean."""

    name = "mamba"

    def _installed_order(self, environment: Environment) -> list[str]:
        return dependencies_first(environment.records)

    def change(
        self, world: World, environment: Environment, command: Command, machine: Scenario
    ) -> Outcome:
        decided = self._solve(world, environment, self._jobs(environment, command), machine)
        return self._outcome(world, environment, request_after(environment, command), decided)

    def _jobs(self, environment: Environment, command: Command) -> list[Job]:
        kept = [Job("keep", spec) for spec in environment.specs]
        if command.kind == REMOVE:
            return kept + [Job("remove", spec) for spec in command.specs]
        pin = python_pin(environment, command)
        pins = [Job("pin", pin)] if pin else []
        if command.kind == UPDATE_ALL:
            # `update --all` prunes: it keeps what was asked for.
            return [*kept, Job("update-all"), *pins]
        kind = "update" if command.kind == UPDATE else "install"
        return [Job(kind, spec) for spec in command.specs] + pins


# libsolv's lines of which conda's solver reads conflicts; ``conda-libmamba-solver`` takes the words
# at these places.
_NO_PROVIDER = re.compile(
    r"package (\S+) requires (.+), but none of the providers can be installed"
)
_OTHER_CONFLICTS = (
    re.compile(r"nothing provides .+ needed by (\S+)"),
    re.compile(r".+ has constraint .+ conflicting with (\S+)"),
    re.compile(r"package (\S+) is excluded by strict repo priority"),
)


class CondaLibmamba(LibsolvClient):
    """conda's default solver: it freezes what is installed, then releases conflicts.

    It does so attempt by attempt.
    """

    name = "conda"

    def change(
        self, world: World, environment: Environment, command: Command, machine: Scenario
    ) -> Outcome:
        conflicts: set[str] = set()
        attempts = min(_MOST_ATTEMPTS, len(environment.records)) if command.kind == INSTALL else 1
        for _ in range(attempts):
            decided = self._attempt(world, environment, command, machine, conflicts)
            if not decided.problems:
                return self._outcome(
                    world, environment, request_after(environment, command), decided
                )
            found = set(_conflicts(decided.problems))
            if _gives_up(conflicts, found):
                break
            conflicts |= found
        decided = self._attempt(world, environment, command, machine, set(environment.records))
        return self._outcome(world, environment, request_after(environment, command), decided)

    def _attempt(
        self,
        world: World,
        environment: Environment,
        command: Command,
        machine: Scenario,
        conflicts: set[str],
    ) -> Decisions:
        jobs = list(self._jobs(environment, command, conflicts))
        downgrade = command.kind not in (UPDATE, UPDATE_ALL)
        return self._solve(world, environment, jobs, machine, downgrade=downgrade)

    def _jobs(
        self, environment: Environment, command: Command, conflicts: set[str]
    ) -> Iterable[Job]:
        asked = {parse_spec(spec).name: spec for spec in environment.specs}
        if command.kind == REMOVE:
            for name in asked:
                if name in environment.records:
                    yield Job("keep", exact(environment.records[name]))
            for spec in command.specs:
                yield Job("remove", spec)
            return
        attempt = Attempt(environment, command, conflicts)
        for name in dict.fromkeys([*attempt.requested, *attempt.asked, *environment.records]):
            yield from self._jobs_for(name, attempt)

    def _jobs_for(self, name: str, attempt: Attempt) -> Iterable[Job]:
        installed = attempt.environment.records.get(name)
        is_conflict = name in attempt.conflicts
        if name in attempt.asked and installed and not is_conflict:
            yield Job("keep", exact(installed))
        if name in attempt.requested:
            yield Job("update" if installed else "install", attempt.requested[name])
            if installed and name not in attempt.asked:
                yield Job("keep", name)
        elif attempt.command.kind == UPDATE_ALL and installed:
            yield Job("update", name)
        elif name == "python" and installed:
            yield Job("pin", python_pin(attempt.environment, attempt.command))
        elif name in attempt.asked:
            spec = attempt.asked[name]
            yield Job("install", _relaxed(spec) if is_conflict else spec)
        elif installed and not is_conflict and attempt.command.kind == INSTALL:
            yield Job("freeze", exact(installed))


def _conflicts(problems: Iterable[str]) -> Iterable[str]:
    """The names that conda's default solver reads from libsolv's problems."""
    for line in problems:
        if match := _NO_PROVIDER.fullmatch(line):
            yield _dashed_name(match[1])
            yield match[2].split()[0]
        for pattern in _OTHER_CONFLICTS:
            if match := pattern.fullmatch(line):
                yield _dashed_name(match[1])


def _dashed_name(text: str) -> str:
    """The name in ``libzlib-1.2.13-h998d150_0``."""
    return text.rsplit("-", 2)[0]


def _relaxed(spec: str) -> str:
    """A spec of the history that is in conflict.

    conda leaves the build out if it has name, version and build.
    """
    parsed = parse_spec(spec)
    if parsed.version and parsed.build:
        return f"{parsed.name} {parsed.version}"
    return spec


def _gives_up(before: set[str], found: set[str]) -> bool:
    """Whether conda's solvers end their attempts: the same conflicts again, or many new ones."""
    return bool(before and before == found) or len(found - before) >= _MOST_NEW_CONFLICTS


# --- rattler: pixi, and conda with its rattler solver


@dataclass
class RattlerRequest:
    """The arguments of a solve."""

    specs: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    preferred: list[RepoDataRecord] = field(default_factory=list)  # `locked_packages`: may change
    frozen: list[RepoDataRecord] = field(default_factory=list)  # `pinned_packages`: may not


class RattlerClient:
    """What both clients on rattler share."""

    name = ""

    def create(self, world: World, machine: Scenario) -> Outcome:
        solved = self._solve(world, machine, RattlerRequest(specs=self._in_order(machine.specs)))
        return Refused(solved) if isinstance(solved, str) else Environment(machine.specs, solved)

    def _in_order(self, specs: Iterable[str]) -> list[str]:
        """Specs of a new environment, in the client's order."""
        return list(specs)

    def _solve(
        self, world: World, machine: Scenario, request: RattlerRequest
    ) -> dict[str, RepoDataRecord] | str:
        """The records by name, or rattler's words."""
        try:
            records = run(self._ask(world, machine, request))
        except SolverError as error:
            return str(error)
        return {record.name.normalized: record for record in records}

    async def _ask(
        self, world: World, machine: Scenario, request: RattlerRequest
    ) -> list[RepoDataRecord]:
        arguments: dict[str, Any] = {
            "sources": [channel_url(channel) for channel in world.channels],
            "specs": [_match(spec) for spec in request.specs],
            "constraints": [_match(spec) for spec in request.constraints],
            "locked_packages": request.preferred,
            "pinned_packages": request.frozen,
            "gateway": world.catalogue.gateway,
            "platforms": [Subdir(world.subdir), Subdir(NOARCH)],
            "virtual_packages": machine.virtual_packages,
            "channel_priority": (
                ChannelPriority.Strict if world.strict else ChannelPriority.Flexible
            ),
            "channel_relations": "disabled",
        }
        return await rattler.solve(**arguments)


def _match(spec: str) -> MatchSpec:
    return parse_spec(spec).match


class Pixi(RattlerClient):
    """pixi: a workspace asks for everything again, and prefers what its lock has."""

    name = "pixi"

    def change(
        self, world: World, environment: Environment, command: Command, machine: Scenario
    ) -> Outcome:
        specs = request_after(environment, command)
        released = set(names(command.specs))
        if command.kind == UPDATE_ALL:
            released = set(environment.records)
        preferred = [record for name, record in environment.records.items() if name not in released]
        solved = self._solve(world, machine, RattlerRequest(list(specs), preferred=preferred))
        return Refused(solved) if isinstance(solved, str) else Environment(specs, solved)


# rattler's lines of which conda's plugin reads conflicts.
_LOCKED = "is locked, but another version is required as reported above"
_NO_OPTION = "cannot be installed because there are no viable options"
_OPTIONS = " can be installed with any of the following options"
_DRAWN = str.maketrans("", "", "─│└├")
_CANNOT = "Cannot solve the request because of:"
_RULE = re.compile(r"the constraint (\S+) .*cannot be fulfilled")


class CondaRattler(RattlerClient):
    """conda with its rattler solver: it asks for all that is installed, less conflicts."""

    name = "conda, rattler"

    def _in_order(self, specs: Iterable[str]) -> list[str]:
        # Those with a version or build first, then from Z to A (`sort_by_spec_strictness`,
        # reversed).
        return sorted(specs, key=_strictness, reverse=True)

    def change(
        self, world: World, environment: Environment, command: Command, machine: Scenario
    ) -> Outcome:
        conflicts: set[str] = set()
        for _ in range(min(_MOST_ATTEMPTS, len(environment.records))):
            solved = self._solve(world, machine, self._request(environment, command, conflicts))
            if not isinstance(solved, str):
                return Environment(request_after(environment, command), solved)
            found = set(_rattler_conflicts(solved))
            if _gives_up(conflicts, found):
                return Refused(solved)
            conflicts |= found
        everything = set(environment.records)
        solved = self._solve(world, machine, self._request(environment, command, everything))
        if isinstance(solved, str):
            return Refused(solved)
        return Environment(request_after(environment, command), solved)

    def _request(
        self, environment: Environment, command: Command, conflicts: set[str]
    ) -> RattlerRequest:
        request = RattlerRequest()
        attempt = Attempt(environment, command, conflicts)
        asked_first = [*self._in_order(command.specs), *self._in_order(environment.specs)]
        for name in dict.fromkeys([*names(asked_first), *sorted(environment.records)]):
            if command.kind == REMOVE:
                _remove(request, name, attempt)
            else:
                _keep(request, name, attempt)
        return request


def _strictness(spec: str) -> tuple[int, str]:
    parsed = parse_spec(spec)
    return bool(parsed.name) + bool(parsed.version) + bool(parsed.build), parsed.name


def _keep(request: RattlerRequest, name: str, attempt: Attempt) -> None:
    """Adds what the plugin says of one name for an install or an update (`_collect_specs_main`)."""
    kind = attempt.command.kind
    installed = attempt.environment.records.get(name)
    is_conflict = name in attempt.conflicts
    if name == "python" and installed and name not in attempt.requested:
        request.constraints.append(python_pin(attempt.environment, attempt.command))
    if kind in (UPDATE, UPDATE_ALL) and installed:
        request.constraints.append(f"{name} >={installed.version}")
    if name in attempt.requested:
        request.specs.append(attempt.requested[name])
    elif kind == UPDATE_ALL and installed:
        if not is_conflict or name in attempt.asked:
            request.specs.append(name)
    elif name in attempt.asked:
        spec = attempt.asked[name]
        if is_conflict and _relaxed(spec) != spec:
            request.specs.append(_relaxed(spec))
        else:
            request.specs.append(spec)
            if installed:
                request.preferred.append(installed)
    elif installed:
        if not is_conflict:
            request.specs.append(name)
        is_frozen = kind == INSTALL and not is_conflict
        records = request.frozen if is_frozen else request.preferred
        records.append(installed)


def _remove(request: RattlerRequest, name: str, attempt: Attempt) -> None:
    """Adds what the plugin says of one name for a removal (`_collect_specs_for_remove`)."""
    if name in attempt.requested:
        request.constraints.append(f"{name} <0.0.0dev0")
        return
    installed = attempt.environment.records.get(name)
    if installed and name not in attempt.conflicts:
        if name in attempt.asked:
            request.specs.append(attempt.asked[name])
        request.preferred.append(installed)


def _rattler_conflicts(text: str) -> Iterable[str]:
    """The names that conda's plugin reads from rattler's error."""
    for drawn in text.splitlines():
        line = drawn.translate(_DRAWN).strip()
        if line.startswith(_CANNOT):
            line = line[len(_CANNOT) :].strip()
        words = line.split()
        if not words:
            continue
        if _LOCKED in line or _NO_OPTION in line:
            yield words[0]
        elif match := _RULE.search(line):
            yield match[1]
        elif _OPTIONS in line and "which" not in line:
            yield words[0]
