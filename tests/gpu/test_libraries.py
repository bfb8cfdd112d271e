"""cuDNN and NCCL of the channel used on this machine's GPUs. `ctk build --ring 2` makes them.

Where there is no GPU or no such channel, tests/tooling/test_library_locks.py holds how their files are laid out, the
golden files which there are, and the audit of a build what they need.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_machine import Machine

pytest_plugins = ["gpu_fixtures"]


def test_a_convolution_and_a_sum_over_all_gpus_are_right(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    pytest.importorskip("ctk", reason="there is no checkout here to make an environment from")
    from conftest import ctk

    project = request.getfixturevalue("project")
    if not list(project.channel.glob("*/nccl-files-*.conda")):
        pytest.skip("the channel was built without cuDNN and NCCL: ctk build --ring 2")
    ctk(project, "env", "create", "cudnn", "nccl", "--prefix", str(tmp_path / "env"), check=True)
    program = Path(__file__).with_name("libraries.py")
    done = subprocess.run([sys.executable, program, tmp_path / "env"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["convolution"], found["all_reduce"]) == (0, 0)
    assert found["gpus"] >= 1
