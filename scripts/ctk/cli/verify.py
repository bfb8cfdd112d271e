"""`ctk verify`: compares the picks of a solver with the expected ones.

--install creates and uses environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ctk.cli.options import Base, Platforms, base_beside
from ctk.core import console
from ctk.core.checkout import Workspace, checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import BadValue, CtkError, VerifyFailed, check_names
from ctk.core.versions import python_name

if TYPE_CHECKING:
    from ctk.verify.run import Solver, Tally, Wrong

_WRONG_LINES = 20  # of a solver's text that are shown of a wrong answer


def verify_command(
    solver: Annotated[
        str,
        typer.Option(help="rattler, or a second one: an unknown name lists them."),
    ] = "rattler",
    constraints: Annotated[
        Literal["honoured", "ignored"],
        typer.Option(help="ignored: as clients do that ignore constraints on virtual packages."),
    ] = "honoured",
    channel: Annotated[
        Path | None,
        typer.Option(
            help=(
                "A built channel; by default what would be built, and with --install"
                " output/channel."
            )
        ),
    ] = None,
    platforms: Platforms = None,
    requests: Annotated[
        list[str] | None,
        typer.Option("--request", help="Package such as cuda-core; may be repeated."),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            help="Such as 3.12 or 3.14t; may be repeated.",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(help="A random sample of this many combinations.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    write_table: Annotated[
        bool, typer.Option("--write-table", help="Only write the tables of the docs anew.")
    ] = False,
    install: Annotated[
        bool,
        typer.Option(
            "--install",
            help=(
                "Create and use the environments of two requests, from the built channel, instead."
            ),
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --install: use unchanged environments once more.")
    ] = False,
    base: Base = "local",
) -> None:
    """Solve a matrix of drivers, GPUs, platforms, Pythons and requests, and compare each pick with
    the right one.

    Nothing has to be built: packages are what recipes and release locks say, those of conda-forge a
    stand-in. With --install, both environments compile kernels; with a GPU they also run them and
    check the numbers. Nothing is repeated in an environment that is unchanged since an earlier run.

    Examples: ctk verify --platform win-64 --request cuda-core
    ctk verify --install

    JSON:
    - `solver`, `scenarios` (how many were asked), `of`, `complete` (whether all were answered),
      `seconds`, `total`, `right`, `refused`, `lost`, `wrong`
    - `requests`: request -> the same counts; `first_wrong`: `command`, `fault`; with
      `--write-table` `written` instead

    With `--install`, instead:

    - `proofs`: `request`, `environment`, `found`, `proved_before` (by an earlier run), or `error`
    """
    where, report = checkout(), Reporter()
    if install:
        _install(where, [str(channel)] if channel else [], base, again, report)
        return
    from ctk.lock.model import release_locks
    from ctk.release import TABLE, markdown_of
    from ctk.solve import channels as matrix_channels
    from ctk.verify import clients, table
    from ctk.verify.run import Tally, counts_as_json
    from ctk.verify.scenarios import command, facts, matrix

    if write_table:
        picks = table.TABLE.write(where, table.table(table.ask_planned(where)))
        facts_ = TABLE.write(where, markdown_of(release_locks(where).values()))
        changed = tuple(dict.fromkeys((*picks, *facts_)))
        report.result(written=changed)
        report.line(f"written: {' '.join(map(str, changed))}" if changed else "unchanged")
        return
    by = clients.solver(solver, where)
    known = facts(release_locks(where).values())
    every = matrix(
        known, _tags(where, python), platforms or (), requests or (), any_python=not python
    )
    content = (
        matrix_channels.built(channel) if channel else matrix_channels.planned(where, every.subdirs)
    )
    ignoring = constraints == "ignored"
    if ignoring:
        content = matrix_channels.without_virtual_constraints(content)
    with TemporaryDirectory(prefix="ctk-verify-") as folder:
        solved = matrix_channels.write(content, Path(folder))
        every = every.on(solved.subdirs)
        if not len(every):
            raise BadValue(
                "there is nothing to verify", "name platforms that the channel has packages for"
            )
        few = clients.SAMPLE.get(solver)
        if sample is None and few:
            sample = min(few, len(every))
        questions = every.covering() if sample is None else every.sample(sample, seed)
        tally = Tally(known, solved, ignoring=ignoring)
        try:
            with report.task("scenarios", len(questions)) as task:
                tally.run(by, questions, task.advance)
        finally:
            asked, of = len(questions), len(every)
            complete = tally.total.total() == asked  # not after Ctrl-C, and not if a client crashed
            report.result(
                solver=by.name,
                scenarios=asked,
                of=of,
                complete=complete,
                seconds=round(tally.seconds, 2),
                **counts_as_json(tally.total),
                requests={name: counts_as_json(counts) for name, counts in tally.counts.items()},
                first_wrong=[
                    {"command": command(one.question), "fault": one.fault} for one in tally.wrong
                ],
            )
            _show_verdict(tally, asked, of, report)
            for one in tally.wrong:
                _show_wrong(one, report, planned=channel is None)
            _show_tally(tally, by, report)
    if number := tally.total["wrong"]:
        step = (
            "try the first one by hand: the mistake is in the recipes, in the oracle, or in the"
            " universe"
        )
        raise VerifyFailed(f"{number} of {len(questions)} picks are wrong", step)


def _tags(where: Workspace, wanted: Sequence[str] | None) -> list[str]:
    """The tags of the matrix's Pythons: those of the channel, and others, which it must refuse."""
    from ctk.plan.plan import python_tags
    from ctk.solve import channels as matrix_channels

    tags = list(dict.fromkeys((*matrix_channels.pythons(), *python_tags(where.build_config))))
    names = list(map(python_name, tags))
    check_names("Python", wanted or (), names)
    return [tag for tag, name in zip(tags, names, strict=True) if not wanted or name in wanted]


