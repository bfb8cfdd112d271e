"""Holds one answer against what the oracle expects: the pick, and that all of its packages belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ctk.verify.answers import Answer
from ctk.verify.channels import Side
from ctk.verify.oracle import PTX_WRITERS, PYTHON_REQUESTS, Expected, Question, minors_of

Sides = Mapping[tuple[str, str, str], Side]

_NVJITLINK = ("libnvjitlink", "libnvjitlink-files")
_NVRTC = ("cuda-nvrtc", "cuda-nvrtc-files")
_NVVM = ("cuda-nvvm-impl", "cuda-nvvm-impl-files")
_NVVM_TOOLS = ("cuda-nvvm-tools", "cuda-nvvm-tools-files")
_LIBRARIES = ("cuda-cudart", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnpp", "libnvjpeg")
_NVCC = ("cuda-nvcc-tools", "cuda-nvcc-tools-files", "cuda-crt-tools", "cuda-cudart", "cuda-cudart-dev")
# They are of exactly the toolkit's minor.
_OF_THE_MINOR = (*_NVRTC, *_NVVM, *_NVVM_TOOLS, *_NVCC)
# What each request is of no use without.
_BINDINGS = ("cuda-bindings", "cuda-pathfinder", "libnvfatbin", "numpy", *_NVRTC, *_NVVM, *_NVJITLINK)
_KERNELS = ("cuda-core", "cuda-cccl", "cuda-cudart-dev", *_NVVM_TOOLS, *_BINDINGS)
_MLIR = ("numba-cuda-mlir-files", *_KERNELS)
_NEEDED = {
    "cuda-nvrtc": _NVRTC,
    "cuda-nvcc": (*_NVCC, *_NVVM, *_NVVM_TOOLS),
    "cuda-runtime": (*_LIBRARIES, *_NVRTC, *_NVJITLINK),
    "cuda-bindings": _BINDINGS,
    "cuda-core": _BINDINGS,
    "cuda-python": _BINDINGS,
    "numba-cuda": ("numba", *_KERNELS),
    "numba-cuda-mlir": _MLIR,
    "cccl-python": ("numba-cuda-mlir", *_MLIR),
}


def wrong(question: Question, expected: Expected, answer: Answer, sides: Sides) -> str:
    """What is wrong with an answer, in one sentence, or "" when it is right.

    Args:
        question: What was asked.
        expected: What the oracle says.
        answer: What the solver says.
        sides: See `ctk.verify.channels.Channels`.
    """
    if not expected.toolkit:
        return f"it must be refused ({expected.cause}), but was solved" if answer.solved else ""
    if not answer.solved:
        return "it can be solved, but was refused"
    return next(_faults(question, expected, answer, sides), "")


def _faults(question: Question, expected: Expected, answer: Answer, sides: Sides) -> Iterator[str]:
    records = answer.records
    if missing := [name for name in ("cuda-version", question.request) if name not in records]:
        yield f"{missing[0]} is not there"
        return
    for name in ("cuda-version", question.request):
        if (name, records[name].version, records[name].build) not in sides:
            yield f"{name} {records[name].version} {records[name].build} is no native or compat build of this channel"
    got = records["cuda-version"]
    if (got.version, got.build.split("_")[0]) != (expected.toolkit, expected.fit):
        yield f"toolkit {got.version} {got.build.split('_')[0]}, not {expected.toolkit} {expected.fit}"
    for name, record in records.items():
        side = sides.get((name, record.version, record.build))
        if side and (side.fit, side.major) != (expected.fit, expected.major):
            yield f"{name} {record.version} {record.build} is of CUDA {side.major} {side.fit}: builds are mixed"
    minors: dict[str, tuple[str, ...]] = dict.fromkeys(_OF_THE_MINOR, (expected.toolkit,))
    for writer in PTX_WRITERS:
        right = minors_of(writer, expected.toolkit, for_python="cuda-bindings" in records)
        minors |= dict.fromkeys((writer, f"{writer}-files", f"{writer}-dev"), right)
    for name, allowed in minors.items():
        if name in records and _minor(records[name].version) not in allowed:
            yield f"{name} {records[name].version} is not of toolkit {' or '.join(allowed)}"
    yield from _python_faults(question, expected, answer)
    yield from (f"{name} is not there" for name in _NEEDED.get(question.request, ()) if name not in records)


def _python_faults(question: Question, expected: Expected, answer: Answer) -> Iterator[str]:
    records = answer.records
    found = ""
    if "python" in records:
        python = records["python"]
        plain = f"cp{''.join(python.version.split('.')[:2])}"
        found = plain if python.build.endswith("_cpython") else python.build.rsplit("_", 1)[-1]
    if found != expected.python:
        yield f"Python is {found or 'not there'}, not {expected.python or 'there'}"
    if expected.python and "python_abi" in records and not records["python_abi"].build.endswith(f"_{expected.python}"):
        yield f"python_abi is {records['python_abi'].build}, not for {expected.python}"
    for name in PYTHON_REQUESTS:
        # noarch packages name the major only
        start = f"cuda{expected.major}_py" + ("h" if name == "cuda-python" else f"{expected.python[2:]}h")
        if name in records and not records[name].build.startswith(start):
            yield f"{name} is {records[name].build}, not {start}..."


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])
