"""Plans builds from recipes, locks and platforms, and the repodata that a channel will have.

A *build* runs one recipe for one platform and one variant, and makes all its outputs. A build whose
artefacts were not published is left out with the reason. The metadata of each package is known
before it is built.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.version import Version
from pydantic import TypeAdapter

from ctk.core.checkout import Workspace, settings
from ctk.core.document import load_by_hand, read
from ctk.core.errors import LockError, RecipeError, UnknownName, refuse_unknown_names
from ctk.core.files import file_sha256, replace_file
from ctk.core.memo import memo
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.versions import python_name
from ctk.lock.components import (
    CTK_COMPONENTS,
    LIBRARIES,
    PYTHON_PROJECTS,
    Classes,
    Exclusion,
    classify,
    load_exclusions,
    require_measured,
)
from ctk.lock.derived import Derived
from ctk.lock.model import FACT_KEY, LIBRARY_LOCK, Artefact, ReleaseLock, release_locks
from ctk.package.records import REPODATA, records
from ctk.plan.commits import committed_at
from ctk.plan.recipes import Recipe, find_recipes, makers_of, recipe_commit
from ctk.plan.render import render, renderer
from ctk.plan.rendered import Rendered
from ctk.plan.variants import source_variants

if TYPE_CHECKING:  # a plan that succeeds does not need this import
    from ctk.plan.names import OtherName

_LIST_PACKAGES = (
    "leave it out if it is of the base channel, as python is; what the recipes here make is listed"
    " by `ctk build --dry-run --all-components --libraries`"
)
"""The next step for a package that no recipe makes, and that has no name like one."""

Named = TypeVar("Named")


@dataclass(frozen=True)
class Build:
    """A run of a recipe. It reads no package of another build, so builds may run in any order."""

    id: str  # stable, e.g. ``cuda-core-cuda13-py312-linux-64``; the same in logs, tests and CI
    recipe: Recipe
    variant_files: tuple[Path, ...]  # later files take precedence
    lock: str  # name of the release lock, e.g. ``cuda-13.4``
    subdir: str  # the target platform, also of noarch outputs
    python: str  # Python tag (``cp312``), or "" without Python
    outputs: tuple[Rendered, ...]
    artefacts: tuple[Artefact, ...]  # the artefacts that it reads
    arch: str = ""  # GPU architecture in the package's name or version (``9.0``), or ""
    # Seconds since 1970: the upload of the newest artefact; without artefacts, the last commit of
    # sources in the repository, or the release's manifest. It is the time of all files in the
    # packages.
    timestamp: int = 0
    # Variant key -> value, for keys with several values in the release: a project's newest version
    # and older versions.
    versions: Mapping[str, str] = field(default_factory=dict)
    # Component -> licence that its publisher declares.
    licenses: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`place_of` its outputs."""
        return place_of(self.outputs, self.subdir)

    @property
    def derived(self) -> tuple[Derived, ...]:
        """The sources that it reads and that are made of the names in its artefacts."""
        by_source = {(a.component, a.target): a for a in self.artefacts}
        found = {
            (source.made, source.component, source.target)
            for output in self.outputs
            for source in output.sources
            if source.made
        }
        return tuple(Derived(kind, by_source[name, target]) for kind, name, target in sorted(found))

    @property
    def title(self) -> str:
        """Its recipe.

        Of a project, which may be in a plan in several versions, with the version.
        """
        is_project = self.versions or not self.lock.startswith("cuda-")
        return f"{self.recipe.name} {self.outputs[0].version}" if is_project else self.recipe.name


def place_of(outputs: Iterable[Rendered], subdir: str) -> str:
    """The platform of packages for one; ``noarch`` if they are the same from each platform."""
    is_same = all(output.subdir == NOARCH and subdir not in output.name for output in outputs)
    return NOARCH if is_same else subdir


@dataclass(frozen=True)
class LeftOut:
    """A package, recipe or component that is not built, and the reason.

    Attributes:
        name: The package, recipe or component; of a project with its version.
        kind: The reason in words that are the same for all releases and platforms.
        python: Python tag, or "" if the reason is the same for each Python.
        recipe: The recipe that would make it; "" for a component that no recipe packages.
    """

    id: str
    reason: str
    name: str
    kind: str
    python: str = ""
    recipe: str = ""


