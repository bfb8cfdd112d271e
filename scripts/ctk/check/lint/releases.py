"""Checks of the releases together: what one has and another lacks, and what no release accounts for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import Version

from ctk.check.lint.check import TreeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.locks import LockFile
from ctk.check.lint.source import at_lines
from ctk.core.errors import LockError
from ctk.lock import exclusions
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.lock import ReleaseLock

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

_NEVER_MADE = {(12, 7)}  # NVIDIA made no such minor


class NothingElseIsLocked(TreeCheck):
    """The folder of variants holds pairs of lock and variants, the written list of exclusions, and nothing else."""

    fix = "remove the file, or write its other half with ctk release add"

    def check(self, tree: Tree) -> Iterator[Problem]:
        folder = tree.workspace.variants
        names = {lock.path.stem for lock in tree.locks if lock.path.parent == folder}
        wanted = {exclusions.FILE, *(f"{name}{half}" for name in names for half in (".lock", ".yaml"))}
        there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        for name in sorted(there - wanted):
            yield Problem(tree.shown(folder / name), 1, 1, "it is neither a lock nor the half of one")
        for name in sorted(wanted - there - {exclusions.FILE}):
            yield Problem(tree.shown(folder / name), 1, 1, "the half of a lock is missing")


class EveryMinorIsLocked(TreeCheck):
    """From the first minor of a CUDA major to its newest each is locked, and the Python projects of each major: a
    driver of any of them gets what is its own.
    """

    fix = "ctk release add MINOR --write"

    def check(self, tree: Tree) -> Iterator[Problem]:
        releases = {_number(lock): file for file, lock in _ctk(tree)}
        for major in sorted({major for major, _ in releases}):
            newest = max(minor for of, minor in releases if of == major)
            for minor in range(newest):
                if (major, minor) not in releases and (major, minor) not in _NEVER_MADE:
                    yield releases[major, newest].problem(("release",), f"{major}.{minor} is not locked")
            if f"python-{major}" not in tree.locks_by_name:
                yield releases[major, newest].problem(("release",), f"there is no python-{major}.lock")


class OneFileHasOneHash(TreeCheck):
    """A file name stands for the same bytes in every lock: an index never gives one to other content."""

    fix = "ctk release add RELEASE --write for both, and ask where the other hash came from"

    def check(self, tree: Tree) -> Iterator[Problem]:
        seen: dict[str, tuple[str, int, str]] = {}
        for file in tree.locks:
            for a in file.lock.artefacts if file.lock else ():
                sha256, size, where = seen.setdefault(a.file, (a.sha256, a.size, file.path.name))
                if (sha256, size) != (a.sha256, a.size):
                    place = ("components", a.component, "artefacts", a.target)
                    yield file.problem(place, f"{a.file} has another sha256 or size in {where}")


class ComponentsAreAccountedFor(TreeCheck):
    """Every component of a release is read by a package that is planned for it, or is on the written list with the
    reason.
    """

    fix = "package it, or write the reason into variants/exclusions.yaml"

    def check(self, tree: Tree) -> Iterator[Problem]:
        for name, classes in tree.classes.items():
            file = next(f for f in tree.locks if f.path.stem == name)
            for component in sorted(classes.unclassified):
                place = ("components", component)
                yield file.problem(place, f"{component} is neither packaged nor excluded")


class ExclusionsAreTrue(TreeCheck):
    """The written list of what is not packaged can be read, speaks of releases that are locked, and leaves out nothing
    that a recipe packages all the same.
    """

    fix = "mend variants/exclusions.yaml: it is kept by hand"

    def check(self, tree: Tree) -> Iterator[Problem]:
        file = tree.exclusion_file
        if file is None:
            return
        try:
            listed = exclusions.parse(file.text)
        except LockError as error:
            yield from at_lines(file, [line.removeprefix("  - ") for line in error.cause.splitlines()[1:]])
            return
        idle = exclusions.needless(listed, tree.locks_by_name)
        for section, key in (("excluded", "component"), ("unpublished", "name")):
            for i, entry in enumerate(file.top.get(section) or []):
                if entry[key] in idle:
                    yield file.problem((section, i), f"{entry[key]}: no locked release is meant")
                packaged = [name for name, c in tree.classes.items() if entry[key] in c.needless]
                if section == "excluded" and packaged:
                    yield file.problem((section, i), f"{entry[key]} is packaged in {', '.join(packaged)}")


class LacksAreExplained(TreeCheck):
    """What a release lacks of the known components is on the written list of what NVIDIA does not publish, and nothing
    that it has is.
    """

    fix = "write the component and the reason into variants/exclusions.yaml, or take it out"

    def check(self, tree: Tree) -> Iterator[Problem]:
        try:
            listed = exclusions.load(tree.workspace).unpublished
        except LockError:
            return  # ExclusionsAreTrue says it
        known = {component.name for component in CTK_COMPONENTS}
        for file, lock in _ctk(tree):
            said = known & {entry.name for entry in listed if Version(lock.minor) in entry.releases}
            lacked = known - set(lock.components)
            for name in sorted(lacked - said):
                yield file.problem(("components",), f"it lacks {name}, and the written list does not say why")
            for name in sorted(said - lacked):
                yield file.problem(("components", name), f"it has {name}, which the written list calls unpublished")


class VersionsRise(TreeCheck):
    """A component of a newer minor has the same version or a newer one: a solver that is free takes the newest, and
    would take it from the older toolkit.
    """

    fix = "look at the manifest: ctk release diff OLD NEW; nothing, where NVIDIA published it so"
    severity = "hint"

    def check(self, tree: Tree) -> Iterator[Problem]:
        for (_, old), (file, new) in pairwise(_ctk(tree)):
            for name in sorted(set(old.components) & set(new.components)):
                before, after = old.components[name].version, new.components[name].version
                if Version(after) < Version(before):
                    place = ("components", name, "version")
                    yield file.problem(place, f"{name} is {after}, and {before} in {old.minor}")


class FactsRise(TreeCheck):
    """A newer toolkit of the same major writes PTX that is as new or newer, and knows every GPU that the one before
    knew from the newest down; minors appeared one after another.
    """

    fix = "ctk release measure RELEASE --write, and look at what NVRTC says"

    def check(self, tree: Tree) -> Iterator[Problem]:
        for (_, old), (file, new) in pairwise(_ctk(tree)):
            if old.facts is None or new.facts is None:
                continue
            if Version(new.facts.ptx_isa) < Version(old.facts.ptx_isa):
                said = f"it writes PTX ISA {new.facts.ptx_isa}, and {old.minor} wrote {old.facts.ptx_isa}"
                yield file.problem(("facts", "ptx_isa"), said)
            lost = set(old.facts.gpu_architectures) - set(new.facts.gpu_architectures)
            if lost and old.major == new.major:
                said = f"GPUs {', '.join(sorted(lost, key=Version))} are gone since {old.minor}"
                yield file.problem(("facts", "gpu_architectures"), said)


def _ctk(tree: Tree) -> list[tuple[LockFile, ReleaseLock]]:
    """The CTK releases that can be read, oldest first."""
    found = [(file, file.lock) for file in tree.locks if file.lock is not None and file.lock.is_ctk]
    return sorted(found, key=lambda pair: _number(pair[1]))


def _number(lock: ReleaseLock) -> tuple[int, int]:
    major, minor = lock.minor.split(".")
    return int(major), int(minor)
