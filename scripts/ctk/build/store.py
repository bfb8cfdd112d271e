"""The store through which a cluster's builds go: a shared folder or an object store, by fsspec URL.

    sha256/<xx>/<sha256>    artefacts, recipe files and packages, by content
    builds/<key>.json       a finished build: names its packages by sha256, written when they are all there

Nobody trusts it: every file is hashed when it is read, and one with another hash is removed and counts as absent. Any
of it may be deleted at any time.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ctk.core.errors import BadValue, ClusterFailed, NoSpace, without_credentials
from ctk.core.files import FULL, file_sha256

_STEP = "a store is a folder that every worker sees, such as file:///shared/ctk, or an object store such as s3://bucket"


class Store:
    """An open store.

    Args:
        url: As fsspec reads it; a path is a folder.

    Raises:
        BadValue: No such protocol, or one that other processes do not see.
        ClusterFailed: fsspec is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        except ImportError:
            raise missing_extra("fsspec") from None
        self.shown = without_credentials(url)
        try:
            self._fs, self._root = url_to_fs(url)
        except ImportError as error:  # fsspec knows the protocol, and its package is not installed
            raise BadValue(f"the store {self.shown} cannot be opened: {error}", "install that package") from None
        except Exception as error:
            raise BadValue(
                f"the store {self.shown} cannot be opened: {without_credentials(str(error))}", _STEP
            ) from None
        if self._fs.protocol == "memory":
            raise BadValue(f"the store {self.shown} is seen by no other process", _STEP)
        # An object appears whole in an object store; a file is there as soon as it is opened.
        self._renames = isinstance(self._fs, LocalFileSystem)
        self.url = f"file://{self._root}" if self._renames else url

    def put(self, file: Path, sha256: str | None = None) -> str:
        """Adds a file, unless one of its sha256 and size is there; returns its sha256.

        Raises:
            NoSpace: The store cannot be written.
        """
        sha256 = sha256 or file_sha256(file)
        path = self._blob(sha256)
        with self._errors():
            self._fs.invalidate_cache()
            if not self._fs.exists(path) or self._fs.size(path) != file.stat().st_size:
                with self._whole(path) as place:
                    self._fs.put_file(str(file), place)
        return sha256

    def get(self, sha256: str, target: Path) -> bool:
        """Reads a file; False where it is absent, or has another sha256."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            try:
                self._fs.get_file(self._blob(sha256), str(target))
            except FileNotFoundError:
                return False
            if file_sha256(target) == sha256:
                return True
            target.unlink()
            self._remove(self._blob(sha256))
            return False

    def publish(self, key: str, note: dict[str, Any]) -> None:
        """Marks a build as finished; its packages must be in the store. The last of several writers wins."""
        with self._errors(), self._whole(self._note(key)) as place:
            self._fs.pipe_file(place, json.dumps(note, indent=1).encode())

    def finished(self, key: str) -> dict[str, Any] | None:
        """The note of a finished build."""
        self._fs.invalidate_cache()
        try:
            with self._errors():
                note = json.loads(self._fs.cat_file(self._note(key)))
            return note if isinstance(note, dict) else None
        except (FileNotFoundError, ValueError):
            return None

    def forget(self, key: str) -> None:
        """Removes the note of a build."""
        self._remove(self._note(key))

    def _blob(self, sha256: str) -> str:
        return f"{self._root}/sha256/{sha256[:2]}/{sha256}"

    def _note(self, key: str) -> str:
        return f"{self._root}/builds/{key}.json"

    @contextmanager
    def _whole(self, path: str) -> Iterator[str]:
        """Where to write a file that appears under its path as a whole."""
        self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        if not self._renames:
            yield path
            return
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def _remove(self, path: str) -> None:
        with suppress(OSError, ValueError):  # gone, or not ours to remove: nobody trusts it anyway
            self._fs.rm(path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            full = error.errno in FULL
            raise NoSpace(
                f"the store {self.shown} {'is full' if full else 'fails'}: {without_credentials(str(error))}",
                "free some space there" if full else "make it readable and writable for this machine and every worker",
            ) from None


def missing_extra(name: str) -> ClusterFailed:
    """The error for a package that only a cluster needs."""
    return ClusterFailed(
        f"builds on a cluster need {name}, which is not installed here",
        "install the extra: .venv/bin/python -m pip install --editable '.[cluster]'",
    )
