"""What holds for every page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from crafted_packages import Draft
from reading import Read, target
from small_sites import HOSTILE, channel, checkout, drafts, small_site

from ctk.site import Site, read, report_pages

pytest_plugins = ["site_fixtures"]

TOP = ["audit.html", "benchmarks.html", "packages.html", "picks.html", "releases.html"]
FRONT = "index.html"  # another part of the site


def html(files: Mapping[str, bytes]) -> dict[str, Read]:
    return {path: Read(content) for path, content in files.items() if path.endswith(".html")}


def test_the_report_has_a_page_for_everything(files: Mapping[str, bytes]) -> None:
    assert [path for path in html(files) if "/" not in path and path != FRONT] == sorted(TOP, key=list(files).index)
    assert {path for path in files if "/" in path and path.endswith(".html")} == {
        "packages/cuda-core.html",
        "packages/cuda-version.html",
        "packages/empty.html",
        "releases/13.3.html",
        "releases/13.4.html",
    }
    assert "assets/style.css" in files


def test_every_page_is_sound_html_with_one_heading_a_language_and_named_pictures(files: Mapping[str, bytes]) -> None:
    for path, page in html(files).items():
        assert page.wrong == [], path
        assert (page.tags["h1"], page.tags["main"], page.tags["title"] >= 1, page.lang) == (1, 1, True, "en"), path


def test_every_link_leads_somewhere_inside_the_site(files: Mapping[str, bytes]) -> None:
    pages = html(files)
    for path, page in pages.items():
        for link in page.links:
            if link.startswith("https://"):
                continue
            file, fragment = target(path, link)
            assert file == FRONT or file in files, f"{path} links to {link}"
            assert not fragment or file not in pages or fragment in pages[file].ids, f"{path} links to {link}"


def test_no_page_loads_anything_from_outside(files: Mapping[str, bytes]) -> None:
    for path, page in html(files).items():
        for loaded in page.loaded:
            assert loaded == "data:," or target(path, loaded)[0] in files, f"{path} loads {loaded}"
    for path, content in files.items():
        if path.endswith((".css", ".js")):
            found = re.findall(rb"//\w|@import|url\(|fetch\(|XMLHttpRequest", content)
            assert found == [], f"{path} names a host, or loads something"


def test_what_a_package_says_is_shown_and_never_obeyed(files: Mapping[str, bytes]) -> None:
    for path in ("packages.html", "packages/cuda-core.html"):
        content = files[path].decode()
        assert "<script>alert" not in content
        assert "javascript:" not in content
    assert HOSTILE in Read(files["packages.html"]).text


def test_the_same_channel_gives_the_same_bytes(files: Mapping[str, bytes], small: Site) -> None:
    again = read(small.workspace, small.channel)
    assert {page.path: page.content for page in report_pages(again)} == dict(files)


def test_a_channel_without_packages_gets_whole_pages_that_say_so(tmp_path: Path) -> None:
    site = small_site(tmp_path, [])
    files = {page.path: page.content for page in report_pages(site)}
    for path, page in html(files).items():
        assert page.wrong == [], path
        assert "The channel has no packages yet. Run ctk build" in page.text, path
    assert "nothing to pick from yet" in Read(files["picks.html"]).text
    assert "no package to open" in Read(files["audit.html"]).text


@pytest.mark.parametrize("text", ["{", "[]", '{"packages.conda": 7}', "\xff", "[" * 100_000])
def test_an_index_that_cannot_be_read_is_said_on_every_page(tmp_path: Path, text: str) -> None:
    where, folder = checkout(tmp_path / "checkout"), channel(tmp_path / "channel", drafts())
    (folder / "linux-64" / "repodata.json").write_bytes(text.encode("latin-1"))
    files = {page.path: page.content for page in report_pages(read(where, folder))}
    for path, page in html(files).items():
        assert "The index of linux-64 cannot be read" in page.text, path
    assert "packages/cuda-version.html" in files, "the other subdirs stay"


@pytest.mark.parametrize(
    "record",
    [
        {"name": "../../outside"},
        {"name": "a/b"},
        {"version": 7},
        {"build_number": "first"},
        {"depends": [3]},
        {"size": "large"},
        {"name": None},
    ],
)
def test_an_entry_that_is_no_package_is_left_out_and_counted(tmp_path: Path, record: dict[str, object]) -> None:
    where, folder = checkout(tmp_path / "checkout"), channel(tmp_path / "channel", drafts())
    place = folder / "linux-64" / "repodata.json"
    content = json.loads(place.read_text())
    content["packages.conda"]["odd-1-0.conda"] = {**content["packages.conda"]["empty-1.0-h0_0.conda"], **record}
    place.write_text(json.dumps(content))
    site = read(where, folder)
    assert [problem.split(" cannot")[0] for problem in site.problems] == ["1 entry of the index of linux-64"]
    assert len(site.entries) == len(drafts())


def test_a_file_that_the_index_lists_and_the_folder_lacks_is_named(tmp_path: Path) -> None:
    where, folder = checkout(tmp_path / "checkout"), channel(tmp_path / "channel", drafts())
    (folder / "linux-64" / "empty-1.0-h0_0.conda").unlink()
    (folder / "linux-64" / "cuda-core-1.10.0-py313h0_0.conda").write_bytes(b"not a package")
    files = {page.path: page.content for page in report_pages(read(where, folder))}
    said = "empty-1.0-h0_0.conda is listed in the index and is not in the channel's folder."
    for path in ("packages.html", "packages/empty.html"):
        assert said in Read(files[path]).text
    assert "cannot be read" in Read(files["packages/cuda-core.html"]).text
    assert "empty-1.0-h0_0.conda" in Read(files["audit.html"]).text
    for path, page in html(files).items():
        assert page.wrong == [], path


@pytest.mark.parametrize(
    "info",
    [
        {"about.json": b'{"summary": "half of a pair: \\ud800"}'},
        {"paths.json": b'{"paths": [{"_path": "a", "path_type": "hardlink", "size_in_bytes": 1e999}]}'},
    ],
    ids=["surrogate", "infinite"],
)
def test_a_package_that_says_what_cannot_be_is_no_end_of_the_others(tmp_path: Path, info: dict[str, bytes]) -> None:
    odd = Draft("odd", "1.0", "h0_0", info=info)
    files = {page.path: page.content for page in report_pages(small_site(tmp_path, [*drafts(), odd]))}
    assert "packages/odd.html" in files
    for path, page in html(files).items():
        assert page.wrong == [], path


def test_what_is_planned_says_once_that_nothing_of_it_is_built(tmp_path: Path) -> None:
    made = channel(tmp_path / "channel", drafts())
    for package in made.rglob("*.conda"):
        package.unlink()
    site = read(checkout(tmp_path / "checkout"), made, planned=True)
    for page in report_pages(site):
        if page.path.endswith(".html"):
            text = " ".join(Read(page.content).text.split())
            assert text.count("not a channel that was built") == 1, page.path
            assert "could not be" not in text and "cannot be read" not in text, page.path
