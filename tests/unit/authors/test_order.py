"""The builds that `ctk build-recipe` makes of recipes as conda-forge has them, and the drivers that
it tests for.

With the hand-made channel: tests/system/walks/test_examples.py builds recipes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rattler import Gateway
from ruamel.yaml import YAML

from conftest import ROOT
from ctk.authors.order import Order, order, recipe_in, variant_files
from ctk.authors.run import drivers
from ctk.core.errors import RecipeError, UnknownName
from ctk.solve.solve import Catalogue
from kit import small_channel

NOARCH = """build:
  noarch: python
  script: touch $PREFIX/one
requirements:
  host:
    - python ${{ python_min }}.*
    - pip
  run:
    - python >=${{ python_min }}
"""
ONE = 'package:\n  name: one\n  version: "1"\n'
SCRIPT = "build:\n  script: touch $PREFIX/one\n"


@pytest.fixture
def channels(tmp_path: Path) -> Catalogue:
    base = [
        *small_channel.base(),
        small_channel.record("sysroot_linux-64", "2.36", "h1_0", "noarch"),
    ]
    folders = [small_channel.write(tmp_path / "channel", small_channel.channel())]
    folders.append(small_channel.write(tmp_path / "base", iter(base)))
    return Catalogue(folders, "linux-64", Gateway())


def ordered(
    tmp_path: Path, channels: Catalogue, text: str, *cuda: str, pythons: tuple[str, ...] = ()
) -> Order:
    (tmp_path / "one").mkdir(exist_ok=True)
    (tmp_path / "one" / "recipe.yaml").write_text(text)
    recipe = recipe_in(tmp_path / "one")
    return order(
        recipe,
        variant_files(recipe, ROOT / "conda_build_config.yaml"),
        channels,
        tmp_path,
        cuda,
        pythons,
    )


def host(found: Order) -> list[str]:
    (variant,) = found.variants
    return list(variant.content["requirements"]["host"])


def test_python_min_is_the_oldest_python_of_the_matrix() -> None:
    config = YAML(typ="safe").load(ROOT / "conda_build_config.yaml")
    assert [python.partition(".*")[0] for python in config["python"]][:1] == config["python_min"]


def test_a_cuda_major_that_the_channels_do_not_have_is_named(
    tmp_path: Path, channels: Catalogue
) -> None:
    for value in ("14", "14.0"):
        with pytest.raises(
            UnknownName, match=f"no toolkit of CUDA {value}; the newest is 13"
        ) as error:
            ordered(tmp_path, channels, ONE + SCRIPT, value)
        assert error.value.step.endswith("such as --cuda 13")


def test_a_noarch_package_is_one_build_with_python_min(tmp_path: Path, channels: Catalogue) -> None:
    found = ordered(tmp_path, channels, ONE + NOARCH)
    assert host(found)[0] == "python 3.11.*" and found.notes == ()


@pytest.mark.parametrize("python", ["python", "python >=3.12"])
def test_a_noarch_package_without_python_min_is_one_build_too(
    tmp_path: Path, channels: Catalogue, python: str
) -> None:
    """It renders once for each of the seven Pythons, to the same file name."""
    found = ordered(tmp_path, channels, ONE + NOARCH.replace("python ${{ python_min }}.*", python))
    assert host(found)[0] == python


def test_a_noarch_package_is_built_with_a_python_that_the_channels_have(
    tmp_path: Path, channels: Catalogue
) -> None:
    kept = (
        r
        for r in small_channel.base()
        if not (r["name"].startswith("python") and r["version"].startswith("3.11"))
    )
    newer = Catalogue(
        [channels.channels[0], small_channel.write(tmp_path / "newer", kept)], "linux-64", Gateway()
    )
    found = ordered(tmp_path, newer, ONE + NOARCH)
    assert host(found)[0] == "python 3.12.*"
    assert found.notes == (
        "python_min is 3.12 in place of 3.11: the channels have no older Python",
    )


def test_python_chooses_the_python_of_a_noarch_package(tmp_path: Path, channels: Catalogue) -> None:
    found = ordered(tmp_path, channels, ONE + NOARCH, pythons=("3.13",))
    assert host(found)[0] == "python 3.13.*"
    assert found.notes == ("python_min is 3.13 in place of 3.11: --python names it",)


def test_the_same_noarch_package_from_each_python_is_one_build(
    tmp_path: Path, channels: Catalogue
) -> None:
    """As in conda-forge's cuda-python: `use_keys` and a fixed build string."""
    string = "string: py_0\n  variant:\n    use_keys: [python]\n  script"
    assert len(ordered(tmp_path, channels, ONE + NOARCH.replace("script", string)).variants) == 1


