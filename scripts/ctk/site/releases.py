"""The pages of CTK releases: what each brought, from the release locks and the artefacts that were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ctk.core.platforms import PLATFORMS
from ctk.diff.compare import ReleaseDifference, breaks, compare, wanted
from ctk.diff.render import LIBRARY_COLUMNS, PlatformTables, break_text, summary, tables
from ctk.diff.scan import cached_surface
from ctk.lock.lock import ReleaseLock
from ctk.package.binaries import version_key
from ctk.release.review import facts_rows
from ctk.site.content import Site
from ctk.site.page import Page, render

_COLUMNS = {"locks": ("component", "version", "MB", "glibc"), "binaries": ("component", "files", "symbols")}
_TELLING = ("GPU architectures: +", "GPU architectures: -", "new components", "components that are gone")


@dataclass(frozen=True)
class BinariesRead:
    """What the artefacts of two releases differ in.

    Attributes:
        known, all: How many of the changed components were read, of how many.
        gone: What programs used and is not there any more, within a CUDA major, as sentences.
        tables: Files and symbols, and libraries, by platform.
    """

    known: int
    all: int
    gone: Sequence[str] = ()
    tables: Sequence[PlatformTables] = ()


@dataclass(frozen=True)
class ReleasePage:
    """A CTK release, and what it brought over the one before it.

    Attributes:
        before: None for the oldest.
        gpus, ptx: Its facts, as a table has them.
        glibc: Subdir -> newest glibc that its components need there.
        sizes: Subdir -> bytes of its artefacts.
        in_channel: Whether the site's channel has it.
        summary: What changed, as sentences.
        changes: Components that changed, by platform.
    """

    lock: ReleaseLock
    before: ReleaseLock | None
    gpus: str
    ptx: str
    glibc: dict[str, str]
    sizes: dict[str, int]
    in_channel: bool
    summary: Sequence[str] = ()
    changes: Sequence[PlatformTables] = ()
    binaries: BinariesRead | None = None

    @property
    def path(self) -> str:
        return f"releases/{self.lock.minor}.html"

    @property
    def brief(self) -> str:
        """What tells it from the others in a list: GPUs and components that came or went."""
        if self.before is None:
            return "the oldest here"
        lines = [line for line in self.summary if line.startswith(_TELLING)]
        return "; ".join(lines) or "newer versions of the same components, for the same GPUs"


def pages(site: Site) -> Iterator[Page]:
    """The list, newest first, and a page for each release."""
    before = (None, *site.releases)
    facts = facts_rows(site.releases)
    releases = [_release(site, *args) for args in zip(site.releases, before, facts, strict=False)]
    yield render(
        site,
        "releases.html",
        "releases.html",
        title="CUDA Toolkit releases",
        description="Every release that is locked here: what its binaries say of themselves, and what it brought.",
        releases=releases[::-1],
    )
    for release in releases:
        description = "The oldest release that is locked here."
        if release.before:
            description = f"What it brought over {release.before.release}, and what its binaries say of themselves."
        yield render(
            site,
            release.path,
            "release.html",
            title=f"CUDA Toolkit {release.lock.release}",
            description=description,
            release=release,
            platforms=PLATFORMS,
            columns=_COLUMNS,
            library_columns=LIBRARY_COLUMNS,
        )


def _release(site: Site, lock: ReleaseLock, before: ReleaseLock | None, facts: Sequence[str]) -> ReleasePage:
    _, gpus, ptx = facts
    measured = lock.facts.glibc if lock.facts else {}
    glibc = {subdir: max(needs.values(), key=version_key) for subdir, needs in measured.items() if any(needs.values())}
    sizes = {s: sum(a.size for a in lock.artefacts if a.target.startswith(s)) for s in PLATFORMS}
    versions = {entry.index.version for entry in site.packages.get("cuda-version", ())}
    release = ReleasePage(lock, before, gpus, ptx, glibc, sizes, lock.minor in versions)
    if before is None:
        return release
    difference = compare(before, lock, site.platforms or tuple(PLATFORMS))
    return replace(
        release,
        summary=tuple(summary(difference, ()))[:-1],  # the last line is about the binaries, which have their own
        changes=list(tables(difference, {}, _COLUMNS["locks"])),
        binaries=_binaries(site, difference, before, lock),
    )


def _binaries(site: Site, difference: ReleaseDifference, old: ReleaseLock, new: ReleaseLock) -> BinariesRead:
    """The differences of the binaries whose surfaces are in the cache: nothing is fetched for a page."""
    platforms = difference.platforms
    groups = {change.components: wanted(old, new, platforms, change.components) for change in difference.changed}
    read = {a.sha256: cached_surface(a.sha256, site.workspace) for artefacts in groups.values() for a in artefacts}
    known = [group for group, artefacts in groups.items() if all(read[a.sha256] for a in artefacts)]
    if not known:
        return BinariesRead(0, len(groups))
    surfaces = {sha256: surface for sha256, surface in read.items() if surface}
    seen = compare(old, new, platforms, surfaces, [name for group in known for name in group])
    broken = [break_text(entry) for entry in breaks(seen)]
    return BinariesRead(len(known), len(groups), broken, list(tables(seen, {}, _COLUMNS["binaries"])))
