"""The complete example of docs/recipe-authors.md: built against the channel, installed, called."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from rattler.package_streaming import extract
from ruamel.yaml import YAML

from conftest import MINORS, NEWEST, ROOT
from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import this_platform
from ctk.env.environment import Environment, create
from ctk.plan.recipes import Recipe
from ctk.solve.machine import detected_driver
from feedstock import Feedstock, alone, base_python, build

FOLDER = ROOT / "examples" / "cuda-extension"
NAME = "axpy"
OLDEST = next(minor for minor in MINORS if minor.startswith("13."))
PROGRAM = """
import array, json, axpy
x, y = array.array("f", [1, 2, 3]), array.array("f", [10, 20, 30])
try:
    axpy.axpy(2, x, y)
    error = ""
except RuntimeError as problem:
    error = str(problem)
try:
    axpy.axpy(2, x, y[:2])
    refused = ""
except RuntimeError as problem:
    refused = str(problem)
print(json.dumps([axpy.runtime(), axpy.devices(), list(y), error, refused]))
"""


@pytest.fixture(scope="module")
def example(built: Workspace, roomy: Callable[[str], Path]) -> Iterator[Feedstock]:
    if this_platform() not in base.installed_compilers():
        pytest.skip("no g++ on this machine, which nvcc calls: apt-get install g++")
    files = [built.build_config, FOLDER / "conda_build_config.yaml"]
    with alone(roomy("cache")):
        own = roomy("example")
        yield build(Recipe(NAME, FOLDER), files, own, (built.channel, built.base_channel), base_python(built))


def test_run_exports_alone_give_the_requirements_of_the_built_example(example: Feedstock) -> None:
    (major,) = example.packages
    assert major == "13"
    cudart = example.pick(f"cuda-version={OLDEST}", "cuda-cudart-dev").version("cuda-cudart")
    of_cuda = {spec for spec in example.index(major).depends if spec.startswith("cuda-")}
    # The second is nvcc's: what it compiled needs its toolkit, or a later one of the major.
    assert of_cuda == {f"cuda-cudart >={cudart},<14.0a0", f"cuda-version >={OLDEST},<14.0a0"}
    written = YAML(typ="safe").load(FOLDER / "recipe.yaml")["requirements"]["run"]
    assert written == ["python"]


def test_the_example_s_own_tests_pass(example: Feedstock) -> None:
    example.run_tests("13")


def test_the_example_looks_for_the_runtime_in_its_own_environment_first(example: Feedstock, tmp_path: Path) -> None:
    """RPATH, not RUNPATH: LD_LIBRARY_PATH and /usr/local/cuda come after it."""
    extract(example.packages["13"], tmp_path)
    (module,) = tmp_path.rglob("axpy.so")
    with module.open("rb") as stream:
        tags = list(ELFFile(stream).get_section_by_name(".dynamic").iter_tags())
    (folder,) = (tag.rpath for tag in tags if tag.entry.d_tag == "DT_RPATH")
    assert not [tag for tag in tags if tag.entry.d_tag == "DT_RUNPATH"]
    assert Path(folder.replace("$ORIGIN", str(module.parent))).resolve() == tmp_path.resolve() / "lib"


@pytest.mark.parametrize("toolkit", sorted({OLDEST, NEWEST}))
def test_the_example_computes_or_says_why_not(example: Feedstock, tmp_path: Path, toolkit: str) -> None:
    """Built with the oldest toolkit of its major, it runs with that and with the newest."""
    made: Environment = create(example.pick(NAME, driver=toolkit), tmp_path / "prefix", tmp_path / "packages")
    done = subprocess.run([made.python, "-I", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runtime, devices, result, error, refused = json.loads(done.stdout)
    assert runtime == toolkit
    assert refused == "invalid argument"
    if detected_driver() is None:
        assert (devices, result) == (0, [10, 20, 30])
        assert "driver" in error
    elif devices:
        assert (result, error) == ([12, 24, 36], "")


def test_a_driver_for_cuda_12_refuses_the_example(example: Feedstock) -> None:
    """What the page says: NVIDIA publishes no nvcc of CUDA 12 as a wheel, so there is no build for it."""
    with pytest.raises(Unsolvable) as error:
        example.pick(NAME, driver="12.9")
    assert error.value.solver
