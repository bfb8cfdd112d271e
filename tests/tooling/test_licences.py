"""What is locked of licences, and that a change of one stops `ctk release add` until a person accepts it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest
from ctk_release import Have, Run, snapshot
from fake_ctk import WHEELS_13, manifest_13
from fake_index import LICENCE, FakeIndex, serve

from ctk.core import console
from ctk.core.checkout import Workspace
from ctk.core.errors import LicenceChanged, MeasureFailed, OutOfDate, UnknownName
from ctk.index import IndexSettings
from ctk.index.client import Retry
from ctk.index.index import Index
from ctk.lock.lock import Component, ReleaseLock, load
from ctk.lock.wheels import Licence, declared_licence, read_licence
from ctk.release.review import check_licences, licence_changes

pytest_plugins = ["ctk_release_fixtures"]
ROOT = Path(__file__).resolve().parents[2]
NVRTC = "nvidia-cuda-nvrtc"
TEXT = hashlib.sha256(LICENCE).hexdigest()
NEW_TEXT = b"You may do nothing with it.\n"


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def add_nvrtc(
    index: FakeIndex, version: str, *metadata: str, licence: bytes = LICENCE, tags: tuple[str, ...] = WHEELS_13
) -> None:
    """A newer NVRTC, which the manifest of 13.4 accepts."""
    for tag in tags:
        index.add_wheel(NVRTC, version, f"py3-none-{tag}", metadata=metadata, licence=licence)


def nvrtc(here: Workspace) -> Component:
    return load(here.variants / "cuda-13.4.lock").components["nvrtc"]


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    with serve() as index:
        yield index


def read(server: FakeIndex, distribution: str = "tool") -> Licence:
    with Index(IndexSettings(index_url=server.url, timeout=60), Retry(attempts=1)) as index:
        return read_licence(index, index.files(distribution)[0])


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (["License-Expression: LicenseRef-NVIDIA-Proprietary"], "LicenseRef-NVIDIA-Proprietary"),
        (["License: BSD", "License-Expression: BSD-2-Clause"], "BSD-2-Clause"),
        (["License: NVIDIA Proprietary Software", "Classifier: License :: A"], "NVIDIA Proprietary Software"),
        (["License:   Apache\n   2.0  "], "Apache 2.0"),
        (["License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"], "OSI Approved :: MIT License"),
        (["Classifier: License :: B", "Classifier: Topic :: C", "Classifier: License :: A"], "A; B"),
        (["License:", "Classifier: Topic :: C"], "NOASSERTION"),
        ([], "NOASSERTION"),
    ],
)
def test_what_is_declared_is_one_line(metadata: list[str], expected: str) -> None:
    assert declared_licence(Parser().parsestr("\n".join(["Name: a", *metadata]) + "\n\n")) == expected


def test_a_whole_text_as_the_declaration_is_its_first_line_and_a_hash() -> None:
    text = "The licence of it\n\n" + "Do what you like. " * 20

    def of(text: str) -> str:
        return declared_licence(Parser().parsestr("License: " + text.replace("\n", "\n        ") + "\n\n"))

    digest = sha256(" ".join(text.split()).encode())
    assert of(text) == f"The licence of it (text {digest})"
    assert of(text.replace("\n\n", "\n \t\n")) == of(text)
    assert of(text + "And no more.") != of(text)


def test_texts_are_those_of_the_dist_info_folder_whatever_their_line_ends(server: FakeIndex) -> None:
    server.add_wheel(
        "tool", "1", metadata=["License-Expression: MIT"], licence=b"A\r\nB\n", files={"tool/LICENSE": b"C"}
    )
    assert read(server) == Licence("MIT", sha256(b"A\nB\n"))


def test_a_wheel_without_a_text_there_may_have_it_beside_its_library(server: FakeIndex) -> None:
    server.add_wheel("tool", "2", licence=b"", files={"tool/LICENSE": b"C", "tool/lib/LICENSE": b"D"})
    assert read(server) == Licence("NOASSERTION", sha256(b"C"))
    server.add_wheel("tool", "3", licence=b"", files={"nvidia/tool/LICENSE.txt": b"C"})
    assert read(server) == Licence("NOASSERTION", sha256(b"C"))
    server.add_wheel("tool", "4", licence=b"", files={"tool/lib/LICENSE": b"D"})
    assert read(server) == Licence("NOASSERTION", None)


def test_several_texts_have_one_hash(server: FakeIndex) -> None:
    more = {"tool-1.dist-info/licenses/NOTICE": b"N", "tool-1.dist-info/licenses/src/COPYING": b"C"}
    server.add_wheel("tool", "1", files={**more, "tool-1.dist-info/licenses/AUTHORS": b"X"})
    every = sorted(sha256(text) for text in (LICENCE, b"N", b"C"))
    assert read(server).text == sha256("\n".join(every).encode())


def test_a_source_distribution_says_it_too(server: FakeIndex) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in (("PKG-INFO", b"License: X\n"), ("LICENSE", LICENCE), ("src/LICENSE", b"of others")):
            member = tarfile.TarInfo(f"tool-1/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    server.add("tool-1.tar.gz", out.getvalue())
    assert read(server) == Licence("X", TEXT)


def test_a_wheel_without_metadata_is_an_error(server: FakeIndex) -> None:
    server.add("tool-1-py3-none-any.whl", b"PK\5\6" + bytes(18))  # an empty zip
    with pytest.raises(MeasureFailed, match=r"tool-1-py3-none-any.whl has no METADATA"):
        read(server)


def test_a_lock_has_the_licence_of_each_component(run: Run, here: Workspace, index: FakeIndex) -> None:
    add_nvrtc(index, "13.4.92.1", "License: NVIDIA Proprietary Software", tags=WHEELS_13[:3])
    add_nvrtc(index, "13.4.92.1", "License: NVIDIA Proprietary Software", licence=NEW_TEXT, tags=WHEELS_13[3:])
    run("add", "13.4", "--write")
    assert nvrtc(here).license == "NVIDIA Proprietary Software"
    assert nvrtc(here).license_texts == tuple(sorted([TEXT, sha256(NEW_TEXT)]))
    others = [c for c in load(here.variants / "cuda-13.4.lock").components.values() if c.name != "nvrtc"]
    assert {(c.license, c.license_texts) for c in others} == {("NOASSERTION", (TEXT,))}


Stated = dict[str, tuple[str, tuple[str, ...]]]
A, B = ("MIT", ("aa" * 32,)), ("MIT", ("bb" * 32,))
BOTH = ("MIT", ("aa" * 32, "bb" * 32))
BOUGHT = ("Buy it first", ("aa" * 32,))


def locks(**releases: Stated) -> list[ReleaseLock]:
    """Releases named like ``cuda_12_9``, oldest first, with components of a declaration and texts each."""

    def lock(name: str, components: Stated) -> ReleaseLock:
        kind, *numbers = name.split("_")
        release = ".".join([*numbers, "1"]) if kind == "cuda" else name.replace("_", "-")
        made = {n: Component(n.partition("_")[0], n, "1", {}, *stated) for n, stated in components.items()}
        return ReleaseLock(release, None, made)

    return [lock(name, components) for name, components in releases.items()]


COMPARED: dict[str, tuple[dict[str, Stated], dict[str, Stated], list[str]]] = {
    "the same": ({"cuda_13_4": {"nvrtc": A}}, {"cuda_13_4": {"nvrtc": A}}, []),
    "another declaration": (
        {"cuda_13_4": {"nvrtc": A}},
        {"cuda_13_4": {"nvrtc": BOUGHT}},
        ["cuda-13.4: nvrtc: MIT in cuda-13.4 -> Buy it first"],
    ),
    "another text under the same name": (
        {"cuda_13_4": {"nvrtc": A}},
        {"cuda_13_4": {"nvrtc": B}},
        ["cuda-13.4: nvrtc: another text than in cuda-13.4, still declared as MIT"],
    ),
    "another declaration with another text": (
        {"cuda_13_4": {"nvrtc": A}},
        {"cuda_13_4": {"nvrtc": ("Buy it first", ("bb" * 32,))}},
        ["cuda-13.4: nvrtc: MIT in cuda-13.4 -> Buy it first, with another text"],
    ),
    "the same change of two components, and another one": (
        {"cuda_13_4": {"nvrtc": A, "nvvm": A, "crt": BOTH}},
        {"cuda_13_5": {"nvrtc": B, "nvvm": B, "crt": BOUGHT}},
        [
            "cuda-13.5: 2 components: another text than in cuda-13.4, still declared as MIT: nvrtc, nvvm",
            "cuda-13.5: crt: MIT in cuda-13.4 -> Buy it first",
        ],
    ),
    "the same new text in place of another old one": (
        {"cuda_13_4": {"nvrtc": A, "nvvm": ("MIT", ("cc" * 32,))}},
        {"cuda_13_5": {"nvrtc": B, "nvvm": B}},
        ["nvrtc: another text", "nvvm: another text"],
    ),
    "a text that is gone": ({"cuda_13_4": {"nvrtc": BOTH}}, {"cuda_13_4": {"nvrtc": A}}, []),
    "a new component": ({"cuda_13_4": {"nvrtc": A}}, {"cuda_13_4": {"nvrtc": A, "cublas": BOUGHT}}, []),
    "the first lock": ({}, {"cuda_13_4": {"nvrtc": BOUGHT}}, []),
    "a new minor against the newest of its major": (
        {"cuda_12_9": {"nvrtc": BOUGHT}, "cuda_13_4": {"nvrtc": A}},
        {"cuda_13_5": {"nvrtc": BOUGHT}},
        ["MIT in cuda-13.4 -> Buy it first"],
    ),
    "its own major before a newer one": (
        {"cuda_12_6": {"nvrtc": BOUGHT}, "cuda_12_9": {"nvrtc": A}, "cuda_13_4": {"nvrtc": BOUGHT}},
        {"cuda_12_8": {"nvrtc": BOUGHT}},
        ["MIT in cuda-12.9 -> Buy it first"],
    ),
    "a new major against the newest release": (
        {"cuda_12_9": {"nvrtc": A}},
        {"cuda_13_4": {"nvrtc": BOUGHT}},
        ["MIT in cuda-12.9 -> Buy it first"],
    ),
    "another kind of lock": ({"cuda_12_9": {"nvrtc": A}, "base": {"nvrtc": A}}, {"python_13": {"nvrtc": BOUGHT}}, []),
    "an older version beside the newest": (
        {"python_13": {"core": A}},
        {"python_13": {"core": A, "core_1": BOUGHT}},
        ["MIT in python-13 -> Buy it first"],
    ),
}


@pytest.mark.parametrize("case", COMPARED)
def test_a_licence_is_compared_with_that_of_the_nearest_lock(case: str) -> None:
    in_place, made, changed = COMPARED[case]
    changes = licence_changes({lock.name: lock for lock in locks(**in_place)}, locks(**made))
    assert len(changes) == len(changed)
    assert all(words in str(change) for words, change in zip(changed, changes, strict=True))


def test_only_what_is_accepted_by_name_is_accepted() -> None:
    old = {lock.name: lock for lock in locks(cuda_13_4={"nvrtc": A, "nvvm": A})}
    made = locks(cuda_13_4={"nvrtc": BOUGHT, "nvvm": BOUGHT})
    changed = licence_changes(old, made)
    with pytest.raises(LicenceChanged) as error:
        check_licences(changed, made, ["nvvm"], every=False)
    assert "nvrtc" in error.value.cause and "nvvm" not in error.value.cause
    check_licences(changed, made, ["nvvm", "nvrtc"], every=False)
    check_licences(changed, made, [], every=True)
    with pytest.raises(UnknownName, match="unknown component 'nvrct'") as unknown:
        check_licences(changed, made, ["nvrct"], every=False)
    assert "nvrtc" in unknown.value.step


@pytest.mark.parametrize("mode", [[], ["--check", "--write"]])
def test_another_declaration_stops_it_and_nothing_is_written(
    run: Run, here: Workspace, index: FakeIndex, have: Have, mode: list[str]
) -> None:
    before = have("13.4")
    add_nvrtc(index, "13.4.92.1", "License: Buy it first")
    with pytest.raises(LicenceChanged) as error:
        run("add", "13.4", *mode)
    assert error.value.exit_code == 27
    line = "cuda-13.4: nvrtc: NOASSERTION in cuda-13.4 -> Buy it first"
    assert error.value.cause == f"licences that are not those locked before: 1 problem\n  - {line}"
    assert "--accept-licence nvrtc for each, or --accept-licences" in error.value.step
    assert "nothing was written" in error.value.step
    assert snapshot(here) == before


@pytest.mark.parametrize("option", [["--accept-licence", "nvrtc"], ["--accept-licences"]])
def test_what_is_accepted_is_locked_and_not_asked_again(
    run: Run, here: Workspace, index: FakeIndex, have: Have, option: list[str]
) -> None:
    have("13.4")
    add_nvrtc(index, "13.4.92.1", "License: Buy it first", licence=NEW_TEXT)
    shown = run("add", "13.4", "--write", *option)
    assert "nvrtc has another licence: NOASSERTION -> Buy it first" in shown
    assert '+    license: "Buy it first"' in shown
    assert (nvrtc(here).license, nvrtc(here).license_texts) == ("Buy it first", (sha256(NEW_TEXT),))
    assert "nothing changes" in run("add", "13.4", "--write")


def test_what_changed_in_a_text_is_shown_against_that_of_the_same_platform(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    windows = b"For Windows alone.\n"
    add_nvrtc(index, "13.4.92.1", tags=WHEELS_13[:2])
    add_nvrtc(index, "13.4.92.1", licence=windows, tags=WHEELS_13[2:])
    run("add", "13.4", "--write")
    before = snapshot(here)
    add_nvrtc(index, "13.4.92.2", tags=WHEELS_13[:2])
    add_nvrtc(index, "13.4.92.2", licence=b"Or nowhere.\r\n" + windows + b"\x1b[2J", tags=WHEELS_13[2:])
    with pytest.raises(LicenceChanged):
        run("add", "13.4", "--json")
    (told,) = console.mode().document["licences"]
    assert (told["components"], told["diff"]) == (["nvrtc"], None)
    with pytest.raises(LicenceChanged):
        run("add", "13.4", "--json", "--show-licences")
    (told,) = console.mode().document["licences"]
    name = "nvidia_cuda_nvrtc-{}-py3-none-win_amd64.whl"
    expected = [f"--- {name.format('13.4.92.1')}", f"+++ {name.format('13.4.92.2')}", "@@ -1 +1,3 @@"]
    assert told["diff"].splitlines() == [*expected, "+Or nowhere.", " For Windows alone.", "+\x1b[2J"]
    assert snapshot(here) == before
    shown = run("add", "13.4", "--show-licences", "--accept-licences")
    assert "+Or nowhere.\n For Windows alone.\n+\\x1b[2J\n" in shown


def test_a_new_text_is_shown_whole_where_the_old_file_is_gone(run: Run, index: FakeIndex, have: Have) -> None:
    have("13.4")
    add_nvrtc(index, "13.4.92.1", licence=NEW_TEXT)
    index.projects[NVRTC] = {f: c for f, c in index.projects[NVRTC].items() if "13.4.92.1" in f}
    shown = run("add", "13.4", "--show-licences", "--accept-licences")
    assert "the text of cuda-13.4 cannot be shown: the package index has no nvidia_cuda_nvrtc-13.4.92" in shown
    assert f"--- /dev/null\n+++ nvidia_cuda_nvrtc-13.4.92.1-py3-none-{WHEELS_13[0]}.whl" in shown
    assert "+You may do nothing with it." in shown


def test_a_text_that_is_gone_is_said_and_locked(run: Run, here: Workspace, index: FakeIndex) -> None:
    add_nvrtc(index, "13.4.92.1", tags=WHEELS_13[:3])
    add_nvrtc(index, "13.4.92.1", licence=NEW_TEXT, tags=WHEELS_13[3:])
    run("add", "13.4", "--write")
    add_nvrtc(index, "13.4.92.2")
    assert "nvrtc has another licence text, declared as NOASSERTION" in run("add", "13.4", "--write")
    assert nvrtc(here).license_texts == (TEXT,)


def test_a_damaged_lock_is_not_what_a_licence_is_compared_with(
    run: Run, here: Workspace, index: FakeIndex, have: Have
) -> None:
    have("12.9", "13.4")
    (here.variants / "cuda-13.4.lock").write_text("schema: [\n")
    add_nvrtc(index, "13.4.92.1", "License: Buy it first")
    with pytest.raises(LicenceChanged, match=r"NOASSERTION in cuda-12.9 -> Buy it first"):
        run("add", "13.4", "--write")


def test_check_shows_it_and_does_not_fail(run: Run, index: FakeIndex, have: Have) -> None:
    have("13.4")
    assert "accepted" not in run("check")
    add_nvrtc(index, "13.5.37", "License: Buy it first")
    requires = [r.replace("nvrtc==13.4.92.*", "nvrtc==13.5.37.*") for r in manifest_13()]
    index.add_wheel("cuda-toolkit", "13.5.0", "py2.py3-none-any", requires=requires)
    shown = run("check")
    assert "- cuda-13.5: nvrtc: NOASSERTION in cuda-13.4 -> Buy it first" in shown
    assert "ctk release add 13.5 --show-licences" in shown
    with pytest.raises(OutOfDate, match=r"newer files for cuda-13.5"):
        run("check", "--exit-code")


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ([], "--newer --write"),
        (["13.6"], "13.6 --write"),
        (["--accept-licences"], "--accept-licences --newer --write"),
        (["--accept-licence", "cudart", "13.6"], "--accept-licence cudart 13.6 --write"),
    ],
)
def test_the_one_command_for_a_release_passes_an_acceptance_on(
    tmp_path: Path, arguments: list[str], passed: str
) -> None:
    for name, text in (
        ("scripts/new-release", (ROOT / "scripts" / "new-release").read_text()),
        ("scripts/setup", ""),
        (".venv/bin/ctk", '#!/bin/sh\necho "$@" >>asked\n'),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["scripts/new-release", *arguments], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "asked").read_text().splitlines() == [f"release add {passed}", "release measure --write"]
