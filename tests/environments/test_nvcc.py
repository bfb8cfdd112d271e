"""cuda-nvcc in environments made from the channel: programs with kernels, by nvcc alone, with CMake, for ARM.

The C++ compilers are those of the machine. What needs a GPU to be seen is compiled and linked; the
programs say themselves that there is none.
"""

from __future__ import annotations

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

from conftest import ctk
from ctk.environment import create
from ctk.lock import release_locks
from ctk.paths import Workspace
from ctk.platforms import this_platform
from ctk.solve import Scenario, solve

SOURCES = Path(__file__).with_name("nvcc")
RECIPES = ("cuda-version", "cuda-nvcc", "cuda-crt", "cuda-nvvm", "cuda-cudart", "cuda-cccl")
# The oldest nvcc that is published, and the newest.
RELEASES = ("oldest", "newest")
CROSS = "aarch64-linux-gnu-g++"

pytestmark = pytest.mark.skipif(this_platform() != "linux-64", reason="the channel of this test is for linux-64")


@dataclass(frozen=True)
class Compiler:
    """An environment with nvcc.

    Attributes:
        prefix: Its folder.
        release: The CTK minor.
    """

    prefix: Path
    release: str

    @property
    def number(self) -> int:
        """As CUDART_VERSION has it: 13050 for 13.5."""
        major, minor = self.release.split(".")
        return 1000 * int(major) + 10 * int(minor)

    def run(self, work: Path, *command: str | Path) -> str:
        """What a command prints in the activated environment, both streams; fails the test with it."""
        shell = activate(self.prefix, ActivationVariables(None, []), Shell.bash, Subdir(this_platform()))
        code = f"set -euo pipefail\n{shell.script}\n{shlex.join(map(str, command))} 2>&1"
        done = subprocess.run(
            ["bash", "--norc", "-c", code],
            cwd=work,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(work), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
        assert not done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def minors(project: Workspace) -> dict[str, str]:
    found = [lock.minor for lock in release_locks(project).values() if lock.is_ctk and lock.major == "13"]
    ordered = sorted(found, key=lambda minor: int(minor.split(".")[1]))
    return {"oldest": ordered[0], "newest": ordered[-1]}


@pytest.fixture(scope="module")
def channel(project: Workspace, minors: dict[str, str]) -> Path:
    """What it takes to compile with two releases, for two platforms."""
    folder = project.output / "compilers"
    words = [word for name in RECIPES for word in ("--recipe", name)]
    words += [word for minor in dict.fromkeys(minors.values()) for word in ("--release", minor)]
    words += ["--platform", "linux-64", "--platform", "linux-aarch64", "--channel", str(folder)]
    ctk(project, "build", *words, check=True)
    return folder


@pytest.fixture(scope="module")
def environment(
    project: Workspace, channel: Path, minors: dict[str, str], roomy: Callable[[str], Path]
) -> Callable[..., Compiler]:
    """Makes environments, each once."""
    made: dict[tuple[str, ...], Compiler] = {}

    def make(which: str, *specs: str) -> Compiler:
        if shutil.which("g++") is None:
            pytest.skip("no g++ on this machine, which nvcc calls: apt-get install g++")
        if (which, *specs) not in made:
            wanted = (*specs, f"cuda-version={minors[which]}")
            pick = solve(Scenario(wanted, this_platform()), [channel, project.base_channel])
            prefix = roomy(which) / "environment"
            create(pick, prefix, project.cache / "packages")
            made[which, *specs] = Compiler(prefix, minors[which])
        return made[which, *specs]

    return make


@pytest.fixture(params=RELEASES)
def compiler(request: pytest.FixtureRequest, environment: Callable[..., Compiler]) -> Compiler:
    return environment(request.param, "cuda-nvcc", "cuda-cudart-dev")


@pytest.fixture
def newest(environment: Callable[..., Compiler]) -> Compiler:
    return environment("newest", "cuda-nvcc", "cuda-cudart-dev")


@pytest.fixture
def cross(environment: Callable[..., Compiler]) -> Compiler:
    """nvcc of this machine with the halves for ARM."""
    if shutil.which(CROSS) is None:
        pytest.skip(f"no {CROSS} on this machine: apt-get install g++-aarch64-linux-gnu")
    return environment("newest", "cuda-nvcc_linux-aarch64")


@pytest.fixture(scope="module")
def cmake(project: Workspace) -> str:
    """The folder of cmake and ninja, installed once from the index that pip is configured for."""
    home = project.cache / "cmake"
    programs = home / "bin"
    if not (programs / "ninja").exists():
        install = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(programs / "python"),
            "install",
            "-q",
            "cmake>=3.25,<5",
            "ninja",
        ]
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cmake cannot be installed with pip: {done.stderr.strip().splitlines()[-1]}")
    return str(programs)


