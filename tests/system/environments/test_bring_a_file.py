"""Files of users followed to the end: written for this channel, created, and imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace

MACHINE = ("--driver", "12.9", "--arch", "8.0")
# Shortened from what people have, to packages that the default channel and its base have.
OLD_CONDA = """\
name: kernels
channels:
  - nvidia
  - conda-forge
dependencies:
  - python   # any
  - nvidia/label/cuda-12.9.0::cuda-nvrtc
  - pytorch-cuda=12.4
  - numba-cuda
  - pip:
      - nvidia-cuda-runtime-cu12==12.4.127
"""
OF_PIP = """\
# what pip installs today
numba-cuda[cu12]
nvidia-cuda-nvrtc-cu12
numpy
"""
OF_PIXI = """\
[workspace]
channels = ["conda-forge"]
platforms = ["linux-64", "linux-aarch64"]

[dependencies]
cuda-core = "*"   # ours

[pypi-dependencies]
nvidia-cuda-nvrtc-cu12 = "*"

[system-requirements]
cuda = "12.9"
"""
NUMBA = "from numba import cuda; import numba_cuda; print(numba_cuda.__version__)"
CORE = "import cuda.core; print(cuda.core.__version__)"
CASES = [
    ("environment.yml", OLD_CONDA, "new.yml", NUMBA, None),
    ("requirements.txt", OF_PIP, "new.yml", NUMBA, ["numpy"]),
    ("pixi.toml", OF_PIXI, "new.toml", CORE, None),
]


@pytest.mark.parametrize(
    ("name", "text", "new", "program", "of_pip"), CASES, ids=[case[0] for case in CASES]
)
def test_a_file_is_written_created_and_imported(
    name: str,
    text: str,
    new: str,
    program: str,
    of_pip: list[str] | None,
    built: Workspace,
    roomy: Callable[[str], Path],
) -> None:
    folder = roomy("file")
    (folder / name).write_text(text)
    written, prefix = folder / new, folder / "env"
    shown = ctk(built, "solve", str(folder / name), "--write", str(written), *MACHINE, "--json")
    assert shown.returncode == 0, shown.stderr
    (file,) = json.loads(shown.stdout)["files"]
    assert (file["toolkit"], file["fit"], file["part"]) == ("12.9", "native", "whole")
    options = ("--prefix", str(prefix), *MACHINE)
    done = ctk(built, "env", "create", "--file", str(written), *options, "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    # What was asked of the file is what was made. What is not about CUDA is left to pip.
    assert (made["toolkit"], made["fit"]) == ("12.9", "native")
    assert made.get("of_pip") == of_pip
    assert {line["answer"] for line in made["lines"]} == {"here"}
    printed = ctk(built, "env", "run", str(prefix), "--", "python", "-c", program, check=True)
    assert printed.stdout.strip()
    checked = ctk(built, "doctor", str(prefix), *MACHINE, "--json")
    checks = {check["check"]: check["state"] for check in json.loads(checked.stdout)["checks"]}
    assert "problem" not in checks.values(), checks
