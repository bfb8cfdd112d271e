"""The wheel of the tool, for people who have no checkout: what is in it, and what it does alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

from conftest import ROOT
from ctk.cli import options
from ctk.core import console, own_channels
from ctk.core.checkout import UserFolders, Workspace
from ctk.core.errors import BadValue, ChannelMissing, NotReady, Unsolvable
from ctk.lock.model import release_locks
from ctk.plan import known
from ctk.solve.channels import universe, write_repodata
from ctk.solve.solve import Scenario, solve
from kit import small_channel

Run = Callable[..., subprocess.CompletedProcess[str]]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BY_CONDA_FORGE = {"lief": "py-lief"}
"""Name of a project -> conda-forge's name of its package, where they differ."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of a copy: setuptools leaves a folder beside what it builds."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "scripts" / "ctk", source / "scripts" / "ctk", ignore=ignored)
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    words = [
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        "dist",
    ]
    subprocess.run([sys.executable, *words], cwd=source, check=True, capture_output=True)
    (made,) = (source / "dist").glob("*.whl")
    return made


@pytest.fixture
def run(wheel: Path, tmp_path: Path) -> Run:
    """Runs the unpacked wheel in the home of a user who has nothing else."""
    site, home = wheel.parent / "site", tmp_path / "home"
    if not site.exists():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    home.mkdir()
    of_others = ("CTK_", "XDG_")
    own = {name: text for name, text in os.environ.items() if not name.startswith(of_others)}
    own |= {"HOME": str(home), "PYTHONPATH": str(site), "COLUMNS": "200"}
    program = "from ctk.cli.main import main; main()"

    def type_(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *words],
            env={**own, **variables},
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    return type_


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    records = [small_channel.record("cuda-version", "13.0", "native_100", "noarch")]
    return small_channel.write(tmp_path / "channel", iter(records))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    records = [small_channel.record("packaging", "26.3", "py_0", "noarch")]
    return small_channel.write(tmp_path / "base", iter(records))


# --- what is in it


