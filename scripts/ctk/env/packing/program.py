"""The program in front of a packed environment: the text of ``unpack.sh`` with what it must know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ctk.env.packing.compression import DECOMPRESS
from ctk.env.packing.parts import Part

_HERE = Path(__file__).parent
# What `uname -m` says on machines of a platform.
_MACHINES = {"linux-64": "x86_64 amd64", "linux-aarch64": "aarch64 arm64"}
PLATFORMS = tuple(_MACHINES)
"""The platforms whose environments can be packed."""
# The offset of the data is part of the text whose length it is.
_DIGITS = 10


@dataclass(frozen=True)
class Contents:
    """What a pack holds, for the program and for people.

    Attributes:
        about: Lines for people: the request, the machine, the packages of interest.
        subdir: The platform.
        glibc: The oldest that its programs run with, e.g. ``2.28``.
        kibibytes: What it takes on disk.
        compression: Of the data.
    """

    about: tuple[str, ...]
    subdir: str
    glibc: str
    kibibytes: int
    compression: str = "gzip"


def program(contents: Contents, parts: Sequence[Part], split: bool) -> bytes:
    """The program's text, after which the data follow unless they are split.

    Args:
        contents: What is packed.
        parts: The data; exactly one where they are not split.
        split: Whether they lie beside the program.
    """
    hashes = [f"{number:03} {part.sha256}" for number, part in enumerate(parts)]
    values = {
        "platform": contents.subdir,
        "machines": _MACHINES[contents.subdir],
        "glibc": contents.glibc,
        "kibibytes": str(contents.kibibytes),
        "parts": str(len(parts) if split else 0),
        "skip": "0" * _DIGITS,
        "about": "\n".join(contents.about),
        "tool": contents.compression,
        "decompress": DECOMPRESS[contents.compression],
        "hashes": "\n".join(hashes),
        "settle": (_HERE / "settle.py").read_text(encoding="utf-8").rstrip("\n"),
        "bytecode": (_HERE.parent / "bytecode.py").read_text(encoding="utf-8").rstrip("\n"),
    }
    text = (_HERE / "unpack.sh").read_text(encoding="utf-8")
    # In one pass, so that no value is taken for a name.
    filled = re.sub(r"@([a-z]+)@", lambda match: values[match[1]], text).encode()
    if split:
        return filled
    first = f"skip='{len(filled) + 1}'".ljust(len("skip=''") + _DIGITS)
    return filled.replace(f"skip='{values['skip']}'".encode(), first.encode(), 1)