def test_stdlib_is_the_glibc_that_the_compiler_of_the_channels_is_for(
    tmp_path: Path, channels: Catalogue
) -> None:
    text = f"{ONE}{SCRIPT}requirements:\n  build:\n    - ${{{{ stdlib('c') }}}}\n"
    found = ordered(tmp_path, channels, text)
    assert found.variants[0].content["requirements"]["build"] == ["sysroot_linux-64 2.36.*"]
    (note,) = found.notes
    assert note.startswith("c_stdlib_version is 2.36 in place of 2.17: ")


def test_stdlib_is_that_glibc_also_with_a_toolkit_that_no_variant_file_has(
    tmp_path: Path, channels: Catalogue
) -> None:
    """The recipe renders only with `--cuda`."""
    text = CUDA.replace("{{ compiler('cuda') }}", "{{ stdlib('c') }}")
    found = ordered(tmp_path, channels, text, "13.0")
    assert found.variants[0].content["requirements"]["build"] == ["sysroot_linux-64 2.36.*"]


@pytest.mark.parametrize(
    ("cuda", "sysroots"),
    [([], ["2.36", "2.40"]), (["13"], ["2.40"]), (["12.9"], ["2.36"]), (["13.4"], ["2.40"])],
)
def test_the_glibc_that_is_zipped_with_a_toolkit_is_that_of_the_chosen_one(
    tmp_path: Path, channels: Catalogue, cuda: list[str], sysroots: list[str]
) -> None:
    """As in conda-forge's pinning. The channels have 2.36, which takes the place of 2.17."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "variants.yaml").write_text(
        'cuda_compiler_version: ["12.6", "13.0"]\nc_stdlib_version: ["2.17", "2.40"]\n'
        "zip_keys: [[cuda_compiler_version, c_stdlib_version]]\n"
    )
    text = CUDA.replace("{{ compiler('cuda') }}", "{{ stdlib('c') }}")
    built_with = [
        v.content["requirements"]["build"]
        for v in ordered(tmp_path, channels, text, *cuda).variants
    ]
    assert built_with == [[f"sysroot_linux-64 {glibc}.*"] for glibc in sysroots]


@pytest.mark.parametrize(
    "skip",
    ["is_freethreading", "[is_freethreading, win]", 'match(python, "<3.14") or is_freethreading'],
)
def test_a_recipe_without_outputs_skips_what_it_says(
    tmp_path: Path, channels: Catalogue, skip: str
) -> None:
    """rattler-build renders these builds; with a list of outputs it does not."""
    text = f"{ONE}{SCRIPT}requirements:\n  host: [python]\n".replace(
        "build:", f"build:\n  skip: {skip}"
    )
    pythons = [
        variant.values["python"].partition(" ")[0]
        for variant in ordered(tmp_path, channels, text).variants
    ]
    assert pythons == (["3.14.*"] if "3.14" in skip else ["3.13.*", "3.14.*"])


@pytest.mark.parametrize("cuda", [(), ("13",), ("13.0",)])
def test_a_recipe_that_skips_all_builds_makes_nothing(
    tmp_path: Path, channels: Catalogue, cuda: tuple[str, ...]
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "variants.yaml").write_text('cuda_version: ["12.6", "13.0"]\n')
    with pytest.raises(RecipeError, match=r"for linux-64: its skip is `linux`$") as e:
        ordered(tmp_path, channels, CUDA_VERSION.replace("build:", "build:\n  skip: linux"), *cuda)
    assert e.value.step.endswith("recipe.yaml:5")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("cuda_compiler_versions", "did you mean cuda_compiler_version in place of"),
        ("c_compiler_version", "name a toolkit, such as --cuda 13.0, or write cuda_compiler"),
    ],
)
def test_a_key_of_the_toolkit_that_no_variant_file_has_is_named(
    tmp_path: Path, channels: Catalogue, key: str, said: str
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "variants.yaml").write_text(f'{key}: ["13.0"]\n')
    with pytest.raises(RecipeError) as error:
        ordered(tmp_path, channels, CUDA)
    assert error.value.cause.startswith("no variant file has cuda_compiler_version, which the")
    assert error.value.step.startswith(said)


CUDA_VERSION = f"{ONE}{SCRIPT}requirements:\n  host: ['cuda-version ${{{{ cuda_version }}}}.*']\n"
CUDA = (
    "context:\n  major: ${{ (cuda_compiler_version | split('.'))[0] }}\n"
    + ONE
    + SCRIPT
    + "requirements:\n  build:\n    - ${{ compiler('cuda') }}\n"
    "  host:\n    - cuda-version ==${{ cuda_compiler_version }}\n"
)


def test_a_recipe_of_conda_forge_s_is_built_for_the_toolkit_that_is_named(
    tmp_path: Path, channels: Catalogue
) -> None:
    """conda-forge's recipes have no `cuda_compiler_version` beside them: its pinning has it."""
    assert host(ordered(tmp_path, channels, CUDA, "13.0")) == ["cuda-version ==13.0"]


