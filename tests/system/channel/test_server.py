"""A channel on a server: the order of uploads, a run that is continued, names that are taken, and
what is listed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import zstandard
from typer.testing import Result

from ctk.channel.publish import Folder
from ctk.channel.repodata import in_order, read_index
from ctk.channel.server import Server, on_server, publish
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, ChannelMissing, NameReused, PublishFailed
from ctk.fetch import repodata
from ctk.solve.solve import Scenario, solve
from kit.fake_index import FakeIndex, Fault
from kit.fake_index import serve as serve_index
from kit.small_channels import Draft, build, digit, serve
from kit.upload_server import upload_server

pytest_plugins = ["kit.channel_fixtures"]

KEYS = ("PREFIX_API_KEY", "ACTIONS_ID_TOKEN_REQUEST_URL", "GITHUB_ACTIONS")


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes a key for the server to the file where rattler keeps keys."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "auth.json").write_text(json.dumps({"127.0.0.1": {"BearerToken": "the-key"}}))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "auth.json"))


def channel(folder: Path, depends: Mapping[str, Sequence[str]]) -> list[Path]:
    """The packages of a channel with these dependencies, in the order of upload.

    Their files are fakes.
    """
    (folder / "noarch").mkdir(parents=True, exist_ok=True)
    records = {
        f"{name}-1-0.conda": {"name": name, "depends": list(needs), "sha256": "00"}
        for name, needs in depends.items()
    }
    for file in records:
        (folder / "noarch" / file).write_bytes(b"package")
    (folder / "noarch" / "repodata.json").write_text(json.dumps({"packages.conda": records}))
    return [folder / name for name in in_order(folder)]


def test_every_package_comes_once_and_after_its_needs_unless_they_are_in_a_circle(
    tmp_path: Path,
) -> None:
    depends = {"a": ["b", "d", "elsewhere"], "b": ["c"], "c": ["b"], "d": ["c"], "e": ["e"]}
    assert [file.name[0] for file in channel(tmp_path, depends)] == ["c", "b", "d", "a", "e"]


def test_all_of_it_is_uploaded_with_the_key_that_rattler_has(tmp_path: Path) -> None:
    files, seen = channel(tmp_path / "channel", {"a": ["b"], "b": []}), []
    with upload_server(tmp_path / "server") as server:
        publish(files, Server("prefix", server.url, "cuda"), progress=seen.append)
    assert [(r["path"], r["key"]) for r in server.requests] == [
        ("/api/v1/upload/cuda", "Bearer the-key")
    ] * 2
    assert server.files == ["b-1-0.conda", "a-1-0.conda"]
    assert seen == files


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(0, marks=pytest.mark.sweep),
        500,
        *(pytest.param(n, marks=pytest.mark.sweep) for n in (401, 429)),
    ],
)
def test_a_refusal_or_no_answer_stops_before_what_needs_the_package_and_the_next_run_goes_on(
    tmp_path: Path, status: int
) -> None:
    said = status or "no answer in"
    files = channel(tmp_path / "channel", {"a": ["b"], "b": ["c"], "c": []})
    with upload_server(tmp_path / "server", **{"b-1": status}) as server:
        with pytest.raises(
            PublishFailed, match=rf"does not accept b-1-0\.conda for the channel cuda.*{said}"
        ) as error:
            publish(files, Server("prefix", server.url, "cuda"), patience=120 if status else 15)
        assert "1 package was sent before it; " in error.value.step
        # Rattler asks again at some answers.
        assert list(dict.fromkeys(server.files)) == ["c-1-0.conda", "b-1-0.conda"]
    with upload_server(tmp_path / "repaired") as repaired:
        publish(files, Server("prefix", repaired.url, "cuda"))
        assert repaired.files == ["c-1-0.conda", "b-1-0.conda", "a-1-0.conda"]
        repaired.stop()
        with pytest.raises(PublishFailed, match="does not accept c-1-0"):  # a server that is down
            publish(files, Server("prefix", repaired.url, "cuda"))


@pytest.mark.parametrize(
    ("status", "step"),
    [
        (
            401,
            ("the login in the file that RATTLER_AUTH_FILE names is not known there: correct it"),
        ),
        (
            403,
            "that login may not write into the channel: ask whoever runs the server for the right",
        ),
        (404, "the server has no such channel"),
        (413, "the package is larger than the server accepts"),
        (422, "the server looked into the package and rejects it: `ctk check` does the same here"),
        (500, ""),
    ],
)
def test_a_refused_upload_has_the_step_that_can_help_with_its_status(
    tmp_path: Path, status: int, step: str
) -> None:
    """Only what may be gone the next time is tried again."""
    files = channel(tmp_path / "channel", {"a": []})
    with (
        upload_server(tmp_path / "server", **{"a-1": status}) as server,
        pytest.raises(PublishFailed) as error,
    ):
        publish(files, Server("prefix", server.url, "cuda"))
    assert error.value.step.startswith(step or "0 packages were sent before it; ")
    assert ("run the command again to continue" in error.value.step) is (not step)


@pytest.mark.parametrize("status", [401, 403])
def test_a_channel_that_wants_a_login_says_where_logins_are(tmp_path: Path, status: int) -> None:
    with upload_server(tmp_path / "server", index=status) as server:
        with pytest.raises(PublishFailed) as error:
            on_server(f"{server.url}/cuda")
        with pytest.raises(ChannelMissing) as missing:
            solve(Scenario(("cuda-core",), "linux-64"), [f"{server.url}/cuda"])
    for step in (error.value.step, missing.value.step):
        assert step.startswith("write the login into a file that RATTLER_AUTH_FILE names")


def test_without_a_key_or_an_identity_nothing_is_sent(tmp_path: Path) -> None:
    files = channel(tmp_path / "channel", {"a": []})
    with upload_server(tmp_path / "server") as server:
        with pytest.raises(PublishFailed, match="attestation") as error:
            publish(files, Server("prefix", server.url, "cuda"), attest=True)
        assert "id-token: write" in error.value.step
        (tmp_path / "auth.json").write_text("{}")
        with pytest.raises(PublishFailed, match="key"):
            publish(files, Server("prefix", server.url, "cuda"))
    assert server.requests == []


@pytest.mark.parametrize("text", [None, "{", '{"packages.conda": {}}'])
def test_a_folder_that_is_no_channel_is_named(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "noarch").mkdir()
    if text is not None:
        (tmp_path / "noarch" / "repodata.json").write_text(text)
    with pytest.raises((ChannelBroken, PublishFailed), match=str(tmp_path)):
        in_order(tmp_path)


# Names that are taken


def test_the_names_of_a_server_are_read_as_clients_read_them(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    drafts = [
        digit(1),
        digit(2),
        Draft("arm", subdir="linux-aarch64"),
        Draft("win", subdir="win-64"),
    ]
    folder.publish(build(tmp_path / "channel", *drafts))
    with serve(folder.path) as url:
        assert on_server(url) == read_index(folder.path).names()
        assert len(on_server(url)) == 4


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client with one try, and caches of its own."""
    monkeypatch.setenv("PIP_TIMEOUT", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("CTK_ROOT", str(tmp_path / "checkout"))


@pytest.mark.usefixtures("hasty")
def test_a_server_that_does_not_answer_is_an_error_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(PublishFailed) as error:
        on_server(f"http://127.0.0.1:{silent.getsockname()[1]}/cuda")
    assert "does not say which names it has" in error.value.cause
    assert error.value.step.endswith("nothing was sent")


HUGE = {
    "an endless index": Fault("noarch/repodata.json", content=b" " * (1 << 16), repeat=1 << 14),
    "a bomb": Fault("noarch/repodata.json.zst", content=zstandard.compress(b" " * (200 << 20), 19)),
    "an index that breaks off": Fault("noarch/repodata.json", truncate=20),
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("name", HUGE)
def test_the_names_of_a_server_are_read_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(repodata, "PACKED", 1 << 20)
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "channel", digit(1)))
    with serve_index(FakeIndex(folder=folder.path)) as server:
        server.faults.append(HUGE[name])
        with pytest.raises(PublishFailed) as error:
            on_server(server.channel)
        server.faults.clear()
        assert len(on_server(server.channel)) == 1
    assert server.channel in error.value.cause


