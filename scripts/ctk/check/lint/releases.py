"""Rules on release locks and variant files, one by one and together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise, zip_longest

from packaging.version import Version

from ctk.check import Finding, check
from ctk.check.lint.tree import LockFile, Tree
from ctk.core.errors import LockError
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import CTK_COMPONENTS, needless_exclusions, parse_exclusions
from ctk.lock.lock import ReleaseLock, variant_config
from ctk.lock.support import parse_support

# Words that would say where files come from, which is the configuration of pip.
_TRACES = ("http", "://", "file:/", "/", "@")
_LENT = "target_directory: licence"
_NEVER_MADE = {"12.7"}  # NVIDIA made no such minor


@check(LockFile, fix="write it anew: ctk release add RELEASE --write")
def LockFollowsItsSchema(lock: LockFile) -> Iterator[Finding]:
    """A release lock has the fields of the schema, complete and without contradictions, wheels' names included."""
    yield from lock.at_lines(lock.problems)


@check(LockFile, fix="ctk release add RELEASE --write, which asks the index for each of them")
def LockCoversItsTargets(lock: LockFile) -> Iterator[Finding]:
    """Every component says which artefact it has for each platform (a Python project: and Python), null for none."""
    if lock.lock is None or not (lock.lock.is_ctk or lock.lock.name.startswith("python-")):
        return
    pythons = [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in lock.tree.python_tags]
    expected = [list(PLATFORMS)] if lock.lock.is_ctk else [[NOARCH], pythons]
    for name, component in lock.lock.components.items():
        place = ("components", name, "artefacts")
        if list(component.artefacts) not in expected:
            lost = sorted(set(expected[-1]) - set(component.artefacts))
            yield lock.at(place, f"{name} says nothing of {', '.join(lost) or 'the platforms'}")
        if not any(component.artefacts.values()):
            yield lock.at(place, f"{name} has no artefact at all")


@check(LockFile, fix="ctk release add RELEASE --write, and look into the wheel where it finds none")
def LicenceTextIsThere(lock: LockFile) -> Iterator[Finding]:
    """Every component has the sha256 of a licence text: packages carry it, and a lock's diff shows a change.

    Where the wheels have none, the recipe that reads them takes it from elsewhere, into a folder `licence`.
    """
    if lock.lock is None or lock.lock.name == "downstream":
        return
    major = lock.lock.major
    lending = [r.text.replace("${{ cuda_major }}", major) for r in lock.tree.recipes if _LENT in r.text]
    for name, component in lock.lock.components.items():
        lent = any(f"/artefacts/{component.name}/" in text for text in lending)
        if not component.license_texts and any(component.artefacts.values()) and not lent:
            yield lock.at(("components", name), f"{name} has no licence text")


@check(LockFile, fix="ctk release measure RELEASE --write; for what is missing, ctk release add RELEASE --write")
def FactsAreMeasured(lock: LockFile) -> Iterator[Finding]:
    """A CTK release has its measured facts, with glibc for each Linux platform, and all artefacts of its manifest."""
    release = lock.lock
    if release is None or not release.is_ctk:
        return
    if release.missing:
        yield lock.at(("missing",), f"the release is partial: it lacks {', '.join(release.missing)}")
    if release.facts is None:
        yield lock.at(("facts",), "its facts are not measured")
        return
    linux = {a.target for a in release.artefacts if a.target.startswith("linux-")}
    for target in sorted(linux ^ set(release.facts.glibc)):
        yield lock.at(("facts", "glibc"), f"the glibc that {target} needs is not measured, or nothing is there")


@check(
    LockFile,
    fix="ctk release add RELEASE --write; where one wheel really holds two components, say so in components.py",
)
def OneFileIsOneComponent(lock: LockFile) -> Iterator[Finding]:
    """Within a release an artefact belongs to one component, but for those that CUDA 12 has inside of nvcc's wheel."""
    inside = {(c.name, c.inside) for c in CTK_COMPONENTS if c.inside}
    inside |= {(one, other) for one, a in inside for other, b in inside if a == b and one != other}
    seen: dict[tuple[str, str], str] = {}
    for artefact in lock.lock.artefacts if lock.lock else ():
        first = seen.setdefault((artefact.sha256, artefact.target), artefact.component)
        pair = (artefact.component, first)
        if first != artefact.component and pair not in inside and pair[::-1] not in inside:
            place = ("components", artefact.component, "artefacts", artefact.target)
            yield lock.at(place, f"{artefact.file} is an artefact of {first} too")


@check(LockFile, fix="ctk release add RELEASE --write, which writes none")
def NothingSaysWhereFilesComeFrom(lock: LockFile) -> Iterator[Finding]:
    """Neither half of a release names an index, a host or a path: pip is configured for these, so mirrors work."""
    for half in [lock, *(v for v in lock.tree.variants if v.path == lock.path.with_suffix(".yaml"))]:
        for line, text in half.code():
            if trace := next((t for t in _TRACES if t in text.lower()), None):
                yield half.at_line(line, f"{trace!r} says where a file comes from", text.lower().find(trace) + 1)


@check(LockFile, fix="ctk release add RELEASE --write")
def VariantsAreCanonical(lock: LockFile) -> Iterator[Finding]:
    """The half of a release that recipes read is beside its lock, as the tool writes it from that, byte for byte."""
    half = next((file for file in lock.tree.variants if file.path == lock.path.with_suffix(".yaml")), None)
    if half is None:
        yield lock.at_line(1, "the half that recipes read is missing")
    if half is None or lock.lock is None:
        return
    for number, (line, wanted) in enumerate(zip_longest(half.lines, variant_config(lock.lock).split("\n")), 1):
        if line != wanted:
            said = "nothing here" if wanted is None else repr(wanted.strip()[:60])
            yield half.at_line(number, f"the tool writes {said}, not {(line or '').strip()[:60]!r}")
            return


