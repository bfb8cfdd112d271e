"""`ctk lint`: recipes, release locks and variant files held to written rules, before anything is built."""

from ctk.check.lint.check import Check
from ctk.check.lint.checks import CHECKS, by_name
from ctk.check.lint.finding import Finding
from ctk.check.lint.mending import mended
from ctk.check.lint.run import LintReport, lint, tree_of

__all__ = ["CHECKS", "Check", "Finding", "LintReport", "by_name", "lint", "mended", "tree_of"]
