"""The TAB key, asked as shells ask: the right words, and no noise whatever state the checkout is in."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import NEWEST, ROOT, ctk
from ctk.check.audit import CHECKS
from ctk.check.lint import CHECKS as LINTS
from ctk.cli.main import COMMANDS, app
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import release_locks
from ctk.plan.plan import python_tags
from ctk.verify.channels import pythons
from ctk.verify.clients import NAMES
from ctk.verify.oracle import REQUESTS

HERE = Workspace(ROOT)
LOCKS = release_locks(HERE)
MINORS = {lock.minor for lock in LOCKS.values() if lock.is_ctk}
RELEASES = MINORS | {name for name in LOCKS if not name.startswith("cuda-")}
PYTHONS = {f"3.{tag[3:]}" for tag in python_tags(HERE.build_config)}


def asked(line: str, shell: str = "bash") -> dict[str, str]:
    """What a shell sets when TAB is pressed behind a line."""
    words = shlex.split(line)
    place = len(words) if line.endswith(" ") else len(words) - 1
    return {
        "_CTK_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(place),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": "" if line.endswith(" ") else words[-1],
    }


def offered(line: str) -> list[str]:
    done = CliRunner().invoke(app, [], prog_name="ctk", env={"CTK_ROOT": str(ROOT), **asked(line)})
    assert (done.exit_code, done.stderr) == (0, "")
    return [word for word in done.stdout.splitlines() if word]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ctk ", set(COMMANDS)),
        ("ctk rel", {"release"}),
        ("ctk release ", {"add", "measure", "check", "list", "diff"}),
        ("ctk build --all", {"--all-releases", "--all-components"}),
        ("ctk build --release ", RELEASES),
        ("ctk build --release 13.5", {"13.5"}),
        ("ctk release add ", {"base", *RELEASES}),
        (
            "ctk release measure ",
            {*MINORS, *(f"{kind}-{major}" for kind in ("libraries", "python") for major in (12, 13))},
        ),
        ("ctk release diff 13.4 ", RELEASES),
        ("ctk plan --recipe cuda-nv", {p.name for p in HERE.recipes.glob("cuda-nv*")}),
        ("ctk feedstock export cuda-core", {"cuda-core"}),
        ("ctk lint libnvf", {"libnvfatbin"}),
        ("ctk fetch -p ", set(PLATFORMS)),
        ("ctk solve --platform ", set(PLATFORMS)),
        ("ctk build --python ", PYTHONS),
        ("ctk verify --python ", PYTHONS | {f"3.{tag[3:]}" for tag in pythons()}),
        ("ctk verify --request ", set(REQUESTS)),
        ("ctk verify --solver ", {"rattler", *NAMES}),
        ("ctk verify --constraints ", {"honoured", "ignored"}),
        ("ctk plan --format ", {"table", "github"}),
        ("ctk solve --driver ", {"none", *MINORS}),
        ("ctk env create --driver ", {"none", *MINORS}),
        ("ctk solve --base ", {"local", "conda-forge"}),
        ("ctk audit --check ", {check.name for check in CHECKS}),
        ("ctk audit --skip ", {check.name for check in CHECKS}),
        ("ctk lint --check ", {check.name for check in LINTS}),
        ("ctk lint --explain ", {check.name for check in LINTS}),
        ("ctk audit --base ", set()),
    ],
)
def test_tab_offers_what_the_command_takes(line: str, words: set[str]) -> None:
    found = offered(line)
    assert len(found) == len(set(found))
    assert set(found) == words


def test_options_of_all_and_packages_are_offered() -> None:
    assert {"--json", "--quiet", "--verbose"} <= set(offered("ctk channel check --"))
    assert "cuda-core" in offered("ctk solve cuda-co")
    assert {"13.4", NEWEST} <= set(offered("ctk build -r 13."))


WITHOUT = ("rattler", "rattler_build", "rich", "filelock", "ctk.lock.lock", "ctk.plan.plan", "ctk.solve.solve")
"""What takes longer to be imported than TAB may take."""


def modules_behind(code: str, **variables: str) -> set[str]:
    """What is imported when a program has run."""
    program = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}"
    environment = {**os.environ, "CTK_ROOT": str(ROOT), **variables}
    command = [sys.executable, "-c", program]
    return set(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr.split())


@pytest.mark.parametrize("line", ["ctk ", "ctk build --release ", "ctk solve cuda-co", "ctk release add ", "ctk lint "])
def test_tab_imports_what_a_command_takes_and_not_what_it_does(line: str) -> None:
    found = modules_behind("from ctk.cli import run; run()", **asked(line))
    assert "ctk.cli.main" in found and not set(WITHOUT) & found


def test_a_command_imports_what_it_does_when_it_runs() -> None:
    """Each command's module, by itself."""
    modules = sorted(file.stem for file in (ROOT / "scripts" / "ctk" / "cli").glob("[!_]*.py"))
    found = modules_behind(f"from ctk.cli import {', '.join(modules)}")
    assert "ctk.cli.build_recipe" in found and not set(WITHOUT) & found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_is_answered_in_its_own_form_and_gets_a_script(shell: str, tmp_path: Path) -> None:
    (line,) = ctk(HERE, check=True, **asked("ctk sol", shell)).stdout.strip().splitlines()
    assert "solve" in line
    setting = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = ctk(HERE, "--show-completion", shell, check=True, **setting).stdout
    assert "_COMPLETE=complete_" in script or '_COMPLETE = "complete_' in script
    (tmp_path / "script").write_text(script)
    if shell in ("bash", "zsh") and (place := shutil.which(shell)):
        subprocess.run([place, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.parametrize("line", ["ctk build --python ", "ctk solve "])
def test_in_a_broken_checkout_nothing_is_said(line: str, tmp_path: Path) -> None:
    (tmp_path / "variants").write_text("no folder")
    (tmp_path / "conda_build_config.yaml").mkdir()
    (tmp_path / "output" / "channel" / "noarch").mkdir(parents=True)
    (tmp_path / "output" / "channel" / "noarch" / "repodata.json").write_text("{")
    (tmp_path / ".cache").write_text("no folder")
    done = ctk(Workspace(tmp_path), **asked(line))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
