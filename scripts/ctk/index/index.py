"""The package index that the user's pip is configured for.

All of pip's settings apply: index, extra indexes, ``find-links``, certificate, proxy, timeout,
retries, and credentials in URLs, netrc or keyring. So a company mirror works, and no host is named
here.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from email.parser import BytesParser
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from packaging.utils import canonicalize_name
from packaging.version import Version

from ctk.core.errors import CtkError, HashMismatch, IndexUnavailable, NotPublished, describe
from ctk.core.files import open_plain
from ctk.core.times import EARLIEST, upload_seconds
from ctk.index import IndexSettings, inside, pip_settings
from ctk.package.archives import LONGEST

if TYPE_CHECKING:  # slow to import: only an `Index` does it
    from unearth import Package

    from ctk.index.client import Retry
    from ctk.index.transfer import Remote

# bytes up to which one request for a whole wheel is faster than requests for its parts
_WHOLE = 2_000_000
_MOST = 2 << 30  # bytes of a wheel in memory, from a server without ranges
_CHECK = "check which indexes `pip config list` names"
_ASK = "run the same command again; if it stays, ask whoever runs the index"
# Errors of unearth for a page of another form.
_NO_PAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class IndexFile:
    """A file on the index; None for a fact that the index does not state.

    Attributes:
        distribution: Normalised name.
        url: Never written to a file: mirrors have different URLs, and it may contain credentials.
        metadata_url: A copy of the wheel's METADATA.
        uploaded: In seconds since 1970 (PEP 700).
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


def _offered(name: str, package: Package) -> IndexFile:
    """The file of a link on the index's page."""
    link = package.link
    hashes = link.hashes or ({link.hash_name: link.hash} if link.hash_name and link.hash else {})
    sha256 = hashes.get("sha256")
    copy = link.dist_info_link
    return IndexFile(
        distribution=name,
        version=package.version or "",
        file=link.filename,
        # As pip: any case; an invalid hash fits no content.
        sha256=str(sha256).lower() if sha256 else None,
        url=link.url_without_fragment,
        yanked=link.is_yanked,
        requires_python=link.requires_python,
        metadata_url=copy.url_without_fragment if copy else None,
        uploaded=upload_seconds(link.upload_time) if link.upload_time else None,
    )


def _each_once(files: Sequence[IndexFile]) -> tuple[IndexFile, ...]:
    """Each file once, of the first index, with the earliest upload time: mirrors' are later."""
    offers: dict[tuple[str, str | None], IndexFile] = {}
    for file in files:
        first = offers.setdefault((file.file, file.sha256), file)
        stated = [f.uploaded for f in (first, file) if f.uploaded is not None]
        offers[file.file, file.sha256] = replace(first, uploaded=min(stated, default=None))
    return tuple(offers.values())


