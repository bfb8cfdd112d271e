"""Publishes into a folder that a web server or rsync serves file by file.

`ctk.channel.bucket` does the same in a bucket of S3, by what this module has under "files".

The folder is a real tree, not a link: packages have their final names in it, and each file is put
in place with one rename. Guarantees for readers at any moment, even when runs were killed:

- An index file is whole, and every package that it names exists with the stated size and sha256.
- The index of one subdir and an older index of another subdir were published together
  (`ctk.channel.repodata.steps`).
- A package stays for days after the last index that names it, for readers that still use that
  index.
- A package file name is never reused for other content, since clients, mirrors and lock files keep
  it. Packages are reproducible, so another sha256 means a change that needs another build number.
- A record states when its package was first in this index (CEP 47), and this time never changes.

The data for these guarantees is in ``.history``: the index files of the states, every name that was
ever used with its sha256, the time when each was first in the index, the time since when a package
is unused, and the names that a run is about to add. A killed run leaves the state before it, or a
mixture as above; the next run finishes the work. Only files that these notes name are deleted,
since other people may have files in the folder.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from ctk.channel.bill import BILL, bill_of
from ctk.channel.history import STATES, History, State, dump, load, numbered, read_note
from ctk.channel.local import is_built
from ctk.channel.repodata import (
    FILES,
    FIRST,
    STATED,
    ChannelIndex,
    Records,
    content_of,
    in_order,
    made_at,
    milliseconds,
    read_index,
    shows,
    steps,
)
from ctk.core.checkout import HISTORY
from ctk.core.console import listing
from ctk.core.disk import disk_errors
from ctk.core.errors import (
    BadValue,
    Busy,
    ChannelBroken,
    NameReused,
    NotReady,
    PublishFailed,
    UnknownName,
)
from ctk.core.files import (
    copy_file,
    file_sha256,
    holds,
    make_folder,
    read_json,
    read_plain,
    replace_file,
    temporaries,
)
from ctk.core.inside import outside, wrong_with
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.package.records import REPODATA, entries
from ctk.plan.recipes import find_recipes, maker_of

SITE = ".ctk-site"
"""Marks a folder that `ctk site` made, and replaces as a whole."""
FIELD = "attestations_sha256"  # in repodata: the sha256 of the sidecar
SIDECAR = ".sigs"
NAMES, TIMES, UNUSED, INCOMING = "names.json", "published.json", "unused.json", "incoming.json"
_SUBDIRS = (*PLATFORMS, NOARCH)
# A channel is not published that long after its build, so the clock is fast.
_STALE = timedelta(days=365)


class Attester(Protocol):
    """Signs packages."""

    def __call__(self, file: str, sha256: str) -> str:
        """The attestation of a package, given its file name and sha256: a bundle as JSON."""

    def has_made(self, attestation: Any, file: str, sha256: str) -> bool:
        """Whether an attestation of a package is by this signer, and for the same channel."""


@dataclass(frozen=True)
class Keep:
    """How long old states and packages are kept."""

    states: int = 10  # states to return to, including the current state
    # Time until a package is deleted that no kept state names.
    unused: timedelta = timedelta(days=7)


@dataclass(frozen=True)
class Published:
    """The changes that a run made; packages are ``subdir/file``."""

    state: int  # the number of the state that readers see now
    packages: int  # number of packages in its index
    added: tuple[str, ...]  # new in the folder
    left: tuple[str, ...]  # no longer in the index
    deleted: tuple[str, ...]  # unused for longer than `Keep.unused`
    left_out: tuple[str, ...]  # not published: their names have other content
    signed: tuple[str, ...] = ()  # got an attestation that they did not have
    repaired: tuple[
        str, ...
    ] = ()  # damaged in the folder, and written again: packages, and repodata.json of a subdir
    lost: tuple[str, ...] = ()  # in the index, neither in the folder nor in what was published now
    forgotten: tuple[int, ...] = ()  # the numbers of older states that had lost index files


@dataclass(frozen=True)
class Change:
    """How many packages differ between two states."""

    added: int
    left: int
    signed: int  # are in both, and have other attestations


def publish_again(place: str) -> str:
    """The command that publishes into a place again; only its keeper knows from which channel."""
    return f"ctk publish FOLDER --to {shlex.quote(place)}"


def change_of(before: ChannelIndex, after: ChannelIndex) -> Change:
    """What differs between the indexes of two states."""
    old, new = before.records, after.records
    both = old.keys() & new.keys()
    signed = [name for name in both if old[name].get(FIELD) != new[name].get(FIELD)]
    return Change(len(new.keys() - old.keys()), len(old.keys() - new.keys()), len(signed))


@dataclass(frozen=True)
class Folder:
    """A folder to publish into, created if needed."""

    path: Path
    recipes: Path  # the folder of feedstocks, for messages
    keep: Keep = Keep()
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)

    @property
    def name(self) -> str:
        """How messages call it."""
        return str(self.path)

    @property
    def notes(self) -> Path:
        return self.path / HISTORY

    def history(self) -> History:
        """The states of the folder; an empty history if its file is lost.

        Raises:
            ChannelBroken: The file is damaged.
        """
        return load(self.notes)

    def state_index(self, state: State) -> ChannelIndex:
        """The index of a kept state.

        Raises:
            ChannelBroken: The state has lost index files.
        """
        place = self.notes / str(state.number)
        try:
            index = read_index(place)
        except ChannelBroken:
            index = ChannelIndex()
        if len(index) != state.packages:
            notes = f"{self.name}/{HISTORY}"
            step = (
                f"put {notes}/{state.number} back, or return to another state: the next `ctk"
                " publish` forgets this one"
            )
            if state.number == self.history().current:
                step = (
                    f"put {notes}/{state.number} back, or delete {notes}/{STATES}: then its states"
                    " are forgotten, and what readers see is kept"
                )
            raise ChannelBroken(f"state {state.number} of {self.name} has lost index files", step)
        return index

    def whole(self, history: History) -> dict[int | None, ChannelIndex]:
        """The numbers of the states that have their index files, and their indexes."""
        found: dict[int | None, ChannelIndex] = {}
        for state in history.states:
            with suppress(ChannelBroken):
                found[state.number] = self.state_index(state)
        return found

    def changes(self, history: History) -> Mapping[State, Change | None]:
        """For each state with its index files, what differs from the state before.

        None where that is not kept, or has lost index files.
        """
        whole = self.whole(history)
        found: dict[State, Change | None] = {}
        for state in (state for state in history.states if state.number in whole):
            before = whole.get(state.before)
            found[state] = None if before is None else change_of(before, whole[state.number])
        return found

    def names(self) -> dict[str, str]:
        """Every name that was ever used -> sha256.

        Files of killed runs and of other people are hashed.

        Raises:
            ChannelBroken: The file of names is damaged. Without it a name could be reused for other
                content.
        """
        noted = (
            read_note(
                self.notes / NAMES,
                dict[str, str],
                "the names of deleted packages may be used again",
            )
            or {}
        )
        indexed = self.visible().names()
        # Files of other people count with their current content.
        unknown = self._packages() - indexed.keys() - (noted.keys() & self._ours())
        return {
            **indexed,
            **noted,
            **{name: self._sha256(name) for name in sorted(unknown)},
        }

    def times(self) -> dict[str, str]:
        """``subdir/file`` -> time of first publication.

        From the notes or, after a killed run, from the index.
        """
        return {**self.visible().times(), **moments(self.notes / TIMES)}

    def refuse_unless_for_readers(self, channel: Path) -> None:
        """Raises BadValue if the folder is not for readers only.

        It may not be the channel to be published, a built one or in one, a site, or a file.
        """
        place = Path(os.path.realpath(self.path))
        if (there := next(p for p in (place, *place.parents) if p.exists())).is_file():
            raise BadValue(f"{there} is a file", "name a folder, such as --to /srv/www/cuda")
        if (place / SITE).exists():  # `ctk site` would replace it, with the channel
            raise BadValue(
                f"{self.path} is a site that `ctk site` wrote",
                "name another folder, such as --to /srv/www/cuda",
            )
        if place == self.recipes.parent.resolve():
            raise BadValue(
                f"{self.path} is this checkout", "name another folder, such as --to /srv/www/cuda"
            )
        if outer := next((p for p in place.parents if (p / HISTORY / NAMES).is_file()), None):
            step = f"publish into that one, --to {shlex.quote(str(outer))}, or name another folder"
            raise BadValue(f"{self.path} is in the published folder {outer}", step)
        if is_built(place) or place == Path(os.path.realpath(channel)):
            raise BadValue(
                f"{self.path} is a built channel, or in one; nothing can be published into it",
                "name another folder, which is for readers only, such as --to /srv/www/cuda",
            )
        inner = (
            [c.name for c in place.iterdir() if (c / HISTORY).is_dir() or is_built(c)]
            if place.is_dir()
            else []
        )
        if inner and not self.notes.is_dir():
            raise BadValue(
                f"{self.path} contains another channel, {inner[0]}",
                "name a folder for this channel alone",
            )
        self._refuse_damaged_of_others()

    def _refuse_damaged_of_others(self) -> None:
        """Raises BadValue for a damaged index that no run has published: it would be lost."""
        if self.history().current is not None:
            return
        try:
            read_index(self.path)
        except ChannelBroken:
            files = listing([*self._unreadable()]) or "a record without its name or its sha256"
            raise BadValue(
                f"nothing was published into {self.name}, and its index cannot be read: {files}",
                "name another folder, or correct this index",
            ) from None

    def publish(
        self,
        channel: Path,
        *,
        index: ChannelIndex | None = None,
        exact: bool = False,
        skip_taken: bool = False,
        attester: Attester | None = None,
        progress: Callable[[str], None] = lambda name: None,
    ) -> Published:
        """Publishes a built channel, which must not change meanwhile.

        After an error, readers see the old state. Packages that are damaged in the folder are
        replaced. An impossible time of publication, from a run with a wrong clock, becomes the time
        of this run.

        Args:
            channel: The built channel, or another one with packages.
            index: What of the channel is published; all that its own index names by default.
                Attestations that it names are beside the packages, and are published too.
            exact: Whether packages that the channel lacks leave the index.
            skip_taken: Whether packages whose names have other content are left out.
            attester: Signs each package.
            progress: Called with the name of each package.

        Raises:
            NameReused: A package's name has other content, without `skip_taken`.
            BadValue: The folder is not for readers only.
            NotReady: The clock of this machine is wrong.
        """
        self.refuse_unless_for_readers(channel)
        ours = index or read_index(channel)
        self._check_clock(channel, ours)
        with self._held():
            return self._publish(channel, ours, exact, skip_taken, attester, progress)

    def _publish(
        self,
        channel: Path,
        ours: ChannelIndex,
        exact: bool,
        skip_taken: bool,
        attester: Attester | None,
        progress: Callable[[str], None],
    ) -> Published:
        """Publishes a built channel with the index `ours`, while no other run does."""
        order = in_order(channel, ours)
        now = self.now().isoformat(timespec="milliseconds")
        history, names = self._adopted(self.history().until(now)), self.names()
        before = self._dated(history.shown) if history.shown else ChannelIndex()
        taken = clashes(ours.names(), names)
        if not skip_taken:
            refuse(taken, self.name, self.recipes)
        forgotten = {state.number for state in history.states} - self.whole(history).keys()
        fresh = ours.without(tuple(taken))
        sha256, times = fresh.names(), self.times()
        coming = [name for name in order if name in sha256]
        self._note_incoming(sha256.keys() - times.keys(), now)
        repaired = [*self._unreadable(), *self._put_all(channel, order, fresh.records, progress)]
        # Those that readers did not see: also after a rollback, or a run that was killed.
        seen = {*before.names(), *repaired}
        added = [name for name in coming if name not in seen]
        times = possible({**dict.fromkeys(sha256, now), **times}, before | fresh, now)
        wanted = self._with_kept_attestations((before | fresh).dated(times))
        if exact:
            wanted = wanted.without(wanted.names().keys() - ours.names().keys())
        unsigned = wanted
        wanted = self._with_sidecars(wanted, fresh, channel)
        if attester:
            wanted = self._attested(wanted, coming, attester)
        signed = [name for name in coming if _digest(wanted, name) != _digest(unsigned, name)]
        self._note(NAMES, {**names, **sha256})
        history, deleted = self._shown(before, wanted, history, forgotten, times)
        return Published(
            state=history.current or 0,
            packages=len(wanted),
            added=tuple(added),
            left=tuple(sorted(before.names().keys() - wanted.names().keys())),
            deleted=deleted,
            left_out=tuple(taken),
            signed=tuple(signed),
            repaired=tuple(repaired),
            lost=tuple(name for name in wanted.records if not self._exists(name)),
            forgotten=tuple(sorted(forgotten)),
        )

    def _note_incoming(self, names: Collection[str], now: str) -> None:
        """Notes the packages that this run is about to add, beside those of killed runs."""
        incoming = {**dict.fromkeys(names, now), **moments(self.notes / INCOMING)}
        self._note(INCOMING, incoming)

    def _put_all(
        self,
        channel: Path,
        order: Sequence[str],
        records: Records,
        progress: Callable[[str], None],
    ) -> list[str]:
        """Copies the packages with a record; returns those that were there, and damaged."""
        repaired = []
        for name in order:
            was_there = self._exists(name)
            if name in records and self._put(channel / name, name, records[name]) and was_there:
                repaired.append(name)
            progress(name)
        return repaired

    def _shown(
        self,
        before: ChannelIndex,
        wanted: ChannelIndex,
        history: History,
        forgotten: Set[int],
        times: Mapping[str, str],
    ) -> tuple[History, tuple[str, ...]]:
        """Shows readers the wanted index, as a new state if it differs, and cleans the folder.

        Returns:
            The history, and the packages that were deleted.
        """
        if (wanted.undated(), wanted.subdirs) != (before.undated(), before.subdirs):
            history = self._new_state(history, self._present(wanted))
        history = history.without(forgotten)
        self._show(wanted, history)
        self._note(TIMES, times)
        deleted = self._clean(history, wanted, times)
        still_coming = {
            name: time
            for name, time in moments(self.notes / INCOMING).items()
            if name not in times and self._exists(name)
        }
        self._note(INCOMING, still_coming)
        return history, deleted

    def rollback(self, number: int | None = None) -> State:
        """Shows readers an older state, by default the state before.

        Newer states stay, to be returned to as well.

        Raises:
            UnknownName: The state is not kept, or readers see it already.
            ChannelBroken: A package of the state is missing or damaged; nothing was changed.
        """
        with self._held():
            history = self.history()
            state = history.target(number, self.name)
            index = self._dated(state)
            if state.number == history.current and shows(
                self.path, self._present(index)
            ):  # else its index is damaged
                others = [str(s.number) for s in history.states if s != state]
                step = "it has no other state"
                if others:
                    step = f"the others are {listing(others)}: name one with --to"
                raise UnknownName(f"{self.name} shows state {state.number} already", step)
            if gone := [
                name for name, record in index.records.items() if not self._holds(name, record)
            ]:
                named = ", ".join(
                    f"{name} (damaged)" if self._exists(name) else name for name in gone
                )
                raise ChannelBroken(
                    f"state {state.number} of {self.name} lacks {named}",
                    "return to another state, or add them again from the channel that has them:"
                    f" {publish_again(self.name)}",
                )
            self._show(index, replace(history, current=state.number))
            return state

    def _refuse_links_out(self) -> None:
        """Raises ChannelBroken for a folder of it that is elsewhere.

        A run would remove files there.
        """
        for why in outside(self.path, [f"{name}/file" for name in (HISTORY, *_SUBDIRS)]).values():
            step = "put a folder in its place; nothing was changed"
            raise ChannelBroken(f"{self.path} is split over several places: {why}", step)

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._refuse_links_out()
        with disk_errors(self.path):
            make_folder(self.notes)
            try:
                lock = FileLock(self.notes / "lock").acquire(timeout=0)
            except Timeout:
                step = "run the command again when it has ended"
                raise Busy(f"another run publishes into {self.path}", step) from None
            with lock:
                for leftover in self.leftovers():
                    leftover.unlink()
                yield

    def leftovers(self) -> Iterator[Path]:
        """Half-written files of killed runs: notes, index files, and noted packages."""
        yield from temporaries(self.notes)
        yield from (file for file in temporaries(self.path) if file.name.startswith(f".{BILL}."))
        ours = self._ours()
        for file in (file for subdir in _SUBDIRS for file in temporaries(self.path / subdir)):
            name, _, process = file.stem[1:].rpartition(".")
            package = f"{file.parent.name}/{name.partition(SIDECAR)[0]}"
            if process.isdigit() and (name in FILES or package in ours):
                yield file

    @property
    def incoming(self) -> set[str]:
        """The packages that a run was about to add and that the index does not have yet."""
        return moments(self.notes / INCOMING).keys() - self.visible().records.keys()

    def _ours(self) -> set[str]:
        """The packages that were ever in the index, and those that a run was about to add."""
        return {*moments(self.notes / TIMES), *moments(self.notes / INCOMING)}

    def _check_clock(self, channel: Path, ours: ChannelIndex) -> None:
        """Raises NotReady if the clock is wrong, as dates are permanent.

        It is wrong if it is before a package was made, or a year after the build.
        """
        now = self.now()
        records = (self.visible() | ours).records
        newest = datetime.fromtimestamp(
            max(map(made_at, records.values()), default=FIRST) / 1000, UTC
        )
        file = max(channel.glob(f"*/{REPODATA}"), key=lambda file: file.stat().st_mtime)
        # An unpacked archive may state 1980.
        built = max(newest, datetime.fromtimestamp(file.stat().st_mtime, UTC))
        says, step = (
            f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC",
            "set it; `date -u` shows it",
        )
        if now < newest:
            raise NotReady(f"{says}, before a package was made ({newest:%Y-%m-%d %H:%M})", step)
        if now - built > _STALE:
            step += f"; if it is right, `touch {shlex.quote(str(file))}`"
            raise NotReady(
                f"{says}, more than a year after the channel was built ({built:%Y-%m-%d %H:%M})",
                step,
            )

    def _dated(self, state: State) -> ChannelIndex:
        """The index of a state, with what stays through rollbacks: times and attestations."""
        return self._with_kept_attestations(self.state_index(state).dated(self.times()))

    def _with_kept_attestations(self, index: ChannelIndex) -> ChannelIndex:
        """The index with the newest attestations that a kept state has: they only become more."""
        newest: dict[str, str] = {}
        for state in self.whole(self.history()).values():
            for name, record in state.records.items():
                if FIELD in record:
                    newest[name] = record[FIELD]
        records = dict(index.records)
        for name in records.keys() & newest.keys():
            records[name] = {**records[name], FIELD: newest[name]}
        return replace(index, records=records)

    def _adopted(self, history: History) -> History:
        """The history.

        A folder that had an index before the first run gets it as its first state.
        """
        found = read_index(self.path) if history.current is None else ChannelIndex()
        return self._new_state(history, found) if len(found) else history

    def _new_state(self, history: History, index: ChannelIndex) -> History:
        folder = self.notes / str(history.next_number)
        self._remove_state(folder)  # of a killed run
        for subdir in sorted(index.subdirs):
            self._write_index(index, folder, subdir, STATED)
        return history.with_state(len(index), self.now())

    def _with_sidecars(
        self, wanted: ChannelIndex, fresh: ChannelIndex, channel: Path
    ) -> ChannelIndex:
        """The index with the attestations of the published channel beside those of the folder."""
        records = dict(wanted.records)
        for name, record in fresh.records.items():
            digest = record.get(FIELD)
            if digest is not None:
                theirs = read_plain(channel / f"{name}{SIDECAR}.{digest}")
                content = joined(self._sidecar(name, records[name]), theirs)
                records[name] = {**records[name], FIELD: self._put_sidecar(name, content)}
        return replace(wanted, records=records)

    def _attested(
        self, index: ChannelIndex, names: Sequence[str], attester: Attester
    ) -> ChannelIndex:
        """The index with an attestation by `attester` of each named package.

        Attestations that are there stay beside it, as CEP 50 requires.
        """
        records = dict(index.records)
        for name in names:
            record, file = records[name], name.rpartition("/")[2]
            content = self._sidecar(name, record)
            is_signed = any(
                attester.has_made(attestation, file, record["sha256"])
                for attestation in attestations(content)
            )
            if is_signed and FIELD in record:
                continue
            if not is_signed:
                content = joined(content, f"[{attester(file, record['sha256'])}]".encode())
            records[name] = {**record, FIELD: self._put_sidecar(name, content)}
        return replace(index, records=records)

    def _sidecar(self, name: str, record: Mapping[str, Any]) -> bytes:
        """The attestations of a package that are in the folder.

        A killed run may have left some that no index names.
        """
        plain, digest = self._read(self.path / f"{name}{SIDECAR}"), record.get(FIELD)
        if digest is None or hashlib.sha256(plain).hexdigest() == digest:
            return plain
        return joined(self._read(self.path / f"{name}{SIDECAR}.{digest}"), plain)

    def _put_sidecar(self, name: str, content: bytes) -> str:
        """Writes the attestations of a package, and returns their sha256.

        First under the name with the hash, then under the name that tools guess. Only after this
        does an index name them, so that a reader of any index finds the files that it names.
        """
        digest = hashlib.sha256(content).hexdigest()
        self._write(self.path / f"{name}{SIDECAR}.{digest}", content)
        self._write(self.path / f"{name}{SIDECAR}", content)
        return digest

    def _show(self, index: ChannelIndex, history: History, gone: Collection[str] = ()) -> None:
        """Shows readers an index, and saves the history in which it is current.

        Entries of run_exports.json stay as long as their packages, except for those of packages in
        `gone`.
        """
        old, new = self._present(self.visible(), gone), self._present(index, gone)
        # A subdir that is no longer in the index gets empty index files.
        new = replace(new | old, records=index.records)
        if not shows(self.path, new):
            for step, subdir, files in steps(old, new):
                self._write_index(step, self.path, subdir, files)
        self._write_bill(index)
        self._save(history)

    def _present(self, index: ChannelIndex, gone: Collection[str] = ()) -> ChannelIndex:
        """The index with only the run exports of packages that are in the folder."""
        there = {n: e for n, e in index.run_exports.items() if n not in gone and self._exists(n)}
        return replace(index, run_exports=there)

    def visible(self) -> ChannelIndex:
        """The index that readers see now; an empty index if it is damaged, since it is replaced."""
        try:
            return read_index(self.path)
        except ChannelBroken:
            return ChannelIndex()

    def known(self) -> Set[str]:
        """The packages that readers see, by the history.

        By the index, where nothing was published yet.
        """
        state = self.history().shown
        return (self.state_index(state) if state else self.visible()).records.keys()

    def _unreadable(self) -> Iterator[str]:
        for file in self.path.glob(f"*/{REPODATA}"):
            try:
                entries(file)
            except ChannelBroken:
                yield f"{file.parent.name}/{REPODATA}"

    def _clean(
        self, history: History, index: ChannelIndex, times: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Deletes the oldest states, and packages that were unused for `Keep.unused`.

        Returns:
            The deleted packages.
        """
        kept, now, used = history.kept(self.keep.states), self.now(), {*index.records}
        stamp = now.isoformat(timespec="milliseconds")
        self._save(kept)
        for place in numbered(self.notes):
            if int(place.name) not in {state.number for state in kept.states}:
                self._remove_state(place)
        for state in kept.states:
            used |= self.state_index(state).names().keys()
        unused = dict.fromkeys((self._packages() & self._ours()) - used, stamp)
        for name, since in moments(self.notes / UNUSED).items():
            # A time before the package was published, or in the future, is from a wrong clock.
            if name in unused and milliseconds(times.get(name, since)) <= milliseconds(
                since
            ) <= milliseconds(stamp):
                unused[name] = since
        old = tuple(
            sorted(
                n for n, t in unused.items() if now - datetime.fromisoformat(t) >= self.keep.unused
            )
        )
        if old:
            self._show(index, kept, gone=old)
        for package in (self.path / name for name in old):
            # The package is last, so that after a kill the next run knows every file that is left.
            for file in (*self._sidecars(package), package):
                self._remove(file)
        self._note(UNUSED, {name: since for name, since in unused.items() if name not in old})
        return old

    # --- files: `ctk.channel.bucket` has objects in their place

    def _exists(self, name: str) -> bool:
        return (self.path / name).is_file()

    def _holds(self, name: str, record: Mapping[str, Any]) -> bool:
        """Whether a package is there with the content that its record states."""
        return holds(self.path / name, record["sha256"])

    def _sha256(self, name: str) -> str:
        return file_sha256(self.path / name)

    def _packages(self) -> set[str]:
        """The packages in the folder, whether an index names them or not."""
        files = (
            file
            for subdir in _SUBDIRS
            for file in (self.path / subdir).glob("[!.]*.conda")
            if file.is_file()
        )
        return {f"{file.parent.name}/{file.name}" for file in files}

    def _sidecars(self, package: Path) -> list[Path]:
        return [*package.parent.glob(f"{glob.escape(package.name)}{SIDECAR}*")]

    def _put(self, source: Path, name: str, record: Mapping[str, Any]) -> bool:
        """Copies a package into the folder unless it is there, undamaged.

        Returns whether it was copied.
        """
        if self._holds(name, record):
            return False
        target = self.path / name
        make_folder(target.parent)
        if target.is_dir():
            raise ChannelBroken(
                f"{target} is a folder, in place of a package", f"rmdir {shlex.quote(str(target))}"
            )
        if not source.is_file() or not copy_file(source, target, record["sha256"]):
            raise not_as_indexed(source)
        return True

    def _read(self, file: Path) -> bytes:
        """The content of a file; nothing if there is none."""
        return read_plain(file) if file.exists() else b""

    def _write(self, file: Path, content: bytes) -> None:
        make_folder(file.parent)
        replace_file(file, content)

    def _remove(self, file: Path) -> None:
        file.unlink(missing_ok=True)

    def _remove_state(self, place: Path) -> None:
        if place.is_symlink():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)

    def _note(self, name: str, noted: Mapping[str, str]) -> None:
        self._write(self.notes / name, json.dumps(noted, indent=1, sort_keys=True).encode())

    def _save(self, history: History) -> None:
        self._write(self.notes / STATES, dump(history))

    def _write_bill(self, index: ChannelIndex) -> None:
        file, content = self.path / BILL, bill_of(index)
        if self._read(file) != content:
            self._write(file, content)

    def _write_index(
        self, index: ChannelIndex, place: Path, subdir: str, files: Iterable[str]
    ) -> None:
        for name in files:
            self._write(place / subdir / name, content_of(index, subdir, name))


