"""The site of a channel: static pages that work from a folder, without a server and without any outside host."""

from __future__ import annotations

from collections.abc import Iterator

from ctk.site import docs, packages, report
from ctk.site.content import Site, read
from ctk.site.pages import Page, assets, write

__all__ = ["Page", "Site", "read", "report_pages", "write"]


def report_pages(site: Site) -> Iterator[Page]:
    """The shared assets and every page except the front page."""
    yield from assets()
    for pages in (report.picks, report.releases, packages.pages, docs.pages):
        yield from pages(site)
