"""The pages of packages: all of them as a picture and a list, one page for each name, SBOMs and licence texts."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from packaging.version import Version

from ctk.build import sbom
from ctk.build.runner import machine_paths
from ctk.core.errors import AuditFailed
from ctk.core.files import file_sha256
from ctk.lock.support import load_support
from ctk.package.package import PathEntry, read_info
from ctk.package.scan import Scanner
from ctk.site.answers import is_half
from ctk.site.content import IndexedPackage, Site
from ctk.site.pages import Page, bytes_text, render

SMALLEST = 0.003  # share of the picture; what is smaller is shown together
VEX = "sboms/vex.cdx.json"
FOLDERS = 12  # at most, in the summary of a package's files
_LETTER, _LINE = 8.6, 17  # width and height of text in the picture, of its own units
_LETTERS = 12  # of a name that is cut, at least
_FIT = re.compile(r"^cuda-version .*\b(native|compat)_\*$")
_CUDA = re.compile(r"^cuda-version >=((\d+)(?:\.\d+)?)\b(?:,<(\d+))?")
_ABI = re.compile(r"^python_abi (\d+\.\d+)\S* \*_cp\d+(t?)$")
_DEVELOPED = re.compile(r".*-(?:dev|static)(?:_.*)?")


class LicenceText(NamedTuple):
    """A text under ``info/licenses``, by its path there."""

    name: str
    content: bytes

    @property
    def path(self) -> str:
        """Of the copy in the site: one for each content."""
        return f"licences/{hashlib.sha256(self.content).hexdigest()[:16]}.txt"


@dataclass(frozen=True)
class PackageBuild:
    """One file of a package: its record in the index, and its own metadata or the sentence why it cannot be read."""

    entry: IndexedPackage
    problem: str = ""
    summary: str = ""
    home: str = ""  # address of the project
    files: tuple[PathEntry, ...] = ()
    run_exports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    licences: tuple[LicenceText, ...] = ()
    sbom: bytes = field(default=b"", repr=False)

    @property
    def installed(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def sbom_path(self) -> str:
        """Of the copy in the site; "" without an SBOM."""
        name = self.entry.file.removesuffix(".conda")
        return f"sboms/{self.entry.index.subdir}/{name}.cdx.json" if self.sbom else ""

    @property
    def fit(self) -> str:
        """``native`` or ``compat``; "" for what exists in one build only."""
        if self.entry.name == "cuda-version":
            return self.entry.index.build.partition("_")[0]
        return next((match[1] for spec in self.entry.index.depends if (match := _FIT.match(spec))), "")

    @property
    def cuda(self) -> str:
        """The CUDA major, or the minor where it is for one alone; "" for what has none, or is for several majors."""
        if self.entry.name == "cuda-version":
            return self.entry.index.version
        match = next(filter(None, map(_CUDA.match, self.entry.index.depends)), None)
        return match[1] if match and int(match[3] or 0) <= int(match[2]) + 1 else ""

    @property
    def python(self) -> str:
        """``3.13`` or ``3.14t``; "" for what is for none or for all."""
        return next((match[1] + match[2] for spec in self.entry.index.depends if (match := _ABI.match(spec))), "")


class Rectangle(NamedTuple):
    """A rectangle, its corner nearest to the origin first."""

    x: float
    y: float
    width: float
    height: float


PICTURE = Rectangle(0, 0, 1100, 520)


def pages(site: Site) -> Iterator[Page]:
    """The list, a page for each name, and beside them SBOMs, what bulletins mean for them, and licence texts."""
    builds = {name: [read_metadata(entry, site) for entry in own] for name, own in site.packages.items()}
    every = [build for own in builds.values() for build in own]
    sboms = [Page(build.sbom_path, build.sbom) for build in every if build.sbom]
    said, texts = load_support(site.workspace), [page.content for page in sboms]
    vex = [Page(VEX, sbom.vex(texts, said, site.releases))] if sboms and said.sources else []
    yield from (*sboms, *vex)
    yield render(
        site,
        "packages.html",
        title="Packages",
        description="Every package of the channel: versions, sizes, files, dependencies, licences and SBOMs.",
        rows=[
            (name, own[0].entry, sorted({build.entry.index.subdir for build in own}), own[0].summary)
            for name, own in builds.items()
        ],
        blocks=blocks(site.packages),
        kinds=KINDS,
        total=sum(entry.size for entry in site.entries),
        width=PICTURE.width,
        height=PICTURE.height,
        missing=[build.problem for build in every if build.problem],
        vex=VEX if vex else "",
    )
    users: dict[str, set[str]] = {}
    for entry in site.entries:
        for spec in entry.index.depends:
            users.setdefault(spec.partition(" ")[0], set()).add(entry.name)
    for name, own in builds.items():
        yield _package_page(site, name, own, sorted(users.get(name, set()) - {name}))
    licences = {text.path: text.content for build in every for text in build.licences}
    yield from (Page(path, text) for path, text in sorted(licences.items()))


def _package_page(site: Site, name: str, builds: Sequence[PackageBuild], users: Sequence[str]) -> Page:
    """The page of a package, of its builds, newest first, and the packages that depend on it."""
    newest = builds[0]
    shown: dict[str, PackageBuild] = {}
    for build in builds:
        if not build.problem:
            shown.setdefault(build.entry.index.subdir, build)
    return render(
        site,
        f"packages/{name}.html",
        "package.html",
        title=name,
        description=newest.summary or f"Builds, files and dependencies of {name}.",
        builds=builds,
        folded=fold(builds),
        by_name=not is_half(name),
        newest=newest,
        platforms=sorted({build.entry.index.subdir for build in builds}),
        users=users,
        licences=list({text.path: text for text in newest.licences}.values()),
        holdings=[(build, folders(build.files)) for build in shown.values()],
        problems=[build.problem for build in builds if build.problem and not site.planned],
    )


def fold(builds: Sequence[PackageBuild]) -> list[tuple[str, list[PackageBuild]]]:
    """Builds by CUDA and Python, the newest first, as ``CUDA 13, Python 3.14t`` and the builds in their order."""
    groups: dict[tuple[str, str], list[PackageBuild]] = {}
    for build in builds:
        groups.setdefault((build.cuda, build.python), []).append(build)
    ordered = sorted(groups, key=lambda key: [(Version(part.rstrip("t") or "0"), part) for part in key], reverse=True)
    return [
        (", ".join(filter(None, (cuda and f"CUDA {cuda}", python and f"Python {python}"))), groups[cuda, python])
        for cuda, python in ordered
    ]


def folders(files: Sequence[PathEntry]) -> list[tuple[str, int, int]]:
    """Folders with the number and bytes of the files below them, as deep as a short list allows, the fullest first."""
    numbers: Counter[str] = Counter()
    for depth in range(8, 0, -1):
        places = ["/".join(posixpath.dirname(file.path).split("/")[:depth]) or "." for file in files]
        numbers, sizes = Counter(places), Counter[str]()
        for place, file in zip(places, files, strict=True):
            sizes[place] += file.size
        if len(numbers) <= FOLDERS:
            break
    rows = sorted(((place, numbers[place], sizes[place]) for place in numbers), key=lambda row: (-row[1], row[0]))
    if len(rows) > FOLDERS:
        _, others, bytes_ = zip(*rows[FOLDERS - 1 :], strict=True)
        rows[FOLDERS - 1 :] = [("other folders", sum(others), sum(bytes_))]
    return rows


def read_metadata(entry: IndexedPackage, site: Site) -> PackageBuild:
    """The metadata inside a package, as the audit kept it; what cannot be read is a sentence in it."""
    if not entry.path.is_file():
        return PackageBuild(entry, f"{entry.file} is listed in the index and is not in the channel's folder.")
    try:
        scanner = Scanner(machine_paths(site.workspace), site.workspace.cache / "audit")
        kept = scanner.load(file_sha256(entry.path))
        info = kept.info if kept else read_info(entry.path)
        home = _text(info.about.get("home")) or _text(info.about.get("dev_url"))
        return PackageBuild(
            entry,
            summary=_text(info.about.get("summary")),
            home=home if home.startswith(("https://", "http://")) else "",  # a package may write anything
            files=info.paths,
            run_exports=info.run_exports,
            licences=tuple(LicenceText(name, text) for name, text in sorted(info.licenses.items())),
            sbom=next(iter(info.sboms.values()), b""),
        )
    except AuditFailed as error:
        return PackageBuild(entry, f"{error.cause}.")
    except (AttributeError, OSError):
        return PackageBuild(entry, f"{entry.file} has metadata that cannot be read.")


def _text(value: object) -> str:
    """A line of a package's own words; some have several texts, or none."""
    first = value[0] if isinstance(value, list) and value else value
    return " ".join(first.split()) if isinstance(first, str) else ""


