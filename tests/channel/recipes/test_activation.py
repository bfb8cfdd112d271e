"""Activation scripts of cuda-nvcc and of the base channel's gcc and gxx: what they set, and that
all of it is undone.

Each scenario runs in a shell of its own, with the options that users have. The .bat files are read,
not run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import NEWEST
from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import laid_out
from ctk.lock.model import Artefact, ReleaseLock, release_locks
from kit.shells import CLEAN, SHELLS, compiler, difference, run

HERE = Workspace(Path(__file__).resolve().parents[3])
VARIABLES = (
    "CC",
    "CXX",
    "CFLAGS",
    "CPPFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "CMAKE_ARGS",
    "CMAKE_PREFIX_PATH",
    "CUDA_PATH",
)
VARIABLES += (
    "CUDA_HOME",
    "CUDAARCHS",
    "NVCC_GENCODE",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "AR",
)
VARIABLES += ("HOST", "BUILD", "MESON_ARGS", "CC_FOR_BUILD", "DEBUG_CFLAGS", "LDFLAGS_LD")
BUILD = {
    "CONDA_BUILD": "1",
    "PREFIX": "/host env",
    "BUILD_PREFIX": "/build env",
    "HOST": "x86_64-conda-linux-gnu",
}
BUILD |= {"SRC_DIR": "/work", "PKG_NAME": "one", "PKG_VERSION": "2"}
USERS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "all empty": dict.fromkeys(VARIABLES, ""),
    "all set": {name: f"-D{name}='a b'  $HOME \"*\" \\ x=y;z\n-Dsecond" for name in VARIABLES},
    "a compiler with spaces": {"CXX": "/my tools/g++"},
    "a build, all set": {**dict.fromkeys(VARIABLES, "-DX"), **BUILD},
}
# The targets that an nvcc names in its file, in any order, and what the list of a package build is
# made of.
NAMES = (
    b"\0compute_100f\0compute_75\0sm_20\0compute_90\0sm_90a"
    b"\0compute_90a\0compute_100\0compute_100a\0"
)
LISTED = ("75", "90a", "100f")
WITHOUT_LIBRARY = ("8.7", "8.8")
# conda-forge's, read from ctng-compiler-activation-feedstock and binutils-feedstock in 2026.
PROGRAMS = {
    "CC": "gcc",
    "CXX": "g++",
    "CPP": "cpp",
    "GCC": "gcc",
    "GXX": "g++",
    "AR": "ar",
    "LD": "ld",
    "NM": "nm",
}
PROGRAMS |= {
    "RANLIB": "ranlib",
    "STRIP": "strip",
    "OBJCOPY": "objcopy",
    "OBJDUMP": "objdump",
    "READELF": "readelf",
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    if (
        shutil.which(request.param) is None
    ):  # every test runs in bash and sh too, which no machine lacks
        pytest.skip(f"no {request.param} on this machine")
    return str(request.param)


def installed(prefix: Path, script: Path, **variables: str) -> Path:
    own = {"PREFIX": str(prefix), "RECIPE_DIR": str(script.parent), "target_platform": "linux-64"}
    subprocess.run(["bash", script], env={**CLEAN, **own, **variables}, check=True)
    return prefix


def with_nvcc(
    prefix: Path, target: str = "linux-64", platform: str = "linux-64", nvcc: bytes = NAMES
) -> Path:
    program = prefix / ("Library/bin/nvcc.exe" if target.startswith("win") else "bin/nvcc")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(nvcc)
    script = HERE.recipes / "cuda-nvcc" / "activation.sh"
    return installed(prefix, script, PKG_VERSION="13.5.37", TARGET=target, target_platform=platform)


def with_gcc(prefix: Path, target: str = "linux-64", **variables: str) -> Path:
    """With the base channel's gcc and gxx, which stand for this machine's compilers."""
    if this_platform() != "linux-64":
        pytest.skip(
            "the base channel's compilers are tried on linux-64; the scripts of cuda-nvcc are tried"
            " everywhere"
        )
    # Where g++ is missing, the base channel has no such package:
    # tests/system/environments/test_base_channel.py.
    if target not in base.installed_compilers():
        package = "g++" if target == "linux-64" else "g++-aarch64-linux-gnu"
        pytest.skip(f"no g++ for {target} on this machine: apt-get install {package}")
    script = HERE.base_recipes / "gcc" / "activation.sh"
    for package in (f"gcc_{target}", f"gxx_{target}"):
        installed(prefix, script, PACKAGE=package, **variables)
    return prefix


MAKERS = {"nvcc": with_nvcc, "both": lambda prefix: with_gcc(with_nvcc(prefix))}


@pytest.fixture(scope="module", params=MAKERS)
def any_prefix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with cuda-nvcc, alone and beside gcc and gxx."""
    return MAKERS[request.param](tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with cuda-nvcc."""
    return with_nvcc(tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with gcc and gxx."""
    return with_gcc(tmp_path_factory.mktemp("environment"))


def files(prefix: Path, change: str) -> list[Path]:
    return sorted((prefix / "etc" / "conda" / f"{change}.d").iterdir())


def activate(prefix: Path) -> str:
    return "; ".join(f". '{file}'" for file in files(prefix, "activate"))


def deactivate(prefix: Path, *, backwards: bool = True) -> str:
    """As conda goes, in the opposite order, or as conda-pack does."""
    found = files(prefix, "deactivate")
    return "; ".join(f". '{file}'" for file in (reversed(found) if backwards else found))


def values(prefix: Path, **environment: str) -> dict[str, str]:
    """The environment after activation; in bash, as what is set does not depend on the shell."""
    done = run(
        "bash", f"set -eu; {activate(prefix)}\nenv -0", CONDA_PREFIX=str(prefix), **environment
    )
    assert done.returncode == 0, done.stderr
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


# ---- what is undone


@pytest.mark.parametrize(
    ("user", "options"),
    [
        ("nothing", "set -eu"),
        ("all empty", "set -u"),
        ("all set", "set -eu"),
        ("a compiler with spaces", "set +u"),
        ("a build, all set", "set -a"),
    ],
)
def test_activate_then_deactivate_leaves_the_shell_as_it_was(
    any_prefix: Path, tmp_path: Path, shell: str, options: str, user: str
) -> None:
    environment = {**USERS[user], "CONDA_PREFIX": str(any_prefix)}
    assert difference(shell, options, activate(any_prefix), tmp_path, **environment)
    both = f"{activate(any_prefix)}; {deactivate(any_prefix)}"
    assert not difference(shell, options, both, tmp_path, **environment)


def test_all_is_undone_in_the_other_order_and_after_a_second_activation(
    any_prefix: Path, tmp_path: Path, shell: str
) -> None:
    enter = activate(any_prefix)
    for code in (
        f"{enter}; {deactivate(any_prefix, backwards=False)}",
        f"{enter}; {enter}; {deactivate(any_prefix)}",
    ):
        assert not difference(shell, "set -eu", code, tmp_path, CONDA_PREFIX=str(any_prefix))


def test_stacked_environments_are_left_one_by_one(
    any_prefix: Path, tmp_path: Path, shell: str
) -> None:
    upper = tmp_path / "upper one"
    shutil.copytree(any_prefix, upper, symlinks=True)
    into, back = (
        f"CONDA_PREFIX='{upper}'; {code}" for code in (activate(upper), deactivate(upper))
    )
    stack = (
        f"{activate(any_prefix)}; {into}; {back}; CONDA_PREFIX='{any_prefix}';"
        f" {deactivate(any_prefix)}"
    )
    assert not difference(
        shell, "set -eu", stack, tmp_path, CONDA_PREFIX=str(any_prefix), CFLAGS="-O2"
    )


def test_a_variable_that_is_not_exported_is_not_exported_afterwards(
    scripts: Path, tmp_path: Path, shell: str
) -> None:
    environment = {"CONDA_PREFIX": str(scripts)}
    both = f"{activate(scripts)}; {deactivate(scripts)}"
    before = "CFLAGS='-O2 -g'; LDFLAGS=; NVCC_PREPEND_FLAGS=-v"
    assert not difference(shell, "set -eu", both, tmp_path, before, **environment)


def test_without_an_active_environment_nothing_happens(
    scripts: Path, tmp_path: Path, shell: str
) -> None:
    assert not difference(shell, "set -eu", activate(scripts), tmp_path)


# ---- what cuda-nvcc sets


def test_the_variables_are_those_of_conda_forge(scripts: Path) -> None:
    found = values(scripts, CFLAGS="-O2", CXX="x86_64-conda-linux-gnu-c++")
    target = f"{scripts}/targets/x86_64-linux"
    assert found["CFLAGS"] == f"-O2 -I{target}/include -I{target}/include/cccl"
    assert found["CPPFLAGS"] == found["CXXFLAGS"] == f"-I{target}/include -I{target}/include/cccl"
    rpath = f"-Wl,--disable-new-dtags -Wl,-rpath,{scripts}/lib -Wl,-rpath-link,{scripts}/lib"
    assert found["LDFLAGS"] == f"-L{target}/lib -L{target}/lib/stubs {rpath}"
    rpath = f"-Xlinker=--disable-new-dtags,-rpath={scripts}/lib,-rpath-link={scripts}/lib"
    assert found["NVCC_PREPEND_FLAGS"] == f"{rpath} -ccbin=x86_64-conda-linux-gnu-c++"
    assert not found.keys() & {"CMAKE_ARGS", "CUDAARCHS", "NVCC_GENCODE", "NVCC_APPEND_FLAGS"}


def test_the_environment_is_the_toolkit_that_build_systems_find(scripts: Path) -> None:
    """Whatever the user, an installer or an image had said; after the environment itself."""
    other = {
        "CUDA_PATH": "/usr/local/cuda",
        "CUDA_HOME": "/opt/cuda",
        "CMAKE_PREFIX_PATH": str(scripts),
    }
    for user in ({}, other):
        found = values(scripts, **user)
        assert found["CUDA_PATH"] == found["CUDA_HOME"] == f"{scripts}/lib/cuda"
        before = f"{scripts}:" if user else ""
        assert found["CMAKE_PREFIX_PATH"] == f"{before}{scripts}/targets/x86_64-linux"
    home = scripts / "lib" / "cuda"
    assert (home / "version.txt").read_text() == "CUDA Version 13.5.37\n"
    leads = {
        "bin": "bin",
        "include": "targets/x86_64-linux/include",
        "targets": "targets",
        "nvvm": "nvvm",
    }
    leads |= dict.fromkeys(("lib", "lib64"), "targets/x86_64-linux/lib")
    links = [path for path in home.iterdir() if path.is_symlink()]
    assert {path.name: str(path.resolve().relative_to(scripts)) for path in links} == leads


def test_a_package_build_sees_the_host_environment_first(scripts: Path) -> None:
    found = values(scripts, **BUILD, CMAKE_ARGS="-DX=1")
    host, build = "/host env/targets/x86_64-linux", f"{scripts}/targets/x86_64-linux"
    assert found["CFLAGS"] == " ".join(f"-I{p}/include -I{p}/include/cccl" for p in (host, build))
    assert found["NVCC_APPEND_FLAGS"] == f"-I{host}/include -L{host}/lib -L{host}/lib/stubs"
    sysroot = f"{scripts}/x86_64-conda-linux-gnu/sysroot"
    assert found["CMAKE_ARGS"] == f"-DX=1 -DCMAKE_FIND_ROOT_PATH=/host env;{sysroot};{host};{build}"
    assert found["LDFLAGS"] == f"-L{host}/lib -L{host}/lib/stubs -L{build}/lib -L{build}/lib/stubs"
    assert (found["CMAKE_PREFIX_PATH"], "NVCC_PREPEND_FLAGS" in found) == (f"{host}:{build}", False)
    assert found["CUDAARCHS"] == ";".join(
        [*(f"{name.rstrip('f')}-real" for name in LISTED), "100-virtual"]
    )
    code = [f"-gencode arch=compute_{name},code=sm_{name}" for name in LISTED]
    assert found["NVCC_GENCODE"] == " ".join([*code, "-gencode arch=compute_100,code=compute_100"])
    for own in ({"CUDAARCHS": "80"}, {"NVCC_GENCODE": ""}):
        assert own.items() <= values(scripts, **BUILD, **own).items()


@pytest.mark.parametrize(
    "own",
    [
        {"NVCC_CCBIN": "clang++"},
        {"NVCC_PREPEND_FLAGS": "-ccbin clang++"},
        {"NVCC_APPEND_FLAGS": "-ccbin=a"},
    ],
)
def test_a_compiler_that_the_user_chose_for_nvcc_stays(
    scripts: Path, own: Mapping[str, str]
) -> None:
    found = values(scripts, CXX="c++", **own)
    assert all(found[name].startswith(value) for name, value in own.items())
    assert "-ccbin=c++" not in found["NVCC_PREPEND_FLAGS"]


def test_a_path_with_spaces_reaches_nvcc_whole_or_not_at_all(scripts: Path, tmp_path: Path) -> None:
    cxx = str(compiler(tmp_path / "my tools") / "g++")
    found = values(scripts, CXX=cxx)
    assert found["NVCC_CCBIN"] == cxx
    assert "-ccbin" not in found["NVCC_PREPEND_FLAGS"]
    # nvcc would split the flags at the spaces of the environment's path.
    assert "NVCC_PREPEND_FLAGS" not in values(with_nvcc(tmp_path / "my environment"))


@pytest.mark.parametrize(
    ("target", "cxx"),
    [("linux-64", "g++"), ("linux-aarch64", "aarch64-linux-gnu-g++")],
    ids=["native", "cross"],
)
def test_a_missing_compiler_is_one_sentence_and_no_failure(
    tmp_path: Path, target: str, cxx: str
) -> None:
    made = with_nvcc(tmp_path / "environment", target)
    empty = {"PATH": str(tmp_path / "none"), "CONDA_PREFIX": str(made)}
    code = f"set -eu; {activate(made)}; echo done; {deactivate(made)}"
    done = run("bash", code, **empty)
    assert (done.returncode, done.stdout) == (0, "done\n")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("cuda-nvcc: nvcc needs a C++ compiler")
    assert f"gxx_{target} " in sentence and f"or {cxx} on" in sentence and "CXX" in sentence
    for found in (
        {"PATH": str(compiler(tmp_path / "bin", cxx))},
        {"CXX": "c++"},
        {"NVCC_CCBIN": "c++"},
    ):
        assert not run("bash", code, **{**empty, **found}).stderr


def test_for_another_platform_nvcc_is_told_target_and_compiler(tmp_path: Path) -> None:
    made = with_nvcc(tmp_path / "environment", "linux-aarch64")
    path = f"{compiler(tmp_path / 'bin', 'aarch64-linux-gnu-g++')}:{CLEAN['PATH']}"
    found = values(made, PATH=path)
    assert found["NVCC_PREPEND_FLAGS"] == "-target-dir=sbsa-linux -ccbin=aarch64-linux-gnu-g++"
    include = f"-I{made}/targets/sbsa-linux/include"
    assert found["CFLAGS"] == f"{include} {include}/cccl"
    assert "rpath" not in found["LDFLAGS"]  # a program for another machine runs somewhere else
    # Where meson looks for targets/sbsa-linux; nothing in the package has the layout for one
    # target.
    assert found["CUDA_HOME"] == found["CUDA_PATH"] == str(made) and not (made / "lib").exists()
    assert not difference(
        "bash",
        "set -eu",
        f"{activate(made)}; {deactivate(made)}",
        tmp_path,
        PATH=path,
        CONDA_PREFIX=str(made),
    )


@pytest.mark.parametrize("target", ["win-64", "win-arm64"])
def test_what_the_batch_file_sets_the_other_one_takes_back(tmp_path: Path, target: str) -> None:
    made = with_nvcc(tmp_path, target, target)
    texts = [files(made, change)[0].read_text() for change in ("activate", "deactivate")]
    assert not [line for text in texts for line in text.splitlines() if not line.startswith("@")]
    assert not [text for text in texts if re.search(r"@\w+@", text)]  # no template is left
    assert "\n@exit /b 0\n" in texts[0]  # `where` sets an error level, and clients look at it
    assert f"vs2022_{target} " in texts[0]
    assigned, released = [re.findall(r'\bset "(\w+(?:%\w+%\w*)?)=([^"]*)"', text) for text in texts]
    lasting = {name for name, _ in assigned} - {name for name, value in assigned if not value}
    marks = {f"CUDA_NVCC_OWN_%CONDA_SHLVL%_{name}" for name in ("CUDAARCHS", "NVCC_GENCODE")}
    kept = ("INCLUDE", "CMAKE_PREFIX_PATH", "CUDA_PATH", "CUDA_HOME")
    own = {*kept, "CUDAARCHS", "NVCC_GENCODE", *marks}
    assert lasting == {
        *own,
        "CUDA_NVCC_ACTIVE_%CONDA_SHLVL%",
        *(f"CUDA_NVCC_OLD_%CONDA_SHLVL%_{name}" for name in kept),
    }
    assert {name for name, value in released if not value} == lasting
    for name in (
        "CUDAARCHS",
        "NVCC_GENCODE",
    ):  # in a package build alone, and taken back only where it was set here
        mark = f"CUDA_NVCC_OWN_%CONDA_SHLVL%_{name}"
        first = f'@if "%CONDA_BUILD%"=="1" if not defined {name} set "{mark}=1" & set "{name}='
        assert re.search(f"^{re.escape(first)}.*(90a|_100)", texts[0], re.M)
        assert f'\n@if defined {mark} set "{name}="\n' in texts[1]
    assert {(name, f"%%CUDA_NVCC_OLD_%CONDA_SHLVL%_{name}%%") for name in kept} <= set(released)
    assert ("CUDA_PATH", r"%CONDA_PREFIX%\Library") in assigned
    machine = {"win-64": "x64", "win-arm64": "arm64"}[target]
    assert (
        "CMAKE_PREFIX_PATH",
        rf"%CMAKE_PREFIX_PATH%;%CUDA_NVCC_ROOT%\lib\{machine}\cmake",
    ) in assigned


# ---- an environment from another machine, beside a compiler with a newer C++ library


def with_library(prefix: Path, version: str) -> Path:
    """Puts a C++ library under its names into the folder lib of an environment."""
    library = prefix / "lib" / f"libstdc++.so.{version}"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(b"")
    library.with_name("libstdc++.so.6").symlink_to(library.name)
    return prefix


def compiler_with(folder: Path, version: str) -> Path:
    """The folder of programs g++ and ccache; the C++ library of this g++ has a version."""
    library = with_library(folder, version) / "lib" / "libstdc++.so.6"
    # As GCC prints it: by the way from its own folder.
    program = f"""#!/bin/sh
[ "$1" = -print-file-name=libstdc++.so.6 ] || exit 1
echo {folder}/lib/gcc/../libstdc++.so.6
"""
    library.with_name("gcc").mkdir()
    for name, text in {"g++": program, "ccache": "#!/bin/sh\n"}.items():
        (compiler(folder / "bin", name) / name).write_text(text)
    return folder / "bin"


@pytest.mark.parametrize(
    ("own", "theirs", "is_newer"),
    [
        ("6.0.30", "6.0.33", True),
        ("6.0.9", "6.0.30", True),
        ("6.0.33", "6.0.33", False),
        ("6.0.34", "6.0.33", False),
        ("6.0.30", "6.1.0", False),
        ("7.0.1", "6.0.33", False),
    ],
)
def test_programs_take_the_newer_c_library_of_the_compiler_and_cuda_of_the_environment(
    tmp_path: Path, shell: str, own: str, theirs: str, is_newer: bool
) -> None:
    made = with_library(with_nvcc(tmp_path / "environment"), own)
    system = compiler_with(tmp_path / "system", theirs)
    toolkit, newer = f"{made}/targets/x86_64-linux/lib", f"{tmp_path}/system/lib"
    wanted = [toolkit, newer, f"{made}/lib"] if is_newer else [f"{made}/lib"]
    environment = {"CONDA_PREFIX": str(made), "PATH": f"{system}:{CLEAN['PATH']}", "LDFLAGS": "-s"}
    both = f"{activate(made)}; {deactivate(made)}"
    assert not difference(shell, "set -eu", both, tmp_path, **environment)
    for more in ({}, {"CXX": "g++"}, {"CXX": "ccache g++"}, {"NVCC_CCBIN": str(system / "g++")}):
        code = f'set -eu; {activate(made)}; printf \'%s\n\' "$LDFLAGS" "$NVCC_PREPEND_FLAGS"'
        of_g, of_nvcc = run(shell, code, **environment, **more).stdout.splitlines()
        assert re.findall(r"-rpath,(\S+)", of_g) == wanted
        assert re.findall(r"-rpath=([^\s,]+)", of_nvcc) == wanted
        assert "-s" in of_g.split()


def test_a_package_build_and_a_folder_with_spaces_get_no_path_of_the_system(tmp_path: Path) -> None:
    made = with_library(with_nvcc(tmp_path / "environment"), "6.0.30")
    path = f"{compiler_with(tmp_path / 'system', '6.0.33')}:{CLEAN['PATH']}"
    assert "rpath" not in values(made, **BUILD, PATH=path)["LDFLAGS"]
    spaced = f"{compiler_with(tmp_path / 'my system', '6.0.33')}:{CLEAN['PATH']}"
    found = values(made, PATH=spaced)
    # nvcc would split the flags at the spaces of the path.
    assert "my system" not in found.get("NVCC_PREPEND_FLAGS", "")


def test_the_compilers_of_the_base_channel_take_their_own_newer_c_library_first(
    tmp_path: Path,
) -> None:
    made = with_library(with_gcc(tmp_path / "environment"), "6.0.1")
    system = compiler_with(tmp_path / "system", "6.0.99")
    path = f"{system}:{CLEAN['PATH']}"
    newer = f"{tmp_path}/system/lib"
    found = values(made, PATH=path)
    assert re.findall(r"-rpath,(\S+)", found["LDFLAGS"]) == [newer, f"{made}/lib"]
    assert re.findall(r"-rpath (\S+)", found["LDFLAGS_LD"]) == [newer, f"{made}/lib"]
    assert newer not in values(made, **BUILD, PATH=path)["LDFLAGS"]
    with_nvcc(made)
    first = values(made, PATH=path)["LDFLAGS"].split()[0]
    assert first == f"-Wl,-rpath,{made}/targets/x86_64-linux/lib"


# ---- what the base channel's gcc and gxx set


def test_the_compilers_variables_are_those_of_conda_forge_with_this_machine_s_programs(
    compilers: Path,
) -> None:
    found = values(compilers, CFLAGS="-O0")
    assert PROGRAMS.items() <= found.items()
    host = subprocess.run(
        ["gcc", "-dumpmachine"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert {
        found[name]
        for name in ("BUILD", "CONDA_TOOLCHAIN_HOST", "CONDA_TOOLCHAIN_BUILD", "host_alias")
    } == {host}
    # The user's word is the last.
    assert found["CFLAGS"].split()[-3:] == ["-isystem", f"{compilers}/include", "-O0"]
    assert {"-O2", "-fPIC", "-fstack-protector-strong"} <= set(found["CFLAGS"].split())
    assert {"-fvisibility-inlines-hidden", "-fmessage-length=0", "-O2"} <= set(
        found["CXXFLAGS"].split()
    )
    assert {"-DNDEBUG", "-D_FORTIFY_SOURCE=2"} <= set(found["CPPFLAGS"].split())
    assert {f"-Wl,-rpath,{compilers}/lib", f"-L{compilers}/lib", "-Wl,--as-needed"} <= set(
        found["LDFLAGS"].split()
    )
    assert (found["CMAKE_PREFIX_PATH"], found["CONDA_BUILD_CROSS_COMPILATION"]) == (
        str(compilers),
        "",
    )
    assert "-DCMAKE_BUILD_TYPE=Release" in found["CMAKE_ARGS"].split()


def test_a_package_build_with_the_compilers_is_for_the_host_environment(compilers: Path) -> None:
    found = values(compilers, **BUILD)
    for name in ("CFLAGS", "CXXFLAGS", "CPPFLAGS"):
        assert "-isystem /host env/include" in found[name]
    mapped = (
        "-fdebug-prefix-map=/work=/usr/local/src/conda/one-2 -fdebug-prefix-map=/host"
        " env=/usr/local/src/conda-prefix"
    )
    assert found["CFLAGS"].endswith(f" -fno-merge-constants {mapped}")
    assert "-Wl,-rpath,/host env/lib" in found["LDFLAGS"]
    assert "-DCMAKE_INSTALL_PREFIX=/host env -DCMAKE_INSTALL_LIBDIR=lib" in found["CMAKE_ARGS"]
    assert f"-DCMAKE_PROGRAM_PATH={compilers}/bin;/host env/bin" in found["CMAKE_ARGS"]
    assert found["MESON_ARGS"] == "-Dbuildtype=release --prefix=/host env -Dlibdir=lib"


def test_for_another_platform_the_cross_compiler_is_named(tmp_path: Path) -> None:
    found = values(with_gcc(tmp_path, "linux-aarch64"))
    assert (found["CC"], found["CXX"]) == ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++")
    assert found["CONDA_BUILD_CROSS_COMPILATION"] == "1"
    assert "-DCMAKE_SYSTEM_PROCESSOR=aarch64" in found["CMAKE_ARGS"]
    assert "-march=nocona" not in found["CFLAGS"]


NVCCS = [
    pytest.param(
        lock,
        artefact,
        id=f"{lock.minor}-{subdir}",
        marks=[] if lock.minor in ("13.0", NEWEST) else pytest.mark.sweep,
    )
    for lock in release_locks(HERE).values()
    if lock.is_ctk and lock.major == "13"
    for subdir, artefact in lock.components["nvcc"].artefacts.items()
    if artefact
]


@pytest.mark.parametrize(("lock", "artefact"), NVCCS)
def test_the_gpus_of_a_package_build_are_those_that_were_measured(
    project: Workspace, tmp_path: Path, lock: ReleaseLock, artefact: Artefact
) -> None:
    """Of each nvcc in the cache, for every platform: it names the targets that the release's NVRTC
    has.

    Two are left out, which libcudadevrt.a has no code for: tests/system/environments/test_nvcc.py
    links for all others.
    """
    if not laid_out(artefact, project).exists():
        pytest.skip(
            f"not fetched: ctk build --fetch-only cuda-nvcc --release {lock.minor} -p"
            f" {artefact.target}; of linux-64, which CI fetches, the same script is run"
        )
    with zipfile.ZipFile(laid_out(artefact, project)) as wheel:
        (name,) = (
            name for name in wheel.namelist() if re.search(r"/bin/(\w+/)?nvcc(\.exe)?$", name)
        )
        made = with_nvcc(tmp_path, artefact.target, artefact.target, wheel.read(name))
    text = "".join(file.read_text() for file in files(made, "activate"))
    (listed,) = re.findall(r"\bCUDAARCHS\b.*?((?:\d+[af]?-(?:real|virtual);?)+)", text)
    assert lock.facts is not None
    measured = [
        arch.replace(".", "")
        for arch in lock.facts.gpu_architectures
        if arch not in WITHOUT_LIBRARY
    ]
    numbers = [re.sub("[af]?-", "-", one) for one in listed.split(";")]
    assert numbers == [*(f"{number}-real" for number in measured), f"{measured[-1]}-virtual"]


def test_an_nvcc_that_names_no_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        with_nvcc(tmp_path, nvcc=b"sm_20")


@pytest.mark.parametrize(
    "prefix", ["/x/$(touch touched)", "/x/`touch touched`", '/x/"; touch touched; "', "/x/a b"]
)
def test_activation_takes_the_environments_path_for_one(tmp_path: Path, prefix: str) -> None:
    """Whoever unpacks an artefact chooses the folder.

    A name like this must not run when the environment is entered.
    """
    for script in ("activate", "deactivate"):
        text = (HERE.root / "recipes/cuda-nvcc" / f"{script}.sh").read_text()
        (tmp_path / f"{script}.sh").write_text(
            re.sub("@(targets|cxx|flags|target_platform)@", "x", text)
        )
    program = ". ./activate.sh; . ./deactivate.sh; echo done"
    for shell in ("sh", "bash"):
        environment = {**CLEAN, "CONDA_PREFIX": prefix, "CONDA_BUILD": "1", "PREFIX": prefix}
        done = subprocess.run(
            [shell, "-c", program],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "done\n", done.stderr
    assert not (tmp_path / "touched").exists()
