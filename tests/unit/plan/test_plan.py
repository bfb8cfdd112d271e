"""Plans: the builds and their order, and why a build is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.errors import LockError, RecipeError, UnknownName
from ctk.lock.model import UNDECLARED, Artefact, Component, ReleaseLock
from ctk.plan.plan import Plan, Request, Set, plan, with_needs
from ctk.plan.recipes import find_recipes
from ctk.plan.usable import usable

TAGS = ("cp312", "cp313", "cp314t")

BUILD_CONFIG = """
cuda_major: ["12", "13"]
python: ["3.12.* *_cpython", "3.13.* *_cp313", "3.14.* *_cp314t"]
python_tag: [cp312, cp313, cp314t]
zip_keys:
  - [python, python_tag]
"""

RUNTIME = """
schema_version: 1
context: {version: "${{ cudart }}"}
recipe: {name: runtime, version: "${{ version }}"}
outputs:
  - staging: {name: tree}
    source: {path: "../../.cache/artefacts/cudart/${{ version }}/${{ target_platform }}.zip"}
    build: {script: ["true"]}
  - package: {name: "runtime_${{ target_platform }}"}
    inherit: tree
    build: {noarch: generic}
  - package: {name: runtime-static}
    inherit: tree
    build:
      skip: cuda_version == "12.6"
    requirements:
      run: ["${{ pin_subpackage('runtime_' ~ target_platform, exact=True) }}"]
"""

VERSION = """
schema_version: 1
package: {name: toolkit-version, version: "${{ cuda_version }}"}
build: {noarch: generic}
"""

PYTHON = """
schema_version: 1
package: {name: binding, version: "${{ binding }}"}
source:
  path: "../../.cache/artefacts/binding/${{ binding }}/${{ target_platform }}-${{ python_tag }}.zip"
build: {string: "cuda${{ cuda_major }}_${{ python_tag }}h${{ hash }}_0"}
requirements:
  run: ["python_abi ${{ python }}", "runtime-static", "toolkit-version >=${{ cuda_major }}"]
