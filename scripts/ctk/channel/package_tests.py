"""Runs the tests that packages carry, in environments made from the channel that is about to be published.

What a package must contain was checked by rattler-build while it was built; these are the imports and commands. They
run for packages of this machine's platform whose Python the base channel has.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import rattler_build
from pydantic import TypeAdapter, ValidationError
from rattler import Gateway

from ctk.build.runner import Built
from ctk.core.errors import Unsolvable
from ctk.core.files import disk_errors, full_disk, read_json
from ctk.core.platforms import NOARCH, this_platform
from ctk.package.package import read_info
from ctk.solve.machine import detected
from ctk.solve.solve import Scenario, channel_url, solve

_NOTE = ".tests.json"


@dataclass(frozen=True)
class Outcome:
    """What became of a package's tests.

    Attributes:
        package: File name.
        state: ``passed``, ``failed``, ``unchanged`` (passed in an earlier run) or ``not run``.
        detail: Output of a failed test, or why nothing ran.
    """

    package: str
    state: str
    detail: str = ""


def run_tests(
    built: Iterable[Built],
    channels: Sequence[Path | str],
    *,
    jobs: int = 2,
    progress: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Tests every package that has tests and can be installed here.

    Args:
        built: Finished builds.
        channels: The staged channel and the base channel.
        jobs: Parallel tests.
        progress: Told of each outcome.

    Raises:
        NoSpace: A disk is full: that of the packages, or where temporary files are.
    """
    gateway = Gateway()
    here = (this_platform(), NOARCH)
    packages = [(b, b.home / name, sha) for b in built for name, sha in b.sha256.items() if name.split("/")[0] in here]

    def one(item: tuple[Built, Path, str]) -> Outcome | None:
        build, file, sha256 = item
        note = _note(file, sha256)
        if not note.tests:
            return None
        outcome = _test(build, file, note, channels, gateway)
        progress(outcome)
        return outcome

    with disk_errors(Path(tempfile.gettempdir())), ThreadPoolExecutor(jobs) as pool:
        return [o for o in pool.map(one, packages) if o]


@dataclass(frozen=True)
class _Note:
    """What is kept beside a package, so that it need not be opened again.

    Attributes:
        sha256: Of the package that it is about.
        spec: Asks for exactly this package.
        tests: How many it has.
        passed: Whether they passed.
    """

    sha256: str
    spec: str
    tests: int
    passed: bool = False


_ADAPTER = TypeAdapter(_Note)


def _note(file: Path, sha256: str) -> _Note:
    with suppress(ValidationError):
        kept = _ADAPTER.validate_python(read_json(file.with_name(f"{file.name}{_NOTE}")))
        if kept.sha256 == sha256:
            return kept
    info = read_info(file)
    note = _Note(sha256, f"{info.index.name} =={info.index.version} {info.index.build}", info.tests)
    _keep(file, note)
    return note


def _keep(file: Path, note: _Note) -> None:
    file.with_name(f"{file.name}{_NOTE}").write_text(json.dumps(asdict(note)))


def _test(build: Built, file: Path, note: _Note, channels: Sequence[Path | str], gateway: Gateway) -> Outcome:
    if note.passed:
        return Outcome(file.name, "unchanged")
    try:
        # With this machine's driver and GPU, as rattler-build solves it for the test itself.
        solve(Scenario((note.spec,), this_platform(), *detected(this_platform())), channels, gateway)
    except Unsolvable as error:
        missing = error.cause.splitlines()[-1].strip("│└├─ ").removesuffix(", for which no candidates were found.")
        whose = "this machine has" if missing.startswith("__cuda") else "the channels here have"
        return Outcome(file.name, "not run", f"{whose} no {missing}")
    try:
        results = rattler_build.Package.from_file(file).run_tests(channel=[channel_url(c) for c in channels])
    except rattler_build.RattlerBuildError as error:
        return _failed(file, f"{build.id}: {error}", getattr(error, "log", []))
    failed = [r for r in results if not r.success]
    if failed:
        return _failed(file, "", [line for r in failed for line in [*r.output][-30:]])
    _keep(file, replace(note, passed=True))
    return Outcome(file.name, "passed")


def _failed(file: Path, cause: str, log: Sequence[str]) -> Outcome:
    if (full := full_disk("\n".join([cause, *log]), Path(tempfile.gettempdir()))) is not None:
        raise full
    return Outcome(file.name, "failed", "\n".join([*([cause] if cause else []), *log[-30:]]))
