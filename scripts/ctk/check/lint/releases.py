"""Rules on release locks and variant files, one by one and together, and on what conda-smithy reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from packaging.version import Version
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ctk.check import Finding, check
from ctk.check.lint.tree import LockFile, Tree, VariantFile, listed, mapping
from ctk.core.document import Place
from ctk.core.errors import LockError
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import CTK_COMPONENTS, EXCLUSIONS, needless_exclusions, parse_exclusions
from ctk.lock.contents import FILE as CONTENTS
from ctk.lock.lock import ReleaseLock
from ctk.lock.support import SUPPORT, parse_support

# Words that would say where files come from, which is the configuration of pip.
_TRACES = ("http", "://", "file:/", "/", "@")
_LENT = "target_directory: licence"
_NEVER_MADE = {"12.7"}  # NVIDIA made no such minor
_PLATFORMS = frozenset(s.replace("-", "_") for s in PLATFORMS)
# Of conda-smithy's published model of conda-forge.yml: the keys that are used here, and their values.
SETTINGS: Mapping[str, Set[str]] = {
    "conda_build_tool": {"rattler-build"},
    "provider": {"github_actions", "azure", "default", "native", "emulated", "None"},
    "build_platform": _PLATFORMS,
    "noarch_platforms": _PLATFORMS,
    "test": {"all", "native", "native_and_emulated"},
    "linter": {"lint_noarch_selectors", "hint_os_version", "hint_pip_no_build_backend", "hint_python_min"},
}


@check(LockFile, fix="write it anew: ctk release add RELEASE --write")
def LockFollowsItsSchema(lock: LockFile) -> Iterator[Finding]:
    """A release lock has the fields of the schema, complete and without contradictions, wheels' names included."""
    yield from lock.at_lines([p for p in lock.problems if p not in lock.broken])


@check(LockFile, fix="ctk lint --fix --write", autofix=lambda lock: lock.canonical)
def LockIsCanonical(lock: LockFile) -> Iterator[Finding]:
    """A release lock is written as the tool writes it, byte for byte, so that a diff shows what changed only."""
    yield from lock.first_difference(lock.canonical)


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


@check(LockFile, fix="ctk release add RELEASE --write, which asks the index for both")
def TimesAreInOrder(lock: LockFile) -> Iterator[Finding]:
    """The minor of a CTK release appeared before, or with, the manifest that is locked. Packages carry these times."""
    if lock.lock and lock.lock.manifest and lock.lock.since > lock.lock.manifest.uploaded:
        yield lock.at(("since",), "the minor appeared after its own manifest was uploaded")


@check(LockFile, fix="ctk release add RELEASE --write, which writes none")
def NothingSaysWhereFilesComeFrom(lock: LockFile) -> Iterator[Finding]:
    """Neither half of a release names an index, a host or a path: pip is configured for these, so mirrors work."""
    for half in [lock, *(v for v in lock.tree.variants if v.path == lock.path.with_suffix(".yaml"))]:
        for line, text in half.code():
            if trace := next((t for t in _TRACES if t in text.lower()), None):
                yield half.at_line(line, f"{trace!r} says where a file comes from", text.lower().find(trace) + 1)


@check(VariantFile, fix="write each key as a list of values in quotes")
def VariantsCanBeRead(file: VariantFile) -> Iterator[Finding]:
    """rattler-build reads the file as what it calls variants: keys with lists of values."""
    if not file.unreadable and (why := file.refused):
        yield file.at_line(1, f"rattler-build does not read it: {why}")


@check(VariantFile, fix="ctk lint --fix --write", autofix=lambda file: file.canonical)
def VariantsAreCanonical(file: VariantFile) -> Iterator[Finding]:
    """The half of a release that recipes read is written as the tool writes it from the lock, byte for byte."""
    yield from file.first_difference(file.canonical)


def _unquoted(file: VariantFile) -> list[Place]:
    """Where values are that a reader takes for something else than text."""
    scalars = ((place, node) for place, node in file.scalars.items() if place[:1] != ("zip_keys",))
    return [place for place, node in scalars if not node.style and not _is_text(node.value)]


@lru_cache(maxsize=4096)
def _is_text(value: str) -> bool:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    try:
        return isinstance(yaml.load(value), str)
    except (YAMLError, ValueError, AttributeError, IndexError):
        return False


