"""Surveys: on which machines a request installs, with which builds, and what pins change.

`take_survey` solves a request for every machine of a matrix; a `Survey` counts, compares and says
what it found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from ctk.core.console import listing
from ctk.solve.fit import fit_of
from ctk.solve.reason import Reason
from ctk.solve.solve import Catalogue, ChannelToolkit, Pick, Scenario, parse_spec
from ctk.solve.why import find_reason
from ctk.verify.oracle import version
from ctk.verify.scenarios import Machine, Matrix
from ctk.verify.table import Answers, drivers_label, merged

_LISTED = 4  # groups of machines in a sentence


class Kind(StrEnum):
    """The kind of a machine's pick."""

    NATIVE = "native"
    COMPAT = "compat"
    CPU = "CPU build"  # of a package that has CUDA builds
    PLAIN = "no CUDA"  # no package has a CUDA build
    REFUSED = "refused"


class Change(StrEnum):
    """The effect of pins on a machine."""

    LOST = "lost"
    GAINED = "gained"
    OTHER = "changed"


@dataclass(frozen=True)
class MachinePick:
    """The pick of a machine."""

    kind: Kind
    toolkit: str = ""  # 13.4
    builds: tuple[str, ...] = ()  # name, version and build of the requested packages
    cpu: tuple[str, ...] = ()  # packages that have CUDA builds, and are CPU builds here

    @property
    def text(self) -> str:
        """``13.4``, ``13.4 compat``, else the kind."""
        words = {Kind.NATIVE: self.toolkit, Kind.COMPAT: f"{self.toolkit} compat"}
        return words.get(self.kind, self.kind)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "toolkit": self.toolkit or None,
            "builds": self.builds,
            "cpu": self.cpu,
        }


class Case(NamedTuple):
    """A request, and the pick of every machine."""

    catalogue: Catalogue
    specs: tuple[str, ...]
    picks: Mapping[Machine, MachinePick]

    @property
    def installs(self) -> int:
        """The number of machines on which it installs."""
        return len(self.picks) - len(self.of(Kind.REFUSED))

    def of(self, kind: Kind) -> list[Machine]:
        return [machine for machine, pick in self.picks.items() if pick.kind is kind]

    def reason(self, machine: Machine) -> Reason:
        """The reason why it does not install on a machine, and what to do."""
        return find_reason(Scenario(self.specs, self.catalogue.subdir, *machine), self.catalogue)


def take_survey(
    specs: Sequence[str], pins: Sequence[str], channels: Catalogue, every: Matrix
) -> Survey:
    """Solves a request for every machine; if there are pins, also with them.

    A request is solved once for each class of machines.
    """
    requests = [tuple(specs)]
    if pins:
        pinned = tuple(specs)
        for pin in pins:
            pinned = with_pin(pinned, pin)
        requests.append(pinned)
    solver = channels.grouped({parse_spec(spec).name for request in requests for spec in request})
    solved: list[dict[Machine, Pick | None]] = []
    for request in requests:
        scenarios = {
            machine: Scenario(request, solver.subdir, *machine) for machine in every.machines
        }
        solver.ask(scenarios.values())
        solved.append({machine: solver.pick(scenario) for machine, scenario in scenarios.items()})
    cpu = _cpu_builds(pick for picks in solved for pick in picks.values() if pick)
    names = {parse_spec(text).name for text in specs}
    if names != {"cuda-version"}:
        names -= {"cuda-version"}  # `toolkit` says it already
    cases = []
    for request, picks in zip(requests, solved, strict=True):
        by_machine = {
            machine: _machine_pick(pick, names, cpu, every) for machine, pick in picks.items()
        }
        cases.append(Case(solver, request, by_machine))
    return Survey(" ".join(specs), every, *cases)


