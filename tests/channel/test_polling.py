"""Readers that poll a published folder while it changes: a web client, and rattler."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import zstandard
from rattler import Gateway, SourceConfig

from ctk.channel.publish import Folder
from ctk.core.process import run
from kit.small_channels import build, digit, serve

PUBLISHES = 50
SUBDIRS = ("noarch", "linux-64")
Named = Iterator[tuple[str, str]]
"""The packages that an index names, and their sha256."""


def get(url: str, path: str, method: str = "GET") -> HTTPResponse:
    connection = HTTPConnection(urlsplit(url).netloc)
    connection.request(method, path)
    return connection.getresponse()


def as_conda_does(url: str) -> Named:
    """The packages of both forms of the index."""
    for subdir in SUBDIRS:
        for form in ("repodata.json", "repodata.json.zst"):
            content = get(url, f"/{subdir}/{form}").read()
            text = zstandard.ZstdDecompressor().decompress(content) if form.endswith("zst") else content
            records = json.loads(text)["packages.conda"]
            exports = json.loads(get(url, f"/{subdir}/run_exports.json").read())["packages.conda"]
            assert records.keys() <= exports.keys()
            yield from ((f"{subdir}/{file}", record["sha256"]) for file, record in records.items())


def as_rattler_does(url: str) -> Named:
    """The channel as pixi gets it: rattler chooses the form of the index."""
    gateway = Gateway(default_config=SourceConfig(cache_action="no-cache"))
    names = [name.normalized for name in run(gateway.names([url], SUBDIRS))]
    for part in run(gateway.query([url], SUBDIRS, names, recursive=False)):
        yield from ((f"{record.subdir}/{record.file_name}", record.sha256.hex()) for record in part)


def test_a_reader_polling_during_50_publishes_never_sees_an_index_that_names_a_missing_package(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    # Each state adds two packages to the state before, and drops two.
    states = [build(tmp_path / f"state{n}" / "channel", *map(digit, range(n, n + 4))) for n in range(0, 20, 2)]
    folder.publish(states[0])
    readers, looks, ended = (as_conda_does, as_conda_does, as_rattler_does), [0, 0, 0], threading.Event()

    def poll(number: int, url: str, named: Callable[[str], Named]) -> int:
        asked = 0
        while not ended.is_set():
            for name, sha256 in named(url):
                assert get(url, f"/{name}", "HEAD").status == 200, f"{name} is not there"
                assert hashlib.sha256(get(url, f"/{name}").read()).hexdigest() == sha256, f"{name} is another package"
                asked += 1
            looks[number] += 1
        return asked

    with serve(folder.path) as url, ThreadPoolExecutor() as pool:
        polling = [pool.submit(poll, number, url, named) for number, named in enumerate(readers)]
        try:
            shown = set()
            for number in range(1, PUBLISHES + 1):
                before = min(looks)
                shown.add(folder.publish(states[number % len(states)], exact=True).state)
                # Every reader sees each tenth state, also on a slow machine.
                while number % 10 == 0 and min(looks) == before and not any(each.done() for each in polling):
                    time.sleep(0.01)
        finally:
            ended.set()
        asked = [each.result() for each in polling]
    assert len(shown) == PUBLISHES
    assert min(looks) >= 5
    assert min(asked) >= 20
