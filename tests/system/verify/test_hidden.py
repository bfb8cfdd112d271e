"""What this channel hides of real files is what ``hidden.txt`` and the page say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import hidden
import pytest
from hidden import MACHINES, NEWER, Places, Requests

from ctk.core.checkout import Workspace, workspace
from ctk.verify.libsolv import library

BLOCKS = hidden.blocks()
SETS = [name.removeprefix("set ") for name in BLOCKS if name.startswith("set ")]
# In each run; the other sets in the nightly one.
OFTEN = ("default", "everything")
PAGES = workspace().root / "docs"
PAGE = PAGES / "evidence" / "priorities.md"
TABLE = re.compile(r"<!-- hidden: .*? -->\n(.*?)<!-- end of hidden -->", re.S)
# conda-forge's nvcc for CUDA 12, each part of which another one pins exactly; sorted.
NVCC = (
    *("cuda-crt-dev_linux-64", "cuda-crt-tools", "cuda-nvcc", "cuda-nvcc-dev_linux-64"),
    *("cuda-nvcc-impl", "cuda-nvcc-tools", "cuda-nvcc_linux-64", "cuda-nvvm-dev_linux-64"),
    *("cuda-nvvm-impl", "cuda-nvvm-tools", "libnvptxcompiler-dev"),
    "libnvptxcompiler-dev_linux-64",
)


@pytest.fixture(scope="module")
def places(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(project, tmp_path_factory.mktemp("hidden"))


@pytest.fixture(scope="module")
def found(places: Places) -> Requests:
    return hidden.requests(places)


def block(name: str, kind: str) -> dict[str, list[str]]:
    """What a block says of a kind -> its words."""
    lines = (line.strip() for line in BLOCKS[f"set {name}"])
    parts = (line.rpartition(": ") for line in lines if line.startswith(f"{kind} "))
    return {said.removeprefix(f"{kind} "): words.split() for said, _, words in parts}


def files(words: Iterable[str]) -> set[str]:
    """The files of requests, without RAPIDS' repositories."""
    names = {word.partition("/")[0] for word in words}
    return {name for name in names if name.isdigit()}


# --- the file is right


def test_what_is_left_out_of_the_requests_is_what_nobody_has(found: Requests) -> None:
    first, *_ = BLOCKS
    assert [*hidden.left_out(found)] == BLOCKS[first]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.sweep) for name in SETS],
)
def test_a_set_hides_what_is_written_down(name: str, places: Places, found: Requests) -> None:
    if not library(places.project).exists():
        pytest.skip("libsolv is not built here: scripts/setup-libsolv builds it")
    measured = hidden.measure(places, name, found.asked)
    without_lines = [line for line in BLOCKS[f"set {name}"] if not line.startswith("  lines")]
    assert [*hidden.written(name, measured, found)] == without_lines


@pytest.mark.parametrize("name", OFTEN)
def test_the_lines_solve_what_is_hidden_and_none_of_them_is_one_too_many(
    name: str, places: Places, found: Requests
) -> None:
    """One request of each kind; the program tries all."""
    requests = {str(one): one for one in found.asked}
    for names, words in block(name, "lines").items():
        packages, one = names.split(), requests[words[0]]
        assert hidden.solves_with(places, name, one, packages), one
        for package in packages:
            fewer = [other for other in packages if other != package]
            assert not hidden.solves_with(places, name, one, fewer), (one, package)


# --- what it shows


def test_every_set_is_measured(project: Workspace) -> None:
    assert [*hidden.sets(project)] == SETS


@pytest.mark.parametrize("name", SETS)
def test_with_flexible_priority_nothing_is_hidden(name: str) -> None:
    assert block(name, "flexible") == {str(machine): ["-"] for machine in MACHINES}


@pytest.mark.parametrize("name", SETS)
def test_for_what_strict_priority_hides_there_are_lines(name: str) -> None:
    assert "?" not in block(name, "lines")


def not_for_nvcc(name: str) -> set[str]:
    """The files that strict priority hides, and that the lines for nvcc do not solve."""
    compiler = {*NVCC, "cuda-nvvm"}
    lines = block(name, "lines").items()
    solved = {word for names, words in lines if {*names.split()} <= compiler for word in words}
    return files({*block(name, "strict")[str(NEWER)]} - solved)


def test_what_strict_hides_beside_nvcc_of_cuda_12_is_little() -> None:
    """cudf 25 pins an old numba-cuda (61), and one file asks for many minors (01)."""
    assert not_for_nvcc("default") == {"01", "61"}
    assert not_for_nvcc("toolkits, less") == {"61"}
    lines = block("default", "lines")
    assert "61/default" in lines["cuda-bindings cuda-core cuda-python numba-cuda"]
    assert " ".join(NVCC) in lines


def test_rapids_needs_13_3() -> None:
    """Without it, five files and all of RAPIDS for 13.3 are hidden."""
    without, beside = block("default without 13.3", "strict"), block("default", "strict")
    assert files(without[str(NEWER)]) - files(beside[str(NEWER)]) == {"02", "04", "06", "15", "65"}
    assert {*without[str(NEWER)]} - {*beside[str(NEWER)]} >= {"rapids/13.3"}


def test_the_libraries_hide_what_others_pin(project: Workspace) -> None:
    assert not block("toolkits", "hidden")
    hidden_names = {spec.split()[0] for spec in block("everything", "hidden")}
    assert hidden_names == {"cudnn", "jax", "jaxlib", "pytorch-gpu", "torchvision"}


# --- the page


def rows() -> Iterator[list[str]]:
    table = TABLE.search(PAGE.read_text())
    assert table
    for line in table[1].splitlines():
        if line.startswith("| ") and not line.startswith(("| set", "| ---")):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_says_what_was_measured(found: Requests) -> None:
    said = {name.strip("`"): cells for name, *cells in rows()}
    assert [*said] == SETS
    assert len([file for file in found.files if file.isdigit()]) == 25
    for name, cells in said.items():
        specs, strict = block(name, "hidden"), block(name, "strict")[str(NEWER)]
        rapids = [minor for minor in ("12.9", "13.3") if f"rapids/{minor}" in strict]
        flexible = files(block(name, "flexible")[str(NEWER)])
        counts = [len(specs), len(files(strict)), len(not_for_nvcc(name)), len(flexible)]
        assert [cells[0], cells[1], *cells[3:]] == [*map(str, counts)], name
        assert cells[2] == " and ".join(rapids), name


def test_the_users_page_names_the_packages_of_nvcc() -> None:
    text = (PAGES / "users.md").read_text()
    for package in NVCC:
        assert package in text, package
