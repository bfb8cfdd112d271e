"""moto's S3 over HTTP, in a process of its own, behind a proxy that fails as it is told.

The proxy is the endpoint: it notes each request, and answers itself where a fault is set. moto
answers the others, so that what a store says of lists, ETags and conditions is not ours.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3

from kit.threads import running

LOGIN = {
    "AWS_ACCESS_KEY_ID": "the-key-of-tests",
    "AWS_SECRET_ACCESS_KEY": "the-secret-of-tests-1",
    "AWS_SESSION_TOKEN": "the-session-of-tests-1",
    "AWS_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # with its query
    headers: dict[str, str]  # names are in small letters

    @property
    def key(self) -> str:
        """The key of the object below BUCKET/PREFIX; empty for a list."""
        return self.path.partition("?")[0].partition("/channels/cuda/")[2]


@dataclass(frozen=True)
class Fault:
    """An answer in place of the store's; without a status the connection is cut."""

    on: Callable[[Request], bool]
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1_000_000
    code: str = "Fault"


@dataclass
class Store:
    """The endpoint of tests; what it was asked is in `requests`."""

    url: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    port: int = 0  # of moto, behind the endpoint

    @cached_property
    def _client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.url, region_name="us-east-1")

    def client(self) -> Any:
        return self._client

    def fill(self, keys: Iterable[str]) -> None:
        """Puts many empty objects past the endpoint, which is faster."""
        login = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"  # names S3
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        for key in keys:
            connection.request("PUT", f"/channels/{key}", b"", {"Authorization": login})
            connection.getresponse().read()
        connection.close()

    def fault(self, request: Request) -> Fault | None:
        """The fault for a request; one that has come as often as it should is gone."""
        for number, fault in enumerate(self.faults):
            if fault.on(request):
                self.faults[number] = Fault(
                    fault.on, fault.status, fault.headers, fault.times - 1, fault.code
                )
                return fault if fault.times > 0 else None
        return None

    def puts(self) -> list[str]:
        return [request.key for request in self.requests if request.method == "PUT"]


def _moto() -> tuple[subprocess.Popen[str], int]:
    program = (
        "from moto.server import DomainDispatcherApplication, create_backend_app\n"
        "from werkzeug.serving import make_server\n"
        "app = DomainDispatcherApplication(create_backend_app)\n"
        "server = make_server('127.0.0.1', 0, app, threaded=True)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _handler(store: Store, port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_expect_100(self) -> bool:
            return True  # as if each body were welcome: the fault comes after it

        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if headers.get("expect") == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            request = Request(self.command, self.path, headers)
            store.requests.append(request)
            fault = store.fault(request)
            if fault:
                self.fail(fault)
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port)
            upstream.request(self.command, self.path, body, {**headers, "expect": ""})
            response = upstream.getresponse()
            content = response.read()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            if not response.getheader("content-length"):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def fail(self, fault: Fault) -> None:
            self.close_connection = True
            if not fault.status:
                return
            text = f"<Error><Code>{fault.code}</Code><Message>told to</Message></Error>".encode()
            self.send_response(fault.status)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def serving() -> Iterator[Store]:
    process, port = _moto()
    store = Store("", port=port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store, port))
    store.url = f"http://127.0.0.1:{server.server_port}"
    try:
        with running(server):
            yield store
    finally:
        process.kill()
        process.communicate()
