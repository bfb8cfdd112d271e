"""A library does not install for a GPU for which it has no code, by the bounds that were read from
the binaries.

The requests are solved from the planned channel, with the libraries beside the toolkit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    write_repodata,
)
from ctk.solve.channels import Repodata, universe
from ctk.solve.solve import Scenario
from ctk.verify.clients import RattlerSolver
from ctk.verify.run import SolverAnswer
from kit.worlds import records

HERE = "linux-64"
RELEASES = (
    "12.4",
    "12.6",
    "12.8",
    "12.9",
    "13.0",
    "13.1",
    "13.2",
    "13.4",
    "libraries-12",
    "libraries-13",
)
Ask = Callable[..., SolverAnswer]


@pytest.fixture(scope="module")
def content(project: Workspace) -> Repodata:
    """The toolkits and both library sets, for one platform and one Python."""
    request = Request(RELEASES, (), (HERE,), ("3.13",))
    return planned_repodata(
        plan(published_set(project), request, python_tags(project.build_config))
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_repodata(universe(), tmp_path_factory.mktemp("universe"))


def asking(content: Repodata, base: Path, folder: Path) -> Ask:
    own = write_repodata(content, folder)

    def ask(request: str, driver: str | None, gpu: str | None) -> SolverAnswer:
        specs = tuple(f"{spec} " if " " in spec else spec for spec in request.split(", "))
        (answer,) = RattlerSolver().solve_all([Scenario(specs, HERE, driver, gpu)], [own, base])
        return answer

    return ask


@pytest.fixture(scope="module")
def ask(content: Repodata, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    return asking(content, base, tmp_path_factory.mktemp("planned"))


def word(answer: SolverAnswer, package: str) -> str:
    """``12.9 native``, or ``refused``, or without a toolkit the beginning of the
    package's build.
    """
    if not answer.solved:
        return "refused"
    toolkit = answer.records.get("cuda-version")
    fit = toolkit.build.partition("_")[0] if toolkit else ""
    build = answer.records[package].build.partition("_")[0]
    return f"{toolkit.version} {fit}" if toolkit else build


@pytest.mark.parametrize(
    ("request_", "driver", "gpu", "expected"),
    [
        # The newest cuDNN for CUDA 12 begins with 7.5; a V100 gets the last one that has code for
        # it.
        ("cudnn", "12.9", "7.5", "12.9 native"),
        ("cudnn", "12.9", "7.0", "12.9 native"),
        ("jaxlib", "12.9", "7.0", "12.9 native"),
        ("jaxlib", "13.0", "9.0", "13.0 native"),
        # cuSPARSELt begins with 8.0 for both majors, NCCL for CUDA 12 with 6.0, cuTENSOR with 7.5.
        ("cusparselt", "13.0", "8.0", "13.0 native"),
        ("cusparselt", "13.0", "7.5", "refused"),
        ("nccl", "12.9", "5.2", "refused"),
        ("cutensor", "12.9", "7.0", "refused"),
        # The toolkit's libraries go with all GPUs of its compiler.
        ("libcufft", "13.0", "7.0", "12.9 native"),
        # Nobody says which GPU there is: nothing is refused.
        ("cudnn", "12.9", None, "12.9 native"),
        ("libnvshmem3", "13.0", "9.0", "13.0 native"),
    ],
)
def test_a_gpu_gets_what_has_code_for_it(
    ask: Ask, request_: str, driver: str | None, gpu: str | None, expected: str
) -> None:
    assert word(ask(request_, driver, gpu), request_) == expected


def test_one_environment_has_all_on_the_toolkit_of_the_driver(ask: Ask) -> None:
    answer = ask("pytorch, jax, cupy, numba-cuda, cuda-core", "13.0", "9.0")
    assert word(answer, "pytorch") == "13.0 native"
    assert answer.records["jaxlib"].build.startswith("cuda13_")


def test_a_gpu_that_a_release_dropped_gets_the_last_one_that_has_it(
    content: Repodata, base: Path, tmp_path: Path
) -> None:
    """As if libcufft of 12.9 had dropped Volta, which its NVRTC still knows."""
    changed: Repodata = copy.deepcopy(content)
    files = [record for record in records(changed) if record["name"] == "libcufft-files"]
    for record in (
        r for r in files if any(s.startswith("cuda-version >=12.9,") for s in r["depends"])
    ):
        bounds = [spec for spec in record["constrains"] if spec.startswith("__cuda_arch")]
        assert bounds, "the package has no bound of its own"
        record["constrains"] = [
            *(s for s in record["constrains"] if s not in bounds),
            "__cuda_arch >=7.5,<13",
        ]
    ask = asking(changed, base, tmp_path)
    assert word(ask("libcufft", "12.9", "7.0"), "libcufft") == "12.8 native"
    assert word(ask("libcufft", "12.9", "7.5"), "libcufft") == "12.9 native"
    # A library beside it has no such bound.
    assert word(ask("libcublas", "12.9", "7.0"), "libcublas") == "12.9 native"
