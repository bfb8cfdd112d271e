"""Whether a channel folder is whole, and an environment: what no fault may ever spoil."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from ctk.core.errors import Unsolvable
from ctk.solve.solve import Scenario, solve

State = dict[str, str]
"""File below a channel -> sha256 of its content: repodata and packages."""


def problems(channel: Path, base: Path) -> list[str]:
    """What is wrong with a channel; nothing is wrong with one that is not there yet.

    Args:
        channel: Its folder.
        base: The channel that has what its packages need.
    """
    if not channel.is_symlink() and not channel.exists():
        return []
    folders = sorted(p for p in channel.glob("*") if p.is_dir() and not p.name.startswith("."))
    found = [line for folder in folders for line in _of_subdir(folder)]
    if channel / "noarch" not in folders:
        found.append(f"{channel} has no noarch")
    return found or list(_of_clients(channel, base))


def state(channel: Path) -> State:
    """What readers get from a channel."""
    files = [
        *channel.glob("*/repodata.json"),
        *channel.glob("*/run_exports.json"),
        *channel.glob("*/*.conda"),
    ]
    return {
        p.relative_to(channel).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(files)
    }


def installed(prefix: Path) -> set[str]:
    """The names of the packages that an environment says it has."""
    return {
        json.loads(note.read_text())["name"] for note in (prefix / "conda-meta").glob("*-*.json")
    }


def damaged(prefix: Path) -> list[str]:
    """The files of an environment that are not what its packages say."""
    found = []
    for note in (prefix / "conda-meta").glob("*-*.json"):
        for entry in json.loads(note.read_text())["paths_data"]["paths"]:
            file = prefix / entry["_path"]
            stated = entry.get("sha256_in_prefix", entry["sha256"])
            if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != stated:
                found.append(entry["_path"])
    return found


def _of_subdir(folder: Path) -> Iterator[str]:
    try:
        plain = (folder / "repodata.json").read_bytes()
        records = json.loads(plain)["packages.conda"]
        exports = json.loads((folder / "run_exports.json").read_bytes())["packages.conda"]
        packed = (
            zstandard.ZstdDecompressor()
            .stream_reader((folder / "repodata.json.zst").read_bytes())
            .read()
        )
    except (OSError, ValueError, KeyError, zstandard.ZstdError) as error:
        yield f"{folder.name}: its index cannot be read: {error!r}"
        return
    if json.loads(packed) != json.loads(plain):
        yield f"{folder.name}: repodata.json.zst says something else than repodata.json"
    if set(exports) != set(records):
        yield f"{folder.name}: run_exports.json is of other packages: {set(exports) ^ set(records)}"
    for name in sorted(set(records) - {p.name for p in folder.glob("*.conda")}):
        yield f"{folder.name}/{name} is named and not there"
    for package in sorted(folder.glob("*.conda")):
        yield from _of_package(package, records.get(package.name))


def _of_package(package: Path, record: dict[str, object] | None) -> Iterator[str]:
    name = f"{package.parent.name}/{package.name}"
    content = package.read_bytes()
    if record is None:
        yield f"{name} is there and not named"
    elif (len(content), hashlib.sha256(content).hexdigest()) != (record["size"], record["sha256"]):
        yield (
            f"{name} is not the file that the index names: {len(content)} bytes, not"
            f" {record['size']}"
        )
    try:
        with zipfile.ZipFile(package) as archive:
            if archive.testzip():
                yield f"{name}: {archive.testzip()} is damaged"
    except zipfile.BadZipFile as error:
        yield f"{name}: {error}"


def _of_clients(channel: Path, base: Path) -> Iterator[str]:
    try:
        solve(
            Scenario(("cuda-crt", "cuda-profiler-api", "cuda-pathfinder"), "linux-64"),
            [channel, base],
        )
    except Unsolvable as error:
        yield f"a client finds nothing: {error.cause}"
