"""Environments of conda, mamba, rattler and conda-pack: nothing false is said; damage is found."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.env import examine
from ctk.env.activation import ACTIVATION
from ctk.env.check import ENVIRONMENT_CHECKS
from ctk.env.doctor import look
from ctk.env.environment import create
from ctk.env.prefix import Installed, left_to_unpack
from ctk.env.record_files import Damage
from ctk.env.terms import Terms
from ctk.package.gpu_subject import subjects
from ctk.rules import Finding
from ctk.solve.solve import Catalogue, Scenario
from kit.client_records import (
    MAKERS,
    SAMPLES,
    SITE,
    Place,
    by_rattler,
    lacks,
    lay_out,
    make,
    packed,
    sample,
)

STORED = {file.stem: file for file in sorted(SAMPLES.glob("*.json"))}
ALWAYS = [name for name in MAKERS if not lacks(name) and "rattler" in name]
# Files beside packages: rattler's mark for backups, and what conda-pack adds.
MARKS = {"CACHEDIR.TAG", "bin/conda-unpack", "bin/conda_unpack_progress.py"}
DIST_INFO = f"{SITE}/pure-1.0.dist-info"

IS_OTHER = this_platform() != "linux-64"
pytestmark = pytest.mark.skipif(IS_OTHER, reason="the packages of the samples are for linux-64")


@pytest.fixture(params=[*STORED, *ALWAYS])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The environment of a client."""
    monkeypatch.setattr(examine, "release_locks", lambda where: {})
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if request.param in STORED:
        return lay_out(json.loads(STORED[request.param].read_text()), tmp_path)
    return make(request.param, tmp_path)


def wrong(prefix: Path) -> dict[str, Finding]:
    """What the doctor says is wrong or worth a hint."""
    on = examine.examined(Workspace(ROOT), prefix, "none")
    seen = look(ENVIRONMENT_CHECKS, on)
    return {check.name: finding for check, finding in seen if finding.severity != "ok"}


def test_every_client_has_a_sample_that_always_runs() -> None:
    """A test with the client itself is skipped where there is none."""
    assert {*STORED, *(name for name in MAKERS if "rattler" in name)} == {*MAKERS}


def test_nothing_false_is_said_of_an_environment_of_any_client(place: Place) -> None:
    assert wrong(place.prefix) == {}
    has = Installed.read(place.prefix)
    assert has.damage() == {} and has.of_pip == {} and has.stamp
    assert has.distributions == {"pure": "pure"}
    with_prefix = {name: {*paths} for name, paths in has.with_prefix.items()}
    assert with_prefix == {
        "library": {"etc/library.conf", "lib/library.bin"},
        "pure": {"bin/pure", "bin/tool"},
    }
    assert {file.path for file in has.files["pure"]} == {
        *("bin/pure", "bin/tool", "share/pure", f"{SITE}/pure.py"),
        *(f"{DIST_INFO}/{name}" for name in ("INSTALLER", "METADATA", "RECORD")),
    }


@pytest.mark.parametrize("name", STORED)
def test_what_the_client_was_asked_for_is_known(name: str, tmp_path: Path) -> None:
    assert Installed.read(
        lay_out(json.loads(STORED[name].read_text()), tmp_path).prefix
    ).requested == [
        "library",
        "pure",
    ]


def test_the_code_of_an_environment_of_any_client_is_read(place: Place) -> None:
    """`ctk gpu-code` takes the files of each package from its record."""
    found = {subject.name for subject in subjects(place.prefix, lambda subdir: ())}
    assert found == {"library-1.0-0", "pure-1.0-0", "python-3.11.0-0"}


def damage_of(place: Place) -> dict[str, dict[str, Damage]]:
    return Installed.read(place.prefix).damage()


@pytest.mark.parametrize(
    ("package", "path"),
    [
        ("pure", f"{SITE}/pure.py"),
        ("pure", "bin/tool"),
        ("pure", "bin/pure"),
        ("pure", "share/pure"),
        ("python", "bin/python"),
        ("library", "lib/liblibrary.so.1"),
        ("library", "lib/liblibrary.so"),
        ("library", "lib/library.bin"),
    ],
)
def test_a_file_that_is_gone_is_found(place: Place, package: str, path: str) -> None:
    (place.prefix / path).unlink()
    assert damage_of(place) == {package: {path: Damage.MISSING}}
    found = wrong(place.prefix)["files"]
    assert found.severity == "error"
    assert found.message == f"missing, or not as they were installed: {package}: {path}"
    assert shlex.split(found.fix)[:4] == ["conda", "install", "-p", str(place.prefix)]
    assert shlex.split(found.fix)[-2:] == ["--force-reinstall", package]


def test_a_file_with_other_bytes_is_found(place: Place) -> None:
    for path in (f"{SITE}/pure.py", "lib/liblibrary.so.1", "etc/library.conf"):
        file = place.prefix / path
        text = file.read_bytes()
        file.unlink()  # or it would be changed in the cache
        file.write_bytes(text.swapcase())
    found = damage_of(place)
    assert found["pure"] == {f"{SITE}/pure.py": Damage.CHANGED}
    # Of a packed environment nothing is known of what contains the prefix.
    records = Installed.read(place.prefix).records.values()
    is_packed = any((record.get("link") or {}).get("source") == "" for record in records)
    changed = {"lib/liblibrary.so.1"} if is_packed else {"lib/liblibrary.so.1", "etc/library.conf"}
    assert found["library"] == dict.fromkeys(changed, Damage.CHANGED)


