"""The pages of the report: what holds for all of them, and what each part says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import Read, target
from small_sites import DOCS, HOSTILE, channel, checkout, drafts, small_site

from ctk.build.runner import machine_paths
from ctk.check.audit import CHECKS, audit_packages
from ctk.package.package import IndexJson, PathEntry
from ctk.site import Page, Site, packages, read, report, report_pages
from ctk.site.content import IndexedPackage
from ctk.site.packages import PICTURE, PackageBuild, folders, squarify
from ctk.site.pages import bytes_text, stand_alone
from ctk.verify import channels
from ctk.verify.table import ask
from kit.packages import Draft

pytest_plugins = ["site_fixtures"]

TOP = ["audit.html", "docs.html", "packages.html", "picks.html", "releases.html"]
FRONT = "index.html"  # another part of the site


SUPPORT = """sources:
  page: {title: A page, url: "https://docs.example.org/bulletin", read: 2026-11-24}
drivers:
  - {branch: R610, cuda: "13.3", end: 2026-08, sources: [page]}
gpus:
  - {architecture: Turing, compute_capabilities: ["7.5"], last_driver: R610, sources: [page]}
vulnerabilities:
  - {cves: [CVE-2026-0001], components: [cudart], fixed: "13.4.0", sources: [page]}
"""


def contents(site: Site) -> dict[str, bytes]:
    return {page.path: page.content for page in report_pages(site)}


def html(files: Mapping[str, bytes]) -> dict[str, Read]:
    return {path: Read(content) for path, content in files.items() if path.endswith(".html")}


def text(pages: object, name: str) -> str:
    """The words of one page of a part."""
    found: dict[str, Page] = {page.path: page for page in pages}  # type: ignore[attr-defined]
    return Read(found[name].content).text


def test_every_page_is_sound_html_and_links_inside_the_site(files: Mapping[str, bytes]) -> None:
    pages = html(files)
    assert sorted(path for path in pages if "/" not in path) == TOP
    assert {path for path in pages if "/" in path} == {
        *(f"packages/{name}.html" for name in ("cuda-core", "cuda-version", "empty")),
        *(f"releases/{minor}.html" for minor in ("13.3", "13.4")),
        *(name.replace(".md", ".html") for name in DOCS if name.endswith(".md")),
    }
    for path, page in pages.items():
        assert page.wrong == [], path
        assert (page.tags["h1"], page.tags["main"], page.tags["title"] >= 1, page.lang) == (1, 1, True, "en"), path
        assert any(target(path, link)[0] == "docs.html" for link in page.links), f"{path} has no link to the docs"
        for link in page.links:
            file, fragment = target(path, link)
            if not link.startswith("https://"):
                assert file == FRONT or file in files, f"{path} links to {link}"
                assert not fragment or file not in pages or fragment in pages[file].ids, f"{path} links to {link}"
        for loaded in page.loaded:
            assert loaded == "data:," or target(path, loaded)[0] in files, f"{path} loads {loaded}"
    for path, content in files.items():
        if path.endswith((".css", ".js")):
            found = re.findall(rb"//\w|@import|url\(|fetch\(|XMLHttpRequest", content)
            assert found == [], f"{path} names a host, or loads something"


def test_what_a_package_says_is_shown_and_never_obeyed(files: Mapping[str, bytes]) -> None:
    for path in ("packages.html", "packages/cuda-core.html"):
        assert "<script>alert" not in files[path].decode() and "javascript:" not in files[path].decode()
    assert HOSTILE in Read(files["packages.html"]).text


def test_the_same_channel_gives_the_same_bytes(files: Mapping[str, bytes], small: Site) -> None:
    again = replace(read(small.workspace, small.channel), channels=small.channels)
    assert contents(again) == dict(files)


def test_a_channel_without_packages_gets_whole_pages_that_say_so(tmp_path: Path) -> None:
    pages = html(contents(small_site(tmp_path, [])))
    for path, page in pages.items():
        assert page.wrong == [], path
        assert "The channel has no packages yet." in page.text, path
    assert "nothing to pick from yet" in pages["picks.html"].text
    assert "no package to open" in pages["audit.html"].text


@pytest.fixture
def made(tmp_path: Path) -> Callable[[], Site]:
    """Reads the tiny channel, after somebody changed its files."""
    where, folder = checkout(tmp_path / "checkout"), channel(tmp_path / "channel", drafts())
    return lambda: read(where, folder)


@pytest.mark.parametrize("index", ["{", "[]", '{"packages.conda": 7}', "\xff", "[" * 100_000])
def test_an_index_that_cannot_be_read_is_said_on_every_page(made: Callable[[], Site], index: str) -> None:
    (made().channel / "linux-64" / "repodata.json").write_bytes(index.encode("latin-1"))
    files = contents(made())
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
def test_an_entry_that_is_no_package_is_left_out_and_counted(
    made: Callable[[], Site], record: dict[str, object]
) -> None:
    place = made().channel / "linux-64" / "repodata.json"
    content = json.loads(place.read_text())
    content["packages.conda"]["odd-1-0.conda"] = {**content["packages.conda"]["empty-1.0-h0_0.conda"], **record}
    place.write_text(json.dumps(content))
    assert [problem.split(" cannot")[0] for problem in made().problems] == ["1 entry of the index of linux-64"]
    assert len(made().entries) == len(drafts())


def test_a_file_that_the_index_lists_and_the_folder_lacks_is_named(made: Callable[[], Site]) -> None:
    folder = made().channel / "linux-64"
    (folder / "empty-1.0-h0_0.conda").unlink()
    (folder / "cuda-core-1.10.0-py313h0_0.conda").write_bytes(b"not a package")
    pages = html(contents(made()))
    assert all(page.wrong == [] for page in pages.values())
    said = "empty-1.0-h0_0.conda is listed in the index and is not in the channel's folder."
    assert said in pages["packages.html"].text and said in pages["packages/empty.html"].text
    assert "cannot be read" in pages["packages/cuda-core.html"].text
    assert "empty-1.0-h0_0.conda" in pages["audit.html"].text


@pytest.mark.parametrize(
    "info",
    [
        {"about.json": b'{"summary": "half of a pair: \\ud800"}'},
        {"paths.json": b'{"paths": [{"_path": "a", "path_type": "hardlink", "size_in_bytes": 1e999}]}'},
    ],
    ids=["surrogate", "infinite"],
)
def test_a_package_that_says_what_cannot_be_is_no_end_of_the_others(tmp_path: Path, info: dict[str, bytes]) -> None:
    pages = html(contents(small_site(tmp_path, [*drafts(), Draft("odd", "1.0", "h0_0", info=info)])))
    assert "packages/odd.html" in pages and all(page.wrong == [] for page in pages.values())


def test_what_is_planned_says_once_that_nothing_of_it_is_built(made: Callable[[], Site]) -> None:
    site = made()
    for package in site.channel.rglob("*.conda"):
        package.unlink()
    for path, page in html(contents(read(site.workspace, site.channel, planned=True))).items():
        assert page.text.count("not a channel that was built") == 1, path
        assert "could not be" not in page.text and "cannot be read" not in page.text, path


def test_pages_say_what_bulletins_say_with_the_bulletin(tmp_path: Path) -> None:
    site = small_site(tmp_path)
    (site.workspace.variants / "support.yaml").write_text(SUPPORT)
    files = contents(site)
    old, new = (Read(files[f"releases/{minor}.html"]) for minor in ("13.3", "13.4"))
    assert "R610, end of life 2026-08" in old.text and "CVE-2026-0001 in cudart, fixed in 13.4.0" in old.text
    assert b'<a href="https://docs.example.org/bulletin">CVE-2026-0001</a>' in files["releases/13.3.html"]
    assert "CVE" not in new.text and "Driver branch" not in new.text
    assert all(page.wrong == [] for page in html(files).values())
    assert b'"CVE-2026-0001"' in files["sboms/vex.cdx.json"] and b'href="sboms/vex.cdx.json"' in files["packages.html"]
    assert "no such machine" in Read(files["picks.html"]).text


def test_without_bulletins_nothing_is_said_of_vulnerabilities(files: Mapping[str, bytes]) -> None:
    assert "sboms/vex.cdx.json" not in files and b"VEX" not in files["packages.html"]
    assert "Known vulnerabilities" not in Read(files["releases/13.3.html"]).text


def test_the_heat_map_is_what_the_solver_picks_in_colours_and_in_words(files: Mapping[str, bytes], small: Site) -> None:
    with TemporaryDirectory() as folder:
        solved = channels.write(channels.built(small.channel), Path(folder))
        answers = ask(solved.folders, small.releases)
    page = files["picks.html"].decode()
    svg = page[page.index('<svg class="heat"') : page.index("</svg>")]
    shown = re.findall(
        r'<rect class="(\w+)".*\n(?:(<rect fill="url.#hatch-linux-64.).*\n)?<text class="cell".*>(.*)<', svg
    )
    picks = [answers.cells[driver, gpu].split() for driver in answers.drivers for gpu in answers.gpus]
    assert [(text, bool(hatch)) for _, hatch, text in shown] == [
        ("none" if toolkit == "-" else toolkit, fit == ["compat"]) for toolkit, *fit in picks
    ]
    assert len({shade for shade, _, text in shown if text in ("13.3", "13.4")}) == 2
    assert re.findall(r'class="head".*>(.*)<', svg)[-2:] == ["newer", "unseen"]
    rows = re.findall(r'class="row".*>(.*)<', svg)
    assert rows[0] == "no driver" and rows[-1].endswith(" or newer")
    assert "13.4 compat" in Read(page.encode()).text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("releases/13.3.html", ["oldest release that is locked here, so there is none to compare it with"]),
        ("releases/13.4.html", ["cudart 13.3.92 → 13.4.92", "PTX ISA: 9.3 → 9.4"]),
        ("releases/13.4.html", ["files and symbols of these two releases have not been compared"]),
        ("releases.html", ["the same GPUs", "the oldest release here"]),
        (
            "packages/cuda-core.html",
            [
                "conda create --name cuda \\ --channel https://example.org/cuda \\ --channel conda-forge \\ "
                "--override-channels --strict-channel-priority \\ cuda-core",
                "newest version 1.10.0",
                "builds 2",
                "LicenseRef-Test: LICENSE",
                "CUDA 13, Python 3.13 version 1.10.0, 1.2.2; 2 builds",
            ],
        ),
        ("packages/cuda-core.html", ["cuda-version >=13,<14", "What needs it empty", "weak cuda-core >=1"]),
        ("packages/cuda-core.html", ["39 files in cuda-core-1.10.0-py313h0_0.conda"]),
        ("packages/cuda-core.html", ["lib/python3.13/site-packages/cuda/core 39", "site-packages/cuda/core/7.py"]),
        ("packages/empty.html", ["installs no file"]),
        ("packages/cuda-version.html", ["native_100 native", "compat_0 compat"]),
    ],
)
def test_a_page_says_what_its_reader_came_for(files: Mapping[str, bytes], path: str, words: list[str]) -> None:
    page = Read(files[path]).text
    assert [text for text in words if text in page] == words
    assert sorted(words, key=page.index) == words or path != "packages/cuda-version.html", "native comes first"


def test_the_list_of_releases_tells_what_came_and_went_and_what_is_not_measured(small: Site) -> None:
    newest = small.locks["cuda-13.4"]
    assert newest.facts is not None
    more = replace(newest, facts=replace(newest.facts, gpu_architectures=("9.0", "10.0")))
    page = text(report.releases(replace(small, locks={**small.locks, "cuda-13.4": more})), "releases.html")
    assert "adds 10.0; drops 7.5" in page
    bare = replace(small, locks={name: replace(lock, facts=None) for name, lock in small.locks.items()})
    none = replace(small, locks={})
    assert "not measured yet" in text(report.releases(bare), "releases/13.4.html")
    assert "No release of the CUDA Toolkit is locked here yet" in text(report.releases(none), "releases.html")
    for site in (bare, none):
        assert "nothing to pick from yet" in text(report.picks(site), "picks.html")


def test_each_build_has_its_sbom_and_its_licence_beside_the_pages(files: Mapping[str, bytes]) -> None:
    sbom = "sboms/linux-64/cuda-core-1.10.0-py313h0_0.cdx.json"
    assert json.loads(files[sbom]) == {"bomFormat": "CycloneDX"}
    assert f'href="../{sbom}"' in files["packages/cuda-core.html"].decode()
    assert [content for path, content in files.items() if path.startswith("licences/")] == [b"You may.\n"]


def test_the_picture_of_sizes_shows_every_package_or_counts_it() -> None:
    sizes = {"cuda-x-dev": 10**6, "cuda-y": 10**5, "python-z": 10**4} | {f"p{n}": 1 for n in range(20)} | {"unknown": 0}
    entries = {
        name: [entry(name, size, ("python >=3.13",) if name == "python-z" else ())] for name, size in sizes.items()
    }
    many = [(block["words"], packages.KINDS[block["class"]]) for block in packages.blocks(entries)]
    assert many == [
        ("cuda-x-dev, 1 MB", "headers and static libraries"),
        ("cuda-y, 100 kB", "libraries and programs"),
        ("python-z, 10 kB", "Python packages"),
        ("20 smaller ones, 20 B", "others"),
    ]
    assert packages.blocks({}) == []


def entry(name: str, size: int = 1, depends: tuple[str, ...] = (), version: str = "1.0") -> IndexedPackage:
    return IndexedPackage(
        f"{name}.conda", IndexJson(name, version, "h_0", 0, "linux-64", depends=depends), size, "", Path()
    )


def test_builds_are_folded_by_cuda_and_python_the_newest_first() -> None:
    def built(cuda: str, python: str, version: str = "1.0") -> PackageBuild:
        free = python.endswith("t")
        abi = f"python_abi {python.rstrip('t')}.* *_cp{python.replace('.', '')}" if python else "nothing"
        assert not free or abi.endswith("t")
        own = f"cuda-version >={cuda},<{int(float(cuda)) + 1}.0a0 native_*"
        return PackageBuild(entry("x", depends=(own, abi), version=version))

    builds = [
        built("12", "3.9"),
        built("13", "3.13"),
        built("13", "3.14t"),
        built("13", "3.14"),
        built("13", "3.13", "0.9"),
    ]
    found = packages.fold(builds)
    assert [label for label, _ in found] == [
        "CUDA 13, Python 3.14t",
        "CUDA 13, Python 3.14",
        "CUDA 13, Python 3.13",
        "CUDA 12, Python 3.9",
    ]
    assert found[2][1] == [builds[1], builds[4]], "the newest version stays first"
    assert packages.fold([built("12.10", ""), built("12.9", "")])[0][0] == "CUDA 12.10"
    assert packages.fold([PackageBuild(entry("plain"))])[0][0] == ""
    for_all = PackageBuild(entry("x", depends=("cuda-version >=12.0,<14.0a0",)))
    assert packages.fold([for_all])[0][0] == "", "what is for two CUDA majors is named for none"


def test_nobody_is_told_to_install_what_other_packages_bring(tmp_path: Path) -> None:
    half = Draft("cuda-nvrtc-files", "13.4.92", "h0_0")
    pages = contents(small_site(tmp_path, [*drafts(), half]))
    assert "conda create" in Read(pages["packages/empty.html"]).text
    assert "conda create" not in Read(pages["packages/cuda-nvrtc-files.html"]).text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("5.0 7.2 9.0", "7.5 8.0 9.0", "adds 7.5, 8.0; drops 5.0, 7.2"),
        ("5.0 7.0 7.2 9.0", "9.0", "drops 5.0 to 7.2"),
        ("9.0", "9.0 10.0 12.0 12.1", "adds 10.0 to 12.1"),
        ("9.0 11.0", "9.0 10.0 11.0 12.0 12.1", "adds 10.0, 12.0, 12.1"),
        ("9.0", "9.0", "the same GPUs"),
    ],
)
def test_a_release_says_which_gpus_it_adds_and_drops(small: Site, old: str, new: str, said: str) -> None:
    before, after = small.releases
    assert before.facts and after.facts
    one = replace(before, facts=replace(before.facts, gpu_architectures=tuple(old.split())))
    other = replace(after, facts=replace(after.facts, gpu_architectures=tuple(new.split())))
    site = replace(small, locks={"cuda-13.3": one, "cuda-13.4": other})
    assert f" {said} " in text(report.releases(site), "releases.html")
    if said != "the same GPUs":
        assert f"GPUs: {said} " in text(report.releases(site), "releases/13.4.html")


def test_pages_allow_no_script_and_no_style_but_those_of_the_site(files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        if path.endswith(".html"):
            page = content.decode()
            assert """content="default-src 'none'; script-src 'self'; style-src 'self'; img-src""" in page, path
            assert not re.search(r"<style|\sstyle=|<script(?! src=| type=.application/json)", page), path


