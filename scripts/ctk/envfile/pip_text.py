"""Reads requirements.txt, and other lists of requirements of pip."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ctk.envfile.lines import Collected, first_notes
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format
from ctk.envfile.source import Source

_COMMENT = re.compile(r"(^|\s)#.*$")  # a `#` in an address has no space before it


def read_requirements(source: Source) -> EnvironmentFile:
    """A requirements.txt: comments, lines that go on, markers, hashes, options, addresses.

    What other files say (``-r``, ``-c``, ``-e``) is a note.

    Raises:
        FileUnreadable: No line of it is one of pip's.
    """
    found = Collected()
    for number, text in logical_lines(source.text):
        found.add_pip(text, number)
    if not found.lines and found.notes and not _has_option(source.text):
        raise source.error(0, "none of its lines is a package that pip can read")
    environment = FileEnvironment("", tuple(found.lines))
    notes = first_notes(found.notes)
    return EnvironmentFile(source.path, Format.REQUIREMENTS, source.text, (environment,), notes)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The first line's number, and the text without comments, of lines that end in no backslash.

    As pip joins them: "Line continuations" in its "Requirements File Format".
    """
    first = 0
    parts: list[str] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip("\r")
        first = first or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            parts.append(line[:-1])
            continue
        parts.append(line)
        joined = _COMMENT.sub("", "".join(parts)).strip()
        if joined:
            yield first, joined
        first = 0
        parts = []
    rest = _COMMENT.sub("", "".join(parts)).strip()
    if rest:
        yield first, rest


def _has_option(text: str) -> bool:
    return re.search(r"^\s*-", text, re.MULTILINE) is not None
