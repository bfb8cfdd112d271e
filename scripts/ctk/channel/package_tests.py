"""Runs the tests that packages carry, in environments made from the channel that is about to be published.

What a package must contain was checked by rattler-build while it was built; these are the imports and commands. They
run for packages of this machine's platform whose Python the base channel has.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import rattler_build
from rattler import Gateway

from ctk.build.runner import Built
from ctk.core.errors import Unsolvable
from ctk.core.files import disk_errors, full_disk, read_json
from ctk.core.platforms import NOARCH, this_platform
from ctk.solve.machine import detected
from ctk.solve.solve import Scenario, channel_url, solve

_PASSED = ".tests.json"


@dataclass(frozen=True)
class Outcome:
    """What became of a package's tests."""

    package: str  # file name
    state: str  # passed, failed, unchanged (passed in an earlier run) or not run
    detail: str = ""  # output of a failed test, or why nothing ran


def run_tests(
    built: Iterable[Built],
    channels: Sequence[Path | str],
    *,
    jobs: int = 2,
    progress: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Tests every package that has tests and can be installed here, from the staged and the base channel.

    Raises:
        NoSpace: A disk is full: that of the packages, or where temporary files are.
    """
    gateway = Gateway()
    here = (this_platform(), NOARCH)
    tested = [(build, name) for build in built for name in build.tests if name.split("/")[0] in here]

    def one(item: tuple[Built, str]) -> Outcome:
        outcome = _test(*item, channels, gateway)
        progress(outcome)
        return outcome

    with disk_errors(Path(tempfile.gettempdir())), ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, tested))


def _test(build: Built, name: str, channels: Sequence[Path | str], gateway: Gateway) -> Outcome:
    file, record = build.home / name, build.records[name]
    passed = file.with_name(f"{file.name}{_PASSED}")  # the sha256 of the package whose tests passed
    if read_json(passed) == record["sha256"]:
        return Outcome(file.name, "unchanged")
    spec = f"{record['name']} =={record['version']} {record['build']}"
    try:
        # With this machine's driver and GPU, as rattler-build solves it for the test itself.
        solve(Scenario((spec,), this_platform(), *detected(this_platform())), channels, gateway)
    except Unsolvable as error:
        missing = error.cause.splitlines()[-1].strip("│└├─ ").removesuffix(", for which no candidates were found.")
        whose = "this machine has" if missing.startswith("__cuda") else "the channels here have"
        return Outcome(file.name, "not run", f"{whose} no {missing}")
    cause = ""
    try:
        results = rattler_build.Package.from_file(file).run_tests(channel=[channel_url(c) for c in channels])
        log = [line for result in results if not result.success for line in [*result.output][-30:]]
        is_passed = all(result.success for result in results)
    except rattler_build.RattlerBuildError as error:
        cause, log, is_passed = f"{build.id}: {error}", getattr(error, "log", []), False
    if is_passed:
        passed.write_text(json.dumps(record["sha256"]))
        return Outcome(file.name, "passed")
    if (full := full_disk("\n".join([cause, *log]), Path(tempfile.gettempdir()))) is not None:
        raise full
    return Outcome(file.name, "failed", "\n".join([*([cause] if cause else []), *log[-30:]]))
