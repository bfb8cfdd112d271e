"""Properties for every set of releases: of the oracle, and of a solver with the packages that the recipes would make.

Most picks follow from one order: the native toolkits of a machine, newest first, then the compatible toolkits. So most
properties are about native picks; each test also says what is true for compat picks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negative_cases import RELEASES
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH
from ctk.lock.model import ReleaseLock, release_locks, variant_config
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags
from ctk.solve.channels import Repodata, pythons
from ctk.verify.oracle import (
    PYTHON_REQUESTS,
    REQUESTS,
    Expected,
    OracleFacts,
    Question,
    Toolkit,
    expected,
    expected_ignoring,
    version,
)
from ctk.verify.scenarios import facts, matrix
from kit.worlds import Ask, World, Worlds, violations

Scene = tuple[OracleFacts, Question]

SUBDIRS = ("linux-64", "linux-aarch64", "win-64", "win-arm64")
MINORS = [*(f"12.{n}" for n in range(11)), *(f"13.{n}" for n in range(7)), "14.0", "14.1"]
GPUS = ["5.0", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1", "13.0", "14.2"]
TAGS = ["cp311", "cp312", "cp313", "cp314", "cp314t"]


# ---- the oracle


# Where something is published: everywhere, mostly.
EVERYWHERE = frozenset(SUBDIRS)
PLACES = [EVERYWHERE, EVERYWHERE, EVERYWHERE, EVERYWHERE - {"win-arm64"}, frozenset({"linux-64", "win-64"})]


@st.composite
def known(draw: st.DrawFn) -> OracleFacts:
    """Any releases; a newer release can drop old GPUs and know new GPUs, never the other way round."""
    minors = sorted(draw(st.sets(st.sampled_from(MINORS), min_size=2, max_size=6)), key=version)
    ends = st.lists(st.integers(0, len(GPUS) - 2), min_size=len(minors), max_size=len(minors)).map(sorted)
    oldest, newest = draw(ends), draw(ends)
    toolkits = []
    for minor, low, high in zip(minors, oldest, newest, strict=True):
        where = draw(st.sampled_from(PLACES))
        published = dict.fromkeys(("nvrtc", "nvvm", "cudart", "crt"), where)
        if version(minor) >= (13,):
            published["compiler"] = where & draw(st.sampled_from(PLACES))
        toolkits.append(Toolkit(minor, tuple(GPUS[low : max(low, high) + 1]), published))
    sets = {}
    for major in draw(st.sampled_from([("12", "13"), ("12", "13", "14"), ("13",)])):
        tags = TAGS[draw(st.integers(0, 2)) : draw(st.integers(3, len(TAGS)))]
        where = draw(st.sampled_from(PLACES))
        targets = frozenset(f"{subdir}-{tag}" for subdir in where for tag in tags)
        numba = frozenset(target for target in targets if not target.endswith("t"))
        projects = {"cuda-bindings": targets, "cuda-core": targets, "numba-cuda": numba}
        projects |= {"numba-cuda-mlir": targets, "cuda-cccl": numba}
        sets[major] = {**projects, "cuda-python": frozenset({NOARCH})}
    return OracleFacts(tuple(draw(st.permutations(toolkits))), sets)


@st.composite
def asked(draw: st.DrawFn, anyone: bool = True) -> tuple[OracleFacts, Question]:
    """Releases, and a request on a machine; the machine has a driver, unless `anyone`."""
    releases = draw(known())
    minors = [toolkit.minor for toolkit in releases.toolkits]
    drivers = st.sampled_from(minors) | st.sampled_from(["11.8", *MINORS, "14.2"])
    driver = draw(drivers | st.none() if anyone else drivers)
    gpu = draw(st.none() | st.sampled_from(GPUS)) if driver else None
    python = draw(st.sampled_from([None, None, "3.13", "3.14", "3.14t"]))
    pin = draw(st.sampled_from([None, None, None, "12", "13", *minors]))
    return releases, Question(draw(st.sampled_from(REQUESTS)), draw(st.sampled_from(SUBDIRS)), driver, gpu, python, pin)


def newness(pick: Expected) -> tuple[int, ...]:
    """The version of a pick's toolkit, for comparisons; a refusal is older than every toolkit."""
    return version(pick.toolkit) if pick.toolkit else ()


