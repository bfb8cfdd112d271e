"""`ctk solve`, `ctk env create` and `ctk prove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk import prove
from ctk.commands.options import Base, Driver, base_channel
from ctk.environment import create
from ctk.errors import CtkError, Unsolvable
from ctk.paths import workspace
from ctk.platforms import this_platform
from ctk.report import Reporter, megabytes
from ctk.solve import Pick, Scenario, detected_driver, solve

env_app = typer.Typer(help="Environments made from the channel.", no_args_is_help=True)

Specs = Annotated[list[str], typer.Argument(help="What conda would be given, such as cuda-version=12.6 numba-cuda.")]
Platform = Annotated[str | None, typer.Option("--platform", "-p", help="The platform; this machine's by default.")]
Python = Annotated[str | None, typer.Option("--python", help="Python version, such as 3.13.")]
Arch = Annotated[str | None, typer.Option("--arch", help="Compute capability of the GPU, such as 9.0.")]


def _scenario(
    specs: list[str], driver: str | None, platform: str | None, python: str | None, arch: str | None
) -> Scenario:
    wanted = tuple(specs) + ((f"python={python}",) if python else ())
    found = detected_driver() if driver is None else None if driver == "none" else driver
    return Scenario(wanted, platform or this_platform(), found, arch)


def _channel_name(url: str) -> str:
    """The last part of a channel's address; for one of ours, of the link and not of the state behind it."""
    place = Path(url.rstrip("/"))
    if place.parent.name.endswith("-states"):
        return place.parent.name.removeprefix(".").removesuffix("-states")
    return place.name


def _show(pick: Pick, report: Reporter) -> None:
    rows = [
        (r.name.normalized, r.version, r.build, _channel_name(str(r.channel)), megabytes(r.size or 0))
        for r in pick.records
    ]
    report.table("pick", ["package", "version", "build", "channel", "MB"], rows, right=["MB"])
    driver = f"a driver for CUDA {pick.scenario.driver}" if pick.scenario.driver else "no driver"
    toolkit = f"toolkit {pick.toolkit}" if pick.toolkit else "no CUDA toolkit"
    report.console.print(
        f"{toolkit} on {pick.scenario.subdir} with {driver}: {len(pick.records)} packages, {megabytes(pick.size)} MB"
    )


def solve_command(
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    platform: Platform = None,
    python: Python = None,
    base: Base = "local",
) -> None:
    """Show which packages a solver picks from the channel, on this machine or on another one.

    Example: ctk solve cuda-version=12.6 numba-cuda --driver 12.9
    """
    where = workspace()
    pick = solve(_scenario(specs, driver, platform, python, arch), [where.channel, base_channel(base, where)])
    _show(pick, Reporter())


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
    where, report = workspace(), Reporter()
    pick = solve(_scenario(specs, driver, None, python, arch), [where.channel, base_channel(base, where)])
    made = create(pick, prefix.resolve(), where.cache / "packages")
    _show(pick, report)
    report.console.print(f"{'created' if made.changed else 'unchanged'}: {made.prefix}", soft_wrap=True)


def prove_command(base: Base = "local") -> None:
    """Solve the two requests this project exists for, create both environments and use them.

    Each environment compiles kernels; with a GPU it also runs them and checks the numbers. Example: ctk prove
    """
    where, report = workspace(), Reporter()
    channels = [where.channel, base_channel(base, where)]
    rows = []
    for answer in prove.picks(channels, this_platform()):
        pick = answer.pick
        cells = (
            [pick.toolkit, *(pick.version(n) for n in ("cuda-bindings", "cuda-core", "numba-cuda", "python"))]
            if pick
            else ["unsolvable", "", "", "", ""]
        )
        rows.append([" ".join(answer.request.specs), answer.driver or "none", *cells])
    columns = ["request", "driver", "toolkit", "cuda-bindings", "cuda-core", "numba-cuda", "python"]
    report.table("what the solver picks", columns, rows)
    if all(row[2] == "unsolvable" for row in rows):
        raise Unsolvable("no request can be solved from this channel", "run `ctk build` first")
    failures = []
    for request in prove.REQUESTS:
        scenario = Scenario(request.specs, this_platform(), detected_driver())
        try:
            environment = prove.make(request, channels, scenario, where)
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
