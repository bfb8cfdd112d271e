"""What each command says of itself, and of a command line that it cannot read."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
from command_list import ALL, command
from typer.testing import CliRunner

from conftest import ROOT, ctk
from ctk.cli.main import COMMANDS, app, summary
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue

HERE = Workspace(ROOT)
SHARED = ("--json", "--quiet", "-q", "--verbose", "-v", "--debug", "--help", "-h")


def shown(name: str, columns: int) -> str:
    return CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": str(columns)}).stdout


@pytest.mark.parametrize("name", ALL)
def test_the_help_has_every_option_and_80_columns_but_for_examples_that_are_to_be_copied(name: str) -> None:
    text = shown(name, 80)
    for option in SHARED:
        assert re.search(rf"(^|[ ,]){option}\b", text, re.M), option
    for param in command(name).params:
        assert getattr(param, "help", None), f"{param.name} says nothing of itself"
    assert [line for line in text.splitlines() if len(line) > 80 and not line.startswith("  ctk ")] == []
    (usage,) = [line for line in shown(name, 120).splitlines() if line.startswith("Usage:")]
    assert not re.search(r"\[\[|\]\]|\.\.\.\]", usage), f"two pairs of brackets around what may be left out: {usage}"


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_an_example_that_it_understands(name: str) -> None:
    found = command(name)
    assert found.examples
    for line in found.examples:
        program, *words = shlex.split(line.split("  #")[0])
        given = name.split()
        assert (program, words[: len(given)]) == ("ctk", given), line
        found.make_context(name, words[len(given) :])  # fails for an option or a value that it does not have
        assert line in shown(name, 80)


@pytest.mark.parametrize("name", ALL)
def test_every_command_line_that_cannot_be_read_is_an_error_with_a_way_on(name: str) -> None:
    with pytest.raises(BadValue) as found:
        command(name).make_context(name, ["--hepl"])
    assert found.value.cause == "no such option: --hepl"
    assert found.value.step.startswith("did you mean --help")


def test_a_command_or_option_that_is_nearly_right_is_named() -> None:
    done = ctk(HERE, "slove", "cuda-core")
    assert (done.returncode, done.stdout) == (BadValue.exit_code, "")
    assert "there is no command ctk slove\nnext: did you mean solve" in done.stderr
    done = ctk(HERE, "release", "mesure", "--json")
    assert done.returncode == BadValue.exit_code
    assert "did you mean measure?" in json.loads(done.stdout)["error"]["next"]
    done = ctk(HERE, "release", "list", "--hepl")
    assert (done.returncode, done.stdout) == (BadValue.exit_code, "")
    assert done.stderr.startswith("error: no such option: --hepl\nnext: did you mean --help")


@pytest.mark.parametrize("words", [[], ["channel"], ["release"]])
def test_a_group_alone_prints_its_commands(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert "Commands:" in done.stdout and done.stderr == ""


def test_the_version_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.*)"', text, re.M)
    assert CliRunner().invoke(app, ["--version"]).stdout == f"ctk {version}\n"


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from ctk.cli.main import app; app(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.splitlines()
    for module in ("rattler", "rattler_build", "unearth", "pydantic", "ctk.cli.build", "ctk.lock.lock"):
        assert f"'{module}'" not in loaded, module
    for entry in COMMANDS.values():
        assert summary(entry) in re.sub(r"\s+", " ", " ".join(text))