@pytest.fixture
def checkout(two_states: Workspace) -> Workspace:
    """A checkout whose channel has digit1 and hello."""
    build(two_states.channel, digit(1), Draft("hello"))
    return two_states


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The channel on the server, with another hello."""
    folder = Folder(tmp_path / "server" / "published" / "cuda", tmp_path)
    folder.publish(build(tmp_path / "theirs", Draft("hello", files={"a": b"b"})))
    return folder.path


def test_a_server_is_not_sent_a_name_that_has_other_content_there(
    checkout: Workspace, theirs: Path, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    with upload_server(tmp_path / "server") as server:
        words = ("publish", "--to", f"prefix+{server.url}/cuda")
        refused = run_ctk(*words).exception
        assert isinstance(refused, NameReused) and server.files == []
        done = run_ctk(*words, "--skip-taken")
    for channel in (theirs, checkout.channel):
        assert read_index(channel).names()["linux-64/hello-1.0-h0_0.conda"] in refused.cause
    assert "in recipes/hello/recipe.yaml" in refused.step
    assert done.exception is None
    assert "1 were skipped, because their names are taken" in done.stdout
    assert server.files == ["digit1-1.0-h0_0.conda"]


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("status", [404, 403])
def test_nothing_is_sent_to_a_server_without_an_index_unless_the_channel_is_new(
    run_ctk: Callable[..., Result], tmp_path: Path, status: int
) -> None:
    with upload_server(tmp_path / "server", index=status) as server:
        place = f"prefix+{server.url}/cuda"
        refused = run_ctk("publish", "--to", place).exception
        assert server.files == []
        done = run_ctk("publish", "--to", place, "--new", "--wait", "0")
    assert isinstance(refused, PublishFailed)
    assert "does not say which names it has" in refused.cause
    assert "`ctk publish --new`" in refused.step
    assert done.exception is None  # the uploaded packages gave it an index
    assert sorted(server.files) == ["digit1-1.0-h0_0.conda", "hello-1.0-h0_0.conda"]


HELD = {"digit1": 409, "hello": 409}


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("published", "status", "wait", "said"),
    [
        ((), {"later": 9}, 600, "2 packages are in the channel cuda, listed with their sha256"),
        (
            (digit(1), Draft("hello")),
            HELD,
            0,
            "2 packages are in the channel cuda, listed with their sha256",
        ),
        (
            (),
            {"later": 999},
            0,
            "cuda lists 0 of the 2 packages that it was sent; missing: linux-64/hello-1.0-h0_0.con",
        ),
        (
            (digit(1),),
            HELD,
            0,
            "cuda lists 1 of the 2 packages that it was sent; missing: linux-64/hel",
        ),
    ],
    ids=["listed later", "there already", "not listed", "held back"],
)
def test_a_server_is_asked_afterwards_what_it_lists(
    run_ctk: Callable[..., Result],
    tmp_path: Path,
    published: tuple[Draft, ...],
    status: dict[str, int],
    wait: int,
    said: str,
) -> None:
    if published:
        Folder(tmp_path / "server" / "published" / "cuda", tmp_path).publish(
            build(tmp_path / "theirs", *published)
        )
    with upload_server(tmp_path / "server", **status) as server:
        place = f"prefix+{server.url}/cuda"
        done = run_ctk("publish", "--to", place, "--new", "--wait", str(wait))
    failed = "lists" in said
    assert isinstance(done.exception, PublishFailed) if failed else done.exception is None
    assert said in (done.exception.cause if failed else done.stdout)


@pytest.mark.usefixtures("checkout", "theirs")
def test_a_name_with_other_content_on_the_server_is_an_error_that_names_it(
    run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    with upload_server(tmp_path / "server", hello=409) as server:
        done = run_ctk("publish", "--to", f"prefix+{server.url}/cuda", "--new")
    assert isinstance(done.exception, NameReused)
    assert (
        "linux-64/hello-1.0-h0_0.conda" in done.exception.cause
        and "digit1" not in done.exception.cause
    )
    assert (
        "raise the first term of `build: number` in recipes/hello/recipe.yaml"
        in done.exception.step
    )
