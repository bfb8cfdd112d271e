"""`ctk rebuild`: a package is made again from what it says of itself, and every difference is shown."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_build import edit
from test_provenance import commit, forget, git, repository
from tiny import tiny_plan
from tiny_packages import rewrite_in_place

from conftest import ctk
from ctk.build import build, rebuild, sbom
from ctk.build.rebuild import Deviation
from ctk.build.runner import Edit
from ctk.core.checkout import Workspace
from ctk.core.errors import AuditFailed
from ctk.fetch import fetch
from ctk.index.index import Index

__all__ = ["repository"]  # a fixture


@pytest.fixture
def packages(repository: Workspace, tmp_path: Path) -> list[Path]:
    """What the tiny checkout builds, as a user has it: outside the checkout's cache."""
    built(repository, tmp_path / "channel")
    return sorted((tmp_path / "channel").glob("*/*.conda"))


def built(where: Workspace, channel: Path, **options: int) -> None:
    planned = tiny_plan(where)
    fetch.fetch(planned.artefacts, where, Index)
    report = build.run(planned, where, **options)
    assert not report.failed, report.failed
    for file in (p for b in report.built for p in b.packages):
        (channel / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, channel / file.parent.name)


def digests(channel: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in channel.glob("*/*.conda")}


def differences(packages: list[Path], where: Workspace) -> dict[str, tuple[Deviation, ...]]:
    return {o.package.name: o.differences for o in rebuild.rebuild(packages, where)}


def test_two_checkouts_at_two_times_with_two_umasks_give_the_same_bytes(repository: Workspace, tmp_path: Path) -> None:
    built(repository, tmp_path / "one", jobs=1)
    git(tmp_path, "clone", "--quiet", repository.root, "clone/deeper/inside")
    there = Workspace(tmp_path / "clone" / "deeper" / "inside")
    shutil.copytree(repository.store, there.store)
    program = (
        "import os, sys; os.umask(0o077); sys.path[:0] = sys.argv[3:];"
        "from pathlib import Path; from ctk.core.checkout import Workspace; from test_rebuild import built;"
        "built(Workspace(Path(sys.argv[1])), Path(sys.argv[2]), jobs=3) if __name__ == '__main__' else None"
    )
    script = tmp_path / "build.py"  # a file: processes that are spawned import it
    script.write_text(program)
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, script, there.root, tmp_path / "two", here, here.parent, here.parent / "packages"],
        check=True,
        env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"},
    )
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert len(digests(tmp_path / "one")) == 2


def test_the_recipe_is_that_of_the_commit_and_not_the_one_of_today(packages: list[Path], repository: Workspace) -> None:
    edit(repository.recipes / "hello" / "recipe.yaml", "A greeting", "Another greeting")
    commit(repository.root)
    shutil.rmtree(repository.builds)
    assert differences(packages, repository) == {p.name: () for p in packages}


def test_what_git_does_not_have_is_said(packages: list[Path], repository: Workspace) -> None:
    edit(repository.recipes / "hello" / "recipe.yaml", "A greeting", "Another greeting")
    shutil.rmtree(repository.root / ".git")
    forget()
    found = differences(packages, repository)
    (difference,) = next(d for name, d in found.items() if name.startswith("hello"))
    assert difference.place == "build"
    assert "git has no commit" in difference.what and "unshallow" in difference.what
    assert next(d for name, d in found.items() if name.startswith("follower")) == ()


def test_a_recipe_that_was_not_committed_and_changed_is_said(repository: Workspace, tmp_path: Path) -> None:
    edit(repository.recipes / "hello" / "recipe.yaml", "A greeting", "Another greeting")
    forget()
    built(repository, tmp_path / "channel")
    package = next((tmp_path / "channel").glob("*/hello*"))
    assert sbom.of(package).provenance.commit == ""
    assert differences([package], repository) == {package.name: ()}, "as long as the recipe is as it was"
    edit(repository.recipes / "hello" / "recipe.yaml", "Another greeting", "A third greeting")
    ((difference,),) = differences([package], repository).values()
    assert "names no commit" in difference.what


def tamper(package: Path, change: Edit) -> None:
    origin = sbom.of(package).provenance
    rewrite_in_place(package, origin.timestamp, change, origin.level)


def test_a_tampered_package_is_found_file_by_file(packages: list[Path], repository: Workspace) -> None:
    hello = next(p for p in packages if p.name.startswith("hello"))

    def change(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        index = json.loads(files["info/index.json"])
        kept = {name: text for name, text in files.items() if name != "info/about.json"}
        return {**kept, "info/index.json": json.dumps({**index, "depends": ["evil"]}).encode(), "info/extra": b"x"}

    tamper(hello, change)
    found = {d.place: d.what for d in differences([hello], repository)[hello.name]}
    assert found.keys() == {"info/index.json", "info/extra", "info/about.json"}
    assert found["info/extra"] == "only in the package"
    assert found["info/about.json"] == "only in the rebuild"
    assert "bytes, now" in found["info/index.json"]


def test_another_time_alone_is_a_difference_of_the_archive(packages: list[Path], repository: Workspace) -> None:
    rewrite_in_place(packages[0], time=1)
    ((difference,),) = differences(packages[:1], repository).values()
    assert difference.place == "archive" and "other times" in difference.what


def test_a_package_without_an_sbom_is_refused(packages: list[Path], repository: Workspace) -> None:
    tamper(packages[0], lambda files: {n: t for n, t in files.items() if not n.startswith("info/sboms/")})
    with pytest.raises(AuditFailed, match="has no SBOM"):
        rebuild.rebuild(packages, repository)


def test_the_command(packages: list[Path], repository: Workspace) -> None:
    channel = packages[0].parents[1]
    done = ctk(repository, "rebuild", "--all", "--channel", str(channel))
    assert done.returncode == 0, done.stderr
    assert "2 packages rebuilt, identical" in done.stdout
    assert not (repository.cache / "rebuild").exists()
    rewrite_in_place(packages[0], time=1)
    done = ctk(repository, "rebuild", "--sample", "2", "--channel", str(channel))
    assert done.returncode == 28
    assert packages[0].name in done.stdout.replace("\n", "") and "--seed" in done.stdout
    assert "1 package of 2 came out in another way" in done.stderr
    done = ctk(repository, "rebuild", "helo", "--channel", str(channel))
    assert done.returncode == 3 and "did you mean hello?" in done.stderr
    assert ctk(repository, "rebuild").returncode == 2
    assert ctk(repository, "rebuild", "--all", "--channel", str(channel / "nothing")).returncode == 3
