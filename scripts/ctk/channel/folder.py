"""Publishing into a folder that a web server, rsync or an object store hands out file by file.

The folder is a real tree, not a link: packages lie in it under their final names, and each file is put in place by one
rename. What a reader may rely on at any moment, whichever run was killed when:

- An index file is whole, and every package that it names is there with the size and sha256 that it states.
- An index of one subdir and an older one of another make a set that was published together (`put_in_place`).
- A package stays for days after the last index that names it is gone, for readers who hold that index.
- A package file name that was in the folder once is never given to other content: clients, mirrors and lock files
  keep what they saw. Packages are reproducible, so another sha256 means a change that needs another build number.
- A record says when its package came into this index first (CEP 47), and never another time.

What the folder needs for that is in ``.history``: the index files of its states, the names that were ever used with
their sha256, when each was first in the index, and since when a package is not used. A killed run leaves the state
before it in place, or a mixture as above; the next run finishes the work.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from filelock import FileLock, Timeout

from ctk.channel.index_files import FILES, ChannelIndex, in_order, put_in_place, read_index, shows, write_index
from ctk.channel.states import History, State, listed, load, save
from ctk.core.errors import Busy, ChannelBroken, CtkError, NameReused, PublishFailed, UnknownName
from ctk.core.files import (
    copy_file,
    disk_errors,
    file_sha256,
    make_folder,
    read_json,
    replace_file,
    temporaries,
)
from ctk.plan.recipes import find_recipes, maker_of

if TYPE_CHECKING:  # an extra
    from sigstore.sign import Signer, SigningContext

HISTORY = ".history"
PREDICATE = "https://schemas.conda.org/attestations/publish/v1"
FIELD = "attestations_sha256"  # in repodata: the sha256 of the sidecar
SIDECAR = ".sigs"
STATES, NAMES, TIMES, UNUSED = "history.json", "names.json", "published.json", "unused.json"


@dataclass(frozen=True)
class Keep:
    """What stays of the past."""

    states: int = 10  # that can be returned to, the one that readers see included
    unused: timedelta = timedelta(days=7)  # how long a package stays after no kept state names it


@dataclass(frozen=True)
class Published:
    """What a run did; packages as ``subdir/file``."""

    state: int  # that readers see now
    packages: int  # that its index names
    added: tuple[str, ...]  # to the folder
    left: tuple[str, ...]  # the index
    deleted: tuple[str, ...]  # since they were unused for long enough
    skipped: tuple[str, ...]  # since their names are taken by other content


@dataclass(frozen=True)
class Folder:
    """A folder to publish into; made when it is not there."""

    path: Path
    recipes: Path  # the feedstocks, for messages
    keep: Keep = Keep()
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
        """Publishes a built channel; after an error, readers see what they saw before.

        Args:
            channel: A built channel, which does not change meanwhile.
            exact: What the channel lacks leaves the index; without it, what was published before stays.
            skip_taken: A package whose name is taken by other content is left out, and not refused (`NameReused`).
            attester: Signs an attestation for each package that has none yet.
            progress: Told of each package that is there.
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
            if (wanted.records, wanted.subdirs) != (before.records, before.subdirs):
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
        """Lets readers see an older state again, by default the one before; the newer ones can be returned to as well.

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
        for subdir in sorted(index.subdirs):
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
        exports = {n: entry for n, entry in (index | old).run_exports.items() if (self.path / n).exists()}
        # A subdir that the index does not have any more is shown empty.
        index = ChannelIndex(index.records, exports, old.subdirs | index.subdirs)
        if not shows(self.path, index):
            put_in_place(old, index, self.path)

    def _visible(self) -> ChannelIndex:
        """What index files in place name; a damaged one names nothing, and is replaced."""
        try:
            return read_index(self.path)
        except PublishFailed:
            return ChannelIndex()


@dataclass(frozen=True)
class Clash:
    """A name that is taken."""

    file: str  # subdir/file
    published: str  # the sha256 that it has where it is published
    ours: str  # the sha256 that it would get


def clashes(ours: Mapping[str, str], taken: Mapping[str, str]) -> list[Clash]:
    """Which of our packages have another content than what was published; both are ``subdir/file`` -> sha256."""
    both = sorted(ours.keys() & taken.keys())
    return [Clash(file, taken[file], ours[file]) for file in both if taken[file] != ours[file]]


def refuse(found: Sequence[Clash], where: str, recipes: Path) -> None:
    """Raises NameReused if names are taken somewhere: each with both hashes, and the recipes to mend."""
    if found:
        lines = [f"  {c.file}\n    published sha256 {c.published}\n    this one's sha256 {c.ours}" for c in found]
        names = f"{len(found)} package file name" + ("s are" if len(found) > 1 else " is")
        raise NameReused("\n".join([f"{names} taken by other content in {where}:", *lines]), step_for(found, recipes))


def step_for(found: Sequence[Clash], recipes: Path) -> str:
    """What to do about clashes: which recipes need a higher build number."""
    known = find_recipes(recipes)
    makers = {maker_of(c.file.partition("/")[2].rsplit("-", 2)[0], known) or "<feedstock>" for c in found}
    files = ", ".join(f"recipes/{maker}/recipe.yaml" for maker in sorted(makers))
    return f"raise the first term of `build: number` in {files}, and build again"


def clean(folder: Path, history: History, shown: set[str], keep: Keep, now: datetime) -> tuple[str, ...]:
    """Drops states that are too old, and packages that no kept state has named for long enough; returns these.

    Nobody else publishes into the folder meanwhile, and `shown` is ``subdir/file`` of what readers see.
    """
    kept, used = history.kept(keep.states), set(shown)
    save(kept, folder / HISTORY / STATES)
    numbers = {str(s.number) for s in kept.states}
    for place in (folder / HISTORY).iterdir():
        if place.is_dir() and place.name not in numbers:
            shutil.rmtree(place)
    for state in kept.states:
        used |= read_state(folder, state).names().keys()
    noted = moments(folder / HISTORY / UNUSED)
    there = {f"{p.parent.name}/{p.name}" for p in folder.glob("*/*.conda")}
    unused = {name: noted.get(name, now.isoformat()) for name in sorted(there - used)}
    old = tuple(n for n, since in unused.items() if now - datetime.fromisoformat(since) >= keep.unused)
    for name in old:
        package = folder / name
        for file in (package, *package.parent.glob(f"{package.name}{SIDECAR}*")):
            file.unlink(missing_ok=True)
    write_notes(folder / HISTORY / UNUSED, {name: since for name, since in unused.items() if name not in old})
    return old


def read_state(folder: Path, state: State) -> ChannelIndex:
    """The index of a kept state of a published folder.

    Raises:
        ChannelBroken: It is not whole.
    """
    place = folder / HISTORY / str(state.number)
    try:
        index, why = read_index(place), "has lost index files"
    except PublishFailed as error:
        index, why = ChannelIndex(), f"cannot be read: {error.cause}"
    if len(index) != state.packages:
        raise ChannelBroken(
            f"state {state.number} of {folder} {why}",
            f"put {place} back, or delete it with {folder / HISTORY / STATES}: then the other states are listed anew, "
            "and what readers see is kept",
        )
    return index


def moments(file: Path) -> dict[str, str]:
    """Notes that say a moment of packages, ``subdir/file`` -> ISO 8601; those that cannot be read are left out."""
    found = read_json(file)
    return {name: text for name, text in found.items() if _is_moment(text)} if isinstance(found, dict) else {}


def _is_moment(text: object) -> bool:
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def read_names(folder: Path) -> dict[str, str]:
    """The names that a published folder has noted as used -> sha256.

    Raises:
        ChannelBroken: The note is damaged. Without it a name may get other content.
    """
    file = folder / HISTORY / NAMES
    try:
        found = json.loads(file.read_bytes())
        if not isinstance(found, dict) or not all(isinstance(sha256, str) for sha256 in found.values()):
            raise ValueError("it is no list of names")
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ChannelBroken(
            f"{file} cannot be read: {type(error).__name__}: {error}",
            f"put it back from a copy; or delete it (rm {file}): then the names of packages that are still in the "
            "folder are noted anew, and those of deleted ones may be used again",
        ) from None


def write_notes(file: Path, noted: Mapping[str, str]) -> None:
    """Writes notes; a reader sees the old ones or the new ones."""
    replace_file(file, json.dumps(noted, indent=1, sort_keys=True).encode())


class Attester(Protocol):
    """What signs."""

    def bundle(self, file: str, sha256: str) -> str:
        """A Sigstore bundle, as JSON, which says that a package of this name and content was published."""
        ...


@dataclass
class Sigstore:
    """Signs with the identity of the CI job that this runs in, and notes it in Sigstore's public log."""

    channel: str  # URL under which the folder is read, which becomes part of the statement
    context: Callable[[], SigningContext] = field(default=lambda: _public(), repr=False)
    token: Callable[[], str | None] = field(default=lambda: _ambient(), repr=False)
    _signer: Signer | None = field(default=None, init=False, repr=False)

    def bundle(self, file: str, sha256: str) -> str:
        from sigstore import dsse
        from sigstore.oidc import ExpiredIdentity
        from sigstore.sign import ExpiredCertificate  # type: ignore[attr-defined]  # it has no other public place

        statement = (
            dsse.StatementBuilder()
            .subjects([dsse.Subject(name=file, digest=dsse.DigestSet({"sha256": sha256}))])
            .predicate_type(PREDICATE)
            .predicate({"targetChannel": self.channel.rstrip("/")})
            .build()
        )
        try:
            try:
                return self._ready().sign_dsse(statement).to_json()
            except (ExpiredCertificate, ExpiredIdentity):  # they live for minutes; a large channel takes longer
                self._signer = None
                return self._ready().sign_dsse(statement).to_json()
        except CtkError:
            raise
        except Exception as error:  # sigstore's own have no common base, and its client's come through
            raise PublishFailed(
                f"{file} cannot be attested: {type(error).__name__}: {error}", "run the command again to go on"
            ) from error

    def _ready(self) -> Signer:
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer

        if self._signer is None:
            token = self.token()
            if token is None:
                raise PublishFailed(
                    "an attestation says which CI job published a package, and this is none that has an identity",
                    "run it in GitHub Actions with `permissions: id-token: write`, or without --attest",
                )
            self._signer = Signer(IdentityToken(token), self.context())
        return self._signer


