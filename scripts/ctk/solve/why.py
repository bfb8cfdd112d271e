"""Says why a pick has its toolkit, why a request has no solution, and which builds a request should name.

Each sentence is proved, not guessed: the request is solved again with one thing changed at a time (driver, GPU, specs,
Python, platform), and what makes the difference is named. A request that fails on a machine that can do anything is at
fault itself; any other one fails for the driver, the GPU or both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rattler import RepoDataRecord, Version, VersionSpec

from ctk.core.console import count
from ctk.core.errors import Unsolvable, nearest
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.solve.machine import python_specs
from ctk.solve.solve import (
    ANY_DRIVER,
    PYTHON,
    Asked,
    Catalogue,
    ChannelToolkit,
    Pick,
    Scenario,
    listing,
    older,
    solve,
)

COMPAT = "cubin and nvJitLink work, PTX JIT does not"
_OTHER_BASE = "name another one, such as --base conda-forge"
_NVCC = re.compile(r"cuda-nvcc|cuda-nvcc-impl|cuda-nvcc_.*|cuda-crt-tools")


@dataclass(frozen=True)
class Reason:
    """Why there is no solution: one sentence, and what the user can do."""

    sentence: str
    step: str


# --- why a pick has its toolkit


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
    if machine.arch and not toolkit.knows(machine.arch):
        if refused:
            return "compat: the driver does not load its PTX, and its compiler does not know the GPU"
        below, above = toolkit.beside(machine.arch)
        if above:
            return f"compat: its compiler knows {below} and {above} but not this GPU; PTX for {below} works"
        return f"compat: its compiler knows GPUs up to {below}, whose PTX the driver compiles for this one"
    if refused:
        return f"compat: {COMPAT}"
    return "compat, as asked for: the driver loads the PTX that it compiles all the same"


def toolkit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """``toolkit 13.0, native: ...`` with what that means on the machine of a pick, or ``no CUDA toolkit``."""
    if not pick.toolkit:
        return "no CUDA toolkit"
    return ", ".join(part for part in (f"toolkit {pick.toolkit}", fit_in_words(pick, catalogue)) if part)


def explain(pick: Pick, catalogue: Catalogue) -> list[str]:
    """A line for each toolkit that was passed over, the newest first, and one for the toolkit that was picked.

    A toolkit older than the pick is mentioned only when the pick is compat for the machine's sake: none is native here.
    """
    if not pick.toolkit:
        return ["nothing in this pick depends on a CUDA toolkit"]
    if not any(toolkit.driver for toolkit in catalogue.toolkits):
        return ["this channel's cuda-version has no native and compat builds to choose by"]
    scenario, lines = pick.scenario, []
    for toolkit in catalogue.toolkits:
        if older(pick.toolkit, toolkit.version):
            lines.append(_passed_over(scenario, toolkit, catalogue))
        elif toolkit.version == pick.toolkit:
            words = f"{toolkit.version} is picked, {fit_in_words(pick, catalogue)}"
            lines.append([words, *(_not_native(scenario, toolkit, catalogue) if pick.fit == "compat" else ())])
            lines[-1] += _newer_libraries(pick)
        elif pick.fit == "compat" and scenario.driver and not _own_pins(scenario, toolkit, catalogue):
            lines.append(_left_out(scenario, toolkit, catalogue) or _not_native(scenario, toolkit, catalogue))
    return [" ".join(f"{part[0].upper()}{part[1:]}." for part in parts) for parts in lines]


def _newer_libraries(pick: Pick) -> list[str]:
    """Which libraries are of a newer toolkit than the picked one, and what that means for PTX."""
    sentences = []
    for name, library in (("libnvjitlink", "nvJitLink"), ("libnvfatbin", "nvFatbin")):
        minor = ".".join(pick.version(name).split(".")[:2])
        if minor and older(pick.toolkit, minor):
            ptx = f", and PTX that it links needs a driver for CUDA {minor}" if name == "libnvjitlink" else ""
            sentences.append(f"{pick.toolkit} has no {library} that Python can use: {name} is {minor}'s{ptx}")
    return sentences


def _passed_over(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """Why a newer toolkit was not picked, and how it can be had all the same."""
    version = toolkit.version
    if own := _own_pins(scenario, toolkit, catalogue):
        return [f"{version} is left out by your {listing(own)}"]
    if left_out := _left_out(scenario, toolkit, catalogue):
        return left_out
    reasons = _not_native(scenario, toolkit, catalogue)
    pinned = catalogue.pick(_with(scenario, toolkit))
    if pinned and pinned.fit == "compat":
        words = fit_in_words(pinned, catalogue).removeprefix("compat: ")
        use = "use minor-version compatibility" if words == COMPAT else "have it all the same"
        reasons.append(f"pin cuda-version={version} to {use}: {words}")
    elif not pinned and scenario.driver and older(scenario.driver, toolkit.compat_driver or "0"):
        reasons.append(f"even minor-version compatibility needs a driver for CUDA {toolkit.compat_driver}")
    return reasons


def _left_out(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """Why no machine can have a toolkit with this request; nothing where one can."""
    reason = request_reason(_with(scenario, toolkit), catalogue)
    return [f"{toolkit.version}: {reason.sentence}"] if reason else []


def _own_pins(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """The pins of a request that alone keep every machine from a toolkit."""
    return _blocking(scenario, _ideal(_with(scenario, toolkit)), catalogue)


def _blocking(scenario: Scenario, wanted: Scenario, catalogue: Catalogue) -> list[str]:
    """The pins of a request, each of which alone keeps it from a wanted scenario; none where that has a solution."""
    if catalogue.solves(wanted):
        return []
    pins = [asked for asked in map(Asked, scenario.specs) if asked.pinned and asked.name not in PYTHON]
    return [asked.text for asked in pins if catalogue.solves(_without_pin(wanted, asked))]


def _not_native(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """Why the native build of a toolkit is not for this machine: what its record says, confirmed by solving."""
    version = toolkit.version
    wanted = _with(scenario, toolkit, "=native_*")
    if native := catalogue.pick(wanted):
        if cpu := cpu_instead(catalogue.pick(scenario), native):
            return [f"{version} native can be had too, with the CPU build of {listing(cpu)}"]
        return [f"{version} native can be had too, and the solver preferred other versions of what was asked for"]
    reasons, lifted = [], wanted
    if not scenario.driver or older(scenario.driver, toolkit.driver or "0"):
        have = f"this one supports {scenario.driver}" if scenario.driver else "there is none"
        reasons.append(f"{version} native needs a driver for CUDA {toolkit.driver}; {have}")
        lifted = replace(lifted, driver=toolkit.driver)
    if scenario.arch and not toolkit.knows(scenario.arch):
        below, above = toolkit.beside(scenario.arch)
        if below:
            known = f"it knows {below} and {above}" if above else f"its newest is {below}"
            reasons.append(f"{version} does not know compute capability {scenario.arch}; {known}")
        else:
            reasons.append(f"{version} cannot compile for compute capability {scenario.arch}; its oldest is {above}")
        lifted = replace(lifted, arch=None)
    if catalogue.solves(lifted):
        return reasons
    own = _blocking(scenario, lifted, catalogue)
    return [f"{version} native is left out by {f'your {listing(own)}' if own else 'more than one thing'}"]


def cpu_instead(pick: Pick | None, other: Pick) -> list[str]:
    """The packages of which one pick has a CUDA build and another a CPU build; those alone that bring the rest."""
    cuda = {r.name for r in pick.records if needs_cuda(r)} if pick else set()
    cpu = [r for r in other.records if r.name in cuda and not needs_cuda(r)]
    brought = {need.split()[0] for record in cpu for need in record.depends}
    return [name for r in cpu if (name := r.name.normalized) not in brought]


def needs_cuda(record: RepoDataRecord) -> bool:
    return any(need.split()[0] in ("__cuda", "cuda-version") for need in record.depends)


def _with(scenario: Scenario, toolkit: ChannelToolkit, build: str = "") -> Scenario:
    """The scenario with a toolkit pinned as well."""
    return replace(scenario, specs=(*scenario.specs, f"cuda-version={toolkit.version}{build}"))


# --- why a request has no solution


def solve_or_say_why(scenario: Scenario, catalogue: Catalogue, lines: int | None = None) -> Pick:
    """Solves a scenario; where that fails, the error opens with the reason and so many lines of the solver's text."""
    try:
        return solve(scenario, catalogue.channels, catalogue.gateway)
    except Unsolvable as error:
        if not error.solver:
            raise
        reason = find_reason(scenario, catalogue)
        text = error.cause.splitlines()
        shown = text[:lines]
        if len(text) > len(shown):
            shown.append(f"... and {count(len(text) - len(shown), 'line')} more; --explain shows all")
        raise Unsolvable("\n".join([reason.sentence, *shown]), reason.step, error.solver) from None


