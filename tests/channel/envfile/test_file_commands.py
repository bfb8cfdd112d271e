"""Commands that take a file: what they print, write and refuse."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from kit.file_world import file_world

FILE = """\
# ours
name: train
channels:
  - nvidia
  - conda-forge
dependencies:
  - python=3.13   # not older
  - pytorch-cuda=12.1
  - cuda-nvcc
  - numba-cuda
  - numpy
  - pip:
      - nvidia-cuda-nvrtc-cu12==12.1.105
      - requests
"""
Solve = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def channels(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options for the default channel, with a stand-in for conda-forge behind it."""
    ours, base = file_world(project, tmp_path_factory.mktemp("files")).channels
    return ["--channel", str(ours), "--base", str(base)]


PIXI = """\
[workspace]
channels = ["conda-forge"]
platforms = [{ platform = "linux-64", cuda = { driver = "13.0", arch = "7.0" } }]
[dependencies]
cuda-nvrtc = "*"
"""


@pytest.fixture
def solve(
    project: Workspace, channels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Solve:
    """`ctk solve` in a folder with ``environment.yml``, on a machine with driver 13.0."""
    (tmp_path / "environment.yml").write_text(FILE)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, driver: str = "13.0") -> CompletedProcess[str]:
        stated = ["--driver", driver] if driver else []
        return ctk(project, "solve", *words, *stated, *channels, "--platform", "linux-64")

    return run


def test_a_file_is_answered_line_by_line_and_solved(solve: Solve) -> None:
    result = solve("environment.yml", "--arch", "9.0")
    assert result.returncode == 0, result.stderr
    assert "environment.yml: 7 packages, 4 of them about CUDA" in result.stdout
    for words in (
        "8  pytorch-cuda=12.1",
        "9  cuda-nvcc",
        "13  nvidia-cuda-nvrtc-cu12==12.1.105",
    ):
        assert words in result.stdout
    assert "toolkit 12.9, native" in result.stdout
    assert "not about CUDA: 3 lines, and they stay as they are" in result.stdout


