"""Surveys: the machines on which a request or a recipe installs, the builds there, and the changes by a pin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ctk
from ctk.authors.expected import expected_records, recipe_at, variant_files
from ctk.authors.installable import Change, Kind, Survey, alike, groups_in_words, pin_records, survey_specs
from ctk.cli.machines import _map
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.plan.recipes import Recipe
from ctk.site.pages import stand_alone
from ctk.solve.solve import Catalogue, Scenario
from ctk.verify.oracle import OracleFacts
from ctk.verify.scenarios import Matrix, matrix
from kit.small_channel import Record, base, channel, pair, record, write

HERE = this_platform()
SUBDIR = "linux-64"
RECIPE = """
schema_version: 1
context: {major: '${{ (cuda_version | split("."))[0] }}'}
package: {name: mine, version: "1.0"}
build: {number: "${{ major | int }}", string: "cuda${{ major }}_${{ major | int }}"}
requirements:
  host: ["cuda-version ${{ cuda_version }}.*", cuda-cudart-dev]
"""
BOTH_MAJORS = 'cuda_version: ["12.9", "13.0"]\n'


def more() -> Iterator[Record]:
    """Beside the small channel: the runtime with its run-exports, and a package with CUDA builds and a CPU build."""
    for toolkit in ("12.0", "12.9", "13.0", "13.4"):
        major, minor = toolkit.split(".")
        on = f">={toolkit},<{major}.{int(minor) + 1}"
        exports = {"weak": [f"cuda-cudart >={toolkit}.1,<{int(major) + 1}.0a0"]}
        for made in pair("cuda-cudart", f"{toolkit}.1", "h1", SUBDIR, on):
            yield made
            # Exact pins tie the development package's twins to the runtime's.
            tied = [f"cuda-cudart =={made['version']} {made['build']}"]
            yield {**made, "name": "cuda-cudart-dev", "depends": tied, "run_exports": exports}
    for name, needs in (("engine", ()), ("car", ("engine",))):
        yield record(name, "1.0", "cpu_0", SUBDIR, depends=list(needs))
    for made in pair("engine", "1.0", "cuda13_", SUBDIR, ">=13,<14", number=200):
        if "native" in made["build"]:
            yield made


@pytest.fixture(scope="module")
def where(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The small channel, with the locks of this checkout, from which the machines are made."""
    made = Workspace(tmp_path_factory.mktemp("checkout"))
    for place in (project.variants, project.build_config):
        (made.root / place.name).symlink_to(place)
    write(made.channel, (one for part in (channel(), more()) for one in part))
    write(made.base_channel, base())
    return made


@pytest.fixture(scope="module")
def every(known: OracleFacts) -> Matrix:
    """With machines that cannot exist: `Fewer` is without."""
    return matrix(known, ())


@pytest.fixture(scope="module")
def folders(where: Workspace) -> list[Path]:
    return [where.channel, where.base_channel]


def surveyed(folders: list[Path], every: Matrix, *specs: str, pin: str = "") -> Survey:
    return survey_specs(specs, [pin] if pin else [], Catalogue(folders, SUBDIR), every)


# --- what each machine gets


@pytest.mark.parametrize(
    "specs",
    [("cuda-core",), ("cuda-nvcc",), ("cuda-arch=9.0", "cuda-nvrtc"), ("car", "cuda-nvrtc"), ("__cuda >=12.7,<13.2",)],
    ids=" ".join,
)
def test_every_machine_gets_what_it_gets_when_it_is_solved_alone(
    folders: list[Path], every: Matrix, specs: tuple[str, ...]
) -> None:
    alone, found = Catalogue(folders, SUBDIR), surveyed(folders, every, *specs).today
    different = {}
    for machine in every.machines:
        pick, got = alone.pick(Scenario(specs, SUBDIR, *machine)), found.picks[machine]
        names = sorted({spec.split()[0].split("=")[0] for spec in specs})
        builds = tuple(f"{name} {r.version} {r.build}" for name in names if pick and (r := pick.record(name)))
        wanted = (pick.toolkit, builds) if pick else ("", ())
        if (got.toolkit, got.builds) != wanted or (got.kind is Kind.REFUSED) != (pick is None):
            different[machine] = (got, wanted)
    assert different == {}
    assert len({pick.text for pick in found.picks.values()}) > 1, "the machines differ"


