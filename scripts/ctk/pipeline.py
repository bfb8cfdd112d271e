"""Runs the steps of `ctk build`: fetch, build, audit, index, test, publish."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import rattler_build
from packaging.version import Version
from rattler import Gateway

from ctk.audit import AuditReport, audit_packages
from ctk.authors.build_log import what_test_failed
from ctk.base import base
from ctk.build import build
from ctk.build.cluster import Cluster
from ctk.build.finished import Built, finished
from ctk.build.one import machine_paths, temporary_files
from ctk.build.runner import refuse_machine
from ctk.channel import local
from ctk.channel.distribution import package_name
from ctk.clean import forget_older, trim
from ctk.core.address import open_gateway
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter, listing, megabytes
from ctk.core.disk import disk_errors, full_disk
from ctk.core.errors import AuditFailed, BuildFailed, Unsolvable
from ctk.core.files import HashNotes, read_json
from ctk.core.locks import publishing
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.core.pool import ProcessPool
from ctk.fetch import fetch
from ctk.fetch.derive import derive, tools_for
from ctk.fetch.mirror import mirrored
from ctk.index.index import Index
from ctk.lock.model import Artefact
from ctk.plan.plan import Plan
from ctk.plan.recipes import Recipe, find_recipes, maker_of
from ctk.solve.machine import detected
from ctk.solve.solve import Scenario, channel_url, solve

_FIX = "fix the recipes; the channel in place was not changed"
_FIX_BASE = "use another Python, or `--base conda-forge`; the base channel was not changed"


@dataclass(frozen=True)
class Result:
    """The state of the channel that a run published, and the reports of its steps."""

    staged: local.Staged
    built: build.BuildReport
    audit: AuditReport
    tests: Sequence[Outcome]
    stages: Sequence[dict[str, Any]]
    # Ids of builds of earlier runs that lost a package, or that the audit refuses now.
    dropped: Sequence[str]

    def as_json(self, plan: Plan) -> dict[str, Any]:
        """The document of `ctk build --json`; sizes in bytes, times in seconds."""
        builds = [
            {
                "id": each.id,
                "packages": [f"{file.parent.name}/{file.name}" for file in each.packages],
                "size": each.size,
                "unchanged": each.cached,
                "seconds": None if each.cached else round(each.seconds, 2),
            }
            for each in self.built.built
        ]
        return {
            "channel": str(self.staged.channel),
            "changed": self.staged.changed,
            "packages": dict(self.staged.packages),
            "size": self.staged.size,
            "builds": builds,
            "left_out": [{"id": x.id, "reason": x.reason} for x in plan.left_out],
            "dropped": list(self.dropped),
            "tests": [asdict(outcome) for outcome in self.tests],
            "audit": self.audit.as_json(),
            "stages": self.stages,
        }


class Pipeline:
    """The steps of a run; each reports its wall time.

    Args:
        workspace: The checkout.
        report: Prints progress.
        jobs: Processes and threads at a time, by default one for each core.
        cluster: Runs the builds; by default this machine does.
        prefix: Put before the names of the steps.
    """

    def __init__(
        self,
        workspace: Workspace,
        report: Reporter,
        *,
        jobs: int | None = None,
        cluster: Cluster | None = None,
        prefix: str = "",
    ) -> None:
        self.workspace = workspace
        self.report = report
        self.cluster = cluster
        self.prefix = prefix
        self.jobs = jobs or os.cpu_count() or 1
        self.stages: list[dict[str, Any]] = []
        self._start = time.monotonic()

    def make_base(self) -> Path:
        """Builds and audits the base channel for this machine, and returns its folder.

        Packages of earlier builds that the audit refuses now leave it.

        Raises:
            BuildFailed, AuditFailed, NoSpace: The base channel stays as it was.
        """
        made = self._fetch_and_build(base.plan_base(self.workspace))
        dropped: list[str] = []
        while True:
            found = self._candidates(made, self.workspace.base_channel, dropped)
            audited = self._audited(found, ())
            refused = self._refused_now(found, audited)
            if not refused:
                break
            dropped += refused
        _refuse_findings(audited, _FIX_BASE)
        staged = local.stage(found)
        self._commit(staged, made)
        self._lap("channel", f"{sum(staged.packages.values())} packages")
        return self.workspace.base_channel

    def run(
        self, plan: Plan, base_channel: Path | str, channel_folder: Path | None = None
    ) -> Result:
        """Builds a plan and publishes its packages, if all pass the audit and their own tests.

        Packages of earlier builds that no recipe makes now, or that the audit refuses now, leave
        the channel.

        Raises:
            BuildFailed, ClusterFailed, AuditFailed, NoSpace: The channel stays as it was.
        """
        made = self._fetch_and_build(plan)
        target = channel_folder or self.workspace.channel
        # No other run may replace the state that this run adds to.
        with publishing(target, self.report.say):
            found, audited, dropped = self._audit(made, target, base_channel)
            staged = local.stage(found)
            unchanged = "" if staged.changed else ", unchanged"
            self._lap("index", f"{sum(staged.packages.values())} packages{unchanged}")
            tested = self._test(made, [staged.path, base_channel])
            self._commit(staged, made)
            self._lap("publish", f"{megabytes(staged.size)} MB in {target}{unchanged}")
        trim(self.workspace, {b.key for b in made.built})
        return Result(staged, made, audited, tested, self.stages, dropped)

    def fetch(self, plan: Plan) -> Sequence[Artefact]:
        """Fetches the artefacts of a plan; returns those that were not in the cache."""
        tools = tools_for(plan.derived, self.workspace)
        artefacts = [*plan.artefacts, *tools]
        wanted = fetch.missing(artefacts, self.workspace)
        total = sum(a.size for a in wanted)
        with self.report.task(f"{self.prefix}fetch", total, bytes_=True) as task:
            fetch.fetch(
                artefacts,
                self.workspace,
                Index,
                progress=lambda artefact, received: task.advance(received),
            )
        derive(plan.derived, self.workspace, Index)
        note = f"all {len(artefacts)} artefacts are in the cache"
        if wanted:
            note = f"{len(wanted)} of {len(artefacts)} artefacts, {megabytes(total)} MB"
        self._lap("fetch", note)
        return [artefact for artefact in wanted if artefact not in tools]

    def _fetch_and_build(self, plan: Plan) -> build.BuildReport:
        earlier = finished(plan, self.workspace, jobs=self.jobs)
        todo = replace(plan, builds=tuple(b for b in plan.builds if b.id not in earlier))
        if todo.builds and not self.cluster:
            refuse_machine(self.workspace)  # before gigabytes are fetched
        if todo.artefacts:
            self.fetch(todo)
        with self.report.task(f"{self.prefix}build", len(plan.builds), of="builds") as task:

            def progress(build_id: str, outcome: str) -> None:
                is_said = outcome != "unchanged" or self.report.verbose
                task.advance(1, f"{build_id} {outcome}" if is_said else "")

            made = build.run(
                plan,
                self.workspace,
                earlier=earlier,
                jobs=self.jobs,
                cluster=self.cluster,
                progress=progress,
            )
        fresh = sum(not b.cached for b in made.built)
        self._lap(
            "build",
            f"{fresh} built, {len(made.built) - fresh} unchanged, {len(made.failed)} failed",
        )
        if made.failed:
            raise BuildFailed(
                "\n".join(made.failed.values()),
                "fix the recipe; what was built is kept, and the channel in place was not changed",
            )
        return made

    def _audit(
        self, made: build.BuildReport, channel: Path, base_channel: Path | str
    ) -> tuple[local.Candidates, AuditReport, Sequence[str]]:
        """Audits the packages that the channel will have.

        Returns also the ids of earlier builds that leave it.
        """
        known = find_recipes(self.workspace.recipes)
        beside = local.packages(base_channel) if isinstance(base_channel, Path) else ()
        dropped: dict[str, None] = {}  # in the order in which they were said
        while True:
            found = self._candidates(made, channel, dropped)
            if gone := [build_id for build_id in found.gone if build_id not in dropped]:
                self.report.line(
                    f"lost from {channel} and the cache: {listing(gone)}; next:"
                    f" {_again(gone, known)}"
                )
                dropped |= dict.fromkeys(gone)
            if left := self._without_recipe(found, known):
                dropped |= dict.fromkeys(left)
                continue
            audited = self._audited(found, beside)
            refused = self._refused_now(found, audited)
            if not refused:
                break
            dropped |= dict.fromkeys(refused)
        _refuse_findings(audited, _FIX)
        return found, audited, [*dropped]

    def _without_recipe(self, found: local.Candidates, known: Mapping[str, Recipe]) -> list[str]:
        """The ids of builds of earlier runs that no recipe makes now, said in a line."""
        left = {}
        for name, build_id in found.earlier.items():
            if not maker_of(package_name(name), known):
                left[build_id] = name
        if left:
            names = listing([*left.values()], most=3)
            self.report.say(f"no recipe makes {names} of an earlier run now")
        return [*left]

    def _audited(self, found: local.Candidates, beside: Sequence[Path]) -> AuditReport:
        """Audits the packages of a channel's next state; they may depend on those in `beside`."""
        with self.report.reading(f"{self.prefix}audit", found.files.values()) as task:
            audited = audit_packages(
                [*found.files.values()],
                forbidden_paths=machine_paths(self.workspace),
                base=beside,
                jobs=self.jobs,
                cache=self.workspace.notes,
                earlier=not found.is_new,
                progress=task.advance,
            )
        self._lap("audit", audited.summary())
        return audited

    def _refused_now(self, found: local.Candidates, audited: AuditReport) -> list[str]:
        """The ids of builds of earlier runs that the audit refuses now, each said."""
        refused = [finding for finding in audited.errors if finding.where in found.earlier]
        for finding in refused:
            self.report.say(f"an earlier run built what the audit refuses now: {finding}")
        return [found.earlier[finding.where] for finding in refused]

    def _candidates(
        self, made: build.BuildReport, channel: Path, without: Collection[str] = ()
    ) -> local.Candidates:
        is_known = HashNotes.of(self.workspace).holds
        cache = self.workspace.builds
        return local.candidates(made.built, channel, is_known, without=without, cache=cache)

    def _test(self, made: build.BuildReport, channels: Sequence[Path | str]) -> Sequence[Outcome]:
        def say(outcome: Outcome) -> None:
            reason = f": {outcome.detail}" if outcome.state == "not run" else ""
            line = self.report.say if outcome.state in ("passed", "failed") else self.report.detail
            line(f"package tests: {outcome.package} {outcome.state}{reason}")

        forget_older(package for build in made.built for package in build.packages)
        tested = run_tests(
            made.built, channels, self.workspace, jobs=self.jobs, progress=say, say=self.report.say
        )
        numbers = Counter(outcome.state for outcome in tested)
        states = ("passed", "unchanged", "not run", "failed")
        counts = [f"{numbers[state]} {state}" for state in states if numbers[state]]
        self._lap("package tests", ", ".join(counts) or "none")
        failed: dict[str, list[str]] = {}  # the builds of a recipe fail alike
        for outcome in tested:
            if outcome.state == "failed":
                failed.setdefault(outcome.detail, []).append(outcome.package)
        if failed:
            lines = [
                f"{listing(names, most=3)}: its tests failed\n{detail}"
                for detail, names in failed.items()
            ]
            raise BuildFailed("\n".join(lines), _FIX)
        return tested

    def _commit(self, staged: local.Staged, made: build.BuildReport) -> None:
        local.commit(staged)
        digests = {}
        for each in made.built:
            for name, sha256 in each.sha256.items():
                digests[each.home / name] = sha256
        HashNotes.of(self.workspace).save(digests)

    def _lap(self, name: str, note: str) -> None:
        """Reports a step, and the wall time since the last step."""
        name = f"{self.prefix}{name}"
        now = time.monotonic()
        seconds = now - self._start
        self.stages.append({"name": name, "seconds": seconds, "note": note})
        self.report.say(f"{name}: {note} ({seconds:.1f} s)")
        self._start = now


