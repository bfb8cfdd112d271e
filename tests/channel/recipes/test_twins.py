"""Packages that are tied to a CUDA release come in twins, and solvers rank them as
recipes/cuda-version says.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ctk.audit.files import LICENCE_WORDS
from ctk.core.checkout import Workspace, settings
from ctk.core.document import load_yaml
from ctk.lock.model import release_locks
from ctk.package.reader import read_info
from ctk.plan.plan import Plan, Request, lacking, planned_repodata, small

Record = Mapping[str, Any]
# It asks for a native toolkit, and has no compat build on purpose.
NATIVE_ONLY = "cuda-native"
FITS = ("native", "compat")
# Files in a recipe of their own, which more builds share than the twins of one CUDA major and
# Python.
SHARED_FILES = (
    "libnvjitlink-files",
    "numba-cuda-mlir-files",
    "jaxlib-files",
    "jax-cuda-pjrt-files",
)


@pytest.fixture(scope="module")
def records(whole: Plan) -> list[Record]:
    """Every package of the channel, on every platform."""
    return [
        r for subdir in planned_repodata(whole).values() for r in subdir["packages.conda"].values()
    ]


def ties(record: Record) -> list[str]:
    return [spec for spec in record["depends"] if spec.split()[0] == "cuda-version"]


def fit(record: Record) -> str:
    """``native`` or ``compat``; "" for a package that has no twin."""
    if record["name"] == "cuda-version":
        return str(record["build"]).partition("_")[0]
    if is_newer(record):
        return ""
    if record["name"] == NATIVE_ONLY:
        return "native"
    return next((f for f in FITS for spec in ties(record) if spec.endswith(f" {f}_*")), "")


def is_newer(record: Record) -> bool:
    """Whether it is the third build of libnvjitlink, for a native toolkit that is older."""
    return bool(record["build"].startswith("newer_"))


def without_fit(specs: Iterable[str]) -> list[str]:
    """Specs without the fits and hashes in them."""
    return [
        re.sub(r"((native|with_compat)_)?h[0-9a-f]{7}_\d+$|\b(native|compat)_\*", "*", spec)
        for spec in specs
    ]


def twins(records: list[Record]) -> Iterator[dict[str, Record]]:
    """The builds of one package, by fit: what is alike but for the fit and the hashes."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if fit(record) and record["name"] != NATIVE_ONLY:
            alike = without_fit(record["depends"])
            python = next((spec for spec in alike if spec.startswith("python_abi")), "")
            tie = next((spec for spec in alike if spec.split()[0] == "cuda-version"), "")
            found[f"{record['subdir']}/{record['name']} {record['version']} {tie} {python}"].append(
                record
            )
    for name, pair in found.items():
        assert sorted(map(fit, pair)) == ["compat", "native"], name
        yield {fit(record): record for record in pair}


def test_whatever_depends_on_cuda_version_has_a_twin(records: list[Record]) -> None:
    single = {
        r["name"] for r in records if ties(r) and not fit(r) and not r["name"].endswith("-files")
    }
    # One goes with both majors, and decides nothing.
    assert single == {"cuda-pathfinder", "libnvjitlink"}
    assert len(list(twins(records))) > 300


def test_a_tracked_feature_puts_compat_last_and_nothing_else(records: list[Record]) -> None:
    for record in records:
        assert bool(record.get("track_features")) == (
            fit(record) == "compat" or is_newer(record)
        ), record["name"]


def test_a_newer_nvjitlink_is_taken_last_but_for_compat_and_only_beside_an_older_native_toolkit(
    records: list[Record],
) -> None:
    found = [record for record in records if is_newer(record)]
    assert {record["name"] for record in found} == {"libnvjitlink"} and len(found) > 30
    for record in found:
        major, minor = record["version"].split(".")[:2]
        assert ties(record) == [f"cuda-version >={major},<{major}.{minor} native_*"]
        alike = [
            r
            for r in records
            if [r[k] for k in ("name", "version", "subdir")]
            == [record[k] for k in ("name", "version", "subdir")]
        ]
        numbers = {fit(r) or "newer": r["build_number"] for r in alike}
        assert numbers["compat"] < numbers["newer"] < numbers["native"]