def test_what_becomes_a_cpu_build_is_said_of_the_package_that_does(folders: list[Path], every: Matrix) -> None:
    found = surveyed(folders, every, "car")
    picks = found.today.picks
    assert (picks["13.4", "9.0"].kind, picks["13.4", "9.0"].toolkit, picks["13.4", "9.0"].cpu) == ("native", "13.4", ())
    assert (picks["12.9", "9.0"].kind, picks["12.9", "9.0"].cpu) == (Kind.CPU, ("engine",))
    assert any(line.startswith("CPU build of engine on ") for line in found.sentences)


def test_a_package_without_cuda_builds_is_no_cpu_build(folders: list[Path], every: Matrix) -> None:
    found = surveyed(folders, every, "only-linux")
    assert {pick.kind for pick in found.today.picks.values()} == {Kind.PLAIN}
    assert found.sentences == [
        f"only-linux installs on {len(every.machines)} of {len(every.machines)} machines",
        f"no CUDA on {len(every.machines)}: every machine",
    ]


def test_with_one_build_of_cuda_version_driver_and_gpu_say_whether_it_is_native(tmp_path: Path, every: Matrix) -> None:
    """As on conda-forge, where no minor is refused."""
    records = [record("cuda-version", v, "h_3", "noarch", constrains=["__cuda >=13"]) for v in ("13.0", "13.4")]
    records.append(record("mine", "1.0", "h_0", SUBDIR, depends=["cuda-version >=13,<14"]))
    picks = surveyed([write(tmp_path / "one", iter(records))], every, "mine").today.picks
    assert (picks["13.4", "9.0"].text, picks["13.3", "9.0"].text, picks[None, None].text) == ("13.4", "13.4c", "13.4c")
    assert picks["13.4", "10.1"].text == "13.4c", "no compiler of CUDA 13 knows it"
    assert picks["12.9", "9.0"].text == "-"


def test_a_reason_is_that_of_the_request_and_the_machine(folders: list[Path], every: Matrix) -> None:
    (refused,) = [line for line in surveyed(folders, every, "cuda-nvcc").sentences if line.startswith("refused")]
    assert "driver 11.8 to 12.9 (cuda-nvcc is published for toolkits 13.0 and 13.4 only, which need a driver" in refused
    assert "with GPU 5.0 to 7.2 (cuda-nvcc is published" in refused


# --- pins


def test_what_a_pin_does_to_each_machine(folders: list[Path], every: Matrix) -> None:
    found = surveyed(folders, every, "cuda-core", pin="cuda-version >=13.4")
    assert found.change(("12.9", "9.0")) is Change.LOST
    assert found.change(("13.0", "9.0")) is Change.OTHER, "native becomes compat"
    assert found.change(("13.4", "9.0")) is None
    assert found.change(("11.8", None)) is None, "it could not have it before either"
    lost = next(line for line in found.sentences if line.startswith("pinned, lost on "))
    assert "driver 12.0 to 12.9 (cuda-version >=13.4 needs a driver for CUDA 13.0" in lost
    assert any(line.startswith("pinned, native becomes compat on ") for line in found.sentences)
    gained = surveyed(folders, every, "cuda-version=13.4", "cuda-nvrtc", pin="cuda-version >=12")
    assert gained.change(("12.9", "9.0")) is Change.GAINED
    assert not gained.changed(Change.LOST)


# --- recipes


def write_recipe(folder: Path, text: str = RECIPE, variants: str = BOTH_MAJORS) -> Recipe:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(text)
    (folder / "variants.yaml").write_text(variants)
    found = recipe_at(f"{folder}/recipe.yaml")
    assert found is not None
    return found


