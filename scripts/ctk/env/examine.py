"""Reads an environment that any client made: its packages of conda and of pip, and the machine that
it is for.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rattler import PackageRecord

from ctk.core.address import public
from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.env.outside import reaching_out
from ctk.env.prefix import Installed, Note, sites, text_of
from ctk.env.record_files import files_of
from ctk.env.request import asked_for, install_line
from ctk.index.inside import applies, stated_requirements
from ctk.lock.model import ReleaseLock, release_locks
from ctk.package.records import package_record, spec_name
from ctk.solve.driver import DriverState, driver_state
from ctk.solve.machine import Machine, machine, overstated, too_old
from ctk.solve.solve import Catalogue, Scenario, channel_name, lasting, older

_IDENTITY = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,127} [\w.!+-]{1,64} [\w.+-]{0,127}")
_WHEEL = re.compile(r"([A-Za-z0-9_.]{1,127})-([\w.!+]{1,64})\.dist-info")
_DISTRIBUTION = re.compile(r"([A-Za-z0-9_.]+?)(?:-([\w.!+]*?))?(?:-py[\d.]+)?\.(?:dist|egg)-info")
_LIBRARY = re.compile(r"^nvidia/(?:[^\n]*/)?([^/\n]+(?:\.so(?:\.\d+)*|\.dll)),", re.M)
_LONGEST = 1000  # characters of a spec or a channel
_HEADERS = 1 << 18  # characters of a METADATA, which begins with its headers


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
    by: str = (
        ""  # the variable or program that adds it: ``PYTHONPATH`` or ``user site``; "" for its own
    )

    @property
    def python(self) -> str:
        """The minor version of the Python that reads it; "" if every Python does."""
        found = re.fullmatch(r"python(3\.\d+)t?", self.path.parent.name)
        return found[1] if found else ""


@dataclass(frozen=True)
class Wheel:
    """A distribution that the environment's Python finds and that conda did not install."""

    name: str
    version: str
    libraries: tuple[str, ...]  # file names of NVIDIA's libraries in it
    folder: ModuleFolder
    info: Path  # its dist-info

    def __str__(self) -> str:
        return f"{self.name} {self.version}{f' in {self.folder.path}' if self.folder.by else ''}"


class Lack(NamedTuple):
    """What a wheel needs, and which version is there; "" for none."""

    wheel: Wheel
    need: Requirement
    version: str

    def __str__(self) -> str:
        has = f"and there is {self.version}" if self.version else "which is not there"
        return f"{self.wheel} needs {self.need}, {has}"


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
        """What conda did not install in the environment, or in a folder that its Python searches
        first.
        """
        return tuple(chain(*(_pip_wheels(folder, self) for folder in module_folders(self.prefix))))

    @cached_property
    def nvidia_wheels(self) -> tuple[Wheel, ...]:
        """Wheels with content that conda's CUDA packages have too: NVIDIA's libraries or Python
        projects.
        """
        known = {c.distribution for lock in self.locks.values() for c in lock.components.values()}
        return tuple(wheel for wheel in self.wheels if wheel.libraries or wheel.name in known)

    @cached_property
    def twice(self) -> tuple[Wheel, ...]:
        """Wheels whose distribution is there a second time, of a package of conda."""
        names: Counter[tuple[Path, str]] = Counter(
            (folder, canonicalize_name(match[1]))
            for folder in sites(self.prefix)
            for file in folder.glob("*-info")
            if (match := _DISTRIBUTION.fullmatch(file.name))
        )
        ours = [wheel for wheel in self.wheels if wheel.name in self.has.distributions]
        return tuple(wheel for wheel in ours if names[wheel.folder.path, wheel.name] > 1)

    @cached_property
    def channels(self) -> list[str]:
        """The channels of its packages: first the channel of its toolkit, then the channels with
        most packages.
        """
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
        fit = [m for m in self._for_gpu if driver and not older(driver, m)]
        if not fit:
            return ""
        build = (
            " native_*" if self.fit else ""
        )  # another channel has only one build of a cuda-version
        spec = f"cuda-version >={fit[0]},<={fit[-1]}{build}"
        if self.folders is None:
            return spec
        keeps = [
            p.name for p in self.packages if any(spec_name(s) == "cuda-version" for s in p.depends)
        ]
        specs = self._repeatable or (spec, *keeps)
        pick = self.folders.pick(Scenario(specs, self.machine.subdir, driver, self.machine.arch))
        return spec if pick and pick.fit != "compat" else ""

    @cached_property
    def folders(self) -> Catalogue | None:
        """Its channels, if all are folders."""
        places = [
            Path(unquote(urlsplit(source).path))
            for source in self.channels
            if source.startswith("file:")
        ]
        if (
            not places
            or len(places) < len(self.channels)
            or not all(place.is_dir() for place in places)
        ):
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
        arch, minors = (
            self.machine.arch,
            [lock.minor for lock in self.locks.values() if lock.is_ctk],
        )
        return [m for m in minors if not arch or arch in self.targets(m)]

    @cached_property
    def newer_driver(self) -> str:
        """The CUDA version of a newer driver for its toolkit, else for the first that `_native`
        finds; or "".
        """
        known = [m for m in self._for_gpu if self.machine.driver and older(self.machine.driver, m)]
        version = self.toolkit.version if self.toolkit else ""
        return (
            version
            if version in known
            else ""
            if self.better
            else next(filter(self._native, known), "")
        )

    @cached_property
    def note(self) -> Note | None:
        """The note of `ctk env create`, if it made the environment and has put every
        package there.
        """
        note = Note.read(self.prefix)
        return (
            note if note and note.asked and set(self.has.packages) <= set(note.packages) else None
        )

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
        """The command that gives the environment specs: `ctk env create` again if that made it,
        else the client's.
        """
        if self.note and self._repeatable:
            return self.note.again(self.prefix, driver=self.machine.driver, arch=self.machine.arch)
        return install_line("conda", self.prefix, self.channels, specs)

    def pip(self, *words: str, specs: Iterable[str] = ()) -> list[str]:
        """The commands that give the environment more packages of conda, and run its pip."""
        more = dict.fromkeys([*specs, *(["pip"] if words and "pip" not in self.by_name else [])])
        steps = (
            [self.note.again(self.prefix, *more) if self.note else self.install(*more)]
            if more
            else []
        )
        if words:
            steps.append(
                shlex.join(
                    ["ctk", "env", "run", str(self.prefix), "--", "python", "-m", "pip", *words]
                )
            )
        return steps

    def fix(self) -> str:
        """The commands that give the environment a toolkit for the machine, or the machine a driver
        for the toolkit.
        """
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
    has = Installed.read(prefix)
    outside = tuple(reaching_out(prefix, has.records))
    packages = {file: _package(record) for file, record in has.records.items()}
    found = {file: package for file, package in packages.items() if package}
    # Each *.json is a record for conda and rattler.
    others = [file for file in (prefix / "conda-meta").glob("*.json") if file not in found]
    has = Installed(prefix, {file: has.records[file] for file in found}, tuple(sorted(others)))
    on = machine(
        next((p.subdir for p in found.values() if p.subdir in PLATFORMS), None), driver, arch
    )
    locks = release_locks(workspace)
    return Examined(has, tuple(found.values()), locks, on, overstated(on, workspace), outside)


