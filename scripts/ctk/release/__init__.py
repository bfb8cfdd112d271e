"""New versions on the package index, and new locks.

Here: tables of the locks, which need no index.
"""

from __future__ import annotations

from collections.abc import Collection

from ctk.core.checkout import Marked, markdown_table
from ctk.lock.model import ReleaseLock, known_gpus
from ctk.package.gpu_support import spans

FACTS = ("release", "GPUs its compiler knows", "PTX ISA it writes")
TABLE = Marked(
    "table of releases",
    "ctk verify --write-table",
    "docs/how-the-right-build-is-picked.md",
)


def facts_rows(
    locks: Collection[ReleaseLock], others: Collection[ReleaseLock] = ()
) -> list[tuple[str, ...]]:
    """The facts of each CTK release; ``?`` where they are not measured.

    Other locks may know more GPUs.
    """
    known = known_gpus([*locks, *others])
    return [
        (
            k.release,
            *(
                (spans(k.facts.gpu_architectures, known), k.facts.ptx_isa)
                if k.facts
                else ("?", "?")
            ),
        )
        for k in locks
        if k.is_ctk
    ]


def markdown_of(locks: Collection[ReleaseLock]) -> str:
    """The table of the docs."""
    return markdown_table(FACTS, facts_rows(locks))
