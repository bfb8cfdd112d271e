"""What would reach outside of an environment: its records, its links, and packages to be installed.

rattler and conda use the paths of a record as they are: they remove and overwrite files wherever
that leads, and rattler ends the whole process at some of them. So nothing that reaches outside
comes to rattler, and no command of a client is advised for such an environment.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rattler import RepoDataRecord

from ctk.core.console import listing
from ctk.core.errors import AuditFailed, ChannelBroken, NotReady
from ctk.core.inside import is_file_name, outside, wrong_with
from ctk.env.prefix import Installed, package_key, text_of
from ctk.env.record_files import path_in_prefix
from ctk.package.archives import shown
from ctk.package.reader import members, readable
from ctk.solve.solve import Pick

_SHOWN = 4  # of a longer list
_OF_CLIENTS = re.compile(r"conda-meta(/([^/]*\.json|history|ctk|ctk\.lock))?")
"""Files in an environment that a client writes, and no package."""
_WRITTEN = ("conda-meta/history", "bin/activate")
"""Files of `ctk env create`, one for each folder that it writes into, whatever the packages are."""
_LISTS = ("info/paths.json", "info/link.json")
_ENDING = re.compile(r"\.(conda|tar\.bz2)$")
NEW_FOLDER = (
    "create it again in a new folder, and let no client change or remove packages in this one"
)
"""The next step for an environment that reaches outside."""


def reaching_out(prefix: Path, records: Mapping[Path, Mapping[str, Any]]) -> list[str]:
    """What an environment and its records have outside of it, each in words.

    Empty if all is inside.
    A file of conda-meta is not a package's either: whoever removes the package would remove the
    records of others.
    """
    found = list(dict.fromkeys(outside(prefix, _WRITTEN).values()))
    for file, record in records.items():
        identity = "-".join(str(record.get(key)) for key in ("name", "version", "build"))
        names = [identity, record.get("fn") or identity]
        unfit = [str(name) for name in names if not is_file_name(name)]
        wrong = dict.fromkeys(unfit, "a file cannot have this name")
        paths = _paths(record)
        wrong |= outside(prefix, paths) | _of_clients(paths)
        found += [f"{shown(file.name)} names {words}" for words in _in_words(wrong)]
    return found


def _in_words(wrong: Mapping[str, str]) -> Iterator[str]:
    """Paths and why they are wrong; the paths of each reason together."""
    for reason in dict.fromkeys(wrong.values()):
        paths = [shown(path) or "''" for path, why in wrong.items() if why == reason]
        yield f"{listing(paths, most=2)}: {reason}"


def in_words(found: Sequence[str]) -> str:
    """What `reaching_out` has found, in a sentence."""
    what = "a change could remove or overwrite files that are not of its packages"
    return f"{what}: {listing(found, most=_SHOWN)}"


def _paths(record: Mapping[str, Any]) -> list[object]:
    """Each path of a record that a client joins to the prefix."""
    found: list[object] = [*(record.get("files") or ())]
    for entry in (record.get("paths_data") or {}).get("paths") or ():
        # rattler gives a file its original name back when a package with the same file goes.
        found += [entry[key] for key in ("_path", "original_path") if entry.get(key) is not None]
    return found


def _of_clients(paths: Iterable[object]) -> dict[str, str]:
    named = [path for path in map(str, paths) if _OF_CLIENTS.fullmatch(posixpath.normpath(path))]
    return dict.fromkeys(named, "it is not a file of a package")


def refuse_reaching_out(prefix: Path, records: Mapping[Path, Mapping[str, Any]]) -> None:
    """Raises NotReady for an environment whose change would remove or write files outside of it."""
    if found := reaching_out(prefix, records):
        raise NotReady(f"{prefix}: {in_words(found)}", f"{NEW_FOLDER}; nothing was changed")


def refuse_packages(
    pick: Pick, prefix: Path, cache: Path, records: Sequence[RepoDataRecord] | None = None
) -> None:
    """Refuses packages that would be installed outside of a prefix, or behind a link out of it.

    Args:
        pick: All packages of the environment; its Python says where modules go.
        prefix: The folder of the environment.
        cache: The folder of unpacked packages. A package of a server is read only if it is there.
        records: The packages to look at, with the addresses to read them from; by default those of
            the pick.

    An installed package may be in no channel any more: `refuse_reaching_out` has seen its record.

    Raises:
        ChannelBroken: A package, or its record in the index, names such a path.
        NotReady: A link in the prefix leads out, where a package has files.
    """
    site = _site_packages(pick)
    places: list[str] = []
    installed = Installed.read(prefix).packages
    for record in pick.records if records is None else records:
        key = package_key(record.file_name, record.sha256 and record.sha256.hex())
        if key in installed and not _is_there(record):
            continue
        paths: list[str] = []
        wrong = _wrong_in_index(record)
        if not wrong:
            try:
                paths, wrong = _files_of(record, cache)
            except AuditFailed as error:
                raise _broken(record, f"cannot be read: {error.cause}") from None
        if wrong:
            where = listing(wrong, most=_SHOWN)
            raise _broken(record, f"would reach outside of the environment: {where}")
        places += _in_prefix(record, paths, site)
    if behind := outside(prefix, [*_WRITTEN, *places]):
        words = list(dict.fromkeys(behind.values()))
        cause = f"packages would write outside of {prefix}: {listing(words, most=_SHOWN)}"
        raise NotReady(cause, "name a new folder with --prefix; nothing was changed")


def _is_there(record: RepoDataRecord) -> bool:
    """Whether the file of a package can be read, or is on a server."""
    address = urlsplit(record.url)
    return address.scheme != "file" or Path(unquote(address.path)).is_file()


def _broken(record: RepoDataRecord, why: str) -> ChannelBroken:
    """The error for a package that is not installed."""
    channel = shown(record.channel or "a channel")
    step = "tell the channel's keeper, and name another channel; nothing was installed"
    return ChannelBroken(f"{shown(record.file_name)} of {channel} {why}", step)


def _site_packages(pick: Pick) -> str:
    """The folder of modules of the pick's Python, as a path in the prefix."""
    python = pick.record("python")
    if python is None:
        return ""
    minor = ".".join(str(python.version).split(".")[:2])
    return python.python_site_packages_path or f"lib/python{minor}/site-packages"