def test_a_link_into_a_cache_that_is_gone_is_a_missing_file(place: Place) -> None:
    """`conda clean --all` leaves an environment of links without its files."""
    links = {
        path.relative_to(place.prefix).as_posix()
        for path in place.prefix.rglob("*")
        if path.is_symlink() and str(place.cache) in str(path.readlink())
    }
    shutil.rmtree(place.cache, ignore_errors=True)
    found: dict[str, Damage] = {}
    for paths in damage_of(place).values():
        found |= paths
    gone = [path for path in links if not path.endswith(".pyc")]
    assert found == dict.fromkeys(gone, Damage.MISSING)


def test_what_pip_put_in_place_of_a_package_is_found_in_an_environment_of_any_client(
    place: Place,
) -> None:
    """The whole package is pip's: its dist-info, and the module."""
    site = place.prefix / SITE
    for file in (site / "pure-1.0.dist-info").iterdir():
        file.unlink()
    (site / "pure-1.0.dist-info").rmdir()
    (info := site / "pure-1.1.dist-info").mkdir()
    (info / "INSTALLER").write_text("pip\n")
    (info / "METADATA").write_text("Name: pure\nVersion: 1.1\n")
    (info / "RECORD").write_text("pure.py,,\n")
    found = wrong(place.prefix)["files"]
    assert (found.severity, found.message) == ("hint", "pip replaced those of pure")
    assert found.fix.startswith("if you did not mean that, let pip uninstall them")


def test_an_environment_of_conda_pack_without_its_own_path_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its programs failed, and nothing was wrong."""
    monkeypatch.setattr(examine, "release_locks", lambda where: {})
    place = Place(tmp_path)
    packed(by_rattler, is_half=True)(place)
    found = wrong(place.prefix)["files"]
    assert found.message.startswith("conda-unpack has not run: another path is in ")
    assert "etc/library.conf" in found.message and "lib/library.bin" in found.message
    assert found.fix == f"ctk env run {place.prefix} -- conda-unpack"
    place.run(sys.executable, "-B", place.prefix / "bin" / "conda-unpack")
    assert "files" not in wrong(place.prefix)


OTHERS = ("", "#!/bin/sh\necho '", "_prefix_records = 1", "_prefix_records = [('/etc/x', 'x', '')]")


@pytest.mark.parametrize("text", OTHERS)
def test_another_program_in_place_of_conda_unpack_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "conda-unpack").write_text(text)
    assert left_to_unpack(tmp_path) == []


def test_env_create_leaves_no_file_of_a_package_that_it_removes(place: Place) -> None:
    """rattler leaves the noarch Python packages of conda's records, and Python finds them."""
    pick = Catalogue([place.channel], "linux-64").pick(Scenario(("library",), "linux-64"))
    assert pick
    (place.prefix / "share" / "mine").write_text("of the user")
    create(pick, place.prefix, place.root / "another cache", terms=Terms(force=True))
    has = Installed.read(place.prefix)
    assert {str(record["name"]) for record in has.records.values()} == {"library"}
    own = {file.path for file in has.files["library"]}
    left = {
        path.relative_to(place.prefix).as_posix()
        for path in place.prefix.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    left = {path for path in left - own if not path.startswith("conda-meta/")}
    assert left - {*ACTIVATION} - MARKS == {"share/mine"}


def test_env_create_gives_a_package_its_files_back(place: Place) -> None:
    pick = Catalogue([place.channel], "linux-64").pick(Scenario(("library", "pure"), "linux-64"))
    assert pick
    (place.prefix / SITE / "pure.py").unlink()
    create(pick, place.prefix, place.root / "another cache", terms=Terms(force=True))
    assert "main" in (place.prefix / SITE / "pure.py").read_text()
    assert Installed.read(place.prefix).damage() == {}
    assert [*(place.prefix / SITE).glob("pure*clobber*")] == []


@pytest.mark.parametrize("name", [name for name in MAKERS if "rattler" not in name])
def test_a_sample_is_what_the_client_writes_today(name: str, tmp_path: Path) -> None:
    if client := lacks(name):
        variable = f"CTK_TEST_{client.upper()}"
        pytest.skip(f"there is no {client}, set {variable}; its stored sample is tested")
    made = make(name, tmp_path)
    stored = json.loads(STORED[name].read_text())
    assert shapes(sample(made, is_packed=name.startswith("packed"))) == shapes(stored)


def shapes(content: dict[str, Any]) -> dict[str, Any]:
    """What a sample has, but for the order of things and what differs from run to run."""
    found = {}
    for file, record in content["records"].items():
        entries = record["paths_data"]["paths"]
        found[file] = {
            "keys": sorted(record),
            "files": sorted(record["files"]),
            "link": record["link"],
            "paths": sorted((entry["_path"], tuple(sorted(entry))) for entry in entries),
        }
    return {"records": found, "files": sorted(content["files"])}
