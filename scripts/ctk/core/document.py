"""YAML files that are kept by hand, and texts beside the locks."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ctk.core.checkout import workspace
from ctk.core.errors import LockError, problems
from ctk.core.files import read_plain
from ctk.core.memo import memo

T = TypeVar("T")
_DATA = TypeAdapter(Any)


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
    from ruamel.yaml import YAML  # slow to import

    return YAML(typ="safe").load(text)


def load_by_hand(text: str | bytes) -> Any:
    """As `load_yaml`, for a file that is kept by hand and read by many commands.

    The parser is slow, so the data is noted by the text and the parser's version.
    """
    content = text.encode() if isinstance(text, str) else text
    key = [hashlib.sha256(content).hexdigest(), version("ruamel.yaml")]
    note = memo(workspace().notes / "yaml", key, _DATA)
    known = note.read()
    if known is not None:
        return known
    data = load_yaml(text)
    if _is_json(data):
        note.write(data)
    return data


def _is_json(data: Any) -> bool:
    """Whether JSON has all of the data: it has no dates, and no keys that are numbers."""
    try:
        return bool(json.loads(json.dumps(data)) == data)
    except (TypeError, ValueError):
        return False


def as_list(value: Any) -> list[Any]:
    """What YAML has as a list, or as one entry, or not at all (None)."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def parse_by_hand(text: str, shape: TypeAdapter[T], file: str, step: str) -> T:
    """The content of a hand-kept file, which may be empty; LockError lists all problems."""
    try:
        return shape.validate_python(load_by_hand(text) or {})
    except ValidationError as error:
        wrong = faults(error)
    except Exception as error:
        if not _is_of_yaml(error):
            raise
        wrong = [str(error)]
    raise problems(LockError, file, wrong, step)


def _is_of_yaml(error: Exception) -> bool:
    """Whether the YAML parser found a fault."""
    from ruamel.yaml.error import YAMLError  # slow to import, and most files have none

    return isinstance(error, YAMLError)


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
