"""`ctk build-recipe` with recipes that cannot be built: the sentence, the next step, the exit code,
the log.

tests/system/walks/test_examples.py tests recipes that can be built.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rattler import Gateway

from conftest import ROOT, ctk
from ctk.authors.order import Order, order, recipe_in, variant_files
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.errors import RecipeError, UnknownName
from ctk.core.platforms import this_platform
from ctk.solve.solve import Catalogue
from kit.small_channel import record, write

pytest_plugins = ["kit.recipe_fixtures"]

Recipes = Callable[..., Path]
Fails = Callable[..., tuple[int, str]]

CPP = ROOT / "examples" / "cpp-extension"
STUB = (
    "write it in host; CMake and nvcc find it there, and another linker does with"
    " -L$PREFIX/lib/stubs"
)


@pytest.mark.parametrize("named", ["", "meta.yaml"])
def test_a_recipe_of_conda_build_s_is_said_to_be_one(
    fails: Fails, tmp_path: Path, named: str
) -> None:
    (tmp_path / "meta.yaml").write_text("package: {name: one, version: 1}\n")
    code, said = fails(tmp_path / named)
    assert code == errors.UnknownName.exit_code
    assert (
        "meta.yaml, and no recipe.yaml" in said
        and "conda-recipe-manager, which is on conda-forge" in said
    )


def test_a_recipe_that_does_not_render_is_an_error_of_the_recipe_with_its_line(
    fails: Fails, recipe: Recipes
) -> None:
    file = recipe() / "recipe.yaml"
    file.write_text(file.read_text().replace("version: '1'", "version: ${{ nothing }}"))
    code, said = fails(file)
    assert code == errors.RecipeError.exit_code
    assert f"error: {file}:3: undefined value in `${{{{ nothing }}}}`\n" in said


def test_the_tests_are_those_of_the_recipe_also_where_an_earlier_build_is_installed(
    fails: Fails, built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    """Both have one name, version and build: rattler-build takes what is unpacked under it."""
    made = str(tmp_path / "made")
    done = ctk(built, "build-recipe", str(recipe()), "-q", "--output", made, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("to install: ctk "))
    ctk(built, *shlex.split(line)[3:-1], str(tmp_path / "env"), check=True)
    assert f"-c file://{made} -c file://{built.channel} -c conda-forge" in done.stdout
    code, said = fails(recipe(test="test -f $PREFIX/share/another"))
    assert code == errors.BuildFailed.exit_code and "the tests of one-1-" in said


def test_a_build_that_fails_ends_with_its_log_which_is_kept_and_named(
    fails: Fails, recipe: Recipes
) -> None:
    code, said = fails(recipe("echo the last words; false"))
    assert code == errors.BuildFailed.exit_code
    assert "one-1-" in said and "was not built" in said
    assert "\n    the last words\n" in said
    assert "To run the script manually" not in said  # in a folder that is removed
    log = Path(said.rpartition("the whole log is ")[2].strip())
    assert "the last words" in log.read_text()


def test_a_build_that_fails_shows_the_first_error_and_not_what_follows(
    fails: Fails, recipe: Recipes, tmp_path: Path
) -> None:
    log = ["x.cpp:1:10: error: no such thing", *(f"line {number} of pip" for number in range(40))]
    (tmp_path / "log").write_text("\n".join(log))
    # Where bash says which commands it runs.
    code, said = fails(recipe(f"cat {tmp_path}/log >&2; false"))
    assert code == errors.BuildFailed.exit_code
    assert "\n    x.cpp:1:10: error: no such thing\n    line 0 of pip\n" in said
    assert "line 9 of pip" not in said and "the whole log is " in said


def test_a_licence_file_that_is_not_there_is_named(fails: Fails, recipe: Recipes) -> None:
    file = recipe() / "recipe.yaml"
    file.write_text(
        file.read_text().replace("license: MIT", "license: MIT\n  license_file: COPYING")
    )
    code, said = fails(file)
    assert code == errors.BuildFailed.exit_code
    assert f"{file}:14 names COPYING, which is in neither" in said


def test_a_header_that_was_not_found_is_said_to_be_where_it_is(
    fails: Fails, recipe: Recipes
) -> None:
    script = (
        "echo 'x.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory'; echo cannot"
        " find -lcudart; false"
    )
    code, said = fails(recipe(script, host=["cuda-cudart-dev", "cuda-version 13.0.*"]))
    assert code == errors.BuildFailed.exit_code
    targets = "sbsa-linux" if this_platform() == "linux-aarch64" else "x86_64-linux"
    assert f"next: cuda_runtime.h is in $PREFIX/targets/{targets}/include: " in said
    assert (
        "-DCUDAToolkit_BIN_DIR" in said
        and "libcudart.so is in cuda-cudart-dev: give the linker $LDFLAGS" in said
    )


def test_a_library_that_was_not_named_to_the_linker_is_named(fails: Fails, recipe: Recipes) -> None:
    says = "; ".join(
        f"""echo "a.o: undefined reference to '{name}'\""""
        for name in ("nvrtcVersion", "cudaMalloc", "x")
    )
    code, said = fails(
        recipe(f"{says}; false", host=["cuda-cudart-dev", "cuda-nvrtc-dev", "cuda-version 13.0.*"])
    )
    assert code == errors.BuildFailed.exit_code
    steps = (
        "nvrtcVersion is in libnvrtc.so: give the linker -lnvrtc; cudaMalloc is in libcudart.so:"
        " give the linker "
    )
    assert f"next: {steps}-lcudart; the whole log is " in said


