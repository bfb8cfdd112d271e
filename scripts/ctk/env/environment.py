"""Creates environments from a pick, runs commands in them, and tests that they compile kernels."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import rattler
from packaging.utils import canonicalize_name
from rattler import PackageCache, RepoDataRecord, Subdir, ValidationMode
from rattler.exceptions import InstallerError

from ctk.clean import trim_packages
from ctk.core.address import public
from ctk.core.checkout import takes_files
from ctk.core.children import run_program
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import BadValue, Busy, ChannelBroken, CtkError, WouldLose
from ctk.core.files import (
    alone,
    check_path,
    disk_errors,
    is_odd,
    make_folder,
    odd_below,
    read_json,
    read_plain,
)
from ctk.core.inside import is_file_name, place_in
from ctk.core.process import run
from ctk.env.outside import refuse_packages, refuse_reaching_out, unpacked
from ctk.env.prefix import LOCK, NOTE, Installed, Note, package_key, rewrite
from ctk.env.record_files import path_in_prefix
from ctk.fetch.channels import Archives, unusable
from ctk.package.records import spec_name
from ctk.solve.solve import Pick, lasting

PROGRAMS = Path(__file__).parent / "programs"
"""Programs for an environment's own Python or shell, which import nothing of ctk.

Packs contain some of them.
"""
RUNNER = PROGRAMS / "run-in-environment"
"""Runs a command in the environment that it is in."""
ACTIVATION = {
    f"bin/{name}": PROGRAMS / name
    for name in ("activate", "deactivate", "activate.fish", RUNNER.name)
}
"""Path in an environment -> the program there."""
STARTUP = PROGRAMS / "_ctk_conda_prefix.pth"
"""Is read by each Python that finds it in its site-packages."""
_RENAME = "name another folder: letters, digits, spaces and most signs work"


@dataclass(frozen=True)
class Terms:
    """What a change of an environment may take away.

    Attributes:
        force: Packages that `create` did not put there, too.
        yes: Packages that were asked for before, and what they brought.
        since: The keys of its packages when the pick was solved from them; None if it was not.
    """

    force: bool = False
    yes: bool = False
    since: Collection[str] | None = None


@dataclass(frozen=True)
class Environment:
    """An environment on disk."""

    prefix: Path
    pick: Pick
    changed: bool  # whether this run made or changed it
    changes: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # `_changes`, of one that was there

    @property
    def python(self) -> Path:
        return self.prefix / "bin/python"


def check(prefix: Path) -> None:
    """Refuses a place where an environment would overwrite the user's own files.

    Raises:
        BadValue: A folder with other files, a file, or a path that would break packages.
    """
    check_path(prefix, _RENAME)
    step = "name a new or empty folder, or an environment"
    there = next(place for place in (prefix, *prefix.parents) if place.exists())
    if not there.is_dir():
        raise BadValue(f"{there} is a file: no environment can be at {prefix}", step)
    if there == prefix and not (prefix / "conda-meta").is_dir() and any(prefix.iterdir()):
        raise BadValue(f"{prefix} holds files and is no environment: it has no conda-meta", step)


def check_is_there(prefix: Path) -> None:
    """Refuses a place without an environment.

    Raises:
        BadValue: There is none, or its path breaks packages.
    """
    check_path(prefix, _RENAME)
    if not (prefix / "conda-meta").is_dir():
        what = (
            "has no conda-meta"
            if prefix.is_dir()
            else "is no folder"
            if prefix.exists()
            else "is not there"
        )
        place = "./my-env" if prefix.exists() else shlex.quote(str(prefix))
        step = f"name one, or make one: `ctk env create cuda-core --prefix {place}`"
        raise BadValue(f"{prefix} is no environment: it {what}", step)


def check_is_whole(prefix: Path) -> None:
    """Refuses a place without an environment, and an environment that `create` did not finish.

    Raises BadValue.
    """
    check_is_there(prefix)
    if (note := Note.read(prefix)) and note.asked and not note.stamp:
        cause = f"{prefix} is half made: the run that makes it was stopped, or is at work now"
        raise BadValue(cause, f"wait for that run, or `{note.again(prefix)}`")


def command_in(prefix: Path, command: Sequence[str]) -> list[str]:
    """The words that run a command in an activated environment, even if `RUNNER` is not in it."""
    # With -c, the word after the script is $0, from which the script takes its place.
    return [
        "sh",
        "-c",
        RUNNER.read_text(encoding="utf-8"),
        str(prefix / "bin" / RUNNER.name),
        *command,
    ]


def create(
    pick: Pick,
    prefix: Path,
    cache: Path,
    say: Callable[[str], None] = lambda text: None,
    asked: Sequence[str] = (),
    terms: Terms = Terms(),
    report: Reporter | None = None,
) -> Environment:
    """Gives an environment exactly the packages of a pick, with bytecode and activation scripts.

    Its files are hard links into the cache of unpacked packages. Runs at the same prefix wait for
    each other.

    Args:
        pick: The packages.
        prefix: The folder; an environment that is there is changed.
        cache: The folder of unpacked packages.
        say: Is called with a line about missing bytecode, and while another run is waited for.
        asked: The request as the user typed it, for the note.
        terms: What the change may take away.
        report: Shows the progress of downloads, and rattler's bars where it draws bars.

    Raises:
        BadValue: There are packages that `create` did not put there, and the terms do not allow
            that.
        WouldLose: Packages would go because the request no longer names them, and the terms do not
            allow that.
        Busy: The terms name the packages that were there, and another run has changed them.
        NotReady: A record or a link in the prefix, and so what would be changed, leads out of it.
        ChannelBroken: A package would be installed outside of the prefix.
        NoSpace: No files can be written there.
    """
    wanted = _names_by_key(pick)
    note, has = Note.read(prefix), Installed.read(prefix)
    refuse_reaching_out(prefix, has.records)
    if (
        note
        and _is_same(note, asked)
        and _is_whole(note, has, wanted)
        and has.stamp == note.stamp
        and not has.scripts_of_others
    ):
        return Environment(prefix, pick, False)
    _check_terms(terms, note, has, pick, asked)
    _check_cache(cache)  # before anything is written
    refuse_packages(pick, prefix, cache)  # `install` does it, too, but later
    with disk_errors(prefix.parent), alone(prefix / LOCK, f"at {prefix}", say):
        note, has = (
            Note.read(prefix),
            Installed.read(prefix),
        )  # again: another run may just have ended
        refuse_reaching_out(prefix, has.records)
        _check_terms(terms, note, has, pick, asked)
        altered = {**has.damage(), **(has.with_prefix if has.scripts_of_others else {})}
        if note and _is_whole(note, has, wanted) and not altered:
            if not _is_same(note, asked):
                write_history(pick, prefix, time.localtime())
            replace(note, asked=tuple(asked) or note.asked, stamp=has.stamp).write(prefix)
            return Environment(prefix, pick, False)
        # Before any change: if this run is stopped, the note says whose the environment is, and
        # what may be half there.
        half = () if note is None or note.stamp else note.packages
        Note(tuple(sorted({*wanted, *has.packages, *half})), tuple(asked)).write(prefix)
        of_pip = has.of_pip
        leftovers = _paths_of(half, prefix, cache) | _named_files(has)
        _remove_bytecode(has)
        for file in (*has.broken, *filter(_is_foreign, has.records)):
            file.unlink()
        startup = prefix.glob(
            f"lib/python3*/site-packages/{STARTUP.name}"
        )  # would keep the folder of another Python
        _remove((path.relative_to(prefix) for path in startup), prefix)
        _remove(chain(*altered.values()), prefix)
        install(pick, prefix, cache, altered, report)
        replaced = _replaced(of_pip, Installed.read(prefix))
        _remove_leftovers(leftovers.union(*replaced.values()), prefix)
        if why := compile_modules(prefix):
            say(f"without bytecode, so that Python starts slower: {why}")
        _write_activation(pick, prefix)
        write_history(pick, prefix, time.localtime())
        Note(tuple(sorted(wanted)), tuple(asked), Installed.read(prefix).stamp).write(prefix)
    again = {*altered, *(name for key, name in wanted.items() if key not in has.packages)}
    changes = {**_changes(has, pick, again), "replaced, of pip": [*replaced]} if has.records else {}
    return Environment(prefix, pick, True, changes)


def _named_files(has: Installed) -> set[str]:
    """All files that records name.

    rattler removes those of `paths_data`. In conda's records of noarch Python packages they are not
    the paths in the prefix, so that a module stayed and Python found it without its package.
    """
    return {str(path) for record in has.records.values() for path in record.get("files") or ()}


def _remove(paths: Iterable[Path | str], prefix: Path) -> None:
    """Removes files and links of a prefix.

    What is outside, or behind a link that leads out, stays.
    """
    for path in paths:
        place = place_in(prefix, str(path))
        if place is not None and (place.is_symlink() or place.is_file()):
            place.unlink()


def _paths_of(packages: Iterable[str], prefix: Path, cache: Path) -> set[str]:
    """Where files of packages, by their keys in a note, may be in a prefix.

    The files of a package that is no longer unpacked are not known.
    """
    folders = [path.relative_to(prefix) for path in prefix.glob("lib/python3*/site-packages")]
    sites = [folder.as_posix() for folder in folders] or ["site-packages"]
    found = set()
    for file in (key.partition("#")[0] for key in packages):
        if not is_file_name(file):  # anybody may have written the note
            continue
        info = unpacked(file, cache) / "info"
        for entry in (read_json(info / "paths.json") or {}).get("paths", ()):
            found |= {path_in_prefix(str(entry["_path"]), site) for site in sites}
        noarch = (read_json(info / "link.json") or {}).get("noarch") or {}
        for line in noarch.get("entry_points") or ():
            found.add(f"bin/{str(line).partition('=')[0].strip()}")
    return found


def _replaced(of_pip: Mapping[Path, frozenset[str]], by: Installed) -> dict[str, frozenset[str]]:
    """What pip had installed and packages bring now: distribution in words -> its files."""
    found = {}
    for info, files in of_pip.items():
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if canonicalize_name(name) in by.distributions:
            found[f"{canonicalize_name(name)} {version}"] = files
    return found


def _remove_leftovers(paths: Collection[str], prefix: Path) -> None:
    """Removes files of a stopped run or of pip that no package has now: Python would find what a
    dist-info names.
    """
    has = Installed.read(prefix)
    own = {str(path) for record in has.records.values() for path in record.get("files") or ()}
    for info, files in has.of_pip.items():
        if (
            f"{info.relative_to(prefix)}/RECORD" not in paths
        ):  # pip installed it, perhaps over a package of ours
            own |= files
    for place in (place_in(prefix, path) for path in paths if path not in own):
        if place is None or place.parent == prefix / NOTE.parent:
            continue
        if place.is_symlink() or place.is_file():
            place.unlink()
        for folder in place.parents:
            if folder == prefix or folder.is_symlink():
                break
            if not folder.is_dir() or any(folder.iterdir()):
                break
            folder.rmdir()


def _changes(has: Installed, pick: Pick, again: Collection[str]) -> dict[str, list[str]]:
    """What the installation of a pick changes in an environment: kind of change -> packages in
    words.
    """
    was = {
        str(r["name"]): (str(r.get("version")), str(r.get("build"))) for r in has.records.values()
    }
    now = {r.name.normalized: (str(r.version), str(r.build)) for r in pick.records}
    both = sorted(was.keys() & now.keys())
    versions = {
        name: f"{was[name][0]} by {now[name][0]}" for name in both if was[name][0] != now[name][0]
    }
    builds = {
        name: f"{' '.join(was[name])} by {now[name][1]}" for name in both if was[name] != now[name]
    }
    return {
        "removed": [f"{name} {was[name][0]}" for name in sorted(was.keys() - now.keys())],
        "added": [f"{name} {now[name][0]}" for name in sorted(now.keys() - was.keys())],
        "replaced": [f"{name} {change}" for name, change in (builds | versions).items()],
        "installed again": [name for name in both if was[name] == now[name] and name in again],
    }


def _is_whole(note: Note, has: Installed, wanted: Iterable[str]) -> bool:
    """Whether `create` finished with these packages, and there are no others, nor wheels in their
    place.
    """
    is_all = set(wanted) == set(note.packages) == has.packages.keys()
    return bool(note.stamp) and not has.broken and is_all and not _replaced(has.of_pip, has)


def _is_same(note: Note, asked: Sequence[str]) -> bool:
    """Whether a note has this request; a caller that states none leaves it as it is."""
    return not asked or note.asked == tuple(asked)


def _is_foreign(record: Path) -> bool:
    """Whether rattler cannot read a record, which conda perhaps can.

    Rattler would install nothing beside it.
    """
    try:
        rattler.PrefixRecord.from_path(record)
    except Exception:  # rattler has errors of its own
        return True
    return False


def _names_by_key(pick: Pick) -> dict[str, str]:
    return {_key(record): str(record.name.normalized) for record in pick.records}


def _check_terms(
    terms: Terms, note: Note | None, has: Installed, pick: Pick, asked: Sequence[str]
) -> None:
    if terms.since is not None and terms.since != has.packages.keys():
        raise Busy(
            f"another run has just changed {has.prefix}, and nothing was changed by this one",
            "type it again",
        )
    if terms.force:
        return
    _check_owner(note, has, _names_by_key(pick))
    if not terms.yes:
        _check_request(note, has, pick, asked)


def _check_owner(note: Note | None, has: Installed, wanted: Iterable[str]) -> None:
    """Refuses an environment with packages that `create` did not put there, and names packages that
    it would remove.
    """
    ours = {*wanted, *note.packages} if note else set()
    others = [title for key, title in has.packages.items() if key not in ours]
    others += [file.name for file in has.broken if note is None]
    if others:
        lost = [title for key, title in has.packages.items() if key not in {*ours, *wanted}]
        what = (
            f"and would lose {listing(sorted(lost), most=20)}" if lost else "and is of another tool"
        )
        raise BadValue(
            f"{has.prefix} has {count(len(others), 'package')} that this command did not put there,"
            f" {what}",
            "name a new or empty folder, or let it have only what you ask for with --force",
        )


def _check_request(note: Note | None, has: Installed, pick: Pick, asked: Sequence[str]) -> None:
    """Refuses a request that leaves out what was asked for before, if packages would go with that.

    A package also goes where another version no longer needs it: that is no loss.
    """
    specs = Note((), tuple(asked)).specs
    now = {spec_name(spec) for spec in specs}
    before = {spec_name(spec) for spec in note.specs} if note else set()
    picked = {record.name.normalized for record in pick.records}
    lost = [
        (str(r["name"]), str(r.get("version")))
        for r in has.records.values()
        if r["name"] not in picked
    ]
    if not lost or before <= now:
        return
    titles = [f"{name} {version}" for name, version in sorted(lost)]
    left_out = sorted(before - now)
    verb = "are" if len(left_out) > 1 else "is"
    cause = (
        f"{has.prefix} would lose {len(lost)} of its {count(len(has.records), 'package')}, because "
        f"{listing(left_out)} {verb} not named now: {listing(titles, most=20)}"
    )
    more = [spec for spec in specs if spec_name(spec) not in before]
    step = "to let them go, type it again with --yes"
    if more:
        add = shlex.join(["ctk", "env", "add", str(has.prefix), *more])
        step = f"to keep them and have more: `{add}`; {step}"
    raise WouldLose(cause, step, titles)


def _check_cache(cache: Path) -> None:
    """Makes the cache of packages.

    A cache that cannot be written is NoSpace: rattler's own error says little.
    """
    with disk_errors(cache):
        make_folder(cache)
        if not takes_files(cache):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(cache))


def install(
    pick: Pick,
    prefix: Path,
    cache: Path,
    altered: Iterable[str] = (),
    report: Reporter | None = None,
) -> None:
    """Installs the packages of a pick, installs packages with altered files again, and removes
    other packages.

    It runs no programs of packages. Our client downloads packages on servers, and rattler unpacks
    them.

    Raises:
        ChannelBroken, NotReady: Those of `refuse_packages`, or a package cannot be unpacked or
            installed.
        ChannelMissing, HashMismatch: It cannot be downloaded.
    """
    refuse_packages(pick, prefix, cache)
    check_path(
        prefix, "have the checkout and its cache in other folders"
    )  # for packs, nobody named the folder
    _check_cache(cache)
    # Local rebuilds keep their file name: a package with another content is installed again.
    wanted = {r.file_name: (r.name.normalized, r.sha256.hex()) for r in pick.records if r.sha256}
    archives = Archives.beside(cache)
    with disk_errors(prefix.parent, cache):
        _forget_odd(cache, {unpacked(record.file_name, cache) for record in pick.records})
        for record in pick.records:
            _forget_without_digests(unpacked(record.file_name, cache))
        has = Installed.read(prefix)
        again = {
            wanted[file][0]
            for record in has.records.values()
            if (file := str(record.get("fn"))) in wanted
            and (record.get("sha256") != wanted[file][1] or wanted[file][0] in altered)
        }
        with archives.used(pick.records, (report or Reporter()).say):
            _download(_needed(pick.records, has, again, cache), archives, report)
            # What was downloaded can be read now.
            fetched = [record for record in pick.records if archives.place(record).is_file()]
            refuse_packages(pick, prefix, cache, archives.here(fetched))
            _link(pick, prefix, cache, again, archives, report)
            archives.forget(pick.records)
        _settle_records(prefix, archives.origins(pick.records))
    trim_packages(cache)


def _needed(
    records: Iterable[RepoDataRecord], has: Installed, again: Collection[str], cache: Path
) -> list[RepoDataRecord]:
    """The packages that rattler will unpack: they are not installed, and not unpacked either."""
    known = run(PackageCache(cache).index())
    return [
        record
        for record in records
        if (record.name.normalized in again or _key(record) not in has.packages)
        and not known.contains_record(record)
    ]


def _key(record: RepoDataRecord) -> str:
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
    """Rewrites the records that rattler just wrote, with the mode that the umask gives: rattler
    writes mode 0600.

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


