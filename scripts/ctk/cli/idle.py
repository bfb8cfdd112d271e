"""Options that say nothing beside another one, or without one.

They are refused, so that none is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctk.core.console import listing, mode
from ctk.core.errors import BadValue


@dataclass(frozen=True)
class Idle:
    """A rule for a command.

    Attributes:
        options: Options that a command line may not have, by their long names.
        beside: If this option is there.
        without: If none of these is there.
    """

    options: tuple[str, ...]
    beside: str = ""
    without: tuple[str, ...] = ()

    def found(self, typed: Sequence[str]) -> list[str]:
        """The options that say nothing on a command line, which has those of `typed`."""
        if any(option in typed for option in self.without):
            return []
        if self.beside and self.beside not in typed:
            return []
        return [option for option in typed if option in self.options]


_OF_A_CHANNEL = (
    "--published",
    "--url",
    "--identity",
    "--issuer",
    "--key",
    "--attested",
    "--trusted-root",
)
_OF_THE_MATRIX = (
    "--solver",
    "--constraints",
    "--platform",
    "--request",
    "--python",
    "--sample",
    "--seed",
)

RULES: Mapping[str, tuple[Idle, ...]] = {
    "build": (
        # --dry-run and --fetch-only take all options: they are put behind the line that is to be
        # run.
        Idle(("--store",), without=("--dask",)),
        Idle(("--format",), without=("--dry-run",)),
    ),
    "check": (
        Idle(
            ("PLACES", "--rebuild", "--check", "--base", *_OF_A_CHANNEL, "--jobs"), beside="--list"
        ),
        Idle(("--check", "--base", *_OF_A_CHANNEL), beside="--rebuild"),
        Idle(("--identity", "--issuer", "--trusted-root"), beside="--key"),
    ),
    "doctor": (
        Idle(("--keep",), without=("--channel",)),
        Idle(("--base",), without=("--keep",)),
    ),
    "lint": (
        Idle(("--check", "--format", "--jobs"), beside="--list"),
        Idle(("--jobs",), without=("--planned",)),
    ),
    "publish": (
        Idle(("FOLDER",), beside="--from"),
        Idle(("--sign-key",), beside="--attest"),
        Idle(("--skip-taken",), beside="--new"),
    ),
    "verify": (
        Idle((*_OF_THE_MATRIX, "--channel"), beside="--write-table"),
        # A second solver gets a sample of its own size.
        Idle(("--seed",), without=("--sample", "--solver")),
    ),
}
"""Words of a command -> the rules for its options.

Those with a step of their own are in the commands.
"""


def refuse_idle(context: Any) -> None:
    """Raises BadValue for options of a command line that the command would ignore."""
    typed = _typed(context)
    if mode().quiet and mode().verbose:
        raise BadValue("--quiet and --verbose exclude each other", "give one of them")
    command = " ".join(context.command_path.split()[1:])
    for rule in RULES.get(command, ()):
        idle = rule.found(typed)
        if not idle:
            continue
        verb = "has" if len(idle) == 1 else "have"
        cause = f"{listing(idle)} {verb} no effect"
        if rule.beside:
            raise BadValue(
                f"{cause} with {rule.beside}", f"leave out {rule.beside}, or {listing(idle)}"
            )
        needed = listing([*rule.without], "or")
        raise BadValue(f"{cause} without {needed}", f"add {needed}, or leave out {listing(idle)}")


def _typed(context: Any) -> list[str]:
    """The options that stand on the command line, and the arguments, in capitals.

    Others may be of variables.
    """
    found = []
    for param in context.command.params:
        source = context.get_parameter_source(param.name)
        if source is not None and source.name == "COMMANDLINE":
            is_option = param.opts[0].startswith("-")
            word = param.opts[0] if is_option else param.name.upper()
            found.append(word)
    return found
