"""`ctk check`: a channel is compared with its index, packages are audited, or made again and
compared.
"""

from __future__ import annotations

import os
import random
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.cli.options import Jobs, not_both
from ctk.core.checkout import HISTORY, Workspace, channel_missing, refuse_unshown, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import (
    AuditFailed,
    BadValue,
    ChannelBroken,
    CtkError,
    NotReproduced,
    UnknownName,
    without_credentials,
)
from ctk.core.locks import exclusive

if TYPE_CHECKING:
    from ctk.audit import AuditReport
    from ctk.channel.attestations import Policy
    from ctk.channel.check import ChannelReport
    from ctk.channel.distribution import Distribution


def check_command(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "A channel (a folder or a URL), or packages and folders of them; output/channel by"
                " default."
            ),
            metavar="CHANNEL|FILE",
        ),
    ] = None,
    rebuild: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help=(
                "Instead, make so many packages again, chosen at random, or 'all', and compare each"
                " byte."
            ),
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(help="Only audit, by this rule (see --list); may be repeated."),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option(help="Packages to depend on, not audited; the local base channel by default."),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            help="URL or folder: no name that is taken there may have other content here."
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="URL of the channel, for which its attestations must be.")
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(help="Who must have signed the attestations, such as a workflow's URL."),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(help="Who must have vouched for the signer, such as a CI service's URL."),
    ] = None,
    attested: Annotated[
        bool, typer.Option("--attested", help="Every package must have an attestation.")
    ] = False,
    trusted_root: Annotated[
        Path | None,
        typer.Option(
            help="Keys to trust; by default those of Sigstore's public instance.", exists=True
        ),
    ] = None,
    jobs: Jobs = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the rules of packages and exit.")
    ] = False,
) -> None:
    """Check a channel, or packages.

    A channel: every file is compared with its index, and the index with the packages: hashes,
    sizes, metadata, payloads, run exports, SBOMs, attestations, and files that nothing names. It
    needs no network but for URLs. Packages, and those of output/channel and output/base: they are
    opened and compared with the rules of the design, as a set: what a package depends on must be
    among them, in the base channel, or well known. With --rebuild, packages are made again from
    their own metadata, which names the commit of the recipe, the variant and the artefacts by
    sha256; what is missing is fetched.

    Examples: ctk check
    ctk check --published https://conda.example.org/cuda
    ctk check ./some.conda --check NeededIsProvided
    ctk check --rebuild 10

    JSON:
    Of a channel:

    - `ok`, `packages` (how many), `size`, `sboms`, `seconds`; `attestations`: signer -> how many
    - `problems`: `package`, `check`, `what`

    Of packages, and besides for the built channel and its base channel:

    - `ok`, `packages` (how many), `seconds`
    - `checks`: check -> number of its findings; with `--list` a list of `check`, `looks_at` and
      `rule`
    - `findings`: `check`, `severity`, `package`, `path`, `message`, `fix`

    Of both, without `--check`:

    - `files`: each package with files of wheels: `package`, `published` (how many are as their
      wheel has them), `changed` (`path`, `why`, `sha256`, `word`), `licences` (kinds of texts),
      `words` (what the texts say -> how many files), `not_named` (paths). A word is `attachment-a`,
      `clause-2.3`, `sdk-licence`, `open-source` or `not-named`

    With `--rebuild`, instead:

    - `rebuilt`: `package`, `identical`, `differences` (`where`, `what`)
    """
    from ctk.channel.attestations import Policy
    from ctk.channel.distribution import read

    where, report = workspace(), Reporter()
    if list_:
        _list_rules(report)
        return
    names = places or [str(where.channel)]
    for name in names:
        refuse_unshown(Path(name))
    for name in (*names, *map(str, base or ()), *([published] if published else [])):
        if (
            "://" not in name and not Path(name).exists()
        ):  # a check of a wrong folder would pass for ever
            if name.endswith(".conda"):
                raise UnknownName(
                    f"there is no {name}", "name a package file, a folder of packages, or a channel"
                )
            raise channel_missing(name)
    if rebuild is not None:
        _rebuild(names, rebuild, jobs, where, report)
        return
    channels = [name for name in names if _is_channel(name)]
    of_channel = published or url or identity or issuer or attested or trusted_root
    not_both("--check", "the options about a channel", check and of_channel)
    if of_channel and not channels:
        raise BadValue(
            f"there is no channel in {' '.join(names)}",
            "name one, or leave out what is about a channel",
        )
    is_audited = check or not channels or _is_built(names[0], where)
    if base and not is_audited:
        step = "leave it out, or name a rule of the audit with --check"
        raise BadValue("--base is for the audit, which is of built channels and of packages", step)
    if channels and len(names) > 1 and not check:
        raise BadValue(
            "a channel is checked alone", "give each channel, and packages, a run of their own"
        )
    errors: list[CtkError] = []
    start = time.monotonic()
    if channels and not check:
        policy = Policy(identity, issuer, url, attested, trusted_root)
        errors += _check_channel(names[0], published, policy, jobs, where, report)
    if is_audited:
        errors += _audit(names, check or (), base, jobs, where, report)
    if not check and not channels:
        _show_files(read(_packages(map(Path, names), empty_ok=True)), report)
    report.result(ok=not errors, seconds=round(time.monotonic() - start, 2))
    if errors:
        raise errors[0]


