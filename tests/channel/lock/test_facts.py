"""Measuring: each artefact is read once, and a library that gives no answer is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, MeasureFailed
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock import contents, facts
from ctk.lock.contents import Content, Contents
from ctk.lock.facts import (
    compiler_facts,
    measure,
    needed_glibc,
    needs_measuring,
    to_fetch,
    with_known,
)
from ctk.lock.model import Artefact, Facts, load, release_locks, variant_keys
from ctk.package.binaries import Binary
from kit.binaries import code, elf, fatbin
from kit.ctk_release import Have, Run, release, write
from kit.fake_index import FakeIndex
from kit.packages import wheel
from kit.tables import cells

pytest_plugins = ["kit.ctk_release_fixtures"]
on_linux_64 = pytest.mark.skipif(
    this_platform() != "linux-64", reason="loads a linux-64 library; CI runs it there"
)


def test_the_newest_need_of_any_elf_file_of_an_artefact_counts() -> None:
    lock, held = release("13.4.3", "cccl", "cufile", "nvrtc"), Contents()
    needs = {
        ("cufile", "linux-64"): ["2.9", "2.27", "2.17", ""],
        ("nvrtc", "linux-aarch64"): ["2.17"],
        ("nvrtc", "win-64"): ["2.99"],
    }
    for artefact in lock.artefacts:
        versions = needs.get((artefact.component, artefact.target), [])
        headers = [Binary("elf", "x86_64", versions={"GLIBC": v} if v else {}) for v in versions]
        held.add(
            artefact.sha256, {f"lib/{n}.so": Content(header) for n, header in enumerate(headers)}
        )
    assert needed_glibc(lock, held) == {
        "linux-64": {"cufile": "2.27"},
        "linux-aarch64": {"nvrtc": "2.17"},
    }


@on_linux_64
def test_an_artefact_without_nvrtc_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MeasureFailed, match=r"a\.whl has no libnvrtc\.so"):
        compiler_facts(wheel(tmp_path / "a.whl", {"nvidia/cu13/lib/libother.so.13": b""}))


def test_another_platform_cannot_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "this_platform", lambda: "win-64")
    with pytest.raises(MeasureFailed, match="does not load on win-64"):
        compiler_facts(tmp_path)


def with_code(*targets: str) -> bytes:
    return elf(
        payload=fatbin(*(code("cubin", target) for target in targets)),
        versions={"libc.so.6": ["GLIBC_2.17"]},
    )


def test_a_release_is_measured_from_its_artefacts_each_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        facts, "compiler_facts", lambda path: (("7.0", "7.5", "8.0", "10.0", "11.0"), path.stem)
    )
    inside = {
        ("cufft", "linux-64"): with_code("70", "75", "80"),
        ("cufft", "linux-aarch64"): with_code("75", "80"),
        ("cufft", "win-64"): with_code("75", "80"),
        ("cufft", "win-arm64"): with_code("100"),
    }
    lock, held, kept = release("13.4.3", "cufft", "npp", "nvrtc"), Contents(), tmp_path / "kept"
    read: list[str] = []

    @contextmanager
    def at_hand(wanted: Sequence[Artefact]) -> Iterator[list[Path]]:
        names = [f"{a.component} {a.target}" for a in wanted]
        read.extend(names)
        contents_of = [inside.get((a.component, a.target), elf()) for a in wanted]
        yield [
            wheel(tmp_path / f"{n}.whl", {"lib/liba.so": c})
            for n, c in zip(names, contents_of, strict=True)
        ]

    found = measure(lock, held, [], at_hand, kept)
    assert found.facts
    assert (found.facts.gpu_architectures[0], found.facts.ptx_isa) == ("7.0", "nvrtc linux-64")
    assert found.facts.glibc == {"linux-64": {"cufft": "2.17"}, "linux-aarch64": {"cufft": "2.17"}}
    assert found.gpu_code == {
        "cufft": {
            "linux-64": ">=7.0,<10.0",
            "linux-aarch64": ">=7.5,<10.0",
            "win-64": ">=7.5,<10.0",
            "win-arm64": ">=10.0,<11.0",
        },
        "npp": {},
    }
    assert read == [
        "nvrtc linux-64",
        *(f"{name} {subdir}" for name in lock.components for subdir in PLATFORMS),
    ]
    assert needs_measuring(lock, held) and not needs_measuring(found, held)
    keys = {subdir: variant_keys(found, subdir) for subdir in ("win-64", "win-arm64")}
    assert keys["win-64"]["cufft_gpus"] == [">=7.5,<10.0"]
    assert keys["win-arm64"]["cufft_gpus"] == [">=10.0,<11.0"]
    assert "npp_gpus" not in keys["win-64"]
    # A run that ended before it wrote the lock asks NVRTC again, and reads nothing else twice.
    read.clear()
    assert measure(lock, Contents(), [], at_hand, kept) == found
    assert read == ["nvrtc linux-64"]
    # With a new file of one component, the others stay measured.
    other = replace(lock.components["cufft"], artefacts={"win-64": None})
    newer = with_known(found, replace(lock, components={**lock.components, "cufft": other}))
    assert (newer.gpu_code, newer.facts) == ({"npp": {}}, None)
    with pytest.raises(LockError, match=r"cuda-13\.4 has no nvrtc for linux-64"):
        to_fetch(release("13.4.3", "cudart"), held)


def test_the_command_fetches_measures_and_writes(
    run: Run, here: Workspace, index: FakeIndex, have: Have, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "compiler_facts", lambda path: (("7.5", "12.1"), "9.4"))
    have("12.9", "13.4")
    older = load(here.variants / "cuda-12.9.lock")
    write(here.variants, replace(older, facts=Facts(("5.0", "10.1"), "8.8", {})))
    shown = "7.5, 12.1"  # 12.9 knows a GPU between them
    assert ("13.4.3", shown, "9.4") in cells(run("measure", "13.4"))
    assert load(here.variants / "cuda-13.4.lock").facts is None
    run("measure", "--write")
    lock = load(here.variants / "cuda-13.4.lock")
    assert lock.facts is not None
    assert (lock.facts.gpu_architectures, lock.facts.ptx_isa) == (("7.5", "12.1"), "9.4")
    assert ("13.4.3", shown, "9.4") in cells(run("list"))
    assert f"GPU architectures: the same, {shown}" in run("diff", "13.4", "13.4")
    # Files that were not in the cache before are removed; notes of their contents stay.
    left = [p for p in here.cache.rglob("*") if p.is_file() and p.parent != here.cache]
    assert {p.parent.name for p in left} == {"components", "contents", "yaml"}
    held = contents.load(here)
    assert not contents.unmeasured(held, release_locks(here).values())
    assert held.dump() == contents.path_of(here).read_text()
    index.requests.clear()
    assert "nothing changes" in run("measure")
    assert index.requests == []
    assert "nothing changes" in run("measure", "13.4", "--again")
