"""Whether a channel is what its index says: `check_channel` looks at every file of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctk.channel.folder import clashes
from ctk.check.channel.attestations import Policy, Verifier
from ctk.check.channel.index import IndexFiles, IndexIsConsistent, Orphans
from ctk.check.channel.package import ChannelPackage, PackageFile
from ctk.check.framework import Check, Finding, Report
from ctk.core.errors import UnknownName

__all__ = ["ChannelReport", "check_channel"]


@dataclass(frozen=True)
class ChannelReport(Report):
    """The outcome of a check of a channel; its subjects are the packages that the index names.

    Attributes:
        size: Their bytes.
        sboms: How many of them carry one that is right.
        attestations: Signer -> how many attestations of theirs were verified.
    """

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
    taken: Mapping[str, str] | None = None,
    jobs: int = 2,
    progress: Callable[[str], None] = lambda name: None,
) -> ChannelReport:
    """Looks at every file of a channel.

    Args:
        channel: Its folder, which does not change meanwhile.
        policy: What attestations have to be.
        taken: ``subdir/file`` -> sha256 of what was published, to be compared by name.
        jobs: Packages read at once.
        progress: Told of each package, from several threads.

    Raises:
        UnknownName: There is no such folder.
    """
    start = time.monotonic()
    if not channel.is_dir():
        raise UnknownName(f"there is no channel {channel}", "name a built channel, or a folder that was published to")

    def reused(index: IndexFiles) -> Iterator[Finding]:
        names = {n: r["sha256"] for n, r in index.records.items() if isinstance(r.get("sha256"), str)}
        for clash in clashes(names, taken or {}):
            yield Finding(clash.file, f"published with sha256 {clash.published}, this one has {clash.ours}")

    index = IndexFiles(channel)
    packages = [ChannelPackage(channel, n, record, index.run_exports.get(n)) for n, record in index.records.items()]
    of_index = (IndexIsConsistent, Orphans, Check("name", IndexFiles, reused))
    of_package = (PackageFile, Check("attestation", ChannelPackage, Verifier(policy or Policy()).check))

    def look(package: ChannelPackage) -> list[Finding]:
        found = [finding for rule in of_package for finding in rule(package)]
        progress(package.name)
        return found

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
