"""The pages of the docs, from the Markdown files below ``docs``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from ctk.site.pages import Page, Site, render

_FIRST = ("users", "how-the-right-build-is-picked", "pytorch-jax-cupy", "libraries", "gpu-code", "recipe-authors")
_PICTURES = (".svg", ".png")


def pages(site: Site) -> Iterator[Page]:
    """The list of the docs, a page for each, and their pictures."""
    folder = site.workspace.root / "docs"
    files = {file.relative_to(folder.parent).as_posix(): file for file in sorted(folder.rglob("*.md"))}
    listed: dict[str, list[tuple[str, str, str]]] = {}  # group -> path, title and first sentence of each
    for name in sorted(files, key=_order):
        doc = Doc(name, files[name].read_text(encoding="utf-8"), files.keys())
        listed.setdefault(_group(name), []).append((doc.path, doc.title, doc.about))
        values = {"body": Markup(doc.html), "contents": doc.contents}
        yield render(site, doc.path, "doc.html", title=doc.title, description=doc.about, **values)
    for file in sorted(folder.rglob("*")):
        if file.suffix in _PICTURES:
            yield Page(file.relative_to(folder.parent).as_posix(), file.read_bytes())
    described = "How to install from this channel, to build against it, and to keep one of your own."
    yield render(site, "docs.html", title="Documentation", description=described, docs=listed)


def _group(name: str) -> str:
    deeper, place, _ = _order(name)
    return "Texts for other projects" if deeper else "Start here" if place < len(_FIRST) else "More"


def _order(name: str) -> tuple[int, int, str]:
    """A sort key: docs for users and recipe authors first, drafts for other projects last."""
    stem = name.removeprefix("docs/").removesuffix(".md")
    return stem.count("/"), _FIRST.index(stem) if stem in _FIRST else len(_FIRST), stem


class Doc:
    """A Markdown file as a page.

    A link to a file of the repository that is not a page becomes text with the path of the file, since the site knows
    no URL of the repository.
    """

    def __init__(self, name: str, text: str, names: Collection[str]) -> None:
        self._name, self._names = name, names
        self._markdown = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table")
        for kind in ("html_block", "html_inline"):  # comments for tests and authors
            self._markdown.add_render_rule(kind, lambda *_: "")
        self._markdown.add_render_rule("fence", lambda _, tokens, place, *__: _code(tokens[place]))
        self._markdown.add_render_rule("image", _picture)
        self._markdown.add_render_rule("table_open", lambda _, tokens, place, *__: _scrolled(tokens[place]))
        self._markdown.add_render_rule("table_close", lambda *_: "</table>\n</div>\n")
        tokens = self._markdown.parse(text)
        heading = next(n for n, token in enumerate(tokens) if token.type == "heading_open")
        self.path = name.removesuffix(".md") + ".html"
        self.title = _words(tokens[heading + 1])
        paragraph = next((tokens[n + 1] for n, token in enumerate(tokens) if token.type == "paragraph_open"), None)
        self.about = _words(paragraph).partition(". ")[0].rstrip(".") if paragraph else ""
        self.contents: list[tuple[str, str]] = []  # id and title of each part
        self.html = self._html(tokens[:heading] + tokens[heading + 3 :])

    def _html(self, tokens: Sequence[Token]) -> str:
        taken: list[str] = []
        part = self.title
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                part = _words(tokens[place + 1])
                anchor = re.sub(r"[^\w\- ]", "", part.lower()).replace(" ", "-")  # as forges make them
                taken.append(anchor)
                again = taken.count(anchor) - 1
                token.attrSet("id", f"{anchor}-{again}" if again else anchor)
                if token.tag == "h2":
                    self.contents.append((str(token.attrGet("id")), part))
            elif token.type == "table_open":
                token.meta["label"] = f"Table: {part}"
            elif token.type == "th_open" and tokens[place + 1].content:
                token.attrSet("scope", "col")
            elif token.type == "th_open":  # above the names of rows, so not a heading
                token.tag = tokens[place + 2].tag = "td"
            elif token.children:
                token.children = self._linked(token.children)
        return str(self._markdown.renderer.render(tokens, self._markdown.options, {}))

    def _linked(self, children: Sequence[Token]) -> list[Token]:
        """The parts of a line, with links to pages of the site; other links within the repository become text."""
        changed: list[Token] = []
        gone = ""  # the path of the open link, if it is not a page
        for child in children:
            target = urlsplit(str(child.attrGet("href") or ""))
            file = posixpath.normpath(posixpath.join(posixpath.dirname(self._name), target.path))
            if child.type == "link_open" and target.path and not target.scheme:
                if file not in self._names:
                    gone = file
                    continue
                child.attrSet("href", target._replace(path=target.path.removesuffix(".md") + ".html").geturl())
            elif child.type == "link_close" and gone:
                if changed[-1].content != gone:  # unless the text is the path already
                    path = Token("code_inline", "code", 0, content=gone)
                    changed += [Token("text", "", 0, content=" ("), path, Token("text", "", 0, content=")")]
                gone = ""
                continue
            changed.append(child)
        return changed


def _scrolled(table: Token) -> str:
    """The start of a table, in a box that scrolls as on other pages."""
    return f'<div class="scroll" role="group" tabindex="0" aria-label="{escape(table.meta["label"])}">\n<table>\n'


def _picture(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """A picture with a link to itself, since it may be small on the page."""
    return f'<a href="{escape(str(tokens[place].attrGet("src")))}">{renderer.image(tokens, place, options, env)}</a>'


def _words(inline: Token) -> str:
    """The text of a line without markup."""
    words = (" " if child.type == "softbreak" else child.content for child in inline.children or ())
    return "".join(words)


def _code(token: Token) -> str:
    """A block of code with its language; all but output has a button that copies it."""
    language = escape(token.info.strip().partition(" ")[0])
    label = {"": "Code", "text": "Output"}.get(language, language)
    code = f'<code class="language-{language}">{escape(token.content.rstrip())}</code>'
    block = f'<pre tabindex="0" role="group" aria-label="{label}">{code}</pre>\n'
    return block if language == "text" else f'<div class="copy">{block}</div>\n'
