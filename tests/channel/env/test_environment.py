"""An environment of `ctk env create`: bytecode, activation, and `ctk env run`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rattler.exceptions import InstallerError
from typer.testing import CliRunner

from conftest import ctk
from ctk.cli.main import app
from ctk.core import console
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, ChannelMissing
from ctk.core.platforms import this_platform
from ctk.env import environment as environments
from ctk.env.activation import STARTUP
from ctk.env.install import _not_installed
from ctk.env.prefix import Note
from ctk.solve.solve import Catalogue, Scenario
from ctk.solve.why import solve_or_say_why
from kit.odd_packages import OLD, SITE, odd_checkout
from kit.packs import checkout, create, pack, pretend, refused, unpack
from kit.tiny_packages import pure, tiny

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)

CHECKED_HASH = 3  # the flags of PEP 552


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return odd_checkout(tmp_path_factory.mktemp("a checkout"))


@pytest.fixture(scope="module")
def environment(where: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment under a path with a space."""
    prefix = tmp_path_factory.mktemp("an environment") / "env"
    create(where, prefix, "application", "folder", "placed")
    return prefix


def compiled(prefix: Path) -> dict[str, bytes]:
    """Module -> its bytecode."""
    found = prefix.rglob("__pycache__/*.pyc")
    return {
        (
            path.name.partition(".")[0] if "__init__" not in path.name else path.parts[-3]
        ): path.read_bytes()
        for path in found
    }


def test_every_module_has_bytecode_that_is_valid_by_hash_and_names_no_folder(
    environment: Path,
) -> None:
    found = compiled(environment)
    assert found.keys() == {"pure", "folder", "placed"}  # and not what is not a Python
    for name, content in found.items():
        assert content[4] == CHECKED_HASH, name
        assert (str(environment).encode() in content) is (name == "placed"), (
            "but for a module that has it as text"
        )
    assert f"{SITE}/pure.py".encode() in found["pure"]


def test_an_error_of_the_installer_is_of_the_package_whose_file_it_names(tmp_path: Path) -> None:
    """The name of one can be the end of another's, and the first in the alphabet was blamed."""
    where = checkout(tmp_path, tiny("core"), tiny("my-core"), tiny("x-core"))
    catalogue = Catalogue([where.channel], this_platform())
    pick = solve_or_say_why(Scenario(("core", "my-core", "x-core"), this_platform()), catalogue)
    for name in ("core", "my-core", "x-core"):
        error = _not_installed(
            pick, InstallerError(f"failed to fetch {name}-1.0-0.conda: it is damaged")
        )
        assert error.cause.startswith(f"{name}-1.0-0.conda of "), error.cause
    assert "see what the reason names" in _not_installed(pick, InstallerError("no space")).step


def test_a_channel_that_somebody_else_built_is_enough(where: Workspace, tmp_path: Path) -> None:
    nothing = Workspace(tmp_path / "nothing built")
    nothing.root.mkdir()
    words = (
        "env",
        "create",
        "pure",
        "--base",
        str(where.root / "base"),
        "--prefix",
        str(tmp_path / "env"),
    )
    refused = ctk(nothing, *words)
    assert refused.returncode == ChannelMissing.exit_code
    assert "`ctk build`" in refused.stderr and "--channel" in refused.stderr
    ctk(nothing, *words, "--channel", str(where.channel), check=True)
    assert (tmp_path / "env" / SITE / "pure.py").is_file()
    note = Note.read(tmp_path / "env")
    assert note and f"--channel '{where.channel}'" in note.again(tmp_path / "env")


