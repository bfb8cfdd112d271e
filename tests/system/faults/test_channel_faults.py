"""A channel on a server that fails, stalls or has other files: `ctk env create` tries again, and
ends in words.

The index has the same faults in test_index_faults.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, ChannelMissing, HashMismatch, NoSpace
from ctk.core.platforms import this_platform
from ctk.fetch.channels import Archives
from kit.fake_index import FakeIndex, Fault, serve
from kit.mounts import mounts, small
from kit.packs import checkout
from kit.tiny_packages import tiny

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64",
    reason="the tiny packages are for linux-64; tests/fetch has the downloads, on every platform",
)

DOWN, WRONG = ChannelMissing.exit_code, HashMismatch.exit_code
BROKEN = ChannelBroken.exit_code
PACKAGE, FILE = "other-1.0-0.conda", "share/other"
CONTENT = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(8_000))
TRIES = 2


@dataclass
class Site:
    """A checkout, and its channel on a server."""

    where: Workspace
    server: FakeIndex
    folder: Path
    number: int = 0
    told: dict[str, str] = field(default_factory=dict)

    def create(self, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Makes a new environment from the channel."""
        self.number += 1
        words = ["--channel", self.server.channel, "--base", str(self.where.root / "base")]
        settings = {"PIP_TIMEOUT": "1", "PIP_RETRIES": str(TRIES - 1)}
        return ctk(
            self.where, "env", "create", "other", "--prefix", str(self.prefix), *words, *more,
            **settings, NO_PROXY="127.0.0.1,localhost", **environment,
        )  # fmt: skip

    @property
    def prefix(self) -> Path:
        return self.folder / f"env-{self.number}"

    @property
    def asked(self) -> list[str | None]:
        """The ranges of the requests for the package."""
        return [r.range for r in self.server.requests if r.path.endswith(PACKAGE)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, FakeIndex]]:
    root = tmp_path_factory.mktemp("site")
    where = checkout(root / "checkout", tiny("other", files={FILE: CONTENT}))
    with serve(FakeIndex(folder=where.channel)) as server:
        yield where, server


@pytest.fixture
def site(made: tuple[Workspace, FakeIndex], tmp_path: Path) -> Iterator[Site]:
    """A server without faults, and nothing of its packages in the caches."""
    where, server = made
    server.requests.clear()
    for place in (where.packages, Archives.beside(where.packages).folder):
        subprocess.run(["rm", "-rf", place], check=True)
    yield Site(where, server, tmp_path)
    server.faults.clear()
    server.password = None