def needed(program: Path) -> set[str]:
    with program.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        return {tag.needed for tag in section.iter_tags("DT_NEEDED")}


def machine(program: Path) -> str:
    with program.open("rb") as stream:
        return str(ELFFile(stream)["e_machine"])


def test_a_program_with_kernels_is_built_and_runs(compiler: Compiler, tmp_path: Path) -> None:
    assert not compiler.run(tmp_path, "nvcc", "-o", "add", SOURCES / "add.cu")
    assert not any("cuda" in name for name in needed(tmp_path / "add"))  # the runtime is linked statically
    said = compiler.run(tmp_path, "./add")
    assert f"runtime {compiler.number}\n" in said
    assert re.search("^(no device: |sum 64)", said, re.M)


def test_with_the_shared_runtime_a_program_finds_it(compiler: Compiler, tmp_path: Path) -> None:
    rpath = f"-Xlinker=-rpath,{compiler.prefix}/lib"
    compiler.run(tmp_path, "nvcc", "-cudart=shared", rpath, "-o", "add", SOURCES / "add.cu")
    assert "libcudart.so.13" in needed(tmp_path / "add")
    assert f"runtime {compiler.number}\n" in compiler.run(tmp_path, "./add")


def test_device_code_of_several_files_is_linked(compiler: Compiler, tmp_path: Path) -> None:
    folder = SOURCES / "separate"
    compiler.run(tmp_path, "nvcc", "-dc", folder / "twice.cu", folder / "main.cu")
    compiler.run(tmp_path, "nvcc", "-dlink", "twice.o", "main.o", "-lcudadevrt", "-o", "linked.o")
    libraries = f"-L{compiler.prefix}/targets/x86_64-linux/lib"
    link = ["g++", "twice.o", "main.o", "linked.o", libraries, "-lcudadevrt", "-lcudart_static", "-ldl", "-lrt"]
    compiler.run(tmp_path, *link, "-lpthread", "-o", "separate")
    assert re.match("cuda(Success|Error)", compiler.run(tmp_path, "./separate"))


def test_ptx_and_machine_code_for_every_gpu_that_nvcc_knows(compiler: Compiler, tmp_path: Path) -> None:
    source = SOURCES / "separate" / "twice.cu"
    known = re.findall(r"sm_\d+", compiler.run(tmp_path, "nvcc", "--list-gpu-code"))
    assert "sm_75" in known
    compiler.run(tmp_path, "nvcc", "-ptx", "-arch=compute_75", source, "-o", "out.ptx")
    assert ".target sm_75" in (tmp_path / "out.ptx").read_text()
    compiler.run(tmp_path, "nvcc", "-cubin", f"-arch={known[-1]}", "-rdc=true", source, "-o", "out.cubin")
    assert machine(tmp_path / "out.cubin") == "EM_CUDA"
    everything = ("nvcc", "-fatbin", "-arch=all", "-no-compress", "-rdc=true", source, "-o", "out.fatbin")
    compiler.run(tmp_path, *everything)
    assert (tmp_path / "out.fatbin").read_bytes().count(b"\x7fELF") == len(known)


@pytest.mark.parametrize("name", ["bin/nvcc", "targets/x86_64-linux/bin/nvcc"])
@pytest.mark.parametrize("way", ["straight", "through a link", "with spaces"])
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
    folders = re.findall(r'"(?:-[IL])?(/[^"]*)"', settings["INCLUDES"] + settings["SYSTEM_INCLUDES"])
    folders += [settings["CICC_PATH"], settings["NVVMIR_LIBRARY_DIR"]]
    folders += [f for f in re.findall('"-L(.*?)"', settings["LIBRARIES"]) if not f.endswith("/stubs")]
    assert len(folders) == 5
    assert all(Path(folder).is_dir() for folder in folders), folders
    target = compiler.prefix / "targets" / "x86_64-linux"
    assert {target / "include", target / "include" / "cccl", target / "lib"} <= {Path(f).resolve() for f in folders}
    compiler.run(tmp_path, nvcc, "-o", "add", SOURCES / "add.cu")


