"""`ctk channel`: whether a channel is what its index says, and the way back to an older state."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ctk.channel import channel as built
from ctk.channel.cleaning import HISTORY
from ctk.channel.folder import Folder
from ctk.channel.history import History
from ctk.channel.index_files import read_index
from ctk.channel.names import clashes, on_server, step_for
from ctk.check.channel import CheckReport, check_channel
from ctk.check.channel.attestations import Policy
from ctk.check.channel.remote import mirrored
from ctk.cli.options import Jobs
from ctk.core.errors import BadValue, ChannelBroken, NameReused, UnknownName, without_credentials
from ctk.core.paths import workspace
from ctk.core.report import Reporter, count, megabytes
from ctk.core.runlock import exclusive, publishing

Channel = Annotated[
    Path | None,
    typer.Argument(
        help="A built channel, or a folder that was published to; output/channel by default.", metavar="CHANNEL"
    ),
]


def check_command(
    channel: Annotated[
        str | None, typer.Argument(help="A folder or a URL; output/channel by default.", metavar="CHANNEL")
    ] = None,
    published: Annotated[
        str | None,
        typer.Option("--published", help="URL or folder: no name that is taken there may have other content here."),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="URL of the channel, for which its attestations must be.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--identity", help="Who must have signed the attestations, such as a workflow's URL.")
    ] = None,
    issuer: Annotated[
        str | None, typer.Option("--issuer", help="Who must have vouched for the signer, such as a CI service's URL.")
    ] = None,
    attested: Annotated[bool, typer.Option("--attested", help="Every package must have an attestation.")] = False,
    trusted_root: Annotated[
        Path | None,
        typer.Option(
            "--trusted-root", help="Keys to trust; by default those of Sigstore's public instance.", exists=True
        ),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Hold every file of a channel to its index, and the index to what is inside the packages.

    Hashes, sizes, metadata, payloads, run exports, SBOMs, attestations, and files that nothing names. Reads all of the
    packages, and needs no network but for URLs.

    Example: ctk channel check --published https://conda.example.org/cuda
    """
    where, report = workspace(), Reporter()
    policy = Policy(identity, issuer, url, attested, trusted_root)
    taken = _names(published, where.recipes) if published else None
    jobs = jobs or os.cpu_count() or 1
    name = channel or str(where.channel)
    source = mirrored(name, where.cache) if "://" in name else nullcontext(Path(os.path.realpath(name)))
    with source as place:
        found = check_channel(place, policy=policy, taken=taken, jobs=jobs)
        ours = {} if taken is None else read_index(place).names()
    report.result(**found.as_json())
    _show(found, policy, without_credentials(name), report)
    reused = [problem for problem in found.problems if problem.check == "name"]
    if found.problems and len(reused) == len(found.problems):
        names = clashes(ours, taken or {})
        raise NameReused(
            f"{published} has other content under {count(len(reused), 'name')}", step_for(names, where.recipes)
        )
    if found.problems:
        raise ChannelBroken(
            f"{count(len(found.problems), 'problem')} in {without_credentials(name)}",
            "do not publish it; build the packages again, or `ctk channel rollback` a published folder",
        )


def _names(published: str, recipes: Path) -> dict[str, str]:
    return on_server(published) if "://" in published else Folder(Path(published), recipes).names()


def _show(found: CheckReport, policy: Policy, place: str, report: Reporter) -> None:
    if found.problems:
        rows = [(problem.package, problem.check, problem.what) for problem in found.problems]
        report.table(f"problems of {place}", ["package", "check", "what"], rows)
    report.line(
        f"{count(found.packages, 'package')}, {megabytes(found.size)} MB, {found.sboms} with a sound SBOM: "
        f"{count(len(found.problems), 'problem')} ({found.seconds:.1f} s)"
    )
    for signer, number in found.attestations.items():
        report.line(f"{count(number, 'attestation')} verified, signed by {signer}")
    if found.attestations and policy.identity is None:
        report.line("who signed was not held to anybody; --identity and --issuer name who must have")


def history_command(channel: Channel = None) -> None:
    """List the states that a channel can return to.

    Example: ctk channel history /srv/www/cuda
    """
    known = _history(_place(channel))
    rows = [
        (
            s.number,
            s.made,
            s.packages,
            "" if s.before is None else s.before,
            "readers see it" if s.number == known.current else "",
        )
        for s in known.states
    ]
    report = Reporter()
    report.result(
        channel=str(known.channel),
        states=[{**vars(state), "current": state.number == known.current} for state in known.states],
    )
    report.table(
        f"states of {known.channel}",
        ["state", "made", "packages", "followed", ""],
        rows,
        ["state", "packages", "followed"],
    )


def rollback_command(
    channel: Channel = None,
    to: Annotated[
        int | None, typer.Option("--to", help="The state; by default the one before what readers see.")
    ] = None,
) -> None:
    """Let readers see the index before, or another state that is kept.

    The state that is left is kept too: `--to` with its number returns to it. The next build or publishing adds to what
    readers see then.

    Example: ctk channel rollback /srv/www/cuda --to 4
    """
    place, where, report = _place(channel), workspace(), Reporter()
    if _is_published(place):
        state = Folder(place, where.recipes).rollback(to)
    else:
        built.history(place)  # of what is no channel: before a lock is laid beside it
        with exclusive(where, report.say), publishing(place, report.say):
            state = built.rollback(place, to)
    report.result(channel=str(place), state=vars(state))
    report.line(f"{place} shows state {state.number} of {state.made}: {count(state.packages, 'package')}")


def _place(channel: Path | None) -> Path:
    place = channel or workspace().channel
    if ":/" in str(place):
        raise BadValue(f"what {place} shows is its server's business", "name the folder that the server hands out")
    if not place.exists():
        raise UnknownName(f"there is no channel {place}", "name a built channel, or a folder that was published to")
    return place


def _history(place: Path) -> History:
    return Folder(place, workspace().recipes).history() if _is_published(place) else built.history(place)


def _is_published(place: Path) -> bool:
    return (place / HISTORY).is_dir()
