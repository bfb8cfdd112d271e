"""An environment that any client made, as conda's records and pip's say it is; what is no record cannot end a run."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rattler import PackageRecord
from rattler.package.build_string import BuildString

from ctk.core.checkout import Workspace
from ctk.core.files import LARGEST, read_json
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.solve.machine import Machine, machine
from ctk.solve.solve import channel_name, older

_NAME, _VERSION, _BUILD = (
    re.compile(p) for p in (r"[a-z0-9_][a-z0-9_.-]{0,127}", r"[\w.!+-]{1,64}", r"[\w.+-]{0,127}")
)
_WHEEL = re.compile(r"([A-Za-z0-9_.]{1,127})-([\w.!+]{1,64})\.dist-info")
_LIBRARY = re.compile(r"^nvidia/[^\n]*(\.so(\.\d+)*|\.dll),", re.M)
_LONGEST = 1000  # characters of a spec or a channel


@dataclass(frozen=True)
class InstalledPackage:
    """A package that conda installed.

    Attributes:
        channel: Its name; the address may hold a token.
        depends, constrains: Specs.
        files: Path -> sha256 as it was installed, "" where that is not noted.
    """

    name: str
    version: str
    build: str
    subdir: str
    channel: str
    depends: tuple[str, ...]
    constrains: tuple[str, ...]
    files: Mapping[str, str]
    record: PackageRecord

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.build} of {self.channel or 'an unknown channel'}"


@dataclass(frozen=True)
class Wheel:
    """A distribution in site-packages that conda did not install."""

    name: str
    version: str
    has_libraries: bool

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Examined:
    """An environment on a machine.

    Attributes:
        prefix: Its folder.
        packages: What its records say; two of one name where there are two.
        unreadable: Records that cannot be read.
        locks: The CTK releases that are known.
        machine: The machine.
        is_here: Whether that is this machine, and not described by options.
    """

    prefix: Path
    packages: tuple[InstalledPackage, ...]
    unreadable: tuple[str, ...]
    locks: Mapping[str, ReleaseLock]
    machine: Machine
    is_here: bool

    @property
    def place(self) -> str:
        """The prefix as a word of a shell."""
        return shlex.quote(str(self.prefix))

    @cached_property
    def by_name(self) -> dict[str, InstalledPackage]:
        return {package.name: package for package in self.packages}

    @property
    def toolkit(self) -> InstalledPackage | None:
        return self.by_name.get("cuda-version")

    @property
    def fit(self) -> str:
        """``native`` or ``compat``; "" without CUDA, or with another channel's cuda-version."""
        kind = self.toolkit.build.partition("_")[0] if self.toolkit else ""
        return kind if kind in ("native", "compat") else ""

    @cached_property
    def wheels(self) -> tuple[Wheel, ...]:
        """What pip installed, or something like it."""
        return tuple(_wheels(self.prefix, self.packages))

    @cached_property
    def nvidia_wheels(self) -> tuple[Wheel, ...]:
        """Those with what conda's CUDA packages have too: libraries, or NVIDIA's Python projects."""
        known = {c.distribution for lock in self.locks.values() for c in lock.components.values()}
        return tuple(wheel for wheel in self.wheels if wheel.has_libraries or wheel.name in known)

    def targets(self, minor: str) -> tuple[str, ...]:
        """The GPUs that a toolkit compiles for; none where it is not known."""
        lock = self.locks.get(f"cuda-{minor}")
        return lock.facts.gpu_architectures if lock and lock.facts else ()

    @cached_property
    def best(self) -> str:
        """The newest known toolkit that is native on the machine; "" for none."""
        driver, arch = self.machine.driver, self.machine.arch
        minors = [lock.minor for lock in self.locks.values() if lock.is_ctk]  # in order
        fit = [m for m in minors if driver and not older(driver, m) and (not arch or arch in self.targets(m))]
        return fit[-1] if fit else ""

    def install(self, *specs: str) -> str:
        """The command that installs something in it."""
        return f"conda install -p {self.place} {shlex.join(specs)}"

    def uninstall(self, *wheels: str) -> str:
        """The command that removes wheels from it."""
        return f"ctk env run {self.place} -- python -m pip uninstall --yes {' '.join(wheels)}"

    def mend(self) -> str:
        """What gives the machine and the environment the same toolkit."""
        if self.best:
            spec = f"cuda-version={self.best}{'=native_*' if self.fit else ''}"
            return f"{self.install(spec)}, or update the driver"
        knows = f" that knows GPU {self.machine.arch}" if self.machine.arch else ""
        return f"update the driver: this one takes no toolkit{knows}"


