"""cuda-nvcc in environments made from the channel: programs with kernels, by nvcc alone, with
CMake, for ARM.

The C++ compilers are those of the machine. Without a GPU, programs are compiled and linked, and say
that there is none.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from rattler import Subdir
from rattler.shell import ActivationVariables, Shell, activate

from conftest import MINORS, NEWEST, ROOT, ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.env.environment import create
from ctk.lock.model import release_locks
from ctk.solve.solve import Scenario, solve
from kit.mounts import mounts

SOURCES = Path(__file__).with_name("nvcc")
OLDEST = next(minor for minor in MINORS if minor.startswith("13."))
SPECS = ("cuda-nvcc", "cuda-cudart-dev", *(["pkg-config"] if shutil.which("pkg-config") else []))
HALVES = ("cuda-nvcc-dev_linux-aarch64", "cuda-cudart-dev_linux-aarch64")
ARM = "cuda-nvcc_linux-aarch64"
CROSS = "aarch64-linux-gnu-g++"
# The oldest CMake that docs/recipe-authors.md names, and the newest.
CMAKES = {"floor": "cmake==3.25.*", "newest": "cmake"}
SWEPT_CMAKES = ["floor", pytest.param("newest", marks=pytest.mark.sweep)]
# What docs/recipe-authors.md says to type, and a name for it.
PAGE = (ROOT / "docs" / "recipe-authors.md").read_text()
LINES = dict(
    zip(
        ("static", "shared", "Xlinker"),
        re.findall(r"^nvcc .*\bapp\.cu\b.*$", PAGE, re.M),
        strict=True,
    )
)
# The variables that the page says to unset where CMake compiles for ARM beside the compiler of this
# machine.
FOR_THIS_MACHINE = tuple(re.findall(r"-u (\w+)", PAGE))
# What a package build has set; PREFIX is its host environment.
BUILD = {"CONDA_BUILD": "1", "HOST": "x86_64-conda-linux-gnu"}

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the channel of this test is for linux-64"
)


@dataclass(frozen=True)
class Compiler:
    """An environment with nvcc."""

    prefix: Path  # its folder
    release: str  # the CTK minor

    @property
    def number(self) -> int:
        """As CUDART_VERSION has it: 13050 for 13.5."""
        major, minor = self.release.split(".")
        return 1000 * int(major) + 10 * int(minor)

    def run(self, work: Path, *command: str | Path, **variables: str) -> str:
        """The output of a command in the activated environment, both streams.

        `variables` are set before.
        """
        shell = activate(
            self.prefix, ActivationVariables(None, []), Shell.bash, Subdir(this_platform())
        )
        code = f"set -euo pipefail\n{shell.script}\n{shlex.join(map(str, command))} 2>&1"
        done = subprocess.run(
            ["bash", "--norc", "-c", code],
            cwd=work,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(work),
                "LC_ALL": "C",
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (
            f"{shlex.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
        )
        assert not done.stderr
        return done.stdout


Environments = Callable[..., Compiler]


def made(where: Workspace, channel: Path, release: str, specs: tuple[str, ...]) -> Compiler:
    """An environment of a release; an environment of an earlier run is the same."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine, which nvcc calls: apt-get install g++")
    scenario = Scenario((*specs, f"cuda-version={release}"), this_platform())
    prefix = where.environments / "-".join(("test", release, *specs))
    create(solve(scenario, [channel, where.base_channel]), prefix, where.packages)
    return Compiler(prefix, release)


@pytest.fixture(scope="module")
def newest(built: Workspace) -> Compiler:
    return made(built, built.channel, NEWEST, SPECS)


@pytest.fixture(scope="module", params=[pytest.param(OLDEST, marks=pytest.mark.sweep), NEWEST])
def compiler(request: pytest.FixtureRequest, built: Workspace) -> Compiler:
    """The oldest nvcc that is published, in the sweep, and the newest."""
    return made(built, built.channel, request.param, SPECS)


