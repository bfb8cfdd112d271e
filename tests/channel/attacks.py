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


def added(half: str, path: str, content: bytes = b"evil", **fields: Any) -> Attack:
    """One more member at the end of a half."""
    entry = tarfile.TarInfo(path)
    entry.size = len(content)
    for key, value in fields.items():
        setattr(entry, key, value)
    member = entry.tobuf() + content + bytes(-len(content) % BLOCK)

    def change(package: bytes) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(made, "w") as new:
            for name in old.namelist():
                text = old.read(name)
                if name == half:
                    plain = zstandard.ZstdDecompressor().stream_reader(text).read()
                    text = zstandard.ZstdCompressor().compress(plain[: -2 * BLOCK] + member + bytes(2 * BLOCK))
                new.writestr(name, text)
        return made.getvalue()

    return rewritten(change)


def indexed(**keys: Any) -> Attack:
    """Keys of repodata.json that have another value."""
    return lambda www: edit(www, REPODATA, lambda content: content.update(keys))


def recorded(**keys: Any) -> Attack:
    """Keys of the package's record that have another value."""
    return lambda www: edit(www, REPODATA, lambda content: content["packages.conda"][f"{STEM}.conda"].update(keys))


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


def without_history(www: Path) -> None:
    (www / HISTORY / "history.json").unlink()


OF_PACKAGE: Mapping[str, tuple[Attack, str]] = {
    "payload in the info half": (added(INFO, "lib/evil.so"), "payload"),
    "payload in the info half, behind ..": (added(INFO, "info/../lib/evil.so"), "payload"),
    "metadata in the pkg half": (drafted(files={"info/link.json": b"{}"}), "payload"),
    "payload upwards": (added(PKG, "../evil.so"), "payload"),
    "payload twice": (added(PKG, "share/digit"), "payload"),
    "a pipe": (added(PKG, "share/pipe", b"", type=tarfile.FIFOTYPE), "payload"),
    "an unlisted file": (added(PKG, "etc/x"), "payload"),
    "no zip": (rewritten(lambda content: b"junk"), "file"),
    "a record with a url": (recorded(url="https://example.org/x.conda"), "metadata"),
    "a record with other run exports": (recorded(run_exports={"strong": ["x"]}), "run-exports"),
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
    "a sharded index that is none": (extra(SHARDED), SHARDED),
    "a sharded index with packages elsewhere": (sharded(base_url="https://example.org/"), SHARDED),
    "a sharded index with shards elsewhere": (sharded(shards_base_url="https://example.org/"), SHARDED),
    "a sharded index of another channel": (sharded(channel_relations={"base": "https://example.org/"}), SHARDED),
    "words to all users": (extra("notices.json"), "notices.json"),
    "an old index": (old_index, REPODATA),
    "an old index of a history that is lost": (without_history, f"{HISTORY}/history.json"),
}
"""What is done -> how, and the file that is named."""