def examined(workspace: Workspace, prefix: Path, driver: str | None = None, arch: str | None = None) -> Examined:
    """Reads an environment's records. What is no record is kept by its name; none can end the run.

    Args:
        workspace: The checkout, whose release locks say what toolkits can do.
        prefix: The environment.
        driver: The machine's, as `ctk.solve.machine.machine` takes it; this machine's where it is None.
        arch: The same of its GPU.

    Raises:
        BadValue: A driver or GPU that cannot be read.
        LockError: A release lock is not valid.
    """
    found, unreadable = [], []
    for file in sorted((prefix / "conda-meta").glob("*-*.json")):
        package = _package(read_json(file)) if file.is_file() else None
        if package is None:
            unreadable.append(file.name)
        else:
            found.append(package)
    on = machine(next((p.subdir for p in found if p.subdir in PLATFORMS), None), driver, arch)
    here = on.subdir == this_platform() and driver is None and arch is None
    return Examined(
        prefix=prefix,
        packages=tuple(found),
        unreadable=tuple(unreadable),
        locks=release_locks(workspace),
        machine=on,
        is_here=here,
    )


def _package(record: Any) -> InstalledPackage | None:
    try:
        name, version, build = (str(record[key]) for key in ("name", "version", "build"))
        specs = [tuple(map(str, record.get(key) or ())) for key in ("depends", "constrains")]
        channel = str(record.get("channel") or "")
        readable = _NAME.fullmatch(name) and _VERSION.fullmatch(version) and _BUILD.fullmatch(build)
        if not readable or max(map(len, (channel, *specs[0], *specs[1]))) > _LONGEST:
            return None
        entries = (record.get("paths_data") or {}).get("paths") or ()
        files = dict.fromkeys(map(str, record.get("files") or ()), "")
        files |= {str(e["_path"]): str(e.get("sha256_in_prefix") or e.get("sha256") or "") for e in entries}
        known = PackageRecord(name, version, BuildString(build), 0, "noarch")
        subdir = str(record.get("subdir") or "")
        return InstalledPackage(name, version, build, subdir, channel_name(channel), specs[0], specs[1], files, known)
    except Exception:  # whatever somebody wrote there, or rattler does not take as a version
        return None


def _wheels(prefix: Path, packages: Iterable[InstalledPackage]) -> Iterator[Wheel]:
    own = {path: sha256 for package in packages for path, sha256 in package.files.items()}
    folders = {path.rpartition("/")[0] for path in own}
    for info in sorted(
        [*prefix.glob("lib/python3*/site-packages/*.dist-info"), *prefix.glob("Lib/site-packages/*.dist-info")]
    ):
        match = _WHEEL.fullmatch(info.name)
        place = info.relative_to(prefix).as_posix()
        if match and (place not in folders or _is_replaced(info / "INSTALLER", own.get(f"{place}/INSTALLER", ""))):
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            yield Wheel(name, match[2], bool(_LIBRARY.search(_text(info / "RECORD"))))


def _is_replaced(file: Path, sha256: str) -> bool:
    """Whether a file is another than the one that was installed: pip puts the same version in place of conda's."""
    text = _text(file)
    return bool(text and sha256) and hashlib.sha256(text.encode()).hexdigest() != sha256


def _text(file: Path) -> str:
    """The text of a file of pip's; "" for anything else."""
    try:
        if not file.is_file():
            return ""
        with file.open(encoding="utf-8", newline="") as content:
            return content.read(LARGEST)
    except (OSError, ValueError):
        return ""
