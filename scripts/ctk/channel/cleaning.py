"""What a published folder keeps of its past, in ``.history``, and what it deletes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ctk.channel.attesting import SIDECAR
from ctk.channel.history import History, State, save
from ctk.channel.index_files import ChannelIndex, read_index
from ctk.core.errors import ChannelBroken, PublishFailed
from ctk.core.files import read_json, replace_file

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
    for place in (folder / HISTORY).iterdir():
        if place.is_dir() and place.name not in numbers:
            shutil.rmtree(place)
    for state in kept.states:
        used |= read_state(folder, state).names().keys()
    noted = moments(folder / HISTORY / UNUSED)
    there = {f"{p.parent.name}/{p.name}" for p in folder.glob("*/*.conda")}
    unused = {name: noted.get(name, now.isoformat()) for name in sorted(there - used)}
    old = tuple(n for n, since in unused.items() if now - datetime.fromisoformat(since) >= keep.unused)
    for name in old:
        package = folder / name
        for file in (package, *package.parent.glob(f"{package.name}{SIDECAR}*")):
            file.unlink(missing_ok=True)
    write_notes(folder / HISTORY / UNUSED, {name: since for name, since in unused.items() if name not in old})
    return old


def read_state(folder: Path, state: State) -> ChannelIndex:
    """The index of a kept state of a published folder.

    Raises:
        ChannelBroken: It is not whole.
    """
    place = folder / HISTORY / str(state.number)
    try:
        index, why = read_index(place), "has lost index files"
    except PublishFailed as error:
        index, why = ChannelIndex(), f"cannot be read: {error.cause}"
    if len(index) != state.packages:
        raise ChannelBroken(
            f"state {state.number} of {folder} {why}",
            f"put {place} back, or delete it with {folder / HISTORY / STATES}: then the other states are listed anew, "
            "and what readers see is kept",
        )
    return index


def moments(file: Path) -> dict[str, str]:
    """Notes that say a moment of packages, ``subdir/file`` -> ISO 8601; those that cannot be read are left out."""
    found = read_json(file)
    return {name: text for name, text in found.items() if _is_moment(text)} if isinstance(found, dict) else {}


def _is_moment(text: object) -> bool:
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def read_names(folder: Path) -> dict[str, str]:
    """The names that a published folder has noted as used -> sha256.

    Raises:
        ChannelBroken: The note is damaged. Without it a name may get other content.
    """
    file = folder / HISTORY / NAMES
    try:
        found = json.loads(file.read_bytes())
        if not isinstance(found, dict) or not all(isinstance(sha256, str) for sha256 in found.values()):
            raise ValueError("it is no list of names")
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ChannelBroken(
            f"{file} cannot be read: {type(error).__name__}: {error}",
            f"put it back from a copy; or delete it (rm {file}): then the names of packages that are still in the "
            "folder are noted anew, and those of deleted ones may be used again",
        ) from None


def write_notes(file: Path, noted: Mapping[str, str]) -> None:
    """Writes notes; a reader sees the old ones or the new ones."""
    replace_file(file, json.dumps(noted, indent=1, sort_keys=True).encode())