KINDS = {
    "b4": "libraries and programs",
    "a4": "Python packages",
    "b2": "headers and static libraries",
    "nothing": "others",
}
"""Class of the picture -> the packages that have its colour."""


def kind(entry: IndexedPackage) -> str:
    """The class of a package in the picture."""
    if any(spec.split()[0] == "python" for spec in entry.index.depends):
        return "a4"
    return "b2" if _DEVELOPED.fullmatch(entry.name) else "b4"


def blocks(entries: Mapping[str, Sequence[IndexedPackage]]) -> list[dict[str, Any]]:
    """The picture: an area for each package by the bytes of its newest build, with texts where there is room."""
    sizes = {name: own[0].size for name, own in entries.items() if own[0].size > 0}
    total = sum(sizes.values())
    large = {name: size for name, size in sizes.items() if size >= SMALLEST * total}
    small = [size for name, size in sizes.items() if name not in large]
    shown = [(size, f"packages/{name}.html", name, kind(entries[name][0])) for name, size in sorted(large.items())]
    if small:
        shown.append((sum(small), "packages.html#list", f"{len(small)} smaller ones", "nothing"))
    shown.sort(key=lambda item: -item[0])
    drawn = []
    for place, (size, link, name, colour) in zip(squarify([size for size, *_ in shown]), shown, strict=True):
        room = int((place.width - 10) / _LETTER) if place.height >= _LINE + 4 else 0  # letters
        label = name if len(name) <= room else f"{name[: room - 1]}…" if room >= _LETTERS else ""
        more = bytes_text(size) if label and place.height >= 2 * _LINE + 6 else ""
        words = f"{name}, {bytes_text(size)}"
        drawn.append({"place": place, "link": link, "label": label, "more": more, "words": words, "class": colour})
    return drawn


