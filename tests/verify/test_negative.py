"""If a part of the scheme is taken out of a copy of the planned channel, a scenario goes wrong.

So the scenarios can fail, and each part of the scheme has a reason. If two parts have the same effect, a case lists
both, and the scenario goes wrong without both.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from negative_cases import (
    ANY_FIT,
    ANY_VERSION,
    CASES,
    FIT,
    MUST_REFUSE,
    RANGE,
    RELEASES,
    Case,
    ask,
    plain,
)
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.model import release_locks
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags
from ctk.solve.channels import pythons
from ctk.verify.oracle import PYTHON_REQUESTS, Question, Toolkit, expected, version
from ctk.verify.scenarios import facts, matrix
from kit.worlds import (
    Ask,
    Change,
    Record,
    World,
    Worlds,
    changed,
    fit,
    records,
    take_out,
    tie,
    toolkits_of,
)

# One package of each kind that exists in two builds; the sweep has the others.
USUAL = ("cuda-core", "cuda-nvcc_linux-64", "cuda-nvrtc", "cuda-runtime", "libcudla-dev")
THE_OTHERS = pytest.param("", marks=pytest.mark.sweep, id="the others")
# Of the releases in `RELEASES` only the newest has them; with the next one there is an older toolkit as well.
RECENT = {"cuda-cuobjdump", "cuda-nvdisasm", "cuda-tileiras", "libcudla", "libcudla-dev"}
NEXT = "13.5"
# Metapackages, which want an exact version of each member: each member has the effect of their own range too.
GROUPS = {
    *("cuda", "cuda-compiler", "cuda-libraries", "cuda-libraries-dev", "cuda-libraries-static", "cuda-minimal-build"),
    *("cuda-command-line-tools", "cuda-runtime", "cuda-toolkit", "cuda-tools"),
}
WITH_FILES = ("cuda-nvcc-tools", "cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools", "libnvjitlink")
# Packages with a run-export of cuda-version.
EXPORTING = ("cuda-crt-dev_linux-64", "cuda-nvcc-dev_linux-64", "cuda-nvcc-impl", "cuda-nvcc_linux-64")


@pytest.fixture(scope="module")
def gateway() -> Gateway:
    return Gateway()


def worlds(project: Workspace, folder: Path, gateway: Gateway, minors: Sequence[str] = RELEASES) -> Worlds:
    """Worlds of this checkout's recipes and some releases."""
    locks = [lock for lock in release_locks(project).values() if not lock.is_ctk or lock.minor in minors]
    request = Request(releases=list(minors))
    content = planned_repodata(plan(published_set(project), request, python_tags(project.build_config)))
    return Worlds(content, facts(locks), folder, gateway)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for hundreds of worlds, which is removed after the tests."""
    made = tmp_path_factory.mktemp("worlds")
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def channel(project: Workspace, folder: Path, gateway: Gateway) -> Worlds:
    """The channel as it is."""
    return worlds(project, folder / "channel", gateway)


@pytest.fixture(scope="module")
def with_a_gap(project: Workspace, folder: Path, gateway: Gateway) -> Worlds:
    """The channel without 13.0: a driver for 13.0 has CUDA 13, but its newest native toolkit is of CUDA 12."""
    return worlds(project, folder / "gap", gateway, [minor for minor in RELEASES if minor != "13.0"])


@pytest.fixture(scope="module")
def with_the_next(project: Workspace, folder: Path, gateway: Gateway) -> Worlds:
    return worlds(project, folder / "next", gateway, [*RELEASES, NEXT])


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


PATHFINDER = take_out("cuda-pathfinder", "depends", "^cuda-version .*", "cuda-version")


def test_without_its_range_cuda_pathfinder_goes_with_a_major_that_it_does_not_know(channel: Worlds) -> None:
    def next_major(record: Record) -> None:
        if record["name"] == "cuda-version" and record["version"] == "13.4":
            record.update(version="14.0", constrains=[])

    asked = ask("cuda-pathfinder", None, None, "cuda-version=14", refused=True)
    assert channel.without(next_major).fault(asked) == ""
    assert channel.without(next_major, PATHFINDER).fault(asked) == MUST_REFUSE


# ---- every package that exists in two builds, the same way


@dataclass(frozen=True)
class Twin:
    """A package, and a machine for which an older toolkit is right though a newer toolkit could be installed."""

    name: str
    made: Worlds  # of which worlds the scenarios are
    asked: Ask  # it alone, on that machine
    pinned: Ask  # it alone, without a driver, pinned to its oldest toolkit
    newest: str  # its newest toolkit
    right: str  # what is right on that machine

    @property
    def wrong(self) -> str:
        return f"toolkit {self.newest} compat, not {self.right} native"

    def change(self, *how: str, of: str = "") -> Change:
        return take_out(re.escape(self.name), *how, of=of)

    def loosened(self, kept: str) -> Change:
        """Loosens its dependencies on other packages with two builds, so that only its own tie is left."""
        ours = "|".join(map(re.escape, {r["name"] for r in self.made.states.values() if fit(r)} - {"cuda-version"}))
        return self.change("depends", rf"^(({ours}){kept}) .*", r"\1")

    def fault(self, asked: Ask, *changes: Change) -> str:
        return self.made.without(*changes, subdirs=[self.asked.question.subdir]).fault(asked)

    def fault_without(self, asked: Ask, untied: Change, kept: str) -> str:
        """The fault without a tie; if other dependencies have the same effect, the fault without these too."""
        assert self.fault(asked) == ""
        if fault := self.fault(asked, untied):
            return fault
        assert self.fault(asked, self.loosened(kept)) == "", self.name
        return self.fault(asked, self.loosened(kept), untied)


@pytest.fixture(params=[*USUAL, THE_OTHERS])
def twins(request: pytest.FixtureRequest, channel: Worlds, with_a_gap: Worlds, with_the_next: Worlds) -> Iterator[Twin]:
    names = [request.param]
    subdirs: dict[str, str] = {}
    for subdir in (*reversed(list(PLATFORMS)), NOARCH):
        here = (r["name"] for r in with_the_next.states.values() if r["subdir"] == subdir and tie(r))
        subdirs |= dict.fromkeys(here, "linux-64" if subdir == NOARCH else subdir)
    if not request.param:
        foreign = tuple(f"_{subdir}" for subdir in PLATFORMS if subdir != "linux-64")
        # Libraries beside the toolkit span a CUDA major: of one toolkit alone they have no build.
        minors = {toolkit.minor for toolkit in with_the_next.facts.toolkits}
        states = with_the_next.states.values()
        of_toolkits = {r["name"] for r in states if minors.intersection(toolkits_of([r], r["name"]))}
        names = sorted(of_toolkits & subdirs.keys() | {*PYTHON_REQUESTS})
        names = [name for name in names if name not in USUAL and not name.endswith(("-files", *foreign))]
        assert len(names) > 70
    return (_twin(name, subdirs[name], channel, with_a_gap, with_the_next) for name in names)


def _twin(name: str, subdir: str, channel: Worlds, with_a_gap: Worlds, with_the_next: Worlds) -> Twin:
    like = "" if name in PYTHON_REQUESTS else "cuda-nvrtc"

    def toolkits(made: Worlds) -> list[str]:
        here = [record for record in made.states.values() if record["subdir"] in (subdir, "noarch")]
        minors = [t.minor for t in made.facts.toolkits]  # there may be packages of others: 12.3's that serve 12.0
        return sorted(set(toolkits_of(here, name)).intersection(minors) if like else minors, key=version)

    if name in RECENT:
        channel = with_a_gap = with_the_next
    *older, newest = toolkits(with_a_gap)
    # A driver for X.0, and no X.0 in the channel: then not even a package that spans its major has a native build.
    made, driver = (with_a_gap, f"{newest.split('.')[0]}.0") if older else (channel, toolkits(channel)[-2])
    if older and older[-1].split(".")[0] == newest.split(".")[0]:
        made, driver = channel, older[-1]
    oldest, right = toolkits(made)[0], toolkits(made)[-2]
    on_machine, pinned = Question(name, subdir, driver, "9.0"), Question(name, subdir, pin=oldest)
    return Twin(name, made, Ask(on_machine, like=like), Ask(pinned, like=like), newest, right)


def test_without_its_feature_or_its_fit_the_compat_build_of_a_newer_toolkit_comes_first(twins: Iterator[Twin]) -> None:
    for twin in twins:
        assert twin.fault_without(twin.asked, twin.change("track_features"), r" \S+") == twin.wrong, twin.name
        untied = twin.change("depends", FIT, ANY_FIT, of="native")
        assert twin.fault_without(twin.asked, untied, r" \S+") == twin.wrong, twin.name


def test_without_its_range_a_package_of_a_newer_toolkit_goes_with_an_older_one(twins: Iterator[Twin]) -> None:
    wrong = r".* is of CUDA 13 compat: builds are mixed|\S+ wants cuda-version >=.*|\S+ \S+ is not of toolkit .*"
    for twin in twins:
        if twin.name not in GROUPS:
            # cccl-python takes an older numba-cuda-mlir than the newest, for every toolkit: that version is kept.
            untied = twin.change("depends", RANGE, ANY_VERSION)
            fault = twin.fault_without(twin.pinned, untied, r"(?:(?<=numba-cuda-mlir) \S+|)")
            assert re.fullmatch(wrong, fault), twin.name


def test_what_a_package_needs_is_missed(twins: Iterator[Twin]) -> None:
    """For each dependency on a package of this channel that no other package of the pick has."""
    for twin in twins:
        subdir, there = twin.asked.question.subdir, {record["name"] for record in twin.made.states.values()}
        newest = Ask(Question(twin.name, subdir), like=twin.asked.like)
        for needed in needs(twin.made.without(subdirs=[subdir]), newest, twin.name) & there - {"cuda-version"}:
            less = twin.made.without(twin.change("depends", rf"^{needed}( |$)"), subdirs=[subdir])
            # `ctk verify` itself misses what a request is of no use without; the rest is found by reading dependencies.
            missed = re.match(rf"{re.escape(twin.name)} needs {needed}[ ,]|\S+ is not there$", less.fault(newest))
            assert bool(missed) == (needed not in needs(less, newest)), needed


def needs(world: World, asked: Ask, package: str = "") -> set[str]:
    """The names of the dependencies of a package in a pick, or of all packages."""
    pick = world.pick(asked.scenario)
    assert pick
    return {spec.split()[0] for r in pick.records if package in ("", r.name.normalized) for spec in r.depends}


@pytest.mark.parametrize("package", WITH_FILES)
def test_without_its_exact_pin_a_package_has_the_files_of_another_toolkit(package: str, channel: Worlds) -> None:
    """The tie of the files has the same effect: both are removed."""
    asked = Ask(Question(package, "linux-64", pin="12.9"), like="cuda-nvrtc")
    unpinned = take_out(package, "depends", f"^{package}-files .*", f"{package}-files")
    assert channel.without(unpinned).fault(asked) == ""
    fault = channel.without(unpinned, take_out(f"{package}-files", "depends", RANGE, ANY_VERSION)).fault(asked)
    assert re.match(rf"{package}-files 13\.4\.\d+ is |{package} wants {package}-files ==12\.9.*, but 13\.4\.", fault)


@pytest.mark.parametrize(
    ("member", "toolkit", "own", "newer"),
    [("libcufile", "13.0", r"1\.15", r"1\.19"), ("libnvjitlink", "12.0", r"12\.0", r"12\.3")],
)
def test_without_its_exact_pin_a_group_has_a_member_of_another_toolkit(
    member: str, toolkit: str, own: str, newer: str, channel: Worlds
) -> None:
    """For members that can be newer than the toolkit; the others have a tie of their own."""
    group = "cuda-libraries"
    asked = Ask(Question(group, "linux-64", pin=toolkit), like="cuda-nvrtc")
    fault = channel.without(take_out(group, "depends", rf"^{member} .*", member)).fault(asked)
    assert channel.without().fault(asked) == ""
    assert re.match(rf"{group} wants {member} =={own}\S*, but {newer}\.", fault)


@pytest.mark.parametrize("package", EXPORTING)
def test_without_its_run_export_a_program_runs_with_an_older_toolkit(package: str, channel: Worlds) -> None:
    """Code of nvcc 13.4 has PTX of 13.4; if nothing is native, its cubin runs."""

    def picked(*changes: Change) -> str:
        content = changed(channel.content, changes, ["linux-64"])
        made = next(r for r in records(content) if r["name"] == package and r["version"].startswith("13.4."))
        pick = channel.without().pick(ask("cuda-cudart", "13.0", "9.0", *made["run_exports"]["strong"]).scenario)
        return f"{pick.toolkit} {pick.fit}" if pick else ""

    assert picked() == "13.4 compat"
    assert picked(take_out(package, "run_exports", "^cuda-version ")) == "13.0 native"


# ---- why there are two builds of everything, and not of cuda-version alone


def single(record: Record) -> None:
    """The scheme of conda-forge, but with two builds of cuda-version."""
    if record["name"] != "cuda-version" and fit(record) == "compat":
        record.clear()
    else:
        record["depends"] = [re.sub(FIT, ANY_FIT, spec) for spec in record["depends"]]


def conda_forges(record: Record) -> None:
    """The scheme of conda-forge: cuda-version constrains the driver's major, and nothing constrains the GPU."""
    if fit(record) == "compat":
        record.clear()
    elif record["name"] == "cuda-version":
        record.update(depends=[], constrains=[f"__cuda >={record['version'].split('.')[0]}"])
    else:
        single(record)


