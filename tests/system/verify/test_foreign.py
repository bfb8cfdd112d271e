"""Picks from this channel beside conda-forge's GPU packages, whose builds depend on the toolkit.

``foreign_picks.txt`` has the answers for nine machines. docs/how-the-right-build-is-picked.md
explains them, and why no metadata of ours can improve them; the tests below check that. Run as a
program, this file writes the answers of the solvers anew, or prints those to the requests that it
is given. To add a request, write a line with nothing below it into ``foreign_picks.txt``.
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
from packaging.version import Version

from conftest import program_of
from ctk.core.checkout import Workspace, settings, workspace
from ctk.core.platforms import NOARCH
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    repodata_of,
    write_repodata,
)
from ctk.release.review import compiled_with
from ctk.solve.channels import universe
from ctk.solve.solve import Scenario
from ctk.verify import clients
from ctk.verify.clients import RattlerSolver
from ctk.verify.libsolv import Libsolv, library
from ctk.verify.run import SolverAnswer
from kit import foreign_channel
from kit.small_channel import write
from kit.worlds import Record

RELEASES = ("12.0", "12.2", "12.6", "12.8", "12.9", "13.0", "13.2", "13.3", "13.4", "13.5")
DRIVERS = (None, "12.0", "12.2", "12.6", "12.8", "12.9", "13.0", "13.3", "13.5")
PICKS = Path(__file__).with_name("foreign_picks.txt")
SOLVERS = ("rattler", "libsolv", "libsolv-2.8.1")
# Order of the channels -> the order that it is compared with. rattler has no flexible priority.
# `-read`: without what conda_forge.yaml assumes of conda-forge's toolkits.
ORDERS = {
    "alone": "",
    "alone-read": "alone",
    "second": "alone",
    "ours": "",
    "ours-read": "ours",
    "flexible": "ours",
}
ASKED = [
    (order, solver)
    for order in ORDERS
    for solver in SOLVERS
    if (order, solver) != ("flexible", "rattler")
]
# The metapackage that asks for CUDA builds, and the same without its compat build.
GPU, NATIVE = "cuda-gpu", "cuda-native"
CUDA, CPU, UNNAMED = f"{GPU} pytorch cuda-core", "pytorch=*=cpu* cuda-core", "pytorch cuda-core"
# The requests that the docs recommend; they give the same in every client.
NAMED = (CUDA, CPU, "pytorch-gpu cuda-core", f"{GPU} jaxlib cuda-core", f"{GPU} cudf cuda-core")


@dataclass(frozen=True)
class Asked:
    """A request on a platform, and the lines of its block: ``ours`` or ``ours/libsolv`` -> the
    answer by driver.
    """

    subdir: str
    request: str
    lines: dict[str, list[str]]

    def __str__(self) -> str:
        return f"{self.subdir} {self.request}"

    def right(self, order: str, solver: str) -> list[str]:
        """The right answers of a solver.

        An order without a line has those of the order that it is compared with.
        """
        for line in (order, f"{order}/{solver}", f"{order}/{solver.partition('-')[0]}"):
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
    """The block of a request with the answers by order and solver, without lines that `Asked.right`
    can do without.
    """
    yield str(asked)
    for order, other in ORDERS.items():
        by = {
            solver: tuple(answers[order, solver])
            for solver in SOLVERS
            if (order, solver) in answers
        }
        if other and all(by[solver] == tuple(answers[other, solver]) for solver in by):
            continue
        lines = {f"/{solver}": found for solver, found in by.items()}
        if len(set(by.values())) == 1:
            lines = {"": next(iter(by.values()))}
        elif by["libsolv"] == by["libsolv-2.8.1"]:
            del lines["/libsolv-2.8.1"]
        for who, found in lines.items():
            yield f"  {order + who:<17} {' '.join(f'{answer:<9}' for answer in found)}".rstrip()


MATRIX = {str(asked): asked for asked in read(PICKS.read_text())}


class Orders:
    """The channels in each order; each channel is written once."""

    def __init__(self, project: Workspace, folder: Path) -> None:
        self._project, self._folder = project, folder
        made = {
            read: foreign_channel.records(project.variants, assume=not read)
            for read in ("", "-read")
        }
        self._foreign, self._read = (
            write(folder / f"conda-forge{name}", made[name]) for name in made
        )
        self._base = write_repodata(universe(), folder / "base")

    def __getitem__(self, order: str) -> list[Path]:
        ours, foreign = (
            self.first("ours")[0],
            self._read if order.endswith("-read") else self._foreign,
        )
        first = {"alone": [foreign], "second": [foreign, ours]}.get(
            order.removesuffix("-read"), [ours, foreign]
        )
        return [*first, self._base]

    def first(
        self,
        name: str,
        keep: Callable[[Record], bool] = lambda record: True,
        releases: Sequence[str] = RELEASES,
        also: Sequence[str] = (),
    ) -> list[Path]:
        """Our channel first: the default recipes for `releases`, with more recipes, or with only
        some records.
        """
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

    def answers(
        asked: Asked,
        channels: Sequence[Path],
        drivers: Iterable[str | None] = DRIVERS,
        strict: bool = True,
    ) -> list[SolverAnswer]:
        by = (
            RattlerSolver()
            if name == "rattler"
            else Libsolv(project, lock=name == "libsolv", strict=strict)
        )
        scenarios = [asked.scenario(driver) for driver in drivers]
        found = {answer.scenario: answer for answer in by.solve_all(scenarios, channels)}
        return [found[scenario] for scenario in scenarios]

    return answers


@pytest.fixture
def ask(request: pytest.FixtureRequest, project: Workspace) -> Ask:
    name = request.getfixturevalue("solver")
    if name != "rattler" and not library(project).exists():
        pytest.skip(
            "libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler"
        )
    return asking(name, project)


def word(asked: Asked, answer: SolverAnswer) -> str:
    """An answer in the form of ``foreign_picks.txt``."""
    if not answer.solved or answer.removed:
        return "none"
    toolkit = answer.records.get("cuda-version")
    names = [spec.partition("=")[0] for spec in asked.request.split()]
    package = next(name for name in names if name != GPU)
    kind = next((kind for kind in ("cuda", "cpu") if kind in answer.records[package].build), "")
    fit = toolkit.build[0] if toolkit and toolkit.build[0] in "nc" else ""
    return f"{kind}{toolkit.version if toolkit else ''}{fit}"


def words(asked: Asked, order: str, ask: Ask, orders: Orders) -> list[str]:
    return [word(asked, answer) for answer in ask(asked, orders[order], strict=order != "flexible")]


@pytest.mark.parametrize(
    ("order", "solver"),
    # In each run, the older libsolv answers for our channel alone.
    [
        pytest.param(
            *asked, marks=pytest.mark.sweep if "2.8" in asked[1] and asked[0] != "ours" else []
        )
        for asked in ASKED
    ],
)
def test_the_picks_are_those_that_are_written_down(
    solver: str, order: str, ask: Ask, orders: Orders
) -> None:
    found = {name: words(asked, order, ask, orders) for name, asked in MATRIX.items()}
    assert found == {name: asked.right(order, solver) for name, asked in MATRIX.items()}


def main(*names: str) -> None:
    """Writes ``foreign_picks.txt``, or prints the blocks of some requests. Needs libsolv."""
    project = workspace()
    head = [line for line in PICKS.read_text().splitlines() if line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        orders, ask = (
            Orders(project, Path(folder)),
            {solver: asking(solver, project) for solver in SOLVERS},
        )
        blocks = [
            written(
                asked, {(order, by): words(asked, order, ask[by], orders) for order, by in ASKED}
            )
            for asked in (MATRIX[name] for name in names or MATRIX)
        ]
        lines = [line for block in blocks for line in block]
    if names:
        print(f"{'driver':<19}", " ".join(f"{driver or 'none':<9}" for driver in DRIVERS).rstrip())
        print(*lines, sep="\n")
    else:
        PICKS.write_text("\n".join([*head, *lines]) + "\n")


# --- the data


def test_release_check_sees_what_conda_forge_compiles_with(
    project: Workspace, orders: Orders, tmp_path: Path
) -> None:
    foreign = orders["alone"][0]
    assert compiled_with(foreign) == settings(project.root).conda_forge.minors
    text = (
        (foreign / "linux-64" / "repodata.json")
        .read_text()
        .replace("cuda-version >=13.4,", "cuda-version >=13.6,")
    )
    moved = write_repodata(
        {"linux-64": json.loads(text), NOARCH: repodata_of(NOARCH, {})}, tmp_path
    )
    assert compiled_with(moved) == ["12.9", "13.6"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_conda_forge_has_older_versions_of_what_is_updated_one_by_one(
    solver: str, ask: Ask, orders: Orders
) -> None:
    older = {
        "cuda-bindings": "12.9.6",
        "cuda-core": "1.0.1",
        "numba-cuda": "0.28.2",
        "libcudf": "26.06.01",
    }
    for name, version in older.items():
        for request, is_older in ((name, False), (f"{name}={version}", True)):
            (answer,) = ask(Asked("linux-64", request, {}), orders["alone"], ["13.0"])
            assert answer.solved, (request, answer.problem)
            assert (answer.records[name].version == version) is is_older, request


# Rattler has no flexible priority.
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "rattler"])
def test_conda_forges_nvcc_has_the_ptxas_that_it_was_built_with(
    solver: str, ask: Ask, orders: Orders
) -> None:
    """With flexible priority a solver may take packages of one name from two channels."""
    foreign = orders["alone"][0].name
    for request in (
        "cuda-nvcc-impl cuda-nvcc-tools cuda-version=12.9",
        f"{GPU} cuda-nvcc-impl jaxlib",
        f"{GPU} cuda-nvcc",
    ):
        (answer,) = ask(Asked("linux-64", request, {}), orders["flexible"], ["12.9"], strict=False)
        assert answer.solved, (request, answer.problem)
        for name in ("cuda-nvcc-impl", "cuda-nvcc-tools", "cuda-nvvm-tools", "cuda-crt-tools"):
            assert answer.records[name].channel.rstrip("/").endswith(f"/{foreign}"), (
                request,
                answer.records[name],
            )


# --- what the picks show


def picks(name: str, order: str, solver: str) -> dict[str | None, str]:
    """Driver -> answer."""
    return dict(zip(DRIVERS, MATRIX[name].right(order, solver), strict=True))


def test_who_asks_for_cuda_builds_gets_them_in_every_solver_with_the_best_toolkit_for_them() -> (
    None
):
    for name, asked in MATRIX.items():
        if asked.request.startswith(GPU):
            assert asked.lines["ours"][0] == "none", (
                f"{name}: without a driver there is nothing to ask for"
            )
            has_cuda = {"linux-aarch64 tensorflow", "win-64 lightgbm"}.isdisjoint(
                {name.replace(f"{GPU} ", "")[:-10]}
            )
            assert all(("cuda" in answer) is has_cuda for answer in asked.lines["ours"][1:]), name
    for request in NAMED:
        assert "ours" in MATRIX[f"linux-64 {request}"].lines  # one line for all solvers
    cuda, cpu = (picks(f"linux-64 {request}", "ours", "libsolv") for request in (CUDA, CPU))
    assert [cuda[driver] for driver in DRIVERS[1:]] == ["cuda12.9c"] * 4 + ["cuda12.9n"] * 3 + [
        "cuda13.4n"
    ]
    assert [cpu[driver] for driver in ("12.6", "12.9", "13.0", "13.5")] == [
        "cpu12.6n",
        "cpu12.9n",
        "cpu13.0n",
        "cpu13.5n",
    ]
    # Named last it asks the same, and pixi's solver, which decides in the order of the request,
    # takes a newer toolkit.
    last = MATRIX[f"linux-64 {UNNAMED} {GPU}"]
    assert last.right("ours", "libsolv") == [*cuda.values()]
    assert last.right("ours", "rattler")[6:8] == ["cuda13.4c"] * 2
    assert picks(f"linux-64 {GPU} cuda-core", "ours", "rattler")["13.0"] == "cuda13.0n"


@pytest.mark.parametrize("order", ["ours", "ours-read"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_cuda_native_takes_what_cuda_gpu_takes_where_that_is_native_and_else_refuses(
    solver: str, order: str, ask: Ask, orders: Orders
) -> None:
    """So a page can print the one in place of the other, and what is created is the same."""
    compared = set()
    for asked in MATRIX.values():
        first, _, rest = asked.request.partition(" ")
        if first != GPU:
            continue
        either = ask(asked, orders[order])
        native = ask(replace(asked, request=f"{NATIVE} {rest}"), orders[order])
        for driver, one, other in zip(DRIVERS, either, native, strict=True):
            is_native = word(asked, one).endswith("n")
            compared.add(is_native)
            records = {name: record for name, record in other.records.items() if name != NATIVE}
            assert records == (one.records if is_native else {}), (str(asked), driver)
    assert compared == {True, False}


@pytest.mark.parametrize(("order", "solver"), [asked for asked in ASKED if "alone" not in asked[0]])
def test_what_is_worse_than_conda_forge_alone_has_one_reason_and_one_line_to_type(
    order: str, solver: str
) -> None:
    worse = [
        (asked, driver, alone, here)
        for name, asked in MATRIX.items()
        for driver, alone, here in zip(
            DRIVERS, asked.right("alone", solver), picks(name, order, solver).values(), strict=True
        )
        if (alone.startswith("cuda") and not here.startswith("cuda"))
        or (alone != "none" and here == "none")
    ]
    assert bool(worse) is (order != "second" and solver != "rattler")
    for asked, driver, alone, here in worse:
        # cuda-core is decided first, for the driver's own toolkit; the CUDA builds need a newer
        # one.
        assert (
            driver
            and here == f"cpu{driver}n"
            and Version(alone.removeprefix("cuda")) > Version(driver)
        ), asked
        fixed = [
            picks(f"{asked.subdir} {GPU} {asked.request}", order, by)[driver]
            for by in SOLVERS[order != "ours" :]
        ]
        assert all(answer.startswith("cuda") for answer in fixed), asked


@pytest.mark.parametrize("solver", SOLVERS)
def test_each_of_the_three_is_needed(solver: str, ask: Ask, orders: Orders) -> None:
    """conda-forge's minors, the metapackage, and nvJitLink for an older native toolkit."""

    def found(request: str, channels: list[Path], *drivers: str) -> list[str]:
        asked = MATRIX[f"linux-64 {request}"]
        return [word(asked, answer) for answer in ask(asked, channels, drivers)]

    without = orders.first(
        "without 13.4", releases=[minor for minor in RELEASES if minor != "13.4"]
    )
    assert found(CUDA, without, "13.0", "13.5") == ["cuda12.9n", "cuda12.9n"]
    first = ["cuda12.9n", "cuda12.9n"] if solver == "rattler" else ["cpu13.0n", "cpu13.5n"]
    assert found(UNNAMED, without, "13.0", "13.5") == first
    if solver != "rattler":
        assert found(UNNAMED, orders["ours"], "12.6", "13.0", "13.3") == [
            "cpu12.6n",
            "cpu13.0n",
            "cpu13.3n",
        ]
    cudf = f"{GPU} cudf cuda-core"
    tied = orders.first(
        "tied", lambda r: r["name"] != "libnvjitlink" or not r["build"].startswith("newer")
    )
    assert found(cudf, orders["ours"], "12.6", "13.0", "13.3") == [
        "cuda12.6n",
        "cuda13.0n",
        "cuda13.3n",
    ]
    # Neither is the driver's own toolkit. Where cudf has one version only, rattler's is 12.9 too.
    newer = "cuda13.4c" if solver == "rattler" else "cuda12.9n"
    assert found(cudf, tied, "12.6", "13.0") == ["cuda12.9c", newer]
    # A package that the channel has for some minors hides conda-forge's for all: triton needs
    # cuda-cuobjdump, which NVIDIA's wheels have from 13.2 on. The default set leaves it out.
    hiding = orders.first("hiding", also=("cuda-cuobjdump", "cuda-nvdisasm"))
    assert found(CUDA, hiding, "12.6", "12.9", "13.5") == ["none", "none", "cuda13.4n"]


