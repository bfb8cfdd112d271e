"""What tests/gpu decides before a kernel runs: on which machine it is, and what to expect of it. No GPU needed."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import gpu_facts
import pytest
from gpu_environment import NAMES, names
from gpu_machine import Machine, detect, refusal, right_fit, search_path

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.lock.lock import release_locks
from ctk.verify import scenarios

H200 = Machine("13.0", ("9.0",), "")
ARCHS_13 = ("7.5", "8.0", "9.0", "12.1")


@dataclass
class FakeDriver:
    """A driver's library: what its functions return and write."""

    version: int = 13000
    started: int = 0
    gpus: tuple[tuple[int, int], ...] = ((9, 0),)
    counted: int = 0
    answered: int = 0
    version_known: int = 0

    def cuDriverGetVersion(self, version: object) -> int:
        version._obj.value = self.version
        return self.version_known

    def cuInit(self, flags: int) -> int:
        return self.started

    def cuDeviceGetCount(self, count: object) -> int:
        count._obj.value = len(self.gpus)
        return self.counted

    def cuDeviceGet(self, device: object, index: int) -> int:
        device._obj.value = index
        return 0

    def cuDeviceGetAttribute(self, value: object, attribute: int, device: ctypes.c_int) -> int:
        value._obj.value = self.gpus[device.value][attribute - 75]
        return self.answered


def seen(driver: FakeDriver) -> Machine:
    return detect(lambda name: driver)


def missing(name: str) -> object:
    raise OSError(f"{name}: cannot open shared object file")


def test_driver_and_gpus_are_told_as_conda_tells_them() -> None:
    machine = seen(FakeDriver(version=12090, gpus=((9, 0), (7, 5), (12, 0))))
    assert machine == Machine("12.9", ("9.0", "7.5", "12.0"), "")
    assert machine.arch == "7.5"  # the oldest, by number: 12.0 is not older than 7.5


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (missing, "no NVIDIA driver"),
        (lambda _: FakeDriver(started=100), "a driver for CUDA 13.0, but no GPU"),
        (lambda _: FakeDriver(gpus=()), "a driver for CUDA 13.0, but no GPU"),
        (lambda _: FakeDriver(started=803), "does not start: cuInit gives error 803"),
        (lambda _: FakeDriver(version_known=999), "does not say its version: cuDriverGetVersion gives error 999"),
        (lambda _: FakeDriver(answered=1), "does not say what GPU 0 is: error 1"),
    ],
)
def test_what_a_machine_lacks_is_a_sentence(load: Callable[[str], object], sentence: str) -> None:
    machine = detect(load)
    assert sentence in machine.lacks
    assert machine.arch is None
    assert refusal(machine, "13.0") == machine.lacks


def test_a_driver_that_is_older_than_the_environment_is_a_sentence_with_what_to_do() -> None:
    old = replace(H200, driver="12.4")
    assert "the driver supports CUDA 12.4, which is older than toolkit 13.0" in refusal(old, "13.0")
    assert "cuda-version=12" in refusal(old, "13.0")
    assert not refusal(old, "12.9")  # a newer minor of the driver's major runs, as compat
    assert not refusal(H200, "12.0")


@pytest.mark.parametrize(
    ("machine", "toolkit", "fit"),
    [
        (H200, "13.0", "native"),
        (H200, "12.6", "native"),
        (H200, "13.4", "compat"),
        (replace(H200, gpus=("9.0", "7.0")), "13.0", "compat"),
        (replace(H200, gpus=("13.0",)), "13.0", "compat"),
        (replace(H200, driver="13.10"), "13.4", "native"),
    ],
)
def test_native_is_what_the_driver_loads_and_the_compiler_knows(machine: Machine, toolkit: str, fit: str) -> None:
    assert right_fit(machine, toolkit, ARCHS_13) == fit


def test_the_environments_are_those_of_the_folder_or_all_that_can_be_made(tmp_path: Path) -> None:
    assert names({}) == NAMES
    for name in ("13.0", "none"):
        (tmp_path / name / "conda-meta").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    assert names({"CTK_GPU_ENVIRONMENTS": str(tmp_path)}) == ("13.0", "none")
    assert names({"CTK_GPU_ENVIRONMENTS": str(tmp_path / "not")}) == (f"nothing in {tmp_path / 'not'}",)


def test_programs_get_the_drivers_folder_and_no_other_library_path(tmp_path: Path) -> None:
    driver, toolkit = tmp_path / "driver", tmp_path / "toolkit"
    for folder in (driver, toolkit):
        folder.mkdir()
    (driver / "libcuda.so.1").symlink_to("libcuda.so.580")
    (driver / "libcuda.so.580").touch()
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 00000000 00:00 1    {driver}/libcuda.so.580\n7f02-7f03 rw-p 00000000 00:00 0\n")
    both = {"LD_LIBRARY_PATH": os.pathsep.join([str(toolkit), str(driver)])}
    assert search_path(both, maps) == {"LD_LIBRARY_PATH": str(driver)}
    assert search_path({"LD_LIBRARY_PATH": str(toolkit)}, maps) == {}
    assert search_path(both, tmp_path / "none") == {}


def test_the_facts_are_those_of_the_release_locks(project: Workspace) -> None:
    real = scenarios.facts(release_locks(project).values())
    read = gpu_facts.facts(project.root)
    assert read.python_sets == real.python_sets
    assert sorted(t.minor for t in read.toolkits) == sorted(t.minor for t in real.toolkits)
    for toolkit in real.toolkits:
        (same,) = (t for t in read.toolkits if t.minor == toolkit.minor)
        published = {name: targets for name, targets in toolkit.published.items() if name != "compiler"}
        # Which GPUs a library has code for is left out: what runs there asks for none of them.
        assert same == replace(toolkit, published=published, code={})


def test_without_this_projects_libraries_the_tests_are_collected_and_skip(tmp_path: Path) -> None:
    """As on a machine that has pytest only: ctk cannot be imported, and nothing but tests/gpu is looked at."""
    (tmp_path / "ctk.py").write_text("raise ImportError('no ctk on this machine')\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--confcutdir", "tests/gpu", "-q", "-p", "no:cacheprovider", "tests/gpu"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no NVIDIA driver" in done.stdout or "no GPU that it shows" in done.stdout
    assert "failed" not in done.stdout and "error" not in done.stdout.splitlines()[-1]


def test_a_folder_without_environments_is_an_error_where_there_is_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gpu_fixtures

    with pytest.raises(pytest.fail.Exception, match="holds no environments; it has to hold none"):
        gpu_fixtures._given(tmp_path, "nothing in it")