def _machine_pick(
    pick: Pick | None, names: Collection[str], cpu: Mapping[int, tuple[str, ...]], every: Matrix
) -> MachinePick:
    """A solver's pick as that of a machine.

    Args:
        pick: The pick; None without a solution.
        names: The requested packages.
        cpu: What `_cpu_builds` returns.
        every: Has the facts of toolkits.
    """
    if pick is None:
        return MachinePick(Kind.REFUSED)
    builds = []
    for name in sorted(names):
        if record := pick.record(name):
            builds.append(f"{name} {record.version} {record.build}")
    cpu_builds = cpu[id(pick.records)]
    kind = Kind.PLAIN
    if cpu_builds:
        kind = Kind.CPU
    elif pick.toolkit:
        kind = _fit(pick, every)
    return MachinePick(kind, pick.toolkit, tuple(builds), cpu_builds)


def _cpu_builds(picks: Iterable[Pick]) -> dict[int, tuple[str, ...]]:
    """Identity of a pick's records -> the CPU builds in it, which depend on CUDA in another pick.

    Machines of a class share the records, so the identity distinguishes picks.
    """
    distinct = {id(pick.records): pick for pick in picks}
    on_cuda = {key: _on_cuda(pick) for key, pick in distinct.items()}
    has_cuda = set().union(*on_cuda.values())
    found = {}
    for key, pick in distinct.items():
        without_cuda = has_cuda - on_cuda[key]
        cpu = {name: needs for name, needs in _needs(pick).items() if name in without_cuda}
        # Only the package that causes it: jaxlib, not jax, which depends on jaxlib.
        found[key] = tuple(name for name, needs in cpu.items() if not needs & cpu.keys())
    return found


def _needs(pick: Pick) -> dict[str, set[str]]:
    """Package of a pick -> the packages that it depends on."""
    needs = {}
    for record in pick.records:
        needs[record.name.normalized] = {spec.split()[0] for spec in record.depends}
    return needs


def _on_cuda(pick: Pick) -> set[str]:
    """The packages of a pick that depend on a CUDA toolkit or driver, perhaps through others."""
    left = _needs(pick)
    found = {"__cuda", "cuda-version"}
    while more := {name for name, needs in left.items() if needs & found}:
        found |= more
        left = {name: needs for name, needs in left.items() if name not in more}
    return found


def _fit(pick: Pick, every: Matrix) -> Kind:
    """The kind from the build of cuda-version.

    With conda-forge's, from driver, GPU and the facts of the toolkit.
    """
    known = {toolkit.minor: toolkit.architectures for toolkit in every.facts.toolkits}
    toolkit = ChannelToolkit(pick.toolkit, gpus=tuple(known.get(pick.toolkit, ())))
    fit = fit_of(pick, pick.scenario, toolkit)
    return Kind.NATIVE if fit and fit.is_native else Kind.COMPAT


def with_pin(specs: Sequence[str], pin: str) -> tuple[str, ...]:
    """The specs with a pin: it replaces specs of the same package."""
    asked = parse_spec(pin)
    return (*(spec for spec in specs if parse_spec(spec).name != asked.name), str(asked.match))


# --- a request on a platform


