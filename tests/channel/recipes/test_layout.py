"""recipes/common/layout.sh puts a wheel's files where the table in `ctk.package.layout` says, on
every platform.

tests/system/audit/test_planned_files.py lays out every wheel, and checks places, links and RPATHs
of all packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard
from elftools.elf.elffile import ELFFile

from ctk.core.checkout import Workspace
from ctk.package.layout import LAYOUTS, Layout

VERSIONS = {12: ("12.6", "12.6.77"), 13: ("13.4", "13.4.92")}
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
ROWS = [pytest.param(row, id=f"{row.subdir}-cuda{row.cuda_major}") for row in LAYOUTS.values()]


def elf(path: Path, soname: str = "") -> None:
    """A shared library: some library that is there, under another name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(zstandard.backend_c.__file__, path)
    if soname:
        subprocess.run(["patchelf", "--set-soname", soname, path], env=ENVIRONMENT, check=True)


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def wheel(work: Path, major: int, version: str = "") -> Path:
    """The parts that every wheel has; returns the folder of its component."""
    root = work / "nvidia" / ("cu13" if major == 13 else "cuda_thing")
    write(root, {"include/__init__.py": "", "__init__.py": "", ".metadata/.sizes.txt": "1"})
    write(
        work,
        {
            f"nvidia_thing-{version or VERSIONS[major][1]}.dist-info/licenses/License.txt": (
                "the licence"
            )
        },
    )
    return root


def toolkit_of_windows(work: Path, row: Layout) -> None:
    """A wheel with one file of each kind, as NVIDIA publishes it for a CUDA major."""
    root = wheel(work, row.cuda_major)
    write(
        root,
        {
            "include/cuda.h": "",
            "include/crt/host_defines.h": "",
            "nvvm/libdevice/libdevice.10.bc": "BC",
        },
    )
    write(root, {"include/nvvm.h" if row.cuda_major == 13 else "nvvm/include/nvvm.h": ""})
    machine = {"win-64": "x86_64", "win-arm64": "arm64"}[row.subdir]
    dll = f"bin/{machine}" if row.cuda_major == 13 else "bin"
    imports = f"lib/{'arm64' if machine == 'arm64' else 'x64'}"
    write(
        root,
        {
            f"{dll}/cudart64_{row.cuda_major}.dll": "",
            "bin/ptxas.exe": "",
            f"{imports}/cudart.lib": "",
        },
    )
    write(
        root,
        {
            f"{dll if row.cuda_major == 13 else 'nvvm/bin'}/nvvm64_40_0.dll": "",
            "nvvm/bin/cicc.exe": "",
        },
    )


def cccl(work: Path, row: Layout) -> None:
    """CCCL's wheel."""
    root = wheel(work, row.cuda_major)
    headers, cmake = (
        ("include/cccl", "cccl/lib/cmake") if row.cuda_major == 13 else ("include", "lib/cmake")
    )
    search = 'set(prefix "../../../")\nPATHS "${CMAKE_CURRENT_LIST_DIR}/${prefix}/include"\n'
    write(root, {f"{headers}/cub/cub.cuh": "", f"{cmake}/cub/cub-header-search.cmake": search})


