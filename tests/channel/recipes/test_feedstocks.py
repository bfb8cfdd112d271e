"""Every recipe as a feedstock of its own: rattler-build renders the same packages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rattler_build import Stage0Recipe
from ruamel.yaml import YAML

from conftest import MINORS, NEWEST
from ctk.core.checkout import Workspace, settings
from ctk.core.errors import BadValue
from ctk.feedstock import feedstock
from ctk.lock.derived import Derived
from ctk.lock.model import Artefact
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags
from ctk.plan.recipes import Recipe, find_recipes
from ctk.plan.render import render
from kit.conda_build import selector

ROOT = Path(__file__).resolve().parents[3]
RECIPES = find_recipes(ROOT / "recipes")
NAMES = sorted(name for name, recipe in RECIPES.items() if not recipe.own_sources)
# One of each kind: without artefacts, a compiler, a library, a metapackage, for Pythons, of a
# library set, with keys that one CUDA major has.
USUAL = (
    "cuda-arch",
    "cuda-version",
    "cuda-nvcc",
    "libnvjitlink",
    "cuda-toolkit",
    "cuda-core",
    "cupy",
    "cudnn",
)


MADE_OF_NAMES = "cuda-driver-dev"
"""A component of the toolkit that reads no wheel, and not the toolkit's version."""


def address(artefact: Artefact) -> str:
    return f"https://index.invalid/{artefact.file}"


def made(sources: Sequence[Derived]) -> list[bytes]:
    """What consists of names is made elsewhere."""
    return [b"" for _ in sources]


@cache
def exported(name: str) -> dict[str, str]:
    files = feedstock(Workspace(ROOT), name, (), ("someone",), address, made)
    return {path: text for path, text in files.items() if isinstance(text, str)}


@cache
def plan_of(name: str) -> Plan:
    """What the repository plans of the releases that the feedstock is for."""
    workspace = Workspace(ROOT)
    variants = read(exported(name)["recipe/conda_build_config.yaml"])
    releases = variants.get("cuda_version", [NEWEST] if name == MADE_OF_NAMES else [])
    request = Request(releases=releases, recipes=(name,))
    planned = plan(published_set(workspace), request, python_tags(workspace.build_config))
    # An older version of a project, which has it in the build's name, is for another branch.
    return replace(
        planned, builds=tuple(b for b in planned.builds if not re.search(r"-\d+(\.\d+){2,}-", b.id))
    )


def read(text: str) -> Any:
    return YAML(typ="safe").load(text)


def unhashed(text: str) -> str:
    """Without the hash in build strings: a feedstock's is another where its Pythons are zipped as
    conda-forge's are.
    """
    return re.sub(r"h[0-9a-f]{7}(?=_\d)", "h", text)


def has_own_gpus_on_windows_on_arm(plan: Plan) -> bool:
    gpus: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for output in (output for build in plan.builds for output in build.outputs):
        is_own = output.subdir == "win-arm64"
        gpus[is_own] |= {(k, str(v)) for k, v in output.variant.items() if k.endswith("_gpus")}
    return not gpus[True] <= gpus[False]


