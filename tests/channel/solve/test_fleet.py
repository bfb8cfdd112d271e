"""Environments for a fleet: the fewest that serve it, the command's output, and the picks from what
it prints.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, SolverMissing
from ctk.core.platforms import this_platform
from ctk.solve.fleet import Fleet, find_fleet, installs
from ctk.solve.machine import Machine, machine, pairs
from ctk.solve.pixi import pixi_lines
from ctk.solve.served import served
from ctk.solve.solve import Catalogue, Scenario, older, solve
from ctk.verify import clients
from kit import foreign_channel
from kit.small_channel import TOOLKITS, asking, base, channel, record, write

# The small channel is of linux-64, and the command asks for the packages of the machine that it
# runs on. What it prints is made by functions that the other tests here ask for linux-64 on every
# platform.
PRINTED = pytest.mark.skipif(
    this_platform() != "linux-64",
    reason="the small channel is of linux-64; the functions are tested on every platform",
)
DRIVERS = ("12.0", "12.9", "13.0", "13.4")
GPUS = (None, "6.0", "7.0", "9.0", "10.0", "10.7", "11.0", "13.0")


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The small channel, and a library whose newest version has no code for old GPUs."""
    made = Workspace(tmp_path_factory.mktemp("checkout"))
    library = [
        record("library", v, "h_0", "linux-64", constrains=[f"__cuda_arch >={gpu}"])
        for v, gpu in LIBRARY
    ]
    write(made.channel, iter([*channel(), *library]))
    write(made.base_channel, base())
    return made


LIBRARY = (("1.0", "5.0"), ("2.0", "8.0"))


@pytest.fixture(scope="module")
def catalogue(where: Workspace) -> Catalogue:
    return Catalogue([where.channel, where.base_channel], "linux-64")


def fleet(
    catalogue: Catalogue, *stated: tuple[str, str | None], request: tuple[str, ...] = ("cuda-core",)
) -> Fleet:
    return find_fleet(request, [machine("linux-64", *one) for one in stated], catalogue)


def native(on: Machine) -> set[str]:
    """The toolkits that are native on a machine, from the table of the small channel."""
    known = {t for t, gpus in TOOLKITS.items() if on.arch is None or on.arch in gpus}
    return {t for t in known if on.driver and not older(on.driver, t)}


@pytest.mark.parametrize("seed", range(12))
def test_no_fewer_toolkits_are_native_on_all_machines_and_each_machine_gets_one(
    seed: int, catalogue: Catalogue
) -> None:
    stated = random.Random(seed).sample(list(product(DRIVERS, GPUS)), 5)
    found = fleet(catalogue, *stated)
    machines = [on for on in found.alone if native(on)]
    for on in machines:
        environment = found.environment(on)
        assert (
            environment
            and environment.pick.toolkit in native(on)
            and environment.pick.fit == "native"
        )
    sizes = (
        n
        for n in range(6)
        for some in combinations(TOOLKITS, n)
        if all(native(m) & {*some} for m in machines)
    )
    assert len({e.name for e in found.environments if e.pick.fit == "native"}) == next(sizes)
    # What is stated to a client gives these packages, and they install where they should.
    for environment in found.environments:
        variables = environment.variables
        stated = variables["CONDA_OVERRIDE_CUDA"] or None, variables.get("CONDA_OVERRIDE_CUDA_ARCH")
        pick = solve(Scenario(environment.specs, "linux-64", *stated), catalogue.channels)
        assert pick.records == environment.pick.records
        assert all(installs(pick, on) for on in environment.machines)


def test_of_several_ways_to_have_few_the_newest_toolkits_are_taken(catalogue: Catalogue) -> None:
    (only,) = fleet(catalogue, ("13.0", "7.0"), ("12.9", "9.0")).environments
    assert (only.name, only.variables) == (
        "cuda-12.9",
        {"CONDA_OVERRIDE_CUDA": "12.9", "CONDA_OVERRIDE_CUDA_ARCH": "7.0"},
    )
    found = fleet(catalogue, ("12.0", "9.0"), ("13.0", "9.0"), ("13.4", "10.7"))
    assert [(e.name, [on.driver for on in e.machines]) for e in found.environments] == [
        ("cuda-12.0", ["12.0", "13.0"]),
        ("cuda-13.4", ["13.4"]),
    ]