def _is_channel(name: str) -> bool:
    return "://" in name or next(Path(name).glob("*/repodata.json"), None) is not None


def _is_built(name: str, where: Workspace) -> bool:
    """Whether a channel is one that `ctk build` makes: the channel, or its base channel."""
    return _is_at(name, where.channel) or _is_at(name, where.base_channel)


def _is_at(name: str, place: Path) -> bool:
    return "://" not in name and os.path.realpath(name) == os.path.realpath(place)


# --- a channel


def _check_channel(
    name: str,
    published: str | None,
    policy: Policy,
    jobs: int | None,
    where: Workspace,
    report: Reporter,
) -> list[CtkError]:
    """Prints the problems of a channel, and returns the error that they are."""
    from ctk.channel.check import check_channel, mirrored
    from ctk.channel.distribution import read
    from ctk.channel.local import is_built
    from ctk.channel.publish import Folder, clashes, refuse
    from ctk.channel.repodata import read_index
    from ctk.channel.server import on_server

    source = (
        mirrored(name, where.temporary, report)
        if "://" in name
        else nullcontext(Path(os.path.realpath(name)))
    )
    with source as place:
        if published:
            taken = (
                on_server(published)
                if "://" in published
                else Folder(Path(published), where.recipes).names()
            )
            refuse(
                clashes(read_index(place).names(), taken),
                without_credentials(published),
                where.recipes,
            )
        packages = _packages([place], empty_ok=True)
        with report.reading("check", packages) as task:
            workers, is_copy = jobs or os.cpu_count() or 1, "://" in name
            found = check_channel(
                place, policy=policy, jobs=workers, is_copy=is_copy, progress=task.advance
            )
        files = read(packages)
    report.result(**found.as_json())
    shown = without_credentials(name)
    _show_channel(found, policy.identity is None, shown, report)
    _show_files(files, report)
    if not found.findings:
        return []
    if "://" in name:
        step = "its keeper publishes it again, or returns to a sound state"
    elif {finding.check for finding in found.findings} == {"orphan"}:
        step = "no reader of the channel needs these files: remove those that nobody else needs"
    elif is_built(Path(os.path.realpath(name))):
        step = "build these packages again with `ctk build`, which also makes the index again"
    elif (Path(name) / HISTORY).is_dir():
        step = (
            f"publish the same packages again (ctk publish --to {shlex.quote(name)}), or return to"
            " a sound state: "
        )
        step += f"ctk rollback {shlex.quote(name)}"
    else:
        step = "get it again from where you have it"
    return [ChannelBroken(f"{count(len(found.findings), 'problem')} in {shown}", step)]


def _show_channel(found: ChannelReport, by_anybody: bool, place: str, report: Reporter) -> None:
    report.line(
        f"{count(found.subjects, 'package')}, {megabytes(found.size)} MB, {found.sboms} with a"
        f" sound SBOM: {count(len(found.findings), 'problem')} ({found.seconds:.1f} s)"
    )
    for signer, number in found.attestations.items():
        report.line(f"{count(number, 'attestation')} verified, signed by {signer}")
    if found.attestations and by_anybody:
        report.line("anybody may have signed them; --identity and --issuer name who must have")
    if found.findings:
        rows = [(finding.where, finding.check, finding.message) for finding in found.findings]
        report.table(f"problems of {place}", ["package", "check", "problem"], rows)


def _show_files(found: Distribution, report: Reporter) -> None:
    """Shows which files of wheels are as published, and what their licence texts say."""
    from ctk.channel.distribution import ADVICE

    report.result(files=found.as_json())
    if not found.files:
        return
    report.line(found.summary)
    if found.change_rows:
        report.table("changed files of wheels", ["file", "change"], found.change_rows)
    columns = ["distribution", "files", "packages"]
    report.table("what their licence texts say", columns, found.words, columns[1:])
    if found.not_named:
        report.line(f"not named: files of {listing([*found.not_named])}")
    report.line(ADVICE)


# --- packages


