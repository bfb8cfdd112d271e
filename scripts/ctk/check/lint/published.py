"""What may be published already: an earlier revision of the checkout, by git, and the packages that it planned."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ctk.build.provenance import recipe_digest
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, CtkError
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import Artefact
from ctk.plan.dag import Build
from ctk.plan.plan import Request, plan
from ctk.plan.project import published_set, python_tags
from ctk.plan.recipes import variant_values

TAG = "published/*"
"""The tags that say what was published last."""
_PARTS = ("recipes", "variants", "conda_build_config.yaml")
_MAIN = ("origin/HEAD", "origin/main", "main")


@dataclass(frozen=True)
class Revision:
    """The revision to compare with.

    Attributes:
        commit: Its hash.
        said: How it is named to a person.
        certain: Whether it is known to be published; else it is what the main branch has, which may be.
    """

    commit: str
    said: str
    certain: bool


@dataclass(frozen=True)
class Made:
    """One planned package, and what decides its bytes.

    Attributes:
        recipe: Name of its feedstock.
        name, version, number, variant, subdir: Of the package.
        files: Digest of the recipe's files, shared scripts too.
        artefacts: What it is made of.
        values: Every variant key that the recipe can see.
        timestamp: Every time in it, in seconds since 1970.
    """

    recipe: str
    name: str
    version: str
    number: int
    variant: Mapping[str, str]
    subdir: str
    files: str
    artefacts: tuple[tuple[Artefact, str], ...]
    values: Mapping[str, tuple[str, ...]]
    timestamp: int

    def changed(self, other: Made) -> list[str]:
        """What is not the same, in words."""
        said = [
            ("its recipe or script", self.files != other.files),
            ("an artefact", self.artefacts != other.artefacts),
            ("a variant key", self.values != other.values),
            ("its time", self.timestamp != other.timestamp),
        ]
        return [what for what, differs in said if differs]


def revision(root: Path, asked: str | None) -> Revision | None:
    """The revision to compare with; None where there is none, as outside of git.

    That which was asked for; else the newest tag `TAG` behind this commit; else where this branch left the main one. On
    the main branch itself that is this commit when files are changed, and the one before when none is.

    Raises:
        BadValue: The one that was asked for does not exist.
    """
    if asked is not None:
        commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{asked}^{{commit}}")
        if not commit:
            raise BadValue(f"git knows no revision {asked!r} here", "name a commit, a branch or a tag with --base")
        return Revision(commit, asked, True)
    tags = _git(root, "tag", "--merged", "HEAD", "--list", TAG, "--sort=-creatordate")
    if tags:
        tag = tags.splitlines()[0]
        return Revision(_git(root, "rev-parse", f"{tag}^{{commit}}"), tag, True)
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    main = next((c for name in _MAIN if (c := _git(root, "merge-base", "HEAD", name))), head)
    if main == head and not changes(root, head):
        main = _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    return Revision(main, main[:9], False) if main else None


def changes(root: Path, commit: str) -> frozenset[str]:
    """The files that differ from a commit, committed or not, of those that can change a package."""
    if not commit:
        return frozenset()
    names = _git(root, "diff", "--name-only", "--no-renames", "--relative", commit, "--", *_PARTS)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "--", *_PARTS)
    return frozenset(names.splitlines()) | frozenset(new.splitlines())


@contextmanager
def checkout(root: Path, commit: str) -> Iterator[Workspace]:
    """The files of a commit that decide what is planned, in a folder of their own."""
    there = _git(root, "ls-tree", "--name-only", commit).splitlines()
    parts = [part for part in _PARTS if part in there]
    with TemporaryDirectory(prefix="ctk-lint-") as folder:
        if parts:
            command = ["git", "-C", str(root), "archive", "--format=tar", commit, "--", *parts]
            packed = subprocess.run(command, capture_output=True, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
        yield Workspace(Path(folder))


def packages(workspace: Workspace, recipes: frozenset[str]) -> tuple[dict[str, Made], dict[str, str]]:
    """The packages that are planned of some recipes, for every release and platform, by ``subdir/file``; and of each
    recipe that cannot be planned, why. What is wrong with all of them, such as a lock, is said of "".
    """
    try:
        what, tags = published_set(workspace), python_tags(workspace.build_config)
    except CtkError as error:
        return {}, {"": error.cause}
    found: dict[str, Made] = {}
    unplanned = {}
    for name in sorted(recipes & what.recipes.keys()):
        try:
            builds = plan(what, Request(recipes=(name,), platforms=tuple(PLATFORMS)), tags).builds
            found |= {f"{made.subdir}/{file}": made for build in builds for file, made in _made(build)}
        except CtkError as error:
            unplanned[name] = error.cause
    return found, unplanned


def _made(build: Build) -> Iterator[tuple[str, Made]]:
    artefacts = tuple(
        sorted(((a, build.licenses[a.component]) for a in build.artefacts), key=lambda pair: pair[0].file)
    )
    values = variant_values(build.recipe, build.variant_files, build.subdir, build.outputs)
    digest = recipe_digest(build.recipe)
    for o in build.outputs:
        yield (
            o.file_name,
            Made(
                recipe=build.recipe.name,
                name=o.name,
                version=o.version,
                number=o.build_number,
                variant=o.variant,
                subdir=o.subdir,
                files=digest,
                artefacts=artefacts,
                values=values,
                timestamp=build.timestamp,
            ),
        )


def _git(root: Path, *arguments: str) -> str:
    """What git prints, or "" where it cannot answer."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