def test_a_v100_with_a_driver_for_13_gets_12_9_by_a_driver_that_every_client_can_be_told(
    catalogue: Catalogue,
) -> None:
    (only,) = fleet(catalogue, ("13.0", "7.0")).environments
    assert (only.specs, only.pick.scenario.driver) == (("cuda-core", "__cuda"), "12.9")


def test_where_nothing_is_native_only_a_client_that_knows_the_gpu_picks_the_same(
    catalogue: Catalogue,
) -> None:
    (only,) = fleet(catalogue, ("13.4", "13.0"), ("13.0", "13.0")).environments
    assert (only.name, only.every_client) == ("cuda-13.4-compat", False)
    assert only.variables["CONDA_OVERRIDE_CUDA_ARCH"] == "13.0"


def test_an_environment_with_a_cpu_build_does_not_serve_who_would_have_cuda(
    project: Workspace, where: Workspace, tmp_path: Path
) -> None:
    both = write(
        tmp_path / "conda-forge", iter([*base(), *foreign_channel.records(project.variants)])
    )
    channels = Catalogue([where.channel, both], "linux-64")
    found = fleet(channels, ("13.0", "13.0"), ("none", None), request=("pytorch", "cuda-core"))
    builds = [
        (e.name, str(r.build)[:3]) for e in found.environments if (r := e.pick.record("pytorch"))
    ]
    assert builds == [("cuda-13.4-compat", "cpu"), ("cuda-13.4-compat-2", "cud")]
    assert all(installs(found.environments[0].pick, on) for on in found.alone), (
        "or it would not be said by this"
    )


def test_an_environment_that_is_native_is_made_so_that_it_stays_native(
    where: Workspace, tmp_path: Path
) -> None:
    ours = write(tmp_path / "asking", iter([*channel(), *asking()]))
    channels = Catalogue([ours, where.base_channel], "linux-64")
    found = fleet(channels, ("12.9", "9.0"), ("13.0", "13.0"))
    assert {e.name: e.specs for e in found.environments} == {
        "cuda-12.9": ("cuda-native", "cuda-core"),
        "cuda-13.4-compat": ("cuda-gpu", "cuda-core"),
    }
    for environment in found.environments:
        scenario = replace(environment.pick.scenario, specs=("cuda-gpu", "cuda-core"))
        pick = solve(scenario, channels.channels)
        rest = [
            record for record in environment.pick.records if record.name.normalized != "cuda-native"
        ]
        assert {r.file_name for r in pick.records} == {r.file_name for r in rest}, (
            "what is created is the same"
        )
    (only,) = fleet(channels, ("13.0", "9.0"), request=("cuda-gpu", "cuda-core")).environments
    assert only.specs == ("cuda-gpu", "cuda-core"), "as it was asked for"


def test_specs_are_lines_of_a_pixi_toml() -> None:
    specs = (
        "cuda-core",
        "numpy >=1.26",
        "numpy <3",
        "conda-forge::pip",
        "python_abi=3.14=*_cp314t",
    )
    assert tomllib.loads("\n".join(pixi_lines(specs))) == {
        "cuda-core": "*",
        "numpy": ">=1.26,<3",
        "pip": {"version": "*", "channel": "conda-forge"},
        "python_abi": {"version": "==3.14", "build": "*_cp314t"},
    }


# --- the machines


def test_machines_are_every_driver_with_every_gpu() -> None:
    stated = [
        (on.driver, on.arch) for on in pairs(["12.4", "13", "none"], ["sm_70", "9.0"], "linux-64")
    ]
    assert stated == [
        ("12.4", "7.0"),
        ("12.4", "9.0"),
        ("13.0", "7.0"),
        ("13.0", "9.0"),
        (None, None),
    ]
    stated = [
        (on.driver, on.arch) for on in pairs(["12.4:sm_70", "13"], ["9.0", "10.0"], "linux-64")
    ]
    assert stated == [
        ("12.4", "7.0"),
        ("13.0", "9.0"),
        ("13.0", "10.0"),
    ], "a driver with a GPU has no other"
    with pytest.raises(
        BadValue, match=r"each driver has a GPU already, and none is left for --arch 9"
    ):
        pairs(["12.4:7.0"], ["9.0"], "linux-64")


