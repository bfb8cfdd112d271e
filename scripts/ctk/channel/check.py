"""Whether a channel, in a folder or on a server, is what its index says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from ctk.channel.attestations import Policy, Verifier
from ctk.channel.check_index import IndexFiles, IndexIsConsistent, Orphans
from ctk.channel.check_package import ChannelPackage, PackageFile
from ctk.channel.history import STATES
from ctk.channel.publish import FIELD, HISTORY, SIDECAR, TIMES, Folder
from ctk.channel.repodata import FILES, STATED, named_shards
from ctk.core.address import real
from ctk.core.errors import ChannelBroken, ChannelMissing, PublishFailed, describe, without_credentials
from ctk.core.files import disk_errors, held
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.index import IndexSettings
from ctk.index.client import connection
from ctk.rules import Check, Finding, Report


@dataclass(frozen=True)
class ChannelReport(Report):
    """The outcome of a check of a channel; `attestations` counts the verified ones by signer."""

    size: int = 0
    sboms: int = 0
    attestations: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "problems": self.rows(package="where", check="check", what="message"),
            "packages": self.subjects,
            "size": self.size,
            "sboms": self.sboms,
            "attestations": dict(self.attestations),
            "seconds": self.seconds,
        }


def check_channel(
    channel: Path,
    *,
    policy: Policy | None = None,
    jobs: int = 2,
) -> ChannelReport:
    """Looks at every file of a channel.

    Raises:
        ChannelMissing: There is no such folder.
    """
    start = time.monotonic()
    if not channel.is_dir():
        raise ChannelMissing.of(channel)
    index = IndexFiles(channel)
    packages = [ChannelPackage(channel, n, record, index.run_exports.get(n)) for n, record in index.records.items()]
    of_index = (IndexIsConsistent, Orphans)
    of_package = (PackageFile, Check("attestation", ChannelPackage, Verifier(policy or Policy()).check))

    def look(package: ChannelPackage) -> list[Finding]:
        return [finding for rule in of_package for finding in rule(package)]

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = list(pool.map(look, sorted(packages, key=lambda package: -package.size)))
    verified = Counter(finding.message for found in results for finding in found if finding.severity == "ok")
    problems = [finding for found in results for finding in found if finding.severity == "error"]
    problems += [finding for rule in of_index for finding in rule(index)]
    return ChannelReport.of(
        problems,
        (*of_index, *of_package),
        len(packages),
        start,
        size=sum(package.size for package in packages),
        sboms=sum(not any(finding.check in ("file", "sbom") for finding in found) for found in results),
        attestations=dict(verified),
    )


_INDEX = 1 << 28  # bytes; an index is smaller
_SIDECAR = 8 << 20  # bytes of one, and of a shard


@contextmanager
def mirrored(url: str, beside: Path, jobs: int = 4) -> Iterator[Path]:
    """A folder with everything that the index of a channel names, for as long as the block lasts.

    What the server does not have is not in it, and what is larger than the index says is cut off one byte later: the
    check then says so. The folder is made in `beside`, and takes as much space as the channel.

    Raises:
        PublishFailed: The server does not answer.
        IndexUnavailable: The proxy or the certificates of the environment cannot be used.
        NoSpace: The disk is full.
    """
    with (
        disk_errors(beside),
        held(beside) as folder,
        httpx2.Client(**connection(IndexSettings()), follow_redirects=True, timeout=60) as client,
        ThreadPoolExecutor(max(1, jobs)) as pool,
    ):

        def get(wanted: Iterable[tuple[str, int]]) -> None:
            list(pool.map(lambda one: _download(client, url.rstrip("/"), one[0], folder, one[1]), wanted))

        subdirs = (NOARCH, *PLATFORMS)
        index = [f"{subdir}/{name}" for subdir in subdirs for name in FILES]
        get((name, _INDEX) for name in (*index, f"{HISTORY}/{STATES}", f"{HISTORY}/{TIMES}"))
        get((f"{subdir}/{file}", _SIDECAR) for subdir in subdirs for file in named_shards(folder / subdir).values())
        with suppress(ChannelBroken):
            if state := Folder(folder, folder).history().shown:
                kept = [f"{HISTORY}/{state.number}/{subdir}/{name}" for subdir in subdirs for name in STATED]
                get((name, _INDEX) for name in kept)
        get(_named(IndexFiles(folder)))
        yield folder


def _named(index: IndexFiles) -> Iterator[tuple[str, int]]:
    """What an index names, with the most bytes that each can have."""
    for name, record in index.records.items():
        size, digest = record.get("size"), record.get(FIELD)
        yield name, size if isinstance(size, int) and size >= 0 else 0
        if isinstance(digest, str) and digest.isalnum():
            yield from ((f"{name}{SIDECAR}", _SIDECAR), (f"{name}{SIDECAR}.{digest}", _SIDECAR))


def _download(client: Any, url: str, name: str, folder: Path, most: int) -> None:
    path, left = folder / name, most + 1
    try:
        with client.stream("GET", f"{real(url)}/{name}") as answer:
            if answer.status_code in (403, 404):  # object stores say 403 for what they do not have
                return
            answer.raise_for_status()
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for chunk in answer.iter_raw():
                    file.write(chunk[:left])
                    left -= len(chunk)
                    if left <= 0:
                        return
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise PublishFailed(
            f"{without_credentials(url)} does not give {name}: {describe(error)}", "check the URL and the network"
        ) from None
