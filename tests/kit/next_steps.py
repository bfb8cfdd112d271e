"""The commands in what the tool prints as a next step: between backticks, or from the step's first
word on.
"""

from __future__ import annotations

import re

_PROGRAMS = (
    "ctk",
    "conda",
    "mamba",
    "pip",
    "python",
    "git",
    "rm",
    "chmod",
    "export",
    "unset",
    "apt-get",
    "ulimit",
)
_BEGINS = re.compile(rf"(?:(?:run|see|type) )?((?:{'|'.join(_PROGRAMS)}|\./scripts/\w+)(?: .*)?)")


def commands_in(step: str) -> list[str]:
    """The commands of a step as they are typed.

    What follows a comma or semicolon is another one, or words about it.
    """
    quoted = re.findall(r"`([^`]+)`", step)
    begins = None if quoted else _BEGINS.fullmatch(step)
    said = quoted or (re.split(r", |; | which | makes | brings ", begins[1])[:1] if begins else [])
    # The alternatives that `ctk doctor PREFIX` prints are commands as a whole.
    said += [
        part
        for part in step.split(", or ")[1:]
        if not quoted and part.startswith(tuple(f"{name} " for name in _PROGRAMS))
    ]
    return [command.strip() for text in said for command in text.split(" && ")]
