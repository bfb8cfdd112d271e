"""Scans kept between runs, named by the package's sha256, what was searched for, and the code that reads packages."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ctk.core.files import disk_errors, file_sha256
from ctk.package import binaries, package, pe, search
from ctk.package import scan as scanning
from ctk.package.scan import PackageScan
from ctk.package.search import outermost

_SCANS = TypeAdapter(PackageScan)


def dump_scan(scan: PackageScan) -> str:
    """A scan as JSON."""
    return _SCANS.dump_json(scan).decode()


def load_scan(text: str) -> PackageScan:
    """A scan from the JSON of `dump_scan`; ValueError when it is not one."""
    return _SCANS.validate_json(text)


def scan_key(sha256: str, forbidden: Sequence[str], probes: Mapping[str, Sequence[str]]) -> str:
    """Names the scan of a package: its content, what was searched for, and the code that reads it."""
    parts = [sha256, _code(), outermost(forbidden), {name: list(texts) for name, texts in sorted(probes.items())}]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _code() -> list[str]:
    return [file_sha256(Path(module.__file__ or "")) for module in (package, binaries, pe, scanning, search)]


@dataclass(frozen=True)
class ScanCache:
    """Scans kept as files.

    Attributes:
        folder: Made when first needed; may be deleted at any time.
    """

    folder: Path

    def get(self, key: str, path: Path) -> PackageScan | None:
        """The scan kept under a key, as that of the package at a path; None when there is none that can be read."""
        try:
            return replace(load_scan((self.folder / f"{key}.json").read_text()), file=str(path))
        except (OSError, ValidationError):
            return None

    def put(self, key: str, scan: PackageScan) -> None:
        """Keeps a scan; a reader sees all of it or nothing.

        Raises:
            NoSpace: The disk is full, or the folder cannot be written.
        """
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            stream = tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False)  # noqa: SIM115
            try:
                with stream:
                    stream.write(dump_scan(scan))
                Path(stream.name).replace(self.folder / f"{key}.json")
            except BaseException:
                Path(stream.name).unlink(missing_ok=True)
                raise
