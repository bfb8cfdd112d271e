"""The list of checks, in the order in which `ctk lint --list` shows them."""

from __future__ import annotations

from collections.abc import Iterable

from ctk.check.lint import (
    about,
    contents,
    expressions,
    files,
    form,
    locks,
    numbers,
    pins,
    releases,
    scripts,
    settings,
    skips,
    variants,
)
from ctk.check.lint.check import Check
from ctk.core.errors import UnknownName

_FAMILIES = (
    files,
    form,
    expressions,
    about,
    contents,
    pins,
    scripts,
    locks,
    variants,
    releases,
    settings,
    numbers,
    skips,
)
CHECKS: tuple[type[Check], ...] = tuple(
    item
    for family in _FAMILIES
    for item in vars(family).values()
    if isinstance(item, type) and issubclass(item, Check) and item.__module__ == family.__name__
)
BY_NAME: dict[str, type[Check]] = {check.id(): check for check in CHECKS}


def by_name(names: Iterable[str]) -> list[type[Check]]:
    """The checks of the given names; all of them for none.

    Raises:
        UnknownName: A name that no check has.
    """
    wanted = list(names)
    for name in wanted:
        if name not in BY_NAME:
            raise UnknownName.of("check", name, BY_NAME)
    return [BY_NAME[name] for name in wanted] or list(CHECKS)
