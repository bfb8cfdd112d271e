"""The pages of packages: all of them as a picture and a list, and one page for each name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ctk.site.content import Entry, Site
from ctk.site.inside import Inside, LicenceText, read_inside
from ctk.site.package_page import package_page, sbom_path
from ctk.site.page import Page, bytes_text, render
from ctk.site.treemap import Rectangle, squarify

WIDTH, HEIGHT = 1100, 520  # of the picture
SMALLEST = 0.003  # share of the picture; what is smaller is shown together
_LETTER, _LINE = 8.6, 17  # width and height of text in the picture, of its own units


@dataclass(frozen=True)
class Row:
    """A package in the list.

    Attributes:
        newest: Its newest build, native before compat.
        platforms: What there are builds for.
        summary: In the package's own words.
    """

    name: str
    newest: Entry
    platforms: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class Block:
    """A rectangle of the picture.

    Attributes:
        link: Where it leads, from the site's folder.
        label, more: Two lines of text in it; "" where there is no room.
        words: What it says to a screen reader, and beside the mouse.
    """

    place: Rectangle
    link: str
    label: str
    more: str
    words: str


def pages(site: Site) -> Iterator[Page]:
    """The list, a page for each name, and beside them SBOMs and licence texts."""
    insides = {entry.path: read_inside(entry) for entry in site.entries}
    rows = tuple(_row(name, entries, insides[entries[0].path]) for name, entries in site.packages.items())
    yield render(
        site,
        "packages.html",
        "packages.html",
        title="Packages",
        description="Every package of the channel: versions, sizes, files, dependencies, licences and SBOMs.",
        rows=rows,
        blocks=blocks(rows),
        total=sum(entry.size for entry in site.entries),
        width=WIDTH,
        height=HEIGHT,
        missing=[inside.problem for inside in insides.values() if inside.problem],
    )
    users = _users(site)
    for name, entries in site.packages.items():
        yield package_page(site, name, {entry: insides[entry.path] for entry in entries}, users.get(name, ()))
    yield from _beside(site, insides)


def _beside(site: Site, insides: Mapping[Path, Inside]) -> Iterator[Page]:
    texts: dict[str, LicenceText] = {}
    for entry in site.entries:
        inside = insides[entry.path]
        texts |= {text.path: text for text in inside.licences}
        if inside.sbom:
            yield Page(sbom_path(entry), inside.sbom)
    for path, text in sorted(texts.items()):
        yield Page(path, text.content)


def _row(name: str, entries: tuple[Entry, ...], inside: Inside) -> Row:
    platforms = tuple(dict.fromkeys(sorted(entry.index.subdir for entry in entries)))
    return Row(name, entries[0], platforms, inside.summary)


def _users(site: Site) -> dict[str, tuple[str, ...]]:
    """Package -> names of those that depend on it, in any build."""
    found: dict[str, set[str]] = {}
    for entry in site.entries:
        for spec in entry.index.depends:
            found.setdefault(spec.partition(" ")[0], set()).add(entry.name)
    return {name: tuple(sorted(users - {name})) for name, users in found.items()}


def blocks(rows: tuple[Row, ...]) -> tuple[Block, ...]:
    """The picture: an area for the newest build of each package."""
    sized = sorted((row for row in rows if row.newest.size > 0), key=lambda row: (-row.newest.size, row.name))
    total = sum(row.newest.size for row in sized)
    large = [row for row in sized if row.newest.size >= SMALLEST * total]
    small = sized[len(large) :]
    shown = [(row.newest.size, f"packages/{row.name}.html", row.name) for row in large]
    if small:
        text = f"{len(small)} smaller ones"
        shown.append((sum(row.newest.size for row in small), "packages.html#list", text))
    shown.sort(key=lambda item: -item[0])
    places = squarify([size for size, _, _ in shown], Rectangle(0, 0, WIDTH, HEIGHT))
    return tuple(_block(place, *item) for place, item in zip(places, shown, strict=True))


def _block(place: Rectangle, size: int, link: str, label: str) -> Block:
    words = f"{label}, {bytes_text(size)}"
    if place.width < len(label) * _LETTER + 10 or place.height < _LINE + 4:
        return Block(place, link, "", "", words)
    return Block(place, link, label, bytes_text(size) if place.height >= 2 * _LINE + 6 else "", words)
