"""The files of users are read: each package once, with its line."""

from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from ctk.core.checkout import workspace
from ctk.envfile.model import EnvironmentFile, Format, Line, Tool
from ctk.envfile.read import read_file

FILES = workspace().root / "tests" / "unit" / "envfile" / "files"
USERS = sorted(FILES.glob("[0-9]*"))


def lines_by_name(file: EnvironmentFile) -> dict[str, Line]:
    return {line.name: line for line in file.lines}


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_each_line_of_a_user_is_where_its_number_says(path: Path) -> None:
    file = read_file(path)
    texts = file.text.split("\n")
    assert len(file.lines) > 0
    for line in file.lines:
        assert line.text in " ".join(texts[line.number - 1].split())
        assert canonicalize_name(line.name) in canonicalize_name(line.text)


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_each_entry_of_a_user_is_a_line(path: Path) -> None:
    file = read_file(path)
    numbers = {line.number for line in file.lines}
    unread = []
    in_packages = path.suffix == ".yml" or None
    for number, text in enumerate(file.text.split("\n"), start=1):
        if text.startswith("["):
            in_packages = "dependencies]" in text
        if text.startswith(("channels", "dependencies")):
            in_packages = text.startswith("dependencies")
        is_entry = text.strip() and not text.rstrip().endswith((":", "]", "---"))
        if in_packages and is_entry and number not in numbers:
            unread.append(text.strip())
    assert unread == (['- "-e .[dev]"'] if path.name.startswith("17") else [])


def test_a_channel_before_a_name_is_no_part_of_the_spec() -> None:
    found = lines_by_name(read_file(FILES / "12-pytorch-cuda-pytorch.yml"))
    assert found["pytorch-cuda"] == Line(
        34,
        "pytorch::pytorch-cuda=12.4",
        Tool.CONDA,
        "pytorch-cuda",
        "pytorch-cuda=12.4",
        "pytorch",
    )
    assert found["flash-attn"] == Line(38, "flash-attn", Tool.PIP, "flash-attn", "flash-attn")


def test_an_environment_of_pixi_has_the_lines_of_its_features_and_targets() -> None:
    file = read_file(FILES / "09-pytorch-cupy-jax.toml")
    environments = {environment.name: environment for environment in file.environments}
    assert file.format is Format.PIXI
    assert file.environments[0].name == "default"
    assert [line.name for line in environments["default"].lines] == ["python"]
    assert [(line.number, line.spec, line.part) for line in environments["tests-cuda"].lines][
        -7:
    ] == [
        (117, "dask-core >=2026.7.1", "feature.backends"),
        (118, "sparse >=0.19.1", "feature.backends"),
        (120, "jax >=0.10.2", "feature.backends.target.unix"),
        (122, "cuda-version ==12.9", "feature.cuda-backends"),
        (123, "cupy >=14.1.1", "feature.cuda-backends"),
        (124, "pytorch >=2.12.0", "feature.cuda-backends"),
        (126, "jaxlib >=0.10.2", "feature.cuda-backends.target.linux"),
    ]
    jaxlib = environments["tests-cuda"].lines[-1]
    assert jaxlib.is_for("linux-aarch64") and not jaxlib.is_for("win-64")
    assert environments["tests-cuda-py311"].drivers == {"linux-64": "12.9", "win-64": "12.9"}


def test_an_environment_without_the_default_feature_has_none_of_its_lines() -> None:
    file = read_file(FILES / "01-pytorch-cupy-cuda-nvcc.toml")
    environments = {environment.name: environment for environment in file.environments}
    assert [line.name for line in environments["dev"].lines] == ["ruff"]
    assert environments["dev"].drivers == {}
    assert environments["cu-12-0-py310"].drivers["win-64"] == "12"


def test_a_feature_that_no_environment_has_is_read_as_one() -> None:
    file = read_file(FILES / "10-cupy.toml")
    environments = {environment.name: environment for environment in file.environments}
    assert [line.name for line in environments["cupy-tests"].lines] == [
        "python",
        "cupy",
        "pytest",
        "pytest-forked",
    ]
    assert [one.name for one in file.environments if one.is_unused][-1] == "cupy-tests"
