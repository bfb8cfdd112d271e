"""Explains why a solver picked a toolkit, and why a request has no solution.

Each sentence is proved by solving the request again with one change at a time (driver, GPU, specs,
Python, platform): the sentence names the change that makes the difference. If a request has no
solution on any machine, the request is the cause (`ctk.solve.why_request`); otherwise it is the
driver, the GPU or both (`ctk.solve.why_machine`). What channels lack by name or version is here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rattler import PackageRecord, RepoDataRecord, Version, VersionSpec

from ctk.core.console import count, listing
from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.similar import nearest
from ctk.plan.names import OtherName
from ctk.solve.advice import (
    LOOK_ELSEWHERE,
    base_with,
    checkout_of,
    elsewhere,
    how_to_build,
    how_to_lock,
    in_unnamed_channel,
    is_for_page,
    nvcc_of_conda_forge,
    other_base,
    planned_of,
    specs_beside_nvcc,
    what_to_build,
)
from ctk.solve.change import (
    Package,
    cpu_instead,
    needs_cuda,
    nvjitlink_of_another_toolkit,
    unasked_nvjitlink,
    wants_nvjitlink_of_another_toolkit,
)
from ctk.solve.fit import Fit, LimitedBy, fit_of, limit_on
from ctk.solve.hidden import hidden
from ctk.solve.reason import (
    OF_GPU,
    READ_SOLVER,
    Kind,
    Reason,
    conflict,
    in_words,
    plain,
    without_pin,
)
from ctk.solve.solve import (
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
)
from ctk.solve.why_machine import machine_reason
from ctk.solve.why_request import request_reason, unnamed_reason

_SHOWN = 8  # versions or builds that a sentence names
_THREE_NUMBERS = re.compile(r"(?:={1,2})?(\d+\.\d+)\.\d+(?:\.\*)?")
NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers"
TAKE_NVCC = "take nvcc of CUDA 12 from conda-forge"
_LOADS = "the driver loads the PTX of this toolkit"
_NVJITLINK = "libnvjitlink"
_NVCC = re.compile(r"cuda-nvcc|cuda-nvcc-impl|cuda-nvcc_.*|cuda-crt-tools")
_OF_CUDA_12 = re.compile(r"(?<![\d.])12(?!\d)|<13")


GIVE_MACHINE_CODE = ("numba-cuda", "cupy", "pytorch", "triton")
"""Packages that compile at run time, and give the driver machine code and no PTX.

