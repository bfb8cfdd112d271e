"""`ctk build-recipe`: a recipe built against channels, tested, and where its packages run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ctk.authors.installable import Survey, take_survey
from ctk.authors.judge import (
    Judged,
    machine_in_words,
    needless_builds,
    outcome,
    refuse_faults,
    refuse_uninstallable,
    refuse_unserved,
    state_in_words,
)
from ctk.authors.order import Order, order, recipe_in, variant_files
from ctk.authors.run import Made, Tested, Workshop
from ctk.build.runner import refuse_machine
from ctk.channel.faults import note_faults
from ctk.channel.repodata import add
from ctk.cli.gpu_code import show_subject
from ctk.cli.options import RecipeOptions, asked_channels, base_beside
from ctk.core.checkout import Workspace, known_workspace
from ctk.core.console import Reporter, count
from ctk.core.disk import refuse_breaking_path, refuse_unwritable
from ctk.core.errors import BadValue, Unsolvable
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, this_platform
from ctk.lock.facts import known
from ctk.lock.model import ReleaseLock, release_locks
from ctk.package.gpu_subject import subjects
from ctk.plan.messages import shown
from ctk.plan.recipes import Recipe
from ctk.solve.channels import catalogue
from ctk.solve.machine import driver_version, python_specs
from ctk.solve.solve import Catalogue, channel_url, lasting
from ctk.verify.scenarios import facts, matrix

_NOT_JUDGED = "the run that built it was stopped before the tests"


def build_recipe(recipe: Path, options: RecipeOptions) -> None:
    """Builds and tests a recipe, keeps its packages, and shows how to install them."""
    workspace = known_workspace()
    report = Reporter()
    cuda = options.cuda or ()
    pythons = options.python or ()
    drivers = _read_values(cuda, pythons, options.driver or ())
    found = recipe_in(recipe)
    place = (options.output or workspace.output / "recipes" / found.name).absolute()
    _refuse_places(place, found, workspace)
    named, base = asked_channels(options.channel or (), options.base)
    base = base_beside(base, named, workspace)
    channels = _channels_with_cuda(named, base, workspace)
    files = options.variant_config or variant_files(found, workspace.build_config)
    log = workspace.logs / f"recipe-{found.name}.log"
    with held(workspace.temporary) as scratch:
        folder = scratch / "channel"
        folder.mkdir()
        ordered = order(found, files, channels, scratch, cuda, pythons)
        _show_order(ordered, place, log, report)
        shop = Workshop(ordered, channels, folder, workspace, log, report.say)
        with report.task(f"build {found.name}", len(ordered.variants), of="variants") as task:
            made = list(
                shop.build(
                    lambda variant: task.advance(0, f"building {variant.id}"),
                    lambda line: task.advance(0, f"still building: {line}"),
                    lambda variant, outcome: task.advance(1, f"{variant.id} {outcome}"),
                )
            )
        is_whole = options.output is None and not (cuda or pythons)
        _keep(made, folder, place, is_whole, report)
        _judge(shop, made, drivers, place, recipe, report)
    names = dict.fromkeys(package.index.name for package in made)
    needs_driver = any(package.needs_driver for package in made)
    _show_install([*names], place, channels, base, report, needs_driver=needs_driver)


def _read_values(
    cuda: Sequence[str], pythons: Sequence[str], drivers: Sequence[str]
) -> list[str | None]:
    """The drivers of --driver; refuses values of --cuda, --python and --driver that are none."""
    for text in cuda:
        if not re.fullmatch(r"(?a)\d\d(\.\d\d?)?", text):
            raise BadValue(
                f"{text!r} is neither a CUDA major nor a toolkit",
                "write it as --cuda 12 or --cuda 12.6",
            )
    for text in pythons:
        python_specs(text)
    return [None if text.lower() == "none" else driver_version(text) for text in drivers]


def _refuse_places(place: Path, recipe: Recipe, workspace: Workspace) -> None:
    """Refuses a folder for packages, a folder of a recipe, or a machine that cannot be used."""
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

    The packages of a whole run replace these; those of a part leave the others there.
    """
    fresh = {package.file.name for package in made}
    there = [file.name for file in sorted(place.glob("*/*.conda"))]
    earlier = [name for name in there if name not in fresh]
    if is_whole:
        shutil.rmtree(place, ignore_errors=True)
    if earlier:
        names = ", ".join(earlier)
        if is_whole:
            report.line(f"removed: {names}")
        else:
            report.line(f"older packages stay in {shown(place)}: {names}")
            report.line("`ctk publish` publishes them too: delete those that you do not want")
    add(folder, place)
    note_faults(place, {package.place: _NOT_JUDGED for package in made})


