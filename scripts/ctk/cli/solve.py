"""`ctk solve` and `ctk prove`; `ctk env` and `ctk site` use their options and channels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ctk.cli import options
from ctk.cli.options import Base, Driver, base_channel
from ctk.core import console
from ctk.core.checkout import Workspace, settings, workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.errors import CtkError, Unsolvable
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.env import prove
from ctk.plan.recipes import find_recipes, maker_of
from ctk.plan.repodata import write
from ctk.solve.machine import Machine, machine, python_specs
from ctk.solve.solve import Catalogue, Maker, Pick, Scenario, channel_name
from ctk.solve.why import choices, explain, native_instead, solve_or_say_why, toolkit_in_words
from ctk.verify.channels import planned, universe

Specs = Annotated[
    list[str],
    typer.Argument(
        help="What conda would be given, such as cuda-version=12.6 numba-cuda.", autocompletion=options.packages
    ),
]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        help="The platform; this machine's by default. On another one no driver is assumed.",
        autocompletion=lambda: list(PLATFORMS),
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        help="Python version, such as 3.13, or 3.14t for free-threaded Python.",
        autocompletion=options.pythons,
    ),
]
Arch = Annotated[
    str | None,
    typer.Option(
        "--arch",
        help="Compute capability of the oldest GPU, such as 9.0 or sm_90, or none; this machine's by default, "
        "and not known where --driver is given.",
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")]
Planned = Annotated[
    bool, typer.Option("--planned", help="Solve against what recipes and release locks say, not what was built.")
]

# How much of a solver's text is shown below the cause: what is longer is the same said for every build.
SOLVER_LINES = 12
_PROVED = ("cuda-bindings", "cuda-core", "numba-cuda", "python")


def solve_command(
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    platform: Platform = None,
    python: Python = None,
    why: Explain = False,
    as_planned: Planned = False,
    base: Base = "local",
) -> None:
    """Show which packages a solver picks from the channel, on this machine or on another one.

    Example: ctk solve cuda-version=12.6 numba-cuda --driver 12.9 --arch 7.0 --explain
    """
    report, on = Reporter(), machine(platform, driver, arch)
    channels = catalogue(workspace(), base, on.subdir, report, as_planned)
    solved = solve_request(specs, python, on, channels, None if why else SOLVER_LINES)
    solved.show(report)
    reasons = list(explain(solved.pick, channels)) if why else []
    report.result(explain=reasons)
    for line in reasons:
        report.line(f"- {line}")


def prove_command(base: Base = "local") -> None:
    """Solve the two requests this project exists for, create both environments and use them.

    Each environment compiles kernels; with a GPU it also runs them and checks the numbers.

    Example: ctk prove
    """
    where, report, on = workspace(), Reporter(), machine()
    channels = catalogue(where, base, on.subdir)
    rows = []
    for request, scenario, pick in prove.picks(channels):
        cells = ["unsolvable", *("" for _ in _PROVED)]
        if pick:
            cells = [f"{pick.toolkit} {pick.fit}".strip(), *map(pick.version, _PROVED)]
        rows.append([" ".join(request.specs), scenario.driver or "none", scenario.arch or "", *cells])
    columns = ["request", "driver", "GPU", "toolkit", *_PROVED]
    report.table("what the solver picks", columns, rows)
    proofs: list[dict[str, Any]] = []
    report.result(picks=[dict(zip(columns, row, strict=True)) for row in rows], proofs=proofs)
    if all(row[3] == "unsolvable" for row in rows):
        raise Unsolvable("no request can be solved from this channel", "run `ctk build` first")
    failures = []
    for request in prove.REQUESTS:
        scenario = Scenario(request.specs, on.subdir, on.driver, on.arch)
        try:
            environment = prove.make(request, channels, scenario, where)
            report.say(f"{request.name}: environment {'created' if environment.changed else 'unchanged'}")
            found = prove.use(request, environment)
        except CtkError as error:
            failures.append(error)
            proofs.append({"request": list(request.specs), "error": console.error_as_json(error)})
            continue
        proofs.append({"request": list(request.specs), "environment": str(environment.prefix), "found": found})
        report.table(f"in the environment of: {' '.join(request.specs)}", ["what", "found"], list(found.items()))
        if not found.get("gpus"):
            report.line(f"{request.name}: no GPU here, so kernels were compiled and linked, not run")
    if failures:
        raise failures[0]
    report.line("both requests work")


@dataclass(frozen=True)
class Solved:
    """A solved request.

    Attributes:
        pick: The solver's answer.
        machine: The machine it is for.
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
        """Prints the pick as a table, and in a line what it means for the machine."""
        found = self.as_json()
        report.result(**found)
        rows = [
            (p["name"], p["version"], p["build"], p["channel"], megabytes(p["size"]) if p["size"] else "")
            for p in found["packages"]
        ]
        report.table("pick", ["package", "version", "build", "channel", "MB"], rows, right=["MB"])
        size = count(len(rows), "package") + (f", {megabytes(found['size'])} MB" if found["size"] is not None else "")
        report.line(
            f"{toolkit_in_words(self.pick, self.catalogue)} ({self.machine.subdir}, {self.machine.words}; {size})"
        )
        for choice in choices(self.pick, self.catalogue):
            report.line(choice.in_words(self.catalogue))
        if native := found["native_instead"]:
            report.line(f"toolkit {native} native can be had too: add cuda-version={native}")


