"""A hand-made channel and base channel: a few records that follow the rule of native and compat
builds; no files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]

# Toolkit -> compute capabilities of the GPUs that it compiles for, oldest first.
_OLD = ("5.0", "6.0", "7.0", "7.2", "7.5", "8.0", "8.6", "8.9", "9.0")
TOOLKITS = {
    "12.0": _OLD,
    "12.9": (*_OLD, "10.0", "10.3", "12.0", "12.1"),
    "13.0": (*_OLD[4:], "10.0", "10.3", "11.0", "12.0", "12.1"),
    "13.4": (*_OLD[4:], "10.0", "10.3", "10.7", "11.0", "12.0", "12.1"),
}
PYTHONS = {"12": ("3.12", "3.13"), "13": ("3.12", "3.13", "3.14", "3.14t")}
_HIGHEST = {"12": "12.10", "13": "13.5"}


def record(name: str, version: str, build: str, subdir: str, **more: Any) -> Record:
    """One record of a repodata.json.

    Its build number is what follows the last underscore of the build.
    """
    number = int(re.search(r"(\d+)$", build)[1]) if re.search(r"_\d+$", build) else 0
    return {
        "name": name,
        "version": version,
        "build": build,
        "build_number": number,
        "subdir": subdir,
        "depends": [],
        "size": 1_000_000,
        **more,
    }


def pair(
    name: str,
    version: str,
    build: str,
    subdir: str,
    on: str,
    depends: tuple[str, ...] = (),
    number: int = 0,
) -> Iterator[Record]:
    """The native and the compat build of a package that depends on a range of cuda-version."""
    for fit, own in (("native", number + 100), ("compat", number)):
        tracked = {"track_features": "cuda_compat"} if fit == "compat" else {}
        needs = [*depends, f"cuda-version {on} {fit}_*"]
        yield record(name, version, f"{build}{fit}_{own}", subdir, depends=needs, **tracked)


def toolkit(version: str) -> Iterator[Record]:
    """Both builds of cuda-version."""
    gpus = TOOLKITS[version]
    yield record(
        "cuda-version",
        version,
        "native_100",
        "noarch",
        depends=[f"__cuda >={version}"],
        constrains=[f"__cuda_arch {'|'.join(f'=={gpu}' for gpu in gpus)}"],
    )
    yield record(
        "cuda-version",
        version,
        "compat_0",
        "noarch",
        constrains=[f"__cuda >={version.split('.')[0]}", f"__cuda_arch >={gpus[0]}"],
        track_features="cuda_compat",
    )


def python_needs(kind: str) -> tuple[str, ...]:
    """What a package for one Python depends on."""
    minor = kind.removesuffix("t")
    return (f"python {minor}.*", f"python_abi {minor}.* *_cp{kind.replace('.', '')}")


def channel() -> Iterator[Record]:
    """The channel: cuda-nvrtc for each toolkit, cuda-nvcc for CUDA 13, Python packages for each
    major.
    """
    for version in TOOLKITS:
        yield from toolkit(version)
        major, minor = version.split(".")
        on = f">={version},<{major}.{int(minor) + 1}"
        for subdir in ("linux-64", "linux-aarch64", "win-64"):
            yield from pair("cuda-nvrtc", f"{version}.99", "h1", subdir, on)
            # As on the index: the whole compiler is published for CUDA 13 only, for Windows from
            # 13.4.
            if major == "13" and (subdir != "win-64" or version == "13.4"):
                yield from pair("cuda-nvcc", f"{version}.20", "h2", subdir, on)
    for major, kinds in PYTHONS.items():
        on = f">={major},<{int(major) + 1}"
        for kind in kinds:
            needs = (*python_needs(kind), f"cuda-nvrtc {on}")
            build = f"cuda{major}_py{kind.replace('.', '')}"
            newer_major_first = 1000 * int(major)
            for subdir in ("linux-64", "linux-aarch64", "win-64"):
                yield from pair(
                    "cuda-bindings",
                    f"{_HIGHEST[major]}.1",
                    build,
                    subdir,
                    on,
                    needs,
                    newer_major_first,
                )
                also = (*needs, f"cuda-bindings {on}")
                yield from pair("cuda-core", "1.2.0", build, subdir, on, also, newer_major_first)
    for arch in ("7.0", "9.0"):
        yield record("cuda-arch", arch, "h3_0", "noarch", constrains=[f"__cuda_arch >={arch}"])
    yield record("only-linux", "1.0", "h4_0", "linux-64")
    yield record("needs-gcc", "1.0", "h5_0", "linux-64", depends=["__unix", "gcc_linux-64 >=13"])
    yield record("needs-numpy", "1.0", "h6_0", "linux-64", depends=["only-linux", "numpy >=2"])
    for name, need in (("needs-typo", "cuda-nvrtcc"), ("needs-zlib", "zlib")):
        yield record(name, "1.0", "h6_0", "linux-64", depends=[need])
    for subdir in ("linux-64", "linux-aarch64"):
        yield record("needs-glibc", "1.0", "h7_0", subdir, depends=["__glibc >=2.98"])
    # As an author may bound them: less than the toolkits of CUDA 13 are for.
    of_cuda_13 = ["cuda-version >=13.0,<14"]
    for name, bound in (
        ("some-gpus", "__cuda_arch >=7.5,<8"),
        ("several-gpus", "__cuda_arch >=8,<10"),
        ("no-gpus", "__cuda_arch >=99"),
        ("new-driver", "__cuda >=13.4"),
    ):
        yield record(name, "1.0", "h12_0", "linux-64", depends=of_cuda_13, constrains=[bound])
    yield record("needs-some-gpus", "1.0", "h13_0", "linux-64", depends=["some-gpus"])
    for version in ("1.0", "2.0", "3.0"):
        yield record("shared", version, "h10_0", "linux-64")
    # Any two of these go together, and the three do not; the last two never do.
    for name, wanted in (
        ("a", "1|2"),
        ("b", "2|3"),
        ("c", "1|3"),
        ("only-1", "1"),
        ("only-2", "2"),
    ):
        on = "|".join(f"{version}.*" for version in wanted.split("|"))
        yield record(f"shares-{name}", "1.0", "h11_0", "linux-64", depends=[f"shared {on}"])


def asking(*known: str) -> Iterator[Record]:
    """cuda-gpu, which admits what `known` says of other packages, and cuda-native, which has its
    native build only.
    """
    yield record("cuda-gpu-builds", "1.0", "h_0", "linux-64", constrains=known)
    native, compat = pair(
        "cuda-gpu", "1.0", "h_", "linux-64", "*", ("__cuda >=12", "cuda-gpu-builds")
    )
    yield from (native, compat)
    yield record(
        "cuda-native", "1.0", "h_0", "linux-64", depends=[f"cuda-gpu ==1.0 {native['build']}"]
    )


def base() -> Iterator[Record]:
    """The base channel: Python 3.11 to 3.14, free-threaded too, for three platforms."""
    for kind in ("3.11", "3.12", "3.13", "3.14", "3.14t"):
        minor, tag = kind.removesuffix("t"), f"cp{kind.replace('.', '')}"
        # As on conda-forge, free-threaded Python is what has to be asked for.
        tracked = {"track_features": "python_free_threaded"} if kind.endswith("t") else {}
        for subdir in ("linux-64", "linux-aarch64", "win-64"):
            needs = [f"python_abi {minor}.* *_{tag}"]
            yield record("python", f"{minor}.1", f"h8_0_{tag}", subdir, depends=needs, **tracked)
        yield record(
            "python_abi",
            minor,
            f"0_{tag}",
            "noarch",
            constrains=[f"python {minor}.* *_{tag}"],
            **tracked,
        )
    yield record("pip", "26.0", "pyh9_0", "noarch")  # which classic conda wants with every Python
    yield record("numpy", "1.26", "h9_0", "linux-64")


def write(folder: Path, records: Iterator[Record]) -> Path:
    """Writes records as a channel and returns its folder."""
    subdirs: dict[str, dict[str, Record]] = {"noarch": {}}
    for one in records:
        file = f"{one['name']}-{one['version']}-{one['build']}.conda"
        subdirs.setdefault(one["subdir"], {})[file] = one
    for subdir, packages in subdirs.items():
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"info": {"subdir": subdir}, "packages": {}, "packages.conda": packages})
        (folder / subdir / "repodata.json").write_text(text)
    return folder
