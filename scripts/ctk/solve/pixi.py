"""Specs as pixi writes them in a pixi.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ctk.solve.solve import parse_spec


def pixi_lines(specs: Iterable[str]) -> list[str]:
    """The lines of ``[dependencies]`` in a pixi.toml for specs, a line for each package."""
    packages: dict[str, dict[str, str]] = {}
    for spec in map(parse_spec, specs):
        entry = packages.setdefault(spec.name, {"version": "*"})
        if spec.version:
            before = entry["version"]
            bounds = spec.version if before == "*" else f"{before},{spec.version}"
            entry["version"] = ",".join(dict.fromkeys(bounds.split(",")))
        if spec.build:
            entry["build"] = spec.build
        if spec.match.channel:
            entry["channel"] = spec.match.channel.name or spec.match.channel.base_url
    lines = []
    for name, entry in packages.items():
        key = toml_key(name)
        value = entry if len(entry) > 1 else entry["version"]
        lines.append(f"{key} = {toml(value)}")
    return lines


def toml_key(name: str) -> str:
    """A key of TOML, in quotes where it needs them."""
    return name if re.fullmatch(r"[\w-]+", name) else toml(name)


def toml(value: Any) -> str:
    """The TOML of a string, a list of strings, or an inline table without empty values.

    Strings and lists are JSON.
    """
    if isinstance(value, Mapping):
        entries = [f"{key} = {toml(entry)}" for key, entry in value.items() if entry]
        return f"{{ {', '.join(entries)} }}"
    return json.dumps(value, ensure_ascii=False)
