"""What the tests of channels share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ctk.cli.main import app
from ctk.core import console
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError
from kit.small_channels import build, digit
from kit.tiny import tiny_checkout


@pytest.fixture
def two_states(tmp_path: Path) -> Workspace:
    """A checkout whose channel has had two states: one package, then two."""
    workspace = tiny_checkout(tmp_path / "checkout")
    build(workspace.channel, digit(1))
    build(workspace.channel, digit(1), digit(2))
    return workspace


@pytest.fixture
def run_ctk(two_states: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command of ctk in this process.

    An error is in `exception`, and in the document of --json as in `main`.
    """
    monkeypatch.setenv("CTK_ROOT", str(two_states.root))
    monkeypatch.setenv("COLUMNS", "120")

    def command(*words: str, answers: str = "") -> Result:
        console.begin()
        done = CliRunner().invoke(app, words, input=answers)
        if isinstance(done.exception, CtkError) and "--json" in words:
            with redirect_stdout(StringIO()) as said:
                console.finish(done.exception)
            done.stdout_bytes = said.getvalue().encode()
        return done

    return command
