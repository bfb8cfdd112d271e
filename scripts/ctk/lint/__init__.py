"""`ctk lint`: recipes, release locks and variant files held to written rules, before anything is built."""

from ctk.lint.check import Check
from ctk.lint.checks import CHECKS, by_name
from ctk.lint.finding import Finding
from ctk.lint.mending import mended
from ctk.lint.run import LintReport, lint, tree_of

__all__ = ["CHECKS", "Check", "Finding", "LintReport", "by_name", "lint", "mended", "tree_of"]
