"""Making the lock of the Python projects of a CUDA major: the newest set in which all accept each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from ctk import requirements, wheels
from ctk.components import PYTHON_PROJECTS, PYTHON_ROOT
from ctk.errors import NotPublished, UnknownName
from ctk.index import Index, IndexFile
from ctk.lock import ReleaseLock
from ctk.platforms import NOARCH, PLATFORMS

VERSIONED_BY_CUDA = ("cuda-python", "cuda-bindings")
"""Projects whose major is CUDA's."""


@dataclass(frozen=True)
class Goal:
    """What a set of projects is for.

    Attributes:
        major: CUDA major, e.g. ``13``.
        tags: The Pythons that all of them must run on, by wheel tag.
    """

    major: str
    tags: tuple[str, ...]


def majors(index: Index) -> list[str]:
    """The CUDA majors that have a ``cuda-python``, oldest first."""
    return sorted({str(v.major) for v in wheels.final_versions(index.files(PYTHON_ROOT))}, key=int)


def choose(index: Index, goal: Goal) -> dict[str, list[IndexFile]]:
    """The wheels of the chosen version of each project.

    ``cuda-python`` of that major is the newest; each further project is the newest that those before it accept, that
    accepts them, and that runs on every Python of the matrix.

    Raises:
        UnknownName: When no ``cuda-python`` of that major exists.
        NotPublished: When no version of a project fits the others.
    """
    if goal.major not in majors(index):
        raise UnknownName.of("CUDA major", goal.major, majors(index))
    accepted = {PYTHON_ROOT: SpecifierSet(f"=={goal.major}.*")}
    chosen: dict[str, list[IndexFile]] = {}
    for name in PYTHON_PROJECTS:
        versions = {other: Version(files[0].version) for other, files in chosen.items()}
        chosen[name] = _newest(index, name, accepted.get(name, SpecifierSet()), versions, goal)
        for requirement in _requirements(index, chosen[name], goal.major):
            accepted[requirement.name] = accepted.get(requirement.name, SpecifierSet()) & requirement.specifier
    return chosen


def python_release(index: Index, goal: Goal) -> ReleaseLock:
    """The lock of the Python projects for a CUDA major; its errors are those of `choose`."""
    components = {
        name: wheels.component(index, name, files, _targets(files, goal.tags))
        for name, files in sorted(choose(index, goal).items())
    }
    return ReleaseLock(f"python-{goal.major}", None, components)


def _newest(
    index: Index, name: str, accepted: SpecifierSet, chosen: Mapping[str, Version], goal: Goal
) -> list[IndexFile]:
    """Files of the newest version of a project that fits what is chosen already."""
    listed = index.files(name)
    for version in wheels.final_versions(listed, accepted):
        files = wheels.files_of(listed, version)
        if not any(wheels.wheel_for(files, target) for target in _targets(files, goal.tags)):
            continue
        if not all(_runs_on(file, tag) for file in files for tag in goal.tags):
            continue
        needs = _requirements(index, files, goal.major)
        if all(chosen[r.name] in r.specifier for r in needs if r.name in chosen):
            return files
    fixed = ", ".join(f"{other} {version}" for other, version in chosen.items()) or "any"
    raise NotPublished(
        f"the package index has no {name}{accepted} for Python {', '.join(goal.tags)} that goes with {fixed}",
        "look at what the newest versions require; a mirror may have to fetch more of them",
    )


def _requirements(index: Index, files: Sequence[IndexFile], major: str) -> list[Requirement]:
    """What a version requires of the other projects, by itself or for this CUDA major."""
    stated = requirements.read(index.metadata(min(files, key=lambda f: f.file)), files[0].distribution)
    extras = {"", f"cu{major}"}
    while True:
        environments = [p.marker_environment | {"extra": extra} for p in PLATFORMS.values() for extra in extras]
        found = [r for r in stated if requirements.applies(r, environments)]
        # An extra may name another one of its own project: cuda-cccl[cu13] is cuda-cccl[minimal-cu13] and more.
        own = {extra for r in found if r.name == files[0].distribution for extra in r.extras}
        if own <= extras:
            return [r for r in found if r.name in PYTHON_PROJECTS and r.name != files[0].distribution]
        extras |= own


def _targets(files: Sequence[IndexFile], tags: Sequence[str]) -> list[str]:
    if wheels.wheel_for(files, NOARCH):
        return [NOARCH]
    return [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in tags]


def _runs_on(file: IndexFile, tag: str) -> bool:
    """Whether a file's Requires-Python accepts the Python of a tag: ``cp314t`` is 3.14."""
    digits = tag.removeprefix("cp").removesuffix("t")
    try:
        return file.requires_python is None or f"{digits[0]}.{digits[1:]}" in SpecifierSet(file.requires_python)
    except InvalidSpecifier:
        return False
