"""The interpreter of the base channel is relocatable, and does not name the machine that it is
from.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctk.base import base
from ctk.core.versions import this_python

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the base channel is made on Linux"
)


@pytest.fixture(scope="module")
def tree() -> dict[str, bytes]:
    return {name: data for name, data, _ in base.interpreter_files()}


@pytest.fixture(scope="module")
def python(tree: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree, laid out somewhere else."""
    prefix = tmp_path_factory.mktemp("elsewhere")
    for name, data in tree.items():
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if "_sysconfig" in name:  # what the recipe's script does
            data = data.replace(base.PREFIX_TOKEN.encode(), str(prefix).encode())
        path.write_bytes(data)
    executable = prefix / "bin" / f"python{this_python().name}"
    executable.chmod(0o755)
    return executable


def run(python: Path, code: str) -> str:
    """The output of code, without variables that could lead the interpreter to its old place."""
    done = subprocess.run([python, "-c", code], env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_file_names_where_the_interpreter_or_its_user_live(tree: dict[str, bytes]) -> None:
    folders = {sys.base_prefix, str(Path.home()), os.getcwd()} - {"/usr", "/usr/local", "/"}
    named = {
        f"{name}: {folder}"
        for folder in folders
        for name, data in tree.items()
        if f"{folder}/".encode() in data
    }
    assert not named


def test_the_moved_interpreter_is_the_same_and_knows_where_it_is(python: Path) -> None:
    version, prefix = run(python, "import sys; print(sys.version); print(sys.prefix)").split("\n")[
        -3:-1
    ]
    assert version in sys.version
    assert prefix == str(python.parents[1])


def test_every_path_and_build_time_variable_is_below_the_new_place(python: Path) -> None:
    prefix = str(python.parents[1])
    code = (
        "import sys, sysconfig; print(*filter(None, sys.path), *sysconfig.get_paths().values(),"
        " sep='\\n')"
    )
    assert all(line.startswith(prefix) for line in run(python, code).splitlines())
    printed = run(
        python,
        "import sysconfig; print(*map(str, sysconfig.get_config_vars().values()), sep='\\n')",
    )
    assert base.PREFIX_TOKEN not in printed
    if sys.base_prefix not in ("/usr", "/usr/local"):
        assert f"{sys.base_prefix}/" not in printed
    assert (
        run(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
        .rstrip()
        .endswith("/site-packages")
    )


def test_what_nobody_needs_is_left_out(tree: dict[str, bytes]) -> None:
    parts = {part for name in tree for part in Path(name).parts}
    assert not parts & {
        "__pycache__",
        "idlelib",
        "tkinter",
        "site-packages",
        "dist-packages",
        "test",
    }
    assert sum(map(len, tree.values())) < 60_000_000
