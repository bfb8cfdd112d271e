"""The TAB key, asked as shells ask: the right words, quickly, and no noise whatever state the checkout is in."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_list import ALL, command

from conftest import NEWEST, ROOT
from ctk.check.audit import CHECKS
from ctk.check.lint import CHECKS as LINTS
from ctk.cli import completion
from ctk.cli.table import COMMANDS
from ctk.core.paths import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import release_locks
from ctk.plan.project import python_tags
from ctk.verify.channels import pythons
from ctk.verify.clients import NAMES
from ctk.verify.oracle import REQUESTS

HERE = Workspace(ROOT)
LOCKS = release_locks(HERE)
MINORS = [lock.minor for lock in LOCKS.values() if lock.is_ctk]
PROGRAM = "import sys; sys.argv[0] = 'ctk'; from ctk.cli.main import main; main()"


def ask(line: str, root: Path = ROOT, shell: str = "bash") -> subprocess.CompletedProcess[str]:
    """What a shell is answered when TAB is pressed behind a line."""
    words = shlex.split(line)
    place = len(words) if line.endswith(" ") else len(words) - 1
    bash = {"COMP_WORDS": line, "COMP_CWORD": str(place)}
    others = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    others["_TYPER_COMPLETE_WORD_TO_COMPLETE"] = "" if line.endswith(" ") else words[-1]
    setting = {"CTK_ROOT": str(root), completion.VARIABLE: f"complete_{shell}", **bash, **others}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **setting}, capture_output=True, text=True, check=False
    )


def offered(line: str, root: Path = ROOT) -> list[str]:
    done = ask(line, root)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A checkout with nothing in it."""
    return tmp_path


def test_commands_and_their_options() -> None:
    assert offered("ctk ") == list(COMMANDS)
    assert offered("ctk rel") == ["release"]
    assert offered("ctk release ") == ["add", "measure", "check", "list", "diff"]
    assert offered("ctk build --all") == ["--all-releases", "--all-components"]
    assert {"--json", "--quiet", "--verbose"} <= set(offered("ctk channel check --"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ctk build --release 13.", {NEWEST}),
        ("ctk release add ", {NEWEST, "python-13"}),
        ("ctk release diff 13.4 13", {NEWEST}),
        ("ctk plan --recipe cuda-nv", {"cuda-nvcc", "cuda-nvrtc"}),
        ("ctk feedstock export cuda-c", {"cuda-core", "cuda-cudart"}),
        ("ctk fetch -p ", set(PLATFORMS)),
        ("ctk build --python 3.1", {"3.12", "3.14t"}),
        ("ctk audit --check ", {check.id() for check in CHECKS}),
        ("ctk audit --skip Needed", {"NeededIsFound", "NeededIsProvided"}),
        ("ctk verify --solver ", {"rattler", *NAMES}),
        ("ctk verify --constraints ", {"honoured", "ignored"}),
        ("ctk plan --format ", {"table", "github"}),
        ("ctk release diff 13.4 13.5 --component cub", {"cublas"}),
        ("ctk solve cuda-co", {"cuda-core"}),
    ],
)
def test_values_are_those_of_the_checkout(line: str, expected: set[str]) -> None:
    found = offered(line)
    start = "" if line.endswith(" ") else line.split()[-1]
    assert expected <= set(found)
    assert all(word.startswith(start) for word in found)
    assert len(found) == len(set(found))


def test_no_check_is_offered_that_the_audit_does_not_have() -> None:
    assert sorted(offered("ctk audit --check ")) == sorted(check.id() for check in CHECKS)


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("ctk verify --request ", set(REQUESTS)),
        ("ctk verify --python ", {f"3.{tag[3:]}" for tag in (*pythons(), *python_tags(HERE.build_config))}),
        ("ctk solve --driver ", {"none", *MINORS}),
        ("ctk env create --driver ", {"none", *MINORS}),
        ("ctk release measure ", set(MINORS)),
        ("ctk release add ", {"base", *MINORS, *(name for name in LOCKS if name.startswith("python-"))}),
        ("ctk release diff --component ", {c.name for lock in LOCKS.values() for c in lock.components.values()}),
        ("ctk audit --base ", set()),
        ("ctk lint --base ", set()),
    ],
)
def test_what_is_offered_is_what_the_command_takes(line: str, taken: set[str]) -> None:
    assert set(offered(line)) == taken


