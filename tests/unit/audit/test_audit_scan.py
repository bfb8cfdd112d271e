"""The scan of a package sees everything, and scans and reports are kept."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctk.audit import AuditReport, audit_packages
from ctk.package import binaries
from ctk.package.scan import Scanner, Search, scan_wheel
from kit.binaries import elf
from kit.packages import Draft, good_set

NEEDLE = b"/srv/here"


@given(before=st.binary(max_size=40), after=st.binary(max_size=40), size=st.integers(1, 30))
def test_a_path_is_found_wherever_chunks_end(before: bytes, after: bytes, size: int) -> None:
    content = before.replace(NEEDLE, b"") + b"\0" + NEEDLE + b"/" + after.replace(NEEDLE, b"")
    search = Search([NEEDLE])
    for start in range(0, len(content), size):
        search.feed(content[start : start + size])
    search.feed(b"", last=True)
    assert search.hits == {NEEDLE: [content.index(NEEDLE)]}


@pytest.mark.parametrize(
    ("needle", "text", "is_seen"),
    [
        (NEEDLE, b"/srv/hereafter", False),
        (NEEDLE, b"/mnt/srv/here", False),
        (NEEDLE, b"/srv/her", False),
        (NEEDLE, b"x/srv/here", False),
        # A folder of the root is on every machine, so it counts only with a path below it.
        (b"/srv", b"/maps\0/srv\0$Id", False),
        (b"/srv", b"=/srv/.cache\0", True),
        (b"/srv", b"=/srv", False),
    ],
)
def test_only_a_whole_path_counts(needle: bytes, text: bytes, is_seen: bool) -> None:
    search = Search([needle])
    search.feed(text)
    search.feed(b"", last=True)
    assert bool(search.hits) == is_seen


def test_a_package_that_cannot_be_read_is_a_finding_beside_the_others(tmp_path: Path) -> None:
    paths = [draft.write(tmp_path) for draft in good_set().values()]
    broken = tmp_path / "linux-64" / "broken-1-0.conda"
    broken.write_bytes(b"not a package")
    report = audit_packages([*paths, broken], forbidden_paths=[])
    assert [(finding.check, finding.where) for finding in report.findings] == [
        ("PackageOpens", broken.name)
    ]
    assert not report.ok


def test_a_binary_of_several_packages_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each package has its own paths all the same, and what the binary says of itself."""
    read: list[str] = []
    plain = binaries.read_binary
    monkeypatch.setattr(
        binaries, "read_binary", lambda file: (read.append(file.name), plain(file))[1]
    )
    same, other = elf(soname="libx.so.1"), elf(soname="liby.so.1")
    scanner = Scanner([])
    scans = [
        scanner.scan(Draft(name, files={f"lib/{name}.so": content}).write(tmp_path))
        for name, content in (("a", same), ("b", same), ("c", other))
    ]
    found = {
        file.path: file.binary.soname
        for scan in scans
        for file in scan.files
        if file.binary is not None
    }
    assert found == {"lib/a.so": "libx.so.1", "lib/b.so": "libx.so.1", "lib/c.so": "liby.so.1"}
    assert len(read) == 2


def test_the_same_packages_are_audited_once(tmp_path: Path) -> None:
    paths = [draft.write(tmp_path) for draft in good_set().values()]
    cache = tmp_path / "cache"

    def audited(count: int = len(paths), forbidden: str = "/home/x", only: str = "") -> AuditReport:
        chosen = [only] if only else []
        return audit_packages(paths[:count], forbidden_paths=[forbidden], only=chosen, cache=cache)

    first = audited()
    assert not first.earlier and "unchanged" not in first.summary()
    assert audited() == first and audited().earlier and audited().summary().endswith(", unchanged")
    assert not any(
        other.earlier
        for other in (audited(1), audited(forbidden="/home/y"), audited(only="NoBuildPath"))
    )
    for note in (cache / "audits").iterdir():
        note.write_text("{")
    again = audited()
    assert again == first and not again.earlier
    other = Draft("another", files={"lib/x.txt": b"/home/y/x"})
    other.write(tmp_path).replace(paths[0])
    before, after = audited(), audited(forbidden="/home/y")
    assert not before.earlier
    assert {f.check for f in after.findings} - {f.check for f in before.findings} == {"NoBuildPath"}
    shutil.rmtree(cache)
    cache.touch()  # where nothing can be noted
    assert audited() == before


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("d = os.path.join(here, 'cccl')\nos.add_dll_directory(d)", ("cccl",)),
        (
            (
                "if os.path.isdir(d := os.path.abspath(os.path.join(here, 'x.libs'))):\n "
                " os.add_dll_directory(d)"
            ),
            ("x.libs",),
        ),
        ("for d in (here, os.path.join(here, 'lib')):\n  os.add_dll_directory(d)", ("lib",)),
        ("os.add_dll_directory(str(Path(here) / 'dlls'))", ("dlls",)),
        ("headers = os.path.join(here, 'headers')\nos.add_dll_directory(d)", ()),
        ("d = os.path.join(here, 'cccl')  # for os.add_dll_directory", ()),
        ("os.add_dll_directory(", ()),
    ],
    ids=[
        "a name",
        "the wheels' repair tool",
        "a loop",
        "a path object",
        "another path",
        "a comment",
        "no Python",
    ],
)
def test_folders_that_a_module_has_windows_search_are_seen(
    source: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x/__init__.py", f"import os\n{source}\n")
    (file,) = scan_wheel(wheel)
    assert file.dll_folders == names