@given(asked(anyone=False), st.sampled_from(MINORS))
def test_a_newer_driver_never_yields_an_older_toolkit(scene: Scene, other: str) -> None:
    """True from a native pick to any pick, and from a compat pick to another.

    A native pick can be older than a compat pick: the older driver had no native toolkit, and got the newest of its
    major. But the native toolkit is always newer than the toolkits that the older driver loads.
    """
    releases, question = scene
    old, new = sorted((question.driver or "", other), key=version)
    before, after = (expected(releases, replace(question, driver=driver)) for driver in (old, new))
    if before.toolkit:
        assert after.toolkit
    if before.fit == "native":
        assert after.fit == "native"
    if before.fit == after.fit or before.fit == "native":
        assert newness(after) >= newness(before)
    if (before.fit, after.fit) == ("compat", "native") and old != new:
        assert version(after.toolkit) > version(old)


@given(asked(anyone=False), st.sampled_from(GPUS))
def test_a_newer_gpu_never_yields_an_older_toolkit(scene: Scene, other: str) -> None:
    """True from a native pick to any pick, and from a compat pick to another."""
    releases, question = scene
    old, new = sorted((question.arch or GPUS[0], other), key=version)
    before, after = (expected(releases, replace(question, arch=gpu)) for gpu in (old, new))
    if before.fit == "native" or before.fit == after.fit:
        assert newness(after) >= newness(before)


@given(asked(), st.integers(-1, 5))
def test_adding_a_release_changes_no_native_pick_of_an_older_driver(scene: Scene, added: int) -> None:
    """It also changes no pick of a driver of an older CUDA major.

    It can change the compat picks of drivers of its own or a newer major, and of machines without a driver, which get
    the newest toolkit. A changed pick is always the added release.
    """
    releases, question = scene
    in_order = sorted(releases.toolkits, key=lambda t: version(t.minor))
    new = in_order[added] if added < len(in_order) else in_order[-1]
    before = expected(replace(releases, toolkits=tuple(t for t in releases.toolkits if t != new)), question)
    after = expected(releases, question)
    older = question.driver is not None and version(question.driver) < version(new.minor)
    older_major = question.driver is not None and version(question.driver)[0] < version(new.major)[0]
    if older_major or (older and before.fit == "native"):
        assert replace(after, cause=None) == replace(before, cause=None)
    assert after.toolkit in (before.toolkit, new.minor)


@given(asked(), st.integers(0, 5))
def test_a_release_that_learns_newer_gpus_changes_nothing_for_the_older(scene: Scene, learning: int) -> None:
    releases, question = scene
    toolkit = releases.toolkits[learning % len(releases.toolkits)]
    learned = replace(toolkit, architectures=tuple(dict.fromkeys((*toolkit.architectures, *GPUS[-2:]))))
    later = replace(releases, toolkits=tuple(learned if t == toolkit else t for t in releases.toolkits))
    if question.arch not in GPUS[-2:]:
        assert expected(later, question) == expected(releases, question)


@given(asked())
def test_a_pin_is_honoured_and_the_picks_own_toolkit_as_a_pin_gives_the_same_pick(scene: Scene) -> None:
    releases, question = scene
    pick = expected(releases, question)
    if pick.toolkit:
        assert question.pin in (None, pick.toolkit, pick.major)
        assert expected(releases, replace(question, pin=pick.toolkit)) == pick
    if pick.toolkit and question.pin in (None, pick.major):
        assert expected(releases, replace(question, pin=pick.major)) == pick


