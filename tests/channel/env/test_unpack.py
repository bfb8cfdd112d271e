"""The program that `ctk env pack` writes, on another machine: unpacking, refusals,
and leftovers.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.platforms import this_platform
from kit.packs import CLEAN, Made, create, left_in, pack, pretend, refused, unpack
from kit.tiny_packages import NOISE, PLACEHOLDER

pytest_plugins = ["kit.pack_fixtures"]
pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)

NEEDED = {"gzip", "tar", "sha256sum", "uname", "cat", "tail"}


def only(folder: Path, programs: set[str]) -> dict[str, str]:
    """Variables with which a shell, named by its path, finds only these programs."""
    folder.mkdir()
    for name in programs:
        (folder / name).symlink_to(shutil.which(name) or "")
    return {"shell": shutil.which("sh") or "sh", "PATH": str(folder)}


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_it_unpacks_anywhere_and_runs_a_command(made: Made, tmp_path: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    prefix = tmp_path / "a b" / "é [here] & (there)"
    prefix.parent.mkdir()
    done = unpack(made.whole, prefix, "hello", shell=shell)
    # A command's own output and status, and nothing else on its way.
    assert (done.returncode, done.stdout) == (7, f"hello from active in {prefix}\n")
    assert left_in(prefix.parent) == {prefix.name}
    assert (prefix / "etc/application.conf").read_text() == f"home={prefix}/share\n"
    binary = (prefix / "lib/application.bin").read_bytes()
    assert (
        binary
        == b"\x7f\x00before "
        + f"{prefix}/lib".encode().ljust(len(PLACEHOLDER) + 4, b"\0")
        + b"\0after"
    )
    assert (prefix / "lib/noise").read_bytes() == NOISE


def test_what_was_unpacked_is_an_environment_of_its_request(made: Made, tmp_path: Path) -> None:
    prefix = tmp_path / "e"
    assert unpack(made.whole, prefix).returncode == 0
    said = pack(made.workspace, str(prefix), "-o", str(tmp_path / "again.run")).stderr
    assert "as in `ctk env pack application --driver 13.0 --arch 9.0 -o e.run`" in said
    assert "nothing is wrong with" in ctk(made.workspace, "doctor", str(prefix), check=True).stdout
    request = ("application", "--driver", "13.0", "--arch", "9.0")
    assert create(made.workspace, prefix, *request).stdout.startswith(f"unchanged: {prefix}\n")
    assert f"changed: {prefix}\n" in create(made.workspace, prefix, "pure").stdout, (
        "it belongs to no other tool"
    )


def test_links_stay_links_and_modes_and_owners_are_the_users(made: Made, tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()  # an empty folder is taken
    assert unpack(made.whole, tmp_path / "e").returncode == 0
    lib = tmp_path / "e" / "lib"
    assert os.readlink(lib / "libapplication.so") == "libapplication.so.1"
    assert os.readlink(lib.with_name("lib64")) == "lib"
    assert (lib / "second.so").samefile(lib / "libapplication.so.1")
    assert (tmp_path / "e/bin/pure").read_text().startswith("#!/usr/bin/env python")
    modes = {
        p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "e").rglob("*") if not p.is_symlink()
    }
    assert modes["hello"] == modes["run-in-environment"] == modes["bin"] == 0o755
    assert modes["noise"] == modes["application-1.0-0.json"] == 0o644
    assert {p.lstat().st_uid for p in (tmp_path / "e").rglob("*")} == {os.getuid()}


def test_it_says_how_the_environment_is_used_and_that_is_true(made: Made, tmp_path: Path) -> None:
    done = unpack(made.whole, "the env", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    prefix = tmp_path / "the env"
    assert f"The environment is in {prefix}\n" in done.stdout
    (run,) = re.findall(r"one command in it: +(.*)", done.stdout)
    (activate,) = re.findall(r"in bash or zsh: +(.*)", done.stdout)
    printed = subprocess.run(
        ["sh", "-c", f"{run} -c 'import os; print(os.environ[\"CONDA_PREFIX\"])'"],
        env=CLEAN,
        capture_output=True,
    )
    assert printed.stdout.decode() == f"{prefix}\n"
    for shell in ("bash", "zsh"):
        if shutil.which(shell):
            words = [shell, *(["-f"] if shell == "zsh" else []), "-c", f"{activate}; hello"]
            assert (
                f"active in {prefix}"
                in subprocess.run(words, env=CLEAN, capture_output=True, text=True).stdout
            )
    moved = prefix.rename(tmp_path / "moved")
    done = subprocess.run(
        [moved / "bin" / "run-in-environment", "hello"], env=CLEAN, capture_output=True, text=True
    )
    assert f"active in {moved}" in done.stdout


def test_its_help_says_what_is_in_it_and_what_it_needs(made: Made) -> None:
    shown = unpack(made.whole, "--help").stdout
    for line in (
        "asked for: application",
        "driver: 13.0",
        "GPU: 9.0",
        "glibc 2.20 or newer",
        "sha256sum",
        "linux-64",
    ):
        assert line in shown


def test_a_folder_with_something_in_it_a_file_and_a_lost_parent_are_refused(
    made: Made, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").touch()
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("gone")
    refused(unpack(made.whole, tmp_path / "full"), "there is something in")
    refused(unpack(made.whole, tmp_path / "file"), "not a folder")
    refused(unpack(made.whole, tmp_path / "nowhere"), "not a folder")
    refused(unpack(made.whole, tmp_path / "a" / "b"), "not there")
    assert left_in(tmp_path) == {"full", "file", "nowhere"}
    assert left_in(tmp_path / "full") == {".hidden"}


@pytest.mark.parametrize("name", ["a`id`", "a\nb"])
def test_a_path_that_would_break_files_of_packages_is_refused(
    made: Made, tmp_path: Path, name: str
) -> None:
    """Python's own _sysconfigdata has the path between single quotes."""
    done = unpack(made.whole, tmp_path / name)
    assert done.returncode == 1
    assert "would break files of packages" in done.stderr
    assert left_in(tmp_path) == set()


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: flipped(data, len(data) - 100),
        lambda data: data[:-1],
        lambda data: data + b"\n",
    ],
)
def test_damaged_data_are_refused(
    copy: Made, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    copy.whole.write_bytes(spoil(copy.whole.read_bytes()))
    refused(unpack(copy.whole, tmp_path / "e"), str(copy.whole), "damaged or cut short")
    assert left_in(tmp_path) == {"copy"}


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({"uname": "[ $1 = -s ] && echo Linux || echo aarch64"}, ("linux-64", "aarch64")),
        ({"getconf": "echo glibc 2.17"}, ("glibc 2.20", "has 2.17")),
        ({"df": "echo head; echo /dev/sda 100 90 10 90% /mnt"}, ("needs 1 MB", "there are 0")),
    ],
)
def test_a_machine_that_cannot_have_it_is_told_why(
    made: Made, tmp_path: Path, programs: dict[str, str], words: tuple[str, ...]
) -> None:
    path = pretend(tmp_path / "programs", **programs)
    refused(unpack(made.whole, tmp_path / "e", **path), *words)
    assert left_in(tmp_path) == {"programs"}


