"""The commands of the docs are run, or at least read by the programs that they name: `doc_choices` says which."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from doc_choices import CLIENTS, NOT_RUN, OTHERS
from doc_commands import Command, commands, parse_ctk
from doc_pages import blocks

from conftest import ROOT, ctk
from ctk.cli.main import COMMANDS
from ctk.core.checkout import Workspace

pytest_plugins = ["docs_fixtures"]

ALL = [command for block in blocks() if block.language == "bash" for command in commands(block)]
CTK = [Command(c.block, c.words[1:], c.variables, c.comment) for c in ALL if c.program == "ctk"]
OF_PYTHON = [c for c in ALL if c.program in ("python3", ".venv/bin/python") and c.words[1] != "-m"]
LAYERS = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}


def reason(command: Command) -> tuple[str, str] | None:
    """Why a line of ctk is not run, and the test that does; None where it is run."""
    found = [why for beginning, why in NOT_RUN.items() if command.starts_with(beginning)]
    return found[0] if found else None


RUN = list({c.words: c for c in CTK if reason(c) is None}.values())


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "bash"], ids=str)
def test_a_shell_reads_every_block(block) -> None:  # type: ignore[no-untyped-def]
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_program_is_one_whose_lines_are_tried() -> None:
    unknown = {str(c) for c in ALL if c.program not in (*OTHERS, *CLIENTS) and not is_script(c)}
    assert unknown == set(), "say in doc_choices.py how these are tried"
    assert set(OTHERS) <= {c.program for c in ALL}, "doc_choices.py has programs that no page names"


@pytest.mark.parametrize("command", CTK, ids=str)
def test_ctk_knows_every_option_and_argument(command: Command) -> None:
    parse_ctk(command.words)


def test_what_is_not_run_says_why_and_where_it_is() -> None:
    for beginning, (why, test) in NOT_RUN.items():
        assert why and (ROOT / test).is_file(), beginning
        assert any(c.starts_with(beginning) for c in CTK), f"no page has a line that begins with {beginning}"
    assert len(RUN) >= 8


@pytest.mark.parametrize("command", RUN, ids=str)
def test_a_line_of_ctk_does_what_it_says(command: Command, scratch: Path) -> None:
    """In a copy of the checkout. A line whose comment does not say that it is an error must not be one."""
    fails = command.comment == "an error"
    here = Workspace(scratch)
    words = [word.replace("../", f"{scratch.parent}/").replace("./", f"{scratch}/") for word in command.words]
    done = ctk(here, *words, **command.variables)
    # What `ctk doctor` finds missing is this machine's.
    assert bool(done.returncode) == fails or (command.words, done.returncode) == (("doctor",), 30), done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stdout + done.stderr).strip()


def is_script(command: Command) -> bool:
    return re.fullmatch(r"(\./)?scripts/[\w-]+", command.program) is not None


@pytest.mark.parametrize("command", [c for c in ALL if is_script(c)], ids=str)
def test_a_script_is_there_and_takes_its_arguments(command: Command) -> None:
    script = ROOT / command.program
    assert script.is_file() and script.stat().st_mode & 0o111
    words = command.words[1:]
    if script.name == "test":
        assert set(words) <= {*LAYERS, "--all"}
    elif script.name == "build" and words:
        parse_ctk(["build", *words])
    elif script.name == "new-release":
        parse_ctk(["release", "add", *words])
    elif words:  # what it is a front of says which
        (program,) = re.findall(r"(tests/\S+\.py)", script.read_text())[:1]
        knows(ROOT / program, words)


@pytest.mark.parametrize("command", OF_PYTHON, ids=str)
def test_a_program_is_there_and_takes_its_arguments(command: Command) -> None:
    program = ROOT / command.words[1]
    assert program.is_file()
    if "argparse" in program.read_text():
        knows(program, command.words[2:])
    else:
        assert command.words[2:] == () or "argv" in program.read_text()


def knows(program: Path, words: tuple[str, ...]) -> None:
    """Holds options, and the name of a subcommand, against what the program's help says."""
    text = program.read_text()
    subcommands = set(re.findall(r"add_parser\(\s*\"(\w+)\"", text))
    options = set(re.findall(r"\"(--?[a-z][\w-]*)\"", text))
    assert not subcommands or words[0] in subcommands
    assert {word for word in words if word.startswith("-")} <= options


@pytest.mark.parametrize("command", [c for c in ALL if c.program == "rattler-build"], ids=str)
def test_what_rattler_build_is_given_is_there(command: Command) -> None:
    for before, word in zip(command.words, command.words[1:], strict=False):
        if before in ("--recipe", "--variant-config"):
            assert (ROOT / word).exists(), word
    flags = {word for word in command.words if word.startswith("-")}
    # As `rattler-build build --help` of 0.73 lists them.
    assert flags <= {"--recipe", "--variant-config", "--experimental", "-c"}


def test_inline_commands_of_ctk_are_ones_that_it_has() -> None:
    """In the text between the blocks: `ctk release list` and the like."""
    found = set()
    for page in {block.page for block in blocks()} | {"docs/errors.md"}:
        text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
        found |= {shlex.split(m)[0] for m in re.findall(r"`ctk ([a-z][^`]*)`", text)}
    assert found and found <= COMMANDS.keys()
