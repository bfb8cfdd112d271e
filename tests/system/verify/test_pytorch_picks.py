"""PyTorch and Triton are picked by the oracle's rule, and each bound in their packages is needed
for that. torchvision, torchaudio and torchcodec come with the PyTorch that they were compiled for.

The oracle's rule is that of the toolkit, for the toolkits that a wheel goes with and the GPUs that
it has code for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.lock.model import release_locks, variant_keys
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags
from ctk.solve.machine import impossible
from ctk.solve.solve import Pick
from ctk.verify import oracle
from ctk.verify.oracle import version
from ctk.verify.scenarios import facts
from kit.negative_cases import ANY_FIT, FIT
from kit.negative_cases import ask as asked
from kit.worlds import Ask, Change, World, Worlds, take_out, violations

RELEASES = ("12.4", "12.8", "12.9", "13.0", "13.1", "13.2", "13.4")
X86 = "linux-64"
SUBDIRS = (X86, "linux-aarch64")
# CUDA major -> the oldest toolkit of its wheels; tests/system/recipes/test_pytorch.py has it from
# what they require.
# Their neighbours were compiled with the same ones.
TOOLKITS_OF_WHEELS = {"12": "12.8", "13": "13.0"}
NEIGHBOURS = ("torchvision", "torchaudio", "torchcodec")
OLDEST = dict.fromkeys(("torch", "triton", *NEIGHBOURS), TOOLKITS_OF_WHEELS)
# Version -> the minors of PyTorch that its wheel is for;
# tests/channel/recipes/test_torch_neighbours.py has them from what it requires.
COMPILED_FOR = {
    "torchvision": {"0.25.0": ["2.10"], "0.29.1": ["2.14"], "0.29.2": ["2.15"]},
    "torchaudio": {"2.10.0": ["2.10"], "2.11.0": ["2.14"], "2.11.1": ["2.15"]},
    "torchcodec": {"0.17.0": ["2.14", "2.15"]},
}
# Request -> what it needs: libtorch is linked with NCCL and NVSHMEM.
TORCH = ("torch", "nccl", "nvshmem")
REQUESTS = {"pytorch": TORCH, "pytorch-gpu": TORCH, "libtorch": TORCH, "triton": ("triton",)}
BESIDE = {name: (*TORCH, name) for name in NEIGHBOURS}
WINDOWS = "win-64"

DRIVERS = (
    None,
    "11.8",
    "12.0",
    "12.4",
    "12.8",
    "12.9",
    "13.0",
    "13.1",
    "13.2",
    "13.3",
    "13.4",
    "13.9",
)
# Fewer: the packages beside them are those that PyTorch is asked for with all.
NEIGHBOURS_GPUS = (None, "6.1", "7.0", "7.5", "8.0", "12.1")
GPUS = (None, "5.2", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")


@pytest.fixture(scope="module")
def channel(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Some toolkits and both library sets, and what the oracle knows of them."""
    subdirs = (*SUBDIRS, WINDOWS)
    request = Request((*RELEASES, "libraries-12", "libraries-13"), (), subdirs, ("3.13",))
    content = planned_repodata(
        plan(published_set(project), request, python_tags(project.build_config))
    )
    locks = release_locks(project).values()
    known = facts(lock for lock in locks if not lock.is_ctk or lock.minor in RELEASES)
    published: dict[str, dict[str, set[str]]] = {}
    code: dict[str, dict[str, str]] = {}
    for lock in (lock for lock in locks if lock.is_library_set):
        there = published.setdefault(lock.major, {})
        for component in lock.components.values():
            targets = {target for target, artefact in component.artefacts.items() if artefact}
            there.setdefault(component.variant_key, set()).update(
                s for s in SUBDIRS if any(t.startswith(s) for t in targets)
            )
        keys = variant_keys(lock, "linux-64")
        bounds = {name: keys.get(f"{name}_gpus") for name in (*TORCH, *NEIGHBOURS)}
        code[lock.major] = {name: found[0] for name, found in bounds.items() if found}
    toolkits = [
        replace(
            toolkit,
            published=dict(toolkit.published)
            | {
                name: frozenset(published[toolkit.major].get(name, ()))
                for name in (*TORCH, "triton", *NEIGHBOURS)
                if version(toolkit.minor)
                >= version(OLDEST.get(name, {}).get(toolkit.major, "12.0"))
            },
            code=dict(toolkit.code)
            | {name: dict.fromkeys(SUBDIRS, gpus) for name, gpus in code[toolkit.major].items()},
        )
        for toolkit in known.toolkits
    ]
    folder = tmp_path_factory.mktemp("worlds")
    with pytest.MonkeyPatch.context() as patch:
        for request_, needs in (REQUESTS | BESIDE).items():
            patch.setitem(oracle._NEEDS, request_, (needs, ()))
        yield Worlds(content, replace(known, toolkits=tuple(toolkits)), folder, Gateway())
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def whole(channel: Worlds) -> World:
    return channel.without(subdirs=SUBDIRS)


