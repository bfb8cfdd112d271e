"""Experiments with a scenario that has no solution: what is left out or changed, and whether it then has one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctk.solve.catalogue import PYTHON, Asked, Catalogue
from ctk.solve.machine import python_specs
from ctk.solve.solve import Scenario


@dataclass(frozen=True)
class Cause:
    """Why there is no solution: one sentence, and what the user can do."""

    sentence: str
    step: str


def core(scenario: Scenario, catalogue: Catalogue) -> list[Asked]:
    """The specs that have no solution together, and have one without any of them."""
    left = [Asked(text) for text in dict.fromkeys(scenario.specs)]
    # What says most is tried last, and so stays: pins rather than names, cuda-version rather than anything.
    for asked in sorted(left, key=lambda a: (a.pinned, a.name not in PYTHON, a.name == "cuda-version")):
        fewer = [other for other in left if other is not asked]
        if fewer and not catalogue.pick(replace(scenario, specs=tuple(a.text for a in fewer))):
            left = fewer
    return left


def without_pins(scenario: Scenario, at_fault: Sequence[Asked], catalogue: Catalogue) -> str:
    """Which pin can be dropped, one at a time, and what that gives on this machine; "" when none helps."""
    ways = []
    for asked in at_fault:
        specs = tuple(asked.name if text == asked.text else text for text in scenario.specs)
        pick = catalogue.pick(replace(scenario, specs=specs)) if asked.pinned else None
        if pick:
            toolkit = f"{pick.toolkit} {pick.fit}".strip()
            gives = f", which gives toolkit {toolkit}" if pick.toolkit else ""
            ways.append(f"drop the pin {asked.text}{gives}")
    return ", or ".join(ways)


def toolkits_for(asked: Asked, ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits, oldest first, that a spec can be had for on a machine."""
    return [
        toolkit.version
        for toolkit in reversed(catalogue.toolkits)
        if catalogue.pick(replace(ideal, specs=(asked.text, f"cuda-version={toolkit.version}")))
    ]


def pythons_for(ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The Pythons, oldest first, that a request can be had for, written as --python takes them."""
    there = {
        (record.version, "t" if re.search(r"_cp[0-9]+t$", str(record.build)) else "")
        for record in catalogue.records("python_abi")
    }
    kinds = [f"{version}{free_threaded}" for version, free_threaded in sorted(there)]
    return [kind for kind in kinds if catalogue.pick(replace(ideal, specs=(*ideal.specs, *python_specs(kind))))]


def constraint(asked: Asked) -> str:
    """What a spec asks for apart from the name, as a person writes it: ``13.7`` of ``==13.7`` and ``13.7.*``."""
    return " ".join(part for part in (_version(asked), str(asked.match.build or "")) if part)


def in_words(*asked: Asked) -> str:
    """``toolkit 12.9`` of ``cuda-version=12.9``, ``Python 3.14t`` of what --python 3.14t asks for, else the spec."""
    version = _version(asked[0])
    if asked[0].name == "cuda-version" and re.fullmatch(r"[\d.]+", version):
        return f"toolkit {version}"
    if asked[0].name in PYTHON:
        free = any(a.name == "python_abi" and str(a.match.build).endswith("t") for a in asked)
        return f"Python {version}{'t' if free else ''}"
    return asked[0].text


def _version(asked: Asked) -> str:
    return re.sub(r"^==|\.\*$", "", asked.match.version or "")
