"""Each command with --json: one document on stdout, with the keys that docs/json.md names, whatever happens."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_list import ALL
from world import NEW, OLD, World, ctk

from conftest import ROOT
from ctk.core import errors

pytest_plugins = ["command_fixtures"]

Words = Callable[[World, Path], Sequence[str]]


def with_base(*words: str) -> Words:
    return lambda world, folder: [*words, "--base", str(world.base)]


def _copy(world: World, folder: Path) -> str:
    """A copy of the channel, with its states: what is done to it is undone by nobody."""
    words = ["cp", "-a", *map(str, (world.workspace.output / name for name in ("channel", ".channel-states")))]
    subprocess.run([*words, str(folder)], check=True)
    return str(folder / "channel")


def _environment(world: World, folder: Path) -> str:
    words = ("env", "create", "cuda-crt", "--prefix", str(folder / "env"), "--base", str(world.base))
    assert ctk(world, *words).returncode == 0
    return str(folder / "env")


CASES: dict[str, Words] = {
    "audit": lambda world, folder: ["--base", str(world.base)],
    "build": lambda world, folder: world.build(OLD, NEW)[1:],
    "channel check": lambda world, folder: [],
    "channel history": lambda world, folder: [],
    "channel rollback": lambda world, folder: [_copy(world, folder)],
    "doctor": lambda world, folder: ["--offline"],
    "env check": lambda world, folder: [_environment(world, folder)],
    "env create": lambda world, folder: ["cuda-crt", "--prefix", str(folder / "env"), "--base", str(world.base)],
    "env pack": lambda world, folder: ["cuda-crt", "python", "-o", str(folder / "crt.run"), "--base", str(world.base)],
    "env run": lambda world, folder: [_environment(world, folder), "--", "echo", "said"],
    "feedstock export": lambda world, folder: ["cuda-arch", str(folder / "feedstock"), "--maintainer", "someone"],
    "fetch": lambda world, folder: world.plan(NEW),
    "lint": lambda world, folder: ["--check", "FileIsYaml"],
    "plan": lambda world, folder: world.plan(NEW),
    "prove": with_base(),
    "publish": lambda world, folder: ["--to", str(folder / "www")],
    "rebuild": lambda world, folder: ["cuda-crt"],
    "release add": lambda world, folder: [OLD],
    "release check": lambda world, folder: [],
    "release diff": lambda world, folder: [OLD, NEW, "-p", "linux-64"],
    "release list": lambda world, folder: [],
    "release measure": lambda world, folder: [OLD],
    "site build": lambda world, folder: [str(folder / "site"), "--package", "cuda-crt", "--base", str(world.base)],
    "solve": with_base("cuda-crt", "--explain"),
    "verify": lambda world, folder: ["--channel", str(world.workspace.channel), "--sample", "3"],
}
FAILS = {
    "prove": errors.Unsolvable,  # the releases are made up, and have no cuda-core
}
SECTIONS = dict(re.findall(r"^## ctk ([\w ]+)\n(.*?)(?=^## |\Z)", (ROOT / "docs" / "json.md").read_text(), re.M | re.S))


def documented(name: str) -> set[str]:
    """The keys that the docs name for a command; what solves has those of `solve` as well."""
    text = SECTIONS[name] + ("".join(SECTIONS["solve"]) if name in ("env create", "env pack") else "")
    return set(re.findall(r"`(\w+)`", text))


def _with(options: str, name: str, world: World, folder: Path) -> list[str]:
    """The command line of a case, with options behind it, but before another program's."""
    words = [*name.split(), *CASES[name](world, folder)]
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], *options.split(), *words[place:]]


def one_document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)  # fails for a second document, or anything around it
    assert isinstance(found, dict)
    assert "Traceback" not in done.stderr
    return found


def test_every_command_is_tried_and_described() -> None:
    assert sorted(CASES) == ALL, "a new command needs a case here"
    assert sorted(SECTIONS) == ALL, "a new command needs a section in docs/json.md"


@pytest.mark.parametrize("name", ALL)
def test_a_command_prints_one_document_with_the_documented_keys_and_quietly_nothing_else(
    name: str, world: World, tmp_path: Path
) -> None:
    done = ctk(world, *_with("--json -q", name, world, tmp_path))
    found = one_document(done)
    error = found.pop("error", None)
    if name in FAILS:
        assert error["kind"] == FAILS[name].__name__, done.stderr
        assert done.returncode == error["exit_code"] == FAILS[name].exit_code
        assert error["cause"] and error["next"]
    else:
        assert (done.returncode, error) == (0, None), done.stderr
        assert found
    assert found.keys() <= documented(name)
    # What another program prints goes to stderr.
    assert done.stderr == ("said\n" if name == "env run" else "")


@pytest.mark.parametrize("name", ["plan", "channel check"])
def test_an_error_is_a_document_too(name: str, world: World) -> None:
    done = ctk(world, *name.split(), "--json", "--no-such-option")
    error = one_document(done)["error"]
    assert done.returncode == error["exit_code"] == errors.BadValue.exit_code
    assert error["kind"] == "BadValue" and "--no-such-option" in error["cause"]
    assert done.stderr == ""


def test_the_option_may_stand_before_the_command(world: World) -> None:
    before = one_document(ctk(world, "--json", "plan", *world.plan(NEW)))
    assert before == one_document(ctk(world, "plan", *world.plan(NEW), "--json"))
    assert before["builds"]


def test_a_pick_is_there_with_all_that_names_it(world: World) -> None:
    found = one_document(ctk(world, "solve", "cuda-crt", "--driver", NEW, "--base", str(world.base), "--json"))
    packages = {p["name"]: p for p in found["packages"]}
    crt = packages["cuda-crt"]
    file = next(world.workspace.channel.glob(f"*/{crt['file']}"))
    assert file.stat().st_size == crt["size"]
    assert (crt["version"], crt["subdir"], crt["channel"]) == ("13.5.37", file.parent.name, "channel")
    assert (found["toolkit"], found["fit"]) == (NEW, "native")
    assert found["machine"] == {"platform": "linux-64", "driver": NEW, "gpu": None}


def test_what_was_found_before_an_error_is_kept(world: World, tmp_path: Path) -> None:
    (tmp_path / "broken-1-0.conda").write_bytes(b"no package")
    done = ctk(world, "audit", str(tmp_path), "--json")
    found = one_document(done)
    assert done.returncode == errors.AuditFailed.exit_code == found["error"]["exit_code"]
    assert not found["ok"]
    assert [finding["package"] for finding in found["findings"]] == ["broken-1-0.conda"]


def test_what_nobody_expected_is_a_document_with_the_traceback_beside_it(world: World, tmp_path: Path) -> None:
    gone = (world.root / "LICENSE").rename(world.root / "LICENSE.gone")
    try:
        done = ctk(world, "feedstock", "export", "cuda-arch", str(tmp_path / "feedstock"), "--json")
    finally:
        gone.rename(world.root / "LICENSE")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "CtkError" and "FileNotFoundError" in error["cause"]
    assert "Traceback" in done.stderr
