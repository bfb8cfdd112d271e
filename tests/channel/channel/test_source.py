"""`ctk publish --from`: what was tested in staging is what production gets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ctk.channel.publish import FIELD, Folder
from ctk.channel.repodata import TIME, read_index
from ctk.channel.source import named_state
from ctk.core.checkout import Workspace
from ctk.core.errors import (
    BadValue,
    ChannelBroken,
    ChannelMissing,
    PublishFailed,
    UnknownName,
)
from kit.object_store import Store
from kit.small_channels import Stamp, build, digit, serve

pytest_plugins = ["kit.object_store_fixtures", "kit.channel_fixtures"]

ONE, TWO = "noarch/digit1-1.0-h0_0.conda", "linux-64/digit2-1.0-h0_0.conda"


@pytest.fixture
def staging(two_states: Workspace, tmp_path: Path) -> Folder:
    """Two states: digit1, then digit2 too, each attested."""
    folder = Folder(tmp_path / "staging", tmp_path / "recipes")
    for drafts in ((digit(1),), (digit(1), digit(2))):
        folder.publish(build(tmp_path / "built", *drafts), attester=Stamp("staging"))
    return folder


def is_the_same(staging: Folder, production: Path, *names: str) -> None:
    """Packages, records but for their first day, and attestations are those of staging."""
    ours, theirs = read_index(staging.path).records, read_index(production).records
    assert theirs.keys() == {*names}
    for name in names:
        assert {**theirs[name], TIME: 0} == {**ours[name], TIME: 0}
        for file in (name, f"{name}.sigs", f"{name}.sigs.{ours[name][FIELD]}"):
            assert (production / file).read_bytes() == (staging.path / file).read_bytes()


def test_a_state_of_a_folder_comes_byte_for_byte_with_its_attestations(
    staging: Folder, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    production = tmp_path / "production"
    done = run_ctk("publish", "--from", f"{staging.path}@1", "--to", str(production))
    assert done.exception is None and "1 package, 1 new" in done.stdout
    is_the_same(staging, production, ONE)
    assert (
        run_ctk("publish", "--from", str(staging.path), "--to", str(production)).exception is None
    )
    is_the_same(staging, production, ONE, TWO)


def test_a_channel_on_a_server_is_published_as_readers_see_it_and_as_it_was(
    staging: Folder, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with serve(tmp_path) as server:
        url = f"{server}/staging"
        for place, source in ((old, f"{url}@1"), (new, url)):
            done = run_ctk("publish", "--from", source, "--to", str(place))
            assert done.exception is None, done.exception
        unknown = run_ctk("publish", "--from", f"{url}@9", "--to", str(new)).exception
    assert isinstance(unknown, UnknownName)
    assert unknown.step == "name one of those, or leave @9 out for what readers see"
    is_the_same(staging, old, ONE)
    is_the_same(staging, new, ONE, TWO)


def test_a_bucket_is_staging_and_production(
    store: Store, staging: Folder, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    back = tmp_path / "back"
    words = ("--from", str(staging.path), "--to", "s3://channels/cuda")
    assert run_ctk("publish", *words).exception is None
    assert run_ctk("publish", "--from", "s3://channels/cuda@1", "--to", str(back)).exception is None
    is_the_same(staging, back, ONE, TWO)


def test_attestations_of_production_stay_beside_those_of_staging(
    staging: Folder, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "production", tmp_path / "recipes")
    folder.publish(build(tmp_path / "other", digit(1)), attester=Stamp("ours"))
    words = ("publish", "--from", f"{staging.path}@1", "--to", str(folder.path))
    done = run_ctk(*words)
    assert done.exception is None and "0 new, 1 new attestation" in done.stdout
    name = ONE.partition("/")[2]
    content = (folder.path / f"{ONE}.sigs").read_bytes()
    assert json.loads(content) == [f"ours {name}", f"staging {name}"]
    assert run_ctk(*words).exception is None
    assert (folder.path / f"{ONE}.sigs").read_bytes() == content


@pytest.mark.parametrize("file", [ONE, f"{ONE}.sigs"])
@pytest.mark.parametrize("content", [b"damaged", None])
def test_nothing_is_published_of_staging_with_a_wrong_file(
    staging: Folder,
    run_ctk: Callable[..., Result],
    tmp_path: Path,
    file: str,
    content: bytes | None,
) -> None:
    digest = read_index(staging.path).records[ONE][FIELD]
    path = staging.path / (f"{file}.{digest}" if file.endswith(".sigs") else file)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    production = tmp_path / "production"
    error = run_ctk("publish", "--from", str(staging.path), "--to", str(production)).exception
    assert isinstance(error, ChannelBroken) and path.name in error.cause
    assert error.step == f"ctk check {staging.path}"
    assert not list(production.glob("*/*"))


def test_what_names_no_state_of_a_channel_is_said(
    staging: Folder, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    to = ("--to", str(tmp_path / "production"))
    for source, kind in (
        (f"{staging.path}@7", UnknownName),
        (str(tmp_path / "nowhere"), ChannelMissing),
        (str(staging.path), type(None)),
    ):
        assert isinstance(run_ctk("publish", "--from", source, *to).exception, kind)
    both = run_ctk("publish", str(staging.path), "--from", str(staging.path), *to).exception
    assert isinstance(both, BadValue) and "--from" in both.step


def test_a_place_without_a_channel_is_named_as_it_was_typed(
    staging: Folder, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    empty = tmp_path / "empty" / "noarch"
    empty.mkdir(parents=True)
    content = {"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": {}}
    (empty / "repodata.json").write_text(json.dumps(content))
    to = ("--to", str(tmp_path / "production"))
    with serve(tmp_path) as server:
        for source in (f"{server}/absent", f"{server}/empty", str(empty.parent), str(tmp_path)):
            refused = run_ctk("publish", "--from", source, *to).exception
            assert isinstance(refused, (ChannelMissing, PublishFailed)), source
            assert refused.cause.endswith(source) and "there is no channel" in refused.cause
            wanted = "check the address" if "://" in source else "name a folder or a URL"
            assert refused.step.startswith(wanted)
        checked = run_ctk("check", f"{server}/absent").exception
        assert isinstance(checked, ChannelMissing) and checked.step == "check the address"
        shutil.rmtree(staging.notes)  # as with a server that does not hand it out
        refused = run_ctk("publish", "--from", f"{server}/staging@1", *to).exception
    assert isinstance(refused, UnknownName) and "does not serve .history" in refused.step
    assert not (tmp_path / "production").exists()


def test_a_state_is_what_follows_the_last_at(tmp_path: Path) -> None:
    assert named_state("https://h/cuda@12") == ("https://h/cuda", 12)
    assert named_state("s3://channels/cuda") == ("s3://channels/cuda", None)
    (tmp_path / "www@3").mkdir()
    assert named_state(f"{tmp_path}/www@3") == (f"{tmp_path}/www@3", None)
