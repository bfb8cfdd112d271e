"""The figures of benchmarks: a JSON line for each in ``benchmarks/history.jsonl``, in git.

A figure is comparable with those of the same row on the same kind of machine. A ratio of two things that were measured
side by side says more than seconds do: what else the machine did is in both.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ctk.core.checkout import Workspace, git
from ctk.core.console import count
from ctk.core.files import disk_errors

RATIO = "ratio"
"""The unit of what is measured against something else in the same run."""

WIDTH, HEIGHT, MARGIN = 320, 96, 12  # of a line, and what is free around it
_Word = Annotated[str, Field(min_length=1, max_length=200)]


@dataclass(frozen=True)
class Figure:
    """One measurement."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]  # UTC
    commit: Annotated[str, Field(max_length=60)]  # with ``+`` when the checkout was changed; "" where git does not say
    benchmark: Annotated[str, Field(pattern=r"^[a-z_]+$")]  # file name below ``benchmarks`` without ``.py``
    row: _Word  # what was measured
    value: Annotated[float, Field(allow_inf_nan=False)]
    unit: _Word  # ``s``, ``solves/s``, ``ms``, `RATIO`
    machine: _Word  # in words that let others compare: ``2 cores``


Series = dict[tuple[str, str, str], list[Figure]]
"""Row, unit and machine -> the figures of that row, oldest first."""

_FIGURES = TypeAdapter(Figure)


def path(workspace: Workspace) -> Path:
    return workspace.root / "benchmarks" / "history.jsonl"


def record(workspace: Workspace, benchmark: str, rows: Iterable[tuple[str, float, str]]) -> int:
    """Appends what a benchmark measured just now, as row, value and unit; returns how many figures that are."""
    today, commit, machine = f"{datetime.now(UTC):%Y-%m-%d}", _commit(workspace), count(os.cpu_count() or 1, "core")
    figures = [Figure(today, commit, benchmark, row, float(f"{value:.4g}"), unit, machine) for row, value, unit in rows]
    with disk_errors(workspace.root), path(workspace).open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(asdict(figure)) + "\n" for figure in figures))
    return len(figures)


def load(workspace: Workspace) -> list[Figure]:
    """Every figure, oldest first as the file has them; lines that are none are left out."""
    try:
        lines = path(workspace).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    figures = []
    for line in filter(str.strip, lines):
        with suppress(ValidationError):
            figures.append(_FIGURES.validate_json(line))
    return figures


def _commit(workspace: Workspace) -> str:
    # What was recorded a minute ago is no change of what is measured now.
    others = f":(exclude){path(workspace).relative_to(workspace.root).as_posix()}"
    commit = git(workspace.root, "rev-parse", "--short=9", "HEAD")
    changed = git(workspace.root, "status", "--porcelain", "--untracked-files=no", "--", ".", others)
    return f"{commit}+" if commit and changed else commit


def series(workspace: Workspace) -> dict[str, Series]:
    """Benchmark -> row, unit and machine -> figures, oldest first, of every row that has two or more."""
    found: dict[str, Series] = {}
    # What is comparable comes first.
    for figure in sorted(load(workspace), key=lambda figure: (figure.benchmark, figure.unit != RATIO)):
        own = found.setdefault(figure.benchmark, {})
        own.setdefault((figure.row, figure.unit, figure.machine), []).append(figure)
    several = {name: {key: row for key, row in own.items() if len(row) > 1} for name, own in found.items()}
    return {name: own for name, own in several.items() if own}


def about(workspace: Workspace, name: str) -> str:
    """The first paragraph of a benchmark's docstring; "" where it is gone."""
    try:
        text = (workspace.root / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        return " ".join((ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].split())
    except (OSError, ValueError, SyntaxError):
        return ""


def line(values: Sequence[float]) -> list[tuple[float, float]]:
    """Places of values in the picture, from left to right; 0 is at its foot, unless a value is below."""
    low, high = min(0.0, *values), max(0.0, *values)
    room, across = HEIGHT - 2 * MARGIN, WIDTH - 2 * MARGIN
    step = across / max(len(values) - 1, 1)
    tall = high - low or 1.0
    return [(MARGIN + step * n, HEIGHT - MARGIN - room * (v - low) / tall) for n, v in enumerate(values)]
