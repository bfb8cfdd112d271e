"""Why a request has no solution, as data: kinds of reasons, and the specs that are at fault."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ctk.solve.solve import ASKING, ASKS, ASKS_NATIVE, PYTHON, Catalogue, Scenario, Spec, parse_spec

READ_SOLVER = "read what the solver says"


class Kind(StrEnum):
    """Why a request has no solution."""

    NOT_BUILT = "not-built"  # recipes of this checkout make it; the step builds it
    UNNAMED_CHANNEL = "unnamed-channel"  # a channel beside those that are asked has it
    NO_PLATFORM = "no-platform"  # what is asked for is not there for the platform
    NO_PACKAGE = "no-package"  # no channel has a package of this name
    OTHER_NAME = "other-name"  # it is known under another name
    NO_VERSION = "no-version"  # no channel has this version or build
    HIDDEN = "hidden"  # a channel has it, and a package of the same name before it hides it
    NO_PYTHON = "no-python"  # a package is not built for this Python
    NO_DEPENDENCY = "no-dependency"  # a package needs what no channel has
    CONFLICT = "conflict"  # specs that cannot be installed together
    GLIBC = "glibc"
    DRIVER = "driver"
    GPU = "gpu"
    DRIVER_AND_GPU = "driver-and-gpu"
    UNKNOWN = "unknown"  # no cause was found by changing one thing


OF_GPU = frozenset((Kind.GPU, Kind.DRIVER_AND_GPU))
"""The kinds where the GPU is at fault, alone or with the driver."""


@dataclass(frozen=True)
class Reason:
    """Why a request has no solution.

    Attributes:
        kind: The kind of the cause.
        cause: A sentence with the cause.
        step: The next step for the user.
        channels: The channels that the step names, in their order.
        near: Packages of the channels whose names are like the one that is missing.
        nvcc: What to ask for where conda-forge's nvcc is the way; only for a page, which makes
            the command for each client.
    """

    kind: Kind
    cause: str
    step: str
    channels: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    nvcc: tuple[str, ...] = ()


# --- the specs at fault


def conflict(scenario: Scenario, catalogue: Catalogue) -> list[Spec]:
    """A smallest set of specs without a solution: the others have one without any of them."""
    left = [parse_spec(text) for text in dict.fromkeys(scenario.specs)]

    # The specs that say most are tried last, so they stay: pins rather than names, cuda-version
    # rather than others.
    def says_much(spec: Spec) -> tuple[bool, bool, bool]:
        return spec.pinned, spec.name not in PYTHON, spec.name == "cuda-version"

    for spec in sorted(left, key=says_much):
        fewer = [other for other in left if other is not spec]
        if fewer and not catalogue.solves(scenario, specs=texts(fewer)):
            left = fewer
    return left


def texts(specs: Iterable[Spec]) -> tuple[str, ...]:
    """Specs as the user wrote them."""
    return tuple(spec.text for spec in specs)


def without_pin(scenario: Scenario, pin: Spec) -> Scenario:
    """The scenario with the name alone in place of a pin."""
    specs = tuple(pin.name if text == pin.text else text for text in scenario.specs)
    return scenario.asking(*specs)


def droppable_pins(scenario: Scenario, at_fault: Sequence[Spec], catalogue: Catalogue) -> str:
    """The pins (or `ASKING`) that can be dropped, each alone, and the toolkit that each then gets.

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
                gives = f" so that the solver can choose toolkit {toolkit}"
            ways.append(how + gives)
    return ", or ".join(ways)


def _way_without(
    spec: Spec, scenario: Scenario, catalogue: Catalogue
) -> tuple[str, Scenario] | None:
    """How to ask for less than a spec, in words, and the request then; None without such a way."""
    left = tuple(text for text in scenario.specs if text != spec.text)
    if spec.pinned:
        return f"drop the pin {spec.text}", without_pin(scenario, spec)
    if spec.name == ASKS_NATIVE and catalogue.solves(scenario, specs=(ASKS, *left)):
        how = f"name {ASKS} in place of {ASKS_NATIVE}"
        return how, scenario.asking(ASKS, *left)
    if spec.name in ASKING and left:
        return f"leave out {spec.name}", scenario.asking(*left)
    return None


def toolkits_for(package: Spec, ideal: Scenario, catalogue: Catalogue) -> list[str]:
    """The toolkits for which a spec has a solution, oldest first."""
    versions = [toolkit.version for toolkit in reversed(catalogue.toolkits)]
    return [
        version
        for version in versions
        if catalogue.solves(ideal, specs=(package.text, f"cuda-version={version}"))
    ]


def in_words(*specs: Spec) -> str:
    """A spec as a person says it.

    ``toolkit 12.9`` for ``cuda-version=12.9``, ``Python 3.14t`` for the specs of --python 3.14t,
    else the spec.
    """
    first, version = specs[0], plain(specs[0].version)
    if first.name == "cuda-version" and re.fullmatch(r"[\d.]+", version):
        return f"toolkit {version}"
    if first.name in PYTHON:
        abis = [spec for spec in specs if spec.name == "python_abi"]
        free_threaded = "t" if any(abi.build.endswith("t") for abi in abis) else ""
        return f"Python {version}{free_threaded}"
    return first.text


def plain(version: str) -> str:
    """A version as a person writes it: ``13.7`` for ``==13.7`` and ``13.7.*``."""
    return re.sub(r"^==|\.\*$", "", version)
