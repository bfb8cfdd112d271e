"""libsolv, the solver of conda, mamba and micromamba, called as libmamba calls it.

From libmamba's sources (libmamba/src/solver/libsolv,
libmamba/src/core/package_database_loader.cpp): virtual packages are the installed repository, each
channel has its own priority, specs are install jobs sorted by name, downgrades and removals are
allowed. So until 2.8.1 the solver could "remove" a virtual package from the machine, and with it
the constraints on it (mamba#4311); since then each virtual package is locked (mamba#4312).

The distribution `solv` has libsolv's sources as an sdist; its wheels are built without the support
for conda. The sources need only a C compiler, neither CMake nor SWIG, because we call a small C
interface of our own.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from filelock import FileLock

from ctk.core.checkout import Workspace, workspace
from ctk.core.children import run_program
from ctk.core.disk import disk_errors
from ctk.core.errors import CtkError, SolverFailed, SolverMissing
from ctk.core.files import read_plain
from ctk.core.platforms import NOARCH
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.lock.model import Artefact
from ctk.solve.solve import Scenario, parse_spec
from ctk.verify.run import Record, SolverAnswer

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
# The definitions that the sources' own build adds for ENABLE_CONDA and for Linux. -Og compiles in
# half the time of -O2, and the library solves as fast.
_DEFINED = (
    "_FILE_OFFSET_BITS=64",
    "ENABLE_CONDA=1",
    "MULTI_SEMANTICS=1",
    "LIBSOLV_INTERNAL=1",
    "WITHOUT_COOKIEOPEN=1",
)
_FOUND = ("HAVE_STRCHRNUL=1", "HAVE_QSORT_R=1")  # in the C library
_FLAGS = ["-Og", "-fPIC", "-w", "-std=gnu99"]
_FLAGS += [f"-D{name}" for name in _DEFINED + _FOUND]
_READERS = ("repo_conda.c", "solv_jsonparser.c", "solv_xfopen.c")
_INCLUDED = "qsort_r.c"  # part of util.c where the C library has no qsort_r
# The function that conda-forge's libsolv replaces, and so do we; see conda_order.c.
_REPLACED = re.compile(r"^prune_to_best_version(?=\(Pool \*pool, Queue \*plist\)\n\{)", re.M)

Located = dict[tuple[str, str], tuple[str, Record]]
"""Repository and file -> package and record."""

JOBS = ("install", "remove", "update", "update-all", "keep", "freeze", "pin")
"""libmamba's jobs, in the order in which it hands them to libsolv (`Request::Job` in its
solver/request.hpp).
"""


@dataclass(frozen=True)
class Job:
    """One of `JOBS`, and the spec that it is for; "" for update-all."""

    kind: str
    spec: str = ""

    @property
    def line(self) -> str:
        """The job for `conda_solve.c`, the spec as ``name version build``.

        libsolv reads this form as clients do.
        """
        if not self.spec:
            return self.kind
        wanted = parse_spec(self.spec)
        if not wanted.pinned:
            return f"{self.kind} {wanted.name}"
        return f"{self.kind} {wanted.name} {wanted.version or '*'} {wanted.build}".strip()


@dataclass(frozen=True)
class Decisions:
    """What libsolv decided; without a solution, the problems."""

    added: tuple[tuple[str, str], ...] = ()  # repository and file
    kept: tuple[str, ...] = ()  # names of packages of the environment, and of virtual packages
    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ChannelPool:
    """The channels of one platform in libsolv's memory. `close` frees it.

    Raises:
        SolverMissing: libsolv is not built.
        SolverFailed: A channel cannot be read.
    """

    def __init__(self, workspace: Workspace, channels: Sequence[Path], subdir: str) -> None:
        self._solver = _load(library(workspace))
        self._pool = self._solver.ctk_new()
        self.records: Located = {}
        for position, (channel, folder) in enumerate(product(channels, (subdir, NOARCH))):
            path = Path(channel).resolve() / folder / "repodata.json"
            if path.exists():
                self._add(channel, path, str(position), len(channels) - position // 2)

    def close(self) -> None:
        self._solver.ctk_free(self._pool)

    def _add(self, channel: Path, path: Path, repository: str, priority: int) -> None:
        if self._solver.ctk_add(self._pool, str(path).encode(), repository.encode(), priority) < 0:
            raise SolverFailed(f"libsolv cannot read {path}", "make the channel anew")
        document = json.loads(read_plain(path))
        for file, record in (
            document.get("packages.conda", {}) | document.get("packages", {})
        ).items():
            found = Record(record["version"], record["build"], str(channel))
            self.records[repository, file] = record["name"], found

    def solve(
        self,
        machine: Scenario,
        jobs: Iterable[Job],
        *,
        installed: Path | None = None,
        lock: bool = True,
        strict: bool = True,
        downgrade: bool = True,
    ) -> Decisions:
        """Solves a request.

        Args:
            machine: Its virtual packages count; its specs do not.
            jobs: Those of each kind are sorted by name, as libmamba does.
            installed: A repodata.json with the packages of the environment.
            lock: Whether virtual packages are locked, as in libmamba since mamba#4312.
            strict: Whether channel priority is strict, not flexible.
            downgrade: Whether an installed package may become older.
        """
        virtual = [
            f"{p.name.normalized} {p.version} {p.build_string}" for p in machine.virtual_packages
        ]
        in_order = sorted(jobs, key=lambda job: (JOBS.index(job.kind), job.line))
        request = "\n".join(job.line for job in in_order)
        environment = str(installed) if installed else ""
        text = self._solver.ctk_solve(
            self._pool,
            "\n".join(virtual).encode(),
            environment.encode(),
            request.encode(),
            lock,
            strict,
            downgrade,
        )
        return _decisions(text.decode().splitlines())


def _decisions(answer: Sequence[str]) -> Decisions:
    verdict, *lines = answer
    if verdict != "ok":
        return Decisions(problems=tuple(lines) or ("libsolv gives no reason",))
    said: dict[str, list[str]] = {"+": [], "=": [], "-": []}
    for line in lines:
        said[line[0]].append(line[1:])
    places = [place.split(" ", 1) for place in said["+"]]
    added = tuple((repository, location.rpartition("/")[2]) for repository, location in places)
    return Decisions(added, tuple(said["="]), tuple(sorted(said["-"])))


class Libsolv:
    """libsolv, for one thread at a time.

    Args:
        where: The checkout, in whose cache the library is.
        lock: Whether virtual packages are locked, as in libmamba since mamba#4312.
        strict: Whether channel priority is strict, not flexible.
    """

    def __init__(self, workspace: Workspace, *, lock: bool = True, strict: bool = True) -> None:
        self.name = "libsolv" if lock else "libsolv-2.8.1"
        self._where = workspace
        self._lock = lock
        self._strict = strict
        _load(library(workspace))  # so that its lack is said now

    def solve_all(
        self, scenarios: Iterable[Scenario], channels: Sequence[Path]
    ) -> Iterator[SolverAnswer]:
        """Solves scenarios in their order, in about a millisecond each."""
        pools: dict[str, ChannelPool] = {}
        with ExitStack() as stack:
            for scenario in scenarios:
                if scenario.subdir not in pools:
                    pools[scenario.subdir] = ChannelPool(self._where, channels, scenario.subdir)
                    stack.callback(pools[scenario.subdir].close)
                yield self._solve(scenario, pools[scenario.subdir])

    def _solve(self, scenario: Scenario, pool: ChannelPool) -> SolverAnswer:
        jobs = [Job("install", spec) for spec in scenario.specs]
        decided = pool.solve(scenario, jobs, lock=self._lock, strict=self._strict)
        if decided.problems:
            return SolverAnswer(scenario, problem="\n".join(decided.problems))
        picked = dict(pool.records[place] for place in decided.added)
        return SolverAnswer(scenario, picked, removed=decided.removed)


def _load(path: Path) -> ctypes.CDLL:
    if not path.exists():
        raise SolverMissing(
            "libsolv is not built here", f"run `{COMMAND}`; it needs a C compiler and takes seconds"
        )
    text, number, pointer = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p
    solver = ctypes.CDLL(str(path))
    solver.ctk_new.restype = pointer
    solver.ctk_free.argtypes = [pointer]
    solver.ctk_add.argtypes = [pointer, text, text, number]
    solver.ctk_solve.argtypes = [pointer, text, text, text, number, number, number]
    solver.ctk_solve.restype = text
    return solver


# --- the library


def library(workspace: Workspace) -> Path:
    """The path of the library; its name has a digest of its sources and flags."""
    ours = [path.read_text(encoding="utf-8") for path in OURS]
    parts = [SOURCES.sha256, *_FLAGS, *ours, platform.machine()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return workspace.notes / "libsolv" / f"libctksolv-{key}.so"


def compiler() -> list[str]:
    """The command of a C compiler: CC, else the first of cc, gcc and clang on PATH.

    Empty without one.
    """
    stated = shlex.split(os.environ.get("CC", ""))
    return next(
        (
            cc
            for cc in ([stated] if stated else [["cc"], ["gcc"], ["clang"]])
            if shutil.which(cc[0])
        ),
        [],
    )


def build(workspace: Workspace, index: Callable[[], Index] = Index) -> Path:
    """Returns the library; builds it if it is missing, in seconds.

    Opens the index if the sources are not in the cache.

    Raises:
        SolverMissing: There is no C compiler, or it cannot compile the sources.
    """
    target = library(workspace)
    if target.exists():
        return target
    if not compiler():
        raise SolverMissing(
            "libsolv has to be compiled, and there is no C compiler",
            "install one (Debian and Ubuntu: apt-get install gcc libc6-dev), or name it: CC=clang",
        )
    with disk_errors(workspace.cache):
        target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name("lock")):
        if target.exists():
            return target
        fetch.fetch([SOURCES], workspace, index)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
            with tarfile.open(fetch.stored(SOURCES, workspace)) as tar:
                tar.extractall(folder, filter="data")
            root = Path(folder) / f"solv-{SOURCES.version}"
            _prepare(root)
            os.replace(_compile(root), target)
        for old in target.parent.glob("libctksolv-*.so"):
            if old != target:
                old.unlink()
    return target


def _prepare(root: Path) -> None:
    """Adds the version header that CMake would write; renames the function that ours replaces."""
    values = dict(
        zip(("LIBSOLV_MAJOR", "LIBSOLV_MINOR", "LIBSOLV_PATCH"), _VERSION.split("."), strict=True)
    )
    values["VERSION"] = _VERSION
    header = (root / "src/solvversion.h.in").read_text()
    header = re.sub(r"@(\w+)@", lambda m: values[m[1]], header)
    header = re.sub(
        r"^#cmakedefine (LIBSOLV_FEATURE_(?:CONDA|MULTI_SEMANTICS))$",
        r"#define \1",
        header,
        flags=re.M,
    )
    (root / "src/solvversion.h").write_text(re.sub(r"^#cmakedefine .*$", "", header, flags=re.M))
    policy = root / "src/policy.c"
    text, count = _REPLACED.subn("prune_to_best_version_upstream", policy.read_text())
    assert count == 1, "the sources have a known sha256: they cannot change"
    policy.write_text(text)


def _compile(root: Path) -> Path:
    core = [path for path in sorted((root / "src").glob("*.c")) if path.name != _INCLUDED]
    readers = [root / "ext" / name for name in _READERS]
    sources = list(OURS) + core + readers
    objects = [str(root / f"{source.stem}.o") for source in sources]
    flags = [*_FLAGS, f"-I{root / 'src'}", f"-I{root / 'ext'}"]

    def call(*arguments: str) -> None:
        cc = compiler()
        done = run_program([*cc, *arguments])
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it printed nothing"]
            raise SolverMissing(
                f"{cc[0]} cannot compile libsolv: {lines[0]}",
                "check the compiler (Debian and Ubuntu: apt-get install gcc libc6-dev), or name"
                " another one: CC=clang",
            )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(
            pool.map(
                lambda source, target: call(*flags, "-c", str(source), "-o", target),
                sources,
                objects,
            )
        )
    target = root / "libctksolv.so"
    # No undefined symbols: without this, a missing function would be an error only when it is
    # called.
    call("-shared", "-Wl,--no-undefined", "-o", str(target), *objects)
    return target


def main(arguments: list[str] | None = None) -> int:
    """The program `scripts/setup-libsolv`: builds the library if it is missing."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Builds libsolv for `ctk verify --solver libsolv`."
    )
    parser.add_argument(
        "--if-possible", action="store_true", help="print a line and succeed if it cannot be built"
    )
    options = parser.parse_args(arguments)
    where = workspace()
    if not library(where).exists():
        print("building libsolv, the second solver ...", file=sys.stderr)
    try:
        build(where)
    except CtkError as error:
        if not options.if_possible:
            print(f"error: {error.cause}\nnext: {error.step}", file=sys.stderr)
            return error.exit_code
        print(f"without libsolv: {error.cause.splitlines()[0]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