@dataclass(frozen=True)
class Plan:
    """Builds in the order of releases and recipes, and the entries that are left out."""

    builds: tuple[Build, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    by_id: Mapping[str, Build] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {b.id: b for b in self.builds})

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """The artefacts of all builds without duplicates, largest first."""
        unique = {(a.component, a.version, a.target): a for b in self.builds for a in b.artefacts}
        return tuple(sorted(unique.values(), key=lambda a: (-a.size, a.file)))

    @property
    def derived(self) -> tuple[Derived, ...]:
        """The derived sources of all builds without duplicates."""
        return tuple(dict.fromkeys(source for b in self.builds for source in b.derived))

    def as_json(self) -> dict[str, Any]:
        """The document of `ctk build --dry-run --json`; sizes in bytes."""
        return {
            "builds": [
                {
                    "id": b.id,
                    "recipe": b.recipe.name,
                    "release": b.lock,
                    "platform": b.subdir,
                    "python": b.python or None,
                    "packages": [f"{o.subdir}/{o.file_name}" for o in b.outputs],
                    "artefacts": [
                        {"file": a.file, "sha256": a.sha256, "size": a.size} for a in b.artefacts
                    ],
                }
                for b in self.builds
            ],
            "left_out": [{"id": x.id, "reason": x.reason} for x in self.left_out],
        }


@dataclass(frozen=True)
class Request:
    """The builds that a user asks for. An empty collection means all."""

    releases: Collection[str] = ()
    recipes: Collection[str] = ()
    platforms: Collection[str] = ()
    pythons: Collection[str] = ()


@dataclass(frozen=True)
class Set:
    """Recipes and their locks: the published set, or the base channel."""

    recipes: Mapping[str, Recipe]
    locks: Mapping[str, tuple[ReleaseLock, Path]]  # name -> lock and its variant file
    build_config: tuple[Path, ...]  # the build matrix of all recipes
    exclusions: tuple[Exclusion, ...] = ()  # components that are left out on purpose


def plan(
    what: Set,
    request: Request,
    python_tags: Sequence[str],
    progress: Callable[[], None] = lambda: None,
) -> Plan:
    """Plans the builds that a request asks for; `progress` is called after each lock.

    Raises:
        UnknownName: A release, recipe, platform or Python does not exist; with the nearest names.
        RecipeError: A recipe does not render, or reads an artefact that no lock has.
    """
    locks = choose_locks(what.locks, request.releases)
    recipes = _choose("recipe", what.recipes, request.recipes)
    subdirs = _choose("platform", PLATFORMS, request.platforms)
    by_name = {python_name(tag): tag for tag in python_tags}
    pythons = {"", *_choose("Python", by_name, map(python_name, request.pythons)).values()}
    every = [lock for lock, _ in what.locks.values()]
    keys = {name: lock.own_keys for name, (lock, _) in what.locks.items()}
    # A recipe is not planned in a checkout whose locks lack its components.
    names = chain(LIBRARIES, PYTHON_PROJECTS, [component.name for component in CTK_COMPONENTS])
    known = frozenset(name.replace("-", "_") for name in names).union(*keys.values())
    needed = {recipe.name: recipe.names_needed & known for recipe in recipes.values()}
    chosen = [what.locks[name][0] for name in locks]
    published = {subdir for subdir in subdirs if any(_is_published(lock, subdir) for lock in every)}
    own = {n: (source_variants(recipe),) for n, recipe in recipes.items() if recipe.own_sources}
    builds: dict[str, Build] = {}
    packages: set[str] = set()
    left_out: dict[str, LeftOut] = {}
    for name, (lock, variant_file) in what.locks.items():
        if name in locks:
            left_out.update({entry.id: entry for entry in _without_recipe(lock, what.exclusions)})
        # A lock feeds the recipes whose lock keys it has. A recipe without lock keys is the same
        # for all releases.
        fed = [recipe for recipe in recipes.values() if needed[recipe.name] <= keys[name]]
        for recipe, subdir in product(fed, subdirs):
            files = (*what.build_config, variant_file, *own.get(recipe.name, ()))
            if subdir in published and not needed[recipe.name] and not _is_published(lock, subdir):
                continue
            if name not in locks and not _serves(recipe, lock, files, subdir, chosen):
                continue
            for group in _groups(recipe, lock, every, files, subdir):
                if isinstance(group, LeftOut):
                    if group.python in pythons:
                        left_out.setdefault(group.id, group)
                    continue
                made = {f"{o.subdir}/{o.file_name}" for o in group.outputs}
                # A noarch package is the same from every platform, and may be the same from every
                # release.
                if group.python in pythons and not made <= packages:
                    builds[group.id] = group
                    packages |= made
        progress()
    return Plan(tuple(builds.values()), tuple(left_out.values()))


