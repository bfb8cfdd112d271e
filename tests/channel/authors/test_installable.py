"""Surveys: the machines on which a request installs, the builds there, and the changes by a pin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ctk
from ctk.authors.installable import Change, Kind, Survey, groups_in_words, take_survey
from ctk.authors.judge import needless_builds
from ctk.authors.order import Variant
from ctk.authors.run import Made
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.solve.solve import Catalogue, Scenario
from ctk.verify.oracle import OracleFacts
from ctk.verify.scenarios import Matrix, matrix
from kit.packages import Draft
from kit.small_channel import Record, base, channel, pair, record, write

HERE = this_platform()
SUBDIR = "linux-64"


def more() -> Iterator[Record]:
    """Beside the small channel: a package with CUDA builds and a CPU build, and one that depends on
    it.
    """
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
    return take_survey(specs, [pin] if pin else [], Catalogue(folders, SUBDIR), every)


# --- several builds for one CUDA major


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((">=12.0,<13", ">=12.9,<13"), "would be native, and not compat, if you built with 12.0"),
        # GPUs that only 12.9 knows would lose their native build.
        ((">=12.0,<12.1", ">=12.9,<13"), "no machine gets mine 1.0 h0_12: "),
        ((">=12.0,<13", ">=12.9,<13 native_*"), ""),  # nobody gets a compat build of the second
        ((">=12.9,<13", ">=12.9,<13"), "no machine gets mine 1.0 h0_12: "),
    ],
)
def test_builds_for_one_major_from_two_toolkits_are_noted_where_they_cost_native_builds(
    tmp_path: Path, folders: list[Path], every: Matrix, bounds: tuple[str, ...], said: str
) -> None:
    toolkits = ("12.0", "12.9")
    made = []
    records = []
    for number, (toolkit, bound) in enumerate(zip(toolkits, bounds, strict=True), 12):
        needs = (f"cuda-version {bound}",)
        build = f"h{number - 12}_{number}"
        records.append(record("mine", "1.0", build, SUBDIR, depends=[*needs]))
        draft = Draft("mine", build=build, depends=needs, index={"build_number": number})
        variant = Variant("mine", build, {"cuda_version": toolkit}, {})
        made.append(Made(variant, draft.write(tmp_path / "drafts"), 1.0, toolkit))
    channel = write(tmp_path / "mine", iter(records))
    survey = surveyed([channel, *folders], every, "mine")
    sentences = needless_builds(made, survey)
    assert len(sentences) == bool(said)
    for sentence in sentences:
        assert said in sentence
        if sentence.startswith("note:"):
            assert "mine-1.0-h0_12 (built with 12.0) and mine-1.0-h1_13 (built with 12.9)" in (
                sentence
            )


# --- what each machine gets


@pytest.mark.parametrize(
    "specs",
    [
        ("cuda-core",),
        ("cuda-nvcc",),
        ("cuda-arch=9.0", "cuda-nvrtc"),
        ("car", "cuda-nvrtc"),
        ("__cuda >=12.7,<13.2",),
    ],
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
        builds = tuple(
            f"{name} {r.version} {r.build}" for name in names if pick and (r := pick.record(name))
        )
        wanted = (pick.toolkit, builds) if pick else ("", ())
        if (got.toolkit, got.builds) != wanted or (got.kind is Kind.REFUSED) != (pick is None):
            different[machine] = (got, wanted)
    assert different == {}
    assert len({pick.text for pick in found.picks.values()}) > 1, "the machines differ"


def test_what_becomes_a_cpu_build_is_said_of_the_package_that_does(
    folders: list[Path], every: Matrix
) -> None:
    found = surveyed(folders, every, "car")
    picks = found.today.picks
    assert (picks["13.4", "9.0"].kind, picks["13.4", "9.0"].toolkit, picks["13.4", "9.0"].cpu) == (
        "native",
        "13.4",
        (),
    )
    assert (picks["12.9", "9.0"].kind, picks["12.9", "9.0"].cpu) == (Kind.CPU, ("engine",))
    assert any(line.startswith("CPU build of engine on ") for line in found.sentences), (
        found.sentences
    )


def test_a_package_without_cuda_builds_is_no_cpu_build(folders: list[Path], every: Matrix) -> None:
    found = surveyed(folders, every, "only-linux")
    assert {pick.kind for pick in found.today.picks.values()} == {Kind.PLAIN}
    assert found.sentences == [
        (
            f"only-linux can be installed on {len(every.machines)} of {len(every.machines)} pairs"
            " of driver and GPU"
        ),
        f"no CUDA on {len(every.machines)}: every machine",
    ]


def test_with_one_build_of_cuda_version_driver_and_gpu_say_whether_it_is_native(
    tmp_path: Path, every: Matrix
) -> None:
    """As on conda-forge, where no minor is refused."""
    records = [
        record("cuda-version", v, "h_3", "noarch", constrains=["__cuda >=13"])
        for v in ("13.0", "13.4")
    ]
    records.append(record("mine", "1.0", "h_0", SUBDIR, depends=["cuda-version >=13,<14"]))
    picks = surveyed([write(tmp_path / "one", iter(records))], every, "mine").today.picks
    assert (picks["13.4", "9.0"].text, picks["13.3", "9.0"].text, picks[None, None].text) == (
        "13.4",
        "13.4 compat",
        "13.4 compat",
    )
    assert picks["13.4", "10.1"].text == "13.4 compat", "no compiler of CUDA 13 knows it"
    assert picks["12.9", "9.0"].text == "refused"


def test_a_reason_is_that_of_the_request_and_the_machine(
    folders: list[Path], every: Matrix
) -> None:
    (refused,) = [
        line
        for line in surveyed(folders, every, "cuda-nvcc").sentences
        if line.startswith("refused")
    ]
    assert (
        "driver 11.8 to 12.9 (cuda-nvcc is published for toolkits 13.0 and 13.4 only, which need a"
        " driver" in refused
    )
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
    assert "\npinned, native becomes compat on " in "\n".join(["", *found.sentences])
    gained = surveyed(folders, every, "cuda-version=13.4", "cuda-nvrtc", pin="cuda-version >=12")
    assert gained.change(("12.9", "9.0")) is Change.GAINED
    assert not gained.changed(Change.LOST)


# --- in words


def test_machines_are_named_by_runs_of_drivers_and_gpus(every: Matrix) -> None:
    both = {
        (driver, gpu) for driver in ("12.0", "12.1", "12.3") for gpu in ("5.0", "5.2", "8.0", None)
    }
    assert groups_in_words(both, every) == {
        "driver 12.0 to 12.1 and 12.3 with GPU 5.0 to 5.2, 8.0 or not detected": ("12.3", None)
    }
    newest, beyond = every.drivers[-1], every.gpus[-1]
    whole = {machine for machine in every.machines if machine[0] == newest} | {
        (None, None),
        ("11.8", beyond),
    }
    assert list(groups_in_words(whole, every)) == [
        "no driver",
        f"driver 11.8 with a GPU newer than {every.gpus[-2]}",
        f"driver {newest} or newer",
    ]
    assert list(groups_in_words(every.machines, every)) == ["every machine"]


def read_back(words: str, every: Matrix) -> set[tuple[str | None, str | None]]:
    """The machines that a group in words names, as a reader takes them."""
    if words == "every machine":
        return {*every.machines}
    if words == "no driver":
        return {(None, None)}
    of_drivers, _, of_gpus = words.removeprefix("driver ").partition(" with ")
    known = [driver for driver in every.drivers if driver]
    drivers = members(of_drivers.replace(" or newer", " and newer"), " and ", known)
    gpus: set[str | None] = {*every.gpus}
    if of_gpus:
        known = [gpu for gpu in every.gpus if gpu]
        of_known = of_gpus.removeprefix("GPU ").removesuffix("not detected")
        gpus = {*members(of_known.replace("a GPU newer", "one newer"), " or ", known)}
        if of_gpus.endswith("not detected"):
            gpus.add(None)
    return {machine for machine in every.machines if machine[0] in drivers and machine[1] in gpus}


def members(words: str, last: str, values: list[str]) -> set[str]:
    """The values of a list such as ``8.8, 10.7 to 11.0 or one newer than 12.1``.

    What is newer than all known ones is the last value.
    """
    found: set[str] = set()
    for part in words.replace(" and newer", "+").replace(last, ", ").split(", "):
        version, open_end, _ = part.partition("+")
        if open_end:
            found |= {*values[values.index(version) :]}
        elif version.startswith("one newer than "):
            before = values.index(version.removeprefix("one newer than "))
            found |= {*values[before + 1 :]}
        elif version:
            first, _, end = version.partition(" to ")
            found |= {*values[values.index(first) : values.index(end or first) + 1]}
    return found


def test_groups_of_machines_in_words_name_these_machines_and_no_others(every: Matrix) -> None:
    """A GPU 12.0 that is native was in "compat with GPU 10.1 or newer"."""
    possible = every.machines
    places = [(every.drivers.index(driver), every.gpus.index(gpu)) for driver, gpu in possible]
    numbers = st.lists(st.integers(0, len(every.gpus)), max_size=12)

    @given(
        st.lists(st.tuples(numbers, numbers), max_size=4),
        st.lists(st.integers(0, len(possible) - 1), max_size=6),
    )
    def check(rectangles: list[tuple[list[int], list[int]]], single: list[int]) -> None:
        machines = {possible[number] for number in single}
        for drivers, gpus in rectangles:
            for machine, (driver, gpu) in zip(possible, places, strict=True):
                if driver in drivers and gpu in gpus:
                    machines.add(machine)
        named: set[tuple[str | None, str | None]] = set()
        for words, example in groups_in_words(machines, every).items():
            group = read_back(words, every)
            assert not group & named, "each machine is in one group"
            assert example in group
            named |= group
        assert named == machines

    check()


def test_gpus_that_no_toolkit_knows_are_newer_than_the_last_known_one(every: Matrix) -> None:
    *_, last, beyond = every.gpus
    compat = {("13.4", gpu) for gpu in ("10.1", "10.7", beyond)}
    assert [*groups_in_words(compat, every)] == [
        f"driver 13.4 with GPU 10.1, 10.7 or one newer than {last}"
    ]
    ending = {("13.4", gpu) for gpu in ("10.1", last, beyond)}
    assert [*groups_in_words(ending, every)] == [f"driver 13.4 with GPU 10.1 or {last} and newer"]


def test_the_table_has_what_a_pin_changes(folders: list[Path], every: Matrix) -> None:
    found = surveyed(folders, every, "cuda-core", pin="cuda-version >=13.4")
    assert found.pinned
    (_, *gpus), rows = found.table(found.pinned)
    cells = {
        (driver, gpu): cell
        for driver, *cells in rows
        for gpu, cell in zip(gpus, cells, strict=True)
    }
    by_driver = {
        driver: {cell for (row, _), cell in cells.items() if row == driver} for driver, _ in cells
    }
    assert by_driver["no driver"] == {"13.4 compat"} and by_driver["11.8"] - {""} == {"refused"}
    assert (
        "lost" in by_driver["12.0 to 12.7"] & by_driver["12.8 to 12.9"]
        and "13.4 compat *" in by_driver["13.1 to 13.3"]
    )
    assert "" in cells.values(), "no driver for CUDA 13.4 runs a GPU 7.0"


# --- the command

# On other platforms, the tests above check the same without the command.
needs_linux = pytest.mark.skipif(
    HERE != SUBDIR, reason="the small channel's packages without CUDA are for linux-64"
)


def answer(done: Any, driver: str | None, gpu: str | None) -> dict[str, Any]:
    (survey,) = json.loads(done.stdout)["surveys"]
    return next(one for one in survey["answers"] if (one["driver"], one["gpu"]) == (driver, gpu))


@needs_linux
def test_a_pin_that_loses_machines_fails_and_says_which(where: Workspace) -> None:
    words = (
        "solve",
        "--everywhere",
        "cuda-core",
        "--platform",
        SUBDIR,
        "--pin",
        "cuda-version >=13.4",
    )
    done = ctk(where, *words)
    assert done.returncode == errors.MachinesLost.exit_code == 32
    assert "- pinned, lost on " in done.stdout
    assert re.search(
        r"^error: with cuda-version >=13.4, \d+ pairs of driver and GPU on linux-64 would lose"
        r" cuda-core\nnext: ",
        done.stderr,
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
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["cuda-version=14"],
            "error: cuda-version=14 cannot be installed on any machine: there is no cuda-version",
        ),
        (
            ["x", "--channel", "{folder}"],
            "error: there are no packages in {folder}\nnext: name another --channel",
        ),
    ],
    ids=["nowhere", "no packages"],
)
def test_what_installs_nowhere_is_an_error_with_a_way_on(
    where: Workspace, tmp_path: Path, words: list[str], said: str
) -> None:
    write(tmp_path, iter(()))
    done = ctk(where, "solve", "--everywhere", *(word.format(folder=tmp_path) for word in words))
    assert done.returncode == errors.Unsolvable.exit_code, done.stderr
    assert said.format(folder=tmp_path) in done.stderr and "\nnext: " in done.stderr
