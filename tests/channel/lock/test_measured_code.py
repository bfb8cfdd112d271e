"""The code that is read from NVIDIA's binaries is compared with cuobjdump's list, and the GPUs with
the locks.

cuobjdump reads the sections that are made for such code, so both are compared there. At some of
NVIDIA's libraries it ends with "Invalid ELF" (13.5.37 at cuBLAS 12.0, after seven objects, and at
cuFile of 13.4): its list until then is compared.
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
from ctk.core.locks import exclusive
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import fetch, laid_out
from ctk.index.index import Index
from ctk.lock.facts import PROBED
from ctk.lock.model import Artefact, ReleaseLock, known_gpus, release_locks
from ctk.package.binaries import ELF_MAGIC
from ctk.package.gpu_fatbin import FileCode, read, read_wheel
from ctk.package.gpu_support import bound, present

HERE = Workspace(Path(__file__).resolve().parents[3])
LOCKS = release_locks(HERE)
MEASURED = [lock for lock in LOCKS.values() if lock.is_measured]
LIBRARIES = [lock for lock in MEASURED if lock.is_ctk or lock.is_library_set]
SECTIONS = (".nv_fatbin", "__nv_relfatbin")


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it does not run, tests/channel/package/test_gpu_code.py checks the reading of
    made-up binaries.
    """
    if this_platform() != PROBED:
        pytest.skip("NVIDIA's cuobjdump that is asked is the one for linux-64")
    newest = max(
        (k for k in LOCKS.values() if "cuobjdump" in k.components), key=lambda k: k.release
    )
    artefact = newest.components["cuobjdump"].artefacts[PROBED]
    assert artefact
    with exclusive(HERE, print):
        (wheel,) = fetch([artefact], HERE, Index)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/bin/cuobjdump"))
        program = Path(archive.extract(name, tmp_path_factory.mktemp("cuobjdump")))
    program.chmod(0o755)
    return program


def fetched(lock: ReleaseLock) -> Artefact:
    """The smallest library of a release with code, a few megabytes.

    It is fetched if it is not in the cache.
    """
    (name,) = (name for name in lock.gpu_code if name == "nvjpeg" or name.startswith("nvjpeg2k"))
    artefact = lock.components[name].artefacts[PROBED]
    assert artefact
    with exclusive(HERE, print):
        fetch([artefact], HERE, Index)
    return artefact


def in_cache() -> Iterator[tuple[ReleaseLock, str, Artefact]]:
    """The wheels of measured libraries that are in the cache: lock, library and wheel."""
    for lock in MEASURED:
        for name in lock.gpu_code:
            for artefact in lock.components[name].artefacts.values():
                if artefact and laid_out(artefact, HERE).exists():
                    yield lock, name, artefact


def listed(cuobjdump: Path, file: Path) -> tuple[Counter[str], bool]:
    """Target, without the letter of a family, which cuobjdump leaves out -> objects.

    And whether it read to the end.
    """
    found: Counter[str] = Counter()
    whole = True
    for option, ending in (("--list-elf", "cubin"), ("--list-ptx", "ptx")):
        done = subprocess.run(
            [cuobjdump, "-all", option, file], capture_output=True, text=True, check=False
        )
        found.update(
            f"{ending} {target}"
            for target in re.findall(rf"\.sm_(\d+a?)f?\.{ending}\b", done.stdout)
        )
        whole &= "fatal" not in done.stderr
    return found, whole


def read_here(code: FileCode) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in code.code:
        if each.kind != "lto" and (each.size or each.kind == "stub"):
            found[f"{'ptx' if each.isa else 'cubin'} {each.target.rstrip('f')}"] += each.count
    return found


def compare(artefact: Artefact, cuobjdump: Path, folder: Path) -> int:
    """Compares each binary of a wheel; returns the number of binaries with code."""
    compared = 0
    with zipfile.ZipFile(laid_out(artefact, HERE)) as wheel:
        for item in wheel.infolist():
            with wheel.open(item) as stream:
                if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
                    continue
            file = Path(wheel.extract(item, folder))
            with file.open("rb") as stream:
                held = [
                    s.data()
                    for name in SECTIONS
                    if (s := ELFFile(stream).get_section_by_name(name))
                ]
            expected, whole = listed(cuobjdump, file)
            ours = read_here(read(b"".join(held)))
            assert ours == expected if whole else ours >= expected, (
                f"{artefact.file}: {item.filename}"
            )
            compared += bool(expected)
            file.unlink()
    return compared


def compare_with_lock(lock: ReleaseLock, name: str, artefact: Artefact) -> None:
    subdir = artefact.target.partition("-cp")[0]
    found = bound(
        read_wheel(laid_out(artefact, HERE)).values(), present(known_gpus(LOCKS.values()), subdir)
    )
    assert found == lock.gpu_code[name].get(subdir, ""), artefact.file


@pytest.mark.parametrize("lock", LIBRARIES, ids=lambda lock: lock.name)
def test_a_library_holds_what_cuobjdump_lists(
    lock: ReleaseLock, cuobjdump: Path, tmp_path: Path
) -> None:
    assert compare(fetched(lock), cuobjdump, tmp_path)


@pytest.mark.sweep
def test_all_libraries_in_the_cache_hold_what_cuobjdump_lists(
    cuobjdump: Path, tmp_path: Path
) -> None:
    wheels = {a.sha256: a for _, _, a in in_cache() if a.target.startswith(PROBED)}
    assert sum(compare(artefact, cuobjdump, tmp_path) for artefact in wheels.values())


@pytest.mark.parametrize("lock", LIBRARIES, ids=lambda lock: lock.name)
def test_the_gpus_of_a_library_are_those_of_the_lock(lock: ReleaseLock) -> None:
    artefact = fetched(lock)
    compare_with_lock(lock, artefact.component, artefact)


@pytest.mark.sweep
def test_the_gpus_of_all_libraries_in_the_cache_are_those_of_the_locks() -> None:
    for lock, name, artefact in in_cache():
        compare_with_lock(lock, name, artefact)
