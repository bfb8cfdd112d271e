"""Each command with --json: one document on stdout, with the keys that docs/json.md names, whatever
happens.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_list import ALL, RECIPE, Typed, line

from conftest import ROOT
from ctk.core import errors
from ctk.lock.model import dump, load
from kit import tiny_packages
from kit.world import NEW, OLD, World, ctk

pytest_plugins = ["command_fixtures"]

CASES = [
    "build --base {base} {both}",
    f"build-recipe {RECIPE} --base {{base}} --output {{folder}}/packages --driver none",
    "check --base {base}",
    "check --list",
    "check --rebuild 1",
    "clean",
    "clean --yes",
    "doctor --offline",
    "doctor {folder}/env",
    "env add {folder}/env cuda-arch",
    "env create cuda-crt --prefix {folder}/env --base {base}",
    "env module {folder}/env gpu/1 --to {folder}/modules",
    "env pack cuda-crt python -o {folder}/crt.run --base {base}",
    "env run {folder}/env -- echo said",
    "feedstock cuda-arch {folder}/feedstock --maintainer someone",
    "gpu-code {channel}",
    "help env create",
    "lint --check RecipesRender",
    "publish --to {folder}/www",
    f"release add {OLD}",
    "release check",
    f"release diff {OLD} {NEW} --platform linux-64",
    "release list",
    "release remove cuda-pathfinder {version}",
    f"release measure {OLD}",
    "rollback {folder}/www",
    "rollback {folder}/www --to 1",
    "site {folder}/site --package cuda-crt --base {base}",
    "solve cuda-crt --explain --base {base}",
    "solve cuda-arch --prefix {folder}/env",
    "solve cuda-crt --everywhere --base {base}",
    "solve cuda-crt --driver 13.4 --driver 13.5 --base {base}",
    "verify --channel {channel} --sample 3",
    "version",
]
SECTIONS = dict(
    re.findall(
        r"^## ctk ([\w -]+)\n(.*?)(?=^## |\Z)", (ROOT / "docs" / "json.md").read_text(), re.M | re.S
    )
)


def name_of(case: str) -> str:
    """The command of a case."""
    return max((name for name in ALL if f"{case} ".startswith(f"{name} ")), key=len)


def documented(name: str) -> set[str]:
    """The keys that the docs name for a command.

    Those that make environments have those of `solve` as well.
    """
    makes = name in ("env add", "env create", "env pack")
    text = SECTIONS[name] + ("".join(SECTIONS["solve"]) if makes else "")
    return set(re.findall(r"`(\w+)`", text))


def prepare(case: str, world: World, folder: Path) -> None:
    """Makes the environment of a case, or the published folder with two states."""
    if case.startswith(
        ("env add", "env module", "env run", "doctor {folder}/env", "solve cuda-arch --prefix")
    ):
        create = next(case for case in CASES if case.startswith("env create"))
        assert ctk(world, *line(world, create, folder)).returncode == 0
    elif case.startswith("rollback"):
        for index in ("linux-64", "noarch"):  # a folder that was there before is its first state
            if (place := world.workspace.channel / index).is_dir():
                shutil.copytree(place, folder / "www" / index)
        (folder / "www" / "noarch" / "repodata.json").write_text('{"packages.conda": {}}')
        assert ctk(world, "publish", "--to", str(folder / "www")).returncode == 0


def named_version(world: World) -> str:
    """The version of cuda-pathfinder in the locks, which is then as if added by its name."""
    path = world.workspace.variants / "python-13.lock"
    lock = load(path)
    version = lock.components["cuda-pathfinder"].version
    path.write_text(dump(replace(lock, added={"cuda-pathfinder": {version: ""}})))
    return version


def one_document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)  # fails for a second document, or anything around it
    assert isinstance(found, dict)
    assert "Traceback" not in done.stderr
    return found


def test_every_command_is_tried_and_described() -> None:
    assert sorted({name_of(case) for case in CASES}) == ALL, "a new command needs a case here"
    assert sorted(SECTIONS) == ALL, "its docstring has none of JSON"


@pytest.mark.parametrize("case", CASES)
def test_a_command_prints_one_document_with_the_documented_keys_and_quietly_nothing_else(
    case: str, world: World, typed: Typed, tmp_path: Path
) -> None:
    prepare(case, world, tmp_path)
    if case.startswith("release remove"):
        case = case.replace("{version}", named_version(world))
    words, dashes, program = case.partition("-- ") if case.startswith("env run") else (case, "", "")
    done = typed(*line(world, f"{words} --json -q {dashes}{program}", tmp_path))
    found = one_document(done)
    error = found.pop("error", None)
    assert (done.returncode, error) == (0, None), done.stderr
    assert found
    assert found.keys() <= documented(name_of(case))
    # What another program prints goes to stderr.
    assert done.stderr == ("said\n" if case.startswith("env run") else "")


@pytest.mark.parametrize(
    ("option", "keys"), [("--dry-run", {"builds", "left_out"}), ("--fetch-only", {"artefacts"})]
)
def test_a_build_that_builds_nothing_has_the_document_of_its_option(
    option: str, keys: set[str], world: World
) -> None:
    done = ctk(world, "build", *world.plan(NEW), option, "--json")
    assert (done.returncode, one_document(done).keys()) == (0, keys)


def test_an_error_is_a_document_too(world: World) -> None:
    done = ctk(world, "--json", "env", "create", "--no-such-option")
    error = one_document(done)["error"]
    assert done.returncode == error["exit_code"] == errors.BadValue.exit_code
    assert error["kind"] == "BadValue" and "--no-such-option" in error["cause"]
    assert done.stderr == ""


def test_what_was_found_before_an_error_is_kept(world: World, tmp_path: Path) -> None:
    (tmp_path / "broken-1-0.conda").write_bytes(b"no package")
    done = ctk(world, "check", str(tmp_path), "--json")
    found = one_document(done)
    assert done.returncode == errors.AuditFailed.exit_code == found["error"]["exit_code"]
    assert not found["ok"]
    assert [finding["package"] for finding in found["findings"]] == ["broken-1-0.conda"]


def test_what_nobody_expected_is_a_document_with_the_traceback_beside_it(
    world: World, tmp_path: Path
) -> None:
    gone = (world.root / "LICENSE").rename(world.root / "LICENSE.gone")
    try:
        done = ctk(
            world,
            "feedstock",
            "cuda-arch",
            str(tmp_path / "feedstock"),
            "--maintainer",
            "someone",
            "--json",
        )
    finally:
        gone.rename(world.root / "LICENSE")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "CtkError" and "FileNotFoundError" in error["cause"]
    assert "Traceback" in done.stderr


def test_a_build_for_machines_says_what_each_of_them_gets(world: World, tmp_path: Path) -> None:
    """cuda-pathfinder needs a Python, which this base channel does not have."""
    tiny_packages.write_channel(tmp_path / "base", [])
    words = (
        "--driver",
        "13.4:9.0",
        "--driver",
        "13.5",
        "--base",
        str(tmp_path / "base"),
        "--to",
        str(tmp_path / "channel"),
    )
    done = ctk(world, "build", "cuda-version", "cuda-pathfinder", *words, "--json")
    got = {"platform": "linux-64", "refused": ["cuda-pathfinder"]}
    assert one_document(done)["machines"] == [
        {**got, "driver": "13.4", "gpu": "9.0", "toolkits": ["13.4 native"]},
        {**got, "driver": "13.5", "gpu": None, "toolkits": ["13.5 native"]},
    ], done.stderr
