"""What `ctk build-recipe` found wrong with packages: a note in their channel, for `ctk publish`.

A package that is wrong, or whose tests failed, stays in its channel, where its author looks into
it. The note keeps it from readers. It has the sha256 of each package, so that it says nothing of
another package with the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ctk.core.files import file_sha256, read_json, replace_file

FAULTS = ".ctk-faults.json"
CORRECT_RECIPE = "correct the recipe and build it again"


def note_faults(channel: Path, judged: Mapping[str, str]) -> None:
    """Notes of packages what is wrong with each; what is noted of others stays.

    Args:
        channel: Their folder.
        judged: ``subdir/file`` -> what is wrong with it, "" for nothing.
    """
    noted = {name: entry for name, entry in _read(channel).items() if name not in judged}
    for name, fault in judged.items():
        if fault:
            noted[name] = {"sha256": file_sha256(channel / name), "fault": fault}
    file = channel / FAULTS
    if noted:
        replace_file(file, json.dumps(noted, indent=1, sort_keys=True).encode())
    else:
        file.unlink(missing_ok=True)


def noted_faults(channel: Path, names: Iterable[str]) -> dict[str, str]:
    """``subdir/file`` -> what is wrong with it, of those packages that the note is about."""
    noted = _read(channel)
    found = {}
    for name in names:
        entry = noted.get(name)
        file = channel / name
        if entry and file.is_file() and entry["sha256"] == file_sha256(file):
            found[name] = entry["fault"]
    return found


def _read(channel: Path) -> dict[str, dict[str, str]]:
    """The note; entries that cannot be read are left out."""
    content = read_json(channel / FAULTS)
    if not isinstance(content, dict):
        return {}
    found = {}
    for name, entry in content.items():
        if isinstance(entry, dict) and {"sha256", "fault"} <= entry.keys():
            found[name] = {key: str(value) for key, value in entry.items()}
    return found
