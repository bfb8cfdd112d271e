"""A server that answers uploads as Quetz, Artifactory, anaconda.org, Cloudsmith and prefix.dev do.

Paths, statuses and bodies, also of what each refuses, are those of:

- Quetz: `post_upload` in quetz/main.py, and quetz/authorization.py (mamba-org/quetz, 2024-04-26).
- Artifactory: "Deploy Artifact" and "Error Responses" of the JFrog REST APIs.
- anaconda.org: binstar_client/__init__.py and tests/test_upload.py (anaconda/anaconda-client,
  2026-07-22), which want 201 of the store, and read ``error`` of a refusal.
- Cloudsmith: src/content/schemas/api-schema-v1.json and src/content/api/error-handling.mdx
  (cloudsmith-io/cloudsmith-docs, 2026-05-19).
- prefix.dev: "API" of its docs for the path. It states no status; 409 is in prefix-dev#59, and the
  others are those that rattler_upload tells apart.
- The stores of anaconda.org and Cloudsmith: "POST Object" and "Error Responses" of Amazon's S3.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kit.threads import running

Answer = tuple[int, Any]
"""A status, and what is sent as JSON; a text is sent as it is."""


TOLD = "told to by the test"
"""The reason of a refusal that a test wants."""


@dataclass(frozen=True)
class Sent:
    """A request."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body or b"{}")
        return content


@dataclass
class ProtocolServer:
    """The running server. With a `status` it refuses the requests whose path begins with `at`."""

    port: int = 0
    status: int = 0
    at: str = ""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path without its query, and the login."""
    there: set[str] = field(default_factory=set)
    """Paths of packages, releases and files that it has."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, sent: Sent) -> Answer:
        if self.status and sent.path.startswith(self.at):
            return self.status, _refusal(sent.path, self.status)
        for pattern, method, reply in _REPLIES:
            if sent.method == method and re.fullmatch(pattern, sent.path):
                return reply(self, sent)
        return 404, _refusal(sent.path, 404)


def _refusal(path: str, status: int) -> Any:
    """The body of a refusal, by the server whose path it is."""
    if path.startswith("/content"):
        return f"<Error><Code>{status}</Code><Message>{TOLD}</Message></Error>"
    if path.startswith("/api/channels/"):
        return {"detail": TOLD}
    if re.match("/(files|packages)/", path):
        fields = {"fields": {"package_file": [TOLD]}} if status == 422 else {}
        return {"detail": TOLD, **fields}
    if re.match("/(package|release|stage|commit)/", path):
        return {"error": TOLD}
    if path.startswith("/api/v1/upload/"):
        return TOLD
    return {"errors": [{"status": status, "message": TOLD}]}


def _to_quetz(server: ProtocolServer, sent: Sent) -> Answer:
    if hashlib.sha256(sent.body).hexdigest() != sent.query["sha256"][0]:
        return 406, {"detail": "Wrong SHA256 checksum"}
    if sent.path in server.there:
        return 409, {"detail": "Duplicate"}
    server.there.add(sent.path)
    return 201, None


def _to_artifactory(server: ProtocolServer, sent: Sent) -> Answer:
    _, repository, *path = sent.path.split("/")
    sums = {name: getattr(hashlib, name)(sent.body).hexdigest() for name in ("sha1", "md5")}
    return 201, {
        "repo": repository,
        "path": "/" + "/".join(path),
        "created": "2026-11-30T00:00:00.000Z",
        "createdBy": "ci",
        "downloadUri": f"{server.url}{sent.path}",
        "mimeType": "application/octet-stream",
        "size": str(len(sent.body)),
        "checksums": sums,
        "originalChecksums": sums,
        "uri": f"{server.url}{sent.path}",
    }


def _to_prefix(server: ProtocolServer, sent: Sent) -> Answer:
    name = re.search(rb'filename="([^"]+)"', sent.body)
    file = f"{sent.path}/{name[1].decode() if name else ''}"
    if file in server.there:
        return 409, "the package is there"
    server.there.add(file)
    return 201, ""


# anaconda.org


def _known(server: ProtocolServer, sent: Sent) -> Answer:
    if sent.path in server.there:
        return 200, {"package_types": ["conda"]}
    return 404, {"error": f"{sent.path} could not be found"}