def attestations(content: bytes) -> list[Any]:
    """The attestations in a sidecar; none if it cannot be read."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def joined(old: bytes, new: bytes) -> bytes:
    """A sidecar with the attestations of two: one of them as it is, if it has all."""
    ours, theirs = attestations(old), attestations(new)
    missing = [attestation for attestation in theirs if attestation not in ours]
    if not missing and ours:
        return old
    if all(attestation in theirs for attestation in ours):
        return new
    return json.dumps([*ours, *missing]).encode()


def _digest(index: ChannelIndex, name: str) -> Any:
    return index.records[name].get(FIELD)


Clashes = Mapping[str, tuple[str, str]]
"""``subdir/file`` -> the published sha256, and the different sha256 of our package."""


def clashes(ours: Mapping[str, str], taken: Mapping[str, str]) -> Clashes:
    """The packages of ours that differ from the published ones.

    Both arguments are ``subdir/file`` -> sha256.
    """
    return {
        name: (taken[name], ours[name])
        for name in sorted(ours.keys() & taken.keys())
        if taken[name] != ours[name]
    }


def not_as_indexed(package: Path) -> PublishFailed:
    step = "run `ctk build` again, then publish again"
    return PublishFailed(f"{package} is not the package that its index names", step)


def refuse(found: Clashes, where: str, recipes: Path) -> None:
    """Raises NameReused for clashes, with both hashes of each name and the recipes to change."""
    if not found:
        return
    lines = [
        f"  {name}\n    published sha256 {old}\n    this one's sha256 {new}"
        for name, (old, new) in found.items()
    ]
    names = f"{len(found)} package file name" + ("s are" if len(found) > 1 else " is")
    known = find_recipes(recipes)
    makers = {maker_of(name.partition("/")[2].rsplit("-", 2)[0], known) or "" for name in found}
    steps = []
    if files := [f"recipes/{maker}/recipe.yaml" for maker in sorted(makers) if maker]:
        steps.append(f"raise the first term of `build: number` in {listing(files)}")
    if "" in makers:  # no recipe here makes what an author built with `ctk build-recipe`
        steps.append(
            "raise `build: number` in your recipe, for each of its builds by the same number (in"
            " those of examples/, by `build` in context)"
        )
    raise NameReused(
        "\n".join([f"{names} taken by other content in {where}:", *lines]),
        f"{listing(steps)}, and build again",
    )


def moments(file: Path) -> dict[str, str]:
    """Reads a file of ``subdir/file`` -> time in ISO 8601; empty if it cannot be read.

    Invalid times are left out, and names that are outside of the folder.
    """
    notes = read_json(file)
    if not isinstance(notes, dict):
        return {}
    return {n: text for n, text in notes.items() if _is_moment(text) and not wrong_with(n)}


def possible(times: Mapping[str, str], index: ChannelIndex, now: str) -> dict[str, str]:
    """The times of publication.

    A time in the future, or before the package was made, becomes `now`.
    """
    latest, records = milliseconds(now), index.records
    known = {
        name: (text, milliseconds(text), made_at(records.get(name, {})))
        for name, text in times.items()
    }
    return {
        name: text if made <= time <= latest else now for name, (text, time, made) in known.items()
    }


def _is_moment(text: object) -> bool:
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
