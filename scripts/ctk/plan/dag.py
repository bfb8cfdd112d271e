"""Builds, and the order in which they can be made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ctk.core.platforms import NOARCH
from ctk.lock.lock import Artefact
from ctk.plan.recipes import Recipe
from ctk.plan.rendered import Rendered


@dataclass(frozen=True)
class Build:
    """One run of one recipe.

    Attributes:
        id: Stable name, e.g. ``cuda-core-cuda13-py312-linux-64``; the same in logs, tests and CI.
        recipe: The feedstock.
        variant_files: What rattler-build is given, later files taking precedence.
        lock: Name of the release lock, e.g. ``cuda-13.4``.
        subdir: The target platform (noarch outputs are built for it too).
        python: Tag of the Python (``cp312``), or "" when the recipe has none.
        outputs: The packages it makes.
        artefacts: What must have been fetched.
        needs: Ids of the builds whose packages these depend on.
        arch: GPU architecture that the packages are named for (``9.0``), or "" for all others.
        timestamp: Seconds since 1970: when the newest of its artefacts was published, or, for metadata alone, the
            manifest of its release. Every time in its packages is this one.
        versions: Variant key -> value, of the keys that have several in the release: a project's newest version, or an
            older one.
        licenses: Component -> licence, as the publisher of its artefact declares it.
    """

    id: str
    recipe: Recipe
    variant_files: tuple[Path, ...]
    lock: str
    subdir: str
    python: str
    outputs: tuple[Rendered, ...]
    artefacts: tuple[Artefact, ...]
    needs: tuple[str, ...] = ()
    arch: str = ""
    timestamp: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    licenses: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The platform its packages are for; ``noarch`` for those that are the same, made on any of them."""
        return NOARCH if all(o.subdir == NOARCH and self.subdir not in o.name for o in self.outputs) else self.subdir

    @property
    def narrow(self) -> Mapping[str, str]:
        """The variant keys that single out this build among those of its recipe and lock."""
        named = (("python_tag", self.python), ("cuda_arch", self.arch), *self.versions.items())
        return {key: value for key, value in named if value}


def in_order(builds: Mapping[str, Build]) -> Iterator[Build]:
    """The builds with `needs` filled in, dependencies first, otherwise in the given order.

    Packages of two recipes may depend on each other: installing them together is what they are for. Builds in such a
    circle do not wait for one another.
    """
    makers: dict[str, list[Build]] = defaultdict(list)
    for build in builds.values():
        for output in build.outputs:
            makers[output.name].append(build)
    needs = {b.id: _needs(b, makers) for b in builds.values()}
    for circle in _circles(needs):
        for build_id in circle:
            yield replace(builds[build_id], needs=tuple(n for n in needs[build_id] if n not in circle))


def _circles(needs: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Groups of builds that need each other, mostly of one build, each after what it needs (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        order[node] = lowest[node] = len(order)
        open_.append(node)
        for other in needs[node]:
            if other not in order:
                yield from visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in open_:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            start = open_.index(node)
            yield open_[start:]
            del open_[start:]

    for node in needs:
        if node not in order:
            yield from visit(node)


def _needs(build: Build, makers: Mapping[str, list[Build]]) -> tuple[str, ...]:
    """The builds that provide what these packages depend on, as far as platform, release and Python can match."""
    needs: dict[str, None] = {}
    for output in build.outputs:
        for spec in output.depends:
            for other in makers.get(spec.split()[0], ()):
                same_place = build.subdir == other.subdir or all(o.subdir == NOARCH for o in other.outputs)
                same_release = build.lock == other.lock or _fits(build.lock, other.lock)
                same_python = not (build.python and other.python) or build.python == other.python
                if other.id != build.id and same_place and same_release and same_python:
                    needs[other.id] = None
    return tuple(needs)


def _fits(lock: str, other: str) -> bool:
    """Whether packages of two different release locks go together: Python projects with each release of their major."""
    (kind, _, version), (other_kind, _, other_version) = lock.partition("-"), other.partition("-")
    return kind != other_kind and version.split(".")[0] == other_version.split(".")[0]
