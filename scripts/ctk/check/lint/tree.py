"""The files of a checkout as rules see them: each read once, with the line and column of every entry."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import rattler_build

from ctk.check import Check, Finding, Severity
from ctk.core.checkout import Workspace
from ctk.core.document import LARGEST, Document, Place
from ctk.core.errors import CtkError
from ctk.core.platforms import PLATFORMS
from ctk.lock.components import EXCLUSIONS, Classes, Exclusions, load_exclusions
from ctk.lock.lock import ReleaseLock, dump, in_order, parse_lock, release_locks, variant_config, variant_keys
from ctk.lock.support import SUPPORT
from ctk.plan.plan import Build, Request, Set, classified, plan, python_tags
from ctk.plan.recipes import Recipe, find_recipes

Home = Literal["recipes", "base", "feedstock"]
"""Whose recipe it is: of the published set, of the base channel, or of a feedstock that stands alone."""

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


class SourceFile:
    """A text file. One that cannot be read is empty, and `unreadable` says why."""

    def __init__(self, tree: Tree, path: Path) -> None:
        self.tree, self.path, self.name = tree, path, tree.shown(path)
        self.unreadable = text = ""
        try:
            with path.open(encoding="utf-8", newline="") as file:
                text = file.read(LARGEST + 1)
        except UnicodeDecodeError:
            self.unreadable = "it is not UTF-8 text"
        except OSError as error:
            self.unreadable = f"it cannot be read: {error.strerror}"
        if len(text) > LARGEST:  # a part of it would be written back as the whole
            self.unreadable = f"it has more than {LARGEST} characters"
        self.parse("" if self.unreadable else text)

    def parse(self, text: str) -> None:
        self.text = text

    def with_text(self, text: str) -> Self:
        """The file as it would be with another text."""
        new = copy.copy(self)
        for name in [name for name in vars(new) if isinstance(getattr(type(new), name, None), cached_property)]:
            delattr(new, name)
        new.parse(text)
        return new

    @cached_property
    def lines(self) -> list[str]:
        """Without their ends; the line of a finding is the index here plus one."""
        return self.text.split("\n")

    def code(self) -> Iterator[tuple[int, str]]:
        """The lines, numbered from 1, without those that are comments."""
        yield from ((n, line) for n, line in enumerate(self.lines, 1) if not line.lstrip().startswith("#"))

    def at_line(self, line: int, message: str, column: int = 1, fix: str = "") -> Finding:
        return Finding(self.name, message, line=line, column=column, fix=fix)

    def at_lines(self, problems: Sequence[str]) -> Iterator[Finding]:
        """Findings that a parser wrote as ``line 3: message``."""
        for problem in problems:
            match = _LINE.fullmatch(problem)
            yield self.at_line(int(match[1]) if match else 1, match[2] if match else problem)

    def first_difference(self, wanted: str) -> Iterator[Finding]:
        """The first line at which the text is not the wanted one, if there is one."""
        for number, (line, expected) in enumerate(zip_longest(self.lines, wanted.split("\n")), 1):
            if line is None:
                yield self.at_line(number - 1, "lines are missing at the end")
            elif line != expected:
                said = "nothing here" if expected is None else repr(_cut(expected))
                yield self.at_line(number, f"the tool writes {said}, not {_cut(line)!r}")
            if line != expected:
                return


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 60 else f"{text[:60]}..."


class YamlFile(SourceFile):
    """A YAML file. Its data is None when the text is not YAML; `broken` says where, each as ``line 3: message``."""

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

    @property
    def scalars(self) -> Any:
        return self.document.scalars

    def line(self, place: Place) -> int:
        """The line of an entry, or of the nearest one around it that is there."""
        return self.document.line(place)

    def at(self, place: Place, message: str) -> Finding:
        """A finding at an entry, or at the nearest one around it that is there."""
        line, column = self.document.position(place)
        return self.at_line(line, message, column)

    def commented(self, place: Place) -> bool:
        """Whether a comment says something of an entry: on its line, or in the lines right above it."""
        while True:
            line = self.line(place) - 1
            if " #" in self.lines[line] or (line > 0 and self.lines[line - 1].lstrip().startswith("#")):
                return True
            # What depends on a condition is explained above the condition.
            if not any(part in ("then", "else") for part in place[-2:]):
                return False
            place = place[:-1]

    def quoted(self, places: Sequence[Place]) -> str:
        """The text with these scalars in quotes."""
        lines = list(self.lines)
        # From the end, so that the columns of what comes before stay right.
        for node in reversed([self.scalars[place] for place in places]):
            row, start, end = node.start_mark.line, node.start_mark.column, node.end_mark.column
            lines[row] = f'{lines[row][:start]}"{node.value}"{lines[row][end:]}'
        return "\n".join(lines)


@dataclass(frozen=True)
class ListEntry:
    """One value of a list, where it is, and the conditions that it depends on, the inner ones last."""

    value: Any
    place: Place
    conditions: tuple[str, ...] = ()


def entries(values: Any, place: Place, conditions: tuple[str, ...] = ()) -> Iterator[ListEntry]:
    """Every value of a list, those of both branches of a condition too."""
    pairs = [((*place, i), v) for i, v in enumerate(values)] if isinstance(values, list) else [(place, values)]
    for where, value in pairs:
        if isinstance(value, dict) and "if" in value:
            for branch, condition in _branches(value).items():
                yield from entries(value.get(branch), (*where, branch), (*conditions, condition))
        elif value is not None:
            yield ListEntry(value, where, conditions)


def _branches(value: Mapping[str, Any]) -> Mapping[str, str]:
    """The branches of a condition, each with what holds in it."""
    return {"then": str(value["if"]), "else": f"not ({value['if']})"}


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

    def __init__(self, tree: Tree, path: Path, home: Home) -> None:
        super().__init__(tree, path)
        self.home: Home = home
        self.folder = path.parent

    def parse(self, text: str) -> None:
        super().parse(text)
        self.shared = RecipeBlock(self.top, ())
        inner = enumerate(listed(self.top.get("outputs")))
        self.blocks = [self.shared, *(RecipeBlock(o, ("outputs", i)) for i, o in inner if isinstance(o, dict))]
        """The recipe, and each of its outputs, packages or not."""
        self.outputs = [block for block in self.blocks if "package" in block.data]
        self.context = self.shared.section("context")

    def requirements(self, *sections: str) -> Iterator[ListEntry]:
        """The requirements of all blocks, in these sections or in all of them."""
        return (entry for block in self.blocks for entry in block.requirements(*sections))

    def inherited(self, output: RecipeBlock, section: str) -> Mapping[str, Any]:
        """A section of an output, with what it does not state from the recipe."""
        return {**self.shared.section(section), **output.section(section)}

    @cached_property
    def conditions(self) -> list[tuple[str, Place, tuple[str, ...]]]:
        """Every condition, where it is, and those around it; that of ``skip`` holds, negated, for its whole output."""
        return list(_conditions(self.top, (), ()))

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The recipe's own ``conda-forge.yml``."""
        folder = self.folder.parent if self.home == "feedstock" else self.folder
        return next((file.top for file in self.tree.yaml_files(folder / "conda-forge.yml")), {})

    @cached_property
    def scripts(self) -> list[ScriptFile]:
        """The scripts that the recipe runs, and those in its folder that it installs."""
        scripts = [(text_of(script), file) for script, file in (block.script for block in self.blocks)]
        # A script may be a name alone, and build.sh runs without being named.
        names = [file or (name if name.endswith((".sh", ".bat")) else "") for name, file in scripts]
        names += re.findall(r"\bEDIT: *([\w.-]+)", self.text)  # what recipes/common/wheel.sh starts
        runs = {(self.folder / name).resolve() for name in (*filter(None, names), "build.sh", "build.bat")}
        there = {p.resolve() for p in self.folder.glob("*") if p.suffix in (".sh", ".bat")}
        # Unlike that of a Path, this answers for any text: a recipe may name a script that no system could have.
        found = [path for path in sorted(runs | there) if os.path.isfile(path)]
        return [ScriptFile(self.tree, path, path in runs) for path in found]


