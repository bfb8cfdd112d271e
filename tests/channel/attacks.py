"""Channels whose hashes all agree, and of which a client gets something else than what they seem to hold."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import zstandard
from small_channels import digit, sound

from ctk.channel.folder import HISTORY
from ctk.channel.index_files import read_index, unpacked, write_index
from ctk.core.errors import PublishFailed

ONE, TWO = "noarch/digit1-1.0-h0_0.conda", "linux-64/digit2-1.0-h0_0.conda"
STEM = "digit2-1.0-h0_0"
PKG, INFO = f"pkg-{STEM}.tar.zst", f"info-{STEM}.tar.zst"
REPODATA, EXPORTS = "linux-64/repodata.json", "linux-64/run_exports.json"
SHARDED = "linux-64/repodata_shards.msgpack.zst"
BLOCK = tarfile.BLOCKSIZE
TIME = 1_700_000_000  # of the crafted packages

Attack = Callable[[Path], None]
"""Spoils a published folder."""


def edit(www: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes what an index file says, in all of its forms, and in the state that the history keeps of it."""
    for place in (www, www / HISTORY / "1"):
        if (place / name).exists():
            content = json.loads((place / name).read_bytes())
            change(content)
            put(place / name, json.dumps(content).encode())


def put(path: Path, content: bytes) -> None:
    """Writes an index file in all of its forms; no shards of what is no index."""
    path.write_bytes(content)
    if path.name == "repodata.json":
        path.with_name("repodata.json.zst").write_bytes(zstandard.ZstdCompressor().compress(content))
        with suppress(PublishFailed):
            index = read_index(path.parents[1])
            shutil.rmtree(path.with_name("shards"), ignore_errors=True)
            write_index(index, path.parents[1], path.parent.name, ["repodata_shards.msgpack.zst"])


def packed(content: object) -> bytes:
    """What a file of a sharded index has."""
    return zstandard.ZstdCompressor().compress(msgpack.packb(content))


def sharded(**keys: object) -> Attack:
    """What a sharded index says in addition, or instead, of itself."""

    def attack(www: Path) -> None:
        content = unpacked(www / SHARDED)
        (www / SHARDED).write_bytes(packed({**content, "info": {**content["info"], **keys}}))

    return attack


def in_shard(change: Callable[[dict[str, Any]], object]) -> Attack:
    """Another shard of the package, under its right name."""

    def attack(www: Path) -> None:
        index = unpacked(www / SHARDED)
        old = www / "linux-64" / "shards" / f"{index['shards']['digit2'].hex()}.msgpack.zst"
        change(shard := unpacked(old))
        content = packed(shard)
        index["shards"]["digit2"] = hashlib.sha256(content).digest()
        old.unlink()
        old.with_name(f"{hashlib.sha256(content).hexdigest()}.msgpack.zst").write_bytes(content)
        (www / SHARDED).write_bytes(packed(index))

    return attack


def rewritten(change: Callable[[bytes], bytes]) -> Attack:
    """Another content of the package, with its hashes in the index."""

    def attack(www: Path) -> None:
        content = change((www / TWO).read_bytes())
        (www / TWO).write_bytes(content)
        new = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        new["md5"] = hashlib.md5(content, usedforsecurity=False).hexdigest()
        edit(www, REPODATA, lambda index: index["packages.conda"][f"{STEM}.conda"].update(new))

    return attack


def drafted(**changes: Any) -> Attack:
    """The package written from another draft."""

    def attack(www: Path) -> None:
        draft = sound(digit(2, depends=("digit1",))).with_(**changes)
        rewritten(lambda content: draft.write(www.parent / "drafted").read_bytes())(www)

    return attack


def zipped(
    change: Callable[[dict[str, bytes]], object] = lambda members: None, **fields: Any
) -> Callable[[bytes], bytes]:
    """The same members, or others, in another zip; the fields are of the members' headers, or the zip's comment."""

    def again(content: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(content)) as old:
            members = {name: old.read(name) for name in old.namelist()}
        change(members)
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as new:
            new.comment = fields.get("comment", b"")
            for name, text in members.items():
                info = zipfile.ZipInfo(name)
                for key in fields.keys() - {"comment"}:
                    setattr(info, key, fields[key])
                new.writestr(info, text)
        return made.getvalue()

    return again


