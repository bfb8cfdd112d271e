"""`ctk doctor`: what it sees of a machine, and that nothing that is broken can keep it from saying
so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT, ctk
from ctk.cli.doctor import as_json
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue
from ctk.env.doctor import CHECKS, LEAST_FREE, Where, look, look_at, ok
from ctk.rules import Finding
from ctk.solve import machine as machines
from ctk.solve.driver import Answer, Change, DriverState, Limit
from kit.small_channel import record, write

See = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """Locks and the list of packages: what a clone has."""
    shutil.copytree(ROOT / "variants", tmp_path / "variants")
    for name in ("requirements.lock", "requirements-dev.lock", "conda_build_config.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    return Workspace(tmp_path)


@pytest.fixture
def full(tmp_path: Path) -> list[str]:
    """What a disk with little room left adds to the problems: the tests pass there too,
    and say so.
    """
    return ["disk"] if shutil.disk_usage(tmp_path).free < LEAST_FREE else []


@pytest.fixture
def see(checkout: Workspace, monkeypatch: pytest.MonkeyPatch) -> See:
    """Looks at everything, and returns what is said by check."""

    def run(offline: bool = True, **environment: str) -> dict[str, dict[str, str]]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        found = look(CHECKS, Where(checkout, offline))
        assert all(f.message and check.help for check, f in found)
        return {check.name: as_json(f) for check, f in found}

    return run


def program(folder: Path, name: str, script: str) -> str:
    """A program of that name, first on PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_a_clone_that_was_set_up_is_ready(checkout: Workspace, full: list[str]) -> None:
    done = ctk(checkout, "doctor", "--offline", "--json")
    document = json.loads(done.stdout)
    found = {check["check"]: check for check in document["checks"]}
    assert [name for name, check in found.items() if check["state"] == "problem"] == full
    code = errors.NotReady.exit_code if full else 0
    assert (done.returncode, document["ready"], len(found)) == (code, not full, len(CHECKS)), found
    assert {name for name, check in found.items() if check["needed"]} == {
        "packages",
        "package index",
        "disk",
    }
    assert found["channel"]["state"] == "note" and "build" in found["channel"]["step"]
    said = ctk(checkout, "doctor", "--offline").stdout
    assert ("ready: ./scripts/build and ./scripts/test work here\n" in said) == (not full)


def test_a_gpu_that_no_toolkit_compiles_for_gets_no_advice_about_the_driver(see: See) -> None:
    old = see(CONDA_OVERRIDE_CUDA="11.4", CONDA_OVERRIDE_CUDA_ARCH="3.7")["driver"]
    assert old["state"] == "note" and old["step"].startswith(
        "use a GPU of compute capability 5.0 or newer"
    )
    assert see(CONDA_OVERRIDE_CUDA_ARCH="5.0")["driver"]["state"] == "ok"


def test_what_is_not_ok_says_what_to_do_or_that_it_is_just_not_there(see: See) -> None:
    for check in see(PATH="/nowhere").values():
        assert (
            check["state"] == "ok"
            or check["step"]
            or check["found"].startswith(("not on PATH", "none"))
        )


def test_what_is_broken_in_a_checkout_is_a_problem(see: See, checkout: Workspace) -> None:
    file = checkout.root / "requirements.lock"
    file.write_text(file.read_text().replace("typer==", "typer==999."))
    checkout.cache.write_text("a file")
    seen = see()
    assert [name for name, check in seen.items() if check["state"] == "problem"] == [
        "packages",
        "disk",
    ]
    assert "typer" in seen["packages"]["found"] and "./scripts/setup" in seen["packages"]["step"]
    assert (
        "cannot be written" in seen["disk"]["found"] and "make it writable" in seen["disk"]["step"]
    )


def test_an_index_that_does_not_answer_is_a_problem_and_offline_it_is_not_asked(see: See) -> None:
    there = {
        "PIP_INDEX_URL": "http://someone:secret@127.0.0.1:1/simple",
        "PIP_CONFIG_FILE": os.devnull,
    }
    online, offline = see(offline=False, **there), see(offline=True)
    assert (
        online["package index"]["state"] == "problem"
        and "127.0.0.1" in online["package index"]["found"]
    )
    assert (
        offline["package index"]["state"] == "ok"
        and "not asked" in offline["package index"]["found"]
    )
    assert "secret" not in json.dumps([online, offline])


