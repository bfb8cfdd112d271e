"""No command shows a secret that it reads: each is run with one in every place that has one.

The commands are those of the program, with their own examples, so that a new command is among them.
What is asked answers with all that it was sent, in the status line, the headers and the content:
errors quote such answers.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import typer.main
from rattler.package_streaming import extract

from conftest import ROOT, ctk
from ctk.cli.main import app
from ctk.core.checkout import Workspace
from kit.packs import checkout
from kit.tiny_packages import application, pure, tiny

RECIPES = ("common", "cuda-core", "cuda-nvtx", "cuda-version")
USER = "somebody"
SECRETS = {
    "PIP_INDEX_URL": "ix-Index/W0rd",
    "PIP_EXTRA_INDEX_URL": "xt-Extra+W0rd",
    "PIP_FIND_LINKS": "fl-Links=W0rd",
    "pip.conf": "pc-Conf&W0rd",
    "ALL_PROXY": "px-Proxy@W0rd",
    "RATTLER_AUTH_FILE": "au-Auth:W0rd",
    "credentials.json": "cr-Creds-W0rd",
    "NETRC": "nr-Netrc-W0rd",
    "query": "qu-Query-W0rd",
    "GITHUB_TOKEN": "ghp-0123456789abcdef",
    "PREFIX_API_KEY": "pfx-0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "aws/0123456789+abcdef",
    "typed": "ty-Typed-W0rd",
}
"""Where a secret is -> the secret.

Each is another one, so that a failure says where it came from.
"""


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was sent; to who sends no login, that one is needed."""

    def do_GET(self) -> None:
        sent = f"{self.path} {' '.join(self.headers.values())}"
        status = (
            200
            if self.path.endswith((".json", ".html", "/")) and "Authorization" in self.headers
            else 401
        )
        self.send_response(status, f"you sent {sent}"[:500])
        self.send_header(
            "WWW-Authenticate", f'Basic realm="{self.headers.get("Authorization", "")}"'
        )
        content = f"<a {sent}".encode()
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_POST = do_PUT = do_CONNECT = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A checkout with a few recipes and all locks, and a tiny channel.

    Nothing of it is built or fetched.
    """
    root = tmp_path_factory.mktemp("secrets") / "checkout"
    made = checkout(
        root, application(), pure(), tiny("cuda-core"), tiny("cuda-version", version="13.4")
    )
    (root / "recipes").mkdir()
    for name in RECIPES:
        (root / "recipes" / name).symlink_to(ROOT / "recipes" / name)
    for name in ("variants", "examples", "docs"):  # copies: commands write into them
        shutil.copytree(ROOT / name, root / name)
    for name in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copyfile(ROOT / name, root / name)
    package = {"name": "telling", "version": "1"}
    # Its password alone has no form of an address.
    script = ["env", "echo ${HTTPS_PROXY#*:*:}", "exit 1"]
    recipe = {"package": package, "build": {"noarch": "generic", "script": script}}
    (root / "telling").mkdir()
    (root / "telling/recipe.yaml").write_text(json.dumps(recipe))
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, host: str) -> Path:
    """A home with files of logins, which no command writes."""
    folder = tmp_path_factory.mktemp("home")
    basic = {"BasicHTTP": {"username": USER, "password": SECRETS["RATTLER_AUTH_FILE"]}}
    (folder / "auth.json").write_text(json.dumps({"127.0.0.1": basic}))
    (folder / ".rattler").mkdir()
    token = {"*.example.org": {"CondaToken": SECRETS["credentials.json"]}}
    (folder / ".rattler/credentials.json").write_text(json.dumps(token))
    (folder / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {SECRETS['NETRC']}\n")
    login = f"{USER}:{quote(SECRETS['pip.conf'], safe='')}"
    (folder / "pip.conf").write_text(f"[global]\nextra-index-url = http://{login}@{host}/conf\n")
    return folder


def readable(host: str, home: Path) -> dict[str, str]:
    """Settings as their programs want them."""

    def login(name: str) -> str:
        return f"{USER}:{quote(SECRETS[name], safe='')}@{host}"

    key = SECRETS["query"]
    return {
        "HOME": str(home),
        "NETRC": str(home / ".netrc"),
        "PIP_CONFIG_FILE": str(home / "pip.conf"),
        "PIP_INDEX_URL": f"http://{login('PIP_INDEX_URL')}/simple",
        "PIP_EXTRA_INDEX_URL": (
            f"http://{host}/t;token={key}/simple http://{login('PIP_EXTRA_INDEX_URL')}/s?key={key}"
        ),
        "PIP_FIND_LINKS": f"HTTP://{login('PIP_FIND_LINKS')}/links.html#access_token={key}",
        "PIP_RETRIES": "0",
        **dict.fromkeys(
            ("ALL_PROXY", "HTTPS_PROXY", "https_proxy"), f"http://{login('ALL_PROXY')}"
        ),
        "NO_PROXY": "127.0.0.1",
        "RATTLER_AUTH_FILE": str(home / "auth.json"),
        **{
            name: SECRETS[name]
            for name in ("GITHUB_TOKEN", "PREFIX_API_KEY", "AWS_SECRET_ACCESS_KEY")
        },
    }


UNREADABLE = {
    "PIP_INDEX_URL": "{user}:{secret}@{host}/simple",
    "PIP_EXTRA_INDEX_URL": (
        "https:{user}:{secret}@{host} //{user}:{secret}@{host}/simple {user}@{host}:{secret}"
    ),
    "PIP_FIND_LINKS": "HTTPS:/{user}:{secret}@{host}/links",
    "ALL_PROXY": "http://{user}:{secret}/x@{host}:port",
}


def broken(host: str, home: Path, *names: str) -> dict[str, str]:
    """The same with settings that no program can read."""
    around = readable(host, home)
    for name in names:
        around[name] = UNREADABLE[name].format(user=USER, host=host, secret=SECRETS[name])
    return around


def _commands(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for word, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*name, word))
    if not hasattr(command, "commands"):
        yield name, command


COMMANDS = dict(_commands(typer.main.get_command(app)))
MORE = [
    "ctk build cuda-nvtx --release 13.4 --fetch-only",
    (
        "ctk build-recipe ./examples/cpp-extension --channel https://example.org/cuda --base"
        " https://example.org/base"
    ),
    "ctk build-recipe ./telling --base ./base",
    "ctk check https://example.org/cuda",
    "ctk doctor --channel https://example.org/cuda",
    "ctk env create cuda-core --prefix ./other-env --channel https://example.org/cuda",
    "ctk env run ./none -- program --token {user}:{typed}@host",
    "ctk publish --to prefix+https://example.org/cuda --accept-redistribution",
    "ctk site ./site --channel https://example.org/cuda",
    "ctk solve cuda-core --channel https://example.org/cuda --base https://example.org/base",
    "ctk solve cuda-core --no-such={user}:{typed}@host",
    "ctk solve cuda-core --python {user}@host:{typed}",
    "ctk solve cuda-core --driver https:{user}:{typed}@host",
    "ctk {user}:{typed}@host",
    "ctk build cuda-nvtx --dask tcp://{user}:{typed}@host:8786",
    "ctk check --trusted-root ./{user}:{typed}@host",
    "ctk feedstock cuda-core ./there --maintainer {user}:{typed}@host",
]
"""Lines beside the first example of each command: with addresses, and with misplaced words."""


def _typed(line: str, host: str, folder: Path) -> list[str]:
    """The words of an example behind `ctk`, with places of this test for those that it names."""
    line = line.replace("{user}", USER).replace("{typed}", SECRETS["typed"])
    line = (
        line.partition("  #")[0]
        .replace("$CONDA_PREFIX", "./my-env")
        .replace("/srv/www", str(folder / "www"))
    )
    line = re.sub(r"https://\w*\.?example\.org", f"http://{host}", line)
    return shlex.split(line)[1:]


def leaks(texts: Mapping[str, bytes]) -> list[str]:
    """Where a secret is, in any of its forms."""
    found = []
    for name, secret in SECRETS.items():
        pair = f"{USER}:{secret}".encode()
        forms = {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1]}
        forms |= {b64encode(pair).decode().rstrip("=")}
        for place, content in texts.items():
            if any(form.lower().encode() in content.lower() for form in forms):
                found.append(f"{name} in {place}")
    return found


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder, packages unpacked."""
    for package in folder.rglob("*.conda"):
        unpacked = package.with_suffix(".unpacked")
        if not package.is_symlink() and not unpacked.exists():
            extract(package, unpacked)
    places = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(place.relative_to(folder)): place.read_bytes() for place in places}


