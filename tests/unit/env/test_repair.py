"""A step that removes something or installs it again is given with its proof, or not at all."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.env import examine, repair
from ctk.env.examine import Examined, examined
from ctk.env.record_files import Damage

SITE = "lib/python3.12/site-packages"
REMOVES = re.compile(r"--force-reinstall|\buninstall\b|^(rm|mv)$|^(rm|mv) ")
PACKAGES = {
    "python": {"files": ["bin/python3.12"]},
    "py-tool": {"files": [f"{SITE}/tool.py", f"{SITE}/tool-1.0.dist-info/METADATA"]},
    "pip": {"files": []},
}


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with a Python distribution in a package of another name."""
    monkeypatch.setattr(examine, "release_locks", lambda where: {})
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    prefix = tmp_path / "env"
    (prefix / "conda-meta").mkdir(parents=True)
    for name, more in PACKAGES.items():
        record = {"name": name, "version": "1.0", "build": "0", "subdir": "linux-64", **more}
        (prefix / "conda-meta" / f"{name}-1.0-0.json").write_text(json.dumps(record))
        for path in more["files"]:
            write(prefix / path, "")
    return prefix


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def wheel(prefix: Path, name: str, *paths: str, installer: str = "pip") -> Path:
    """Installs a wheel with files in site-packages; returns its dist-info."""
    info = prefix / SITE / f"{name}-2.0.dist-info"
    lines = [*paths, f"{info.name}/INSTALLER", f"{info.name}/RECORD"]
    write(info / "INSTALLER", f"{installer}\n")
    write(info / "RECORD", "".join(f"{path},,\n" for path in lines))
    for path in paths:
        write(prefix / SITE / path, "of a wheel")
    return info


def read(prefix: Path) -> Examined:
    return examined(Workspace(ROOT), prefix, "none")


def steps(prefix: Path) -> list[list[str]]:
    """The words of the commands that uninstall all wheels, without those that begin all of them."""
    on = read(prefix)
    return [shlex.split(step)[4:] for step in repair.uninstall(on, on.wheels)]


def test_no_other_module_writes_a_command_that_removes_or_installs_again() -> None:
    found = []
    for file in sorted((ROOT / "scripts/ctk/env").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and "\n" not in node.value and REMOVES.search(node.value):
                found.append(file.name)
    assert {*found} == {"repair.py"}
    assert len(found) > 4, "the words that this test looks for are in the module"


def test_only_a_package_with_a_damaged_file_is_installed_again(prefix: Path) -> None:
    on = read(prefix)
    assert repair.give_back(on, {}) == repair.give_back(on, {"pip": {}}) == ""
    step = repair.give_back(on, {"pip": {}, "py-tool": {"x": Damage.MISSING}})
    assert step == f"conda install -p {prefix} --force-reinstall py-tool"


def test_a_record_that_names_a_package_is_not_removed(prefix: Path) -> None:
    meta = prefix / "conda-meta"
    (meta / "half-1.0-0.json").write_text('{"name": "half", "vers')
    files = [meta / "pip-1.0-0.json", meta / "half-1.0-0.json"]
    on = read(prefix)
    back = f"conda install -p {prefix} --force-reinstall half"
    assert repair.remove_records(on, files) == f"rm {files[1]} && {back}"
    assert repair.remove_records(on, files[:1]) == ""


def test_an_environment_is_not_moved_to_where_something_is(prefix: Path, tmp_path: Path) -> None:
    on = read(prefix)
    assert repair.move_back(on, tmp_path / "old") == f"mv {prefix} {tmp_path / 'old'}"
    (tmp_path / "old").symlink_to("nowhere")
    assert repair.move_back(on, tmp_path / "old") == ""


@pytest.mark.parametrize("why", ["of conda", "without RECORD", "of a package"])
def test_pip_is_not_told_to_uninstall_what_is_not_its_own(prefix: Path, why: str) -> None:
    info = wheel(prefix, "other", "other.py", installer="conda" if why == "of conda" else "pip")
    if why == "without RECORD":
        (info / "RECORD").unlink()
    if why == "of a package":
        record = prefix / "conda-meta" / "pip-1.0-0.json"
        files = [str(file.relative_to(prefix)) for file in info.iterdir()]
        record.write_text(json.dumps({**json.loads(record.read_text()), "files": files}))
    assert steps(prefix) == []


def test_what_pip_takes_with_a_wheel_comes_back(prefix: Path) -> None:
    """A wheel and a package have a file in common, whatever they are called."""
    wheel(prefix, "alone", "alone.py")
    assert steps(prefix) == [["--", "python", "-m", "pip", "uninstall", "--yes", "alone"]]
    wheel(prefix, "other", "tool.py")
    *_, back = steps(prefix)
    assert back == ["--force-reinstall", "py-tool"]


def test_a_distribution_comes_back_by_the_name_of_its_package(prefix: Path) -> None:
    """`tool` is in `py-tool`: no channel has a `tool`. pip takes any of the two, so twice."""
    wheel(prefix, "tool", "more.py")
    pip = ["--", "python", "-m", "pip", "uninstall", "--yes", "tool"]
    assert steps(prefix) == [pip, pip, ["--force-reinstall", "py-tool"]]
