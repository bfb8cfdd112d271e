"""The docs of a site: the pages of ``docs/`` that are for readers of a channel, made by Sphinx."""

from __future__ import annotations

import io
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctk.core.console import listing
from ctk.core.platforms import PLATFORMS
from ctk.plan.names import Names
from ctk.site.pages import Page, assets, colour, docs_header, moved, safe_json

SECTIONS = {
    "Use": [
        "users",
        "environments",
        "cluster",
        "pytorch-jax-cupy",
        "names-and-platforms",
        "troubleshooting",
    ],
    "Choose": ["how-the-right-build-is-picked"],
    "Build packages": ["recipe-authors", "gpu-code"],
    "Keep a channel": ["maintainers", "security"],
    "Look up": ["commands", "errors", "json"],
}
"""Heading of the side bar -> its pages; what is not here is for developers."""
NAMES = [name for section in SECTIONS.values() for name in section]
MOVED = {
    "recipe-reference": "recipe-authors#reference",
    "compared": "how-the-right-build-is-picked#other-sources",
    "run-a-channel": "maintainers#one-morning",
    "files": "environments#bring-your-file",
}
"""A page that became part of another -> that page, with the heading where its text begins."""
_CHECKOUT = re.compile(r"<!-- only in a checkout -->.*?<!-- end -->\n*", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->[ \t]*\n?", re.DOTALL)
_CHANNEL = re.compile(
    r"""(?<=-c )CHANNEL\b|(?<=--channel )CHANNEL\b|(?<=  - )CHANNEL\b|(?<=["`])CHANNEL(?=["`])"""
)
# What a page says of the default channel, in the middle of a sentence.
_DEFAULT = re.compile(r"<!-- channel -->(?P<words>.*?)<!-- end -->", re.DOTALL)
_MINOR = re.compile(r"\b\d+\.\d+\b")
# conda-forge in a command, and in the lists of channels of an environment.yml and a pixi.toml.
_BASE = re.compile(
    r"""(?<=-c )conda-forge(?=[\s`])|(?<=  - )conda-forge(?=\n)|(?<=, ")conda-forge(?="\])"""
)
# A command with a comment above it that says what it gives, and other comments that say so.
_SOLVED = re.compile(
    r"^# driver for (?P<driver>\d+\.\d+): (?P<words>toolkit [^\n]*)\n"
    r"(?P<command>(?:conda|mamba) (?:create|install) (?P<arguments>[^\n]*))$",
    re.MULTILINE,
)
_STATED = re.compile(
    r"(?:^|[ ]+)# (?:toolkit \d|the newest toolkit)[^\n]*(?P<end>\n)", re.MULTILINE
)
# A command for another platform, and the comment above it that says what it gives.
_FOR_PLATFORM = re.compile(
    r"^(?:# [^\n]*\n)?(?P<command>(?:\w+=\S+ )*CONDA_SUBDIR=(?P<platform>[\w-]+) [^\n]*)$",
    re.MULTILINE,
)
_WITH_A_VALUE = ("-n", "-c")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_LINK = re.compile(
    r"(?P<open>\s+\()?(?<!!)\[(?P<text>[^\]]+)\]"
    r"\((?!https?:|#)(?P<page>[^)#]+)[^)]*\)(?P<close>\))?"
)
_ARTICLE = re.compile(r'<article role="main".*</article>', re.DOTALL)
_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_PICKS = "driver supports CUDA"  # the first heading of the table of drivers and GPUs
_PICK = re.compile(r"(?<=\n)<td><p>(?P<cell>[^<]+)</p>")  # no row begins with one
_TAG = re.compile(r'<a class="headerlink".*?</a>|<[^>]+>', re.DOTALL)
_CODE, _OPTION = (
    re.compile(rb"<pre .*?</pre>", re.DOTALL),
    re.compile(rb"(?<=[\s>])--?[A-Za-z][\w-]*"),
)
# A search with summaries would fetch the pages, which a page in a folder cannot; excerpts.js has
# its own.
_OFF = (
    "html_show_search_summary",
    "html_copy_source",
    "html_show_sphinx",
    "html_show_copyright",
    "html_use_index",
)
_EDITS = {  # pages of Sphinx and furo -> what axe-core asks for
    b'<p class="caption" role="heading">': b'<p class="caption" role="heading" aria-level="2">',
    b'<div class="highlight"><pre>': (
        b'<div class="highlight copy"><pre tabindex="0" role="group" aria-label="Code">'
    ),
    b'<div class="table-wrapper': b'<div tabindex="0" class="table-wrapper',
    b'<aside class="sidebar-drawer">': b'<aside class="sidebar-drawer" aria-label="Pages">',
    b'<aside class="toc-drawer">': b'<aside class="toc-drawer" aria-label="On this page">',
    b'<div id="search-results">': (
        b'<script defer src="texts.js"></script><script defer'
        b' src="../assets/excerpts.js"></script><h1>Search</h1><form class="page-search"'
        b' action="search.html"><input name="q" aria-label="Search the'
        b' docs"><button>Search</button></form><div id="search-results">'
    ),
}
_EDITS |= {  # the site's icon, its look of commands and their button, and sections that fold
    b"</head>": (
        b'<link rel="icon" href="../assets/mark.svg"><link rel="stylesheet"'
        b' href="../assets/shared.css"><link rel="stylesheet" href="../assets/docs.css"></head>'
    ),
    b"</body>": (
        b'<script src="../assets/copy.js"></script><script src="../assets/fold.js"></script></body>'
    ),
}
# Theirs -> ours.
_COLOURS = {"brand-primary": "accent", "brand-content": "accent", "background-primary": "page"}
_COLOURS |= {"background-secondary": "panel", "foreground-primary": "text"}
_COLOURS |= {"native": "native", "compat": "compat"}  # of cells


@dataclass(frozen=True)
class Subject:
    """The channel that the docs of a site are about.

    Attributes:
        channel: Its address, for the commands.
        base: The name or the address of its base channel.
        minors: Its toolkits, oldest first.
        toolkit: Gives what specs get with a driver: ``toolkit 13.0 compat``, or "" for nothing.
        platforms: For which it has packages.
    """

    channel: str
    base: str
    minors: tuple[str, ...]
    toolkit: Callable[[Sequence[str], str], str]
    platforms: tuple[str, ...] = tuple(PLATFORMS)


def pages(folder: Path, title: str, subject: Subject) -> Iterator[Page]:
    """The docs as ``docs/`` of a site, if `folder` has the source."""
    header = b'<div class="site-header">%s</div>' % docs_header(title).encode()
    edits = {**_EDITS, b'<div class="page">': header + b'<div class="page">'}
    texts = {
        name: file.read_text(encoding="utf-8")
        for name in NAMES
        if (file := folder / f"{name}.md").is_file()
    }
    if not texts:
        return
    default = default_minors(texts.values())
    shown = {name: readable(text, subject, default) for name, text in texts.items()}
    plain: dict[str, str] = {}
    with TemporaryDirectory(prefix="ctk-docs-") as scratch:
        build(shown, Path(scratch), title, folder / "images")
        for file in sorted(file for file in Path(scratch, "made").rglob("[!.]*") if file.is_file()):
            content = file.read_bytes()
            if file.suffix == ".html":
                for theirs, ours in edits.items():
                    content = content.replace(theirs, ours)
                # Browsers wrap a line after a hyphen, and no rule of CSS alone forbids it.
                content = _CODE.sub(
                    lambda code: _OPTION.sub(rb'<span class="option">\g<0></span>', code[0]),
                    content,
                )
                content = coloured(content.decode()).encode()
                if file.stem in texts and (article := _ARTICLE.search(content.decode())):
                    plain[file.stem] = " ".join(unescape(_TAG.sub("", article[0])).split())
            yield Page(f"docs/{file.relative_to(Path(scratch, 'made')).as_posix()}", content)
        yield Page("docs/texts.js", f"const TEXTS = {safe_json(plain)};\n".encode())
    yield from moved_pages(texts, title)


def coloured(html: str) -> str:
    """A page whose table of drivers and GPUs has the colours of the site's own table."""

    def cells(table: re.Match[str]) -> str:
        if _PICKS not in table[0]:
            return table[0]
        return _PICK.sub(
            lambda pick: f'<td class="{colour(pick["cell"])}"><p>{pick["cell"]}</p>', table[0]
        )

    return _TABLE.sub(cells, html)


def moved_pages(texts: Mapping[str, str], title: str) -> Iterator[Page]:
    """A page at each old address whose new page is among `texts`; it leads there."""
    for old, new in MOVED.items():
        name, _, heading = new.partition("#")
        found = _TITLE.search(texts.get(name, ""))
        if found is not None:
            yield moved(title, f"docs/{old}.html", f"{name}.html", heading, found[1])


def default_minors(texts: Iterable[str]) -> tuple[str, ...]:
    """The toolkits of the default channel, which one of the pages names."""
    said = (words for text in texts for words in _DEFAULT.findall(text))
    return tuple(minor for words in said for minor in _MINOR.findall(words))


def readable(text: str, subject: Subject, default: Sequence[str] = ()) -> str:
    """A page for readers without a checkout.

    With the addresses and the toolkits of their channel, and without links to what is not on the
    site. `default` are the toolkits of which the comments of the page speak.
    """
    text = _CHECKOUT.sub("", text)
    text = _DEFAULT.sub(lambda found: _this_channel(found["words"], subject), text)
    if tuple(default) != subject.minors:
        text = _STATED.sub(lambda found: found["end"] if found[0].startswith(" ") else "", text)
        text = _SOLVED.sub(lambda found: _solved(found, subject), text)
    text = _FOR_PLATFORM.sub(lambda found: _for_platform(found, subject), text)
    text = _COMMENT.sub("", text)
    text = _BASE.sub(lambda _: subject.base, text)
    text = _CHANNEL.sub(lambda _: subject.channel, text)
    return _LINK.sub(_link, text)


def _this_channel(words: str, subject: Subject) -> str:
    if not _MINOR.search(words):
        return "this channel gives"
    return f"this channel gives, which has {listing(subject.minors)}."


def _solved(found: re.Match[str], subject: Subject) -> str:
    """A command below what it gives from this channel."""
    specs = []
    words = iter(shlex.split(found["arguments"]))
    for word in words:
        if word in _WITH_A_VALUE:
            next(words)
        elif not word.startswith("-"):
            specs.append(word)
    gives = subject.toolkit(specs, found["driver"])
    if gives == found["words"].partition(",")[0]:
        return found[0]
    said = gives or "no toolkit of this channel"
    return f"# driver for {found['driver']}: {said}\n{found['command']}"


def _for_platform(found: re.Match[str], subject: Subject) -> str:
    """A command for a platform; where the channel has nothing for it, below what it needs first."""
    platform, command = found["platform"], found["command"]
    if platform in subject.platforms:
        return found[0]
    only = f"this channel is for {listing(subject.platforms)} only"
    return f"# {only}; its keeper can build for {platform}\n{command}"


def _link(link: re.Match[str]) -> str:
    """A link to a page of the site.

    Of another one its text, or nothing if it is alone in brackets.
    """
    if link["page"].removesuffix(".md") in NAMES:
        return link[0]
    return (
        ""
        if link["open"] and link["close"]
        else f"{link['open'] or ''}{link['text']}{link['close'] or ''}"
    )


def build(texts: dict[str, str], folder: Path, title: str, images: Path) -> str:
    """Has Sphinx make pages in ``folder/made``, which load nothing from elsewhere.

    `images` is the folder of their pictures, if there are any. Returns Sphinx's warnings.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    contents = [f"# {title}: docs\n"]
    for heading, section in SECTIONS.items():
        contents += [f"```{{toctree}}\n:caption: {heading}\n:maxdepth: 1\n"]
        contents += [*(name for name in section if name in texts), "```\n"]
    (folder / "source").mkdir()
    if images.is_dir():
        shutil.copytree(images, folder / "source" / "images")
    for name, text in (texts | {"index": "\n".join(contents)}).items():
        (folder / "source" / f"{name}.md").write_text(text, encoding="utf-8")
    settings: dict[str, Any] = {
        "project": title,
        "html_title": title,
        "extensions": ["myst_parser"],
    }
    settings |= {"myst_heading_anchors": 4, "html_theme": "furo", "html_theme_options": _theme()}
    settings |= dict.fromkeys(_OFF, False)
    warnings, places = io.StringIO(), (folder / "source", None, folder / "made", folder / "trees")
    with patch_docutils(None), docutils_namespace():
        Sphinx(*places, "html", settings, None, warnings, freshenv=True).build(force_all=True)
    return warnings.getvalue()


def _theme() -> dict[str, Any]:
    """The options of the theme: the site's fonts, and its colours, light and dark."""
    css = "".join(page.content.decode() for page in assets(Names()) if page.path.endswith(".css"))
    options: dict[str, Any] = {}
    for mode, block in zip(
        ("light", "dark"), re.findall(r":root \{(.*?)\}", css, re.S), strict=False
    ):
        site = dict(re.findall(r"--([\w-]+): ([^;]+);", block))
        options[f"{mode}_css_variables"] = {
            f"color-{theirs}": site[ours] for theirs, ours in _COLOURS.items()
        }
    options["light_css_variables"] |= {
        "font-stack": "var(--sans)",
        "font-stack--monospace": "var(--mono)",
    }
    return options
