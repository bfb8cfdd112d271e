"""`ctk build-recipe` and `ctk lint`: for authors of recipes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli.check import show_audit
from ctk.cli.gpu_code import show_subject
from ctk.cli.options import (
    Base,
    Jobs,
    OtherChannels,
    VariantConfig,
    base_beside,
    not_both,
)
from ctk.core.checkout import Workspace, checkout
from ctk.core.console import Reporter, count
from ctk.core.disk import refuse_breaking_path, refuse_unwritable
from ctk.core.errors import (
    AuditFailed,
    BadValue,
    BuildFailed,
    LintFailed,
    UnknownName,
    Unsolvable,
    printable,
)
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform

if TYPE_CHECKING:
    from ctk.audit import AuditReport
    from ctk.authors.build_recipe import Made, Tested
    from ctk.authors.installable import Survey
    from ctk.package.gpu_subject import Subject
    from ctk.rules import Check
    from ctk.solve.solve import Catalogue
    from ctk.solve.why import Reason
    from ctk.verify.scenarios import Matrix


# --- somebody's recipe


def build_recipe_command(
    recipe: Annotated[
        Path, typer.Argument(help="A recipe.yaml, or the folder that has it.", metavar="DIR")
    ],
    cuda: Annotated[
        list[str] | None,
        typer.Option(
            "--cuda",
            help=(
                "CUDA major such as 13, or toolkit such as 12.6; may be repeated. All of the"
                " recipe's by default."
            ),
        ),
    ] = None,
    driver: Annotated[
        list[str] | None,
        typer.Option(
            "--driver",
            help=(
                "Test as on a machine with this driver, such as 12.6 or none; may be repeated. By"
                " default the oldest "
                "and the newest that each build is for."
            ),
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            help=(
                "Such as 3.12 or 3.14t; may be repeated. By default all of the recipe's that the"
                " channels have."
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder, made a channel, for the packages; output/recipes/NAME by default.",
        ),
    ] = None,
    variant_config: VariantConfig = None,
    channel: OtherChannels = None,
    base: Base = "local",
) -> None:
    """Build a recipe (recipe.yaml) against the channel, test it, and say where its packages run.

    Each build is tested as on machines with the oldest and the newest driver that it is for. For
    each package, the output of ctk gpu-code and ctk solve --everywhere follows.

    Examples: ctk build-recipe ./examples/cpp-extension
    ctk build-recipe ./my-recipe --cuda 12 --cuda 13.0 --driver 12.8 --output ./packages

    JSON:
    - `recipe` (its file), `output`, `log`, `notes` (what is left out)
    - `packages`: one for each build: `file`, `toolkit` (that it was built with), `variant` (key ->
      value), `requires`, `seconds`, `notes` (mistakes that its log shows)
      - `tests`: for each `driver` (`null` is none) `state` (`passed`, `failed`, `none` of them,
        `refused`: it does not install), `toolkit` and `fit` of the environment, `detail`, `lacks`
        (libraries that it needs and the environment lacks)
      - `gpu_code`: as `subjects` of `ctk gpu-code`
    - `surveys`: as those of `ctk solve --everywhere`, one for each package
    """
    from ctk.authors.build_recipe import Workshop, order, recipe_in, variant_files
    from ctk.authors.installable import take_survey
    from ctk.build.runner import refuse_machine
    from ctk.channel.repodata import add
    from ctk.lock.facts import known as known_gpu_code
    from ctk.lock.model import release_locks
    from ctk.package.gpu_subject import subjects
    from ctk.plan.messages import shown
    from ctk.solve.channels import catalogue
    from ctk.solve.machine import driver_version, python_specs
    from ctk.verify.scenarios import facts, matrix

    where, report = checkout(), Reporter()
    for text in cuda or ():
        if not re.fullmatch(r"(?a)\d\d(\.\d\d?)?", text):
            raise BadValue(
                f"{text!r} is no CUDA major and no toolkit", "write it as --cuda 12 or --cuda 12.6"
            )
    for text in python or ():
        python_specs(text)
    asked = [None if text.lower() == "none" else driver_version(text) for text in driver or ()]
    found = recipe_in(recipe)
    own = output is None
    output = (output or where.output / "recipes" / found.name).absolute()
    if output.resolve() in (where.channel.resolve(), where.base_channel.resolve()):
        raise BadValue(
            f"{shown(output)} is a channel that `ctk build` writes", "name another folder"
        )
    if output.is_file():
        raise BadValue(f"{shown(output)} is a file", "name a folder, such as --output ./packages")
    refuse_unwritable(output)
    refuse_breaking_path(found.folder, "move the recipe")  # scripts name it
    refuse_machine(where)
    log = where.logs / f"recipe-{found.name}.log"
    channels = catalogue(
        where, base_beside(base, channel, where), this_platform(), others=channel or ()
    )
    subdirs = [this_platform(), NOARCH]
    if "cuda-version" not in channels.names(subdirs):
        step = "name another --channel" if channel else "run `ctk build`, or name another --channel"
        if where.channel.exists() and "cuda-version" in channels.names(subdirs, [where.channel]):
            step = f"add --channel {shown(where.channel)}"
        raise Unsolvable("there are no CUDA packages in the channel", step)
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
        shop = Workshop(ordered, channels, work, where, log, report.say)
        made = list(shop.build(lambda variant, outcome: report.say(f"{variant.id} {outcome}")))
        fresh = {one.file.name for one in made}
        old = [file.name for file in sorted(output.glob("*/*.conda")) if file.name not in fresh]
        if goes := own and not (cuda or python):  # a part of the builds leaves the others there
            shutil.rmtree(output, ignore_errors=True)
        if old:
            report.line(
                f"{'removed' if goes else 'packages of earlier runs there, which stay'}:"
                f" {', '.join(old)}"
            )
        add(work, output)
        tests = []
        for tested in shop.test(made, asked):
            tests.append(tested)
            report.say(
                f"tests of {tested.package.file.stem}, {_machine(tested.driver)}: {tested.state}"
            )
        known = known_gpu_code(release_locks(where).values())
        codes = [subject for one in made for subject in subjects(one.file, known)]
        wrong = [
            (one.file.stem, faults)
            for one, code in zip(made, codes, strict=True)
            if (
                faults := [*_wrong(one, tests), *(() if one.notes else code.wrong)]
            )  # another compiler has other GPUs
        ]
        _show_tests(made, tests, len(wrong), report)
        report.result(
            packages=[
                {
                    "file": str(output / one.index.subdir / one.file.name),
                    "toolkit": one.toolkit or None,
                    "variant": dict(one.variant.values),
                    "requires": one.index.depends,
                    "seconds": round(one.seconds, 2),
                    "tests": [tested.as_json() for tested in tests if tested.package is one],
                    "notes": [*map(": ".join, one.notes)],
                    "gpu_code": code.as_json(),
                }
                for one, code in zip(made, codes, strict=True)
            ]
        )
        every = matrix(facts(release_locks(where).values()), ())
        names = dict.fromkeys(one.index.name for one in made)
        surveys = [take_survey([name], [], shop.catalogue, every) for name in names]
        report.result(surveys=[survey.as_json() for survey in surveys])
        _show_verdict(made, tests, codes, surveys, report)
        report.line(f"packages: {output}")
        report.line(f"log: {log}")
        _judge(tests, wrong, asked, log)
        _check_installable(made, tests, shop.catalogue, every, recipe)
    _show_install([*names], output, channels, base_beside(base, channel, where), report)


def _machine(driver: str | None) -> str:
    return f"driver {driver}" if driver else "no driver"


def _show_tests(made: list[Made], tests: list[Tested], wrong: int, report: Reporter) -> None:
    rows = []
    for one in made:
        first: tuple[str, ...] = (one.file.stem, one.toolkit)
        for tested in (tested for tested in tests if tested.package is one):
            state = {"none": "it has none", "refused": "not for it"}.get(tested.state, tested.state)
            rows.append(
                (*first, tested.driver or "none", f"{tested.toolkit} {tested.fit}".strip(), state)
            )
            first = ("", "")
    failed = any(tested.state == "failed" for tested in tests)
    faulty = f"built, and {count(wrong, 'package')} {'is' if wrong == 1 else 'are'} wrong"
    passed = {tested.package.spec for tested in tests if tested.state == "passed"}
    done = (
        "built, and not tested"
        if not passed
        else "built and tested" + " in part" * (len(passed) < len(made))
    )
    title = "built, and tests failed" if failed else faulty if wrong else done
    report.table(title, ["package", "built with", "driver", "gets toolkit", "its tests"], rows)


def _show_verdict(
    made: list[Made],
    tests: list[Tested],
    codes: list[Subject],
    surveys: list[Survey],
    report: Reporter,
) -> None:
    """Prints on which GPUs the packages run, and on which machines they install."""
    for one, code in zip(made, codes, strict=True):
        show_subject(code, report)
        report.line(f"  it requires {', '.join(sorted(one.index.depends)) or 'nothing'}")
        for sentence, _ in _wrong(one, tests):
            report.line(f"  WRONG: {sentence}")
    for survey in surveys:
        report.line(f"{survey.asked} on {survey.subdir}", "bold")
        for sentence in survey.sentences:
            report.line(f"- {sentence}")
        rows = survey.builds(survey.today)
        report.table("its builds", ["build", "kind", "toolkits", "pairs"], rows, right=["pairs"])
        mine = [one for one in made if one.index.name == survey.asked]
        for build in _never_picked(mine, {row[0] for row in rows}):
            report.line(
                f"no machine gets {build}: another build for that CUDA major is preferred"
                " everywhere; keep one"
            )


def _never_picked(made: list[Made], picked: set[str]) -> list[str]:
    """The builds of a package that no machine gets, beside one that is picked for the same CUDA
    major and Python.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for one in made:
        key = one.toolkit.partition(".")[0], one.variant.values.get("python", "")
        groups.setdefault(key, []).append(f"{one.index.name} {one.index.version} {one.index.build}")
    return [
        build
        for group in groups.values()
        if picked & {*group}
        for build in group
        if build not in picked
    ]


