"""Says why a pick has its toolkit and not a newer one, from the channel's records and by solving the alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from rattler import RepoDataRecord

from ctk.solve.catalogue import ANY_DRIVER, PYTHON, Asked, Catalogue, Toolkit, listing, older
from ctk.solve.solve import Pick, Scenario
from ctk.solve.unsolvable.probe import core
from ctk.solve.unsolvable.request import request_cause

COMPAT = "cubin and nvJitLink work, PTX JIT does not"


def fit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """What native or compat means for the machine of a pick; "" for a pick without CUDA.

    A compat pick is limited by the driver (it refuses PTX newer than itself, error 222), by the GPU (the compiler does
    not know it, so that PTX for an older one is all it can write), by both, or by neither.
    """
    toolkit, machine = catalogue.toolkit(pick.toolkit), pick.scenario
    if toolkit is None or not pick.fit:
        return ""
    if pick.fit == "native":
        return "native: the driver loads the PTX that it compiles"
    if not machine.driver:
        return "compat: it makes machine code without a driver, and nothing runs here"
    refused = older(machine.driver, toolkit.driver or toolkit.version)
    unknown = bool(machine.arch and not toolkit.knows(machine.arch))
    if refused and unknown:
        return "compat: the driver does not load its PTX, and its compiler does not know the GPU"
    if unknown:
        nearest, newer = toolkit.beside(machine.arch or "")
        if newer:
            return f"compat: its compiler knows {nearest} and {newer} but not this GPU; PTX for {nearest} works"
        return f"compat: its compiler knows GPUs up to {nearest}, whose PTX the driver compiles for this one"
    if refused:
        return f"compat: {COMPAT}"
    return "compat, as asked for: the driver loads the PTX that it compiles all the same"


def toolkit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """``toolkit 13.0, native: ...`` with what that means on the machine of a pick, or ``no CUDA toolkit``."""
    if not pick.toolkit:
        return "no CUDA toolkit"
    fit = fit_in_words(pick, catalogue)
    return f"toolkit {pick.toolkit}{', ' if fit else ''}{fit}"


def explain(pick: Pick, catalogue: Catalogue) -> list[str]:
    """A line for each toolkit that was passed over, the newest first, and one for the toolkit that was picked.

    A toolkit older than the pick is mentioned only when the pick is compat for the machine's sake: none is native here.
    """
    if not pick.toolkit:
        return ["nothing in this pick depends on a CUDA toolkit"]
    if not any(toolkit.driver for toolkit in catalogue.toolkits):
        return ["this channel's cuda-version has no native and compat builds to choose by"]
    lines = []
    for toolkit in catalogue.toolkits:
        if older(pick.toolkit, toolkit.version):
            lines.append(_passed_over(pick, toolkit, catalogue))
        elif toolkit.version == pick.toolkit:
            lines.append(_picked(pick, toolkit, catalogue))
        elif pick.fit == "compat" and pick.scenario.driver and not _own_pins(pick.scenario, toolkit, catalogue):
            left_out = _left_out(pick.scenario, toolkit, catalogue)
            lines.append(_sentences([left_out] if left_out else _reasons(pick.scenario, toolkit, catalogue)))
    return lines


def _picked(pick: Pick, toolkit: Toolkit, catalogue: Catalogue) -> str:
    words = f"{toolkit.version} is picked, {fit_in_words(pick, catalogue)}"
    reasons = _reasons(pick.scenario, toolkit, catalogue) if pick.fit == "compat" else ()
    return _sentences([words, *reasons, *_brought(pick)])


def _brought(pick: Pick) -> list[str]:
    """Which libraries are of a newer toolkit than the picked one, and what that means for PTX."""
    said = []
    for name, library in (("libnvjitlink", "nvJitLink"), ("libnvfatbin", "nvFatbin")):
        minor = ".".join(pick.version(name).split(".")[:2])
        if minor and older(pick.toolkit, minor):
            ptx = f", and PTX that it links needs a driver for CUDA {minor}" if name == "libnvjitlink" else ""
            said.append(f"{pick.toolkit} has no {library} that Python can use: {name} is {minor}'s{ptx}")
    return said


def _passed_over(pick: Pick, toolkit: Toolkit, catalogue: Catalogue) -> str:
    """Why a newer toolkit was not picked, and how it can be had all the same."""
    scenario, version = pick.scenario, toolkit.version
    own = _own_pins(scenario, toolkit, catalogue)
    if own:
        return _sentences([f"{version} is left out by your {listing(own)}"])
    left_out = _left_out(scenario, toolkit, catalogue)
    if left_out:
        return _sentences([left_out])
    reasons = list(_reasons(scenario, toolkit, catalogue))
    pinned = catalogue.pick(_with(scenario, toolkit))
    if pinned and pinned.fit == "compat":
        words = fit_in_words(pinned, catalogue).removeprefix("compat: ")
        use = "use minor-version compatibility" if words == COMPAT else "have it all the same"
        reasons.append(f"pin cuda-version={version} to {use}: {words}")
    elif not pinned and scenario.driver and older(scenario.driver, toolkit.compat_driver or "0"):
        reasons.append(f"even minor-version compatibility needs a driver for CUDA {toolkit.compat_driver}")
    return _sentences(reasons)


def _left_out(scenario: Scenario, toolkit: Toolkit, catalogue: Catalogue) -> str:
    """Why no machine can have a toolkit with this request; "" where one can."""
    cause = request_cause(_with(scenario, toolkit), catalogue)
    return f"{toolkit.version}: {cause.sentence}" if cause else ""


def _own_pins(scenario: Scenario, toolkit: Toolkit, catalogue: Catalogue) -> list[str]:
    """The pins of a request that alone keep every machine from a toolkit."""
    return _blocking(scenario, replace(_with(scenario, toolkit), driver=ANY_DRIVER, arch=None), catalogue)


def _blocking(scenario: Scenario, wanted: Scenario, catalogue: Catalogue) -> list[str]:
    """The pins of a request, each of which alone keeps it from what is wanted; none where it can be had."""
    if catalogue.pick(wanted):
        return []
    pins = [asked for asked in map(Asked, scenario.specs) if asked.pinned and asked.name not in PYTHON]
    bare = {a.text: tuple(a.name if text == a.text else text for text in wanted.specs) for a in pins}
    return [text for text, specs in bare.items() if catalogue.pick(replace(wanted, specs=specs))]


def _reasons(scenario: Scenario, toolkit: Toolkit, catalogue: Catalogue) -> list[str]:
    """Why the native build of a toolkit is not for this machine: what its record says, confirmed by solving."""
    version = toolkit.version
    wanted = _with(scenario, toolkit, "=native_*")
    if native := catalogue.pick(wanted):
        if cpu := _cpu_instead(catalogue.pick(scenario), native):
            return [f"{version} native can be had too, with the CPU build of {listing(cpu)}"]
        return [f"{version} native can be had too, and the solver preferred other versions of what was asked for"]
    found, lifted = [], wanted
    if not scenario.driver or older(scenario.driver, toolkit.driver or "0"):
        have = f"this one supports {scenario.driver}" if scenario.driver else "there is none"
        found.append(f"{version} native needs a driver for CUDA {toolkit.driver}; {have}")
        lifted = replace(lifted, driver=toolkit.driver)
    if scenario.arch and not toolkit.knows(scenario.arch):
        found.append(f"{version} {not_known(scenario.arch, toolkit)}")
        lifted = replace(lifted, arch=None)
    if catalogue.pick(lifted):
        return found
    own = _blocking(scenario, lifted, catalogue)
    return [f"{version} native is left out by {f'your {listing(own)}' if own else 'more than one thing'}"]


def not_known(gpu: str, toolkit: Toolkit) -> str:
    """What the compiler of a toolkit cannot do for a GPU that it does not know."""
    nearest, newer = toolkit.beside(gpu)
    if not nearest:
        return f"cannot compile for compute capability {gpu}; its oldest is {newer}"
    known = f"it knows {nearest} and {newer}" if newer else f"its newest is {nearest}"
    return f"does not know compute capability {gpu}; {known}"


def _with(scenario: Scenario, toolkit: Toolkit, build: str = "") -> Scenario:
    """The scenario with a toolkit pinned as well."""
    return replace(scenario, specs=(*scenario.specs, f"cuda-version={toolkit.version}{build}"))


def _sentences(parts: Sequence[str]) -> str:
    """Parts as sentences, each with a capital and a full stop."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


