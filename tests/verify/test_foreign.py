"""Picks from this channel beside conda-forge's GPU packages, whose builds depend on the toolkit.

``foreign_picks.txt`` has the answers for nine machines. docs/how-the-right-build-is-picked.md explains them, and why no
metadata of ours can improve them; the tests below check that. Run as a program, this file writes the answers of the
solvers anew. To add a request, write a line into ``foreign_picks.txt`` with nothing below it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from conftest import program_of
from ctk.core.checkout import Workspace, settings, workspace
from ctk.core.platforms import NOARCH
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags, repodata_of, write_repodata
from ctk.release.review import compiled_with
from ctk.solve.channels import universe
from ctk.solve.solve import Scenario
from ctk.verify import clients
from ctk.verify.libsolv import library
from ctk.verify.run import SolverAnswer
from kit import foreign_channel
from kit.small_channel import write
from kit.worlds import Record

RELEASES = ("12.0", "12.2", "12.6", "12.8", "12.9", "13.0", "13.2", "13.3", "13.4", "13.5")
DRIVERS = (None, "12.0", "12.2", "12.6", "12.8", "12.9", "13.0", "13.3", "13.5")
# In each test run: without a driver, on both sides of what conda-forge compiles with, and the newest.
USUAL = (None, "12.6", "12.9", "13.0", "13.5")
PICKS = Path(__file__).with_name("foreign_picks.txt")
SOLVERS = ("rattler", "libsolv")
# Order of the channels -> the order that it is compared with.
ORDERS = {"alone": "", "second": "alone", "ours": ""}
ASKED = [(order, solver) for order in ORDERS for solver in SOLVERS]
# The metapackage that asks for CUDA builds.
GPU = "cuda-gpu"
CUDA, CPU, UNNAMED = f"{GPU} pytorch cuda-core", "pytorch=*=cpu* cuda-core", "pytorch cuda-core"
# The requests that the docs recommend; they give the same in every client.
NAMED = (CUDA, CPU, "pytorch-gpu cuda-core", f"{GPU} jaxlib cuda-core", f"{GPU} cudf cuda-core")


@dataclass(frozen=True)
class Asked:
    """A request on a platform, and the lines of its block: ``ours`` or ``ours/libsolv`` -> the answer by driver."""

    subdir: str
    request: str
    lines: dict[str, list[str]]

    def __str__(self) -> str:
        return f"{self.subdir} {self.request}"

    def right(self, order: str, solver: str) -> list[str]:
        """The right answers of a solver; an order without a line has those of the order that it is compared with."""
        for line in (order, f"{order}/{solver}"):
            if line in self.lines:
                return self.lines[line]
        return self.right(ORDERS[order], solver)

    def scenario(self, driver: str | None) -> Scenario:
        return Scenario(tuple(self.request.split()), self.subdir, driver, "9.0" if driver else None)


def read(text: str) -> Iterator[Asked]:
    asked: Asked | None = None
    for line in text.splitlines():
        if line.startswith("  ") and asked:
            who, *answers = line.split()
            assert len(answers) == len(DRIVERS), line
            asked.lines[who] = answers
        elif not line.startswith("#"):
            if asked:
                yield asked
            subdir, _, request = line.partition(" ")
            asked = Asked(subdir, request, {})
    assert asked
    yield asked


def written(asked: Asked, answers: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """The block of a request with the answers by order and solver, without lines that `Asked.right` can do without."""
    yield str(asked)
    for order, other in ORDERS.items():
        by = {solver: tuple(answers[order, solver]) for solver in SOLVERS}
        if other and all(by[solver] == tuple(answers[other, solver]) for solver in by):
            continue
        lines = {f"/{solver}": found for solver, found in by.items()}
        if len(set(by.values())) == 1:
            lines = {"": next(iter(by.values()))}
        for who, found in lines.items():
            yield f"  {order + who:<17} {' '.join(f'{answer:<9}' for answer in found)}".rstrip()


MATRIX = {str(asked): asked for asked in read(PICKS.read_text())}


class Orders:
    """The channels in each order; each channel is written once."""

    def __init__(self, project: Workspace, folder: Path) -> None:
        self._project, self._folder = project, folder
        self._foreign = write(folder / "conda-forge", foreign_channel.records(project.variants))
        self._base = write_repodata(universe(), folder / "base")

    def __getitem__(self, order: str) -> list[Path]:
        if order == "alone":
            return [self._foreign, self._base]
        if order == "second":
            return [self._foreign, self.first("ours")[0], self._base]
        return self.first("ours")

    def first(
        self,
        name: str,
        keep: Callable[[Record], bool] = lambda record: True,
        releases: Sequence[str] = RELEASES,
        also: Sequence[str] = (),
    ) -> list[Path]:
        """Our channel first: the default recipes for `releases`, with more recipes, or with only some records."""
        folder = self._folder / name
        if not folder.exists():
            recipes = (*(settings(self._project.root).default.recipes or ()), *also)
            request = Request(releases, recipes, foreign_channel.SUBDIRS)
            tags = python_tags(self._project.build_config)
            content = planned_repodata(plan(published_set(self._project), request, tags))
            for subdir in content.values():
                found = subdir["packages.conda"].items()
                subdir["packages.conda"] = {file: record for file, record in found if keep(record)}
            write_repodata(content, folder)
        return [folder, self._foreign, self._base]


@pytest.fixture(scope="module")
def orders(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    folder = tmp_path_factory.mktemp("beside")
    yield Orders(project, folder)
    shutil.rmtree(folder)


Ask = Callable[..., list[SolverAnswer]]


def asking(name: str, project: Workspace) -> Ask:
    """Returns a function that asks one of `SOLVERS`."""

    def answers(asked: Asked, channels: Sequence[Path], drivers: Iterable[str | None] = DRIVERS) -> list[SolverAnswer]:
        by, scenarios = clients.solver(name, project), [asked.scenario(driver) for driver in drivers]
        found = {answer.scenario: answer for answer in by.solve_all(scenarios, channels)}
        return [found[scenario] for scenario in scenarios]

    return answers


@pytest.fixture
def ask(request: pytest.FixtureRequest, project: Workspace) -> Ask:
    name = request.getfixturevalue("solver")
    if name != "rattler" and not library(project).exists():
        pytest.skip("libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler")
    return asking(name, project)


def word(asked: Asked, answer: SolverAnswer) -> str:
    """An answer in the form of ``foreign_picks.txt``."""
    if not answer.solved or answer.removed:
        return "none"
    toolkit = answer.records.get("cuda-version")
    package = next(spec for spec in asked.request.split() if spec != GPU).partition("=")[0]
    kind = next((kind for kind in ("cuda", "cpu") if kind in answer.records[package].build), "")
    fit = toolkit.build[0] if toolkit and toolkit.build[0] in "nc" else ""
    return f"{kind}{toolkit.version if toolkit else ''}{fit}"


def words(asked: Asked, order: str, ask: Ask, orders: Orders, drivers: Sequence[str | None] = DRIVERS) -> list[str]:
    return [word(asked, answer) for answer in ask(asked, orders[order], drivers)]


@pytest.mark.parametrize("drivers", [USUAL, pytest.param(DRIVERS, marks=pytest.mark.sweep)], ids=["usual", "all"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("order", ["alone", "ours", pytest.param("second", marks=pytest.mark.sweep)])
def test_the_picks_are_those_that_are_written_down(
    solver: str, order: str, drivers: Sequence[str | None], ask: Ask, orders: Orders
) -> None:
    found = {name: words(asked, order, ask, orders, drivers) for name, asked in MATRIX.items()}
    right = {name: dict(zip(DRIVERS, asked.right(order, solver), strict=True)) for name, asked in MATRIX.items()}
    assert found == {name: [by[driver] for driver in drivers] for name, by in right.items()}


def main() -> None:
    """Writes ``foreign_picks.txt``, which needs libsolv."""
    project = workspace()
    head = [line for line in PICKS.read_text().splitlines() if line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        orders, ask = Orders(project, Path(folder)), {solver: asking(solver, project) for solver in SOLVERS}
        blocks = [
            written(asked, {(order, by): words(asked, order, ask[by], orders) for order, by in ASKED})
            for asked in MATRIX.values()
        ]
        lines = [*head, *(line for block in blocks for line in block)]
    PICKS.write_text("\n".join(lines) + "\n")


# --- the data


def test_release_check_sees_what_conda_forge_compiles_with(project: Workspace, orders: Orders, tmp_path: Path) -> None:
    foreign = orders["alone"][0]
    assert compiled_with(foreign) == settings(project.root).conda_forge.minors
    text = (foreign / "linux-64" / "repodata.json").read_text().replace("cuda-version >=13.4,", "cuda-version >=13.6,")
    moved = write_repodata({"linux-64": json.loads(text), NOARCH: repodata_of(NOARCH, {})}, tmp_path)
    assert compiled_with(moved) == ["12.9", "13.6"]


# --- what the picks show


def picks(name: str, order: str, solver: str) -> dict[str | None, str]:
    """Driver -> answer."""
    return dict(zip(DRIVERS, MATRIX[name].right(order, solver), strict=True))


@pytest.mark.parametrize("solver", SOLVERS)
def test_each_of_the_three_is_needed(solver: str, ask: Ask, orders: Orders) -> None:
    """conda-forge's minors, the metapackage, and nvJitLink for an older native toolkit."""

    def found(request: str, channels: list[Path], *drivers: str) -> list[str]:
        asked = MATRIX[f"linux-64 {request}"]
        return [word(asked, answer) for answer in ask(asked, channels, drivers)]

    without = orders.first("without 13.4", releases=[minor for minor in RELEASES if minor != "13.4"])
    assert found(CUDA, without, "13.0", "13.5") == ["cuda12.9n", "cuda12.9n"]
    first = ["cuda12.9n", "cuda12.9n"] if solver == "rattler" else ["cpu13.0n", "cpu13.5n"]
    assert found(UNNAMED, without, "13.0", "13.5") == first
    if solver != "rattler":
        assert found(UNNAMED, orders["ours"], "12.6", "13.0", "13.3") == ["cpu12.6n", "cpu13.0n", "cpu13.3n"]
    cudf = f"{GPU} cudf cuda-core"
    tied = orders.first("tied", lambda r: r["name"] != "libnvjitlink" or not r["build"].startswith("newer"))
    assert found(cudf, orders["ours"], "12.6", "13.0", "13.3") == ["cuda12.6n", "cuda13.0n", "cuda13.3n"]
    assert found(cudf, tied, "12.6", "13.0") == ["cuda12.9c", "cuda12.9n"]
    # A package that the channel has for some minors hides conda-forge's for all: triton needs cuda-cuobjdump, which
    # NVIDIA's wheels have from 13.2 on. The default set leaves it out.
    hiding = orders.first("hiding", also=("cuda-cuobjdump", "cuda-nvdisasm"))
    assert found(CUDA, hiding, "12.6", "12.9", "13.5") == ["none", "none", "cuda13.4n"]


