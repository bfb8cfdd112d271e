"""The machine that a request is for: stated by options, detected without them."""

from __future__ import annotations

import os
import platform as host
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, refuse_unknown_names
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.core.versions import PythonTag, version_key
from ctk.solve.driver import DriverState, Limit, detect, driver_state

if TYPE_CHECKING:  # slow to import, and `ctk doctor` does without
    from rattler import GenericVirtualPackage

    from ctk.lock.model import ReleaseLock

# The virtual packages of every machine, and the glibc of one of another platform: AlmaLinux 8's,
# the oldest for manylinux_2_28 wheels (cuda-bindings, cuda-core, numba-cuda).
_SYSTEMS = {
    "linux": [("__unix", "0", "0"), ("__linux", "4.18", "0")],
    "win": [("__win", "10.0", "0")],
}
_GLIBC_ELSEWHERE = "2.28"
_ARCH_STEP = (
    "write it as 9.0, sm_90 or none; nvidia-smi --query-gpu=compute_cap --format=csv shows it, and"
    " so does https://developer.nvidia.com/cuda-gpus"
)
DRIVER, ARCH = "CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH"
GLIBC = "CONDA_OVERRIDE_GLIBC"
_ARCHSPEC = {"64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Machine:
    """A scenario without its request."""

    subdir: str
    driver: str | None  # the newest CUDA version that it supports (13.0); None without a driver
    # Compute capability of the oldest GPU (9.0); None if it is unknown, or without a driver.
    arch: str | None
    words: str  # driver and GPU for people, and whether they are given or detected
    stated: str = ""  # the option or variable that states the driver; "" for a detected driver
    unseen: DriverState | None = (
        None  # of a driver that is installed here and that clients do not see
    )


def machine(
    platform: str | None = None, driver: str | None = None, arch: str | None = None
) -> Machine:
    """The machine that options state.

    Without options, driver and GPU are detected if the platform is this machine's. If a driver is
    stated, the GPU is not detected: it would be the GPU of another machine. ``CONDA_OVERRIDE_CUDA``
    counts on every platform.

    Raises:
        BadValue, UnknownName: An option or a variable cannot be read.
    """
    subdir = platform or this_platform()
    refuse_unknown_names("platform", [subdir], PLATFORMS)
    is_here = subdir == this_platform()
    found_driver, found_arch = detected(subdir) if driver is None else (None, None)
    stated = ""
    if driver is not None:
        stated = "--driver"
    elif DRIVER in os.environ:
        stated = DRIVER
    unseen = _unseen() if is_here and not stated and not found_driver else None
    # One that works, if need be without a variable that hides it, is the driver of this machine all
    # the same.
    if unseen and (works := unseen.works):
        found_driver = works.version
        found_arch = min(works.gpus, key=version_key)
    known_driver = _stated(driver, driver_version, found_driver)
    known_arch = _stated(arch, compute_capability, found_arch)
    if arch is not None and known_arch and not known_driver:
        raise BadValue(
            f"--arch {arch} describes a GPU on a machine without a driver, and no client sees such"
            " a GPU",
            f"add the driver, such as --driver 13.0 --arch {arch}",
        )
    how = " given" if stated or not is_here else " detected"
    if driver is not None:
        how = ""
    if not known_driver:
        return Machine(subdir, None, None, f"no driver{how}", stated, unseen)
    gpu = _gpu_in_words(known_arch, arch, may_detect=driver is None and is_here)
    words = f"driver {known_driver}{how}, {gpu}"
    return Machine(subdir, known_driver, known_arch, words, stated, unseen)


def _gpu_in_words(known: str | None, stated: str | None, may_detect: bool) -> str:
    """A GPU for people: whether it is stated by an option, given by a variable, or detected."""
    if known and stated is not None:
        return f"GPU {known}"
    if known:
        origin = "given" if ARCH in os.environ else "detected"
        return f"GPU {known} {origin}"
    if stated is not None:
        return "no GPU"
    return "no GPU detected" if may_detect else "GPU not given"


STATE_DRIVER = (
    "`export CONDA_OVERRIDE_CUDA=13.0`, with the oldest driver of the machines that will run it"
)


def overstated(machine: Machine, workspace: Workspace) -> str:
    """A warning about a stated driver of a CUDA major that no locked toolkit has.

    "" for other drivers. Many people set ``CONDA_OVERRIDE_CUDA=99`` to get CUDA builds without a
    GPU. Here the driver chooses the toolkit.
    """
    newest = next(reversed(workspace.locked_minors), "")
    if not (machine.stated and machine.driver and newest):
        return ""
    if version_key(machine.driver)[0] <= version_key(newest)[0]:
        return ""
    return (
        f"{machine.stated} states a driver for CUDA {machine.driver}, and the newest toolkit known"
        f" here is {newest}: a real driver may refuse the PTX that it compiles (error 222)"
    )


def too_old(gpu: str | None, locks: Iterable[ReleaseLock]) -> str:
    """What to do about a GPU that is older than all that the locked toolkits compile for.

    "" for other GPUs.
    """
    known = [known for lock in locks if lock.facts for known in lock.facts.gpu_architectures]
    if not gpu or not known:
        return ""
    oldest = min(known, key=version_key)
    if version_key(gpu) >= version_key(oldest):
        return ""
    return (
        f"use a GPU of compute capability {oldest} or newer, as every toolkit wants: a newer driver"
        " does not help"
    )


def pairs(drivers: Sequence[str], archs: Sequence[str], platform: str | None) -> list[Machine]:
    """Every driver with every GPU.

    ``12.4:7.0`` is a driver with this GPU only. The driver ``none`` has no GPU.

    Raises:
        BadValue: A driver or a GPU cannot be read, or all drivers have a GPU and others are given.
    """
    if archs and all(":" in text for text in drivers):
        raise BadValue(
            f"each driver has a GPU already, and none is left for --arch {archs[0]}",
            "leave out the one or the other",
        )
    found: dict[Machine, None] = {}
    for text in drivers:
        _refuse_several("drivers", "--driver", text)
        driver, colon, own = text.partition(":")
        of_driver: Sequence[str | None] = [own] if colon else archs or [None]
        for gpu in of_driver:
            has_gpu = driver.lower() != "none"
            found[machine(platform, driver, gpu if has_gpu else None)] = None
    return list(found)


def _stated(option: str | None, read: Callable[[str], str], otherwise: str | None) -> str | None:
    if option is None:
        return otherwise
    return None if option.lower() == "none" else read(option)


def _unseen() -> DriverState | None:
    """The state of the driver, where clients see none; None if none is installed."""
    state = driver_state()
    return None if state.limit is Limit.NO_DRIVER else state


def detected(subdir: str) -> tuple[str | None, str | None]:
    """The driver and GPU that clients see.

    From the variables of CEP 30 and CEP 46, else detected by rattler. For another platform than
    this machine's, only the variables count.
    """
    driver, arch = _override(DRIVER, driver_version, "12.9"), _override(ARCH, _capability, "9.0")
    if driver != "" and None in (driver, arch) and subdir == this_platform():
        detection = detect()
        if detection.error:
            cause = f"this machine's driver and GPU cannot be told: {detection.error}"
            raise BadValue(cause, "describe them, such as --driver 13.0 --arch 9.0")
        found = detection.packages
        if driver is None and "__cuda" in found:
            driver = driver_version(found["__cuda"])
        if arch is None:
            arch = found.get("__cuda_arch")
    return (driver, arch or None) if driver else (None, None)


def _override(variable: str, read: Callable[[str], str], example: str) -> str | None:
    """The value of a variable; "" if it is empty, which stands for nothing.

    None if it is not set.
    """
    text = os.environ.get(variable)
    if text is None or not text.strip():  # for conda too, blanks are empty: conda/plugins/types.py
        return None if text is None else ""
    try:
        return read(text)
    except BadValue as error:
        none = "" if variable == GLIBC else f", or `export {variable}=` for none"
        step = f"`export {variable}={example}`{none}; with `unset {variable}` it is detected"
        raise BadValue(f"{variable}: {error.cause}", step) from None


def _capability(text: str) -> str:
    """A compute capability in the form of CEP 46: with another form, clients see no GPU."""
    if re.fullmatch(r"(?a)\d+\.\d+", text.strip()):
        return compute_capability(text)
    raise BadValue(f"{text!r} is not a compute capability as clients read it")


def _glibc(text: str) -> str:
    if re.fullmatch(r"(?a)\d+(\.\d+)+", text.strip()):
        return text.strip()
    raise BadValue(f"{text!r} is not a version of glibc")


def detected_driver() -> str | None:
    """The CUDA version that this machine's driver supports; None without a driver."""
    return detected(this_platform())[0]


def driver_version(text: str) -> str:
    """``12.4`` for ``12.4`` or ``12.4.1``, ``13.0`` for ``13``.

    No rule of a package is finer than a minor.

    Raises:
        BadValue: It is not the CUDA version of a driver.
    """
    _refuse_several("drivers", "--driver", text)
    match = re.fullmatch(r"(?a)(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d+)*", text.strip())
    # Such as 580.65.06; 999 is not a driver's, and stands for any.
    is_own = re.match(r"(?a)[1-8]\d\d", text.strip())
    if match and not is_own:
        return f"{int(match[1])}.{int(match[2] or 0)}"
    cause = f"{text!r} is not the CUDA version of a driver"
    step = "write what nvidia-smi shows as CUDA Version or CUDA UMD Version, such as 13.0; or none"
    without_point = re.fullmatch(r"(?a)(1[0-9])(\d)", text.strip())
    if without_point:
        cause = f"{cause}; {without_point[1]}.{without_point[2]} is one"
    elif is_own:
        cause = (
            f"{text} is a driver's own version, but this needs the CUDA version that it supports"
        )
        if supported := _cuda_of_release(text.strip()):
            step = f"write {supported}, or a newer one if nvidia-smi shows that as CUDA Version"
    raise BadValue(cause, step)


def _refuse_several(what: str, option: str, text: str) -> None:
    """Refuses a list in the place of one value."""
    values = re.findall(r"[^\s,]+", text)
    is_decimal = all(value.isdigit() for value in values)  # 12,4 is 12.4 where people write so
    if "," not in text or len(values) < 2 or is_decimal:
        return
    step = f"repeat the option: {shlex.join(w for value in values for w in (option, value))}"
    raise BadValue(f"{text!r} is several {what}", step)


def compute_capability(text: str) -> str:
    """``9.0`` for ``9.0``, ``90``, ``sm_90``, ``sm90`` or ``sm_90a``.

    The letter names an instruction set (CEP 46).

    Raises:
        BadValue: It is not a compute capability, or ``12``, which could be 1.2 or 12.0.
    """
    _refuse_several("compute capabilities", "--arch", text)
    match = re.fullmatch(
        r"(?a)(\d{1,2})\.(\d)[af]?|(?:sm_?|compute_?)?([3-9]|\d\d)(\d)[af]?", text.strip().lower()
    )
    if match is None:
        cause = f"{text!r} is not a compute capability"
        named = _gpu_of_name(text)
        raise BadValue(
            f"{cause}; that GPU has {named}" if named else cause,
            f"write it as {named}" if named else _ARCH_STEP,
        )
    return f"{int(match[1] or match[3])}.{match[2] or match[4]}"


def gpu_names() -> dict[str, str]:
    """Name of a GPU -> compute capability, from NVIDIA's lists; newest first."""
    from ctk.core.document import load_by_hand  # slow to import, and needed for a name only

    listed: dict[str, list[str]] = load_by_hand(Path(__file__).with_name("gpus.yaml").read_bytes())
    return {name: gpu for gpu, names in listed.items() for name in names}


def driver_branches() -> dict[str, int]:
    """CUDA version -> the first branch of drivers that supports it, such as 535; newest first."""
    from ctk.core.document import load_by_hand  # slow to import, and needed for a number only

    branches: dict[str, int] = load_by_hand(Path(__file__).with_name("drivers.yaml").read_bytes())
    return branches


def _cuda_of_release(release: str) -> str:
    """``12.2`` for the driver 535.104; "" for one that is older than all in the list.

    A driver of a newer branch than the list has supports at least this.
    """
    number = int(release.split(".")[0])
    return next((cuda for cuda, branch in driver_branches().items() if branch <= number), "")


def _gpu_of_name(text: str) -> str:
    """``7.0`` for ``V100``, and ``Tesla V100-SXM2-16GB`` as nvidia-smi prints it.

    "" for a GPU that is not listed.
    """

    def words(name: str) -> str:
        return re.sub(r"^(nvidia\s+)?((tesla|geforce|quadro)\s+)?", "", name.strip().lower())

    ends = r"(?=$|[\s,(-])(?!\s+(ada|blackwell)\b)"  # "RTX 3000 Ada" is not a Quadro RTX 3000
    listed = {
        r"\s*".join(map(re.escape, words(name).split())): gpu for name, gpu in gpu_names().items()
    }
    found = [(len(name), gpu) for name, gpu in listed.items() if re.match(name + ends, words(text))]
    return max(found, default=(0, ""))[1]


def python_specs(text: str) -> tuple[str, ...]:
    """The specs for Python ``3.13``, ``3.13.2``, or free-threaded ``3.14t``.

    Raises:
        BadValue: It is not such a version.
    """
    match = re.fullmatch(r"(?a)(\d+\.\d+)((?:\.\d+)?)(t?)", text.strip())
    if not match:
        raise BadValue(
            f"{text!r} is not a version of Python",
            "write --python 3.13, or 3.14t for free-threaded Python",
        )
    minor, patch, free_threaded = match.groups()
    specs = (f"python={minor}{patch}",)
    # python_abi distinguishes the two kinds of a version; packages depend on it.
    return (
        (*specs, f"python_abi={minor}=*_{PythonTag(minor, True).tag}") if free_threaded else specs
    )


def glibc_of(subdir: str) -> str:
    """The glibc of a machine, as ``CONDA_OVERRIDE_GLIBC`` states it, or this one's; "" for Windows.

    Without the variable, a machine of another platform is taken to have AlmaLinux 8's.

    Raises:
        BadValue: The variable cannot be read.
    """
    if not subdir.startswith("linux"):
        return ""
    if stated := _override(GLIBC, _glibc, "2.34"):
        return stated
    if subdir == this_platform():
        return host.libc_ver()[1] or "2.17"
    return _GLIBC_ELSEWHERE


def is_glibc_stated() -> bool:
    """Whether ``CONDA_OVERRIDE_GLIBC`` states the glibc; an empty value states nothing."""
    return bool(os.environ.get(GLIBC, "").strip())


def glibc_in_words(subdir: str) -> str:
    """Whose glibc `glibc_of` is, and which: ``this machine has 2.36``."""
    version = glibc_of(subdir)
    if is_glibc_stated():
        return f"{GLIBC} states {version}"
    if subdir == this_platform():
        return f"this machine has {version}"
    return f"a {subdir} machine is taken to have {version}"


def virtual_packages(
    subdir: str, driver: str | None, arch: str | None, glibc: str | None = None
) -> list[GenericVirtualPackage]:
    """The virtual packages that a client detects on a machine; by default with its `glibc_of`."""
    return _virtual_packages(subdir, driver, arch, glibc or glibc_of(subdir))


@lru_cache(maxsize=4096)
def _virtual_packages(
    subdir: str,
    driver: str | None,
    arch: str | None,
    glibc: str,
) -> list[GenericVirtualPackage]:
    from rattler import GenericVirtualPackage, PackageName, Version
    from rattler.package.build_string import BuildString

    system, architecture = subdir.split("-")
    base = list(_SYSTEMS[system])
    if glibc:
        base.append(("__glibc", glibc, "0"))
    base.append(("__archspec", "1", _ARCHSPEC[architecture]))
    if driver:
        base.append(("__cuda", driver, "0"))
        if arch:
            base.append(("__cuda_arch", arch, "0"))
    return [
        GenericVirtualPackage(PackageName(n), Version(v), BuildString(build))
        for n, v, build in base
    ]


# --- machines that cannot exist


class LastDriver(NamedTuple):
    """The last driver branch for the GPUs of an architecture."""

    architecture: str
    gpus: tuple[str, ...]  # compute capabilities
    branch: str
    cuda: str  # the newest CUDA version that the branch supports


# As NVIDIA states it: with a newer driver such a machine cannot exist. The branches are those of
# https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html,
# which leaves out 6.2 and 7.2 (Jetson): these are from
# https://developer.nvidia.com/cuda-legacy-gpus. The CUDA version of a branch is from
# https://docs.nvidia.com/cuda/archive/13.2.2/cuda-toolkit-release-notes/index.html.
LAST_DRIVERS = (
    LastDriver("Maxwell", ("5.0", "5.2", "5.3"), "R580", "13.0"),
    LastDriver("Pascal", ("6.0", "6.1", "6.2"), "R580", "13.0"),
    LastDriver("Volta", ("7.0", "7.2"), "R580", "13.0"),
)
# The matrix on that page has the first CUDA Toolkit for 10.0 and 12.0, which is 12.8, and our
# NVRTCs say the same. A toolkit's release brings the first driver for its CUDA version. (NVIDIA's
# GPU Operator asks for 570.133.20 on an HGX B200:
# https://github.com/NVIDIA/cloud-native-docs/pull/184.) Of the other newer GPUs NVIDIA's pages that
# were at hand state no driver, so no more than this is ruled out. All older GPUs had drivers before
# CUDA 12.
# Its oldest GPU, and the CUDA version of its first driver.
_BLACKWELL, FIRST_DRIVER = ("10.0", "12.8")


def refuse_impossible(*machines: tuple[str | None, str | None]) -> None:
    """Refuses drivers with GPUs of which no machine can exist; none at all are possible.

    Raises:
        BadValue: None of the machines can exist.
    """
    reasons = [impossible(driver, gpu) for driver, gpu in machines]
    if reasons and all(reasons):
        gpu = "one of these GPUs" if len(reasons) > 1 else "this GPU"
        step = f"state a driver that runs {gpu}, or another GPU"
        if not any(impossible(gpu, driver) for driver, gpu in machines):
            step = "are the two swapped? write --driver {1} --arch {0}".format(*machines[0])
        raise BadValue(reasons[0], step)


def impossible(driver: str | None, gpu: str | None) -> str:
    """Why no machine can have a driver for this CUDA version and this GPU; "" if a machine can."""
    if not driver or not gpu:
        return ""
    last = next((last for last in LAST_DRIVERS if gpu in last.gpus), None)
    is_new = version_key(gpu) >= version_key(_BLACKWELL)
    if is_new and version_key(driver) < version_key(FIRST_DRIVER):
        newer = "" if gpu == _BLACKWELL else " and newer GPUs"
        return (
            f"a driver for CUDA {driver} does not know a GPU {gpu}: drivers for CUDA {FIRST_DRIVER}"
            f" are the first for Blackwell{newer}"
        )
    if last is None or version_key(driver) <= version_key(last.cuda):
        return ""
    return (
        f"no driver for CUDA {driver} runs a GPU {gpu}: {last.branch}, for CUDA {last.cuda}, "
        f"is the last branch for {last.architecture}"
    )
