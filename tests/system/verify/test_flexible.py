"""Flexible priority of channels, the default of conda and mamba, beside strict priority.

This channel is first. Behind it is a conda-forge that is ahead of it in everything
(`kit.newer_channel`). ``flexible_picks.txt`` has the answers of solvers and clients. Run as a
program, this file writes those of the solvers anew, those of the clients that ``CTK_TEST_CONDA``
and ``CTK_TEST_MAMBA`` name, and the table of the docs. The tests ask the solvers for all of it, and
the clients for some.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
import rattler
import test_life
from rattler import MatchSpec, RepoDataRecord, Subdir
from rattler.exceptions import SolverError
from test_foreign import RELEASES, Orders
from test_life import client, client_here
from test_life_clients import PROGRAMS, asked

from conftest import ROOT
from ctk.core.checkout import Marked, Workspace, markdown_table, settings, workspace
from ctk.solve.solve import Scenario, channel_url
from ctk.verify.libsolv import Libsolv, library
from ctk.verify.life import Client, Command, Refused, World, install
from ctk.verify.run import Record
from kit import doc_clients, newer_channel
from kit.client_records import program
from kit.doc_commands import commands
from kit.doc_pages import NVCC_OF_CUDA_12, blocks
from kit.small_channel import write

PICKS = Path(__file__).with_name("flexible_picks.txt")
COMMAND = "PYTHONPATH=tests .venv/bin/python tests/system/verify/test_flexible.py"
TABLE = Marked("table of priorities", COMMAND, "docs/evidence/priorities.md")
SAMPLE = int(os.environ.get("CTK_TEST_FLEXIBLE", "12"))
"""Cells of each client; it takes seconds for each."""

GPU = "cuda-gpu "
ASKED = (
    *("cuda-core", "numba-cuda", "cuda-nvcc", "cuda-nvcc=12.9", "cuda-nvrtc-dev"),
    *("cuda-version=12 cuda-core", "cuda-version=13.4 cuda-core"),
    *("pytorch cuda-core", "cudf", "libcudf cupy"),
)
REQUESTS = (*(f"{GPU}{request}" for request in ASKED), *ASKED)
DRIVERS = (None, "12.0", "12.2", "12.4", "12.6", "12.9", "13.0", "13.3", "13.5", "13.7")
STRICT, FLEXIBLE = "strict", "flexible"

# Who answers -> whose answers these are where the file has no line of its own. rattler is asked in
# the order of the request, as pixi does, and in conda's order.
WHO = {
    "libsolv": "",
    "libsolv-2.8.1": "libsolv",
    "rattler": "libsolv",
    "rattler-conda": "rattler",
    "mamba": "libsolv-2.8.1",
    "conda": "libsolv",
    "conda, rattler": "rattler-conda",
}
SOLVERS = tuple(who for who in WHO if who not in PROGRAMS)
MODELS = {"rattler": "pixi", "rattler-conda": "conda, rattler"}
ROWS = {
    "mamba": "mamba",
    "conda": "conda",
    "conda, rattler": "conda, rattler",
    "rattler": "pixi, set to flexible",
}
"""The rows of the table: who answers, and its name there."""
ASKED_AS_PROGRAMS = "# Asked as programs: "
NVCC = re.compile(r"cuda-(nvcc|crt|nvvm)|libnvptxcompiler")
PTX_WRITERS = {"cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools", "cuda-nvcc-tools"}
"""All but nvJitLink, which packages of conda-forge may ask for newer than the toolkit."""

Cell = tuple[str, str | None]
"""A request, and a driver."""
CELLS: tuple[Cell, ...] = tuple(product(REQUESTS, DRIVERS))
Packages = Mapping[str, Record]
Solve = Callable[[str, Cell], Packages | None]
"""Priority and cell -> the packages; None where it is refused."""


# --- the channels, and who is asked


class Channels:
    """Our channel, a conda-forge that is ahead of it, and the base, each written once.

    Attributes:
        names: The packages that our channel has.
        worlds: Priority -> the channels with it.
    """

    def __init__(self, ours: Path, ahead: Path, base: Path) -> None:
        self.folders = [ours, ahead, base]
        self.names = set(World([ours]).by_name)
        self.worlds = {
            STRICT: World(self.folders),
            FLEXIBLE: World(self.folders, strict=False),
        }

    def has(self, record: Record) -> bool:
        """Whether a package is of our channel."""
        return record.channel.rstrip("/").endswith(f"/{self.folders[0].name}")

    def passed_over(self, packages: Packages) -> list[str]:
        """The packages that are not of our channel, though it has them too."""
        return [name for name in sorted(self.names & set(packages)) if not self.has(packages[name])]


def _default(project: Workspace, folder: Path) -> Channels:
    """With the default recipes in our channel."""
    ours, _, base = Orders(project, folder).first("ours")
    ahead = write(folder / "ahead", newer_channel.records(project.variants))
    return Channels(ours, ahead, base)


def _with_libraries(project: Workspace, channels: Channels, folder: Path) -> Channels:
    """With the libraries in our channel, too."""
    stated = settings(project.root).libraries
    releases = (*RELEASES, "libraries-12", "libraries-13")
    also = (*stated.recipes, *stated.toolkit)
    ours, _, base = Orders(project, folder).first("libraries", releases=releases, also=also)
    return Channels(ours, channels.folders[1], base)


Answers = Mapping[tuple[str, Cell], Packages | None]


@pytest.fixture(scope="module")
def channels(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Channels]:
    folder = tmp_path_factory.mktemp("priority")
    yield _default(project, folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answers(
    solver: str, project: Workspace, channels: Channels, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """All answers of a solver, by priority and cell."""
    solve = asking(solver, project, channels, tmp_path_factory.mktemp("solver"))
    asked = product((STRICT, FLEXIBLE), CELLS)
    return {(priority, cell): solve(priority, cell) for priority, cell in asked}


def scenario(cell: Cell) -> Scenario:
    request, driver = cell
    return Scenario(tuple(request.split()), "linux-64", driver)


def asking(who: str, project: Workspace, channels: Channels, home: Path) -> Solve:
    """One of `WHO`; skips where it is not here."""
    if who in PROGRAMS:
        return _by_client(asked(who, home), channels)
    if who in MODELS:
        return _by_client(client(MODELS[who], project), channels)
    if not library(project).exists():
        pytest.skip(
            "libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler"
        )
    return _by_libsolv(project, channels, lock=who == "libsolv")


def _by_client(made: Client, channels: Channels) -> Solve:
    """A client, or a model of one."""

    def solve(priority: str, cell: Cell) -> Packages | None:
        outcome = made.create(channels.worlds[priority], scenario(cell))
        return None if isinstance(outcome, Refused) else _packages(outcome.records)

    return solve


def _packages(records: Mapping[str, RepoDataRecord]) -> Packages:
    return {
        name: Record(str(found.version), str(found.build), str(found.channel))
        for name, found in records.items()
    }


def _by_libsolv(project: Workspace, channels: Channels, *, lock: bool) -> Solve:
    """libsolv, which reads the channels once for all cells."""
    answers: dict[tuple[str, Scenario], Packages | None] = {}
    for priority in (STRICT, FLEXIBLE):
        solver = Libsolv(project, lock=lock, strict=priority == STRICT)
        for answer in solver.solve_all(map(scenario, CELLS), channels.folders):
            is_right = answer.solved and not answer.removed
            answers[priority, answer.scenario] = answer.records if is_right else None
    return lambda priority, cell: answers[priority, scenario(cell)]


# --- what is written down


def word(packages: Packages | None, channels: Channels) -> str:
    """An answer in the form of ``flexible_picks.txt``."""
    if packages is None:
        return "none"
    toolkit = packages["cuda-version"]
    fit = toolkit.build[0] if channels.has(toolkit) else ""
    build = ""
    if "pytorch" in packages:
        build = "cuda" if "cuda" in packages["pytorch"].build else "cpu"
    mixed = "*" if fit and channels.passed_over(packages) else ""
    return f"{build}{toolkit.version}{fit}{mixed}"


@dataclass(frozen=True)
class Picks:
    """What is written down: request -> priority and who -> the answers by driver."""

    lines: Mapping[str, Mapping[tuple[str, str], Sequence[str]]]

    def right(self, request: str, priority: str, who: str) -> Sequence[str]:
        lines = self.lines[request]
        while (priority, who) not in lines:
            who = WHO[who]
        return lines[priority, who]

    def at(self, priority: str, who: str, cell: Cell) -> str:
        request, driver = cell
        return self.right(request, priority, who)[DRIVERS.index(driver)]

    def pairs(self, who: str, *, named: bool) -> dict[Cell, tuple[str, str]]:
        """The answers in strict and flexible priority, with or without cuda-gpu."""
        return {
            cell: (self.at(STRICT, who, cell), self.at(FLEXIBLE, who, cell))
            for cell in CELLS
            if cell[0].startswith(GPU) == named
        }


def read() -> Picks:
    found: dict[str, dict[tuple[str, str], Sequence[str]]] = {}
    request = ""
    for line in PICKS.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            priority, _, who = line[:26].strip().partition("/")
            answers = line[26:].split()
            assert len(answers) == len(DRIVERS), line
            found[request][priority, who] = answers
        elif not line.startswith("#"):
            request = line
            found[request] = {}
    return Picks(found)


def written(picks: Picks) -> Iterator[str]:
    """The lines, without those that `Picks.right` can do without."""
    for request, lines in picks.lines.items():
        yield request
        for priority, who in sorted(
            lines, key=lambda key: (key[0] != STRICT, list(WHO).index(key[1]))
        ):
            answers = lines[priority, who]
            if not WHO[who] or answers != picks.right(request, priority, WHO[who]):
                cells = " ".join(f"{answer:<10}" for answer in answers)
                yield f"  {f'{priority}/{who}':<24}{cells}".rstrip()


# --- the table of the docs

SAME, ONLY_FLEXIBLE, NATIVE, COMPAT, FOREIGN = (
    "the same toolkit",
    "only flexible solves",
    "another, native",
    "another, compat",
    "conda-forge's",
)
KINDS = (SAME, ONLY_FLEXIBLE, NATIVE, COMPAT, FOREIGN)


def kind(strict: str, flexible: str) -> str:
    """What flexible priority gives beside strict priority."""
    before, after = strict.rstrip("*"), flexible.rstrip("*")
    if before == after:
        return SAME
    if after[-1].isdigit():
        return FOREIGN
    if before == "none":
        return ONLY_FLEXIBLE
    return NATIVE if after.endswith("n") else COMPAT


def counts(picks: Picks, who: str, *, named: bool) -> Counter[str]:
    return Counter(kind(*answers) for answers in picks.pairs(who, named=named).values())


def table(picks: Picks) -> str:
    rows = []
    for named, who in product((True, False), ROWS):
        found = counts(picks, who, named=named)
        numbers = [str(found[name]) for name in KINDS]
        rows.append((ROWS[who], "yes" if named else "no", *numbers))
    return markdown_table(("client", "`cuda-gpu` named", *KINDS), rows)


# --- the program


def main() -> None:
    """Writes the answers and the table.

    Needs libsolv. The clients that are named take an hour; the lines of others stay as they are.
    """
    project = workspace()
    before, head = read(), [line for line in PICKS.read_text().splitlines() if line[:1] == "#"]
    here = [who for who in WHO if who in SOLVERS or _is_named(who)]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        channels = _default(project, home / "channels")
        found = {
            request: {
                key: line
                for key, line in before.lines.get(request, {}).items()
                if key[1] not in here
            }
            for request in REQUESTS
        }
        for who in here:
            (home / who).mkdir()
            solve = asking(who, project, channels, home / who)
            for request, priority in product(REQUESTS, (STRICT, FLEXIBLE)):
                found[request][priority, who] = [
                    word(solve(priority, (request, driver)), channels) for driver in DRIVERS
                ]
        programs = [_versions(who, home) for who in here if who in PROGRAMS]
    if programs:
        head = [line for line in head if not line.startswith(ASKED_AS_PROGRAMS)]
        head.append(f"{ASKED_AS_PROGRAMS}{'; '.join(programs)}.")
    picks = Picks(found)
    PICKS.write_text("\n".join([*head, *written(picks)]) + "\n", encoding="utf-8")
    TABLE.write(project, table(picks))


def _is_named(who: str) -> bool:
    family = PROGRAMS[who].partition("-")[0]
    return f"CTK_TEST_{family.upper()}" in os.environ


def _versions(who: str, home: Path) -> str:
    """The versions of a client and of its solver, in its own words."""
    family, _, solver = PROGRAMS[who].partition("-")
    path = program(family)
    assert path, who
    words = [path, "info" if solver else "--version"]
    variables = {**os.environ, "HOME": str(home), "CONDA_SOLVER": solver}
    told = subprocess.run(words, env=variables, capture_output=True, text=True, check=True).stdout
    agent = re.search(r"user-agent : (\S+).* solver/\S+ (.*)", told)
    return f"{agent[1]} ({agent[2]})".replace("/", " ") if agent else f"{who} {told.strip()}"


# --- tests


def test_the_answers_are_those_that_are_written_down(
    solver: str, answers: Answers, channels: Channels
) -> None:
    picks = read()
    found = {key: word(packages, channels) for key, packages in answers.items()}
    assert found == {
        (priority, cell): picks.at(priority, solver, cell) for priority, cell in answers
    }


@pytest.mark.parametrize("priority", [STRICT, FLEXIBLE])
@pytest.mark.parametrize("who", PROGRAMS)
def test_a_client_gives_what_is_written_down(
    who: str, priority: str, project: Workspace, channels: Channels, tmp_path: Path
) -> None:
    """A sample; run as a program, this file asks for all."""
    solve, picks = asking(who, project, channels, tmp_path), read()
    cells = random.Random(f"{who} {priority}").sample(CELLS, SAMPLE)
    found = {cell: word(solve(priority, cell), channels) for cell in cells}
    assert found == {cell: picks.at(priority, who, cell) for cell in cells}


@pytest.mark.parametrize("who", WHO)
def test_with_cuda_gpu_flexible_priority_gives_the_toolkit_of_strict_priority_or_a_better_one(
    who: str,
) -> None:
    """Only ours has native and compat builds, and cuda-gpu asks for one of them."""
    picks = read()
    pairs = picks.pairs(who, named=True)
    found = counts(picks, who, named=True)
    assert found[FOREIGN] == found[COMPAT] == 0
    only = {cell for cell, answers in pairs.items() if kind(*answers) == ONLY_FLEXIBLE}
    nvcc_12 = {
        (request, driver)
        for request, driver in pairs
        if driver
        and (request.endswith("nvcc=12.9") or (request.endswith("nvcc") and driver < "13"))
    }
    assert only == nvcc_12
    # conda's order takes cudf first: with strict priority an older one and 12.9, where flexible
    # priority has a newer nvJitLink, and the driver's own toolkit.
    other = {cell: answers for cell, answers in pairs.items() if kind(*answers) == NATIVE}
    assert bool(other) == ("conda" in who and "rattler" in who)
    for (request, driver), (strict, flexible) in other.items():
        assert "cudf" in request and driver and driver >= "13"
        assert strict == "12.9n" and flexible.startswith("13") and flexible.endswith("n*")


def test_what_flexible_priority_mixes_goes_together(answers: Answers, channels: Channels) -> None:
    """No file comes twice, nvcc is of one channel, and what writes PTX is as old as the toolkit.

    Of our packages some have their files in another one, such as cuda-nvvm-tools-files.
    """
    seen = Counter[bool]()
    for cell in CELLS:
        packages = answers[FLEXIBLE, cell] or {}
        passed_over = set(channels.passed_over(packages))
        assert not {f"{name}-files" for name in passed_over} & set(packages), cell
        if "cuda-nvcc" in packages:
            parts = {name for name in packages if NVCC.match(name)}
            assert parts <= passed_over or not parts & passed_over, cell
            seen["cuda-nvcc" in passed_over] += 1
        for name in PTX_WRITERS & set(packages):
            minor = packages["cuda-version"].version
            assert packages[name].version.startswith(f"{minor}."), (cell, name)
    assert seen[True] and seen[False]


def test_the_table_of_the_docs_is_made_of_what_is_written_down() -> None:
    text = (ROOT / TABLE.page).read_text(encoding="utf-8")
    assert f"`{COMMAND}` -->\n\n{table(read())}\n<!--" in text


def test_with_cuda_gpu_pytorch_jax_and_cupy_are_ours_in_both_priorities(
    project: Workspace, channels: Channels, tmp_path: Path
) -> None:
    """In mamba and conda, with the libraries in our channel, and newer ones behind it."""
    here = _with_libraries(project, channels, tmp_path)
    solve = _by_client(client_here("conda", project), here)
    for driver in filter(None, DRIVERS):
        cell = (f"{GPU}pytorch jax cupy numba-cuda cuda-core", driver)
        strict, flexible = (solve(priority, cell) for priority in (STRICT, FLEXIBLE))
        assert strict and strict == flexible, driver
        assert all(here.has(flexible[name]) for name in ("pytorch", "jaxlib", "cupy")), driver


def test_a_second_command_does_no_more_harm_where_cuda_gpu_was_asked_for() -> None:
    """Beside conda-forge as it is, in the matrix of test_life.py."""
    written = test_life.read()
    for who in test_life.CLIENTS:
        flexible, strict = (written[priority, who].wrong for priority in (FLEXIBLE, STRICT))
        asking_for_gpu = {cell for cell in flexible if not cell.startswith("plain:")}
        assert asking_for_gpu and asking_for_gpu <= set(strict), who


SECOND = (install("libcudf"), install("cuda-nvcc=12.9"))
"""Commands after which packages of conda-forge are in the place of ours: nvJitLink, and nvcc."""


def _left(
    asked: Client, world: World, made: tuple[str, ...], command: Command
) -> frozenset[str] | None:
    """Packages whose ``-files`` package a second command leaves; None if the client refuses it."""
    machine = Scenario((*made, "python=3.13"), "linux-64", "13.0")
    before = asked.create(world, machine)
    assert not isinstance(before, Refused)
    after = asked.change(world, before, command, machine)
    return None if isinstance(after, Refused) else after.left


@pytest.mark.parametrize("command", SECOND, ids=str)
@pytest.mark.parametrize("who", test_life.CLIENTS)
def test_a_second_command_leaves_no_two_packages_with_the_same_files(
    who: str, command: Command, project: Workspace, channels: Channels
) -> None:
    """The ``-files`` packages constrain the builds of their package, so they are not beside others.

    `test_life.py` has the whole matrix.
    """
    asked = client_here(who, project)
    for made in (("cuda-gpu", "cuda-core"), ("cuda-version=12.9", "cuda-core")):
        for priority in (STRICT, FLEXIBLE):
            assert not _left(asked, channels.worlds[priority], made, command), (made, priority)


@pytest.mark.parametrize("who", ["mamba", "conda"])
def test_without_their_constraint_files_stay_beside_those_of_conda_forge(
    who: str, project: Workspace, channels: Channels, tmp_path: Path
) -> None:
    ours, *behind = channels.folders
    free = shutil.copytree(ours, tmp_path / ours.name)
    for path in free.glob("*/repodata.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        for record in content["packages.conda"].values():
            owner = record["name"].removesuffix("-files")
            constrains = record.get("constrains", [])
            record["constrains"] = [spec for spec in constrains if spec.split()[0] != owner]
        path.write_text(json.dumps(content), encoding="utf-8")
    world = World([free, *behind], strict=False)
    left = _left(client_here(who, project), world, ("cuda-gpu", "cuda-core"), SECOND[0])
    assert left == {"libnvjitlink"}


def test_files_go_beside_each_build_of_their_package_here_and_none_of_conda_forge(
    project: Workspace, channels: Channels, tmp_path: Path
) -> None:
    here = _with_libraries(project, channels, tmp_path)
    ours, ahead = (World([folder]) for folder in here.folders[:2])
    owners = Counter[tuple[str, bool]]()
    for name in sorted(ours.by_name):
        owner = name.removesuffix("-files")
        if owner == name:
            continue
        for files in ours.by_name[name]:
            (spec,) = (s for s in files.constrains if s.split()[0] == owner)
            takes = MatchSpec(spec)
            pins = {f"{name} =={files.version}", f"{name} =={files.version} {files.build}"}
            tied = [r for r in ours.by_name[owner] if pins & set(r.depends)]
            assert all(map(takes.matches, tied)), spec
            for record in filter(takes.matches, ours.by_name[owner]):
                named = {s.split()[0] for s in record.depends}
                assert name in named or f"{name} <0.0a0" in record.constrains, record
            # Whatever its version: conda-forge may have the same.
            builds = MatchSpec(f"{owner} * {spec.split()[2]}")
            foreign = ahead.by_name.get(owner, [])
            assert not any(map(builds.matches, foreign)), spec
            owners[owner, bool(foreign)] += len(tied)
    assert all(owners.values()) and len({is_known for _, is_known in owners}) == 2, owners


# --- the page for users

SECTION = [
    block for block in blocks(ROOT / "docs" / "users.md") if block.heading == NVCC_OF_CUDA_12
]


def test_the_lines_for_nvcc_of_cuda_12_give_what_the_page_says(
    project: Workspace, channels: Channels
) -> None:
    """conda's and mamba's lines in libsolv, the workspace in rattler, both in flexible priority."""
    found = []
    lines = [
        doc_clients.read(c)
        for block in SECTION
        if block.language == "bash"
        for c in commands(block)
    ]
    for line in lines:
        assert line.scenario and line.channels == ("CHANNEL", "conda-forge")
        outcome = client_here("conda", project).create(
            channels.worlds[FLEXIBLE], _on_linux(line.scenario)
        )
        found.append((outcome, line.toolkit, "native"))
    for block in SECTION:
        if block.language == "toml":
            workspace = tomllib.loads(block.text)
            assert workspace["workspace"]["channel-priority"] == FLEXIBLE
            (machine,) = workspace["workspace"]["platforms"]
            specs = tuple(
                f"{name} {version}" for name, version in workspace["dependencies"].items()
            )
            scenario_ = Scenario(specs, "linux-64", machine["cuda"]["driver"])
            outcome = client_here("pixi", project).create(channels.worlds[FLEXIBLE], scenario_)
            found.append((outcome, *doc_clients.promise(block.text)))
    assert len(found) == 3
    for outcome, toolkit, fit in found:
        assert not isinstance(outcome, Refused), outcome
        packages = _packages(outcome.records)
        assert word(packages, channels) == f"{toolkit}{fit[0]}*"
        assert packages["cuda-nvcc"].version.startswith(f"{toolkit}.")


def _on_linux(scenario: Scenario) -> Scenario:
    return replace(scenario, subdir="linux-64")


@pytest.mark.parametrize(
    ("request_", "driver", "said"),
    [
        ("cuda-gpu cuda-nvcc", "12.6", "12.6n*"),
        ("cuda-gpu cuda-nvcc cuda-version=12.6", "13.0", "12.6n*"),
        ("cuda-gpu cuda-nvcc cuda-version=12", "13.0", "12.9n*"),
        ("cuda-nvcc cuda-version=12.6", None, "12.6c*"),
    ],
)
def test_the_line_that_a_refused_nvcc_of_cuda_12_is_given_installs_it(
    request_: str, driver: str | None, said: str, project: Workspace, channels: Channels
) -> None:
    """Those of `tests/unit/solve/test_why.py::test_nvcc_of_cuda_12_is_at_conda_forge`."""
    asked_ = Scenario(tuple(request_.split()), "linux-64", driver)
    outcome = client_here("conda", project).create(channels.worlds[FLEXIBLE], asked_)
    assert not isinstance(outcome, Refused), outcome
    packages = _packages(outcome.records)
    assert word(packages, channels) == said
    assert packages["cuda-nvcc"].version.startswith(f"{said[:4]}.")


def test_strict_priority_needs_each_name_of_nvcc(channels: Channels) -> None:
    """The packages of conda-forge's nvcc pin each other's builds, so none of them may be ours."""
    page = (ROOT / "docs" / "users.md").read_text(encoding="utf-8")
    said = page.partition("because conda-forge pins them to each other:")[2].partition(".\n")[0]
    names = re.findall(r"`([\w-]+)`", said)
    assert _solves(channels, names)
    for name in names:
        assert not _solves(channels, [other for other in names if other != name]), name


def _solves(channels: Channels, names: Sequence[str]) -> bool:
    """Whether cuda-gpu and conda-forge's nvcc 12.9 solve where these are conda-forge's too."""
    foreign = channel_url(channels.folders[1])
    named = ["cuda-nvcc 12.9.*", *names]
    specs = ["cuda-gpu", *(f"{foreign}::{name}" for name in named)]
    try:
        asyncio.run(
            rattler.solve(
                sources=[channel_url(folder) for folder in channels.folders],
                specs=[MatchSpec(spec) for spec in specs],
                gateway=channels.worlds[STRICT].catalogue.gateway,
                platforms=[Subdir("linux-64"), Subdir("noarch")],
                virtual_packages=Scenario((), "linux-64", "13.0").virtual_packages,
            )
        )
    except SolverError:
        return False
    return True


if __name__ == "__main__":
    main()
