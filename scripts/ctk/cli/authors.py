"""`ctk build-recipe` and `ctk lint`: for authors of recipes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli.audit import show_audit
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
from ctk.core.errors import BadValue, LintFailed, UnknownName, Unsolvable, printable
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.plan.messages import shown

if TYPE_CHECKING:
    from ctk.audit import AuditReport
    from ctk.authors.installable import Survey
    from ctk.authors.judge import Judged
    from ctk.authors.order import Order
    from ctk.authors.run import Made, Tested, Workshop
    from ctk.lint import LintReport
    from ctk.lock.model import ReleaseLock
    from ctk.plan.recipes import Recipe
    from ctk.rules import Check
    from ctk.solve.solve import Catalogue
    from ctk.verify.scenarios import Matrix


# --- somebody's recipe

RecipePlace = Annotated[
    Path, typer.Argument(help="A recipe.yaml, or the folder that has it.", metavar="DIR")
]
Toolkits = Annotated[
    list[str] | None,
    typer.Option(
        "--cuda",
        help=(
            "CUDA major such as 13, or toolkit such as 12.6; may be repeated. All of the"
            " recipe's by default."
        ),
    ),
]
TestDrivers = Annotated[
    list[str] | None,
    typer.Option(
        "--driver",
        help=(
            "Test as on a machine with this driver, such as 12.6 or none; may be repeated. By"
            " default the oldest "
            "and the newest that each build is for."
        ),
    ),
]
BuildPythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        help=(
            "Such as 3.12 or 3.14t; may be repeated. By default all of the recipe's that the"
            " channels have."
        ),
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Folder, made a channel, for the packages; output/recipes/NAME by default.",
    ),
]


def build_recipe_command(
    recipe: RecipePlace,
    cuda: Toolkits = None,
    driver: TestDrivers = None,
    python: BuildPythons = None,
    output: Output = None,
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
    from ctk.authors.order import order, recipe_in, variant_files
    from ctk.authors.run import Workshop

    workspace = checkout()
    report = Reporter()
    drivers = _read_values(cuda or (), python or (), driver or ())
    found = recipe_in(recipe)
    place = (output or workspace.output / "recipes" / found.name).absolute()
    _refuse_places(place, found, workspace)
    base = base_beside(base, channel, workspace)
    channels = _channels_with_cuda(channel or (), base, workspace)
    files = variant_config or variant_files(found, workspace.build_config)
    log = workspace.logs / f"recipe-{found.name}.log"
    with held(workspace.temporary) as scratch:
        folder = scratch / "channel"
        folder.mkdir()
        ordered = order(found, files, channels, scratch, cuda or (), python or ())
        _show_order(ordered, place, log, report)
        shop = Workshop(ordered, channels, folder, workspace, log, report.say)
        made = list(shop.build(lambda variant, outcome: report.say(f"{variant.id} {outcome}")))
        is_whole = output is None and not (cuda or python)  # a part leaves the others there
        _keep(made, folder, place, is_whole, report)
        _judge(shop, made, drivers, place, recipe, report)
    names = dict.fromkeys(package.index.name for package in made)
    _show_install([*names], place, channels, base, report)


def _read_values(
    cuda: Sequence[str], pythons: Sequence[str], drivers: Sequence[str]
) -> list[str | None]:
    """The drivers of --driver; refuses values of --cuda, --python and --driver that are none."""
    from ctk.solve.machine import driver_version, python_specs

    for text in cuda:
        if not re.fullmatch(r"(?a)\d\d(\.\d\d?)?", text):
            raise BadValue(
                f"{text!r} is no CUDA major and no toolkit", "write it as --cuda 12 or --cuda 12.6"
            )
    for text in pythons:
        python_specs(text)
    return [None if text.lower() == "none" else driver_version(text) for text in drivers]


def _refuse_places(place: Path, recipe: Recipe, workspace: Workspace) -> None:
    """Refuses a folder for packages, a folder of a recipe, or a machine that cannot be used."""
    from ctk.build.runner import refuse_machine

    if place.resolve() in (workspace.channel.resolve(), workspace.base_channel.resolve()):
        raise BadValue(
            f"{shown(place)} is a channel that `ctk build` writes", "name another folder"
        )
    if place.is_file():
        raise BadValue(f"{shown(place)} is a file", "name a folder, such as --output ./packages")
    refuse_unwritable(place)
    refuse_breaking_path(recipe.folder, "move the recipe")  # scripts name it
    refuse_machine(workspace)


def _channels_with_cuda(named: Sequence[str], base: str, workspace: Workspace) -> Catalogue:
    """The channels to build against; refuses those without CUDA packages."""
    from ctk.solve.channels import catalogue

    channels = catalogue(workspace, base, this_platform(), others=named)
    subdirs = [this_platform(), NOARCH]
    if "cuda-version" in channels.names(subdirs):
        return channels
    step = "run `ctk build`, or name another --channel"
    if named:
        step = "name another --channel"
    own = workspace.channel
    if own.exists() and "cuda-version" in channels.names(subdirs, [own]):
        step = f"add --channel {shown(own)}"
    raise Unsolvable("there are no CUDA packages in the channel", step)


def _show_order(order: Order, place: Path, log: Path, report: Reporter) -> None:
    """Prints which builds will be made, and begins the log."""
    file = order.recipe.file
    report.result(recipe=str(file), log=str(log), output=str(place), notes=order.notes)
    for note in order.notes:
        report.say(note)
    report.say(f"{file}: {count(len(order.variants), 'build')}; the log is {log}")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")


def _keep(made: list[Made], folder: Path, place: Path, is_whole: bool, report: Reporter) -> None:
    """Adds the packages of a run to their channel, and says which of earlier runs were there.

    The packages of a whole run replace these.
    """
    from ctk.channel.repodata import add

    fresh = {package.file.name for package in made}
    there = [file.name for file in sorted(place.glob("*/*.conda"))]
    earlier = [name for name in there if name not in fresh]
    if is_whole:
        shutil.rmtree(place, ignore_errors=True)
    if earlier:
        fate = "removed" if is_whole else "packages of earlier runs there, which stay"
        report.line(f"{fate}: {', '.join(earlier)}")
    add(folder, place)


def _judge(
    shop: Workshop,
    made: list[Made],
    drivers: list[str | None],
    place: Path,
    recipe: Path,
    report: Reporter,
) -> None:
    """Tests the packages, shows the results, and ends with an error if something is wrong."""
    from ctk.authors.installable import take_survey
    from ctk.authors.judge import machine_in_words, refuse_faults
    from ctk.lock.model import release_locks
    from ctk.verify.scenarios import facts, matrix

    tests = []
    for tested in shop.test(made, drivers):
        tests.append(tested)
        machine = machine_in_words(tested.driver)
        report.say(f"tests of {tested.package.file.stem}, {machine}: {tested.state}")
    locks = list(release_locks(shop.workspace).values())
    packages = _judged(made, tests, locks)
    _show_tests(packages, report)
    report.result(packages=[judged.as_json(place) for judged in packages])
    every = matrix(facts(locks), ())
    names = dict.fromkeys(package.index.name for package in made)
    surveys = [take_survey([name], [], shop.catalogue, every) for name in names]
    report.result(surveys=[survey.as_json() for survey in surveys])
    _show_packages(packages, report)
    _show_surveys(surveys, made, report)
    report.line(f"packages: {place}")
    report.line(f"log: {shop.log}")
    refuse_faults(packages, drivers, shop.log)
    _check_installable(made, tests, shop.catalogue, every, recipe)


def _judged(made: list[Made], tests: list[Tested], locks: list[ReleaseLock]) -> list[Judged]:
    """The packages with their tests and their GPU code."""
    from ctk.authors.judge import Judged
    from ctk.lock.facts import known
    from ctk.package.gpu_subject import subjects

    gpus = known(locks)
    found = []
    for package in made:
        (code,) = subjects(package.file, gpus)
        of_package = tuple(tested for tested in tests if tested.package is package)
        found.append(Judged(package, of_package, code))
    return found


def _show_tests(packages: list[Judged], report: Reporter) -> None:
    """Prints a table of the packages, and of their tests for each driver."""
    rows = []
    for judged in packages:
        first = (judged.name, judged.package.toolkit)
        for tested in judged.tests:
            words = {"none": "it has none", "refused": "not for it"}
            gets = f"{tested.toolkit} {tested.fit}".strip()
            state = words.get(tested.state, tested.state)
            rows.append((*first, tested.driver or "none", gets, state))
            first = ("", "")
    headings = ["package", "built with", "driver", "gets toolkit", "its tests"]
    report.table(_outcome(packages), headings, rows)


def _outcome(packages: list[Judged]) -> str:
    """A line that says whether packages were tested, and whether they are right."""
    if any(tested.state == "failed" for judged in packages for tested in judged.tests):
        return "built, and tests failed"
    wrong = sum(bool(judged.faults) for judged in packages)
    if wrong:
        verb = "is" if wrong == 1 else "are"
        return f"built, and {count(wrong, 'package')} {verb} wrong"
    tested = sum(judged.is_tested for judged in packages)
    if not tested:
        return "built, and not tested"
    return "built and tested" if tested == len(packages) else "built and tested in part"


def _show_packages(packages: list[Judged], report: Reporter) -> None:
    """Prints on which GPUs the packages run, what they require, and what is wrong."""
    for judged in packages:
        show_subject(judged.code, report)
        requires = ", ".join(sorted(judged.package.index.depends))
        report.line(f"  it requires {requires or 'nothing'}")
        for mistake in judged.mistakes:
            report.line(f"  WRONG: {mistake.cause}")


def _show_surveys(surveys: list[Survey], made: list[Made], report: Reporter) -> None:
    """Prints on which machines the packages install, and which builds none gets."""
    from ctk.authors.judge import never_picked

    for survey in surveys:
        report.line(f"{survey.asked} on {survey.subdir}", "bold")
        for sentence in survey.sentences:
            report.line(f"- {sentence}")
        rows = survey.builds(survey.today)
        report.table("its builds", ["build", "kind", "toolkits", "pairs"], rows, right=["pairs"])
        of_name = [package for package in made if package.index.name == survey.asked]
        for build in never_picked(of_name, {row[0] for row in rows}):
            report.line(
                f"no machine gets {build}: another build for that CUDA major is preferred"
                " everywhere; keep one"
            )


def _show_install(
    names: list[str], output: Path, channels: Catalogue, base: str, report: Reporter
) -> None:
    """Prints the commands that install the packages.

    The channels are in the order that strict priority needs.
    """
    from ctk.solve.solve import channel_url, lasting

    places = [output, *channels.channels[:-1]]
    options = []
    urls = []
    for place in places:
        is_folder = isinstance(place, Path)
        options += ["--channel", shown(Path(lasting(str(place)))) if is_folder else str(place)]
        urls += ["-c", lasting(channel_url(place))]
    if base != "local":
        options += ["--base", base]
    ctk = ["ctk", "env", "create", *names, *options, "--prefix", "./my-env"]
    report.line(f"to install: {shlex.join(ctk)}")
    urls += ["-c", "conda-forge", "--strict-channel-priority"]
    conda = ["conda", "create", "-n", "my-env", *urls, *names]
    report.line(f"or, also with mamba: {shlex.join(conda)}")


def _check_installable(
    made: list[Made], tests: list[Tested], channels: Catalogue, every: Matrix, recipe: Path
) -> None:
    """Ends the run with an error if a build can be installed on no machine.

    So it is if it needs a channel that was not named.
    """
    from ctk.authors.installable import take_survey
    from ctk.plan.messages import shown
    from ctk.solve.reason import Kind

    work = Path(channels.channels[0])
    for one in made:
        if {tested.state for tested in tests if tested.package is one} != {"refused"}:
            continue
        today = take_survey([one.spec], [], channels, every).today
        if not today.installs:
            reason = today.reason((every.drivers[-1], None))
            step = (
                "correct requirements: run, or name a --channel or --base that has what is missing"
            )
            if reason.kind is Kind.NOT_BUILT:
                step = reason.step
            if reason.kind is Kind.UNNAMED_CHANNEL:
                places = [place for place in reason.channels if place != shown(work)]
                named = [word for place in places for word in ("--channel", place)]
                step = shlex.join(["ctk", "build-recipe", str(recipe), *named])
            sentence = reason.cause.replace(one.spec, "it")
            raise Unsolvable(
                f"{one.file.stem} can be installed on no machine: {sentence}",
                step,
                kind=reason.kind,
            )


# --- the lint


class LintFormat(StrEnum):
    """The form in which findings of the lint are printed."""

    text = "text"
    github = "github"


Checks = Annotated[
    list[str] | None,
    typer.Option(help="Run this check only (see --list); may be repeated."),
]
ListOfChecks = Annotated[
    bool, typer.Option("--list", help="List the checks with their help and exit.")
]
Format = Annotated[
    LintFormat,
    typer.Option("--format", help="As lines, or as annotations of a GitHub workflow."),
]
Planned = Annotated[
    bool,
    typer.Option(
        "--planned",
        help=(
            "Instead, audit every package of every release and platform, unbuilt; --check takes"
            " the rules of "
            "`ctk check --list`."
        ),
    ),
]


def lint_command(
    check: Checks = None,
    list_: ListOfChecks = False,
    format_: Format = LintFormat.text,
    planned: Planned = False,
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
    report = Reporter()
    is_listed = list_ or format_ is not LintFormat.text
    not_both("--planned", "--list and --format", planned and is_listed)
    if planned:
        _lint_planned(check or (), jobs or os.cpu_count() or 1, report)
    elif list_:
        _list_checks(report)
    else:
        _lint_files(check or (), format_, report)


def _list_checks(report: Reporter) -> None:
    """Prints the checks.

    A table has no room for this much text in a narrow terminal: a line for the name, then the help.
    """
    from rich.padding import Padding
    from rich.text import Text

    from ctk.lint import CHECKS

    report.result(checks=[_as_json(known) for known in CHECKS])
    for known in CHECKS:
        report.line(f"{known.name} [{known.severity}]", "bold")
        report.console.print(Padding(Text(f"{known.help}\nfix: {known.fix}"), (0, 0, 0, 2)))


def _as_json(check: Check[Any]) -> dict[str, str]:
    return {"check": check.name, "kind": check.severity, "help": check.help, "fix": check.fix}


def _lint_files(checks: Sequence[str], format_: LintFormat, report: Reporter) -> None:
    """Lints the files of the checkout."""
    from ctk.lint import lint
    from ctk.lint.tree import Tree

    workspace = checkout()
    tree = Tree(workspace)
    if not tree.paths:
        raise UnknownName(
            f"there is nothing to lint in {workspace.root}", "set CTK_ROOT to a checkout"
        )
    with report.task("lint", len(tree.recipes)) as task:
        tree.progress = lambda: task.advance(1)
        found = lint(tree, checks)
    _show_lint(found, format_, report)
    if not found.ok:
        step = "each line names its fix; ctk lint --list says why"
        raise LintFailed(f"the lint found {count(len(found.errors), 'error')}", step)


def _show_lint(found: LintReport, format_: LintFormat, report: Reporter) -> None:
    from ctk.lint import annotation

    report.result(**found.as_json())
    for finding in found.findings:
        text = str(finding)
        if format_ is LintFormat.github:
            text = annotation(finding)
        report.line(printable(text))
    report.say(f"lint: {found.summary()} ({found.seconds:.1f} s)")


def _lint_planned(checks: Collection[str], jobs: int, report: Reporter) -> None:
    """Audits what every release would have, unbuilt."""
    for error in show_audit(_audit_planned(checkout(), jobs, checks, report), report):
        raise error


def _audit_planned(
    workspace: Workspace, jobs: int, only: Collection[str], report: Reporter
) -> AuditReport:
    """The audit of every release, component and platform together."""
    from ctk.audit import audit_planned
    from ctk.lock import contents
    from ctk.plan.plan import Request, plan, published_set, python_tags

    published = published_set(workspace)
    request = Request(platforms=tuple(PLATFORMS))
    tags = python_tags(workspace.build_config)
    with report.task("plan", len(published.locks)) as task:
        everything = plan(published, request, tags, lambda: task.advance(1))
    with report.task("audit", len(everything.builds)) as task:
        measured = contents.load(workspace)
        return audit_planned(
            everything,
            workspace,
            measured,
            jobs=jobs,
            only=only,
            progress=lambda: task.advance(1),
        )
