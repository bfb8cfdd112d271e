"""Activation scripts of the base channel's gcc and gxx: what they set, that it works, and that all of it is undone.

They stand for this machine's compilers, so nothing is tried where there are none.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from activation_shells import CLEAN, OPTIONS, difference, run

from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform

pytest_plugins = ["shell_fixtures"]
# Where g++ is missing, nothing of this package is made: tests/environments/test_base_channel.py holds that.
pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64" or "linux-64" not in base.installed_compilers(), reason="no g++ for linux-64 here"
)
# conda-forge's, read from ctng-compiler-activation-feedstock and binutils-feedstock in 2026.
PROGRAMS = {"CC": "gcc", "CXX": "g++", "CPP": "cpp", "GCC": "gcc", "GXX": "g++", "AR": "ar", "LD": "ld", "NM": "nm"}
PROGRAMS |= {"RANLIB": "ranlib", "STRIP": "strip", "OBJCOPY": "objcopy", "OBJDUMP": "objdump", "READELF": "readelf"}
FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "DEBUG_CFLAGS", "DEBUG_CXXFLAGS", "DEBUG_CPPFLAGS", "LDFLAGS_LD")
NAMES = (*PROGRAMS, *FLAGS, "HOST", "BUILD", "CMAKE_ARGS", "CMAKE_PREFIX_PATH", "MESON_ARGS", "CC_FOR_BUILD")
BUILD = {"CONDA_BUILD": "1", "PREFIX": "/host env", "SRC_DIR": "/work", "PKG_NAME": "one", "PKG_VERSION": "2"}
USERS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "all empty": dict.fromkeys(NAMES, ""),
    "all set": {name: f"-D{name}='a b'  $HOME \"*\" \\ x=y;z\n-Dsecond" for name in NAMES},
    "a build": BUILD,
}


@pytest.fixture(scope="module")
def prefix(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both."""
    folder = tmp_path_factory.mktemp("environment")
    for package in ("gcc_linux-64", "gxx_linux-64"):
        install(project, folder, package)
    return folder


def install(project: Workspace, prefix: Path, package: str, **variables: str) -> None:
    script = project.base_recipes / "gcc" / "activation.sh"
    own = {"PACKAGE": package, "PREFIX": str(prefix), "RECIPE_DIR": str(script.parent), "target_platform": "linux-64"}
    subprocess.run(["bash", script], env={**CLEAN, **own, **variables}, check=True)


def sourced(prefix: Path, change: str, *, backwards: bool = False) -> str:
    scripts = sorted((prefix / "etc" / "conda" / f"{change}.d").iterdir(), reverse=backwards)
    return "; ".join(f". '{script}'" for script in scripts)


def around(prefix: Path, backwards: bool = True) -> str:
    """In and out, as conda goes: the scripts of deactivation in the opposite order."""
    return f"{sourced(prefix, 'activate')}; {sourced(prefix, 'deactivate', backwards=backwards)}"