@pytest.mark.parametrize(
    ("stated", "gpu"), [((), "7.0"), (("--arch", "9.0"), "9.0")], ids=["file", "--arch"]
)
def test_a_pixi_toml_states_the_machine(
    stated: tuple[str, ...],
    gpu: str,
    solve: Solve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver and a GPU, where neither an option nor the machine has a driver."""
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "")  # a machine without one, wherever this runs
    (tmp_path / "pixi.toml").write_text(PIXI)
    result = solve("pixi.toml", *stated, driver="")
    assert result.returncode == 0, result.stderr
    assert f"driver 13.0, GPU {gpu}" in result.stdout


def test_the_lines_for_pixi_are_toml_and_name_the_channel(solve: Solve) -> None:
    result = solve("environment.yml")
    _, _, below = result.stdout.partition("or write in pixi.toml:\n")
    lines = [line for line in below.splitlines() if line.startswith("  ")]
    manifest = tomllib.loads("\n".join(lines))
    assert manifest["cuda-nvcc"]["channel"] == "conda-forge"


def test_the_document_of_files_has_each_of_them(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch\nrequests\n")
    result = solve("environment.yml", "requirements.txt", "--json")
    document = json.loads(result.stdout)
    first, second = document["files"]
    assert (first["file"], first["format"], first["part"]) == (
        "environment.yml",
        "environment.yml",
        "whole",
    )
    assert (first["toolkit"], first["fit"], first["others"]) == ("12.9", "native", 3)
    lines = {line["package"]: line for line in first["lines"]}
    assert lines["cuda-nvcc"]["answer"] == "hidden"
    assert lines["cuda-nvcc"]["by_channel"][0] == "conda-forge::cuda-nvcc"
    assert lines["nvidia-cuda-nvrtc-cu12"]["specs"] == ["cuda-nvrtc"]
    assert second["lines"][0]["specs"] == ["pytorch"]
    assert "toolkit" not in document


def test_a_file_without_a_solution_says_why(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [cuda-version=13.4, cuda-core]\n")
    result = solve("environment.yml", "--json", driver="12.4")
    document = json.loads(result.stdout)
    assert result.returncode != 0
    (file,) = document["files"]
    assert file["reason"] == {"kind": "driver"}
    assert file["lines"][0]["answer"] == "here"


def test_write_makes_the_file_that_is_right_here(
    solve: Solve, tmp_path: Path, channels: list[str]
) -> None:
    result = solve("environment.yml", "--write", "new.yml")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "environment.yml").read_text() == FILE
    assert (tmp_path / "new.yml").read_text() == (
        "# ours\n"
        "name: train\n"
        "channels:\n"
        f"  - {channels[1]}\n"
        "  - conda-forge\n"
        f"  - {channels[3]}\n"
        "dependencies:\n"
        "  - cuda-gpu\n"
        "  - python=3.13   # not older\n"
        "  - cuda-version=12  # was pytorch-cuda=12.1\n"
        "  - cuda-nvcc\n"
        "  - numba-cuda\n"
        "  - numpy\n"
        "  - cuda-nvrtc  # was nvidia-cuda-nvrtc-cu12==12.1.105\n"
        "  - pip:\n"
        "      - requests\n"
    )
    assert "-  - pytorch-cuda=12.1" in result.stdout
    again = json.loads(solve("new.yml", "--json").stdout)["files"][0]
    assert (again["toolkit"], again["fit"]) == ("12.9", "native")
    assert {line["answer"] for line in again["lines"]} == {"here", "hidden"}


def test_a_lock_that_is_written_keeps_all_lines(solve: Solve, tmp_path: Path) -> None:
    """It became `dependencies: []`: packages that are not about CUDA, or elsewhere, were lost."""
    (tmp_path / "spec.txt").write_text(
        "@EXPLICIT\n"
        "https://conda.example/forge/noarch/cuda-version-12.6-h3060b56_3.conda\n"
        "https://conda.example/forge/linux-64/cuda-nvrtc-12.6.85-he02047a_2.conda\n"
        "https://conda.example/forge/linux-64/numpy-2.3.0-py311h519dc76_0.conda\n"
        "https://conda.example/forge/linux-64/cuda-nvcc-12.6.85-he02047a_2.conda\n"
        "https://conda.example/forge/linux-64/gpu-thing-1.0-0.conda\n"
    )
    done = solve("spec.txt", "--write", "new.yml")
    written = (tmp_path / "new.yml").read_text()
    for spec in ("cuda-version=12.6", "cuda-nvrtc=12.6.85", "numpy=2.3.0", "gpu-thing=1.0"):
        assert f"  - {spec}\n" in written
    assert "  - cuda-nvcc" in written
    assert "1 line, and a new file keeps name and version" in done.stdout


def test_a_line_that_is_not_about_cuda_loses_a_channel_that_goes(
    solve: Solve, tmp_path: Path
) -> None:
    """The new file does not name the channel, so the line had no solution in it."""
    (tmp_path / "environment.yml").write_text(
        "name: x\nchannels: [pytorch, conda-forge]\n"
        "dependencies:\n  - cuda-nvrtc\n  - pytorch::soxr=0.5\n"
    )
    done = solve("environment.yml", "--write", "new.yml")
    assert "  - soxr=0.5  # was pytorch::soxr=0.5\n" in (tmp_path / "new.yml").read_text()
    assert "-n gpu" not in done.stdout  # the file has a name


def test_a_name_with_a_typing_mistake_is_told_what_it_is_near_to(
    solve: Solve, tmp_path: Path
) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [cuda-cor]\n")
    (file,) = json.loads(solve("environment.yml", "--json").stdout)["files"]
    assert file["lines"][0]["words"] == "not known here; did you mean cuda-core?"


def test_nothing_is_overwritten(solve: Solve, tmp_path: Path) -> None:
    result = solve("environment.yml", "--write", "environment.yml")
    assert result.returncode != 0
    assert "environment.yml exists, and nothing is overwritten" in result.stderr
    assert (tmp_path / "environment.yml").read_text() == FILE


@pytest.mark.parametrize(
    ("words", "cause", "step"),
    [
        (["no.yml"], "no.yml: there is no such file", "check the name"),
        (
            ["environment.yml", "cuda-core"],
            "cannot be combined with specs",
            "write the specs into it",
        ),
        (["environment.yml", "--write", "new.txt"], "does not end in .yml", "new.yml"),
        (["no-cuda.yml", "--write", "new.yml"], "is about CUDA, so", "use the file as it is"),
        (
            ["open.toml"],
            "line 2: it is not valid TOML: a bracket or quote is not closed",
            "correct",
        ),
        (["environment.yml", "--environment", "gpu"], "has one environment", "leave out"),
        (["environment.yml", "--everywhere"], "exclude each other", "give one of them"),
        (["cuda-core", "--write", "new.yml"], "apply to a file", "ctk solve environment.yml"),
        (["./environment.yml", "x.yml", "--write", "n.yml"], "are for one file", "name one"),
    ],
)
def test_what_says_nothing_is_refused(
    words: list[str], cause: str, step: str, solve: Solve, tmp_path: Path
) -> None:
    (tmp_path / "no-cuda.yml").write_text("dependencies: [numpy]\n")
    (tmp_path / "open.toml").write_text('[workspace]\nchannels = ["x"\n')
    result = solve(*words)
    assert result.returncode != 0 and "Traceback" not in result.stderr
    assert cause in result.stderr and step in result.stderr


def test_an_environment_of_a_pixi_manifest_is_named(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(
        '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
        '[feature.gpu.system-requirements]\ncuda = "12.6"\n'
        '[feature.gpu.dependencies]\nnumba-cuda = "*"\n'
        '[environments]\ngpu = ["gpu"]\n'
    )
    without = solve("pixi.toml", driver="")
    assert "lines about CUDA are in gpu: name one with --environment" in without.stdout
    of_gpu = solve("pixi.toml", "--environment", "gpu", driver="")
    assert "for a driver for CUDA 12.6, which the file states" in of_gpu.stdout
    assert "toolkit 12.6, native" in of_gpu.stdout
    unknown = solve("pixi.toml", "--environment", "cpu", driver="")
    assert unknown.returncode != 0 and "gpu" in unknown.stderr


def test_an_environment_that_is_not_about_cuda_is_not_written(solve: Solve, tmp_path: Path) -> None:
    """Its channels are those of the others too, which would break."""
    (tmp_path / "pixi.toml").write_text(
        '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
        '[feature.gpu.dependencies]\nnumba-cuda = "*"\n'
    )
    default = solve("pixi.toml", "--write", "new.toml")
    assert default.returncode != 0
    assert "next: name one that has, such as --environment gpu" in default.stderr
    assert not (tmp_path / "new.toml").exists()
    named = solve("pixi.toml", "--environment", "gpu", "--write", "new.toml")
    assert '\n  gpu = ["gpu"]\n' in named.stdout
    assert '[feature.gpu.dependencies] the line `cuda-gpu = "*"`' in named.stdout
    assert '[feature.gpu.system-requirements] the line `cuda = "13.0"`' in named.stdout
    assert "cuda-gpu" not in (tmp_path / "new.toml").read_text()


def test_a_pixi_toml_that_states_another_driver_is_told_so(solve: Solve, tmp_path: Path) -> None:
    """pixi locks for the driver of the file, whatever --driver was."""
    (tmp_path / "pixi.toml").write_text(PIXI.replace('"13.0"', '"12.6"'))
    result = solve("pixi.toml", "--write", "new.toml")
    assert "pixi locks this file for driver 12.6" in result.stdout
    assert 'cuda-gpu = "*"' in (tmp_path / "new.toml").read_text()


def test_a_python_that_no_recipe_is_for_is_not_built_for(built: Workspace, tmp_path: Path) -> None:
    """It was built for this machine's Python, gigabytes that the file excludes."""
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: ['python>=3.8,<3.10', pytorch, numba-cuda]\n")
    stated = ["--driver", "13.0", "--arch", "9.0"]
    solved = ctk(built, "solve", str(file), *stated, check=True)
    assert "no build here is for python>=3.8,<3.10" in solved.stdout
    assert "ctk build" not in solved.stdout
    refused = ctk(built, "build", "--file", str(file), *stated)
    assert refused.returncode != 0
    assert "no build here is for python>=3.8,<3.10" in refused.stderr


def test_a_wheel_of_python_alone_stays_for_macos(built: Workspace, tmp_path: Path) -> None:
    """What it is the same as needs Python alone, and its wheel is for every platform."""
    file, new = tmp_path / "pixi.toml", tmp_path / "new.toml"
    file.write_text(
        '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64", "osx-arm64"]\n'
        '[system-requirements]\ncuda = "13.0"\n[pypi-dependencies]\nnvidia-ml-py = "*"\n'
    )
    stated = ["--driver", "13.0", "--arch", "9.0"]
    ctk(built, "solve", str(file), *stated, "--write", str(new), check=True)
    target = tomllib.loads(new.read_text())["target"]
    assert target["osx-arm64"]["pypi-dependencies"] == {"nvidia-ml-py": "*"}
    assert "nvidia-ml-py" in target["linux-64"]["dependencies"]


def test_pixi_is_told_how_to_find_nvcc_of_cuda_12(built: Workspace, tmp_path: Path) -> None:
    """Ours of CUDA 13 hides it under strict priority, also where conda-forge is not asked."""
    file = tmp_path / "pixi.toml"
    file.write_text(
        '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
        '[dependencies]\ncuda-version = "12.6.*"\ncuda-nvcc = "*"\n'
    )
    stated = ["--driver", "12.8", "--arch", "9.0"]
    done = ctk(built, "solve", str(file), *stated, check=True)
    assert "pixi does not find conda-forge's cuda-nvcc behind this channel" in done.stdout
    assert f"`ctk solve {file} --driver 12.8 --arch 9.0 --base conda-forge`" in done.stdout


def test_builds_of_a_channel_that_is_removed_are_named(solve: Solve, tmp_path: Path) -> None:
    """conda-forge has none of them, and no client can create what is written."""
    (tmp_path / "environment.yml").write_text(
        "channels: [defaults]\ndependencies:\n  - xz=5.4.6=h5eee18b_1\n  - pytorch-cuda=12.1\n"
    )
    done = solve("environment.yml", "--write", "new.yml")
    assert "leave out the build of xz=5.4.6=h5eee18b_1" in done.stdout
    assert "to use it" not in done.stdout


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("  - numba-cuda=0.20.0\n", "to use it, type `CONDA_OVERRIDE_CUDA=13.0 conda env create"),
        (
            "  - pip:\n    - numba-cuda==0.20.0\n",
            "to use it, type `CONDA_OVERRIDE_CUDA=13.0 conda env create",
        ),
        ("  - python=3.7\n", "has a solution with conda-forge, type `ctk solve new.yml"),
    ],
)
def test_no_command_is_printed_that_is_refused(
    line: str, step: str, project: Workspace, solve: Solve, channels: list[str], tmp_path: Path
) -> None:
    """`ctk env create` was, of a file with a line that no channel of the machine has."""
    (tmp_path / "environment.yml").write_text(f"dependencies:\n  - cuda-nvrtc\n{line}")
    shutil.copytree(channels[3], tmp_path / "base")  # a base channel that is not conda-forge
    words = ["--driver", "13.0", *channels[:3], "base", "--platform", "linux-64"]
    done = ctk(project, "solve", "environment.yml", "--write", "new.yml", *words)
    assert "written: new.yml" in done.stdout and step in done.stdout
    assert "ctk env create" not in done.stdout


