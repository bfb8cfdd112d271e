"""Questions that leave a solver the same candidates are one, and get the pick of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from ctk.solve import solve as solving
from ctk.solve.candidates import CandidateClasses
from ctk.solve.solve import Catalogue, Scenario
from kit.small_channel import TOOLKITS, base, channel, record, write

NAMES = ("cuda-core", "cuda-nvcc", "cuda-version")
DRIVERS = (None, "11.8", "12.0", "12.8", "12.9", "13.0", "13.1", "13.4", "99.0")
GPUS = (None, "5.0", "7.0", "7.5", "9.0", "10.3", "10.7", "12.1", "13.0")
PINS = (
    (),
    ("cuda-version=12",),
    ("cuda-version=13.0",),
    ("cuda-version=12", "cuda-version=12.9"),
    ("cuda-version=12.9", "cuda-version=13.0"),
    ("cuda-version=12.0=native_*",),
    ("cuda-version=13", "cuda-version=13.4=native_*"),
    ("python=3.13",),
    ("__cuda >=13",),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    place = tmp_path_factory.mktemp("channels")
    return write(place / "channel", channel()), write(place / "base", base())


@pytest.fixture
def grouped(folders: Sequence[Path]) -> Catalogue:
    return Catalogue(folders, "linux-64").grouped(NAMES, CandidateClasses)


def on(driver: str | None, gpu: str | None, *specs: str) -> Scenario:
    return Scenario(specs, "linux-64", driver, gpu)


@pytest.mark.parametrize("name", NAMES)
def test_a_pick_of_a_class_is_that_of_the_question_alone(
    name: str, folders: Sequence[Path], grouped: Catalogue
) -> None:
    alone = Catalogue(folders, "linux-64")
    asked = [on(*each, name, *pins) for *each, pins in product(DRIVERS, GPUS, PINS)]
    alone.ask(asked)
    grouped.ask(asked)
    for scenario in asked:
        assert grouped.pick(scenario) == alone.pick(scenario), scenario
    assert len({grouped.key(scenario) for scenario in asked}) < len(asked) / 4


def test_pins_that_leave_the_same_toolkits_are_one_question(grouped: Catalogue) -> None:
    key = grouped.key(on("13.4", "9.0", "cuda-core", "cuda-version=12.9=native_*"))
    for pins in (
        ("cuda-version=12", "cuda-version=12.9=native_*"),
        ("cuda-version=12.9", "cuda-version=*=native_*"),
    ):
        assert grouped.key(on("13.4", "9.0", "cuda-core", *pins)) == key
    for pins in (
        ("cuda-version=12.9",),
        ("cuda-version=12.9=compat_*",),
        ("cuda-version=12.9=native_*", "python=3.13"),
    ):
        assert grouped.key(on("13.4", "9.0", "cuda-core", *pins)) != key
    bare = grouped.key(on("13.4", "9.0", "cuda-core"))
    # Without the name of the toolkit, a solver may do without it.
    assert grouped.key(on("13.4", "9.0", "cuda-core", "cuda-version")) != bare


def test_machines_that_can_have_the_same_toolkits_are_one(grouped: Catalogue) -> None:
    def key(driver: str | None, gpu: str | None, *pins: str) -> object:
        return grouped.key(on(driver, gpu, "cuda-core", *pins))

    assert key("13.1", "9.0") == key("13.0", "8.6") == key("13.3", "7.5")
    assert key("13.1", "9.0") != key("12.9", "9.0") != key("12.8", "9.0")
    assert key("13.1", "9.0") == key("13.1", None) != key(None, None)
    # Only the newest toolkit knows this GPU, and the pin leaves an older one.
    assert key("13.4", "9.0", "cuda-version=13.4") == key("13.4", "10.7", "cuda-version=13.4")
    assert key("13.4", "9.0", "cuda-version=13.0") != key("13.4", "10.7", "cuda-version=13.0")
    assert key("99.0", "9.0", "cuda-version=13.0") == key("13.0", "9.0", "cuda-version=13.0")


def test_a_package_whose_rules_are_not_known_is_asked_for_on_each_machine(
    folders: Sequence[Path],
) -> None:
    grouped = Catalogue(folders, "linux-64").grouped(["only-linux"], CandidateClasses)
    alone = Catalogue(folders, "linux-64")
    for driver in DRIVERS:
        assert grouped.pick(on(driver, None, "cuda-nvcc")) == alone.pick(
            on(driver, None, "cuda-nvcc")
        )


@pytest.mark.parametrize("rule", ["__cuda", "__cuda >=13.1", "__cuda >=13.1 0", "__cuda>=13.1"])
def test_a_rule_of_a_package_that_the_request_does_not_reach_tells_no_machines_apart(
    rule: str, tmp_path: Path
) -> None:
    picky = record("picky", "1.0", "h_0", "linux-64", depends=[rule])
    plain = record("plain", "1.0", "h_0", "linux-64")
    folders = [write(tmp_path / "channel", iter([picky, plain])), write(tmp_path / "base", base())]
    grouped = Catalogue(folders, "linux-64").grouped(["picky", "plain"], CandidateClasses)
    alone = Catalogue(folders, "linux-64")
    for name, driver in product(("picky", "plain"), DRIVERS):
        scenario = on(driver, None, name)
        assert grouped.solves(scenario) == alone.solves(scenario), scenario
    assert grouped.key(on(None, None, "picky")) != grouped.key(on("13.4", None, "picky"))
    if not rule.endswith(" 0"):  # else what it asks for is not known here, so machines stay apart
        assert grouped.key(on(None, None, "plain")) == grouped.key(on("13.4", None, "plain"))


def test_each_class_is_solved_once(grouped: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[Scenario] = []
    solve = solving._solve
    monkeypatch.setattr(
        solving, "_solve", lambda scenario, *rest: solved.append(scenario) or solve(scenario, *rest)
    )
    for driver, version in product(("13.4", "99.0"), TOOLKITS):
        assert grouped.solves(on(driver, "9.0", "cuda-core", f"cuda-version={version}"))
    assert len(solved) == len(TOOLKITS)
