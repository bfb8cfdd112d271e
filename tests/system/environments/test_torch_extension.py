"""The line of docs/pytorch-jax-cupy.md for extensions of PyTorch is whole: what it names compiles
one that includes PyTorch's own headers for CUDA. And so does a file such as people bring: one that
calls the driver is compiled and linked with what it names.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace

# `load` ends with an import, for which no GPU is needed.
PROGRAM = """
from torch.utils.cpp_extension import load
module = load("twice", ["twice.cu"], build_directory=".")
print(module.twice.__doc__)
"""
SOURCE = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void doubled(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

torch::Tensor twice(torch::Tensor x) {
  auto y = torch::empty_like(x);
  doubled<<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""


OF_THE_BASE_CHANNEL = ("ninja", "cxx-compiler")


def specs_of_the_page(project: Workspace) -> list[str]:
    page = (project.root / "docs" / "pytorch-jax-cupy.md").read_text(encoding="utf-8")
    section = page.partition("### Extensions of PyTorch")[2]
    line = re.search(r"^conda create -n gpu -c CHANNEL -c conda-forge (.*)$", section, re.M)
    assert line
    return shlex.split(line[1])


def skip_without(project: Workspace, names: Iterable[str]) -> None:
    """Skips a test if some of the packages are not built."""
    lacks = [name for name in names if not list(project.channel.glob(f"*/{name}-[0-9]*.conda"))]
    if lacks:
        pytest.skip(f"not built: ctk build {' '.join(lacks)} --driver 13.0")


@pytest.mark.sweep
def test_what_the_page_names_compiles_an_extension(project: Workspace, tmp_path: Path) -> None:
    specs = specs_of_the_page(project)
    skip_without(project, [spec for spec in specs if spec not in OF_THE_BASE_CHANNEL])
    (tmp_path / "twice.cu").write_text(SOURCE)
    (tmp_path / "compile.py").write_text(PROGRAM)
    prefix = tmp_path / "env"
    machine = ("--driver", "13.0", "--arch", "9.0")
    ctk(project, "env", "create", *specs, *machine, "--prefix", str(prefix), check=True)
    command = f"cd {tmp_path} && TORCH_CUDA_ARCH_LIST=9.0 python compile.py"
    done = ctk(project, "env", "run", str(prefix), "--", "bash", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "twice(" in done.stdout


OF_THE_FILE = ("pytorch", "torchvision", "torchaudio", "cuda-nvcc", "cuda-driver-dev")
FILE = f"""
channels: [conda-forge]
dependencies: [python, {", ".join(OF_THE_FILE)}]
"""
# It names no ninja, without which `load` refuses, and setuptools compiles.
SETUP = """
import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

stubs = os.path.join(os.environ["CUDA_HOME"], "lib64", "stubs")
flags = [f"-L{stubs}", "-lcuda"]
module = CUDAExtension("driver", ["driver.cpp", "kernel.cu"], extra_link_args=flags)
setup(name="driver", ext_modules=[module], cmdclass={"build_ext": BuildExtension})
"""
# Apart from the kernel: PyTorch's headers are read once, by the compiler of C++.
CALLS_THE_DRIVER = """
#include <cuda.h>
#include <torch/extension.h>

void add_one(float* x);

int version() {
  int found = 0;
  return cuDriverGetVersion(&found) == CUDA_SUCCESS ? found : -1;
}

void more(torch::Tensor x) { add_one(x.data_ptr<float>()); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("version", &version);
  m.def("more", &more);
}
"""
KERNEL = """
__global__ void one_more(float* x) { ++*x; }

void add_one(float* x) { one_more<<<1, 1>>>(x); }
"""


@pytest.mark.sweep
def test_a_file_of_a_user_compiles_an_extension_that_calls_the_driver(
    project: Workspace, tmp_path: Path
) -> None:
    skip_without(project, OF_THE_FILE)
    for name, text in (
        ("environment.yml", FILE),
        ("setup.py", SETUP),
        ("driver.cpp", CALLS_THE_DRIVER),
        ("kernel.cu", KERNEL),
    ):
        (tmp_path / name).write_text(text)
    prefix, file = tmp_path / "env", str(tmp_path / "environment.yml")
    machine = ("--driver", "13.0", "--arch", "9.0")
    answer = ctk(project, "solve", file, *machine, check=True)
    assert "toolkit 13.0, native" in answer.stdout
    ctk(project, "env", "create", "--file", file, *machine, "--prefix", str(prefix), check=True)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        inside = f"cd {tmp_path} && {command}"
        return ctk(project, "env", "run", str(prefix), "--", "bash", "-c", inside)

    done = run("TORCH_CUDA_ARCH_LIST=9.0 python setup.py build_ext --inplace")
    assert done.returncode == 0, done.stdout + done.stderr
    # The stub is found by the linker, and never by the loader: without a driver, it says so.
    done = run("python -c 'import torch, driver; print(driver.version())'")
    without_driver = "ImportError: libcuda.so.1: cannot open shared object file"
    assert done.returncode == 0 or without_driver in done.stderr, done.stdout + done.stderr
    assert done.returncode or int(done.stdout) > 0
