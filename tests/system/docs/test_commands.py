"""The commands of ctk in the docs are run, or at least read as ctk reads them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from conftest import ctk
from ctk.cli.main import app
from ctk.core.checkout import Workspace
from kit.doc_commands import Command, commands, parse_ctk
from kit.doc_pages import CURRENT, blocks

pytest_plugins = ["docs_fixtures"]

BASH = [block for block in blocks() if block.language == "bash"]
ALL = [command for block in BASH for command in commands(block)]
CTK = [Command(c.block, c.words[1:], c.variables, c.comment) for c in ALL if c.program == "ctk"]
NOT_RUN = (
    # Beginnings of lines that take minutes, or need the index or what lies elsewhere: these are
    # parsed.
    ("build",),
    ("build-recipe",),
    ("check",),
    ("verify",),
    ("gpu-code",),
    ("site",),
    ("env", "create", "scale"),  # what build-recipe made: tests/system/walks/test_examples.py
    ("env", "add"),  # and what it would change: tests/system/environments/test_second_command.py
    ("solve", "numba-cuda", "--prefix"),
    ("solve", "pytorch", "--driver", "12.8", "--channel", "/srv/www/second"),
    ("env", "module"),  # tests/channel/env/test_modulefile.py
    ("env", "create", "--prefix", "ENVIRONMENT"),  # of benchmarks/, with the whole toolkit
    ("env", "pack"),
    ("env", "run"),
    ("doctor", "./my-env"),
    ("doctor", "--channel"),  # without a checkout: tests/system/cli/test_without_checkout.py
    ("doctor", "$CONDA_PREFIX"),
    ("clean", "--yes"),
    ("lint", "--planned"),
    ("rollback",),
    ("publish",),
    ("release", "add"),
    ("release", "check"),
    ("release", "diff"),
    ("release", "measure"),
    ("release", "remove", "nvcomp", "5.2.0.13"),  # a line before it would lock it
    ("feedstock",),
)
RUN = {
    c.words: c
    for c in CTK
    if not any(map(c.starts_with, NOT_RUN))
    or ("--dry-run" in c.words and "13.6" not in c.words)  # not locked yet
}


@pytest.mark.parametrize("command", CTK, ids=str)
def test_ctk_knows_every_option_and_argument(command: Command) -> None:
    parse_ctk(command.words)


@pytest.mark.parametrize("command", RUN.values(), ids=str)
def test_a_line_of_ctk_does_what_it_says(command: Command, scratch: Path) -> None:
    """In a copy of the checkout.

    A line whose comment does not say that it is an error must not be one.
    """
    fails = command.comment == "an error"
    here = Workspace(scratch)
    words = [
        word.replace("../", f"{scratch.parent}/").replace("./", f"{scratch}/")
        for word in command.words
    ]
    words = [
        _file_of_user(word, before, scratch)
        for before, word in zip(["", *words[:-1]], words, strict=True)
    ]
    if command.words[:2] == ("env", "create"):
        words = [*words, "--yes"]  # a line of another page may have put more there
    done = ctk(here, *words, **command.variables)
    # What `ctk doctor` finds missing is this machine's.
    assert bool(done.returncode) == fails or (command.words, done.returncode) == (
        ("doctor",),
        30,
    ), done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stdout + done.stderr).strip()


FILES = {
    "environment.yml": "channels: [conda-forge]\ndependencies: [numba-cuda]\n",
    "new.yml": "dependencies: [cuda-gpu, numba-cuda]\n",
    "pixi.toml": (
        '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
        '[feature.gpu.dependencies]\ncuda-core = "*"\n[environments]\ngpu = ["gpu"]\n'
    ),
}
"""Files that the docs' reader has."""


def _file_of_user(word: str, before: str, scratch: Path) -> str:
    """A word of a command, with the path of a file that its reader has."""
    if word not in FILES:
        return word
    if before == "--write":
        return str(scratch / f"written-{len(list(scratch.iterdir()))}-{word}")
    path = scratch / word
    path.write_text(FILES[word])
    return str(path)


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.stem)
def test_ctk_has_the_commands_and_options_in_the_text(page: Path) -> None:
    """Between the blocks: `ctk verify --write-table` and the like."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for match in re.findall(r"`ctk ([a-z][^`]*)`", text):
        words = shlex.split(match)
        command: Any = typer.main.get_command(app)
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, match
            command = command.commands[words.pop(0)]
        # What follows is of another program.
        words = words[: words.index("--")] if "--" in words else words
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, match
