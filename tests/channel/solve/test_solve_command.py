"""`ctk solve` for its user: the options, the detected machine, the output, and the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from conftest import ROOT, ctk, same_recipes
from ctk.cli.main import app
from ctk.cli.specs import only_specs
from ctk.cli.work.picks import wanted_specs
from ctk.core import console
from ctk.core.checkout import Workspace, base_channel
from ctk.core.errors import BadValue, UnknownName
from ctk.core.platforms import this_platform
from ctk.solve.machine import (
    Machine,
    compute_capability,
    detected,
    driver_version,
    machine,
    overstated,
    python_specs,
)
from ctk.solve.solve import Scenario
from kit import foreign_channel
from kit.small_channel import base, channel, record, write

FOREIGN = "linux-aarch64" if this_platform() != "linux-aarch64" else "linux-64"
NO_DRIVER = {"CONDA_OVERRIDE_CUDA": ""}
V100 = {"CONDA_OVERRIDE_CUDA": "13.0", "CONDA_OVERRIDE_CUDA_ARCH": "7.0"}


def override(monkeypatch: pytest.MonkeyPatch, driver: str, arch: str = "") -> None:
    """States a driver and a GPU of this machine, with the variables of CEP 30 and CEP 46."""
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", driver)
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA_ARCH", arch)


# --- what options mean


@pytest.mark.parametrize(
    ("read", "texts", "value"),
    [
        (driver_version, ("12.4", " 12.4", "12.4.1", "12.4.0.0", "12.04"), "12.4"),
        (driver_version, ("13", "13.0"), "13.0"),
        (driver_version, ("12.10",), "12.10"),
        (compute_capability, ("9.0", "90", "sm_90", "sm_90a", "sm90"), "9.0"),
        (compute_capability, ("compute_121",), "12.1"),
        (compute_capability, ("100",), "10.0"),
        (compute_capability, ("12.0f",), "12.0"),
        (python_specs, ("3.13",), ("python=3.13",)),
        (python_specs, ("3.13.2",), ("python=3.13.2",)),
        (python_specs, ("3.14t",), ("python=3.14", "python_abi=3.14=*_cp314t")),
    ],
)
def test_drivers_gpus_and_pythons_may_be_written_as_their_programs_do(
    read: Callable[[str], object], texts: tuple[str, ...], value: object
) -> None:
    assert [read(text) for text in texts] == [value] * len(texts)


@pytest.mark.parametrize(
    ("read", "texts", "said"),
    [
        (
            driver_version,
            ("abc", "", "13.", "12.4.x", "v12", "12,4", "-1"),
            "such as 13.0; or none",
        ),
        (driver_version, ("580", "580.65.06", "535.104"), "own version"),
        (driver_version, ("535", "535.104", "552.22"), "write 12."),
        (
            compute_capability,
            ("12", "9", "H500", "sm_9", "9.0.1", "90b", "", "sm-90"),
            "9.0, sm_90 or none",
        ),
        (python_specs, ("3", "abc", "cp313", "3.13 t", ">=3.12"), "not a version of Python"),
        (machine, ("win64",), "win-64"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_form_that_is_wanted(
    read: Callable[[str], object], texts: tuple[str, ...], said: str
) -> None:
    for text in texts:
        with pytest.raises((BadValue, UnknownName)) as error:
            read(text)
        assert said in f"{error.value.cause} {error.value.step}"


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("H100", "9.0"),
        ("nvidia h100", "9.0"),
        ("Tesla V100", "7.0"),
        ("RTX4090", "8.9"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA A100-SXM4-40GB", "8.0"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("Quadro RTX 6000", "7.5"),
        ("H1000", ""),
        ("RTX 8000 Ada", ""),
        ("RTX 3000 Ada", "8.9"),
        ("NVIDIA GeForce GTX 1660 Ti", "7.5"),
        ("A10G", "8.6"),
        ("", ""),
    ],
)
def test_the_compute_capability_of_a_gpu_that_is_named_is_said(name: str, gpu: str) -> None:
    with pytest.raises(BadValue) as error:
        compute_capability(name)
    assert error.value.step == f"write it as {gpu}" if gpu else "cuda-gpus" in error.value.step


def test_a_path_is_no_spec_and_of_a_recipe_there_is_another_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("./mine", "/mine", "recipe.yaml", "mine/recipe.yaml", "mine/", ".."):
        with pytest.raises(BadValue, match="is a path") as error:
            only_specs(typer.Context(typer.main.get_command(app)), [path])
        assert f"ctk build-recipe {path}" in error.value.step
    (tmp_path / "env a" / "conda-meta").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadValue, match="env a is an environment"):
        only_specs(typer.Context(typer.main.get_command(app)), ["env a"])
    specs = [
        "ruamel.yaml",
        "conda-forge/linux-64::pip",
        "pip[channel=file:///mine]",
        "cuda-version=13.0=native*",
    ]
    assert (
        only_specs(typer.Context(typer.main.get_command(app)), specs)
        == [*wanted_specs(specs, None)]
        == specs
    )


# --- the machine


def test_a_gpu_is_never_there_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    override(monkeypatch, "", "9.0")
    assert detected(this_platform()) == (None, None)
    assert (machine().arch, machine().words) == (None, "no driver given")
    assert machine(driver="none").arch is None
    with pytest.raises(BadValue, match="without a driver") as error:
        machine(arch="9.0")
    assert "--driver" in error.value.step
    virtual = {
        p.name.normalized for p in Scenario((), this_platform(), None, "9.0").virtual_packages
    }
    assert "__cuda_arch" not in virtual


def test_a_driver_given_by_hand_comes_with_the_gpu_given_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    override(monkeypatch, "13.4", "9.0")
    assert (machine(driver="12.4").arch, machine(driver="12.4").words) == (
        None,
        "driver 12.4, GPU not given",
    )
    assert machine(driver="12.4", arch="7.0").words == "driver 12.4, GPU 7.0"
    assert machine(driver="12.4", arch="none").words == "driver 12.4, no GPU"
    assert machine(arch="sm_70").words == "driver 13.4 given, GPU 7.0"
    assert machine(driver="none").words == "no driver"


@pytest.mark.parametrize("platform", [None, FOREIGN])
@pytest.mark.parametrize(
    ("driver", "arch", "read"),
    [
        ("12.9.1", "", ("12.9", None)),
        (" 12.9 ", " 9.0 ", ("12.9", "9.0")),
        ("13", "12.1", ("13.0", "12.1")),
        ("999", "", ("999.0", None)),
        ("  ", "9.0", (None, None)),
        ("13.0", " ", ("13.0", None)),
    ],
)
def test_variables_are_read_as_conda_reads_them_on_every_platform(
    monkeypatch: pytest.MonkeyPatch,
    platform: str | None,
    driver: str,
    arch: str,
    read: tuple[str | None, str | None],
) -> None:
    """conda/plugins/types.py of conda 26.7, and nvidia_virtual_packages/cuda/arch.py of
    nvidia-virtual-packages 0.2.
    """
    override(monkeypatch, driver, arch)
    assert (machine(platform).driver, machine(platform).arch) == read


@pytest.mark.parametrize("platform", [None, FOREIGN])
@pytest.mark.parametrize(
    ("driver", "arch", "variable", "example"),
    [
        ("abc", "", "CONDA_OVERRIDE_CUDA", "12.9"),
        ("none", "", "CONDA_OVERRIDE_CUDA", "12.9"),
        ("580.95.05", "9.0", "CONDA_OVERRIDE_CUDA", "12.9"),
        ("13.0", "sm_90", "CONDA_OVERRIDE_CUDA_ARCH", "9.0"),
        ("13.0", "90", "CONDA_OVERRIDE_CUDA_ARCH", "9.0"),
        ("13.0", "9.0.1", "CONDA_OVERRIDE_CUDA_ARCH", "9.0"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named_with_what_to_set_it_to(
    monkeypatch: pytest.MonkeyPatch,
    platform: str | None,
    driver: str,
    arch: str,
    variable: str,
    example: str,
) -> None:
    override(monkeypatch, driver, arch)
    with pytest.raises(BadValue) as error:
        machine(platform)
    assert error.value.cause.startswith(f"{variable}: ")
    assert error.value.step.startswith(
        f"`export {variable}={example}`, or `export {variable}=` for none"
    )
    assert f"`unset {variable}`" in error.value.step


def test_a_driver_that_no_toolkit_is_for_is_doubted_where_it_is_stated(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Workspace(ROOT)
    for driver, doubted in (
        ("99", True),
        ("14.0", True),
        ("13.9", False),
        ("12.9", False),
        ("", False),
    ):
        override(monkeypatch, driver)
        assert bool(overstated(machine(), where)) is doubted, driver
    assert overstated(machine(driver="99"), where).startswith(
        "--driver states a driver for CUDA 99.0"
    )
    # Of one that was detected nothing is said, however new; and nothing where no toolkit is known.
    assert overstated(Machine(this_platform(), "99.0", None, ""), where) == ""
    assert overstated(machine(driver="99"), checkout) == ""


@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64"])
def test_the_glibc_of_a_machine_is_what_condas_variable_states(
    checkout: Workspace, platform: str
) -> None:
    words = ("solve", "needs-glibc", "--platform", platform)
    whose = (
        "this machine has"
        if platform == this_platform()
        else f"a {platform} machine is taken to have"
    )
    assert f"needs-glibc 1.0 needs glibc 2.98, and {whose} " in ctk(checkout, *words).stderr
    assert ctk(checkout, *words, CONDA_OVERRIDE_GLIBC="2.98.1").returncode == 0
    said = ctk(checkout, *words, CONDA_OVERRIDE_GLIBC="2.97.0").stderr
    assert "needs glibc 2.98, and CONDA_OVERRIDE_GLIBC states 2.97.0" in said
    said = ctk(checkout, *words, CONDA_OVERRIDE_GLIBC="new").stderr
    assert (
        "CONDA_OVERRIDE_GLIBC: 'new' is not a version of glibc" in said
        and "`export CONDA_OVERRIDE_GLIBC=2.34`" in said
    )


# --- the command


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A folder with the small channel and its base channel only."""
    if this_platform() != "linux-64":  # test_why tests the functions on every platform
        pytest.skip("the small channel's packages without a CUDA version are for linux-64")
    where = Workspace(tmp_path_factory.mktemp("checkout"))
    write(where.channel, channel())
    write(where.base_channel, base())
    return where


