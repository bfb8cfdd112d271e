"""Whether a condition of a recipe can hold: true, false, or None for what cannot be known without rendering.

Conditions are Jinja expressions; those that recipes use (names, comparisons, `match`) are Python expressions as well,
so that Python's own parser reads them. What is not (filters, tests with ``is``) is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rattler import Version, VersionSpec
from rattler.exceptions import InvalidVersionError, InvalidVersionSpecError

_UNKNOWN = object()


def platform_names(subdir: str) -> dict[str, Any]:
    """What a condition can say of the platform that a package is for.

    Args:
        subdir: Such as ``win-arm64``.
    """
    system, _, machine = subdir.partition("-")
    return {
        "target_platform": subdir,
        "linux": system == "linux",
        "win": system == "win",
        "osx": system == "osx",
        "unix": system != "win",
        "x86_64": machine == "64",
        "aarch64": machine == "aarch64",
        "arm64": machine == "arm64",
        "ppc64le": machine == "ppc64le",
    }


def truth(condition: str, names: Mapping[str, Any]) -> bool | None:
    """Whether a condition holds.

    Args:
        condition: As a recipe has it.
        names: The values that are known.
    """
    tree = _parsed(condition)
    value = _UNKNOWN if tree is None else _value(tree, names)
    return None if value is _UNKNOWN else bool(value)


def names_of(condition: str) -> frozenset[str]:
    """The names that a condition asks for; nothing where Python does not read it."""
    tree = _parsed(condition)
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) if tree is not None else frozenset()


@lru_cache(maxsize=4096)
def _parsed(condition: str) -> ast.expr | None:
    try:
        return ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names.get(name, _UNKNOWN)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = _value(operand, names)
            return value if value is _UNKNOWN else not value
        case ast.BoolOp(op=op, values=values):
            found = [_value(value, names) for value in values]
            decides = isinstance(op, ast.Or)
            if any(v is not _UNKNOWN and bool(v) is decides for v in found):
                return decides
            return _UNKNOWN if _UNKNOWN in found else not decides
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            found = [_value(element, names) for element in elements]
            return _UNKNOWN if _UNKNOWN in found else found
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(_value(left, names), op, _value(right, names))
        case ast.Call(func=ast.Name(id="match"), args=[version, spec], keywords=[]):
            return _matched(_value(version, names), _value(spec, names))
        case _:
            return _UNKNOWN


def _compared(left: Any, op: ast.cmpop, right: Any) -> Any:
    if left is _UNKNOWN or right is _UNKNOWN:
        return _UNKNOWN
    try:
        match op:
            case ast.Eq():
                return left == right
            case ast.NotEq():
                return left != right
            case ast.In():
                return left in right
            case ast.NotIn():
                return left not in right
    except TypeError:
        pass
    return _UNKNOWN


@lru_cache(maxsize=4096)
def _matched(version: Any, spec: Any) -> Any:
    if not isinstance(version, str) or not isinstance(spec, str):
        return _UNKNOWN
    try:
        return VersionSpec(spec).matches(Version(version))
    except (InvalidVersionError, InvalidVersionSpecError):
        return _UNKNOWN
