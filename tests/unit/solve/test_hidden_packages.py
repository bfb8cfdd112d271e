"""Packages that strict priority hides: the reason says so, and its lines find them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ctk.core.errors import Unsolvable
from ctk.solve.hidden import hidden
from ctk.solve.reason import Kind
from ctk.solve.solve import Catalogue, Scenario, parse_spec
from ctk.solve.why import solve_or_say_why
from kit.small_channel import record, write

SUBDIR = "linux-64"


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """A compiler of two parts: 13.0 here, 12.9 behind it, whose parts pin each other."""
    ours = [
        record("cuda-version", "12.9", "native_1", "noarch"),
        record("cuda-version", "13.0", "native_1", "noarch"),
        record("compiler", "13.0", "h1_0", SUBDIR, depends=["cuda-version 13.0.*", "part 13.0.*"]),
        record("part", "13.0", "h1_0", SUBDIR, depends=["cuda-version 13.0.*"]),
        record("part", "12.9", "h1_0", SUBDIR, depends=["cuda-version 12.9.*"]),
        record("other", "1.0", "h1_0", SUBDIR),
    ]
    behind = [
        record("cuda-version", "12.4", "h0_3", "noarch"),
        record("compiler", "12.9", "h9_0", SUBDIR, depends=["part ==12.9 h9_0"]),
        record("compiler", "12.4", "h9_0", SUBDIR, depends=["cuda-version 12.4.*"]),
        record("part", "12.9", "h9_0", SUBDIR, depends=["cuda-version 12.9.*"]),
        record("program", "2.0", "h9_0", SUBDIR, depends=["other >=2"]),
        record("other", "2.0", "h9_0", SUBDIR),
    ]
    folders = [write(tmp_path / "ours", iter(ours)), write(tmp_path / "forge", iter(behind))]
    return Catalogue(folders, SUBDIR)


def asked(*specs: str) -> Scenario:
    return Scenario(specs, SUBDIR, "13.0", "9.0")


def test_a_hidden_version_is_said_to_be_hidden_and_the_line_finds_it(catalogue: Catalogue) -> None:
    with pytest.raises(Unsolvable) as error:
        solve_or_say_why(asked("compiler=12.9"), catalogue, 3)
    assert error.value.kind == Kind.HIDDEN
    assert error.value.cause.startswith(
        "forge has compiler 12.9, but compiler in an earlier channel"
    )
    command = error.value.step.split("`")[1]
    pick = solve_or_say_why(asked(*shlex.split(command)), catalogue)
    assert (pick.version("compiler"), pick.toolkit) == ("12.9", "12.9")


def test_the_parts_that_pin_each_other_are_named_and_no_others(catalogue: Catalogue) -> None:
    found = hidden(parse_spec("compiler=12.9"), asked("compiler=12.9"), catalogue)
    assert found and (found.version, found.channel) == ("12.9", "forge")
    assert [spec.rpartition("::")[2] for spec in found.specs] == ["compiler 12.9.*", "part"]


def test_a_pin_of_the_toolkit_hides_as_a_version_does(catalogue: Catalogue) -> None:
    with pytest.raises(Unsolvable) as error:
        solve_or_say_why(asked("cuda-version=12.9", "compiler"), catalogue, 3)
    assert error.value.kind == Kind.HIDDEN


def test_what_a_package_behind_needs_may_be_hidden(catalogue: Catalogue) -> None:
    found = hidden(parse_spec("program"), asked("program"), catalogue)
    assert found and [spec.rpartition("::")[2] for spec in found.specs] == ["program", "other"]


def test_the_toolkit_itself_is_never_taken_from_behind(catalogue: Catalogue) -> None:
    """conda-forge's cuda-version is for every driver of its major."""
    assert hidden(parse_spec("cuda-version=12.4"), asked("cuda-version=12.4"), catalogue) is None
    with pytest.raises(Unsolvable) as error:
        solve_or_say_why(asked("compiler=12.4"), catalogue, 3)
    assert error.value.kind != Kind.HIDDEN


def test_what_is_here_is_not_hidden(catalogue: Catalogue) -> None:
    assert hidden(parse_spec("other"), asked("other"), catalogue) is not None
    assert solve_or_say_why(asked("other"), catalogue).version("other") == "1.0"
    assert hidden(parse_spec("part=13.0"), asked("part=13.0"), catalogue) is None