def with_needs(what: Set, request: Request, python_tags: Sequence[str]) -> Request:
    """The request with the recipes of every package that its packages need, in the set's order.

    The request may name packages in place of recipes; a package that several recipes make is of all
    of them. A package needs its requirements, and if it has files, also its constraints: they are
    the libraries that it uses if they are installed, as cupy uses cuTENSOR. Those of cuda-gpu,
    which has no files, only choose among builds.

    Raises:
        UnknownName: No package and no recipe has a name; with the nearest names.
    """
    recipes: set[str] = set()
    new = recipes_of(what, request.recipes)
    while new:
        recipes |= new
        names: set[str] = set()
        for build in plan(what, replace(request, recipes=new), python_tags).builds:
            for output in build.outputs:
                specs = [*output.depends]
                if build.artefacts:
                    specs += output.constrains
                names |= {spec.split()[0] for spec in specs}
        new = {recipe for name in names for recipe in makers_of(name, what.recipes)} - recipes
    return replace(request, recipes=tuple(name for name in what.recipes if name in recipes))


def recipes_of(what: Set, names: Iterable[str]) -> set[str]:
    """The recipes that make packages; a name may also be a recipe's.

    Raises:
        UnknownName: No package and no recipe has a name; with the nearest names.
    """
    recipes: set[str] = set()
    for name in names:
        found = {*makers_of(name, what.recipes), *({name} & what.recipes.keys())}
        if not found:
            from ctk.plan.names import names_of  # late: only an error needs it

            locks = [lock for lock, _ in what.locks.values()]
            other = names_of(locks, what.recipes).meant_by(name)
            if other:
                raise UnknownName(other.sentence, _to_build(other))
            outputs = (output for recipe in what.recipes.values() for output in recipe.output_names)
            known = [*what.recipes]
            known += [output for output in outputs if "{" not in output]
            raise UnknownName.of("package", name, known, _LIST_PACKAGES)
        recipes |= found
    return recipes


def _to_build(other: OtherName) -> str:
    """The next step for a name that no recipe makes.

    It names the commands that build what takes its place.
    """
    words = [[word for word in request.split() if "=" not in word] for request in other.requests]
    commands = dict.fromkeys(f"`{shlex.join(['ctk', 'build', *names])}`" for names in words)
    if commands:
        return f"run {' or '.join(commands)}"
    return other.step or "leave it out: no recipe here makes it"


def release_for(
    locks: Iterable[ReleaseLock], subdir: str, driver: str | None, gpu: str | None
) -> str | None:
    """The CTK minor that a machine gets from a channel with all releases.

    None where no toolkit runs on it. This is the rule of docs/how-the-right-build-is-picked.md: the
    newest native toolkit, else the newest compat one. It is about the toolkit alone: a library may
    have no code for the GPU. `ctk.verify.oracle` states the rule by itself, and
    tests/channel/plan/test_machines.py compares both.

    Args:
        locks: All releases.
        subdir: The platform.
        driver: The newest CUDA version that the driver supports; None without a driver.
        gpu: Its compute capability; None for every GPU that the native toolkit knows.
    """
    native, compat = [], []
    for lock in locks:
        if not _is_published(lock, subdir):
            continue
        toolkit, known = (
            Version(lock.minor),
            [Version(g) for g in lock.require_facts().gpu_architectures],
        )
        if (
            driver is not None
            and toolkit <= Version(driver)
            and (gpu is None or Version(gpu) in known)
        ):
            native.append(toolkit)
        if (driver is None or toolkit.major <= Version(driver).major) and (
            gpu is None or known[0] <= Version(gpu)
        ):
            compat.append(toolkit)
    best = max(native or compat, default=None)
    return None if best is None else str(best)


