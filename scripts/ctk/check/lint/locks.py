"""Checks of one release lock."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ctk.check.lint.check import LockCheck, Mending
from ctk.check.lint.finding import Problem
from ctk.check.lint.source import SourceFile, YamlFile, at_lines, first_difference
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.lock import parse_lock
from ctk.lock.text import dump

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

# What a release lock and its variants say of where files come from: nothing. That is the configuration of pip.
_TRACES = ("http", "://", "file:/", "/", "@")


class LockFile(YamlFile):
    """A release lock."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name)
        # The schema's problems have lines, and are those of the YAML too.
        self.lock, self.problems = parse_lock(self.text, path.stem, self._document)

    @cached_property
    def canonical(self) -> str:
        return dump(self.lock) if self.lock else self.text


class LockFollowsItsSchema(LockCheck):
    """A release lock has the fields of the schema and no others: every artefact has a file name, a sha256 of 64
    digits, a size above zero and a time, and none of them contradicts another. A wheel's name says the distribution,
    the version, the platform and the Python that the lock has it for.
    """

    fix = "write it anew: ctk release add RELEASE --write"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        yield from at_lines(lock, [p for p in lock.problems if p not in lock.broken])


class LockIsCanonical(LockCheck, Mending):
    """A release lock is written as the tool writes it: order of components and keys, quotes, line breaks. Loading and
    dumping gives the same bytes, so that a diff shows what changed and nothing else.
    """

    fix = "ctk lint --fix --write"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        if lock.lock and lock.text != lock.canonical:
            yield first_difference(lock, lock.canonical)

    def mend(self, file: SourceFile) -> str:
        return file.canonical if isinstance(file, LockFile) else file.text


class LockCoversItsTargets(LockCheck):
    """A component of the toolkit says for each of the four platforms which artefact it has there, null for none; a
    Python project has one for all, or says it for each platform and Python. Something is published for one of them.
    """

    fix = "ctk release add RELEASE --write, which asks the index for each of them"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        if lock.lock is None or not (lock.lock.is_ctk or lock.lock.name.startswith("python-")):
            return
        pythons = [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in tree.python_tags]
        expected = [list(PLATFORMS)] if lock.lock.is_ctk else [[NOARCH], pythons]
        for name, component in lock.lock.components.items():
            place = ("components", name, "artefacts")
            if list(component.artefacts) not in expected:
                lost = sorted(set(expected[-1]) - set(component.artefacts))
                yield lock.problem(place, f"{name} says nothing of {', '.join(lost) or 'the platforms'}")
            if not any(component.artefacts.values()):
                yield lock.problem(place, f"{name} has no artefact at all")


class LicenceTextIsThere(LockCheck):
    """Every component has the sha256 of a licence text: packages carry it, and a changed text has to be accepted."""

    fix = "ctk release add RELEASE --write, and look into the wheel where it finds none"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        for name, component in lock.lock.components.items() if lock.lock and lock.lock.name != "downstream" else ():
            if not component.license_texts and any(component.artefacts.values()):
                yield lock.problem(("components", name), f"{name} has no licence text")


class FactsAreMeasured(LockCheck):
    """A CTK release has the facts that its binaries say of themselves, the needed glibc for each Linux platform, and
    lacks no artefact of its manifest. Without facts nothing of it can be built.
    """

    fix = "ctk release measure RELEASE --write; for what is missing, ctk release add RELEASE --write"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        if lock.lock is None or not lock.lock.is_ctk:
            return
        if lock.lock.missing:
            yield lock.problem(("missing",), f"the release is partial: it lacks {', '.join(lock.lock.missing)}")
        if lock.lock.facts is None:
            yield lock.problem(("facts",), "its facts are not measured")
            return
        linux = {a.target for a in lock.lock.artefacts if a.target.startswith("linux-")}
        for target in sorted(linux ^ set(lock.lock.facts.glibc)):
            yield lock.problem(
                ("facts", "glibc"), f"the glibc that {target} needs is not measured, or nothing is there"
            )


class OneFileIsOneComponent(LockCheck):
    """Within a release an artefact belongs to one component; but for libNVVM and crt, which CUDA 12 has inside of
    nvcc's wheel.
    """

    fix = "ctk release add RELEASE --write; where one wheel really holds two components, say so in components.py"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        inside = {(c.name, c.inside) for c in CTK_COMPONENTS if c.inside}
        inside |= {(one, other) for one, a in inside for other, b in inside if a == b and one != other}
        seen: dict[tuple[str, str], str] = {}
        for artefact in lock.lock.artefacts if lock.lock else ():
            first = seen.setdefault((artefact.sha256, artefact.target), artefact.component)
            pair = (artefact.component, first)
            if first != artefact.component and pair not in inside and pair[::-1] not in inside:
                place = ("components", artefact.component, "artefacts", artefact.target)
                yield lock.problem(place, f"{artefact.file} is an artefact of {first} too")


class TimesAreInOrder(LockCheck):
    """The minor of a CTK release appeared before, or with, the manifest that is locked. Packages carry these times."""

    fix = "ctk release add RELEASE --write, which asks the index for both"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        if lock.lock and lock.lock.manifest and lock.lock.since > lock.lock.manifest.uploaded:
            yield lock.problem(("since",), "the minor appeared after its own manifest was uploaded")


class NothingSaysWhereFilesComeFrom(LockCheck):
    """Neither half of a release names an index, a host or a path: that is what pip is configured for, so a mirror just
    works.
    """

    fix = "ctk release add RELEASE --write, which writes none"

    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        halves = [lock, *(v for v in tree.variants if v.path == lock.path.with_suffix(".yaml"))]
        for half in halves:
            for line, text in half.code():
                trace = next((t for t in _TRACES if t in text.lower()), None)
                if trace:
                    yield half.line_problem(
                        line, f"{trace!r} says where a file comes from", text.lower().find(trace) + 1
                    )