def _wrong(package: Made, tests: list[Tested]) -> list[Reason]:
    """What is wrong with a package apart from its GPUs, each with what to write."""
    lacks = {
        reason: tested.driver
        for tested in tests
        if tested.package is package
        for reason in tested.lacks
    }
    found = [
        (f"{text}, which its environment lacks ({_machine(on)})", step)
        for (text, step), on in lacks.items()
    ]
    return [*package.notes, *found]


def _show_install(
    names: list[str], output: Path, channels: Catalogue, base: str, report: Reporter
) -> None:
    """Prints the commands that install the packages, with the channels in the order that strict
    priority needs.
    """
    from ctk.plan.messages import shown
    from ctk.solve.solve import channel_url, lasting

    places = [output, *channels.channels[:-1]]
    folders = [
        shown(Path(lasting(str(place)))) if isinstance(place, Path) else place for place in places
    ]
    named = [word for place in folders for word in ("--channel", place)]
    named += ["--base", base] if base != "local" else []
    report.line(
        "to install:"
        f" {shlex.join(['ctk', 'env', 'create', *names, *named, '--prefix', './my-env'])}"
    )
    urls = [word for place in places for word in ("-c", lasting(channel_url(place)))]
    conda = [
        "conda",
        "create",
        "-n",
        "my-env",
        *urls,
        "-c",
        "conda-forge",
        "--strict-channel-priority",
        *names,
    ]
    report.line(f"or, also with mamba: {shlex.join(conda)}")


