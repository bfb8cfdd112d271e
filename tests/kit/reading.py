"""A parser of pages: tags that are not closed, ids, links, text. axe judges the rest, in
tests/system/browser.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "wbr", "img", "hr"}


class Read(HTMLParser):
    """The parts of a page: `wrong` has errors of HTML, `loaded` the files that a browser fetches by
    itself.
    """

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.lang = self._text = ""
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        self.wrong += [f"never closed: {tag}" for tag in self._open]
        self.wrong += [
            f"id {i} is there twice" for i, times in Counter(self.ids).items() if times > 1
        ]

    @property
    def plain(self) -> str:
        """The text of the page, with its lines."""
        return self._text

    @property
    def text(self) -> str:
        """The text of the page, with single spaces."""
        return " ".join(self._text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        self.lang = given.get("lang") or self.lang
        self.ids += [given["id"]] if "id" in given else []
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif "href" in given or "src" in given:
            self.loaded.append(given.get("href") or given.get("src", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.wrong.append(f"</{tag}> where {self._open[-1:]} is open")
        else:
            self._open.pop()
        self._text += " " if tag in ("td", "th", "dt", "dd", "li", "p") else ""

    def handle_data(self, data: str) -> None:
        self._text += data


def target(page: str, link: str) -> tuple[str, str]:
    """The file below the site to which a relative link of a page leads, and the id in it."""
    path, _, fragment = link.partition("#")
    return (
        posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    ), fragment
