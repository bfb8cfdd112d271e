"""A stream of bytes as files of a limited size, each with its sha256."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ctk.core.errors import BadValue

# As many as three digits number.
MOST_PARTS = 1000
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def size_in_bytes(text: str) -> int:
    """Bytes of ``60M``, ``4GB`` or ``1500000``, as `split` and `dd` read them: M is 1024 x 1024, MB is 1000 x 1000.

    Raises:
        BadValue: Anything else, or nothing.
    """
    match = re.fullmatch(r"(\d+)([KMG]B?|)", text.strip().upper())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not size:
        raise BadValue(f"{text!r} is not a size", "write it as 60M, 700MB or 4G")
    return size


@dataclass(frozen=True)
class Part:
    """One written file.

    Attributes:
        path: Where it is.
        size: Bytes.
        sha256: In hexadecimal.
    """

    path: Path
    size: int
    sha256: str


class PartWriter:
    """Writes what it is given into files ``000``, ``001`` ... of a folder.

    Args:
        folder: Where; it must be there.
        limit: Bytes of a file at most; None for one file.

    Raises:
        BadValue: From `write`, when there would be more parts than three digits can number.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self._folder, self._limit = folder, limit
        self._done: list[Part] = []
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        """Appends bytes, over as many parts as they need."""
        view = memoryview(data)
        while len(view):
            if self._file is None or self._size == self._limit:
                self._next()
            assert self._file is not None
            piece = view if self._limit is None else view[: self._limit - self._size]
            self._file.write(piece)
            self._hash.update(piece)
            self._size += len(piece)
            view = view[len(piece) :]
        return len(data)

    def close(self) -> tuple[Part, ...]:
        """Ends the last part; returns all of them in order."""
        if self._file is not None:
            self._file.close()
            path = self._folder / f"{len(self._done):03}"
            self._done.append(Part(path, self._size, self._hash.hexdigest()))
            self._file = None
        return tuple(self._done)

    def flush(self) -> None:
        """Nothing: `close` writes what is buffered."""

    def _next(self) -> None:
        self.close()
        if len(self._done) == MOST_PARTS:
            raise BadValue(
                f"{MOST_PARTS} parts of {self._limit} bytes do not hold the environment", "let --split be larger"
            )
        self._file = (self._folder / f"{len(self._done):03}").open("wb")
        self._hash, self._size = hashlib.sha256(), 0
