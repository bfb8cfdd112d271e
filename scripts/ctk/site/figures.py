"""Figures that benchmarks measured, kept over time: a JSON line for each in ``benchmarks/history.jsonl``, in git.

A figure is comparable with those of the same row on the same kind of machine. A ratio of two things that were measured
side by side says more than seconds do: what else the machine did is in both.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.files import disk_errors

RATIO = "ratio"
"""The unit of what is measured against something else in the same run."""

_Word = Annotated[str, Field(min_length=1, max_length=200)]


@dataclass(frozen=True)
class Figure:
    """One measurement.

    Attributes:
        date: Day, as ``2026-11-22`` (UTC).
        commit: Of the checkout, with ``+`` when it was changed; "" where git does not say.
        benchmark: File name below ``benchmarks`` without ``.py``.
        row: What was measured.
        value: How much.
        unit: Of what: ``s``, ``solves/s``, ``ms``, `RATIO`.
        machine: In words that let others compare: ``2 cores``.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    commit: Annotated[str, Field(max_length=60)]
    benchmark: Annotated[str, Field(pattern=r"^[a-z_]+$")]
    row: _Word
    value: Annotated[float, Field(allow_inf_nan=False)]
    unit: _Word
    machine: _Word


_FIGURES = TypeAdapter(Figure)


def path(workspace: Workspace) -> Path:
    return workspace.root / "benchmarks" / "history.jsonl"


def record(workspace: Workspace, benchmark: str, rows: Iterable[tuple[str, float, str]]) -> int:
    """Appends what a benchmark measured just now; how many figures that are.

    Args:
        workspace: The checkout.
        benchmark: Its name.
        rows: What, how much, and the unit.

    Raises:
        NoSpace: The disk is full or may not be written.
    """
    today, commit, machine = f"{datetime.now(UTC):%Y-%m-%d}", _commit(workspace), count(os.cpu_count() or 1, "core")
    figures = [Figure(today, commit, benchmark, row, float(f"{value:.4g}"), unit, machine) for row, value, unit in rows]
    lines = [json.dumps(asdict(figure)) + "\n" for figure in figures]
    with disk_errors(workspace.root), path(workspace).open("a", encoding="utf-8") as file:
        file.write("".join(lines))
    return len(figures)


def load(workspace: Workspace) -> tuple[list[Figure], int]:
    """Every figure, oldest first as the file has them, and how many lines are none. Without a file there are none."""
    try:
        lines = path(workspace).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [], 0
    found, wrong = [], 0
    for line in filter(str.strip, lines):
        try:
            found.append(_FIGURES.validate_json(line))
        except ValidationError:
            wrong += 1
    return found, wrong


def _commit(workspace: Workspace) -> str:
    def git(*words: str) -> str:
        command = ["git", "-C", str(workspace.root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    # What was recorded a minute ago is no change of what is measured now.
    others = f":(exclude){path(workspace).relative_to(workspace.root).as_posix()}"
    try:
        commit = git("rev-parse", "--short=9", "HEAD")
        return f"{commit}+" if git("status", "--porcelain", "--untracked-files=no", "--", ".", others) else commit
    except (OSError, subprocess.CalledProcessError):
        return ""
