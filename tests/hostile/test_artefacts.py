"""What an artefact may do when its publisher is hostile and its sha256 is the locked one: nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from crafted_wheels import (
    DEFLATED,
    INFO,
    METADATA,
    Entry,
    artefact,
    deflated,
    elf,
    hash_of,
    pe,
    wheel_of,
    with_descriptors,
    with_record,
    zip_of,
)

from conftest import ROOT, ctk
from ctk import fetch
from ctk.artefact.check import check
from ctk.artefact.names import clashes, wrong_with
from ctk.errors import ArtefactRefused
from ctk.lock import Artefact
from ctk.lock_text import dump
from ctk.paths import Workspace
from ctk.pipeline import Index

sys.path.append(str(ROOT / "tests" / "tooling"))
import tiny

A, B = Entry(b"nvidia/a", b"a"), Entry(b"nvidia/b", b"bb")
RECORD, META = f"{INFO}/RECORD".encode(), f"{INFO}/METADATA".encode()
LINK = 0o120777


def refusal(data: bytes, folder: Path, target: str = "linux-64", file: str = "") -> str:
    """What is said of an artefact; "" when it is admitted."""
    path = folder / "artefact"
    path.write_bytes(data)
    try:
        check(artefact(data, target, file), path)
    except ArtefactRefused as refused:
        assert refused.step and (file or "nvidia_cuda_runtime") in refused.cause
        return refused.cause
    return ""


def stated(line: bytes) -> bytes:
    """A wheel of one file, with that line about it in RECORD."""
    lines = [line, f"{INFO}/METADATA,sha256={hash_of(METADATA)},{len(METADATA)}\n".encode(), RECORD + b",,\n"]
    return zip_of([A, Entry(META, METADATA), Entry(RECORD, b"".join(lines))])


GOOD: dict[str, bytes] = {
    "plain": wheel_of(A, B),
    "compressed": wheel_of(Entry(b"nvidia/a", b"a" * 10_000, method=DEFLATED)),
    "with folders": wheel_of(Entry(b"nvidia/", mode=0o40755), A),
    "sizes after the content": with_descriptors(with_record([A])),
    "a name in UTF-8": wheel_of(Entry("nvidia/ü".encode(), b"a", flags=0x800)),
    "its own library": wheel_of(Entry(b"nvidia/a.so", elf(62))),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_wheel_is_admitted(tmp_path: Path, name: str) -> None:
    assert refusal(GOOD[name], tmp_path) == ""


HOSTILE: dict[str, tuple[bytes, str]] = {
    # ---- where its files would be
    "a path upwards": (wheel_of(Entry(b"nvidia/../../x", b"")), "nvidia/../../x: a path that leaves its folder"),
    "an absolute path": (wheel_of(Entry(b"/etc/x", b"")), "/etc/x: an absolute path"),
    "a drive": (wheel_of(Entry(b"C:/x", b"")), "the character ':'"),
    "a backslash": (wheel_of(Entry(b"..\\x", b"")), "the character '\\\\'"),
    "a NUL": (wheel_of(Entry(b"nvidia/a\0.so", b"")), "the character '\\x00'"),
    "a newline": (wheel_of(Entry(b"nvidia/a\nb", b"")), "the character '\\n'"),
    "an escape sequence": (wheel_of(Entry(b"nvidia/\x1b[2J", b"")), "'nvidia/\\x1b[2J': the character"),
    "a bar, which ends sed's pattern": (wheel_of(Entry(b"a|e touch X|/b", b"")), "the character '|'"),
    "an empty part": (wheel_of(Entry(b"nvidia//a", b"")), "an empty part"),
    "a dot": (wheel_of(Entry(b"./a", b"")), "an empty part"),
    "a device of Windows": (wheel_of(Entry(b"nvidia/NUL.txt", b"")), "a device on Windows"),
    "a dot at the end": (wheel_of(Entry(b"nvidia/a.", b"")), "which Windows drops"),
    "a long path": (wheel_of(Entry(b"a/" * 300 + b"a", b"")), "512 are the most"),
    "a deep path": (wheel_of(Entry(b"a/" * 40 + b"a", b"")), "32 are the most"),
    "a long part": (wheel_of(Entry(b"a" * 300, b"")), "more than 255 bytes"),
    "an old alphabet": (wheel_of(Entry(b"nvidia/\x81", b"")), "an old alphabet"),
    "no Unicode": (wheel_of(Entry(b"nvidia/\xff", b"", flags=0x800)), "no zip that can be read"),
    # ---- which of two files it means
    "a name twice": (zip_of(with_record([A, A])), "nvidia/a: occurs twice"),
    "names that differ in case": (wheel_of(A, Entry(b"nvidia/A", b"")), "nvidia/A: clashes with nvidia/a"),
    "folders that differ in case": (wheel_of(A, Entry(b"Nvidia/b", b"")), "Nvidia/b: clashes with nvidia"),
    "names that are one to macOS": (
        wheel_of(Entry("é".encode(), b"", flags=0x800), Entry("e\u0301".encode(), b"", flags=0x800)),
        "clashes with",
    ),
    "a file that is a folder": (wheel_of(A, Entry(b"nvidia/a/b", b"")), "nvidia/a/b: lies in what is a file"),
    "another name in its own header": (
        wheel_of(Entry(b"nvidia/a", b"a", local_name=b"../../../x")),
        "its own header is not what the directory says",
    ),
    "a second name in a field": (
        wheel_of(Entry(b"nvidia/a", b"a", extra=struct.pack("<2HBL1s", 0x7075, 6, 1, 0, b"b"))),
        "second name",
    ),
    # ---- what its members are
    "a link": (wheel_of(Entry(b"nvidia/a", b"/etc/passwd", mode=LINK)), "nvidia/a: a link"),
    "a pipe": (wheel_of(Entry(b"nvidia/a", b"", mode=0o10644)), "a device, pipe or socket"),
    "a device": (wheel_of(Entry(b"nvidia/a", b"", mode=0o20644)), "a device, pipe or socket"),
    "a program that runs as its owner": (wheel_of(Entry(b"nvidia/a", b"", mode=0o104755)), "as another user"),
    "a folder with content": (wheel_of(Entry(b"nvidia/", b"a", mode=0o40755)), "a folder with content"),
    "a folder that is a file": (wheel_of(Entry(b"nvidia/", b"", mode=0o100644)), "not by the other"),
    "an encrypted member": (wheel_of(Entry(b"nvidia/a", b"a", flags=1)), "encrypted"),
    "another compression": (wheel_of(Entry(b"nvidia/a", b"a", method=14)), "compressed in a way"),
    # ---- how large it is
    "claims 3 GB": (wheel_of(Entry(b"nvidia/a", b"a", claims=3 << 30)), "unpacks to 3221225"),
    "is larger than it claims": (
        wheel_of(Entry(b"nvidia/a", b"a" * 8, packed=deflated(bytes(60 << 20)), method=DEFLATED)),
        "unpacks to more than the 8 bytes",
    ),
    "is smaller than it claims": (wheel_of(Entry(b"nvidia/a", b"a", claims=2)), "is damaged"),
    "has another checksum": (wheel_of(Entry(b"nvidia/a", b"a", crc=1)), "is damaged"),
    "has a broken stream": (wheel_of(Entry(b"nvidia/a", b"a", packed=b"\xff\xff", method=DEFLATED)), "is damaged"),
    "has a stream that does not end": (
        wheel_of(Entry(b"nvidia/a", b"abcabcabc", packed=deflated(b"abcabcabc")[:-2], method=DEFLATED)),
        "cut short",
    ),
    "has something after a stream": (
        wheel_of(Entry(b"nvidia/a", b"a", packed=deflated(b"a") + b"more", method=DEFLATED)),
        "something after its content",
    ),
    "too many members": (zip_of([Entry(b"%d" % n) for n in range(50_001)]), "50001 members"),
    # ---- whether it is one zip
    "nothing": (b"", "no directory at its end"),
    "no zip": (bytes(1000), "is no zip, is cut short"),
    "cut short": (wheel_of(A, B)[:-30], "is no zip, is cut short"),
    "its head cut off": (wheel_of(A, B)[10:], "not where it says"),
    "something before it": (b"#!/bin/sh\n" + wheel_of(A), "not where it says"),
    "something after it": (wheel_of(A) + b"more", "is cut short, or has something after"),
    "a comment": (wheel_of(A, comment=b"PK\5\6"), "something after its directory"),
    "two directories": (wheel_of(A)[:-22] + zip_of([B]), "not where it says"),
    "something between": (wheel_of(A, between=zip_of([B])), "between its members and the directory"),
    "members that overlap": (
        zip_of(with_record([A, Entry(b"nvidia/b", b"a", local_name=b"nvidia/a", offset=0)])),
        "it overlaps the one before",
    ),
    "a place outside the file": (wheel_of(Entry(b"nvidia/a", b"a", offset=1 << 20)), "before it"),
    "says another number of members": (wheel_of(A, B, count=2), "has 4 members and says 2"),
    "a wrong size after the content": (with_descriptors(with_record([A]), lie=1), "bytes before it"),
    # ---- what it says of itself
    "no RECORD": (zip_of([A, Entry(META, METADATA)]), f"{INFO}/RECORD: is missing"),
    "no METADATA": (zip_of([A, Entry(RECORD, b"")]), "METADATA"),
    "a file that RECORD lacks": (zip_of([*with_record([A]), B]), "nvidia/b: is not in RECORD"),
    "a file that RECORD has and it lacks": (zip_of(with_record([A, B])[1:]), "nvidia/a: is in RECORD and not in"),
    "another hash": (stated(f"nvidia/a,sha256={hash_of(b'b')},1\n".encode()), "nvidia/a: is not the file that RECORD"),
    "another size": (stated(f"nvidia/a,sha256={hash_of(b'a')},2\n".encode()), "nvidia/a: is not the file that RECORD"),
    "no hash": (stated(b"nvidia/a,,1\n"), "nvidia/a: has no hash in RECORD"),
    "an old hash": (stated(b"nvidia/a,md5=DMF1ucDxtqgxw5niaXcmYQ,1\n"), "none of sha256"),
    "a hash that is none": (stated(b"nvidia/a,sha256=***,1\n"), "RECORD: cannot be read"),
    "a size that is none": (stated(f"nvidia/a,sha256={hash_of(b'a')},-1\n".encode()), "no number"),
    "a line twice": (stated(b"nvidia/a,,\nnvidia/a,,\n"), "states 'nvidia/a' twice"),
    "a line of two fields": (stated(b"nvidia/a,\n"), "RECORD: cannot be read"),
    "a RECORD of one endless field": (stated(b'"' + b"a" * 200_000), "RECORD: cannot be read"),
    "a RECORD that is no text": (stated(b"\xff\xfe"), "RECORD: cannot be read"),
    "a RECORD of 17 MB": (zip_of([A, Entry(META, METADATA), Entry(RECORD, bytes(17 << 20))]), "16777216 are the most"),
    "two .dist-info folders": (wheel_of(Entry(b"other-1.dist-info/METADATA", b"")), "and it has 2"),
    "another's .dist-info folder": (
        zip_of([Entry(b"other-1.dist-info/METADATA"), Entry(b"other-1.dist-info/RECORD")]),
        "is not the folder of nvidia-cuda-runtime 13.4.92",
    ),
    "another's METADATA": (
        zip_of([Entry(META, b"Name: other\nVersion: 13.4.92\n"), Entry(RECORD, b"x,,")]),
        "is that of 'other 13.4.92', not of nvidia-cuda-runtime 13.4.92",
    ),
    # ---- for which machine it is
    "a library of ARM": (
        wheel_of(Entry(b"nvidia/a.so", elf(183))),
        "a binary for aarch64 (ELF) in an artefact for linux-64",
    ),
    "a DLL": (wheel_of(Entry(b"nvidia/a", pe(0x8664))), "a binary for x86_64 (PE) in an artefact for linux-64"),
    "a library of a Mac": (wheel_of(Entry(b"a", b"\xcf\xfa\xed\xfe" + bytes(40))), "a binary for macOS (MACH-O)"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_wheel_is_refused_with_member_and_reason(tmp_path: Path, name: str) -> None:
    data, reason = HOSTILE[name]
    said = refusal(data, tmp_path)
    assert reason in said
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("data", "target", "reason"),
    [
        (elf(62), "noarch", "for x86_64 (ELF) in an artefact for noarch"),
        (pe(0x8664), "noarch", "for x86_64 (PE) in an artefact for noarch"),
        (elf(62), "linux-aarch64", "for x86_64 (ELF) in an artefact for linux-aarch64"),
        (pe(0xAA64), "win-64", "for aarch64 (PE) in an artefact for win-64"),
        (elf(62), "win-64-cp313", "for x86_64 (ELF) in an artefact for win-64-cp313"),
        (elf(99), "linux-64-cp313t", "for machine 99 (ELF)"),
        (pe(0xAA64), "win-arm64", ""),
        (elf(183), "linux-aarch64-cp313", ""),
        (elf(62)[:10], "noarch", ""),
    ],
)
def test_binaries_are_for_the_machine_that_the_lock_names(
    tmp_path: Path, data: bytes, target: str, reason: str
) -> None:
    said = refusal(wheel_of(Entry(b"nvidia/a.exe", data)), tmp_path, target)
    assert reason in said and bool(reason) == bool(said)


def test_at_most_ten_problems_of_an_artefact_are_shown(tmp_path: Path) -> None:
    said = refusal(wheel_of(*(Entry(b"../%d" % n, b"") for n in range(1000))), tmp_path)
    assert said.count("\n") == 10


def test_a_long_name_is_cut_in_the_message(tmp_path: Path) -> None:
    assert len(refusal(wheel_of(Entry(b"a" * 60_000, b"")), tmp_path)) < 600


# ---- source distributions


def tar_of(*members: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)) if member.isreg() else None)
    return out.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    for key, value in fields.items():
        setattr(member, key, value)
    return member


def gigantic_header() -> bytes:
    """A header whose long name has two gigabytes."""
    member = entry("././@LongLink", b"L", size=2 << 30)
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(10_240)


TARS: dict[str, tuple[Callable[[], bytes], str]] = {
    "good": (lambda: gzip.compress(tar_of(entry("a", tarfile.DIRTYPE), entry("a/b", size=3000)))  , ""),
    "a long name": (lambda: gzip.compress(tar_of(entry("a" * 150, size=3))), ""),
    "a path upwards": (lambda: gzip.compress(tar_of(entry("a/../../b"))), "leaves its folder"),
    "an absolute path": (lambda: gzip.compress(tar_of(entry("/etc/b"))), "an absolute path"),
    "a link": (lambda: gzip.compress(tar_of(entry("a", tarfile.SYMTYPE, linkname="/etc"))), "a: a link"),
    "a hard link": (lambda: gzip.compress(tar_of(entry("a", tarfile.LNKTYPE, linkname="../b"))), "a: a link"),
    "a pipe": (lambda: gzip.compress(tar_of(entry("a", tarfile.FIFOTYPE))), "neither a file nor a folder"),
    "a device": (lambda: gzip.compress(tar_of(entry("a", tarfile.BLKTYPE))), "neither a file nor a folder"),
    "a program as root": (lambda: gzip.compress(tar_of(entry("a", mode=0o4755))), "as another user"),
    "a name twice": (lambda: gzip.compress(tar_of(entry("a"), entry("a"))), "occurs twice"),
    "no Unicode": (lambda: gzip.compress(tar_of(entry("a\udcff"), form=tarfile.GNU_FORMAT)), "no Unicode"),
    "a bomb": (lambda: gzip.compress(bytes(20 << 20)), "unpacks to more than"),
    "a gigantic header": (lambda: gzip.compress(gigantic_header()), "a header of 2147483648 bytes"),
    "cut short": (lambda: gzip.compress(tar_of(entry("a", size=3000)))[:-20], "no gzip"),
    "its tar cut short": (lambda: gzip.compress(tar_of(entry("a", size=3000))[:1000]), "no tar"),
    "no gzip": (lambda: b"PK", "no gzip"),
    "no tar": (lambda: gzip.compress(b"a" * 2000), "no tar"),
    "something after it": (lambda: gzip.compress(tar_of(entry("a")) + b"a" * 512), "something after its end"),
    "a broken header": (
        lambda: gzip.compress(tar_of(entry("a"))[:512] + b"a" * 512 + tar_of(entry("../b"))),
        "a member whose header is broken",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TARS)
def test_a_hostile_source_distribution_is_refused(tmp_path: Path, name: str) -> None:
    make, reason = TARS[name]
    said = refusal(make(), tmp_path, "noarch", "cufinufft-2.5.1.tar.gz")
    assert reason in said and bool(reason) == bool(said)


# ---- names by themselves


@pytest.mark.parametrize("name", ["con", "Aux.h", "a/lpt9", "com¹", "a/b /c", "a:b", "a\x7f", "a?", 'a"b', "\u0085"])
def test_names_that_one_system_cannot_have_are_for_none(name: str) -> None:
    assert wrong_with(name)


@pytest.mark.parametrize("name", ["a", "a/", "a/b.so.13", "console", "a+b@c,d~(e) [f]=g&h#", ".hidden", "-x", "..a"])
def test_names_that_every_system_can_have_are_good(name: str) -> None:
    assert wrong_with(name) is None


def test_the_same_folder_is_named_by_many_and_is_no_clash() -> None:
    assert not [*clashes(["a/", "a/b", "a/c/d", "a/c/e", "b"])]


# ---- fetch


def no_index() -> Index:
    raise AssertionError("the index was asked")


def in_store(data: bytes, workspace: Workspace) -> Artefact:
    wanted = artefact(data)
    home = fetch.stored(wanted, workspace)
    home.parent.mkdir(parents=True)
    home.write_bytes(data)
    return wanted


def test_a_refused_artefact_is_never_laid_out_and_refused_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(HOSTILE["a path upwards"][0], workspace)
    for _ in range(2):
        with pytest.raises(ArtefactRefused):
            fetch.fetch([wanted], workspace, no_index)
    assert not fetch.laid_out(wanted, workspace).exists()
    assert not (tmp_path.parent / "x").exists()


def test_what_was_admitted_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(GOOD["plain"], workspace)
    fetch.fetch([wanted], workspace, no_index)
    monkeypatch.setattr("ctk.artefact.check.check", lambda *_: pytest.fail("it was read again"))
    fetch.fetch([wanted], workspace, no_index)


def test_the_same_file_for_another_target_is_looked_through_anew(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(GOOD["its own library"], workspace)
    fetch.fetch([wanted], workspace, no_index)
    with pytest.raises(ArtefactRefused, match="for x86_64"):
        fetch.fetch([replace(wanted, target="linux-aarch64")], workspace, no_index)


def test_a_build_ends_before_anything_of_it_is_unpacked(tmp_path: Path) -> None:
    workspace = tiny.tiny_checkout(tmp_path / "checkout")
    data, reason = HOSTILE["a path upwards"]
    wanted = replace(tiny.artefact(), sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    whole = tiny.lock()
    artefacts = {**whole.components["cudart"].artefacts, "linux-64": wanted}
    lock = replace(whole, components={"cudart": replace(whole.components["cudart"], artefacts=artefacts)})
    (workspace.variants / "cuda-13.4.lock").write_text(dump(lock))
    home = fetch.stored(wanted, workspace)
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_bytes(data)
    done = ctk(workspace, "build", "--base", str(tmp_path / "base"), "--platform", "linux-64")
    assert done.returncode == ArtefactRefused.exit_code, done.stderr
    assert wanted.file in done.stderr and reason in done.stderr and "next: nothing of it was unpacked" in done.stderr
    assert not workspace.artefacts.exists() and not workspace.builds.exists() and not workspace.channel.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["checkout"]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]), int(sys.argv[3])))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from pathlib import Path
from crafted_wheels import artefact
from ctk.artefact.check import check
from ctk.errors import ArtefactRefused
path = Path(sys.argv[4])
try:
    check(artefact(b"", file=path.name), path)
except ArtefactRefused as refused:
    print(refused.cause)
"""


@pytest.mark.parametrize("name", ["is larger than it claims", "too many members", "a RECORD of 17 MB"])
def test_a_bomb_is_refused_in_bounded_memory(tmp_path: Path, name: str) -> None:
    """The process may have 600 MB of addresses, most of which are Python's own and its libraries'."""
    data, reason = HOSTILE[name]
    path = tmp_path / "nvidia_cuda_runtime-13.4.92-py3-none-manylinux2014_x86_64.whl"
    path.write_bytes(data)
    arguments = [str(ROOT / "tests"), str(Path(__file__).parent), str(600 << 20), str(path)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert reason in done.stdout, done.stderr