def test_a_machine_without_a_program_that_is_needed_is_told_which(
    made: Made, tmp_path: Path
) -> None:
    refused(
        unpack(made.whole, tmp_path / "e", **only(tmp_path / "few", NEEDED - {"gzip"})), "no gzip"
    )


def test_a_full_disk_is_said_and_nothing_stays(made: Made, tmp_path: Path) -> None:
    """On its own file system.

    Df says that there is room, as if somebody else filled the disk meanwhile.
    """
    folder = tmp_path / "small"
    folder.mkdir()
    lies = pretend(
        tmp_path / "programs", df='[ -e ../asked ] && exec /bin/df "$@"; : >../asked; exit 1'
    )
    script = (
        f'mount -t tmpfs -o size=40k none "{folder}" && cd "{folder}" && sh "{made.whole}" e; s=$?;'
        " ls -A; exit $s"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env={**CLEAN, **lies},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unpacking" not in done.stderr:
        pytest.skip("this machine lets nobody mount a file system of its own")
    refused(done, "the disk is full", str(folder))
    assert done.stdout == ""


def test_a_stopped_run_leaves_nothing_and_a_killed_ones_folder_goes_with_the_next(
    made: Made, tmp_path: Path
) -> None:
    # $PPID of what a pipeline runs is the program itself.
    stop = pretend(tmp_path / "stop", tar='kill -TERM $PPID; exec /bin/tar "$@"')
    assert unpack(made.whole, tmp_path / "e", **stop).returncode == 1
    assert left_in(tmp_path) == {"stop"}
    kill = pretend(tmp_path / "kill", tar="kill -KILL $PPID; exit 1")
    assert unpack(made.whole, tmp_path / "e", **kill).returncode == -signal.SIGKILL
    (left,) = left_in(tmp_path) - {"stop", "kill"}
    assert left.startswith("e.unpacking-")
    others = {"e.unpacking-another-machine-1", f"e.unpacking-{platform.node()}-{os.getpid()}"}
    for name in others:
        (tmp_path / name).mkdir()
    assert unpack(made.whole, tmp_path / "e").returncode == 0
    assert left_in(tmp_path) == {"stop", "kill", "e", *others}


def test_a_program_that_breaks_off_on_the_way_is_noticed(made: Made, tmp_path: Path) -> None:
    for name in ("tail", "gzip", "tar"):
        # Right for a while, as far as anybody sees, and then an error.
        real = shutil.which(name)
        breaks = pretend(tmp_path / name, **{name: f'"{real}" "$@"; exit 1'})
        refused(unpack(made.whole, tmp_path / "e", **breaks), "not unpacked")
    assert left_in(tmp_path) == {"tail", "gzip", "tar"}


def test_a_path_longer_than_a_binary_has_room_for_is_refused(made: Made, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.parent.mkdir()
    refused(unpack(made.whole, deep), "lib/application.bin", f"{len(PLACEHOLDER)} bytes")
    assert left_in(deep.parent) == set()