def sentence(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def write(files: dict[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_conda_build_drops_no_line_of_our_variants(project: Workspace) -> None:
    """It takes a list in square brackets at the end of a line for a selector: zip_keys went without
    a word.
    """
    configs = [
        p
        for f in ("examples", "tests", "recipes")
        for p in (project.root / f).rglob("conda_build_config.yaml")
    ]
    locks = [
        p
        for f in ("variants", "base", "tests/system/downstream")
        for p in (project.root / f).glob("*.lock")
    ]
    files = [project.build_config, *configs, *(lock.with_suffix(".yaml") for lock in locks)]
    assert len(files) > 20
    assert [
        line for file in files for line in file.read_text().splitlines() if selector(line)
    ] == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else pytest.mark.sweep) for name in NAMES]
)
def test_a_feedstock_renders_the_packages_of_the_plan_from_its_artefacts(
    name: str, tmp_path: Path
) -> None:
    """Down to the hash, but for Python's matrix.

    What lacks a wheel is rendered too, as the Python API heeds no `skip` beside `outputs`.
    """
    files, plan, folder = exported(name), plan_of(name), tmp_path
    text, variants = files["recipe/recipe.yaml"], files["recipe/conda_build_config.yaml"]
    # conda-smithy takes the oldest glibc for the oldest macOS, unless conda-build drops its line
    # there.
    expected = {"linux or win"} if "c_stdlib_version" in variants else set()
    if has_own_gpus_on_windows_on_arm(plan):
        expected |= {"win and arm64", "not (win and arm64)"}
    assert {*map(selector, variants.splitlines())} - {""} == expected
    same = unhashed if "python_tag:" in text else str
    sources = {(address(a), a.sha256) for a in plan.artefacts if name != MADE_OF_NAMES}
    assert set(re.findall(r"url: (\S+)\n\s+sha256: (\S+)", text)) == sources
    assert ".cache" not in text and "../common" not in text
    write(files, folder)
    keys = {*read(variants)} - {"zip_keys", "is_python_min"}
    assert keys <= {
        *Recipe(name, folder / "recipe").names_used,
        *("fit_string", "fit_number", "fit_priority", "cuda_fit"),
    }
    settings = read(files["conda-forge.yml"])
    subdirs = ["linux-64", *(p.replace("_", "-") for p in settings.get("build_platform", ()))]
    planned = {(o.subdir, same(o.file_name)): o for b in plan.builds for o in b.outputs}
    recipe = Recipe(plan.builds[0].recipe.name, folder / "recipe")
    outputs = [
        o
        for s in subdirs
        for o in render(recipe, [folder / "recipe" / "conda_build_config.yaml"], s)
    ]
    rendered = {(o.subdir, same(o.file_name)): o for o in outputs}
    assert planned.keys() <= rendered.keys()
    for key, output in planned.items():
        other = rendered[key]
        assert (*map(same, output.depends), *output.constrains) == (
            *map(same, other.depends),
            *other.constrains,
        )
        assert output.run_exports == other.run_exports
    matrix = read(Workspace(ROOT).build_config.read_text())
    tags = dict(zip(matrix["python"], matrix["python_tag"], strict=True))
    skips = re.findall(r'- target_platform == "(.+?)"(?: and (\w+) (?:==|in) (.+))?', text)
    for key in rendered.keys() - planned.keys():
        variant = {
            "python_tag": tags.get(rendered[key].variant.get("python")),
            **rendered[key].variant,
        }
        assert any(
            subdir == key[0] and (not k or f'"{variant[k]}"' in values)
            for subdir, k, values in skips
        ), key


@pytest.mark.parametrize(
    ("name", "reasons", "for_what"),
    [
        ("cuda-core", 4, r" for CUDA 12 and 13 on linux-64, linux-aarch64, win-64"),
        ("cuda-version", 3, r" for CUDA [\d.]+, for all platforms \(noarch\)"),
        ("jaxlib", 3, r" on linux-64, linux-aarch64"),
        ("cuda-arch", 2, r", for all platforms \(noarch\)"),
        ("libcublas", 5, r" for CUDA [\d.]+ on linux-64, linux-aarch64, win-64"),
    ],
)
def test_the_readme_says_for_whom_an_export_is_and_why_conda_forge_cannot_take_it(
    name: str, reasons: int, for_what: str
) -> None:
    readme = exported(name)["README.md"]
    first = readme.partition("\n\n")[2]
    assert first.startswith(
        "A feedstock for your own CI and your own channel: conda-forge cannot take it. "
    )
    made = rf"^It makes \d+ packages? of version [\d., and]+{for_what}[\w, -]*: \w"
    assert re.search(made, readme, re.M)
    assert "conda create -n smithy -c conda-forge conda-smithy rattler-build" in readme
    assert "-c CHANNEL -c conda-forge" in readme
    listed = [line for line in readme.splitlines() if line.startswith("- ")]
    assert len(listed) == reasons
    has_wheels = "url: " in exported(name)["recipe/recipe.yaml"]
    assert any("wheels" in line for line in listed) == has_wheels
    assert ("The sources are the wheels" in readme) == has_wheels
    assert any("recipe/made" in line for line in listed) == (name == "libcublas")


