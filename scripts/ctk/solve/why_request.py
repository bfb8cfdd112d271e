"""Why a request has no solution on any machine: its specs, its Python, glibc or a dependency."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rattler import RepoDataRecord, Version, VersionSpec

from ctk.core.console import listing
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.core.similar import nearest
from ctk.package.records import glibc_floor
from ctk.plan.messages import shown
from ctk.solve.advice import (
    UnnamedChannel,
    base_with,
    checkout_of,
    how_made,
    how_to_build,
    in_unnamed_channel,
    planned_of,
)
from ctk.solve.change import needs_cuda
from ctk.solve.machine import GLIBC, glibc_in_words, glibc_of, is_glibc_stated, python_specs
from ctk.solve.reason import (
    READ_SOLVER,
    Kind,
    Reason,
    conflict,
    droppable_pins,
    in_words,
    texts,
    toolkits_for,
)
from ctk.solve.solve import (
    ANY_GLIBC,
    PYTHON,
    Catalogue,
    Pick,
    Scenario,
    Spec,
    older,
    spec_of_record,
)

_SHOWN = 8  # versions that a sentence names


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
    step = droppable_pins(scenario, at_fault, catalogue) or _leave_out(scenario, texts, catalogue)
    if len(at_fault) > 2:
        cause = (
            f"{listing(texts)} cannot be installed together; if you leave one out, the others can"
        )
        return Reason(Kind.CONFLICT, cause, step)
    toolkit, other = sorted(at_fault, key=lambda spec: spec.name != "cuda-version")
    if cause := _not_for_toolkit(toolkit, other, ideal, catalogue):
        return Reason(Kind.CONFLICT, cause, step)
    how = (
        "contradict each other"
        if toolkit.pinned and other.pinned
        else "cannot be installed together"
    )
    return Reason(Kind.CONFLICT, f"{texts[0]} and {texts[1]} {how}", step)


def _leave_out(scenario: Scenario, texts: Sequence[str], catalogue: Catalogue) -> str:
    """The advice to leave out a spec: those without which the machine has a solution, if any."""
    helping = []
    for text in texts:
        rest = tuple(other for other in scenario.specs if other != text)
        if catalogue.solves(scenario, specs=rest):
            helping.append(text)
    return f"leave out {listing(helping or texts, 'or')}"


def _not_for_toolkit(toolkit: Spec, other: Spec, ideal: Scenario, catalogue: Catalogue) -> str:
    """That a package is not there for a toolkit; "" for other conflicts of two specs."""
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
    has = listing(toolkits_for(other, ideal, catalogue))
    made = how_made(other.name, [both], catalogue)
    return f"{other.text} is not {made} for {in_words(toolkit)}{place}; it is for {has}"


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
    specs = texts([package, *toolkits])
    have = [
        version
        for version in catalogue.pythons
        if catalogue.solves(ideal, specs=(*specs, *python_specs(version)))
    ]
    which = " with ".join([in_words(*python), *map(in_words, toolkits)])
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
        return unnamed_reason(f"{needs}, and {need.name} is", unnamed)
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
    near = []
    if not checkout_of(catalogue).known_names().at_conda_forge(need.name):
        near = nearest(need.name, catalogue.names([catalogue.subdir, NOARCH]))
    if near:
        step = f"did you mean {listing(near, 'or')}? Else {step}"
    cause = f"{needs}, which the channels do not have"
    return Reason(Kind.NO_DEPENDENCY, cause, step, near=tuple(near))


def unnamed_reason(subject: str, unnamed: UnnamedChannel) -> Reason:
    """The reason for a package of a channel that was not named; the subject is ``NAME is``."""
    cause = f"{subject} in the channel {shown(unnamed.place)}, which was not named"
    options = shlex.join(word for place in unnamed.channels for word in ("--channel", place))
    return Reason(
        Kind.UNNAMED_CHANNEL, cause, f"name the channels: {options}", channels=unnamed.channels
    )


def _needs_in_conflict(package: Spec, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a package whose dependencies are all there, and have no solution together."""
    newest = next(filter(package.match.matches, catalogue.records(package.name)), None)
    needs = replace(ideal, specs=tuple(newest.depends) if newest else ())
    if catalogue.solves(needs):
        cause = f"{package.text} cannot be installed from these channels on any machine"
        return Reason(Kind.UNKNOWN, cause, READ_SOLVER)
    texts = [spec.text for spec in conflict(needs, catalogue)]
    how = "cannot be installed from these channels on any machine"
    if len(texts) > 1:
        how = "cannot be installed together"
    cause = f"{package.text} needs {listing(texts)}, which {how}"
    return Reason(Kind.NO_DEPENDENCY, cause, READ_SOLVER)


def _dependency_not_built(needs: str, need: Spec, ideal: Scenario, catalogue: Catalogue) -> Reason:
    """The reason for a dependency that a recipe of this checkout makes; it begins with `needs`."""
    maker = checkout_of(catalogue).maker(need.name)
    ends = [platform for platform in PLATFORMS if need.name.endswith(f"_{platform}")]
    target = ends[0] if ends else ideal.subdir  # a cross-compiler's half
    release = ""
    planned = planned_of(catalogue)
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
