"""PyTorch and Triton are picked by the oracle's rule, and each bound in their packages is needed
for that.

The oracle's rule is that of the toolkit, for the toolkits that a wheel goes with and the GPUs that
it has code for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from negative_cases import ANY_FIT, FIT
from negative_cases import ask as asked
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.lock.model import release_locks, variant_keys
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags
from ctk.solve.machine import impossible
from ctk.verify import oracle
from ctk.verify.oracle import version
from ctk.verify.scenarios import facts
from kit.worlds import Ask, Change, World, Worlds, take_out

RELEASES = ("12.4", "12.8", "12.9", "13.0", "13.1", "13.2", "13.4")
SUBDIRS = ("linux-64", "linux-aarch64")
# CUDA major -> the oldest toolkit of its wheels; tests/recipes/test_pytorch.py has it from what
# they require.
OLDEST = {"torch": {"12": "12.8", "13": "13.0"}, "triton": {"12": "12.8", "13": "13.0"}}
# Request -> what it needs: libtorch is linked with NCCL and NVSHMEM.
TORCH = ("torch", "nccl", "nvshmem")
REQUESTS = {"pytorch": TORCH, "pytorch-gpu": TORCH, "libtorch": TORCH, "triton": ("triton",)}


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
GPUS = (None, "5.2", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")


@pytest.fixture(scope="module")
def channel(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Some toolkits and both library sets, and what the oracle knows of them."""
    request = Request((*RELEASES, "libraries-12", "libraries-13"), (), SUBDIRS, ("3.13",))
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
        code[lock.major] = {name: keys[f"{name}_gpus"][0] for name in TORCH}
    toolkits = [
        replace(
            toolkit,
            published=dict(toolkit.published)
            | {
                name: frozenset(published[toolkit.major].get(name, ()))
                for name in (*TORCH, "triton")
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
        for request_, needs in REQUESTS.items():
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


PINNED = asked("pytorch", "13.4", "9.0", "pytorch=2.14.1", "python=3.13", python="3.13")


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("subdir", SUBDIRS)
def test_every_machine_gets_what_the_oracle_expects(
    request_: str, subdir: str, whole: World
) -> None:
    machines = [
        (d, gpu) for d, gpu in product(DRIVERS, GPUS) if (d or not gpu) and not impossible(d, gpu)
    ]
    questions = [ask(request_, driver, gpu, subdir) for driver, gpu in machines]
    assert {q.scenario: fault for q in questions if (fault := whole.fault(q))} == {}
    assert len({whole.right(q).toolkit for q in questions}) > 4


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
    ],
)
def test_without_a_bound_the_pick_is_wrong(
    changes: tuple[Change, ...], wrong: list[tuple[Ask, str]], channel: Worlds, whole: World
) -> None:
    less = channel.without(*changes)
    for question, fault in wrong:
        assert whole.fault(question) == ""
        assert fault in less.fault(question)
