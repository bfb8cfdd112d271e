"""`ctk verify`: compares the picks of a solver with the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ctk.cli.options import Platforms
from ctk.core.checkout import Workspace, checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import BadValue, VerifyFailed, refuse_unknown_names
from ctk.core.versions import python_name

if TYPE_CHECKING:
    from ctk.solve.channels import Repodata
    from ctk.verify.run import Solver, Tally, Wrong
    from ctk.verify.scenarios import Matrix

_WRONG_LINES = 20  # of a solver's text that are shown of a wrong answer

SolverName = Annotated[
    str, typer.Option(help="rattler, or a second one: an unknown name lists them.")
]
Constraints = Annotated[
    Literal["honoured", "ignored"],
    typer.Option(help="ignored: as clients do that ignore constraints on virtual packages."),
]
BuiltChannel = Annotated[
    Path | None, typer.Option(help="A built channel; by default what would be built.")
]
Requests = Annotated[
    list[str] | None,
    typer.Option("--request", help="Package such as cuda-core; may be repeated."),
]
MatrixPythons = Annotated[
    list[str] | None, typer.Option(help="Such as 3.12 or 3.14t; may be repeated.")
]
SampleSize = Annotated[int | None, typer.Option(help="A random sample of this many combinations.")]


@dataclass(frozen=True)
class Order:
    """What is verified: the options of the command."""

    solver: str
    is_ignoring_constraints: bool
    channel: Path | None
    platforms: Sequence[str]
    requests: Sequence[str]
    pythons: Sequence[str]
    sample: int | None
    seed: int


def verify_command(
    solver: SolverName = "rattler",
    constraints: Constraints = "honoured",
    channel: BuiltChannel = None,
    platforms: Platforms = None,
    requests: Requests = None,
    python: MatrixPythons = None,
    sample: SampleSize = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    write_table: Annotated[
        bool, typer.Option("--write-table", help="Only write the tables of the docs anew.")
    ] = False,
) -> None:
    """Solve a matrix of drivers, GPUs, platforms, Pythons and requests, and check each pick.

    You need not build anything: it takes the packages that recipes and release locks give, and a
    stand-in for those of conda-forge.

    Examples: ctk verify --platform win-64 --request cuda-core
    ctk verify --channel ./output/channel

    JSON:
    - `solver`, `scenarios` (how many were asked), `of`, `complete` (whether all were answered),
      `seconds`, `total`, `right`, `refused`, `lost`, `wrong`
    - `requests`: request -> the same counts; `first_wrong`: `command`, `fault`; with
      `--write-table` `written` instead
    """
    workspace, report = checkout(), Reporter()
    if write_table:
        _write_tables(workspace, report)
        return
    order = Order(
        solver=solver,
        is_ignoring_constraints=constraints == "ignored",
        channel=channel,
        platforms=platforms or (),
        requests=requests or (),
        pythons=python or (),
        sample=sample,
        seed=seed,
    )
    _verify(order, workspace, report)


def _write_tables(workspace: Workspace, report: Reporter) -> None:
    """Writes the tables of the docs that solvers and release locks give."""
    from ctk.lock.model import release_locks
    from ctk.release import TABLE, markdown_of
    from ctk.verify import table

    picks = table.TABLE.write(workspace, table.table(table.ask_planned(workspace)))
    facts = TABLE.write(workspace, markdown_of(release_locks(workspace).values()))
    changed = tuple(dict.fromkeys((*picks, *facts)))
    report.result(written=changed)
    report.line(f"written: {' '.join(map(str, changed))}" if changed else "unchanged")


def _verify(order: Order, workspace: Workspace, report: Reporter) -> None:
    """Asks a solver for the matrix, or for a part of it, and shows what it answered.

    Raises:
        VerifyFailed: A pick is wrong.
    """
    from ctk.lock.model import release_locks
    from ctk.solve import channels
    from ctk.verify import clients
    from ctk.verify.run import Tally
    from ctk.verify.scenarios import facts, matrix

    solver = clients.solver(order.solver, workspace)
    known = facts(release_locks(workspace).values())
    tags = _tags(workspace, order.pythons)
    every = matrix(known, tags, order.platforms, order.requests, any_python=not order.pythons)
    with TemporaryDirectory(prefix="ctk-verify-") as folder:
        solved = channels.write(_content(order, workspace, every), Path(folder))
        every = every.on(solved.subdirs)
        if not len(every):
            raise BadValue(
                "there is nothing to verify", "name platforms that the channel has packages for"
            )
        sample = order.sample
        most = clients.SAMPLE.get(order.solver)
        if sample is None and most:
            sample = min(most, len(every))
        questions = every.covering() if sample is None else every.sample(sample, order.seed)
        tally = Tally(known, solved, ignoring=order.is_ignoring_constraints)
        try:
            with report.task("verify", len(questions), of="scenarios") as task:
                tally.run(solver, questions, task.advance)
        finally:  # after Ctrl-C, too
            _show(tally, solver, len(questions), len(every), order, report)
    if number := tally.total["wrong"]:
        step = (
            "try the first one by hand: the mistake is in the recipes, in the oracle, or in the"
            " universe"
        )
        raise VerifyFailed(f"{number} of {len(questions)} picks are wrong", step)


def _content(order: Order, workspace: Workspace, every: Matrix) -> Repodata:
    """The records of the channel: of a built one, or of what recipes and locks would give."""
    from ctk.solve import channels

    if order.channel:
        content = channels.built(order.channel)
    else:
        content = channels.planned(workspace, every.subdirs)
    if order.is_ignoring_constraints:
        return channels.without_virtual_constraints(content)
    return content


def _tags(workspace: Workspace, wanted: Sequence[str]) -> list[str]:
    """The tags of the matrix's Pythons: those of the channel, and others, which it must refuse."""
    from ctk.plan.plan import python_tags
    from ctk.solve.channels import pythons

    tags = list(dict.fromkeys((*pythons(), *python_tags(workspace.build_config))))
    names = [python_name(tag) for tag in tags]
    refuse_unknown_names("Python", wanted, names)
    if not wanted:
        return tags
    return [tag for tag, name in zip(tags, names, strict=True) if name in wanted]


