"""Users, passwords and tokens of addresses: refused where they are typed, and shown by no command,
in no file.
"""

from __future__ import annotations

import base64
import http.server
import io
import json
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
from ctk.core.address import refuse_secrets
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
    recipe = {
        "package": {"name": "one", "version": "1"},
        "build": {"noarch": "generic", "script": ["env"]},
    }
    (made.root / "one").mkdir()
    (made.root / "one/recipe.yaml").write_text(
        json.dumps({**recipe, "requirements": {"run": ["pure"]}})
    )
    return made


@pytest.fixture(scope="module")
def host(where: Workspace) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Closed, directory=str(where.root))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def shown(folder: Path, *texts: str) -> list[str]:
    """Where a secret is, of what was printed and of all files below a folder, packages unpacked."""
    for package in folder.rglob("*.conda"):
        if not (unpacked := package.with_suffix(".unpacked")).exists():
            extract(package, unpacked)
    files = {
        str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()
    }
    contents = {**files, **{f"output {i}": text.encode() for i, text in enumerate(texts)}}
    return [
        f"{place}: {secret!r}"
        for place, content in contents.items()
        for secret in SECRETS
        if secret in content
    ]


LINUX_64 = pytest.mark.skipif(
    this_platform() != "linux-64",
    reason=(
        "the tiny packages are for linux-64; the tests below hold on every platform that no word"
        " keeps a secret"
    ),
)


@LINUX_64
def test_a_login_of_the_auth_file_is_used_and_shown_nowhere(
    where: Workspace, host: str, tmp_path: Path
) -> None:
    auth = tmp_path / "auth.json"
    auth.write_text(
        json.dumps({"127.0.0.1": {"BasicHTTP": {"username": USER, "password": PASSWORD}}})
    )
    around = dict.fromkeys(
        ("PIP_EXTRA_INDEX_URL", "PIP_PROXY", "https_proxy"), f"http://{USER}:{PASSWORD}@127.0.0.1:9"
    )
    around["RATTLER_AUTH_FILE"] = str(auth)
    words = (
        "env",
        "create",
        "application",
        "--prefix",
        str(tmp_path / "made" / "env"),
        "--base",
        f"http://{host}/base",
    )
    done = ctk(where, *words, "--debug", check=True, **around)
    assert shown(tmp_path / "made", done.stdout, done.stderr) == []
    assert shown(where.cache) == []


@LINUX_64
@pytest.mark.parametrize(
    "login",
    [
        {"127.0.0.1": {"BasicHTTP": {"username": USER, "password": PASSWORD}}},
        {"*.0.0.1": {"CondaToken": TOKEN}},
        {"*.example.org": {"BearerToken": "another's"}},
    ],
)
def test_a_channel_is_checked_with_the_login_and_without_it_the_error_says_where_it_goes(
    where: Workspace, host: str, tmp_path: Path, login: dict[str, Any]
) -> None:
    (tmp_path / "auth.json").write_text(json.dumps(login))
    words = ("check", f"http://{host}/output/channel", "--json")
    done = ctk(where, *words, RATTLER_AUTH_FILE=str(tmp_path / "auth.json"))
    assert shown(where.cache, done.stdout, done.stderr) == []
    said = json.loads(done.stdout)
    if "*.example.org" in login:
        assert "401" in said["error"]["cause"] and "RATTLER_AUTH_FILE" in said["error"]["next"]
    else:
        assert said["packages"] == 4  # what is wrong with tiny packages is not the question here


def _commands(command: Any) -> Iterator[Any]:
    for name in getattr(command, "commands", {}):
        yield from _commands(command.commands[name])
    if not hasattr(command, "commands"):
        yield command


def test_every_command_refuses_a_secret_in_any_of_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed = FORMS["token"].format(host="example.org", path="channel")
    words: dict[str, Any] = {}
    # Another test of this process may have left options of the output.
    monkeypatch.setattr(console, "_mode", console.Mode())
    monkeypatch.setattr(
        typer.core.TyperCommand,
        "parse_args",
        lambda self, ctx, args: ctx.params.update(words) or [],
    )
    for command in _commands(typer.main.get_command(app)):
        for param in command.params:
            words = {
                param.name: (
                    [typed] if param.nargs == -1 or getattr(param, "multiple", False) else typed
                )
            }
            context = command.context_class(command, info_name="x")
            if param.metavar == VERBATIM:
                command.parse_args(context, [])
                continue
            with pytest.raises(BadValue) as refused:
                command.parse_args(context, [])
            assert TOKEN not in str(refused.value) and "RATTLER_AUTH_FILE" in refused.value.step


@pytest.mark.parametrize(
    "typed",
    [
        *(form.format(host="h:81", path="ch") for form in FORMS.values()),
        "https://u:ses/ame@h/ch",
        "https://u:p sesame@h/ch",
        "x[channel=https://u:p@h/ch]",
        "https://h/x/t/tk/ch",
        "https://h/ch?token=tk",
        "x[url=https://h/c?sig=tk]",
    ],
)
def test_an_address_with_a_secret_is_refused(typed: str) -> None:
    with pytest.raises(BadValue) as refused:
        refuse_secrets(typed)
    assert refused.value.cause == "an address has a password or a token in it"


@pytest.mark.parametrize(
    "typed",
    [
        "https://h/o/r/x.yml@refs/heads/main",
        "file:///a/t/x/u:v@w?y",
        "https://h:81/ch",
        "http://[::1]:8/c",
        "conda-forge",
    ],
)
def test_an_address_without_a_secret_is_taken(typed: str) -> None:
    refuse_secrets(typed)


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