def tarred(name: str, change: Callable[[bytes], bytes]) -> Attack:
    """Another tar in a half."""

    def in_members(members: dict[str, bytes]) -> None:
        plain = zstandard.ZstdDecompressor().stream_reader(members[name]).read()
        members[name] = zstandard.ZstdCompressor().compress(change(plain))

    return rewritten(zipped(in_members))


def framed(change: Callable[[bytes], bytes]) -> Attack:
    """The payload's frame of zstd with something else around it."""
    return rewritten(zipped(lambda members: members.update({PKG: change(members[PKG])})))


def added(half: str, path: str, content: bytes = b"evil", form: int = tarfile.GNU_FORMAT, **fields: Any) -> Attack:
    """One more member at the end of a half."""
    entry = tarfile.TarInfo(path)
    entry.size, entry.mtime = len(content), TIME
    for key, value in fields.items():
        setattr(entry, key, value)
    member = entry.tobuf(form) + content + bytes(-len(content) % BLOCK)
    return tarred(half, lambda plain: plain[: -2 * BLOCK] + member + bytes(2 * BLOCK))


def header(form: int = tarfile.GNU_FORMAT, **fields: Any) -> Attack:
    """Another header of the payload's first member."""

    def change(plain: bytes) -> bytes:
        entry = tarfile.TarInfo.frombuf(plain[:BLOCK], "utf-8", "strict")
        for key, value in fields.items():
            setattr(entry, key, value)
        return entry.tobuf(form) + plain[BLOCK:]

    return tarred(PKG, change)


def info(name: str, change: Callable[[bytes], bytes]) -> Attack:
    """Another content of a file under ``info/``."""

    def attack(www: Path) -> None:
        with zipfile.ZipFile(www / TWO) as old:
            plain = zstandard.ZstdDecompressor().stream_reader(old.read(INFO)).read()
        with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
            text = tar.extractfile(f"info/{name}").read()  # type: ignore[union-attr]
        drafted(info={name: change(text)})(www)

    return attack


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """A text with a part replaced, which it must have."""

    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new, 1)

    return change


def indexed(**keys: Any) -> Attack:
    """Keys of repodata.json that have another value."""
    return lambda www: edit(www, REPODATA, lambda content: content.update(keys))


def recorded(**keys: Any) -> Attack:
    """Keys of the package's record that have another value."""
    return lambda www: edit(www, REPODATA, lambda content: content["packages.conda"][f"{STEM}.conda"].update(keys))


def text_of(name: str, change: Callable[[bytes], bytes]) -> Attack:
    """Another text of an index file, now and in the history."""

    def attack(www: Path) -> None:
        for place in (www, www / HISTORY / "1"):
            put(place / name, change((place / name).read_bytes()))

    return attack


