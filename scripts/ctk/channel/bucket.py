"""Publishes into a bucket of any S3, with the promises of a folder.

A `Bucket` is a `Folder` whose files are objects. Its index files and notes are copied into a
temporary folder, where the code of a folder reads them; each write is a put of a whole object. What
differs from a folder:

- There is no rename, and none is needed: an object is replaced whole, by one put.
- There is no lock. Each put states what the object was when this run read it (``If-Match``, or
  ``If-None-Match`` for a new one), so of two runs at once the later one ends with an error at its
  first put of an object that the other has put. Each run puts the same notes first.
- The content of a package is compared by size and ETag where that is the MD5 of the record, else by
  the sha256 that was stated when it was put. A folder reads its packages, a bucket does not.
- A package is one put, also a large one: nothing of it is there when it is cut off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctk.channel.bill import BILL
from ctk.channel.objects import Listed, Objects
from ctk.channel.publish import INCOMING, NAMES, SIDECAR, Folder, Keep, not_as_indexed
from ctk.channel.repodata import FILES
from ctk.core.checkout import HISTORY, channel_missing
from ctk.core.console import Reporter
from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue
from ctk.core.files import file_sha256, make_folder, replace_file
from ctk.core.inside import wrong_with
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, PLATFORMS

_SUBDIRS = (*PLATFORMS, NOARCH)
_BEGUN = f"{HISTORY}/{INCOMING}"
_INDEX = frozenset(f"{subdir}/{name}" for subdir in _SUBDIRS for name in FILES)


@contextmanager
def open_bucket(address: str, recipes: Path, keep: Keep) -> Iterator[Bucket]:
    """A bucket to publish into, as it is now."""
    objects = Objects.at(address)
    with TemporaryDirectory() as folder:
        bucket = Bucket(Path(folder), recipes, keep, objects=objects)
        bucket.refresh()
        yield bucket


@contextmanager
def copied(address: str, beside: Path, report: Reporter) -> Iterator[Path]:
    """A temporary folder in `beside` with the channel of a bucket, to be checked as a folder is.

    It has what a check reads: index files and notes, packages and attestations. Of each other
    object it has an empty file, so that a check names it.

    Raises:
        ChannelMissing: There is no object.
        PublishFailed: The store does not answer.
        NoSpace: The disk is full.
    """
    with disk_errors(beside), held(beside) as folder:
        bucket = Bucket(folder, folder, Keep(), objects=Objects.at(address))
        bucket.refresh()
        if not bucket.listed:
            raise channel_missing(bucket.name)
        keys = [key for key in sorted(bucket.listed) if not _is_copied(key) and not wrong_with(key)]
        read = [key for key in keys if _is_checked(key)]
        for key in keys:
            _mark(folder, key)
        with report.task("download", len(read), of="files") as task, ThreadPoolExecutor(4) as pool:
            fetched = pool.map(lambda key: bucket.objects.fetch(key, folder / key), read)
            for _ in fetched:
                task.advance(1)
        yield folder


@dataclass(frozen=True)
class Bucket(Folder):
    """A bucket; `path` is the folder with copies of its index files and notes."""

    objects: Objects = field(kw_only=True)
    listed: dict[str, Listed] = field(default_factory=dict, kw_only=True, repr=False)

    @property
    def name(self) -> str:
        return self.objects.address

    def refresh(self) -> None:
        """Lists the bucket, and copies the index files and notes that are new."""
        now = self.objects.list()
        with disk_errors(self.path):
            for key in self.listed.keys() - now.keys():
                (self.path / key).unlink(missing_ok=True)
            for key in filter(_is_copied, now):
                if self.listed.get(key) != now[key]:
                    self._copy(key, self.objects.read(key))
        self.listed.clear()
        self.listed.update(now)

    def refuse_unless_for_readers(self, channel: Path) -> None:
        """Raises BadValue for a prefix with another channel below it, or a damaged one in it."""
        ending = f"/{HISTORY}/{NAMES}"
        inner = [key.removesuffix(ending) for key in self.listed if key.endswith(ending)]
        if inner and f"{HISTORY}/{NAMES}" not in self.listed:
            raise BadValue(
                f"{self.name} contains another channel, {inner[0]}",
                "name a prefix for this channel alone",
            )
        self._refuse_damaged_of_others()

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.refresh()
        yield

    def _exists(self, name: str) -> bool:
        return name in self.listed

    def _holds(self, name: str, record: Mapping[str, Any]) -> bool:
        """Whether a package is there with the content that its record states."""
        listed = self.listed.get(name)
        if not listed or listed.size != record.get("size", listed.size):
            return False
        if listed.etag == record.get("md5"):
            return True
        return self.objects.stated_sha256(name) == str(record["sha256"])

    def _sha256(self, name: str) -> str:
        return self.objects.sha256(name)

    def _packages(self) -> set[str]:
        """The packages in the bucket, whether an index names them or not."""
        parts = [name.split("/") for name in self.listed if name.endswith(".conda")]
        return {"/".join(part) for part in parts if len(part) == 2 and part[0] in _SUBDIRS}

    def _sidecars(self, package: Path) -> list[Path]:
        start = f"{self._key(package)}{SIDECAR}"
        return [self.path / key for key in self.listed if key.startswith(start)]

    def _put(self, source: Path, name: str, record: Mapping[str, Any]) -> bool:
        """Puts a package unless it is there, undamaged; returns whether it was put."""
        if self._holds(name, record):
            return False
        if not source.is_file() or file_sha256(source) != record["sha256"]:
            raise not_as_indexed(source)
        was = self.listed.get(name)
        self.listed[name] = self.objects.put(name, source, record["sha256"], was)
        return True

    def _read(self, file: Path) -> bytes:
        key = self._key(file)
        return self.objects.read(key) if key in self.listed else b""

    def _write(self, file: Path, content: bytes) -> None:
        key = self._key(file)
        sha256 = hashlib.sha256(content).hexdigest()
        self.listed[key] = self.objects.put(key, content, sha256, self.listed.get(key))
        if _is_copied(key):
            self._copy(key, content)

    def _remove(self, file: Path) -> None:
        """Deletes an object, unless another run has begun, which may need it.

        Each run puts `INCOMING` before it looks which packages are there.
        """
        self.objects.refuse_another(_BEGUN, self.listed.get(_BEGUN))
        key = self._key(file)
        self.objects.delete(key)
        self.listed.pop(key, None)
        file.unlink(missing_ok=True)

    def _remove_state(self, place: Path) -> None:
        start = f"{self._key(place)}/"
        for key in [key for key in self.listed if key.startswith(start)]:
            self._remove(self.path / key)
        super()._remove_state(place)

    def _key(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def _copy(self, key: str, content: bytes) -> None:
        make_folder((self.path / key).parent)
        replace_file(self.path / key, content)


def _is_checked(key: str) -> bool:
    """Whether a check reads an object: a package, an attestation, an index, or the SBOM."""
    subdir, _, name = key.rpartition("/")
    is_deep = "/" in subdir or not subdir
    is_of_packages = name.endswith(".conda") or SIDECAR in name or name in FILES
    return key == BILL or (is_of_packages and not is_deep)


def _mark(folder: Path, key: str) -> None:
    """Makes an empty file for an object: no check looks deeper than into the subdirs."""
    file = folder.joinpath(*key.split("/")[:2])
    with suppress(FileExistsError, NotADirectoryError):  # S3 has keys below the key of an object
        make_folder(file.parent)
        file.touch()


def _is_copied(key: str) -> bool:
    """Whether an object is an index file or a note of ours."""
    is_note = key.startswith(f"{HISTORY}/") and not key.endswith("/")
    return key in _INDEX or (is_note and not wrong_with(key))
