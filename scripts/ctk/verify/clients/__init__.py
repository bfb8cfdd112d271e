"""Second and third solvers: the clients that users have, and libsolv, the solver inside most of them.

Each is a `ctk.verify.answers.Solver`. libsolv takes a millisecond a scenario, a client a second: `SAMPLE` is
how many scenarios are a sensible default for each.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from ctk.core.checkout import Workspace
from ctk.core.errors import UnknownName
from ctk.verify.answers import Solver
from ctk.verify.clients.conda import CondaLike
from ctk.verify.clients.libsolv import Libsolv
from ctk.verify.clients.libsolv_build import library
from ctk.verify.clients.pixi import Pixi

_MAKERS: dict[str, Callable[[Workspace], Solver]] = {
    "libsolv": lambda place: Libsolv(place),
    "libsolv-2.8.1": lambda place: Libsolv(place, lock=False),
    "micromamba": lambda place: CondaLike("micromamba"),
    "mamba": lambda place: CondaLike("mamba"),
    "conda": lambda place: CondaLike("conda"),
    "conda-classic": lambda place: CondaLike("conda-classic"),
    "pixi": lambda place: Pixi(),
}
NAMES = tuple(_MAKERS)
# Scenarios that `ctk verify --solver` asks by default; None is all of them.
SAMPLE: dict[str, int | None] = {name: None if name.startswith("libsolv") else 200 for name in NAMES}


def solver(name: str, place: Workspace) -> Solver:
    """A solver by its name.

    Raises:
        UnknownName: There is none of that name.
        SolverMissing: It is not installed or built here.
    """
    if name not in _MAKERS:
        raise UnknownName.of("solver", name, ["rattler", *NAMES])
    return _MAKERS[name](place)


def installed(place: Workspace) -> tuple[str, ...]:
    """The names of the solvers that are here."""
    return tuple(
        name
        for name in NAMES
        if (library(place).exists() if name.startswith("libsolv") else shutil.which(name.removesuffix("-classic")))
    )