def is_right(site: Site, done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 0 and (site.prefix / FILE).read_bytes() == CONTENT


PASSING: dict[str, Fault] = {
    # What is wrong with one request -> the fault.
    "500": Fault(PACKAGE, times=1, status=500),
    "429": Fault(PACKAGE, times=1, status=429, retry_after="1"),
    "no answer": Fault(PACKAGE, times=1, drop=True),
    "breaks off": Fault(PACKAGE, times=1, truncate=100_000),
    "other bytes": Fault(PACKAGE, times=1, content=b"of somebody else"),
    "as long, other bytes": Fault(PACKAGE, times=1, content=CONTENT),
    "silence first": Fault(PACKAGE, times=1, delay=3),
    "silence in the middle": Fault(PACKAGE, times=1, pause=3),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_costs_time_only(site: Site, name: str) -> None:
    site.server.faults.append(PASSING[name])
    done = site.create()
    assert is_right(site, done), done.stderr
    assert len(site.asked) == 2


LASTING: dict[str, tuple[Fault, int, int]] = {
    # What is wrong with every request -> the fault, the exit code and the number of requests.
    "500": (Fault(PACKAGE, status=500), DOWN, TRIES),
    "429": (Fault(PACKAGE, status=429, retry_after="1"), DOWN, TRIES),
    "404": (Fault(PACKAGE, status=404), BROKEN, 1),
    "410": (Fault(PACKAGE, status=410), BROKEN, 1),
    "401": (Fault(PACKAGE, status=401), DOWN, 1),
    "403": (Fault(PACKAGE, status=403), DOWN, 1),
    "413": (Fault(PACKAGE, status=413), DOWN, 1),
    "other bytes": (Fault(PACKAGE, content=b"of somebody else"), WRONG, 2),
    "no bytes": (Fault(PACKAGE, content=b""), WRONG, 2),
    "no answer": (Fault(PACKAGE, drop=True), DOWN, TRIES),
    "breaks off": (Fault(PACKAGE, truncate=10), DOWN, TRIES),
    "silence first": (Fault(PACKAGE, delay=3), DOWN, TRIES),
    "silence in the middle": (Fault(PACKAGE, pause=3, truncate=20), DOWN, TRIES),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_stays_ends_in_words(site: Site, name: str) -> None:
    fault, code, requests = LASTING[name]
    site.server.faults.append(fault)
    done = site.create()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "\nnext: " in done.stderr
    assert PACKAGE in done.stderr and "127.0.0.1" in done.stderr
    assert len(site.asked) == requests
    assert not (site.prefix / FILE).exists()
    site.server.faults.clear()
    done = site.create()
    assert is_right(site, done), done.stderr


def test_a_wrong_package_is_named_with_what_was_expected(site: Site) -> None:
    site.server.faults.append(Fault(PACKAGE, content=b"of somebody else"))
    done = site.create()
    right = (site.where.channel / "linux-64" / PACKAGE).read_bytes()
    assert hashlib.sha256(right).hexdigest() in done.stderr
    assert hashlib.sha256(b"of somebody else").hexdigest() in done.stderr
    assert f"ctk check {site.server.channel}" in done.stderr


def test_the_next_run_continues_a_download(site: Site) -> None:
    site.server.faults.append(Fault(PACKAGE, truncate=100_000, times=1))
    site.server.faults.append(Fault(PACKAGE, status=500))
    assert site.create().returncode == DOWN
    site.server.faults.clear()
    site.server.requests.clear()
    assert is_right(site, site.create())
    (range_,) = site.asked
    assert range_ and int(range_.removeprefix("bytes=").rstrip("-")) > 0


def test_what_is_unpacked_is_not_fetched_again(site: Site) -> None:
    assert is_right(site, site.create())
    site.server.requests.clear()
    assert is_right(site, site.create())
    assert site.asked == []
    archives = Archives.beside(site.where.packages)
    assert [*archives.folder.iterdir()] == [archives.lock]


def test_a_damaged_package_in_the_cache_is_fetched_again(site: Site) -> None:
    assert is_right(site, site.create())
    (site.where.packages / "other-1.0-0" / FILE).unlink()
    site.server.requests.clear()
    done = site.create()
    assert is_right(site, done), done.stderr
    assert len(site.asked) == 1


def test_records_name_the_server(site: Site) -> None:
    """Clients clone an environment from there."""
    assert is_right(site, site.create())
    (file,) = (site.prefix / "conda-meta").glob("other-*.json")
    record = json.loads(file.read_text())
    assert record["url"] == f"{site.server.channel}/linux-64/{PACKAGE}"
    assert record["channel"].rstrip("/") == site.server.channel
    assert record["fn"] == PACKAGE


def test_a_redirect_loop_ends_in_words(site: Site) -> None:
    place = f"{site.server.channel}/linux-64/{PACKAGE}"
    site.server.faults.append(Fault(PACKAGE, status=302, headers={"Location": place}))
    done = site.create()
    assert done.returncode == DOWN and "redirects" in done.stderr and "\nnext: " in done.stderr


LED_AWAY = {
    "a login": "http://somebody:dolphin-of-the-sea@127.0.0.1:9/x",
    "a signature": "http://127.0.0.1:9/x?X-Amz-Signature=dolphin-of-the-sea",
    "a token": "http://127.0.0.1:9/t/dolphin-of-the-sea/x",
}


@pytest.mark.parametrize("how", LED_AWAY)
@pytest.mark.parametrize("file", [PACKAGE, "linux-64/repodata.json"])
def test_what_a_server_leads_to_is_not_shown(site: Site, how: str, file: str) -> None:
    """Such an address has a secret of the server's keeper in it."""
    site.server.faults.append(Fault(file, status=302, headers={"Location": LED_AWAY[how]}))
    done = site.create("--debug", "--verbose")
    assert done.returncode == DOWN, done.stderr
    assert "dolphin" not in done.stdout + done.stderr


def test_a_login_reaches_its_host_and_no_other(site: Site, tmp_path: Path) -> None:
    login = tmp_path / "auth.json"
    user = {"username": "somebody", "password": "dolphin"}
    login.write_text(json.dumps({"127.0.0.1": {"BasicHTTP": user}}))
    site.server.password = "dolphin"
    with serve(FakeIndex(folder=site.where.channel)) as other:
        # Another name of this machine is another host.
        place = f"{other.channel}/linux-64/{PACKAGE}".replace("127.0.0.1", "localhost")
        site.server.faults.append(Fault(PACKAGE, status=302, headers={"Location": place}))
        done = site.create(RATTLER_AUTH_FILE=str(login))
        assert is_right(site, done), done.stderr
        assert {r.authorization for r in other.requests} == {None}
    sent = "Basic " + base64.b64encode(b"somebody:dolphin").decode()
    assert {r.authorization for r in site.server.requests if r.path.endswith(PACKAGE)} == {sent}
    assert "dolphin" not in done.stdout + done.stderr


@pytest.mark.parametrize("how", ["no zip", "cut off"])
def test_a_package_that_is_as_stated_and_no_package_is_named(tmp_path: Path, how: str) -> None:
    where = checkout(tmp_path / "c", tiny("other", files={FILE: CONTENT}))
    package, index = where.channel / "linux-64" / PACKAGE, where.channel / "linux-64/repodata.json"
    whole = package.read_bytes()
    content = b"no zip" * 1000 if how == "no zip" else whole[: len(whole) // 2]
    package.write_bytes(content)
    stated = json.loads(index.read_text())
    record = stated["packages.conda"][PACKAGE]
    record |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    index.write_text(json.dumps(stated))
    with serve(FakeIndex(folder=where.channel)) as server:
        done = Site(where, server, tmp_path).create()
    assert done.returncode == BROKEN, done.stderr
    assert PACKAGE in done.stderr and server.channel in done.stderr
    assert "Traceback" not in done.stderr and "\nnext: " in done.stderr
    assert "cannot be read" in done.stderr and "outside" not in done.stderr


def test_an_index_that_leads_to_a_file_of_this_machine_is_refused(tmp_path: Path) -> None:
    where = checkout(tmp_path / "c", tiny("other", files={FILE: CONTENT}))
    index = where.channel / "linux-64/repodata.json"
    stated = json.loads(index.read_text())
    stated["info"]["base_url"] = (where.channel / "linux-64").as_uri() + "/"
    index.write_text(json.dumps(stated))
    with serve(FakeIndex(folder=where.channel)) as server:
        site = Site(where, server, tmp_path)
        done = site.create()
    assert done.returncode == BROKEN, done.stderr
    assert "leads to" in done.stderr and not (site.prefix / FILE).exists()


def test_a_pack_is_made_of_checked_packages_too(site: Site) -> None:
    site.server.faults.append(Fault(PACKAGE, times=1, status=503))
    done = ctk(
        site.where, "env", "pack", "other", "python", "-o", str(site.folder / "p.run"), "--channel",
        site.server.channel, "--base", str(site.where.root / "base"), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(site.asked) == 2
    assert zipfile.is_zipfile(site.where.channel / "linux-64" / PACKAGE) and os.listdir(site.folder)


def test_a_killed_download_is_continued_by_the_next_run(site: Site) -> None:
    """Killed in the middle of a package: what came stays, and is not sent again."""
    site.server.faults.append(Fault(PACKAGE, pause=60))
    words = [
        "env",
        "create",
        "other",
        "--prefix",
        str(site.folder / "env"),
        "--channel",
        site.server.channel,
    ]
    words += ["--base", str(site.where.root / "base")]
    settings = {"CTK_ROOT": str(site.where.root), "NO_PROXY": "127.0.0.1,localhost"}
    archives = Archives.beside(site.where.packages).folder
    program = [sys.executable, "-c", "from ctk.cli.main import main; main()", *words]
    with subprocess.Popen(program, env={**os.environ, **settings}, stderr=subprocess.PIPE) as run:
        while not any(part.stat().st_size for part in archives.glob("*.part")):
            assert run.poll() is None, run.stderr and run.stderr.read()
            time.sleep(0.05)
        run.kill()
    site.server.faults.clear()
    site.server.requests.clear()
    done = ctk(site.where, *words, **settings)
    assert done.returncode == 0, done.stderr
    assert (site.folder / "env" / FILE).read_bytes() == CONTENT
    (range_,) = site.asked
    assert range_ and range_.startswith("bytes=")
    assert not [*archives.glob("*.part")]


def test_a_disk_that_is_full_in_a_download_is_error_12_and_the_next_run_goes_on(site: Site) -> None:
    archives = Archives.beside(site.where.packages).folder
    archives.mkdir(parents=True)
    words = [
        "env",
        "create",
        "other",
        "--prefix",
        str(site.folder / "env"),
        "--channel",
        site.server.channel,
    ]
    words += ["--base", str(site.where.root / "base")]
    world = {"CTK_ROOT": str(site.where.root), "NO_PROXY": "127.0.0.1,localhost"}
    program = [sys.executable, "-c", "from ctk.cli.main import main; main()", *words]
    with mounts(small(archives=100_000), archives=archives) as there:
        enter = [
            "nsenter",
            "--target",
            str(there.pid),
            "--user",
            "--mount",
            "--preserve-credentials",
        ]

        def create() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*enter, *program], env={**os.environ, **world}, capture_output=True, text=True
            )

        done = create()
        assert done.returncode == NoSpace.exit_code, done.stderr
        assert "No space left on device" in done.stderr and str(archives) in done.stderr
        assert "Traceback" not in done.stderr and "\nnext: " in done.stderr
        there.enlarge(archives)
        site.server.requests.clear()
        done = create()
        assert done.returncode == 0, done.stderr
        assert site.asked[0] and site.asked[0].startswith("bytes="), (
            "what came before is not sent again"
        )
    assert (site.folder / "env" / FILE).read_bytes() == CONTENT


def test_two_silent_servers_end_in_words(site: Site) -> None:
    """The channel and the base channel take connections, and say nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        one, other = (f"http://127.0.0.1:{server.getsockname()[1]}/c" for server in (first, second))
        done = ctk(
            site.where, "env", "create", "other", "--prefix", str(site.prefix), "--channel", one,
            "--base", other, PIP_TIMEOUT="1", PIP_RETRIES="1", NO_PROXY="127.0.0.1",
        )  # fmt: skip
    assert done.returncode == DOWN, done.stderr
    assert one in done.stderr and "\nnext: " in done.stderr and "Traceback" not in done.stderr


def test_a_package_and_its_base_on_servers_that_fall_silent_end_in_words(site: Site) -> None:
    """The indexes come, and no package does."""
    site.server.faults.append(Fault(".conda", delay=3))
    with serve(FakeIndex(folder=site.where.root / "base")) as base:
        base.faults.append(Fault(".conda", delay=3))
        done = ctk(
            site.where, "env", "create", "other", "python", "--prefix", str(site.prefix),
            "--channel", site.server.channel, "--base", base.channel,
            PIP_TIMEOUT="1", PIP_RETRIES="1", NO_PROXY="127.0.0.1",
        )  # fmt: skip
    assert done.returncode == DOWN, done.stderr
    assert ".conda" in done.stderr and "\nnext: " in done.stderr and "Traceback" not in done.stderr