"""


def lock(release: str, components: dict[str, tuple[str, dict[str, int | None]]]) -> ReleaseLock:
    """A release lock with invented artefacts; the numbers are sizes."""
    return ReleaseLock(
        release,
        None,
        {
            name: Component(
                name,
                f"nvidia-{name}",
                version,
                {
                    target: (
                        size
                        and Artefact(
                            name,
                            f"nvidia-{name}",
                            version,
                            target,
                            f"{name}-{target}.whl",
                            f"{size:064x}",
                            size,
                        )
                    )
                    for target, size in artefacts.items()
                },
            )
            for name, (version, artefacts) in components.items()
        },
    )


@pytest.fixture
def small_set(tmp_path: Path) -> Set:
    """Three recipes, two CTK releases, a Python lock.

    For win-arm64 only the newest runtime is published.
    """
    for name, text in {"runtime": RUNTIME, "toolkit-version": VERSION, "binding": PYTHON}.items():
        (tmp_path / "recipes" / name).mkdir(parents=True)
        (tmp_path / "recipes" / name / "recipe.yaml").write_text(text)
    (tmp_path / "conda_build_config.yaml").write_text(BUILD_CONFIG)
    platforms = ("linux-64", "linux-aarch64", "win-64")
    locks = {
        "cuda-12.6": lock(
            "12.6.3", {"cudart": ("12.6.77", {**dict.fromkeys(platforms, 10), "win-arm64": None})}
        ),
        "cuda-13.4": lock(
            "13.4.3", {"cudart": ("13.4.92", dict.fromkeys((*platforms, "win-arm64"), 20))}
        ),
        "python-13": lock(
            "python-13",
            {"binding": ("13.4.4", {f"{p}-{t}": 5 for p in platforms for t in ("cp312", "cp313")})},
        ),
    }
    variants = {
        "cuda-12.6": 'cuda_version: ["12.6"]\ncudart: ["12.6.77"]\n',
        "cuda-13.4": 'cuda_version: ["13.4"]\ncudart: ["13.4.92"]\n',
        "python-13": 'cuda_major: ["13"]\nbinding: ["13.4.4"]\n',
    }
    for name, text in variants.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return Set(
        find_recipes(tmp_path / "recipes"),
        {name: (value, tmp_path / f"{name}.yaml") for name, value in locks.items()},
        (tmp_path / "conda_build_config.yaml",),
    )


def ids(planned: Plan) -> set[str]:
    return {b.id for b in planned.builds}


def test_every_build_has_a_stable_readable_id(small_set: Set) -> None:
    assert ids(plan(small_set, Request(platforms=["linux-64"]), TAGS)) == {
        "runtime-cuda12.6-linux-64",
        "runtime-cuda13.4-linux-64",
        "toolkit-version-cuda12.6-noarch",
        "toolkit-version-cuda13.4-noarch",
        "binding-cuda13-py312-linux-64",
        "binding-cuda13-py313-linux-64",
    }


def test_an_older_version_of_a_project_is_built_beside_the_newest(small_set: Set) -> None:
    locked, variant_file = small_set.locks["python-13"]
    newest, old = (
        lock(
            "python-13", {"binding": (version, {f"linux-64-{t}": 5 for t in TAGS[:2]})}
        ).components["binding"]
        for version in ("13.5.0", "13.4.4")
    )
    variant_file.write_text('cuda_major: ["13"]\nbinding: ["13.5.0", "13.4.4"]\n')
    both = replace(
        locked, components={"binding": newest, "binding-13.4.4": replace(old, license="Apache-2.0")}
    )
    what = replace(small_set, locks={**small_set.locks, "python-13": (both, variant_file)})
    planned = plan(what, Request(), TAGS)
    found = {
        b.id: b for b in planned.builds if b.recipe.name == "binding" and b.subdir == "linux-64"
    }
    assert {id_: ([a.version for a in b.artefacts], b.licenses) for id_, b in found.items()} == {
        f"binding-{label}cuda13-py{t[2:]}-linux-64": ([version], {"binding": license})
        for t in TAGS[:2]
        for label, version, license in (
            ("", "13.5.0", UNDECLARED),
            ("13.4.4-", "13.4.4", "Apache-2.0"),
        )
    }


def test_a_name_that_is_near_no_other_does_not_bring_them_all() -> None:
    many, few = [f"lib{n}" for n in range(40)], ["linux-64", "win-64"]
    assert (
        UnknownName.of("recipe", "nosuch", many).step == "there are 40, such as lib0, lib1, lib10"
    )
    assert UnknownName.of("recipe", "lib3x", many).step.count(" or ") == 2
    assert UnknownName.of("recipe", "b", ["a-b", "long-name-c", "d"]).step == "did you mean a-b?"
    assert UnknownName.of("platform", "nosuch", few).step == "choose one of linux-64, win-64"
    assert UnknownName.of("release", "nosuch", []).step == "there is no release yet"


def test_what_was_not_published_is_left_out_with_the_reason(small_set: Set) -> None:
    planned = plan(small_set, Request(platforms=["win-arm64"]), TAGS)
    reasons = {x.id: x.reason for x in planned.left_out}
    assert (
        reasons["runtime-cuda12.6-win-arm64"]
        == "nvidia-cudart 12.6.77 is not published for win-arm64"
    )
    assert (
        reasons["binding-cuda13-py312-win-arm64"]
        == "nvidia-binding 13.4.4 is not published for win-arm64-cp312"
    )
    assert "runtime-cuda13.4-win-arm64" in ids(planned)


def test_what_is_left_out_for_another_python_than_the_chosen_ones_is_not_named(
    small_set: Set,
) -> None:
    planned = plan(small_set, Request(platforms=["win-arm64"], pythons=["3.13"]), TAGS)
    assert [x.id for x in planned.left_out if "binding" in x.id] == [
        "binding-cuda13-py313-win-arm64"
    ]


USING = """
schema_version: 1
package: {name: using, version: "${{ binding }}"}
requirements:
  run: ["toolkit-version >=13.4,<14", "binding"]
  run_constraints: ["__cuda_arch >=8.0"]
