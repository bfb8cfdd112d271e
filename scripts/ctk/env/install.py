"""Installs the packages of a pick with rattler, from a cache of unpacked packages."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import rattler
from rattler import PackageCache, RepoDataRecord, Subdir, ValidationMode
from rattler.exceptions import InstallerError

from ctk.clean import trim_packages
from ctk.core.address import public
from ctk.core.checkout import takes_files
from ctk.core.console import Reporter
from ctk.core.disk import disk_errors, refuse_breaking_path
from ctk.core.errors import ChannelBroken, CtkError
from ctk.core.files import is_odd, make_folder, odd_below, read_json, read_plain
from ctk.core.process import run
from ctk.env.outside import refuse_packages, unpacked
from ctk.env.prefix import Installed, package_key, rewrite
from ctk.fetch.channels import Archives, unusable
from ctk.solve.solve import Pick, lasting


def make_cache(cache: Path) -> None:
    """Makes the cache of unpacked packages.

    Raises:
        NoSpace: It cannot be written; rattler's own error says little.
    """
    with disk_errors(cache):
        make_folder(cache)
        if not takes_files(cache):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(cache))


def install(
    pick: Pick,
    prefix: Path,
    cache: Path,
    altered: Collection[str] = (),
    report: Reporter | None = None,
) -> None:
    """Installs the packages of a pick, and removes all others.

    Packages with altered files are installed again. It runs no programs of packages. Our client
    downloads packages on servers, and rattler unpacks them.

    Raises:
        ChannelBroken, NotReady: Those of `refuse_packages`, or a package cannot be unpacked or
            installed.
        ChannelMissing, HashMismatch: It cannot be downloaded.
    """
    refuse_packages(pick, prefix, cache)
    # of a pack, nobody named the folder
    refuse_breaking_path(prefix, "have the checkout and its cache in other folders")
    make_cache(cache)
    archives = Archives.beside(cache)
    with disk_errors(prefix.parent, cache):
        _forget_unusable(pick, cache)
        installed = Installed.read(prefix)
        again = _to_replace(pick, installed, altered)
        with archives.used(pick.records, (report or Reporter()).say):
            _download(_needed(pick.records, installed, again, cache), archives, report)
            # What was downloaded can be read now.
            fetched = [record for record in pick.records if archives.place(record).is_file()]
            refuse_packages(pick, prefix, cache, archives.here(fetched))
            _link(pick, prefix, cache, again, archives, report)
            archives.forget(pick.records)
        _settle_records(prefix, archives.origins(pick.records))
    trim_packages(cache)


def _to_replace(pick: Pick, installed: Installed, altered: Collection[str]) -> set[str]:
    """The names of installed packages that are installed again.

    Their files were altered, or the package with this file name has other content now: local
    rebuilds keep their file name.
    """
    wanted = {record.file_name: record for record in pick.records if record.sha256}
    found = set()
    for record in installed.records.values():
        new = wanted.get(str(record.get("fn")))
        if new is None or new.sha256 is None:
            continue
        name = new.name.normalized
        if record.get("sha256") != new.sha256.hex() or name in altered:
            found.add(name)
    return found


def _needed(
    records: Iterable[RepoDataRecord], installed: Installed, again: Collection[str], cache: Path
) -> list[RepoDataRecord]:
    """The packages that rattler will unpack: they are not installed, and not unpacked either."""
    known = run(PackageCache(cache).index())
    return [
        record
        for record in records
        if (record.name.normalized in again or key_of(record) not in installed.packages)
        and not known.contains_record(record)
    ]


def key_of(record: RepoDataRecord) -> str:
    """The key of a package in a note."""
    return package_key(record.file_name, record.sha256 and record.sha256.hex())


def _download(
    records: Sequence[RepoDataRecord], archives: Archives, report: Reporter | None
) -> None:
    """Downloads packages on servers that are not here yet."""
    missing = archives.missing(records)
    if not missing:
        return
    size = sum(record.size or 0 for record in missing)
    shown = report or Reporter()
    with shown.task("download", size, bytes_=True) as task:
        archives.fetch(missing, task.advance)


def _link(
    pick: Pick,
    prefix: Path,
    cache: Path,
    again: set[str],
    archives: Archives,
    report: Reporter | None,
) -> None:
    """Makes rattler unpack packages, and link their files into the prefix.

    Raises:
        ChannelBroken: A package cannot be unpacked or installed.
    """

    async def install() -> None:
        await rattler.install(
            archives.here(pick.records),
            target_prefix=prefix,
            package_cache=whole_packages(cache),
            platform=Subdir(pick.scenario.subdir),
            reinstall_packages=again or None,
            show_progress=bool(report and report.live),
        )

    tried: set[str] = set()
    while True:
        try:
            with disk_errors(prefix.parent, cache):
                run(install())
            return
        except InstallerError as error:
            named = [
                record for record in _named_in(str(error), pick) if record.file_name not in tried
            ]
            if not named:
                raise _not_installed(pick, error) from error
            # What is unpacked of it may be damaged: rattler looks at its metadata only.
            for record in named:
                shutil.rmtree(unpacked(record.file_name, cache), ignore_errors=True)
                tried.add(record.file_name)
            _download(named, archives, report)


def _named_in(reason: str, pick: Pick) -> list[RepoDataRecord]:
    """The packages whose file a text of rattler names.

    ``core-1-0.conda`` is not in ``cuda-core-1-0.conda``.
    """
    return [
        record
        for record in pick.records
        if re.search(rf"(?<![\w.+-]){re.escape(record.file_name)}", reason)
    ]


def _not_installed(pick: Pick, error: InstallerError) -> CtkError:
    """The error for a package that rattler does not install.

    Its text says which, by its file name.
    """
    reason = " ".join(str(error).split())
    named = _named_in(reason, pick)
    if not named:
        return ChannelBroken(f"packages cannot be installed: {reason}", "see what the reason names")
    return unusable(named[0], reason)


def _forget_unusable(pick: Pick, cache: Path) -> None:
    """Removes what rattler must not read of a cache of unpacked packages."""
    folders = [unpacked(record.file_name, cache) for record in pick.records]
    _forget_odd(cache, set(folders))
    for folder in folders:
        _forget_without_digests(folder)


def _forget_odd(cache: Path, wanted: Collection[Path]) -> None:
    """Removes pipes, devices and sockets from a cache, with the unpacked package that has one.

    rattler would wait for them: it reads the metadata of all packages, and every file of those that
    are wanted.
    """
    for place in cache.iterdir():
        if is_odd(place):
            place.unlink()
        elif place.is_dir() and not place.is_symlink():
            read = place if place in wanted else place / "info"
            if any(odd_below(read)):
                shutil.rmtree(place)


def _forget_without_digests(package: Path) -> None:
    """Removes an unpacked package without digests: nothing tells whether a file was edited."""
    if not package.is_dir():
        return
    listed = read_json(package / "info" / "paths.json")
    entries = listed.get("paths") if isinstance(listed, dict) else None
    files = [entry for entry in entries or () if entry.get("path_type") == "hardlink"]
    if entries is None or not all(entry.get("sha256") for entry in files):
        shutil.rmtree(package)


def whole_packages(cache: Path) -> PackageCache:
    """A cache that reads all files of a package before its use, and unpacks an altered one anew.

    The files of environments are hard links into it, so an edit in place changes the package.
    Times do not show that for sure, since anybody can set them. The digests of a package are in its
    info/paths.json, which no environment has a link to.
    """
    return PackageCache.new_layered([cache], validation_mode=ValidationMode.full())


def _settle_records(prefix: Path, origins: Mapping[str, str]) -> None:
    """Rewrites the records that rattler just wrote with mode 0600, with that of the umask.

    They then name the link of a channel of ours, not its state, and the server of a package, not
    the archive that was unpacked, since conda clones an environment from there.
    """
    for file in (prefix / "conda-meta").glob("*.json"):
        if stat.S_IMODE(file.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR:
            record = json.loads(read_plain(file))
            record["url"] = origins.get(record.get("url"), record.get("url"))
            # A server's index may name an address with a token in it.
            for key in ("channel", "url"):
                if record.get(key):
                    record[key] = lasting(public(record[key]))
            rewrite(file, json.dumps(record, indent=1).encode())
