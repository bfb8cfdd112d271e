"""A server that answers uploads as Quetz, Artifactory, anaconda.org, Cloudsmith and prefix.dev do.

What it answers is what rattler-build goes on at; what it was sent is in `requests`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kit.threads import running


@dataclass
class ProtocolServer:
    """The running server; with a `status` it answers that, and nothing else."""

    port: int = 0
    status: int = 0
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path without its query, and the login."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str) -> dict[str, Any]:
        if path.startswith("/stage/"):  # anaconda.org: where the content goes
            return {"post_url": f"{self.url}/content", "form_data": {"key": "k"}, "dist_id": "d"}
        if path.startswith("/files/"):  # Cloudsmith: the same
            return {"identifier": "f", "upload_url": f"{self.url}/content", "upload_fields": {}}
        return {"slug_perm": "s", "slug": "s"}  # Cloudsmith: the package


def _body(handler: BaseHTTPRequestHandler) -> None:
    if length := handler.headers.get("Content-Length"):
        handler.rfile.read(int(length))
        return
    chunked = "chunked" in handler.headers.get("Transfer-Encoding", "")
    while chunked:
        size = int(handler.rfile.readline(), 16)
        handler.rfile.read(size)
        handler.rfile.readline()
        chunked = size > 0


@contextmanager
def protocol_server() -> Iterator[ProtocolServer]:
    state = ProtocolServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            _body(self)
            login = self.headers.get("X-API-Key") or self.headers.get("Authorization") or ""
            path = self.path.partition("?")[0]
            state.requests.append((self.command, path, login))
            text = json.dumps({"error": "told to"} if state.status else state.answer(path)).encode()
            self.send_response(state.status or 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_PATCH = reply

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    with running(server):
        yield state
