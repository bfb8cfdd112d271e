"""An environment.yml made of a file that cannot list what conda installs: lists of pip, and locks.

A list of requirements becomes the ``pip:`` part, without the lines that conda installs. A lock
becomes the versions that it has: its builds are files of other channels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ctk.envfile.model import EnvironmentFile, Format, Line, Tool
from ctk.envfile.rewrite_edits import (
    Edit,
    beside,
    line_end_of,
    missing_specs,
    name_of_spec,
    without_duplicates,
    yaml_comment_of,
)
from ctk.envfile.rewrite_yaml import written

_COMMENT = re.compile(r"(?:^|\s+)(#.*)$")  # pip's: an address may have a `#` without space
_HINT = re.compile(r"\s+#")  # pip-compile's ``    # via torch`` below a line


@dataclass(frozen=True)
class _Entry:
    """A line of a list of pip, as a ``pip:`` part has it.

    Attributes:
        numbers: The lines that it takes in the list, from 1; none for one that stays anyway.
        text: What pip is told, on one line; "" for a line that is empty or a comment.
        comment: With its `#`; or "".
        is_hint: Whether it is a comment about the line above it.
    """

    numbers: range
    text: str
    comment: str
    is_hint: bool = False


def environment_of(
    file: EnvironmentFile, edits: Sequence[Edit], channels: Sequence[str], first: Sequence[str]
) -> str:
    """The text of an environment.yml with what the edits of a file say.

    With the comments and lines of a requirements.txt that nobody edits, in their order; with what a
    pyproject.toml asks pip for; of a lock, with its name, and with its lines that nobody edits.
    """
    if file.format is Format.REQUIREMENTS:
        entries = list(_entries(file.text))
    else:
        entries = _main_entries(file, edits)
    final = _for_all_platforms([*edits, *_kept_of_conda(file, edits)])
    head = list(takewhile(lambda entry: not entry.text, entries))
    rest = list(_rest(entries[len(head) :], final))
    lines = [yaml_comment_of(_origin(file))] if file.format.is_lock else []
    lines += [entry.comment for entry in head if entry.comment]
    lines += ["channels:", *(f"  - {written(channel)}" for channel in channels)]
    body = [*_conda_lines(final, entries, first), *_pip_lines(rest)]
    is_empty = all(line.lstrip().startswith("#") for line in body)
    lines += ["dependencies: []" if is_empty else "dependencies:", *body]
    end = line_end_of(file.text)
    return "".join(line + end for line in lines)


def _for_all_platforms(edits: Sequence[Edit]) -> list[Edit]:
    """The edits, of which each spec is there once: an environment.yml has one list for all."""
    moved = []
    for edit in edits:
        line = replace(edit.line, part="", subdirs=())
        moved.append(replace(edit, line=line))
    return without_duplicates((), moved)


def _main_entries(file: EnvironmentFile, edits: Sequence[Edit]) -> list[_Entry]:
    """What the first environment of a file asks pip for, without the lines that are edited."""
    return [
        _Entry(range(0), line.spec if file.format.is_lock else line.text, "")
        for line in _not_edited(file, edits)
        if line.tool is Tool.PIP
    ]


def _kept_of_conda(file: EnvironmentFile, edits: Sequence[Edit]) -> list[Edit]:
    """The packages of conda that the first environment of a file has, and that nobody edits."""
    kept = [line for line in _not_edited(file, edits) if line.tool is Tool.CONDA]
    return [Edit(line, (line.spec,)) for line in kept]


def _not_edited(file: EnvironmentFile, edits: Sequence[Edit]) -> list[Line]:
    edited = {edit.line for edit in edits}
    return [line for line in file.environments[0].lines if line not in edited]


def _origin(file: EnvironmentFile) -> str:
    """What a lock is, in words."""
    words = f"made from the lock {file.path.name}"
    subdirs = file.environments[0].subdirs
    return f"{words}, for {subdirs[0]}" if len(subdirs) == 1 else words


def _entries(text: str) -> Iterator[_Entry]:
    """The lines of a requirements.txt; those that end in a backslash are one with the next."""
    parts: list[str] = []
    start = 1
    for number, raw in enumerate(text.removesuffix("\n").split("\n"), start=1):
        if not parts:
            start = number
        raw = raw.rstrip("\r")
        is_comment = raw.lstrip().startswith("#")
        if raw.endswith("\\") and not is_comment:
            parts.append(raw[:-1].strip())
            continue
        parts.append(raw.strip())
        yield _entry(range(start, number + 1), " ".join(parts).strip(), bool(_HINT.match(raw)))
        parts = []
    if parts:
        yield _entry(range(start, start + len(parts)), " ".join(parts).strip(), False)


def _entry(numbers: range, text: str, is_hint: bool) -> _Entry:
    comment = _COMMENT.search(text)
    if comment is None:
        return _Entry(numbers, text, "")
    return _Entry(numbers, text[: comment.start()].rstrip(), comment[1], is_hint)


def _rest(entries: Sequence[_Entry], edits: Sequence[Edit]) -> Iterator[tuple[str, str]]:
    """The text and comment of what stays with pip.

    A line that goes leaves its reason, and takes with it what pip-compile says of it.
    """
    edit_of = {edit.line.number: edit for edit in edits}
    is_below_edited = False
    for entry in entries:
        edit = next((edit_of[number] for number in entry.numbers if number in edit_of), None)
        if entry.is_hint and not entry.text and is_below_edited:
            continue
        is_below_edited = edit is not None
        if edit is None and (entry.text or entry.comment):
            yield entry.text, entry.comment
        elif edit and not edit.specs and (comment := yaml_comment_of(edit.comment, entry.comment)):
            yield "", comment


def _conda_lines(
    edits: Sequence[Edit], entries: Sequence[_Entry], first: Sequence[str]
) -> Iterator[str]:
    own_of = {number: entry.comment for entry in entries for number in entry.numbers}
    names = [name_of_spec(spec) for edit in edits for spec in edit.specs]
    for spec in missing_specs(first, names):
        yield f"  - {written(spec)}"
    for edit in edits:
        comment = yaml_comment_of(edit.comment, own_of.get(edit.line.number, ""))
        for number, spec in enumerate(edit.specs):
            yield beside(f"  - {written(spec)}", "" if number else comment)
        is_in_place = edit.line.number in own_of
        if not edit.specs and comment and not is_in_place:
            yield f"  {comment}"


def _pip_lines(rest: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The ``pip:`` part; comments only, if nothing is left for pip."""
    has_packages = any(text for text, _ in rest)
    indentation = "  "
    if has_packages:
        yield "  - pip"
        yield "  - pip:"
        indentation = "      "
    for text, comment in rest:
        if text:
            yield beside(f"{indentation}- {written(text)}", comment)
        else:
            yield f"{indentation}{comment}"