def _public() -> SigningContext:
    from sigstore.models import ClientTrustConfig
    from sigstore.sign import SigningContext

    return SigningContext.from_trust_config(ClientTrustConfig.production())


def _ambient() -> str | None:
    from sigstore.oidc import detect_credential

    return detect_credential()


def attach(index: ChannelIndex, folder: Path, names: Sequence[str], attester: Attester) -> ChannelIndex:
    """The index with an attestation for each of some packages; those that have one keep it.

    A sidecar is written under its content's name, then under the name that tools guess, and only then named by the
    index that this returns: a reader of any index finds what it names.
    """
    fresh = {
        name: {**record, FIELD: _sidecar(folder / name, record["sha256"], attester)}
        for name, record in ((name, index.records[name]) for name in names)
        if FIELD not in record
    }
    return replace(index, records={**index.records, **fresh})


def _sidecar(package: Path, sha256: str, attester: Attester) -> str:
    """Writes the sidecar of a package, or takes the one that a killed run left; returns its sha256."""
    plain = package.with_name(package.name + SIDECAR)
    left = plain.read_bytes() if plain.exists() else b""  # what was accepted once stays, as CEP 50 demands
    content = left or f"[{attester.bundle(package.name, sha256)}]".encode()
    digest = hashlib.sha256(content).hexdigest()
    replace_file(package.with_name(f"{plain.name}.{digest}"), content)
    replace_file(plain, content)
    return digest
