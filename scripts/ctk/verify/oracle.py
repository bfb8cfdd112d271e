"""The oracle: facts in, the right pick out. A plain function that knows nothing of recipes, repodata or solvers.

It states the rule that users are promised, in its own words, so that it can contradict whatever the packages say. It
imports nothing of this project; `ctk.verify.scenarios` reads its facts from the release locks.

A toolkit is *native* for a machine whose driver is as new as it, and whose GPU its NVRTC can target: the PTX that it
writes loads there. It is *compatible* where there is no driver at all, or where the driver has its CUDA major or a
newer one and the GPU is not older than what it can target: GPU code that it compiles runs there. The right pick is the
newest native toolkit, and where there is none, the newest compatible one.

A library also has to have code for the GPU: a toolkit of which one that is asked for has none is no candidate.

A driver refuses PTX that is newer than it, whoever wrote it. So all that writes PTX is of the picked toolkit's minor.
Where a toolkit has none that Python can use, it is of the nearest newer minor that has. Who asks for a newer nvJitLink
gets it beside a native toolkit of its major, and beside a compatible one that is as new as it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Cause(StrEnum):
    """Why nothing can be picked; the first that applies, in this order."""

    PIN = "no such toolkit"
    PLATFORM = "not published for the platform"
    PYTHON = "not published for the Python"
    DRIVER = "driver too old"
    GPU = "GPU too old"


class Loss(StrEnum):
    """What a client loses that ignores constraints on virtual packages."""

    GPU = "GPU"
    REFUSAL = "refusal"
    MAJOR = "major"


@dataclass(frozen=True)
class Toolkit:
    """One CTK release."""

    minor: str  # 13.4
    architectures: tuple[str, ...]  # compute capabilities that its NVRTC can target, oldest first; there are gaps
    published: Mapping[str, frozenset[str]]  # component -> its subdirs; `compiler` is the whole of nvcc
    # Component -> subdir -> the GPUs that it has code for, as ranges: ``>=10.0,<11.0|>=12.0``. Not named: for all.
    code: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def major(self) -> str:
        return self.minor.split(".")[0]


@dataclass(frozen=True)
class OracleFacts:
    """Everything the oracle knows: the toolkits in any order, and the Python projects by CUDA major."""

    toolkits: tuple[Toolkit, ...]
    # Major -> project -> ``<subdir>-<tag>`` that it is published for, or ``noarch``.
    python_sets: Mapping[str, Mapping[str, frozenset[str]]]


@dataclass(frozen=True)
class Question:
    """A machine and what is asked of it."""

    request: str  # a package, e.g. cuda-core, and the nvJitLink that it has at least: libnvjitlink>=13.4
    subdir: str
    driver: str | None = None  # the newest CUDA version that it supports; None without a driver
    arch: str | None = None  # compute capability of the GPU; None where none is detected, or without a driver
    python: str | None = None  # 3.13 or 3.14t; None leaves it to the solver
    pin: str | None = None  # the major or minor that cuda-version is pinned to


@dataclass(frozen=True)
class Expected:
    """The right pick, or why the request must be refused."""

    toolkit: str = ""  # the CTK minor; "" when it must be refused
    fit: str = ""  # native, compat or ""
    python: str = ""  # tag of the Python in the environment, e.g. cp314t; "" without one
    nvjitlink: tuple[str, ...] = ()  # the minors that it may be of, where it has to be newer than the toolkit's own
    cause: Cause | None = None

    @property
    def major(self) -> str:
        return self.toolkit.split(".")[0]


_PTX = ("nvrtc", "nvvm")
_CORE = ("cuda-bindings", "cuda-core")

# Request -> the components of one minor that it brings, and the Python projects. Of libraries, those that every release
# has; what only some have is brought where it is there.
_NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cuda-nvrtc": (("nvrtc",), ()),
    "cuda-nvcc": (("compiler", "crt", "cudart", "nvvm"), ()),
    "cuda-runtime": (
        ("cudart", "nvrtc", "nvjitlink", "nvjpeg", "npp", "cublas", "cufft", "curand", "cusolver", "cusparse"),
        (),
    ),
    "cuda-bindings": (_PTX, ("cuda-bindings",)),
    "cuda-core": (_PTX, _CORE),
    "cuda-python": (_PTX, ("cuda-python", "cuda-bindings")),
    "numba-cuda": ((*_PTX, "cudart"), (*_CORE, "numba-cuda")),
    "numba-cuda-mlir": ((*_PTX, "cudart"), (*_CORE, "numba-cuda-mlir")),
    "cccl-python": ((*_PTX, "cudart"), (*_CORE, "numba-cuda-mlir", "cuda-cccl")),
    # As packages of RAPIDS ask: for nvJitLink of the toolkit that they were compiled with, or newer.
    "cuda-core libnvjitlink>=12.9": (_PTX, _CORE),
    "cuda-core libnvjitlink>=13.4": (_PTX, _CORE),
}
REQUESTS = tuple(_NEEDS)
PYTHON_REQUESTS = tuple(request for request, (_, projects) in _NEEDS.items() if projects)

# What writes PTX, or packs it for the driver -> the first minor whose one Python can use. NVRTC, libNVVM and nvcc serve
# Python from the first toolkit on. cuda-bindings calls nvJitLink's functions by names that 12.0 to 12.2 do not export;
# nvFatbin came with 12.4.
_PTX_WRITERS = {
    **dict.fromkeys(("cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools", "cuda-nvcc-tools", "cuda-tileiras"), "12.0"),
    "libnvjitlink": "12.3",
    "libnvfatbin": "12.4",
}
PTX_WRITERS = tuple(_PTX_WRITERS)


def minors_of(writer: str, toolkit: str, for_python: bool) -> tuple[str, ...]:
    """The minors that a writer of PTX may be of, in an environment with a toolkit; the best one comes first.

    What Python does not use can also be the toolkit's own.
    """
    usable = max(toolkit, _PTX_WRITERS[writer], key=version)
    return (usable,) if for_python else tuple(dict.fromkeys((toolkit, usable)))


def expected(facts: OracleFacts, question: Question) -> Expected:
    """The right pick, for a client that heeds every constraint."""
    candidates, cause = _candidates(facts, question)
    with_code = [t for t in candidates if _has_code(t, question)]
    native = [t for t in with_code if _driver_loads(t, question) and _knows_gpu(t, question)]
    compatible = [t for t in with_code if _driver_has_major(t, question) and _not_too_old(t, question)]
    compatible = [t for t in compatible if not _newer_nvjitlink(facts, question, t)]
    if native or compatible:
        return _pick(facts, question, native, compatible)
    if cause is None:
        cause = Cause.GPU if any(_driver_has_major(t, question) for t in candidates) else Cause.DRIVER
    return Expected(cause=cause)


def expected_ignoring(facts: OracleFacts, question: Question) -> Expected:
    """What a client picks that ignores constraints on virtual packages: only the native build's dependency is left."""
    candidates, cause = _candidates(facts, question)
    if not candidates:
        return Expected(cause=cause)
    native = [t for t in candidates if _driver_loads(t, question)]
    own = [t for t in candidates if not _newer_nvjitlink(facts, question, t)]
    return _pick(facts, question, native, own) if native or own else Expected(cause=Cause.PIN)


