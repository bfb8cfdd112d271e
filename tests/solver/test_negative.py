"""Whatever the right pick rests on, taken out of a copy of the planned channel, makes a scenario go wrong.

So the scenarios can fail, and nothing of the scheme is there for no reason. What is held twice is listed with what
holds it as well, and goes wrong when both are gone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from negative_cases import (
    ANY_FIT,
    ANY_VERSION,
    CASES,
    FIT,
    MUST_REFUSE,
    NO_FEATURES,
    RANGE,
    RELEASES,
    Case,
    ask,
    plain,
)
from rattler import Gateway
from worlds import (
    Ask,
    Change,
    Record,
    World,
    Worlds,
    changed,
    fit,
    kinds,
    records,
    take_out,
    template,
    tie,
    toolkits_of,
)

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import release_locks
from ctk.plan.plan import Request, plan, published_set, python_tags
from ctk.plan.repodata import planned
from ctk.verify.channels import pythons
from ctk.verify.oracle import PYTHON_REQUESTS, Question, Toolkit, expected, version
from ctk.verify.scenarios import facts, matrix

# Every package that exists in two builds; those of `ELSEWHERE` do not exist on linux-64.
_TWINS = """
cccl-python cuda cuda-bindings cuda-cccl cuda-cccl_<subdir> cuda-command-line-tools cuda-compiler cuda-core cuda-crt
cuda-crt-dev_<subdir> cuda-crt-tools cuda-cudart cuda-cudart-dev cuda-cudart-dev_<subdir> cuda-cudart-static
cuda-cudart-static_<subdir> cuda-cudart_<subdir> cuda-culibos-static cuda-cuobjdump cuda-cupti cuda-cupti-dev
cuda-cuxxfilt cuda-libraries cuda-libraries-dev cuda-libraries-static cuda-minimal-build cuda-nvcc
cuda-nvcc-dev_<subdir> cuda-nvcc-impl cuda-nvcc-tools cuda-nvcc_<subdir> cuda-nvdisasm cuda-nvml-dev cuda-nvrtc
cuda-nvrtc-dev cuda-nvtx cuda-nvtx-dev cuda-nvvm cuda-nvvm-dev_<subdir> cuda-nvvm-impl cuda-nvvm-tools cuda-opencl
cuda-opencl-dev cuda-profiler-api cuda-python cuda-runtime cuda-sanitizer-api cuda-tileiras cuda-toolkit cuda-tools
libcublas libcublas-dev libcudla libcudla-dev libcufft libcufft-dev libcufile libcufile-dev libcurand libcurand-dev
libcusolver libcusolver-dev libcusparse libcusparse-dev libnpp libnpp-dev libnvfatbin libnvfatbin-dev
libnvfatbin-static libnvjitlink libnvjitlink-dev libnvjitlink-static libnvjpeg libnvjpeg-dev libnvptxcompiler-dev
libnvptxcompiler-dev_<subdir> numba-cuda numba-cuda-mlir
"""
# Their fit is held twice: they are pinned to one build of another package with a fit (cuda-nvcc-tools for CUDA 13).
_PINNED = """
cuda cuda-cudart cuda-cudart-dev cuda-cudart-static cuda-cupti-dev cuda-minimal-build cuda-nvcc-impl cuda-nvcc_<subdir>
cuda-nvcc-tools cuda-nvrtc-dev cuda-nvtx-dev cuda-nvvm cuda-opencl-dev cuda-runtime cuda-toolkit cuda-tools
libcublas-dev libcudla-dev libcufft-dev libcufile-dev libcurand-dev libcusolver-dev libcusparse-dev libnpp-dev
libnvfatbin-dev libnvjitlink-dev libnvjpeg-dev libnvptxcompiler-dev
"""
# Their range is held twice: they want a version, or the versions of one major, of another package that has a range.
_RANGED = """
cccl-python cuda-bindings cuda-cccl cuda-core cuda-crt cuda-cudart cuda-cudart-dev cuda-cudart-static cuda-cupti-dev
cuda-nvcc cuda-nvcc-dev_<subdir> cuda-nvcc-impl cuda-nvcc-tools cuda-nvcc_<subdir> cuda-nvrtc-dev cuda-nvtx-dev
cuda-nvvm cuda-nvvm-dev_<subdir> cuda-opencl-dev cuda-python libcublas-dev libcudla-dev libcufft libcufft-dev
libcurand-dev libcusolver libcusolver-dev libcusparse libcusparse-dev libnpp-dev libnvfatbin-dev libnvjitlink-dev
libnvjpeg-dev libnvptxcompiler-dev numba-cuda numba-cuda-mlir
"""
TWINS, FIT_HELD_TWICE, RANGE_HELD_TWICE = _TWINS.split(), set(_PINNED.split()), set(_RANGED.split())
# One of each kind of them. The sweep has all.
_USUAL = """
cuda-core cuda-nvcc_<subdir> cuda-nvrtc cuda-runtime libcudla-dev
"""
SWEPT = [pytest.param(name, marks=[] if name in _USUAL.split() else pytest.mark.sweep) for name in TWINS]
ELSEWHERE = dict.fromkeys(("libnvfatbin-static", "libnvjitlink-static"), "win-64")
ELSEWHERE |= dict.fromkeys(("libcudla", "libcudla-dev"), "linux-aarch64")
# Of the releases in `RELEASES` only the newest has them; with the next one there is an older toolkit as well.
RECENT = {"cuda-cuobjdump", "cuda-nvdisasm", "cuda-tileiras", "libcudla", "libcudla-dev"}
NEXT = "13.5"
# They hold no files and want one version of each package that they bring: each of these holds their range as well.
_GROUPS = """
cuda cuda-command-line-tools cuda-compiler cuda-libraries cuda-libraries-dev cuda-libraries-static cuda-minimal-build
cuda-runtime cuda-toolkit cuda-tools
"""
GROUPS = set(_GROUPS.split())
WITH_FILES = ("cuda-nvcc-tools", "cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools", "libnvjitlink")
# What a package that is built with these gets, where they state it: cuda-version.
EXPORTING = ("cuda-crt-dev_linux-64", "cuda-nvcc-dev_linux-64", "cuda-nvcc-impl", "cuda-nvcc_linux-64")


@pytest.fixture(scope="module")
def gateway() -> Gateway:
    return Gateway()


def worlds(project: Workspace, folder: Path, gateway: Gateway, minors: Sequence[str] = RELEASES) -> Worlds:
    """Of this checkout's recipes and some releases."""
    locks = [lock for lock in release_locks(project).values() if not lock.is_ctk or lock.minor in minors]
    request = Request(releases=list(minors))
    content = planned(plan(published_set(project), request, python_tags(project.build_config)))
    return Worlds(content, facts(locks), folder, gateway)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For hundreds of worlds, which nobody needs any more when the tests are done."""
    made = tmp_path_factory.mktemp("worlds")
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def channel(project: Workspace, folder: Path, gateway: Gateway) -> Worlds:
    """The channel as it is."""
    return worlds(project, folder / "channel", gateway)


@pytest.fixture(scope="module")
def with_a_gap(project: Workspace, folder: Path, gateway: Gateway) -> Worlds:
    """The channel without 13.0: a driver for 13.0 has CUDA 13, but its newest native toolkit is one of CUDA 12."""
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
    """One package, and a machine where an older toolkit of it is right though a newer one could be installed."""

    pattern: str  # matches its name only
    made: Worlds  # of which worlds the scenarios are
    asked: Ask  # it alone, on that machine
    pinned: Ask  # it alone, without a driver, pinned to its oldest toolkit
    newest: str  # its newest toolkit
    right: str  # what is right on that machine

    def is_in(self, templates: set[str]) -> bool:
        return template(self.asked.question.request) in templates

    @property
    def subdirs(self) -> list[str]:
        return [self.asked.question.subdir]

    def fault(self, asked: Ask, *changes: Change) -> str:
        return self.made.without(*changes, subdirs=self.subdirs).fault(asked)

    @property
    def others(self) -> Change:
        """Loosens what it wants of other packages of two builds, so that only its own tie is left.

        It keeps the version of numba-cuda-mlir: cccl-python takes an older one than the newest, for every toolkit.
        """
        return self._loosened(r"(?:(?<=numba-cuda-mlir) \S+|)")

    @property
    def other_builds(self) -> Change:
        """As `others`, and the versions stay as they are."""
        return self._loosened(r" \S+")

    def _loosened(self, kept: str) -> Change:
        ours = "|".join(re.escape(name.replace("<subdir>", self.subdirs[0])) for name in TWINS)
        return take_out(self.pattern, "depends", rf"^(({ours}){kept}) .*", r"\1")


def allows(record: Record, minor: str) -> bool:
    """Whether a package of two builds can be with a toolkit."""
    found = tie(record)
    return bool(found) and version(found["lower"]) <= version(minor) < version(found["upper"])


@pytest.fixture(params=SWEPT)
def twin(request: pytest.FixtureRequest, channel: Worlds, with_a_gap: Worlds, with_the_next: Worlds) -> Twin:
    subdir = ELSEWHERE.get(request.param, "linux-64")
    name = request.param.replace("<subdir>", subdir)
    like = "" if name in PYTHON_REQUESTS else "cuda-nvrtc"

    def toolkits(made: Worlds) -> list[str]:
        here = [record for record in made.states.values() if record["subdir"] in (subdir, "noarch")]
        minors = [t.minor for t in made.facts.toolkits]  # there may be packages of others: 12.3's that serve 12.0
        return sorted(set(toolkits_of(here, name)).intersection(minors) if like else minors, key=version)

    if request.param in RECENT:
        channel = with_a_gap = with_the_next
    assert toolkits(with_a_gap), f"{name} does not exist in two builds"
    *older, newest = toolkits(with_a_gap)
    # A driver for X.0, and no X.0 in the channel: then not even a package that spans its major has a native build.
    made, driver = (with_a_gap, f"{newest.split('.')[0]}.0") if older else (channel, toolkits(channel)[-2])
    if older and older[-1].split(".")[0] == newest.split(".")[0]:
        made, driver = channel, older[-1]
    oldest, right = toolkits(made)[0], toolkits(made)[-2]
    on_machine, pinned = Question(name, subdir, driver, "9.0"), Question(name, subdir, pin=oldest)
    return Twin(re.escape(name), made, Ask(on_machine, like=like), Ask(pinned, like=like), newest, right)


def test_without_its_feature_the_compat_build_of_a_newer_toolkit_comes_first(twin: Twin) -> None:
    assert twin.fault(twin.asked) == ""
    without = twin.fault(twin.asked, take_out(twin.pattern, "track_features"))
    assert without == f"toolkit {twin.newest} compat, not {twin.right} native"


def test_without_its_fit_the_native_build_of_a_newer_toolkit_comes_first(twin: Twin) -> None:
    wrong = f"toolkit {twin.newest} compat, not {twin.right} native"
    untied = take_out(twin.pattern, "depends", FIT, ANY_FIT, of="native")
    assert twin.fault(twin.asked) == ""
    if not twin.is_in(FIT_HELD_TWICE):
        assert twin.fault(twin.asked, untied) == wrong
        return
    assert twin.fault(twin.asked, untied) == ""
    assert twin.fault(twin.asked, twin.other_builds) == ""
    assert twin.fault(twin.asked, twin.other_builds, untied) == wrong


def test_without_its_fit_a_compat_build_goes_with_the_native_toolkit(twin: Twin) -> None:
    """Nobody would pick it: this is about an environment where one build was asked for by its name."""
    name, driver = twin.asked.question.request, twin.asked.question.driver
    compat = max(
        (r for r in twin.made.states.values() if (r["name"], fit(r)) == (name, "compat") and allows(r, twin.right)),
        key=lambda r: (r["subdir"] in twin.subdirs, r["build_number"]),
    )
    build = f"{name}[version={compat['version']},build={compat['build']}]"
    mixed = Ask(twin.asked.question, (build, f"cuda-version {twin.right}.* native_*"), refused=True)
    untied = take_out(twin.pattern, "depends", FIT, ANY_FIT, of="compat")
    pinned = any(re.search(r" ==\S+ h", spec) and "-files " not in spec for spec in compat["depends"])
    assert not pinned or twin.is_in(FIT_HELD_TWICE)
    held_twice = [twin.other_builds] if pinned else []
    assert driver and twin.fault(mixed, *held_twice) == ""
    assert twin.fault(mixed, *held_twice, untied) == MUST_REFUSE
    if held_twice:
        assert twin.fault(mixed, untied) == ""


def test_without_its_range_a_package_of_a_newer_toolkit_goes_with_an_older_one(twin: Twin) -> None:
    wrong = r".* is of CUDA 13 compat: builds are mixed|\S+ wants cuda-version >=.*|\S+ \S+ is not of toolkit .*"
    untied = take_out(twin.pattern, "depends", RANGE, ANY_VERSION)
    assert twin.fault(twin.pinned) == ""
    if not twin.is_in(RANGE_HELD_TWICE | GROUPS):
        assert re.fullmatch(wrong, twin.fault(twin.pinned, untied))
        return
    assert twin.fault(twin.pinned, untied) == ""
    if twin.is_in(GROUPS):
        return
    assert twin.fault(twin.pinned, twin.others) == ""
    assert re.fullmatch(wrong, twin.fault(twin.pinned, twin.others, untied))


def test_what_a_package_needs_is_missed(twin: Twin) -> None:
    """Each dependency on a package of this channel, unless another package of the pick brings it as well."""
    name = twin.asked.question.request
    newest = Ask(Question(name, twin.asked.question.subdir), like=twin.asked.like)
    for needed in sorted(needs(twin.made.without(subdirs=twin.subdirs), newest, name) - {"cuda-version"}):
        if needed not in {record["name"] for record in twin.made.states.values()}:
            continue
        less = twin.made.without(take_out(twin.pattern, "depends", rf"^{needed}( |$)"), subdirs=twin.subdirs)
        # `ctk verify` itself misses what a request is of no use without; the rest is found by reading every dependency.
        missed = re.match(rf"{twin.pattern} needs {needed}[ ,]|\S+ is not there$", less.fault(newest))
        assert bool(missed) == (needed not in needs(less, newest)), needed


def needs(world: World, asked: Ask, package: str = "") -> set[str]:
    """The names of all that one package of a pick depends on, or all packages together."""
    pick = world.pick(asked.scenario)
    assert pick
    return {spec.split()[0] for r in pick.records if package in ("", r.name.normalized) for spec in r.depends}


@pytest.mark.parametrize("package", WITH_FILES)
def test_without_its_exact_pin_a_package_has_the_files_of_another_toolkit(package: str, channel: Worlds) -> None:
    """The tie of the files holds them, too: both have to go."""
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
    """Of the members that may be newer than the toolkit; the others hold themselves."""
    group = "cuda-libraries"
    asked = Ask(Question(group, "linux-64", pin=toolkit), like="cuda-nvrtc")
    fault = channel.without(take_out(group, "depends", rf"^{member} .*", member)).fault(asked)
    assert channel.without().fault(asked) == ""
    assert re.match(rf"{group} wants {member} =={own}\S*, but {newer}\.", fault)


@pytest.mark.parametrize("package", EXPORTING)
def test_without_its_run_export_a_program_runs_with_an_older_toolkit(package: str, channel: Worlds) -> None:
    """What nvcc 13.4 compiled has 13.4's PTX; where nothing native is left, cubin is what runs."""

    def picked(*changes: Change) -> str:
        content, _ = changed(channel.content, changes, ["linux-64"])
        made = next(r for r in records(content) if r["name"] == package and r["version"].startswith("13.4."))
        pick = channel.without().pick(ask("cuda-cudart", "13.0", "9.0", *made["run_exports"]["strong"]).scenario)
        return f"{pick.toolkit} {pick.fit}" if pick else ""

    assert picked() == "13.4 compat"
    assert picked(take_out(package, "run_exports", "^cuda-version ")) == "13.0 native"