@check(VariantFile, fix="put it in quotes: ctk lint --fix --write", autofix=lambda file: file.quoted(_unquoted(file)))
def ValuesAreQuoted(file: VariantFile) -> Iterator[Finding]:
    """A value of a variant file is text to every reader: unquoted, 3.10 is 3.1, and to YAML 1.1 yes is true."""
    for place in _unquoted(file):
        key = ".".join(map(str, place[:-1]))
        yield file.at(place, f"{key}: {file.scalars[place].value} is not read as text")


@check(VariantFile, fix="give each of the keys as many values, or take it out of the group")
def ZipKeysFit(file: VariantFile) -> Iterator[Finding]:
    """Keys that zip_keys ties together exist, have as many values each, and are three at most, to be reviewed."""
    for i, group in enumerate(listed(file.top.get("zip_keys"))):
        place = ("zip_keys", i)
        keys = [str(key) for key in listed(group)]
        lengths = {key: len(listed(file.top[key])) for key in keys if key in file.top}
        for key in (key for key in keys if key not in lengths):
            yield file.at(place, f"{key} is tied to others and has no values")
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{key} has {n}" for key, n in lengths.items())
            yield file.at(place, f"values that belong together differ in number: {said}")
        if len(keys) > 3:
            yield file.at(place, f"{len(keys)} keys are tied together")


@check(Tree, fix="remove the file, or write its other half with ctk release add")
def NothingElseIsLocked(tree: Tree) -> Iterator[Finding]:
    """The folder of variants holds pairs of lock and variants, what is inside them, two files kept by hand, no more."""
    folder = tree.workspace.variants
    names = {lock.path.stem for lock in tree.of_home(tree.locks, "recipes")}
    of_all = {EXCLUSIONS, SUPPORT, CONTENTS}
    wanted = {*of_all, *(f"{name}{half}" for name in names for half in (".lock", ".yaml"))}
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for name in sorted(there - wanted):
        yield Finding(tree.shown(folder / name), "it is neither a lock nor the half of one", line=1, column=1)
    for name in sorted(wanted - there - of_all):
        yield Finding(tree.shown(folder / name), "the half of a lock is missing", line=1, column=1)


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


@check(Tree, fix="ctk release add RELEASE --write for both, and ask where the other hash came from")
def OneFileHasOneHash(tree: Tree) -> Iterator[Finding]:
    """A file name stands for the same bytes in every lock: an index never gives one to other content."""
    seen: dict[str, tuple[str, int, str]] = {}
    for file in tree.locks:
        for a in file.lock.artefacts if file.lock else ():
            sha256, size, where = seen.setdefault(a.file, (a.sha256, a.size, file.path.name))
            if (sha256, size) != (a.sha256, a.size):
                place = ("components", a.component, "artefacts", a.target)
                yield file.at(place, f"{a.file} has another sha256 or size in {where}")


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


@check(Tree, fix="see https://conda-forge.org/docs/maintainer/conda_forge_yml, and scripts/ctk/check/lint/releases.py")
def SettingsAreKnown(tree: Tree) -> Iterator[Finding]:
    """A conda-forge.yml has keys and values of conda-smithy's model, of those that make sense for these recipes."""
    for file in tree.settings:
        for key, value in file.top.items():
            if key not in SETTINGS:
                yield file.at((key,), f"there is no setting {key}")
                continue
            values = list(value.values()) if isinstance(value, dict) else [value]
            for v in (v for x in values for v in (x if isinstance(x, list) else [x])):
                if str(v) not in SETTINGS[key]:
                    yield file.at((key,), f"{v!r} is no value of {key}")


@check(Tree, fix="add the platform below build_platform, or a provider for it")
def PlatformsHaveABuilder(tree: Tree) -> Iterator[Finding]:
    """Every platform of the channel is built by a machine that conda-forge.yml names a provider for."""
    for file in tree.settings[:1]:
        built, providers = mapping(file.top.get("build_platform")), mapping(file.top.get("provider"))
        for platform in sorted(_PLATFORMS):
            if file.path.parent == tree.workspace.root and built.get(platform, platform) not in providers:
                yield file.at(("build_platform",), f"no machine builds {platform}")
