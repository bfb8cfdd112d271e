"""Which GPUs run code: the rules, how much of a file has to be for a GPU, and the spec that says so.

The rules are those of the CUDA Programming Guide (1.3, "The CUDA platform"; 5.1, "Compute Capabilities"): machine code
runs on GPUs of its major whose minor is not lower, PTX is compiled by the driver for its GPU and every newer one; what
is for one architecture (``90a``) runs on that one only, what is for a family (``100f``) within its major, from its
minor on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Literal

from ctk.package.binaries import version_key
from ctk.package.gpu_fatbin import FileCode, GpuCode

How = Literal["native", "jit", "part", "none"]
ORDER: tuple[How, ...] = ("none", "part", "jit", "native")
"""From worst to best: nothing for this GPU, little, PTX that the driver compiles, machine code."""

SOCS = ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")
"""GPUs of Jetson and the like (https://developer.nvidia.com/cuda-gpus), which are beside ARM processors only. 10.1 is
11.0 as CUDA 12 called it."""

_FUTURE = "99.0"  # a GPU of a major that nobody knows
# A library of matrix products has far more kernels for some GPUs than for others, and still serves all: of cuBLASLt
# 12.9, 64 objects for Maxwell beside 1436 for Hopper. Others have some left over: cuTENSOR 2.8 one of PTX for 5.0,
# cuSOLVER 11.7 25 of PTX that fit 11.0, beside 172 of machine code for others.
_ENOUGH_MACHINE_CODE = 1 / 8  # of what is usual for a GPU in this file
_ENOUGH_PTX = 1 / 2  # of the least that a GPU with enough machine code has


def present(gpus: Sequence[str], subdir: str) -> tuple[str, ...]:
    """Those of some GPUs that a machine of a platform can have; all of them for no platform."""
    return tuple(g for g in gpus if g not in SOCS or not subdir or subdir.endswith(("aarch64", "arm64")))


@dataclass(frozen=True)
class Runs:
    """How code runs on one GPU; `isa` is the newest PTX ISA that its driver has to compile for that."""

    how: How
    isa: str = ""


def fits(code: GpuCode, gpu: str) -> bool:
    """Whether a GPU runs machine code, or its driver compiles PTX for it."""
    number = code.target.rstrip("af")
    lowest, here = divmod(int(number), 10), tuple(map(int, gpu.split(".")))
    if code.target.endswith("a"):
        return here == lowest
    same_major = here[0] == lowest[0]
    return here >= lowest and (same_major or (code.kind == "ptx" and code.target == number))


def runs(file: FileCode, gpus: Sequence[str]) -> dict[str, Runs]:
    """GPU -> how the code of one file runs on it; {} where a file has none.

    PTX outside fat binaries does not count: it may be what the program makes code of, or compares it with.
    """
    whole = [code for code in file.code if code.kind == "cubin" or (code.kind == "ptx" and code.size)]
    if not whole:
        return {}
    machine, ptx = (
        {gpu: sum(code.count for code in whole if code.kind == kind and fits(code, gpu)) for gpu in gpus}
        for kind in ("cubin", "ptx")
    )
    usual = median([n for n in machine.values() if n] or [0])
    enough = [n for n in machine.values() if n and n >= usual * _ENOUGH_MACHINE_CODE]
    least = min(enough or [n for n in ptx.values() if n] or [1])
    found = {}
    for gpu in gpus:
        both = machine[gpu] + ptx[gpu]
        if machine[gpu] in enough:
            found[gpu] = Runs("native")
        elif ptx[gpu] and both >= least * _ENOUGH_PTX:
            isas = [code.isa for code in whole if code.kind == "ptx" and fits(code, gpu)]
            found[gpu] = Runs("jit", max(isas, key=version_key))
        else:
            found[gpu] = Runs("part" if both else "none")
    return found


def worst(files: Iterable[Mapping[str, Runs]]) -> dict[str, Runs]:
    """GPU -> how several files run on it together: as the worst does; {} where none has code."""
    together = [found for found in files if found]
    return {
        gpu: min((found[gpu] for found in together), key=lambda r: (ORDER.index(r.how), r.isa))
        for gpu in (together[0] if together else ())
    }


def bound(files: Iterable[FileCode], gpus: Sequence[str]) -> str:
    """A version spec for ``__cuda_arch`` that admits the known GPUs, lowest first, on which all of some files run.

    GPUs that are not known yet are in it where a rule says so: of the newest major by machine code, all by PTX. ``<0``
    admits none, and "" is for files without code.
    """
    found = worst(runs(file, (*gpus, _FUTURE)) for file in files)
    if not found:
        return ""
    ends = [*map(version_key, gpus), _NO_END if found[_FUTURE].how == "jit" else (version_key(gpus[-1])[0] + 1,)]
    groups = groupby(range(len(gpus)), lambda i: found[gpus[i]].how in ("native", "jit"))
    stretches = [list(numbers) for run, numbers in groups if run]
    return "|".join(_text(ends[numbers[0]], ends[numbers[-1] + 1]) for numbers in stretches) or "<0"


def common(bounds: Iterable[str]) -> str:
    """The spec that admits what each of some specs admits, all as `bound` writes them; ``<0`` for nothing."""
    first, *others = map(_ranges, bounds)
    for other in others:
        pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a in first for b in other]
        first = sorted(pair for pair in pairs if pair[0] < pair[1])
    return "|".join(_text(*pair) for pair in first) or "<0"


_Range = tuple[tuple[int, ...], tuple[int, ...]]
_NO_END = (9999,)


def _ranges(text: str) -> list[_Range]:
    parts = [part.partition(",") for part in text.split("|") if part.startswith(">=")]
    return [(version_key(low[2:]), version_key(high[1:]) if high else _NO_END) for low, _, high in parts]


def within(gpu: str, spec: str) -> bool:
    """Whether a spec, as `bound` writes it, admits a GPU."""
    return any(low <= version_key(gpu) < high for low, high in _ranges(spec))


def _text(low: tuple[int, ...], high: tuple[int, ...]) -> str:
    written = ".".join(map(str, low))
    return f">={written}" if high == _NO_END else f">={written},<{'.'.join(map(str, high))}"


def spans(gpus: Iterable[str], known: Sequence[str]) -> str:
    """GPUs in words, those between two that are both there left out: ``7.5 to 9.0, 12.0``."""
    parts: list[list[str]] = []
    wanted = set(gpus)
    for before, gpu in zip(("", *known), known, strict=False):
        if gpu not in wanted:
            continue
        if parts and parts[-1][-1] == before:
            parts[-1].append(gpu)
        else:
            parts.append([gpu])
    return ", ".join(part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)
