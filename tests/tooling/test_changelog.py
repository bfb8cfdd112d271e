"""CHANGELOG.md can be read by people and programs, tells the newest first, and its dates are git's."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from conftest import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
HEADING = re.compile(
    r"\[(?P<unreleased>Unreleased)\]"
    r"|\[(?P<version>\d+\.\d+\.\d+)\] - (?P<released>\d{4}-\d\d-\d\d)"
    r"|Milestone (?P<number>\d+): [^`]+ - (?P<date>\d{4}-\d\d-\d\d) \(`(?P<commit>[0-9a-f]{7,40})`\)"
)


def sections(text: str) -> list[tuple[str, str]]:
    """Each second-level heading with what is under it."""
    parts = re.split(r"^## (.*)$", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def entries(text: str) -> list[re.Match[str]]:
    """The headings; AssertionError for one of another form."""
    found = []
    for title, _ in sections(text):
        match = HEADING.fullmatch(title)
        assert match, f"## {title}"
        found.append(match)
    return found


def is_newest_first(found: list[re.Match[str]]) -> bool:
    """Unreleased, then versions and milestones by date and number."""
    rest = found[1:]
    order = [
        (m["released"] or m["date"], tuple(map(int, (m["version"] or "0").split("."))), int(m["number"] or 0))
        for m in rest
    ]
    return bool(found) and bool(found[0]["unreleased"]) and order == sorted(order, reverse=True)


def test_every_heading_is_unreleased_a_version_or_a_milestone_newest_first() -> None:
    assert is_newest_first(entries(TEXT))


@pytest.mark.parametrize(
    "text",
    [
        "## Milestone 1: a - 2026-01-01 (`abcdef0`)\n",
        "## [Unreleased]\n## Milestone 1: a - 2026-01-01 (`abcdef0`)\n## Milestone 2: b - 2026-01-02 (`abcdef1`)\n",
        "## [Unreleased]\n## [1.0.0] - 2026-01-01\n## [1.1.0] - 2026-01-01\n",
        "## [Unreleased]\n## [Unreleased]\n## [1.0.0] - 2026-01-01\n## [1.1.0] - 2026-01-02\n",
    ],
)
def test_another_order_is_found(text: str) -> None:
    with pytest.raises((AssertionError, TypeError)):
        assert is_newest_first(entries(text))


@pytest.mark.parametrize("title", ["Unreleased", "[1.0] - 2026-01-01", "[1.0.0]", "Milestone 1: a - 2026-01-01"])
def test_another_heading_is_found(title: str) -> None:
    with pytest.raises(AssertionError, match=r"## "):
        entries(f"## {title}\n")


def test_what_is_under_a_heading_is_lists_of_the_known_kinds_in_their_order() -> None:
    for title, text in sections(TEXT):
        parts = re.split(r"^### (.*)$", text, flags=re.M)
        kinds, lists = parts[1::2], parts[2::2]
        assert kinds, f"{title} says nothing"
        assert kinds == [kind for kind in KINDS if kind in kinds], title
        assert not parts[0].strip(), title
        for kind, text_of_kind in zip(kinds, lists, strict=True):
            lines = text_of_kind.strip().splitlines()
            assert lines and lines[0].startswith("- "), (title, kind)
            assert all(line.startswith(("- ", "  ")) for line in lines), (title, kind)


def test_the_version_of_the_project_is_told() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    found = entries(TEXT)
    assert any(m["version"] == version for m in found) or (found[0]["unreleased"] and f"`{version}`" in TEXT)


def test_each_milestone_ends_with_a_commit_of_its_day() -> None:
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("the history is not here: a whole clone has it")
    for match in entries(TEXT):
        if match["commit"]:
            show = [*git, "show", "--no-patch", "--format=%cs", f"{match['commit']}^{{commit}}"]
            done = subprocess.run(show, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout.strip()) == (0, match["date"]), match.group()
