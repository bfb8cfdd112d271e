"""Measuring: what a library does not answer is an error, and a need of glibc is found wherever it hides."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import lief
import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, UnknownName
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock import contents, facts
from ctk.lock.facts import (
    MeasureFailed,
    compiler_facts,
    known_code,
    known_needs,
    measure,
    measure_code,
    needed_artefacts,
    needed_glibc,
    with_known,
)
from ctk.lock.model import Artefact, Component, ReleaseLock, load, release_locks, variant_keys
from ctk.package.binaries import Binary
from kit.binaries import code, elf, fatbin
from kit.ctk_release import Have, Run, release
from kit.fake_index import FakeIndex

pytest_plugins = ["kit.ctk_release_fixtures"]
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads this machine's ELF files")
on_linux_64 = pytest.mark.skipif(this_platform() != "linux-64", reason="loads a linux-64 library")


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@on_linux
def test_the_newest_need_of_any_elf_file_counts(tmp_path: Path) -> None:
    python = Path(sys.executable).resolve().read_bytes()
    path = wheel(tmp_path / "a.zip", {"a.txt": b"GLIBC_2.99", "deep/in/it": python, "short": b"\x7f"})
    parsed = lief.ELF.parse(list(python))
    assert parsed is not None
    needs = [aux.name for need in parsed.symbols_version_requirement for aux in need.get_auxiliary_symbols()]
    found = [m[1] for name in needs if (m := re.fullmatch(r"GLIBC_([\d.]+)", str(name)))]
    assert needed_glibc(path) == max(found, key=lambda v: tuple(map(int, v.split("."))))


def test_the_newest_need_counts_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = {b"1": {"GLIBC": "2.9"}, b"2": {"GLIBC": "2.27"}, b"3": {"GLIBC": "2.17"}, b"4": {}}
    monkeypatch.setattr(facts, "read_bytes", lambda content: Binary("elf", "x86_64", versions=needs[content[4:]]))
    path = wheel(tmp_path / "a.zip", {f"lib/{n.decode()}.so": b"\x7fELF" + n for n in needs})
    assert needed_glibc(path) == "2.27"


def test_an_artefact_without_elf_files_needs_no_glibc(tmp_path: Path) -> None:
    assert needed_glibc(wheel(tmp_path / "a.zip", {"include/a.h": b"#pragma once\n", "a.a": b"!<arch>\n"})) is None


def test_an_elf_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = wheel(tmp_path / "a.zip", {"lib/a.so": b"\x7fELF" + b"\xff" * 100})
    with pytest.raises(MeasureFailed, match=r"lib/a\.so"):
        needed_glibc(path)


@on_linux_64
def test_an_artefact_without_nvrtc_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MeasureFailed, match=r"a\.zip holds no libnvrtc\.so"):
        compiler_facts(wheel(tmp_path / "a.zip", {"nvidia/cu13/lib/libother.so.13": b""}))


@on_linux_64
def test_a_library_that_does_not_load_is_an_error_with_the_loader_s_words(tmp_path: Path) -> None:
    path = wheel(tmp_path / "a.zip", {"nvidia/cu13/lib/libnvrtc.so.13": b"no library"})
    with pytest.raises(MeasureFailed, match=r"libnvrtc.so.13 does not answer: .*(too short|invalid ELF header)"):
        compiler_facts(path)


def test_another_platform_cannot_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "this_platform", lambda: "win-64")
    with pytest.raises(MeasureFailed, match="does not load on win-64"):
        compiler_facts(tmp_path)


def test_a_release_is_measured_from_its_linux_artefacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = release("13.4.3", "cudart", "nvrtc")
    wanted = needed_artefacts(lock)
    assert [(a.component, a.target) for a in wanted] == [
        (c, t) for c in ("cudart", "nvrtc") for t in ("linux-64", "linux-aarch64")
    ]
    with pytest.raises(LockError, match=r"cuda-13\.4 has no nvrtc for linux-64"):
        needed_artefacts(release("13.4.3", "cudart"))

    monkeypatch.setattr(facts, "compiler_facts", lambda path: (("7.5", "12.1"), path.stem))
    needs = {"cudart-linux-64.zip": "2.17", "nvrtc-linux-aarch64.zip": "2.27"}
    monkeypatch.setattr(facts, "needed_glibc", lambda path: needs.get(path.name))
    distinct = [replace(a, sha256=f"{i:064}") for i, a in enumerate(wanted)]
    components = {c: Component(c, c, "1", {a.target: a for a in distinct if a.component == c}) for c in lock.components}
    lock = replace(lock, components=components)
    fetched: list[list[str]] = []

    @contextmanager
    def at_hand(artefacts: Sequence[Artefact]) -> Iterator[list[Path]]:
        fetched.append([f"{a.component}-{a.target}.zip" for a in artefacts])
        yield [Path(name) for name in fetched[-1]]

    found = measure(lock, {}, at_hand)
    assert found.ptx_isa == "nvrtc-linux-64"
    assert found.glibc == {"linux-64": {"cudart": "2.17"}, "linux-aarch64": {"nvrtc": "2.27"}}
    # One component at a time, and what is known already not at all; NVRTC answers for itself.
    assert fetched == [[f"{c}-{t}.zip" for t in ("linux-64", "linux-aarch64")] for c in ("cudart", "nvrtc")]
    fetched.clear()
    again = measure(lock, known_needs([replace(lock, facts=found)]), at_hand)
    assert (again, fetched) == (found, [["nvrtc-linux-64.zip"]])


def test_the_command_fetches_measures_and_writes(
    run: Run, here: Workspace, index: FakeIndex, have: Have, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "compiler_facts", lambda path: (("7.5", "12.1"), "9.4"))
    monkeypatch.setattr(facts, "needed_glibc", lambda path: "2.17")
    have("13.4")
    with pytest.raises(UnknownName):
        run("measure", "13.5")
    run("measure", "13.4")
    assert load(here.variants / "cuda-13.4.lock").facts is None
    run("measure", "--write")
    lock = load(here.variants / "cuda-13.4.lock")
    assert lock.facts is not None
    assert (lock.facts.gpu_architectures, lock.facts.ptx_isa) == (("7.5", "12.1"), "9.4")
    assert lock.facts.glibc["linux-aarch64"] == dict.fromkeys(lock.components, "2.17")
    # What was not in the cache before is not there afterwards; that it was looked through is known.
    left = [p for p in here.cache.rglob("*") if p.is_file() and p.parent != here.cache]
    assert {p.parent.name for p in left} == {"artefacts", "gpu-code", "contents"}
    held = contents.load(here)
    assert not contents.unmeasured(held, release_locks(here).values())
    assert held.dump() == contents.path_of(here).read_text()
    index.requests.clear()
    assert "nothing changes" in run("measure")
    assert index.requests == []
    assert "nothing changes" in run("measure", "--again")


def with_code(*targets: str) -> bytes:
    return elf(payload=fatbin(*(code("cubin", target) for target in targets)))


def test_the_gpus_of_a_component_are_read_platform_by_platform(tmp_path: Path) -> None:
    """Once for each file, and of what has no code for the first platform, not for the others."""
    content = {
        ("cufft", "linux-64"): with_code("70", "75", "80"),
        ("cufft", "linux-aarch64"): with_code("75", "80"),
        ("cufft", "win-64"): with_code("75", "80"),
        ("cufft", "win-arm64"): with_code("100"),
    }
    lock = release("13.4.3", "cufft", "npp")
    components = {}
    for number, name in enumerate(lock.components):
        files = {t: replace(a, sha256=f"{number}{i:063}") for i, (t, a) in enumerate(artefacts(lock, name))}
        components[name] = replace(lock.components[name], artefacts=files)
    lock = replace(lock, components=components)
    read: list[str] = []

    @contextmanager
    def at_hand(wanted: Sequence[Artefact]) -> Iterator[list[Path]]:
        (artefact,) = wanted
        read.append(f"{artefact.component} {artefact.target}")
        library = content.get((artefact.component, artefact.target), elf())
        yield [wheel(tmp_path / "a.whl", {"lib/liba.so": library})]

    gpus = ("7.0", "7.5", "8.0", "10.0", "11.0")
    kept = tmp_path / "kept"
    found = measure_code(lock, gpus, {}, at_hand, kept)
    assert found == {
        "cufft": {
            "linux-64": ">=7.0,<10.0",
            "linux-aarch64": ">=7.5,<10.0",
            "win-64": ">=7.5,<10.0",
            "win-arm64": ">=10.0,<11.0",
        },
        "npp": {},
    }
    assert read == [*(f"cufft {subdir}" for subdir in PLATFORMS), "npp linux-64"]
    read.clear()
    # A run that was ended before it wrote the lock reads nothing twice; nor does one that finds it in another lock.
    assert measure_code(lock, gpus, {}, at_hand, kept) == found
    known = known_code([replace(lock, gpu_code=found)])
    assert measure_code(lock, gpus, known, at_hand, tmp_path / "empty") == found
    assert read == []
    keys = variant_keys(replace(lock, gpu_code=found))
    assert (keys["cufft_gpus"], keys["cufft_gpus_win_arm64"]) == ([">=7.5,<10.0"], [">=10.0,<11.0"])
    assert "npp_gpus" not in keys
    # With a new file of one component, the other stays measured.
    other = replace(lock.components["cufft"], artefacts={"linux-64": None})
    newer = with_known(
        replace(lock, gpu_code=found), replace(lock, components={**lock.components, "cufft": other}, gpu_code={})
    )
    assert newer.gpu_code == {"npp": {}}


def artefacts(lock: ReleaseLock, name: str) -> list[tuple[str, Artefact]]:
    return [(target, a) for target, a in lock.components[name].artefacts.items() if a]