def _judge(
    shop: Workshop,
    made: list[Made],
    drivers: list[str | None],
    place: Path,
    recipe: Path,
    report: Reporter,
) -> None:
    """Tests the packages, shows the results, and ends with an error if something is wrong."""
    tests = []
    for tested in shop.test(made, drivers):
        tests.append(tested)
        machine = machine_in_words(tested.driver)
        report.say(f"tests of {tested.package.file.stem}, {machine}: {state_in_words(tested)}")
    locks = list(release_locks(shop.workspace).values())
    packages = _judged(made, tests, locks)
    note_faults(place, {judged.package.place: judged.fault_for_readers for judged in packages})
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
    refuse_faults(packages, shop.log)
    refuse_uninstallable(packages, shop.catalogue, every, recipe)
    refuse_unserved(packages, drivers)


def _judged(made: list[Made], tests: list[Tested], locks: list[ReleaseLock]) -> list[Judged]:
    """The packages with their tests and their GPU code."""
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
            gets = f"{tested.toolkit} {tested.fit}".strip()
            rows.append((*first, tested.driver or "none", gets, state_in_words(tested)))
            first = ("", "")
    headings = ["package", "built with", "driver", "gets toolkit", "its tests"]
    report.table(outcome(packages), headings, rows)


def _show_packages(packages: list[Judged], report: Reporter) -> None:
    """Prints on which GPUs the packages run, what they require, and what is wrong."""
    for judged in packages:
        show_subject(judged.code, report)
        requires = ", ".join(sorted(judged.package.index.depends))
        report.line(f"  it requires {requires or 'nothing'}")
        for mistake in judged.mistakes:
            report.line(f"  WRONG: {mistake.cause}")
        for remark in judged.remarks:
            report.line(f"  note: {remark}")


def _show_surveys(surveys: list[Survey], made: list[Made], report: Reporter) -> None:
    """Prints on which machines the packages install, and which builds none gets."""
    for survey in surveys:
        report.line(f"{survey.asked} on {survey.subdir}", "bold")
        for sentence in survey.sentences:
            report.line(f"- {sentence}")
        rows = survey.builds(survey.today)
        if rows:
            columns = ["build", "kind", "toolkits", "pairs"]
            report.table("its builds", columns, rows, right=["pairs"])
        of_name = [package for package in made if package.index.name == survey.asked]
        for sentence in needless_builds(of_name, survey):
            report.line(sentence)


def _show_install(
    names: list[str],
    output: Path,
    channels: Catalogue,
    base: str,
    report: Reporter,
    *,
    needs_driver: bool,
) -> None:
    """Prints the commands that install the packages, the most important channel first."""
    places = [output, *channels.channels[:-1]]
    options = []
    urls = []
    for place in places:
        is_folder = isinstance(place, Path)
        options += ["--channel", shown(Path(lasting(str(place)))) if is_folder else str(place)]
        urls += ["-c", lasting(channel_url(place))]
    if base != "local":
        options += ["--base", base]
    name = f"{names[0]}-env"  # one for each recipe: another request would remove packages
    ctk = ["ctk", "env", "create", *names, *options, "--prefix", f"./{name}"]
    report.line(f"to install: {shlex.join(ctk)}")
    # A folder that stands in for conda-forge here is not a channel for conda's users.
    urls += ["-c", base if "://" in base else "conda-forge"]
    conda = ["conda", "create", "-n", name, *urls, "cuda-gpu", *names]
    report.line(f"or, also with mamba: {shlex.join(conda)}")
    if not needs_driver:
        report.line("on a machine without a driver: the same without cuda-gpu")
