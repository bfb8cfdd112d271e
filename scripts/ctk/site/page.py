"""Pages of the site: a template with its values, as bytes below the site's folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ctk.core.console import count
from ctk.site.content import Site

_HERE = Path(__file__).parent
_NAVIGATION = (
    ("index.html", "Install"),
    ("picks.html", "Picks"),
    ("releases.html", "Releases"),
    ("packages.html", "Packages"),
    ("audit.html", "Audit"),
    ("benchmarks.html", "Benchmarks"),
)


class Page(NamedTuple):
    """One file of the site: its path below the folder, with ``/``, and its bytes."""

    path: str
    content: bytes


def render(site: Site, path: str, template: str, *, title: str, description: str, **values: Any) -> Page:
    """A page from a template that extends ``base.html``. Every value is escaped, unless it is `markupsafe.Markup`.

    Args:
        site: For the footer.
        path: Of the page. Templates reach other files of the site with ``{{ root }}picks.html``.
        template: File name below ``templates``.
        title: Of the page, without the site's name.
        description: One line, for search engines and previews.
        values: For the template.
    """
    first, slash, _ = path.partition("/")
    own = {
        "site": site,
        "root": "../" * path.count("/"),
        "navigation": _NAVIGATION,
        "path": path,
        "section": f"{first}.html" if slash else path,  # packages/cuda-core.html belongs to packages.html
        "title": title,
        "description": description,
    }
    text = _environment().get_template(template).render(**own, **values)
    # What packages say of themselves may be no text at all: half a pair of surrogates.
    return Page(path, (text.rstrip() + "\n").encode(errors="replace"))


def assets() -> Iterator[Page]:
    """The style sheet, and the scripts of pages that have one."""
    for file in sorted((_HERE / "assets").iterdir()):
        if file.is_file() and not file.name.startswith((".", "_")):
            yield Page(f"assets/{file.name}", file.read_bytes())


@cache
def _environment() -> Environment:
    """Templates with autoescape; a name that they use and do not get is an error."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count,
        "bytes": bytes_text,
        "thousands": lambda number: f"{number:,}",
        "arrows": lambda text: text.replace(" -> ", " → "),  # as the terminal has them, and as a page does
    }
    return environment


def bytes_text(size: float) -> str:
    """``812 B``, ``16.8 kB``, ``84.4 MB``, ``1.02 GB``: as download sizes are told, in powers of 1000."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"
