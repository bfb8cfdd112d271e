"""What each command says of itself, and of a command line that it cannot read."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_list import ALL, command
from typer.testing import CliRunner

from conftest import ROOT, ctk
from ctk.cli.command_line import summary
from ctk.cli.main import app
from ctk.cli.table import COMMANDS
from ctk.core.errors import BadValue
from ctk.core.paths import Workspace

SHARED = ("--json", "--quiet", "-q", "--verbose", "-v", "--debug", "--help", "-h")


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_the_options_of_all_and_help_for_each_of_its_own(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"}).stdout
    for option in SHARED:
        assert re.search(rf"(^|[ ,]){option}\b", shown, re.M), option
    for param in command(name).params:
        assert getattr(param, "help", None), f"{param.name} says nothing of itself"


@pytest.mark.parametrize("name", ALL)
def test_the_help_fits_into_80_columns_but_for_examples_that_are_to_be_copied(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"}).stdout
    assert [line for line in shown.splitlines() if len(line) > 80 and not line.startswith("  ctk ")] == []


@pytest.mark.parametrize("name", ALL)
def test_a_line_of_usage_has_one_pair_of_brackets_around_what_may_be_left_out(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "120"}).stdout
    (usage,) = [line for line in shown.splitlines() if line.startswith("Usage:")]
    assert not re.search(r"\[\[|\]\]|\.\.\.\]", usage), usage


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_an_example_that_it_understands(name: str, tmp_path: Path) -> None:
    found = command(name)
    assert found.examples
    for line in found.examples:
        program, *words = shlex.split(line.split("  #")[0])
        given = name.split()
        assert (program, words[: len(given)]) == ("ctk", given), line
        found.make_context(name, words[len(given) :])  # fails for an option or a value that it does not have


@pytest.mark.parametrize("name", ALL)
def test_every_command_line_that_cannot_be_read_is_an_error_with_a_way_on(name: str) -> None:
    done = ctk(Workspace(ROOT), *name.split(), "--hepl")
    assert done.returncode == BadValue.exit_code
    assert done.stderr.startswith("error: no such option: --hepl\nnext: did you mean --help")
    assert done.stdout == ""


def test_a_command_that_is_nearly_right_is_named() -> None:
    done = ctk(Workspace(ROOT), "slove", "cuda-core")
    assert (done.returncode, done.stdout) == (BadValue.exit_code, "")
    assert "there is no command ctk slove\nnext: did you mean solve" in done.stderr
    done = ctk(Workspace(ROOT), "release", "mesure", "--json")
    assert done.returncode == BadValue.exit_code
    assert "did you mean measure?" in json.loads(done.stdout)["error"]["next"]


@pytest.mark.parametrize("words", [[], ["channel"], ["release"]])
def test_a_group_alone_prints_its_commands(words: list[str]) -> None:
    done = ctk(Workspace(ROOT), *words)
    assert done.returncode == 0
    assert "Commands:" in done.stdout and done.stderr == ""


def test_the_version_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.*)"', text, re.M)
    assert ctk(Workspace(ROOT), "--version").stdout == f"ctk {version}\n"


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from ctk.cli.main import app; app(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert "'ctk.cli.table'" in loaded
    for module in ("rattler", "rattler_build", "unearth", "pydantic", "ctk.cli.build", "ctk.lock.lock"):
        assert f"'{module}'" not in loaded, module
    for entry in COMMANDS.values():
        assert summary(entry) in re.sub(r"\s+", " ", done.stdout)
