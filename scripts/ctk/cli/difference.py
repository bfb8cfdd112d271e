"""``ctk release diff``: what changed between two releases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import Platforms
from ctk.core import output
from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue, Incompatible, NoSpace, UnknownName, problems
from ctk.core.paths import Workspace, checkout
from ctk.core.platforms import PLATFORMS
from ctk.core.report import Reporter
from ctk.core.runlock import exclusive
from ctk.diff import sources
from ctk.diff.compare import breaks, compare, wanted
from ctk.diff.render import as_json, break_text, markdown, show
from ctk.diff.scan import Surface, surfaces, unread
from ctk.fetch.fetch import missing
from ctk.index.index import Index
from ctk.lock.lock import Artefact, ReleaseLock
from ctk.pipeline import default_platforms
from ctk.plan.recipes import find_recipes
from ctk.release import release


def diff_command(
    old: Annotated[str, typer.Argument(help=f"The first release: {sources.FORMS}.", metavar="OLD")],
    new: Annotated[
        str | None, typer.Argument(help="The second release, written in one of the same ways.", metavar="NEW")
    ] = None,
    against_index: Annotated[
        bool, typer.Option("--against-index", help="Compare OLD with what `ctk release add` would lock now.")
    ] = False,
    platforms: Platforms = None,
    components: Annotated[
        list[str] | None, typer.Option("--component", help="Such as cublas; all without it; may be repeated.")
    ] = None,
    no_binaries: Annotated[
        bool, typer.Option("--no-binaries", help="Compare the locks only: versions, sizes, facts; no download.")
    ] = False,
    markdown_: Annotated[
        str | None, typer.Option("--markdown", help="Also write Markdown to a FILE; - prints it, and nothing else.")
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Fail when something that programs use is gone within a CUDA major.")
    ] = False,
) -> None:
    """Show what changed between two releases: versions, files, SONAMEs, exported symbols, GPU architectures, sizes.

    Reads every artefact once and keeps what it saw below .cache/surfaces; an artefact that was fetched for it is
    removed again. A symbol, a library or a GPU architecture that is gone within a CUDA major is flagged.

    Examples: ctk release diff 13.3 13.4
    ctk release diff HEAD:13.4 13.4 --markdown -
    """
    if new is not None and against_index:
        raise BadValue(f"{old} cannot be compared with both {new} and the index", "leave out NEW or --against-index")
    if new is None and not against_index:
        raise BadValue(
            f"a comparison has two sides, and {old} is one", "name a second release, or give --against-index"
        )
    here = checkout()
    only_markdown = markdown_ == "-"
    if only_markdown and output.mode().json:
        raise BadValue("--json and --markdown - both print on stdout", "name a file: --markdown FILE")
    if markdown_ is not None and not only_markdown:
        _check_place(Path(markdown_))  # to compare may take minutes
    reporter = Reporter(results=not only_markdown)
    subdirs = tuple(dict.fromkeys(default_platforms(platforms or [])))
    for subdir in subdirs:
        if subdir not in PLATFORMS:
            raise UnknownName.of("platform", subdir, PLATFORMS)
    first = sources.find(old, here)
    second = _of_index(first, here, reporter) if new is None else sources.find(new, here)
    sources.same_kind(first, second)
    chosen = components or []
    for name in chosen:
        if name not in {*first.components, *second.components}:
            raise UnknownName.of("component", name, {*first.components, *second.components})
    shown = None if no_binaries else _surfaces(wanted(first, second, subdirs, chosen), here, reporter)
    difference = compare(first, second, subdirs, shown, chosen)
    found = breaks(difference)
    recipes = _recipes(here, first, second)
    reporter.result(**as_json(difference, found, recipes))
    show(difference, found, recipes, reporter)
    if markdown_ is not None:
        _write(markdown(difference, found, recipes), markdown_)
    if found and exit_code:
        gone = [break_text(entry) for entry in found]
        raise problems(
            Incompatible, f"{first.release} -> {second.release}", gone, "say in the release notes what is gone"
        )


def _of_index(old: ReleaseLock, here: Workspace, reporter: Reporter) -> ReleaseLock:
    """What would be locked now under the same name."""
    reporter.say(f"{old.name}: asking the package index")
    with Index() as index:
        return release.make(index, old.name, here)


def _surfaces(artefacts: Sequence[Artefact], here: Workspace, reporter: Reporter) -> dict[str, Surface]:
    with exclusive(here, reporter.say):
        size = sum(a.size for a in missing(unread(artefacts, here), here))
        with reporter.task("fetching and reading", size, bytes_=True) as task:
            return surfaces(artefacts, here, Index, progress=lambda _, received: task.advance(received))


def _recipes(here: Workspace, *releases: ReleaseLock) -> dict[str, list[str]]:
    """Component -> the recipes whose expressions name it: its packages change with it."""
    recipes = find_recipes(here.recipes).values()
    components = {c.name: c.variant_key for lock in releases for c in lock.components.values()}
    return {name: [r.name for r in recipes if key in r.names_used] for name, key in components.items()}


def _write(text: str, target: str) -> None:
    if target == "-":
        print(text, end="")
        return
    path = Path(target)
    with disk_errors(path.parent):
        path.write_text(text, encoding="utf-8", newline="\n")


def _check_place(path: Path) -> None:
    """A file can be written there, as far as that can be known before."""
    if path.is_dir() or not path.parent.is_dir():
        problem = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise BadValue(f"{path} cannot be written: {problem}", "name a file in a folder that exists")
    there = path if path.exists() else path.parent
    if not os.access(there, os.W_OK):
        raise NoSpace(f"{path} cannot be written: permission denied", "name a file that may be written")
