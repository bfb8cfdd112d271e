"""Every link of the docs leads somewhere, and the files and tests that they name exist."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import pytest

from conftest import ROOT
from kit.doc_pages import CURRENT, PAGES, headings, links, named_files

INSIDE = [
    (page, urlsplit(link)) for page in PAGES for link in links(page) if not urlsplit(link).scheme
]


def problem(page: Path, target: SplitResult) -> str:
    """What is wrong with a link inside the repository; "" where nothing is."""
    place = (page.parent / unquote(target.path)).resolve() if target.path else page
    if not place.is_relative_to(ROOT) or not place.exists():
        return "there is no such file"
    if target.fragment and target.fragment not in (
        headings(place) if place.suffix == ".md" else ()
    ):
        return "there is no such heading"
    return ""


def test_every_link_leads_to_a_file_and_a_heading_that_are_there() -> None:
    found = {f"{page.name}: {link.geturl()}": problem(page, link) for page, link in INSIDE}
    assert {link: wrong for link, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.stem)
def test_the_files_and_tests_that_a_page_names_are_there(page: Path) -> None:
    """In backticks, or in a command."""
    for path, name in named_files(page):
        assert (ROOT / path).exists(), path
        assert not name or re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), (
            f"{path}::{name}"
        )


def test_the_index_of_texts_for_upstream_has_each_with_its_command() -> None:
    folder = ROOT / "docs" / "upstream"
    index = (folder / "README.md").read_text()
    for page in sorted(set(folder.glob("*.md")) - {folder / "README.md"}):
        head = page.read_text().partition("\n## ")[0]
        assert [
            word for word in ("For", "Wrong", "Command", "Upstream") if f"- **{word}**" not in head
        ] == [], page.name
        (row,) = [line for line in index.splitlines() if f"]({page.name})" in line]
        (command,) = re.findall(r"```bash\n +(.+)\n", head)
        assert f"`{command}`" in row
