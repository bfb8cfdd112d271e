"""Every link of the docs leads somewhere, every page can be reached from README.md, and the tests they name exist."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from doc_pages import PAGES, Link, headings, links, named_tests

from conftest import ROOT

README = ROOT / "README.md"
LINKS = [link for page in PAGES for link in links(page)]
INSIDE = [link for link in LINKS if not urlsplit(link.target).scheme]


def problem(link: Link) -> str:
    """What is wrong with a link inside the repository; "" where nothing is."""
    target = urlsplit(link.target)
    place = (link.page.parent / unquote(target.path)).resolve() if target.path else link.page
    if not place.is_relative_to(ROOT) or not place.exists():
        return "there is no such file"
    if target.fragment and target.fragment not in (headings(place) if place.suffix == ".md" else ()):
        return "there is no such heading"
    return ""


def test_every_link_leads_to_a_file_and_a_heading_that_are_there() -> None:
    assert len(INSIDE) > 30
    assert {str(link): problem(link) for link in INSIDE if problem(link)} == {}


def test_a_link_to_the_outside_is_an_address_that_can_be_read() -> None:
    for link in LINKS:
        if link not in INSIDE:
            address = urlsplit(link.target)
            assert address.scheme == "https", link
            assert re.fullmatch(r"[\w.-]+\.\w+", address.netloc), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [(link.page.parent / urlsplit(link.target).path).resolve() for link in INSIDE if link.page == page]
    assert set(PAGES) <= reached, [page.name for page in set(PAGES) - reached]


def functions_of(path: Path) -> set[str]:
    return set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    for path, name in named_tests(page):
        assert (ROOT / path).is_file(), path
        assert not name or name in functions_of(ROOT / path), f"{path}::{name}"


def test_each_problem_of_packaging_for_gpus_names_a_test_or_says_that_it_is_not_solved() -> None:
    page = ROOT / "docs" / "gpu-packaging-problems.md"
    parts = re.split(r"^#{2,3} (.+)\n", page.read_text(), flags=re.MULTILINE)[1:]
    problems = {title: text for title, text in zip(parts[::2], parts[1::2], strict=True) if text.strip()}
    for title, text in problems.items():
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`|^Not solved", text, re.MULTILINE) or "That page" in text, title
