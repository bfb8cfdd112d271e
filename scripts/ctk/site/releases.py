"""The pages of CTK releases: what each brought, as the release locks and, where they were read, its binaries say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ctk.core.platforms import PLATFORMS
from ctk.diff import words
from ctk.diff.breaks import breaks
from ctk.diff.cache import surface_cache, unread
from ctk.diff.compare import Difference, compare, wanted
from ctk.lock.lock import ReleaseLock
from ctk.package.binaries import version_key
from ctk.release.review import facts_rows
from ctk.site.content import Site
from ctk.site.page import Page, render

_OF_LOCKS = ("component", "version", "MB", "glibc")
_TELLING = ("GPU architectures: +", "GPU architectures: -", "new components", "components that are gone")
_OF_BINARIES = ("component", "files", "symbols")


@dataclass(frozen=True)
class Table:
    """A table for one platform."""

    platform: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Binaries:
    """What was seen in the artefacts of both releases.

    Attributes:
        read: How many of the changed components were read, of how many.
        gone: Sentences: what programs used and is not there any more, within a CUDA major.
        files: Counts of files and symbols.
        libraries: Programs and libraries that show something else than before.
    """

    read: tuple[int, int]
    gone: tuple[str, ...] = ()
    files: tuple[Table, ...] = ()
    libraries: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Release:
    """A CTK release, and what it brought.

    Attributes:
        lock: The release.
        before: The one before it; None for the oldest.
        gpus, ptx: Its facts, as a table has them.
        glibc: Subdir -> newest glibc that its components need there.
        sizes: Subdir -> bytes of its artefacts.
        in_channel: Whether the site's channel has it.
        summary: Sentences: what changed.
        changes: Components that changed, by platform.
        same: Subdir -> components whose artefacts are the same files as before.
        binaries: None where nothing was compared.
    """

    lock: ReleaseLock
    before: ReleaseLock | None
    gpus: str
    ptx: str
    glibc: dict[str, str]
    sizes: dict[str, int]
    in_channel: bool
    summary: tuple[str, ...] = ()
    changes: tuple[Table, ...] = ()
    same: dict[str, list[str]] | None = None
    binaries: Binaries | None = None

    @property
    def path(self) -> str:
        return f"releases/{self.lock.minor}.html"

    @property
    def brief(self) -> str:
        """What tells it from the others in a list: GPUs and components that came or went."""
        if self.before is None:
            return "the oldest here"
        told = [line for line in self.summary if line.startswith(_TELLING)]
        return "; ".join(told) or "newer versions of the same components, for the same GPUs"


def pages(site: Site) -> Iterator[Page]:
    """The list, newest first, and a page for each release."""
    before = (None, *site.releases)
    found = [_release(site, lock, old) for lock, old in zip(site.releases, before, strict=False)]
    yield render(
        site,
        "releases.html",
        "releases.html",
        title="CUDA Toolkit releases",
        description="Every release that is locked here: what its binaries say of themselves, and what it brought.",
        releases=found[::-1],
    )
    for release in found:
        yield render(
            site,
            release.path,
            "release.html",
            title=f"CUDA Toolkit {release.lock.release}",
            description=_description(release),
            release=release,
            platforms=PLATFORMS,
        )


def _description(release: Release) -> str:
    if release.before is None:
        return "The oldest release that is locked here."
    return f"What it brought over {release.before.release}, and what its binaries say of themselves."


def _release(site: Site, lock: ReleaseLock, before: ReleaseLock | None) -> Release:
    gpus, ptx = next((gpus, ptx) for release, gpus, ptx in facts_rows(site.releases) if release == lock.release)
    glibc = lock.facts.glibc if lock.facts else {}
    needs = {subdir: max(found.values(), key=version_key, default="") for subdir, found in glibc.items()}
    sizes = {s: sum(a.size for a in lock.artefacts if a.target.startswith(s)) for s in PLATFORMS}
    versions = {entry.index.version for entry in site.packages.get("cuda-version", ())}
    own = Release(lock, before, gpus, ptx, {s: n for s, n in needs.items() if n}, sizes, lock.minor in versions)
    if before is None:
        return own
    difference = compare(before, lock, site.platforms or tuple(PLATFORMS))
    platforms = words.platforms(difference)
    return replace(
        own,
        summary=tuple(words.summary(difference, ()))[:-1],  # the last line is about the binaries, which have their own
        changes=tuple(_table(difference, platform, _OF_LOCKS) for platform in platforms),
        same={p: [c.name for c in difference.components if c.platform == p and c.same] for p in platforms},
        binaries=_binaries(site, difference, before, lock),
    )


def _binaries(site: Site, difference: Difference, old: ReleaseLock, new: ReleaseLock) -> Binaries:
    """What is known of the changed components' binaries without fetching any."""
    platforms = words.platforms(difference)
    groups = list(dict.fromkeys(change.components for change in difference.changed))
    artefacts = {group: wanted(old, new, platforms, group) for group in groups}
    known = [group for group in groups if not unread(artefacts[group], site.workspace)]
    cache = surface_cache(site.workspace)
    shown = {a.sha256: cache.get(a.sha256) for group in known for a in artefacts[group]}
    known = [group for group in known if all(shown[a.sha256] is not None for a in artefacts[group])]
    if not known:
        return Binaries((0, len(groups)))
    surfaces = {sha256: surface for sha256, surface in shown.items() if surface is not None}
    seen = compare(old, new, platforms, surfaces, [name for group in known for name in group])
    return Binaries(
        (len(known), len(groups)),
        tuple(words.break_text(entry) for entry in breaks(seen)),
        tuple(_table(seen, platform, _OF_BINARIES) for platform in platforms),
        tuple(_libraries(seen, platform) for platform in platforms),
    )


def _table(difference: Difference, platform: str, columns: tuple[str, ...]) -> Table:
    changed = [change for change in difference.changed if change.platform == platform]
    return Table(platform, columns, [words.cells(change, {}, columns) for change in changed])


def _libraries(difference: Difference, platform: str) -> Table:
    changed = [change for change in difference.changed if change.platform == platform]
    rows = [(c.name, x.any.path, words.library_text(x)) for c in changed for x in c.libraries]
    return Table(platform, ("component", "file", "what"), rows)
