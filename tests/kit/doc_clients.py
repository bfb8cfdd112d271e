"""Lines of conda, mamba and pixi: the machine and the request that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ctk.core.platforms import this_platform
from ctk.solve.solve import Pick, Scenario
from kit.doc_commands import Command
from kit.doc_pages import Block

Solve = Callable[[Scenario], Pick]
PageSolve = Callable[[Block], Solve]

CLIENTS = ("conda", "mamba", "pixi")
_SOLVING = ("create", "install", "add")
_WITH_A_VALUE = ("-n", "--name", "-p", "--prefix", "-c", "--channel", "-f", "--file")


@dataclass(frozen=True)
class Line:
    """What a line asks for.

    Attributes:
        scenario: The request on the machine that its variables or its comment name; None where it
            asks for no packages.
        channels: In its order; empty where a workspace has them.
        toolkit: What the comment promises: ``12.9``, ``newest``, or "".
        fit: ``native``, ``compat``, or "" where it does not say.
    """

    scenario: Scenario | None
    channels: tuple[str, ...] = ()
    toolkit: str = ""
    fit: str = ""


def read(command: Command) -> Line:
    """Reads a line of a client."""
    channels, specs = [], []
    words = iter(command.words[2:])
    for word in words:
        if word in _WITH_A_VALUE:
            value = next(words)
            channels += [value] if word in ("-c", "--channel") else []
        elif not word.startswith("-"):
            specs.append(word)
    if command.words[1] not in _SOLVING or not specs:
        return Line(None)
    wanted = scenario(tuple(specs), command.variables, command.comment)
    return Line(wanted, tuple(channels), *promise(command.comment))


def promise(comment: str) -> tuple[str, str]:
    """Toolkit and fit that a comment states; "" for what it does not."""
    if re.search(r"the newest toolkit", comment):
        return "newest", "compat" if "compat" in comment else ""
    found = re.search(r"toolkit (\d+\.\d+)(?:,? (native|compat))?", comment)
    return (found[1], found[2] or "") if found else ("", "")


def scenario(specs: tuple[str, ...], variables: Mapping[str, str], comment: str = "") -> Scenario:
    """The request on the machine that is meant; without a word about it, one without a driver."""
    stated = re.search(r"driver for (\d+\.\d+)", comment)
    driver = variables.get("CONDA_OVERRIDE_CUDA", stated[1] if stated else "") or None
    subdir = variables.get("CONDA_SUBDIR", this_platform())
    return Scenario(specs, subdir, driver, variables.get("CONDA_OVERRIDE_CUDA_ARCH") or None)


def problem(line: Line, pick: Pick, newest: str) -> str:
    """What the pick is not that the line promises; "" where it is all."""
    wanted = newest if line.toolkit == "newest" else line.toolkit
    if wanted and pick.toolkit != wanted:
        return f"toolkit {pick.toolkit} and not {wanted}"
    if line.fit and pick.fit != line.fit:
        return f"{pick.fit} and not {line.fit}"
    if not line.fit and line.scenario and line.scenario.driver and pick.fit != "native":
        return f"{pick.fit}, and the line does not say so"
    return ""
