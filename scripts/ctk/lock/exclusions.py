"""What of a CTK release is not packaged on purpose, and what NVIDIA does not publish: ``variants/exclusions.yaml``.

The file is kept by hand; the release locks are generated. Together they account for every component of every release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ctk.core.checkout import Workspace
from ctk.core.document import Document, problem_line, read
from ctk.core.errors import LockError, problems
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.lock import ReleaseLock
from ctk.lock.manifest import Pin

FILE = "exclusions.yaml"


@dataclass(frozen=True)
class Exclusion:
    """A component that some releases have and no recipe reads.

    Attributes:
        component: Its name in the release locks.
        releases: The CTK minors.
        reason: One sentence.
    """

    component: str
    releases: SpecifierSet
    reason: str

    def applies_to(self, lock: ReleaseLock) -> bool:
        return self.component in lock.components and Version(lock.minor) in self.releases


@dataclass(frozen=True)
class Unpublished:
    """A part of the CTK that the manifests of some releases do not name.

    Attributes:
        name: The manifest's, where another release has it; else NVIDIA's.
        releases: The CTK minors.
        reason: One sentence.
    """

    name: str
    releases: SpecifierSet
    reason: str

    def is_in(self, minor: str, manifest: Iterable[Pin]) -> bool:
        """Whether the manifest of a release, of which this entry says that it lacks the part, names it."""
        if Version(minor) not in self.releases:
            return False
        suffix = f"-cu{minor.partition('.')[0]}"
        names = {pin.requirement.name.removeprefix("nvidia-").removesuffix(suffix) for pin in manifest}
        return self.name in names | {pin.extra for pin in manifest}


@dataclass(frozen=True)
class Exclusions:
    """The written list."""

    excluded: tuple[Exclusion, ...] = ()
    unpublished: tuple[Unpublished, ...] = ()


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
    """Sorts the components of a release.

    Args:
        lock: The release.
        read: The components that the builds planned for it read.
        excluded: The written list.
    """
    everything = frozenset(lock.components)
    packaged = everything.intersection(read)
    listed = frozenset(entry.component for entry in excluded if entry.applies_to(lock))
    return Classes(packaged, listed - packaged, everything - packaged - listed, listed & packaged)


def load(workspace: Workspace) -> Exclusions:
    """The written list of a checkout; empty where there is none.

    Raises:
        LockError: With every problem of it, each with its line.
    """
    path = workspace.variants / FILE
    return parse(read(path)) if path.exists() else Exclusions()


def parse(text: str) -> Exclusions:
    """The same for the text of the file."""
    document = Document(text)
    found, model = list(document.problems), _Model()
    try:
        model = _Model.model_validate(document.data if document.data is not None else {})
    except ValidationError as error:
        found += [problem_line(document, e) for e in error.errors()]
    if found:
        raise problems(LockError, FILE, found, f"mend variants/{FILE}: it is kept by hand")
    return Exclusions(
        tuple(Exclusion(e.component, _specifier(e.releases), e.reason) for e in model.excluded),
        tuple(Unpublished(u.name, _specifier(u.releases), u.reason) for u in model.unpublished),
    )


def needless(exclusions: Exclusions, locks: Mapping[str, ReleaseLock]) -> list[str]:
    """The entries that speak of no locked release."""
    releases = [lock for lock in locks.values() if lock.is_ctk]
    unused = [e.component for e in exclusions.excluded if not any(e.applies_to(lock) for lock in releases)]
    minors = [Version(lock.minor) for lock in releases]
    return unused + [u.name for u in exclusions.unpublished if not any(minor in u.releases for minor in minors)]


def _specifier(text: str) -> SpecifierSet:
    """``*`` is every release."""
    return SpecifierSet("" if text == "*" else text)


def _releases(text: str) -> str:
    try:
        if text and str(_specifier(text)):
            return text
    except InvalidSpecifier:
        pass
    if text == "*":
        return text
    raise ValueError(f"{text!r} says no releases; write a specifier of minors like '<12.3', or '*'")


def _component(text: str) -> str:
    if text not in {component.name for component in CTK_COMPONENTS}:
        raise ValueError(f"{text!r} is no component of a CTK release")
    return text


def _sentence(text: str) -> str:
    if " " not in text.strip():
        raise ValueError("a reason is a sentence")
    return text


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    releases: Annotated[str, AfterValidator(_releases)]
    reason: Annotated[str, AfterValidator(_sentence)]


class _Excluded(_Entry):
    component: Annotated[str, AfterValidator(_component)]


class _Unpublished(_Entry):
    name: Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    excluded: list[_Excluded] = []
    unpublished: list[_Unpublished] = []
