"""Makes packages again from their SBOM, and compares them byte by byte.

The SBOM names the recipe with its commit, the variant, the artefacts by sha256 and the compression.
Nothing else decides the bytes of a package, so anybody with the repository and a package index can
check its origin.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ctk.build import build, sbom
from ctk.build.finished import tools
from ctk.build.sbom import Provenance
from ctk.core.checkout import Workspace, git_export
from ctk.core.disk import disk_errors
from ctk.core.errors import RecipeError
from ctk.core.files import file_sha256
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, this_platform
from ctk.fetch import fetch
from ctk.fetch.derive import derive
from ctk.index.index import Index
from ctk.package.reader import ScannedFile, members
from ctk.plan.plan import Build, Plan
from ctk.plan.recipes import Recipe, recipe_digest
from ctk.plan.render import render
from ctk.plan.variants import variant_config

_BATCH = 32  # builds; their packages lie on the disk together

Differences = list[tuple[str, str]]
"""Pairs of a place and the difference in a few words. A place is a file of the package
(``info/...``, ``pkg/...``), all
of it (``archive``), or ``build`` if no package was made."""


def rebuild(
    packages: Iterable[Path],
    workspace: Workspace,
    *,
    jobs: int | None = None,
    progress: Callable[[Path, Differences], None] = lambda package, differences: None,
) -> dict[Path, Differences]:
    """Makes packages again, those of the same build together; returns the differences of each.

    Raises:
        AuditFailed: A file is not a package, or has no SBOM.
        IndexUnavailable, NotPublished, HashMismatch, NoSpace: An artefact cannot be fetched.
    """
    groups: dict[str, tuple[Provenance, list[Path]]] = {}
    for package in packages:
        origin = sbom.of(package).provenance
        groups.setdefault(repr(origin), (origin, []))[1].append(package)
    results = {}
    with held(workspace.temporary) as folder, disk_errors(folder):
        scratch = Workspace(folder / "rebuild")
        every = list(groups.values())
        for start in range(0, len(every), _BATCH):
            for package, differences in _make_again(
                every[start : start + _BATCH], workspace, scratch, jobs
            ):
                results[package] = differences
                progress(package, differences)
            shutil.rmtree(scratch.root)
    return results


def _make_again(
    batch: list[tuple[Provenance, list[Path]]],
    workspace: Workspace,
    scratch: Workspace,
    jobs: int | None,
) -> Iterator[tuple[Path, Differences]]:
    """Makes the packages of some builds again, and compares them."""
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
    derive(plan.derived, workspace, Index)
    report = build.run(plan, scratch, jobs=jobs)
    failed |= report.failed
    made = {(b.id, p.name): p for b in report.built for p in b.packages}
    for number, (origin, packages) in enumerate(batch):
        for package in packages:
            if reason := failed.get(str(number)):
                yield package, [("build", reason)]
            else:
                yield (
                    package,
                    list(_differences(package, made.get((str(number), package.name)), origin)),
                )


def _recipe(origin: Provenance, workspace: Workspace, folder: Path) -> Recipe:
    """The recipe of a package's commit, in a checkout of its own: recipes and artefacts alone."""
    recipe = Recipe(origin.recipe, folder / "recipes" / origin.recipe, origin.commit)
    if not folder.exists():
        (folder / ".cache").mkdir(parents=True)
        for place in (workspace.artefacts, workspace.notes):
            place.mkdir(parents=True, exist_ok=True)
            (folder / ".cache" / place.name).symlink_to(place, target_is_directory=True)
        here = Recipe(origin.recipe, workspace.recipes / origin.recipe)
        if here.file.exists() and recipe_digest(here) == origin.digest:
            shutil.copytree(workspace.recipes, folder / "recipes")
            _copy_own_sources(here, workspace.root, folder)
        elif not origin.commit:
            raise RecipeError(
                f"the package names no commit, and the recipe {origin.recipe} has changed since it"
                " was built",
                "only packages built from committed recipes can be made again later",
            )
        elif not git_export(workspace.root, origin.commit, ["recipes"], folder):
            raise RecipeError(
                f"git has no commit {origin.commit}, which has the recipe {origin.recipe} as the"
                " package was built from it",
                "fetch the whole history (`git fetch --unshallow`), or clone the repository that"
                " the package comes from",
            )
        elif recipe.own_sources:
            git_export(workspace.root, origin.commit, recipe.own_sources, folder)
    if not recipe.file.exists() or recipe_digest(recipe) != origin.digest:
        raise RecipeError(
            f"the recipe {origin.recipe} is not the one that the package was built from",
            "use a clone of the repository that the package comes from, with the whole history",
        )
    return recipe