def ask(
    request: str, driver: str | None = None, gpu: str | None = None, subdir: str = "linux-64"
) -> Ask:
    return asked(
        request, driver, gpu, subdir=subdir, python=None if request == "libtorch" else "3.13"
    )


def pinned(name: str, version_: str, driver: str | None = "13.4", gpu: str | None = "9.0") -> Ask:
    return asked(name, driver, gpu, f"{name}={version_}", "python=3.13", python="3.13")


PINNED = pinned("pytorch", "2.14.1")
VISION, AUDIO = pinned("torchvision", "0.29.1"), pinned("torchaudio", "2.11.0")
MACHINES = [
    (d, gpu) for d, gpu in product(DRIVERS, GPUS) if (d or not gpu) and not impossible(d, gpu)
]


def strangers(pick: Pick | None) -> list[str]:
    """The neighbours of a pick that were compiled for another PyTorch than the one beside them, or
    are of another build: CUDA major or CPU, Python, and the fit of the toolkit.
    """
    packages = {r.name.normalized: r for r in pick.records} if pick else {}
    found = []
    for name in NEIGHBOURS:
        if package := packages.get(name):
            pytorch = packages["pytorch"]
            minor = ".".join(str(pytorch.version).split(".")[:2])
            is_for_it = minor in COMPILED_FOR[name][str(package.version)]
            builds = [str(p.build).rpartition("_h")[0] for p in (package, pytorch)]
            if not is_for_it or builds[0] != builds[1]:
                beside = f"pytorch {pytorch.version} {pytorch.build}"
                found.append(f"{name} {package.version} {package.build} beside {beside}")
    return found


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("subdir", SUBDIRS)
def test_every_machine_gets_what_the_oracle_expects(
    request_: str, subdir: str, whole: World
) -> None:
    questions = [ask(request_, driver, gpu, subdir) for driver, gpu in MACHINES]
    assert {q.scenario: fault for q in questions if (fault := whole.fault(q))} == {}
    assert len({whole.right(q).toolkit for q in questions}) > 4


