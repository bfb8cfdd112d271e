"""What the artefacts of a component say of their licence, and where that is not what is locked already."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser

from ctk.core.errors import LicenceChanged, UnknownName, problems
from ctk.index import inside
from ctk.index.index import Index, IndexFile
from ctk.lock.lock import UNDECLARED, Component, ReleaseLock

_LONGEST = 120  # characters of a declaration; what is longer is a text
_IN_A_WHEEL = re.compile(r"[^/]+\.dist-info/(licenses/.+|[^/]+)")
_IN_SOURCES = re.compile(r"[^/]+/[^/]+")
_NAMED = re.compile(r"licen[cs]e|copying|notice|eula", re.I)


@dataclass(frozen=True)
class Licence:
    """What one artefact declares, `UNDECLARED` without any, and the sha256 of its licence file, or of several."""

    declared: str
    text: str | None


@dataclass(frozen=True)
class LicenceChange:
    """A component whose licence is not the one that was accepted.

    Attributes:
        release: Name of the lock it is for.
        before: Name of the lock it was compared with.
        old: The component there.
        new: The component as it would be locked.
    """

    release: str
    before: str
    old: Component
    new: Component

    @property
    def unseen(self) -> tuple[str, ...]:
        """The sha256s of licence texts that the old component did not have."""
        return tuple(text for text in self.new.license_texts if text not in self.old.license_texts)

    @property
    def old_and_new(self) -> tuple[str, str]:
        """What changed, for a person: the declarations, and the texts where a new one is among them."""
        if not self.unseen:
            return self.old.license, self.new.license
        return _said(self.old.license, self.old.license_texts), _said(self.new.license, self.new.license_texts)

    def __str__(self) -> str:
        old, new = self.old_and_new
        component = f"{self.release} {self.new.name} ({self.new.distribution} {self.new.version})"
        return f"{component}: {old} in {self.before} -> {new}"


def read(index: Index, file: IndexFile) -> Licence:
    """What a wheel or source distribution says; of a large one only the parts that say it are fetched.

    Raises:
        MeasureFailed: When it cannot be read.
    """
    with index.opened(file) as stream, inside.members(stream, file.file) as files:
        metadata = BytesParser().parsebytes(inside.metadata_of(files, file.file).text(), headersonly=True)
        place = _IN_A_WHEEL if file.file.endswith(".whl") else _IN_SOURCES
        named = [m for m in files if place.fullmatch(m.name) and _NAMED.search(m.name.rpartition("/")[2])]
        texts = sorted({_digest(member.text()) for member in named})
    combined = hashlib.sha256("\n".join(texts).encode()).hexdigest() if len(texts) > 1 else None
    return Licence(declared(metadata), combined or next(iter(texts), None))


def together(stated: Iterable[Licence]) -> tuple[str, tuple[str, ...]]:
    """What the artefacts of a component declare, all of it where they differ, and the sha256s of their texts."""
    licences = list(stated)
    names = sorted({licence.declared for licence in licences}) or [UNDECLARED]
    return " | ".join(names), tuple(sorted({licence.text for licence in licences if licence.text}))


def declared(metadata: Message) -> str:
    """The licence that METADATA states: ``License-Expression``, else ``License``, else the classifiers.

    A ``License`` that is a whole text becomes its first line and a sha256.
    """
    for field in ("License-Expression", "License"):
        text = str(metadata[field] or "")
        line = " ".join(text.split())
        if line and line != "UNKNOWN":
            return line if len(line) <= _LONGEST else _shortened(text)
    classifiers = map(str, metadata.get_all("Classifier") or [])
    names = {c.removeprefix("License ::").strip() for c in classifiers if c.startswith("License ::")}
    return "; ".join(sorted(names)) or UNDECLARED


def changes(locks: Mapping[str, ReleaseLock], made: Iterable[ReleaseLock]) -> list[LicenceChange]:
    """The components of new locks whose declaration is not what is locked, or that bring a text that is not.

    Each is compared with the lock that the new one replaces; where that lacks the component, with the newest other
    release of the same major, then of the same kind. What no lock has is new, and no change.
    """
    compared = []
    for lock in made:
        before = _predecessors(locks, lock)
        for new in lock.components.values():
            if other := next((other for other in before if new.name in other.components), None):
                compared.append(LicenceChange(lock.name, other.name, other.components[new.name], new))
    return [change for change in compared if change.old.license != change.new.license or change.unseen]


def check(locks: Mapping[str, ReleaseLock], made: Sequence[ReleaseLock], accepted: Sequence[str], every: bool) -> None:
    """Refuse new locks with a changed licence, but for components that are ``accepted``, or ``every`` one.

    Raises:
        LicenceChanged: Naming each component, with the licence it had and the one it has.
        UnknownName: When an accepted name is no component of the new locks.
    """
    known = {name for lock in made for name in lock.components}
    for name in accepted:
        if name not in known:
            raise UnknownName.of("component", name, known)
    refused = [] if every else [c for c in changes(locks, made) if c.new.name not in accepted]
    if refused:
        first = refused[0].new.name
        step = "nothing was written; read the licences in the artefacts, and if they may be redistributed, repeat the"
        step += f" command with --accept-licence {first} (for each), or --accept-licences"
        raise problems(LicenceChanged, "licences that are not those locked before", [str(c) for c in refused], step)


def _predecessors(locks: Mapping[str, ReleaseLock], lock: ReleaseLock) -> list[ReleaseLock]:
    """The locks that a new one is compared with, nearest first; those in place are sorted, oldest first."""
    kind = lock.name.partition("-")[0]
    alike = [k for k in reversed(list(locks.values())) if k.name.partition("-")[0] == kind and k.name != lock.name]
    in_place = [locks[lock.name]] if lock.name in locks else []
    return in_place + sorted(alike, key=lambda other: other.major != lock.major)


def _said(name: str, texts: Sequence[str]) -> str:
    return f"{name} (text {' '.join(text[:12] for text in texts) or 'none'})"


def _digest(text: bytes) -> str:
    """Of a text, whatever its line ends: wheels of one version differ in them by system."""
    return hashlib.sha256(text.replace(b"\r\n", b"\n")).hexdigest()


def _shortened(text: str) -> str:
    line = " ".join(next(line for line in text.splitlines() if line.strip()).split())
    normal = " ".join(text.split())
    return f"{line[:_LONGEST]} (text {hashlib.sha256(normal.encode()).hexdigest()})"
