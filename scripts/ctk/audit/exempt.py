"""What the audit does not ask of packages of the base channel, with the reason.

The base channel stands in for conda-forge: it is made of this machine's interpreter and of wheels
as they are published. Every other finding about its packages is an error, as in the channel itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ctk.rules import Finding


@dataclass(frozen=True)
class Exemption:
    """Findings about packages of the base channel that are no faults.

    Attributes:
        packages: Names of the packages.
        checks: Names of the checks.
        why: The reason, for people.
        path: A pattern for the path in the package.
        message: A pattern for a part of the finding's message.
    """

    packages: tuple[str, ...]
    checks: tuple[str, ...]
    why: str
    path: str = ".*"
    message: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether a finding about a package, whose file it names, is one of these."""
        package = finding.where.rsplit("-", 2)[0]
        return (
            package in self.packages
            and finding.check in self.checks
            and re.fullmatch(self.path, finding.path) is not None
            and re.search(self.message, finding.message) is not None
        )


EXEMPTIONS = (
    Exemption(
        ("python",),
        ("NeededIsProvided",),
        "Its modules load the machine's own OpenSSL, SQLite and so on, not packaged in base/.",
    ),
    Exemption(
        ("pip", "setuptools"),
        ("BinariesFitTheSubdir", "NeededIsProvided"),
        "Programs for Windows, which pip and setuptools copy into environments there.",
        path=r".*\.exe",
    ),
    Exemption(
        ("scipy",),
        ("NeededIsFound",),
        "The RPATH of the module that loads these libraries holds for what they load, too.",
        path=r".*/scipy\.libs/.*",
    ),
    Exemption(
        ("cython",),
        ("LicenseIsInside",),
        "Its wheel has no licence text; the package names the licence.",
        message="no licence text",
    ),
)


def is_exempt(finding: Finding) -> bool:
    """Whether a finding is about a package of the base channel, and no fault."""
    return any(exemption.covers(finding) for exemption in EXEMPTIONS)
