"""`ctk solve`, `ctk prove`, `ctk verify`, and the channels that `ctk env` and `ctk site` solve from as well."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli.fleet import show_fleet, stated_machines
from ctk.cli.options import (
    Arch,
    Base,
    Driver,
    OtherChannels,
    Platform,
    Platforms,
    Python,
    Specs,
    base_channel,
    not_both,
    show_written,
)
from ctk.core import console
from ctk.core.checkout import Workspace, checkout, settings, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue, CtkError, CudaLost, Unsolvable, VerifyFailed, check_names
from ctk.core.files import check_place, read_json
from ctk.core.platforms import this_platform
from ctk.core.versions import python_name

if TYPE_CHECKING:
    from ctk.solve.machine import Machine
    from ctk.solve.solve import Catalogue, Maker, Pick
    from ctk.verify.run import Solver, Tally, Wrong

# How much of a solver's text is shown below a cause, and of a wrong answer: the rest is the same said for every build.
_REASON_LINES, _WRONG_LINES = 12, 20
_PROVED = ("cuda-bindings", "cuda-core", "numba-cuda", "python")


def solve_command(
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    platform: Platform = None,
    python: Python = None,
    why: Annotated[
        bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail where a client may take a CPU build although CUDA builds are there."),
    ] = False,
    as_planned: Annotated[
        bool, typer.Option("--planned", help="Solve against what recipes and release locks say, not what was built.")
    ] = False,
    drivers: Annotated[
        str | None,
        typer.Option(help="The drivers of a fleet, such as 12.4,13.0, each with each of --archs: how few serve all?"),
    ] = None,
    archs: Annotated[str | None, typer.Option(help="The GPUs of a fleet, such as 7.0,9.0.")] = None,
    machines: Annotated[
        Path | None,
        typer.Option(help="The machines of a fleet, one a line: NAME DRIVER GPU.", metavar="FILE"),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(help="Write environment.yml, pixi.toml and conda-lock's virtual packages there.", metavar="DIR"),
    ] = None,
    channel: OtherChannels = None,
    base: Base = "local",
) -> None:
    """Show which packages a solver picks from the channel, on this machine or on another one.

    Of a fleet, show the fewest environments that serve all of its machines, and what to type for each.

    Examples: ctk solve cuda-version=12.6 numba-cuda --driver 12.9 --arch 7.0 --explain
    ctk solve cuda-core --drivers 12.4,13.0 --archs 7.0,9.0 --write ./files
    """
    from ctk.solve.fleet import find_fleet
    from ctk.solve.machine import machine
    from ctk.solve.solve import channel_url, lasting
    from ctk.solve.why import explain

    where, report = workspace(), Reporter()
    is_fleet = any(option is not None for option in (drivers, archs, machines))
    not_both("--drivers or --archs", "--machines", machines and (drivers is not None or archs is not None))
    not_both("--driver or --arch", "--drivers, --archs or --machines", is_fleet and (driver or arch))
    not_both("--explain", "--drivers, --archs, --machines or --write", why and (is_fleet or write))
    not_both("--channel", "--planned", channel and as_planned)
    not_both("--strict", "--drivers, --archs, --machines or --write", strict and (is_fleet or write))
    if is_fleet or write:
        wanted = _wanted(specs, python)
        kinds, notes = stated_machines(where, drivers, archs, machines, platform) if is_fleet else ({}, [])
        kinds = kinds or {machine(platform, driver, arch): []}
        if write:
            check_place(write / "pixi.toml")
        channels = catalogue(where, base, next(iter(kinds)).subdir, report, as_planned, channel or ())
        # Of what is planned, the address that it will have; packages are not there yet.
        places = [base_channel(name, where) for name in channel or ()] or [where.channel]
        addresses = [lasting(channel_url(place)) for place in (*places, base_channel(base, where))]
        show_fleet(find_fleet(wanted, kinds, channels), kinds, notes, addresses, write, report)
        return
    on = machine(platform, driver, arch)
    channels = catalogue(where, base, on.subdir, report, as_planned, channel or ())
    pick = solve_request(specs, python, on, channels, None if why else _REASON_LINES)
    lost = show_pick(pick, on, channels, report)
    reasons = list(explain(pick, channels)) if why else []
    report.result(explain=reasons)
    for line in reasons:
        report.line(f"- {line}")
    if strict and lost:
        raise CudaLost(f"not every client gets CUDA builds of {listing(lost)}", "name what the lines above say")


def prove_command(
    base: Base = "local",
    again: Annotated[bool, typer.Option("--again", help="Use unchanged environments once more.")] = False,
) -> None:
    """Solve the two requests this project exists for, create both environments and use them.

    Each environment compiles kernels; with a GPU it also runs them and checks the numbers. What an earlier run proved
    on this machine, in the same environment, still holds.

    Example: ctk prove
    """
    from ctk.env.environment import PROOFS, proof_environment, proof_note, proof_picks, prove
    from ctk.solve.machine import machine
    from ctk.solve.solve import Scenario

    where, report, on = workspace(), Reporter(), machine()
    channels = catalogue(where, base, on.subdir)
    rows = []
    for request, scenario, pick in proof_picks(channels):
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
    for request in PROOFS:
        scenario = Scenario(request.specs, on.subdir, on.driver, on.arch)
        try:
            environment = proof_environment(request, channels, scenario, where)
            note = proof_note(request, environment, on, where.cache)
            before = None if again or environment.changed else read_json(note)
            before = before if isinstance(before, dict) else None  # or damaged
            state = "created" if environment.changed else "unchanged, proved before" if before else "unchanged"
            report.say(f"{request.name}: environment {state}")
            found = before or prove(request, environment, note)
        except CtkError as error:
            failures.append(error)
            proofs.append({"request": list(request.specs), "error": console.error_as_json(error)})
            continue
        proofs.append({"request": list(request.specs), "environment": str(environment.prefix)})
        proofs[-1].update(found=found, proved_before=bool(before))
        report.table(f"in the environment of: {' '.join(request.specs)}", ["what", "found"], list(found.items()))
        if not found.get("gpus"):
            report.line(f"{request.name}: no GPU here, so kernels were compiled and linked, not run")
    if failures:
        raise failures[0]
    report.line("both requests work")


def solve_request(
    specs: list[str], python: str | None, on: Machine, channels: Catalogue, lines: int | None = _REASON_LINES
) -> Pick:
    """Solves a request for a machine; without a solution the error has so many lines of the solver's text."""
    from ctk.solve.solve import Scenario
    from ctk.solve.why import solve_or_say_why

    return solve_or_say_why(Scenario(_wanted(specs, python), on.subdir, on.driver, on.arch), channels, lines)


