"""No option is ignored in silence: what says nothing beside another option, or without one, is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from typer.testing import Result

from ctk.cli.idle import RULES, Idle
from ctk.cli.main import app
from ctk.core.errors import BadValue

pytest_plugins = ["kit.channel_fixtures"]

SHARED = {"--json", "--quiet", "--verbose", "--debug", "--help"}
VALUES = {
    "--rebuild": "1",
    "--jobs": "1",
    "--wait": "1",
    "--keep": "2",
    "--keep-days": "1",
    "--sample": "1",
    "--seed": "1",
}
VALUES |= {
    "--trusted-root": __file__,
    "--format": "github",
    "--constraints": "ignored",
    "--platform": "linux-64",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Words of each command, and the command."""

    def below(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*words, name))
            else:
                yield " ".join((*words, name)), command

    return below(typer.main.get_command(app), ())


COMMANDS = dict(commands())


def flags(command: str) -> dict[str, Any]:
    """Long name of each option, or the name of an argument in capitals -> the parameter."""
    params = COMMANDS[command].params
    return {
        param.opts[0] if param.opts[0].startswith("-") else param.name.upper(): param
        for param in params
    }


def typed(command: str, name: str) -> list[str]:
    """The words of an option or an argument with a value."""
    param = flags(command)[name]
    if not name.startswith("-"):
        return ["x"]
    return [name] if param.is_flag else [name, VALUES.get(name, "x")]


def cases() -> Iterator[tuple[str, Idle, str]]:
    for command, rules in RULES.items():
        for rule in rules:
            for option in rule.options:
                yield command, rule, option


@pytest.mark.parametrize(("command", "rule", "option"), [*cases()])
def test_an_option_that_says_nothing_is_refused(
    run_ctk: Callable[..., Result], command: str, rule: Idle, option: str
) -> None:
    words = [*typed(command, option), *(typed(command, rule.beside) if rule.beside else [])]
    error = run_ctk(*command.split(), *words).exception
    assert isinstance(error, BadValue), error
    assert option in error.cause and "no effect" in error.cause
    assert error.step


@pytest.mark.parametrize("command", RULES)
def test_rules_are_about_options_that_there_are(command: str) -> None:
    known = flags(command)
    for rule in RULES[command]:
        named = {*rule.options, *rule.without, *filter(None, (rule.beside,))}
        assert named <= known.keys()


MODES = {
    # What makes a command do another thing, or is looked at only beside another option -> where its
    # rules are.
    "build": {
        "--dry-run",
        "--fetch-only",
        "--format",
        "--store",
        "--all-pythons",
        "--all-releases",
        "--all-components",
        "--libraries",
    },
    "check": {"--list", "--rebuild", "--attested"},
    "clean": {"--yes"},
    "doctor": {"--offline", "--keep"},
    "env add": {"--move"},
    "env create": {"--force", "--yes"},
    "env module": {"--force"},
    "env pack": {"--force"},
    "feedstock": {"--force"},
    "gpu-code": {"--explain", "--strict"},
    "lint": {"--list", "--planned"},
    "publish": {
        "--to",
        "--new",
        "--exact",
        "--yes",
        "--skip-taken",
        "--attest",
        "--accept-redistribution",
    },
    "release add": {"--newer", "--write"},
    "release measure": {"--write", "--again"},
    "release remove": {"--write"},
    "solve": {"--explain", "--everywhere", "--planned"},
    "verify": {"--write-table"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_switch_was_looked_at(command: str) -> None:
    """A new one is written here, once its rules are: which other options does the command ignore
    beside it?
    """
    switches = {name for name, param in flags(command).items() if getattr(param, "is_flag", False)}
    assert switches - SHARED <= MODES.get(command, set())


OF_COMMANDS = [
    # Those that the commands refuse themselves, with a step of their own.
    "build --arch 7.0",
    "build --driver 13.0 --release 13.0",
    "build --driver 13.0 --all-releases",
    "build --python 3.13 --all-pythons",
    "build --release 13.0 --all-releases",
    "build cuda-core --all-components",
    "build cuda-core --libraries",
    "build --dry-run --fetch-only",
    "check ./there --check no-rpath --attested",
    "doctor --driver 13.0",
    "doctor --arch 9.0",
    "doctor . --offline",
    "doctor . --channel x",
    "doctor . --channel x --keep",
    "doctor --channel x --keep",
    "lint --planned --list",
    "lint --planned --format github",
    "release add 13.4 --newer",
    "solve a --channel x --planned",
    "solve a --driver 12.4 --driver 13.0 --explain",
    "solve a --driver 13.0:9.0 --everywhere",
    "solve a --driver 13.0 --pin b",
    "solve a --driver 12.4 --driver 13.0 --prefix ./there",
    "solve a --everywhere --driver 13.0",
    "solve a --everywhere --arch 9.0",
    "solve a --everywhere --explain",
    "solve a --arch 8.0 --arch 9.0",
    "publish --to ./there --new",
    "publish --to ./there --wait 1",
    "publish --to prefix+http://127.0.0.1:9/cuda --exact",
    "publish --to www --yes",
    "publish --to prefix+http://127.0.0.1:9/cuda --keep 2",
    "publish --to prefix+http://127.0.0.1:9/cuda --keep-days 1",
    "publish --to prefix+http://127.0.0.1:9/cuda --sign-key ./key.pem --attest",
]


@pytest.mark.parametrize("line", OF_COMMANDS)
def test_a_command_refuses_a_pair_itself(
    run_ctk: Callable[..., Result], line: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    error = run_ctk(*line.split()).exception
    assert isinstance(error, BadValue), error


@pytest.mark.parametrize("command", COMMANDS)
def test_quiet_and_verbose_exclude_each_other(run_ctk: Callable[..., Result], command: str) -> None:
    needed = [
        ["x"]
        for param in COMMANDS[command].params
        if not param.opts[0].startswith("-") and param.required
    ]
    words = [word for part in needed for word in part]
    words += [
        w
        for name, p in flags(command).items()
        if name.startswith("-") and p.required
        for w in (name, "x")
    ]
    error = run_ctk(*command.split(), *words, "--quiet", "--verbose").exception
    assert isinstance(error, BadValue) and "exclude each other" in error.cause
