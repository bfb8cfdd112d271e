"""Chooses the wheel of a version for each target, and reads its licence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from typing import BinaryIO

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ctk.core.platforms import targets
from ctk.core.versions import PythonTag
from ctk.index.index import Index, IndexFile
from ctk.index.inside import members, metadata_of
from ctk.lock.model import UNDECLARED, Artefact, Component


def is_wheel(file: IndexFile) -> bool:
    return file.file.endswith(".whl")


def targets_of(file: IndexFile) -> frozenset[str]:
    """The targets in the name of a wheel."""
    if not is_wheel(file):
        return frozenset()
    try:
        _, _, _, tags = parse_wheel_filename(file.file)
    except InvalidWheelFilename:
        return frozenset()
    return targets(tags)


def wheel_for(files: Iterable[IndexFile], target: str) -> IndexFile | None:
    """The wheel of a version for a target, or None.

    Of several, the highest build tag wins, as in pip; then the most platform tags (older CTK
    releases were uploaded a second time with modern tags added to the name); then the last name.
    """
    candidates = [file for file in files if target in targets_of(file)]
    return max(candidates, key=_preference, default=None)


def _preference(file: IndexFile) -> tuple[object, int, str]:
    _, _, build, tags = parse_wheel_filename(file.file)
    return build, len(tags), file.file


def runs_on(file: IndexFile, tag: str) -> bool:
    """Whether the Requires-Python of a file accepts the Python of a tag: ``cp314t`` is 3.14."""
    python = PythonTag.read(tag)
    try:
        return python is not None and python.minor in SpecifierSet(file.requires_python or "")
    except InvalidSpecifier:
        return False


def final_versions(
    files: Iterable[IndexFile], accepted: SpecifierSet | None = None
) -> list[Version]:
    """Accepted versions with a wheel, newest first: none yanked, no pre-releases, no local ones.

    A local version (``2.13.0+cpu``) is somebody's own build of the version.
    """
    versions = {v for f in files if is_wheel(f) and not f.yanked and (v := _version(f))}
    public = (v for v in versions if not v.is_prerelease and v.local is None)
    return sorted((v for v in public if accepted is None or v in accepted), reverse=True)


def files_of(files: Iterable[IndexFile], version: Version) -> list[IndexFile]:
    """The wheels of a version that are not yanked."""
    return [f for f in files if is_wheel(f) and not f.yanked and _version(f) == version]


def _version(file: IndexFile) -> Version | None:
    """The version of a file.

    None if the standard does not know it, and then the file is never locked.
    """
    try:
        return Version(file.version)
    except InvalidVersion:
        return None


def component(
    index: Index, name: str, files: Sequence[IndexFile], targets: Sequence[str]
) -> Component:
    """A component made of the wheels of a version, at least one.

    Hashes, sizes, times and licences are the index's.
    """
    chosen = {target: file for target in targets if (file := wheel_for(files, target))}
    with ThreadPoolExecutor(8) as pool:
        artefacts = pool.map(lambda target: artefact(index, name, target, chosen[target]), chosen)
        stated = pool.map(lambda file: read_licence(index, file), dict.fromkeys(chosen.values()))
        locked = dict.fromkeys(targets) | dict(zip(chosen, artefacts, strict=True))
        return Component(
            name, files[0].distribution, files[0].version, locked, *joined_licences(stated)
        )


def artefact(index: Index, name: str, target: str, file: IndexFile) -> Artefact:
    """A file of the index as an artefact of a lock."""
    stated = index.sha256(file), index.size(file), index.uploaded(file)
    return Artefact(name, file.distribution, file.version, target, file.file, *stated)


# ---- licences

_LONGEST_LICENCE = 120  # characters of a declaration; a longer one is a text
_IN_A_WHEEL = re.compile(r"[^/]+\.dist-info/(licenses/.+|[^/]+)")
# e.g. Apache-2.0.txt, if no file has licence in its name.
_OF_ANY_NAME = re.compile(r"[^/]+\.dist-info/licenses/.+")
_IN_A_LIBRARY = re.compile(r"(nvidia/)?[^/]+/[^/]+")  # if a wheel has no text in its metadata
_IN_SOURCES = re.compile(r"[^/]+/[^/]+")
_NAMED = re.compile(r"licen[cs]e|copying|notice|eula", re.I)


@dataclass(frozen=True)
class Licence:
    """The licence that an artefact declares, or `UNDECLARED`, and the sha256 of its texts.

    `content` is the text of these files, one after another.
    """

    declared: str
    text: str | None
    content: str = field(default="", compare=False, repr=False)


def read_licence(index: Index, file: IndexFile) -> Licence:
    """The licence of a wheel or source distribution.

    Of a large file only the needed parts are fetched.
    """
    with index.opened(file) as stream:
        return licence_in(stream, file.file)


def licence_in(stream: BinaryIO, name: str) -> Licence:
    """The same of an open file of this name."""
    with members(stream, name) as files:
        metadata = BytesParser().parsebytes(metadata_of(files, name).content(), headersonly=True)
        place = _IN_A_WHEEL if name.endswith(".whl") else _IN_SOURCES
        named = [m for m in files if _NAMED.search(m.name.rpartition("/")[2])]
        found = [m for m in named if place.fullmatch(m.name)]
        found = found or [m for m in files if _OF_ANY_NAME.fullmatch(m.name)]
        found = found or [m for m in named if _IN_A_LIBRARY.fullmatch(m.name)]
        # Wheels of one version differ by system in their line ends.
        contents = {member.content().replace(b"\r\n", b"\n") for member in found}
    texts = {
        hashlib.sha256(content).hexdigest(): content.decode("utf-8", "replace")
        for content in contents
    }
    digests = sorted(texts)
    combined = hashlib.sha256("\n".join(digests).encode()).hexdigest() if len(texts) > 1 else None
    content = "\n".join(texts[digest] for digest in digests)
    return Licence(declared_licence(metadata), combined or next(iter(digests), None), content)


def joined_licences(stated: Iterable[Licence]) -> tuple[str, tuple[str, ...]]:
    """The licences that a component's artefacts declare, joined, and the sha256s of texts."""
    licences = list(stated)
    names = sorted({licence.declared for licence in licences}) or [UNDECLARED]
    return " | ".join(names), tuple(sorted({licence.text for licence in licences if licence.text}))


def declared_licence(metadata: Message) -> str:
    """The licence in METADATA: ``License-Expression``, else ``License``, else classifiers.

    A ``License`` that is a whole text becomes its first line and a sha256.
    """
    for name in ("License-Expression", "License"):
        text = str(metadata[name] or "")
        line = " ".join(text.split())
        if line and line != "UNKNOWN":
            return line if len(line) <= _LONGEST_LICENCE else _shortened(text)
    classifiers = map(str, metadata.get_all("Classifier") or [])
    names = {
        c.removeprefix("License ::").strip() for c in classifiers if c.startswith("License ::")
    }
    return "; ".join(sorted(names)) or UNDECLARED


def _shortened(text: str) -> str:
    line = " ".join(next(line for line in text.splitlines() if line.strip()).split())
    normal = " ".join(text.split())
    return f"{line[:_LONGEST_LICENCE]} (text {hashlib.sha256(normal.encode()).hexdigest()})"
