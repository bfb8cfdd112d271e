"""What was typed with an address is shown by no command, in no file: users, passwords and tokens."""

from __future__ import annotations

import base64
import http.server
import io
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main
from rattler.package_streaming import extract
from rich.console import Console

from conftest import ROOT, ctk
from ctk.cli.main import app
from ctk.cli.options import VERBATIM
from ctk.core import console
from ctk.core.address import real, take
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, CtkError, without_credentials
from ctk.core.platforms import this_platform
from kit.packs import checkout
from kit.tiny_packages import application, pure, tiny

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
    more = (tiny("other", files={"share/other": b"x"}), tiny("cuda-version", version="13.4"))
    made = checkout(tmp_path_factory.mktemp("c"), application(), pure(), *more)
    shutil.copytree(ROOT / "variants", made.variants, dirs_exist_ok=True)
    for name in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, made.root / name)
    recipe = {"package": {"name": "one", "version": "1"}, "build": {"noarch": "generic", "script": ["env"]}}
    (made.root / "one").mkdir()
    (made.root / "one/recipe.yaml").write_text(json.dumps({**recipe, "requirements": {"run": ["pure"]}}))
    return made


@pytest.fixture(scope="module")
def host(where: Workspace) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Closed, directory=str(where.root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def shown(folder: Path, *texts: str) -> list[str]:
    """Where a secret is, of what was printed and of all files below a folder, packages unpacked."""
    for package in folder.rglob("*.conda"):
        if not (unpacked := package.with_suffix(".unpacked")).exists():
            extract(package, unpacked)
    files = {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}
    contents = {**files, **{f"output {i}": text.encode() for i, text in enumerate(texts)}}
    return [f"{place}: {secret!r}" for place, content in contents.items() for secret in SECRETS if secret in content]


@pytest.mark.skipif(
    this_platform() != "linux-64",
    reason="the tiny packages are for linux-64; the tests below hold on every platform that no word keeps a secret",
)
@pytest.mark.parametrize(("form", "json"), [("password with @", False), ("token", True)], ids=["words", "json"])
@pytest.mark.parametrize(
    ("words", "works"),
    [
        (("solve", "no-such-package", "--base", "BASE"), False),
        (("solve", "other", "--drivers", "13.0", "--channel", "CHANNEL", "--base", "BASE"), True),
        (("env", "create", "application", "--prefix", "ENV", "--base", "BASE"), True),
        (("env", "pack", "application", "-o", "PACK", "--base", "BASE"), True),
        (("env", "create", "other[channel=CHANNEL]", "--prefix", "ENV", "--base", "BASE"), False),
        (("build-recipe", "RECIPE", "--base", "BASE", "--channel", "CHANNEL", "--output", "OUT"), True),
        (("site", "OUT", "--base", "BASE", "--url", "CHANNEL", "--package", "other"), True),
        (("check", "--published", "<CHANNEL>"), False),
        (("check", "--published", "CHANNEL", "--url", "CHANNEL"), None),
        (("publish", "--server", "SERVER", "--channel", "output/channel"), False),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_no_command_shows_or_writes_them(
    words: tuple[str, ...], works: bool | None, form: str, json: bool, where: Workspace, host: str, tmp_path: Path
) -> None:
    def address(path: str) -> str:
        return FORMS[form].format(host=host, path=path)

    places = {"BASE": address("base"), "CHANNEL": address("output/channel"), "SERVER": address("").rstrip("/")}
    places |= {"ENV": str(tmp_path / "env"), "PACK": str(tmp_path / "p.run"), "OUT": str(tmp_path / "out")}
    places["RECIPE"] = str(where.root / "one")
    typed = [re.sub("[A-Z]{3,}", lambda name: places[name[0]], word) for word in words]
    around = dict.fromkeys(("PIP_EXTRA_INDEX_URL", "PIP_PROXY", "https_proxy"), f"http://{USER}:{PASSWORD}@127.0.0.1:9")
    done = ctk(where, *typed, "--json" if json else "--debug", **around)
    assert json is False or "Traceback" not in done.stderr
    if works is not None:
        assert (done.returncode == 0) is works, done.stderr
    assert shown(tmp_path, done.stdout, done.stderr) == []
    assert shown(where.cache) == []


def _commands(command: Any) -> Iterator[Any]:
    for name in getattr(command, "commands", {}):
        yield from _commands(command.commands[name])
    if not hasattr(command, "commands"):
        yield command


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctk.core.address._known", {})
    monkeypatch.setattr("ctk.core.address._logins", {})
    monkeypatch.setenv("RATTLER_AUTH_FILE", "/nonexistent")


@pytest.mark.usefixtures("alone")
def test_every_command_gets_its_words_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = FORMS["token"].format(host="example.org", path="channel")
    words: dict[str, Any] = {}
    monkeypatch.setattr(typer.core.TyperCommand, "parse_args", lambda self, ctx, args: ctx.params.update(words) or [])
    for command in _commands(typer.main.get_command(app)):
        own = [p for p in command.params if p.metavar != VERBATIM]
        words = {p.name: [typed] if p.nargs == -1 or getattr(p, "multiple", False) else typed for p in own}
        command.parse_args(context := command.context_class(command, info_name="x"), [])
        assert context.params.keys() == words.keys() and TOKEN not in str(context.params), command.name


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "typed",
    [
        "https://u:ses/ame@h/ch",
        "https://u:p@ses/ame@h/ch",
        "https://u:p sesame@h/ch",
        "x[channel=https://u:p sesame@h/ch]",
        "u:sesame@h/ch",
        "https://u:sesame@h/t/tk/ch",
        "https://h/x/t/tk/ch",
        "https://u:sesame@known/ch",
    ],
)
def test_an_address_with_a_secret_that_rattler_cannot_have_is_refused(typed: str) -> None:
    take("https://u:other@known/ch")
    with pytest.raises(BadValue) as refused:
        take(typed)
    assert not re.search("ses|tk|other/|other@", refused.value.cause) and refused.value.step


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("typed", "shown", "login"),
    [
        ("https://u:p%40w@h:81/ch", "https://h:81/ch", {"h": {"BasicHTTP": {"username": "u", "password": "p@w"}}}),
        ("http://u:@w@[::1]:8/c", "http://[::1]:8/c", {"[::1]": {"BasicHTTP": {"username": "u", "password": "@w"}}}),
        ("x[channel=https://h/t/tk/c]", "x[channel=https://h/c]", {"h": {"CondaToken": "tk"}}),
        ("https://H/t/tk/ch/?a=b", "https://H/ch/", {"h": {"CondaToken": "tk"}}),
        ("https://h/ch?token=tk", "https://h/ch", None),
        ("s3://bucket/ch?key=tk", "s3://bucket/ch", None),
        ("https://h/o/r/x.yml@refs/heads/main", "https://h/o/r/x.yml@refs/heads/main", None),
        ("x[url=https://h/c?sig=tk]", "x[url=https://h/c]", None),
        ("file:///a/t/x/u:v@w?y", "file:///a/t/x/u:v@w?y", None),
        ("conda-forge", "conda-forge", None),
    ],
)
def test_what_is_shown_and_what_rattler_gets(typed: str, shown: str, login: dict[str, Any] | None) -> None:
    assert take(typed) == shown
    if login:
        assert json.loads(Path(os.environ["RATTLER_AUTH_FILE"]).read_bytes()) == login
        assert real(shown[shown.index("http") :]) == typed[typed.index("http") :].partition("?")[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_message_of_another_program_is_shown_without(form: str) -> None:
    text = f"error for url ({FORMS[form].format(host='example.org', path='x')}): refused"
    error = CtkError(text, text)
    for said in (without_credentials(text), error.cause, error.step, str(error)):
        assert shown(Path("/nonexistent"), said) == [] and "example.org" in said


def test_a_terminal_folds_what_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"of http://{USER}:{PASSWORD}@example.org/{'x' * 30}"
    shown_on = io.StringIO()
    terminal = Console(file=shown_on, width=24, force_terminal=True)
    monkeypatch.setattr(shown_on, "isatty", lambda: True)
    console._write(terminal, text)
    terminal.print(console.table_of(["a"], [[text]]))
    assert not re.search("pass|word@", shown_on.getvalue())
