"""The packages that conda-forge provides, as metadata only: ``universe.yaml`` made into repodata for four platforms.

It stands in for conda-forge where scenarios are solved: always the same, and there without a network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ctk.core.platforms import NOARCH, PLATFORMS

DATA = Path(__file__).with_suffix(".yaml")

Record = dict[str, Any]


def universe() -> dict[str, dict[str, Any]]:
    """The universe's repodata: subdir -> what its ``repodata.json`` holds."""
    data = YAML(typ="safe").load(DATA)
    found: dict[str, dict[str, Record]] = {subdir: {} for subdir in (*PLATFORMS, NOARCH)}
    for record in _records(data):
        file = f"{record['name']}-{record['version']}-{record['build']}.conda"
        found[record["subdir"]][file] = record
    return {
        subdir: {"info": {"subdir": subdir}, "packages": {}, "packages.conda": records, "repodata_version": 1}
        for subdir, records in found.items()
    }


def pythons() -> tuple[str, ...]:
    """The tags of every Python in it, oldest first: ``cp310`` to ``cp315t``."""
    return tuple(YAML(typ="safe").load(DATA)["pythons"])


def _records(data: Mapping[str, Any]) -> Iterator[Record]:
    kinds = {tag: _words(tag, facts) for tag, facts in data["pythons"].items()}
    for package in data["packages"]:
        tags = [""]
        if wanted := package.get("pythons"):
            tags = list(kinds) if wanted == "all" else wanted
        for subdir in _subdirs(package):
            for tag in tags:
                versions = package["version"] if isinstance(package["version"], list) else [package["version"]]
                for version in versions:
                    yield _record(package, subdir, {"version": version, **kinds.get(tag, {})})
    for subdir in PLATFORMS:
        for tag, words in kinds.items():
            yield _python(data["python"], subdir, tag, words, data["pythons"][tag].get("free_threaded", False))
    for package in data["compiled"]:
        for subdir in _subdirs(package):
            for tag in package["pythons"]:
                words = {**kinds[tag], "version": package["version"]}
                on = "python >={minor},<{next}.0a0"
                # Since 3.13 the two kinds of one Python are told apart by python's own build as well.
                extra = [
                    on,
                    "python_abi {minor}.* *_{tag}",
                    *([] if words["python"] == "cpython" else [on + " *_{tag}"]),
                ]
                yield _record(package, subdir, words, extra, prefix=f"py{tag.removeprefix('cp')}")


def _words(tag: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """The placeholders of one Python."""
    major, minor, _ = facts["version"].split(".")
    return {
        "tag": tag,
        "version": facts["version"],
        "minor": f"{major}.{minor}",
        "next": f"{major}.{int(minor) + 1}",
        "python": facts.get("python", tag),
    }


def _subdirs(package: Mapping[str, Any]) -> list[str]:
    on = package.get("on")
    if on == [NOARCH]:
        return [NOARCH]
    return [s for s in PLATFORMS if on is None or s in on or s.split("-")[0] in on]


def _python(package: Mapping[str, Any], subdir: str, tag: str, words: dict[str, str], free_threaded: bool) -> Record:
    """python itself. The build with the GIL is what is meant when nobody says which."""
    since_313 = words["python"] == tag
    abi = "python_abi {minor}.* *_{tag}"
    whole = {
        **package,
        "name": "python",
        "version": "{version}",
        "number": 0 if free_threaded else 100,
        **({"track_features": "py_freethreading"} if free_threaded else {}),
        **({} if since_313 else {"constrains": [abi]}),
    }
    return _record(whole, subdir, words, [abi] if since_313 else [], suffix=f"_{words['python']}")


def _record(
    package: Mapping[str, Any],
    subdir: str,
    words: Mapping[str, str],
    extra: list[str] | None = None,
    prefix: str = "",
    suffix: str = "",
) -> Record:
    """One record; its build is ``<prefix>h<digest>_<number><suffix>`` where the data does not state one."""
    words = {"subdir": subdir, **words}
    own = package.get(subdir.split("-")[0], [])
    depends = [text.format(**words) for text in (*package.get("depends", ()), *own, *(extra or ()))]
    constrains = [text.format(**words) for text in package.get("constrains", ())]
    number = package.get("number", 0)
    name, version = package["name"].format(**words), words.get("version", "")
    if isinstance(package["version"], str):
        version = package["version"].format(**words)
    digest = hashlib.sha256(json.dumps([name, version, depends, constrains]).encode()).hexdigest()[:7]
    build = package["build"].format(**words) if "build" in package else f"{prefix}h{digest}_{number}{suffix}"
    record: Record = {
        "name": name,
        "version": version,
        "build": build,
        "build_number": number,
        "depends": depends,
        "subdir": subdir,
    }
    if constrains:
        record["constrains"] = constrains
    if "track_features" in package:
        record["track_features"] = package["track_features"]
    if subdir == NOARCH:
        record["noarch"] = "generic"
    return record
