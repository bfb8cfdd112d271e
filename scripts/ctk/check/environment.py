"""`ctk env check`: an environment that any client made, as conda's records and pip's describe it, and its checks."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from rattler import MatchSpec, PackageRecord
from rattler.package.build_string import BuildString

from ctk.check import Finding, checks_of, spec_name
from ctk.check.doctor import first_line, look_at, missing, ok, problem
from ctk.core.checkout import Workspace
from ctk.core.console import count, listing
from ctk.core.files import LARGEST, check_readable, read_json
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.solve.machine import STATE_DRIVER, Machine, machine, overstated
from ctk.solve.solve import channel_name, older

_IDENTITY = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,127} [\w.!+-]{1,64} [\w.+-]{0,127}")
_WHEEL = re.compile(r"([A-Za-z0-9_.]{1,127})-([\w.!+]{1,64})\.dist-info")
_LIBRARY = re.compile(r"^nvidia/[^\n]*(\.so(\.\d+)*|\.dll),", re.M)
_LONGEST = 1000  # characters of a spec or a channel


@dataclass(frozen=True)
class InstalledPackage:
    """A package that conda installed; of each file the sha256 as it was then, "" where it is not noted."""

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
    """An environment, its records, and the machine, which is this one or described by options."""

    prefix: Path
    packages: tuple[InstalledPackage, ...]
    unreadable: tuple[str, ...]
    locks: Mapping[str, ReleaseLock]
    machine: Machine
    is_here: bool
    overstated: str = ""  # of the machine, as `solve.machine` says it

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
    def nvidia_wheels(self) -> tuple[Wheel, ...]:
        """What pip installed of what conda's CUDA packages have too: libraries, or NVIDIA's Python projects."""
        known = {c.distribution for lock in self.locks.values() for c in lock.components.values()}
        wheels = _pip_wheels(self.prefix, self.packages)
        return tuple(wheel for wheel in wheels if wheel.has_libraries or wheel.name in known)

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
        return shlex.join(["conda", "install", "-p", str(self.prefix), *specs])

    def uninstall(self, *wheels: str) -> str:
        """The command that removes wheels from it."""
        run = ["ctk", "env", "run", str(self.prefix), "--", "python", "-m", "pip", "uninstall", "--yes"]
        return shlex.join([*run, *wheels])

    def mend(self) -> str:
        """What gives the machine and the environment the same toolkit."""
        if self.best:
            spec = f"cuda-version={self.best}{'=native_*' if self.fit else ''}"
            return f"{self.install(spec)}, or update the driver"
        knows = f" that knows GPU {self.machine.arch}" if self.machine.arch else ""
        return f"update the driver: this one takes no toolkit{knows}"

    def mended(self, text: str) -> Finding:
        """A finding that another toolkit mends; without one, only another driver would."""
        return problem(text, self.mend()) if self.best else missing(text, self.mend())


def examined(workspace: Workspace, prefix: Path, driver: str | None = None, arch: str | None = None) -> Examined:
    """Reads an environment's records; driver and GPU are this machine's where they are None.

    Raises:
        BadValue: A driver or GPU that cannot be read.
        LockError: A release lock is not valid.
        NoSpace: A record may not be read.
    """
    found, unreadable = [], []
    # All that conda and rattler take for a record.
    files = sorted((prefix / "conda-meta").glob("*.json"))
    check_readable(prefix / "conda-meta", *files)
    for file in files:
        package = _package(read_json(file)) if file.is_file() else None
        if package is None:
            unreadable.append(file.name)
        else:
            found.append(package)
    on = machine(next((p.subdir for p in found if p.subdir in PLATFORMS), None), driver, arch)
    here = on.subdir == this_platform() and driver is None and arch is None
    locks, said = release_locks(workspace), overstated(on, workspace)
    return Examined(prefix, tuple(found), tuple(unreadable), locks, on, here, said)


def _package(record: Any) -> InstalledPackage | None:
    try:
        name, version, build = (str(record[key]) for key in ("name", "version", "build"))
        specs = [tuple(map(str, record.get(key) or ())) for key in ("depends", "constrains")]
        channel = str(record.get("channel") or "")
        readable = _IDENTITY.fullmatch(f"{name} {version} {build}")
        if not readable or max(map(len, (channel, *specs[0], *specs[1]))) > _LONGEST:
            return None
        entries = (record.get("paths_data") or {}).get("paths") or ()
        files = dict.fromkeys(map(str, record.get("files") or ()), "")
        files |= {str(e["_path"]): str(e.get("sha256_in_prefix") or e.get("sha256") or "") for e in entries}
        subdir, known = str(record.get("subdir") or ""), _record(name, version, build)
        return InstalledPackage(name, version, build, subdir, channel_name(channel), specs[0], specs[1], files, known)
    except Exception:  # whatever somebody wrote there, or rattler does not take as a version
        return None


def _record(name: str, version: str, build: str = "0") -> PackageRecord:
    return PackageRecord(name, version, BuildString(build), 0, "noarch")


def _pip_wheels(prefix: Path, packages: Iterable[InstalledPackage]) -> Iterator[Wheel]:
    own = {path: sha256 for package in packages for path, sha256 in package.files.items()}
    folders = {path.rpartition("/")[0] for path in own}
    sites = prefix.glob("lib/python3*/site-packages/*.dist-info"), prefix.glob("Lib/site-packages/*.dist-info")
    for info in sorted(chain(*sites)):
        match = _WHEEL.fullmatch(info.name)
        place = info.relative_to(prefix).as_posix()
        # pip puts the same version in place of conda's: another file than the one that was installed.
        text, sha256 = _text(info / "INSTALLER"), own.get(f"{place}/INSTALLER", "")
        is_replaced = text and sha256 and hashlib.sha256(text.encode()).hexdigest() != sha256
        if match and (place not in folders or is_replaced):
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            yield Wheel(name, match[2], bool(_LIBRARY.search(_text(info / "RECORD"))))


def _text(file: Path) -> str:
    """The text of a file of pip's; "" for anything else."""
    try:
        if not file.is_file():
            return ""
        with file.open(encoding="utf-8", newline="") as content:
            return content.read(LARGEST)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return ""