def test_the_readme_states_the_commit_and_whether_the_files_are_its_own(tmp_path: Path) -> None:
    for part in ("recipes", "variants", "conda_build_config.yaml", "conda-forge.yml", "LICENSE"):
        (tmp_path / part).symlink_to(ROOT / part)

    def revision() -> str:
        readme = feedstock(Workspace(tmp_path), "cuda-arch", (), ("someone",), address, made)[
            "README.md"
        ]
        return sentence(readme).partition("exported from ")[2].partition(". It makes ")[0]

    def git(*words: str) -> str:
        user = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        return subprocess.run(
            ["git", *user, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    assert revision() == "files that are not in git"
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    commit = git("rev-parse", "HEAD").strip()
    assert revision() == f"commit {commit} of cuda-feedstocks"
    git("remote", "add", "origin", "https://me:secret@example.org/cuda")
    (tmp_path / "new").touch()
    place = "https://example.org/cuda"
    assert (
        revision()
        == f"commit {commit} of cuda-feedstocks ({place}), with changes that are not committed"
    )


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("cuda-cudart", MINORS[0]),
        ("cuda-cudart", f"cuda-{NEWEST}"),
        ("cuda-core", "python-12"),
        ("cupy", "libraries-13"),
    ],
)
def test_a_recipe_is_exported_for_the_release_that_is_named(
    name: str, release: str, tmp_path: Path
) -> None:
    files = feedstock(Workspace(ROOT), name, (release,), ("someone",), address, made)
    outputs = (
        Stage0Recipe.from_yaml(files["recipe/recipe.yaml"], recipe_dir=tmp_path)
        .to_dict()
        .get("outputs", [])
    )
    names = [o["package"]["name"] for o in outputs if "package" in o]
    assert names in ([], [*find_recipes(ROOT / "recipes")[name].output_names])


@pytest.mark.parametrize(
    ("name", "release", "left_out"),
    [
        ("cuda-core", MINORS[-1], "12"),
        ("cuda-core", "python-12", "13"),
        ("cuda-core", "", ""),
        ("cuda-cudart", NEWEST, ""),
    ],
)
def test_a_cuda_major_that_the_release_leaves_out_is_named(
    name: str, release: str, left_out: str
) -> None:
    lines: list[str] = []
    feedstock(
        Workspace(ROOT),
        name,
        (release,) if release else (),
        ("someone",),
        address,
        made,
        lines.append,
    )
    assert [line.partition(" is left out")[0] for line in lines] == (
        [f"CUDA {left_out}"] if left_out else []
    )


def test_a_component_without_the_toolkit_s_version_is_exported_for_one_release() -> None:
    """Its sources are made: they need no wheel."""
    files = exported(MADE_OF_NAMES)
    assert len(read(files["recipe/conda_build_config.yaml"])["cudart"]) == 1
    assert "wheel" not in files["README.md"].partition("To install")[0]


def test_releases_of_such_a_component_differ_by_its_own_version() -> None:
    """The driver's headers of ARM begin with CUDA 12.3."""
    releases = ("12.2", NEWEST)
    files = feedstock(Workspace(ROOT), MADE_OF_NAMES, releases, ("someone",), address, made)
    recipe = str(files["recipe/recipe.yaml"])
    assert re.search(r'- target_platform == "linux-aarch64" and cudart == "12\.2\.\d+"', recipe)
    assert "cuda_version" not in recipe


def test_releases_that_differ_in_what_is_defined_are_refused() -> None:
    with pytest.raises(
        BadValue, match=r"has nvptxcompiler in cuda-.*, and not in cuda-12\.9"
    ) as said:
        feedstock(Workspace(ROOT), "cuda-nvcc", ("12.9", NEWEST), ("someone",), address, made)
    assert said.value.step == "export each release into a feedstock of its own"


