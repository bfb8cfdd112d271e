"""Judges the packages that `ctk build-recipe` made: what is wrong with each, and why a run fails.

A package is wrong if its log or its metadata shows a common mistake, if it needs a library that its
environment lacks, or if its metadata admits GPUs that it has no code for.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.authors.installable import Kind as PickKind
from ctk.authors.installable import Survey, take_survey
from ctk.authors.order import WRITE_TOOLKIT, major
from ctk.authors.run import Made, Tested
from ctk.core.console import count, listing
from ctk.core.errors import AuditFailed, BuildFailed, Unsolvable
from ctk.core.mistake import Mistake
from ctk.core.versions import version_key
from ctk.package.gpu_subject import Subject
from ctk.plan.messages import shown
from ctk.solve.reason import Kind, Reason
from ctk.solve.solve import Catalogue
from ctk.verify.scenarios import Matrix


@dataclass(frozen=True)
class Judged:
    """A package that was built, with what is known of it now.

    Attributes:
        package: The package.
        tests: Its results, one for each driver.
        code: The GPUs that it has code for.
    """

    package: Made
    tests: tuple[Tested, ...]
    code: Subject

    @property
    def name(self) -> str:
        """Name, version and build."""
        return self.package.file.stem

    @property
    def is_tested(self) -> bool:
        """Whether its tests have passed for a driver."""
        return any(tested.state == "passed" for tested in self.tests)

    @property
    def is_checked(self) -> bool:
        """Whether all of its tests are of its contents, and have passed."""
        states = {tested.state for tested in self.tests}
        return self.package.has_checked_contents and states <= {"none", "refused"}

    @property
    def mistakes(self) -> list[Mistake]:
        """What is wrong with it apart from its GPUs."""
        drivers = {mistake: tested.driver for tested in self.tests for mistake in tested.lacks}
        found = [*self.package.notes]
        for lack, driver in drivers.items():
            machine = machine_in_words(driver)
            cause = f"{lack.cause}, which its environment lacks ({machine})"
            found.append(Mistake(cause, lack.step))
        return found

    @property
    def remarks(self) -> list[str]:
        """What its author may not have meant."""
        found = []
        if self.package.is_of_any_toolkit:
            found.append(
                f"the recipe names no toolkit, and the newest was taken, {self.package.toolkit}:"
                f" {WRITE_TOOLKIT}"
            )
        if self.package.needs_driver:
            found.append(
                "it requires __cuda, so it cannot be installed on a machine without a driver"
            )
        elif linked := self.package.linked_of_driver:
            them = "them" if len(linked) > 1 else "it"
            found.append(
                f"its files link {listing(linked)}, and only a driver has {them}: on a machine"
                " without a driver, it can be installed, and does not load"
            )
        if glibc := self.package.unstated_glibc:
            found.append(
                f"its files need glibc {glibc}, which it does not require: write"
                ' ${{ stdlib("c") }} in requirements: build'
            )
        return found

    @property
    def faults(self) -> list[Mistake]:
        """What is wrong with it.

        A note may say that it is compiled by another compiler, which has other GPUs. So the GPUs
        count only without notes.
        """
        if self.package.notes:
            return self.mistakes
        of_gpus = self.code.mistake
        return self.mistakes + ([of_gpus] if of_gpus else [])

    @property
    def fault_for_readers(self) -> str:
        """Why it is not for readers of a channel, in words; "" if nothing is wrong."""
        failed = [tested.driver for tested in self.tests if tested.state == "failed"]
        causes = [fault.cause for fault in self.faults]
        if failed:
            causes.insert(0, f"its tests failed with {listing([*map(machine_in_words, failed)])}")
        return "; ".join(causes)

    def as_json(self, channel: Path) -> dict[str, Any]:
        """The package for `--json`, in its channel."""
        package = self.package
        return {
            "file": str(channel / package.index.subdir / package.file.name),
            "toolkit": package.toolkit or None,
            "variant": dict(package.variant.values),
            "requires": package.index.depends,
            "seconds": round(package.seconds, 2),
            "tests": [tested.as_json() for tested in self.tests],
            "notes": [str(note) for note in package.notes],
            "gpu_code": self.code.as_json(),
        }


def outcome(packages: Sequence[Judged]) -> str:
    """A line that says whether packages were tested, and whether they are right."""
    if any(tested.state == "failed" for judged in packages for tested in judged.tests):
        return "built, and tests failed"
    wrong = sum(bool(judged.faults) for judged in packages)
    if wrong:
        verb = "is" if wrong == 1 else "are"
        return f"built, and {count(wrong, 'package')} {verb} wrong"
    tested = sum(judged.is_tested for judged in packages)
    if tested == len(packages):
        return "built and tested"
    if tested:
        return "built and tested in part"
    if not any(judged.is_checked for judged in packages):
        return "built, and not tested"
    of_some = "" if all(judged.is_checked for judged in packages) else " of some"
    return f"built; package_contents{of_some} passed, and no test runs in an environment"


def state_in_words(tested: Tested) -> str:
    """The result of a package's tests for a driver, in two or three words."""
    if tested.state == "refused":
        return "not for it"
    if tested.state != "none":
        return tested.state
    return "contents passed" if tested.package.has_checked_contents else "none to run"