def _without_recipe(lock: ReleaseLock, exclusions: Iterable[Exclusion]) -> Iterator[LeftOut]:
    """The components that no recipe can package: excluded on purpose."""
    for entry in exclusions:
        if entry.applies_to(lock):
            yield LeftOut(
                f"{entry.component}-cuda{lock.minor}", entry.reason, entry.component, entry.reason
            )


def choose_locks(locks: Mapping[str, object], releases: Collection[str]) -> list[str]:
    """Names of locks.

    A minor such as ``13.4`` includes the other locks of its major; ``cuda-13.4`` does not.
    """
    if not releases:
        return list(locks)
    chosen = []
    for release in releases:
        name = release if release in locks else f"cuda-{release}"
        if name not in locks:
            raise UnknownName.of("release", release, [n.removeprefix("cuda-") for n in locks])
        chosen.append(name)
        if name != release:
            chosen += [f"{kind}{release.split('.')[0]}" for kind in ("python-", LIBRARY_LOCK)]
    return [name for name in locks if name in chosen]


def _choose(kind: str, valid: Mapping[str, Named], names: Iterable[str]) -> dict[str, Named]:
    wanted = list(names)
    refuse_unknown_names(kind, wanted, valid)
    return {name: value for name, value in valid.items() if not wanted or name in wanted}


def _is_published(lock: ReleaseLock, subdir: str) -> bool:
    """Whether a lock is a CTK release with artefacts for a platform."""
    return lock.is_ctk and subdir in lock.targets


def _serves(
    recipe: Recipe,
    lock: ReleaseLock,
    files: tuple[Path, ...],
    subdir: str,
    chosen: Iterable[ReleaseLock],
) -> bool:
    """Whether packages of a newer release also serve a chosen one that has no usable ones.

    Their requirement of cuda-version then begins at the older minor: libnvjitlink 12.3 requires
    ``>=12.0``.
    """
    if not lock.is_ctk or "oldest" not in recipe.names_used:
        return False
    there = (other for other in chosen if _is_published(other, subdir))
    minors = [minor for other in there if (minor := Version(other.minor)) < Version(lock.minor)]
    if not minors:
        return False
    depends = {spec for output in _render(recipe, lock, files, subdir) for spec in output.depends}
    begins = {
        Version(match[1])
        for spec in depends
        if (match := re.match(r"cuda-version >=(\d+\.\d+),", spec))
    }
    return any(begin <= minor for begin in begins for minor in minors)


def _render(
    recipe: Recipe, lock: ReleaseLock, files: tuple[Path, ...], subdir: str
) -> list[Rendered]:
    """`render`; if the recipe reads facts of a release that is not measured, the error tells it."""
    try:
        return render(recipe, files, subdir)
    except RecipeError:
        if any(map(FACT_KEY.fullmatch, recipe.names_used)):
            require_measured(lock)
        raise


def _groups(
    recipe: Recipe,
    lock: ReleaseLock,
    locks: Sequence[ReleaseLock],
    files: tuple[Path, ...],
    subdir: str,
) -> Iterator[Build | LeftOut]:
    """Yields the builds of a recipe for one of all `locks` and a platform, or why none is made."""
    rendered = _render(recipe, lock, files, subdir)
    yield from _skipped(recipe, lock, rendered, subdir)
    for (python, arch, versions), outputs in _by_variant(rendered, lock.older).items():
        missing, artefacts = _artefacts(recipe, lock, outputs)
        label = arch or _lock_label(lock, outputs)
        # The package of a GPU architecture is the same in every release that knows the GPU.
        old = sorted(version for _, version in versions & lock.older)
        place = place_of(outputs, subdir)
        parts = [recipe.name, *old, label, python.replace("cp", "py", 1), place]
        newest = max((a.uploaded for a in artefacts), default=0)
        build = Build(
            id="-".join(part for part in parts if part),
            recipe=recipe,
            variant_files=files,
            lock=lock.name,
            subdir=subdir,
            python=python,
            outputs=tuple(outputs),
            artefacts=artefacts,
            arch=arch,
            timestamp=newest or _committed(recipe) or _appeared(arch, label, lock, locks),
            versions=dict(sorted(versions)),
            licenses={
                a.component: component.license
                for a in artefacts
                if (component := lock.component_of(a.component, a.version))
            },
        )
        if missing:
            kind = f"there is no wheel for {subdir}"
            yield LeftOut(build.id, missing, build.title, kind, python, recipe.name)
        else:
            yield build


