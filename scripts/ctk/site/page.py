"""Pages of the site: a template with what it shows, as bytes below the site's folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ctk.core.console import count
from ctk.site.content import Site

_HERE = Path(__file__).parent
NAVIGATION = (
    ("index.html", "Install"),
    ("picks.html", "Picks"),
    ("releases.html", "Releases"),
    ("packages.html", "Packages"),
    ("audit.html", "Audit"),
    ("benchmarks.html", "Benchmarks"),
)


@dataclass(frozen=True)
class Page:
    """One file of the site.

    Attributes:
        path: Below the site's folder, with ``/``.
        content: Its bytes.
    """

    path: str
    content: bytes


def render(site: Site, path: str, template: str, *, title: str, description: str, **values: Any) -> Page:
    """A page from a template that extends ``base.html``. Every value is escaped, unless it is `markupsafe.Markup`.

    Args:
        site: What the footer says where the page comes from.
        path: Of the page. Templates reach other files of the site with ``{{ root }}picks.html``.
        template: File name below ``templates``.
        title: Of the page, without the site's name.
        description: One line, for search engines and previews.
        values: What the template shows.
    """
    text = (
        environment()
        .get_template(template)
        .render(
            site=site,
            root="../" * path.count("/"),
            navigation=NAVIGATION,
            path=path,
            section=_section(path),
            title=title,
            description=description,
            **values,
        )
    )
    # What packages say of themselves may be no text at all: half a pair of surrogates.
    return Page(path, (text.rstrip() + "\n").encode(errors="replace"))


def assets() -> Iterator[Page]:
    """The style sheet, and the scripts of pages that have one."""
    for file in sorted((_HERE / "assets").iterdir()):
        if file.is_file() and not file.name.startswith((".", "_")):
            yield Page(f"assets/{file.name}", file.read_bytes())


@cache
def environment() -> Environment:
    """Templates with autoescape; a name that they use and do not get is an error."""
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "count": count,
        "bytes": bytes_text,
        "thousands": lambda number: f"{number:,}",
        "arrows": lambda text: text.replace(" -> ", " → "),  # as the terminal has them, and as a page does
    }
    return found


def bytes_text(size: float) -> str:
    """``812 B``, ``16.8 kB``, ``84.4 MB``, ``1.02 GB``: as download sizes are told, in powers of 1000."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"


def _section(path: str) -> str:
    """The entry of the navigation that a page belongs to: ``packages/cuda-core.html`` to ``packages.html``."""
    first, slash, _ = path.partition("/")
    return f"{first}.html" if slash else path
