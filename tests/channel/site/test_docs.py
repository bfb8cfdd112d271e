"""The docs of a site: which pages it has, for this channel, from a folder."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from conftest import ROOT
from ctk.plan.names import Names
from ctk.site import docs
from ctk.site.docs import NAMES
from ctk.site.pages import assets
from kit.reading import Read

URL = "https://conda.example.org/cuda"
DEFAULT = docs.default_minors(
    [(ROOT / "docs" / f"{name}.md").read_text() for name in NAMES],
)


def no_solver(specs: Sequence[str], driver: str) -> str:
    raise AssertionError(f"nobody needs what {specs} give")


USUAL = docs.Subject(URL, "conda-forge", DEFAULT, no_solver)
FOR_DEVELOPERS = {"architecture"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the docs of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    for page in (*docs.pages(ROOT / "docs", "CUDA here", USUAL), *assets(Names())):
        target = folder / page.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(page.content)
    return folder / "docs"


def test_every_page_has_its_place_in_the_side_bar_or_is_for_developers() -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert len(NAMES) == len(set(NAMES))
    assert pages == {*NAMES, *FOR_DEVELOPERS}
    assert not pages & docs.MOVED.keys()


def test_sphinx_understands_every_page(tmp_path: Path) -> None:
    texts = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in NAMES}
    assert (
        docs.build(
            {name: docs.readable(text, USUAL, DEFAULT) for name, text in texts.items()},
            tmp_path,
            "CUDA here",
            ROOT / "docs" / "images",
        )
        == ""
    )


@pytest.mark.parametrize(("old", "new"), docs.MOVED.items())
def test_the_old_address_of_a_page_leads_to_the_new_page(site: Path, old: str, new: str) -> None:
    page = Read((site / f"{old}.html").read_bytes())
    name, heading = new.split("#")
    assert page.wrong == []
    assert page.links[-1] == f"{name}.html#{heading}"
    assert heading in Read((site / f"{name}.html").read_bytes()).ids
    refresh = f'<meta http-equiv="refresh" content="0; url={name}.html#{heading}">'
    assert refresh in (site / f"{old}.html").read_text(), "for readers without JavaScript"


@pytest.mark.parametrize(
    ("typed", "arrives"), [("", "reference"), ("#the-variables-of-nvcc", "the-variables-of-nvcc")]
)
def test_a_browser_at_an_old_address_goes_to_the_heading(
    site: Path, tmp_path: Path, typed: str, arrives: str
) -> None:
    """Which the new page has too: that of the old address, if it names one."""
    assert f'id="{arrives}"' in (site / "recipe-authors.html").read_text()
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium on PATH runs the page's script; its link is tested without")
    shown = tmp_path / "docs" / "recipe-authors.html"
    shutil.copytree(site.parent, tmp_path, dirs_exist_ok=True)
    shown.write_text("<body><script>document.body.append(location.hash)</script>")
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"]
    address = (tmp_path / "docs" / "recipe-reference.html").as_uri() + typed
    done = subprocess.run(
        [*words, "--dump-dom", address], capture_output=True, text=True, check=True
    )
    assert f"</script>#{arrives}</body>" in done.stdout


def test_a_checkout_without_the_new_page_has_no_page_that_leads_to_it() -> None:
    texts = {"users": "# For users\n"}
    assert [page.path for page in docs.moved_pages(texts, "CUDA here")] == []


def test_commands_of_the_docs_can_be_copied(site: Path) -> None:
    text = (site / "users.html").read_text()
    assert '<script src="../assets/copy.js"></script>' in text
    assert text.count('class="highlight copy"') == text.count("<pre")


def test_a_line_is_not_wrapped_inside_an_option(site: Path) -> None:
    text, style = (
        (site / "users.html").read_text(),
        (site.parent / "assets" / "docs.css").read_text(),
    )
    assert (
        '<span class="option">--override-channels</span>' in text
        and '<span class="option">-c</span>' in text
    )
    assert ".copy .option { white-space: nowrap; }" in style


def test_the_docs_have_the_header_of_the_site(site: Path) -> None:
    for page in site.glob("*.html"):
        (header,) = re.findall(
            r'<(?:div|header) class="site-header">(.*?)</nav>', page.read_text(), re.DOTALL
        )
        assert (
            '<a class="brand" href="../index.html">' in header
            and '<a href="../packages.html">' in header
        )
        assert '<a href="../docs/index.html" aria-current="true">Docs</a>' in header


def test_a_page_has_a_side_bar_a_search_and_the_next_page(site: Path) -> None:
    for name, following in pairwise(NAMES):
        text = (site / f"{name}.html").read_text()
        assert re.search(rf'class="next-page" href="{following}\.html"', text)
        assert 'action="search.html"' in text and 'class="sidebar-tree"' in text


def test_the_table_of_drivers_and_gpus_has_the_colours_of_the_site(site: Path) -> None:
    html = (site / "how-the-right-build-is-picked.html").read_text()
    text = (ROOT / "docs" / "how-the-right-build-is-picked.md").read_text()
    _, rows = text.split("| driver supports CUDA |")
    picks = [
        cell.strip()
        for row in rows.partition("\n\n")[0].splitlines()[2:]
        for cell in row.split("|")[2:-1]
        if cell.strip()
    ]
    found = re.findall(r'<td class="(native|compat|refused)"><p>([^<]+)</p>', html)
    assert [cell for _, cell in found] == picks
    seen = {cell.partition(" ")[2]: name for name, cell in found}
    assert seen == {"": "native", "compat": "compat", "PTX only": "compat", "no code": "refused"}
    style = (site.parent / "assets" / "docs.css").read_text()
    assert "td.native { background: var(--color-native); }" in style
    assert re.search(r"--color-native: #[0-9a-f]{6}", html), "furo has no such colour"


def test_a_picture_comes_with_its_page(site: Path) -> None:
    html = (site / "how-the-right-build-is-picked.html").read_text()
    alts = dict(re.findall(r'<img alt="([^"]+)" src="([^"]+)"', html))
    assert alts
    for picture in alts.values():
        assert (site / picture).is_file()


def test_the_commands_name_this_channel(site: Path) -> None:
    text = unescape(re.sub(r"<[^>]+>", "", (site / "users.html").read_text()))
    assert f"conda create -n gpu -c {URL} -c conda-forge cuda-gpu cuda-core" in text
    assert f'channels = ["{URL}", "conda-forge"]' in text
    assert "$CHANNEL" not in text and "vars.CHANNEL" not in text, "nobody has such a variable"
    environments = re.sub(r"<[^>]+>", "", (site / "environments.html").read_text())
    assert f"channels:\n  - {URL}\n" in environments and "CHANNEL" not in environments


def test_the_pages_work_from_a_folder_and_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        text = page.read_text()
        assert "<!-- tests/" not in text, page.name
        for tag, link in re.findall(r'<(\w+)\b[^>]*?(?:href|src)="([^"]+)"', text):
            target = urlsplit(link)
            if target.scheme:
                assert tag == "a", f"{page.name} loads {link}"
            elif target.path:
                there = (page.parent / unquote(target.path)).resolve()
                of_the_site = {site.parent / "index.html", site.parent / "packages.html"}
                assert there.exists() or there in of_the_site, f"{page.name}: {link}"
    styles = "".join(file.read_text() for file in site.rglob("*.css"))
    assert not re.findall(r"@import|url\([\"']?(?:https?:)?//", styles)


def test_the_search_finds_a_page_from_the_folder(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(") and '"environments"' in index and '"air"' in index
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip(
            "there is no chromium on PATH to run the search's script; the index that it reads is as"
            " it must be"
        )
    words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=8000",
        "--dump-dom",
    ]
    address = f"{(site / 'search.html').as_uri()}?q=air-gapped"
    done = subprocess.run([*words, address], capture_output=True, text=True, check=True)
    line = r'<p class="excerpt">[^<]*<mark>air-gapped</mark>[^<]+</p>'
    assert re.search(
        rf'<a href="environments\.html[^"]*"[^>]*>Files and machines[^<]*</a>{line}', done.stdout
    )


def test_what_is_not_on_the_site_is_no_link() -> None:
    kept = "[pixi](users.md#pixi), [NVIDIA](https://example.org), ([here](#a), [there](users.md))\n"
    text = (
        f"It runs ([proof](evidence/gpu-proof.md#kernels)) as [the\nexample](../examples/a), {kept}"
    )
    expected = f"It runs as the\nexample, {kept}"
    assert (
        docs.readable(text + "\n<!-- tests/a.py::test_a,\ntests/b.py -->\n", USUAL)
        == expected + "\n"
    )


MIRROR = "https://conda.example.org/mirror/forge"
PAGE = """Comments name the toolkit that <!-- channel -->the default channel gives, which has
12.0 and 13.0.<!-- end -->