def _conditions(value: Any, place: Place, around: tuple[str, ...]) -> Iterator[tuple[str, Place, tuple[str, ...]]]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _conditions(item, (*place, i), around)
    elif isinstance(value, dict) and "if" in value:
        yield str(value["if"]), (*place, "if"), around
        for branch, condition in _branches(value).items():
            yield from _conditions(value.get(branch), (*place, branch), (*around, condition))
    elif isinstance(value, dict):
        skips = [s for s in listed(mapping(value.get("build")).get("skip")) if isinstance(s, str)]
        yield from ((s, (*place, "build", "skip"), around) for s in skips)
        for key, item in value.items():
            yield from _conditions(item, (*place, key), (*around, *(f"not ({s})" for s in skips)))


class ScriptFile(SourceFile):
    """A script of a recipe, which runs it to build, or installs it to be sourced at activation."""

    def __init__(self, tree: Tree, path: Path, builds: bool) -> None:
        super().__init__(tree, path)
        self.builds = builds
        self.is_shell = path.suffix in (".sh", "")


class LockFile(YamlFile):
    """A release lock; `problems` are those of the YAML too."""

    @cached_property
    def _parsed(self) -> tuple[ReleaseLock | None, tuple[str, ...]]:
        known = self.tree.known_locks.get(self.text)
        return (known, ()) if known else parse_lock(self.text, self.path.stem)

    @property
    def lock(self) -> ReleaseLock | None:
        return self._parsed[0]

    @property
    def problems(self) -> tuple[str, ...]:
        return self._parsed[1]

    @cached_property
    def canonical(self) -> str:
        """The text as the tool writes it."""
        return dump(self.lock) if self.lock else self.text


