"""Rules on what a package says of itself: index.json, paths.json, run-exports, licences."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import PurePath

from rattler import MatchSpec, Version
from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError

from ctk.check.audit.packages import at
from ctk.check.framework import Finding, check
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.package.package import PLACEHOLDER
from ctk.package.scan import PackageScan

_MACHINES = {"64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}
_FIRST = 1_325_376_000_000  # 2012, the year of conda, in milliseconds
_DAY = 86_400_000


@check(PackageScan, fix="do not rename or move built packages; build it again")
def FileNameSaysIndex(package: PackageScan) -> Iterator[Finding]:
    """The file is called ``<name>-<version>-<build>.conda`` as its index.json says, in the folder of its subdir."""
    path, index = PurePath(package.file), package.info.index
    if path.name != f"{index.identity}.conda":
        yield at(package, "info/index.json", f"says {index.identity}, the file is {path.name}")
    folder = path.parent.name
    if folder in {NOARCH, *PLATFORMS} and folder != index.subdir:
        yield at(package, "info/index.json", f"says subdir {index.subdir}, the file is in {folder}/")


@check(PackageScan, fix="mend build: (noarch, string, number) and the platform in the recipe or its variants")
def IndexIsSound(package: PackageScan) -> Iterator[Finding]:
    """index.json agrees with itself: subdir and noarch, build string and number; version and subdir are real ones."""
    index = package.info.index
    for wrong in (
        index.subdir not in {NOARCH, *PLATFORMS} and f"unknown subdir {index.subdir!r}",
        bool(index.noarch) != (index.subdir == NOARCH) and f"noarch {index.noarch!r} in subdir {index.subdir}",
        index.noarch not in ("", "generic", "python") and f"unknown kind of noarch {index.noarch!r}",
        not re.fullmatch(rf".*_{index.build_number}|{index.build_number}", index.build)
        and f"build string {index.build!r} does not end in its build number {index.build_number}",
        index.subdir in PLATFORMS and _machine_problem(package),
    ):
        if wrong:
            yield at(package, "info/index.json", wrong)
    try:
        Version(index.version)
    except InvalidVersionError as error:
        yield at(package, "info/index.json", f"version {index.version!r}: {error}")


def _machine_problem(package: PackageScan) -> str:
    index = package.info.index
    system, _, machine = index.subdir.partition("-")
    said = (index.platform or system, index.arch or _MACHINES[machine])
    return "" if said == (system, _MACHINES[machine]) else f"platform and arch {said} in subdir {index.subdir}"


@check(PackageScan, fix="mend the spec in the recipe's requirements")
def SpecsParse(package: PackageScan) -> Iterator[Finding]:
    """Each spec in depends, constrains and the run-exports is one that solvers read, and names a package."""
    index = package.info.index
    exports = {f"run_exports {kind}": specs for kind, specs in package.info.run_exports.items()}
    for where, specs in {"depends": index.depends, "constrains": index.constrains, **exports}.items():
        path = "info/run_exports.json" if where in exports else "info/index.json"
        for spec in specs:
            if problem := _spec_problem(spec):
                yield at(package, path, f"{where}: {spec!r}: {problem}")


def _spec_problem(spec: str) -> str:
    try:
        MatchSpec(spec)
    except InvalidMatchSpecError as error:
        return str(error)
    # Parsers take what is left as the build string; no build is called so.
    return "more than a name, a version and a build" if "[" not in spec and len(spec.split()) > 3 else ""


@check(
    PackageScan,
    fix="build it again on a machine whose clock is right; rank builds by version, number and tracked features only",
)
def TimestampIsHonest(package: PackageScan) -> Iterator[Finding]:
    """The timestamp is in milliseconds and not in the future: solvers break ties by it, so a false one picks builds."""
    stamp = package.info.index.timestamp
    if stamp and not _FIRST <= stamp <= time.time() * 1000 + _DAY:
        yield at(package, "info/index.json", f"timestamp {stamp} is no time between 2012 and now")


@check(PackageScan, fix="name the artefact's licence file in about: license_file")
def LicenseIsInside(package: PackageScan) -> Iterator[Finding]:
    """The package names its licence and, unless it installs nothing, carries the licence text under info/licenses."""
    if not package.info.index.license:
        yield at(package, "info/index.json", "no licence named")
    if any(True for _ in package.installed()) and not package.info.licenses:
        yield at(package, "info/licenses", "no licence text")
    for name, text in package.info.licenses.items():
        if not text:
            yield at(package, f"info/licenses/{name}", "the licence text is empty")


@check(
    PackageScan,
    fix="let the build station clean info/; keep the path out of other files; declare a prefix in paths.json",
)
def NoBuildPath(package: PackageScan) -> Iterator[Finding]:
    """No text and no binary, metadata included, holds a path of the build machine or an undeclared placeholder."""
    for file in package.files:
        for seen in file.sightings:
            times = f" ({seen.count} times)" if seen.count > 1 else ""
            what = "an undeclared placeholder prefix" if seen.needle == PLACEHOLDER else seen.needle
            yield at(package, file, f"holds {what}{times}: {seen.context!r}")
