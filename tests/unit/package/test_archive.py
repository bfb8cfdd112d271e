"""A package that is rewritten: its bytes depend on its contents only, and no content is lost."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import zstandard

from ctk.package.reader import members, read_info
from kit.tiny_packages import application, rewrite_in_place

NOON = 1_750_000_000


def written(folder: Path, **files: bytes) -> Path:
    return application(**files).write(folder)


def tar_members(package: Path, part: str) -> list[tarfile.TarInfo]:
    with zipfile.ZipFile(package) as archive:
        name = next(n for n in archive.namelist() if n.startswith(f"{part}-"))
        plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive.read(name))).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return tar.getmembers()


def contents(package: Path) -> dict[tuple[str, str], tuple[str, str, str]]:
    """(half, path) -> kind, link, sha256."""
    return {
        (part, m.path): (
            m.kind,
            m.link,
            hashlib.sha256(stream.read()).hexdigest() if stream else "",
        )
        for part in ("info", "pkg")
        for m, stream in members(package, part)  # type: ignore[arg-type]
    }


def test_only_times_modes_and_the_name_of_the_build_folder_change(tmp_path: Path) -> None:
    deep = "share/" + "/".join(["long" * 20] * 4) + "/file"
    package = written(tmp_path / "a", **{deep: b"x"})
    before = contents(package)
    rewrite_in_place(package, NOON)
    after, prefixed = (
        contents(package),
        {("pkg", p.path) for p in read_info(package).paths if p.placeholder},
    )
    assert prefixed and after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {
        ("info", "info/paths.json"),
        *prefixed,
    }
    assert {
        p.placeholder.partition("_env")[0] for p in read_info(package).paths if p.placeholder
    } == {"/build/host"}
    for entry in read_info(package).paths:
        assert not entry.placeholder or after["pkg", entry.path][2] == entry.sha256
    rewrite_in_place(package, NOON)
    assert contents(package) == after
    assert ("pkg", deep) in before
    assert before["pkg", "lib64"][:2] == ("link", "lib")
    for part in ("info", "pkg"):
        found = tar_members(package, part)
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in found} == {(NOON, 0, 0, "", "")}
    modes = {m.name: m.mode for m in found if m.isfile()}
    assert (modes["bin/hello"], modes["etc/application.conf"]) == (0o755, 0o644)


def test_the_same_contents_give_the_same_bytes_from_any_packer(tmp_path: Path) -> None:
    """Times, owners, modes, levels and the frames of zstd come from the build.

    None of them may show.
    """
    one, other = written(tmp_path / "a"), written(tmp_path / "b")
    with zipfile.ZipFile(other) as archive:
        halves = {n: archive.read(n) for n in archive.namelist()}
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in halves.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6)), repacked(content, name))
    assert one.read_bytes() != other.read_bytes()
    for package in (one, other):
        rewrite_in_place(package, NOON)
    assert one.read_bytes() == other.read_bytes()


def repacked(content: bytes, name: str) -> bytes:
    """An archive with another writer's marks."""
    if not name.endswith(".tar.zst"):
        return content
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content)).read()
    result = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(plain)) as old,
        tarfile.open(fileobj=result, mode="w") as new,
    ):
        for member in old:
            member.mtime, member.uid, member.uname = 1_234_567_890, 1000, "somebody"
            member.mode = member.mode & ~0o022 | 0o040
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return zstandard.ZstdCompressor(level=12, write_checksum=True).compress(result.getvalue())


def test_the_time_shows(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a"), written(tmp_path / "b")
    rewrite_in_place(one, NOON)
    rewrite_in_place(other, NOON + 1)
    assert one.read_bytes() != other.read_bytes()


def test_metadata_is_what_the_edit_returns_in_order_of_names(tmp_path: Path) -> None:
    package = written(tmp_path / "a")

    def edit(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        index = json.loads(files["info/index.json"])
        return {
            "info/z": b"last",
            "info/index.json": json.dumps({**index, "license": "MIT"}).encode(),
            "info/a": b"",
        }

    rewrite_in_place(package, NOON, edit)
    assert [m.name for m in tar_members(package, "info")] == ["info/a", "info/index.json", "info/z"]