def _judge(
    tests: list[Tested], wrong: list[tuple[str, list[Reason]]], asked: list[str | None], log: Path
) -> None:
    """Ends the run with an error if tests failed, a package is wrong, or no build is for a driver
    of --driver.
    """
    steps = dict.fromkeys(step for _, found in wrong for _, step in found)
    if failed := [tested for tested in tests if tested.state == "failed"]:
        lines = [
            f"the tests of {one.package.file.stem} failed with {_machine(one.driver)}"
            for one in failed
        ]
        text = "\n".join(f"    {line}" for line in failed[0].detail.splitlines())
        last = f"the packages are there; the whole log is {log}"
        hints = dict.fromkeys(hint for one in failed for hint in one.hints)
        raise BuildFailed(
            "\n".join([f"{lines[0]}:", text, *lines[1:]]), "; ".join([*steps, *hints, last])
        )
    if lines := [f"{name}: {sentence}" for name, found in wrong for sentence, _ in found]:
        raise AuditFailed("\n".join(lines), "; ".join(steps))
    for driver in asked:
        mine = [tested for tested in tests if tested.driver == driver]
        if all(tested.state == "refused" for tested in mine):
            raise Unsolvable(
                f"no build is for a machine with {_machine(driver)}: {mine[-1].detail}",
                "add a build for its CUDA major, or ask for another --driver",
            )


