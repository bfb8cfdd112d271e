"""What a command says and ends with where its output cannot be written, and what --debug adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conftest import NEWEST, ROOT, ctk
from ctk.core import errors
from ctk.core.checkout import Workspace

FULL = "error: standard output or error cannot be written: No space left on device\nnext: "
UNKNOWN = "error: unknown recipe 'x'\nnext: "
BAD = "plan --recipe x"
LOCKS = (f"cuda-{NEWEST}", f"python-{NEWEST.partition('.')[0]}")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A checkout with one CTK release: its commands take a moment."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("recipes", "conda_build_config.yaml"):
        (root / name).symlink_to(ROOT / name)
    (root / "variants").mkdir()
    for name in ("exclusions.yaml", *(f"{lock}.{half}" for lock in LOCKS for half in ("lock", "yaml"))):
        (root / "variants" / name).symlink_to(ROOT / "variants" / name)
    return Workspace(root)


def shell(where: Workspace, line: str) -> subprocess.CompletedProcess[str]:
    """A line for bash, in which `ctk` is the command."""
    main = f"ctk() {{ {sys.executable} -c 'from ctk.cli import run; run()' \"$@\"; }}"
    return subprocess.run(
        ["bash", "-c", f"{main}\n{line}"],
        env={**os.environ, "CTK_ROOT": str(where.root)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("ctk release list >/dev/full", errors.NoSpace, FULL),
        ("ctk release list --json >/dev/full", errors.NoSpace, FULL),
        ("ctk --help >/dev/full", errors.NoSpace, FULL),
        (f"ctk {BAD} >/dev/full", errors.UnknownName, UNKNOWN),
        (f"ctk {BAD} --json >/dev/full", errors.UnknownName, UNKNOWN),
        (f"ctk {BAD} >&- <&-", errors.UnknownName, UNKNOWN),
        (f"ctk {BAD} 2>/dev/full", errors.UnknownName, ""),
    ],
)
def test_output_that_cannot_be_written_is_said_and_hides_no_other_error(
    small: Workspace, line: str, code: type[errors.CtkError], said: str
) -> None:
    done = shell(small, line)
    assert done.returncode == code.exit_code, done.stderr
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == (2 if said else 0), done.stderr


def test_results_do_not_need_stderr(small: Workspace) -> None:
    assert shell(small, "ctk release list 2>&-").stdout == shell(small, "ctk release list").stdout


@pytest.mark.parametrize("options", ["", "--json", "--debug"])
def test_a_pipe_whose_reader_has_enough_ends_the_command_silently(small: Workspace, options: str) -> None:
    done = shell(small, f"ctk release list {options} | head -c 1 >&2; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, len(done.stderr)) in [(f"{errors.ReaderGone.exit_code}\n", 1), ("0\n", 1)], done.stderr
    gone = shell(small, f"ctk release list {options} | true; echo ${{PIPESTATUS[0]}}")  # before anything is written
    assert (gone.stdout, gone.stderr) == (f"{errors.ReaderGone.exit_code}\n", "")


@pytest.mark.parametrize("words", [BAD, "plan --no-such-option"])
def test_debug_adds_a_traceback_and_takes_nothing_away(small: Workspace, words: str) -> None:
    plain, debug = ctk(small, *words.split()), ctk(small, "--debug", *words.split())
    assert debug.returncode == plain.returncode
    assert debug.stderr.startswith("Traceback ") and debug.stderr.endswith(plain.stderr)
    document = ctk(small, "--debug", "--json", *words.split())
    assert json.loads(document.stdout)["error"]["exit_code"] == document.returncode == plain.returncode


@pytest.mark.parametrize("columns", ["0", "", "-1", "wide"])
def test_a_width_that_is_none_is_not_taken(small: Workspace, columns: str) -> None:
    shown = ctk(small, "release", "list", COLUMNS=columns)
    assert shown.returncode == 0
    assert shown.stdout == ctk(small, "release", "list", COLUMNS="120").stdout


def test_a_command_that_read_a_dll_ends_in_silence() -> None:
    """The reader of DLLs, whose binding looks for leaks when the interpreter ends."""
    program = "import lief, sys; from ctk.cli import run; sys.argv = ['ctk', '--version']; run()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
