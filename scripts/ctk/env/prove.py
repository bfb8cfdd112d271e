"""Proves that the channel does what it is for: solves two requests, creates both environments, and uses them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ctk.core.checkout import Workspace
from ctk.core.errors import ProofFailed
from ctk.env.environment import PROGRAMS, Environment, create
from ctk.solve.solve import Catalogue, Pick, Scenario
from ctk.solve.why import solve_or_say_why

# Driver and GPU. CUDA 13 cannot compile for the fourth one's, a V100.
MACHINES = (("12.2", None), ("12.9", None), ("13.0", None), ("13.0", "7.0"), ("13.5", None), (None, None))


@dataclass(frozen=True)
class ProofRequest:
    """One of the requests this project exists for."""

    name: str  # of its environment
    specs: tuple[str, ...]
    program: tuple[str, ...]  # a file of `PROGRAMS` that uses the environment, and its arguments


REQUESTS = (
    ProofRequest("cuda-core", ("cuda-core",), ("cuda_core.py",)),
    ProofRequest("numba-cuda-12.6", ("cuda-version=12.6", "numba-cuda"), ("numba_cuda.py",)),
)


def picks(catalogue: Catalogue) -> Iterator[tuple[ProofRequest, Scenario, Pick | None]]:
    """The pick of each request for each machine."""
    for request in REQUESTS:
        for driver, arch in MACHINES:
            scenario = Scenario(request.specs, catalogue.subdir, driver, arch)
            yield request, scenario, catalogue.pick(scenario)


def make(request: ProofRequest, catalogue: Catalogue, scenario: Scenario, workspace: Workspace) -> Environment:
    """Creates the environment of a request for a machine."""
    pick = solve_or_say_why(scenario, catalogue)
    return create(pick, workspace.environments / request.name, workspace.cache / "packages")


def use(request: ProofRequest, environment: Environment) -> Mapping[str, object]:
    """Runs the request's program in its environment, with nothing of this process's own environment."""
    clean = {
        "PATH": os.pathsep.join([str(environment.python.parent), "/usr/bin", "/bin"]),
        "CONDA_PREFIX": str(environment.prefix),
        "HOME": str(environment.prefix),
        "LANG": "C.UTF-8",
        **{k: v for k, v in os.environ.items() if k in ("SYSTEMROOT", "CUDA_VISIBLE_DEVICES")},
    }
    file, *arguments = request.program
    words = [str(environment.python), "-I", str(PROGRAMS / file), *arguments]
    done = subprocess.run(words, env=clean, cwd=environment.prefix, capture_output=True, text=True, check=False)
    try:
        if done.returncode == 0:
            findings: Mapping[str, object] = json.loads(done.stdout.splitlines()[-1])
            return findings
    except (IndexError, json.JSONDecodeError):
        pass
    raise ProofFailed(
        f"{request.name}: {file} ended with {done.returncode} in {environment.prefix}:\n"
        + "\n".join(f"    {line}" for line in (done.stdout + done.stderr).splitlines()[-25:]),
        f"run it by hand: {' '.join(words)}",
    )
