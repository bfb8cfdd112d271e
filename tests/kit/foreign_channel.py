"""conda-forge's GPU packages as metadata: which builds there are, and what decides between them.

No files. What each feedstock says is in conda_forge.yaml, with where and when it was read; here it
becomes records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kit.small_channel import Record, python_needs, record

DATA = Path(__file__).with_name("conda_forge.yaml")
LINUX = ("linux-64", "linux-aarch64")
SUBDIRS = (*LINUX, "win-64")
PYTHONS = ("3.13", "3.14")  # enough here
CPU = "cpu"
# How a CUDA build is tied to cuda-version.
TIES = {
    "": (),
    "since": ("cuda-version >={minor},<{next}",),
    "spans": ("cuda-version >={major},<{next}.0a0",),
    "exact": ("cuda-version {minor}.*",),
}

Facts = Mapping[str, Any]
"""A part of conda_forge.yaml, which says what its keys mean."""
Versions = Mapping[str, Mapping[str, str]]
"""Minor -> component -> version."""

FORGE: Facts = YAML(typ="safe").load(DATA)
MINORS = FORGE["known"]["minors"]
COMPONENTS = {tied["name"]: tied["component"] for tied in FORGE["toolkit"]}


def records(variants: Path, assume: bool = True) -> Iterator[Record]:
    """The channel, for three platforms, with the versions that the release locks name.

    Without `assume`, its CUDA builds are for the toolkits that the recipes had when they were read.
    """
    versions = every_version(variants)
    yield from toolkits(versions)
    for feedstock in FORGE["feedstocks"]:
        yield from builds(feedstock, versions, assume)


def toolkits(versions: Versions, packages: Iterable[Facts] = ()) -> Iterator[Record]:
    """The toolkits with these versions: cuda-version, and what is tied to it.

    Args:
        packages: What is tied to it; by default what conda_forge.yaml has.
    """
    for minor in versions:
        limits = [f"__cuda >={minor.split('.')[0]}", f"cudatoolkit {minor}|{minor}.*"]
        yield _later(record("cuda-version", minor, "h0_3", "noarch", constrains=limits), minor)
    yield from tied_packages(versions, packages or FORGE["toolkit"])


def tied_packages(versions: Versions, packages: Iterable[Facts]) -> Iterator[Record]:
    """Packages that are tied to the toolkits with these versions."""
    every = list(packages)
    for minor in versions:
        for tied in every:
            for subdir in tied.get("only", SUBDIRS):
                yield _later(_tied(tied, minor, versions, subdir), minor)


def every_version(variants: Path) -> Versions:
    """The versions of the toolkits that conda-forge has."""
    return {minor: component_versions(variants, minor) for minor in MINORS}


def builds(feedstock: Facts, versions: Versions, assume: bool = True) -> Iterator[Record]:
    """The packages of a feedstock, for each platform and toolkit."""
    stated = {} if assume else feedstock.get("assumed", {})
    for name, output in feedstock["outputs"].items():
        for subdir in ("linux-64",) if output.get("noarch") else SUBDIRS:
            for kind in _kinds(feedstock, subdir, output, stated):
                yield from _builds(feedstock, name, output, kind, subdir, versions)


def component_versions(variants: Path, minor: str) -> Mapping[str, str]:
    """Component -> version, as the release lock of a minor names them."""
    found = YAML(typ="safe").load(variants / f"cuda-{minor}.yaml")
    firsts = {key: values[0] for key, values in found.items()}
    return {key: value for key, value in firsts.items() if isinstance(value, str)}


def _kinds(feedstock: Facts, subdir: str, output: Facts, stated: Mapping[str, str]) -> list[str]:
    """Toolkits, of which some stand for `stated` ones, and `CPU`."""
    of = output.get("of", "both")
    cuda = feedstock.get("cuda", {}).get(subdir, ()) if of != "cpu" else ()
    return [
        *(stated.get(minor, minor) for minor in cuda),
        *([CPU] if subdir in feedstock.get("cpu", ()) and of != "cuda" else []),
    ]


def _later(made: Record, kind: str) -> Record:
    """What is all the same to a solver is decided by time: here CUDA builds, which take longer,
    come after CPU builds,
    and those of the newer major last."""
    return made | {"timestamp": 1_790_000_000_000 + (0 if kind == CPU else int(kind.split(".")[0]))}


def _tied(tied: Facts, minor: str, versions: Versions, subdir: str) -> Record:
    """A package of the toolkit, which every platform has under its own name where it has no
    platform.
    """
    major, number = minor.split(".")
    oldest = major if tied.get("oldest") == "major" else minor
    build = f"h{minor.replace('.', '')}_0"
    version = versions[minor].get(tied["component"], minor)
    needs = []
    if tied.get("tied", True):
        needs.append(f"cuda-version >={oldest},<{major}.{int(number) + 1}.0a0")
    needs += [_linked(library, minor, versions) for library in tied.get("links", ())]
    needs += [
        f"{name} =={versions[minor].get(COMPONENTS[name], minor)} {build}"
        for name in tied.get("exact", ())
    ]
    needs += tied.get("needs", ())
    if subdir in LINUX:
        needs += tied.get("needs_on_linux", ())
    words = {"subdir": subdir, "minor": minor, "version": version}
    return record(
        tied["name"].format(**words),
        version,
        build,
        "noarch" if tied.get("noarch") else subdir,
        depends=[need.format(**words) for need in needs],
    )


def _linked(library: str, minor: str, versions: Versions) -> str:
    """The run-export of a library's -dev package: since the version that was compiled with, below
    the next major.
    """
    version = versions[minor].get(COMPONENTS[library], minor)
    return f"{library} >={version},<{int(version.split('.')[0]) + 1}.0a0"


def _builds(
    feedstock: Facts, name: str, output: Facts, kind: str, subdir: str, versions: Versions
) -> Iterator[Record]:
    """One record; one a Python, where the build string names it."""
    cuda, version = kind != CPU, output.get("version", feedstock["version"])
    major = kind.split(".")[0]
    words = {"word": CPU, "kind": CPU, "version": version} | feedstock.get("words", {}).get(
        major, {}
    )
    if cuda:
        words |= {
            "word": "cuda",
            "kind": f"cuda{kind.replace('.', '')}",
            "minor": kind,
            "major": major,
        }
        words |= {"next": str(int(major) + 1)}
    number = feedstock["number"]["cuda" if cuda else "cpu"]
    needs = [*output.get("needs", ())]
    if cuda:
        parts = ("", "_on_linux") if subdir in LINUX else ("",)
        needs += [
            *TIES[output.get("tie", "")],
            *(need for part in parts for need in output.get(f"cuda{part}", ())),
        ]
        needs += [
            _linked(lib, kind, versions) for part in parts for lib in output.get(f"links{part}", ())
        ]
    build = output["build"] if cuda else output.get("build_of_cpu", output["build"])
    for python in PYTHONS if "{py}" in build else ("",):
        words |= {"py": python.replace(".", ""), "number": str(number)}
        more = {"track_features": output["tracks"]} if "tracks" in output and not cuda else {}
        made = record(
            name,
            version,
            build.format(**words),
            "noarch" if output.get("noarch") else subdir,
            depends=[
                *(python_needs(python) if python else ()),
                *(need.format(**words) for need in needs),
            ],
            constrains=[text.format(**words) for text in output.get("constrains", ())],
            **more,
        )
        yield _later(made | {"build_number": number}, kind)
