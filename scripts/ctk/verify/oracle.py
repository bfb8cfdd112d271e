"""The oracle computes the right pick from facts. It knows nothing of recipes, repodata or solvers.

It states the rule that users are promised in its own words, so that it can contradict the packages.
It imports nothing of this project; `ctk.verify.scenarios` reads its facts from the release locks.

A toolkit is *native* for a machine if the driver is as new as the toolkit, and its NVRTC can target
the GPU: the PTX that it writes loads there. A toolkit is *compatible* if the machine has no driver,
or if the driver has its CUDA major or a newer major and the GPU is not older than its oldest
target: GPU code that it compiles runs there. The right pick is the newest native toolkit; without a
native toolkit, the newest compatible toolkit.

A toolkit is a candidate only if all requested libraries of it have code for the GPU.

A driver refuses PTX that is newer than it, whatever program wrote it. So all packages that write
PTX have the minor of the picked toolkit. If a toolkit has no such package that Python can use, it
has the nearest newer minor that exists. A request for a newer nvJitLink gets it beside a native
toolkit of its major, or a compatible toolkit that is as new.

A request with cuda-gpu asks for a driver that runs code of the toolkit, also in a client that
ignores constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Cause(StrEnum):
    """The reason of a refusal; if there are several, the first in this order."""

    PIN = "no such toolkit"
    PLATFORM = "not published for the platform"
    PYTHON = "not published for the Python"
    DRIVER = "driver too old"
    GPU = "GPU too old"


class Loss(StrEnum):
    """The loss of a client that ignores constraints on virtual packages."""

    GPU = "GPU"
    REFUSAL = "refusal"
    MAJOR = "major"


@dataclass(frozen=True)
class Toolkit:
    """A CTK release."""

    minor: str  # 13.4
    # Compute capabilities that its NVRTC can target, oldest first; there are gaps.
    architectures: tuple[str, ...]
    # Component -> its subdirs; `compiler` is the whole of nvcc.
    published: Mapping[str, frozenset[str]]
    # Component -> subdir -> the GPUs that it has code for, as ranges: ``>=10.0,<11.0|>=12.0``;
    # without it, all GPUs.
    code: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def major(self) -> str:
        return self.minor.split(".")[0]


@dataclass(frozen=True)
class OracleFacts:
    """The facts about toolkits, in any order, and about Python projects."""

    toolkits: tuple[Toolkit, ...]
    # CUDA major -> project -> ``<subdir>-<tag>`` of its wheels, or ``noarch``.
    python_sets: Mapping[str, Mapping[str, frozenset[str]]]


@dataclass(frozen=True)
class Question:
    """A request on a machine."""

    # A package such as cuda-core; optionally cuda-gpu before it, or after it the oldest nvJitLink:
    # libnvjitlink>=13.4
    request: str
    subdir: str
    driver: str | None = None  # the newest CUDA version that it supports; None without a driver
    arch: str | None = (
        None  # compute capability of the GPU; None if no GPU is detected, or without a driver
    )
    python: str | None = None  # 3.13 or 3.14t; None: the solver chooses
    pin: str | None = None  # the major or minor of the pin of cuda-version


@dataclass(frozen=True)
class Expected:
    """The right pick, or the reason of a refusal."""

    toolkit: str = ""  # the CTK minor; "" for a refusal
    fit: str = ""  # native, compat or ""
    python: str = ""  # tag of the Python in the environment, e.g. cp314t; "" without Python
    nvjitlink: tuple[
        str, ...
    ] = ()  # the minors that it can have, if it has to be newer than the toolkit
    cause: Cause | None = None

    @property
    def major(self) -> str:
        return self.toolkit.split(".")[0]


# The package that asks for a driver; it is named first.
_ASKS_FOR_DRIVER = "cuda-gpu"
_PTX = ("nvrtc", "nvvm")
_CORE = ("cuda-bindings", "cuda-core")

# Request -> components that it installs in one minor, and Python projects. Only libraries that
# every release has are listed; others are installed if the release has them.
_NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cuda-nvrtc": (("nvrtc",), ()),
    "cuda-nvcc": (("compiler", "crt", "cudart", "nvvm"), ()),
    "cuda-runtime": (
        (
            "cudart",
            "nvrtc",
            "nvjitlink",
            "nvjpeg",
            "npp",
            "cublas",
            "cufft",
            "curand",
            "cusolver",
            "cusparse",
        ),
        (),
    ),
    "cuda-bindings": (_PTX, ("cuda-bindings",)),
    "cuda-core": (_PTX, _CORE),
    "cuda-python": (_PTX, ("cuda-python", "cuda-bindings")),
    "numba-cuda": ((*_PTX, "cudart"), (*_CORE, "numba-cuda")),
    "numba-cuda-mlir": ((*_PTX, "cudart"), (*_CORE, "numba-cuda-mlir")),
    "cccl-python": ((*_PTX, "cudart"), (*_CORE, "numba-cuda-mlir", "cuda-cccl")),
    # Packages of RAPIDS require the nvJitLink of the toolkit that they were compiled with, or
    # newer.
    "cuda-core libnvjitlink>=12.9": (_PTX, _CORE),
    "cuda-core libnvjitlink>=13.4": (_PTX, _CORE),
    "cuda-gpu cuda-nvrtc": (("nvrtc",), ()),
    "cuda-gpu cuda-core": (_PTX, _CORE),
}
REQUESTS = tuple(_NEEDS)
PYTHON_REQUESTS = tuple(request for request, (_, projects) in _NEEDS.items() if projects)

# Packages that write PTX, or pack it for the driver -> the first minor that Python can use. For
# NVRTC, libNVVM and nvcc it is the first toolkit. nvJitLink 12.0 to 12.2 does not export the names
# by which cuda-bindings calls its functions; nvFatbin exists since 12.4.
_PTX_WRITERS = {
    **dict.fromkeys(
        ("cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools", "cuda-nvcc-tools", "cuda-tileiras"),
        "12.0",
    ),
    "libnvjitlink": "12.3",
    "libnvfatbin": "12.4",
}
PTX_WRITERS = tuple(_PTX_WRITERS)


def minors_of(writer: str, toolkit: str, for_python: bool) -> tuple[str, ...]:
    """The minors that a package which writes PTX can have beside a toolkit, the best first.

    In an environment without Python, it can also have the toolkit's own minor.
    """
    usable = max(toolkit, _PTX_WRITERS[writer], key=version)
    return (usable,) if for_python else tuple(dict.fromkeys((toolkit, usable)))


def expected(facts: OracleFacts, question: Question) -> Expected:
    """The right pick, for a client that obeys every constraint."""
    candidates, cause = _candidates(facts, question)
    with_code = [t for t in candidates if _has_code(t, question)]
    native = [t for t in with_code if _driver_loads(t, question) and _knows_gpu(t, question)]
    compatible = [
        t for t in with_code if _driver_has_major(t, question) and _not_too_old(t, question)
    ]
    compatible = [t for t in compatible if not _newer_nvjitlink(facts, question, t)]
    if native or compatible:
        return _pick(facts, question, native, compatible)
    if cause is None:
        cause = (
            Cause.GPU if any(_driver_has_major(t, question) for t in candidates) else Cause.DRIVER
        )
    return Expected(cause=cause)


def expected_ignoring(facts: OracleFacts, question: Question) -> Expected:
    """The pick of a client that ignores constraints on virtual packages.

    It obeys the dependencies of native builds.
    """
    candidates, cause = _candidates(facts, question)
    if not candidates:
        return Expected(cause=cause)
    native = [t for t in candidates if _driver_loads(t, question)]
    own = [t for t in candidates if not _newer_nvjitlink(facts, question, t)]
    if _asks_for_driver(question):
        own = [t for t in own if _driver_has_major(t, question)]
        if not own:
            return Expected(cause=Cause.DRIVER)
    return _pick(facts, question, native, own) if native or own else Expected(cause=Cause.PIN)


def loss(facts: OracleFacts, question: Question) -> Loss | None:
    """The loss of such a client; None if it picks the right toolkit, or rightly refuses."""
    right, got = expected(facts, question), expected_ignoring(facts, question)
    if right.toolkit == got.toolkit:
        return None
    if not right.toolkit:
        return Loss.REFUSAL
    without_gpu = expected(facts, replace(question, arch=None))
    return Loss.GPU if without_gpu.toolkit == got.toolkit else Loss.MAJOR


def _candidates(facts: OracleFacts, question: Question) -> tuple[list[Toolkit], Cause | None]:
    """The toolkits that the request allows, on any driver and GPU; without any, the reason.

    A request for a driver allows none without one.
    """
    pinned = [t for t in facts.toolkits if question.pin in (None, t.minor, t.major)]
    if floor := _floor(question):
        newest = {
            t.major: version(t.minor)
            for t in sorted(facts.toolkits, key=lambda t: version(t.minor))
        }
        pinned = [t for t in pinned if newest[t.major] >= floor]
    if not pinned:
        return [], Cause.PIN
    components, projects = _NEEDS[question.request]
    here = [
        t
        for t in pinned
        if all(question.subdir in t.published.get(c, frozenset()) for c in components)
    ]
    here = [t for t in here if not projects or tags(facts, question, t.major)]
    if not here:
        return [], Cause.PLATFORM
    wanted = [t for t in here if not projects or _python(facts, question, t.major)]
    if not wanted:
        return [], Cause.PYTHON
    if _asks_for_driver(question) and question.driver is None:
        return [], Cause.DRIVER
    return wanted, None


def _pick(
    facts: OracleFacts, question: Question, native: list[Toolkit], compatible: list[Toolkit]
) -> Expected:
    best = max(native or compatible, key=lambda t: version(t.minor))
    python = tag(question.python)
    if question.request in PYTHON_REQUESTS:
        python = _python(facts, question, best.major)
    return Expected(
        best.minor,
        "native" if native else "compat",
        python,
        _newer_nvjitlink(facts, question, best),
    )


def _asks_for_driver(question: Question) -> bool:
    return question.request.split()[0] == _ASKS_FOR_DRIVER


def _floor(question: Question) -> tuple[int, ...]:
    """The oldest minor of nvJitLink; empty if the request does not name it."""
    least = question.request.partition(" libnvjitlink>=")[2]
    return version(least) if least else ()


def _newer_nvjitlink(facts: OracleFacts, question: Question, toolkit: Toolkit) -> tuple[str, ...]:
    """The minors of nvJitLink that are new enough for the request.

    Empty if the toolkit's own is.
    """
    (own,), floor = minors_of("libnvjitlink", toolkit.minor, for_python=True), _floor(question)
    if version(own) >= floor:
        return ()
    return tuple(
        t.minor for t in facts.toolkits if t.major == toolkit.major and version(t.minor) >= floor
    )


def _python(facts: OracleFacts, question: Question, major: str) -> str:
    """The Python of the pick: the requested Python, else the newest with the GIL.

    "" without any.
    """
    known = tags(facts, question, major)
    if question.python is not None:
        return tag(question.python) if tag(question.python) in known else ""
    return max(
        (t for t in known if not t.endswith("t")),
        key=lambda t: int(t.removeprefix("cp3")),
        default="",
    )


def tags(facts: OracleFacts, question: Question, major: str) -> frozenset[str]:
    """The Pythons for which every project of the request is published.

    On the platform of the question, and for a CUDA major.
    """
    published = facts.python_sets.get(major, {})
    start = f"{question.subdir}-"
    projects = [published.get(project, frozenset()) for project in _NEEDS[question.request][1]]
    each = [
        {t.removeprefix(start) for t in on if t.startswith(f"{start}cp")}
        for on in projects
        if on != {"noarch"}
    ]
    return frozenset(set.intersection(*each))


def _driver_loads(toolkit: Toolkit, question: Question) -> bool:
    return question.driver is not None and version(toolkit.minor) <= version(question.driver)


def _knows_gpu(toolkit: Toolkit, question: Question) -> bool:
    return question.arch is None or version(question.arch) in map(version, toolkit.architectures)


def _driver_has_major(toolkit: Toolkit, question: Question) -> bool:
    return question.driver is None or version(toolkit.major) <= version(question.driver)[:1]


def _not_too_old(toolkit: Toolkit, question: Question) -> bool:
    return question.arch is None or min(map(version, toolkit.architectures)) <= version(
        question.arch
    )


def _has_code(toolkit: Toolkit, question: Question) -> bool:
    """Whether all that is requested has code for the GPU, as read from the binaries."""
    if question.arch is None:
        return True
    bounds = [
        toolkit.code.get(c, {}).get(question.subdir, "")
        for kind in _NEEDS[question.request]
        for c in kind
    ]
    return all(not bound or _within(bound, version(question.arch)) for bound in bounds)


def _within(ranges: str, gpu: tuple[int, ...]) -> bool:
    for part in ranges.split("|"):
        low, _, high = part.removeprefix(">=").partition(",<")
        if not part.startswith("<") and version(low) <= gpu and (not high or gpu < version(high)):
            return True
    return False


def version(text: str) -> tuple[int, ...]:
    """``12.10`` as numbers, which compare as versions do."""
    return tuple(int(part) for part in text.split("."))


def tag(python: str | None) -> str:
    """``cp314t`` for ``3.14t``; "" for None."""
    return f"cp{python.replace('.', '')}" if python else ""
