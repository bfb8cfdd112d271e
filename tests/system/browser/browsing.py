"""A page as its readers get it: opened from a folder in a real browser, and what went wrong while
it was.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request

ROOT = Path(__file__).resolve().parents[3]
AXE = ROOT / ".cache" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ("wcag2a", "wcag2aa", "wcag21aa", "best-practice")
WIDTHS = {"wide": 1280, "middle": 768, "narrow": 390}
SCHEMES = ("light", "dark")
HEIGHT = 844  # of a phone 390 pixels wide
SWITCHES = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@dataclass
class Watched:
    """An open page, and what a reader should never meet.

    Attributes:
        page: Playwright's.
        trouble: Errors of scripts and of the console, and requests for anything but files of the
            site.
    """

    page: Page
    trouble: list[str] = field(default_factory=list)

    def open(self, file: Path) -> Watched:
        """Goes to a page and waits until it has everything."""
        self.page.goto(file.as_uri(), wait_until="load")
        return self

    def screenshot(self, name: str) -> Path:
        """The page as output/screenshots/NAME.png, in a window of its height: nothing sticks in the
        middle of it.
        """
        path = ROOT / "output" / "screenshots" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        before = self.page.viewport_size or {"width": 0, "height": HEIGHT}
        height = self.page.evaluate("document.documentElement.scrollHeight")
        self.page.set_viewport_size({"width": before["width"], "height": height})
        self.page.screenshot(path=path)
        self.page.set_viewport_size(before)
        return path

    def overflow(self) -> int:
        """How many pixels the document is wider than the window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )


Open = Callable[..., Watched]
"""What the fixture ``window`` gives: opens a page of the site, by its path."""


def launch(playwright: Playwright) -> Browser:
    """The Chromium that CHROMIUM names, with a new and empty profile."""
    # A sandbox needs a user who is not root; the pages are our own.
    switches = [
        *SWITCHES,
        *(["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []),
    ]
    return playwright.chromium.launch(
        executable_path=os.environ["CHROMIUM"], args=switches, headless=True
    )


@contextmanager
def watched(
    browser: Browser, width: int, scheme: str, *, scripts: bool = True
) -> Iterator[Watched]:
    """A window of its own.

    Args:
        browser: From `launch`.
        width: Pixels.
        scheme: ``light`` or ``dark``.
        scripts: Whether JavaScript runs.
    """
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        java_script_enabled=scripts,
        offline=True,
    )
    try:
        seen = Watched(context.new_page())
        seen.page.set_default_timeout(30_000)
        seen.page.on("console", lambda message: _console(seen.trouble, message))
        seen.page.on("pageerror", lambda error: seen.trouble.append(f"script error: {error}"))
        seen.page.on("request", lambda request: _request(seen.trouble, request))
        seen.page.on("requestfailed", lambda request: _failed(seen.trouble, request))
        yield seen
    finally:
        context.close()


def _console(trouble: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        trouble.append(f"console {message.type}: {message.text}")


def _failed(trouble: list[str], request: Request) -> None:
    if (
        request.failure != "net::ERR_ABORTED"
    ):  # as a page that is left does with what it still loads
        trouble.append(f"not found: {request.url}")


def _request(trouble: list[str], request: Request) -> None:
    if not request.url.startswith(("file://", "data:")):
        trouble.append(f"asks an outside host: {request.url}")


def axe(page: Page) -> list[str]:
    """What axe-core finds wrong with a page, a readable line for each place; empty for none."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        # The page's policy lets no script be put into it.
        page.evaluate(AXE.read_text(encoding="utf-8"))
    # Without preload it does not ask for the style sheet once more, which no page from a folder
    # may.
    options = {
        "runOnly": {"type": "tag", "values": list(RULES)},
        "resultTypes": ["violations"],
        "preload": False,
    }
    found = page.evaluate(f"axe.run(document, {json.dumps(options)})")
    return [_line(rule, node) for rule in found["violations"] for node in rule["nodes"]]


def _line(rule: dict[str, Any], node: dict[str, Any]) -> str:
    why = " ".join(node.get("failureSummary", "").split())
    return f"{rule['id']} ({rule['impact']}): {node['html'][:160]}: {why}"