# ---- that nothing is forgotten

EVERY = "|".join(re.escape(name).replace("<subdir>", "\\S+") for name in TWINS)
EXPORTS = "|".join(name.replace("linux-64", r"\S+") for name in EXPORTING)
HELD = [
    PATHFINDER,
    take_out(EVERY, "depends", r"^cuda-version .* (native|compat)_\*$"),
    take_out(EVERY, "track_features"),
    take_out(EXPORTS, "run_exports", "^cuda-version "),
    take_out(".*-files", "depends", "^cuda-version "),  # with the exact pin, above
]


def test_every_statement_that_picks_rest_on_has_gone_wrong_without(channel: Worlds) -> None:
    """A new kind of statement about CUDA's version, a driver, a GPU or a feature needs a scenario above."""
    stated = {kind for record in records(channel.content) for kind in kinds(record)}
    decisive = {
        kind
        for kind in stated
        if kind.field == "track_features" or re.match(r"(cuda-version|__cuda|__cuda_arch)( |$)", kind.shape)
    }
    # What takes out all features at once shows nothing about a new one.
    named = [change for case in CASES for change in case.changes if change is not NO_FEATURES]
    gone = {kind for change in [*HELD, *named] for kind in changed(channel.content, [change], list(PLATFORMS))[1]}
    assert sorted(decisive - gone) == []
    assert {template(r["name"]) for r in records(channel.content) if fit(r)} == {*TWINS, "cuda-version"}


