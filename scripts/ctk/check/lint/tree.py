"""The files of a checkout as rules see them: each read once, with the line and column of every entry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ctk.check import Finding
from ctk.core.checkout import Workspace
from ctk.core.document import Document, Place
from ctk.core.errors import CtkError
from ctk.core.platforms import PLATFORMS
from ctk.lock.components import EXCLUSIONS, Classes, Exclusions, load_exclusions
from ctk.lock.lock import ReleaseLock, in_order, parse_lock
from ctk.lock.support import SUPPORT
from ctk.plan.plan import Build, Request, Set, classified, plan, python_tags
from ctk.plan.recipes import Recipe, find_recipes

EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
REQUIREMENTS = ("build", "host", "run", "run_constraints", "run_exports")
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, or nothing where a file has something else than a mapping there."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """A list as it is, nothing as an empty one, and anything else as a list of it."""
    return value if isinstance(value, list) else [] if value is None else [value]


def text_of(value: Any) -> str:
    """The value, or "" where a file has something else than text there."""
    return value if isinstance(value, str) else ""


def one_line(error: object) -> str:
    """The text of an error, on one line and cut off."""
    return " ".join(str(error).split())[:300]


class YamlFile:
    """A YAML file. Its data is None when the text is not YAML; `broken` says where, each as ``line 3: message``."""

    def __init__(self, tree: Tree, path: Path) -> None:
        self.tree, self.path, self.name = tree, path, path.relative_to(tree.workspace.root).as_posix()
        self.unreadable = self.text = ""
        try:
            self.text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            self.unreadable = "it is not UTF-8 text"
        except OSError as error:
            self.unreadable = f"it cannot be read: {error.strerror}"

    @cached_property
    def lines(self) -> list[str]:
        """Without their ends; the line of a finding is the index here plus one."""
        return self.text.split("\n")

    def code(self) -> Iterator[tuple[int, str]]:
        """The lines, numbered from 1, without those that are comments."""
        yield from ((n, line) for n, line in enumerate(self.lines, 1) if not line.lstrip().startswith("#"))

    @cached_property
    def document(self) -> Document:
        """What is read of the text where a rule asks for it."""
        return Document(self.text, deepest=30)  # a recipe has 14

    @property
    def broken(self) -> Sequence[str]:
        return self.document.problems

    @property
    def data(self) -> Any:
        return self.document.data

    @property
    def top(self) -> Mapping[str, Any]:
        return mapping(self.data)

    def at_line(self, line: int, message: str, column: int = 1) -> Finding:
        return Finding(self.name, message, line=line, column=column)

    def at_lines(self, problems: Sequence[str]) -> Iterator[Finding]:
        """Findings that a parser wrote as ``line 3: message``."""
        for problem in problems:
            match = _LINE.fullmatch(problem)
            yield self.at_line(int(match[1]) if match else 1, match[2] if match else problem)

    def at(self, place: Place, message: str) -> Finding:
        """A finding at an entry, or at the nearest one around it that is there."""
        line, column = self.document.position(place)
        return self.at_line(line, message, column)

    def commented(self, place: Place) -> bool:
        """Whether a comment says something of an entry: on its line, or in the lines right above it."""
        while True:
            line = self.document.line(place) - 1
            if " #" in self.lines[line] or (line > 0 and self.lines[line - 1].lstrip().startswith("#")):
                return True
            # What depends on a condition is explained above the condition.
            if not any(part in ("then", "else") for part in place[-2:]):
                return False
            place = place[:-1]


@dataclass(frozen=True)
class ListEntry:
    """One value of a list, and where it is."""

    value: Any
    place: Place


def entries(values: Any, place: Place) -> Iterator[ListEntry]:
    """Every value of a list, those of both branches of a condition too."""
    pairs = [((*place, i), v) for i, v in enumerate(values)] if isinstance(values, list) else [(place, values)]
    for where, value in pairs:
        if isinstance(value, dict) and "if" in value:
            for branch in ("then", "else"):
                yield from entries(value.get(branch), (*where, branch))
        elif value is not None:
            yield ListEntry(value, where)


@dataclass(frozen=True)
class RecipeBlock:
    """An output of a recipe, or the recipe itself: the only output, or what all outputs share."""

    data: Mapping[str, Any]
    place: Place

    def section(self, name: str) -> Mapping[str, Any]:
        return mapping(self.data.get(name))

    @property
    def name(self) -> str:
        """The name of its package, unrendered; "" for a block that makes none."""
        return text_of(self.section("package").get("name"))

    @property
    def sources(self) -> list[ListEntry]:
        return [e for e in entries(self.data.get("source"), (*self.place, "source")) if isinstance(e.value, dict)]

    @property
    def script(self) -> tuple[Any, str]:
        """The build script as it is written, and the file that it names; "" for none."""
        script = self.section("build").get("script")
        return script, text_of(mapping(script).get("file"))

    def requirements(self, *sections: str) -> Iterator[ListEntry]:
        """The requirements of these sections, all of them for none; run exports of every kind are ``run_exports``."""
        for section in sections or REQUIREMENTS:
            found = self.section("requirements").get(section)
            place = (*self.place, "requirements", section)
            kinds = [((*place, k), v) for k, v in found.items()] if isinstance(found, dict) else [(place, found)]
            for where, values in kinds:
                yield from (e for e in entries(values, where) if isinstance(e.value, str))


class RecipeFile(YamlFile):
    """One ``recipe.yaml``."""

    @cached_property
    def shared(self) -> RecipeBlock:
        return RecipeBlock(self.top, ())

    @cached_property
    def blocks(self) -> list[RecipeBlock]:
        """The recipe, and each of its outputs, packages or not."""
        inner = enumerate(listed(self.top.get("outputs")))
        return [self.shared, *(RecipeBlock(o, ("outputs", i)) for i, o in inner if isinstance(o, dict))]

    @property
    def outputs(self) -> list[RecipeBlock]:
        return [block for block in self.blocks if "package" in block.data]

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.path.parent.name, self.path.parent)

    def requirements(self) -> Iterator[ListEntry]:
        """The requirements of all blocks."""
        return (entry for block in self.blocks for entry in block.requirements())

    def inherited(self, output: RecipeBlock, section: str) -> Mapping[str, Any]:
        """A section of an output, with what it does not state from the recipe."""
        return {**self.shared.section(section), **output.section(section)}


class LockFile(YamlFile):
    """A release lock. Its `document`, which is YAML as all JSON is, is for the places of findings only."""

    @cached_property
    def _parsed(self) -> tuple[ReleaseLock | None, tuple[str, ...]]:
        return parse_lock(self.text, self.path.stem)

    @property
    def broken(self) -> Sequence[str]:
        return ()  # `problems` says it

    @property
    def lock(self) -> ReleaseLock | None:
        return self._parsed[0]

    @property
    def problems(self) -> tuple[str, ...]:
        return self._parsed[1]


class VariantFile(YamlFile):
    """A file of variants; `release` is that of the lock beside it, None for the matrix and without a valid lock."""

    def __init__(self, tree: Tree, path: Path, release: ReleaseLock | None = None) -> None:
        super().__init__(tree, path)
        self.release = release


F = TypeVar("F", "LockFile", "VariantFile")


class Tree:
    """A checkout."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.unplanned: dict[str, str] = {}
        """Recipe -> why nothing can be planned of it, once `builds` was asked for."""

    @cached_property
    def recipes(self) -> list[RecipeFile]:
        return [RecipeFile(self, path) for path in sorted(self.workspace.recipes.glob("*/recipe.yaml"))]

    @cached_property
    def base(self) -> list[RecipeFile]:
        return [RecipeFile(self, path) for path in sorted(self.workspace.base_recipes.glob("*/recipe.yaml"))]

    def recipe(self, name: str) -> RecipeFile | None:
        """The published recipe of that name."""
        return next((recipe for recipe in self.recipes if recipe.path.parent.name == name), None)

    @cached_property
    def locks(self) -> list[LockFile]:
        """The release locks, that of the base channel, and that of the packages which the tests build."""
        folders = self.workspace.variants, self.workspace.base_recipes, self.workspace.root / "tests" / "downstream"
        return [LockFile(self, path) for folder in folders for path in sorted(folder.glob("*.lock"))]

    @cached_property
    def variants(self) -> list[VariantFile]:
        """The other halves of all locks."""
        pairs = [(lock, lock.path.with_suffix(".yaml")) for lock in self.locks]
        return [VariantFile(self, path, lock.lock) for lock, path in pairs if path.exists()]

    def published(self, files: Sequence[F]) -> list[F]:
        """Of these files, those that published recipes are built with."""
        return [file for file in files if file.path.parent == self.workspace.variants]

    @cached_property
    def published_variants(self) -> list[VariantFile]:
        """What published recipes are built with: the halves of the release locks, and the matrix."""
        return [*self.published(self.variants), *self.config]

    @cached_property
    def locks_by_name(self) -> dict[str, ReleaseLock]:
        """Those of ``variants/`` that are valid."""
        return {file.path.stem: file.lock for file in self.published(self.locks) if file.lock}

    @cached_property
    def config(self) -> list[VariantFile]:
        """The matrix that all recipes share; nothing where there is none."""
        path = self.workspace.build_config
        return [VariantFile(self, path)] if path.exists() else []

    @cached_property
    def exclusions(self) -> list[YamlFile]:
        """The list of what is not packaged."""
        return self.yaml_files(self.workspace.variants / EXCLUSIONS)

    @cached_property
    def support(self) -> list[YamlFile]:
        """What NVIDIA says of drivers, GPUs and vulnerabilities."""
        return self.yaml_files(self.workspace.variants / SUPPORT)

    def yaml_files(self, *paths: Path) -> list[YamlFile]:
        """Those of some files that exist."""
        return [YamlFile(self, path) for path in paths if path.exists()]

    @property
    def files(self) -> list[YamlFile]:
        """Everything that is linted."""
        recipes = (*self.recipes, *self.base)
        return [*recipes, *self.locks, *self.variants, *self.config, *self.exclusions, *self.support]

    @cached_property
    def python_tags(self) -> tuple[str, ...]:
        """The Pythons of the matrix; none where it does not say them."""
        try:
            return python_tags(self.workspace.build_config)
        except CtkError:
            return ()

    @cached_property
    def excluded(self) -> Exclusions | None:
        """What is not packaged on purpose; None where the list cannot be read, which is a finding of its own."""
        try:
            return load_exclusions(self.workspace)
        except CtkError:
            return None

    @cached_property
    def _set(self) -> Set | None:
        """The recipes with the locks; None where the rules of locks say why not."""
        own, folder = self.published(self.locks), self.workspace.variants
        if self.excluded is None or any(file.lock is None or file.problems for file in own):
            return None
        locks = {lock.name: (lock, folder / f"{lock.name}.yaml") for lock in in_order(self.locks_by_name.values())}
        if len(self.published_variants) != len(locks) + 1:
            return None
        readable = {recipe.path.parent.name for recipe in self.recipes if not recipe.unreadable}
        recipes = {n: r for n, r in find_recipes(self.workspace.recipes).items() if n in readable}
        return Set(recipes, locks, (self.workspace.build_config,), self.excluded.excluded)

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """Every build of every release and platform, as far as it can be planned; `unplanned` has the rest."""
        found: list[Build] = []
        if (everything := self._set) is None:
            return ()
        for name in everything.recipes:
            request = Request(recipes=(name,), platforms=tuple(PLATFORMS))
            try:
                found += plan(everything, request, self.python_tags).builds
            except CtkError as error:
                self.unplanned[name] = error.cause
        return tuple(found)

    @cached_property
    def classes(self) -> dict[str, Classes]:
        """Which components of each CTK release are packaged, excluded or neither, where that can be planned."""
        try:
            return classified(self.workspace, self._set) if self._set else {}
        except CtkError:
            return {}