class VariantFile(YamlFile):
    """A file of variants; `release` is that of the lock beside it, None for the matrix and without a valid lock."""

    def __init__(self, tree: Tree, path: Path, release: ReleaseLock | None = None) -> None:
        super().__init__(tree, path)
        self.release = release

    @cached_property
    def canonical(self) -> str:
        """The text as the tool writes it."""
        return variant_config(self.release) if self.release else self.text

    @cached_property
    def refused(self) -> str:
        """Why rattler-build cannot read the file; "" when it can."""
        try:
            rattler_build.VariantConfig.from_file(self.path)
        except Exception as error:  # whatever its parser says
            return one_line(error)
        return ""


F = TypeVar("F", "LockFile", "VariantFile")


class Tree:
    """A checkout, feedstocks that stand alone, and the git revision that was published where the user names it."""

    def __init__(self, workspace: Workspace, feedstocks: Sequence[Path] = (), base: str | None = None) -> None:
        self.workspace, self.revision = workspace, base
        self.unplanned: dict[str, str] = {}
        """Recipe -> why nothing can be planned of it, once `builds` was asked for."""
        self.feedstocks = [RecipeFile(self, path, "feedstock") for path in feedstocks]

    def shown(self, path: Path) -> str:
        """A path as a finding names it: below the checkout, or whole."""
        root = self.workspace.root
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()

    @cached_property
    def recipes(self) -> list[RecipeFile]:
        return [RecipeFile(self, path, "recipes") for path in sorted(self.workspace.recipes.glob("*/recipe.yaml"))]

    @cached_property
    def base(self) -> list[RecipeFile]:
        return [RecipeFile(self, path, "base") for path in sorted(self.workspace.base_recipes.glob("*/recipe.yaml"))]

    @property
    def every_recipe(self) -> list[RecipeFile]:
        return [*self.recipes, *self.base, *self.feedstocks]

    def recipe(self, name: str) -> RecipeFile | None:
        """The published recipe of that name."""
        return next((recipe for recipe in self.recipes if recipe.folder.name == name), None)

    @cached_property
    def locks(self) -> list[LockFile]:
        """The release locks, that of the base channel, and that of the packages which the tests build."""
        folders = self.workspace.variants, self.workspace.base_recipes, self.workspace.root / "tests" / "downstream"
        return [LockFile(self, path) for folder in folders for path in sorted(folder.glob("*.lock"))]

    @cached_property
    def known_locks(self) -> dict[str, ReleaseLock]:
        """Text -> lock, of those in ``variants/`` where all were found valid before."""
        try:
            locks = release_locks(self.workspace)
        except CtkError:
            return {}
        texts = {file.path.stem: file.text for file in self.of_home(self.locks, "recipes")}
        return {texts[name]: lock for name, lock in locks.items() if name in texts}

    @cached_property
    def variants(self) -> list[VariantFile]:
        """The other halves of all locks."""
        pairs = [(lock, lock.path.with_suffix(".yaml")) for lock in self.locks]
        return [VariantFile(self, path, lock.lock) for lock, path in pairs if path.exists()]

    def of_home(self, files: Sequence[F], home: Home) -> list[F]:
        """Of these files, those that the recipes of the base channel, or all others, are built with."""
        folder = self.workspace.base_recipes if home == "base" else self.workspace.variants
        return [file for file in files if file.path.parent == folder]

    @cached_property
    def published_variants(self) -> list[VariantFile]:
        """What published recipes are built with: the halves of the release locks, and the matrix."""
        return [*self.of_home(self.variants, "recipes"), *self.config]

    @cached_property
    def locks_by_name(self) -> dict[str, ReleaseLock]:
        """Those of ``variants/`` that are valid."""
        return {file.path.stem: file.lock for file in self.of_home(self.locks, "recipes") if file.lock}

    @cached_property
    def config(self) -> list[VariantFile]:
        """The matrix that all recipes share; nothing where there is none."""
        path = self.workspace.build_config
        return [VariantFile(self, path)] if path.exists() else []

    @cached_property
    def settings(self) -> list[YamlFile]:
        """The files that conda-smithy reads: first that of all recipes, then those of one each."""
        own = sorted(self.workspace.recipes.glob("*/conda-forge.yml"))
        return self.yaml_files(self.workspace.root / "conda-forge.yml", *own)

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

    @cached_property
    def scripts(self) -> list[ScriptFile]:
        """Each script of a recipe, once."""
        found = {script.path: script for recipe in self.every_recipe for script in recipe.scripts}
        return [found[path] for path in sorted(found)]

    @property
    def files(self) -> list[SourceFile]:
        """Everything that is linted."""
        yaml = (*self.every_recipe, *self.locks, *self.variants, *self.config, *self.settings)
        return [*yaml, *self.exclusions, *self.support, *self.scripts]

    @cached_property
    def python_tags(self) -> tuple[str, ...]:
        """The Pythons of the matrix; none where it does not say them."""
        try:
            return python_tags(self.workspace.build_config)
        except CtkError:
            return ()

    def variants_for(self, recipe: RecipeFile) -> list[dict[str, list[Any]]]:
        """The values of the variant keys, for each release that the recipe is built for."""
        shared = {key: listed(values) for file in self.config for key, values in file.top.items()}
        if recipe.home == "base":
            base = self.of_home(self.variants, "base")
            return [shared | {key: listed(values) for file in base for key, values in file.top.items()}]
        if recipe.unreadable:
            return []
        keys = {name: variant_keys(lock) for name, lock in self.locks_by_name.items()}
        known = {key for of in keys.values() for key in of} - shared.keys() | {"cuda_version", "cuda_major"}
        wanted = Recipe(recipe.folder.name, recipe.folder).names_needed & known
        return [shared | of for of in keys.values() if wanted <= of.keys()]

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
        own, folder = self.of_home(self.locks, "recipes"), self.workspace.variants
        variants = [file for file in self.published_variants if not file.refused]
        if self.excluded is None or any(file.lock is None or file.problems for file in own):
            return None
        locks = {lock.name: (lock, folder / f"{lock.name}.yaml") for lock in in_order(self.locks_by_name.values())}
        if len(variants) != len(locks) + 1:
            return None
        readable = {recipe.folder.name for recipe in self.recipes if not recipe.unreadable}
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