def run(
    project: Workspace, work: Path, row: Layout, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", project.recipes / "common" / "layout.sh"],
        cwd=work,
        env={
            **ENVIRONMENT,
            "PREFIX": str(work / "prefix"),
            "target_platform": row.subdir,
            "CUDA_VERSION": VERSIONS[row.cuda_major][0],
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def lay_out(project: Workspace, work: Path, row: Layout, **environment: str) -> set[str]:
    done = run(project, work, row, **environment)
    assert done.returncode == 0, done.stderr
    return installed(work)


def installed(work: Path) -> set[str]:
    root = work / "prefix"
    return {
        p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() or p.is_symlink()
    }


@pytest.mark.parametrize("row", [row for row in ROWS if "win-" in str(row.id)])
def test_each_kind_of_file_goes_where_the_table_says(
    project: Workspace, tmp_path: Path, row: Layout
) -> None:
    """On Windows, where no rule of the audit tells import libraries from others."""
    toolkit_of_windows(tmp_path, row)
    lay_out(project, tmp_path, row)
    expected = {
        f"{row.headers}/cuda.h",
        f"{row.headers}/crt/host_defines.h",
        f"{row.nvvm_headers}/nvvm.h",
        row.libdevice,
        f"{row.libraries}/cudart64_{row.cuda_major}.dll",
        f"{row.linking}/cudart.lib",
        f"{row.tools}/ptxas.exe",
        f"{row.nvvm_tools}/cicc.exe",
        f"{row.nvvm_library}/nvvm64_40_0.dll",
    }
    assert installed(tmp_path) == expected
    assert not [path for path in expected if row.is_forbidden(path)]
    assert (tmp_path / "LICENSE").read_text() == "the licence"


def test_each_library_that_is_named_gets_a_pkgconfig_file_of_its_own(
    project: Workspace, tmp_path: Path
) -> None:
    row = LAYOUTS["linux-64", 12]
    root = wheel(tmp_path, 12)
    for name in ("cufft", "nvJitLink"):
        elf(root / f"lib/lib{name}.so.11", f"lib{name}.so.11")
    lay_out(project, tmp_path, row, PKGCONFIG="cufft nvJitLink")
    files = {
        f.name: f.read_text().splitlines() for f in (tmp_path / "prefix" / row.pkgconfig).iterdir()
    }
    assert {
        name: next(line for line in lines if line.startswith("Libs:"))
        for name, lines in files.items()
    } == {
        "cufft-12.6.pc": "Libs: -L${libdir} -lcufft",
        "nvjitlink-12.6.pc": "Libs: -L${libdir} -lnvJitLink",
    }


@pytest.mark.parametrize("row", ROWS)
def test_cccl_is_apart_and_finds_its_own_headers(
    project: Workspace, tmp_path: Path, row: Layout
) -> None:
    cccl(tmp_path, row)
    lay_out(project, tmp_path, row)
    search = f"{row.cmake}/cub/cub-header-search.cmake"
    assert installed(tmp_path) == {f"{row.cccl_headers}/cub/cub.cuh", search}
    prefix, path = (
        line.split('"')[1] for line in (tmp_path / "prefix" / search).read_text().splitlines()
    )
    here = (tmp_path / "prefix" / search).parent
    found = Path(
        path.replace("${CMAKE_CURRENT_LIST_DIR}", str(here)).replace("${prefix}", prefix)
    ).resolve()
    assert (tmp_path / "prefix" / row.cccl_headers).resolve() in (found, found / "cccl")


@pytest.mark.parametrize("row", ROWS)
def test_files_that_cmake_finds_without_activation_read_those_of_cccl(
    project: Workspace, tmp_path: Path, row: Layout
) -> None:
    names = [f"cccl/cccl-{ending}.cmake" for ending in ("config", "config-version")]
    write(tmp_path / row.cmake, dict.fromkeys(names, ""))
    script = project.recipes / "cuda-cccl/find-package.sh"
    variables = {"PREFIX": str(tmp_path), "target_platform": row.subdir}
    subprocess.run(["bash", script], env=ENVIRONMENT | variables, check=True)
    for name in names:
        file = tmp_path / row.find_package / name
        (path,) = re.findall(r'include\("(.*)"\)\n', file.read_text())
        read = Path(path.replace("${CMAKE_CURRENT_LIST_DIR}", str(file.parent)))
        assert read.resolve() == tmp_path / row.cmake / name


CUDSS = pytest.mark.parametrize(
    ("subdir", "root", "library"),
    [("linux-64", ".", "lib/libcudss.so"), ("win-64", "Library", "bin/cudss64_1.dll")],
)


@CUDSS
def test_cmake_s_files_of_cudss_name_its_version_and_its_library(
    project: Workspace, tmp_path: Path, subdir: str, root: str, library: str
) -> None:
    """Also where there is no CMake to read them."""
    write(tmp_path / root, {library: ""})
    variables = {"PREFIX": str(tmp_path), "target_platform": subdir, "PKG_VERSION": "1.0.0.35"}
    script = project.recipes / "libcudss/find-package.sh"
    subprocess.run(["bash", script], env=ENVIRONMENT | variables, check=True)
    folder = tmp_path / root / "lib" / "cmake" / "cudss"
    assert Path(library).name in (folder / "cudss-config.cmake").read_text()
    assert "1.0.0" in (folder / "cudss-config-version.cmake").read_text()


@pytest.mark.skipif(
    not shutil.which("cmake"),
    reason="this machine has no CMake; what its files name is tested without",
)
@CUDSS
def test_cmake_finds_cudss_and_no_newer_one(
    project: Workspace, tmp_path: Path, subdir: str, root: str, library: str
) -> None:
    prefix = tmp_path / "with space"
    write(prefix / root, {library: ""})
    script = project.recipes / "libcudss/find-package.sh"
    variables = {"PREFIX": str(prefix), "target_platform": subdir, "PKG_VERSION": "1.0.0.35"}
    subprocess.run(["bash", script], env=ENVIRONMENT | variables, check=True)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\n"
        "project(finds LANGUAGES NONE)\n"
        "set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS TRUE)\n"
        "find_package(cudss ${wanted} CONFIG REQUIRED)\n"
        "get_target_property(location cudss IMPORTED_LOCATION)\n"
        'message("${cudss_VERSION} ${location}")\n'
    )

    def found(wanted: str) -> str:
        options = [f"-Dwanted={wanted}", f"-Dcudss_DIR={prefix / root / 'lib/cmake/cudss'}"]
        command = ["cmake", *options, "-S", str(tmp_path), "-B", str(tmp_path / wanted)]
        return subprocess.run(command, capture_output=True, text=True).stderr

    path = (prefix / root / library).resolve()
    assert found("0.8.0").splitlines()[-1] == f"1.0.0 {path}"
    assert 'compatible with requested version "1.1"' in " ".join(found("1.1").split())


LINUX = [row for row in ROWS if "linux-64" in str(row.id)]


def test_a_sanitizer_without_its_launcher_has_no_program(
    project: Workspace, tmp_path: Path
) -> None:
    """It could not start another program.

    Older wheels have its files among headers and libraries.
    """
    row = LAYOUTS["linux-64", 12]
    root = wheel(tmp_path, 12)
    for name in (
        "bin/compute-sanitizer",
        "bin/libsanitizer-collection.so",
        "lib/libsanitizer-collection.so",
    ):
        elf(root / name)
    elf(root / "lib/libsanitizer-public.so")
    write(root, {"include/sanitizer.h": ""})
    lay_out(project, tmp_path, row)
    libraries = ("libsanitizer-collection.so", "libsanitizer-public.so")
    expected = {f"{where}/{name}" for where in (row.sanitizer, "lib") for name in libraries}
    assert installed(tmp_path) == expected | {f"{row.sanitizer}/include/sanitizer.h"}


def rpath(file: Path) -> str:
    with file.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        assert not list(section.iter_tags("DT_RUNPATH"))
        return next((tag.rpath for tag in section.iter_tags("DT_RPATH")), "")


@pytest.mark.parametrize("row", LINUX)
def test_a_runpath_of_the_right_text_becomes_an_rpath(
    project: Workspace, tmp_path: Path, row: Layout
) -> None:
    """As the wheels of NVRTC have it up to 12.5, and from 13.1 to 13.3."""
    file = wheel(tmp_path, row.cuda_major) / "lib/libnvrtc.so.13"
    elf(file, "libnvrtc.so.13")
    subprocess.run(["patchelf", "--set-rpath", row.rpath, file], env=ENVIRONMENT, check=True)
    with file.open("rb") as stream:
        assert list(ELFFile(stream).get_section_by_name(".dynamic").iter_tags("DT_RUNPATH"))
    lay_out(project, tmp_path, row)
    assert (
        rpath(tmp_path / "prefix" / row.libraries / f"libnvrtc.so.{VERSIONS[row.cuda_major][1]}")
        == row.rpath
    )


@pytest.mark.parametrize("row", LINUX)
@pytest.mark.parametrize(
    ("name", "words", "changes"),
    [
        ("lib/libnvJitLink.so.13", (), False),
        ("lib/libnvJitLink.so.13", ("--add-needed", "libnvptxcompiler.so.13"), True),
        ("lib/libnvJitLink.so.13", ("--set-rpath", "$ORIGIN"), True),
        ("lib/libcupti.so.13", (), True),
        ("lib/libnvrtc.so.13", (), True),
        ("lib/libnvrtc-builtins.so.13.4", (), False),
        ("bin/ptxas", (), False),
        ("bin/ptxas", ("--set-rpath", "$ORIGIN:$ORIGIN/../nvvm/lib64"), False),
        ("bin/ptxas", ("--set-rpath", "/build/lib:$ORIGIN"), True),
        ("bin/ptxas", ("--set-rpath", "$ORIGIN:/build/lib"), True),
        ("bin/ptxas", ("--set-rpath", "$ORIGIN:"), True),
        ("bin/ptxas", ("--add-needed", "libstdc++.so.6"), True),
    ],
)
def test_a_file_that_finds_all_that_it_needs_is_as_nvidia_published_it(
    project: Workspace,
    tmp_path: Path,
    row: Layout,
    name: str,
    words: tuple[str, ...],
    changes: bool,
) -> None:
    file = wheel(tmp_path, row.cuda_major) / name
    elf(file)  # it has no RPATH, and needs glibc alone
    if name.startswith("lib/"):
        subprocess.run(["patchelf", "--set-soname", file.name, file], env=ENVIRONMENT, check=True)
    if words:
        subprocess.run(["patchelf", *words, file], env=ENVIRONMENT, check=True)
    published = file.read_bytes()
    lay_out(project, tmp_path, row)
    (laid,) = (
        path
        for path in (tmp_path / "prefix").rglob(f"{file.name.partition('.so')[0]}*")
        if path.is_file() and not path.is_symlink()
    )
    assert (laid.read_bytes() != published) == changes
    if changes:
        assert rpath(laid) == (row.rpath if name.startswith("lib/") else row.tool_rpath)


def test_nvcc_for_windows_is_told_where_cccl_and_libraries_are(
    project: Workspace, tmp_path: Path
) -> None:
    """The folders that conda-forge's nvcc.profile.patch.win names.

    TOP is Library, which has include and lib.
    """
    row = LAYOUTS["win-64", 13]
    toolkit_of_windows(tmp_path, row)
    lines = (
        'TOP = $(_HERE_)/..\nINCLUDES += "-I$(TOP)/include" "-I$(TOP)/include/cccl" $(_SPACE_)\n'
    )
    lines += 'LIBRARIES =+ $(_SPACE_) "/LIBPATH:$(TOP)/lib/$(_WIN_PLATFORM_)"\n'
    write(tmp_path / "nvidia" / "cu13", {"bin/nvcc.profile": lines})
    lay_out(project, tmp_path, row)
    top, includes, libraries = (
        (tmp_path / "prefix" / row.tools / "nvcc.profile").read_text().splitlines()
    )
    assert top == "TOP = $(_HERE_)/.."
    cccl = row.cccl_headers.removeprefix("Library/")
    folders = " ".join(
        f'"-I$(TOP)/{folder}"' for folder in ("include", cccl, cccl.removesuffix("/cccl"))
    )
    assert includes == f"INCLUDES += {folders} $(_SPACE_)"
    searched = " ".join(
        f'"/LIBPATH:$(TOP)/{folder}"' for folder in ("lib/$(_WIN_PLATFORM_)", "lib")
    )
    assert libraries == f"LIBRARIES =+ $(_SPACE_) {searched}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: write(root, {"share/new.txt": ""}), "no place is known for share"),
        (
            lambda root: write(root.parent / "other", {"a": ""}),
            "expected the tree of one component",
        ),
        (lambda root: wheel(root.parents[1], 13, "1.2.3"), "expected the metadata of one wheel"),
        (lambda root: next(root.parents[1].rglob("License.txt")).unlink(), "no licence text"),
        (lambda root: elf(root / "lib/libodd.so"), "has the SONAME"),
    ],
)
def test_a_wheel_that_is_not_understood_is_refused(
    project: Workspace, tmp_path: Path, change, said: str
) -> None:
    row = LAYOUTS["linux-64", 13]
    change(wheel(tmp_path, 13))
    done = run(project, tmp_path, row)
    assert done.returncode != 0
    assert said in done.stderr