# --- the command

STATED = (
    "--driver",
    "12.0",
    "--driver",
    "13.0",
    "--driver",
    "13.4",
    "--arch",
    "7.0",
    "--arch",
    "9.0",
    "--arch",
    "10.0",
    "--arch",
    "13.0",
)


@PRINTED
def test_the_answer_comes_first_then_each_machine_and_what_to_type(where: Workspace) -> None:
    printed = ctk(where, "solve", "cuda-core", *STATED, check=True).stdout
    first, *rest = printed.splitlines()
    assert first == "3 environments serve 9 kinds of machines"
    assert re.search(r"^13\.0 +7\.0 +cuda-12\.0 +12\.0 +native +12\.9 native *$", printed, re.M)
    typed = (
        "  CONDA_OVERRIDE_CUDA=13.0 CONDA_OVERRIDE_CUDA_ARCH=9.0 conda create -n cuda-13.0 -c"
        " file://"
    )
    assert [line for line in rest if line.startswith(typed) and line.endswith("cuda-core __cuda")]
    # conda's rattler solver takes another channel's toolkit in the place of a compat one.
    by_conda = [line for line in rest if "conda create -n" in line]
    strict = [line for line in by_conda if "--strict-channel-priority" in line]
    assert strict == [line for line in by_conda if "-compat" in line] != []
    assert "  ctk env create cuda-core --driver 13.0 --arch 9.0 --prefix ./cuda-13.0" in rest
    assert (
        "driver 13.0, GPU 13.0: toolkit 13.4, compat: the driver does not load its PTX" in printed
    )
    assert (
        "no such driver supports the GPU: driver 12.0, GPU 10.0; driver 12.0, GPU 13.0;"
        " driver 13.4, GPU 7.0" in printed
    )


@pytest.fixture
def made(project: Workspace, where: Workspace, tmp_path: Path) -> Workspace:
    """A checkout with the small channel and the locks, which say what is not built."""
    (tmp_path / "output").symlink_to(where.output)
    (tmp_path / "variants").symlink_to(project.variants)
    return Workspace(tmp_path)


def test_what_a_machine_does_not_get_of_a_build_has_a_reason(catalogue: Catalogue) -> None:
    (answer,) = served(catalogue, ["library"], [machine("linux-64", "12.0", "4.0")])
    assert answer.refused == ["library"]
    assert answer.why.startswith("no toolkit in the channel compiles for compute capability 4.0")


@PRINTED
def test_machines_that_cannot_exist_or_get_nothing_are_said(made: Workspace) -> None:
    printed = ctk(
        made,
        "solve",
        "cuda-core",
        "--driver",
        "12.9",
        "--driver",
        "13.4",
        "--arch",
        "7.0",
        check=True,
    ).stdout
    assert printed.startswith("1 environment serves 1 kind of machine\n")
    assert "left out, because no such driver supports the GPU: driver 13.4, GPU 7.0" in printed
    done = ctk(made, "solve", "cuda-core", "--driver", "11.8", "--driver", "12.9")
    assert (done.returncode, "1 environment serves 1 kind of machine" in done.stdout) == (10, True)
    assert (
        "error: 1 of 2 kinds of machines get nothing; driver 11.8, GPU not given: the driver supp"
        in done.stderr
    )


@PRINTED
def test_a_package_that_is_not_built_is_built_for_all_machines_of_a_fleet(
    made: Workspace, project: Workspace
) -> None:
    for place in (project.recipes, project.build_config, project.root / "pyproject.toml"):
        (made.root / place.name).symlink_to(place)
    fleet = ("--driver", "12.4", "--driver", "13.0:9.0", "--driver", "none")
    refused = ctk(made, "solve", "cuda-profiler-api", *fleet).stderr
    assert "3 of 3 kinds of machines get nothing" in refused
    assert "next: run `ctk build --driver 12.4 --driver 13.0:9.0`" in refused, refused


