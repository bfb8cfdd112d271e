"""The page of benchmarks, and the figures that it shows, each with the commit that it was measured on."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from reading import Read

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.index import IndexSettings
from ctk.index.index import Index
from ctk.site import Site, benchmarks, report
from ctk.site.benchmarks import Figure
from kit.packages import Draft

pytest_plugins = ["site_fixtures"]

FIGURE = Figure("2026-01-02", "abc123def", "verify", "CPU time", 2.5, "ms", "2 cores")


def line(**more: object) -> str:
    return json.dumps({**FIGURE.__dict__, **more})


def page(small: Site, root: Path, *lines: str) -> str:
    """The page of a checkout with this history; "" without one."""
    benchmarks.path(Workspace(root)).parent.mkdir(exist_ok=True)
    benchmarks.path(Workspace(root)).write_text("".join(f"{line}\n" for line in lines))
    site = replace(small, workspace=Workspace(root))
    shown = [page.content.decode() for page in report.benchmarks(site)]
    (audit,) = report.audit(site)
    assert (b'href="benchmarks.html"' in audit.content) == bool(shown), "no page leads to one that is not there"
    return "".join(shown)


def test_figures_become_lines_and_one_alone_is_not_shown(small: Site, tmp_path: Path) -> None:
    assert page(small, tmp_path) == ""
    assert page(small, tmp_path, line(), line(machine="64 cores"), line(row="another")) == "", "machines are not mixed"
    several = page(small, tmp_path, line(), line(value=5, date="2026-02-03"), line(machine="64 cores"))
    assert Read(several.encode()).wrong == []
    assert several.count("<polyline") == 1 and several.count("<circle") == 2 and "64 cores" not in several
    assert "from 2.5 on 2026-01-02 to 5 on 2026-02-03, 2 figures" in several


def test_lines_that_are_no_figures_are_left_out(small: Site, tmp_path: Path) -> None:
    bad = ["nonsense", "[]", line(value="fast"), line(value=None), line(more=1), line(date="now")]
    assert page(small, tmp_path, *bad, "", line()) == ""
    assert benchmarks.load(Workspace(tmp_path)) == [FIGURE]


def test_every_line_of_the_history_is_a_figure(project: Workspace) -> None:
    assert len(benchmarks.load(project)) == len(benchmarks.path(project).read_text().splitlines()) > 0


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [0.0, 0.0], [-1.0, 1.0], [7.0]])
def test_a_line_stays_in_its_picture(values: list[float]) -> None:
    places = benchmarks.line(values)
    assert len(places) == len(values)
    for x, y in places:
        assert 0 <= x <= benchmarks.WIDTH and 0 <= y <= benchmarks.HEIGHT
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True) or values == [0.0, 0.0]


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_a_figure_names_the_commit_that_it_was_measured_on_where_git_knows_it(tmp_path: Path) -> None:
    checkout = Workspace(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    benchmarks.record(checkout, "build", [("a row", 1.0, "s")])
    assert benchmarks.load(checkout)[0].commit == ""
    if shutil.which("git") is None:
        return
    (tmp_path / "README.md").write_text("one\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "--short=9", "HEAD")
    benchmarks.record(checkout, "build", [("a row", 1.0, "s")])  # the history itself is no change
    benchmarks.record(checkout, "verify", [("a row", 2.0, "s"), ("another", 3.14159, benchmarks.RATIO)])
    (tmp_path / "README.md").write_text("two\n")
    benchmarks.record(checkout, "build", [("a row", 1.0, "s")])
    found = benchmarks.load(checkout)
    assert [(f.commit, f.value) for f in found[1:]] == [
        (commit, 1.0),
        (commit, 2.0),
        (commit, 3.142),
        (f"{commit}+", 1),
    ]


def test_sizes_beside_pip_are_counted_alike_without_python_and_bytecode(tmp_path: Path) -> None:
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
