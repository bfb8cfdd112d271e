"""What `ctk build-recipe` shows of a log: the first error of each tool, and not what pip says after
it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.authors.build_log import last_line, missing_libraries, needs_driver, what_failed

BEFORE = [
    "✔ Successfully updated the host environment",
    "+ cmake -DCMAKE_CXX_FLAGS=-Werror .",
    "-- Configuring",
]
PIP = """error: subprocess-exited-with-error
  × Building wheel for blend (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> No available output.
ERROR: Failed building wheel for blend
Traceback (most recent call last):
  File "$PREFIX/lib/python3.11/site-packages/pip/_internal/commands/install.py", line 708, in run
    raise InstallWheelBuildError(build_failures)
pip._internal.exceptions.InstallWheelBuildError: <InstallWheelBuildError: \
failed-wheel-build-for-install>
Removed build tracker: '/tmp/pip-build-tracker-e9x5thnr'"""
# As the tools print them: seen with GCC 12.2, nvcc 13.0, CMake 3.25, Ninja 1.11, Make 4.3, pip 26.3
# and the base channel's other tools.
ERRORS = {
    "compiler": "  $SRC_DIR/module.cpp:23:17: error: ‘nil’ was not declared in this scope",
    "in colours": (
        "\x1b[01m\x1b[K../one.c:1:8:\x1b[m\x1b[K \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kexpected a"
        " name"
    ),
    "header": "  one.c:1:10: fatal error: nosuch.h: No such file or directory",
    "nvcc": '  $SRC_DIR/kernel.cu(9): error: identifier "nul" is undefined',
    "nvcc's options": "nvcc fatal   : Unknown option '--nosuch'",
    "ptxas": "ptxas fatal   : Unresolved extern function 'f'",
    "linker": "  /usr/bin/ld: cannot find -lnosuchlib: No such file or directory",
    "symbol": "module.cpp:(.text+0x4d): undefined reference to `f()'",
    "CMake": "  CMake Error at CMakeLists.txt:5 (find_package):",
    "meson": (
        '  ../meson.build:2:0: ERROR: Dependency "nosuch" not found (tried pkg-config and cmake)'
    ),
    "Ninja": "ninja: error: 'nosuch.c', needed by 'a', missing and no known rule to make it",
    "Make": "make: *** No rule to make target 'nosuch.o', needed by 'all'.  Stop.",
    "Cython": "Error compiling Cython file:",
    "backend": (
        "pip._vendor.pyproject_hooks._impl.BackendUnavailable: Cannot import"
        " 'scikit_build_core.build'"
    ),
    "setup.py": "  ModuleNotFoundError: No module named 'nosuchmodule'",
    "pip": (
        "ERROR: Could not find a version that satisfies the requirement nosuch (from versions:"
        " none)"
    ),
    "shell": "$SRC_DIR/conda_build.sh: line 13: nosuchcommand: command not found",
    "rattler-build": "PyRattlerBuildError: No license files were copied",
}


@pytest.mark.parametrize("tool", ERRORS)
def test_the_first_error_is_shown_with_a_few_lines_around_it(tool: str) -> None:
    log = [*["-- Found"] * 40, *BEFORE, ERRORS[tool], *PIP.splitlines(), *["Removed"] * 40]
    shown = what_failed(log)
    assert shown[:3] == BEFORE
    assert "\x1b" not in shown[3] and not shown[3].startswith("PyR")
    assert shown[3].split()[-1] == ERRORS[tool].split()[-1]
    assert len(shown) == 12 and "Removed" not in shown


def test_a_log_without_an_error_is_shown_from_its_end() -> None:
    log = [
        *map(str, range(100)),
        "",
        "the last words",
        "Script execution failed.",
        "To run the script manually",
    ]
    assert what_failed(log) == [*map(str, range(76, 100)), "the last words"]
    assert what_failed(["│ a table", BEFORE[0], "Testing commands:", "+ false"]) == [
        "Testing commands:",
        "+ false",
    ]


NVCC = "    nvcc fatal   : Unsupported gpu architecture '70'"
CMAKE = """  CMake Error at CMakeDetermineCompilerId.cmake:739 (message):
    Compiling the CUDA compiler identification source file
    "CMakeCUDACompilerId.cu" failed.
    Compiler:
    Build flags:
    Id flags:
      --keep
      --keep-dir
      tmp -v
    The output was:
    1
{}
  Call Stack (most recent call first):
    CMakeLists.txt:2 (project)
  ninja: error: loading 'build.ninja'"""


def test_what_nvcc_said_is_shown_before_what_cmake_says_of_it() -> None:
    shown = what_failed([*BEFORE, *CMAKE.format(NVCC).splitlines()])
    assert shown[:4] == [NVCC.strip(), *BEFORE] and shown[4].startswith("  CMake Error")
    assert what_failed([*BEFORE, *CMAKE.format("    2").splitlines()])[0] == BEFORE[0]


FRAMES = [
    line
    for number in range(20)
    for line in (f'  File "x.py", line {number}, in f', "    f()", "    ^^^")
]


@pytest.mark.parametrize("margin", ["", "  │ "])
@pytest.mark.parametrize(
    "error", ["zipfile.BadZipFile: no zip file", "KeyError: 'x'", "StopIteration"]
)
def test_of_a_traceback_the_error_is_shown_whatever_its_name(margin: str, error: str) -> None:
    shown = what_failed(
        [
            f"{margin}{line}"
            for line in ["Traceback (most recent call last):", *FRAMES, error, "after"]
        ]
    )
    assert shown == [f"{margin}{line}" for line in [*FRAMES[-3:], error, "after"]]


def test_of_errors_that_follow_from_each_other_the_last_is_shown_whole() -> None:
    traceback = ["Traceback (most recent call last):", *FRAMES]
    during = "During handling of the above exception, another exception occurred:"
    log = [
        *traceback,
        "ImportError: no cudart",
        "",
        during,
        "",
        *traceback,
        "RuntimeError: no CUDA",
        "Script failed",
    ]
    shown = what_failed([*log, *["-- after"] * 3, *traceback, "OSError: of another program"])
    assert shown[:6] == [
        "ImportError: no cudart",
        *FRAMES[-3:],
        "RuntimeError: no CUDA",
        "Script failed",
    ]
    assert "OSError: of another program" not in shown
    assert what_failed(traceback) == FRAMES[-4:]


@pytest.mark.parametrize(
    "between",
    [
        [""],
        ["", "-- Configuring done (1.2s)"],
        ["│", "│ + cmake --build .", "│ CMake Warning (dev) at CMakeLists.txt:3 (project):", "│"],
    ],
)
def test_a_target_that_cmake_did_not_find_is_read_whatever_another_stream_says_between(
    between: list[str],
) -> None:
    """A build's two streams reach the log line by line, and in no order that holds."""
    log = [
        '  Target "sum" links to:',
        *between,
        "    CUDA::nvrtc",
        "",
        "  but the target was not found.",
    ]
    assert missing_libraries(log) == ["libnvrtc.so"]


def test_targets_that_cmake_found_are_not_named_as_missing() -> None:
    assert (
        missing_libraries(
            ["-- sum links to: CUDA::nvrtc", "target_link_libraries(sum CUDA::cudart)"]
        )
        == []
    )


@pytest.mark.parametrize(
    ("line", "is_so"),
    [
        (
            "gw: error while loading shared libraries: libnvidia-ml.so.1: cannot open shared object"
            " file: No such file or directory",
            True,
        ),
        ("ImportError: libcuda.so.1: cannot open shared object file: No such file", True),
        ("numba.cuda.cudadrv.error.CudaSupportError: CUDA driver library cannot be found", True),
        ("libcudart.so.13: cannot open shared object file: No such file or directory", False),
    ],
)
def test_a_test_that_needs_a_driver_is_known_by_the_words_of_the_loader(
    line: str, is_so: bool
) -> None:
    assert needs_driver(["Testing commands:", line]) is is_so


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("[1/3] one\n │ \x1b[32m[2/3] two\x1b[0m\n │ \n", "[2/3] two"),
        ("x" * 9000, ""),  # the beginning of it may be that of an address
        ("é" * 3000 + "\n[3/3] three\n", "[3/3] three"),
    ],
)
def test_the_last_line_of_a_log_that_is_being_written_is_progress(
    tmp_path: Path, text: str, line: str
) -> None:
    (log := tmp_path / "log").write_text(text, encoding="utf-8")
    assert last_line(log) == line