def _refuse_findings(audited: AuditReport, step: str) -> None:
    """Raises AuditFailed if there are errors."""
    if not audited.ok:
        lines = [f"  {finding}" for finding in audited.errors]
        raise AuditFailed("\n".join(["the audit found:", *lines]), step)


def _again(lost: Sequence[str], known: Collection[str]) -> str:
    """The command that makes lost builds again.

    Args:
        lost: The ids of the builds, such as ``cuda-nvrtc-cuda12.4-linux-64``.
        known: The recipes; the id of a build begins with the name of its recipe.
    """
    recipes: list[str] = []
    releases: list[str] = []
    platforms: list[str] = []
    for build_id in lost:
        makers = [name for name in known if build_id.startswith(f"{name}-")]
        recipes.append(max(makers, key=len, default=""))
        if release := re.search(r"-cuda(\d+\.\d+)-", build_id):
            releases.append(f"--release {release[1]}")
        for name in PLATFORMS:
            if build_id.endswith(f"-{name}") and name != this_platform():
                platforms.append(f"--platform {name}")
    words = dict.fromkeys(recipes + releases + platforms)
    return f"ctk build {' '.join(words)}"


# --- the tests in packages
#
# rattler-build checked their contents during the build. Here are the imports and commands, in
# environments from the staged channel. They run for packages of this machine's platform whose
# Python the base channel has.

