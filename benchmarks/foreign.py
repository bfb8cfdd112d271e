"""Sources of other projects from git folders, and commands on them in an activated environment.

What the programs beside share that compile others' code against our packages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ctk.env.activation import command_in

# Of a compiler's, a linker's and CMake's words those that say why; the first match is shown.
_WHY = re.compile(
    r"fatal error: .*|.*: error:? .*|.*cannot find -l.*|.*undefined reference.*|CMake Error.*"
    r"|.*No such file.*|.*command not found.*|fatal: .*"
)
_LIMIT = 4 * 3600  # seconds of a command: one that hangs is a failure, too


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    output: str  # both streams

    @property
    def why(self) -> str:
        """The first line that names a cause, else the last one; of CMake's, with the next three."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        for number, line in enumerate(lines):
            if _WHY.fullmatch(line):
                is_cmake = line.startswith("CMake Error")
                return " ".join(lines[number : number + (4 if is_cmake else 1)])
        return lines[-1] if lines else f"exit code {self.code}"


def run(prefix: Path, command: list[str], folder: Path, **variables: str) -> Done:
    """Runs a command in an activated environment, which sees few variables of this shell."""
    shell = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command_in(prefix, command),
            cwd=folder,
            env=shell | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Done(124, f"error: it ran for more than {_LIMIT} s")
    return Done(done.returncode, done.stdout)


def extract(repository: Path, into: Path, *folders: str, revision: str = "HEAD") -> None:
    """Writes the files of a git folder, or of folders in it; leaves out those that it lacks.

    A partial clone may lack large files, such as pictures.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        # An index of its own, so that the repository stays as it is.
        variables = {"GIT_INDEX_FILE": f"{scratch}/index", "GIT_NO_LAZY_FETCH": "1"}

        def lines(*words: str, given: str = "") -> list[str]:
            done = subprocess.run(
                ["git", "-C", str(repository), f"--work-tree={into}", *words],
                input=given,
                env=os.environ | variables,
                capture_output=True,
                text=True,
                check=True,
            )
            return done.stdout.splitlines()

        lines("read-tree", revision)
        tree = [line.partition("\t") for line in lines("ls-tree", "-r", revision, "--", *folders)]
        blobs = {path: words.split()[2] for words, _, path in tree}
        checked = lines("cat-file", "--batch-check", given="\n".join(blobs.values()))
        missing = {line.split()[0] for line in checked if line.endswith(" missing")}
        paths = [path for path, blob in blobs.items() if blob not in missing]
        lines("checkout-index", "--stdin", given="\n".join(paths))


@dataclass(frozen=True)
class Program:
    """An executable that a CMake project makes."""

    name: str
    folder: str  # of its CMakeLists.txt, from the top of the sources
    path: Path

    @property
    def is_linked(self) -> bool:
        return self.path.is_file()


class Project:
    """A CMake project, configured and built in an activated environment."""

    def __init__(
        self, prefix: Path, source: Path, build: Path, *options: str, cmake: str = "cmake"
    ) -> None:
        query = build / ".cmake/api/v1/query/codemodel-v2"
        query.parent.mkdir(parents=True)
        query.touch()
        self.prefix = prefix
        self.build = build
        self.cmake = cmake
        command = [cmake, "-S", str(source), "-B", str(build), "-G", "Ninja", *options]
        self.configured = run(prefix, command, build)

    def programs(self) -> list[Program]:
        """As CMake's file API names them (its manual, "cmake-file-api")."""
        reply = self.build / ".cmake/api/v1/reply"
        found = []
        for file in sorted(reply.glob("target-*.json")):
            target = json.loads(file.read_text())
            if target["type"] == "EXECUTABLE":
                path = self.build / target["artifacts"][0]["path"]
                found.append(Program(target["name"], target["paths"]["source"], path))
        return found

    def compile(self, *targets: str) -> Done:
        """Builds everything that can be built."""
        named = ["--target", *targets] if targets else []
        jobs = str(len(os.sched_getaffinity(0)))  # Ninja itself takes two more
        command = [self.cmake, "--build", str(self.build), *named, "--", "-k", "0", "-j", jobs]
        return run(self.prefix, command, self.build)
