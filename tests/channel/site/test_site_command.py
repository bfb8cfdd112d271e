"""`ctk site`: errors before anything is solved, and the replacement of an existing folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from conftest import ROOT
from ctk.channel.publish import SITE
from ctk.cli.main import app
from ctk.cli.work.site import address_for_users
from ctk.core.checkout import HISTORY
from ctk.core.errors import BadValue, Unsolvable
from ctk.site import Page, answers, write
from ctk.site.answers import Work
from kit import small_channels
from kit.small_sites import checkout, drafts


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs the command with a tiny channel for linux-64 only; returns the folder."""
    made = checkout(tmp_path / "checkout")
    for name in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, made.root / name)
    small_channels.build(made.channel, *drafts())
    small_channels.build(made.base_channel)
    monkeypatch.setenv("CTK_ROOT", str(made.root))

    def run(*words: str) -> Path:
        arguments = ["site", str(tmp_path / "site"), *words]
        typer.main.get_command(app).main(arguments, "ctk", standalone_mode=False)
        return tmp_path / "site"

    return run


def test_a_platform_for_which_nothing_is_built_is_refused(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(Unsolvable, match="nothing is built for win-64 here") as caught:
        build("--platform", "win-64")
    assert "ctk build --platform win-64" in caught.value.step
    other = (tmp_path / "checkout" / "output" / "channel").resolve()
    with pytest.raises(Unsolvable, match=f"{other} has nothing for win-64") as caught:
        build("--platform", "win-64", "--channel", str(other))
    assert "ctk build" not in caught.value.step
    assert not (tmp_path / "site").exists()


def test_a_channel_of_noarch_packages_alone_has_pages(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    only = small_channels.build(tmp_path / "only", small_channels.digit(1))
    site = build("--channel", str(only))
    assert "1 package, parts included, for any platform" in (site / "index.html").read_text()
    assert (site / "packages" / "digit1.html").is_file()


@pytest.mark.parametrize(
    ("channel", "url", "address"),
    [
        ("cuda", "http://host:8080/cuda/", "http://host:8080/cuda-site/"),
        ("cuda", "http://host:8080/x/cuda", "http://host:8080/x/cuda-site/"),
        ("cuda", "http://host:8080/other", "the address at which your web server serves SITE"),
        ("more/cuda", "http://host/cuda", "the address at which your web server serves SITE"),
        ("https://x.org/cuda", "http://x.org/cuda", "the address at which your web server serves"),
    ],
)
def test_users_are_given_the_address_beside_that_of_the_channel(
    tmp_path: Path, channel: str, url: str, address: str
) -> None:
    own = channel if "://" in channel else tmp_path / channel
    site = tmp_path / "cuda-site"
    assert address_for_users(site, own, url).startswith(address.replace("SITE", str(site)))


def test_a_platform_that_is_named_twice_is_one(build: Callable[..., Path]) -> None:
    site = build(*["--platform", "linux-64"] * 2, "--package", "cuda-version", "--jobs", "1")
    assert (site / "index.html").is_file()
    assert [file.name for file in site.glob("answers/linux-64/cuda-version/*.js")] == ["any.js"]


def test_a_site_of_a_channel_that_somebody_else_built_names_that_channel(
    build: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = (tmp_path / "checkout" / "output" / "channel").resolve().rename(tmp_path / "other")
    site = build(
        "--channel",
        str(other),
        "--platform",
        "linux-64",
        "--package",
        "cuda-version",
        "--jobs",
        "1",
    )
    assert other.as_uri() in (site / "index.html").read_text()
    out, err = capsys.readouterr()
    assert (
        "its commands use folders of this machine; for others, make it with --url and --base" in out
    )
    assert err.splitlines()[0].endswith(f" reading the packages of {other}")


def test_pages_for_others_name_no_folder_of_this_machine(
    build: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, few = (
        "https://example.org/cuda",
        ("--platform", "linux-64", "--package", "cuda-version", "--jobs", "1"),
    )
    base = (tmp_path / "checkout" / "output" / "base").resolve()
    for address in ("notaurl", "file:///srv/cuda", "https://", "ftp://example.org/cuda"):
        with pytest.raises(BadValue, match="is not an address on the web") as caught:
            build("--url", address, "--base", "conda-forge", *few)
        assert "--url https://" in caught.value.step
    for local in ((), ("--base", str(base)), ("--base", base.as_uri())):
        with pytest.raises(BadValue, match="no reader of the pages can install from") as caught:
            build("--url", url, *local, *few)
        assert "--base conda-forge" in caught.value.step
    assert not (tmp_path / "site").exists(), "refused before anything is solved"
    with small_channels.serve(base) as served:
        site = build("--url", url, "--base", served, *few)
    said = " ".join(capsys.readouterr().out.split())
    assert "folders of this machine" not in said
    assert (
        "output/channel, as built here; to show what readers have, name their folder with --channel"
        in said
    )
    for page in site.rglob("*.html"):
        assert "file:" not in page.read_text() and str(tmp_path) not in page.read_text(), page.name
    page = (site / "packages" / "cuda-version.html").read_text()
    assert f"--channel {url} \\\n  --channel {served} \\\n" in page


def test_a_folder_that_has_docs_and_is_no_site_is_refused(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "site" / "docs").mkdir(parents=True)
    (tmp_path / "site" / "docs" / "index.html").write_text("somebody's")
    with pytest.raises(BadValue):
        build("--platform", "linux-64", "--package", "cuda-version", "--jobs", "1")
    assert (tmp_path / "site" / "docs" / "index.html").read_text() == "somebody's"


def test_a_site_has_the_docs_of_the_checkout_with_the_address_of_the_channel(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "checkout" / "docs"
    folder.mkdir()
    (folder / "users.md").write_text("# For users\n\n`CHANNEL`\n")
    site = build(
        "--platform", "linux-64", "--package", "cuda-version", "--jobs", "1", "--title", "Ours"
    )
    assert "<title>Install CUDA packages · Ours</title>" in (site / "index.html").read_text()
    channel = (tmp_path / "checkout" / "output" / "channel").as_uri()
    assert f">{channel}<" in re.sub(
        r"</?span[^>]*>", "", (site / "docs" / "users.html").read_text()
    )
    assert '<a href="docs/index.html">Docs</a>' in (site / "index.html").read_text()
    assert not list(site.rglob("doctrees"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()
    }


def test_a_site_takes_the_place_of_the_one_before_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "site"
    left = folder.with_name(".site.new") / "killed"  # by an earlier run
    left.mkdir(parents=True)
    left.with_suffix(".lock").touch()
    folder.mkdir()
    assert write([Page("index.html", b"1"), Page("packages/a.html", b"1")], folder) == 2
    assert write([Page("index.html", b"2")], folder) == 1
    assert contents(folder).keys() == {"index.html", SITE}
    assert (folder / "index.html").read_bytes() == b"2"
    assert [p.name for p in folder.parent.iterdir()] == ["site"], "nothing is left beside it"


@pytest.mark.parametrize("of_channel", [HISTORY, "linux-64/repodata.json"])
def test_a_site_does_not_replace_a_channel_that_was_published_into_it(
    tmp_path: Path, of_channel: str
) -> None:
    folder = tmp_path / "site"
    write([Page("index.html", b"1")], folder)
    (folder / of_channel).mkdir(parents=True)
    before = contents(folder)
    with pytest.raises(BadValue, match="has a channel in it"):
        write([Page("index.html", b"2")], folder)
    assert contents(folder) == before
    (tmp_path / "channel").symlink_to(folder)  # as output/channel is one
    with pytest.raises(BadValue, match="has a channel in it") as caught:
        write([Page("index.html", b"2")], tmp_path / "channel")
    assert f"--channel {tmp_path}/channel " in caught.value.step


def test_a_page_that_cannot_be_made_leaves_the_old_site_whole(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write([Page("index.html", b"old")], folder)
    before = contents(folder)

    def broken() -> Iterator[Page]:
        yield Page("index.html", b"new")
        assert contents(folder) == before, "a reader sees the old one while the new one is written"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write(broken(), folder)
    assert contents(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_a_folder_with_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(BadValue, match="is not a site that `ctk site` wrote"):
        write([Page("index.html", b"1")], tmp_path)
    assert contents(tmp_path) == {"mine.txt": b"precious"}
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("mine.txt", "link"):
        with pytest.raises(BadValue, match="is not a folder"):
            write([Page("index.html", b"1")], tmp_path / name)


def test_a_site_asks_again_only_what_the_channel_changed(
    build: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages that notes of earlier answers make are the same to the byte."""
    solved_now = answers._solved_now
    asked: list[str] = []

    def counted(work: Sequence[Work], jobs: int) -> Iterator[tuple[Work, dict[str, Any]]]:
        asked.extend(piece.name for piece in work)
        return solved_now(work, jobs)

    monkeypatch.setattr(answers, "_solved_now", counted)
    words = ("--platform", "linux-64", "--package", "cuda-version", "--jobs", "1")
    first = _answers_of(build(*words))
    assert first and asked
    asked.clear()
    assert _answers_of(build(*words)) == first
    assert not asked
    index = tmp_path / "checkout" / "output" / "channel" / "linux-64" / "repodata.json"
    index.write_text(index.read_text() + "\n")
    assert _answers_of(build(*words)) == first
    assert asked


def _answers_of(site: Path) -> dict[str, bytes]:
    return {
        file.relative_to(site).as_posix(): file.read_bytes()
        for file in site.glob("answers/**/*.js")
    }