def test_the_first_line_says_what_the_pick_means_for_the_machine(checkout: Workspace) -> None:
    printed = ctk(checkout, "solve", "cuda-core", check=True, **V100).stdout
    ours, _, others = printed.partition("from base\n")
    assert re.search(r"^from channel$[^$]+^cuda-version +12\.9 +native_100 ", ours, re.M)
    assert "cuda-version " not in others and "python " in others
    assert (
        printed.splitlines()[0] == "toolkit 12.9, native: the driver loads the PTX of this toolkit "
        "(linux-64, driver 13.0 given, GPU 7.0 given; 6 packages, 6.0 MB)"
    )


def test_a_better_toolkit_that_is_not_built_here_is_said_with_what_builds_it(
    checkout: Workspace, project: Workspace, tmp_path: Path
) -> None:
    for place in (project.recipes, project.variants, project.build_config, checkout.output):
        (tmp_path / place.name).symlink_to(place)
    Workspace(tmp_path).notes.mkdir(parents=True)
    (Workspace(tmp_path).notes / "rendered").symlink_to(project.notes / "rendered")
    words = ("solve", "cuda-core", "--driver", "12.4", "--arch", "9.0")
    _, line, *_ = ctk(Workspace(tmp_path), *words, check=True).stdout.splitlines()
    assert (
        line
        == "toolkit 12.4 would be native, but is not built here: `ctk build --driver 12.4 --arch"
        " 9.0`"
    )
    assert (
        json.loads(ctk(Workspace(tmp_path), *words, "--json", check=True).stdout)["not_built"]
        == "12.4"
    )
    failed = ctk(Workspace(tmp_path), "solve", "cuda-nvml-dev", *words[2:])
    assert failed.stderr.splitlines()[1:] == [
        "next: run `ctk build cuda-nvml-dev --driver 12.4 --arch 9.0`"
    ]
    # Somebody else's channel is not for this checkout to build.
    others = ctk(Workspace(tmp_path), *words, "--channel", str(checkout.channel), check=True).stdout
    assert "is not built here" not in others