_SHOWN = 4  # of many


def _holds(spec: str, record: PackageRecord) -> bool:
    """Whether a package is what a spec asks for; what is no spec asks for nothing."""
    try:
        return MatchSpec(spec).matches(record)
    except Exception:  # rattler's own, of many kinds
        return True


def _some(texts: Sequence[str]) -> str:
    """The first of many."""
    return listing([*texts[:_SHOWN], *([f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else [])])


@look_at(Examined, "records")
def _records(on: Examined) -> Finding:
    """A package whose record is broken, or there twice, is neither updated nor removed by any client."""
    names = [package.name for package in on.packages]
    twice = sorted({name for name in names if names.count(name) > 1})
    if on.unreadable:
        files = [shlex.quote(str(on.prefix / "conda-meta" / name)) for name in on.unreadable]
        lost = [name.rsplit("-", 2)[0] for name in on.unreadable]
        step = f"rm {' '.join(files)} && {on.install('--force-reinstall', *lost)}"
        return problem(f"no records: {_some([ascii(name)[1:-1] for name in on.unreadable])}", step)
    if twice:
        return problem(f"installed twice: {_some(twice)}", on.install("--force-reinstall", *twice))
    channels = sorted({package.channel or "an unknown channel" for package in on.packages})
    return ok(f"{count(len(names), 'package')}{f', of {listing(channels)}' if channels else ''}")


@look_at(Examined, "wheels of pip")
def _wheels(on: Examined) -> Finding:
    """cuda.pathfinder looks into pip's wheels first: their libraries are loaded in place of conda's."""
    wheels = on.nvidia_wheels
    if not wheels:
        return ok("none of NVIDIA's")
    if not any(name == "cuda-version" or name.startswith("cuda") for name in on.by_name):
        return ok(f"{count(len(wheels), 'wheel')} of NVIDIA's, and no CUDA of conda's beside them")
    names = [wheel.name for wheel in wheels]
    step = on.uninstall(*names)
    if both := [name for name in names if name in on.by_name]:
        step += f" && {on.install('--force-reinstall', *both)}"
    return problem(f"beside conda's CUDA: {_some([str(wheel) for wheel in wheels])}", step)


@look_at(Examined, "CUDA major")
def _one_major(on: Examined) -> Finding:
    """No program can use libraries of two CUDA majors together: their interfaces differ."""
    packages = [(major, p.name, f"{p.name} {p.version}") for p in on.packages if (major := _major(p))]
    wheels = [(major, w.name, f"{w} of pip") for w in on.nvidia_wheels if (major := _major_of_wheel(w))]
    found: dict[str, list[str]] = defaultdict(list)
    for major, _, text in (*packages, *wheels):
        found[major].append(text)
    if len(found) < 2:
        return ok(next(iter(found), "none"))
    own = on.toolkit.version.partition(".")[0] if on.toolkit else max(found, key=lambda major: len(found[major]))
    strange, others = ([name for major, name, _ in rows if major != own] for rows in (wheels, packages))
    steps = [on.uninstall(*strange)] if strange else []
    steps += [on.install(f"cuda-version={own}", *others)] if others else []
    return problem("; ".join(f"{major}: {_some(texts)}" for major, texts in sorted(found.items())), " && ".join(steps))


_BUILT_FOR = re.compile(r"(?:^|_)cuda_?(1\d)\d?(?:_|py|h|$)")
_VERSIONED = ("cudatoolkit", "cuda-bindings", "cuda-python", "cuda-toolkit", "cuda-version")
"""Packages, and wheels, whose version begins with the CUDA major."""


@cache
def _toolkits() -> dict[str, list[PackageRecord]]:
    """CUDA major -> the cuda-version of each of its minors, some of which no toolkit has."""
    return {str(major): [_record("cuda-version", f"{major}.{minor}") for minor in range(10)] for major in range(9, 17)}


def _major(package: InstalledPackage) -> str:
    """The CUDA major that a package is for; "" where it is for none or several."""
    if package.name in _VERSIONED:
        return package.version.partition(".")[0]
    if built := _BUILT_FOR.search(package.build):
        return built[1]
    for spec in package.depends:
        if spec_name(spec) == "cuda-version":
            versions = " ".join(spec.split()[:2])  # without the build
            majors = [major for major, found in _toolkits().items() if any(_holds(versions, each) for each in found)]
            return majors[0] if len(majors) == 1 else ""
    return ""


def _major_of_wheel(wheel: Wheel) -> str:
    if named := re.search(r"-cu(1\d)$", wheel.name):
        return named[1]
    is_versioned = wheel.name in _VERSIONED or wheel.name.startswith("nvidia-cuda-")
    return wheel.version.partition(".")[0] if is_versioned else ""


@look_at(Examined, "packages agree")
def _agreement(on: Examined) -> Finding:
    """A package was made for what it asks for; with something else it fails when it is imported, or later."""
    unmet, names = [], set()
    for package in on.packages:
        for spec in (*package.depends, *package.constrains):
            name = spec_name(spec)
            other = on.by_name.get(name)
            if other is not None and not _holds(spec, other.record):
                unmet.append(f"{package} needs {spec}, and there is {other}")
            elif other is None and spec in package.depends and not name.startswith("__") and not on.unreadable:
                unmet.append(f"{package} needs {spec}, which is not there")
            else:
                continue
            names |= {package.name, name}
    if unmet:
        more = [f"and {len(unmet) - _SHOWN} more"] if len(unmet) > _SHOWN else []
        return problem("; ".join([*unmet[:_SHOWN], *more]), on.install(*sorted(names)[:12]))
    return ok(f"what {count(len(on.packages), 'package')} ask for is there")


@look_at(Examined, "driver")
def _driver_fits(on: Examined) -> Finding:
    """A driver older than packages ask for does not load their code: errors 35 and 222."""
    driver = on.machine.driver
    specs = [(p, s) for p in on.packages for s in (*p.depends, *p.constrains) if spec_name(s) == "__cuda"]
    if not driver:
        if wanted := [f"{p.name} {p.version} needs {s}" for p, s in specs if s in p.depends]:
            return missing(f"{on.machine.words}, and {_some(wanted)}", "ctk doctor; --driver describes another machine")
        return ok(on.machine.words)
    there = _record("__cuda", driver)
    unmet = [f"{p.name} {p.version} needs {s}" for p, s in specs if not _holds(s, there)]
    if unmet:
        return problem(f"it supports CUDA {driver}, and {_some(unmet)}", on.mend())
    if on.overstated:
        return missing(on.overstated, STATE_DRIVER)
    return ok(f"it supports CUDA {driver}")


@look_at(Examined, "native toolkit")
def _native_toolkit(on: Examined) -> Finding:
    """A driver refuses PTX of a toolkit newer than itself (error 222); a native toolkit never is."""
    toolkit, driver, arch = on.toolkit, on.machine.driver, on.machine.arch
    if toolkit is None:
        return ok("no CUDA toolkit in it")
    text = f"toolkit {toolkit.version}{' ' if on.fit else ''}{on.fit}"
    if not driver or on.fit == "native":
        return ok(text)
    if older(driver, toolkit.version):
        return on.mended(f"{text} is newer than the driver, which supports CUDA {driver}")
    if on.fit == "compat" and (not arch or arch in on.targets(toolkit.version)):
        step = on.install(f"cuda-version={toolkit.version}=native_*")
        return missing(f"{text}, where the driver takes it native: an update may bring a newer one", step)
    return ok(text)


@look_at(Examined, "GPU")
def _gpu_known(on: Examined) -> Finding:
    """A client that does not see the GPU picks as if there were none; a toolkit compiles for those that it knows."""
    toolkit, arch = on.toolkit, on.machine.arch
    if not arch:
        return _unseen(on)
    known = on.targets(toolkit.version) if toolkit else ()
    if toolkit is None or not known or arch in known:
        return ok(f"compute capability {arch}")
    return on.mended(f"toolkit {toolkit.version} does not know compute capability {arch}; it knows {listing(known)}")


def _unseen(on: Examined) -> Finding:
    said = first_line("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader") if on.is_here else None
    if not said:
        return ok(on.machine.words)
    text = f"nvidia-smi has {said}, and clients see none"
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return missing(f"{text}: CUDA_VISIBLE_DEVICES hides it", "unset CUDA_VISIBLE_DEVICES")
    capability = re.search(r"\d+\.\d$", said)
    return missing(text, f"export CONDA_OVERRIDE_CUDA_ARCH={capability[0] if capability else '9.0'}")


ENVIRONMENT_CHECKS = checks_of(sys.modules[__name__])
