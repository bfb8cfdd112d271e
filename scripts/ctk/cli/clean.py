"""`ctk clean`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from ctk.core.checkout import checkout
from ctk.core.console import Reporter, megabytes
from ctk.core.files import exclusive


def clean_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove what no lock, channel or environment needs from the caches of this checkout.

    All of it can be fetched or made again. Environments, channels and what a running command uses stay.

    Example: ctk clean --dry-run
    """
    from ctk.clean import clean

    where, report = checkout(), Reporter()
    # A user's cache for somebody else's checkout has nothing that the checkout's lock is for.
    own = not dry_run and where.cache == where.own_cache
    with exclusive(where, report.say) if own else nullcontext():
        groups = clean(where, dry_run=dry_run)
    freed = sum(group.freed for group in groups)
    report.result(
        cache=str(where.cache),
        dry_run=dry_run,
        freed=freed,
        groups=[{"name": g.name, "size": g.size, "freed": g.freed, "goes": g.goes} for g in groups],
    )
    went = "would go" if dry_run else "went"
    columns = ["group", "MB", f"MB that {went}", f"what {went}"]
    rows = [(g.name, megabytes(g.size), megabytes(g.freed), g.rule) for g in groups]
    report.table(str(where.cache), columns, rows, right=columns[1:3])
    report.line(f"{megabytes(freed)} MB {went}")
