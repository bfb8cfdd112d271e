"""The file of a user as it should be for a channel: its new text, and how that differs."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue
from ctk.core.files import replace_file
from ctk.envfile.model import EnvironmentFile, Format, Line, Tool
from ctk.envfile.rewrite_edits import Edit as Edit
from ctk.envfile.rewrite_edits import ForFirst as ForFirst
from ctk.envfile.rewrite_edits import line_end_of
from ctk.envfile.rewrite_text import environment_of
from ctk.envfile.rewrite_toml import has_pixi, rewritten_manifest
from ctk.envfile.rewrite_yaml import rewritten_environment


def rewritten(
    file: EnvironmentFile,
    edits: Sequence[Edit],
    channels: Sequence[str],
    first: Sequence[str] = (),
    projects: Mapping[str, str] | None = None,
    place: ForFirst | None = None,
) -> str:
    """The text of a file after edits.

    Lines that are not edited stay as they are, to the byte. A spec that another line has already is
    not written again. For a list of pip and for a lock, the text of an environment.yml: see
    `name_of_new`.

    Args:
        file: The file.
        edits: What becomes of its lines; at most one for each place.
        channels: The whole list of channels of the new file, the most important first. `nodefaults`
            stays if the file has it.
        first: Specs to write before all others, of packages that the file does not name.
        projects: Package of the first channel -> the project of pip that it takes the place of, for
            lines that stay in the lists of a pyproject.toml.
        place: Where `first` stands in a file of pixi; by default where something is edited.

    Raises:
        BadValue: The text cannot be edited, at a line that is named.
    """
    merged = _merged(edits)
    own = {_place(edit.line): edit.line for edit in merged}
    environments = tuple(
        replace(environment, lines=tuple(own.get(_place(line), line) for line in environment.lines))
        for environment in file.environments
    )
    # Lines are added behind others: the last one gets an end while that is done.
    is_whole = file.text.endswith("\n") or not file.text
    end = "" if is_whole else line_end_of(file.text)
    whole = replace(file, text=file.text + end, environments=environments)
    if not _stays_itself(file):
        return environment_of(whole, merged, channels, first)
    if file.format is Format.ENVIRONMENT:
        text = rewritten_environment(whole, merged, channels, first)
    else:
        text = rewritten_manifest(whole, merged, channels, first, projects or {}, place)
    return text.removesuffix(end)


def name_of_new(file: EnvironmentFile) -> str:
    """The ending that the name of the new file must have: ``.yml`` or ``.toml``.

    A list of pip and a lock cannot say what conda installs: an environment.yml is made of them.
    """
    is_manifest = file.format in (Format.PIXI, Format.PYPROJECT)
    return ".toml" if is_manifest and _stays_itself(file) else ".yml"


def _stays_itself(file: EnvironmentFile) -> bool:
    """Whether the new file has the format of the old one."""
    if file.format is Format.PYPROJECT:
        return has_pixi(file)
    return file.format in (Format.ENVIRONMENT, Format.PIXI)


def _merged(edits: Sequence[Edit]) -> list[Edit]:
    """The edits, one for each place in the file: environments may see one for other platforms."""
    found: dict[tuple[int, Tool, str], Edit] = {}
    for edit in edits:
        before = found.setdefault(_place(edit.line), edit)
        specs = tuple(dict.fromkeys((*before.specs, *edit.specs)))
        found[_place(edit.line)] = replace(before, specs=specs)
    return list(found.values())


def _place(line: Line) -> tuple[int, Tool, str]:
    return line.number, line.tool, line.name


def difference(before: str, after: str, name: str, new: str) -> str:
    """What differs, for people: a unified diff with the names of both; "" if nothing does."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, new, lineterm="")
    return "\n".join(lines)


def write_new(path: Path, text: str) -> None:
    """Writes a file that does not exist yet, whole or not at all.

    Raises:
        BadValue: There is such a file, or no such folder.
        NoSpace: The disk is full, or the folder cannot be written.
    """
    if os.path.lexists(path):
        raise BadValue(f"{path} exists, and nothing is overwritten", "name a new file")
    if not path.parent.is_dir():
        step = f"make it, or name a file elsewhere: {path.name}"
        raise BadValue(f"there is no folder {path.parent}", step)
    with disk_errors(path.parent):
        replace_file(path, text.encode())