As measured: docs/pytorch-jax-cupy.md and docs/evidence/gpu-proof.md.
"""


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
            return "it compiles machine code, which can run on a machine with a driver"
        case LimitedBy.DRIVER:
            return "machine code and nvJitLink work, but the driver refuses its PTX with error 222"
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
            return f"as asked for, although {_LOADS}"
        case LimitedBy.PACKAGES:
            return f"although {_LOADS}"


def what_runs(pick: Pick, catalogue: Catalogue) -> list[str]:
    """What runs of a pick with a driver that refuses the PTX of its toolkit, in sentences.

    [] where the driver refuses nothing.
    """
    scenario = pick.scenario
    fit = fit_of(pick, scenario, catalogue.toolkit(pick.toolkit))
    if fit is None or fit.limit is not LimitedBy.DRIVER:
        return []
    asked = [parse_spec(spec).name for spec in scenario.specs]
    records = [pick.record(name) for name in GIVE_MACHINE_CODE if name in asked]
    running = [record.name.normalized for record in records if record and needs_cuda(record)]
    lines = []
    if len(running) == 1:
        lines.append(f"{running[0]} runs anyway: it gives the driver machine code")
    elif running:
        lines.append(f"{listing(running)} run anyway: they give the driver machine code")
    gpu = (scenario.arch or "9.0").replace(".", "")
    lines.append(
        f'your own kernels run if you compile them to machine code, as with arch="sm_{gpu}", and'
        " not to PTX"
    )
    return lines


def fit_in_words(pick: Pick, catalogue: Catalogue) -> str:
    """The meaning of native or compat for the machine of a pick; "" for a pick without CUDA."""
    fit = fit_of(pick, pick.scenario, catalogue.toolkit(pick.toolkit))
    if fit is None or not pick.fit:
        return ""
    if fit.is_native:
        return f"native: {_LOADS}"
    if fit.limit is LimitedBy.PACKAGES:
        return f"compat, {limit_in_words(fit)}{_without_native(pick, catalogue)}"
    between = ", " if fit.limit is LimitedBy.AS_ASKED else ": "
    return f"compat{between}{limit_in_words(fit)}"


def _without_native(pick: Pick, catalogue: Catalogue) -> str:
    """Which of a request has no build for the native toolkit of a pick, in words; or ""."""
    native = f"cuda-version={pick.toolkit}=native_*"
    wanted = pick.scenario.also(native)
    if catalogue.solves(wanted):
        return f"; add {native} for the native one"
    at_fault = [spec.text for spec in conflict(wanted, catalogue) if spec.text != native]
    return f": no build of {listing(at_fault)} is for the native one" if at_fault else ""


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


def _newer_minor(pick: Pick, library: str) -> str:
    """The minor of a library of a newer toolkit than the picked one; "" if it is not newer."""
    minor = ".".join(pick.version(library).split(".")[:2])
    return minor if minor and pick.toolkit and older(pick.toolkit, minor) else ""


def _newer_libraries(pick: Pick) -> list[str]:
    """Sentences about libraries of a newer toolkit than the picked one, and the effect on PTX."""
    sentences = []
    for name, library in ((_NVJITLINK, "nvJitLink"), ("libnvfatbin", "nvFatbin")):
        minor = _newer_minor(pick, name)
        if not minor:
            continue
        ptx = ""
        if name == _NVJITLINK:
            ptx = f", and PTX that it links needs a driver for CUDA {minor}"
            if pick.scenario.driver:
                ptx += f" (this one supports {pick.scenario.driver})"
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
        return _never_together(scenario, toolkit, reason)
    reasons = _not_native(scenario, toolkit, catalogue)
    return reasons + _all_the_same(wanted, toolkit, catalogue) if is_newer else reasons


def _never_together(scenario: Scenario, toolkit: ChannelToolkit, reason: Reason) -> list[str]:
    """Why a toolkit was passed over that the request goes with on no machine.

    What limits this machine comes first: no other package changes that.
    """
    limits = _limits_in_words(scenario, toolkit) if scenario.driver else []
    if is_refused := _refused_by_driver(scenario, toolkit):
        return [*limits, is_refused]
    if limits:
        return [*limits, f"besides, {reason.cause}"]
    return [f"{toolkit.version}: {reason.cause}"]


def _refused_by_driver(scenario: Scenario, toolkit: ChannelToolkit) -> str:
    """That a driver is too old even for the compat build of a toolkit; "" if it is not."""
    least = toolkit.compat_driver
    if scenario.driver and least and older(scenario.driver, least):
        return f"even minor-version compatibility needs a driver for CUDA {least}"
    return ""


def _all_the_same(wanted: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """How to get a toolkit that is not native, or what even its compat build needs."""
    pinned = catalogue.pick(wanted)
    if pinned is None:
        is_refused = _refused_by_driver(wanted, toolkit)
        return [is_refused] if is_refused else []
    fit = fit_of(pinned, wanted, toolkit)
    if fit is None or pinned.fit != "compat":
        return []
    use = "have it anyway"
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
    return [pin.text for pin in pins if catalogue.solves(without_pin(wanted, pin))]


def _not_native(scenario: Scenario, toolkit: ChannelToolkit, catalogue: Catalogue) -> list[str]:
    """Why the native build of a toolkit is not for this machine.

    The reasons are from its record, and confirmed by solving.
    """
    version = toolkit.version
    native = scenario.also(f"cuda-version={version}=native_*")
    if pick := catalogue.pick(native):
        cpu = cpu_instead(catalogue.pick(scenario), pick)
        how = "but the solver preferred other versions of what was asked for"
        if cpu:
            how = f"with the CPU build of {listing(cpu)}"
        return [f"{version} native is possible too, {how}"]
    lifted = native
    limit = limit_on(scenario.driver, scenario.arch, toolkit)
    if limit and limit.is_driver and toolkit.driver:
        lifted = replace(lifted, driver=toolkit.driver)
    if limit and limit.is_gpu:
        lifted = replace(lifted, arch=None)
    if catalogue.solves(lifted):
        return _limits_in_words(scenario, toolkit)
    own = _blocking(scenario, lifted, catalogue)
    by = f"your {listing(own)}" if own else "more than one thing"
    return [f"{version} native is left out by {by}"]


def _limits_in_words(scenario: Scenario, toolkit: ChannelToolkit) -> list[str]:
    """What of a machine keeps a toolkit from being native: its driver, its GPU, both or neither."""
    limit = limit_on(scenario.driver, scenario.arch, toolkit)
    sentences = []
    if limit and limit.is_driver and toolkit.driver:
        have = f"this one supports {scenario.driver}" if scenario.driver else "there is none"
        needs = f"{toolkit.version} native needs a driver for CUDA {toolkit.driver}"
        sentences.append(f"{needs}; {have}")
    if limit and limit.is_gpu and scenario.arch:
        sentences.append(f"{toolkit.version} {_does_not_know(scenario.arch, toolkit)}")
    return sentences


def _does_not_know(gpu: str, toolkit: ChannelToolkit) -> str:
    """That a compiler does not know a GPU, and which it knows beside it."""
    below, above = toolkit.beside(gpu)
    if not below:
        return f"cannot compile for compute capability {gpu}; its oldest is {above}"
    knows = f"it knows {below} and {above}" if above else f"its newest is {below}"
    return f"does not know compute capability {gpu}; {knows}"


def refused_ptx(records: Iterable[PackageRecord], driver: str | None) -> str:
    """What a driver refuses beside a native toolkit: PTX of an nvJitLink that is newer than it.

    "" where it refuses nothing. Toolkits 12.0 to 12.2 have no nvJitLink of their own.
    """
    found = {record.name.normalized: Package.of(record) for record in records}
    toolkit, library = found.get("cuda-version"), found.get(_NVJITLINK)
    if not driver or toolkit is None or library is None:
        return ""
    if toolkit.fit != "native" or not older(driver, library.minor):
        return ""
    needs = f"PTX that nvJitLink writes needs a driver for CUDA {library.minor}"
    return f"one exception: {needs}; machine code that it links runs"


def newer_nvjitlink(
    records: Sequence[PackageRecord], specs: Iterable[str], driver: str | None
) -> list[str]:
    """A sentence if nvJitLink is newer than the toolkit, and something requires that.

    Else one if the driver refuses its PTX.
    """
    library, toolkit = nvjitlink_of_another_toolkit(records)
    if library is None or toolkit is None:
        refused = refused_ptx(records, driver)
        return [refused] if refused else []
    if older(library.version, toolkit.version):
        return []
    if unasked_nvjitlink(records, specs) is not None:
        return []
    package = wants_nvjitlink_of_another_toolkit(records, toolkit.minor)
    why = f"as {package} needs" if package else "as asked for"
    return [
        f"nvJitLink is of toolkit {library.minor}, {why}: machine code that it links runs,"
        f" and PTX that it writes needs a driver for CUDA {library.minor}"
    ]


# --- why a request has no solution


def solve_or_say_why(scenario: Scenario, catalogue: Catalogue, lines: int | None = None) -> Pick:
    """Solves a scenario.

    Raises:
        Unsolvable: There is no solution; with the reason. Where no cause was found, also the first
            `lines` of the solver's text. With None for `lines` all of it, in any case.
    """
    try:
        return solve(scenario, catalogue.channels, catalogue.gateway)
    except Unsolvable as error:
        reason = _not_built_reason(scenario, catalogue) or find_reason(scenario, catalogue)
        # Beside a cause in words, the solver's text says the same in a form that is hard to read,
        # or blames what would not help.
        is_needed = lines is None or reason.step.startswith(READ_SOLVER)
        most = lines if is_needed else 0
        cause = "\n".join([reason.cause, *_shortened(error.cause.splitlines(), most)])
        raise Unsolvable(cause, reason.step, error.solver, reason.kind) from None


def _shortened(text: Sequence[str], most: int | None) -> list[str]:
    """The first lines of a solver's text, and where to see the others."""
    if not most or len(text) <= most:
        return [*text[:most]]
    more = count(len(text) - most, "line")
    return [*text[:most], f"... and {more} more; `ctk solve` with --explain shows all"]


