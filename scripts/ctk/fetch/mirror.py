"""Channels on servers, for rattler-build: it asks a small server of this process.

That server fetches with our client. rattler-build's own client sets no bounds to the index of a
channel and to packages, and its errors name no next step. So each index that it reads is one of
`IndexFolder`, and each package one of `Archives`, whose digest was checked. The server listens on
this machine only, and below a path that nobody can guess: our client has the logins.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING, Any

from ctk.core.address import public
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, CtkError
from ctk.core.files import make_folder
from ctk.core.inside import is_file_name
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.fetch.channels import Archives, is_on_server
from ctk.fetch.repodata import IndexFolder
from ctk.package.records import REPODATA

if TYPE_CHECKING:  # slow to import
    from rattler import RepoDataRecord

_PACKAGES = (".conda", ".tar.bz2")
_HERE = "127.0.0.1"
_GONE = 404
_FAILED = 400
"""Tells rattler-build of a file that cannot be fetched: it does not ask again, since our client has
tried.
"""


class Mirror:
    """The channels of a run, as rattler-build is given them.

    Args:
        channels: URLs and names of channels.
        workspace: Has the folder of index files and that of packages.
        say: Is told of another run, which is waited for.
    """

    def __init__(
        self, channels: Sequence[str], workspace: Workspace, say: Callable[[str], None]
    ) -> None:
        from rattler import Channel

        self._archives = Archives.beside(workspace.packages)
        self._say = say
        self._indexes: dict[str, _Index] = {}
        self._served: list[RepoDataRecord] = []
        self._lock = Lock()
        self._failures: dict[str, CtkError] = {}
        self._root = ""
        self.environment: Mapping[str, str] = {}
        """Variables for the process of rattler-build."""
        self._channels = []
        for name in channels:
            address = str(Channel(name).base_url).rstrip("/")
            remote = is_on_server(address)
            self._channels.append(address if remote else name)
            if remote and address not in self._indexes:
                number = str(len(self._indexes))
                self._indexes[address] = _Index(
                    number, IndexFolder(address, workspace.notes / "channels")
                )

    @property
    def is_needed(self) -> bool:
        """Whether a channel is on a server."""
        return bool(self._indexes)

    @property
    def names(self) -> Mapping[str, str]:
        """Address that rattler-build is given -> address of the channel on its server."""
        return {f"{self._root}/{index.number}": address for address, index in self._indexes.items()}

    @property
    def urls(self) -> list[str]:
        """What rattler-build is given, in the order of the channels."""
        own = {address: own for own, address in self.names.items()}
        return [own.get(channel, channel) for channel in self._channels]

    def restored(self, text: str) -> str:
        """A message of rattler-build with the addresses of channels on servers."""
        return renamed(text, self.names)

    def raise_failure(self) -> None:
        """Raises the error because of which rattler-build did not get a file, if any."""
        for error in self._failures.values():
            raise error

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answers requests until the end of the block."""
        token = secrets.token_urlsafe(16)
        handler = partial(_Handler, self, token)
        server = ThreadingHTTPServer((_HERE, 0), handler)
        self._root = f"http://{_HERE}:{server.server_address[1]}/{token}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            self._forget()

    def file(self, number: str, subdir: str, name: str) -> IO[bytes] | None:
        """A file of a channel, opened; None for one that it does not have.

        Raises:
            CtkError: It cannot be fetched. Asked for again, it gives the same error at once.
        """
        place = f"{number}/{subdir}/{name}"
        with self._lock:
            if place in self._failures:
                raise self._failures[place]
            try:
                return self._open(number, subdir, name)
            except CtkError as error:
                self._failures[place] = error
                raise

    def _open(self, number: str, subdir: str, name: str) -> IO[bytes] | None:
        index = next((index for index in self._indexes.values() if index.number == number), None)
        if index is None or subdir not in (*PLATFORMS, NOARCH) or not is_file_name(name):
            return None
        if name == REPODATA:
            file = index.folder.fetch([subdir], self._say) / subdir / name
            return file.open("rb") if file.is_file() else None
        if not name.endswith(_PACKAGES):
            return None
        record = index.record(subdir, name)
        # Serial, as the lock of archives is that of a process.
        with self._archives.used([record], self._say):
            self._archives.fetch([record])
            self._served.append(record)
            return self._archives.place(record).open("rb")

    def _forget(self) -> None:
        """Removes what was served: rattler-build has unpacked it."""
        if self._served:
            with self._archives.used(self._served, self._say):
                self._archives.forget(self._served)


@contextmanager
def mirrored(
    channels: Sequence[str], workspace: Workspace, say: Callable[[str], None]
) -> Iterator[Mirror]:
    """The channels of a run for rattler-build; those that are no servers stay as they are."""
    mirror = Mirror(channels, workspace, say)
    if not mirror.is_needed:
        yield mirror
        return
    with held(workspace.temporary) as folder, mirror.serving():
        # rattler keeps index files by their address, which is another one in each run.
        cache = folder / "rattler"
        cache.mkdir()
        make_folder(workspace.packages)
        (cache / workspace.packages.name).symlink_to(workspace.packages.resolve())
        stated = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
        direct = f"{stated},{_HERE}" if stated else _HERE
        mirror.environment = {
            "RATTLER_CACHE_DIR": str(cache),
            "NO_PROXY": direct,
            "no_proxy": direct,
        }
        yield mirror


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other addresses of channels."""
    for own, address in names.items():
        text = text.replace(own, address)
    return text


@dataclass(frozen=True)
class _Index:
    """The index files of a channel, and its number among the channels."""

    number: str
    folder: IndexFolder

    def record(self, subdir: str, file_name: str) -> RepoDataRecord:
        """The record of a package.

        Raises:
            ChannelBroken: The index has none.
        """
        from rattler import Channel, PackageFormatSelection, SparseRepoData

        file = self.folder.fetch([subdir]) / subdir / REPODATA
        with SparseRepoData(Channel(self.folder.url), subdir, file) as index:
            found = index.load_records(file_name.rsplit("-", 2)[0], PackageFormatSelection.BOTH)
        for record in found:
            if record.file_name == file_name:
                return record
        raise ChannelBroken(
            f"{public(self.folder.url)} names {subdir}/{file_name} under a name that is not that of"
            " its package",
            "ask the keeper of the channel",
        )


class _Handler(BaseHTTPRequestHandler):
    """One request of rattler-build. HTTP/1.0: each answer closes its connection."""

    def __init__(self, mirror: Mirror, token: str, *request: Any) -> None:
        self._mirror = mirror
        self._token = token
        super().__init__(*request)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """rattler-build says what it reads."""

    def _answer(self, with_body: bool) -> None:
        parts = self.path.strip("/").split("/")
        try:
            known = len(parts) == 4 and secrets.compare_digest(
                parts[0].encode(), self._token.encode()
            )
            file = self._mirror.file(*parts[1:]) if known else None
        except CtkError:
            self._refuse(_FAILED)
            return
        if file is None:
            self._refuse(_GONE)
            return
        with file, suppress(ConnectionError):
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            if with_body:
                shutil.copyfileobj(file, self.wfile)

    def _refuse(self, status: int) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
