"""The package index: pip's settings apply, and a failing index is not taken for an empty one."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctk.core.errors import HashMismatch, IndexUnavailable, MeasureFailed, NotPublished
from ctk.fetch.fetch import locate
from ctk.index import IndexSettings, Interrupted, parse_settings, pip_settings
from ctk.index import client as index_client
from ctk.index.client import Retry, connection
from ctk.index.index import Index
from ctk.lock.model import Artefact
from kit.fake_index import FakeIndex, Fault, configure_pip, serve

WAITS: list[float] = []
QUICK = Retry(attempts=3, delay=1, sleep=WAITS.append, clock=lambda: 0.0)
WHEEL = "tool-1.0-py3-none-any.whl"


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    WAITS.clear()
    with serve() as index:
        index.add_wheel(
            "tool", "1.0", requires=["other>=2"], files={"tool/data.bin": os.urandom(5000)}
        )
        yield index


def client(server: FakeIndex, **settings: object) -> Index:
    return Index(IndexSettings(index_url=server.url, timeout=60, **settings), QUICK)  # type: ignore[arg-type]


def artefact(server: FakeIndex, sha256: str | None = None, file: str = WHEEL) -> Artefact:
    content = server.projects["tool"][WHEEL]
    return Artefact(
        "tool",
        "tool",
        "1.0",
        "noarch",
        file,
        sha256 or hashlib.sha256(content).hexdigest(),
        len(content),
    )


def test_pip_s_files_are_read_before_its_environment() -> None:
    settings = parse_settings(
        "global.index-url='https://u:secret@mirror.example/simple'\n"
        "global.extra-index-url='\\nfile:///a/simple\\nfile:///b/simple'\n"
        "download.timeout='7'\nfreeze.timeout='8'\nglobal.trusted-host='one"
        " two'\nglobal.no-index='false'\n"
        ":env:.index-url='https://other.example/simple'\n:env:.default-timeout='9'\n:env:.retries='2'\n"
    )
    assert settings.index_urls == (
        "https://other.example/simple",
        "file:///a/simple",
        "file:///b/simple",
    )
    assert (settings.timeout, settings.retries, settings.trusted_hosts) == (9.0, 2, ("one", "two"))


def test_settings_are_printed_without_credentials() -> None:
    settings = IndexSettings(
        index_url="https://u:secret@mirror.example/simple", proxy="http://u:secret@proxy.example"
    )
    assert "secret" not in repr(settings)


def test_the_real_pip_is_asked(server: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_pip(monkeypatch, server, timeout="3", extra_index_url="file:///nowhere/simple")
    settings = pip_settings()
    assert settings.index_urls == (server.url, "file:///nowhere/simple")
    assert settings.timeout == 3.0
    with Index() as index:
        assert index.files("tool")[0].file == WHEEL


def test_a_pip_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(IndexUnavailable, match="pip does not say"):
        pip_settings("/bin/false")


@pytest.mark.parametrize("html", [True, False], ids=["html", "json"])
@pytest.mark.parametrize("copies", [True, False], ids=["metadata-copies", "no-metadata-copies"])
def test_files_and_metadata_come_from_every_kind_of_index(
    server: FakeIndex, html: bool, copies: bool
) -> None:
    server.html, server.metadata_copies = html, copies
    server.add_wheel("tool", "1.1", yanked=True, requires_python=">=3.9")
    with client(server) as index:
        older, yanked = index.files("Tool")
        assert (yanked.version, yanked.yanked, yanked.requires_python) == ("1.1", True, ">=3.9")
        assert (older.file, older.yanked) == (WHEEL, False)
        content = server.projects["tool"][WHEEL]
        assert older.sha256 == index.sha256(older) == hashlib.sha256(content).hexdigest()
        assert index.size(older) == len(content)
        assert index.metadata(older).get_all("Requires-Dist") == ["other>=2"]
        asked = [r.path for r in server.requests if r.path.endswith(".metadata")]
        assert bool(asked) is copies


def test_a_large_wheel_s_metadata_is_read_without_the_wheel(server: FakeIndex) -> None:
    content = server.add_wheel(
        "big", "1", files={"big/data.bin": os.urandom(3_000_000)}, requires=["x"]
    )
    with client(server) as index:
        assert index.metadata(index.files("big")[0]).get_all("Requires-Dist") == ["x"]
        assert all(r.range for r in server.requests if r.method == "GET" and "/files/" in r.path)
    server.ranges = False
    with client(server) as index:
        assert index.metadata(index.files("big")[0]).get_all("Requires-Dist") == ["x"]
        assert index.part(index.files("big")[0], 0, 10) is None
    assert len(content) > 3_000_000


def test_parts_of_a_large_wheel_are_read_once(server: FakeIndex) -> None:
    files = {"big/data.bin": os.urandom(3_000_000), "big/version.py": b"__version__ = 1"}
    server.add_wheel("big", "1", files=files)
    with client(server) as index:
        (file,) = index.files("big")

        def read() -> tuple[object, ...]:
            texts = (index.text(file, "big/version.py"), index.text(file, "big/none.py"))
            return (*texts, index.metadata(file)["Name"])

        assert read() == ("__version__ = 1", None, "big")
        asked = len(server.requests)
        assert read() == ("__version__ = 1", None, "big")
        assert len(server.requests) == asked


def test_a_size_and_a_hash_that_the_index_does_not_state_are_read(server: FakeIndex) -> None:
    server.head = server.hashes = False
    with client(server) as index:
        file = index.files("tool")[0]
        assert index.size(file) == len(server.projects["tool"][WHEEL])
        assert file.sha256 is None
        assert index.sha256(file) == artefact(server).sha256
        assert locate(index, artefact(server)) == file


def test_folders_of_wheels_and_file_indexes_are_read_too(server: FakeIndex, tmp_path: Path) -> None:
    extra = tmp_path / "simple" / "local-tool"
    extra.mkdir(parents=True)
    (extra / "local_tool-2.0-py3-none-any.whl").write_bytes(server.projects["tool"][WHEEL])
    (extra / "index.html").write_text('<a href="local_tool-2.0-py3-none-any.whl">local_tool</a>')
    links = tmp_path / "links"
    links.mkdir()
    (links / "loose-3.0-py3-none-any.whl").write_bytes(b"x" * 10)
    url = (tmp_path / "simple").as_uri()
    with client(server, extra_index_urls=(url,), find_links=(str(links),)) as index:
        local, loose = index.files("local-tool")[0], index.files("loose")[0]
        assert (local.version, index.size(loose)) == ("2.0", 10)
        assert index.metadata(local)["Name"] == "tool"
        with index.stream(loose, 4) as (partial, total, chunks):
            assert (partial, total, b"".join(chunks)) == (False, 10, b"x" * 10)
        assert index.files("tool")[0].file == WHEEL


def test_no_index_means_no_index(server: FakeIndex) -> None:
    with client(server, no_index=True) as index, pytest.raises(NotPublished):
        index.files("tool")
    assert server.requests == []


def test_an_unknown_distribution_is_not_published(server: FakeIndex) -> None:
    with client(server) as index, pytest.raises(NotPublished, match="no file of nothing-like-it"):
        index.files("nothing-like-it")
    assert WAITS == []


@pytest.mark.parametrize(
    ("faults", "waits"),
    [
        ([Fault(status=500, times=2)], [1, 2]),
        ([Fault(drop=True, times=2)], [1, 2]),
        # As long as the server asks, but no longer than a minute.
        (
            [
                Fault(status=429, retry_after="7", times=1),
                Fault(status=503, retry_after="99999", times=1),
            ],
            [7, 60],
        ),
    ],
)
def test_a_passing_fault_is_retried_with_growing_waits(
    server: FakeIndex, faults: list[Fault], waits: list[int]
) -> None:
    server.faults += faults
    with client(server) as index:
        assert index.files("tool")
    assert waits == WAITS


def test_a_lasting_fault_names_the_distribution(server: FakeIndex) -> None:
    """tests/system/faults has the other faults, for each command."""
    server.faults.append(Fault(status=500))
    with (
        client(server) as index,
        pytest.raises(IndexUnavailable, match=r"does not give tool, .*answered 500") as error,
    ):
        index.files("tool")
    assert "run the same command again" in error.value.step
    assert len(server.requests) == QUICK.attempts


UNUSABLE = {
    "PIP_CERT": ["{}/missing.pem", "{}/text.pem"],
    "PIP_CLIENT_CERT": ["{}/missing.pem", "{}/text.pem"],
    "PIP_PROXY": ["ftp://u:secret@h:1", "http://u:secret@h:port"],
    "PIP_TRUSTED_HOST": ["h:port"],
    "HTTPS_PROXY": ["socks4://u:secret@h"],
    "ALL_PROXY": ["u:secret@h:port"],
    "SSL_CERT_FILE": ["{}/missing.pem", "{}/text.pem"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in UNUSABLE for value in UNUSABLE[name]]
)
def test_a_setting_that_cannot_be_used_is_an_error_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    value = value.format(tmp_path)
    listing = ""
    if name.startswith("PIP_"):
        listing = f":env:.{name.removeprefix('PIP_').lower().replace('_', '-')}={value!r}"
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(IndexUnavailable, match="cannot be used: ") as error:
        Index(parse_settings(listing), QUICK)
    assert "secret" not in error.value.cause + error.value.step
    assert "PROXY" in name or value in error.value.cause


def test_a_proxy_without_a_scheme_and_a_folder_of_certificates_are_used_as_pip_uses_them(
    tmp_path: Path,
) -> None:
    made_with = connection(IndexSettings(proxy="u:secret@h:8080", cert=str(tmp_path)))
    assert made_with["proxy"] == "http://u:secret@h:8080"


@pytest.mark.parametrize("status", [400, 401, 403, 407, 451])
def test_a_refused_page_is_not_taken_for_a_page_without_files(
    server: FakeIndex, status: int
) -> None:
    server.faults.append(Fault(match="/simple/", status=status))
    with (
        client(server) as index,
        pytest.raises(IndexUnavailable, match=f"answered {status} .* for tool$"),
    ):
        index.files("tool")


def test_another_index_may_have_a_project_that_one_refuses(server: FakeIndex) -> None:
    with serve() as other:
        other.faults.append(Fault(status=403))
        with client(server, extra_index_urls=(other.url,)) as index:
            assert index.files("tool")
            with pytest.raises(IndexUnavailable, match="answered 403"):  # and may have this file
                locate(index, artefact(server, file="tool-9.0.whl"))


def test_one_index_being_down_is_not_hidden_by_another(server: FakeIndex) -> None:
    with serve() as other:
        other.faults.append(Fault(status=502))
        with (
            client(server, extra_index_urls=(other.url,)) as index,
            pytest.raises(IndexUnavailable, match="502"),
        ):
            index.files("tool")


def test_wrong_credentials_are_an_error_that_shows_none(server: FakeIndex) -> None:
    server.password = "yes"
    with (
        client(server) as index,
        pytest.raises(IndexUnavailable, match="answered 401 Unauthorized for tool"),
    ):
        index.files("tool")
    url = server.url.replace("//", "//user:secret@")
    with Index(IndexSettings(index_url=url), QUICK) as index:
        file = index.files("tool")[0]
        assert index.size(file) > 0
        assert "secret" not in repr(file) + repr(index.settings)
        server.faults.append(Fault(match="/files/", status=500))
        with pytest.raises(IndexUnavailable) as error:
            index.content(file)
    assert "secret" not in str(error.value)
    assert {r.authorization for r in server.requests if "/files/" in r.path} != {None}


def test_a_small_file_that_breaks_off_is_read_again(server: FakeIndex) -> None:
    server.faults.append(Fault(match="/files/", truncate=100, times=4))
    with client(server) as index:
        file = index.files("tool")[0]
        with pytest.raises(Interrupted):
            index.content(file)
        assert hashlib.sha256(index.content(file)).hexdigest() == file.sha256


def test_other_content_under_the_name_is_refused(server: FakeIndex) -> None:
    server.faults.append(Fault(match="/files/", content=b"something else"))
    other = hashlib.sha256(b"something else").hexdigest()
    with client(server) as index:
        file = index.files("tool")[0]
        with pytest.raises(HashMismatch, match=f"(?s){file.sha256}.*{other}"):
            index.content(file)


def test_an_artefact_is_found_by_its_name_and_hash(server: FakeIndex) -> None:
    with client(server) as index:
        assert locate(index, artefact(server)).file == WHEEL
        with pytest.raises(NotPublished, match=r"has no tool-9.0.whl of tool 1.0"):
            locate(index, artefact(server, file="tool-9.0.whl"))
        with pytest.raises(
            HashMismatch, match=f"(?s)locked {'0' * 64}.*index  {artefact(server).sha256}"
        ):
            locate(index, artefact(server, sha256="0" * 64))


def test_the_index_that_has_the_locked_content_is_chosen(server: FakeIndex) -> None:
    with serve() as other:
        other.add(WHEEL, b"rebuilt by a mirror")
        with client(other, extra_index_urls=(server.url,)) as index:
            assert locate(index, artefact(server)).url.startswith(
                server.url.removesuffix("simple/")
            )


HERE = f"file://localhost/{WHEEL}"
TO_THIS_MACHINE: dict[str, tuple[Fault, str]] = {
    "a link": (
        Fault("simple/", content=f'<a href="{HERE}">x</a>'.encode()),
        "to a file of this machine",
    ),
    "a base": (
        Fault("simple/", content=f"<base href=file:///><a href={WHEEL}>".encode()),
        "a file of this machine",
    ),
    "a page elsewhere": (Fault("simple/", status=301, headers={"Location": HERE}), "'file://'"),
    "a file elsewhere": (Fault("files/", status=302, headers={"Location": HERE}), "'file://'"),
}


@pytest.mark.parametrize("name", TO_THIS_MACHINE)
def test_a_server_leads_to_no_file_of_this_machine(server: FakeIndex, name: str) -> None:
    fault, said = TO_THIS_MACHINE[name]
    server.faults.append(fault)
    with client(server) as index, pytest.raises(IndexUnavailable, match=said):
        index.content(index.files("tool")[0])


def test_a_local_index_leads_to_local_files(server: FakeIndex, tmp_path: Path) -> None:
    page = tmp_path / "simple" / "tool" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{(tmp_path / WHEEL).as_uri()}">x</a>')
    (tmp_path / WHEEL).write_bytes(server.projects["tool"][WHEEL])
    with Index(IndexSettings(index_url=page.parents[1].as_uri()), QUICK) as index:
        assert index.metadata(index.files("tool")[0])["Name"] == "tool"


def test_an_invalid_page_is_an_error_of_the_index(server: FakeIndex) -> None:
    server.html = False
    server.faults.append(Fault("simple/", content=b"<html>Log in</html>"))
    with (
        client(server) as index,
        pytest.raises(IndexUnavailable, match="page of tool cannot be read"),
    ):
        index.files("tool")


def test_a_page_has_a_size_and_a_time(server: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = Retry(attempts=1, clock=itertools.count(0, 3600).__next__)
    late = pytest.raises(IndexUnavailable, match="the page of tool did not come within 600 s")
    with Index(IndexSettings(index_url=server.url), hours) as index, late:
        index.files("tool")
    monkeypatch.setattr(index_client, "LARGEST", 100)
    with (
        client(server) as index,
        pytest.raises(IndexUnavailable, match="the page of tool does not end"),
    ):
        index.files("tool")


def test_a_file_that_is_shorter_or_longer_than_the_index_says_is_an_error(
    server: FakeIndex,
) -> None:
    content = server.projects["tool"][WHEEL]
    server.faults.append(Fault("files/", length=10**17, times=1))  # of the HEAD
    with client(server) as index, pytest.raises(MeasureFailed, match="ends before byte"):
        index.metadata(index.files("tool")[0])
    with client(server) as index:
        assert index.size(index.files("tool")[0]) == len(content)
        server.faults.append(Fault("files/", content=content + b"a"))
        with pytest.raises(IndexUnavailable, match="does not end"):
            index.content(index.files("tool")[0])
