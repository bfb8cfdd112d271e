"""The lock of the downstream packages' sources and build tools; `ctk lint` holds it to the rules (tests/lint)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.lock.lock import ReleaseLock, load

FILE = Path(__file__).resolve().parents[1] / "downstream" / "downstream.lock"


@pytest.fixture(scope="module")
def lock() -> ReleaseLock:
    return load(FILE)


def test_each_source_is_a_source_distribution_and_each_tool_a_wheel(lock: ReleaseLock) -> None:
    kinds = {c.name: {a.file.rpartition(".")[2] for a in c.artefacts.values() if a} for c in lock.components.values()}
    assert kinds.pop("cufinufft") == {"gz"}
    assert kinds
    assert all(kind == {"whl"} for kind in kinds.values()), kinds
