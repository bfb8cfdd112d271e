"""`ctk doctor`: what it sees of a machine, and that nothing that is broken can keep it from saying so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT, ctk
from ctk.check import doctor
from ctk.check.doctor import Check, Seen, State, look
from ctk.check.doctor.check import Where, ok
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue

See = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """Locks and the list of packages: what a clone has."""
    shutil.copytree(ROOT / "variants", tmp_path / "variants")
    for name in ("requirements.lock", "conda_build_config.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    return Workspace(tmp_path)


@pytest.fixture
def see(checkout: Workspace) -> See:
    """Runs it, and returns its exit code and each check by name."""

    def run(*words: str, **environment: str) -> tuple[int, dict[str, dict[str, str]]]:
        done = ctk(checkout, "doctor", "--json", *(words or ("--offline",)), **environment)
        found = json.loads(done.stdout)
        assert found["ready"] is (done.returncode == 0)
        assert "Traceback" not in done.stderr
        return done.returncode, {check["check"]: check for check in found["checks"]}

    return run


def program(folder: Path, name: str, script: str) -> str:
    """A program of that name, first on PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_a_clone_that_was_set_up_is_ready(see: See) -> None:
    code, found = see()
    assert code == 0, found
    assert [name for name, check in found.items() if check["needed"] and check["state"] != "ok"] == []
    assert found["channel"]["state"] == "missing" and "build" in found["channel"]["step"]
    assert "CTK releases, 12.0 to " in found["release locks"]["found"]


def test_what_is_not_ok_says_what_to_do_or_that_it_is_just_not_there(see: See) -> None:
    for check in see(PATH="/nowhere")[1].values():
        assert check["found"]
        assert check["state"] == "ok" or check["step"] or check["found"].startswith(("not on PATH", "none"))


def test_a_lock_that_cannot_be_read_is_a_problem_with_its_name(see: See, checkout: Workspace) -> None:
    (checkout.variants / "cuda-13.4.lock").write_text("release: [")
    code, found = see()
    assert code == errors.NotReady.exit_code
    assert found["release locks"]["state"] == "problem"
    assert "cuda-13.4" in found["release locks"]["found"]


def test_packages_other_than_the_locked_ones_are_a_problem(see: See, checkout: Workspace) -> None:
    text = (checkout.root / "requirements.lock").read_text()
    (checkout.root / "requirements.lock").write_text(text.replace("typer==", "typer==999."))
    code, found = see()
    assert code == errors.NotReady.exit_code
    assert "typer" in found["packages"]["found"] and "./scripts/setup" in found["packages"]["step"]


def test_a_cache_that_cannot_be_written_is_a_problem(see: See, checkout: Workspace) -> None:
    checkout.cache.write_text("a file")
    code, found = see()
    assert code == errors.NotReady.exit_code
    assert found["cache"]["state"] == "problem"


def test_an_index_that_does_not_answer_is_a_problem_and_offline_it_is_not_asked(see: See) -> None:
    there = {"PIP_INDEX_URL": "http://someone:secret@127.0.0.1:1/simple", "PIP_CONFIG_FILE": os.devnull}
    code, found = see("-v", **there)
    assert code == errors.NotReady.exit_code
    assert found["package index"]["state"] == "problem"
    assert "127.0.0.1" in found["package index"]["found"]
    assert "secret" not in json.dumps(found)
    code, found = see("--offline", **there)
    assert code == 0
    assert "not asked" in found["package index"]["found"]
    assert "secret" not in json.dumps(found)


def test_clients_are_named_with_their_versions(see: See, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "pixi", "echo pixi 0.70.1")
    program(tmp_path / "bin", "mamba", "exit 3")
    found = see(PATH=path)[1]
    assert found["pixi"]["state"] == "ok" and found["pixi"]["found"].startswith("0.70.1, ")
    assert found["mamba"]["state"] == "missing" and "does not say" in found["mamba"]["found"]


