"""The checks of an environment that any client made."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rattler import PackageRecord, Version

from ctk.core.console import count, listing
from ctk.core.errors import CtkError
from ctk.core.platforms import this_platform
from ctk.env import repair
from ctk.env.add import client_line, on_its_driver, plan
from ctk.env.doctor import driver_at_fault, hint, look_at, ok, problem
from ctk.env.examine import Examined, InstalledPackage, Wheel
from ctk.env.outside import NEW_FOLDER, in_words
from ctk.env.prefix import Note, left_to_unpack
from ctk.package.records import glibc_floor, matches, package_record, spec_name
from ctk.plan.names import split_major
from ctk.rules import Finding, checks_of
from ctk.solve.change import unasked_nvjitlink
from ctk.solve.driver import NO_DEVICE, Limit
from ctk.solve.fit import limit_on
from ctk.solve.machine import STATE_DRIVER, Machine, glibc_in_words, glibc_of, is_glibc_stated
from ctk.solve.solve import Catalogue, ChannelToolkit, Scenario, older
from ctk.solve.why import newer_nvjitlink
from ctk.solve.why_request import glibc_needs

_SHOWN = 4  # entries of a longer list that a finding shows
_NAMED = 12  # packages of a longer list that a command names


def _first(sentences: Sequence[str]) -> str:
    """The first of what is wrong, and how many more there are."""
    more = [f"and {len(sentences) - _SHOWN} more"] if len(sentences) > _SHOWN else []
    return "; ".join([*sentences[:_SHOWN], *more])


def _matches(spec: str, record: PackageRecord) -> bool:
    """Whether a package matches a spec. A spec of which that is not known matches every package."""
    if "track_features" in spec:  # a record of rattler is made without them
        return True
    return matches(spec, record) is not False


@look_at(Examined, "records")
def _records(environment: Examined) -> Finding:
    """No client updates a package with a broken record, nor safely one with files elsewhere."""
    if environment.reaching_out:
        return problem(in_words(environment.reaching_out), NEW_FOLDER)
    if broken := [file for file in environment.has.broken if repair.is_no_record(file)]:
        return problem(f"no records: {_names(broken)}", repair.remove_records(environment, broken))
    if odd := environment.has.broken:
        step = shlex.join(["conda", "list", "-p", str(environment.prefix)])
        return hint(f"not understood here: {_names(odd)}", f"see if conda lists them: `{step}`")
    packages = environment.packages
    channels = sorted({package.channel or "an unknown channel" for package in packages})
    words = f", of {listing(channels)}" if channels else ""
    return ok(f"{count(len(packages), 'package')}{words}")


def _names(files: Sequence[Path]) -> str:
    """The names of files, without control characters."""
    return listing([ascii(file.name)[1:-1] for file in files], most=_SHOWN)


@look_at(Examined, "files")
def _files(environment: Examined) -> Finding:
    """Programs fail later if files are missing or changed, or if `ctk env create` was stopped."""
    has, note = environment.has, Note.read(environment.prefix)
    whole = f"all files of {count(len(has.records), 'package')} are as installed"
    if note and environment.is_stopped:
        cause = "the run that made this environment was stopped, or is at work now"
        return problem(cause, note.again(environment.prefix))
    if has.scripts_of_others:
        return _moved(environment)
    if note and note.stamp and note.stamp == has.stamp:
        return ok(whole)
    if left := left_to_unpack(environment.prefix):
        cause = f"conda-unpack has not run: another path is in {listing(left, most=_SHOWN)}"
        words = ["ctk", "env", "run", str(environment.prefix), "--", "conda-unpack"]
        return problem(cause, shlex.join(words))
    damaged = has.damage()
    by_pip = _replaced_by_pip(environment) & damaged.keys()
    replaced = {name: damaged.pop(name) for name in sorted(by_pip)}
    if damaged:
        found = [f"{name}: {listing([*files], most=_SHOWN)}" for name, files in damaged.items()]
        cause = f"missing, or not as they were installed: {listing(found, most=_SHOWN)}"
        return problem(cause, repair.give_back(environment, damaged))
    if replaced:
        cause = f"pip replaced those of {listing([*replaced], most=_SHOWN)}"
        return hint(cause, repair.take_from_pip(environment, replaced))
    return ok(whole)


def _moved(environment: Examined) -> Finding:
    scripts = environment.has.scripts_of_others
    old = next(iter(scripts.values())).parents[1]
    shown = listing([*scripts], most=_SHOWN)
    cause = f"it was moved or copied: programs in it start the Python of {old}: {shown}"
    if environment.note:
        return problem(cause, environment.note.again(environment.prefix))
    step = repair.move_back(environment, old)
    return problem(cause, step or "create it again in a new folder")


def _replaced_by_pip(environment: Examined) -> set[str]:
    """The packages whose distribution is there as a wheel with all of its files."""
    found = set()
    for wheel in environment.wheels:
        files = environment.has.of_pip.get(wheel.info, ())
        # What pip uninstalled since then may leave a dist-info.
        is_whole = bool(files) and all(os.path.lexists(environment.prefix / path) for path in files)
        if is_whole and wheel.name in environment.has.distributions:
            found.add(environment.has.distributions[wheel.name])
    return found


@look_at(Examined, "wheels of pip")
def wheels_of_pip(environment: Examined) -> Finding:
    """cuda.pathfinder loads the libraries of NVIDIA's wheels in place of conda's."""
    number = count(len(environment.nvidia_wheels), "wheel")
    if not any(_takes_place(wheel, environment) for wheel in environment.nvidia_wheels):
        return ok("none from NVIDIA")
    if not any(name.startswith("cuda") for name in environment.by_name):
        return ok(f"{number} from NVIDIA, and no CUDA packages of conda")
    beside = [_in_place_of(wheel, environment) for wheel in environment.nvidia_wheels]
    steps = repair.uninstall(environment, environment.nvidia_wheels)
    return problem(
        f"together with CUDA packages of conda: {listing(beside, most=_SHOWN)}",
        " && ".join(steps) or "create it again in a new folder",
    )


def _takes_place(wheel: Wheel, environment: Examined) -> bool:
    """Whether a wheel has NVIDIA's libraries, or the same project as a package of conda."""
    return bool(wheel.libraries) or wheel.name in environment.by_name


