"""jax-finufft with its CUDA module, from source distributions: built against the channel,
installed, called.

Slow, so not among the tests of ./scripts/test: ./scripts/test-downstream. By
JAX_FINUFFT_CUDA_ARCHITECTURES=90-real, or a list for CMake, the kernels are compiled for fewer
GPUs, in minutes. Only CUDA 13: of CUDA 12 no nvcc is published as a wheel.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from ruamel.yaml import YAML

from conftest import MINORS, ctk
from ctk.base import base
from ctk.build import build as builds
from ctk.channel import local as states
from ctk.core.checkout import Workspace, settings
from ctk.core.platforms import this_platform
from ctk.core.versions import this_python
from ctk.env.environment import Environment, create
from ctk.fetch.fetch import fetch
from ctk.index.index import Index
from ctk.lock.model import load
from ctk.plan.plan import Plan, Request, Set, plan, published_set
from ctk.plan.recipes import find_recipes
from kit.feedstock import Feedstock, build

FOLDER = Path(__file__).parent
RECIPES = find_recipes(FOLDER)
# The toolkit that it is built with, and the newest that it is to run with.
OLDEST, *_, NEWEST = [minor for minor in MINORS if minor.startswith("13.")]
SOURCES = ("ducc0", "jax-finufft", "pythran")
NAME = "jax-finufft"
ARCHITECTURES = "JAX_FINUFFT_CUDA_ARCHITECTURES"
CPU_PROGRAM = """
import json, sys
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from jax_finufft import jax_finufft_gpu, nufft1
random = np.random.default_rng(7)
x = random.uniform(-np.pi, np.pi, 1009)
c = random.standard_normal(1009) + 1j * random.standard_normal(1009)
wanted = np.exp(1j * np.outer(np.arange(-32, 32), x)) @ c
got = np.asarray(nufft1((64,), c, x, eps=1e-10, iflag=1))
json.dump(float(abs(got - wanted).max() / abs(wanted).max()), sys.stdout)
"""


@pytest.fixture(scope="module")
def toolkits(project: Workspace) -> Path:
    """The channel: the default set of two releases, cuFFT, and what shows the machine code in a
    library.
    """
    # What needs no compiler is held without one: the run exports of all -dev packages are in the
    # golden files.
    if this_platform() not in base.installed_compilers():
        pytest.skip("no g++ on this machine, which nvcc calls: apt-get install g++")
    folder = project.output / "downstream"
    names = [
        *(settings(project.root).default.recipes or []),
        "libcufft",
        "cuda-cuobjdump",
        "cuda-nvdisasm",
    ]
    ctk(
        project,
        "build",
        *names,
        "--release",
        OLDEST,
        "--release",
        NEWEST,
        "--to",
        str(folder),
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def tools(project: Workspace, toolkits: Path) -> Path:
    """A channel with what conda-forge would have: CMake, ninja, scikit-build-core.

    The sources are fetched along.
    """
    lock = load(FOLDER / "downstream.lock")
    what = Set(
        {"tools": RECIPES["tools"]},
        {lock.name: (lock, FOLDER / "downstream.yaml")},
        (project.build_config,),
    )
    sources = [source for name in SOURCES if (source := lock.components[name].artefacts["noarch"])]
    fetch(sources, project, Index)
    planned = plan(what, Request(platforms=[this_platform()]), [])
    return channel_of(planned, project, "downstream-tools")


def channel_of(planned: Plan, project: Workspace, name: str) -> Path:
    """A channel with the packages of a plan, whether or not they install."""
    fetch(planned.artefacts, project, Index)
    made = builds.run(planned, project)
    assert made.built and not made.failed, made.failed
    states.commit(states.stage(states.candidates(made.built, project.output / name)))
    return project.output / name


@pytest.fixture(scope="module")
def programs(project: Workspace, toolkits: Path) -> Path:
    """The channel of JAX, for CPUs: its CUDA half would bring cuDNN and NCCL."""
    python = this_python()
    request = Request(["libraries-13"], ["jaxlib", "jax"], [this_platform()], [python.name])
    return channel_of(
        plan(published_set(project), request, [python.tag]), project, "downstream-jax"
    )


@pytest.fixture(scope="module")
def feedstock(
    project: Workspace,
    programs: Path,
    toolkits: Path,
    tools: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Feedstock:
    recipe = RECIPES[NAME]
    files = [
        project.build_config,
        FOLDER / "downstream.yaml",
        recipe.folder / "conda_build_config.yaml",
    ]
    channels = (tools, programs, toolkits, project.base_channel)
    return build(recipe, files, tmp_path_factory.mktemp("own"), channels, project)


@pytest.fixture(scope="module")
def environment(feedstock: Feedstock, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With the newest toolkit, whatever driver this machine has."""
    pick = feedstock.pick(NAME, f"cuda-version={NEWEST}")
    folder = tmp_path_factory.mktemp("environment")
    return create(pick, folder / "prefix", folder / "packages")