def test_the_machine_that_was_stated_is_kept_where_there_is_no_driver(
    where: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, a change of the request would change the toolkit too."""
    monkeypatch.setattr("ctk.solve.machine.detected", lambda subdir: (None, None))
    monkeypatch.setenv("CTK_ROOT", str(where.root))
    machine, base = ("--driver", "13.0", "--arch", "9.0"), str(where.root / "base")
    for words, asked in (
        (("pure", *machine), ("pure", *machine)),
        (("application",), ("application", *machine)),
        (("pure", "--driver", "none"), ("pure", "--driver", "none")),
    ):
        console.begin()
        create_words = [
            "env",
            "create",
            *words,
            "--yes",
            "--base",
            base,
            "--prefix",
            str(tmp_path / "env"),
        ]
        done = CliRunner().invoke(app, create_words)
        assert done.exit_code == 0, done.output
        same = "for the same machine as before: driver 13.0, GPU 9.0; here: no driver detected\n"
        assert (same in done.stdout) == (words == ("application",))
        other = "for another machine than before: no driver; before: driver 13.0, GPU 9.0\n"
        assert (other in done.stdout) == ("none" in words)
        note = Note.read(tmp_path / "env")
        assert note and note.asked == (*asked, "--base", base)


def test_of_a_package_that_goes_no_bytecode_and_no_folder_stays(
    where: Workspace, tmp_path: Path
) -> None:
    create(where, tmp_path / "env", "application", "folder")
    assert (tmp_path / "env" / SITE / "folder" / "__pycache__").is_dir()
    create(where, tmp_path / "env", "application")
    assert not (tmp_path / "env" / SITE / "folder").exists()
    assert compiled(tmp_path / "env").keys() == {"pure"}


def test_unpacking_compiles_every_module(where: Workspace, tmp_path: Path) -> None:
    done = pack(where, "application", "folder", "placed", "-o", str(tmp_path / "p.run"))
    assert done.returncode == 0, done.stderr
    assert unpack(tmp_path / "p.run", tmp_path / "there").returncode == 0
    found = compiled(tmp_path / "there")
    assert found.keys() == {"pure", "folder", "placed"}
    assert str(tmp_path / "there").encode() in found["placed"]
    assert {content[4] for content in found.values()} == {CHECKED_HASH}


def test_a_pack_for_another_platform_is_unpacked_there_only(tmp_path: Path) -> None:
    arm = tiny(
        "application", subdir="linux-aarch64", depends=("python", "pure"), files={"lib/a": b"a"}
    )
    where = checkout(tmp_path, arm, pure(), subdir="linux-aarch64")
    pack(where, "application", "--platform", "linux-aarch64", "-o", str(tmp_path / "p.run"))
    refused(unpack(tmp_path / "p.run", tmp_path / "e"), "for linux-aarch64", "x86_64")
    arms = pretend(tmp_path / "arm", uname="[ $1 = -m ] && echo aarch64 || echo Linux")
    assert unpack(tmp_path / "p.run", tmp_path / "e", PATH=arms["PATH"]).returncode == 0


ASK = 'echo "$CONDA_PREFIX|$CONDA_DEFAULT_ENV|$APPLICATION"; command -v hello'


def answer(prefix: Path) -> list[str]:
    return [f"{prefix}|{prefix}|active in {prefix}", f"{prefix}/bin/hello"]


def test_a_command_runs_activated_wherever_the_environment_has_gone(
    where: Workspace, environment: Path, tmp_path: Path
) -> None:
    assert ctk(
        where, "env", "run", str(environment), "--", "sh", "-c", ASK
    ).stdout.splitlines() == answer(environment)
    moved = tmp_path / "it was moved"
    shutil.copytree(environment, moved, symlinks=True)
    assert ctk(
        where, "env", "run", str(moved), "--", "sh", "-c", ASK
    ).stdout.splitlines() == answer(moved)
    own = subprocess.run(
        [moved / "bin" / "run-in-environment", "sh", "-c", ASK], capture_output=True, text=True
    )
    assert own.stdout.splitlines() == answer(moved)


def test_a_python_or_pip_that_is_not_there_is_answered_with_what_helps(
    where: Workspace, environment: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "a copy"
    shutil.copytree(environment, copy, symlinks=True)
    for name, step in (
        ("pip", f"next: to add it, type `ctk env add '{copy}' pip`"),
        ("python", f"next: its package has lost files: `ctk doctor '{copy}'` says what helps"),
    ):
        (copy / "bin" / name).unlink(missing_ok=True)
        done = ctk(where, "env", "run", str(copy), "--", name, "--version")
        assert done.returncode == 127
        assert done.stderr.splitlines() == [f"error: there is no {name} in {copy}", step]


def test_any_conda_environment_will_do(where: Workspace, tmp_path: Path) -> None:
    """An environment without our scripts."""
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    (tmp_path / "env" / "bin").mkdir()
    done = ctk(
        where,
        "env",
        "run",
        str(tmp_path / "env"),
        "--",
        "sh",
        "-c",
        'echo "$CONDA_PREFIX"; echo "$PATH"',
    )
    prefix, path = done.stdout.splitlines()
    assert prefix == str(tmp_path / "env") and path.startswith(f"{prefix}/bin:")


def test_the_exit_code_is_the_commands_and_so_are_its_words(
    where: Workspace, environment: Path
) -> None:
    script = 'printf "<%s>" "$@"; exit 7'
    done = ctk(
        where, "env", "run", str(environment), "--", "sh", "-c", script, "sh", "", "a b", "--json"
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "<><a b><--json>", "")


def test_nothing_of_this_program_is_in_the_commands_surroundings(
    where: Workspace, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command would inherit signals that Python ignores.

    And it has the variables of the caller.
    """
    monkeypatch.setenv("STRANGE", os.fsdecode(b"\xff"))
    script = (
        'echo "${RATTLER_CACHE_DIR-unset}"; echo "${TMPDIR-unset}"; printf "$STRANGE" | od -An'
        " -tx1; "
    )
    done = ctk(
        where,
        "env",
        "run",
        str(environment),
        "--",
        "sh",
        "-c",
        f"{script} grep SigIgn /proc/$$/status",
    )
    *variables, ignored = done.stdout.splitlines()
    assert variables == [
        os.environ.get("RATTLER_CACHE_DIR", "unset"),
        os.environ.get("TMPDIR", "unset"),
        " ff",
    ]
    assert not (where.cache / "tmp").exists()
    assert not int(ignored.split()[1], 16) & 1 << (signal.SIGPIPE - 1)


def test_a_signal_is_the_commands(where: Workspace, environment: Path, tmp_path: Path) -> None:
    code = "from ctk.cli.main import main; main()"
    said = f"trap 'echo came; exit 9' TERM; : >{tmp_path}/ready; while :; do sleep 0.05; done"
    words = [sys.executable, "-c", code, "env", "run", str(environment), "--", "sh", "-c", said]
    running = subprocess.Popen(
        words, env={**os.environ, "CTK_ROOT": str(where.root)}, stdout=subprocess.PIPE, text=True
    )
    while not (tmp_path / "ready").exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    assert running.communicate()[0] == "came\n"
    assert running.returncode == 9


def test_nothing_runs_in_an_environment_that_was_not_finished(
    where: Workspace, tmp_path: Path
) -> None:
    note = Note(("pure-1.conda#",), ("pure", "--driver", "13.0"))
    (tmp_path / "conda-meta").mkdir()
    note.write(tmp_path)
    done = ctk(where, "env", "run", str(tmp_path), "--", "true")
    assert done.returncode == BadValue.exit_code and f"{tmp_path} is incomplete" in done.stderr
    assert f"`ctk env create pure --driver 13.0 --prefix {tmp_path}`" in done.stderr
    replace(note, stamp="x").write(tmp_path)
    assert ctk(where, "env", "run", str(tmp_path), "--", "true").returncode == 0


def test_an_environment_is_not_made_among_other_files(where: Workspace, tmp_path: Path) -> None:
    program = tmp_path / "local" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("somebody's own")
    done = ctk(where, "env", "create", "pure", "--prefix", str(tmp_path / "local"))
    assert (
        done.returncode == BadValue.exit_code
        and "contains files but is not an environment" in done.stderr
    )
    for below in (program, program / "env"):
        with pytest.raises(BadValue, match="is a file"):
            environments.refuse_other_folder(below)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [program]


@pytest.mark.parametrize("name", ["it's", "a\nb"])
def test_a_path_that_would_break_the_environment_is_refused(
    where: Workspace, environment: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / name)
    done = ctk(where, "env", "create", "application", "--prefix", str(tmp_path / "link"))
    assert done.returncode == 2 and "would break files of packages" in done.stderr
    assert not os.path.lexists(tmp_path / name)
    shutil.copytree(environment, tmp_path / name, symlinks=True)  # another program made it
    for command in (
        ("env", "run", str(tmp_path / name), "--", "true"),
        ("doctor", str(tmp_path / name)),
    ):
        done = ctk(where, *command)
        assert done.returncode == 2 and "would break files of packages" in done.stderr


def test_a_command_that_is_not_there_is_said(where: Workspace, environment: Path) -> None:
    done = ctk(where, "env", "run", str(environment), "--", "no-such-command")
    assert done.returncode == 127
    assert (
        done.stderr.startswith("error: there is no command no-such-command in ")
        and "\nnext: " in done.stderr
    )


@pytest.mark.parametrize("name", ["pip3", "python", "python3.11"])
def test_another_python_on_path_does_nothing(
    where: Workspace, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before, `pip install` was that of the next Python on PATH, such as ctk's own, with exit code
    0.
    """
    moved, other = tmp_path / "moved", tmp_path / "bin" / name
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho another\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    shutil.copytree(environment, moved, symlinks=True)
    (moved / "bin" / name).unlink(missing_ok=True)
    (moved / "bin" / name).symlink_to("gone")
    for script, said in (
        ("", f"error: there is no {name} in {moved}\nnext: "),
        ("#!/no/python\n", "not found"),
    ):
        if script:  # of an environment that was moved
            (moved / "bin" / name).unlink()
            (moved / "bin" / name).write_text(script)
            (moved / "bin" / name).chmod(0o755)
        done = ctk(where, "env", "run", str(moved), "--", name, "install", "it")
        assert (done.returncode, done.stdout) == (127, "") and said in done.stderr


def test_from_an_active_venv_the_line_for_ctk_is_said(
    where: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's script leaves that venv, so `ctk` is not a command any more."""
    words = (
        "env",
        "create",
        "pure",
        "--base",
        str(where.root / "base"),
        "--prefix",
        str(tmp_path / "env"),
    )
    for venv, lines in (("/another", 0), (sys.prefix, 1)):
        monkeypatch.setenv("VIRTUAL_ENV", venv)
        assert (
            ctk(where, *words, check=True).stdout.count(
                f"in the activated environment, type {sys.prefix}/bin/ctk instead of ctk"
            )
            == lines
        )


def test_with_json_the_document_has_the_exit_code(where: Workspace, environment: Path) -> None:
    script = "echo said; kill -TERM $$"
    done = ctk(where, "--json", "env", "run", str(environment), "--", "sh", "-c", script)
    assert json.loads(done.stdout) == {
        "prefix": str(environment),
        "command": ["sh", "-c", script],
        "exit_code": 128 + signal.SIGTERM,
    }
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "said\n")


def test_a_package_that_brings_activation_keeps_its_own(tmp_path: Path, where: Workspace) -> None:
    own = tiny("conda", depends=("python",), files={"bin/activate": b"its own\n"})
    made = checkout(tmp_path / "c", own)
    create(made, tmp_path / "env", "conda")
    assert (tmp_path / "env" / "bin" / "activate").read_text() == "its own\n"


def test_its_python_started_by_its_path_names_the_environment(
    where: Workspace, tmp_path: Path
) -> None:
    """As an IDE starts it, perhaps from a shell where another environment is active."""
    create(where, tmp_path / "made", "application")
    assert pack(where, "application", "-o", str(tmp_path / "p.run")).returncode == 0
    assert unpack(tmp_path / "p.run", tmp_path / "unpacked").returncode == 0
    for prefix in (tmp_path / "made", tmp_path / "unpacked"):
        # The tiny environment's Python is the one of this process, which has its site-packages
        # elsewhere.
        code = (
            "import os, site, sys; sys.base_prefix = 'its prefix';"
            f" site.addsitedir({str(prefix / SITE)!r})"
        )
        words = [sys.executable, "-c", f"{code}; print(os.environ['CONDA_PREFIX'])"]
        done = subprocess.run(
            words, env={"CONDA_PREFIX": "another"}, capture_output=True, text=True, check=True
        )
        assert done.stdout == "its prefix\n"


def test_the_folder_of_another_python_goes_with_it(where: Workspace, tmp_path: Path) -> None:
    create(where, tmp_path / "env", "old")
    assert (tmp_path / "env" / OLD / STARTUP.name).is_file()
    create(where, tmp_path / "env", "folder")
    assert not (tmp_path / "env" / OLD).exists()
    assert (tmp_path / "env" / SITE / STARTUP.name).is_file()
