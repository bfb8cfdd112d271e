"""The release locks of this repository: complete, canonical, readable by others, and silent about any index."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version
from rattler_build import VariantConfig
from ruamel.yaml import YAML

from ctk.components import CTK_COMPONENTS
from ctk.errors import OutOfDate
from ctk.exclusions import FILE, Classes, needless
from ctk.exclusions import load as load_exclusions
from ctk.index import IndexFile
from ctk.lock import ReleaseLock, load, release_locks
from ctk.lock_text import dump, variant_config, variant_keys
from ctk.paths import Workspace
from ctk.platforms import NOARCH, PLATFORMS
from ctk.project import classified, python_tags
from ctk.release_table import TABLES, markdown_of
from ctk.wheels import targets_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Workspace(ROOT)
LIST = load_exclusions(HERE)
CTK = [lock for lock in release_locks(HERE).values() if lock.is_ctk]
NAMES = sorted(path.stem for path in HERE.variants.glob("*.lock"))


@pytest.fixture(params=NAMES)
def lock(request: pytest.FixtureRequest) -> ReleaseLock:
    return load(HERE.variants / f"{request.param}.lock")


@pytest.fixture(scope="module")
def classes() -> dict[str, Classes]:
    return classified(HERE)


def test_every_minor_of_each_major_is_locked() -> None:
    """From the first to the newest: a driver of any of them gets what is its own. NVIDIA never made 12.7."""
    minors = [tuple(map(int, lock.minor.split("."))) for lock in CTK]
    for major in {major for major, _ in minors}:
        newest = max(minor for of, minor in minors if of == major)
        assert {(major, n) for n in range(newest + 1)} - {(12, 7)} == {m for m in minors if m[0] == major}
    assert {f"python-{lock.major}" for lock in CTK} | {lock.name for lock in CTK} == set(release_locks(HERE))


def test_none_is_partial() -> None:
    assert [lock.name for lock in CTK if lock.missing or lock.measured] == []


def test_nothing_else_is_in_the_folder() -> None:
    assert {p.name for p in HERE.variants.iterdir()} == {
        FILE,
        *(f"{name}{half}" for name in NAMES for half in (".lock", ".yaml")),
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
    # 12.6 writes the same as 12.5; two newer ones never did.
    assert found == sorted(found, key=Version)
    assert [isa for isa, next_ in pairwise(found) if isa == next_] == ["8.5"]


def test_every_component_is_packaged_or_left_out_for_a_written_reason(classes: dict[str, Classes]) -> None:
    found = {name: sorted(of.unclassified) for name, of in classes.items() if of.unclassified}
    assert found == {}, f"package them, or write the reason into variants/{FILE}"


def test_nothing_is_packaged_that_the_written_list_leaves_out(classes: dict[str, Classes]) -> None:
    assert {name: sorted(of.needless) for name, of in classes.items() if of.needless} == {}
    assert needless(LIST, release_locks(HERE)) == []


def test_what_a_release_lacks_is_on_the_written_list_and_nothing_else_is() -> None:
    """With the locks the list accounts for every component that any release has."""
    known = {component.name for component in CTK_COMPONENTS}
    for lock in CTK:
        listed = {entry.name for entry in LIST.unpublished if Version(lock.minor) in entry.releases}
        assert known - set(lock.components) == known & listed, lock.name


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cuda-12.")])
def test_nvvm_and_crt_of_cuda_12_are_inside_nvcc(name: str) -> None:
    lock = load(HERE.variants / f"{name}.lock")
    for target, nvcc in lock.components["nvcc"].artefacts.items():
        for inner in ("nvvm", "crt"):
            inside = lock.components[inner].artefacts[target]
            assert (inside and inside.sha256) == (nvcc and nvcc.sha256)


def test_the_table_of_releases_in_the_readme_is_what_the_locks_say() -> None:
    TABLES.check(HERE, lambda _: markdown_of(release_locks(HERE).values()))


def test_a_table_of_releases_that_is_not_is_found_and_written_anew(tmp_path: Path) -> None:
    copy = Workspace(tmp_path)
    page = tmp_path / "README.md"
    right = (ROOT / "README.md").read_text()
    page.write_text(right.replace("| 5.0 to 9.0 | 8.0 |", "| 5.0 to 9.0 | 8.1 |", 1))
    with pytest.raises(OutOfDate, match=r"README\.md is not what the release locks say") as error:
        TABLES.check(copy, lambda _: markdown_of(CTK))
    assert error.value.step == "run `ctk release list --write-table`"
    assert TABLES.write(copy, lambda _: markdown_of(CTK)) == (page,)
    assert page.read_text() == right
    page.write_text("no table here\n")
    with pytest.raises(OutOfDate, match="has no place for the table of releases"):
        TABLES.check(copy, lambda _: markdown_of(CTK))