def solve_request(
    specs: list[str], python: str | None, on: Machine, channels: Catalogue, lines: int | None = SOLVER_LINES
) -> Solved:
    """Solves a request for a machine.

    Raises:
        BadValue: A version of Python that cannot be read.
        Unsolvable: With the cause, and that many lines of the solver's text.
    """
    wanted = (*specs, *(python_specs(python) if python else ()))
    scenario = Scenario(wanted, on.subdir, on.driver, on.arch)
    return Solved(solve_or_say_why(scenario, channels, lines), on, channels)


def catalogue(
    where: Workspace, base: str, subdir: str, report: Reporter | None = None, as_planned: bool = False
) -> Catalogue:
    """The channel and its base channel, for one platform.

    For another platform than this machine's, packages that were not built are replaced by planned ones: the channel by
    what recipes and release locks say, a base channel of ours by metadata shaped as conda-forge's. One line says so.

    Args:
        where: The checkout.
        base: What ``--base`` names.
        subdir: The platform.
        report: Where to say it.
        as_planned: Take the plan, whatever was built.
    """
    channels = [where.channel, base_channel(base, where)]
    foreign = subdir != this_platform()
    if as_planned or (foreign and not _has(where.channel, subdir)):
        # The same as `ctk verify` has, so that a scenario which it prints is solved here as it was there.
        channels[0] = write(planned(where), where.cache / "planned" / "channel")
    if base == "local" and (as_planned or (foreign and not _has(where.base_channel, subdir))):
        channels[1] = write(universe(), where.cache / "planned" / "base")
    if report and where.channel not in channels:
        why = "" if as_planned else f"nothing is built for {subdir} here: "
        stand_in = ", with a stand-in for conda-forge" if base == "local" and where.base_channel not in channels else ""
        report.line(f"{why}solved against what recipes and release locks say{stand_in}")
    return Catalogue(channels, subdir, maker=partial(_maker, where))


def installable(where: Workspace, base: str, subdir: str) -> Catalogue:
    """The channel and its base channel, for one platform, with packages that are built and not only planned.

    Raises:
        Unsolvable: Nothing is built for that platform here, or nobody says where its base channel is.
    """
    if subdir != this_platform():
        if not _has(where.channel, subdir):
            raise Unsolvable(f"nothing is built for {subdir} here", f"run `ctk build --platform {subdir}` first")
        if base == "local" and not _has(where.base_channel, subdir):
            raise Unsolvable(
                f"the base channel that is made here has no Python for {subdir}",
                "name one that has, such as --base conda-forge or a folder",
            )
    return Catalogue([where.channel, base_channel(base, where)], subdir, maker=partial(_maker, where))


def _maker(where: Workspace, package: str) -> Maker | None:
    recipe, default = maker_of(package, find_recipes(where.recipes)), settings(where.root).default.recipes
    return Maker(recipe, default is None or recipe in default) if recipe else None


def _has(channel: Path, subdir: str) -> bool:
    """Whether a channel folder has packages for a platform."""
    try:
        return bool(json.loads((channel / subdir / "repodata.json").read_text())["packages.conda"])
    except FileNotFoundError:
        return False