@PRINTED
def test_a_toolkit_that_is_older_because_machines_share_it_is_said(where: Workspace) -> None:
    words = ("--driver", "12.0:9.0", "--driver", "13.0:9.0")
    printed = ctk(where, "solve", "cuda-core", *words, check=True).stdout
    assert (
        "driver 13.0, GPU 9.0: cuda-12.0 has toolkit 12.0 here, so that fewer environments serve"
        " all machines; on its own, such a machine gets 13.0"
    ) in printed
    assert "driver 12.0, GPU 9.0: cuda-12.0 has" not in printed


@PRINTED
def test_what_is_not_built_for_the_fleet_is_one_line(made: Workspace, where: Workspace) -> None:
    fleet = (
        "solve",
        "cuda-core",
        "--driver",
        "12.4",
        "--driver",
        "12.8:9.0",
        "--driver",
        "13.0",
        "--driver",
        "none",
    )
    printed = ctk(made, *fleet, check=True).stdout
    assert "driver 12.4, GPU not given: toolkit 12.4 would be native, but is not built" in printed
    assert "driver 12.8, GPU 9.0: toolkit 12.8 would be native, but is not built here" in printed
    line = "ctk build --driver 12.4 --driver 12.8:9.0 --driver 13.0"
    assert f"to build for all of these machines: `{line}`" in printed
    assert "no driver: nothing to build, it gets the newest toolkit that is built" in printed
    machines = json.loads(ctk(made, *fleet, "--json", check=True).stdout)["machines"]
    assert [machine["not_built"] for machine in machines] == ["12.4", "12.8", None, None]
    elsewhere = ctk(made, *fleet, "--channel", where.channel.as_uri(), check=True).stdout
    assert "not built" not in elsewhere


@PRINTED
def test_ctk_is_told_the_machine_that_gives_it_the_same_packages(where: Workspace) -> None:
    fleet = (
        "solve",
        "cuda-core",
        "--driver",
        "12.0:7.0",
        "--driver",
        "13.4:10.0",
        "--driver",
        "none",
        *("--channel", where.channel.as_uri()),
    )
    typed = re.findall(r"  ctk env create (.*) --prefix ", ctk(where, *fleet, check=True).stdout)
    environments = json.loads(ctk(where, *fleet, "--json", check=True).stdout)["environments"]
    alone = [
        json.loads(ctk(where, "solve", *words.split(), "--json", check=True).stdout)
        for words in typed
    ]
    assert [sorted(p["file"] for p in one["packages"]) for one in alone] == [
        one["files"] for one in environments
    ]


@PRINTED
@pytest.mark.parametrize("name", ["rattler", "libsolv", "libsolv-2.8.1"])
def test_every_solver_picks_the_same_from_what_is_printed(
    name: str, project: Workspace, where: Workspace
) -> None:
    """From the specs, on the machine of the variables."""
    try:
        solver = clients.solver(name, project)
    except SolverMissing as missing:  # rattler, the first of the names, is always there
        pytest.skip(missing.cause)
    for environment in json.loads(
        ctk(where, "solve", "cuda-core", *STATED, "--json", check=True).stdout
    )["environments"]:
        assert environment["channels"] == [where.channel.as_uri(), where.base_channel.as_uri()]
        variables = environment["variables"]
        stated = variables["CONDA_OVERRIDE_CUDA"] or None, variables.get("CONDA_OVERRIDE_CUDA_ARCH")
        scenario = Scenario(tuple(environment["specs"]), "linux-64", *stated)
        (answer,) = solver.solve_all([scenario], [where.channel, where.base_channel])
        # Conda adds it to Python.
        records = {package: r for package, r in answer.records.items() if package != "pip"}
        found = [f"{package}-{r.version}-{r.build}.conda" for package, r in records.items()]
        assert sorted(found) == environment["files"], answer.problem
