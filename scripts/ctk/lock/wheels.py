"""Which wheel of a version is for which target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ctk.core.platforms import targets
from ctk.index.index import Index, IndexFile
from ctk.lock import licences
from ctk.lock.lock import Artefact, Component

_LONGEST = 250
"""Characters of a file name. Tags multiply: a longer name could mean millions of combinations."""


def is_wheel(file: IndexFile) -> bool:
    return file.file.endswith(".whl") and len(file.file) <= _LONGEST


def targets_of(file: IndexFile) -> set[str]:
    """The targets that the name of a wheel says it is for."""
    try:
        _, _, _, tags = parse_wheel_filename(file.file) if is_wheel(file) else ("", "", (), ())
    except InvalidWheelFilename:
        return set()
    return targets(tags)


def wheel_for(files: Iterable[IndexFile], target: str) -> IndexFile | None:
    """The wheel of one version for a target, or None.

    Of several, the one with the highest build tag, as pip takes it; then the one with the most platform tags (older
    CTK releases were uploaded a second time with modern tags added to the name); then the last by name.
    """
    fitting = [file for file in files if target in targets_of(file)]
    return max(fitting, key=_preference, default=None)


def _preference(file: IndexFile) -> tuple[object, int, str]:
    _, _, build, tags = parse_wheel_filename(file.file)
    return build, len(tags), file.file


def final_versions(files: Iterable[IndexFile], accepted: SpecifierSet | None = None) -> list[Version]:
    """Versions that have a wheel, newest first: no pre-release, nothing yanked, only accepted ones."""
    versions = {v for f in files if is_wheel(f) and not f.yanked and (v := _version(f))}
    return sorted((v for v in versions if not v.is_prerelease and (accepted is None or v in accepted)), reverse=True)


def files_of(files: Iterable[IndexFile], version: Version) -> list[IndexFile]:
    """The wheels of one version that are not yanked."""
    return [f for f in files if is_wheel(f) and not f.yanked and _version(f) == version]


def _version(file: IndexFile) -> Version | None:
    """None where the file's name states none that the standard knows: no release is made of it."""
    try:
        return Version(file.version)
    except InvalidVersion:
        return None


def component(index: Index, name: str, files: Sequence[IndexFile], targets: Sequence[str]) -> Component:
    """A component of the wheels of one version, asking the index for what a listing does not say; at least one."""
    chosen = {target: file for target in targets if (file := wheel_for(files, target))}
    with ThreadPoolExecutor(8) as pool:
        artefacts = pool.map(lambda target: artefact(index, name, target, chosen[target]), chosen)
        stated = pool.map(lambda file: licences.read(index, file), dict.fromkeys(chosen.values()))
        locked = dict.fromkeys(targets) | dict(zip(chosen, artefacts, strict=True))
        return Component(name, files[0].distribution, files[0].version, locked, *licences.together(stated))


def artefact(index: Index, name: str, target: str, file: IndexFile) -> Artefact:
    """A file of the index as a lock states it."""
    stated = index.sha256(file), index.size(file), index.uploaded(file)
    return Artefact(name, file.distribution, file.version, target, file.file, *stated)
