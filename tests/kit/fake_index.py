"""A small package index on localhost, served by a thread, with faults that a test switches on.

It serves what such servers commonly do: plain HTML pages with the sha256 in the link, HEAD and
Range for files; on request JSON pages with upload times, copies of the metadata, no ranges, no
hashes. It serves the folder of a channel too, below ``/channel/``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

LICENCE = b"A licence.\n"


@dataclass
class Fault:
    """What goes wrong with requests whose path contains ``match``; "" is every request."""

    match: str = ""
    times: int | None = None  # how often it happens before all is well; None is always
    status: int | None = None
    retry_after: str = ""  # the header's value
    delay: float = 0.0  # seconds before anything is answered
    pause: float = 0.0  # seconds without a byte in the middle of the body
    truncate: int | None = None  # send only this many bytes of the body, then hang up
    length: int | None = None  # the Content-Length, whatever is sent
    drop: bool = False  # hang up without an answer
    repeat: int = 1  # send the body so often, without its length
    content: bytes | None = None  # in place of the file, the page or the copy of METADATA
    headers: Mapping[str, str] = field(default_factory=dict)  # said whatever is sent


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    range: str | None
    authorization: str | None
    known: str | None = None  # the ETag of what the client has
    when: float = field(default_factory=time.monotonic, compare=False)


@dataclass
class FakeIndex:
    """The server's state; tests change it while it runs.

    JSON pages say ``upload_time`` of every file that has no entry in ``uploaded``; None leaves it
    out.
    """

    projects: dict[str, dict[str, bytes]] = field(default_factory=dict)
    yanked: set[str] = field(default_factory=set)
    requires_python: dict[str, str] = field(default_factory=dict)
    uploaded: dict[str, str] = field(default_factory=dict)
    upload_time: str | None = "2026-05-04T03:02:01.987654Z"
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    html: bool = True
    ranges: bool = True
    head: bool = True
    hashes: bool = True
    metadata_copies: bool = False
    password: str | None = None
    folder: Path | None = None  # of a channel
    port: int = 0

    @property
    def channel(self) -> str:
        return f"http://127.0.0.1:{self.port}/channel"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple/"

    def add(
        self, file: str, content: bytes, *, yanked: bool = False, requires_python: str = ""
    ) -> None:
        """Offer a file; its name says of which project."""
        self.projects.setdefault(re.sub(r"[-_.]+", "-", file.partition("-")[0]).lower(), {})[
            file
        ] = content
        if yanked:
            self.yanked.add(file)
        if requires_python:
            self.requires_python[file] = requires_python

    def add_wheel(
        self,
        name: str,
        version: str,
        tags: str = "py3-none-any",
        *,
        requires: Iterable[str] = (),
        metadata: Iterable[str] = (),
        licence: bytes = LICENCE,
        files: Mapping[str, bytes] | None = None,
        yanked: bool = False,
        requires_python: str = "",
    ) -> bytes:
        """Offer a made-up wheel; its bytes are the same every time.

        ``metadata`` is more lines of its METADATA.
        """
        lines = [*metadata, *(f"Requires-Dist: {r}" for r in requires)]
        content = wheel(name, version, tags, lines, files or {}, licence)
        file = f"{name.replace('-', '_')}-{version}-{tags}.whl"
        self.add(file, content, yanked=yanked, requires_python=requires_python)
        return content

    def fault(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.match in path and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


def wheel(
    name: str,
    version: str,
    tags: str,
    lines: Iterable[str],
    files: Mapping[str, bytes],
    licence: bytes = LICENCE,
) -> bytes:
    """A wheel with these lines in its METADATA and the given files.

    For extension modules the tags keep contents apart.
    Without a text of its licence where that is empty.
    """
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *lines]
    everything = {
        **files,
        f"{info}/METADATA": ("\n".join(metadata) + "\n").encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: {tags}\n".encode(),
        **({f"{info}/licenses/License.txt": licence} if licence else {}),
    }
    everything[f"{info}/RECORD"] = record(everything, info)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, content in everything.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def record(files: Mapping[str, bytes], info: str) -> bytes:
    """The RECORD of a wheel: every file with its hash and size, and RECORD itself without."""
    hashes = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        for name, data in files.items()
    }
    lines = [
        f"{name},sha256={hashes[name].decode().rstrip('=')},{len(data)}\n"
        for name, data in files.items()
    ]
    return "".join([*lines, f"{info}/RECORD,,\n"]).encode()


@contextmanager
def serve(index: FakeIndex | None = None) -> Iterator[FakeIndex]:
    """Run an index until the end of the block."""
    index = index or FakeIndex()

    class Handler(_Handler):
        state = index

    server = _Server(("127.0.0.1", 0), Handler)
    index.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def configure_pip(monkeypatch: pytest.MonkeyPatch, index: FakeIndex, **settings: str) -> None:
    """Make pip's configuration name this index only; ``settings`` are more options, e.g.

    ``timeout="1"``.
    """
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name.upper()}", value)


class _Server(ThreadingHTTPServer):
    block_on_close = False  # a slow answer must not hold the test up
    request_queue_size = 128  # a connection that finds the queue full is tried again after a second


class _Handler(BaseHTTPRequestHandler):
    """One request. HTTP/1.0: each answer closes its connection, so that nothing is left open."""

    state: FakeIndex

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:
        """The test's output stays clean."""

    def _answer(self, body: bool) -> None:
        state = self.state
        authorization = self.headers.get("Authorization")
        known = self.headers.get("If-None-Match")
        state.requests.append(
            Request(self.command, self.path, self.headers.get("Range"), authorization, known)
        )
        fault = state.fault(self.path) or Fault()
        if fault.delay:
            time.sleep(fault.delay)
        if fault.drop:
            return
        if fault.status:
            asked = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            self._send(fault.status, b"no", body, asked | dict(fault.headers))
        elif state.password and not authorization:
            self._send(401, b"who are you", body, {})
        elif not body and not state.head:
            self._send(405, b"", body, {})
        else:
            self._page_or_file(body, fault)

    def _page_or_file(self, body: bool, fault: Fault) -> None:
        kind, _, rest = self.path.strip("/").partition("/")
        files = {
            file: content
            for project in self.state.projects.values()
            for file, content in project.items()
        }
        if kind == "simple" and rest in self.state.projects:
            content, kind = self._page(rest)
            self._send(
                200,
                content if fault.content is None else fault.content,
                body,
                {"Content-Type": kind},
                fault,
            )
        elif kind == "channel" and self.state.folder and (self.state.folder / rest).is_file():
            content = (self.state.folder / rest).read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            if self.headers.get("If-None-Match") == etag and fault.content is None:
                self._send(304, b"", body, {"ETag": etag}, fault)
            else:
                found = content if fault.content is None else fault.content
                self._send_file(
                    found, body, replace(fault, headers={"ETag": etag, **fault.headers})
                )
        elif kind == "files" and rest in files:
            self._send_file(files[rest] if fault.content is None else fault.content, body, fault)
        elif (
            kind == "files"
            and rest.removesuffix(".metadata") in files
            and self.state.metadata_copies
        ):
            with zipfile.ZipFile(io.BytesIO(files[rest.removesuffix(".metadata")])) as archive:
                name = next(n for n in archive.namelist() if n.endswith("/METADATA"))
                self._send(
                    200,
                    archive.read(name) if fault.content is None else fault.content,
                    body,
                    {},
                    fault,
                )
        else:
            self._send(404, b"not here", body, {}, fault)

    def _page(self, project: str) -> tuple[bytes, str]:
        state = self.state
        if not state.html:
            entries = [
                self._entry(file, content) for file, content in state.projects[project].items()
            ]
            page = {"meta": {"api-version": "1.0"}, "name": project, "files": entries}
            return json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json"
        links = []
        for file, content in state.projects[project].items():
            fragment = f"#sha256={hashlib.sha256(content).hexdigest()}" if state.hashes else ""
            more = ' data-yanked="withdrawn"' if file in state.yanked else ""
            if file in state.requires_python:
                more += (
                    f' data-requires-python="{state.requires_python[file].replace(">", "&gt;")}"'
                )
            if state.metadata_copies:
                more += ' data-core-metadata="true"'
            links.append(f'<a href="../../files/{file}{fragment}"{more}>{file}</a><br/>')
        return (
            "<!DOCTYPE html><html><body>\n" + "\n".join(links) + "\n</body></html>"
        ).encode(), "text/html"

    def _entry(self, file: str, content: bytes) -> dict[str, object]:
        state = self.state
        uploaded = state.uploaded.get(file, state.upload_time)
        return ({"upload-time": uploaded} if uploaded is not None else {}) | {
            "filename": file,
            "url": f"../../files/{file}",
            "hashes": {"sha256": hashlib.sha256(content).hexdigest()} if state.hashes else {},
            "yanked": file in state.yanked,
            "requires-python": state.requires_python.get(file),
            "core-metadata": state.metadata_copies,
        }

    def _send_file(self, content: bytes, body: bool, fault: Fault) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not (wanted and self.state.ranges):
            self._send(200, content, body, {"Accept-Ranges": "bytes"}, fault)
            return
        start, end = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
        if start >= len(content):
            self._send(416, b"", body, {"Content-Range": f"bytes */{len(content)}"})
            return
        part = content[start : end + 1]
        self._send(206, part, body, {"Content-Range": f"bytes {start}-{end}/{len(content)}"}, fault)

    def _send(
        self,
        status: int,
        content: bytes,
        body: bool,
        headers: Mapping[str, str],
        fault: Fault | None = None,
    ) -> None:
        fault = fault or Fault()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/octet-stream",
            **headers,
            **fault.headers,
        }.items():
            self.send_header(name, value)
        if fault.repeat == 1:  # else the end of the connection is the end
            self.send_header(
                "Content-Length", str(len(content) if fault.length is None else fault.length)
            )
        try:
            self.end_headers()
            if body:
                content = content if fault.truncate is None else content[: fault.truncate]
                half = len(content) // 2 if fault.pause else 0
                self.wfile.write(content[:half])
                time.sleep(fault.pause)
                for _ in range(fault.repeat):
                    self.wfile.write(content[half:])
        except ConnectionError:
            pass  # the client had enough
