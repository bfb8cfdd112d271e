"""With the real commands, packages of others stay in a prefix, and "unchanged" is true."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import WouldLose
from ctk.core.platforms import this_platform
from ctk.env.prefix import LOCK, NOTE, Installed, Note
from kit.packages import Draft
from kit.packs import checkout, create, pack, unpack
from kit.tiny_packages import application, pure, tiny

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64",
    reason=(
        "the tiny packages are for linux-64; test_environment_check.py looks at altered files"
        " everywhere"
    ),
)

FILE = "share/other"
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
VENDORED = f"{SITE}/vendor/tool-1.0.dist-info/INSTALLER"


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    other = tiny("other", files={FILE: b"right", "share/second": b"x"})
    libs = [
        Draft("lib", version, build)
        for version, build in (("1.0", "0"), ("2.0", "0"), ("2.0", "1"))
    ]
    needed = [
        tiny(
            "needed",
            version,
            files=dict.fromkeys(
                [f"{SITE}/needed-{version}.dist-info/INSTALLER", VENDORED], b"conda\n"
            ),
        )
        for version in ("1.0", "2.0")
    ]
    slim = [tiny("slim", "1.0", depends=("second",)), tiny("slim", "2.0")]
    made = [application(), pure(), other, tiny("second"), *libs, *needed, *slim]
    return checkout(tmp_path_factory.mktemp("c"), *made)


@pytest.fixture
def prefix(where: Workspace, tmp_path: Path) -> Path:
    create(where, tmp_path / "env", "application=1.0", "other")
    return tmp_path / "env"


def words(where: Workspace, prefix: Path, *specs: str) -> list[str]:
    return [
        "env",
        "create",
        *specs,
        "--yes",
        "--prefix",
        str(prefix),
        "--base",
        str(where.root / "base"),
    ]


def tree(prefix: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(prefix)): p.read_bytes()
        for p in prefix.rglob("*")
        if p.is_file() and p.name != LOCK.name
    }


def names(prefix: Path) -> set[str]:
    return {title.split()[0] for title in Installed.read(prefix).packages.values()}


def problems(where: Workspace, prefix: Path) -> dict[str, dict[str, str]]:
    found = json.loads(ctk(where, "doctor", str(prefix), "--json").stdout)["checks"]
    return {one["check"]: one for one in found if one["state"] == "problem"}


@pytest.mark.parametrize(
    "whose", ["another tool's", "ours, to which conda added a package", "a broken record of others"]
)
def test_packages_of_others_stay_but_with_force(where: Workspace, prefix: Path, whose: str) -> None:
    meta = prefix / "conda-meta"
    if whose.startswith("ours"):
        record = json.loads(next(meta.glob("other-*.json")).read_text())
        added = {
            "name": "numpy",
            "version": "2.1",
            "fn": "numpy-2.1-0.conda",
            "files": [],
            "paths_data": {"paths": []},
        }
        (meta / "numpy-2.1-0.json").write_text(json.dumps({**record, **added}))
        lost = ["numpy 2.1"]
    else:
        (prefix / NOTE).unlink()
        lost = ["application 1.0", "pure 1.0", "python 3"]
        if whose.startswith("a broken"):
            (meta / "numpy-2.1-0.json").write_text("{")
    before = tree(prefix)
    done = ctk(where, *words(where, prefix, "other"))
    assert done.returncode == 2 and "did not put there, and would lose" in done.stderr
    assert all(name in done.stderr for name in lost), done.stderr
    assert tree(prefix) == before
    assert ctk(where, *words(where, prefix, "other"), "--force").returncode == 0
    assert names(prefix) == {"other"} and (prefix / FILE).read_bytes() == b"right"


def test_an_environment_of_others_with_all_that_is_asked_for_is_not_ours(
    where: Workspace, prefix: Path
) -> None:
    (prefix / NOTE).unlink()
    done = ctk(where, *words(where, prefix, "application=1.0", "other"))
    assert done.returncode == 2 and "did not put there, and belongs to another tool" in done.stderr


def test_what_was_asked_for_before_goes_only_with_yes(where: Workspace, prefix: Path) -> None:
    """It removed 18 of 36 packages without a question."""
    create = ["env", "create", "--prefix", str(prefix), "--base", str(where.root / "base")]
    before = tree(prefix)
    refused = ctk(where, *create, "other")
    python = f"python {sys.version_info.major}.{sys.version_info.minor}.0"
    note = Note.read(prefix)
    assert note
    again = note.again(prefix)
    assert refused.returncode == WouldLose.exit_code
    assert (
        refused.stderr
        == f"error: {prefix} would lose 3 of its 4 packages, because application is not named now: "
        f"application 1.0, pure 1.0 and {python}\nnext: to keep and update them all: `{again}`;"
        " to let them go, run it again with --yes\n"
    )
    document = json.loads(ctk(where, *create, "other", "--json").stdout)
    assert document["would_remove"] == ["application 1.0", "pure 1.0", python]
    assert document["error"]["kind"] == "WouldLose"
    step = re.findall("`(.*)`", ctk(where, *create, "lib", "other").stderr)
    assert step == [shlex.join(["ctk", "env", "add", str(prefix), "lib"])]
    assert tree(prefix) == before
    ctk(where, *shlex.split(step[0])[1:], check=True)
    assert {"application", "lib", "other"} <= names(prefix)
    ctk(where, *create, "other", "--yes", check=True)
    assert names(prefix) == {"other"}


def test_a_request_that_names_all_that_was_asked_for_needs_no_yes(
    where: Workspace, tmp_path: Path
) -> None:
    """What another version no longer needs goes without a question, and so does what stays as a
    dependency.
    """
    create = [
        "env",
        "create",
        "--prefix",
        str(tmp_path / "env"),
        "--base",
        str(where.root / "base"),
    ]
    ctk(where, *create, "slim=1.0", "application", "pure", check=True)
    assert "second" in names(tmp_path / "env")
    ctk(where, *create, "application", "slim=2.0", "other", "pure", check=True)
    assert "second" not in names(tmp_path / "env")
    ctk(where, *create, "application", "slim", "other", check=True)
    assert names(tmp_path / "env") >= {"application", "slim", "other", "pure"}


def test_what_changed_is_said(where: Workspace, prefix: Path) -> None:
    def changes(*specs: str) -> list[str]:
        first, *lines = ctk(where, *words(where, prefix, *specs), check=True).stdout.splitlines()
        assert first == f"changed: {prefix}"
        return lines[
            : next(i for i, line in enumerate(lines) if line.startswith("no CUDA toolkit"))
        ]

    python = f"python {sys.version_info.major}.{sys.version_info.minor}.0"
    assert changes("other") == [f"removed: application 1.0, pure 1.0 and {python}"]
    assert changes("other", "lib=1.0") == ["added: lib 1.0"]
    assert changes("lib") == ["removed: other 1.0", "replaced: lib 1.0 by 2.0"]
    assert changes("lib=2.0=0") == ["replaced: lib 2.0 1 by 0"]
    five = "added: application 1.0, needed 2.0, other 1.0, pure 1.0"
    assert changes("lib=1.0", "application", "other", "needed", "second") == [
        f"{five}, {python} and 1 more",
        "replaced: lib 2.0 by 1.0",
    ]
    title, columns, rule, first, *_ = changes("lib=1.0")
    assert (title, columns.split(), first.split()) == (
        "removed",
        ["package", "version"],
        ["application", "1.0"],
    )
    assert set(rule) == {"─"}
    document = json.loads(ctk(where, *words(where, prefix, "other"), "--json", check=True).stdout)
    assert (document["changed"], document["removed"]) == (True, ["lib"])
    assert json.loads(ctk(where, *words(where, prefix, "other"), "--json").stdout)["removed"] == []


@pytest.mark.parametrize("version", ["1.5", "2.0"])
def test_what_pip_put_in_place_of_a_package_goes_when_the_package_is_back(
    where: Workspace, prefix: Path, version: str
) -> None:
    """importlib.metadata said the version of pip's numpy, with conda's there."""
    site, mine = prefix / SITE, prefix.parent / "mine"
    create(where, prefix, "python", "needed=2.0", "other")
    shutil.rmtree(site / "needed-2.0.dist-info")
    for info, files in (
        (
            f"needed-{version}.dist-info",
            ("of_both.py", "needed/more.py", f"../../../{FILE}", "../../../../mine"),
        ),
        ("tool-1.0.dist-info", ("of_both.py", "tool.py")),
    ):
        files = (*files, f"{info}/INSTALLER", f"{info}/RECORD")
        for file in files:
            (site / file).parent.mkdir(exist_ok=True)
            (site / file).write_text("right" if file.endswith(FILE) else "pip\n")
        (site / info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    assert problems(where, prefix) == {}
    (site / "needed" / "more.py").unlink()  # as pip does, but for a file that it cannot remove
    assert problems(where, prefix)["files"]["found"].startswith(
        "missing, or not as they were installed: needed: "
    )
    done = create(where, prefix, "python", "needed", "other").stdout
    assert f"\ninstalled again: needed\nreplaced, of pip: needed {version}\n" in done
    assert {path.name for path in site.iterdir()} >= {
        "needed-2.0.dist-info",
        "of_both.py",
        "tool-1.0.dist-info",
    }
    assert not (site / "needed").exists() and not (site / "needed-1.5.dist-info").exists()
    assert [path.name for path in (site / "needed-2.0.dist-info").iterdir()] == ["INSTALLER"]
    assert (prefix / FILE).exists() and mine.exists()
    assert (
        problems(where, prefix) == {}
        and "unchanged" in create(where, prefix, "python", "needed", "other").stdout
    )


@pytest.mark.parametrize("record", ["of_pip.py,,\nneeded-1.5.dist-info/RECORD,,\n", ""])
def test_a_second_dist_info_that_an_older_ctk_left_goes(
    where: Workspace, prefix: Path, record: str
) -> None:
    create(where, prefix, "python", "needed=2.0", "other")
    site = prefix / SITE
    (info := site / "needed-1.5.dist-info").mkdir()
    for file in (site / "of_pip.py", info / "METADATA"):
        file.touch()
    if record:
        (info / "RECORD").write_text(record)
    again = create(where, prefix, "python", "needed=2.0", "other").stdout
    assert "\nreplaced, of pip: needed 1.5\n" in again
    assert not info.exists() and (site / "of_pip.py").exists() is (not record)
    assert problems(where, prefix) == {}


def test_unchanged_is_what_the_prefix_has(where: Workspace, prefix: Path) -> None:
    specs = ("application=1.0", "other")
    assert "unchanged" in create(where, prefix, *specs).stdout
    (prefix / FILE).touch()  # nothing is altered
    assert problems(where, prefix) == {}
    assert "unchanged" in create(where, prefix, *specs).stdout
    with (prefix / FILE).open(
        "r+b"
    ) as stream:  # through the hard link, so into the cache of unpacked packages too
        stream.write(b"wrong")
    assert FILE in problems(where, prefix)["files"]["found"]
    asked = [*specs, "--base", str(where.root / "base"), "--prefix", str(prefix)]
    assert problems(where, prefix)["files"]["step"] == shlex.join(["ctk", "env", "create", *asked])
    assert "\ninstalled again: other\n" in create(where, prefix, *specs).stdout
    assert (prefix / FILE).read_bytes() == b"right"
    assert problems(where, prefix) == {}
    assert "unchanged" in create(where, prefix, *specs).stdout


def edit_in_place(file: Path, content: bytes) -> None:
    """Writes through the hard links of a file, and gives it its size and its time back."""
    status = file.stat()
    assert len(content) == status.st_size and status.st_nlink > 1
    with file.open("r+b") as stream:
        stream.write(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_an_edit_that_keeps_size_and_time_reaches_no_later_environment_and_is_seen_in_all_earlier(
    where: Workspace, tmp_path: Path
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for prefix in (one, two):
        create(where, prefix, "other")
    edit_in_place(one / FILE, b"wrong")
    assert (two / FILE).read_bytes() == b"wrong"
    for prefix in (one, two):
        assert FILE in problems(where, prefix)["files"]["found"]
    create(where, three, "other")
    assert (three / FILE).read_bytes() == b"right"
    for prefix in (one, two):
        assert "\ninstalled again: other\n" in create(where, prefix, "other").stdout
        assert (prefix / FILE).read_bytes() == b"right" and problems(where, prefix) == {}
    assert problems(where, three) == {}


def test_an_edited_file_is_in_no_pack(where: Workspace, tmp_path: Path) -> None:
    create(where, tmp_path / "one", "other")
    edit_in_place(tmp_path / "one" / FILE, b"wrong")
    done = pack(where, "other", "python", "-o", str(tmp_path / "p.run"))
    assert done.returncode == 0, done.stderr
    assert unpack(tmp_path / "p.run", tmp_path / "there").returncode == 0
    assert (tmp_path / "there" / FILE).read_bytes() == b"right"


def test_a_package_without_digests_is_unpacked_anew(tmp_path: Path) -> None:
    other = tiny("other", files={FILE: b"right"}, listed={FILE: {"sha256": None}})
    made = checkout(tmp_path / "c", other)
    create(made, tmp_path / "one", "other")
    edit_in_place(tmp_path / "one" / FILE, b"wrong")
    create(made, tmp_path / "two", "other")
    assert (tmp_path / "two" / FILE).read_bytes() == b"right"


def test_a_run_that_was_stopped_is_said_and_continued(where: Workspace, prefix: Path) -> None:
    note = Note.read(prefix)
    assert note and note.stamp
    Note(note.packages, note.asked).write(prefix)
    (prefix / "conda-meta" / "pure-1.0-0.json").write_text("{")
    found = problems(where, prefix)
    assert found.keys() == {"files"}  # the others would say to remove what the next run needs
    assert ctk(where, *shlex.split(found["files"]["step"])[1:]).returncode == 0
    assert problems(where, prefix) == {}


def test_files_that_a_stopped_run_left_without_a_record_go_with_the_next(
    where: Workspace, prefix: Path
) -> None:
    """A dist-info of numba that stayed made Python find a package that was not there."""
    note = Note.read(prefix)
    assert note
    for _ in range(2):  # and after another one that was stopped
        Note(note.packages, note.asked).write(prefix)
        (prefix / "conda-meta" / "other-1.0-0.json").unlink(missing_ok=True)
        (prefix / "share" / "mine").write_text("of the user")
    (info := next(prefix.glob("lib/python3*/site-packages")) / "over-1.dist-info").mkdir()
    # Pip has put this file over that of other.
    (info / "RECORD").write_text("../../../share/second,,\n")
    assert ctk(where, *words(where, prefix, "application=1.0")).returncode == 0
    assert {file.name for file in (prefix / "share").iterdir()} >= {"mine", "second"}
    assert not (prefix / FILE).exists()
    assert problems(where, prefix) == {}


@pytest.mark.parametrize("how", [shutil.copytree, shutil.move])
def test_an_environment_that_was_moved_or_copied_is_made_right(
    where: Workspace, prefix: Path, tmp_path: Path, how: Callable[..., object]
) -> None:
    """Its pip wrote into the environment that is at the old place."""
    assert problems(where, prefix) == {}
    how(
        prefix,
        moved := tmp_path / "moved",
        **({"symlinks": True} if how is shutil.copytree else {}),
    )
    found = problems(where, moved)["files"]
    assert (
        f"it was moved or copied: programs in it start the Python of {prefix}: bin/pure"
        in found["found"]
    )
    assert (
        "installed again: application and pure"
        in ctk(where, *shlex.split(found["step"])[1:], check=True).stdout
    )
    assert (moved / "bin" / "pure").read_text().startswith(f"#!{moved}/bin/python")
    assert problems(where, moved) == {}


def test_two_runs_at_one_prefix_take_turns(where: Workspace, tmp_path: Path) -> None:
    """The prefix is complete, with the packages of the run that was last."""
    prefix = tmp_path / "env"
    requests = [("application=1.0",), ("other",), ("application", "other"), ("pure",)]
    program = [sys.executable, "-c", "from ctk.cli.main import main; main()"]
    variables = {**os.environ, "CTK_ROOT": str(where.root)}
    runs = [
        subprocess.Popen([*program, *words(where, prefix, *specs)], env=variables)
        for specs in requests
    ]
    assert [run.wait() for run in runs] == [0] * len(runs)
    note = Note.read(prefix)
    assert note and sorted(note.packages) == sorted(Installed.read(prefix).packages)
    assert problems(where, prefix) == {}