def compile_modules(prefix: Path) -> str:
    """Compiles modules without bytecode with the environment's own Python.

    Returns why it could not, or "".
    """
    python = prefix / "bin/python"
    if not python.exists():
        return ""
    words: list[str | Path] = [
        python,
        "-I",
        "-S",
        "-B",
        "-W",
        "ignore",
        PROGRAMS / "bytecode.py",
        prefix,
    ]
    try:
        done = run_program(words)
    except OSError as error:
        return f"its Python does not start: {error.strerror}"
    return (
        f"its Python says {(done.stderr.splitlines() or ['nothing'])[-1]}"
        if done.returncode
        else ""
    )


def _remove_bytecode(has: Installed) -> None:
    """Removes the bytecode of an earlier run: it would stay when its package is removed, and so
    would its folders.
    """
    prefix = has.prefix
    own = {path for record in has.records.values() for path in map(str, record.get("files") or ())}
    for folder in [*prefix.glob("lib/python3*/**/__pycache__")]:
        if place_in(prefix, folder.relative_to(prefix).as_posix()) is None:
            continue
        if folder.is_symlink():  # Python would write through it
            folder.unlink()
            continue
        for file in folder.glob("*.pyc"):
            if file.relative_to(prefix).as_posix() not in own:
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def _write_activation(pick: Pick, prefix: Path) -> None:
    """Writes the programs that activate an environment, wherever it is moved to.

    Packs have them too.
    """
    if pick.record("conda"):  # the package has its own scripts
        return
    write_startup(prefix)
    for target, source in ACTIVATION.items():
        place = prefix / target
        place.parent.mkdir(exist_ok=True)
        rewrite(place, source.read_bytes())
    (prefix / "bin" / RUNNER.name).chmod(0o755)  # shells read the others