_Versions = frozenset[tuple[str, str]]
"""Variant keys of components that a lock has in several versions, with the version of each."""


def _by_variant(
    rendered: Iterable[Rendered], older: Collection[tuple[str, str]]
) -> dict[tuple[str, str, _Versions], list[Rendered]]:
    """The outputs that are built together, by their Python, GPU architecture and old versions."""
    several = {key for key, _ in older}
    groups: dict[tuple[str, str, _Versions], list[Rendered]] = defaultdict(list)
    # An output that does not use `cuda_fit` is rendered once for each of its values.
    for output in {o.file_name: o for o in rendered}.values():
        variant = output.variant
        versions = frozenset((key, str(variant[key])) for key in several & variant.keys())
        python, arch = variant.get("python_tag", ""), variant.get("cuda_arch", "")
        groups[python, arch, versions].append(output)
    return groups


def _committed(recipe: Recipe) -> int:
    """The time of packages that are made of this repository: of its last commit, or 0.

    Their version and build number may stay while their sources change: of two such packages,
    solvers take the one of the later time.
    """
    if not recipe.own_sources:
        return 0
    return committed_at(recipe.folder, recipe_commit(recipe))


def _appeared(arch: str, label: str, lock: ReleaseLock, locks: Iterable[ReleaseLock]) -> int:
    """The time of packages without artefacts.

    That of their release, or of the first release that knows their GPU.

    Packages that are the same in every release of a CUDA major, or in every release, have the time
    of the first of these. The artefacts of other packages do not change them, so they must not
    change their time either.
    """
    if lock.is_ctk and label and not arch:
        return lock.since
    releases = [other for other in locks if other.is_ctk]
    if arch:
        releases = [
            other for other in releases if other.facts and arch in other.facts.gpu_architectures
        ]
    elif label:
        releases = [other for other in releases if other.major == lock.major]
    return min((other.since for other in releases), default=lock.since)


def _lock_label(lock: ReleaseLock, outputs: Sequence[Rendered]) -> str:
    """``cuda13.4`` or ``cuda13``; "" for packages that are the same in every release."""
    if lock.is_ctk:
        return f"cuda{lock.minor}" if any(lock.own_keys & o.variant.keys() for o in outputs) else ""
    return f"cuda{lock.major}" if any("cuda_major" in o.variant for o in outputs) else ""


def _skipped(
    recipe: Recipe, lock: ReleaseLock, rendered: Sequence[Rendered], subdir: str
) -> Iterator[LeftOut]:
    names = {o.name for o in rendered}
    for written, condition in recipe.skip_conditions.items():
        name = written.replace("${{ target_platform }}", subdir)
        if name not in names:
            label = _lock_label(lock, rendered) or lock.name
            reason = f"its recipe skips it if {condition}"
            yield LeftOut(f"{name}-{label}-{subdir}", reason, name, reason, recipe=recipe.name)


def _artefacts(
    recipe: Recipe, lock: ReleaseLock, outputs: Sequence[Rendered]
) -> tuple[str, tuple[Artefact, ...]]:
    """The artefacts of a build, or a sentence that names an artefact that was not published."""
    found: dict[tuple[str, str], Artefact] = {}
    for source in dict.fromkeys(s for o in outputs for s in o.sources):
        component = lock.component_of(source.component, source.version)
        if component is None:
            raise RecipeError(
                f"recipe {recipe.name} reads {source.component} {source.version}, which {lock.name}"
                " does not lock",
                "check the source path against the release lock",
            )
        artefact = component.artefacts.get(source.target)
        if artefact is None:
            return (
                (
                    f"{component.distribution} {component.version} is not published for"
                    f" {source.target}"
                ),
                (),
            )
        found[source.component, source.target] = artefact
    return "", tuple(found.values())


def published_set(workspace: Workspace) -> Set:
    """The recipes of ``recipes/`` and the release locks of ``variants/``."""
    locks = {
        name: (lock, workspace.variants / f"{name}.yaml")
        for name, lock in release_locks(workspace).items()
    }
    excluded = load_exclusions(workspace).excluded
    return Set(find_recipes(workspace.recipes), locks, (workspace.build_config,), excluded)