def check(where: Workspace, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command, and compares what it printed, and all files of its checkout, with the
    secrets.
    """
    done = ctk(where, *words, **environment)
    print(done.stdout[-1500:], done.stderr[-1500:])
    printed = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    assert leaks({**printed, **files_of(where.root.parent)}) == [], shlex.join(words)
    return done


@pytest.mark.parametrize("line", [command.examples[0] for command in COMMANDS.values()] + MORE)
def test_no_command_shows_a_secret_of_its_settings(
    where: Workspace, host: str, home: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(where.root)
    typed = _typed(line, host, where.root.parent)
    check(where, "--debug", "--verbose", *typed, **readable(host, home))


@pytest.mark.parametrize("line", [command.examples[0] for command in COMMANDS.values()])
def test_json_has_no_secret_of_settings_that_cannot_be_read(
    where: Workspace, host: str, home: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(where.root)
    words = ("--debug", "--json", *_typed(line, host, where.root.parent))
    check(where, *words, **broken(host, home, *UNREADABLE))


@pytest.mark.parametrize("setting", UNREADABLE)
@pytest.mark.parametrize("line", ["ctk doctor --json", "ctk release add 13.4 --json"])
def test_an_address_that_cannot_be_read_is_not_shown_but_named(
    where: Workspace,
    host: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    line: str,
) -> None:
    monkeypatch.chdir(where.root)
    done = check(where, *shlex.split(line)[1:], **broken(host, home, setting))
    assert "an address that cannot be read" in done.stdout
    assert setting in done.stdout


WITHOUT_WALL = """
from ctk.cli.main import main
from ctk.core import secrets
secrets._register = lambda text, pattern: None
secrets._FORMS = ()
main()
"""


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("ctk build-recipe ./telling --base ./base", "ALL_PROXY"),
        ("ctk {user}:{typed}@host", "typed"),
    ],
)
def test_without_the_wall_these_tests_find_a_secret(
    where: Workspace, host: str, home: Path, monkeypatch: pytest.MonkeyPatch, line: str, place: str
) -> None:
    monkeypatch.chdir(where.root)
    command = [sys.executable, "-c", WITHOUT_WALL, *_typed(line, host, where.root.parent)]
    around = {**os.environ, "CTK_ROOT": str(where.root), **readable(host, home)}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    printed = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    found = leaks({**printed, **files_of(where.cache)})
    assert any(one.startswith(f"{place} in ") for one in found), done.stderr