def _show(
    tally: Tally, solver: Solver, asked: int, of: int, order: Order, report: Reporter
) -> None:
    """Prints and reports what a solver answered to `asked` of `of` scenarios."""
    from ctk.verify.run import counts_as_json
    from ctk.verify.scenarios import command

    report.result(
        solver=solver.name,
        scenarios=asked,
        of=of,
        # not after Ctrl-C, and not if a client crashed
        complete=tally.total.total() == asked,
        seconds=round(tally.seconds, 2),
        **counts_as_json(tally.total),
        requests={name: counts_as_json(counts) for name, counts in tally.counts.items()},
        first_wrong=[
            {"command": command(wrong.question), "fault": wrong.fault} for wrong in tally.wrong
        ],
    )
    _show_verdict(tally, asked, of, report)
    for wrong in tally.wrong:
        _show_wrong(wrong, report, planned=order.channel is None)
    _show_tally(tally, solver, report)


def _show_tally(tally: Tally, solver: Solver, report: Reporter) -> None:
    from ctk.verify.oracle import Cause, Loss

    losses = {
        Loss.GPU: "a toolkit that fits the driver but not the GPU",
        Loss.REFUSAL: (
            "an installation where the driver or the GPU is too old for all that was asked for"
        ),
        Loss.MAJOR: (
            "a CUDA major that the driver does not know, where no toolkit of the platform fits the"
            " driver"
        ),
    }
    total = tally.total
    if not total:
        return
    kinds = [kind for kind in Loss if total[kind]]
    columns = [
        "request",
        "scenarios",
        "right",
        "rightly refused",
        *(f"lost: {kind}" for kind in kinds),
        "wrong",
    ]
    rows = [
        (
            name,
            c.total(),
            c["right"],
            sum(c[cause] for cause in Cause),
            *(c[kind] for kind in kinds),
            c["wrong"],
        )
        for name, c in [*tally.counts.items(), ("all", total)]
    ]
    report.table(f"what {solver.name} picks", columns, rows, right=columns[1:])
    if causes := [f"{total[cause]} {cause}" for cause in Cause if total[cause]]:
        report.line(f"rightly refused: {', '.join(causes)}")
    for kind in kinds:
        report.line(f"lost, {kind}: such a client gets {losses[kind]}")


def _show_verdict(tally: Tally, asked: int, of: int, report: Reporter) -> None:
    """Prints how many picks are wrong, and how many scenarios have no answer."""
    answered, wrong = tally.total.total(), tally.total["wrong"]
    whole = f"of {count(of, 'scenario')} in {tally.seconds:.1f} s"
    if answered == asked:
        report.line(f"{asked} {whole}: {wrong or 'none'} wrong")
    else:
        report.line(
            f"stopped: {answered} {whole}: {wrong} wrong so far, {asked - answered} not answered"
        )


def _show_wrong(wrong: Wrong, report: Reporter, planned: bool) -> None:
    """Prints a wrong pick, its packages, the expected pick, and the command that repeats it."""
    from ctk.verify.scenarios import command

    right, answer = wrong.expected, wrong.answer
    option = " --planned" if planned else ""
    wanted = f"toolkit {right.toolkit} {right.fit}" if right.toolkit else f"no pick: {right.cause}"
    python = f", Python {right.python}" if right.python else ""
    records = sorted(answer.records.items())
    lines = [
        f"wrong: {command(wrong.question)}{option}",
        f"  expected: {wanted}{python}",
        f"  found: {wrong.fault}",
        *(f"    {name} {record.version} {record.build}" for name, record in records),
        *(f"    {line}" for line in answer.problem.splitlines()[:_WRONG_LINES]),
    ]
    report.line("\n".join(lines))