def _wrong_in_index(record: RepoDataRecord) -> list[str]:
    """What is wrong with the fields of a record from which a client makes paths."""
    if not is_file_name(record.file_name):
        return [f"no file can have the name {shown(record.file_name)}"]
    site = record.python_site_packages_path
    why = "" if site is None else wrong_with(site)
    return [f"its modules go to {shown(str(site))}: {why}"] if why else []


def _files_of(record: RepoDataRecord, cache: Path) -> tuple[list[str], list[str]]:
    """The paths in a package, as far as it is on this machine, and what is wrong with them.

    Raises:
        AuditFailed: The package cannot be read.
    """
    texts = _metadata(record, cache)
    with readable(Path(record.file_name)):
        listed = json.loads(texts.get("info/paths.json", b"{}")).get("paths", ())
        link = json.loads(texts.get("info/link.json", b"{}"))
        paths = [str(entry["_path"]) for entry in listed]
        points = [str(point) for point in (link.get("noarch") or {}).get("entry_points") or ()]
    reasons = {path: wrong_with(path) for path in paths} | _of_clients(paths)
    wrong = list(_in_words({path: why for path, why in reasons.items() if why}))
    commands = [point.partition("=")[0].strip() for point in points]
    unfit = [shown(name) for name in commands if not is_file_name(name)]
    wrong += [f"no command can have the name {name}" for name in unfit]
    return paths, wrong


def _metadata(record: RepoDataRecord, cache: Path) -> dict[str, bytes]:
    """The files under info/ of a package in a folder, or of one that is unpacked.

    Raises:
        AuditFailed: The file is not a readable package.
    """
    address = urlsplit(record.url)
    file = Path(unquote(address.path))
    if address.scheme == "file" and file.suffix == ".conda":
        return {member.path: stream.read() for member, stream in members(file, "info") if stream}
    package = unpacked(record.file_name, cache)
    return {name: text_of(package / name).encode() for name in _LISTS if (package / name).is_file()}


def unpacked(file_name: str, cache: Path) -> Path:
    """Where a cache has a package unpacked; the name was seen by `is_file_name`."""
    return cache / _ENDING.sub("", file_name)


def _in_prefix(record: RepoDataRecord, paths: Iterable[str], site: str) -> Iterator[str]:
    """Where a client installs the files of a package."""
    for path in paths:
        yield path_in_prefix(path, site) if record.noarch.python else path
