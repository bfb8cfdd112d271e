"""What a second command does to an environment: the matrix of `ctk.verify.life`, in models of four
clients.

``life_cells.txt`` has what is wrong, by channels and client. Run as a program, this file solves the
whole matrix anew and writes it, and the table in docs/evidence/priorities.md. A test
solves some cells of each; the sweep all.
"""

from __future__ import annotations

import copy
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_foreign import RELEASES

from conftest import ROOT
from ctk.core.checkout import Marked, Workspace, markdown_table, settings, workspace
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    write_repodata,
)
from ctk.solve.channels import Repodata, universe
from ctk.verify.libsolv import library
from ctk.verify.life import Cell, Client, Refused, Result, World, cells, run
from ctk.verify.life_models import CondaLibmamba, CondaRattler, Mamba, Pixi
from ctk.verify.life_oracle import LifeFacts
from kit import foreign_channel
from kit.small_channel import write

WRONG = Path(__file__).with_name("life_cells.txt")
COMMAND = "PYTHONPATH=tests .venv/bin/python tests/system/verify/test_life.py"
TABLE = Marked("table of second commands", COMMAND, "docs/evidence/priorities.md")
CLIENTS = ("mamba", "conda", "pixi", "conda, rattler")
SAMPLE = 25  # cells of each client and channels, in an ordinary run
FOREIGN = ("pytorch", "jaxlib", "cupy", "libcudf", "cuda-nvcc")
"""Packages whose CUDA builds need a toolkit that is as new as the one that they were compiled with.
"""


# --- the channels


@dataclass(frozen=True)
class Channels:
    """Channels of the matrix, and how their priority counts."""

    name: str
    is_foreign: bool = True  # conda-forge is among them
    is_strict: bool = True
    is_before: bool = False  # without what keeps an environment as it is


BEFORE = Channels("before", is_before=True)
AFTER = (
    Channels("strict"),
    Channels("flexible", is_strict=False),
    Channels("alone", is_foreign=False),
)
EVERY = (BEFORE, *AFTER)


def without_keepers(content: Repodata) -> Repodata:
    """The channel without cuda-version-native, cuda-gpu-builds, cuda-native and a
    libnvjitlink-files of its toolkit and of our libnvjitlink.
    """
    content = copy.deepcopy(content)
    for subdir in content.values():
        packages = subdir["packages.conda"]
        constrains = [r["constrains"] for r in packages.values() if r["name"] == "cuda-gpu-builds"]
        files = {r["version"]: r for r in packages.values() if r["name"] == "libnvjitlink-files"}
        for file, record in list(packages.items()):
            if record["name"] in ("cuda-version-native", "cuda-gpu-builds", "cuda-native"):
                del packages[file]
            elif record["name"] == "cuda-version":
                record["depends"] = [
                    spec for spec in record["depends"] if spec != "cuda-version-native"
                ]
            elif record["name"] == "cuda-gpu":
                record["depends"] = [
                    spec for spec in record["depends"] if spec != "cuda-gpu-builds"
                ]
                record["constrains"] = constrains[0]
            elif record["name"] == "libnvjitlink" and record["build"].startswith("newer_"):
                own = files[record["version"]]
                record["depends"].append(f"libnvjitlink-files =={own['version']} {own['build']}")
                record["constrains"] = []
        for record in files.values():
            record["constrains"] = [
                s for s in record["constrains"] if s.split()[0] != "libnvjitlink"
            ]
            major = int(record["version"].split(".")[0])
            of_major = f"cuda-version >={major},<{major + 1}.0a0"
            record["depends"] = [
                of_major if s.startswith("cuda-version ") else s for s in record["depends"]
            ]
    return content


class Worlds:
    """The channels, each written once."""

    def __init__(self, project: Workspace, folder: Path) -> None:
        request = Request(
            RELEASES, settings(project.root).default.recipes or (), foreign_channel.SUBDIRS
        )
        content = planned_repodata(
            plan(published_set(project), request, python_tags(project.build_config))
        )
        self._ours = write_repodata(content, folder / "ours")
        self._before = write_repodata(without_keepers(content), folder / "before")
        self._foreign = write(folder / "conda-forge", foreign_channel.records(project.variants))
        self._base = write_repodata(universe(), folder / "base")

    def world(self, channels: Channels) -> World:
        ours = self._before if channels.is_before else self._ours
        foreign = [self._foreign] if channels.is_foreign else []
        return World([ours, *foreign, self._base], strict=channels.is_strict)