@pytest.mark.parametrize(
    "name", ["conda-forge/label/dev", "conda-forge", "https://example.org/a/b"]
)
def test_a_relative_folder_is_no_channel_of_a_server(tmp_path: Path, name: str) -> None:
    """Before, a misspelled output/recipe/x was asked for at a server, where somebody else may have
    it.
    """
    assert base_channel(name, Workspace(tmp_path)) == name
    assert base_channel("output/recipe/x", Workspace(tmp_path)) == Path.cwd() / "output/recipe/x"


def linked(project: Workspace, folder: Path) -> Workspace:
    """A checkout in a folder with the recipes and locks of the project, and nothing built."""
    for place in (
        project.recipes,
        project.variants,
        project.build_config,
        project.root / "pyproject.toml",
    ):
        (folder / place.name).symlink_to(place)
    return Workspace(folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("solve libcublas", "libcublas is not in CHANNEL or BASE"),
        ("solve libcublas --everywhere", "libcublas is not in CHANNEL or BASE"),
        ("solve libcublas --driver 12.4 --driver 13.0", "libcublas is not in CHANNEL or BASE"),
        ("env create libcublas --prefix my-env", "libcublas is not in CHANNEL or BASE"),
        ("env pack libcublas -o my.run", "libcublas is not in CHANNEL or BASE"),
        ("solve cuda-core --platform win-arm64", "the channel has nothing for win-arm64"),
        ("verify", "there is no channel with packages for a platform in EMPTY"),
        ("solve cuda-core", "there is no channel in ABSENT"),
        ("solve cuda-core --channel my-other", "my-other and ABSENT"),
        ("env create cuda-core --prefix my-env", "there is no channel in ABSENT"),
        ("site my-site", "there is no channel in ABSENT"),
    ],
)
def test_what_a_named_channel_lacks_is_not_for_this_checkout_to_build(
    checkout: Workspace, project: Workspace, tmp_path: Path, words: str, said: str
) -> None:
    """As a keeper meets it after `ctk rollback`: the folder has packages that readers of its state
    do not see.
    """
    own = linked(project, tmp_path)
    places = {"CHANNEL": checkout.channel, "BASE": checkout.base_channel}
    places |= {"EMPTY": write(tmp_path / "empty", iter(())), "ABSENT": tmp_path / "absent"}
    named = places[next((word for word in ("EMPTY", "ABSENT") if word in said), "CHANNEL")]
    base_ = () if words == "verify" else ("--base", str(checkout.base_channel))
    done = ctk(
        own, *words.replace("my", str(tmp_path / "my")).split(), "--channel", str(named), *base_
    )
    for word, place in places.items():
        said = said.replace(word, str(place))
    assert done.returncode and said in done.stderr
    assert "run `ctk build" not in done.stderr and "built here" not in done.stderr
    if "libcublas" in words:
        assert "its keeper adds it: `ctk build libcublas`, then `ctk publish`" in done.stderr