def _in_place_of(wheel: Wheel, environment: Examined) -> str:
    """A wheel, and the conda package whose library is hidden by it."""
    by_library = {
        path.rpartition("/")[2]: package
        for package in environment.packages
        for path in package.files
    }
    hidden = [by_library[library] for library in wheel.libraries if library in by_library]
    package = hidden[0] if hidden else environment.by_name.get(wheel.name)
    if package is None:
        return str(wheel)
    return f"{wheel}, in place of {package.name} {package.version}"


@look_at(Examined, "CUDA projects of pip")
def _projects_of_pip(environment: Examined) -> Finding:
    """A wheel without NVIDIA's libraries may run on the CPU, or look for those of another CUDA."""
    wheels = environment.nvidia_wheels
    if not wheels or any(_takes_place(wheel, environment) for wheel in wheels):
        return ok("none, or see wheels of pip")
    if not any(name.startswith("cuda") for name in environment.by_name):
        return ok("no CUDA packages of conda")
    toolkit = environment.toolkit.version if environment.toolkit else ""
    texts: list[str] = []
    names: dict[str, None] = {}
    for wheel in wheels:
        name, major = split_major(wheel.name)
        names[name] = None
        differs = bool(major and toolkit) and major != toolkit.partition(".")[0]
        text = f" for CUDA {major}, but the toolkit is {toolkit}" if differs else ""
        texts.append(f"{wheel}{text}")
    look = shlex.join(["ctk", "solve", *names, "--prefix", str(environment.prefix)])
    return hint(
        f"without NVIDIA's libraries: {listing(texts, most=_SHOWN)}",
        f"`{look}` says whether conda's packages can take their place",
    )


@look_at(Examined, "variables")
def _variables(environment: Examined) -> Finding:
    """cuTile, build systems and programs with a shared runtime search these places first.

    The library cuda.pathfinder searches them last.
    """
    found: list[tuple[str, str]] = []  # a variable, and where it leads, in words
    for place in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        libraries = _cuda_libraries_in(Path(place))
        if libraries and not is_in(place, environment.prefix):
            words = f"LD_LIBRARY_PATH has {place} with {listing(libraries, most=_SHOWN)}"
            found.append(("LD_LIBRARY_PATH", words))
    for name in ("CUDA_PATH", "CUDA_HOME"):
        toolkit = os.environ.get(name)
        if toolkit and not is_in(toolkit, environment.prefix):
            found.append((name, f"{name}={toolkit}"))
    if not found:
        return ok("none leads to another CUDA")
    names = dict.fromkeys(name for name, _ in found)
    return hint("; ".join(words for _, words in found), f"unset {' '.join(names)}")


_CUDA_LIBRARIES = (
    "libnvrtc.so.*",
    "libnvJitLink.so.*",
    "libcudart.so.*",
    "libnvvm.so.*",
    "libcublas.so.*",
)


def _cuda_libraries_in(folder: Path) -> list[str]:
    """The names of the toolkit's libraries in a folder."""
    files = chain.from_iterable(folder.glob(pattern) for pattern in _CUDA_LIBRARIES)
    return [file.name for file in sorted(files)]