def _check_installable(
    made: list[Made], tests: list[Tested], channels: Catalogue, every: Matrix, recipe: Path
) -> None:
    """Ends the run with an error if a build can be installed on no machine, as when it needs an
    unnamed channel.
    """
    from ctk.authors.installable import take_survey
    from ctk.plan.messages import shown

    work = Path(channels.channels[0])
    for one in made:
        if {tested.state for tested in tests if tested.package is one} != {"refused"}:
            continue
        today = take_survey([one.spec], [], channels, every).today
        if not today.installs:
            sentence, step = today.reason((every.drivers[-1], None))
            _, unnamed, named = step.partition("name the channels: --channel ")
            line = f"ctk build-recipe {shlex.quote(str(recipe))} --channel {named}".replace(
                f" --channel {shlex.quote(shown(work))}", ""
            )
            other = (
                "correct requirements: run, or name a --channel or --base that has what is missing"
            )
            if step.startswith("run `ctk build"):
                other = step
            sentence = sentence.replace(one.spec, "it")
            raise Unsolvable(
                f"{one.file.stem} can be installed on no machine: {sentence}",
                line if unnamed else other,
            )


# --- the lint


class LintFormat(StrEnum):
    """The form in which findings of the lint are printed."""

    text = "text"
    github = "github"


def lint_command(
    check: Annotated[
        list[str] | None,
        typer.Option(help="Run this check only (see --list); may be repeated."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the checks with their help and exit.")
    ] = False,
    format_: Annotated[
        LintFormat,
        typer.Option("--format", help="As lines, or as annotations of a GitHub workflow."),
    ] = LintFormat.text,
    planned: Annotated[
        bool,
        typer.Option(
            "--planned",
            help=(
                "Instead, audit every package of every release and platform, unbuilt; --check takes"
                " the rules of "
                "`ctk check --list`."
            ),
        ),
    ] = False,
    jobs: Jobs = None,
) -> None:
    """Compare recipes, release locks and variant files with the rules, before anything is built.

    Each finding names the fix.

    Examples: ctk lint --check DevHasRunExports
    ctk lint --planned

    JSON:
    - `ok`, `files` (how many), `seconds`
    - `checks`: how many were run; with `--list` a list of `check`, `kind`, `help` and `fix`
    - `findings`: `file`, `line`, `column`, `check`, `severity` (`error` or `hint`), `message`,
      `fix`

    With `--planned`: as `ctk check` of packages.
    """
    from rich.padding import Padding
    from rich.text import Text

    from ctk import lint as lints
    from ctk.lint import annotation, lint
    from ctk.lint.tree import Tree

    report = Reporter()
    not_both(
        "--planned", "--list and --format", planned and (list_ or format_ is not LintFormat.text)
    )
    if planned:
        for error in show_audit(
            _audit_planned(checkout(), jobs or os.cpu_count() or 1, check or (), report), report
        ):
            raise error
        return
    if list_:
        # A table has no room for this much text in a narrow terminal: a line for the name, then the
        # help.
        report.result(checks=[_as_json(known) for known in lints.CHECKS])
        for known in lints.CHECKS:
            report.line(f"{known.name} [{known.severity}]", "bold")
            report.console.print(Padding(Text(f"{known.help}\nfix: {known.fix}"), (0, 0, 0, 2)))
        return
    here = checkout()
    tree = Tree(here)
    if not tree.paths:
        raise UnknownName(f"there is nothing to lint in {here.root}", "set CTK_ROOT to a checkout")
    with report.task("lint", len(tree.recipes)) as task:
        tree.progress = lambda: task.advance(1)
        found = lint(tree, check or ())
    report.result(**found.as_json())
    for finding in found.findings:
        report.line(
            printable(annotation(finding) if format_ is LintFormat.github else str(finding))
        )
    report.say(f"lint: {found.summary()} ({found.seconds:.1f} s)")
    if not found.ok:
        step = "each line names its fix; ctk lint --list says why"
        raise LintFailed(f"the lint found {count(len(found.errors), 'error')}", step)


def _as_json(check: Check[Any]) -> dict[str, str]:
    return {"check": check.name, "kind": check.severity, "help": check.help, "fix": check.fix}


def _audit_planned(
    where: Workspace, jobs: int, only: Collection[str], report: Reporter
) -> AuditReport:
    """The audit of every release, component and platform together."""
    from ctk.audit import audit_planned
    from ctk.lock import contents
    from ctk.plan.plan import Request, plan, published_set, python_tags

    what, request = published_set(where), Request(platforms=tuple(PLATFORMS))
    with report.task("plan", len(what.locks)) as task:
        everything = plan(what, request, python_tags(where.build_config), lambda: task.advance(1))
    with report.task("audit", len(everything.builds)) as task:
        measured = contents.load(where)
        return audit_planned(
            everything, where, measured, jobs=jobs, only=only, progress=lambda: task.advance(1)
        )
