"""Explains why a pick has its toolkit, why a request has no solution, and which builds a request
should name.

Each sentence is proved by solving the request again with one change at a time (driver, GPU, specs,
Python, platform): the sentence names the change that makes the difference. If a request has no
solution on any machine, the request is the cause; otherwise it is the driver, the GPU or both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rattler import PackageRecord, RepoDataRecord, Version, VersionSpec

from ctk.core.console import count, listing
from ctk.core.errors import Unsolvable, nearest
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.lock.model import ReleaseLock
from ctk.package.records import glibc_floor, spec_name
from ctk.package.records import records as read_records
from ctk.plan.messages import shown
from ctk.plan.names import OtherName, known_substitutes
from ctk.plan.plan import release_for
from ctk.solve.advice import LOOK_ELSEWHERE, asking_for_cuda, base_with, elsewhere
from ctk.solve.change import needs_cuda, nvjitlink_of_another_toolkit, unasked_nvjitlink
from ctk.solve.machine import GLIBC, glibc_in_words, glibc_of, is_glibc_stated, python_specs
from ctk.solve.solve import (
    ANY_DRIVER,
    ANY_GLIBC,
    ASKING,
    ASKS,
    ASKS_NATIVE,
    PYTHON,
    Catalogue,
    ChannelToolkit,
    Pick,
    Scenario,
    Spec,
    lasting,
    older,
    parse_spec,
    solve,
    spec_of_record,
)

COMPAT = "cubin and nvJitLink work, PTX JIT does not"
_SHOWN = 8  # versions or builds that a sentence names
_THREE_NUMBERS = re.compile(r"(?:={1,2})?(\d+\.\d+)\.\d+(?:\.\*)?")
_READ_SOLVER = "read what the solver says"
NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers"
_NVCC = re.compile(r"cuda-nvcc|cuda-nvcc-impl|cuda-nvcc_.*|cuda-crt-tools")
_OF_CUDA_12 = re.compile(r"(?<![\d.])12(?!\d)|<13")

Reason = tuple[str, str]
"""A sentence with the cause of a missing solution, and the next step for the user."""


# --- why a pick has its toolkit


def fit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """The meaning of native or compat for the machine of a pick, in words.

    "" for a pick without CUDA. A compat pick can be limited by the driver (it refuses PTX that is
    newer than it, error 222) and by the GPU (if the compiler does not know it, it can write only
    PTX for an older GPU).
    """
    toolkit, machine = catalogue.toolkit(pick.toolkit), pick.scenario
    if toolkit is None or not pick.fit:
        return ""
    if pick.fit == "native":
        return "native: the driver loads the PTX that it compiles"
    if not machine.driver:
        return "compat: it makes machine code, which a machine with a driver runs"
    refused = older(machine.driver, toolkit.driver or toolkit.version)
    if machine.arch and not toolkit.knows(machine.arch):
        below, above = toolkit.beside(machine.arch)
        if refused:
            return (
                "compat: the driver does not load its PTX, and its compiler does not know the GPU"
            )
        if above:
            return (
                f"compat: its compiler knows {below} and {above} but not this GPU; PTX for {below}"
                " works"
            )
        return (
            f"compat: its compiler knows GPUs up to {below}, whose PTX the driver compiles for"
            " this one"
        )
    if refused:
        return f"compat: {COMPAT}"
    return "compat, as asked for: the driver loads the PTX that it compiles all the same"


def toolkit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """``toolkit 13.0, native: ...`` with the meaning for the machine of a pick, or ``no CUDA
    toolkit``.
    """
    if not pick.toolkit:
        return "no CUDA toolkit"
    return f"toolkit {pick.toolkit}, {fit_in_words(pick, catalogue)}".removesuffix(", ")


def explain(pick: Pick, catalogue: Catalogue) -> list[str]:
    """A line for each toolkit that was not picked, newest first, and a line for the picked toolkit.

    Older toolkits than the pick have a line only if the pick is compat because of the machine, so
    that none is native.
    """
    if not pick.toolkit:
        return ["nothing in this pick depends on a CUDA toolkit"]
    if not any(toolkit.driver for toolkit in catalogue.toolkits):
        return ["this channel's cuda-version has no native and compat builds to choose by"]
    lines = []
    for toolkit in catalogue.toolkits:
        parts: list[str] = []
        if toolkit.version == pick.toolkit:
            parts = [f"{toolkit.version} is picked, {fit_in_words(pick, catalogue)}"]
            if pick.fit == "compat":
                parts += _not_native(pick.scenario, toolkit, catalogue)
            parts += _newer_libraries(pick)
        elif older(pick.toolkit, toolkit.version) or (
            pick.fit == "compat" and pick.scenario.driver
        ):
            parts = _passed_over(pick, toolkit, catalogue)
        if parts:
            lines.append(" ".join(f"{part[0].upper()}{part[1:]}." for part in parts))
    return lines


def _newer_libraries(pick: Pick) -> list[str]:
    """Sentences about libraries of a newer toolkit than the picked toolkit, and the effect
    on PTX.
    """
    sentences = []
    for name, library in (("libnvjitlink", "nvJitLink"), ("libnvfatbin", "nvFatbin")):
        minor = ".".join(pick.version(name).split(".")[:2])
        if minor and older(pick.toolkit, minor):
            ptx = (
                f", and PTX that it links needs a driver for CUDA {minor}"
                if name == "libnvjitlink"
                else ""
            )
            sentences.append(
                f"{pick.toolkit} has no {library} that Python can use: {name} is {minor}'s{ptx}"
            )
    return sentences


def _passed_over(pick: Pick, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """The reasons why a toolkit was not picked.

    For a newer toolkit also how to get it in spite of that.
    """
    scenario, version, newer = pick.scenario, toolkit.version, older(pick.toolkit, toolkit.version)
    wanted = scenario.also(f"cuda-version={version}")
    if own := _blocking(scenario, wanted.ideal, catalogue):
        return [f"{version} is left out by your {listing(own)}"] if newer else []
    if reason := request_reason(wanted, catalogue):
        return [f"{version}: {reason[0]}"]
    reasons = _not_native(scenario, toolkit, catalogue)
    if not newer:
        return reasons
    pinned = catalogue.pick(wanted)
    if pinned and pinned.fit == "compat":
        words = fit_in_words(pinned, catalogue).removeprefix("compat: ")
        use = "use minor-version compatibility" if words == COMPAT else "have it all the same"
        reasons.append(f"pin cuda-version={version} to {use}: {words}")
    elif not pinned and scenario.driver and older(scenario.driver, toolkit.compat_driver or "0"):
        reasons.append(
            f"even minor-version compatibility needs a driver for CUDA {toolkit.compat_driver}"
        )
    return reasons


def _blocking(scenario: Scenario, wanted: Scenario, catalogue: Catalogue) -> list[str]:
    """The pins of a request that alone exclude a wanted scenario.

    Empty if the scenario has a solution.
    """
    if catalogue.solves(wanted):
        return []
    pins = [a for a in map(parse_spec, scenario.specs) if a.pinned and a.name not in PYTHON]
    return [pin.text for pin in pins if catalogue.solves(_without_pin(wanted, pin))]


def _not_native(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """The reasons why the native build of a toolkit is not for this machine: from its record,
    confirmed by solving.
    """
    version, reasons = toolkit.version, []
    lifted = scenario.also(f"cuda-version={version}=native_*")
    if native := catalogue.pick(lifted):
        cpu = cpu_instead(catalogue.pick(scenario), native)
        how = f"with the CPU build of {listing(cpu)}" if cpu else ""
        how = how or "and the solver preferred other versions of what was asked for"
        return [f"{version} native can be had too, {how}"]
    if not scenario.driver or older(scenario.driver, toolkit.driver or "0"):
        have = f"this one supports {scenario.driver}" if scenario.driver else "there is none"
        reasons.append(f"{version} native needs a driver for CUDA {toolkit.driver}; {have}")
        lifted = replace(lifted, driver=toolkit.driver)
    if scenario.arch and not toolkit.knows(scenario.arch):
        below, above = toolkit.beside(scenario.arch)
        cannot = "does not know" if below else "cannot compile for"
        known = f"it knows {below} and {above}" if above else f"its newest is {below}"
        known = known if below else f"its oldest is {above}"
        reasons.append(f"{version} {cannot} compute capability {scenario.arch}; {known}")
        lifted = replace(lifted, arch=None)
    if catalogue.solves(lifted):
        return reasons
    own = _blocking(scenario, lifted, catalogue)
    return [
        f"{version} native is left out by"
        f" {f'your {listing(own)}' if own else 'more than one thing'}"
    ]


def cpu_instead(pick: Pick | None, other: Pick) -> list[str]:
    """The packages with a CUDA build in `pick` and a CPU build in `other`, without those that
    others depend on.
    """
    cuda = {r.name for r in pick.records if needs_cuda(r)} if pick else set()
    cpu = [r for r in other.records if r.name in cuda and not needs_cuda(r)]
    brought = {need.split()[0] for record in cpu for need in record.depends}
    return [name for r in cpu if (name := r.name.normalized) not in brought]


# --- why a request has no solution


def solve_or_say_why(scenario: Scenario, catalogue: Catalogue, lines: int | None = None) -> Pick:
    """Solves a scenario.

    Raises:
        Unsolvable: There is no solution; with the reason and the first `lines` of the solver's text
            (None: all lines).
    """
    try:
        return solve(scenario, catalogue.channels, catalogue.gateway)
    except Unsolvable as error:
        to_build = _not_built_reason(scenario, catalogue)
        sentence, step = to_build or find_reason(scenario, catalogue)
        missing = bool(to_build or _missing_package(scenario, catalogue))
        text = error.cause.splitlines()
        # For a package that is not there, the solver repeats the same for each name, or names what
        # would not help.
        shown = text[: 0 if missing and lines is not None else lines]
        if not missing and len(text) > len(shown):
            shown.append(
                f"... and {count(len(text) - len(shown), 'line')} more; --explain shows all"
            )
        raise Unsolvable("\n".join([sentence, *shown]), step, error.solver) from None


def _not_built_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if the built channel lacks packages that `ctk build` makes for this machine.

    Else None. It is proved with the planned channel: `ctk build` with a driver takes the toolkit
    that the names alone are given.
    """
    known = catalogue.names([scenario.subdir, NOARCH])
    request = [parse_spec(text) for text in scenario.specs]
    ours = [spec for spec in request if catalogue.maker(spec.name)]
    if (
        not catalogue.planned
        or not ours
        or any(a.name not in known for a in request if a not in ours)
    ):
        return None
    planned = catalogue.planned()
    if not (pick := planned.pick(scenario)):
        return None

    def lacking(*toolkit: str) -> list[str]:
        return [a.name for a in ours if not catalogue.solves(scenario, specs=(a.text, *toolkit))]

    names = lacking(f"cuda-version={pick.toolkit}") if pick.toolkit else lacking()
    if not names or any(_in_unnamed_channel(catalogue, name) for name in names):
        return None
    missing = _missing_package(scenario, catalogue)
    built = planned.pick(replace(scenario, specs=tuple(names)))
    if not built or built.toolkit != pick.toolkit:  # `ctk build` with a driver takes another one
        return _release_not_built(names, pick, missing, catalogue) if pick.toolkit else None
    alone = lacking() or names
    cause = f"{listing(alone)} {'are' if len(alone) > 1 else 'is'} not built here for this machine"
    return missing[0] if missing else cause, f"run {how_to_build(names, scenario)}"


