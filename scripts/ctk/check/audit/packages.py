"""The audited packages together: what each depends on, and which may share an environment."""

from __future__ import annotations

import json
import posixpath
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from rattler import Channel, GenericVirtualPackage, MatchSpec, PackageName, PackageRecord, SparseRepoData, Version
from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError, SolverError
from rattler.package import BuildString
from rattler.solver import solve_with_sparse_repodata

from ctk.check.framework import Finding, Severity
from ctk.core.platforms import NOARCH
from ctk.core.process import run
from ctk.package.package import IndexJson
from ctk.package.scan import PackageScan, ScannedFile


def at(package: PackageScan, file: ScannedFile | str, message: str, severity: Severity | Literal[""] = "") -> Finding:
    """A finding in a file of a package, of the check's own severity unless told otherwise."""
    return Finding(package.file_name, message, file if isinstance(file, str) else file.path, severity=severity)


@cache
def _spec(text: str) -> MatchSpec | None:
    try:
        return MatchSpec(text)
    except InvalidMatchSpecError:
        return None


def spec_name(text: str) -> str:
    """The package a spec is about."""
    return re.split(r"[\s=<>!~\[]", text.strip(), maxsplit=1)[0]


def _record(index: IndexJson) -> PackageRecord | None:
    try:
        return PackageRecord(index.name, index.version, BuildString(index.build), index.build_number, index.subdir)
    except (InvalidVersionError, ValueError):
        return None


def _virtual(name: str, version: str) -> GenericVirtualPackage:
    return GenericVirtualPackage(PackageName(name), Version(version), BuildString("0"))


