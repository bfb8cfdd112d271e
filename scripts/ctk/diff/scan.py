"""The surface of an artefact: its files, and the exports and requirements of its programs and libraries.

Surfaces are cached by the artefact's sha256: an artefact is fetched and read once, and need not be kept.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.memo import Memo, memo
from ctk.fetch.fetch import Progress, borrowed
from ctk.index.index import Index
from ctk.lock.model import Artefact
from ctk.package.scan import scan_wheel

FORMAT = 2
"""Version of the cache, raised when a surface has more. With a digest of the code, gigabytes would be fetched again."""

_AT_ONCE = 2  # one is downloaded while another is read; of large artefacts no more lie on disk


@dataclass(frozen=True)
class Shown:
    """The exports and requirements of a program or library."""

    path: str  # in the artefact, from `place`
    machine: str  # as in `ctk.package.binaries.Binary`
    soname: str = ""  # for a DLL its file name, "" for the rest
    needed: tuple[str, ...] = ()  # libraries that the loader must find, sorted
    glibc: str = ""  # newest symbol version that it needs
    exports: tuple[str, ...] = ()  # names, sorted; of libraries only

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def stem(self) -> str:
        return stem(self.soname or self.name)


@dataclass(frozen=True)
class Surface:
    """The sha256 of each file of an artefact by path, and its programs and libraries."""

    files: Mapping[str, str]
    binaries: tuple[Shown, ...]


_SURFACES = TypeAdapter(Surface)


def stem(name: str) -> str:
    """The name of a library without its version: ``libcublas`` for libcublas.so.13."""
    name = name.lower()
    return re.sub(r"\d[\d_.]*", "", name) if name.endswith(".dll") else name.partition(".so")[0]


def place(path: str) -> str:
    """The path of a file without folders that name the distribution or its version: ``lib/libcudart.so.13``."""
    first, _, rest = path.partition("/")
    if first == "nvidia" and "/" in rest:
        return rest.partition("/")[2]
    return f"dist-info/{rest}" if first.endswith(".dist-info") else path


def _note(sha256: str, workspace: Workspace) -> Memo[Surface]:
    """The note of an artefact's surface."""
    return memo(workspace.notes / "surfaces", [FORMAT, sha256], _SURFACES)


def unread(artefacts: Iterable[Artefact], workspace: Workspace) -> list[Artefact]:
    """The artefacts whose surface is not in the cache, each file once."""
    return [a for a in {a.sha256: a for a in artefacts}.values() if not _note(a.sha256, workspace).file.exists()]


def surfaces(
    artefacts: Iterable[Artefact],
    workspace: Workspace,
    index: Callable[[], Index],
    *,
    progress: Progress = lambda artefact, received: None,
) -> dict[str, Surface]:
    """The surface of each artefact by its sha256. What is fetched for it does not stay in the cache."""

    def read(artefact: Artefact) -> tuple[str, Surface]:
        note = _note(artefact.sha256, workspace)
        surface = note.read()
        if surface is None:
            with borrowed([artefact], workspace, index, progress=progress) as (wheel,):
                surface = note.write(read_surface(wheel))
        return artefact.sha256, surface

    with ThreadPoolExecutor(_AT_ONCE) as pool:  # an error of one cancels those that wait
        return dict(pool.map(read, {a.sha256: a for a in artefacts}.values()))


def read_surface(wheel: Path) -> Surface:
    """The surface of an artefact, which is read once; `MeasureFailed` if it or a binary in it cannot be read."""
    files, binaries = {}, []
    for file in scan_wheel(wheel, exports=True):
        path = place(file.path)
        files[path] = file.sha256
        if binary := file.binary:
            is_dll = binary.format == "pe" and path.lower().endswith(".dll")
            soname = posixpath.basename(path) if is_dll else binary.soname
            needed = tuple(sorted((*binary.needed, *binary.delayed)))
            glibc = binary.versions.get("GLIBC", "")
            binaries.append(Shown(path, binary.machine, soname, needed, glibc, file.exports))
    return Surface(dict(sorted(files.items())), tuple(sorted(binaries, key=lambda shown: shown.path)))
