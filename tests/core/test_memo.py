"""Notes of computed values: each is computed once, and again where its note is damaged or cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from ctk.core.memo import Memo, memo


@dataclass(frozen=True)
class Sizes:
    name: str
    sizes: tuple[int, ...] = ()


MODEL = TypeAdapter(Sizes)
VALUE = Sizes("a", (1, 2))


def computed(note: Memo[Sizes]) -> bool:
    """Whether a note's value is computed rather than read."""
    calls: list[Sizes] = []
    compute: Callable[[], Sizes] = lambda: calls.append(VALUE) or VALUE  # noqa: E731
    assert note.get(compute) == VALUE
    return bool(calls)


def test_a_value_is_computed_once_for_each_key(tmp_path: Path) -> None:
    first = memo(tmp_path / "kind", ["a", 1], MODEL)
    assert computed(first) and not computed(first)
    assert not computed(memo(tmp_path / "kind", ["a", 1], MODEL))
    assert computed(memo(tmp_path / "kind", ["a", 2], MODEL))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 1}', '{"name": "a", "sizes": ["x"]}', "\0" * 9])
def test_a_damaged_note_is_computed_and_written_again(tmp_path: Path, text: str) -> None:
    note = memo(tmp_path, "key", MODEL)
    note.write(VALUE)
    note.file.write_text(text)
    assert computed(note) and not computed(note)


def test_a_note_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    note = memo(tmp_path / "file" / "kind", "key", MODEL)
    assert computed(note) and computed(note)
    assert os.listdir(tmp_path) == ["file"]


def test_a_note_that_does_not_fit_on_the_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert computed(memo(tmp_path / "kind", "key", MODEL))
    assert list((tmp_path / "kind").iterdir()) == []
