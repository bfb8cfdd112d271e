"""The figures of the docs that a benchmark printed."""

from __future__ import annotations

import runpy
import zipfile
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.index import IndexSettings
from ctk.index.index import Index
from kit.packages import Draft


def test_sizes_beside_pip_are_counted_alike_without_python_and_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    install, where = runpy.run_path(str(ROOT / "benchmarks" / "install.py")), Workspace(tmp_path)
    files = {"x/a.py": b"12345", "x/__pycache__/a.cpython-311.pyc": b"123", "lib/libx.so.1.0": b"\x7fELF"}
    drafts = {
        "channel": Draft("x", files=files, links={"lib/libx.so.1": "libx.so.1.0"}),
        "base": Draft("python", files={"bin/python": b"1"}),
    }
    archives = {name: draft.write(where.output / name) for name, draft in drafts.items()}
    pick = [
        {"name": drafts[name].name, "channel": name, "subdir": path.parent.name, "file": path.name, "size": 9}
        for name, path in archives.items()
    ]
    assert install["of_packages"]({"packages": pick}, where) == install["Size"](9, 3, 9)

    wheel = tmp_path / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.mkdir("x")
        for name, content in files.items():
            archive.writestr(name, content)
    report = {"install": 2 * [{"download_info": {"url": wheel.as_uri()}, "metadata": {"name": "x", "version": "1.0"}}]}
    with Index(IndexSettings(no_index=True)) as index:
        assert install["of_wheels"](report, index) == install["Size"](2 * wheel.stat().st_size, 4, 18)
