"""YAML files that are kept by hand, and texts beside the locks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

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
    """The data of a YAML text, as YAML 1.2 has it: ``on`` is a word, as in rattler-build."""
    return YAML(typ="safe").load(text)


def as_list(value: Any) -> list[Any]:
    """What YAML has as a list, or as one entry, or not at all (None)."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def parse_by_hand(text: str, shape: TypeAdapter[T], file: str, step: str) -> T:
    """The content of a hand-kept file, which may be empty; LockError lists all problems."""
    try:
        return shape.validate_python(load_yaml(text) or {})
    except YAMLError as error:
        wrong = [str(error)]
    except ValidationError as error:
        wrong = faults(error)
    raise problems(LockError, file, wrong, step)


def faults(error: ValidationError) -> list[str]:
    """``place.in.the.file: what is wrong``, for each fault that pydantic found."""
    found = []
    for fault in error.errors():
        place = ".".join(map(str, fault["loc"]))
        # Before the text of an error that a validator of ours raised, `msg` has words of pydantic.
        is_ours = fault["type"] == "value_error"
        said = fault["ctx"]["error"] if is_ours else fault["msg"]
        found.append(f"{place}: {said}")
    return found
