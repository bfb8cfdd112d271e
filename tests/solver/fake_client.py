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

Commands = dict[str, str]
"""Command, "" for none -> its options; ``=`` ends one that takes a value, and what follows are its only values."""

# micromamba/src of mamba-org/mamba, functions of common_options.cpp: init_rc_options, init_general_options and
# init_prefix_options for every command; init_network_options, init_channel_parser and init_install_options for create.
_EVERYWHERE = """
    --rc-file= --no-rc --no-env -q --quiet -y --yes --json --offline --dry-run
    --log-level=critical,error,warning,info,debug,trace,off -r= --root-prefix= -p= --prefix= -n= --name=
"""
LIBMAMBA: Commands = {
    "": f"{_EVERYWHERE} --version",  # set_umamba_command in umamba.cpp
    "info": _EVERYWHERE,
    "create": f"""{_EVERYWHERE}
        --repodata-ttl= --override-channels --strict-channel-priority --no-channel-priority -c= --channel=
        --channel-priority=disabled,flexible,strict --no-pin --no-deps --platform=
    """,
}
# conda/cli of conda/conda: generate_parser in conda_argparse.py, and of helpers.py add_parser_json, _prefix_to_group,
# _channels, _solver_mode, _networking, _default_packages, _platform and _solver.
CONDA: Commands = {
    "": "-V --version",
    "info": "--json -q --quiet",
    "create": """
        --json -q --quiet -d --dry-run -y --yes -p= --prefix= -n= --name=
        -c= --channel= --override-channels --repodata-fn= --strict-channel-priority --no-channel-priority --no-deps
        --no-pin --offline --no-default-packages --subdir= --platform= --solver=classic,libmamba,rattler
    """,
}
# The reference of `pixi lock`.
PIXI: Commands = {
    "": "--version -V",
    "lock": "--json --check --dry-run --no-install --no-config --manifest-path= -m= --color=",
}


def options(text: str) -> dict[str, tuple[str, ...] | None]:
    """Option -> its values, () for any, None for an option without one."""
    split = (word.partition("=") for word in text.split())
    return {name: tuple(filter(None, values.split(","))) if takes else None for name, takes, values in split}


# What a program refuses although it knows each word: options and variables that are there together, those of which one
# is missing, and what it says.
_REFUSED: dict[str, list[tuple[list[str], list[str], str]]] = {
    "libmamba": [
        # libmamba/src/api/configuration.cpp, rc_files_hook: CONDARC and MAMBARC are the variables of rc_files.
        *((["--no-rc", other], [], "Configuration files disabled by 'no_rc'") for other in ("CONDARC", "--rc-file")),
        # The same file, env_name_hook.
        (["--name", "--prefix"], [], "Cannot set both prefix and env name"),
        # micromamba/src/common_options.cpp, no_channel_priority_hook.
        (["--strict-channel-priority", "--no-channel-priority"], [], "Cannot set both 'no_channel_priority' and"),
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
        if values is not None and not rest:
            sys.exit(word + ": 1 required")
        value = rest.pop(0) if values is not None else ""
        if values and value not in values:
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
    kind = "pixi" if commands is PIXI else "libmamba" if commands is LIBMAMBA else "conda"
    known = {command: options(text) for command, text in commands.items()}
    values = {"commands": known, "long": _LONG, "refused": _REFUSED[kind], "reads_condarc": kind == "libmamba"}
    program.write_text(_PROGRAM.format(python=sys.executable, **values))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return Fake(program)
