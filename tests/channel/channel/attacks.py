"""Changes to a published folder after which a client gets other content than the index promises."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import zstandard

from ctk.core.checkout import HISTORY
from kit.small_channels import Draft, digit, sound

ONE, TWO = "noarch/digit1-1.0-h0_0.conda", "linux-64/digit2-1.0-h0_0.conda"
STEM = "digit2-1.0-h0_0"
PKG, INFO = f"pkg-{STEM}.tar.zst", f"info-{STEM}.tar.zst"
REPODATA, EXPORTS = "linux-64/repodata.json", "linux-64/run_exports.json"
BLOCK = tarfile.BLOCKSIZE

Attack = Callable[[Path], None]
"""Changes a published folder."""


def edit(www: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes an index file in all its forms, and in the state that the history keeps."""
    for place in (www, www / HISTORY / "1"):
        if (place / name).exists():
            content = json.loads((place / name).read_bytes())
            change(content)
            put(place / name, json.dumps(content).encode())


def put(path: Path, content: bytes) -> None:
    """Writes an index file in all its forms."""
    path.write_bytes(content)
    if path.name == "repodata.json":
        path.with_name("repodata.json.zst").write_bytes(
            zstandard.ZstdCompressor().compress(content)
        )


def rewritten(change: Callable[[bytes], bytes]) -> Attack:
    """Changes the package file, with the new hashes in the index."""

    def attack(www: Path) -> None:
        content = change((www / TWO).read_bytes())
        (www / TWO).write_bytes(content)
        new = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        new["md5"] = hashlib.md5(content, usedforsecurity=False).hexdigest()
        edit(www, REPODATA, lambda index: index["packages.conda"][f"{STEM}.conda"].update(new))

    return attack


def drafted(**changes: Any) -> Attack:
    """Writes the package with other fields."""

    return packaged(sound(digit(2, depends=("digit1",), **changes)))


def packaged(draft: Draft) -> Attack:
    """Writes another package in its place."""
    return lambda www: rewritten(lambda _: draft.write(www.parent / "drafted").read_bytes())(www)


def added(half: str, path: str, content: bytes = b"evil", **fields: Any) -> Attack:
    """Adds a member at the end of a half."""
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
                    text = zstandard.ZstdCompressor().compress(
                        plain[: -2 * BLOCK] + member + bytes(2 * BLOCK)
                    )
                new.writestr(name, text)
        return made.getvalue()

    return rewritten(change)


def indexed(**keys: Any) -> Attack:
    """Sets keys of repodata.json."""
    return lambda www: edit(www, REPODATA, lambda content: content.update(keys))


def recorded(**keys: Any) -> Attack:
    """Sets keys of the package's record."""
    return lambda www: edit(
        www, REPODATA, lambda content: content["packages.conda"][f"{STEM}.conda"].update(keys)
    )


def entered(name: str) -> Attack:
    """Adds an entry to repodata.json."""
    return lambda www: edit(
        www, REPODATA, lambda content: content["packages.conda"].update({name: {}})
    )


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def old_index(www: Path) -> None:
    """Shows the index of an older state than the history says."""
    kept = www / HISTORY
    shutil.copytree(kept / "1", kept / "2")
    history = json.loads((kept / "history.json").read_bytes())
    history["states"].append({**history["states"][0], "number": 2, "before": 1})
    (kept / "history.json").write_text(json.dumps({**history, "current": 2}))
    content = json.loads((kept / "2" / REPODATA).read_bytes())
    content["packages.conda"][f"{STEM}.conda"]["depends"] = ["digit1 >=1"]
    put(kept / "2" / REPODATA, json.dumps(content).encode())


def written(name: str, content: bytes) -> Attack:
    """Writes the first file of a name."""
    return lambda www: put(min(www.glob(name)), content)


def without(name: str) -> Attack:
    """Deletes the first file of a name."""
    return lambda www: min(www.glob(name)).unlink()


def exported(**entries: Any) -> Attack:
    """Writes another list of run exports."""
    return lambda www: edit(
        www, EXPORTS, lambda content: content.update({"packages.conda": entries})
    )


def with_sbom(content: bytes, of: str = "digit2") -> Attack:
    """Writes the package with this SBOM alone."""
    draft = digit(2, depends=("digit1",)).with_(
        info={f"sboms/{of}.cdx.json": content} if content else {}
    )
    return packaged(draft)


UNSURE = sound(digit(2, depends=("digit1",)), commit="", licence="")
OTHER_SBOM = sound(digit(2, version="1.1")).info["sboms/digit2.cdx.json"]
COMPRESSED = f"{REPODATA}.zst"
ZSTD = zstandard.ZstdCompressor()
NOTED = f"{HISTORY}/history.json"


