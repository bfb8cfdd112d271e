"""The files of an installed package, by the record of the client that installed it.

A record is a file in ``conda-meta``. Clients fill in its fields in different ways:

- `_path`: of a ``noarch: python`` package, conda writes the path in the package
  (``site-packages/...``), except for bytecode and entry points. mamba and rattler write the path
  in the prefix. `files` has the paths in the prefix, whoever wrote it.
- `size_in_bytes`: of a file that contains the prefix, conda and mamba write the size in the
  package. `sha256_in_prefix` is of the installed file, whoever wrote it.
- `prefix_placeholder`: mamba writes none.
- `link`: conda-pack empties `link.source`. What contains the prefix then contains another one than
  that of the digests.

Sources: conda/core/path_actions.py of conda, libmamba/src/core/link.cpp of mamba, and
conda_pack/core.py.
tests/channel/env/records has records that each of these clients wrote.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ctk.core.files import open_plain

_SITE, _SCRIPTS = "site-packages/", "python-scripts/"
_SOFTLINK = 2  # `LinkType` of conda/models/enums.py
_NON_ADMIN = ".nonadmin"  # conda's mark on Windows: no file of a package, and not in packs
_ENTRY_POINTS = ("unix_python_entry_point", "windows_python_entry_point_script")


class Damage(Enum):
    """What is wrong with a file of a package."""

    MISSING = "missing"
    CHANGED = "changed"


@dataclass(frozen=True)
class RecordFile:
    """A file that a record names, and what it says of the installed file.

    Attributes:
        path: The path below the prefix.
        sha256: The digest of the installed file; "" if the record has none that is true of it.
        size: The size in bytes of the installed file; None if it is not known.
        has_prefix: Whether the prefix is in the file.
        is_link: Whether the file is a link.
        is_linked: Whether the client links files to its cache; then the package's file may be none.
        unpacked: The folder of the unpacked package in the client's cache; "" if it is not known.
    """

    path: str
    sha256: str = ""
    size: int | None = None
    has_prefix: bool = False
    is_link: bool = False
    is_linked: bool = False
    unpacked: str = ""

    def damage(self, prefix: Path) -> Damage | None:
        """Compares the file with the record. None if they agree, or if the record does not say."""
        place = prefix / self.path
        if not os.path.lexists(place):
            return Damage.MISSING
        if not self.sha256 or (self.is_link and not self._is_of_cache(place)):
            return None
        try:
            status = place.stat()
            if not stat.S_ISREG(status.st_mode) or self.size not in (None, status.st_size):
                return Damage.CHANGED
            with open_plain(place) as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        except FileNotFoundError:  # a link to the cache, in which the file is no longer
            return Damage.MISSING
        except (OSError, ValueError):
            return Damage.CHANGED
        return None if digest == self.sha256 else Damage.CHANGED

    def _is_of_cache(self, place: Path) -> bool:
        """Whether the client made the link, not the package: then the digest is of the target."""
        if not place.is_symlink():
            return self.is_linked
        if not self.unpacked:
            return False
        target = os.path.normpath(os.readlink(place))
        return target.startswith(os.path.join(self.unpacked, ""))


def files_of(record: Mapping[str, Any]) -> Iterator[RecordFile]:
    """The files that nothing should change. Bytecode is left out: Python may write it again.

    Raises:
        TypeError, KeyError, AttributeError: The record has other types than a client writes.
    """
    named = [str(path) for path in record.get("files") or ()]
    in_prefix = set(named)
    by_path_in_package = {_path_in_package(path): path for path in named}
    seen = {_NON_ADMIN}
    for entry in (record.get("paths_data") or {}).get("paths") or ():
        path, kind = str(entry["_path"]), entry.get("path_type")
        if path not in in_prefix and path.startswith((_SITE, _SCRIPTS)) and _is_noarch(record):
            path = by_path_in_package.get(path, "")
        seen.add(path)
        if path and kind != "directory" and not path.endswith(".pyc"):
            yield _record_file(path, entry, record)
    for path in named:
        if path not in seen and not path.endswith(".pyc"):
            yield RecordFile(path)


def path_in_prefix(path: str, site: str) -> str:
    """Where a file of a ``noarch: python`` package is installed; `site` is Python's for modules.

    Source: `get_python_noarch_target_path` of conda/common/path/python.py.
    """
    if path.startswith(_SITE):
        return f"{site}/{path.removeprefix(_SITE)}"
    if path.startswith(_SCRIPTS):
        return f"bin/{path.removeprefix(_SCRIPTS)}"
    return path


def _path_in_package(path: str) -> str:
    """The path that a file in a prefix has in a ``noarch: python`` package."""
    folder, _, rest = path.partition("/")
    if folder in ("bin", "Scripts"):
        return f"{_SCRIPTS}{rest}"
    _, site, rest = path.partition(f"/{_SITE}")
    return f"{_SITE}{rest}" if site else path


def _is_noarch(record: Mapping[str, Any]) -> bool:
    """Whether a record is of a ``noarch: python`` package."""
    metadata = record.get("package_metadata") or {}  # conda asks it where the index has no `noarch`
    noarch = record.get("noarch") or metadata.get("noarch")
    return (noarch.get("type") if isinstance(noarch, Mapping) else noarch) == "python"


def _record_file(path: str, entry: Mapping[str, Any], record: Mapping[str, Any]) -> RecordFile:
    kind, package_sha256 = entry.get("path_type"), entry.get("sha256")
    installed_sha256 = entry.get("sha256_in_prefix")
    was_changed = bool(installed_sha256 and package_sha256 and installed_sha256 != package_sha256)
    has_prefix = kind in _ENTRY_POINTS or bool(entry.get("prefix_placeholder")) or was_changed
    is_link = kind == "softlink"
    link = record.get("link")
    link = link if isinstance(link, Mapping) else {}
    source = link.get("source")
    if is_link:  # mamba has the digest of the target at this time in `sha256_in_prefix`
        sha256, size = package_sha256, None
    elif has_prefix:
        sha256, size = installed_sha256, None
        if kind in _ENTRY_POINTS:  # no file of the package: any digest is of the installed one
            sha256 = installed_sha256 or package_sha256
        if source == "":
            sha256 = None
    else:
        sha256, size = installed_sha256 or package_sha256, entry.get("size_in_bytes")
    return RecordFile(
        path,
        str(sha256 or ""),
        size,
        has_prefix and not is_link,
        is_link,
        link.get("type") == _SOFTLINK,
        str(source or record.get("extracted_package_dir") or ""),
    )