def test_a_build_string_says_what_its_number_means(records: list[Record]) -> None:
    """`conda search` shows the string: 12110 and 12010 alone told nobody which is native, and of
    which CUDA major.
    """
    for record in records:
        words, major = record["build"].split("_"), record["build_number"] // 1000
        assert [word for word in words if word in FITS] == [fit(record)] * bool(fit(record)), (
            record["name"]
        )
        assert [word for word in words if word.startswith("cuda")] == [f"cuda{major}"] * bool(
            major
        ), record["name"]


def test_the_text_of_each_licence_can_be_told(records: list[Record]) -> None:
    """`LicenseIsInside` of the audit looks for the text of each that is named: it must know it by
    some words.
    """
    named = {name for record in records for name in re.findall(r"[\w.-]+", record["license"])} - {
        "AND",
        "OR",
        "WITH",
    }
    assert {name for name in named if not name.startswith("LicenseRef-")} == LICENCE_WORDS.keys()


def test_twins_differ_in_nothing_but_their_fit(records: list[Record]) -> None:
    for pair in twins(records):
        native, compat = pair["native"], pair["compat"]
        assert native["build_number"] == compat["build_number"] + 100, native["name"]
        if native["name"] == "cuda-version":
            continue
        # rattler asks the first file of the newest version whether it tracks a feature, and files
        # are in order of name.
        assert native["build"] < compat["build"], native["name"]
        for key in ("depends", "constrains"):
            assert without_fit(native.get(key, ())) == without_fit(compat.get(key, ())), native[
                "name"
            ]


def test_a_library_is_of_the_toolkit_that_it_was_published_with(whole: Plan) -> None:
    found = 0
    for build in whole.builds:
        name = build.recipe.name
        if name in (
            "libcublas",
            "libcufft",
            "libcurand",
            "libcusolver",
            "libcusparse",
            "libnpp",
            "libnvjpeg",
        ):
            major, minor = map(int, build.lock.removeprefix("cuda-").split("."))
            for output in build.outputs:
                if output.name in (name, f"{name}-dev"):
                    found += 1
                    assert (
                        f"cuda-version >={major}.{minor},<{major}.{minor + 1}.0a0 *"
                        in without_fit(output.depends)
                    )
    assert found > 500


def test_an_exact_pin_is_to_the_same_fit(records: list[Record]) -> None:
    """Or to what has none: a native package that brought a compat one could not be installed."""
    builds = {(r["name"], r["build"]): fit(r) for r in records}
    pins = 0
    for record in records:
        for name, build in re.findall(
            r"^(\S+) ==\S+ ([^\s*]+)$", "\n".join(record["depends"]), re.M
        ):
            pins += 1
            assert builds[name, build] in (fit(record), ""), (record["name"], name)
    assert pins > 100


def test_only_the_native_cuda_version_depends_on_a_virtual_cuda_package(
    records: list[Record],
) -> None:
    asking = {
        (r["name"], fit(r))
        for r in records
        if any(spec.startswith("__cuda") for spec in r["depends"])
    }
    assert asking == {("cuda-version", "native"), ("cuda-gpu", "native"), ("cuda-gpu", "compat")}
    limiting = {
        r["name"]: s for r in records for s in r.get("constrains", ()) if s.startswith("__cuda")
    }
    # Of other packages those with code for GPUs, which say for which.
    others = {
        name: spec for name, spec in limiting.items() if name not in ("cuda-version", "cuda-arch")
    }
    assert {
        name
        for name in others
        if not re.fullmatch(
            r"lib(cu|n)\w+|cusparselt|(.+)-files|jax-cuda-plugin|cutile-python|cccl-python|torchaudio",
            name,
        )
    } == set()
    assert all(spec.startswith("__cuda_arch >=") for spec in others.values())


def test_cuda_gpu_depends_on_a_driver_of_its_toolkit_s_major(records: list[Record]) -> None:
    """So a client that ignores the constraint of compat cuda-version refuses an old driver too.

    All builds begin with the oldest major, which makes one line of a solver's error.
    """
    found = {}
    for record in records:
        if record["name"] == "cuda-gpu":
            found[record["build"].split("_")[0], fit(record)] = record["depends"]
    assert found.keys() == {(f"cuda{major}", f) for major in ("12", "13") for f in FITS}
    for (build, fitting), depends in found.items():
        major = int(build.removeprefix("cuda"))
        toolkit = f"cuda-version >={major},<{major + 1}.0a0 {fitting}_*"
        drivers = ["__cuda >=12"] if major == 12 else ["__cuda >=12", f"__cuda >={major}"]
        assert depends == [*drivers, toolkit, "cuda-gpu-builds"]