class PackageSet:
    """Packages that one channel, with its base, would offer.

    Args:
        audited: The packages under audit.
        base: Others that they may depend on.
    """

    def __init__(self, audited: Sequence[PackageScan], base: Sequence[PackageScan] = ()) -> None:
        self.audited = tuple(audited)
        self.all = (*self.audited, *base)
        self._audited = frozenset(package.file for package in self.audited)
        self._named: dict[str, list[tuple[PackageScan, PackageRecord]]] = defaultdict(list)
        for package in self.all:
            record = _record(package.info.index)
            if record is not None:
                self._named[package.name].append((package, record))
        self._closures: dict[str, tuple[tuple[PackageScan, ...], frozenset[str]]] = {}
        self._places: dict[str, frozenset[str]] = {}
        self._files: dict[str, dict[str, list[str]]] = {}
        self._coexist: dict[tuple[str, str, str], bool] = {}

    def is_audited(self, package: PackageScan) -> bool:
        """Whether the package is under audit, and not only there to depend on."""
        return package.file in self._audited

    def matching(self, spec: str, subdir: str) -> list[PackageScan]:
        """The packages of the set that satisfy a spec in an environment of a subdir ("" for any)."""
        parsed = _spec(spec)
        candidates = self._named.get(spec_name(spec), ())
        return [
            package
            for package, record in candidates
            if parsed is not None and (not subdir or package.subdir in (subdir, NOARCH)) and parsed.matches(record)
        ]

    def owners(self, package: PackageScan) -> list[PackageScan]:
        """The packages without which this one is never installed, and that pin exactly this build.

        For a ``_<subdir>`` half, its other half; for ``<name>-files``, the twins that bring it.
        """
        half = package.half
        name = package.name.removesuffix(f"_{half}" if half else "-files")
        subdir = half or package.subdir
        return [
            other
            for other, _ in self._named.get(name, ())
            if name != package.name and other.subdir == subdir and self.pins(other, package)
        ]

    def pins(self, one: PackageScan, other: PackageScan) -> bool:
        """Whether a package depends on exactly this build of another."""
        return any(self.is_exact(spec, other) for spec in one.info.index.depends)

    @staticmethod
    def is_exact(spec: str, package: PackageScan) -> bool:
        """Whether a spec admits this one build only."""
        index = package.info.index
        return spec.replace("==", "").replace("=", " ").split() == [index.name, index.version, index.build]

    def closure(self, package: PackageScan) -> tuple[tuple[PackageScan, ...], frozenset[str]]:
        """The package, its other half and all they depend on; and the names that no package of the set has."""
        if package.file not in self._closures:
            self._closures[package.file] = self._walk(package)
        return self._closures[package.file]

    def _walk(self, package: PackageScan) -> tuple[tuple[PackageScan, ...], frozenset[str]]:
        subdir = package.target_subdir
        seen = {package.file: package}
        outside: set[str] = set()
        queue = [package, *self.owners(package)]
        while queue:
            current = queue.pop()
            seen[current.file] = current
            for spec in current.info.index.depends:
                name = spec_name(spec)
                # A package of another subdir is no package here: the base channel is this machine's only.
                if all(other.subdir not in (subdir or other.subdir, NOARCH) for other, _ in self._named.get(name, ())):
                    outside.add(name)
                queue.extend(found for found in self.matching(spec, subdir) if found.file not in seen)
        return tuple(seen.values()), frozenset(outside)

    def companions(self, package: PackageScan) -> list[PackageScan]:
        """The package's closure, and the closures of those that pin exactly this build."""
        subdir = package.target_subdir
        pinning = (other for other in self.all if other.subdir in (subdir, NOARCH) and self.pins(other, package))
        found = {other.file: other for start in (package, *pinning) for other in self.closure(start)[0]}
        return list(found.values())

    def places(self, package: PackageScan) -> frozenset[str]:
        """The paths of the package's files, and the folders that they are in."""
        if package.file not in self._places:
            self._places[package.file] = frozenset(package.places())
        return self._places[package.file]

    def named(self, package: PackageScan, library: str) -> list[str]:
        """Where a package has a file or link of a name; case matters only off Windows."""
        if package.file not in self._files:
            names: dict[str, list[str]] = defaultdict(list)
            for file in package.installed():
                name = posixpath.basename(file.path)
                names[name.lower() if name.lower().endswith((".dll", ".pyd", ".exe")) else name].append(file.path)
            self._files[package.file] = names
        return self._files[package.file].get(library.lower() if library.lower().endswith(".dll") else library, [])

    def links_to(self, package: PackageScan, path: str) -> list[str]:
        """The links to a file that the package, its other half and its dependencies have, also through other links."""
        reach, _ = self.closure(package)
        targets = {file.path: file.target for other in reach for file in other.installed() if file.kind == "link"}
        found, new = [], [path]
        while new:
            new = [link for link, target in targets.items() if target in new and link not in found]
            found += new
        return found

    def coexist(self, one: PackageScan, other: PackageScan, subdir: str) -> bool:
        """Whether a solver puts both into one environment of the subdir; what the set does not hold counts as there."""
        key = (min(one.file, other.file), max(one.file, other.file), subdir)
        if key not in self._coexist:
            self._coexist[key] = one.name != other.name and self._solves((one, other), subdir)
        return self._coexist[key]

    def _solves(self, wanted: Sequence[PackageScan], subdir: str) -> bool:
        exact = [
            f"{index.name} =={index.version} {index.build}" for index in (package.info.index for package in wanted)
        ]
        machine = [_virtual(name, version) for name, version in _MACHINE.items()]
        with tempfile.TemporaryDirectory(prefix="ctk-audit-") as folder:
            sources = []
            for part in (subdir, NOARCH):
                path = Path(folder) / f"{part}.json"
                path.write_text(json.dumps(self._repodata(part)))
                sources.append(SparseRepoData(Channel("audit"), part, path))
            try:
                run(solve_with_sparse_repodata(exact, sources, virtual_packages=machine))
            except SolverError:
                return False
            finally:
                for source in sources:
                    source.close()
        return True

    def _repodata(self, subdir: str) -> dict[str, object]:
        records = {}
        for package in self.all:
            index = package.info.index
            if index.subdir == subdir:
                records[package.file_name] = {
                    "name": index.name,
                    "version": index.version,
                    "build": index.build,
                    "build_number": index.build_number,
                    "subdir": index.subdir,
                    "depends": [spec for spec in index.depends if self._is_held(spec)],
                    "constrains": list(index.constrains),
                }
        return {"info": {"subdir": subdir}, "packages": {}, "packages.conda": records}

    def _is_held(self, spec: str) -> bool:
        return spec_name(spec) in self._named and _spec(spec) is not None

    @cached_property
    def subdirs(self) -> tuple[str, ...]:
        """The subdirs whose environments the set can fill."""
        held = {package.subdir for package in self.audited} - {NOARCH}
        return tuple(sorted(held or {package.half for package in self.audited} - {""})) or ("linux-64",)

    def environment(self, subdir: str) -> Iterator[PackageScan]:
        """The packages that an environment of the subdir may draw from."""
        return (package for package in self.all if package.subdir in (subdir, NOARCH))


# Detected on the machine, so they rule out no pair: what is asked is whether the packages agree with each other.
_MACHINE = {"__glibc": "9999", "__linux": "9999", "__unix": "0", "__win": "9999", "__cuda": "9999", "__archspec": "1"}