def loss(facts: OracleFacts, question: Question) -> Loss | None:
    """What such a client gets wrong, or None where it gets the right toolkit, or rightly refuses."""
    right, got = expected(facts, question), expected_ignoring(facts, question)
    if right.toolkit == got.toolkit:
        return None
    if not right.toolkit:
        return Loss.REFUSAL
    without_gpu = expected(facts, replace(question, arch=None))
    return Loss.GPU if without_gpu.toolkit == got.toolkit else Loss.MAJOR


def _candidates(facts: OracleFacts, question: Question) -> tuple[list[Toolkit], Cause | None]:
    """The toolkits that could be meant, whatever the machine's driver and GPU; or why there is none."""
    pinned = [t for t in facts.toolkits if question.pin in (None, t.minor, t.major)]
    if floor := _floor(question):
        newest = {t.major: version(t.minor) for t in sorted(facts.toolkits, key=lambda t: version(t.minor))}
        pinned = [t for t in pinned if newest[t.major] >= floor]
    if not pinned:
        return [], Cause.PIN
    components, projects = _NEEDS[question.request]
    here = [t for t in pinned if all(question.subdir in t.published.get(c, frozenset()) for c in components)]
    here = [t for t in here if not projects or tags(facts, question, t.major)]
    if not here:
        return [], Cause.PLATFORM
    wanted = [t for t in here if not projects or _python(facts, question, t.major)]
    return wanted, None if wanted else Cause.PYTHON


