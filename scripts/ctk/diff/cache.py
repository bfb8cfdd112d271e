"""Surfaces by the sha256 of their artefact, so that an artefact is fetched and read once, and need not be kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import zstandard
from pydantic import TypeAdapter, ValidationError

from ctk.core.checkout import Workspace
from ctk.core.files import disk_errors
from ctk.diff.surface import Surface, read_surface
from ctk.fetch.fetch import Progress, borrowed
from ctk.index.index import Index
from ctk.lock.lock import Artefact

FORMAT = 1
"""Raised when a surface holds more, or is read in another way: a digest of the code would fetch gigabytes again."""

_SURFACES = TypeAdapter(Surface)
_AT_ONCE = 2  # one is downloaded while another is read; of large artefacts no more lie on disk


@dataclass(frozen=True)
class SurfaceCache:
    """Surfaces kept as compressed JSON.

    Attributes:
        folder: Made when first needed; may be deleted at any time.
    """

    folder: Path

    def path(self, sha256: str) -> Path:
        return self.folder / str(FORMAT) / f"{sha256}.json.zst"

    def get(self, sha256: str) -> Surface | None:
        """The surface of an artefact; None when there is none that can be read."""
        try:
            return _SURFACES.validate_json(zstandard.ZstdDecompressor().decompress(self.path(sha256).read_bytes()))
        except (OSError, zstandard.ZstdError, ValidationError):
            return None

    def put(self, sha256: str, surface: Surface) -> None:
        """Keeps a surface; a reader sees all of it or nothing."""
        path = self.path(sha256)
        with disk_errors(self.folder.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as stream:
                stream.write(zstandard.ZstdCompressor().compress(_SURFACES.dump_json(surface)))
            os.replace(stream.name, path)


def surface_cache(workspace: Workspace) -> SurfaceCache:
    return SurfaceCache(workspace.cache / "surfaces")


def unread(artefacts: Iterable[Artefact], workspace: Workspace) -> list[Artefact]:
    """Those whose surface is not known yet, each file once."""
    cache = surface_cache(workspace)
    return [a for a in {a.sha256: a for a in artefacts}.values() if not cache.path(a.sha256).exists()]


def surfaces(
    artefacts: Iterable[Artefact],
    workspace: Workspace,
    index: Callable[[], Index],
    *,
    progress: Progress = lambda artefact, received: None,
) -> dict[str, Surface]:
    """The surface of each artefact by its sha256. What is fetched for it does not stay in the cache.

    Raises:
        IndexUnavailable, NotPublished, HashMismatch, NoSpace: An artefact cannot be fetched.
        MeasureFailed: An artefact cannot be read.
    """
    cache = surface_cache(workspace)

    def read(artefact: Artefact) -> tuple[str, Surface]:
        surface = cache.get(artefact.sha256)
        if surface is None:
            with borrowed([artefact], workspace, index, progress=progress) as (path,):
                surface = read_surface(path)
            cache.put(artefact.sha256, surface)
        return artefact.sha256, surface

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(read, a) for a in {a.sha256: a for a in artefacts}.values()]
        try:
            return dict(future.result() for future in futures)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
