"""The pages of the docs, as tests see them: their code blocks, headings, links, and the files that
they name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from conftest import ROOT

PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    )
    if not path.is_symlink()
)
CURRENT = [path for path in PAGES if path.stem != "CHANGELOG"]
"""Those that name what there is now, and not what there was."""
EXAMPLES = "ctk build-recipe ./examples/"
"""The beginning of what test_examples.py runs."""
NVCC_OF_CUDA_12 = "nvcc of CUDA 12"
"""The heading of the only lines that need a package of conda-forge."""
_PRINTED_BY = re.compile(r"<!-- printed by: (.+?) -->")


_FILE = re.compile(
    r"[\s`](?:\./)?((?:scripts|tests|docs|recipes|variants)/[\w./-]*\w)(?:::(\w+))?[`\s,;]"
)


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        page: Its page's path in the repository.
        line: Where it begins, counted from 1.
        language: What the fence says: ``bash``.
        text: What is inside.
        heading: The heading above it.
        printed_by: The command that the comment right above it names, else "".
    """

    page: str
    line: int
    language: str
    text: str
    heading: str
    printed_by: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")))


def blocks(*pages: Path) -> list[Block]:
    """Every block of code, in order; an indented one has the language ``indented``."""
    return [block for page in pages or PAGES for block in _blocks(page)]


def _blocks(page: Path) -> Iterator[Block]:
    heading, comment = "", ""
    name = page.relative_to(ROOT).as_posix()
    inside_heading = False
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            language = token.info.strip() if token.type == "fence" else "indented"
            line = (token.map or [0])[0] + 1
            yield Block(name, line, language, token.content, heading, comment)
        if token.type == "inline" and inside_heading:
            heading = token.content
        inside_heading = token.type == "heading_open"
        found = _PRINTED_BY.search(token.content) if token.type == "html_block" else None
        comment = found[1] if found else ""


def headings(page: Path) -> list[str]:
    """The anchors that a forge gives to a page's headings."""
    seen: list[str] = []
    for before, token in zip(tokens(page), tokens(page)[1:], strict=False):
        if before.type == "heading_open":
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", token.content)
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            seen.append(anchor if anchor not in seen else f"{anchor}-{seen.count(anchor)}")
    return seen


def links(page: Path) -> list[str]:
    """Where its links and pictures lead."""
    children = [child for token in tokens(page) for child in token.children or ()]
    return [
        str(target)
        for child in children
        if (target := child.attrGet("href") or child.attrGet("src"))
    ]


def named_files(page: Path) -> list[tuple[str, str]]:
    """The files of this repository that a page names: path, and the function of a test or "";
    also those in comments."""
    return [
        (match[1], match[2] or "") for match in _FILE.finditer(page.read_text(encoding="utf-8"))
    ]


def quoted_messages(page: Path, heading: str) -> list[str]:
    """The messages in backticks in a section's subheadings and lists."""
    section = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    section = section.partition("\n## ")[0]
    lines = re.findall(r"^(?:###|-) (.+)$", section, re.MULTILINE)
    return [quote for line in lines for quote in re.findall(r"`([^`]+)`", line)]


NUMBER = re.compile(r"(\d+(?:\.\d+)?)((?:\.\d+)*)")
"""A number, and what makes a version of it: 13.0 of 13.0.96."""


def outline(text: str) -> list[str]:
    """The lines of an output without times of day, hashes, and the width of a table's columns."""
    # Printed where no terminal shows progress.
    text = re.sub(r"^\d\d:\d\d:\d\d ", "", text, flags=re.MULTILINE)
    # Of a variant, to which this machine's Python belongs.
    text = re.sub(r"h[0-9a-f]{7}(?=_\d)", "h", text)
    lines = [re.sub(r"[━─]+", "─", line) for line in text.splitlines()]
    return [re.sub(r"\s+", " ", line).strip() for line in lines]


def alike(shown: str, printed: str) -> bool:
    """Whether two lines differ in numbers only, and these by at most 20 %.

    Of versions the first two count.
    """
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.2) for (a, _), (b, _) in pairs)


def follows(block: Block, printed: str) -> str:
    """A sentence about the first line of a block that an output does not have where it should be,
    or "".

    ``...`` is any lines.
    """
    rest, anywhere = [line for line in outline(printed) if line], True
    for number, line in enumerate(outline(block.text), block.line + 1):
        if not line:
            continue
        if line == "...":
            anywhere = True
            continue
        places = rest if anywhere else rest[:1]
        found = next((place for place, other in enumerate(places) if alike(line, other)), None)
        if found is None:
            near = [*get_close_matches(line, places, 1, cutoff=0), "nothing more"][0]
            return f"{block.page}:{number}: the page has {line!r}, the command prints {near!r}"
        del rest[: found + 1]
        anywhere = False
    return ""
