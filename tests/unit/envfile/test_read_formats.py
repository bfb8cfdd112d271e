"""Each format is read as the tool that it belongs to reads it."""

import re
from pathlib import Path

import pytest

from ctk.core.errors import FileUnreadable
from ctk.envfile.model import EnvironmentFile, Format, Line, Tool
from ctk.envfile.read import read_file

FILES = Path(__file__).with_name("files")
CF = "https://conda.example/conda-forge"
NVCC = "cuda-nvcc=12.9.86=hcdd1206_1"
LINUX = ("linux-64", "linux-aarch64", "linux-ppc64le")


def read_text(folder: Path, name: str, text: str) -> EnvironmentFile:
    path = folder / name
    path.write_text(text)
    return read_file(path)


def short(line: Line) -> tuple[int, str, str]:
    return line.number, line.tool.value, line.spec


FORMATS = {
    "conda-list-export.txt": Format.EXPLICIT,
    "conda-lock.yml": Format.CONDA_LOCK,
    "explicit.txt": Format.EXPLICIT,
    "pixi.lock": Format.PIXI_LOCK,
    "pylock.toml": Format.PYLOCK,
    "pyproject.toml": Format.PYPROJECT,
    "requirements.txt": Format.REQUIREMENTS,
    "selectors.yml": Format.ENVIRONMENT,
    "09-pytorch-cupy-jax.toml": Format.PIXI,
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_name_that_says_nothing_is_no_hindrance(tmp_path: Path, name: str) -> None:
    content = (FILES / name).read_text().replace("???\n", "")
    found = read_text(tmp_path, "x", content)
    assert found.format is FORMATS[name]
    assert found.lines == read_file(FILES / name).lines


@pytest.mark.parametrize("name", ["pixi.toml", "environment.yml", "requirements.txt", "pixi.lock"])
def test_windows_line_ends_and_byte_order_marks_change_nothing(tmp_path: Path, name: str) -> None:
    sample = {"pixi.toml": "09-pytorch-cupy-jax.toml", "environment.yml": "selectors.yml"}
    content = (FILES / sample.get(name, name)).read_text()
    plain = read_text(tmp_path, name, content)
    marked = tmp_path / "marked" / name
    marked.parent.mkdir()
    marked.write_bytes(b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())
    assert read_file(marked).lines == plain.lines
    marked.write_bytes(content.encode("utf-16"))  # as Windows PowerShell 5 writes
    assert read_file(marked).lines == plain.lines


def test_an_explicit_list_has_the_channel_of_each_address() -> None:
    environment = read_file(FILES / "explicit.txt").environments[0]
    assert [(line.number, line.spec, line.channel) for line in environment.lines] == [
        (6, "cuda-version=12.9=h4f385c5_3", CF),
        (7, "_libgcc_mutex=0.1=conda_forge", CF),
        (8, "cuda-nvcc=12.9.41=0", "https://conda.example/nvidia/label/cuda-12.9.0"),
    ]
    assert environment.subdirs == ("linux-64",)


def test_an_exported_list_has_packages_of_pip_too() -> None:
    file = read_file(FILES / "conda-list-export.txt")
    lines = file.lines
    assert file.environments[0].subdirs == ("linux-64",)
    assert [short(line) for line in lines[1:]] == [
        (6, "conda", "cuda-cudart=12.4.127=he02047a_2"),
        (7, "conda", "cuda-version=12.4=h3060b56_3"),
        (8, "conda", "python=3.11.9=hb806964_0_cpython"),
        (9, "pip", "nvidia-cublas-cu12==12.4.5.8"),
        (10, "pip", "torch==2.5.1"),
    ]


def test_a_requirements_file_has_markers_hashes_addresses_and_lines_that_go_on() -> None:
    file = read_file(FILES / "requirements.txt")
    triton = "https://wheels.example/triton-3.1.0-cp311-cp311-manylinux_2_17_x86_64.whl#sha256=00ff"
    assert [(line.number, line.name, line.spec) for line in file.lines] == [
        (8, "torch", "torch==2.5.1"),
        (9, "jax", "Jax[cuda12]<0.5,>=0.4"),
        (11, "cupy-cuda12x", "cupy-cuda12x==13.3.0"),
        (14, "nvidia-cublas-cu12", "nvidia_cublas.cu12"),
        (15, "triton", f"triton @ {triton}"),
        (
            16,
            "flash-attn",
            "https://wheels.example/flash_attn-2.7.0-cp311-cp311-linux_x86_64.whl",
        ),
        (17, "apex", "git+https://git.example/apex.git@main#egg=apex"),
        (18, "torchvision", "torchvision=0.20"),
    ]
    assert {line.name: line.subdirs for line in file.lines if line.subdirs} == {
        "torch": LINUX,
        "nvidia-cublas-cu12": ("linux-64", "osx-64"),
    }
    assert [re.sub(r": .*", "", note) for note in file.notes] == [
        f"line {number}" for number in (2, 3, 5, 6, 7, 19)
    ]
    assert "secret" not in "".join(file.notes)


def test_an_environment_has_selectors_aliases_and_a_part_of_pip() -> None:
    file = read_file(FILES / "selectors.yml")
    environment = file.environments[0]
    assert environment.channels == ("conda-forge",)  # nodefaults is none
    assert environment.subdirs == ("linux-64", "linux-aarch64", "win-64")
    assert [(line.number, line.spec, line.subdirs) for line in environment.lines] == [
        (7, "python", ()),
        (8, "nccl", LINUX),
        (9, "cudnn=9", (*LINUX, "win-64", "win-arm64")),
        (10, "cuda-nvcc_win-64", ("win-64",)),
        (11, "ucx", ("linux-64", "linux-aarch64")),
        (12, "numba", ()),
        (13, "cuda-gdb", ("linux-64",)),
        (14, "cuda-cudart=12.4", ()),
        (15, "jax[cuda12]", ()),  # of pip, and in conda's part: its name is known
        (16, "cuda-version=12.4", ()),
        (20, "torch==2.5.1", ("win-64", "win-arm64")),
        (21, "nvidia-nccl-cu12", LINUX),
    ]
    assert environment.lines[7].channel == "conda-forge"
    assert environment.lines[-1].tool is Tool.PIP
    assert [note.split(":")[0] for note in file.notes] == ["line 19", "line 22"]


def test_a_pyproject_has_its_lists_as_pixi_takes_them() -> None:
    file = read_file(FILES / "pyproject.toml")
    found = {environment.name: environment for environment in file.environments}
    main = ["python >=3.11", "nvidia-cublas-cu12", "numpy 2.*", "cuda-nvcc 12.4.* 0"]
    assert [*found] == ["default", "cuda", "bare", "dev", "inline", "cuda12"]
    assert [line.spec for line in found["default"].lines] == main  # numpy is conda's
    assert [line.spec for line in found["bare"].lines] == ["cupy-cuda12x>=13", "jax[cuda12]"]
    assert [line.name for line in found["dev"].lines] == [
        "python",
        "nvidia-cublas-cu12",
        "pytest",
        "ruff",
        "numpy",
        "cuda-nvcc",
    ]
    assert found["inline"].lines[-1].part == "tool.pixi.environments.inline"
    cuda = found["cuda"]
    assert cuda.channels == ("rapidsai", "conda-forge", "nvidia")
    assert cuda.subdirs == ("win-64", "linux-64")
    assert cuda.drivers == {"win-64": "12.6", "linux-64": "12.6"}  # the highest that is declared
    assert found["dev"].drivers == {"linux-64": "12.4"}
    assert [(line.number, line.spec, line.subdirs) for line in cuda.lines[-4:]] == [
        (34, "cudf", ()),
        (34, "cuda-version 12.*", ()),
        (38, "torch>=2.5", ("linux-64",)),
        (39, "apex @ git+https://git.example/apex.git", ("linux-64",)),
    ]
    assert cuda.lines[-3].text == 'cuda-version."version" = "12.*"'


def test_a_pyproject_without_pixi_has_an_environment_for_each_extra(tmp_path: Path) -> None:
    whole = (FILES / "pyproject.toml").read_text()
    file = read_text(tmp_path, "pyproject.toml", whole[: whole.index("[tool.pixi")])
    assert {
        environment.name: [line.name for line in environment.lines]
        for environment in file.environments
    } == {
        "default": ["numpy", "nvidia-cublas-cu12"],
        "cuda12": ["numpy", "nvidia-cublas-cu12", "cupy-cuda12x"],
        "all": ["numpy", "nvidia-cublas-cu12", "cupy-cuda12x", "jax"],
        "test": ["numpy", "nvidia-cublas-cu12", "pytest"],
        "dev": ["numpy", "nvidia-cublas-cu12", "pytest", "ruff"],
    }


def test_groups_that_include_each_other_are_read_once(tmp_path: Path) -> None:
    text = """\
[dependency-groups]
one = ["a", { include-group = "Two" }]
two = ["b", { include-group = "one" }]
"""
    file = read_text(tmp_path, "pyproject.toml", text)
    found = {
        environment.name: [(line.number, line.name) for line in environment.lines]
        for environment in file.environments
    }
    assert found["one"] == [(2, "a"), (3, "b")]
    assert found["two"] == [(3, "b"), (2, "a")]


def test_a_lock_has_a_package_once_for_all_of_its_platforms() -> None:
    file = read_file(FILES / "conda-lock.yml")
    assert [(short(line), line.subdirs) for line in file.lines] == [
        ((16, "conda", "cuda-version=12.9=h4f385c5_3"), ()),
        ((38, "conda", NVCC), ("linux-64",)),
        ((50, "pip", "nvidia-nccl-cu12==2.26.2"), ("linux-64",)),
    ]
    assert file.environments[0].subdirs == ("linux-64", "win-64")


def test_a_lock_of_pixi_has_its_environments_the_default_one_first() -> None:
    file = read_file(FILES / "pixi.lock")
    default, gpu = file.environments
    assert (default.name, gpu.name) == ("default", "gpu")
    assert [short(line) for line in default.lines] == [
        (22, "conda", "cuda-version=12.9=h4f385c5_3")
    ]
    assert [(short(line), line.subdirs) for line in gpu.lines] == [
        ((22, "conda", "cuda-version=12.9=h4f385c5_3"), ()),
        ((30, "conda", NVCC), ("linux-64",)),
        ((36, "pip", "nvidia-nccl-cu12==2.26.2"), ("linux-64",)),
    ]
    assert gpu.lines[1].channel == CF and gpu.channels == (CF,)


def test_a_pylock_has_the_platforms_of_its_markers() -> None:
    lines = read_file(FILES / "pylock.toml").lines
    assert [(short(line), line.subdirs) for line in lines] == [
        ((5, "pip", "nvidia-cublas-cu12==12.4.5.8"), ("linux-64",)),
        ((17, "pip", "torch==2.5.1"), ()),
    ]


OTHERS = {
    "Dockerfile": "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch\n",
    "setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires =\n    torch\n",
    "Makefile": "CC = gcc\nall: x.o\n\t$(CC) -o x x.o\n",
    "setup.py": "from setuptools import setup\n\nsetup(name='x')\n",
    "meta.yaml": "{% set version = '1' %}\npackage:\n  name: x\n",
    "compose.yml": "services:\n  web:\n    image: nginx\n",
    "config.toml": "[server]\nport = 1\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_format_is_told_which_are_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileUnreadable) as error:
        read_text(tmp_path, name, OTHERS[name])
    assert all(format.value in error.value.step for format in Format)


@pytest.mark.parametrize("name", ["recipe.yaml", "mine.yaml"])
def test_a_recipe_is_told_the_command_that_builds_it(tmp_path: Path, name: str) -> None:
    recipe = "context:\n  version: 1\npackage:\n  name: x\nrequirements:\n  host:\n    - python\n"
    with pytest.raises(FileUnreadable, match="it is a recipe") as error:
        read_text(tmp_path, name, recipe)
    assert error.value.step.startswith(f"run `ctk build-recipe {tmp_path}`")


# What a pixi.toml has besides, and the lines that are read of it.
PIXI = {
    "a package of the workspace": (
        '[workspace.dependencies]\ncuda = "12.*"\n[dependencies]\ncuda = { workspace = true }\n',
        [(4, "cuda 12.*", ())],
    ),
    "a table for a package": (
        '[dependencies.jaxlib]\nversion = "*"\nbuild = "*cuda12*"\n',
        [(1, "jaxlib * *cuda12*", ())],
    ),
    "a pattern of platforms": (
        '[workspace]\nplatforms = ["linux-64", "win-64"]\n'
        '[target."linux-*".dependencies]\ncuda = "12"\n',
        [(4, "cuda 12", ("linux-64",))],
    ),
    "a family of platforms": (
        '[target.win.build-dependencies]\ncuda = "*"\n[host-dependencies]\ncuda = "1.*"\n',
        [(2, "cuda", ("win-64", "win-arm64")), (4, "cuda 1.*", ())],
    ),
    "a list in an environment": (
        '[environments]\ndefault = ["x"]\n[feature.x]\ndependencies.cuda = "*"\n',
        [(4, "cuda", ())],
    ),
    "a project of its own": (
        '[pypi-dependencies]\nmine = { path = ".", editable = true }\n',
        [(2, "mine @ .", ())],
    ),
    "limits and a package": (
        '[constraints]\ncuda = "*"\n[package.run-dependencies]\ncuda = "*"\n[dependencies]\n',
        [],
    ),
}


@pytest.mark.parametrize("case", PIXI)
def test_tables_of_pixi_are_read_as_pixi_reads_them(tmp_path: Path, case: str) -> None:
    text, lines = PIXI[case]
    file = read_text(tmp_path, "pixi.toml", text)
    assert [environment.name for environment in file.environments] == ["default"]
    assert [(line.number, line.spec, line.subdirs) for line in file.lines] == lines


def test_what_is_no_request_of_pixi_is_a_note(tmp_path: Path) -> None:
    text, _ = PIXI["limits and a package"]
    notes = read_text(tmp_path, "pixi.toml", text).notes
    assert notes == (
        "line 3: `package` is of no environment, and is not read",
        "line 1: `constraints` installs no package, and is not read",
    )


def test_a_platform_has_the_gpu_that_is_declared_with_its_driver(tmp_path: Path) -> None:
    text = """\
[workspace]
platforms = [
  { name = "old", platform = "linux-64", cuda = { driver = "12.4", arch = "7.0" } },
  { name = "new", platform = "linux-64", cuda = { driver = "13.0", arch = "9.0" } },
  { platform = "linux-aarch64", cuda = "12.9" },
]
"""
    (environment,) = read_text(tmp_path, "pixi.toml", text).environments
    assert environment.drivers == {"linux-64": "13.0", "linux-aarch64": "12.9"}
    assert environment.archs == {"linux-64": "9.0"}


def test_an_environment_has_a_driver_where_its_features_are(tmp_path: Path) -> None:
    text = """\
[workspace]
platforms = ["osx-64", { platform = "linux-64", cuda = "12.9" }, "linux-aarch64"]
[feature.one.system-requirements]
cuda = ">=12"
[feature.two]
platforms = ["linux-64-cuda-12-9"]
[environments]
one = ["one"]
two = ["two", "missing"]
"""
    file = read_text(tmp_path, "pixi.toml", text)
    found = {environment.name: environment.drivers for environment in file.environments}
    assert found == {
        "default": {"linux-64": "12.9"},
        "one": {"linux-64": "12.9", "linux-aarch64": "12"},
        "two": {"linux-64": "12.9"},
    }
    assert file.environments[-1].subdirs == ("linux-64",)
    assert file.notes == ("line 9: there is no feature `missing`",)


def test_a_lock_of_pixi_has_the_driver_of_its_platform(tmp_path: Path) -> None:
    package = f"conda: {CF}/noarch/cuda-version-12.9-h4f385c5_3.conda"
    text = f"""\
version: 7
platforms:
- name: linux-64-cuda
  subdir: linux-64
  virtual-packages:
  - __cuda=12.9
environments:
  default:
    channels:
    - url: {CF}/
    packages:
      linux-64-cuda:
      - {package}
packages:
- {package}
  sha256: 5f5f428031933f117ff9f7fcc650e6ea1b3fef5936cf84aa24af79167513b656
"""
    environment = read_text(tmp_path, "pixi.lock", text).environments[0]
    assert environment.drivers == {"linux-64": "12.9"}
    assert environment.subdirs == ("linux-64",)
    assert [line.number for line in environment.lines] == [15]


def test_a_list_of_specs_is_one_of_conda(tmp_path: Path) -> None:
    file = read_text(tmp_path, "specs.txt", "cuda-nvcc=12.4\npython\nconda-forge::numpy>=2\n")
    assert file.format is Format.EXPLICIT
    assert [(line.spec, line.channel) for line in file.lines] == [
        ("cuda-nvcc=12.4", ""),
        ("python", ""),
        ("numpy>=2", "conda-forge"),
    ]
