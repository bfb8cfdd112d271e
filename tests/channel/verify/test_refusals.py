"""What a machine whose driver is too old, or that has none, is told of `cuda-gpu`.

rattler is here always. conda and mamba are asked where ``CTK_TEST_CONDA`` and ``CTK_TEST_MAMBA``
name them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    write_repodata,
)
from ctk.solve.solve import Scenario
from ctk.verify.clients import RattlerSolver
from kit.client_records import Place, program
from kit.small_channel import Record, record, write

RELEASES = ("12.0", "12.9", "13.0", "13.5")
TOO_OLD = ("", "11.8")  # no driver, and one for CUDA 11
CAUSE = "__cuda >=12"


def metapackage(project: Workspace) -> dict[str, Any]:
    """The channel of `cuda-gpu` as the recipes make it now: metadata by platform."""
    request = Request(RELEASES, ("cuda-gpu", "cuda-version"), ("linux-64",))
    tags = python_tags(project.build_config)
    content = planned_repodata(plan(published_set(project), request, tags))
    for subdir in content.values():
        for one in subdir["packages.conda"].values():
            one["size"] = 1  # conda prints it
    return content


def before(content: dict[str, Any]) -> dict[str, Any]:
    """The same channel, which has kept the builds of before: they depended on any driver."""
    kept = content["linux-64"]["packages.conda"]
    for fit, number, tracked in (("native", 100, ""), ("compat", 0, "cuda-gpu-p-0")):
        old: Record = dict(next(one for one in kept.values() if one["name"] == "cuda-gpu"))
        old |= {"build": f"{fit}_{number}", "build_number": number, "track_features": tracked}
        old["depends"] = ["__cuda", f"cuda-version * {fit}_*"]
        kept[f"cuda-gpu-{old['version']}-{fit}_{number}.conda"] = old
    return content


class Asking:
    """Asks a client for packages of a channel, on a machine with a driver."""

    def __init__(self, client: str, root: Path) -> None:
        self._place = Place(root)
        name, _, solver = client.partition("-")
        found = program(name)
        if found is None:
            pytest.skip(f"there is no {name}: CTK_TEST_{name.upper()} may name one")
        self._words = [found, "create", "-n", "never", "--dry-run", "-y", "--override-channels"]
        self._solver = ["--solver", solver] if solver else []

    def said(self, channel: Path, driver: str, *specs: str) -> str:
        """What it prints, with one space for each run of them."""
        words = [*self._words, *self._solver, "-c", channel.as_uri(), *specs]
        done = self._place.ran(*words, CONDA_OVERRIDE_CUDA=driver, CONDA_SUBDIR="linux-64")
        return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("driver", TOO_OLD)
def test_cuda_gpu_without_its_driver_is_one_line_of_rattlers_error(
    driver: str, project: Workspace, tmp_path: Path
) -> None:
    channel = write_repodata(metapackage(project), tmp_path)
    (answer,) = RattlerSolver().solve_all(
        [Scenario(("cuda-gpu",), "linux-64", driver or None)], [channel]
    )
    lines = [line for line in answer.problem.splitlines() if "__cuda" in line]
    assert len(lines) == 1 and CAUSE in lines[0], answer.problem


@pytest.mark.parametrize("driver", TOO_OLD)
@pytest.mark.parametrize("client", ["conda-rattler", "mamba"])
def test_cuda_gpu_without_its_driver_is_one_line_of_a_clients_error(
    client: str, driver: str, project: Workspace, tmp_path: Path
) -> None:
    said = Asking(client, tmp_path).said(
        write_repodata(metapackage(project), tmp_path / "channel"), driver, "cuda-gpu"
    )
    assert said.count("__cuda >=") == 1 and CAUSE in said, said


def test_classic_takes_an_old_build_of_cuda_gpu_where_the_channel_has_kept_it(
    project: Workspace, tmp_path: Path
) -> None:
    """docs/maintainers.md: `ctk publish --exact` takes it out of the index."""
    asking = Asking("conda-classic", tmp_path)
    exact = write_repodata(metapackage(project), tmp_path / "exact")
    kept = write_repodata(before(metapackage(project)), tmp_path / "kept")
    assert "UnsatisfiableError" in asking.said(exact, "11.8", "cuda-gpu")
    assert "-compat_0" in asking.said(kept, "11.8", "cuda-gpu")
    for driver, build in (("12.9", "cuda12_native"), ("13.0", "cuda13_native")):
        said = asking.said(kept, driver, "cuda-gpu")
        assert f"-{build}_" in said, "a build of now comes first where it fits: " + said


def named_first() -> Iterator[Record]:
    """A package that cannot be had, and more packages than libsolv has names before it."""
    yield record("wanted", "1", "h0_0", "noarch", depends=["missing >=2"])
    for number in range(300):
        yield record(f"other{number}", "1", "h0_0", "noarch")


def test_mamba_may_name_another_package_and_names_the_right_one_beside_a_version(
    tmp_path: Path,
) -> None:
    """docs/upstream/mamba-names.md.

    If no mamba names another one, take it and its section of troubleshooting.md away.
    """
    asking = Asking("mamba", tmp_path)
    channel = write(tmp_path / "channel", named_first())
    row = (
        "is not installable because it conflicts with any installable versions previously reported"
    )
    assert f"`{row}`" in (ROOT / "docs/troubleshooting.md").read_text()
    cause = "missing >=2 *, which does not exist"
    plain = asking.said(channel, "", "wanted")
    names_another = row in plain and "wanted" not in plain
    assert names_another or cause in plain, plain
    assert cause in asking.said(channel, "", "wanted>=0")
