"""The report's pages of picks and CTK releases; `packages` and `docs` have the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from packaging.version import Version

from ctk.core.errors import CtkError
from ctk.core.platforms import PLATFORMS
from ctk.diff.compare import compare
from ctk.diff.render import summary, tables
from ctk.lock.model import ReleaseLock
from ctk.package.binaries import version_key
from ctk.release import facts_rows
from ctk.site.content import Site
from ctk.site.pages import Page, render
from ctk.solve import channels
from ctk.verify.table import REQUEST, Answers, ask, merged

_SHADES = 6  # of each CUDA major in the style sheet
_COLUMNS = ("component", "version", "MB", "glibc")


class HeatMap(NamedTuple):
    """The picks for one platform as a picture, and as the same table in words (`heads` and `lines`)."""

    platform: str
    answers: Answers
    shades: Mapping[str, str]  # toolkit, oldest first -> its class in the style sheet
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]


def picks(site: Site) -> Iterator[Page]:
    """Which toolkit a driver and a GPU get; a sentence instead of a picture where the solver cannot be asked."""
    maps: list[HeatMap] = []
    problem = ""
    if site.platforms and any(lock.facts for lock in site.releases):  # the facts say which GPUs there are
        try:
            # Some hundred solves for each platform of the channel, which take a second or two.
            with TemporaryDirectory(prefix="ctk-site-") as folder:
                folders = channels.write(channels.built(site.channel), Path(folder)).folders
                maps += [heat_map(s, ask(folders, site.releases, s)) for s in site.platforms]
        except CtkError as error:
            problem = f"{error.cause}. {error.step}".strip()
    description = f"What a solver picks for {REQUEST}, for each driver and GPU."
    values: dict[str, Any] = {"request": REQUEST, "maps": maps, "problem": problem}
    yield render(site, "picks.html", title="Which toolkit a machine gets", description=description, **values)


def heat_map(platform: str, answers: Answers) -> HeatMap:
    toolkits = sorted({cell.partition(" ")[0] for cell in answers.cells.values()} - {"-", ""}, key=Version)
    return HeatMap(platform, answers, _shades(toolkits), *merged(answers))


def _shades(toolkits: Sequence[str]) -> dict[str, str]:
    """Toolkit -> class: the majors take turns with two colours, the minors go from light to strong."""
    shades: dict[str, str] = {}
    majors = groupby(toolkits, key=lambda toolkit: toolkit.partition(".")[0])
    for letter, (_, group) in zip(cycle("ab"), majors, strict=False):
        minors = list(group)
        steps = max(len(minors) - 1, 1)
        shades |= {t: f"{letter}{1 + round(place * (_SHADES - 1) / steps)}" for place, t in enumerate(minors)}
    return shades


def releases(site: Site) -> Iterator[Page]:
    """The list of CTK releases, newest first, and a page for each: what changed since the one before it."""
    before = (None, *site.releases)
    rows = [_release(site, *args) for args in zip(site.releases, before, facts_rows(site.releases), strict=False)]
    described = "Every release that is locked here: what changed, and what was measured from its binaries."
    yield render(site, "releases.html", title="CUDA Toolkit releases", description=described, releases=rows[::-1])
    for row in rows:
        title, described = f"CUDA Toolkit {row['lock'].release}", "The oldest release that is locked here."
        if row["before"]:
            described = f"What changed since {row['before'].release}, and what was measured from its binaries."
        values: dict[str, Any] = {"platforms": PLATFORMS, "columns": _COLUMNS}
        yield render(site, row["path"], "release.html", title=title, description=described, release=row, **values)


def _release(site: Site, lock: ReleaseLock, before: ReleaseLock | None, facts: Sequence[str]) -> dict[str, Any]:
    """A release as the templates take it; sizes in bytes."""
    measured = lock.facts.glibc if lock.facts else {}
    release: dict[str, Any] = {
        "lock": lock,
        "before": before,
        "path": f"releases/{lock.minor}.html",
        "gpus": facts[1],
        "ptx": facts[2],
        "glibc": {s: max(needs.values(), key=version_key) for s, needs in measured.items() if any(needs.values())},
        "sizes": {s: sum(a.size for a in lock.artefacts if a.target.startswith(s)) for s in PLATFORMS},
        "in_channel": any(entry.index.version == lock.minor for entry in site.packages.get("cuda-version", ())),
    }
    if before is None:
        return release
    difference = compare(before, lock, site.platforms or tuple(PLATFORMS))
    lines = list(summary(difference, ()))[:-1]  # the last line is about binaries, which no page compares
    return release | {
        "summary": lines,
        "changes": list(tables(difference, {}, _COLUMNS)),
    }