def _wanted(specs: list[str], python: str | None) -> tuple[str, ...]:
    """The whole request; what cannot be read is said before anything of a channel."""
    from ctk.solve.machine import python_specs
    from ctk.solve.solve import parse_spec

    wanted = (*specs, *(python_specs(python) if python else ()))
    for spec in wanted:
        parse_spec(spec)
    return wanted


def show_pick(pick: Pick, on: Machine, channels: Catalogue, report: Reporter) -> list[str]:
    """Prints the pick as a table, and in a line what it means for the machine; sizes of the document are in bytes.

    Returns the packages of which the request should name a build.
    """
    from ctk.solve.drivers import impossible
    from ctk.solve.machine import STATE_DRIVER, overstated
    from ctk.solve.solve import channel_name
    from ctk.solve.why import choices, native_instead, newer_nvjitlink, toolkit_in_words

    named = list(choices(pick, channels))
    native = native_instead(pick, channels)
    size = pick.size if all(r.size for r in pick.records) else None
    packages = [
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
        for r in pick.records
    ]
    report.result(
        request=list(pick.scenario.specs),
        machine={"platform": on.subdir, "driver": on.driver, "gpu": on.arch},
        toolkit=pick.toolkit or None,
        fit=pick.fit or None,
        choices=[document for _, document in named],
        native_instead=native or None,
        packages=packages,
        size=size,
    )
    notes = [f"{said}; {STATE_DRIVER}"] if (said := overstated(on, workspace())) else []
    notes += filter(None, [impossible(on.driver, on.arch)])
    report.result(support=notes)
    columns = ["package", "version", "build", "channel", "MB"]
    sizes = (megabytes(r.size) if r.size else "" for r in pick.records)
    rows = [(p["name"], p["version"], p["build"], p["channel"], mb) for p, mb in zip(packages, sizes, strict=True)]
    report.table("pick", columns, rows, right=["MB"])
    length = count(len(rows), "package") + (f", {megabytes(size)} MB" if size is not None else "")
    report.line(f"{toolkit_in_words(pick, channels)} ({on.subdir}, {on.words}; {length})")
    for line in (*(line for line, _ in named), *newer_nvjitlink(pick.records)):
        report.line(line)
    if native:
        report.line(f"toolkit {native} native can be had too: add cuda-version={native}")
    for line in notes:
        report.line(line)
    return [document["package"] for _, document in named]


