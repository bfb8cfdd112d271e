"""Surveys: where a request installs, the builds that machines get, and the changes by pins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from ctk.core.console import listing
from ctk.solve.fit import fit_of
from ctk.solve.reason import Reason
from ctk.solve.solve import (
    Catalogue,
    ChannelToolkit,
    Pick,
    Scenario,
    parse_spec,
)
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
    pinned = tuple(specs)
    for pin in pins:
        pinned = with_pin(pinned, pin)
    requests = [tuple(specs), *([pinned] if pins else [])]
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
    names -= {"cuda-version"} if names != {"cuda-version"} else set()  # `toolkit` says it already

    def machine_pick(pick: Pick | None) -> MachinePick:
        if pick is None:
            return MachinePick(Kind.REFUSED)
        builds = tuple(
            f"{name} {r.version} {r.build}" for name in sorted(names) if (r := pick.record(name))
        )
        instead = cpu[id(pick.records)]
        kind = _fit(pick, every) if pick.toolkit else Kind.PLAIN
        return MachinePick(Kind.CPU if instead else kind, pick.toolkit, builds, instead)

    picks = [{machine: machine_pick(pick) for machine, pick in found.items()} for found in solved]
    return Survey(
        " ".join(specs), every, *(Case(solver, r, p) for r, p in zip(requests, picks, strict=True))
    )


def _cpu_builds(picks: Iterable[Pick]) -> dict[int, tuple[str, ...]]:
    """Identity of a pick's records -> the packages that are CPU builds in this pick only.

    They depend on CUDA in another pick. Machines of a class share the records, so the identity
    distinguishes picks.
    """
    distinct = {id(pick.records): pick for pick in picks}
    on_cuda = {key: _on_cuda(pick) for key, pick in distinct.items()}
    has_cuda = set().union(*on_cuda.values())
    found = {}
    for key, pick in distinct.items():
        cpu = {
            name: needs for name, needs in _needs(pick).items() if name in has_cuda - on_cuda[key]
        }
        # Only the package that causes it: jaxlib, not jax, which depends on jaxlib.
        found[key] = tuple(name for name, needs in cpu.items() if not needs & cpu.keys())
    return found


def _needs(pick: Pick) -> dict[str, set[str]]:
    return {r.name.normalized: {need.split()[0] for need in r.depends} for r in pick.records}


def _on_cuda(pick: Pick) -> set[str]:
    """The packages of a pick that depend on a toolkit or driver, directly or through others."""
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
        before = self.today.picks[machine].kind
        after = (self.pinned or self.today).picks[machine].kind
        if before is after:
            return None
        if after is Kind.REFUSED:
            return Change.LOST
        return Change.GAINED if before is Kind.REFUSED else Change.OTHER

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
        drivers, gpus = self.every.drivers, (*self.every.gpus[1:], None)
        cells = {
            (driver, gpu): self._cell(case, (driver, gpu if driver else None))
            for driver in drivers
            for gpu in gpus
        }
        return merged(Answers(drivers, gpus, cells))

    def _cell(self, case: Case, machine: Machine) -> str:
        if machine not in case.picks:
            return ""  # it cannot exist
        change = self.change(machine) if case is self.pinned else None
        if change is Change.LOST:
            return "lost"
        text = case.picks[machine].text
        return f"{text} *" if change else text

    def builds(self, case: Case) -> list[tuple[str, str, str, int]]:
        """The builds of the requested packages, with kind, toolkits and number of machines."""
        found: dict[tuple[str, str], list[str]] = {}
        for pick in case.picks.values():
            for build in pick.builds:
                found.setdefault((build, pick.kind), []).append(pick.toolkit)
        known = {key: sorted({*kits} - {""}, key=version) for key, kits in found.items()}
        return [
            (*key, " to ".join(k[:1] + k[1:][-1:]), len(found[key])) for key, k in known.items()
        ]

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
        today = self.today
        said = [
            f"{self.asked} installs on {today.installs} of {len(today.picks)} pairs of driver"
            " and GPU"
        ]
        for kind in Kind:
            if machines := today.of(kind):
                names = dict.fromkeys(
                    name for machine in machines for name in today.picks[machine].cpu
                )
                of = f" of {listing([*names])}" if names else ""
                sentence = f"{kind}{of} on {len(machines)}"
                if kind is not Kind.NATIVE:
                    where = self._where(machines, today if kind is Kind.REFUSED else None)
                    sentence = f"{sentence}: {where}"
                said.append(sentence)
        if not self.pinned:
            return said
        where = self._where(self.lost, self.pinned)
        said.append(
            f"pinned, lost on {len(self.lost)}: {where}" if self.lost else "pinned, none is lost"
        )
        moves: dict[str, list[Machine]] = {}
        for machine in (*self.changed(Change.OTHER), *self.changed(Change.GAINED)):
            before, after = (case.picks[machine].kind for case in self.cases)
            moves.setdefault(f"pinned, {before} becomes {after}", []).append(machine)
        return said + [
            f"{move} on {len(machines)}: {self._where(machines)}"
            for move, machines in moves.items()
        ]

    def _where(self, machines: Collection[Machine], refusing: Case | None = None) -> str:
        """Groups of machines in words.

        For refused machines with the reason for the newest driver of the group.
        """
        groups = [*groups_in_words(machines, self.every).items()]
        reasons: dict[str, list[str]] = {}
        for words, machine in groups[:_LISTED]:
            reasons.setdefault(
                f" ({refusing.reason(machine).cause})" if refusing else "", []
            ).append(words)
        more = [f"and {len(groups) - _LISTED} more"] if groups[_LISTED:] else []
        return "; ".join(
            [f"{'; '.join(words)}{reason}" for reason, words in reasons.items()] + more
        )


def alike(surveys: Iterable[Survey]) -> list[list[Survey]]:
    """Groups of surveys with the same result."""
    found: dict[Any, list[Survey]] = {}
    for survey in surveys:
        texts = (pick.text for case in survey.cases for pick in case.picks.values())
        found.setdefault((*survey.sentences, *texts), []).append(survey)
    return [*found.values()]


def groups_in_words(machines: Collection[Machine], every: Matrix) -> dict[str, Machine]:
    """Groups of machines in words -> a machine of the group with the newest driver.

    The words are such as ``driver 12.0 to 12.5 with GPU 8.8``.
    """
    gpus = (*every.gpus[1:], None)
    have, known = (
        {d: tuple(g for g in gpus if (d, g) in m) for d in every.drivers}
        for m in (machines, every.machines)
    )
    if have == known:
        return {"every machine": (every.drivers[-1], None)}
    runs: dict[tuple[str | None, ...], list[list[str | None]]] = {}
    for key, same in groupby(
        every.drivers, lambda d: ("all",) if d and have[d] == known[d] != () else have[d]
    ):
        runs.setdefault(key, []).append(list(same))
    groups: dict[str, Machine] = {}
    for key, drivers in runs.items():
        words = f"driver {listing([drivers_label(run, every.drivers[-1]) for run in drivers])}"
        if None in drivers[0]:  # there is only one such machine
            words = "no driver"
        elif key != ("all",):
            places = groupby(
                enumerate(key), lambda pair: (pair[1] is None, gpus.index(pair[1]) - pair[0])
            )
            known_gpus = [_gpus_label([gpu for _, gpu in run], every) for _, run in places]
            words += f" with GPU {listing(known_gpus, 'or')}"
        if key:
            groups[words] = drivers[-1][-1], have[drivers[-1][-1]][-1]
    return groups


def _gpus_label(run: Sequence[str | None], every: Matrix) -> str:
    newest = every.gpus[-1]
    if run[0] is None:
        return "not detected"
    return "newer" if run == [newest] else drivers_label(run, newest)
