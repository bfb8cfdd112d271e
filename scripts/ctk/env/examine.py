"""Reads an environment of any client: its packages of conda and pip, and the machine it is for."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from rattler import PackageRecord

from ctk.core.address import public
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.env.outside import reaching_out
from ctk.env.prefix import Installed, Note, sites, text_of
from ctk.env.record_files import files_of
from ctk.env.request import asked_for, install_line
from ctk.lock.model import ReleaseLock, release_locks
from ctk.package.records import package_record, spec_name
from ctk.solve.driver import DriverState, driver_state
from ctk.solve.machine import Machine, machine, overstated, too_old
from ctk.solve.solve import Catalogue, Scenario, channel_name, lasting, older

_IDENTITY = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,127} [\w.!+-]{1,64} [\w.+-]{0,127}")
_WHEEL = re.compile(r"([A-Za-z0-9_.]{1,127})-([\w.!+]{1,64})\.dist-info")
_LIBRARY = re.compile(r"^nvidia/(?:[^\n]*/)?([^/\n]+(?:\.so(?:\.\d+)*|\.dll)),", re.M)
_LONGEST = 1000  # characters of a spec or a channel

# Projects here that are the same beside any CUDA.
_WITHOUT_CUDA = frozenset(("nvidia-ml-py",))


@dataclass(frozen=True)
class InstalledPackage:
    """A package that conda installed."""

    name: str
    version: str
    build: str
    subdir: str
    channel: str
    # the channel's address, without a user's name, password or token; "" if the record has none
    source: str
    depends: tuple[str, ...]
    constrains: tuple[str, ...]
    files: tuple[str, ...]  # below the prefix, without bytecode
    record: PackageRecord

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.build} of {self.channel or 'an unknown channel'}"


@dataclass(frozen=True)
class ModuleFolder:
    """A folder from which the environment's Python imports modules."""

    path: Path
    # what adds it, ``PYTHONPATH`` or ``user site``; "" for its own
    by: str = ""


@dataclass(frozen=True)
class Wheel:
    """A distribution that the environment's Python finds and that conda did not install."""

    name: str
    version: str
    libraries: tuple[str, ...]  # file names of NVIDIA's libraries in it
    folder: ModuleFolder
    info: Path  # its dist-info

    def __str__(self) -> str:
        place = f" in {self.folder.path}" if self.folder.by else ""
        return f"{self.name} {self.version}{place}"


