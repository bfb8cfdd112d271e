"""What licence texts say of distribution.

``variants/licences.json`` has the reading of each text that a lock names. A program reads them: it
knows some sentences, some names of licences, and the form of the CUDA EULA's Attachment A. Its
reading is not legal advice.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.core.files import read_plain
from ctk.lock.model import Component, ReleaseLock, Sha256

FILE = "licences.json"
Kind = Literal["CUDA EULA", "SDK licence", "open source", "not known"]
Word = Literal["attachment-a", "clause-2.3", "sdk-licence", "open-source", "not-named"]
WORDS: Mapping[Word, str] = {
    "attachment-a": "named in Attachment A",
    "clause-2.3": "clause 2.3: for Linux, unmodified",
    "sdk-licence": "named in its SDK licence",
    "open-source": "open source",
    "not-named": "not named",
}
"""What a text says of a file, in a word and in words."""
NVIDIA_INSIDE: Mapping[str, re.Pattern[str]] = {
    # Its programs state release 12.8, 12.9, 13.1, 13.3 or 13.4 of NVIDIA's tools. ptxas, CUPTI and
    # most headers equal files of NVIDIA's wheels; cuobjdump and nvdisasm equal none that is locked.
    "triton": re.compile(r"triton/backends/nvidia/(bin|include|lib)/"),
    # NVPL, on ARM.
    "torch": re.compile(r"torch/lib/libnvpl_"),
}
"""Distribution -> the files of NVIDIA in its wheels, though its text is that of others: they fall
under no text.
"""


@dataclass(frozen=True)
class Reading:
    """What a licence text says of distribution.

    Attributes:
        linux: Whether files for Linux alone may be redistributed if they are not modified (clause
            2.3 of the EULA).
        named: ``All``, ``Linux`` or ``Windows`` -> the files that are named for distribution;
            ``*.so`` is an ending.
    """

    kind: Kind
    linux: bool = False
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, path: str, subdir: str, published: bool) -> Word:
        """What it says of a file of a wheel for this platform, which is as published or changed.

        All files of a wheel for Linux count as designed for Linux alone.
        """
        system = {"linux": "Linux", "win": "Windows"}.get(subdir.partition("-")[0], "")
        if self.kind == "open source":
            return "open-source"
        if any(
            _is_named(path, name)
            for name in (*self.named.get("All", ()), *self.named.get(system, ()))
        ):
            return "attachment-a" if self.kind == "CUDA EULA" else "sdk-licence"
        return "clause-2.3" if self.linux and system == "Linux" and published else "not-named"


def _is_named(path: str, name: str) -> bool:
    plain = _without_version(path)
    return (
        plain.endswith(name[1:])
        if name.startswith("*")
        else f"/{plain}".endswith(f"/{_without_version(name)}")
    )


def _without_version(path: str) -> str:
    """A path without the version, the ``64`` and the ``lib`` in a file's name.

    Attachment A names ``cudart.dll``, for "certain variations of these files that have version
    number or architecture specific information embedded in the file name"; and
    ``libnvJitLink.dll``, whose file has no ``lib``.
    """
    folder, name = posixpath.split(path)
    name = re.sub(r"(?<=\.so)[.\d]+$|(64)?([_.]\d+)*(?=\.dll$)", "", name)
    return posixpath.join(folder, name.removeprefix("lib"))


_ATTACHMENT = re.compile(r"^[\d.]+ Attachment A$(.*?)^[\d.]+ Attachment B$", re.M | re.S)
_SYSTEM = re.compile(r"^(All|Linux|Windows|Mac OSX|Android|Component)$", re.M)
_NAME = re.compile(r"[\w./+-]+\.(?:so|a|dll|lib|h|hpp|bc)\b")
_CLAUSE = re.compile(
    r"designed exclusively for use on the Linux .* provided that the object code files are not"
    r" modified"
)
_SDK = re.compile(r"license agreement for nvidia [\w ]*software development kits", re.I)
_PORTIONS = re.compile(
    r"portions of the SDK are distributable under the Agreement:(.*?)(?:\n\s*\n|\Z)", re.S
)
_ENDING = re.compile(r"(?<![\w*])[\w-]*\.(?:so|a|dll|lib|h)\b")
_WHOLE = "Distribute the binary files, files identified as samples, and headers"
_ALL_BINARIES = ("*.so", "*.a", "*.dll", "*.lib", "*.h")
_OPEN = re.compile(
    "apache license,? version 2.0|apache software license|redistribution and use in source and"
    " binary forms"
    r"|permission is hereby granted, free of charge|^(apache|bsd|mit)\b",
    re.I,
)


def read_text(text: str, declared: str = "") -> Reading:
    """Reads a licence text.

    Args:
        text: The text, or several, one after another; the texts of third parties may follow
            NVIDIA's.
        declared: The licence that metadata declares, for a text that says nothing.
    """
    flat = " ".join(text.split())
    if named := _attachment(text):
        return Reading("CUDA EULA", bool(_CLAUSE.search(flat)), named)
    if _SDK.search(flat):
        named_here = (
            e if not e.startswith(".") else f"*{e}"
            for p in _PORTIONS.findall(text)
            for e in _ENDING.findall(p)
        )
        names = (*named_here, *(_ALL_BINARIES if _WHOLE in flat else ()))
        return Reading("SDK licence", named={"All": tuple(dict.fromkeys(names))} if names else {})
    return Reading("open source" if _OPEN.search(flat) or _OPEN.search(declared) else "not known")


def _attachment(text: str) -> dict[str, tuple[str, ...]]:
    """System -> the files that Attachment A names for it; empty for a text without it."""
    found: dict[str, dict[str, None]] = {}
    for section in _ATTACHMENT.findall(text):
        parts = iter(_SYSTEM.split(section)[1:])
        for system, block in zip(parts, parts, strict=True):
            found.setdefault(system, {}).update(dict.fromkeys(_NAME.findall(block)))
    return {
        system: tuple(found[system]) for system in ("All", "Linux", "Windows") if found.get(system)
    }


# ---- the readings of a checkout

Readings = Mapping[str, Reading]
"""sha256 of a text -> its reading."""
_READINGS = TypeAdapter(dict[Sha256, Reading])


def path_of(workspace: Workspace) -> Path:
    return workspace.variants / FILE


def load(workspace: Workspace) -> dict[str, Reading]:
    """The readings of a checkout, none without the file; LockError if it cannot be read."""
    path = path_of(workspace)
    try:
        return _READINGS.validate_json(read_plain(path)) if path.exists() else {}
    except ValidationError as error:
        raise LockError(
            f"{path.name} cannot be read: {error}", "`ctk release measure --write` writes it"
        ) from error


def dump(readings: Readings) -> str:
    """The text of the file, a line for each text."""
    stated = _READINGS.dump_python(
        dict(sorted(readings.items())), mode="json", exclude_defaults=True
    )
    lines = (f"{json.dumps(sha256)}: {json.dumps(reading)}" for sha256, reading in stated.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unread(readings: Readings, locks: Iterable[ReleaseLock]) -> Iterator[Component]:
    """The components of some locks with a text that was not read."""
    for lock in locks:
        yield from (
            c for c in lock.components.values() if not readings.keys() >= set(c.license_texts)
        )