# ---- why there are two builds of everything, and not of cuda-version alone


def test_one_build_of_each_package_is_not_enough(channel: Worlds) -> None:
    """conda-forge's shape with two builds of cuda-version: a solver takes the newest package, and then its toolkit."""

    def single(record: Record) -> None:
        if record["name"] != "cuda-version" and fit(record) == "compat":
            record.clear()
        else:
            record["depends"] = [re.sub(FIT, ANY_FIT, spec) for spec in record["depends"]]

    less = channel.without(single)
    for request in ("cuda-nvrtc", "cuda-bindings", "numba-cuda", "cuda-nvcc"):
        asked = ask(request, "13.0", "9.0")
        assert channel.without().fault(asked) == ""
        assert less.fault(asked) == "toolkit 13.4 compat, not 13.0 native", request


def test_one_build_of_cuda_version_loads_its_ptx_on_few_machines(channel: Worlds) -> None:
    """conda-forge's rule: cuda-version constrains the driver's major, and nothing else is said of driver and GPU."""

    def conda_forges(record: Record) -> None:
        if fit(record) == "compat":
            record.clear()
        elif record["name"] == "cuda-version":
            record.update(depends=[], constrains=[f"__cuda >={record['version'].split('.')[0]}"])
        else:
            record["depends"] = [re.sub(FIT, ANY_FIT, spec) for spec in record["depends"]]

    toolkits = {toolkit.minor: toolkit for toolkit in channel.facts.toolkits}
    everything = matrix(channel.facts, pythons())
    drivers = [driver for driver in everything.drivers if driver and version(driver) >= (12, 0)][:-1]
    gpus = [gpu for gpu in everything.gpus if gpu][:-1]  # the last of both is newer than what is known
    asked = [ask("cuda-core", driver, gpu) for driver in drivers for gpu in gpus]
    solvable = [a for a in asked if expected(channel.facts, a.question).toolkit]
    possible = [a for a in solvable if any(loads(toolkit, a.question) for toolkit in toolkits.values())]

    def loading(world: World) -> list[Ask]:
        picks = {a: world.pick(a.scenario) for a in solvable}
        return [a for a, pick in picks.items() if pick and loads(toolkits[pick.toolkit], a.question)]

    ours, theirs = loading(channel.without()), loading(channel.without(conda_forges))
    assert ours == possible
    words = f"{len(theirs)} of {len(possible)} machines where a toolkit of the channel can, {len(solvable)} in all"
    print(f"with one build of cuda-version, PTX loads on {words}")
    assert len(solvable) > 200
    assert len(theirs) < 0.5 * len(possible), words


def loads(toolkit: Toolkit, question: Question) -> bool:
    """Whether the toolkit's NVRTC knows the GPU, and the driver loads the PTX that it writes."""
    driver, gpu = version(question.driver or ""), version(question.arch or "")
    return version(toolkit.minor) <= driver and gpu in map(version, toolkit.architectures)
