"""Packages that are made of this repository's own sources: each state of these has its own name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.plan.commits import forget
from ctk.plan.plan import Build
from ctk.solve.solve import Scenario, solve
from kit import small_channel
from kit.tiny import tiny_checkout, tiny_plan

RECIPE = """
schema_version: 1
package: {name: tool, version: 0.1.0}
source: [{path: ../../scripts/tool, target_directory: tool}, {path: ../../LICENCE}]
build:
  noarch: generic
  variant: {use_keys: [own_sources]}
  script: ["mkdir -p $PREFIX/share", "cp -R tool $PREFIX/share/"]
about: {license: MIT, license_file: LICENCE}
"""
FIRST, SECOND = 1_780_000_000, 1_790_000_000
"""Seconds since 1970: when the repository's commits were made."""


@dataclass
class Repository:
    """The tiny checkout in git, with a recipe of its own sources."""

    where: Workspace

    def commit(self, time: int) -> None:
        moments = {f"GIT_{who}_DATE": f"{time} +0000" for who in ("AUTHOR", "COMMITTER")}
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", "change", **moments)

    def start(self) -> None:
        self._git("init", "--quiet")
        self.commit(FIRST)

    def _git(self, *words: str, **variables: str) -> None:
        environment = {**os.environ, **variables}
        subprocess.run(["git", "-C", self.where.root, *words], check=True, env=environment)

    def planned(self) -> dict[str, Build]:
        """Recipe -> its build, as a new process of ctk plans it."""
        forget()
        return {build.recipe.name: build for build in tiny_plan(self.where).builds}

    def files(self) -> dict[str, str]:
        """Recipe -> the file name of its package."""
        planned = self.planned()
        return {name: output.file_name for name in planned for output in planned[name].outputs}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    where = tiny_checkout(tmp_path / "checkout")
    monkeypatch.setattr("ctk.plan.render.workspace", lambda: where)
    monkeypatch.setattr("ctk.plan.variants.workspace", lambda: where)
    monkeypatch.setattr("ctk.plan.commits.workspace", lambda: where)
    for place, text in {
        ".gitignore": ".cache\n",
        "LICENCE": "Permission is granted.\n",
        "recipes/tool/recipe.yaml": RECIPE,
        "scripts/tool/main.py": "print(1)\n",
    }.items():
        file = where.root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    yield Repository(where)
    forget()


def test_a_changed_source_changes_the_name_of_its_package_and_no_other(
    repository: Repository,
) -> None:
    before = repository.files()
    (repository.where.root / "scripts" / "tool" / "main.py").write_text("print(2)\n")
    after = repository.files()
    assert {name for name in before if before[name] != after[name]} == {"tool"}
    (repository.where.root / "scripts" / "tool" / "main.py").write_text("print(1)\n")
    assert repository.files() == before


def test_what_python_leaves_beside_sources_changes_nothing(repository: Repository) -> None:
    before = repository.files()
    left = repository.where.root / "scripts" / "tool" / "__pycache__"
    left.mkdir()
    (left / "main.cpython-314.pyc").write_bytes(b"x")
    assert repository.files() == before


def test_the_commit_which_the_package_names_changes_its_name(repository: Repository) -> None:
    """Else the same sources, published before their commit, would take the name of those after."""
    before = repository.files()
    repository.start()
    committed = repository.files()
    assert {name for name in before if before[name] != committed[name]} == {"tool"}
    (repository.where.root / "other.txt").write_text("no source of the tool")
    repository.commit(SECOND)
    assert repository.files() == committed


def test_it_is_as_old_as_the_last_commit_of_its_sources(repository: Repository) -> None:
    unknown = repository.planned()
    repository.start()
    first = repository.planned()
    (repository.where.root / "scripts" / "tool" / "main.py").write_text("print(2)\n")
    repository.commit(SECOND)
    second = repository.planned()
    assert [first["tool"].timestamp, second["tool"].timestamp] == [FIRST, SECOND]
    assert unknown["follower"].timestamp == second["follower"].timestamp
    assert unknown["tool"].timestamp < FIRST


def test_of_two_states_of_one_version_solvers_take_the_later(tmp_path: Path) -> None:
    """Their build numbers are the same, and their hashes say nothing of their age."""
    for later in ("a", "f"):
        earlier = "f" if later == "a" else "a"
        records = [
            small_channel.record("tool", "0.1.0", f"pyh{digest}_0", "noarch", timestamp=time * 1000)
            for digest, time in ((later, SECOND), (earlier, FIRST))
        ]
        channel = small_channel.write(tmp_path / later, iter(records))
        scenario = Scenario(("tool",), "linux-64", None, None)
        (picked,) = solve(scenario, [channel]).records
        assert str(picked.build) == f"pyh{later}_0"
