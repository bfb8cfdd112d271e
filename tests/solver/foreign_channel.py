"""conda-forge's GPU packages as metadata: which builds there are, and what decides between them. No files.

From the recipes of conda-forge, read in November 2026 (each in ``recipe/`` of its feedstock, with ``.ci_support`` for
the platforms): pytorch-cpu, triton, jaxlib, tensorflow, onnxruntime, cupy, cudnn, cuda-gdb, cuda-version, cuda-nvrtc
(which the other libraries of the toolkit are like), cuda-core and numba-cuda. What they have in common:

- What is compiled with CUDA X.Y needs ``cuda-version >=X.Y,<X+1``, a run-export of the compiler (cuda-nvcc), and
  ``__cuda`` of any version. Its build number is higher by 200 than that of the CPU build.
- Only tensorflow's CPU build tracks a feature as well. Windows has pytorch of CUDA 12.8 where Linux has 12.9.
- jaxlib and tensorflow have one CUDA build each, of CUDA 12. Neither is on win-64 at all; tensorflow has no CUDA build
  for linux-aarch64, and onnxruntime-novec none anywhere.
- cupy has no CPU build, and goes with every minor of its major. cudnn is for CUDA 13 only since 9.14.
- cuda-gdb, like every package of the toolkit, is tied to its minor.

One BLAS, and two Pythons, are enough here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from small_channel import Record, python_needs, record

LINUX = ("linux-64", "linux-aarch64")
SUBDIRS = (*LINUX, "win-64")
PYTHONS = ("3.13", "3.14")
# conda-forge's newest cuda-version is 13.2. 12.7 never was.
MINORS = (*(f"12.{minor}" for minor in range(10) if minor != 7), "13.0", "13.1", "13.2")

# Package of the toolkit -> its component in variants/cuda-<minor>.yaml, whose version it has.
TOOLKIT = {
    "cuda-nvrtc": "nvrtc",
    "cuda-cudart": "cudart",
    "cuda-cupti": "cupti",
    "cuda-nvcc-tools": "nvcc",
    "cuda-cuobjdump": "nvcc",
    "cuda-gdb": "nvcc",
    "libnvjitlink": "nvjitlink",
    "libcublas": "cublas",
    "libcufft": "cufft",
    "libcurand": "curand",
    "libcusolver": "cusolver",
    "libcusparse": "cusparse",
}
# What a program that is compiled with CUDA is linked with, by default.
LIBRARIES = ("cuda-cudart", "cuda-cupti", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse")


@dataclass(frozen=True)
class Foreign:
    """A package with builds of its own for CUDA and for the CPU.

    Attributes:
        name, version: Its.
        build: ``{kind}`` is ``cpu`` or ``cuda129``, ``{py}`` is ``314``, ``{number}`` its build number.
        cuda: Platform -> the toolkits that it is compiled with.
        cpu: The platforms with a CPU build.
        number: Of the CPU build.
        needs: What every build needs; may name ``{exact}``, the version and build that a companion has.
        cuda_needs: What a CUDA build needs besides its libraries.
        tracks: A feature that the CPU build tracks.
    """

    name: str
    version: str
    build: str
    cuda: Mapping[str, Sequence[str]]
    cpu: Sequence[str] = ()
    number: int = 0
    needs: Sequence[str] = ()
    cuda_needs: Sequence[str] = ("__cuda", *LIBRARIES)
    tracks: str = ""


_PYTORCH = {**dict.fromkeys(LINUX, ("12.9", "13.0")), "win-64": ("12.8", "13.0")}
_ONNX = dict.fromkeys(SUBDIRS, ("12.9", "13.0"))
TABLE = (
    Foreign("libtorch", "2.13.0", "{kind}_mkl_h1_{number}", _PYTORCH, SUBDIRS, 102,
            cuda_needs=("__cuda", *LIBRARIES, "cuda-nvrtc", "libcudnn >=9.13,<10.0a0")),
    Foreign("pytorch", "2.13.0", "{kind}_mkl_py{py}_h2_{number}", _PYTORCH, SUBDIRS, 102,
            needs=("libtorch 2.13.0 {kind}_mkl_h1_{number}",), cuda_needs=("__cuda", *LIBRARIES, "triton ==3.7.1")),
    Foreign("triton", "3.7.1", "{kind}py{py}h3_1", dict.fromkeys(LINUX, ("12.9", "13.0")),
            cuda_needs=("cuda-nvcc-tools", "cuda-cuobjdump", "cuda-cudart", "cuda-cupti")),
    Foreign("jaxlib", "0.9.2", "{kind}_py{py}h4_{number}", dict.fromkeys(LINUX, ("12.9",)), LINUX,
            cuda_needs=("__cuda", *LIBRARIES, "cuda-nvcc-tools", "libcudnn >=9.13,<10.0a0")),
    Foreign("tensorflow", "2.19.1", "{kind}py{py}h5_{number}", {"linux-64": ("12.8",)}, LINUX, 3,
            cuda_needs=("__cuda", *LIBRARIES, "cuda-nvcc-tools", "libcudnn >=9.13,<10.0a0"), tracks="tensorflow-cpu"),
    Foreign("onnxruntime", "1.26.0", "py{py}h6_{number}_{kind}", _ONNX, SUBDIRS,
            cuda_needs=("__cuda", *LIBRARIES, "libcudnn >=9.13,<10.0a0")),
    Foreign("onnxruntime-novec", "1.26.0", "py{py}h7_{number}_{kind}", {}, SUBDIRS),
)  # fmt: skip


def records(variants: Path) -> Iterator[Record]:
    """The channel, for three platforms, with the versions that the release locks name.

    What is all the same to a solver is decided by time: the builds for CUDA 13 are the later ones.
    """
    for one in _records(variants):
        yield one | {"timestamp": 1_790_000_000_000 + any("cuda-version >=13" in need for need in one["depends"])}


def _records(variants: Path) -> Iterator[Record]:
    versions = {minor: _versions(variants / f"cuda-{minor}.yaml") for minor in MINORS}
    for minor in MINORS:
        major = minor.split(".")[0]
        also = [f"__cuda >={major}", f"cudatoolkit {minor}|{minor}.*"]
        yield record("cuda-version", minor, "h0_3", "noarch", constrains=also)
    for subdir in SUBDIRS:
        for minor in MINORS:
            yield from _toolkit(minor, versions[minor], subdir)
        for major in ("12", "13"):
            yield from _any_minor(major, subdir)
        for package in TABLE:
            yield from _builds(package, versions, subdir)
    # An opt-in that conda-forge has: a name that asks for the CUDA build, or for the other one.
    for subdir, minors in _PYTORCH.items():
        yield record("pytorch-cpu", "2.13.0", "cpu_mkl_h8_102", subdir, depends=["pytorch 2.13.0 cpu_mkl*102"])
        for kind in (f"cuda{minor.replace('.', '')}" for minor in minors):
            needs = ["pytorch 2.13.0 cuda*_mkl*302"]
            yield record("pytorch-gpu", "2.13.0", f"{kind}_mkl_h8_302", subdir, depends=needs)


def _versions(path: Path) -> dict[str, str]:
    return {key: values[0] for key, values in YAML(typ="safe").load(path).items()}


def _toolkit(minor: str, versions: Mapping[str, str], subdir: str) -> Iterator[Record]:
    """The packages that are tied to one minor."""
    for name, component in TOOLKIT.items():
        if name != "cuda-gdb" or subdir in LINUX:
            yield record(name, versions.get(component, minor), f"h{minor.replace('.', '')}_0", subdir,
                         depends=[_minor(minor)])  # fmt: skip


def _any_minor(major: str, subdir: str) -> Iterator[Record]:
    """The packages that go with every minor of a major."""
    on = f"cuda-version >={major},<{int(major) + 1}.0a0"
    for version in ("9.13.1.26", "9.25.0.15")[: 1 if major == "12" else 2]:
        needs = [on, "cuda-nvrtc", "libcublas"]
        yield record("libcudnn", version, f"h{major}_0", subdir, depends=needs)
        yield record("cudnn", version, f"h{major}_0", subdir, depends=[on, f"libcudnn {version} h{major}_0"])
    highest = {"12": "12.9.4", "13": "13.2.0"}[major]
    compiled = {"12": "12.9", "13": "13.2"}[major]
    for python in PYTHONS:
        needs, py = list(python_needs(python)), python.replace(".", "")
        build = f"cuda{major}_py{py}h9_0"
        yield record("cuda-bindings", highest, f"py{py}h{major}_0", subdir, depends=[*needs, on, "cuda-nvrtc"])
        core = [*needs, "numpy", f"cuda-bindings >={major},<{int(major) + 1}.0a0", on]
        yield record("cuda-core", "1.1.0", build, subdir, depends=core)
        libraries = ["cuda-nvrtc", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse"]
        yield record("cupy", "14.1.1", f"py{py}h{compiled.replace('.', '')}_0", subdir,
                     depends=[*needs, "numpy", on, *libraries])  # fmt: skip
        if major == "13":
            numba = [
                "numba >=0.60.0",
                "cuda-bindings >=12.9.1,<14.0.0",
                "cuda-core >=0.5.1,<2.0.0",
                "cuda-version >=12",
            ]
            yield record("numba-cuda", "0.30.2", f"py{py}h10_0", subdir, depends=[*needs, *numba, "cuda-cudart"])


def _builds(package: Foreign, versions: Mapping[str, Mapping[str, str]], subdir: str) -> Iterator[Record]:
    kinds = [*package.cuda.get(subdir, ()), *(["cpu"] if subdir in package.cpu else [])]
    for python in PYTHONS if "{py}" in package.build else ("",):
        for kind in kinds:
            cuda = kind != "cpu"
            words = {
                "kind": f"cuda{kind.replace('.', '')}" if cuda else "cpu",
                "number": str(package.number + 200 * cuda),
                "py": python.replace(".", ""),
            }
            needs = [*(python_needs(python) if python else ()), *(need.format(**words) for need in package.needs)]
            if cuda:
                needs += [_since(kind), *(_linked(need, kind, versions) for need in package.cuda_needs)]
            # On Windows there is no triton.
            needs = [need for need in needs if subdir in LINUX or not need.startswith("triton")]
            more: dict[str, Any] = {"track_features": package.tracks} if package.tracks and not cuda else {}
            made = record(package.name, package.version, package.build.format(**words), subdir, depends=needs, **more)
            yield made | {"build_number": int(words["number"])}


def _linked(need: str, minor: str, versions: Mapping[str, Mapping[str, str]]) -> str:
    """A library with the run-export of its -dev package: since the version that was compiled with, below the major."""
    if need not in LIBRARIES:
        return need
    version = versions[minor][TOOLKIT[need]]
    return f"{need} >={version},<{int(version.split('.')[0]) + 1}.0a0"


def _since(minor: str) -> str:
    """The run-export of the compiler of a minor."""
    return f"cuda-version >={minor},<{int(minor.split('.')[0]) + 1}"


def _minor(minor: str) -> str:
    major, number = minor.split(".")
    return f"cuda-version >={minor},<{major}.{int(number) + 1}.0a0"
