"""rattler-build's messages about recipes and variant files, as file, line and text.

Some are a Rust struct with the line in it, some begin with the line. Most errors of the schema name
no line, and are printed without one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

_STRUCT = re.compile(r'\b(?:message|reason): "((?:[^"\\]|\\.)*)"|\w+\("((?:[^"\\]|\\.)*)"\)$')
_LINES = (
    r"\bline: (\d+), column: ",
    r" and (\d+):\d+$",
    r"(?:^|: )(\d+):\d+: ",
    r" at line (\d+) column ",
)
_TEMPLATE = re.compile(r" \(in <\w+>:\d+\) \(template: (.*)\)$", re.DOTALL)
_PREFIXES = re.compile(
    r"^((Render|parse|Jinja template) error|Failed to parse (YAML|Jinja template|Jinja"
    r" expression|if)"
    r"|Template rendering failed|\d+:\d+): "
)
_SPEC = re.compile(
    r"(?:Invalid match spec '(.*?)'|invalid value for 'item'): (.*(?:spec|build"
    r" string|name|version).*)"
)
MISSING_OUTPUT = re.compile(r'MissingOutput \{ package: "(.*)" \}')
SELECTOR = (
    r"# *\[((?:not )?"
    r"(?:linux|win|osx|unix|x86|aarch64|arm64|ppc64le|py|cuda_compiler|build_platform"
    r"|target_platform)"
    r"\b.*)\]"
)
_COMMENT = "`# [...]` is conda-build's, and only a comment here: write"
_OF_CONDA_BUILD = {
    r"(?<!\$)\{\{": "`{{ ... }}` is conda-build's: write `${{ ... }}`",
    r"\{%": "`{% set ... %}` is conda-build's: write its names below `context:`",
    r"\bsel\(": "`sel(...)` is of an older format: write `- if: linux` and below it `then: ...`",
    rf"^\s*skip:.*{SELECTOR}": rf"{_COMMENT} `skip:` and below it `- \1`",
    SELECTOR: rf"{_COMMENT} `- if: \1` and below it `then: ...`",
}
"""Part of a line at fault -> what to write instead, with the groups of the part."""


def shown(file: Path) -> str:
    """A path as short as it can be said."""
    return os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file)


def message_of(file: Path, error: Exception) -> str:
    """An error of rattler-build as ``FILE:LINE: text``; ``FILE: text`` if it names no line.

    Args:
        file: The recipe or variant file.
        error: What reading the file raised.
    """
    if isinstance(error, UnicodeDecodeError):
        lines_before = error.object[: error.start].count(b"\n")
        return f"{shown(file)}:{lines_before + 1}: this is not UTF-8"
    if isinstance(error, OSError):
        return f"{shown(file)}: {error.strerror}"
    lines = file.read_text(encoding="utf-8").splitlines()
    number = _stated_line(str(error))
    text = _plain(str(error))
    if re.search(r"\btabs?\b", text):
        # The first tab counts: a line of text may go on over the next ones.
        tab = _first_line(lines, r"^ *\t")
        if tab:
            number = tab
            text = "a tab indents this line, and YAML takes only spaces there"
    if not number:
        code = ["" if line.lstrip().startswith("#") else line for line in lines]
        number = _first_line(code, *_OF_CONDA_BUILD)
    if not number:
        return f"{shown(file)}: {text}"
    line = lines[number - 1] if number <= len(lines) else ""
    return message_at(file, number, line, text)


def _stated_line(message: str) -> int:
    """The line that a message of rattler-build names; 0 if it names none."""
    for pattern in _LINES:
        if found := re.search(pattern, message, re.MULTILINE):
            return int(found[1])
    return 0


def _first_line(lines: Sequence[str], *patterns: str) -> int:
    """The number of the first line that has one of some patterns; 0 if none has."""
    for number, line in enumerate(lines, 1):
        if any(re.search(pattern, line) for pattern in patterns):
            return number
    return 0


def uneven_zip(
    files: Sequence[Path], zips: Iterable[Sequence[str]], counts: Callable[[str], int]
) -> str:
    """``FILE:LINE: text`` of the first key of a zip with more or fewer values than its left one.

    Args:
        files: The variant files, in rising precedence.
        zips: Groups of keys, one of which is uneven.
        counts: Gives the number of values of a key; 0 for a key that no file has.
    """
    pairs = (pair for group in zips for pair in pairwise(filter(counts, group)))
    left, key = next((left, key) for left, key in pairs if counts(left) != counts(key))
    return (
        f"{_place_of_key(files, key)}: zip_keys has {left} with {counts(left)} values and {key}"
        f" with {counts(key)}"
    )


def _place_of_key(files: Sequence[Path], key: str) -> str:
    """``FILE:LINE`` of a key in the last variant file that has it, whose values count."""
    for file in reversed(files):
        lines = file.read_text(encoding="utf-8").splitlines()
        if number := _first_line(lines, rf"^[\"']?{key}[\"']? *:"):
            return f"{shown(file)}:{number}"
    return shown(files[-1])


def message_at(file: Path, number: int, line: str, text: str = "") -> str:
    """``FILE:LINE: text`` and the line below it.

    A line in conda-build's format has another text.
    """
    for pattern, instead in _OF_CONDA_BUILD.items():
        if match := re.search(pattern, line):
            text = match.expand(instead)
            break
    text = re.sub(r"\bpy *([<>=!]=?) *(\d)(\d+)", r'match(python, "\1\2.\3")', text)
    quoted = line.strip()
    place = f"{shown(file)}:{number}"
    return f"{place}: {text}\n    {quoted}" if quoted else f"{place}: {text}"


def _plain(message: str) -> str:
    """A message without the names of Rust's types and the positions that the line already says."""
    if struct := _STRUCT.search(message):
        quoted = struct[1] or struct[2]
        message = re.sub(r"\\(.)", r"\1", quoted.replace(r"\n", "\n"))
    while prefix := _PREFIXES.match(message):
        message = message[prefix.end() :]
    message = re.sub(r" \(in (<expression>|template):\d+\)$", "", message)
    message = MISSING_OUTPUT.sub(r"no output is named \1 in this variant", message)
    if spec := _SPEC.fullmatch(message):
        subject = f"`{spec[1]}`" if spec[1] else "a requirement"
        remedy = "write it as `cuda-version 12.6.*` or `cuda-version >=12.6,<13`"
        if bare := re.fullmatch(r"(\S+) (\d[\d.]*)", spec[1] or ""):
            remedy = f"write .* behind the version, which makes it `{bare[1]} {bare[2]}.*`"
        if "++" in spec[2]:
            remedy = 'the C++ compiler is `${{ compiler("cxx") }}`'
        return f"{subject} is not a dependency ({spec[2]}); {remedy}"
    return _TEMPLATE.sub(r" in `\1`", message).strip()
