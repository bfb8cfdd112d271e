"""The clients as second solvers: what they are asked, and how their answers and failures are read."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fake_client import CONDA, LIBMAMBA, PIXI, Fake, install, options
from small_channel import base, channel, write

from conftest import program_of
from ctk.core.checkout import Workspace
from ctk.core.errors import SolverFailed, SolverMissing, UnknownName, Unsolvable
from ctk.solve.solve import Scenario, channel_url, solve
from ctk.verify import clients
from ctk.verify.clients import CondaLike, PixiSolver, Ran, answer, manifest
from ctk.verify.run import SolverAnswer

COMMANDS = {
    "micromamba": LIBMAMBA,
    "mamba": LIBMAMBA,
    **dict.fromkeys((name for name in clients.NAMES if name.startswith("conda")), CONDA),
}
EACH = pytest.mark.parametrize("name", COMMANDS)
ASKED = Scenario(("cuda-version=12", "cuda-core"), "linux-64", "13.0", "9.0")
CHANNELS = [Path("/channels/first one"), Path("/channels/second")]
URLS = ["file:///channels/first%20one", "file:///channels/second"]

# `info --json` of micromamba says "virtual packages", of conda "virtual_pkgs"; both list what was detected.
SEES_GPUS = {"out": json.dumps({"virtual packages": ["__unix=0=0", "__cuda=13.0=0", "__cuda_arch=9.0=0"]})}
SEES_NONE = {"out": json.dumps({"virtual_pkgs": [["__unix", "0", "0"], ["__cuda", "13.0", "0"]]})}


def libmamba_link(name: str, version: str, build: str) -> dict[str, Any]:
    """A package in libmamba's transaction: `to_json` in package_info.cpp; its own tests read `build_string`."""
    same = {"name": name, "version": version, "build": build, "build_string": build, "build_number": 0}
    place = f"noarch/{name}-{version}-{build}.conda"
    return {**same, "channel": URLS[0], "fn": Path(place).name, "subdir": "noarch", "url": f"{URLS[0]}/{place}"}


def conda_link(name: str, version: str, build: str) -> dict[str, Any]:
    """A package in conda's transaction, as in the output that mamba-org/mamba#207 quotes."""
    same = {"name": name, "version": version, "build_string": build, "build_number": 0}
    return {**same, "base_url": URLS[0], "channel": "first one", "dist_name": f"{name}-{version}-{build}"}


def transaction(name: str, *links: tuple[str, str, str]) -> dict[str, Any]:
    """What a dry run of `create` answers (conda/cli/install.py, `handle_txn`; the same keys in libmamba)."""
    link = conda_link if name.startswith("conda") else libmamba_link
    actions = {"FETCH": [], "LINK": [link(*one) for one in links], "PREFIX": "/somewhere"}
    return {"out": json.dumps({"actions": actions, "dry_run": True, "prefix": "/somewhere", "success": True}, indent=2)}


def refusal(name: str) -> dict[str, Any]:
    """What it answers to what cannot be: mamba-org/mamba#2513, and `CondaError.dump_map` of conda."""
    if not name.startswith("conda"):
        problems = ["package cuda-core-1.2.0 requires missing, but none of the providers can be installed"]
        return {"out": json.dumps({"solver_problems": problems, "success": False}), "code": 1}
    kind = {"classic": "", "rattler": "Rattler"}.get(name.partition("-")[2], "LibMamba")
    error = f"{kind}UnsatisfiableError"
    message = "package cuda-core-1.2.0 requires missing"
    return {"out": json.dumps({"error": f"{error}: {message}", "exception_name": error, "message": message}), "code": 1}


PICKED = ("cuda-version", "13.0", "native_100"), ("cuda-core", "1.2.0", "cuda13_py314_13100")


