"""Makes the libsolv that clients solve with, from the sources that the package index has.

The distribution `solv` brings libsolv's sources as an sdist; its wheels are built without the support for conda. A C
compiler is all that is needed: neither CMake nor SWIG, because we call a small C interface of our own.

Run as a program (`scripts/setup-libsolv`), it builds the library where it is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock

from ctk.core.checkout import Workspace, workspace
from ctk.core.errors import CtkError, SolverMissing
from ctk.core.files import disk_errors
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.lock.lock import Artefact

SOURCES = Artefact(
    component="libsolv",
    distribution="solv",
    version="0.7.39.post1",
    target="source",
    file="solv-0.7.39.post1.tar.gz",
    sha256="6f9bb51f2bac747b494783a1c940fd6df58c3cc8ee2e61cc6a53256b0c4958eb",
    size=775793,
)
COMMAND = "scripts/setup-libsolv"
OURS = tuple(Path(__file__).with_name(name) for name in ("conda_solve.c", "conda_order.c"))

_VERSION = "0.7.39"
# What the sources' own build adds for ENABLE_CONDA, and what it finds out about Linux. -Og: it compiles in half the
# time of -O2 and solves as fast.
_DEFINED = ("_FILE_OFFSET_BITS=64", "ENABLE_CONDA=1", "MULTI_SEMANTICS=1", "LIBSOLV_INTERNAL=1", "WITHOUT_COOKIEOPEN=1")
_FLAGS = ["-Og", "-fPIC", "-w", "-std=gnu99", *(f"-D{name}" for name in _DEFINED)]
_LINUX = ["-DHAVE_STRCHRNUL=1", "-DHAVE_QSORT_R=1"]
_READERS = ("repo_conda.c", "solv_jsonparser.c", "solv_xfopen.c")
_INCLUDED = "qsort_r.c"  # part of util.c where the C library has no qsort_r
# The one function that conda-forge's libsolv replaces, and so do we; see conda_order.c.
_REPLACED = re.compile(r"^prune_to_best_version(?=\(Pool \*pool, Queue \*plist\)\n\{)", re.M)


def library(place: Workspace) -> Path:
    """Where the library is, or would be: its name says what it is made of."""
    ours = [path.read_text(encoding="utf-8") for path in OURS]
    parts = [SOURCES.sha256, *_flags(), *ours, sys.platform, platform.machine()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return place.cache / "libsolv" / f"libctksolv-{key}.so"


def compiler() -> list[str] | None:
    """The command of a C compiler: what CC says, else the first of cc, gcc and clang on PATH; None without one."""
    stated = shlex.split(os.environ.get("CC", ""))
    for command in [stated] if stated else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    return None


def build(place: Workspace, index: Callable[[], Index] = Index) -> Path:
    """The library; built when it is missing, which takes some seconds.

    Args:
        place: The checkout.
        index: Opens the index; called only when the sources are not in the store.

    Raises:
        SolverMissing: There is no C compiler, or it does not compile libsolv.
        IndexUnavailable, NotPublished, HashMismatch, NoSpace: The sources could not be fetched.
    """
    made = library(place)
    if made.exists():
        return made
    cc = compiler()
    if cc is None:
        raise SolverMissing(
            "libsolv has to be compiled, and there is no C compiler",
            "install one (Debian and Ubuntu: apt-get install gcc libc6-dev), or name it: CC=clang",
        )
    with disk_errors(place.cache):
        made.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(made.with_name("lock")):
        if made.exists():
            return made
        fetch.fetch([SOURCES], place, index)
        with tempfile.TemporaryDirectory(dir=made.parent, prefix="build-") as folder:
            unpacked = _unpack(fetch.stored(SOURCES, place), Path(folder))
            os.replace(_compile(cc, unpacked), made)
        for old in made.parent.glob("libctksolv-*.so"):
            if old != made:
                old.unlink()
    return made


def _flags() -> list[str]:
    return [*_FLAGS, *(_LINUX if sys.platform == "linux" else [])]


def _unpack(archive: Path, folder: Path) -> Path:
    """The sources as they are compiled: with the version header that CMake would write, and room for our function."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    root = folder / f"solv-{SOURCES.version}"
    header = (root / "src/solvversion.h.in").read_text()
    major, minor, patch = _VERSION.split(".")
    values = {"VERSION": _VERSION, "LIBSOLV_MAJOR": major, "LIBSOLV_MINOR": minor, "LIBSOLV_PATCH": patch}
    header = re.sub(r"@(\w+)@", lambda m: values[m[1]], header)
    header = re.sub(r"^#cmakedefine (LIBSOLV_FEATURE_(?:CONDA|MULTI_SEMANTICS))$", r"#define \1", header, flags=re.M)
    (root / "src/solvversion.h").write_text(re.sub(r"^#cmakedefine .*$", "", header, flags=re.M))
    policy = root / "src/policy.c"
    text, count = _REPLACED.subn("prune_to_best_version_upstream", policy.read_text())
    assert count == 1, "the sources have a sha256: this cannot change"
    policy.write_text(text)
    return root


def _compile(cc: list[str], root: Path) -> Path:
    core = [path for path in sorted((root / "src").glob("*.c")) if path.name != _INCLUDED]
    sources = [*OURS, *core, *(root / "ext" / name for name in _READERS)]
    include = [f"-I{root / 'src'}", f"-I{root / 'ext'}"]

    def compiled(source: Path) -> Path:
        made = root / f"{source.stem}.o"
        _call([*cc, *_flags(), *include, "-c", str(source), "-o", str(made)])
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sources))
    made = root / "libctksolv.so"
    # Without undefined symbols, or a missing function would show only when it is called.
    no_undefined = ["-Wl,--no-undefined"] if sys.platform == "linux" else []
    _call([*cc, "-shared", *no_undefined, "-o", str(made), *map(str, objects)])
    return made


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it says nothing"]
        raise SolverMissing(
            f"{command[0]} cannot compile libsolv: {lines[0]}",
            "check the compiler (Debian and Ubuntu: apt-get install gcc libc6-dev), or name another one: CC=clang",
        )


def main(arguments: list[str] | None = None) -> int:
    """The program: builds the library and says where it is."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Builds libsolv for `ctk verify --solver libsolv`.")
    parser.add_argument("--if-possible", action="store_true", help="succeed, with a line, where it cannot be built")
    options = parser.parse_args(arguments)
    place = workspace()
    if library(place).exists():
        return 0
    print("building libsolv, the second solver ...", file=sys.stderr)
    try:
        build(place)
    except CtkError as error:
        if options.if_possible:
            print(f"without libsolv: {error.cause.splitlines()[0]}", file=sys.stderr)
            return 0
        print(f"error: {error.cause}\nnext: {error.step}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
