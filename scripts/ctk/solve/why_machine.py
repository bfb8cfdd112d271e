"""Why a machine has no solution for a request that others have: its driver, its GPU or both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rattler import Version, VersionSpec

from ctk.core.console import listing
from ctk.package.records import spec_name
from ctk.plan.names import known_substitutes
from ctk.solve.advice import how_made, is_for_page
from ctk.solve.reason import Kind, Reason, conflict, droppable_pins, texts, toolkits_for
from ctk.solve.solve import ANY_DRIVER, Catalogue, Scenario, Spec, older, parse_spec

_USES = {"cuda-nvrtc-dev": ", whose NVRTC compiles CUDA C++ while a program runs"}
"""What a package is for that takes the place of another one, where its name does not say so."""


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


def _gpu_reason(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> Reason:
    """The reason for a request that has a solution with another GPU."""
    arch = scenario.arch or ""
    below, above = _gpus_beside(arch, scenario, catalogue)
    between = f"{below} or {above}" if above and below else ""
    kind, bound = ("newer", "oldest") if above else ("older", "newest")
    need = above or below
    wanted = f"compute capability {between}"
    if not between:
        wanted = f"compute capability {need} or {kind}"
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
        whose, who_knows = ("their", "they know") if is_plural else ("its", "it knows")
        knows = f"{who_knows} {below} and {above}" if between else f"{whose} {bound} is {need}"
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
        return listing(texts(at_fault)), len(at_fault) > 1
    several = len(toolkits) > 1
    toolkit = "toolkits" if several else "toolkit"
    asked = at_fault[0]
    others = [t.version for t in catalogue.toolkits if t.version not in toolkits]
    lacking = [scenario.ideal.asking(asked.text, f"cuda-version={version}") for version in others]
    made = how_made(asked.name, lacking, catalogue)
    return f"{asked.text} is {made} for {toolkit} {listing(toolkits)} only, which", several


def _published_for(at_fault: Sequence[Spec], scenario: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits that a package is published for; [] if it is for all, or not one package."""
    if len(at_fault) > 1 or at_fault[0].name == "cuda-version":
        return []
    toolkits = toolkits_for(at_fault[0], scenario.ideal, catalogue)
    return toolkits if len(toolkits) < len(catalogue.toolkits) else []
