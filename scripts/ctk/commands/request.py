"""What `ctk solve` and `ctk env` share: the options that describe a request and a machine, and the pick for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ctk.catalogue import Catalogue
from ctk.explain import fit_in_words
from ctk.machine import Machine, python_specs
from ctk.report import Reporter, count, megabytes
from ctk.solve import Pick, Scenario, channel_name
from ctk.unsolvable import solve_or_say_why

Specs = Annotated[list[str], typer.Argument(help="What conda would be given, such as cuda-version=12.6 numba-cuda.")]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform", "-p", help="The platform; this machine's by default. On another one no driver is assumed."
    ),
]
Python = Annotated[
    str | None, typer.Option("--python", help="Python version, such as 3.13, or 3.14t for free-threaded Python.")
]
Arch = Annotated[
    str | None,
    typer.Option(
        "--arch",
        help="Compute capability of the oldest GPU, such as 9.0 or sm_90, or none; this machine's by default, "
        "and not known where --driver is given.",
    ),
]

# How much of a solver's text is shown below the cause: what is longer is the same said for every build.
SOLVER_LINES = 12


@dataclass(frozen=True)
class Solved:
    """A request that was solved.

    Attributes:
        pick: The answer.
        machine: Whom it is for.
        catalogue: The channels it is from.
    """

    pick: Pick
    machine: Machine
    catalogue: Catalogue

    @property
    def toolkit(self) -> str:
        """``toolkit 13.0, native``, with what compat means here, or ``no CUDA toolkit``."""
        fit = fit_in_words(self.pick, self.catalogue)
        return f"toolkit {self.pick.toolkit}{', ' if fit else ''}{fit}" if self.pick.toolkit else "no CUDA toolkit"

    def show(self, report: Reporter) -> None:
        """The pick as a table, and a line that says what it means for the machine."""
        records = self.pick.records
        rows = [
            (r.name.normalized, r.version, r.build, channel_name(str(r.channel)), megabytes(r.size) if r.size else "")
            for r in records
        ]
        report.table("pick", ["package", "version", "build", "channel", "MB"], rows, right=["MB"])
        size = count(len(records), "package")
        if all(r.size for r in records):
            size = f"{size}, {megabytes(self.pick.size)} MB"
        report.console.print(
            f"{self.toolkit} ({self.machine.subdir}, {self.machine.words}; {size})", markup=False, soft_wrap=True
        )


def ask(
    specs: list[str], python: str | None, on: Machine, catalogue: Catalogue, lines: int | None = SOLVER_LINES
) -> Solved:
    """Solves a request for a machine.

    Raises:
        BadValue: A version of Python that cannot be read.
        Unsolvable: With the cause, and that many lines of the solver's text.
    """
    wanted = (*specs, *(python_specs(python) if python else ()))
    return Solved(solve_or_say_why(Scenario(wanted, on.subdir, on.driver, on.arch), catalogue, lines), on, catalogue)
