"""`ctk build-recipe` with channels on servers: rattler-build gets what our client fetched, or the
run ends in words.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zstandard

from conftest import ROOT, ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, ChannelMissing, HashMismatch
from ctk.core.platforms import this_platform
from ctk.fetch.channels import Archives
from ctk.package.reader import read_info
from kit.fake_index import FakeIndex, Fault, serve
from kit.packages import Draft
from kit.packs import checkout
from kit.tiny_packages import tiny

pytest_plugins = ["kit.recipe_fixtures"]
pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)

Recipes = Callable[..., Path]
HOST, TEST = "other-1.0-0.conda", "tested-1.0-0.conda"
TRIES = 2


@dataclass
class Site:
    where: Workspace
    server: FakeIndex
    recipe: Path
    output: Path

    def build(self, **environment: str) -> subprocess.CompletedProcess[str]:
        channel = self.server.channel
        words = [
            "build-recipe",
            str(self.recipe),
            "--channel",
            channel,
            "--base",
            channel,
            "--output",
            str(self.output),
        ]
        settings = {"PIP_TIMEOUT": "1", "PIP_RETRIES": str(TRIES - 1)}
        return ctk(self.where, *words, **{**settings, "NO_PROXY": "127.0.0.1", **environment})

    def asked(self, file: str) -> int:
        return sum(request.path.endswith(file) for request in self.server.requests)


@pytest.fixture
def site(tmp_path: Path, recipe: Recipes) -> Iterator[Site]:
    cuda = Draft("cuda-version", "13.0", "native_0", depends=("__cuda >=13.0",))
    tested = tiny("tested", files={"share/tested": b"tested"})
    where = checkout(
        tmp_path / "checkout", cuda, tiny("other", files={"share/other": b"other"}), tested
    )
    (where.root / "variants").symlink_to(ROOT / "variants")
    folder = recipe(
        "test -f $PREFIX/share/other; mkdir -p $PREFIX/share; echo 1 > $PREFIX/share/one",
        host=["other"],
        run=["tested"],
        test="test -f $PREFIX/share/tested",
    )
    with serve(FakeIndex(folder=where.channel)) as server:
        yield Site(where, server, folder, tmp_path / "made")


def test_packages_come_once_and_through_our_client(site: Site) -> None:
    done = site.build()
    assert done.returncode == 0, done.stderr + done.stdout
    assert site.asked(HOST) == 1 and site.asked(TEST) == 1
    packed = [
        request
        for request in site.server.requests
        if request.path.endswith("linux-64/repodata.json")
    ]
    assert len([request for request in packed if request.known is None]) == 1, "it is sent once"
    archives = Archives.beside(site.where.packages)
    assert [*archives.folder.iterdir()] == [archives.lock]


def test_what_is_unpacked_is_not_fetched_again(site: Site) -> None:
    assert site.build().returncode == 0
    site.server.requests.clear()
    assert site.build().returncode == 0
    assert site.asked(HOST) == 0  # tests have folders of their own


def test_the_package_and_the_log_name_the_server(site: Site) -> None:
    assert site.build().returncode == 0
    (made,) = site.output.glob("noarch/*.conda")
    rendered = _of_info(made, "rendered_recipe.yaml")
    log = (site.where.logs / "recipe-one.log").read_text()
    assert site.server.channel in rendered
    for text in (rendered, log):
        assert set(re.findall(r"127\.0\.0\.1:(\d+)", text)) <= {str(site.server.port)}
    assert read_info(made).index.name == "one"


def _of_info(package: Path, name: str) -> str:
    with zipfile.ZipFile(package) as archive:
        (member,) = (member for member in archive.namelist() if member.startswith("info-"))
        packed = archive.read(member)
    plain = zstandard.ZstdDecompressor().stream_reader(packed).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as info:
        (found,) = (file for file in info.getnames() if file.endswith(name))
        content = info.extractfile(found)
        assert content
        return content.read().decode()


PASSING = {
    "500": (HOST, Fault(status=500, times=1)),
    "other bytes": (HOST, Fault(content=b"of somebody else", times=1)),
    "breaks off, in the tests": (TEST, Fault(truncate=200, times=1)),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_costs_time_only(site: Site, name: str) -> None:
    file, fault = PASSING[name]
    site.server.faults.append(replace(fault, match=file))
    done = site.build()
    assert done.returncode == 0, done.stderr + done.stdout
    assert site.asked(file) == 2


LASTING = {
    "500": (HOST, Fault(status=500), ChannelMissing, TRIES),
    "404": (HOST, Fault(status=404), ChannelBroken, 1),
    "silence": (HOST, Fault(delay=3), ChannelMissing, TRIES),
    "endless": (HOST, Fault(content=b"x" * (1 << 16), repeat=1 << 14), HashMismatch, 2),
    "other bytes, in the tests": (TEST, Fault(content=b"of somebody else"), HashMismatch, 2),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_stays_ends_in_words(site: Site, name: str) -> None:
    file, fault, error, requests = LASTING[name]
    site.server.faults.append(replace(fault, match=file))
    done = site.build()
    assert done.returncode == error.exit_code, done.stderr + done.stdout
    assert file in done.stderr and "\nnext: " in done.stderr
    assert site.server.channel in done.stderr
    assert site.asked(file) == requests


def test_the_next_run_goes_on(site: Site) -> None:
    site.server.faults.append(Fault(HOST, status=500))
    assert site.build().returncode == ChannelMissing.exit_code
    site.server.faults.clear()
    done = site.build()
    assert done.returncode == 0, done.stderr


def test_the_login_is_sent_to_the_server_only(site: Site, tmp_path: Path) -> None:
    login = tmp_path / "auth.json"
    login.write_text(json.dumps({"127.0.0.1": {"BearerToken": "dolphin-of-the-sea"}}))
    site.server.password = "dolphin-of-the-sea"
    done = site.build(RATTLER_AUTH_FILE=str(login))
    assert done.returncode == 0, done.stderr
    assert {r.authorization for r in site.server.requests} == {"Bearer dolphin-of-the-sea"}


def test_a_proxy_is_not_asked_for_this_machine(site: Site) -> None:
    """The environment of rattler-build has the proxy, which knows nothing of our server."""
    with serve() as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        done = site.build(http_proxy=address, HTTP_PROXY=address)
    assert done.returncode == 0, done.stderr
    assert proxy.requests == []
