"""``variants/contents.json``: the members of all artefacts, with what their binaries say.

That is their headers and GPUs. Each line is an artefact, a folder or a content. Most folders and
contents are in many artefacts: each is written once, and named by a digest. Left out are Python
sources in folders, except ``__init__.py``, and headers more than one folder below a folder
``include``: there are thousands, and their folder always has other headers above it.

A project with wheels for several Pythons has one of them here: they differ only in names and tags
of Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.version import Version
from pydantic import TypeAdapter, ValidationError

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, MeasureFailed
from ctk.core.files import read_plain
from ctk.core.memo import memo
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.versions import PythonTag
from ctk.lock.model import Artefact, ReleaseLock
from ctk.package import binaries, gpu_fatbin, gpu_support, scan
from ctk.package.binaries import Binary
from ctk.package.gpu_support import RENAMED, bound, present
from ctk.package.scan import scan_wheel

FILE = "contents.json"
LEFT_OUT = re.compile(r"(.*/)?include(/[^/]+){3,}|.+/[^/]*(?<!/__init__)\.py[cdix]?")
"""The names of members that are left out, unless their content has more than bytes."""
ELSEWHERE = "/elsewhere"
"""Stands for each absolute folder in a RUNPATH: one of the machine that made the wheel."""
_ABSOLUTE = re.compile(r"(?<![^:])/[^:]*")
_OWN_NAME = "="  # a SONAME that is the name of its file
_SEPARATOR = "|"
_DIGITS = 7  # of a digest; a collision is an error
_STEP = "look at that file"
_READERS = (
    Path(file)
    for file in (binaries.__file__, gpu_fatbin.__file__, gpu_support.__file__, scan.__file__)
)
# Notes of another reader are not used.
_READER = hashlib.sha256(b"".join(path.read_bytes() for path in _READERS)).hexdigest()[:8]


@dataclass(frozen=True)
class Content:
    """The content of a member, as far as the audit needs it.

    Attributes:
        binary: Headers of an ELF or PE file that a loader reads.
        gpus: The GPUs that its code runs on, as a spec for ``__cuda_arch``; "" without code.
        dll_folders: As in `ctk.package.reader.ScannedFile`.
    """

    binary: Binary | None = None
    gpus: str = ""
    dll_folders: tuple[str, ...] = ()


PLAIN = Content()
_CONTENT = TypeAdapter(Content)
Members = Mapping[str, Content]
"""Name of a member -> its content."""
AtHand = Callable[[Sequence[Artefact]], AbstractContextManager[Sequence[Path]]]
"""Gives the files of artefacts for as long as its block lasts: a whole release is gigabytes."""


@dataclass
class Contents:
    """The members of artefacts.

    Attributes:
        artefacts: sha256 -> its folder.
        folders: Digest -> its entries: ``name``, ``name/folder`` or ``name@content``.
        contents: Digest -> content, as JSON has it.
    """

    artefacts: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    contents: dict[str, Any] = field(default_factory=dict)

    def members(self, sha256: str) -> Members | None:
        """The members of an artefact; None where it is not measured."""
        root = self.artefacts.get(sha256)
        return None if root is None else dict(self._walk(root, ""))

    def _walk(self, digest: str, path: str) -> Iterator[tuple[str, Content]]:
        for entry in filter(None, self.folders[digest].split(_SEPARATOR)):
            name, slash, folder = entry.partition("/")
            if slash:
                yield from self._walk(folder, f"{path}{name}/")
            else:
                name, _, content = entry.partition("@")
                yield path + name, _content(self.contents[content], name) if content else PLAIN

    def add(self, sha256: str, members: Members) -> None:
        """Adds the members of an artefact; MeasureFailed for a name that the file cannot have."""
        tree: dict[str, Any] = {}
        for name, content in members.items():
            if content == PLAIN and LEFT_OUT.fullmatch(name):
                continue
            *folders, last = name.split("/")
            if any(mark in name for mark in (_SEPARATOR, "@")):
                raise MeasureFailed(f"a member is called {name!r}", _STEP)
            inner = tree
            for folder in folders:
                inner = inner.setdefault(folder, {})
            inner[last] = content
        self.artefacts[sha256] = self._put(tree)

    def _put(self, tree: Mapping[str, Any]) -> str:
        entries = []
        for name, inner in sorted(tree.items()):
            if isinstance(inner, dict):
                name += f"/{self._put(inner)}"
            elif inner != PLAIN:
                name += f"@{self._named(self.contents, _stated(inner, name))}"
            entries.append(name)
        return self._named(self.folders, _SEPARATOR.join(entries))

    @staticmethod
    def _named(known: dict[str, Any], stated: Any) -> str:
        digest = hashlib.sha256(json.dumps(stated).encode()).hexdigest()[:_DIGITS]
        if known.setdefault(digest, stated) != stated:
            raise MeasureFailed(
                f"two digests are {digest}", "raise their length in ctk/lock/contents.py"
            )
        return digest

    def of(self, shas: Iterable[str]) -> Contents:
        """Only these artefacts, with their folders and contents."""
        kept = Contents()
        for sha256 in sorted(set(shas) & self.artefacts.keys()):
            kept.add(sha256, self.members(sha256) or {})
        return kept

    def dump(self) -> str:
        """The text of the file."""
        parts = {"artefacts": self.artefacts, "folders": self.folders, "contents": self.contents}
        blocks = []
        for key, entries in parts.items():
            lines = ",\n".join(
                f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in sorted(entries.items())
            )
            blocks.append(f'"{key}": {{\n{lines}\n}}')
        return "{\n" + ",\n".join(blocks) + "\n}\n"


def _stated(content: Content, name: str) -> Any:
    if content.binary:
        search = tuple(
            replace(path, text=_ABSOLUTE.sub(ELSEWHERE, path.text))
            for path in content.binary.search
        )
        content = replace(content, binary=replace(content.binary, search=search))
    if content.binary and content.binary.soname == name:
        content = replace(content, binary=replace(content.binary, soname=_OWN_NAME))
    return _CONTENT.dump_python(content, mode="json", exclude_defaults=True)


def _content(stated: Any, name: str) -> Content:
    content = _CONTENT.validate_python(stated)
    if content.binary and content.binary.soname == _OWN_NAME:
        return replace(content, binary=replace(content.binary, soname=name))
    return content


_FILE = TypeAdapter(Contents)
_MEMBERS = TypeAdapter(dict[str, Content])


def path_of(workspace: Workspace) -> Path:
    return workspace.variants / FILE


def load(workspace: Workspace) -> Contents:
    """The contents in a checkout, empty without the file; LockError if it cannot be read."""
    path = path_of(workspace)
    return parse(read_plain(path)) if path.exists() else Contents()


def parse(text: str | bytes) -> Contents:
    """The contents that a text of the file has; LockError if it has none."""
    try:
        return _FILE.validate_json(text)
    except ValidationError as error:
        raise LockError(
            f"{FILE} cannot be read: {error}", "`ctk release measure --write` writes it"
        ) from error


def to_read(locks: Iterable[ReleaseLock]) -> tuple[Artefact, ...]:
    """The artefacts that are read for some locks, each file once."""
    found = {}
    for lock in locks:
        for component in lock.components.values():
            for artefact in representatives(component.artefacts):
                found[artefact.sha256] = artefact
    return tuple(found.values())


def representatives(artefacts: Mapping[str, Artefact | None]) -> list[Artefact]:
    """An artefact of a component for each platform.

    Of several for Pythons, the newest with the GIL.
    """
    by_subdir: dict[str, list[Artefact]] = {subdir: [] for subdir in (*PLATFORMS, NOARCH)}
    for artefact in filter(None, artefacts.values()):
        by_subdir[artefact.subdir].append(artefact)
    return [max(several, key=_by_python) for several in by_subdir.values() if several]


def _by_python(artefact: Artefact) -> tuple[bool, Version]:
    python = artefact.python or PythonTag("0")
    return not python.free_threaded, Version(python.minor)


def measure(
    known: Contents, lock: ReleaseLock, gpus: Sequence[str], at_hand: AtHand, kept: Path
) -> None:
    """Adds what is not known of a lock's artefacts, which are read one after another.

    With the GPUs that some toolkit can compile for. What was read is kept in a folder, so that a
    run that was ended goes on where it was.
    """
    gpus = [gpu for gpu in gpus if gpu != RENAMED or lock.major == "12"]
    for artefact in unmeasured(known, [lock]):
        note = memo(kept / "contents", [artefact.sha256, _READER], _MEMBERS)
        members = note.read()
        if members is None:
            with at_hand([artefact]) as (path,):
                members = note.write(read_contents(artefact, path, gpus))
        known.add(artefact.sha256, members)


def unmeasured(known: Contents, locks: Iterable[ReleaseLock]) -> tuple[Artefact, ...]:
    """Artefacts of some locks whose contents are not known."""
    return tuple(artefact for artefact in to_read(locks) if artefact.sha256 not in known.artefacts)


def read_contents(artefact: Artefact, path: Path, gpus: Sequence[str]) -> dict[str, Content]:
    there = present(gpus, "" if artefact.subdir == NOARCH else artefact.subdir)
    found = {}
    for file in scan_wheel(path):
        range_ = bound([file.code], there) if file.code else ""
        found[file.path] = Content(file.binary, range_, file.dll_folders)
    return found
