"""What a ctk without a checkout knows: ``scripts/ctk/known``, written from the locks and recipes.

A user of a channel has no recipes. Their commands need the GPUs that each toolkit compiles for, the
names that packages have elsewhere, and the variants that recipes are built for. That is in the
package, and no artefact and no recipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.files import replace_file
from ctk.lock.model import ReleaseLock, dump, release_locks, variant_config
from ctk.plan.conda_forge import OtherChannels, read_other_channels
from ctk.plan.names import Names, read_names

PLACE = Path("scripts", "ctk", "known")
"""The folder in a checkout."""
_PUBLISHED_FOR = "cudart"
"""The component that says for which platforms a release was published: every release has it."""


@dataclass(frozen=True)
class KnownNames:
    """The content of ``names.json``."""

    names: Names
    other_channels: OtherChannels


@cache
def _shape() -> TypeAdapter[KnownNames]:
    """The schema, which takes long to make, and a checkout does not read the file."""
    return TypeAdapter(KnownNames)


def content(workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """The files that a checkout's package has, by their paths in `PLACE`, and their texts."""
    yield Path(workspace.build_config.name), workspace.build_config.read_text(encoding="utf-8")
    known = KnownNames(read_names(workspace), read_other_channels(workspace))
    yield Path("names.json"), _lines(_ordered(_shape().dump_python(known))) + "\n"
    for name, lock in release_locks(workspace).items():
        if lock.is_ctk:
            reduced = _reduced(lock)
            yield Path("variants", f"{name}.lock"), dump(reduced)
            yield Path("variants", f"{name}.yaml"), variant_config(reduced)


@cache
def read(file: Path) -> KnownNames:
    """The names that the package knows."""
    return _shape().validate_json(file.read_bytes())


def stale(workspace: Workspace) -> list[Path]:
    """The files that are not as `content` has them, or that it does not have."""
    folder = workspace.root / PLACE
    wanted = {folder / place: text for place, text in content(workspace)}
    there = {file for file in folder.rglob("*") if file.is_file()}
    changed = [file for file, text in wanted.items() if not _has(file, text)]
    return sorted([*changed, *(there - wanted.keys())])


def _has(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


def write(workspace: Workspace) -> list[Path]:
    """Writes the files that are not up to date, and removes others; returns those that changed.

    A checkout without the package's own source has no such folder.
    """
    folder = workspace.root / PLACE
    if not folder.is_dir():
        return []
    wanted = {folder / place: text for place, text in content(workspace)}
    changed = stale(workspace)
    for file in changed:
        if file in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, wanted[file].encode())
        else:
            file.unlink()
    return changed


def _reduced(lock: ReleaseLock) -> ReleaseLock:
    """A lock without the artefacts that only a build reads."""
    kept = {name: one for name, one in lock.components.items() if name == _PUBLISHED_FOR}
    return replace(lock, components=kept, added={})


def _ordered(value: Any) -> Any:
    """Plain data in an order that does not change from run to run."""
    if isinstance(value, dict):
        return {key: _ordered(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_ordered(inner) for inner in value]
    return value


def _lines(value: Any, indent: str = "") -> str:
    """JSON with each innermost mapping, and each list, on one line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    deeper = f"{indent}  "
    lines = (f"{deeper}{json.dumps(key)}: {_lines(inner, deeper)}" for key, inner in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