def test_pkg_config_has_what_a_c_program_needs(compiler: Compiler, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config on this machine")
    place = f"--with-path={compiler.prefix}/lib/pkgconfig"
    flags = compiler.run(tmp_path, "pkg-config", place, "--cflags", "--libs", f"cudart-{compiler.release}").split()
    rpath = f"-Wl,-rpath,{compiler.prefix}/lib"
    compiler.run(tmp_path, "gcc", SOURCES / "version.c", *flags, rpath, "-o", "version")
    number = compiler.number
    assert compiler.run(tmp_path, "./version") == f"runtime {number}, compiled with {number}\n"


def configure(compiler: Compiler, cmake: str, work: Path, *arguments: str) -> dict[str, str]:
    """Builds the CMake project; returns what it found."""
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={cmake}/ninja", "-DCMAKE_CUDA_ARCHITECTURES=75"]
    said = compiler.run(work, f"{cmake}/cmake", "-S", SOURCES / "cmake", "-B", "build", *ninja, *arguments)
    compiler.run(work, f"{cmake}/cmake", "--build", "build")
    return dict(re.findall(r"-- found (\w+)=(.*)", said))


def test_cmake_finds_the_toolkit_and_compiles_cuda(compiler: Compiler, cmake: str, tmp_path: Path) -> None:
    found = configure(compiler, cmake, tmp_path)
    assert found["version"].startswith(f"{compiler.release}.")
    libraries = {Path(found[name]).resolve().parent for name in ("cudart", "cudart_static")}
    assert libraries == {compiler.prefix / "targets" / "x86_64-linux" / "lib"}
    for program in ("add", "version"):  # also where the machine has a toolkit of its own
        assert f"runtime {compiler.number}\n" in compiler.run(tmp_path, f"build/{program}")


def test_cmake_needs_no_more_than_the_prefix(newest: Compiler, cmake: str, tmp_path: Path) -> None:
    """Nothing is activated: CMAKE_PREFIX_PATH says where the headers are, CMAKE_CUDA_COMPILER where nvcc is."""
    work = tmp_path / "work"
    work.mkdir()
    command = [f"{cmake}/cmake", "-S", SOURCES / "cmake", "-B", "build", "-G", "Ninja", "-DCMAKE_CUDA_ARCHITECTURES=75"]
    command += [f"-DCMAKE_MAKE_PROGRAM={cmake}/ninja", f"-DCMAKE_PREFIX_PATH={newest.prefix}"]
    command += [f"-DCMAKE_CUDA_COMPILER={newest.prefix}/bin/nvcc"]
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(work)}
    done = subprocess.run(command, cwd=work, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    build = [f"{cmake}/cmake", "--build", "build"]
    done = subprocess.run(build, cwd=work, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"found include={newest.prefix}/targets/x86_64-linux/include" in said


@pytest.mark.parametrize("name", ["bin/nvcc", "targets/sbsa-linux/bin/nvcc"])
def test_nvcc_makes_a_program_for_arm(cross: Compiler, tmp_path: Path, name: str) -> None:
    cross.run(tmp_path, cross.prefix / name, "-cudart=shared", "-o", "add", SOURCES / "add.cu")
    assert machine(tmp_path / "add") == "EM_AARCH64"
    assert "libcudart.so.13" in needed(tmp_path / "add")
    cross.run(tmp_path, cross.prefix / name, "-o", "static", SOURCES / "add.cu")
    assert machine(tmp_path / "static") == "EM_AARCH64"


def test_flags_alone_choose_the_other_target(
    environment: Callable[..., Compiler], cross: Compiler, tmp_path: Path
) -> None:
    """cuda-nvcc for this machine, and the halves for ARM beside it: both can be compiled for."""
    both = environment(
        "newest", "cuda-nvcc", "cuda-cudart-dev", "cuda-nvcc-dev_linux-aarch64", "cuda-cudart-dev_linux-aarch64"
    )
    flags = ["-target-dir", "sbsa-linux", "-ccbin", CROSS]
    both.run(tmp_path, "nvcc", *flags, "-o", "arm", SOURCES / "add.cu")
    both.run(tmp_path, "nvcc", "-o", "x86", SOURCES / "add.cu")
    assert (machine(tmp_path / "arm"), machine(tmp_path / "x86")) == ("EM_AARCH64", "EM_X86_64")


def test_cmake_makes_programs_for_arm(cross: Compiler, cmake: str, tmp_path: Path) -> None:
    target = cross.prefix / "targets" / "sbsa-linux"
    found = configure(
        cross,
        cmake,
        tmp_path,
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={CROSS}",
        f"-DCMAKE_CUDA_HOST_COMPILER={shutil.which(CROSS)}",
        f"-DCMAKE_FIND_ROOT_PATH={target}",
    )
    assert {Path(found[name]).resolve().parent for name in ("cudart", "cudart_static")} == {target / "lib"}
    assert machine(tmp_path / "build" / "add") == machine(tmp_path / "build" / "version") == "EM_AARCH64"