def between_members(content: bytes) -> bytes:
    """Bytes between two members, and a directory that leads past them."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        second, start = old.infolist()[1].header_offset, old.start_dir
    moved = content[:second] + b"junk" + content[second:start]
    tail = bytearray(content[start:])
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        for member in old.infolist()[1:]:
            wanted = member.header_offset.to_bytes(4, "little") + member.filename.encode()
            place = bytes(tail).index(wanted)
            tail[place : place + 4] = (member.header_offset + 4).to_bytes(4, "little")
    tail[-6:-2] = (start + 4).to_bytes(4, "little")
    return moved + bytes(tail)


def old_index(www: Path) -> None:
    """What readers saw before the state that the history says is shown."""
    kept = www / HISTORY
    shutil.copytree(kept / "1", kept / "2")
    history = json.loads((kept / "history.json").read_bytes())
    history["states"].append({**history["states"][0], "number": 2, "before": 1})
    (kept / "history.json").write_text(json.dumps({**history, "current": 2}))
    content = json.loads((kept / "2" / REPODATA).read_bytes())
    content["packages.conda"][f"{STEM}.conda"]["depends"] = ["digit1 >=1"]
    put(kept / "2" / REPODATA, json.dumps(content).encode())


def extra(name: str) -> Attack:
    """One more file in the channel."""

    def attack(www: Path) -> None:
        (www / name).write_bytes(b"{}")

    return attack


def compressed(change: Callable[[bytes], bytes]) -> Attack:
    """Another repodata.json.zst."""

    def attack(www: Path) -> None:
        file = www / f"{REPODATA}.zst"
        file.write_bytes(change(file.read_bytes()))

    return attack


def without_history(www: Path) -> None:
    (www / HISTORY / "history.json").unlink()


def of_python(**changes: Any) -> Attack:
    """A package that says that it is of Python alone, in its index.json and in the index."""

    def attack(www: Path) -> None:
        drafted(index={"noarch": "python"}, **changes)(www)
        recorded(noarch="python")(www)

    return attack


ENTRY = b'{"noarch": {"type": "python", "entry_points": ["x = os:abort"]}, "package_metadata_version": 1}'
EMPTY_FRAME = zstandard.ZstdCompressor().compress(b"")
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0junk"

OF_PACKAGE: Mapping[str, tuple[Attack, str]] = {
    "payload in the info half": (added(INFO, "lib/evil.so"), "payload"),
    "payload in the info half, behind ..": (added(INFO, "info/../lib/evil.so"), "payload"),
    "payload in the info half, a link": (added(INFO, "lib", b"", type=b"2", linkname="/tmp", mode=0o777), "payload"),
    "metadata with two slashes": (added(INFO, "info//about.json"), "payload"),
    "metadata twice": (added(INFO, "info/index.json", b"{}"), "payload"),
    "metadata in other letters": (added(INFO, "INFO/index.json"), "payload"),
    "metadata that is a link": (added(INFO, "info/licenses/x", b"", type=b"2", linkname="/etc", mode=0o777), "payload"),
    "metadata in the pkg half": (drafted(files={"info/link.json": ENTRY}), "payload"),
    "metadata in the pkg half, behind ..": (drafted(files={"share/../info/link.json": ENTRY}), "payload"),
    "metadata in the pkg half, other letters": (drafted(files={"Info/link.json": ENTRY}), "payload"),
    "a payload file with two slashes": (drafted(files={"share//x": b""}), "payload"),
    "payload in two spellings": (drafted(files={"share/Digit": b""}), "payload"),
    "a file in a file": (drafted(files={"share/digit/x": b""}), "payload"),
    "an unlisted folder": (added(PKG, "etc", b"", type=b"5", mode=0o755), "payload"),
    "setuid": (header(mode=0o4755), "payload"),
    "for all to write": (header(mode=0o666), "payload"),
    "an owner's number": (header(uid=1000), "payload"),
    "another time": (header(mtime=TIME + 1), "payload"),
    "an extended attribute": (header(tarfile.PAX_FORMAT, pax_headers={"SCHILY.xattr.user.x": "1"}), "file"),
    "attributes of all that follows": (
        tarred(PKG, lambda plain: tarfile.TarInfo.create_pax_global_header({"uname": "root"}) + plain),
        "file",
    ),
    "a header of another form": (header(tarfile.USTAR_FORMAT), "payload"),
    "entry points": (drafted(info={"link.json": ENTRY}), "metadata"),
    "entry points of a Python package": (of_python(info={"link.json": ENTRY}), "metadata"),
    "a Python package without its link.json": (of_python(), "metadata"),
    "a file that nobody knows": (drafted(info={"x": b""}), "metadata"),
    "a key twice in index.json": (info("index.json", replaced(b'"name":', b'"name": "x", "name":')), "file"),
    "a key twice in paths.json": (info("paths.json", replaced(b'"_path":', b'"_path": "x", "_path":')), "file"),
    "a key more in index.json": (info("index.json", replaced(b"{", b'{"preferred_env": "x",')), "metadata"),
    "a key more in paths.json": (info("paths.json", replaced(b'"_path":', b'"no_link": true, "_path":')), "metadata"),
    "a word as prefix": (drafted(placeholders={"share/digit": "2"}), "metadata"),
    "bytes before the zip": (rewritten(lambda content: b"junk" + content), "file"),
    "bytes after the zip": (rewritten(lambda content: content + b"junk"), "file"),
    "bytes between the members": (rewritten(between_members), "file"),
    "a comment": (rewritten(zipped(comment=b"words")), "file"),
    "extra fields": (rewritten(zipped(extra=b"\xfe\xca\x04\0junk")), "file"),
    "times in the zip": (rewritten(zipped(date_time=(2026, 1, 1, 0, 0, 0))), "file"),
    "rights in the zip": (rewritten(zipped(external_attr=0o777 << 16)), "file"),
    "a fourth member": (rewritten(zipped(lambda members: members.update(x=b""))), "file"),
    "members in another order": (rewritten(zipped(lambda m: m.update({PKG: m.pop(PKG)}))), "file"),
    "a compressed member": (rewritten(zipped(compress_type=zipfile.ZIP_DEFLATED)), "file"),
    "another name in the local header": (rewritten(replaced(b"pkg-", b"PKG-")), "file"),
    "another version of the format": (
        rewritten(zipped(lambda m: m.update({"metadata.json": b'{"conda_pkg_format_version":3}'}))),
        "file",
    ),
    "something after the tar": (tarred(PKG, lambda plain: plain + b"junk"), "file"),
    "another tar after the tar": (tarred(PKG, lambda plain: plain + plain), "file"),
    "something behind a file's end": (
        tarred(PKG, lambda plain: plain[: BLOCK + 9] + b"x" + plain[BLOCK + 10 :]),
        "file",
    ),
    "bytes after the frame": (framed(lambda frame: frame + b"junk"), "file"),
    "a frame that is skipped": (framed(lambda frame: frame + SKIPPABLE), "file"),
    "a frame that is skipped at first": (framed(lambda frame: SKIPPABLE + frame), "file"),
    "a record with a url": (recorded(url="https://example.org/x.conda"), "metadata"),
    "a record with other run exports": (recorded(run_exports={"strong": ["x"]}), "run-exports"),
    "a number that is a truth": (recorded(build_number=False), "metadata"),
    "dependencies that are no list": (recorded(depends={"digit1": 1}), "metadata"),
}

"""What is done -> how, and which check of the package says so."""

OF_INDEX: Mapping[str, tuple[Attack, str]] = {
    "another server": (indexed(info={"subdir": "linux-64", "base_url": "https://example.org"}), REPODATA),
    "another channel": (indexed(info={"subdir": "linux-64", "channel_relations": {}}), REPODATA),
    "packages of a newer form": (indexed(v3={"whl": {"x": {}}}), REPODATA),
    "packages that were removed": (indexed(removed=[f"{STEM}.conda"]), REPODATA),
    "packages of the old form": (indexed(packages={"x-1-0.tar.bz2": {}}), REPODATA),
    "another version of repodata": (indexed(repodata_version=2), REPODATA),
    "a key twice": (text_of(REPODATA, replaced(b'"sha256": ', b'"sha256": "0", "sha256": ')), REPODATA),
    "a number that is none": (text_of(REPODATA, replaced(b'"build_number": 0', b'"build_number": NaN')), REPODATA),
    "an index too deep": (
        text_of(REPODATA, replaced(b'"packages": ', b'"x": ' + b"[" * 99_999 + b', "packages": ')),
        REPODATA,
    ),
    "another encoding": (text_of(REPODATA, lambda text: text.decode().encode("utf-16")), REPODATA),
    "run exports with a key more": (text_of(EXPORTS, replaced(b'"packages": ', b'"x": {}, "packages": ')), EXPORTS),
    "a frame after the compressed index": (compressed(lambda text: text + EMPTY_FRAME), f"{REPODATA}.zst"),
    "a sharded index that is none": (extra(SHARDED), SHARDED),
    "a sharded index with packages elsewhere": (sharded(base_url="https://example.org/"), SHARDED),
    "a sharded index with shards elsewhere": (sharded(shards_base_url="https://example.org/"), SHARDED),
    "a sharded index of another channel": (sharded(channel_relations={"base": "https://example.org/"}), SHARDED),
    "words to all users": (extra("notices.json"), "notices.json"),
    "an old index": (old_index, REPODATA),
    "an old index of a history that is lost": (without_history, f"{HISTORY}/history.json"),
}
"""What is done -> how, and the file that is named."""
