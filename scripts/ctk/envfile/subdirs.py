"""The platforms that a name of a family, a marker of pip or a selector of conda-build means."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from packaging.markers import Marker

from ctk.core.platforms import PLATFORMS

_LINUX = ("linux-64", "linux-aarch64", "linux-ppc64le")
_OSX = ("osx-64", "osx-arm64")
_WIN = ("win-64", "win-arm64")
SUBDIRS = _LINUX + _OSX + _WIN
"""Platforms that files name; a file for macOS too is read, so that its lines are told apart."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "unix": _LINUX + _OSX,
    "linux": _LINUX,
    "osx": _OSX,
    "macos": _OSX,
    "win": _WIN,
}
"""The families of `[target.FAMILY]`: `family_name_to_selector` in pixi's target.rs."""

# As conda-build's docs have them ("Preprocessing selectors", 2026), and conda-lock's selectors.py.
_SELECTORS: Mapping[str, tuple[str, ...]] = {
    **FAMILIES,
    "linux64": ("linux-64",),
    "linux32": (),
    "osx64": ("osx-64",),
    "win64": ("win-64",),
    "win32": (),
    "x86": ("linux-64", "osx-64", "win-64"),
    "x86_64": ("linux-64", "osx-64", "win-64"),
    "aarch64": ("linux-aarch64",),
    "arm64": ("osx-arm64",),
    "ppc64le": ("linux-ppc64le",),
}
_LONGEST_SELECTOR = 200  # characters: Python's parser is not for texts without end

_DARWIN = {"sys_platform": "darwin", "os_name": "posix", "platform_system": "Darwin"}
_MARKERS: Mapping[str, Mapping[str, str]] = {
    **{subdir: platform.marker_environment for subdir, platform in PLATFORMS.items()},
    "linux-ppc64le": {
        **PLATFORMS["linux-64"].marker_environment,
        "platform_machine": "ppc64le",
    },
    "osx-64": {**_DARWIN, "platform_machine": "x86_64"},
    "osx-arm64": {**_DARWIN, "platform_machine": "arm64"},
}
_PYTHONS = [f"3.{minor}" for minor in range(8, 16)]


def in_all(subdirs: tuple[str, ...]) -> tuple[str, ...]:
    """The same; () for all and for none, which say that nothing is known."""
    return () if len(subdirs) == len(SUBDIRS) else subdirs


@lru_cache(maxsize=1 << 10)
def of_marker(marker: Marker | None) -> tuple[str, ...]:
    """The platforms on which some Python meets a marker of pip; () for all.

    A marker that none meets, such as one for an extra, is for all: what it waits for is unknown.
    """
    if marker is None:
        return ()
    return in_all(tuple(subdir for subdir in SUBDIRS if _is_met(marker, subdir)))


def _is_met(marker: Marker, subdir: str) -> bool:
    for python in _PYTHONS:
        environment = {
            **_MARKERS[subdir],
            "python_version": python,
            "python_full_version": f"{python}.0",
            "extra": "",
        }
        if marker.evaluate(environment):
            return True
    return False


@lru_cache(maxsize=1 << 10)
def of_selector(comment: str) -> tuple[str, ...]:
    """The platforms of a comment such as ``# [linux and not aarch64]``; () for all.

    A selector with any other name, such as ``py<312``, is for all.
    """
    found = re.search(r"\[([^\[\]]+)\]\s*$", comment)
    if not found or len(found[1]) > _LONGEST_SELECTOR:
        return ()
    text = found[1].strip()
    if text in SUBDIRS:  # conda-lock's, and no expression of Python
        return (text,)
    try:
        tree = ast.parse(text, mode="eval").body
        return in_all(tuple(subdir for subdir in SUBDIRS if _holds(tree, subdir)))
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
        return ()


def _holds(node: ast.expr, subdir: str) -> bool:
    """Whether an expression of names, and, or, not is true; KeyError for anything else."""
    if isinstance(node, ast.Name):
        return subdir in _SELECTORS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _holds(node.operand, subdir)
    if isinstance(node, ast.BoolOp):
        values = [_holds(value, subdir) for value in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    raise KeyError(ast.dump(node))
