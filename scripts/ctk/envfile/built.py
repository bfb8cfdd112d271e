"""The channels of a checkout as they would be with more packages built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctk.core.platforms import NOARCH
from ctk.envfile.row import Answer, Row
from ctk.package.records import records, spec_name
from ctk.plan.plan import repodata_of, write_repodata
from ctk.solve.advice import CheckoutCatalogue, checkout_of, planned_of
from ctk.solve.solve import Catalogue


def built_for(rows: Iterable[Row], catalogue: Catalogue) -> Catalogue:
    """The channels, with what is not built yet of some rows as if built."""
    lacks = [row for row in rows if row.answer is Answer.NOT_BUILT or row.step]
    if not lacks or planned_of(catalogue) is None:
        return catalogue
    return as_if_built(catalogue, [spec_name(spec) for row in lacks for spec in row.asked])


def as_if_built(catalogue: Catalogue, names: Iterable[str]) -> Catalogue:
    """The channels with more packages built, and what these need of the recipes here.

    All packages are there in every version that the recipes and locks give.

    Args:
        catalogue: Channels of a checkout, of which a planned state is known.
        names: The packages.
    """
    planned = planned_of(catalogue)
    assert planned is not None
    every = planned.channels[0]
    assert isinstance(every, Path)
    found = records(every)
    there = _with_needs([*catalogue.own_names, *names], found)
    content: dict[str, dict[str, Any]] = {NOARCH: {}, catalogue.subdir: {}}
    for place, record in found.items():
        subdir, _, file = place.partition("/")
        if record["name"] in there:
            content.setdefault(subdir, {})[file] = record
    digest = hashlib.sha256(" ".join(sorted(there)).encode()).hexdigest()[:16]
    folder = every.parent / "for-files" / digest / "channel"
    written = write_repodata(
        {subdir: repodata_of(subdir, by_file) for subdir, by_file in content.items()}, folder
    )
    checkout = replace(checkout_of(planned), is_planned=True)
    return CheckoutCatalogue([written, *catalogue.channels[1:]], catalogue.subdir, checkout)


def _with_needs(names: Iterable[str], found: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Packages and what they need, of those that are found."""
    needs: dict[str, set[str]] = {}
    for record in found.values():
        own = needs.setdefault(record["name"], set())
        own |= {spec_name(need) for need in record["depends"]}
    waiting = list(names)
    there: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in needs and name not in there:
            there.add(name)
            waiting += needs[name]
    return there
