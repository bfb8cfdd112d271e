"""What an environment, a note or a package names outside of a prefix is neither removed nor
written.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, ChannelMissing, NotReady
from ctk.core.platforms import this_platform
from ctk.env.activation import STARTUP
from ctk.env.outside import NEW_FOLDER, reaching_out, refuse_packages
from ctk.env.prefix import Installed, Note
from ctk.solve.solve import Catalogue, Scenario
from ctk.solve.why import solve_or_say_why
from kit.packages import Draft
from kit.packs import checkout, create, pack
from kit.tiny_packages import pure, tiny

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64",
    reason=(
        "the tiny packages are for linux-64; test_environment_check.py has the doctor everywhere"
    ),
)

RECORD = "other-1.0-0.json"
Record = dict[str, Any]
Attack = Callable[[Path, Record], object]
"""Changes a prefix, or the record of `other` in it."""


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    other = tiny("other", files={"share/other": b"right"})
    second = tiny("second", files={"lib/second": b"right"})
    third = tiny("third", files={"etc/third": b"right"})
    return checkout(tmp_path_factory.mktemp("c"), pure(), other, second, third)


@pytest.fixture(scope="module")
def sound(where: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("sound") / "env"
    create(where, prefix, "other", "third")
    return prefix


@pytest.fixture
def prefix(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "env")
    return tmp_path / "env"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder outside of the prefix, with files of the names that attacks use."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("file", "other", "x.json", "history", "pure.py", "x.pyc", STARTUP.name):
        (folder / name).write_text("mine")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def links(prefix: Path) -> set[str]:
    return {str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_symlink()}


def change(where: Workspace, prefix: Path, *specs: str) -> Any:
    return ctk(
        where,
        "env",
        "create",
        *specs,
        "--yes",
        "--prefix",
        str(prefix),
        "--base",
        str(where.root / "base"),
    )


def attacked(prefix: Path, attack: Attack) -> None:
    file = prefix / "conda-meta" / RECORD
    record = json.loads(file.read_text())
    attack(prefix, record)
    if file.exists():
        file.write_text(json.dumps(record))


def names(*paths: object) -> Attack:
    """Adds files to the record."""

    def attack(prefix: Path, record: Record) -> None:
        for path in paths:
            place = str(path).replace("MINE", str(prefix.parent / "mine"))
            record["files"].append(place)
            record["paths_data"]["paths"].append({"_path": place, "path_type": "hardlink"})

    return attack


def says(**fields: object) -> Attack:
    return lambda prefix, record: record.update(fields)


def original(path: str) -> Attack:
    return lambda prefix, record: record["paths_data"]["paths"][0].update(original_path=path)


def only_in(key: str, path: str) -> Attack:
    def attack(prefix: Path, record: Record) -> None:
        if key == "files":
            record["files"].append(path)
        else:
            record["paths_data"]["paths"].append({"_path": path, "path_type": "hardlink"})

    return attack


def linked(folder: str) -> Attack:
    """Puts a link that leads out in the place of a folder."""

    def attack(prefix: Path, record: Record) -> None:
        if (prefix / folder).is_dir():
            moved = prefix.parent / "moved"
            shutil.move(prefix / folder, moved)
            shutil.copytree(moved, prefix.parent / "mine", dirs_exist_ok=True)
        (prefix / folder).symlink_to(prefix.parent / "mine")

    return attack


ATTACKS: dict[str, tuple[Attack, str]] = {
    "absolute": (names("MINE/file"), "it is absolute"),
    "dots": (names("../mine/file"), "it leads outside through `..`"),
    "dots inside": (names("share/../../mine/file"), "it leads outside through `..`"),
    "backslashes": (names("..\\mine\\file"), "it leads outside through `..`"),
    "drive": (names("C:/mine/file"), "it is absolute"),
    "null": (names("share/a\0b"), "it has a null character"),
    "empty": (names(""), "it does not name a file"),
    "dot": (names("."), "it does not name a file"),
    "surrogate": (names("share/\ud800"), "a file cannot have this name"),
    "only in files": (only_in("files", "../mine/file"), "it leads outside through `..`"),
    "only in paths": (only_in("paths", "../mine/file"), "it leads outside through `..`"),
    "original path": (original("../mine/file"), "it leads outside through `..`"),
    "build": (says(build="../../../mine/x"), "a file cannot have this name"),
    "version": (says(version="/../../mine/x"), "a file cannot have this name"),
    "name": (says(name="../../mine/x"), "a file cannot have this name"),
    "file name": (says(fn="../../mine/x.conda"), "a file cannot have this name"),
    "record of another": (names("conda-meta/third-1.0-0.json"), "it is not a file of a package"),
    "history": (names("./conda-meta//history"), "it is not a file of a package"),
    "conda-meta": (names("conda-meta"), "it is not a file of a package"),
    "a linked folder": (linked("share"), " leads to "),
    "linked conda-meta": (linked("conda-meta"), " leads to "),
    "linked bin": (linked("bin"), " leads to "),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_environment_that_reaches_outside_is_named_and_not_changed(
    where: Workspace, prefix: Path, mine: Path, name: str
) -> None:
    attack, why = ATTACKS[name]
    attacked(prefix, attack)
    before = files(prefix), files(mine), links(prefix)
    done = change(where, prefix, "second", "--force")
    assert done.returncode == NotReady.exit_code, done.stderr
    assert why in done.stderr and f"next: {NEW_FOLDER}" in done.stderr
    done = ctk(where, "doctor", str(prefix), "--json")
    (found,) = json.loads(done.stdout)["checks"]
    assert (found["check"], found["state"], found["step"]) == ("records", "problem", NEW_FOLDER)
    assert why in found["found"] and "Traceback" not in done.stderr
    assert (files(prefix), files(mine), links(prefix)) == before


def test_no_command_ends_in_a_traceback_or_changes_such_an_environment(
    where: Workspace, prefix: Path, mine: Path
) -> None:
    attacked(prefix, names("MINE/file", "../mine/file", "a\0b", "\ud800", ""))
    before = files(prefix), files(mine), links(prefix)
    for words in (
        ("env", "create", "second", "--prefix", str(prefix)),
        ("env", "create", "other", "third", "--prefix", str(prefix)),
        ("env", "pack", str(prefix), "-o", "x.run"),
        ("env", "run", str(prefix), "--", "true"),
        ("gpu-code", str(prefix)),
        ("doctor", str(prefix)),
    ):
        done = ctk(where, *words)
        assert "Traceback" not in done.stderr and done.returncode != 1, done.stderr
    assert (files(prefix), files(mine), links(prefix)) == before


def test_a_name_with_a_newline_is_inside_and_shown_on_one_line(
    where: Workspace, prefix: Path
) -> None:
    attacked(prefix, names("share/a\nb", "../a\nb"))
    done = change(where, prefix, "second")
    assert done.returncode == NotReady.exit_code
    assert "names '../a\\nb': it leads outside" in done.stderr and "share" not in done.stderr
    attacked(prefix, lambda _, record: (record["files"].pop(), record["paths_data"]["paths"].pop()))
    (prefix / "share" / "a\nb").write_text("x")
    assert change(where, prefix, "second").returncode == 0
    assert not (prefix / "share").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ["other"]},
        {"files": 1},
        {"files": [1]},
        {"files": {"a": 1}},
        {"paths_data": [1]},
        {"paths_data": {"paths": [1]}},
        {"paths_data": {"paths": {"a": 1}}},
        {"paths_data": {"paths": [{"path": "a"}]}},
    ],
)
def test_a_record_of_another_form_is_a_broken_one(
    where: Workspace, prefix: Path, fields: Record
) -> None:
    attacked(prefix, says(**fields))
    assert [file.name for file in Installed.read(prefix).broken] == [RECORD]
    assert RECORD in ctk(where, "doctor", str(prefix)).stdout
    assert change(where, prefix, "other", "third").returncode == 0
    assert ctk(where, "doctor", str(prefix)).returncode == 0


def test_links_that_stay_inside_are_no_problem(where: Workspace, prefix: Path) -> None:
    shutil.move(prefix / "share", prefix / "data")
    (prefix / "share").symlink_to("data")
    assert reaching_out(prefix, Installed.read(prefix).records) == []
    (prefix.parent / "by a link").symlink_to(prefix)
    assert change(where, prefix.parent / "by a link", "other", "second").returncode == 0
    assert (prefix / "data" / "other").exists() and (prefix / "lib" / "second").exists()


def test_a_link_where_a_new_package_has_files_is_named_before_anything_changes(
    where: Workspace, tmp_path: Path, mine: Path
) -> None:
    create(where, tmp_path / "env", "other")
    (tmp_path / "env" / "lib").symlink_to(mine)
    before = files(tmp_path)
    done = change(where, tmp_path / "env", "other", "second")
    assert done.returncode == NotReady.exit_code
    assert f"{tmp_path}/env/lib leads to {mine}" in done.stderr
    assert files(tmp_path) == before


def test_links_where_only_this_command_writes_are_not_followed(
    where: Workspace, tmp_path: Path, mine: Path
) -> None:
    """A prefix without packages in lib: its bytecode, its startup file and its history are
    elsewhere.
    """
    prefix = tmp_path / "env"
    create(where, prefix, "other")
    (mine / "python3.9" / "site-packages" / "__pycache__").mkdir(parents=True)
    for name in ("__pycache__/x.pyc", STARTUP.name):
        (mine / "python3.9" / "site-packages" / name).write_text("mine")
    (prefix / "lib").symlink_to(mine)
    (prefix / "conda-meta" / "history").unlink()
    for name in ("history", "ctk.part"):
        (prefix / "conda-meta" / name).symlink_to(mine / "history")
    before = files(mine)
    (prefix / "share" / "other").write_text("edited")
    assert change(where, prefix, "other").returncode == 0
    assert files(mine) == before
    assert not (prefix / "conda-meta" / "history").is_symlink()


def test_bytecode_is_not_written_through_a_link(
    where: Workspace, tmp_path: Path, mine: Path
) -> None:
    create(where, prefix := tmp_path / "env", "pure")
    (cache,) = prefix.glob("lib/python3*/site-packages/__pycache__")
    shutil.rmtree(cache)
    cache.symlink_to(mine)
    before = files(mine)
    assert change(where, prefix, "pure", "second").returncode == 0
    assert files(mine) == before
    assert cache.is_dir() and not cache.is_symlink()


@pytest.mark.parametrize(
    "key", ["../../../../mine.conda", "/MINE.conda", "..", "", "a\0b", "..\\mine.conda"]
)
def test_a_note_reaches_no_folder_but_those_of_the_cache(
    where: Workspace, prefix: Path, mine: Path, key: str
) -> None:
    """It names what a stopped run may have left."""
    (mine / "info").mkdir()
    entry = {"_path": "share/mine"}
    (mine / "info" / "paths.json").write_text(
        json.dumps({"paths": [entry, {"_path": "../mine/file"}]})
    )
    note = Note.read(prefix)
    assert note
    key = key.replace("/MINE", str(mine))
    if key.startswith("../"):
        key = f"{os.path.relpath(mine, where.packages)}.conda"
    Note((*note.packages, f"{key}#", f"{mine}#{'0' * 64}"), note.asked).write(prefix)
    (prefix / "share" / "mine").write_text("of the user")
    before = files(mine)
    assert change(where, prefix, "other", "third").returncode == 0
    assert files(mine) == before and (prefix / "share" / "mine").exists()


@pytest.mark.parametrize(
    "line",
    [
        "../../../../mine/file",
        "/MINE/file",
        "a\0b",
        ".",
        "../../..",
        "..\\..\\x",
        "../../../conda-meta/history",
    ],
)
def test_the_record_of_a_wheel_reaches_nothing_outside(
    where: Workspace, tmp_path: Path, mine: Path, line: str
) -> None:
    own = tiny("own", files={f"{_site()}/own-2.0.dist-info/INSTALLER": b"conda\n"})
    made = checkout(tmp_path / "c", own)
    create(made, prefix := tmp_path / "env", "own", "python")
    (info := prefix / _site() / "own-1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Name: own\n")
    named = line.replace("/MINE", str(mine))
    (info / "RECORD").write_text(f"{named},,\nown.py,,\n", newline="")
    before = files(mine)
    assert "Traceback" not in ctk(made, "doctor", str(prefix)).stderr
    done = change(made, prefix, "own", "python")
    assert done.returncode == 0, done.stderr
    assert files(mine) == before and not info.exists()
    assert (prefix / "conda-meta" / "history").exists()


def _site() -> str:
    return f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def _link(**noarch: object) -> dict[str, bytes]:
    link = {"noarch": {"type": "python", **noarch}, "package_metadata_version": 1}
    return {"link.json": json.dumps(link).encode()}


def _evil(**more: Any) -> Draft:
    return tiny("evil", files={"share/evil": b"x"}, **more)


def _listed(path: str) -> Draft:
    return _evil(listed={path: {"sha256": "0" * 64, "size_in_bytes": 1}})


PACKAGES = {
    "absolute": (_listed("/mine/evil"), "/mine/evil: it is absolute"),
    "dots": (_listed("../mine/evil"), "../mine/evil: it leads outside"),
    "backslash": (_listed("..\\mine"), "..\\mine: it leads outside"),
    "null": (_listed("a\0b"), "null"),
    "nothing": (_listed(""), "'': it does not name a file"),
    "a record": (_listed("conda-meta/other-1.0-0.json"), "it is not a file of a package"),
    "a command": (
        _evil(
            subdir="noarch",
            info=_link(entry_points=["../../mine/evil = a:b"]),
            index={"noarch": "python"},
        ),
        "no command can have the name ../../mine/evil",
    ),
    "no list": (_evil(info={"paths.json": b"[]"}), "evil-1.0-0.conda"),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_reaches_outside_is_not_installed(
    tmp_path: Path, mine: Path, name: str
) -> None:
    """rattler ends the process at some of them."""
    draft, why = PACKAGES[name]
    made = checkout(tmp_path / "c", draft, tiny("other", files={"share/other": b"right"}))
    create(made, tmp_path / "env", "other")
    before = files(tmp_path / "env"), files(mine)
    for done in (
        change(made, tmp_path / "env", "evil"),
        pack(made, "evil", "python", "-o", str(tmp_path / "p.run")),
    ):
        assert done.returncode == ChannelBroken.exit_code, done.stderr
        assert why in done.stderr and "panic" not in done.stderr
    assert (files(tmp_path / "env"), files(mine)) == before


def in_index(channel: Path, name: str, change: Callable[[Record, str], object]) -> None:
    """Changes the entries of a package in repodata."""
    for file in channel.resolve().glob("*/repodata.json"):
        content = json.loads(file.read_text())
        for packages in (content["packages"], content["packages.conda"]):
            for entry in [entry for entry in packages if entry.startswith(f"{name}-")]:
                change(packages, entry)
        file.unlink()
        file.write_text(json.dumps(content))


def update(fields: Record, packages: Record, name: str) -> None:
    packages[name].update(fields)


def test_a_python_that_puts_modules_outside_is_refused(tmp_path: Path, mine: Path) -> None:
    """rattler writes modules of other packages there (CEP 17)."""
    made = checkout(tmp_path / "c", pure())
    for folder in ("../mine", str(mine), "..\\mine"):
        fields = {"python_site_packages_path": folder}
        in_index(made.root / "base", "python", partial(update, fields))
        before = files(mine)
        done = change(made, tmp_path / "env", "pure")
        assert done.returncode == ChannelBroken.exit_code and "its modules go to" in done.stderr
        assert files(mine) == before and not (tmp_path / "env" / "conda-meta").exists()


@pytest.mark.parametrize("name", ["other-1.0-0/../../../../../mine/x.conda", "../../mine/x.conda"])
def test_a_file_name_of_the_index_reaches_no_other_folder(
    tmp_path: Path, mine: Path, name: str
) -> None:
    """The cache once removed the folder of that name, if a file in it was newer than the folder."""
    made = checkout(tmp_path / "c", tiny("other", files={"share/other": b"right"}))
    create(made, tmp_path / "one", "other")
    (mine / "x").mkdir()
    os.utime(mine / "x", (1, 1))
    (mine / "x" / "file").write_text("mine")
    in_index(
        made.channel, "other", lambda packages, old: packages.update({name: packages.pop(old)})
    )
    before = files(tmp_path)
    for prefix in ("two", "one"):
        done = change(made, tmp_path / prefix, "other", "--force")
        assert done.returncode in (ChannelBroken.exit_code, ChannelMissing.exit_code), done.stderr
    assert files(tmp_path) == before


def test_some_packages_are_looked_at_with_the_python_of_all(
    where: Workspace, tmp_path: Path
) -> None:
    """As those that were just downloaded: without the Python of the pick, each module would be
    outside.
    """
    catalogue = Catalogue([where.channel, where.root / "base"], this_platform())
    pick = solve_or_say_why(Scenario(("pure", "python"), this_platform()), catalogue)
    some = [record for record in pick.records if record.name.normalized == "pure"]
    prefix, cache = tmp_path / "env", tmp_path / "cache"
    refuse_packages(pick, prefix, cache, some)
    refuse_packages(pick, prefix, cache, [])
    version = pick.version("python").rpartition(".")[0]
    (prefix / f"lib/python{version}").mkdir(parents=True)
    (prefix / f"lib/python{version}/site-packages").symlink_to(tmp_path)
    with pytest.raises(NotReady, match="site-packages leads to"):
        refuse_packages(pick, prefix, cache, some)
    refuse_packages(pick, prefix, cache, [])
