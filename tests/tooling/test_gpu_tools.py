"""tests/gpu/tools without a GPU: tests of a made-up project are run, and two results stand side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

MODULES = {
    "test_outcomes": """
import multiprocessing, os, unittest, pytest

def remote(): pass
def test_process():
    child = multiprocessing.get_context("spawn").Process(target=remote)
    child.start()
    child.join(600)
    assert child.exitcode == 0
    assert __name__ == "made_up.tests.test_outcomes"

@pytest.mark.usefixtures("initialize_from_pytest_config")
class Case(unittest.TestCase):
    def test_fixture(self):
        assert self._dump_failed_filechecks is False
    def test_subtests(self):
        for i in range(3):
            with self.subTest(i=i):
                assert i != 1

def test_passes(): assert os.environ["HOME"] == os.environ["TMPDIR"]
def test_fails(): assert 1 == 2
def test_skips(): pytest.skip("no such GPU")
@pytest.mark.xfail
def test_known(): assert False
@pytest.fixture
def broken(): raise OSError("no fixture")
def test_setup(broken): pass
""",
    "test_crash": """
import os
def test_before(): pass
def test_crashes(): os.abort()
def test_after(): pass
""",
    "test_hang": """
import time
def test_hangs(): time.sleep(600)
def test_after(): pass
""",
    "test_broken": "import there_is_no_such_module\n",
}
OUTCOMES = {
    "test_outcomes::test_passes": "passed",
    "test_outcomes::test_fails": "failed",
    "test_outcomes::test_skips": "skipped",
    "test_outcomes::test_known": "xfailed",
    "test_outcomes::test_process": "passed",
    "test_outcomes::test_setup": "error",
    "test_outcomes::Case::test_subtests": "failed",
    "test_outcomes::Case::test_fixture": "passed",
    "test_crash::test_before": "passed",
    "test_crash::test_crashes": "crashed",
    "test_crash::test_after": "passed",
    "test_hang::test_hangs": "timeout",
    "test_hang::test_after": "passed",
    "test_broken": "error",
}


def upstream(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tests" / "gpu" / "tools" / "upstream.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests import: this Python's pytest, and a project with tests."""
    made = tmp_path_factory.mktemp("upstream")
    site = Path(pytest.__file__).parents[1]
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        (made / name).symlink_to(site / name)
    tests = made / "made_up" / "tests"
    tests.mkdir(parents=True)
    for package in (tests, tests.parent):
        (package / "__init__.py").touch()
    for name, code in MODULES.items():
        (tests / f"{name}.py").write_text(code)
    (tests / "helper.py").write_text("raise SystemExit('no test')\n")
    info = made / "cuda_pathfinder-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cuda-pathfinder\nVersion: 9.9\n")
    (info / "RECORD").write_text("".join(f"made_up/tests/{name}.py,,\n" for name in (*MODULES, "helper")))
    return made


