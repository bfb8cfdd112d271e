"""Environments as the tests of this folder see them: a folder, its conda-meta, and programs that
run in it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
from gpu_machine import search_path

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).resolve().parent / "programs"
EXAMPLES = ROOT / "examples"
VARIABLE = "CTK_GPU_ENVIRONMENTS"
# No pin, and pins of cuda-version; those that a channel lacks are skipped.
NAMES = ("none", "12.6", "12.9", "13.0", "13.4", "13.5")
SECONDS = 300  # one program: the first start of a GPU and a cold disk are slow, a hang is longer


@dataclass(frozen=True)
class Environment:
    """One environment.

    Attributes:
        name: What cuda-version was pinned to when it was made, or ``none``.
        prefix: Its folder.
        printed: What programs printed, so that each runs once.
    """

    name: str
    prefix: Path
    printed: dict[Path, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def python(self) -> Path:
        return self.prefix / ("python.exe" if os.name == "nt" else "bin/python")

    def record(self, name: str) -> Mapping[str, Any] | None:
        """What conda-meta says of a package, or None when it is not in the environment."""
        for file in (self.prefix / "conda-meta").glob(f"{name}-*.json"):
            record = json.loads(file.read_text(encoding="utf-8"))
            if record["name"] == name:
                return record
        return None

    def needs(self, name: str) -> Mapping[str, Any]:
        """The same, or the test is skipped."""
        return self.record(name) or pytest.skip(
            f"there is no {name} in the environment {self.name}"
        )

    @property
    def toolkit(self) -> str:
        """The CTK minor, e.g. ``13.0``."""
        return self.needs("cuda-version")["version"]

    @property
    def fit(self) -> str:
        """``native`` or ``compat``, as the build of cuda-version says."""
        return self.needs("cuda-version")["build"].partition("_")[0]

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs its Python, isolated, with nothing of this process's own environment."""
        clean = {
            "PATH": os.pathsep.join([str(self.python.parent), "/usr/bin", "/bin"]),
            "CONDA_PREFIX": str(self.prefix),
            "HOME": str(self.prefix),
            "LANG": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k in ("SYSTEMROOT", "CUDA_VISIBLE_DEVICES")},
            **search_path(),
        }
        return subprocess.run(
            [self.python, "-I", *arguments],
            env=clean,
            cwd=self.prefix,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )

    def output(self, program: Path) -> str:
        """What a program prints; the test fails with its output when it does not succeed."""
        if program not in self.printed:
            done = self.run(program)
            if done.returncode:
                self._fail(program, done)
            self.printed[program] = done.stdout
        return self.printed[program]

    def report(self, program: Path) -> Mapping[str, Any]:
        """What a program prints: one JSON object, in the last line."""
        lines = self.output(program).splitlines()
        found: Mapping[str, Any] = json.loads(lines[-1] if lines else "")
        return found

    def facts(self, program: Path) -> Mapping[str, str]:
        """What a program of examples/ prints: an aligned list of names and values."""
        return dict(re.findall(r"^(\S.*?) {2,}(\S.*)$", self.output(program), re.M))

    def _fail(self, program: Path, done: subprocess.CompletedProcess[str]) -> NoReturn:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        pytest.fail(
            f"{program.name} ended with {done.returncode} in the environment {self.name}:\n{tail}\n"
            f"run it by hand: {self.python} -I {program}",
            pytrace=False,
        )


def names(outside: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The environments to test: the subfolders of the folder that the variable names, or all that
    can be made here.
    """
    folder = outside.get(VARIABLE)
    if not folder:
        return NAMES
    found = sorted(path.parent.name for path in Path(folder).glob("*/conda-meta"))
    return tuple(found) or (f"nothing in {folder}",)