def squarify(sizes: Sequence[float], whole: Rectangle = PICTURE) -> list[Rectangle]:
    """Rectangles of areas in proportion to sizes, the largest first, that fill the whole, each nearly a square.

    The squarified layout of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000).
    """
    rectangles: list[Rectangle] = []
    (x, y, width, height), sizes = whole, list(sizes)
    while sizes:
        # Each time anew, of what is really left: rounding never adds up to a step outside.
        areas = [size * (width * height) / sum(sizes) for size in sizes]
        side = min(width, height)
        taken = 1
        while taken < len(areas) and _worst(areas[: taken + 1], side) <= _worst(areas[:taken], side):
            taken += 1
        # A strip along the shorter side.
        depth, place, wide = sum(areas[:taken]) / side, 0.0, width >= height
        for area in areas[:taken]:
            length = area / depth
            upright = Rectangle(x, y + place, depth, length)
            rectangles.append(upright if wide else Rectangle(x + place, y, length, depth))
            place += length
        if wide:
            x, width = x + depth, width - depth
        else:
            y, height = y + depth, height - depth
        sizes = sizes[taken:]
    return rectangles


def _worst(areas: Sequence[float], side: float) -> float:
    """The longer by the shorter side of the rectangle in a strip that is least a square."""
    depth = sum(areas) / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in areas)
