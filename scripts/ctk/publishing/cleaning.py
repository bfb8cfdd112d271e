"""What a published folder keeps of its past, in ``.history``, and what it deletes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ctk import notes
from ctk.durable import replace_file
from ctk.history import History, save
from ctk.publishing.attesting import SIDECAR
from ctk.publishing.index_files import read_index

HISTORY = ".history"
STATES, NAMES, TIMES, UNUSED = "history.json", "names.json", "published.json", "unused.json"


@dataclass(frozen=True)
class Keep:
    """What stays of the past.

    Attributes:
        states: How many states can be returned to, the one that readers see included.
        unused: How long a package stays after no kept state names it.
    """

    states: int = 10
    unused: timedelta = timedelta(days=7)


def clean(folder: Path, history: History, shown: set[str], keep: Keep, now: datetime) -> tuple[str, ...]:
    """Drops states that are too old, and packages that no kept state has named for long enough.

    Args:
        folder: A published folder that nobody else publishes into meanwhile.
        history: All of its states.
        shown: ``subdir/file`` of what readers see.
        keep: What stays.
        now: What time it is.

    Returns:
        The packages that were deleted, with the attestations beside them.
    """
    kept, used = history.kept(keep.states), set(shown)
    save(kept, folder / HISTORY / STATES)
    numbers = {str(s.number) for s in kept.states}
    for state in (folder / HISTORY).iterdir():
        if state.is_dir() and state.name not in numbers:
            shutil.rmtree(state)
        elif state.is_dir():
            used |= read_index(state).names().keys()
    noted = read_notes(folder / HISTORY / UNUSED)
    there = {f"{p.parent.name}/{p.name}" for p in folder.glob("*/*.conda")}
    unused = {name: noted.get(name, now.isoformat()) for name in sorted(there - used)}
    old = tuple(n for n, since in unused.items() if now - datetime.fromisoformat(since) >= keep.unused)
    for name in old:
        package = folder / name
        for file in (package, *package.parent.glob(f"{package.name}{SIDECAR}*")):
            file.unlink(missing_ok=True)
    write_notes(folder / HISTORY / UNUSED, {name: since for name, since in unused.items() if name not in old})
    return old


def times(folder: Path) -> dict[str, str]:
    """``subdir/file`` -> when it came into the index of a published folder first, as ISO 8601, where that is noted."""
    found = notes.read(folder / HISTORY / TIMES)
    return {name: text for name, text in found.items() if _is_moment(text)} if isinstance(found, dict) else {}


def _is_moment(text: object) -> bool:
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def read_notes(file: Path) -> dict[str, str]:
    """Notes about packages by name; none where there is no file."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def write_notes(file: Path, noted: Mapping[str, str]) -> None:
    """Writes notes; a reader sees the old ones or the new ones."""
    replace_file(file, json.dumps(noted, indent=1, sort_keys=True).encode())
