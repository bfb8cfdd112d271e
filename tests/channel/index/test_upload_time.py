"""The upload time of a file: the index's, else that of its newest member, never the
current time.
"""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest

from ctk.core.checkout import Workspace
from ctk.core.times import time_text
from ctk.index import IndexSettings
from ctk.index.client import Retry
from ctk.index.index import Index
from ctk.lock.model import load
from kit.ctk_release import Have, Run, snapshot
from kit.fake_index import FakeIndex, serve

pytest_plugins = ["kit.ctk_release_fixtures"]
FILE = "tool-1.0-py3-none-any.whl"


def when(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def zipped(times: Mapping[str, tuple[int, ...]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, time in times.items():
            archive.writestr(zipfile.ZipInfo(name, time), b"x")  # type: ignore[arg-type]
    return out.getvalue()


def uploaded(server: FakeIndex, distribution: str = "tool", **settings: object) -> int:
    with Index(
        IndexSettings(index_url=server.url, timeout=60, **settings), Retry(attempts=1)
    ) as index:  # type: ignore[arg-type]
        return index.uploaded(index.files(distribution)[0])


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    with serve() as index:
        index.add(FILE, zipped({"a": (2021, 3, 4, 5, 6, 8), "b": (2020, 1, 1, 0, 0, 0)}))
        yield index


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("2025-08-04T12:34:56.999999Z", "2025-08-04T12:34:56"),  # whole seconds, never the next one
        ("2025-08-04T12:34:56+02:00", "2025-08-04T10:34:56"),
        ("1970-01-01T00:00:00Z", "1980-01-01T00:00:00"),
    ],
)
def test_the_index_s_time_is_taken_without_another_request(
    server: FakeIndex, stated: str, expected: str
) -> None:
    server.html, server.uploaded[FILE] = False, stated
    assert uploaded(server) == when(expected)
    assert [r.path for r in server.requests] == ["/simple/tool/"]


@pytest.mark.parametrize("html", [True, False], ids=["html", "json"])
def test_without_the_index_s_time_that_of_the_newest_member_counts(
    server: FakeIndex, html: bool
) -> None:
    server.html, server.upload_time = html, None
    assert uploaded(server) == when("2021-03-04T05:06:08")


def test_of_a_large_wheel_only_the_directory_is_read(server: FakeIndex) -> None:
    server.add_wheel("big", "1", files={"big/data.bin": os.urandom(3_000_000)})
    assert uploaded(server, "big") == when("2020-01-01T00:00:00")
    parts = [r.range for r in server.requests if r.method == "GET" and "/files/" in r.path]
    assert len(parts) == 1
    assert parts[0]


def test_of_a_source_distribution_too(server: FakeIndex) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, moment in (
            ("source-1/a", "2022-02-02T02:02:02"),
            ("source-1/b", "2019-01-01T00:00:00"),
        ):
            member = tarfile.TarInfo(name)
            member.mtime = when(moment)
            archive.addfile(member)
    server.add("source-1.tar.gz", out.getvalue())
    assert uploaded(server, "source") == when("2022-02-02T02:02:02")


@pytest.mark.parametrize("first", ["silent", "later", "earlier"])
def test_of_several_indexes_the_earliest_upload_counts(server: FakeIndex, first: str) -> None:
    """A mirror states the time when it fetched the file, or none."""
    times = {"silent": None, "later": "2024-06-01T00:00:00Z", "earlier": "2023-01-01T00:00:00Z"}
    with serve() as other:
        other.add(FILE, server.projects["tool"][FILE])
        server.html = other.html = False
        server.upload_time = times[first]
        other.upload_time = times["later" if first == "earlier" else "earlier"]
        assert uploaded(server, extra_index_urls=(other.url,)) == when("2023-01-01T00:00:00")


def test_a_lock_has_the_index_s_times(run: Run, here: Workspace, index: FakeIndex) -> None:
    file = "nvidia_cuda_nvrtc-13.4.92-py3-none-win_amd64.whl"
    index.html, index.uploaded[file] = False, "2025-08-04T12:34:56.7Z"
    run("add", "13.4", "--write")
    lock = load(here.variants / "cuda-13.4.lock")
    assert {a.uploaded for a in lock.artefacts if a.file != file} == {when("2026-05-04T03:02:01")}
    assert {a.uploaded for a in lock.artefacts if a.file == file} == {when("2025-08-04T12:34:56")}
    assert lock.manifest is not None
    assert lock.manifest.uploaded == when("2026-05-04T03:02:01")
    assert '"uploaded": "2025-08-04T12:34:56Z"}' in (here.variants / "cuda-13.4.lock").read_text()


def test_a_minor_has_the_time_of_its_first_manifest_and_keeps_it(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    """Packages without artefacts have it: neither a newer patch nor an index without the first
    manifest changes it.
    """
    first, second = (f"cuda_toolkit-13.4.{patch}-py2.py3-none-any.whl" for patch in (2, 3))
    index.uploaded |= {first: "2026-01-02T00:00:00Z", second: "2026-03-04T00:00:00Z"}
    run("add", "13.4", "--write")
    assert load(here.variants / "cuda-13.4.lock").since == when("2026-01-02T00:00:00")
    del index.projects["cuda-toolkit"][first]
    assert "nothing changes" in run("add", "13.4", "--write")
    index.uploaded[second] = "2024-01-01T00:00:00Z"
    assert "nothing changes" in run("add", "13.4", "--write")


def test_a_locked_file_keeps_its_time_and_a_new_file_has_its_own(
    run: Run, here: Workspace, index: FakeIndex, have: Have
) -> None:
    """Packages carry the time, so another index with other times must not change a lock."""
    before = have("13.4")
    index.upload_time = "2030-01-01T00:00:00Z"
    assert "nothing changes" in run("add", "13.4", "--write")
    index.upload_time = None
    assert "nothing changes" in run("add", "13.4", "--write")
    assert snapshot(here) == before
    index.add_wheel(
        "nvidia-cuda-nvrtc", "13.4.92", "py3-none-win_amd64", files={"other.txt": b"rebuilt"}
    )
    run("add", "13.4", "--write")
    nvrtc = load(here.variants / "cuda-13.4.lock").components["nvrtc"].artefacts
    assert {t: time_text(a.uploaded) for t, a in nvrtc.items() if a} == {
        "linux-64": "2026-05-04T03:02:01Z",
        "linux-aarch64": "2026-05-04T03:02:01Z",
        "win-64": "2020-01-01T00:00:00Z",
        "win-arm64": "2026-05-04T03:02:01Z",
    }