```bash
# driver for 13.0: toolkit 13.0
conda create -n gpu -c CHANNEL -c conda-forge cuda-gpu "cuda-version * native_*" cuda-core
# driver for 12.4: toolkit 12.0, and more
mamba install -n gpu -c CHANNEL -c conda-forge cuda-gpu
# toolkit 13.0 native
ctk env add ./my-env cuda-core   # toolkit 13.0
```

```yaml
channels:
  - CHANNEL
  - conda-forge
```

conda-forge's `conda-forge` stays.
"""


def test_the_docs_of_another_channel_say_what_that_channel_gives() -> None:
    asked = []

    def toolkit(specs: Sequence[str], driver: str) -> str:
        asked.append((*specs, driver))
        return "toolkit 12.9 compat" if driver == "13.0" else ""

    subject = docs.Subject(URL, MIRROR, ("12.6", "12.9"), toolkit)
    shown = docs.readable(PAGE, subject, docs.default_minors([PAGE]))
    assert shown.splitlines() == [
        "Comments name the toolkit that this channel gives, which has 12.6 and 12.9.",
        "",
        "```bash",
        "# driver for 13.0: toolkit 12.9 compat",
        f'conda create -n gpu -c {URL} -c {MIRROR} cuda-gpu "cuda-version * native_*" cuda-core',
        "# driver for 12.4: no toolkit of this channel",
        f"mamba install -n gpu -c {URL} -c {MIRROR} cuda-gpu",
        "ctk env add ./my-env cuda-core",
        "```",
        "",
        "```yaml",
        "channels:",
        f"  - {URL}",
        f"  - {MIRROR}",
        "```",
        "",
        "conda-forge's `conda-forge` stays.",
    ]
    assert asked == [
        ("cuda-gpu", "cuda-version * native_*", "cuda-core", "13.0"),
        ("cuda-gpu", "12.4"),
    ]


def test_a_command_for_a_platform_that_the_channel_lacks_says_so() -> None:
    line = "CONDA_OVERRIDE_CUDA=13.0 CONDA_SUBDIR=linux-aarch64 conda create -n arm -c CHANNEL x"
    text = f"# driver or none\nx\n# toolkit 13.0 native\n{line}\n"
    for platforms, said in (
        (
            ("linux-64",),
            "this channel is for linux-64 only; its keeper can build for linux-aarch64",
        ),
        (("linux-64", "linux-aarch64"), "toolkit 13.0 native"),
    ):
        subject = docs.Subject(URL, MIRROR, (), lambda specs, driver: "", platforms)
        above = docs.readable(text, subject).splitlines()[:-1]
        assert above == ["# driver or none", "x", f"# {said}"]


def test_no_page_for_another_channel_speaks_of_the_default_one() -> None:
    subject = docs.Subject(URL, MIRROR, ("12.9",), lambda specs, driver: "toolkit 12.9")
    for name in NAMES:
        text = (ROOT / "docs" / f"{name}.md").read_text()
        shown = docs.readable(text, subject, DEFAULT)
        assert "-c conda-forge" not in shown, name
        assert "the default channel gives" not in shown, name
        stated = re.findall(r"# driver for \d+\.\d+: toolkit ([\d.]+)", shown)
        assert set(stated) <= {"12.9"}, name