def test_each_test_has_its_worst_outcome_and_a_crash_or_a_hang_costs_one(folder: Path) -> None:
    output = folder / "found.json"
    done = upstream("run", sys.executable, folder, "-o", output, "--limit", "60", "--each", "8", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert found["projects"]["cuda-pathfinder"] == {"version": "9.9", "modules": len(MODULES)}
    tests = {name.removeprefix("made_up.tests."): test for name, test in found["tests"].items()}
    assert {name: test["outcome"] for name, test in tests.items()} == OUTCOMES
    assert "no such GPU" in tests["test_outcomes::test_skips"]["why"]
    assert "Abort" in tests["test_crash::test_crashes"]["why"]
    assert "there_is_no_such_module" in tests["test_broken"]["why"]


def test_what_the_limit_leaves_no_time_for_was_not_run(folder: Path) -> None:
    output = folder / "none.json"
    assert upstream("run", sys.executable, folder, "-o", output, "--limit", "0").returncode == 0
    assert json.loads(output.read_text())["counts"] == {"not run": len(MODULES)}


def test_without_what_prepare_makes_it_says_so(tmp_path: Path) -> None:
    done = upstream("run", sys.executable, tmp_path, "-o", tmp_path / "x.json")
    assert done.returncode == 2
    assert f"next: upstream.py prepare {tmp_path}" in done.stderr


def side_by_side(folder: Path, ours: Mapping[str, str], pips: object) -> tuple[int, str]:
    for name, side in (("ours", ours), ("pips", pips)):
        found: Any = side
        if isinstance(side, dict) and side:
            found = {
                "python": "3.12.1",
                "projects": {"numba-cuda": {"version": "0.30.4", "modules": 2}},
                "tests": {test: {"outcome": value, "why": "line one\nline two"} for test, value in side.items()},
            }
        (folder / name).write_text(json.dumps(found))
    done = upstream("compare", folder / "ours", folder / "pips")
    return done.returncode, done.stdout + done.stderr


def test_a_test_that_fails_in_both_is_no_reason_to_fail(tmp_path: Path) -> None:
    ours, pips = {"a": "passed", "b": "failed", "c": "passed"}, {"a": "passed", "b": "error", "c": "failed"}
    code, shown = side_by_side(tmp_path, ours, pips)
    assert code == 0
    assert "| numba-cuda | 0.30.4, 2 test modules | 0.30.4, 2 test modules |" in shown
    assert "| passed | 2 | 1 |" in shown
    assert "worse in ours: 0\n" in shown and "fails in both: 1\n  b: failed, pip's error" in shown
    assert "fails in pip's only: 1\n  c: passed, pip's failed" in shown


@pytest.mark.parametrize(("here", "there"), [("failed", "passed"), ("crashed", "skipped"), ("skipped", "passed")])
def test_a_test_that_is_worse_in_ours_is_named_and_fails(tmp_path: Path, here: str, there: str) -> None:
    code, shown = side_by_side(tmp_path, {"a": "passed", "b": here}, {"a": "passed", "b": there})
    assert code == 1
    assert f"worse in ours: 1\n  b: {here}, pip's {there}\n    line one\n    line two" in shown


@pytest.mark.parametrize("bad", [[], {}, "x"])
def test_what_is_no_result_cannot_be_compared(tmp_path: Path, bad: object) -> None:
    code, shown = side_by_side(tmp_path, {"a": "passed"}, bad)
    assert code == 2
    assert shown.startswith("error: ") and "next: write them with upstream.py run" in shown


def test_the_tests_of_sources_run_with_their_own_settings_and_a_sample_is_the_same_each_time(
    folder: Path, tmp_path: Path
) -> None:
    tests = tmp_path / "sources" / "tests" / "deep"
    tests.mkdir(parents=True)
    (tmp_path / "sources" / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["own"]\n')
    (tests.parent / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef own(): return 1\n")
    code = "import pytest\n\n@pytest.mark.parametrize('n', range(40))\n@pytest.mark.own\ndef test_own(own, n): pass\n"
    (tests / "test_first.py").write_text(code)
    (tests / "test_second.py").write_text(code)

    def run(*words: str) -> dict[str, object]:
        output = tmp_path / "found.json"
        sources = ("--sources", tmp_path / "sources", "--limit", "60", "--jobs", "2")
        done = upstream("run", sys.executable, folder, "-o", output, *sources, *words)
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(output.read_text())["tests"]
        return found

    everything = run()
    assert len(everything) == 80 and all(name.startswith("tests/deep/test_") for name in everything)
    assert {str(test["outcome"]) for test in everything.values() if isinstance(test, dict)} == {"passed"}
    assert len(run("--only", "first", "--only", "none")) == 40
    part = run("--sample", "4")
    assert 0 < len(part) < 60 and part.keys() <= everything.keys()
    assert part.keys() == run("--sample", "4").keys()
