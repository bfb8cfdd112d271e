"""CHANGELOG.md can be read by people and programs, tells the newest first, and its dates are git's."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from conftest import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
VERSION = re.compile(r"\[(?P<version>\d+\.\d+\.\d+)\] - (?P<date>\d{4}-\d\d-\d\d)")
MILESTONE = re.compile(r"Milestone (?P<number>\d+): [^`]+ - (?P<date>\d{4}-\d\d-\d\d) \(`(?P<commit>[0-9a-f]{7,40})`\)")


def parts(text: str, level: str) -> dict[str, str]:
    """Each heading of a level, with the text under it; what is before the first one has the heading ""."""
    before, *rest = re.split(rf"^{level} (.*)$", text, flags=re.M)
    return {"": before, **dict(zip(rest[::2], rest[1::2], strict=True))}


SECTIONS = parts(TEXT, "##")


def test_every_heading_is_unreleased_a_version_or_a_milestone_newest_first() -> None:
    _, first, *rest = SECTIONS
    assert first == "[Unreleased]"
    order = []
    for title in rest:
        match = VERSION.fullmatch(title) or MILESTONE.fullmatch(title)
        assert match, f"## {title}"
        number = match.groupdict().get("version") or f"0.{match['number']}"
        order.append((match["date"], tuple(map(int, number.split(".")))))
    assert order == sorted(order, reverse=True)


def test_what_is_under_a_heading_is_lists_of_the_known_kinds_in_their_order() -> None:
    for title, text in list(SECTIONS.items())[1:]:
        lists = parts(text, "###")
        assert not lists.pop("").strip(), title
        assert lists and list(lists) == [kind for kind in KINDS if kind in lists], title
        for kind, entries in lists.items():
            lines = entries.strip().splitlines()
            assert lines and lines[0].startswith("- "), (title, kind)
            assert all(line.startswith(("- ", "  ")) for line in lines), (title, kind)


def test_the_version_of_the_project_is_told() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\n## [{version}] - " in TEXT or f"`{version}`" in TEXT


def test_each_milestone_ends_with_a_commit_of_its_day() -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout.strip()

    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here: a whole clone has it")
    for match in filter(None, map(MILESTONE.fullmatch, SECTIONS)):
        assert git("show", "--no-patch", "--format=%cs", f"{match['commit']}^{{commit}}") == match["date"], match[0]
