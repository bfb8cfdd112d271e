"""Packages with CUDA builds and CPU builds: which of them a request should name, and what each gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from rattler import RepoDataRecord

from ctk.solve.catalogue import Asked, Catalogue, listing, older
from ctk.solve.solve import Pick
from ctk.solve.why import conflict, cpu_instead, needs_cuda, toolkit_in_words


@dataclass(frozen=True)
class BuildChoice:
    """A package of which a CUDA build goes with another toolkit than a CPU build.

    Solvers weigh the two differently, so a request that names no build gets one or the other.
    """

    package: str
    cuda: bool  # whether the pick has a CUDA build of it
    specs: tuple[str, str]  # for a CUDA build, and for a CPU build
    picks: tuple[Pick | None, Pick | None]  # with these specs; None without a solution
    blockers: tuple[str, ...] = ()  # the specs of the request that keep the CUDA builds out

    def as_json(self) -> dict[str, Any]:
        ways = {
            kind: {"spec": spec, "toolkit": pick.toolkit or None, "fit": pick.fit or None} if pick else None
            for kind, spec, pick in zip(("cuda", "cpu"), self.specs, self.picks, strict=True)
        }
        return {"package": self.package, "build": "cuda" if self.cuda else "cpu", **ways}

    def in_words(self, catalogue: Catalogue) -> str:
        """One line for people."""
        (cuda, cpu), (with_cuda, with_cpu) = self.specs, self.picks
        if with_cuda is None:
            why = f"your {listing(self.blockers)}" if self.blockers else "these channels on this machine"
            return f"{self.package} is the CPU build here: its CUDA builds do not go with {why}"
        gives = f'"{cuda}" gives CUDA with {toolkit_in_words(with_cuda, catalogue)}'
        if not self.cuda or with_cpu is None:
            return f"{self.package} is the CPU build here; {gives}"
        return (
            f"{self.package} is the CUDA build here, and another client may take the CPU build: name the one you want. "
            f'{gives}; "{cpu}" gives the CPU build with {toolkit_in_words(with_cpu, catalogue)}'
        )


def choices(pick: Pick, catalogue: Catalogue) -> Iterator[BuildChoice]:
    """The packages of a pick that a request should name a build of: nothing else says CUDA or CPU in every client.

    Without a driver there is nothing to choose, and who names a build has chosen.
    """
    scenario = pick.scenario
    if not scenario.driver:
        return
    asked = {one.name: one for one in map(Asked, scenario.specs)}
    both = {r: specs for r in pick.records if (specs := _both_builds(r, catalogue))}
    brought = {need.split()[0] for record in both for need in record.depends}
    for record, specs in both.items():
        name = record.name.normalized
        if name in brought or (name in asked and asked[name].match.build is not None):
            continue
        with_cuda, with_cpu = (catalogue.pick(replace(scenario, specs=(*scenario.specs, spec))) for spec in specs)
        choice = BuildChoice(name, needs_cuda(record), specs, (with_cuda, with_cpu))
        if with_cuda is None:
            at_fault = conflict(replace(scenario, specs=(*scenario.specs, specs[0])), catalogue)
            others = [one for one in at_fault if one.text != specs[0]]
            if not any(_brings(pick.record(one.name), name) for one in others):  # pytorch-cpu asks for the CPU build
                yield replace(choice, blockers=tuple(one.text for one in others))
        elif not choice.cuda or (with_cpu and _better(with_cpu, with_cuda)):
            yield choice


def native_instead(pick: Pick, catalogue: Catalogue) -> str:
    """The native toolkit that a compat pick could have with builds of the same kind; "" for none.

    A package of another channel that is tied to one minor brings the newest, where a solver decides on it first.
    """
    scenario = pick.scenario
    if pick.fit != "compat" or not scenario.driver:
        return ""
    native = catalogue.pick(replace(scenario, specs=(*scenario.specs, "cuda-version=*=native_*")))
    return native.toolkit if native and not cpu_instead(pick, native) else ""


def _both_builds(record: RepoDataRecord, catalogue: Catalogue) -> tuple[str, str] | None:
    """The specs for a CUDA build and a CPU build of a package; None where its builds are not of both kinds."""
    name = record.name.normalized
    versions = [r for r in catalogue.records(name) if r.version == record.version]
    cuda, cpu = ({str(r.build) for r in versions if needs_cuda(r) is kind} for kind in (True, False))
    patterns = _pattern("cuda", cuda, cpu), _pattern("cpu", cpu, cuda)
    return (f"{name}=*={patterns[0]}", f"{name}=*={patterns[1]}") if all(patterns) else None


def _pattern(word: str, builds: set[str], others: set[str]) -> str:
    """A pattern that all of some builds match and none of the others; "" where the word does not tell them apart."""
    for pattern in (f"{word}*", f"*{word}*"):
        if builds and all(fnmatchcase(b, pattern) for b in builds) and not any(fnmatchcase(o, pattern) for o in others):
            return pattern
    return ""


def _brings(record: RepoDataRecord | None, name: str) -> bool:
    return record is not None and any(need.split()[0] == name for need in record.depends)


def _better(one: Pick, other: Pick) -> bool:
    """Whether a solver could prefer one toolkit to another: it is native and the other is not, or of a newer major."""
    if not one.toolkit:
        return False
    return (one.fit, other.fit) == ("native", "compat") or older(other.toolkit.split(".")[0], one.toolkit.split(".")[0])
