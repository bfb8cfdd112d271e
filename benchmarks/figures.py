"""Appends what a benchmark measured to ``benchmarks/history.jsonl``, a JSON line for each figure,
in git.

A figure is comparable with those of the same row on the same kind of machine. A ratio of two things
that were measured side by side says more than seconds do: what else the machine did is in both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime

from ctk.core.checkout import Workspace, git
from ctk.core.console import count

RATIO = "ratio"
"""The unit of what is measured against something else in the same run."""


def record(workspace: Workspace, benchmark: str, rows: Iterable[tuple[str, float, str]]) -> None:
    """Appends rows of what was measured, value and unit, with the date, the commit and
    the machine.
    """
    place = workspace.root / "benchmarks" / "history.jsonl"
    commit = git(workspace.root, "rev-parse", "--short=9", "HEAD")
    # What was recorded a minute ago is no change of what is measured now.
    others = f":(exclude){place.relative_to(workspace.root)}"
    changed = git(
        workspace.root, "status", "--porcelain", "--untracked-files=no", "--", ".", others
    )
    shared = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": f"{commit}+" if commit and changed else commit,
        "benchmark": benchmark,
        "machine": count(os.cpu_count() or 1, "core"),
    }
    with place.open("a", encoding="utf-8") as file:
        for row, value, unit in rows:
            figure = {"row": row, "value": float(f"{value:.4g}"), "unit": unit}
            file.write(json.dumps(shared | figure) + "\n")
