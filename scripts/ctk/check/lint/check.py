"""What a check is: one small class, whose name is its id and skip key, and whose docstring is its help."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from inspect import getdoc
from typing import TYPE_CHECKING, ClassVar

from ctk.check.lint.finding import Problem
from ctk.check.lint.recipe import Home, RecipeFile
from ctk.check.lint.source import SourceFile, YamlFile
from ctk.check.verdict import Severity

if TYPE_CHECKING:
    from ctk.check.lint.locks import LockFile
    from ctk.check.lint.scripts import ScriptFile
    from ctk.check.lint.tree import Tree
    from ctk.check.lint.variants import VariantFile

EVERYWHERE: Mapping[Home, Severity] = {"recipes": "error", "base": "error", "feedstock": "error"}
ADVICE: Mapping[Home, Severity] = {"recipes": "hint", "base": "hint", "feedstock": "hint"}
OURS: Mapping[Home, Severity] = {"recipes": "error", "base": "error"}
PUBLISHED: Mapping[Home, Severity] = {"recipes": "error"}
PUBLIC: Mapping[Home, Severity] = {"recipes": "error", "base": "hint", "feedstock": "error"}
ALONE: Mapping[Home, Severity] = {"feedstock": "error"}
ALONE_ADVICE: Mapping[Home, Severity] = {"feedstock": "hint"}


class Check(ABC):
    """A rule.

    Attributes:
        fix: What to do about a problem, where the problem does not say it better.
        severity: Whether a problem blocks.
    """

    fix: ClassVar[str]
    severity: ClassVar[Severity] = "error"

    @classmethod
    def id(cls) -> str:
        return cls.__name__

    @classmethod
    def help(cls) -> str:
        return " ".join((getdoc(cls) or "").split())


class Mending:
    """A check whose problems can be mended without a thought."""

    @abstractmethod
    def mend(self, file: SourceFile) -> str:
        """The text of a file without the problems of this check."""


class FileCheck(Check):
    """A rule for the text of any file that is linted."""

    @abstractmethod
    def check(self, file: SourceFile) -> Iterator[Problem]:
        """What is wrong with the file."""


class YamlCheck(Check):
    """A rule for any YAML file that is linted."""

    @abstractmethod
    def check(self, file: YamlFile) -> Iterator[Problem]:
        """What is wrong with the file."""


class RecipeCheck(Check):
    """A rule for one recipe.

    Attributes:
        homes: For whose recipes it is, and whether it blocks there: those of the base channel, which is never
            published, and feedstocks that stand alone differ from ours on purpose.
    """

    homes: ClassVar[Mapping[Home, Severity]] = EVERYWHERE

    @abstractmethod
    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        """What is wrong with the recipe, which may have anything anywhere."""


class ScriptCheck(Check):
    """A rule for a script of a recipe."""

    @abstractmethod
    def check(self, script: ScriptFile) -> Iterator[Problem]:
        """What is wrong with the script."""


class LockCheck(Check):
    """A rule for one release lock."""

    @abstractmethod
    def check(self, lock: LockFile, tree: Tree) -> Iterator[Problem]:
        """What is wrong with the lock."""


class VariantCheck(Check):
    """A rule for a file of variants: the half of a release that recipes read, or the matrix that they share."""

    @abstractmethod
    def check(self, file: VariantFile, tree: Tree) -> Iterator[Problem]:
        """What is wrong with the file."""


class TreeCheck(Check):
    """A rule for the files of a checkout together."""

    @abstractmethod
    def check(self, tree: Tree) -> Iterator[Problem]:
        """What is wrong with the checkout."""
