"""Lines of conda, mamba and pixi: the machine and the request that they mean, and the options that these clients have.

Options as the clients document them: https://docs.conda.io/projects/conda/en/26.5.x/commands/create.html and the other
pages there; mamba's are conda's (micromamba/src/common_options.cpp of mamba-org/mamba); for pixi docs/reference/cli of
prefix-dev/pixi. Only those that the docs use: another one is looked up, and added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from doc_commands import Command

from ctk.core.platforms import this_platform
from ctk.solve.solve import Pick, Scenario

Solve = Callable[[Scenario], Pick]

_PLACE = {"-n": 1, "--name": 1, "-p": 1, "--prefix": 1}
_SOLVE = {
    **_PLACE,
    "-c": 1,
    "--channel": 1,
    "--override-channels": 0,
    "--strict-channel-priority": 0,
    "-y": 0,
    "--yes": 0,
}
_OPTIONS: dict[tuple[str, str], dict[str, int]] = {
    # Client and command -> option -> how many values it takes.
    ("conda", "create"): {**_SOLVE, "--file": 1},
    ("conda", "install"): {**_SOLVE, "--force-reinstall": 0},
    ("conda", "activate"): {},
    ("conda", "config"): {"--set": 2},
    ("conda", "list"): {**_PLACE, "--explicit": 0, "--sha256": 0},
    ("conda", "update"): {**_SOLVE, "--all": 0},
    ("conda", "clean"): {"--all": 0, "-y": 0, "--yes": 0},
    ("conda", "run"): _PLACE,
    ("conda", "env export"): {**_PLACE, "--no-builds": 0},
    ("conda", "env create"): {**_PLACE, "-f": 1, "--file": 1},
    ("mamba", "create"): _SOLVE,
    ("mamba", "info"): {},
    ("mamba", "env export"): {**_PLACE, "--explicit": 0},
    ("pixi", "add"): {},
    ("pixi", "run"): {},
}
_SOLVING = {"create", "install", "add"}


@dataclass(frozen=True)
class Line:
    """What a line asks for.

    Attributes:
        scenario: The request on the machine that its variables or its comment name; None where it asks for no packages.
        channels: In its order; empty where a workspace has them.
        toolkit: What the comment promises: ``12.9``, ``newest``, or "".
        fit: ``native``, ``compat``, or "" where it does not say.
    """

    scenario: Scenario | None
    channels: tuple[str, ...] = ()
    toolkit: str = ""
    fit: str = ""


def read(command: Command) -> Line:
    """Reads a line.

    Raises:
        ValueError: The client has no such command, or no such option.
    """
    client, size = command.program, 3 if command.words[1] == "env" else 2
    name = " ".join(command.words[1:size])
    known = _OPTIONS.get((client, name))
    if known is None:
        raise ValueError(f"{client} {name}: no such command is known here")
    options, specs = _split(command, known, size, stop=name == "run")
    if name not in _SOLVING or not specs:
        return Line(None)
    channels = tuple(value for option, value in options if option in ("-c", "--channel"))
    return Line(scenario(specs, command.variables, command.comment), channels, *promise(command.comment))


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


def _split(
    command: Command, known: Mapping[str, int], size: int, stop: bool
) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Options with their value, and the other words behind the command's; ``stop`` at the first, which is a program."""
    options: list[tuple[str, str]] = []
    others: list[str] = []
    rest = list(command.words[size:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            others.append(word)
            if stop:
                break
        elif word not in known:
            raise ValueError(f"{command.program} {' '.join(command.words[1:size])} is not known to have {word}")
        else:
            options.append((word, rest.pop(0) if known[word] and rest else ""))
    return options, tuple(others)
