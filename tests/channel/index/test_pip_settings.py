"""The index that the real pip is configured for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ctk.core.errors import IndexUnavailable
from ctk.index import IndexSettings, pip_settings
from ctk.index.client import Retry
from ctk.index.index import Index
from kit.fake_index import FakeIndex, configure_pip, serve

WAITS: list[float] = []
QUICK = Retry(attempts=3, delay=1, sleep=WAITS.append, clock=lambda: 0.0)
WHEEL = "tool-1.0-py3-none-any.whl"


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    WAITS.clear()
    with serve() as index:
        index.add_wheel(
            "tool", "1.0", requires=["other>=2"], files={"tool/data.bin": os.urandom(5000)}
        )
        yield index


def client(server: FakeIndex, **settings: object) -> Index:
    return Index(IndexSettings(index_url=server.url, timeout=60, **settings), QUICK)  # type: ignore[arg-type]


def test_the_real_pip_is_asked(server: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_pip(monkeypatch, server, timeout="3", extra_index_url="file:///nowhere/simple")
    settings = pip_settings()
    assert settings.index_urls == (server.url, "file:///nowhere/simple")
    assert settings.timeout == 3.0
    with Index() as index:
        assert index.files("tool")[0].file == WHEEL


def test_a_pip_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(IndexUnavailable, match="pip does not say"):
        pip_settings("/bin/false")
