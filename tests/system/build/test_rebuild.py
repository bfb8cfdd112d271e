"""`ctk check --rebuild`: a package is made again from its SBOM, and every difference is shown."""

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

from conftest import ROOT, ctk
from ctk.build import build, rebuild, sbom
from ctk.core.checkout import Workspace
from ctk.core.errors import AuditFailed
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.plan.commits import forget
from kit.tiny import tiny_plan
from kit.tiny_checkout import commit, edit, git
from kit.tiny_packages import rewrite_in_place

pytest_plugins = ["kit.tiny_fixtures"]

PROGRAM = """
if __name__ == "__main__":
    import os, sys
    from pathlib import Path
    os.umask(0o077)
    sys.path[:0] = sys.argv[3:]
    from ctk.core.checkout import Workspace
    from test_rebuild import built
    built(Workspace(Path(sys.argv[1])), Path(sys.argv[2]), jobs=3)
"""


@pytest.fixture
def packages(repository: Workspace, tmp_path: Path) -> list[Path]:
    """The packages of the tiny checkout, as a user has them: outside the checkout's cache."""
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


def differences(packages: list[Path], where: Workspace) -> dict[str, dict[str, str]]:
    """Name of each package without its version -> the places that differ, and how."""
    found = rebuild.rebuild(packages, where)
    return {package.name.partition("-")[0]: dict(places) for package, places in found.items()}


def test_two_checkouts_at_two_times_with_two_umasks_give_the_same_bytes(
    repository: Workspace, tmp_path: Path
) -> None:
    built(repository, tmp_path / "one", jobs=1)
    git(tmp_path, "clone", "--quiet", repository.root, "clone/deeper/inside")
    there = Workspace(tmp_path / "clone" / "deeper" / "inside")
    shutil.copytree(repository.store, there.store)
    script = tmp_path / "build.py"  # a file: processes that are spawned import it
    script.write_text(PROGRAM)
    here = Path(__file__).parent
    subprocess.run(
        [
            sys.executable,
            script,
            there.root,
            tmp_path / "two",
            here,
            ROOT / "tests",
        ],
        check=True,
        env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"},
    )
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert len(digests(tmp_path / "one")) == 2


def another_greeting(where: Workspace) -> None:
    edit(where.recipes / "hello" / "recipe.yaml", "A greeting", "Another greeting")
    forget()


def test_the_recipe_is_that_of_the_commit_and_not_the_one_of_today(
    packages: list[Path], repository: Workspace
) -> None:
    another_greeting(repository)
    commit(repository.root)
    assert differences(packages, repository) == {"hello": {}, "follower": {}}
    shutil.rmtree(repository.root / ".git")
    forget()
    found = differences(packages, repository)
    assert found["follower"] == {}
    assert "git has no commit" in found["hello"]["build"] and "unshallow" in found["hello"]["build"]


def test_a_recipe_that_was_not_committed_and_has_changed_is_named_as_the_reason(
    repository: Workspace, tmp_path: Path
) -> None:
    another_greeting(repository)
    built(repository, tmp_path / "channel")
    package = next((tmp_path / "channel").glob("*/hello*"))
    assert sbom.of(package).provenance.commit == ""
    assert differences([package], repository) == {"hello": {}}, "as long as the recipe is as it was"
    edit(repository.recipes / "hello" / "recipe.yaml", "Another greeting", "A third greeting")
    assert "names no commit" in differences([package], repository)["hello"]["build"]


def test_a_tampered_package_is_found_file_by_file(
    packages: list[Path], repository: Workspace
) -> None:
    hello, follower = packages

    def change(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        index = json.loads(files["info/index.json"])
        kept = {name: text for name, text in files.items() if name != "info/about.json"}
        return {
            **kept,
            "info/index.json": json.dumps({**index, "depends": ["evil"]}).encode(),
            "info/extra": b"x",
        }

    rewrite_in_place(hello, sbom.of(hello).provenance.timestamp, change)
    rewrite_in_place(follower, time=1)
    found = differences(packages, repository)
    assert found["hello"].keys() == {"info/index.json", "info/extra", "info/about.json"}
    assert found["hello"]["info/extra"] == "only in the package"
    assert found["hello"]["info/about.json"] == "only in the rebuild"
    assert "bytes, now" in found["hello"]["info/index.json"]
    assert found["follower"].keys() == {"archive"} and "other times" in found["follower"]["archive"]
    rewrite_in_place(
        hello, 1, lambda files: {n: t for n, t in files.items() if not n.startswith("info/sboms/")}
    )
    with pytest.raises(AuditFailed, match="has no SBOM"):
        rebuild.rebuild(packages, repository)


def test_the_command(packages: list[Path], repository: Workspace) -> None:
    channel = packages[0].parents[1]
    done = ctk(repository, "check", "--rebuild", "all", str(channel))
    assert done.returncode == 0, done.stderr
    assert "2 packages rebuilt, identical" in done.stdout
    assert not list(repository.temporary.glob("*"))
    done = ctk(repository, "check", "--rebuild", "1", str(channel))
    assert done.returncode == 0 and "1 from 2 packages" in done.stdout
    rewrite_in_place(packages[0], time=1)
    done = ctk(repository, "check", "--rebuild", "2", *map(str, packages))
    assert done.returncode == 28
    assert packages[0].name in done.stdout.replace("\n", "") and " from " not in done.stdout
    assert "1 package of 2 came out differently" in done.stderr
    assert ctk(repository, "check", "--rebuild", "0", str(channel)).returncode == 2
    assert ctk(repository, "check", "--rebuild", "all", str(channel / "nothing")).returncode == 33
