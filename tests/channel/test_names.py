"""A package file name is never reused with other content: in folders, on servers, and asked beforehand."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from conftest import ROOT
from ctk.channel.check import check_channel
from ctk.channel.publish import HISTORY, Folder
from ctk.channel.repodata import read_index
from ctk.channel.server import on_server
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, NameReused, PublishFailed
from ctk.plan.recipes import find_recipes, maker_of
from kit.small_channels import Draft, build, digit, serve
from kit.upload_server import upload_server

pytest_plugins = ["kit.channel_fixtures"]


def test_another_content_under_a_published_name_is_refused_with_both_hashes(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", ROOT / "recipes")
    first = build(tmp_path / "one", Draft("cuda-cudart"), digit(1))
    folder.publish(first)
    before = {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}
    second = build(tmp_path / "two", Draft("cuda-cudart", files={"a": b"b"}), digit(1), digit(2))
    with pytest.raises(NameReused) as error:
        folder.publish(second)
    file = "linux-64/cuda-cudart-1.0-h0_0.conda"
    for text in (file, read_index(first).names()[file], read_index(second).names()[file]):
        assert text in error.value.cause
    assert "digit" not in error.value.cause
    assert error.value.step.startswith("raise the first term of `build: number` in recipes/cuda-cudart/recipe.yaml")
    assert before == {p: p.read_bytes() for p in before}
    assert not (folder.path / "linux-64" / "digit2-1.0-h0_0.conda").exists()


def test_a_name_is_taken_for_good(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(1), digit(2)))
    folder.publish(build(tmp_path / "two", digit(1)), exact=True)
    (folder.path / "linux-64" / "digit2-1.0-h0_0.conda").unlink()
    shutil.rmtree(folder.path / HISTORY / "1")
    with pytest.raises(NameReused, match="digit2"):
        folder.publish(build(tmp_path / "three", digit(2, "changed")))


def test_a_file_that_a_killed_run_left_has_taken_its_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(1)))
    digit(2).write(folder.path)
    with pytest.raises(NameReused, match="digit2"):
        folder.publish(build(tmp_path / "two", digit(2, "changed")))
    assert folder.publish(build(tmp_path / "three", digit(2))).packages == 2


@pytest.mark.parametrize("exact", [False, True])
def test_packages_whose_names_are_taken_can_be_left_out(tmp_path: Path, exact: bool) -> None:
    folder, kept = Folder(tmp_path / "www", tmp_path), "linux-64/digit2-1.0-h0_0.conda"
    folder.publish(build(tmp_path / "one", digit(1), digit(2)))
    before = read_index(folder.path).records[kept]
    gone = folder.publish(build(tmp_path / "two", digit(2), digit(3)), exact=True).left
    third = build(tmp_path / "three", digit(1, "changed"), digit(2, "changed"), digit(4))
    done = folder.publish(third, exact=exact, skip_taken=True)
    assert done.left_out == (kept, *gone)
    assert done.added == ("linux-64/digit4-1.0-h0_0.conda",)
    after = read_index(folder.path)
    # What left the index does not come back under its name with other content.
    others = set() if exact else {"noarch/digit3-1.0-h0_0.conda"}
    assert after.names().keys() == {*done.added, kept, *others}
    assert after.records[kept] == before
    assert {finding.check for finding in check_channel(folder.path).findings} == {"sbom"}


def test_each_package_of_each_recipe_is_traced_to_it() -> None:
    recipes = find_recipes(ROOT / "recipes")
    assert maker_of("cuda-cudart-dev_win-arm64", recipes) == "cuda-cudart"
    assert maker_of("libnvptxcompiler-dev_linux-64-files", recipes) == "libnvptxcompiler"
    assert maker_of("cuda-runtime", recipes) == "cuda-toolkit"
    assert maker_of("numba", recipes) is None


def test_the_names_of_a_server_are_read_as_clients_read_them(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    drafts = [digit(1), digit(2), Draft("arm", subdir="linux-aarch64"), Draft("win", subdir="win-64")]
    folder.publish(build(tmp_path / "channel", *drafts))
    with serve(folder.path) as url:
        assert on_server(url) == read_index(folder.path).names()
        assert len(on_server(url)) == 4


def test_a_server_that_does_not_answer_is_an_error_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(PublishFailed, match="no answer in 1 s"):
        on_server(f"http://127.0.0.1:{silent.getsockname()[1]}/cuda", patience=1)


@pytest.fixture
def checkout(two_states: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Its channel has digit1 and hello, and a server's key is at hand."""
    build(two_states.channel, digit(1), Draft("hello"))
    (tmp_path / "auth.json").write_text(json.dumps({"127.0.0.1": {"BearerToken": "the-key"}}))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "auth.json"))
    return two_states


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """What the server has published: another hello."""
    folder = Folder(tmp_path / "server" / "published" / "cuda", tmp_path)
    folder.publish(build(tmp_path / "theirs", Draft("hello", files={"a": b"b"})))
    return folder.path