@pytest.mark.parametrize(
    ("script", "step"),
    [
        (
            "echo 'x.cpp:1:10: fatal error: nvrtc.h: No such file'; false",
            "write cuda-nvrtc-dev in host",
        ),
        (
            "echo 'x.cpp:1:10: fatal error: cuda_runtime.h: No such file'; false",
            "write cuda-cudart-dev in host",
        ),
        (
            "echo '/usr/bin/ld: cannot find -lnvrtc: No such file'; false",
            "write cuda-nvrtc-dev in host",
        ),
        ("echo '/usr/bin/ld: cannot find -lnpp'; false", "write libnpp-dev in host"),
        (
            "echo '/usr/bin/ld: cannot find -lcuda'; false",
            f"libcuda.so is the driver's library, whose stub is in cuda-driver-dev: {STUB}",
        ),
        (
            "echo 'Target \"x\" links to:'; echo; echo '  CUDA::cuda_driver'; false",
            f"libcuda.so is the driver's library, whose stub is in cuda-driver-dev: {STUB}",
        ),
        (
            "echo '/usr/bin/ld: cannot find -lnvidia-ml'; false",
            f"libnvidia-ml.so is the driver's library NVML, whose stub is in cuda-nvml-dev: {STUB}",
        ),
        (
            "echo '/usr/bin/ld: cannot find -lnvToolsExt'; false",
            "include nvtx3/nvToolsExt.h, write cuda-nvtx-dev in host, and link nothing",
        ),
        (
            "echo '/usr/bin/ld: cannot find -lcudart_static'; false",
            "write cuda-cudart-static in host",
        ),
        (
            (
                'echo \'CMake Error:\n Target "sum" links to:\n\n-- Done\n  CUDA::nvrtc\n\n  but'
                " the target was'; false"
            ),
            "write cuda-nvrtc-dev in host",
        ),
        ("$NO_SUCH_CXX -shared one.cpp", 'write ${{ compiler("cxx") }} in build'),
    ],
)
def test_what_was_forgotten_in_requirements_is_named(
    fails: Fails, recipe: Recipes, script: str, step: str
) -> None:
    code, said = fails(recipe(script))
    assert (
        code == errors.BuildFailed.exit_code and f": {step};" in f": {said.partition('next: ')[2]}"
    )


