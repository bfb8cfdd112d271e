"""`ctk clean`: what of the caches of a checkout nothing needs."""

from __future__ import annotations

from contextlib import nullcontext

import typer

from ctk.clean import Group, clean
from ctk.core import console
from ctk.core.checkout import known_workspace
from ctk.core.console import Reporter, megabytes
from ctk.core.locks import exclusive


def clean_up(*, yes: bool) -> None:
    """Shows what can go, asks on a terminal without `yes`, and removes it."""
    where, report = known_workspace(), Reporter()
    groups = clean(where, dry_run=True)
    freed = sum(group.freed for group in groups)
    folders = sorted(path for path in where.output.glob("[!.]*") if path.is_dir())
    output = [(path.name, Group.of(path.name, "", [path]).size) for path in folders]
    report.line(f"{megabytes(freed)} MB of {where.cache} can be removed", "bold")
    rows = [(g.name, megabytes(g.size), megabytes(g.freed), g.rule) for g in groups]
    columns = ["group", "MB", "MB that can be removed", "what can go"]
    report.table("caches", columns, rows, right=columns[1:3])
    sizes = [(name, megabytes(size)) for name, size in output]
    report.table(
        f"{where.output}, from which nothing is removed automatically",
        ["folder", "MB"],
        sizes,
        right=["MB"],
    )
    asks = console.can_ask()
    remove = yes or bool(freed and asks and typer.confirm(f"remove {megabytes(freed)} MB?"))
    if remove:
        # A user's cache for somebody else's checkout has nothing that the checkout's lock is for.
        with exclusive(where, report.say) if where.cache == where.own_cache else nullcontext():
            groups = clean(where)
        freed = sum(group.freed for group in groups)
        report.line(f"{megabytes(freed)} MB removed")
    elif freed:
        report.line("nothing was removed" + ("" if asks else "; --yes removes it"))
    report.result(
        cache=str(where.cache),
        dry_run=not remove,
        freed=freed,
        groups=[{"name": g.name, "size": g.size, "freed": g.freed, "goes": g.goes} for g in groups],
        output=[{"name": name, "size": size} for name, size in output],
    )
