"""Environments of the channel, packed and unpacked elsewhere: they compile there with nothing of this checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.package.binaries import read_binary, version_key

pytestmark = pytest.mark.skipif(
    this_platform() not in ("linux-64", "linux-aarch64"), reason="environments are packed for Linux only"
)

# 20 MiB and not more: three parts at least, of any of these environments.
LIMIT = 20 << 20


@dataclass(frozen=True)
class Unpacked:
    """An environment that was packed, and unpacked under a path with spaces."""

    prefix: Path  # where it is
    program: str  # the file of `ctk/env/programs` that uses it
    files: tuple[Path, ...]  # what `ctk env pack` wrote; moved away from where it was written

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """A command in it, with nothing of this process's environment."""
        runner = self.prefix / "bin" / "run-in-environment"
        return subprocess.run(["env", "-i", runner, *command], capture_output=True, text=True, check=False, cwd="/")


REQUESTS = {
    "cuda-core": (["cuda-core"], [], "cuda_core.py"),
    "numba-cuda-12.6": (["cuda-version=12.6", "numba-cuda"], ["--split", "20M"], "numba_cuda.py"),
}


@pytest.fixture(scope="module", params=[pytest.param("cuda-core", marks=pytest.mark.sweep), "numba-cuda-12.6"])
def unpacked(built: Workspace, roomy: Callable[[str], Path], request: pytest.FixtureRequest) -> Unpacked:
    specs, more, program = REQUESTS[request.param]
    made = roomy("made")
    ctk(built, "env", "pack", *specs, "--driver", "13.0", "-o", str(made / "env.run"), *more, check=True)
    # As on a disk that was carried there: nothing is where it was.
    place = roomy("another machine") / "a clean folder"
    made.rename(place)
    command = ["env", "-i", "sh", place / "env.run", place / "the env", "python", "-I", "-c", "print('runs')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr
    files = tuple(sorted(path for path in place.iterdir() if path.is_file()))
    return Unpacked(place / "the env", program, files)


@pytest.fixture(scope="module")
def found(unpacked: Unpacked, tmp_path_factory: pytest.TempPathFactory, project: Workspace) -> Mapping[str, object]:
    """What the environment's program found; the program is not in the checkout either."""
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text((project.root / "scripts" / "ctk" / "env" / "programs" / unpacked.program).read_text())
    done = unpacked.run("python", "-I", program)
    assert done.returncode == 0, done.stderr
    answer: Mapping[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_it_compiles_kernels_with_the_toolkit_that_it_was_packed_with(
    unpacked: Unpacked, found: Mapping[str, object]
) -> None:
    lock = next(path for path in unpacked.files if path.suffix == ".lock").read_text()
    (toolkit,) = re.findall(r"^# toolkit: ([\d.]+)", lock, re.M)
    if unpacked.program == "cuda_core.py":
        # A driver for CUDA 13 gets a toolkit of CUDA 13 that is no newer, and that one compiles.
        assert found["nvrtc"] == toolkit == "13.0"
        assert int(str(found["cubin bytes"])) > 1000 < int(str(found["linked bytes"]))
    else:
        assert (toolkit, found["ptx isa"]) == ("12.6", "8.5")  # NVRTC 12.6's, as its release lock has it
        assert found["target"] == "numba_cuda/numba/cuda/__init__.py"


def test_every_library_it_loads_is_its_own_or_the_systems(unpacked: Unpacked, project: Workspace) -> None:
    package = "cuda.core" if unpacked.program == "cuda_core.py" else "numba.cuda"
    code = f"import {package}; print(open('/proc/self/maps').read())"
    done = unpacked.run("python", "-I", "-c", code)
    assert done.returncode == 0, done.stderr
    loaded = set(re.findall(r"^\S+ r\S+ \S+ \S+ \S+ +(/.+)$", done.stdout, re.M))
    assert any(path.startswith(f"{unpacked.prefix}/") for path in loaded)
    foreign = {path for path in loaded if not path.startswith((f"{unpacked.prefix}/", "/lib", "/usr/lib", "/etc"))}
    assert not foreign


def test_no_file_of_it_names_where_it_was_made(unpacked: Unpacked, project: Workspace) -> None:
    own = f"{project.root}/".encode()
    named = [
        path
        for path in unpacked.prefix.rglob("*")
        if path.is_file() and not path.is_symlink() and own in path.read_bytes()
    ]
    assert not named


def test_commands_of_python_packages_run(unpacked: Unpacked) -> None:
    if not (unpacked.prefix / "bin" / "numba").exists():
        pytest.skip("this environment has no command of a Python package")
    done = unpacked.run("numba", "-s")
    assert done.returncode == 0, done.stderr
    assert "System info" in done.stdout


def test_pythons_own_settings_name_the_new_place(unpacked: Unpacked) -> None:
    done = unpacked.run("python", "-I", "-c", "import sysconfig; print(sysconfig.get_path('include'))")
    assert done.stdout.startswith(f"{unpacked.prefix}/"), done.stderr
    settings = next(unpacked.prefix.glob("lib/python3*/_sysconfigdata*.py")).read_text()
    assert "_placehold" not in settings


def test_bash_activates_it(unpacked: Unpacked) -> None:
    script = '. "$1/bin/activate" && command -v python && echo "$CONDA_PREFIX"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", unpacked.prefix], env={"PATH": os.defpath}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [f"{unpacked.prefix}/bin/python", str(unpacked.prefix)], done.stderr


def test_parts_are_no_larger_than_asked_and_all_hashes_are_right(unpacked: Unpacked) -> None:
    parts = [path for path in unpacked.files if path.suffix[1:].isdigit()]
    if unpacked.program == "cuda_core.py":
        assert not parts
    else:
        assert len(parts) > 2
        assert {path.stat().st_size for path in parts[:-1]} == {LIMIT}
        assert parts[-1].stat().st_size <= LIMIT
    folder = unpacked.files[0].parent
    subprocess.run(["sha256sum", "--quiet", "-c", "env.run.sha256"], cwd=folder, check=True)


def test_the_stated_glibc_is_what_its_binaries_ask_for(unpacked: Unpacked) -> None:
    """So that a machine with an older one is told, and not shown a loader's message."""
    lock = next(path for path in unpacked.files if path.suffix == ".lock").read_text()
    (stated,) = re.findall(r"^# glibc: ([\d.]+) or newer", lock, re.M)
    (python,) = [p for p in (unpacked.prefix / "bin").glob("python3.*") if not p.is_symlink()]
    binaries = [python, *unpacked.prefix.glob("lib/*.so*"), *unpacked.prefix.rglob("*.abi3.so")]
    for path in binaries:
        binary = read_binary(path)
        if binary is not None:
            assert version_key(binary.versions.get("GLIBC", "2.0"))[:2] <= version_key(stated), path


def test_with_a_gpu_the_unpacked_environment_computes(found: Mapping[str, object]) -> None:
    if not found["gpus"]:
        pytest.skip("no GPU on this machine: kernels are compiled and linked, not run")
    assert found.get("largest difference, cubin") is not None or found.get("relative difference") is not None


def test_a_damaged_part_of_a_real_pack_is_found(unpacked: Unpacked, tmp_path: Path) -> None:
    target = max(unpacked.files, key=lambda path: path.stat().st_size)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in unpacked.files:
        if path == target:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 0x40
            (damaged / path.name).write_bytes(data)
        else:
            os.link(path, damaged / path.name)
    done = subprocess.run(["sh", damaged / "env.run", tmp_path / "e"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(rf"^error: .*{re.escape(target.name)} is damaged", done.stderr, re.M)
    assert not (tmp_path / "e").exists()


def test_it_needs_nothing_of_this_process(unpacked: Unpacked) -> None:
    assert str(Path(sys.prefix)) not in unpacked.run("python", "-I", "-c", "import sys; print(sys.path)").stdout


def test_a_packed_compiler_is_activated_and_compiles(built: Workspace, tmp_path: Path) -> None:
    """cuda-nvcc's activation scripts run, and find everything under a path with a space."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine, which nvcc calls")
    pack = tmp_path / "nvcc.run"
    specs = ("cuda-nvcc", "cuda-cudart-dev", "python")
    ctk(built, "env", "pack", *specs, "--driver", "13.0", "-o", str(pack), check=True)
    (tmp_path / "kernel.cu").write_text("__global__ void kernel(float* x) { *x *= 2; }\nint main() { return 7; }\n")
    script = 'nvcc -arch=sm_90 kernel.cu -o program && echo "$CUDA_NVCC_PREFIX_1" && ./program'
    done = subprocess.run(
        ["env", "-i", "sh", pack, tmp_path / "the compiler", "sh", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, f"{tmp_path / 'the compiler'}\n"), done.stderr
