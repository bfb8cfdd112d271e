"""Why a machine has no solution for a request that others have: its driver, its GPU or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rattler import Version, VersionSpec
from rattler.exceptions import InvalidVersionSpecError

from ctk.core.console import listing
from ctk.package.records import spec_name
from ctk.plan.names import known_substitutes
from ctk.solve.advice import how_made, is_for_page
from ctk.solve.reason import Kind, Reason, conflict, droppable_pins, texts, toolkits_for
from ctk.solve.solve import ANY_DRIVER, RULE, Catalogue, Scenario, Spec, older, parse_spec

_USES = {"cuda-nvrtc-dev": ", whose NVRTC compiles CUDA C++ while a program runs"}
"""What a package is for that takes the place of another one, where its name does not say so."""
_OF_GPUS = ("cuda-version", "cuda-arch")
"""The packages that stand for GPUs: what they say of GPUs is what they are."""


def machine_reason(scenario: Scenario, catalogue: Catalogue) -> Reason | None:
    """The reason if the machine lacks what another one has; None if it is not the machine."""
    if not catalogue.solves(scenario.ideal):
        return None
    at_fault = conflict(scenario, catalogue)
    pins = droppable_pins(scenario, at_fault, catalogue)
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
        if is_for_page(catalogue):
            step = f"choose the driver of the machine, for CUDA {need} or newer"
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
    pick = catalogue.pick(scenario.asking("cuda-version"))
    if len(at_fault) > 1 or wanted.pinned or not scenario.driver or not pick:
        return ""
    for request in known_substitutes(wanted.name):
        if catalogue.solves(scenario, specs=tuple(request.split())):
            use = _USES.get(request, "")
            runs = f"stay with toolkit {pick.toolkit}, which this driver runs"
            return f"{runs}, and ask for `{request}`{use}"
    toolkit = f"{pick.toolkit} {pick.fit}".rstrip()
    return f"leave out {wanted.name}: this driver runs toolkit {toolkit}"


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


def _own_bound(asked: Spec, arch: str, catalogue: Catalogue) -> str:
    """What a package itself says of GPUs, as a rule, if none of its builds allows one.

    "" if a build does, or says nothing.
    """
    refusing: dict[str, None] = {}
    for record in filter(asked.match.matches, catalogue.records(asked.name)):
        rules = filter(None, map(RULE.fullmatch, (*record.depends, *record.constrains)))
        bounds = [rule for rule in rules if rule[1] == "__cuda_arch" and rule[2]]
        refused = [bound[0] for bound in bounds if not _allows(bound[2], arch)]
        if not refused:
            return ""
        refusing[refused[0]] = None
    return listing([f"`{rule}`" for rule in refusing], "or")


def _allows(bound: str, arch: str) -> bool:
    """Whether a bound on a version allows a GPU; a bound that cannot be read does."""
    try:
        return VersionSpec(bound).matches(Version(arch))
    except InvalidVersionSpecError:
        return True


def _gpu_reason(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> Reason:
    """The reason for a request that has a solution with another GPU."""
    arch = scenario.arch or ""
    olders, newers = _gpus_beside(scenario, catalogue)
    ranges = [found.words for found in (olders, newers) if found.nearest]
    below, above = olders.nearest, newers.nearest
    between = f"{below} or {above}" if above and below else ""
    bound = "oldest" if above else "newest"
    need = above or below
    words = between or next(iter(ranges), "that no toolkit in the channel knows")
    wanted = f"compute capability {words}"
    step = f"use a GPU of {wanted}"
    if not ranges:
        step = "ask for another version: with this one, no GPU that the channel knows helps"
    if not catalogue.solves(scenario, specs=("cuda-version",)):
        compiles = f"no toolkit in the channel compiles for compute capability {arch}"
        cause = f"{compiles}; the {bound} that any does is {need}"
        return Reason(Kind.GPU, cause, f"{step}; a newer driver does not help")
    for spec in at_fault:
        if need_arch := _lacks_code(spec, arch, catalogue):
            cause = f"{spec.name} needs {need_arch}: it has no code for a GPU {arch}"
            return Reason(Kind.GPU, cause, step)
        if spec.name not in _OF_GPUS and (bounds := _own_bound(spec, arch, catalogue)):
            cause = f"{spec.name} allows only GPUs {bounds}; this one has {arch}"
            return Reason(Kind.GPU, cause, step)
    subject, is_plural = _subject(at_fault, scenario, catalogue)
    is_toolkit = [spec.name for spec in at_fault] == ["cuda-version"]
    if _published_for(at_fault, scenario, catalogue) or is_toolkit:
        whose, who_knows = ("their", "they know") if is_plural else ("its", "it knows")
        knows = f"{who_knows} {below} and {above}" if between else f"{whose} {bound} is {need}"
        cause = f"{subject} cannot compile for compute capability {arch}; {knows}"
        return Reason(Kind.GPU, cause, step)
    verb = "need" if is_plural else "needs"
    return Reason(Kind.GPU, f"{subject} {verb} a GPU of {wanted}; this one has {arch}", step)


class _Gpus(NamedTuple):
    """The GPUs on one side of a GPU with which a request has a solution.

    Attributes:
        nearest: The one that is nearest to it; "" if there is none.
        words: That one, and those beyond it.
    """

    nearest: str
    words: str


def _gpus_beside(scenario: Scenario, catalogue: Catalogue) -> tuple[_Gpus, _Gpus]:
    """The older and the newer GPUs with which a request has a solution."""
    arch = scenario.arch or ""
    compiled_for = {gpu for toolkit in catalogue.toolkits for gpu in toolkit.gpus}
    known = sorted(compiled_for | set(catalogue.versions("cuda-arch")), key=Version)

    def of(gpus: Sequence[str], beyond: str) -> _Gpus:
        solves = [catalogue.solves(scenario, arch=gpu) for gpu in gpus]
        if True not in solves:
            return _Gpus("", "")
        first = solves.index(True)
        nearest = gpus[first]
        if False not in solves[first:]:
            return _Gpus(nearest, f"{nearest} or {beyond}")
        last = gpus[solves.index(False, first) - 1]
        if last == nearest:
            return _Gpus(nearest, nearest)
        return _Gpus(nearest, " to ".join(sorted((nearest, last), key=Version)))

    olders = of([gpu for gpu in reversed(known) if older(gpu, arch)], "older")
    newers = of([gpu for gpu in known if older(arch, gpu)], "newer")
    return olders, newers


def _subject(
    at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue
) -> tuple[str, bool]:
    """The subject of the sentence, and whether its verb is a plural."""
    toolkits = _published_for(at_fault, scenario, catalogue)
    if not toolkits:
        return listing(texts(at_fault)), len(at_fault) > 1
    several = len(toolkits) > 1
    toolkit = "toolkits" if several else "toolkit"
    asked = at_fault[0]
    others = [t.version for t in catalogue.toolkits if t.version not in toolkits]
    lacking = [scenario.ideal.asking(asked.text, f"cuda-version={version}") for version in others]
    made = how_made(asked.name, lacking, catalogue)
    return f"{asked.text} is {made} for {toolkit} {listing(toolkits)} only, which", several


def _published_for(at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits that a package is published for, if these are why a machine cannot have it.

    [] if it is for all toolkits, if the machine can have one of them, or if it is not one package.
    """
    if len(at_fault) > 1 or at_fault[0].name == "cuda-version":
        return []
    toolkits = toolkits_for(at_fault[0], scenario.ideal, catalogue)
    if len(toolkits) == len(catalogue.toolkits):
        return []
    of_toolkits = [(f"cuda-version={version}",) for version in toolkits]
    if any(catalogue.solves(scenario, specs=specs) for specs in of_toolkits):
        return []  # it is the package itself that is not for the machine
    return toolkits
