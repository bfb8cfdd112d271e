"""Explains why a solver picked a toolkit, and why a request has no solution.

Each sentence is proved by solving the request again with one change at a time (driver, GPU, specs,
Python, platform): the sentence names the change that makes the difference. If a request has no
solution on any machine, the request is the cause; otherwise it is the driver, the GPU or both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rattler import PackageRecord, RepoDataRecord, Version, VersionSpec

from ctk.core.console import count, listing
from ctk.core.errors import Unsolvable, nearest
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.package.records import glibc_floor, spec_name
from ctk.plan.messages import shown
from ctk.plan.names import OtherName, known_substitutes
from ctk.solve.advice import (
    LOOK_ELSEWHERE,
    UnnamedChannel,
    base_with,
    checkout_of,
    elsewhere,
    how_to_build,
    in_unnamed_channel,
    other_base,
    what_to_build,
)
from ctk.solve.change import (
    cpu_instead,
    needs_cuda,
    nvjitlink_of_another_toolkit,
    unasked_nvjitlink,
)
from ctk.solve.fit import Fit, LimitedBy, fit_of, limit_on
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

_SHOWN = 8  # versions or builds that a sentence names
_THREE_NUMBERS = re.compile(r"(?:={1,2})?(\d+\.\d+)\.\d+(?:\.\*)?")
_READ_SOLVER = "read what the solver says"
NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers"
_NVCC = re.compile(r"cuda-nvcc|cuda-nvcc-impl|cuda-nvcc_.*|cuda-crt-tools")
_OF_CUDA_12 = re.compile(r"(?<![\d.])12(?!\d)|<13")


class Kind(StrEnum):
    """Why a request has no solution."""

    NOT_BUILT = "not-built"  # recipes of this checkout make it; the step builds it
    UNNAMED_CHANNEL = "unnamed-channel"  # a channel beside those that are asked has it
    NO_PLATFORM = "no-platform"  # what is asked for is not there for the platform
    NO_PACKAGE = "no-package"  # no channel has a package of this name
    OTHER_NAME = "other-name"  # it is known under another name
    NO_VERSION = "no-version"  # no channel has this version or build
    NO_PYTHON = "no-python"  # a package is not built for this Python
    NO_DEPENDENCY = "no-dependency"  # a package needs what no channel has
    CONFLICT = "conflict"  # specs that cannot be had together
    GLIBC = "glibc"
    DRIVER = "driver"
    GPU = "gpu"
    DRIVER_AND_GPU = "driver-and-gpu"
    UNKNOWN = "unknown"  # no cause was found by changing one thing


@dataclass(frozen=True)
class Reason:
    """Why a request has no solution.

    Attributes:
        kind: The kind of the cause.
        cause: A sentence with the cause.
        step: The next step for the user.
        channels: The channels that the step names, in their order.
    """

    kind: Kind
    cause: str
    step: str
    channels: tuple[str, ...] = ()


# --- why a pick has its toolkit


def limit_in_words(fit: Fit) -> str:
    """What limits a compat toolkit on a machine, in words.

    A driver refuses PTX that is newer than it (error 222). A compiler that does not know a GPU can
    write only PTX for an older one.
    """
    match fit.limit:
        case None:
            return ""
        case LimitedBy.NO_DRIVER:
            return "it makes machine code, which a machine with a driver runs"
        case LimitedBy.DRIVER:
            return "cubin and nvJitLink work, PTX JIT does not"
        case LimitedBy.DRIVER_AND_GPU:
            return "the driver does not load its PTX, and its compiler does not know the GPU"
        case LimitedBy.GPU_OLDER:
            return f"its compiler cannot write code for this GPU; its oldest is {fit.above}"
        case LimitedBy.GPU_BETWEEN:
            knows = f"its compiler knows {fit.below} and {fit.above} but not this GPU"
            return f"{knows}; PTX for {fit.below} works"
        case LimitedBy.GPU_NEWER:
            knows = f"its compiler knows GPUs up to {fit.below}"
            return f"{knows}, whose PTX the driver compiles for this one"
        case LimitedBy.AS_ASKED:
            return "as asked for: the driver loads the PTX that it compiles all the same"


def fit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """The meaning of native or compat for the machine of a pick; "" for a pick without CUDA."""
    fit = fit_of(pick, pick.scenario, catalogue.toolkit(pick.toolkit))
    if fit is None or not pick.fit:
        return ""
    if fit.is_native:
        return "native: the driver loads the PTX that it compiles"
    between = ", " if fit.limit is LimitedBy.AS_ASKED else ": "
    return f"compat{between}{limit_in_words(fit)}"


def toolkit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """``toolkit 13.0, native: ...`` for the machine of a pick, or ``no CUDA toolkit``."""
    if not pick.toolkit:
        return "no CUDA toolkit"
    meaning = fit_in_words(pick, catalogue)
    return f"toolkit {pick.toolkit}, {meaning}" if meaning else f"toolkit {pick.toolkit}"


def explain(pick: Pick, catalogue: Catalogue) -> list[str]:
    """A line for each toolkit that was not picked, newest first, and one for the picked toolkit.

    Older toolkits than the pick have a line only if the pick is compat because of the machine, so
    that none is native.
    """
    if not pick.toolkit:
        return ["nothing in this pick depends on a CUDA toolkit"]
    if not any(toolkit.driver for toolkit in catalogue.toolkits):
        return ["this channel's cuda-version has no native and compat builds to choose by"]
    lines = []
    for toolkit in catalogue.toolkits:
        sentences = _about_toolkit(pick, toolkit, catalogue)
        if sentences:
            lines.append(" ".join(f"{text[0].upper()}{text[1:]}." for text in sentences))
    return lines


def _about_toolkit(pick: Pick, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """Sentences that say why a toolkit is the pick, or why it is not."""
    if toolkit.version == pick.toolkit:
        sentences = [f"{toolkit.version} is picked, {fit_in_words(pick, catalogue)}"]
        if pick.fit == "compat":
            sentences += _not_native(pick.scenario, toolkit, catalogue)
        return sentences + _newer_libraries(pick)
    is_newer = older(pick.toolkit, toolkit.version)
    older_could_be_native = pick.fit == "compat" and pick.scenario.driver
    if is_newer or older_could_be_native:
        return _passed_over(pick, toolkit, catalogue)
    return []


def _newer_libraries(pick: Pick) -> list[str]:
    """Sentences about libraries of a newer toolkit than the picked one, and the effect on PTX."""
    sentences = []
    for name, library in (("libnvjitlink", "nvJitLink"), ("libnvfatbin", "nvFatbin")):
        minor = ".".join(pick.version(name).split(".")[:2])
        if not minor or not older(pick.toolkit, minor):
            continue
        ptx = ""
        if name == "libnvjitlink":
            ptx = f", and PTX that it links needs a driver for CUDA {minor}"
        sentences.append(
            f"{pick.toolkit} has no {library} that Python can use: {name} is {minor}'s{ptx}"
        )
    return sentences


def _passed_over(pick: Pick, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """The reasons why a toolkit was not picked.

    For a newer toolkit also how to get it in spite of that.
    """
    scenario, version = pick.scenario, toolkit.version
    is_newer = older(pick.toolkit, version)
    wanted = scenario.also(f"cuda-version={version}")
    if own := _blocking(scenario, wanted.ideal, catalogue):
        return [f"{version} is left out by your {listing(own)}"] if is_newer else []
    if reason := request_reason(wanted, catalogue):
        return [f"{version}: {reason.cause}"]
    reasons = _not_native(scenario, toolkit, catalogue)
    return reasons + _all_the_same(wanted, toolkit, catalogue) if is_newer else reasons


def _all_the_same(wanted: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """How to get a toolkit that is not native, or what even its compat build needs."""
    pinned = catalogue.pick(wanted)
    if pinned is None:
        least = toolkit.compat_driver
        if wanted.driver and least and older(wanted.driver, least):
            return [f"even minor-version compatibility needs a driver for CUDA {least}"]
        return []
    fit = fit_of(pinned, wanted, toolkit)
    if fit is None or pinned.fit != "compat":
        return []
    use = "have it all the same"
    if fit.limit is LimitedBy.DRIVER:
        use = "use minor-version compatibility"
    return [f"pin cuda-version={toolkit.version} to {use}: {limit_in_words(fit)}"]


def _blocking(scenario: Scenario, wanted: Scenario, catalogue: Catalogue) -> list[str]:
    """The pins of a request that alone exclude a wanted scenario.

    Empty if the scenario has a solution.
    """
    if catalogue.solves(wanted):
        return []
    request = [parse_spec(text) for text in scenario.specs]
    pins = [spec for spec in request if spec.pinned and spec.name not in PYTHON]
    return [pin.text for pin in pins if catalogue.solves(_without_pin(wanted, pin))]


def _not_native(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """Why the native build of a toolkit is not for this machine.

    The reasons are from its record, and confirmed by solving.
    """
    version = toolkit.version
    native = scenario.also(f"cuda-version={version}=native_*")
    if pick := catalogue.pick(native):
        cpu = cpu_instead(catalogue.pick(scenario), pick)
        how = "and the solver preferred other versions of what was asked for"
        if cpu:
            how = f"with the CPU build of {listing(cpu)}"
        return [f"{version} native can be had too, {how}"]
    reasons, lifted = [], native
    limit = limit_on(scenario.driver, scenario.arch, toolkit)
    if limit and limit.is_driver and toolkit.driver:
        have = f"this one supports {scenario.driver}" if scenario.driver else "there is none"
        reasons.append(f"{version} native needs a driver for CUDA {toolkit.driver}; {have}")
        lifted = replace(lifted, driver=toolkit.driver)
    if limit and limit.is_gpu and scenario.arch:
        reasons.append(f"{version} {_does_not_know(scenario.arch, toolkit)}")
        lifted = replace(lifted, arch=None)
    if catalogue.solves(lifted):
        return reasons
    own = _blocking(scenario, lifted, catalogue)
    by = f"your {listing(own)}" if own else "more than one thing"
    return [f"{version} native is left out by {by}"]


def _does_not_know(gpu: str, toolkit: ChannelToolkit) -> str:
    """That a compiler does not know a GPU, and which it knows beside it."""
    below, above = toolkit.beside(gpu)
    if not below:
        return f"cannot compile for compute capability {gpu}; its oldest is {above}"
    knows = f"it knows {below} and {above}" if above else f"its newest is {below}"
    return f"does not know compute capability {gpu}; {knows}"


def newer_nvjitlink(records: Sequence[PackageRecord], specs: Iterable[str]) -> list[str]:
    """A sentence if nvJitLink is newer than the toolkit, as the request or a package requires."""
    library, toolkit = nvjitlink_of_another_toolkit(records)
    if library is None or toolkit is None or older(library.version, toolkit.version):
        return []
    if unasked_nvjitlink(records, specs) is not None:
        return []
    return [
        f"nvJitLink is of toolkit {library.minor}, as asked for: machine code that it links runs,"
        f" and PTX that it writes needs a driver for CUDA {library.minor}"
    ]


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
        reason = to_build or find_reason(scenario, catalogue)
        is_missing = bool(to_build or _missing_package(scenario, catalogue))
        # For a package that is not there, the solver repeats the same for each name, or names what
        # would not help.
        most = 0 if is_missing and lines is not None else lines
        text = error.cause.splitlines()
        shown_lines = text[:most]
        if not is_missing and len(text) > len(shown_lines):
            more = count(len(text) - len(shown_lines), "line")
            shown_lines.append(f"... and {more} more; --explain shows all")
        cause = "\n".join([reason.cause, *shown_lines])
        raise Unsolvable(cause, reason.step, error.solver, reason.kind) from None


def find_reason(scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason why a scenario has no solution."""
    reason = (
        _missing_package(scenario, catalogue)
        or request_reason(scenario, catalogue)
        or _machine_reason(scenario, catalogue)
    )
    if reason is None:
        cause = f"{listing(scenario.specs)}: no cause was found by changing one thing"
        reason = Reason(Kind.UNKNOWN, cause, _READ_SOLVER)
    if _wants_nvcc_12(scenario, catalogue):
        return replace(reason, cause=f"{reason.cause}; {NO_NVCC}")
    return reason


