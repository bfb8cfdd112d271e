"""What is printed as a next step can be typed: ctk has its commands.

What `ctk` prints for bad input is typed in tests/cli/test_bad_input.py.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_commands import parse_ctk

from conftest import ROOT
from ctk.cli.main import OLD
from ctk.core.checkout import Workspace
from ctk.solve.channels import Channels
from ctk.solve.solve import Catalogue, Scenario
from kit.next_steps import commands_in

pytest_plugins = ["docs_fixtures"]

VALUE = "VALUE"
"""What stands for a value that the code fills in."""


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


NO_STEPS = {
    f"ctk {VALUE} with rattler-build {VALUE} and zstd {VALUE}": "the name of a worker's environment",
    f"ctk {VALUE}": "the title of a page of help",
    "ctk env pack": "a comment in a file",
    "ctk solve": "the beginning of a line that goes on",
    f"ctk build {VALUE}": "with an option, in test_a_package_that_is_left_out_is_built_by_the_line_for_it",
}
SOURCES = sorted((ROOT / "scripts" / "ctk").rglob("*.py"))


def test_every_command_of_ctk_in_a_text_is_one_that_it_takes() -> None:
    found = {c: file for file in SOURCES for text in literals(file) for c in commands_in(text) if c.startswith("ctk ")}
    assert len(found) > 20 and found.keys() >= NO_STEPS.keys(), "NO_STEPS has one that no text has"
    wrong = []
    for command, file in found.items():
        if command not in (*NO_STEPS, *OLD.values()):  # a new name for an old one, not a whole line
            try:
                parse_ctk(shlex.split(command)[1:])
            except Exception as error:
                if type(error).__name__ != "Exit":  # as --help ends
                    wrong.append(f"{file.name}: `{command}`: {error}")
    assert wrong == []


def test_a_package_that_is_left_out_is_built_by_the_line_for_it(planned_channels: Channels) -> None:
    from ctk.core.errors import Unsolvable
    from ctk.solve.channels import maker
    from ctk.solve.why import solve_or_say_why

    base = Catalogue(planned_channels.folders[1:], "linux-64", maker=lambda name: maker(Workspace(ROOT), name))
    for package in ("cuda-core", "libcublas", "cudnn"):
        with pytest.raises(Unsolvable) as error:
            solve_or_say_why(Scenario((package,), "linux-64", "13.0"), base)
        lines = [c for c in commands_in(error.value.step) if c.startswith("ctk ")]
        assert lines, error.value.step
        for command in lines:
            parse_ctk(shlex.split(command)[1:])
