"""What of a CTK release is not packaged on purpose, and what NVIDIA does not publish: ``variants/exclusions.yaml``.

The file is kept by hand; the release locks are generated. Together they account for every component of every release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticKnownError

from ctk.core.checkout import Workspace
from ctk.core.document import Document, problem_line, read
from ctk.core.errors import LockError, problems
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.lock import ReleaseLock

FILE = "exclusions.yaml"


def _minors(text: Any) -> SpecifierSet:
    """``*`` is every release."""
    if not isinstance(text, str):
        raise PydanticKnownError("string_type")
    try:
        if text == "*" or str(SpecifierSet(text)):
            return SpecifierSet("" if text == "*" else text)
    except InvalidSpecifier:
        pass
    raise ValueError(f"{text!r} says no releases; write a specifier of minors like '<12.3', or '*'")


def _component(text: str) -> str:
    if text not in {component.name for component in CTK_COMPONENTS}:
        raise ValueError(f"{text!r} is no component of a CTK release")
    return text


def _sentence(text: str) -> str:
    if " " not in text.strip():
        raise ValueError("a reason is a sentence")
    return text


Minors = Annotated[SpecifierSet, PlainValidator(_minors)]
Sentence = Annotated[str, AfterValidator(_sentence)]


@dataclass(frozen=True)
class Exclusion:
    """A component of the release locks that some CTK minors have and no recipe reads, with one sentence why."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    component: Annotated[str, AfterValidator(_component)]
    releases: Minors
    reason: Sentence

    def applies_to(self, lock: ReleaseLock) -> bool:
        return self.component in lock.components and Version(lock.minor) in self.releases


@dataclass(frozen=True)
class Unpublished:
    """A part of the CTK, named as in a manifest, that the manifests of some CTK minors do not name, and why."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    releases: Minors
    reason: Sentence


@dataclass(frozen=True)
class Exclusions:
    """The written list."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    excluded: tuple[Exclusion, ...] = ()
    unpublished: tuple[Unpublished, ...] = ()


_SHAPE = TypeAdapter(Exclusions)


@dataclass(frozen=True)
class Classes:
    """The components of one release.

    Attributes:
        packaged: Read by a build that is planned for the release.
        excluded: On the written list; none of them is packaged.
        unclassified: Neither. There must be none.
        needless: On the written list and packaged all the same. There must be none.
    """

    packaged: frozenset[str]
    excluded: frozenset[str]
    unclassified: frozenset[str]
    needless: frozenset[str]


def classify(lock: ReleaseLock, read: Collection[str], excluded: Iterable[Exclusion]) -> Classes:
    """Sorts the components of a release by what the builds planned for it read, and by the written list."""
    everything = frozenset(lock.components)
    packaged = everything.intersection(read)
    listed = frozenset(entry.component for entry in excluded if entry.applies_to(lock))
    return Classes(packaged, listed - packaged, everything - packaged - listed, listed & packaged)


def load(workspace: Workspace) -> Exclusions:
    """The written list of a checkout, empty where there is none; LockError with every problem of it and its line."""
    path = workspace.variants / FILE
    return parse(read(path)) if path.exists() else Exclusions()


def parse(text: str) -> Exclusions:
    """The list in the text of the file; its errors are those of `load`."""
    document = Document(text)
    wrong, listed = list(document.problems), Exclusions()
    try:
        listed = _SHAPE.validate_python(document.data if document.data is not None else {})
    except ValidationError as error:
        wrong += [problem_line(document, e) for e in error.errors()]
    if wrong:
        raise problems(LockError, FILE, wrong, f"mend variants/{FILE}: it is kept by hand")
    return listed


def needless(exclusions: Exclusions, locks: Mapping[str, ReleaseLock]) -> list[str]:
    """The entries that speak of no locked release."""
    releases = [lock for lock in locks.values() if lock.is_ctk]
    unused = [e.component for e in exclusions.excluded if not any(e.applies_to(lock) for lock in releases)]
    minors = [Version(lock.minor) for lock in releases]
    return unused + [u.name for u in exclusions.unpublished if not any(minor in u.releases for minor in minors)]
