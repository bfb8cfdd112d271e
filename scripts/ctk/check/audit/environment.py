"""Rules on packages that share an environment: whose file is it, and do links lead somewhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePath

from ctk.check.audit.check import Finding, SetCheck
from ctk.check.audit.contents import link_target
from ctk.check.audit.packages import PackageSet
from ctk.core.platforms import NOARCH
from ctk.package.scan import PackageScan

# noarch: python packages hold site-packages/ and python-scripts/; the installer moves them to the Python's folders.
_SITE = re.compile(r"(lib/python3\.\d+t?|Lib)/site-packages/")
_SCRIPTS = re.compile(r"(python-scripts|bin|Scripts)/")


class FilesHaveOneOwner(SetCheck):
    """No file is in two packages that fit in one environment; on Windows, whatever the case of its name."""

    mend = "leave the file to one of the two (build: files), or let one depend on the other"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        reported: set[tuple[str, str]] = set()
        for subdir in packages.subdirs:
            shared: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
            by_file = {package.file: package for package in packages.environment(subdir)}
            for path, holders in self._holders(packages, subdir).items():
                for one, other in combinations(holders, 2):
                    if one.name != other.name:
                        shared.setdefault(_names(one, other), {}).setdefault((one.file, other.file), []).append(path)
            for names, pairs in shared.items():
                for (first, second), paths in pairs.items():
                    one, other = by_file[first], by_file[second]
                    if names not in reported and packages.coexist(one, other, subdir):
                        reported.add(names)
                        more = f", as are {len(paths) - 1} more files" if len(paths) > 1 else ""
                        message = f"also in {PurePath(other.file).name}{more}; both fit in one environment"
                        yield self.finding(one, min(paths), message)

    @staticmethod
    def _holders(packages: PackageSet, subdir: str) -> dict[str, list[PackageScan]]:
        holders: dict[str, list[PackageScan]] = defaultdict(list)
        for package in packages.environment(subdir):
            for path in {_place(package, file.path, subdir) for file in package.installed()}:
                holders[path].append(package)
        return {
            path: sorted(held, key=lambda package: package.file)
            for path, held in holders.items()
            if len(held) > 1 and any(map(packages.is_audited, held))
        }


def _names(one: PackageScan, other: PackageScan) -> tuple[str, str]:
    first, second = sorted((one.name, other.name))
    return first, second


def _place(package: PackageScan, path: str, subdir: str) -> str:
    """The path that two packages must not share: where the installer puts the file, without the Python's version."""
    path = _SITE.sub("site-packages/", path)
    if package.info.index.noarch == "python":
        path = _SCRIPTS.sub("bin/" if not subdir.startswith("win-") else "Scripts/", path, count=1)
    return path.lower() if subdir.startswith("win-") else path


class LinksLeadSomewhere(SetCheck):
    """The target of each symbolic link is in the same package, below what it depends on, or comes with it.

    It comes with a package that pins exactly this build, as the compiler's parts pin one another.
    """

    mend = "depend on the package that has the target with pin_subpackage(..., exact=True), or drop the link"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        for package in packages.audited:
            links = [file for file in package.installed() if file.kind == "link" and not file.link.startswith("/")]
            if not links:
                continue
            there = [packages.places(other) for other in packages.companions(package)]
            for file in links:
                target = link_target(file)
                if not target.startswith("..") and not any(target in places for places in there):
                    yield self.finding(package, file, f"leads to {target}, which nothing that comes with it has")


class ExactPinsAreHeld(SetCheck):
    """A dependency on one exact build of a package that is made here names a build that was made."""

    mend = "build both halves in one run of the recipe, and audit them together"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        made = {package.name for package in packages.audited}
        for package in packages.audited:
            for spec in package.info.index.depends:
                parts = spec.replace("==", " ").split()
                if len(parts) == 3 and "*" not in spec and parts[0] in made:
                    subdir = "" if package.subdir == NOARCH else package.subdir
                    if not packages.matching(spec, subdir):
                        yield self.finding(package, "info/index.json", f"depends on {spec}, a build that is not there")
