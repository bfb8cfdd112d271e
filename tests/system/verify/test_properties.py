"""A solver picks what is right from any set of releases, with the packages that the recipes would
make.
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
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.lock.model import ReleaseLock, variant_config
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags
from ctk.solve.channels import Repodata
from ctk.verify.oracle import REQUESTS, Question, version
from ctk.verify.scenarios import facts
from kit.negative_cases import RELEASES
from kit.worlds import Ask, World, Worlds

HERE = "linux-64"
# Releases that do not exist: minor -> the one that each is made from, its cuFile, and the GPUs that
# its NVRTC knows.
INVENTED = {
    "12.3": ("12.6", "1.8", ("5.0", "7.0", "8.0", "9.0")),
    "13.2": ("13.0", "1.17", ("7.5", "8.0", "9.0", "10.0", "12.1")),
    "13.5": ("13.4", "1.20", ("7.5", "9.0", "10.0", "12.1", "13.0")),
    "14.0": ("13.4", "1.21", ("9.0", "10.0", "12.1", "13.0")),
}


def invented(lock: ReleaseLock, minor: str, cufile: str, gpus: tuple[str, ...]) -> ReleaseLock:
    """A release lock made from another lock, with other versions, in the order of the minors, and
    other GPUs.
    """
    components = {}
    for name, component in lock.components.items():
        version = f"{cufile if name == 'cufile' else minor}.99"
        artefacts = {
            t: replace(a, version=version) if a else None for t, a in component.artefacts.items()
        }
        components[name] = replace(component, version=version, artefacts=artefacts)
    assert lock.facts
    return replace(
        lock,
        release=f"{minor}.0",
        components=components,
        facts=replace(lock.facts, gpu_architectures=gpus),
    )


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
            locks={
                n: entry
                for n, entry in published.locks.items()
                if entry[0].minor in ("", *RELEASES)
            },
        )
        real, locks = {lock.minor: lock for lock, _ in what.locks.values()}, dict(what.locks)
        for minor, (like, *facts_of) in INVENTED.items():
            lock = invented(real[like], minor, *facts_of)
            file = folder / f"{lock.name}.yaml"
            file.write_text(variant_config(lock), encoding="utf-8")
            locks[lock.name] = (lock, file)
        self.locks = {name: lock for name, (lock, _) in locks.items()}
        # The older ones bring libnvfatbin of 12.4 along, and libnvjitlink of 12.3, which is an
        # invented one here.
        bringing = {**locks, "cuda-12.4": published.locks["cuda-12.4"]}
        everything, tags = replace(what, locks=bringing), python_tags(workspace.build_config)
        self.parts = {
            name: planned_repodata(
                plan(everything, Request(releases=[name], platforms=[HERE]), tags)
            )
            for name in locks
        }
        self._worlds = Worlds(
            merged(self.parts.values()), facts(self.locks.values()), folder, Gateway()
        )
        self._made: dict[tuple[tuple[str, ...], int], World] = {}

    def of(self, minors: Sequence[str], seed: int = 0) -> World:
        """The channel of some releases, with the Python projects for both CUDA majors, built in any
        order.

        Args:
            minors: Of the releases.
            seed: Decides when each package was built.
        """
        names = tuple(
            name for name, lock in self.locks.items() if not lock.is_ctk or lock.minor in minors
        )
        if (names, seed) not in self._made:
            content, when = merged(self.parts[name] for name in names), Random(seed)
            for part in content.values():
                for file, record in part["packages.conda"].items():
                    part["packages.conda"][file] = {
                        **record,
                        "timestamp": 1_700_000_000_000 + when.randrange(10**9),
                    }
            self._made[names, seed] = self._worlds.of(
                content, facts(self.locks[name] for name in names)
            )
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
    """Whether 12.0 is not alone in its major: then no libnvjitlink would work with cuda-bindings,
    nor libnvfatbin.

    The oracle does not know that, because nobody would publish such a set of releases.
    """
    return "12.0" not in minors or any(
        minor.startswith("12.") for minor in minors if minor != "12.0"
    )


@given(
    minors=sets, seed=st.integers(0, 99), questions=st.lists(machines(), min_size=12, max_size=12)
)
def test_a_solver_picks_what_is_right_from_any_releases_built_in_any_order(
    channels: Channels, minors: tuple[str, ...], seed: int, questions: list[Question]
) -> None:
    """The pick is the oracle's, with its pin and Python, without another CUDA major, and obeys all
    dependencies.
    """
    world = channels.of(minors, seed)
    for question in questions:
        assert world.fault(Ask(question)) == "", question
