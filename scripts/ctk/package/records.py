"""Reads repodata of a channel folder, for every room.

`ctk.channel.repodata` writes all index files.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctk.core.errors import ChannelBroken
from ctk.core.files import NotPlain, read_plain
from ctk.core.inside import is_file_name
from ctk.core.platforms import NOARCH
from ctk.core.versions import version_key

if TYPE_CHECKING:  # slow to import
    from rattler import MatchSpec, PackageRecord

REPODATA = "repodata.json"
COMPRESSED = f"{REPODATA}.zst"
MOST_NESTED = 100
"""Parentheses in a spec. rattler's parser ends the process with a signal if it meets 2,000 of them,
nested.
"""
_PARENTHESES = (b"(", b"\\u0028")  # also as JSON may write it
# Bytes of a list in an index: some 8,000 dependencies, which rattler solves in seconds.
_LONGEST_LIST = 1 << 18
_PYTHON = re.compile(r"python_abi (3\.\d+)\S* \*_cp\d+(t?)$")
_REMOVED = b'"removed"'  # a list of files, which may be long
_REPUBLISH = "ask the keeper of the channel to publish it again"
_MOST_TEXTS = 10_000_000  # texts with parentheses in an index: licences, more than specs
REMAKE = (
    "run `ctk build` again if this checkout made it, or `ctk publish` if it is a published folder"
)


def python_of(depends: Iterable[str]) -> str:
    """The Python that a package with these dependencies is for: ``3.14t``.

    "" for a package that is for every Python, or has none.
    """
    matches = (_PYTHON.match(spec) for spec in depends)
    return next((f"{match[1]}{match[2]}" for match in matches if match), "")


def entries(file: Path) -> dict[str, Any]:
    """``subdir/file`` of a package -> what an index file of a subdir says of it.

    Nothing where there is no such file.

    Raises:
        ChannelBroken: It cannot be read as an index, or names what is not a file of its folder.
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
        raise ChannelBroken(
            f"{file} is not an index of a channel: {error.strerror}", REMAKE
        ) from None
    except (ValueError, TypeError, AttributeError, RecursionError, IsADirectoryError) as error:
        raise ChannelBroken(
            f"{file} is not an index of a channel: {type(error).__name__}: {error}", REMAKE
        ) from None


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
            raise ChannelBroken(
                f"{channel} has a record that cannot be read, {name}: {fault}", REMAKE
            )
    return found


def _fault(record: Any) -> str:
    """Why a record of an index cannot be used; "" if it can."""
    if not isinstance(record, dict):
        return "it is not an object"
    for key in ("name", "version", "build"):
        if not isinstance(record.get(key), str):
            return f"its {key} is not text"
    if not re.fullmatch(r"(?a)\w[\w.-]*", record["name"]):
        return f"{record['name']!r} is not a name of a package"
    if type(record.get("build_number")) is not int:
        return "its build_number is not a number"
    for key in ("depends", "constrains"):
        specs = record.get(key, [])
        if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
            return f"its {key} is not a list of texts"
    return _version_fault(record["version"])


def _version_fault(text: str) -> str:
    from rattler import Version  # slow to import
    from rattler.exceptions import InvalidVersionError

    try:
        Version(text)
    except InvalidVersionError:
        return f"{text!r} is not a version"
    return ""


def glibc_floor(depends: Iterable[str]) -> str:
    """The oldest glibc that the dependencies of a package name, ``2.28``; "" if they name none."""
    floors: list[str] = []
    for spec in depends:
        if spec_name(spec) == "__glibc":
            floors += re.findall(r">=\s*(\d+(?:\.\d+)*)", spec)
    return max(floors, key=version_key, default="")


def package_record(
    name: str,
    version: str,
    build: str = "0",
    build_number: int = 0,
    subdir: str = NOARCH,
    **more: Any,
) -> PackageRecord:
    """A record of rattler: for a solver, or for a spec that may match it.

    `more` are other fields of the record, such as ``depends``.

    Raises:
        InvalidVersionError: The version is none of conda's.
        ValueError: The name or the build is none.
    """
    from rattler import PackageRecord
    from rattler.package import BuildString

    return PackageRecord(name, version, BuildString(build), build_number, subdir, **more)


def matches(spec: str, record: PackageRecord) -> bool | None:
    """Whether a package matches a spec; None if the spec cannot be read.

    What cannot be read is no match where a package is looked for, and no mismatch where one is
    accused: each caller compares with True or with False.
    """
    try:
        return match_spec(spec).matches(record)
    except Exception:  # rattler's own, of many kinds
        return None


@lru_cache(maxsize=1 << 14)
def match_spec(text: str) -> MatchSpec:
    """A spec of rattler, of a text that anybody may have written.

    Raises:
        InvalidMatchSpecError: It is not a spec, or has so many parentheses that its parser would
            end this process.
    """
    from rattler import MatchSpec
    from rattler.exceptions import InvalidMatchSpecError

    if text.count("(") > MOST_NESTED:
        raise InvalidMatchSpecError(f"it has more than {MOST_NESTED} parentheses")
    return MatchSpec(text)


def is_spec(text: str) -> bool:
    """Whether `match_spec` reads a text."""
    from rattler.exceptions import InvalidMatchSpecError

    try:
        match_spec(text)
    except InvalidMatchSpecError:
        return False
    return True


def refuse_specs(file: Path, name: str = "") -> None:
    """Refuses an index file with specs that rattler must not read.

    A missing or empty file has none.
    It searches for parentheses and lists, without parsing: seconds for conda-forge's 400 MB.

    Args:
        file: The ``repodata.json``.
        name: What to call it in the message.

    Raises:
        ChannelBroken: It has such a spec, or a package with very many dependencies.
    """
    if not file.is_file() or not file.stat().st_size:
        return
    with (
        file.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        for mark in _PARENTHESES:
            _refuse_parentheses(content, mark, name or str(file))
        _refuse_long_lists(content, name or str(file))


def _refuse_long_lists(content: mmap.mmap, name: str) -> None:
    place = content.find(b"[")
    while place >= 0:
        end = content.find(b"]", place)
        if end < 0:  # no JSON
            return
        if end - place > _LONGEST_LIST and not _is_removed(content, place):
            raise ChannelBroken(
                f"{name} has a list of {end - place} bytes: too many dependencies", _REPUBLISH
            )
        place = content.find(b"[", end)


def _is_removed(content: mmap.mmap, place: int) -> bool:
    """Whether the list that begins at a place is that of removed files."""
    before = content[max(0, place - len(_REMOVED) - 4) : place]
    return before.rstrip(b" :").endswith(_REMOVED)


def _refuse_parentheses(content: mmap.mmap, mark: bytes, name: str) -> None:
    place, texts = content.find(mark), 0
    while place >= 0:
        texts += 1
        end = content.find(b'"', place)
        end = len(content) if end < 0 else end
        # A text that goes on behind a quoted quote ends here as well: no spec goes on behind it.
        text = content[content.rfind(b'"', 0, place) + 1 : end]
        number = sum(map(text.count, _PARENTHESES))
        if number > MOST_NESTED:
            raise ChannelBroken(
                f"{name} has a text with {number} parentheses, which no spec has", _REPUBLISH
            )
        if texts > _MOST_TEXTS:
            raise ChannelBroken(
                f"{name} has more than {_MOST_TEXTS} texts with parentheses", _REPUBLISH
            )
        place = content.find(mark, end)


@cache
def spec_name(spec: str) -> str:
    """The package name of a spec in a record."""
    return re.split(r"[\s=<>!~\[;]", spec.strip().rpartition("::")[2], maxsplit=1)[0].lower()
