"""The plan as jobs for machines that know nothing of one another: one for each release lock and platform."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ctk.build.runner import build_key
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Plan, Request, Set, choose_locks, plan


@dataclass(frozen=True)
class Job:
    """One run of ``ctk build``.

    Attributes:
        id: Such as ``cuda-13.4-linux-64`` or ``python-13-win-64``.
        release: Name of the release lock.
        platform: The subdir.
        builds: How many builds it makes.
        packages: How many packages.
        read: Bytes of the artefacts that it reads.
        key: Digest of all that can change its packages: two jobs with one key make the same.
    """

    id: str
    release: str
    platform: str
    builds: int
    packages: int
    read: int
    key: str


def jobs(what: Set, request: Request, python_tags: Sequence[str], level: int = 3) -> tuple[Job, ...]:
    """A job for each release lock and platform of a request that makes a package which no job before it makes.

    What is the same on all platforms is in the job of each: a job is whole without the others.

    Args:
        what: The recipes and release locks.
        request: Narrows them. A minor brings the Python projects of its CUDA major, as a job of their own.
        python_tags: The Pythons of the matrix.
        level: zstd level of the packages, a part of the key.

    Raises:
        UnknownName, RecipeError: As `ctk.plan.plan.plan`.
    """
    made = []
    # What serves an older release comes with that one's job, and is no job of its own.
    asked = choose_locks(what.locks, request.releases)
    planned = {b.lock for b in plan(what, request, python_tags).builds}
    for release in (name for name in what.locks if name in asked and name in planned):
        known: set[str] = set()
        for platform in request.platforms or PLATFORMS:
            part = plan(what, replace(request, releases=[release], platforms=[platform]), python_tags)
            packages = {f"{o.subdir}/{o.file_name}" for b in part.builds for o in b.outputs}
            if not packages <= known:
                made.append(_job(release, platform, part, level))
            known |= packages
    return tuple(made)


def _job(release: str, platform: str, part: Plan, level: int) -> Job:
    digest = hashlib.sha256("\n".join(sorted(build_key(b, level) for b in part.builds)).encode())
    return Job(
        id=f"{release}-{platform}",
        release=release,
        platform=platform,
        builds=len(part.builds),
        packages=sum(len(b.outputs) for b in part.builds),
        read=sum(a.size for a in part.artefacts),
        key=digest.hexdigest()[:32],
    )


def github_matrix(found: Iterable[Job], runner: Callable[[str], str], options: str) -> str:
    """The jobs as the value of a workflow's ``strategy.matrix``: JSON on one line.

    Args:
        found: The jobs.
        runner: Platform -> label of the machine.
        options: Added to the options of ``ctk build`` for each job.
    """
    include = [
        {
            "id": job.id,
            "runner": runner(job.platform),
            "options": " ".join(filter(None, (f"--release {job.release} --platform {job.platform}", options))),
            "release": job.release,
            "platform": job.platform,
            "builds": job.builds,
            "packages": job.packages,
            "megabytes": round(job.read / 1e6),
            "key": job.key,
        }
        for job in found
    ]
    return json.dumps({"include": include}, separators=(",", ":"))