def machine_in_words(driver: str | None) -> str:
    return f"driver {driver}" if driver else "no driver"


def needless_builds(packages: Sequence[Made], survey: Survey) -> list[str]:
    """A sentence about each build that takes native builds away, and each that no machine gets.

    Such are several builds for one CUDA major and Python.

    Args:
        packages: The builds of one package.
        survey: Where it installs.
    """
    groups: dict[tuple[str, str], list[Made]] = {}
    for package in packages:
        key = major(package.toolkit), package.variant.values.get("python", "")
        groups.setdefault(key, []).append(package)
    found = []
    for group in groups.values():
        costly = _costly_builds(group, survey)
        found += [costly] if costly else _never_picked(group, survey)
    return found


def _never_picked(group: Sequence[Made], survey: Survey) -> list[str]:
    """A sentence about each build that no machine gets, since another is preferred."""
    picked = {build for pick in survey.today.picks.values() for build in pick.builds}
    left = [package.build for package in group if package.build not in picked]
    if len(left) == len(group):
        return []
    why = "another build for that CUDA major is preferred everywhere; keep one"
    return [f"no machine gets {build}: {why}" for build in left]


def _costly_builds(group: Sequence[Made], survey: Survey) -> str:
    """A sentence if machines get a compat build where that for the oldest toolkit is native.

    "" also if others would lose a native build without those for newer toolkits.
    """
    ordered = sorted(group, key=lambda package: version_key(package.toolkit))
    oldest = ordered[0]
    newer = {package.build for package in ordered if package.toolkit != oldest.toolkit}
    if not oldest.toolkit or not newer:
        return ""
    alone = take_survey([oldest.spec], [], survey.today.catalogue, survey.every).today
    of_newer = {m: pick for m, pick in survey.today.picks.items() if newer & {*pick.builds}}
    natives = {machine for machine, pick in of_newer.items() if pick.kind is PickKind.NATIVE}
    natives_alone = of_newer.keys() & alone.of(PickKind.NATIVE)
    better = natives_alone - natives
    if not better or natives - natives_alone:
        return ""
    builds = [f"{package.file.stem} (built with {package.toolkit})" for package in ordered]
    numbers = sorted({package.index.build_number for package in ordered})
    noun = "build number" if len(numbers) == 1 else "build numbers"
    return (
        f"note: {listing(builds)} are for CUDA {major(oldest.toolkit)}, with {noun}"
        f" {listing([*map(str, numbers)])}, and solvers do not choose among them by driver:"
        f" {count(len(better), 'pair')} of driver and GPU would be native, and not compat, if you"
        f" built with {oldest.toolkit} only"
    )


