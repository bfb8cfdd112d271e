"""The site of a channel: static pages that work from a folder, without a server and without any outside host.

A part of the site is a function ``pages(site) -> Iterator[Page]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ctk.site import audit, benchmarks, packages, picks, releases
from ctk.site.content import Site, read
from ctk.site.page import Page, assets
from ctk.site.write import write

__all__ = ["Page", "Site", "read", "report_pages", "write"]


def report_pages(site: Site) -> Iterator[Page]:
    """The shared assets and every page except the front page."""
    yield from assets()
    yield from picks.pages(site)
    yield from releases.pages(site)
    yield from packages.pages(site)
    yield from audit.pages(site)
    yield from benchmarks.pages(site)
