"""Runs the stations one after another for one request: fetch, build, stage, audit, test, publish."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ctk.base import base
from ctk.build import build
from ctk.build.cluster import Cluster
from ctk.build.runner import check_machine, machine_paths
from ctk.channel import package_tests, states
from ctk.check.audit import AuditReport, audit_packages
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter, megabytes
from ctk.core.errors import AuditFailed, BuildFailed
from ctk.core.files import publishing
from ctk.core.platforms import this_platform
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.lock.lock import Artefact
from ctk.plan.plan import Plan


@dataclass(frozen=True)
class Stage:
    """Wall time of one station, and a note on what it did."""

    name: str
    seconds: float
    note: str


@dataclass(frozen=True)
class Result:
    """The state of the channel that a run published, and the reports of its stations."""

    staged: states.Staged
    built: build.BuildReport
    audit: AuditReport
    tests: tuple[package_tests.Outcome, ...]
    stages: tuple[Stage, ...]

    def as_json(self, plan: Plan) -> dict[str, Any]:
        """The run for other programs; sizes in bytes, times in seconds."""
        return {
            "channel": str(self.staged.channel),
            "changed": self.staged.changed,
            "packages": dict(self.staged.packages),
            "size": self.staged.size,
            "builds": [
                {
                    "id": b.id,
                    "packages": [f"{p.parent.name}/{p.name}" for p in b.packages],
                    "size": b.size,
                    "unchanged": b.cached,
                    "seconds": None if b.cached else round(b.seconds, 2),
                }
                for b in self.built.built
            ],
            "left_out": [{"id": x.id, "reason": x.reason} for x in plan.left_out],
            "tests": [asdict(outcome) for outcome in self.tests],
            "audit": self.audit.as_json(),
            "stages": [asdict(stage) for stage in self.stages],
        }


class Clock:
    """Reports and collects the wall times of stations."""

    def __init__(self, report: Reporter) -> None:
        self.stages: list[Stage] = []
        self._report = report
        self._start = time.monotonic()

    def lap(self, name: str, note: str) -> None:
        now = time.monotonic()
        self.stages.append(Stage(name, now - self._start, note))
        self._report.say(f"{name}: {note} ({now - self._start:.1f} s)")
        self._start = now


def make_base(workspace: Workspace, report: Reporter, *, level: int, jobs: int) -> Path:
    """Makes the base channel for this machine; returns its folder."""
    clock = Clock(report)
    planned = base.plan_base(workspace)
    made = _fetch_and_build(planned, workspace, report, clock, level, jobs, prefix="base ")
    staged = states.stage(made.built, workspace.base_channel)
    states.commit(staged)
    clock.lap("base channel", f"{sum(staged.packages.values())} packages")
    return workspace.base_channel


def run(
    plan: Plan,
    workspace: Workspace,
    report: Reporter,
    base_channel: Path | str,
    *,
    channel_folder: Path | None = None,
    level: int = 3,
    jobs: int | None = None,
    cluster: Cluster | None = None,
) -> Result:
    """Builds a plan and publishes it, if every package passes the audit and its own tests.

    Raises:
        BuildFailed, ClusterFailed, AuditFailed, NoSpace: The channel in place stays as it was.
        Busy: Another run publishes there for too long.
    """
    jobs = jobs or os.cpu_count() or 1
    clock = Clock(report)
    made = _fetch_and_build(plan, workspace, report, clock, level, jobs, cluster)
    target = channel_folder or workspace.channel
    with publishing(target, report.say):  # nobody else replaces what this one is made from
        staged = states.stage(made.built, target)
        clock.lap("index", f"{sum(staged.packages.values())} packages" + ("" if staged.changed else ", unchanged"))
        audited = audit_packages(
            states.packages(staged.path),
            forbidden_paths=machine_paths(workspace),
            base=states.packages(base_channel) if isinstance(base_channel, Path) else (),
            jobs=jobs,
            cache=workspace.cache / "audit",
        )
        clock.lap("audit", audited.summary())
        if not audited.ok:
            raise AuditFailed(
                "\n".join(["the audit found:", *(f"  {f}" for f in audited.errors)]),
                "mend the recipes; the channel in place was not changed",
            )
        tested = package_tests.run_tests(
            made.built, [staged.path, base_channel], jobs=jobs, progress=lambda outcome: _say(outcome, report)
        )
        failed = [o for o in tested if o.state == "failed"]
        counts = {s: sum(o.state == s for o in tested) for s in ("passed", "unchanged", "not run", "failed")}
        clock.lap("package tests", ", ".join(f"{n} {s}" for s, n in counts.items() if n) or "none")
        if failed:
            raise BuildFailed(
                "\n".join(f"{o.package}: its tests failed\n{o.detail}" for o in failed),
                "mend the recipes; the channel in place was not changed",
            )
        states.commit(staged)
        clock.lap("publish", f"{megabytes(staged.size)} MB in {target}" + ("" if staged.changed else ", unchanged"))
    return Result(staged, made, audited, tuple(tested), tuple(clock.stages))


def _fetch_and_build(
    plan: Plan,
    workspace: Workspace,
    report: Reporter,
    clock: Clock,
    level: int,
    jobs: int,
    cluster: Cluster | None = None,
    prefix: str = "",
) -> build.BuildReport:
    earlier = build.finished(plan, workspace, level=level, jobs=jobs, damaged=report.say)
    todo = replace(plan, builds=tuple(b for b in plan.builds if b.id not in earlier))
    if todo.builds and not cluster:
        check_machine(workspace)  # before gigabytes are fetched
    if todo.artefacts:
        fetch_plan(todo, workspace, report, clock, prefix)
    with report.task(f"{prefix}build", len(plan.builds)) as task:
        made = build.run(
            plan,
            workspace,
            earlier=earlier,
            level=level,
            jobs=jobs,
            cluster=cluster,
            progress=lambda build_id, outcome: task.advance(
                1, "" if outcome == "unchanged" and not report.verbose else f"{build_id} {outcome}"
            ),
        )
    fresh = sum(not b.cached for b in made.built)
    clock.lap(f"{prefix}build", f"{fresh} built, {len(made.built) - fresh} unchanged, {len(made.failed)} failed")
    if made.failed:
        raise BuildFailed(
            "\n".join(f.message for f in made.failed),
            "mend the recipe; what was built is kept, and the channel in place was not changed",
        )
    return made


def fetch_plan(
    plan: Plan, workspace: Workspace, report: Reporter, clock: Clock, prefix: str = ""
) -> Sequence[Artefact]:
    """Fetches what a plan reads; returns what was not there before."""
    wanted = fetch.missing(plan.artefacts, workspace)
    for artefact in wanted:
        if fetch.stored(artefact, workspace).exists():
            report.say(f"{prefix}fetch: {artefact.file} in the cache is damaged; it is fetched again")
    total = sum(a.size for a in wanted)
    with report.task(f"{prefix}fetch", total, bytes_=True) as task:
        fetch.fetch(
            plan.artefacts,
            workspace,
            Index,
            progress=lambda artefact, received: task.advance(received),
            needed_by=plan.needed_by,
        )
    note = f"{len(wanted)} of {len(plan.artefacts)} artefacts, {megabytes(total)} MB"
    clock.lap(f"{prefix}fetch", note if wanted else f"all {len(plan.artefacts)} artefacts are in the cache")
    return wanted


def _say(outcome: package_tests.Outcome, report: Reporter) -> None:
    reason = f": {outcome.detail}" if outcome.state == "not run" else ""
    say = report.say if outcome.state in ("passed", "failed") else report.detail
    say(f"package tests: {outcome.package} {outcome.state}{reason}")


def default_platforms(platforms: Sequence[str]) -> Sequence[str]:
    """This machine's platform, unless others are asked for."""
    return platforms or [this_platform()]