@dataclass(frozen=True)
class Choice:
    """A package with CUDA builds and CPU builds, where one goes with another toolkit than the other.

    Solvers weigh the two differently, so that a request that names no build gets one or the other.

    Attributes:
        package: Its name.
        cuda: Whether the pick has a CUDA build of it.
        specs: What asks for a CUDA build, and for a CPU build.
        picks: What these give on the machine; None where they cannot be had.
        blockers: What of the request keeps the CUDA builds out, where they cannot be had.
    """

    package: str
    cuda: bool
    specs: tuple[str, str]
    picks: tuple[Pick | None, Pick | None]
    blockers: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For other programs."""
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


def choices(pick: Pick, catalogue: Catalogue) -> Iterator[Choice]:
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
        choice = Choice(name, _needs_cuda(record), specs, (with_cuda, with_cpu))
        if with_cuda is None:
            at_fault = core(replace(scenario, specs=(*scenario.specs, specs[0])), catalogue)
            others = [one for one in at_fault if one.text != specs[0]]
            if not any(_brings(pick.record(one.name), name) for one in others):  # pytorch-cpu asks for the CPU build
                yield replace(choice, blockers=tuple(one.text for one in others))
        elif not choice.cuda or (with_cpu and _better(with_cpu, with_cuda)):
            yield choice


def native_instead(pick: Pick, catalogue: Catalogue) -> str:
    """The native toolkit that a compat pick could have had, all else being of the same kind; "" where there is none.

    A package of another channel that is tied to one minor brings the newest, where a solver decides on it first.
    """
    scenario = pick.scenario
    if pick.fit != "compat" or not scenario.driver:
        return ""
    native = catalogue.pick(replace(scenario, specs=(*scenario.specs, "cuda-version=*=native_*")))
    return native.toolkit if native and not _cpu_instead(pick, native) else ""


def _cpu_instead(pick: Pick | None, other: Pick) -> list[str]:
    """The packages of which one pick has a CUDA build and another a CPU build; those alone that bring the rest."""
    cuda = {r.name for r in pick.records if _needs_cuda(r)} if pick else set()
    cpu = [r for r in other.records if r.name in cuda and not _needs_cuda(r)]
    brought = {need.split()[0] for record in cpu for need in record.depends}
    return [name for r in cpu if (name := r.name.normalized) not in brought]


def _both_builds(record: RepoDataRecord, catalogue: Catalogue) -> tuple[str, str] | None:
    """What asks for a CUDA build of a package, and for a CPU build; None where its builds are not of both kinds."""
    name = record.name.normalized
    versions = [r for r in catalogue.records(name) if r.version == record.version]
    cuda, cpu = ({str(r.build) for r in versions if _needs_cuda(r) is kind} for kind in (True, False))
    patterns = _pattern("cuda", cuda, cpu), _pattern("cpu", cpu, cuda)
    return (f"{name}=*={patterns[0]}", f"{name}=*={patterns[1]}") if all(patterns) else None


def _pattern(word: str, builds: set[str], others: set[str]) -> str:
    """What all of some builds match, and none of the others; "" where the word does not tell them apart."""
    for pattern in (f"{word}*", f"*{word}*"):
        if builds and all(fnmatchcase(b, pattern) for b in builds) and not any(fnmatchcase(o, pattern) for o in others):
            return pattern
    return ""


def _needs_cuda(record: RepoDataRecord) -> bool:
    return any(need.split()[0] in ("__cuda", "cuda-version") for need in record.depends)


def _brings(record: RepoDataRecord | None, name: str) -> bool:
    return record is not None and any(need.split()[0] == name for need in record.depends)


def _better(one: Pick, other: Pick) -> bool:
    """Whether a solver could prefer one toolkit to another: it is native and the other is not, or of a newer major."""
    if not one.toolkit:
        return False
    return (one.fit, other.fit) == ("native", "compat") or older(other.toolkit.split(".")[0], one.toolkit.split(".")[0])
