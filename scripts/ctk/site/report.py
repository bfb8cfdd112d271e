"""The report's pages of picks, CTK releases, the audit and benchmarks; `packages` and `docs` have the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import cycle, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.build.runner import machine_paths
from ctk.check.audit import CHECKS, audit_packages
from ctk.core.errors import CtkError
from ctk.core.files import file_sha256
from ctk.core.platforms import PLATFORMS
from ctk.diff.compare import ReleaseDifference, breaks, compare, wanted
from ctk.diff.render import LIBRARY_COLUMNS, break_text, summary, tables
from ctk.diff.scan import cached_surface
from ctk.lock.components import load_exclusions
from ctk.lock.lock import ReleaseLock
from ctk.lock.support import Support, load_support
from ctk.package.binaries import version_key
from ctk.package.scan import PackageScan, Scanner
from ctk.release import facts_rows
from ctk.site import benchmarks as figures
from ctk.site.content import Site
from ctk.site.pages import Page, render
from ctk.verify import channels
from ctk.verify.table import REQUEST, Answers, ask, merged

_SHADES = 6  # of each CUDA major in the style sheet
_COLUMNS = {"locks": ("component", "version", "MB", "glibc"), "binaries": ("component", "files", "symbols")}
_FINDINGS = 200  # shown; more are counted
_OPERATORS = {">=": "from", "<=": "up to", "<": "before", ">": "after", "==": ""}


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
            support = load_support(site.workspace)
            with TemporaryDirectory(prefix="ctk-site-") as folder:
                folders = channels.write(channels.built(site.channel), Path(folder)).folders
                maps += [heat_map(s, ask(folders, site.releases, s, support)) for s in site.platforms]
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
    facts, support = facts_rows(site.releases), load_support(site.workspace)
    rows = [_release(site, support, *args) for args in zip(site.releases, before, facts, strict=False)]
    described = "Every release that is locked here: what changed, and what was measured from its binaries."
    yield render(site, "releases.html", title="CUDA Toolkit releases", description=described, releases=rows[::-1])
    for row in rows:
        title, described = f"CUDA Toolkit {row['lock'].release}", "The oldest release that is locked here."
        if row["before"]:
            described = f"What changed since {row['before'].release}, and what was measured from its binaries."
        values: dict[str, Any] = {"platforms": PLATFORMS, "columns": _COLUMNS, "library_columns": LIBRARY_COLUMNS}
        yield render(site, row["path"], "release.html", title=title, description=described, release=row, **values)


def _release(
    site: Site, support: Support, lock: ReleaseLock, before: ReleaseLock | None, facts: Sequence[str]
) -> dict[str, Any]:
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
        "brief": "the oldest release here",
        "unfixed": support.unfixed_of(lock, site.releases),
        "branch": support.branch_for(lock.minor),
        "sources": support.sources,
    }
    if before is None:
        return release
    difference = compare(before, lock, site.platforms or tuple(PLATFORMS))
    gpus = _gpus_changed(before, lock, site.releases)
    lines = list(summary(difference, ()))[:-1]  # the last line is about the binaries, which have their own
    return release | {
        "brief": gpus or "the same GPUs",
        "summary": [
            f"GPUs: {gpus or 'the same'}" if line.startswith("GPU architectures: ") else line for line in lines
        ],
        "changes": list(tables(difference, {}, _COLUMNS["locks"])),
        "binaries": _binaries(site, difference, before, lock),
    }


def _gpus_changed(before: ReleaseLock, lock: ReleaseLock, releases: Sequence[ReleaseLock]) -> str:
    """``adds 8.8, 11.0; drops 5.0 to 7.2``: how the GPUs that a compiler knows differ from those of the one before."""
    if not (before.facts and lock.facts):
        return "not measured"
    old, new = set(before.facts.gpu_architectures), set(lock.facts.gpu_architectures)
    known = sorted({gpu for one in releases if one.facts for gpu in one.facts.gpu_architectures}, key=Version)
    changes = ("adds", _runs(new - old, known)), ("drops", _runs(old - new, known))
    return "; ".join(f"{verb} {gpus}" for verb, gpus in changes if gpus)


def _runs(chosen: Collection[str], known: Sequence[str]) -> str:
    """The chosen names in their order; three or more without a known one between them as ``first to last``."""
    runs = [list(group) for kept, group in groupby(known, chosen.__contains__) if kept]
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _binaries(site: Site, difference: ReleaseDifference, old: ReleaseLock, new: ReleaseLock) -> dict[str, Any]:
    """The differences of the binaries whose surfaces are in the cache: nothing is fetched for a page."""
    groups = {c.components: wanted(old, new, difference.platforms, c.components) for c in difference.changed}
    read = {a.sha256: cached_surface(a.sha256, site.workspace) for artefacts in groups.values() for a in artefacts}
    known = [group for group, artefacts in groups.items() if all(read[a.sha256] for a in artefacts)]
    binaries: dict[str, Any] = {"known": len(known), "all": len(groups), "gone": (), "tables": ()}
    if known:
        surfaces = {sha256: surface for sha256, surface in read.items() if surface}
        seen = compare(old, new, difference.platforms, surfaces, [name for group in known for name in group])
        binaries["gone"] = [break_text(entry) for entry in breaks(seen)]
        binaries["tables"] = list(tables(seen, {}, _COLUMNS["binaries"]))
    return binaries


def audit(site: Site) -> Iterator[Page]:
    """The findings of every check; none where these very packages were not audited with the checks as they are."""
    files = [entry.path for entry in site.entries if entry.path.is_file()]
    cache, forbidden = site.workspace.cache / "audit", machine_paths(site.workspace)
    scanner = Scanner(forbidden, cache)
    unread = [file for file in files if not (cache / scanner.name(file_sha256(file))).is_file()]
    report = None
    if files and not unread:
        base = sorted(site.workspace.base_channel.resolve().glob("*/*.conda"))
        report = audit_packages(files, forbidden_paths=forbidden, base=base, cache=cache)
    listed = load_exclusions(site.workspace)
    yield render(
        site,
        "audit.html",
        title="The audit",
        description="Every package is opened and held to written rules before it is published.",
        rows=[
            {
                "name": check.name,
                "scope": "each package" if check.subject is PackageScan else "all together",
                "help": check.help.replace("``", ""),
                "blocks": check.severity == "error",
                "found": report.counts.get(check.name, 0) if report else None,
            }
            for check in CHECKS
        ],
        report=report,
        findings=report.findings[:_FINDINGS] if report else (),
        packages=len(files),
        unread=len(unread),
        missing=[entry.file for entry in site.entries if not entry.path.is_file()],
        excluded=[(e.component, _in_words(e.releases), e.reason) for e in listed.excluded],
        unpublished=[(e.name, _in_words(e.releases), e.reason) for e in listed.unpublished],
    )


def _in_words(releases: SpecifierSet) -> str:
    """``<12.3`` as ``before 12.3``."""
    ordered = sorted(releases, key=lambda part: Version(part.version.removesuffix(".*")))
    texts = (f"{_OPERATORS.get(part.operator, part.operator)} {part.version}".strip() for part in ordered)
    return ", ".join(texts) or "all"


def benchmarks(site: Site) -> Iterator[Page]:
    """The page of benchmarks; none before something was measured twice."""
    if site.history:
        rows = [
            {
                "name": name,
                "about": figures.about(site.workspace, name),
                "series": [(*key, row, figures.line([figure.value for figure in row])) for key, row in own.items()],
            }
            for name, own in site.history.items()
        ]
        values: dict[str, Any] = {"benchmarks": rows, "ratio": figures.RATIO}
        values |= {"width": figures.WIDTH, "height": figures.HEIGHT}
        described = "How long things take, measured and kept over time."
        yield render(site, "benchmarks.html", title="Benchmarks", description=described, **values)
