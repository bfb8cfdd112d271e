"""Names that are no packages here: what is said of each is true of the locks, the recipes and the
exclusions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, UnknownName, nearest
from ctk.lock.components import load_exclusions
from ctk.lock.model import release_locks
from ctk.plan import names
from ctk.plan.names import Names, known_names, reviewed
from ctk.plan.plan import Plan, Request, published_set, with_needs
from ctk.plan.recipes import find_recipes, makers_of
from ctk.solve.solve import parse_spec

TAGS = ("cp312",)


@pytest.fixture(scope="module")
def others(project: Workspace) -> Names:
    return known_names(project)


@pytest.fixture(scope="module")
def made_of(project: Workspace, whole: Plan) -> dict[str, set[str]]:
    """Distribution of a release lock -> the packages of the plan that are made from
    its artefacts.
    """
    artefacts = [
        artefact for lock in release_locks(project).values() for artefact in lock.artefacts
    ]
    distributions = {(a.component, a.version): a.distribution for a in artefacts}
    found: dict[str, set[str]] = {distribution: set() for distribution in distributions.values()}
    for output in (output for build in whole.builds for output in build.outputs):
        for source in output.sources:
            found[distributions[source.component, source.version]].add(output.name)
    return found


def packages_for(others: Names, distribution: str) -> list[str]:
    """The packages that the answer for a distribution names.

    A package of its own name answers itself.
    """
    other = others.meant_by(distribution)
    if other is None:
        return [distribution]
    specs = [parse_spec(word) for word in other.requests[0].split()]
    return [spec.name for spec in specs if spec.name != "cuda-version"]


def test_each_distribution_of_each_lock_is_answered_with_a_package_that_has_its_files(
    others: Names, made_of: dict[str, set[str]]
) -> None:
    del made_of["cuda-cccl"]  # on conda, this name is that of the headers
    assert len(made_of) > 60
    named = {distribution: packages_for(others, distribution) for distribution in made_of}
    assert [distribution for distribution, packages in named.items() if not packages] == []
    wrong = {d: packages for d, packages in named.items() if not made_of[d].issuperset(packages)}
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("nvidia-cuda-runtime", "cuda-cudart"),
        ("nvidia-nvtx", "cuda-nvtx"),
        ("nvidia-cublas", "libcublas"),
        ("nvidia-cudnn", "cudnn"),
        ("nvidia-nvjitlink", "libnvjitlink"),
        ("nvidia-cuda-sanitizer-api", "cuda-sanitizer-api"),
        ("nvidia-cusparselt", "cusparselt"),
        ("nvidia-nccl", "nccl"),
    ],
)
@pytest.mark.parametrize("end", ["", "-cu11", "-cu12", "-cu13"])
def test_a_wheel_of_any_major_has_the_package_of_its_component(
    others: Names, name: str, package: str, end: str
) -> None:
    other = others.meant_by(name + end)
    assert other is not None
    assert other.requests[0].split()[0] == package
    assert ("of CUDA 11; " in other.sentence) is (end == "-cu11")
    pin = f" cuda-version={end[3:]}" if end in ("-cu12", "-cu13") else ""
    assert other.requests[0] == package + pin
    assert others.meant_by((name + end).replace("-", "_").upper()) == other


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("cudart", "cuda-cudart"),
        ("cublas", "libcublas"),
        ("nvcc", "cuda-nvcc"),
        ("npp", "libnpp"),
        ("libcupti", "cuda-cupti"),
        ("libcudart.so.12", "cuda-cudart"),
        ("libnvrtc.so", "cuda-nvrtc"),
        ("thrust", "cuda-cccl"),
        ("cub", "cuda-cccl"),
        ("libcudacxx", "cuda-cccl"),
        ("ptxas", "cuda-nvcc-tools"),
        ("torch", "pytorch"),
    ],
)
def test_a_bare_name_or_a_library_has_its_package(others: Names, name: str, package: str) -> None:
    other = others.meant_by(name)
    assert other is not None and other.requests[0] == package


def test_a_package_of_the_recipes_means_itself_and_an_unknown_name_nothing(
    others: Names, project: Workspace
) -> None:
    every = [
        n
        for recipe in find_recipes(project.recipes).values()
        for n in recipe.output_names
        if "{" not in n
    ]
    assert [name for name in every if others.meant_by(name)] == []
    for name in ("foobarx", "nvidia-no-such-cu12", "cu12", "libfoo.so.1", "numba-cudax"):
        assert others.meant_by(name) is None


@pytest.mark.parametrize(
    "name", ["environment.yml", "pixi.toml", "requirements.txt", "pixi.lock", "env.yaml"]
)
def test_a_file_is_said_to_be_one(others: Names, name: str) -> None:
    other = others.meant_by(name)
    assert other is not None
    assert other.sentence == f"{name} is the name of a file"
    assert other.step == "name its packages, or see what they are: `ctk solve environment.yml`"


# --- names.yaml


def test_what_the_table_asks_for_is_made_by_a_recipe(project: Workspace) -> None:
    recipes = find_recipes(project.recipes)
    asked = [request for entry in reviewed().names.values() for request in entry.ask]
    asked += [request for requests in reviewed().substitutes.values() for request in requests]
    specs = [parse_spec(word).name for request in asked for word in request.split()]
    assert [name for name in specs if not makers_of(name, recipes)] == []


def test_each_entry_of_the_table_says_where_to_go_and_none_is_a_package_here(
    project: Workspace,
) -> None:
    recipes = find_recipes(project.recipes)
    here = [name for name in reviewed().names if makers_of(name, recipes)]
    assert here == []
    instead = [entry.instead for entry in reviewed().names.values() if entry.instead]
    assert {*instead} <= {*reviewed().elsewhere}


def test_what_is_said_to_have_no_wheel_is_on_the_list_of_exclusions_and_the_other_way_round(
    project: Workspace,
) -> None:
    unpublished = {
        entry.name for entry in load_exclusions(project).unpublished if str(entry.releases) == ""
    }
    known = reviewed().names
    assert [name for name in unpublished if name not in known] == []
    assert [name for name in unpublished if known[name].ask] == []


def test_a_feedstock_is_named_for_each_name_that_conda_forge_has() -> None:
    assert [
        name
        for name, there in reviewed().elsewhere.items()
        if not there.conda_forge.endswith("-feedstock")
    ] == []


def test_a_project_with_a_cuda_of_its_own_is_not_for_pip() -> None:
    """Beside conda's CUDA, its libraries would be loaded in place of conda's."""
    for name in ("pytorch", "tensorflow", "onnxruntime", "torchvision", "xgboost", "jaxlib"):
        assert reviewed().elsewhere[name].pip == ""


def test_every_problem_of_the_table_is_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (file := tmp_path / "names.yaml").write_text("names: {a: {iss: b}}\nelsewhere: {b: {}}\n")
    monkeypatch.setattr(names, "FILE", file)
    with pytest.raises(LockError) as error:
        reviewed.__wrapped__()
    assert "names.a.is" in error.value.cause and "elsewhere.b.conda_forge" in error.value.cause


# --- names that are spelled alike


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("cuda-gdb", []),
        ("cuda-cor", ["cuda-core"]),
        ("cuda-croe", ["cuda-core"]),
        ("cuda-nvrct", ["cuda-nvrtc"]),
        ("numbacuda", ["numba-cuda"]),
        ("pythn", ["python"]),
    ],
)
def test_a_first_word_that_all_names_have_does_not_make_them_alike(
    name: str, alike: list[str]
) -> None:
    valid = [
        "cuda-core",
        "cuda-gpu",
        "cuda-nvrtc",
        "cuda-nvrtc-dev",
        "cuda-cudart-dev",
        "numba-cuda",
        "python",
    ]
    assert nearest(name, valid)[:1] == alike


# --- ctk build


@pytest.mark.parametrize(
    ("name", "said", "step"),
    [
        (
            "cudatoolkit",
            "cudatoolkit is the toolkit of",
            "run `ctk build cuda-version cuda-libraries` or `ctk build",
        ),
        (
            "cuda-gdb",
            "cuda-gdb is NVIDIA's debugger; NVIDIA",
            "leave it out: no recipe here makes it",
        ),
        ("nvidia-cublas-cu12", "nvidia-cublas-cu12 is a wheel", "run `ctk build libcublas`"),
        ("cudart", "cudart is called cuda-cudart here", "run `ctk build cuda-cudart`"),
        ("thrust", "thrust is a library of headers", "run `ctk build cuda-cccl`"),
        ("environment.yml", "environment.yml is the name of a file", "name its packages"),
    ],
)
def test_a_build_of_another_name_says_what_is_meant(
    project: Workspace, name: str, said: str, step: str
) -> None:
    with pytest.raises(UnknownName) as error:
        with_needs(published_set(project), Request(recipes=[name]), TAGS)
    assert error.value.cause.startswith(said)
    assert error.value.step.startswith(step)