def catalogue(
    where: Workspace,
    base: str,
    subdir: str,
    report: Reporter | None = None,
    as_planned: bool = False,
    others: Sequence[str] = (),
) -> Catalogue:
    """The channel and its base channel, for one platform; `others` are folders and URLs in place of the channel.

    For another platform than this machine's, packages that were not built are replaced by planned ones: the channel by
    what recipes and release locks say, a base channel of ours by metadata shaped as conda-forge's. One line says so.
    `as_planned` takes the plan, whatever was built.
    """
    from ctk.package.records import records
    from ctk.plan.plan import write_repodata
    from ctk.solve.solve import Catalogue
    from ctk.verify import channels as matrix_channels

    channels = [where.channel, base_channel(base, where)]
    foreign = subdir != this_platform()
    if others:
        channels[:1] = [base_channel(name, where) for name in others]
    elif as_planned or (foreign and not records(where.channel, subdir)):
        # The same as `ctk verify` has, so that a scenario which it prints is solved here as it was there.
        channels[0] = write_repodata(matrix_channels.planned(where), where.cache / "planned" / "channel")
    if base == "local" and (as_planned or (foreign and not records(where.base_channel, subdir))):
        channels[1] = write_repodata(matrix_channels.universe(), where.cache / "planned" / "base")
    if report and not others and where.channel not in channels:
        why = "" if as_planned else f"nothing is built for {subdir} here: "
        stand_in = ", with a stand-in for conda-forge" if base == "local" and where.base_channel not in channels else ""
        report.line(f"{why}solved against what recipes and release locks say{stand_in}")
    return Catalogue(channels, subdir, maker=partial(_maker, where))


def built_catalogue(where: Workspace, base: str, subdir: str) -> Catalogue:
    """The same with packages that are built and not only planned."""
    from ctk.package.records import records
    from ctk.solve.solve import Catalogue

    if subdir != this_platform():
        if not records(where.channel, subdir):
            raise Unsolvable(f"nothing is built for {subdir} here", f"run `ctk build --platform {subdir}` first")
        if base == "local" and not records(where.base_channel, subdir):
            raise Unsolvable(
                f"the base channel that is made here has no Python for {subdir}",
                "name one that has, such as --base conda-forge or a folder",
            )
    return Catalogue([where.channel, base_channel(base, where)], subdir, maker=partial(_maker, where))


def _maker(where: Workspace, package: str) -> Maker | None:
    from ctk.plan.recipes import find_recipes, maker_of
    from ctk.solve.solve import Maker

    recipe, stated = maker_of(package, find_recipes(where.recipes)), settings(where.root)
    if recipe is None:
        return None
    if stated.default.recipes is None or recipe in stated.default.recipes:
        return Maker(recipe, "")
    return Maker(recipe, "--libraries" if recipe in stated.libraries.recipes else "--all-components")


def _solvers() -> list[str]:
    from ctk.verify import clients

    return ["rattler", *clients.NAMES]


def _requests() -> list[str]:
    from ctk.verify.oracle import REQUESTS

    return list(REQUESTS)


class Constraints(StrEnum):
    """What a client does with constraints on virtual packages."""

    HONOURED = "honoured"
    IGNORED = "ignored"


