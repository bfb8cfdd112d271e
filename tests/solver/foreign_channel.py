"""conda-forge's GPU packages as metadata: which builds there are, and what decides between them. No files.

What each feedstock says is in conda_forge.yaml, with where and when it was read; here it becomes records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from ruamel.yaml import YAML
from small_channel import Record, python_needs, record

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

Subdir = Literal["linux-64", "linux-aarch64", "win-64"]
Versions = Mapping[str, Mapping[str, str]]
"""Minor -> component -> version."""


@dataclass(frozen=True)
class Source:
    """Where facts were read."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    repository: str
    path: str
    commit: str


@dataclass(frozen=True)
class Pins:
    """Toolkits that conda-forge knows, or compiles with."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    source: str
    read: date
    minors: tuple[str, ...]


@dataclass(frozen=True)
class Tied:
    """A package of the toolkit; `like` is another one's name, from whose feedstock its facts are."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    component: str
    source: Source | None = None
    read: date | None = None
    like: str = ""
    oldest: Literal["minor", "major"] = "minor"
    links: tuple[str, ...] = ()
    only: tuple[Subdir, ...] = SUBDIRS  # type: ignore[assignment]


@dataclass(frozen=True)
class Output:
    """A package; conda_forge.yaml says what its texts may name.

    Attributes:
        of: Which builds there are of it.
        tie: How its CUDA builds are tied to cuda-version, see `TIES`.
        needs, cuda, cuda_on_linux: What all builds need, the CUDA builds, and these on Linux.
        links, links_on_linux: Libraries of the toolkit that CUDA builds have the run-exports of.
        tracks: A feature that CPU builds track.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    build: str
    build_of_cpu: str = ""
    version: str = ""
    of: Literal["both", "cuda", "cpu"] = "both"
    noarch: bool = False
    tie: Literal["", "since", "spans", "exact"] = ""
    needs: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    cuda_on_linux: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    links_on_linux: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    tracks: str = ""


@dataclass(frozen=True)
class Feedstock:
    """What one recipe makes; conda_forge.yaml says what the keys mean."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    source: Source
    read: date
    version: str
    number: dict[Literal["cpu", "cuda"], int]
    outputs: dict[str, Output]
    cuda: dict[Subdir, tuple[str, ...]] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    seen: str = ""
    cpu: tuple[Subdir, ...] = ()
    words: dict[str, dict[str, str]] = field(default_factory=dict)

    def kinds(self, subdir: str, output: Output) -> list[str]:
        """Toolkits, and `CPU`."""
        cuda = self.cuda.get(subdir, ()) if output.of != "cpu" else ()  # type: ignore[call-overload]
        return [*cuda, *([CPU] if subdir in self.cpu and output.of != "cuda" else [])]


@dataclass(frozen=True)
class CondaForge:
    """The whole file."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    known: Pins
    toolkit: tuple[Tied, ...]
    feedstocks: tuple[Feedstock, ...]


FORGE = TypeAdapter(CondaForge).validate_python(YAML(typ="safe").load(DATA))
MINORS = FORGE.known.minors
COMPONENTS = {tied.name: tied.component for tied in FORGE.toolkit}


def records(variants: Path) -> Iterator[Record]:
    """The channel, for three platforms, with the versions that the release locks name."""
    versions = {minor: _versions(variants / f"cuda-{minor}.yaml") for minor in MINORS}
    for minor in MINORS:
        also = [f"__cuda >={minor.split('.')[0]}", f"cudatoolkit {minor}|{minor}.*"]
        yield _later(record("cuda-version", minor, "h0_3", "noarch", constrains=also), minor)
        yield from (_later(_tied(tied, minor, versions, on), minor) for tied in FORGE.toolkit for on in tied.only)
    for feedstock in FORGE.feedstocks:
        for name, output in feedstock.outputs.items():
            subdirs = ("linux-64",) if output.noarch else SUBDIRS
            for subdir in subdirs:
                for kind in feedstock.kinds(subdir, output):
                    yield from _builds(feedstock, name, output, kind, subdir, versions)


def _versions(path: Path) -> dict[str, str]:
    return {key: values[0] for key, values in YAML(typ="safe").load(path).items()}


def _later(made: Record, kind: str) -> Record:
    """What is all the same to a solver is decided by time: here CUDA builds, which take longer, come after CPU builds,
    and those of the newer major last."""
    return made | {"timestamp": 1_790_000_000_000 + (0 if kind == CPU else int(kind.split(".")[0]))}


def _tied(tied: Tied, minor: str, versions: Versions, subdir: str) -> Record:
    major, number = minor.split(".")
    oldest = minor if tied.oldest == "minor" else major
    needs = [f"cuda-version >={oldest},<{major}.{int(number) + 1}.0a0"]
    needs += [_linked(library, minor, versions) for library in tied.links]
    version = versions[minor].get(tied.component, minor)
    return record(tied.name, version, f"h{minor.replace('.', '')}_0", subdir, depends=needs)


def _linked(library: str, minor: str, versions: Versions) -> str:
    """The run-export of a library's -dev package: since the version that was compiled with, below the next major."""
    version = versions[minor].get(COMPONENTS[library], minor)
    return f"{library} >={version},<{int(version.split('.')[0]) + 1}.0a0"


def _builds(
    feedstock: Feedstock, name: str, output: Output, kind: str, subdir: str, versions: Versions
) -> Iterator[Record]:
    """One record; one a Python, where the build string names it."""
    cuda, version = kind != CPU, output.version or feedstock.version
    major = kind.split(".")[0]
    words = {"word": CPU, "kind": CPU, "version": version} | feedstock.words.get(major, {})
    if cuda:
        words |= {"word": "cuda", "kind": f"cuda{kind.replace('.', '')}", "minor": kind, "major": major}
        words |= {"next": str(int(major) + 1)}
    number = feedstock.number["cuda" if cuda else "cpu"]
    needs: Sequence[str] = output.needs
    if cuda:
        linux = subdir in LINUX
        needs = [*needs, *TIES[output.tie], *output.cuda, *(output.cuda_on_linux if linux else ())]
        links = (*output.links, *(output.links_on_linux if linux else ()))
        needs += [_linked(library, kind, versions) for library in links]
    build = output.build if cuda else output.build_of_cpu or output.build
    for python in PYTHONS if "{py}" in build else ("",):
        words |= {"py": python.replace(".", ""), "number": str(number)}
        more = {"track_features": output.tracks} if output.tracks and not cuda else {}
        made = record(
            name,
            version,
            build.format(**words),
            "noarch" if output.noarch else subdir,
            depends=[*(python_needs(python) if python else ()), *(need.format(**words) for need in needs)],
            constrains=[text.format(**words) for text in output.constrains],
            **more,
        )
        yield _later(made | {"build_number": number}, kind)