EVERYWHERE: Mapping[Home, Severity] = {"recipes": "error", "base": "error", "feedstock": "error"}
OURS: Mapping[Home, Severity] = {"recipes": "error", "base": "error"}
PUBLISHED: Mapping[Home, Severity] = {"recipes": "error"}
PUBLIC: Mapping[Home, Severity] = {"recipes": "error", "base": "hint", "feedstock": "error"}
ALONE: Mapping[Home, Severity] = {"feedstock": "error"}
ADVICE: Mapping[Home, Severity] = {"recipes": "hint", "base": "hint", "feedstock": "hint"}


def recipe_rule(
    fix: str, homes: Mapping[Home, Severity] = EVERYWHERE, autofix: Callable[[RecipeFile], str] | None = None
) -> Callable[[Callable[[RecipeFile], Iterator[Finding]]], Check[RecipeFile]]:
    """Makes a check of a function, for recipes of some homes, and whether it blocks there.

    Recipes of the base channel, which is never published, and feedstocks that stand alone differ from ours on purpose.
    """

    def make(run: Callable[[RecipeFile], Iterator[Finding]]) -> Check[RecipeFile]:
        @wraps(run)
        def run_at_home(recipe: RecipeFile) -> Iterator[Finding]:
            if recipe.home in homes:
                yield from (replace(f, severity=f.severity or homes[recipe.home]) for f in run(recipe))

        worst: Severity = "error" if "error" in homes.values() else "hint"
        return Check(run.__name__, RecipeFile, run_at_home, fix, worst, autofix)

    return make
