"""The tiny checkout in git, as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from kit.tiny import tiny_checkout
from kit.tiny_checkout import commit, git


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
