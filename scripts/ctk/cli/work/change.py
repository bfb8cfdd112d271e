"""What a change makes of an environment, and who refuses it, in words.

For `ctk solve --prefix`, `ctk env add` and `ctk env create`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from rattler import PackageRecord, Version

from ctk.cli.options import asked_channels, base_beside
from ctk.cli.work.picks import REASON_LINES, reason_for_programs
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue, WouldLose
from ctk.core.files import free_folder
from ctk.core.platforms import this_platform
from ctk.env.add import Plan, client_line, on_its_driver, plan, refuse_unreadable
from ctk.env.environment import refuse_unfinished
from ctk.env.examine import Examined, examined
from ctk.env.outside import refuse_reaching_out
from ctk.env.prefix import Note
from ctk.env.request import values_of, with_more
from ctk.solve.advice import CheckoutCatalogue
from ctk.solve.builds import choices
from ctk.solve.change import TOOLKIT, Kind, Package, Worse
from ctk.solve.channels import built_catalogue
from ctk.solve.machine import Machine, machine
from ctk.solve.solve import Catalogue, Pick, parse_spec
from ctk.solve.why import newer_nvjitlink

_LINE = 5  # changed packages in one line


@dataclass(frozen=True)
class Stated:
    """The options of a request that say for which machine it is, and from which channels."""

    driver: str | None = None
    arch: str | None = None
    channels: tuple[str, ...] = ()
    base: str = "local"

    @property
    def machine_options(self) -> list[tuple[str, str]]:
        """The options that state the machine, with their values."""
        return [
            (name, value)
            for name, value in (("--driver", self.driver), ("--arch", self.arch))
            if value
        ]

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        """The options that name channels, with their values."""
        channels = [("--channel", name) for name in self.channels]
        base = [("--base", self.base)] if self.base != "local" else []
        return [*channels, *base]

    def known(self) -> Stated:
        """The same with the user's own channels where a user without a checkout names none."""
        channels, base = asked_channels(self.channels, self.base)
        return replace(self, channels=channels, base=base)

    @property
    def options(self) -> list[tuple[str, str]]:
        """All of them, as a note has them."""
        return [*self.machine_options, *self.channel_options]


def words_of(options: Iterable[tuple[str, str]]) -> list[str]:
    """The words of options with their values."""
    return [word for pair in options for word in pair]


def machine_of(note: Note | None, stated: Stated, report: Reporter) -> tuple[Machine, Stated]:
    """The machine of a whole request for an environment, and the options that state it.

    Where none is detected and none stated, it is the machine that was stated when the environment
    was made.
    """
    on = machine(None, stated.driver, stated.arch)
    before = note.machine if note else {}
    was = machine(None, before.get("--driver"), before.get("--arch")) if before else on
    if before and not on.driver and not on.stated and stated.arch is None:
        report.line(f"for the same machine as before: {was.words}; here: {on.words}")
        return was, replace(stated, driver=before.get("--driver"), arch=before.get("--arch"))
    if (was.driver, was.arch) != (on.driver, on.arch):
        report.line(f"for another machine than before: {on.words}; before: {was.words}")
    return on, stated


def machine_for_more(found: Examined, stated: Stated, report: Reporter) -> Machine:
    """The machine of an environment that gets more packages.

    It is the stated one, else that which was stated when the environment was made, else this one.
    If this one has no driver, a native toolkit is taken to be for a machine with the driver for it.
    """
    subdir = found.machine.subdir
    on = found.machine
    before = found.note.machine if found.note else {}
    if on.stated or stated.arch is not None:
        return on
    if before:
        was = machine(subdir, before.get("--driver"), before.get("--arch"))
        if (was.driver, was.arch) != (on.driver, on.arch):
            report.line(f"for the machine that it was made for: {was.words}; here: {on.words}")
        return was
    there = on_its_driver(found)
    if there != on:
        report.line(
            f"for a machine with a driver for CUDA {there.driver}, as its toolkit needs; here:"
            f" {on.words}"
        )
    return there


def channels_of(found: Examined, workspace: Workspace, stated: Stated) -> Catalogue:
    """The channels of a request for an environment: the named ones, else those it was made from."""
    if not stated.channels and stated.base == "local":
        if found.note:
            channels = tuple(values_of(found.note.asked, "--channel"))
            base = next(iter(values_of(found.note.asked, "--base")), "local")
            stated = replace(stated, channels=channels, base=base)
        elif found.channels:
            *first, base = [_place(source) for source in found.channels]
            stated = replace(stated, channels=tuple(first or [base]), base=base)
    stated = stated.known()
    base = base_beside(stated.base, stated.channels, workspace)
    catalogue = built_catalogue(workspace, base, found.machine.subdir, stated.channels)
    if found.note and isinstance(catalogue, CheckoutCatalogue):
        catalogue.checkout = replace(catalogue.checkout, prefix=str(found.prefix))
    return catalogue


def _place(source: str) -> str:
    """A channel of a record as --channel takes it: a folder as its path."""
    return unquote(urlsplit(source).path) if source.startswith("file:") else source


