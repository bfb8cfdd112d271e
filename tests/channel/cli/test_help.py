"""The help of each command, and errors about a command line that cannot be read."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from command_list import ALL, command
from typer.testing import CliRunner

from conftest import ROOT, ctk
from ctk.cli.main import GROUPS, app
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue

HERE = Workspace(ROOT)
SHARED = ("--json", "--quiet", "-q", "--verbose", "-v", "--debug", "--help", "-h")


def shown(name: str) -> str:
    return CliRunner().invoke(app, [*name.split(), "--help"]).stdout


@pytest.mark.parametrize("name", ALL)
def test_the_help_has_every_option_and_says_what_it_is_for(name: str) -> None:
    text = shown(name)
    for option in SHARED:
        assert re.search(rf"(^|[ ,]){option}\b", text, re.M), option
    for param in command(name).params:
        assert getattr(param, "help", None), f"{param.name} says nothing of itself"


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_an_example_that_it_understands(name: str) -> None:
    found = command(name)
    assert found.examples
    for line in found.examples:
        program, *words = shlex.split(line.split("  #")[0])
        given = name.split()
        assert (program, words[: len(given)]) == ("ctk", given), line
        # Fails for an option or a value that it does not have.
        found.make_context(name, words[len(given) :])
        assert line in shown(name)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("slove cuda-core", "solve"),
        ("release mesure", "measure"),
        ("release list --jsno", "--json"),
    ],
)
def test_a_command_or_option_that_is_nearly_right_is_named(words: str, near: str) -> None:
    done = ctk(HERE, *words.split())
    assert (done.returncode, done.stdout) == (BadValue.exit_code, "")
    error, _, step = done.stderr.partition("\nnext: ")
    assert near in error and step.startswith("see ctk ")


@pytest.mark.parametrize(
    ("words", "headings"),
    [([], {f"\n{heading}:\n" for heading in GROUPS}), (["release"], {"\nCommands:\n"})],
)
def test_a_group_alone_prints_its_commands_below_who_uses_them(
    words: list[str], headings: set[str]
) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert done.stderr == "" and all(heading in done.stdout for heading in headings)
    assert CliRunner().invoke(app, ["help", *words]).stdout == done.stdout


@pytest.mark.parametrize(
    "script", [file.name for file in sorted((ROOT / "scripts").iterdir()) if file.is_file()]
)
def test_a_script_says_what_it_does_and_does_nothing_else(script: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("ctk"))
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    before = sorted(tmp_path.rglob("*"))
    for option in ("--help", "-h"):
        done = subprocess.run(
            [tmp_path / "scripts" / script, option], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.count("\n") > 0, done.stderr) == (0, True, "")
    assert sorted(tmp_path.rglob("*")) == before


def test_the_word_of_an_option_of_pytest_is_no_folder_of_tests() -> None:
    """`scripts/test ... -k lint` ran no test: pytest was given `-k tests/lint`."""
    words = ["-n", "0", "--collect-only", "-q", "tests/unit/lint/test_cases.py", "-k", "lint"]
    done = subprocess.run([ROOT / "scripts" / "test", *words], capture_output=True, text=True)
    assert (done.returncode, "tests/unit/lint/test_cases.py" in done.stdout) == (0, True), (
        done.stderr
    )
