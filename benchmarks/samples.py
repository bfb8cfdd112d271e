"""Compiles and links NVIDIA's samples against an environment of this channel.

Two parts, each with a git folder of a repository: `--cuda-samples` takes all of
NVIDIA/cuda-samples as one project (a sample that finds no OpenGL, GLUT, EGL, MPI and the like makes
no program), `--library-samples` of NVIDIA/CUDALibrarySamples one for each library. Everything is
compiled for one GPU, and nothing runs: that takes a GPU. `--keep` has the programs of the first
part in a folder, each beside its data, as the run_tests.py of that repository runs them. The
environment has cuda-toolkit, cuda-nvml-dev, gxx_linux-64, cmake and ninja, and for the second part
the libraries. Ends with 1 if a sample fails that is not in KNOWN. Example:
.venv/bin/python benchmarks/samples.py ENVIRONMENT --cuda-samples CLONES/cuda-samples.git
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from functools import partial
from pathlib import Path

from foreign import Program, Project, extract

# Each sample gives a list of its own, for nine GPUs.
_GPUS = re.compile(r"(set\(CMAKE_CUDA_ARCHITECTURES) [^)]*\)")
# Sample, or library of the second part -> why it fails.
KNOWN = {
    "Samples/4_CUDA_Libraries/simpleCUFFT_callback": "wants the static cuFFT, which no wheel has",
    "Samples/2_Concepts_and_Techniques/particles": "includes no <thrust/tuple.h>",
    "Samples/2_Concepts_and_Techniques/segmentationTreeThrust": "includes no <thrust/tuple.h>",
    "Samples/3_CUDA_Features/cdpQuadtree": "includes no <thrust/tuple.h>",
    "Samples/5_Domain_Specific/smokeParticles": "includes no <thrust/tuple.h>",
    "cuBLASLt": "its header helpers.h calls assert, and includes no cassert",
    "nvCOMP": "its examples are for nvCOMP 5.3, and nvCOMP 6 has other names",
}
# Samples that are for other machines.
_ELSEWHERE = "Samples/8_Platform_Specific"
# What a build leaves beside a program that no program reads.
_OF_BUILDS = shutil.ignore_patterns(
    "CMakeFiles", "*.cmake", "*.ninja", "*.o", "*.a", "*.so", "*.json"
)
# Library -> a sample of it, and what its CMakeLists.txt needs to be told; {} is the environment,
# with the folder names of NVIDIA's archives.
# Where a sample also links a static library, the programs with the shared one are built.
LIBRARY_SAMPLES: dict[str, tuple[str, list[str]]] = {
    "cuBLAS": ("cuBLAS/Level-3/gemm", []),
    "cuBLASLt": ("cuBLASLt/LtSgemm", []),
    "cuDSS": ("cuDSS/simple", []),
    "cuFFT": ("cuFFT/2d_c2r_r2c", []),
    "cuRAND": ("cuRAND/Host/mrg32k3a", []),
    "cuSOLVER": ("cuSOLVER/Xgeqrf", []),
    "cuSPARSE": ("cuSPARSE/spmm_csr", []),
    "cuSPARSELt": ("cuSPARSELt/matmul", ["-DCUSPARSELT_PATH={}"]),
    "cuTENSOR": ("cuTENSOR", ["-DCUTENSOR_ROOT={}"]),
    "NPP": ("NPP/findContour", []),
    "nvCOMP": ("nvCOMP/examples", ["-DSKIP_LINKING_WITH_STATIC_NVCOMP=ON"]),
    "nvJPEG": ("nvJPEG/nvJPEG-Decoder", []),
    "nvJPEG2000": ("nvJPEG2000/nvJPEG2000-Decoder", []),
}


def for_one_gpu(sources: Path, gpu: str) -> None:
    """Has all samples compile for one GPU."""
    changed = 0
    for file in sources.rglob("CMakeLists.txt"):
        text = file.read_text(encoding="utf-8")
        new, number = _GPUS.subn(rf"\1 {gpu})", text)
        changed += number
        file.write_text(new, encoding="utf-8")
    if not changed:
        raise SystemExit("error: no sample says for which GPUs it compiles; read its CMake files")


def cuda_samples(
    repository: Path, prefix: Path, gpu: str, folder: Path, kept: Path | None
) -> Counter[str]:
    """Outcome -> number of samples; prints those that make no program, or fail."""
    sources = folder / "cuda-samples"
    extract(repository, sources)
    for_one_gpu(sources, gpu)
    samples: dict[str, list[Program]] = {sample: [] for sample in samples_in(sources)}
    project, refused = configured(sources, prefix, folder)
    for program in project.programs():
        samples.setdefault(program.folder, []).append(program)
    # A project of several samples is none itself.
    for sample in [one for one in samples if any(each.startswith(f"{one}/") for each in samples)]:
        del samples[sample]
    done = project.compile()
    outcomes: Counter[str] = Counter()
    for sample, programs in samples.items():
        failed = [program.name for program in programs if not program.is_linked]
        reason = refused.get(sample) or ", ".join(failed)
        if reason:
            outcome = "known to fail" if sample in KNOWN else "failed"
        elif programs:
            outcome = "linked"
        else:
            outcome = "no program"
            reason = because(sample, project.configured.output)
        outcomes[outcome] += 1
        if reason:
            print(f"cuda-samples: {outcome}: {sample}: {reason}", flush=True)
        if kept and outcome == "linked":
            keep(sources / sample, programs, kept / sample)
    if kept:
        for name in ("run_tests.py", "test_args.json"):
            shutil.copy(sources / name, kept)
    print(*errors_in(done.output), sep="\n")
    return outcomes


def samples_in(sources: Path) -> list[str]:
    """The folders of samples that are for a machine like this one."""
    found = []
    for file in sorted((sources / "Samples").rglob("CMakeLists.txt")):
        folder = str(file.parent.relative_to(sources))
        is_project = re.search(r"(?mi)^project\(", file.read_text(encoding="utf-8"))
        if is_project and not folder.startswith(_ELSEWHERE):
            found.append(folder)
    return found


def keep(source: Path, programs: list[Program], into: Path) -> None:
    """Copies the programs of a sample, and what they read."""
    for folder in {program.path.parent for program in programs}:
        shutil.copytree(folder, into, ignore=_OF_BUILDS, dirs_exist_ok=True)
    if (source / "data").is_dir():
        shutil.copytree(source / "data", into / "data", dirs_exist_ok=True)


def configured(sources: Path, prefix: Path, folder: Path) -> tuple[Project, dict[str, str]]:
    """All samples but those that CMake refuses, and what it says of these."""
    refused: dict[str, str] = {}
    while True:
        project = Project(prefix, sources, folder / f"build-{len(refused)}")
        done = project.configured
        if not done.code:
            return project, refused
        errors = re.findall(
            r"(CMake Error at (Samples/\S+)/CMakeLists.txt.*\n(?:.*\n){5})", done.output
        )
        found = {sample: " ".join(error.split()) for error, sample in errors}
        if not found.keys() - refused.keys():
            raise SystemExit(f"error: CMake: {done.output[-2000:]}")
        refused |= found
        for sample in found:
            (sources / sample / "CMakeLists.txt").write_text("")


def errors_in(output: str) -> list[str]:
    """The lines of a build that say why something failed."""
    return [line for line in output.splitlines() if re.search(r"error|cannot find|undefined", line)]


def because(sample: str, output: str) -> str:
    """What CMake says of a sample that makes no program."""
    name = sample.rpartition("/")[2]
    lines = [line for line in output.splitlines() if name in re.split(r"\W+", line)]
    return lines[0].removeprefix("-- ") if lines else "CMake says nothing"


def library_samples(
    repository: Path, prefix: Path, gpu: str, folder: Path, libraries: Collection[str]
) -> Counter[str]:
    """Outcome -> number of libraries; prints each."""
    outcomes: Counter[str] = Counter()
    sources = folder / "CUDALibrarySamples"
    extract(repository, sources)
    archive = folder / "archive"
    archive.mkdir()
    (archive / "include").symlink_to(prefix / "include")
    for name in ("lib", "lib64"):
        (archive / name).symlink_to(prefix / "lib")
    for library in libraries:
        sample, told = LIBRARY_SAMPLES[library]
        options = [f"-DCMAKE_CUDA_ARCHITECTURES={gpu}", *(o.format(archive) for o in told)]
        project = Project(prefix, sources / sample, folder / f"build-{library}", *options)
        done = project.configured
        programs = []
        if not done.code:
            programs = [p for p in project.programs() if not p.name.endswith("_static")]
            done = project.compile(*(p.name for p in programs))
        linked = sum(program.is_linked for program in programs)
        is_linked = 0 < linked == len(programs)
        outcome = "failed"
        if is_linked:
            outcome = "linked"
        elif library in KNOWN:
            outcome = "known to fail"
        outcomes[outcome] += 1
        reason = f"{linked} of {len(programs)} programs"
        if not is_linked:
            reason = f"{reason}: {done.why}"
        print(f"CUDALibrarySamples: {outcome}: {library}, {sample}: {reason}", flush=True)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", type=Path, help="its folder")
    parser.add_argument("--cuda-samples", type=Path, help="a git folder of NVIDIA/cuda-samples")
    parser.add_argument("--library-samples", type=Path, help="... of NVIDIA/CUDALibrarySamples")
    parser.add_argument("--gpu", default="90", help="compute capability, as CMake writes it")
    parser.add_argument("--keep", type=Path, help="a folder for the programs of cuda-samples")
    parser.add_argument(
        "--library",
        action="append",
        choices=LIBRARY_SAMPLES,
        help="of the second part; may be repeated, all without it",
    )
    given = parser.parse_args()
    prefix = given.environment.resolve()
    libraries = given.library or list(LIBRARY_SAMPLES)
    parts = [
        ("cuda-samples", given.cuda_samples, partial(cuda_samples, kept=given.keep)),
        (
            "CUDALibrarySamples",
            given.library_samples,
            partial(library_samples, libraries=libraries),
        ),
    ]
    failed = 0
    for name, repository, part in parts:
        if repository is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcomes = part(repository, prefix, given.gpu, Path(folder))
        numbers = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
        print(f"{name}: {sum(outcomes.values())}: {numbers}")
        failed += outcomes["failed"]
    sys.exit(min(1, failed))


if __name__ == "__main__":
    main()