def find_reason(scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason of a scenario that has no solution."""
    reason = (
        _missing_package(scenario, catalogue)
        or request_reason(scenario, catalogue)
        or _machine_reason(scenario, catalogue)
        or Reason(f"{listing(scenario.specs)}: no cause was found by changing one thing", "read what the solver says")
    )
    if _wants_nvcc_12(scenario, catalogue):
        no_nvcc = "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers"
        return replace(reason, sentence=f"{reason.sentence}; {no_nvcc}")
    return reason


def _ideal(scenario: Scenario) -> Scenario:
    """The scenario on a machine that can do anything."""
    return replace(scenario, driver=ANY_DRIVER, arch=None)


def _without_pin(scenario: Scenario, asked: Asked) -> Scenario:
    return replace(scenario, specs=tuple(asked.name if text == asked.text else text for text in scenario.specs))


def conflict(scenario: Scenario, catalogue: Catalogue) -> list[Asked]:
    """The specs that have no solution together, and have one without any of them."""
    left = [Asked(text) for text in dict.fromkeys(scenario.specs)]
    # What says most is tried last, and so stays: pins rather than names, cuda-version rather than anything.
    for asked in sorted(left, key=lambda a: (a.pinned, a.name not in PYTHON, a.name == "cuda-version")):
        fewer = [other for other in left if other is not asked]
        if fewer and not catalogue.solves(scenario, specs=tuple(a.text for a in fewer)):
            left = fewer
    return left


def _droppable_pins(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> str:
    """Which pin can be dropped, one at a time, and what that gives on this machine; "" when none helps."""
    ways = []
    for asked in at_fault:
        if asked.pinned and (pick := catalogue.pick(_without_pin(scenario, asked))):
            gives = f", which gives toolkit {f'{pick.toolkit} {pick.fit}'.strip()}" if pick.toolkit else ""
            ways.append(f"drop the pin {asked.text}{gives}")
    return ", or ".join(ways)


def _toolkits_for(asked: Asked, ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits, oldest first, that a spec can be had for."""
    versions = [toolkit.version for toolkit in reversed(catalogue.toolkits)]
    return [v for v in versions if catalogue.solves(ideal, specs=(asked.text, f"cuda-version={v}"))]


def _in_words(*asked: Asked) -> str:
    """``toolkit 12.9`` of ``cuda-version=12.9``, ``Python 3.14t`` of what --python 3.14t asks for, else the spec."""
    first, version = asked[0], asked[0].version
    if first.name == "cuda-version" and re.fullmatch(r"[\d.]+", version):
        return f"toolkit {version}"
    if first.name in PYTHON:
        free_threaded = any(a.name == "python_abi" and a.parts[2].endswith("t") for a in asked)
        return f"Python {version}{'t' if free_threaded else ''}"
    return first.text


def _missing_package(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """A package or a version that the channels do not have for the platform."""
    names = catalogue.names([scenario.subdir, NOARCH])
    request = list(map(Asked, scenario.specs))
    for asked in request:
        if asked.name.startswith("__"):
            continue
        if asked.name not in names:
            return _missing_name(asked, names, catalogue)
        records = catalogue.records(asked.name)
        if any(asked.match.matches(record) for record in records):
            continue
        build = asked.parts[2]
        wanted = " ".join(part for part in (asked.name, asked.version, build) if part)
        if asked.name in PYTHON:
            wanted, build = _in_words(*(a for a in request if a.name in PYTHON)), ""
        have = list(dict.fromkeys(f"{r.version} {r.build}" if build else str(r.version) for r in records))
        some = "there is" if len(have) == 1 else "there are" if len(have) <= 8 else "the newest are"
        return Reason(
            f"there is no {wanted} in the channels; {some} {listing(have[:8][::-1])}",
            f"ask for {'one of those' if len(have) > 1 else have[0]}{_other_base(asked.name, catalogue)}",
        )
    return None


def _missing_name(asked: Asked, names: set[str], catalogue: Catalogue) -> Reason:
    subdir = catalogue.subdir
    ours, *bases = catalogue.channels
    if not catalogue.names([subdir], [ours]):
        return Reason(f"the channel has nothing for {subdir}", f"build it: ctk build --platform {subdir}")
    if any(asked.name in catalogue.names(PLATFORMS, [base]) for base in bases if base in _empty(catalogue)):
        return Reason(f"{asked.name} would come from the base channel, which has nothing for {subdir}", _OTHER_BASE)
    elsewhere = [p for p in PLATFORMS if p != subdir and asked.name in catalogue.names([p])]
    if elsewhere:
        return Reason(
            f"{asked.name} is not published for {subdir}; it is for {listing(elsewhere)}",
            f"leave it out, or ask for {listing([f'--platform {p}' for p in elsewhere], 'or')}",
        )
    if maker := catalogue.maker(asked.name):
        why = "" if maker.by_default else ", which the default build leaves out"
        return Reason(
            f"{asked.name} is not built here: it is made by the recipe {maker.recipe}{why}",
            f"run `ctk build --recipe {maker.recipe}`{'' if maker.by_default else ', or `ctk build --all-components`'}",
        )
    # Nobody who asks for pytorch means python.
    near = nearest(asked.name, names, cutoff=0.75)
    step = f"did you mean {listing(near, 'or')}?" if near else f"see `ctk plan`{_other_base(asked.name, catalogue)}"
    return Reason(f"there is no package {asked.name} in the channels", step)


def _other_base(name: str, catalogue: Catalogue) -> str:
    """The advice to try another base channel, for a package that is not one of ours."""
    ours = catalogue.names([catalogue.subdir, NOARCH], catalogue.channels[:1])
    return "" if name in ours else ", or name a base channel that has more with --base"


def _empty(catalogue: Catalogue) -> list[Path | str]:
    """The channels that have nothing for the platform."""
    return [c for c in catalogue.channels if not catalogue.names([catalogue.subdir], [c])]


def request_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """What is wrong with a request on every machine; None where some machine can have it."""
    ideal = _ideal(scenario)
    if catalogue.solves(ideal):
        return None
    at_fault = conflict(ideal, catalogue)
    texts = [asked.text for asked in at_fault]
    if len(at_fault) == 1:
        return _missing_dependency(at_fault[0], ideal, catalogue)
    python = [asked for asked in at_fault if asked.name in PYTHON]
    toolkits = [asked for asked in at_fault if asked.name == "cuda-version"]
    packages = [asked for asked in at_fault if asked not in (*python, *toolkits)]
    if python and len(packages) == 1:
        return _missing_python(packages[0], toolkits, python, ideal, catalogue)
    step = _droppable_pins(scenario, at_fault, catalogue) or f"leave out {listing(texts, 'or')}"
    if len(at_fault) > 2:
        return Reason(f"{listing(texts)} cannot be had together; without any one of them the others can", step)
    toolkit, other = sorted(at_fault, key=lambda asked: asked.name != "cuda-version")
    if toolkit.name == "cuda-version" != other.name and not (
        other.pinned and catalogue.solves(ideal, specs=(toolkit.text, other.name))
    ):
        specs = (toolkit.text, other.text)
        elsewhere = [p for p in PLATFORMS if p != ideal.subdir and catalogue.solves(ideal, subdir=p, specs=specs)]
        place = f" on {ideal.subdir} (it is on {listing(elsewhere)})" if elsewhere else ""
        has = listing(_toolkits_for(other, ideal, catalogue))
        return Reason(f"{other.text} is not published for {_in_words(toolkit)}{place}; it is for {has}", step)
    how = "contradict each other" if toolkit.pinned and other.pinned else "cannot be had together"
    return Reason(f"{texts[0]} and {texts[1]} {how}", step)


def _missing_python(
    package: Asked, toolkits: Sequence[Asked], python: Sequence[Asked], ideal: Scenario, catalogue: Catalogue
) -> Reason:
    """The reason of a package that is not built for a Python, with the Pythons that it is built for."""
    kinds = {
        (record.version, "t" if re.search(r"_cp[0-9]+t$", str(record.build)) else "")
        for record in catalogue.records("python_abi")
    }
    known = [f"{version}{free_threaded}" for version, free_threaded in sorted(kinds)]
    specs = tuple(asked.text for asked in (package, *toolkits))
    have = [one for one in known if catalogue.solves(ideal, specs=(*specs, *python_specs(one)))]
    which = " with ".join([_in_words(*python), *map(_in_words, toolkits)])
    return Reason(
        f"{package.text} is not built for {which}; it is for {listing(have)}", f"ask for Python {listing(have, 'or')}"
    )


def _missing_dependency(asked: Asked, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason of a package that needs something no channel has."""
    chain = _chain_to_missing(asked.text, ideal, catalogue, {})
    if not chain:
        cause = f"{asked.text} cannot be installed from these channels on any machine"
        return Reason(cause, "read what the solver says")
    need = Asked(chain[-1])
    if need.name.startswith("__"):
        have = listing([str(p.version) for p in ideal.virtual_packages if p.name.normalized == need.name])
        return Reason(f"{asked.text} needs {need.text}, and this machine has {have}", "ask for an older version")
    step = f"name a base channel that has {need.name}, such as --base conda-forge"
    if versions := catalogue.versions(need.name):
        have = listing(versions[:8][::-1])
        return Reason(f"{asked.text} needs {need.text}, of which the channels have only {have}", step)
    if _empty(catalogue):
        cause = f"{asked.text} needs {need.name} from the base channel, which has nothing for {ideal.subdir}"
        return Reason(cause, _OTHER_BASE)
    return Reason(f"{asked.text} needs {need.text}, which the channels do not have", step)


def _chain_to_missing(
    text: str, ideal: Scenario, catalogue: Catalogue, known: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The specs from one spec to a dependency that nothing provides; () where everything is provided.

    A spec is missing when no record matches it, or when each one that does depends on a missing spec.
    """
    if text in known:
        return known[text]
    known[text] = ()  # while its own dependencies are followed: a circle is not missing
    asked = Asked(text)
    if asked.name.startswith("__"):
        wanted = asked.match.version
        virtual = [p for p in ideal.virtual_packages if p.name.normalized == asked.name]
        fits = any(wanted is None or VersionSpec(wanted).matches(p.version) for p in virtual)
        known[text] = () if fits else (text,)
        return known[text]
    first: tuple[str, ...] = ()
    for record in catalogue.records(asked.name):
        if not asked.match.matches(record):
            continue
        chains = (_chain_to_missing(dependency, ideal, catalogue, known) for dependency in record.depends)
        chain = next((c for c in chains if c), ())
        if not chain:
            return ()
        first = first or chain
    known[text] = (text, *first)
    return known[text]


def _machine_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """What the machine lacks for a request that another machine can have."""
    if not catalogue.solves(_ideal(scenario)):
        return None
    at_fault = conflict(scenario, catalogue)
    pins = _droppable_pins(scenario, at_fault, catalogue)
    if catalogue.solves(scenario, driver=ANY_DRIVER):
        reason = _driver_reason(scenario, at_fault, catalogue)
        return replace(reason, step=f"{reason.step}, or {pins}" if pins else reason.step)
    if catalogue.solves(scenario, arch=None):
        reason = _gpu_reason(scenario, at_fault, catalogue)
        return replace(reason, step=pins or reason.step)
    driver = _driver_reason(replace(scenario, arch=None), at_fault, catalogue)
    gpu = _gpu_reason(replace(scenario, driver=ANY_DRIVER), at_fault, catalogue)
    return Reason(f"{driver.sentence}; besides, {gpu.sentence}", pins or f"{driver.step}, and {gpu.step}")


def _driver_reason(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> Reason:
    """The reason of a request that a newer driver solves."""
    drivers = {d for t in catalogue.toolkits for d in (t.driver, t.compat_driver) if d}
    newer = [d for d in sorted(drivers, key=Version) if not scenario.driver or older(scenario.driver, d)]

    def least(*specs: str) -> str:
        return next((d for d in newer if catalogue.solves(scenario, specs=specs, driver=d)), "")

    need = least(*scenario.specs)
    subject, plural = _subject(at_fault, scenario, catalogue)
    needs = f"{subject} need{'' if plural else 's'} a driver for CUDA {need} or newer"
    if not scenario.driver:
        return Reason(f"{needs}; there is none", "ask for it with --driver")
    step = f"update the driver to one for CUDA {need} or newer"
    if not catalogue.solves(scenario, specs=("cuda-version",)):
        cause = f"the driver supports CUDA {scenario.driver}; the oldest toolkit in the channel needs"
        return Reason(f"{cause} {least('cuda-version')}", step)
    return Reason(f"{needs}; this one supports {scenario.driver}", step)


def _gpu_reason(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> Reason:
    """The reason of a request that another GPU solves."""
    arch = scenario.arch or ""
    known = {gpu for t in catalogue.toolkits for gpu in t.gpus} | set(catalogue.versions("cuda-arch"))
    ordered = sorted(known, key=Version)
    beside = (gpu for gpu in ordered if older(arch, gpu)), (gpu for gpu in reversed(ordered) if older(gpu, arch))
    above, below = (next((g for g in near if catalogue.solves(scenario, arch=g)), "") for near in beside)
    kind, bound = ("newer", "oldest") if above else ("older", "newest")
    need = above or below
    between = f"{below} or {above}" if above and below else ""
    wanted = f"compute capability {between or f'{need} or {kind}'}"
    step = f"use a GPU of {wanted}"
    if not catalogue.solves(scenario, specs=("cuda-version",)):
        cause = f"no toolkit in the channel compiles for compute capability {arch}; the {bound} that any does is {need}"
        return Reason(cause, step)
    subject, plural = _subject(at_fault, scenario, catalogue)
    if subject.endswith("which") or [asked.name for asked in at_fault] == ["cuda-version"]:
        knows = f"{'they know' if plural else 'it knows'} {below} and {above}"
        knows = knows if between else f"{'their' if plural else 'its'} {bound} is {need}"
        return Reason(f"{subject} cannot compile for compute capability {arch}; {knows}", step)
    return Reason(f"{subject} {'need' if plural else 'needs'} a GPU of {wanted}; this one has {arch}", step)


def _subject(at_fault: Sequence[Asked], scenario: Scenario, catalogue: Catalogue) -> tuple[str, bool]:
    """Who is at fault, and whether the verb that follows is a plural."""
    first = at_fault[0]
    if len(at_fault) == 1 and first.name != "cuda-version":
        has = _toolkits_for(first, _ideal(scenario), catalogue)
        if 0 < len(has) < len(catalogue.toolkits):
            several = len(has) > 1
            return f"{first.text} is published for toolkit{'s' if several else ''} {listing(has)} only, which", several
    return listing([asked.text for asked in at_fault]), len(at_fault) > 1


def _wants_nvcc_12(scenario: Scenario, catalogue: Catalogue) -> bool:
    """Whether a request asks for nvcc and cannot have CUDA 13."""
    request = [Asked(text) for text in scenario.specs]
    compilers = [a for a in request if _NVCC.fullmatch(a.name)]
    toolkits = [a for a in request if a.name == "cuda-version"]
    if not compilers:
        return False
    if scenario.driver and older(scenario.driver, "13.0"):
        return True
    return any(_before_13(asked, catalogue.versions(asked.name)) for asked in (*toolkits, *compilers))


def _before_13(asked: Asked, versions: list[str]) -> bool:
    """Whether a spec names CUDA 12, and no version of CUDA 13 or newer fits it."""
    wanted = asked.match.version
    if wanted is None or not re.search(r"(?<![\d.])12(?!\d)|<13", wanted):
        return False
    newer = [v for v in versions if Version(v) >= Version("13")]
    return not any(VersionSpec(wanted).matches(Version(v)) for v in newer)


# --- packages with CUDA builds and CPU builds: which of them a request should name, and what each gives


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
    chosen = {asked.name for asked in map(Asked, scenario.specs) if asked.parts[2]}
    both = {r: specs for r in pick.records if (specs := _both_builds(r, catalogue))}
    brought = {need.split()[0] for record in both for need in record.depends}
    for record, specs in both.items():
        name = record.name.normalized
        if name in brought | chosen:
            continue
        ways = [replace(scenario, specs=(*scenario.specs, spec)) for spec in specs]
        with_cuda, with_cpu = map(catalogue.pick, ways)
        choice = BuildChoice(name, needs_cuda(record), specs, (with_cuda, with_cpu))
        if with_cuda is None:
            others = [asked for asked in conflict(ways[0], catalogue) if asked.text != specs[0]]
            asked_for = [r for asked in others if (r := pick.record(asked.name))]
            # pytorch-cpu asks for the CPU build.
            if not any(need.split()[0] == name for r in asked_for for need in r.depends):
                yield replace(choice, blockers=tuple(asked.text for asked in others))
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


def _better(one: Pick, other: Pick) -> bool:
    """Whether a solver could prefer one toolkit to another: it is native and the other is not, or of a newer major."""
    if not one.toolkit:
        return False
    return (one.fit, other.fit) == ("native", "compat") or older(other.toolkit.split(".")[0], one.toolkit.split(".")[0])
