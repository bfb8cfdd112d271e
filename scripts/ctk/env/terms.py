"""What a change of an environment may take away: packages of others, and of earlier requests."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ctk.core.console import count, listing
from ctk.core.errors import BadValue, Busy, WouldLose
from ctk.core.files import free_folder
from ctk.env.install import key_of
from ctk.env.prefix import Installed, Note
from ctk.package.records import spec_name
from ctk.solve.solve import Pick

_SHOWN = 20  # packages of a longer list


@dataclass(frozen=True)
class Terms:
    """What a change of an environment may take away.

    Attributes:
        force: Packages that `create` did not put there, too.
        yes: Packages that were asked for before, and what they brought.
        since: The keys of its packages when the pick was solved from them; None if it was not.
    """

    force: bool = False
    yes: bool = False
    since: Collection[str] | None = None


NOTHING_LOST = Terms()


def refuse_loss(
    terms: Terms, note: Note | None, installed: Installed, pick: Pick, asked: Sequence[str]
) -> None:
    """Refuses a change that takes away what the terms do not allow.

    Args:
        terms: What it may take away.
        note: The note of the environment; None without one.
        installed: Its packages.
        pick: The packages that it gets.
        asked: The request as the user typed it.

    Raises:
        Busy: The terms name the packages that were there, and another run has changed them.
        BadValue: There are packages that `create` did not put there.
        WouldLose: Packages would go because the request no longer names them.
    """
    if terms.since is not None and terms.since != installed.packages.keys():
        raise Busy(
            f"another run has just changed {installed.prefix}; this run changed nothing",
            "type it again",
        )
    if terms.force:
        return
    _refuse_packages_of_others(note, installed, [key_of(record) for record in pick.records])
    if not terms.yes:
        _refuse_smaller_request(note, installed, pick, asked)


def _refuse_packages_of_others(
    note: Note | None, installed: Installed, wanted: Iterable[str]
) -> None:
    """Refuses an environment with packages that `create` did not put there, and names what goes."""
    kept = set(wanted)
    ours = kept.union(note.packages) if note else set()
    others = [title for key, title in installed.packages.items() if key not in ours]
    if note is None:
        others += [file.name for file in installed.broken]
    if not others:
        return
    lost = [title for key, title in installed.packages.items() if key not in ours | kept]
    consequence = "and belongs to another tool"
    if lost:
        consequence = f"and would lose {listing(sorted(lost), most=_SHOWN)}"
    raise BadValue(
        f"{installed.prefix} has {count(len(others), 'package')} that this command did not put"
        f" there, {consequence}",
        "name a new or empty folder, or let it have only what you ask for with --force",
    )


def _needed_by(names: Iterable[str], installed: Installed) -> set[str]:
    """Packages with these names, and all that they need, as they are installed."""
    depends = {
        str(record["name"]): [spec_name(str(need)) for need in record.get("depends") or ()]
        for record in installed.records.values()
    }
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name in depends and name not in found:
            found.add(name)
            waiting += depends[name]
    return found


def _refuse_smaller_request(
    note: Note | None, installed: Installed, pick: Pick, asked: Sequence[str]
) -> None:
    """Refuses a request that leaves out what was asked for before, if packages would go with that.

    A package also goes where another version of what is still named no longer needs it: that is not
    loss.
    """
    request = Note((), tuple(asked))
    now = {spec_name(spec) for spec in request.specs}
    before = {spec_name(spec) for spec in note.specs} if note else set()
    left_out = sorted(before - now)
    of_another_version = _needed_by(before & now, installed).difference(left_out)
    lost = sorted(
        (str(record["name"]), str(record.get("version")))
        for record in installed.records.values()
        if pick.record(record["name"]) is None and record["name"] not in of_another_version
    )
    if not lost or not left_out:
        return
    titles = [f"{name} {version}" for name, version in lost]
    verb = "are" if len(left_out) > 1 else "is"
    cause = (
        f"{installed.prefix} would lose {len(lost)} of its"
        f" {count(len(installed.records), 'package')}, because {listing(left_out)} {verb} not named"
        f" now: {listing(titles, most=_SHOWN)}"
    )
    more = [spec for spec in request.specs if spec_name(spec) not in before]
    step = "to let them go, run it again with --yes"
    if note and request.machine not in ({}, note.machine):
        another = shlex.join(["ctk", "env", "create", *asked, "--prefix", free_folder("my-env")])
        step = f"for another machine, make another environment: `{another}`; {step}"
    elif more:
        add = shlex.join(["ctk", "env", "add", str(installed.prefix), *more])
        step = f"to keep them and have more: `{add}`; {step}"
    elif note:
        step = f"to keep and update them all: `{note.again(installed.prefix)}`; {step}"
    raise WouldLose(cause, step, titles)
