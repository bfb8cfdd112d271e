"""A pipe, a device or a socket in the place of a file is refused, and nothing waits for what it
brings.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import ROOT, ctk
from ctk.channel.check import check_channel
from ctk.channel.history import STATES
from ctk.channel.publish import Folder
from ctk.core.checkout import HISTORY, Workspace
from ctk.core.disk import disk_errors
from ctk.core.errors import ChannelBroken, CtkError, NoSpace
from ctk.core.files import NotPlain, file_sha256, odd_below, open_plain, read_json, read_plain
from ctk.package.reader import read_info
from ctk.package.records import checked_records, records
from ctk.solve.solve import reading


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": _socket,
}


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """A test that waits for a pipe would never end: it fails."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=KINDS)
def odd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Puts what is not a file in the place of a file of a channel in the folder ``c``."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    for subdir in ("noarch", "linux-64"):
        (tmp_path / "c" / subdir).mkdir(parents=True)
        empty = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": {}}
        (tmp_path / "c" / subdir / "repodata.json").write_text(json.dumps(empty))

    def put(name: str) -> Path:
        path = Path("c", name)
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        KINDS[request.param](path)
        return path

    return put


def test_a_file_is_opened_if_it_is_one(odd: Callable[[str], Path], tmp_path: Path) -> None:
    path = odd("a.json")
    for read in (open_plain, read_plain, file_sha256):
        with pytest.raises(NotPlain):
            read(path)
    assert [*odd_below(tmp_path / "c")] == [tmp_path / path]
    assert read_json(path) is None
    with (
        pytest.raises(NoSpace, match=r"cannot read c/a\.json: it is a pipe, a device or a socket"),
        disk_errors(),
    ):
        read_plain(path)
    (tmp_path / "b").write_bytes(b"text")
    (tmp_path / "link").symlink_to("b")
    assert read_plain(tmp_path / "link") == b"text"
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path)


def test_a_package_is_refused(odd: Callable[[str], Path]) -> None:
    path = odd("linux-64/a-1-0.conda")
    with pytest.raises(CtkError, match="cannot be read"):
        read_info(path)


def test_an_index_is_refused(odd: Callable[[str], Path]) -> None:
    odd("linux-64/repodata.json")
    with pytest.raises(ChannelBroken, match="it is a pipe, a device or a socket"):
        records(Path("c"))


@pytest.mark.parametrize(
    "name", ["repodata.json", "repodata.json.zst", "repodata_shards.msgpack.zst"]
)
@pytest.mark.parametrize("form", ["folder", "address"])
def test_a_solver_is_not_given_an_index_that_is_no_file(
    odd: Callable[[str], Path], name: str, form: str, tmp_path: Path
) -> None:
    odd(f"noarch/{name}")
    channel = tmp_path / "c"
    with (
        pytest.raises(ChannelBroken, match="is not a file"),
        reading([channel if form == "folder" else channel.as_uri()]),
    ):
        pytest.fail("it was given")


@pytest.mark.parametrize(
    "name",
    [
        "linux-64/repodata.json",
        "noarch/repodata.json.zst",
        "noarch/run_exports.json",
        f"{HISTORY}/{STATES}",
    ],
)
def test_a_check_names_what_is_no_file(odd: Callable[[str], Path], name: str) -> None:
    odd(name)
    found = check_channel(Path("c")).as_json()["problems"]
    assert any(problem["package"] == name for problem in found), found


@pytest.mark.parametrize("name", ["times.json", "names.json", STATES])
def test_the_notes_of_a_published_folder_are_read_without_waiting(
    odd: Callable[[str], Path], name: str
) -> None:
    odd(f"{HISTORY}/{name}")
    folder = Folder(Path("c"), Path("c"))
    for read in (folder.history, folder.names, folder.times):
        try:
            read()
        except ChannelBroken as error:
            assert name in error.cause


GOOD = {"name": "a", "version": "1.0", "build": "0", "build_number": 0, "depends": []}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        {"name": ""},
        {"name": "a\x1b[31m"},
        {"name": ["a"]},
        {"version": "no version!"},
        {"version": ""},
        {"version": 1.0},
        {"build_number": "x"},
        {"build_number": True},
        {"depends": "a"},
        {"depends": [None]},
        {"constrains": {}},
    ],
)
def test_a_record_of_an_index_that_no_client_can_use_is_named(
    wrong: object, tmp_path: Path
) -> None:
    record = {**GOOD, **wrong} if isinstance(wrong, dict) else wrong
    (tmp_path / "noarch").mkdir()
    file = tmp_path / "noarch" / "repodata.json"
    file.write_text(json.dumps({"packages.conda": {"a-1.0-0.conda": record}}))
    with pytest.raises(ChannelBroken, match=r"noarch/a-1\.0-0\.conda: "):
        checked_records(tmp_path)
    file.write_text(json.dumps({"packages.conda": {"a-1.0-0.conda": GOOD}}))
    assert checked_records(tmp_path)


READ = {
    # A file of a checkout -> commands that read it.
    "recipes/cuda-version/recipe.yaml": ("lint", "feedstock cuda-version there --maintainer me"),
    "variants/contents.json": ("release diff 13.3 13.4",),
    "conda_build_config.yaml": ("lint", "feedstock cuda-version there --maintainer me"),
    "pyproject.toml": ("feedstock cuda-version there",),
    "LICENSE": ("feedstock cuda-version there --maintainer me",),
    "conda-forge.yml": ("feedstock cuda-version there --maintainer me",),
}


@pytest.mark.parametrize("file", READ)
def test_no_command_waits_for_a_file_of_a_checkout(
    odd: Callable[[str], Path], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd("place").rename("made")
    root = Path("checkout").absolute()
    (root / "recipes").mkdir(parents=True)
    shutil.copytree(ROOT / "recipes/cuda-version", root / "recipes/cuda-version")
    shutil.copytree(ROOT / "variants", root / "variants")
    for name in ("conda_build_config.yaml", "pyproject.toml", "LICENSE", "conda-forge.yml"):
        shutil.copy(ROOT / name, root / name)
    (root / file).unlink()
    Path("made").rename(root / file)
    for line in READ[file]:
        done = ctk(Workspace(root), *line.split())
        assert done.returncode, done.stdout
        assert "Traceback" not in done.stderr and "\nnext: " in done.stderr, done.stderr
        assert Path(file).name in done.stderr
