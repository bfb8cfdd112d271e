"""What NVIDIA does not publish for a CUDA major, as far as a request runs into it."""

from __future__ import annotations

import re

from rattler import Version, VersionSpec

from ctk.solve.catalogue import Asked, Catalogue, older
from ctk.solve.solve import Scenario

_NVCC = re.compile(r"cuda-nvcc|cuda-nvcc-impl|cuda-nvcc_.*|cuda-crt-tools")


def why_no_nvcc(scenario: Scenario, catalogue: Catalogue) -> str:
    """The sentence for a request that asks for nvcc and cannot have CUDA 13; "" for any other."""
    asked = [Asked(text) for text in scenario.specs]
    compilers = [a for a in asked if _NVCC.fullmatch(a.name)]
    if not compilers:
        return ""
    toolkits = [a for a in asked if a.name == "cuda-version"]
    only_12 = (
        bool(scenario.driver and older(scenario.driver, "13.0"))
        or any(_before_13(a, [t.version for t in catalogue.toolkits]) for a in toolkits)
        or any(_before_13(a, [str(r.version) for r in catalogue.records(a.name)]) for a in compilers)
    )
    return "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers" if only_12 else ""


def _before_13(asked: Asked, versions: list[str]) -> bool:
    """Whether a spec names CUDA 12, and no version of CUDA 13 or newer fits it."""
    wanted = asked.match.version
    if wanted is None or not re.search(r"(?<![\d.])12(?!\d)|<13", wanted):
        return False
    newer = [v for v in versions if Version(v) >= Version("13")]
    return not any(VersionSpec(wanted).matches(Version(v)) for v in newer)