def _release_not_built(
    names: Sequence[str], pick: Pick, missing: Reason | None, catalogue: Catalogue
) -> Reason | None:
    """The reason if a request states a toolkit that is locked and not built: the step builds that
    release.
    """
    if catalogue.toolkit(pick.toolkit):
        return None
    makers = [made for name in names if (made := catalogue.maker(name))]
    packages = (
        []
        if all(made.is_default for made in makers)
        else [name for name in names if name != "cuda-version"]
    )
    step = f"run {how_to_build(packages, pick.scenario, pick.toolkit)}"
    return missing[0] if missing else f"toolkit {pick.toolkit} is not built here", step


def how_to_build(packages: Iterable[str], scenario: Scenario, release: str = "") -> str:
    """The command that builds packages, or without any the default set, for the machine of a
    scenario or a release.
    """
    platform = None if scenario.subdir == this_platform() else scenario.subdir
    machine = {"--driver": scenario.driver, "--arch": scenario.driver and scenario.arch}
    options = {**({"--release": release} if release else machine), "--platform": platform}
    words = [word for option, value in options.items() if value for word in (option, value)]
    return f"`{shlex.join(['ctk', 'build', *packages, *words])}`"


def find_reason(scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason why a scenario has no solution."""
    sentence, step = (
        _missing_package(scenario, catalogue)
        or request_reason(scenario, catalogue)
        or _machine_reason(scenario, catalogue)
        or (f"{listing(scenario.specs)}: no cause was found by changing one thing", _READ_SOLVER)
    )
    return f"{sentence}; {NO_NVCC}" if _wants_nvcc_12(scenario, catalogue) else sentence, step


def _wants_nvcc_12(scenario: Scenario, catalogue: Catalogue) -> bool:
    """Whether a request needs nvcc and cannot have CUDA 13, because of the driver or a spec for
    CUDA 12.
    """
    request = [parse_spec(text) for text in scenario.specs]
    if not any(_NVCC.fullmatch(a.name) for a in request):
        return False
    if scenario.driver and older(scenario.driver, "13.0"):
        return True
    for wanted in request:
        toolkit = wanted.name == "cuda-version" or _NVCC.fullmatch(wanted.name)
        if toolkit and _OF_CUDA_12.search(wanted.version):
            newer = [Version(v) for v in catalogue.versions(wanted.name) if not older(v, "13")]
            if not any(map(VersionSpec(wanted.version).matches, newer)):
                return True
    return False


def _without_pin(scenario: Scenario, pin: Spec) -> Scenario:
    return replace(
        scenario, specs=tuple(pin.name if text == pin.text else text for text in scenario.specs)
    )


def conflict(scenario: Scenario, catalogue: Catalogue) -> list[Spec]:
    """A smallest set of specs without a solution: without any of them, the others have
    a solution.
    """
    left = [parse_spec(text) for text in dict.fromkeys(scenario.specs)]
    # The specs that say most are tried last, so they stay: pins rather than names, cuda-version
    # rather than others.
    for spec in sorted(
        left, key=lambda a: (a.pinned, a.name not in PYTHON, a.name == "cuda-version")
    ):
        fewer = [other for other in left if other is not spec]
        if fewer and not catalogue.solves(scenario, specs=tuple(a.text for a in fewer)):
            left = fewer
    return left


def _droppable_pins(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> str:
    """The pins (or `ASKING`) that can be dropped, each alone, with the toolkit that this gives.

    "" if none helps.
    """
    ways = []
    for spec in at_fault:
        left = tuple(text for text in scenario.specs if text != spec.text)
        if spec.pinned:
            how, without = f"drop the pin {spec.text}", _without_pin(scenario, spec)
        elif spec.name == ASKS_NATIVE and catalogue.solves(scenario, specs=(ASKS, *left)):
            how, without = (
                f"name {ASKS} in place of {ASKS_NATIVE}",
                replace(scenario, specs=(ASKS, *left)),
            )
        elif spec.name in ASKING and left:
            how, without = f"leave out {spec.name}", replace(scenario, specs=left)
        else:
            continue
        if pick := catalogue.pick(without):
            gives = (
                f", which gives toolkit {f'{pick.toolkit} {pick.fit}'.strip()}"
                if pick.toolkit
                else ""
            )
            ways.append(how + gives)
    return ", or ".join(ways)


def _toolkits_for(package: Spec, ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits for which a spec has a solution, oldest first."""
    versions = [toolkit.version for toolkit in reversed(catalogue.toolkits)]
    return [
        v for v in versions if catalogue.solves(ideal, specs=(package.text, f"cuda-version={v}"))
    ]


def _in_words(*specs: Spec) -> str:
    """``toolkit 12.9`` for ``cuda-version=12.9``, ``Python 3.14t`` for the specs of --python 3.14t,
    else the spec.
    """
    first, version = specs[0], _plain(specs[0].version)
    if first.name == "cuda-version" and re.fullmatch(r"[\d.]+", version):
        return f"toolkit {version}"
    if first.name in PYTHON:
        free_threaded = any(a.name == "python_abi" and a.build.endswith("t") for a in specs)
        return f"Python {version}{'t' if free_threaded else ''}"
    return first.text


def _plain(version: str) -> str:
    """A version as a person writes it: ``13.7`` for ``==13.7`` and ``13.7.*``."""
    return re.sub(r"^==|\.\*$", "", version)


def _missing_package(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if the channels do not have a package, or a version of it, for the platform.

    Else None.
    """
    names = catalogue.names([scenario.subdir, NOARCH])
    for wanted in map(parse_spec, scenario.specs):
        if wanted.name.startswith("__"):
            continue
        if wanted.name not in names:
            return _missing_name(wanted.name, names, scenario, catalogue)
        if not any(wanted.match.matches(record) for record in catalogue.records(wanted.name)):
            return _missing_version(wanted, scenario, catalogue)
    return None


def _missing_version(wanted: Spec, scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason if the channels have a package, but not the version or build of a spec."""
    three = _THREE_NUMBERS.fullmatch(wanted.version)
    if three and wanted.name == "cuda-version":
        return _two_numbers(wanted, three[1], scenario, catalogue)
    planned = catalogue.planned() if catalogue.planned else None
    is_made = planned and any(map(wanted.match.matches, planned.records(wanted.name)))
    if planned and is_made and not planned.solves(scenario):
        return _not_if_built(scenario, planned, catalogue)
    words = " ".join(filter(None, [wanted.name, _plain(wanted.version), wanted.build]))
    if wanted.name in PYTHON:
        words = _in_words(*(a for a in map(parse_spec, scenario.specs) if a.name in PYTHON))
    have = _versions(wanted, catalogue)
    some = listing(have[:_SHOWN][::-1])
    step = "ask for one of those" if len(have) > 1 else f"ask for {have[0]}"
    if catalogue.is_planned:
        they_make = "the newest that they make are" if len(have) > _SHOWN else "they make"
        return f"the recipes here make no {words}; {they_make} {some}", step
    are = "there is" if len(have) == 1 else "there are" if len(have) <= _SHOWN else "the newest are"
    return f"there is no {words} in the channels; {are} {some}", step + _other_base(
        wanted.name, catalogue
    )


def _versions(wanted: Spec, catalogue: Catalogue) -> list[str]:
    """The versions of a package, newest first, with their builds if a spec asks for a build."""
    records = catalogue.records(wanted.name)
    if wanted.name in PYTHON and wanted.version.count(".") < 2 + wanted.version.endswith(".*"):
        return [*catalogue.pythons[::-1]]  # as --python takes them
    if wanted.name in PYTHON or not wanted.build:
        return catalogue.versions(wanted.name)
    builds = list(dict.fromkeys(f"{r.version} {r.build}" for r in records))
    return (
        builds
        if len(builds) <= _SHOWN
        else list(dict.fromkeys(f"{r.version} {_kind_of(r)}" for r in records))
    )


def _kind_of(record: RepoDataRecord) -> str:
    """A pattern of the first word of a build: ``cuda13_*``."""
    first, underscore, _ = str(record.build).partition("_")
    return f"{first}_*" if underscore else first


def _two_numbers(wanted: Spec, two: str, scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a version of cuda-version with three numbers: it has two."""
    text = f"{wanted.name}={two}" + (f"={wanted.build}" if wanted.build else "")
    instead = replace(
        scenario, specs=tuple(text if s == wanted.text else s for s in scenario.specs)
    )
    cause = f"cuda-version has two numbers, and {_plain(wanted.version)} has three"
    if catalogue.solves(instead):
        return cause, f"ask for `{shlex.join([text])}`"
    other, step = _not_built_reason(instead, catalogue) or find_reason(instead, catalogue)
    return f"{cause}; {other}", step


def _missing_name(name: str, names: set[str], scenario: Scenario, catalogue: Catalogue) -> Reason:
    subdir = catalogue.subdir
    ours, base = catalogue.channels[:-1] or catalogue.channels, catalogue.channels[-1]
    if not catalogue.names([subdir], ours) and (
        not catalogue.is_named or name in catalogue.names(PLATFORMS)
    ):
        step = (
            "name another --channel"
            if catalogue.is_named
            else f"build it: ctk build --platform {subdir}"
        )
        return f"the channel has nothing for {subdir}", step
    if not catalogue.names([subdir], [base]) and name in catalogue.names(PLATFORMS, [base]):
        return (
            f"{name} would come from the base channel, which has nothing for {subdir}",
            base_with(name, catalogue),
        )
    if others := [p for p in PLATFORMS if p != subdir and name in catalogue.names([p])]:
        options = listing([f"--platform {p}" for p in others], "or")
        cause = f"{name} is not published for {subdir}; it is for {listing(others)}"
        return (
            cause,
            elsewhere(name, name, scenario, catalogue) or f"leave it out, or ask for {options}",
        )
    absent = [spec.name for spec in map(parse_spec, scenario.specs) if spec.name not in names]
    if unnamed := _in_unnamed_channel(catalogue, name, *absent):
        return unnamed
    if (maker := catalogue.maker(name)) and catalogue.is_named:
        places = [lasting(str(channel)) for channel in catalogue.channels]
        return f"{name} is not in {listing(places, 'or')}", "name a --channel or --base that has it"
    if maker:
        return _name_not_built(name, absent, scenario, catalogue)
    known = catalogue.known_names()
    if other := known.meant_by(name):
        return _other_name(name, other, scenario, catalogue)
    cause = f"there is no package {name} in the channels"
    if step := elsewhere(name, name, scenario, catalogue):
        return cause, step
    if name in known.own:
        return cause, LOOK_ELSEWHERE
    # Nobody who asks for pytorch means python.
    near = nearest(name, names, cutoff=0.75)
    return cause, f"did you mean {listing(near, 'or')}?" if near else LOOK_ELSEWHERE


def _name_not_built(
    name: str, absent: Iterable[str], scenario: Scenario, catalogue: Catalogue
) -> Reason:
    """The reason for a package of the recipes that is in no channel.

    What of it could be built decides the step.
    """
    makers = {other: made for other in dict.fromkeys(absent) if (made := catalogue.maker(other))}
    recipes = list(dict.fromkeys(made.recipe for made in makers.values()))
    planned = catalogue.planned() if catalogue.planned else None
    if planned and name not in planned.names([scenario.subdir, NOARCH]):
        cause = f"the recipe {makers[name].recipe} makes no {name} for {scenario.subdir}"
        return cause, elsewhere(name, name, scenario, catalogue) or "leave it out"
    if planned and not planned.solves(scenario):
        return _not_if_built(scenario, planned, catalogue)
    them, s = (
        ("are not built here: they are", "s")
        if len(makers) > 1
        else ("is not built here: it is", "")
    )
    cause = (
        f"{listing([*makers])} {them} made by the recipe{s * (len(recipes) > 1)} {listing(recipes)}"
    )
    left_out = (
        ""
        if any(made.is_default for made in makers.values())
        else ", which the default build leaves out"
    )
    return f"{cause}{left_out}", f"run {how_to_build(recipes, scenario)}"


def _not_if_built(scenario: Scenario, planned: Catalogue, catalogue: Catalogue) -> Reason:
    """The reason for a request that has no solution here, and had none if all packages
    were built.
    """
    cause, step = find_reason(scenario, planned)
    there = catalogue.names([scenario.subdir, NOARCH])
    asked = dict.fromkeys(spec.name for spec in map(parse_spec, scenario.specs))
    absent = [name for name in asked if name not in there and catalogue.maker(name)]
    if not absent or planned.solves(scenario.ideal):  # else it is the machine
        return cause, step
    are = "are" if len(absent) > 1 else "is"
    return (
        f"{cause}; {listing(absent)} {are} not built here",
        f"{step}; then run {how_to_build(absent, scenario)}",
    )


def _other_name(name: str, other: OtherName, scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a name that is known, with the requests in its place, in its version, that
    have a solution.
    """
    if not other.requests:
        steps = [other.step, elsewhere(other.instead, name, scenario, catalogue)]
        return other.sentence, "\n".join(filter(None, steps)) or "leave it out"
    instead = dict(_in_place_of(name, request, scenario) for request in other.requests)
    best = next(iter(instead))
    solved = [words for words, asked in instead.items() if catalogue.solves(asked)]
    if best in solved:
        return other.sentence, f"ask for {listing(solved, 'or')}"
    cause, step = _not_built_reason(instead[best], catalogue) or find_reason(
        instead[best], catalogue
    )
    if solved:
        return other.sentence, f"ask for {listing(solved, 'or')}; for {best}: {step}"
    return f"{other.sentence}; {cause}", step


def _in_place_of(name: str, request: str, scenario: Scenario) -> tuple[str, Scenario]:
    """The words that take the place of a name, the first in its version.

    And the scenario with them.
    """
    named = [a.text for a in map(parse_spec, scenario.specs) if a.name == name]
    rest = [text for text in scenario.specs if text not in named]
    there = {parse_spec(text).name for text in rest}
    first, *more = request.split()
    new = [re.sub(re.escape(name), first, text, count=1, flags=re.IGNORECASE) for text in named]
    new += [word for word in more if parse_spec(word).name not in there]
    return f"`{shlex.join(new)}`", replace(scenario, specs=(*new, *rest))


def _in_unnamed_channel(catalogue: Catalogue, name: str, *others: str) -> Reason | None:
    """The reason for a package of a channel that `ctk build` or `ctk build-recipe` wrote beside one
    that is asked.

    The step names every such channel that it, the others, and what they need are in.
    """
    *ours, _ = catalogue.channels
    asked = [Path(lasting(str(channel))) for channel in ours if isinstance(channel, Path)]
    subdirs = [catalogue.subdir, NOARCH]
    for output in dict.fromkeys(place.parents[place.parent.name == "recipes"] for place in asked):
        recipes = sorted(
            output.glob("recipes/*/*/repodata.json"), key=lambda index: -index.stat().st_mtime
        )
        places = dict.fromkeys(
            index.parents[1] for index in (*output.glob("channel/*/repodata.json"), *recipes)
        )
        wanted, found = [*others, name], dict[str, Path]()
        while wanted:
            needed = wanted.pop()
            made = next(
                (p for p in places if p not in asked and needed in catalogue.names(subdirs, [p])),
                None,
            )
            if made and made not in found.values():
                found[needed] = made
                needs = {
                    spec_name(need)
                    for record in read_records(made).values()
                    for need in record["depends"]
                }
                wanted += sorted(
                    needs - catalogue.names(subdirs, [*catalogue.channels, *found.values()])
                )
        if name in found:
            first, last = (
                [p for p in found.values() if (p.name == "channel") is built]
                for built in (False, True)
            )
            step = shlex.join(
                word for place in (*first, *asked, *last) for word in ("--channel", shown(place))
            )
            return (
                f"{name} is in the channel {shown(found[name])}, which was not named",
                f"name the channels: {step}",
            )
    return None


def _other_base(name: str, catalogue: Catalogue) -> str:
    """The advice to try another base channel, for a package that is not ours.

    "" for our packages.
    """
    return (
        "" if name in catalogue.own_names else ", or name a base channel that has more with --base"
    )


def request_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason of a request that has no solution on any machine.

    None if a machine has a solution.
    """
    ideal = scenario.ideal
    if catalogue.solves(ideal):
        return None
    if reason := _glibc_reason(ideal, catalogue):
        return reason
    at_fault = conflict(ideal, catalogue)
    texts = [a.text for a in at_fault]
    if len(at_fault) == 1:
        return _missing_dependency(at_fault[0], ideal, catalogue)
    python = [a for a in at_fault if a.name in PYTHON]
    toolkits = [a for a in at_fault if a.name == "cuda-version"]
    packages = [a for a in at_fault if a.name not in (*PYTHON, "cuda-version")]
    if python and len(packages) == 1:
        return _missing_python(packages[0], toolkits, python, ideal, catalogue)
    step = _droppable_pins(scenario, at_fault, catalogue) or f"leave out {listing(texts, 'or')}"
    if len(at_fault) > 2:
        return (
            f"{listing(texts)} cannot be had together; without any one of them the others can",
            step,
        )
    toolkit, other = sorted(at_fault, key=lambda a: a.name != "cuda-version")
    if toolkit.name == "cuda-version" != other.name and not (
        other.pinned and catalogue.solves(ideal, specs=(toolkit.text, other.name))
    ):
        specs = (toolkit.text, other.text)
        others = [
            p
            for p in PLATFORMS
            if p != ideal.subdir
            and _is_for(replace(ideal, subdir=p, specs=specs), other.name, catalogue)
        ]
        place = f" on {ideal.subdir} (it is on {listing(others)})" if others else ""
        has = listing(_toolkits_for(other, ideal, catalogue))
        return (
            f"{other.text} is not published for {_in_words(toolkit)}{place}; it is for {has}",
            step,
        )
    how = "contradict each other" if toolkit.pinned and other.pinned else "cannot be had together"
    return f"{texts[0]} and {texts[1]} {how}", step


def _glibc_reason(ideal: Scenario, catalogue: Catalogue) -> Reason | None:
    """The packages that need a newer glibc, if the request has a solution with one; else None."""
    with_any = catalogue.pick(replace(ideal, glibc=ANY_GLIBC))
    have = glibc_of(ideal.subdir)
    if with_any is None or not have:
        return None
    floors = sorted(set(_need_newer_glibc(with_any, have).values()), key=Version)
    least = next((floor for floor in floors if catalogue.solves(ideal, glibc=floor)), "")
    pick = catalogue.pick(replace(ideal, glibc=least)) if least else None
    if pick is None:
        return None
    needing = _need_newer_glibc(pick, have)
    labels = {f"{record.name.normalized} {record.version}": v for record, v in needing.items()}
    cause = f"{glibc_needs(labels)}, and {glibc_in_words(ideal.subdir)}"
    names = {record.name.normalized for record in needing}
    step = "ask for an older version"
    if isinstance(catalogue.channels[-1], Path) and not names <= catalogue.own_names:
        # What the base channel stands in for, conda-forge has.
        step = "make the base channel on the oldest system that will use it, or name another one"
        step = f"{step}, such as --base conda-forge"
    if ideal.subdir != this_platform() and not is_glibc_stated():
        step = f"{step}, or say what it has: `export {GLIBC}={least}`"
    return cause, step


def _need_newer_glibc(pick: Pick, have: str) -> dict[RepoDataRecord, str]:
    """The packages of a pick that need a newer glibc than one, with the oldest that they need."""
    floors = {record: glibc_floor(record.depends) for record in pick.records}
    return {record: floor for record, floor in floors.items() if floor and older(have, floor)}


def glibc_needs(floors: Mapping[str, str]) -> str:
    """Packages and the oldest glibc that each needs, in words, the newest first.

    Such as ``libstdcxx 12.1.0 needs glibc 2.36, libgcc 12.1.0 and python 3.11.7 need 2.35``.
    """
    said: list[str] = []
    for floor in sorted(set(floors.values()), key=Version, reverse=True):
        packages = [name for name, needed in floors.items() if needed == floor]
        verb = "needs" if len(packages) == 1 else "need"
        version = floor if said else f"glibc {floor}"
        said.append(f"{listing(packages, most=3)} {verb} {version}")
    return ", ".join(said)


def _is_for(scenario: Scenario, name: str, catalogue: Catalogue) -> bool:
    """Whether a scenario with a toolkit has a solution with a CUDA build of a package: a CPU build
    goes with any.
    """
    pick = catalogue.pick(scenario)
    record = pick.record(name) if pick else None
    return record is not None and needs_cuda(record)


def _missing_python(
    package: Spec,
    toolkits: Sequence[Spec],
    python: Sequence[Spec],
    ideal: Scenario,
    catalogue: Catalogue,
) -> Reason:
    """The reason for a package that is not built for a Python, with the Pythons that it is built
    for.
    """
    specs = tuple(a.text for a in (package, *toolkits))
    have = [
        p for p in catalogue.pythons if catalogue.solves(ideal, specs=(*specs, *python_specs(p)))
    ]
    which = " with ".join([_in_words(*python), *map(_in_words, toolkits)])
    cause = f"{package.text} is not built for {which}; it is for {listing(have)}"
    return cause, f"ask for Python {listing(have, 'or')}"


def _missing_dependency(package: Spec, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a package with a dependency that no channel has."""
    chain = _chain_to_missing(package.text, ideal, catalogue, {})
    if not chain:
        newest = next(filter(package.match.matches, catalogue.records(package.name)), None)
        needs = replace(ideal, specs=tuple(newest.depends) if newest else ())
        if catalogue.solves(needs):
            return (
                f"{package.text} cannot be installed from these channels on any machine",
                _READ_SOLVER,
            )
        texts = [spec.text for spec in conflict(needs, catalogue)]
        how = (
            "cannot be had together"
            if texts[1:]
            else "can be installed from these channels on no machine"
        )
        return f"{package.text} needs {listing(texts)}, which {how}", _READ_SOLVER
    need = spec_of_record(chain[-1])
    if need.name.startswith("__"):
        have = listing(
            [str(p.version) for p in ideal.virtual_packages if p.name.normalized == need.name]
        )
        return (
            f"{package.text} needs {need.text}, and this machine has {have}",
            "ask for an older version",
        )
    step = base_with(need.name, catalogue)
    if unnamed := _in_unnamed_channel(catalogue, need.name):
        return f"{package.text} needs {need.text}, and {unnamed[0]}", unnamed[1]
    if versions := catalogue.versions(need.name):
        have = listing(versions[:8][::-1])
        return f"{package.text} needs {need.text}, of which the channels have only {have}", step
    if not catalogue.names([catalogue.subdir], catalogue.channels[-1:]):
        lacks = f"needs {need.name} from the base channel, which has nothing for {ideal.subdir}"
        return f"{package.text} {lacks}", step
    if made := catalogue.maker(need.name):
        target = next(
            (p for p in PLATFORMS if need.name.endswith(f"_{p}")), ideal.subdir
        )  # a cross-compiler's half
        what = [made.recipe]
        if catalogue.planned and target == ideal.subdir:
            planned = catalogue.planned()
            if not any(map(need.match.matches, planned.records(need.name))):
                have = listing(planned.versions(need.name)[:8][::-1])
                lacks = (
                    f"of which the recipes here make only {have}"
                    if have
                    else "which the channels do not have"
                )
                return f"{package.text} needs {need.text}, {lacks}", step
            pick = planned.pick(replace(ideal, specs=(need.text,)))
            if pick and pick.toolkit and not catalogue.toolkit(pick.toolkit):
                what += ["--release", pick.toolkit]
        step = f"run {how_to_build(what, replace(ideal, driver=None, subdir=target))}"
    return f"{package.text} needs {need.text}, which the channels do not have", step


def _chain_to_missing(
    text: str, ideal: Scenario, catalogue: Catalogue, known: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The chain of specs from a spec to a missing dependency; () if nothing is missing.

    A spec is missing if no record matches it, or if all matching records depend on a missing spec.
    """
    if text in known:
        return known[text]
    known[text] = ()  # while its own dependencies are followed: a circle is not missing
    wanted = spec_of_record(text)
    first: tuple[str, ...] = ()
    if wanted.name.startswith("__"):
        versions = [p.version for p in ideal.virtual_packages if p.name.normalized == wanted.name]
        if any(map(VersionSpec(wanted.version or "*").matches, versions)):
            return ()
    else:
        for record in filter(wanted.match.matches, catalogue.records(wanted.name)):
            chains = (
                _chain_to_missing(dependency, ideal, catalogue, known)
                for dependency in record.depends
            )
            chain = next(filter(None, chains), ())
            if not chain:
                return ()
            first = first or chain
    known[text] = (text, *first)
    return known[text]


def _machine_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if the machine lacks something for a request that has a solution on another
    machine; else None.
    """
    if not catalogue.solves(scenario.ideal):
        return None
    at_fault = conflict(scenario, catalogue)
    pins = _droppable_pins(scenario, at_fault, catalogue)
    other = pins or _with_this_driver(at_fault, scenario, catalogue)
    if catalogue.solves(scenario, driver=ANY_DRIVER):
        cause, step = _driver_reason(scenario, at_fault, catalogue)
        return cause, f"{step}, or {other}" if other else step
    if catalogue.solves(scenario, arch=None):
        cause, step = _gpu_reason(scenario, at_fault, catalogue)
        return cause, pins or step
    gpu, gpu_step = _gpu_reason(replace(scenario, driver=ANY_DRIVER), at_fault, catalogue)
    if not catalogue.solves(scenario, specs=("cuda-version",), driver=ANY_DRIVER):
        return gpu, gpu_step
    driver, driver_step = _driver_reason(replace(scenario, arch=None), at_fault, catalogue)
    both = f"{driver_step}, and {gpu_step}"
    return f"{driver}; besides, {gpu}", pins or (f"{both}, or {other}" if other else both)


def _driver_reason(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> Reason:
    """The reason for a request that has a solution with a newer driver."""
    drivers = {d for t in catalogue.toolkits for d in (t.driver, t.compat_driver) if d}
    newer = [
        d for d in sorted(drivers, key=Version) if not scenario.driver or older(scenario.driver, d)
    ]

    def least(*specs: str) -> str:
        return next((d for d in newer if catalogue.solves(scenario, specs=specs, driver=d)), "")

    need = least(*scenario.specs)
    subject, plural = _subject(at_fault, scenario, catalogue)
    needs = f"{subject} need{'' if plural else 's'} a driver for CUDA {need} or newer"
    if not scenario.driver:
        return f"{needs}; there is none", f"state the driver of the machine, as in --driver {need}"
    step = f"update the driver to one for CUDA {need} or newer"
    if not catalogue.solves(scenario, specs=("cuda-version",)):
        oldest = f"the oldest toolkit in the channel needs {least('cuda-version')}"
        gpus = [gpu for toolkit in catalogue.toolkits for gpu in toolkit.gpus]
        if gpus and not scenario.arch:  # such as Kepler, which has no newer driver
            step += (
                f"; that does not help a GPU older than compute capability {min(gpus, key=Version)}"
            )
        return f"the driver supports CUDA {scenario.driver}; {oldest}", step
    return f"{needs}; this one supports {scenario.driver}", step


def _with_this_driver(at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue) -> str:
    """What a machine can have in place of a package that no toolkit for its driver has, in words.

    Or "".
    """
    wanted = at_fault[0]
    pick = catalogue.pick(replace(scenario, specs=("cuda-version",)))
    if len(at_fault) > 1 or wanted.pinned or not scenario.driver or not pick:
        return ""
    for request in known_substitutes(wanted.name):
        if catalogue.solves(scenario, specs=tuple(request.split())):
            return f"for toolkit {pick.toolkit}, which this driver runs, ask for `{request}`"
    return f"do without {wanted.name}: this driver runs toolkit {pick.toolkit} {pick.fit}".rstrip()


def _lacks_code(asked: Spec, arch: str, catalogue: Catalogue) -> str:
    """The cuda-arch that every build of a package needs, and a GPU is not.

    "" if a build is for it.
    """
    needs = ""
    for record in catalogue.records(asked.name):
        if asked.match.matches(record):
            needs = next((spec for spec in record.depends if spec_name(spec) == "cuda-arch"), "")
            version = parse_spec(needs).version if needs else ""
            # A build of cuda-arch is for newer GPUs, too.
            known = [Version(v) for v in catalogue.versions("cuda-arch") if not older(arch, v)]
            if not version or any(map(VersionSpec(version).matches, known)):
                return ""
    return needs


def _gpu_reason(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> Reason:
    """The reason for a request that has a solution with another GPU."""
    arch = scenario.arch or ""
    known = {gpu for t in catalogue.toolkits for gpu in t.gpus} | set(
        catalogue.versions("cuda-arch")
    )
    ordered = sorted(known, key=Version)
    beside = (
        (gpu for gpu in ordered if older(arch, gpu)),
        (gpu for gpu in reversed(ordered) if older(gpu, arch)),
    )
    above, below = (
        next((g for g in near if catalogue.solves(scenario, arch=g)), "") for near in beside
    )
    kind, bound = ("newer", "oldest") if above else ("older", "newest")
    need = above or below
    between = f"{below} or {above}" if above and below else ""
    wanted = f"compute capability {between or f'{need} or {kind}'}"
    step = f"use a GPU of {wanted}"
    if not catalogue.solves(scenario, specs=("cuda-version",)):
        cause = (
            f"no toolkit in the channel compiles for compute capability {arch}; the {bound} that"
            f" any does is {need}"
        )
        return cause, f"{step}; a newer driver does not help"
    for asked in at_fault:
        if need_arch := _lacks_code(asked, arch, catalogue):
            return f"{asked.name} needs {need_arch}: it has no code for a GPU {arch}", step
    subject, plural = _subject(at_fault, scenario, catalogue)
    if subject.endswith("which") or [a.name for a in at_fault] == ["cuda-version"]:
        knows = f"{'they know' if plural else 'it knows'} {below} and {above}"
        knows = knows if between else f"{'their' if plural else 'its'} {bound} is {need}"
        return f"{subject} cannot compile for compute capability {arch}; {knows}", step
    return f"{subject} {'need' if plural else 'needs'} a GPU of {wanted}; this one has {arch}", step


def _subject(
    at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue
) -> tuple[str, bool]:
    """The subject of the sentence, and whether its verb is a plural."""
    first = at_fault[0]
    if len(at_fault) == 1 and first.name != "cuda-version":
        has = _toolkits_for(first, scenario.ideal, catalogue)
        if 0 < len(has) < len(catalogue.toolkits):
            several = len(has) > 1
            return (
                (
                    f"{first.text} is published for toolkit{'s' if several else ''} {listing(has)}"
                    " only, which"
                ),
                several,
            )
    return listing([a.text for a in at_fault]), len(at_fault) > 1


# --- packages with CUDA builds and CPU builds: those that a request should name, and the pick with
# each


def choices(pick: Pick, catalogue: Catalogue) -> Iterator[tuple[str, dict[str, Any]]]:
    """The packages of a pick whose build a request should name: a line for people, and the same for
    `--json`.

    Solvers weigh CUDA and CPU builds differently. Only a build, or `ASKING` for the packages that
    it constrains, gives the same in every client. Without a driver there is nothing to choose, and
    a request with a build has chosen.
    """
    scenario = pick.scenario
    if not scenario.driver:
        return
    request = [parse_spec(text) for text in scenario.specs]
    chosen = {a.name for a in request if a.build}
    if any(a.name in ASKING for a in request):
        chosen |= catalogue.cuda_builds
    both = [
        (record, specs) for record in pick.records if (specs := _both_builds(record, catalogue))
    ]
    brought = {need.split()[0] for record, _ in both for need in record.depends}
    for record, (cuda, cpu) in both:
        name, is_cuda = record.name.normalized, needs_cuda(record)
        if name in brought | chosen:
            continue
        with_cuda, with_cpu = (catalogue.pick(scenario.also(spec)) for spec in (cuda, cpu))
        if name in catalogue.cuda_builds:
            named_first = asking_for_cuda(scenario, catalogue)
            if by_asking := catalogue.pick(named_first):
                cuda = named_first.specs[0]
                with_cuda = by_asking
        line = f"{name} is the CPU build here"
        if with_cuda is None:
            others = [a for a in conflict(scenario.also(cuda), catalogue) if a.text != cuda]
            asking = [r for other in others if (r := pick.record(other.name))]
            if any(need.split()[0] == name for r in asking for need in r.depends):
                continue  # such as pytorch-cpu, which requires the CPU build
            why = f"go with your {listing([a.text for a in others])}" if others else ""
            why = why or _lacking(record, catalogue) or "go with these channels on this machine"
            line += f": its CUDA builds do not {why}"
        else:
            how = f"{cuda}, named first," if cuda in ASKING else f'"{cuda}"'
            gives = f"{how} gives CUDA with {toolkit_in_words(with_cuda, catalogue)}"
            line += f"; {gives}"
            if is_cuda:
                if not with_cpu or not _better(with_cpu, with_cuda):
                    continue
                line = (
                    f"{name} is the CUDA build here, and another client may take the CPU build:"
                    " name the one you want. "
                    f'{gives}; "{cpu}" gives the CPU build with'
                    f" {toolkit_in_words(with_cpu, catalogue)}"
                )
        document = {"package": name, "build": "cuda" if is_cuda else "cpu"}
        ways = {"cuda": _way(cuda, with_cuda), "cpu": _way(cpu, with_cpu)}
        yield line, {**document, **ways}


def _lacking(record: RepoDataRecord, catalogue: Catalogue) -> str:
    """The toolkits that the CUDA builds of a package were compiled with and that the channel lacks,
    in words; or "".
    """
    builds = [r for r in catalogue.records(record.name.normalized) if r.version == record.version]
    needs = {
        m[1]
        for r in builds
        for need in r.depends
        if (m := re.match(r"cuda-version >=(\d+\.\d+)", need))
    }
    lacking = sorted(needs - {toolkit.version for toolkit in catalogue.toolkits}, key=Version)
    return f"go with this channel, which lacks toolkit {listing(lacking)}" if lacking else ""


def _way(spec: str, pick: Pick | None) -> dict[str, str | None] | None:
    return (
        {"spec": spec, "toolkit": pick.toolkit or None, "fit": pick.fit or None} if pick else None
    )


def newer_nvjitlink(records: Sequence[PackageRecord], specs: Iterable[str]) -> Iterator[str]:
    """A sentence if nvJitLink is newer than the toolkit, because the request or a package requires
    that.
    """
    library, toolkit = nvjitlink_of_another_toolkit(records)
    if library is None or toolkit is None or older(library.version, toolkit.version):
        return
    if unasked_nvjitlink(records, specs) is not None:
        return
    yield (
        f"nvJitLink is of toolkit {library.minor}, as asked for: machine code that it links runs,"
        f" and PTX that it writes needs a driver for CUDA {library.minor}"
    )


def native_instead(pick: Pick, catalogue: Catalogue) -> str:
    """The native toolkit that a compat pick could have with builds of the same kind.

    "" without such a toolkit. The cause is a package of another channel that is tied to a minor: if
    a solver decides on it first, it takes the newest.
    """
    if pick.fit != "compat" or not pick.scenario.driver:
        return ""
    native = catalogue.pick(pick.scenario.also("cuda-version=*=native_*"))
    return native.toolkit if native and not cpu_instead(pick, native) else ""


def not_built(pick: Pick, locks: Iterable[ReleaseLock], catalogue: Catalogue) -> str:
    """The locked toolkit that would be native on the machine of a pick, is better, and is not in
    the channel; or "".

    It is proved by the toolkits beside it: on some machine, the request goes with an older one, and
    with a newer one.
    """
    machine = pick.scenario
    measured = [lock for lock in locks if lock.facts]
    best = (
        release_for(measured, machine.subdir, machine.driver, machine.arch)
        if pick.toolkit and machine.driver
        else ""
    )
    has = [toolkit.version for toolkit in catalogue.toolkits]
    if not best or best in has or older(machine.driver or "0", best):
        return ""
    if pick.fit == "native" and older(best, pick.toolkit):
        return ""
    fits = [v for v in has if catalogue.solves(machine.ideal.also(f"cuda-version={v}"))]
    newer = [v for v in has if older(best, v)]
    pinned = any(parse_spec(text).pinned for text in machine.specs)
    return (
        best
        if any(older(v, best) for v in fits) and ({*newer} & {*fits} or not (newer or pinned))
        else ""
    )


def _both_builds(record: RepoDataRecord, catalogue: Catalogue) -> tuple[str, str] | None:
    """The specs for a CUDA build and a CPU build of a package.

    None if it does not have both kinds of builds.
    """
    name = record.name.normalized
    versions = [r for r in catalogue.records(name) if r.version == record.version]
    cuda, cpu = (
        {str(r.build) for r in versions if needs_cuda(r) is kind} for kind in (True, False)
    )
    patterns = _pattern("cuda", cuda, cpu), _pattern("cpu", cpu, cuda)
    return (f"{name}=*={patterns[0]}", f"{name}=*={patterns[1]}") if all(patterns) else None


def _pattern(word: str, builds: set[str], others: set[str]) -> str:
    """A pattern with the word that matches all `builds` and none of the `others`.

    "" if there is none.
    """
    for pattern in (f"{word}*", f"*{word}*"):
        if (
            builds
            and all(fnmatchcase(b, pattern) for b in builds)
            and not any(fnmatchcase(o, pattern) for o in others)
        ):
            return pattern
    return ""


def _better(one: Pick, other: Pick) -> bool:
    """Whether a solver could prefer the first pick: only it is native, or its toolkit is of a newer
    CUDA major.
    """
    if not one.toolkit:
        return False
    return (one.fit, other.fit) == ("native", "compat") or older(
        other.toolkit.split(".")[0], one.toolkit.split(".")[0]
    )
