"""The line of docs/pytorch-jax-cupy.md for extensions of PyTorch is whole: what it names compiles
one that includes PyTorch's own headers for CUDA.
"""

from __future__ import annotations

import re
import shlex
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


def specs_of_the_page(project: Workspace) -> list[str]:
    page = (project.root / "docs" / "pytorch-jax-cupy.md").read_text(encoding="utf-8")
    section = page.partition("### Extensions of PyTorch")[2]
    line = re.search(r"^conda create -n gpu -c CHANNEL -c conda-forge (.*)$", section, re.M)
    assert line
    return shlex.split(line[1])


@pytest.mark.sweep
def test_what_the_page_names_compiles_an_extension(project: Workspace, tmp_path: Path) -> None:
    specs = specs_of_the_page(project)
    built = {"pytorch", "cuda-nvcc", "libcusparse-dev"}
    if lacks := [n for n in built if not list(project.channel.glob(f"*/{n}-[0-9]*.conda"))]:
        pytest.skip(f"no {' or '.join(lacks)} built: ctk build pytorch cuda-nvcc --driver 13.0")
    (tmp_path / "twice.cu").write_text(SOURCE)
    (tmp_path / "compile.py").write_text(PROGRAM)
    prefix = tmp_path / "env"
    machine = ("--driver", "13.0", "--arch", "9.0")
    ctk(project, "env", "create", *specs, *machine, "--prefix", str(prefix), check=True)
    command = f"cd {tmp_path} && TORCH_CUDA_ARCH_LIST=9.0 python compile.py"
    done = ctk(project, "env", "run", str(prefix), "--", "bash", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "twice(" in done.stdout