def module(environment: Environment) -> Path:
    (file,) = environment.prefix.glob(
        "lib/python3.*/site-packages/jax_finufft/jax_finufft_gpu.*.so"
    )
    return file


def test_it_names_nothing_of_cuda_but_the_compiler_cuda_version_and_dev_packages() -> None:
    requirements = YAML(typ="safe").load(RECIPES[NAME].file)["requirements"]
    of_cuda = {
        k: [s for s in v if s.startswith(("cuda-", "lib")) or '"cuda"' in s]
        for k, v in requirements.items()
    }
    assert of_cuda == {
        "build": ['${{ compiler("cuda") }}'],
        "host": ["cuda-version ${{ cuda_version }}.*", "cuda-cudart-dev", "libcufft-dev"],
        "run": [],
    }


def test_run_exports_give_the_run_requirements(feedstock: Feedstock) -> None:
    built_with = feedstock.pick(f"cuda-version={OLDEST}", "cuda-cudart-dev", "libcufft-dev")
    cufft = built_with.version("libcufft")
    gcc = base.installed_compilers()[this_platform()].split(".")[0]
    index = feedstock.index("13")
    assert {
        spec
        for spec in index.depends
        if not spec.startswith(("python", "numpy", "pydantic", "jax "))
    } == {
        f"cuda-version >={OLDEST},<14.0a0",
        f"cuda-cudart >={built_with.version('cuda-cudart')},<14.0a0",
        f"libcufft >={cufft},<{int(cufft.split('.')[0]) + 1}.0a0",
        f"libgcc >={gcc}",
        f"libstdcxx >={gcc}",
    }
    assert any(re.fullmatch(r"jax >=\d+\.\d+", spec) for spec in index.depends)
    assert index.build.startswith("cuda13_py")


@pytest.mark.parametrize(
    ("driver", "toolkit"), [(OLDEST, OLDEST), (NEWEST, NEWEST), (None, NEWEST)]
)
def test_the_toolkit_under_it_is_the_one_that_fits_the_driver(
    feedstock: Feedstock, driver: str | None, toolkit: str
) -> None:
    assert feedstock.pick(NAME, driver=driver).toolkit == toolkit


def test_the_runtime_is_inside_and_cufft_is_not(environment: Environment) -> None:
    with module(environment).open("rb") as stream:
        file = ELFFile(stream)
        needed = {tag.needed for tag in file.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        wanted = {
            s.name
            for s in file.get_section_by_name(".dynsym").iter_symbols()
            if s["st_shndx"] == "SHN_UNDEF"
        }
    assert {name.split(".so")[0] for name in needed} & {
        "libcudart",
        "libcuda",
        "libfftw3",
        "libgomp",
    } == set()
    assert "libcufft.so.12" in needed
    assert not {name for name in wanted if re.match(r"cuda[A-Z]|__cuda", name)}


def test_it_has_machine_code_for_what_was_asked_for(
    feedstock: Feedstock, environment: Environment, tmp_path: Path
) -> None:
    cuobjdump = create(
        feedstock.pick("cuda-cuobjdump"), tmp_path / "prefix", tmp_path / "packages"
    ).prefix
    command = [cuobjdump / "bin" / "cuobjdump", "--list-elf", module(environment)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = set(re.findall(r"\.sm_(\w+)\.cubin", listed))
    asked = os.environ.get(ARCHITECTURES)
    assert found == (
        set(re.findall(r"(\d+)(?!\S*virtual)", asked))
        if asked
        else {"75", "80", "90", "100", "110", "120"}
    )


def test_on_the_cpu_it_equals_the_sum(environment: Environment) -> None:
    command = [environment.python, "-I", "-c", CPU_PROGRAM]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert not run.returncode, run.stderr
    assert json.loads(run.stdout) < 1e-8


def test_its_own_tests_pass(feedstock: Feedstock) -> None:
    feedstock.run_tests("13")
