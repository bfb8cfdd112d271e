"""`ctk release diff`: the changes between two releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ctk.core.checkout import checkout
from ctk.core.console import Reporter
from ctk.core.errors import refuse_unknown_names
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.diff.compare import breaks, compare, find, same_kind
from ctk.diff.licences import licence_changes
from ctk.diff.render import as_json, markdown
from ctk.index.index import Index
from ctk.lock.model import release_locks


def show_diff(old: str, new: str, platforms: Sequence[str]) -> None:
    """Prints the changes between two releases, as Markdown."""
    workspace, report = checkout(), Reporter()
    subdirs = tuple(dict.fromkeys(platforms or [this_platform()]))
    refuse_unknown_names("platform", subdirs, PLATFORMS)
    first, second = find(old, workspace), find(new, workspace)
    same_kind(first.lock, second.lock)
    licences = licence_changes(first.lock, second.lock, Index)
    difference = compare(first, second, subdirs, release_locks(workspace).values())
    difference = replace(difference, licences=licences)
    found = breaks(difference)
    report.result(**as_json(difference, found))
    report.line(markdown(difference, found).rstrip())