@given(asked())
def test_native_is_picked_where_it_can_be_and_never_without_a_driver(scene: Scene) -> None:
    releases, question = scene
    pick = expected(releases, question)
    by_pin = [expected(releases, replace(question, pin=t.minor)) for t in releases.toolkits]
    allowed = [p for p in by_pin if p.toolkit and question.pin in (None, p.toolkit, p.major)]
    assert pick.fit != "native" or question.driver
    best = [p for p in allowed if p.fit == "native"] or allowed
    assert pick.toolkit == max(best, key=newness, default=Expected()).toolkit
    without = expected(releases, replace(question, driver=None, arch=None))
    assert newness(without) >= newness(pick)


@given(asked())
def test_a_request_for_a_python_is_honoured_and_the_gil_is_the_default(scene: Scene) -> None:
    releases, question = scene
    pick = expected(releases, question)
    if pick.toolkit and question.request in PYTHON_REQUESTS:
        wanted = f"cp{question.python.replace('.', '')}" if question.python else pick.python
        assert pick.python == wanted
        assert question.python or not pick.python.endswith("t")


@given(asked(anyone=False))
def test_a_client_that_ignores_constraints_keeps_the_drivers_side(scene: Scene) -> None:
    """If a toolkit is not newer than the driver; such a client loses only the rule about the GPU."""
    releases, question = scene
    unseen = replace(question, arch=None)
    if expected(releases, unseen).fit == "native":
        assert expected_ignoring(releases, question) == expected(releases, unseen)


# ---- a solver, with what the recipes make of other releases

HERE = "linux-64"
# Releases that do not exist: minor -> the one that each is made from, its cuFile, and the GPUs that its NVRTC knows.
INVENTED = {
    "12.3": ("12.6", "1.8", ("5.0", "7.0", "8.0", "9.0")),
    "13.2": ("13.0", "1.17", ("7.5", "8.0", "9.0", "10.0", "12.1")),
    "13.5": ("13.4", "1.20", ("7.5", "9.0", "10.0", "12.1", "13.0")),
    "14.0": ("13.4", "1.21", ("9.0", "10.0", "12.1", "13.0")),
}


def invented(lock: ReleaseLock, minor: str, cufile: str, gpus: tuple[str, ...]) -> ReleaseLock:
    """A release lock made from another lock, with other versions, in the order of the minors, and other GPUs."""
    components = {}
    for name, component in lock.components.items():
        version = f"{cufile if name == 'cufile' else minor}.99"
        artefacts = {t: replace(a, version=version) if a else None for t, a in component.artefacts.items()}
        components[name] = replace(component, version=version, artefacts=artefacts)
    assert lock.facts
    return replace(lock, release=f"{minor}.0", components=components, facts=replace(lock.facts, gpu_architectures=gpus))


