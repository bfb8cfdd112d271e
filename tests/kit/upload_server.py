"""A server that takes uploads as prefix.dev does, in a process of its own.

An upload keeps the interpreter to itself until it is answered. What there is to read is in
FOLDER/published. A package that is taken (201) is listed there, as by prefix.dev's server, by the
subdir that its own index.json states.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


class UploadServer:
    """The running server and what it was sent."""

    def __init__(self, folder: Path, status: Mapping[str, int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.process = subprocess.Popen([sys.executable, __file__, str(folder), json.dumps(status)])
        while not (folder / "port").exists():
            assert self.process.poll() is None
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{(folder / 'port').read_text()}"

    @property
    def requests(self) -> list[Mapping[str, str]]:
        path = self.folder / "requests"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def files(self) -> list[str]:
        """The names of the uploaded files, in order."""
        return [request["file"] for request in self.requests]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def upload_server(folder: Path, **status: int) -> Iterator[UploadServer]:
    """Answers with a status for files whose names have a part.

    0 is no answer, ``index`` is for what it has not.
    What is taken is listed at once, or after ``later`` requests.
    """
    server = UploadServer(folder, status)
    try:
        yield server
    finally:
        server.stop()


def enlist(channel: Path, name: str, content: bytes) -> None:
    """Adds a package to a channel, and its record to the index."""
    from ctk.channel.repodata import FILES, ChannelIndex, read_index, write_index
    from ctk.core.platforms import NOARCH, PLATFORMS
    from ctk.package.reader import record_of

    channel.mkdir(parents=True, exist_ok=True)
    (file := channel.parent / name).write_bytes(content)
    record = record_of(file)
    records = {**read_index(channel).records, f"{record['subdir']}/{name}": record}
    for subdir in (*PLATFORMS, NOARCH):
        write_index(ChannelIndex(records), channel, subdir, FILES)
    file.rename(channel / record["subdir"] / name)


def main(folder: Path, status: Mapping[str, int]) -> None:
    """Writes its port and each request to the folder."""
    taken: list[tuple[Path, str, bytes]] = []
    asked = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found = re.search(rb'filename="([^"]+)"|x-file-name: (\S+)', body, re.IGNORECASE)
            name = (found[1] or found[2]).decode() if found else ""
            with (folder / "requests").open("a") as file:
                note = {"path": self.path, "file": name, "key": self.headers["Authorization"]}
                file.write(json.dumps(note) + "\n")
            code = next((code for part, code in status.items() if part in name), 201)
            if not code:
                time.sleep(3600)
            package = body.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
            if code == 201 and zipfile.is_zipfile(io.BytesIO(package)):
                taken.append((folder / "published" / self.path.rpartition("/")[2], name, package))
                asked[0] = 0
            self.send_response(code)
            self.end_headers()

        def do_GET(self) -> None:
            asked[0] += 1
            while taken and asked[0] > status.get("later", 0):
                enlist(*taken.pop())
            file = folder / "published" / self.path.lstrip("/")
            content = file.read_bytes() if file.is_file() else b""
            self.send_response(200 if content else status.get("index", 404))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                with suppress(
                    ConnectionError
                ):  # a client that reads several files hangs up when one is wrong
                    self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    (folder / "port.new").write_text(str(server.server_port))
    (folder / "port.new").rename(folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
