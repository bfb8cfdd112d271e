"""YAML files that are kept by hand are parsed once, and a note never stands for another text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ctk.core import document
from ctk.core.checkout import Workspace
from ctk.core.document import load_by_hand, load_yaml, parse_by_hand
from ctk.core.errors import LockError


@pytest.fixture
def parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed, in a checkout without notes."""
    texts: list[str] = []

    def counted(text: str) -> Any:
        texts.append(text)
        return load_yaml(text)

    monkeypatch.setattr(document, "workspace", lambda: Workspace(tmp_path))
    monkeypatch.setattr(document, "load_yaml", counted)
    return texts


@pytest.mark.parametrize("text", ["a: [1, x, true, null]", "- on\n- 1.5\n", "a: {b: c}"])
def test_a_text_is_parsed_once(text: str, parsed: list[str]) -> None:
    first = load_by_hand(text)
    assert load_by_hand(text) == first == load_yaml(text)
    assert parsed == [text]
    load_by_hand(f"{text}\n")
    assert parsed == [text, f"{text}\n"]


@pytest.mark.parametrize("text", ["1: a", "a: 2026-01-01", ""])
def test_what_json_lacks_is_parsed_each_time(text: str, parsed: list[str]) -> None:
    for _ in range(2):
        assert load_by_hand(text) == load_yaml(text)
    assert parsed == [text, text]


def test_a_parser_of_another_version_parses_again(
    parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_by_hand("a: 1")
    monkeypatch.setattr(document, "version", lambda name: "another")
    load_by_hand("a: 1")
    assert len(parsed) == 2


@pytest.mark.parametrize("text", ["a: [", "a: x"])
def test_a_fault_is_said_each_time(text: str, parsed: list[str]) -> None:
    shape = TypeAdapter(dict[str, int])
    for _ in range(2):
        with pytest.raises(LockError, match=r"kept\.yaml"):
            parse_by_hand(text, shape, "kept.yaml", "fix it")