def merged(parts: Iterable[Repodata]) -> Repodata:
    """The repodata of several plans, merged."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for subdir, content in part.items():
            known = found.setdefault(subdir, {**content, "packages.conda": {}})
            known["packages.conda"].update(content["packages.conda"])
    return found


class Channels:
    """Channels of any releases, real or invented, as the real recipes would make them.

    Args:
        workspace: The checkout with the recipes and the release locks.
        folder: The folder for the channels.
    """

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        published = published_set(workspace)
        what = replace(
            published,
            locks={n: entry for n, entry in published.locks.items() if entry[0].minor in ("", *RELEASES)},
        )
        real, locks = {lock.minor: lock for lock, _ in what.locks.values()}, dict(what.locks)
        for minor, (like, *facts_of) in INVENTED.items():
            lock = invented(real[like], minor, *facts_of)
            file = folder / f"{lock.name}.yaml"
            file.write_text(variant_config(lock), encoding="utf-8")
            locks[lock.name] = (lock, file)
        self.locks = {name: lock for name, (lock, _) in locks.items()}
        # The older ones bring libnvfatbin of 12.4 along, and libnvjitlink of 12.3, which is an invented one here.
        bringing = {**locks, "cuda-12.4": published.locks["cuda-12.4"]}
        everything, tags = replace(what, locks=bringing), python_tags(workspace.build_config)
        self.parts = {
            name: planned_repodata(plan(everything, Request(releases=[name], platforms=[HERE]), tags)) for name in locks
        }
        self._worlds = Worlds(merged(self.parts.values()), facts(self.locks.values()), folder, Gateway())
        self._made: dict[tuple[tuple[str, ...], int], World] = {}

    def of(self, minors: Sequence[str], seed: int = 0) -> World:
        """The channel of some releases, with the Python projects for both CUDA majors, built in any order.

        Args:
            minors: Of the releases.
            seed: Decides when each package was built.
        """
        names = tuple(name for name, lock in self.locks.items() if not lock.is_ctk or lock.minor in minors)
        if (names, seed) not in self._made:
            content, when = merged(self.parts[name] for name in names), Random(seed)
            for part in content.values():
                for file, record in part["packages.conda"].items():
                    part["packages.conda"][file] = {**record, "timestamp": 1_700_000_000_000 + when.randrange(10**9)}
            self._made[names, seed] = self._worlds.of(content, facts(self.locks[name] for name in names))
        return self._made[names, seed]


@pytest.fixture(scope="module")
def channels(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Channels]:
    folder = tmp_path_factory.mktemp("channels")
    yield Channels(project, folder)
    shutil.rmtree(folder)


CTK = [*RELEASES, *INVENTED]
sets = (
    st.sets(st.sampled_from(CTK), min_size=1, max_size=6)
    .map(lambda minors: tuple(sorted(minors, key=version)))
    .filter(lambda minors: usable(minors))
)
DRIVERS = ["11.8", *(f"12.{n}" for n in range(10)), *(f"13.{n}" for n in range(7)), "14.0", "14.1"]
KNOWN_GPUS = ["5.0", "7.0", "7.5", "9.0", "10.0", "12.1", "13.0", "14.2"]


@st.composite
def machines(draw: st.DrawFn) -> Question:
    """A request on any machine of the platform."""
    driver = draw(st.none() | st.sampled_from(DRIVERS))
    gpu = draw(st.none() | st.sampled_from(KNOWN_GPUS)) if driver else None
    pin = draw(st.sampled_from([None, None, None, "12", "13", "14", *CTK]))
    python = draw(st.sampled_from([None, None, "3.12", "3.14t"]))
    return Question(draw(st.sampled_from(REQUESTS)), HERE, driver, gpu, python, pin)


def usable(minors: Sequence[str]) -> bool:
    """Whether 12.0 is not alone in its major: then no libnvjitlink would work with cuda-bindings, nor libnvfatbin.

    The oracle does not know that, because nobody would publish such a set of releases.
    """
    return "12.0" not in minors or any(minor.startswith("12.") for minor in minors if minor != "12.0")


@given(minors=sets, seed=st.integers(0, 99), questions=st.lists(machines(), min_size=12, max_size=12))
def test_a_solver_picks_what_is_right_from_any_releases_built_in_any_order(
    channels: Channels, minors: tuple[str, ...], seed: int, questions: list[Question]
) -> None:
    """The pick is the oracle's, with its pin and Python, without another CUDA major, and obeys all dependencies."""
    world = channels.of(minors, seed)
    for question in questions:
        assert world.fault(Ask(question)) == "", question


@pytest.mark.sweep
def test_no_pick_of_the_matrix_violates_a_constraint(project: Workspace, tmp_path: Path) -> None:
    """A sample of the real matrix, on every platform: the check reads match specs, and uses no solver."""
    everything = matrix(facts(release_locks(project).values()), pythons())
    content = planned_repodata(plan(published_set(project), Request(), python_tags(project.build_config)))
    worlds = Worlds(content, everything.facts, tmp_path, Gateway())
    world, solved = worlds.without(subdirs=everything.subdirs), 0
    for question in everything.sample(600, seed=7):
        if pick := world.pick(Ask(question).scenario):
            solved += 1
            assert list(violations(pick, worlds.states)) == [], question
    assert solved > 150
