"""Says in one sentence why a request has no solution, and what to do about it.

The sentence is proved, not guessed: the request is solved again with one thing changed at a time (another driver, no
GPU, fewer specs, another Python, another platform), and what makes the difference is named. A request that fails on a
machine that can do anything is at fault itself; any other one fails for the driver, the GPU or both.
"""

from __future__ import annotations

from dataclasses import replace

from ctk.core.console import count
from ctk.core.errors import Unsolvable
from ctk.solve.catalogue import Catalogue, listing
from ctk.solve.solve import Pick, Scenario, solve
from ctk.solve.unsolvable.machine import machine_cause
from ctk.solve.unsolvable.probe import Cause
from ctk.solve.unsolvable.request import not_there, request_cause
from ctk.solve.unsolvable.unpublished import why_no_nvcc


def solve_or_say_why(scenario: Scenario, catalogue: Catalogue, lines: int | None = None) -> Pick:
    """Solves a scenario; where that fails, the error opens with the cause and goes on with the solver's text.

    Args:
        scenario: Machine and request.
        catalogue: The channels.
        lines: How much of the solver's text to show; None for all of it.

    Raises:
        Unsolvable: There is no solution, or a channel or the request cannot be read.
    """
    try:
        return solve(scenario, catalogue.channels, catalogue.gateway)
    except Unsolvable as error:
        if not error.solver:
            raise
        cause = find_cause(scenario, catalogue)
        text = error.cause.splitlines()
        shown = text if lines is None else text[:lines]
        if len(text) > len(shown):
            shown.append(f"... and {count(len(text) - len(shown), 'line')} more; --explain shows all")
        raise Unsolvable("\n".join([cause.sentence, *shown]), cause.step, error.solver) from None


def find_cause(scenario: Scenario, catalogue: Catalogue) -> Cause:
    """The cause of a scenario that has no solution."""
    cause = (
        not_there(scenario, catalogue)
        or request_cause(scenario, catalogue)
        or machine_cause(scenario, catalogue)
        or Cause(f"{listing(scenario.specs)}: no cause was found by changing one thing", "read what the solver says")
    )
    reason = why_no_nvcc(scenario, catalogue)
    return replace(cause, sentence=f"{cause.sentence}; {reason}") if reason else cause
