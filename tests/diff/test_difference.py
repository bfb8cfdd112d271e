"""Changes between two releases, and those that break programs: with made-up surfaces."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.platforms import PLATFORMS
from ctk.diff.compare import (
    ABSENT,
    FileChanges,
    LibraryChange,
    ReleaseDifference,
    breaks,
    compare,
    compare_files,
    pair,
)
from ctk.diff.licences import LicenceChange
from ctk.diff.render import LIMIT, as_json, markdown, summary, text
from ctk.diff.scan import Shown, Surface
from ctk.lock.model import Artefact, Component, Facts, ReleaseLock

GOLDEN = Path(__file__).with_name("golden") / "difference.md"
Made = tuple[ReleaseLock, dict[str, Surface]]


def library(name: str = "liba", version: str = "13", exports: Sequence[str] = (), **more: object) -> Shown:
    soname = f"{name}.so.{version}"
    return Shown(f"lib/{soname}", "x86_64", soname, exports=tuple(sorted(exports)), **more)  # type: ignore[arg-type]


def surface(*binaries: Shown, files: Mapping[str, str] | None = None) -> Surface:
    own = {b.path: str(hash(b)) for b in binaries}
    return Surface(own | dict(files or {}), binaries)


def made(release: str, components: Mapping[str, Surface], facts: Facts | None = None) -> Made:
    """A release for linux-64, and its surfaces; components with the same surface object are one artefact."""
    locked, surfaces = {}, {}
    for name, shown in components.items():
        sha256 = hashlib.sha256(repr(sorted(shown.files.items())).encode() + repr(shown.binaries).encode()).hexdigest()
        artefacts = dict.fromkeys(PLATFORMS) | {
            "linux-64": Artefact(name, name, f"{release}.1", "linux-64", f"{name}.whl", sha256, 1_000_000)
        }
        locked[name] = Component(name, name, f"{release}.1", artefacts)
        surfaces[sha256] = shown
    return ReleaseLock(release, None, dict(sorted(locked.items())), facts), surfaces


def difference(old: Made, new: Made) -> ReleaseDifference:
    return compare(old[0], new[0], ["linux-64"], old[1] | new[1])


def flagged(old: Made, new: Made) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(b.kind, b.place, b.names) for b in breaks(difference(old, new))]


def one(release: str, *binaries: Shown) -> Made:
    return made(release, {"a": surface(*binaries)})


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        (["go", "stop"], ["go", "more"], ("stop",)),
        (["go@A_1"], ["go@A_2"], ("go@A_1",)),  # for the loader, a symbol of another version is another symbol
        (["_ZNSt6vectorIcE4sizeEv", "_init"], [], ()),  # templates' and the linker's are listed and not flagged
    ],
    ids=["symbol", "version of a symbol", "internal"],
)
def test_a_removed_symbol_is_listed_always_and_flagged_within_a_major(
    old: list[str], new: list[str], gone: tuple[str, ...]
) -> None:
    before, next_major = one("13.3.1", library(exports=old)), one("14.0.0", library(exports=new))
    flags = flagged(before, one("13.4.0", library(exports=new)))
    assert flags == ([("symbols", "a: liba.so.13", gone)] if gone else [])
    assert flagged(before, next_major) == []
    removed = tuple(name for name in sorted(old) if name not in new)
    assert difference(before, next_major).components[0].libraries[0].removed == removed


def dll(name: str) -> Shown:
    return Shown(f"bin/{name}.dll", "x86_64", f"{name}.dll", exports=("go",))


BUILTINS = library("libx-builtins", "13.3", ["builtins_13_3"])


@pytest.mark.parametrize(
    ("old", "new", "flags"),
    [
        (
            {"a": surface(library(exports=["go"]))},
            {"a": surface(library(version="14", exports=["go"]))},
            [("SONAME", "a: liba.so.13", ())],
        ),
        (
            {"a": surface(library(), library("libb", exports=["go"]))},
            {"a": surface(library())},
            [("library", "a: libb.so.13", ("go",))],
        ),
        ({"a": surface(library()), "b": surface()}, {"a": surface(library())}, [("component", "b", ())]),
        # A library in another component is not removed; a library with the minor in its name is for that minor only.
        (
            {"a": surface(library(), library("libb")), "b": surface(library("libc"))},
            {"a": surface(library()), "b": surface(library("libc"), library("libb"))},
            [],
        ),
        ({"a": surface(BUILTINS)}, {"a": surface(library("libx-builtins", "13.4", ["builtins_13_4"]))}, []),
        ({"a": surface(dll("x64_133"))}, {"a": surface(dll("x64_134"))}, []),
        ({"a": surface(BUILTINS)}, {"a": surface(library())}, []),
    ],
)
def test_removed_parts_that_programs_use_are_flagged(
    old: dict[str, Surface], new: dict[str, Surface], flags: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    assert flagged(made("13.3.1", old), made("13.4.0", new)) == flags


@pytest.mark.parametrize(("old", "new"), [(["lib"], ["tool"]), (["bin", "lib"], ["tool"])])
def test_a_library_that_moved_or_whose_copies_became_one_is_the_same(old: list[str], new: list[str]) -> None:
    before, after = (
        [Shown(f"{folder}/liba.so", "x86_64", "liba.so", exports=("go",)) for folder in side] for side in (old, new)
    )
    assert not [change for change in pair(before, after) if change.is_changed]


def test_libraries_for_another_machine_are_others() -> None:
    wide, narrow = Shown("lib/liba.so", "x86_64", "liba.so"), Shown("x86/liba.so", "EM_386", "liba.so")
    assert pair([wide, narrow], [wide]) == (LibraryChange(wide, wide), LibraryChange(narrow, ABSENT))


def test_a_gpu_architecture_that_is_gone_is_flagged() -> None:
    old = made("13.3.1", {"a": surface()}, Facts(("7.0", "7.5"), "9.3", {}))
    new = made("13.4.0", {"a": surface()}, Facts(("7.5", "8.0"), "9.4", {}))
    assert [b.text for b in breaks(difference(old, new))] == ["no longer for 7.0"]
    lines = list(summary(difference(old, new), ()))
    assert "GPU architectures: +8.0 -7.0" in lines and "PTX ISA: 9.3 -> 9.4" in lines


def test_a_library_that_drops_a_gpu_is_named_and_is_no_break() -> None:
    old, new = (one(release, library()) for release in ("13.3.1", "13.4.0"))
    facts = [({"a": {"linux-64": gpus, "win-64": gpus}}) for gpus in (">=7.0,<13", ">=7.5,<13")]
    old, new = ((replace(lock, gpu_code=found), read) for (lock, read), found in zip((old, new), facts, strict=True))
    changed = difference(old, new)
    assert "a on linux-64: its code is for GPUs >=7.5,<13, and was for >=7.0,<13" in summary(changed, ())
    assert not breaks(changed)
    assert as_json(changed, ())["gpu_code"] == [
        {"component": "a", "platform": "linux-64", "old": ">=7.0,<13", "new": ">=7.5,<13"}
    ]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (one("13.3.1"), one("13.4.0"), "GPU architectures and PTX ISA: not measured, see `ctk release measure`"),
        (
            one("13.3.1", library(glibc="2.17")),
            one("13.4.0", library(glibc="2.28")),
            "newer glibc needed: a 2.17 -> 2.28",
        ),
    ],
    ids=["facts", "glibc"],
)
def test_important_changes_are_in_the_summary(old: Made, new: Made, line: str) -> None:
    assert line in summary(difference(old, new), ())


def test_components_of_one_artefact_are_compared_once_with_those_it_was_split_into() -> None:
    whole = surface(library("libx"), library("liby"))
    old = made("13.3.1", {"nvcc": whole, "nvvm": whole})
    new = made("13.4.0", {"nvcc": surface(library("libx")), "nvvm": surface(library("liby"))})
    [change] = difference(old, new).components
    assert (change.name, change.old.size, change.new.size) == ("nvcc, nvvm", 1_000_000, 2_000_000)
    assert change.libraries == ()
    assert change.files is not None and not change.files.removed


def test_without_surfaces_the_locks_are_compared_and_the_summary_says_so() -> None:
    old, new = one("13.3.1", library(exports=["go"])), one("13.4.0", library())
    found = compare(old[0], new[0], ["linux-64"])
    assert [(c.same, c.files, c.libraries) for c in found.components] == [(False, None, ())]
    assert "the binaries were not read: nothing is known of symbols, SONAMEs and files" in summary(found, ())


def test_files_of_a_package_are_added_removed_or_changed() -> None:
    old = {"include/a.h": "1", "include/b.h": "2"}
    new = {"include/b.h": "9", "include/d.h": "4"}
    assert compare_files(old, new) == FileChanges(("include/d.h",), ("include/a.h",), ("include/b.h",))
    record, text = "dist-info/RECORD", "dist-info/licenses/L.txt"
    wheel = {record: "1", "lib/__init__.py": "0", text: "1"}
    assert compare_files(wheel, {record: "2", text: "2"}) == FileChanges(changed=(text,))


def example() -> ReleaseDifference:
    facts = (Facts(("7.5", "8.0"), "9.3", {}), Facts(("7.5", "8.0", "10.7"), "9.4", {}))
    header = {"include/a.h": "1", "include/old.h": "2"}
    old = made(
        "13.3.1",
        {
            "a": surface(library(exports=["aGo", "aStop", "_ZN1aC1Ev"]), files=header),
            "same": surface(library("libsame")),
        },
        facts[0],
    )
    new = made(
        "13.4.0",
        {
            "a": surface(
                library(exports=["aGo", "aMore"], glibc="2.17", needed=("libsame.so.13",)),
                files={"include/a.h": "3", "include/new/old.h": "2", "a|b`c.txt": "1"},
            ),
            "new": surface(library("libnew", exports=["n"])),
            "same": surface(library("libsame")),
        },
        facts[1],
    )
    return difference(old, new)


def test_the_markdown_of_an_example_is_the_golden_one() -> None:
    found = example()
    shown = markdown(found, breaks(found))
    assert shown == GOLDEN.read_text(encoding="utf-8"), "if the new text is right, write it to the golden file"


def test_markdown_shows_names_as_they_are_and_leaves_out_a_text_without_room() -> None:
    assert text("a|b *c* <d> [e](f) __g__") == r"a\|b \*c\* \<d> \[e\](f) \_\_g\_\_"
    assert text("two\nlines") == "two?lines"
    lines = ("+```", "+</details>")
    licences = tuple(LicenceChange(("a",), "X", "Y", diff) for diff in (lines, ("+" * LIMIT,)))
    shown = markdown(replace(example(), licences=licences), ())
    assert shown.endswith("\n````\n+```\n+</details>\n````\n\n</details>\n")
    assert shown.count("<details>") == 1