@pytest.mark.parametrize("request_", NEIGHBOURS)
@pytest.mark.parametrize("subdir", SUBDIRS)
def test_a_neighbour_comes_with_the_pytorch_that_it_was_compiled_for(
    request_: str, subdir: str, whole: World
) -> None:
    versions = set()
    for driver, gpu in (machine for machine in MACHINES if machine[1] in NEIGHBOURS_GPUS):
        question = ask(request_, driver, gpu, subdir)
        pick = whole.pick(question.scenario)
        assert (question.scenario, whole.fault_of(pick, question)) == (question.scenario, "")
        assert strangers(pick) == []
        if pick:
            versions |= {str(r.version) for r in pick.records if r.name.normalized == request_}
    made = COMPILED_FOR[request_]
    # ARM has no PyTorch for CUDA 12.
    assert versions == {v for v, pytorch in made.items() if subdir == X86 or "2.10" not in pytorch}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_version_of_a_neighbour_comes_with_its_pytorch_or_is_refused(
    driver: str | None, whole: World
) -> None:
    for name, versions in COMPILED_FOR.items():
        for version_, pytorch in versions.items():
            question = pinned(name, version_, driver, None)
            pick = whole.pick(question.scenario)
            major = "12.0" if pytorch == ["2.10"] else "13.0"
            assert (pick is None) == (driver is not None and version(driver) < version(major))
            assert strangers(pick) == []
            assert not pick or list(violations(pick, whole.states)) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_windows_gets_neighbours_for_cpus_with_pytorch_for_cpus(
    driver: str | None, channel: Worlds
) -> None:
    world = channel.without(subdirs=(WINDOWS,))
    question = asked("pytorch", driver, None, *NEIGHBOURS, "python=3.13", subdir=WINDOWS)
    pick = world.pick(question.scenario)
    assert pick
    assert strangers(pick) == []
    assert list(violations(pick, world.states)) == []
    builds = {r.name.normalized: str(r.build) for r in pick.records}
    assert all(builds[name].startswith("cpu_py313_") for name in ("pytorch", *NEIGHBOURS))
    assert "cuda-version" not in builds


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        pytest.param(
            (take_out("libtorch", "constrains", "^__cuda_arch "),),
            [(ask("pytorch", "13.0", "7.5"), "toolkit 13.0 native, not 12.9 native")],
            id="its GPUs",
        ),
        pytest.param(
            (take_out("libtorch|pytorch", "depends", r"^(cuda-version >=12)\.8,", r"\1,"),),
            [(ask("libtorch", "12.4", "9.0"), "toolkit 12.4 native, not 12.9 compat")],
            id="the toolkit of CUDA 12",
        ),
        pytest.param(
            (take_out("libtorch|pytorch", "depends", r"^(cuda-version >=13)\.2,", r"\1,"),),
            [
                (
                    ask("libtorch", "13.0", "9.0"),
                    "libtorch wants cuda-version >=13.2,<14.0a0 native_*",
                )
            ],
            id="the toolkit of the newest",
        ),
        pytest.param(
            (take_out("libtorch|pytorch", "track_features"),),
            [(ask("pytorch", "13.0", "9.0"), "toolkit 13.4 compat, not 13.0 native")],
            id="its features",
        ),
        pytest.param(
            (take_out("pytorch", "depends", FIT, ANY_FIT),),
            [(ask("pytorch"), "mixed")],
            id="pytorch is of the fit of its toolkit",
        ),
        pytest.param(
            (take_out("pytorch", "depends", "^triton .*", "triton"),),
            [(ask("pytorch", "13.0", "9.0"), "pytorch wants triton >=3.8.0,<3.9.0a0")],
            id="its Triton",
        ),
        pytest.param(
            (take_out("pytorch", "depends", "^libtorch .*", "libtorch"),),
            [(PINNED, "pytorch wants libtorch ==2.14.1")],
            id="its libtorch",
        ),
        pytest.param(
            (take_out("triton", "depends", FIT, ANY_FIT),),
            [(ask("triton"), "mixed")],
            id="triton is of the fit of its toolkit",
        ),
        pytest.param(
            (take_out("torchvision", "depends", "^pytorch .*", "pytorch"),),
            [(VISION, "torchvision wants pytorch 2.14.* cuda13_*")],
            id="torchvision's PyTorch",
        ),
        pytest.param(
            (take_out("torchaudio", "depends", "^pytorch .*", "pytorch"),),
            [(AUDIO, "torchaudio wants pytorch 2.14.* cuda13_*")],
            id="torchaudio's PyTorch",
        ),
    ],
)
def test_without_a_bound_the_pick_is_wrong(
    changes: tuple[Change, ...], wrong: list[tuple[Ask, str]], channel: Worlds, whole: World
) -> None:
    less = channel.without(*changes)
    for question, fault in wrong:
        assert whole.fault(question) == ""
        assert fault in less.fault(question)
