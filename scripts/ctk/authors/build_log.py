"""What the log of a build says: the first error of a failure, and signs of common mistakes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

Reason = tuple[str, str]
"""A mistake that a log or an environment shows, in words, and the remedy."""


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
_BEFORE, _AFTER = 3, 9  # lines of context
_TAIL = 25  # lines of a log without such a line
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
_MARGIN = " \t|│"
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
_FROM_ROOT = re.compile(r"""(?:^|[\s'"`=:,;(]|-[IL])(/[\w.+/-]+)""", re.M)
_SHARED = (Path("/"), Path("/usr"), Path("/usr/local"))
_OF_CUDA = re.compile(r"nvcc|libcudart[\w.]*|cuda_runtime(_api)?\.h")


def what_failed(lines: Sequence[str]) -> list[str]:
    """The first error in a log, with a few lines around it; the end of a log that has none.

    rattler-build's advice on how to run the script again is left out, since its folder is removed.
    """
    last = next(
        (n for n, line in enumerate(lines) if line.startswith("Script execution failed")),
        len(lines),
    )
    said = [_COLOUR.sub("", line) for line in lines[:last] if line.strip()]
    first = next(
        (n for n, line in enumerate(said) if _ERROR.match(line) or _TRACEBACK in line), None
    )
    if first is None:  # above the script are the tables of its environments
        script = next((n for n in range(len(said), 0, -1) if _ENVIRONMENT in said[n - 1]), 0)
        return (said[script:] or said)[-_TAIL:]
    top = []
    if (
        "CMake Error" in said[first]
    ):  # what a compiler said is below, after all that CMake says of it
        top = [line.lstrip(_MARGIN) for line in _block(said, first) if _ERROR.match(line)][:1]
    tracebacks = [n for n, line in enumerate(said) if _TRACEBACK in line and n >= first]
    if (
        first in tracebacks
    ):  # the error is below, and those before it in a chain of errors above the last traceback
        chain = [first, *takewhile(lambda n: "above exception" in said[n - 1], tracebacks[1:])]
        ends = [min(n + len(_block(said, n)) + 1, len(said) - 1) for n in chain]
        top, first = [said[n].lstrip(_MARGIN) for n in ends[:-1]], ends[-1]
    return [
        line.removeprefix(_OURS) for line in (*top, *said[max(first - _BEFORE, 0) : first + _AFTER])
    ]


def _block(lines: Sequence[str], first: int) -> list[str]:
    """The lines below a line that are indented more."""
    return [*takewhile(lambda line: _depth(line) > _depth(lines[first]), lines[first + 1 :])]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(_MARGIN))


def missing_headers(lines: Sequence[str]) -> list[str]:
    """The headers that a log says were not found."""
    return [*dict.fromkeys(re.findall(r"fatal error: (\S+): No such file", "\n".join(lines)))]


def missing_libraries(lines: Sequence[str]) -> list[str]:
    """The files of the libraries that a log says the linker did not find, or CMake as a target
    ``CUDA::NAME``.
    """
    names = dict.fromkeys(map("".join, _NO_LIBRARY.findall("\n".join(lines))))
    return [f"lib{name}.{'a' if name.endswith('_static') else 'so'}" for name in names]


def undefined_symbols(lines: Sequence[str]) -> set[str]:
    """The functions of C that a log says the linker, or the loader of a library, did not find."""
    return {*re.findall(r"undefined (?:reference to [`']|symbol: )(\w+)", "\n".join(lines))}


def other_toolkits(lines: Sequence[str]) -> Iterator[Reason]:
    """For each toolkit of this machine that a log names: that it does, and the remedy."""
    for toolkit in _machine_toolkits("\n".join(lines)):
        yield (
            f"the build names the toolkit in {toolkit}, which is this machine's",
            "give CMake -DCUDAToolkit_BIN_DIR, meson and what else looks for one CUDA_PATH=$PREFIX",
        )


def _machine_toolkits(text: str) -> Iterator[str]:
    """The toolkits of this machine that a log names.

    In a log, the environments are called $PREFIX and $BUILD_PREFIX, so a path from the root is
    outside of them.
    """
    seen = set()
    for path in map(Path, dict.fromkeys(_FROM_ROOT.findall(text))):
        # Debian installs its package of the toolkit into /usr, between other files: there, only the
        # file's name counts.
        above = (f for f in (path, *path.parents) if f not in _SHARED)
        folder = next(
            (f for f in above if os.path.isfile(f / "include" / "cuda_runtime_api.h")), None
        )
        place = folder or (path if _OF_CUDA.fullmatch(path.name) else None)
        if place and (real := os.path.realpath(place)) not in seen:
            seen.add(real)
            yield str(place)
