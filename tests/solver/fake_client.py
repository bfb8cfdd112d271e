"""Programs that stand for conda's clients: they take the options that the real ones have, and answer in their shapes.

A fake is a script on PATH that writes down how it was called and answers from a file beside it. An option that the real
program does not have for that command ends it, and so do options that the real one refuses together.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Options = dict[str, int | tuple[str, ...]]
Commands = dict[str, dict[str, Options]]
"""Command, "" for none -> the function that adds options to it -> option -> how many values it takes, or which."""

# micromamba/src of mamba-org/mamba: functions of common_options.cpp, but set_umamba_command is in umamba.cpp.
_RC: Options = {"--rc-file": 1, "--no-rc": 0, "--no-env": 0}
_GENERAL: Options = {
    **dict.fromkeys(("-q", "--quiet", "-y", "--yes", "--json", "--offline", "--dry-run"), 0),
    "--log-level": ("critical", "error", "warning", "info", "debug", "trace", "off"),
}
_PREFIX: Options = dict.fromkeys(("-r", "--root-prefix", "-p", "--prefix", "-n", "--name"), 1)
_EVERYWHERE = {"init_rc_options": _RC, "init_general_options": _GENERAL, "init_prefix_options": _PREFIX}
LIBMAMBA: Commands = {
    "": {**_EVERYWHERE, "set_umamba_command": {"--version": 0}},
    "info": _EVERYWHERE,
    "create": {
        **_EVERYWHERE,
        "init_network_options": {"--repodata-ttl": 1},
        "init_channel_parser": {
            **dict.fromkeys(("--override-channels", "--strict-channel-priority", "--no-channel-priority"), 0),
            **dict.fromkeys(("-c", "--channel"), 1),
            "--channel-priority": ("disabled", "flexible", "strict"),
        },
        "init_install_options": {"--no-pin": 0, "--no-deps": 0, "--platform": 1},
    },
}
# conda/cli of conda/conda: functions of helpers.py, but for generate_parser, which is in conda_argparse.py.
_JSON: Options = dict.fromkeys(("--json", "-q", "--quiet"), 0)
CONDA: Commands = {
    "": {"generate_parser": {"-V": 0, "--version": 0}},
    "info": {"add_parser_json": _JSON},
    "create": {
        "add_parser_json": {**_JSON, **dict.fromkeys(("-d", "--dry-run", "-y", "--yes"), 0)},
        "add_parser_prefix_to_group": dict.fromkeys(("-p", "--prefix", "-n", "--name"), 1),
        "add_parser_channels": {"-c": 1, "--channel": 1, "--override-channels": 0, "--repodata-fn": 1},
        "add_parser_solver_mode": dict.fromkeys(
            ("--strict-channel-priority", "--no-channel-priority", "--no-deps", "--no-pin"), 0
        ),
        "add_parser_networking": {"--offline": 0},
        "add_parser_default_packages": {"--no-default-packages": 0},
        "add_parser_platform": {"--subdir": 1, "--platform": 1},
        "add_parser_solver": {"--solver": ("classic", "libmamba")},
    },
}
# The reference of `pixi lock`.
PIXI: Commands = {
    "": {"pixi": {"--version": 0, "-V": 0}},
    "lock": {
        "pixi lock": {
            **dict.fromkeys(("--json", "--check", "--dry-run", "--no-install", "--no-config"), 0),
            **dict.fromkeys(("--manifest-path", "-m", "--color"), 1),
        }
    },
}

# What a program refuses although it knows each word: options and variables that are there together, those of which one
# is missing, and what it says.
_REFUSED: dict[str, list[tuple[list[str], list[str], str]]] = {
    "libmamba": [
        # libmamba/src/api/configuration.cpp, rc_files_hook: CONDARC and MAMBARC are the variables of rc_files.
        (["--no-rc", "CONDARC"], [], "Configuration files disabled by 'no_rc'"),
        (["--no-rc", "MAMBARC"], [], "Configuration files disabled by 'no_rc'"),
        (["--no-rc", "--rc-file"], [], "Configuration files disabled by 'no_rc'"),
        # The same file, env_name_hook.
        (["--name", "--prefix"], [], "Cannot set both prefix and env name"),
        # micromamba/src/common_options.cpp, no_channel_priority_hook.
        (
            ["--strict-channel-priority", "--no-channel-priority"],
            [],
            "Cannot set both 'no_channel_priority' and 'strict_channel_priority'.",
        ),
    ],
    "conda": [
        # conda/cli/helpers.py, add_parser_prefix: the two exclude each other.
        (["--name", "--prefix"], [], "not allowed with argument"),
        # conda/base/context.py, Context.channels.
        (["--override-channels"], ["--channel"], "At least one -c / --channel flag must be supplied when using"),
        # conda_libmamba_solver/index.py, _fetch_one_repodata_json: the default solver then reads no channel at all, but
        # what an earlier run left in the cache.
        (["--offline"], ["--solver"], "PackagesNotFoundInChannelsError: The following packages are not available"),
    ],
    "pixi": [],
}
_LONG = {"-n": "--name", "-p": "--prefix", "-c": "--channel", "-r": "--root-prefix"}

_PROGRAM = """#!{python} -IS
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).resolve()
commands, words, rest, there = {commands!r}, [], list(sys.argv[1:]), set(os.environ)
known = commands[""]
while rest:
    word = rest.pop(0)
    if word.startswith("-"):
        if word not in known:
            sys.exit("The following argument was not expected: " + word)
        there.add({long!r}.get(word, word))
        values = known[word]
        if values and not rest:
            sys.exit(word + ": 1 required")
        value = rest.pop(0) if values else ""
        if isinstance(values, tuple) and value not in values:
            sys.exit(word + ": " + value + " not in " + str(values))
    else:
        if not words:
            if word not in commands:
                sys.exit("The following argument was not expected: " + word)
            known = commands[word]
        words.append(word)
