"""Causes that lie in the request: what does not exist, and what cannot be had together on any machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rattler import MatchSpec, VersionSpec

from ctk.core.errors import nearest
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.solve.catalogue import ANY_DRIVER, PYTHON, Asked, Catalogue, listing
from ctk.solve.solve import Scenario
from ctk.solve.unsolvable.probe import Cause, constraint, core, in_words, pythons_for, toolkits_for, without_pins

_OTHER_BASE = "name another one, such as --base conda-forge"


def not_there(scenario: Scenario, catalogue: Catalogue) -> Cause | None:
    """A package or a version that the channels do not have for this platform."""
    there = catalogue.names([scenario.subdir, NOARCH])
    for asked in map(Asked, scenario.specs):
        if asked.name.startswith("__"):
            continue
        if asked.name not in there:
            return _no_such_name(asked, there, catalogue)
        records = catalogue.records(asked.name)
        if not any(asked.match.matches(record) for record in records):
            python = asked.name in PYTHON
            build = asked.match.build is not None and not python
            found = list(dict.fromkeys(f"{r.version} {r.build}" if build else str(r.version) for r in records))
            some = "there is" if len(found) == 1 else "there are" if len(found) <= 8 else "the newest are"
            name = in_words(*(a for a in map(Asked, scenario.specs) if a.name in PYTHON)) if python else ""
            return Cause(
                f"there is no {name or f'{asked.name} {constraint(asked)}'} in the channels; "
                f"{some} {listing(found[:8][::-1])}",
                f"ask for {'one of those' if len(found) > 1 else found[0]}{_other_base(asked.name, catalogue)}",
            )
    return None


def _no_such_name(asked: Asked, there: set[str], catalogue: Catalogue) -> Cause:
    subdir = catalogue.subdir
    ours, *bases = catalogue.channels
    if not catalogue.names([subdir], [ours]):
        return Cause(f"the channel has nothing for {subdir}", f"build it: ctk build --platform {subdir}")
    if any(asked.name in catalogue.names(PLATFORMS, [base]) for base in bases if base in _empty(catalogue)):
        return Cause(f"{asked.name} would come from the base channel, which has nothing for {subdir}", _OTHER_BASE)
    elsewhere = [p for p in PLATFORMS if p != subdir and asked.name in catalogue.names([p])]
    if elsewhere:
        return Cause(
            f"{asked.name} is not published for {subdir}; it is for {listing(elsewhere)}",
            f"leave it out, or ask for {listing([f'--platform {p}' for p in elsewhere], 'or')}",
        )
    if maker := catalogue.maker(asked.name):
        why = "" if maker.by_default else ", which the default build leaves out"
        return Cause(
            f"{asked.name} is not built here: it is made by the recipe {maker.recipe}{why}",
            f"run `ctk build --recipe {maker.recipe}`{'' if maker.by_default else ', or `ctk build --all-components`'}",
        )
    # Nobody who asks for pytorch means python.
    near = nearest(asked.name, there, cutoff=0.75)
    step = f"did you mean {listing(near, 'or')}?" if near else f"see `ctk plan`{_other_base(asked.name, catalogue)}"
    return Cause(f"there is no package {asked.name} in the channels", step)


def _other_base(name: str, catalogue: Catalogue) -> str:
    """Where else a package could be, when it is not one of ours."""
    ours = catalogue.names([catalogue.subdir, NOARCH], catalogue.channels[:1])
    return "" if name in ours else ", or name a base channel that has more with --base"


def request_cause(scenario: Scenario, catalogue: Catalogue) -> Cause | None:
    """What is wrong with a request on every machine; None where some machine can have it."""
    ideal = replace(scenario, driver=ANY_DRIVER, arch=None)
    if catalogue.pick(ideal):
        return None
    at_fault = core(ideal, catalogue)
    texts = [asked.text for asked in at_fault]
    if len(at_fault) == 1:
        return _not_provided(at_fault[0], ideal, catalogue)
    python = [asked for asked in at_fault if asked.name in PYTHON]
    others = [asked for asked in at_fault if asked.name not in PYTHON]
    toolkits = [asked for asked in others if asked.name == "cuda-version"]
    if python and len(others) - len(toolkits) == 1:
        (other,) = (asked for asked in others if asked not in toolkits)
        kinds = pythons_for(replace(ideal, specs=tuple(asked.text for asked in others)), catalogue)
        which = f"{in_words(*python)}{''.join(f' with {in_words(asked)}' for asked in toolkits)}"
        cause = f"{other.text} is not built for {which}; it is for {listing(kinds)}"
        return Cause(cause, f"ask for Python {listing(kinds, 'or')}")
    step = without_pins(scenario, at_fault, catalogue) or f"leave out {listing(texts, 'or')}"
    if len(at_fault) > 2:
        return Cause(f"{listing(texts)} cannot be had together; without any one of them the others can", step)
    toolkit, other = sorted(at_fault, key=lambda asked: asked.name != "cuda-version")
    if toolkit.name == "cuda-version" != other.name:
        bare = replace(ideal, specs=(toolkit.text, other.name))
        if not other.pinned or not catalogue.pick(bare):
            return _not_for_toolkit(toolkit, other, ideal, catalogue, step)
    if toolkit.pinned and other.pinned:
        return Cause(f"{texts[0]} and {texts[1]} contradict each other", step)
    return Cause(f"{texts[0]} and {texts[1]} cannot be had together", step)


def _not_for_toolkit(toolkit: Asked, other: Asked, ideal: Scenario, catalogue: Catalogue, step: str) -> Cause:
    """A package that does not exist for the toolkit that is asked for."""
    specs = (toolkit.text, other.text)
    elsewhere = [p for p in PLATFORMS if p != ideal.subdir and catalogue.pick(replace(ideal, subdir=p, specs=specs))]
    place = f" on {ideal.subdir} (it is on {listing(elsewhere)})" if elsewhere else ""
    has = listing(toolkits_for(other, ideal, catalogue))
    return Cause(f"{other.text} is not published for {in_words(toolkit)}{place}; it is for {has}", step)


def _not_provided(asked: Asked, ideal: Scenario, catalogue: Catalogue) -> Cause:
    """A package that needs something no channel has."""
    chain = _missing(asked.text, ideal, catalogue, {})
    if not chain:
        cause = f"{asked.text} cannot be installed from these channels on any machine"
        return Cause(cause, "read what the solver says")
    need = Asked(chain[-1])
    if need.name.startswith("__"):
        virtual = [str(p.version) for p in ideal.virtual_packages if p.name.normalized == need.name]
        return Cause(
            f"{asked.text} needs {need.text}, and this machine has {listing(virtual)}", "ask for an older version"
        )
    versions = list(dict.fromkeys(str(record.version) for record in catalogue.records(need.name)))
    found = f"have only {listing(versions[:8][::-1])}" if versions else "do not have"
    if not versions and len(_empty(catalogue)) > 0:
        cause = f"{asked.text} needs {need.name} from the base channel, which has nothing for {ideal.subdir}"
        return Cause(cause, _OTHER_BASE)
    cause = f"{asked.text} needs {need.text}, {'of which' if versions else 'which'} the channels {found}"
    return Cause(cause, f"name a base channel that has {need.name}, such as --base conda-forge")


def _empty(catalogue: Catalogue) -> list[Path | str]:
    """The channels that have nothing for the platform."""
    return [c for c in catalogue.channels if not catalogue.names([catalogue.subdir], [c])]


def _missing(text: str, ideal: Scenario, catalogue: Catalogue, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The way from a spec to a dependency that nothing provides, as specs; () where everything is there.

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
    way: tuple[str, ...] = ()
    for record in catalogue.records(name):
        if not match.matches(record):
            continue
        ways = (_missing(dependency, ideal, catalogue, known) for dependency in record.depends)
        found = next((w for w in ways if w), ())
        if not found:
            return ()
        way = way or found
    known[text] = (text, *way)
    return known[text]
