"""Locks of the libraries beside the toolkit: chosen, held back and missing versions, and their
plan.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from packaging.tags import parse_tag
from packaging.version import Version

from ctk.core.checkout import Workspace
from ctk.core.errors import UnknownName
from ctk.core.platforms import PLATFORMS, targets
from ctk.index.index import Index
from ctk.lock import components, contents
from ctk.lock.model import ReleaseLock, load, release_locks
from ctk.plan.plan import Request, plan, published_set
from ctk.release.choose import choose, release_of
from kit.ctk_release import Have, Run
from kit.fake_ctk import WHEELS_12, WHEELS_13, add_component
from kit.fake_index import FakeIndex
from kit.tables import cells

pytest_plugins = ["kit.ctk_release_fixtures"]

RECIPE = """
schema_version: 1
context: {version: "${{ nccl }}"}
package: {name: nccl, version: "${{ version }}"}
source:
  path: "../../.cache/artefacts/nccl-cu${{ cuda_major }}/${{ version }}/${{ target_platform }}.zip"
requirements: {run: ["cuda-version ${{ cuda_range }}"]}
"""


@pytest.fixture(autouse=True)
def two_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: components.LIBRARIES[name] for name in ("nccl", "cudnn")}
    for module in ("ctk.lock.components", "ctk.release.choose"):
        monkeypatch.setattr(f"{module}.LIBRARIES", known)


def add(
    index: FakeIndex, name: str, version: str, *requires: str, tags: tuple[str, ...] = WHEELS_13[:2]
) -> None:
    for tag in tags:
        index.add_wheel(name, version, f"py3-none-{tag}", requires=requires)


def test_the_newest_of_each_is_locked_for_its_major(
    here: Workspace, index: FakeIndex, have: Have, run: Run
) -> None:
    have("12.9", "13.4")
    for version in ("2.1", "2.3", "2.2"):
        add(index, "nvidia-nccl-cu12", version)
        add(index, "nvidia-nccl-cu13", version)
    add(index, "nvidia-nccl-cu13", "2.4rc1")
    add_component(index, "nvidia-cudnn-cu13", "9.1", WHEELS_13)
    add_component(index, "nvidia-cudnn-cu12", "9.0", WHEELS_12)
    run("add", "libraries-13", "--write")
    lock = load(here.variants / "libraries-13.lock")
    assert {name: c.version for name, c in lock.components.items()} == {
        "cudnn-cu13": "9.1",
        "nccl-cu13": "2.3",
    }
    assert list(lock.components["nccl-cu13"].artefacts) == list(PLATFORMS)
    assert lock.components["nccl-cu13"].artefacts["win-64"] is None
    text = (here.variants / "libraries-13.yaml").read_text()
    assert text.splitlines()[1:] == [
        *("cuda_major:", '  - "13"', "major_number:", '  - "13000"'),
        *("cuda_range:", '  - ">=13,<14.0a0"'),
        *("cudnn:", '  - "9.1"', "nccl:", '  - "2.3"'),
    ]
    first, second, *unread, step = run("add", "libraries-13").splitlines()
    assert first == "nothing changes: the newest that can be locked is locked"
    assert second == "not measured: run `ctk release measure libraries-13 --write`"
    assert all("nobody has read the licence text of" in line for line in unread)
    assert step.startswith("read the text, and write what it says into ")


def test_a_version_that_needs_another_toolkit_is_held_back(
    here: Workspace, index: FakeIndex, have: Have, run: Run
) -> None:
    have("13.4")
    add(
        index,
        "nvidia-nccl-cu13",
        "2.3",
        "nvidia-cuda-nvrtc==13.*",
        "cuda-toolkit[nvrtc]<14",
        "numpy>=99",
    )
    add(index, "nvidia-nccl-cu13", "2.4", "nvidia-cuda-nvrtc>=13.9")
    pins = [
        f"cuda-toolkit[nvrtc]==14.*; platform_system == '{system}'"
        for system in ("Linux", "Windows")
    ]
    add(index, "nvidia-nccl-cu13", "2.5", *pins, "nvidia-cuda-nvrtc>=13.9; extra == 'more'")
    run("add", "libraries-13", "--write")
    assert load(here.variants / "libraries-13.lock").components["nccl-cu13"].version == "2.3"
    said = run("check", "libraries-13")
    reason = "libraries-13: nccl-cu13 2.5 is held back: it requires cuda-toolkit==14.*"
    assert f"{reason}, which no locked toolkit of CUDA 13 has" in " ".join(said.split())
    assert ("libraries-13", "nccl-cu13", "2.3", "2.3", "2.5", "held back") in cells(said)


def test_a_library_without_a_compatible_toolkit_is_held_back(
    here: Workspace, index: FakeIndex, have: Have, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As cuda-tile: one wheel for all majors, whose extra names the toolkits that it stands on."""
    monkeypatch.setattr(
        "ctk.release.choose.LIBRARIES", {"nccl": "nvidia-nccl-cu{major}", "tile": "tile[compiler]"}
    )
    have("12.9", "13.4")
    for major in ("12", "13"):
        add(index, f"nvidia-nccl-cu{major}", "2.3")
    add(index, "tile", "1.2")
    add(index, "tile", "1.3", "nvidia-cuda-nvrtc>=13; extra == 'compiler'")
    add(
        index,
        "tile",
        "1.7",
        "cuda-toolkit<13.5,>=13.2; extra == 'compiler'",
        "cuda-toolkit>=14; extra == 'other'",
    )
    for major, locked in (("12", ["nccl-cu12"]), ("13", ["nccl-cu13", "tile"])):
        run("add", f"libraries-{major}", "--write")
        lock = load(here.variants / f"libraries-{major}.lock")
        assert list(lock.components) == locked
    said = " ".join(run("check", "libraries-12").split())
    assert (
        "tile 1.7 is held back: it requires cuda-toolkit<13.5,>=13.2, which no locked toolkit of"
        " CUDA 12 has" in said
    )
    assert "held back" not in run("check", "libraries-13")