def is_in(place: str, prefix: Path) -> bool:
    """Whether a path is an environment or inside it."""
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(prefix))


@look_at(Examined, "packages agree")
def _agreement(environment: Examined) -> Finding:
    """A package was made for its dependencies.

    With others it fails when it is imported, or later.
    """
    unmet: list[str] = []
    names: set[str] = set()
    for package in environment.packages:
        for spec in (*package.depends, *package.constrains):
            if instead := _unmet(package, spec, environment):
                unmet.append(f"{package} needs {spec}, {instead}")
                names |= {package.name, spec_name(spec)}
    if unmet and environment.note:
        return problem(_first(unmet), environment.note.again(environment.prefix))
    if unmet:
        return problem(_first(unmet), environment.install(*sorted(names)[:_NAMED]))
    return ok(f"the requirements of {count(len(environment.packages), 'package')} are met")


def _unmet(package: InstalledPackage, spec: str, environment: Examined) -> str:
    """What is there in the place of what a package needs; "" if that is met, or no certain need."""
    name = spec_name(spec)
    other = environment.by_name.get(name)
    if other is not None:
        return "" if _matches(spec, other.record) else f"but {other} is installed"
    is_conditional = "when=" in spec or "; if " in spec
    is_needed = spec in package.depends and not name.startswith("__") and not is_conditional
    return "which is not installed" if is_needed and not environment.has.broken else ""


@look_at(Examined, "glibc")
def _glibc_is_new_enough(environment: Examined) -> Finding:
    """Programs that need a newer glibc than the machine's do not start."""
    subdir = environment.machine.subdir
    if subdir != this_platform() and not is_glibc_stated():
        return ok(f"not checked: the environment is for {subdir}")
    have = glibc_of(subdir)
    floors = {f"{p.name} {p.version}": glibc_floor(p.depends) for p in environment.packages}
    newer = {name: floor for name, floor in floors.items() if have and floor and older(have, floor)}
    if newer:
        text = f"{glibc_needs(newer)}, and {glibc_in_words(subdir)}"
        step = "create it again with packages for older systems, from conda-forge or built here"
        return problem(text, step)
    if not have:
        return ok("not used on Windows")
    needed = [floor for floor in floors.values() if floor]
    if environment.machine.stated and needed and not is_glibc_stated():
        newest = max(needed, key=Version)
        there = "that of the stated machine is not known"
        return ok(f"needs {newest} or newer: {glibc_in_words(subdir)}, and {there}")
    return ok(f"{glibc_in_words(subdir)}, which is new enough")


@look_at(Examined, "driver")
def _driver_fits(environment: Examined) -> Finding:
    """Programs need a driver that works and is as new as packages require: errors 35, 100, 222."""
    state, driver = environment.driver_state, environment.machine.driver
    if state and (fault := driver_at_fault(state)):
        # Many hide the GPU on purpose, for example from the tests of a program.
        is_hidden = state.limit is Limit.VARIABLE and state.seen.error == NO_DEVICE
        return hint(fault.message, fault.fix) if is_hidden else fault
    if not driver:
        return _without_driver(environment)
    there = package_record("__cuda", driver)
    unmet = [
        f"{package.name} {package.version} needs {spec}"
        for package in environment.packages
        for spec in _driver_specs((*package.depends, *package.constrains))
        if not _matches(spec, there)
    ]
    made_for = environment.made_for
    if unmet:
        cause = f"it supports CUDA {driver}, and {listing(unmet, most=_SHOWN)}{made_for}"
        return problem(cause, environment.fix())
    if environment.overstated:
        return hint(environment.overstated, STATE_DRIVER)
    return ok(f"it supports CUDA {driver}{made_for}")


def _driver_specs(specs: Sequence[str]) -> list[str]:
    """Those of some specs that ask for a driver."""
    return [spec for spec in specs if spec_name(spec) == "__cuda"]


def _without_driver(environment: Examined) -> Finding:
    """A hint where packages need a driver and the machine has none."""
    words, made_for = environment.machine.words, environment.made_for
    needs = [
        f"{package.name} {package.version} needs {spec}"
        for package in environment.packages
        for spec in _driver_specs(package.depends)
    ]
    if not needs:
        return ok(f"{words}{made_for}")
    options = ["--driver", "13.0"]
    if environment.note and made_for:
        options = [*chain(*environment.note.machine.items())]
    other = shlex.join(["ctk", "doctor", str(environment.prefix), *options])
    step = f"`ctk doctor`, or for another machine: `{other}`"
    if made_for:
        step = f"to check for that machine: `{other}`"
    return hint(f"{words}, and {listing(needs, most=_SHOWN)}{made_for}", step)


