"""Recipes and variant files that rattler-build refuses: the error names file, line and cause.

Where rattler-build names no line, neither do we.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from ctk.core.errors import RecipeError
from ctk.plan.recipes import Recipe
from ctk.plan.render import render_variants
from ctk.plan.rendered import rendered_outputs

GOOD = """package:
  name: one
  version: "1"
build:
  noarch: generic
  script:
    - touch $PREFIX/one
requirements:
  run:
    - python
about:
  license: MIT
"""
BROKEN = {
    # What is broken: the text in GOOD -> the text in its place, a part of the message, and the line
    # that rattler-build names, or that has the format of conda-build; 0 for none.
    "unknown key": ("  script:", "  scripts:", 0, "unknown field 'scripts'"),
    "wrong type": ("  noarch: generic", "  number: many", 0, "invalid digit"),
    "list expected": ("    - python", "    python: 3", 0, "expected sequence"),
    "bad Jinja": ('"1"', "${{ one( }}", 0, "syntax error: unexpected `}`"),
    "bad condition": (
        "    - python",
        "    - if: linux and\n      then: python",
        0,
        "unexpected end of input",
    ),
    "bad YAML": ("  name: one", "  name: one\n version: [", 3, "did not find expected key"),
    "tab": ("  name: one", "\tname: one", 2, "a tab indents"),
    "tab below": ('  version: "1"', '\tversion: "1"', 3, "a tab indents"),
    "key twice": ("about:", "about:\n  license: BSD\nabout:", 13, 'Duplicate key "about"'),
    "unknown variable": ('"1"', "${{ nothing }}", 3, "undefined value in `${{ nothing }}`"),
    "unknown name in the context": (
        "package:",
        "context:\n  a: ${{ b }}\npackage:",
        2,
        "undefined variable",
    ),
    "bad spec": (
        "- python",
        "- python >=3,<",
        0,
        "not a dependency (unable to parse version spec: >=3,<); write",
    ),
    "bad rendered spec": (
        "- python",
        "- python ${{ '3.1, 4' }}",
        10,
        "`python 3.1, 4` is not a dependency (missing",
    ),
    "bare version": (
        "- python",
        "- python ${{ '3.14' }}",
        10,
        "write .* behind the version, which makes it `python 3.14.*`",
    ),
    "C++ compiler": ("- python", "- g++", 0, 'the C++ compiler is `${{ compiler("cxx") }}`'),
    "conda-build's Jinja": (
        "name: one",
        "name: {{ one }}",
        2,
        "write `${{ ... }}`\n    name: {{ one }}",
    ),
    "conda-build's set": ("package:", "{% set a = 1 %}\npackage:", 1, "below `context:`"),
    "selector": ("- python", "- sel(linux): python", 10, "write `- if: linux`"),
    "no such output": (
        "- python",
        '- ${{ pin_subpackage("ona", exact=True) }}',
        0,
        "no output is named ona in",
    ),
    "bad licence": ("MIT", "MITT", 0, "unknown term"),
    "empty": (GOOD, "", 0, "missing required field 'package'"),
    "not UTF-8": ("name: one", "name: on\udce9", 2, "this is not UTF-8"),
}


def refused(folder: Path) -> RecipeError:
    files = [ROOT / "conda_build_config.yaml", *folder.glob("*config.yaml")]
    with pytest.raises(RecipeError) as error:
        render_variants(Recipe("one", folder), files, "linux-64")
    return error.value


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_wrong_is_said_with_the_line_that_is_known(tmp_path: Path, broken: str) -> None:
    good, bad, line, message = BROKEN[broken]
    (tmp_path / "recipe.yaml").write_bytes(GOOD.replace(good, bad).encode(errors="surrogateescape"))
    error = refused(tmp_path)
    place = f"recipe.yaml:{line}" if line else "recipe.yaml"
    assert error.cause.startswith(f"{tmp_path}/{place}: ")
    assert message in error.cause and error.step
    assert ("did you mean one?" in error.step) is (broken == "no such output")
    assert "Marker" not in error.cause and "PyR" not in error.cause  # of Rust


def test_a_pin_with_bounds_on_no_output_names_the_nearest_one(tmp_path: Path) -> None:
    pin = '${{ pin_subpackage("ona", upper_bound="x") }}'
    (tmp_path / "recipe.yaml").write_text(GOOD.replace("- python", f"- {pin}"))
    with pytest.raises(RecipeError, match="no output is named ona in this variant") as error:
        rendered_outputs(render_variants(Recipe("one", tmp_path), [], "linux-64"), "linux-64")
    assert error.value.step.endswith("did you mean one?")


def test_a_recipe_that_is_a_folder_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").mkdir()
    assert refused(tmp_path).cause == f"{tmp_path}/recipe.yaml: Is a directory"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a:\n  - [1\n", 3, "expected ','"),
        ("a: b: c\n", 1, "mapping values"),
        ("a: {b: 1}\n", 0, "expected a sequence"),
        (
            "a: [1]\nc: [1, 2]\nb:\n  - 1\nzip_keys: [[a, d], [c, b]]\n",
            3,
            "zip_keys has c with 2 values and b with 1",
        ),
    ],
)
def test_the_line_of_a_variant_file_is_named_if_it_is_known(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    (tmp_path / "recipe.yaml").write_text(GOOD)
    (tmp_path / "conda_build_config.yaml").write_text(text)
    error = refused(tmp_path)
    place = f"conda_build_config.yaml:{line}" if line else "conda_build_config.yaml"
    assert error.cause.startswith(f"{tmp_path}/{place}: ")
    assert message in error.cause


def test_a_file_below_the_working_folder_is_named_as_people_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "recipe.yaml").write_text(GOOD.replace("MIT", "MITT"))
    monkeypatch.chdir(tmp_path)
    assert refused(tmp_path / "one").cause.startswith("one/recipe.yaml: ")
