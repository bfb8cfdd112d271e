"""Says why a pick has its toolkit, and why a request has no solution.

Each sentence is proved, not guessed: the request is solved again with one thing changed at a time (driver, GPU, specs,
Python, platform), and what makes the difference is named. A request that fails on a machine that can do anything is at
fault itself; any other one fails for the driver, the GPU or both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rattler import MatchSpec, RepoDataRecord, Version, VersionSpec

from ctk.core.console import count
from ctk.core.errors import Unsolvable, nearest
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.solve.catalogue import ANY_DRIVER, PYTHON, Asked, Catalogue, ChannelToolkit, listing, older
from ctk.solve.machine import python_specs
from ctk.solve.solve import Pick, Scenario, solve

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
    unknown = bool(machine.arch and not toolkit.knows(machine.arch))
    if refused and unknown:
        return "compat: the driver does not load its PTX, and its compiler does not know the GPU"
    if unknown:
        below, above = toolkit.beside(machine.arch or "")
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
            words = f"{toolkit.version} is picked, {fit_in_words(pick, catalogue)}"
            reasons = _not_native(pick.scenario, toolkit, catalogue) if pick.fit == "compat" else ()
            lines.append(_sentences([words, *reasons, *_brought(pick)]))
        elif pick.fit == "compat" and pick.scenario.driver and not _own_pins(pick.scenario, toolkit, catalogue):
            left_out = _left_out(pick.scenario, toolkit, catalogue)
            lines.append(_sentences([left_out] if left_out else _not_native(pick.scenario, toolkit, catalogue)))
    return lines


def _brought(pick: Pick) -> list[str]:
    """Which libraries are of a newer toolkit than the picked one, and what that means for PTX."""
    sentences = []
    for name, library in (("libnvjitlink", "nvJitLink"), ("libnvfatbin", "nvFatbin")):
        minor = ".".join(pick.version(name).split(".")[:2])
        if minor and older(pick.toolkit, minor):
            ptx = f", and PTX that it links needs a driver for CUDA {minor}" if name == "libnvjitlink" else ""
            sentences.append(f"{pick.toolkit} has no {library} that Python can use: {name} is {minor}'s{ptx}")
    return sentences


def _passed_over(pick: Pick, toolkit: ChannelToolkit, catalogue: Catalogue) -> str:
    """Why a newer toolkit was not picked, and how it can be had all the same."""
    scenario, version = pick.scenario, toolkit.version
    if own := _own_pins(scenario, toolkit, catalogue):
        return _sentences([f"{version} is left out by your {listing(own)}"])
    if left_out := _left_out(scenario, toolkit, catalogue):
        return _sentences([left_out])
    reasons = list(_not_native(scenario, toolkit, catalogue))
    pinned = catalogue.pick(_with(scenario, toolkit))
    if pinned and pinned.fit == "compat":
        words = fit_in_words(pinned, catalogue).removeprefix("compat: ")
        use = "use minor-version compatibility" if words == COMPAT else "have it all the same"
        reasons.append(f"pin cuda-version={version} to {use}: {words}")
    elif not pinned and scenario.driver and older(scenario.driver, toolkit.compat_driver or "0"):
        reasons.append(f"even minor-version compatibility needs a driver for CUDA {toolkit.compat_driver}")
    return _sentences(reasons)


def _left_out(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> str:
    """Why no machine can have a toolkit with this request; "" where one can."""
    reason = request_reason(_with(scenario, toolkit), catalogue)
    return f"{toolkit.version}: {reason.sentence}" if reason else ""


def _own_pins(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """The pins of a request that alone keep every machine from a toolkit."""
    return _blocking(scenario, _ideal(_with(scenario, toolkit)), catalogue)


def _blocking(scenario: Scenario, wanted: Scenario, catalogue: Catalogue) -> list[str]:
    """The pins of a request, each of which alone keeps it from a wanted scenario; none where that has a solution."""
    if catalogue.pick(wanted):
        return []
    pins = [asked for asked in map(Asked, scenario.specs) if asked.pinned and asked.name not in PYTHON]
    return [asked.text for asked in pins if catalogue.pick(_without_pin(wanted, asked))]


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
        reasons.append(f"{version} {_unknown(scenario.arch, toolkit)}")
        lifted = replace(lifted, arch=None)
    if catalogue.pick(lifted):
        return reasons
    own = _blocking(scenario, lifted, catalogue)
    return [f"{version} native is left out by {f'your {listing(own)}' if own else 'more than one thing'}"]


def _unknown(gpu: str, toolkit: ChannelToolkit) -> str:
    """What the compiler of a toolkit cannot do for a GPU that it does not know."""
    below, above = toolkit.beside(gpu)
    if not below:
        return f"cannot compile for compute capability {gpu}; its oldest is {above}"
    known = f"it knows {below} and {above}" if above else f"its newest is {below}"
    return f"does not know compute capability {gpu}; {known}"


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


def _sentences(parts: Sequence[str]) -> str:
    """Parts as sentences, each with a capital and a full stop."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


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
        if fewer and not catalogue.pick(replace(scenario, specs=tuple(a.text for a in fewer))):
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
    wanted = {t.version: (asked.text, f"cuda-version={t.version}") for t in reversed(catalogue.toolkits)}
    return [version for version, specs in wanted.items() if catalogue.pick(replace(ideal, specs=specs))]


