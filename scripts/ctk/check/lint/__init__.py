"""`ctk lint`: recipes, release locks and variant files held to written rules, before anything is built."""

from ctk.check.lint.run import CHECKS, LintReport, fixed, lint, tree_of

__all__ = ["CHECKS", "LintReport", "fixed", "lint", "tree_of"]
