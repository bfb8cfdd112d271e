"""What the tests of `ctk release` share, besides the fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.lock.model import Artefact, Component, ReleaseLock, dump, variant_config

Run = Callable[..., str]
Have = Callable[..., dict[str, bytes]]


def snapshot(here: Workspace) -> dict[str, bytes]:
    """Every file of the checkout's release locks."""
    return {p.name: p.read_bytes() for p in sorted(here.variants.glob("*"))} if here.variants.exists() else {}


def write(folder: Path, lock: ReleaseLock) -> Path:
    """Writes both halves of a release; returns the path of its lock."""
    path = folder / f"{lock.name}.lock"
    path.write_text(dump(lock))
    path.with_suffix(".yaml").write_text(variant_config(lock))
    return path


def cells(shown: str) -> set[tuple[str, ...]]:
    """The rows of the tables in an output."""
    return {tuple(c.strip() for c in line.split("│")[1:-1]) for line in shown.splitlines() if "│" in line}


def release(version: str, *names: str, sha256: str = "ab" * 32) -> ReleaseLock:
    """A lock of these components, each with the same file for every platform."""

    def component(name: str) -> Component:
        file = f"{name}-1-py3-none-any.whl"
        return Component(name, name, "1", {t: Artefact(name, name, "1", t, file, sha256, 1) for t in PLATFORMS})

    return ReleaseLock(version, None, {name: component(name) for name in names})
