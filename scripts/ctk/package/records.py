"""Reads repodata of a channel folder, for every room; `ctk.channel.repodata` writes all index files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ctk.core.errors import ChannelBroken
from ctk.core.files import NotPlain, read_plain
from ctk.core.inside import is_file_name

REPODATA = "repodata.json"
REMAKE = "run `ctk build` again if this checkout made it, or `ctk publish` if it is a published folder"


def entries(file: Path) -> dict[str, Any]:
    """``subdir/file`` of a package -> what an index file of a subdir says of it; nothing where there is no such file.

    Raises:
        ChannelBroken: It cannot be read as an index file, or names what is no file of its folder.
    """
    try:
        content = json.loads(read_plain(file))
        found = {**content.get("packages", {}), **content.get("packages.conda", {})}
        wrong = [name for name in found if not is_file_name(name)]
        if wrong:
            cause = f"{file} names {wrong[0]!a}, and no package can have that as its file name"
            raise ChannelBroken(cause, REMAKE)
        return {f"{file.parent.name}/{name}": entry for name, entry in found.items()}
    except FileNotFoundError:
        return {}
    except NotPlain as error:
        raise ChannelBroken(f"{file} is no index of a channel: {error.strerror}", REMAKE) from None
    except (ValueError, TypeError, AttributeError, RecursionError, IsADirectoryError) as error:
        raise ChannelBroken(f"{file} is no index of a channel: {type(error).__name__}: {error}", REMAKE) from None


def records(channel: Path, subdir: str = "*") -> dict[str, dict[str, Any]]:
    """``subdir/file`` of each package of a channel, or of one subdir of it, -> its record.

    Raises:
        ChannelBroken: A file of the index cannot be read.
    """
    files = sorted(channel.glob(f"{subdir}/{REPODATA}"))
    return {name: record for file in files for name, record in entries(file).items()}


def checked_records(channel: Path) -> dict[str, dict[str, Any]]:
    """`records`, each with the fields that a client needs, of the types that they have.

    Raises:
        ChannelBroken: A record is none, or a file of the index cannot be read.
    """
    found = records(channel)
    for name, record in found.items():
        if fault := _fault(record):
            raise ChannelBroken(f"{channel} has a record that cannot be read, {name}: {fault}", REMAKE)
    return found


def _fault(record: Any) -> str:
    """Why a record of an index cannot be used; "" if it can."""
    if not isinstance(record, dict):
        return "it is no object"
    for key in ("name", "version", "build"):
        if not isinstance(record.get(key), str):
            return f"its {key} is no text"
    if not re.fullmatch(r"(?a)\w[\w.-]*", record["name"]):
        return f"{record['name']!r} is no name of a package"
    if type(record.get("build_number")) is not int:
        return "its build_number is no number"
    for key in ("depends", "constrains"):
        specs = record.get(key, [])
        if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
            return f"its {key} is no list of texts"
    return _version_fault(record["version"])


def _version_fault(text: str) -> str:
    from rattler import Version  # slow to import
    from rattler.exceptions import InvalidVersionError

    try:
        Version(text)
    except InvalidVersionError:
        return f"{text!r} is no version"
    return ""


def glibc_floor(depends: Iterable[str]) -> str:
    """The oldest glibc that the dependencies of a package name, ``2.28``; "" if they name none."""
    specs = [spec for spec in depends if spec_name(spec) == "__glibc"]
    floors = [match[1] for spec in specs for match in re.finditer(r">=\s*(\d+(?:\.\d+)*)", spec)]
    return max(floors, key=lambda version: [int(part) for part in version.split(".")], default="")


@cache
def spec_name(spec: str) -> str:
    """The package name of a spec in a record."""
    return re.split(r"[\s=<>!~\[;]", spec.strip().rpartition("::")[2], maxsplit=1)[0].lower()