def find_reason(scenario: Scenario, catalogue: Catalogue) -> Reason:
    """The reason why a scenario has no solution."""
    reason = (
        _hidden_reason(scenario, catalogue)
        or _missing_package(scenario, catalogue)
        or request_reason(scenario, catalogue)
        or machine_reason(scenario, catalogue)
    )
    if reason is None:
        cause = f"{listing(scenario.specs)}: no cause was found by changing one thing"
        reason = Reason(Kind.UNKNOWN, cause, READ_SOLVER)
    names = [parse_spec(text).name for text in scenario.specs]
    if not any(map(_NVCC.fullmatch, names)):
        return reason
    if reason.kind is Kind.GPU and "cuda-version" not in names:
        scenario = scenario.also("cuda-version=12")  # mamba does not see that the GPU is older
    if not _wants_nvcc_12(scenario, catalogue):
        return reason
    rest = [text for text in scenario.specs if not _NVCC.fullmatch(parse_spec(text).name)]
    cause = f"{reason.cause}; {NO_NVCC}"
    reason = replace(reason, cause=cause)
    other = nvcc_of_conda_forge(rest, scenario, catalogue)
    if not other:
        return reason
    # Nobody needs another GPU where that nvcc compiles for this one.
    is_only_way = reason.kind in OF_GPU
    if is_for_page(catalogue):  # which makes the command for each client
        step = TAKE_NVCC if is_only_way else reason.step
        return replace(reason, step=step, nvcc=tuple(specs_beside_nvcc(scenario)))
    return replace(reason, step=other if is_only_way else f"{reason.step}\n{other}")