# --- this channel's own PyTorch


@pytest.mark.parametrize("solver", SOLVERS)
def test_behind_this_channels_pytorch_nobody_gets_conda_forges(
    solver: str, ask: Ask, orders: Orders, project: Workspace
) -> None:
    """With strict priority, whatever is named beside it, CUDA builds come from here alone."""
    stated = settings(project.root).libraries
    releases = (*RELEASES, "libraries-12", "libraries-13")
    channels = orders.first("pytorch", releases=releases, also=(*stated.recipes, *stated.toolkit))
    own, drivers = channels[0].name, [driver for driver in DRIVERS if driver]
    for request in (
        "pytorch",
        "pytorch cuda-core",
        f"{GPU} pytorch cuda-core",
        "pytorch-gpu",
        "cuda-core pytorch",
    ):
        asked = Asked("linux-64", request, {})
        # Without a driver too, if nothing asks for one: this build runs on CPUs.
        for answer in ask(asked, channels, drivers if GPU in request else DRIVERS):
            assert answer.solved, (request, answer.scenario)
            for name in ("pytorch", "libtorch", "triton"):
                record = answer.records[name]
                assert record.build.startswith("cuda") and own in record.channel, (
                    request,
                    answer.scenario,
                    record,
                )
    by_driver = dict(
        zip(drivers, ask(Asked("linux-64", "pytorch", {}), channels, drivers), strict=True)
    )
    picked = {driver: by_driver[driver].records for driver in ("12.2", "12.8", "13.0", "13.5")}
    assert {
        driver: (
            records["cuda-version"].version,
            records["cuda-version"].build[0],
            records["pytorch"].version[:4],
        )
        for driver, records in picked.items()
    } == {
        "12.2": ("12.9", "c", "2.10"),
        "12.8": ("12.8", "n", "2.10"),
        "13.0": ("13.0", "n", "2.14"),
        "13.5": ("13.5", "n", "2.15"),
    }