@pytest.fixture(scope="module")
def other_runtime(built: Workspace, compiler: Compiler) -> dict[str, str]:
    """LD_LIBRARY_PATH at another release's CUDA runtime, as /usr/local/cuda would be."""
    other = made(
        built, built.channel, OLDEST if compiler.release == NEWEST else NEWEST, ("cuda-cudart",)
    )
    return {"LD_LIBRARY_PATH": f"{other.prefix}/lib"}


@pytest.fixture(scope="module")
def cross(project: Workspace) -> Environments:
    """Makes environments with the packages to compile on this machine, for it and for ARM."""
    if shutil.which(CROSS) is None:
        pytest.skip(f"no {CROSS} on this machine: apt-get install g++-aarch64-linux-gnu")
    channel = project.output / "compilers"
    platforms = ("--platform", "linux-64", "--platform", "linux-aarch64")
    ctk(
        project,
        "build",
        "cuda-nvcc",
        "--release",
        NEWEST,
        *platforms,
        "--to",
        str(channel),
        check=True,
    )
    return lambda *specs: made(project, channel, NEWEST, specs)


@pytest.fixture(scope="module", params=SWEPT_CMAKES)
def cmake(request: pytest.FixtureRequest, project: Workspace) -> str:
    """The folder of cmake and ninja."""
    return installed(project, f"cmake-{request.param}", CMAKES[request.param], "ninja")


