"""What this checkout builds: the published set and the base channel, each as recipes with the locks that feed them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from ctk.core.checkout import Workspace, settings
from ctk.core.document import Document, read
from ctk.core.errors import LockError, problems
from ctk.core.platforms import PLATFORMS
from ctk.lock import exclusions
from ctk.lock.exclusions import Classes, classify
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.plan.plan import Request, Set, plan
from ctk.plan.recipes import find_recipes


def published_set(workspace: Workspace) -> Set:
    """The recipes of ``recipes/`` with the release locks of ``variants/``.

    Raises:
        LockError: A release lock, or the list of exclusions, is not valid; every problem of it is listed.
    """
    locks = {name: (lock, workspace.variants / f"{name}.yaml") for name, lock in release_locks(workspace).items()}
    excluded = exclusions.load(workspace).excluded
    return Set(find_recipes(workspace.recipes), locks, (workspace.build_config,), excluded)


def classified(workspace: Workspace, what: Set | None = None) -> dict[str, Classes]:
    """Of each CTK release, by the name of its lock, which components are packaged, which excluded, and which neither.

    A component counts as packaged when a build that is really planned for the release reads it, on some platform.

    Args:
        workspace: The checkout.
        what: Its recipes and locks, where they have been read already.

    Raises:
        LockError: A release lock or the written list is not valid.
    """
    what, tags = what or published_set(workspace), python_tags(workspace.build_config)
    found = {}
    for name, (lock, _) in what.locks.items():
        if not lock.is_ctk:
            continue
        read: set[str] = set()
        for subdir in PLATFORMS:  # most are on the first one
            if set(lock.components) <= read | {e.component for e in what.exclusions if e.applies_to(lock)}:
                break
            planned = plan(what, Request(releases=(lock.minor,), platforms=(subdir,)), tags)
            read |= {a.component for build in planned.builds if build.lock == name for a in build.artefacts}
        found[name] = classify(lock, read, what.exclusions)
    return found


@cache
def python_tags(build_config: Path) -> tuple[str, ...]:
    """The Pythons of the matrix, oldest first, as wheel tags.

    Raises:
        LockError: The file is not what conda-build calls a variant file, or names no Pythons; with the line.
    """
    document = Document(read(build_config))
    tags: Any = document.data.get("python_tag") if isinstance(document.data, dict) else None
    found = list(document.problems)
    if not isinstance(tags, list) or not tags or not all(re.fullmatch(r"cp3[0-9]{1,2}t?", str(tag)) for tag in tags):
        found.append(f"line {document.line(('python_tag',))}: python_tag: is no list of tags like cp313")
    if found:
        raise problems(LockError, build_config.name, found, "mend the file: it is kept by hand")
    return tuple(tags)


def small(
    request: Request, workspace: Workspace, *, all_releases: bool = False, all_components: bool = False
) -> Request:
    """A request that names no release or no recipe, narrowed to what this checkout builds by default.

    ``[tool.ctk.default]`` of ``pyproject.toml`` says what that is; a checkout without it builds everything.

    Args:
        request: What the user asked for.
        workspace: The checkout.
        all_releases: Leave the releases alone.
        all_components: Leave the recipes alone.

    Raises:
        BadValue: The table is not of the form that `ctk.core.checkout` reads.
    """
    default = settings(workspace.root).default
    if default.releases is not None and not request.releases and not all_releases:
        request = replace(request, releases=_releases(default.releases, release_locks(workspace).values()))
    if default.recipes is not None and not request.recipes and not all_components:
        request = replace(request, recipes=tuple(default.recipes))
    return request


def _releases(words: Sequence[str], locks: Iterable[ReleaseLock]) -> tuple[str, ...]:
    """CTK minors, oldest first; the words ``oldest`` and ``newest`` are those of each CUDA major."""
    majors: dict[str, list[str]] = {}
    for minor in sorted((lock.minor for lock in locks if lock.is_ctk), key=Version):
        majors.setdefault(minor.partition(".")[0], []).append(minor)
    ends = {"oldest": [m[0] for m in majors.values()], "newest": [m[-1] for m in majors.values()]}
    return tuple(sorted({minor for word in words for minor in ends.get(word, [word])}, key=Version))
