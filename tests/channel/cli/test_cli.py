"""The command line, run as processes: what a user reads, and how a build ends."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from typer.testing import CliRunner

from conftest import ctk
from ctk import pipeline
from ctk.audit import AuditReport
from ctk.channel.local import packages
from ctk.cli.main import app
from ctk.cli.work import plan
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from kit.tiny import tiny_checkout

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny artefact is published for linux-64 only"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """A tiny checkout with an empty base channel."""
    workspace = tiny_checkout(tmp_path)
    noarch = tmp_path / "base-channel" / "noarch"
    noarch.mkdir(parents=True)
    (noarch / "repodata.json").write_text(
        '{"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": {}}'
    )
    return workspace


def with_base(checkout: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ctk(checkout, *arguments, "--base", str(checkout.root / "base-channel"))


def build(checkout: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    return with_base(checkout, "build", *arguments)


def change(checkout: Workspace, pattern: str, new: str) -> None:
    """Edits the recipe of `hello`."""
    recipe = checkout.recipes / "hello" / "recipe.yaml"
    before = recipe.read_text()
    recipe.write_text(re.sub(pattern, lambda _: new, before))
    assert recipe.read_text() != before


def test_each_error_has_an_exit_code_of_its_own() -> None:
    """docs/errors.md is written from them: tests/channel/core/test_architecture.py."""
    real = [
        v for v in vars(errors).values() if inspect.isclass(v) and issubclass(v, errors.CtkError)
    ]
    codes: dict[int, list[str]] = {}
    for error in real:
        codes.setdefault(error.exit_code, []).append(error.__name__)
    assert len(real) > 20 and [names for names in codes.values() if len(names) > 1] == []
    assert [
        error.__name__ for error in real if "__doc__" not in vars(error) or not error.__doc__
    ] == []
    sources = Path(errors.__file__).parents[1].rglob("*.py")
    assert [path.name for path in sources if re.search(r"Exit\((code=)?\d", path.read_text())] == []


def test_a_dry_run_says_what_is_downloaded_and_the_disk_that_it_takes(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, missing = SimpleNamespace(size=2_000_000_000), SimpleNamespace(size=1_000_000_000)
    todo = cast(plan.Plan, SimpleNamespace(artefacts=(there, missing)))
    monkeypatch.setattr(plan, "missing", lambda artefacts, workspace: [missing])
    words = "1000 MB to download; with the packages about 4000 MB of disk"
    assert plan.what_it_takes(todo, checkout) == words


def test_a_dry_run_prints_what_is_left_out_and_why_and_builds_nothing(checkout: Workspace) -> None:
    done = build(checkout, "--dry-run", "--platform", "linux-64", "--platform", "win-64")
    assert done.returncode == 0
    assert "hello-cuda13.4-linux-64" in done.stdout
    assert "2 builds, 2 packages, 1 artefact of" in done.stdout
    second = done.stdout.splitlines()[1]
    assert second.startswith("nothing to download; the packages take about ")
    assert "left out, by reason (-v: each)\n- hello: there is no wheel for win-64\n" in done.stdout
    done = build(checkout, "--dry-run", "-v", "--platform", "win-64")
    assert "nvidia-cuda-runtime 13.4.92 is not published for win-64" in re.sub(
        r"\s+", " ", done.stdout
    )
    assert not checkout.output.exists()


def test_a_build_publishes_a_channel_and_the_next_one_changes_nothing(checkout: Workspace) -> None:
    first = build(checkout)
    assert first.returncode == 0, first.stderr
    assert {p.name.split("-")[0] for p in packages(checkout.channel)} == {"hello", "follower"}
    assert "package tests: 1 passed" in first.stderr
    assert first.stdout.endswith("a published channel: ctk publish --to FOLDER\n")
    state = checkout.channel.resolve()
    second = build(checkout)
    assert second.returncode == 0, second.stderr
    assert checkout.channel.resolve() == state
    assert "unchanged" in second.stdout and "ctk publish" not in second.stdout
    planned = build(checkout, "--dry-run").stdout
    assert (
        "2 of them were built before, and would be unchanged" in planned
        and "hello-cuda" not in planned
    )


def test_a_recipe_that_is_not_committed_is_named_in_a_git_checkout(checkout: Workspace) -> None:
    """`ctk check` refuses its package once it is published, where it cannot be replaced."""
    own = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "recipes/follower"],
        [*own, "commit", "-q", "-m", "One recipe"],
    ):
        subprocess.run(["git", *words], cwd=checkout.root, check=True)
    for _ in range(2):  # also where nothing is built anew
        said = build(checkout).stdout
        assert "not committed: hello; before you publish, commit and build again" in said
        (locks,) = [line for line in said.splitlines() if "not committed: variants/" in line]
        assert locks.endswith("commit them with what they changed")


@pytest.mark.parametrize(
    ("missing", "ends"),
    [
        ("", "no test failed"),
        ("__cuda >=13.0", "no test failed"),  # another machine's
        ("python >=3.12,<3.13.0a0", "no test failed"),
        ("libfoo >=2", "some packages cannot be installed"),
    ],
)
def test_a_build_ends_with_whether_all_is_well(missing: str, ends: str) -> None:
    tests = [pipeline.Outcome("a", "passed"), pipeline.Outcome("b", "unchanged")]
    tests += [pipeline.Outcome("c", "not run", "", missing)] if missing else []
    said = pipeline.verdict(tests)
    first, *_, last = said
    assert any(
        "with --base conda-forge, those that it has are run" in s for s in said
    ) == missing.startswith("python")
    assert first.startswith(f"package tests: 2 of {len(tests)} passed")
    assert last.startswith(ends)


@pytest.mark.parametrize(
    ("pattern", "new", "error", "said"),
    [
        (r"= hello\]", "= farewell]", errors.BuildFailed, "its tests failed"),
        (
            r"cp greeting.txt",
            "echo $ROOT > path.txt; cp path.txt greeting.txt",
            errors.AuditFailed,
            "NoBuildPath",
        ),
    ],
    ids=["package test", "audit"],
)
def test_what_fails_keeps_the_channel_as_it_was(
    checkout: Workspace, pattern: str, new: str, error: type[errors.CtkError], said: str
) -> None:
    assert build(checkout).returncode == 0
    state = checkout.channel.resolve()
    change(checkout, pattern, new.replace("$ROOT", str(checkout.root)))
    done = build(checkout)
    assert done.returncode == error.exit_code, done.stdout
    # In a folder that is gone.
    assert said in done.stderr and "To run the script" not in done.stderr
    assert checkout.channel.resolve() == state


def test_a_build_that_lost_a_package_is_put_back_from_the_cache_or_named(
    checkout: Workspace,
) -> None:
    assert build(checkout).returncode == 0
    follower = checkout.recipes / "follower" / "recipe.yaml"
    # Which would bring hello.
    follower.write_text(follower.read_text().replace("requirements: {run: [hello]}\n", ""))
    for is_cached in (True, False):
        next(checkout.channel.resolve().glob("*/hello-*.conda")).unlink()
        if not is_cached:
            shutil.rmtree(checkout.builds)
        done = build(checkout, "follower")
        assert done.returncode == 0, done.stderr
        assert ("next: ctk build hello --release 13.4\n" in done.stdout) != is_cached
    assert "or the audit refuses them: hello-" in done.stdout


def test_what_an_earlier_run_built_and_the_audit_refuses_now_leaves_the_channel(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTK_ROOT", str(checkout.root))
    with monkeypatch.context() as allowing:  # as if no rule had been there
        allowing.setattr(pipeline, "audit_packages", lambda *_, **__: AuditReport.of([], [], 0, 0))
        change(
            checkout,
            r"cp greeting.txt",
            f"echo {checkout.root} > path.txt; cp path.txt greeting.txt",
        )
        base = ["--base", str(checkout.root / "base-channel")]
        assert CliRunner().invoke(app, ["build", "hello", *base]).exit_code == 0
    assert [p.name.split("-")[0] for p in packages(checkout.channel)] == ["hello"]
    change(checkout, r"echo .*; cp path.txt", "cp greeting.txt")
    follower = checkout.recipes / "follower" / "recipe.yaml"
    text = follower.read_text()
    # Which would bring hello.
    follower.write_text(text.replace("requirements: {run: [hello]}\n", ""))
    done = build(checkout, "follower", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dropped"] == ["hello-cuda13.4-linux-64"]
    assert (
        "an earlier run built what the audit refuses now" in done.stderr
        and "NoBuildPath" in done.stderr
    )
    assert [p.name.split("-")[0] for p in packages(checkout.channel)] == ["follower"]
    done = build(checkout)
    assert {p.name.split("-")[0] for p in packages(checkout.channel)} == {"follower", "hello"}
    assert "removed from the channel" not in done.stdout


def test_what_no_recipe_makes_any_more_leaves_the_channel(checkout: Workspace) -> None:
    build(checkout)
    shutil.rmtree(checkout.recipes / "follower")
    done = build(checkout, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dropped"] == ["follower-cuda13.4-noarch"]
    assert [p.name.split("-")[0] for p in packages(checkout.channel)] == ["hello"]


def test_an_environment_is_created_once_and_follows_a_rebuilt_package_of_the_same_name(
    checkout: Workspace,
) -> None:
    prefix = checkout.root / "env"
    build(checkout)
    create = ("env", "create", "follower", "--prefix", str(prefix))
    assert "created:" in with_base(checkout, *create).stdout
    assert (prefix / "share" / "hello" / "greeting.txt").read_text() == "hello\n"
    assert "unchanged:" in with_base(checkout, *create).stdout
    change(
        checkout,
        r"\$PREFIX/share/hello/\n",
        "$PREFIX/share/hello/\n    - touch $PREFIX/share/hello/new\n",
    )
    assert build(checkout).returncode == 0
    assert "\ninstalled again: hello\n" in with_base(checkout, *create).stdout
    assert (prefix / "share" / "hello" / "new").exists()


def test_clean_removes_nothing_that_nobody_agreed_to(checkout: Workspace) -> None:
    unused = checkout.store / "ab" / ("ab" * 32)  # no lock names it
    unused.parent.mkdir(parents=True)
    unused.write_bytes(b"x" * 10**6)
    shown = ctk(checkout, "clean", check=True).stdout
    assert (
        unused.exists()
        and shown.startswith("1.0 MB of ")
        and shown.endswith("nothing was removed; --yes removes it\n")
    )
    assert ctk(checkout, "clean", "--yes", check=True).stdout.endswith("1.0 MB removed\n")
    assert not unused.exists()