def installed(project: Workspace, name: str, *projects: str) -> str:
    """The folder of programs, installed once from the index that pip is configured for."""
    home = project.cache / name
    programs = home / "bin"
    if not (programs / "ninja").exists():
        install = ["-m", "pip", "--python", str(programs / "python"), "install", "-q", *projects]
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
        done = subprocess.run(
            [sys.executable, *install], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(
                f"{name} cannot be installed with pip: {done.stderr.strip().splitlines()[-1]}"
            )
    return str(programs)


@pytest.fixture(scope="module")
def meson(project: Workspace) -> str:
    """The folder of meson and ninja, from the index."""
    return installed(project, "meson", "meson", "ninja")


def needed(program: Path) -> set[str]:
    with program.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        return {tag.needed for tag in section.iter_tags("DT_NEEDED")}


def machine(program: Path) -> str:
    with program.open("rb") as stream:
        return str(ELFFile(stream)["e_machine"])


def test_a_program_with_kernels_is_built_and_runs(compiler: Compiler, tmp_path: Path) -> None:
    assert not compiler.run(tmp_path, "nvcc", "-o", "add", SOURCES / "add.cu")
    # The runtime is linked statically.
    assert not any("cuda" in name for name in needed(tmp_path / "add"))
    said = compiler.run(tmp_path, "./add")
    assert f"runtime {compiler.number}\n" in said
    assert re.search("^(no device: |sum 64)", said, re.M)


SWEPT_LINES = {"g++": "nvcc -c -o app.o app.cu && g++ -o app app.o $LDFLAGS -lcudart"}
SWEPT_LINES["Xlinker"] = f"unset NVCC_PREPEND_FLAGS; {LINES['Xlinker']}"
SHOWN = [pytest.param(LINES[name], id=name) for name in ("static", "shared")]
SHOWN += [
    pytest.param(line, id=name, marks=pytest.mark.sweep) for name, line in SWEPT_LINES.items()
]


@pytest.mark.parametrize("line", SHOWN)
def test_a_program_linked_as_the_page_says_takes_its_own_environment_s_runtime(
    compiler: Compiler, other_runtime: dict[str, str], tmp_path: Path, line: str
) -> None:
    shutil.copy(SOURCES / "add.cu", tmp_path / "app.cu")
    compiler.run(tmp_path, "bash", "-c", line)
    assert ("libcudart.so.13" in needed(tmp_path / "app")) == (line != LINES["static"])
    assert f"runtime {compiler.number}\n" in compiler.run(tmp_path, "./app", **other_runtime)


def test_with_the_shared_runtime_and_no_rpath_a_program_takes_any(
    compiler: Compiler, other_runtime: dict[str, str], tmp_path: Path
) -> None:
    """nvcc does not read LDFLAGS.

    So activation makes it write an RPATH, and the page recommends the static runtime.
    """
    line = [
        "env",
        "-u",
        "NVCC_PREPEND_FLAGS",
        "nvcc",
        "-cudart",
        "shared",
        "-o",
        "shared",
        SOURCES / "add.cu",
    ]
    compiler.run(tmp_path, *line)
    assert f"runtime {compiler.number}\n" not in compiler.run(tmp_path, "./shared", **other_runtime)


def test_nvcc_and_the_cpp_compiler_find_the_headers_of_cccl(
    compiler: Compiler, tmp_path: Path
) -> None:
    compiler.run(tmp_path, "nvcc", "-ptx", "-o", "reduce.ptx", SOURCES / "reduce.cu")
    assert "reduce" in (tmp_path / "reduce.ptx").read_text()
    line = f"g++ -std=c++17 $CPPFLAGS $CXXFLAGS {SOURCES / 'span.cpp'} $LDFLAGS -lcudart -o span"
    compiler.run(tmp_path, "bash", "-c", line)
    assert compiler.run(tmp_path, "./span") == f"runtime {compiler.number}\n"


def build_variable(compiler: Compiler, work: Path, name: str) -> str:
    """The variables that the activation sets in a package build."""
    return compiler.run(
        work, "bash", "-c", f"echo ${name}", **BUILD, PREFIX=str(compiler.prefix)
    ).strip()


def test_a_package_build_compiles_for_the_gpus_of_the_release_and_ptx_of_the_newest(
    project: Workspace, compiler: Compiler, tmp_path: Path
) -> None:
    facts = next(
        lock.facts for lock in release_locks(project).values() if lock.minor == compiler.release
    )
    assert facts is not None
    measured = [
        arch.replace(".", "") for arch in facts.gpu_architectures if arch not in ("8.7", "8.8")
    ]
    listed = [one.split("-") for one in build_variable(compiler, tmp_path, "CUDAARCHS").split(";")]
    wanted = [(arch, "real") for arch in measured] + [(measured[-1], "virtual")]
    assert [(name.removesuffix("a"), kind) for name, kind in listed] == wanted
    flags = build_variable(compiler, tmp_path, "NVCC_GENCODE").split()
    options = (
        "-fatbin",
        "-no-compress",
        "-rdc=true",
        SOURCES / "separate" / "twice.cu",
        "-o",
        "out.fatbin",
    )
    compiler.run(tmp_path, "nvcc", *flags, *options)
    images = (tmp_path / "out.fatbin").read_bytes()
    assert images.count(b"\x7fELF") == len(measured)
    assert re.findall(rb"\.target (sm_\w+)", images) == [f"sm_{measured[-1]}".encode()]


NVCC, BEHIND = "bin/nvcc", "targets/x86_64-linux/bin/nvcc"


WAYS = [
    (BEHIND, "with spaces"),
    (NVCC, "straight"),
    (NVCC, "with spaces"),
    (BEHIND, "through a link"),
]


@pytest.mark.parametrize(
    ("name", "way"), [WAYS[0], *(pytest.param(*way, marks=pytest.mark.sweep) for way in WAYS[1:])]
)
def test_nvcc_finds_all_its_parts_by_either_name_and_by_any_path(
    compiler: Compiler, tmp_path: Path, name: str, way: str
) -> None:
    prefix = compiler.prefix
    if way != "straight":
        prefix = tmp_path / ("link" if way == "through a link" else "a folder with spaces")
        prefix.symlink_to(compiler.prefix)
    nvcc = prefix / name
    said = compiler.run(tmp_path, nvcc, "--dryrun", SOURCES / "add.cu")
    settings = dict(re.findall(r"^#\$ (\w+)=(.*)$", said, re.M))
    folders = re.findall(
        r'"(?:-[IL])?(/[^"]*)"', settings["INCLUDES"] + settings["SYSTEM_INCLUDES"]
    )
    folders += [settings["CICC_PATH"], settings["NVVMIR_LIBRARY_DIR"]]
    folders += [
        f for f in re.findall('"-L(.*?)"', settings["LIBRARIES"]) if not f.endswith("/stubs")
    ]
    assert len(folders) == 5
    assert all(Path(folder).is_dir() for folder in folders), folders
    target = compiler.prefix / "targets" / "x86_64-linux"
    assert {target / "include", target / "include" / "cccl", target / "lib"} <= {
        Path(f).resolve() for f in folders
    }
    compiler.run(tmp_path, nvcc, "-o", "add", SOURCES / "add.cu")


def test_pkg_config_has_what_a_c_program_needs(compiler: Compiler, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config on this machine, of which the base channel's is made")
    flags = compiler.run(
        tmp_path, "pkg-config", "--cflags", "--libs", f"cudart-{compiler.release}"
    ).split()
    rpath = f"-Wl,-rpath,{compiler.prefix}/lib"
    compiler.run(tmp_path, "gcc", SOURCES / "version.c", *flags, rpath, "-o", "version")
    number = compiler.number
    assert compiler.run(tmp_path, "./version") == f"runtime {number}, compiled with {number}\n"


def configure(
    compiler: Compiler,
    cmake: str,
    work: Path,
    *arguments: str,
    target: str = "all",
    without: tuple[str, ...] = (),
    **variables: str,
) -> dict[str, str]:
    """Configures the CMake project, and builds a target of it if it is named.

    Returns variables of the configuration.

    Args:
        without: Variables of the activation that are unset.
    """
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={cmake}/ninja"]
    unset = ["env", *(word for name in without for word in ("-u", name))]
    project = [*unset, f"{cmake}/cmake", "-S", SOURCES / "cmake", "-B", "build", *ninja, *arguments]
    said = compiler.run(work, *project, **variables)
    if target:
        compiler.run(
            work, *unset, f"{cmake}/cmake", "--build", "build", "--target", target, **variables
        )
    return dict(re.findall(r"-- found (\w+)=(.*)", said))


@pytest.mark.parametrize("kernels", ["ON", pytest.param("OFF", marks=pytest.mark.sweep)])
def test_cmake_finds_the_toolkit_and_compiles_cuda(
    compiler: Compiler, cmake: str, tmp_path: Path, kernels: str
) -> None:
    found = configure(
        compiler, cmake, tmp_path, f"-DKERNELS={kernels}", "-DCMAKE_CUDA_ARCHITECTURES=75"
    )
    assert found["version"].startswith(f"{compiler.release}.")
    target = compiler.prefix / "targets" / "x86_64-linux"
    libraries = {Path(found[name]).resolve().parent for name in ("cudart", "cudart_static")}
    assert libraries == {target / "lib"}
    assert Path(found["include"].split(";")[0]).resolve() == target / "include"
    assert Path(found["nvcc"]).resolve() == compiler.prefix / "bin" / "nvcc"
    programs = {"version_cudart": True, "version_cudart_static": False}
    if kernels == "ON":
        programs |= {"add_Shared": True, "add_Static": False}
        assert re.match("cuda(Success|Error)", compiler.run(tmp_path, "build/separate"))
    for program, shared in programs.items():  # also where the machine has a toolkit of its own
        assert f"runtime {compiler.number}\n" in compiler.run(tmp_path, f"build/{program}")
        assert ("libcudart.so.13" in needed(tmp_path / "build" / program)) == shared


@pytest.mark.parametrize("target", ["", pytest.param("separate", marks=pytest.mark.sweep)])
def test_cmake_compiles_for_the_gpus_of_a_package_build(
    compiler: Compiler, cmake: str, tmp_path: Path, target: str
) -> None:
    """The oldest CMake, too, can read the CUDAARCHS of the activation.

    Kernels that start kernels link for each.
    """
    listed = build_variable(compiler, tmp_path, "CUDAARCHS").split(";")
    options = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    configure(
        compiler,
        cmake,
        tmp_path,
        *options,
        target=target,
        **BUILD | {"PREFIX": str(compiler.prefix)},
    )
    commands = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    (command,) = (entry["command"] for entry in commands if entry["file"].endswith("twice.cu"))
    code = re.findall(r"code=\[?((?:sm|compute)_\w+)", command)
    kinds = {"sm": "real", "compute": "virtual"}
    assert [f"{name}-{kinds[kind]}" for kind, name in (one.split("_") for one in code)] == listed


def by_hand(cmake: str, work: Path, prefix: Path, *arguments: str) -> str:
    """The output of CMake when it configures the project without activation."""
    command = [
        f"{cmake}/cmake",
        "-S",
        SOURCES / "cmake",
        "-B",
        "build",
        "-G",
        "Ninja",
        "-DCMAKE_CUDA_ARCHITECTURES=75",
    ]
    command += [f"-DCMAKE_MAKE_PROGRAM={cmake}/ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *arguments]
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(work)}
    done = subprocess.run(command, cwd=work, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"found include={prefix}/targets/x86_64-linux/include" in done.stdout
    return done.stdout


def test_cmake_needs_no_more_than_the_prefix(newest: Compiler, cmake: str, tmp_path: Path) -> None:
    said = by_hand(cmake, tmp_path, newest.prefix)
    assert "Detecting CUDA compiler ABI info - done" in said  # by compiling and linking a program


def test_cmake_without_nvcc_needs_two_words(built: Workspace, cmake: str, tmp_path: Path) -> None:
    """With CUDAToolkit_BIN_DIR alone, the newest CMake finds no runtime."""
    prefix = made(built, built.channel, NEWEST, ("cuda-cudart-dev",)).prefix
    place = f"-DCUDAToolkit_BIN_DIR={prefix}/targets/x86_64-linux/bin"
    by_hand(cmake, tmp_path, prefix, place, "-DKERNELS=OFF")


def test_cmake_finds_cccl(newest: Compiler, cmake: str, tmp_path: Path) -> None:
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={cmake}/ninja"]
    said = newest.run(tmp_path, f"{cmake}/cmake", "-S", SOURCES / "cccl", "-B", "build", *ninja)
    assert f"found cccl={newest.prefix}/targets/x86_64-linux/lib/cmake/cccl\n" in said


# A toolkit of the machine that nobody can use, where build systems look by themselves.
DECOY = """keep=$(mktemp -d); mount --rbind /usr/local "$keep"; mount -t tmpfs none /usr/local
for entry in "$keep"/*; do case $entry in */cuda*) ;; *) ln -s "$entry" /usr/local/ ;; esac; done
mkdir -p /usr/local/cuda/bin /usr/local/cuda/lib64
mkdir -p /usr/local/cuda/targets/x86_64-linux/include /usr/local/cuda/targets/x86_64-linux/lib
ln -s targets/x86_64-linux/include /usr/local/cuda/include
printf '#define CUDART_VERSION 13000\\n#error the toolkit of the machine\\n' \\
  >/usr/local/cuda/include/cuda_runtime_api.h
cp /usr/local/cuda/include/cuda_runtime_api.h /usr/local/cuda/include/cuda_runtime.h
for folder in lib64 targets/x86_64-linux/lib; do
  echo 'INPUT(-lthe_toolkit_of_the_machine)' >/usr/local/cuda/$folder/libcudart.so
done"""
VERSION = {
    "meson": (
        "PATH=$PATH:{meson}; meson setup build {sources}/meson && meson compile -C build &&"
        " build/version"
    ),
    "make": "make -f {sources}/Makefile SOURCES={sources} && ./version",
    "setuptools": (
        "g++ -x c -I$CUDA_HOME/include -c {sources}/version.c && g++ version.o -L$CUDA_PATH/lib64"
        " $LDFLAGS -lcudart -o version && $CUDA_HOME/bin/nvcc --version && ./version"
    ),
}


@pytest.mark.parametrize(
    "user", [{}, {"CUDA_HOME": "/usr/local/cuda", "CUDA_PATH": "/usr/local/cuda"}], ids=["", "set"]
)
@pytest.mark.parametrize("system", VERSION)
def test_build_systems_take_the_environment_and_not_the_toolkit_of_the_machine(
    newest: Compiler, meson: str, tmp_path: Path, system: str, user: dict[str, str]
) -> None:
    with mounts(DECOY) as machine:
        enter = [
            "nsenter",
            "--target",
            machine.pid,
            "--user",
            "--mount",
            "--preserve-credentials",
            f"--wd={tmp_path}",
        ]
        line = VERSION[system].format(meson=meson, sources=SOURCES)
        said = newest.run(tmp_path, *map(str, enter), "bash", "-c", line, **user)
    assert f"runtime {newest.number}, compiled with {newest.number}\n" in said


@pytest.mark.parametrize(
    "way", ["flags", "its own nvcc", pytest.param("alone", marks=pytest.mark.sweep)]
)
def test_nvcc_makes_programs_for_arm(cross: Environments, tmp_path: Path, way: str) -> None:
    """With the halves for ARM beside cuda-nvcc for this machine, by flags or by its own name.

    Or with them alone.
    """
    compiler = cross(ARM) if way == "alone" else cross(*SPECS, *HALVES)
    own = compiler.prefix / "targets" / "sbsa-linux" / "bin" / "nvcc"
    words = (
        [own, "-ccbin", CROSS]
        if way == "its own nvcc"
        else ["nvcc", "-target-dir", "sbsa-linux", "-ccbin", CROSS]
    )
    words = [own] if way == "alone" else words
    for nvcc in [words, ["nvcc"]] if way == "alone" else [words]:
        compiler.run(tmp_path, *nvcc, "-cudart=shared", "-o", "add", SOURCES / "add.cu")
        assert machine(tmp_path / "add") == "EM_AARCH64"
        assert "libcudart.so.13" in needed(tmp_path / "add")
        compiler.run(tmp_path, *nvcc, "-o", "static", SOURCES / "add.cu")
        assert machine(tmp_path / "static") == "EM_AARCH64"


@pytest.mark.parametrize(
    "beside", [pytest.param(False, marks=pytest.mark.sweep), True], ids=["alone", "beside"]
)
def test_cmake_makes_programs_for_arm(
    cross: Environments, cmake: str, tmp_path: Path, beside: bool
) -> None:
    compiler = cross(*SPECS, *HALVES) if beside else cross(ARM)
    target = compiler.prefix / "targets" / "sbsa-linux"
    found = configure(
        compiler,
        cmake,
        tmp_path,
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={CROSS}",
        f"-DCMAKE_CUDA_HOST_COMPILER={shutil.which(CROSS)}",
        f"-DCMAKE_FIND_ROOT_PATH={target}",
        *([f"-DCMAKE_CUDA_COMPILER={target}/bin/nvcc"] if beside else []),
        "-DCMAKE_CUDA_ARCHITECTURES=75",
        without=FOR_THIS_MACHINE if beside else (),
    )
    assert {Path(found[name]).resolve().parent for name in ("cudart", "cudart_static")} == {
        target / "lib"
    }
    programs = ("add_Shared", "add_Static", "version_cudart", "version_cudart_static", "separate")
    assert {machine(tmp_path / "build" / program) for program in programs} == {"EM_AARCH64"}


def test_cmake_finds_cccl_in_an_environment_that_is_not_activated(
    built: Workspace, cmake: str, tmp_path: Path
) -> None:
    prefix = made(built, built.channel, NEWEST, ("cuda-cccl",)).prefix
    words = ["-S", SOURCES / "cccl", "-B", "build", "-G", "Ninja"]
    given = [f"-DCMAKE_MAKE_PROGRAM={cmake}/ninja", f"-DCMAKE_PREFIX_PATH={prefix}"]
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [f"{cmake}/cmake", *words, *given]
    done = subprocess.run(
        command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"found cccl={prefix}/share/cmake/cccl\n" in done.stdout