def test_a_driver_is_named_as_rattler_sees_it(see: See, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", "echo 580.65.06")
    found = see(PATH=path, CONDA_OVERRIDE_CUDA="13.0", CONDA_OVERRIDE_CUDA_ARCH="9.0")[1]
    assert found["driver"]["found"] == "supports CUDA 13.0; nvidia-smi: 580.65.06"
    assert found["GPU"]["found"].startswith("compute capability 9.0")
    found = see(CONDA_OVERRIDE_CUDA="")[1]
    assert found["driver"]["state"] == "missing"


def test_a_channel_older_than_the_newest_lock_is_said_to_be(see: See, checkout: Workspace) -> None:
    for name in ("cuda-version-13.4-native_100.conda", "cuda-version-99.9-native_100.conda"):
        folder = checkout.channel / "noarch"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "repodata.json").write_text(json.dumps({"packages.conda": {name: {}}}))
        (checkout.variants / "cuda-99.9.lock").unlink(missing_ok=True)
        (checkout.variants / "cuda-99.9.lock").write_text("x")
        state = see()[1]["channel"]["state"]
        assert state == ("ok" if "99.9" in name else "missing")


def test_a_check_that_hangs_or_fails_is_a_problem_of_its_own_only(tmp_path: Path) -> None:
    release = threading.Event()

    class Hangs(Check):
        name, needed = "hangs", True

        def look(self, where: Where) -> Seen:
            release.wait()
            return ok("late")

    class Breaks(Check):
        name = "breaks"

        def look(self, where: Where) -> Seen:
            raise ImportError("no module named https://a:b@host")

    class Works(Check):
        name = "works"

        def look(self, where: Where) -> Seen:
            return ok("well")

    try:
        found = {
            check.name: seen for check, seen in look([Hangs, Breaks, Works], Where(Workspace(tmp_path)), limit=0.5)
        }
    finally:
        release.set()
    assert found["hangs"].state is State.PROBLEM and "no answer" in found["hangs"].text
    assert found["breaks"].state is State.MISSING and "//***@host" in found["breaks"].text
    assert found["works"] == ok("well")


def test_without_what_the_tooling_is_made_of_it_still_speaks(checkout: Workspace) -> None:
    hidden = "import sys; sys.modules.update(dict.fromkeys(['rattler', 'unearth', 'httpx2', 'ruamel.yaml']))"
    code = f"{hidden}; from ctk.cli.main import main; main()"
    words = [sys.executable, "-c", code, "doctor", "--offline", "--json"]
    done = subprocess.run(words, env={**os.environ, "CTK_ROOT": str(checkout.root)}, capture_output=True, text=True)
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == errors.NotReady.exit_code
    assert "./scripts/setup" in found["package index"]["step"]
    assert "./scripts/setup" in found["driver"]["step"]
    assert found["Python"]["state"] == "ok"


def test_every_check_says_what_it_is_for_and_has_a_name_of_its_own() -> None:
    names = [check.name for check in doctor.CHECKS]
    assert len(names) == len(set(names))
    assert all((check.__doc__ or check.__mro__[1].__doc__ or "").strip() for check in doctor.CHECKS)


def test_in_words_each_problem_is_a_line_and_the_error_names_them(checkout: Workspace) -> None:
    checkout.cache.write_text("a file")
    done = ctk(checkout, "doctor", "--offline", COLUMNS="80")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "problem  cache" in done.stdout
    assert done.stderr.startswith("error: 1 problem: cache\nnext: ")


@pytest.mark.parametrize(
    "words",
    [
        "doctor --offline",
        "plan",
        "build",
        "fetch",
        "release list",
        "release add 13.4",
        "release diff 13.4 13.5",
        "verify",
    ],
)
def test_a_root_that_is_no_checkout_is_said_to_be_none_and_stays_as_it_is(words: str, tmp_path: Path) -> None:
    """It is mistyped: what its files lack is not worth a word."""
    (tmp_path / "mistyped").mkdir()
    done = ctk(Workspace(tmp_path / "mistyped"), *words.split())
    assert done.returncode == BadValue.exit_code
    assert done.stderr.startswith(f"error: CTK_ROOT={tmp_path / 'mistyped'} is no checkout")
    assert "next: name a checkout with it, or unset it" in done.stderr
    assert list((tmp_path / "mistyped").iterdir()) == []