def records_of(recipe: Recipe, folders: list[Path]) -> dict[str, dict[str, Any]]:
    channels = Catalogue(folders, SUBDIR)
    return {
        made["build"]: made
        for made in expected_records(recipe, variant_files(recipe, Path()), channels, channels).records
    }


def test_run_exports_of_the_host_environment_are_requirements(folders: list[Path], tmp_path: Path) -> None:
    found = records_of(write_recipe(tmp_path / "mine"), folders)
    assert {build: made["depends"] for build, made in found.items()} == {
        "cuda12_12": ["cuda-cudart >=12.9.1,<13.0a0"],
        "cuda13_13": ["cuda-cudart >=13.0.1,<14.0a0"],
    }
    ignoring = RECIPE + "  ignore_run_exports: {by_name: [cuda-cudart]}\n"
    assert records_of(write_recipe(tmp_path / "a", ignoring), folders)["cuda13_13"]["depends"] == []
    ignoring = RECIPE + "  ignore_run_exports: {from_package: [cuda-cudart-dev]}\n"
    assert records_of(write_recipe(tmp_path / "b", ignoring), folders)["cuda13_13"]["depends"] == []
    # A variant key gives a name alone its version, and a pin is to what the environment has.
    pinned = RECIPE.replace("cuda-version ${{ cuda_version }}.*", "cuda-version") + (
        "  run: [\"${{ pin_compatible('cuda-version', lower_bound='x.x', upper_bound='x') }}\"]\n"
    )
    assert records_of(write_recipe(tmp_path / "c", pinned), folders)["cuda12_12"]["depends"] == [
        "cuda-version >=12.9,<13.0a0",
        "cuda-cudart >=12.9.1,<13.0a0",
    ]


def test_of_each_environment_a_package_takes_the_kinds_that_a_build_would(tmp_path: Path) -> None:
    kinds = ("weak", "strong", "noarch", "weak_constrains", "strong_constrains")
    tools = [
        record(name, "1", "h_0", SUBDIR, run_exports={kind: [f"{name}-{kind}"] for kind in kinds})
        for name in ("compiler", "lib")
    ]
    # What a compiler exports strongly is in the host environment as well.
    folder = write(tmp_path / "channel", iter([*tools, record("compiler-strong", "1", "h_0", SUBDIR)]))
    text = 'schema_version: 1\npackage: {name: mine, version: "1"}\nrequirements: {build: [compiler], host: [lib]}\n'
    (made,) = records_of(write_recipe(tmp_path / "mine", text, "{}"), [folder]).values()
    assert sorted(made["depends"]) == ["compiler-strong", "lib-strong", "lib-weak"]
    assert sorted(made["constrains"]) == ["compiler-strong_constrains", "lib-strong_constrains", "lib-weak_constrains"]
    noarch = text + "build: {noarch: generic}\n"
    (made,) = records_of(write_recipe(tmp_path / "noarch", noarch, "{}"), [folder]).values()
    assert (made["depends"], made.get("constrains"), made["subdir"]) == (["lib-noarch"], None, SUBDIR)


def test_an_output_takes_the_run_exports_of_another_one_that_it_is_built_with(
    folders: list[Path], tmp_path: Path
) -> None:
    text = """
schema_version: 1
recipe: {name: two, version: "1.0"}
build: {number: 0}
outputs:
  - package: {name: lib}
    requirements: {host: ["cuda-version ${{ cuda_version }}.*", cuda-cudart-dev], run_exports: [lib >=1]}
  - package: {name: app}
    requirements: {host: ["${{ pin_subpackage('lib', exact=True) }}"]}
"""
    recipe = write_recipe(tmp_path / "two", text, 'cuda_version: ["13.0"]\n')
    found = {made["name"]: made["depends"] for made in records_of(recipe, folders).values()}
    assert found == {"lib": ["cuda-cudart >=13.0.1,<14.0a0"], "app": ["lib >=1"]}