def lacking(workspace: Workspace, channel: Path) -> list[str]:
    """The CTK minors that conda-forge compiles with and a channel's folder lacks, oldest first.

    Before conda-forge, such a channel hides packages that these minors need. A channel without a
    toolkit hides none.
    """
    has = {
        record["version"]
        for record in records(channel, NOARCH).values()
        if record.get("name") == "cuda-version"
    }
    return (
        sorted(set(settings(workspace.root).conda_forge.minors) - has, key=Version) if has else []
    )


def classified(workspace: Workspace, what: Set | None = None) -> dict[str, Classes]:
    """Name of a CTK release's lock -> its packaged, excluded and unclassified components.

    A component is packaged if a planned build of the release reads it, on any platform.
    """
    what, tags = what or published_set(workspace), python_tags(workspace.build_config)
    note = memo(workspace.notes / "components", [*_digests(what)], _READ)
    read = note.get(lambda: _read_components(what, tags))
    return {
        name: classify(lock, frozenset(read[name]), what.exclusions)
        for name, (lock, _) in what.locks.items()
        if lock.is_ctk
    }


_READ = TypeAdapter(dict[str, list[str]])


def _digests(what: Set) -> Iterator[str]:
    """What decides the builds of a set: the content of its files, its exclusions and this code."""
    variant_files = [file for _, file in what.locks.values()]
    locks = [file.with_suffix(".lock") for file in variant_files]
    recipes = [recipe.file for recipe in what.recipes.values()]
    yield renderer().hex()
    yield from map(repr, what.exclusions)
    for file in (Path(__file__), *what.build_config, *locks, *variant_files, *recipes):
        yield f"{file.parent.name}/{file.name} {file_sha256(file)}"


def _read_components(what: Set, tags: Sequence[str]) -> dict[str, list[str]]:
    """Name of a CTK release's lock -> the components that its planned builds read."""
    found = {}
    for name, (lock, _) in what.locks.items():
        if not lock.is_ctk:
            continue
        left_out = {e.component for e in what.exclusions if e.applies_to(lock)}
        read: set[str] = set()
        for subdir in PLATFORMS:  # usually the first platform has all
            if set(lock.components) <= read | left_out:
                break
            planned = plan(what, Request(releases=(lock.minor,), platforms=(subdir,)), tags)
            own = (build for build in planned.builds if build.lock == name)
            read |= {artefact.component for build in own for artefact in build.artefacts}
        found[name] = sorted(read)
    return found


@cache
def python_tags(build_config: Path) -> tuple[str, ...]:
    """The Pythons of the matrix, oldest first, as wheel tags.

    Raises:
        LockError: The file is missing, or has no list of Pythons.
    """
    tags = load_by_hand(read(build_config)).get("python_tag")
    if not tags:
        raise LockError(
            f"{build_config.name} has no python_tag", "list the tags of its Pythons, such as cp313"
        )
    return tuple(tags)


def small(
    request: Request,
    workspace: Workspace,
    *,
    all_releases: bool = False,
    all_components: bool = False,
    libraries: bool = False,
) -> Request:
    """The request with the default releases and recipes of the checkout, if it names none.

    ``[tool.ctk.default]`` of ``pyproject.toml`` lists them, and ``[tool.ctk.libraries]`` the
    libraries beside the toolkit. A checkout without these tables builds everything.
    """
    stated = settings(workspace.root)
    default, beside = stated.default, stated.libraries
    if default.releases is not None and not request.releases and not all_releases:
        locks = release_locks(workspace).values()
        compiled = {"conda-forge": stated.conda_forge.minors, "rapids": stated.rapids.minors}
        request = replace(request, releases=_releases(default.releases, locks, compiled))
    if default.recipes is not None and not request.recipes:
        if all_components and libraries:
            recipes: list[str] = []  # of every recipe
        elif all_components:
            recipes = [n for n in find_recipes(workspace.recipes) if n not in beside.recipes]
        elif libraries:
            recipes = list(chain(default.recipes, beside.recipes, beside.toolkit))
        else:
            recipes = [*default.recipes]
        request = replace(request, recipes=tuple(recipes))
    return request