_PASSED = ".tests.json"
_PYTHON = re.compile(r"python(?:_abi)? \D*(\d+\.\d+)")
_Results = tuple[bool, list[str]]
"""Whether the tests of a package passed, and the lines of those that did not."""
_TEST_SIZE = 2 << 30  # bytes of temporary files of a test; numba-cuda's, the largest, has 0.9 GB


@dataclass(frozen=True)
class Outcome:
    """The outcome of a package's tests."""

    package: str  # file name
    state: str  # passed, failed, unchanged (passed in an earlier run) or not run
    detail: str = ""  # output of a failed test, or why no test was run
    missing: str = ""  # spec of a package that a test that was not run needs


def verdict(tests: Sequence[Outcome]) -> list[str]:
    """Sentences that count the outcomes of the packages' tests, and say whether all is well.

    A channel is for more drivers and Pythons than this machine has. Nothing else may be missing.
    """
    drivers, minors, others = _missing(tests)
    said = []
    not_run = sum(outcome.state == "not run" for outcome in tests)
    if tests:
        said.append(
            f"package tests: {len(tests) - not_run} of {len(tests)} passed, now or in an earlier"
            " run"
        )
    if drivers:
        said.append(
            f"- {drivers} not run: they need a driver or a GPU that this machine does not have"
        )
    if minors:
        names = ", ".join(sorted(set(minors), key=Version))
        said.append(
            f"- {len(minors)} not run: they need Python {names}, which the base channel does not"
            " have; with --base conda-forge, those that it has are run"
        )
    for spec, number in others.items():
        said.append(f"- {number} not run: the channels here have no {spec}")
    if others:
        said.append(
            "some packages cannot be installed from these channels: with --base, name one that has"
            " what they need"
        )
    elif not_run:
        said.append("no test failed; the tests that were not run are for other machines")
    elif tests:
        said.append("no test failed")
    return said