def test_run_exports_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    records = [record("lib-dev", "1.0", "h_0", SUBDIR)]
    folder = write(tmp_path / "channel", iter(records))
    entry = {"run_exports": {"weak": ["lib >=1"]}}
    exports = {"info": {}, "packages": {}, "packages.conda": {"lib-dev-1.0-h_0.conda": entry}}
    (folder / SUBDIR / "run_exports.json").write_text(json.dumps(exports))
    text = 'schema_version: 1\npackage: {name: mine, version: "1"}\nrequirements: {host: [lib-dev]}\n'
    (made,) = records_of(write_recipe(tmp_path / "mine", text, "{}"), [folder]).values()
    assert made["depends"] == ["lib >=1"]


def test_what_cannot_be_known_is_said(folders: list[Path], tmp_path: Path) -> None:
    channels = Catalogue(folders, SUBDIR)
    recipe = write_recipe(tmp_path / "mine", RECIPE + "  build: [cmake]\n", 'cuda_version: ["12.8", "13.0"]\n')
    records, notes = expected_records(recipe, variant_files(recipe, Path()), channels, channels)
    assert [made["build"] for made in records] == ["cuda13_13"]
    assert notes == (
        "cmake is not in these channels: what its run-exports add is not known",
        "1 build left out, the host environment having no solution: "
        "there is no cuda-version 12.8 in the channels; there are 12.0, 12.9, 13.0 and 13.4",
    )


def test_a_pin_is_put_on_the_builds_that_can_have_it(folders: list[Path], tmp_path: Path) -> None:
    def catalogue_of(records: Any) -> Catalogue:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        return Catalogue([write(place, iter([dict(made) for made in records])), *folders], SUBDIR)

    twelve, thirteen = records_of(write_recipe(tmp_path / "mine"), folders).values()
    cpu = record("mine", "1.0", "cpu_0", SUBDIR)
    found = pin_records([twelve, thirteen, cpu], "cuda-version >=13.4", catalogue_of)
    assert [made["depends"] for made in found] == [
        twelve["depends"],
        [*thirteen["depends"], "cuda-version >=13.4"],
        [],
    ]
    # Where no build can have it, that is what there is to say.
    assert all(
        "cuda-version >=14" in made["depends"] for made in pin_records([twelve, cpu], "cuda-version >=14", catalogue_of)
    )


# --- in words, and as a picture


def test_machines_are_named_by_runs_of_drivers_and_gpus(every: Matrix) -> None:
    both = {(driver, gpu) for driver in ("12.0", "12.1", "12.3") for gpu in ("5.0", "5.2", "8.0", None)}
    assert groups_in_words(both, every) == {
        "driver 12.0 to 12.1 and 12.3 with GPU 5.0 to 5.2, 8.0 or not detected": ("12.3", None)
    }
    newest, beyond = every.drivers[-1], every.gpus[-1]
    whole = {machine for machine in every.machines if machine[0] == newest} | {(None, None), ("11.8", beyond)}
    assert list(groups_in_words(whole, every)) == [
        "no driver",
        "driver 11.8 with GPU newer",
        f"driver {newest} or newer",
    ]
    assert list(groups_in_words(every.machines, every)) == ["every machine"]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_map_fits_the_terminal_and_has_every_cell_once(folders: list[Path], every: Matrix, width: int) -> None:
    found = surveyed(folders, every, "cuda-core", pin="cuda-version >=13.4")
    assert found.pinned
    lines = [line.plain for line in _map(found, found.pinned, width)]
    assert max(map(len, lines)) <= width
    cells = [cell.text for _, gpu in found.rows for cell in found.cells(found.pinned, gpu)]
    labels = {label for label, _ in found.rows}
    shown = [line.removeprefix(label) for line in lines for label in labels if line.startswith(f"{label} ")]
    assert sorted(" ".join(shown).split()) == sorted(filter(None, cells))  # nothing for a machine that cannot exist
    assert {"lost", "13.4", "13.4c*"} <= set(cells)


