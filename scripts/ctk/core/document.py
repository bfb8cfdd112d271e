"""YAML files that are kept by hand, and texts beside the locks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from ctk.core.errors import LockError, problems
from ctk.core.files import read_plain

T = TypeVar("T")


def read(path: Path) -> str:
    """The text of a file beside the locks; LockError if it is missing or not UTF-8."""
    try:
        return read_plain(path).decode()
    except PermissionError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise LockError(
            f"{path.name} cannot be read: {reason}", "write the pair with `ctk release add`"
        ) from error


def load_yaml(text: str | bytes) -> Any:
    """The data of a YAML text, parsed by libyaml, ten times as fast as ruamel."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def parse_by_hand(text: str, shape: TypeAdapter[T], file: str, step: str) -> T:
    """The content of a hand-kept file, which may be empty; LockError lists all problems."""
    try:
        return shape.validate_python(load_yaml(text) or {})
    except yaml.YAMLError as error:
        wrong = [str(error)]
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
    raise problems(LockError, file, wrong, step)
