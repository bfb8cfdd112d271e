"""Versions that a maintainer names, locked beside the others: `ctk release add NAME VERSION`.

They are for files that pin a version exactly. Nothing else in a lock changes, and they stay when
the lock is made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ctk.core.checkout import Workspace
from ctk.core.console import listing
from ctk.core.errors import BadValue, NotPublished, UnknownName
from ctk.index.index import Index, IndexFile
from ctk.lock import wheels
from ctk.lock.components import (
    AS_REQUIRED,
    CTK_COMPONENTS,
    LIBRARIES,
    MANIFEST,
    PYTHON_PROJECTS,
)
from ctk.lock.model import LIBRARY_LOCK, Component, ReleaseLock, release_locks
from ctk.plan.names import projects
from ctk.plan.plan import python_tags
from ctk.plan.recipes import find_recipes, makers_of
from ctk.release import choose

_PYTHON_LOCK = "python-"
_TOOLKIT = "cuda-version"


@dataclass(frozen=True)
class Project:
    """A project that is locked by CUDA major.

    Attributes:
        title: The name that was typed.
        names: Its components, as `LIBRARIES` and `PYTHON_PROJECTS` have them: several if they have
            one distribution, as torch and torch-cpu.
        is_library: Whether it is in the locks of libraries.
        majors: The CUDA majors that the typed name is for; () for all.
    """

    title: str
    names: tuple[str, ...]
    is_library: bool
    majors: tuple[str, ...] = ()

    def locks(self, locks: Iterable[ReleaseLock]) -> list[ReleaseLock]:
        """The locks, of these, that may have it."""
        kind = LIBRARY_LOCK if self.is_library else _PYTHON_LOCK
        return [
            lock
            for lock in locks
            if lock.name.startswith(kind) and (not self.majors or lock.major in self.majors)
        ]

    def keys(self, lock: ReleaseLock) -> list[str]:
        """The names of its components in a lock."""
        if not self.is_library:
            return [*self.names]
        return [choose.key_of(name, lock.major) for name in self.names]


@dataclass(frozen=True)
class Addition:
    """The locks with a version beside the others, and why other locks do not get it.

    Attributes:
        locks: The new locks; those that have the version already are as they were.
        refused: Name of a lock -> the error.
    """

    locks: tuple[ReleaseLock, ...]
    refused: Mapping[str, NotPublished]


# ---- names and versions


def find_project(name: str, workspace: Workspace) -> Project:
    """The project that a name means: its own, that of a package, a recipe or a distribution.

    Raises:
        UnknownName: It is a part of the CUDA Toolkit, or nothing here has the name.
    """
    typed = canonicalize_name(name)
    project = _of_own_name(name, typed) or _of_package(name, typed, workspace)
    if project:
        return project
    if _is_of_toolkit(typed, workspace):
        cause = f"{name} is a part of the CUDA Toolkit, of which each minor has its newest patch"
        raise UnknownName(cause, "lock a minor: ctk release add 13.4 --write")
    in_recipes = projects(find_recipes(workspace.recipes))
    known = set(LIBRARIES).union(PYTHON_PROJECTS, in_recipes)
    step = UnknownName.of("project", name, sorted(known)).step
    cause = f"{name!r} is not a release, and no library or Python project here"
    raise UnknownName(cause, f"{step}; how a new one is added is in docs/maintainers.md")


def parse_version(name: str, text: str) -> Version:
    """The version in a text; BadValue says what a version is."""
    try:
        return Version(text)
    except InvalidVersion as error:
        raise BadValue(
            f"{text!r} is not a version", f"write one, such as ctk release add {name} 1.2.3"
        ) from error


def _of_own_name(title: str, name: str) -> Project | None:
    """The project of a component or a distribution: ``nvcomp``, ``nvidia-libnvcomp-cu13``."""
    if name in PYTHON_PROJECTS:
        return Project(title, (name,), is_library=False)
    for library, form in LIBRARIES.items():
        if name == library:
            return Project(title, _sharing_distribution(library), is_library=True)
        distribution = re.escape(Requirement(form.format(major="MAJOR")).name)
        of_major = re.fullmatch(distribution.replace("MAJOR", r"(\d+)"), name)
        if of_major:
            return Project(title, _sharing_distribution(library), True, of_major.groups())
    return None


def _of_package(title: str, name: str, workspace: Workspace) -> Project | None:
    """The project that a package or a recipe has the files of: ``libnvcomp-dev``, ``pytorch``."""
    recipes = find_recipes(workspace.recipes)
    components = [projects(recipes).get(name, "")]
    if name in recipes:
        components += recipes[name].components
    found = (_of_own_name(title, component) for component in components)
    return next(filter(None, found), None)


def _sharing_distribution(library: str) -> tuple[str, ...]:
    """The libraries with the distribution of one: torch and torch-cpu."""
    return tuple(name for name, form in LIBRARIES.items() if form == LIBRARIES[library])


def _is_of_toolkit(name: str, workspace: Workspace) -> bool:
    """Whether a name is of the toolkit, one of its components or one of their packages."""
    plain = re.sub(r"-cu\d+$", "", name)
    for component in CTK_COMPONENTS:
        if plain in (component.name, component.project):
            return True
    return name in (MANIFEST, _TOOLKIT) or bool(makers_of(name, find_recipes(workspace.recipes)))


# ---- adding


def add(index: Index, project: Project, version: Version, workspace: Workspace) -> Addition:
    """Locks a version of a project, and what it requires, for each CUDA major that has a wheel.

    Raises:
        NotPublished: No lock can have it; with the reason of each.
    """
    if version.is_prerelease:
        raise NotPublished(
            f"{version} is not a final version, and only these are locked", "name a final version"
        )
    every = list(release_locks(workspace).values())
    tags = python_tags(workspace.build_config)
    made, refused = [], {}
    for lock in project.locks(every):
        try:
            found = _wanted(index, project, version, lock, every, tags)
        except NotPublished as error:
            refused[lock.name] = error
        else:
            made.append(_with(index, lock, found))
    if not made:
        raise _refused_everywhere(project, version, refused)
    return Addition(tuple(made), refused)


@dataclass(frozen=True)
class _Wanted:
    """A version to lock; `by` is the project and version that requires it, or ""."""

    key: str
    version: Version
    files: Sequence[IndexFile]
    targets: Sequence[str]
    by: str


def _wanted(
    index: Index,
    project: Project,
    version: Version,
    lock: ReleaseLock,
    locks: Iterable[ReleaseLock],
    tags: tuple[str, ...],
) -> list[_Wanted]:
    """The versions that a lock is to have for a version of a project; else NotPublished."""
    newest = [
        Version(lock.components[k].version) for k in project.keys(lock) if k in lock.components
    ]
    if newest and version > max(newest):
        raise NotPublished(
            f"{project.title} {version} is newer than {max(newest)}, which {lock.name} has",
            f"lock the newest that goes with its toolkits: {_again(lock)}",
        )
    if not project.is_library:
        return _wanted_project(index, project.names[0], version, lock, tags)
    return _wanted_libraries(index, project.names, version, lock, locks, tags)


def _again(lock: ReleaseLock) -> str:
    return f"ctk release add {lock.name} --write"


def _wanted_project(
    index: Index, name: str, version: Version, lock: ReleaseLock, tags: tuple[str, ...]
) -> list[_Wanted]:
    found = choose.project_versions(index, lock.major, tags, name, version, _locked(lock))
    wanted = []
    for key, chosen in found.items():
        ((chosen_version, files),) = chosen.files.items()
        by = "" if key == name else f"{name} {version}"
        targets = chosen.targets[chosen_version]
        wanted.append(_Wanted(key, chosen_version, files, targets, by))
    return wanted


def _wanted_libraries(
    index: Index,
    names: Sequence[str],
    version: Version,
    lock: ReleaseLock,
    locks: Iterable[ReleaseLock],
    tags: Sequence[str],
) -> list[_Wanted]:
    """The versions of libraries: the one that is asked for, and what it requires.

    A library that is chosen before it is locked in one version: packages take it from a version on.
    So is not one that `AS_REQUIRED` names.
    """
    major = lock.major
    choice = choose.library_choice(index, major, locks, tags)
    distributions = choose.wanted_of(major)
    order, locked = [*LIBRARIES], _locked(lock)
    # A lock may have torch for CPUs alone; a project that is new to it has all its names.
    known = [name for name in names if choose.key_of(name, major) in locked]
    waiting = [(name, version, "") for name in known or names]
    wanted: list[_Wanted] = []
    for name, asked, by in waiting:
        found = choice.asked(name, distributions[name], asked)
        key = choose.key_of(name, major)
        wanted.append(_Wanted(key, asked, found.files, found.targets, by))
        later = order[order.index(name) + 1 :]
        for need in found.needs:
            for other in (*later, *AS_REQUIRED.get(major, ())):
                if other in names or other not in order or distributions[other].name != need.name:
                    continue
                if any(v in need.specifier for v in locked.get(choose.key_of(other, major), ())):
                    continue
                newest = _newest(index, need, f"{name} {asked}")
                waiting.append((other, newest, f"{name} {asked}"))
    return wanted


def _newest(index: Index, need: Requirement, by: str) -> Version:
    """The newest version that meets a requirement; else NotPublished."""
    versions = wheels.final_versions(index.files(need.name), need.specifier)
    if not versions:
        raise NotPublished(
            f"{by} requires {need.name}{need.specifier}, and the package index has none",
            "a mirror may have to fetch it",
        )
    return versions[0]


def _locked(lock: ReleaseLock) -> dict[str, list[Version]]:
    """The versions that a lock has of each component, newest first."""
    found: dict[str, list[Version]] = {}
    for component in lock.components.values():
        found.setdefault(component.name, []).append(Version(component.version))
    return {name: sorted(versions, reverse=True) for name, versions in found.items()}


def _with(index: Index, lock: ReleaseLock, wanted: Iterable[_Wanted]) -> ReleaseLock:
    """A lock with more versions; those that it has already stay as they are."""
    components = dict(lock.components)
    added = {name: dict(versions) for name, versions in lock.added.items()}
    for one in wanted:
        text = one.files[0].version
        is_first = one.key not in lock.components
        is_there = lock.component_of(one.key, text) is not None
        if not is_there:
            made = wheels.component(index, one.key, one.files, one.targets)
            components[one.key if is_first else f"{one.key}-{text}"] = made
        if not is_first and not (is_there and one.by):
            added.setdefault(one.key, {})[text] = one.by
    return _sorted(lock, components, added)


def _sorted(
    lock: ReleaseLock,
    components: Mapping[str, Component],
    added: Mapping[str, Mapping[str, str]],
) -> ReleaseLock:
    stated = {name: dict(sorted(versions.items())) for name, versions in sorted(added.items())}
    kept = {name: versions for name, versions in stated.items() if versions}
    return replace(lock, components=dict(sorted(components.items())), added=kept)


def _refused_everywhere(
    project: Project, version: Version, refused: Mapping[str, NotPublished]
) -> NotPublished:
    """The error where no lock can have a version; one reason if all have the same."""
    reasons = {(error.cause, error.step) for error in refused.values()}
    if len(reasons) == 1:
        ((cause, step),) = reasons
        return NotPublished(cause, step)
    if not refused:
        return NotPublished(
            f"there is no lock that may have {project.title}",
            "lock the newest versions first: ctk release add libraries-13 --write",
        )
    lines = [f"{name}: {error.cause}" for name, error in refused.items()]
    cause = f"{project.title} {version} can be locked for no CUDA major:"
    steps = list(dict.fromkeys(error.step for error in refused.values()))
    if len(steps) > 1:
        steps = [f"{name}: {error.step}" for name, error in refused.items()]
    return NotPublished("\n  ".join([cause, *lines]), "; ".join(steps))


# ---- removing, and keeping when a lock is made again


def remove(project: Project, version: Version, workspace: Workspace) -> tuple[ReleaseLock, ...]:
    """The locks without a version that was added by name, and without what only it required.

    Raises:
        UnknownName: No lock has it, or none has it by name.
    """
    locks = project.locks(release_locks(workspace).values())
    made = []
    for lock in locks:
        for key in project.keys(lock):
            if str(version) in lock.added.get(key, {}):
                lock = _without(lock, key, str(version))
                made.append(lock)
    if made:
        return tuple({lock.name: lock for lock in made}.values())
    has = [
        lock.name
        for lock in locks
        for key in project.keys(lock)
        if version in _locked(lock).get(key, ())
    ]
    if has:
        raise UnknownName(
            f"{project.title} {version} is in {has[0]}, and nobody added it by name",
            "`ctk release check -v` says why it is there",
        )
    names = [
        f"{project.title} {text}"
        for lock in locks
        for key in project.keys(lock)
        for text in lock.added.get(key, {})
    ]
    raise UnknownName(
        f"{project.title} {version} is not locked",
        f"added by name are {listing(list(dict.fromkeys(names)))}",
    )


def _without(lock: ReleaseLock, key: str, version: str) -> ReleaseLock:
    """A lock without an added version, and without those that only it required."""
    added = {name: dict(versions) for name, versions in lock.added.items()}
    components = dict(lock.components)
    going = [(key, version)]
    for name, text in going:
        del added[name][text]
        components.pop(f"{name}-{text}", None)  # the newest version stays
        by = f"{re.sub(r'-cu[0-9]+$', '', name)} {text}"
        going += [
            (other, required)
            for other, versions in added.items()
            for required, requirer in versions.items()
            if requirer == by
        ]
    gpus = {name: stated for name, stated in lock.gpu_code.items() if name in components}
    return _sorted(replace(lock, gpu_code=gpus), components, added)


def kept(old: ReleaseLock, new: ReleaseLock) -> ReleaseLock:
    """A lock that was made again, with the versions that were added to the one before."""
    components = dict(new.components)
    for name, versions in old.added.items():
        for version in versions:
            component = old.component_of(name, version)
            if component and new.component_of(name, version) is None:
                key = name if name not in components else f"{name}-{version}"
                components[key] = component
    return _sorted(new, components, old.added)


def reasons(lock: ReleaseLock, name: str) -> dict[str, tuple[str, ...]]:
    """Each added version of a component -> why it is locked, in a sentence."""
    found: dict[str, tuple[str, ...]] = {}
    for version, by in lock.added.get(name, {}).items():
        named = f"`ctk release add {re.sub(r'-cu[0-9]+$', '', name)} {version}` asked for it"
        found[version] = (f"{by} requires it" if by else named,)
    return found