def test_the_page_is_one_file_with_a_table_that_can_be_read_aloud(folders: list[Path], every: Matrix) -> None:
    found = surveyed(folders, every, "car", pin="cuda-version >=13.4")
    page = stand_alone("installable.html", title="<b>", pins=["a >=1"], notes=["x & y"], groups=alike([found])).decode()
    assert "&lt;b&gt;" in page and "x &amp; y" in page
    assert not re.search(r"<script|<link rel=.stylesheet|https?://|url\(", page)
    assert page.count('<th scope="row">unseen</th>') == page.count("<caption>") - 2 == 2  # and the builds of both
    assert re.search(r'<td class="cpu">cpu</td>', page) and re.search(r'<td class="lost">lost</td>', page)


# --- the command

# On other platforms, the tests above check the same without the command.
needs_linux = pytest.mark.skipif(HERE != SUBDIR, reason="the small channel's packages without CUDA are for linux-64")


def answer(done: Any, driver: str | None, gpu: str | None) -> dict[str, Any]:
    (survey,) = json.loads(done.stdout)["surveys"]
    return next(one for one in survey["answers"] if (one["driver"], one["gpu"]) == (driver, gpu))


@needs_linux
def test_a_pin_that_loses_machines_fails_and_says_which(where: Workspace) -> None:
    words = ("solve", "--everywhere", "cuda-core", "-p", SUBDIR, "--pin", "cuda-version >=13.4")
    done = ctk(where, *words)
    assert done.returncode == errors.MachinesLost.exit_code == 32
    assert "- pinned, lost on " in done.stdout
    assert re.search(
        r"^error: with cuda-version >=13.4, \d+ machines of linux-64 would lose cuda-core\nnext: ", done.stderr
    )
    found = ctk(where, *words, "--json")
    lost = answer(found, "12.9", "9.0")
    assert (lost["kind"], lost["toolkit"], lost["change"], lost["pinned"]["kind"]) == (
        "native",
        "12.9",
        "lost",
        "refused",
    )
    assert json.loads(found.stdout)["error"]["exit_code"] == 32


@needs_linux
def test_a_recipe_of_two_majors_is_asked_as_it_would_be_built(where: Workspace, tmp_path: Path) -> None:
    write_recipe(tmp_path / "mine")
    page = tmp_path / "new" / "mine.html"
    words = ("solve", "--everywhere", f"{tmp_path}/mine", "--pin", "cuda-version >=13.4", "-p", SUBDIR)
    done = ctk(where, *words, "--html", str(page), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["notes"] == [
        "linux-64: cuda-version >=13.4 is put on 1 of 2 builds: the others do without, or cannot have it"
    ]
    old, new = answer(done, "12.9", "9.0"), answer(done, "13.0", "9.0")
    assert (old["builds"], old["change"]) == (["mine 1.0 cuda12_12"], None)
    assert (new["builds"], new["kind"], new["change"]) == (["mine 1.0 cuda13_13"], "native", "changed")
    assert new["pinned"]["kind"] == "compat"
    assert page.read_text().startswith("<!doctype html>")


@needs_linux
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cuda-core", "{folder}/mine"], 2, "error: a recipe is asked for alone\nnext: "),
        (["cuda-core", "--planned", "--channel", "x"], 2, "error: --channel and --planned exclude each other\nnext: "),
        (["cuda-version=14"], 10, "error: cuda-version=14 installs on no machine: there is no cuda-version 14 in the"),
        (["x", "--channel", "{folder}/empty"], 10, "error: there are no packages in {folder}/empty\nnext: build them"),
        (
            ["{folder}/twelve"],
            10,
            "error: nothing of {folder}/twelve/recipe.yaml can be built from these channels\nnext",
        ),
        (["{folder}/bad"], 14, "error: recipe bad does not render for linux-64 "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_is_an_error_with_a_way_on(
    where: Workspace, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    write_recipe(tmp_path / "mine")
    write_recipe(tmp_path / "twelve", variants='cuda_version: ["12.8"]\n')
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "recipe.yaml").write_text("schema_version: 1\n")
    write(tmp_path / "empty", iter(()))
    done = ctk(where, "solve", "--everywhere", *(word.format(folder=tmp_path) for word in words))
    assert done.returncode == code, done.stderr
    assert said.format(folder=tmp_path) in done.stderr
    assert "\nnext: " in done.stderr and "Traceback" not in done.stderr
