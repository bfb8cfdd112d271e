"""Solvers: rattler's, the clients that users have, and libsolv, the solver inside most of them.

libsolv takes a millisecond a scenario, a client a second: `SAMPLE` is how many scenarios are a sensible default.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from ctk.core.checkout import Workspace
from ctk.core.errors import UnknownName
from ctk.verify.clients.conda import CondaLike
from ctk.verify.clients.libsolv import Libsolv, library
from ctk.verify.clients.pixi import PixiSolver
from ctk.verify.clients.rattler import RattlerSolver
from ctk.verify.run import Solver

_MAKERS: dict[str, Callable[[Workspace], Solver]] = {
    "rattler": lambda where: RattlerSolver(),
    "libsolv": lambda where: Libsolv(where),
    "libsolv-2.8.1": lambda where: Libsolv(where, lock=False),
    "micromamba": lambda where: CondaLike("micromamba"),
    "mamba": lambda where: CondaLike("mamba"),
    "conda": lambda where: CondaLike("conda"),
    "conda-classic": lambda where: CondaLike("conda-classic"),
    "pixi": lambda where: PixiSolver(),
}
NAMES = tuple(_MAKERS)[1:]
"""The second solvers, beside rattler."""
# Scenarios that `ctk verify --solver` asks by default; None is all of them.
SAMPLE: dict[str, int | None] = {name: None if name.startswith("libsolv") else 200 for name in NAMES}


def solver(name: str, where: Workspace) -> Solver:
    """A solver by its name; `SolverMissing` where it is not installed or built."""
    if name not in _MAKERS:
        raise UnknownName.of("solver", name, _MAKERS)
    return _MAKERS[name](where)


def installed(where: Workspace) -> tuple[str, ...]:
    """The names of the second solvers that are on this machine."""
    return tuple(
        name
        for name in NAMES
        if (library(where).exists() if name.startswith("libsolv") else shutil.which(name.removesuffix("-classic")))
    )
