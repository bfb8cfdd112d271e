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


def glibc_floor(depends: Iterable[str]) -> str:
    """The oldest glibc that the dependencies of a package name, ``2.28``; "" if they name none."""
    specs = [spec for spec in depends if spec_name(spec) == "__glibc"]
    floors = [match[1] for spec in specs for match in re.finditer(r">=\s*(\d+(?:\.\d+)*)", spec)]
    return max(floors, key=lambda version: [int(part) for part in version.split(".")], default="")


@cache
def spec_name(spec: str) -> str:
    """The package name of a spec in a record."""
    return re.split(r"[\s=<>!~\[;]", spec.strip().rpartition("::")[2], maxsplit=1)[0].lower()
