"""What a checkout is set to: the table ``[tool.ctk]`` of its ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctk.core.errors import BadValue, problems
from ctk.core.platforms import PLATFORMS


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Default(_Strict):
    """What is built when a command names no release, or no recipe. None means all of them.

    Attributes:
        releases: CTK minors; the words ``oldest`` and ``newest`` are those of each CUDA major.
        recipes: Folder names below ``recipes/``.
    """

    releases: list[str] | None = None
    recipes: list[str] | None = None


class Feedstock(_Strict):
    """What exported feedstocks say.

    Attributes:
        maintainers: GitHub names or teams.
    """

    maintainers: list[str] = []


class Settings(_Strict):
    """The whole table.

    Attributes:
        default: What is built by default.
        feedstock: What exported feedstocks say.
        runners: Platform -> label of the CI machine that builds for it.
    """

    default: Default = Default()
    feedstock: Feedstock = Feedstock()
    runners: Mapping[str, str] = Field(default_factory=dict)

    def runner(self, subdir: str) -> str:
        """The CI machine for a platform.

        Raises:
            BadValue: None is set.
        """
        try:
            return self.runners[subdir]
        except KeyError:
            raise BadValue(
                f"no CI machine is set for {subdir}", "add it to [tool.ctk.runners] of pyproject.toml"
            ) from None


def settings(root: Path) -> Settings:
    """The settings of a checkout; those of nothing where it has no ``pyproject.toml``.

    Raises:
        BadValue: The file is no TOML, or the table has what is not known here; every problem is listed.
    """
    file = root / "pyproject.toml"
    try:
        text = file.read_text(encoding="utf-8")
        table: Any = tomllib.loads(text).get("tool", {}).get("ctk", {})
    except FileNotFoundError:
        table = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadValue(f"pyproject.toml cannot be read: {error}", "mend the file") from error
    try:
        found = Settings.model_validate(table)
    except ValidationError as error:
        lines = [f"tool.ctk.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise problems(BadValue, "pyproject.toml", lines, "mend the table [tool.ctk]") from error
    unknown = [f"tool.ctk.runners.{name}: no platform" for name in found.runners if name not in PLATFORMS]
    if unknown:
        raise problems(BadValue, "pyproject.toml", unknown, f"platforms are {', '.join(PLATFORMS)}")
    return found