def _not_built_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if `ctk build` makes for this machine what the built channel lacks; else None."""
    to_build = what_to_build(scenario, catalogue)
    if to_build is None:
        return None
    missing = _missing_package(scenario, catalogue)
    cause = missing.cause if missing else to_build.cause
    return Reason(Kind.NOT_BUILT, cause, f"run {to_build.command}")


def _wants_nvcc_12(scenario: Scenario, catalogue: Catalogue) -> bool:
    """Whether a request needs nvcc of CUDA 12, because of the driver or of a spec."""
    request = [parse_spec(text) for text in scenario.specs]
    if not any(_NVCC.fullmatch(spec.name) for spec in request):
        return False
    if scenario.driver and older(scenario.driver, "13.0"):
        return True
    for wanted in request:
        is_toolkit = wanted.name == "cuda-version" or _NVCC.fullmatch(wanted.name)
        if is_toolkit and _OF_CUDA_12.search(wanted.version):
            newer = [Version(v) for v in catalogue.versions(wanted.name) if not older(v, "13")]
            if not any(map(VersionSpec(wanted.version).matches, newer)):
                return True
    return False


def _without_pin(scenario: Scenario, pin: Spec) -> Scenario:
    specs = tuple(pin.name if text == pin.text else text for text in scenario.specs)
    return replace(scenario, specs=specs)


def conflict(scenario: Scenario, catalogue: Catalogue) -> list[Spec]:
    """A smallest set of specs without a solution: the others have one without any of them."""
    left = [parse_spec(text) for text in dict.fromkeys(scenario.specs)]

    # The specs that say most are tried last, so they stay: pins rather than names, cuda-version
    # rather than others.
    def says_much(spec: Spec) -> tuple[bool, bool, bool]:
        return spec.pinned, spec.name not in PYTHON, spec.name == "cuda-version"

    for spec in sorted(left, key=says_much):
        fewer = [other for other in left if other is not spec]
        if fewer and not catalogue.solves(scenario, specs=_texts(fewer)):
            left = fewer
    return left


def _texts(specs: Iterable[Spec]) -> tuple[str, ...]:
    return tuple(spec.text for spec in specs)


def _droppable_pins(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> str:
    """The pins (or `ASKING`) that can be dropped, each alone, with the toolkit that this gives.

    "" if none helps.
    """
    ways = []
    for spec in at_fault:
        way = _way_without(spec, scenario, catalogue)
        if way is None:
            continue
        how, without = way
        if pick := catalogue.pick(without):
            gives = ""
            if pick.toolkit:
                toolkit = f"{pick.toolkit} {pick.fit}".strip()
                gives = f", which gives toolkit {toolkit}"
            ways.append(how + gives)
    return ", or ".join(ways)


def _way_without(
    spec: Spec, scenario: Scenario, catalogue: Catalogue
) -> tuple[str, Scenario] | None:
    """How to ask for less than a spec, in words, and the request then; None without such a way."""
    left = tuple(text for text in scenario.specs if text != spec.text)
    if spec.pinned:
        return f"drop the pin {spec.text}", _without_pin(scenario, spec)
    if spec.name == ASKS_NATIVE and catalogue.solves(scenario, specs=(ASKS, *left)):
        how = f"name {ASKS} in place of {ASKS_NATIVE}"
        return how, replace(scenario, specs=(ASKS, *left))
    if spec.name in ASKING and left:
        return f"leave out {spec.name}", replace(scenario, specs=left)
    return None


def _toolkits_for(package: Spec, ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits for which a spec has a solution, oldest first."""
    versions = [toolkit.version for toolkit in reversed(catalogue.toolkits)]
    return [
        version
        for version in versions
        if catalogue.solves(ideal, specs=(package.text, f"cuda-version={version}"))
    ]


