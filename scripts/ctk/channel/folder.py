"""Publishing into a folder that a web server, rsync or an object store hands out file by file.

The folder is a real tree, not a link: packages lie in it under their final names, and each file is put in place by one
rename. What a reader may rely on at any moment, whichever run was killed when:

- An index file is whole, and every package that it names is there with the size and sha256 that it states.
- An index of one subdir and an older one of another make a set that was published together (`put_in_place`).
- A package stays for days after the last index that names it is gone, for readers who hold that index.
- A package file name that was in the folder once is never given to other content.

- A record says when its package came into this index first (CEP 47), and never another time.

What the folder needs for that is in ``.history``: the index files of its states, the names that were ever used with
their sha256, when each was first in the index, and since when a package is not used. A killed run leaves the state
before it in place, or a mixture as above; the next run finishes the work.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from ctk.channel.attesting import Attester, attach
from ctk.channel.cleaning import (
    HISTORY,
    NAMES,
    STATES,
    TIMES,
    Keep,
    clean,
    moments,
    read_names,
    read_state,
    write_notes,
)
from ctk.channel.history import History, State, listed, load, save
from ctk.channel.index_files import FILES, ChannelIndex, put_in_place, read_index, shows, write_index
from ctk.channel.names import clashes, refuse
from ctk.channel.publish import in_order
from ctk.core.errors import Busy, ChannelBroken, PublishFailed, UnknownName
from ctk.core.files import copy_file, disk_errors, file_sha256, make_folder, temporaries


@dataclass(frozen=True)
class Published:
    """What a run did.

    Attributes:
        state: Number of the state that readers see now.
        packages: How many packages its index names.
        added: Those that were put into the folder.
        left: Names that are no longer in the index.
        deleted: Packages that were unused for long enough.
        skipped: Packages that were left out, since their names are taken by other content.
    """

    state: int
    packages: int
    added: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Folder:
    """A folder to publish into.

    Attributes:
        path: The folder; made when it is not there.
        recipes: The feedstocks, for messages.
        keep: What stays of the past.
        now: Says what time it is.
    """

    path: Path
    recipes: Path
    keep: Keep = field(default_factory=Keep)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)

    def history(self) -> History:
        """Its states; as their folders and what readers see tell them, where the file is lost.

        Raises:
            ChannelBroken: The file is damaged, or it is lost and a state is not whole.
        """
        found = load(self.path / HISTORY / STATES, self.path)
        if found is None:
            found, seen = listed(self.path / HISTORY, self.path, lambda place: len(read_index(place))), self._visible()
            same = [s for s in found.states if read_state(self.path, s).undated() == seen.undated()]
            found = replace(found, current=same[-1].number if same else None)
        return found

    def index(self, state: State | None) -> ChannelIndex:
        """The index of a kept state."""
        return ChannelIndex() if state is None else read_state(self.path, state).dated(self.times())

    def names(self) -> dict[str, str]:
        """Every name that was ever used -> sha256; what a killed run left without noting it is read."""
        noted = read_names(self.path)
        indexed = self._visible().names()
        there = {f"{p.parent.name}/{p.name}" for p in self.path.glob("*/*.conda") if not p.name.startswith(".")}
        unknown = there - noted.keys() - indexed.keys()
        return {**{name: file_sha256(self.path / name) for name in sorted(unknown)}, **indexed, **noted}

    def times(self) -> dict[str, str]:
        """``subdir/file`` -> when it came into the index first.

        As noted; else as the index says it, where a run was killed before it noted that; else, of what was published
        before times were noted, when the oldest kept state that names it was made.
        """
        noted, visible = moments(self.path / HISTORY / TIMES), self._visible()
        if noted and visible.names().keys() <= noted.keys():
            return noted
        found: dict[str, str] = {}
        for state in self.history().states:
            index = read_state(self.path, state)
            found = {**dict.fromkeys(index.names(), state.made), **index.times(), **found}
        return {**found, **visible.times(), **noted}

    def publish(
        self,
        channel: Path,
        *,
        exact: bool = False,
        skip_taken: bool = False,
        attester: Attester | None = None,
        progress: Callable[[str], None] = lambda name: None,
    ) -> Published:
        """Publishes a built channel.

        Args:
            channel: A built channel, which does not change meanwhile.
            exact: What the channel lacks leaves the index; without it, what was published before stays.
            skip_taken: A package whose name is taken by other content is left out; what has the name stays as it is.
            attester: Signs an attestation for each package that has none yet.
            progress: Told of each package that is there.

        Raises:
            NameReused: A name is taken by other content; nothing was changed.
            PublishFailed, NoSpace, Busy: Readers see what they saw before.
        """
        order = [f"{path.parent.name}/{path.name}" for path in in_order(channel)]
        ours = read_index(channel)
        with self._held():
            history = self._adopted(self.history())
            before, names = self.index(history.shown), self.names()
            taken = {clash.file for clash in clashes(ours.names(), names)}
            if not skip_taken:
                refuse(clashes(ours.names(), names), str(self.path), self.recipes)
            fresh = ours.without(taken)
            sha256, added = fresh.names(), []
            for name in order:
                if name in sha256 and self._put(channel / name, name, sha256[name]):
                    added.append(name)
                progress(name)
            published = {**dict.fromkeys(fresh.names(), self.now().isoformat(timespec="milliseconds")), **self.times()}
            wanted = before | fresh.dated(published)
            if exact:
                wanted = wanted.without(wanted.names().keys() - ours.names().keys())
            if attester:
                wanted = attach(wanted, self.path, [name for name in order if name in sha256], attester)
            write_notes(self.path / HISTORY / NAMES, {**names, **sha256})
            if wanted.records != before.records:
                history = self._new_state(history, wanted)
            self._show(wanted)
            save(history, self.path / HISTORY / STATES)
            write_notes(self.path / HISTORY / TIMES, published)
            left = sorted(before.names().keys() - wanted.names().keys())
            deleted = clean(self.path, history, set(wanted.names()), self.keep, self.now())
            return Published(
                history.current or 0, len(wanted), tuple(added), tuple(left), deleted, tuple(sorted(taken))
            )

    def rollback(self, number: int | None = None) -> State:
        """Lets readers see an older state again; the newer ones stay and can be returned to as well.

        Args:
            number: Which; the one before the current by default.

        Raises:
            UnknownName: It is not kept.
            ChannelBroken: A package that it names is not there; nothing was changed.
        """
        if not (self.path / HISTORY).is_dir():
            raise UnknownName(f"nothing was published into {self.path}, so there is no state to return to", "")
        with self._held():
            history = self.history()
            state = history.target(number)
            index = self.index(state)
            gone = [name for name in index.names() if not (self.path / name).is_file()]
            if gone:
                raise ChannelBroken(
                    f"state {state.number} of {self.path} lacks {', '.join(gone)}",
                    "return to another state, or publish again",
                )
            self._show(index)
            save(replace(history, current=state.number), self.path / HISTORY / STATES)
            return state

    @contextmanager
    def _held(self) -> Iterator[None]:
        with disk_errors(self.path):
            make_folder(self.path / HISTORY)
            lock = FileLock(self.path / HISTORY / "lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise Busy(
                    f"another run publishes into {self.path}", "run the command again when it has ended"
                ) from None
            try:
                for folder in (self.path / HISTORY, *self.path.glob("*/")):
                    for leftover in temporaries(folder):
                        leftover.unlink()
                yield
            finally:
                lock.release()

    def _adopted(self, history: History) -> History:
        """The history of a folder that had an index before anything was published into it: that is its first state."""
        found = read_index(self.path) if history.current is None else ChannelIndex()
        return self._new_state(history, found) if len(found) else history

    def _new_state(self, history: History, index: ChannelIndex) -> History:
        folder = self.path / HISTORY / str(history.next_number)
        shutil.rmtree(folder, ignore_errors=True)  # of a killed run
        for subdir in index.records:
            write_index(index, folder, subdir, FILES)
        return history.with_state(int(folder.name), len(index))

    def _put(self, source: Path, name: str, sha256: str) -> bool:
        """Puts a package into the folder unless it is there; whether it was put."""
        target = self.path / name
        if target.exists():
            return False
        make_folder(target.parent)
        if not source.is_file() or not copy_file(source, target, sha256):
            raise PublishFailed(
                f"{source} is not the package that its index names", "run `ctk build` again, then publish again"
            )
        return True

    def _show(self, index: ChannelIndex) -> None:
        old = self._visible()
        exports = {
            subdir: {file: entry for file, entry in files.items() if (self.path / subdir / file).exists()}
            for subdir, files in (index | old).run_exports.items()
        }
        # A subdir that the index does not have any more is shown empty.
        index = ChannelIndex({**{subdir: {} for subdir in old.records}, **index.records}, exports)
        if not shows(self.path, index):
            put_in_place(old, index, self.path)

    def _visible(self) -> ChannelIndex:
        """What index files in place name; a damaged one names nothing, and is replaced."""
        try:
            return read_index(self.path)
        except PublishFailed:
            return ChannelIndex()