def test_a_fleet_gets_what_a_file_asks_for(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [numba-cuda]\n")
    result = solve("environment.yml", "--driver", "12.6:8.0", "--driver", "13.0:9.0", driver="")
    assert "1 environment serves 2 kinds of machines" in result.stdout


def test_a_file_in_the_place_of_specs_is_sent_to_its_option(
    project: Workspace, tmp_path: Path
) -> None:
    result = ctk(project, "env", "create", "environment.yml", "--prefix", str(tmp_path / "env"))
    assert result.returncode != 0
    assert "ctk env create --file environment.yml --prefix ./my-env" in result.stderr


def test_what_a_file_lacks_here_is_said_before_anything_is_made(
    project: Workspace, solve: Solve, channels: list[str], tmp_path: Path
) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [cuda-core, biopython]\n")
    words = ["--file", "environment.yml", "--prefix", "env", "--driver", "13.0"]
    result = ctk(project, "env", "create", *words, *channels)
    assert result.returncode != 0 and not (tmp_path / "env").exists()
    assert "no channel has biopython" in result.stderr
    assert "ctk env create cuda-native cuda-core --prefix env --driver 13.0" in result.stderr


@pytest.mark.parametrize("asking", ["", "cuda-gpu, "])
def test_what_asks_for_cuda_builds_is_said_to_be_added(
    asking: str, project: Workspace, solve: Solve, channels: list[str], tmp_path: Path
) -> None:
    (tmp_path / "environment.yml").write_text(f"dependencies: [{asking}cuda-nvrtc]\n")
    words = ["--file", "environment.yml", "--prefix", "env", "--driver", "13.0"]
    done = ctk(project, "env", "create", *words, *channels)  # the channels have no files
    assert ("cuda-native is added, which asks for CUDA builds" in done.stdout) is not bool(asking)


@pytest.mark.parametrize(
    ("lines", "cause", "step"),
    [
        ("numba-cuda, python=3.7", "with python=3.7 here", "another Python into the file"),
        ("numba-cuda, numpy, numpy=0.1", "have no solution here", "--base, or create what is"),
    ],
)
def test_a_pin_beside_the_lines_about_cuda_is_not_ignored(
    lines: str,
    cause: str,
    step: str,
    project: Workspace,
    solve: Solve,
    channels: list[str],
    tmp_path: Path,
) -> None:
    """It created the lines about CUDA alone, with another Python, and said nothing."""
    (tmp_path / "environment.yml").write_text(f"dependencies: [{lines}]\n")
    words = ["--file", "environment.yml", "--prefix", "env", "--driver", "13.0"]
    refused = ctk(project, "env", "create", *words, *channels)
    assert refused.returncode != 0 and not (tmp_path / "env").exists()
    assert cause in refused.stderr and step in refused.stderr
    assert "create what is about CUDA alone: `ctk env create" in refused.stderr


def test_a_build_of_a_file_is_of_the_toolkit_that_its_machine_gets(
    built: Workspace, tmp_path: Path
) -> None:
    """Not of the newest of the driver, which the file does not take: the step would not help."""
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [numba-cuda, cuda-version=12, cuda-cupti]\n")
    stated = ["--driver", "13.0", "--arch", "9.0"]
    solved = ctk(built, "solve", str(file), *stated)
    (step,) = re.findall(r"`ctk (build [^`]+)`", solved.stdout)
    said = ctk(built, *shlex.split(step), "--dry-run", check=True).stdout
    assert "for toolkit 12.9, which this machine gets with it" in said
    assert "cuda-cupti-cuda12.9-" in said and "-cuda13." not in said


def test_a_build_of_a_file_is_of_the_native_toolkit_that_is_not_built_yet(
    built: Workspace, tmp_path: Path
) -> None:
    """It was of the toolkit that the channel has for the machine: 12.9, compat."""
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [cuda-core, cuda-nvrtc]\n")
    stated = ["--driver", "12.4", "--arch", "8.9"]
    said = ctk(built, "build", "--file", str(file), *stated, "--dry-run", check=True).stdout
    assert "for toolkit 12.4, which this machine gets with it" in said


def test_a_build_of_a_file_is_for_its_python(built: Workspace, tmp_path: Path) -> None:
    """The command that `ctk solve` printed built for this machine's Python, which is another."""
    file = tmp_path / "environment.yml"
    minor = "3.13" if sys.version_info[:2] == (3, 12) else "3.12"
    file.write_text(f"dependencies: [python={minor}, numba-cuda]\n")
    solved = ctk(built, "solve", str(file), "--driver", "13.0", "--arch", "9.0", check=True)
    assert "this channel has numba-cuda for Python" in solved.stdout
    assert "name --base conda-forge" in solved.stdout
    (step,) = re.findall(r"`ctk (build [^`]+)`", solved.stdout)
    said = ctk(built, *shlex.split(step), "--dry-run", check=True).stdout
    assert f"for Python {minor}, which it asks for" in said
    assert f"numba-cuda-cuda13-py{minor.replace('.', '')}-" in said


def test_no_version_is_to_be_locked_that_the_toolkit_of_the_file_excludes(
    built: Workspace, tmp_path: Path
) -> None:
    """`ctk release add` of a version for CUDA 13 was, and what helps was not said."""
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [cuda-version=12.6, pip: ['torch>=2.6']]\n")
    solved = ctk(built, "solve", str(file), "--driver", "13.0", "--arch", "9.0", check=True)
    words = " ".join(solved.stdout.split())
    assert "of here is for toolkit 12.9: loosen cuda-version=12.6" in words
    assert "ctk release add" not in words


def test_a_file_is_explained_too(solve: Solve) -> None:
    said = "12.9 is picked, native"
    assert said not in solve("environment.yml").stdout
    assert said in solve("environment.yml", "--explain").stdout


def test_the_line_that_asks_for_the_toolkit_is_named(solve: Solve, tmp_path: Path) -> None:
    """A wheel's name cost a newer toolkit, and nothing said which line it was."""
    text = "dependencies:\n  - cuda-nvrtc\n  - pip:\n    - cupy-cuda12x\n    - torch\n"
    (tmp_path / "environment.yml").write_text(text)
    said = solve("environment.yml").stdout
    assert "cuda-version=12 comes from line 4: cupy-cuda12x\n" in said
    (tmp_path / "environment.yml").write_text("dependencies: [cuda-nvrtc, cuda-version=12]\n")
    assert "comes from line" not in solve("environment.yml").stdout


def test_the_major_in_the_name_of_a_wheel_gives_way_to_that_of_the_file(
    solve: Solve, tmp_path: Path
) -> None:
    text = "dependencies:\n  - cuda-version=13.0\n  - pip:\n    - cupy-cuda12x\n"
    (tmp_path / "environment.yml").write_text(text)
    done = solve("environment.yml", "--write", "new.yml")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "new.yml").read_text()
    assert "cuda-version=13.0" in written and "cuda-version=12" not in written
    assert "- cupy  # was cupy-cuda12x" in written