@dataclass(frozen=True)
class Survey:
    """The picks of every machine of a platform, today and with pins if there are any."""

    asked: str  # the request as the user wrote it
    every: Matrix
    today: Case
    pinned: Case | None = None

    @property
    def subdir(self) -> str:
        return self.today.catalogue.subdir

    @property
    def cases(self) -> list[Case]:
        return [self.today, *([self.pinned] if self.pinned else [])]

    def change(self, machine: Machine) -> Change | None:
        """The effect of the pins on a machine.

        None if it gets the same kind of build, even of another toolkit.
        """
        pinned = self.pinned or self.today
        before = self.today.picks[machine].kind
        after = pinned.picks[machine].kind
        if before is after:
            return None
        if after is Kind.REFUSED:
            return Change.LOST
        if before is Kind.REFUSED:
            return Change.GAINED
        return Change.OTHER

    @property
    def lost(self) -> list[Machine]:
        """The machines on which it would no longer install."""
        return self.changed(Change.LOST)

    def changed(self, change: Change) -> list[Machine]:
        return [machine for machine in self.today.picks if self.change(machine) is change]

    def table(self, case: Case) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The picks for each driver and GPU, as headings and rows.

        Equal rows and equal columns are merged.
        """
        drivers = self.every.drivers
        gpus = (*self.every.gpus[1:], None)
        cells = {
            (driver, gpu): self._cell(case, (driver, gpu if driver else None))
            for driver in drivers
            for gpu in gpus
        }
        return merged(Answers(drivers, gpus, cells))

    def _cell(self, case: Case, machine: Machine) -> str:
        if machine not in case.picks:
            return ""  # it cannot exist
        text = case.picks[machine].text
        change = self.change(machine) if case is self.pinned else None
        if change is Change.LOST:
            return "lost"
        return f"{text} *" if change else text

    def builds(self, case: Case) -> list[tuple[str, str, str, int]]:
        """The builds of the requested packages, each with kind, toolkits and number of machines."""
        toolkits: dict[tuple[str, str], list[str]] = {}
        for pick in case.picks.values():
            for build in pick.builds:
                toolkits.setdefault((build, pick.kind), []).append(pick.toolkit)
        rows = []
        for (build, kind), of_machines in toolkits.items():
            known = sorted({*of_machines} - {""}, key=version)
            ends = [known[0], known[-1]] if len(known) > 1 else known
            rows.append((build, kind, " to ".join(ends), len(of_machines)))
        return rows

    # --- for programs

    def as_json(self) -> dict[str, Any]:
        """The survey for `--json`, with the pick of each machine."""
        answers: list[dict[str, Any]] = []
        for machine, pick in self.today.picks.items():
            answers.append({"driver": machine[0], "gpu": machine[1], **pick.as_json()})
            if self.pinned:
                answers[-1] |= {
                    "pinned": self.pinned.picks[machine].as_json(),
                    "change": self.change(machine),
                }
        return {
            "asked": self.asked,
            "platform": self.subdir,
            "machines": len(answers),
            "kinds": {kind: len(self.today.of(kind)) for kind in Kind},
            "changes": (
                {change: len(self.changed(change)) for change in Change} if self.pinned else None
            ),
            "sentences": self.sentences,
            "answers": answers,
        }

    # --- in words

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences about where it installs, the kinds of builds, and the changes by the pins."""
        said = [self._installs(), *self._kinds()]
        if self.pinned:
            said += [self._lost_by_pins(self.pinned), *self._moves_by_pins()]
        return said

    def _installs(self) -> str:
        number = self.today.installs
        pairs = len(self.today.picks)
        return f"{self.asked} can be installed on {number} of {pairs} pairs of driver and GPU"

    def _kinds(self) -> Iterator[str]:
        """A sentence for each kind of pick: on how many machines, and on which."""
        for kind in Kind:
            machines = self.today.of(kind)
            if not machines:
                continue
            picks = [self.today.picks[machine] for machine in machines]
            names = dict.fromkeys(name for pick in picks for name in pick.cpu)
            of_names = f" of {listing([*names])}" if names else ""
            sentence = f"{kind}{of_names} on {len(machines)}"
            if kind is not Kind.NATIVE:
                refusing = self.today if kind is Kind.REFUSED else None
                sentence += f": {self._where(machines, refusing)}"
            yield sentence

    def _lost_by_pins(self, pinned: Case) -> str:
        if not self.lost:
            return "pinned, none is lost"
        return f"pinned, lost on {len(self.lost)}: {self._where(self.lost, pinned)}"

    def _moves_by_pins(self) -> Iterator[str]:
        """A sentence for each change of kind on machines that keep or gain the request."""
        moves: dict[str, list[Machine]] = {}
        for machine in (*self.changed(Change.OTHER), *self.changed(Change.GAINED)):
            before, after = (case.picks[machine].kind for case in self.cases)
            moves.setdefault(f"pinned, {before} becomes {after}", []).append(machine)
        for move, machines in moves.items():
            yield f"{move} on {len(machines)}: {self._where(machines)}"

    def _where(self, machines: Collection[Machine], refusing: Case | None = None) -> str:
        """Groups of machines in words.

        For refused machines with the reason for the newest driver of the group.
        """
        groups = groups_in_words(machines, self.every)
        by_reason: dict[str, list[str]] = {}
        for words, machine in [*groups.items()][:_LISTED]:
            reason = ""
            if refusing:
                reason = f" ({refusing.reason(machine).cause})"
            by_reason.setdefault(reason, []).append(words)
        parts = [f"{'; '.join(words)}{reason}" for reason, words in by_reason.items()]
        if len(groups) > _LISTED:
            parts.append(f"and {len(groups) - _LISTED} more")
        return "; ".join(parts)


