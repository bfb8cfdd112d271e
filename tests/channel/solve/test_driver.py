"""Whether the driver works: what a child says of it, and which variable hides it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.core.errors import BadValue
from ctk.core.platforms import this_platform
from ctk.env.doctor import driver_at_fault
from ctk.solve.driver import (
    LIBRARY,
    NO_DEVICE,
    Answer,
    Detection,
    DriverState,
    Limit,
    ask,
    detect,
    driver_state,
)
from ctk.solve.machine import machine
from kit.packs import checkout
from kit.tiny_packages import application, pure
from kit.world import command

OWN = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"
WORKS = Answer(library=OWN, version="13.0", gpus=("9.0",))
HIDDEN = Answer(
    library=OWN,
    version="13.0",
    function="cuInit",
    code=100,
    error=NO_DEVICE,
    description="no CUDA-capable device is detected",
)
# Each was seen on an H200 with driver 580.159.04.
INVALID = Answer(
    library=OWN, version="13.0", function="cuInit", code=101, error="CUDA_ERROR_INVALID_DEVICE"
)
MISMATCH = Answer(
    library="compat",
    version="13.0",
    function="cuInit",
    code=803,
    error="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    description="system has unsupported display driver / cuda driver combination",
)
STUB = Answer(library="stub", function="cuDriverGetVersion", code=34)


def state(
    answers: Mapping[str, Answer], variables: Mapping[str, str], *, devices: bool = True
) -> DriverState:
    """The state of a driver that fails while one of these variables is set, and works
    without them.
    """

    def fake(these: Mapping[str, str]) -> Answer:
        return next((answer for name, answer in answers.items() if name in these), WORKS)

    return driver_state(fake, variables, lambda: devices)


def words(found: DriverState) -> tuple[str, str]:
    finding = driver_at_fault(found)
    assert finding is not None
    return finding.message, finding.fix


@pytest.mark.parametrize("value", ["", "-1", "7", "GPU-0000"])
def test_a_variable_that_hides_the_gpu_is_named(value: str) -> None:
    hidden = state(
        {"CUDA_VISIBLE_DEVICES": HIDDEN}, {"CUDA_VISIBLE_DEVICES": value, "HOME": "/root"}
    )
    assert hidden.limit is Limit.VARIABLE and hidden.after == WORKS
    assert words(hidden) == (
        (
            f"CUDA_VISIBLE_DEVICES={value} hides the GPU from programs: cuInit gives"
            " CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected); without it they find one"
        ),
        "unset CUDA_VISIBLE_DEVICES",
    )


@pytest.mark.parametrize(
    ("variable", "answer"),
    [
        ("CUDA_DEVICE_ORDER", INVALID),
        ("CUDA_MPS_PIPE_DIRECTORY", HIDDEN),
        ("NVIDIA_ANY", HIDDEN),
        ("LD_PRELOAD", STUB),
    ],
)
def test_any_variable_of_cuda_can_be_the_cause(variable: str, answer: Answer) -> None:
    found = state(
        {variable: answer}, {"CUDA_HOME": "/x", variable: "X", "CUDA_VISIBLE_DEVICES": "0"}
    )
    assert found.change is not None and found.change.variable == variable
    assert words(found)[1] == f"unset {variable}"


def test_two_variables_that_hide_the_gpu_are_no_change_of_one() -> None:
    both = {"CUDA_VISIBLE_DEVICES": HIDDEN, "CUDA_DEVICE_ORDER": INVALID}
    found = state(both, dict.fromkeys(both, ""))
    assert found.limit is Limit.REFUSED and found.change is None


@pytest.mark.parametrize("answer", [MISMATCH, STUB], ids=["compat", "stub"])
def test_another_library_in_front_of_the_drivers_own_is_taken_out_of_the_path(
    answer: Answer, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("compat", "plain", "own dir")]
    for folder in folders:
        folder.mkdir()
    for folder in (folders[0], folders[2]):
        (folder / LIBRARY).touch()
    answer = Answer(**{**vars(answer), "library": str(folders[0] / LIBRARY)})

    def fake(these: Mapping[str, str]) -> Answer:
        return answer if "compat" in these.get("LD_LIBRARY_PATH", "") else WORKS

    found = driver_state(
        fake, {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}, lambda: True
    )
    cause, step = words(found)
    assert cause.startswith(
        f"LD_LIBRARY_PATH leads to {folders[0]}/{LIBRARY}, which is not this machine's driver: "
    )
    assert step == f"export LD_LIBRARY_PATH='{folders[1]}:{folders[2]}'"
    alone = driver_state(fake, {"LD_LIBRARY_PATH": str(folders[0])}, lambda: True)
    assert words(alone)[1] == "unset LD_LIBRARY_PATH"


def test_a_library_where_no_program_looks_is_put_on_the_path() -> None:
    there = "/usr/lib/wsl/lib"
    lost = Answer(library=f"{there}/libcuda.so.1", is_found=False, version="13.0", gpus=("9.0",))

    def fake(these: Mapping[str, str]) -> Answer:
        return WORKS if there in these.get("LD_LIBRARY_PATH", "") else lost

    found = driver_state(fake, {"LD_LIBRARY_PATH": "/a"}, lambda: True)
    assert found.limit is Limit.NOT_FOUND
    assert words(found) == (
        f"the driver is {there}/libcuda.so.1, where programs do not look for it",
        f"export LD_LIBRARY_PATH=/a:{there}",
    )


@pytest.mark.parametrize(
    ("answer", "devices", "limit", "said"),
    [
        (
            HIDDEN,
            False,
            Limit.NO_DEVICE,
            "a driver for CUDA 13.0 is installed, but no GPU was found: cuInit gives",
        ),
        (
            MISMATCH,
            True,
            Limit.REFUSED,
            "the driver for CUDA 13.0 does not start: cuInit gives CUDA_ERROR_SYSTEM_",
        ),
        (STUB, True, Limit.REFUSED, "the driver does not start: cuDriverGetVersion gives error 34"),
        (
            Answer(library=OWN, version="13.0"),
            True,
            Limit.REFUSED,
            "the driver for CUDA 13.0 does not start: cuDevice",
        ),
        (
            Answer(is_silent=True),
            True,
            Limit.SILENT,
            "the driver is installed, and crashes or does not answer",
        ),
    ],
)
def test_a_driver_that_no_variable_hides_is_said_to_fail(
    answer: Answer, devices: bool, limit: Limit, said: str
) -> None:
    found = driver_state(lambda variables: answer, {"CUDA_VISIBLE_DEVICES": "0"}, lambda: devices)
    assert found.limit is limit
    assert words(found)[0].startswith(said)


def test_of_a_driver_that_works_and_of_none_nothing_is_said() -> None:
    assert driver_at_fault(DriverState(Limit.NOTHING, WORKS)) is None
    none = driver_state(lambda variables: Answer(not_loaded="no such file"), {}, lambda: False)
    assert none.limit is Limit.NO_DRIVER and driver_at_fault(none) is None


# --- a real child, with a library that answers as cuda.h says

_SOURCE = """
#include <stdlib.h>
#include <string.h>
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuInit(unsigned flags) {
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");
    if (seen && !strcmp(seen, "crash")) abort();
    return seen && strcmp(seen, "0") ? 100 : 0;
}
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 12 - 3 * device : 0;
    return attribute == 75 || attribute == 76 ? 0 : 1;
}
int cuGetErrorName(int code, const char **text) {
    *text = "CUDA_ERROR_NO_DEVICE";
    return code != 100;
}
int cuGetErrorString(int code, const char **text) { *text = "no device"; return code != 100; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library that has the name of the driver's."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or this_platform() != "linux-64":
        pytest.skip("a C compiler makes the driver of this test, on linux-64")
    folder = tmp_path_factory.mktemp("driver")
    source = folder / "driver.c"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / LIBRARY, source], check=True)
    return folder


