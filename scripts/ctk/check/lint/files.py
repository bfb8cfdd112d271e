"""Checks of any file: that it can be read, and that nothing in it is only seen by a diff."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ctk.check.lint.check import FileCheck, Mending, YamlCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.locks import LockFile
from ctk.check.lint.source import SourceFile, YamlFile, at_lines

# Folders that are somebody's: homes, temporary ones, drives of Windows.
_MACHINE = re.compile(r"(?<![\w.}$/-])(/(?:home|root|Users|tmp|work|mnt|opt|media|srv)/[\w./-]+|[A-Z]:\\\w[\w\\.-]*)")


class FileCanBeRead(FileCheck):
    """A file that is linted exists, can be read, and is UTF-8 text."""

    fix = "name another file, or save it as UTF-8"

    def check(self, file: SourceFile) -> Iterator[Problem]:
        if file.unreadable:
            yield file.line_problem(1, file.unreadable)


class FileIsYaml(YamlCheck):
    """A recipe, a lock or a file of variants is YAML without surprises: no key twice, no anchors, no tags, not nested
    without end; and a mapping at its top.
    """

    fix = "mend the line that is named"

    def check(self, file: YamlFile) -> Iterator[Problem]:
        _ = file.data
        yield from at_lines(file, list(file.broken))
        if (
            not file.broken
            and not file.unreadable
            and not isinstance(file.data, dict)
            and not isinstance(file, LockFile)
        ):
            yield file.line_problem(1, "the file is no mapping of keys to values")


class NoStraySpace(FileCheck, Mending):
    """No line ends with a space, none has a tab where YAML counts spaces or ends with a carriage return, and the file
    ends with exactly one line end (conda-smithy's R-011 and R-012).
    """

    fix = "ctk lint --fix --write"

    def check(self, file: SourceFile) -> Iterator[Problem]:
        for number, line in enumerate(file.lines, 1):
            if line != line.rstrip():
                end = "a carriage return" if line.endswith("\r") else "a space"
                yield file.line_problem(number, f"the line ends with {end}", len(line.rstrip()) + 1)
            if isinstance(file, YamlFile) and "\t" in line[: len(line) - len(line.lstrip())]:
                yield file.line_problem(number, "the line is indented with a tab", fix="indent with spaces")
        if file.text and not file.text.endswith("\n"):
            yield file.line_problem(len(file.lines), "the last line has no end")
        if file.text.endswith("\n\n"):
            yield file.line_problem(len(file.lines) - 1, "there are empty lines at the end")

    def mend(self, file: SourceFile) -> str:
        text = "\n".join(line.rstrip() for line in file.lines).rstrip("\n")
        return f"{text}\n" if text else ""


class NoPathOfAMachine(FileCheck):
    """Nothing names a folder of one machine: a recipe is built anywhere."""

    fix = "write a path below $PREFIX, $SRC_DIR or $RECIPE_DIR"

    def check(self, file: SourceFile) -> Iterator[Problem]:
        for number, line in enumerate(file.lines, 1):
            if match := _MACHINE.search(line):
                yield file.line_problem(number, f"{match[1]} is a folder of one machine", match.start() + 1)