# Name -> change, place of the finding, its check, and the beginning of its message.
ATTACKS: Mapping[str, tuple[Attack, str, str, str]] = {
    # the record
    "dependencies less": (
        recorded(depends=[]),
        TWO,
        "metadata",
        "repodata says depends nothing, the package ['dig",
    ),
    "another sha256": (recorded(sha256="0" * 64), TWO, "metadata", "repodata says sha256"),
    "other run exports": (
        recorded(run_exports={"strong": ["x"]}),
        TWO,
        "metadata",
        "repodata says run_exports",
    ),
    "another time": (
        recorded(indexed_timestamp=1_800_000_000_001),
        TWO,
        "index",
        "repodata says 1800000000001 as its",
    ),
    "no time": (
        recorded(indexed_timestamp=None),
        TWO,
        "index",
        "repodata has no indexed_timestamp, and it was publis",
    ),
    # the package
    "a package cut short": (lambda www: cut(www / TWO), TWO, "file", ""),
    "no package": (without(TWO), TWO, "file", "the index names it, but it is missing"),
    "another version": (
        drafted(index={"version": "1.1"}),
        TWO,
        "metadata",
        "it is digit2-1.1-h0_0 by its own index.json",
    ),
    "another subdir": (
        drafted(index={"subdir": "win-64"}),
        TWO,
        "metadata",
        "it is for win-64 by its own index.json",
    ),
    "payload in the info half": (
        added(INFO, "lib/evil.so"),
        TWO,
        "payload",
        "lib/evil.so: is in the info half",
    ),
    "payload behind ..": (
        added(INFO, "info/../lib/evil.so"),
        TWO,
        "payload",
        "info/../lib/evil.so: not a file",
    ),
    "metadata in the pkg half": (
        drafted(files={"info/link.json": b"{}"}),
        TWO,
        "payload",
        "info/link.json: is in the",
    ),
    "payload twice": (
        added(PKG, "share/digit"),
        TWO,
        "payload",
        "the archive contains a path twice",
    ),
    "a pipe": (
        added(PKG, "share/pipe", b"", type=tarfile.FIFOTYPE),
        TWO,
        "payload",
        "share/pipe: not a file",
    ),
    "a file more": (
        added(PKG, "etc/x"),
        TWO,
        "payload",
        "etc/x: in the archive, missing in paths.json",
    ),
    # its SBOM
    "no SBOM": (with_sbom(b""), TWO, "sbom", "it has no SBOM"),
    "an SBOM of nothing": (with_sbom(b"{}"), TWO, "sbom", "its SBOM cannot be read"),
    "an SBOM under another name": (
        with_sbom(b"{}", "other"),
        TWO,
        "sbom",
        "info/sboms/other.cdx.json does not belong",
    ),
    "an SBOM of another": (
        with_sbom(OTHER_SBOM),
        TWO,
        "sbom",
        "it is about digit2 1.1 h0_0 for linux-64",
    ),
    "no commit": (packaged(UNSURE), TWO, "sbom", "it names no commit of the recipe"),
    "no licence": (packaged(UNSURE), TWO, "sbom", "it states no licence of"),
    # run_exports.json
    "other exports": (
        exported(**{f"{STEM}.conda": {"run_exports": {}}}),
        TWO,
        "run-exports",
        "run_exports.json says",
    ),
    "no run exports": (exported(), TWO, "run-exports", "run_exports.json does not name it"),
    # repodata.json, and the other index files
    "no index": (written(REPODATA, b""), REPODATA, "index", "cannot be read"),
    "an entry that leads away": (
        entered("../../x.conda"),
        REPODATA,
        "index",
        "has an entry for '../../x.conda' that",
    ),
    "another server": (
        indexed(info={"base_url": "https://x"}),
        REPODATA,
        "index",
        "has 'https://x' as base_url",
    ),
    "packages of a newer form": (
        indexed(v3={"whl": {"x": {}}}),
        REPODATA,
        "index",
        "has {'whl': {'x': {}}} as v3",
    ),
    "another compressed index": (
        written(COMPRESSED, ZSTD.compress(b"{}")),
        COMPRESSED,
        "index",
        "does not unpack to",
    ),
    "no compressed index": (
        without(COMPRESSED),
        COMPRESSED,
        "index",
        "cannot be read: No such file",
    ),
    "an old index": (old_index, REPODATA, "index", "is not that of state 2"),
    "no history": (without(NOTED), NOTED, "index", "is not there"),
}
"""The check finds each in a folder, and on a server."""
