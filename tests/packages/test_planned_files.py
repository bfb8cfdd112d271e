"""What `ctk audit --planned` sees: the files of packages that nobody built, and two packages with one of them."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from conftest import NEWEST
from ctk.check import Finding
from ctk.check.audit import planned_scans
from ctk.check.audit.packages import FilesHaveOneOwner, PackageSet
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import laid_out
from ctk.lock.lock import Artefact
from ctk.package.package import read_info
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags, small

# What NVIDIA's wheels for CUDA 12.0 and 13.0 have in common.
WHEELS = {
    ("nvcc", "12"): ("nvidia/cuda_nvcc/bin/ptxas", "nvidia/cuda_nvcc/include/nvPTXCompiler.h"),
    ("nvcc", "13"): ("nvidia/cu13/bin/nvcc", "nvidia/cu13/bin/nvcc.profile", "nvidia/cu13/bin/crt/link.stub"),
    ("nvptxcompiler", "13"): ("nvidia/cu13/include/nvPTXCompiler.h", "nvidia/cu13/lib/libnvptxcompiler_static.a"),
}


def names(artefact: Artefact) -> list[str]:
    return ["x.dist-info/License.txt", *WHEELS[artefact.component, artefact.version.partition(".")[0]]]


def planned(workspace: Workspace, *releases: str) -> Plan:
    recipes = ("cuda-version", "cuda-nvcc", "libnvptxcompiler")
    request = Request(releases=releases, recipes=recipes, platforms=("linux-64",))
    return plan(published_set(workspace), request, python_tags(workspace.build_config))


def found(workspace: Workspace, *releases: str) -> list[Finding]:
    scans = planned_scans(planned(workspace, *releases), workspace, names, jobs=2)
    return list(FilesHaveOneOwner(PackageSet(scans)))


@pytest.fixture
def copy(project: Workspace, tmp_path: Path) -> Workspace:
    """The recipes and variants, to be changed."""
    for folder in ("recipes", "variants"):
        shutil.copytree(project.root / folder, tmp_path / folder)
    for file in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copy(project.root / file, tmp_path)
    return Workspace(tmp_path)


def test_files_of_two_toolkits_meet_in_no_environment(copy: Workspace) -> None:
    assert found(copy, "12.0", "13.0") == []


def test_files_without_a_tie_are_found_before_anything_is_built(copy: Workspace) -> None:
    """So `ctk build --release 13.0 --all-components` failed beside the default channel, after all was built."""
    recipe = copy.recipes / "libnvptxcompiler" / "recipe.yaml"
    tie = '      run: ["cuda-version ${{ cuda_range }}"]\n'
    assert tie in recipe.read_text()
    recipe.write_text(recipe.read_text().replace(tie, ""))
    (finding,) = found(copy, "12.0", "13.0")
    assert finding.path == "targets/x86_64-linux/include/nvPTXCompiler.h"
    assert finding.where.startswith("cuda-nvcc-dev_linux-64-12.0")
    assert "libnvptxcompiler-dev_linux-64-files-13.0" in finding.message


@pytest.mark.parametrize("releases", [pytest.param((), marks=pytest.mark.sweep), (NEWEST,)], ids=["all", "newest"])
def test_a_planned_package_has_the_files_of_the_built_one(built: Workspace, releases: tuple[str, ...]) -> None:
    """All but .pc files, which a recipe names to the script alone, and what an output's own script adds (etc/conda)."""

    def inside(artefact: Artefact) -> list[str]:
        with zipfile.ZipFile(laid_out(artefact, built)) as wheel:
            return [name for name in wheel.namelist() if not name.endswith("/")]

    request = small(Request(releases, platforms=(this_platform(),)), built)
    everything = plan(published_set(built), request, python_tags(built.build_config))
    compared = 0
    for scan in planned_scans(everything, built, inside, jobs=2):
        package = built.channel.resolve() / scan.file
        paths = (entry.path for entry in read_info(package).paths)
        expected = {path for path in paths if not path.endswith(".pc") and not path.startswith("etc/conda/")}
        assert {file.path for file in scan.installed()} == expected, scan.file
        compared += len(expected)
    assert compared > 1_000