@dataclass(frozen=True)
class Examined:
    """An environment, its records, and the machine that it is for."""

    has: Installed
    packages: tuple[InstalledPackage, ...]
    locks: Mapping[str, ReleaseLock]
    machine: Machine
    overstated: str = ""  # the warning of `solve.machine.overstated`
    reaching_out: tuple[str, ...] = ()  # what `outside.reaching_out` finds in its records

    @property
    def prefix(self) -> Path:
        return self.has.prefix

    @cached_property
    def by_name(self) -> dict[str, InstalledPackage]:
        return {package.name: package for package in self.packages}

    @cached_property
    def driver_state(self) -> DriverState | None:
        """Whether this machine's driver works.

        None for another machine, and for an environment without CUDA.
        """
        is_here = self.machine.subdir == this_platform() and not self.machine.stated
        if not is_here or self.toolkit is None:
            return None
        return self.machine.unseen or driver_state()

    @property
    def toolkit(self) -> InstalledPackage | None:
        return self.by_name.get("cuda-version")

    @property
    def fit(self) -> str:
        """``native`` or ``compat``.

        "" without CUDA, or with the cuda-version of another channel.
        """
        kind = self.toolkit.build.partition("_")[0] if self.toolkit else ""
        return kind if kind in ("native", "compat") else ""

    @cached_property
    def wheels(self) -> tuple[Wheel, ...]:
        """What conda did not install, there or in other folders that its Python searches."""
        found = [_pip_wheels(folder, self) for folder in module_folders(self.prefix)]
        return tuple(chain.from_iterable(found))

    @cached_property
    def nvidia_wheels(self) -> tuple[Wheel, ...]:
        """Wheels that have NVIDIA's libraries or Python projects, as conda's CUDA packages do."""
        known = {
            component.distribution
            for lock in self.locks.values()
            for component in lock.components.values()
        }
        known -= _WITHOUT_CUDA
        return tuple(wheel for wheel in self.wheels if wheel.libraries or wheel.name in known)

    @cached_property
    def channels(self) -> list[str]:
        """The channels of its packages: the toolkit's, then those with more packages first."""
        found = Counter(package.source for package in self.packages if package.source)
        first = self.toolkit.source if self.toolkit else ""
        return sorted(found, key=lambda source: (source != first, -found[source], source))

    def targets(self, minor: str) -> tuple[str, ...]:
        """The GPUs that a toolkit compiles for; empty for a toolkit without a lock."""
        lock = self.locks.get(f"cuda-{minor}")
        return lock.facts.gpu_architectures if lock and lock.facts else ()

    @cached_property
    def better(self) -> str:
        """As `_native`, with the machine's driver."""
        return self._native(self.machine.driver)

    def _native(self, driver: str | None) -> str:
        """The spec for a toolkit that is native with a driver and the GPU.

        "" if its channels have none for it. It is a range, since a channel need not have every
        minor. Channels in folders are asked for a solution: of the request, if `ctk env create`
        repeats it, else with what is installed.
        """
        minors = [minor for minor in self._for_gpu if driver and not older(driver, minor)]
        if not minors:
            return ""
        spec = f"cuda-version >={minors[0]},<={minors[-1]}"
        if self.fit:  # another channel has only one build of a cuda-version
            spec += " native_*"
        if self.folders is None:
            return spec
        of_a_toolkit = [
            package.name
            for package in self.packages
            if "cuda-version" in map(spec_name, package.depends)
        ]
        specs = self._repeatable or (spec, *of_a_toolkit)
        pick = self.folders.pick(Scenario(specs, self.machine.subdir, driver, self.machine.arch))
        return spec if pick and pick.fit != "compat" else ""

    @cached_property
    def folders(self) -> Catalogue | None:
        """Its channels, if all are folders."""
        addresses = [source for source in self.channels if source.startswith("file:")]
        if not addresses or len(addresses) < len(self.channels):
            return None
        places = [Path(unquote(urlsplit(address).path)) for address in addresses]
        if not all(place.is_dir() for place in places):
            return None
        return Catalogue(places, self.machine.subdir)

    @property
    def _repeatable(self) -> tuple[str, ...]:
        """The request of `ctk env create` that gives another toolkit on another machine.

        () if there is none.
        """
        specs = self.note.specs if self.note else ()
        return () if any(spec_name(spec) == "cuda-version" for spec in specs) else specs

    @property
    def _for_gpu(self) -> list[str]:
        """The locked toolkits that know the GPU, oldest first."""
        arch = self.machine.arch
        minors = [lock.minor for lock in self.locks.values() if lock.is_ctk]
        return [minor for minor in minors if not arch or arch in self.targets(minor)]

    @cached_property
    def newer_driver(self) -> str:
        """The CUDA version of a newer driver that would help; "" if there is none.

        It is the one for its toolkit, else the first that `_native` finds a toolkit for.
        """
        driver = self.machine.driver
        known = [minor for minor in self._for_gpu if driver and older(driver, minor)]
        if self.toolkit and self.toolkit.version in known:
            return self.toolkit.version
        if self.better:
            return ""
        return next((minor for minor in known if self._native(minor)), "")

    @cached_property
    def note(self) -> Note | None:
        """The note of `ctk env create`, if it made the environment and put every package there."""
        note = Note.read(self.prefix)
        if note and note.asked and set(self.has.packages) <= set(note.packages):
            return note
        return None

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """The specs that it was asked for, by its note or by the history of its client."""
        return asked_for(self.prefix, self.note, self.by_name)

    @property
    def made_for(self) -> str:
        """The machine that was stated when it was made, in words after others.

        "" for none, and for this one.
        """
        if not (stated := self.note.machine if self.note else {}):
            return ""
        was = machine(self.machine.subdir, stated.get("--driver"), stated.get("--arch"))
        is_this = (was.driver, was.arch) == (self.machine.driver, self.machine.arch)
        return "" if is_this else f"; made for {was.words}"

    @property
    def is_stopped(self) -> bool:
        """Whether the run that made it did not finish: then little else is true of it."""
        note = Note.read(self.prefix)
        return bool(note and note.asked and not note.stamp)

    def install(self, *specs: str) -> str:
        """The command that gives the environment specs.

        It is one of ctk if that made the environment, else the client's. `ctk env create` again is
        enough if its request leaves the toolkit open.
        """
        if self.note and self._repeatable:
            return self.note.again(self.prefix, driver=self.machine.driver, arch=self.machine.arch)
        if self.note:
            return shlex.join(["ctk", "env", "add", str(self.prefix), *specs, "--move"])
        return install_line("conda", self.prefix, self.channels, specs)

    def pip(self, *words: str) -> list[str]:
        """The commands that run pip in the environment, after one that installs it if it lacks."""
        run = ["ctk", "env", "run", str(self.prefix), "--", "python", "-m", "pip", *words]
        if "pip" in self.by_name:
            return [shlex.join(run)]
        install = self.note.again(self.prefix, "pip") if self.note else self.install("pip")
        return [install, shlex.join(run)]

    def fix(self) -> str:
        """How the environment gets a toolkit for the machine, or the machine a driver for it."""
        steps = [self.install(self.better)] if self.better else []
        if self.newer_driver:
            steps.append(f"update the driver to one for CUDA {self.newer_driver} or newer")
        none = (
            "make another environment: its channel has no toolkit for this driver, this GPU and its"
            " packages"
        )
        return ", or ".join(steps) or too_old(self.machine.arch, self.locks.values()) or none


