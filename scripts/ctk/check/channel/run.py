"""Checking a whole channel, several packages at once, each read as a stream."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ctk.channel.names import clashes
from ctk.check.channel.attestations import Policy, Verified, Verifier
from ctk.check.channel.contents import check_package
from ctk.check.channel.index import look
from ctk.check.channel.problem import CheckReport, Problem
from ctk.core.errors import UnknownName


def check_channel(
    channel: Path,
    *,
    policy: Policy | None = None,
    taken: Mapping[str, str] | None = None,
    jobs: int = 2,
    progress: Callable[[str], None] = lambda name: None,
) -> CheckReport:
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
    seen, verifier = look(channel), Verifier(policy or Policy())

    def check(name: str) -> tuple[list[Problem], list[Verified], bool]:
        record = seen.records[name]
        problems = list(check_package(channel, name, record, seen.run_exports.get(name)))
        sound = not any(problem.check in ("file", "sbom") for problem in problems)
        found = list(verifier.check(channel, name, record))
        progress(name)
        return (
            [*problems, *(f for f in found if isinstance(f, Problem))],
            [f for f in found if isinstance(f, Verified)],
            sound,
        )

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = list(pool.map(check, sorted(seen.records, key=lambda name: -_size(seen.records[name]))))
    problems = [*seen.problems, *(p for found, _, _ in results for p in found)]
    names = {n: r["sha256"] for n, r in seen.records.items() if isinstance(r.get("sha256"), str)}
    problems += [
        Problem(c.file, "name", f"published with sha256 {c.published}, this one has {c.ours}")
        for c in clashes(names, taken or {})
    ]
    return CheckReport(
        tuple(sorted(problems)),
        len(seen.records),
        sum(_size(record) for record in seen.records.values()),
        sum(good for _, _, good in results),
        dict(Counter(f"{a.signer}, for {a.channel or 'no channel'}" for _, found, _ in results for a in found)),
        time.monotonic() - start,
    )


def _size(record: Mapping[str, Any]) -> int:
    size = record.get("size")
    return size if isinstance(size, int) else 0
