"""What conda-forge and RAPIDS' channel keep: what was read names every package of the recipes."""

from __future__ import annotations

import pytest
from rattler import Version

from ctk.core.checkout import Workspace, settings
from ctk.core.platforms import PLATFORMS
from ctk.plan.conda_forge import (
    CONDA_FORGE,
    RAPIDS,
    OtherChannels,
    has,
    other_channels,
    read,
    versions_at,
)
from ctk.plan.names import reviewed
from ctk.plan.recipes import find_recipes
from kit import foreign_channel

# Names below `elsewhere` in names.yaml that have nothing of CUDA: their versions hide nothing.
NOT_CUDA = {
    *("dask", "eigen", "einops", "fmt", "h5py", "hdf5", "hypothesis", "ipykernel", "ipython"),
    *("joblib", "jupyterlab", "matplotlib", "mpi4py", "notebook", "openmpi", "pandas", "pillow"),
    *("psutil", "pytest", "pytest-xdist", "pyyaml", "requests", "scikit-learn", "tqdm"),
    *("transformers", "xarray", "zlib", "zstd"),
}


@pytest.fixture(scope="module")
def others(project: Workspace) -> OtherChannels:
    return other_channels(project)


def names_here(project: Workspace) -> set[str]:
    """The packages of the recipes, on each platform."""
    outputs = {name for r in find_recipes(project.recipes).values() for name in r.output_names}
    place = "${{ target_platform }}"
    return {output.replace(place, subdir) for output in outputs for subdir in PLATFORMS}


def test_each_package_of_the_recipes_was_read_or_is_said_to_be_ours_or_unread(
    project: Workspace, others: OtherChannels
) -> None:
    unknown = {name for name in names_here(project) if others.kept(name) is None}
    unknown = {name for name in unknown if not name.endswith("-files")}
    assert unknown == {*read().ours, *read().unread} - set(reviewed().elsewhere)


def test_each_name_that_another_place_has_was_read_if_it_concerns_cuda(
    project: Workspace, others: OtherChannels
) -> None:
    elsewhere = set(reviewed().elsewhere)
    unknown = {name for name in elsewhere if others.kept(name) is None}
    assert unknown - set(read().unread) == NOT_CUDA
    assert set(read().unread) - names_here(project) <= elsewhere


def test_the_versions_of_each_repository_are_in_order_and_each_once() -> None:
    for name, feedstock in {**read().feedstocks, **read().rapids}.items():
        versions = [*feedstock.versions.split(), *feedstock.seen]
        assert versions == sorted(set(versions), key=Version), name
        for package in feedstock.packages:
            assert feedstock.versions_of(package), package


def test_the_minors_are_those_of_the_stand_in_and_of_the_settings(project: Workspace) -> None:
    assert list(read().toolkit.minors) == foreign_channel.MINORS
    stated = settings(project.root)
    assert set(stated.conda_forge.minors) <= set(read().toolkit.minors)
    assert stated.conda_forge.minors == [*read().compiled[CONDA_FORGE].minors]
    assert stated.rapids.minors == [*read().compiled[RAPIDS].minors]


def test_the_minors_of_rapids_are_those_of_its_newest_packages_in_the_stand_in(
    project: Workspace,
) -> None:
    theirs = [
        feedstock
        for feedstock in foreign_channel.FORGE["feedstocks"]
        if feedstock["source"]["repository"].startswith("rapidsai/")
    ]
    newest = max((feedstock["version"] for feedstock in theirs), key=Version)
    compiled = [f["cuda"]["linux-64"] for f in theirs if f["version"] == newest]
    minors = [*read().compiled[RAPIDS].minors]
    assert compiled == [minors] * len(compiled)


def test_what_the_stand_in_has_of_a_feedstock_was_read(others: OtherChannels) -> None:
    """Both are read from the same repositories; one may be read later."""
    for feedstock in foreign_channel.FORGE["feedstocks"]:
        for name, output in feedstock["outputs"].items():
            version = output.get("version", feedstock["version"])
            if others.kept(name):
                assert others.has(name, f"=={version}") is not False, (name, version)


def test_a_component_has_the_minors_that_are_newer_than_what_was_read(
    project: Workspace, others: OtherChannels
) -> None:
    kept = others.kept("cuda-nvcc")
    assert kept
    assert kept.versions[-1] == "13.2.78"
    assert kept.assumed == ("13.2.86", "13.3.73", "13.4.92")
    assert versions_at(project, "cuda-nvcc") == (*kept.versions, *kept.assumed)
    assert others.kept("cuda-nvcc_linux-aarch64") == kept


@pytest.mark.parametrize(
    ("name", "version", "answer"),
    [
        ("cuda-nvcc", "12.9.*", True),  # as a whole, for CUDA 12 too
        ("cuda-nvcc", "==12.9.41", True),  # its first patch, which no lock here has
        ("cuda-nvcc", "==12.9.42", False),
        ("cuda-version", "13.4.*", True),
        ("cuda-version", "13.5.*", None),  # newer than what was read
        ("cuda-toolkit", "==13.0.0", True),
        ("libnvcomp-dev", "==5.3.0.16", True),  # the version that RAPIDS pins
        ("libnvcomp-dev", "==5.2.0.11", False),
        ("libcudnn", "<9.10", False),  # the package was cudnn then
        ("cudnn", "8.9.*", True),
        ("pytorch", "2.2.1", False),
        ("pytorch", "2.99.*", None),
        ("cudatoolkit", "11.1.*", True),
        ("cudf", ">=25.6.0,<26", True),
        ("cudf", "26.10.*", None),
        ("cuda-gpu", "", False),  # ours
        ("cupy-core-files", "", False),
        ("nvmath-python", "", None),  # not read
        ("left-pad", "", None),
        ("cupy", "no version!", None),
    ],
)
def test_has_says_yes_no_or_that_it_is_not_known(
    project: Workspace, name: str, version: str, answer: bool | None
) -> None:
    assert has(project, name, version) is answer


def test_one_repository_makes_each_package() -> None:
    repositories = (*read().feedstocks.values(), *read().rapids.values())
    packages = [package for repository in repositories for package in repository.packages]
    assert len(packages) == len(set(packages))
