"""The page about the channel and those of packages: HTML and links of all, and the text of each."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from ctk.build.originals import Changed, PackageFiles
from ctk.core.errors import ChannelBroken, CtkError
from ctk.site import Page, Site, read, report, report_pages
from ctk.site.report import _needed_driver
from ctk.solve import channels
from ctk.verify.table import ask, merged
from kit.packages import Draft
from kit.reading import Read, target
from kit.small_channels import sound
from kit.small_sites import HOSTILE, drafts, small_site

pytest_plugins = ["kit.site_fixtures"]

TOP = ["404.html", "about.html", "packages.html"]
FRONT = "index.html"  # another part of the site


def contents(site: Site) -> dict[str, bytes]:
    return {page.path: page.content for page in report_pages(site)}


def html(files: Mapping[str, bytes]) -> dict[str, Read]:
    return {path: Read(content) for path, content in files.items() if path.endswith(".html")}


def text(pages: object, name: str) -> str:
    """The text of a page."""
    found: dict[str, Page] = {page.path: page for page in pages}  # type: ignore[attr-defined]
    return Read(found[name].content).text


@pytest.mark.parametrize(
    ("cudas", "driver"),
    [(("13.4", "13.0"), "13.0"), (("12.9", "13.4"), ""), (("13", ""), ""), (("14.0",), "14.0")],
)
def test_a_package_of_newer_cuda_alone_names_the_driver(
    cudas: tuple[str, ...], driver: str
) -> None:
    builds: list[Any] = [SimpleNamespace(cuda=cuda) for cuda in cudas]
    assert _needed_driver(builds) == driver


def test_every_page_is_sound_html_and_links_inside_the_site(files: Mapping[str, bytes]) -> None:
    pages = html(files)
    assert sorted(path for path in pages if "/" not in path) == TOP
    assert {path for path in pages if "/" in path} == {
        *(f"packages/{name}.html" for name in ("404", "cuda-core", "cuda-version", "empty")),
    }
    for path, page in pages.items():
        assert page.wrong == [], path
        assert (page.tags["h1"], page.tags["main"], page.tags["title"] >= 1, page.lang) == (
            1,
            1,
            True,
            "en",
        ), path
        for link in page.links:
            file, fragment = target(path, link)
            if not link.startswith("https://"):
                assert file == FRONT or file in files, f"{path} links to {link}"
                assert not fragment or file not in pages or fragment in pages[file].ids, (
                    f"{path} links to {link}"
                )
        for loaded in page.loaded:
            assert loaded == "data:," or target(path, loaded)[0] in files, f"{path} loads {loaded}"
    for path, content in files.items():
        if path.endswith((".css", ".js")):
            found = re.findall(rb"//\w|@import|url\(|fetch\(|XMLHttpRequest", content)
            assert found == [], f"{path} names a host, or loads something"


def test_a_channel_without_packages_gets_whole_pages_that_say_so(tmp_path: Path) -> None:
    pages = html(contents(small_site(tmp_path, [])))
    for path, page in pages.items():
        assert page.wrong == [], path
        assert "The channel has no packages yet." in page.text, path
    assert "nothing to pick from yet" in pages["about.html"].text


def test_a_damaged_channel_is_an_error_with_a_step(tmp_path: Path) -> None:
    site = small_site(tmp_path)
    (site.channel / "linux-64" / "empty-1.0-h0_0.conda").write_bytes(b"not a package")
    with pytest.raises(CtkError, match="empty"):
        contents(site)
    (site.channel / "linux-64" / "repodata.json").write_text("{")
    with pytest.raises(ChannelBroken, match="linux-64") as error:
        read(site.workspace, site.channel)
    assert error.value.step


def test_the_heat_map_has_the_picks_of_the_solver_in_words_and_colours(
    files: Mapping[str, bytes], small: Site
) -> None:
    with TemporaryDirectory() as folder:
        solved = channels.write(channels.built(small.channel), Path(folder))
        heads, rows = merged(ask(solved.folders, small.releases))
    page = files["about.html"].decode().split('<h2 id="releases">')[0]
    page = re.sub(r'<span class="stays">(.*?)</span>', r"\1", page)
    assert re.findall(r'<th scope="col">(.*?)</th>', page) == [*heads]
    colours = {"13.4": "native", "13.4 compat": "compat", "none": "refused", "": "refused"}
    seen = {text: colour for colour, text in re.findall(r'<td[^>]* class="(\w+)">(.*?)</td>', page)}
    assert seen.items() >= {"13.4": "native", "13.4 compat": "compat"}.items()
    assert all(colours.get(text, "native") == colour for text, colour in seen.items())
    shown = [
        re.findall(r">([^<]*)</t[hd]>", row)
        for row in re.findall(r'<tr>(<th scope="row">.*?)</tr>', page, re.S)
    ]
    said = [[cell if cell != "-" else "none" for cell in row] for row in rows]
    assert shown == [row[:2] if len(set(row[1:])) == 1 else row for row in said], (
        "what is the same for all is one cell"
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "about.html",
            [
                "13.4.1 7.5 to 9.0 9.4 yes",
                "13.3.1 7.5 to 9.0 9.3 yes",
                "parts included 3",
                "builds 7",
            ],
        ),
        (
            "packages/cuda-core.html",
            [
                (
                    "conda create --name gpu \\ --channel https://example.org/cuda \\ --channel"
                    " conda-forge \\ --override-channels \\ __cuda"
                    " cuda-core && conda activate gpu"
                ),
                "mamba create --name gpu \\",
                "cuda-core && mamba activate gpu",
                "pixi init gpu --channel https://example.org/cuda --channel conda-forge cd gpu",
                "pixi add cuda-core pixi shell",
                "newest version 1.10.0 date 2023-11-14",
                "LicenseRef-Test: LICENSE",
                "1.10.0 13 3.13 linux-64 2023-11-14 1.2.2 13 3.13 linux-64 2023-11-14",
                "2 builds: sizes, SBOMs",
            ],
        ),
        (
            "packages/cuda-core.html",
            ["cuda-version >=13,<14", "What needs it empty", "weak cuda-core >=1"],
        ),
        ("packages/cuda-core.html", ["39 files in cuda-core-1.10.0-py313h0_0.conda"]),
        ("packages/cuda-core.html", ["lib/python3.13/site-packages/cuda/core/7.py"]),
        ("packages.html", [HOSTILE]),
        (
            "packages/404.html",
            ["There is no such page", "Install Packages 3 packages, parts included"],
        ),
        ("packages/empty.html", ["installs no file"]),
        ("packages/cuda-version.html", ["native_100 native", "compat_0 compat"]),
    ],
)
def test_a_page_says_what_its_reader_came_for(
    files: Mapping[str, bytes], path: str, words: list[str]
) -> None:
    page = Read(files[path]).text
    assert [text for text in words if text in page] == words
    assert sorted(words, key=page.index) == words or path != "packages/cuda-version.html", (
        "native comes first"
    )


def test_the_command_of_a_package_without_cuda_does_not_ask_for_it(small: Site) -> None:
    solved = report.Solved(without_cuda={"empty"})
    page = text(report.packages(small, solved), "packages/empty.html")
    assert "--override-channels \\ empty && conda activate gpu" in page
    assert "__cuda" not in page.partition("newest version")[0]


def test_a_page_says_what_an_old_gpu_and_an_old_driver_need(small: Site) -> None:
    """Where no script runs, nothing else says it."""
    old = report.OldGpu("7.5", "TITAN V", "12")
    solved = report.Solved(older={"cuda-core": old}, exceptions={"12.0": "12.3"})
    pages = list(report.packages(small, solved))
    needs = "For a GPU older than compute capability 7.5, such as TITAN V, add cuda-version=12: "
    assert needs in text(pages, "packages/cuda-core.html")
    assert "For a GPU older" not in text(pages, "packages/empty.html")
    assert "everything works, with one exception" in text(pages, "packages/cuda-version.html")
    (about,) = report.about(small, solved)
    said = text([about], "about.html")
    assert "With toolkit 12.0, PTX that nvJitLink writes needs a driver for CUDA 12.3" in said
    assert b'href="https://example.org/cuda/channel.cdx.json"' in about.content


def test_pages_say_what_is_not_measured_or_not_locked(small: Site) -> None:
    bare = replace(
        small, locks={name: replace(lock, facts=None) for name, lock in small.locks.items()}
    )
    none = replace(small, locks={})
    for site, said in (
        (bare, "13.4.1 ? ? yes"),
        (none, "No release of the CUDA Toolkit is locked here yet"),
    ):
        page = text(report.about(site, report.solve(site)), "about.html")
        assert said in page and "nothing to pick from yet" in page


def test_each_build_has_its_sbom_and_its_licence_beside_the_pages(
    files: Mapping[str, bytes],
) -> None:
    sbom = "sboms/linux-64/cuda-core-1.10.0-py313h0_0.cdx.json"
    assert json.loads(files[sbom]) == {"bomFormat": "CycloneDX"}
    assert f'href="../{sbom}"' in files["packages/cuda-core.html"].decode()
    assert [content for path, content in files.items() if path.startswith("licences/")] == [
        b"You may.\n"
    ]


def test_a_page_says_which_files_are_changed_and_what_their_licence_says(tmp_path: Path) -> None:
    changed = Changed("bin/ptxas", "RPATH $ORIGIN/../lib", "1" * 64, "not-named")
    found = PackageFiles(
        2, (changed,), ("CUDA EULA",), {"clause-2.3": 2, "not-named": 1}, ("bin/ptxas",)
    )
    draft = sound(Draft("nvcc", files={"bin/ptxas": b"a"}), files=found)
    page = Read(contents(small_site(tmp_path, [*drafts(), draft]))["packages/nvcc.html"]).text
    for words in (
        "2 files as published, by the sha256 in the wheel; 1 changed",
        "this is not legal advice): clause 2.3: for Linux, unmodified: 2, not named: 1.",
        "bin/ptxas RPATH $ORIGIN/../lib; not named",
        "Files that the text does not name of nvcc-1.0-h0_0.conda bin/ptxas",
    ):
        assert words in page


def test_nobody_is_told_to_install_what_other_packages_bring(tmp_path: Path) -> None:
    half = Draft("cuda-nvrtc-files", "13.4.92", "h0_0")
    pages = contents(small_site(tmp_path, [*drafts(), half]))
    assert "conda create" in Read(pages["packages/empty.html"]).text
    assert "conda create" not in Read(pages["packages/cuda-nvrtc-files.html"]).text


def test_cuda_core_and_numba_cuda_are_first_in_the_list(tmp_path: Path) -> None:
    names = ("cuda-arch", "numba-cuda", "aardvark")
    pages = contents(small_site(tmp_path, [*drafts(), *(Draft(name, "1.0") for name in names)]))
    listed = re.findall(
        r'<th scope="row"><a href="packages/(.*?)\.html">', pages["packages.html"].decode()
    )
    assert listed == ["cuda-core", "numba-cuda", "aardvark", "cuda-arch", "cuda-version", "empty"]


def test_a_package_is_as_large_as_it_is_with_what_it_needs_and_has_its_parts_in_its_row(
    tmp_path: Path,
) -> None:
    large = {"lib/large": random.Random(1).randbytes(500_000)}
    nvrtc = Draft(
        "cuda-nvrtc",
        "13.4.92",
        depends=("cuda-nvrtc-files ==13.4.92", "cuda-version >=13.4,<13.5.0a0"),
    )
    parts = [
        Draft("cuda-nvrtc-files", "13.4.92", files=large),
        Draft("cuda-nvrtc-dev_linux-64", "13.4.92", subdir="noarch"),
        Draft("libcufile-impl", "1.0", depends=("nowhere >=1",)),
    ]
    pages = contents(small_site(tmp_path, [*drafts(), nvrtc, *parts]))
    rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", pages["packages.html"].decode(), re.S)
    listed = [Read(row.encode()).text for row in rows]
    assert [row.split()[0] for row in listed] == [
        "cuda-core",
        "cuda-nvrtc",
        "cuda-version",
        "empty",
        "libcufile-impl",
    ]
    assert (
        "2 parts cuda-nvrtc-dev_linux-64 cuda-nvrtc-files 13.4.92 50" in listed[1]
        and "kB 2023-11-14" in listed[1]
    )
    assert (
        "download, with what it needs of this channel 50"
        in Read(pages["packages/cuda-nvrtc.html"]).text
    )


@pytest.mark.parametrize(
    ("spec", "cuda"),
    [
        ("cuda-version >=13.4,<13.5.0a0 native_*", "13.4"),
        ("cuda-version >=12.0,<12.4.0a0 native_*", "12.0 to 12.3"),
        ("cuda-version >=12,<12.7.0a0", "12.0 to 12.6"),
        ("cuda-version >=12,<13.0a0 native_*", "12"),
        ("cuda-version >=13.3,<14.0a0 native_*", "13.3 or newer"),
        ("cuda-version * native_*", ""),
        ("libcuda-version >=13.4,<13.5.0a0", ""),
    ],
)
def test_a_build_says_which_cuda_it_is_for(spec: str, cuda: str, small: Site) -> None:
    entry = small.packages["empty"][0]
    build = report.PackageBuild(
        replace(entry, index=replace(entry.index, depends=("libgcc", spec)))
    )
    assert build.cuda == cuda


def test_a_site_has_its_title_on_each_page_and_a_tab_for_docs_that_are_there(small: Site) -> None:
    for docs in (True, False):
        pages = html(contents(replace(small, title="CUDA <at> Example", docs=docs)))
        assert all("CUDA <at> Example" in page.text for page in pages.values())
        assert ("docs/index.html" in pages["about.html"].links) is docs
        assert ("../docs/index.html" in pages["packages/empty.html"].links) is docs


def test_pages_allow_no_script_and_no_style_but_those_of_the_site(
    files: Mapping[str, bytes],
) -> None:
    for path, content in files.items():
        if path.endswith(".html"):
            page = content.decode()
            assert (
                """content="default-src 'none'; script-src 'self'; style-src 'self'; img-src"""
                in page
            ), path
            assert not re.search(
                r"<style|\sstyle=|<script(?! src=| type=.application/json)", page
            ), path
