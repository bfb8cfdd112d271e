"""The oracle's facts, read from the release locks: nothing of them is typed."""

from __future__ import annotations

from collections.abc import Iterable

from ctk.core.errors import LockError
from ctk.lock.lock import Component, ReleaseLock
from ctk.verify.oracle import Facts, PythonSet, Toolkit, version

# The wheel that is called nvcc holds all of the compiler since CUDA 13. Before, it holds ptxas and headers.
_WHOLE_COMPILER = 13


def facts(locks: Iterable[ReleaseLock]) -> Facts:
    """What the oracle needs to know of the releases.

    Raises:
        LockError: Nothing is locked, or a CTK release has not been measured.
    """
    toolkits, python_sets = [], {}
    for lock in locks:
        published: dict[str, frozenset[str]] = {}
        for component in lock.components.values():  # of a project in several versions, what any of them is there for
            published[component.name] = published.get(component.name, frozenset()) | _targets(component)
        if not lock.is_ctk:
            python_sets[lock.major] = PythonSet(lock.major, published)
            continue
        if lock.facts is None:
            raise LockError(
                f"release {lock.minor} has not been measured", f"run `ctk release measure {lock.minor} --write`"
            )
        if int(lock.major) >= _WHOLE_COMPILER:
            published["compiler"] = published.get("nvcc", frozenset())
        toolkits.append(Toolkit(lock.minor, tuple(sorted(lock.facts.gpu_architectures, key=version)), published))
    if not toolkits:
        raise LockError("there is no release lock", "run `ctk release add 13.4 --write`, or any other release")
    return Facts(tuple(toolkits), python_sets)


def _targets(component: Component) -> frozenset[str]:
    """What a component is published for; an artefact of None is one that is not."""
    return frozenset(target for target, artefact in component.artefacts.items() if artefact is not None)