def test_the_checks_of_the_lint_are_all_of_them() -> None:
    assert sorted(offered("ctk lint --check ")) == sorted(check.name for check in LINTS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_is_answered_in_its_own_form(shell: str) -> None:
    done = ask("ctk sol", shell=shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "solve" in done.stdout
    assert len(done.stdout.strip().splitlines()) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_gets_a_script(shell: str) -> None:
    setting = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    words = [sys.executable, "-c", PROGRAM, "--show-completion", shell]
    done = subprocess.run(words, env={**os.environ, **setting}, capture_output=True, text=True, check=True)
    assert completion.VARIABLE in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_shell_itself_takes_the_script(shell: str, tmp_path: Path) -> None:
    place = shutil.which(shell)
    if not place:
        pytest.skip(f"there is no {shell} here")
    setting = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    words = [sys.executable, "-c", PROGRAM, "--show-completion", shell]
    script = subprocess.run(words, env={**os.environ, **setting}, capture_output=True, text=True, check=True).stdout
    (tmp_path / "script").write_text(script)
    subprocess.run([place, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.parametrize("name", ALL)
def test_what_is_kept_of_a_command_is_what_it_has(name: str) -> None:
    entry = COMMANDS
    for word in name.split():
        entry = entry[word] if isinstance(entry, dict) else entry.commands[word]  # type: ignore[union-attr,assignment]
    real = completion.sketch(p for p in command(name).params if p.expose_value)
    made = completion.function(str(entry), real)
    parameters = made.__signature__.parameters  # type: ignore[attr-defined]
    assert len(parameters) == len(real)
    offered(f"ctk {name} --")
    assert completion.kept(str(entry)) == real


@pytest.mark.parametrize(
    "line", ["ctk build --release ", "ctk plan --recipe ", "ctk build --python ", "ctk solve ", "ctk audit --check "]
)
def test_in_a_broken_checkout_nothing_is_said(line: str, empty: Path) -> None:
    (empty / "variants").write_text("no folder")
    (empty / "conda_build_config.yaml").mkdir()
    (empty / "output" / "channel" / "noarch").mkdir(parents=True)
    (empty / "output" / "channel" / "noarch" / "repodata.json").write_text("{")
    (empty / ".cache").write_text("no folder")
    done = ask(line, empty)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_spoilt_note_is_written_anew(empty: Path) -> None:
    assert "--release" in offered("ctk plan --re", empty)
    (note,) = (empty / ".cache" / "completion").glob("build.plan_command.json")
    note.write_text('{"files": 1}')
    assert "--release" in offered("ctk plan --re", empty)
    assert "--release" in note.read_text()


def test_a_command_is_not_imported_for_the_second_answer(empty: Path) -> None:
    """What it would take is most of a second."""
    code = f"""
import atexit, sys
atexit.register(lambda: print(sorted({{"rattler", "rattler_build", "unearth", "ctk.pipeline"}} & sys.modules.keys())))
{PROGRAM}
"""
    line = {"COMP_WORDS": "ctk build --rel", "COMP_CWORD": "2"}
    setting = {**os.environ, "CTK_ROOT": str(empty), completion.VARIABLE: "complete_bash", **line}
    said = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, text=True, check=True)
        said.append(done.stdout.split("\n", 1))
    assert said[0][0] == said[1][0] == "--release"
    assert "'rattler'" in said[0][1]
    assert said[1][1] == "[]\n"
