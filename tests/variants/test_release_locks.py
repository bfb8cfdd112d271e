"""The release locks of this repository: complete, canonical, readable by others, and silent about any index."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version
from rattler_build import VariantConfig
from ruamel.yaml import YAML

from ctk.index import IndexFile
from ctk.lock import ReleaseLock, dump, load, release_locks, variant_config, variant_keys
from ctk.paths import Workspace
from ctk.platforms import NOARCH, PLATFORMS
from ctk.project import python_tags
from ctk.wheels import targets_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Workspace(ROOT)
NAMES = sorted(path.stem for path in HERE.variants.glob("*.lock"))


@pytest.fixture(params=NAMES)
def lock(request: pytest.FixtureRequest) -> ReleaseLock:
    return load(HERE.variants / f"{request.param}.lock")


def test_the_promised_releases_are_locked() -> None:
    assert {"cuda-12.6", "cuda-12.9", "cuda-13.0", "cuda-13.4", "python-12", "python-13"} <= set(release_locks(HERE))


def test_nothing_else_is_in_the_folder() -> None:
    assert {p.name for p in HERE.variants.iterdir()} == {
        f"{name}{half}" for name in NAMES for half in (".lock", ".yaml")
    }


def test_both_halves_are_canonical(lock: ReleaseLock) -> None:
    assert (HERE.variants / f"{lock.name}.lock").read_bytes() == dump(lock).encode()
    assert (HERE.variants / f"{lock.name}.yaml").read_bytes() == variant_config(lock).encode()


def test_neither_half_says_where_a_file_comes_from(lock: ReleaseLock) -> None:
    for half in (".lock", ".yaml"):
        text = (HERE.variants / f"{lock.name}{half}").read_text().lower()
        assert not [trace for trace in ("http", "://", "file:/", "/", "@") if trace in text]


def test_rattler_build_reads_the_variant_file_as_it_is(lock: ReleaseLock) -> None:
    config = VariantConfig.from_files([HERE.build_config, HERE.variants / f"{lock.name}.yaml"])
    assert {key: config.get(key) for key in variant_keys(lock)} == variant_keys(lock)


def test_an_older_yaml_reader_sees_the_same_text(lock: ReleaseLock) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # what conda-build's and conda-smithy's reader follows
    data = yaml.load(HERE.variants / f"{lock.name}.yaml")
    assert data == variant_keys(lock)


def test_each_artefact_is_for_its_target(lock: ReleaseLock) -> None:
    for artefact in lock.artefacts:
        offer = IndexFile(artefact.distribution, artefact.version, artefact.file, artefact.sha256, "")
        assert artefact.target in targets_of(offer), artefact


def test_each_release_covers_its_platforms_and_pythons(lock: ReleaseLock) -> None:
    pythons = [f"{subdir}-{tag}" for subdir in PLATFORMS for tag in python_tags(HERE.build_config)]
    expected = [list(PLATFORMS)] if lock.is_ctk else [[NOARCH], pythons]
    for component in lock.components.values():
        assert list(component.artefacts) in expected, component.name
        assert any(component.artefacts.values()), component.name


def test_one_file_has_one_hash_everywhere() -> None:
    seen: dict[str, tuple[str, int]] = {}
    for lock in release_locks(HERE).values():
        for artefact in lock.artefacts:
            assert seen.setdefault(artefact.file, (artefact.sha256, artefact.size)) == (artefact.sha256, artefact.size)


def test_every_ctk_release_is_measured() -> None:
    for lock in release_locks(HERE).values():
        if lock.is_ctk:
            assert lock.facts is not None, lock.name
            assert set(lock.facts.glibc) == {a.target for a in lock.artefacts if a.target.startswith("linux-")}


def test_a_newer_toolkit_writes_newer_ptx() -> None:
    found = [lock.facts.ptx_isa for lock in release_locks(HERE).values() if lock.facts]
    assert found == sorted(set(found), key=Version)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cuda-12.")])
def test_nvvm_and_crt_of_cuda_12_are_inside_nvcc(name: str) -> None:
    lock = load(HERE.variants / f"{name}.lock")
    for target, nvcc in lock.components["nvcc"].artefacts.items():
        for inner in ("nvvm", "crt"):
            inside = lock.components[inner].artefacts[target]
            assert (inside and inside.sha256) == (nvcc and nvcc.sha256)