@pytest.mark.parametrize(
    ("lines", "specs"),
    [
        (["nvidia-cuda-runtime-cu12==12.6.77"], [["cuda-cudart", "cuda-version=12.6"]]),
        (["nvidia-cuda-nvrtc-cu12>=12.6,<12.8"], [["cuda-nvrtc", "cuda-version=12.6"]]),
        # cuSPARSE has numbers of its own, and a patch that is not here is of the same toolkit
        (["nvidia-cusparse-cu12==12.5.4.9"], [["libcusparse", "cuda-version=12.6"]]),
        (["nvidia-cuda-nvrtc-cu12>=12.4"], [["cuda-nvrtc", "cuda-version >=12.6,<13"]]),
        # what has no version follows what has one
        (
            ["nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12==12.6.77"],
            [["cuda-nvrtc", "cuda-version=12.6"], ["cuda-cudart", "cuda-version=12.6"]],
        ),
        (["nvidia-cuda-nvrtc-cu12"], [["cuda-nvrtc", "cuda-version=12"]]),
    ],
)
def test_the_version_of_a_wheel_chooses_the_toolkit(
    lines: list[str], specs: list[list[str]], solve: Solve, tmp_path: Path
) -> None:
    """Versions were dropped, and `==12.4.127` became the newest of CUDA 12."""
    (tmp_path / "requirements.txt").write_text("\n".join(lines) + "\n")
    (file,) = json.loads(solve("requirements.txt", "--json").stdout)["files"]
    assert [line["specs"] for line in file["lines"]] == specs


