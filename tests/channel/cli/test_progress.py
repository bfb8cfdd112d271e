"""Commands that take more than two seconds on a whole channel or set show how far they are, on
stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from typer.testing import Result

from ctk.core.checkout import Workspace
from ctk.core.console import Reporter

pytest_plugins = ["kit.channel_fixtures"]


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        ("check", ["check", "audit"]),
        ("lint", ["lint"]),
        ("lint --planned", ["plan", "audit"]),
        ("build --dry-run --platform linux-64", ["plan"]),
    ],
)
def test_what_takes_long_says_how_much_of_it_is_done(
    two_states: Workspace,
    run_ctk: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    titles: list[str],
) -> None:
    shown: dict[str, float] = {}

    @contextmanager
    def task(
        self: Reporter, title: str, total: float, *, bytes_: bool = False
    ) -> Iterator[SimpleNamespace]:
        assert total > 0
        shown[title] = total

        def advance(amount: float, note: str = "") -> None:
            shown[title] -= amount

        yield SimpleNamespace(advance=advance)

    monkeypatch.setattr(Reporter, "task", task)
    (two_states.variants / "contents.json").write_text("{}")
    run_ctk(*words.split())
    assert shown == dict.fromkeys(titles, 0), "all of it was done, and each piece was counted once"
