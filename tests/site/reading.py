"""A strict parser of pages: tags that are not closed, ids, links, text."""

from __future__ import annotations

import posixpath
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "wbr", "img", "hr"}
ALONE = {"path", "rect", "circle", "polyline"}  # of SVG, which may close themselves


class Read(HTMLParser):
    """The parts of a page: `wrong` has errors of HTML, `loaded` the files that a browser fetches by itself."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.lang = self._text = ""
        self._named: list[str] = []  # ids that labels and the like refer to
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        self.wrong += [f"never closed: {tag}" for tag in self._open]
        self.wrong += [f"id {i} is there twice" for i, times in Counter(self.ids).items() if times > 1]
        self.wrong += [f"nothing has the id {i}" for i in self._named if i not in self.ids]

    @property
    def text(self) -> str:
        """The text of the page, with single spaces."""
        return " ".join(self._text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        if len(given) < len(attrs):
            self.wrong.append(f"<{tag}> has an attribute twice")
        self.wrong += [f"<{tag} {name}>: code in an attribute" for name in given if name.startswith("on")]
        self.lang = given.get("lang") or self.lang
        self.ids += [given["id"]] if "id" in given else []
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self._named += given.get(name, "").split()
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif "href" in given or "src" in given:
            self.loaded.append(given.get("href") or given.get("src", ""))
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
        self._text += " " if tag in ("td", "th", "dt", "dd", "li", "p") else ""

    def handle_data(self, data: str) -> None:
        self._text += data


def target(page: str, link: str) -> tuple[str, str]:
    """The file below the site to which a relative link of a page leads, and the id in it."""
    path, _, fragment = link.partition("#")
    return (posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page), fragment
