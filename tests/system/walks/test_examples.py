"""The examples of docs/recipe-authors.md: built with `ctk build-recipe`, installed with each CUDA
major, and run.

What the command prints is on the page, so its tables are read here and not its JSON.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from conftest import MINORS, NEWEST, ctk
from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import this_platform
from ctk.core.versions import this_python
from ctk.env.environment import create
from ctk.package.reader import read_info
from ctk.solve.machine import detected_driver
from ctk.solve.solve import Scenario, solve
from kit.doc_pages import EXAMPLES as ON_PAGES
from kit.doc_pages import Block, blocks, follows
from kit.tables import tables

EXAMPLES = {
    "cpp-extension": "scale",
    "cmake-library": "libsum",
    "cuda-extension": "axpy",
    "nanobind-extension": "blend",
    "noarch-package": "doubled",
}
"""Folder -> package."""
QUICK = ("cpp-extension", "noarch-package")
"""The others are compiled for a minute, so they are left to ./scripts/test --all, and to
acceptance.
"""
COMPILED = [name for name in EXAMPLES if name != "noarch-package"]
WITH_NVCC = ("cuda-extension", "nanobind-extension")
FIRST = {
    major: next(minor for minor in MINORS if minor.startswith(f"{major}."))
    for major in ("12", "13")
}
BUILT_WITH = {"12": "12.6", "13": FIRST["13"]}
MAJORS = {name: {"13"} if name in WITH_NVCC else {"12", "13"} for name in EXAMPLES}
IN_PYTHON = """
import array, json, sys, {module} as it
x, y = array.array("f", [1, 2, 3]), array.array("f", [10, 20, 30])
try:
    {call}
    error = ""
except RuntimeError as problem:
    error = str(problem)
try:
    {refused}
    refused = ""
except RuntimeError as problem:
    refused = str(problem)