def _not_built_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if `ctk build` makes for this machine what the built channel lacks; else None."""
    to_build = what_to_build(scenario, catalogue)
    if to_build is None:
        return None
    missing = _missing_package(scenario, catalogue)
    cause = missing.cause if missing else to_build.cause
    return Reason(Kind.NOT_BUILT, cause, f"run {to_build.command}")


def _hidden_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if a package that is asked for is hidden, and would do; else None."""
    for wanted in map(parse_spec, scenario.specs):
        found = None
        if not wanted.match.channel and not wanted.name.startswith("__"):
            found = hidden(wanted, scenario, catalogue)
        if found:
            words = " ".join(filter(None, [wanted.name, plain(wanted.version), wanted.build]))
            cause = (
                f"{found.channel} has {words}, but {wanted.name} in an earlier channel hides it:"
                " channel priority is strict here, as it is in pixi by default"
            )
            command = shlex.join(found.specs)
            step = f"name the channel: `{command}`; conda and mamba find it without that"
            return Reason(Kind.HIDDEN, cause, step)
    return None


def _wants_nvcc_12(scenario: Scenario, catalogue: Catalogue) -> bool:
    """Whether a request for nvcc needs that of CUDA 12, because of the driver or of a spec."""
    request = [parse_spec(text) for text in scenario.specs]
    if any(_excludes_cuda_12(spec) for spec in request if _NVCC.fullmatch(spec.name)):
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


def _excludes_cuda_12(spec: Spec) -> bool:
    """Whether a spec of a package of the toolkit leaves no version of CUDA 12."""
    if not spec.version or _OF_CUDA_12.search(spec.version):
        return False
    return not VersionSpec(spec.version).matches(Version("12.9"))


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
    planned = planned_of(catalogue)
    is_made = planned and any(map(wanted.match.matches, planned.records(wanted.name)))
    if planned and is_made and not planned.solves(scenario):
        return _not_if_built(scenario, planned, catalogue)
    words = " ".join(filter(None, [wanted.name, plain(wanted.version), wanted.build]))
    if wanted.name in PYTHON:
        request = [parse_spec(text) for text in scenario.specs]
        words = in_words(*(spec for spec in request if spec.name in PYTHON))
    have = _versions(wanted, catalogue)
    newest = listing(have[:_SHOWN][::-1])
    step = "ask for one of those" if len(have) > 1 else f"ask for {have[0]}"
    if wanted.name == "cuda-version" and scenario.driver:
        step = _of_this_machine(have, scenario, catalogue) or step
    if checkout_of(catalogue).is_planned:
        they_make = "the newest that they make are" if len(have) > _SHOWN else "they make"
        cause = f"the recipes here make no {words}; {they_make} {newest}"
        return Reason(Kind.NO_VERSION, cause, step + _or_lock(wanted, catalogue))
    there_are = "there is" if len(have) == 1 else "there are"
    if len(have) > _SHOWN:
        there_are = "the newest are"
    cause = f"there is no {words} in the channels; {there_are} {newest}"
    step += other_base(wanted.name, catalogue) + _or_lock(wanted, catalogue)
    return Reason(Kind.NO_VERSION, cause, step)