def verify_command(
    solver: Annotated[
        str,
        typer.Option(help="rattler, or a second one: an unknown name lists them.", autocompletion=_solvers),
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
        typer.Option("--request", help="Package such as cuda-core; may be repeated.", autocompletion=_requests),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            help="Such as 3.12 or 3.14t; may be repeated.",
            autocompletion=lambda: list(map(python_name, _tags(checkout(), None))),
        ),
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="Every combination: an hour or more.")] = False,
    sample: Annotated[int | None, typer.Option(help="So many of all combinations, by chance.")] = None,
    seed: Annotated[int, typer.Option(help="Which sample.")] = 0,
    write_table: Annotated[bool, typer.Option("--write-table", help="Only write the table of the docs anew.")] = False,
) -> None:
    """Solve a matrix of drivers, GPUs, platforms, Pythons and requests, and compare each pick with the right one.

    Nothing has to be built: packages are what recipes and release locks say, those of conda-forge a stand-in.

    Example: ctk verify --platform win-64 --request cuda-core
    """
    from ctk.lock.model import release_locks
    from ctk.verify import channels as matrix_channels
    from ctk.verify import clients, table
    from ctk.verify.run import Tally, counts_as_json
    from ctk.verify.scenarios import command, facts, matrix

    where, report = checkout(), Reporter()
    if write_table:
        show_written(table.TABLE.write(where, table.table(table.ask_planned(where))), report)
        return
    not_both("--all", "--sample", whole and sample is not None)
    by = clients.solver(solver, where)
    known = facts(release_locks(where).values())
    every = matrix(known, _tags(where, python), platforms or (), requests or (), any_python=not python)
    content = matrix_channels.built(channel) if channel else matrix_channels.planned(where, every.subdirs)
    ignoring = constraints is Constraints.IGNORED
    if ignoring:
        content = matrix_channels.without_virtual_constraints(content)
    with TemporaryDirectory(prefix="ctk-verify-") as folder:
        solved = matrix_channels.write(content, Path(folder))
        every = every.on(solved.subdirs)
        if not len(every):
            raise BadValue("there is nothing to verify", "name platforms that the channel has packages for")
        few = clients.SAMPLE.get(solver)
        if sample is None and not whole and few:
            sample = min(few, len(every))
        questions = every.sample(sample, seed) if sample is not None else every if whole else every.covering()
        tally = Tally(known, solved, ignoring=ignoring)
        try:
            with report.task("scenarios", len(questions)) as task:
                tally.run(by, questions, task.advance)
        finally:
            asked, of = len(questions), len(every)  # also what a client that crashes left
            report.result(
                solver=by.name,
                scenarios=asked,
                of=of,
                complete=tally.complete,
                seconds=round(tally.seconds, 2),
                **counts_as_json(tally.total),
                requests={name: counts_as_json(counts) for name, counts in tally.counts.items()},
                first_wrong=[{"command": command(one.question), "fault": one.fault} for one in tally.wrong],
            )
            _show_tally(tally, by, report)
            for one in tally.wrong:
                _show_wrong(one, report, planned=channel is None)
            _show_end(tally, asked, of, report)
    if number := tally.total["wrong"]:
        step = "try the first one by hand: the mistake is in the recipes, in the oracle, or in the universe"
        raise VerifyFailed(f"{number} of {len(questions)} picks are wrong", step)


def _tags(where: Workspace, wanted: Sequence[str] | None) -> list[str]:
    """The Pythons of the matrix as tags: those of the channel, and others, which it must refuse."""
    from ctk.plan.plan import python_tags
    from ctk.verify import channels as matrix_channels

    tags = list(dict.fromkeys((*matrix_channels.pythons(), *python_tags(where.build_config))))
    names = list(map(python_name, tags))
    check_names("Python", wanted or (), names)
    return [tag for tag, name in zip(tags, names, strict=True) if not wanted or name in wanted]


def _show_tally(tally: Tally, by: Solver, report: Reporter) -> None:
    from ctk.verify.oracle import Cause, Loss

    losses = {
        Loss.GPU: "a toolkit that fits the driver but not the GPU",
        Loss.REFUSAL: "an installation where the driver or the GPU is too old for all that was asked for",
        Loss.MAJOR: "a CUDA major that the driver does not know, where no toolkit of the platform fits the driver",
    }
    total = tally.total
    if not total:
        return
    kinds = [kind for kind in Loss if total[kind]]
    columns = ["request", "scenarios", "right", "rightly refused", *(f"lost: {kind}" for kind in kinds), "wrong"]
    rows = [
        (name, c.total(), c["right"], sum(c[cause] for cause in Cause), *(c[kind] for kind in kinds), c["wrong"])
        for name, c in [*tally.counts.items(), ("all", total)]
    ]
    report.table(f"what {by.name} picks", columns, rows, right=columns[1:])
    if causes := [f"{total[cause]} {cause}" for cause in Cause if total[cause]]:
        report.line(f"rightly refused: {', '.join(causes)}")
    for kind in kinds:
        report.line(f"lost, {kind}: such a client gets {losses[kind]}")


def _show_end(tally: Tally, asked: int, of: int, report: Reporter) -> None:
    """One line that sums up; of questions without an answer it says nothing good."""
    answered, wrong = tally.total.total(), tally.total["wrong"]
    whole = f"of {count(of, 'scenario')} in {tally.seconds:.1f} s"
    if tally.complete:
        report.line(f"{asked} {whole}: {wrong or 'none'} wrong")
    else:
        report.line(f"stopped: {answered} {whole}: {wrong} wrong so far, {asked - answered} not answered")


def _show_wrong(one: Wrong, report: Reporter, planned: bool) -> None:
    """A wrong pick: how to ask for it again, what is right, and everything that was picked."""
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
