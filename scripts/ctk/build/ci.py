"""The builds of a plan as jobs of a CI service: a matrix for GitHub, a child pipeline for GitLab.

A job makes all packages of a release for a platform, so it is whole without the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from ctk.build.finished import build_key
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Request, Set, choose_locks, plan


@dataclass(frozen=True)
class Job:
    """A release for a platform.

    Attributes:
        runner: Label of the machine.
        options: Of ``ctk build``.
        key: Digest of everything that can change its packages.
    """

    id: str
    runner: str
    options: str
    key: str


def ci_jobs(
    what: Set,
    request: Request,
    python_tags: Sequence[str],
    runner: Callable[[str], str],
    options: str,
) -> list[Job]:
    """A job for each release lock and platform of a request.

    There is none where earlier jobs make all its packages. Packages that are the same on all
    platforms are in each job.

    Args:
        what: Recipes and their locks.
        request: The builds that all jobs make together.
        python_tags: The Pythons of the matrix.
        runner: Platform -> label of the machine.
        options: Added to the options of ``ctk build`` for each job.
    """
    jobs = []
    # A build for an older release is in the job of that release.
    asked = choose_locks(what.locks, request.releases)
    planned = {b.lock for b in plan(what, request, python_tags).builds}
    for release in (name for name in what.locks if name in asked and name in planned):
        known: set[str] = set()
        for platform in request.platforms or PLATFORMS:
            builds = plan(
                what, replace(request, releases=[release], platforms=[platform]), python_tags
            ).builds
            packages = {f"{o.subdir}/{o.file_name}" for b in builds for o in b.outputs}
            if packages <= known:
                continue
            known |= packages
            keys = "\n".join(sorted(map(build_key, builds)))
            words = f"--release {release} --platform {platform} {options}".rstrip()
            key = hashlib.sha256(keys.encode()).hexdigest()[:32]
            jobs.append(Job(f"{release}-{platform}", runner(platform), words, key))
    return jobs


def github_matrix(jobs: Sequence[Job]) -> str:
    """The value of a workflow's ``strategy.matrix``, as JSON on one line."""
    return json.dumps({"include": [asdict(job) for job in jobs]}, separators=(",", ":"))


def gitlab_pipeline(jobs: Sequence[Job]) -> str:
    """The configuration of a child pipeline: JSON, and so YAML.

    It has neither ``needs`` (at most 50) nor ``parallel`` (at most 200).
    """
    template = {
        "stage": "build",
        # A package names the last commit of its recipe, which a shallow clone does not know.
        "variables": {"GIT_DEPTH": "0"},
        "script": [
            "./scripts/build $OPTIONS",
            ".venv/bin/ctk check",
            ".venv/bin/ctk check --rebuild 3",
        ],
    }
    pipeline: dict[str, object] = {".build": template}
    for job in jobs:
        pipeline[job.id] = {
            "extends": ".build",
            "tags": [job.runner],
            "variables": {"OPTIONS": job.options},
            "cache": {"key": f"builds-{job.id}-{job.key}", "paths": [".cache/builds"]},
        }
    return json.dumps(pipeline, indent=1)
