"""What the package index says of one file, before anything of it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from unearth import Package

from ctk.core import upload_time


class Wanted(Protocol):
    """A file as a lock names it; the index knows no locks."""

    @property
    def distribution(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def file(self) -> str: ...

    @property
    def sha256(self) -> str: ...


@dataclass(frozen=True)
class IndexFile:
    """One file that the index offers.

    Attributes:
        distribution: Normalised name.
        version: As the file name says it.
        file: File name.
        sha256: None when the index does not state it.
        url: Where it is now. Never written to a file: a mirror has another, and it may hold credentials.
        yanked: Whether its publisher took it back.
        requires_python: Version specifier, or None.
        metadata_url: Where the index keeps a copy of the wheel's METADATA, or None.
        uploaded: When its publisher uploaded it, in seconds since 1970 (PEP 700); None when the index does not say.
    """

    distribution: str
    version: str
    file: str
    sha256: str | None
    url: str = field(repr=False)
    yanked: bool = False
    requires_python: str | None = None
    metadata_url: str | None = field(default=None, repr=False)
    uploaded: int | None = None


def offered(name: str, package: Package) -> IndexFile:
    """A file of a distribution as unearth read it from the index's page."""
    link = package.link
    hashes = link.hashes or ({link.hash_name: link.hash} if link.hash_name and link.hash else {})
    sha256 = hashes.get("sha256")
    copy = link.dist_info_link
    return IndexFile(
        distribution=name,
        version=package.version or "",
        file=link.filename,
        sha256=str(sha256).lower() if sha256 else None,  # as pip: any case, and what is no hash fits no content
        url=link.url_without_fragment,
        yanked=link.is_yanked,
        requires_python=link.requires_python,
        metadata_url=copy.url_without_fragment if copy else None,
        uploaded=upload_time.seconds(link.upload_time) if link.upload_time else None,
    )


def each_once(files: Sequence[IndexFile]) -> tuple[IndexFile, ...]:
    """Each file once, as the first index has it, with the earliest upload that any states: mirrors have their own."""
    offers: dict[tuple[str, str | None], IndexFile] = {}
    for file in files:
        first = offers.setdefault((file.file, file.sha256), file)
        stated = [f.uploaded for f in (first, file) if f.uploaded is not None]
        offers[file.file, file.sha256] = replace(first, uploaded=min(stated, default=None))
    return tuple(offers.values())
