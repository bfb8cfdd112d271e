"""Licences in the locks, and their changes."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from email.parser import Parser

import pytest

from ctk.core import console
from ctk.core.checkout import Workspace
from ctk.diff.compare import Release
from ctk.index import IndexSettings
from ctk.index.client import Retry
from ctk.index.index import Index
from ctk.lock.contents import Contents
from ctk.lock.model import Component, load
from ctk.lock.wheels import Licence, declared_licence, read_licence
from ctk.release.review import predecessor
from kit.ctk_release import Have, Run, release
from kit.fake_ctk import WHEELS_13
from kit.fake_index import LICENCE, FakeIndex, serve

pytest_plugins = ["kit.ctk_release_fixtures"]
NVRTC = "nvidia-cuda-nvrtc"
TEXT = hashlib.sha256(LICENCE).hexdigest()
NEW_TEXT = b"You may do nothing with it.\n"


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def add_nvrtc(
    index: FakeIndex,
    version: str,
    *metadata: str,
    licence: bytes = LICENCE,
    tags: tuple[str, ...] = WHEELS_13,
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
        (
            ["License: NVIDIA Proprietary Software", "Classifier: License :: A"],
            "NVIDIA Proprietary Software",
        ),
        (
            ["License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"],
            "OSI Approved :: MIT License",
        ),
        (
            ["Classifier: License :: B", "Classifier: Topic :: C", "Classifier: License :: A"],
            "A; B",
        ),
        ([], "NOASSERTION"),
    ],
)
def test_a_declared_licence_is_one_line(metadata: list[str], expected: str) -> None:
    assert (
        declared_licence(Parser().parsestr("\n".join(["Name: a", *metadata]) + "\n\n")) == expected
    )


def test_a_whole_text_as_the_declaration_is_its_first_line_and_a_hash() -> None:
    text = "The licence of it\n\n" + "Do what you like. " * 20

    def of(text: str) -> str:
        return declared_licence(
            Parser().parsestr("License: " + text.replace("\n", "\n        ") + "\n\n")
        )

    digest = sha256(" ".join(text.split()).encode())
    assert of(text) == f"The licence of it (text {digest})"
    assert of(text + "And no more.") != of(text)


def test_texts_are_read_from_the_dist_info_folder_with_any_line_ends(server: FakeIndex) -> None:
    server.add_wheel(
        "tool",
        "1",
        metadata=["License-Expression: MIT"],
        licence=b"A\r\nB\n",
        files={"tool/LICENSE": b"C"},
    )
    assert read(server) == Licence("MIT", sha256(b"A\nB\n"))


def test_a_wheel_without_a_text_there_may_have_it_beside_its_library(server: FakeIndex) -> None:
    server.add_wheel(
        "tool", "2", licence=b"", files={"tool/LICENSE": b"C", "tool/lib/LICENSE": b"D"}
    )
    assert read(server) == Licence("NOASSERTION", sha256(b"C"))
    server.add_wheel("tool", "4", licence=b"", files={"tool/lib/LICENSE": b"D"})
    assert read(server) == Licence("NOASSERTION", None)


def test_a_source_distribution_says_it_too(server: FakeIndex) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in (
            ("PKG-INFO", b"License: X\n"),
            ("LICENSE", LICENCE),
            ("src/LICENSE", b"of others"),
        ):
            member = tarfile.TarInfo(f"tool-1/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    server.add("tool-1.tar.gz", out.getvalue())
    assert read(server) == Licence("X", TEXT)


def test_a_lock_has_the_licence_of_each_component(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    add_nvrtc(index, "13.4.92.1", "License: NVIDIA Proprietary Software", tags=WHEELS_13[:3])
    add_nvrtc(
        index,
        "13.4.92.1",
        "License: NVIDIA Proprietary Software",
        licence=NEW_TEXT,
        tags=WHEELS_13[3:],
    )
    run("add", "13.4", "--write")
    assert nvrtc(here).license == "NVIDIA Proprietary Software"
    assert nvrtc(here).license_texts == tuple(sorted([TEXT, sha256(NEW_TEXT)]))
    others = [
        c for c in load(here.variants / "cuda-13.4.lock").components.values() if c.name != "nvrtc"
    ]
    assert {(c.license, c.license_texts) for c in others} == {("NOASSERTION", (TEXT,))}


@pytest.mark.parametrize(
    ("in_place", "new", "expected"),
    [
        (["13.3.1", "13.4.0"], "13.3.2", "cuda-13.3"),
        (["12.9.1", "13.3.1", "13.4.0"], "13.5.0", "cuda-13.4"),
        (["12.9.1"], "13.4.0", "cuda-12.9"),
        (["python-13"], "13.4.0", None),
    ],
)
def test_a_new_lock_is_compared_with_the_nearest_one(
    in_place: list[str], new: str, expected: str | None
) -> None:
    locks = {lock.name: lock for lock in map(release, in_place)}
    found = predecessor(locks, release(new))
    assert (found and found.name) == expected


def test_a_changed_licence_is_a_line_and_is_locked(
    run: Run, here: Workspace, index: FakeIndex, have: Have
) -> None:
    have("13.4")
    add_nvrtc(index, "13.4.92.1", licence=NEW_TEXT)
    said = "cuda-13.4, compared with cuda-13.4: licence of nvrtc: "
    shown = run("add", "13.4")
    assert (
        f"{said}another text, still declared as NOASSERTION; release diff shows the text" in shown
    )
    assert f"+      license_texts: [{sha256(NEW_TEXT)}]" in shown.replace('"', "")
    add_nvrtc(index, "13.4.92.2", "License: Buy it first")
    assert f"{said}NOASSERTION -> Buy it first; " in run("add", "13.4", "--write")
    assert (nvrtc(here).license, nvrtc(here).license_texts) == ("Buy it first", (TEXT,))
    assert "nothing changes" in run("add", "13.4", "--write")


def test_a_changed_text_is_compared_with_that_of_the_same_platform(
    run: Run, here: Workspace, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows, locks = b"For Windows alone.\n", {}
    for name, version, text in (
        ("old", "13.4.92.1", windows),
        ("new", "13.4.92.2", b"Or nowhere.\r\n" + windows + b"\x1b[2J"),
    ):
        add_nvrtc(index, version, tags=WHEELS_13[:2])
        add_nvrtc(index, version, licence=text, tags=WHEELS_13[2:])
        run("add", "13.4", "--write")
        locks[name] = load(here.variants / "cuda-13.4.lock")
    monkeypatch.setattr("ctk.cli.work.diff.find", lambda name, _: Release(locks[name], Contents()))
    words = ("diff", "old", "new")
    shown = run(*words)
    assert "licence of nvrtc: another text, still declared as NOASSERTION" in shown
    name = "nvidia_cuda_nvrtc-{}-py3-none-win_amd64.whl"
    expected = [
        f"--- {name.format('13.4.92.1')}",
        f"+++ {name.format('13.4.92.2')}",
        "@@ -1 +1,3 @@",
    ]
    assert "\n".join([*expected, "+Or nowhere.", " For Windows alone.", "+?[2J"]) in shown
    run(*words, "--json")
    (change,) = console.mode().document["licences"]
    assert (change["components"], change["diff"][-1]) == (("nvrtc",), "+\x1b[2J")
    index.projects[NVRTC] = {f: c for f, c in index.projects[NVRTC].items() if "13.4.92.2" in f}
    assert "the texts cannot be shown: the package index has no nvidia_cuda_nvrtc-13.4.92.1" in run(
        *words
    )
