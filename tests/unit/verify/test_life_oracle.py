"""What `ctk.verify.life_oracle` calls wrong, by hand-made states of an environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctk.verify.life_oracle import Change, Harm, LifeFacts, State, harms

FACTS = LifeFacts(
    ("12.6", "12.9", "13.0", "13.4"), {"pytorch": ("12.9", "13.4"), "cuda-nvcc": ("13.0",)}
)
CORE = ("cuda-gpu", "cuda-core")


def state(toolkit: str, *asked: str, floors: tuple[str, ...] = (), **builds: str) -> State:
    """An environment with a toolkit such as ``13.0 native``, and with other packages as ``1.0
    cuda_h0_0``.
    """
    version, fit = toolkit.split()
    found = {name.replace("_", "-"): tuple(text.split()) for name, text in builds.items()}
    names = {spec.partition("=")[0] for spec in asked} - {"cuda-version"}
    there = dict.fromkeys(names, ("1.0", "h0_0")) | {
        name: (both[0], both[1]) for name, both in found.items()
    }
    return State({**there, "cuda-version": (version, f"{fit}_0")}, asked, floors)


def found(
    before: State, command: str, after: State | None, driver: str | None = "13.0"
) -> set[Harm]:
    kind, *specs = command.split()
    return set(harms(FACTS, Change(before, after, kind, tuple(specs), driver)))


NATIVE = state("13.0 native", *CORE)


def test_a_command_that_keeps_everything_is_right() -> None:
    assert found(NATIVE, "install numpy", state("13.0 native", *CORE, "numpy")) == set()
    assert found(NATIVE, "remove numpy", state("13.0 native", *CORE)) == set()


def test_native_stays_native_where_a_native_toolkit_serves() -> None:
    compat = state("13.4 compat", *CORE, "pytorch", pytorch="2.9 cuda134_h0_0")
    assert found(NATIVE, "install pytorch", compat) == {Harm.COMPAT}
    assert (
        found(NATIVE, "install pytorch", state("12.9 native", *CORE, pytorch="2.9 cuda129_h0_0"))
        == set()
    )


def test_compat_is_right_where_only_compat_serves() -> None:
    before = state("12.6 native", *CORE)
    after = state("12.9 compat", *CORE, pytorch="2.9 cuda129_h0_0")
    assert found(before, "install pytorch", after, "12.6") == set()
    assert found(before, "install numpy", state("12.9 compat", *CORE, "numpy"), "12.6") == {
        Harm.COMPAT,
        Harm.MOVED,
    }
    assert found(NATIVE, "install cuda-version=13.4", state("13.4 compat", *CORE)) == set()


def test_without_a_driver_nothing_but_a_named_toolkit_makes_compat() -> None:
    assert Harm.COMPAT in found(
        NATIVE, "install pytorch", state("13.4 compat", *CORE, "pytorch"), None
    )
    assert found(NATIVE, "install cuda-version=12", state("12.9 compat", *CORE), None) == set()


@pytest.mark.parametrize("command", ["install pytorch", "install cuda-gpu pytorch"])
def test_who_asked_for_cuda_builds_gets_none_for_cpus(command: str) -> None:
    after = state("13.0 native", *CORE, pytorch="2.9 cpu_h0_0")
    assert found(NATIVE, command, after) == {Harm.CPU}


def test_cpu_builds_are_right_for_those_who_did_not_ask_or_name_them() -> None:
    plain = state("13.0 native", "cuda-core")
    assert (
        found(plain, "install pytorch", state("13.0 native", "cuda-core", pytorch="2.9 cpu_h0_0"))
        == set()
    )
    after = state("13.0 native", *CORE, pytorch="2.9 cpu_h0_0")
    assert found(NATIVE, "install pytorch=*=cpu*", after) == set()
    had = state("12.9 native", "pytorch", pytorch="2.9 cuda129_h0_0")
    lost = state("12.9 native", "pytorch", pytorch="2.9 cpu_h0_0")
    assert found(had, "install numpy", State({**lost.builds, "numpy": ("2", "0")}, lost.asked)) == {
        Harm.CPU
    }


def test_what_was_asked_for_stays() -> None:
    assert found(NATIVE, "install numpy", state("13.0 native", "cuda-core", "numpy")) == {Harm.GONE}
    assert found(NATIVE, "remove cuda-gpu", state("13.0 native", "cuda-core")) == set()


@pytest.mark.parametrize(
    ("toolkit", "nvjitlink", "floors", "is_right"),
    [
        ("13.0 native", "13.0.88", (), True),
        ("13.0 native", "13.4.92", (), False),
        ("13.0 native", "13.4.92", ("libnvjitlink >=13.3,<14",), True),
        ("13.0 native", "13.4.92", ("libnvjitlink >=13.0,<14",), False),
        ("12.6 native", "12.9.86", (), False),
    ],
)
def test_nvjitlink_is_the_toolkit_s_unless_somebody_needs_another(
    toolkit: str, nvjitlink: str, floors: tuple[str, ...], is_right: bool
) -> None:
    after = state(
        toolkit, *CORE, floors=floors, libnvjitlink=f"{nvjitlink} newer_0", cuda_bindings="13 0"
    )
    pin = f"cuda-version={toolkit.split()[0]}"
    assert (Harm.NVJITLINK not in found(NATIVE, f"install {pin}", after)) is is_right


def test_the_toolkit_stays_where_a_command_has_nothing_to_do_with_it() -> None:
    moved = state("12.6 native", *CORE)
    assert found(NATIVE, "remove numpy", moved) == {Harm.MOVED}
    assert found(NATIVE, "remove numpy", moved, "12.6") == {Harm.MOVED}
    with_numpy = state("12.6 native", *CORE, "numpy")
    assert found(NATIVE, "install numpy", with_numpy) == {Harm.MOVED}
    # The older driver does not run what is installed.
    assert found(NATIVE, "install numpy", with_numpy, "12.6") == set()


def test_a_refusal_is_wrong_where_a_native_toolkit_serves_all_that_is_asked_for() -> None:
    assert found(NATIVE, "install pytorch", None) == {Harm.REFUSED}
    assert found(state("12.6 native", *CORE), "install pytorch", None, "12.6") == set()
    pinned = state("12.9 native", *CORE, "cuda-version=12.9")
    assert found(pinned, "install cuda-nvcc", None) == set()
    assert found(pinned, "install cuda-version=13 cuda-nvcc", None) == {Harm.REFUSED}


def test_a_package_beside_files_that_it_does_not_depend_on_has_them_twice() -> None:
    after = replace(state("13.0 native", *CORE, "numpy"), left=frozenset({"libnvjitlink"}))
    assert found(NATIVE, "install numpy", after) == {Harm.TWICE}
