"""The facts of a release: measured from its own binaries, never typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter

from ctk.core.errors import LockError, MeasureFailed
from ctk.core.files import file_sha256
from ctk.core.memo import memo
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.components import GPU_LIBRARIES
from ctk.lock.model import Artefact, Facts, ReleaseLock
from ctk.package import gpu_fatbin
from ctk.package.binaries import ELF_MAGIC, Binary, UnreadableBinary, oldest_glibc, read_bytes, version_key
from ctk.package.gpu_fatbin import FileCode, read_wheel
from ctk.package.gpu_subject import Known
from ctk.package.gpu_support import bound, present

PROBED = "linux-64"
"""The subdir whose NVRTC is asked; what it can target is the same on every platform of a release."""

AtHand = Callable[[Sequence[Artefact]], AbstractContextManager[Sequence[Path]]]
"""Gives files for as long as its block lasts: those of one component at a time, as a whole release is gigabytes."""
_PATIENCE = 600  # seconds
_STEP = "look at the release's nvrtc artefact"
_PROBE = Path(__file__).with_name("nvrtc_probe.py")
_CODE = TypeAdapter(tuple[FileCode, ...])
_READER = file_sha256(Path(gpu_fatbin.__file__))[:8]  # what another reader found is read anew
_NVRTC = re.compile(r".*/lib/libnvrtc(-builtins)?\.so\.[\d.]+")


def needed_artefacts(lock: ReleaseLock) -> tuple[Artefact, ...]:
    """The Linux artefacts, from which facts are measured; LockError when no NVRTC is among them that can be asked."""
    nvrtc = lock.components.get("nvrtc")
    if nvrtc is None or nvrtc.artefacts.get(PROBED) is None:
        raise LockError(f"{lock.name} has no nvrtc for {PROBED}, so nothing can be measured", "measure another release")
    return tuple(a for a in lock.artefacts if _has_elf(a.target))


def known_needs(locks: Iterable[ReleaseLock]) -> dict[str, str | None]:
    """The glibc that measured files need, by their sha256; None for a file that needs none."""
    return {
        a.sha256: needs[a.component]
        for lock in locks
        for a in lock.artefacts
        if _has_elf(a.target) and a.component in (needs := _needs(lock, a.target))
    }


def with_known(old: ReleaseLock, new: ReleaseLock) -> ReleaseLock:
    """A new lock with the facts of the old one while its files stay, else with what is known of those that do."""
    same = [name for name in new.components if _files(old, name) == _files(new, name)]
    new = replace(new, gpu_code={name: old.gpu_code[name] for name in same if name in old.gpu_code})
    if not new.is_ctk:
        return new
    before, after, known = _measured(old), _measured(new), known_needs([old])
    if old.facts and before == after:
        return replace(new, facts=old.facts)
    needs: dict[str, dict[str, str | None]] = {}
    for (component, target), sha256 in after.items():
        if before.get((component, target)) == sha256 and sha256 in known:
            needs.setdefault(target, {})[component] = known[sha256]
    return replace(new, measured=needs)


def to_measure(lock: ReleaseLock, known: Collection[str]) -> tuple[Artefact, ...]:
    """What must be at hand to measure a release, each file once: its NVRTC, and what is not among the known files."""
    unique: dict[str, Artefact] = {}  # in CUDA 12 three components are one file
    for artefact in needed_artefacts(lock):
        unique.setdefault(artefact.sha256, artefact)
    return tuple(a for a in unique.values() if a.sha256 not in known or _is_probed(a))


def measure(lock: ReleaseLock, known: Mapping[str, str | None], at_hand: AtHand) -> Facts:
    """The facts of a release, of which some files are known already, by sha256."""
    needs = dict(known)
    compiler: tuple[tuple[str, ...], str] = (), ""
    for _, group in groupby(to_measure(lock, known), lambda a: a.component):
        artefacts = tuple(group)
        with at_hand(artefacts) as paths:
            for artefact, path in zip(artefacts, paths, strict=True):
                if _is_probed(artefact):
                    compiler = compiler_facts(path)
                if artefact.sha256 not in needs:
                    needs[artefact.sha256] = needed_glibc(path)
    glibc: dict[str, dict[str, str]] = {}
    for artefact in needed_artefacts(lock):
        version = needs[artefact.sha256]
        if version is not None:
            glibc.setdefault(artefact.target, {})[artefact.component] = version
    return Facts(*compiler, glibc)


def compiler_facts(nvrtc: Path) -> tuple[tuple[str, ...], str]:
    """GPU architectures (``7.5``), lowest first, and PTX ISA version of an NVRTC: a linux-64 artefact, or a folder."""
    if this_platform() != PROBED:
        raise MeasureFailed(f"NVRTC for {PROBED} does not load on {this_platform()}", f"measure on a {PROBED} machine")
    with TemporaryDirectory(prefix="ctk-nvrtc-") as folder:
        libraries = nvrtc if nvrtc.is_dir() else _extract(nvrtc, Path(folder))
        library = next((p for p in sorted(libraries.iterdir()) if re.fullmatch(r"libnvrtc\.so\.\d+", p.name)), None)
        if library is None:
            raise MeasureFailed(f"{nvrtc.name} holds no libnvrtc.so", _STEP)
        # libnvrtc looks for its builtins by name only.
        environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
        command = [sys.executable, "-I", str(_PROBE), str(library)]
        try:
            asked = subprocess.run(
                command, env=environment, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise MeasureFailed(f"{library.name} does not end", _STEP) from None
        if asked.returncode:
            lines = asked.stderr.strip().splitlines() or [f"ended with {asked.returncode}"]
            raise MeasureFailed(f"{library.name} does not answer: {lines[-1]}", _STEP)
    return parse_answer(asked.stdout, library.name)


def parse_answer(text: str, library: str) -> tuple[tuple[str, ...], str]:
    """What the probe printed: ``{"gpu_architectures": [75, 80], "ptx_isa": "9.4"}``; else MeasureFailed."""
    try:
        answer = json.loads(text)
        numbers, ptx_isa = answer["gpu_architectures"], answer["ptx_isa"]
        if all(type(n) is int and 10 <= n < 10_000 for n in numbers) and re.fullmatch(
            r"[0-9]{1,4}\.[0-9]{1,4}", ptx_isa
        ):
            return tuple(f"{n // 10}.{n % 10}" for n in numbers), ptx_isa
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise MeasureFailed(f"{library} answers what cannot be read: {text[:200]!r}", _STEP)


def needed_glibc(artefact: Path) -> str | None:
    """The oldest glibc that has what all ELF files of an artefact need; None where they need nothing of it."""
    found: dict[str, Binary] = {}
    with zipfile.ZipFile(artefact) as archive:
        for item in archive.infolist():
            with archive.open(item) as stream:
                if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
                    continue
            try:
                binary = read_bytes(archive.read(item))
            except UnreadableBinary as error:
                raise MeasureFailed(f"{artefact.name}: {item.filename}: {error}", "look at that file") from error
            if binary:
                found[binary.soname or item.filename] = binary
    needs = (oldest_glibc(binary, lambda name: filter(None, [found.get(name)])) for binary in found.values())
    return max(needs, key=version_key, default="") or None


def unmeasured_code(lock: ReleaseLock) -> tuple[str, ...]:
    """The libraries of a release of which it is not known yet on which GPUs they run."""
    names = [n for n in GPU_LIBRARIES if n in lock.components] if lock.is_ctk else lock.components
    return tuple(name for name in names if name not in lock.gpu_code)


def code_to_read(lock: ReleaseLock, known: Mapping[str, str]) -> tuple[Artefact, ...]:
    """What must be at hand to say on which GPUs the components run that are not measured: one file for a platform.

    Of one with wheels for several Pythons, which have the same code, that is the wheel for the newest.
    """
    asked = [a for name in unmeasured_code(lock) for a in _by_subdir(lock, name).values()]
    return tuple({a.sha256: a for a in asked if a.sha256 not in known}.values())


def known_code(locks: Iterable[ReleaseLock]) -> dict[str, str]:
    """The GPUs that measured files run on, by their sha256; "" for a file without code."""
    return {
        artefact.sha256: stated.get(subdir, "")
        for lock in locks
        for name, stated in lock.gpu_code.items()
        for subdir, artefact in _by_subdir(lock, name).items()
    }


def measure_code(
    lock: ReleaseLock, gpus: Sequence[str], known: Mapping[str, str], at_hand: AtHand, kept: Path
) -> dict[str, dict[str, str]]:
    """Component -> subdir -> the GPUs, of those that some toolkit can compile for, on which its code runs.

    Of a component that has no code for the first platform, the others are not read. Some files are known, by sha256;
    what others hold is kept in a folder, so that a run that was ended goes on where it was.
    """
    found: dict[str, dict[str, str]] = {name: dict(stated) for name, stated in lock.gpu_code.items()}
    for name in unmeasured_code(lock):
        found[name] = {}
        for subdir, artefact in _by_subdir(lock, name).items():
            text = known.get(artefact.sha256)
            if text is None:
                text = bound(_code_of(artefact, at_hand, kept), present(gpus, subdir))
            if not text:
                break
            found[name][subdir] = text
    return dict(sorted(found.items()))


def _code_of(artefact: Artefact, at_hand: AtHand, kept: Path) -> tuple[FileCode, ...]:
    note = memo(kept / "gpu-code", [artefact.sha256, _READER], _CODE)
    found = note.read()
    if found is None:
        with at_hand([artefact]) as (path,):
            found = note.write(tuple(read_wheel(path).values()))
    return found


def known_gpus(locks: Iterable[ReleaseLock]) -> tuple[str, ...]:
    """Every compute capability that the NVRTC of some release can compile for, lowest first."""
    return tuple(sorted({g for k in locks if k.facts for g in k.facts.gpu_architectures}, key=version_key))


def known(locks: Collection[ReleaseLock]) -> Known:
    """GPUs, PTX versions and compile targets of the toolkits that locks have measured facts of."""
    measured = {lock.minor: lock.facts for lock in locks if lock.facts}
    return Known(
        known_gpus(locks),
        {minor: facts.ptx_isa for minor, facts in measured.items()},
        {minor: facts.gpu_architectures for minor, facts in measured.items()},
    )


def _by_subdir(lock: ReleaseLock, name: str) -> dict[str, Artefact]:
    """The wheel of a component for each platform: of several for Pythons, the newest one with the GIL."""
    wheels: dict[str, Artefact] = {}
    for subdir in PLATFORMS:
        here = {t: a for t, a in lock.components[name].artefacts.items() if a and t.startswith(subdir)}
        here = {t: a for t, a in here.items() if t == subdir or t.startswith(f"{subdir}-cp")}
        if here:
            wheels[subdir] = here[max(here, key=lambda t: (not t.endswith("t"), len(t), t))]
    return wheels


def _files(lock: ReleaseLock, name: str) -> dict[str, str]:
    return {t: a.sha256 for t, a in lock.components[name].artefacts.items() if a} if name in lock.components else {}


def _has_elf(target: str) -> bool:
    return target in PLATFORMS and not PLATFORMS[target].is_windows


def _is_probed(artefact: Artefact) -> bool:
    return (artefact.component, artefact.target) == ("nvrtc", PROBED)


def _needs(lock: ReleaseLock, subdir: str) -> Mapping[str, str | None]:
    """What is known of the components of a release on one subdir; those without ELF files are not in its facts."""
    if lock.facts is None:
        return lock.measured.get(subdir, {})
    return {**dict.fromkeys(lock.components), **lock.facts.glibc.get(subdir, {})}


def _measured(lock: ReleaseLock) -> dict[tuple[str, str], str]:
    return {(a.component, a.target): a.sha256 for a in lock.artefacts if _has_elf(a.target)}


def _extract(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if _NVRTC.fullmatch(name):
                (folder / name.rpartition("/")[2]).write_bytes(archive.read(name))
    return folder
