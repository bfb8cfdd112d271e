"""If a part of the scheme is taken out of a copy of the planned channel, a scenario goes wrong.

So the scenarios can fail, and each part of the scheme has a reason. If two parts have the same
effect, a case lists both, and the scenario goes wrong without both.
tests/channel/recipes/test_twins.py shows that all packages have these parts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product

import pytest
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.lock.model import release_locks
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags
from ctk.solve.channels import pythons
from ctk.verify.oracle import Question, Toolkit, expected, version
from ctk.verify.scenarios import facts, matrix
from kit.negative_cases import CASES, MUST_REFUSE, RELEASES, Case, ask, plain, single
from kit.worlds import Ask, Change, Record, World, Worlds, changed, fit, records, take_out


@pytest.fixture(scope="module")
def channel(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """The channel as it is, of this checkout's recipes and some releases."""
    locks = [
        lock
        for lock in release_locks(project).values()
        if not lock.is_ctk or lock.minor in RELEASES
    ]
    request = Request(releases=RELEASES)
    content = planned_repodata(
        plan(published_set(project), request, python_tags(project.build_config))
    )
    folder = tmp_path_factory.mktemp("worlds")
    yield Worlds(content, facts(locks), folder, Gateway())
    shutil.rmtree(folder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_scenario_goes_wrong_without(case: Case, channel: Worlds) -> None:
    subdirs = list(dict.fromkeys(asked.question.subdir for asked, _ in case.wrong))
    whole = channel.without(*case.given, subdirs=subdirs)
    less = channel.without(*case.given, *case.changes, subdirs=subdirs)
    for asked, wrong in case.wrong:
        assert whole.fault(asked) == ""
        assert plain(less.fault(asked)) == wrong
    for kept in case.changes if case.changes[1:] else ():
        others = [change for change in case.changes if change is not kept]
        world = channel.without(*case.given, *others, subdirs=subdirs)
        assert [world.fault(asked) for asked, _ in case.wrong] == [""] * len(case.wrong)


def test_without_its_range_cuda_pathfinder_goes_with_a_major_that_it_does_not_know(
    channel: Worlds,
) -> None:
    def next_major(record: Record) -> None:
        if record["name"] == "cuda-version" and record["version"] == "13.4":
            record.update(version="14.0", constrains=[])

    asked = ask("cuda-pathfinder", None, None, "cuda-version=14", refused=True)
    assert channel.without(next_major).fault(asked) == ""
    without = take_out("cuda-pathfinder", "depends", "^cuda-version .*", "cuda-version")
    assert channel.without(next_major, without).fault(asked) == MUST_REFUSE


@pytest.mark.parametrize("package", ["cuda-nvcc-impl", "cuda-nvcc_linux-64"])
def test_without_its_run_export_a_program_runs_with_an_older_toolkit(
    package: str, channel: Worlds
) -> None:
    """Code of nvcc 13.4 has PTX of 13.4; if nothing is native, its cubin runs."""

    def picked(*changes: Change) -> str:
        content = changed(channel.content, changes, ["linux-64"])
        made = next(
            r for r in records(content) if r["name"] == package and r["version"].startswith("13.4.")
        )
        pick = channel.without().pick(
            ask("cuda-cudart", "13.0", "9.0", *made["run_exports"]["strong"]).scenario
        )
        return f"{pick.toolkit} {pick.fit}" if pick else ""

    assert picked() == "13.4 compat"
    assert picked(take_out(package, "run_exports", "^cuda-version ")) == "13.0 native"


# ---- why there are two builds of everything, and not of cuda-version alone


def conda_forges(record: Record) -> None:
    """The scheme of conda-forge: cuda-version constrains the driver's major, and nothing constrains
    the GPU.
    """
    if fit(record) == "compat":
        record.clear()
    elif record["name"] == "cuda-version":
        record.update(depends=[], constrains=[f"__cuda >={record['version'].split('.')[0]}"])
    else:
        single(record)


@pytest.mark.parametrize("name", ["cuda-core", pytest.param("numba-cuda", marks=pytest.mark.sweep)])
def test_one_build_of_cuda_version_loads_its_ptx_on_few_machines(
    name: str, channel: Worlds, project: Workspace
) -> None:
    """docs/upstream/cuda-version.md has the numbers; ``-s`` shows them."""
    toolkits = {toolkit.minor: toolkit for toolkit in channel.facts.toolkits}
    everything = matrix(channel.facts, pythons())
    drivers = [driver for driver in everything.drivers if driver and version(driver) >= (12, 0)][
        :-1
    ]
    # The last of both is newer than what is known.
    gpus = [gpu for gpu in everything.gpus if gpu][:-1]
    asked = [
        ask(name, *machine)
        for machine in everything.machines
        if machine in set(product(drivers, gpus))
    ]
    solvable = [a for a in asked if expected(channel.facts, a.question).toolkit]
    possible = [
        a for a in solvable if any(loads(toolkit, a.question) for toolkit in toolkits.values())
    ]

    def loading(world: World) -> list[Ask]:
        picks = {a: world.pick(a.scenario) for a in solvable}
        return [
            a for a, pick in picks.items() if pick and loads(toolkits[pick.toolkit], a.question)
        ]

    one, two, ours = (
        loading(channel.without(*changes)) for changes in ((conda_forges,), (single,), ())
    )
    print(
        f"{name} on {len(solvable)} machines, {len(possible)} of which have a toolkit whose PTX"
        " loads. It loads on"
    )
    print(
        f"{len(one)} with one build of cuda-version, {len(two)} with two, {len(ours)} with two of"
        " every package"
    )
    assert len(solvable) > 200
    assert ours == possible
    assert len(one) < len(two) < len(ours)
    assert len(one) < 0.5 * len(possible)
    row = " | ".join(
        [f"`{name}`", *(f"{len(right)} of {len(possible)}" for right in (one, two, ours))]
    )
    page = (project.root / "docs/upstream/cuda-version.md").read_text()
    assert row in page and f"The {len(solvable)} machines have a driver" in page
    assert (
        name != "cuda-core"
        or f"# {name} on {len(solvable)} machines, {len(possible)} of which" in page
    )


def loads(toolkit: Toolkit, question: Question) -> bool:
    """Whether the toolkit's NVRTC knows the GPU, and the driver loads the PTX that it writes."""
    driver, gpu = version(question.driver or ""), version(question.arch or "")
    return version(toolkit.minor) <= driver and gpu in map(version, toolkit.architectures)
