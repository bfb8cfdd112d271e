"""The step fetch: fills a cache from the package index, and lays it out for recipes.

A file is laid out only if this run has read the locked sha256 from it, even in the cache. The next
run continues a download that broke off. The checkout's lock prevents two downloads of one file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.disk import disk_errors
from ctk.core.errors import HashMismatch, NotPublished, problems
from ctk.core.files import holds
from ctk.fetch.download import Wanted, at_once, download
from ctk.index.index import Index, IndexFile
from ctk.lock.derived import Derived
from ctk.lock.model import Artefact, Component
from ctk.lock.wheels import Licence, read_licence

Progress = Callable[[Artefact, int], None]
"""Called with an artefact and a number of bytes that arrived."""


def stored(artefact: Artefact, workspace: Workspace) -> Path:
    """The path of an artefact in the store, whether it exists or not."""
    return stored_as(artefact.sha256, workspace)


def stored_as(sha256: str, workspace: Workspace) -> Path:
    """The path of a file in the store, by its sha256."""
    return workspace.store / sha256[:2] / sha256


def laid_out(artefact: Artefact, workspace: Workspace) -> Path:
    """The path from which recipes read an artefact: a zip of a wheel, a tar of sources."""
    suffix = ".tar.gz" if artefact.file.endswith(".tar.gz") else ".zip"
    return (
        workspace.artefacts / artefact.component / artefact.version / f"{artefact.target}{suffix}"
    )


def derived_at(source: Derived, workspace: Workspace) -> Path:
    """The path from which recipes read a source that `ctk.fetch.derive` makes."""
    return laid_out(source.artefact, workspace).with_name(f"{source.target}.zip")


def missing(artefacts: Iterable[Artefact], workspace: Workspace) -> list[Artefact]:
    """The artefacts that the store lacks, each file once; every file in the store is hashed."""
    unique = list({a.sha256: a for a in artefacts}.values())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        there = list(pool.map(lambda a: holds(stored(a, workspace), a.sha256, a.size), unique))
    return [a for a, is_there in zip(unique, there, strict=True) if not is_there]


def fetch(
    artefacts: Sequence[Artefact],
    workspace: Workspace,
    index: Callable[[], Index],
    *,
    jobs: int = 4,
    progress: Progress = lambda artefact, received: None,
) -> list[Path]:
    """Makes artefacts available to recipes; returns their laid-out paths in the same order.

    The index is opened only if there is something to download. `jobs` is the number of downloads at
    once; `progress` is called from several threads. Downloads that run when another fails are
    finished first, so that nothing fetched is lost.

    Raises:
        NotPublished: The index lacks artefacts; all are named, and nothing was downloaded.
    """
    if wanted := missing(artefacts, workspace):
        with index() as source, ThreadPoolExecutor(jobs) as pool:

            def look(artefact: Artefact) -> IndexFile | NotPublished:
                try:
                    return locate(source, artefact)
                except NotPublished as error:
                    return error

            # All are located first, so that gigabytes are not fetched in vain.
            offers = list(pool.map(look, wanted))
            gone = [error for error in offers if isinstance(error, NotPublished)]
            if gone:
                lines = [error.cause for error in gone]
                raise (
                    problems(NotPublished, "package index", lines, gone[0].step)
                    if len(gone) > 1
                    else gone[0]
                )
            located = [
                (a, o) for a, o in zip(wanted, offers, strict=True) if isinstance(o, IndexFile)
            ]
            at_once(
                jobs, lambda pair: _download(pair[0], workspace, source, pair[1], progress), located
            )
    with disk_errors(workspace.artefacts):
        return [lay_out(stored(a, workspace), laid_out(a, workspace)) for a in artefacts]


def locate(index: Index, artefact: Artefact) -> IndexFile:
    """The file on the index with an artefact's exact name.

    HashMismatch if it has another sha256.
    """
    offers = [f for f in index.files(artefact.distribution) if f.file == artefact.file]
    if not offers:
        raise index.lacking(
            artefact.distribution,
            f"the package index has no {artefact.file} of {artefact.distribution}"
            f" {artefact.version}",
            "a mirror may have to fetch it first; else lock the release anew with `ctk release"
            " add`",
        )
    same = [f for f in offers if f.sha256 in (None, artefact.sha256)]
    if not same:
        raise HashMismatch(
            f"{artefact.distribution}: the index states another sha256 of {artefact.file}:\n"
            f"  locked {artefact.sha256}\n  index  {offers[0].sha256}",
            "ask whoever runs the index why; if the change is meant, lock anew with `ctk release"
            " add`",
        )
    return same[0]


def licences(index: Index, component: Component) -> dict[str, tuple[str, Licence]]:
    """Target -> the file of a component and its licence, read from the index."""
    files = {
        target: locate(index, artefact)
        for target, artefact in component.artefacts.items()
        if artefact
    }
    read = {file: read_licence(index, file) for file in dict.fromkeys(files.values())}
    return {target: (file.file, read[file]) for target, file in files.items()}


@contextmanager
def borrowed(
    artefacts: Sequence[Artefact],
    workspace: Workspace,
    index: Callable[[], Index],
    *,
    progress: Progress = lambda artefact, received: None,
) -> Iterator[list[Path]]:
    """Fetches artefacts for a block; then removes those that were not in the cache before."""
    files = {a.sha256: stored(a, workspace) for a in missing(artefacts, workspace)}
    links = [path for path in (laid_out(a, workspace) for a in artefacts) if not path.exists()]
    try:
        yield fetch(artefacts, workspace, index, progress=progress)
    finally:
        for path in (*links, *files.values()):
            path.unlink(missing_ok=True)


def _download(
    artefact: Artefact, workspace: Workspace, index: Index, file: IndexFile, progress: Progress
) -> None:
    """Downloads an artefact; HashMismatch if it is another file than the locked one."""
    part = workspace.store / "partial" / artefact.sha256
    wanted = Wanted(index.remote(file), artefact.sha256, artefact.size)
    with disk_errors(workspace.store):
        part.parent.mkdir(parents=True, exist_ok=True)
        received = download(wanted, part, index.transfer, partial(progress, artefact))
        if not received.is_right(wanted):
            part.unlink()
            raise HashMismatch(
                f"{artefact.file} of {artefact.distribution} {artefact.version} is not the locked"
                f" file:\n  locked sha256 {artefact.sha256} ({artefact.size} bytes)\n  served"
                f" sha256 {received.digest} ({received.size} bytes)",
                "it is not used; if the index is right, `ctk release add` locks the new file for"
                " review",
            )
        home = stored(artefact, workspace)
        home.parent.mkdir(parents=True, exist_ok=True)
        # Stored files are read-only: recipes get hard links to them.
        part.chmod(0o444)
        os.replace(part, home)


def lay_out(source: Path, target: Path) -> Path:
    """Makes a file of the store available to recipes, at `target`."""
    try:
        if os.path.samestat(source.stat(), target.stat()):
            return target
    except FileNotFoundError:
        pass
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}")
    try:
        os.link(source, temporary)
    except OSError:
        # No hard links on this file system.
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)
    # Replacing a link by another link to the same file removes neither.
    temporary.unlink(missing_ok=True)
    return target
