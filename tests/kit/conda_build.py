"""What conda-build makes of a file of variants before it reads it as YAML."""

from __future__ import annotations

import re


def selector(line: str) -> str:
    """What conda-build takes for the selector of a line (`select_lines` in its
    conda_build/metadata.py, 2026), or "".

    That is what square brackets hold at the end of a line, or in a comment that has no round
    brackets after them.
    """
    code, mark, comment = line.rstrip().partition("#")
    if not code.strip():
        return ""  # a comment, or nothing
    found = (
        re.search(r"\[([^][]+)\][^()]*$", comment)
        if mark
        else re.search(r"\S.*\[([^][]+)\]$", code)
    )
    return found[1] if found else ""
