"""The commands of the docs' shell blocks, taken apart: words, variables set for them, and what a
comment promises.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click
import typer

from ctk.cli.main import app
from kit.doc_pages import Block

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OPERATORS = {"|", "||", "&&", ";", "&"}


@dataclass(frozen=True)
class Command:
    """One command of a shell block.

    Attributes:
        block: Where it is written.
        words: The program and its arguments, as the shell passes them on.
        variables: What is set for it alone.
        comment: What stands behind it, after ``#``, or in the line above it.
    """

    block: Block
    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.block.page}: {' '.join(self.words)}"

    @property
    def program(self) -> str:
        return self.words[0]

    def starts_with(self, words: Sequence[str]) -> bool:
        return self.words[: len(words)] == tuple(words)


def commands(block: Block) -> list[Command]:
    """Each command of a block; a line that the shell would go on with is one line.

    Raises:
        ValueError: A quotation is not closed.
    """
    found, above = [], ""
    for line in block.text.replace("\\\n", " ").splitlines():
        found += list(_of_line(block, line, above))
        above = line.removeprefix("#").strip() if line.startswith("#") else ""
    return found


def of_script(block: Block, script: str) -> list[Command]:
    """The same of a script that a block holds, such as a RUN of a Dockerfile."""
    return [command for line in script.splitlines() for command in _of_line(block, line)]


def _of_line(block: Block, line: str, above: str = "") -> Iterator[Command]:
    code, *behind = re.split(r"(?:^|\s)#", line, maxsplit=1)
    comment = behind[0].strip() if behind else above
    reader = shlex.shlex(code, posix=True, punctuation_chars="|&;")
    reader.whitespace_split, reader.commenters = True, ""
    words: list[str] = []
    for word in [*reader, ";"]:
        if word not in _OPERATORS:
            words.append(word)
        elif words:
            variables = {}
            while words and _ASSIGNMENT.match(words[0]):
                name, _, variables[name] = words.pop(0).partition("=")
            if words:
                yield Command(block, tuple(words), variables, comment)
            words = []


def parse_ctk(words: Sequence[str]) -> None:
    """Reads a command line of ctk as ctk does, and does nothing.

    Raises:
        click.ClickException: An unknown command or option, a missing or a needless argument, a
            value of the wrong kind.
    """
    command = typer.main.get_command(app)
    context = command.make_context("ctk", list(words), resilient_parsing=False)
    while isinstance(command, click.Group) or hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", []), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
