"""rattler-build's messages about recipes and variant files, as a line and a text.

Some are a Rust struct with the line in it, some begin with the line, and most errors of the schema
name no line. The line of these is found with rattler-build itself: it is that of the smallest part
without which the message changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

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


def said_of(file: Path, error: Exception, check: Callable[[Path], object]) -> str:
    """An error of rattler-build as ``FILE:LINE: text``.

    Args:
        file: The recipe or variant file.
        error: What reading the file raised.
        check: Raises the error for a copy of the file.
    """
    if isinstance(error, UnicodeDecodeError):
        lines = error.object[: error.start].count(b"\n")
        return f"{shown(file)}:{lines + 1}: this is not UTF-8"
    if isinstance(error, OSError):
        return f"{shown(file)}: {error.strerror}"
    message, text = str(error), file.read_text(encoding="utf-8").splitlines()
    stated = next(
        (found for pattern in _LINES if (found := re.search(pattern, message, re.MULTILINE))), None
    )
    number = int(stated[1]) if stated else _line_of(file, check)
    said = _plain(message)
    tabs = (n for n, line in enumerate(text, 1) if re.match(r" *\t", line))
    if re.search(r"\btabs?\b", said) and (
        tab := next(tabs, 0)
    ):  # a line of text may go on over the next ones
        number, said = tab, "a tab indents this line, and YAML takes only spaces there"
    return said_at(file, number, text[number - 1] if number <= len(text) else "", said)


def uneven_zip(
    files: Sequence[Path], zips: Iterable[Sequence[str]], counts: Callable[[str], int]
) -> str:
    """``FILE:LINE: text`` of a zip's first key with more or fewer values than the key before."""
    one, other = next(
        pair
        for zip_ in zips
        for pair in pairwise(filter(counts, zip_))
        if len({*map(counts, pair)}) > 1
    )
    places = (
        f"{shown(file)}:{number}"
        for file in reversed(files)  # the last one that has a key is taken
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(rf"[\"']?{other}[\"']? *:", line)
    )
    said = f"zip_keys has {one} with {counts(one)} values and {other} with {counts(other)}"
    return f"{next(places, shown(files[-1]))}: {said}"


def said_at(file: Path, number: int, line: str, said: str = "") -> str:
    """``FILE:LINE: text`` and the line below it.

    A line in conda-build's format has another text.
    """
    found = ((re.search(pattern, line), other) for pattern, other in _OF_CONDA_BUILD.items())
    said = next((match.expand(other) for match, other in found if match), said)
    said = re.sub(r"\bpy *([<>=!]=?) *(\d)(\d+)", r'match(python, "\1\2.\3")', said)
    return f"{shown(file)}:{number}: {said}" + (f"\n    {line.strip()}" if line.strip() else "")


def _plain(message: str) -> str:
    """A message without the names of Rust's types, and without what the line says already."""
    if struct := _STRUCT.search(message):
        message = re.sub(r"\\(.)", r"\1", (struct[1] or struct[2]).replace(r"\n", "\n"))
    while prefix := _PREFIXES.match(message):
        message = message[prefix.end() :]
    message = re.sub(r" \(in (<expression>|template):\d+\)$", "", message)
    message = MISSING_OUTPUT.sub(r"no output is named \1 in this variant", message)
    if spec := _SPEC.fullmatch(message):
        what = f"`{spec[1]}`" if spec[1] else "this"
        right = "write it as `cuda-version 12.6.*` or `cuda-version >=12.6,<13`"
        if "++" in spec[2]:
            right = 'the C++ compiler is `${{ compiler("cxx") }}`'
        return f"{what} is no dependency ({spec[2]}); {right}"
    return _TEMPLATE.sub(r" in `\1`", message).strip()


def _line_of(file: Path, check: Callable[[Path], object]) -> int:
    """The line of the smallest part of a file without which `check` has no such message."""

    def said(node: yaml.Node) -> str:
        copy.write_text(
            yaml.serialize(node, Dumper=yaml.CSafeDumper, allow_unicode=True), encoding="utf-8"
        )
        try:
            check(copy)
        except Exception as error:
            return str(error)
        return ""

    def suspects(node: yaml.Node, depth: int) -> Iterator[tuple[int, bool, int, int]]:
        """How well each part below a node explains the message, and its line.

        The least explains it best.
        """
        for place, child in enumerate(node.value if isinstance(node, yaml.CollectionNode) else ()):
            key, value = child if isinstance(child, tuple) else (child, child)
            del node.value[place]
            without = said(root)
            node.value.insert(place, child)
            if without.startswith("missing required field") and isinstance(value, yaml.ScalarNode):
                written, value.value = (
                    value.value,
                    "1",
                )  # the field is there, and has a value that most fields can have
                without = said(root)
                value.value = written
            if without != whole:
                rank = 2 if without.startswith("missing required field") else 1 if without else 0
                yield rank, f"'{key.value}'" not in whole, -depth, key.start_mark.line + 1
                yield from suspects(value, depth + 1)

    with TemporaryDirectory() as folder, suppress(yaml.YAMLError):
        copy = Path(folder, file.name)
        if root := yaml.compose(file.read_bytes(), Loader=yaml.CSafeLoader):
            whole = said(root)
            return min(suspects(root, 1), default=(0, False, 0, 1))[-1]
    return 1