"""
UNNEEDED = "nothing that is built needs it"


@pytest.mark.parametrize(
    ("releases", "recipes", "gpus", "left"),
    [
        (["13.4"], [], [], {}),
        (
            ["cuda-12.6", "python-13"],
            [],
            [],
            {
                "binding": "needs toolkit-version >=13, and this build has only 12.6",
                "using": "needs toolkit-version >=13.4,<14, and this build has only 12.6",
            },
        ),
        (["python-13"], [], [], {}),  # no toolkit is planned: it comes from elsewhere
        (["13.4"], ["using"], ["7.5", "9.0"], {}),
        (["13.4"], ["binding"], [], {"using": UNNEEDED}),
        (["13.4"], ["using"], ["7.5"], {"using": "for GPUs >=8.0, and you named 7.5"}),
        (
            ["13.4"],
            ["runtime"],
            [],
            dict.fromkeys(("binding", "using", "toolkit-version"), UNNEEDED),
        ),
    ],
)
def test_what_no_machine_can_use_and_nothing_needs_is_left_out_with_the_reason(
    releases: list[str],
    recipes: list[str],
    gpus: list[str],
    left: dict[str, str],
    small_set: Set,
    tmp_path: Path,
) -> None:
    (tmp_path / "recipes" / "using").mkdir()
    (tmp_path / "recipes" / "using" / "recipe.yaml").write_text(USING)
    what = replace(small_set, recipes=find_recipes(tmp_path / "recipes"))
    whole = plan(what, Request(releases=releases, platforms=["linux-64"], pythons=["3.13"]), TAGS)
    planned = usable(whole, recipes, gpus)
    made = {b.recipe.name for b in planned.builds}
    # Of a project, the name has its version.
    found = {x.name.partition(" ")[0]: x.reason for x in planned.left_out[len(whole.left_out) :]}
    if recipes == ["using"] and left:  # what it alone needs goes with it
        found = {name: reason for name, reason in found.items() if reason != UNNEEDED}
    assert found == left
    assert made.isdisjoint(left)


def test_an_output_that_the_recipe_skips_is_named_with_its_condition(small_set: Set) -> None:
    planned = plan(
        small_set, Request(platforms=["linux-64"], releases=["12.6"], recipes=["runtime"]), TAGS
    )
    assert [(x.id, x.reason) for x in planned.left_out] == [
        ("runtime-static-cuda12.6-linux-64", 'its recipe skips it if cuda_version == "12.6"')
    ]
    assert [o.name for o in planned.builds[0].outputs] == ["runtime_linux-64"]


def test_a_release_brings_the_python_projects_of_its_major_and_no_other_release(
    small_set: Set,
) -> None:
    planned = plan(
        small_set, Request(releases=["13.4"], platforms=["linux-64"], pythons=["3.13"]), TAGS
    )
    assert ids(planned) == {
        "runtime-cuda13.4-linux-64",
        "toolkit-version-cuda13.4-noarch",
        "binding-cuda13-py313-linux-64",
    }


SERVING = """
schema_version: 1
context:
  oldest: ${{ "12.0" if cuda_version == "12.6" else cuda_version }}
package: {name: linker, version: "${{ cudart }}"}
source: {path: "../../.cache/artefacts/cudart/${{ cudart }}/${{ target_platform }}.zip"}
requirements:
  run: ["toolkit-version", "cuda-version >=${{ oldest }},<99"]
