"""`ctk verify`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ctk.cli import interrupt
from ctk.cli.options import Platforms
from ctk.core.checkout import Workspace, checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import BadValue, UnknownName, VerifyFailed
from ctk.lock.lock import release_locks
from ctk.plan.plan import python_tags
from ctk.verify import channels, clients, table
from ctk.verify.oracle import REQUESTS, Cause, Loss
from ctk.verify.run import Solver, Tally, Wrong
from ctk.verify.scenarios import command, facts, matrix

# How much of a solver's text is shown of a wrong answer: what is longer is the same said for every build.
_SOLVER_LINES = 20
_LOSSES = {
    Loss.GPU: "a toolkit that fits the driver but not the GPU",
    Loss.REFUSAL: "an installation where the driver or the GPU is too old for all that was asked for",
    Loss.MAJOR: "a CUDA major that the driver does not know, where no toolkit of the platform fits the driver",
}


class Constraints(StrEnum):
    """What a client does with constraints on virtual packages."""

    HONOURED = "honoured"
    IGNORED = "ignored"


def verify_command(
    solver: Annotated[
        str,
        typer.Option(
            help=f"rattler, or a second one: {', '.join(clients.NAMES)}.",
            autocompletion=lambda: ["rattler", *clients.NAMES],
        ),
    ] = "rattler",
    constraints: Annotated[
        Constraints, typer.Option(help="ignored: as clients do that ignore constraints on virtual packages.")
    ] = Constraints.HONOURED,
    channel: Annotated[
        Path | None, typer.Option(help="A built channel; by default, what recipes and release locks would give.")
    ] = None,
    platforms: Platforms = None,
    requests: Annotated[
        list[str] | None,
        typer.Option(
            "--request", help="Package such as cuda-core; may be repeated.", autocompletion=lambda: list(REQUESTS)
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            help="Such as 3.12 or 3.14t; may be repeated.",
            autocompletion=lambda: list(map(_dotted, _tags(checkout(), None))),
        ),
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="Every combination: an hour or more.")] = False,
    sample: Annotated[int | None, typer.Option(help="So many of all combinations, by chance.")] = None,
    seed: Annotated[int, typer.Option(help="Which sample.")] = 0,
    show: Annotated[int, typer.Option(min=0, help="How many wrong picks to print whole.")] = 3,
    write_table: Annotated[bool, typer.Option("--write-table", help="Only write the table of the docs anew.")] = False,
    check_table: Annotated[bool, typer.Option("--check-table", help="Only check that table.")] = False,
) -> None:
    """Solve a matrix of drivers, GPUs, platforms, Pythons and requests, and compare each pick with the right one.

    Nothing has to be built: packages are what recipes and release locks say, those of conda-forge a stand-in.

    Example: ctk verify --platform win-64 --request cuda-core
    """
    where, report = checkout(), Reporter()
    if write_table or check_table:
        _table(where, report, write_table)
        return
    if whole and sample is not None:
        raise BadValue("--all and --sample exclude each other", "give one of them")
    by = clients.solver(solver, where)
    known = facts(release_locks(where).values())
    every = matrix(known, _tags(where, python), platforms or (), requests or (), any_python=not python)
    content = channels.built(channel) if channel else channels.planned(where, every.subdirs)
    ignoring = constraints is Constraints.IGNORED
    if ignoring:
        content = channels.without_virtual_constraints(content)
    with TemporaryDirectory(prefix="ctk-verify-") as folder:
        solved = channels.write(content, Path(folder))
        every = every.on(solved.subdirs)
        if not len(every):
            raise BadValue("there is nothing to verify", "name platforms that the channel has packages for")
        few = clients.SAMPLE.get(solver)
        if sample is None and not whole and few:
            sample = min(few, len(every))
        questions = every.sample(sample, seed) if sample is not None else every if whole else every.covering()
        tally = Tally(known, solved, ignoring=ignoring, keep=show)
        try:
            with interrupt.heard(), report.task("scenarios", len(questions)) as task:
                tally.run(by, questions, task.advance)
        finally:
            asked, of = len(questions), len(every)  # a stopped run shows what it has
            report.result(**_as_json(tally, asked, of, by))
            _show(tally, by, report)
            for one in tally.wrong:
                _show_wrong(one, report, planned=channel is None)
            _show_end(tally, asked, of, report)
    if tally.total.wrong:
        step = "try the first one by hand: the mistake is in the recipes, in the oracle, or in the universe"
        raise VerifyFailed(f"{tally.total.wrong} of {len(questions)} picks are wrong", step)


def _tags(where: Workspace, wanted: Sequence[str] | None) -> list[str]:
    """The Pythons of the matrix as tags: those of the channel, and others, which it must refuse."""
    tags = list(dict.fromkeys((*channels.pythons(), *python_tags(where.build_config))))
    for python in wanted or ():
        if _tag(python) not in tags:
            raise UnknownName.of("Python", python, map(_dotted, tags))
    return [tag for tag in tags if not wanted or tag in map(_tag, wanted)]


def _tag(python: str) -> str:
    return f"cp{python.replace('.', '')}"


def _dotted(tag: str) -> str:
    return f"3.{tag.removeprefix('cp3')}"


def _table(where: Workspace, report: Reporter, write: bool) -> None:
    answers = table.ask_planned(where)
    if write:
        changed = table.write(where, answers)
        report.result(written=changed)
        report.line(f"written: {' '.join(map(str, changed))}" if changed else "unchanged")
    else:
        table.check(where, answers)
        report.line("the table of drivers and GPUs is what a solver picks")


def _as_json(tally: Tally, asked: int, of: int, by: Solver) -> dict[str, Any]:
    return {
        "solver": by.name,
        "scenarios": asked,
        "of": of,
        "complete": tally.complete,
        "seconds": round(tally.seconds, 2),
        **tally.total.as_json(),
        "requests": {name: counts.as_json() for name, counts in tally.counts.items()},
        "first_wrong": [{"command": command(one.question), "fault": one.fault} for one in tally.wrong],
    }


def _show(tally: Tally, by: Solver, report: Reporter) -> None:
    total = tally.total
    if not total.total:
        return
    kinds = [kind for kind in Loss if total.lost[kind]]
    columns = ["request", "scenarios", "right", "rightly refused", *(f"lost: {kind}" for kind in kinds), "wrong"]
    rows = [
        (name, c.total, c.right, c.refused.total(), *(c.lost[kind] for kind in kinds), c.wrong)
        for name, c in [*tally.counts.items(), ("all", total)]
    ]
    report.table(f"what {by.name} picks", columns, rows, right=columns[1:])
    if causes := [f"{total.refused[cause]} {cause}" for cause in Cause if total.refused[cause]]:
        report.line(f"rightly refused: {', '.join(causes)}")
    for kind in kinds:
        report.line(f"lost, {kind}: such a client gets {_LOSSES[kind]}")


def _show_end(tally: Tally, asked: int, of: int, report: Reporter) -> None:
    """One line that sums up; of questions without an answer it says nothing good."""
    total, whole = tally.total, f"of {count(of, 'scenario')} in {tally.seconds:.1f} s"
    if tally.complete:
        report.line(f"{asked} {whole}: " + (f"{total.wrong} wrong" if total.wrong else "none wrong"))
    else:
        left = asked - total.total
        report.line(f"stopped: {total.total} {whole}: {total.wrong} wrong so far, {left} not answered")


def _show_wrong(one: Wrong, report: Reporter, planned: bool) -> None:
    """A wrong pick: how to ask for it again, what is right, and everything that was picked."""
    right, answer = one.expected, one.answer
    wanted = f"toolkit {right.toolkit} {right.fit}" if right.toolkit else f"no pick: {right.cause}"
    python = f", Python {right.python}" if right.python else ""
    lines = [
        f"wrong: {command(one.question)}{' --planned' if planned else ''}",
        f"  expected: {wanted}{python}",
        f"  found: {one.fault}",
        *(f"    {name} {r.version} {r.build}" for name, r in sorted(answer.records.items())),
        *(f"    {line}" for line in answer.problem.splitlines()[:_SOLVER_LINES]),
    ]
    report.line("\n".join(lines))