@pytest.fixture
def fake(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The client on PATH: it sees GPUs and picks two packages."""
    made = install(name.partition("-")[0], COMMANDS[name], tmp_path / "bin", monkeypatch)
    made.answers(create=transaction(name, *PICKED), info=SEES_GPUS, version={"out": "2.9.0\n"})
    return made


def answers(name: str, *scenarios: Scenario, timeout: float = 60) -> list[SolverAnswer]:
    return list(CondaLike(name, timeout=timeout).solve_all(scenarios, CHANNELS))


@EACH
def test_it_is_asked_for_a_dry_run_of_these_specs_from_these_channels_only(
    name: str, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = ("CONDA_CHANNELS", "MAMBA_ROOT_PREFIX", "CONDA_CHANNEL_PRIORITY", "CONDA_OVERRIDE_OSX", "HTTPS_PROXY")
    for variable in users:
        monkeypatch.setenv(variable, "/home/user")
    monkeypatch.setenv("HOME", str(tmp_path))
    (answer,) = answers(name, ASKED)
    assert answer.solved and answer.scenario == ASKED
    assert {n: (r.version, r.build) for n, r in answer.records.items()} == {n: (v, b) for n, v, b in PICKED}
    (call,) = fake.calls("create")
    assert call.words == ["create", *ASKED.specs, "__cuda"]
    assert call.values("-c") == URLS
    assert {"--dry-run", "--json", "--override-channels", "--strict-channel-priority"} <= set(call.arguments)
    assert call.values("--solver") == name.split("-")[1:]
    assert call.values("--platform") == ([] if name.startswith("conda") else ["linux-64"])
    # Nothing of the user's configuration reaches it, and nothing is left behind.
    assert "/home/user" not in call.environment.values()
    homes = {call.environment[v] for v in ("HOME", "CONDARC", "CONDA_PKGS_DIRS", "XDG_CONFIG_HOME", "TMPDIR")}
    homes |= set(call.values("--prefix")) | set(call.values("--root-prefix"))
    (folder,) = {Path(place).parent for place in homes}
    assert folder != tmp_path
    assert not folder.exists()


MACHINES = {
    ASKED: {"CUDA": "13.0", "CUDA_ARCH": "9.0", "ARCHSPEC": "x86_64"},
    Scenario(("a",), "linux-aarch64", "12.4"): {"CUDA": "12.4", "CUDA_ARCH": "", "GLIBC": "2.28", "LINUX": "4.18"},
    Scenario(("a",), "win-64"): {"CUDA": "", "CUDA_ARCH": "", "WIN": "10.0", "GLIBC": None},
}


@EACH
def test_the_machine_is_the_scenario_s_and_a_driver_is_asked_for_where_it_has_one(name: str, fake: Fake) -> None:
    """Without ``__cuda``, micromamba 2.8.1 and conda's default solver give a driver for 11.8 toolkit 13."""
    answers(name, *MACHINES)
    for call, (scenario, stated) in zip(fake.calls("create"), MACHINES.items(), strict=True):
        assert call.environment["CONDA_SUBDIR"] == scenario.subdir
        assert {key: call.environment.get(f"CONDA_OVERRIDE_{key}") for key in stated} == stated
        assert ("__cuda" in call.words) == bool(scenario.driver)


@EACH
def test_a_client_that_knows_no_gpus_answers_for_the_machine_it_sees(name: str, fake: Fake) -> None:
    fake.answers(create=transaction(name, *PICKED), info=SEES_NONE, version={"out": "2.9.0\n"})
    one, other = answers(name, ASKED, Scenario(ASKED.specs, "linux-64", "13.0", "7.0"))
    assert one.scenario == other.scenario == Scenario(ASKED.specs, "linux-64", "13.0", None)
    (call,) = fake.calls("create")  # the same question, once
    assert call.environment["CONDA_OVERRIDE_CUDA_ARCH"] == ""
    (asked,) = fake.calls("info")
    assert asked.environment["CONDA_OVERRIDE_CUDA_ARCH"]


def ran(out: str = "", err: str = "", code: int = 0) -> Ran:
    return Ran(["/bin/conda", "create", "--dry-run"], code, out, err)


@EACH
def test_an_unsolvable_request_is_an_answer_with_the_client_s_reason(name: str) -> None:
    found = answer(ASKED, ran(**refusal(name)))
    assert not found.solved
    assert found.problem.startswith("package cuda-core-1.2.0 requires missing")
    assert not found.records


@EACH
def test_an_answer_counts_though_the_client_crashed_after_it(name: str) -> None:
    """As conda with conda-rattler-solver may, while Python ends."""
    wrote = transaction(name, *PICKED)
    assert answer(ASKED, ran(**wrote, code=-6)).solved
    with pytest.raises(SolverFailed, match="was ended by SIGABRT and wrote no JSON"):
        answer(ASKED, ran(wrote["out"][:-9], code=-6))


@pytest.mark.parametrize(
    ("wrote", "message"),
    [
        ({"out": "Segmentation fault\n", "code": 139}, "ended with 139 and wrote no JSON"),
        ({"err": "Killed\n", "code": 1}, "ended with 1 and wrote no JSON"),
        ({"out": "[]"}, "wrote no JSON object"),
        ({"out": '{"exception_name": "CondaHTTPError"}', "code": 1}, "does not say why there is no solution"),
        ({"out": '{"success": false}'}, "does not say why"),
        ({"out": '{"success": true, "actions": {"LINK": [{"title": "a"}]}}'}, "a transaction that cannot be read"),
        ({"out": '{"success": true, "actions": []}'}, "a transaction that cannot be read"),
    ],
)
def test_what_is_no_answer_is_an_error_with_what_the_client_said(wrote: dict[str, Any], message: str) -> None:
    with pytest.raises(SolverFailed) as error:
        answer(ASKED, ran(**wrote))
    assert message in error.value.cause
    assert error.value.cause.startswith("conda ")
    assert error.value.cause.endswith((wrote.get("err") or wrote["out"]).strip())
    assert "--dry-run" in error.value.step  # the command, to try by hand


@pytest.mark.parametrize("name", ["conda"])
@pytest.mark.parametrize(
    ("create", "timeout", "message"),
    [({"signal": 11, "err": "oh\n"}, 60, "was ended by SIGSEGV"), ({"sleep": 60}, 1, "did not answer within 1 s")],
)
def test_a_client_that_crashes_or_does_not_end_is_an_error(
    name: str, fake: Fake, create: dict[str, Any], timeout: float, message: str
) -> None:
    fake.answers(create=create, info=SEES_GPUS, version={"out": "2.9.0\n"})
    with pytest.raises(SolverFailed, match=message):
        answers(name, ASKED, timeout=timeout)


@pytest.mark.parametrize(
    ("name", "arguments", "variables", "said"),
    [
        ("micromamba", ["--no-rc", "-p", "a"], {"CONDARC": "rc"}, "Configuration files disabled by 'no_rc'"),
        ("micromamba", ["-p", "a"], {"CONDARC": "none"}, "Configuration file specified but does not exist at"),
        ("micromamba", ["-p", "a", "-n", "a"], {}, "Cannot set both prefix and env name"),
        ("conda", ["-p", "a", "-n", "a"], {}, "not allowed with argument"),
        ("conda", ["-p", "a", "--override-channels"], {}, "At least one -c / --channel flag must be supplied"),
        ("conda", ["-p", "a", "--no-rc"], {}, "--no-rc"),
        ("conda", ["-p", "a", "-c", "CHANNEL", "--override-channels", "--offline"], {}, "packages are not available"),
        ("conda", ["-p", "a", "--solver", "guess"], {}, "guess"),
    ],
)
@pytest.mark.parametrize("which", ["the fake", "the real one"])
def test_what_a_client_refuses(
    name: str,
    arguments: list[str],
    variables: dict[str, str],
    said: str,
    which: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fake and, where it is on PATH, the real one: a fake that takes more proves nothing."""
    if which == "the fake":
        install(name, COMMANDS[name], tmp_path / "bin", monkeypatch).answers(create={})
    else:
        program_of(name)
    (tmp_path / "rc").touch()
    stated = {key: str(tmp_path / value) for key, value in variables.items()}
    empty = {"MAMBA_ROOT_PREFIX": str(tmp_path / "root"), "CONDA_PKGS_DIRS": str(tmp_path / "pkgs")}
    environment = clients.environment(tmp_path, **empty, **stated)
    here = channel_url(write(tmp_path / "channel", channel()))
    command = ["create", "--dry-run", "--yes", *(here if a == "CHANNEL" else a for a in arguments), "cuda-version"]
    ran = clients.call([clients.find(name), *command], environment, tmp_path, 60)
    assert ran.returncode != 0
    assert said in ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["micromamba", "mamba", "conda"])
def test_every_option_of_a_fake_is_one_of_the_real_program(name: str, tmp_path: Path) -> None:
    program_of(name)
    environment = clients.environment(tmp_path, MAMBA_ROOT_PREFIX=str(tmp_path / "root"))
    for command, text in COMMANDS[name].items():
        words = [*([command] if command else []), "--help"]
        told = clients.call([clients.find(name), *words], environment, tmp_path, 60).stdout
        for option in options(text):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", told), f"{name} {command} {option}"


def test_mamba_1_is_asked_as_conda_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mamba 1 is Python on top of conda, and has conda's flags."""
    fake = install("mamba", CONDA, tmp_path / "bin", monkeypatch)
    fake.answers(create=transaction("conda", *PICKED), info=SEES_NONE, version={"out": "mamba 1.5.8\nconda 24.3.0\n"})
    (answer,) = answers("mamba", ASKED)
    assert answer.records["cuda-version"].version == "13.0"


@pytest.mark.parametrize("name", [*COMMANDS, "pixi"])
def test_a_client_that_is_not_there_is_an_error_that_says_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SolverMissing) as error:
        clients.solver(name, Workspace(tmp_path))
    assert error.value.cause == f"there is no {name.partition('-')[0]} on PATH"
    assert "--solver libsolv" in error.value.step


def test_a_solver_that_nobody_has_heard_of_is_an_error_that_names_the_near_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as error:
        clients.solver("minimamba", Workspace(tmp_path))
    assert "micromamba" in error.value.step


LOCK = """
version: 6
environments:
  default:
    channels:
    - url: file:///channels/first%20one/
    - url: file:///channels/second/
    packages:
      linux-64:
      - conda: file:///channels/first%20one/noarch/cuda-version-13.0-native_100.conda
      - conda: file:///channels/second/linux-64/python-3.14.1-h1_100_cp314.tar.bz2
packages:
- conda: file:///channels/first%20one/noarch/cuda-version-13.0-native_100.conda
  sha256: 0123
"""
# As rattler words it and pixi draws it.
PIXI_REFUSAL = """Error:   × failed to solve requirements of environment 'default' for platform 'linux-64'
  ├─▶   × failed to solve the environment
  │
  ╰─▶ Cannot solve the request
      because of: cuda-core * cannot be installed because there are no viable
      options
"""


@pytest.fixture
def pixi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = install("pixi", PIXI, tmp_path / "bin", monkeypatch)
    made.answers(create={}, lock={"files": {"pixi.lock": LOCK}}, version={"out": "pixi 0.75.0\n"})
    return made


def test_pixi_locks_a_workspace_of_its_own_for_each_scenario(pixi: Fake) -> None:
    (answer,) = PixiSolver().solve_all([ASKED], CHANNELS)
    found = {name: (r.version, r.build) for name, r in answer.records.items()}
    assert found == {"cuda-version": ("13.0", "native_100"), "python": ("3.14.1", "h1_100_cp314")}
    assert answer.records["python"].channel == URLS[1]
    (call,) = pixi.calls("lock")
    ((path, text),) = call.files.items()
    assert call.values("--manifest-path") == [path]
    workspace = tomllib.loads(text)
    assert workspace["workspace"]["channels"] == URLS
    assert workspace["workspace"]["channel-priority"] == "strict"
    assert workspace["dependencies"] == {"cuda-version": "12.*", "cuda-core": "*"}
    (machine,) = workspace["workspace"]["platforms"]
    assert machine["platform"] == "linux-64"
    assert machine["cuda"] == {"driver": "13.0", "arch": "9.0"}
    assert machine["archspec"] == "x86_64"
    assert {"linux", "glibc"} <= set(machine)
    assert call.environment["CONDA_OVERRIDE_CUDA"] == "13.0"
    assert call.environment["PIXI_NO_CONFIG"] == "true"
    assert Path(call.environment["PIXI_HOME"]).parent == Path(path).parent
    assert not Path(path).exists()


def test_an_older_pixi_gets_system_requirements_and_answers_without_the_gpu(pixi: Fake) -> None:
    pixi.answers(create={}, lock={"files": {"pixi.lock": LOCK}}, version={"out": "pixi 0.53.0\n"})
    one, other = PixiSolver().solve_all([ASKED, Scenario(ASKED.specs, "linux-64", "13.0", "7.0")], CHANNELS)
    assert one.scenario == other.scenario == Scenario(ASKED.specs, "linux-64", "13.0", None)
    (call,) = pixi.calls("lock")
    workspace = tomllib.loads(*call.files.values())
    assert workspace["workspace"]["platforms"] == ["linux-64"]
    required = workspace["system-requirements"]
    assert required["cuda"] == "13.0"
    assert required["libc"]["family"] == "glibc"
    assert set(required) == {"cuda", "libc", "linux"}


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize(("subdir", "driver"), [("linux-aarch64", None), ("win-64", None), ("win-64", "12.4")])
def test_a_workspace_says_no_more_than_the_scenario(rich: bool, subdir: str, driver: str | None) -> None:
    specs = ("python_abi=3.14=*_cp314t", "python>=3.12,<3.15")
    text = manifest(Scenario(specs, subdir, driver), CHANNELS, rich=rich)
    workspace = tomllib.loads(text)
    assert workspace["dependencies"] == {
        "python_abi": {"version": "==3.14", "build": "*_cp314t"},
        "python": ">=3.12,<3.15",
    }
    where = workspace["workspace"]["platforms"][0] if rich else workspace["system-requirements"]
    assert where.get("cuda") == driver
    assert ("glibc" in text) == (subdir == "linux-aarch64")
    assert ("windows" in text) == (rich and subdir == "win-64")


def test_what_pixi_cannot_solve_is_an_answer_with_its_reason(pixi: Fake) -> None:
    pixi.answers(create={}, lock={"err": PIXI_REFUSAL, "code": 1}, version={"out": "pixi 0.75.0\n"})
    (answer,) = PixiSolver().solve_all([ASKED], CHANNELS)
    assert not answer.solved
    assert "Cannot solve the request because of: cuda-core * cannot be installed" in answer.problem


@pytest.mark.parametrize(
    ("lock", "version", "message"),
    [
        ({"err": "Error: × failed to fetch repodata\n", "code": 1}, "pixi 0.75.0", "ended with 1"),
        ({}, "pixi 0.75.0", "a lock that cannot be read"),
        ({"files": {"pixi.lock": "environments: []"}}, "pixi 0.75.0", "cannot be read"),
        ({"files": {"pixi.lock": "{"}}, "pixi 0.75.0", "cannot be read"),
        ({}, "", "does not say its version"),
    ],
)
def test_what_pixi_does_otherwise_is_an_error(pixi: Fake, lock: dict[str, Any], version: str, message: str) -> None:
    pixi.answers(create={}, lock=lock, version={"out": version})
    with pytest.raises(SolverFailed, match=message):
        list(PixiSolver().solve_all([ASKED], CHANNELS))


@pytest.mark.parametrize("name", [n for n in clients.NAMES if not n.startswith("libsolv")])
def test_the_clients_that_are_here_pick_what_rattler_picks(name: str, tmp_path: Path) -> None:
    """Whatever is installed is asked for real: the driver's side without a pin, which every client gets right.

    Where none is, the fakes above hold how each is asked and read, and libsolv is the solver of three of them.
    """
    program_of(name)
    folders = [write(tmp_path / "channel", channel()), write(tmp_path / "base", base())]
    # classic conda takes the newest version of a requested package first; only cuda-core's is one for all toolkits.
    requests = ("cuda-core",) if name == "conda-classic" else ("cuda-core", "cuda-nvrtc")
    asked = [
        Scenario((request,), "linux-64", driver)
        for request, driver in product(requests, (None, "12.9", "13.0", "13.4"))
    ]
    if name != "conda-classic":  # which never looks at constraints on a driver
        asked.append(Scenario(("cuda-core",), "linux-64", "11.8"))
    for found in clients.solver(name, Workspace(tmp_path)).solve_all(asked, folders):
        try:
            expected = solve(found.scenario, folders).toolkit
        except Unsolvable:
            expected = ""
        assert (found.records["cuda-version"].version if found.solved else "") == expected, found.scenario
