"""The checks of an environment that any client made."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from packaging.utils import canonicalize_name
from rattler import MatchSpec, PackageRecord

from ctk.core.console import count, listing
from ctk.env.doctor import look_at, missing, ok, problem
from ctk.env.examine import Examined, Wheel, lacking, package_record
from ctk.env.outside import NEW_FOLDER, in_words
from ctk.env.prefix import Note
from ctk.package.records import spec_name
from ctk.rules import Finding, checks_of
from ctk.solve.machine import STATE_DRIVER
from ctk.solve.solve import older
from ctk.solve.why import newer_nvjitlink

_SHOWN = 4  # entries of a longer list that a finding shows


def _first(sentences: Sequence[str]) -> str:
    """The first of what is wrong, and how many more there are."""
    more = [f"and {len(sentences) - _SHOWN} more"] if len(sentences) > _SHOWN else []
    return "; ".join([*sentences[:_SHOWN], *more])


def _matches(spec: str, record: PackageRecord) -> bool:
    """Whether a package matches a spec; a text that is not a spec matches every package."""
    try:
        return MatchSpec(spec).matches(record)
    except Exception:  # rattler's own, of many kinds
        return True


@look_at(Examined, "records")
def _records(on: Examined) -> Finding:
    """No client updates a package with a broken record, nor safely one whose files are elsewhere."""
    if on.reaching_out:
        return problem(in_words(on.reaching_out), NEW_FOLDER)
    if names := [file.name for file in on.has.broken]:
        files = [shlex.quote(str(file)) for file in on.has.broken]
        lost = [name.rsplit("-", 2)[0] for name in names if name.count("-") > 1]
        step = f"rm {' '.join(files)}" + (f" && {on.again(*lost)}" if lost else "")
        return problem(f"no records: {listing([ascii(name)[1:-1] for name in names], most=_SHOWN)}", step)
    channels = sorted({package.channel or "an unknown channel" for package in on.packages})
    return ok(f"{count(len(on.packages), 'package')}{f', of {listing(channels)}' if channels else ''}")


@look_at(Examined, "files")
def _files(on: Examined) -> Finding:
    """Programs fail later if files are missing or changed, or if `ctk env create` was stopped."""
    has, note = on.has, Note.read(on.prefix)
    if note and on.is_stopped:
        return problem("the run that made this environment was stopped, or is at work now", note.again(on.prefix))
    if scripts := has.scripts_of_others:
        old = next(iter(scripts.values())).parents[1]
        cause = f"it was moved or copied: programs in it start the Python of {old}: {listing([*scripts], most=_SHOWN)}"
        back = f"mv {shlex.quote(str(on.prefix))} {shlex.quote(str(old))}"
        again = on.note.again(on.prefix) if on.note else "" if old.exists() else back
        return problem(cause, again or "make it again in a new folder")
    if note and note.stamp and note.stamp == has.stamp:
        return ok(f"of {count(len(has.records), 'package')}, as they were installed")
    altered = has.altered()
    # What pip uninstalled since then may leave a dist-info.
    whole = [info for info, files in has.of_pip.items() if all(map(os.path.lexists, map(on.prefix.joinpath, files)))]
    by_pip = [wheel.name for wheel in on.wheels if wheel.info in whole and altered.pop(wheel.name, [])]
    if altered:
        found = [f"{name}: {listing(files, most=_SHOWN)}" for name, files in altered.items()]
        return problem(f"missing, or not as they were installed: {listing(found, most=_SHOWN)}", on.again(*altered))
    if by_pip:
        return missing(f"pip replaced those of {listing(by_pip, most=_SHOWN)}", on.again(*by_pip))
    return ok(f"of {count(len(has.records), 'package')}, as they were installed")


def wrong_with_pip(on: Examined) -> list[Finding]:
    """What is wrong with the wheels in an environment."""
    return [
        finding for check in (wheels_of_pip, scripts_of_pip, needs_of_wheels) for finding in check(on) if finding.fix
    ]


@look_at(Examined, "wheels of pip")
def wheels_of_pip(on: Examined) -> Finding:
    """cuda.pathfinder loads pip's libraries in place of conda's, and of two dist-infos any may be read."""
    has_cuda = any(name == "cuda-version" or name.startswith("cuda") for name in on.by_name)
    beside, twice, found = on.nvidia_wheels if has_cuda else (), on.twice, []
    if beside:
        found.append(f"beside conda's CUDA: {listing([_in_place_of(wheel, on) for wheel in beside], most=_SHOWN)}")
    if twice:
        found.append(f"a second dist-info beside that of a conda package: {listing([*map(str, twice)], most=_SHOWN)}")
    if not found:
        number = count(len(on.nvidia_wheels), "wheel")
        return ok(f"{number} of NVIDIA's, no CUDA of conda's beside them" if on.nvidia_wheels else "none of NVIDIA's")
    wheels = dict.fromkeys((*beside, *twice))
    both = [wheel for wheel in wheels if wheel.name in on.has.distributions and not wheel.folder.by]
    # `ctk env create` also removes what pip put in the place of a package. Of two, pip uninstalls any.
    steps = on.uninstall([wheel for wheel in wheels if not (on.note and wheel in both)])
    steps += on.uninstall([] if on.note else twice)
    steps += [on.again(*dict.fromkeys(wheel.name for wheel in both))] if both else []
    return problem("; ".join(found), " && ".join(steps))


@look_at(Examined, "scripts of pip")
def scripts_of_pip(on: Examined) -> Finding:
    """What pip installed starts Python by its path, which is another one after the environment was moved or copied."""
    wheels = [wheel for wheel in on.wheels if wheel.name not in on.has.distributions]  # `files` is about the others
    found = {wheel: on.has.scripts_elsewhere(on.has.of_pip.get(wheel.info, ())) for wheel in wheels}
    scripts = {path: python for each in found.values() for path, python in each.items()}
    if not scripts or (on.has.scripts_of_others and not on.note):  # that has to go back, or to be made again
        return ok("none that starts another Python")
    cause = f"they start the Python of {next(iter(scripts.values())).parents[1]}: {listing([*scripts], most=_SHOWN)}"
    again = [f"{wheel.name}=={wheel.version}" for wheel, scripts in found.items() if scripts]
    return problem(cause, " && ".join(on.pip("install", "--force-reinstall", "--no-deps", *again)))


@look_at(Examined, "needs of wheels")
def needs_of_wheels(on: Examined) -> Finding:
    """What pip installed fails without what it needs, which a change of the environment may have taken away."""
    if not (lacks := list(lacking(on))):
        return ok("what pip installed has what it needs" if on.wheels else "pip installed nothing")
    specs, others = [], []
    for lack in lacks:
        name, wanted = canonicalize_name(lack.need.name), lack.need.specifier
        versions = on.folders.versions(name) if on.folders and name != "python" else ()
        is_gone = name == "python" and not lack.version  # where there is another one, it was asked for
        if is_gone or any(wanted.contains(version, prereleases=True) for version in versions):
            specs.append(f"{name}{wanted}".replace("===", "=="))
        else:  # a newer wheel may take what is there
            others.append(lack.wheel.name if lack.version else str(lack.need))
    words = ["install", "--upgrade", *dict.fromkeys(others)] if others else []
    return problem(_first([*dict.fromkeys(map(str, lacks))]), " && ".join(on.pip(*words, specs=specs)))


def _in_place_of(wheel: Wheel, on: Examined) -> str:
    """A wheel, and the conda package whose library is hidden by it."""
    names = {path.rpartition("/")[2]: package for package in on.packages for path in package.files}
    same = next((names[library] for library in wheel.libraries if library in names), on.by_name.get(wheel.name))
    return f"{wheel}{f', in place of {same.name} {same.version}' if same else ''}"


@look_at(Examined, "variables")
def _variables(on: Examined) -> Finding:
    """cuTile, build systems and programs with a shared runtime search these places first; cuda.pathfinder does last."""
    found, wrong = [], []
    for place in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        if not is_in(place, on.prefix) and (libraries := sorted(chain(*map(Path(place).glob, _CUDA_LIBRARIES)))):
            wrong.append("LD_LIBRARY_PATH")
            found.append(f"LD_LIBRARY_PATH has {place} with {listing([file.name for file in libraries], most=_SHOWN)}")
    for name in ("CUDA_PATH", "CUDA_HOME"):
        if (toolkit := os.environ.get(name)) and not is_in(toolkit, on.prefix):
            wrong.append(name)
            found.append(f"{name}={toolkit}")
    if found:
        return missing("; ".join(found), f"unset {' '.join(dict.fromkeys(wrong))}")
    return ok("none that leads elsewhere")


_CUDA_LIBRARIES = ("libnvrtc.so.*", "libnvJitLink.so.*", "libcudart.so.*", "libnvvm.so.*", "libcublas.so.*")


def is_in(place: str, prefix: Path) -> bool:
    """Whether a path is an environment or inside it."""
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(prefix))


@look_at(Examined, "packages agree")
def _agreement(on: Examined) -> Finding:
    """A package was made for its dependencies; with others it fails when it is imported, or later."""
    unmet, names = [], set()
    for package in on.packages:
        for spec in (*package.depends, *package.constrains):
            name = spec_name(spec)
            other = on.by_name.get(name)
            if other is not None and not _matches(spec, other.record):
                unmet.append(f"{package} needs {spec}, and there is {other}")
            elif other is None and spec in package.depends and not name.startswith("__") and not on.has.broken:
                unmet.append(f"{package} needs {spec}, which is not there")
            else:
                continue
            names |= {package.name, name}
    if unmet:
        step = on.note.again(on.prefix) if on.note else on.install(*sorted(names)[:12])
        return problem(_first(unmet), step)
    return ok(f"what {count(len(on.packages), 'package')} ask for is there")


@look_at(Examined, "driver")
def _driver_fits(on: Examined) -> Finding:
    """A driver that is older than packages require does not load their code: errors 35 and 222."""
    driver = on.machine.driver
    specs = [(p, s) for p in on.packages for s in (*p.depends, *p.constrains) if spec_name(s) == "__cuda"]
    if not driver:
        if wanted := [f"{p.name} {p.version} needs {s}" for p, s in specs if s in p.depends]:
            stated = chain(*on.note.machine.items()) if on.note and on.made_for else ("--driver", "13.0")
            other = shlex.join(["ctk", "doctor", str(on.prefix), *stated])
            step = f"for that machine: `{other}`" if on.made_for else f"`ctk doctor`, or for another machine: `{other}`"
            return missing(f"{on.machine.words}, and {listing(wanted, most=_SHOWN)}{on.made_for}", step)
        return ok(f"{on.machine.words}{on.made_for}")
    there = package_record("__cuda", driver)
    unmet = [f"{p.name} {p.version} needs {s}" for p, s in specs if not _matches(s, there)]
    if unmet:
        return problem(f"it supports CUDA {driver}, and {listing(unmet, most=_SHOWN)}{on.made_for}", on.fix())
    if on.overstated:
        return missing(on.overstated, STATE_DRIVER)
    return ok(f"it supports CUDA {driver}{on.made_for}")


def _toolkit_finding(on: Examined, text: str) -> Finding:
    """A problem if another toolkit fixes it; else a hint, as only another driver would."""
    return problem(text, on.fix()) if on.better else missing(text, on.fix())


@look_at(Examined, "native toolkit")
def _native_toolkit(on: Examined) -> Finding:
    """A driver refuses the PTX of a toolkit that is newer than it (error 222). A native toolkit is not newer."""
    toolkit, driver, arch = on.toolkit, on.machine.driver, on.machine.arch
    if toolkit is None:
        return ok("no CUDA toolkit in it")
    text = f"toolkit {toolkit.version}{' ' if on.fit else ''}{on.fit}"
    if not driver or on.fit == "native":
        return ok("; ".join([text, *newer_nvjitlink(package.record for package in on.packages)]))
    if older(driver, toolkit.version):
        return _toolkit_finding(on, f"{text} is newer than the driver, which supports CUDA {driver}")
    if on.fit == "compat" and (not arch or arch in on.targets(toolkit.version)):
        step = on.install(f"cuda-version={toolkit.version}=native_*")
        return missing(f"{text}, where the driver takes it native: an update may bring a newer one", step)
    return ok(text)


@look_at(Examined, "GPU")
def _gpu_known(on: Examined) -> Finding:
    """A toolkit compiles only for the GPUs that it knows."""
    toolkit, arch = on.toolkit, on.machine.arch
    if not arch:
        return ok(on.machine.words)
    known = on.targets(toolkit.version) if toolkit else ()
    if toolkit is None or not known or arch in known:
        return ok(f"compute capability {arch}")
    return _toolkit_finding(
        on, f"toolkit {toolkit.version} does not know compute capability {arch}; it knows {listing(known)}"
    )


ENVIRONMENT_CHECKS = checks_of(sys.modules[__name__])
