"""Module files: what is in them, and what `module` makes of them where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ctk.core.errors import BadValue
from ctk.env.activation import ACTIVATION, MODULE
from ctk.env.modulefile import Module, texts, write

INITS = {
    "Lmod": Path("/usr/share/lmod/lmod/init/bash"),
    "Environment Modules": Path("/usr/share/modules/init/bash"),
}

# `module switch` of Environment Modules 5.2.0 loses a variable that has the same value in both.
SWAPS = {
    "Lmod": "module load gpu/2",
    "Environment Modules": "module unload gpu; module load gpu/2",
}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment in a folder with a space, whose package sets and unsets a variable."""
    place = tmp_path / "my envs" / "one"
    (place / "bin").mkdir(parents=True)
    for target, source in ACTIVATION.items():
        shutil.copyfile(source, place / target)
    for kind, line in (("activate", 'export TOLD="a b"'), ("deactivate", "unset TOLD")):
        (place / "etc/conda" / f"{kind}.d").mkdir(parents=True)
        (place / "etc/conda" / f"{kind}.d" / "told.sh").write_text(f"{line}\n")
    return place


def ran(script: str) -> list[str]:
    """The lines that bash prints, in an environment of its own."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "USER": "somebody"}
    done = subprocess.run(
        ["bash", "-c", script], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SHOW = 'echo "$PATH|${CONDA_PREFIX-}|${TOLD-}|$(declare -F deactivate)"'


def test_the_script_activates_and_leaves_no_function(prefix: Path) -> None:
    (line,) = ran(f'. "{prefix}/bin/activate-module"; {SHOW}')
    assert line == f"{prefix}/bin:/usr/bin:/bin|{prefix}|a b|"


@pytest.mark.parametrize("system", INITS)
def test_a_module_is_loaded_and_unloaded(system: str, prefix: Path, tmp_path: Path) -> None:
    if not INITS[system].exists():
        pytest.skip(f"there is no {system}")
    other = shutil.copytree(prefix, prefix.with_name("two"))
    for version, place in (("1", prefix), ("2", other)):
        files = texts(Module("gpu", version), place, "about")
        write(tmp_path / "modules", files, force=False)
    before, loaded, swapped, after = ran(
        f". {INITS[system]}; module use {tmp_path}/modules; {SHOW}; module load gpu/1; {SHOW};"
        f" {SWAPS[system]}; {SHOW}; module unload gpu; {SHOW}"
    )
    assert loaded == f"{prefix}/bin:/usr/bin:/bin|{prefix}|a b|"
    assert swapped == f"{other}/bin:/usr/bin:/bin|{other}|a b|"
    assert before == after == "/usr/bin:/bin|||"


def test_both_systems_get_a_file_with_the_quoted_path(prefix: Path) -> None:
    found = texts(Module.parse("gpu/13.0"), prefix, "activates $it")
    assert found.keys() == {"gpu/13.0.lua", "gpu/13.0"}
    script = f"{prefix}/{MODULE}"
    assert f'source_sh("bash", "\'{script}\'")' in found["gpu/13.0.lua"].splitlines()
    tcl = found["gpu/13.0"].splitlines()
    assert tcl[0] == "#%Module"
    assert f"source-sh bash {script.replace(' ', chr(92) + ' ')}" in tcl
    assert "module-whatis activates\\ \\$it" in tcl


def test_an_environment_of_an_older_ctk_gets_the_script(prefix: Path) -> None:
    (prefix / MODULE).unlink()
    texts(Module("gpu", "1"), prefix, "")
    assert (prefix / MODULE).read_bytes() == ACTIVATION[MODULE].read_bytes()


def test_an_environment_of_others_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="has no activation script of ctk"):
        texts(Module("gpu", "1"), tmp_path, "")


@pytest.mark.parametrize("name", ["gpu", "gpu/", "/1", "gpu/1/2", "../gpu/1", "gpu/-1", "g pu/1"])
def test_what_is_no_name_of_a_module_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match=r"write them as gpu/13\.0|is not the name"):
        Module.parse(name)


def test_a_path_that_module_files_cannot_name_is_refused(tmp_path: Path, prefix: Path) -> None:
    broken = prefix.rename(tmp_path / "one\ntwo")
    with pytest.raises(BadValue, match="no module file can name"):
        texts(Module("gpu", "1"), broken, "")


def test_other_files_are_replaced_only_when_asked(tmp_path: Path) -> None:
    write(tmp_path, {"gpu/1": "mine"}, force=False)
    write(tmp_path, {"gpu/1": "mine"}, force=False)
    with pytest.raises(BadValue, match="already exists with other content"):
        write(tmp_path, {"gpu/1.lua": "new", "gpu/1": "other"}, force=False)
    assert not (tmp_path / "gpu/1.lua").exists()
    write(tmp_path, {"gpu/1": "other"}, force=True)
    assert (tmp_path / "gpu/1").read_text() == "other"
