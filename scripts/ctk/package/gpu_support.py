"""The GPUs that code runs on: rules, the share of a file for a GPU, the spec for metadata.

The rules are those of the CUDA Programming Guide (1.3, "The CUDA platform"; 5.1, "Compute
Capabilities"): machine code runs on GPUs of its major whose minor is not lower. PTX is compiled by
the driver for its GPU and all newer GPUs. Code for an architecture (``90a``) runs on that only;
code for a family (``100f``) runs within its major, from its minor on, but for 10.1, a family of its
own: ptxas 12.9.86 refuses ``100f`` for sm_101; 13.5.37 takes ``101f`` for sm_110 alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Literal

from ctk.core.versions import version_key

if TYPE_CHECKING:  # its import takes long, and who reads a lock reads no binaries
    from ctk.package.gpu_fatbin import FileCode, GpuCode

How = Literal["native", "jit", "part", "none"]
ORDER: tuple[How, ...] = ("none", "part", "jit", "native")
"""From worst to best: no code for a GPU, little code, PTX that the driver compiles, machine code.
"""

RENAMED = "10.1"
"""CUDA 12's number of 11.0: no toolkit of CUDA 13 compiles for it, and what such a toolkit made
says 11.0.
"""

SOCS = ("5.3", "6.2", "7.2", "8.7", RENAMED, "11.0")
"""GPUs of Jetson and similar boards (https://developer.nvidia.com/cuda-gpus), which have ARM
processors only.
"""

_FUTURE = "99.0"  # a GPU of an unknown major


def present(gpus: Sequence[str], subdir: str) -> tuple[str, ...]:
    """The GPUs, of these, that a machine of a platform can have.

    All of them for an empty platform.
    """
    return tuple(
        g for g in gpus if g not in SOCS or not subdir or subdir.endswith(("aarch64", "arm64"))
    )


@dataclass(frozen=True)
class Runs:
    """How code runs on a GPU; `isa` is the newest PTX ISA that its driver must compile."""

    how: How
    isa: str = ""


def runs_on(code: GpuCode, gpu: str) -> bool:
    """Whether a GPU runs machine code, or its driver compiles PTX for it."""
    number = code.target.rstrip("af")
    lowest, here = divmod(int(number), 10), tuple(map(int, gpu.split(".")))
    if code.target.endswith("a") or (code.target.endswith("f") and (10, 1) in (here, lowest)):
        return here == lowest
    same_major = here[0] == lowest[0]
    return here >= lowest and (same_major or (code.kind == "ptx" and code.target == number))


@dataclass(frozen=True)
class _Enough:
    """How many objects are enough for a GPU, in one file; fewer are remains.

    Libraries of matrix products have many more kernels for some GPUs than for others, and support
    all: cuBLASLt 12.9 has 64 objects for Maxwell and 1436 for Hopper. Other libraries have remains:
    cuTENSOR 2.8 one object of PTX for 5.0, cuSOLVER 11.7 25 of PTX that run on 11.0, and 172 of
    machine code for other GPUs.

    Attributes:
        machine_code: An eighth of the median of the GPUs that have some, and not 0.
        with_ptx: For machine code and PTX together: half of the smallest number of machine code
            that is enough, or of PTX if no GPU has machine code.
    """

    machine_code: float
    with_ptx: float

    @classmethod
    def of(cls, machine_code: Iterable[int], ptx: Iterable[int]) -> _Enough:
        """For numbers of objects, one for each GPU."""
        some_code = [number for number in machine_code if number]
        some_ptx = [number for number in ptx if number]
        if not some_code:
            return cls(1, min(some_ptx, default=1) / 2)
        eighth = median(some_code) / 8
        return cls(max(eighth, 1), min(number for number in some_code if number >= eighth) / 2)


def runs(file: FileCode, gpus: Sequence[str]) -> dict[str, Runs]:
    """GPU -> how the code of a file runs on it; {} for a file without code.

    PTX outside fat binaries does not count: the program may generate code from it, or compare code
    with it.
    """
    cubins = [code for code in file.code if code.kind == "cubin"]
    ptx = [code for code in file.code if code.kind == "ptx" and code.size]
    if not cubins and not ptx:
        return {}
    counted_cubins = {gpu: _objects(cubins, gpu) for gpu in gpus}
    counted_ptx = {gpu: _objects(ptx, gpu) for gpu in gpus}
    enough = _Enough.of(counted_cubins.values(), counted_ptx.values())
    found = {}
    for gpu in gpus:
        both = counted_cubins[gpu] + counted_ptx[gpu]
        if counted_cubins[gpu] >= enough.machine_code:
            found[gpu] = Runs("native")
        elif counted_ptx[gpu] and both >= enough.with_ptx:
            isas = [code.isa for code in ptx if runs_on(code, gpu)]
            found[gpu] = Runs("jit", max(isas, key=version_key))
        elif both:
            found[gpu] = Runs("part")
        else:
            found[gpu] = Runs("none")
    return found


def _objects(codes: Iterable[GpuCode], gpu: str) -> int:
    """How many objects of some code run on a GPU."""
    return sum(code.count for code in codes if runs_on(code, gpu))


def worst(files: Iterable[Mapping[str, Runs]]) -> dict[str, Runs]:
    """GPU -> how several files run on it together: like the worst of them; {} if none has code."""
    return _merged(files, min)


def best(alternatives: Iterable[Mapping[str, Runs]]) -> dict[str, Runs]:
    """GPU -> how files of which one is loaded run on it: like the best of them.

    {} if none has code.
    """
    return _merged(alternatives, max)


def _merged(files: Iterable[Mapping[str, Runs]], pick: Callable[..., Runs]) -> dict[str, Runs]:
    coded = [found for found in files if found]
    return {
        gpu: pick((found[gpu] for found in coded), key=lambda r: (ORDER.index(r.how), r.isa))
        for gpu in (coded[0] if coded else ())
    }


_FOR_A_GPU = re.compile(r"(?<![A-Za-z])(?:sm|compute)[-_]?\d{2,3}[af]?(?![A-Za-z\d])")
_FOR_A_CUDA = re.compile(r"(?<![A-Za-z])cu(?:da)?[-_]?1\d[._]?\d?(?![A-Za-z\d])")


def one_for_each_gpu(paths: Iterable[str]) -> list[list[str]]:
    """Groups of paths that differ only in a GPU's number: ``sm90/a.so``, ``sm100/a.so``."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(_FOR_A_GPU.sub("#", path), []).append(path)
    return list(groups.values())


def one_for_each_cuda(files: Mapping[str, FileCode]) -> dict[str, list[str]]:
    """The alternatives among files: name -> paths, with the files that several of them share.

    {} if there are none. Files are alternatives if their paths differ only in the number of a CUDA
    version, as ``a_cuda128.so`` and ``a_cuda130.so``, or if they need different CUDA runtimes, as
    ``libcudart.so.12`` and ``libcudart.so.13``.
    """
    plain = Counter(_FOR_A_CUDA.sub("#", path) for path in files)
    numbered = {path: match[0] for path in files if (match := _FOR_A_CUDA.search(path))}
    numbers = {number for path, number in numbered.items() if plain[_FOR_A_CUDA.sub("#", path)] > 1}
    names = {path: number for path, number in numbered.items() if number in numbers}
    runtimes = {path: file.runtime for path, file in files.items()}
    covered = {runtimes[path] for path in names} | {""}
    if len({*runtimes.values()} - {""}) > 1:
        names |= {
            path: needed
            for path, needed in runtimes.items()
            if path not in names and needed not in covered
        }
    found: dict[str, list[str]] = {}
    for path in sorted(
        names, key=lambda path: [int(number) for number in re.findall(r"\d+", names[path])]
    ):
        found.setdefault(names[path], []).append(path)
    others = [path for path in files if path not in names]
    for paths in found.values():
        usable = {runtimes[path] for path in paths} | {""}
        paths += [path for path in others if runtimes[path] in usable or usable == {""}]
    return found


def bound(files: Iterable[FileCode], gpus: Sequence[str]) -> str:
    """A version spec for ``__cuda_arch`` that matches the GPUs on which all of some files run.

    The known GPUs are lowest first. It matches unknown GPUs by the rules: with machine code those
    of the newest major, with PTX all. ``<0`` matches no GPU; "" is for files without code.
    """
    found = worst(runs(file, (*gpus, _FUTURE)) for file in files)
    if not found:
        return ""
    ends = [
        *map(version_key, gpus),
        _NO_END if found[_FUTURE].how == "jit" else (version_key(gpus[-1])[0] + 1,),
    ]
    groups = groupby(range(len(gpus)), lambda i: found[gpus[i]].how in ("native", "jit"))
    stretches = [list(numbers) for run, numbers in groups if run]
    return "|".join(_text(ends[numbers[0]], ends[numbers[-1] + 1]) for numbers in stretches) or "<0"


def common(bounds: Iterable[str]) -> str:
    """The intersection of specs, all as `bound` writes them; ``<0`` if it is empty."""
    first, *others = map(_ranges, bounds)
    for other in others:
        pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a in first for b in other]
        first = sorted(pair for pair in pairs if pair[0] < pair[1])
    return "|".join(_text(*pair) for pair in first) or "<0"


