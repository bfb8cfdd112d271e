"""The table of docs/environments.md: what adding pytorch does to an environment, by models of the
clients.

The models are of four clients; each cell was seen in the clients themselves, and is asked of those
that are on PATH.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from conftest import program_of
from ctk.core.checkout import Workspace, settings, workspace
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    write_repodata,
)
from ctk.solve.channels import universe
from ctk.solve.solve import Scenario
from ctk.verify.libsolv import library
from ctk.verify.life import Client, Environment, Outcome, Refused, World, install
from ctk.verify.life_clients import LifeProgram
from ctk.verify.life_models import CondaLibmamba, CondaRattler, Mamba, Pixi
from kit import foreign_channel
from kit.small_channel import write

RELEASES = ("12.0", "12.6", "12.9", "13.0", "13.3", "13.4", "13.5")
"""Those of the default channel, with which the page was made."""
PAGE = workspace().root / "docs" / "environments.md"
TABLE = re.compile(r"<!-- adding pytorch: .*? -->\n(.*?)<!-- end of adding -->", re.S)
_NATIVE, _REFUSED, _FOR_CPUS = "12.9 native", "refused", "for CPUs, cuda-native removed"
MORE = [
    # Not on the page, but its advice for later commands rests on it.
    ["cuda-gpu", "13.0", "cuda-gpu pytorch", _NATIVE, "13.4 compat", _NATIVE, _NATIVE],
    ["cuda-native", "13.0", "pytorch", *[_NATIVE] * 4],
    ["cuda-native", "13.0", "cuda-native pytorch", *[_NATIVE] * 4],
    ["cuda-native", "12.6", "pytorch", *[_REFUSED] * 3, _FOR_CPUS],
    ["cuda-native", "12.6", "cuda-native pytorch", _FOR_CPUS, *[_REFUSED] * 3],
    ["cuda-native", "13.0, later none", "pytorch", *[_REFUSED] * 3, _FOR_CPUS],
    ["cuda-native", "13.0, later none", "cuda-native pytorch", _FOR_CPUS, *[_REFUSED] * 3],
]
ROWS = [
    [cell.strip(" *`") for cell in line.strip("|").split("|")]
    for line in TABLE.search(PAGE.read_text())[1].splitlines()
    if line.startswith("| `")
] + MORE
COLUMNS = ("conda-libmamba", "conda-rattler", "pixi", "mamba")
CASES = [
    pytest.param(client, made, driver, typed, said, id=f"{client}-{made}-{driver}-{typed}")
    for made, driver, typed, *cells in ROWS
    for client, said in zip(COLUMNS, cells, strict=True)
]


@pytest.fixture(scope="module")
def world(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The default channel before the stand-in for conda-forge."""
    folder = tmp_path_factory.mktemp("adding")
    recipes = settings(project.root).default.recipes or ()
    request = Request(RELEASES, recipes, ("linux-64",))
    content = planned_repodata(
        plan(published_set(project), request, python_tags(project.build_config))
    )
    ours = write_repodata(content, folder / "ours")
    foreign = write(folder / "conda-forge", foreign_channel.records(project.variants))
    yield World([ours, foreign, write_repodata(universe(), folder / "base")])
    shutil.rmtree(folder)


def environment(world: World, first: str, driver: str) -> Environment:
    """What every client creates, with a Python that pytorch is built for."""
    specs = (first, "cuda-core", "python=3.13")
    pick = world.catalogue.pick(Scenario(specs, world.subdir, driver))
    assert pick and pick.fit == "native" and pick.toolkit == driver
    return Environment(specs, {record.name.normalized: record for record in pick.records})


def word(outcome: Outcome, first: str) -> str:
    """An outcome as the page has it."""
    if isinstance(outcome, Refused):
        return "refused"
    records = outcome.records
    toolkit = records["cuda-version"]
    if "cpu" in str(records["pytorch"].build):
        assert first not in records
        return f"for CPUs, {first} removed"
    assert first in records
    return f"{toolkit.version} {str(toolkit.build).split('_')[0]}"


def model(name: str, project: Workspace) -> Client:
    if name in ("mamba", "conda-libmamba") and not library(project).exists():
        pytest.skip(
            "libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler"
        )
    makers = {"mamba": Mamba, "conda-libmamba": CondaLibmamba}
    return (
        makers[name](project)
        if name in makers
        else {"conda-rattler": CondaRattler, "pixi": Pixi}[name]()
    )


def outcome(client: Client, world: World, made: str, driver: str, typed: str) -> Outcome:
    """What a later command does.

    ``13.0, later none`` is a machine whose driver is not seen then.
    """
    before, _, later = driver.partition(", later ")
    seen = later or before
    on = Scenario((), world.subdir, None if seen == "none" else seen)
    return client.change(world, environment(world, made, before), install(*typed.split()), on)


@pytest.mark.parametrize(("name", "made", "driver", "typed", "said"), CASES)
def test_the_page_says_what_adding_pytorch_does(
    name: str, made: str, driver: str, typed: str, said: str, world: World, project: Workspace
) -> None:
    found = outcome(model(name, project), world, made, driver, typed)
    assert word(found, made) == said.replace("`", "")


@pytest.mark.parametrize(
    ("name", "made", "driver", "typed", "said"), [c for c in CASES if "pixi" not in c.id]
)
def test_the_clients_that_are_here_do_what_the_page_says(
    name: str, made: str, driver: str, typed: str, said: str, world: World
) -> None:
    client = LifeProgram(name, program=program_of(name))
    with client._home:  # else the folder is left to the interpreter, which warns
        assert word(outcome(client, world, made, driver, typed), made) == said.replace("`", "")


def test_what_the_page_advises_is_never_for_cpus_and_never_compat() -> None:
    """conda: cuda-native once, and then only what is new; mamba: cuda-native each time."""
    rows = {(made, driver, typed): cells for made, driver, typed, *cells in ROWS}
    for (made, driver, typed), (*remembering, mamba) in rows.items():
        if "later" in driver:
            continue
        is_first = made == "cuda-gpu"
        names_it = typed.startswith("cuda-native ")
        if names_it:
            assert mamba in ("12.9 native", "refused")
        if names_it == is_first:
            assert {*remembering} <= {"12.9 native", "refused"}
