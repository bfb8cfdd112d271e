"""A page as a strict reader sees it: tags that close, ids, links, text."""

from __future__ import annotations

import posixpath
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "img", "hr"}
ALONE = {"path", "rect", "circle", "polyline"}  # of SVG, which may close themselves


class Read(HTMLParser):
    """What a page consists of.

    Attributes:
        wrong: What is no good HTML.
        tags: How often each occurs.
        ids: Every id.
        links: Where anchors lead.
        loaded: What the browser fetches by itself.
        named: Ids that labels and the like refer to.
        text: Everything that is read.
    """

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.named: list[str] = []
        self.lang = ""
        self.text = ""
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        if self._open:
            self.wrong.append(f"never closed: {self._open}")
        twice = [i for i, times in Counter(self.ids).items() if times > 1]
        self.wrong += [f"id {i} is there twice" for i in twice]
        self.wrong += [f"nothing has the id {i}" for i in self.named if i not in self.ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        if len(given) < len(attrs):
            self.wrong.append(f"<{tag}> has an attribute twice")
        self.wrong += [f"<{tag} {name}>: code in an attribute" for name in given if name.startswith("on")]
        self.lang = given.get("lang") or self.lang
        if "id" in given:
            self.ids.append(given["id"] or "")
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.named += (given.get(name) or "").split()
        if tag == "a":
            self.links.append(given.get("href") or "")
        elif "href" in given or "src" in given:
            self.loaded.append(given.get("href") or given.get("src") or "")
        if tag == "svg" and not ({"aria-labelledby", "aria-label", "aria-hidden"} & given.keys()):
            self.wrong.append("an svg without a name")
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.wrong.append("a script inside the page")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALONE:
            self.wrong.append(f"<{tag}/> closes itself")
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.wrong.append(f"</{tag}> where {self._open[-1:]} is open")
        else:
            self._open.pop()
        self.text += " " if tag in ("td", "th", "dt", "dd", "li", "p") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def target(page: str, link: str) -> tuple[str, str]:
    """The file below the site that a relative link of a page leads to, and the id in it."""
    path, _, fragment = link.partition("#")
    return (posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page), fragment
