"""Makes packages again from their SBOM, and compares them byte by byte.

The SBOM names the recipe with its commit, the variant, the artefacts by sha256 and the compression. Nothing else
decides the bytes of a package, so whoever has the repository and a package index can check where it came from.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from ctk.build import build, sbom
from ctk.build.sbom import Provenance, recipe_digest, tools
from ctk.core.checkout import Workspace
from ctk.core.errors import RecipeError
from ctk.core.files import disk_errors, file_sha256
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.process import git_export
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.package.package import ScannedFile, members
from ctk.plan.plan import Build, Plan
from ctk.plan.recipes import Recipe, render

_BATCH = 32  # builds; their packages lie on the disk together


@dataclass(frozen=True)
class Deviation:
    """One way in which a package and its rebuild differ.

    Attributes:
        place: ``info/...`` or ``pkg/...`` for a file of the package, ``archive`` for all of it, ``build`` when none
            was made.
    """

    place: str
    what: str  # in a few words


@dataclass(frozen=True)
class Rebuilt:
    """A package that was made again, and how the two differ."""

    package: Path
    differences: tuple[Deviation, ...]

    @property
    def identical(self) -> bool:
        return not self.differences


def rebuild(
    packages: Iterable[Path],
    workspace: Workspace,
    *,
    jobs: int | None = None,
    progress: Callable[[Rebuilt], None] = lambda outcome: None,
) -> list[Rebuilt]:
    """Makes packages again; those of one build are made together.

    Raises:
        AuditFailed: A file is no package, or one that carries no SBOM.
        IndexUnavailable, NotPublished, HashMismatch, NoSpace: An artefact cannot be fetched.
    """
    groups: dict[str, list[Path]] = defaultdict(list)
    origins: dict[str, Provenance] = {}
    for package in packages:
        origin = sbom.of(package).provenance
        groups[repr(origin)].append(package)
        origins[repr(origin)] = origin
    levels: dict[int, list[_Group]] = defaultdict(list)
    for key, origin in origins.items():
        levels[origin.level].append((origin, groups[key]))
    home = workspace.cache / "rebuild"
    results = []
    try:
        with disk_errors(home):
            for same in levels.values():
                for start in range(0, len(same), _BATCH):
                    shutil.rmtree(home, ignore_errors=True)
                    for result in _make_again(same[start : start + _BATCH], workspace, Workspace(home), jobs):
                        results.append(result)
                        progress(result)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return results


_Group = tuple[Provenance, list[Path]]  # the packages of one build


def _make_again(batch: list[_Group], workspace: Workspace, scratch: Workspace, jobs: int | None) -> Iterator[Rebuilt]:
    """Makes the packages of some builds, all of one compression level."""
    builds: list[Build] = []
    failed: dict[str, str] = {}
    for number, (origin, packages) in enumerate(batch):
        try:
            recipe = _recipe(origin, workspace, scratch.root / origin.digest)
            builds.append(_build(str(number), origin, recipe, {p.name for p in packages}))
        except RecipeError as error:
            failed[str(number)] = f"{error.cause}; {error.step}"
    plan = Plan(tuple(builds))
    fetch.fetch(plan.artefacts, workspace, Index)
    report = build.run(plan, scratch, level=batch[0][0].level, jobs=jobs)
    failed |= {failure.id: failure.message for failure in report.failed}
    made = {b.id: {p.name: p for p in b.packages} for b in report.built}
    for number, (origin, packages) in enumerate(batch):
        name = str(number)
        for package in packages:
            if name in failed:
                yield Rebuilt(package, (Deviation("build", failed[name]),))
            else:
                yield Rebuilt(package, tuple(_differences(package, made[name].get(package.name), origin.tools)))


def _recipe(origin: Provenance, workspace: Workspace, folder: Path) -> Recipe:
    """The recipe of a package's commit, in a checkout of its own that has nothing but recipes and artefacts."""
    recipe = Recipe(origin.recipe, folder / "recipes" / origin.recipe, origin.commit)
    if not folder.exists():
        (folder / ".cache").mkdir(parents=True)
        workspace.artefacts.mkdir(parents=True, exist_ok=True)
        (folder / ".cache" / "artefacts").symlink_to(workspace.artefacts, target_is_directory=True)
        here = Recipe(origin.recipe, workspace.recipes / origin.recipe)
        if here.file.exists() and recipe_digest(here) == origin.digest:
            shutil.copytree(workspace.recipes, folder / "recipes")
        else:
            _check_out(origin, workspace, folder)
    if not recipe.file.exists() or recipe_digest(recipe) != origin.digest:
        raise RecipeError(
            f"the recipe {origin.recipe} is not the one that the package was built from",
            "use a clone of the repository that the package comes from, with the whole history",
        )
    return recipe


