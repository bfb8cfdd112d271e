"""The checks of an environment that any client made."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from packaging.utils import canonicalize_name
from rattler import PackageRecord

from ctk.core.console import count, listing
from ctk.core.errors import CtkError
from ctk.core.platforms import this_platform
from ctk.env import repair
from ctk.env.add import client_line, on_its_driver, plan
from ctk.env.doctor import driver_at_fault, look_at, missing, ok, problem
from ctk.env.examine import Examined, InstalledPackage, Wheel, lacking, package_record
from ctk.env.outside import NEW_FOLDER, in_words
from ctk.env.prefix import Note, left_to_unpack
from ctk.package.records import glibc_floor, match_spec, spec_name
from ctk.rules import Finding, checks_of
from ctk.solve.change import unasked_nvjitlink
from ctk.solve.driver import NO_DEVICE, Limit
from ctk.solve.fit import limit_on
from ctk.solve.machine import STATE_DRIVER, glibc_in_words, glibc_of, is_glibc_stated
from ctk.solve.solve import ChannelToolkit, Scenario, older
from ctk.solve.why import newer_nvjitlink
from ctk.solve.why_request import glibc_needs

_SHOWN = 4  # entries of a longer list that a finding shows


def _first(sentences: Sequence[str]) -> str:
    """The first of what is wrong, and how many more there are."""
    more = [f"and {len(sentences) - _SHOWN} more"] if len(sentences) > _SHOWN else []
    return "; ".join([*sentences[:_SHOWN], *more])


def _matches(spec: str, record: PackageRecord) -> bool:
    """Whether a package matches a spec; a spec of which that is not known matches every package."""
    if "track_features" in spec:  # a record of rattler is made without them
        return True
    try:
        return match_spec(spec).matches(record)
    except Exception:  # rattler's own, of many kinds
        return True


@look_at(Examined, "records")
def _records(on: Examined) -> Finding:
    """No client updates a package with a broken record, nor safely one whose files
    are elsewhere.
    """
    if on.reaching_out:
        return problem(in_words(on.reaching_out), NEW_FOLDER)
    if broken := [file for file in on.has.broken if repair.is_no_record(file)]:
        return problem(f"no records: {_names(broken)}", repair.remove_records(on, broken))
    if odd := on.has.broken:
        step = shlex.join(["conda", "list", "-p", str(on.prefix)])
        return missing(f"not understood here: {_names(odd)}", f"see if conda lists them: `{step}`")
    channels = sorted({package.channel or "an unknown channel" for package in on.packages})
    words = f", of {listing(channels)}" if channels else ""
    return ok(f"{count(len(on.packages), 'package')}{words}")


def _names(files: Sequence[Path]) -> str:
    """The names of files, without control characters."""
    return listing([ascii(file.name)[1:-1] for file in files], most=_SHOWN)


@look_at(Examined, "files")
def _files(on: Examined) -> Finding:
    """Programs fail later if files are missing or changed, or if `ctk env create` was stopped."""
    has, note = on.has, Note.read(on.prefix)
    whole = f"of {count(len(has.records), 'package')}, as they were installed"
    if note and on.is_stopped:
        cause = "the run that made this environment was stopped, or is at work now"
        return problem(cause, note.again(on.prefix))
    if has.scripts_of_others:
        return _moved(on)
    if note and note.stamp and note.stamp == has.stamp:
        return ok(whole)
    if left := left_to_unpack(on.prefix):
        cause = f"conda-unpack has not run: another path is in {listing(left, most=_SHOWN)}"
        words = ["ctk", "env", "run", str(on.prefix), "--", "conda-unpack"]
        return problem(cause, shlex.join(words))
    damaged = has.damage()
    by_pip = {name: wheel for name, wheel in _replaced_by_pip(on).items() if name in damaged}
    replaced = {name: damaged.pop(name) for name in by_pip}
    if damaged:
        found = [f"{name}: {listing([*files], most=_SHOWN)}" for name, files in damaged.items()]
        cause = f"missing, or not as they were installed: {listing(found, most=_SHOWN)}"
        return problem(cause, repair.give_back(on, damaged))
    if by_pip:
        cause = f"pip replaced those of {listing([*by_pip], most=_SHOWN)}"
        # Without the first, its dist-info stays beside that of the package.
        steps = repair.uninstall(on, [*by_pip.values()])
        return missing(cause, " && ".join(steps) or repair.give_back(on, replaced))
    return ok(whole)


def _moved(on: Examined) -> Finding:
    scripts = on.has.scripts_of_others
    old = next(iter(scripts.values())).parents[1]
    shown = listing([*scripts], most=_SHOWN)
    cause = f"it was moved or copied: programs in it start the Python of {old}: {shown}"
    step = on.note.again(on.prefix) if on.note else repair.move_back(on, old)
    return problem(cause, step or "make it again in a new folder")


def _replaced_by_pip(on: Examined) -> dict[str, Wheel]:
    """The packages whose distribution is there as a wheel with all of its files -> the wheel."""
    found = {}
    for wheel in on.wheels:
        files = on.has.of_pip.get(wheel.info, ())
        # What pip uninstalled since then may leave a dist-info.
        is_whole = bool(files) and all(os.path.lexists(on.prefix / path) for path in files)
        if is_whole and wheel.name in on.has.distributions:
            found[on.has.distributions[wheel.name]] = wheel
    return found


def wrong_with_pip(on: Examined) -> list[Finding]:
    """What is wrong with the wheels in an environment."""
    return [
        finding
        for check in (wheels_of_pip, scripts_of_pip, needs_of_wheels)
        for finding in check(on)
        if finding.fix
    ]


@look_at(Examined, "wheels of pip")
def wheels_of_pip(on: Examined) -> Finding:
    """cuda.pathfinder loads pip's libraries in place of conda's, and of two dist-infos any may be
    read.
    """
    has_cuda = any(name == "cuda-version" or name.startswith("cuda") for name in on.by_name)
    beside, twice, found = on.nvidia_wheels if has_cuda else (), on.twice, []
    if beside:
        found.append(
            "beside conda's CUDA:"
            f" {listing([_in_place_of(wheel, on) for wheel in beside], most=_SHOWN)}"
        )
    if twice:
        found.append(
            "a second dist-info beside that of a conda package:"
            f" {listing([*map(str, twice)], most=_SHOWN)}"
        )
    if not found:
        number = count(len(on.nvidia_wheels), "wheel")
        return ok(
            f"{number} of NVIDIA's, no CUDA of conda's beside them"
            if on.nvidia_wheels
            else "none of NVIDIA's"
        )
    steps = repair.uninstall(on, [*dict.fromkeys((*beside, *twice))])
    return problem("; ".join(found), " && ".join(steps) or "make it again in a new folder")


@look_at(Examined, "scripts of pip")
def scripts_of_pip(on: Examined) -> Finding:
    """What pip installed starts Python by its path, which is another one after the environment was
    moved or copied.
    """
    wheels = [
        wheel for wheel in on.wheels if wheel.name not in on.has.distributions
    ]  # `files` is about the others
    found = {wheel: on.has.scripts_elsewhere(on.has.of_pip.get(wheel.info, ())) for wheel in wheels}
    scripts = {path: python for each in found.values() for path, python in each.items()}
    if not scripts or (
        on.has.scripts_of_others and not on.note
    ):  # that has to go back, or to be made again
        return ok("none that starts another Python")
    old = next(iter(scripts.values())).parents[1]
    cause = f"they start the Python of {old}: {listing([*scripts], most=_SHOWN)}"
    step = repair.install_wheels_again(on, found)
    return problem(cause, step or "install them again from where they came")


@look_at(Examined, "needs of wheels")
def needs_of_wheels(on: Examined) -> Finding:
    """What pip installed fails without what it needs, which a change of the environment may have
    taken away.
    """
    if not (lacks := list(lacking(on))):
        return ok("what pip installed has what it needs" if on.wheels else "pip installed nothing")
    specs, others = [], []
    for lack in lacks:
        name, wanted = canonicalize_name(lack.need.name), lack.need.specifier
        versions = on.folders.versions(name) if on.folders and name != "python" else ()
        is_gone = (
            name == "python" and not lack.version
        )  # where there is another one, it was asked for
        if is_gone or any(wanted.contains(version, prereleases=True) for version in versions):
            specs.append(f"{name}{wanted}".replace("===", "=="))
        else:  # a newer wheel may take what is there
            others.append(lack.wheel.name if lack.version else str(lack.need))
    words = ["install", "--upgrade", *dict.fromkeys(others)] if others else []
    return problem(
        _first([*dict.fromkeys(map(str, lacks))]), " && ".join(on.pip(*words, specs=specs))
    )


def _in_place_of(wheel: Wheel, on: Examined) -> str:
    """A wheel, and the conda package whose library is hidden by it."""
    names = {path.rpartition("/")[2]: package for package in on.packages for path in package.files}
    same = next(
        (names[library] for library in wheel.libraries if library in names),
        on.by_name.get(wheel.name),
    )
    return f"{wheel}{f', in place of {same.name} {same.version}' if same else ''}"


@look_at(Examined, "variables")
def _variables(on: Examined) -> Finding:
    """cuTile, build systems and programs with a shared runtime search these places first.

    Cuda.pathfinder does last.
    """
    found, wrong = [], []
    for place in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        if not is_in(place, on.prefix) and (
            libraries := sorted(chain(*map(Path(place).glob, _CUDA_LIBRARIES)))
        ):
            wrong.append("LD_LIBRARY_PATH")
            found.append(
                f"LD_LIBRARY_PATH has {place} with"
                f" {listing([file.name for file in libraries], most=_SHOWN)}"
            )
    for name in ("CUDA_PATH", "CUDA_HOME"):
        if (toolkit := os.environ.get(name)) and not is_in(toolkit, on.prefix):
            wrong.append(name)
            found.append(f"{name}={toolkit}")
    if found:
        return missing("; ".join(found), f"unset {' '.join(dict.fromkeys(wrong))}")
    return ok("none that leads elsewhere")


_CUDA_LIBRARIES = (
    "libnvrtc.so.*",
    "libnvJitLink.so.*",
    "libcudart.so.*",
    "libnvvm.so.*",
    "libcublas.so.*",
)


def is_in(place: str, prefix: Path) -> bool:
    """Whether a path is an environment or inside it."""
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(prefix))


@look_at(Examined, "packages agree")
def _agreement(on: Examined) -> Finding:
    """A package was made for its dependencies.

    With others it fails when it is imported, or later.
    """
    unmet, names = [], set()
    for package in on.packages:
        for spec in (*package.depends, *package.constrains):
            if said := _unmet(package, spec, on):
                unmet.append(f"{package} needs {spec}, {said}")
                names |= {package.name, spec_name(spec)}
    if unmet:
        step = on.note.again(on.prefix) if on.note else on.install(*sorted(names)[:12])
        return problem(_first(unmet), step)
    return ok(f"what {count(len(on.packages), 'package')} ask for is there")


def _unmet(package: InstalledPackage, spec: str, on: Examined) -> str:
    """What is there in the place of what a package needs; "" if that is met, or no certain need."""
    name = spec_name(spec)
    other = on.by_name.get(name)
    if other is not None:
        return "" if _matches(spec, other.record) else f"and there is {other}"
    is_conditional = "when=" in spec or "; if " in spec
    is_needed = spec in package.depends and not name.startswith("__") and not is_conditional
    return "which is not there" if is_needed and not on.has.broken else ""


@look_at(Examined, "glibc")
def _glibc_is_new_enough(on: Examined) -> Finding:
    """Programs that need a newer glibc than the machine's do not start, as where they
    were carried.
    """
    subdir = on.machine.subdir
    if subdir != this_platform() and not is_glibc_stated():
        return ok(f"of a {subdir} machine, not of this one")
    have = glibc_of(subdir)
    floors = {f"{p.name} {p.version}": glibc_floor(p.depends) for p in on.packages}
    newer = {name: floor for name, floor in floors.items() if have and floor and older(have, floor)}
    if newer:
        text = f"{glibc_needs(newer)}, and {glibc_in_words(subdir)}"
        step = "make it again from packages for older systems: of conda-forge, or made here"
        return problem(text, step)
    return ok(f"{glibc_in_words(subdir)}, which is new enough" if have else "not of Windows")


@look_at(Examined, "driver")
def _driver_fits(on: Examined) -> Finding:
    """Programs need a driver that starts and is not older than their packages require: errors 35,
    100, 222.
    """
    driver = on.machine.driver
    specs = [
        (p, s) for p in on.packages for s in (*p.depends, *p.constrains) if spec_name(s) == "__cuda"
    ]
    if on.driver_state and (found := driver_at_fault(on.driver_state)):
        # Many hide the GPU on purpose, for example from the tests of a program.
        is_hidden = (
            on.driver_state.limit is Limit.VARIABLE and on.driver_state.seen.error == NO_DEVICE
        )
        return missing(found.message, found.fix) if is_hidden else found
    if not driver:
        if wanted := [f"{p.name} {p.version} needs {s}" for p, s in specs if s in p.depends]:
            stated = (
                chain(*on.note.machine.items()) if on.note and on.made_for else ("--driver", "13.0")
            )
            other = shlex.join(["ctk", "doctor", str(on.prefix), *stated])
            step = (
                f"for that machine: `{other}`"
                if on.made_for
                else f"`ctk doctor`, or for another machine: `{other}`"
            )
            return missing(
                f"{on.machine.words}, and {listing(wanted, most=_SHOWN)}{on.made_for}", step
            )
        return ok(f"{on.machine.words}{on.made_for}")
    there = package_record("__cuda", driver)
    unmet = [f"{p.name} {p.version} needs {s}" for p, s in specs if not _matches(s, there)]
    if unmet:
        return problem(
            f"it supports CUDA {driver}, and {listing(unmet, most=_SHOWN)}{on.made_for}", on.fix()
        )
    if on.overstated:
        return missing(on.overstated, STATE_DRIVER)
    return ok(f"it supports CUDA {driver}{on.made_for}")


def _toolkit_finding(on: Examined, text: str) -> Finding:
    """A problem if another toolkit fixes it; else a hint, as only another driver would."""
    return problem(text, on.fix()) if on.better else missing(text, on.fix())


@look_at(Examined, "native toolkit")
def _native_toolkit(on: Examined) -> Finding:
    """A driver refuses the PTX of a toolkit that is newer than it (error 222).

    A native toolkit is not newer.
    """
    toolkit, driver, arch = on.toolkit, on.machine.driver, on.machine.arch
    if toolkit is None:
        return ok("no CUDA toolkit in it")
    text = f"toolkit {toolkit.version}{' ' if on.fit else ''}{on.fit}"
    if not driver or on.fit == "native":
        records = [package.record for package in on.packages]
        return ok("; ".join([text, *newer_nvjitlink(records, on.asked)]))
    gpus = on.targets(toolkit.version)
    limit = limit_on(driver, arch, ChannelToolkit(toolkit.version, gpus=gpus))
    if limit and limit.is_driver:
        return _toolkit_finding(
            on, f"{text} is newer than the driver, which supports CUDA {driver}"
        )
    knows_gpu = not arch or bool(gpus)  # a toolkit without a lock may not
    if on.fit == "compat" and limit is None and knows_gpu:
        step = on.install(f"cuda-version={toolkit.version}=native_*")
        return missing(
            f"{text}, where the driver takes it native: an update may bring a newer one", step
        )
    return ok(text)


@look_at(Examined, "nvJitLink")
def _nvjitlink_is_of_the_toolkit(on: Examined) -> Finding:
    """A driver refuses the PTX of an nvJitLink that is newer than it (error 222).

    An update can leave one behind.
    """
    own = on.by_name.get("libnvjitlink")
    if own is None or on.toolkit is None:
        return ok("none in it")
    left = unasked_nvjitlink([package.record for package in on.packages], on.asked)
    if left is None:
        return ok(own.version)
    text = (
        f"{left.version}, beside toolkit {on.toolkit.version}, and nothing that is there or was"
        " asked for needs that"
    )
    spec = f"libnvjitlink={on.toolkit.version}"
    look = shlex.join(["ctk", "solve", spec, "--prefix", str(on.prefix)])
    step = own_nvjitlink(on, spec) or f"`{look}` says if the toolkit's own can be had"
    is_refused = on.machine.driver is not None and older(on.machine.driver, left.minor)
    return problem(text, step) if is_refused else missing(text, step)


def own_nvjitlink(on: Examined, spec: str) -> str:
    """The command that brings back the nvJitLink of the toolkit.

    "" if its channels do not prove that.
    """
    if on.folders is None:
        return ""
    there = on_its_driver(on)
    if on.note:
        scenario = Scenario(on.note.specs, there.subdir, there.driver, there.arch)
        pick = on.folders.pick(scenario)
        is_same = pick is not None and on.toolkit is not None and pick.toolkit == on.toolkit.version
        is_own = pick is not None and unasked_nvjitlink(pick.records, on.note.specs) is None
        return on.note.again(on.prefix) if is_same and is_own else ""
    try:
        planned = plan(on, [spec], there, on.folders)
    except CtkError:
        return ""
    return "" if planned.change.worse else client_line(on, [spec], there)


@look_at(Examined, "GPU")
def _gpu_known(on: Examined) -> Finding:
    """A toolkit compiles only for the GPUs that it knows."""
    toolkit, arch = on.toolkit, on.machine.arch
    known = on.targets(toolkit.version) if toolkit else ()
    if toolkit and arch and known and arch not in known:
        text = (
            f"toolkit {toolkit.version} does not know compute capability {arch}; it knows"
            f" {listing(known)}"
        )
        return _toolkit_finding(on, text)
    gpu = f"compute capability {arch}" if arch else on.machine.words
    if on.driver_state and (found := driver_at_fault(on.driver_state)):
        return missing(f"{gpu}, and programs see no GPU: see driver", found.fix)
    return ok(gpu)


ENVIRONMENT_CHECKS = checks_of(sys.modules[__name__])
