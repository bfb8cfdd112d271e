"""`ctk build-recipe` where a build was made, and its log, its files, its toolkit or an earlier run
tell against it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import MINORS, ctk
from ctk.channel.repodata import read_index
from ctk.core import errors
from ctk.core.checkout import Workspace
from kit.binaries import code, elf, fatbin

pytest_plugins = ["kit.recipe_fixtures"]

Recipes = Callable[..., Path]
Fails = Callable[..., tuple[int, str]]


NAMED = """-- Found CUDAToolkit: {}/targets/x86_64-linux/include (found version "13.0.88")
Run-time dependency CUDA (modules: cudart) found: YES 13.0 ({})
{}/bin/nvcc -c x.cu
No CUDA runtime is found, using CUDA_HOME='{}'
g++ -DNDEBUG -I{}/include -c x.cpp
c++ x.o -L{}/lib64 -lcudart -Wl,-rpath,{}/lib64"""


def test_a_toolkit_of_this_machine_that_a_build_took_is_said_to_be_wrong(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    lines = [line.replace("{}", "$PREFIX") for line in NAMED.splitlines()]  # the build's own
    others = [tmp_path / "opt" / f"toolkit-{number}" for number, _ in enumerate(NAMED.splitlines())]
    for line, other in zip(NAMED.splitlines(), others, strict=True):
        (other / "include").mkdir(parents=True)
        (other / "include" / "cuda_runtime_api.h").touch()
        lines += [line.replace("{}", str(other)), line.replace("{}", str(tmp_path / "no toolkit"))]
    (tmp_path / "log").write_text("\n".join(lines))
    folder = recipe(f'mkdir -p "$PREFIX/share"; touch "$PREFIX/share/one"; cat "{tmp_path}/log"')
    done = ctk(
        built, "build-recipe", str(folder), "--output", str(tmp_path / "made"), "--json", "-q"
    )
    document = json.loads(done.stdout)
    (package,) = document["packages"]
    assert (
        done.returncode == errors.AuditFailed.exit_code
        and "CUDA_PATH=$PREFIX" in document["error"]["next"]
    )
    assert [note.partition("toolkit in ")[2].partition(",")[0] for note in package["notes"]] == [
        str(o) for o in others
    ]
    assert all(
        "-DCUDAToolkit_BIN_DIR" in note and "CUDA_PATH=$PREFIX" in note for note in package["notes"]
    )


def test_a_build_with_another_toolkit_than_its_variant_is_said(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    """Before, the table said 12.6, and its tests were for a driver that refuses it."""
    folder = recipe(
        "mkdir $PREFIX/share && echo ${{ cuda_version }} >$PREFIX/share/one",
        host=["cuda-version >=12.6,<13"],
    )
    words = (
        "--json",
        "build-recipe",
        str(folder),
        "--cuda",
        "12.6",
        "--output",
        str(tmp_path / "made"),
    )
    done = ctk(built, *words)
    document = json.loads(done.stdout)
    (package,) = document["packages"]
    assert Path(package["file"]).is_file()
    newest = [minor for minor in MINORS if minor.startswith("12.")][-1]
    assert (package["toolkit"], package["variant"]["cuda_version"]) == (newest, "12.6")
    sentence = (
        f"it is the build for cuda_version 12.6, but its host environment has toolkit {newest}"
    )
    step = f"write cuda-version ${{{{ cuda_version }}}}.* in {folder}/recipe.yaml:10"
    assert package["notes"] == [f"{sentence}: {step}"]
    error = {"cause": f"{Path(package['file']).stem}: {sentence}", "next": step}
    assert (
        document["error"].items() >= error.items()
        and done.returncode == errors.AuditFailed.exit_code
    )


def test_a_build_that_no_machine_gets_is_named(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    folder = recipe(
        "mkdir $PREFIX/share && touch $PREFIX/share/one",
        host=["cuda-version ${{ cuda_version }}.*"],
    )
    words = (
        "build-recipe",
        str(folder),
        "--cuda",
        "12.6",
        "--cuda",
        "12.9",
        "--output",
        str(tmp_path / "made"),
    )
    said = ctk(built, *words, check=True).stdout
    built_, picked = ({*re.findall(rf"one 1 \w+(?={end})", said)} for end in (":", "  "))
    assert len(built_) == 1 and len(picked) == 1 and built_ != picked, said


def test_a_library_that_no_package_of_the_environment_has_is_an_error_that_names_its_package(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    """Its tests pass: nothing loads it here, as nothing notices where the machine has
    the library.
    """
    folder = recipe(
        'mkdir -p "$PREFIX/share"; touch "$PREFIX/share/one"; cp libone.so "$PREFIX/share"'
    )
    (folder / "recipe.yaml").write_text(
        (folder / "recipe.yaml").read_text() + "source:\n  path: libone.so\n"
    )
    (folder / "libone.so").write_bytes(
        elf(["libc.so.6", "libcuda.so.1", "libcudart.so.13", "libnvrtc.so.13"])
    )
    words = ("--output", str(tmp_path / "made"), "--json", "-q")
    done = ctk(built, "build-recipe", str(folder), *words, "--driver", "13.0")
    document = json.loads(done.stdout)
    assert done.returncode == errors.AuditFailed.exit_code
    lacks = [
        f"share/libone.so needs {of}"
        for of in ("libcudart.so.13 of cuda-cudart", "libnvrtc.so.13 of cuda-nvrtc")
    ]
    assert [test["lacks"] for test in document["packages"][0]["tests"]] == [lacks]
    assert (
        lacks[0] in document["error"]["cause"]
        and "write cuda-cudart-dev in host" in document["error"]["next"]
    )
    assert (
        "write cuda-nvrtc-dev in host, and take cuda-nvrtc out of ignore_"
        in document["error"]["next"]
    )
    text = (folder / "recipe.yaml").read_text()
    (folder / "recipe.yaml").write_text(
        text.replace("requirements: {}", "requirements: {run: [cuda-cudart, cuda-nvrtc]}")
    )
    done = ctk(built, "build-recipe", str(folder), *words, "--driver", "13.0", "--driver", "12.9")
    found = [bool(test["lacks"]) for test in json.loads(done.stdout)["packages"][0]["tests"]]
    assert found == [False, True], "a driver for CUDA 12 gets libcudart.so.12"
    (folder / "recipe.yaml").write_text(
        text.replace("requirements: {}", "requirements: {run: [cuda-nvrtc-files]}")
    )
    done = ctk(built, "build-recipe", str(folder), *words, "--driver", "13.0")
    assert "it requires cuda-nvrtc-files, which has no native" in done.stdout
    text = text.replace("test -f $PREFIX", "test -d $PREFIX")  # whose tests fail
    (folder / "recipe.yaml").write_text(text)
    error = json.loads(ctk(built, "build-recipe", str(folder), *words, "--driver", "13.0").stdout)[
        "error"
    ]
    assert (
        error["cause"].startswith("the tests of one-")
        and "write cuda-cudart-dev in host" in error["next"]
    )


@pytest.mark.parametrize(
    ("build", "line", "said"),
    [("cuda-nvcc", 10, "nvcc in its build environment"), ("make", 9, "this machine's")],
)
def test_nvcc_of_another_toolkit_than_the_variant_s_is_wrong(
    built: Workspace, recipe: Recipes, tmp_path: Path, build: str, line: int, said: str
) -> None:
    (nvcc := tmp_path / "bin" / "nvcc").parent.mkdir()
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    host = ["cuda-version ${{ cuda_version }}.*"]
    folder = recipe(
        "mkdir $PREFIX/share; touch $PREFIX/share/one; nvcc --version", build=[build], host=host
    )
    words = (
        "build-recipe",
        str(folder),
        "-q",
        "--cuda",
        "13.0",
        "--output",
        str(tmp_path / "made"),
    )
    done = ctk(built, *words, PATH=f"{nvcc.parent}:{os.environ['PATH']}")
    assert done.returncode == errors.AuditFailed.exit_code and said in done.stderr
    step = (
        "next: write cuda-nvcc_${{ target_platform }} ${{ cuda_version }}.* in requirements: build"
    )
    assert f"{step} ({folder}/recipe.yaml:{line})\n" in done.stderr


def test_without_a_line_of_cuda_version_that_of_host_is_named(
    fails: Fails, built: Workspace, recipe: Recipes
) -> None:
    """Before, it was line 1."""
    folder = recipe(
        "mkdir $PREFIX/share && echo ${{ cuda_version }} >$PREFIX/share/one",
        host=["cuda-cudart-dev"],
    )
    assert f"in {folder}/recipe.yaml:9\n" in fails(folder, "--cuda", "12.6")[1]
    (folder / "recipe.yaml").write_text(
        (folder / "recipe.yaml").read_text().replace("mkdir", "false; mkdir")
    )
    assert f"in {folder}/recipe.yaml:9; the whole log" in fails(folder, "--cuda", "12.6")[1]


def test_code_for_some_gpus_is_wrong_until_cuda_arch_is_in_host(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    done = []
    (header := tmp_path / "opt" / "include" / "cuda_runtime_api.h").parent.mkdir(parents=True)
    header.touch()
    first = ["cuda-version 12.9.*"]
    for host, of in ((first, "lib"), ([*first, "cuda-arch 8.0.*"], "lib"), (first, header.parent)):
        folder = recipe(
            f"mkdir $PREFIX/share; touch $PREFIX/share/one; cp one.so $PREFIX/share; echo -I{of}",
            host=host,
        )
        # Which takes no such run-export.
        text = (folder / "recipe.yaml").read_text().replace("  noarch: generic\n", "")
        (folder / "recipe.yaml").write_text(text + "source:\n  path: one.so\n")
        (folder / "one.so").write_bytes(
            elf(["libc.so.6"], payload=fatbin(code("cubin", "80"), code("ptx", "80")))
        )
        done.append(ctk(built, "build-recipe", str(folder), "--output", str(tmp_path / "made")))
    assert (
        "built, and 1 package is wrong" in done[0].stdout
        and "WRONG: its metadata" in done[0].stdout
    )
    assert done[0].returncode == errors.AuditFailed.exit_code
    assert "or write cuda-arch 8.0.* in host" in done[0].stderr
    # Which may be right with ours.
    assert "CUDA_PATH=$PREFIX" in done[2].stderr and "cuda-arch" not in done[2].stderr
    assert (
        done[1].returncode == 0
        and "built and tested" in done[1].stdout
        and "WRONG" not in done[1].stdout
    )


@pytest.mark.parametrize("own", [True, False], ids=["own", "named"])
def test_packages_of_an_earlier_run_are_named(
    built: Workspace, recipe: Recipes, tmp_path: Path, own: bool
) -> None:
    (folder := recipe() / "recipe.yaml").write_text(
        folder.read_text().replace("name: one", "name: of-an-earlier-run")
    )
    place = [] if own else ["--output", str(tmp_path / "mine")]
    ctk(built, "build-recipe", str(folder), "-q", *place, check=True)
    what = "removed" if own else f"older packages stay in {tmp_path / 'mine'}"
    said = ctk(built, "build-recipe", str(recipe()), "-q", *place, check=True).stdout
    assert f"{what}: of-an-earlier-run-1-" in said
    assert ("`ctk publish` publishes them too" in said) is not own
    shutil.rmtree(built.output / "recipes" / "one", ignore_errors=True)


def test_a_run_for_a_part_of_the_builds_keeps_the_others(built: Workspace, recipe: Recipes) -> None:
    """It removed them, and the channel of other recipes shrank without a word."""
    place = built.output / "recipes" / "one"
    folder = recipe(host=["cuda-version ${{ cuda_version }}.*"])
    (folder / "variants.yaml").write_text('cuda_version: ["12.9", "13.0"]\n')
    for words, said, there in (
        ((), "", 2),
        (("--cuda", "13"), "older packages stay in output/recipes/one: one-1-", 2),
    ):
        done = ctk(built, "build-recipe", str(folder), "-q", *words, check=True)
        assert (
            said in done.stdout
            and len(read_index(place).names()) == len(list(place.glob("*/*.conda"))) == there
        )
    shutil.rmtree(place)
