"""What a change of packages makes worse: one test for each kind, and what is not loss."""

from __future__ import annotations

import pytest
from rattler import PackageRecord, RepoDataRecord
from rattler.package.build_string import BuildString

from ctk.solve.change import Kind, Package, compare, unasked_nvjitlink

CUDA = ("cuda-version >=13,<14",)


def record(text: str, *depends: str, constrains: tuple[str, ...] = ()) -> RepoDataRecord:
    """A package, written as ``name version build``."""
    name, version, build = text.split()
    found = PackageRecord(
        name,
        version,
        BuildString(build),
        0,
        "linux-64",
        depends=list(depends),
        constrains=list(constrains),
    )
    return RepoDataRecord(
        found,
        f"{name}-{version}-{build}.conda",
        f"https://example.org/{name}.conda",
        "https://example.org",
    )


NATIVE = record("cuda-version 13.0 native_100")


def kinds(before: list[RepoDataRecord], after: list[RepoDataRecord], *asked: str) -> list[Kind]:
    return [one.kind for one in compare(before, after, asked, asked).worse]


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("13.0 native_100", []),
        ("13.0 native_101", []),
        ("13.0 compat_0", [Kind.NATIVE_TO_COMPAT]),
        ("13.4 native_100", [Kind.TOOLKIT_NEWER]),
        ("12.9 native_100", [Kind.TOOLKIT_OLDER]),
        ("13.4 compat_0", [Kind.NATIVE_TO_COMPAT, Kind.TOOLKIT_NEWER]),
    ],
)
def test_another_toolkit_is_seen(then: str, expected: list[Kind]) -> None:
    assert kinds([NATIVE], [record(f"cuda-version {then}")]) == expected


def test_a_toolkit_that_goes_is_seen_and_one_that_comes_is_no_loss() -> None:
    assert kinds([NATIVE], []) == [Kind.TOOLKIT_GONE]
    assert kinds([], [NATIVE]) == []


def test_minors_are_ordered_as_versions() -> None:
    assert kinds(
        [record("cuda-version 12.9 native_1")], [record("cuda-version 12.10 native_1")]
    ) == [Kind.TOOLKIT_NEWER]


def test_a_compat_toolkit_that_becomes_native_is_no_loss() -> None:
    assert kinds([record("cuda-version 13.0 compat_0")], [NATIVE]) == []


def test_another_minor_of_python_is_seen_and_another_patch_is_not() -> None:
    before = [record("python 3.12.4 0")]
    assert kinds(before, [record("python 3.11.9 0")]) == [Kind.PYTHON_CHANGES]
    assert kinds(before, [record("python 3.12.7 0")]) == []


def test_a_cuda_build_that_becomes_a_cpu_build_is_seen() -> None:
    with_cuda, without = record("pytorch 2.9 cuda_0", *CUDA), record("pytorch 2.9 cpu_0")
    (found,) = compare([with_cuda], [without], [], []).worse
    assert (found.kind, found.before, found.after) == (
        Kind.CUDA_TO_CPU,
        Package("pytorch", "2.9", "cuda_0"),
        Package("pytorch", "2.9", "cpu_0"),
    )
    assert kinds([without], [with_cuda]) == []
    assert kinds([with_cuda], [record("pytorch 3.0 cuda_1", "cuda-version>=13.4")]) == []


def test_a_package_that_was_asked_for_and_goes_is_seen_and_one_that_was_brought_is_not() -> None:
    before = [record("numpy 2.4 0"), record("brought 1.0 0")]
    assert kinds(before, [], "numpy >=2", "never-there") == [Kind.ASKED_FOR_GONE]


def test_what_is_added_removed_and_changed_is_sorted_by_name() -> None:
    before = [record("b 1 0"), record("a 1 0"), record("c 1 0"), record("d 1 0")]
    after = [record("d 1 0"), record("c 1 1"), record("e 1 0"), record("a 2 0")]
    change = compare(before, after, [], [])
    assert [package.name for package in change.added] == ["e"]
    assert [package.name for package in change.removed] == ["b"]
    assert [
        (one.version, one.build, other.version, other.build) for one, other in change.changed
    ] == [
        ("1", "0", "2", "0"),
        ("1", "0", "1", "1"),
    ]
    assert change and not compare(before, before, [], [])


OWN, NEWER = (
    record("libnvjitlink 13.0.88 native_h1_102"),
    record("libnvjitlink 13.5.37 newer_h1_52"),
)


def test_an_nvjitlink_that_leaves_its_toolkit_unasked_is_seen_once() -> None:
    assert kinds([NATIVE, OWN], [NATIVE, NEWER]) == [Kind.NVJITLINK_LEAVES]
    assert kinds([NATIVE], [NATIVE, NEWER]) == [Kind.NVJITLINK_LEAVES]
    assert kinds([NATIVE, NEWER], [NATIVE, NEWER]) == [], "it was there before"
    assert kinds([NATIVE, NEWER], [NATIVE, OWN]) == []


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        ("libnvjitlink", False),
        ("libnvjitlink >=13", False),
        ("libnvjitlink >=13.0.40,<14.0a0", False),
        ("libnvjitlink ==13.0.88", False),
        ("libnvjitlink <13.0.5", False),
        ("libnvjitlink >=13.4,<14.0a0", True),
        ("libnvjitlink>=13.1", True),
        ("libnvjitlink 13.5.*", True),
        ("libnvjitlink ==13.5.37", True),
        ("libnvjitlink * newer_*", True),
        ("libnvjitlink !=!", False),
        ("libnvjitlink-dev >=13.5", False),
    ],
)
def test_a_spec_asks_for_another_nvjitlink_if_no_version_of_the_toolkits_satisfies_it(
    spec: str, asks: bool
) -> None:
    expected = None if asks else Package.of(NEWER)
    assert unasked_nvjitlink([NATIVE, NEWER], [spec]) == expected
    assert unasked_nvjitlink([NATIVE, NEWER, record("libcudf 1 0", spec)], []) == expected
    assert (
        unasked_nvjitlink([NATIVE, NEWER, record("libcudf 1 0", constrains=(spec,))], [])
        == expected
    )


def test_builds_that_are_tied_to_a_toolkit_are_its_own() -> None:
    """Toolkit 12.0 has no nvJitLink that Python can use; a build of 12.3's is tied to it."""
    old = record("cuda-version 12.0 native_100")
    for build in ("native_h1_102", "with_compat_h1_2"):
        assert unasked_nvjitlink([old, record(f"libnvjitlink 12.3.101 {build}")], []) is None
    assert unasked_nvjitlink([old, record("libnvjitlink 12.9.86 newer_h1_52")], []) is not None
    assert unasked_nvjitlink([NATIVE, record("libnvjitlink 13.4.92 hb9d3cd8_0")], []) is not None, (
        "conda-forge's"
    )
    assert unasked_nvjitlink([NEWER], []) is None, "without a toolkit"
