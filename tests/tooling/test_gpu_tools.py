"""tests/gpu/tools without a GPU: tests of a made-up project, two results side by side, the table of costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from conftest import ROOT

TOOLS = ROOT / "tests" / "gpu" / "tools"

import compare  # noqa: E402
import cost  # noqa: E402
import table  # noqa: E402

MODULES = {
    "test_outcomes": """
import multiprocessing, os, unittest, pytest

def remote(): pass
def test_process():
    child = multiprocessing.get_context("spawn").Process(target=remote)
    child.start()
    child.join(60)
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
    listed = [f"made_up/tests/{name}.py,," for name in (*MODULES, "helper")]
    (info / "RECORD").write_text("\n".join(listed) + "\n")
    return made


def upstream(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, TOOLS / "upstream.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def found(folder: Path) -> Mapping[str, object]:
    output = folder / "found.json"
    done = upstream("run", sys.executable, folder, "-o", output, "--limit", "60", "--each", "8", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


def outcome(found: Mapping[str, object], name: str) -> str:
    return found["tests"][f"made_up.tests.{name}"]["outcome"]


def test_the_modules_are_those_that_the_wheels_list(found: Mapping[str, object]) -> None:
    assert found["projects"]["cuda-pathfinder"] == {"version": "9.9", "modules": len(MODULES)}


def test_each_test_has_its_worst_outcome(found: Mapping[str, object]) -> None:
    got = {name: outcome(found, f"test_outcomes::{name}") for name in ("test_passes", "test_fails", "test_skips")}
    assert got == {"test_passes": "passed", "test_fails": "failed", "test_skips": "skipped"}
    assert outcome(found, "test_outcomes::test_known") == "xfailed"
    assert outcome(found, "test_outcomes::test_process") == "passed"
    assert outcome(found, "test_outcomes::test_setup") == "error"
    assert outcome(found, "test_outcomes::Case::test_subtests") == "failed"
    assert outcome(found, "test_outcomes::Case::test_fixture") == "passed"
    assert "no such GPU" in found["tests"]["made_up.tests.test_outcomes::test_skips"]["why"]


def test_a_crash_or_a_hang_costs_one_test(found: Mapping[str, object]) -> None:
    assert outcome(found, "test_crash::test_before") == outcome(found, "test_crash::test_after") == "passed"
    assert outcome(found, "test_crash::test_crashes") == "crashed"
    assert "Abort" in found["tests"]["made_up.tests.test_crash::test_crashes"]["why"]
    assert outcome(found, "test_hang::test_hangs") == "timeout"
    assert outcome(found, "test_hang::test_after") == "passed"


def test_a_module_that_cannot_be_imported_is_an_error(found: Mapping[str, object]) -> None:
    assert outcome(found, "test_broken") == "error"
    assert "there_is_no_such_module" in found["tests"]["made_up.tests.test_broken"]["why"]


def test_what_the_limit_leaves_no_time_for_was_not_run(folder: Path) -> None:
    output = folder / "none.json"
    assert upstream("run", sys.executable, folder, "-o", output, "--limit", "0").returncode == 0
    assert json.loads(output.read_text())["counts"] == {"not run": len(MODULES)}


def test_without_what_prepare_makes_it_says_so(tmp_path: Path) -> None:
    done = upstream("run", sys.executable, tmp_path, "-o", tmp_path / "x.json")
    assert done.returncode == 2
    assert f"next: upstream.py prepare {tmp_path}" in done.stderr


def result(**outcomes: str) -> dict[str, object]:
    return {
        "python": "3.12.1",
        "projects": {"numba-cuda": {"version": "0.30.4", "modules": 2}},
        "tests": {name: {"outcome": value, "why": "line one\nline two"} for name, value in outcomes.items()},
    }


@pytest.fixture
def side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(ours: object, pips: object) -> tuple[int, str]:
        for name, side in (("ours", ours), ("pips", pips)):
            (tmp_path / name).write_text(json.dumps(side))
        code = compare.main([str(tmp_path / "ours"), str(tmp_path / "pips"), "--markdown", str(tmp_path / "table")])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return run


def test_a_test_that_fails_in_both_is_no_reason_to_fail(side_by_side: Callable[..., tuple[int, str]]) -> None:
    code, shown = side_by_side(result(a="passed", b="failed", c="passed"), result(a="passed", b="error", c="failed"))
    assert code == 0
    assert "| passed | 2 | 1 |" in shown
    assert "worse in ours: 0" in shown
    assert "fails in pip's only: 1\n  c: passed, pip's failed" in shown


@pytest.mark.parametrize(
    ("here", "there"),
    [("failed", "passed"), ("crashed", "skipped"), ("timeout", "passed"), ("not run", "passed"), ("skipped", "passed")],
)
def test_a_test_that_is_worse_in_ours_is_named_and_fails(
    side_by_side: Callable[..., tuple[int, str]], here: str, there: str
) -> None:
    code, shown = side_by_side(result(a="passed", b=here), result(a="passed", b=there))
    assert code == 1
    assert f"worse in ours: 1\n  b: {here}, pip's {there}\n    line one\n    line two" in shown


@pytest.mark.parametrize("bad", [[], {"tests": {}}, {"tests": {}, "projects": {}}, "x"])
def test_what_is_no_result_cannot_be_compared(side_by_side: Callable[..., tuple[int, str]], bad: object) -> None:
    code, shown = side_by_side(result(a="passed"), bad)
    assert code == 2
    assert shown.startswith("error: ") and "next: write it with upstream.py run" in shown


def test_costs_are_one_table_and_say_where_no_kernel_ran() -> None:
    seconds = {f"{side}: {what}": 1.5 for side in ("ours", "pip") for what in ("install", "import")}
    kinds = ("download", "download, CUDA", "disk", "disk, CUDA")
    sizes = {f"{side}: {what}": 250_000_000 for side in ("ours", "pip") for what in kinds}
    requests = {name: {"seconds": seconds, "bytes": sizes} for name in cost.REQUESTS}
    shown = cost.table({"machine": "x86-64, 2 cores", "rounds": 3, "requests": requests})
    assert "| download, CUDA (MB) | 250.0 | 250.0 | 250.0 | 250.0 |" in shown
    assert "| install (s) | 1.50 | 1.50 | 1.50 | 1.50 |" in shown
    assert "| install, no bytecode (s) |  |  |  |  |" in shown
    assert "| first kernel (s) | no GPU | no GPU | no GPU | no GPU |" in shown
    assert "medians of 3 rounds" in shown


def test_what_was_not_prepared_is_not_measured(tmp_path: Path) -> None:
    command = [sys.executable, TOOLS / "cost.py", "measure", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"next: cost.py prepare {tmp_path}" in done.stderr


def test_a_file_with_several_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 1000)
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    (tmp_path / "three").symlink_to("one")
    (tmp_path / "four.pyc").write_bytes(b"x")
    assert cost._disk([tmp_path]) == 1000
    assert cost._disk([tmp_path / "one", tmp_path / "three"]) == 1000


PYTEST_SAID = """\
tests/gpu/test_kernels.py::test_it_runs[12.6-cubin] PASSED [  0%]
tests/gpu/test_kernels.py::test_it_runs[none-cubin] FAILED [  1%]
tests/gpu/test_kernels.py::test_it_runs[none-cubin] ERROR [  1%]
tests/gpu/test_kernels.py::test_its_toolkit[12.6] SKIPPED (no such GPU) [  2%]
tests/gpu/test_machine.py::test_the_driver PASSED [100%]
"""


def test_what_pytest_said_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text(PYTEST_SAID)
    assert table.main([str(log)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "| test | 12.6 | none | no environment |",
        "| --- | --- | --- | --- |",
        "| it runs: cubin | passed | failed |  |",
        "| its toolkit | skipped |  |  |",
        "| the driver |  |  | passed |",
    ]
    log.write_text("".join(line for line in PYTEST_SAID.splitlines(True) if "none" not in line))
    assert table.main([str(log)]) == 0


@pytest.mark.parametrize("content", [b"", b"107 passed", b"\xff", None])
def test_what_is_no_output_of_pytest_makes_no_table(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    if content is not None:
        log.write_bytes(content)
    assert table.main([str(log)]) == 2
    assert f"error: {log} is no output of `pytest -v`" in capsys.readouterr().err
