"""Takes uploads as prefix.dev does: ``upload_server.py FOLDER [PART=STATUS]`` writes its port and each request there.

Status 0 is no answer, for an hour. What it has to read is in FOLDER/published, as a channel of that name.

In a process of its own: an upload keeps the interpreter to itself until it is answered.
"""

from __future__ import annotations

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

folder = Path(sys.argv[1])
status = {name: int(code) for name, _, code in (word.partition("=") for word in sys.argv[2:])}


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
        self.send_response(code)
        self.end_headers()

    def do_GET(self) -> None:
        file = folder / "published" / self.path.lstrip("/")
        content = file.read_bytes() if file.is_file() else b""
        self.send_response(200 if content else status.get("index", 404))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
(folder / "port.new").write_text(str(server.server_port))
(folder / "port.new").rename(folder / "port")
server.serve_forever()
