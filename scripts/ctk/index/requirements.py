"""What a project's METADATA requires, whatever the index says in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from email.message import Message

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from ctk.core.errors import LockError

LONGEST = 1000
"""Characters of a requirement. The longest of a manifest has 300; deep nesting would end the interpreter's stack."""
MOST = 2000
"""Requirements of one project; a manifest has 70."""
_STEP = "the index, or the project's publisher, has to mend it; nothing was written"


def stated(metadata: Message) -> list[tuple[str, Requirement | None]]:
    """Each requirement as it is written, and as it is understood: None for one that the standard does not know."""
    lines = [str(text) for text in metadata.get_all("Requires-Dist") or []]
    return [(line, _read(line) if len(lines) <= MOST else None) for line in lines[: MOST + 1]]


def read(metadata: Message, project: str) -> list[Requirement]:
    """Every requirement of a project, which ``project`` names; LockError when one of them cannot be understood."""
    requirements = stated(metadata)
    for line, requirement in requirements:
        if requirement is None:
            raise LockError(f"{project} requires what the standard does not know: {line[:LONGEST]!r}", _STEP)
    return [requirement for _, requirement in requirements if requirement]


def applies(requirement: Requirement, environments: Iterable[Mapping[str, str]]) -> bool:
    """Whether the marker of a requirement holds in one of some environments; LockError for one without an answer."""
    marker = requirement.marker
    try:
        return marker is None or any(marker.evaluate(dict(e)) for e in environments)
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise LockError(
            f"the requirement {str(requirement)!r} has a marker without an answer: {error}", _STEP
        ) from error


def _read(line: str) -> Requirement | None:
    try:
        return Requirement(line) if len(line) <= LONGEST else None
    except InvalidRequirement:
        return None