# What build systems print of a toolkit: CMake, meson, a Makefile, PyTorch, setuptools, a linker.
def test_a_variant_may_name_the_major_alone(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    folder = recipe(host=["cuda-version ${{ cuda_version }}.*"])
    (folder / "variants.yaml").write_text('cuda_version: ["12"]\n')
    ctk(built, "build-recipe", str(folder), "-q", "--output", str(tmp_path / "made"), check=True)


def test_tests_that_fail_are_an_error_and_the_package_is_there(
    built: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    words = (
        "build-recipe",
        str(recipe(test="echo seen; false")),
        "--output",
        str(tmp_path / "made"),
        "--json",
        "-q",
    )
    done = ctk(built, *words)
    document = json.loads(done.stdout)
    assert done.returncode == errors.BuildFailed.exit_code == document["error"]["exit_code"]
    assert (
        "the tests of one-1-" in document["error"]["cause"] and "seen" in document["error"]["cause"]
    )
    (package,) = document["packages"]
    assert [test["state"] for test in package["tests"]] == ["failed"]
    assert Path(package["file"]).is_file() and document["log"] in document["error"]["next"]


def test_a_library_that_was_not_linked_is_named_where_a_test_loads_what_needs_it(
    fails: Fails, recipe: Recipes
) -> None:
    test = "echo 'ImportError: one.so: undefined symbol: nvrtcVersion'; false"
    folder = recipe(run=["cuda-nvrtc", "cuda-version 13.0.*"], test=test)
    code, said = fails(folder, "--driver", "13.0", "--driver", "13.5")
    assert code == errors.BuildFailed.exit_code and "failed with driver 13.0:\n" in said
    step = "next: nvrtcVersion is in libnvrtc.so: give the linker -lnvrtc; the packages are there"
    assert f"failed with driver 13.5\n{step}" in said, "no colon with nothing below"
    assert "needs a driver" not in said


@pytest.mark.parametrize(
    ("section", "spec", "sentence", "step"),
    [
        (
            "host",
            "cuda-version 12.7.*",
            "no cuda-version 12.7 in the channels",
            "ask for one of those",
        ),
        ("host", "libnpp-dev", "made by the recipe libnpp", "ctk build libnpp"),
        (
            "host",
            "libnpp-dev, cuda-nvtx, libnpp",
            "are made by the recipes libnpp and cuda-nvtx",
            "build libnpp cuda-nvtx`",
        ),
        ("build", "nonesuch", "no package nonesuch", "--base"),
        ("build", "gxx", "no package gxx", 'write ${{ compiler("cxx") }} in build'),
    ],
)
def test_an_environment_without_a_solution_is_said_in_a_sentence(
    fails: Fails, recipe: Recipes, section: str, spec: str, sentence: str, step: str
) -> None:
    code, said = fails(recipe(**{section: spec.split(", ")}))
    assert code == errors.Unsolvable.exit_code
    cause, _, next_step = said.partition("next: ")
    assert f"in its {section} environment" in cause and sentence in cause
    assert step in next_step


def test_a_compiler_or_cmake_that_this_machine_lacks_is_named_with_the_package_to_install(
    built: Workspace, fails: Fails, recipe: Recipes, tmp_path: Path
) -> None:
    """The base channel of a machine without compilers and CMake."""
    lacking = tmp_path / "base"
    subprocess.run(["cp", "-rL", built.base_channel, lacking], check=True)
    for index in lacking.glob("*/repodata.json"):
        content = json.loads(index.read_text())
        names = ("gcc", "gxx", "cmake", "ninja")
        kept = {
            name: r for name, r in content["packages.conda"].items() if not name.startswith(names)
        }
        index.write_text(json.dumps({**content, "packages.conda": kept}))
        index.with_name("repodata.json.zst").unlink()
    code, said = fails(
        recipe(build=['${{ compiler("cxx") }}', "cmake", "ninja"]), "--base", str(lacking)
    )
    assert code == errors.Unsolvable.exit_code
    assert f"there is no cmake, gxx_{this_platform()} and ninja" in said
    assert "apt-get install cmake g++ ninja-build" in said and "--base conda-forge" in said


@pytest.mark.parametrize("word", ["x", "130", "12.x"])
def test_a_toolkit_that_is_none_is_a_bad_value(fails: Fails, word: str) -> None:
    code, said = fails(CPP, "--cuda", word)
    assert code == errors.BadValue.exit_code
    assert "neither a CUDA major nor a toolkit" in said


def test_a_driver_that_no_build_is_for_is_an_error_with_the_reason(
    fails: Fails, recipe: Recipes
) -> None:
    code, said = fails(recipe(run=["cuda-version 13.0.*"]), "--driver", "12.9", "--driver", "none")
    assert code == errors.Unsolvable.exit_code
    assert "no build is for a machine with driver 12.9" in said and "CUDA 13.0" in said


def test_a_build_that_no_machine_can_install_is_an_error_also_beside_a_good_one(
    fails: Fails, recipe: Recipes
) -> None:
    folder = recipe(run=["cuda-nvrtc >=13", "cuda-version ${{ cuda_version }}.*"])
    code, said = fails(folder, "--cuda", "12.6", "--cuda", "13.0")
    assert code == errors.Unsolvable.exit_code
    conflict = (
        r"one==\S+ needs cuda-nvrtc >=13 and cuda-version 12\.6\.\*, which cannot be installed"
        r" together\n"
    )
    assert re.search(rf"error: one-1-\w+ cannot be installed on any machine: {conflict}", said)


def test_a_channel_that_is_missing_is_named_and_one_of_ctk_build_is_not_written(
    fails: Fails, default_only: Workspace, recipe: Recipes, tmp_path: Path
) -> None:
    ours, two = tmp_path / "channel", tmp_path / "recipes" / "two"
    shutil.copytree(default_only.channel, ours, copy_function=os.symlink)
    write(two, iter([record("two", "1", "h_0", this_platform())]))
    folder = recipe(run=["two"])
    code, said = fails(folder, "--channel", str(ours))
    assert code == errors.Unsolvable.exit_code
    assert re.search(r" cannot be installed on any machine: one==\S+ needs two", said)
    step = f"next: ctk build-recipe {folder} --channel {two} --channel {ours}\n"
    assert step in said
    assert step in fails(folder, "--channel", str(ours), "--driver", "13.0")[1]
    assert "needs three, which the channels do not have" in fails(recipe(run=["three"]))[1]
    assert "next: run `ctk build libcublas`" in fails(recipe(run=["libcublas"]))[1]
    assert "next: add --channel " in fails(folder, "--channel", str(two))[1]
    assert (
        "is a channel that `ctk build` writes"
        in fails(folder, "--output", str(default_only.channel))[1]
    )
    assert "recipe.yaml is a file" in fails(folder, "--output", str(folder / "recipe.yaml"))[1]


# --- which builds


@pytest.fixture(scope="module")
def channels(built: Workspace) -> Catalogue:
    return Catalogue([built.channel, built.base_channel], this_platform(), Gateway())


def ordered(
    folder: Path, channels: Catalogue, scratch: Path, *cuda: str, pythons: tuple[str, ...] = ()
) -> Order:
    recipe = recipe_in(folder)
    return order(
        recipe,
        variant_files(recipe, ROOT / "conda_build_config.yaml"),
        channels,
        scratch,
        cuda,
        pythons,
    )


@pytest.mark.parametrize(
    ("cuda", "toolkits"),
    [
        ((), ["12.6", "13.0"]),
        (("12",), ["12.6"]),
        (("13.0",), ["13.0"]),
        (("13", "12"), ["12.6", "13.0"]),
        (("12.9",), ["12.9"]),
        (("12", "13.5"), ["12.6", "13.5"]),
    ],
)
def test_cuda_chooses_among_the_builds_or_sets_the_toolkit(
    channels: Catalogue, tmp_path: Path, cuda: tuple[str, ...], toolkits: list[str]
) -> None:
    found = ordered(CPP, channels, tmp_path, *cuda)
    assert sorted(variant.toolkit for variant in found.variants) == toolkits
    assert len({variant.values["python"] for variant in found.variants}) == 1
    glibc, pythons = found.notes
    assert glibc.startswith("c_stdlib_version is ")
    assert pythons.startswith("skipped Pythons that the channels lack: ")


def test_a_toolkit_that_no_variant_file_has_is_set_where_the_recipe_asks_for_one(
    channels: Catalogue, recipe: Recipes, tmp_path: Path
) -> None:
    folder = recipe(host=["cuda-version ${{ cuda_version }}.*"])
    with pytest.raises(RecipeError):
        ordered(folder, channels, tmp_path)
    (variant,) = ordered(folder, channels, tmp_path, "12.6").variants
    assert variant.toolkit == "12.6"


def test_a_cpu_build_stays_unless_a_toolkit_is_asked_for(
    channels: Catalogue, recipe: Recipes, tmp_path: Path
) -> None:
    folder = recipe(host=["cuda-version ${{ cuda_compiler_version }}.*"])
    text = (
        (folder / "recipe.yaml")
        .read_text()
        .replace("  - cuda", '  - if: cuda_compiler_version != "None"\n    then: cuda')
    )
    (folder / "recipe.yaml").write_text(text)
    (folder / "variants.yaml").write_text('cuda_compiler_version: ["None", "13.0"]\n')
    assert sorted(v.toolkit for v in ordered(folder, channels, tmp_path).variants) == ["", "13.0"]
    assert [v.toolkit for v in ordered(folder, channels, tmp_path, "13").variants] == ["13.0"]


@pytest.mark.parametrize(("cuda", "pythons"), [(("11",), ()), ((), ("3.9",)), ((), ("3.13t",))])
def test_what_no_build_is_for_is_named_with_what_there_is(
    channels: Catalogue, tmp_path: Path, cuda: tuple[str, ...], pythons: tuple[str, ...]
) -> None:
    with pytest.raises(UnknownName) as error:
        ordered(CPP, channels, tmp_path, *cuda, pythons=pythons)
    assert (cuda or pythons)[0] in error.value.cause
    assert (
        ("the newest is 13." in error.value.cause) if cuda else ("3.14, 3.14t" in error.value.step)
    )
