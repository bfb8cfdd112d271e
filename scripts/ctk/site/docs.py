"""The docs of a site: the pages of ``docs/`` that are for readers of a channel, made by Sphinx."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctk.site.pages import Page

SECTIONS = {
    "Use": ["users", "environments", "pytorch-jax-cupy", "troubleshooting"],
    "Choose": ["how-the-right-build-is-picked", "compared"],
    "Build packages": ["recipe-authors", "recipe-reference", "gpu-code"],
    "Keep a channel": ["maintainers", "security"],
    "Look up": ["commands", "errors", "json"],
}
"""Heading of the side bar -> its pages; what is not here is for developers."""
_COMMENT = re.compile(r"<!--.*?-->[ \t]*\n?", re.DOTALL)
_CHANNEL = re.compile(r"""(?<=-c )CHANNEL\b|(?<=--channel )CHANNEL\b|(?<=  - )CHANNEL\b|(?<=["`])CHANNEL(?=["`])""")
_LINK = re.compile(r"(?P<open>\s+\()?\[(?P<text>[^\]]+)\]\((?!https?:|#)(?P<page>[^)#]+)[^)]*\)(?P<close>\))?")


def pages(folder: Path, title: str, channel: str) -> Iterator[Page]:
    """The docs as ``docs/`` of a site, if `folder` has the source; `channel` is its address, for the commands."""
    names = [name for section in SECTIONS.values() for name in section if (folder / f"{name}.md").is_file()]
    if not names:
        return
    with TemporaryDirectory(prefix="ctk-docs-") as scratch:
        source, made = Path(scratch, "source"), Path(scratch, "made")
        source.mkdir()
        for name in names:
            text = (folder / f"{name}.md").read_text(encoding="utf-8")
            (source / f"{name}.md").write_text(readable(text, channel), encoding="utf-8")
        (source / "index.md").write_text(index(title, names), encoding="utf-8")
        build(source, made, title)
        for file in sorted(file for file in made.rglob("[!.]*") if file.is_file()):
            yield Page(f"docs/{file.relative_to(made).as_posix()}", file.read_bytes())


def readable(text: str, channel: str) -> str:
    """A page without comments, with this channel's address, and without links to what is not on the site."""
    return _LINK.sub(_link, _CHANNEL.sub(lambda _: channel, _COMMENT.sub("", text)))


def _link(link: re.Match[str]) -> str:
    """A link to a page of the site; of another one its text, or nothing if it is alone in brackets."""
    if any(link["page"] == f"{name}.md" for section in SECTIONS.values() for name in section):
        return link[0]
    before, after = link["open"] or "", link["close"] or ""
    return "" if before and after else before + link["text"] + after


def build(source: Path, made: Path, title: str) -> str:
    """Has Sphinx make the pages, which load nothing from elsewhere; returns its warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    settings: dict[str, Any] = {"project": title, "html_title": title, "extensions": ["myst_parser"]}
    # Every page is in one folder, so this leads from each to the front page of the site.
    home = '<a href="../index.html">Back to the channel</a>'
    settings |= {"myst_heading_anchors": 4, "html_theme": "furo", "html_theme_options": {"announcement": home}}
    # A search with summaries would fetch the pages, which a page in a folder cannot.
    off = ("html_show_search_summary", "html_copy_source", "html_show_sphinx", "html_show_copyright")
    settings |= dict.fromkeys(off, False)
    warnings = io.StringIO()
    with patch_docutils(None), docutils_namespace():
        app = Sphinx(source, None, made, made.parent / "doctrees", "html", settings, None, warnings, freshenv=True)
        app.build(force_all=True)
    return warnings.getvalue()


def index(title: str, names: list[str]) -> str:
    """The first page, and the order of the others."""
    lines = [f"# {title}: docs\n"]
    for heading, section in SECTIONS.items():
        lines += [f"```{{toctree}}\n:caption: {heading}\n:maxdepth: 1\n", *(n for n in section if n in names), "```\n"]
    return "\n".join(lines)
