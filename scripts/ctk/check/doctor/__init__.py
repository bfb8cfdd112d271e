"""`ctk doctor` and `ctk env check`: how this machine, this checkout or an environment is, and what to do about it.

The checks run at the same time, each within a limit, and none can end the run.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps

from ctk.check import Check, Finding, S, Severity
from ctk.core.checkout import Workspace
from ctk.core.errors import without_credentials

LIMIT = 10.0  # seconds for all checks together


@dataclass(frozen=True)
class Where:
    """The checkout that checks look at, and whether the network is left alone."""

    workspace: Workspace
    offline: bool = False


def look_at(subject: type[S], name: str, *, needed: bool = False) -> Callable[[Callable[[S], Finding]], Check[S]]:
    """Makes a check of a function that returns how one thing is; `needed` by the commands of the README."""

    def make(look: Callable[[S], Finding]) -> Check[S]:
        @wraps(look)
        def run(where: S) -> list[Finding]:
            return [look(where)]

        return Check(name, subject, run, severity="error" if needed else "hint")

    return make


def ok(text: str) -> Finding:
    return Finding("", text, severity="ok")


def missing(text: str, step: str = "") -> Finding:
    """What the main job does not need, or what is worth knowing only."""
    return Finding("", text, fix=step, severity="hint")


def problem(text: str, step: str) -> Finding:
    return Finding("", text, fix=step, severity="error")


def state(severity: Severity | str) -> str:
    """How a severity is called where it says how a thing is."""
    return {"ok": "ok", "hint": "missing"}.get(severity, "problem")


def look(checks: Sequence[Check[S]], subject: S, limit: float = LIMIT) -> list[tuple[Check[S], Finding]]:
    """Runs all checks; one that hangs or fails is a finding of that check alone."""
    found: dict[str, Finding] = {}
    threads = [threading.Thread(target=_look, args=(check, subject, found), daemon=True) for check in checks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = Finding("", f"no answer within {limit:.0f} s", fix="try again, or see what holds it up")
    return [(check, found.get(check.name) or check.complete(late)) for check in checks]


def _look(check: Check[S], subject: S, found: dict[str, Finding]) -> None:
    try:
        (found[check.name],) = check(subject)
    except Exception as error:  # whatever is broken here is what the check is about
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        text = f"cannot be looked at: {without_credentials(line)[:200]}"
        found[check.name] = check.complete(Finding("", text, fix="run ./scripts/setup; it repairs .venv"))


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