def alike(surveys: Iterable[Survey]) -> list[list[Survey]]:
    """Groups of surveys with the same result."""
    found: dict[Any, list[Survey]] = {}
    for survey in surveys:
        texts = (pick.text for case in survey.cases for pick in case.picks.values())
        found.setdefault((*survey.sentences, *texts), []).append(survey)
    return [*found.values()]


def groups_in_words(machines: Collection[Machine], every: Matrix) -> dict[str, Machine]:
    """Groups of machines in words -> a machine of each with the newest driver.

    Words such as ``driver 12.0 to 12.5 with GPU 8.8``.
    """
    gpus = (*every.gpus[1:], None)
    gpus_of = _gpus_by_driver(machines, every)
    possible = _gpus_by_driver(every.machines, every)
    newest = every.drivers[-1]
    if gpus_of == possible:
        return {"every machine": (newest, None)}

    def of_driver(driver: str | None) -> tuple[str | None, ...]:
        has_all = bool(possible[driver]) and gpus_of[driver] == possible[driver]
        return ("all",) if has_all else gpus_of[driver]

    groups: dict[str, Machine] = {}
    if (None, None) in machines:  # the only one without a driver
        groups["no driver"] = None, None
    runs: dict[tuple[str | None, ...], list[list[str | None]]] = {}
    for key, drivers in groupby(every.drivers[1:], of_driver):
        runs.setdefault(key, []).append(list(drivers))
    for key, drivers_of_key in runs.items():
        if not key:
            continue
        labels = [drivers_label(run, newest) for run in drivers_of_key]
        words = f"driver {listing(labels)}"
        if key != ("all",):
            words += f" with {_gpus_in_words(key, gpus, every)}"
        last = drivers_of_key[-1][-1]
        groups[words] = last, gpus_of[last][-1]
    return groups


def _gpus_by_driver(
    machines: Collection[Machine], every: Matrix
) -> dict[str | None, tuple[str | None, ...]]:
    """Driver -> the GPUs of the machines that have it, the GPU that is not detected last."""
    gpus = (*every.gpus[1:], None)
    found = {}
    for driver in every.drivers:
        found[driver] = tuple(gpu for gpu in gpus if (driver, gpu) in machines)
    return found


def _gpus_in_words(found: Sequence[str | None], gpus: Sequence[str | None], every: Matrix) -> str:
    """Words for GPUs, such as ``GPU 8.8 or 10.7 to 11.0``; neighbours in `gpus` are a range.

    The last GPU of the matrix stands for all that are newer than the last known one. Without the
    known one in front of it, the words name that: "10.1 or newer" would have all from 10.1 on.
    """
    *_, last_known, newest = every.gpus

    def run_of(place: tuple[int, str | None]) -> tuple[bool, int]:
        number, gpu = place
        return gpu is None, gpus.index(gpu) - number

    labels = []
    for _, places in groupby(enumerate(found), run_of):
        run = [gpu for _, gpu in places]
        if run == [newest]:
            labels.append(f"one newer than {last_known}")
        elif run[-1] == newest:
            labels.append(f"{run[0]} and newer")
        elif run[1:]:
            labels.append(f"{run[0]} to {run[-1]}")
        else:
            labels.append(run[0] or "not detected")
    words = listing(labels, "or")
    if words.startswith("one "):
        return f"a GPU {words.removeprefix('one ')}"
    return f"GPU {words}"
