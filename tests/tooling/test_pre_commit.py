"""The quick checks before a commit: they need nothing from outside, pass here, and find what is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conftest import ROOT

CONFIG = ROOT / ".pre-commit-config.yaml"
# test_typing.py and tests/lint run these over this checkout; in a copy they would begin without their caches.
ELSEWHERE = ("types", "lint")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the tracked files of this checkout as they are now, and its environment."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("which files belong to this checkout is known to git alone, and it is not here")
    folder = tmp_path_factory.mktemp("copy")
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    with (folder / ".git" / "info" / "exclude").open("a") as file:
        file.write("/.venv\n")
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    return folder


def pre_commit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pre-commit with a store of its own in the folder; it would say where it wants to fetch something from."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))},
        "PRE_COMMIT_HOME": str(folder / ".git" / "store"),
        "PYTHONPATH": str(folder / "scripts"),
        "SKIP": ",".join(ELSEWHERE),
    }
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def hooks() -> list[dict[str, Any]]:
    (repository,) = YAML(typ="safe", pure=True).load(CONFIG)["repos"]
    assert repository["repo"] == "local", "another repository would be fetched"
    found: list[dict[str, Any]] = repository["hooks"]
    return found


def test_every_hook_is_a_tool_of_this_checkout() -> None:
    for hook in hooks():
        assert hook["language"] == "unsupported", f"{hook['id']}: other languages install something"
        program = hook["entry"].split()[0]
        # Not a script of ours: it would set up the environment first, and a hook only looks.
        assert program.startswith(".venv/bin/"), program
        assert os.access(ROOT / program, os.X_OK), program


def test_every_hook_passes_on_this_checkout(copy: Path) -> None:
    done = pre_commit(copy, "run", "--all-files")
    assert done.returncode == 0, done.stdout + done.stderr
    for hook in hooks():
        ending = "Skipped" if hook["id"] in ELSEWHERE else "Passed"
        assert re.search(rf"^{re.escape(hook['name'])}\.+{ending}$", done.stdout, re.M), done.stdout
    assert not list((copy / ".git" / "store").glob("repo*")), "something was fetched"


@pytest.mark.parametrize(
    ("hook", "name", "content"),
    [
        ("conflict-markers", "docs/new.md", "<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> branch\n"),
        ("case", "readme.MD", "# another\n"),
        ("executables", "scripts/new", "no shebang\n"),
        ("size", "docs/large.txt", "0123456789abcde\n" * 64_000),
        ("line-ends", "docs/new.md", "no line end"),
        ("trailing-space", "docs/new.md", "a line \n"),
        ("toml", "new.toml", "key = \n"),
        ("ruff", "scripts/ctk/core/platforms.py", "import os\n"),
        ("ruff-format", "scripts/ctk/core/platforms.py", "x = [ 1,2 ]\n"),
        ("workflows", ".github/workflows/new.yml", "on: push\njobs:\n  one:\n    run-on: x\n"),
        (
            "zizmor",
            ".github/workflows/new.yml",
            "on: push\njobs:\n  one:\n    runs-on: x\n    steps:\n      - run: echo ${{ github.head_ref }}\n",
        ),
    ],
)
def test_each_hook_finds_what_it_is_for(copy: Path, hook: str, name: str, content: str) -> None:
    file = copy / name
    before = file.read_bytes() if file.exists() else None
    file.write_text(content)
    file.chmod(0o755 if hook == "executables" else 0o644)
    subprocess.run(["git", "add", "--", name], cwd=copy, check=True)
    try:
        done = pre_commit(copy, "run", hook, "--files", name)
        assert done.returncode == 1, done.stdout + done.stderr
        assert f"hook id: {hook}" in done.stdout
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
        subprocess.run(["git", "add", "--all"], cwd=copy, check=True)
