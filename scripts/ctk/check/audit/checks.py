"""The list of checks, in the order in which `ctk audit --list` shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ctk.check.audit.check import Check, PackageCheck, SetCheck
from ctk.check.audit.contents import (
    ArchiveMatchesPaths,
    BareNameOnlyInDev,
    ExtensionsFitThePython,
    KeepsItsPromises,
    LinksStayInside,
)
from ctk.check.audit.environment import ExactPinsAreHeld, FilesHaveOneOwner, LinksLeadSomewhere
from ctk.check.audit.libraries import BinariesAreReadable, BinariesFitTheSubdir, CudartIsInside, RpathIsRelative
from ctk.check.audit.loading import GlibcIsDeclared, NeededIsFound, NeededIsProvided, RpathResolves
from ctk.check.audit.metadata import (
    FileNameSaysIndex,
    IndexIsSound,
    LicenseIsInside,
    NoBuildPath,
    SpecsParse,
    TimestampIsHonest,
)
from ctk.check.audit.places import FilesAreInTheirPlace, RpathIsTheLayouts
from ctk.core.errors import UnknownName

PACKAGE_CHECKS: tuple[type[PackageCheck], ...] = (
    FileNameSaysIndex,
    IndexIsSound,
    SpecsParse,
    TimestampIsHonest,
    LicenseIsInside,
    NoBuildPath,
    ArchiveMatchesPaths,
    KeepsItsPromises,
    LinksStayInside,
    BareNameOnlyInDev,
    ExtensionsFitThePython,
    BinariesAreReadable,
    BinariesFitTheSubdir,
    RpathIsRelative,
    FilesAreInTheirPlace,
    RpathIsTheLayouts,
    CudartIsInside,
)
SET_CHECKS: tuple[type[SetCheck], ...] = (
    FilesHaveOneOwner,
    LinksLeadSomewhere,
    ExactPinsAreHeld,
    RpathResolves,
    NeededIsProvided,
    NeededIsFound,
    GlibcIsDeclared,
)
CHECKS: tuple[type[Check], ...] = (*PACKAGE_CHECKS, *SET_CHECKS)
PROBES = {package: texts for check in CHECKS for package, texts in check.probes.items()}


def by_id(names: Iterable[str]) -> list[type[Check]]:
    """The checks of the given ids.

    Raises:
        UnknownName: An id that no check has.
    """
    known: dict[str, type[Check]] = {check.id(): check for check in CHECKS}
    unknown: Collection[str] = [name for name in names if name not in known]
    for name in unknown:
        raise UnknownName.of("check", name, known)
    return [known[name] for name in names]