def test_a_version_of_a_wheel_that_goes_is_said(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("nvidia-cudnn-cu12==8.9.2.26\n")
    (file,) = json.loads(solve("requirements.txt", "--json").stdout)["files"]
    assert "not in that version, which is left out" in file["lines"][0]["words"]


def test_the_line_is_named_because_of_which_the_major_of_a_wheel_goes(
    built: Workspace, tmp_path: Path
) -> None:
    """It said that other lines ask for another CUDA, and none did: nvcc is for CUDA 13 only."""
    file = tmp_path / "environment.yml"
    file.write_text("dependencies:\n  - cuda-nvcc\n  - pip:\n    - cupy-cuda12x\n")
    done = ctk(built, "solve", str(file), "--driver", "13.0", "--arch", "9.0", check=True)
    words = " ".join(done.stdout.split())
    assert "cuda-version=12 is left out, because cuda-nvcc does not go" in words.replace(
        "12 and", ""
    )


def test_a_file_with_numba_is_told_of_its_target_for_cuda(solve: Solve, tmp_path: Path) -> None:
    said = "numba: for kernels on the GPU, add numba-cuda"
    for more in ("", ", numba-cuda"):
        (tmp_path / "environment.yml").write_text(f"dependencies: [cuda-nvrtc, numba{more}]\n")
        assert (said in solve("environment.yml").stdout) is not bool(more)


def test_a_wheel_with_the_name_of_its_package_moves_to_conda_with_its_bounds(
    built: Workspace, tmp_path: Path
) -> None:
    """torchcodec stayed with pip, and brought pip's torch; the bounds of torch were lost."""
    text = "dependencies:\n  - pip:\n    - torch>=2.13,<2.16\n    - torchcodec\n"
    file, new = tmp_path / "environment.yml", tmp_path / "new.yml"
    file.write_text(text)
    stated = ["--driver", "13.0", "--arch", "9.0"]
    done = ctk(built, "solve", str(file), *stated, "--write", str(new), check=True)
    written = new.read_text()
    assert "- pytorch >=2.13,<2.16  # was torch>=2.13,<2.16\n" in written
    assert "- torchcodec  # was for pip\n" in written and "pip:" not in written
    assert "torchcodec: for videos and sound, add ffmpeg" in done.stdout


def test_a_package_that_needs_another_version_than_the_file_pins_is_not_taken_from_here(
    built: Workspace, tmp_path: Path
) -> None:
    """`ctk build` made the newest PyTorch for it, and `ctk env create` installed that."""
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: ['pytorch>=2.4,<2.9', torchcodec, numba-cuda]\n")
    stated = ["--driver", "13.0", "--arch", "9.0"]
    done = ctk(built, "solve", str(file), *stated, check=True)
    assert "and not pytorch>=2.4,<2.9" in " ".join(done.stdout.split())
    assert "to build what this channel lacks" not in done.stdout
    prefix = tmp_path / "env"
    refused = ctk(built, "env", "create", "--file", str(file), "--prefix", str(prefix), *stated)
    assert refused.returncode != 0 and not prefix.exists()
    assert "no channel has pytorch>=2.4,<2.9 and torchcodec" in refused.stderr


def test_what_no_build_helps_is_not_told_to_be_built(built: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [cuda-version=13, cupy]\n")
    solved = ctk(built, "solve", str(file), "--driver", "12.9")
    assert solved.returncode != 0 and "ctk build" not in solved.stdout + solved.stderr
    said = ctk(built, "build", "--file", str(file), "--driver", "12.9", "--dry-run")
    assert said.returncode != 0 and "needs a driver for CUDA 13.0" in said.stderr


def test_a_toolkit_of_cuda_12_is_told_what_has_the_rest_of_it(
    built: Workspace, tmp_path: Path
) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [cuda-version=12.6, cuda-toolkit]\n")
    done = ctk(built, "solve", str(file), "--driver", "12.8", "--json", check=True)
    words = json.loads(done.stdout)["files"][0]["lines"][1]["words"]
    assert "write cuda-libraries and cuda-tools, which have the rest here" in words
    (step,) = re.findall(r"`ctk (build [^`]+)`", words)
    said = ctk(built, *shlex.split(step), "--dry-run", check=True).stdout
    assert "libcublas-cuda12.6-" in said


def test_the_lines_of_a_project_stay_and_are_named(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = [\n  "numba-cuda[cu12]",\n]\n'
        '[tool.pixi.workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
    )
    done = solve("pyproject.toml", "--write", "new.toml")
    assert done.returncode == 0, done.stderr
    assert "line 5, numba-cuda[cu12]: pixi 0.71 or newer takes conda's package" in done.stdout
    new = tomllib.loads((tmp_path / "new.toml").read_text())
    assert new["project"]["dependencies"] == ["numba-cuda[cu12]"]
    (mapping,) = new["tool"]["pixi"]["workspace"]["conda-pypi-map"].values()
    assert mapping == {"mapping": {"numba-cuda": "numba-cuda"}}


def test_nvcc_of_cuda_12_stays_in_the_file_where_conda_forge_is_not_asked(
    built: Workspace, tmp_path: Path
) -> None:
    """It was replaced by cuda-nvrtc-dev, which compiles no program."""
    file, new = tmp_path / "environment.yml", tmp_path / "new.yml"
    file.write_text("dependencies: [cuda-version=12.6, cuda-nvcc, cuda-nvrtc]\n")
    stated = ["--driver", "12.8", "--arch", "9.0"]
    done = ctk(built, "solve", str(file), *stated, "--write", str(new), check=True)
    assert "conda-forge has it: name it with --base conda-forge" in " ".join(done.stdout.split())
    assert "not solved, because another channel has it: cuda-nvcc" in done.stdout
    assert "cuda-nvcc" in new.read_text() and "nvrtc-dev" not in new.read_text()
