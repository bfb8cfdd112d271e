"""Recipes: the files of a feedstock, and what they say before they are rendered."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import rattler_build

from ctk.core.document import as_list
from ctk.core.errors import RecipeError
from ctk.core.files import open_plain, read_plain, read_plain_text
from ctk.lock.derived import KINDS
from ctk.plan.commits import last_commit
from ctk.plan.messages import message_of

_SHARED = re.compile(r"\bfile:\s*(\.\./[^\s,}]+)")
_OWN_SOURCE = re.compile(r"\bpath:\s*\.\./\.\./(?!\.cache/)([\w./-]+)")
"""A source of a recipe that is a part of the checkout, by its path there."""
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_read = rattler_build.Stage0Recipe.from_file
_NAME = re.compile(r"\b[a-z_][a-z0-9_]*\b")
_DEFINED = re.compile(r"\b([a-z_][a-z0-9_]*) is defined\b")
_READS = re.compile(
    r"\.cache/artefacts/([\w-]+?)(?:-cu\$\{\{ *cuda_major *\}\})?/"
    # Nothing of the artefact but names is in what is made of it.
    rf"(?!.*-(?:{'|'.join(KINDS)})\.zip)"
)


@dataclass(frozen=True)
class Recipe:
    """A feedstock folder."""

    name: str
    folder: Path
    # The last commit that changed it, if known without a checkout (`recipe_commit`).
    commit: str | None = None

    @property
    def file(self) -> Path:
        return self.folder / "recipe.yaml"

    @cached_property
    def names_used(self) -> frozenset[str]:
        """The identifiers in the recipe's expressions and conditions, with its variant keys."""
        return frozenset(name for part in self._code for name in _NAME.findall(part))

    @cached_property
    def names_needed(self) -> frozenset[str]:
        """`names_used` without the names that a condition tests with ``is defined``."""
        return self.names_used - {name for part in self._code for name in _DEFINED.findall(part)}

    @cached_property
    def _code(self) -> tuple[str, ...]:
        return tuple(_code(self._stage0))

    @cached_property
    def _stage0(self) -> Mapping[str, Any]:
        """The recipe as rattler-build parses it, with unrendered expressions."""
        stage0: dict[str, Any] = parse_recipe(self.file).to_dict()
        return stage0

    @property
    def output_names(self) -> tuple[str, ...]:
        """Unrendered names of all outputs."""
        outputs = self._stage0.get("outputs") or [self._stage0]
        return tuple(str(output["package"]["name"]) for output in outputs if "package" in output)

    @cached_property
    def skip_conditions(self) -> Mapping[str, str]:
        """Unrendered output name -> the condition under which the recipe skips the output."""
        found = {}
        for output in self._stage0.get("outputs") or [self._stage0]:
            skip = (output.get("build") or {}).get("skip") or (self._stage0.get("build") or {}).get(
                "skip"
            )
            if "package" in output and skip:
                found[str(output["package"]["name"])] = " or ".join(map(str, as_list(skip)))
        return found

    @cached_property
    def components(self) -> tuple[str, ...]:
        """The components whose artefacts it reads, without a CUDA major, in the file's order."""
        text = read_plain_text(self.file)
        return tuple(dict.fromkeys(_READS.findall(text)))

    def shared_folders(self) -> frozenset[Path]:
        """Other folders that the recipe takes scripts from; they may not exist."""
        text = read_plain_text(self.file)
        return frozenset((self.folder / name).resolve().parent for name in _SHARED.findall(text))

    @cached_property
    def own_sources(self) -> tuple[str, ...]:
        """The parts of the checkout that are sources of the recipe, by their paths there."""
        return tuple(_OWN_SOURCE.findall(read_plain_text(self.file)))

    def files(self) -> Iterator[Path]:
        """The files that can change the recipe's packages, also shared ones, in a fixed order."""
        yield from self._files

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        places = [self.folder, *sorted(self.shared_folders())]
        places += [self.folder.parents[1] / place for place in self.own_sources]
        found: list[Path] = []
        for place in places:
            found += sorted(_files_of(place))
        return tuple(found)


def _files_of(place: Path) -> Iterator[Path]:
    """A file, or the files below a folder, without what Python makes when it runs."""
    if place.is_file():
        yield place
    for file in place.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _code(part: Any) -> Iterator[str]:
    """The expressions and conditions in a part of an unrendered recipe."""
    if isinstance(part, str):
        yield from _EXPRESSION.findall(part)
    elif isinstance(part, list):
        for item in part:
            yield from _code(item)
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key in ("if", "skip"):
                yield from map(str, as_list(value))
            yield from _code(value)


def find_recipes(folder: Path) -> dict[str, Recipe]:
    """The feedstocks in a folder, by name."""
    return {
        p.parent.name: Recipe(p.parent.name, p.parent) for p in sorted(folder.glob("*/recipe.yaml"))
    }


def makers_of(package: str, recipes: Mapping[str, Recipe]) -> list[str]:
    """Names of the recipes that make a package.

    An expression in an output's name stands for any text.
    """
    return [
        name
        for name, recipe in recipes.items()
        if any(is_output(package, output) for output in recipe.output_names)
    ]


def is_output(package: str, output: str) -> bool:
    """Whether a package can be an output with an unrendered name.

    An expression in the name stands for any text.
    """
    pattern = ".+".join(map(re.escape, re.split(r"\$\{\{.*?\}\}", output)))
    return re.fullmatch(pattern, package) is not None


def maker_of(package: str, recipes: Mapping[str, Recipe]) -> str | None:
    """The first of `makers_of`, or None."""
    return next(iter(makers_of(package, recipes)), None)


def parse_recipe(file: Path) -> Any:
    """A recipe as rattler-build parses it, with unrendered expressions.

    Raises:
        RecipeError: The file cannot be read or parsed, with rattler-build's message.
    """
    with suppress(IsADirectoryError), open_plain(file):
        pass  # rattler-build would wait for a pipe
    try:
        return _read(file)
    except Exception as error:
        raise RecipeError(
            message_of(file, error), "correct it, and run the command again"
        ) from error


def recipe_digest(recipe: Recipe) -> str:
    """sha256 of the names and contents of a recipe's files, independent of the checkout's path."""
    digest = hashlib.sha256()
    for file in recipe.files():
        name = os.path.relpath(file, recipe.folder)
        digest.update(f"{name}\0{hashlib.sha256(read_plain(file)).hexdigest()}\1".encode())
    return digest.hexdigest()


def recipe_commit(recipe: Recipe) -> str:
    """The last commit that changed a recipe's files.

    "" outside a git checkout, with uncommitted changes, and in a shallow clone without that commit,
    since a wrong commit would be worse than none.
    """
    if recipe.commit is not None:
        return recipe.commit
    return last_commit(recipe.folder.parent, tuple(recipe.files()))