def test_a_recipe_without_a_toolkit_is_told_to_name_one(
    tmp_path: Path, channels: Catalogue
) -> None:
    with pytest.raises(RecipeError) as error:
        ordered(tmp_path, channels, CUDA)
    assert "--cuda 13.0" in error.value.step and "cuda_compiler_version" in error.value.step


def test_a_recipe_with_a_cpu_build_by_default_is_built_for_cuda_where_that_is_asked_for(
    tmp_path: Path, channels: Catalogue
) -> None:
    text = (
        CUDA.replace(
            "(cuda_compiler_version | split('.'))[0]", "cuda_compiler_version | default('None')"
        )
        .replace(
            "    - cuda-version",
            "    - if: cuda_compiler_version is defined\n      then: cuda-version",
        )
        .replace("    - ${{ compiler('cuda') }}", "    - ninja")
    )
    assert host(ordered(tmp_path, channels, text, "13.0")) == ["cuda-version ==13.0"]


OUTPUT = (
    '  - package:\n      name: one\n      version: "1"\n    build:\n      noarch: {kind}\n     '
    " script: {script}\n"
)


@pytest.mark.parametrize(
    ("kind", "script"), [("generic", "touch b"), ("generic", "touch a"), ("python", "touch a")]
)
def test_two_outputs_with_one_file_name_are_refused_at_the_second(
    tmp_path: Path, channels: Catalogue, kind: str, script: str
) -> None:
    outputs = [OUTPUT.format(kind=kind, script=text) for text in ("touch a", script)]
    with pytest.raises(RecipeError, match=r"recipe\.yaml:9: two builds have one file name, one-1-"):
        ordered(tmp_path, channels, "".join(["outputs:\n", *outputs]))


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        (f"{ONE}{SCRIPT}source:\n  path: nosuch\n", 7, "nosuch"),
        (
            f"{ONE}source:\n  - path: recipe.yaml\n    patches:\n      - nosuch.patch\n{SCRIPT}",
            7,
            "nosuch.patch",
        ),
        (f"{ONE}build:\n  script:\n    file: nosuch.sh\n", 6, "nosuch.sh"),
        (f"{ONE}source:\n  path: scr\n{SCRIPT}", 5, "scr"),  # script has it too
    ],
)
def test_a_file_that_is_not_there_is_named_with_its_line(
    tmp_path: Path, channels: Catalogue, text: str, line: int, name: str
) -> None:
    with pytest.raises(RecipeError, match=rf"recipe\.yaml:{line}: there is no {name}$"):
        ordered(tmp_path, channels, text)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("number: 0  # [linux]", "- if: linux` and below it `then: ..."),
        ("number: 0  #[not win]", "- if: not win` and below it `then: ..."),
        ("number: 0  # [py>=312]", '- if: match(python, ">=3.12")` and below it `then: ...'),
        ("skip: true  # [win]", "skip:` and below it `- win"),
        ("skip: true  # [linux]", "skip:` and below it `- linux"),
    ],
)
def test_a_selector_of_conda_build_is_refused_and_another_comment_is_not(
    tmp_path: Path, channels: Catalogue, line: str, instead: str
) -> None:
    text = ONE + SCRIPT.replace("build:", "build:  # [see below]")
    assert ordered(tmp_path, channels, text).variants
    with pytest.raises(RecipeError, match=rf"recipe\.yaml:6: .* write `{re.escape(instead)}`"):
        ordered(tmp_path, channels, f"{text}  {line}\n")


