"""The commands in what the tool prints as a next step: between backticks, or from the step's first word on."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("ctk", "conda", "mamba", "pip", "python", "git", "rm", "chmod", "export", "unset", "apt-get", "ulimit")
_BEGINS = re.compile(rf"(?:(?:run|see|type) )?((?:{'|'.join(PROGRAMS)}|\./scripts/\w+)(?: .*)?)")
VALUE = "VALUE"
"""What stands for a value that the code fills in."""


def commands_in(step: str) -> list[str]:
    """The commands of a step as they are typed; what follows a comma or semicolon is another one, or words about it."""
    quoted = re.findall(r"`([^`]+)`", step)
    begins = None if quoted else _BEGINS.fullmatch(step)
    said = quoted or (re.split(r", |; | which | makes | brings ", begins[1])[:1] if begins else [])
    # The alternatives that `ctk doctor PREFIX` prints are commands as a whole.
    said += [
        part
        for part in step.split(", or ")[1:]
        if not quoted and part.startswith(tuple(f"{name} " for name in PROGRAMS))
    ]
    return [command.strip() for text in said for command in text.split(" && ")]


def literals(file: Path) -> Iterator[str]:
    """The texts in a module of Python that are no docstrings, with `VALUE` for what is filled in."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def words(command: str) -> list[str]:
    """The words of a command, as a shell has them."""
    return shlex.split(command)
