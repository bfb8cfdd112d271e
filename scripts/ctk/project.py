"""What this checkout builds: the published set and the base channel, each as recipes with the locks that feed them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from ctk.lock import release_locks
from ctk.paths import Workspace
from ctk.plan import Set
from ctk.recipes import find_recipes


def published_set(workspace: Workspace) -> Set:
    """The recipes of ``recipes/`` with the release locks of ``variants/``.

    Raises:
        LockError: A release lock is not valid; every problem of it is listed.
    """
    locks = {name: (lock, workspace.variants / f"{name}.yaml") for name, lock in release_locks(workspace).items()}
    return Set(find_recipes(workspace.recipes), locks, (workspace.build_config,))


@cache
def python_tags(build_config: Path) -> tuple[str, ...]:
    """The Pythons of the matrix, oldest first, as wheel tags."""
    return tuple(YAML(typ="safe").load(build_config)["python_tag"])
