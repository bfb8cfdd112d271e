"""What the install selector asks: every value of each question, from the channel and the release locks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from ruamel.yaml import YAML

from ctk.core.errors import UnknownName
from ctk.core.platforms import NOARCH
from ctk.lock.lock import ReleaseLock
from ctk.site.alike import ALWAYS, AlikeCatalogue
from ctk.solve.catalogue import ANY_DRIVER, Catalogue
from ctk.solve.machine import python_specs
from ctk.solve.solve import Scenario
from ctk.verify.oracle import version
from ctk.verify.scenarios import Machine, facts, matrix

_OLDEST_DRIVER = "1.0"  # older than any
_GPUS = Path(__file__).with_name("gpus.yaml")
# Halves of packages that nobody installs by name: what a cross-compiler takes for its target, and the files that the
# two builds of a package share.
_HALVES = re.compile(r".*_(?:linux|win)-\w+|.*-files|python_abi")


@dataclass(frozen=True)
class Question:
    """One combination of what the selector asks.

    Attributes:
        package: What is installed.
        driver: The newest CUDA version that the driver supports, or None without a driver.
        arch: Compute capability, or None where no client detects the GPU.
        python: ``3.13``, ``3.14t``, or "" where it is left to the solver.
        pin: What ``cuda-version`` is pinned to, a major or a minor, or "".
    """

    package: str
    driver: str | None
    arch: str | None
    python: str
    pin: str

    @property
    def specs(self) -> tuple[str, ...]:
        """What a client is given, in the order of ``ctk solve PACKAGE cuda-version=PIN --python PYTHON``."""
        return (self.package, *pin_specs(self.pin), *(python_specs(self.python) if self.python else ()))

    def scenario(self, subdir: str) -> Scenario:
        """The question as a solver is asked it."""
        return Scenario(self.specs, subdir, self.driver, self.arch)


@dataclass(frozen=True)
class Axes:
    """The values of each question for one platform; their combinations are what is solved.

    Attributes:
        subdir: The platform.
        drivers: None, then what drivers support, oldest first; the first is too old for every toolkit.
        is_older_alike, is_newer_alike: Whether a driver older than the first, or newer than the last, is the same
            question as that one: no rule of the channel tells them apart.
        gpus: None, then compute capabilities, oldest first; the last is newer than every toolkit.
        pythons: "", then those that the base channel has, oldest first.
        pins: "", then CUDA majors, then the minors in the channel, oldest first.
        packages: Those that one installs by name.
    """

    subdir: str
    drivers: tuple[str | None, ...]
    gpus: tuple[str | None, ...]
    pythons: tuple[str, ...]
    pins: tuple[str, ...]
    packages: tuple[str, ...]
    is_older_alike: bool = False
    is_newer_alike: bool = False

    @property
    def machines(self) -> list[Machine]:
        """Every driver with every GPU, and the machine without a driver."""
        return [(driver, gpu) for driver in self.drivers for gpu in self.gpus if driver or not gpu]

    def questions(self, package: str, python: str) -> Iterator[Question]:
        """Every question about one package with one Python."""
        for pin, (driver, arch) in product(self.pins, self.machines):
            yield Question(package, driver, arch, python, pin)

    def __len__(self) -> int:
        return len(self.packages) * len(self.pythons) * len(self.pins) * len(self.machines)


def axes(
    catalogue: Catalogue,
    locks: Iterable[ReleaseLock],
    tags: Iterable[str],
    packages: Collection[str] = (),
    pythons: Collection[str] = (),
) -> Axes:
    """The axes of a channel, for the catalogue's platform.

    Args:
        catalogue: This channel first, then its base.
        locks: The release locks, whose facts say which drivers and GPUs there are.
        tags: The Pythons that packages are built for, as wheel tags, oldest first.
        packages: Only these; all that one installs by name otherwise.
        pythons: Only these, besides leaving it to the solver.

    Raises:
        UnknownName: A package or a Python that the channels do not have.
        LockError: The locks lack facts.
    """
    known = matrix(facts(locks), tags, [catalogue.subdir])
    offered = installed_by_name(catalogue)
    there = _pythons(catalogue)
    minors = sorted((t.version for t in catalogue.toolkits), key=version)
    for kind, given, valid in (("package", packages, offered), ("Python", pythons, there)):
        for name in given:
            if name not in valid:
                raise UnknownName.of(kind, name, valid)
    names = tuple(name for name in offered if not packages or name in packages)
    alike = AlikeCatalogue(catalogue.channels, catalogue.subdir, [*names, *ALWAYS])
    _, oldest, *_, newest = known.drivers
    return Axes(
        catalogue.subdir,
        known.drivers,
        known.gpus,
        ("", *(p for p in known.pythons if p in there and (not pythons or p in pythons))),
        ("", *dict.fromkeys(minor.split(".")[0] for minor in minors), *minors),
        names,
        is_older_alike=alike.is_same_driver(oldest, _OLDEST_DRIVER),
        is_newer_alike=alike.is_same_driver(newest, ANY_DRIVER),
    )


def installed_by_name(catalogue: Catalogue) -> list[str]:
    """The packages of the channel that somebody would ask for."""
    names = catalogue.names([catalogue.subdir, NOARCH], catalogue.channels[:1])
    other = f"_{'win' if catalogue.subdir.startswith('linux') else 'linux'}-"
    return sorted(name for name in names if not _HALVES.fullmatch(name) and other not in name)


def pin_specs(pin: str) -> tuple[str, ...]:
    """What asks for a toolkit: nothing for ""."""
    return (f"cuda-version={pin}",) if pin else ()


def gpu_names() -> dict[str, str]:
    """Name of a GPU -> its compute capability, as NVIDIA lists them; the newest first."""
    listed = YAML(typ="safe").load(_GPUS)
    return {name: arch for arch, names in listed.items() for name in names}


def _pythons(catalogue: Catalogue) -> set[str]:
    """The Pythons of the base channel: ``3.13``, ``3.13t``."""
    return {
        f"{record.version}{'t' if re.search(r'_cp[0-9]+t$', str(record.build)) else ''}"
        for record in catalogue.records("python_abi")
    }