def test_a_page_that_is_one_file_allows_its_own_style_alone() -> None:
    page = stand_alone("installable.html", title="T", pins=[], groups=[], notes=[]).decode()
    style = page.split("<style>")[1].split("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in page and Read(page.encode()).wrong == []


def test_no_page_tells_its_reader_to_run_the_tool(files: Mapping[str, bytes]) -> None:
    for path, page in html(files).items():
        assert path.startswith("docs/") or not re.search(r"\bctk [a-z]+", page.text), path


@given(st.lists(st.floats(1, 1e8), min_size=1, max_size=40).map(lambda sizes: sorted(sizes, reverse=True)))
def test_rectangles_are_in_proportion_fill_the_picture_and_do_not_overlap(sizes: list[float]) -> None:
    found, slack = squarify(sizes), 1e-4
    whole = PICTURE.width * PICTURE.height
    assert [r.width * r.height for r in found] == pytest.approx([s * whole / sum(sizes) for s in sizes], rel=1e-6)
    for number, one in enumerate(found):
        assert one.x >= -slack and one.y >= -slack
        assert one.x + one.width <= PICTURE.width + slack and one.y + one.height <= PICTURE.height + slack
        for other in found[number + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            tall = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert wide <= slack or tall <= slack
    for one in squarify([1.0] * 6):
        assert max(one.width / one.height, one.height / one.width) <= 1.5, "nearly squares"


def test_folders_are_few_and_account_for_every_file() -> None:
    found = folders([PathEntry(f"a/b{n % 30}/c{n % 90}/f{n}", "hardlink", size=2) for n in range(300)])
    assert len(found) <= 12 and sum(row[1] for row in found) == 300 and sum(row[2] for row in found) == 600
    wide = folders([PathEntry(f"top{n}/f", "hardlink", size=1) for n in range(50)])
    assert len(wide) == 12 and wide[-1] == ("other folders", 39, 39)
    assert folders([PathEntry("file", "hardlink", size=3)]) == [(".", 1, 3)]


def audited(site: Site) -> str:
    """The page of the audit after `ctk audit`."""
    audit_packages(
        [entry.path for entry in site.entries],
        forbidden_paths=machine_paths(site.workspace),
        cache=site.workspace.cache / "audit",
    )
    return text(report.audit(site), "audit.html")


def test_the_audit_is_shown_once_it_has_read_these_packages(tmp_path: Path) -> None:
    site = small_site(tmp_path)
    before = text(report.audit(site), "audit.html")
    assert "7 of 7 package files have not been audited" in before
    for check in CHECKS:
        assert " ".join(check.help.replace("``", "").split()) in before
    after = audited(site)
    assert "have not been audited" not in after and "Nothing was found that would block publishing" in after
    assert "package files opened 7" in after and "Findings" not in after


def test_what_the_audit_found_is_shown_with_how_to_mend_it(tmp_path: Path) -> None:
    lying = replace(drafts()[-1], listed={"share/gone": {"sha256": "0" * 64, "size_in_bytes": 1}})
    page = audited(small_site(tmp_path, [*drafts()[:-1], lying]))
    assert "Something was found that blocks publishing" in page
    assert "ArchiveMatchesPaths error empty-1.0-h0_0.condashare/gone" in page
    (check,) = (check for check in CHECKS if check.name == "ArchiveMatchesPaths")
    assert check.fix in page


def test_sizes_are_said_in_three_digits() -> None:
    said = {0: "0 B", 999: "999 B", 999.6: "1 kB", 16_824: "16.8 kB", 999_999: "1 MB", 2e12: "2 TB"}
    assert {size: bytes_text(size) for size in said} == said


def test_many_platforms_are_each_drawn(tmp_path: Path) -> None:
    more = [replace(draft, subdir="win-64") for draft in drafts() if draft.subdir == "linux-64"]
    site = small_site(tmp_path, [*drafts(), *more])
    assert site.platforms == ("linux-64", "win-64")
    page = Read(next(iter(report.picks(site))).content)
    assert page.wrong == [] and {"linux-64", "win-64"} <= set(page.ids)
    assert "39 files in" in text(packages.pages(site), "packages/cuda-core.html")
