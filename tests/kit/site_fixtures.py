"""A tiny site for tests that do not change it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ctk.site import Site, report_pages
from kit.small_sites import small_site


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site of a tiny channel."""
    return small_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def files(small: Site) -> Mapping[str, bytes]:
    """Its files, by path."""
    return {page.path: page.content for page in report_pages(small)}