@check(Tree, fix="ctk release add MINOR --write")
def EveryMinorIsLocked(tree: Tree) -> Iterator[Finding]:
    """From the first to the newest minor of a CUDA major each is locked, and so are each major's Python projects."""
    files = {lock.minor: file for file, lock in _ctk(tree)}
    newest = {major: (int(minor), files[name]) for name in files for major, _, minor in [name.partition(".")]}
    for major, (last, file) in newest.items():
        for minor in (f"{major}.{number}" for number in range(last)):
            if minor not in files and minor not in _NEVER_MADE:
                yield file.at(("release",), f"{minor} is not locked")
        if f"python-{major}" not in tree.locks_by_name:
            yield file.at(("release",), f"there is no python-{major}.lock")


@check(LockFile, fix="package it, or write the reason into variants/exclusions.yaml")
def ComponentsAreAccountedFor(lock: LockFile) -> Iterator[Finding]:
    """Every component of a release is packaged, or on the written list with the reason."""
    classes = lock.tree.classes.get(lock.path.stem)
    for component in sorted(classes.unclassified) if classes else ():
        yield lock.at(("components", component), f"{component} is neither packaged nor excluded")


@check(Tree, fix="mend variants/exclusions.yaml: it is kept by hand")
def ExclusionsAreTrue(tree: Tree) -> Iterator[Finding]:
    """The list of what is not packaged can be read, speaks of locked releases, and names nothing that is packaged."""
    for file in tree.exclusions:
        try:
            written = parse_exclusions(file.text)
        except LockError as error:
            yield from file.at_lines([line.removeprefix("  - ") for line in error.cause.splitlines()[1:]])
            return
        idle = needless_exclusions(written, tree.locks_by_name)
        for section, key in (("excluded", "component"), ("unpublished", "name")):
            for i, name in enumerate(entry[key] for entry in file.top.get(section) or []):
                if name in idle:
                    yield file.at((section, i), f"{name}: no locked release is meant")
                packaged = [release for release, classes in tree.classes.items() if name in classes.needless]
                if section == "excluded" and packaged:
                    yield file.at((section, i), f"{name} is packaged in {', '.join(packaged)}")


@check(Tree, fix="name the page that says it, or take the entry out: nothing in variants/support.yaml is guessed")
def SupportHasSources(tree: Tree) -> Iterator[Finding]:
    """What is said of driver branches, GPUs and vulnerabilities can be read, and names pages, none of the future."""
    for file in tree.support:
        try:
            parse_support(file.text, datetime.now(UTC).date())
        except LockError as error:
            yield from file.at_lines([line.removeprefix("  - ") for line in error.cause.splitlines()[1:]])


@check(Tree, fix="write the component and the reason into variants/exclusions.yaml, or take it out")
def LacksAreExplained(tree: Tree) -> Iterator[Finding]:
    """Known components that a release lacks are on the list of what NVIDIA does not publish, and no others."""
    if tree.excluded is None:
        return
    known = {component.name for component in CTK_COMPONENTS}
    for file, lock in _ctk(tree):
        said = known & {entry.name for entry in tree.excluded.unpublished if Version(lock.minor) in entry.releases}
        lacked = known - set(lock.components)
        for name in sorted(lacked - said):
            yield file.at(("components",), f"it lacks {name}, and the written list does not say why")
        for name in sorted(said - lacked):
            yield file.at(("components", name), f"it has {name}, which the written list calls unpublished")


@check(
    Tree, fix="look at the manifest: ctk release diff OLD NEW; nothing, where NVIDIA published it so", severity="hint"
)
def VersionsRise(tree: Tree) -> Iterator[Finding]:
    """A component of a newer minor is not older: solvers take the newest, and would take it from the older toolkit."""
    for (_, old), (file, new) in pairwise(_ctk(tree)):
        for name in sorted(set(old.components) & set(new.components)):
            before, after = old.components[name].version, new.components[name].version
            if Version(after) < Version(before):
                yield file.at(("components", name, "version"), f"{name} is {after}, and {before} in {old.minor}")


@check(Tree, fix="ctk release measure RELEASE --write, and look at what NVRTC says")
def FactsRise(tree: Tree) -> Iterator[Finding]:
    """A newer toolkit of a major writes PTX that is as new or newer, and knows every GPU that the one before knew."""
    for (_, old), (file, new) in pairwise(_ctk(tree)):
        if old.facts is None or new.facts is None:
            continue
        if Version(new.facts.ptx_isa) < Version(old.facts.ptx_isa):
            said = f"it writes PTX ISA {new.facts.ptx_isa}, and {old.minor} wrote {old.facts.ptx_isa}"
            yield file.at(("facts", "ptx_isa"), said)
        lost = set(old.facts.gpu_architectures) - set(new.facts.gpu_architectures)
        if lost and old.major == new.major:
            said = f"GPUs {', '.join(sorted(lost, key=Version))} are gone since {old.minor}"
            yield file.at(("facts", "gpu_architectures"), said)


def _ctk(tree: Tree) -> list[tuple[LockFile, ReleaseLock]]:
    """The CTK releases that can be read, oldest first."""
    found = [(file, file.lock) for file in tree.locks if file.lock is not None and file.lock.is_ctk]
    return sorted(found, key=lambda pair: Version(pair[1].minor))
