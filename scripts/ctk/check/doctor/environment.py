"""The checks of `ctk env check`: an environment, and the machine that it is used on."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Sequence

from rattler import MatchSpec, PackageRecord
from rattler.package.build_string import BuildString

from ctk.check.doctor.installed import Examined, InstalledPackage, Wheel
from ctk.check.doctor.look import first_line, look_at, missing, ok, problem
from ctk.check.framework import Finding, checks_of
from ctk.core.console import count
from ctk.solve.solve import listing, older

_SHOWN = 4  # of many


def _holds(spec: str, record: PackageRecord) -> bool:
    """Whether a package is what a spec asks for; what is no spec asks for nothing."""
    try:
        return MatchSpec(spec).matches(record)
    except Exception:  # rattler's own, of many kinds
        return True


def _subject(spec: str) -> str:
    """The package that a spec is about."""
    return re.split(r"[\s=<>!~\[;]", spec.strip().rpartition("::")[2], maxsplit=1)[0].lower()


def _some(texts: Sequence[str]) -> str:
    """The first of many."""
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return listing([*texts[:_SHOWN], *more])


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


def _major(package: InstalledPackage) -> str:
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


@look_at(Examined, "packages agree")
def _agreement(on: Examined) -> Finding:
    """A package was made for what it asks for; with something else it fails when it is imported, or later."""
    unmet, names = [], set()
    for package in on.packages:
        for spec in (*package.depends, *package.constrains):
            name, is_needed = _subject(spec), spec in package.depends
            if name.startswith("__"):
                continue
            other = on.by_name.get(name)
            if other is None and is_needed and not on.unreadable:
                unmet.append(f"{package} needs {spec}, which is not there")
            elif other is not None and not _holds(spec, other.record):
                unmet.append(f"{package} needs {spec}, and there is {other}")
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
    bounds = [
        (p, s, s in p.depends) for p in on.packages for s in (*p.depends, *p.constrains) if _subject(s) == "__cuda"
    ]
    if not driver:
        wanted = [f"{p.name} {p.version} needs {s}" for p, s, is_needed in bounds if is_needed]
        if wanted:
            return missing(f"{on.machine.words}, and {_some(wanted)}", "ctk doctor; --driver describes another machine")
        return ok(on.machine.words)
    there = PackageRecord("__cuda", driver, BuildString("0"), 0, "noarch")
    unmet = [f"{p.name} {p.version} needs {s}" for p, s, _ in bounds if not _holds(s, there)]
    if unmet:
        return problem(f"it supports CUDA {driver}, and {_some(unmet)}", on.mend())
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
        found = f"{text} is newer than the driver, which supports CUDA {driver}"
        return problem(found, on.mend()) if on.best else missing(found, on.mend())
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
    found = f"toolkit {toolkit.version} does not know compute capability {arch}; it knows {listing(known)}"
    return problem(found, on.mend()) if on.best else missing(found, on.mend())


def _unseen(on: Examined) -> Finding:
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


ENVIRONMENT_CHECKS = checks_of(sys.modules[__name__])