def examined(
    workspace: Workspace, prefix: Path, driver: str | None = None, arch: str | None = None
) -> Examined:
    """Reads an environment's records. Without `driver` and `arch`, the machine is this one.

    Raises:
        BadValue: The driver or the GPU cannot be read.
        LockError: A release lock is not valid.
        NoSpace: This user may not read a record.
    """
    installed = Installed.read(prefix)
    packages = {}
    for file, record in installed.records.items():
        package = _package(record)
        if package:
            packages[file] = package
    records = {file: installed.records[file] for file in packages}
    # Each *.json is a record for conda and rattler.
    others = [file for file in (prefix / "conda-meta").glob("*.json") if file not in packages]
    subdirs = [package.subdir for package in packages.values() if package.subdir in PLATFORMS]
    its_machine = machine(subdirs[0] if subdirs else None, driver, arch)
    return Examined(
        has=Installed(prefix, records, tuple(sorted(others))),
        packages=tuple(packages.values()),
        locks=release_locks(workspace),
        machine=its_machine,
        overstated=overstated(its_machine, workspace),
        reaching_out=tuple(reaching_out(prefix, installed.records)),
    )


def _package(record: Any) -> InstalledPackage | None:
    """The package of a record; None if it cannot be read."""
    try:
        return _read_package(record)
    except Exception:  # anything can be in the file, and rattler has errors of its own
        return None


def _read_package(record: Mapping[str, Any]) -> InstalledPackage | None:
    """The package of a record; None if no package can have its name, or a text is far too long."""
    identity = readable_identity(record)
    if identity is None:
        return None
    name, version, build = identity
    subdir = str(record.get("subdir") or "")
    channel = str(record.get("channel") or "")
    # `url` has the whole address of the channel; conda's `channel` ends with the platform.
    address = str(record.get("url") or "").rsplit("/", 2)[0] or channel
    depends = tuple(str(spec) for spec in record.get("depends") or ())
    constrains = tuple(str(spec) for spec in record.get("constrains") or ())
    if any(len(text) > _LONGEST for text in (channel, address, *depends, *constrains)):
        return None
    if name == "python":  # conda adds it (add_pip_as_python_dependency): no need of the package
        depends = tuple(spec for spec in depends if spec != "pip")
    place = re.sub(rf"/(noarch|{re.escape(subdir)})/?$", "", address)
    source = lasting(public(place).rstrip("/"))
    return InstalledPackage(
        name=name,
        version=version,
        build=build,
        subdir=subdir,
        channel=channel_name(source or channel),
        source=source,
        depends=depends,
        constrains=constrains,
        files=tuple(file.path for file in files_of(record)),
        record=_known(identity, record),
    )


def readable_identity(record: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The name, version and build of a record; None if no package can have them."""
    name, version, build = (str(record.get(key) or "") for key in ("name", "version", "build"))
    is_readable = _IDENTITY.fullmatch(f"{name} {version} {build}")
    return (name, version, build) if is_readable else None


def _known(identity: tuple[str, str, str], record: Mapping[str, Any]) -> PackageRecord:
    """A record with all that a spec can ask for, but for tracked features."""
    name, version, build = identity
    md5, sha256 = (bytes.fromhex(str(record.get(key) or "")) for key in ("md5", "sha256"))
    return package_record(
        name,
        version,
        build,
        int(record.get("build_number") or 0),
        str(record.get("subdir") or "noarch"),
        license=str(record.get("license") or ""),
        depends=[str(spec) for spec in record.get("depends") or ()],
        constrains=[str(spec) for spec in record.get("constrains") or ()],
        md5=md5 or None,
        sha256=sha256 or None,
    )


def module_folders(prefix: Path) -> list[ModuleFolder]:
    """The folders of modules of an environment's Python, in its search order.

    Source: https://docs.python.org/3/library/site.html. cuda.pathfinder has the same order, except
    for PYTHONPATH. Folders that a process adds while it runs are not known.
    """
    own = sites(prefix)
    found = [
        ModuleFolder(Path(text), "PYTHONPATH")
        for text in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if text
    ]
    if not os.environ.get("PYTHONNOUSERSITE"):
        base = Path(os.environ.get("PYTHONUSERBASE") or Path.home() / ".local")
        found += [ModuleFolder(base / place.relative_to(prefix), "user site") for place in own]
    return [*found, *map(ModuleFolder, own)]


def _pip_wheels(folder: ModuleFolder, environment: Examined) -> Iterator[Wheel]:
    """The distributions in a folder of modules that conda did not install."""
    for info in sorted(folder.path.glob("*.dist-info")):
        match = _WHEEL.fullmatch(info.name)
        if match and (folder.by or info in environment.has.of_pip):
            libraries = tuple(_LIBRARY.findall(text_of(info / "RECORD")))
            yield Wheel(canonicalize_name(match[1]), match[2], libraries, folder, info)
