"""What the single parts of the report say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import Read
from small_sites import channel, checkout, drafts, small_site

from ctk.check.audit import audit_packages
from ctk.core.files import machine_paths
from ctk.package.package import PathEntry
from ctk.package.scan import ScanCache
from ctk.site import Page, Site, audit, packages, picks, read, releases
from ctk.site.packages import Rectangle, folders, squarify
from ctk.site.page import bytes_text
from ctk.verify.table import Answers

pytest_plugins = ["site_fixtures"]


def text(pages: object, name: str) -> str:
    """The words of one page of a part, with single spaces."""
    found: dict[str, Page] = {page.path: page for page in pages}  # type: ignore[attr-defined]
    return " ".join(Read(found[name].content).text.split())


def test_each_cell_of_the_heat_map_is_what_the_solver_picks(small: Site) -> None:
    (found,) = picks.heat_maps(small)
    cells = {driver: dict(zip(found.gpus, row, strict=True)) for driver, row in found.rows}
    assert cells["13.3"]["9.0"].text == "13.3" and not cells["13.3"]["9.0"].compat
    assert cells["13.4"]["9.0"].text == "13.4" and not cells["13.4"]["9.0"].compat
    assert cells["no driver"]["9.0"].text == "13.4" and cells["no driver"]["9.0"].compat
    assert cells["13.3"]["9.0"].shade != cells["13.4"]["9.0"].shade
    assert found.gpus[-2:] == ["newer", "unseen"]


def test_the_heat_map_is_readable_without_colour_and_said_again_in_a_table(
    files: Mapping[str, bytes], small: Site
) -> None:
    page = files["picks.html"].decode()
    svg = page[page.index('<svg class="heat"') : page.index("</svg>")]
    assert svg.count("<rect class=") == svg.count('<text class="cell"'), "every cell has its toolkit as text"
    (found,) = picks.heat_maps(small)
    hatched = sum(cell.compat for _, row in found.rows for cell in row)
    assert 0 < hatched == svg.count('fill="url(#hatch-linux-64)"')
    assert "13.4 compat" in Read(page.encode()).text


def test_what_cannot_be_installed_is_said_in_its_cell() -> None:
    cells = {(d, g): "13.4 compat" if d is None else "-" for d in (None, "13.4") for g in ("9.0", "10.0", None)}
    found = picks.heat_map("linux-64", Answers((None, "13.4"), ("9.0", "10.0", None), cells))
    assert [cell.text for cell in found.rows[1][1]] == ["none"] * 3
    assert [cell.compat for cell in found.rows[0][1]] == [True] * 3
    assert found.rows[1][0] == "13.4 or newer"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("releases/13.3.html", ["oldest release that is locked here, so there is none to compare it with"]),
        (
            "releases/13.4.html",
            ["cudart 13.3.92 → 13.4.92", "PTX ISA: 9.3 → 9.4", "have not been compared on the machine"],
        ),
        ("releases/13.4.html", ["ctk release diff 13.3 13.4"]),
        ("releases.html", ["the oldest here", "newer versions of the same components, for the same GPUs"]),
        ("packages/cuda-core.html", ["newest version 1.10.0", "builds 2", "LicenseRef-Test: LICENSE"]),
        ("packages/cuda-core.html", ["cuda-version >=13,<14", "What needs it empty", "weak cuda-core >=1"]),
        ("packages/cuda-core.html", ["39 files in cuda-core-1.10.0-py313h0_0.conda"]),
        ("packages/cuda-core.html", ["lib/python3.13/site-packages/cuda/core 39", "site-packages/cuda/core/7.py"]),
        ("packages/empty.html", ["installs no file"]),
        ("packages/cuda-version.html", ["native_100 native", "compat_0 compat"]),
    ],
)
def test_a_page_says_what_its_reader_came_for(files: Mapping[str, bytes], path: str, words: list[str]) -> None:
    page = " ".join(Read(files[path]).text.split())
    assert [text for text in words if text in page] == words
    assert sorted(words, key=page.index) == words or path != "packages/cuda-version.html", "native comes first"


def test_the_list_of_releases_tells_what_came_and_went(small: Site) -> None:
    newest = small.locks["cuda-13.4"]
    assert newest.facts is not None
    more = replace(newest, facts=replace(newest.facts, gpu_architectures=("9.0", "10.0")))
    page = text(releases.pages(replace(small, locks={**small.locks, "cuda-13.4": more})), "releases.html")
    assert "GPU architectures: +10.0 -7.5" in page


def test_without_a_release_or_its_facts_there_are_sentences(small: Site) -> None:
    bare = replace(small, locks={name: replace(lock, facts=None) for name, lock in small.locks.items()})
    none = replace(small, locks={})
    assert "not measured yet" in text(releases.pages(bare), "releases/13.4.html")
    assert "No release of the CUDA Toolkit is locked here yet" in text(releases.pages(none), "releases.html")
    for site in (bare, none):
        assert "nothing to pick from yet" in text(picks.pages(site), "picks.html")


def test_each_build_has_its_sbom_and_its_licence_beside_the_pages(files: Mapping[str, bytes]) -> None:
    sbom = "sboms/linux-64/cuda-core-1.10.0-py313h0_0.cdx.json"
    assert json.loads(files[sbom]) == {"bomFormat": "CycloneDX"}
    assert f'href="../{sbom}"' in files["packages/cuda-core.html"].decode()
    assert [content for path, content in files.items() if path.startswith("licences/")] == [b"You may.\n"]


def test_the_picture_of_sizes_shows_every_package_or_counts_it(small: Site) -> None:
    blocks = packages.blocks({name: own[0].size for name, own in small.packages.items()})
    assert sum(block.place.area for block in blocks) == pytest.approx(packages.WIDTH * packages.HEIGHT)
    many = packages.blocks({f"p{n}": 1 if n else 10**6 for n in range(20)} | {"unknown": 0})
    assert [block.words for block in many] == ["p0, 1 MB", "19 smaller ones, 19 B"]
    assert packages.blocks({}) == []


@given(st.lists(st.floats(1, 1e8), min_size=1, max_size=40).map(lambda sizes: sorted(sizes, reverse=True)))
def test_rectangles_are_in_proportion_fill_the_whole_and_do_not_overlap(sizes: list[float]) -> None:
    whole, slack = Rectangle(0, 0, 600, 400), 1e-4
    found = squarify(sizes, whole)
    assert [r.area for r in found] == pytest.approx([s * whole.area / sum(sizes) for s in sizes], rel=1e-6)
    assert sum(r.area for r in found) == pytest.approx(whole.area)
    for number, one in enumerate(found):
        assert one.x >= -slack and one.y >= -slack
        assert one.x + one.width <= whole.width + slack and one.y + one.height <= whole.height + slack
        for other in found[number + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            tall = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert wide <= slack or tall <= slack
    for one in squarify([1.0] * 6, whole):
        assert max(one.width / one.height, one.height / one.width) <= 1.5, "nearly squares"


def test_folders_are_few_and_account_for_every_file() -> None:
    files = [PathEntry(f"a/b{n % 30}/c{n % 90}/f{n}", "hardlink", size=2) for n in range(300)]
    found = folders(files)
    assert len(found) <= 12 and sum(row[1] for row in found) == 300 and sum(row[2] for row in found) == 600
    wide = folders([PathEntry(f"top{n}/f", "hardlink", size=1) for n in range(50)])
    assert len(wide) == 12 and wide[-1] == ("other folders", 39, 39)
    assert folders([PathEntry("file", "hardlink", size=3)]) == [(".", 1, 3)]


def audited(site: Site) -> str:
    """The page of the audit after `ctk audit`."""
    audit_packages(
        [entry.path for entry in site.entries],
        forbidden_paths=machine_paths(site.workspace),
        cache=ScanCache(site.workspace.cache / "audit"),
    )
    return text(audit.pages(site), "audit.html")


def test_the_audit_is_shown_once_it_has_read_these_packages(tmp_path: Path) -> None:
    site = small_site(tmp_path)
    before = text(audit.pages(site), "audit.html")
    assert "7 of 7 packages have not been audited" in before and "ctk audit" in before
    after = audited(site)
    assert "have not been audited" not in after and "Nothing was found that would block publishing" in after
    assert "packages opened 7" in after and "Findings" not in after


def test_what_the_audit_found_is_shown_with_how_to_mend_it(tmp_path: Path) -> None:
    lying = replace(drafts()[-1], listed={"share/gone": {"sha256": "0" * 64, "size_in_bytes": 1}})
    page = audited(small_site(tmp_path, [*drafts()[:-1], lying]))
    assert "Something was found that blocks publishing" in page
    assert "ArchiveMatchesPaths error empty-1.0-h0_0.condashare/gone" in page
    assert audit.CHECKS[6].name == "ArchiveMatchesPaths" and audit.CHECKS[6].fix in page


def test_every_check_is_listed_with_its_own_words(small: Site) -> None:
    page = text(audit.pages(small), "audit.html")
    for check in audit.CHECKS:
        assert check.help.replace("``", "") in page


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (1000, "1 kB"),
        (16_824, "16.8 kB"),
        (999_999, "1 MB"),
        (2e12, "2 TB"),
    ],
)
def test_sizes_are_said_in_three_digits(size: float, said: str) -> None:
    assert bytes_text(size) == said


def test_many_platforms_are_each_drawn(tmp_path: Path) -> None:
    more = [replace(draft, subdir="win-64") for draft in drafts() if draft.subdir == "linux-64"]
    site = read(checkout(tmp_path / "checkout"), channel(tmp_path / "channel", [*drafts(), *more]))
    assert site.platforms == ("linux-64", "win-64")
    page = Read(next(iter(picks.pages(site))).content)
    assert page.wrong == [] and {"linux-64", "win-64"} <= set(page.ids)
    assert "39 files in" in text(packages.pages(site), "packages/cuda-core.html")
