"""The SBOM of a channel, beside its index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from typer.testing import Result

from ctk.channel.bill import BILL, bill_of, read_bill
from ctk.channel.check import check_channel
from ctk.channel.publish import Folder
from ctk.channel.repodata import read_index
from kit.object_store import Store
from kit.small_channels import build, digit, serve, sound

pytest_plugins = ["kit.object_store_fixtures", "kit.channel_fixtures"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "www", tmp_path / "recipes")
    folder.publish(build(tmp_path / "channel", sound(digit(1))))
    folder.publish(build(tmp_path / "channel", sound(digit(1)), sound(digit(2))))
    return folder


def named(folder: Folder) -> dict[str, str]:
    return read_bill((folder.path / BILL).read_bytes())


def problems(folder: Folder) -> list[str]:
    found = check_channel(folder.path).findings
    return [finding.message for finding in found if finding.where == BILL]


def test_it_names_the_packages_of_the_state_that_readers_see(folder: Folder) -> None:
    assert named(folder) == read_index(folder.path).names()
    assert len(named(folder)) == 2
    folder.rollback(1)
    assert [*named(folder)] == ["noarch/digit1-1.0-h0_0.conda"]
    assert problems(folder) == []


def test_it_is_as_the_standard_has_it(folder: Folder) -> None:
    text = (folder.path / BILL).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    package = json.loads(text)["components"][0]
    assert package["purl"] == "pkg:conda/digit2@1.0?build=h0_0&subdir=linux-64&type=conda"
    assert package["properties"][0]["value"] == "info/sboms/digit2.cdx.json"
    assert package["licenses"]
    assert bill_of(read_index(folder.path)) == text.encode()


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"components": [{}]}', '{"components": []}'])
def test_one_that_says_something_else_is_a_problem_until_the_next_publish(
    folder: Folder, tmp_path: Path, content: str
) -> None:
    (folder.path / BILL).write_text(content)
    assert problems(folder)
    folder.publish((tmp_path / "channel").resolve())
    assert problems(folder) == []


def test_one_of_a_server_is_checked_too(folder: Folder, run_ctk: Callable[..., Result]) -> None:
    (folder.path / BILL).write_text('{"components": []}')
    with serve(folder.path) as url:
        assert BILL in run_ctk("check", url).stdout


def test_a_bucket_has_it_after_the_index(
    store: Store, folder: Folder, run_ctk: Callable[..., Result]
) -> None:
    words = ("publish", "--from", str(folder.path), "--to", "s3://channels/cuda")
    assert run_ctk(*words).exception is None
    puts = store.puts()
    assert puts.index(BILL) > puts.index("linux-64/repodata.json")
    body = store.client().get_object(Bucket="channels", Key=f"cuda/{BILL}")["Body"].read()
    assert body == (folder.path / BILL).read_bytes()
