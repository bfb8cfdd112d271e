"""The clients as second solvers: the commands for them, and how their answers and failures are
read.

The last test runs the clients that are on PATH; the workflow `clients` installs all of them.
"""

from __future__ import annotations

import json
import os
import tomllib
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from conftest import program_of
from ctk.core.checkout import Workspace
from ctk.core.errors import SolverFailed, SolverMissing, UnknownName, Unsolvable
from ctk.solve.solve import Scenario, solve
from ctk.verify import clients
from ctk.verify.clients import CondaLike, PixiSolver, Ran, answer, locked, manifest, overrides
from kit.small_channel import base, channel, write

ASKED = Scenario(("cuda-version=12", "cuda-core"), "linux-64", "13.0", "9.0")
CHANNELS = [Path("/channels/first one"), Path("/channels/second")]
URLS = ["file:///channels/first%20one", "file:///channels/second"]

# A client that says which virtual packages it sees, notes how it was called, and answers.
PROGRAM = """#!/bin/sh
if [ "$1" = info ]; then echo '{sees}'; exit; fi
env > "{folder}/environment"
printf '%s\\n' "$@" >> "{folder}/words"
{answers}
"""


def link(name: str, version: str, build: str) -> dict[str, Any]:
    """A package of a transaction: libmamba writes both keys of a build, conda only the second
    (mamba-org/mamba#207).
    """
    return {"name": name, "version": version, "build_string": build, "channel": URLS[0]}


LINKS = [
    link("cuda-version", "13.0", "native_100"),
    link("cuda-core", "1.2.0", "cuda13_py314_13100"),
]
# What a dry run of `create` answers (conda/cli/install.py, `handle_txn`; the same keys in
# libmamba).
PICKED = json.dumps({"actions": {"FETCH": [], "LINK": LINKS}, "dry_run": True, "success": True})


def install(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: str,
    sees: str = "__cuda_arch",
) -> None:
    """A client on PATH, beside the system's own programs only."""
    program = folder / name.partition("-")[0]
    program.write_text(PROGRAM.format(sees=json.dumps([sees]), folder=folder, answers=answers))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


@pytest.mark.parametrize("name", ["micromamba", "conda", "conda-rattler"])
def test_it_is_asked_for_a_dry_run_of_these_specs_from_these_channels_only(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = ("CONDA_CHANNELS", "CONDA_CHANNEL_PRIORITY", "CONDA_OVERRIDE_OSX", "HTTPS_PROXY")
    for variable in users:
        monkeypatch.setenv(variable, "/home/user")
    install(name, tmp_path, monkeypatch, f"echo '{PICKED}'")
    (found,) = CondaLike(name).solve_all([ASKED], CHANNELS)
    assert found.scenario == ASKED
    assert {n: (r.version, r.build) for n, r in found.records.items()} == {
        "cuda-version": ("13.0", "native_100"),
        "cuda-core": ("1.2.0", "cuda13_py314_13100"),
    }
    words = (tmp_path / "words").read_text().splitlines()
    assert words[0] == "create" and words[-3:] == [*ASKED.specs, "__cuda"]
    assert {"--dry-run", "--json", "--override-channels", "--strict-channel-priority"} <= set(words)
    assert [after for word, after in pairwise(words) if word == "-c"] == URLS
    assert ("--solver" in words) == ("-" in name)
    assert ("--platform" in words) == (not name.startswith("conda"))
    # Nothing of the user's configuration reaches it, and nothing is left behind.
    environment = dict(
        line.partition("=")[::2] for line in (tmp_path / "environment").read_text().splitlines()
    )
    assert "/home/user" not in environment.values()
    places = [
        environment[v] for v in ("HOME", "CONDARC", "CONDA_PKGS_DIRS", "XDG_CONFIG_HOME", "TMPDIR")
    ]
    (folder,) = {Path(place).parent for place in (*places, words[words.index("--prefix") + 1])}
    assert not folder.exists()


def test_a_client_that_knows_no_gpus_answers_for_the_machine_it_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("conda", tmp_path, monkeypatch, f"echo '{PICKED}'", sees="__cuda")
    scenarios = [ASKED, Scenario(ASKED.specs, "linux-64", "13.0", "7.0")]
    answers = list(CondaLike("conda").solve_all(scenarios, CHANNELS))
    assert [(answer.scenario, answer.sees_gpus) for answer in answers] == [
        (asked, False) for asked in scenarios
    ]
    assert (tmp_path / "words").read_text().count("create\n") == 1  # the same question, once
    assert "CONDA_OVERRIDE_CUDA_ARCH=\n" in (tmp_path / "environment").read_text()


@pytest.mark.parametrize(
    ("scenario", "stated"),
    [
        (ASKED, {"CUDA": "13.0", "CUDA_ARCH": "9.0", "ARCHSPEC": "x86_64"}),
        (
            Scenario(("a",), "linux-aarch64", "12.4"),
            {"CUDA": "12.4", "CUDA_ARCH": "", "GLIBC": "2.28", "LINUX": "4.18"},
        ),
        (Scenario(("a",), "win-64"), {"CUDA": "", "CUDA_ARCH": "", "WIN": "10.0", "GLIBC": None}),
    ],
)
def test_the_machine_is_the_scenario_s(scenario: Scenario, stated: dict[str, str | None]) -> None:
    variables = overrides(scenario)
    assert variables["CONDA_SUBDIR"] == scenario.subdir
    assert {key: variables.get(f"CONDA_OVERRIDE_{key}") for key in stated} == stated


def ran(out: str = "", err: str = "", code: int = 0) -> Ran:
    return Ran(["/bin/conda", "create", "--dry-run"], code, out, err)


@pytest.mark.parametrize(
    "document",
    [
        # mamba-org/mamba#2513, and `CondaError.dump_map` of conda
        {
            "solver_problems": ["package a requires missing, but none can be installed"],
            "success": False,
        },
        {"exception_name": "LibMambaUnsatisfiableError", "message": "package a requires missing"},
    ],
)
def test_an_unsolvable_request_is_an_answer_with_the_client_s_reason(
    document: dict[str, Any],
) -> None:
    found = answer(ASKED, ran(json.dumps(document), code=1))
    assert not found.solved and found.problem.startswith("package a requires missing")


def test_an_answer_counts_though_the_client_crashed_after_it() -> None:
    """conda with conda-rattler-solver can crash while Python ends."""
    assert answer(ASKED, ran(PICKED, code=-6)).solved


@pytest.mark.parametrize(
    ("wrote", "message"),
    [
        ({"out": PICKED[:-9], "code": -6}, "was ended by SIGABRT and wrote no JSON"),
        (
            {"out": '{"exception_name": "CondaHTTPError"}', "code": 1},
            "does not say why there is no solution",
        ),
    ],
)
def test_what_is_no_answer_is_an_error_with_what_the_client_said(
    wrote: dict[str, Any], message: str
) -> None:
    with pytest.raises(SolverFailed) as error:
        answer(ASKED, ran(**wrote))
    assert message in error.value.cause
    assert error.value.cause.endswith((wrote.get("err") or wrote["out"]).strip())
    assert "--dry-run" in error.value.step  # the command, to try by hand


@pytest.mark.parametrize(
    ("answers", "message"),
    [("kill -SEGV $$", "was ended by SIGSEGV"), ("exec sleep 60", "did not answer within 1 s")],
)
def test_a_client_that_crashes_or_does_not_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str, message: str
) -> None:
    install("conda", tmp_path, monkeypatch, answers)
    with pytest.raises(SolverFailed, match=message):
        list(CondaLike("conda", timeout=1).solve_all([ASKED], CHANNELS))


