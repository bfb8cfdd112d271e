"""The lock of the downstream packages' sources and build tools: canonical, and silent about any index."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.lock import ReleaseLock, load
from ctk.lock_text import dump, variant_config

FILE = Path(__file__).resolve().parents[1] / "downstream" / "downstream.lock"


@pytest.fixture(scope="module")
def lock() -> ReleaseLock:
    return load(FILE)


def test_both_halves_are_canonical(lock: ReleaseLock) -> None:
    assert FILE.read_bytes() == dump(lock).encode()
    assert FILE.with_suffix(".yaml").read_bytes() == variant_config(lock).encode()


def test_neither_half_says_where_a_file_comes_from() -> None:
    for file in (FILE, FILE.with_suffix(".yaml")):
        said, *data = file.read_text(encoding="utf-8").lower().splitlines()
        assert not [trace for trace in ("http", "://", "/", "@") if trace in "\n".join(data)]
        assert "://" not in said


def test_each_source_is_a_source_distribution_and_each_tool_a_wheel(lock: ReleaseLock) -> None:
    kinds = {c.name: {a.file.rpartition(".")[2] for a in c.artefacts.values() if a} for c in lock.components.values()}
    assert kinds.pop("cufinufft") == {"gz"}
    assert kinds
    assert all(kind == {"whl"} for kind in kinds.values()), kinds
