"""The facts of a CTK release: measured from its own binaries, never typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ctk.binaries import ELF_MAGIC, UnreadableBinary, read_bytes, version_key
from ctk.errors import LockError, MeasureFailed
from ctk.lock import Artefact, Facts, ReleaseLock
from ctk.platforms import PLATFORMS, this_platform

PROBED = "linux-64"
"""The subdir whose NVRTC is asked; what it can target is the same on every platform of a release."""

_PROBE = Path(__file__).with_name("nvrtc_probe.py")
_NVRTC = re.compile(r".*/lib/libnvrtc(-builtins)?\.so\.[\d.]+")


def needed_artefacts(lock: ReleaseLock) -> tuple[Artefact, ...]:
    """What must be at hand to measure a release: its artefacts for Linux.

    Raises:
        LockError: When the release has no NVRTC that can be asked.
    """
    nvrtc = lock.components.get("nvrtc")
    if nvrtc is None or nvrtc.artefacts.get(PROBED) is None:
        raise LockError(f"{lock.name} has no nvrtc for {PROBED}, so nothing can be measured", "measure another release")
    return tuple(a for a in lock.artefacts if _has_elf(a.target))


def measure(lock: ReleaseLock, paths: Mapping[Artefact, Path]) -> Facts:
    """The facts of a release.

    Args:
        lock: The release.
        paths: Where the file of each of ``needed_artefacts`` is.

    Raises:
        MeasureFailed: When a library does not answer.
    """
    nvrtc = next(a for a in paths if a.component == "nvrtc" and a.target == PROBED)
    architectures, ptx_isa = compiler_facts(paths[nvrtc])
    needs: dict[str, str | None] = {}  # by sha256: in CUDA 12 three components are one file
    glibc: dict[str, dict[str, str]] = {}
    for artefact in needed_artefacts(lock):
        if artefact.sha256 not in needs:
            needs[artefact.sha256] = needed_glibc(paths[artefact])
        version = needs[artefact.sha256]
        if version is not None:
            glibc.setdefault(artefact.target, {})[artefact.component] = version
    return Facts(architectures, ptx_isa, glibc)


def with_facts(lock: ReleaseLock, facts: Facts | None) -> ReleaseLock:
    return replace(lock, facts=facts)


def still_true(old: ReleaseLock, new: ReleaseLock) -> bool:
    """Whether the facts of a release hold for its new lock: they were measured from the same files."""
    return old.facts is not None and _measured(old) == _measured(new)


def compiler_facts(nvrtc: Path) -> tuple[tuple[str, ...], str]:
    """GPU architectures (``7.5``), lowest first, and PTX ISA version of an NVRTC.

    Args:
        nvrtc: A linux-64 artefact of nvrtc, or a folder with its libraries.

    Raises:
        MeasureFailed: When it does not load here, or does not compile.
    """
    if this_platform() != PROBED:
        raise MeasureFailed(f"NVRTC for {PROBED} does not load on {this_platform()}", f"measure on a {PROBED} machine")
    with TemporaryDirectory(prefix="ctk-nvrtc-") as folder:
        libraries = nvrtc if nvrtc.is_dir() else _extract(nvrtc, Path(folder))
        library = next((p for p in sorted(libraries.iterdir()) if re.fullmatch(r"libnvrtc\.so\.\d+", p.name)), None)
        if library is None:
            raise MeasureFailed(f"{nvrtc.name} holds no libnvrtc.so", "look at the release's nvrtc artefact")
        # libnvrtc looks for its builtins by name only.
        environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
        command = [sys.executable, "-I", str(_PROBE), str(library)]
        asked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if asked.returncode:
            lines = asked.stderr.strip().splitlines() or [f"ended with {asked.returncode}"]
            raise MeasureFailed(f"{library.name} does not answer: {lines[-1]}", "look at the release's nvrtc artefact")
    answer = json.loads(asked.stdout)
    return tuple(f"{n // 10}.{n % 10}" for n in answer["gpu_architectures"]), answer["ptx_isa"]


def needed_glibc(artefact: Path) -> str | None:
    """The newest glibc symbol version that the programs and libraries of an artefact need; None without any.

    Raises:
        MeasureFailed: When one of them cannot be read.
    """
    newest: str | None = None
    with zipfile.ZipFile(artefact) as archive:
        for item in archive.infolist():
            with archive.open(item) as stream:
                if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
                    continue
            try:
                binary = read_bytes(archive.read(item))
            except UnreadableBinary as error:
                raise MeasureFailed(f"{artefact.name}: {item.filename}: {error}", "look at that file") from error
            version = binary.versions.get("GLIBC") if binary else None
            if version and version_key(version) > version_key(newest or "0"):
                newest = version
    return newest


def _has_elf(target: str) -> bool:
    return target in PLATFORMS and not PLATFORMS[target].is_windows


def _measured(lock: ReleaseLock) -> dict[tuple[str, str], str]:
    return {(a.component, a.target): a.sha256 for a in lock.artefacts if _has_elf(a.target)}


def _extract(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if _NVRTC.fullmatch(name):
                (folder / name.rpartition("/")[2]).write_bytes(archive.read(name))
    return folder
