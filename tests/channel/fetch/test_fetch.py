"""The step fetch: which files enter the cache, also from a bad network."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import HashMismatch, IndexUnavailable, NotPublished
from ctk.fetch import fetch
from ctk.index import pip_settings
from ctk.index.client import Retry
from ctk.index.index import Index
from ctk.lock.model import Artefact
from kit.fake_index import FakeIndex, Fault, configure_pip, serve, wheel

TAGS = "py3-none-manylinux2014_x86_64"


@cache
def content(seed: int) -> bytes:
    data = hashlib.shake_256(str(seed).encode()).digest(300_000)
    return wheel("nvidia-cuda-runtime", f"13.4.{seed}", TAGS, [], {"data": data})


SIZE = len(content(0))


def artefact(seed: int) -> Artefact:
    return Artefact(
        "cudart",
        "nvidia-cuda-runtime",
        f"13.4.{seed}",
        "linux-64",
        name(seed),
        hashlib.sha256(content(seed)).hexdigest(),
        SIZE,
    )


def name(seed: int) -> str:
    return f"nvidia_cuda_runtime-13.4.{seed}-{TAGS}.whl"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    with serve() as index:
        for seed in range(3):
            index.add(name(seed), content(seed))
        configure_pip(monkeypatch, index, timeout="60")
        yield index


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def client() -> Index:
    """The client as configured, for which no time passes."""
    return Index(pip_settings(), Retry(attempts=3, sleep=lambda seconds: None, clock=lambda: 0.0))


def in_store(workspace: Workspace) -> set[str]:
    return {p.name for p in workspace.store.glob("??/*")}


def test_a_fetched_artefact_is_in_the_store_and_where_recipes_read_it(
    server: FakeIndex, workspace: Workspace
) -> None:
    (path,) = fetch.fetch([artefact(0)], workspace, client)
    assert path == workspace.root / ".cache/artefacts/cudart/13.4.0/linux-64.zip"
    assert path.read_bytes() == content(0)
    assert os.path.samefile(path, fetch.stored(artefact(0), workspace))
    server.requests.clear()
    assert fetch.fetch([artefact(0)], workspace, client) == [path]
    assert server.requests == []


def test_a_source_distribution_keeps_the_ending_by_which_it_is_unpacked(
    workspace: Workspace,
) -> None:
    sources = replace(artefact(0), file="cufinufft-2.5.1.tar.gz", target="noarch")
    assert fetch.laid_out(sources, workspace).name == "noarch.tar.gz"


def test_a_new_lock_replaces_the_file_that_recipes_read(
    server: FakeIndex, workspace: Workspace
) -> None:
    fetch.fetch([artefact(0)], workspace, client)
    other = wheel("nvidia-cuda-runtime", "13.4.0", TAGS, [], {"data": b"other"})
    server.add(name(0), other)
    new = replace(artefact(0), sha256=hashlib.sha256(other).hexdigest(), size=len(other))
    (path,) = fetch.fetch([new], workspace, client)
    assert path.read_bytes() == other
    assert fetch.stored(artefact(0), workspace).read_bytes() == content(0)


def test_a_download_that_broke_off_continues(server: FakeIndex, workspace: Workspace) -> None:
    server.faults.append(Fault(match=".whl", truncate=100_000, times=1))
    (path,) = fetch.fetch([artefact(0)], workspace, client)
    assert path.read_bytes() == content(0)
    ranges = [r.range for r in server.requests if r.method == "GET" and r.path.endswith(".whl")]
    assert ranges[0] is None
    assert ranges[-1] is not None
    assert int(ranges[-1].removeprefix("bytes=").rstrip("-")) > 0


@pytest.mark.parametrize("most", [1_000, 50_000])
def test_a_try_that_brought_data_is_no_failure(
    server: FakeIndex, workspace: Workspace, most: int
) -> None:
    server.faults.append(Fault(match=".whl", truncate=most))
    (path,) = fetch.fetch([artefact(0)], workspace, client)
    assert path.read_bytes() == content(0)
    assert len(server.requests) > SIZE // most


def test_tries_that_bring_next_to_nothing_or_the_same_again_are_failures(
    server: FakeIndex, workspace: Workspace
) -> None:
    for server.ranges, most in ((True, 50), (False, 100_000)):
        server.faults[:] = [Fault(match=".whl", truncate=most)]
        server.requests.clear()
        with pytest.raises(IndexUnavailable, match="nvidia-cuda-runtime"):
            fetch.fetch([artefact(0)], workspace, client)
        assert len([r for r in server.requests if r.path.endswith(".whl")]) <= 4


def test_a_server_that_is_too_slow_is_given_up_and_what_came_stays(
    server: FakeIndex, workspace: Workspace
) -> None:
    slow = Retry(attempts=2, sleep=lambda seconds: None, clock=itertools.count(0, 300).__next__)
    with pytest.raises(IndexUnavailable, match="is too slow: "):
        fetch.fetch([artefact(0)], workspace, lambda: Index(pip_settings(), slow))
    (part,) = (workspace.store / "partial").iterdir()
    assert content(0).startswith(part.read_bytes()) and part.stat().st_size


def test_a_later_run_continues_what_an_earlier_one_left(
    server: FakeIndex, workspace: Workspace
) -> None:
    server.faults.append(Fault(match=".whl", truncate=50))
    with pytest.raises(IndexUnavailable, match="nvidia-cuda-runtime"):
        fetch.fetch([artefact(0)], workspace, client)
    assert in_store(workspace) == set()
    server.faults.clear()
    server.requests.clear()
    fetch.fetch([artefact(0)], workspace, client)
    (only,) = [r.range for r in server.requests if r.method == "GET" and r.path.endswith(".whl")]
    assert only is not None
    assert int(only.removeprefix("bytes=").rstrip("-")) >= 50


def test_a_server_without_ranges_works_too(server: FakeIndex, workspace: Workspace) -> None:
    server.ranges = False
    server.faults.append(Fault(match=".whl", truncate=100_000, times=1))
    (path,) = fetch.fetch([artefact(0)], workspace, client)
    assert path.read_bytes() == content(0)


def test_files_that_were_fetched_before_an_error_stay(
    server: FakeIndex, workspace: Workspace
) -> None:
    server.faults.append(Fault(match=name(1), status=500))
    with pytest.raises(IndexUnavailable):
        fetch.fetch([artefact(0), artefact(1)], workspace, client, jobs=1)
    assert in_store(workspace) == {artefact(0).sha256}


def test_other_content_under_the_name_is_refused_and_fetched_anew(
    server: FakeIndex, workspace: Workspace
) -> None:
    other = content(9)
    server.faults.append(Fault(match=name(0), content=other))
    with pytest.raises(HashMismatch) as error:
        fetch.fetch([artefact(0)], workspace, client)
    assert artefact(0).sha256 in error.value.cause
    assert hashlib.sha256(other).hexdigest() in error.value.cause
    assert in_store(workspace) == set()
    assert not fetch.laid_out(artefact(0), workspace).exists()
    server.faults.clear()
    (path,) = fetch.fetch([artefact(0)], workspace, client)
    assert path.read_bytes() == content(0)


def test_more_content_than_locked_is_refused_without_reading_all_of_it(
    server: FakeIndex, workspace: Workspace
) -> None:
    server.faults.append(Fault(match=name(0), content=content(0) * 50))
    with pytest.raises(HashMismatch):
        fetch.fetch([artefact(0)], workspace, client)
    assert not [*(workspace.store / "partial").iterdir()]


def test_files_that_vanished_from_the_index_are_all_named(
    server: FakeIndex, workspace: Workspace
) -> None:
    for seed in (1, 2):
        del server.projects["nvidia-cuda-runtime"][name(seed)]
    with pytest.raises(NotPublished) as error:
        fetch.fetch([artefact(0), artefact(1), artefact(2)], workspace, client)
    assert error.value.cause.splitlines() == [
        "package index: 2 problems",
        f"  - the package index has no {name(1)} of nvidia-cuda-runtime 13.4.1",
        f"  - the package index has no {name(2)} of nvidia-cuda-runtime 13.4.2",
    ]
    # It is known before anything is downloaded.
    assert not [r for r in server.requests if r.path.endswith(".whl")]
    with pytest.raises(NotPublished, match=rf"^the package index has no {name(1)} "):
        fetch.fetch([artefact(0), artefact(1)], workspace, client)


def test_a_file_that_the_index_lists_but_does_not_have_is_named_too(
    server: FakeIndex, workspace: Workspace
) -> None:
    server.faults.append(Fault(match=name(2), status=404))
    with pytest.raises(NotPublished, match=r"lists .* but does not have it$"):
        fetch.fetch([artefact(2)], workspace, client)


def test_borrowed_files_are_removed_again_and_earlier_files_stay(
    server: FakeIndex, workspace: Workspace
) -> None:
    fetch.fetch([artefact(0)], workspace, client)
    three = [artefact(seed) for seed in range(3)]
    with fetch.borrowed(
        three, workspace, client, progress=lambda artefact, received: None
    ) as paths:
        assert [path.read_bytes() for path in paths] == [content(seed) for seed in range(3)]
    assert in_store(workspace) == {artefact(0).sha256}
    assert [path.exists() for path in paths] == [True, False, False]
    with (
        pytest.raises(ValueError, match="no"),
        fetch.borrowed(three, workspace, client, progress=lambda artefact, received: None),
    ):
        raise ValueError("no")
    assert in_store(workspace) == {artefact(0).sha256}
