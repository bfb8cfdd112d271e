"""A package's archive is opened twice from built to published: where it is made, and where it is scanned."""

from __future__ import annotations

import sys
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import rattler.index
import rattler.package_streaming

from ctk import pipeline
from ctk.build import build
from ctk.channel.publish import Folder
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter
from ctk.site import content, packages
from kit.tiny import tiny_checkout, tiny_plan

opens: list[str] = []
"""Names of packages, once for each time that one is opened."""


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and str(arguments[0]).endswith(".conda"):
        opens.append(str(arguments[0]))


sys.addaudithook(note)


def opened(without: str = "?") -> Counter[str]:
    return Counter(Path(path).name.rsplit("-", 2)[0] for path in opens if without not in path)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    # In this process, where the builds can be watched.
    monkeypatch.setattr(build, "processes", lambda *given: ThreadPoolExecutor(1))
    # rattler's readers, which no hook of Python sees
    monkeypatch.setattr(rattler.index, "index_fs", None)
    monkeypatch.setattr(rattler.package_streaming, "PackageArchive", None)
    return tiny_checkout(tmp_path / "checkout")


def test_a_package_is_opened_where_it_is_made_and_where_it_is_scanned(
    checkout: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"  # what rattler-build writes there is not the package yet

    def made_folder(*given: object) -> Path:
        scratch.mkdir()
        return scratch

    monkeypatch.setattr("ctk.build.runner.new_build_folder", made_folder)
    base = tmp_path / "base"
    (base / "noarch").mkdir(parents=True)
    (base / "noarch" / "repodata.json").write_text('{"info": {"subdir": "noarch"}, "packages": {}}')
    opens.clear()
    done = pipeline.Pipeline(checkout, Reporter()).run(tiny_plan(checkout), base)
    assert [outcome.state for outcome in done.tests] == ["passed"]
    assert opened(without=str(scratch)) == {"hello": 2, "follower": 2}

    monkeypatch.setattr(zipfile, "ZipFile", None)
    opens.clear()
    Folder(tmp_path / "published", checkout.recipes).publish(checkout.channel.resolve())
    assert opened() == {"hello": 1, "follower": 1}  # for the copy
    opens.clear()
    site = content.read(checkout, checkout.channel)
    (hello, _) = sorted(site.entries, key=lambda entry: entry.name, reverse=True)
    assert packages.read_metadata(hello, site).summary == "A greeting"
    assert not opened()