for together, missing, says in {refused!r}:
    if there.issuperset(together) and not there.intersection(missing or ["-"]):
        sys.exit(says)
if {reads_condarc!r} and not pathlib.Path(os.environ.get("CONDARC", here)).exists():
    sys.exit("Configuration file specified but does not exist at")  # rc_files_hook
seen = {{str(p): p.read_text() for p in pathlib.Path.cwd().glob("*.toml")}}
call = {{"arguments": sys.argv[1:], "words": words, "environment": dict(os.environ), "files": seen}}
with open(str(here) + ".calls", "a") as log:
    log.write(json.dumps(call) + "\\n")
answers = json.loads(pathlib.Path(str(here) + ".answers").read_text())
answer = answers.get(words[0] if words else sys.argv[1], answers["create"])
driver = os.environ.get("CONDA_OVERRIDE_CUDA")
answer = answer.get("by driver", {{}}).get(driver, answer)
time.sleep(answer.get("sleep", 0))
for name, text in answer.get("files", {{}}).items():
    pathlib.Path(name).write_text(text)
sys.stdout.write(answer.get("out", ""))
sys.stderr.write(answer.get("err", ""))
sys.stdout.flush()
if "signal" in answer:
    os.kill(os.getpid(), answer["signal"])
sys.exit(answer.get("code", 0))
"""


@dataclass(frozen=True)
class Call:
    """How a fake was called."""

    arguments: list[str]  # all of them
    words: list[str]  # those that are no flag and no flag's value: the command, then the specs
    environment: dict[str, str]  # all of it
    files: dict[str, str]  # text of the TOML files where it ran

    def values(self, flag: str) -> list[str]:
        """The values of a flag, in order."""
        return [value for name, value in zip(self.arguments, self.arguments[1:], strict=False) if name == flag]


@dataclass(frozen=True)
class Fake:
    """A client on PATH."""

    path: Path

    def answers(self, **by_command: dict[str, Any]) -> None:
        """What it does for a command: any of ``out``, ``err``, ``code``, ``sleep``, ``signal`` and ``files``."""
        named = {name.replace("version", "--version"): answer for name, answer in by_command.items()}
        Path(f"{self.path}.answers").write_text(json.dumps(named))

    def calls(self, command: str) -> list[Call]:
        """How it was called for one command."""
        log = Path(f"{self.path}.calls")
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for call in (Call(**json.loads(line)) for line in lines) if call.words[:1] == [command]]


def install(name: str, commands: Commands, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a fake on PATH, alone but for the system's own programs."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    kind = "pixi" if name == "pixi" else "libmamba" if "init_rc_options" in commands[""] else "conda"
    options = {command: {o: n for of in by.values() for o, n in of.items()} for command, by in commands.items()}
    program.write_text(
        _PROGRAM.format(
            python=sys.executable,
            commands=options,
            long=_LONG,
            refused=_REFUSED[kind],
            reads_condarc=kind == "libmamba",
        )
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return Fake(program)
