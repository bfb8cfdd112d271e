"""The store of a cluster: a file has the hash of its name, or counts as absent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

from ctk.build.cluster import Cluster, Store
from ctk.core.errors import BadValue, NoSpace, NotReady
from ctk.core.files import file_sha256


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"file://{tmp_path}/store")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


def test_a_file_comes_back_by_its_hash_and_a_damaged_one_is_absent_and_can_be_put_again(
    store: Store, file: Path, tmp_path: Path
) -> None:
    sha, copy = store.put(file), tmp_path / "deep" / "copy"
    (stored,) = (p for p in (tmp_path / "store").rglob("*") if p.is_file())
    assert stored.name == sha == file_sha256(file)
    assert store.get(sha, copy) and copy.read_bytes() == b"content"
    stored.write_bytes(b"CONTENT")
    assert not store.get(sha, copy)
    assert not copy.exists()
    store.put(file)
    assert store.get(sha, copy)


def test_a_note_that_was_cut_off_is_no_note(store: Store, tmp_path: Path) -> None:
    store.publish("key", {"packages": {}})
    assert store.finished("key") == {"packages": {}}
    note = tmp_path / "store" / "builds" / "key.json"
    note.write_text(note.read_text()[:-3])
    assert store.finished("key") is None
    assert store.finished("other") is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://place", "the store nosuch://place cannot be opened: .*nosuch"),
        ("nosuch://me:secret@place", r"the store nosuch://\*\*\*@place"),
    ],
)
def test_a_url_that_cannot_be_a_store_is_refused(url: str, message: str) -> None:
    with pytest.raises(BadValue, match=message) as error:
        Store(url)
    assert "secret" not in error.value.cause


def test_a_store_that_cannot_be_written_or_is_full_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoSpace, match=f"the store {file}/below fails: "):
        Store(f"{file}/below").put(file)
    store = Store(str(file.parent / "store"))
    # As in an object store, which writes under the name itself.
    monkeypatch.setattr(store, "_renames", False)
    place = file.parent / "store" / "builds"
    place.mkdir(parents=True)
    (place / "key.json").symlink_to("/dev/full")
    with pytest.raises(NoSpace, match="is full"):
        store.publish("key", {})


class Bucket(MemoryFileSystem):
    """An object store as s3fs shows it: paths begin with a bucket, answers are causes of errors."""

    protocol = "testbucket"
    root_marker = ""
    buckets = ("made",)
    refuses: Callable[[], None] | None = None

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("testbucket://").strip("/")

    def exists(self, path: str, **_: Any) -> bool:
        return False

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        raise AssertionError("s3fs makes the bucket here")

    def put_file(self, *words: Any, **_: Any) -> None:
        self.pipe_file(words[1], b"")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        if Bucket.refuses:
            Bucket.refuses()
        if path.partition("/")[0] not in self.buckets:
            raise FileNotFoundError("The specified bucket does not exist")


def answered(status: int, code: str) -> Callable[[], None]:
    """A server's answer, as s3fs turns codes that it does not know into EIO."""

    def refuse() -> None:
        answer = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}
        raise OSError(5, code) from ClientError(answer, "PutObject")  # type: ignore[arg-type]

    return refuse


def without_login() -> None:
    raise NoCredentialsError


@pytest.mark.parametrize(
    ("refuses", "fault", "step"),
    [
        (answered(507, "XMinioStorageFull"), "is full: ", "free some space there"),
        (answered(403, "QuotaExceeded"), "is full: ", "free some space there"),
        (answered(500, "InternalError"), "fails: ", "check its address and login"),
        (without_login, "fails: NoCredentialsError: ", "check its address and login"),
    ],
    ids=["a full server", "a full quota", "a broken server", "no login"],
)
def test_an_object_store_that_refuses_says_why_and_what_to_do(
    file: Path, monkeypatch: pytest.MonkeyPatch, refuses: Callable[[], None], fault: str, step: str
) -> None:
    register_implementation("testbucket", Bucket, clobber=True)
    monkeypatch.setattr(Bucket, "refuses", refuses)
    store = Store("testbucket://made/ctk")
    for write in (lambda: store.put(file), lambda: store.publish("key", {})):
        with pytest.raises(NoSpace, match=f"the store testbucket://made/ctk {fault}") as error:
            write()
        assert error.value.step.startswith(step)


def test_a_mistyped_bucket_is_an_error_and_is_not_made(file: Path) -> None:
    register_implementation("testbucket", Bucket, clobber=True)
    Store("testbucket://made/ctk").put(file)
    store = Store("testbucket://maed/ctk")
    for write in (lambda: store.put(file), lambda: store.publish("key", {})):
        with pytest.raises(NoSpace, match="the store testbucket://maed/ctk is not there") as error:
            write()
        assert "--store" in error.value.step


def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NotReady, match="need distributed, which is not installed") as error:
        Cluster("tcp://127.0.0.1:1", "file:///somewhere")
    assert "./scripts/setup" in error.value.step