def test_a_value_of_a_variant_key_that_is_no_version_is_named_with_the_line_that_gets_it(
    tmp_path: Path, channels: Catalogue
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "variants.yaml").write_text('cuda_version: ["12.6,<"]\n')
    with pytest.raises(
        RecipeError, match=r"recipe\.yaml:8: 'cuda-version 12\.6,<' is not a spec"
    ) as error:
        ordered(tmp_path, channels, f"{ONE}{SCRIPT}requirements:\n  host:\n    - cuda-version\n")
    assert "cuda_version: ['12.6']" in error.value.step


def test_a_compiler_of_cuda_without_a_version_beside_a_toolkit_is_refused(
    tmp_path: Path, channels: Catalogue
) -> None:
    """It was the newest one, whose run-exports and `host` had no solution, and no sentence said
    why.
    """
    needs = (
        'requirements:\n  build:\n    - ${{ compiler("cuda") }}\n  host:\n    - cuda-version ${{'
        " KEY }}.*"
    )
    text = f"{ONE}{SCRIPT}{needs}\n"
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "variants.yaml").write_text('cuda_version: ["13.0"]\n')
    with pytest.raises(
        RecipeError, match=r"recipe\.yaml:8: .* takes its version from cuda_compiler_version"
    ):
        ordered(tmp_path, channels, text.replace("KEY", "cuda_version"))
    assert ordered(
        tmp_path, channels, text.replace("KEY", "cuda_compiler_version"), "13.0"
    ).variants


def test_a_script_without_its_suffix_is_found(tmp_path: Path, channels: Catalogue) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "build.sh").touch()
    (tmp_path / "one" / "recipe.yaml").write_text(f"{ONE}build:\n  script:\n    file: build\n")
    assert order(recipe_in(tmp_path / "one"), [], channels, tmp_path).variants


@pytest.mark.parametrize(
    ("spec", "toolkit", "tested"),
    [
        ("cuda-core", "", ["12.0", "12.9", "13.0", "13.4"]),  # as a noarch package that requires it
        ("numpy", "", [None]),
        ("cuda-core", "13.0", ["13.0", "13.4"]),
        ("cuda-core", "12.9", ["12.9"]),
    ],
)
def test_a_package_is_tested_with_the_oldest_and_the_newest_driver_of_each_major_that_it_is_for(
    channels: Catalogue, spec: str, toolkit: str, tested: list[str | None]
) -> None:
    assert drivers(spec, toolkit, channels) == tested
