"""``variants/contents.json``: written contents are read again.

Each is written once, and only for the locks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import MeasureFailed
from ctk.lock import contents
from ctk.lock.contents import PLAIN, Content, Contents, read_contents
from ctk.lock.model import Artefact
from ctk.package.binaries import Binary, SearchPath
from kit.binaries import elf
from kit.packages import wheel

ONE, OTHER = "1" * 64, "2" * 64
LIBRARY = Content(Binary("elf", "x86_64", "libx.so.1", ("libc.so.6",)), ">=7.5")
MEMBERS = {
    "nvidia/x/lib/libx.so.1": LIBRARY,
    "nvidia/x/lib/liby.so.1": Content(
        Binary("elf", "x86_64", "liby.so.1", ("libc.so.6",)), ">=7.5"
    ),
    "nvidia/x/include/x.h": PLAIN,
    "x/__init__.py": Content(dll_folders=("x.libs",)),
    "x-1.dist-info/RECORD": PLAIN,
}


def test_added_members_are_read_again(tmp_path: Path) -> None:
    held = Contents()
    held.add(ONE, MEMBERS)
    (tmp_path / "variants").mkdir()
    contents.path_of(Workspace(tmp_path)).write_text(held.dump())
    again = contents.load(Workspace(tmp_path))
    assert again.members(ONE) == MEMBERS
    assert again.dump() == held.dump()
    assert again.members(OTHER) is None


def test_binaries_are_read_wherever_they_are_and_one_that_cannot_be_read_is_an_error(
    tmp_path: Path,
) -> None:
    artefact = Artefact("x", "x", "1", "linux-64", "x.whl", ONE, 1)
    files = {
        "deep/in/it": elf(versions={"libc.so.6": ["GLIBC_2.27"]}),
        "x.txt": b"GLIBC_2.99",
        "short": b"\x7f",
    }
    found = read_contents(artefact, wheel(tmp_path / "x.whl", files), ())
    assert {name: c.binary and c.binary.versions for name, c in found.items()} == {
        "deep/in/it": {"GLIBC": "2.27"},
        "x.txt": None,
        "short": None,
    }
    broken = wheel(tmp_path / "y.whl", {"lib/a.so": b"\x7fELF" + b"\xff" * 100})
    with pytest.raises(MeasureFailed, match=r"lib/a\.so"):
        read_contents(artefact, broken, ())


def test_equal_folders_and_contents_are_written_once() -> None:
    held = Contents()
    held.add(ONE, MEMBERS)
    before = len(held.folders), len(held.contents)
    held.add(OTHER, MEMBERS)
    assert (len(held.folders), len(held.contents)) == before
    assert len(held.contents) == 2  # libraries whose names are their SONAMEs have equal contents


def test_deep_headers_and_sources_are_left_out_unless_they_say_something() -> None:
    held = Contents()
    deep = ["n/include/a/b/c.h", "x/y.py", "x/y.pyi"]
    kept = ["n/include/a/b.h", "x/__init__.py", "top.py"]
    held.add(ONE, {**dict.fromkeys([*deep, *kept], PLAIN), "x/z.py": Content(dll_folders=("lib",))})
    assert set(held.members(ONE) or ()) == {*kept, "x/z.py"}


def test_contents_that_no_lock_names_are_removed() -> None:
    held = Contents()
    held.add(ONE, MEMBERS)
    held.add(OTHER, {"b": LIBRARY, "z/only.txt": PLAIN})
    alone = Contents()
    alone.add(ONE, MEMBERS)
    assert held.of([ONE]).dump() == alone.dump()


def test_a_folder_of_the_machine_that_made_a_wheel_is_not_named() -> None:
    """It leads nowhere, and would be somebody's path in a file of ours.

    That there is one stays known.
    """
    search = (SearchPath("RUNPATH", "$ORIGIN/../lib:/home/someone/llvm/lib:"),)
    held = Contents()
    held.add(ONE, {"a.so": Content(binary=Binary("elf", "x86_64", search=search))})
    (content,) = (held.members(ONE) or {}).values()
    assert content.binary is not None
    assert content.binary.search == (SearchPath("RUNPATH", "$ORIGIN/../lib:/elsewhere:"),)
    assert "someone" not in held.dump()
