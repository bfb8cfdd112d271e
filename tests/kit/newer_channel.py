"""A conda-forge that is ahead of this channel in everything: where the newest wins, it wins.

It has what `kit.foreign_channel` has, and besides, as metadata: every package of our default set, a
newer patch of each toolkit, toolkits that are newer than ours, and newer versions of the Python
packages and of some GPU packages, compiled with the newest toolkit and with 12.9.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kit import foreign_channel
from kit.foreign_channel import FORGE, LINUX, MINORS, Facts, component_versions
from kit.small_channel import Record, record

NEWEST = "13.7"
AHEAD = {"12.10": "12.9", "13.6": "13.5", NEWEST: "13.5"}
"""A toolkit that no release of ours has -> the release whose components it has, newer ones.

NVIDIA made no 12.10: it stands for a newest of CUDA 12, as 13.7 does for CUDA 13.
"""

# Packages of our default set that conda_forge.yaml leaves out. Their feedstocks were not looked at
# one by one; a -dev package pins its library, as cuda-cudart-dev does there.
ALSO: tuple[Facts, ...] = (
    {"name": "cuda-nvrtc-dev", "component": "nvrtc", "exact": ["cuda-nvrtc"]},
    {"name": "libnvjitlink-dev", "component": "nvjitlink", "exact": ["libnvjitlink"]},
    {"name": "libcufile-dev", "component": "cufile", "exact": ["libcufile"], "only": LINUX},
    {"name": "libnvfatbin", "component": "nvfatbin"},
    {"name": "cuda-profiler-api", "component": "profiler"},
    {"name": "cuda-cudart_{subdir}", "component": "cudart", "noarch": True},
    {"name": "cuda-cudart-static_{subdir}", "component": "cudart", "noarch": True},
    {"name": "cuda-cudart-static", "component": "cudart"},
    {"name": "cuda-cccl_{subdir}", "component": "cccl", "noarch": True},
    {"name": "cuda-cccl", "component": "cccl"},
)
# What is newer of the Python packages, by the version that stands in conda_forge.yaml.
_PROJECTS = {
    "12.9.7": ("cuda-bindings", "12.10.1"),
    "13.4.1": ("cuda-bindings", "13.7.1"),
    "1.2.1": ("cuda-core", "1.9.0"),
    "0.30.2": ("numba-cuda", "0.39.0"),
}
# Feedstocks of which there is a newer version, compiled with these: old texts -> new ones.
_COMPILED = (
    ("pytorch", {"2.13.0": "2.19.0"}),
    ("librmm", {"26.08": "26.10", "26.09": "26.11"}),
    ("libkvikio", {"26.08": "26.10", "26.09": "26.11"}),
    ("cudf", {"26.08": "26.10", "26.09": "26.11"}),
    ("cupy", {"14.1.1": "14.9.0"}),
)


def records(variants: Path) -> Iterator[Record]:
    """The channel, for three platforms."""
    yield from foreign_channel.records(variants)
    released = {minor: component_versions(variants, minor) for minor in MINORS}
    patched = {minor: _later(found) for minor, found in released.items()}
    ahead = {minor: _moved(variants, old, minor) for minor, old in AHEAD.items()}
    yield from foreign_channel.toolkits(released, ALSO)
    for versions in (patched, ahead):
        yield from foreign_channel.toolkits(versions)
        yield from foreign_channel.toolkits(versions, ALSO)
    yield record("cuda-pathfinder", "1.99.0", "pyh1_0", "noarch", depends=["python"])
    for feedstock in _newer():
        yield from foreign_channel.builds(feedstock, {**released, **ahead})


def _later(components: Mapping[str, str]) -> dict[str, str]:
    """A newer patch of each component."""
    return {
        name: re.sub(r"\d+$", lambda last: str(1000 + int(last[0])), version)
        for name, version in components.items()
    }


def _moved(variants: Path, old: str, minor: str) -> dict[str, str]:
    """The components of a release, as those of a newer minor."""
    components = _later(component_versions(variants, old))
    return {
        name: re.sub(rf"^{re.escape(old)}\.", f"{minor}.", version)
        for name, version in components.items()
    }


def _newer() -> Iterator[Facts]:
    """The feedstocks of newer versions."""
    for feedstock in FORGE["feedstocks"]:
        name, version = _PROJECTS.get(feedstock["version"], ("", ""))
        if name in feedstock["outputs"]:
            outputs = {name: feedstock["outputs"][name]}
            yield {**feedstock, "version": version, "outputs": outputs}
        for output, texts in _COMPILED:
            if output in feedstock["outputs"] and next(iter(texts)) in feedstock["version"]:
                made = _replaced(copy.deepcopy(dict(feedstock)), texts)
                made.pop("assumed", None)
                yield {**made, "cuda": {subdir: ["12.9", NEWEST] for subdir in made["cuda"]}}


def _replaced(facts: Any, texts: Mapping[str, str]) -> Any:
    """Facts with other texts in the place of some, in one pass."""
    if isinstance(facts, str):
        return re.sub("|".join(map(re.escape, texts)), lambda found: texts[found[0]], facts)
    if isinstance(facts, dict):
        return {key: _replaced(value, texts) for key, value in facts.items()}
    if isinstance(facts, list):
        return [_replaced(value, texts) for value in facts]
    return facts
