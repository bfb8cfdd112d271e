"""What a check is, and how all of them are made: at the same time, each within a limit, none able to end the run."""

from __future__ import annotations

import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ctk.core.checkout import Workspace
from ctk.core.errors import without_credentials

LIMIT = 10.0  # seconds for all checks together


class State(StrEnum):
    """What is the case."""

    OK = "ok"
    MISSING = "missing"  # and nothing of the main job needs it
    PROBLEM = "problem"


@dataclass(frozen=True)
class Seen:
    """What a check saw.

    Attributes:
        state: How it is.
        text: A sentence, or what was found.
        step: What to do about it; "" where there is nothing to do.
    """

    state: State
    text: str
    step: str = ""


@dataclass(frozen=True)
class Where:
    """What the checks look at.

    Attributes:
        workspace: The checkout.
        offline: Whether the network is left alone.
    """

    workspace: Workspace
    offline: bool = False


class Check(ABC):
    """One thing; its docstring says what for.

    Attributes:
        needed: Whether the two commands of the README need it.
    """

    name: str
    needed = False

    @abstractmethod
    def look(self, where: Where) -> Seen: ...

    @property
    def why(self) -> str:
        """What it is for."""
        return " ".join((self.__doc__ or "").split())


def ok(text: str) -> Seen:
    return Seen(State.OK, text)


def missing(text: str, step: str = "") -> Seen:
    return Seen(State.MISSING, text, step)


def problem(text: str, step: str) -> Seen:
    return Seen(State.PROBLEM, text, step)


def look(checks: Sequence[type[Check]], where: Where, limit: float = LIMIT) -> list[tuple[Check, Seen]]:
    """Makes all checks; one that hangs or fails is a problem of that check alone."""
    made = [kind() for kind in checks]
    found: dict[str, Seen] = {}
    threads = [threading.Thread(target=_look, args=(check, where, found), daemon=True) for check in made]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = f"no answer within {limit:.0f} s"
    return [(check, found.get(check.name, _worse(check, late, "try again, or see what holds it up"))) for check in made]


def _look(check: Check, where: Where, found: dict[str, Seen]) -> None:
    try:
        seen = check.look(where)
    except Exception as error:  # whatever is broken here is what the check is about
        lines = f"{type(error).__name__}: {error}".splitlines()
        text = without_credentials(lines[0]) if lines else type(error).__name__
        seen = _worse(check, f"cannot be looked at: {text[:200]}", "run ./scripts/setup; it repairs .venv")
    found[check.name] = seen


def _worse(check: Check, text: str, step: str) -> Seen:
    return Seen(State.PROBLEM if check.needed else State.MISSING, text, step)


def first_line(*command: str, timeout: float = 8) -> str | None:
    """The first line that a program prints; None where it is not there, or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return (lines[0] if lines else "") if done.returncode == 0 else None