def _pythons_for(ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The Pythons, oldest first, that a request can be had for, written as --python takes them."""
    kinds = {
        (record.version, "t" if re.search(r"_cp[0-9]+t$", str(record.build)) else "")
        for record in catalogue.records("python_abi")
    }
    pythons = [f"{version}{free_threaded}" for version, free_threaded in sorted(kinds)]
    return [one for one in pythons if catalogue.pick(replace(ideal, specs=(*ideal.specs, *python_specs(one))))]


def _in_words(*asked: Asked) -> str:
    """``toolkit 12.9`` of ``cuda-version=12.9``, ``Python 3.14t`` of what --python 3.14t asks for, else the spec."""
    first, version = asked[0], asked[0].version
    if first.name == "cuda-version" and re.fullmatch(r"[\d.]+", version):
        return f"toolkit {version}"
    if first.name in PYTHON:
        free_threaded = any(a.name == "python_abi" and str(a.match.build).endswith("t") for a in asked)
        return f"Python {version}{'t' if free_threaded else ''}"
    return first.text


# Packages and versions that the channels do not have for the platform.


def _missing_package(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    names = catalogue.names([scenario.subdir, NOARCH])
    for asked in map(Asked, scenario.specs):
        if asked.name.startswith("__"):
            continue
        if asked.name not in names:
            return _missing_name(asked, names, catalogue)
        records = catalogue.records(asked.name)
        if not any(asked.match.matches(record) for record in records):
            python = asked.name in PYTHON
            build = asked.match.build is not None and not python
            have = list(dict.fromkeys(f"{r.version} {r.build}" if build else str(r.version) for r in records))
            some = "there is" if len(have) == 1 else "there are" if len(have) <= 8 else "the newest are"
            name = _in_words(*(a for a in map(Asked, scenario.specs) if a.name in PYTHON)) if python else ""
            return Reason(
                f"there is no {name or f'{asked.name} {asked.constraint}'} in the channels; "
                f"{some} {listing(have[:8][::-1])}",
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


# Requests that no machine can have.


def request_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """What is wrong with a request on every machine; None where some machine can have it."""
    ideal = _ideal(scenario)
    if catalogue.pick(ideal):
        return None
    at_fault = conflict(ideal, catalogue)
    texts = [asked.text for asked in at_fault]
    if len(at_fault) == 1:
        return _missing_dependency(at_fault[0], ideal, catalogue)
    python = [asked for asked in at_fault if asked.name in PYTHON]
    others = [asked for asked in at_fault if asked.name not in PYTHON]
    toolkits = [asked for asked in others if asked.name == "cuda-version"]
    if python and len(others) - len(toolkits) == 1:
        (other,) = (asked for asked in others if asked not in toolkits)
        kinds = _pythons_for(replace(ideal, specs=tuple(asked.text for asked in others)), catalogue)
        which = f"{_in_words(*python)}{''.join(f' with {_in_words(asked)}' for asked in toolkits)}"
        return Reason(
            f"{other.text} is not built for {which}; it is for {listing(kinds)}",
            f"ask for Python {listing(kinds, 'or')}",
        )
    step = _droppable_pins(scenario, at_fault, catalogue) or f"leave out {listing(texts, 'or')}"
    if len(at_fault) > 2:
        return Reason(f"{listing(texts)} cannot be had together; without any one of them the others can", step)
    toolkit, other = sorted(at_fault, key=lambda asked: asked.name != "cuda-version")
    if toolkit.name == "cuda-version" != other.name and not (
        other.pinned and catalogue.pick(replace(ideal, specs=(toolkit.text, other.name)))
    ):
        specs = (toolkit.text, other.text)
        elsewhere = [
            p for p in PLATFORMS if p != ideal.subdir and catalogue.pick(replace(ideal, subdir=p, specs=specs))
        ]
        place = f" on {ideal.subdir} (it is on {listing(elsewhere)})" if elsewhere else ""
        has = listing(_toolkits_for(other, ideal, catalogue))
        return Reason(f"{other.text} is not published for {_in_words(toolkit)}{place}; it is for {has}", step)
    how = "contradict each other" if toolkit.pinned and other.pinned else "cannot be had together"
    return Reason(f"{texts[0]} and {texts[1]} {how}", step)


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
    versions = list(dict.fromkeys(str(record.version) for record in catalogue.records(need.name)))
    step = f"name a base channel that has {need.name}, such as --base conda-forge"
    if versions:
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
    match = MatchSpec(text)
    name = str(match.name.normalized)
    if name.startswith("__"):
        virtual = [p for p in ideal.virtual_packages if p.name.normalized == name]
        fits = any(match.version is None or VersionSpec(match.version).matches(p.version) for p in virtual)
        known[text] = () if fits else (text,)
        return known[text]
    first: tuple[str, ...] = ()
    for record in catalogue.records(name):
        if not match.matches(record):
            continue
        chains = (_chain_to_missing(dependency, ideal, catalogue, known) for dependency in record.depends)
        chain = next((c for c in chains if c), ())
        if not chain:
            return ()
        first = first or chain
    known[text] = (text, *first)
    return known[text]


# Drivers and GPUs that a request cannot do with.


def _machine_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """What the machine lacks for a request that another machine can have."""
    if not catalogue.pick(_ideal(scenario)):
        return None
    at_fault = conflict(scenario, catalogue)
    pins = _droppable_pins(scenario, at_fault, catalogue)
    if catalogue.pick(replace(scenario, driver=ANY_DRIVER)):
        reason = _driver_reason(scenario, at_fault, catalogue)
        return replace(reason, step=f"{reason.step}, or {pins}" if pins else reason.step)
    if catalogue.pick(replace(scenario, arch=None)):
        reason = _gpu_reason(scenario, at_fault, catalogue)
        return replace(reason, step=pins or reason.step)
    driver = _driver_reason(replace(scenario, arch=None), at_fault, catalogue)
    gpu = _gpu_reason(replace(scenario, driver=ANY_DRIVER), at_fault, catalogue)
    return Reason(f"{driver.sentence}; besides, {gpu.sentence}", pins or f"{driver.step}, and {gpu.step}")


def _driver_reason(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> Reason:
    """The reason of a request that a newer driver solves."""
    drivers = {d for t in catalogue.toolkits for d in (t.driver, t.compat_driver) if d}
    newer = [d for d in sorted(drivers, key=Version) if not scenario.driver or older(scenario.driver, d)]

    def least(specs: tuple[str, ...]) -> str:
        return next((d for d in newer if catalogue.pick(replace(scenario, specs=specs, driver=d))), "")

    need, any_toolkit = least(scenario.specs), ("cuda-version",)
    if not scenario.driver:
        step, have = "ask for it with --driver", "there is none"
    else:
        step = f"update the driver to one for CUDA {need} or newer"
        have = f"this one supports {scenario.driver}"
        if not catalogue.pick(replace(scenario, specs=any_toolkit)):
            cause = f"the driver supports CUDA {scenario.driver}; the oldest toolkit in the channel needs"
            return Reason(f"{cause} {least(any_toolkit)}", step)
    subject, plural = _subject(at_fault, scenario, catalogue)
    return Reason(f"{subject} need{'' if plural else 's'} a driver for CUDA {need} or newer; {have}", step)


def _gpu_reason(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> Reason:
    """The reason of a request that another GPU solves."""
    arch = scenario.arch or ""
    gpus = {gpu for t in catalogue.toolkits for gpu in t.gpus}
    ordered = sorted(gpus | {str(record.version) for record in catalogue.records("cuda-arch")}, key=Version)
    beside = (gpu for gpu in ordered if older(arch, gpu)), (gpu for gpu in reversed(ordered) if older(gpu, arch))
    above, below = (next((g for g in near if catalogue.pick(replace(scenario, arch=g))), "") for near in beside)
    kind, bound = ("newer", "oldest") if above else ("older", "newest")
    need = above or below
    between = f"{below} or {above}" if above and below else ""
    wanted = f"compute capability {between or f'{need} or {kind}'}"
    step = f"use a GPU of {wanted}"
    if not catalogue.pick(replace(scenario, specs=("cuda-version",))):
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
    asked = [Asked(text) for text in scenario.specs]
    compilers = [a for a in asked if _NVCC.fullmatch(a.name)]
    toolkits = [a for a in asked if a.name == "cuda-version"]
    return bool(compilers) and (
        bool(scenario.driver and older(scenario.driver, "13.0"))
        or any(_before_13(a, [t.version for t in catalogue.toolkits]) for a in toolkits)
        or any(_before_13(a, [str(r.version) for r in catalogue.records(a.name)]) for a in compilers)
    )


def _before_13(asked: Asked, versions: list[str]) -> bool:
    """Whether a spec names CUDA 12, and no version of CUDA 13 or newer fits it."""
    wanted = asked.match.version
    if wanted is None or not re.search(r"(?<![\d.])12(?!\d)|<13", wanted):
        return False
    newer = [v for v in versions if Version(v) >= Version("13")]
    return not any(VersionSpec(wanted).matches(Version(v)) for v in newer)
