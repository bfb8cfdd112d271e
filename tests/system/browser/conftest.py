"""The site that browser tests look at, and a browser to look with. See scripts/test-browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

if "CHROMIUM" not in os.environ:
    pytest.exit(
        "the browser tests have a command of their own: ./scripts/test-browser", returncode=2
    )

sys.path.insert(0, str(Path(__file__).parent))

from browsing import AXE, ROOT, SCHEMES, WIDTHS, Open, Watched, launch, watched
from playwright.sync_api import Browser, sync_playwright

from ctk.core.checkout import Workspace


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of output/channel, made once.

    Or the one that CTK_SITE names, which was made before.
    """
    if "CTK_SITE" in os.environ:
        return Path(os.environ["CTK_SITE"]).resolve()
    workspace = Workspace(ROOT)
    if not workspace.channel.exists():
        pytest.exit(
            "there is no channel to make the site of: run ./scripts/build first", returncode=2
        )
    folder = tmp_path_factory.mktemp("site") / "site"
    words = [Path(sys.executable).with_name("ctk"), "site", folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.exit(f"ctk site failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}", returncode=2)
    return folder


@pytest.fixture(scope="session")
def browser(site_folder: Path) -> Iterator[Browser]:
    """One browser for all tests; each window has a profile of its own.

    While it runs, this process has an event loop: whatever solves does so before (like the site),
    or as a process.
    """
    assert AXE.is_file(), "scripts/test-browser installs axe-core"
    with sync_playwright() as playwright:
        running = launch(playwright)
        yield running
        running.close()


@pytest.fixture
def window(browser: Browser, site_folder: Path) -> Iterator[Open]:
    """Opens a page of the site: ``window("about.html", width=390, scheme="dark")``.

    Then nothing may have failed.
    """
    with ExitStack() as stack:
        opened: list[Watched] = []

        def opens(
            path: str = "", width: int = WIDTHS["wide"], scheme: str = "light", scripts: bool = True
        ) -> Watched:
            seen = stack.enter_context(watched(browser, width, scheme, scripts=scripts))
            opened.append(seen)
            return seen.open(site_folder / path) if path else seen

        yield opens
        assert [line for seen in opened for line in seen.trouble] == []


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest) -> str:
    """``wide``, ``middle`` and ``narrow``."""
    return request.param


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    """``light`` and ``dark``."""
    return request.param
