"""Environments of the channel, packed and unpacked elsewhere, compile there without
this checkout.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.core.versions import version_key
from ctk.package.binaries import read_binary
from kit.hello import HELLO_CUDA_CORE, HELLO_NUMBA_CUDA, facts

pytestmark = pytest.mark.skipif(
    this_platform() not in ("linux-64", "linux-aarch64"),
    reason="environments are packed for Linux only",
)


@dataclass(frozen=True)
class Unpacked:
    """An environment that was packed, and unpacked under a path with spaces."""

    prefix: Path
    program: Path  # the file of examples/ that uses it
    lock: str  # the text of its list of packages

    def run(self, *command: str | Path) -> str:
        """The output of a command in it, without the variables of this process."""
        words = ["env", "-i", self.prefix / "bin" / "run-in-environment", *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stderr
        return done.stdout


# The second has llvmlite, so that packing it takes twice as long.
REQUESTS = {
    "cuda-core": (["cuda-version=12.6", "cuda-core"], HELLO_CUDA_CORE),
    "numba-cuda": (["cuda-version=12.6", "numba-cuda"], HELLO_NUMBA_CUDA),
}


@pytest.fixture(
    scope="module", params=["cuda-core", pytest.param("numba-cuda", marks=pytest.mark.sweep)]
)
def unpacked(
    built: Workspace, roomy: Callable[[str], Path], request: pytest.FixtureRequest
) -> Unpacked:
    words, program = REQUESTS[request.param]
    made = roomy("made")
    ctk(built, "env", "pack", *words, "--driver", "13.0", "-o", str(made / "env.run"), check=True)
    # As on a disk that was carried there: nothing is where it was.
    place = roomy("another machine") / "a clean folder"
    made.rename(place)
    command = [
        "env",
        "-i",
        "sh",
        place / "env.run",
        place / "the env",
        "python",
        "-I",
        "-c",
        "print('runs')",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr
    return Unpacked(place / "the env", program, (place / "env.run.lock").read_text())


def test_it_compiles_kernels_with_the_toolkit_that_it_was_packed_with(
    unpacked: Unpacked, tmp_path: Path
) -> None:
    program = shutil.copy(unpacked.program, tmp_path)  # nothing of it is in the checkout
    found = facts(unpacked.run("python", "-I", program))
    assert re.findall(r"^# toolkit: ([\d.]+)", unpacked.lock, re.M) == ["12.6"]
    if unpacked.program == HELLO_CUDA_CORE:
        assert found["nvrtc"] == "12.6"
        assert int(found["cubin bytes"]) > 1000 < int(found["linked bytes"])
    else:
        assert found["ptx isa"] == "8.5"  # NVRTC 12.6's, as its release lock has it
        assert found["target"] == "numba_cuda/numba/cuda/__init__.py"
    if found["gpus"] != "0":
        assert "relative difference" in found or "largest difference, cubin" in found


def test_every_library_it_loads_is_its_own_or_the_systems(unpacked: Unpacked) -> None:
    package = "cuda.core" if unpacked.program == HELLO_CUDA_CORE else "numba.cuda"
    code = f"import sys, {package}; print(sys.path); print(open('/proc/self/maps').read())"
    path, _, maps = unpacked.run("python", "-I", "-c", code).partition("\n")
    assert sys.prefix not in path
    loaded = set(re.findall(r"^\S+ r\S+ \S+ \S+ \S+ +(/.+)$", maps, re.M))
    assert any(library.startswith(f"{unpacked.prefix}/") for library in loaded)
    assert not {
        x for x in loaded if not x.startswith((f"{unpacked.prefix}/", "/lib", "/usr/lib", "/etc"))
    }


def test_no_file_of_it_names_where_it_was_made_and_python_knows_where_it_is(
    unpacked: Unpacked, project: Workspace
) -> None:
    own = f"{project.root}/".encode()
    files = [
        path for path in unpacked.prefix.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    assert not [path for path in files if own in path.read_bytes()]
    include = unpacked.run(
        "python", "-I", "-c", "import sysconfig; print(sysconfig.get_path('include'))"
    )
    assert include.startswith(f"{unpacked.prefix}/")
    assert (
        "_placehold"
        not in next(unpacked.prefix.glob("lib/python3*/_sysconfigdata*.py")).read_text()
    )


def test_the_stated_glibc_is_what_its_binaries_ask_for(unpacked: Unpacked) -> None:
    """So that a machine with an older glibc gets an error of ours, not of the loader."""
    (stated,) = re.findall(r"^# glibc: ([\d.]+) or newer", unpacked.lock, re.M)
    (python,) = [p for p in (unpacked.prefix / "bin").glob("python3.*") if not p.is_symlink()]
    for path in [python, *unpacked.prefix.glob("lib/*.so*"), *unpacked.prefix.rglob("*.abi3.so")]:
        binary = read_binary(path)
        if binary is not None:
            assert version_key(binary.versions.get("GLIBC", "2.0"))[:2] <= version_key(stated), path
