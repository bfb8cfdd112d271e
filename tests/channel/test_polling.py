"""Readers who poll a published folder while it changes: through a web server, and with rattler as the client."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import zstandard
from rattler import Gateway, SourceConfig
from small_channels import build, digit, serve

from ctk.channel.folder import Folder

PUBLISHES = 50
SUBDIRS = ("noarch", "linux-64")


class Reader(threading.Thread):
    """Reads again and again until it is told to stop, and notes what is wrong.

    Attributes:
        looks: How often it has read all of the channel.
        packages: How many packages it has asked for.
        wrong: What it has found.
    """

    def __init__(self, url: str, look: Callable[[Reader], None]) -> None:
        super().__init__(daemon=True)
        self.url, self._look = url, look
        self.looks = self.packages = 0
        self.wrong: list[str] = []
        self._stop_now = threading.Event()
        address = urlsplit(url)
        self.host, self.port = str(address.hostname), address.port

    def run(self) -> None:
        while not self._stop_now.is_set():
            try:
                self._look(self)
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
            self.looks += 1

    def stop(self) -> None:
        self._stop_now.set()
        self.join()

    def get(self, path: str, method: str = "GET") -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, self.port or 80)
        connection.request(method, path)
        return connection.getresponse()

    def fetch(self, name: str, sha256: str) -> None:
        """Asks for a package that an index has named."""
        self.packages += 1
        head = self.get(f"/{name}", "HEAD")
        content = self.get(f"/{name}").read()
        if head.status != 200:
            self.wrong.append(f"{name} is not there")
        elif hashlib.sha256(content).hexdigest() != sha256:
            self.wrong.append(f"{name} is another package")


def as_conda_does(reader: Reader) -> None:
    """Both forms of the index, and each package that either names."""
    for subdir in SUBDIRS:
        for form in ("repodata.json", "repodata.json.zst"):
            content = reader.get(f"/{subdir}/{form}").read()
            text = zstandard.ZstdDecompressor().decompress(content) if form.endswith("zst") else content
            records = json.loads(text)["packages.conda"]
            exports = json.loads(reader.get(f"/{subdir}/run_exports.json").read())["packages.conda"]
            reader.wrong += [f"{file} has no run exports" for file in records.keys() - exports.keys()]
            for file, record in records.items():
                reader.fetch(f"{subdir}/{file}", record["sha256"])


def as_rattler_does(reader: Reader) -> None:
    """The channel as pixi gets it: rattler chooses the form of the index."""

    async def ask() -> None:
        gateway = Gateway(default_config=SourceConfig(cache_action="no-cache"))
        names = [name.normalized for name in await gateway.names([reader.url], SUBDIRS)]
        found = await gateway.query([reader.url], SUBDIRS, names, recursive=False)
        for record in (record for part in found for record in part):
            reader.fetch(f"{record.subdir}/{record.file_name}", record.sha256.hex())

    asyncio.run(ask())


def test_a_reader_polling_during_50_publishes_never_sees_an_index_that_names_a_missing_package(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    # Each state has two packages that the one before lacks, and lacks two that it had.
    states = [build(tmp_path / f"state{n}" / "channel", *map(digit, range(n, n + 4))) for n in range(0, 20, 2)]
    folder.publish(states[0])
    with serve(folder.path) as url:
        readers = [Reader(url, as_conda_does), Reader(url, as_conda_does), Reader(url, as_rattler_does)]
        for reader in readers:
            reader.start()
        shown = set()
        for number in range(1, PUBLISHES + 1):
            before = min(reader.looks for reader in readers)
            shown.add(folder.publish(states[number % len(states)], exact=True).state)
            if number % 10 == 0:  # everybody has seen something of it, however slow the machine
                while min(reader.looks for reader in readers) == before and all(r.is_alive() for r in readers):
                    threading.Event().wait(0.01)
        for reader in readers:
            reader.stop()
    assert [reader.wrong for reader in readers] == [[], [], []]
    assert len(shown) == PUBLISHES
    assert min(reader.looks for reader in readers) >= 5
    assert min(reader.packages for reader in readers) >= 20