def _package(record: Any) -> InstalledPackage | None:
    try:
        if not (identity := readable_identity(record)):
            return None
        name, version, build = identity
        specs = [tuple(map(str, record.get(key) or ())) for key in ("depends", "constrains")]
        channel = str(record.get("channel") or "")
        if max(map(len, (channel, *specs[0], *specs[1]))) > _LONGEST:
            return None
        files = tuple(file.path for file in files_of(record))
        subdir, known = str(record.get("subdir") or ""), _known(identity, record)
        if name == "python":  # conda adds it (add_pip_as_python_dependency): no need of the package
            specs[0] = tuple(spec for spec in specs[0] if spec != "pip")
        # `url` has the whole address of the channel; conda's `channel` ends with the platform.
        address = str(record.get("url") or "").rsplit("/", 2)[0] or channel
        if max(map(len, (address, channel))) > _LONGEST:
            return None
        source = lasting(
            public(re.sub(rf"/(noarch|{re.escape(subdir)})/?$", "", address)).rstrip("/")
        )
        shown = channel_name(source or channel)
        return InstalledPackage(
            name, version, build, subdir, shown, source, specs[0], specs[1], files, known
        )
    except Exception:  # anything can be in the file, and rattler has errors of its own
        return None


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


def _pip_wheels(folder: ModuleFolder, on: Examined) -> Iterator[Wheel]:
    for info in sorted(folder.path.glob("*.dist-info")):
        match = _WHEEL.fullmatch(info.name)
        if match and (folder.by or info in on.has.of_pip):
            libraries = tuple(_LIBRARY.findall(text_of(info / "RECORD")))
            yield Wheel(canonicalize_name(match[1]), match[2], libraries, folder, info)


def lacking(on: Examined) -> Iterator[Lack]:
    """What the environment's own wheels need, without extras, and its Python does not find.

    What cannot be read is left out.
    """
    python = on.by_name["python"].version if "python" in on.by_name else ""
    minor = ".".join(python.split(".")[:2])
    names = ("python_version", "python_full_version", "implementation_version", "extra")
    markers = dict(zip(names, (minor, python, python, ""), strict=True))
    markers |= PLATFORMS[on.machine.subdir].marker_environment
    folders = [folder for folder in module_folders(on.prefix) if folder.python in ("", minor)]
    files = (
        file.name for folder in reversed(folders) for file in sorted(folder.path.glob("*-info"))
    )
    there = {
        str(canonicalize_name(match[1])): match[2]
        for match in map(_DISTRIBUTION.fullmatch, files)
        if match
    }
    there |= {"python": python} if python else {}
    for wheel in (wheel for wheel in on.wheels if not wheel.folder.by):
        metadata = text_of(wheel.info / "METADATA")[:_HEADERS]
        if wheel.folder not in folders:  # of the Python that was there
            metadata = (
                "" if wheel.name in there else f"Requires-Dist: python=={wheel.folder.python}.*"
            )
        for line, need in stated_requirements(HeaderParser().parsestr(metadata)):
            with suppress(LockError):
                if (
                    need
                    and len(line) < _LONGEST
                    and line.isprintable()
                    and applies(need, [markers])
                ):
                    name = canonicalize_name(need.name)
                    version = there.get(name) or ""  # a folder can be without one
                    if name not in there or (
                        version and not need.specifier.contains(version, prereleases=True)
                    ):
                        need.marker = need.url = None
                        yield Lack(wheel, need, version)