# --- the page


TABLE = re.compile(r"<!-- beside, ([\w-]+): .*? -->\n(.*?)<!-- end of beside -->", re.S)
TABLES = [
    (page, *found.groups())
    for page in sorted((workspace().root / "docs").rglob("*.md"))
    for found in TABLE.finditer(page.read_text())
]


@pytest.mark.parametrize(
    ("page", "order", "table"), [pytest.param(*of, id=f"{of[0].stem}-{of[1]}") for of in TABLES]
)
def test_the_pages_say_what_the_picks_are_as_read_and_as_assumed(
    page: Path, order: str, table: str
) -> None:
    """A line whose picks differ between the two is in a table of each."""
    other = order.removesuffix("-read") if order.endswith("-read") else f"{order}-read"
    beside = "".join(text for where, of, text in TABLES if (where, of) == (page, other))
    rows = [line for line in table.splitlines() if "`" in line[:4]]
    assert len(rows) > 1
    for row in rows:
        request, driver, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        name = f"linux-64 {request.strip('`')}"
        for solver, said in zip(("libsolv", "rattler"), cells, strict=True):
            kind, _, toolkit = said.replace("*", "").rpartition(", ")
            version, _, fit = toolkit.partition(" ")
            pick = picks(name, order, solver)[driver]
            assert pick == f"{kind.lower()}{version}{fit[:1]}", name
            assert (
                pick == picks(name, other, solver)[driver] or f"| {request} | {driver} |" in beside
            ), name