@pytest.mark.parametrize(
    ("name", "releases", "line"),
    [
        ("torchvision", (), r"older versions are left out, .*: 0\.\d+\.\d+"),
        ("cuda-tileiras", ("12.9", NEWEST), "12.9 has no build of cuda-tileiras of its own"),
    ],
)
def test_what_an_export_leaves_out_is_named(
    name: str, releases: tuple[str, ...], line: str
) -> None:
    lines: list[str] = []
    feedstock(Workspace(ROOT), name, releases, ("someone",), address, made, lines.append)
    assert [bool(re.fullmatch(line, each)) for each in lines] == [True]


def test_a_rerender_leaves_the_readme_and_the_licence() -> None:
    settings = read(exported("cuda-core")["conda-forge.yml"])
    assert settings["skip_render"] == ["README.md", "LICENSE.txt"]


def test_the_readme_states_a_driver_for_the_tests_of_native_packages() -> None:
    assert f"export CONDA_OVERRIDE_CUDA={NEWEST}`" in exported("cuda-nvcc")["README.md"]
    assert "CONDA_OVERRIDE_CUDA" not in exported("nvidia-ml-py")["README.md"]


def test_the_readme_names_packages_that_two_variants_make() -> None:
    both = "The native and the compat build each make libcublas-files, under the same file name."
    assert both in exported("libcublas")["README.md"]
    assert "under the same file name" not in exported("cuda-core")["README.md"]


def test_what_is_made_of_names_is_beside_the_recipe() -> None:
    files = feedstock(Workspace(ROOT), "cuda-nvrtc", (), ("someone",), address, made)
    beside = [path for path in files if path.startswith("recipe/made/")]
    assert [path.rpartition("-win-")[2] for path in beside] == [
        "64-imports.zip",
        "arm64-imports.zip",
    ]
    recipe = str(files["recipe/recipe.yaml"])
    for path in beside:
        assert f"path: {path.removeprefix('recipe/')}" in recipe
    assert "-imports.zip" not in "".join(line for line in recipe.splitlines() if "url:" in line)


def test_the_variants_say_why_they_have_what_a_reader_of_the_recipe_does_not_expect() -> None:
    lines = exported("cuda-core")["recipe/conda_build_config.yaml"].splitlines()
    for key in ("c_stdlib_version:", "is_python_min:"):
        assert lines[lines.index(key) - 1].startswith("# ")


@pytest.mark.parametrize("name", ["not a name!", "a--b", "-a", "a-", "a/b/c", "a/", ""])
def test_a_maintainer_has_a_name_that_github_has(name: str) -> None:
    with pytest.raises(BadValue, match="is not a GitHub name"):
        feedstock(Workspace(ROOT), "cuda-arch", (), ("conda-forge/cuda", name), address, made)


def test_the_tool_itself_has_no_feedstock() -> None:
    with pytest.raises(BadValue, match="scripts/ctk") as caught:
        exported("ctk")
    assert "ctk build ctk" in caught.value.step


def test_without_a_maintainer_nobody_is_named_in_their_place() -> None:
    assert settings(ROOT).feedstock.maintainers == []
    with pytest.raises(BadValue, match="nobody is named as a maintainer"):
        feedstock(Workspace(ROOT), "cuda-arch", (), (), address, made)


def test_a_release_without_the_recipe_is_an_error() -> None:
    with pytest.raises(BadValue, match="cuda-tileiras"):
        feedstock(Workspace(ROOT), "cuda-tileiras", (MINORS[0],), ("someone",), address, made)


@pytest.mark.parametrize("name", ["cuda-arch", "cuda-version"])
def test_a_recipe_that_holds_nothing_of_nvidias_has_this_repositorys_licence(
    project: Workspace, name: str
) -> None:
    """A copy: rattler-build takes no file from above the recipe's folder, and drops links without a
    word.
    """
    assert (project.recipes / name / "LICENSE").read_bytes() == (
        project.root / "LICENSE"
    ).read_bytes()
