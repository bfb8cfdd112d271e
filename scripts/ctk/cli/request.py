"""What `ctk solve` and `ctk env` share: the options that describe a request and a machine, and the pick for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ctk.core.report import Reporter, count, megabytes
from ctk.solve.catalogue import Catalogue
from ctk.solve.choices import choices, native_instead
from ctk.solve.machine import Machine, python_specs
from ctk.solve.solve import Pick, Scenario, channel_name
from ctk.solve.why import solve_or_say_why, toolkit_in_words

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

    def as_json(self) -> dict[str, Any]:
        """The pick for other programs; sizes in bytes."""
        scenario, records = self.pick.scenario, self.pick.records
        return {
            "request": list(scenario.specs),
            "machine": {"platform": scenario.subdir, "driver": scenario.driver, "gpu": scenario.arch},
            "toolkit": self.pick.toolkit or None,
            "fit": self.pick.fit or None,
            "choices": [choice.as_json() for choice in choices(self.pick, self.catalogue)],
            "native_instead": native_instead(self.pick, self.catalogue) or None,
            "packages": [
                {
                    "name": r.name.normalized,
                    "version": str(r.version),
                    "build": r.build,
                    "subdir": r.subdir,
                    "file": r.file_name,
                    "channel": channel_name(str(r.channel)),
                    "size": r.size,
                    "sha256": r.sha256.hex() if r.sha256 else None,
                }
                for r in records
            ],
            "size": self.pick.size if all(r.size for r in records) else None,
        }

    def show(self, report: Reporter) -> None:
        """The pick as a table, and a line that says what it means for the machine."""
        records = self.pick.records
        report.result(**self.as_json())
        rows = [
            (r.name.normalized, r.version, r.build, channel_name(str(r.channel)), megabytes(r.size) if r.size else "")
            for r in records
        ]
        report.table("pick", ["package", "version", "build", "channel", "MB"], rows, right=["MB"])
        size = count(len(records), "package")
        if all(r.size for r in records):
            size = f"{size}, {megabytes(self.pick.size)} MB"
        report.line(
            f"{toolkit_in_words(self.pick, self.catalogue)} ({self.machine.subdir}, {self.machine.words}; {size})"
        )
        for choice in choices(self.pick, self.catalogue):
            report.line(choice.in_words(self.catalogue))
        if native := native_instead(self.pick, self.catalogue):
            report.line(f"toolkit {native} native can be had too: add cuda-version={native}")


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
