"""What the log of a build says: the first error of a failure, and signs of common mistakes.

A log has the words of other programs: compilers, CMake, pip, the shell, and rattler-build, which
gives them no other form. They are read here, and nowhere else in this room.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from ctk.core.mistake import Mistake

_ERROR = re.compile(
    r"""[\s|│]*(?:
    # a compiler, nvcc, meson, Cython
    \S*?(?::\d+|\(\d+\))(?::\d+)?:\s(?:fatal\s)?(?:error|ERROR)\b
    |\S*:\s(?:fatal\s)?error:                                      # g++: no input files; ninja
    |\w+\s(?:fatal|error)\s*:                                       # nvcc, ptxas
    |\S*ld(?:\.\w+)?:\s|.*:\sundefined\sreference\sto                # the linker
    |CMake\sError
    |\S*make(?:\[\d+\])?:\s\*\*\*
    |[\w.]*(?:Error|Exception|Unavailable)(?::|$)                   # Python, and rattler-build
    |ERROR:|Error\scompiling\s
    |.*:\s(?:command\snot\sfound|[Pp]ermission\sdenied)$            # the shell
    )""",
    re.VERBOSE,
)
"""The beginning of a line that says what is wrong. pip says after it that a program failed."""
_BEFORE = 3  # lines of context
_AFTER = 9
_TAIL = 25  # lines of a log without such a line
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
_MARGIN = " \t|│"
_LAST_BYTES = 4096
_TEST_COMMANDS = "Testing commands:"
_TRACEBACK = "Traceback (most recent call last):"
_ENVIRONMENT = "✔ Successfully updated the "
_OURS = "PyRattlerBuildError: "
_NO_LIBRARY = re.compile(
    r"""
    (?:cannot|unable\sto)\sfind\s(?:library\s)?-l([\w-]+)
    # between are lines of the other stream, in any order
    |links\sto:(?:.*\n){1,15}?[\s|│]*CUDA::(\w+)$
    """,
    re.VERBOSE | re.MULTILINE,
)
# The loader's words for a library of the driver, and Numba's.
_NO_DRIVER = re.compile(
    r"lib(?:cuda|nvidia-ml)\.so\.1: cannot open|CUDA driver library cannot be found"
)
_FROM_ROOT = re.compile(r"""(?:^|[\s'"`=:,;(]|-[IL])(/[\w.+/-]+)""", re.M)
_SHARED = (Path("/"), Path("/usr"), Path("/usr/local"))
_OF_CUDA = re.compile(r"nvcc|libcudart[\w.]*|cuda_runtime(_api)?\.h")


def what_failed(lines: Sequence[str]) -> list[str]:
    """The first error in a log, with a few lines around it; the end of a log that has none.

    rattler-build's advice on how to run the script again is left out, since its folder is removed.
    """
    log = _without_advice(lines)
    first = _first_error(log)
    if first is None:
        return _end(log)
    top = []
    if "CMake Error" in log[first]:
        # What a compiler said is below, after all that CMake says of it.
        errors = [line for line in _block(log, first) if _ERROR.match(line)]
        top = [line.lstrip(_MARGIN) for line in errors[:1]]
    if _TRACEBACK in log[first]:
        *earlier, first = _ends_of_chain(log, first)
        top = [log[number].lstrip(_MARGIN) for number in earlier]
    shown = [*top, *log[max(first - _BEFORE, 0) : first + _AFTER]]
    return [line.removeprefix(_OURS) for line in shown]


def last_line(log: Path) -> str:
    """The last line with text of a log that is being written; "" if it has none yet.

    It is a whole line: secrets in a part of an address would not be found.
    """
    with log.open("rb") as file:
        start = max(file.seek(0, os.SEEK_END) - _LAST_BYTES, 0)
        file.seek(start)
        text = file.read().decode("utf-8", "replace")
    if start:
        text = text.partition("\n")[2]
    lines = [line.strip(_MARGIN) for line in _COLOUR.sub("", text).splitlines()]
    return next((line for line in reversed(lines) if line), "")


def what_test_failed(lines: Sequence[str]) -> list[str]:
    """As `what_failed`, of a test's log: of its commands, below how rattler-build prepared them."""
    starts = [number for number, line in enumerate(lines) if line.endswith(_TEST_COMMANDS)]
    commands = lines[starts[0] + 1 :] if starts else []
    return what_failed(commands or lines)


def _without_advice(lines: Sequence[str]) -> list[str]:
    """The lines of a log before rattler-build's advice, without colours and empty lines."""
    found = []
    for line in lines:
        if line.startswith("Script execution failed"):
            break
        if line.strip():
            found.append(_COLOUR.sub("", line))
    return found


def _first_error(log: Sequence[str]) -> int | None:
    """The index of the first line with an error, or of the traceback above one."""
    for number, line in enumerate(log):
        if _ERROR.match(line) or _TRACEBACK in line:
            return number
    return None


def _end(log: list[str]) -> list[str]:
    """The last lines of a log: of its script, below the tables of the environments."""
    starts = [number for number, line in enumerate(log, 1) if _ENVIRONMENT in line]
    script = log[starts[-1] :] if starts else log
    return (script or log)[-_TAIL:]


def _ends_of_chain(log: Sequence[str], first: int) -> list[int]:
    """The indices of the errors below a traceback and below those that it is chained with."""
    later = [n for n in range(first + 1, len(log)) if _TRACEBACK in log[n]]
    chained = takewhile(lambda number: "above exception" in log[number - 1], later)
    return [min(n + len(_block(log, n)) + 1, len(log) - 1) for n in (first, *chained)]


def _block(lines: Sequence[str], first: int) -> list[str]:
    """The lines below a line that are indented more."""
    return [*takewhile(lambda line: _depth(line) > _depth(lines[first]), lines[first + 1 :])]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(_MARGIN))


def missing_headers(lines: Sequence[str]) -> list[str]:
    """The headers that a log says were not found."""
    return [*dict.fromkeys(re.findall(r"fatal error: (\S+): No such file", "\n".join(lines)))]


def missing_libraries(lines: Sequence[str]) -> list[str]:
    """The files of the libraries that the linker did not find, or CMake as ``CUDA::NAME``."""
    found = []
    for of_linker, of_cmake in _NO_LIBRARY.findall("\n".join(lines)):
        name = of_linker or of_cmake
        ending = "a" if name.endswith("_static") else "so"
        found.append(f"lib{name}.{ending}")
    return [*dict.fromkeys(found)]


def needs_driver(lines: Sequence[str]) -> bool:
    """Whether a test failed because this machine has no driver."""
    return bool(_NO_DRIVER.search("\n".join(lines)))


def undefined_symbols(lines: Sequence[str]) -> set[str]:
    """The functions of C that a log says the linker, or the loader of a library, did not find."""
    return {*re.findall(r"undefined (?:reference to [`']|symbol: )(\w+)", "\n".join(lines))}


def calls_nvcc(lines: Sequence[str]) -> bool:
    """Whether a log has a command line of nvcc."""
    return any(re.match(r"\W*nvcc\s", line) for line in lines)


def lacks_compiler(lines: Sequence[str]) -> bool:
    """Whether the shell took the first option of a compiler for its name: this was empty."""
    return any(re.search(r"\d: -\S+: (command )?not found$", line) for line in lines)


def lacks_licence(lines: Sequence[str]) -> bool:
    """Whether rattler-build found no file of `license_file`."""
    return any("No license files were copied" in line for line in lines)


def other_toolkits(lines: Sequence[str]) -> Iterator[Mistake]:
    """For each toolkit of this machine that a log names: that it does, and the remedy."""
    for toolkit in _machine_toolkits("\n".join(lines)):
        yield Mistake(
            f"the build uses the toolkit in {toolkit}, which is this machine's",
            "pass -DCUDAToolkit_BIN_DIR to CMake, and set CUDA_PATH=$PREFIX for meson and others",
        )


def _machine_toolkits(text: str) -> Iterator[str]:
    """The toolkits of this machine that a log names.

    In a log, the environments are called $PREFIX and $BUILD_PREFIX, so a path from the root is
    outside of them.
    """
    seen = set()
    for path in map(Path, dict.fromkeys(_FROM_ROOT.findall(text))):
        toolkit = _toolkit_of(path)
        if toolkit is None:
            continue
        real = os.path.realpath(toolkit)
        if real not in seen:
            seen.add(real)
            yield str(toolkit)


def _toolkit_of(path: Path) -> Path | None:
    """The folder of a toolkit above a path, or a file of a toolkit between other files.

    Debian installs its package of the toolkit into /usr: there, only the file's name counts.
    """
    for folder in (path, *path.parents):
        header = folder / "include" / "cuda_runtime_api.h"
        if folder not in _SHARED and os.path.isfile(header):
            return folder
    return path if _OF_CUDA.fullmatch(path.name) else None