def _releases(
    words: Sequence[str], locks: Iterable[ReleaseLock], compiled: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """CTK minors, oldest first. ``oldest`` and ``newest`` stand for those of each CUDA major.

    ``conda-forge`` and ``rapids`` stand for the minors that their packages are `compiled` with: in
    a channel without them, CUDA builds of conda-forge cannot be installed, and a file of RAPIDS'
    users that pins such a minor cannot be solved.
    """
    majors: dict[str, list[str]] = {}
    for minor in sorted((lock.minor for lock in locks if lock.is_ctk), key=Version):
        majors.setdefault(minor.partition(".")[0], []).append(minor)
    named = {"oldest": [m[0] for m in majors.values()], "newest": [m[-1] for m in majors.values()]}
    named.update({word: [*chosen] for word, chosen in compiled.items()})
    return tuple(
        sorted({minor for word in words for minor in named.get(word, [word])}, key=Version)
    )


# Planned repodata: the repodata that a channel will have after a plan is built. All that a solver
# reads follows from recipes, locks and platforms, so any machine can solve for all four platforms
# in seconds, without a build or a download. tests/channel/plan/test_planned_repodata.py compares it
# with the repodata of the built channel.

FROM_BUILD = frozenset({"size", "md5", "sha256", "timestamp"})
"""Fields of a record that only a built package has."""


def planned_repodata(plan: Plan) -> dict[str, dict[str, Any]]:
    """Subdir -> its future ``repodata.json``, for the subdirs of a plan's packages and ``noarch``.

    Records have the fields that the indexer writes, except `FROM_BUILD`.

    Raises:
        RecipeError: The requirements of a package are not known before its build, or two packages
            with the same file name differ.
    """
    packages: dict[str, dict[str, dict[str, Any]]] = {NOARCH: {}}
    makers: dict[tuple[str, str], str] = {}
    for build in plan.builds:
        for output in build.outputs:
            if output.environment:
                raise RecipeError(
                    f"{output.name} is built in an environment ({', '.join(output.environment)}),"
                    " which may add requirements",
                    "let the recipe repackage without build and host requirements",
                )
            record = record_of(output)
            earlier = packages.setdefault(output.subdir, {}).setdefault(output.file_name, record)
            maker = makers.setdefault((output.subdir, output.file_name), build.id)
            if earlier != record:
                differing = sorted(
                    k for k in earlier.keys() | record.keys() if earlier.get(k) != record.get(k)
                )
                raise RecipeError(
                    f"{maker} and {build.id} both make {output.file_name}, with different"
                    f" {', '.join(differing)}",
                    "let the build string tell them apart",
                )
    return {
        subdir: repodata_of(subdir, dict(sorted(records.items())))
        for subdir, records in sorted(packages.items())
    }


def repodata_of(subdir: str, records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A ``repodata.json`` with the records, by file name."""
    return {
        "info": {"subdir": subdir},
        "packages": {},
        "packages.conda": records,
        "repodata_version": 1,
        "v3": {},
    }


def record_of(output: Rendered) -> dict[str, Any]:
    """The record of a package.

    As the indexer does, it leaves out empty fields, except `depends`.
    """
    from rattler import Subdir  # a plan does not need this import

    platform = Subdir(output.subdir)
    record = {
        "arch": str(platform.arch) if platform.arch else None,
        "build": output.build_string,
        "build_number": output.build_number,
        "constrains": list(output.constrains),
        "depends": list(output.depends),
        "license": output.license,
        "name": output.name,
        "noarch": output.noarch,
        "platform": platform.only_platform,
        "run_exports": {kind: list(specs) for kind, specs in output.run_exports.items() if specs},
        "subdir": output.subdir,
        "track_features": " ".join(output.track_features),
        "version": output.version,
    }
    return {
        key: value for key, value in record.items() if value or key in ("build_number", "depends")
    }


def write_repodata(repodata: Mapping[str, Mapping[str, Any]], folder: Path) -> Path:
    """Writes the repodata of subdirs as a channel without packages, which solvers can read.

    Removes other subdirs'.
    """
    for subdir, content in repodata.items():
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        replace_file(folder / subdir / REPODATA, json.dumps(content).encode())
    for stale in folder.glob(f"*/{REPODATA}"):
        if stale.parent.name not in repodata:
            stale.unlink()
    return folder
