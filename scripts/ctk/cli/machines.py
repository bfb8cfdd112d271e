"""`ctk solve` for many machines: every machine, with --everywhere, or those of a fleet, with --drivers and so on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ctk.core.checkout import Workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue, MachinesLost, Unsolvable, check_names
from ctk.core.files import check_place, make_folder, replace_file
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform

if TYPE_CHECKING:
    from rich.text import Text

    from ctk.authors.installable import Case, Survey
    from ctk.solve.fleet import Environment, Fleet, Kinds
    from ctk.solve.machine import Machine
    from ctk.solve.solve import Catalogue, Pick

# Kind -> the style of a cell on a terminal, and the meaning of its text.
_LOOKS = {
    "native": ("black on green", "a number is the toolkit, native"),
    "compat": ("black on cyan", "c: compat"),
    "CPU build": ("black on yellow", "cpu: a CPU build"),
    "no CUDA": ("", "ok: no CUDA in it"),
    "refused": ("dim", "-: refused"),
}
_NAMED = 3  # machines of one kind whose names a row has


# --- a fleet


def stated_machines(
    where: Workspace, drivers: str | None, archs: str | None, file: Path | None, platform: str | None
) -> tuple[Kinds, list[str]]:
    """The machines that options state, and notes about pairs that cannot exist, which are left out."""
    from ctk.solve.fleet import pairs, read_machines
    from ctk.solve.machine import impossible

    if archs is not None and drivers is None:
        step = f"add --drivers, as in --drivers 13.0 --archs {archs}"
        raise BadValue("--archs says nothing without --drivers", step)
    kinds = read_machines(file, platform) if file else pairs(drivers or "", archs, platform)
    excluded = {on: why for on in kinds if (why := impossible(on.driver, on.arch))}
    if len(excluded) == len(kinds):
        raise BadValue(next(iter(excluded.values())), "list the machines that you have in a file: --machines FILE")
    left = {on: names for on, names in kinds.items() if on not in excluded}
    listed = "; ".join(on.words for on in excluded)
    return left, [f"left out, since no such driver runs the GPU: {listed}"] if excluded else []


def show_fleet(
    fleet: Fleet, kinds: Kinds, notes: Sequence[str], addresses: Sequence[str], write: Path | None, report: Reporter
) -> None:
    """Prints the environments of a fleet, and writes their files into the folder of `write`.

    Raises:
        Unsolvable: Some machines get nothing; the environments of the others were shown, and written.
    """
    from ctk.solve.fleet import files
    from ctk.solve.solve import Scenario
    from ctk.solve.why import find_reason

    refused = [on for on in kinds if fleet.alone[on] is None]
    if served := len(kinds) - len(refused):
        number = len(fleet.environments)
        machines = f"{served} kinds of machines" if served > 1 else "1 kind of machine"
        report.line(f"{count(number, 'environment')} serve{'s' if number == 1 else ''} {machines}", "bold")
        _show_machines(fleet, kinds, report)
    for environment in fleet.environments:
        _show_environment(environment, addresses, report)
    notes = [*notes, *_notes(fleet)]
    for line in notes:
        report.line(line)
    written = []
    for path, text in files(fleet, addresses) if write and served else ():
        place = (write or Path()) / path
        make_folder(place.absolute().parent)
        replace_file(place, text.encode())
        written.append(str(place))
        report.line(f"written: {place}")
    report.result(
        request=list(fleet.request),
        machines=[_machine_as_json(fleet, on, names) for on, names in kinds.items()],
        environments=[_environment_as_json(environment, addresses) for environment in fleet.environments],
        notes=notes,
        written=written,
    )
    if refused:
        on = refused[0]
        sentence, step = find_reason(Scenario(fleet.request, on.subdir, on.driver, on.arch), fleet.catalogue)
        whose = (
            f"{len(refused)} of {len(kinds)} kinds of machines get nothing; {on.words}: " if kinds.keys() - {on} else ""
        )
        raise Unsolvable(f"{whose}{sentence}", step)


def _notes(fleet: Fleet) -> list[str]:
    """The machines that get a compat toolkit, and the packages that other clients may pick instead."""
    from ctk.solve.solve import Scenario
    from ctk.solve.why import choices, newer_nvjitlink, toolkit_in_words

    lines = []
    for environment in fleet.environments:
        limits: dict[str, list[str]] = {}
        for on in environment.machines if environment.pick.fit == "compat" else ():
            there = replace(environment.pick, scenario=Scenario((), on.subdir, on.driver, on.arch))
            limits.setdefault(toolkit_in_words(there, fleet.catalogue), []).append(on.words)
        lines += [f"{'; '.join(machines)}: {words}" for words, machines in limits.items()]
        said = (
            *(line for line, _ in choices(environment.pick, fleet.catalogue)),
            *newer_nvjitlink(environment.pick.records),
        )
        lines += [f"{environment.name}: {line}" for line in said]
    if any("CONDA_OVERRIDE_CUDA_ARCH" in environment.variables for environment in fleet.environments):
        lines.append(
            "CONDA_OVERRIDE_CUDA_ARCH matters where you type this on a machine with another GPU, to a client that "
            "detects it, such as conda with its plugin; mamba does not read it"
        )
    return lines


def _show_machines(fleet: Fleet, kinds: Kinds, report: Reporter) -> None:
    rows = []
    for on, names in kinds.items():
        environment, own = fleet.environment(on), fleet.alone[on]
        row = [environment.name, environment.pick.toolkit, environment.pick.fit] if environment else ["none", "", ""]
        alone = f"{own.toolkit} {own.fit}".strip() if own else ""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        rows.append((", ".join(names[:_NAMED]) + more, on.driver or "none", on.arch or "", *row, alone))
    columns = ["machine", "driver", "GPU", "environment", "toolkit", "fit", "alone it would get"]
    unnamed = 0 if any(kinds.values()) else 1
    report.table("what each machine gets", columns[unnamed:], [row[unnamed:] for row in rows])


def _show_environment(environment: Environment, addresses: Sequence[str], report: Reporter) -> None:
    """Prints an environment, and the command that creates it on any machine."""
    pick = environment.pick
    size = f", {megabytes(pick.size)} MB" if pick.size else ""
    packages = count(len(pick.records), "package")
    report.line(f"{environment.name} ({environment.toolkit}; {packages}{size}), made on any machine with:")
    channels = [word for address in addresses for word in ("-c", address)]
    words = ["conda", "create", "-n", environment.name, *channels, "--strict-channel-priority", *environment.specs]
    report.line(f"  {environment.typed(shlex.join(words))}")
    if not environment.every_client:
        report.line("  only a client that knows the GPU picks this: pixi, and conda with its plugin; mamba does not")


def _toolkit(pick: Pick) -> dict[str, Any]:
    return {"toolkit": pick.toolkit or None, "fit": pick.fit or None}


def _machine_as_json(fleet: Fleet, on: Machine, names: Sequence[str]) -> dict[str, Any]:
    environment, own = fleet.environment(on), fleet.alone[on]
    return {
        "names": names,
        "platform": on.subdir,
        "driver": on.driver,
        "gpu": on.arch,
        "environment": environment and environment.name,
        "alone": own and _toolkit(own),
    }


def _environment_as_json(environment: Environment, addresses: Sequence[str]) -> dict[str, Any]:
    return {
        "name": environment.name,
        **_toolkit(environment.pick),
        "variables": environment.variables,
        "specs": environment.specs,
        "channels": addresses,
        "every_client": environment.every_client,
        "files": sorted(record.file_name for record in environment.pick.records),
    }


# --- every machine


@dataclass(frozen=True)
class Everywhere:
    """The request of `ctk solve --everywhere`.

    Attributes:
        words: Specs, or the path of a recipe.
        pins: Specs whose effect is shown as well.
        platforms: If empty, all for which the channel has packages.
        variant_files: Of a recipe; by default those that `ctk build-recipe` takes.
        html: A page that is written as well.
        as_planned: Whether to solve against the plan, whatever was built.
        channels: In place of the built channel.
        base: The base channel.
    """

    words: Sequence[str]
    pins: Sequence[str]
    platforms: Sequence[str]
    variant_files: Sequence[Path]
    html: Path | None
    as_planned: bool
    channels: Sequence[str]
    base: str


def show_everywhere(asked: Everywhere, where: Workspace, report: Reporter) -> None:
    """Prints on which drivers, GPUs and platforms a request installs, and the changes by its pins.

    Raises:
        Unsolvable: A package installs on no machine.
        MachinesLost: With the pins, machines lose a package; all was shown before.
    """
    from ctk.authors.expected import expected_records, recipe_at, variant_files
    from ctk.authors.installable import alike, survey_records, survey_specs
    from ctk.lock.model import release_locks
    from ctk.solve.channels import catalogue
    from ctk.solve.solve import Catalogue, parse_spec
    from ctk.verify.scenarios import facts, matrix

    wanted, pins = list(asked.words), list(asked.pins)
    recipe = next(filter(None, map(recipe_at, wanted)), None)
    if recipe and len(wanted) > 1:
        raise BadValue("a recipe is asked for alone", "leave out the other words, or give each recipe a run of its own")
    for spec in (*([] if recipe else wanted), *pins):
        parse_spec(spec)
    check_names("platform", asked.platforms, PLATFORMS)
    if asked.html:
        check_place(asked.html)
    every = matrix(facts(release_locks(where).values()), ())
    planned, others = asked.as_planned, asked.channels
    here = catalogue(where, asked.base, this_platform(), report if planned else None, planned, others)
    notes: dict[str, None] = {}
    with TemporaryDirectory(prefix="ctk-everywhere-") as folder:
        surveys = []
        for subdir in asked.platforms or _offered(here):
            channels = Catalogue(here.channels, subdir, here.gateway, here.maker)
            if not planned:  # the plan stands in for a platform that was not built
                channels = catalogue(where, asked.base, subdir, report, others=others)
            if recipe:
                files = asked.variant_files or variant_files(recipe, where.build_config)
                found = expected_records(recipe, files, channels, here)
                added, more = survey_records(found.records, pins, channels, every, Path(folder))
                notes |= dict.fromkeys(f"{subdir}: {note}" for note in (*found.notes, *more))
                surveys += added
            else:
                surveys.append(survey_specs(wanted, pins, channels, every))
        report.result(
            request=None if recipe else wanted, recipe=str(recipe.file) if recipe else None, pins=pins, notes=[*notes]
        )
        for note in notes:
            report.line(note)
        if recipe and not surveys:
            raise Unsolvable(f"nothing of {recipe.file} can be built from these channels", "the lines above say why")
        report.result(surveys=[survey.as_json() for survey in surveys])
        groups = alike(surveys)
        _show(groups, pins, report)
        if asked.html:
            from ctk.site.pages import stand_alone

            title = f"Where {listing(list(dict.fromkeys(s.asked for s in surveys)))} installs"
            make_folder(asked.html.absolute().parent)
            page = stand_alone("installable.html", title=title, pins=pins, groups=groups, notes=notes)
            replace_file(asked.html, page)
            report.result(html=str(asked.html))
            report.line(f"written: {asked.html}")
        _judge(surveys, pins)


def _offered(channels: Catalogue) -> list[str]:
    """The platforms for which the channels above the base channel have packages."""
    own = channels.channels[:-1]
    offered = [subdir for subdir in PLATFORMS if channels.names([subdir], own)]
    if not offered and not channels.names([NOARCH], own):
        raise Unsolvable(
            f"there are no packages in {listing([*map(str, own)])}", "build them, or name another --channel"
        )
    return offered or [this_platform()]


def _judge(surveys: Sequence[Survey], pins: Sequence[str]) -> None:
    """Ends the run with an error if a package installs nowhere, or machines lose it."""
    for asked in dict.fromkeys(survey.asked for survey in surveys):
        mine = [survey for survey in surveys if survey.asked == asked]
        if not any(survey.today.installs for survey in mine):
            newest = mine[0].every.drivers[-1], None
            sentence, step = mine[0].today.reason(newest)
            raise Unsolvable(sentence if asked in sentence else f"{asked} installs on no machine: {sentence}", step)
    lost = [(len(machines), survey) for survey in surveys if (machines := survey.lost)]
    if lost:
        losses = listing([f"{count(number, 'machine')} of {s.subdir} would lose {s.asked}" for number, s in lost])
        raise MachinesLost(
            f"with {listing(pins)}, {losses}", "loosen the pin, or keep a build without it beside this one"
        )


def _show(groups: Sequence[Sequence[Survey]], pins: Sequence[str], report: Reporter) -> None:
    """Prints, for each package, on how many machines it installs, a map of drivers and GPUs, and its builds."""
    for group in groups:
        first = group[0]
        place = listing([survey.subdir for survey in group])
        report.line(f"{first.asked} on {place}", "bold")
        for sentence in first.sentences:
            report.line(f"- {sentence}")
        for case in first.cases:
            if case is first.pinned:
                report.line(f"{first.asked} on {place}, with {listing(pins)}", "bold")
            for line in _map(first, case, report.console.width) if case.installs else ():
                report.line(line)
        kinds = {pick.kind for case in first.cases for pick in case.picks.values()}
        legend = [text for kind, (_, text) in _LOOKS.items() if kind in kinds]
        legend += ["*: another kind than without the pin"] if pins else []
        report.line(f"rows: GPUs (unseen: none is detected); columns: drivers; {'; '.join(legend)}")
        rows = [(s.subdir, *row) for s in group for row in s.builds(s.pinned or s.today)]
        if rows:
            title = f"builds of {first.asked}{f', with {listing(pins)}' if pins else ''}"
            columns = ["platform", "build", "kind", "toolkits", "machines"]
            skip = 0 if group[1:] else 1  # the platform, if there are several
            report.table(title, columns[skip:], [row[skip:] for row in rows], right=["machines"])


def _map(survey: Survey, case: Case, width: int) -> Iterator[Text]:
    """A heat map, in as many parts below each other as the width makes necessary."""
    from rich.text import Text

    heads = [label.split() if driver else ["none"] for label, driver in survey.columns]
    left = max(len(label) for label, _ in survey.rows)
    wide = 7 if survey.pinned else 6
    parts = -(-len(heads) // max((width - left) // wide, 1))
    size = -(-len(heads) // parts)
    for start in range(0, len(heads), size):
        here = slice(start, start + size)
        height = max(map(len, heads[here]))
        for words in zip(*([""] * (height - len(head)) + head for head in heads[here]), strict=True):
            yield Text(" " * left + "".join(f" {word:>{wide - 1}}" for word in words), "bold")
        for label, gpu in survey.rows:
            row = Text(f"{label:{left}}")
            for cell in [*survey.cells(case, gpu)][here]:
                row.append(" ")
                style = "black on red" if cell.lost else _LOOKS[cell.kind][0] if cell.kind else ""
                row.append(f"{cell.text:>{wide - 1}}", style)
            yield row
        yield Text()
