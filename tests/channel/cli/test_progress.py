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
        self: Reporter, title: str, total: float, *, of: str = "", bytes_: bool = False
    ) -> Iterator[SimpleNamespace]:
        assert total > 0
        assert bool(of) != bytes_, "a number has a unit"
        shown[title] = total

        def advance(amount: float, note: str = "") -> None:
            shown[title] -= amount

        yield SimpleNamespace(advance=advance)

    monkeypatch.setattr(Reporter, "task", task)
    (two_states.variants / "contents.json").write_text("{}")
    run_ctk(*words.split())
    assert shown == dict.fromkeys(titles, 0), "all of it was done, and each piece was counted once"


def test_a_line_of_progress_has_a_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("ctk.core.console.time.monotonic", lambda: next(clock))
    report = Reporter()
    for words, size in (({"of": "files"}, 2), ({"bytes_": True}, 2e6)):
        with report.task("download", 2 * size, **words) as task:
            task.advance(size)
    lines = capsys.readouterr().err
    assert "download 2/4 files" in lines and "download 2/4 MB" in lines
