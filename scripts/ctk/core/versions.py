"""Versions: of Python in wheels, variant files and options; and the order of dotted numbers.

Versions of wheels are ordered by `packaging`, versions of conda packages by rattler.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import NamedTuple


class PythonTag(NamedTuple):
    """A minor version of Python, with or without the GIL."""

    minor: str  # 3.14
    free_threaded: bool = False

    @classmethod
    def read(cls, text: str) -> PythonTag | None:
        """Parses ``cp314t``, ``py314t`` or ``3.14t``; None for any other text."""
        match = re.fullmatch(r"(?a)(?:cp|py)?3\.?(\d+)(t?)", text)
        return cls(f"3.{match[1]}", bool(match[2])) if match else None

    @property
    def name(self) -> str:
        """``3.14t``."""
        return f"{self.minor}{'t' * self.free_threaded}"

    @property
    def tag(self) -> str:
        """``cp314t``."""
        return f"cp{self.name.replace('.', '')}"


def this_python() -> PythonTag:
    """The running Python; its name is that of its folder in ``lib``."""
    is_free_threaded = "t" in getattr(sys, "abiflags", "")
    return PythonTag(f"{sys.version_info.major}.{sys.version_info.minor}", is_free_threaded)


def python_name(text: str) -> str:
    """``3.14t`` for any form of it; other texts are returned unchanged."""
    python = PythonTag.read(text)
    return python.name if python else text


@cache
def version_key(text: str) -> tuple[int, ...]:
    """A key that orders dotted numbers, of glibc, GPUs, the PTX ISA, toolkits: 2.17 before 2.27."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())
