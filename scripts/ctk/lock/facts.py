"""The facts of a release: measured from its own binaries, never typed.

NVRTC is asked what it can compile for. The oldest glibc, and the GPUs that libraries run on, follow
from what `ctk.lock.contents` says of each artefact.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ctk.core.children import run_program
from ctk.core.errors import LockError, MeasureFailed
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.lock import contents
from ctk.lock.components import gpu_libraries, unmeasured
from ctk.lock.contents import AtHand, Contents
from ctk.lock.model import Artefact, Facts, ReleaseLock, known_gpus
from ctk.package.binaries import oldest_glibc_of
from ctk.package.gpu_known import Known
from ctk.package.gpu_support import common

PROBED = "linux-64"
"""The subdir whose NVRTC is asked.

NVRTC can compile for the same GPUs on every platform of a release.
"""

_STEP = "look at the release's nvrtc artefact"
_PROBE = Path(__file__).with_name("nvrtc_probe.py")
_NVRTC = re.compile(r".*/lib/libnvrtc(-builtins)?\.so\.[\d.]+")


def needs_measuring(lock: ReleaseLock, held: Contents) -> bool:
    """Whether something can be measured of a lock's artefacts that is not known yet."""
    return lock.is_measured and bool(unmeasured(lock) or contents.unmeasured(held, [lock]))


def to_fetch(lock: ReleaseLock, held: Contents) -> tuple[Artefact, ...]:
    """The artefacts that `measure` reads: NVRTC for facts, and each without known contents."""
    return (*_asked(lock), *contents.unmeasured(held, [lock]))


def measure(
    lock: ReleaseLock, held: Contents, locks: Iterable[ReleaseLock], at_hand: AtHand, kept: Path
) -> ReleaseLock:
    """The lock with its facts and the GPUs of its code.

    What is inside its artefacts is added to ``held``.
    The other locks say which GPUs there are. ``kept`` is the folder of `ctk.lock.contents.measure`.

    Raises:
        LockError: A CTK release has no NVRTC that can be asked.
        MeasureFailed: NVRTC gives no answer, or an artefact cannot be read.
    """
    asked = _asked(lock)
    with at_hand(asked) as paths:
        for nvrtc in paths:
            lock = replace(lock, facts=Facts(*compiler_facts(nvrtc), {}))
        contents.measure(held, lock, known_gpus([lock, *locks]), at_hand, kept)
    if asked and lock.facts:
        lock = replace(lock, facts=replace(lock.facts, glibc=needed_glibc(lock, held)))
    return replace(lock, gpu_code=gpu_code(lock, held))


def with_known(old: ReleaseLock, new: ReleaseLock) -> ReleaseLock:
    """A new lock with the old facts if its Linux files stay, and the GPUs of files that stay."""
    same = [name for name in new.components if _files(old, name) == _files(new, name)]
    new = replace(new, gpu_code={name: old.gpu_code[name] for name in same if name in old.gpu_code})
    return replace(new, facts=old.facts) if _linux_files(old) == _linux_files(new) else new


def compiler_facts(nvrtc: Path) -> tuple[tuple[str, ...], str]:
    """GPU architectures (``7.5``), lowest first, and PTX ISA version of a linux-64 NVRTC."""
    if this_platform() != PROBED:
        raise MeasureFailed(
            f"NVRTC for {PROBED} does not load on {this_platform()}",
            f"measure on a {PROBED} machine",
        )
    with TemporaryDirectory(prefix="ctk-nvrtc-") as folder:
        libraries = _extract(nvrtc, Path(folder))
        library = next(
            (p for p in sorted(libraries.iterdir()) if re.fullmatch(r"libnvrtc\.so\.\d+", p.name)),
            None,
        )
        if library is None:
            raise MeasureFailed(f"{nvrtc.name} has no libnvrtc.so", _STEP)
        # libnvrtc looks for its builtins by name only.
        environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
        command = [sys.executable, "-I", str(_PROBE), str(library)]
        asked = run_program(command, env=environment)
        if asked.returncode:
            lines = asked.stderr.strip().splitlines() or [f"ended with {asked.returncode}"]
            raise MeasureFailed(f"{library.name} does not answer: {lines[-1]}", _STEP)
    answer = json.loads(asked.stdout)
    return (
        tuple(f"{number // 10}.{number % 10}" for number in answer["gpu_architectures"]),
        answer["ptx_isa"],
    )


def needed_glibc(lock: ReleaseLock, held: Contents) -> dict[str, dict[str, str]]:
    """Subdir -> component -> the oldest glibc that all its ELF files need, if any."""
    needs: dict[str, dict[str, str]] = {}
    for artefact in lock.artefacts:
        if not _has_elf(artefact.target):
            continue
        members = held.members(artefact.sha256) or {}
        headers = {name: content.binary for name, content in members.items() if content.binary}
        if version := oldest_glibc_of(headers):
            needs.setdefault(artefact.target, {})[artefact.component] = version
    return needs


def gpu_code(lock: ReleaseLock, held: Contents) -> dict[str, dict[str, str]]:
    """Library -> subdir -> the GPUs that its code runs on; without code, no subdir."""
    found: dict[str, dict[str, str]] = {}
    for name in sorted(gpu_libraries(lock)):
        found[name] = {}
        for artefact in contents.representatives(lock.components[name].artefacts):
            bounds = [c.gpus for c in (held.members(artefact.sha256) or {}).values() if c.gpus]
            if bounds and artefact.subdir != NOARCH:
                found[name][artefact.subdir] = common(bounds)
    return found


def known(locks: Collection[ReleaseLock]) -> Known:
    """GPUs, PTX versions and compile targets of the toolkits whose locks have facts."""
    measured = {lock.minor: lock.facts for lock in locks if lock.facts}
    return Known(
        known_gpus(locks),
        {minor: facts.ptx_isa for minor, facts in measured.items()},
        {minor: facts.gpu_architectures for minor, facts in measured.items()},
    )


def _asked(lock: ReleaseLock) -> tuple[Artefact, ...]:
    """The NVRTC of a CTK release without facts; nothing for other locks."""
    if lock.facts or not lock.is_ctk:
        return ()
    nvrtc = lock.components["nvrtc"].artefacts.get(PROBED) if "nvrtc" in lock.components else None
    if nvrtc is None:
        raise LockError(
            f"{lock.name} has no nvrtc for {PROBED}, so nothing can be measured",
            "measure another release",
        )
    return (nvrtc,)


def _files(lock: ReleaseLock, name: str) -> dict[str, str]:
    return (
        {t: a.sha256 for t, a in lock.components[name].artefacts.items() if a}
        if name in lock.components
        else {}
    )


def _linux_files(lock: ReleaseLock) -> dict[tuple[str, str], str]:
    return {(a.component, a.target): a.sha256 for a in lock.artefacts if _has_elf(a.target)}


def _has_elf(target: str) -> bool:
    return target in PLATFORMS and not PLATFORMS[target].is_windows


def _extract(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if _NVRTC.fullmatch(name):
                (folder / name.rpartition("/")[2]).write_bytes(archive.read(name))
    return folder
