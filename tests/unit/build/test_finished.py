"""A finished build is taken again unless something has changed; an SBOM is read within a bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.build import finished, sbom
from ctk.build.finished import Built
from ctk.core.errors import AuditFailed
from ctk.lock import redistribution
from kit.packages import Draft


@pytest.mark.parametrize(
    ("unread", "is_read"), [((), False), (("text-a",), True), (("text-b",), False)]
)
def test_a_build_is_made_again_once_somebody_has_read_a_licence_text_of_it(
    monkeypatch: pytest.MonkeyPatch, unread: tuple[str, ...], is_read: bool
) -> None:
    monkeypatch.setattr(redistribution, "load", lambda: {"text-a": None})
    built = Built("one", "key", Path("home"), {}, {}, 1.0, True, unread)
    assert finished._is_read_since(built) is is_read


def test_an_sbom_of_many_bytes_is_not_read(tmp_path: Path) -> None:
    large = b"{" + b" " * (sbom._LIMIT + 1) + b"}"
    package = Draft("one", info={"sboms/one.cdx.json": large}).write(tmp_path)
    with pytest.raises(AuditFailed) as error:
        sbom.of(package)
    assert f"is {len(large)} bytes" in error.value.cause