def test_one_build_of_each_package_is_not_enough(channel: Worlds) -> None:
    """A solver takes the newest package, and then its toolkit."""
    less = channel.without(single)
    for request in ("cuda-nvrtc", "cuda-bindings", "numba-cuda", "cuda-nvcc"):
        asked = ask(request, "13.0", "9.0")
        assert channel.without().fault(asked) == ""
        assert less.fault(asked) == "toolkit 13.4 compat, not 13.0 native", request


@pytest.mark.parametrize("name", ["cuda-core", "numba-cuda"])
def test_one_build_of_cuda_version_loads_its_ptx_on_few_machines(
    name: str, channel: Worlds, project: Workspace
) -> None:
    """docs/upstream/cuda-version.md has the numbers; ``-s`` shows them."""
    toolkits = {toolkit.minor: toolkit for toolkit in channel.facts.toolkits}
    everything = matrix(channel.facts, pythons())
    drivers = [driver for driver in everything.drivers if driver and version(driver) >= (12, 0)][:-1]
    gpus = [gpu for gpu in everything.gpus if gpu][:-1]  # the last of both is newer than what is known
    asked = [ask(name, *machine) for machine in everything.machines if machine in set(product(drivers, gpus))]
    solvable = [a for a in asked if expected(channel.facts, a.question).toolkit]
    possible = [a for a in solvable if any(loads(toolkit, a.question) for toolkit in toolkits.values())]

    def loading(world: World) -> list[Ask]:
        picks = {a: world.pick(a.scenario) for a in solvable}
        return [a for a, pick in picks.items() if pick and loads(toolkits[pick.toolkit], a.question)]

    one, two, ours = (loading(channel.without(*changes)) for changes in ((conda_forges,), (single,), ()))
    print(f"{name} on {len(solvable)} machines, {len(possible)} of which have a toolkit whose PTX loads. It loads on")
    print(f"{len(one)} with one build of cuda-version, {len(two)} with two, {len(ours)} with two of every package")
    assert len(solvable) > 200
    assert ours == possible
    assert len(one) < len(two) < len(ours)
    assert len(one) < 0.5 * len(possible)
    row = " | ".join([f"`{name}`", *(f"{len(right)} of {len(possible)}" for right in (one, two, ours))])
    assert row in (project.root / "docs/upstream/cuda-version.md").read_text()


def loads(toolkit: Toolkit, question: Question) -> bool:
    """Whether the toolkit's NVRTC knows the GPU, and the driver loads the PTX that it writes."""
    driver, gpu = version(question.driver or ""), version(question.arch or "")
    return version(toolkit.minor) <= driver and gpu in map(version, toolkit.architectures)
