"""What `ctk env check` looks at: an environment that any client made, and the machine that it is used on."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from rattler import MatchSpec, PackageRecord
from rattler.package.build_string import BuildString

from ctk import notes
from ctk.catalogue import listing, older
from ctk.doctor.check import Check, Seen, Where, first_line, missing, ok, problem
from ctk.lock import ReleaseLock, release_locks
from ctk.machine import Machine, machine
from ctk.platforms import PLATFORMS, this_platform
from ctk.report import count
from ctk.solve import channel_name

_NAME, _VERSION, _BUILD = (
    re.compile(p) for p in (r"[a-z0-9_][a-z0-9_.-]{0,127}", r"[\w.!+-]{1,64}", r"[\w.+-]{0,127}")
)
_WHEEL = re.compile(r"([A-Za-z0-9_.]{1,127})-([\w.!+]{1,64})\.dist-info")
_LIBRARY = re.compile(r"^nvidia/[^\n]*(\.so(\.\d+)*|\.dll),", re.M)
_LONGEST = 1000  # characters of a spec or a channel
_SHOWN = 4  # of many


@dataclass(frozen=True)
class Package:
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


@dataclass(frozen=True, kw_only=True)
class Examined(Where):
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
    packages: tuple[Package, ...]
    unreadable: tuple[str, ...]
    locks: Mapping[str, ReleaseLock]
    machine: Machine
    is_here: bool

    @property
    def place(self) -> str:
        """The prefix as a word of a shell."""
        return shlex.quote(str(self.prefix))

    @cached_property
    def by_name(self) -> dict[str, Package]:
        return {package.name: package for package in self.packages}

    @property
    def toolkit(self) -> Package | None:
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

    def mend(self) -> str:
        """What gives the machine and the environment the same toolkit."""
        if self.best:
            spec = f"cuda-version={self.best}{'=native_*' if self.fit else ''}"
            return f"{self.install(spec)}, or update the driver"
        knows = f" that knows GPU {self.machine.arch}" if self.machine.arch else ""
        return f"update the driver: this one takes no toolkit{knows}"


def examined(where: Where, prefix: Path, driver: str | None = None, arch: str | None = None) -> Examined:
    """Reads an environment's records. What is no record is kept by its name; none can end the run.

    Args:
        where: The checkout, whose release locks say what toolkits can do.
        prefix: The environment.
        driver: The machine's, as `ctk.machine.machine` takes it; this machine's where it is None.
        arch: The same of its GPU.

    Raises:
        BadValue: A driver or GPU that cannot be read.
        LockError: A release lock is not valid.
    """
    found, unreadable = [], []
    for file in sorted((prefix / "conda-meta").glob("*-*.json")):
        package = _package(notes.read(file)) if file.is_file() else None
        if package is None:
            unreadable.append(file.name)
        else:
            found.append(package)
    on = machine(next((p.subdir for p in found if p.subdir in PLATFORMS), None), driver, arch)
    here = on.subdir == this_platform() and driver is None and arch is None
    return Examined(
        workspace=where.workspace,
        prefix=prefix,
        packages=tuple(found),
        unreadable=tuple(unreadable),
        locks=release_locks(where.workspace),
        machine=on,
        is_here=here,
    )


def _package(record: Any) -> Package | None:
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
        return Package(name, version, build, subdir, channel_name(channel), specs[0], specs[1], files, known)
    except Exception:  # whatever somebody wrote there, or rattler does not take as a version
        return None


def _wheels(prefix: Path, packages: Iterable[Package]) -> Iterator[Wheel]:
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
            return content.read(notes.LARGEST)
    except (OSError, ValueError):
        return ""


def _holds(spec: str, package: Package) -> bool:
    """Whether a package is what a spec asks for; what is no spec asks for nothing."""
    try:
        return MatchSpec(spec).matches(package.record)
    except Exception:  # rattler's own, of many kinds
        return True


def _subject(spec: str) -> str:
    """The package that a spec is about."""
    return re.split(r"[\s=<>!~\[;]", spec.strip().rpartition("::")[2], maxsplit=1)[0].lower()


def _some(texts: Sequence[str]) -> str:
    """The first of many."""
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return listing([*texts[:_SHOWN], *more])


class EnvironmentCheck(Check):
    """A check of an environment; its docstring says why it matters."""

    def look(self, where: Where) -> Seen:
        return self.see(cast(Examined, where))

    @abstractmethod
    def see(self, on: Examined) -> Seen: ...


class Records(EnvironmentCheck):
    """A package whose record is broken, or there twice, is neither updated nor removed by any client."""

    name = "records"

    def see(self, on: Examined) -> Seen:
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


class Wheels(EnvironmentCheck):
    """cuda.pathfinder looks into pip's wheels first: their libraries are loaded in place of conda's."""

    name = "wheels of pip"

    def see(self, on: Examined) -> Seen:
        wheels = on.nvidia_wheels
        if not wheels:
            return ok("none of NVIDIA's")
        if not any(name == "cuda-version" or name.startswith("cuda") for name in on.by_name):
            return ok(f"{count(len(wheels), 'wheel')} of NVIDIA's, and no CUDA of conda's beside them")
        names = [wheel.name for wheel in wheels]
        step = f"ctk env run {on.place} -- python -m pip uninstall --yes {' '.join(names)}"
        if both := [name for name in names if name in on.by_name]:
            step += f" && {on.install('--force-reinstall', *both)}"
        return problem(f"beside conda's CUDA: {_some([str(wheel) for wheel in wheels])}", step)


class OneMajor(EnvironmentCheck):
    """No program can use libraries of two CUDA majors together: their interfaces differ."""

    name = "CUDA major"

    def see(self, on: Examined) -> Seen:
        found: dict[str, list[str]] = {}
        for package in on.packages:
            if major := _major(package):
                found.setdefault(major, []).append(f"{package.name} {package.version}")
        wheels: dict[str, list[Wheel]] = {}
        for wheel in on.nvidia_wheels:
            if major := _major_of_wheel(wheel):
                wheels.setdefault(major, []).append(wheel)
                found.setdefault(major, []).append(f"{wheel} of pip")
        if len(found) < 2:
            return ok(next(iter(found), "none"))
        own = on.toolkit.version.partition(".")[0] if on.toolkit else max(found, key=lambda major: len(found[major]))
        strange = [w.name for major, there in wheels.items() if major != own for w in there]
        packages = [p.name for p in on.packages if _major(p) not in (own, "")]
        steps = [f"ctk env run {on.place} -- python -m pip uninstall --yes {' '.join(strange)}"] if strange else []
        steps += [on.install(f"cuda-version={own}", *packages)] if packages else []
        return problem(
            "; ".join(f"{major}: {_some(texts)}" for major, texts in sorted(found.items())), " && ".join(steps)
        )


_BUILT_FOR = re.compile(r"(?:^|_)cuda_?(1\d)\d?(?:_|py|h|$)")
_VERSIONED = ("cudatoolkit", "cuda-bindings", "cuda-python", "cuda-toolkit", "cuda-version")
"""Packages, and wheels, whose version begins with the CUDA major."""


def _major(package: Package) -> str:
    """The CUDA major that a package is for; "" where it is for none or several."""
    if package.name in _VERSIONED:
        return package.version.partition(".")[0]
    if built := _BUILT_FOR.search(package.build):
        return built[1]
    for spec in package.depends:
        if _subject(spec) == "cuda-version":
            low = re.search(r"(?:^|[\s=>])(\d+)(?:\.|,|\*|\s|$)", spec.removeprefix("cuda-version"))
            high = re.search(r"<(\d+)(?:\.(\d+))?", spec)
            if low and (
                not high or int(high[1]) == int(low[1]) or (high[1], high[2] or "0") == (f"{int(low[1]) + 1}", "0")
            ):
                return low[1] if high or ">" not in spec else ""
    return ""


def _major_of_wheel(wheel: Wheel) -> str:
    named = re.search(r"-cu(1\d)$", wheel.name)
    if named:
        return named[1]
    if wheel.name in _VERSIONED or wheel.name.startswith("nvidia-cuda-"):
        return wheel.version.partition(".")[0]
    return ""


class Agreement(EnvironmentCheck):
    """A package was made for what it asks for; with something else it fails when it is imported, or later."""

    name = "packages agree"

    def see(self, on: Examined) -> Seen:
        unmet, names = [], set()
        for package in on.packages:
            needed = [(spec, True) for spec in package.depends] + [(spec, False) for spec in package.constrains]
            for spec, is_needed in needed:
                name = _subject(spec)
                if name.startswith("__"):
                    continue
                other = on.by_name.get(name)
                if other is None and is_needed and not on.unreadable:
                    unmet.append(f"{package} needs {spec}, which is not there")
                elif other is not None and not _holds(spec, other):
                    unmet.append(f"{package} needs {spec}, and there is {other}")
                else:
                    continue
                names |= {package.name, name}
        if unmet:
            return problem("; ".join([*unmet[:_SHOWN], *_more(unmet)]), on.install(*sorted(names)[:12]))
        return ok(f"what {count(len(on.packages), 'package')} ask for is there")


def _more(texts: Sequence[str]) -> list[str]:
    return [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []


class DriverFits(EnvironmentCheck):
    """A driver older than packages ask for does not load their code: errors 35 and 222."""

    name = "driver"

    def see(self, on: Examined) -> Seen:
        driver = on.machine.driver
        bounds = [
            (p, s, s in p.depends) for p in on.packages for s in (*p.depends, *p.constrains) if _subject(s) == "__cuda"
        ]
        if not driver:
            wanted = [f"{p.name} {p.version} needs {s}" for p, s, is_needed in bounds if is_needed]
            if wanted:
                return missing(
                    f"{on.machine.words}, and {_some(wanted)}", "ctk doctor; --driver describes another machine"
                )
            return ok(on.machine.words)
        there = PackageRecord("__cuda", driver, BuildString("0"), 0, "noarch")
        unmet = [f"{p.name} {p.version} needs {s}" for p, s, _ in bounds if not _matches(s, there)]
        if unmet:
            return problem(f"it supports CUDA {driver}, and {_some(unmet)}", on.mend())
        return ok(f"it supports CUDA {driver}")


def _matches(spec: str, record: PackageRecord) -> bool:
    try:
        return MatchSpec(spec).matches(record)
    except Exception:  # as in `_holds`
        return True


class NativeToolkit(EnvironmentCheck):
    """A driver refuses PTX of a toolkit newer than itself (error 222); a native toolkit never is."""

    name = "native toolkit"

    def see(self, on: Examined) -> Seen:
        toolkit, driver, arch = on.toolkit, on.machine.driver, on.machine.arch
        if toolkit is None:
            return ok("no CUDA toolkit in it")
        text = f"toolkit {toolkit.version}{' ' if on.fit else ''}{on.fit}"
        if not driver or on.fit == "native":
            return ok(text)
        if older(driver, toolkit.version):
            found = f"{text} is newer than the driver, which supports CUDA {driver}"
            return problem(found, on.mend()) if on.best else missing(found, on.mend())
        if on.fit == "compat" and (not arch or arch in on.targets(toolkit.version)):
            step = on.install(f"cuda-version={toolkit.version}=native_*")
            return missing(f"{text}, where the driver takes it native: an update may bring a newer one", step)
        return ok(text)


class GpuKnown(EnvironmentCheck):
    """A client that does not see the GPU picks as if there were none; a toolkit compiles for those that it knows."""

    name = "GPU"

    def see(self, on: Examined) -> Seen:
        toolkit, arch = on.toolkit, on.machine.arch
        if not arch:
            return self._unseen(on)
        known = on.targets(toolkit.version) if toolkit else ()
        if toolkit is None or not known or arch in known:
            return ok(f"compute capability {arch}")
        found = f"toolkit {toolkit.version} does not know compute capability {arch}; it knows {listing(known)}"
        return problem(found, on.mend()) if on.best else missing(found, on.mend())

    @staticmethod
    def _unseen(on: Examined) -> Seen:
        said = first_line("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader") if on.is_here else None
        if not said:
            return ok(on.machine.words)
        hidden = "CUDA_VISIBLE_DEVICES" in os.environ
        capability = re.search(r"\d+\.\d$", said)
        return missing(
            f"nvidia-smi has {said}, and clients see none{': CUDA_VISIBLE_DEVICES hides it' if hidden else ''}",
            "unset CUDA_VISIBLE_DEVICES"
            if hidden
            else f"export CONDA_OVERRIDE_CUDA_ARCH={capability[0] if capability else '9.0'}",
        )


ENVIRONMENT_CHECKS: tuple[type[Check], ...] = (
    Records,
    Wheels,
    OneMajor,
    Agreement,
    DriverFits,
    NativeToolkit,
    GpuKnown,
)