def _missing(tests: Sequence[Outcome]) -> tuple[int, list[str], Counter[str]]:
    """What the tests that were not run need.

    Returns how many need a driver or a GPU, the Python minors of those that need one, and how many
    need each other spec.
    """
    drivers = 0
    minors = []
    others: Counter[str] = Counter()
    for outcome in tests:
        if outcome.state != "not run":
            continue
        if outcome.missing.startswith("__cuda"):
            drivers += 1
        elif python := _PYTHON.match(outcome.missing):
            minors.append(python[1])
        else:
            others[outcome.missing] += 1
    return drivers, minors, others


def run_tests(
    built: Iterable[Built],
    channels: Sequence[Path | str],
    workspace: Workspace,
    *,
    jobs: int = 2,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """Tests every package that has tests and can be installed on this machine.

    `channels` are the staged and the base channel. `say` is told of another run, which is waited
    for.

    Raises:
        NoSpace: The disk of the packages or of temporary files is full.
        ChannelMissing, ChannelBroken, HashMismatch: A channel on a server lacks what a test needs.
    """
    gateway = open_gateway()
    subdirs = (this_platform(), NOARCH)
    with_tests = [(build, name) for build in built for name in build.tests]
    installable = [(build, name) for build, name in with_tests if name.split("/")[0] in subdirs]

    # Each test unpacks all packages of its environment again.
    with (
        temporary_files(workspace, _TEST_SIZE, jobs) as folder,
        disk_errors(folder),
        _testing(channels, workspace, jobs, say) as run_all,
        ThreadPoolExecutor(jobs) as pool,
    ):

        def test(package: tuple[Built, str]) -> Outcome:
            outcome = _test(*package, channels, gateway, run_all, folder)
            progress(outcome)
            return outcome

        return list(pool.map(test, installable))


@contextmanager
def _testing(
    channels: Sequence[Path | str], workspace: Workspace, jobs: int, say: Callable[[str], None]
) -> Iterator[Callable[[Path], _Results]]:
    """Gives what runs the tests of a package against channels.

    Channels on servers are read through our client. rattler-build holds the GIL while it tests: in
    threads, one package would wait for another, and nothing here would answer it.
    """
    with (
        mirrored([channel_url(channel) for channel in channels], workspace, say) as mirror,
        ProcessPool(jobs, _use, mirror.environment) as pool,
    ):

        def in_process(file: Path) -> _Results:
            is_passed, log = pool.submit(_results, file, mirror.urls).result()
            if not is_passed:
                mirror.raise_failure()
            return is_passed, [mirror.restored(line) for line in log]

        yield in_process


def _use(variables: Mapping[str, str]) -> None:
    os.environ.update(variables)


def _results(file: Path, urls: Sequence[str]) -> _Results:
    try:
        results = rattler_build.Package.from_file(file).run_tests(channel=[*urls])
    except rattler_build.RattlerBuildError as error:
        return False, [*getattr(error, "log", []), *str(error).splitlines()]
    failed = [result for result in results if not result.success]
    return not failed, [line for result in failed for line in result.output]


def _test(
    build: Built,
    name: str,
    channels: Sequence[Path | str],
    gateway: Gateway,
    run_all: Callable[[Path], _Results],
    temporary: Path,
) -> Outcome:
    file = build.home / name
    record = build.records[name]
    passed = file.with_name(f"{file.name}{_PASSED}")  # the sha256 of the package whose tests passed
    if read_json(passed) == record["sha256"]:
        return Outcome(file.name, "unchanged")
    spec = f"{record['name']} =={record['version']} {record['build']}"
    try:
        # With this machine's driver and GPU, as rattler-build solves it for the test itself.
        solve(Scenario((spec,), this_platform(), *detected(this_platform())), channels, gateway)
    except Unsolvable as error:
        missing = _missing_spec(error.solver)
        owner = "this machine has" if missing.startswith("__cuda") else "the channels here have"
        return Outcome(file.name, "not run", f"{owner} no {missing}", missing)
    is_passed, log = run_all(file)
    if is_passed:
        passed.write_text(json.dumps(record["sha256"]))
        return Outcome(file.name, "passed")
    text = "\n".join(log)
    if (full := full_disk(text, temporary)) is not None:
        raise full
    return Outcome(file.name, "failed", "\n".join(what_test_failed(text.splitlines())))


def _missing_spec(solver: str) -> str:
    """The spec that a request needs and no channel has, in the words of rattler's solver.

    The solver gives its cause in no other form: a tree, whose last line is such as ``└─ __cuda
    >=13.0, for which no candidates were found.``
    """
    last = solver.splitlines()[-1]
    return last.strip("│└├─ ").removesuffix(", for which no candidates were found.")
