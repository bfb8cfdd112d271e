"""Checks of release locks, and of the lists beside them that are written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from packaging.version import Version

from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lint.tree import Tree
from ctk.lock.components import CTK_COMPONENTS, needless_exclusions, unmeasured
from ctk.lock.redistribution import NEXT_STEP, load, unread
from ctk.rules import Finding, check


@check(Tree, fix="ctk release add RELEASE --write, which asks the index for each of them")
def LockCoversItsTargets(tree: Tree) -> Iterator[Finding]:
    """The lock of a Python project states an artefact or its lack for each Python and platform."""
    pythons = [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in tree.python_tags]
    of_python = [lock for lock in tree.locks.values() if lock.name.startswith("python-")]
    for lock in of_python:
        for name, component in lock.components.items():
            if NOARCH in component.artefacts:
                continue
            lost = sorted(set(pythons) - set(component.artefacts))
            if lost:
                yield tree.at_lock(lock, f"{name} has no entry for {', '.join(lost)}")


@check(Tree, fix="ctk release measure RELEASE --write")
def LocksAreMeasured(tree: Tree) -> Iterator[Finding]:
    """What `ctk release measure` finds out is known: facts, GPUs, glibc for each Linux platform.

    A lock has one finding, and nothing is planned with a lock that lacks facts.
    """
    for lock in tree.locks.values():
        lacks = unmeasured(lock)
        if lock.facts:
            linux = {a.target for a in lock.artefacts if a.target.startswith("linux-")}
            targets = sorted(linux ^ set(lock.facts.glibc))
            lacks += [f"the glibc that {target} needs" for target in targets]
        if lacks:
            more = f" and {len(lacks) - 1} more" if lacks[1:] else ""
            found = tree.at_lock(lock, f"not measured: {lacks[0]}{more}")
            yield replace(found, fix=f"ctk release measure {lock.minor or lock.name} --write")


@check(Tree, fix=NEXT_STEP)
def LicenceTextsAreRead(tree: Tree) -> Iterator[Finding]:
    """The table of licences says of each licence text in a lock whether files may be published.

    Somebody has to read a new text, and to write what it says into the table.
    """
    measured = [lock for lock in tree.locks.values() if lock.is_measured]
    for text in unread(load(), measured):
        yield tree.at_lock(tree.locks[text.release], str(text))


@check(Tree, fix="package it, or write the reason into variants/exclusions.yaml")
def ComponentsAreAccountedFor(tree: Tree) -> Iterator[Finding]:
    """Every component of a release is packaged, or excluded with a reason."""
    for name, classes in tree.classes.items():
        for component in sorted(classes.unclassified):
            yield tree.at_lock(tree.locks[name], f"{component} is neither packaged nor excluded")


@check(Tree, fix="fix variants/exclusions.yaml, which is written by hand")
def ExclusionsAreTrue(tree: Tree) -> Iterator[Finding]:
    """The list of exclusions names only locked releases, and no packaged component."""
    for name in needless_exclusions(tree.exclusions, tree.locks):
        yield tree.at_exclusion(name, f"{name}: for no locked release")
    for entry in tree.exclusions.excluded:
        classes = tree.classes.items()
        packaged = [release for release, known in classes if entry.component in known.needless]
        if packaged:
            yield tree.at_exclusion(
                entry.component, f"{entry.component} is packaged in {', '.join(packaged)}"
            )


@check(Tree, fix="write the component and the reason into variants/exclusions.yaml, or remove it")
def LacksAreExplained(tree: Tree) -> Iterator[Finding]:
    """The list of unpublished components has exactly the known components that a release lacks."""
    known = {component.name for component in CTK_COMPONENTS}
    for lock in tree.locks.values():
        if not lock.is_ctk:
            continue
        entries = tree.exclusions.unpublished
        unpublished = {entry.name for entry in entries if Version(lock.minor) in entry.releases}
        listed = known & unpublished
        lacked = known - set(lock.components)
        for name in sorted(lacked - listed):
            yield tree.at_lock(lock, f"it lacks {name}, and the written list does not say why")
        for name in sorted(listed - lacked):
            yield tree.at_lock(lock, f"it has {name}, which the written list calls unpublished")
