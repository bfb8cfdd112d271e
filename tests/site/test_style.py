"""The look of the pages, as far as numbers can say."""

from __future__ import annotations

import json
import re

import pytest

from ctk.core.checkout import Workspace
from ctk.site.pages import assets

CSS = next(page.content.decode() for page in assets() if page.path.endswith("style.css"))
LIGHT, DARK = CSS.split("@media (prefers-color-scheme: dark)")


def colours(part: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("part", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable_on_every_colour_it_stands_on(part: str) -> None:
    """4.5 to 1, level AA. axe-core judges the text of pages; it does not judge text in an SVG."""
    found = colours(part)
    shades = [name for name in found if re.match(r"step-|other-", name)]
    assert len(shades) == 12
    pairs = [("text", shade) for shade in shades]
    pairs += [(ink, paper) for ink in ("text", "quiet", "link", "bad", "accent") for paper in ("page", "panel")]
    pairs += [("text", "notice"), ("text", "code"), ("link", "notice"), ("text", "accent-soft")]
    poor = {pair: round(ratio, 2) for pair in pairs if (ratio := contrast(found[pair[0]], found[pair[1]])) < 4.5}
    assert poor == {}


def test_every_colour_that_is_used_is_defined_for_light_and_dark() -> None:
    assert colours(LIGHT).keys() == colours(DARK).keys()
    assert set(re.findall(r"var\(--([\w-]+)\)", CSS)) <= set(re.findall(r"--([\w-]+):", CSS))


def test_what_the_browser_tests_install_is_locked_and_names_no_host(project: Workspace) -> None:
    place = project.root / "tests" / "browser"
    lock = json.loads((place / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or re.fullmatch(r"sha512-[\w+/=]+", package["integrity"]), name
    wanted = json.loads((place / "package.json").read_text())["dependencies"]
    assert {f"node_modules/{name}": version for name, version in wanted.items()} == {
        name: package["version"] for name, package in lock["packages"].items() if name
    }
    python = (project.root / "requirements-browser.lock").read_text()
    assert "://" not in python and re.search(r"^playwright==[\d.]+ \\\n +--hash=sha256:", python, re.M)
