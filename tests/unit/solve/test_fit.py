"""What limits a toolkit on a machine, and the kinds of reasons, as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.solve.fit import LimitedBy, fit_of, limit_on
from ctk.solve.reason import Kind
from ctk.solve.solve import Catalogue, ChannelToolkit, Pick, Scenario
from ctk.solve.why import find_reason, fit_in_words, limit_in_words, what_runs
from kit.small_channel import base, channel, pair, toolkit, write

TOOLKIT = ChannelToolkit("13.0", driver="13.0", compat_driver="12.0", gpus=("7.5", "9.0", "12.0"))


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    place = tmp_path_factory.mktemp("channels")
    places: list[Path | str] = [write(place / "channel", channel()), write(place / "base", base())]
    return Catalogue(places, "linux-64")


@pytest.mark.parametrize(
    ("driver", "gpu", "limit"),
    [
        ("13.0", "9.0", None),
        ("13.4", None, None),
        (None, None, LimitedBy.NO_DRIVER),
        ("12.9", "9.0", LimitedBy.DRIVER),
        ("12.9", None, LimitedBy.DRIVER),
        ("12.9", "10.0", LimitedBy.DRIVER_AND_GPU),
        ("13.0", "7.0", LimitedBy.GPU_OLDER),
        ("13.0", "10.0", LimitedBy.GPU_BETWEEN),
        ("13.0", "12.1", LimitedBy.GPU_NEWER),
    ],
)
def test_a_toolkit_is_limited_by_the_driver_the_gpu_or_both(
    driver: str | None, gpu: str | None, limit: LimitedBy | None
) -> None:
    assert limit_on(driver, gpu, TOOLKIT) == limit


def test_a_toolkit_that_states_no_gpus_is_limited_by_drivers_only() -> None:
    toolkit = ChannelToolkit("13.0")
    assert limit_on("13.0", "3.5", toolkit) is None
    assert limit_on("12.9", "3.5", toolkit) is LimitedBy.DRIVER


@pytest.mark.parametrize(
    ("specs", "driver", "gpu", "limit"),
    [
        ("cuda-core", "13.0", "9.0", None),
        ("cuda-version=13.4 cuda-core", "13.0", "9.0", LimitedBy.DRIVER),
        ("cuda-version=13.0=compat* cuda-core", "13.0", "9.0", LimitedBy.AS_ASKED),
        ("cuda-core", None, None, LimitedBy.NO_DRIVER),
    ],
)
def test_the_fit_of_a_pick_says_what_limits_it(
    specs: str, driver: str | None, gpu: str | None, limit: LimitedBy | None, catalogue: Catalogue
) -> None:
    machine = Scenario(tuple(specs.split()), "linux-64", driver, gpu)
    pick = catalogue.pick(machine)
    assert pick is not None
    fit = fit_of(pick, machine, catalogue.toolkit(pick.toolkit))
    assert fit is not None
    assert (fit.is_native, fit.limit) == (limit is None, limit)
    assert bool(limit_in_words(fit)) == (limit is not None)


def test_a_compat_toolkit_that_nobody_asked_for_is_not_said_to_be_asked_for(
    catalogue: Catalogue,
) -> None:
    """A package had no build for the native one, and the answer was "as asked for"."""
    asked = Scenario(("cuda-version=13.0=compat*", "cuda-core"), "linux-64", "13.0", "9.0")
    pick = catalogue.pick(asked)
    assert pick is not None
    plain = Pick(Scenario(("cuda-core",), "linux-64", "13.0", "9.0"), pick.records)
    fit = fit_of(plain, plain.scenario, catalogue.toolkit("13.0"))
    assert fit is not None and fit.limit is LimitedBy.PACKAGES
    assert "as asked for" in fit_in_words(pick, catalogue)
    words = fit_in_words(plain, catalogue)
    assert "as asked for" not in words and "add cuda-version=13.0=native_*" in words


def test_what_runs_although_the_driver_refuses_ptx_is_said(tmp_path: Path) -> None:
    names = ("numba-cuda", "cupy", "cuda-core")
    made = [r for name in names for r in pair(name, "1", "h", "linux-64", ">=13.4,<13.5")]
    place = write(tmp_path / "channel", iter([*toolkit("13.4"), *made]))
    small = Catalogue([place], "linux-64")

    def said(specs: str, driver: str | None, gpu: str | None) -> list[str]:
        pick = small.pick(Scenario(tuple(specs.split()), "linux-64", driver, gpu))
        assert pick is not None
        return what_runs(pick, small)

    gives = "the driver machine code"
    own = 'your own kernels run if you compile them to machine code, as with arch="sm_89", and'
    only, both = said("cuda-core", "13.0", "8.9"), said("cupy numba-cuda", "13.0", "8.9")
    assert only == [f"{own} not to PTX"]
    assert both == [f"numba-cuda and cupy run anyway: they give {gives}", *only]
    one, *_ = said("cupy cuda-core", "13.0", None)
    assert one == f"cupy runs anyway: it gives {gives}"
    assert said("cupy", "13.4", "8.9") == said("cupy", None, None) == []


def test_a_pick_without_a_toolkit_has_no_fit() -> None:
    machine = Scenario(("numpy",), "linux-64", "13.0", "9.0")
    assert fit_of(Pick(machine, ()), machine, None) is None


@pytest.mark.parametrize(
    ("specs", "driver", "gpu", "kind"),
    [
        ("cuda-core", "11.8", "9.0", Kind.DRIVER),
        ("cuda-nvcc", "13.0", "7.0", Kind.GPU),
        ("cuda-nvcc", "12.9", "7.0", Kind.DRIVER_AND_GPU),
        ("cuda-core=99", "13.0", "9.0", Kind.NO_VERSION),
        ("no-such-package", "13.0", "9.0", Kind.NO_PACKAGE),
        ("cuda-version=13.0 cuda-version=12.9", "13.0", "9.0", Kind.CONFLICT),
    ],
)
def test_a_reason_has_the_kind_of_its_cause(
    specs: str, driver: str, gpu: str, kind: Kind, catalogue: Catalogue
) -> None:
    scenario = Scenario(tuple(specs.split()), "linux-64", driver, gpu)
    reason = find_reason(scenario, catalogue)
    assert reason.kind is kind
    assert reason.cause and reason.step