def _show_tally(tally: Tally, by: Solver, report: Reporter) -> None:
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
    report.table(f"what {by.name} picks", columns, rows, right=columns[1:])
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


def _show_wrong(one: Wrong, report: Reporter, planned: bool) -> None:
    """Prints a wrong pick: the command that repeats it, the expected pick, and all packages of the
    pick.
    """
    from ctk.verify.scenarios import command

    right, answer = one.expected, one.answer
    wanted = f"toolkit {right.toolkit} {right.fit}" if right.toolkit else f"no pick: {right.cause}"
    python = f", Python {right.python}" if right.python else ""
    lines = [
        f"wrong: {command(one.question)}{' --planned' if planned else ''}",
        f"  expected: {wanted}{python}",
        f"  found: {one.fault}",
        *(f"    {name} {r.version} {r.build}" for name, r in sorted(answer.records.items())),
        *(f"    {line}" for line in answer.problem.splitlines()[:_WRONG_LINES]),
    ]
    report.line("\n".join(lines))


def _install(
    where: Workspace, others: Sequence[str], base: str, again: bool, report: Reporter
) -> None:
    """Solves the two requests that this project exists for, creates both environments and uses
    them.
    """
    from ctk.env.environment import PROOFS, proof_environment, proof_note, prove
    from ctk.solve.channels import catalogue
    from ctk.solve.machine import machine
    from ctk.solve.solve import Scenario

    on = machine()
    channels = catalogue(where, base_beside(base, others, where), on.subdir, others=others)
    proofs: list[dict[str, Any]] = []
    report.result(proofs=proofs)
    failures = []
    for request in PROOFS:
        scenario = Scenario(request.specs, on.subdir, on.driver, on.arch)
        try:
            environment = proof_environment(request, channels, scenario, where)
            note = proof_note(request, environment, on, where.notes)
            before = None if again or environment.changed else note.read()
            state = (
                "created"
                if environment.changed
                else "unchanged, proved before"
                if before
                else "unchanged"
            )
            report.say(f"{request.name}: environment {state}")
            found = before or prove(request, environment, note)
        except CtkError as error:
            failures.append(error)
            proofs.append({"request": list(request.specs), "error": console.error_as_json(error)})
            continue
        proofs.append({"request": list(request.specs), "environment": str(environment.prefix)})
        proofs[-1].update(found=found, proved_before=bool(before))
        report.table(
            f"in the environment of: {' '.join(request.specs)}",
            ["what", "found"],
            list(found.items()),
        )
        if not found.get("gpus"):
            report.line(
                f"{request.name}: no GPU here, so kernels were compiled and linked, not run"
            )
    if failures:
        raise failures[0]
    report.line("both requests work")