def test_a_child_starts_the_driver_and_asks_for_its_gpus(library: Path) -> None:
    answer = ask({"LD_LIBRARY_PATH": str(library)})
    assert answer == Answer(library=str(library / LIBRARY), version="13.0", gpus=("12.0", "9.0"))
    hidden = ask({"LD_LIBRARY_PATH": str(library), "CUDA_VISIBLE_DEVICES": ""})
    assert (hidden.function, hidden.code, hidden.error, hidden.description) == (
        "cuInit",
        100,
        NO_DEVICE,
        "no device",
    )
    assert ask({"LD_LIBRARY_PATH": str(library), "CUDA_VISIBLE_DEVICES": "crash"}).is_silent


def test_a_file_that_is_no_driver_is_said_to_be_none(library: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.c"
    empty.touch()
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / LIBRARY, empty], check=True)
    answer = ask({"LD_LIBRARY_PATH": str(tmp_path)})
    assert answer.function == "dlsym" and "cuDriverGetVersion" in answer.description


def test_a_hidden_driver_is_still_the_driver_of_this_machine(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that starts the driver itself, as rattler does without NVML, sees none then."""
    for name in ("CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("ctk.solve.machine.detected", lambda subdir: (None, None))
    on = machine()
    assert (on.driver, on.arch) == ("13.0", "9.0")
    assert on.unseen is not None and on.unseen.change is not None
    assert on.unseen.change.variable == "CUDA_VISIBLE_DEVICES"
    assert machine(driver="12.4").unseen is None  # another machine's


# --- what clients detect: their libraries start the driver too, and a child has to stand for them


@pytest.fixture
def crashing(library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a driver that ends each process that starts it; no variable states another."""
    for name in ("CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "crash")
    return library


def test_what_clients_detect_comes_from_a_child(library: Path) -> None:
    variables = {"LD_LIBRARY_PATH": str(library)}
    works = detect(variables)
    assert "__glibc" in works.packages and works.error == ""
    if not Path(
        "/dev/nvidiactl"
    ).exists():  # a driver of this machine has an NVML, which rattler asks first
        assert works.packages["__cuda"] == "13.0"
        assert detect({**variables, "CUDA_VISIBLE_DEVICES": "crash"}) == Detection()


def test_rattlers_words_are_those_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDA_OVERRIDE_CUDA", raising=False)
    monkeypatch.setattr("ctk.solve.machine.detect", lambda: Detection(error="no version: x"))
    with pytest.raises(
        BadValue, match="this machine's driver and GPU cannot be told: no version: x"
    ):
        machine()


def test_a_driver_that_crashes_is_none_and_is_said_not_to_work(crashing: Path) -> None:
    on = machine()
    assert (on.driver, on.words) == (None, "no driver detected")
    assert on.unseen is not None and on.unseen.limit is Limit.SILENT


def test_a_driver_that_works_counts_where_the_detection_crashes(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a broken NVML, which programs do not need."""
    monkeypatch.delenv("CONDA_OVERRIDE_CUDA", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("ctk.solve.machine.detect", Detection)
    on = machine()
    assert (on.driver, on.arch) == ("13.0", "9.0")


_NO_USE = "a driver is installed here and does not work: `ctk doctor` says why"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("solve pure", _NO_USE),
        ("env create pure --prefix", _NO_USE),
        ("doctor --offline", "the driver is installed, and crashes or does not answer"),
    ],
)
def test_no_command_crashes_with_the_driver(
    words: str, said: str, crashing: Path, tmp_path: Path
) -> None:
    """The loader reads LD_LIBRARY_PATH once: the command is a new process."""
    line, root = words.split(), ROOT
    if line[0] != "doctor":
        root = checkout(tmp_path, application(), pure()).root
        line += [str(tmp_path / "env")] if line[0] == "env" else []
        line += ["--base", str(root / "base")]
    variables = {**os.environ, "CTK_ROOT": str(root), "COLUMNS": "200"}
    done = subprocess.run(command(line), env=variables, capture_output=True, text=True, check=False)
    assert done.returncode >= 0, f"signal {-done.returncode}"
    assert said in done.stdout, done.stderr
