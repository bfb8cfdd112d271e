"""A C program compiles and links against each -dev package alone, and runs, as conda-forge tests
them.

Not in the tests of the recipes: these would need a compiler in an environment for each platform.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.env.environment import create
from ctk.plan.recipes import find_recipes
from ctk.solve.solve import Scenario, solve

SOURCE = Path(__file__).with_name("dev") / "link.c"
# Package -> header, function, and the flags that link the library; no flags where NVIDIA publishes
# headers only.
DEV = {
    "cuda-cudart-dev": ("cuda_runtime_api.h", "cudaRuntimeGetVersion", "-lcudart"),
    "cuda-cuxxfilt-dev": ("nv_decode.h", "__cu_demangle", ""),
    # tests/channel/fetch/test_derive.py links with the stub: a program that needs a driver cannot
    # run here.
    "cuda-driver-dev": ("cuda.h", "cuDriverGetVersion", ""),
    "cuda-cupti-dev": ("cupti.h", "cuptiGetVersion", "-lcupti"),
    "cuda-nvml-dev": ("nvml.h", "nvmlInit", ""),
    "cuda-nvrtc-dev": ("nvrtc.h", "nvrtcVersion", "-lnvrtc"),
    "cuda-nvtx-dev": ("nvtx3/nvToolsExt.h", "nvtxMarkA", "-ldl"),
    "cuda-opencl-dev": ("CL/cl.h", "clGetPlatformIDs", "-lOpenCL"),
    "cusparselt-dev": ("cusparseLt.h", "cusparseLtInit", "-lcusparseLt"),
    "libcublas-dev": ("cublas_v2.h", "cublasCreate", "-lcublas -lcublasLt"),
    "libcudla-dev": ("cudla.h", "cudlaGetVersion", "-lcudla"),
    "libcudnn-dev": ("cudnn.h", "cudnnGetVersion", "-lcudnn"),
    "libcudss-dev": ("cudss.h", "cudssCreate", "-lcudss"),
    "libcufft-dev": ("cufft.h", "cufftGetVersion", "-lcufft"),
    "libcufile-dev": ("cufile.h", "cuFileGetVersion", "-lcufile"),
    "libcurand-dev": ("curand.h", "curandGetVersion", "-lcurand"),
    "libcusolver-dev": ("cusolverDn.h", "cusolverGetVersion", "-lcusolver"),
    "libcusparse-dev": ("cusparse.h", "cusparseGetVersion", "-lcusparse"),
    "libnpp-dev": ("npp.h", "nppGetLibVersion", "-lnppc"),
    "libnvcomp-dev": ("nvcomp.h", "nvcompGetProperties", "-lnvcomp"),
    "libnvfatbin-dev": ("nvFatbin.h", "nvFatbinVersion", "-lnvfatbin"),
    "libnvjitlink-dev": ("nvJitLink.h", "nvJitLinkVersion", "-lnvJitLink"),
    "libnvjpeg-dev": ("nvjpeg.h", "nvjpegCreateSimple", "-lnvjpeg"),
    "libnvjpeg2k-dev": ("nvjpeg2k.h", "nvjpeg2kCreateSimple", "-lnvjpeg2k"),
    "libnvshmem-dev": ("nvshmem_host.h", "nvshmem_info_get_version", "-lnvshmem_host -lstdc++"),
    "libnvptxcompiler-dev": (
        "nvPTXCompiler.h",
        "nvPTXCompilerGetVersion",
        "-lnvptxcompiler_static -lstdc++ -lpthread -ldl -lm",
    ),
}
# Packages whose headers include those of another one, which recipes name themselves, as on
# conda-forge.
BESIDE = {
    "cuda-cupti-dev": "cuda-cudart-dev",
    "cuda-driver-dev": "cuda-cudart-dev",
    "libcufile-dev": "cuda-cudart-dev",
    "cusparselt-dev": "libcusparse-dev",
}
CXX = {"libnvshmem-dev"}  # packages whose headers are C++
GROUPS = {"cuda-libraries-dev"}  # metapackages of the others


def test_each_dev_package_of_the_recipes_has_a_line_above(project: Workspace) -> None:
    names = {
        name for recipe in find_recipes(project.recipes).values() for name in recipe.output_names
    }
    assert DEV.keys() | GROUPS == {name for name in names if name.endswith("-dev")}


@pytest.mark.parametrize("name", DEV)
def test_a_c_program_links_against_the_dev_package(
    built: Workspace, roomy: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    target = PLATFORMS[this_platform()].target
    if not target or shutil.which("gcc") is None:
        pytest.skip("no gcc here, or it is not for Linux; CI has one, and links")
    if not list(built.channel.glob(f"{this_platform()}/{name}-[0-9]*.conda")):
        pytest.skip(
            f"not in the default set; `ctk build {name}` makes it, and scripts/acceptance links"
            " against all"
        )
    prefix = roomy(name) / "environment"
    specs = tuple(filter(None, (name, BESIDE.get(name))))
    pick = solve(Scenario(specs, this_platform()), [built.channel, built.base_channel])
    create(pick, prefix, built.packages)
    header, function, libraries = DEV[name]
    include = (f"{prefix}/targets/{target}/include", f"{prefix}/include")
    lib = (f"{prefix}/lib", f"{prefix}/targets/{target}/lib")
    language = ["-x", "c++"] if name in CXX else []
    command = [
        "gcc",
        f"-DHEADER=<{header}>",
        f"-DFUNCTION={function}",
        *language,
        SOURCE,
        "-x",
        "none",
    ]
    command += ["-o", "program"]
    command += [f"-I{folder}" for folder in include]
    command += [f"-L{folder}" for folder in lib] if libraries else ["-c"]
    subprocess.run([*command, *libraries.split()], cwd=tmp_path, check=True)
    if libraries:
        subprocess.run(
            ["./program"], cwd=tmp_path, env={"LD_LIBRARY_PATH": ":".join(lib)}, check=True
        )
