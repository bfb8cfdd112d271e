"""`ctk check`: a sound channel has no problems, and each problem is a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attacks import ATTACKS, ONE, REPODATA, TWO, Attack, edit, recorded
from typer.testing import Result

from ctk.channel.check import check_channel, mirrored
from ctk.channel.publish import Folder
from ctk.core.checkout import HISTORY, Workspace
from ctk.core.console import Reporter
from ctk.core.errors import ChannelBroken, ChannelMissing, NameReused, PublishFailed
from kit.small_channels import build, digit, serve, sound

pytest_plugins = ["kit.channel_fixtures"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published folder with two packages."""
    place = tmp_path_factory.mktemp("original")
    folder = Folder(place / "www", place, now=lambda: datetime(2027, 1, 15, 8, tzinfo=UTC))
    folder.publish(build(place / "channel", sound(digit(1)), sound(digit(2, depends=("digit1",)))))
    return folder.path


@pytest.fixture(scope="module")
def url(original: Path) -> Iterator[str]:
    """The URL of the folder above the published folder."""
    with serve(original.parent) as address:
        yield address


@pytest.fixture
def www(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(original, tmp_path / "www"))


def found(channel: Path, is_copy: bool = False) -> set[tuple[str, str, str]]:
    return {(p.where, p.check, p.message) for p in check_channel(channel, is_copy=is_copy).findings}


def test_a_sound_channel_has_no_problem(original: Path, url: str, tmp_path: Path) -> None:
    report = check_channel(original, jobs=4)
    assert report.findings == ()
    with mirrored(f"{url}/{original.name}", tmp_path, Reporter()) as seen:
        assert (seen / HISTORY).is_dir()
        assert found(seen, is_copy=True) == set()
    assert (report.subjects, report.sboms) == (2, 2)
    assert report.size == sum(p.stat().st_size for p in original.glob("*/*.conda"))


def test_a_package_of_another_repository_may_have_no_sbom(tmp_path: Path) -> None:
    made = build(tmp_path / "channel", sound(digit(1)), digit(2))
    bare = "linux-64/digit2-1.0-h0_0.conda"
    ours = check_channel(made)
    assert [(found.where, found.check) for found in ours.findings] == [(bare, "sbom")]
    assert ours.without_sbom == ()
    mixed = check_channel(made, is_ours=lambda name: name == "digit1")
    assert (mixed.findings, mixed.without_sbom, mixed.sboms) == ((), (bare,), 1)


def test_what_was_withdrawn_is_no_problem_for_a_reader(
    original: Path, url: str, tmp_path: Path
) -> None:
    www = Path(shutil.copytree(original, original.parent / "withdrawn"))
    Folder(www, www).publish(build(tmp_path / "channel", sound(digit(1))), exact=True)
    assert found(www) == set()
    with mirrored(f"{url}/{www.name}", tmp_path, Reporter()) as seen:
        assert found(seen, is_copy=True) == set()


def test_a_built_channel_is_checked_as_well(tmp_path: Path) -> None:
    build(tmp_path / "channel", sound(digit(1)))
    assert check_channel(tmp_path / "channel").findings == ()


