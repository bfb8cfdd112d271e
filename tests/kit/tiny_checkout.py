"""The tiny checkout with its artefact fetched, or in git, and what tests do to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

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


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")
    forget()
    return git(folder, "rev-parse", "HEAD")
