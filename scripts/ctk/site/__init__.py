"""The site of a channel: static pages that work from a folder, without a server or other hosts."""

from __future__ import annotations

from collections.abc import Iterator

from ctk.plan.names import known_names
from ctk.site import report
from ctk.site.pages import Page, Site, assets, missing, read, write

__all__ = ["Page", "Site", "read", "report_pages", "write"]


def report_pages(site: Site) -> Iterator[Page]:
    """The shared assets and every page except the front page."""
    yield from assets(known_names(site.workspace))
    yield from missing(site)
    solved = report.solve(site)
    yield from report.about(site, solved)
    yield from report.packages(site, solved)