def _in_words(*specs: Spec) -> str:
    """A spec as a person says it.

    ``toolkit 12.9`` for ``cuda-version=12.9``, ``Python 3.14t`` for the specs of --python 3.14t,
    else the spec.
    """
    first, version = specs[0], _plain(specs[0].version)
    if first.name == "cuda-version" and re.fullmatch(r"[\d.]+", version):
        return f"toolkit {version}"
    if first.name in PYTHON:
        abis = [spec for spec in specs if spec.name == "python_abi"]
        free_threaded = "t" if any(abi.build.endswith("t") for abi in abis) else ""
        return f"Python {version}{free_threaded}"
    return first.text


def _plain(version: str) -> str:
    """A version as a person writes it: ``13.7`` for ``==13.7`` and ``13.7.*``."""
    return re.sub(r"^==|\.\*$", "", version)


# --- a package, a version or a build that the channels lack


def _missing_package(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if the channels lack a package or its version for the platform; else None."""
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
    planned = _planned(catalogue)
    is_made = planned and any(map(wanted.match.matches, planned.records(wanted.name)))
    if planned and is_made and not planned.solves(scenario):
        return _not_if_built(scenario, planned, catalogue)
    words = " ".join(filter(None, [wanted.name, _plain(wanted.version), wanted.build]))
    if wanted.name in PYTHON:
        request = [parse_spec(text) for text in scenario.specs]
        words = _in_words(*(spec for spec in request if spec.name in PYTHON))
    have = _versions(wanted, catalogue)
    newest = listing(have[:_SHOWN][::-1])
    step = "ask for one of those" if len(have) > 1 else f"ask for {have[0]}"
    if checkout_of(catalogue).is_planned:
        they_make = "the newest that they make are" if len(have) > _SHOWN else "they make"
        cause = f"the recipes here make no {words}; {they_make} {newest}"
        return Reason(Kind.NO_VERSION, cause, step)
    there_are = "there is" if len(have) == 1 else "there are"
    if len(have) > _SHOWN:
        there_are = "the newest are"
    cause = f"there is no {words} in the channels; {there_are} {newest}"
    return Reason(Kind.NO_VERSION, cause, step + other_base(wanted.name, catalogue))


def _planned(catalogue: Catalogue) -> Catalogue | None:
    """The channels with everything built; None if that makes no difference."""
    planned = checkout_of(catalogue).planned
    return planned() if planned else None


def _versions(wanted: Spec, catalogue: Catalogue) -> list[str]:
    """The versions of a package, newest first, with their builds if a spec asks for a build."""
    if wanted.name in PYTHON and wanted.version.count(".") < 2 + wanted.version.endswith(".*"):
        return [*catalogue.pythons[::-1]]  # as --python takes them
    if wanted.name in PYTHON or not wanted.build:
        return catalogue.versions(wanted.name)
    records = catalogue.records(wanted.name)
    builds = list(dict.fromkeys(f"{r.version} {r.build}" for r in records))
    if len(builds) <= _SHOWN:
        return builds
    return list(dict.fromkeys(f"{r.version} {_kind_of(r)}" for r in records))


def _kind_of(record: RepoDataRecord) -> str:
    """A pattern of the first word of a build: ``cuda13_*``."""
    first, underscore, _ = str(record.build).partition("_")
    return f"{first}_*" if underscore else first


def _two_numbers(wanted: Spec, two: str, scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a version of cuda-version with three numbers: it has two."""
    text = f"{wanted.name}={two}" + (f"={wanted.build}" if wanted.build else "")
    specs = tuple(text if spec == wanted.text else spec for spec in scenario.specs)
    instead = replace(scenario, specs=specs)
    cause = f"cuda-version has two numbers, and {_plain(wanted.version)} has three"
    if catalogue.solves(instead):
        return Reason(Kind.NO_VERSION, cause, f"ask for `{shlex.join([text])}`")
    other = _not_built_reason(instead, catalogue) or find_reason(instead, catalogue)
    return replace(other, cause=f"{cause}; {other.cause}")


def _missing_name(name: str, names: set[str], scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason if no channel has a package for the platform."""
    if reason := _missing_on_platform(name, scenario, catalogue):
        return reason
    request = [parse_spec(text) for text in scenario.specs]
    absent = [spec.name for spec in request if spec.name not in names]
    if unnamed := in_unnamed_channel(catalogue, name, *absent):
        return _unnamed_reason(f"{name} is", unnamed)
    checkout = checkout_of(catalogue)
    maker = checkout.maker(name)
    if maker and checkout.is_named:
        places = [lasting(str(channel)) for channel in catalogue.channels]
        cause = f"{name} is not in {listing(places, 'or')}"
        return Reason(Kind.NO_PACKAGE, cause, "name a --channel or --base that has it")
    if maker:
        return _name_not_built(name, absent, scenario, catalogue)
    known = checkout.known_names()
    if other := known.meant_by(name):
        return _other_name(name, other, scenario, catalogue)
    cause = f"there is no package {name} in the channels"
    if step := elsewhere(name, name, scenario, catalogue):
        return Reason(Kind.NO_PACKAGE, cause, step)
    # Nobody who asks for pytorch means python.
    near = [] if name in known.own else nearest(name, names, cutoff=0.75)
    step = f"did you mean {listing(near, 'or')}?" if near else LOOK_ELSEWHERE
    return Reason(Kind.NO_PACKAGE, cause, step)


def _missing_on_platform(name: str, scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if a channel has nothing for the platform, or a package for others; else None."""
    subdir, checkout = catalogue.subdir, checkout_of(catalogue)
    ours, base = catalogue.channels[:-1] or catalogue.channels, catalogue.channels[-1]
    has_no_platform = not catalogue.names([subdir], ours)
    if has_no_platform and (not checkout.is_named or name in catalogue.names(PLATFORMS)):
        step = f"build it: ctk build --platform {subdir}"
        if checkout.is_named:
            step = "name another --channel"
        return Reason(Kind.NO_PLATFORM, f"the channel has nothing for {subdir}", step)
    if not catalogue.names([subdir], [base]) and name in catalogue.names(PLATFORMS, [base]):
        cause = f"{name} would come from the base channel, which has nothing for {subdir}"
        return Reason(Kind.NO_PLATFORM, cause, base_with(name, catalogue))
    others = [p for p in PLATFORMS if p != subdir and name in catalogue.names([p])]
    if not others:
        return None
    cause = f"{name} is not published for {subdir}; it is for {listing(others)}"
    step = elsewhere(name, name, scenario, catalogue)
    if not step:
        options = listing([f"--platform {p}" for p in others], "or")
        step = f"leave it out, or ask for {options}"
    return Reason(Kind.NO_PLATFORM, cause, step)


def _unnamed_reason(subject: str, unnamed: UnnamedChannel) -> Reason:
    """The reason for a package of a channel that was not named; the subject is ``NAME is``."""
    cause = f"{subject} in the channel {shown(unnamed.place)}, which was not named"
    options = shlex.join(word for place in unnamed.channels for word in ("--channel", place))
    return Reason(
        Kind.UNNAMED_CHANNEL, cause, f"name the channels: {options}", channels=unnamed.channels
    )


def _name_not_built(
    name: str, absent: Iterable[str], scenario: Scenario, catalogue: Catalogue
) -> Reason:
    """The reason for a package of the recipes that is in no channel.

    What of it could be built decides the step.
    """
    maker_of = checkout_of(catalogue).maker
    makers = {other: maker for other in absent if (maker := maker_of(other))}
    recipes = list(dict.fromkeys(maker.recipe for maker in makers.values()))
    planned = _planned(catalogue)
    if planned and name not in planned.names([scenario.subdir, NOARCH]):
        cause = f"the recipe {makers[name].recipe} makes no {name} for {scenario.subdir}"
        step = elsewhere(name, name, scenario, catalogue) or "leave it out"
        return Reason(Kind.NO_PLATFORM, cause, step)
    if planned and not planned.solves(scenario):
        return _not_if_built(scenario, planned, catalogue)
    are = "are not built here: they are" if len(makers) > 1 else "is not built here: it is"
    recipe = "recipes" if len(makers) > 1 and len(recipes) > 1 else "recipe"
    cause = f"{listing([*makers])} {are} made by the {recipe} {listing(recipes)}"
    if not any(maker.is_default for maker in makers.values()):
        cause = f"{cause}, which the default build leaves out"
    return Reason(Kind.NOT_BUILT, cause, f"run {how_to_build(recipes, scenario)}")


def _not_if_built(scenario: Scenario, planned: Catalogue, catalogue: Catalogue) -> Reason:
    """The reason for a request that had no solution if all packages were built, either."""
    reason = find_reason(scenario, planned)
    there = catalogue.names([scenario.subdir, NOARCH])
    asked = dict.fromkeys(parse_spec(text).name for text in scenario.specs)
    maker_of = checkout_of(catalogue).maker
    absent = [name for name in asked if name not in there and maker_of(name)]
    if not absent or planned.solves(scenario.ideal):  # else it is the machine
        return reason
    are = "are" if len(absent) > 1 else "is"
    return replace(
        reason,
        cause=f"{reason.cause}; {listing(absent)} {are} not built here",
        step=f"{reason.step}; then run {how_to_build(absent, scenario)}",
    )


def _other_name(name: str, other: OtherName, scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a name that is known under another one.

    The step has the requests in its place, in its version, that have a solution.
    """
    if not other.requests:
        steps = [other.step, elsewhere(other.instead, name, scenario, catalogue)]
        step = "\n".join(filter(None, steps)) or "leave it out"
        return Reason(Kind.OTHER_NAME, other.sentence, step)
    instead = dict(_in_place_of(name, request, scenario) for request in other.requests)
    best = next(iter(instead))
    solved = [words for words, request in instead.items() if catalogue.solves(request)]
    ask = f"ask for {listing(solved, 'or')}"
    if best in solved:
        return Reason(Kind.OTHER_NAME, other.sentence, ask)
    reason = _not_built_reason(instead[best], catalogue) or find_reason(instead[best], catalogue)
    if solved:
        return Reason(Kind.OTHER_NAME, other.sentence, f"{ask}; for {best}: {reason.step}")
    return replace(reason, cause=f"{other.sentence}; {reason.cause}")


def _in_place_of(name: str, request: str, scenario: Scenario) -> tuple[str, Scenario]:
    """The words that take the place of a name, the first in its version.

    And the scenario with them.
    """
    named = [spec.text for spec in map(parse_spec, scenario.specs) if spec.name == name]
    rest = [text for text in scenario.specs if text not in named]
    there = {parse_spec(text).name for text in rest}
    first, *more = request.split()
    new = [re.sub(re.escape(name), first, text, count=1, flags=re.IGNORECASE) for text in named]
    new += [word for word in more if parse_spec(word).name not in there]
    return f"`{shlex.join(new)}`", replace(scenario, specs=(*new, *rest))


# --- a request that has no solution on any machine


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
    texts = [spec.text for spec in at_fault]
    if len(at_fault) == 1:
        return _missing_dependency(at_fault[0], ideal, catalogue)
    python = [spec for spec in at_fault if spec.name in PYTHON]
    toolkits = [spec for spec in at_fault if spec.name == "cuda-version"]
    packages = [spec for spec in at_fault if spec.name not in (*PYTHON, "cuda-version")]
    if python and len(packages) == 1:
        return _missing_python(packages[0], toolkits, python, ideal, catalogue)
    step = _droppable_pins(scenario, at_fault, catalogue) or f"leave out {listing(texts, 'or')}"
    if len(at_fault) > 2:
        cause = f"{listing(texts)} cannot be had together; without any one of them the others can"
        return Reason(Kind.CONFLICT, cause, step)
    toolkit, other = sorted(at_fault, key=lambda spec: spec.name != "cuda-version")
    if cause := _not_for_toolkit(toolkit, other, ideal, catalogue):
        return Reason(Kind.CONFLICT, cause, step)
    how = "contradict each other" if toolkit.pinned and other.pinned else "cannot be had together"
    return Reason(Kind.CONFLICT, f"{texts[0]} and {texts[1]} {how}", step)


def _not_for_toolkit(toolkit: Spec, other: Spec, ideal: Scenario, catalogue: Catalogue) -> str:
    """That a package is not published for a toolkit; "" for other conflicts of two specs."""
    if toolkit.name != "cuda-version" or other.name == "cuda-version":
        return ""
    if other.pinned and catalogue.solves(ideal, specs=(toolkit.text, other.name)):
        return ""
    both = replace(ideal, specs=(toolkit.text, other.text))
    elsewhere_too = [
        platform
        for platform in PLATFORMS
        if platform != ideal.subdir
        and _is_for(replace(both, subdir=platform), other.name, catalogue)
    ]
    place = f" on {ideal.subdir} (it is on {listing(elsewhere_too)})" if elsewhere_too else ""
    has = listing(_toolkits_for(other, ideal, catalogue))
    return f"{other.text} is not published for {_in_words(toolkit)}{place}; it is for {has}"


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
    return Reason(Kind.GLIBC, cause, step)


def _need_newer_glibc(pick: Pick, have: str) -> dict[RepoDataRecord, str]:
    """The packages of a pick that need a newer glibc than one, with the oldest that they need."""
    floors = {record: glibc_floor(record.depends) for record in pick.records}
    return {record: floor for record, floor in floors.items() if floor and older(have, floor)}


def glibc_needs(floors: Mapping[str, str]) -> str:
    """Packages and the oldest glibc that each needs, in words, the newest first.

    Such as ``libstdcxx 12.1.0 needs glibc 2.36, libgcc 12.1.0 and python 3.11.7 need 2.35``.
    """
    parts: list[str] = []
    for floor in sorted(set(floors.values()), key=Version, reverse=True):
        packages = [name for name, needed in floors.items() if needed == floor]
        verb = "needs" if len(packages) == 1 else "need"
        version = floor if parts else f"glibc {floor}"
        parts.append(f"{listing(packages, most=3)} {verb} {version}")
    return ", ".join(parts)


def _is_for(scenario: Scenario, name: str, catalogue: Catalogue) -> bool:
    """Whether a toolkit goes with a CUDA build of a package: a CPU build goes with any."""
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
    """The reason for a package that is not built for a Python, with those that it is built for."""
    specs = _texts([package, *toolkits])
    have = [
        version
        for version in catalogue.pythons
        if catalogue.solves(ideal, specs=(*specs, *python_specs(version)))
    ]
    which = " with ".join([_in_words(*python), *map(_in_words, toolkits)])
    cause = f"{package.text} is not built for {which}; it is for {listing(have)}"
    return Reason(Kind.NO_PYTHON, cause, f"ask for Python {listing(have, 'or')}")


def _missing_dependency(package: Spec, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a package with a dependency that no channel has."""
    chain = _chain_to_missing(package.text, ideal, catalogue, {})
    if not chain:
        return _needs_in_conflict(package, ideal, catalogue)
    need = spec_of_record(chain[-1])
    needs = f"{package.text} needs {need.text}"
    if need.name.startswith("__"):
        have = [p.version for p in ideal.virtual_packages if p.name.normalized == need.name]
        cause = f"{needs}, and this machine has {listing([*map(str, have)])}"
        return Reason(Kind.NO_DEPENDENCY, cause, "ask for an older version")
    if unnamed := in_unnamed_channel(catalogue, need.name):
        return _unnamed_reason(f"{needs}, and {need.name} is", unnamed)
    step = base_with(need.name, catalogue)
    if versions := catalogue.versions(need.name):
        have_only = listing(versions[:_SHOWN][::-1])
        cause = f"{needs}, of which the channels have only {have_only}"
        return Reason(Kind.NO_DEPENDENCY, cause, step)
    if not catalogue.names([catalogue.subdir], catalogue.channels[-1:]):
        lacks = f"from the base channel, which has nothing for {ideal.subdir}"
        return Reason(Kind.NO_PLATFORM, f"{package.text} needs {need.name} {lacks}", step)
    if checkout_of(catalogue).maker(need.name):
        return _dependency_not_built(needs, need, ideal, catalogue)
    return Reason(Kind.NO_DEPENDENCY, f"{needs}, which the channels do not have", step)


def _needs_in_conflict(package: Spec, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a package whose dependencies are all there, and have no solution together."""
    newest = next(filter(package.match.matches, catalogue.records(package.name)), None)
    needs = replace(ideal, specs=tuple(newest.depends) if newest else ())
    if catalogue.solves(needs):
        cause = f"{package.text} cannot be installed from these channels on any machine"
        return Reason(Kind.UNKNOWN, cause, _READ_SOLVER)
    texts = [spec.text for spec in conflict(needs, catalogue)]
    how = "can be installed from these channels on no machine"
    if len(texts) > 1:
        how = "cannot be had together"
    cause = f"{package.text} needs {listing(texts)}, which {how}"
    return Reason(Kind.NO_DEPENDENCY, cause, _READ_SOLVER)


def _dependency_not_built(needs: str, need: Spec, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a dependency that a recipe of this checkout makes; it begins with `needs`."""
    maker = checkout_of(catalogue).maker(need.name)
    ends = [platform for platform in PLATFORMS if need.name.endswith(f"_{platform}")]
    target = ends[0] if ends else ideal.subdir  # a cross-compiler's half
    release = ""
    planned = _planned(catalogue)
    if planned and target == ideal.subdir:
        if not any(map(need.match.matches, planned.records(need.name))):
            versions = planned.versions(need.name)[:_SHOWN][::-1]
            lacks = "which the channels do not have"
            if versions:
                lacks = f"of which the recipes here make only {listing(versions)}"
            step = base_with(need.name, catalogue)
            return Reason(Kind.NO_DEPENDENCY, f"{needs}, {lacks}", step)
        pick = planned.pick(replace(ideal, specs=(need.text,)))
        if pick and pick.toolkit and not catalogue.toolkit(pick.toolkit):
            release = pick.toolkit
    recipes = [maker.recipe] if maker else []
    command = how_to_build(recipes, replace(ideal, driver=None, subdir=target), release)
    return Reason(Kind.NOT_BUILT, f"{needs}, which the channels do not have", f"run {command}")


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


# --- a machine that lacks something


def _machine_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if the machine lacks what another one has; None if it is not the machine."""
    if not catalogue.solves(scenario.ideal):
        return None
    at_fault = conflict(scenario, catalogue)
    pins = _droppable_pins(scenario, at_fault, catalogue)
    other = pins or _with_this_driver(at_fault, scenario, catalogue)
    if catalogue.solves(scenario, driver=ANY_DRIVER):
        driver = _driver_reason(scenario, at_fault, catalogue)
        return replace(driver, step=_either(driver.step, other))
    if catalogue.solves(scenario, arch=None):
        gpu = _gpu_reason(scenario, at_fault, catalogue)
        return replace(gpu, step=pins or gpu.step)
    gpu = _gpu_reason(replace(scenario, driver=ANY_DRIVER), at_fault, catalogue)
    if not catalogue.solves(scenario, specs=("cuda-version",), driver=ANY_DRIVER):
        return gpu
    driver = _driver_reason(replace(scenario, arch=None), at_fault, catalogue)
    cause = f"{driver.cause}; besides, {gpu.cause}"
    step = pins or _either(f"{driver.step}, and {gpu.step}", other)
    return Reason(Kind.DRIVER_AND_GPU, cause, step)


def _either(step: str, other: str) -> str:
    """A step, or the other one if there is one."""
    return f"{step}, or {other}" if other else step


def _driver_reason(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> Reason:
    """The reason for a request that has a solution with a newer driver."""
    bounds = [d for t in catalogue.toolkits for d in (t.driver, t.compat_driver)]
    drivers = sorted({driver for driver in bounds if driver}, key=Version)
    newer = [d for d in drivers if not scenario.driver or older(scenario.driver, d)]

    def least(*specs: str) -> str:
        return next((d for d in newer if catalogue.solves(scenario, specs=specs, driver=d)), "")

    need = least(*scenario.specs)
    subject, is_plural = _subject(at_fault, scenario, catalogue)
    verb = "need" if is_plural else "needs"
    needs = f"{subject} {verb} a driver for CUDA {need} or newer"
    if not scenario.driver:
        step = f"state the driver of the machine, as in --driver {need}"
        return Reason(Kind.DRIVER, f"{needs}; there is none", step)
    step = f"update the driver to one for CUDA {need} or newer"
    if catalogue.solves(scenario, specs=("cuda-version",)):
        return Reason(Kind.DRIVER, f"{needs}; this one supports {scenario.driver}", step)
    oldest = f"the oldest toolkit in the channel needs {least('cuda-version')}"
    gpus = [gpu for toolkit in catalogue.toolkits for gpu in toolkit.gpus]
    if gpus and not scenario.arch:  # such as Kepler, which has no newer driver
        first = min(gpus, key=Version)
        step = f"{step}; that does not help a GPU older than compute capability {first}"
    return Reason(Kind.DRIVER, f"the driver supports CUDA {scenario.driver}; {oldest}", step)


def _with_this_driver(at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue) -> str:
    """What a machine can have in place of a package that no toolkit for its driver has.

    In words, or "".
    """
    wanted = at_fault[0]
    pick = catalogue.pick(replace(scenario, specs=("cuda-version",)))
    if len(at_fault) > 1 or wanted.pinned or not scenario.driver or not pick:
        return ""
    for request in known_substitutes(wanted.name):
        if catalogue.solves(scenario, specs=tuple(request.split())):
            return f"for toolkit {pick.toolkit}, which this driver runs, ask for `{request}`"
    toolkit = f"{pick.toolkit} {pick.fit}".rstrip()
    return f"do without {wanted.name}: this driver runs toolkit {toolkit}"


def _lacks_code(asked: Spec, arch: str, catalogue: Catalogue) -> str:
    """The cuda-arch that every build of a package needs, and a GPU is not.

    "" if a build is for it.
    """
    # A build of cuda-arch is for newer GPUs, too.
    known = [Version(v) for v in catalogue.versions("cuda-arch") if not older(arch, v)]
    needs = ""
    for record in filter(asked.match.matches, catalogue.records(asked.name)):
        needs = next((spec for spec in record.depends if spec_name(spec) == "cuda-arch"), "")
        version = parse_spec(needs).version if needs else ""
        if not version or any(map(VersionSpec(version).matches, known)):
            return ""
    return needs


def _gpu_reason(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> Reason:
    """The reason for a request that has a solution with another GPU."""
    arch = scenario.arch or ""
    below, above = _gpus_beside(arch, scenario, catalogue)
    between = f"{below} or {above}" if above and below else ""
    kind, bound = ("newer", "oldest") if above else ("older", "newest")
    need = above or below
    wanted = f"compute capability {between or f'{need} or {kind}'}"
    step = f"use a GPU of {wanted}"
    if not catalogue.solves(scenario, specs=("cuda-version",)):
        compiles = f"no toolkit in the channel compiles for compute capability {arch}"
        cause = f"{compiles}; the {bound} that any does is {need}"
        return Reason(Kind.GPU, cause, f"{step}; a newer driver does not help")
    for spec in at_fault:
        if need_arch := _lacks_code(spec, arch, catalogue):
            cause = f"{spec.name} needs {need_arch}: it has no code for a GPU {arch}"
            return Reason(Kind.GPU, cause, step)
    subject, is_plural = _subject(at_fault, scenario, catalogue)
    is_toolkit = [spec.name for spec in at_fault] == ["cuda-version"]
    if _published_for(at_fault, scenario, catalogue) or is_toolkit:
        knows = f"{'their' if is_plural else 'its'} {bound} is {need}"
        if between:
            knows = f"{'they know' if is_plural else 'it knows'} {below} and {above}"
        cause = f"{subject} cannot compile for compute capability {arch}; {knows}"
        return Reason(Kind.GPU, cause, step)
    verb = "need" if is_plural else "needs"
    return Reason(Kind.GPU, f"{subject} {verb} a GPU of {wanted}; this one has {arch}", step)


def _gpus_beside(arch: str, scenario: Scenario, catalogue: Catalogue) -> tuple[str, str]:
    """The nearest older and the nearest newer GPU with which a request has a solution, or ""."""
    compiled_for = {gpu for toolkit in catalogue.toolkits for gpu in toolkit.gpus}
    known = sorted(compiled_for | set(catalogue.versions("cuda-arch")), key=Version)

    def first_that_solves(gpus: Iterable[str]) -> str:
        return next((gpu for gpu in gpus if catalogue.solves(scenario, arch=gpu)), "")

    above = first_that_solves(gpu for gpu in known if older(arch, gpu))
    below = first_that_solves(gpu for gpu in reversed(known) if older(gpu, arch))
    return below, above


def _subject(
    at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue
) -> tuple[str, bool]:
    """The subject of the sentence, and whether its verb is a plural."""
    toolkits = _published_for(at_fault, scenario, catalogue)
    if not toolkits:
        return listing(_texts(at_fault)), len(at_fault) > 1
    several = len(toolkits) > 1
    toolkit = "toolkits" if several else "toolkit"
    published = f"{at_fault[0].text} is published for {toolkit} {listing(toolkits)} only"
    return f"{published}, which", several


def _published_for(at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits that a package is published for; [] if it is for all, or not one package."""
    if len(at_fault) > 1 or at_fault[0].name == "cuda-version":
        return []
    toolkits = _toolkits_for(at_fault[0], scenario.ideal, catalogue)
    return toolkits if len(toolkits) < len(catalogue.toolkits) else []