def _copy_own_sources(recipe: Recipe, root: Path, folder: Path) -> None:
    """Copies the parts of a checkout that are sources of its recipe."""
    for source in recipe.own_sources:
        place, target = root / source, folder / source
        if place.is_dir():
            shutil.copytree(place, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, target)


def _build(name: str, origin: Provenance, recipe: Recipe, wanted: set[str]) -> Build:
    """The build that a package's SBOM describes."""
    variants = recipe.folder.parent / f"variant-{name}.yaml"
    variants.write_text(json.dumps(variant_config(origin.variant)))
    subdir = this_platform() if origin.place == NOARCH else origin.place
    outputs = {o.file_name: o for o in render(recipe, (variants,), subdir)}
    if lost := wanted - outputs.keys():
        raise RecipeError(
            f"the recipe {recipe.name} makes no {', '.join(sorted(lost))} of the inputs that the"
            " package names",
            f"it makes {', '.join(sorted(outputs))}",
        )
    return Build(
        id=name,
        recipe=recipe,
        variant_files=(variants,),
        lock="",
        subdir=subdir,
        python="",
        # All, also those not asked for: the SBOM has the variant of all of them.
        outputs=tuple(outputs.values()),
        artefacts=tuple(i.artefact for i in origin.inputs),
        timestamp=origin.timestamp,
        licenses={i.artefact.component: i.license for i in origin.inputs},
    )


def _differences(old: Path, new: Path | None, origin: Provenance) -> Iterator[tuple[str, str]]:
    """The differences between a package and its rebuild; None is a package that was not made."""
    if new is None:
        yield "archive", "is no longer made"
        return
    if file_sha256(old) == file_sha256(new):
        return
    before, after = _contents(old), _contents(new)
    for place in sorted(before.keys() | after.keys()):
        if place not in after:
            yield place, "only in the package"
        elif place not in before:
            yield place, "only in the rebuild"
        elif before[place] != after[place]:
            yield place, _change(before[place][0], after[place][0])
    if before == after:
        yield (
            "archive",
            "same files, in another order, with other times or compressed in another way",
        )
    for name, version in tools().items():
        if origin.tools.get(name) != version:
            yield (
                "archive",
                f"made with {name} {origin.tools.get(name, 'unknown')}, and here is {version}",
            )


def _contents(package: Path) -> dict[str, tuple[ScannedFile, str]]:
    """Each file of both halves, with its sha256."""
    contents = {}
    for part in ("info", "pkg"):
        for member, stream in members(package, part):
            digest = hashlib.sha256()
            while stream is not None and (block := stream.read(1 << 20)):
                digest.update(block)
            place = (
                member.path
                if part == "info" and member.path.startswith("info/")
                else f"{part}/{member.path}"
            )
            contents[place] = (member, digest.hexdigest())
    return contents


def _change(old: ScannedFile, new: ScannedFile) -> str:
    if old.kind != new.kind:
        return f"{old.kind}, now {new.kind}"
    if old.link != new.link:
        return f"link to {old.link}, now to {new.link}"
    if old.size != new.size:
        return f"{old.size} bytes, now {new.size}"
    return f"other content, {old.size} bytes"
