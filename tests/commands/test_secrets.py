"""What was typed with an address is shown by no command, in no file: users, passwords and tokens."""

from __future__ import annotations

import base64
import http.server
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.main
from packs import checkout
from tiny_packages import application, pure, tiny

from conftest import ctk
from ctk.cli import options
from ctk.cli.main import app
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError, without_credentials
from ctk.core.platforms import this_platform

pytestmark = pytest.mark.skipif(this_platform() != "linux-64", reason="the tiny packages are for linux-64")

USER, PASSWORD, TOKEN = "somebody", "pass@word", "tk-12ab-34cd"
FORMS = {
    "password": f"http://{USER}:pass%40word@{{host}}/{{path}}",
    "password with @": f"http://{USER}:{PASSWORD}@{{host}}/{{path}}",
    "token": f"http://{{host}}/t/{TOKEN}/{{path}}",
}
SECRETS = [text.encode() for text in (PASSWORD, "pass%40word", "word@", TOKEN, f"{USER}:")]


class Closed(http.server.SimpleHTTPRequestHandler):
    """Hands out a folder to who has the password, or the token."""

    def do_GET(self) -> None:
        basic = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        if self.path.startswith(f"/t/{TOKEN}/"):
            self.path = self.path.removeprefix(f"/t/{TOKEN}")
        elif self.headers.get("Authorization") != basic:
            self.send_error(401)
            return
        super().do_GET()

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return checkout(tmp_path_factory.mktemp("c"), application(), pure(), tiny("other", files={"share/other": b"x"}))


@pytest.fixture(scope="module")
def host(where: Workspace) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Closed, directory=str(where.root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def shown(folder: Path, *texts: str) -> list[str]:
    """Where a secret is, of what was printed and of all files below a folder."""
    files = {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}
    contents = {**files, **{f"output {i}": text.encode() for i, text in enumerate(texts)}}
    return [f"{place}: {secret!r}" for place, content in contents.items() for secret in SECRETS if secret in content]


@pytest.mark.parametrize("json", [False, True], ids=["words", "json"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("words", "works"),
    [
        (("solve", "other", "--base", "BASE"), True),
        (("solve", "no-such-package", "--base", "BASE"), False),
        (("env", "create", "application", "--prefix", "ENV", "--base", "BASE"), True),
        (("env", "pack", "application", "-o", "PACK", "--base", "BASE"), True),
        (("channel", "check", "CHANNEL"), None),
        (("channel", "check", "--published", "CHANNEL", "--url", "CHANNEL"), None),
        (("publish", "--server", "SERVER", "--channel", "output/channel"), False),
        (("publish", "--server", "SERVER", "--channel", "no-such-channel"), False),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_no_command_shows_or_writes_them(
    words: tuple[str, ...], works: bool | None, form: str, json: bool, where: Workspace, host: str, tmp_path: Path
) -> None:
    def address(path: str) -> str:
        return FORMS[form].format(host=host, path=path)

    places = {"BASE": address("base"), "CHANNEL": address("output/channel"), "SERVER": address("").rstrip("/")}
    places |= {"ENV": str(tmp_path / "env"), "PACK": str(tmp_path / "p.run")}
    done = ctk(where, *(places.get(word, word) for word in words), *(["--json"] if json else []))
    assert "Traceback" not in done.stderr
    if works is not None:
        assert (done.returncode == 0) is works, done.stderr
    assert shown(tmp_path, done.stdout, done.stderr) == []
    assert shown(where.cache) == []


def _options(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _options(below, (*names, name))
    for parameter in command.params:
        yield " ".join((*names, parameter.name)), parameter


def test_every_option_that_takes_an_address_takes_its_secrets_off() -> None:
    found = dict(_options(typer.main.get_command(app)))
    takes = {name for name, p in found.items() if re.search("URL|address", getattr(p, "help", None) or "")}
    takes -= {"channel check identity", "channel check issuer"}  # who signed: a name, though it looks like one
    takes -= {"build store"}  # of fsspec, which workers are given whole: `ctk.build.cluster` has a type for it
    assert {"solve base", "channel check channel", "publish server", "site build url", "installable channel"} <= takes
    typed = FORMS["token"].format(host="example.org", path="channel")
    for name in takes:
        assert found[name].callback, f"{name} has no callback: `options.address`"
    assert options.address(typed) == "http://example.org/channel" == options.address([typed])[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_message_of_another_program_is_shown_without(form: str) -> None:
    text = f"error for url ({FORMS[form].format(host='example.org', path='x')}): refused"
    error = CtkError(text, text)
    for said in (without_credentials(text), error.cause, error.step, str(error)):
        assert shown(Path("/nonexistent"), said) == [] and "example.org" in said