# --- the page


TABLE = re.compile(r"<!-- beside, (\w+): .*? -->\n(.*?)<!-- end of beside -->", re.S)
TABLES = [
    (page, *found.groups())
    for page in sorted((workspace().root / "docs").rglob("*.md"))
    for found in TABLE.finditer(page.read_text())
]


@pytest.mark.parametrize(
    ("order", "table"), [pytest.param(*rest, id=f"{page.stem}-{rest[0]}") for page, *rest in TABLES]
)
def test_the_pages_say_what_the_picks_are(order: str, table: str) -> None:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "`" in line[:4]]
    assert len(lines) > 3
    for request, driver, libsolv, rattler in lines:
        name = f"linux-64 {request.strip('`')}"
        for solver, said in (("libsolv", libsolv), ("rattler", rattler)):
            kind, _, toolkit = said.replace("*", "").rpartition(", ")
            version, _, fit = toolkit.partition(" ")
            assert picks(name, order, solver)[driver] == f"{kind.lower()}{version}{fit[:1]}", name


# --- the clients themselves


@pytest.mark.parametrize("name", [name for name in clients.NAMES if not name.startswith("libsolv")])
def test_the_clients_that_are_here_pick_what_the_page_says(name: str, project: Workspace, orders: Orders) -> None:
    """The recommended requests; and requests without a named build, except for classic, which takes newest versions.

    conda does not pass on the order of the specs, so with rattler `cuda-gpu` may as well be last.
    """
    program_of(name)
    solver = "rattler" if name in ("pixi", "conda-rattler") else "libsolv"
    unnamed = [(order, request) for order in ("ours", "alone") for request in (UNNAMED, "jaxlib cuda-core")]
    named = [request for request in NAMED if name != "conda-classic" or "cudf" not in request]
    last = picks(f"linux-64 {UNNAMED} {GPU}", "ours", "rattler")
    for order, request in [*(("ours", request) for request in named), *(unnamed if name != "conda-classic" else ())]:
        asked = MATRIX[f"linux-64 {request}"]
        scenarios = {replace(asked.scenario(driver), arch=None): driver for driver in ("12.6", "13.0")}
        for answer in clients.solver(name, project).solve_all(scenarios, orders[order]):
            driver = scenarios[answer.scenario]
            right = {picks(str(asked), order, solver)[driver]}
            right |= {last[driver]} if (name, request) == ("conda-rattler", CUDA) else set()
            assert word(asked, answer) in right, (order, request, driver)


if __name__ == "__main__":
    sys.exit(main())
