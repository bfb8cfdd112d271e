"""Causes that lie in the machine: a driver or a GPU that the request cannot do with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ctk.solve.catalogue import ANY_DRIVER, Asked, Catalogue, listing, older
from ctk.solve.solve import Scenario
from ctk.solve.unsolvable.probe import Cause, core, toolkits_for, without_pins


def machine_cause(scenario: Scenario, catalogue: Catalogue) -> Cause | None:
    """What the machine lacks for a request that another machine can have."""
    if not catalogue.pick(replace(scenario, driver=ANY_DRIVER, arch=None)):
        return None
    at_fault = core(scenario, catalogue)
    pins = without_pins(scenario, at_fault, catalogue)
    if catalogue.pick(replace(scenario, driver=ANY_DRIVER)):
        cause = _driver_cause(scenario, at_fault, catalogue)
        return replace(cause, step=f"{cause.step}, or {pins}" if pins else cause.step)
    if catalogue.pick(replace(scenario, arch=None)):
        cause = _gpu_cause(scenario, at_fault, catalogue)
        return replace(cause, step=pins or cause.step)
    driver = _driver_cause(replace(scenario, arch=None), at_fault, catalogue)
    gpu = _gpu_cause(replace(scenario, driver=ANY_DRIVER), at_fault, catalogue)
    return Cause(f"{driver.sentence}; besides, {gpu.sentence}", pins or f"{driver.step}, and {gpu.step}")


def _driver_cause(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> Cause:
    """The sentence for a request that a newer driver solves."""
    drivers = {d for t in catalogue.toolkits for d in (t.driver, t.compat_driver) if d}
    newer = [d for d in _ordered(drivers) if not scenario.driver or older(scenario.driver, d)]

    def least(specs: tuple[str, ...]) -> str:
        return next((d for d in newer if catalogue.pick(replace(scenario, specs=specs, driver=d))), "")

    need = least(scenario.specs)
    step = f"update the driver to one for CUDA {need} or newer" if scenario.driver else "ask for it with --driver"
    any_toolkit = ("cuda-version",)
    if scenario.driver and not catalogue.pick(replace(scenario, specs=any_toolkit)):
        oldest = least(any_toolkit)
        cause = f"the driver supports CUDA {scenario.driver}; the oldest toolkit in the channel needs {oldest}"
        return Cause(cause, step)
    subject, plural = _subject(at_fault, scenario, catalogue)
    have = f"this one supports {scenario.driver}" if scenario.driver else "there is none"
    return Cause(f"{subject} need{'' if plural else 's'} a driver for CUDA {need} or newer; {have}", step)


def _gpu_cause(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> Cause:
    """The sentence for a request that another GPU solves."""
    arch = scenario.arch or ""
    known = {a for t in catalogue.toolkits for a in t.gpus}
    ordered = _ordered(known | {str(record.version) for record in catalogue.records("cuda-arch")})
    solved = (a for a in ordered if older(arch, a)), (a for a in reversed(ordered) if older(a, arch))
    newer, nearest = (next((a for a in near if catalogue.pick(replace(scenario, arch=a))), "") for near in solved)
    kind, bound = ("newer", "oldest") if newer else ("older", "newest")
    need = newer or nearest
    between = f"{nearest} or {newer}" if newer and nearest else ""
    step = f"use a GPU of compute capability {between or f'{need} or {kind}'}"
    if not catalogue.pick(replace(scenario, specs=("cuda-version",))):
        cause = f"no toolkit in the channel compiles for compute capability {arch}; the {bound} that any does is {need}"
        return Cause(cause, step)
    subject, plural = _subject(at_fault, scenario, catalogue)
    if subject.endswith("which") or [asked.name for asked in at_fault] == ["cuda-version"]:
        whose = f"{'they know' if plural else 'it knows'} {nearest} and {newer}" if between else ""
        whose = whose or f"{'their' if plural else 'its'} {bound} is {need}"
        return Cause(f"{subject} cannot compile for compute capability {arch}; {whose}", step)
    verb = "need" if plural else "needs"
    return Cause(
        f"{subject} {verb} a GPU of compute capability {between or f'{need} or {kind}'}; this one has {arch}", step
    )


def _subject(at_fault: Sequence[Asked], scenario: Scenario, catalogue: Catalogue) -> tuple[str, bool]:
    """Who is at fault, and whether the verb that follows is a plural."""
    first = at_fault[0]
    if len(at_fault) == 1 and first.name != "cuda-version":
        has = toolkits_for(first, replace(scenario, driver=ANY_DRIVER, arch=None), catalogue)
        if 0 < len(has) < len(catalogue.toolkits):
            several = len(has) > 1
            toolkits = f"toolkit{'s' if several else ''} {listing(has)}"
            return f"{first.text} is published for {toolkits} only, which", several
    return listing([asked.text for asked in at_fault]), len(at_fault) > 1


def _ordered(versions: set[str]) -> list[str]:
    return sorted(versions, key=lambda version: [int(number) for number in version.split(".")])
