"""cufinufft, a CUDA package with kernels, from its source distribution: built against the channel, installed, called.

Its recipe is what a feedstock's would be: of CUDA it names the compiler, `cuda-version` and `-dev` packages; what it
requires at run time comes from run-exports. Slow, so not among the tests of ./scripts/test: ./scripts/test-downstream.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from downstream_recipes import FOLDER, NEWEST, OLDEST, RECIPES
from elftools.elf.elffile import ELFFile
from ruamel.yaml import YAML

from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import this_platform
from ctk.env.environment import Environment, create
from feedstock import Feedstock, build

pytest_plugins = ["downstream_fixtures"]
NAME = "cufinufft"
LIBRARY = "site-packages/cufinufft/libcufinufft.so"


@pytest.fixture(scope="module")
def feedstock(project: Workspace, toolkits: Path, tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Feedstock:
    recipe = RECIPES[NAME]
    files = [project.build_config, FOLDER / "downstream.yaml", recipe.folder / "conda_build_config.yaml"]
    channels = (tools, toolkits, project.base_channel)
    return build(recipe, files, tmp_path_factory.mktemp("own"), channels, project)


@pytest.fixture(scope="module")
def environment(feedstock: Feedstock, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With the newest toolkit, whatever driver this machine has."""
    pick = feedstock.pick(NAME, "numba-cuda", driver=NEWEST)
    folder = tmp_path_factory.mktemp("environment")
    return create(pick, folder / "prefix", folder / "packages")


def test_it_names_nothing_of_cuda_but_the_compiler_cuda_version_and_dev_packages() -> None:
    requirements = YAML(typ="safe").load(RECIPES[NAME].file)["requirements"]
    of_cuda = {
        kind: [spec for spec in specs if spec.startswith(("cuda-", "lib")) or '"cuda"' in spec]
        for kind, specs in requirements.items()
    }
    assert of_cuda == {
        "build": ['${{ compiler("cuda") }}'],
        "host": ["cuda-version ${{ cuda_version }}.*", "cuda-arch ${{ arch }}.*", "cuda-cudart-dev", "libcufft-dev"],
        "run": [],
    }


def test_run_exports_give_the_run_requirements(feedstock: Feedstock) -> None:
    built_with = feedstock.pick(f"cuda-version={OLDEST}", "cuda-cudart-dev", "libcufft-dev")
    cufft = built_with.version("libcufft")
    gcc = base.installed_compilers()[this_platform()].split(".")[0]
    assert set(feedstock.index("13").depends) == {
        "python",
        "numpy",
        "packaging",
        f"cuda-version >={OLDEST},<14.0a0",
        f"cuda-cudart >={built_with.version('cuda-cudart')},<14.0a0",
        f"libcufft >={cufft},<{int(cufft.split('.')[0]) + 1}.0a0",
        "cuda-arch >=8.0",
        f"libgcc >={gcc}",
        f"libstdcxx >={gcc}",
    }
    assert feedstock.index("13").build.startswith("cuda13_py")


@pytest.mark.parametrize(
    ("driver", "toolkit", "fit"), [(OLDEST, OLDEST, "native"), (NEWEST, NEWEST, "native"), (None, NEWEST, "compat")]
)
def test_the_toolkit_under_it_is_the_one_that_fits_the_driver(
    feedstock: Feedstock, driver: str | None, toolkit: str, fit: str
) -> None:
    pick = feedstock.pick(NAME, driver=driver)
    assert (pick.toolkit, pick.fit) == (toolkit, fit)
    beside = feedstock.pick(f"cuda-version={toolkit}", "libcufft", driver=driver)
    assert pick.version("libcufft") == beside.version("libcufft")
    assert pick.version("cuda-cudart").startswith(f"{toolkit}.")


@pytest.mark.parametrize(("driver", "arch"), [("12.9", None), (NEWEST, "7.5")])
def test_where_it_cannot_run_it_is_not_installed(feedstock: Feedstock, driver: str, arch: str | None) -> None:
    """A driver for CUDA 12; a GPU that is older than what it has code for."""
    with pytest.raises(Unsolvable):
        feedstock.pick(NAME, driver=driver, arch=arch)


def test_its_library_needs_what_the_requirements_bring(environment: Environment) -> None:
    """The loader finds all of it from the library itself, and nothing of this machine's own CUDA."""
    (file,) = environment.prefix.glob(f"lib/python3.*/{LIBRARY}")
    with file.open("rb") as stream:
        dynamic = list(ELFFile(stream).get_section_by_name(".dynamic").iter_tags())
    needed = {tag.needed for tag in dynamic if tag.entry.d_tag == "DT_NEEDED"}
    (paths,) = (getattr(t, "rpath", None) or t.runpath for t in dynamic if t.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"))
    assert {"libcudart.so.13", "libcufft.so.12", "libstdc++.so.6"} <= needed
    assert all(path.startswith("$ORIGIN") for path in paths.split(":"))
    home = environment.prefix.resolve()
    folders = [Path(path.replace("$ORIGIN", str(file.parent))).resolve() for path in paths.split(":")]
    assert all(folder.is_relative_to(home) for folder in folders)
    from_glibc = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "ld-linux")
    for name in needed:
        assert name.startswith(from_glibc) or any((folder / name).exists() for folder in folders), name


def test_it_has_machine_code_for_what_it_requires_of_a_gpu(
    feedstock: Feedstock, environment: Environment, tmp_path: Path
) -> None:
    """And for nothing else, such as the GPU of the machine that built it."""
    cuobjdump = create(feedstock.pick("cuda-cuobjdump"), tmp_path / "prefix", tmp_path / "packages").prefix
    (file,) = environment.prefix.glob(f"lib/python3.*/{LIBRARY}")
    command = [cuobjdump / "bin" / "cuobjdump", "--list-elf", file]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\.sm_(\w+)\.cubin", listed)) == {"80"}


def test_in_an_environment_it_calls_that_environment_s_libraries(environment: Environment) -> None:
    """Built with the oldest toolkit of the major, it runs with the newest: on a GPU, where there is one."""
    program = FOLDER / "transform.py"
    run = subprocess.run([environment.python, "-I", program], capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    found = json.loads(run.stdout)
    targets = "targets/sbsa-linux/lib" if this_platform() == "linux-aarch64" else "targets/x86_64-linux/lib"
    assert found["version"] == environment.pick.version(NAME)
    assert found["loaded"]["libcufft"] == f"{targets}/libcufft.so.{environment.pick.version('libcufft')}"
    assert found["loaded"]["libcudart"].startswith(f"{targets}/libcudart.so.13.")
    assert found["loaded"]["libcufinufft"].endswith(LIBRARY)
    assert found["numbers"]["libcudart"] == 13000 + 10 * int(NEWEST.split(".")[1])
    if found["gpus"]:
        assert max(found["differences"].values()) < 1e-8
    else:
        assert found["refusal"], "without a GPU there is an error, not a plan"


def test_its_own_tests_pass(feedstock: Feedstock) -> None:
    feedstock.run_tests("13")
