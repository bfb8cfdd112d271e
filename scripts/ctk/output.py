"""What a run prints, and where: results on stdout, what happens meanwhile on stderr, and with --json one document.

A command's options and those of the groups around it set the `Mode` of the run; whoever prints asks `mode()`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctk.errors import CtkError


@dataclass
class Mode:
    """How one run speaks.

    Attributes:
        json: stdout gets one JSON document and nothing else.
        level: -1 for results and errors only, 0 for what happens as well, 1 for each step of it.
        debug: Errors come with a traceback.
        document: What the JSON document will hold.
        printed: Whether it was printed.
    """

    json: bool = False
    level: int = 0
    debug: bool = False
    document: dict[str, Any] = field(default_factory=dict)
    printed: bool = False

    @property
    def quiet(self) -> bool:
        return self.level < 0

    @property
    def verbose(self) -> bool:
        return self.level > 0


_mode = Mode()


def mode() -> Mode:
    """That of this run."""
    return _mode


def begin() -> None:
    """A new run, in which nothing is set yet."""
    global _mode
    _mode = Mode()


def add(values: Mapping[str, Any]) -> None:
    """Adds keys to the JSON document of this run; without --json nothing is printed of them."""
    mode().document.update(values)


def finish(error: CtkError | None = None) -> None:
    """Prints the JSON document, with the error that ended the run; once, and only with --json.

    What a command found before it failed stays in the document.
    """
    now = mode()
    # What ends a run early may come before the option was read.
    wanted = now.json or (error is not None and "--json" in sys.argv)
    if wanted and not now.printed:
        now.printed = True
        said = {} if error is None else {"error": as_json(error)}
        json.dump({**now.document, **said}, sys.stdout, indent=2, default=str)
        sys.stdout.write("\n")
        sys.stdout.flush()


def as_json(error: CtkError) -> dict[str, Any]:
    """An error in the document: its class, cause, next step and exit code."""
    return {
        "kind": type(error).__name__,
        "cause": error.cause,
        "next": error.step or None,
        "exit_code": error.exit_code,
    }
