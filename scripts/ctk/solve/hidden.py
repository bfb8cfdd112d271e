"""Packages that strict priority hides, or what they need, and the specs that find them.

With strict priority a channel hides every version of a name that channels behind it have, if it has
that name. rattler, and so pixi, has no other priority; that of conda and mamba is flexible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from rattler import RepoDataRecord

from ctk.solve.solve import (
    Catalogue,
    Scenario,
    Spec,
    channel_name,
    lasting,
    parse_spec,
    spec_of_record,
)

TOOLKIT = "cuda-version"
"""Never taken from behind: only that of ours says which toolkit a driver can run."""


@dataclass(frozen=True)
class Hidden:
    """A package that is hidden, or that needs packages which are.

    Attributes:
        version: Its version.
        channel: The channel that has it, as people call it.
        specs: The specs that find it: they name the channel, also for what it needs of there.
    """

    version: str
    channel: str
    specs: tuple[str, ...]


def hidden(wanted: Spec, scenario: Scenario, catalogue: Catalogue) -> Hidden | None:
    """The hidden package that a spec asks for, if the request has a solution with it; else None.

    Args:
        wanted: The spec.
        scenario: The machine, and the request; where it has the spec, others take its place.
        catalogue: The channels.
    """
    rest = tuple(text for text in scenario.specs if text != wanted.text)
    is_hidden = bool(catalogue.hidden(wanted.name))
    tried: set[tuple[str, ...]] = set()
    candidates = _candidates(wanted, catalogue)
    for needs_of, record in product((_hidden_needs, _all_behind), candidates):
        needs = needs_of(record, catalogue)
        key = tuple(needs)
        # Without needs, a package that is not hidden itself is found as it is. Of another version
        # with the same needs, the solver chooses between them.
        is_plain = not is_hidden and not needs
        if key in tried or is_plain or TOOLKIT in (wanted.name, *needs):
            continue
        tried.add(key)
        channel = lasting(str(record.channel)).rstrip("/")
        own = f"{channel}::{wanted.name}" if is_hidden else wanted.name
        specs = (f"{own}{_pins(wanted)}", *(f"{channel}::{name}" for name in needs))
        if catalogue.solves(scenario, specs=(*rest, *specs)):
            least = _least(specs, rest, scenario, catalogue)
            pick = catalogue.pick(replace(scenario, specs=(*rest, *least)))
            version = pick.version(wanted.name) if pick else str(record.version)
            return Hidden(version, channel_name(channel), least)
    return None


def _least(
    specs: tuple[str, ...], rest: tuple[str, ...], scenario: Scenario, catalogue: Catalogue
) -> tuple[str, ...]:
    """The specs that are needed, of those that find a package; the first one always is."""
    left = specs
    for spec in specs[1:]:
        fewer = tuple(other for other in left if other != spec)
        if catalogue.solves(scenario, specs=(*rest, *fewer)):
            left = fewer
    return left


def _candidates(wanted: Spec, catalogue: Catalogue) -> list[RepoDataRecord]:
    """The records behind, of a package that is hidden itself, or that needs what is hidden."""
    behind = catalogue.hidden(wanted.name)
    if not behind and wanted.name not in catalogue.own_names:
        behind = catalogue.records(wanted.name)
    return matching(wanted, behind)


def matching(spec: Spec, records: Iterable[RepoDataRecord]) -> list[RepoDataRecord]:
    """The records that a spec matches; the channel of the spec is not looked at."""
    plain = parse_spec(without_channel(spec))
    return [record for record in records if plain.match.matches(record)]


def without_channel(spec: Spec) -> str:
    """A spec without its channel."""
    return f"{spec.name}{_pins(spec)}"


def _pins(spec: Spec) -> str:
    """The version and the build of a spec, with a space before them; "" without either."""
    if spec.build:
        return f" {spec.version or '*'} {spec.build}"
    return f" {spec.version}" if spec.version else ""


def _hidden_needs(record: RepoDataRecord, catalogue: Catalogue) -> list[str]:
    """The packages that a record of a channel behind needs in builds that are hidden.

    Also through packages that only such a channel has, of which the newest that fits is taken.
    """
    hidden: list[str] = []
    followed = {record.name.normalized}
    waiting = [record]
    while waiting:
        for text in waiting.pop().depends:
            need = spec_of_record(text)
            if need.name in followed or need.name.startswith("__"):
                continue
            visible = matching(need, catalogue.records(need.name))
            if visible and need.name in catalogue.own_names:
                continue  # another record may need a build that is hidden
            behind = visible or matching(need, catalogue.hidden(need.name))
            if not behind:
                continue
            followed.add(need.name)
            waiting.append(behind[0])
            if not visible:
                hidden.append(need.name)
    return hidden


def _all_behind(record: RepoDataRecord, catalogue: Catalogue) -> list[str]:
    """The packages that a record may need and that are hidden in any version.

    More than `_hidden_needs`: packages here that fit each need may not fit each other.
    """
    found: list[str] = []
    seen = {record.name.normalized, TOOLKIT}
    waiting = [record]
    while waiting:
        for text in waiting.pop().depends:
            need = spec_of_record(text)
            if need.name in seen or need.name.startswith("__"):
                continue
            seen.add(need.name)
            behind = matching(need, catalogue.hidden(need.name))
            if behind:
                found.append(need.name)
            elif need.name not in catalogue.own_names:
                behind = matching(need, catalogue.records(need.name))
            waiting += behind[:1]
    return found
