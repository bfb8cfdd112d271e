"""libsolv, the solver of conda, mamba and micromamba, driven as libmamba drives it.

What libmamba does, from its sources (libmamba/src/solver/libsolv, libmamba/src/core/package_database_loader.cpp):
virtual packages are the installed repository, each channel has a priority of its own, specs are install jobs sorted by
name, downgrades and removals are allowed. Until 2.8.1 the solver could therefore "remove" a virtual package from the
machine, and with it what constraints say of it (mamba#4311); since then each is locked (mamba#4312).
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, SolverFailed, SolverMissing
from ctk.core.platforms import NOARCH
from ctk.solve.solve import Scenario
from ctk.verify.answers import Answer, Record
from ctk.verify.clients.libsolv_build import COMMAND, library
from ctk.verify.clients.request import parts

_SECTIONS = ("packages.conda", "packages")


class Libsolv:
    """libsolv as a `ctk.verify.answers.Solver`; for one thread at a time.

    Args:
        place: The checkout with the library.
        lock: Whether virtual packages are locked, as libmamba does since mamba#4312.
        conda_forge: Whether candidates are ordered as in conda-forge's libsolv, which all clients ship, or as in
            libsolv's own.

    Raises:
        SolverMissing: The library was not built.
    """

    def __init__(self, place: Workspace, *, lock: bool = True, conda_forge: bool = True) -> None:
        self.name = "libsolv" if lock else "libsolv-2.8.1"
        self._lock, self._conda_forge = lock, conda_forge
        self._solver = _load(library(place))

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[Answer]:
        """Solves scenarios in the order given, about a millisecond each.

        Raises:
            BadValue: A channel that is not a folder with repodata, or a spec that cannot be read.
            SolverFailed: Repodata that libsolv cannot read.
        """
        for channel in channels:
            if not any(Path(channel).glob("*/repodata.json")):
                raise BadValue(
                    f"libsolv reads channels that are folders with repodata, and {channel} is none",
                    "run `ctk build` first, or name such a folder",
                )
        pools: dict[str, _Pool] = {}
        with ExitStack() as stack:
            for scenario in scenarios:
                if scenario.subdir not in pools:
                    pools[scenario.subdir] = pool = _Pool(self._solver, scenario.subdir, channels)
                    stack.callback(pool.close)
                # A setting of the library, and other solvers use the same one.
                self._solver.ctk_order(self._conda_forge)
                yield pools[scenario.subdir].solve(scenario, self._lock)


class _Pool:
    """The records of some channels for one platform, in libsolv's memory."""

    def __init__(self, solver: ctypes.CDLL, subdir: str, channels: Sequence[Path]) -> None:
        self._solver = solver
        self._pool = solver.ctk_new()
        # Repository and file -> package and record.
        self._records: dict[tuple[str, str], tuple[str, Record]] = {}
        for position, channel in enumerate(channels):
            for folder in (subdir, NOARCH):
                path = Path(channel).resolve() / folder / "repodata.json"
                if path.exists():
                    self._add(f"{position}/{folder}", path, len(channels) - position, str(channel))

    def _add(self, repository: str, path: Path, priority: int, channel: str) -> None:
        if self._solver.ctk_add(self._pool, str(path).encode(), repository.encode(), priority) < 0:
            raise SolverFailed(f"libsolv cannot read {path}", "make the channel anew")
        document = json.loads(path.read_text(encoding="utf-8"))
        for section in _SECTIONS:
            for file, record in document.get(section, {}).items():
                found = Record(record["version"], record["build"], channel)
                self._records[repository, file] = record["name"], found

    def solve(self, scenario: Scenario, lock: bool) -> Answer:
        machine = [f"{p.name.normalized} {p.version} {p.build_string}" for p in scenario.virtual_packages]
        jobs = sorted(map(_job, scenario.specs))
        text = self._solver.ctk_solve(self._pool, "\n".join(machine).encode(), "\n".join(jobs).encode(), lock, True)
        verdict, *lines = text.decode().splitlines()
        if verdict != "ok":
            return Answer(scenario, problem="\n".join(lines) or "libsolv gives no reason")
        places = [line[1:].split(" ", 1) for line in lines if line.startswith("+")]
        records = dict(self._records[repository, place.rpartition("/")[2]] for repository, place in places)
        removed = tuple(sorted(line[1:] for line in lines if line.startswith("-")))
        return Answer(scenario, records, removed=removed)

    def close(self) -> None:
        self._solver.ctk_free(self._pool)


def _load(path: Path) -> ctypes.CDLL:
    if not path.exists():
        raise SolverMissing("libsolv is not built here", f"run `{COMMAND}`; it needs a C compiler and takes seconds")
    text, number, pointer = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p
    solver = ctypes.CDLL(str(path))
    solver.ctk_new.restype = pointer
    solver.ctk_free.argtypes = [pointer]
    solver.ctk_order.argtypes = [number]
    solver.ctk_add.argtypes = [pointer, text, text, number]
    solver.ctk_solve.argtypes = [pointer, text, text, number, number]
    solver.ctk_solve.restype = text
    return solver


def _job(spec: str) -> str:
    """``name version build``: the one form that libsolv reads as the clients' own parsers do."""
    name, version, build = parts(spec)
    return " ".join([name, version or "*", build]).strip() if version or build else name
