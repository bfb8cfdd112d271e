"""The pages of the docs: those of this repository, whose links are valid, and each kind of part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from reading import Read, target

from ctk.core.checkout import Workspace
from ctk.site import Site, docs

pytest_plugins = ["site_fixtures"]


@pytest.fixture(scope="module")
def ours(small: Site, project: Workspace) -> dict[str, bytes]:
    """The docs of this repository, by path in the site."""
    return {page.path: page.content for page in docs.pages(replace(small, workspace=project))}


def test_every_page_of_our_docs_is_sound_and_every_link_leads_to_a_page_and_a_heading(ours: dict[str, bytes]) -> None:
    pages = {path: Read(content) for path, content in ours.items() if path.endswith(".html")}
    assert len(pages) > 20 and "docs/architecture.svg" in ours
    inside = 0
    for path, page in pages.items():
        assert page.wrong == [], path
        assert page.tags["h1"] == 1, path
        for link in page.links:
            file, fragment = target(path, link)
            if not link.startswith("https://") and file.startswith("docs"):
                inside += 1
                assert file in ours, f"{path} links to {link}"
                assert not fragment or fragment in pages[file].ids, f"{path} links to {link}"
    assert inside > 100


def test_the_list_names_every_page_once_with_those_for_users_first(ours: dict[str, bytes]) -> None:
    links = [link for link in Read(ours["docs.html"]).links if link.startswith("docs/")]
    assert links[:2] == ["docs/users.html", "docs/how-the-right-build-is-picked.html"]
    assert links[-1].startswith("docs/upstream/")
    assert sorted(links) == sorted(path for path in ours if path.startswith("docs/") and path.endswith(".html"))


def test_what_a_page_of_the_docs_becomes(files: Mapping[str, bytes]) -> None:
    page = files["docs/users.html"].decode()
    assert "<title>For users · CUDA for conda</title>" in page and page.count("For users</h1>") == 1
    assert '<meta name="description" content="How to install">' in page
    assert "printed by" not in page, "comments are for authors"
    assert "echo &quot;&lt;b&gt;&quot; &amp;&amp; true</code>" in page
    assert '<a href="how-the-right-build-is-picked.html#why">why</a>' in page
    assert "code (<code>tests/code.py</code>) and" in page, "what is no page of the site is named, and no dead link"
    assert "<td>tests/code.py</td>" in page, "and once, where the words are its path"
    picked = files["docs/how-the-right-build-is-picked.html"].decode()
    assert '<img src="steps.svg" alt="Steps"' in picked and "docs/steps.svg" in files
    assert [f'<a href="#{name}">' in picked for name in ("why", "why-1", "so")] == [True] * 3, "the parts are listed"
    more = files["docs/upstream/more.html"].decode()
    assert '<a href="../users.html">Back</a>' in more and 'href="../../assets/style.css"' in more
    assert 'class="copy"' not in more, "what was printed is not for copying"
