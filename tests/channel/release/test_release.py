"""`ctk release add|check|list` against a package index on localhost."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelMissing, NotPublished, UnknownName
from ctk.core.platforms import PLATFORMS
from ctk.index.index import IndexFile
from ctk.lock import wheels
from ctk.lock.components import PYTHON_PROJECTS
from ctk.lock.model import Facts, ReleaseLock, load
from ctk.release.release import names_of
from kit.ctk_release import Have, Run, snapshot, write
from kit.fake_ctk import WHEELS_13, add_component, add_extension, manifest_13
from kit.fake_index import FakeIndex
from kit.tables import cells

pytest_plugins = ["kit.ctk_release_fixtures"]


def locked(workspace: Workspace, name: str = "cuda-13.4") -> ReleaseLock:
    return load(workspace.variants / f"{name}.lock")


def add_manifest(index: FakeIndex, version: str) -> None:
    index.add_wheel("cuda-toolkit", version, "py2.py3-none-any", requires=manifest_13())


# ---- locked versions


def test_a_written_release_has_the_files_of_the_index(both: Workspace, index: FakeIndex) -> None:
    lock = locked(both)
    assert lock.release == "13.4.3"
    assert lock.manifest is not None
    assert lock.manifest.file == "cuda_toolkit-13.4.3-py2.py3-none-any.whl"
    assert {name: c.distribution for name, c in lock.components.items()} == {
        "crt": "nvidia-cuda-crt",
        "cudart": "nvidia-cuda-runtime",
        "cufile": "nvidia-cufile",
        "nvcc": "nvidia-cuda-nvcc",
        "nvjitlink": "nvidia-nvjitlink",
        "nvrtc": "nvidia-cuda-nvrtc",
        "nvvm": "nvidia-nvvm",
    }
    for component in lock.components.values():
        for target, artefact in component.artefacts.items():
            if artefact is None:
                assert (component.name, PLATFORMS[target].is_windows) == ("cufile", True)
                continue
            content = index.projects[artefact.distribution][artefact.file]
            assert (artefact.sha256, artefact.size) == (
                hashlib.sha256(content).hexdigest(),
                len(content),
            )
    assert 'cufile:\n  - "1.19.1.55"\n' in (both.variants / "cuda-13.4.yaml").read_text()


def test_a_range_locks_the_release_s_own_version_not_a_newer_one(both: Workspace) -> None:
    assert locked(both).components["nvjitlink"].version == "13.4.92"


def test_in_cuda_12_nvvm_and_crt_are_the_nvcc_artefact(both: Workspace) -> None:
    lock = locked(both, "cuda-12.9")
    assert lock.release == "12.9.2"
    nvcc = lock.components["nvcc"]
    for name in ("nvvm", "crt"):
        inside = lock.components[name]
        assert (inside.distribution, inside.version) == ("nvidia-cuda-nvcc-cu12", "12.9.86")
        assert {
            t: a and replace(a, component="nvcc") for t, a in inside.artefacts.items()
        } == nvcc.artefacts


def test_a_platform_that_the_marker_names_and_the_index_lacks_is_null(both: Workspace) -> None:
    """Its markers say win32, its wheels are for one Windows only."""
    cudart = locked(both, "cuda-12.9").components["cudart"]
    assert [target for target, artefact in cudart.artefacts.items() if artefact is None] == [
        "win-arm64"
    ]


def test_a_platform_that_the_marker_excludes_is_null_even_with_a_wheel(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    add_component(index, "nvidia-cufile", "1.19.1.55", ("win_amd64",))
    run("add", "13.4", "--write")
    assert locked(here).components["cufile"].artefacts["win-64"] is None


def test_a_higher_build_tag_wins() -> None:
    def offer(middle: str) -> IndexFile:
        return IndexFile("a", "1", f"a-1{middle}-py3-none-win_amd64.whl", None, "")

    assert wheels.wheel_for([offer("-9"), offer("-10"), offer("")], "win-64") == offer("-10")
    assert wheels.wheel_for([offer("")], "win-arm64") is None


def test_the_newest_of_each_python_project_is_locked_and_versions_that_others_need(
    both: Workspace,
) -> None:
    lock = locked(both, "python-13")
    assert {name: c.version for name, c in lock.components.items()} == {
        "cuda-bindings": "13.5.0",
        "cuda-bindings-13.4.4": "13.4.4",  # cuda-python does not accept 13.5.0
        "cuda-cccl": "1.2.2",
        "cuda-cccl-1.2.1": "1.2.1",  # 1.2.2 wants newer bindings, in an extra that its cu13 names
        "cuda-core": "1.3.0",
        # 1.2.3 does not accept any of these bindings, cuda-python not 1.3.0.
        "cuda-core-1.2.2": ("1.2.2"),
        "cuda-pathfinder": "1.10.0",
        # Numba-cuda does not accept 1.10.0; 1.9.4 does not run on 3.11.
        "cuda-pathfinder-1.9.0": ("1.9.0"),
        "cuda-python": "13.4.4",
        # 0.31.0 accepts no cuda-core that there is; 0.32.0 has no wheel for our Pythons.
        "numba-cuda": ("0.30.4"),
        "numba-cuda-mlir": "0.6.0",
        "numba-cuda-mlir-0.5.1": "0.5.1",  # cuda-cccl does not accept 0.6.0
    }
    assert {c.name for c in lock.components.values()} == set(PYTHON_PROJECTS)
    assert (
        'cuda_bindings:\n  - "13.5.0"\n  - "13.4.4"\n'
        in (both.variants / "python-13.yaml").read_text()
    )
    bindings = lock.components["cuda-bindings"].artefacts
    assert list(bindings) == [
        f"{subdir}-{tag}" for subdir in PLATFORMS for tag in ("cp311", "cp314t")
    ]
    assert [target for target, artefact in bindings.items() if artefact is None] == [
        "win-arm64-cp311"
    ]
    assert list(lock.components["cuda-python"].artefacts) == ["noarch"]


def test_locks_have_no_trace_of_the_index(both: Workspace) -> None:
    text = b"".join(snapshot(both).values()).decode()
    for trace in ("http", "127.0.0.1", os.sep + "simple"):
        assert trace not in text


# ---- showing and writing


def test_a_difference_is_shown_and_nothing_written(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    shown = run("add", "13.4")
    assert '+  "release": "13.4.3"' in shown
    assert "+++ b/variants/cuda-13.4.yaml" in shown
    assert (
        "nothing written; --write writes cuda-13.4.lock, cuda-13.4.yaml, python-13.lock,"
        " python-13.yaml" in shown
    )
    assert "run `ctk release measure 13.4 --write`" in shown
    assert snapshot(here) == {}


def test_indexes_of_any_form_give_the_same_locks(
    run: Run, here: Workspace, index: FakeIndex, have: Have
) -> None:
    before = have("12.9", "13.4")
    assert "nothing changes" in run("add", "13.4", "12.9", "--write")
    index.html, index.ranges, index.head, index.metadata_copies, index.hashes = (
        True,
        False,
        False,
        True,
        False,
    )
    index.projects = {name: dict(reversed(files.items())) for name, files in index.projects.items()}
    run("add", "12.9", "13.4", "--write")
    assert snapshot(here) == before


def measured(here: Workspace) -> Facts:
    """Give the lock of 13.4 some facts."""
    facts = Facts(("7.5", "12.1"), "9.4", {"linux-64": {"cudart": "2.17", "nvrtc": "2.7"}})
    write(here.variants, replace(locked(here), facts=facts))
    return facts


def test_facts_stay_while_the_measured_files_stay(
    run: Run, here: Workspace, index: FakeIndex, have: Have
) -> None:
    have("13.4")
    facts = measured(here)
    add_manifest(index, "13.4.4")
    # No file's contents are measured here.
    assert "release measure 13.4" in run("add", "13.4", "--write")
    lock = locked(here)
    file = "cuda_toolkit-13.4.4-py2.py3-none-any.whl"
    assert (lock.release, lock.facts, lock.manifest and lock.manifest.file) == (
        "13.4.4",
        facts,
        file,
    )


def test_facts_go_with_the_files_they_were_measured_from(
    run: Run, here: Workspace, index: FakeIndex, have: Have
) -> None:
    have("13.4")
    measured(here)
    add_component(index, "nvidia-cuda-nvrtc", "13.4.92.1", WHEELS_13)
    assert "run `ctk release measure 13.4 --write`" in run("add", "13.4", "--write")
    lock = locked(here)
    assert (lock.facts, lock.components["nvrtc"].version) == (None, "13.4.92.1")
    assert "cuda_arch_set" not in (here.variants / "cuda-13.4.yaml").read_text()
    assert "nothing changes" in run("add", "13.4", "--write")


def test_a_set_without_a_solution_names_the_project(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    for needed, said in (
        ("cuda-core<1", r"no numba-cuda that can be used; 0.31.0: .* no cuda-core<1 for Python"),
        (
            "cuda-core>=1.3",
            r"no numba-cuda for .* goes with cuda-python 13.4.4, cuda-bindings 13.4.4",
        ),
    ):
        index.projects["numba-cuda"] = {}
        add_extension(index, "numba-cuda", "0.31.0", [needed])
        with pytest.raises(NotPublished, match=said):
            run("add", "python-13", "--write")
    assert snapshot(here) == {}


# ---- names of releases


def test_a_release_that_the_index_lacks_is_said_with_the_newest_there_and_the_newest_lock(
    run: Run, index: FakeIndex
) -> None:
    for command in ("add", "check"):
        with pytest.raises(
            UnknownName, match=r"the package index has no CUDA Toolkit 13\.5"
        ) as error:
            run(command, "13.5")
        step = (
            "see `ctk release check`; the newest there is 13.4; the newest that is locked is none"
        )
        assert error.value.step == step
    asked = {request.path for request in index.requests}
    assert asked == {"/simple/cuda-toolkit/"}, "nobody waits for answers about other projects"
    with pytest.raises(UnknownName, match=r"unknown CUDA major '14'"):
        run("add", "python-14")


def test_a_minor_brings_the_python_set_of_its_major() -> None:
    names = ["cuda-12.9", "cuda-13.0", "cuda-13.4", "python-12", "python-13"]
    assert names_of(["13.4", "12.9", "cuda-13.0", "13.4"]) == names
    assert names_of(["base", "python-13"]) == ["python-13", "base"]
    with pytest.raises(UnknownName) as error:
        names_of(["13.5.0"])
    assert error.value.step.endswith(": 13.5")


# ---- check and list


def test_check_shows_newer_versions(run: Run, index: FakeIndex, have: Have) -> None:
    have("13.4")
    rows = cells(run("check", "-v"))
    assert ("cuda-13.4", "cuda-toolkit", "13.4.3", "13.4.3", "13.4.3", "up to date") in rows
    assert ("cuda-12.9", "cuda-toolkit", "-", "12.9.2.0", "12.9.2.0", "not locked") in rows
    assert ("python-13", "cuda-bindings", "13.5.0", "13.5.0", "13.5.0", "up to date") in rows
    held = ("python-13", "numba-cuda", "0.30.4", "0.30.4", "0.32.0", "held back")
    assert held in rows

    add_manifest(index, "13.4.4")
    add_manifest(index, "13.5.0")
    index.add_wheel("cuda-pathfinder", "1.9.3", requires_python=">=3.11")
    shown = run("check")
    rows = cells(shown)
    assert ("cuda-13.4", "cuda-toolkit", "13.4.3", "13.4.4", "13.4.4", "newer") in rows
    assert ("cuda-13.5", "cuda-toolkit", "-", "13.5.0", "13.5.0", "newer minor") in rows
    assert "ctk release add 13.4 13.5 python-13 --write" in shown
    assert not [row for row in rows if row[-1] in ("up to date", "not locked")], (
        "what needs nothing is left out"
    )
    assert (
        "nothing to do for 6 versions; complete on the index: 2 toolkit releases (-v: each)"
        in shown
    )
    assert "no toolkit on the index is newer" not in shown
    index.requests.clear()
    of_one = {row[0] for row in cells(run("check", "python-13", "-v")) if row[0].startswith("p")}
    assert of_one == {"python-13"}
    assert "/simple/cuda-nvrtc/" not in {request.path for request in index.requests}
    needs = [
        (row["is_newer"], bool(row["held_back"]))
        for row in json.loads(run("check", "--json"))["rows"]
    ]
    assert needs == sorted(needs, reverse=True), "what needs a look comes first"


def test_check_says_why_the_newest_is_held_back_and_why_an_older_version_is_locked(
    run: Run, index: FakeIndex, have: Have
) -> None:
    have("13.4")
    index.add_wheel("cuda-pathfinder", "1.11.0", requires_python=">=3.12")
    add_extension(index, "cuda-core", "1.4.0", ["cuda-pathfinder>=2"])
    rows = {row["what"]: row for row in json.loads(run("check", "python-13", "--json"))["rows"]}
    reasons = {
        what: (row["newest"], row["held_back"]) for what, row in rows.items() if row["held_back"]
    }
    assert reasons == {
        "numba-cuda": (
            "0.32.0",
            "it has no wheel for Python cp311, cp314t on " + ", ".join(PLATFORMS),
        ),
        "cuda-pathfinder": ("1.11.0", "it requires Python >=3.12, and is to run on cp311 too"),
        "cuda-core": (
            "1.4.0",
            (
                "the package index has no cuda-pathfinder>=2 for Python cp311, cp314t that goes"
                " with cuda-core 1.4.0"
            ),
        ),
    }
    assert {what: row["older"] for what, row in rows.items() if row["older"]} == {
        "cuda-bindings": {"13.4.4": ["cuda-python 13.4.4 requires cuda-bindings~=13.4.4"]},
        "cuda-cccl": {
            "1.2.1": [
                "cuda-cccl 1.2.2 requires cuda-bindings<14,>=13.5, and cuda-bindings 13.4.4 is"
                " there"
            ]
        },
        "cuda-core": {"1.2.2": ["cuda-python 13.4.4 requires cuda-core~=1.2.0"]},
        "cuda-pathfinder": {"1.9.0": ["numba-cuda 0.30.4 requires cuda-pathfinder<1.9.5"]},
        "numba-cuda-mlir": {
            "0.5.1": [
                "cuda-cccl 1.2.1 requires numba-cuda-mlir<0.6,>=0.5",
                "cuda-cccl 1.2.2 requires numba-cuda-mlir<0.6,>=0.5",
            ]
        },
    }
    shown = " ".join(run("check", "python-13").split())
    assert (
        "python-13: cuda-core 1.4.0 is held back: the package index has no cuda-pathfinder>=2"
        in shown
    )
    assert (
        "13.4.4 is locked as well as 13.5.0: cuda-python 13.4.4 requires cuda-bindings~=13.4.4"
        in shown
    )


@pytest.mark.parametrize(
    ("came", "beside"),
    [
        # Both younger than two weeks when the newest came: the one before them.
        ({"0.30.5": "2026-05-09T00:00:00Z", "0.30.6": "2026-05-10T00:00:00Z"}, "0.30.4"),
        ({"0.30.5": "2026-04-26T00:00:00Z", "0.30.6": "2026-05-10T00:00:00Z"}, "0.30.5"),
        ({"0.30.5": "2026-04-26T00:00:01Z", "0.30.6": "2026-05-10T00:00:00Z"}, "0.30.4"),
        # All wheels of a version count: the last one was late.
        (
            {"0.30.5": "2026-04-01T00:00:00Z", "0.30.6": "2026-05-10T00:00:00Z", "late": "0.30.5"},
            "0.30.4",
        ),
        ({"0.30.5": "2026-04-01T00:00:00Z", "0.30.6": None}, None),  # an index without upload times
    ],
)
def test_a_client_that_takes_nothing_younger_than_two_weeks_finds_a_version(
    run: Run, index: FakeIndex, have: Have, came: dict[str, str | None], beside: str | None
) -> None:
    have("13.4")
    index.html, index.upload_time = False, None if None in came.values() else "2026-01-01T00:00:00Z"
    late = came.pop("late", None)
    for version, moment in came.items():
        add_extension(
            index, "numba-cuda", version, ["cuda-core<2,>=0.5.1", "cuda-pathfinder<1.9.5"]
        )
        files = [
            file
            for file in index.projects["numba-cuda"]
            if file.startswith(f"numba_cuda-{version}-")
        ]
        if moment:
            index.uploaded |= dict.fromkeys(files, moment)
        if version == late:
            index.uploaded[files[-1]] = "2026-05-01T00:00:00Z"
    rows = {row["what"]: row for row in json.loads(run("check", "python-13", "--json"))["rows"]}
    reason = "it is for clients that take nothing younger than 14 days"
    assert rows["numba-cuda"]["older"] == ({beside: [reason]} if beside else {})
    # Projects that are old enough have only their newest version, or versions that other projects
    # need.
    assert not [
        row["what"]
        for row in rows.values()
        if row["what"] != "numba-cuda" and reason in str(row["older"])
    ]


def test_check_of_a_release_that_left_the_index_says_so(
    run: Run, index: FakeIndex, have: Have
) -> None:
    have("12.9", "13.4")
    del index.projects["cuda-toolkit"]["cuda_toolkit-12.9.2.0-py2.py3-none-any.whl"]
    del index.projects["cuda-toolkit"]["cuda_toolkit-12.9.1-py2.py3-none-any.whl"]
    with pytest.raises(NotPublished, match=r"no longer has cuda-toolkit of 12.9"):
        run("check")


def test_list_counts_components_and_shows_facts(run: Run, here: Workspace, have: Have) -> None:
    have("13.4")
    measured(here)
    rows = cells(run("list"))
    assert ("13.4.3", "7", "0", "0", "7") in rows  # no recipe, no list of exclusions
    assert ("python-13", "12", "", "", "") in rows
    assert ("13.4.3", "7.5 to 12.1", "9.4") in rows


def test_a_channel_that_cannot_be_read_ends_the_check_with_an_error_after_all_of_the_index(
    run: Run, index: FakeIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChannelMissing, match="there is no channel in /no/place") as error:
        run("check", "13.4", "--base", "/no/place")
    assert error.value.step
    assert "to lock them: ctk release add" in capsys.readouterr().out
