"""A checkout after `ctk release add`: what is not measured is no part of what can be built."""

from __future__ import annotations

import pytest

from ctk.core.checkout import Workspace
from ctk.lock.model import ReleaseLock
from ctk.solve import channels
from ctk.solve.advice import planned_of


def test_a_release_that_is_not_measured_leaves_the_others(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ctk solve` of a file failed until `ctk release measure` had read gigabytes."""

    def unmeasured(lock: ReleaseLock) -> list[str]:
        return ["its GPUs"] if lock.release == "libraries-12" else []

    monkeypatch.setattr(channels, "unmeasured", unmeasured)
    planned = planned_of(channels.catalogue(built, "local", "linux-64"))
    assert planned is not None
    builds = {str(record.build).partition("_")[0] for record in planned.records("pytorch")}
    assert builds == {"cuda13"}
