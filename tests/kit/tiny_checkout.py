"""The tiny checkout with its artefact fetched, or in git, and what tests do to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.plan.commits import forget
from kit.tiny import tiny_checkout, tiny_plan

HELLO, FOLLOWER = "hello-cuda13.4-linux-64", "follower-cuda13.4-noarch"


def fetched(folder: Path) -> Workspace:
    workspace = tiny_checkout(folder)
    fetch.fetch(tiny_plan(workspace).artefacts, workspace, Index)
    return workspace


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The tiny checkout in git, with one commit."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    workspace = tiny_checkout(tmp_path / "checkout")
    (workspace.root / ".gitignore").write_text(".cache\n")
    git(workspace.root, "init", "--quiet")
    commit(workspace.root)
    return workspace


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")
    forget()
    return git(folder, "rev-parse", "HEAD")
