"""The oracle states the promised rule, knows only its facts, and shares no code with
the solvers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.lock.model import release_locks
from ctk.verify import oracle
from ctk.verify.oracle import (
    Cause,
    Expected,
    Loss,
    OracleFacts,
    Question,
    Toolkit,
    expected,
    expected_ignoring,
    loss,
)
from ctk.verify.scenarios import facts

LINUX, ARM, WINDOWS, WINDOWS_ARM = "linux-64", "linux-aarch64", "win-64", "win-arm64"

# What cuda-runtime brings besides.
GROUPED = ("cublas", "cufft", "curand", "cusolver", "cusparse", "npp", "nvjitlink", "nvjpeg")


# The GPUs that an NVRTC knows; between the oldest and the newest there are others that it does not
# know.
OF_12_0 = ("5.0", "7.0", "7.5", "8.0", "8.9", "9.0")
OF_12_9 = (*OF_12_0, "10.0", "10.1", "10.3", "12.0", "12.1")
OF_13_0 = ("7.5", "8.0", "8.8", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")
OF_13_4 = (*OF_13_0[:7], "10.7", *OF_13_0[7:])


def toolkit(minor: str, architectures: tuple[str, ...], *subdirs: str) -> Toolkit:
    everywhere = frozenset(subdirs)
    published = dict.fromkeys((*("nvrtc", "nvvm", "cudart", "crt"), *GROUPED), everywhere)
    if minor.startswith("13."):
        published["compiler"] = everywhere
    return Toolkit(minor, architectures, published)


def python_set(subdirs: tuple[str, ...]) -> dict[str, frozenset[str]]:
    def targets(*tags: str, on: tuple[str, ...] = subdirs) -> frozenset[str]:
        return frozenset(f"{subdir}-{tag}" for subdir in on for tag in tags)

    every = targets("cp311", "cp312", "cp313", "cp314", "cp314t", "cp315", "cp315t")
    numba = targets("cp311", "cp312", "cp313", "cp314", on=(LINUX, ARM, WINDOWS))
    compute = targets("cp311", "cp312", "cp313", on=(LINUX, ARM, WINDOWS))
    projects = {
        "cuda-bindings": every,
        "cuda-core": every,
        "cuda-python": frozenset({"noarch"}),
        "numba-cuda": numba,
    }
    return {**projects, "numba-cuda-mlir": numba, "cuda-cccl": compute}


# The five releases of the issue, typed here on purpose: cases must not move when a lock does.
FACTS = OracleFacts(
    (
        toolkit("13.4", OF_13_4, LINUX, ARM, WINDOWS, WINDOWS_ARM),
        toolkit("12.0", OF_12_0, LINUX, WINDOWS),
        toolkit("12.6", OF_12_0, LINUX, ARM, WINDOWS),
        toolkit("12.9", OF_12_9, LINUX, ARM, WINDOWS),
        toolkit("13.0", OF_13_0, LINUX, ARM, WINDOWS),
    ),
    {"12": python_set((LINUX, ARM, WINDOWS)), "13": python_set((LINUX, ARM, WINDOWS, WINDOWS_ARM))},
)


def ask(
    request: str,
    driver: str | None,
    gpu: str | None = None,
    *,
    pin: str | None = None,
    on: str = LINUX,
    python: str | None = None,
) -> Question:
    return Question(request, on, driver, gpu, python, pin)


def said(question: Question, rule: Callable[[OracleFacts, Question], Expected] = expected) -> str:
    """``13.0 native``, or the cause."""
    found = rule(FACTS, question)
    return f"{found.toolkit} {found.fit}" if found.toolkit else str(found.cause)


@pytest.mark.parametrize(
    ("driver", "gpu", "pick"),
    [
        ("13.0", "9.0", "13.0 native"),
        ("13.0", None, "13.0 native"),
        ("13.0", "7.0", "12.9 native"),
        ("13.2", "9.0", "13.0 native"),
        ("13.4", "9.0", "13.4 native"),
        ("13.4", "7.0", "12.9 native"),
        ("12.2", "9.0", "12.0 native"),
        ("12.9", "12.0", "12.9 native"),
        # A GPU newer than its driver's toolkits: no native one knows it.
        ("12.6", "12.0", "12.9 compat"),
        ("13.4", "13.0", "13.4 compat"),
        # GPUs in the gaps of some toolkits.
        ("12.9", "11.0", "12.9 compat"),
        ("13.0", "11.0", "13.0 native"),
        ("13.0", "10.7", "13.4 compat"),
        ("13.4", "10.1", "12.9 native"),
        (None, None, "13.4 compat"),
        ("11.8", "9.0", Cause.DRIVER),
        ("12.9", "3.5", Cause.GPU),
    ],
)
def test_what_cuda_core_gets(driver: str | None, gpu: str | None, pick: str) -> None:
    assert said(ask("cuda-core", driver, gpu)) == pick


@pytest.mark.parametrize(
    ("writer", "toolkit", "for_python", "minors"),
    [
        ("libnvjitlink", "13.0", True, ("13.0",)),
        ("libnvjitlink", "13.0", False, ("13.0",)),
        ("libnvjitlink", "12.2", True, ("12.3",)),
        ("libnvjitlink", "12.2", False, ("12.2", "12.3")),
        ("libnvfatbin", "12.3", True, ("12.4",)),
        ("libnvfatbin", "12.10", True, ("12.10",)),
    ],
)
def test_what_writes_ptx_is_of_the_toolkit_or_of_the_next_that_python_can_use(
    writer: str, toolkit: str, for_python: bool, minors: tuple[str, ...]
) -> None:
    assert oracle.minors_of(writer, toolkit, for_python) == minors


@pytest.mark.parametrize(
    ("pin", "driver", "gpu", "pick"),
    [
        ("13.4", "13.0", "9.0", "13.4 compat"),
        ("13.4", "13.0", "7.0", Cause.GPU),
        ("13.4", "12.9", "9.0", Cause.DRIVER),
        ("13.0", "13.4", "9.0", "13.0 native"),
        ("12", "13.4", "9.0", "12.9 native"),
        ("13", "12.9", "9.0", Cause.DRIVER),
        ("12.6", "12.9", "9.0", "12.6 native"),
        ("12.6", "12.2", "9.0", "12.6 compat"),
        ("12.6", "12.2", "5.0", "12.6 compat"),
        ("12.6", "13.0", "10.0", "12.6 compat"),
        ("12.6", None, None, "12.6 compat"),
        ("12.3", None, None, Cause.PIN),
        ("12.3", "11.8", None, Cause.PIN),
    ],
)
def test_what_a_pin_gets(pin: str, driver: str | None, gpu: str | None, pick: str) -> None:
    assert said(ask("numba-cuda", driver, gpu, pin=pin)) == pick


@pytest.mark.parametrize(
    ("question", "pick"),
    [
        (ask("cuda-nvcc", "12.9", "9.0"), Cause.DRIVER),
        (ask("cuda-nvcc", "13.0", "7.0"), Cause.GPU),
        (ask("cuda-nvcc", "13.0", pin="12.9"), Cause.PLATFORM),
        (ask("cuda-runtime", "12.2", on=ARM), "12.9 compat"),
        (ask("cuda-core", "13.0", on=WINDOWS_ARM), "13.4 compat"),
        (ask("cuda-core", "12.9", on=WINDOWS_ARM), Cause.DRIVER),
        (ask("cuda-core", None, pin="13.0", on=WINDOWS_ARM), Cause.PLATFORM),
        (ask("numba-cuda", None, on=WINDOWS_ARM), Cause.PLATFORM),
        (ask("cccl-python", None, on=WINDOWS_ARM), Cause.PLATFORM),
        (ask("cccl-python", "13.4", python="3.14"), Cause.PYTHON),
        (ask("cccl-python", "13.0", "7.0"), "12.9 native"),
        (ask("cuda-core", "13.4", python="3.10"), Cause.PYTHON),
        (ask("numba-cuda", "13.4", python="3.14t"), Cause.PYTHON),
        (ask("cuda-nvrtc", "13.4", python="3.10"), "13.4 native"),
        # A newer nvJitLink goes with an older native toolkit of its major, and with no older
        # compatible one.
        (ask("cuda-core libnvjitlink>=13.4", "13.0", "9.0"), "13.0 native"),
        (ask("cuda-core libnvjitlink>=13.4", "12.9", "9.0"), Cause.DRIVER),
        (ask("cuda-core libnvjitlink>=13.4", None, pin="13.0"), Cause.GPU),
        (ask("cuda-core libnvjitlink>=13.4", None, pin="12"), Cause.PIN),
    ],
)
def test_what_is_published_nowhere_is_not_expected(question: Question, pick: str) -> None:
    assert said(question) == pick


def test_a_newer_nvjitlink_is_of_the_major_of_the_toolkit_and_only_where_its_own_is_older() -> None:
    asked = [
        ask("cuda-core libnvjitlink>=12.9", driver, "9.0") for driver in ("12.6", "12.9", "13.0")
    ]
    assert [expected(FACTS, question).nvjitlink for question in asked] == [("12.9",), (), ()]


@pytest.mark.parametrize(
    ("gpu", "pick"),
    [
        ("7.5", "13.4 native"),
        ("9.0", "13.4 native"),
        ("10.0", Cause.GPU),
        ("12.0", "13.4 native"),
        ("5.0", Cause.GPU),
    ],
)
def test_a_gpu_gets_no_toolkit_whose_libraries_have_no_code_for_it(gpu: str, pick: str) -> None:
    code = {"nvrtc": {LINUX: "<5.0|>=7.5,<10.0|>=12.0"}}
    coded = replace(FACTS, toolkits=tuple(replace(t, code=code) for t in FACTS.toolkits))
    found = expected(coded, ask("cuda-nvrtc", "13.4", gpu))
    assert pick in (f"{found.toolkit} {found.fit}", found.cause)


@pytest.mark.parametrize(
    ("question", "tag"),
    [
        (ask("cuda-core", "13.4"), "cp315"),
        (ask("cuda-core", "13.4", python="3.12"), "cp312"),
        (ask("cuda-core", "13.4", python="3.14t"), "cp314t"),
        (ask("numba-cuda", "13.4"), "cp314"),
        (ask("numba-cuda-mlir", "13.4"), "cp314"),
        (ask("cccl-python", "13.4"), "cp313"),
        (ask("cuda-python", "12.9"), "cp315"),
        (ask("cuda-nvrtc", "13.4"), ""),
        (ask("cuda-nvrtc", "13.4", python="3.10"), "cp310"),
    ],
)
def test_the_python_is_the_one_asked_for_else_the_newest_with_the_gil(
    question: Question, tag: str
) -> None:
    assert expected(FACTS, question).python == tag


@pytest.mark.parametrize(
    ("question", "pick", "lost"),
    [
        (ask("cuda-core", "13.0", "9.0"), "13.0 native", None),
        (ask("cuda-core", "12.2"), "12.0 native", None),
        (ask("cuda-core", None), "13.4 compat", None),
        (ask("cuda-core", "13.0", "9.0", pin="13.4"), "13.4 compat", None),
        # The same toolkit, under another name: nothing is lost.
        (ask("cuda-core", "13.4", "13.0"), "13.4 native", None),
        (ask("cuda-core", "13.0", "7.0"), "13.0 native", Loss.GPU),
        (ask("cuda-core", "12.6", "12.0"), "12.6 native", Loss.GPU),
        (ask("cuda-core", "11.8"), "13.4 compat", Loss.REFUSAL),
        (ask("cuda-core", "12.9", pin="13.4"), "13.4 compat", Loss.REFUSAL),
        (ask("cuda-nvcc", "12.9"), "13.4 compat", Loss.REFUSAL),
        (ask("cuda-core", "12.2", on=ARM), "13.4 compat", Loss.MAJOR),
        (ask("cuda-core", None, pin="12.3"), Cause.PIN, None),
        (ask("cuda-core", None, python="3.10"), Cause.PYTHON, None),
        # cuda-gpu asks for a driver by dependencies, which such a client obeys.
        (ask("cuda-gpu cuda-core", None), Cause.DRIVER, None),
        (ask("cuda-gpu cuda-core", "11.8"), Cause.DRIVER, None),
        (ask("cuda-gpu cuda-core", "12.9", pin="13.4"), Cause.DRIVER, None),
        (ask("cuda-gpu cuda-core", None, pin="12.3"), Cause.PIN, None),
        (ask("cuda-gpu cuda-core", "13.0", "9.0", pin="13.4"), "13.4 compat", None),
        (ask("cuda-gpu cuda-core", "13.0", "7.0"), "13.0 native", Loss.GPU),
        (ask("cuda-gpu cuda-core", "12.2", on=ARM), "12.9 compat", None),
    ],
)
def test_what_a_client_gets_and_loses_that_ignores_constraints(
    question: Question, pick: str, lost: Loss | None
) -> None:
    assert said(question, expected_ignoring) == pick
    assert loss(FACTS, question) == lost


# --- where it stands


def test_the_oracle_imports_nothing_of_this_project_and_nothing_that_solves() -> None:
    source = Path(str(oracle.__file__)).read_text(encoding="utf-8")
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {name.name.split(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules.add(str(node.module).split(".")[0])
    assert modules
    assert modules <= sys.stdlib_module_names
    # Nor by a way around.
    assert modules.isdisjoint({"importlib", "subprocess", "os", "pathlib", "json"})


def test_a_release_without_measured_facts_is_named_and_no_release_is_an_error(
    project: Workspace,
) -> None:
    lock = replace(release_locks(project)["cuda-13.4"], facts=None)
    with pytest.raises(LockError, match=r"13\.4 has not been measured") as error:
        facts([lock])
    assert "ctk release measure 13.4" in error.value.step
    with pytest.raises(LockError, match="no release lock"):
        facts([])
