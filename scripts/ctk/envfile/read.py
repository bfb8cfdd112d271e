"""Reads a file that asks for packages, whichever of the formats it has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from packaging.pylock import is_valid_pylock_path

from ctk.envfile.conda_yaml import read_environment
from ctk.envfile.explicit import has_line_of_conda, is_conda_text, is_list_of_conda, read_explicit
from ctk.envfile.lines import is_option, pip_line
from ctk.envfile.locks import read_pylock, read_rattler_lock
from ctk.envfile.model import EnvironmentFile, Format
from ctk.envfile.pip_text import logical_lines, read_requirements
from ctk.envfile.pixi import read_pixi
from ctk.envfile.pyproject import read_pyproject
from ctk.envfile.source import FORMATS, Source, read_source

_NAMES = {
    "conda-lock.yml": Format.CONDA_LOCK,
    "conda-lock.yaml": Format.CONDA_LOCK,
    "environment.yml": Format.ENVIRONMENT,
    "environment.yaml": Format.ENVIRONMENT,
    "pixi.lock": Format.PIXI_LOCK,
    "pixi.toml": Format.PIXI,
    "pyproject.toml": Format.PYPROJECT,
}
_OF_PIP = re.compile(r"(requirements|constraints).*\.(txt|in|pip)", re.IGNORECASE)

# What a format has at the beginning of a line, and the others have not.
_LOCK = re.compile(r"^version:\s*['\"]?(\d+)", re.MULTILINE)
_LOCKED = re.compile(r"^packages?:", re.MULTILINE)
_YAML = re.compile(r"^(dependencies|channels)\s*:", re.MULTILINE)
_RECIPE = re.compile(r"^(package|recipe|requirements|build|outputs)\s*:", re.MULTILINE)
_NEW_RECIPE = re.compile(r"^(schema_version|context|recipe|tests)\s*:", re.MULTILINE)
_PYLOCK = re.compile(r"^(lock-version\s*=|\[\[packages\]\])", re.MULTILINE)
_PYPROJECT = re.compile(
    r"^\s*\[(tool\.|build-system\]|dependency-groups\]|project\.optional|project\.scripts)",
    re.MULTILINE,
)
_PIXI = re.compile(
    r"^\s*\[{1,2}\s*(workspace|dependencies|pypi-dependencies|feature\.|environments|target\.)",
    re.MULTILINE,
)
_PROJECT = re.compile(r"^\s*\[project\]", re.MULTILINE)
_PIXI_KEYS = re.compile(r"^\s*(channels|platforms)\s*=", re.MULTILINE)


def read_file(path: Path) -> EnvironmentFile:
    """A file that asks for packages.

    Its name says its format if it is a name that tools look for; else its content does. What it
    says is never run or fetched, and no other file is read.

    Raises:
        FileUnreadable: It is missing, no text, cut off, or of another format; line and reason.
    """
    source = read_source(path)
    format = format_of(source)
    match format:
        case Format.ENVIRONMENT:
            return read_environment(source)
        case Format.EXPLICIT:
            return read_explicit(source)
        case Format.PIXI:
            return read_pixi(source)
        case Format.PYPROJECT:
            return read_pyproject(source)
        case Format.REQUIREMENTS:
            return read_requirements(source)
        case Format.PYLOCK:
            return read_pylock(source)
        case _:
            return read_rattler_lock(source, format)


def format_of(source: Source) -> Format:
    """The format of a file.

    Raises:
        FileUnreadable: It has none of those that are read.
    """
    name = source.path.name.lower()
    suffix = source.path.suffix.lower()
    _refuse_recipe(source, name)
    found = _NAMES.get(name)
    if found is None and is_valid_pylock_path(source.path):
        found = Format.PYLOCK
    if found is None and _OF_PIP.fullmatch(name):
        found = _text_format(source.text)
    if found is None and suffix == ".toml":
        found = _toml_format(source.text)
    if found is None and suffix in (".yml", ".yaml", ".lock"):
        found = _yaml_format(source.text)
    if found is None and suffix not in (".toml", ".yml", ".yaml"):
        found = _format_by_content(source.text)
    if found is None:
        raise source.error(0, "its format is not supported", FORMATS)
    return found


def _refuse_recipe(source: Source, name: str) -> None:
    """Refuses a recipe, by its name or by its content: it asks for no environment."""
    stem, _, suffix = name.rpartition(".")
    if suffix not in ("yaml", "yml") or not (stem in ("recipe", "meta") or _is_recipe(source.text)):
        return
    if stem == "recipe" or (stem != "meta" and _NEW_RECIPE.search(source.text)):
        folder = shlex.quote(str(source.path.parent))
        step = f"run `ctk build-recipe {folder}`, which builds it"
        raise source.error(0, "it is a recipe, which asks for no environment", step)
    raise source.error(0, "it is a recipe of conda-build, which asks for no environment", FORMATS)


def _is_recipe(text: str) -> bool:
    if _LOCK.search(text) or _YAML.search(text):
        return False
    return _RECIPE.search(text) is not None


def _toml_format(text: str) -> Format | None:
    if _PYLOCK.search(text):
        return Format.PYLOCK
    if _PYPROJECT.search(text):
        return Format.PYPROJECT
    if _PIXI.search(text):
        return Format.PIXI
    if _PROJECT.search(text):
        return Format.PIXI if _PIXI_KEYS.search(text) else Format.PYPROJECT
    return None


def _yaml_format(text: str) -> Format | None:
    version = _LOCK.search(text)
    if version and _LOCKED.search(text):
        return Format.CONDA_LOCK if version[1] == "1" else Format.PIXI_LOCK
    return Format.ENVIRONMENT if _YAML.search(text) else None


def _text_format(text: str) -> Format:
    return Format.EXPLICIT if is_list_of_conda(text) else Format.REQUIREMENTS


def _format_by_content(text: str) -> Format | None:
    """The format of a file whose name says nothing: each of its lines must be of it."""
    found = _toml_format(text) or _yaml_format(text)
    if found:
        return found
    lines = [line for _, line in logical_lines(text)]
    if has_line_of_conda(text) and all(map(is_conda_text, lines)):
        return Format.EXPLICIT
    return Format.REQUIREMENTS if lines and all(map(_is_pip_text, lines)) else None


def _is_pip_text(text: str) -> bool:
    return is_option(text) or pip_line(text, 0) is not None