def test_cuda_native_is_cuda_gpu_without_its_compat_build(records: list[Record]) -> None:
    """pixi and conda's rattler solver keep what was asked for by its name, and not the build that
    it had.
    """
    native = {
        (r["subdir"], r["build"]): r["version"]
        for r in records
        if r["name"] == "cuda-gpu" and fit(r) == "native"
    }
    wanted: dict[str, list[list[str]]] = {subdir: [] for subdir, _ in native}
    for (subdir, build), version in native.items():
        wanted[subdir].append([f"cuda-gpu =={version} {build}"])
    found: dict[str, list[list[str]]] = {subdir: [] for subdir in wanted}
    for record in records:
        if record["name"] == NATIVE_ONLY:
            found[record["subdir"]].append(record["depends"])
    assert {subdir: sorted(depends) for subdir, depends in found.items()} == {
        subdir: sorted(depends) for subdir, depends in wanted.items()
    }


def test_what_keeps_an_environment_native_can_be_left_out(records: list[Record]) -> None:
    """A constraint, not a dependency: where nothing native fits, a solver removes it and takes
    compat.
    """
    (keeper,) = (r for r in records if r["name"] == "cuda-version-native")
    assert keeper["constrains"] == ["cuda-version * native_*"]
    assert keeper["depends"] == []


def test_cuda_gpu_has_the_time_of_the_first_release_of_its_major(
    whole: Plan, project: Workspace
) -> None:
    """It has no artefacts; a new version of another package must not change it."""
    releases = [lock for lock in release_locks(project).values() if lock.is_ctk]
    first = {}
    for major in ("12", "13"):
        first[f"python-{major}"] = min(lock.since for lock in releases if lock.major == major)
    found = {
        build.lock: build.timestamp for build in whole.builds if build.recipe.name == "cuda-gpu"
    }
    assert found == first


def test_cuda_version_says_what_was_measured(records: list[Record], project: Workspace) -> None:
    facts = {lock.minor: lock.facts for lock in release_locks(project).values() if lock.is_ctk}
    found = {(r["version"], fit(r)): r for r in records if r["name"] == "cuda-version"}
    assert set(found) == {(minor, f) for minor in facts for f in FITS}
    for minor, fact in facts.items():
        assert fact is not None
        lowest = fact.gpu_architectures[0]
        known = "|".join(f"=={gpu}" for gpu in fact.gpu_architectures)
        native, compat = found[minor, "native"], found[minor, "compat"]
        assert native["depends"] == [f"__cuda >={minor}", "cuda-version-native"]
        assert native["constrains"] == [f"__cuda_arch {known}", f"cudatoolkit {minor}.*"]
        assert compat["depends"] == []
        major = minor.split(".")[0]
        assert compat["constrains"] == [
            f"__cuda >={major}",
            f"__cuda_arch >={lowest}",
            f"cudatoolkit {minor}.*",
        ]


def test_a_newer_cuda_and_the_usual_python_rank_first(records: list[Record]) -> None:
    """cuda-core and numba-cuda have one version for both majors."""
    for name in ("cuda-core", "numba-cuda", "cuda-bindings", "numba-cuda-mlir", "cccl-python"):
        numbers: dict[tuple[str, str, str], set[int]] = defaultdict(set)
        for r in records:
            if r["name"] == name:
                major, python = r["build"].split("_")[:2]
                numbers[fit(r), major, python].add(r["build_number"])
        single = {key: min(found) for key, found in numbers.items() if len(found) == 1}
        assert single.keys() == numbers.keys()
        for (f, major, python), number in single.items():
            if major == "cuda12" and (f, "cuda13", python) in single:
                assert number < single[f, "cuda13", python]
            if python.endswith("t"):
                assert all(
                    number < other
                    for key, other in single.items()
                    if key[:2] == (f, major) and not key[2].endswith("t")
                )