class Index:
    """A client of the package index, to be used in a ``with``; safe to use from several threads.

    By default, it has pip's settings and retries.
    """

    def __init__(self, settings: IndexSettings | None = None, retry: Retry | None = None) -> None:
        from ctk.index.client import Retry
        from ctk.index.pip_client import open_client
        from ctk.index.transfer import Transfer

        self.settings = settings if settings is not None else pip_settings()
        self.retry = retry if retry is not None else Retry(attempts=self.settings.retries + 1)
        self._client = open_client(self.settings)
        self.transfer = Transfer(self._client, self.retry)
        self._files: dict[str, tuple[IndexFile, ...]] = {}
        self._refusals: dict[str, list[CtkError]] = {}
        self._sizes: dict[str, int] = {}
        self._metadata: dict[str, Message] = {}
        self._texts: dict[tuple[str, str], str | None] = {}

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def files(self, distribution: str) -> tuple[IndexFile, ...]:
        """Every file of a distribution on every index: newest version first, yanked files last.

        Raises:
            IndexUnavailable: An index does not answer, or its page cannot be read.
            NotPublished: No index has a file.
        """
        name = canonicalize_name(distribution)
        if name in self._files:
            return self._files[name]
        files = _each_once(self._listed(name))
        if not files:
            raise self.lacking(name, f"the package index holds no file of {name}", _CHECK)
        return self._files.setdefault(name, files)

    def lacking(self, distribution: str, cause: str, step: str) -> CtkError:
        """The error for a missing file: NotPublished, or the failed answer of an index.

        That index might have the file.
        """
        refusals = self._refusals.get(canonicalize_name(distribution))
        return refusals[0] if refusals else NotPublished(cause, step)

    def size(self, file: IndexFile) -> int:
        """Bytes of a file, from one HEAD request."""
        if file.url not in self._sizes:
            self._sizes[file.url] = self.transfer.size(self.remote(file))
        return self._sizes[file.url]

    def sha256(self, file: IndexFile) -> str:
        """The hash that the index states, else that of the content."""
        return file.sha256 or self._digest(file)

    def _digest(self, file: IndexFile) -> str:
        def read() -> str:
            digest = hashlib.sha256()
            with self.stream(file) as (_, _, chunks):
                for chunk in chunks:
                    digest.update(chunk)
            return digest.hexdigest()

        return self.retry.run(read)

    def metadata(self, file: IndexFile) -> Message:
        """The METADATA of a wheel: the index's copy if it has one, else from the wheel.

        It is read once: do not change it.
        """
        if file.url not in self._metadata:
            self._metadata[file.url] = self._read_metadata(file)
        return self._metadata[file.url]

    def _read_metadata(self, file: IndexFile) -> Message:
        if file.metadata_url:
            text = self.transfer.read(self.remote(file, file.metadata_url), LONGEST)
        else:
            with self.opened(file) as wheel, inside.members(wheel, file.file) as files:
                text = inside.metadata_of(files, file.file).content()
        message = BytesParser().parsebytes(text, headersonly=True)
        if not message["Name"]:
            raise IndexUnavailable(
                f"{file.distribution}: the index's METADATA of {file.file} is invalid", _ASK
            )
        return message

    def text(self, file: IndexFile, name: str) -> str | None:
        """A member of a file, read once; None if it has none of this name.

        A large wheel's directory alone is megabytes, in blocks.
        """
        key = (file.url, name)
        if key not in self._texts:
            with self.opened(file) as content, inside.members(content, file.file) as files:
                found = [m.content().decode(errors="replace") for m in files if m.name == name]
            self._texts[key] = found[0] if found else None
        return self._texts[key]

    def uploaded(self, file: IndexFile) -> int:
        """The upload time in seconds since 1970.

        That of the newest member if the index states none.
        """
        if file.uploaded is not None:
            return file.uploaded
        with self.opened(file) as content, inside.members(content, file.file) as files:
            return max((member.modified for member in files), default=EARLIEST)

    @contextmanager
    def opened(self, file: IndexFile) -> Iterator[BinaryIO]:
        """A seekable file.

        Of a large file, only the parts that are read are fetched, and not checked.
        """
        size = self.size(file)
        if size <= _WHOLE:
            yield io.BytesIO(self.content(file))
        elif file.url.startswith("file:"):  # without ranges, all of it would be read into memory
            from unearth.utils import url_to_path

            with open_plain(url_to_path(file.url)) as local:
                yield local
        else:
            yield cast(
                BinaryIO,
                inside.RemoteFile(size, partial(self.part, file), partial(self.content, file)),
            )

    def content(self, file: IndexFile) -> bytes:
        """The content of a small file; HashMismatch if the index states another sha256."""
        content = self.transfer.read(self.remote(file), min(self.size(file), _MOST))
        digest = hashlib.sha256(content).hexdigest()
        if file.sha256 and digest != file.sha256:
            cause = f"{file.distribution}: {file.file} is not what the index says:"
            raise HashMismatch(f"{cause}\n  stated {file.sha256}\n  read   {digest}", _ASK)
        return content

    def part(self, file: IndexFile, start: int, length: int) -> bytes | None:
        """Some bytes of a file; None from a server without ranges."""
        return self.transfer.part(self.remote(file), start, length)

    def stream(
        self, file: IndexFile, offset: int = 0
    ) -> AbstractContextManager[tuple[bool, int | None, Iterator[bytes]]]:
        """The content of a file from ``offset`` on, as `Transfer.stream`."""
        return self.transfer.stream(self.remote(file), offset)

    def _listed(self, name: str) -> list[IndexFile]:
        from unearth import PackageFinder

        from ctk.index.client import Pages

        pages = Pages(self._client, self.retry, name)
        places = [("index_urls", url) for url in self.settings.index_urls]
        places += [("find_links", url) for url in self.settings.find_links]
        packages: list[Package] = []
        try:
            for kind, url in places:
                # Answers of httpx2, also of unearth's own client, do not fit unearth's protocol.
                source = PackageFinder(
                    pages,  # type: ignore[arg-type]
                    ignore_compatibility=True,
                    **{kind: [url]},  # type: ignore[arg-type]
                )
                found = list(source.find_all_packages(name, allow_yanked=True))
                if url.lower().startswith("http") and any(
                    package.link.is_file for package in found
                ):
                    raise IndexUnavailable(
                        f"a server's page of {name} leads to a file of this machine", _ASK
                    )
                packages += found
            self._refusals[name] = pages.refusals
            packages.sort(
                key=lambda p: (not p.link.is_yanked, Version(p.version or "0")), reverse=True
            )
            return [_offered(name, p) for p in packages]
        except _NO_PAGE as error:
            raise IndexUnavailable(
                f"the package index's page of {name} cannot be read: {describe(error)}",
                "ask whoever runs the index; `pip download` fails with it too",
            ) from error

    def remote(self, file: IndexFile, url: str | None = None) -> Remote:
        """A file, or another one about it, for a `Transfer`."""
        from ctk.index.transfer import Remote

        lost = f"{file.distribution}: the index lists {file.file} but does not have it"
        what = f"{file.distribution} ({file.file})"
        return Remote(what, url or file.url, lambda: NotPublished(lost, _ASK))
