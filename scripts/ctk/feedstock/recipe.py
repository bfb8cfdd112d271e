"""The text of a recipe that stands alone: sources by address and hash, scripts beside it, sections in order.

Only the lines that must differ do; comments and layout stay the author's. Places are taken from the parsed file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from ctk.core.errors import RecipeError
from ctk.lock.lock import Artefact

# The order that conda-smithy's rule R-001 asks for, of recipes of one and of several outputs.
ORDER = (
    "schema_version",
    "context",
    "package",
    "recipe",
    "source",
    "build",
    "requirements",
    "tests",
    "outputs",
    "about",
    "extra",
)
SCRIPT = re.compile(r"\bfile: \.\./common/([^\s,}]+)")
_FLOW_SOURCE = re.compile(r'^( *)source: \{path: "(.*)"\}$', re.MULTILINE)
_PATH = re.compile(
    r"^(?P<indent> *)(?P<dash>- )?path: \S*\.cache/artefacts/(?P<component>[^/]+)/\$\{\{ *(?P<version>[^}]+?) *\}\}/"
    r"(?P<target>.+)\.zip$"
)
# A wheel is unpacked with Python's zipfile, and patchelf is what the scripts call for Linux. Both have a version, so
# that no variant of Python is made of them.
_TOOLS = ("patchelf >=0.17", "python >=3.11")
# Where nothing but the licence is taken from the wheel.
_UNPACK = "python -m zipfile -e *.whl ."


class Offer(NamedTuple):
    """An artefact and where it is."""

    artefact: Artefact
    url: str


class _Edit(NamedTuple):
    """Lines ``start`` to ``end`` (0-based, the last one not included) become ``lines``."""

    start: int
    end: int
    lines: list[str]


def standalone(text: str, offers: Sequence[Offer], skips: Sequence[str], extra: Mapping[str, Sequence[str]]) -> str:
    """The recipe of a feedstock that stands alone.

    Args:
        text: The recipe as it is here.
        offers: Every artefact that it reads in some variant.
        skips: Conditions of the variants that have no artefact.
        extra: The section of that name, lists only.

    Raises:
        RecipeError: It reads its artefacts in a way that is not known here.
    """
    text = _FLOW_SOURCE.sub(r"\1source:\n\1  path: \2", text)
    lines = text.rstrip("\n").split("\n")
    recipe = YAML().load(text)
    edits: list[_Edit] = []
    for block in (recipe, *recipe.get("outputs", ())):
        if "source" in block:
            edits.append(_source(block, lines, offers))
            edits.append(_tools(block, lines))
        if skips and "package" in block:
            edits.append(_skip(block, lines, skips))
        if "source" in block and "script" not in block["build"]:
            start, _, column = _place(block, "build", lines)
            edits.append(_Edit(start + 1, start + 1, [f"{' ' * (column + 2)}script: {_UNPACK}"]))
    for edit in sorted(edits, reverse=True):
        lines[edit.start : edit.end] = edit.lines
    lines = [SCRIPT.sub(r"file: \1", line) for line in lines]
    lines += ["", "extra:"]
    for key, values in extra.items():
        lines += [f"  {key}:", *(f"    - {value}" for value in values)]
    return _in_order(lines)


def with_unpacking(script: str) -> str:
    """A build script that first unpacks the wheels of its sources: rattler-build does so for names in .zip only.

    Raises:
        RecipeError: The script has no line after which that could be.
    """
    head, line, tail = script.partition("set -euo pipefail\n")
    if not line:
        raise RecipeError("a build script has no `set -euo pipefail`", "begin it like the others in recipes/common")
    return f"""{head}{line}
for wheel in ./*.whl ./*/*.whl; do
  if [[ -f $wheel ]]; then
    python -m zipfile -e "$wheel" "${{wheel%/*}}"
    rm "$wheel"
  fi