def _pick(facts: OracleFacts, question: Question, native: list[Toolkit], compatible: list[Toolkit]) -> Expected:
    best = max(native or compatible, key=lambda t: version(t.minor))
    python = tag(question.python)
    if question.request in PYTHON_REQUESTS:
        python = _python(facts, question, best.major)
    return Expected(best.minor, "native" if native else "compat", python, _newer_nvjitlink(facts, question, best))


def _floor(question: Question) -> tuple[int, ...]:
    """The minor that nvJitLink has at least; empty where the request says nothing of it."""
    least = question.request.partition(" libnvjitlink>=")[2]
    return version(least) if least else ()


def _newer_nvjitlink(facts: OracleFacts, question: Question, toolkit: Toolkit) -> tuple[str, ...]:
    """The minors that are as new as the request asks, where the one that the toolkit has for Python is not."""
    (own,), floor = minors_of("libnvjitlink", toolkit.minor, for_python=True), _floor(question)
    if version(own) >= floor:
        return ()
    return tuple(t.minor for t in facts.toolkits if t.major == toolkit.major and version(t.minor) >= floor)


def _python(facts: OracleFacts, question: Question, major: str) -> str:
    """The Python that the pick has: the one asked for, else the newest with the GIL; "" when there is none."""
    known = tags(facts, question, major)
    if question.python is not None:
        return tag(question.python) if tag(question.python) in known else ""
    return max((t for t in known if not t.endswith("t")), key=lambda t: int(t.removeprefix("cp3")), default="")


def tags(facts: OracleFacts, question: Question, major: str) -> frozenset[str]:
    """The Pythons that every project of the request is published for, on the platform and for the major."""
    published = facts.python_sets.get(major, {})
    start = f"{question.subdir}-"
    projects = [published.get(project, frozenset()) for project in _NEEDS[question.request][1]]
    each = [{t.removeprefix(start) for t in on if t.startswith(f"{start}cp")} for on in projects if on != {"noarch"}]
    return frozenset(set.intersection(*each))


def _driver_loads(toolkit: Toolkit, question: Question) -> bool:
    return question.driver is not None and version(toolkit.minor) <= version(question.driver)


def _knows_gpu(toolkit: Toolkit, question: Question) -> bool:
    return question.arch is None or version(question.arch) in map(version, toolkit.architectures)


def _driver_has_major(toolkit: Toolkit, question: Question) -> bool:
    return question.driver is None or version(toolkit.major) <= version(question.driver)[:1]


def _not_too_old(toolkit: Toolkit, question: Question) -> bool:
    return question.arch is None or min(map(version, toolkit.architectures)) <= version(question.arch)


def _has_code(toolkit: Toolkit, question: Question) -> bool:
    """Whether all components and projects of the request run on the GPU, by what was read from their binaries."""
    if question.arch is None:
        return True
    bounds = [toolkit.code.get(c, {}).get(question.subdir, "") for kind in _NEEDS[question.request] for c in kind]
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
