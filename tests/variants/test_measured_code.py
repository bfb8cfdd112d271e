"""What is read of the code in NVIDIA's binaries is what cuobjdump lists, and what locks say of GPUs is what they hold.

cuobjdump looks into the sections that are made for such code; ours is compared there. It ends at some of NVIDIA's own
libraries with "Invalid ELF" (13.5.37 at cuBLAS 12.0, after seven objects, and at cuFile of 13.4): what it listed until
then is held against ours.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ctk.core.checkout import Workspace
from ctk.core.files import exclusive
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import fetch, laid_out
from ctk.index.index import Index
from ctk.lock.facts import known_gpus, unmeasured_code
from ctk.lock.lock import Artefact, ReleaseLock, release_locks
from ctk.package.binaries import ELF_MAGIC
from ctk.package.gpu_code import FileCode, read, read_wheel
from ctk.package.gpu_support import bound, present

HERE = Workspace(Path(__file__).resolve().parents[2])
LOCKS = release_locks(HERE)
MEASURED = [lock for lock in LOCKS.values() if lock.is_ctk or lock.is_library_set]
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
QUICK = 30_000_000  # bytes of a wheel; the rest is for the sweep


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if this_platform() != "linux-64":
        pytest.skip("NVIDIA's cuobjdump that is asked is the one for linux-64")
    newest = max((k for k in LOCKS.values() if "cuobjdump" in k.components), key=lambda k: k.release)
    artefact = newest.components["cuobjdump"].artefacts["linux-64"]
    assert artefact
    with exclusive(HERE, print):
        (wheel,) = fetch([artefact], HERE, Index)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/bin/cuobjdump"))
        program = Path(archive.extract(name, tmp_path_factory.mktemp("cuobjdump")))
    program.chmod(0o755)
    return program


def at_hand(lock: ReleaseLock, subdir: str, quick: bool) -> Iterator[Artefact]:
    for artefact in lock.artefacts:
        if artefact.target == subdir and laid_out(artefact, HERE).exists() and (artefact.size < QUICK) is quick:
            yield artefact


def listed(cuobjdump: Path, file: Path) -> tuple[Counter[str], bool]:
    """Target, without the letter of a family, which it leaves out -> objects; and whether it came to the end."""
    found: Counter[str] = Counter()
    whole = True
    for option, ending in (("--list-elf", "cubin"), ("--list-ptx", "ptx")):
        done = subprocess.run([cuobjdump, "-all", option, file], capture_output=True, text=True, check=False)
        found.update(f"{ending} {target}" for target in re.findall(rf"\.sm_(\d+a?)f?\.{ending}\b", done.stdout))
        whole &= "fatal" not in done.stderr
    return found, whole


def read_here(code: FileCode) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in code.code:
        if each.kind != "lto" and (each.size or each.kind == "stub"):
            found[f"{'ptx' if each.isa else 'cubin'} {each.target.rstrip('f')}"] += each.count
    return found


def compare(lock: ReleaseLock, quick: bool, cuobjdump: Path, folder: Path) -> int:
    compared = 0
    for artefact in at_hand(lock, "linux-64", quick):
        with zipfile.ZipFile(laid_out(artefact, HERE)) as wheel:
            for item in wheel.infolist():
                with wheel.open(item) as stream:
                    start = stream.read(len(ELF_MAGIC))
                if start != ELF_MAGIC and not item.filename.endswith(".a"):
                    continue
                file = Path(wheel.extract(item, folder))
                if start == ELF_MAGIC:
                    with file.open("rb") as stream:
                        held = [s.data() for name in SECTIONS if (s := ELFFile(stream).get_section_by_name(name))]
                    content = b"".join(held)
                else:
                    content = file.read_bytes()
                expected, whole = listed(cuobjdump, file)
                ours = read_here(read(content))
                assert ours == expected if whole else ours >= expected, f"{artefact.file}: {item.filename}"
                compared += bool(expected)
                file.unlink()
    return compared


@pytest.mark.parametrize("lock", [k for k in MEASURED if k.is_ctk], ids=lambda lock: lock.name)
def test_small_binaries_hold_what_cuobjdump_lists(lock: ReleaseLock, cuobjdump: Path, tmp_path: Path) -> None:
    if not compare(lock, True, cuobjdump, tmp_path):
        pytest.skip("nothing of it that has code is in the cache")


@pytest.mark.sweep
@pytest.mark.parametrize("lock", MEASURED, ids=lambda lock: lock.name)
def test_large_binaries_hold_what_cuobjdump_lists(lock: ReleaseLock, cuobjdump: Path, tmp_path: Path) -> None:
    if not compare(lock, False, cuobjdump, tmp_path):
        pytest.skip("nothing of it that has code is in the cache")


@pytest.mark.parametrize("lock", MEASURED, ids=lambda lock: lock.name)
def test_every_library_is_measured(lock: ReleaseLock) -> None:
    assert unmeasured_code(lock) == ()


def hold_to_wheels(lock: ReleaseLock, quick: bool) -> int:
    checked = 0
    for name, stated in lock.gpu_code.items():
        for subdir, gpus in stated.items():
            for artefact in at_hand(lock, subdir, quick):
                if (
                    artefact.component == lock.components[name].name
                    and artefact.version == lock.components[name].version
                ):
                    files = read_wheel(laid_out(artefact, HERE)).values()
                    assert bound(files, present(known_gpus(LOCKS.values()), subdir)) == gpus, artefact.file
                    checked += 1
    return checked


@pytest.mark.parametrize("lock", MEASURED, ids=lambda lock: lock.name)
def test_the_gpus_of_small_wheels_are_what_the_lock_says(lock: ReleaseLock) -> None:
    if not hold_to_wheels(lock, True):
        pytest.skip("nothing of it that has code is in the cache")


@pytest.mark.sweep
@pytest.mark.parametrize("lock", MEASURED, ids=lambda lock: lock.name)
def test_the_gpus_of_large_wheels_are_what_the_lock_says(lock: ReleaseLock) -> None:
    if not hold_to_wheels(lock, False):
        pytest.skip("nothing of it that has code is in the cache")
