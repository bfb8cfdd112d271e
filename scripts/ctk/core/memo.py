"""Notes: values that a run computed, kept for later runs by a digest of what decides them.

A note that is missing, damaged or cannot be written is not an error: its value is computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ctk.core.files import make_folder, replace_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


@dataclass(frozen=True)
class Memo(Generic[T]):
    """The note of a value: a JSON file, checked by a model when it is read."""

    file: Path
    model: TypeAdapter[T]

    def read(self) -> T | None:
        """The value; None without a valid note."""
        try:
            return self.model.validate_json(self.file.read_bytes())
        except (OSError, ValueError):  # pydantic's errors are ValueErrors
            return None

    def write(self, value: T) -> T:
        """Notes a value, and returns it."""
        with suppress(OSError):
            make_folder(self.file.parent)
            replace_file(self.file, self.model.dump_json(value, exclude_defaults=True))
        return value

    def get(self, compute: Callable[[], T]) -> T:
        """The value of the note, else the computed value, which is noted."""
        known = self.read()
        return self.write(compute()) if known is None else known


def memo(folder: Path, key: Any, model: TypeAdapter[T]) -> Memo[T]:
    """The note of the value that `key` decides (plain data), in the folder of its kind."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    return Memo(folder / f"{digest[:32]}.json", model)
