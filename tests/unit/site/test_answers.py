"""The answers of the install selector: those of a solver, and the same after they were packed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctk.core.checkout import workspace
from ctk.core.errors import UnknownName
from ctk.lock.model import ReleaseLock, release_locks
from ctk.plan.names import known_names
from ctk.site import Site
from ctk.site.answers import (
    Axes,
    SelectorAnswer,
    SelectorQuestion,
    answer,
    answers,
    axes,
    installed_by_name,
    packed,
    plan_work,
    without_cuda,
)
from ctk.site.pages import assets, front_page, safe_json, shards
from ctk.solve.candidates import CandidateClasses
from ctk.solve.machine import driver_branches, gpu_names
from ctk.solve.solve import Catalogue, Scenario
from ctk.verify.oracle import version
from kit.reading import Read
from kit.small_channel import asking, base, channel, pair, record, toolkit, write

pytest_plugins = ["kit.site_fixtures"]

Folders = Sequence[Path]
NAMES = ("cuda-version", "cuda-arch", "python", "python_abi")
TAGS = ("cp312", "cp313", "cp314", "cp314t")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    place = tmp_path_factory.mktemp("channels")
    return write(place / "channel", channel()), write(place / "base", base())


@pytest.fixture(scope="module")
def locks() -> list[ReleaseLock]:
    return list(release_locks(workspace()).values())


@pytest.fixture(scope="module")
def asked(folders: Folders, locks: list[ReleaseLock]) -> Axes:
    return axes(Catalogue(folders, "linux-64"), locks, TAGS)


def look_up(axes: Axes, content: Mapping[str, Any], question: SelectorQuestion) -> SelectorAnswer:
    """An answer from packed answers, as the page finds it."""
    row = content["rows"][content["grid"][question.pin][axes.drivers.index(question.driver)]]
    by_gpu = [
        answer for answer, length in zip(row[::2], row[1::2], strict=True) for _ in range(length)
    ]
    pick, toolkit, fit, title, reasons, lasts, works = content["answers"][
        by_gpu[axes.gpus.index(question.arch)]
    ]
    title, *reasons = (
        " ".join(content["texts"][n] for n in content["lines"][place])
        for place in (title, *reasons)
    )
    records = [content["records"][place] for place in content["picks"][pick]] if pick >= 0 else []
    return SelectorAnswer(
        tuple(map(tuple, records)), toolkit, fit, title, tuple(reasons), bool(lasts), bool(works)
    )


@pytest.fixture(scope="module")
def alike(folders: Folders) -> Catalogue:
    return Catalogue(folders, "linux-64").grouped(["cuda-core", *NAMES])


def picky(folder: Path, depends: str) -> list[Path]:
    """A channel with a package that has a single dependency, and a base channel."""
    only = record("picky", "1.0", "h_0", "linux-64", depends=[depends])
    return [write(folder / "channel", iter([only])), write(folder / "base", base())]


def driver_scenario(driver: str) -> Scenario:
    return Scenario(("picky",), "linux-64", driver, None)


@pytest.mark.parametrize(
    ("rule", "older", "newer"),
    [
        (">=14", True, False),
        ("<11", False, True),
        ("=13", True, False),
        (">11.1,<11.3", False, True),
    ],
)
def test_drivers_beyond_the_ends_are_told_apart_where_a_rule_does(
    rule: str, older: bool, newer: bool, locks: list[ReleaseLock], tmp_path: Path
) -> None:
    found = axes(Catalogue(picky(tmp_path, f"__cuda {rule}"), "linux-64"), locks, TAGS)
    assert (found.older, found.newer) == (older, newer)


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        (" >13", "13.0"),
        (" >=13.1", "13.0"),
        (">=13.1", "13.0"),
        ("[version='>=13.1']", "13.0"),
        (" <=13.0", "13.1"),
        (" <13.1", "13.1"),
        (" <13|>14", "13.5"),
        (" ==12.9|==13.1", "13.0"),
        (" 13.*", "13.9"),
    ],
)
def test_a_rule_cuts_where_it_should_however_it_is_written(
    rule: str, other: str, tmp_path: Path
) -> None:
    channels = picky(tmp_path, f"__cuda{rule}")
    alike, alone = (
        Catalogue(channels, "linux-64").grouped(["picky"]),
        Catalogue(channels, "linux-64"),
    )
    for driver in ("12.0", "12.9", "13.0", "13.1", "13.2", "14.0", "14.1", other):
        assert bool(alike.pick(driver_scenario(driver))) == bool(
            alone.pick(driver_scenario(driver))
        ), driver


def test_questions_that_were_asked_together_are_answered_as_alone(
    folders: Folders, asked: Axes
) -> None:
    drivers, gpus = (None, "11.8", "12.9", "13.1"), (None, "7.0", "9.0")
    few = replace(asked, pins=("", "12", "13.0"), drivers=drivers, gpus=gpus, impossible={})
    together = dict(
        answers(
            Catalogue(folders, "linux-64").grouped(["cuda-nvcc", *NAMES], CandidateClasses),
            few,
            "cuda-nvcc",
            "",
        )
    )
    alone = Catalogue(folders, "linux-64")
    assert len(together) == 3 * (1 + 3 * 3)
    for question, found in together.items():
        assert found == answer(alone, question.scenario("linux-64"))
    assert {found.fit for found in together.values()} == {"native", "compat", ""}


def test_a_machine_that_cannot_exist_is_not_solved_and_its_answer_says_why(
    folders: Folders, locks: list[ReleaseLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(folders, "linux-64").grouped(["cuda-core", *NAMES])
    asked = axes(Catalogue(folders, "linux-64"), locks, TAGS)
    few = replace(asked, pins=("",), drivers=("13.0", "13.1"), gpus=("7.0", "9.0"))
    solved: set[tuple[str | None, str | None]] = set()
    ask = catalogue.ask
    monkeypatch.setattr(
        catalogue, "ask", lambda all_: ask([s for s in all_ if not solved.add((s.driver, s.arch))])
    )
    found = list(answers(catalogue, few, "cuda-core", ""))
    said = {(q.driver, q.arch): look_up(few, packed(iter(found)), q) for q, _ in found}
    assert ("13.1", "7.0") not in solved and {("13.0", "7.0"), ("13.1", "9.0")} <= solved
    assert (
        said["13.1", "7.0"].title.startswith("no driver for CUDA 13.1 runs a GPU 7.0")
        and not said["13.1", "7.0"].reasons
    )
    assert said["13.0", "7.0"].packages and said["13.1", "9.0"].packages


@pytest.mark.parametrize(
    ("driver", "arch", "pin", "said"),
    [
        ("13.1", "9.0", "", "CUDA 13.0: everything works on this machine"),
        ("13.0", None, "13.4", "CUDA 13.4: programs compiled for this GPU work, PTX does not"),
        (
            None,
            None,
            "",
            "CUDA 13.4: it compiles machine code, which can run on a machine with a driver",
        ),
    ],
)
def test_an_answer_says_in_plain_words_what_works(
    alike: Catalogue, driver: str | None, arch: str | None, pin: str, said: str
) -> None:
    assert (
        answer(
            alike, SelectorQuestion("cuda-core", driver, arch, "", pin).scenario("linux-64")
        ).title
        == said
    )


def test_an_answer_says_whether_the_package_can_be_asked_for_so_that_the_toolkit_stays_native(
    folders: Folders, tmp_path: Path
) -> None:
    """A library has a CUDA build for 12.9, and a CPU build, which an older driver gets."""
    cuda = record("both", "1.0", "cuda_0", "linux-64", depends=["cuda-version 12.9.*"])
    cpu = record("both", "1.0", "cpu_1", "linux-64", depends=["cuda-version 12.0.*"])
    ours = write(tmp_path / "channel", iter([*channel(), *asking("both * cuda*"), cuda, cpu]))
    catalogue = Catalogue([ours, folders[1]], "linux-64")
    for package, driver, pin, fit, lasts in [
        ("cuda-core", "13.0", "", "native", True),
        ("cuda-core", "13.0", "13.4", "compat", False),
        ("cuda-core", None, "", "compat", False),
        ("both", "12.9", "", "native", True),
        ("both", "12.0", "", "native", False),  # the CPU build
    ]:
        found = answer(
            catalogue, SelectorQuestion(package, driver, None, "", pin).scenario("linux-64")
        )
        assert (found.fit, found.lasts) == (fit, lasts), (package, driver, pin)
    without = Catalogue(folders, "linux-64")
    assert not answer(
        without, SelectorQuestion("cuda-core", "13.0", None, "", "").scenario("linux-64")
    ).lasts


def test_an_answer_is_the_same_after_it_was_packed(asked: Axes, alike: Catalogue) -> None:
    found = list(answers(alike, asked, "cuda-core", "3.13"))
    content = json.loads(json.dumps(packed(found)))
    for question, right in found:
        assert look_up(asked, content, question) == right
    assert len(safe_json(content)) < 25 * len(found), "few bytes for each question"


def test_a_python_is_chosen_only_for_a_package_that_brings_one(
    folders: Folders, asked: Axes
) -> None:
    pieces = {(piece.package, piece.python) for piece in plan_work(asked, folders)}
    assert {python for name, python in pieces if name == "cuda-core"} == {*asked.pythons}
    for name in ("cuda-nvcc", "cuda-nvrtc", "cuda-version", "only-linux"):
        assert {python for other, python in pieces if other == name} == {""}
    assert set(asked.of_python) == {"cuda-bindings", "cuda-core"}


def test_what_brings_no_toolkit_is_not_asked_for_with_cuda(
    folders: Folders, tmp_path: Path
) -> None:
    """A tool; one that lacks a part of the base channel; the same beside CUDA; and a library."""
    made = [
        record("tool", "1.0", "h_0", "linux-64", depends=["python >=3.12"]),
        record("lacking", "1.0", "h_0", "linux-64", depends=["nosuch"]),
        record("lacking-too", "1.0", "h_0", "linux-64", depends=["nosuch", "cuda-version >=12"]),
    ]
    ours = write(tmp_path / "channel", iter([*channel(), *made]))
    names = ["cuda-core", "lacking", "lacking-too", "tool"]
    found = without_cuda(names, Catalogue([ours, folders[1]], "linux-64"))
    assert found == ("lacking", "tool")


@pytest.mark.parametrize(("driver", "works"), [("12.0", False), ("12.2", False), ("12.3", True)])
def test_not_everything_works_where_the_driver_refuses_ptx_of_a_newer_nvjitlink(
    driver: str, works: bool, tmp_path: Path
) -> None:
    records = [*toolkit("12.0"), *pair("libnvjitlink", "12.3.101", "h", "linux-64", ">=12.0,<12.4")]
    made = Catalogue([write(tmp_path / "channel", iter(records))], "linux-64")
    found = answer(made, Scenario(("libnvjitlink",), "linux-64", driver, "9.0"))
    what = ": everything works" if works else " works"
    assert (found.fit, found.works, not found.exception) == ("native", True, works)
    assert found.title == f"CUDA 12.0{what} on this machine"


def test_halves_of_packages_are_not_offered(tmp_path: Path) -> None:
    names = (
        "cuda-core",
        "cuda-gpu-builds",
        "cuda-nvcc_linux-64",
        "cuda-cudart-dev_linux-aarch64",
        "cuda-nvrtc-files",
        "cuda-version-native",
        "libcufile-dev",
    )
    made = write(
        tmp_path / "channel", iter([record(name, "1.0", "h_0", "linux-64") for name in names])
    )
    assert installed_by_name(Catalogue([made], "linux-64")) == ["cuda-core", "libcufile-dev"]


@pytest.mark.parametrize(("packages", "pythons"), [(["cuda-cor"], []), ([], ["2.7"])])
def test_an_unknown_name_is_an_error(
    packages: list[str], pythons: list[str], folders: Folders, locks: list[ReleaseLock]
) -> None:
    with pytest.raises(UnknownName):
        axes(Catalogue(folders, "linux-64"), locks, TAGS, packages, pythons)


def test_every_listed_gpu_was_solved_unless_it_is_older_than_every_toolkit(asked: Axes) -> None:
    listed = gpu_names()
    assert {gpu for gpu in listed.values() if version(gpu) >= (5, 0)} <= set(asked.gpus)
    assert {"Tesla K80": "3.7", "Tesla K40": "3.5", "L20": "8.9"}.items() <= listed.items()
    assert {"H200": "9.0", "GeForce RTX 4090": "8.9", "V100": "7.0"}.items() <= listed.items()
    assert {"A10G": "8.6", "RTX A5500": "8.6", "Jetson AGX Thor": "11.0"}.items() <= listed.items()
    assert {"GeForce GTX 1660 Ti": "7.5", "GeForce GTX 1650": "7.5"}.items() <= listed.items()
    assert all(
        re.fullmatch(r"\S+( \S+)*", name) and not name.startswith("NVIDIA") for name in listed
    )


def test_each_toolkit_s_drivers_are_listed_newest_first() -> None:
    branches = driver_branches()
    ordered = sorted(branches, key=version, reverse=True)
    assert [*branches] == ordered
    assert sorted(branches.values(), reverse=True) == [*branches.values()]
    assert branches["12.2"] == 535 and branches["13.0"] == 580


def test_the_front_page_says_what_can_be_chosen(small: Site, asked: Axes) -> None:
    page = front_page(small, {"linux-64": asked})
    read = Read(page.content)
    offered: Mapping[str, Any] = json.loads(
        page.content.decode().split('id="offered">')[1].split("</script>")[0]
    )
    assert offered["channels"] == ["https://example.org/cuda", "conda-forge"]
    assert offered["first"] == [
        "cuda-core",
        "cuda-nvcc",
    ], "the names with buttons, of those that the channel has"
    assert offered["create"]["mamba"].splitlines() == [
        "mamba create --name gpu \\",
        "  --channel https://example.org/cuda \\",
        "  --channel conda-forge \\",
        "  --override-channels \\",
        "  ",
    ]
    assert offered["add"]["conda"].startswith(
        "conda install --name gpu \\\n  --channel https://example.org/cuda \\\n"
    )
    assert offered["lasts"] is None, "this channel has no cuda-native"
    assert offered["pythons"]["3.14t"]["specs"] == ["python=3.14", "python_abi=3.14=*_cp314t"]
    assert offered["platforms"]["linux-64"]["floor"] == ["7.5", "12"]
    assert not read.wrong
    assert all("//" not in loaded for loaded in read.loaded)
    loaded = {file.path: file.content for file in assets(known_names(workspace()))}
    weight = len(page.content) + sum(len(loaded[path]) for path in read.loaded)
    assert weight < 100_000, "it is light: 31 kB on the wire"


def test_no_name_on_the_page_is_said_to_be_meant_by_itself() -> None:
    """Else a pattern such as nsight* would take the place of the name that a reader typed."""
    scripts = {file.path: file.content.decode() for file in assets(known_names(workspace()))}
    (line,) = re.findall(
        r"^const OTHER_NAMES = new Map\((.*)\);$", scripts["assets/names.js"], re.M
    )
    meant = {name: packages for name, (_, packages, _) in json.loads(line)}
    assert meant["nsight*"] == [] == meant["cuda-driver"]
    assert meant["magma-cuda*"] == ["libmagma"]
    assert [name for name, packages in meant.items() if name in packages] == []


def test_scripts_are_published_without_their_comments() -> None:
    """They were the heaviest part of the page after its code."""
    for file in assets(known_names(workspace())):
        if file.path.endswith(".js"):
            text = file.content.decode()
            assert text.startswith('"use strict";\n') and text.count('"use strict"') == 1, file.path
            assert not re.search(r"^\s*(?://|/?\*)", text, re.M), file.path


def test_a_channel_without_packages_has_a_front_page_that_says_so(small: Site) -> None:
    page = front_page(small, {})
    assert "Nothing was solved for this page" in Read(page.content).text
    assert "<script" not in page.content.decode()


def test_no_name_ends_the_script_it_stands_in() -> None:
    hostile = "</script><script>alert(1)</script>\u2028"
    (page,) = shards([(hostile, {"records": [hostile]})])
    assert b"</script" not in page.content and b"\xe2\x80\xa8" not in page.content
    assert json.loads(safe_json([hostile])) == [hostile]
