"""`ctk env pack` with tiny packages: the files that it writes, and refusals."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core import errors
from ctk.core.errors import BadValue, PackFailed
from ctk.core.platforms import this_platform
from ctk.env.pack import (
    Contents,
    program_text,
    public_source,
    write_archive,
)
from kit.binaries import elf
from kit.packs import Made, checkout, left_in, pack, unpack
from kit.tiny_packages import application, pure, tiny

pytest_plugins = ["kit.pack_fixtures"]
pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)

# The rule of CEP 23 for a line of an explicit list.
EXPLICIT = re.compile(r"(?P<file>[^/\\#]+\.conda)#sha256:(?P<sha256>[0-9a-f]{64})")


def test_the_program_is_whole_and_knows_where_it_ends(tmp_path: Path) -> None:
    about = ("asked for: a @hashes@ $(touch /tmp/ran) `id` \\ '", "END of it")
    text = program_text(Contents(about, "linux-64", "2.28", 4), hashlib.sha256(b"abc").hexdigest())
    (tmp_path / "p").write_bytes(text + b"abc")
    for shell in filter(shutil.which, ("dash", "bash")):
        subprocess.run([shell, "-n", tmp_path / "p"], check=True)
    skip = int(re.search(rb"skip='(\d+)'", text)[1])  # type: ignore[index]
    assert skip == len(text) + 1
    assert about[0] in unpack(tmp_path / "p", "--help").stdout


def test_every_file_is_in_the_list_of_hashes(made: Made) -> None:
    words = ["sha256sum", "-c", "whole.run.sha256"]
    done = subprocess.run(words, cwd=made.whole.parent, capture_output=True, text=True, check=True)
    assert done.stdout.count(": OK") == 2
    assert "packed: 3 files" in made.said
    assert "to unpack it there: sh whole.run DIR" in made.said
    assert left_in(made.workspace.temporary) == set()
    assert not [name for name in left_in(made.whole.parent) if name.startswith(".")]


def test_the_lock_is_an_explicit_list_of_exactly_the_packages(made: Made) -> None:
    comments, lines = made.whole.with_name("whole.run.lock").read_text().split("@EXPLICIT\n")
    for line in (
        "platform: linux-64",
        "asked for: application",
        "driver: 13.0",
        "GPU: 9.0",
        "glibc: 2.20 or newer",
    ):
        assert f"# {line}\n" in comments
    found = {}
    for line in lines.splitlines():
        match = EXPLICIT.fullmatch(line)
        assert match, line
        found[match["file"]] = match["sha256"]
    channels = (made.workspace.channel, made.workspace.root / "base")
    packages = {p.name: p for channel in channels for p in channel.glob("*/*.conda")}
    assert found == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in packages.items()
    }


def test_the_glibc_that_is_needed_is_said_before_it_is_packed(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "whole.run"
    said = pack(made.workspace, "application", "-o", str(target)).stderr
    python = f"python {sys.version_info.major}.{sys.version_info.minor}.0"
    first, _, after = said.partition(f"for machines with glibc 2.20 or newer: {python} needs it\n")
    assert "packing" in after and "packing" not in first
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.19")
    refusal = pack(made.workspace, "application", "-o", str(tmp_path / "other.run"))
    assert refusal.returncode == errors.Unsolvable.exit_code
    assert f"{python} needs glibc 2.20, and CONDA_OVERRIDE_GLIBC states 2.19" in refusal.stderr
    assert left_in(tmp_path) == {"whole.run", "whole.run.lock", "whole.run.sha256"}


def test_a_binary_whose_package_declares_no_glibc_counts_as_well(tmp_path: Path) -> None:
    binary = elf(("libc.so.6",), versions={"libc.so.6": ["GLIBC_2.34"]})
    package = tiny("application", depends=("python",), files={"lib/liba.so.1": binary})
    where = checkout(tmp_path, package)
    done = pack(where, "application", "-o", str(tmp_path / "whole.run"))
    assert "glibc 2.34 or newer: lib/liba.so.1 needs it, undeclared" in done.stderr
    assert "with glibc 2.34 or newer; to unpack it there:" in done.stdout


def test_nothing_of_a_pack_names_the_machine_it_was_made_on(made: Made, tmp_path: Path) -> None:
    assert unpack(made.whole, tmp_path / "e").returncode == 0
    unpacked = [p for p in (tmp_path / "e").rglob("*") if p.is_file() and p.name != "python"]
    own = str(made.workspace.root).encode()
    assert not [
        p
        for p in [*unpacked, made.whole, made.whole.with_name("whole.run.lock")]
        if own in p.read_bytes()
    ]
    record = json.loads((tmp_path / "e/conda-meta/application-1.0-0.json").read_text())
    assert (record["channel"], record["url"]) == (
        "channel",
        "file:///channel/linux-64/application-1.0-0.conda",
    )
    # It is no cache, whatever rattler says, and what wrote the path is of no use twice.
    gone = ("CACHEDIR.TAG", "bin/conda-unpack", "bin/conda_unpack_progress.py")
    assert not [name for name in gone if (tmp_path / "e" / name).exists()]


def run_under(made: Made, limit: str, target: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """`ctk env pack` under a limit that a shell sets."""
    script = f"{limit}; exec {sys.executable} -c 'from ctk.cli.main import main; main()' \"$@\""
    words = [
        "env",
        "pack",
        "application",
        "--base",
        str(made.workspace.root / "base"),
        "-o",
        str(target),
        *more,
    ]
    environment = {**os.environ, "CTK_ROOT": str(made.workspace.root)}
    return subprocess.run(
        ["sh", "-c", script, "sh", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_equal_packages_give_equal_packs(made: Made, tmp_path: Path) -> None:
    run_under(
        made, "umask 077", tmp_path / "whole.run", "--driver", "13.0", "--arch", "9.0"
    ).check_returncode()
    for name in ("whole.run", "whole.run.lock", "whole.run.sha256"):
        assert (tmp_path / name).read_bytes() == made.whole.with_name(name).read_bytes()


def test_a_pack_that_is_there_is_replaced_only_when_forced_and_then_whole(copy: Made) -> None:
    words = ("application", "-o", str(copy.whole))
    done = pack(copy.workspace, *words)
    assert done.returncode == BadValue.exit_code
    assert "whole.run, whole.run.lock" in done.stderr
    assert pack(copy.workspace, *words, "--force").returncode == 0
    subprocess.run(
        ["sha256sum", "--quiet", "-c", "whole.run.sha256"], cwd=copy.whole.parent, check=True
    )


def test_a_full_disk_is_said_and_no_file_appears(made: Made, tmp_path: Path) -> None:
    """Writing more than the limit fails as on a full disk.

    The packages are in the cache already.
    """
    done = run_under(made, "ulimit -f 12", tmp_path / "p.run")
    assert done.returncode == errors.NoSpace.exit_code, done.stderr
    assert f"File too large: {tmp_path}" in done.stderr
    assert left_in(tmp_path) == set()
    assert left_in(made.workspace.temporary) == set()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            ["application", "--platform", "win-64"],
            BadValue,
            "conda-pack writes for the system that it runs on",
        ),
        (["application", "--platform", "linux-46"], errors.UnknownName, "linux-64"),
        (
            ["application", "--platform", "linux-aarch64"],
            errors.Unsolvable,
            "nothing is built for linux-aarch64",
        ),
        (["nothing-of-it"], errors.Unsolvable, "nothing-of-it"),
        (["alone"], BadValue, "ask for python"),
    ],
)
def test_what_cannot_be_packed_is_refused_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], error: type[errors.CtkError], words: str
) -> None:
    where = checkout(
        tmp_path / "c", application(), pure(), tiny("alone", files={"share/alone": b""})
    )
    (tmp_path / "out").mkdir()
    done = pack(where, *arguments, "-o", str(tmp_path / "out" / "p.run"))
    assert done.returncode == error.exit_code, done.stderr
    assert words in re.sub(r"\s+", " ", done.stderr)
    assert left_in(tmp_path / "out") == set()
    assert not [*(where.temporary).glob("*")]


def without_a_file(prefix: Path) -> None:
    (prefix / "lib" / "application.bin").unlink()


def with_its_path_in_a_file(prefix: Path) -> None:
    (prefix / "share").mkdir()
    (prefix / "share" / "written").write_text(f"here: {prefix}\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_a_file, r"application.*lib/application\.bin"),
        (with_its_path_in_a_file, "share/written contains"),
    ],
)
def test_an_environment_that_cannot_be_packed_is_refused_with_what_is_wrong(
    made: Made, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    prefix = tmp_path / "env"
    words = ("application", "--base", str(made.workspace.root / "base"), "--prefix", str(prefix))
    ctk(made.workspace, "env", "create", *words, check=True)
    spoil(prefix)
    with (tmp_path / "tar").open("wb") as target, pytest.raises(PackFailed, match=said):
        write_archive(prefix, target, 0)


@pytest.mark.parametrize(
    ("channel", "address", "public"),
    [
        (
            "https://me:secret@host/ch",
            "https://me:secret@host/ch/noarch/x.conda",
            "https://host/ch",
        ),
        (
            "https://host/t/tk-123/ch/",
            "https://host/t/tk-123/ch/noarch/x.conda?sig=1",
            "https://host/ch/",
        ),
        (
            "file:///home/me/.channel-states/4/",
            "file:///home/me/.channel-states/4/noarch/x.conda",
            "channel",
        ),
    ],
)
def test_a_record_keeps_its_channel_and_no_secret(channel: str, address: str, public: str) -> None:
    record = {"channel": channel, "url": address, "subdir": "noarch", "fn": "x.conda"}
    assert public_source(record)["channel"] == public
    where = public if public.startswith("http") else f"file:///{public}"
    assert public_source(record)["url"] == f"{where.rstrip('/')}/noarch/x.conda"
