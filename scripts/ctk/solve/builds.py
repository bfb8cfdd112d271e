"""Packages with CUDA builds and CPU builds: which a request should name, and the pick with each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rattler import RepoDataRecord, Version

from ctk.core.console import listing
from ctk.solve.advice import asking_for_cuda
from ctk.solve.change import cpu_instead, needs_cuda
from ctk.solve.reason import conflict
from ctk.solve.solve import ASKING, Catalogue, Pick, Spec, older, parse_spec
from ctk.solve.why import toolkit_in_words


@dataclass(frozen=True)
class Way:
    """A spec for one of the two builds, and the pick with it; None if it cannot be installed."""

    spec: str
    pick: Pick | None

    def as_json(self) -> dict[str, str | None] | None:
        if self.pick is None:
            return None
        return {
            "spec": self.spec,
            "toolkit": self.pick.toolkit or None,
            "fit": self.pick.fit or None,
        }


@dataclass(frozen=True)
class Choice:
    """A package whose build a request should name.

    Attributes:
        package: Its name.
        is_cuda: Whether the pick has its CUDA build.
        cuda, cpu: How to get each build.
        line: The same for people.
    """

    package: str
    is_cuda: bool
    cuda: Way
    cpu: Way
    line: str

    def as_json(self) -> dict[str, Any]:
        return {
            "package": self.package,
            "build": "cuda" if self.is_cuda else "cpu",
            "cuda": self.cuda.as_json(),
            "cpu": self.cpu.as_json(),
        }


def choices(pick: Pick, catalogue: Catalogue) -> Iterator[Choice]:
    """The packages of a pick whose build a request should name.

    Solvers weigh CUDA and CPU builds differently. Only a build, or `ASKING` for the packages that
    it constrains, gives the same in every client. Without a driver there is nothing to choose, and
    a request with a build has chosen.
    """
    scenario = pick.scenario
    if not scenario.driver:
        return
    request = [parse_spec(text) for text in scenario.specs]
    chosen = {spec.name for spec in request if spec.build}
    if any(spec.name in ASKING for spec in request):
        chosen |= catalogue.cuda_builds
    both = {r: specs for r in pick.records if (specs := _both_builds(r, catalogue))}
    brought = {need.split()[0] for record in both for need in record.depends}
    for record, (cuda, cpu) in both.items():
        if record.name.normalized in brought | chosen:
            continue
        with_cuda = _way_to_cuda(record, cuda, pick, catalogue)
        with_cpu = Way(cpu, catalogue.pick(scenario.also(cpu)))
        line = _line(record, cuda, with_cuda, with_cpu, pick, catalogue)
        if line:
            name = record.name.normalized
            yield Choice(name, needs_cuda(record), with_cuda, with_cpu, line)


def _way_to_cuda(record: RepoDataRecord, spec: str, pick: Pick, catalogue: Catalogue) -> Way:
    """How to get the CUDA build of a package: by `ASKING` where that works, else by a spec."""
    if record.name.normalized in catalogue.cuda_builds:
        asking = asking_for_cuda(pick.scenario, catalogue)
        if by_asking := catalogue.pick(asking):
            return Way(asking.specs[0], by_asking)
    return Way(spec, catalogue.pick(pick.scenario.also(spec)))


def _line(
    record: RepoDataRecord,
    spec: str,
    cuda: Way,
    cpu: Way,
    pick: Pick,
    catalogue: Catalogue,
) -> str:
    """What to say of a package with two builds; "" if there is nothing to choose.

    Args:
        record: The package.
        spec: The spec for its CUDA build.
        cuda: How to get its CUDA build.
        cpu: How to get its CPU build.
        pick: The pick that has it.
        catalogue: The channels.
    """
    name = record.name.normalized
    if cuda.pick is None:
        others = _others_at_fault(spec, pick, catalogue)
        if _ask_for_cpu(name, others, pick):
            return ""
        why = _lacking(record, catalogue) or "work with these channels on this machine"
        if others:
            why = f"work with your {listing([other.text for other in others])}"
        return f"{name} is the CPU build here: its CUDA builds do not {why}"
    how = f"{cuda.spec}, named first," if cuda.spec in ASKING else f'"{cuda.spec}"'
    gives = f"{how} gives CUDA with {toolkit_in_words(cuda.pick, catalogue)}"
    if not needs_cuda(record):
        return f"{name} is the CPU build here; {gives}"
    if cpu.pick is None or not _better(cpu.pick, cuda.pick):
        return ""
    with_cpu = toolkit_in_words(cpu.pick, catalogue)
    return (
        f"{name} is the CUDA build here, and another client may take the CPU build: name the one"
        f' you want. {gives}; "{cpu.spec}" gives the CPU build with {with_cpu}'
    )


def _others_at_fault(spec: str, pick: Pick, catalogue: Catalogue) -> list[Spec]:
    """The specs of a request that an added spec has no solution with."""
    at_fault = conflict(pick.scenario.also(spec), catalogue)
    return [other for other in at_fault if other.text != spec]


def _ask_for_cpu(name: str, others: list[Spec], pick: Pick) -> bool:
    """Whether a package of the request requires the CPU build, such as pytorch-cpu."""
    asking = [record for other in others if (record := pick.record(other.name))]
    return any(need.split()[0] == name for record in asking for need in record.depends)


def _lacking(record: RepoDataRecord, catalogue: Catalogue) -> str:
    """The toolkits that CUDA builds of a package need and the channel lacks, in words; or ""."""
    builds = [r for r in catalogue.records(record.name.normalized) if r.version == record.version]
    needs = set()
    for build in builds:
        for need in build.depends:
            if match := re.match(r"cuda-version >=(\d+\.\d+)", need):
                needs.add(match[1])
    lacking = sorted(needs - {toolkit.version for toolkit in catalogue.toolkits}, key=Version)
    return f"work with this channel, which lacks toolkit {listing(lacking)}" if lacking else ""


def native_instead(pick: Pick, catalogue: Catalogue) -> str:
    """The native toolkit that a compat pick could have with builds of the same kind.

    "" without such a toolkit. The cause is a package of another channel that is tied to a minor: if
    a solver decides on it first, it takes the newest.
    """
    if pick.fit != "compat" or not pick.scenario.driver:
        return ""
    native = catalogue.pick(pick.scenario.also("cuda-version=*=native_*"))
    return native.toolkit if native and not cpu_instead(pick, native) else ""


def _both_builds(record: RepoDataRecord, catalogue: Catalogue) -> tuple[str, str] | None:
    """The specs for a CUDA build and a CPU build of a package.

    None if it does not have both kinds of builds.
    """
    name = record.name.normalized
    versions = [r for r in catalogue.records(name) if r.version == record.version]
    cuda = {str(r.build) for r in versions if needs_cuda(r)}
    cpu = {str(r.build) for r in versions if not needs_cuda(r)}
    cuda_pattern = _pattern("cuda", cuda, cpu)
    cpu_pattern = _pattern("cpu", cpu, cuda)
    if not cuda_pattern or not cpu_pattern:
        return None
    return f"{name}=*={cuda_pattern}", f"{name}=*={cpu_pattern}"


def _pattern(word: str, builds: set[str], others: set[str]) -> str:
    """A pattern with the word that matches all `builds` and none of the `others`.

    "" if there is none.
    """
    if not builds:
        return ""
    for pattern in (f"{word}*", f"*{word}*"):
        matches_all = all(fnmatchcase(build, pattern) for build in builds)
        if matches_all and not any(fnmatchcase(other, pattern) for other in others):
            return pattern
    return ""


def _better(first: Pick, second: Pick) -> bool:
    """Whether a solver could prefer the first pick.

    It could if only the first is native, or its toolkit is of a newer CUDA major.
    """
    if not first.toolkit:
        return False
    if first.fit == "native" and second.fit == "compat":
        return True
    return older(second.toolkit.split(".")[0], first.toolkit.split(".")[0])
