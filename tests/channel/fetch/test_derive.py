"""Stubs and import libraries: they have the names of the artefact, and the same bytes anywhere.

Those that make some need the package index for Zig's wheel, once.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import lief
import pytest

from ctk.core.checkout import Workspace
from ctk.core.files import make_folder
from ctk.core.platforms import this_platform
from ctk.fetch.derive import ZIG, ZIG_CACHES, Maker, derive, tools_for
from ctk.fetch.fetch import fetch, laid_out, stored, stored_as
from ctk.index.index import Index
from ctk.lock.derived import IMPORTS, STUBS, Derived, import_libraries
from ctk.lock.model import Artefact
from ctk.package.binaries import exported, read_bytes

CUDA_H = """
#include <stddef.h>
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUgraphics_st *CUgraphicsResource;
#define cuMemAlloc cuMemAlloc_v2
#define CUDAAPI
CUresult CUDAAPI cuMemAlloc(void **pointer, size_t bytes);
static inline int not_exported_by_name(void);
#ifdef __CUDA_API_VERSION_INTERNAL
#undef cuMemAlloc
CUresult CUDAAPI cuMemAlloc(unsigned *pointer, unsigned bytes);
#endif
"""
CUDA_GL_H = """
#include <GL/gl.h>
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, GLuint buffer);
"""
RUNTIME = {"nvidia/cu13/include/cuda.h": CUDA_H, "nvidia/cu13/include/cudaGL.h": CUDA_GL_H}


@pytest.fixture
def home(tmp_path: Path, project: Workspace) -> Workspace:
    """A checkout without artefacts, which has Zig from the cache of this one."""
    fetch([ZIG[this_platform()]], project, Index)
    workspace = Workspace(tmp_path / "checkout")
    wheel = stored(ZIG[this_platform()], workspace)
    make_folder(wheel.parent)
    os.link(stored(ZIG[this_platform()], project), wheel)
    return workspace


@pytest.fixture(scope="module")
def zig(tmp_path_factory: pytest.TempPathFactory, project: Workspace) -> Iterator[Path]:
    """Zig's program."""
    fetch([ZIG[this_platform()]], project, Index)
    with ExitStack() as files:
        workspace = Workspace(tmp_path_factory.mktemp("zig"))
        wheel = stored(ZIG[this_platform()], workspace)
        make_folder(wheel.parent)
        os.link(stored(ZIG[this_platform()], project), wheel)
        yield Maker(workspace, Index, files).zig


