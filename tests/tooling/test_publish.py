"""Uploading a channel: what a package needs is there before it, and a run that broke off is gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctk.channel.index_files import in_order
from ctk.channel.server import Target, publish
from ctk.core.errors import PublishFailed

Start = Callable[..., "Server"]
KEYS = ("RATTLER_AUTH_FILE", "PREFIX_API_KEY", "ACTIONS_ID_TOKEN_REQUEST_URL", "GITHUB_ACTIONS")


class Server:
    """The running server and what it was sent."""

    def __init__(self, folder: Path, *status: str) -> None:
        self.folder = folder
        program = Path(__file__).with_name("upload_server.py")
        self.process = subprocess.Popen([sys.executable, str(program), str(folder), *status])
        while not (folder / "port").exists():
            assert self.process.poll() is None
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{(folder / 'port').read_text()}"

    @property
    def requests(self) -> list[Mapping[str, str]]:
        path = self.folder / "requests"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a server that answers with a status for files whose names have a part; with a key for it at hand."""
    started: list[Server] = []

    def begin(**status: int) -> Server:
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        started.append(Server(folder, *(f"{name}={code}" for name, code in status.items())))
        return started[-1]

    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "auth.json").write_text(json.dumps({"127.0.0.1": {"BearerToken": "the-key"}}))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "auth.json"))
    yield begin
    for server in started:
        server.process.kill()
        server.process.wait()


def channel(folder: Path, depends: Mapping[str, Sequence[str]]) -> Path:
    """A channel of packages with these dependencies; the files hold nothing."""
    (folder / "noarch").mkdir(parents=True, exist_ok=True)
    records = {
        f"{name}-1-0.conda": {"name": name, "depends": list(needs), "sha256": "0"} for name, needs in depends.items()
    }
    for file in records:
        (folder / "noarch" / file).write_bytes(b"package")
    (folder / "noarch" / "repodata.json").write_text(json.dumps({"packages.conda": records}))
    return folder


def names(files: Sequence[Path]) -> list[str]:
    return [file.name.partition("-")[0] for file in files]


def test_what_a_package_needs_comes_before_it(tmp_path: Path) -> None:
    made = channel(tmp_path, {"a": ["b >=1", "c"], "b": ["d 1.*", "python"], "c": ["d"], "d": [], "e": []})
    assert names(in_order(made)) == ["d", "b", "c", "a", "e"]


def test_a_circle_is_uploaded_whole(tmp_path: Path) -> None:
    assert names(in_order(channel(tmp_path, {"a": ["b"], "b": ["a", "c"], "c": []}))) == ["c", "b", "a"]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=4), min_size=1))
def test_every_package_comes_once_and_after_its_needs_unless_they_are_in_a_circle(
    tmp_path_factory: pytest.TempPathFactory, depends: dict[str, list[str]]
) -> None:
    order = names(in_order(channel(tmp_path_factory.mktemp("channel"), depends)))
    assert sorted(order) == sorted(depends)

    def reaches(start: str) -> set[str]:
        found, stack = set(), [start]
        while stack:
            for need in depends.get(stack.pop(), ()):
                if need not in found:
                    found.add(need)
                    stack.append(need)
        return found

    for name, needs in depends.items():
        for need in needs:
            assert need not in depends or name in reaches(need) or order.index(need) < order.index(name)


def test_all_of_it_is_uploaded_with_the_key_that_rattler_has(tmp_path: Path, start: Start) -> None:
    server, seen = start(), []
    files = in_order(channel(tmp_path / "channel", {"a": ["b"], "b": []}))
    publish(files, Target(server.url, "cuda"), seen.append)
    assert [(r["path"], r["key"]) for r in server.requests] == [("/api/v1/upload/cuda", "Bearer the-key")] * 2
    assert [r["file"] for r in server.requests] == ["b-1-0.conda", "a-1-0.conda"]
    assert seen == files


def test_what_the_server_has_already_is_no_error(tmp_path: Path, start: Start) -> None:
    server = start(**{"b-1": 409})
    publish(in_order(channel(tmp_path / "channel", {"a": ["b"], "b": []})), Target(server.url, "cuda"))
    assert len(server.requests) == 2


def test_a_refusal_names_the_package_and_stops_before_what_needs_it(tmp_path: Path, start: Start) -> None:
    server = start(**{"b-1": 401})
    files = in_order(channel(tmp_path / "channel", {"a": ["b"], "b": ["c"], "c": []}))
    with pytest.raises(PublishFailed, match=r"does not take b-1-0\.conda for the channel cuda.*401") as error:
        publish(files, Target(server.url, "cuda"))
    assert error.value.step == "1 packages are there; run the command again to go on"
    assert [r["file"] for r in server.requests] == ["c-1-0.conda", "b-1-0.conda"]


@pytest.mark.parametrize(("status", "said"), [(500, "500"), (429, "429"), (404, "404"), (0, "no answer in")])
def test_a_server_that_fails_or_never_answers_is_given_up_and_the_next_run_goes_on(
    tmp_path: Path, start: Start, status: int, said: str
) -> None:
    server, files = start(**{"b-1": status}), in_order(channel(tmp_path / "channel", {"a": ["b"], "b": ["c"], "c": []}))
    with pytest.raises(PublishFailed, match=rf"does not take b-1-0\.conda .*{said}") as error:
        publish(files, Target(server.url, "cuda"), patience=120 if status else 15)
    assert error.value.step == "1 packages are there; run the command again to go on"
    mended = start()
    publish(files, Target(mended.url, "cuda"))
    assert [r["file"] for r in mended.requests] == ["c-1-0.conda", "b-1-0.conda", "a-1-0.conda"]


def test_a_server_that_is_down_is_an_error(tmp_path: Path, start: Start) -> None:
    server = start()
    server.process.kill()
    server.process.wait()
    with pytest.raises(PublishFailed, match="does not take a-1-0"):
        publish(in_order(channel(tmp_path / "channel", {"a": []})), Target(server.url, "cuda"))


def test_without_a_key_nothing_is_sent(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start()
    (tmp_path / "none.json").write_text("{}")
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "none.json"))
    with pytest.raises(PublishFailed, match="key"):
        publish(in_order(channel(tmp_path / "channel", {"a": []})), Target(server.url, "cuda"))
    assert server.requests == []


def test_an_attestation_needs_a_ci_job_that_has_an_identity(tmp_path: Path, start: Start) -> None:
    server = start()
    with pytest.raises(PublishFailed, match="attestation") as error:
        publish(in_order(channel(tmp_path / "channel", {"a": []})), Target(server.url, "cuda", attest=True))
    assert "id-token: write" in error.value.step
    assert server.requests == []


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"packages.conda": {}}'])
def test_a_folder_that_is_no_channel_is_named(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "noarch").mkdir()
    if text is not None:
        (tmp_path / "noarch" / "repodata.json").write_text(text)
    with pytest.raises(PublishFailed, match=str(tmp_path)):
        in_order(tmp_path)