"""


@pytest.mark.parametrize(
    ("older", "brought"), [("12.0", {"linker-cuda12.6-linux-64"}), ("11.8", set()), ("13.4", set())]
)
def test_an_older_release_brings_along_what_a_newer_one_makes_for_it(
    older: str, brought: set[str], small_set: Set, tmp_path: Path
) -> None:
    """By its requirement of cuda-version; no other package of the newer release comes."""
    (tmp_path / "recipes" / "linker").mkdir()
    (tmp_path / "recipes" / "linker" / "recipe.yaml").write_text(SERVING)
    locks = dict(small_set.locks)
    if older != "13.4":
        locks[f"cuda-{older}"] = (
            lock(f"{older}.1", {"cudart": (f"{older}.9", {"linux-64": 10})}),
            tmp_path / "old.yaml",
        )
        (tmp_path / "old.yaml").write_text(f'cuda_version: ["{older}"]\ncudart: ["{older}.9"]\n')
    what = replace(small_set, recipes=find_recipes(tmp_path / "recipes"), locks=locks)
    planned = plan(what, Request(releases=[older], platforms=["linux-64"]), TAGS)
    assert {build for build in ids(planned) if "cuda12.6" in build} == brought
    assert f"linker-cuda{older}-linux-64" in ids(planned)


@pytest.mark.parametrize(
    ("names", "recipes"),
    [
        (["toolkit-version"], {"toolkit-version"}),
        (["runtime"], {"runtime"}),  # its folder: no output has the name
        (["runtime_win-64"], {"runtime"}),  # an output whose name has the platform
        (["binding"], {"binding", "runtime", "toolkit-version"}),
        (["optional"], {"optional", "toolkit-version"}),  # by a constraint
        (["chooser"], {"chooser"}),  # it has no files: its constraint only chooses
    ],
)
def test_named_packages_bring_what_they_need_and_nothing_else(
    names: list[str], recipes: set[str], small_set: Set, tmp_path: Path
) -> None:
    constraint = "requirements: {run_constraints: [toolkit-version >=12]}\n"
    source = (
        'source: {path: "../../.cache/artefacts/cudart/${{ cudart }}/${{ target_platform }}.zip"}\n'
    )
    for name, more in (("optional", source), ("chooser", "")):
        (tmp_path / "recipes" / name).mkdir()
        text = VERSION.replace("toolkit-version", name) + constraint + more
        (tmp_path / "recipes" / name / "recipe.yaml").write_text(text)
    what = replace(small_set, recipes=find_recipes(tmp_path / "recipes"))
    assert (
        set(with_needs(what, Request(recipes=names, platforms=["linux-64"]), TAGS).recipes)
        == recipes
    )


def test_a_build_knows_the_licences_that_its_artefacts_declare(small_set: Set) -> None:
    lock, file = small_set.locks["cuda-13.4"]
    components = {"cudart": replace(lock.components["cudart"], license="LicenseRef-Somebody")}
    changed = replace(
        small_set,
        locks={**small_set.locks, "cuda-13.4": (replace(lock, components=components), file)},
    )
    found = {
        b.lock: b.licenses
        for b in plan(changed, Request(platforms=["linux-64"]), TAGS).builds
        if b.artefacts
    }
    assert found == {
        "cuda-12.6": {"cudart": UNDECLARED},
        "cuda-13.4": {"cudart": "LicenseRef-Somebody"},
        "python-13": {"binding": UNDECLARED},
    }


def test_an_unknown_package_is_an_error_with_the_nearest_packages_and_recipes(
    small_set: Set,
) -> None:
    for name, near in (("runtime-statik", "runtime-static"), ("runtim", "runtime")):
        with pytest.raises(UnknownName, match=f"unknown package '{name}'") as error:
            with_needs(small_set, Request(recipes=[name]), TAGS)
        assert near in error.value.step and "{" not in error.value.step


def test_a_recipe_that_reads_what_no_lock_has_is_an_error(small_set: Set, tmp_path: Path) -> None:
    file = tmp_path / "recipes" / "runtime" / "recipe.yaml"
    file.write_text(file.read_text().replace("artefacts/cudart/", "artefacts/cudarr/"))
    with pytest.raises(RecipeError, match=r"reads cudarr 12\.6\.77, which cuda-12.6 does not lock"):
        plan(small_set, Request(recipes=["runtime"]), TAGS)


def test_a_recipe_that_reads_facts_needs_a_measured_release(small_set: Set, tmp_path: Path) -> None:
    file = tmp_path / "recipes" / "toolkit-version" / "recipe.yaml"
    file.write_text(file.read_text() + "about: {summary: '${{ ptx_isa }}'}\n")
    with pytest.raises(LockError, match=r"release 12\.\d has not been measured") as error:
        plan(small_set, Request(recipes=["toolkit-version"]), TAGS)
    assert "ctk release measure 12." in error.value.step