def test_a_major_without_libraries_is_an_error(
    here: Workspace, index: FakeIndex, have: Have, run: Run
) -> None:
    have("13.4")
    with pytest.raises(UnknownName, match="no library for CUDA 12"):
        run("add", "libraries-12")


def test_a_library_without_a_wheel_for_the_major_is_not_locked_and_for_a_platform_not_built(
    here: Workspace, index: FakeIndex, have: Have, run: Run
) -> None:
    have("13.4")
    add(index, "nvidia-nccl-cu13", "2.3", tags=WHEELS_13[:1])
    add(index, "nvidia-nccl-cu13", "2.4", tags=("macosx_11_0_arm64",))
    run("add", "libraries-13", "--write")
    assert "nccl-cu13 2.4 is held back: it has no wheel for this matrix" in run(
        "check", "libraries-13"
    )
    lock = load(here.variants / "libraries-13.lock")
    assert list(lock.components) == ["nccl-cu13"]
    folder = here.recipes / "nccl"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    found = plan(
        published_set(here), Request(releases=["13.4"], platforms=["linux-64", "win-64"]), ["cp311"]
    )
    assert [(b.id, b.artefacts[0].file) for b in found.builds] == [
        (
            "nccl-cuda13-linux-64",
            "nvidia_nccl_cu13-2.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        )
    ]
    reasons = {entry.id: entry.reason for entry in found.left_out}
    assert reasons["nccl-cuda13-win-64"] == "nvidia-nccl-cu13 2.3 is not published for win-64"


def test_an_older_python_keeps_the_last_versions_that_run_on_it(
    here: Workspace, index: FakeIndex, have: Have, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JAX: its plugin is compiled for each Python, and wants one version of a library that is
    for all of them.
    """
    forms = {"jax": "jax", "plugin": "jax-cuda{major}-plugin", "pjrt": "jax-cuda{major}-pjrt"}
    monkeypatch.setattr("ctk.release.choose.LIBRARIES", forms)
    have("13.4")
    for version, oldest in (("0.9", "3.11"), ("0.10", "3.11"), ("0.12", "3.12")):
        tags = ["cp314-cp314t", *(["cp311-cp311"] if oldest == "3.11" else [])]
        wants = [f"jax-cuda13-plugin=={version}; extra == 'cuda13'"]
        index.add_wheel("jax", version, requires=wants, requires_python=f">={oldest}")
        for tag in tags:
            index.add_wheel(
                "jax-cuda13-plugin",
                version,
                f"{tag}-{WHEELS_13[0]}",
                requires=[f"jax-cuda13-pjrt=={version}"],
            )
        # The library itself would run on every Python, but nothing requires its newest version.
        add(index, "jax-cuda13-pjrt", version)
    add(index, "jax-cuda13-pjrt", "0.13")
    run("add", "libraries-13", "--write")
    lock = load(here.variants / "libraries-13.lock")
    assert {key: component.version for key, component in lock.components.items()} == {
        f"{name}{older}": version
        for name in ("jax", "plugin-cu13", "pjrt-cu13")
        for older, version in (("", "0.12"), ("-0.10", "0.10"))
    }
    assert [t for t, a in lock.components["plugin-cu13-0.10"].artefacts.items() if a] == [
        "linux-64-cp311"
    ]
    assert "linux-64-cp311" not in lock.components["plugin-cu13"].artefacts
    said = " ".join(run("check", "libraries-13").split())
    assert (
        "pjrt-cu13 0.13 is held back: jax-cuda13-plugin 0.10 requires jax-cuda13-pjrt==0.10" in said
    )
    assert "jax-cuda13-plugin 0.12 requires jax-cuda13-pjrt==0.12" in said
    assert "jax 0.10 is locked as well as 0.12: it is the newest for Python cp311" in said


def test_a_script_refuses_a_wheel_that_it_has_no_place_for(
    project: Workspace, tmp_path: Path
) -> None:
    def laid_out(*files: str) -> subprocess.CompletedProcess[str]:
        work = tmp_path / str(len(list(tmp_path.iterdir())))
        for file in (*files, "x-1.dist-info/LICENSE"):
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            (work / file).write_text("text")
        script = project.recipes / "common" / "library.sh"
        values = {
            "PREFIX": str(work / "prefix"),
            "target_platform": "win-64",
            "LIBRARY_VERSION": "1",
        }
        return subprocess.run(
            ["bash", script],
            cwd=work,
            env={"PATH": "/usr/bin:/bin", **values},
            capture_output=True,
            text=True,
        )

    assert (
        laid_out("nvidia/x/bin/x64/x.dll", "nvidia/x/include/x.h", "nvidia/x/lib/x.lib").returncode
        == 0
    )
    assert (
        "expected the tree of one library"
        in laid_out("nvidia/x/bin/x.dll", "nvidia/y/bin/y.dll").stderr
    )
    assert "no place is known for nvidia/x/other/" in laid_out("nvidia/x/other/x.dll").stderr


def test_what_stays_as_published_looks_in_its_own_folder_alone(project: Workspace) -> None:
    """Two of NVSHMEM's plugins look in a folder of the machine that made them: they are
    left out. The licence of cuQuantum forbids changes; tests/audit has what its search paths may
    be.
    """
    using = {
        file.parent.name
        for file in project.recipes.glob("*/recipe.yaml")
        if "AS_PUBLISHED" in file.read_text()
    }
    assert using == {"nvshmem", "libnvjpeg2k", "custatevec", "cutensornet"}
    known, seen = contents.load(project), 0
    for component in (
        c for lock in release_locks(project).values() for c in lock.components.values()
    ):
        if component.variant_key in ("nvshmem", "nvjpeg2k"):
            for artefact in (
                a for target, a in component.artefacts.items() if a and target.startswith("linux")
            ):
                members = (known.members(artefact.sha256) or {}).values()
                for binary in (c.binary for c in members if c.binary and c.binary.soname):
                    entries = {entry for search in binary.search for entry in search.entries} - {
                        contents.ELSEWHERE
                    }
                    assert entries in ({"$ORIGIN"}, {"${ORIGIN}"})
                    seen += 1
    assert seen > 50


LINUX = 'platform_system == "Linux"'


@pytest.fixture
def torch(index: FakeIndex, have: Have, monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch: one name for both majors, the toolkit on Linux only, and a compiler in
    one minor.
    """
    forms = {
        "nccl": "nvidia-nccl-cu{major}",
        "torch": "torch",
        "triton": "triton",
        "torch-cpu": "torch",
    }
    monkeypatch.setattr("ctk.release.choose.LIBRARIES", forms)
    monkeypatch.setattr("ctk.release.choose.OLDER_TOOLKITS", {"13.0": {"13": ("torch", "triton")}})
    monkeypatch.setattr("ctk.release.choose.AS_REQUIRED", {"13": ("nccl",)})
    have("13.4")
    for version in ("2.1", "2.3"):
        add(index, "nvidia-nccl-cu13", version)
    for version, toolkit, triton in (
        ("2.10", "12.9.1", "3.1"),
        ("2.14", "13.0.0", "3.8"),
        ("2.15", "13.4.0", "3.9"),
    ):
        index.add_wheel("triton", f"{triton}.0", f"cp311-abi3-{WHEELS_13[0]}")
        wants = [f"cuda-toolkit[nvrtc]=={toolkit}; {LINUX}", f"triton~={triton}.0; {LINUX}"]
        if version == "2.14":
            wants.append(f"nvidia-nccl-cu13==2.1; {LINUX}")
        for tag in (WHEELS_13[0], "win_amd64"):
            index.add_wheel("torch", version, f"cp311-cp311-{tag}", requires=wants)
    index.add_wheel("torch", "2.16+cpu", f"cp311-cp311-{WHEELS_13[0]}")


@pytest.mark.usefixtures("torch")
def test_a_project_is_locked_for_an_older_toolkit_too_with_what_it_requires() -> None:
    toolkits = [ReleaseLock(release, None, {}) for release in ("13.0.3", "13.4.3")]
    with Index() as asked:
        found = choose(asked, "libraries-13", toolkits, ("cp311",))
    # Not 2.16+cpu, which is somebody's own build. A patch of a minor that is required is met by its
    # newest.
    locked = {name: [str(version) for version in project.files] for name, project in found.items()}
    assert (locked["torch"], locked["triton"]) == (["2.15", "2.14"], ["3.9.0", "3.8.0"])
    assert found["torch"].older == {Version("2.14"): ("it is the newest for CUDA Toolkit 13.0",)}


@pytest.mark.usefixtures("torch")
def test_wheels_that_need_the_toolkit_on_some_platforms_are_two_components(
    here: Workspace, run: Run
) -> None:
    run("add", "libraries-13", "--write")
    found = load(here.variants / "libraries-13.lock").components
    locked = {
        key: [t for t, a in found[key].artefacts.items() if a]
        for key in ("torch", "torch-cpu", "triton")
    }
    assert locked["torch"] == ["linux-64-cp311"]
    assert locked["torch-cpu"] == ["win-64-cp311"]
    # The stable ABI is for each later Python with the GIL.
    assert locked["triton"] == ["linux-64-cp311"]
    later = targets(parse_tag(f"cp312-abi3-{WHEELS_13[0].split('.')[0]}"))
    assert {"linux-64-cp312", "linux-64-cp315"} <= later
    assert not {"linux-64-cp311", "linux-64-cp314t"} & later


@pytest.mark.usefixtures("torch")
def test_a_version_that_a_project_requires_exactly_is_locked_beside_the_newest(
    here: Workspace, index: FakeIndex, run: Run
) -> None:
    wants = [
        f"cuda-toolkit[nvrtc]==13.4.0; {LINUX}",
        f"nvidia-nccl-cu13==2.1; {LINUX}",
        f"triton~=3.9.0; {LINUX}",
    ]
    index.add_wheel("torch", "2.17", f"cp311-cp311-{WHEELS_13[0]}", requires=wants)
    run("add", "libraries-13", "--write")
    found = load(here.variants / "libraries-13.lock").components
    assert {key: c.version for key, c in found.items() if key.startswith("nccl")} == {
        "nccl-cu13": "2.3",
        "nccl-cu13-2.1": "2.1",
    }


EXTENDED = {"vision": "torch"}


@pytest.fixture
def vision(index: FakeIndex, torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchvision: its module says which CUDA it was compiled with, its metadata does not.

    The newest has one wheel for every Python.
    """
    module = "ctk.release.choose"
    monkeypatch.setattr(
        f"{module}.LIBRARIES",
        {
            "nccl": "nvidia-nccl-cu{major}",
            "torch": "torch",
            "triton": "triton",
            "torch-cpu": "torch",
            "vision": "vision",
            "vision-cpu": "vision",
        },
    )
    monkeypatch.setattr(f"{module}.EXTENDED", EXTENDED)
    older = {"13.0": {"13": ("torch", "triton", "vision")}}
    monkeypatch.setattr(f"{module}.OLDER_TOOLKITS", older)
    says = "__version__ = '{}+{}'\n"
    for version, cuda in (("2.14", "cu130"), ("2.15", "cu134")):
        for tag, compiled in ((WHEELS_13[0], cuda), ("win_amd64", "cpu")):
            pins = [f"cuda-toolkit[nvrtc]=={cuda[2:4]}.{cuda[4:]}.0; {LINUX}"]
            files = {"torch/version.py": says.format(version, compiled).encode()}
            index.add_wheel("torch", version, f"cp311-cp311-{tag}", requires=pins, files=files)
    for version, cuda, needs, python in (
        ("0.25", "cu128", ["torch==2.10"], "cp311-cp311"),
        ("0.29", "cu130", ["torch>=2.14"], "cp311-cp311"),
        ("0.30", "cu132", ["torch>=2.14"], "py3-none"),
        ("0.31", "cu132", ["torch>=2.16"], "py3-none"),
        ("0.32", "cu135", [], "py3-none"),
    ):
        for tag, compiled in ((WHEELS_13[0], cuda), ("win_amd64", "cpu")):
            files = {"vision/version.py": says.format(version, compiled).encode()}
            index.add_wheel("vision", version, f"{python}-{tag}", requires=needs, files=files)


@pytest.mark.usefixtures("vision")
def test_what_extends_a_project_is_locked_as_it_was_compiled() -> None:
    toolkits = [ReleaseLock(release, None, {}) for release in ("13.0.3", "13.4.3")]
    with Index() as asked:
        chosen = choose(asked, "libraries-13", toolkits, ("cp311",))["vision"]
        found = release_of(asked, "libraries-13", toolkits, ("cp311",)).components
    versions = {name: c.version for name, c in found.items() if c.name.startswith("vision")}
    # With 2.15, which was compiled with 13.4, and with 2.14. On Windows no CUDA is named.
    assert versions == {"vision": "0.30", "vision-0.29": "0.29", "vision-cpu": "0.32"}
    there = {name: {t for t, a in found[name].artefacts.items() if a} for name in versions}
    assert there == {
        "vision": {"linux-64"},
        "vision-0.29": {"linux-64-cp311"},
        "vision-cpu": {"win-64"},
    }
    assert list(found["vision"].artefacts) == list(PLATFORMS), "a lock says what is not there"
    assert chosen.held_back == "it was compiled for cu135, and torch 2.15 for cu134"
    assert chosen.older == {Version("0.29"): ("it is the newest for CUDA Toolkit 13.0",)}


@pytest.mark.usefixtures("vision")
def test_what_extends_a_project_is_not_locked_without_it() -> None:
    toolkits = [ReleaseLock("12.6.3", None, {})]
    with Index() as asked:
        found = choose(asked, "libraries-13", toolkits, ("cp311",))
    assert not found["torch"].files
    assert not found["vision"].files
    reason = "no version of torch is locked, which it extends"
    assert found["vision"].held_back == reason
