"""What the tool prints is in plain English: phrases that readers stumbled over do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ctk

TOOL = Path(str(ctk.__file__)).parent if ctk.__file__ else Path(ctk.__path__[0])
# A phrase -> what to write in its place.
ODD = {
    r"(?<![Tt]here) is no (?!longer|more|such)\w": "X is not a Y",
    r"\bis wanted\b": "but this needs",
    r"\bsays? nothing\b": "has no effect, has no entry",
    r"\ball the same\b": "anyway",
    r"\bcan(not)? be had\b": "can(not) be installed, is (not) available",
    r"\bany more\b": "no longer",
    r"\bon purpose\b": "intentionally",
}


@cache
def every_text() -> list[tuple[str, str]]:
    """Place and text of each string of the tool that is not a docstring."""
    return [
        (f"{file.relative_to(TOOL)}:{line}", text)
        for file in sorted(TOOL.rglob("*.py"))
        for line, text in texts(file)
    ]


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string of a module that is not a docstring."""
    tree = ast.parse(file.read_bytes())
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.lineno, node.value


@pytest.mark.parametrize("phrase", ODD)
def test_no_message_has_a_phrase_that_readers_stumbled_over(phrase: str) -> None:
    found = [
        f"{place}: {text!r}; write {ODD[phrase]}"
        for place, text in every_text()
        if re.search(phrase, text)
    ]
    assert found == []
