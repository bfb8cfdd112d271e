"""What docs/troubleshooting.md and names-and-platforms.md say: facts of packages, wheels and
programs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version
from rattler.package_streaming import extract

from conftest import MINORS, ROOT
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.env.environment import create
from ctk.fetch.fetch import fetch, laid_out
from ctk.index.index import Index
from ctk.lock.model import release_locks
from ctk.package.gpu_fatbin import read_wheel
from ctk.package.reader import read_info
from ctk.solve import channels
from ctk.solve.machine import detected_driver
from ctk.solve.solve import Scenario, solve
from kit.doc_clients import Solve, scenario
from kit.doc_pages import quoted_messages

pytest_plugins = ["docs_fixtures"]

LOCKS = {lock.minor: lock for lock in release_locks(Workspace(ROOT)).values() if lock.is_ctk}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


# --- troubleshooting


@pytest.fixture(scope="module")
def numba(built: Workspace, roomy: Callable[[str], Path]) -> Path:
    folder = roomy("numba")
    pick = solve(
        Scenario(("numba-cuda",), this_platform(), "13.0"), [built.channel, built.base_channel]
    )
    create(pick, folder / "prefix", folder / "packages")
    return folder / "prefix"


FOR_V100 = """
from cuda.core import Program, ProgramOptions
Program("", "c++", ProgramOptions(arch="sm_70")).compile("cubin")
"""


def run(prefix: Path, program: str) -> str:
    command = [prefix / "bin" / "python", "-c", program]
    variables = {"PATH": os.defpath, "CONDA_PREFIX": str(prefix)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("program", "quoted"),
    [
        ("from numba import cuda; cuda.current_context()", "CUDA driver library cannot be found"),
        (
            "from cuda.core import Device; Device().set_current()",
            '"cuda" is an NVIDIA driver library and can only be found via system search',
        ),
        (
            "from cuda.bindings import runtime; print(runtime.cudaGetDeviceCount())",
            "cudaErrorInsufficientDriver",
        ),
        (FOR_V100, "nvrtc: error: invalid value for --gpu-architecture (-arch)"),
        (FOR_V100, "NVRTC_ERROR_INVALID_OPTION"),
        (
            "from numba import cuda; cuda.compile_ptx(lambda: None, (), cc=(7, 0))",
            "GPU compute capability 7.0 is not supported(requires >=7.5)",
        ),
        (
            (
                "from cuda.bindings import runtime;"
                " print(runtime.cudaGetErrorString(runtime.cudaError_t(209)))"
            ),
            "no kernel image is available for execution on the device",
        ),
    ],
)
def test_without_a_driver_programs_say_what_the_page_quotes(
    numba: Path, program: str, quoted: str
) -> None:
    if detected_driver():  # with one, tests/system/gpu/test_kernels.py holds what these programs do
        pytest.skip("the page says what happens on a machine without a driver")
    assert f"`{quoted}`" in page("troubleshooting")
    assert quoted in run(numba, program)


def test_numba_cuda_takes_the_place_of_numbas_own_target(numba: Path) -> None:
    """The import stays, and the module is numba-cuda's."""
    assert "/numba_cuda/" in run(
        numba, "from numba import cuda; print(cuda.jit.__code__.co_filename)"
    )


def test_vectorize_repeats_values_of_an_array_with_fewer_dimensions(numba: Path) -> None:
    """A fault of numba-cuda.

    If this test fails, it is mended: take it from docs/troubleshooting.md and upstream.
    """
    text = page("upstream/numba-cuda")
    lines = re.findall(r"^- `((?:import|from|print).+)`$", text, re.MULTILINE)
    printed = run(numba, "\n".join(lines))
    assert printed.split("\n")[:2] == ["[[0. 0. 0.]", " [0. 0. 0.]]"]


def test_the_runtime_of_each_major_is_in_the_package_that_the_page_names(
    built: Workspace, tmp_path: Path
) -> None:
    for minor in ("12.9", "13.0"):
        pick = solve(
            Scenario(("cuda-cudart",), this_platform(), minor), [built.channel, built.base_channel]
        )
        create(pick, tmp_path / minor, tmp_path / "packages")
        assert (tmp_path / minor / "lib" / f"libcudart.so.{minor[:2]}").exists()


def test_libdevice_is_in_the_package_and_the_folder_that_the_page_names(
    built: Workspace, tmp_path: Path
) -> None:
    text = page("troubleshooting")
    (package,) = re.findall(
        r"libdevice is in the package `(.+?)`, in `nvvm/libdevice` of the environment", text
    )
    files = sorted((built.channel / this_platform()).glob(f"{package}*.conda"))
    assert files
    for file in files:
        extract(file, tmp_path / file.name)
    holders = {
        path.relative_to(tmp_path).parts[0]
        for path in tmp_path.glob("*/nvvm/libdevice/libdevice.10.bc")
    }
    assert {name.rsplit("-", 2)[0] for name in holders} <= {package, f"{package}-files"}
    assert len(holders) == len(
        {name.rsplit("-", 2)[1] for name in map(str, (f.name for f in files))}
    )


@pytest.mark.parametrize(
    ("specs", "driver"),
    [
        (("cuda-version=13.0",), "12.9"),
        (("cuda-core", "__cuda"), ""),
        (("cuda-version==13.0=native_101",), ""),
    ],
)
def test_the_solver_says_what_the_page_quotes(
    specs: tuple[str, ...], driver: str, planned_solve: Solve
) -> None:
    """Rattler's words; libmamba's are in its source."""
    quotes = quoted_messages(ROOT / "docs" / "troubleshooting.md", "The solver refuses")
    with pytest.raises(Unsolvable) as error:
        planned_solve(scenario(specs, {"CONDA_OVERRIDE_CUDA": driver}))
    assert [quote for quote in quotes if quote in str(error.value)]


