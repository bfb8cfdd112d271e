"""Makes packages again from what they say of themselves, and compares them byte by byte.

A package's SBOM names the recipe with its commit, the variant, the artefacts by sha256 and the compression. Nothing
else decides its bytes, so whoever has the repository and reaches a package index can check where a package came from.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from ruamel.yaml import YAML

from ctk.build import build, sbom
from ctk.build.package_differences import Difference, differences
from ctk.build.provenance import Provenance, recipe_digest
from ctk.core.checkout import Workspace
from ctk.core.errors import RecipeError
from ctk.core.files import disk_errors
from ctk.core.platforms import NOARCH, this_platform
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.plan.dag import Build
from ctk.plan.plan import Plan
from ctk.plan.recipes import Recipe, render

_BATCH = 32  # builds; their packages lie on the disk together


@dataclass(frozen=True)
class Outcome:
    """What became of one package.

    Attributes:
        package: The file.
        differences: Nothing for one that is identical.
    """

    package: Path
    differences: tuple[Difference, ...]

    @property
    def identical(self) -> bool:
        return not self.differences


def rebuild(
    packages: Iterable[Path],
    workspace: Workspace,
    *,
    jobs: int | None = None,
    progress: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Makes packages again; those that one build made are made together.

    Args:
        packages: ``.conda`` files, each in the folder of its subdir.
        workspace: The checkout: its git history has the recipes, its cache gets the artefacts.
        jobs: Parallel builds; the number of cores by default.
        progress: Told of each package.

    Raises:
        AuditFailed: A file is no package, or one that carries no SBOM.
        IndexUnavailable, NotPublished, HashMismatch, NoSpace: An artefact cannot be fetched.
    """
    groups: dict[str, list[tuple[Path, Provenance]]] = defaultdict(list)
    for package in packages:
        origin = sbom.of(package).provenance
        groups[repr(origin)].append((package, origin))
    home = workspace.cache / "rebuild"
    shutil.rmtree(home, ignore_errors=True)
    found = []
    try:
        with disk_errors(home):
            for batch in _batches(list(groups.values())):
                for outcome in _again(batch, workspace, Workspace(home), jobs):
                    found.append(outcome)
                    progress(outcome)
                shutil.rmtree(home, ignore_errors=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return found


_Group = list[tuple[Path, Provenance]]


def _batches(groups: list[_Group]) -> Iterator[list[_Group]]:
    """Groups that are built together: of one compression level, and few enough for the disk."""
    by_level: dict[int, list[_Group]] = defaultdict(list)
    for group in groups:
        by_level[group[0][1].level].append(group)
    for same in by_level.values():
        yield from (same[i : i + _BATCH] for i in range(0, len(same), _BATCH))


def _again(batch: list[_Group], workspace: Workspace, scratch: Workspace, jobs: int | None) -> Iterator[Outcome]:
    """The packages of some builds, all of one compression level."""
    builds: dict[str, Build] = {}
    failed: dict[str, str] = {}
    for number, group in enumerate(batch):
        name, origin = str(number), group[0][1]
        try:
            recipe = _recipe(origin, workspace, scratch.root / origin.digest)
            builds[name] = _build(name, origin, recipe, {p.name for p, _ in group})
        except RecipeError as error:
            failed[name] = f"{error.cause}; {error.step}"
    plan = Plan(tuple(builds.values()))
    fetch.fetch(plan.artefacts, workspace, Index)
    report = build.run(plan, scratch, level=batch[0][0][1].level, jobs=jobs)
    failed |= {failure.id: failure.message for failure in (*report.failed, *report.skipped)}
    made = {b.id: {p.name: p for p in b.packages} for b in report.built}
    for number, group in enumerate(batch):
        name = str(number)
        for package, origin in group:
            if name in failed:
                yield Outcome(package, (Difference("build", failed[name]),))
            else:
                yield Outcome(package, tuple(differences(package, made[name].get(package.name), origin.tools)))


def _recipe(origin: Provenance, workspace: Workspace, folder: Path) -> Recipe:
    """The recipe as it was, in a checkout of its own that has nothing but recipes and artefacts."""
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
    command = ["git", "-C", str(workspace.root), "archive", "--format=tar", origin.commit, "recipes"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RecipeError(
            f"git has no commit {origin.commit}, which has the recipe {origin.recipe} as the package was built from it",
            "fetch the whole history (`git fetch --unshallow`), or clone the repository that the package comes from",
        ) from error
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


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
        outputs=tuple(outputs.values()),  # all, also those not asked for: one SBOM speaks of what all of them saw
        artefacts=tuple(i.artefact for i in origin.inputs),
        timestamp=origin.timestamp,
        licenses={i.artefact.component: i.license for i in origin.inputs},
    )