def test_a_client_that_is_not_there_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("micromamba", "conda-rattler", "pixi"):
        with pytest.raises(SolverMissing) as error:
            clients.solver(name, Workspace(tmp_path))
        assert "--solver libsolv" in error.value.step
    with pytest.raises(UnknownName, match="minimamba"):
        clients.solver("minimamba", Workspace(tmp_path))


LOCK = """
version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: file:///channels/first%20one/noarch/cuda-version-13.0-native_100.conda
      - conda: file:///channels/second/linux-64/python-3.14.1-h1_100_cp314.tar.bz2
"""
# As rattler words it and pixi draws it.
PIXI_REFUSAL = """Error:   × failed to solve requirements of environment 'default' for platform \
'linux-64'
  ╰─▶ Cannot solve the request
      because of: cuda-core * cannot be installed because there are no viable
      options
"""


def test_a_lock_of_pixi_is_read(tmp_path: Path) -> None:
    (tmp_path / "pixi.lock").write_text(LOCK)
    records = locked(tmp_path / "pixi.lock")
    assert {name: (r.version, r.build, r.channel) for name, r in records.items()} == {
        "cuda-version": ("13.0", "native_100", URLS[0]),
        "python": ("3.14.1", "h1_100_cp314", URLS[1]),
    }


@pytest.mark.parametrize(
    ("subdir", "driver", "gpu"),
    [("win-64", None, None), ("linux-64", "12.4", None), ("linux-64", "13.0", "9.0")],
)
def test_a_workspace_of_pixi_says_no_more_than_the_scenario(
    subdir: str, driver: str | None, gpu: str | None
) -> None:
    specs = ("python_abi=3.14=*_cp314t", "python>=3.12,<3.15")
    workspace = tomllib.loads(manifest(Scenario(specs, subdir, driver, gpu), CHANNELS))
    assert workspace["workspace"]["channels"] == URLS
    assert workspace["workspace"]["channel-priority"] == "strict"
    assert workspace["dependencies"] == {
        "python_abi": {"version": "==3.14", "build": "*_cp314t"},
        "python": ">=3.12,<3.15",
    }
    (machine,) = workspace["workspace"]["platforms"]
    assert machine["platform"] == subdir
    assert machine.get("cuda") == ({"driver": driver, "arch": gpu} if gpu else driver)
    assert ("glibc" in machine, "windows" in machine) == (subdir != "win-64", subdir == "win-64")


def test_what_pixi_cannot_solve_is_an_answer_and_what_it_does_otherwise_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "said").write_text(PIXI_REFUSAL)
    install("pixi", tmp_path, monkeypatch, f'cat "{tmp_path}/said" >&2; exit 1')
    (found,) = PixiSolver("pixi").solve_all([ASKED], CHANNELS)
    assert "Cannot solve the request because of: cuda-core * cannot be installed" in found.problem
    (tmp_path / "said").write_text("Error: × failed to fetch repodata\n")
    with pytest.raises(SolverFailed, match="ended with 1"):
        list(PixiSolver("pixi").solve_all([ASKED], CHANNELS))


@pytest.mark.parametrize("name", [n for n in clients.NAMES if not n.startswith("libsolv")])
def test_the_clients_that_are_here_pick_what_rattler_picks(name: str, tmp_path: Path) -> None:
    """Requests without a pin for several drivers, which every client gets right."""
    program_of(name)
    folders = [write(tmp_path / "channel", channel()), write(tmp_path / "base", base())]
    # classic conda takes the newest version of a requested package first; only cuda-core's is one
    # for all toolkits.
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
        assert (found.records["cuda-version"].version if found.solved else "") == expected, (
            found.scenario
        )