def test_the_wheel_has_no_recipe_and_no_artefact_that_only_a_build_reads(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        locks = {n: json.loads(archive.read(n)) for n in names if n.endswith(".lock")}
    assert not [name for name in names if re.search("recipe.yaml|contents.json|__pycache__", name)]
    assert {Path(name).stem for name in locks} == {
        name for name, lock in release_locks(Workspace(ROOT)).items() if lock.is_ctk
    }
    assert all(set(lock["components"]) == {"cudart"} for lock in locks.values())
    assert "ctk/known/conda_build_config.yaml" in names and "ctk/known/names.json" in names


def test_the_wheel_asks_for_what_a_user_needs_each_with_a_bound(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        stated = message_from_bytes(archive.read(file)).get_all("Requires-Dist") or []
    needed = [each for each in map(Requirement, stated) if each.marker is None]
    assert all(each.specifier for each in needed)
    keepers = {Requirement(text).name for text in PYPROJECT["optional-dependencies"]["keeper"]}
    assert {"sphinx", "jinja2", "unearth"} <= keepers
    assert not keepers & {each.name for each in needed}


def test_what_the_package_knows_is_what_recipes_and_locks_say() -> None:
    """If not: `scripts/write-known`."""
    assert known.stale(Workspace(ROOT)) == []


def test_a_stale_file_is_written_anew_and_one_too_many_goes(tmp_path: Path) -> None:
    where = Workspace(tmp_path)
    for place in ("recipes", "variants", "base", "conda_build_config.yaml"):
        (tmp_path / place).symlink_to(ROOT / place)
    folder = tmp_path / known.PLACE
    assert known.write(where) == []  # a checkout without the package's source
    folder.mkdir(parents=True)
    (folder / "old.txt").write_text("x")
    changed = known.write(where)
    assert folder / "old.txt" in changed and folder / "names.json" in changed
    assert known.stale(where) == [] == known.write(where)
    assert not (folder / "old.txt").exists()


# --- the package of the channel


def recipe() -> dict[str, Any]:
    text = (ROOT / "recipes" / "ctk" / "recipe.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = YAML(typ="safe").load(text)
    return content


def test_the_recipe_has_the_version_of_the_project_and_asks_for_the_same() -> None:
    assert recipe()["context"]["version"] == PYPROJECT["version"]
    needed = map(Requirement, PYPROJECT["dependencies"])
    wanted = {(BY_CONDA_FORGE.get(each.name, each.name), str(each.specifier)) for each in needed}
    _, *specs = recipe()["requirements"]["run"]
    asked = {(name, bound) for name, _, bound in (spec.partition(" ") for spec in specs)}
    assert {(name, ",".join(sorted(b.split(",")))) for name, b in asked} == {
        (name, ",".join(sorted(b.split(",")))) for name, b in wanted
    }


@pytest.mark.parametrize("python", ["3.11", "3.14"])
def test_the_package_installs_with_conda_forge_as_base(tmp_path: Path, python: str) -> None:
    needs = recipe()["requirements"]["run"]
    tool = small_channel.record("ctk", "0.1.0", "pyh_0", "noarch", noarch="python", depends=needs)
    ours = small_channel.write(tmp_path / "ours", iter([tool]))
    forge = write_repodata(universe(), tmp_path / "forge")
    scenario = Scenario(("ctk", f"python={python}"), "linux-64", None, None)
    names = {record.name.normalized for record in solve(scenario, [ours, forge]).records}
    assert {"ctk", "py-rattler", "py-lief"} <= names
    with pytest.raises(Unsolvable):
        solve(scenario, [ours, ours])


# --- commands


@pytest.mark.parametrize(
    "words",
    [
        "build",
        "build --dry-run cuda-core",
        "check --rebuild 1",
        "feedstock cuda-core ./there",
        "lint",
        "publish --to ./there",
        "release add 13.4",
        "release list",
        "site ./there",
        "solve cuda-core --planned",
        "verify",
    ],
)
def test_what_needs_recipes_says_so_in_a_line_with_the_next_step(run: Run, words: str) -> None:
    done = run(*words.split())
    error, step = done.stderr.splitlines()
    assert done.returncode == NotReady.exit_code
    assert error.startswith("error: this needs the recipes of a channel")
    assert step.startswith("next: clone the repository") and "CTK_ROOT=" in step


def test_help_is_there_for_all_commands(run: Run) -> None:
    assert run("build", "--help").returncode == 0
    assert "release" in run("--help").stdout


def test_a_channel_is_named_once_and_then_known(run: Run, channel: Path, base: Path) -> None:
    request = ("solve", "cuda-version", "--driver", "13.0", "--json")
    unknown = run(*request)
    assert unknown.returncode == BadValue.exit_code and "--keep" in unknown.stdout
    kept = run("doctor", "--channel", str(channel), "--base", str(base), "--keep", "--json")
    document = json.loads(kept.stdout)
    assert kept.returncode == 0 and document["ready"]
    assert document["kept"].endswith("/home/.config/ctk/config.toml")
    known_now = run(*request)
    assert json.loads(known_now.stdout)["toolkit"] == "13.0", known_now.stderr
    seen = json.loads(run("doctor", "--json").stdout)["checks"]
    assert [check["check"] for check in seen] == ["channel", "driver", "clients"]
    assert "config.toml" in seen[0]["found"] and str(channel) in seen[0]["found"]
    assert f"its base is {base}" in seen[0]["found"]
    elsewhere = run(*request, "--channel", str(channel.with_name("nothing")))
    assert elsewhere.returncode == ChannelMissing.exit_code


def test_the_kept_base_stays_beside_another_channel(run: Run, channel: Path, base: Path) -> None:
    """It is what a network can reach: a mirror of conda-forge, or what stands in for it."""
    other = small_channel.record("other", "1.0", "h_0", "noarch", depends=["packaging"])
    place = small_channel.write(channel.with_name("other"), iter([other]))
    run("doctor", "--channel", str(channel), "--base", str(base), "--keep")
    done = run("solve", "other", "--channel", str(place), "--driver", "13.0", "--json")
    assert done.returncode == 0, done.stderr
    assert {package["name"] for package in json.loads(done.stdout)["packages"]} >= {"packaging"}


def test_a_channel_that_does_not_answer_is_not_kept(run: Run, tmp_path: Path) -> None:
    done = run("doctor", "--channel", str(tmp_path / "nothing"), "--keep")
    assert done.returncode == NotReady.exit_code and "there is no channel" in done.stdout
    assert not (tmp_path / "home" / ".config").exists()


def test_doctor_says_that_no_channel_is_known_and_asks_for_one(run: Run) -> None:
    done = run("doctor")
    assert done.returncode == NotReady.exit_code
    assert "none is known" in done.stdout and "ctk doctor --channel URL --keep" in done.stdout


def test_an_administrator_names_the_channel_for_all_users(
    run: Run, channel: Path, tmp_path: Path
) -> None:
    place = tmp_path / "etc" / "ctk"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(f'channels = ["{channel}"]\n')
    done = run("doctor", XDG_CONFIG_DIRS=str(tmp_path / "etc"))
    assert done.returncode == 0 and str(place) in done.stdout


def test_a_file_that_cannot_be_read_is_named(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "home" / ".config" / "ctk"
    place.mkdir(parents=True)
    for text in ("channels = 3\n", "chanels = []\n", "= x\n"):
        (place / "config.toml").write_text(text)
        done = run("solve", "cuda-core")
        assert done.returncode == BadValue.exit_code and "config.toml" in done.stderr, text


def test_what_is_made_is_where_the_command_was_typed_and_caches_are_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where = UserFolders(tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    assert where.output == tmp_path / "output"
    assert where.packages.is_relative_to(where.root) and where.store == where.root / "sha256"
    assert release_locks(where)["cuda-13.4"].require_facts().ptx_isa
    assert where.build_config.read_bytes() == (ROOT / "conda_build_config.yaml").read_bytes()


# --- where it came from


def test_the_channel_is_that_of_the_record_in_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    meta = tmp_path / "prefix" / "conda-meta"
    meta.mkdir(parents=True)
    for name, url in (
        ("ctk", "https://conda.example.org/cuda/noarch/ctk-0.1.0-py_0.conda"),
        ("ctk-other", "https://conda.example.org/x/noarch/ctk-other-1-0.conda"),
        ("python", "https://conda.example.org/forge/linux-64/python-3.14.6-h_0.conda"),
    ):
        (meta / f"{name}-0.1.0-py_0.json").write_text(json.dumps({"name": name, "url": url}))
    (meta / "ctk-0.json").write_text("{")  # cut off
    for variable in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    found = own_channels.own_channels()
    assert found is not None and not found.is_kept
    assert found.channels == ("https://conda.example.org/cuda",)
    assert found.base == "https://conda.example.org/forge"
    own_channels.keep(["https://conda.example.org/mine"], "")
    mine = own_channels.own_channels()
    assert mine is not None and mine.is_kept
    assert (mine.channels, mine.base) == (("https://conda.example.org/mine",), "")


class Terminal:
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_address_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def answer(question: str, **_: Any) -> str:
        asked.append(question)
        return " https://conda.example.org/cuda "

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "none"))
    monkeypatch.setattr(options, "workspace", lambda: UserFolders(tmp_path / "cache"))
    monkeypatch.setattr(options.sys, "stdin", Terminal())
    monkeypatch.setattr(options.sys, "stderr", Terminal())
    monkeypatch.setattr(options, "mode", console.Mode)  # not that of a test before
    monkeypatch.setattr(options.typer, "prompt", answer)
    monkeypatch.setattr(options.typer, "echo", lambda *_, **__: None)
    first = options.asked_channels((), "local")
    assert first == (("https://conda.example.org/cuda",), "local")
    assert options.asked_channels((), "local") == first and len(asked) == 1
    assert options.asked_channels(("other",), "here") == (("other",), "here")