def test_clients_are_named_with_their_versions(see: See, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "pixi", "echo '  Pixi version: 0.70.1'")
    found = see(PATH=path)["clients"]
    assert found["state"] == "ok" and f"pixi 0.70.1, {tmp_path / 'bin'}" in found["found"]
    program(tmp_path / "bin", "pixi", "exit 3")
    assert see(PATH=path)["clients"]["found"] == f"{tmp_path / 'bin' / 'pixi'} info fails"


def test_a_client_that_sees_another_driver_is_a_problem(see: See, tmp_path: Path) -> None:
    """As mamba does, where a toolkit is in /usr/local/cuda."""
    path = program(
        tmp_path / "bin", "conda", "echo virtual packages : __unix=0=0; echo __cuda=12.9=0"
    )
    found = see(PATH=path, CONDA_OVERRIDE_CUDA="13.0")["clients"]
    assert found["state"] == "problem" and "CUDA 12.9; it supports 13.0" in found["found"]
    assert found["step"] == "export CONDA_OVERRIDE_CUDA=13.0"
    assert see(PATH=path, CONDA_OVERRIDE_CUDA="")["clients"]["state"] == "problem"
    assert see(PATH=path, CONDA_OVERRIDE_CUDA="12.9")["clients"]["state"] == "ok"


