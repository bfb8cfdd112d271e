"""The release locks of this repository, as other tools read them.

`ctk lint` checks the rules (tests/lint).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from ctk.core.checkout import Workspace
from ctk.lock.model import dump, load, release_locks, variant_config
from ctk.release import TABLE, markdown_of

ROOT = Path(__file__).resolve().parents[3]
HERE = Workspace(ROOT)
CTK = [lock for lock in release_locks(HERE).values() if lock.is_ctk]


@pytest.mark.parametrize("folder", ["variants", "base", "tests/system/downstream"])
def test_every_lock_survives_load_and_dump_byte_for_byte(folder: str) -> None:
    paths = [*(ROOT / folder).glob("*.lock")]
    assert paths
    for path in paths:
        assert dump(load(path)).encode() == path.read_bytes()
        assert variant_config(load(path)).encode() == path.with_suffix(".yaml").read_bytes()


def test_a_newer_toolkit_writes_newer_ptx() -> None:
    found = [lock.facts.ptx_isa for lock in release_locks(HERE).values() if lock.facts]
    # 12.6 writes the same as 12.5; no newer pair does.
    assert found == sorted(found, key=Version)
    assert [isa for isa, next_ in pairwise(found) if isa == next_] == ["8.5"]


def test_the_table_of_releases_in_the_docs_is_what_the_locks_say(tmp_path: Path) -> None:
    page = tmp_path / TABLE.page
    page.parent.mkdir()
    page.write_text(right := (ROOT / TABLE.page).read_text())
    assert TABLE.write(Workspace(tmp_path), markdown_of(release_locks(HERE).values())) == (), (
        "run its command"
    )
    page.write_text(right.replace("| 5.0 to 8.7, 8.9 to 9.0 | 8.0 |", "| 5.0 to 9.0 | 8.0 |", 1))
    assert TABLE.write(Workspace(tmp_path), markdown_of(CTK)) == (page,)
    assert page.read_text() == right
