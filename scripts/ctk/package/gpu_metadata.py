"""The GPUs that a package's metadata allows, and the comparison with those that its code is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError

from ctk.core.mistake import Mistake
from ctk.core.versions import version_key
from ctk.package.gpu_known import Known
from ctk.package.gpu_support import RENAMED, neighbours, present, spans
from ctk.package.reader import IndexJson
from ctk.package.records import match_spec, matches, package_record, spec_name

FOR_SOME_GPUS = {
    "cuda-cupti-files": (
        "libnvperf of CUDA 12 begins with 7.0; libcupti has code for the GPUs before"
    ),
    "cuda-sanitizer-api-files": (
        "libsanitizer of 12.8 and 12.9 shows only its code for 10.0 and newer, before none"
    ),
    "cusparselt-files": (
        "libtorch links to it on every GPU, and calls it on those that it has code for"
    ),
    "libcufile": (
        "cuda-libraries brings it: a bound would refuse all libraries to a GPU that this one"
        " leaves out"
    ),
}
"""Packages that may be installed for GPUs for which some of their files have no code -> the reason.
"""


@dataclass(frozen=True)
class Comparison:
    """The GPUs that a package's metadata allows, compared with those that its code is for.

    Attributes:
        allowed: The GPUs for which the metadata lets the package be installed.
        without_code: Those of them for which some file has no code, or little.
        exemption: Why the package may lack this code; "" if that is an error.
    """

    allowed: tuple[str, ...]
    without_code: tuple[str, ...]
    exemption: str = ""

    @property
    def wrongly_allowed(self) -> tuple[str, ...]:
        """The GPUs without code, unless there is an exemption."""
        return () if self.exemption else self.without_code


def mistake_of(
    comparison: Comparison, supported: Sequence[str], known: Sequence[str]
) -> Mistake | None:
    """What is wrong with a package whose metadata allows GPUs without code, and how to correct it.

    Args:
        comparison: The comparison of its metadata with its code.
        supported: The GPUs for which it has code, lowest first.
        known: The GPUs that machines of its platform can have, lowest first.
    """
    wrong = comparison.wrongly_allowed
    if not wrong:
        return None
    words = spans(wrong, known)
    steps = [f"compile it for {words}, too"]
    if older := [gpu for gpu in supported if version_key(gpu) < version_key(wrong[0])]:
        name = older[-1].replace(".", "")
        steps.insert(
            0,
            f"add PTX of {older[-1]} (nvcc -gencode arch=compute_{name},code=compute_{name}), which"
            " drivers compile for newer GPUs",
        )
    if supported:
        steps.append(_bound_for(supported, wrong[-1], known))
    return Mistake(
        f"its metadata allows GPUs for which it has little or no code: {words}",
        ", or ".join(steps),
    )


def _bound_for(supported: Sequence[str], newest_wrong: str, known: Sequence[str]) -> str:
    """What an author writes for a package that has code for the supported GPUs only."""
    oldest = supported[0]
    if version_key(newest_wrong) < version_key(oldest):
        return f"write cuda-arch {oldest}.* in host"
    bounds = []
    for group in neighbours(supported, known):
        bound = f">={group[0]}"
        if group[-1] != known[-1]:
            bound += f",<{known[known.index(group[-1]) + 1]}"
        bounds.append(bound)
    return f"write __cuda_arch {'|'.join(bounds)} in run_constraints"


def allowed_gpus(index: IndexJson, subdir: str, known: Known) -> tuple[str, ...]:
    """The GPUs for which the metadata of a package lets it be installed, lowest first."""
    gpus = present(known.gpus, subdir)
    for spec in index.depends:
        gpus = tuple(gpu for gpu in gpus if _allows(spec, gpu, known))
        if spec_name(spec) == "cuda-arch":
            gpus = _from_the_oldest(spec, gpus, known)
    for spec in index.constrains:
        gpus = tuple(gpu for gpu in gpus if _allows(spec, gpu, known))
    return gpus


def _allows(spec: str, gpu: str, known: Known) -> bool:
    """Whether a dependency or a constraint lets a package be installed for a GPU."""
    name = spec_name(spec)
    if name == "__cuda_arch":
        return _matches(spec, gpu)
    if name == "cuda-version":
        return _toolkit_allows(spec, gpu, known)
    return True


def _from_the_oldest(spec: str, gpus: Iterable[str], known: Known) -> tuple[str, ...]:
    """The GPUs for which a dependency on `cuda-arch` can be installed.

    Its builds have a GPU each, and are for newer ones too.
    """
    oldest = next((gpu for gpu in known.gpus if _matches(spec, gpu)), "0")
    return tuple(gpu for gpu in gpus if version_key(gpu) >= version_key(oldest))


def _toolkit_allows(spec: str, gpu: str, known: Known) -> bool:
    """Whether a build of `cuda-version` that a spec matches can be installed for a GPU."""
    is_native = "native" in spec.split()[-1]
    for minor, targets in known.targets.items():
        if not _matches(spec, minor):
            continue
        if gpu in targets:
            return True
        is_named = gpu != RENAMED or minor.startswith("12.")
        is_newer = version_key(gpu) >= version_key(targets[0])
        if is_newer and is_named and not is_native:
            return True
    return False


@cache
def _matches(spec: str, version: str) -> bool:
    """Whether a spec without its build matches a version, or one of them cannot be read."""
    name = spec_name(spec)
    try:
        wanted = match_spec(spec).version
        record = package_record(name, version)
    except (InvalidMatchSpecError, InvalidVersionError):
        return True
    return matches(f"{name} {wanted}" if wanted else name, record) is not False
