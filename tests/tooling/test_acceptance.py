"""`scripts/acceptance`: which pieces there are, what is kept of a piece, and when one runs again."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import acceptance
from acceptance import Piece, Run
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Request, plan, published_set, python_tags

# Stands for ctk: it makes a base channel and a channel, says what it was asked for, and ends with a digit that is last.
CTK = """#!/bin/bash
mkdir -p .cache/sha256 output/base output/.channel-states/1
echo base >.cache/sha256/base; echo base >output/base/base
echo made >output/.channel-states/1/made; ln -sfn .channel-states/1 output/channel
echo "$@" >>ran
case ${*: -1} in [0-9]) exit "${*: -1}" ;; esac
"""


def git(where: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(where), *who, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """A repository with a tool that only says that it ran."""
    for name, text in (("scripts/setup", "#!/bin/bash\n"), (".venv/bin/ctk", CTK), ("docs/page.md", "one\n")):
        file = tmp_path / "checkout" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    where = Workspace(tmp_path / "checkout")
    (where.root / ".gitignore").write_text("/.cache/\n/output/\n/ran\n")
    git(where.root, "init", "--quiet")
    git(where.root, "add", "--force", ".")
    git(where.root, "commit", "--quiet", "--message", "first")
    return where


def piece(*codes: int, reads: Sequence[str] = ("scripts",)) -> Piece:
    return Piece("some:piece", [[acceptance.CTK, "build", str(code)] for code in codes], reads)


def started(where: Workspace) -> Run:
    run = Run(where)
    run.prepare()
    return run


def ran(where: Workspace) -> list[str]:
    """What the tool was asked for by pieces."""
    return (where.output / "acceptance" / "clone" / "ran").read_text().splitlines()[1:]


def test_every_release_component_ring_platform_and_export_is_a_piece(project: Workspace) -> None:
    names = {piece.name for piece in acceptance.pieces(project)}
    everything = plan(published_set(project), Request(platforms=PLATFORMS), python_tags(project.build_config))
    toolkits = {(b.lock.removeprefix("cuda-"), b.subdir) for b in everything.builds if b.lock.startswith("cuda-")}
    assert names >= {f"components:{minor}:{subdir}" for minor, subdir in toolkits if subdir in PLATFORMS}
    assert names >= {f"{kind}:{platform}" for kind in ("default", "releases", "ring") for platform in PLATFORMS}
    assert names >= {f"export:{file.parent.name}" for file in project.recipes.glob("*/recipe.yaml")}


def test_a_piece_that_passed_is_not_run_again_until_what_it_reads_changes(checkout: Workspace) -> None:
    run = started(checkout)
    assert not run.has_passed(piece(0))
    assert run.run(piece(0))
    assert Run(checkout).has_passed(piece(0))
    assert not Run(checkout).has_passed(replace(piece(0), commands=[["true"]]))
    (checkout.root / "docs" / "page.md").write_text("two\n")
    git(checkout.root, "commit", "--quiet", "--all", "--message", "second")
    assert Run(checkout).has_passed(piece(0))
    assert not Run(checkout).has_passed(piece(0, reads=["."]))


def test_what_fails_is_said_with_its_command_and_runs_again(
    checkout: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(checkout)
    assert not run.run(piece(0, 3, 0))
    said = capsys.readouterr().out
    assert said.startswith("failed some:piece (")
    assert "exit 3: .venv/bin/ctk build 3; " in said
    assert ran(checkout) == ["build 0", "build 3", "build 0"]  # what comes behind does not need it
    assert not Run(checkout).has_passed(piece(0, 3, 0))


def test_what_another_platform_is_too_old_for_is_said_and_is_no_failure(
    checkout: Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "error: cuda needs __glibc >=2.34,<3.0.a0, and a linux-aarch64 machine is taken to have 2.28"
    limit, other = (
        ["sh", "-c", f"echo '{text}' >&2; exit 10", "solve"] for text in (said, "error: cuda needs __cuda >=13")
    )
    assert started(checkout).run(Piece("some:piece", [["echo", "├─" * 99], limit], ("scripts",)))
    assert "  as it says: cuda needs __glibc >=2.34\n" in capfd.readouterr().out
    assert not started(checkout).run(Piece("some:piece", [["true"], limit, other], ("scripts",)))
    assert not started(checkout).run(Piece("some:piece", [["true"], limit[:-1]], ("scripts",)))  # this machine's own


def test_a_piece_leaves_the_base_channel_only(checkout: Workspace) -> None:
    run = started(checkout)
    big = Piece(
        "some:piece",
        [["bash", "-c", "mkdir -p output/used/bin .cache/sha256; touch output/used/bin/x .cache/sha256/x"]],
    )
    assert run.run(big)
    clone = checkout.output / "acceptance" / "clone"
    left = sorted(p.relative_to(clone).as_posix() for top in ("output", ".cache") for p in (clone / top).rglob("*"))
    assert left == [".cache/sha256", ".cache/sha256/base", "output/base", "output/base/base"]


def test_the_clone_is_the_last_commit_without_what_a_killed_run_left(checkout: Workspace) -> None:
    started(checkout)
    clone = checkout.output / "acceptance" / "clone"
    (clone / "output" / "left").mkdir(parents=True)
    (clone / "docs" / "page.md").write_text("changed\n")
    (checkout.root / "docs" / "page.md").write_text("two\n")
    git(checkout.root, "commit", "--quiet", "--all", "--message", "second")
    started(checkout)
    assert (clone / "docs" / "page.md").read_text() == "two\n"
    assert not (clone / "output" / "left").exists()
