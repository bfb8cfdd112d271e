"""The probe of NVRTC, run as a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.errors import MeasureFailed
from ctk.core.platforms import this_platform
from ctk.lock.facts import (
    compiler_facts,
)
from kit.packages import wheel

pytest_plugins = ["kit.ctk_release_fixtures"]
on_linux_64 = pytest.mark.skipif(
    this_platform() != "linux-64", reason="loads a linux-64 library; CI runs it there"
)


@on_linux_64
def test_a_library_that_does_not_load_is_an_error_with_the_loader_s_words(tmp_path: Path) -> None:
    path = wheel(tmp_path / "a.whl", {"nvidia/cu13/lib/libnvrtc.so.13": b"no library"})
    with pytest.raises(
        MeasureFailed, match=r"libnvrtc.so.13 does not answer: .*(too short|invalid ELF header)"
    ):
        compiler_facts(path)
