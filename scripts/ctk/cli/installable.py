"""`ctk installable`: on which machines a request or a recipe installs, and what a pin changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.cli.options import Base, OtherChannels, Platforms, VariantConfig, not_both, packages
from ctk.core.checkout import checkout
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import BadValue, MachinesLost, Unsolvable, check_names
from ctk.core.files import check_place, make_folder, replace_file
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform

if TYPE_CHECKING:
    from rich.text import Text

    from ctk.authors.installable import Case, Survey
    from ctk.solve.solve import Catalogue

# Kind -> the style of a cell on a terminal, and what its text means.
_LOOKS = {
    "native": ("black on green", "a number is the toolkit, native"),
    "compat": ("black on cyan", "c: compat"),
    "CPU build": ("black on yellow", "cpu: a CPU build"),
    "no CUDA": ("", "ok: no CUDA in it"),
    "refused": ("dim", "-: refused"),
}


def installable_command(
    wanted: Annotated[
        list[str],
        typer.Argument(
            help="What conda would be given, such as cupy, or the path of one recipe, such as ./recipe.yaml.",
            metavar="SPEC|RECIPE",
            autocompletion=packages,
        ),
    ],
    pins: Annotated[
        list[str] | None,
        typer.Option("--pin", help="Say what this spec besides would change, and fail if machines lose; repeatable."),
    ] = None,
    channel: OtherChannels = None,
    platforms: Platforms = None,
    variant_config: VariantConfig = None,
    html: Annotated[Path | None, typer.Option(help="Write it as one page, too.", metavar="FILE")] = None,
    as_planned: Annotated[
        bool, typer.Option("--planned", help="Solve against what recipes and release locks say, not what was built.")
    ] = False,
    base: Base = "local",
) -> None:
    """Show on which drivers, GPUs and platforms a request or a recipe installs, and what a pin would change.

    A recipe is asked for as it would be built: what run-exports add to its requirements is read from the channels.

    Examples: ctk installable cupy --planned --pin "cuda-version >=13.4"
    ctk installable ./recipe.yaml --platform linux-64 --html installable.html
    """
    from ctk.authors.expected import expected_records, recipe_at, variant_files
    from ctk.authors.installable import alike, survey_records, survey_specs
    from ctk.lock.model import release_locks
    from ctk.solve.channels import catalogue
    from ctk.solve.solve import Catalogue, parse_spec
    from ctk.verify.scenarios import facts, matrix

    where, report, pins = checkout(), Reporter(), pins or []
    not_both("--channel", "--planned", channel and as_planned)
    recipe = next(filter(None, map(recipe_at, wanted)), None)
    if recipe and len(wanted) > 1:
        raise BadValue("a recipe is asked for alone", "leave out the other words, or give each recipe a run of its own")
    for spec in (*([] if recipe else wanted), *pins):
        parse_spec(spec)
    check_names("platform", platforms or (), PLATFORMS)
    if html:
        check_place(html)
    every = matrix(facts(release_locks(where).values()), ())
    here = catalogue(where, base, this_platform(), report if as_planned else None, as_planned, channel or ())
    notes: dict[str, None] = {}
    with TemporaryDirectory(prefix="ctk-installable-") as folder:
        surveys = []
        for subdir in platforms or _offered(here):
            channels = Catalogue(here.channels, subdir, here.gateway, here.maker)
            if not as_planned:  # where a platform was not built, the plan stands in for it
                channels = catalogue(where, base, subdir, report, False, channel or ())
            if recipe:
                files = variant_config or variant_files(recipe, where.build_config)
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
            raise Unsolvable(f"nothing of {recipe.file} can be built from these channels", "read what is said above")
        report.result(surveys=[survey.as_json() for survey in surveys])
        groups = alike(surveys)
        _show(groups, pins, report)
        if html:
            from ctk.site.pages import stand_alone

            title = f"Where {listing(list(dict.fromkeys(s.asked for s in surveys)))} installs"
            make_folder(html.absolute().parent)
            replace_file(html, stand_alone("installable.html", title=title, pins=pins, groups=groups, notes=notes))
            report.result(html=str(html))
            report.line(f"written: {html}")
        _judge(surveys, pins)


def _offered(channels: Catalogue) -> list[str]:
    """The platforms for which a channel, leaving its base aside, has packages."""
    own = channels.channels[:-1]
    offered = [subdir for subdir in PLATFORMS if channels.names([subdir], own)]
    if not offered and not channels.names([NOARCH], own):
        raise Unsolvable(
            f"there are no packages in {listing([*map(str, own)])}", "build them, or name another --channel"
        )
    return offered or [this_platform()]


def _judge(surveys: Sequence[Survey], pins: Sequence[str]) -> None:
    """Ends the run with an error where something installs nowhere, or machines lose."""
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


# --- what is shown


def _show(groups: Sequence[Sequence[Survey]], pins: Sequence[str], report: Reporter) -> None:
    for group in groups:
        first = group[0]
        place = listing([survey.subdir for survey in group])
        for case in first.cases:
            pinned = f", with {listing(pins)}" if case is first.pinned else ""
            report.line(f"{first.asked} on {place}{pinned}", "bold")
            for line in _map(first, case, report.console.width) if case.installs else ():
                report.line(line)
        kinds = {pick.kind for case in first.cases for pick in case.picks.values()}
        legend = [text for kind, (_, text) in _LOOKS.items() if kind in kinds]
        legend += ["*: another kind than without the pin"] if pins else []
        report.line(f"rows: GPUs (unseen: none is detected); columns: drivers; {'; '.join(legend)}")
        for sentence in first.sentences:
            report.line(f"- {sentence}")
        rows = [(s.subdir, *row) for s in group for row in s.builds(s.pinned or s.today)]
        if rows:
            title = f"builds of {first.asked}{f', with {listing(pins)}' if pins else ''}"
            columns = ["platform", "build", "kind", "toolkits", "machines"]
            skip = 0 if group[1:] else 1  # the platform, where there is one
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
