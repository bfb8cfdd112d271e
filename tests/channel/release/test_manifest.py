"""Bad input: a manifest of a form that is new is reported with the line, and nothing is written."""

from __future__ import annotations

from email.message import Message

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.release.release import read_manifest
from kit.ctk_release import Run, snapshot
from kit.fake_ctk import EVERYWHERE_12, EVERYWHERE_13, ON_LINUX, manifest_13
from kit.fake_index import FakeIndex

pytest_plugins = ["kit.ctk_release_fixtures"]

NVRTC = "nvidia-cuda-nvrtc"


def metadata(*lines: str, extras: tuple[str, ...] = ()) -> Message:
    message = Message()
    for line in lines:
        message["Requires-Dist"] = line
    for extra in extras:
        message["Provides-Extra"] = extra
    return message


STRANGE = [
    (f"{NVRTC}!=13.4.92; extra == 'nvrtc'", "neither a pin nor a range"),
    (
        f"{NVRTC}==13.4.92; colour == 'green' and extra == 'nvrtc'",
        "no requirement that the standard knows",
    ),
    (f"{NVRTC}==13.4.92.*; extra == 'compiler'", "an unknown extra compiler"),
    (f"{NVRTC}==13.4.92.*; sys_platform == 'linux'", "not of exactly one extra"),
    ("nvidia-quantum==1.*; extra == 'all'", "an unknown distribution nvidia-quantum"),
    (
        f"{NVRTC}==13.4.92.*; platform_machine == 'riscv64' and extra == 'nvrtc'",
        "a marker that names riscv64",
    ),
]


@pytest.mark.parametrize(("line", "problem"), STRANGE)
def test_a_line_of_an_unknown_form_is_shown(line: str, problem: str) -> None:
    with pytest.raises(LockError, match=problem) as error:
        read_manifest(metadata(*manifest_13(), line), "13.4.4")
    assert f"    Requires-Dist: {line}" in error.value.cause.splitlines()
    assert error.value.cause.startswith("cuda-toolkit 13.4.4: 1 problem\n")
    assert "nothing was written" in error.value.step


def test_nothing_is_written_of_such_a_release(run: Run, here: Workspace, index: FakeIndex) -> None:
    line = f"{NVRTC}~=13.4; extra == 'nvrtc'"
    index.add_wheel("cuda-toolkit", "13.4.4", "py2.py3-none-any", requires=[*manifest_13(), line])
    with pytest.raises(LockError, match=r"cuda-toolkit 13\.4\.4"):
        run("add", "12.9", "13.4", "--write")
    assert snapshot(here) == {}
    shown = run("check")
    assert "cuda-13.4: cuda-toolkit 13.4.4: 1 problem" in shown
    assert f"Requires-Dist: {line}" in shown


@pytest.mark.parametrize(
    ("marker", "places"),
    [
        (ON_LINUX, {"linux": ("linux-64", "linux-aarch64")}),
        (EVERYWHERE_12, {"linux": ("linux-64", "linux-aarch64"), "win": ("win-64", "win-arm64")}),
        (EVERYWHERE_13, {s: (s,) for s in ("linux-64", "linux-aarch64", "win-64", "win-arm64")}),
        (
            "sys_platform == 'linux' and platform_machine == 'aarch64'",
            {"linux-aarch64": ("linux-aarch64",)},
        ),
        (
            "(sys_platform == 'win32' and platform_machine != 'ARM64')",
            {"win-64": ("win-64",)},
        ),
    ],
)
def test_a_marker_without_a_machine_asks_for_one_wheel_of_each_system(
    marker: str, places: dict[str, tuple[str, ...]]
) -> None:
    line = f"{NVRTC}==13.4.92.*; {marker} and extra == 'nvrtc'"
    (pin,) = read_manifest(metadata(line), "13.4.4")
    assert pin.places == places
