"""`ctk feedstock`: a recipe as a folder that other tools build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ctk.core.address import UNREADABLE, public
from ctk.core.checkout import checkout, settings
from ctk.core.console import Reporter, count
from ctk.core.errors import IndexUnavailable
from ctk.feedstock import feedstock, refuse_place, write
from ctk.fetch.derive import derive
from ctk.fetch.fetch import borrowed, locate
from ctk.index.index import Index
from ctk.lock.derived import Derived
from ctk.lock.model import Artefact


def export(
    recipe: str, folder: Path, releases: Sequence[str], maintainers: Sequence[str], *, force: bool
) -> None:
    """Writes a recipe as a feedstock, whose sources are addresses of the package index."""
    workspace, report = checkout(), Reporter()
    refuse_place(folder, workspace, force=force)
    names = maintainers or settings(workspace.root).feedstock.maintainers
    with Index() as index:

        def source(artefact: Artefact) -> str:
            return _address(index, artefact)

        def make(sources: Sequence[Derived]) -> list[bytes]:
            artefacts = [source.artefact for source in sources]
            # The whole wheel for a few names: it goes again, unless it was there before.
            with borrowed(artefacts, workspace, Index):
                return [path.read_bytes() for path in derive(sources, workspace, Index)]

        files = feedstock(workspace, recipe, releases, names, source, make, report.line)
    write(files, folder)
    report.result(folder=str(folder), files=sorted(map(str, files)))
    report.line(
        f"{folder}: {count(len(files), 'file')} for your own CI; `conda smithy rerender` there"
        " makes the rest"
    )


def _address(index: Index, artefact: Artefact) -> str:
    address = public(locate(index, artefact).url)
    if address == UNREADABLE:
        cause = f"the index's address of {artefact.file} may have a password in it"
        raise IndexUnavailable(cause, "ask whoever runs the index for addresses without an @")
    return address