def _list_rules(report: Reporter) -> None:
    from ctk import audit
    from ctk.package.scan import PackageScan

    columns = ("check", "looks_at", "rule")
    listed = [
        (
            c.name,
            "each package" if c.subject is PackageScan else "the set",
            c.help.replace("``", ""),
        )
        for c in audit.CHECKS
    ]
    report.table("rules of packages", [name.replace("_", " ") for name in columns], listed)
    report.result(checks=[dict(zip(columns, row, strict=True)) for row in listed])


def _audit(
    names: Sequence[str],
    only: Sequence[str],
    base: Sequence[Path] | None,
    jobs: int | None,
    where: Workspace,
    report: Reporter,
) -> list[CtkError]:
    from ctk.audit import audit_packages
    from ctk.build.one import machine_paths

    packages = _packages(map(Path, names), empty_ok=_is_built(names[0], where))
    if base is None:  # the base channel has all that its packages need
        base = [] if _is_at(names[0], where.base_channel) else [where.base_channel]
    with report.reading("audit", packages) as task:
        found = audit_packages(
            packages,
            forbidden_paths=machine_paths(where),
            base=_packages(base, empty_ok=True),
            jobs=jobs or os.cpu_count() or 1,
            only=only,
            cache=where.notes,
            progress=task.advance,
        )
    return show_audit(found, report)


def show_audit(found: AuditReport, report: Reporter) -> list[CtkError]:
    """Prints the findings of an audit, and returns the error that they are."""
    report.result(**found.as_json())
    report.line(f"audit: {found.summary()} ({found.seconds:.1f} s)")
    if found.findings:
        rows = [
            (
                f"{seen.check}\n({seen.severity})",
                f"{seen.where}\n{seen.path}",
                seen.message,
                seen.fix,
            )
            for seen in found.findings
        ]
        report.table("findings", ["check", "where", "problem", "fix"], rows)
    if found.ok:
        return []
    step = "each finding says how to fix it; ctk check --list explains the rules"
    return [AuditFailed(f"the audit found {count(len(found.errors), 'error')}", step)]


def _packages(places: Iterable[Path], *, empty_ok: bool = False) -> list[Path]:
    """The package files in some places: files, and folders that have them or whose folders have
    them.
    """
    found: dict[Path, None] = {}
    for place in places:
        here = (
            [place]
            if place.is_file()
            else sorted({*place.glob("*.conda"), *place.glob("*/*.conda")})
        )
        if not here and not empty_ok:
            raise UnknownName(
                f"there are no packages in {place}",
                "name packages, or a folder with *.conda in it or in folders such as noarch"
                " below it",
            )
        found |= dict.fromkeys(here)
    return list(found)


# --- packages that are made again


def _rebuild(
    names: Sequence[str], number: str, jobs: int | None, where: Workspace, report: Reporter
) -> None:
    """Makes packages again, and prints how each differs.

    Raises:
        NotReproduced: A package has other bytes.
    """
    from ctk.build.rebuild import rebuild

    if any("://" in name for name in names):
        raise BadValue(
            "packages of a channel on a server cannot be made again",
            "download them, and name the files",
        )
    if number != "all" and not (number.isdecimal() and int(number)):
        raise BadValue(
            f"{number!r} is no number of packages", "write it as --rebuild 10 or --rebuild all"
        )
    chosen = _packages(Path(os.path.realpath(name)) for name in names)
    if number != "all" and int(number) < len(chosen):
        report.line(f"{number} from {count(len(chosen), 'package')}")
        chosen = sorted(random.sample(chosen, int(number)))
    with exclusive(where, report.say), report.task("rebuild", len(chosen)) as task:
        outcomes = rebuild(
            chosen,
            where,
            jobs=jobs,
            progress=lambda p, differences: task.advance(
                1, f"{p.name} differs" if differences else ""
            ),
        )
    named = [(f"{p.parent.name}/{p.name}", differences) for p, differences in outcomes.items()]
    report.result(
        rebuilt=[
            {
                "package": name,
                "identical": not found,
                "differences": [{"where": w, "what": what} for w, what in found],
            }
            for name, found in named
        ]
    )
    changed = Counter(p.parent.name for p, differences in outcomes.items() if differences)
    if not changed:
        report.line(f"{count(len(outcomes), 'package')} rebuilt, identical")
    else:
        rows = [(name, *difference) for name, found in named for difference in found]
        report.table("differences", ["package", "where", "difference"], rows)
    every = Counter(p.parent.name for p in outcomes)
    columns = ["packages", "identical", "different"]
    counts = [(s, n, n - changed[s], changed[s]) for s, n in sorted(every.items())]
    report.table("rebuilt", ["subdir", *columns], counts, columns)
    if changed:
        raise NotReproduced(
            f"{count(changed.total(), 'package')} of {len(outcomes)} came out in another way",
            "the table says which file differs; what another version of ctk built has to be built"
            " again",
        )
