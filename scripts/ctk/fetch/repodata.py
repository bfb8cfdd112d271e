"""The index files of channels on servers, fetched within bounds for rattler to read.

rattler itself sets no bounds: an answer may have any size and take any time, and its parser of
specs ends the process with a signal where parentheses are nested a thousand times. So our client
fetches and unpacks, and counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import zstandard

from ctk.core.address import public
from ctk.core.checkout import channel_missing
from ctk.core.disk import disk_errors
from ctk.core.errors import ChannelMissing
from ctk.core.files import make_folder, read_json, replace_file
from ctk.core.locks import alone
from ctk.core.platforms import NOARCH
from ctk.fetch.channels import Servers, connected, remote, service_of
from ctk.package.records import COMPRESSED, REPODATA, refuse_specs

if TYPE_CHECKING:  # slow to import
    import httpx2

SLOWEST = 600.0
"""Seconds in which an index file must arrive, as a page of the package index."""
PACKED = 512 << 20
"""Bytes of an index file as a server sends it; the largest of conda-forge has some 60 MB."""
UNPACKED = 2 << 30
"""Bytes of an index file, unpacked; the largest of conda-forge has some 400 MB."""
_RATIO = 100
"""Bytes that each packed byte may become: repodata is packed to a seventh or so."""
_SMALL = 64 << 20
"""Bytes that any file may have, unpacked, however well it is packed."""
_WINDOW = 1 << 27  # bytes; as in packages
_STATE = "state.json"
_NOT_MODIFIED = 304
_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class _Answer:
    """What a server said of an index file: its name, and headers.

    With these the next run asks for changes.
    """

    name: str
    etag: str = ""
    modified: str = ""

    @classmethod
    def read(cls, folder: Path) -> _Answer | None:
        """The answer behind the file in a folder; None without one."""
        noted = read_json(folder / _STATE)
        if not (folder / REPODATA).is_file() or not isinstance(noted, dict):
            return None
        with suppress(TypeError):
            return cls(**noted)
        return None

    @property
    def conditions(self) -> dict[str, str]:
        """The headers of a request that is answered with 304 if nothing changed."""
        stated = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in stated.items() if value}


class IndexFolder:
    """The index files of one channel, in a folder that rattler reads like a channel.

    Args:
        url: The address of the channel.
        home: The folder for all channels.
    """

    def __init__(self, url: str, home: Path) -> None:
        self.url = url.rstrip("/")
        self.folder = home / hashlib.sha256(self.url.encode()).hexdigest()[:16]
        self._service = service_of(self.url)
        self._read: set[str] = set()

    def fetch(self, subdirs: Iterable[str], say: Callable[[str], None] = lambda text: None) -> Path:
        """The folder, with the current ``repodata.json`` of these platforms.

        Each is asked for once in a run.

        Raises:
            ChannelMissing: The server does not answer, refuses, or has no channel there.
            ChannelBroken: Specs in an index file cannot be read.
        """
        missing = [subdir for subdir in subdirs if subdir not in self._read]
        if missing:
            with (
                disk_errors(self.folder),
                alone(self.folder / ".lock", f"with {self._service.name}", say),
                connected() as servers,
            ):
                for subdir in missing:
                    self._update(subdir, servers)
                    self._read.add(subdir)
        return self.folder

    def _update(self, subdir: str, servers: Servers) -> None:
        from ctk.index.client import ABSENT

        place = self.folder / subdir
        make_folder(place)
        for name in (COMPRESSED, REPODATA):
            # Only where the last one of a platform that must be there is closed, a login may be
            # lacking.
            absent = ABSENT if (subdir, name) == (NOARCH, REPODATA) else (*ABSENT, 403)
            if self._ask(name, place, servers, absent):
                return
        for left in (REPODATA, _STATE):
            (place / left).unlink(missing_ok=True)
        if subdir == NOARCH:
            raise channel_missing(public(self.url))

    def _ask(self, name: str, place: Path, servers: Servers, absent: tuple[int, ...]) -> bool:
        """Fetches an index file, unless it is the one that is here.

        Returns whether the server has it.
        A damaged one is fetched once more.
        """
        transfer = servers.of(self._service)
        what = f"{place.name}/{name}"
        wanted = remote(f"{self.url}/{what}", what, lambda: channel_missing(public(self.url)))
        known = _Answer.read(place)
        conditions = known.conditions if known and known.name == name else {}

        def attempt() -> bool:
            with transfer.opened(wanted, conditions, (*absent, _NOT_MODIFIED)) as answer:
                if answer.status_code in absent:
                    return False
                if answer.status_code != _NOT_MODIFIED:
                    self._write(transfer.chunks(answer, wanted, PACKED, SLOWEST), name, place)
                    self._note(answer, name, place)
                return True

        try:
            return transfer.retry.run(attempt)
        except _Damaged:
            return transfer.retry.run(attempt)

    def _write(self, chunks: Iterator[bytes], name: str, place: Path) -> None:
        """Puts an index file into its place, after it was looked through.

        Raises:
            ChannelMissing, ChannelBroken: It cannot be read, or should not be.
        """
        fresh, what = place / f".{REPODATA}.part", f"{place.name}/{name} of {public(self.url)}"
        content = _unpacked(chunks, what) if name == COMPRESSED else chunks
        with fresh.open("wb") as target:
            for part in content:
                target.write(part)
        refuse_specs(fresh, what)
        _refuse_unreadable_index(self.url, place.name, fresh, what)
        (place / _STATE).unlink(missing_ok=True)  # the two belong together
        fresh.replace(place / REPODATA)

    def _note(self, answer: httpx2.Response, name: str, place: Path) -> None:
        etag, modified = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
        note = asdict(_Answer(name, etag, modified))
        replace_file(place / _STATE, json.dumps(note).encode())


class _Damaged(ChannelMissing):
    """An index file that cannot be read; another try may bring a sound one."""

    def __init__(self, what: str, reason: str) -> None:
        step = "its index is damaged: ask the keeper of the channel to publish it again"
        super().__init__(f"a channel could not be read: {what}: {reason}", step)


class _Packed:
    """The bytes of an answer, for zstandard to read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""
        self.size = 0  # of what was read

    def read(self, size: int) -> bytes:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        self.size += len(part)
        return part


def _unpacked(chunks: Iterator[bytes], what: str) -> Iterator[bytes]:
    """Unpacks an index file, as it comes.

    Raises:
        _Damaged: It is not zstd, or unpacks to far more than an index does.
    """
    packed, size = _Packed(chunks), 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    reader = decompressor.stream_reader(cast(IO[bytes], packed), read_across_frames=True)
    try:
        while part := reader.read(_BLOCK):
            size += len(part)
            if size > min(UNPACKED, max(_SMALL, _RATIO * packed.size)):
                raise _Damaged(what, f"{packed.size} bytes unpack to more than {size}")
            yield part
    except zstandard.ZstdError as error:
        raise _Damaged(what, str(error)) from error


def _refuse_unreadable_index(url: str, subdir: str, file: Path, what: str) -> None:
    """Raises _Damaged for an index that rattler cannot read.

    rattler's own error would not name the channel.
    """
    from rattler import Channel, SparseRepoData

    try:
        SparseRepoData(Channel(url), subdir, file).close()
    except Exception as error:  # rattler has errors of its own, and the system's
        raise _Damaged(what, " ".join(str(error).split())) from error