def test_the_page_for_upstream_names_what_is_assumed() -> None:
    text = " ".join((workspace().root / "docs/upstream/cpu-builds.md").read_text().split())
    said = re.search(
        r"As we read them, (.+?) have CUDA 13 builds made with ([\d.]+), and (.+?) with ([\d.]+)\.",
        text,
    )
    assert said
    assumed = {
        re.sub("conda-forge/|(-cpu|-split)?-feedstock", "", feedstock["source"]["repository"]): [
            *feedstock["assumed"].values()
        ]
        for feedstock in foreign_channel.FORGE["feedstocks"]
        if "assumed" in feedstock
    }
    assert assumed == {name: [said[2]] for name in re.split(", | and ", said[1])} | {
        said[3]: [said[4]]
    }


# --- the clients themselves


@pytest.mark.parametrize("name", [name for name in clients.NAMES if not name.startswith("libsolv")])
def test_the_clients_that_are_here_pick_what_the_page_says(
    name: str, project: Workspace, orders: Orders
) -> None:
    """The recommended requests.

    And requests without a named build, except for classic, which takes newest versions.
    conda has an order of its own: with rattler `cuda-gpu` comes after pytorch.
    """
    program_of(name)
    solver = "rattler" if name in ("pixi", "conda-rattler") else "libsolv"
    unnamed = [
        (order, request) for order in ("ours", "alone") for request in (UNNAMED, "jaxlib cuda-core")
    ]
    named = [request for request in NAMED if name != "conda-classic" or "cudf" not in request]
    last = picks(f"linux-64 {UNNAMED} {GPU}", "ours", "rattler")
    for order, request in [
        *(("ours", request) for request in named),
        *(unnamed if name != "conda-classic" else ()),
    ]:
        asked = MATRIX[f"linux-64 {request}"]
        scenarios = {
            replace(asked.scenario(driver), arch=None): driver for driver in ("12.6", "13.0")
        }
        for answer in clients.solver(name, project).solve_all(scenarios, orders[order]):
            driver = scenarios[answer.scenario]
            right = picks(str(asked), order, solver)[driver]
            if (name, request) == ("conda-rattler", CUDA):
                right = last[driver]
            assert word(asked, answer) == right, (order, request, driver)


def test_conda_with_rattler_decides_on_a_spec_with_a_build_first(
    project: Workspace, orders: Orders
) -> None:
    """The two remedies of the page, and the error that one of them is."""
    program_of("conda-rattler")
    first = MATRIX[f"linux-64 {CUDA}"].right("ours", "rattler")
    right = dict(zip(DRIVERS, first, strict=True))
    asked = Asked("linux-64", f"{GPU}=*=* pytorch cuda-core", {})
    native = Asked("linux-64", f"{CUDA} cuda-version=*=native_*", {})
    found = {}
    for question in (asked, native):
        for driver in ("12.6", "13.0"):
            scenario = replace(question.scenario(driver), arch=None)
            answers = clients.solver("conda-rattler", project).solve_all([scenario], orders["ours"])
            found[question.request, driver] = word(question, next(iter(answers)))
    assert found == {
        (asked.request, "12.6"): right["12.6"],
        (asked.request, "13.0"): right["13.0"],
        (native.request, "12.6"): "none",
        (native.request, "13.0"): right["13.0"],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
