"""Programs that stand for conda's clients: they take the flags that the real ones document, and answer in their shapes.

A fake is a script on PATH that writes down how it was called and answers from a file beside it. A flag that the real
program does not have ends it, as it ends the real one.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Flag -> number of values. micromamba/src/common_options.cpp and create.cpp of mamba-org/mamba.
LIBMAMBA = {
    **dict.fromkeys(
        ("--no-rc", "--no-env", "-y", "--yes", "--json", "--offline", "--dry-run", "--override-channels"), 0
    ),
    **dict.fromkeys(
        ("--strict-channel-priority", "--no-channel-priority", "--no-pin", "--no-deps", "-q", "--version"), 0
    ),
    **dict.fromkeys(("--rc-file", "-r", "--root-prefix", "-p", "--prefix", "-n", "--name", "-c", "--channel"), 1),
    **dict.fromkeys(("--platform", "--channel-priority", "--repodata-ttl", "--log-level"), 1),
}
# `conda create --help`; conda/cli/helpers.py and main_create.py of conda/conda.
CONDA = {
    **dict.fromkeys(("-y", "--yes", "--json", "--offline", "-d", "--dry-run", "--override-channels", "--version"), 0),
    **dict.fromkeys(("--strict-channel-priority", "--no-channel-priority", "--no-default-packages", "--no-deps"), 0),
    **dict.fromkeys(("-p", "--prefix", "-n", "--name", "-c", "--channel", "--repodata-fn", "--solver"), 1),
}
# The reference of `pixi lock`.
PIXI = {
    **dict.fromkeys(("--json", "--check", "--dry-run", "--no-install", "--version", "-V", "--no-config"), 0),
    **dict.fromkeys(("--manifest-path", "-m", "--color"), 1),
}

_PROGRAM = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).resolve()
given, words, rest = {flags!r}, [], list(sys.argv[1:])
while rest:
    word = rest.pop(0)
    if word.startswith("-"):
        if word not in given:
            sys.exit("The following argument was not expected: " + word)
        if len(rest) < given[word]:
            sys.exit(word + ": 1 required")
        del rest[: given[word]]
    else:
        words.append(word)
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
    """How a fake was called.

    Attributes:
        arguments: All of them.
        words: Those that are no flag and no flag's value: the command, then the specs.
        environment: All of it.
        files: Text of the TOML files where it ran.
    """

    arguments: list[str]
    words: list[str]
    environment: dict[str, str]
    files: dict[str, str]

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


def install(name: str, flags: dict[str, int], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a fake on PATH, alone but for the system's own programs."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(_PROGRAM.format(python=sys.executable, flags=flags))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return Fake(program)
