"""`ctk publish` and `ctk rollback`: a built channel for readers, and its earlier states."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import typer
from packaging.version import Version

from ctk.channel import server as servers
from ctk.channel.attestations import Sigstore
from ctk.channel.bucket import open_bucket
from ctk.channel.distribution import ADVICE, ask, package_name, read
from ctk.channel.faults import CORRECT_RECIPE, noted_faults
from ctk.channel.history import History
from ctk.channel.local import is_built
from ctk.channel.own_key import OwnKey
from ctk.channel.publish import (
    FIELD,
    SITE,
    Attester,
    Folder,
    Keep,
    Published,
    clashes,
    publish_again,
    refuse,
)
from ctk.channel.repodata import ChannelIndex, in_order, read_index
from ctk.channel.source import named_state, open_source
from ctk.cli.options import PublishOptions, refuse_address
from ctk.core import console
from ctk.core.address import bucket_address
from ctk.core.checkout import (
    Workspace,
    channel_missing,
    refuse_without_recipes,
    settings,
    workspace,
)
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import AuditFailed, BadValue, ChannelBroken, UnknownName, WouldLose
from ctk.core.files import make_folder
from ctk.core.secrets import without_credentials
from ctk.lock.facts import known as known_gpu_code
from ctk.lock.model import release_locks
from ctk.package.gpu_subject import subjects
from ctk.package.records import python_of
from ctk.plan.plan import python_tags
from ctk.plan.recipes import find_recipes, maker_of

_FEWEST_STATES = 2  # the one that readers see, and one to return to


@dataclass(frozen=True)
class BuiltChannel:
    """What is published.

    Attributes:
        named: The place as it was named, or the default, with the number of a state.
        path: The state behind it, which a later build does not change.
        index: What its index has.
        names: Its packages, in the order of their dependencies.
    """

    named: str
    path: Path
    index: ChannelIndex
    names: list[str]

    @property
    def place(self) -> str:
        """Where its packages stay: `path` may be a copy for a while, or a state that goes."""
        return without_credentials(named_state(self.named)[0])

    @classmethod
    def read(cls, folder: Path | None, workspace: Workspace) -> BuiltChannel:
        """Raises ChannelBroken if packages of the index are missing."""
        if folder is None:
            refuse_without_recipes(workspace)
        named = folder or workspace.channel
        path = Path(os.path.realpath(named))
        names = in_order(path)
        lost = [name for name in names if not (path / name).is_file()]
        if lost:
            step = (
                "run `ctk build` again, which puts them back, or names the command that does;"
                " nothing was published"
            )
            raise ChannelBroken(
                f"{named} lacks {listing(lost, most=3)}, which its index names", step
            )
        return cls(str(named), path, read_index(path), names)


@contextmanager
def _built(options: PublishOptions, report: Reporter) -> Iterator[BuiltChannel]:
    """What is published: the built channel, or a state of a published one."""
    here = workspace()
    if options.source is None:
        yield BuiltChannel.read(options.folder, here)
        return
    make_folder(here.notes)
    with open_source(options.source, here.notes, report) as source:
        names = in_order(source.path, source.index)
        yield BuiltChannel(source.name, source.path, source.index, names)


@contextmanager
def _opened(to: Path, recipes: Path, keep: Keep) -> Iterator[Folder]:
    """A folder, or a bucket where an address of one was typed."""
    address = bucket_address(to)
    if address is None:
        yield Folder(to, recipes, keep)
        return
    with open_bucket(address, recipes, keep) as bucket:
        yield bucket


def into_place(options: PublishOptions, to: Path) -> None:
    """Publishes into a folder or a bucket, and shows what readers see of it now."""
    if options.keep < _FEWEST_STATES:
        raise BadValue(
            f"--keep {options.keep} would keep no state to return to, as the one that readers see"
            " counts too",
            f"name {_FEWEST_STATES} or more",
        )
    keep = Keep(options.keep, timedelta(days=options.keep_days))
    report = Reporter()
    with _opened(to, workspace().recipes, keep) as target, _built(options, report) as built:
        _publish_into(options, target, built, report)


def _publish_into(
    options: PublishOptions, target: Folder, built: BuiltChannel, report: Reporter
) -> None:
    here = workspace()
    if (options.attest or options.sign_key) and not options.url:
        raise BadValue(
            "an attestation says for which channel a package is", "name its URL with --url"
        )
    target.refuse_unless_for_readers(built.path)
    attester = _attester(options)
    _show_one_python(built, here, report)
    if options.source is None:
        _refuse_faults(built, target.known())
    _ask(built, target.known(), options.accept_redistribution, here, report)
    if options.exact:
        _refuse_withdrawal(options, target, built, report)
    had_no_history = not target.history().states and bool(target.visible().records)
    earlier = {state.number for state in target.history().states}
    files = [built.path / name for name in built.names]
    with report.reading("publish", files) as task:
        done = target.publish(
            built.path,
            index=built.index,
            exact=options.exact,
            skip_taken=options.skip_taken,
            attester=attester,
            progress=lambda name: task.advance((built.path / name).stat().st_size),
        )
    report.result(folder=target.name, **vars(done))
    _show_changes(done, target.name, options.keep_days, report)
    if had_no_history:
        report.line(f"{target.name} had no history: what readers saw before is now its first state")
    _show_details(done, report)
    kept = {state.number for state in target.history().states}
    dropped = [str(number) for number in sorted(earlier - kept - {*done.forgotten})]
    if dropped:
        report.line(f"no longer kept, because of --keep {options.keep}: state {listing(dropped)}")
    if attester:
        _show_not_signed(built, target, report)
    else:
        _show_unsigned(done, target, report)
    if done.left:
        _show_gone_toolkits(done.left, target.visible().names(), target, report)
    if done.added or done.left:
        _show_old_sites(target, report)
    if done.lost:
        cause = (
            f"{target.name} has lost {listing(done.lost, most=3)}, and {built.named} lacks it too"
        )
        raise ChannelBroken(cause, _step_for_lost(options, target))


def _step_for_lost(options: PublishOptions, target: Folder) -> str:
    """What to do about packages that neither a place nor what was published into it has."""
    build = ["ctk", "build", "NAME", "--release", "MINOR"]
    again = ["ctk", "publish", "--to", target.name]
    if options.folder:
        build += ["--to", str(options.folder)]
        again.insert(2, str(options.folder))
    put_back = f"build it again ({shlex.join(build)})"
    if options.source:
        put_back = f"publish it into {options.source} again"
        again[2:2] = ["--from", options.source]
    return f"{put_back}, then {shlex.join(again)}; or withdraw it, with --exact too"


def _refuse_withdrawal(
    options: PublishOptions, target: Folder, built: BuiltChannel, report: Reporter
) -> None:
    """Names what --exact takes out of the index, and asks for consent on a terminal.

    Raises:
        WouldLose: Nobody agreed.
    """
    seen = target.known()
    leaving = sorted(seen - {*built.names})
    if options.yes or not leaving:
        return
    packages = f"{len(leaving)} of {count(len(seen), 'package')}"
    loss = f"--exact takes {packages} out of the index of {target.name}"
    loss += f": {listing(leaving, most=0 if report.verbose else 3)}"
    toolkits = sorted(_toolkits(leaving) - _toolkits(built.names))
    if toolkits:
        loss += f"; no native toolkit stays for {listing([*map(str, toolkits)])}"
    if console.can_ask():
        report.line(loss)
        if typer.confirm("publish so?"):
            return
    raise WouldLose(
        f"{loss}; nothing was published", "add --yes to let them go, or leave --exact out", leaving
    )


def _attester(options: PublishOptions) -> Attester | None:
    """What signs packages; one without an identity or a key is an error before any is copied."""
    if options.sign_key:
        own = OwnKey(options.url or "", options.sign_key)
        _ = own.signer
        return own
    if not options.attest:
        return None
    sigstore = Sigstore(options.url or "")
    sigstore.signer()
    return sigstore


def _show_one_python(built: BuiltChannel, workspace: Workspace, report: Reporter) -> None:
    """Says that all packages for a Python are for the same one, where recipes have more."""
    if not workspace.build_config.is_file():
        return
    records = built.index.records.values()
    found = {python for record in records if (python := python_of(record.get("depends", ())))}
    if len(found) == 1 and len(python_tags(workspace.build_config)) > 1:
        line = f"{built.named} has packages for Python {found.pop()} only"
        if built.path == Path(os.path.realpath(workspace.channel)):
            line += "; `ctk build --all-pythons` builds for all others too"
        report.line(line)


def _show_changes(done: Published, to: str, keep_days: int, report: Reporter) -> None:
    """Prints the new state of a place, with the numbers of packages that changed, in a line."""
    changes = [f"{len(done.added)} new"]
    if done.repaired:
        changes.append(f"{count(len(done.repaired), 'damaged file')} written again")
    if done.signed:
        changes.append(f"{count(len(done.signed), 'new attestation')}")
    if done.left:
        changes.append(f"{len(done.left)} no longer in the index")
    if done.left_out:
        changes.append(f"{len(done.left_out)} skipped, because their names are taken")
    if done.deleted:
        changes.append(f"{len(done.deleted)} deleted after {keep_days} days without use")
    report.line(
        f"state {done.state} of {to}: {count(done.packages, 'package')}, {', '.join(changes)}"
    )


def _show_unsigned(done: Published, target: Folder, report: Reporter) -> None:
    """Says that new packages have no attestation, if others there have one."""
    records = target.visible().records
    signed = [name for name, record in records.items() if record.get(FIELD)]
    unsigned = [name for name in done.added if not records.get(name, {}).get(FIELD)]
    if signed and unsigned:
        verb = "has" if len(signed) == 1 else "have"
        report.line(
            f"{count(len(signed), 'package')} there {verb} attestations, but"
            f" {count(len(unsigned), 'new package')} without: publish again with --attest or"
            " --sign-key"
        )


def _show_not_signed(built: BuiltChannel, target: Folder, report: Reporter) -> None:
    """Says that packages of the index were not signed, since they are not in what was published."""
    others = target.visible().records.keys() - {*built.names}
    if others:
        packages = count(len(others), "package")
        report.line(
            f"{packages} there, such as {min(others)}, were not signed now, because {built.named}"
            " does not have them"
        )


def _show_details(done: Published, report: Reporter) -> None:
    """Names the states that are forgotten, and packages that are repaired or have left."""
    if done.forgotten:
        numbers = listing([str(number) for number in done.forgotten])
        report.line(f"forgotten, because their index files are lost: state {numbers}")
    most = 0 if report.verbose else 3
    if done.repaired:
        report.line(f"damaged and written again: {listing(done.repaired, most=most)}")
    if done.left:
        report.line(f"no longer in the index: {listing(done.left, most=most)}")


def _show_gone_toolkits(
    left: Collection[str], stay: Collection[str], target: Folder, report: Reporter
) -> None:
    """Says which toolkits left with packages, and what drivers for them get in their place."""
    staying = _toolkits(stay)
    gone = sorted(_toolkits(left) - staying)
    if not gone:
        return
    for best, minors in _by_replacement(gone, staying).items():
        drivers = "a driver for it" if len(minors) == 1 else "drivers for them"
        verb = "gets" if len(minors) == 1 else "get"
        report.line(f"toolkits that are gone: {listing(minors)} ({drivers} now {verb} {best})")
    if staying and not bucket_address(Path(target.name)):
        channel = shlex.quote(target.name)
        report.line(f"every machine: ctk solve cuda-version --everywhere --channel {channel}")


def _by_replacement(gone: Iterable[Version], staying: Set[Version]) -> dict[str, list[str]]:
    """What drivers for toolkits that are gone get -> these toolkits."""
    found: dict[str, list[str]] = {}
    for minor in gone:
        older = [other for other in staying if other < minor]
        best = str(max(older)) if older else "no native one"
        found.setdefault(best, []).append(str(minor))
    return found


def _toolkits(names: Collection[str]) -> set[Version]:
    """The toolkits that are native for drivers, by the names of packages."""
    matches = (re.search(r"/cuda-version-([\d.]+)-native", name) for name in names)
    return {Version(match[1]) for match in matches if match}


def to_server(options: PublishOptions, server: servers.Server) -> None:
    """Uploads packages to a server, and waits until it lists them."""
    report = Reporter()
    with _built(options, report) as built:
        _upload(options, server, built, report)


def _upload(
    options: PublishOptions, server: servers.Server, built: BuiltChannel, report: Reporter
) -> None:
    here = workspace()
    address = options.url or server.read_at()
    ours = built.index.names()
    published = {} if options.new else servers.on_server(address)
    taken = clashes(ours, published)
    if not options.skip_taken:
        refuse(taken, address, here.recipes)
    _show_one_python(built, here, report)
    if options.source is None:
        _refuse_faults(built, published)
    _ask(built, published, options.accept_redistribution, here, report)
    names = [name for name in built.names if name not in taken]
    files = [built.path / name for name in names if name not in published]
    with report.reading("upload", files) as task:
        servers.publish(
            files,
            server,
            options.attest,
            lambda file: task.advance(file.stat().st_size),
        )
    sent = {name: ours[name] for name in names}
    servers.confirm(sent, address, here.recipes, options.wait)
    report.result(
        server=without_credentials(server.url),
        channel=server.channel,
        packages=names,
        left_out=sorted(taken),
    )
    left = f"; {len(taken)} were skipped, because their names are taken" if taken else ""
    report.line(
        f"{count(len(names), 'package')} are in the channel {server.channel}, listed with their"
        f" sha256{left}"
    )


def _refuse_faults(built: BuiltChannel, published: Collection[str]) -> None:
    """Refuses new packages that `ctk build-recipe` found wrong, or that lack code for GPUs.

    What recipes of this checkout make, `ctk build` has checked.

    Raises:
        AuditFailed: There are some.
    """
    place = workspace()
    recipes = find_recipes(place.recipes)
    new = [name for name in built.names if name not in published]
    of_others = [name for name in new if not maker_of(package_name(name), recipes)]
    faults = noted_faults(built.path, new)
    steps = []
    if faults:
        steps.append(CORRECT_RECIPE)
    gpus = known_gpu_code(release_locks(place).values())
    for name in of_others:
        if name in faults:
            continue
        for subject in subjects(built.path / name, gpus):
            mistake = subject.mistake
            if mistake:
                faults[name] = mistake.cause
                steps.append(f"{name}: {mistake.step}")
    if faults:
        lines = [f"  {name}: {fault}" for name, fault in faults.items()]
        are = "are" if len(faults) > 1 else "is"
        new_packages = count(len(faults), "new package")
        cause = f"{new_packages} in {built.named} {are} not fit to be published:"
        steps.append("nothing was published")
        raise AuditFailed("\n".join([cause, *lines]), "; ".join(steps))


def _ask(
    built: BuiltChannel,
    published: Collection[str],
    accepted: bool,
    workspace: Workspace,
    report: Reporter,
) -> None:
    """Names new packages with files that their licence text does not name for distribution.

    Raises:
        NotAccepted: There are some, and neither the option nor the settings accept that.
    """
    known = {package_name(name) for name in published}
    new = [built.path / name for name in built.names if package_name(name) not in known]
    found = read(new).not_named
    report.result(not_named=found)
    if found:
        rows = [(name, len(paths), paths[0]) for name, paths in found.items()]
        report.table(
            "not named for distribution by their licence text",
            ["package", "files", "such as"],
            rows,
            ["files"],
        )
        report.line(ADVICE)
    accepted = accepted or settings(workspace.root).publish.accept_redistribution
    ask(found, accepted, built.place)


# --- rollback


def return_to(folder: Path, number: int) -> None:
    """Shows readers an earlier state of a published folder or bucket."""
    report = Reporter()
    with _published(folder) as target:
        state = target.rollback(number)
        report.result(channel=target.name, state=vars(state))
        packages = count(state.packages, "package")
        report.line(f"{target.name} shows state {state.number} of {state.made}: {packages}")
        _show_old_sites(target, report)


def list_states(folder: Path) -> None:
    """Shows the states that a published folder or bucket can return to.

    Raises:
        UnknownName: It has none.
    """
    with _published(folder) as target:
        _list_states(target)


def _list_states(target: Folder) -> None:
    report, known = Reporter(), target.history()
    if not known.states:
        cause = f"{target.name} has no states: a `ctk publish` into it was stopped, or is at work"
        step = "wait for that run, or type the same `ctk publish` again, with all of its options"
        if target.visible().records:
            step = _first_state(target.name)
        raise UnknownName(f"{cause} now, or its history.json is gone", step)
    states = _states(target, known)
    report.result(channel=target.name, states=states)
    rows = []
    for state in states:
        change = "" if state["added"] is None else f"+{state['added']} -{state['left']}"
        if state["signed"]:
            change += f", {state['signed']} signed"
        seen = "to readers" if state["current"] else ""
        followed = state["before"] or ""
        rows.append((state["number"], state["made"], state["packages"], followed, change, seen))
    report.table(
        f"states of {target.name}",
        ["state", "made", "packages", "followed", "change", "shown"],
        rows,
        ["state", "packages", "followed"],
    )
    whole = {state["number"] for state in states}
    lost = [str(state.number) for state in known.states if state.number not in whole]
    if lost:
        report.line(f"you cannot return to state {listing(lost)}, whose index files are lost")
    if states:
        report.line("--to N returns to a state")


def _states(target: Folder, known: History) -> list[dict[str, object]]:
    """The states with their index files, and how many packages each has more and less."""
    unknown = {"added": None, "left": None, "signed": None}
    return [
        {
            **vars(state),
            "current": state.number == known.current,
            **(vars(change) if change else unknown),
        }
        for state, change in target.changes(known).items()
    ]


def _first_state(place: str) -> str:
    return f"{publish_again(place)}; what readers see becomes its first state"


def _show_old_sites(target: Folder, report: Reporter) -> None:
    """Names sites that do not show what has changed: in a folder, or beside it, with its name."""
    place = target.path.absolute()
    files = {*place.glob(f"*/{SITE}"), *place.parent.glob(f"{place.name}*/{SITE}")}
    sites = sorted(str(file.parent) for file in files)
    if sites:
        report.line(
            f"{listing(sites)}: these pages are older than this; run the same `ctk site` again"
        )


@contextmanager
def _published(place: Path) -> Iterator[Folder]:
    """A folder or a bucket that was published to.

    Raises:
        UnknownName: Nothing was published into it.
        ChannelMissing: It does not exist.
    """
    if not bucket_address(place):
        refuse_address(place)
        if not place.exists():
            raise channel_missing(place)
    with _opened(place, workspace().recipes, Keep()) as found:
        if not found.notes.is_dir():
            raise _never_published(found)
        yield found


def _never_published(found: Folder) -> UnknownName:
    is_shown = bool(found.visible().records) and not is_built(Path(os.path.realpath(found.path)))
    cause, step = f"nothing was published into {found.name}", "name one that was published to"
    if is_shown:
        cause, step = f"{cause}, or its .history is gone", _first_state(found.name)
    return UnknownName(f"{cause}, so it has no states", step)
