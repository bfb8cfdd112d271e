"""Libraries of other projects that a wheel bundles, for the SBOM of a package that keeps them.

They are known by the names of their files. Their versions are read from the files, and are left out
where a file has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctk.index.inside import ArchiveMember


@dataclass(frozen=True)
class Project:
    """A project whose libraries others bundle.

    Attributes:
        licence: As SPDX has it.
        version: A pattern for the version in a file, whose first group it is.
    """

    name: str
    licence: str
    version: re.Pattern[bytes] | None = None


@dataclass(frozen=True)
class Bundled:
    """A bundled library of a package.

    `version` is empty where the file does not say it.
    """

    path: str
    project: str
    version: str
    licence: str


# auditwheel and the like put a hash into the name of a file that they copy.
_COPY = re.compile(r"(?P<name>lib[a-z0-9]+)[.-][0-9a-f]{8}\.so(\.\d+)*")
_DLL = re.compile(r"(?P<name>[a-z0-9]+)\.dll")
_JPEG = Project(
    "libjpeg-turbo",
    "IJG AND BSD-3-Clause AND Zlib",
    re.compile(rb"libjpeg-turbo version (\d[\d.]*\d)"),
)
_PNG = Project("libpng", "libpng-2.0", re.compile(rb"[\s\0](1\.6\.\d+)\0"))
_WEBP = Project("libwebp", "BSD-3-Clause")
_ZLIB = Project("zlib", "Zlib", re.compile(rb"deflate (\d[\d.]*\d) Copyright"))
PROJECTS: Mapping[str, Project] = {
    "libavif": Project("libavif", "BSD-2-Clause", re.compile(rb"\0(1\.\d+\.\d+)\0")),
    **dict.fromkeys(("libjpeg", "jpeg8"), _JPEG),
    "libpng16": _PNG,
    **dict.fromkeys(
        ("libsharpyuv", "libwebp", "libwebpdecoder", "libwebpdemux", "libwebpmux"), _WEBP
    ),
    **dict.fromkeys(("libz", "zlib"), _ZLIB),
    "libzstd": Project("zstd", "BSD-3-Clause", re.compile(rb"\0(1\.\d+\.\d+)\0")),
}
"""Name of a file, without hash and ending -> the project that made it."""


def find(members: Iterable[ArchiveMember]) -> dict[str, Bundled]:
    """The bundled libraries of a wheel, by the name of the member."""
    found = {}
    for member in members:
        file = member.name.rpartition("/")[2]
        named = _COPY.fullmatch(file) or _DLL.fullmatch(file)
        project = PROJECTS.get(named["name"]) if named else None
        if project:
            stated = project.version.search(member.content()) if project.version else None
            version = stated[1].decode() if stated else ""
            found[member.name] = Bundled(member.name, project.name, version, project.licence)
    return found
