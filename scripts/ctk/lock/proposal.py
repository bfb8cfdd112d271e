"""What a generator would write: shown as a difference first, written on request, both halves of a release or none."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ctk.core.errors import LockError, problems
from ctk.core.files import disk_errors
from ctk.lock.lock import Component, ReleaseLock
from ctk.lock.text import dump, variant_config

_STEP = "nothing was written; look at those files on the index, and ask whoever runs it"


@dataclass(frozen=True)
class Change:
    """One file as it is and as it would be.

    Attributes:
        path: The file.
        old: Its text; None when there is no such file.
        new: The text it would have.
    """

    path: Path
    old: str | None
    new: str

    @property
    def is_needed(self) -> bool:
        return self.old != self.new

    def diff(self, root: Path) -> Iterator[str]:
        """A unified diff, line by line, with paths relative to ``root``."""
        name = self.path.relative_to(root).as_posix()
        return difflib.unified_diff(
            (self.old or "").splitlines(),
            self.new.splitlines(),
            f"a/{name}" if self.old is not None else "/dev/null",
            f"b/{name}",
            lineterm="",
        )


def changes(folder: Path, lock: ReleaseLock) -> tuple[Change, Change]:
    """What has to change so that ``folder`` holds a release: its ``.lock`` and its ``.yaml``.

    Raises:
        LockError: What the index states, names and versions among it, is not what a lock may hold.
    """
    from ctk.lock import schema as lock_schema

    _, wrong = lock_schema.parse_lock(dump(lock), lock.name)
    if wrong:
        raise problems(LockError, f"what the index states for {lock.name}", wrong, _STEP)
    texts = {f"{lock.name}.lock": dump(lock), f"{lock.name}.yaml": variant_config(lock)}
    first, second = (Change(folder / name, _text(folder / name), new) for name, new in texts.items())
    return first, second


def summary(old: ReleaseLock | None, new: ReleaseLock) -> Iterator[str]:
    """What a new lock changes, in the few lines that a person reads first: versions, and the targets of wheels.

    Args:
        old: The lock in place; None when there is none that can be read.
        new: What would replace it.
    """
    count = f"{len(new.components)} components, {len(new.artefacts)} artefacts"
    if old is None:
        yield f"{new.name} is new: {new.release}, {count}"
        return
    yield f"{new.name}: {old.release}{f' -> {new.release}' if new.release != old.release else ''}, {count}"
    yield from (
        f"  {name} is new: {new.components[name].version}" for name in sorted(new.components.keys() - old.components)
    )
    yield from (f"  {name} is gone" for name in sorted(old.components.keys() - new.components))
    for name in sorted(new.components.keys() & old.components):
        before, after = old.components[name], new.components[name]
        if before.version != after.version:
            yield f"  {name} {before.version} -> {after.version}"
        if before.license != after.license:
            yield f"  {name} has another licence: {before.license} -> {after.license}"
        elif before.license_texts != after.license_texts:
            yield f"  {name} has another licence text, declared as {after.license}"
        had, has = ({t for t, a in c.artefacts.items() if a} for c in (before, after))
        yield from (f"  {name} is no longer published for {target}" for target in sorted(had - has))
        yield from (f"  {name} is published for {target} now" for target in sorted(has - had))
        replaced = [t for t in sorted(had & has) if _content(before, t) != _content(after, t)]
        if before.version == after.version and replaced:
            yield f"  {name} {after.version} has another file for {', '.join(replaced)}"
    for name, places in new.missing.items():
        yield f"  {name} is not on the index for {', '.join(places)}"
    if old.facts and new.is_ctk and not new.facts:
        yield f"  its facts are to be measured again: ctk release measure {new.minor} --write"


def _content(component: Component, target: str) -> str | None:
    artefact = component.artefacts.get(target)
    return artefact.sha256 if artefact else None


def write(needed: Sequence[Change]) -> None:
    """Write every change, or leave every file as it was.

    Each new text is on disk beside its file before the first is put in place. A process that is killed between two of
    them leaves halves that disagree, which loading reports, with the command that repairs it.

    Raises:
        NoSpace: The disk is full, or a folder cannot be written.
    """
    with ExitStack() as undo:
        ready = []
        for change in needed:
            undo.enter_context(disk_errors(change.path.parent))
            change.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = change.path.with_name(f".{change.path.name}.{os.getpid()}")
            undo.callback(temporary.unlink, missing_ok=True)
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(change.new)
                file.flush()
                os.fsync(file.fileno())
            ready.append((temporary, change))
        with ExitStack() as roll_back:
            for temporary, change in ready:
                os.replace(temporary, change.path)
                roll_back.callback(_restore, change)
            roll_back.pop_all()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _restore(change: Change) -> None:
    if change.old is None:
        change.path.unlink(missing_ok=True)
    else:
        change.path.write_text(change.old, encoding="utf-8", newline="\n")
