"""Finds the releases of a comparison: in this checkout, in a file, or in a git revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ctk.core import document
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, LockError, UnknownName, problems
from ctk.lock.lock import ReleaseLock, find_release, load, parse_lock, release_locks

FORMS = "13.4, python-13, a path to a .lock file, or REVISION:13.4 for the lock of a git revision"


def find(name: str, workspace: Workspace) -> ReleaseLock:
    """The release that a word of the command line means; `FORMS` says how it may be written.

    Raises:
        UnknownName: No such release is locked.
        LockError: A lock cannot be read, or is not valid.
        BadValue: Git does not give the file.
    """
    if name.endswith(".lock"):
        path = Path(name)
        return _parse(document.read(path), path.name)
    revision, colon, release = name.rpartition(":")
    if not colon:
        path = workspace.variants / f"cuda-{name}.lock"
        return load(path) if path.exists() else find_release(release_locks(workspace), name)
    file = f"{workspace.variants.name}/{release if release[:1].isalpha() else f'cuda-{release}'}.lock"
    return _parse(_git_show(revision, file, workspace), f"{revision}:{file}")


def _git_show(revision: str, file: str, workspace: Workspace) -> str:
    if revision.startswith("-"):
        raise BadValue(f"{revision!r} is no git revision", "write a commit, tag or branch")
    command = ["git", "-C", str(workspace.root), "show", f"{revision}:./{file}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    except FileNotFoundError:
        raise BadValue("git is not installed", "name a release or a file instead") from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["git gives no reason"])[0].removeprefix("fatal: ")
        raise BadValue(f"{revision}:{file} cannot be read: {reason}", "see `git log -- variants`") from None


def _parse(text: str, where: str) -> ReleaseLock:
    """A lock without its ``.yaml`` half, under whatever file name."""
    lock, found = parse_lock(text)
    if found or lock is None:
        raise problems(LockError, where, found, f"name another one: {FORMS}")
    return lock


def same_kind(old: ReleaseLock, new: ReleaseLock) -> None:
    """Refuses to compare a CTK release with a set of Python projects.

    Raises:
        UnknownName: When they are not of one kind.
    """
    if old.is_ctk != new.is_ctk:
        raise UnknownName(f"{old.name} and {new.name} have nothing in common", "name two CTK releases, or two others")
