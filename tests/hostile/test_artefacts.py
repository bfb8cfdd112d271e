"""What an artefact may do when its publisher is hostile and its sha256 is the locked one: nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from crafted_wheels import (
    DEFLATED,
    INFO,
    METADATA,
    Entry,
    artefact,
    deflated,
    hash_of,
    wheel_of,
    with_descriptors,
    with_record,
    zip_of,
)

from conftest import ROOT, ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ArtefactRefused, CtkError, LockError, MeasureFailed
from ctk.core.platforms import PLATFORMS
from ctk.fetch import fetch
from ctk.fetch.admission import check
from ctk.index.inside import members
from ctk.lock.lock import Artefact, dump
from ctk.pipeline import Index

A, B = Entry(b"nvidia/a", b"a"), Entry(b"nvidia/b", b"bb")
RECORD, META = f"{INFO}/RECORD".encode(), f"{INFO}/METADATA".encode()
LINK = 0o120777
SOURCES = "cufinufft-2.5.1.tar.gz"
UPWARDS = wheel_of(Entry(b"nvidia/../../x", b""))


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


def lying(**fields: Any) -> bytes:
    """A wheel of a member of which something is not so."""
    return wheel_of(Entry(**{"name": b"nvidia/a", "data": b"a", **fields}))


def stated(line: bytes) -> bytes:
    """A wheel of one file, with that line about it in RECORD."""
    *members, last = with_record([A])
    lines = last.data.splitlines(keepends=True)
    return zip_of([*members, Entry(RECORD, b"".join([line, *lines[1:]]))])


def tagged(*tags: str) -> bytes:
    """A wheel of a header, with these tags in its WHEEL."""
    return zip_of(with_record([Entry(b"nvidia/a.h", b"a")], "".join(f"Tag: {tag}\n" for tag in tags).encode()))


def second_name(name: bytes, of: bytes) -> bytes:
    """The field of a zip with another name, which replaces the one that it is of."""
    field = struct.pack("<BL", 1, zlib.crc32(of)) + name
    return struct.pack("<2H", 0x7075, len(field)) + field


GOOD: dict[str, bytes] = {
    "plain": wheel_of(A, B),
    "compressed": wheel_of(Entry(b"nvidia/a", b"a" * 10_000, method=DEFLATED)),
    "with folders": wheel_of(Entry(b"nvidia/", mode=0o40755), A),
    "sizes after the content": with_descriptors(with_record([A])),
    "for two platforms": tagged("py3-none-win_amd64", "py3-none-manylinux2014_x86_64"),
    "tags in one line": tagged("py2.py3-none-manylinux1_x86_64.manylinux2014_x86_64"),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_wheel_is_admitted(tmp_path: Path, name: str) -> None:
    assert refusal(GOOD[name], tmp_path) == ""


BIG = bytes(60 << 20)
END = "it is no zip, is cut short, or has something before or after it"
HOSTILE: dict[str, tuple[bytes, str]] = {
    # ---- which of two files it means
    "a name twice": (zip_of(with_record([A, A])), "nvidia/a: occurs twice"),
    "names that differ in case": (wheel_of(A, Entry(b"nvidia/A", b"")), "nvidia/A: occurs twice"),
    "folders that differ in case": (wheel_of(A, Entry(b"Nvidia/b", b"")), "Nvidia: occurs twice"),
    "a file that is a folder": (wheel_of(A, Entry(b"nvidia/a/b", b"")), "nvidia/a: occurs twice"),
    "another name in its own header": (lying(local_name=b"../../../x"), "nvidia/a: it cannot be read: File name"),
    "a second name": (lying(extra=second_name(b"nvidia/b", b"nvidia/a")), "a second name"),
    # ---- what its members are
    "a link": (lying(mode=LINK), "nvidia/a: neither a plain file"),
    "a folder that is a link": (lying(name=b"nvidia/", mode=LINK), "nvidia/: neither a plain file"),
    "a pipe": (lying(mode=0o10644), "neither a plain file"),
    "a program that runs as its owner": (lying(mode=0o104755), "neither a plain file"),
    "an encrypted member": (lying(flags=1), "is encrypted"),
    "another compression": (lying(method=14), "compressed in a way"),
    # ---- how large it is
    "claims 3 GB": (lying(claims=3 << 30), "unpacks to 3221225"),
    "is larger than it claims": (
        lying(packed=deflated(BIG), method=DEFLATED, crc=zlib.crc32(BIG)),
        "nvidia/a: does not have the 1 bytes",
    ),
    "is smaller than it claims": (lying(claims=2), "does not have the 2 bytes"),
    "has another checksum": (lying(crc=1), "nvidia/a: it cannot be read: Bad CRC-32"),
    "has a broken stream": (lying(packed=b"\xff\xff", method=DEFLATED), "nvidia/a: it cannot be read"),
    "too many members": (zip_of([Entry(b"%d" % n) for n in range(50_001)]), "50001 members"),
    "a directory of 9 MB": (zip_of([Entry(b"%d" % n, extra=bytes(60_000)) for n in range(150)]), "8388608 are the"),
    # ---- whether it is one zip
    "nothing": (b"", "it is no zip"),
    "no zip": (bytes(1000), END),
    "cut short": (wheel_of(A, B)[:-30], END),
    "its head cut off": (wheel_of(A, B)[10:], END),
    "something before it": (b"#!/bin/sh\n" + wheel_of(A), END),
    "something after it": (wheel_of(A) + b"more", END),
    "a comment": (wheel_of(A, comment=zip_of([B])), END),
    "two directories": (wheel_of(A)[:-22] + zip_of([B]), END),
    "another record at its end": (zip_of([A, Entry(b"b" * 26 + b"PK\6\7" + bytes(16))]), END),
    "members at one place": (
        zip_of(with_record([A, Entry(b"nvidia/b", b"a", local_name=b"nvidia/a", offset=0)])),
        "nvidia/b: it cannot be read",
    ),
    "a place outside the file": (lying(offset=1 << 20), "nvidia/a: it cannot be read"),
    "says another number of members": (wheel_of(A, B, count=2), "has 5 members and says 2"),
    # ---- what it says of itself
    "no RECORD": (zip_of(with_record([A])[:-1]), f"{INFO}/RECORD: is missing"),
    "no METADATA": (zip_of([A, Entry(RECORD, b"")]), "METADATA: is missing"),
    "no WHEEL": (zip_of([A, Entry(META, METADATA), Entry(RECORD, b"")]), "WHEEL: is missing"),
    "a file that RECORD lacks": (zip_of([*with_record([A]), B]), "nvidia/b: RECORD says 'nothing' of it"),
    "a file that RECORD has and it lacks": (zip_of(with_record([A, B])[1:]), "and it is not there"),
    "another hash": (stated(f"nvidia/a,sha256={hash_of(b'b')},1\n".encode()), f"and it is sha256={hash_of(b'a')}"),
    "no hash": (stated(b"nvidia/a,,1\n"), "nvidia/a: RECORD says '' of it"),
    "an old hash": (stated(b"nvidia/a,md5=DMF1ucDxtqgxw5niaXcmYQ,1\n"), "RECORD says 'md5="),
    "a line of two fields": (stated(b"nvidia/a,\n"), "RECORD: cannot be read"),
    "a RECORD of one endless field": (stated(b'"' + b"a" * 200_000), "RECORD: cannot be read"),
    "a RECORD that is no text": (stated(b"\xff\xfe"), "RECORD: cannot be read"),
    "a RECORD of 17 MB": (zip_of([*with_record([A])[:-1], Entry(RECORD, bytes(17 << 20))]), "more than 16777216 bytes"),
    "two .dist-info folders": (wheel_of(Entry(b"other-1.dist-info/METADATA", b"")), "one .dist-info folder"),
    "another's .dist-info folder": (
        zip_of([Entry(b"other-1.dist-info/METADATA"), Entry(b"other-1.dist-info/RECORD")]),
        "which is that of nvidia-cuda-runtime 13.4.92",
    ),
    "another's METADATA": (
        zip_of([Entry(META, b"Name: other\nVersion: 13.4.92\n"), Entry(RECORD, b"x,,")]),
        "METADATA: is not that of nvidia-cuda-runtime 13.4.92",
    ),
    # ---- for which platform it is
    "tags of Windows": (tagged("py3-none-win_amd64"), f"{INFO}/WHEEL: its tags are for py3-none-win_amd64, and it is"),
    "tags of all platforms": (tagged("py3-none-any"), "for py3-none-any, and it is locked for linux-64"),
    "tags of a Python": (tagged("cp313-cp313-manylinux2014_x86_64"), "and it is locked for linux-64"),
    "no tags": (tagged(), "for nothing, and it is locked for linux-64"),
    "a tag that is none": (tagged("any"), "it cannot be read"),
    "a tag of millions": (tagged("-".join([".".join(["a"] * 200)] * 3)), "exceeding limit"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_wheel_is_refused_with_member_and_reason(tmp_path: Path, name: str) -> None:
    data, reason = HOSTILE[name]
    said = refusal(data, tmp_path)
    assert reason in said
    assert said.isprintable() and len(said) < 600


BAD_NAMES = [
    b"nvidia/../../x", b"/etc/x", b"C:/x", b"..\\x", b"nvidia//a", b"./a", b"a/.", b"nvidia/a\0.so", b"nvidia/a\nb",
    b"a/\x1b[2J", b"a|e touch X|/b", b"nvidia/NUL.txt", b"con", b"Aux.h", b"a/lpt9", b"nvidia/a.", b"a/b /c", b'a"b',
    b"a?", b"a\x7f", b"a/" * 150, b"a/" * 40 + b"a", b"a" * 300, b"a" * 60_000, b"nvidia/\x81",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:20]))
def test_a_name_is_one_file_inside_the_folder_on_every_system(tmp_path: Path, name: bytes) -> None:
    said = refusal(wheel_of(Entry(name, b"")), tmp_path)
    assert "a name that some system cannot have, or that leaves its folder" in said
    assert said.isprintable() and len(said) < 600


def test_names_in_a_file_on_the_index_are_held_to_the_same_rules() -> None:
    with pytest.raises(MeasureFailed, match="or that leaves its folder"), members(io.BytesIO(UPWARDS), "a.whl"):
        pass


def test_names_that_every_system_can_have_are_good(tmp_path: Path) -> None:
    names = b"a b/ b/c.so.13 console a+b@c~(e)[f]=g&h# .hidden -x ..a n/c/d n/c/e".split()
    assert refusal(wheel_of(*(Entry(name, mode=0o644) for name in names)), tmp_path) == ""


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


def many_members() -> bytes:
    return b"".join(entry(f"{number}").tobuf(tarfile.USTAR_FORMAT) for number in range(50_001)) + bytes(10_240)


def links(*others: tarfile.TarInfo, **targets: str) -> bytes:
    """Symbolic links, by name, beside other members."""
    return gzip.compress(tar_of(*(entry(n, tarfile.SYMTYPE, linkname=t) for n, t in targets.items()), *others))


TARS: dict[str, tuple[Callable[[], bytes], str]] = {
    "good": (lambda: gzip.compress(tar_of(entry("a", tarfile.DIRTYPE), entry("a/b", size=3000)))  , ""),
    "a long name": (lambda: gzip.compress(tar_of(entry("a" * 150, size=3))), ""),
    "a path upwards": (lambda: gzip.compress(tar_of(entry("a/../../b"))), "leaves its folder"),
    "a link": (lambda: gzip.compress(tar_of(entry("a", tarfile.SYMTYPE, linkname="/etc"))), "a: neither a plain file"),
    "a link to a file in it": (lambda: links(entry("c"), **{"a/b": "../c"}), ""),
    "a link to a folder in it": (lambda: links(entry("d", tarfile.DIRTYPE), entry("d/c"), a="d"), "a: neither"),
    "a link to a link": (lambda: links(entry("c"), a="b", b="c"), "a: neither"),
    "a link upwards": (lambda: links(entry("c"), a="../c"), "a: neither"),
    "a link to nothing in it": (lambda: links(entry("c"), a="e"), "a: neither"),
    "a file below a link": (lambda: links(entry("a/b"), entry("c"), a="c"), "a"),
    "a hard link": (lambda: gzip.compress(tar_of(entry("a", tarfile.LNKTYPE, linkname="../b"))), "neither a plain"),
    "a pipe": (lambda: gzip.compress(tar_of(entry("a", tarfile.FIFOTYPE))), "neither a plain file"),
    "a program as root": (lambda: gzip.compress(tar_of(entry("a", mode=0o4755))), "neither a plain file"),
    "a name twice": (lambda: gzip.compress(tar_of(entry("a"), entry("a"))), "occurs twice"),
    "no Unicode": (lambda: gzip.compress(tar_of(entry("a\udcff"), form=tarfile.GNU_FORMAT)), "leaves its folder"),
    "a bomb": (lambda: gzip.compress(bytes(20 << 20)), "unpacks to more than"),
    "a gigantic header": (lambda: gzip.compress(gigantic_header()), "a header of 2147483648 bytes"),
    "too many members": (lambda: gzip.compress(many_members()), "more than 50000 members"),
    "cut short": (lambda: gzip.compress(tar_of(entry("a", size=3000)))[:-20], "ended before"),
    "its tar cut short": (lambda: gzip.compress(tar_of(entry("a", size=3000))[:1000]), "unexpected end"),
    "no gzip": (lambda: b"PK", "Not a gzipped file"),
    "no tar": (lambda: gzip.compress(b"a" * 2000), "invalid header"),
}  # fmt: skip


@pytest.mark.parametrize("name", TARS)
def test_a_hostile_source_distribution_is_refused(tmp_path: Path, name: str) -> None:
    make, reason = TARS[name]
    said = refusal(make(), tmp_path, "noarch", SOURCES)
    assert reason in said and bool(reason) == bool(said)


# ---- what is admitted, and what rattler-build makes of it

LET_THROUGH: dict[str, tuple[bytes, str]] = {
    "something between": (wheel_of(A, between=zip_of([B])), "nvidia/a"),
    "something after a stream": (lying(packed=deflated(b"a") + b"more", method=DEFLATED), "nvidia/a"),
    "a wrong size after the content": (with_descriptors(with_record([A]), lie=1), "nvidia/a"),
    "a folder with content": (wheel_of(Entry(b"nvidia/", b"a", mode=0o40755), A), "nvidia/a"),
    "another size in RECORD": (stated(f"nvidia/a,sha256={hash_of(b'a')},2\n".encode()), "nvidia/a"),
    "something after the sources": (gzip.compress(tar_of(entry("top/kept")) + tar_of(entry("../x"))), "got/kept"),
    "a broken header among the sources": (
        gzip.compress(tar_of(entry("kept"))[:512] + b"a" * 512 + tar_of(entry("../x"))),
        "failed to iterate over archive",
    ),
}


def is_sources(data: bytes) -> bool:
    return data.startswith(b"\x1f\x8b")


UNPACK = """
import json, sys
from pathlib import Path
import rattler_build as rb
from ctk.package import package
for folder in sorted(Path(sys.argv[1]).iterdir()):
    recipe = rb.Stage0Recipe.from_file(folder / "recipe" / "recipe.yaml")
    tools = rb.ToolConfiguration(test_strategy="skip", allow_symlinks_on_windows=True, compression_threads=1)
    for variant in recipe.render(rb.VariantConfig(), rb.RenderConfig()):
        try:
            out = folder / "a" / "b" / "out"
            made = variant.run_build(tool_config=tools, output_dir=out, channels=[], no_build_id=True)
            said = [member.path for path in made.packages for member, _ in package.members(Path(path), "pkg")]
        except rb.RattlerBuildError as error:
            said = [str(error)]
    (folder / "said").write_text(json.dumps(said))
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders in which rattler-build made a package of each wheel, and what came of it."""
    root = tmp_path_factory.mktemp("unpacked")
    for number, (data, _) in enumerate(LET_THROUGH.values()):
        recipe = root / str(number) / "recipe"
        recipe.mkdir(parents=True)
        file = "artefact.tar.gz" if is_sources(data) else "artefact.zip"
        (recipe / file).write_bytes(data)
        script = "{number: 0, script: ['mkdir -p $PREFIX/got', 'cp -R . $PREFIX/got/']}"
        (recipe / "recipe.yaml").write_text(
            f"package: {{name: a, version: '1'}}\nsource: {{path: {file}}}\nbuild: {script}\n"
        )
    done = subprocess.run([sys.executable, "-c", UNPACK, str(root)], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return root


@pytest.mark.parametrize("name", LET_THROUGH)
def test_what_is_let_through_ends_in_words_or_in_a_package_that_shows_it(
    tmp_path: Path, unpacked: Path, name: str
) -> None:
    data, expected = LET_THROUGH[name]
    assert refusal(data, tmp_path, *(("noarch", SOURCES) if is_sources(data) else ())) == ""
    folder = unpacked / str([*LET_THROUGH].index(name))
    said = json.loads((folder / "said").read_text())
    assert any(expected in line for line in said), said
    assert {path.name for path in folder.iterdir()} == {"a", "recipe", "said"}
    assert not [*folder.rglob("x")]


# ---- fetch


def no_index() -> Index:
    raise AssertionError("the index was asked")


def in_store(data: bytes, workspace: Workspace, wanted: Artefact | None = None) -> Artefact:
    wanted = wanted or artefact(data)
    home = fetch.stored(wanted, workspace)
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_bytes(data)
    return wanted


def locked(workspace: Workspace, *artefacts: Artefact) -> None:
    """Locks the release of a tiny checkout with these artefacts."""
    whole = tiny.lock()
    by_target = dict.fromkeys(PLATFORMS) | {a.target: a for a in artefacts}
    component = replace(whole.components["cudart"], artefacts=by_target)
    (workspace.variants / "cuda-13.4.lock").write_text(
        dump(replace(whole, components={"cudart": component}, gpu_code={}))
    )


def test_a_refused_artefact_is_never_laid_out_and_refused_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(UPWARDS, workspace)
    for _ in range(2):
        with pytest.raises(ArtefactRefused):
            fetch.fetch([wanted], workspace, no_index)
    assert not fetch.laid_out(wanted, workspace).exists()
    assert not (tmp_path.parent / "x").exists()


def test_what_was_admitted_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(GOOD["plain"], workspace)
    fetch.fetch([wanted], workspace, no_index)
    monkeypatch.setattr("ctk.fetch.admission.check", lambda *_: pytest.fail("it was read again"))
    fetch.fetch([wanted], workspace, no_index)


def test_the_same_file_for_another_target_is_looked_through_anew(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(GOOD["plain"], workspace)
    fetch.fetch([wanted], workspace, no_index)
    with pytest.raises(ArtefactRefused, match="locked for linux-aarch64"):
        fetch.fetch([replace(wanted, target="linux-aarch64")], workspace, no_index)


def test_a_build_ends_before_anything_of_it_is_unpacked(tmp_path: Path) -> None:
    workspace = tiny.tiny_checkout(tmp_path / "checkout")
    digest = hashlib.sha256(UPWARDS).hexdigest()
    wanted = in_store(UPWARDS, workspace, replace(tiny.artefact(), sha256=digest, size=len(UPWARDS)))
    locked(workspace, wanted)
    done = ctk(workspace, "build", "--base", str(tmp_path / "base"), "--platform", "linux-64")
    assert done.returncode == ArtefactRefused.exit_code, done.stderr
    assert wanted.file in done.stderr and "leaves its folder" in done.stderr
    assert "next: nothing of it was unpacked" in done.stderr
    assert not workspace.artefacts.exists() and not workspace.builds.exists() and not workspace.channel.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["checkout"]


def headers(workspace: Workspace, target: str, platform: str) -> Artefact:
    """A wheel of one header, as long as that for another platform: only its name and its WHEEL say which it is for."""
    tag = f"py3-none-{platform}"
    wheel = f"Generator: {'a' * (40 - len(tag))}\nTag: {tag}\n".encode()
    data = zip_of(with_record([Entry(b"nvidia/include/a.h", b"a")], wheel))
    return in_store(data, workspace, artefact(data, target, f"nvidia_cuda_runtime-13.4.92-{tag}.whl"))


@pytest.mark.parametrize("subdir", ["linux-64", pytest.param("win-64", marks=pytest.mark.sweep)])
@pytest.mark.parametrize(
    ("swapped", "error"),
    [((), None), (("file", "sha256"), LockError), (("file",), LockError), (("sha256",), ArtefactRefused)],
)
def test_headers_of_another_platform_are_refused_by_whatever_fetches(
    tmp_path: Path, swapped: tuple[str, ...], error: type[CtkError] | None, subdir: str
) -> None:
    workspace = tiny.tiny_checkout(tmp_path)
    linux = headers(workspace, "linux-64", "manylinux2014_x86_64")
    windows = headers(workspace, "win-64", "win_amd64")
    assert linux.size == windows.size
    locked(
        workspace,
        replace(linux, **{field: getattr(windows, field) for field in swapped}),
        replace(windows, **{field: getattr(linux, field) for field in swapped}),
    )
    done = ctk(workspace, "fetch", "--platform", subdir)
    assert done.returncode == (error.exit_code if error else 0), done.stderr
    assert error is None or f"for {subdir}" in done.stderr
    assert workspace.artefacts.exists() == (error is None)


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
sys.path[:0] = sys.argv[1].split(os.pathsep)
from pathlib import Path
from crafted_wheels import artefact
from ctk.fetch.admission import check
from ctk.core.errors import ArtefactRefused
path = Path(sys.argv[3])
try:
    check(artefact(b"", file=path.name), path)
except ArtefactRefused as refused:
    print(refused.cause)
"""


@pytest.mark.parametrize(
    "name",
    ["is larger than it claims", "too many members", "a directory of 9 MB", "a RECORD of 17 MB", "a tag of millions"],
)
def test_a_bomb_is_refused_in_bounded_memory(tmp_path: Path, name: str) -> None:
    """The process may have 600 MB of addresses, most of which are Python's own and its libraries'."""
    data, reason = HOSTILE[name]
    path = tmp_path / "nvidia_cuda_runtime-13.4.92-py3-none-manylinux2014_x86_64.whl"
    path.write_bytes(data)
    arguments = [f"{ROOT}/tests/tooling{os.pathsep}{ROOT}/tests/hostile", str(600 << 20), str(path)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert reason in done.stdout, done.stderr