def refuse_faults(packages: Sequence[Judged], log: Path) -> None:
    """Ends a run with an error if tests failed, or a package is wrong.

    Args:
        packages: What was made.
        log: The whole log, which the error names.

    Raises:
        BuildFailed: Tests failed.
        AuditFailed: A package is wrong.
    """
    faults = [(judged.name, fault) for judged in packages for fault in judged.faults]
    steps = list(dict.fromkeys(fault.step for _, fault in faults))
    tests = [tested for judged in packages for tested in judged.tests]
    failed = [tested for tested in tests if tested.state == "failed"]
    if failed:
        raise _tests_failed(failed, steps, log)
    if faults:
        lines = [f"{name}: {fault.cause}" for name, fault in faults]
        raise AuditFailed("\n".join(lines), "; ".join(steps))


def refuse_unserved(packages: Sequence[Judged], asked: Sequence[str | None]) -> None:
    """Ends a run with an error if no build can be installed with a driver that was asked for.

    Args:
        packages: What was made. Each can be installed on some machine.
        asked: The drivers of --driver.

    Raises:
        Unsolvable: No build is for a driver.
    """
    tests = [tested for judged in packages for tested in judged.tests]
    for driver in asked:
        of_driver = [tested for tested in tests if tested.driver == driver]
        if all(tested.state == "refused" for tested in of_driver):
            raise Unsolvable(
                f"no build is for a machine with {machine_in_words(driver)}:"
                f" {of_driver[-1].detail}",
                "add a build for its CUDA major, or ask for another --driver",
            )


def _tests_failed(failed: Sequence[Tested], steps: Sequence[str], log: Path) -> BuildFailed:
    """The error with the end of the first log, and the names of all tests that failed."""
    first, *others = [
        f"the tests of {tested.package.file.stem} failed with {machine_in_words(tested.driver)}"
        for tested in failed
    ]
    shown = "\n".join(f"    {line}" for line in failed[0].detail.splitlines())
    hints = dict.fromkeys(hint for tested in failed for hint in tested.hints)
    kept = f"the packages are there; the whole log is {log}"
    lines = [f"{first}:", shown, *others]
    return BuildFailed("\n".join(lines), "; ".join([*steps, *hints, kept]))


def refuse_uninstallable(
    packages: Sequence[Judged], channels: Catalogue, every: Matrix, recipe: Path
) -> None:
    """Ends a run with an error if a build cannot be installed on any machine.

    So it is if it needs a channel that was not named.

    Args:
        packages: What was made.
        channels: The packages, and behind them the channels that they were built against.
        every: The machines.
        recipe: The recipe as it was typed, for the command that names more channels.

    Raises:
        Unsolvable: With the reason for the newest driver.
    """
    for judged in packages:
        if {tested.state for tested in judged.tests} != {"refused"}:
            continue
        spec = judged.package.spec
        today = take_survey([spec], [], channels, every).today
        if not today.installs:
            reason = today.reason((every.drivers[-1], None))
            raise Unsolvable(
                f"{judged.name} cannot be installed on any machine: {reason.cause}",
                _step_to_install(reason, channels, recipe),
                kind=reason.kind,
            )


def _step_to_install(reason: Reason, channels: Catalogue, recipe: Path) -> str:
    """What to do about a package that no machine can install."""
    if reason.kind is Kind.NOT_BUILT:
        return reason.step
    if reason.kind is Kind.UNNAMED_CHANNEL:
        own = shown(Path(channels.channels[0]))
        named = []
        for place in reason.channels:
            if place != own:
                named += ["--channel", place]
        return shlex.join(["ctk", "build-recipe", str(recipe), *named])
    step = "correct requirements: run, or name a --channel or --base that has what is missing"
    if reason.near:
        return f"did you mean {listing(reason.near, 'or')}? Else {step}"
    return step
