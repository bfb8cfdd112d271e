"""What a packed environment asks of the machine that it goes to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rattler import RepoDataRecord

from ctk.package.binaries import UnreadableBinary, read_binary, version_key

# The oldest glibc that any platform of the channel is made for, where nothing says more.
_LEAST = "2.17"
_DECLARED = re.compile(r"__glibc >=(\d+\.\d+)")


def needed_glibc(records: Iterable[RepoDataRecord], prefix: Path) -> str:
    """The newest glibc that a package declares or a binary asks for: a base channel's own Python may declare less.

    Args:
        records: The packages.
        prefix: The environment with their files.
    """
    found = {_LEAST}
    for record in records:
        found |= {match[1] for rule in record.depends if (match := _DECLARED.match(rule))}
    for path in prefix.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            binary = read_binary(path)
        except UnreadableBinary:  # no loader reads it either
            continue
        if binary is not None and binary.format == "elf":
            found.add(".".join(binary.versions.get("GLIBC", _LEAST).split(".")[:2]))
    return max(found, key=version_key)