@pytest.mark.parametrize(("attack", "where", "check", "what"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_a_problem_on_the_disk_and_from_outside(
    original: Path, url: str, tmp_path: Path, attack: Attack, where: str, check: str, what: str
) -> None:
    www = Path(shutil.copytree(original, original.parent / tmp_path.name))
    attack(www)
    lines = found(www)
    assert any(
        (name, kind) == (where, check) and text.startswith(what) for name, kind, text in lines
    ), lines
    assert not any(name == ONE for name, _, _ in lines)
    with mirrored(f"{url}/{www.name}", tmp_path, Reporter()) as seen:
        # Files that no index names are not fetched, so the orphans differ.
        here, there = (
            {line[:2] for line in each if line[1] != "orphan"}
            for each in (lines, found(seen, is_copy=True))
        )
        assert here == there


def test_files_that_nothing_names_are_named(www: Path) -> None:
    (www / "linux-64" / "shards").mkdir()
    (www / "notices.json").write_bytes(b"{}")
    for name in (
        ".digit1-1.0-h0_0.conda.123.part",
        "digit9-1.0-h0_0.conda",
        "digit9-1.0-h0_1.conda.sigs",
    ):
        (www / "noarch" / name).write_bytes(b"")
    (www / TWO).rename(www / "linux-64" / "other-1-0.conda")
    shutil.rmtree(www / HISTORY / "1")
    lines = {(name, what) for name, check, what in found(www) if check == "orphan"}
    assert lines >= {
        ("linux-64/other-1-0.conda", "the index does not name it"),
        ("linux-64/shards", "the index does not name it"),
        ("noarch/.digit1-1.0-h0_0.conda.123.part", "a killed run left it; the next one removes it"),
        ("noarch/digit9-1.0-h0_0.conda", "the index does not name it"),
        ("noarch/digit9-1.0-h0_1.conda.sigs", "the package that it attests is missing"),
        ("notices.json", "is not part of a channel"),
    }
    edit(www, REPODATA, lambda index: index["packages.conda"].clear())
    assert (TWO, "orphan", "run_exports.json names it, but there is no such package") in found(www)


def test_a_folder_without_an_index_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert found(tmp_path / "empty") == {
        ("noarch/repodata.json", "index", "is not there; clients refuse a channel without it")
    }
    with pytest.raises(ChannelMissing, match="there is no channel"):
        check_channel(tmp_path / "absent")


def test_the_command_lists_every_problem_in_one_table(
    www: Path, run_ctk: Callable[..., Result]
) -> None:
    good = run_ctk("check", str(www))
    assert good.exception is None
    assert "2 packages, 0.0 MB, 2 with a sound SBOM: 0 problems" in good.stdout
    (www / ONE).unlink()
    recorded(depends=[])(www)
    bad = run_ctk("check", str(www))
    assert isinstance(bad.exception, ChannelBroken)
    assert bad.exception.cause.startswith("2 problems in")
    for text in (ONE, TWO, "it is missing", "repodata says depends"):
        assert text in bad.stdout
    report = json.loads(run_ctk("check", str(www), "--json").stdout)
    assert report["problems"] == check_channel(www).as_json()["problems"]


def test_a_name_that_is_published_with_other_content_is_found_beforehand(
    www: Path, tmp_path: Path, run_ctk: Callable[..., Result]
) -> None:
    changed = str(
        build(
            tmp_path / "changed", sound(digit(1, "changed")), sound(digit(2, depends=("digit1",)))
        )
    )
    with serve(www) as url:
        for where in (url, str(www)):
            done = run_ctk("check", changed, "--published", where)
            assert isinstance(done.exception, NameReused)
            assert "build: number" in done.exception.step
            assert ONE in done.exception.cause and TWO not in done.exception.cause
            done = run_ctk("check", str(www), "--published", where)
            assert done.exception is None
            assert f"2 file names of 2 used in {where}, all for the same content" in done.stdout


def test_a_channel_on_a_server_is_checked_as_clients_get_it(
    www: Path, run_ctk: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")  # at the end, nobody answers
    with serve(www) as url:
        assert "0 problems" in run_ctk("check", url).stdout
        (www / ONE).write_bytes((www / ONE).read_bytes() + b"more" * 100_000)
        report = json.loads(run_ctk("check", url, "--json").stdout)
    # The download stops one byte after the size in the index, which shows the difference.
    assert any(
        p["package"] == ONE and p["what"].startswith("repodata says size")
        for p in report["problems"]
    ), report["problems"]
    assert isinstance(run_ctk("check", url).exception, PublishFailed)


def test_a_published_folder_that_is_not_there_is_an_error(
    two_states: Workspace, run_ctk: Callable[..., Result]
) -> None:
    refused = run_ctk("check", "--published", "absent").exception
    assert isinstance(refused, ChannelMissing) and "absent" in refused.cause


def test_a_recipe_that_is_not_committed_is_to_be_committed_first(
    tmp_path: Path, run_ctk: Callable[..., Result]
) -> None:
    channel = build(tmp_path / "channel", sound(digit(1), commit=""))
    broken = run_ctk("check", str(channel)).exception
    assert isinstance(broken, ChannelBroken)
    assert broken.step.startswith("commit the changes of the recipe")
