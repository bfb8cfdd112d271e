"""What a wheel says of itself: its RECORD has every file with its hash and size, its metadata have its name."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from typing import BinaryIO

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ctk.artefact import zips
from ctk.artefact.zips import Refused

LONGEST = 16 << 20
"""Bytes of RECORD or METADATA that are read."""
_HASHES = ("sha256", "sha384", "sha512")
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True)
class Stated:
    """One line of RECORD.

    Attributes:
        algorithm: Name of the hash, "" where none is stated.
        digest: The hash itself.
        size: Bytes, None where it is not stated.
    """

    algorithm: str
    digest: bytes
    size: int | None


def folder(members: list[str], distribution: str, version: str) -> str:
    """The one folder at the top whose name ends in ``.dist-info``: scripts of recipes use its name.

    Raises:
        Refused: There is none, there are several, or its name is not that of the distribution and its version.
    """
    folders = {name.partition("/")[0] for name in members if "/" in name}
    found = sorted(name for name in folders if name.endswith(".dist-info"))
    if len(found) != 1:
        raise Refused("", f"a wheel has one .dist-info folder, and it has {len(found)}")
    name, _, stated = found[0].removesuffix(".dist-info").partition("-")
    if not re.fullmatch(r"[A-Za-z0-9._+!-]+", found[0]) or wrong_name([name], [stated], distribution, version):
        raise Refused(found[0], f"is not the folder of {distribution} {version}")
    return found[0]


def content(file: BinaryIO, item: zipfile.ZipInfo) -> bytes:
    """RECORD or METADATA.

    Raises:
        Refused: It is damaged, or too large.
    """
    if item.file_size > LONGEST:
        raise Refused(item.orig_filename, f"has {item.file_size} bytes, and {LONGEST} are the most")
    return b"".join(zips.unpacked(file, item))


def read(text: bytes, place: str) -> dict[str, Stated]:
    """The lines of RECORD by path.

    Args:
        text: The file.
        place: Its path, for the error.

    Raises:
        Refused: A line cannot be read.
    """
    found: dict[str, Stated] = {}
    try:
        for row in csv.reader(text.decode().splitlines(), strict=True):
            if not row:
                continue
            path, stated, size = row
            algorithm, _, encoded = stated.partition("=")
            if path in found:
                raise Refused(place, f"states {path!r} twice")
            if stated and algorithm not in _HASHES:
                raise Refused(place, f"has a hash of {path!r} that is none of {', '.join(_HASHES)}")
            digest = base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True)
            if size and not re.fullmatch(r"[0-9]{1,18}", size):
                raise Refused(place, f"has a size of {path!r} that is no number")
            found[path] = Stated(algorithm, digest, int(size) if size else None)
    except (csv.Error, UnicodeDecodeError, ValueError, binascii.Error) as error:
        raise Refused(place, f"cannot be read: {error}") from error
    return found


def disagreements(info: str, stated: Mapping[str, Stated], members: list[str]) -> Iterator[Refused]:
    """Files that RECORD does not have, or has without a hash, and lines without a file.

    Args:
        info: The wheel's ``.dist-info`` folder.
        stated: Its RECORD.
        members: The files of the wheel.
    """
    unsigned = {f"{info}/RECORD", *(f"{info}/{name}" for name in _SIGNATURES)}
    for name in members:
        if name not in stated:
            if name not in unsigned:
                yield Refused(name, "is not in RECORD")
        elif not stated[name].algorithm and name not in unsigned:
            yield Refused(name, "has no hash in RECORD")
    for name in sorted(stated.keys() - set(members)):
        yield Refused(name, "is in RECORD and not in the wheel")


def hasher(stated: Stated | None) -> hashlib._Hash | None:
    """What to feed the content of a file to; None where RECORD says nothing of it."""
    return hashlib.new(stated.algorithm) if stated and stated.algorithm else None


def wrong_with_metadata(text: bytes, distribution: str, version: str) -> str | None:
    """Why a METADATA is not that of a distribution's version; None when it is."""
    metadata = BytesParser().parsebytes(text, headersonly=True)
    names, versions = ([str(value) for value in metadata.get_all(key) or []] for key in ("Name", "Version"))
    if wrong_name(names, versions, distribution, version):
        return f"is that of {' '.join([*names, *versions])[:200]!r}, not of {distribution} {version}"
    return None


def wrong_name(names: Sequence[str], versions: Sequence[str], distribution: str, version: str) -> bool:
    """Whether these are not one name and one version, of a distribution, however they are spelt."""
    try:
        return [*map(canonicalize_name, names)] != [canonicalize_name(distribution)] or [*map(Version, versions)] != [
            Version(version)
        ]
    except InvalidVersion:
        return True
