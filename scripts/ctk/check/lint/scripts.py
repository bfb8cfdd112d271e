"""Checks of scripts: those that build, and those that run when an environment is activated."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ctk.check.lint.check import ScriptCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.source import SourceFile

_NETWORK = re.compile(r"\b(curl|wget|git (?:clone|fetch|pull)|pip3? (?:install|download)|conda install|apt-get)\b")
_OFFLINE = ("--no-deps", "--no-build-isolation")  # with both, pip installs what lies there
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# The words of a command that removes, up to the next command or a comment.
_REMOVED = re.compile(rf"\brm\s((?:{_QUOTED.pattern}|(?<!\s)#|[^\"'#;&|])*)")
_VARIABLE = re.compile(r"\$\w+|\$\{[^}]*\}")


class ScriptFile(SourceFile):
    """A script of a recipe.

    Args:
        path: The file.
        name: How it is shown.
        builds: Whether a recipe runs it to build; else it is sourced when an environment is activated.
    """

    def __init__(self, path: Path, name: str, builds: bool) -> None:
        super().__init__(path, name)
        self.builds = builds

    @property
    def is_shell(self) -> bool:
        return self.path.suffix in (".sh", "")


class ScriptIsStrict(ScriptCheck):
    """A script that builds begins with `#!` and stops at the first command that fails, with an unset variable, and
    within a pipe: set -euo pipefail. Otherwise half a package is built, and nobody sees it.
    """

    fix = "write set -euo pipefail below the first comment"

    def check(self, script: ScriptFile) -> Iterator[Problem]:
        if not script.builds or not script.is_shell:
            return
        if not script.text.startswith("#!"):
            yield script.line_problem(1, "it does not say what runs it", fix="begin with #!/bin/bash")
        first = next((line for _, line in script.code() if line.strip()), "")
        if not re.match(r"set -euo pipefail\b", first):
            yield script.line_problem(1, "it goes on after a command that failed")


class ActivationLeavesTheShell(ScriptCheck):
    """A script that is sourced when an environment is activated neither ends the user's shell nor changes its options:
    no exit, no set -e.
    """

    fix = "use return, and undo what is set"

    def check(self, script: ScriptFile) -> Iterator[Problem]:
        if script.builds or not script.is_shell:
            return
        for number, line in script.code():
            if match := re.search(r"(?:^|[;&|]\s*|\bthen\s+)(exit\b|set\s+-[a-z]*[eu])", line.strip()):
                yield script.line_problem(number, f"{match[1]} changes the shell of whoever activates")


class ScriptParses(ScriptCheck):
    """bash reads the script without a syntax error."""

    fix = "mend the line that bash names"

    def check(self, script: ScriptFile) -> Iterator[Problem]:
        bash = shutil.which("bash")
        if not script.is_shell or script.unreadable or bash is None:
            return
        done = subprocess.run([bash, "-n"], input=script.text, capture_output=True, text=True, check=False)
        for found in re.findall(r"line (\d+): (.*)", done.stderr)[:1] if done.returncode else ():
            yield script.line_problem(int(found[0]), found[1])


class ScriptIsOffline(ScriptCheck):
    """A script of a recipe takes nothing from a network: what it needs is an artefact that a lock names."""

    fix = "lock what it needs, and name it as a source"

    def check(self, script: ScriptFile) -> Iterator[Problem]:
        for number, line in script.code():
            match = _NETWORK.search(line)
            if match and not all(option in line for option in _OFFLINE):
                yield script.line_problem(number, f"{match[1]} asks a network", match.start() + 1)


class RemovedPathsAreQuoted(ScriptCheck):
    """What a script removes is quoted: a variable with a space in it would name two other things, an empty one could
    name everything.
    """

    fix = 'write rm -rf "$variable"'

    def check(self, script: ScriptFile) -> Iterator[Problem]:
        for number, line in script.code():
            for removed in _REMOVED.finditer(line) if script.is_shell else ():
                plain = _QUOTED.sub(lambda m: " " * len(m[0]), removed[1])
                if match := _VARIABLE.search(plain):
                    column = removed.start(1) + match.start() + 1
                    yield script.line_problem(number, f"{match[0]} is removed without quotes", column)


class SubstitutionIsNested(ScriptCheck):
    """A command's output is taken with $( ), not with backticks, which do not nest and eat backslashes."""

    fix = "write $(command)"

    def check(self, script: ScriptFile) -> Iterator[Problem]:
        for number, line in script.code():
            plain = re.sub(r"'[^']*'|\s#.*$", lambda m: " " * len(m[0]), line)
            if script.is_shell and (match := re.search(r"(?<!\\)`[^`]+`", plain)):
                yield script.line_problem(number, "a command is in backticks", match.start() + 1)