def test_a_client_that_sees_a_driver_that_is_hidden_or_broken_is_not_told_that_there_is_none(
    see: See, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mamba asks nvidia-smi, which starts no CUDA program."""
    path = program(tmp_path / "bin", "mamba", "echo __cuda=13.0=0")
    monkeypatch.setattr(machines, "detected", lambda subdir: (None, None))
    for name in ("CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH"):
        monkeypatch.delenv(name, raising=False)
    seen, works = (
        Answer(version="13.0", function="cuInit", code=100),
        Answer(version="13.0", gpus=("9.0",)),
    )
    hidden = DriverState(Limit.VARIABLE, seen, Change("CUDA_VISIBLE_DEVICES", "", None), works)
    for state in (hidden, DriverState(Limit.REFUSED, seen)):
        monkeypatch.setattr(machines, "driver_state", lambda state=state: state)
        assert see(PATH=path)["clients"]["state"] == "ok", state.limit
    monkeypatch.setattr(
        machines, "driver_state", lambda: DriverState(Limit.NO_DRIVER, Answer(not_loaded="no file"))
    )
    found = see(PATH=path)["clients"]
    assert (
        found["state"] == "problem"
        and "sees a driver for CUDA 13.0; there is none" in found["found"]
    )


def test_a_driver_is_named_as_rattler_sees_it(see: See, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "echo NVIDIA H200, 580.65.06")
    found = see(PATH=path, CONDA_OVERRIDE_CUDA="13.0", CONDA_OVERRIDE_CUDA_ARCH="9.0")
    assert (
        found["driver"]["found"]
        == "driver 13.0 given, GPU 9.0 given; nvidia-smi: NVIDIA H200, 580.65.06"
    )
    found = see(CONDA_OVERRIDE_CUDA="")
    assert found["driver"]["state"] == "note"


def test_a_channel_older_than_the_newest_lock_is_said_to_be(see: See, checkout: Workspace) -> None:
    for name in ("cuda-version-13.4-native_100.conda", "cuda-version-99.9-native_100.conda"):
        folder = checkout.channel / "noarch"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "repodata.json").write_text(json.dumps({"packages.conda": {name: {}}}))
        (checkout.variants / "cuda-99.9.lock").unlink(missing_ok=True)
        (checkout.variants / "cuda-99.9.lock").write_text("x")
        state = see()["channel"]["state"]
        assert state == ("ok" if "99.9" in name else "note")


def test_a_channel_that_is_named_takes_the_place_of_the_built_one(
    checkout: Workspace, tmp_path: Path
) -> None:
    channel = write(
        tmp_path / "channel", iter([record("cuda-version", "13.4", "native_100", "noarch")])
    )
    done = ctk(
        checkout,
        "doctor",
        "--offline",
        "--json",
        "--channel",
        str(channel),
        "--channel",
        str(tmp_path / "no"),
    )
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}["channel"]
    assert (
        found["state"] == "problem"
        and f"there is no channel in {tmp_path / 'no'}" in found["found"]
    )
    done = ctk(checkout, "doctor", "--offline", "--json", "--channel", str(channel))
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}["channel"]
    assert (found["state"], found["found"]) == ("ok", f"{channel}: toolkit 13.4")


def test_a_check_that_fails_is_a_problem_of_its_own_only(tmp_path: Path) -> None:
    @look_at(Where, "breaks")
    def breaks(where: Where) -> Finding:
        raise ImportError("no module named https://a:b@host")

    @look_at(Where, "works")
    def works(where: Where) -> Finding:
        return ok("well")

    found = {check.name: f for check, f in look([breaks, works], Where(Workspace(tmp_path)))}
    assert found["breaks"].severity == "hint" and "//***@host" in found["breaks"].message
    assert (found["works"].severity, found["works"].message) == ("ok", "well")


def test_without_what_the_tooling_is_made_of_it_still_speaks(checkout: Workspace) -> None:
    hidden = (
        "import sys; sys.modules.update(dict.fromkeys(['rattler', 'unearth', 'httpx2',"
        " 'ruamel.yaml']))"
    )
    code = f"{hidden}; from ctk.cli.main import main; main()"
    words = [sys.executable, "-c", code, "doctor", "--json"]
    done = subprocess.run(
        words, env={**os.environ, "CTK_ROOT": str(checkout.root)}, capture_output=True, text=True
    )
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == errors.NotReady.exit_code
    assert "./scripts/setup" in found["package index"]["step"]
    assert found["driver"]["state"] in ("ok", "note")
    assert found["packages"]["state"] == "ok"


def test_in_words_each_problem_is_a_line_and_the_error_names_them(checkout: Workspace) -> None:
    checkout.cache.write_text("a file")
    done = ctk(checkout, "doctor", "--offline")
    assert "problem  disk" in done.stdout
    first, second = done.stderr.splitlines()[:2]
    assert (done.returncode, first, second[:6]) == (
        errors.NotReady.exit_code,
        "error: 1 problem: disk",
        "next: ",
    )


@pytest.mark.parametrize(
    "words", ["doctor --offline", "build --dry-run", "release add 13.4", "verify"]
)
def test_a_root_that_is_no_checkout_is_said_to_be_none_and_stays_as_it_is(
    words: str, tmp_path: Path
) -> None:
    """It is mistyped: what its files lack is not worth a word."""
    done = ctk(Workspace(tmp_path), *words.split())
    assert done.returncode == BadValue.exit_code
    assert done.stderr.startswith(f"error: CTK_ROOT={tmp_path} is not a checkout")
    assert list(tmp_path.iterdir()) == []


def test_a_variable_of_a_driver_that_cannot_be_or_be_read_is_named(see: See) -> None:
    doubted = see(CONDA_OVERRIDE_CUDA="99")["driver"]
    assert (
        doubted["state"] == "note"
        and "CONDA_OVERRIDE_CUDA states a driver for CUDA 99.0" in doubted["found"]
    )
    assert doubted["step"].startswith("`export CONDA_OVERRIDE_CUDA=13.0`")
    unread = see(CONDA_OVERRIDE_CUDA="no driver")["driver"]
    assert (
        unread["found"].startswith("CONDA_OVERRIDE_CUDA: ")
        and "CONDA_OVERRIDE_CUDA" in unread["step"]
    )


@pytest.mark.parametrize(
    ("installed", "stays"),
    [("", True), ("in {here}\n", True), ("in /elsewhere\n", False), ("0", False)],
)
def test_setup_makes_a_venv_again_that_was_copied_or_moved(
    tmp_path: Path, installed: str, stays: bool
) -> None:
    """Its programs name its folder: in a copy, `ctk` was that of the other checkout."""
    (tmp_path / "scripts").mkdir()
    for file in ("scripts/setup", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").write_text(installed.format(here=tmp_path))
    python = tmp_path / "python"
    # All well, but that it can make no environment.
    python.write_text('#!/bin/sh\n[ "$2" != venv ]\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", tmp_path / "scripts" / "setup"],
        env={**os.environ, "PYTHON": str(python)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "cannot make a virtual environment" in done.stderr
    assert (tmp_path / ".venv").exists() is stays