def artefact(
    workspace: Workspace, component: str, target: str, files: dict[str, str | bytes]
) -> Artefact:
    """A wheel with these files, laid out."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in {**files, "x-1.0.dist-info/METADATA": ""}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    data = content.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    made = Artefact(component, "x", "1.0", target, f"x-1.0-{target}.whl", sha256, len(data))
    place = laid_out(made, workspace)
    make_folder(place.parent)
    place.write_bytes(data)
    return made


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    ("target", "machine"), [("linux-64", "x86_64"), ("linux-aarch64", "aarch64")]
)
def test_a_stub_has_the_names_that_headers_declare(
    home: Workspace, tmp_path: Path, target: str, machine: str
) -> None:
    (path,) = derive([Derived(STUBS, artefact(home, "cudart", target, RUNTIME))], home, Index)
    assert path.name == f"{target}-stubs.zip"
    content = members(path)["nvidia/cu13/lib/stubs/libcuda.so"]
    binary = read_bytes(content)
    assert binary is not None
    assert (binary.machine, binary.soname) == (machine, "libcuda.so.1")
    assert (binary.needed, binary.search) == ((), ())
    (tmp_path / "stub").write_bytes(content)
    profiler = {"cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"}
    declared = {"cuMemAlloc", "cuMemAlloc_v2", "cuGraphicsGLRegisterBuffer"}
    assert exported(tmp_path / "stub") == declared | profiler


def test_the_same_names_give_the_same_bytes_in_another_folder(
    home: Workspace, tmp_path: Path
) -> None:
    other = Workspace(tmp_path / "a longer name" / "elsewhere")
    wheel = stored(ZIG[this_platform()], other)
    make_folder(wheel.parent)
    os.link(stored(ZIG[this_platform()], home), wheel)
    digests = []
    for workspace in (home, other):
        source = Derived(STUBS, artefact(workspace, "cudart", "linux-64", RUNTIME))
        (path,) = derive([source], workspace, Index)
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        # Made once: without Zig, it is there.
        wheel = stored(ZIG[this_platform()], workspace)
        wheel.rename(wheel.with_suffix(".gone"))
        path.unlink()
        assert derive([source], workspace, lambda: pytest.fail("asks the index")) == [path]
        wheel.with_suffix(".gone").rename(wheel)
    assert digests[0] == digests[1]


def test_the_compiler_is_named_only_where_something_is_to_be_made(
    home: Workspace,
) -> None:
    source = Derived(STUBS, artefact(home, "cudart", "linux-64", RUNTIME))
    assert tools_for([], home) == []
    assert tools_for([source], home) == [ZIG[this_platform()]]
    (made,) = derive([source], home, Index)
    assert tools_for([source], home) == []
    stored_as(hashlib.sha256(made.read_bytes()).hexdigest(), home).unlink()
    assert tools_for([source], home) == [ZIG[this_platform()]], "what the store lost is made again"


@pytest.mark.parametrize(
    ("target", "folder", "machine"),
    [("win-64", "x64", "x86_64"), ("win-arm64", "arm64", "aarch64")],
)
def test_a_program_is_linked_with_an_import_library(
    home: Workspace, zig: Path, tmp_path: Path, target: str, folder: str, machine: str
) -> None:
    cache = {name: str(tmp_path / "cache") for name in ZIG_CACHES}

    def compile_(*words: str) -> None:
        command = [zig, "cc", "-target", f"{machine}-windows-gnu", "-O2", "-nostdlib", *words]
        subprocess.run(command, cwd=tmp_path, env=os.environ | cache, check=True)

    exporting = "__declspec(dllexport)"
    (tmp_path / "dll.c").write_text(
        f"{exporting} int add(int a) {{ return a; }}\n{exporting} int number = 3;\n"
        "int DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }\n"
    )
    compile_("-shared", "-o", "adder64_13.dll", "dll.c")
    dll = (tmp_path / "adder64_13.dll").read_bytes()
    source = artefact(home, "x", target, {f"nvidia/cu13/bin/{folder}/adder64_13.dll": dll})
    (path,) = derive([Derived(IMPORTS, source)], home, Index)
    made = members(path)
    assert sorted(made) == ["names.txt", f"nvidia/cu13/lib/{folder}/adder.lib"]
    (tmp_path / "adder.lib").write_bytes(made[f"nvidia/cu13/lib/{folder}/adder.lib"])
    (tmp_path / "main.c").write_text(
        "int add(int); extern __declspec(dllimport) int number;\n"
        "int mainCRTStartup(void) { return add(1) + number; }\n"
    )
    compile_("-o", "main.exe", "main.c", "adder.lib", "-Wl,-e,mainCRTStartup")
    binary = lief.PE.parse(str(tmp_path / "main.exe"))
    assert isinstance(binary, lief.PE.Binary)
    imported = {str(i.name): {str(e.name) for e in i.entries} for i in binary.imports}
    assert imported["adder64_13.dll"] == {"add", "number"}


def test_import_libraries_are_those_that_a_wheel_lacks() -> None:
    names = [
        *("nvidia/cu13/bin/x86_64/cublasLt64_13.dll", "nvidia/cu13/bin/x86_64/nvvm64_40_0.dll"),
        *("nvidia/cu13/bin/x86_64/cupti64_2026.3.1.dll", "nvidia/cu13/bin/x86_64/checkpoint.dll"),
        *("nvidia/cu13/bin/x86_64/nvJitLink_130_0.dll", "nvidia/cu13/lib/x64/nvJitLink.lib"),
        *("nvidia/cu13/bin/x86_64/nvrtc-builtins64_134.dll", "nvidia/x/bin/nvrtc64_120_0.alt.dll"),
        *("nvidia/cu13/bin/x86_64/nppc64_132_0.dll", "nvidia/cu13/include/cublas.h"),
    ]
    assert import_libraries(names, "win-64") == {
        "nvidia/cu13/lib/x64/checkpoint.lib": "nvidia/cu13/bin/x86_64/checkpoint.dll",
        "nvidia/cu13/lib/x64/cublasLt.lib": "nvidia/cu13/bin/x86_64/cublasLt64_13.dll",
        "nvidia/cu13/lib/x64/cupti.lib": "nvidia/cu13/bin/x86_64/cupti64_2026.3.1.dll",
        "nvidia/cu13/lib/x64/nppc.lib": "nvidia/cu13/bin/x86_64/nppc64_132_0.dll",
        "nvidia/cu13/nvvm/lib/x64/nvvm.lib": "nvidia/cu13/bin/x86_64/nvvm64_40_0.dll",
    }
    arm = import_libraries(["nvidia/cu13/bin/arm64/cublas64_13.dll"], "win-arm64")
    assert list(arm) == ["nvidia/cu13/lib/arm64/cublas.lib"]


def test_import_libraries_of_cudnn_have_two_names_as_in_its_archives() -> None:
    dll = "nvidia/cudnn/bin/cudnn_ops64_9.dll"
    assert import_libraries([dll], "win-64") == {
        "nvidia/cudnn/lib/x64/cudnn_ops.lib": dll,
        "nvidia/cudnn/lib/x64/cudnn_ops64_9.lib": dll,
    }


def test_libraries_beside_the_toolkit_get_what_their_wheels_lack() -> None:
    nvcomp = [
        *("nvidia/libnvcomp/bin/nvcomp64_6.dll", "nvidia/libnvcomp/bin/nvcomp_cpu64_6.dll"),
        "nvidia/libnvcomp/lib/nvcomp.lib",
    ]
    assert list(import_libraries(nvcomp, "win-64")) == ["nvidia/libnvcomp/lib/x64/nvcomp_cpu.lib"]
    jpeg = import_libraries(["nvidia/nvjpeg2k/bin/nvjpeg2k_0.dll"], "win-64")
    assert list(jpeg) == ["nvidia/nvjpeg2k/lib/x64/nvjpeg2k.lib"]
