"""A recipe as the checks see it: outputs, sections and requirements, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ctk.check.lint.source import Place, YamlFile, listed, mapping, text_of

Home = Literal["recipes", "base", "feedstock"]
"""Whose recipe it is: of the published set, of the base channel, or of a feedstock that stands alone."""

EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
REQUIREMENTS = ("build", "host", "run", "run_constraints", "run_exports")


@dataclass(frozen=True)
class Entry:
    """One value of a list.

    Attributes:
        value: As it is written.
        place: Where.
        conditions: What has to hold for it; the inner ones last.
    """

    value: Any
    place: Place
    conditions: tuple[str, ...] = ()


def entries(values: Any, place: Place, conditions: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Every value of a list, those of both branches of a condition too."""
    pairs = [((*place, i), v) for i, v in enumerate(values)] if isinstance(values, list) else [(place, values)]
    for where, value in pairs:
        if isinstance(value, dict) and "if" in value:
            holds = str(value["if"])
            for branch, condition in (("then", holds), ("else", f"not ({holds})")):
                if branch in value:
                    yield from entries(value[branch], (*where, branch), (*conditions, condition))
        elif value is not None:
            yield Entry(value, where, conditions)


@dataclass(frozen=True)
class Block:
    """An output of a recipe, or what all of them share.

    Attributes:
        data: As it is written.
        place: Where.
    """

    data: Mapping[str, Any]
    place: Place

    def section(self, name: str) -> Mapping[str, Any]:
        return mapping(self.data.get(name))

    @property
    def name(self) -> str:
        """The name of the package that it makes, unrendered; "" for a block that makes none."""
        return text_of(self.section("package").get("name"))

    @property
    def sources(self) -> list[Entry]:
        return [e for e in entries(self.data.get("source"), (*self.place, "source")) if isinstance(e.value, dict)]

    def requirements(self, *sections: str) -> Iterator[Entry]:
        """The requirements of these sections; run exports of every kind are ``run_exports``."""
        for section in sections:
            found = self.section("requirements").get(section)
            place = (*self.place, "requirements", section)
            kinds = [((*place, k), v) for k, v in found.items()] if isinstance(found, dict) else [(place, found)]
            for where, values in kinds:
                yield from (e for e in entries(values, where) if isinstance(e.value, str))


class RecipeFile(YamlFile):
    """One recipe.

    Args:
        path: Its ``recipe.yaml``.
        name: How that is shown.
        home: Whose it is.
    """

    def __init__(self, path: Path, name: str, home: Home) -> None:
        super().__init__(path, name)
        self.home: Home = home

    @property
    def folder(self) -> Path:
        return self.path.parent

    @cached_property
    def shared(self) -> Block:
        """The recipe itself: the only output, or what all of them share."""
        return Block(self.top, ())

    @cached_property
    def blocks(self) -> list[Block]:
        """The recipe, and each of its outputs, packages or not."""
        found = self.top.get("outputs")
        inner = [Block(o, ("outputs", i)) for i, o in enumerate(listed(found)) if isinstance(o, dict)]
        return [self.shared, *inner]

    @property
    def outputs(self) -> list[Block]:
        """What is a package."""
        return [b for b in self.blocks if "package" in b.data]

    @property
    def package(self) -> str:
        """The name of the feedstock as the recipe says it."""
        return text_of(self.shared.section("recipe").get("name")) or self.shared.name

    def inherited(self, output: Block, section: str) -> Mapping[str, Any]:
        """A section of an output, with what it does not state from the recipe."""
        return {**self.shared.section(section), **output.section(section)}

    @cached_property
    def context(self) -> Mapping[str, Any]:
        return self.shared.section("context")

    @cached_property
    def conditions(self) -> list[tuple[str, Place, tuple[str, ...]]]:
        """Every condition, where it is, and those around it; that of ``skip`` holds, negated, for its whole output."""
        found: list[tuple[str, Place, tuple[str, ...]]] = []
        _conditions(self.top, (), (), found)
        return found


def _conditions(
    value: Any, place: Place, around: tuple[str, ...], found: list[tuple[str, Place, tuple[str, ...]]]
) -> None:
    if isinstance(value, list):
        for i, item in enumerate(value):
            _conditions(item, (*place, i), around, found)
        return
    if not isinstance(value, dict):
        return
    if "if" in value:
        condition = str(value["if"])
        found.append((condition, (*place, "if"), around))
        _conditions(value.get("then"), (*place, "then"), (*around, condition), found)
        _conditions(value.get("else"), (*place, "else"), (*around, f"not ({condition})"), found)
        return
    skip = mapping(value.get("build")).get("skip")
    left = tuple(str(s) for s in listed(skip) if isinstance(s, str))
    found += [(s, (*place, "build", "skip"), around) for s in left]
    inner = (*around, *(f"not ({s})" for s in left))
    for key, item in value.items():
        _conditions(item, (*place, key), inner, found)
