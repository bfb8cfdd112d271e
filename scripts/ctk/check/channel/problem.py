"""What a check of a channel finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        package: ``subdir/file``; of a package, or of a file of the index.
        check: What was looked at: ``index``, ``file``, ``orphan``, ``metadata``, ``payload``, ``run-exports``,
            ``sbom``, ``attestation`` or ``name``.
        what: What is wrong with it.
    """

    package: str
    check: str
    what: str


@dataclass(frozen=True)
class CheckReport:
    """What was looked at, and what was found.

    Attributes:
        problems: Sorted.
        packages: How many the index names.
        size: Their bytes.
        sboms: How many of them carry one that is right.
        attestations: Signer -> how many attestations of theirs were verified.
        seconds: Wall time.
    """

    problems: tuple[Problem, ...]
    packages: int
    size: int
    sboms: int = 0
    attestations: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
