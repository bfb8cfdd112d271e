"""What the pinned py-rattler makes of packages under ``v3`` of an index, and of related channels.

docs/evidence/revision-3.md has its results, and those of conda and mamba.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rattler import (
    BuildString,
    Gateway,
    GenericVirtualPackage,
    PackageName,
    Version,
    solve,
)
from rattler.exceptions import SolverError


def record(name: str, build: str = "0", *depends: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1",
        "build": build,
        "build_number": int(build == "native_1"),
        "depends": list(depends),
        "constrains": [],
        "md5": "0" * 32,
        "sha256": "0" * 64,
        "size": 1,
        "subdir": "noarch",
        "noarch": "generic",
        "timestamp": 1_773_851_540_030,
        **more,
    }


def index(
    folder: Path,
    *,
    v3: Sequence[Mapping[str, Any]] = (),
    older: Sequence[Mapping[str, Any]] = (),
    info: Mapping[str, Any] | None = None,
) -> str:
    """A channel with these packages; its address."""
    key = "{name}-{version}-{build}".format_map
    for subdir in ("noarch", "linux-64"):
        records = subdir == "noarch"
        content = {
            "info": {"subdir": subdir, **(info or {})},
            "packages": {},
            "packages.conda": {f"{key(r)}.conda": r for r in older if records},
            "v3": {"conda": {key(r): r for r in v3 if records}},
            "repodata_version": 1,
        }
        (folder / subdir).mkdir(parents=True)
        (folder / subdir / "repodata.json").write_text(json.dumps(content))
    return folder.as_uri()


def picked(channel: str, spec: str, cache: Path, driver: str | None = None) -> set[str]:
    has = [GenericVirtualPackage(PackageName("__unix"), Version("0"), BuildString("0"))]
    if driver:
        has.append(GenericVirtualPackage(PackageName("__cuda"), Version(driver), BuildString("0")))
    platforms = ["linux-64", "noarch"]
    gateway = Gateway(cache_dir=cache)
    found = asyncio.run(
        solve([channel], [spec], gateway=gateway, platforms=platforms, virtual_packages=has)
    )
    return {f"{r.name.normalized} {r.build}" for r in found}


@pytest.fixture
def flags(tmp_path: Path) -> str:
    """cuda-version and a library, each native and compat."""
    on_driver = '__cuda[version=">=13.0"]'
    packages = [record("cuda-version", "native_1", on_driver, flags=["native"])]
    packages.append(record("cuda-version", "compat_0", flags=["compat"]))
    for build in ("native_1", "compat_0"):
        kind = build.partition("_")[0]
        packages.append(record("lib", build, f'cuda-version[flags=["{kind}"]]', flags=[kind]))
    return index(tmp_path / "channel", v3=packages)


@pytest.mark.parametrize(
    ("spec", "driver", "build"),
    [
        ("lib", "13.0", "native_1"),
        ("lib", None, "compat_0"),
        ('lib[flags=["compat"]]', "13.0", "compat_0"),
    ],
)
def test_flags_choose_a_build(
    spec: str, driver: str | None, build: str, flags: str, tmp_path: Path
) -> None:
    found = picked(flags, spec, tmp_path / "cache", driver)
    assert found == {f"lib {build}", f"cuda-version {build}"}


def test_a_flag_without_a_build_that_fits_has_no_solution(flags: str, tmp_path: Path) -> None:
    with pytest.raises(SolverError, match="cuda-version"):
        picked(flags, 'lib[flags=["native"]]', tmp_path / "cache")


@pytest.mark.parametrize(
    ("driver", "also"), [("13.0", {"cuda-new 0"}), ("12.4", {"cuda-old 0"}), (None, set())]
)
def test_a_condition_asks_for_the_driver(
    driver: str | None, also: set[str], tmp_path: Path
) -> None:
    new, old = 'cuda-new[when="__cuda>=13.0"]', 'cuda-old[when="__cuda<13"]'
    packages = [record("lib", "0", new, old), record("cuda-new"), record("cuda-old")]
    channel = index(tmp_path / "channel", v3=packages)
    assert picked(channel, "lib", tmp_path / "cache", driver) == {"lib 0", *also}


def test_an_extra_is_installed_where_it_is_named(tmp_path: Path) -> None:
    whole = record("torch", extra_depends={"vision": ["torchvision"]})
    channel = index(tmp_path / "channel", v3=[whole, record("torchvision")])
    assert picked(channel, "torch", tmp_path / "one") == {"torch 0"}
    with_extra = picked(channel, "torch[extras=[vision]]", tmp_path / "two")
    assert with_extra == {"torch 0", "torchvision 0"}


def test_a_channel_brings_the_one_that_it_overrides(tmp_path: Path) -> None:
    index(tmp_path / "base", older=[record("python")])
    relations = {"channel_relations": {"overrides": "../base"}}
    channel = index(tmp_path / "own", older=[record("mine", "0", "python")], info=relations)
    assert picked(channel, "mine", tmp_path / "cache") == {"mine 0", "python 0"}