def test_a_newer_python_ranks_first_and_a_free_threaded_one_last(project: Workspace) -> None:
    """Solvers decide between builds of one version by their numbers. Where the numbers are equal,
    their choice depends on whatever else is in the channels.
    """
    config = load_yaml(project.build_config.read_bytes())
    numbers = dict(zip(config["python_tag"], map(int, config["python_number"]), strict=True))
    with_gil = {tag: number for tag, number in numbers.items() if not tag.endswith("t")}
    free_threaded = {tag: number for tag, number in numbers.items() if tag.endswith("t")}
    for group in (with_gil, free_threaded):
        assert list(group) == sorted(group, key=group.__getitem__)
        assert len(set(group.values())) == len(group)
    assert max(free_threaded.values()) < min(with_gil.values())
    assert max(with_gil.values()) < max(map(int, config["fit_number"]))


# The twin is for GPUs for which its library has code; this one loads it on every GPU.
WITHOUT_TWIN = {("libtorch", "cusparselt-files")}


def test_a_package_of_files_is_named_by_its_own_twins_only(records: list[Record]) -> None:
    files = {r["name"] for r in records if r["name"].endswith("-files")}
    assert files
    for record in records:
        for spec in record["depends"]:
            name = spec.split()[0]
            if name in files and (record["name"], name) not in WITHOUT_TWIN:
                assert name == f"{record['name']}-files"
                assert " ==" in spec


def test_files_are_tied_to_the_toolkit_as_their_twins_are(records: list[Record]) -> None:
    """Or the files of two toolkits meet in one environment: nvPTXCompiler.h was in packages of 12.0
    and of 13.0.
    """
    twins = [r for r in records if fit(r)]
    tied = 0
    for record in records:
        if record["name"].endswith("-files") and record["name"] not in SHARED_FILES:
            pin = f"{record['name']} =={record['version']} {record['build']}"
            bringing = [
                r
                for r in twins
                if pin in r["depends"] and record["subdir"] in (r["subdir"], "noarch")
            ]
            assert bringing, record["name"]
            assert {tie.rpartition(" ")[0] for r in bringing for tie in ties(r)} == set(
                ties(record)
            ), record["name"]
            tied += 1
    assert tied > 300


def test_built_twins_hold_the_same_files(built: Workspace) -> None:
    """Made from one tree: a machine with a driver and one without run the same programs."""
    contents: dict[str, list[object]] = defaultdict(list)
    for package in sorted(built.channel.resolve().rglob("*.conda")):
        info = read_info(package)
        index = asdict(info.index)
        tie = next(
            (
                spec.rpartition(" ")[0]
                for spec in index["depends"]
                if spec.startswith("cuda-version")
            ),
            "",
        )
        if (
            tie
            and index["name"] != "cuda-pathfinder"
            and not is_newer(index)
            and not index["name"].endswith("-files")
        ):
            python = next((spec for spec in index["depends"] if spec.startswith("python_abi")), "")
            contents[f"{index['subdir']}/{index['name']} {index['version']} {tie} {python}"].append(
                info.paths
            )
    assert len(contents) > 50
    for name, pair in contents.items():
        assert len(pair) == 2, name
        assert pair[0] == pair[1], name


def test_a_key_of_numbers_is_in_no_hash(whole: Plan) -> None:
    """Each recipe has in ignore_keys those that it uses: cuda_fit and python tell the
    builds apart.
    """
    numbers = {
        "fit_number",
        "fit_priority",
        "major_number",
        "nvjitlink_number",
        "nvjitlink_priority",
        "python_number",
    }
    for build in whole.builds:
        assert not {key for output in build.outputs for key in output.variant} & numbers, build.id


def test_the_default_set_has_what_conda_forge_and_rapids_compile_with_and_a_lack_is_told(
    project: Workspace, tmp_path: Path
) -> None:
    stated = settings(project.root)
    minors = stated.conda_forge.minors
    assert {*minors, *stated.rapids.minors} <= set(small(Request(), project).releases)
    index = tmp_path / "noarch" / "repodata.json"
    assert lacking(project, tmp_path) == []  # there is no channel
    index.parent.mkdir()
    for has, lacks in (
        ([], []),
        (["13.0"], minors),
        ([minors[0], "13.0"], minors[1:]),
        (minors, []),
    ):
        records = {minor: {"name": "cuda-version", "version": minor} for minor in has}
        index.write_text(
            json.dumps({"packages.conda": {"other": {"name": "other", "version": "1"}, **records}})
        )
        assert lacking(project, tmp_path) == lacks