def _check_out(origin: Provenance, workspace: Workspace, folder: Path) -> None:
    if not origin.commit:
        raise RecipeError(
            f"the package names no commit, and the recipe {origin.recipe} has changed since it was built",
            "only packages built from committed recipes can be made again later",
        )
    if not git_export(workspace.root, origin.commit, ["recipes"], folder):
        raise RecipeError(
            f"git has no commit {origin.commit}, which has the recipe {origin.recipe} as the package was built from it",
            "fetch the whole history (`git fetch --unshallow`), or clone the repository that the package comes from",
        )


def _build(name: str, origin: Provenance, recipe: Recipe, wanted: set[str]) -> Build:
    """The build that a package's SBOM describes."""
    variants = recipe.folder.parent / f"variant-{name}.yaml"
    with variants.open("w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump({key: list(values) for key, values in origin.variant.items()}, file)
    subdir = this_platform() if origin.place == NOARCH else origin.place
    outputs = {o.file_name: o for o in render(recipe, (variants,), subdir)}
    lost = wanted - outputs.keys()
    if lost:
        raise RecipeError(
            f"the recipe {recipe.name} makes no {', '.join(sorted(lost))} of what that package says it was made from",
            f"it makes {', '.join(sorted(outputs))}",
        )
    return Build(
        id=name,
        recipe=recipe,
        variant_files=(variants,),
        lock="",
        subdir=subdir,
        python="",
        outputs=tuple(outputs.values()),  # all, also those not asked for: the SBOM has the variant of all of them
        artefacts=tuple(i.artefact for i in origin.inputs),
        timestamp=origin.timestamp,
        licenses={i.artefact.component: i.license for i in origin.inputs},
    )


def _differences(old: Path, new: Path | None, made_with: Mapping[str, str]) -> Iterator[Deviation]:
    """The differences between a package and its rebuild, None where it was not made."""
    if new is None:
        yield Deviation("archive", "is not made any more")
        return
    if file_sha256(old) == file_sha256(new):
        return
    before, after = _contents(old), _contents(new)
    for place in sorted(before.keys() | after.keys()):
        if place not in after:
            yield Deviation(place, "only in the package")
        elif place not in before:
            yield Deviation(place, "only in the rebuild")
        elif before[place] != after[place]:
            yield Deviation(place, _change(before[place][0], after[place][0]))
    if before == after:
        yield Deviation("archive", "same files, in another order, with other times or compressed in another way")
    for name, version in tools().items():
        if made_with.get(name) != version:
            yield Deviation("archive", f"made with {name} {made_with.get(name, 'unknown')}, and here is {version}")


def _contents(package: Path) -> dict[str, tuple[ScannedFile, str]]:
    """Each file of both halves, with its sha256."""
    found = {}
    for part in ("info", "pkg"):
        for member, stream in members(package, part):
            digest = hashlib.sha256()
            while stream is not None and (block := stream.read(1 << 20)):
                digest.update(block)
            found[f"{part}/{member.path.removeprefix('info/') if part == 'info' else member.path}"] = (
                member,
                digest.hexdigest(),
            )
    return found


def _change(old: ScannedFile, new: ScannedFile) -> str:
    if old.kind != new.kind:
        return f"{old.kind}, now {new.kind}"
    if old.link != new.link:
        return f"link to {old.link}, now to {new.link}"
    if old.size != new.size:
        return f"{old.size} bytes, now {new.size}"
    return f"other content, {old.size} bytes"