json.dump([it.{version}(), it.devices(), list(y), error, refused], sys.stdout)
"""
PROGRAMS = {
    "scale": IN_PYTHON.format(
        module="scale", call="it.scale(2, y)", refused="it.scale(2, y[:0])", version="versions"
    ),
    "axpy": IN_PYTHON.format(
        module="axpy", call="it.axpy(2, x, y)", refused="it.axpy(2, x, y[:2])", version="runtime"
    ),
    "blend": IN_PYTHON.format(
        module="blend", call="it.blend(x, y)", refused="it.blend(x, y[:2])", version="runtime"
    ),
}
RESULTS = {"scale": [20, 40, 60], "axpy": [12, 24, 36], "blend": [5.5, 11, 16.5]}


@dataclass(frozen=True)
class Package:
    """A package of an example, with its lines of the table that the command prints.

    Attributes:
        toolkit: That it was built with; "" for none.
        tests: Driver, toolkit and fit, state.
    """

    file: Path
    toolkit: str
    tests: list[tuple[str, str, str]]

    @cached_property
    def requires(self) -> list[str]:
        return read_info(self.file).index.depends


@dataclass(frozen=True)
class Example:
    output: Path
    printed: str

    @property
    def packages(self) -> list[Package]:
        tested = tables(self.printed.partition("built and tested")[2])[0]
        found: list[Package] = []
        for name, toolkit, driver, gets, state in tested:
            if name:
                (file,) = self.output.glob(f"*/{name}.conda")
                found.append(Package(file, toolkit, []))
            found[-1].tests.append((driver, gets, state))
        return found


Build = Callable[[str], Example]


def each(examples: Iterable[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """The values of each example as parameters."""
    found = []
    for example, values in examples:
        marks = () if example in QUICK else pytest.mark.sweep
        found.append(pytest.param(*values, marks=marks, id="-".join(map(str, values))))
    return found


compiled = pytest.mark.parametrize("example", each((e, (e,)) for e in COMPILED))


@pytest.fixture(scope="module")
def build(built: Workspace, roomy: Callable[[str], Path]) -> Build:
    """Builds an example once."""
    if this_platform() not in base.installed_compilers():
        pytest.skip("no g++ on this machine: apt-get install g++")

    @cache
    def build(example: str) -> Example:
        if (
            example in ("cmake-library", "nanobind-extension")
            and not {"cmake", "ninja"} <= base.installed_tools().keys()
        ):
            pytest.skip("no CMake or no Ninja on this machine: apt-get install cmake ninja-build")
        output = roomy(example)
        done = ctk(
            built, "build-recipe", f"./examples/{example}", "--output", str(output), check=True
        )
        return Example(output, done.stdout)

    return build


PRINTED = [block for block in blocks() if block.printed_by.startswith(ON_PAGES)]


@pytest.mark.parametrize("block", each((Path(b.printed_by).name, (b,)) for b in PRINTED))
def test_the_page_shows_what_the_command_prints(build: Build, block: Block) -> None:
    assert follows(block, build(Path(block.printed_by).name).printed) == ""


def pick(build: Build, built: Workspace, example: str, driver: str | None) -> Any:
    channels = [build(example).output, built.channel, built.base_channel]
    return solve(Scenario((EXAMPLES[example],), this_platform(), driver), channels)


@compiled
def test_each_major_has_a_build_and_its_tests_pass_with_the_oldest_and_the_newest_driver(
    build: Build, example: str
) -> None:
    packages = {package.toolkit.partition(".")[0]: package for package in build(example).packages}
    assert packages.keys() == MAJORS[example]
    for major, package in packages.items():
        newest = [minor for minor in MINORS if minor.startswith(f"{major}.")][-1]
        assert package.toolkit == BUILT_WITH[major]
        assert package.tests == [(d, f"{d} native", "passed") for d in (BUILT_WITH[major], newest)]


@compiled
def test_run_exports_alone_give_the_requirements_of_cuda(
    build: Build, built: Workspace, example: str
) -> None:
    for package in build(example).packages:
        major, toolkit = package.toolkit.partition(".")[0], package.toolkit
        specs = ("cuda-cudart-dev", "cuda-nvrtc-dev", f"cuda-version={toolkit}")
        host = solve(Scenario(specs, this_platform()), [built.channel, built.base_channel])
        after = f"{int(major) + 1}.0a0"
        of_cuda = {spec for spec in package.requires if spec.startswith("cuda-")}
        wanted = {f"cuda-cudart >={host.version('cuda-cudart')},<{after}"}
        # What nvcc compiled needs its toolkit, or a later one of the major; the others compile at
        # run time.
        nvrtc = f"cuda-nvrtc >={host.version('cuda-nvrtc')},<{after}"
        wanted.add(f"cuda-version >={toolkit},<{after}" if example in WITH_NVCC else nvrtc)
        assert of_cuda == wanted


@pytest.mark.parametrize(
    ("example", "driver"),
    each(
        (e, (e, d)) for e in COMPILED for d in ("12.6", NEWEST) if d.partition(".")[0] in MAJORS[e]
    ),
)
def test_an_example_computes_or_says_why_not(
    build: Build, built: Workspace, roomy: Callable[[str], Path], example: str, driver: str
) -> None:
    """With the oldest toolkit of CUDA 12 that it is for, and with the newest."""
    picked = pick(build, built, example, driver)
    assert picked.toolkit == driver
    folder = roomy("environment")
    made = create(picked, folder / "prefix", folder / "packages")
    name = EXAMPLES[example]
    if name == "libsum":
        words = [made.prefix / "bin" / "sum-of", "1", "2", "3.5"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"toolkit {driver}: ")
        if detected_driver() is None:
            assert "no sum: CUDA driver version is insufficient" in said
            # The kernels of tests/system/gpu/test_kernels.py go the same way, NVRTC to cubin.
            pytest.skip("no GPU on this machine: the library was loaded, and computed nothing")
        assert said.endswith("sum 6.5\n")
        return
    done = subprocess.run(
        [made.python, "-I", "-c", PROGRAMS[name]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    version, devices, result, error, refused = json.loads(done.stdout)
    assert version == (f"runtime {driver}, NVRTC {driver}" if name == "scale" else driver)
    assert refused == ("there is no number" if name == "scale" else "invalid argument")
    if detected_driver() is None:
        assert (devices, result) == (0, [10, 20, 30])
        assert "driver" in error
        # As for the library above; without a GPU all else is asserted before this.
        pytest.skip("no GPU on this machine: the module was imported, and computed nothing")
    if devices:
        assert (result, error) == (RESULTS[name], "")


def test_a_package_in_python_alone_is_one_build_and_is_tested_for_both_majors(build: Build) -> None:
    (package,) = build("noarch-package").packages
    assert package.toolkit == "" and "/noarch/doubled-0.1.0-pyh" in str(package.file)
    assert sorted(package.requires) == [
        "cuda-core",
        "python",
        f"python >={max('3.11', this_python().minor)}",
    ]
    ends = [
        minors
        for major in ("12", "13")
        for minors in [[m for m in MINORS if m.startswith(f"{major}.")]]
    ]
    drivers = [driver for minors in ends for driver in (minors[0], minors[-1])]
    assert package.tests == [(driver, f"{driver} native", "passed") for driver in drivers]


@pytest.mark.parametrize("driver", ["12.6", NEWEST])
def test_a_package_in_python_alone_computes_or_says_why_not(
    build: Build, built: Workspace, roomy: Callable[[str], Path], driver: str
) -> None:
    folder = roomy("environment")
    made = create(
        pick(build, built, "noarch-package", driver), folder / "prefix", folder / "packages"
    )
    program = (
        "import doubled; print(len(doubled.compiled('80').code) > 500); print(doubled.doubled([1,"
        " 2, 3.5]))"
    )
    done = subprocess.run(
        [made.python, "-I", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("True\n")
    if detected_driver() is None:
        assert done.returncode and "driver library" in done.stderr.splitlines()[-1]
        pytest.skip(
            "no GPU on this machine: the kernel was compiled; system/gpu/test_kernels.py computes"
            " where there is one"
        )
    assert done.stdout == "True\n[2.0, 4.0, 7.0]\n"


@pytest.mark.sweep
def test_a_driver_for_cuda_12_refuses_what_nvcc_compiled(build: Build, built: Workspace) -> None:
    """What the page says: NVIDIA publishes no nvcc of CUDA 12 as a wheel, so there is no build for
    it.
    """
    with pytest.raises(Unsolvable) as error:
        pick(build, built, "cuda-extension", "12.9")
    assert error.value.solver
