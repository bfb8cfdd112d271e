"""Whatever an index says: a value or an error in words, in bounded time and memory, and no file of this machine.

No clock is read. Bounds are judged by what is counted, and who is slow by a clock that a test moves.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Condition, local

import crafted_wheels  # noqa: F401 - first: it knows where the other layers' helpers are
import pytest
from fake_index import FakeIndex, Fault, serve

from ctk.core.checkout import Workspace
from ctk.core.errors import HashMismatch, IndexUnavailable, MeasureFailed, NotPublished
from ctk.fetch import fetch
from ctk.index import IndexSettings
from ctk.index import client as index_client
from ctk.index.client import Retry
from ctk.index.index import Index
from ctk.index.inside import RemoteFile
from ctk.lock.lock import Artefact

WHEEL = "tool-1.0-py3-none-any.whl"
LINK = f'<a href="../../files/{WHEEL}">x</a>'
JSON = "application/vnd.pypi.simple.v1+json"
ZEROS = "0" * 64


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    with serve() as index:
        index.add_wheel("tool", "1.0", files={"tool/data": os.urandom(60_000)})
        yield index


class Clock:
    """Five seconds later at each look, and then a server that drips sends its next piece: one for a look, or fewer."""

    def __init__(self) -> None:
        self.now = 0.0
        self._looked = Condition()
        self._sending = local()  # answers that nobody reads any more take nothing from the others

    def __call__(self) -> float:
        with self._looked:
            self.now += 5
            self._looked.notify_all()
            return self.now

    def wait(self) -> None:
        with self._looked:
            self._looked.wait_for(lambda: self.now > getattr(self._sending, "at", 0))
            self._sending.at = self.now


def client(server: FakeIndex, clock: Clock | None = None, **settings: object) -> Index:
    retry = Retry(attempts=2, sleep=lambda seconds: None, clock=clock or time.monotonic)
    return Index(IndexSettings(**{"index_url": server.url, "timeout": 20} | settings), retry)  # type: ignore[arg-type]


def page(text: str | bytes, kind: str = "text/html", **headers: str) -> Fault:
    content = text.encode() if isinstance(text, str) else text
    return Fault("simple/", content=content, headers={"Content-Type": kind, **headers})


def linked(url: str, more: str = "") -> Fault:
    return page(f'<a href="{url}"{more}>x</a>')


def json_file(url: str, more: str = "") -> Fault:
    return page(f'{{"files": [{{"url": "{url}"{more}}}]}}', JSON)


LIES: dict[str, tuple[Fault, str]] = {
    "a codec that is no charset": (page(LINK, "text/html; charset=hex"), "in the charset hex"),
    "a charset that nobody knows": (page(LINK, "text/html; charset=utf-9"), "in the charset utf-9"),
    "a charset that takes hours": (page("a" * 100, "text/html; charset=punycode"), "in the charset punycode"),
    "another one": (page("xn--a." * 100, "text/html; charset=IDNA"), "in the charset idna"),
    "a control character": (linked(f"/\1/{WHEEL}"), "InvalidURL"),
    "half a character": (json_file(f"/\\ud800/{WHEEL}"), "UnicodeEncodeError"),
    "a link without an end": (json_file(f"/{'a' * (1 << 14)}/{WHEEL}"), "a link of 164"),
    "a marked section": (page("<![foo["), "unknown status keyword"),
    "a cut page": (page(gzip.compress(LINK.encode())[:-9], **{"Content-Encoding": "gzip"}), "ended before"),
    "an unknown packing": (page(LINK, **{"Content-Encoding": "lzma"}), "as 'lzma'"),
    "angles": (page("<textarea>" + "<" * index_client.MARKS), "list of links: 3000002 tags"),
    "objects": (page(f"[{'{},' * (index_client.MARKS // 3)}{{}}]", JSON), "list of links: 3000004 tags"),
    "one tag": (page(f"<a {'x ' * (1 << 19)}>"), "list of links: 2 tags"),
    "a wheel for everything": (
        linked(f"tool-1-{'.'.join('abcdefgh' * 7)}-{'a.' * 50}a-{'a.' * 60}a.whl"),
        "more than 150000 links",
    ),
    "a file of this machine": (linked("file://{}/" + WHEEL), "leads to a file of this machine"),
    "the same in JSON": (json_file("FILE://localhost{}/" + WHEEL), "leads to a file of this machine"),
    "the same by a base": (page("<base href='file://{}/'>" + f"<a href={WHEEL}>"), "leads to a file of this machine"),
    "metadata of this machine": (linked("file:{}/" + WHEEL, " data-core-metadata=true"), "a file of this machine"),
    "a way to this machine": (Fault("files/", status=302, headers={"Location": "file://localhost{}/a"}), "'file://'"),
    "the same of another host": (Fault("files/", status=302, headers={"Location": "file:{}/a"}), "'file://'"),
    "a page of this machine": (Fault("simple/", status=301, headers={"Location": "file://localhost{}/a"}), "'file://'"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_of_an_index_is_an_error_in_words(server: FakeIndex, tmp_path: Path, name: str) -> None:
    fault, said = LIES[name]
    for file in ("a", WHEEL, f"{WHEEL}.metadata"):
        (tmp_path / file).write_bytes(b"Name: of this machine\n")
    here = str(tmp_path).encode()
    content = fault.content.replace(b"{}/", here + b"/") if fault.content else None
    headers = {key: value.replace("{}", str(tmp_path)) for key, value in fault.headers.items()}
    server.faults.append(replace(fault, content=content, headers=headers))
    with client(server) as index, pytest.raises(IndexUnavailable, match="tool") as error:
        index.metadata(index.files("tool")[0])
    assert said in error.value.cause and error.value.step


def test_a_page_of_too_many_links_is_given_up_at_the_first_that_is_too_much(
    server: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_client, "LINKS", 100)  # with the one to the page
    for links, said in ((99, None), (100, "more than 100 links")):
        server.faults[:] = [page(f'<a href="{WHEEL}"></a>' * links)]
        with client(server) as index:
            if said is None:
                assert len(index.files("tool")) == 1
            else:
                with pytest.raises(IndexUnavailable, match=said):
                    index.files("tool")


HONEST = {
    "as pip's own index": page(f"<!DOCTYPE html>\n<html><body>{LINK}<br/></body></html>"),
    "a base": page(f'<base href="http://127.0.0.1:PORT/files/"><a href="{WHEEL}" rel=internal>x</a>'),
    "capitals and no end": page(f"<HTML><BODY><A HREF='../../files/{WHEEL}'>x"),
    "a folder as servers list it": page(f'<pre><a href="../">../</a>\n<a href="../../files/{WHEEL}">x</a>  5K\n</pre>'),
    "a script": page(f"<style>a>b {{}}</style><script>{'if (a<b) {};' * 9999}</script>{LINK}"),
    "latin": page(f"<p>{chr(233)}</p>{LINK}".encode("latin-1"), "text/html; charset=ISO-8859-1"),
    "ASCII": page(LINK, "text/html; charset=US-ASCII"),
    "utf-16": page(LINK.encode("utf-16"), 'text/html; charset="utf-16"'),
    "HTML of the new kind": page(LINK, "application/vnd.pypi.simple.v1+html"),
    "packed": page(gzip.compress(LINK.encode()), **{"Content-Encoding": "gzip"}),
    "packed in parts": page(gzip.compress(b"<p>") + gzip.compress(LINK.encode()), **{"Content-Encoding": "x-gzip"}),
    "JSON": json_file(f"../../files/{WHEEL}", ', "hashes": {}, "yanked": false, "core-metadata": false'),
}


@pytest.mark.parametrize("name", HONEST)
def test_a_page_that_servers_send_is_read(server: FakeIndex, name: str) -> None:
    assert HONEST[name].content
    content = HONEST[name].content.replace(b"PORT", str(server.port).encode())
    server.faults.append(replace(HONEST[name], content=content))
    with client(server) as index:
        (file,) = index.files("tool")
        assert index.metadata(file)["Name"] == "tool"


# ---- what is local


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "another user's"])
def test_a_local_index_may_lead_to_local_files_and_to_nothing_else(
    server: FakeIndex, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "simple" / "tool"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(f'<a href="{(tmp_path / WHEEL).as_uri()}">x</a>')
    (tmp_path / WHEEL).write_bytes(server.projects["tool"][WHEEL])
    places = ({"index_url": folder.parent.as_uri()}, {"no_index": True, "find_links": (str(tmp_path),)})
    for place in places:
        with client(server, **place) as index:
            assert index.metadata(index.files("tool")[0])["Name"] == "tool"
    (tmp_path / WHEEL).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / WHEEL)
    elif kind == "folder":
        (tmp_path / WHEEL).mkdir()
    else:
        (tmp_path / WHEEL).symlink_to("/dev/zero" if kind == "device" else "/proc/self/mem/x")
    for place in places:
        with client(server, **place) as index, pytest.raises((IndexUnavailable, NotPublished), match=WHEEL) as error:
            index.metadata(index.files("tool")[0])
        assert error.value.step


# ---- hashes


def test_a_hash_in_capitals_is_a_hash(server: FakeIndex) -> None:
    right = hashlib.sha256(server.projects["tool"][WHEEL]).hexdigest()
    for fault in (
        linked(f"../../files/{WHEEL}#sha256={right.upper()}"),
        json_file(f"../../files/{WHEEL}", f', "hashes": {{"sha256": "{right.upper()}"}}'),
    ):
        server.faults[:] = [fault]
        with client(server) as index:
            (file,) = index.files("tool")
            assert file.sha256 == index.sha256(file) == right
            assert index.content(file)


@pytest.mark.parametrize("stated", ['"abc"', "5", '["a"]', f'"{ZEROS}0"', f'"{ZEROS[:-1]}g"'])
def test_a_hash_that_is_none_fits_no_content_and_enters_no_lock(server: FakeIndex, stated: str) -> None:
    server.faults.append(json_file(f"../../files/{WHEEL}", f', "hashes": {{"sha256": {stated}}}'))
    wanted = Artefact("tool", "tool", "1.0", "noarch", WHEEL, ZEROS, 5)
    with client(server) as index:
        (file,) = index.files("tool")
        for ask in (lambda: index.sha256(file), lambda: index.content(file), lambda: fetch.locate(index, wanted)):
            with pytest.raises(HashMismatch) as error:
                ask()
            assert error.value.step


# ---- who is slow


@pytest.mark.parametrize("through", ["", "trusted_hosts", "proxy"])
def test_a_server_that_drips_is_given_up(server: FakeIndex, through: str) -> None:
    """From the head on: a byte comes at each look at the clock."""
    clock = Clock()
    server.faults.append(Fault(drip=clock.wait))
    more = {"trusted_hosts": ("127.0.0.1",), "proxy": f"http://127.0.0.1:{server.port}"}
    with (
        client(server, clock, **{k: v for k, v in more.items() if k == through}) as index,
        pytest.raises(IndexUnavailable, match="ReadTimeout: no more than"),
    ):
        index.files("tool")
    assert len(server.requests) == index.retry.attempts


def test_a_page_has_its_time(server: FakeIndex) -> None:
    """A line that is not too slow for a file, and a page that is too long for it."""
    clock = Clock()
    server.faults.append(Fault("simple/", content=b" " * 1_000_000, drip=clock.wait, piece=8000))
    with client(server, clock) as index, pytest.raises(IndexUnavailable, match="did not come within 600 s"):
        index.files("tool")
    assert len(server.requests) == 1


def locked(server: FakeIndex) -> Artefact:
    content = server.projects["tool"][WHEEL]
    return Artefact("tool", "tool", "1.0", "noarch", WHEEL, hashlib.sha256(content).hexdigest(), len(content))


def test_a_download_that_drips_is_given_up_and_what_came_stays(server: FakeIndex, tmp_path: Path) -> None:
    clock, here = Clock(), Workspace(tmp_path)
    server.faults.append(Fault("files/", drip=clock.wait, piece=100))
    with pytest.raises(IndexUnavailable, match="broke off: ReadTimeout: no more than"):
        fetch.fetch([locked(server)], here, lambda: client(server, clock))
    (part,) = (here.store / "partial").iterdir()
    came = part.stat().st_size
    assert came and server.projects["tool"][WHEEL].startswith(part.read_bytes())
    *_, last = [r.range for r in server.requests if r.method == "GET" and "files/" in r.path]
    assert last and 0 < int(last.removeprefix("bytes=").rstrip("-")) <= came


def test_a_slow_line_is_good_enough(server: FakeIndex) -> None:
    """Four hundred bytes a second, for minutes."""
    clock = Clock()
    server.faults.append(Fault(drip=clock.wait, piece=2000))
    with client(server, clock) as index:
        file = index.files("tool")[0]
        assert hashlib.sha256(index.content(file)).hexdigest() == file.sha256
    assert clock.now > 2 * index_client.WHILE


# ---- parts and copies


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_is_shorter_than_the_index_says_is_an_error(server: FakeIndex, ranges: bool) -> None:
    server.ranges = ranges
    server.faults.append(Fault("files/", length=10**17, times=1))  # of the HEAD
    with client(server) as index, pytest.raises(MeasureFailed, match="ends before byte"):
        index.metadata(index.files("tool")[0])


def test_a_part_that_is_empty_does_not_hang() -> None:
    with pytest.raises(EOFError, match="ends before byte 0 of the 10"):
        RemoteFile(10, lambda start, length: b"", lambda: b"").read()


def test_a_file_of_more_bytes_than_it_should_have_is_given_up(server: FakeIndex) -> None:
    small = len(server.projects["tool"][WHEEL])
    with client(server) as index:
        file = index.files("tool")[0]
        assert index.size(file) == small
        server.faults.append(Fault("files/", content=b"a" * (small + 1)))
        with pytest.raises(IndexUnavailable, match="does not end"):
            index.content(file)


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>Log in</html>", gzip.compress(b"Name: tool\n")[:-5]],
    ids=["nothing", "a page", "cut"],
)
def test_a_copy_of_metadata_that_is_none_is_an_error(server: FakeIndex, content: bytes) -> None:
    server.metadata_copies = True
    server.faults.append(Fault(".metadata", content=content, headers={"Content-Encoding": "gzip"}))
    with client(server) as index, pytest.raises(IndexUnavailable, match="METADATA of tool-1"):
        index.metadata(index.files("tool")[0])