def _toolkit_finding(environment: Examined, text: str) -> Finding:
    """A problem if another toolkit fixes it; else a hint, as only another driver would."""
    step = environment.fix()
    return problem(text, step) if environment.better else hint(text, step)


@look_at(Examined, "native toolkit")
def _native_toolkit(environment: Examined) -> Finding:
    """A driver refuses the PTX of a toolkit that is newer than it (error 222).

    A native toolkit is not newer than the driver of the machine that it was picked for.
    """
    toolkit, fit = environment.toolkit, environment.fit
    driver, arch = environment.machine.driver, environment.machine.arch
    if toolkit is None:
        return ok("no CUDA toolkit")
    text = f"toolkit {toolkit.version} {fit}".rstrip()
    gpus = environment.targets(toolkit.version)
    limit = limit_on(driver, arch, ChannelToolkit(toolkit.version, gpus=gpus))
    if driver and limit and limit.is_driver:
        newer = f"{text} is newer than the driver, which supports CUDA {driver}"
        if fit == "native":  # what asks for a newer driver is a problem of the driver
            return hint(f"{newer}: see driver", environment.fix())
        return _toolkit_finding(environment, newer)
    if not driver or fit == "native":
        records = [package.record for package in environment.packages]
        return ok("; ".join([text, *newer_nvjitlink(records, environment.asked, driver)]))
    knows_gpu = not arch or bool(gpus)  # a toolkit without a lock may not
    if fit == "compat" and limit is None and knows_gpu:
        step = environment.install(f"cuda-version={toolkit.version}=native_*")
        return hint(
            f"{text}, though the driver takes the native build: an update may bring a newer one",
            step,
        )
    return ok(text)


@look_at(Examined, "nvJitLink")
def _nvjitlink_is_of_the_toolkit(environment: Examined) -> Finding:
    """A driver refuses the PTX of an nvJitLink that is newer than it (error 222).

    An update can leave one behind.
    """
    own, toolkit = environment.by_name.get("libnvjitlink"), environment.toolkit
    if own is None or toolkit is None:
        return ok("none in it")
    records = [package.record for package in environment.packages]
    left = unasked_nvjitlink(records, environment.asked)
    if left is None:
        return ok(own.version)
    text = (
        f"{left.version}, but the toolkit is {toolkit.version}, and no installed or requested"
        " package needs that version"
    )
    spec = f"libnvjitlink={toolkit.version}"
    look = shlex.join(["ctk", "solve", spec, "--prefix", str(environment.prefix)])
    step = (
        own_nvjitlink(environment, spec)
        or f"`{look}` says whether the toolkit's own can be installed"
    )
    driver = environment.machine.driver
    is_refused = driver is not None and older(driver, left.minor)
    return problem(text, step) if is_refused else hint(text, step)


def own_nvjitlink(environment: Examined, spec: str) -> str:
    """The command that brings back the nvJitLink of the toolkit.

    "" if its channels do not prove that.
    """
    if environment.folders is None:
        return ""
    machine = on_its_driver(environment)
    if environment.note:
        return _created_again(environment, environment.note, machine, environment.folders)
    try:
        planned = plan(environment, [spec], machine, environment.folders)
    except CtkError:
        return ""
    return "" if planned.change.worse else client_line(environment, [spec], machine)


def _created_again(environment: Examined, note: Note, machine: Machine, channels: Catalogue) -> str:
    """`ctk env create` again, if that keeps the toolkit and gives the nvJitLink of it; else ""."""
    pick = channels.pick(Scenario(note.specs, machine.subdir, machine.driver, machine.arch))
    if pick is None or environment.toolkit is None:
        return ""
    if pick.toolkit != environment.toolkit.version:
        return ""
    if unasked_nvjitlink(pick.records, note.specs) is not None:
        return ""
    return note.again(environment.prefix)


@look_at(Examined, "GPU")
def _gpu_known(environment: Examined) -> Finding:
    """A toolkit compiles only for the GPUs that it knows."""
    toolkit, arch = environment.toolkit, environment.machine.arch
    known = environment.targets(toolkit.version) if toolkit else ()
    if toolkit and arch and known and arch not in known:
        text = (
            f"toolkit {toolkit.version} does not know compute capability {arch}; it knows"
            f" {listing(known)}"
        )
        return _toolkit_finding(environment, text)
    gpu = f"compute capability {arch}" if arch else environment.machine.words
    if environment.driver_state and (found := driver_at_fault(environment.driver_state)):
        return hint(f"{gpu}, and programs see no GPU: see driver", found.fix)
    return ok(gpu)


ENVIRONMENT_CHECKS = checks_of(sys.modules[__name__])
