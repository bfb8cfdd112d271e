"""Changes between two releases, and those that break programs: with made-up contents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.platforms import PLATFORMS
from ctk.diff.compare import Release, ReleaseDifference, breaks, compare
from ctk.diff.licences import LicenceChange
from ctk.diff.render import LIMIT, as_json, markdown, summary, text
from ctk.lock.contents import PLAIN, Content, Contents
from ctk.lock.model import Artefact, Component, Facts, ReleaseLock
from ctk.package.binaries import Binary

GOLDEN = Path(__file__).with_name("golden") / "difference.md"


def content(name: str) -> Content:
    """The content of a library whose SONAME is its name."""
    if ".dll" in name:
        return Content(Binary("pe", "x86_64"))
    return Content(Binary("elf", "x86_64", soname=name)) if ".so" in name else PLAIN


def made(
    release: str, components: Mapping[str, Sequence[str]], facts: Facts | None = None
) -> Release:
    """A release for linux-64 of components with these files.

    Components with the same list are one artefact.
    """
    locked, known = {}, Contents()
    for name, files in components.items():
        sha256 = hashlib.sha256(repr(files).encode()).hexdigest()
        artefacts = dict.fromkeys(PLATFORMS) | {
            "linux-64": Artefact(
                name, name, f"{release}.1", "linux-64", f"{name}.whl", sha256, 1_000_000
            )
        }
        locked[name] = Component(name, name, f"{release}.1", artefacts)
        known.add(sha256, {f"nvidia/lib/{file}": content(file) for file in files})
    return Release(ReleaseLock(release, None, dict(sorted(locked.items())), facts), known)


def difference(old: Release, new: Release) -> ReleaseDifference:
    return compare(old, new, ["linux-64"])


BUILTINS = "libx-builtins.so.13.3"


@pytest.mark.parametrize(
    ("old", "new", "flags"),
    [
        ({"a": ["liba.so.13"]}, {"a": ["liba.so.14"]}, [("SONAME", "a", "liba.so.13 is gone")]),
        (
            {"a": ["liba.so.13", "a_64.dll"]},
            {"a": ["liba.so.13"]},
            [("SONAME", "a", "a_64.dll is gone")],
        ),
        (
            {"a": ["liba.so.13"], "b": ["b.h"]},
            {"a": ["liba.so.13"]},
            [("component", "b", "no longer published")],
        ),
        # A library in another component is not removed; a library with the minor in its name is for
        # that minor only.
        (
            {"a": ["liba.so.1", "libb.so.1"], "b": ["c"]},
            {"a": ["liba.so.1"], "b": ["libb.so.1"]},
            [],
        ),
        ({"a": [BUILTINS]}, {"a": ["libx-builtins.so.13.4"]}, []),
        ({"a": ["x64_133.dll"]}, {"a": ["x64_134.dll"]}, []),
    ],
)
def test_removed_parts_that_programs_use_are_flagged_within_a_major(
    old: dict[str, list[str]], new: dict[str, list[str]], flags: list[tuple[str, str, str]]
) -> None:
    before = made("13.3.1", old)
    assert [
        (b.kind, b.place, b.text) for b in breaks(difference(before, made("13.4.0", new)))
    ] == flags
    assert breaks(difference(before, made("14.0.0", new))) == ()


def test_what_is_not_measured_is_named_and_not_flagged() -> None:
    old = made("13.3.1", {"a": ["liba.so.13"]}, Facts(("7.5",), "9.3", {"linux-64": {"a": "2.17"}}))
    new = made("13.4.0", {"a": []})._replace(contents=Contents())
    found = difference(old, new)
    assert breaks(found) == ()
    first, *lines = summary(found, ())
    assert first == "13.4 is not measured; next: `ctk release measure 13.4 --write`"
    assert lines[1:] == [
        "GPU architectures and PTX ISA: not measured",
        "SONAMEs not measured: a",
        "gone within the major: no component",
    ]
    assert "| a | 13.3.1.1 -> 13.4.0.1 | 1.0 | 2.17 -> not measured |  |" in markdown(found, ())
    assert "HEAD:13.4 is not measured" in summary(
        difference(old, new._replace(revision="HEAD:")), ()
    )


def test_a_gpu_architecture_that_is_gone_is_flagged() -> None:
    old = made("13.3.1", {"a": []}, Facts(("7.0", "7.5"), "9.3", {"linux-64": {"a": "2.17"}}))
    new = made("13.4.0", {"a": ["x"]}, Facts(("7.5", "8.0"), "9.4", {"linux-64": {"a": "2.28"}}))
    assert [b.text for b in breaks(difference(old, new))] == ["no longer for 7.0"]
    lines = list(summary(difference(old, new), ()))
    assert "GPU architectures: +8.0 -7.0" in lines and "PTX ISA: 9.3 -> 9.4" in lines
    assert "newer glibc needed: a 2.17 -> 2.28" in lines


def test_a_library_that_drops_a_gpu_is_named_and_is_no_break() -> None:
    old, new = (made(release, {"a": ["liba.so.13"]}) for release in ("13.3.1", "13.4.0"))
    facts = [({"a": {"linux-64": gpus, "win-64": gpus}}) for gpus in (">=7.0,<13", ">=7.5,<13")]
    old, new = (
        r._replace(lock=replace(r.lock, gpu_code=found))
        for r, found in zip((old, new), facts, strict=True)
    )
    changed = difference(old, new)
    assert "a on linux-64: its code is for GPUs >=7.5,<13, and was for >=7.0,<13" in summary(
        changed, ()
    )
    assert not breaks(changed)
    assert as_json(changed, ())["gpu_code"] == [
        {"component": "a", "platform": "linux-64", "old": ">=7.0,<13", "new": ">=7.5,<13"}
    ]


def test_components_of_one_artefact_are_compared_once_with_those_it_was_split_into() -> None:
    old = made("13.3.1", {"nvcc": ["libx.so", "liby.so"], "nvvm": ["libx.so", "liby.so"]})
    [change] = difference(
        old, made("13.4.0", {"nvcc": ["libx.so"], "nvvm": ["liby.so"]})
    ).components
    assert (change.name, change.old.size, change.new.size) == ("nvcc, nvvm", 1_000_000, 2_000_000)
    assert change.added == change.removed == []


def example() -> ReleaseDifference:
    facts = (
        Facts(("7.5", "8.0"), "9.3", {}),
        Facts(("7.5", "8.0", "10.7"), "9.4", {"linux-64": {"a": "2.17"}}),
    )
    old = made("13.3.1", {"a": ["liba.so.13", "libold.so.1"], "same": ["libsame.so.1"]}, facts[0])
    new = made(
        "13.4.0", {"a": ["liba.so.13"], "new": ["libnew.so.2"], "same": ["libsame.so.1"]}, facts[1]
    )
    return difference(old, new)


def test_the_markdown_of_an_example_is_the_golden_one() -> None:
    found = example()
    shown = markdown(found, breaks(found))
    assert shown == GOLDEN.read_text(encoding="utf-8"), (
        "if the new text is right, write it to the golden file"
    )


def test_markdown_shows_names_as_they_are_and_leaves_out_a_text_without_room() -> None:
    assert text("a|b *c* <d> [e](f) __g__") == r"a\|b \*c\* \<d> \[e\](f) \_\_g\_\_"
    assert text("two\nlines") == "two?lines"
    lines = ("+```", "+</details>")
    licences = tuple(LicenceChange(("a",), "X", "Y", diff) for diff in (lines, ("+" * LIMIT,)))
    shown = markdown(replace(example(), licences=licences), ())
    assert shown.endswith("\n````\n+```\n+</details>\n````\n\n</details>\n")
    assert shown.count("<details>") == 1
