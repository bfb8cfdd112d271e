"""Reads the lists of conda: `conda list --explicit`, `conda list --export`, and lists of specs."""

from __future__ import annotations

import re

from ctk.envfile.lines import Collected, first_notes, of_address
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format
from ctk.envfile.source import Source
from ctk.envfile.subdirs import SUBDIRS
from ctk.package.records import is_spec

MARK = "@EXPLICIT"
_PLATFORM = re.compile(r"^#\s*platform:\s*(\S+)", re.MULTILINE)
_SUBDIR = re.compile(rf"/({'|'.join(SUBDIRS)})/[^/\n]+$", re.MULTILINE)
# One `=` behind a name is conda's; two are of both.
_OF_CONDA = re.compile(r"^\s*[A-Za-z0-9_.:/-]+\s*=[^=]", re.MULTILINE)
_OF_BOTH = re.compile(r"^\s*[A-Za-z0-9_.-]+(\[.*\])?\s*([=~!]=|[<>])", re.MULTILINE)
_MARKED = re.compile(rf"^\s*{MARK}\s*$", re.MULTILINE)
_TEXT = re.compile(r"([\w./:-]+::)?[\w.-]+(\s*[=<>!~]{1,2}[^=\s]+(=[^=\s]+)?)?")


def is_list_of_conda(text: str) -> bool:
    """Whether a text is a list of conda, and no requirements of pip with a mistake or two."""
    if _MARKED.search(text):
        return True
    of_conda = len(_OF_CONDA.findall(text))
    return of_conda > len(_OF_BOTH.findall(text))


def has_line_of_conda(text: str) -> bool:
    """Whether a text has a line that is one of conda, and none of pip."""
    return _MARKED.search(text) is not None or _OF_CONDA.search(text) is not None


def is_conda_text(text: str) -> bool:
    """Whether a line of a list can be one of conda: a spec, the address of a package, `MARK`."""
    if text == MARK or of_address(text) is not None:
        return True
    return _TEXT.fullmatch(text) is not None and is_spec(text)


def read_explicit(source: Source) -> EnvironmentFile:
    """A list with an address or a spec (``name=version=build``) on each line.

    ``name=version=pypi_0`` is of pip: `conda list --export` lists pip's packages so.

    Raises:
        FileUnreadable: No line of it is one of conda's.
    """
    found = Collected()
    for number, raw in enumerate(source.text.split("\n"), start=1):
        text = raw.strip()
        if not text or text.startswith("#") or text == MARK:
            continue
        of_pip = re.fullmatch(r"([^=\s]+)=([^=\s]+)=pypi(_\d+)?", text)
        if of_pip:
            found.add_pip(f"{of_pip[1]}=={of_pip[2]}", number)
        else:
            found.add_conda(text, number)
    if not found.lines:
        raise source.error(0, "none of its lines is a package that conda can read")
    subdirs = _PLATFORM.findall(source.text) or _SUBDIR.findall(source.text)
    channels = dict.fromkeys(line.channel for line in found.lines if line.channel)
    platforms = tuple(dict.fromkeys(subdirs))
    environment = FileEnvironment("", tuple(found.lines), tuple(channels), platforms)
    notes = first_notes(found.notes)
    return EnvironmentFile(source.path, Format.EXPLICIT, source.text, (environment,), notes)
