"""`ctk solve` and `ctk prove`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ctk.cli import channels
from ctk.cli.options import Base, Driver
from ctk.cli.request import SOLVER_LINES, Arch, Platform, Python, Specs, ask
from ctk.core import output
from ctk.core.errors import CtkError, Unsolvable
from ctk.core.paths import workspace
from ctk.core.report import Reporter
from ctk.env import prove
from ctk.solve.machine import machine
from ctk.solve.solve import Scenario
from ctk.solve.why import explain

Explain = Annotated[bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")]
Planned = Annotated[
    bool, typer.Option("--planned", help="Solve against what recipes and release locks say, not what was built.")
]

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
    catalogue = channels.catalogue(workspace(), base, on.subdir, report, as_planned)
    asked = ask(specs, python, on, catalogue, None if why else SOLVER_LINES)
    asked.show(report)
    reasons = list(explain(asked.pick, catalogue)) if why else []
    report.result(explain=reasons)
    for line in reasons:
        report.line(f"- {line}")


def prove_command(base: Base = "local") -> None:
    """Solve the two requests this project exists for, create both environments and use them.

    Each environment compiles kernels; with a GPU it also runs them and checks the numbers.

    Example: ctk prove
    """
    where, report, on = workspace(), Reporter(), machine()
    catalogue = channels.catalogue(where, base, on.subdir)
    rows = []
    for request, scenario, pick in prove.picks(catalogue):
        cells = (
            [f"{pick.toolkit} {pick.fit}".strip(), *(pick.version(name) for name in _PROVED)]
            if pick
            else ["unsolvable", *("" for _ in _PROVED)]
        )
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
            environment = prove.make(request, catalogue, scenario, where)
            report.say(f"{request.name}: environment {'created' if environment.changed else 'unchanged'}")
            found = prove.use(request, environment)
        except CtkError as error:
            failures.append(error)
            proofs.append({"request": list(request.specs), "error": output.as_json(error)})
            continue
        proofs.append({"request": list(request.specs), "environment": str(environment.prefix), "found": found})
        report.table(f"in the environment of: {' '.join(request.specs)}", ["what", "found"], list(found.items()))
        if not found.get("gpus"):
            report.line(f"{request.name}: no GPU here, so kernels were compiled and linked, not run")
    if failures:
        raise failures[0]
    report.line("both requests work")
