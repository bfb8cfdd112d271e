"""Environments and other people's programs: conda and other users can read them.

A closed file is called closed.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from conftest import ctk
from ctk.channel.publish import NAMES
from ctk.core.checkout import Workspace
from ctk.core.errors import NoSpace
from ctk.core.platforms import this_platform
from ctk.solve.solve import channel_url
from ctk.verify import clients
from kit.packs import checkout, create, pack, unpack
from kit.tiny_packages import application, pure, tiny

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return checkout(
        tmp_path_factory.mktemp("c"),
        application(),
        pure(),
        tiny("other", files={"share/other": b"x"}),
    )


@pytest.fixture(scope="module")
def environment(where: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("e") / "env"
    create(where, prefix, "application=1.0", "other")
    return prefix


@pytest.fixture(scope="module")
def unpacked(where: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("p")
    assert pack(where, "application=1.0", "other", "-o", str(folder / "p.run")).returncode == 0
    assert unpack(folder / "p.run", folder / "env").returncode == 0
    return folder / "env"


# --- what conda makes of it


@pytest.mark.parametrize("made", ["environment", "unpacked"])
def test_what_ends_in_json_in_conda_meta_is_a_record_that_everybody_may_read(
    made: str, request: pytest.FixtureRequest
) -> None:
    """conda/core/prefix_data.py reads each such file, and parses its name."""
    prefix: Path = request.getfixturevalue(made)
    files = sorted((prefix / "conda-meta").glob("*.json"))
    records = [json.loads(file.read_text()) for file in files]
    assert [f"{r['name']}-{r['version']}-{r['build']}.json" for r in records] == [
        file.name for file in files
    ]
    assert {"application", "other", "pure", "python"} <= {r["name"] for r in records}
    umask = os.umask(0)
    os.umask(umask)
    closed = [
        p
        for p in prefix.rglob("*")
        if not p.is_symlink() and ~stat.S_IMODE(p.stat().st_mode) & 0o444 & ~umask
    ]
    assert closed == []


def test_a_record_names_its_channel_and_not_the_state_behind_it(tmp_path: Path) -> None:
    """conda clones an environment from the addresses in its records, and the next build removes the
    state.
    """
    where = checkout(tmp_path / "c", tiny("other", files={"share/other": b"x"}))
    output = where.root / "output"
    (output / ".channel-states").mkdir()
    (output / "channel").rename(output / ".channel-states" / "3")
    (output / "channel").symlink_to(".channel-states/3")
    create(where, tmp_path / "e", "other")
    (record,) = (
        json.loads(file.read_text())
        for file in (tmp_path / "e" / "conda-meta").glob("other-*.json")
    )
    assert record["channel"].rstrip("/") == (output / "channel").as_uri()
    assert record["url"] == f"{(output / 'channel').as_uri()}/{record['subdir']}/{record['fn']}"


@pytest.mark.parametrize("made", ["environment", "unpacked"])
def test_the_request_is_in_condas_history(made: str, request: pytest.FixtureRequest) -> None:
    """The form is from conda/history.py.

    Without it, `conda remove` removes all packages that nobody requested.
    """
    lines = (request.getfixturevalue(made) / "conda-meta" / "history").read_text().splitlines()
    assert (
        lines[0].startswith("==> ") and lines[0].endswith(" <==") and lines[1].startswith("# cmd: ")
    )
    assert literal_eval(lines[2].removeprefix("# update specs: ")) == ["application=1.0", "other"]


def test_a_request_for_a_driver_is_none_for_a_package(where: Workspace, tmp_path: Path) -> None:
    done = ctk(
        where, "env", "create", "other", "__cuda", "--driver", "13.0",
        "--prefix", str(tmp_path / "e"), "--base", str(where.root / "base"), check=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "e" / "conda-meta" / "history").read_text().splitlines()[
        -1
    ] == "# update specs: ['other']"


def test_conda_lists_exports_clones_and_changes_it(where: Workspace, tmp_path: Path) -> None:
    """With the solver that CONDA_SOLVER names, or conda's own."""
    program = shutil.which("conda")
    if program is None:  # the tests above check the files that conda reads
        pytest.skip("there is no conda on PATH")
    own = {name: os.environ[name] for name in ("CONDA_SOLVER",) if name in os.environ}
    own |= {
        "CONDA_PKGS_DIRS": str(tmp_path / "pkgs"),
        "CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY": "false",
    }
    variables = clients.environment(tmp_path, CONDARC=os.devnull, CONDA_OVERRIDE_CUDA="", **own)
    prefix = tmp_path / "env"
    create(where, prefix, "application=1.0", "other")
    channels = [
        word for c in (where.channel, where.root / "base") for word in ("-c", channel_url(c))
    ]
    changing = ["-y", "--override-channels", *channels]

    def conda(*words: str) -> str:
        done = subprocess.run(
            [program, *words], env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def names(place: Path) -> set[str]:
        return {record["name"] for record in json.loads(conda("list", "-p", str(place), "--json"))}

    before = names(prefix)
    assert {"application", "other", "pure", "python"} <= before
    assert "application=1.0=0" in conda("env", "export", "-p", str(prefix))
    assert "application=1.0" in conda("env", "export", "-p", str(prefix), "--from-history")
    conda("create", "-y", "-p", str(tmp_path / "clone"), "--clone", str(prefix))
    assert names(tmp_path / "clone") == before
    conda("update", "-p", str(prefix), *changing, "--all")
    conda("remove", "-p", str(prefix), *changing, "other")
    assert names(prefix) == before - {"other"}, "and what was asked for beside it stays"
    conda("install", "-p", str(prefix), *changing, "other")
    assert names(prefix) == before


# --- what may not be read


def kept_out() -> list[str]:
    """The words before a command that make file modes count: root without the capabilities to
    override them.
    """
    if os.getuid():
        return []
    words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    if (
        not shutil.which(words[0])
        or subprocess.run([*words, "true"], capture_output=True).returncode
    ):
        pytest.skip("root reads everything here: setpriv cannot take that away")
    return words


def refused(where: Workspace, place: Path, *words: str) -> None:
    """Closes a place; the command must say so, and must not call it damaged."""
    mode = stat.S_IMODE(place.stat().st_mode)
    place.chmod(0)
    command = [*kept_out(), sys.executable, "-c", "from ctk.cli.main import main; main()", *words]
    done = subprocess.run(
        command, env={**os.environ, "CTK_ROOT": str(where.root)}, capture_output=True, text=True
    )
    place.chmod(mode)
    assert done.returncode == NoSpace.exit_code, done.stderr
    assert done.stderr.splitlines()[-2:][0] == f"error: cannot read {place}: Permission denied"


def test_what_may_not_be_read_is_not_said_to_be_broken(
    where: Workspace, environment: Path, tmp_path: Path
) -> None:
    for command in ("doctor", "gpu-code"):
        refused(where, environment / "conda-meta/other-1.0-0.json", command, str(environment))
    www = tmp_path / "www"
    ctk(where, "publish", str(where.channel), "--to", str(www), check=True)
    (names,) = tmp_path.rglob(NAMES)
    refused(where, names, "publish", str(where.channel), "--to", str(www))
    refused(where, www / "linux-64/repodata.json", "check", str(www))
