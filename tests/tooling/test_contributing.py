"""CONTRIBUTING.md names files and commands that are there; its links are those of tests/docs/test_links.py."""

from __future__ import annotations

import re

import click
import typer

from conftest import ROOT
from ctk.cli.main import app

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_each_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"(?:\./)?((?:scripts|tests|docs|recipes|variants)/[\w./-]*\w)", TEXT))
    assert len(named) > 15
    for name in named:
        assert (ROOT / name.partition("/NAME")[0]).exists(), name


def test_each_command_is_one_that_ctk_has() -> None:
    found = [words.split() for words in re.findall(r"`ctk ([^`]+)`", TEXT)]
    assert found
    for words in found:
        command = typer.main.get_command(app)
        while isinstance(command, click.Group) or hasattr(command, "commands"):
            assert words and words[0] in command.commands, words
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, words
