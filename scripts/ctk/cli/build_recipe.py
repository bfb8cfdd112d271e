"""`ctk build-recipe`: somebody's recipe, built and tested against the channel, and where it runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.cli.gpu_code import show_subject
from ctk.cli.options import Base, OtherChannels, VariantConfig, minors, pythons
from ctk.core.checkout import checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import BadValue, BuildFailed, Unsolvable
from ctk.core.files import check_path, check_place, held
from ctk.core.platforms import this_platform

if TYPE_CHECKING:
    from ctk.authors.build_recipe import Made, Tested
    from ctk.authors.installable import Survey
    from ctk.package.gpu_subject import Subject


def build_recipe_command(
    recipe: Annotated[Path, typer.Argument(help="A recipe.yaml, or the folder that has it.", metavar="DIR")],
    cuda: Annotated[
        list[str] | None,
        typer.Option(
            "--cuda",
            help="CUDA major such as 13, or toolkit such as 12.6; may be repeated. All of the recipe's by default.",
            autocompletion=lambda: ["12", "13", *minors()],
        ),
    ] = None,
    driver: Annotated[
        list[str] | None,
        typer.Option(
            "--driver",
            help="Test as on a machine with this driver, such as 12.6 or none; may be repeated. By default the oldest "
            "and the newest that each build is for.",
            autocompletion=lambda: ["none", *minors()],
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            help="Such as 3.12 or 3.14t; may be repeated. By default all of the recipe's that the channels have.",
            autocompletion=pythons,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder, made a channel, for the packages; output/recipes/NAME by default."
        ),
    ] = None,
    variant_config: VariantConfig = None,
    channel: OtherChannels = None,
    base: Base = "local",
) -> None:
    """Build somebody's recipe (recipe.yaml) against the channel, test it, and say where it runs.

    Each build is tested as on machines with the oldest and the newest driver that it is for. Then follows, for each
    package, what ctk gpu-code and ctk installable say.

    Examples: ctk build-recipe ./examples/cpp-extension
    ctk build-recipe ./my-recipe --cuda 12 --cuda 13.0 --driver 12.8 --output ./packages
    """
    from ctk.authors.build_recipe import Workshop, drivers, order
    from ctk.authors.expected import recipe_in, variant_files
    from ctk.authors.installable import survey_records
    from ctk.build.runner import check_machine
    from ctk.channel.repodata import add
    from ctk.lock.facts import known as known_gpu_code
    from ctk.lock.model import release_locks
    from ctk.package.gpu_subject import subjects
    from ctk.solve.channels import catalogue
    from ctk.solve.machine import driver_version, python_specs
    from ctk.verify.scenarios import facts, matrix

    where, report = checkout(), Reporter()
    for text in cuda or ():
        if not re.fullmatch(r"\d\d(\.\d\d?)?", text):
            raise BadValue(f"{text!r} is no CUDA major and no toolkit", "write it as --cuda 12 or --cuda 12.6")
    for text in python or ():
        python_specs(text)
    asked = [None if text.lower() == "none" else driver_version(text) for text in driver or ()]
    found = recipe_in(recipe)
    own = output is None
    output = (output or where.output / "recipes" / found.name).absolute()
    check_place(output)
    check_path(found.folder, "move the recipe")  # scripts name it
    check_machine(where)
    log = where.logs / f"recipe-{found.name}.log"
    channels = catalogue(where, base, this_platform(), others=channel or ())
    if "cuda-version" not in channels.names([this_platform(), "noarch"]):
        raise Unsolvable("there are no CUDA packages in the channel", "run `ctk build`, or name another --channel")
    files = variant_config or variant_files(found, where.build_config)
    with held(where.temporary) as folder:
        work = folder / "channel"
        work.mkdir()
        ordered = order(found, files, channels, folder, cuda or (), python or ())
        report.result(recipe=str(found.file), log=str(log), output=str(output), notes=ordered.notes)
        for note in ordered.notes:
            report.say(note)
        report.say(f"{found.file}: {count(len(ordered.variants), 'build')}; the log is {log}")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        shop = Workshop(ordered, channels, work, where.rattler, log)
        made = list(shop.build(lambda variant, outcome: report.say(f"{variant.id} {outcome}")))
        if own:  # of this run alone
            shutil.rmtree(output, ignore_errors=True)
        add(work, output)
        tests = []
        for tested in shop.test([(one, asked or drivers(one.variant.toolkit, channels)) for one in made]):
            tests.append(tested)
            report.say(f"tests of {tested.package.file.stem}, {_machine(tested.driver)}: {tested.state}")
        _show_tests(made, tests, report)
        known = known_gpu_code(release_locks(where).values())
        codes = [subject for one in made for subject in subjects(one.file, known)]
        report.result(
            packages=[
                {
                    "file": str(output / one.index.subdir / one.file.name),
                    "toolkit": one.variant.toolkit or None,
                    "variant": dict(one.variant.values),
                    "requires": one.index.depends,
                    "seconds": round(one.seconds, 2),
                    "tests": [tested.as_json() for tested in tests if tested.package is one],
                    "notes": one.notes,
                    "gpu_code": code.as_json(),
                }
                for one, code in zip(made, codes, strict=True)
            ]
        )
        every = matrix(facts(release_locks(where).values()), ())
        surveys, _ = survey_records([one.record for one in made], [], channels, every, folder)
        report.result(surveys=[survey.as_json() for survey in surveys])
        _show_verdict(made, codes, surveys, report)
    report.line(f"packages: {output}")
    report.line(f"log: {log}")
    _judge(tests, asked, log)


def _machine(driver: str | None) -> str:
    return f"driver {driver}" if driver else "no driver"


def _show_tests(made: list[Made], tests: list[Tested], report: Reporter) -> None:
    rows = []
    for one in made:
        first: tuple[str, ...] = (one.file.stem, one.variant.toolkit)
        for tested in (tested for tested in tests if tested.package is one):
            state = {"none": "it has none", "refused": "not for it"}.get(tested.state, tested.state)
            rows.append((*first, tested.driver or "none", f"{tested.toolkit} {tested.fit}".strip(), state))
            first = ("", "")
    report.table("built and tested", ["package", "built with", "driver", "gets toolkit", "its tests"], rows)


def _show_verdict(made: list[Made], codes: list[Subject], surveys: list[Survey], report: Reporter) -> None:
    """On which GPUs the packages run, and on which machines they install."""
    for one, code in zip(made, codes, strict=True):
        show_subject(code, report)
        report.line(f"  it requires {', '.join(sorted(one.index.depends)) or 'nothing'}")
        for note in one.notes:
            report.line(f"  WRONG: {note}")
    for survey in surveys:
        report.line(f"{survey.asked} on {survey.subdir}", "bold")
        for sentence in survey.sentences:
            report.line(f"- {sentence}")
        rows = survey.builds(survey.today)
        report.table("its builds", ["build", "kind", "toolkits", "machines"], rows, right=["machines"])


def _judge(tests: list[Tested], asked: list[str | None], log: Path) -> None:
    """Ends the run with an error where tests failed, or no build is for a driver that was asked for."""
    if failed := [tested for tested in tests if tested.state == "failed"]:
        lines = [f"the tests of {one.package.file.stem} failed with {_machine(one.driver)}:" for one in failed]
        text = "\n".join(f"    {line}" for line in failed[0].detail.splitlines())
        raise BuildFailed("\n".join([lines[0], text, *lines[1:]]), f"the packages are there; the whole log is {log}")
    for driver in asked:
        mine = [tested for tested in tests if tested.driver == driver]
        if all(tested.state == "refused" for tested in mine):
            raise Unsolvable(
                f"no build is for a machine with {_machine(driver)}: {mine[-1].detail}",
                "add a build for its CUDA major, or ask for another --driver",
            )