def write_startup(prefix: Path) -> None:
    """Makes the environment's Python set CONDA_PREFIX, as an IDE or a service starts it by its
    path, not activated.

    cuda-pathfinder then takes headers and libNVVM from the environment, and not from CUDA_HOME or
    /usr/local/cuda.
    """
    for folder in prefix.glob("lib/python3*/site-packages"):
        startup = folder.relative_to(prefix) / STARTUP.name
        if not folder.parent.is_symlink() and place_in(prefix, startup.as_posix()):
            rewrite(folder / STARTUP.name, STARTUP.read_bytes())


def write_history(pick: Pick, prefix: Path, now: time.struct_time) -> None:
    """Notes the request as conda does: without requests, `conda remove` of a package removes all
    other packages too.

    Format: conda/history.py. conda adds the installed packages itself when it changes something.
    """
    specs = [spec for spec in pick.scenario.specs if not spec.startswith("__")]
    history = prefix / "conda-meta" / "history"
    if (
        history.is_symlink() or not history.is_file()
    ):  # what is behind a link is not of this environment
        history.unlink(missing_ok=True)
    with history.open("a", encoding="utf-8") as file:
        file.write(f"==> {time.strftime('%Y-%m-%d %H:%M:%S', now)} <==\n")
        file.write(f"# cmd: ctk env create {shlex.join(specs)}\n# update specs: {specs}\n")
