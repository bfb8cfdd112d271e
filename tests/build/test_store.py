"""The store of a cluster: a file has the hash of its name, or counts as absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ctk.build.cluster import Cluster, Store
from ctk.core.errors import BadValue, NoSpace
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


def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NotReady, match="need distributed, which is not installed") as error:
        Cluster("tcp://127.0.0.1:1", "file:///somewhere")
    assert "./scripts/setup" in error.value.step