_Range = tuple[tuple[int, ...], tuple[int, ...]]
_NO_END = (9999,)


def _ranges(text: str) -> list[_Range]:
    parts = [part.partition(",") for part in text.split("|") if part.startswith(">=")]
    return [
        (version_key(low[2:]), version_key(high[1:]) if high else _NO_END) for low, _, high in parts
    ]


def within(gpu: str, spec: str) -> bool:
    """Whether a spec, as `bound` writes it, matches a GPU."""
    return any(low <= version_key(gpu) < high for low, high in _ranges(spec))


def _text(low: tuple[int, ...], high: tuple[int, ...]) -> str:
    written = ".".join(map(str, low))
    return f">={written}" if high == _NO_END else f">={written},<{'.'.join(map(str, high))}"


def spans(gpus: Iterable[str], known: Sequence[str]) -> str:
    """GPUs in words, with ranges of neighbours: ``7.5 to 9.0, 12.0``."""
    parts = neighbours(gpus, known)
    return ", ".join(part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)


def neighbours(gpus: Iterable[str], known: Sequence[str]) -> list[list[str]]:
    """GPUs in groups, in each of which no known GPU is left out."""
    parts: list[list[str]] = []
    wanted = set(gpus)
    for before, gpu in zip(("", *known), known, strict=False):
        if gpu not in wanted:
            continue
        if parts and parts[-1][-1] == before:
            parts[-1].append(gpu)
        else:
            parts.append([gpu])
    return parts