@pytest.mark.parametrize("more", ["", "--driver 13.0", "--everywhere"])
def test_what_the_own_channel_lacks_is_to_be_built_also_where_it_is_named(
    checkout: Workspace, project: Workspace, tmp_path: Path, more: str
) -> None:
    """An author names it behind the channel of a recipe."""
    own = linked(project, tmp_path)
    own.channel.parent.mkdir()
    own.channel.symlink_to(checkout.channel)
    own.base_channel.symlink_to(checkout.base_channel)
    mine = write(tmp_path / "mine", iter(()))
    named = ("--channel", str(mine), "--channel", str(own.channel))
    done = ctk(own, "solve", "libcufft", *more.split(), *named)
    assert "libcufft is not built here" in done.stderr
    assert "run `ctk build libcufft" in done.stderr


def test_without_a_driver_it_says_how_another_machines_driver_is_stated(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctk.solve.machine.detected", lambda subdir: (None, None))
    monkeypatch.setenv("CTK_ROOT", str(checkout.root))
    line = "if the machines that will run it have a driver, state it, as in --driver 13.0"
    console.begin()
    toolkit, second, *_ = CliRunner().invoke(app, ["solve", "cuda-core"]).stdout.splitlines()
    assert toolkit.startswith("toolkit 13.4, compat: it compiles machine code, ") and second == line
    for words, variables in (
        (["--driver", "none"], {}),
        ([], NO_DRIVER),
        (["--driver", "13.4"], {}),
    ):
        assert (
            line not in ctk(checkout, "solve", "cuda-core", *words, check=True, **variables).stdout
        )


def test_a_request_without_a_solution_ends_with_the_cause_and_a_step(checkout: Workspace) -> None:
    done = ctk(checkout, "solve", "cuda-core", "--driver", "11.8")
    assert done.returncode == 10
    cause, step = done.stderr.splitlines()
    assert (
        cause
        == "error: the driver supports CUDA 11.8; the oldest toolkit in the channel needs 12.0"
    )
    assert step.startswith(
        "next: update the driver to one for CUDA 12.0 or newer; that does not help a GPU older than"
    )
    document = json.loads(ctk(checkout, "solve", "cuda-core", "--driver", "11.8", "--json").stdout)
    assert document["reason"] == {"kind": "driver"}
    whole = ctk(checkout, "solve", "cuda-core", "--driver", "11.8", "--explain")
    first, second, third, *_, last = whole.stderr.splitlines()
    assert (first, last) == (cause, step)
    assert (
        second == "no set of packages satisfies cuda-core on linux-64 with a driver for CUDA 11.8:"
    )
    assert third.startswith("Cannot solve the request because of")
    assert len(whole.stderr.splitlines()) > len(done.stderr.splitlines())


def test_a_package_with_cuda_and_cpu_builds_is_said_below_the_toolkit_and_to_other_programs(
    checkout: Workspace, project: Workspace, tmp_path: Path
) -> None:
    both = write(tmp_path / "conda-forge", chain(base(), foreign_channel.records(project.variants)))
    options = ("--base", str(both), "--driver", "12.6")
    toolkit, line, *_ = ctk(
        checkout, "solve", "pytorch", "cuda-core", *options, check=True
    ).stdout.splitlines()
    assert toolkit.startswith("toolkit 12.9, compat")
    assert line.startswith("pytorch is the CUDA build here") and '"pytorch=*=cpu*" gives' in line
    said = json.loads(
        ctk(checkout, "solve", "pytorch", "cuda-core", *options, "--json", check=True).stdout
    )
    assert said["choices"][0]["cpu"] == {
        "spec": "pytorch=*=cpu*",
        "toolkit": "12.0",
        "fit": "native",
    }
    assert said["native_instead"] is None
    assert said["limit"] == {"kind": "driver"}
    _, line, *_ = ctk(
        checkout, "solve", "cuda-gdb", "cuda-core", *options, check=True
    ).stdout.splitlines()
    assert line == "toolkit 12.0 native is possible too: add cuda-version=12.0"


# --- what was not built


@pytest.fixture(scope="module")
def unbuilt(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return same_recipes(project, tmp_path_factory.mktemp("unbuilt"))


def test_a_platform_that_is_not_built_here_is_solved_as_planned_and_says_so(
    unbuilt: Workspace,
) -> None:
    options = ("--platform", FOREIGN, "--driver", "13.0", "--python", "3.13")
    first, second, *_ = ctk(unbuilt, "solve", "cuda-core", *options, check=True).stdout.splitlines()
    assert (
        first
        == f"nothing is built for {FOREIGN} here: solved against what recipes and release locks"
        " say, "
        "with a stand-in for conda-forge"
    )
    assert second.startswith("toolkit 13.0, native")
    assert re.search(rf"\({FOREIGN}, driver 13.0.*; \d+ packages\)", second)


def test_named_channels_of_a_platform_that_is_not_built_here_are_all_asked(
    built: Workspace, tmp_path: Path
) -> None:
    """Before, the stand-in for conda-forge took the place of the second one."""
    one, two, lacks = (tmp_path / name for name in ("one", "two", "lacks"))
    write(one, iter([record("one", "1", "h_0", FOREIGN, depends=["two"])]))
    write(two, iter([record("two", "1", "h_0", FOREIGN)]))
    write(lacks, iter([record("three", "1", "h_0", FOREIGN, depends=["libcublas"])]))
    words = ("--platform", FOREIGN, "--channel", str(one), "--channel", str(two))
    assert " 2 packages" in ctk(built, "solve", "one", *words, check=True).stdout
    said = ctk(built, "solve", "three", *words, "--channel", str(lacks)).stderr
    assert "three needs libcublas, which the channels do not have\n" in said
    assert f"next: run `ctk build libcublas --platform {FOREIGN}`\n" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cuda-toolkit --driver 12.4 --arch 7.5", "which need a driver for CUDA 13.0 or newer"),
        ("torch torchvision", "next: run `ctk build pytorch torchvision`"),
        ("cupy cuda-version=11.8", "make no cuda-version 11.8; the newest that they make are "),
        ("numba-cuda[cu13]", "next: leave [cu13] out"),
        ("cupy --driver 13.0 --arch 9.0", "next: run `ctk build cupy --driver 13.0 --arch 9.0`"),
        (
            "cuda-nvtx cuda-version=12 --driver 13.0 --arch 9.0",
            "next: run `ctk build cuda-nvtx --release 12.9`",
        ),
        (
            "cuda-nvcc_linux-aarch64 --driver 13.0",
            "next: run `ctk build cuda-nvcc --platform linux-aarch64`",
        ),
    ],
)
def test_a_build_is_proposed_only_where_it_gives_what_is_asked(
    default_only: Workspace, words: str, said: str
) -> None:
    """Before, `ctk build cuda-toolkit` of 9 GB, after which there was none for that
    driver either.
    """
    stderr = ctk(default_only, "solve", *words.split()).stderr
    assert said in stderr and ("next: run `ctk build" in stderr) is ("ctk build" in said)