def values(shell: str, prefix: Path, **environment: str) -> dict[str, str]:
    code = f"set -eu; {sourced(prefix, 'activate')}\nenv -0"
    done = run(shell, code, CONDA_PREFIX=str(prefix), **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


@pytest.mark.parametrize(
    ("user", "options"),
    [
        pytest.param(user, options, marks=[] if user == "all set" or options == "set -eu" else pytest.mark.sweep)
        for user in USERS
        for options in OPTIONS
    ],
)
def test_activate_then_deactivate_leaves_the_shell_as_it_was(
    prefix: Path, tmp_path: Path, shell: str, options: str, user: str
) -> None:
    environment = {**USERS[user], "CONDA_PREFIX": str(prefix)}
    assert difference(shell, options, sourced(prefix, "activate"), tmp_path, **environment)
    assert not difference(shell, options, around(prefix), tmp_path, **environment)


@pytest.mark.parametrize("backwards", [True, False], ids=["as conda", "as conda-pack"])
def test_with_nvcc_in_the_environment_too_all_is_undone_in_either_order(
    project: Workspace, tmp_path: Path, shell: str, backwards: bool
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_bytes(b"compute_75")
    recipe = project.recipes / "cuda-nvcc"
    own = {"TARGET": "linux-64", "PREFIX": str(tmp_path), "RECIPE_DIR": str(recipe), "target_platform": "linux-64"}
    own["PKG_VERSION"] = "13.5"
    subprocess.run(["bash", recipe / "activation.sh"], env={**CLEAN, **own}, check=True)
    for package in ("gcc_linux-64", "gxx_linux-64"):
        install(project, tmp_path, package)
    for user in ({}, USERS["all set"], BUILD):
        environment = {**user, "CONDA_PREFIX": str(tmp_path)}
        (folder := tmp_path / "shell").mkdir(exist_ok=True)
        assert not difference(shell, "set -eu", around(tmp_path, backwards), folder, **environment)
    # nvcc calls the compiler that it would call anyway.
    assert "-ccbin" not in values(shell, tmp_path)["NVCC_PREPEND_FLAGS"]


def test_a_second_activation_adds_nothing(prefix: Path, tmp_path: Path, shell: str) -> None:
    twice = f"{sourced(prefix, 'activate')}; {around(prefix)}"
    assert not difference(shell, "set -eu", twice, tmp_path, CONDA_PREFIX=str(prefix))


def test_stacked_environments_are_left_one_by_one(project: Workspace, prefix: Path, tmp_path: Path, shell: str) -> None:
    upper = tmp_path / "upper one"
    for package in ("gcc_linux-64", "gxx_linux-64"):
        install(project, upper, package)

    def at(one: Path, change: str) -> str:
        return f"CONDA_PREFIX='{one}'; {sourced(one, change, backwards=change == 'deactivate')}"

    stack = "; ".join(
        [at(prefix, "activate"), at(upper, "activate"), at(upper, "deactivate"), at(prefix, "deactivate")]
    )
    assert not difference(shell, "set -eu", stack, tmp_path, CONDA_PREFIX=str(prefix), CFLAGS="-O0")


def test_the_variables_are_those_of_conda_forge_with_this_machine_s_programs(prefix: Path, shell: str) -> None:
    found = values(shell, prefix, CFLAGS="-O0")
    assert PROGRAMS.items() <= found.items()
    host = subprocess.run(["gcc", "-dumpmachine"], capture_output=True, text=True, check=True).stdout.strip()
    assert {found[name] for name in ("BUILD", "CONDA_TOOLCHAIN_HOST", "CONDA_TOOLCHAIN_BUILD", "host_alias")} == {host}
    assert found.get("HOST") == (None if shell == "zsh" else host)
    assert found["CFLAGS"].split()[-3:] == ["-isystem", f"{prefix}/include", "-O0"]  # the user's word is the last
    assert {"-O2", "-fPIC", "-fstack-protector-strong"} <= set(found["CFLAGS"].split())
    assert {"-fvisibility-inlines-hidden", "-fmessage-length=0", "-O2"} <= set(found["CXXFLAGS"].split())
    assert {"-DNDEBUG", "-D_FORTIFY_SOURCE=2"} <= set(found["CPPFLAGS"].split())
    assert {f"-Wl,-rpath,{prefix}/lib", f"-L{prefix}/lib", "-Wl,--as-needed"} <= set(found["LDFLAGS"].split())
    assert {"-rpath", f"{prefix}/lib", "--as-needed"} <= set(found["LDFLAGS_LD"].split())
    assert (found["CMAKE_PREFIX_PATH"], found["CONDA_BUILD_CROSS_COMPILATION"]) == (str(prefix), "")
    assert "-DCMAKE_BUILD_TYPE=Release" in found["CMAKE_ARGS"].split()
    for option in re.findall(r"=(/\S+)", found["CMAKE_ARGS"]):
        assert Path(option).exists()
    assert "CONDA_BUILD_SYSROOT" not in found


def test_a_package_build_is_for_the_host_environment(prefix: Path, shell: str) -> None:
    found = values(shell, prefix, **BUILD)
    for name in ("CFLAGS", "CXXFLAGS", "CPPFLAGS"):
        assert "-isystem /host env/include" in found[name]
    mapped = (
        "-fdebug-prefix-map=/work=/usr/local/src/conda/one-2 -fdebug-prefix-map=/host env=/usr/local/src/conda-prefix"
    )
    assert found["CFLAGS"].endswith(f" -fno-merge-constants {mapped}")
    assert "-Wl,-rpath,/host env/lib" in found["LDFLAGS"]
    assert "-DCMAKE_INSTALL_PREFIX=/host env -DCMAKE_INSTALL_LIBDIR=lib" in found["CMAKE_ARGS"]
    assert f"-DCMAKE_PROGRAM_PATH={prefix}/bin;/host env/bin" in found["CMAKE_ARGS"]
    assert found["MESON_ARGS"] == "-Dbuildtype=release --prefix=/host env -Dlibdir=lib"


@pytest.mark.parametrize(("compiler", "flags"), [("CC", "CFLAGS"), ("CXX", "CXXFLAGS"), ("CXX", "DEBUG_CXXFLAGS")])
def test_a_program_compiled_with_all_of_it_runs(prefix: Path, tmp_path: Path, compiler: str, flags: str) -> None:
    """And the compiler warns of no flag."""
    found = values("bash", prefix)
    source = tmp_path / ("one.c" if compiler == "CC" else "one.cpp")
    source.write_text('#include <stdio.h>\nint main(void) { puts("here"); return 0; }\n')
    words = [found[compiler], "-Werror", *shlex.split(f"{found[flags]} {found['CPPFLAGS']}"), str(source)]
    done = subprocess.run(
        [*words, *shlex.split(found["LDFLAGS"]), "-o", tmp_path / "one"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert subprocess.run([tmp_path / "one"], capture_output=True, text=True, check=True).stdout == "here\n"


def test_a_flag_that_the_compiler_does_not_take_is_left_out(project: Workspace, tmp_path: Path) -> None:
    """And a program that the machine lacks."""
    (own := tmp_path / "bin").mkdir()
    for name in ("gcc", "g++"):
        (own / name).write_text(
            f'#!/bin/bash\nfor word; do [[ $word != -fno-plt ]] || exit 1; done\nexec /usr/bin/{name} "$@"\n'
        )
        (own / name).chmod(0o755)
    for name in ("bash", "mkdir", "ld", "as", "ar", "cat"):
        (own / name).symlink_to(f"/usr/bin/{name}")
    install(project, tmp_path, "gcc_linux-64", PATH=str(own))
    found = values("bash", tmp_path)
    assert "-fno-plt" not in found["CFLAGS"] and "-ftree-vectorize" in found["CFLAGS"]
    assert "STRIP" not in found and "CMAKE_STRIP" not in found["CMAKE_ARGS"]


def test_no_template_is_left(prefix: Path) -> None:
    scripts = [*(prefix / "etc" / "conda").glob("*/*.sh")]
    assert len(scripts) == 4
    assert not [script for script in scripts if re.search(r"@\w+@", script.read_text())]


def test_for_another_platform_the_cross_compiler_is_named(project: Workspace, tmp_path: Path) -> None:
    if "linux-aarch64" not in base.installed_compilers():
        # The same template names this machine's compiler in the tests above.
        pytest.skip("no aarch64-linux-gnu-g++ on this machine: apt-get install g++-aarch64-linux-gnu")
    for package in ("gcc_linux-aarch64", "gxx_linux-aarch64"):
        install(project, tmp_path, package)
    found = values("bash", tmp_path)
    assert (found["CC"], found["CXX"]) == ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++")
    assert found["CONDA_BUILD_CROSS_COMPILATION"] == "1"
    assert "-DCMAKE_SYSTEM_PROCESSOR=aarch64" in found["CMAKE_ARGS"]
    assert "-march=nocona" not in found["CFLAGS"]
