"""Channels on servers: the client that reads them, and the packages of a pick.

rattler unpacks the packages from a folder of archives, so that it asks no server itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ctk.core.address import LOGIN, logged_in, public
from ctk.core.checkout import workspace
from ctk.core.disk import disk_errors
from ctk.core.errors import ChannelBroken, ChannelMissing, CtkError, HashMismatch
from ctk.core.files import file_sha256
from ctk.core.locks import alone
from ctk.fetch.download import Wanted, at_once, download
from ctk.index import IndexSettings, Service, pip_settings, settings_of_environment

if TYPE_CHECKING:  # slow to import
    import httpx2
    from rattler import RepoDataRecord

    from ctk.index.client import Retry
    from ctk.index.transfer import Remote, Transfer

_HTTP = ("http://", "https://")
_MOST = 16 << 30  # bytes of a package whose size its index does not state
_JOBS = 4


def is_on_server(url: str) -> bool:
    """Whether our client reads an address."""
    return url.lower().startswith(_HTTP)


def service_of(channel: str, unavailable: type[CtkError] = ChannelMissing) -> Service:
    """The words for a channel, by its address, and its error if the server gives nothing."""
    return Service(
        name=f"the channel {public(channel)}",
        keeper="the keeper of the channel",
        unavailable=unavailable,
        login=f"{LOGIN}, or correct it there, then run the same command again",
        again=(
            "check the network and the address of the channel, then run the same command again;"
            " what was fetched stays"
        ),
        closed=(401, 403, 407),
    )


class Servers:
    """The client for channels on servers.

    It has the times and tries of pip (without a checkout, those of pip's variables), and the
    environment's certificates and proxy.
    """

    def __init__(self, client: httpx2.Client, retry: Retry) -> None:
        self._client, self._retry = client, retry

    def of(self, service: Service) -> Transfer:
        """The client, with the words for one channel."""
        from ctk.index.transfer import Transfer

        return Transfer(self._client, replace(self._retry, service=service))


@contextmanager
def connected() -> Iterator[Servers]:
    """A client for channels; IndexUnavailable for a proxy or certificates that cannot be used."""
    import httpx2

    from ctk.index.client import Retry, connection

    # Without a checkout pip is nobody's choice of a tool, and may not be there.
    of_pip = pip_settings() if workspace().is_checkout else settings_of_environment()
    arguments = connection(IndexSettings())
    with httpx2.Client(**arguments, timeout=of_pip.timeout, follow_redirects=True) as client:
        yield Servers(client, Retry(attempts=of_pip.retries + 1))


def remote(url: str, what: str, absent: Callable[[], CtkError]) -> Remote:
    """A file of a channel, with the login for its host."""
    from ctk.index.transfer import Remote

    address, headers = logged_in(url)
    return Remote(what, address, absent, headers)


@dataclass(frozen=True)
class Archives:
    """A folder for packages that were downloaded, and not yet unpacked.

    A file is there under its name only after its digest was checked.
    """

    folder: Path

    @classmethod
    def beside(cls, cache: Path) -> Archives:
        """The archives for a cache of unpacked packages."""
        return cls(cache.with_name(f"{cache.name}.archives"))

    @property
    def lock(self) -> Path:
        """A run that downloads or unpacks holds it."""
        return self.folder / ".lock"

    @contextmanager
    def used(self, records: Iterable[RepoDataRecord], say: Callable[[str], None]) -> Iterator[None]:
        """Keeps the archives of packages for this run.

        `say` is told of another run, which ends first.
        """
        if not any(map(_is_remote, records)):
            yield
            return
        with alone(self.lock, "with the packages of this cache", say):
            yield

    def place(self, record: RepoDataRecord) -> Path:
        """Where the archive of a package is, or will be."""
        name = _digest(record) or sha256(record.url.encode()).hexdigest()
        ending = ".tar.bz2" if record.file_name.endswith(".tar.bz2") else ".conda"
        return self.folder / f"{name}{ending}"

    def here(self, records: Iterable[RepoDataRecord]) -> list[RepoDataRecord]:
        """The records, those of packages on servers with the address of the archive."""
        from rattler import RepoDataRecord

        return [
            (
                RepoDataRecord(r, r.file_name, self.place(r).as_uri(), r.channel)
                if _is_remote(r)
                else r
            )
            for r in records
        ]

    def origins(self, records: Iterable[RepoDataRecord]) -> Mapping[str, str]:
        """Address of an archive -> address of the package on its server."""
        return {self.place(r).as_uri(): r.url for r in records if _is_remote(r)}

    def missing(self, records: Iterable[RepoDataRecord]) -> list[RepoDataRecord]:
        """The packages on servers whose archives are not here, or not right."""
        return [r for r in records if _is_remote(r) and not self._is_here(r)]

    def fetch(
        self,
        records: Iterable[RepoDataRecord],
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        """Downloads the archives of packages.

        `progress` is called from threads with bytes that arrived.

        Raises:
            ChannelMissing: A server does not answer, or refuses.
            ChannelBroken: A channel lacks a package that its index names.
            HashMismatch: A package is not the one that the index names.
            NoSpace: The disk of the archives is full.
        """
        if not (wanted := self.missing(records)):
            return
        with disk_errors(self.folder), connected() as servers:
            self.folder.mkdir(parents=True, exist_ok=True)
            at_once(_JOBS, lambda record: self._fetch(record, servers, progress), wanted)

    def forget(self, records: Iterable[RepoDataRecord]) -> None:
        """Removes the archives of packages, which are unpacked now."""
        for record in filter(_is_remote, records):
            self.place(record).unlink(missing_ok=True)

    def _is_here(self, record: RepoDataRecord) -> bool:
        place = self.place(record)
        if not place.is_file():
            return False
        # One without a sha256 was checked as far as possible when it got its name.
        return not record.sha256 or file_sha256(place) == record.sha256.hex()

    def _fetch(
        self, record: RepoDataRecord, servers: Servers, progress: Callable[[int], None]
    ) -> None:
        place, channel = self.place(record), record.channel or record.url
        transfer = servers.of(service_of(channel))
        wanted = Wanted(_remote(record), _digest(record), record.size, _MOST)
        part = place.with_suffix(".part")
        received = download(wanted, part, transfer, progress)
        if not received.is_right(wanted):
            part.unlink()
            stated = _stated(wanted.algorithm, wanted.digest, wanted.size)
            served = _stated(wanted.algorithm, received.digest, received.size)
            raise HashMismatch(
                f"{record.file_name} of {public(channel)} is not the package that its index"
                f" names:\n  index  {stated}\n  served {served}",
                "it was downloaded twice and is not used: tell the keeper of the channel, or"
                f" whoever runs the proxy before it; {_looks_at_all(channel)}",
            )
        part.replace(place)


def _is_remote(record: RepoDataRecord) -> bool:
    """Whether a package is on a server.

    Raises:
        ChannelBroken: A server's index leads to a file of this machine.
    """
    if is_on_server(record.url):
        return True
    channel = record.channel or ""
    if is_on_server(channel):
        raise ChannelBroken(
            f"the index of {public(channel)} leads to {public(record.url)} for {record.file_name}, "
            "which is not on a server",
            "ask the keeper of the channel",
        )
    return False


def _remote(record: RepoDataRecord) -> Remote:
    channel = record.channel or record.url
    place = f"{record.subdir}/{record.file_name}"

    def absent() -> CtkError:
        return ChannelBroken(
            f"the channel {public(channel)} has no {place}, which its index names",
            "run the command again, as the index may just have changed; if it stays, tell the"
            f" keeper of the channel: {_looks_at_all(channel)}",
        )

    return remote(record.url, place, absent)


def unusable(record: RepoDataRecord, reason: str) -> CtkError:
    """The error for a package that cannot be installed, though its archive is the right one."""
    channel = record.channel or record.url
    return ChannelBroken(
        f"{record.file_name} of {public(channel)} cannot be installed: {reason}",
        f"tell the keeper of the channel: {_looks_at_all(channel)}",
    )


def _looks_at_all(channel: str) -> str:
    return f"`ctk check {shlex.quote(public(channel))}` looks at all of its packages"


def _digest(record: RepoDataRecord) -> str:
    """The sha256 of a package, or its md5, or ""."""
    found = record.sha256 or record.md5
    return found.hex() if found else ""


def _stated(algorithm: str, digest: str, size: int | None) -> str:
    known = f"{algorithm} {digest}" if digest else "no hash"
    return known if size is None else f"{known} ({size} bytes)"