@pytest.fixture(scope="module")
def worlds(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    folder = tmp_path_factory.mktemp("lives")
    yield Worlds(project, folder)
    shutil.rmtree(folder)


def facts(world: World) -> LifeFacts:
    """What the oracle knows of the channels: toolkits, and what packages were compiled with."""
    toolkits = {str(r.version) for r in world.by_name["cuda-version"]}
    compiled = {name: compiled_with(world, name) for name in FOREIGN if name in world.by_name}
    return LifeFacts(
        tuple(sorted(toolkits)), {name: minors for name, minors in compiled.items() if minors}
    )


def compiled_with(world: World, name: str) -> tuple[str, ...]:
    """The oldest toolkits that the CUDA builds of a package name."""
    specs = [
        spec
        for record in world.by_name[name]
        for spec in record.depends
        if spec.startswith("cuda-version ")
    ]
    found = {match[1] for spec in specs if (match := re.search(r">=(\d+(?:\.\d+)?)", spec))}
    return tuple(sorted(minor if "." in minor else f"{minor}.0" for minor in found))


def client(name: str, project: Workspace) -> Client:
    made: Mapping[str, Callable[[], Client]] = {
        "mamba": lambda: Mamba(project),
        "conda": lambda: CondaLibmamba(project),
        "pixi": Pixi,
        "conda, rattler": CondaRattler,
    }
    return made[name]()


# --- what is written down


@dataclass(frozen=True)
class Part:
    """What is written of a client with some channels: all cells, and the words of those that are
    wrong.
    """

    there: tuple[str, ...]
    wrong: Mapping[str, str]


def part(results: Sequence[Result]) -> Part:
    wrong = {
        str(result.cell): ", ".join(sorted(result.harms)) for result in results if result.harms
    }
    return Part(tuple(str(result.cell) for result in results), wrong)


def read() -> dict[tuple[str, str], Part]:
    """Channels and client -> what is written of them."""
    found: dict[tuple[str, str], Part] = {}
    for line in WRONG.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith("  "):
            name, _, by = line.partition(": ")
            channels = next(channels for channels in EVERY if channels.name == name)
            found[name, by] = Part(tuple(map(str, members(channels))), {})
        else:
            cell, _, words = line.strip().rpartition(": ")
            assert cell in found[name, by].there, line
            found[name, by] = Part(found[name, by].there, {**found[name, by].wrong, cell: words})
    return found


def members(channels: Channels) -> list[Cell]:
    """The cells that channels have: cuda-native is one of the things that were not there before."""
    found = cells(foreign=channels.is_foreign)
    return [
        cell for cell in found if not (channels.is_before and "cuda-native" in cell.start.specs)
    ]


def lines(parts: Mapping[tuple[str, str], Part]) -> Iterator[str]:
    for (name, by), found in parts.items():
        yield f"{name}: {by}"
        for cell, words in found.wrong.items():
            yield f"  {cell}: {words}"


def table(parts: Mapping[tuple[str, str], Part]) -> str:
    """Wrong cells of all, before and after, by client and by what the environment asks for."""
    headings = (
        "client",
        "asked for at first",
        "driver as it was, or newer",
        "older driver",
        "no driver",
    )
    rows = []
    for by in CLIENTS:
        for asks in ("plain", "cuda-gpu", "cuda-native"):
            cells_ = [
                _share(parts, by, asks, drivers)
                for drivers in (("13.0", "13.5"), ("12.6",), ("none",))
            ]
            rows.append((by, "neither" if asks == "plain" else f"`{asks}`", *cells_))
    return markdown_table(headings, rows)


def _share(
    parts: Mapping[tuple[str, str], Part], by: str, asks: str, drivers: Sequence[str]
) -> str:
    after = _count(parts["strict", by], asks, drivers)
    if asks == "cuda-native":
        return f"{after[0]} of {after[1]}"
    before = _count(parts["before", by], asks, drivers)
    return f"{before[0]} → {after[0]} of {after[1]}"


def _count(found: Part, asks: str, drivers: Sequence[str]) -> tuple[int, int]:
    """How many cells are wrong, and how many there are."""

    def belongs(cell: str) -> bool:
        start, _, driver = cell.split(" | ")
        return start.startswith(f"{asks}: ") and driver in drivers

    return sum(map(belongs, found.wrong)), sum(map(belongs, found.there))


def main() -> None:
    """Writes the cells and the table. Needs libsolv; takes about ten minutes."""
    project = workspace()
    parts: dict[tuple[str, str], Part] = {}
    with tempfile.TemporaryDirectory() as folder:
        worlds = Worlds(project, Path(folder))
        for channels in EVERY:
            world = worlds.world(channels)
            for by in CLIENTS:
                results = list(run(client(by, project), world, members(channels), facts(world)))
                parts[channels.name, by] = part(results)
                harms = Counter(harm for result in results for harm in result.harms)
                refused = sum(isinstance(result.after, Refused) for result in results)
                print(
                    channels.name,
                    by,
                    f"{len(results)} cells, {refused} refused,",
                    dict(harms),
                    file=sys.stderr,
                )
    head = [line for line in WRONG.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    WRONG.write_text("\n".join([*head, *lines(parts)]) + "\n", encoding="utf-8")
    TABLE.write(project, table(parts))


# --- tests


def client_here(name: str, project: Workspace) -> Client:
    """A client's model; the test is skipped where its solver is not built."""
    if name in ("mamba", "conda") and not library(project).exists():
        pytest.skip(
            "libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler"
        )
    return client(name, project)


def _results(
    worlds: Worlds, project: Workspace, channels: Channels, by: str, wanted: Sequence[Cell]
) -> list[Result]:
    made = client_here(by, project)
    world = worlds.world(channels)
    return list(run(made, world, wanted, facts(world)))


def _is_as_written(found: Sequence[Result], written: Part) -> None:
    solved = part(found)
    assert solved.wrong == {
        cell: written.wrong[cell] for cell in solved.there if cell in written.wrong
    }


@pytest.mark.parametrize("by", CLIENTS)
def test_a_sample_of_second_commands_is_as_written_down(
    worlds: Worlds, project: Workspace, by: str
) -> None:
    chosen = random.Random(by).sample(members(AFTER[0]), SAMPLE)
    found = _results(worlds, project, AFTER[0], by, chosen)
    assert len(found) == SAMPLE
    _is_as_written(found, read()[AFTER[0].name, by])


@pytest.mark.sweep
@pytest.mark.parametrize("by", CLIENTS)
@pytest.mark.parametrize("channels", EVERY, ids=lambda channels: channels.name)
def test_every_second_command_is_as_written_down(
    worlds: Worlds, project: Workspace, channels: Channels, by: str
) -> None:
    _is_as_written(
        _results(worlds, project, channels, by, members(channels)), read()[channels.name, by]
    )


def test_the_table_of_the_docs_has_what_is_written_down() -> None:
    assert f"`{COMMAND}` -->\n\n{table(read())}\n<!--" in (ROOT / TABLE.page).read_text(
        encoding="utf-8"
    )


def test_with_the_same_or_a_newer_driver_what_asks_for_native_stays_native() -> None:
    """mamba removes PyTorch where a command names a toolkit that it does not go with.

    Nothing else is left.
    """
    for by in CLIENTS:
        wrong = read()["strict", by].wrong
        left = {
            cell: words
            for cell, words in wrong.items()
            if cell.startswith("cuda-native") and _has_driver(cell)
        }
        assert all(words == "a package that was asked for is gone" for words in left.values()), by
        assert not left or by == "mamba"


def _has_driver(cell: str) -> bool:
    return cell.endswith((" 13.0", " 13.5"))


if __name__ == "__main__":
    main()