def solve_in_prefix(
    prefix: Path, specs: tuple[str, ...], platforms: Sequence[str], stated: Stated
) -> None:
    """Shows what specs would change in an environment: `ctk solve --prefix`."""
    place = workspace()
    prefix = Path(os.path.realpath(prefix))
    refuse_unfinished(prefix)
    found = examined(place, prefix, stated.driver, stated.arch)
    refuse_reaching_out(prefix, found.has.records)
    refuse_unreadable(found)
    subdir = found.machine.subdir
    if platforms and set(platforms) != {subdir}:
        raise BadValue(
            f"{prefix} is for {subdir}, not for {listing(platforms)}", "leave --platform out"
        )
    on = machine_for_more(found, stated, Reporter())
    channels = channels_of(found, place, stated)
    with reason_for_programs():
        planned = plan(found, specs, on, channels, REASON_LINES)
    show_plan(found, planned, on, channels, steps_for(found, planned, specs, stated, on))
    show_newer(found, specs, planned.pick, channels, Reporter())


def show_newer(
    found: Examined, specs: Sequence[str], pick: Pick, channels: Catalogue, report: Reporter
) -> None:
    """Says of named packages that a newer one is there, since what is installed is taken first.

    Args:
        found: The environment, as it was.
        specs: What was typed.
        pick: What it has now.
        channels: Where packages come from.
        report: Prints it.
    """
    fresh = channels.pick(pick.scenario)
    if fresh is None or found.note is None:
        return
    words = []
    for name in dict.fromkeys(parse_spec(spec).name for spec in specs):
        has, newest = pick.record(name), fresh.record(name)
        if has and newest and _age(has) < _age(newest):
            words.append(f"{name} {newest.version} {newest.build} (not {has.version} {has.build})")
    if words:
        asked = with_more(found.note.asked, specs, ())
        again = shlex.join(["ctk", "env", "create", *asked, "--prefix", str(found.prefix)])
        report.line(f"it keeps what it has; the channels have a newer {listing(words)}")
        report.line(f"to update all packages: {again}")


def _age(record: PackageRecord) -> tuple[Version, int]:
    """What solvers prefer the newest of."""
    return Version(str(record.version)), record.build_number


def refuse_of_others(found: Examined, specs: Sequence[str], machine: Machine) -> None:
    """Refuses an environment with packages that `ctk env create` did not put there.

    The step has its client's line.

    Raises:
        BadValue: It has such packages.
    """
    if found.note:
        return
    look = shlex.join(["ctk", "solve", *specs, "--prefix", str(found.prefix)])
    raise BadValue(
        f"{found.prefix} has packages that ctk did not put there, and two clients would break it",
        f"`{client_line(found, specs, machine)}`; what that changes: `{look}`",
    )


def refuse_other_platform(found: Examined) -> None:
    """Refuses an environment of another platform than this machine's.

    Raises:
        BadValue: It is of another one.
    """
    subdir = found.machine.subdir
    if subdir != this_platform():
        cause = f"{found.prefix} is of {subdir}, and this machine is {this_platform()}"
        raise BadValue(cause, "run it on a machine of that platform")


def refuse_half_made(found: Examined, specs: Sequence[str]) -> None:
    """Refuses an environment that a run did not finish.

    The same request again finishes it.

    Raises:
        BadValue: The specs are not of that request.
    """
    if not set(specs) <= set(found.asked):
        refuse_unfinished(found.prefix)


def refuse_worse(found: Examined, plan: Plan, specs: Sequence[str], stated: Stated) -> NoReturn:
    """Refuses a plan that makes something worse.

    Raises:
        WouldLose: Always, with the reasons.
    """
    words = [f"{found.prefix}: {'; '.join(worse_in_words(plan.change.worse))}"]
    if plan.obstacle:
        words.append(f"why: {plan.obstacle}")
    add = shlex.join(
        ["ctk", "env", "add", str(found.prefix), *specs, *words_of(stated.options), "--move"]
    )
    whole = with_more(found.note.asked if found.note else (), specs, stated.options)
    other = shlex.join(["ctk", "env", "create", *whole, "--prefix", free_folder("another-env")])
    step = f"to let it change: `{add}`; to keep it, and make another one: `{other}`"
    raise WouldLose("\n".join(words), step)


def steps_for(
    found: Examined, plan: Plan, specs: Sequence[str], stated: Stated, machine: Machine
) -> list[str]:
    """The command lines that do what a plan says."""
    if not plan.change:
        return []
    if found.note:
        move = ["--move"] if plan.change.worse else []
        return [
            shlex.join(
                ["ctk", "env", "add", str(found.prefix), *specs, *words_of(stated.options), *move]
            )
        ]
    return [client_line(found, specs, machine)] if not plan.obstacle else []


# --- words


def _toolkit_words(package: Package | None) -> str:
    """``13.0 native`` of a cuda-version."""
    if package is None:
        return "none"
    return f"{package.version} {package.fit}".strip()


