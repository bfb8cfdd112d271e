"""What the tests of `ctk release` share, besides the fixtures."""

from __future__ import annotations

from collections.abc import Callable

from ctk.core.checkout import Workspace

Run = Callable[..., str]
Have = Callable[..., dict[str, bytes]]


def snapshot(here: Workspace) -> dict[str, bytes]:
    """Every file of the checkout's release locks."""
    return {p.name: p.read_bytes() for p in sorted(here.variants.glob("*"))} if here.variants.exists() else {}


def cells(shown: str) -> set[tuple[str, ...]]:
    """The rows of the tables in an output."""
    return {tuple(c.strip() for c in line.split("│")[1:-1]) for line in shown.splitlines() if "│" in line}