def _made(server: ProtocolServer, sent: Sent) -> Answer:
    server.there.add(sent.path)
    return 200, {"package_types": ["conda"]}


def _stage(server: ProtocolServer, sent: Sent) -> Answer:
    if sent.path.replace("/stage/", "/commit/") in server.there:
        return 409, {"error": "file already exists"}
    form = {"key": "a-key", "policy": "a-policy"}
    return 200, {"post_url": f"{server.url}/content", "form_data": form, "dist_id": "d"}


def _commit(server: ProtocolServer, sent: Sent) -> Answer:
    server.there.add(sent.path)
    return 200, {"dist_id": sent.json["dist_id"]}


def _to_store(_: ProtocolServer, sent: Sent) -> Answer:
    is_whole = b'name="key"' in sent.body and b'name="file"' in sent.body
    return (
        (201, "<PostResponse/>") if is_whole else (400, "<Error><Code>MalformedPOST</Code></Error>")
    )


# Cloudsmith


def _slot(server: ProtocolServer, sent: Sent) -> Answer:
    if not sent.json.get("filename"):
        return 422, {
            "detail": "Invalid input.",
            "fields": {"filename": ["This field is required."]},
        }
    if sent.json["method"] == "put_parts":
        return 202, {
            "identifier": "parts",
            "upload_url": f"{server.url}/parts",
            "upload_fields": {},
        }
    form = {"key": "a-key", "policy": "a-policy"}
    return 202, {"identifier": "f", "upload_url": f"{server.url}/content", "upload_fields": form}


def _package(_: ProtocolServer, sent: Sent) -> Answer:
    if sent.json.get("package_file") not in ("f", "parts"):
        return 422, {"detail": "Invalid input.", "fields": {"package_file": ["It is not a file."]}}
    return 201, {"slug_perm": "s", "slug": "s", "is_sync_completed": False}


_REPLIES: list[tuple[str, str, Callable[[ProtocolServer, Sent], Answer]]] = [
    (r"/api/v1/upload/[^/]+", "POST", _to_prefix),
    (r"/api/channels/[^/]+/upload/[^/]+", "POST", _to_quetz),
    (r"/package/[^/]+/[^/]+|/release/[^/]+/[^/]+/[^/]+", "GET", _known),
    (r"/package/[^/]+/[^/]+|/release/[^/]+/[^/]+/[^/]+", "POST", _made),
    (r"/package/[^/]+/[^/]+|/release/[^/]+/[^/]+/[^/]+", "PATCH", _known),
    (r"/stage/[^/]+/[^/]+/[^/]+/[^/]+/[^/]+", "POST", _stage),
    (r"/commit/[^/]+/[^/]+/[^/]+/[^/]+/[^/]+", "POST", _commit),
    (r"/content", "POST", _to_store),
    (r"/files/[^/]+/[^/]+/", "POST", _slot),
    (r"/parts", "PUT", lambda server, sent: (200, "")),
    (r"/files/[^/]+/[^/]+/[^/]+/complete/", "POST", lambda server, sent: (201, {})),
    (r"/packages/[^/]+/[^/]+/upload/conda/", "POST", _package),
    (r"/[^/]+/[^/]+/[^/]+\.conda", "PUT", _to_artifactory),
]


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if length := handler.headers.get("Content-Length"):
        return handler.rfile.read(int(length))
    parts = []
    chunked = "chunked" in handler.headers.get("Transfer-Encoding", "")
    while chunked:
        size = int(handler.rfile.readline(), 16)
        parts.append(handler.rfile.read(size))
        handler.rfile.readline()
        chunked = size > 0
    return b"".join(parts)


@contextmanager
def protocol_server() -> Iterator[ProtocolServer]:
    state = ProtocolServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            address = urlsplit(self.path)
            sent = Sent(self.command, address.path, parse_qs(address.query), _body(self))
            login = self.headers.get("X-API-Key") or self.headers.get("Authorization") or ""
            state.requests.append((sent.method, sent.path, login))
            status, content = state.answer(sent)
            text = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            is_xml = text.startswith(b"<")
            self.send_header("Content-Type", "application/xml" if is_xml else "application/json")
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