def worse_in_words(worse: Sequence[Worse]) -> list[str]:
    """What a change makes worse, a sentence for each package."""
    sentences = []
    of_toolkit = [change for change in worse if change.kind in TOOLKIT]  # two kinds can be of it
    if of_toolkit:
        kinds = {change.kind for change in of_toolkit}
        verb = "get worse" if kinds & {Kind.NATIVE_TO_COMPAT, Kind.TOOLKIT_GONE} else "change"
        before = _toolkit_words(of_toolkit[0].before)
        after = _toolkit_words(of_toolkit[0].after)
        sentences.append(f"the toolkit would {verb}: {before} becomes {after}")
    sentences += [_in_words(change) for change in worse if change.kind not in TOOLKIT]
    return sentences


def _in_words(worse: Worse) -> str:
    before, after = worse.before, worse.after
    if after is None:
        name = before.name if before else "a package"
        return f"{name}, which was asked for, would be removed"
    if worse.kind is Kind.NVJITLINK_LEAVES or before is None:
        return f"nvJitLink would be of toolkit {after.minor}, which nothing asks for"
    if worse.kind is Kind.PYTHON_CHANGES:
        return f"Python would change: {before.version} becomes {after.version}"
    return (
        f"the CUDA build of {before.name} would become a CPU build: {before.build} becomes"
        f" {after.build}"
    )


def show_plan(
    found: Examined, plan: Plan, machine: Machine, channels: Catalogue, steps: Sequence[str]
) -> None:
    """Prints what more specs would make of an environment, and what to type for it."""
    report, pick, change = Reporter(), plan.pinned_pick, plan.change
    named = list(choices(pick, channels))
    report.result(
        request=list(plan.pick.scenario.specs),
        prefix=str(found.prefix),
        machine={"platform": machine.subdir, "driver": machine.driver, "gpu": machine.arch},
        toolkit=pick.toolkit or None,
        fit=pick.fit or None,
        choices=[choice.as_json() for choice in named],
        added=[_as_json(package) for package in change.added],
        removed=[_as_json(package) for package in change.removed],
        replaced=[
            {"before": _as_json(before), "after": _as_json(after)}
            for before, after in change.changed
        ],
        worse=[worse_as_json(one) for one in change.worse],
        obstacle=plan.obstacle or None,
        steps=list(steps),
    )
    report.line(f"{found.prefix}: {_first(plan)} ({machine.subdir}, {machine.words})")
    for line in worse_in_words(change.worse):
        report.line(line)
    if plan.obstacle:
        report.line(f"why: {plan.obstacle}")
    for choice in named:
        report.line(choice.line)
    for line in newer_nvjitlink(pick.records, pick.scenario.specs, machine.driver):
        report.line(line)
    if not change:
        report.line("nothing would change: it has all of this")
        return
    _show_packages(_rows(plan), report)
    for step in steps:
        report.line(f"to do it: {step}")


def _first(plan: Plan) -> str:
    """What stays of the toolkit, in words."""
    pick = plan.pick
    if not pick.toolkit:
        return "no CUDA toolkit"
    now = f"{pick.toolkit} {pick.fit}".strip()
    is_kept = any(pin.startswith("cuda-version=") for pin in plan.pins)
    return f"toolkit {now} stays" if is_kept else f"toolkit {now}"


def show_change(plan: Plan, changes: Mapping[str, Sequence[str]], report: Reporter) -> None:
    """Prints the packages that were changed as planned, and what else was done.

    `changes` are those of an `Environment`.
    """
    if plan.change:
        _show_packages(_rows(plan), report)
    for kind, packages in changes.items():
        if packages and kind not in ("removed", "added", "replaced"):
            report.line(f"{kind}: {listing(packages, most=_LINE)}")


def _rows(plan: Plan) -> list[tuple[str, str, str, str, str]]:
    """A row for each package that a plan changes.

    What happens, its name, its version now and then, and its size.
    """
    change = plan.change
    sizes = _sizes(plan.pick)
    rows = [("removed", one.name, one.version, "", "") for one in change.removed]
    for before, after in change.changed:
        is_rebuilt = before.version == after.version
        row = (before.version, after.version)
        if is_rebuilt:
            row = (before.build, after.build)
        rows.append(("replaced", after.name, *row, sizes[after.name]))
    rows += [("added", one.name, "", one.version, sizes[one.name]) for one in change.added]
    return rows


def _sizes(pick: Pick) -> dict[str, str]:
    sizes = {record.name.normalized: record.size for record in pick.records}
    return {name: megabytes(size) if size else "" for name, size in sizes.items()}


def _show_packages(rows: Sequence[tuple[str, str, str, str, str]], report: Reporter) -> None:
    counts = [
        (kind, sum(row[0] == kind for row in rows)) for kind in ("removed", "replaced", "added")
    ]
    title = listing([f"{count(number, 'package')} {kind}" for kind, number in counts if number])
    report.table(title, ["", "package", "now", "then", "MB"], rows, right=["MB"])


def _as_json(package: Package | None) -> dict[str, Any] | None:
    if package is None:
        return None
    return {"name": package.name, "version": package.version, "build": package.build}


def worse_as_json(worse: Worse) -> dict[str, Any]:
    """The kind of what gets worse, and the package before and after."""
    return {
        "kind": worse.kind.value,
        "before": _as_json(worse.before),
        "after": _as_json(worse.after),
    }
