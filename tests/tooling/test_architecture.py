"""The picture of the tooling is what the modules import, and the rules of its stations hold."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.architecture.__main__ import picture, run, tables
from ctk.architecture.imports import THE_TABLE, Table, edges, modules, shortest
from ctk.architecture.stations import Station
from ctk.errors import OutOfDate, RuleBroken
from ctk.paths import Workspace

SVG = "{http://www.w3.org/2000/svg}"
SMALL = Table(
    stations=(
        Station("one", "first", ("a",), row=0, step=1),
        Station("two", "second", ("b", "p"), ("one",), row=1, step=2),
        Station("three", "third", ("c", "p.late"), ("two",), row=2, step=3),
    ),
    shared=Station("shared", "for all", ("errors",)),
    command_line=Station("commands", "on top", ("cli",)),
    reaches_back={},
)
KEPT = {
    "a": {"errors"},
    "b": {"a"},
    "p": set[str](),
    "p.other": {"a"},
    "p.late": {"b"},
    "c": {"b"},
    "errors": set[str](),
    "cli": {"a", "c"},
}


def test_the_stations_of_this_checkout_keep_their_rules_and_the_picture_is_up_to_date() -> None:
    assert run(Workspace(ROOT), check=True) == []


def test_imports_that_keep_the_rules_become_edges_between_stations() -> None:
    found = edges(KEPT, SMALL)
    assert found["three"] == {"two"}
    assert found["commands"] == {"one", "three"}
    assert found["one"] == {"shared"}


@pytest.mark.parametrize(
    ("module", "imports", "said"),
    [
        ("a", {"b"}, "one may not import two"),
        ("a", {"b"}, "one is not below two, so the two could go round in a circle"),
        ("b", {"a", "cli"}, "nothing imports the command line"),
        ("errors", {"a"}, "what is shared imports no station, and this is one: one"),
        ("c", {"b", "a"}, "three reaches past the step before it, and nothing says why"),
        ("new", set(), "new: has no station"),
        ("newer.inside", set(), "newer.inside: has no station"),
    ],
)
def test_a_broken_rule_names_the_modules(module: str, imports: set[str], said: str) -> None:
    with pytest.raises(RuleBroken, match=said) as raised:
        edges({**KEPT, module: imports}, SMALL)
    assert all(f"{module} imports {other}" in raised.value.cause for other in imports - KEPT.get(module, set()))


def test_a_table_that_says_more_than_is_true_is_refused() -> None:
    with pytest.raises(RuleBroken, match="gone: is in the table, and there is no such module"):
        edges(KEPT, replace(SMALL, shared=replace(SMALL.shared, modules=("errors", "gone"))))
    with pytest.raises(RuleBroken, match="three: reaches back to one in the table, and does not"):
        edges(KEPT, replace(SMALL, reaches_back={("three", "one"): "a reason"}))
    with pytest.raises(RuleBroken, match="three: may use one in the table, and does not"):
        edges(KEPT, replace(SMALL, stations=(*SMALL.stations[:2], replace(SMALL.stations[2], uses=("one", "two")))))


def test_a_reason_lets_a_step_reach_back() -> None:
    last = replace(SMALL.stations[2], uses=("one", "two"))
    table = replace(SMALL, stations=(*SMALL.stations[:2], last), reaches_back={("three", "one"): "a reason"})
    assert edges({**KEPT, "c": {"a", "b"}}, table)["three"] == {"one", "two"}


def test_imports_are_read_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside functions, for types only, and of one name of a module: each ties modules together."""
    folder = tmp_path / "sample_of_imports"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("def use():\n    from sample_of_imports import b\n    return b\n")
    (folder / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sample_of_imports.c import thing\n"
    )
    (folder / "c.py").write_text("import json\nthing = json\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert modules("sample_of_imports") == {"a": {"b"}, "b": {"c"}, "c": frozenset()}


def test_only_arrows_that_do_not_follow_from_others_are_drawn() -> None:
    given = {"a": frozenset[str](), "b": frozenset({"a"}), "c": frozenset({"a", "b"}), "d": frozenset({"a", "c"})}
    assert shortest(given, "abcd") == {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}


def test_the_picture_has_every_station_as_text_and_says_the_same_in_words() -> None:
    tree = ET.fromstring(picture(edges(modules("ctk"))))
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    assert {station.name for station in THE_TABLE.all} <= set(texts)
    assert tree.get("role") == "img"
    told = tree.findtext(f"{SVG}desc") or ""
    assert all(
        f"{station.name}{'' if not station.step else f' (step {station.step})'}: " in told
        for station in THE_TABLE.stations
    )
    assert "plan (step 3): recipes and locks to builds, after lock." in told


def test_no_box_lies_on_another_and_no_text_is_wider_than_its_box() -> None:
    places = [(station.row, station.column) for station in THE_TABLE.stations]
    assert len(set(places)) == len(places)
    # At 11.5 px a letter of a sans-serif font takes 6 px on average; the boxes are 168 px wide.
    assert all(len(station.does) <= 27 and len(station.name) <= 18 for station in THE_TABLE.stations)


def test_steps_count_up_from_one() -> None:
    steps = sorted(station.step for station in THE_TABLE.stations if station.step)
    assert steps == list(range(1, 10))


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """A folder with a page that has no table yet, and no picture."""
    (tmp_path / "docs").mkdir()
    page = (ROOT / "docs" / "architecture.md").read_text()
    begin, _, rest = page.partition("<!-- stations table, written by `scripts/architecture` -->\n")
    end = "<!-- end of the table -->"
    marks = f"<!-- stations table, written by `scripts/architecture` -->\n{end}"
    (tmp_path / "docs" / "architecture.md").write_text(begin + marks + rest.partition(end)[2])
    return Workspace(tmp_path)


def test_what_is_stale_is_told_and_writing_mends_it(checkout: Workspace) -> None:
    with pytest.raises(OutOfDate, match=r"docs/architecture\.svg is not what the modules import"):
        run(checkout, check=True)
    assert run(checkout, check=False) == ["docs/architecture.svg", "docs/architecture.md"]
    assert run(checkout, check=True) == []
    assert run(checkout, check=False) == []
    page = checkout.root / "docs" / "architecture.md"
    page.write_text(page.read_text().replace("| 1. index |", "| 1. indexes |"))
    with pytest.raises(OutOfDate, match=r"the table of stations in docs/architecture\.md"):
        run(checkout, check=True)


def test_the_table_says_each_module_once() -> None:
    text = tables(edges(modules("ctk")))
    for station in THE_TABLE.all:
        for module in station.modules:
            assert text.count(f"`{module}`") == 1


def test_the_command_ends_with_the_code_of_its_error(checkout: Workspace) -> None:
    command = [sys.executable, "-m", "ctk.architecture", "--check"]
    env = {"CTK_ROOT": str(checkout.root), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=checkout.root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == OutOfDate.exit_code
    assert done.stderr.splitlines()[-1] == "next: run `scripts/architecture`"
