"""Which tests evaluate which expressions: what `mutants.py` measures once before it runs mutants.

Each expression is made `(hit(number), expression)[1]`. As a plugin of pytest (`-p reached`), the
module also writes how long each test took and whether it passed. Both go to the file that REACHED
names, a line for each, since commands that a test starts write there, too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_written: set[tuple[int, str]] = set()


def hit(number: int) -> None:
    """Writes the number of an expression, the first time in a test."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test and (number, test) not in _written:
        _written.add((number, test))
        _write({"expression": number, "test": test})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes the seconds of each phase of a test."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the process that has started it is told, too
    line = {"test": report.nodeid, "seconds": report.duration, "passed": not report.failed}
    _write(line)


def _write(line: dict[str, object]) -> None:
    if file := os.environ.get("REACHED"):
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")  # short enough to be written at once


@dataclass
class Reached:
    """What a run of the tests has written.

    Attributes:
        tests: Number of an expression -> the tests that evaluate it.
        seconds: Test -> how long it took with its fixtures.
        failed: Tests that failed.
    """

    tests: dict[int, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, file: Path) -> Reached:
        """What is in a file."""
        found = cls()
        for text in file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            test = line["test"]
            if "expression" in line:
                found.tests.setdefault(line["expression"], set()).add(test)
                continue
            found.seconds[test] = found.seconds.get(test, 0) + line["seconds"]
            if not line["passed"]:
                found.failed.add(test)
        return found

    def quickest(self, number: int, most: float) -> list[str]:
        """The tests of an expression that pass, quickest first, as many as `most` seconds allow."""
        usable = [test for test in self.tests.get(number, ()) if test in self.seconds]
        passed = sorted(set(usable) - self.failed, key=lambda test: (self.seconds[test], test))
        chosen: list[str] = []
        total = 0.0
        for test in passed:
            total += self.seconds[test]
            if chosen and total > most:
                break
            chosen.append(test)
        return chosen
