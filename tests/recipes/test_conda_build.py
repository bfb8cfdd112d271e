"""conda-build reads our files of variants as rattler-build does: it sees no selector in them."""

from __future__ import annotations

from pathlib import Path

from ctk.core.checkout import Workspace
from kit.conda_build import selector


def files(root: Path) -> list[Path]:
    """Every file of variants in the checkout that conda-build could be given."""
    configs = (
        p for folder in ("examples", "tests", "recipes") for p in (root / folder).rglob("conda_build_config.yaml")
    )
    locked = [
        lock.with_suffix(".yaml")
        for f in ("variants", "base", "tests/system/downstream")
        for lock in (root / f).glob("*.lock")
    ]
    return [root / "conda_build_config.yaml", *sorted(configs), *sorted(locked)]


def test_conda_build_drops_no_line_of_our_variants(project: Workspace) -> None:
    """A list in square brackets at the end of a line is a selector to it: zip_keys went without a word."""
    read = files(project.root)
    assert len(read) > 20
    dropped = [f"{p.relative_to(project.root)}: {x}" for p in read for x in p.read_text().splitlines() if selector(x)]
    assert not dropped
