"""What the commands that answer at once do not import: what makes, reads or solves packages.

No test here knows a clock. `.venv/bin/python -X importtime -m ctk.cli.main ...` shows times.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conftest import ROOT

BUILDS = ("distributed", "ctk.build.cluster", "ctk.build.runner", "ctk.build.standins")
PACKAGES = ("elftools", "ctk.lock.contents", "ctk.package.scan", "ctk.package.binaries")
SOLVES = ("ctk.solve.solve", "ctk.solve.why", "ctk.authors.installable")


MAKES = ("rattler", "rattler_build", "unearth", "ctk.plan", "ctk.lock.model", "ctk.solve.solve")


def imported(*words: str) -> set[str]:
    """The modules that a command of this checkout has imported at its end."""
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from ctk.cli.main import app; app()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "CTK_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return set(done.stderr.split())


def test_doctor_imports_no_room_of_the_maker_and_no_solver() -> None:
    found = imported("doctor", "--offline")
    assert "ctk.env.doctor" in found
    assert not found & set(MAKES)


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (("build", "--dry-run", "cuda-version", "--release", "13.4"), (*BUILDS, *PACKAGES)),
        (("build", "--dry-run", "cuda-version", "--release", "13.4"), SOLVES),
        (("release", "list"), (*BUILDS, *PACKAGES, *SOLVES)),
        (("lint", "--check", "LocksAreMeasured"), (*BUILDS, *PACKAGES, "ctk.audit")),
    ],
    ids=lambda words: words[0],
)
def test_a_quick_command_does_not_import(words: tuple[str, ...], without: tuple[str, ...]) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from ctk.cli.main import app; app()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "CTK_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = set(done.stderr.split())
    assert "ctk.plan.plan" in found
    assert not found & set(without)