# --- names


def test_a_name_means_what_the_page_says(planned_solve: Solve) -> None:
    def pick(*specs: str) -> set[str]:
        found = planned_solve(scenario(specs, {"CONDA_OVERRIDE_CUDA": "13.0"}))
        assert (found.toolkit, found.fit) == ("13.0", "native")
        return {
            record.name.normalized
            for record in found.records
            if "python" not in record.name.normalized
        }

    assert {name for name in pick("cuda-version") if name.startswith(("cuda", "lib"))} == {
        "cuda-version",
        "cuda-version-native",
    }
    assert {"cuda-nvcc", "libcublas", "cuda-nvrtc"} <= pick("cuda-toolkit") <= pick("cuda")
    assert {"libcublas", "libcufft"} <= pick("cuda-runtime") | pick("cuda-libraries")
    with pytest.raises(Unsolvable):
        pick("cudatoolkit")
    assert LOCKS["13.0"].components["cublas"].version.startswith("13.1")
    assert LOCKS["12.9"].components["nvrtc"].distribution == "nvidia-cuda-nvrtc-cu12"
    assert LOCKS["13.0"].components["nvrtc"].distribution == "nvidia-cuda-nvrtc"


# --- platforms


def test_the_table_has_the_first_toolkit_of_each_platform() -> None:
    rows = re.findall(
        r"^\|.+\| `([\w-]+)` \| (\d+\.\d+) and newer",
        page("names-and-platforms"),
        re.MULTILINE,
    )
    # That is Thor's.
    said = {subdir: minor for subdir, minor in rows if (subdir, minor) != ("linux-aarch64", "13.0")}
    first = {
        subdir: min(
            (
                minor
                for minor, lock in LOCKS.items()
                if lock.components["nvrtc"].artefacts.get(subdir)
            ),
            key=Version,
        )
        for subdir in PLATFORMS
    }
    assert said == first


def test_no_package_brings_a_driver(built: Workspace) -> None:
    """A stub is not a driver: a program needs libcuda.so.1, and the stub has no such name."""
    files = (
        entry
        for file in (built.channel / this_platform()).glob("*.conda")
        for entry in read_info(file).paths
    )
    names = [Path(entry.path).name for entry in files]
    assert "libcuda.so" in names
    assert "libnvrtc.so.13" in names or this_platform() != "linux-64"
    driver = ("libcuda.so.", "libnvidia-ml.so.", "nvcuda.dll")
    assert not [name for name in names if name.startswith(driver)]


def test_all_packages_for_arm_are_for_sbsa(project: Workspace) -> None:
    """What has a file below targets/, or a library, excludes conda-forge's packages for Tegra."""
    packages = channels.planned(project)["linux-aarch64"]["packages.conda"].values()
    libraries = [
        r
        for r in packages
        if r["name"].startswith(("libcu", "libnp", "libnvj", "cuda-cudart", "cuda-nvrtc"))
    ]
    assert len(libraries) > 100
    bare = {
        r["name"]
        for r in libraries
        if not any(c.startswith("arm-variant * sbsa") for c in r.get("constrains", ()))
    }
    files = {r["name"].removesuffix("-files") for r in libraries if r["name"].endswith("-files")}
    # A package of Python's major alone, such as libcudnn, and a twin leave it to the package of
    # files that they need.
    assert bare <= files, "says it neither by itself nor by its package of files"


@pytest.mark.parametrize("minor", ["12.9", "13.0", MINORS[-1]])
def test_wheels_for_arm_have_code_for_thor_and_none_of_orins_own(
    minor: str, project: Workspace
) -> None:
    artefact = LOCKS[minor].components["nvjpeg"].artefacts["linux-aarch64"]
    assert artefact
    if not laid_out(artefact, project).exists():
        fetch([artefact], project, Index)
    code = [code for file in read_wheel(laid_out(artefact, project)).values() for code in file.code]
    machine = {each.target for each in code if each.kind == "cubin"}
    assert {"80", "86", "101" if minor.startswith("12.") else "110"} <= machine
    assert "87" not in machine


def test_every_compiler_knows_orin_and_thor_from_13() -> None:
    for minor, lock in LOCKS.items():
        assert lock.facts and "8.7" in lock.facts.gpu_architectures
        assert ("11.0" in lock.facts.gpu_architectures) == minor.startswith("13."), minor


LIBCUDA = """
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
"""


@pytest.mark.parametrize("who", ["ctk", "conda"])
def test_conda_and_ctk_see_the_libcuda_that_the_loader_finds(who: str, tmp_path: Path) -> None:
    """As with cuda-compat in LD_LIBRARY_PATH: a newer libcuda.so before the driver's."""
    compiler = shutil.which("cc")
    if compiler is None or this_platform() != "linux-64" or detected_driver():
        # A driver that is there is detected in tests/system/gpu/test_machine.py.
        pytest.skip("needs a C compiler, and a machine without a driver")
    if who == "conda" and shutil.which("conda") is None:
        pytest.skip("there is no conda on PATH")  # ctk, the other case, asks the same library
    (tmp_path / "libcuda.c").write_text(LIBCUDA)
    for name in ("libcuda.so", "libcuda.so.1"):
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", tmp_path / name, tmp_path / "libcuda.c"],
            check=True,
        )
    code = (
        "from ctk.solve.machine import detected_driver; print('__cuda=' + str(detected_driver()))"
    )
    command = ["conda", "info"] if who == "conda" else [sys.executable, "-c", code]
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith("CONDA_OVERRIDE")
    }
    done = subprocess.run(
        command,
        env=variables | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "__cuda=13.0" in done.stdout, done.stdout + done.stderr