def test_a_server_is_not_sent_a_name_that_has_other_content_there(
    checkout: Workspace, theirs: Path, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    with upload_server(tmp_path / "server") as server:
        words = ("publish", "--server", server.url, "--channel", "cuda")
        refused = run_ctk(*words).exception
        assert isinstance(refused, NameReused) and server.files == []
        done = run_ctk(*words, "--skip-taken")
    for channel in (theirs, checkout.channel):
        assert read_index(channel).names()["linux-64/hello-1.0-h0_0.conda"] in refused.cause
    assert "in recipes/hello/recipe.yaml" in refused.step
    assert done.exception is None
    assert "1 were left out, their names being taken" in done.stdout
    assert server.files == ["digit1-1.0-h0_0.conda"]


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("status", [404, 403])
def test_a_server_that_does_not_say_what_it_has_is_sent_nothing_unless_it_is_said_to_be_new(
    run_ctk: Callable[..., Result], tmp_path: Path, status: int
) -> None:
    with upload_server(tmp_path / "server", index=status) as server:
        refused = run_ctk("publish", "--server", server.url, "--channel", "cuda").exception
        assert server.files == []
        done = run_ctk("publish", "--server", server.url, "--channel", "cuda", "--new", "--wait", "0")
    assert isinstance(refused, PublishFailed)
    assert "does not say which names it has" in refused.cause
    assert "`ctk publish --new`" in refused.step
    assert (done.exception is None) == (status == 404)  # who may not read it cannot say that all is there
    assert sorted(server.files) == ["digit1-1.0-h0_0.conda", "hello-1.0-h0_0.conda"]


@pytest.mark.usefixtures("checkout")
def test_a_folder_and_a_server_exclude_each_other_but_for_a_server_of_the_environment(
    run_ctk: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    www = str(tmp_path / "www")
    refused = run_ctk("publish", "--to", www, "--server", "https://conda.example.org").exception
    assert isinstance(refused, BadValue)
    assert "--to and --server exclude each other" in refused.cause
    monkeypatch.setenv("CTK_SERVER", "https://conda.example.org")
    assert "state 1 of" in run_ctk("publish", "--to", www).stdout


HELD = {"digit1": 409, "hello": 409}


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("published", "status", "wait", "said"),
    [
        ((), {"later": 9}, 600, "2 packages are in the channel cuda, listed with their sha256"),
        ((digit(1), Draft("hello")), HELD, 0, "2 packages are in the channel cuda, listed with their sha256"),
        (
            (),
            {"later": 999},
            0,
            "cuda lists 0 of the 2 packages that it was sent; missing: linux-64/hello-1.0-h0_0.con",
        ),
        ((digit(1),), HELD, 0, "cuda lists 1 of the 2 packages that it was sent; missing: linux-64/hel"),
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
        Folder(tmp_path / "server" / "published" / "cuda", tmp_path).publish(build(tmp_path / "theirs", *published))
    with upload_server(tmp_path / "server", **status) as server:
        done = run_ctk("publish", "--server", server.url, "--channel", "cuda", "--new", "--wait", str(wait))
    failed = "lists" in said
    assert isinstance(done.exception, PublishFailed) if failed else done.exception is None
    assert said in (done.exception.cause if failed else done.stdout)


@pytest.mark.usefixtures("checkout", "theirs")
def test_a_server_that_holds_a_name_with_other_content_is_an_error_that_names_it(
    run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    with upload_server(tmp_path / "server", hello=409) as server:
        done = run_ctk("publish", "--server", server.url, "--channel", "cuda", "--new")
    assert isinstance(done.exception, NameReused)
    assert "linux-64/hello-1.0-h0_0.conda" in done.exception.cause and "digit1" not in done.exception.cause
    assert "raise the first term of `build: number` in recipes/hello/recipe.yaml" in done.exception.step
