"""What a change of an environment takes away, and what is said of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ctk.core.errors import WouldLose
from ctk.env.prefix import Installed, Note
from ctk.env.terms import NOTHING_LOST, refuse_loss
from ctk.solve.solve import Catalogue, Pick, Scenario
from kit.small_channel import record, write

NEEDS = {"core": [], "library": ["library-dev"], "library-dev": ["static"], "static": []}
OLD = ("--driver", "12.4", "--arch", "8.9")
NEW = ("--driver", "13.0", "--arch", "9.0")


@pytest.fixture
def pick(tmp_path: Path) -> Pick:
    """The older library, which needs nothing."""
    channel = write(tmp_path / "channel", iter([record("library", "0.9", "h_0", "linux-64")]))
    found = Catalogue([channel], "linux-64").pick(Scenario(("library",), "linux-64"))
    assert found
    return found


def refuse(pick: Pick, before: Sequence[str], asked: Sequence[str], tmp_path: Path) -> None:
    """Refuses a request in the place of an older one, in an environment that has `NEEDS`."""
    records: dict[Path, Mapping[str, Any]] = {
        Path(name): {"name": name, "version": "1.0", "fn": f"{name}.conda", "depends": needs}
        for name, needs in NEEDS.items()
    }
    installed = Installed(tmp_path / "environment", records, ())
    note = Note(tuple(installed.packages), tuple(before))
    refuse_loss(NOTHING_LOST, note, installed, pick, asked)


def test_what_another_version_no_longer_needs_is_not_lost_by_what_is_left_out(
    pick: Pick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WouldLose) as refused:
        refuse(pick, ("core", "library"), ("library",), tmp_path)
    assert refused.value.packages == ("core 1.0",)
    assert "because core is not named now" in refused.value.cause
    refuse(pick, ("library",), ("library",), tmp_path)


def test_a_request_for_another_machine_goes_to_another_environment(
    pick: Pick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ctk env add` would have dropped the machine that was stated."""
    monkeypatch.chdir(tmp_path)
    Path("my-env").mkdir()
    asked = ("library", "more", *OLD)
    with pytest.raises(WouldLose) as refused:
        refuse(pick, ("core", "library", *NEW), asked, tmp_path)
    create = shlex.join(["ctk", "env", "create", *asked, "--prefix", "./my-env-2"])
    assert refused.value.step.startswith(
        f"for another machine, make another environment: `{create}`"
    )
    with pytest.raises(WouldLose) as refused:
        refuse(pick, ("core", "library", *OLD), asked, tmp_path)
    assert "ctk env add" in refused.value.step
