"""The commit of a recipe's files, with few processes of git: two for a checkout as it is."""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from ctk.core.checkout import git, workspace
from ctk.core.memo import memo

_COMMIT = TypeAdapter(str)


@dataclass(frozen=True)
class _Repository:
    """A repository of git, as it is now.

    Attributes:
        root: Its folder.
        head: The commit that is checked out.
        ends: The oldest commits of a shallow clone, in which git shows all files as added.
    """

    root: Path
    head: str
    ends: tuple[str, ...]


@cache
def last_commit(folder: Path, files: tuple[Path, ...]) -> str:
    """The last commit that changed one of these files, most of which are below a folder.

    "" outside a git checkout, with uncommitted changes, and in a shallow clone without that commit.
    What HEAD decides is noted: it is asked again after the next commit.
    """
    folder, real_files = folder.resolve(), [file.resolve() for file in files]
    repository = _repository(folder)
    if repository is None:
        return ""
    for place in _outermost({folder, *(file.parent for file in real_files)}):
        changed = _changed(repository.root, place)
        if changed is None or not changed.isdisjoint(real_files):
            return ""
    names = [os.path.relpath(file, repository.root) for file in real_files]
    note = memo(workspace().notes / "commits", [repository.head, repository.ends, *names], _COMMIT)
    commit = note.read()
    if commit is None:
        # Without the objects that a user may have put in place of others, HEAD decides alone.
        commit = git(
            repository.root, "--no-replace-objects", "log", "-1", "--format=%H", "--", *names
        )
        if commit:
            note.write(commit)
    return "" if commit in repository.ends else commit


def _outermost(folders: Set[Path]) -> list[Path]:
    """The folders that are below no other of them: each costs a process of git."""
    return [folder for folder in sorted(folders) if folders.isdisjoint(folder.parents)]


def committed_at(folder: Path, commit: str) -> int:
    """When a commit was made, in seconds since 1970; 0 for no commit, and where git has none."""
    if not commit:
        return 0
    return int(git(folder, "show", "--no-patch", "--format=%ct", commit) or 0)


@cache
def _repository(folder: Path) -> _Repository | None:
    """The repository with a folder; None outside of one, and before the first commit."""
    asked = ("HEAD", "--show-toplevel", "--git-path", "shallow")
    lines = git(folder, "rev-parse", *asked).splitlines()
    if len(lines) != 3:
        return None
    head, root, shallow = lines
    file = folder / shallow
    ends = file.read_text(encoding="ascii").split() if file.is_file() else []
    return _Repository(Path(root), head, tuple(sorted(ends)))


@cache
def _changed(root: Path, folder: Path) -> frozenset[Path] | None:
    """The files below a folder that are not as they were committed; None if git does not say."""
    words = ("--porcelain", "-z", "--branch", "--untracked-files=all", "--no-renames", "--", ".")
    branch, *changes = git(folder, "status", *words).split("\0")
    if not branch:
        return None
    # ``XY path``: two letters for what changed.
    return frozenset(root / change[3:] for change in changes if change)


def uncommitted(folder: Path) -> list[str]:
    """The files below a folder with changes that git does not have, as its repository names them.

    None outside a git checkout.
    """
    folder = folder.resolve()
    repository = _repository(folder)
    if repository is None:
        return []
    changed = _changed(repository.root, folder) or ()
    return sorted(os.path.relpath(file, repository.root) for file in changed)


def forget() -> None:
    """Forgets what git said in this process."""
    last_commit.cache_clear()
    _repository.cache_clear()
    _changed.cache_clear()
