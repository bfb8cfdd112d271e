"""`ctk solve`, `ctk env create` and `ctk prove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk import prove
from ctk.catalogue import Catalogue
from ctk.commands import channels
from ctk.commands.options import Base, Driver
from ctk.environment import create
from ctk.errors import CtkError, Unsolvable
from ctk.explain import explain, fit_in_words
from ctk.machine import Machine, machine, python_specs
from ctk.paths import workspace
from ctk.report import Reporter, count, megabytes
from ctk.solve import Pick, Scenario
from ctk.unsolvable import solve_or_say_why

env_app = typer.Typer(help="Environments made from the channel.", no_args_is_help=True)

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
Explain = Annotated[bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")]
Planned = Annotated[
    bool, typer.Option("--planned", help="Solve against what recipes and release locks say, not what was built.")
]

# How much of a solver's text is shown below the cause: what is longer is the same said for every build.
_SOLVER_LINES = 12
_PROVED = ("cuda-bindings", "cuda-core", "numba-cuda", "python")


def _scenario(specs: list[str], python: str | None, on: Machine) -> Scenario:
    wanted = (*specs, *(python_specs(python) if python else ()))
    return Scenario(wanted, on.subdir, on.driver, on.arch)


def _channel_name(url: str) -> str:
    """The last part of a channel's address; for one of ours, of the link and not of the state behind it."""
    place = Path(url.rstrip("/"))
    if place.parent.name.endswith("-states"):
        return place.parent.name.removeprefix(".").removesuffix("-states")
    return place.name


def _show(pick: Pick, on: Machine, catalogue: Catalogue, report: Reporter) -> None:
    """The pick as a table, and a line that says what it means for the machine."""
    rows = [
        (r.name.normalized, r.version, r.build, _channel_name(str(r.channel)), megabytes(r.size) if r.size else "")
        for r in pick.records
    ]
    report.table("pick", ["package", "version", "build", "channel", "MB"], rows, right=["MB"])
    fit = fit_in_words(pick, catalogue)
    toolkit = f"toolkit {pick.toolkit}{', ' if fit else ''}{fit}" if pick.toolkit else "no CUDA toolkit"
    size = count(len(pick.records), "package")
    if all(r.size for r in pick.records):
        size = f"{size}, {megabytes(pick.size)} MB"
    report.console.print(f"{toolkit} ({on.subdir}, {on.words}; {size})", markup=False, soft_wrap=True)


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
    catalogue = channels.catalogue(workspace(), base, on.subdir, report, as_planned)
    pick = solve_or_say_why(_scenario(specs, python, on), catalogue, None if why else _SOLVER_LINES)
    _show(pick, on, catalogue, report)
    for line in explain(pick, catalogue) if why else []:
        report.console.print(f"- {line}", markup=False, soft_wrap=True)


@env_app.command("create")
def env_create(
    specs: Specs,
    prefix: Annotated[Path, typer.Option("--prefix", help="Folder of the environment.")],
    driver: Driver = None,
    arch: Arch = None,
    python: Python = None,
    base: Base = "local",
) -> None:
    """Create an environment from the channel, or bring one up to date.

    Example: ctk env create cuda-core --prefix ./my-env
    """
    where, report, on = workspace(), Reporter(), machine(None, driver, arch)
    catalogue = channels.catalogue(where, base, on.subdir)
    pick = solve_or_say_why(_scenario(specs, python, on), catalogue, _SOLVER_LINES)
    made = create(pick, prefix.resolve(), where.cache / "packages")
    _show(pick, on, catalogue, report)
    report.console.print(f"{'created' if made.changed else 'unchanged'}: {made.prefix}", soft_wrap=True)


def prove_command(base: Base = "local") -> None:
    """Solve the two requests this project exists for, create both environments and use them.

    Each environment compiles kernels; with a GPU it also runs them and checks the numbers. Example: ctk prove
    """
    where, report, on = workspace(), Reporter(), machine()
    catalogue = channels.catalogue(where, base, on.subdir)
    rows = []
    for answer in prove.picks(catalogue):
        pick = answer.pick
        cells = (
            [f"{pick.toolkit} {pick.fit}".strip(), *(pick.version(name) for name in _PROVED)]
            if pick
            else ["unsolvable", *("" for _ in _PROVED)]
        )
        rows.append([" ".join(answer.request.specs), answer.driver or "none", answer.arch or "", *cells])
    report.table("what the solver picks", ["request", "driver", "GPU", "toolkit", *_PROVED], rows)
    if all(row[3] == "unsolvable" for row in rows):
        raise Unsolvable("no request can be solved from this channel", "run `ctk build` first")
    failures = []
    for request in prove.REQUESTS:
        scenario = Scenario(request.specs, on.subdir, on.driver, on.arch)
        try:
            environment = prove.make(request, catalogue, scenario, where)
            report.say(f"{request.name}: environment {'created' if environment.changed else 'unchanged'}")
            found = prove.use(request, environment)
        except CtkError as error:
            failures.append(error)
            continue
        report.table(f"in the environment of: {' '.join(request.specs)}", ["what", "found"], list(found.items()))
        if not found.get("gpus"):
            report.say(f"{request.name}: no GPU here, so kernels were compiled and linked, not run")
    if failures:
        raise failures[0]
    report.console.print("both requests work")
