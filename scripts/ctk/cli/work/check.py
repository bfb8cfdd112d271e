"""`ctk check` of a channel, of packages, or of both."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ctk.channel import local
from ctk.channel.attestations import KEY_NOT_NAMED, Policy
from ctk.channel.bucket import copied, open_bucket
from ctk.channel.check import ChannelReport, check_channel, mirrored
from ctk.channel.check_package import COMMIT_FIRST
from ctk.channel.distribution import ADVICE, Distribution, package_name, read
from ctk.channel.faults import CORRECT_RECIPE
from ctk.channel.own_key import refuse_unreadable
from ctk.channel.publish import Folder, Keep, clashes, publish_again, refuse
from ctk.channel.repodata import read_index
from ctk.channel.server import on_server
from ctk.cli.options import CheckOptions, not_both
from ctk.cli.work.audit import audit_places
from ctk.cli.work.places import is_built, is_channel, packages_in
from ctk.core.address import bucket_address
from ctk.core.checkout import HISTORY, Workspace, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue, ChannelBroken, CtkError
from ctk.core.secrets import without_credentials
from ctk.lock.redistribution import WORDS
from ctk.plan.names import known_names


def check_places(names: Sequence[str], options: CheckOptions) -> None:
    """Checks a channel, and audits packages, those of a built channel too.

    Raises:
        BadValue: Options and places do not go together.
        ChannelBroken, AuditFailed: There are problems; all are shown.
    """
    here, report = workspace(), Reporter()
    channels = [name for name in names if is_channel(name)]
    is_audited = bool(options.check or not channels or is_built(names[0], here))
    _refuse_contradictions(names, channels, is_audited, options)
    errors: list[CtkError] = []
    start = time.monotonic()
    if channels and not options.check:
        errors += _check_channel(names[0], options, here, report)
    if is_audited:
        errors += audit_places(names, options, here, report)
    if not options.check and not channels:
        packages = packages_in(map(Path, names), empty_ok=True)
        _show_files(read(packages), report)
    report.result(ok=not errors, seconds=round(time.monotonic() - start, 2))
    if errors:
        raise errors[0]


def _refuse_contradictions(
    names: Sequence[str], channels: Sequence[str], is_audited: bool, options: CheckOptions
) -> None:
    """Raises BadValue for options that do not go together, or not with the places."""
    not_both("--check", "the options about a channel", options.check and options.of_channel)
    if options.of_channel and not channels:
        raise BadValue(
            f"there is no channel in {' '.join(names)}",
            "name one, or leave out what is about a channel",
        )
    if options.base and not is_audited:
        step = "leave it out, or name a rule of the audit with --check"
        raise BadValue("--base is for the audit, which is of built channels and of packages", step)
    if channels and len(names) > 1 and not options.check:
        raise BadValue(
            "a channel cannot be checked together with anything else",
            "check each channel, and packages, in a run of their own",
        )


def _check_channel(
    name: str, options: CheckOptions, workspace: Workspace, report: Reporter
) -> list[CtkError]:
    """Prints the problems of a channel, and returns the error that they are."""
    bucket = bucket_address(Path(name))
    is_on_server = "://" in name and not bucket
    source: AbstractContextManager[Path] = nullcontext(Path(os.path.realpath(name)))
    if is_on_server:
        source = mirrored(name, workspace.temporary, report)
    elif bucket:
        source = copied(bucket, workspace.temporary, report)
    policy = Policy(
        options.identity,
        options.issuer,
        options.url,
        options.attested,
        options.trusted_root,
        options.key,
    )
    if options.key:
        refuse_unreadable(options.key)  # before a channel is downloaded
    with source as place:
        if options.published:
            _refuse_clashes(place, options.published, workspace, report)
        packages = packages_in([place], empty_ok=True)
        own = known_names(workspace).own
        with report.reading("check", packages) as task:
            found = check_channel(
                place,
                policy=policy,
                jobs=options.jobs or os.cpu_count() or 1,
                is_copy=is_on_server,
                is_ours=own.__contains__,
                progress=task.advance,
            )
        files = read(packages)
    report.result(**found.as_json())
    shown = without_credentials(name)
    is_by_anybody = policy.identity is None and policy.key is None
    _show_channel(found, is_by_anybody, shown, report)
    _show_files(files, report)
    if not found.findings:
        return []
    problems = f"{count(len(found.findings), 'problem')} in {shown}"
    return [ChannelBroken(problems, _step(name, found, options))]


def _refuse_clashes(place: Path, published: str, workspace: Workspace, report: Reporter) -> None:
    """Raises NameReused if names of a channel have other content where they are published.

    Else it says how many names were compared.
    """
    bucket = bucket_address(Path(published))
    if bucket:
        with open_bucket(bucket, workspace.recipes, Keep()) as target:
            taken = target.names()
    elif "://" in published:
        taken = on_server(published)
    else:
        taken = Folder(Path(published), workspace.recipes).names()
    ours, shown = read_index(place).names(), without_credentials(published)
    refuse(clashes(ours, taken), shown, workspace.recipes)
    both = ours.keys() & taken.keys()
    report.line(
        f"{count(len(both), 'file name')} of {len(ours)} used in {shown}, all for the same content"
    )


def _step(name: str, found: ChannelReport, options: CheckOptions) -> str:
    """What to do about the problems of a channel."""
    bucket = bucket_address(Path(name))
    checks = {finding.check for finding in found.findings}
    demands = _demands(options)
    if checks == {"attestation"} and {f.message for f in found.findings} == {KEY_NOT_NAMED}:
        return "name the public key with --key FILE"
    if checks == {"attestation"} and demands:
        return (
            f"see whether {listing(demands)} is what its keeper signed with; if it is, its keeper"
            " signs the packages again with `ctk publish`, --url and --sign-key or --attest"
        )
    if "://" in name and not bucket:
        return "ask its keeper to publish it again, or to return to a sound state"
    if checks == {"fault"}:
        return f"{CORRECT_RECIPE}; `ctk publish` refuses these packages until then"
    if checks == {"orphan"}:
        if not bucket and Folder(Path(name), Path(name)).incoming:
            return "a `ctk publish` into it was stopped: run the same command again"
        return "no reader of the channel needs these files: remove those that nobody else needs"
    if {finding.fix for finding in found.findings} == {COMMIT_FIRST}:
        return COMMIT_FIRST
    if local.is_built(Path(os.path.realpath(name))):
        return "build these packages again with `ctk build`, which also makes the index again"
    if bucket or (Path(name) / HISTORY).is_dir():
        folder = shlex.quote(name)
        return (
            f"publish the same packages again ({publish_again(name)}, where FOLDER is the channel"
            f" that has them), or return to a sound state: ctk rollback {folder}"
        )
    return "download it again"


def _demands(options: CheckOptions) -> list[str]:
    """The options that were typed and say who must have signed, and for which channel."""
    typed = {
        "--url": options.url,
        "--key": options.key,
        "--identity": options.identity,
        "--issuer": options.issuer,
        "--trusted-root": options.trusted_root,
    }
    return [name for name, value in typed.items() if value]


def _show_channel(found: ChannelReport, by_anybody: bool, place: str, report: Reporter) -> None:
    report.line(
        f"{count(found.subjects, 'package')}, {megabytes(found.size)} MB, {found.sboms} with a"
        f" sound SBOM: {count(len(found.findings), 'problem')} ({found.seconds:.1f} s)"
    )
    if found.without_sbom:
        names = listing(sorted({*map(package_name, found.without_sbom)}), most=3)
        report.line(f"without an SBOM, and not of this repository's recipes: {names}")
    for signer, number in found.attestations.items():
        report.line(f"{count(number, 'attestation')} verified, signed by {signer}")
    if found.unverified:
        attestations = count(found.unverified, "attestation")
        report.line(f"{attestations}, not verified: made with a key; name it with --key")
    if found.attestations and by_anybody:
        report.line("anybody may have signed them; --identity and --issuer name who must have")
    if found.findings:
        rows = [(finding.where, finding.check, finding.message) for finding in found.findings]
        report.table(f"problems of {place}", ["package", "check", "problem"], rows)


def _show_files(found: Distribution, report: Reporter) -> None:
    """Shows which files of wheels are as published, and what their licence texts say."""
    report.result(files=found.as_json())
    if not found.files:
        return
    report.line(found.summary)
    if found.change_rows:
        report.table("changed files of wheels", ["file", "change"], found.change_rows)
    columns = ["distribution", "files", "packages"]
    if all(word == WORDS["open-source"] for word, _, _ in found.words):
        return
    report.table("what their licence texts say", columns, found.words, columns[1:])
    if found.not_named:
        report.line(f"not named: files of {listing([*found.not_named])}")
    report.line(ADVICE)
