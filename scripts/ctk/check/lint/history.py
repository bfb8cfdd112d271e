"""Rules on build numbers: the packages of a checkout compared with those that an earlier revision planned, by git."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ctk.check import Finding, Severity, check
from ctk.check.lint.tree import Tree, one_line
from ctk.core.checkout import Workspace, git, git_export
from ctk.core.console import count
from ctk.core.errors import BadValue, CtkError
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Build, Request, plan, published_set, python_tags
from ctk.plan.recipes import Recipe, recipe_digest, variant_values

TAG = "published/*"
"""The tags of what was published."""
_PARTS = ("recipes", "variants", "conda_build_config.yaml")
_MAIN = ("origin/HEAD", "origin/main", "main")


@dataclass(frozen=True)
class Revision:
    """The revision to compare with; one that is not certain is what the main branch has, which may be published."""

    commit: str
    name: str
    certain: bool


@dataclass(frozen=True)
class PlannedPackage:
    """A package: what it has in common with builds that replace it, and what decides its bytes, by how it is called."""

    recipe: str
    key: tuple[str, str, str, frozenset[tuple[str, str]]]
    number: int
    inputs: Mapping[str, object]


Packages = dict[str, PlannedPackage]
"""``subdir/file`` -> the package as it is planned."""


@check(Tree, fix="raise the first term of build: number by one")
def BuildNumberIsRaised(tree: Tree) -> Iterator[Finding]:
    """A package that changes, if by a comment, gets another file name than in what was published.

    What decides its bytes is compared with the revision of --base, else with the newest tag published/*, else, and then
    it is only a hint, with the main branch.
    """
    then, now, before, unplanned = _history(tree)
    for recipe, cause in unplanned.items():
        yield _at_number(tree, recipe, then, f"{then.name} cannot be compared with: {one_line(cause)}")
    changed: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for file in sorted(before.keys() & now.keys()):
        old, new = before[file].inputs, now[file].inputs
        if words := [word for word in new if new[word] != old[word]]:
            changed[now[file].recipe][file] = words
    for recipe, files in sorted(changed.items()):
        what = " and ".join(dict.fromkeys(word for words in files.values() for word in words))
        said = f"since {then.name} {what} changed, and {count(len(files), 'package')} would keep the file name"
        yield _at_number(tree, recipe, then, f"{said}, such as {next(iter(files))}")


@check(Tree, fix="give it the number that it had, and one more where the package changes")
def BuildNumberNeverFalls(tree: Tree) -> Iterator[Finding]:
    """The build number of a version never falls: a solver takes the highest, which would be the older package."""
    then, now, before, _ = _history(tree)
    highest: dict[object, int] = {}
    for package in before.values():
        highest[package.key] = max(package.number, highest.get(package.key, 0))
    fallen: dict[str, PlannedPackage] = {}
    for package in now.values():
        if package.number < highest.get(package.key, 0):
            fallen.setdefault(package.recipe, package)
    for recipe, package in sorted(fallen.items()):
        fell = f"{' '.join(package.key[1:3])} fell from build number {highest[package.key]} to {package.number}"
        yield _at_number(tree, recipe, then, f"since {then.name} {fell}")


def _at_number(tree: Tree, recipe: str, then: Revision, message: str) -> Finding:
    file = tree.recipe(recipe)
    severity: Severity = "error" if then.certain else "hint"
    if file is None:
        where = f"recipes/{recipe}/recipe.yaml" if recipe else "recipes"
        return Finding(where, message, line=1, column=1, severity=severity)
    block = next((b for b in file.blocks if "number" in b.section("build")), file.shared)
    return replace(file.at((*block.place, "build", "number"), message), severity=severity)


@lru_cache(maxsize=1)
def _history(tree: Tree) -> tuple[Revision, Packages, Packages, dict[str, str]]:
    """The revision to compare with, and the packages now and then of the recipes that changed since.

    Last comes why this tool cannot plan what that revision has of a recipe; "" stands for all recipes.
    """
    root = tree.workspace.root
    then = revision(root, tree.revision)
    if then is None:
        return Revision("", "", False), {}, {}, {}
    files = changes(root, then.commit)
    folders = {recipe.folder.resolve() for recipe in tree.recipes if not recipe.unreadable}
    if all(file.startswith("recipes/") for file in files):
        # By folder: a file that was removed is in no list of a recipe's files any more.
        touched = {root.resolve() / "recipes" / Path(file).parts[1] for file in files}
        folders = {f for f in folders if touched & {f, *Recipe(f.name, f).shared_folders()}}
    changed = frozenset(folder.name for folder in folders)
    if not changed:
        return then, {}, {}, {}
    # Folders that are no recipe any more: another one may make their packages now.
    names = {Path(file).parts[1] for file in files if file.startswith("recipes/")}
    gone = {name for name in names if not (tree.workspace.recipes / name / "recipe.yaml").exists()}
    with _checkout(root, then.commit) as there:
        return then, _packages(tree.workspace, changed)[0], *_packages(there, changed | gone)


def revision(root: Path, asked: str | None) -> Revision | None:
    """The revision asked for; else the newest tag `TAG` behind this commit; else where this branch left the main one.

    On the main branch itself that is this commit when files are changed, and the one before when none is. None where
    there is no such revision, as outside of git.

    Raises:
        BadValue: The one that was asked for does not exist.
    """
    if asked is not None:
        commit = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{asked}^{{commit}}")
        if not commit:
            raise BadValue(f"git knows no revision {asked!r} here", "name a commit, a branch or a tag with --base")
        return Revision(commit, asked, True)
    if tags := git(root, "tag", "--merged", "HEAD", "--list", TAG, "--sort=-creatordate").splitlines():
        return Revision(git(root, "rev-parse", f"{tags[0]}^{{commit}}"), tags[0], True)
    head = git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    main = next((c for name in _MAIN if (c := git(root, "merge-base", "HEAD", name))), head)
    if main == head and not changes(root, head):
        main = git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    return Revision(main, main[:9], False) if main else None


def changes(root: Path, commit: str) -> frozenset[str]:
    """The files that differ from a commit, committed or not, of those that can change a package."""
    if not commit:
        return frozenset()
    names = git(root, "diff", "--name-only", "--no-renames", "--relative", commit, "--", *_PARTS)
    new = git(root, "ls-files", "--others", "--exclude-standard", "--", *_PARTS)
    return frozenset([*names.splitlines(), *new.splitlines()])


@contextmanager
def _checkout(root: Path, commit: str) -> Iterator[Workspace]:
    """The files of a commit that decide what is planned, in a folder of their own."""
    there = git(root, "ls-tree", "--name-only", commit).splitlines()
    parts = [part for part in _PARTS if part in there]
    with TemporaryDirectory(prefix="ctk-lint-") as folder:
        if parts:
            git_export(root, commit, parts, Path(folder))
        yield Workspace(Path(folder))


def _packages(workspace: Workspace, recipes: frozenset[str]) -> tuple[Packages, dict[str, str]]:
    """The planned packages of recipes, and why a recipe cannot be planned; "" for what is wrong with all of them."""
    try:
        everything, tags = published_set(workspace), python_tags(workspace.build_config)
    except CtkError as error:
        return {}, {"": error.cause}
    found: Packages = {}
    unplanned: dict[str, str] = {}
    for name in sorted(recipes & everything.recipes.keys()):
        try:
            for build in plan(everything, Request(recipes=(name,), platforms=tuple(PLATFORMS)), tags).builds:
                found |= _planned(build)
        except CtkError as error:
            unplanned[name] = error.cause
    return found, unplanned


def _planned(build: Build) -> Packages:
    artefacts = sorted(((a, build.licenses[a.component]) for a in build.artefacts), key=lambda pair: pair[0].file)
    inputs = {
        "its recipe or script": recipe_digest(build.recipe),
        "an artefact": artefacts,
        "a variant key": variant_values(build.recipe, build.variant_files, build.subdir, build.outputs),
        "its time": build.timestamp,
    }
    found = {}
    for o in build.outputs:
        key = (o.subdir, o.name, o.version, frozenset(o.variant.items()))
        found[f"{o.subdir}/{o.file_name}"] = PlannedPackage(build.recipe.name, key, o.build_number, inputs)
    return found