def _of_this_machine(have: Sequence[str], scenario: Scenario, catalogue: Catalogue) -> str:
    """The advice to ask for a toolkit that the machine runs; "" if it runs all or none of them."""
    runs = [v for v in have if catalogue.solves(scenario, specs=(f"cuda-version={v}",))]
    if not runs or len(runs) == len(have):
        return ""
    return f"ask for {listing(runs[::-1], 'or')}, which this machine runs"


def _or_lock(wanted: Spec, catalogue: Catalogue) -> str:
    """The advice to lock the version that a spec asks for; or ""."""
    command = how_to_lock(wanted, catalogue)
    if not command:
        return ""
    return f"; or lock it, if the package index has its wheel, and build it: {command}"


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
    cause = f"cuda-version has two numbers, and {plain(wanted.version)} has three"
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
        return unnamed_reason(f"{name} is", unnamed)
    checkout = checkout_of(catalogue)
    maker = checkout.maker(name)
    if maker and not checkout.may_build:
        places = [lasting(str(channel)) for channel in catalogue.channels]
        cause = f"{name} is not in {listing(places, 'or')}"
        step = "name a --channel or --base that has it"
        if not is_for_page(catalogue):
            step += f"; its keeper adds it: `ctk build {maker.recipe}`, then `ctk publish`"
        return Reason(Kind.NO_PACKAGE, cause, step)
    if maker:
        return _name_not_built(name, absent, scenario, catalogue)
    known = checkout.known_names()
    if other := known.meant_by(name):
        return _other_name(name, other, scenario, catalogue)
    cause = f"there is no package {name} in the channels"
    if step := elsewhere(name, name, scenario, catalogue):
        return Reason(Kind.NO_PACKAGE, cause, step)
    # Nobody who asks for pytorch means python.
    near = [] if name in known.own else nearest(name, names)
    step = f"did you mean {listing(near, 'or')}?" if near else LOOK_ELSEWHERE
    return Reason(Kind.NO_PACKAGE, cause, step)


def _missing_on_platform(name: str, scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if a channel has nothing for the platform, or a package for others; else None."""
    subdir, checkout = catalogue.subdir, checkout_of(catalogue)
    ours, base = catalogue.channels[:-1] or catalogue.channels, catalogue.channels[-1]
    has_no_platform = not catalogue.names([subdir], ours)
    if has_no_platform and (checkout.may_build or name in catalogue.names(PLATFORMS)):
        step = f"build it: ctk build --platform {subdir}"
        if not checkout.may_build:
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


def _name_not_built(
    name: str, absent: Iterable[str], scenario: Scenario, catalogue: Catalogue
) -> Reason:
    """The reason for a package of the recipes that is in no channel.

    What of it could be built decides the step.
    """
    maker_of = checkout_of(catalogue).maker
    makers = {other: maker for other in absent if (maker := maker_of(other))}
    recipes = list(dict.fromkeys(maker.recipe for maker in makers.values()))
    planned = planned_of(catalogue)
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
    command = how_to_build(recipes, scenario, _stated_toolkit(scenario, catalogue))
    return Reason(Kind.NOT_BUILT, cause, f"run {command}")


def _stated_toolkit(scenario: Scenario, catalogue: Catalogue) -> str:
    """The only toolkit of the channels that a request leaves; "" if it leaves several."""
    specs = [spec for spec in map(parse_spec, scenario.specs) if spec.name == "cuda-version"]
    records = catalogue.records("cuda-version")
    left = {str(r.version) for r in records if all(spec.match.matches(r) for spec in specs)}
    return left.pop() if len(left) == 1 else ""


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