done
{tail}"""


def _place(block: Any, key: str, lines: Sequence[str]) -> tuple[int, int, int]:
    """First line of a key, the line after its value, and its column."""
    start, column = block.lc.key(key)
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _column(lines[end]) > column):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return start, end, column


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _source(block: Any, lines: Sequence[str], offers: Sequence[Offer]) -> _Edit:
    start, end, column = _place(block, "source", lines)
    made: list[str] = []
    position = start + 1
    while position < end:
        found = _PATH.match(lines[position])
        position += 1
        if not found:
            made.append(lines[position - 1])
            continue
        inner = len(found["indent"]) + len(found["dash"] or "")
        others = position
        while others < end and _column(lines[others]) == inner and not lines[others].lstrip().startswith(("-", "#")):
            others += 1
        siblings = [line.strip() for line in lines[position:others]]
        position = others
        mine = [offer for offer in offers if offer.artefact.component == found["component"]]
        made += _entries(" " * (column + 2), found["version"], found["target"], mine, siblings)
    if not any("url:" in line for line in made):
        raise RecipeError(
            f"line {start + 1}: a source that is no artefact of a lock", "read it by `path: ../../.cache/artefacts/...`"
        )
    return _Edit(start, end, [lines[start], *made])


def _entries(indent: str, version: str, target: str, offers: Sequence[Offer], siblings: Sequence[str]) -> Iterator[str]:
    """One source for each file, each under the condition that the path stood for."""
    versions = {offer.artefact.version for offer in offers}
    done: set[tuple[str, str]] = set()
    for artefact, url in offers:
        conditions = [f'{version} == "{artefact.version}"'] if len(versions) > 1 else []
        subdir, python = _parts(artefact.target)
        if "target_platform" in target:
            conditions.append(f'target_platform == "{subdir}"')
        if "python_tag" in target:
            conditions.append(f'python_tag == "{python}"')
        condition = " and ".join(conditions)
        if (condition, artefact.sha256) in done:
            continue
        done.add((condition, artefact.sha256))
        entry = [f"url: {url}", f"sha256: {artefact.sha256}", *siblings]
        if condition:
            yield f"{indent}- if: {condition}"
            yield f"{indent}  then:"
            yield from (f"{indent}    {line}" for line in entry)
        else:
            yield f"{indent}- {entry[0]}"
            yield from (f"{indent}  {line}" for line in entry[1:])


def _parts(target: str) -> tuple[str, str]:
    """``linux-64-cp313`` -> its subdir and its Python; a target may have no Python."""
    subdir, dash, python = target.rpartition("-cp")
    return (subdir, f"cp{python}") if dash else (target, "")


def _tools(block: Any, lines: Sequence[str]) -> _Edit:
    """What the script calls, as requirements."""
    requirements = block.get("requirements")
    if requirements and "build" in requirements:
        start, _, column = _place(requirements, "build", lines)
        return _Edit(start + 1, start + 1, [f"{' ' * column}  - {tool}" for tool in _TOOLS])
    if requirements:
        start, _, column = _place(block, "requirements", lines)
        inner = " " * (column + 2)
        return _Edit(start + 1, start + 1, [f"{inner}build:", *(f"{inner}  - {tool}" for tool in _TOOLS)])
    _, end, column = _place(block, "build", lines)
    inner = " " * column
    added = [f"{inner}requirements:", f"{inner}  build:", *(f"{inner}    - {tool}" for tool in _TOOLS)]
    return _Edit(end, end, added)


def _skip(block: Any, lines: Sequence[str], skips: Sequence[str]) -> _Edit:
    """The conditions, beside those that the output has."""
    build = block["build"]
    if "skip" in build:
        start, end, column = _place(build, "skip", lines)
        skips = [*(build["skip"] if isinstance(build["skip"], list) else [build["skip"]]), *skips]
    else:
        start, _, column = _place(block, "build", lines)
        if build.fa.flow_style():
            opened = f"build: {{skip: {json.dumps(list(skips))}, "
            return _Edit(start, start + 1, [lines[start].replace("build: {", opened, 1)])
        start, end, column = start + 1, start + 1, column + 2
    return _Edit(start, end, [f"{' ' * column}skip:", *(f"{' ' * column}  - {skip}" for skip in skips)])


def _in_order(lines: Iterable[str]) -> str:
    """The top-level sections in the order of the rule, each with the comments above it."""
    sections: dict[str, list[str]] = {}
    above: list[str] = []
    current = above
    for line in lines:
        if re.match(r"[a-z_]+:", line):
            current = sections.setdefault(line.partition(":")[0], [])
            current.extend(above)
            current.append(line)
            above = []
        elif line.startswith("#"):
            above.append(line)
        elif line.strip() or not above:
            current.append(line)
    unknown = [name for name in sections if name not in ORDER]
    if unknown:
        raise RecipeError(f"a section {unknown[0]} has no place in the order", "add it to ORDER in feedstock_recipe.py")
    text = "\n\n".join("\n".join(sections[name]).strip("\n") for name in sorted(sections, key=ORDER.index))
    return text + "\n"


Locate = Callable[[Artefact], str]
