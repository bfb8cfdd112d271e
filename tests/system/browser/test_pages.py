"""Every page of the site at three widths, light and dark, with a picture of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browsing import WIDTHS, axe
from playwright.sync_api import expect

from conftest import Open
from ctk.site.docs import MOVED


def pages(site: Path) -> list[str]:
    """Those that stay open: a page that moved leads on at once."""
    found = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    return sorted(found - {f"docs/{name}.html" for name in MOVED})


@pytest.mark.parametrize("what", ["top", "packages", "docs"])
def test_every_page_is_accessible_fits_the_window_and_asks_no_other_host(
    window: Open, site_folder: Path, width: str, scheme: str, what: str
) -> None:
    mine = [
        page
        for page in pages(site_folder)
        if (page.partition("/")[0] if "/" in page else "top") == what
    ]
    seen, found = window(width=WIDTHS[width], scheme=scheme), []
    for page in mine:
        seen.open(site_folder / page)
        found += [f"{page}: {line}" for line in axe(seen.page)]
        picture = seen.screenshot(
            f"{page.removesuffix('.html').replace('/', '-')}-{width}-{scheme}"
        )
        assert picture.stat().st_size > 8_000, f"the picture of {page} is empty"
        if wider := seen.overflow():
            found.append(f"{page}: {wider} px wider than the window")
    assert found == []
    assert mine, f"the site has no page of {what}"


def test_the_list_of_packages_is_searched_with_the_keyboard_alone(window: Open) -> None:
    page = window("packages.html").page
    for _ in range(200):  # from the top of the page, as somebody without a mouse
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "search":
            break
    assert page.evaluate("document.activeElement.id") == "search"
    rows, status = page.locator("#package-rows tr:visible"), page.locator("#matches")
    every = rows.count()
    assert re.fullmatch(
        rf"{every} packages, and \d+ parts of them in their rows", status.inner_text()
    )
    page.keyboard.type("NVRTC files")
    assert rows.locator("a:visible").all_inner_texts() == [
        "cuda-nvrtc",
        "cuda-nvrtc-files",
    ], "its part is unfolded"
    assert status.inner_text() == f"1 of {every} match"
    page.keyboard.type(" no such thing")
    assert rows.count() == 0 and status.inner_text().startswith(f"0 of {every} match")
    page.keyboard.press("Escape")
    assert rows.count() == every
    page.keyboard.type("cuda-nvcc")
    assert rows.locator("th > a").first.inner_text() == "cuda-nvcc", "what is called so comes first"
    page.keyboard.press("Escape")
    page.keyboard.type("nvrtc")
    found = ["nvrtc" in name for name in rows.locator("th > a").all_inner_texts()]
    assert found == sorted(found, reverse=True) and found[0] and not found[-1], (
        "names come before summaries"
    )
    page.keyboard.press("Escape")
    for typed in ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12"):
        page.keyboard.type(typed)
        assert rows.locator("th > a").first.inner_text() == "libnvjitlink", "as pip calls it"
        page.keyboard.press("Escape")
    page.keyboard.type("cuda-croe")
    assert status.inner_text().startswith(f"0 of {every} match. Did you mean cuda-core")
    page.keyboard.press("Escape")
    page.keyboard.type("cudatoolkit")
    assert ". cudatoolkit is the toolkit of CUDA 11 and older " in status.inner_text()
    page.keyboard.press("Escape")
    first, second, *others = rows.locator("th > a").all_inner_texts()
    assert (first, second) == ("cuda-core", "numba-cuda"), "what most readers come for"
    assert others == sorted(others), "and all are in order again"
    page.keyboard.type("cuda-nvrtc-files")
    for _ in range(
        5
    ):  # the box that scrolls, then in its first row the link, the parts, and the link to one
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "cuda-nvrtc-files":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/packages/cuda-nvrtc-files.html")
    page.go_back()
    expect(page.locator("#search")).to_have_value("cuda-nvrtc-files")
    expect(status).to_have_text(f"1 of {every} match")


def test_the_docs_have_the_header_and_the_fonts_of_the_site(window: Open, width: str) -> None:
    looks = []
    for path in ("packages.html", "docs/index.html"):
        page = window(path, width=WIDTHS[width] + 160).page
        fonts = (
            "[document.body, document.querySelector('h1')].map((of) =>"
            " getComputedStyle(of).fontFamily)"
        )
        looks.append((page.locator(".bar .brand").bounding_box(), page.evaluate(fonts)))
    assert looks[0] == looks[1]


def test_the_command_of_a_package_is_copied(window: Open) -> None:
    page = window("packages/cuda-core.html").page
    button = page.locator(".copy button").first
    for client, words in (("pixi", "pixi add"), ("mamba", "mamba create")):
        page.check(f"input[name=client][value={client}]")
        expect(page.locator(f".{client} .copy pre")).to_contain_text(words)
        expect(page.locator(".conda .copy")).to_be_hidden()
        expect(page.get_by_role("button", name="Copy")).to_have_count(1)
    page.check("input[name=client][value=conda]")
    box, frame = button.bounding_box(), page.locator(".copy").first.bounding_box()
    assert frame["x"] < box["x"] and box["x"] + box["width"] < frame["x"] + frame["width"], (
        "in its corner"
    )
    assert frame["y"] < box["y"] < frame["y"] + 20
    button.click()
    expect(button).not_to_have_text("Copy")


USERS = "docs/users.html"
OF_CI = "ci-without-a-gpu"  # a heading below another one, which folds


def test_on_a_phone_the_sections_of_the_docs_fold(window: Open) -> None:
    height = "document.documentElement.scrollHeight"
    page = window(USERS, width=WIDTHS["narrow"]).page
    headings = page.locator("article h2")
    expect(page.locator("article summary > h2")).to_have_count(headings.count() - 1)
    for place in range(headings.count()):
        expect(headings.nth(place)).to_be_visible()
    expect(page.locator("#install > p").first).to_be_visible()
    expect(page.locator(f"#{OF_CI}")).to_be_hidden()
    folded = page.evaluate(height)
    page.locator("#pixi summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#pixi pre").first).to_be_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("article details:not([open])")).to_have_count(0)
    assert folded < page.evaluate(height) / 3


def test_a_link_to_a_heading_unfolds_it(window: Open, site_folder: Path) -> None:
    page = window(USERS, width=WIDTHS["narrow"]).page
    section = page.locator("#pixi")
    for _ in range(2):  # the second time, the address has the heading already
        page.locator("#install a[href='#pixi']").click()
        expect(section.locator("pre").first).to_be_in_viewport()
        section.locator("summary").click()
        expect(section.locator("pre").first).to_be_hidden()
        page.locator("h1").scroll_into_view_if_needed()
    page.goto(f"{(site_folder / USERS).as_uri()}#{OF_CI}")
    expect(page.locator(f"#{OF_CI} h3")).to_be_in_viewport()
    page.goto(f"{(site_folder / 'docs' / 'search.html').as_uri()}?q=CI+without+a+GPU")
    page.locator(f"#search-results a[href*='#{OF_CI}']").first.click()
    expect(page.locator(f"#{OF_CI} h3")).to_be_in_viewport()


@pytest.mark.parametrize(("width_", "scripts"), [("wide", True), ("narrow", False)])
def test_nothing_folds_in_a_wide_window_or_without_scripts(
    window: Open, width_: str, scripts: bool
) -> None:
    page = window(USERS, width=WIDTHS[width_], scripts=scripts).page
    expect(page.locator("article details")).to_have_count(0)
    expect(page.locator(f"#{OF_CI} pre").first).to_be_visible()


def test_a_keyboard_reaches_the_content_in_one_step_and_sees_where_it_is(window: Open) -> None:
    page = window("about.html").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0, "it shows once it has the focus"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_on_a_phone_the_table_of_machines_says_what_a_row_and_a_column_are(window: Open) -> None:
    """It scrolls in its own box, where the first column, the caption and a text across it stay."""
    seen = window("about.html", WIDTHS["narrow"])
    page = seen.page
    table = page.locator(".heat").first
    box = page.locator(".scroll", has=table).first
    box.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
    assert seen.overflow() == 0
    edges = box.bounding_box()
    staying = (
        "thead th:first-child",
        "tbody tr:last-child th",
        "caption .stays",
        "tbody .stays",
    )
    for place in staying:
        shown = table.locator(place).first.bounding_box()
        assert edges and shown
        assert edges["x"] <= shown["x"], place
        assert shown["x"] + shown["width"] <= edges["x"] + edges["width"], place
    cut = """(table) => [...table.querySelectorAll("th, td")].filter(
        (cell) => cell.scrollWidth > cell.clientWidth + 1).length"""
    assert table.evaluate(cut) == 0


def test_the_search_leads_to_one_command_for_several_names(window: Open) -> None:
    page = window("packages.html").page
    page.locator("[data-search] input").fill("cuda-core, numba-cuda")
    page.get_by_role("link", name="One command for cuda-core and numba-cuda").click()
    expect(page.locator("#command")).to_contain_text("cuda-gpu cuda-core numba-cuda")
