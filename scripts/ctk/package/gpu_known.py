"""The GPUs and toolkits that are known, by which code and metadata are judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctk.core.versions import version_key
from ctk.package.reader import IndexJson


@dataclass(frozen=True)
class Known:
    """All known GPUs and toolkits, from release locks or from `cuda-version` packages.

    From locks by `ctk.lock.facts.known`.

    Attributes:
        gpus: Every compute capability that some toolkit can compile for, lowest first.
        isa: CTK minor -> the PTX ISA version that it writes and its driver reads.
        targets: CTK minor -> compute capabilities that its NVRTC can compile for.
    """

    gpus: tuple[str, ...]
    isa: Mapping[str, str]
    targets: Mapping[str, tuple[str, ...]]

    @classmethod
    def of_toolkits(cls, packages: Iterable[IndexJson]) -> Known:
        """From `cuda-version` packages: a native build's constraint lists its GPUs."""
        targets: dict[str, tuple[str, ...]] = {}
        for index in packages:
            listed = next(
                (spec for spec in index.constrains if spec.startswith("__cuda_arch ==")), ""
            )
            if index.name == "cuda-version" and listed:
                targets[index.version] = tuple(re.findall(r"==(\d+\.\d+)", listed))
        return cls(
            tuple(sorted({g for gpus in targets.values() for g in gpus}, key=version_key)),
            {},
            targets,
        )

    def driver_for(self, isa: str) -> str:
        """The CUDA version of the oldest driver that compiles PTX of a version.

        "" if no known driver does. For CUDA 11 it is as the table in
        https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes has it.
        """
        major, minor = version_key(isa)
        if major < 8:
            return f"11.{minor}" if major == 7 else "11.0"
        minors = [
            minor for minor, newest in self.isa.items() if version_key(newest) >= version_key(isa)
        ]
        return min(minors, key=version_key, default="")
