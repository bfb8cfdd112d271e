"""What `ctk solve --explain` says of a pick, and the one sentence of a request without a solution."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import foreign_channel
import pytest
from small_channel import base, channel, pair, record, toolkit, write

from ctk.cli.solve import installable
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import this_platform
from ctk.solve.catalogue import Catalogue, Maker
from ctk.solve.explain import choices, explain, fit_in_words, native_instead
from ctk.solve.machine import python_specs
from ctk.solve.solve import Pick, Scenario
from ctk.solve.unsolvable import solve_or_say_why

NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers"
PTX_NOT = "cubin and nvJitLink work, PTX JIT does not"


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    place = tmp_path_factory.mktemp("channels")
    return Catalogue([write(place / "channel", channel()), write(place / "base", base())], "linux-64")


def pick(
    catalogue: Catalogue,
    specs: str,
    driver: str | None = None,
    arch: str | None = None,
    subdir: str = "linux-64",
    python: str = "",
) -> Pick:
    wanted = (*specs.split(), *(python_specs(python) if python else ()))
    return solve_or_say_why(Scenario(wanted, subdir, driver, arch), catalogue)


def problem(catalogue: Catalogue, specs: str, *machine: str | None, **more: str) -> tuple[str, str]:
    """The sentence, and what to do, of a request without a solution."""
    with pytest.raises(Unsolvable) as error:
        pick(catalogue, specs, *machine, **more)
    sentence, *solver = error.value.cause.splitlines()
    assert solver, "the solver's own text follows"
    assert error.value.exit_code == 10
    return sentence, error.value.step


# --- why this toolkit


def test_a_newer_toolkit_needs_a_newer_driver_or_a_pin(catalogue: Catalogue) -> None:
    assert explain(pick(catalogue, "cuda-core", "13.0", "9.0"), catalogue) == [
        "13.4 native needs a driver for CUDA 13.4; this one supports 13.0. "
        f"Pin cuda-version=13.4 to use minor-version compatibility: {PTX_NOT}.",
        "13.0 is picked, native: the driver loads the PTX that it compiles.",
    ]


def test_the_newest_toolkit_needs_no_excuse(catalogue: Catalogue) -> None:
    lines = explain(pick(catalogue, "cuda-core", "13.4", "9.0"), catalogue)
    assert lines == ["13.4 is picked, native: the driver loads the PTX that it compiles."]


def test_a_gpu_that_cuda_13_cannot_compile_for(catalogue: Catalogue) -> None:
    assert explain(pick(catalogue, "cuda-core", "13.0", "7.0"), catalogue) == [
        "13.4 native needs a driver for CUDA 13.4; this one supports 13.0. "
        "13.4 cannot compile for compute capability 7.0; its oldest is 7.5.",
        "13.0 cannot compile for compute capability 7.0; its oldest is 7.5.",
        "12.9 is picked, native: the driver loads the PTX that it compiles.",
    ]


def test_a_toolkit_of_a_newer_major_is_not_even_compatible(catalogue: Catalogue) -> None:
    lines = explain(pick(catalogue, "cuda-core", "12.9", "9.0"), catalogue)
    assert lines[0] == (
        "13.4 native needs a driver for CUDA 13.4; this one supports 12.9. "
        "Even minor-version compatibility needs a driver for CUDA 13.0."
    )
    assert not any("Pin" in line for line in lines)


def test_a_pinned_compat_build_says_what_it_cannot_do(catalogue: Catalogue) -> None:
    lines = explain(pick(catalogue, "cuda-core cuda-version=13.4", "13.0", "9.0"), catalogue)
    assert lines == [
        f"13.4 is picked, compat: {PTX_NOT}. 13.4 native needs a driver for CUDA 13.4; this one supports 13.0."
    ]


def test_a_compat_pick_is_explained_for_every_toolkit(catalogue: Catalogue) -> None:
    """A GPU that the one native toolkit for this driver does not know."""
    lines = explain(pick(catalogue, "cuda-nvrtc", "12.4", "10.0"), catalogue)
    assert lines[2:] == [
        f"12.9 is picked, compat: {PTX_NOT}. 12.9 native needs a driver for CUDA 12.9; this one supports 12.4.",
        "12.0 does not know compute capability 10.0; its newest is 9.0.",
    ]


def test_a_gpu_in_a_gap_is_named_with_those_beside_it(catalogue: Catalogue) -> None:
    *_, gap, _, last = explain(pick(catalogue, "cuda-core", "13.0", "10.7"), catalogue)
    assert gap == "13.0 does not know compute capability 10.7; it knows 10.3 and 11.0."
    assert last == "12.0 does not know compute capability 10.7; its newest is 9.0."


def test_a_library_of_a_newer_toolkit_is_named_with_the_driver_that_its_ptx_needs(tmp_path: Path) -> None:
    found = [
        *toolkit("12.0"),
        *pair("libnvjitlink", "12.3.101", "h", "linux-64", ">=12.0,<12.4"),
        *pair("libnvfatbin", "12.4.127", "h", "linux-64", ">=12.0,<12.5"),
    ]
    made = Catalogue([write(tmp_path / "channel", iter(found))], "linux-64")
    (line,) = explain(pick(made, "libnvjitlink libnvfatbin", "12.2", "9.0"), made)
    assert line == (
        "12.0 is picked, native: the driver loads the PTX that it compiles. "
        "12.0 has no nvJitLink that Python can use: libnvjitlink is 12.3's, and PTX that it links needs a driver for "
        "CUDA 12.3. 12.0 has no nvFatbin that Python can use: libnvfatbin is 12.4's."
    )


def test_a_pinned_build_is_named_where_the_other_would_fit(catalogue: Catalogue) -> None:
    (*_, last) = explain(pick(catalogue, "cuda-core cuda-version=13.0=compat*", "13.4", "9.0"), catalogue)
    assert last.endswith("13.0 native is left out by your cuda-version=13.0=compat*.")


def test_a_request_s_own_pins_are_named(catalogue: Catalogue) -> None:
    lines = explain(pick(catalogue, "cuda-core cuda-version=12", "13.4", "9.0"), catalogue)
    assert lines[:2] == ["13.4 is left out by your cuda-version=12.", "13.0 is left out by your cuda-version=12."]
    lines = explain(pick(catalogue, "cuda-bindings=12", "13.4", "9.0"), catalogue)
    assert lines[0] == "13.4 is left out by your cuda-bindings=12."


def test_a_package_that_a_newer_toolkit_lacks_is_named(tmp_path: Path) -> None:
    few = (r for r in channel() if (r["name"], r["version"]) != ("cuda-nvcc", "13.4.20"))
    catalogue = Catalogue([write(tmp_path / "channel", few), write(tmp_path / "base", base())], "linux-64")
    lines = explain(pick(catalogue, "cuda-nvcc", "13.4"), catalogue)
    assert lines[0] == "13.4: cuda-nvcc is not published for toolkit 13.4; it is for 13.0."


def test_a_python_that_a_newer_toolkit_lacks_is_named(tmp_path: Path) -> None:
    few = (r for r in channel() if not (r["name"] == "cuda-core" and "cuda13_py312" in r["build"]))
    catalogue = Catalogue([write(tmp_path / "channel", few), write(tmp_path / "base", base())], "linux-64")
    lines = explain(pick(catalogue, "cuda-core", "13.4", python="3.12"), catalogue)
    assert lines[0] == (
        "13.4: cuda-core is not built for Python 3.12 with toolkit 13.4; it is for 3.13, 3.14 and 3.14t."
    )


def test_without_a_driver_the_newest_is_picked_and_nothing_runs(catalogue: Catalogue) -> None:
    lines = explain(pick(catalogue, "cuda-core"), catalogue)
    assert lines == [
        "13.4 is picked, compat: it makes machine code without a driver, and nothing runs here. "
        "13.4 native needs a driver for CUDA 13.4; there is none."
    ]


def test_a_pick_without_cuda_and_a_channel_without_the_two_builds(catalogue: Catalogue, tmp_path: Path) -> None:
    assert explain(pick(catalogue, "python"), catalogue) == ["nothing in this pick depends on a CUDA toolkit"]
    one = [{**r, "build": "h1_0"} for r in channel() if r["name"] == "cuda-version" and "compat" in r["build"]]
    old = Catalogue([write(tmp_path / "old", iter(one))], "linux-64")
    found = pick(old, "cuda-version", "13.0")
    assert (found.fit, fit_in_words(found, old)) == ("", "")
    (line,) = explain(found, old)
    assert "no native and compat builds" in line


@pytest.mark.parametrize(
    ("specs", "driver", "arch", "words"),
    [
        ("cuda-core", "13.0", "9.0", "native: the driver loads the PTX that it compiles"),
        ("cuda-version=13.4", "13.0", "9.0", f"compat: {PTX_NOT}"),
        ("cuda-core", None, None, "compat: it makes machine code without a driver, and nothing runs here"),
        (
            "cuda-core",
            "13.4",
            "13.0",
            "compat: its compiler knows GPUs up to 12.1, whose PTX the driver compiles for this one",
        ),
        (
            "cuda-core",
            "12.9",
            "11.0",
            "compat: its compiler knows 10.3 and 12.0 but not this GPU; PTX for 10.3 works",
        ),
        (
            "cuda-version=13.4",
            "13.0",
            "13.0",
            "compat: the driver does not load its PTX, and its compiler does not know the GPU",
        ),
        (
            "cuda-version=13.0=compat*",
            "13.4",
            "9.0",
            "compat, as asked for: the driver loads the PTX that it compiles all the same",
        ),
        ("python", "13.4", "9.0", ""),
    ],
)
def test_native_and_compat_are_said_in_words(
    catalogue: Catalogue, specs: str, driver: str | None, arch: str | None, words: str
) -> None:
    assert fit_in_words(pick(catalogue, specs, driver, arch), catalogue) == words


# --- why there is no solution


def test_a_driver_too_old_for_any_toolkit(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-core", "11.8", "9.0")
    assert sentence == "the driver supports CUDA 11.8; the oldest toolkit in the channel needs 12.0"
    assert step == "update the driver to one for CUDA 12.0 or newer"


def test_a_driver_too_old_for_the_pin(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-version=13.4 cuda-core", "12.9", "9.0")
    assert sentence == "cuda-version=13.4 needs a driver for CUDA 13.0 or newer; this one supports 12.9"
    assert step.endswith("or drop the pin cuda-version=13.4, which gives toolkit 12.9 native")


def test_a_driver_too_old_for_a_package(catalogue: Catalogue) -> None:
    sentence, _ = problem(catalogue, "cuda-core cuda-nvcc", "12.9")
    assert sentence == (
        "cuda-nvcc is published for toolkits 13.0 and 13.4 only, which need a driver for CUDA 13.0 or newer; "
        f"this one supports 12.9; {NO_NVCC}"
    )


def test_no_driver_for_a_native_build(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-version=13.4=native*")
    assert sentence == "cuda-version=13.4=native* needs a driver for CUDA 13.4 or newer; there is none"
    assert "--driver" in step


def test_a_gpu_too_old_for_any_toolkit(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-core", "13.0", "3.5")
    assert sentence == "no toolkit in the channel compiles for compute capability 3.5; the oldest that any does is 5.0"
    assert step == "use a GPU of compute capability 5.0 or newer"


def test_a_gpu_too_old_for_the_pin(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-version=13.0 cuda-core", "13.0", "7.0")
    assert sentence == "cuda-version=13.0 cannot compile for compute capability 7.0; its oldest is 7.5"
    assert step == "drop the pin cuda-version=13.0, which gives toolkit 12.9 native"


def test_a_gpu_too_old_for_a_package(catalogue: Catalogue) -> None:
    sentence, _ = problem(catalogue, "cuda-nvcc", "13.0", "7.0")
    assert sentence == (
        "cuda-nvcc is published for toolkits 13.0 and 13.4 only, which cannot compile for compute capability 7.0; "
        "their oldest is 7.5"
    )
    assert problem(catalogue, "cuda-arch=9.0", "13.0", "7.0")[0] == (
        "cuda-arch=9.0 needs a GPU of compute capability 9.0 or newer; this one has 7.0"
    )


def test_a_gpu_newer_than_the_pinned_build_knows(catalogue: Catalogue) -> None:
    sentence, _ = problem(catalogue, "cuda-version=12.0=native*", "13.0", "10.0")
    assert sentence == "cuda-version=12.0=native* cannot compile for compute capability 10.0; its newest is 9.0"


def test_a_gpu_in_a_gap_of_the_pinned_build(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-version=12.9=native*", "12.9", "11.0")
    assert sentence == "cuda-version=12.9=native* cannot compile for compute capability 11.0; it knows 10.3 and 12.0"
    assert "drop the pin" in step


def test_driver_and_gpu_at_once(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-core", "11.8", "3.5")
    assert sentence == (
        "the driver supports CUDA 11.8; the oldest toolkit in the channel needs 12.0; besides, "
        "no toolkit in the channel compiles for compute capability 3.5; the oldest that any does is 5.0"
    )
    assert "driver" in step and "GPU" in step


def test_no_such_python(catalogue: Catalogue) -> None:
    sentence, _ = problem(catalogue, "cuda-core", python="3.9")
    assert sentence == ("there is no Python 3.9 in the channels; there are 3.11.1, 3.12.1, 3.13.1 and 3.14.1")
    assert problem(catalogue, "cuda-core", python="3.13t")[0].startswith("there is no Python 3.13t in the channels")


def test_a_python_that_the_package_is_not_built_for(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-core", "13.0", python="3.11")
    assert sentence == "cuda-core is not built for Python 3.11; it is for 3.12, 3.13, 3.14 and 3.14t"
    assert step == "ask for Python 3.12, 3.13, 3.14 or 3.14t"
    assert problem(catalogue, "cuda-version=12 cuda-core", "13.0", python="3.14t")[0] == (
        "cuda-core is not built for Python 3.14t with toolkit 12; it is for 3.12 and 3.13"
    )


def test_free_threaded_python_is_a_python_of_its_own(catalogue: Catalogue) -> None:
    builds = {
        kind: str(pick(catalogue, "cuda-core", "13.0", python=kind).record("cuda-core").build)
        for kind in ("3.14", "3.14t")
    }
    assert builds == {"3.14": "cuda13_py314native_13100", "3.14t": "cuda13_py314tnative_13100"}


def test_no_such_package_with_near_names(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-cor")
    assert sentence == "there is no package cuda-cor in the channels"
    assert step.startswith("did you mean cuda-core")


def test_what_is_only_a_little_alike_is_not_meant(catalogue: Catalogue) -> None:
    _, step = problem(catalogue, "pytorch")  # python is there
    assert "did you mean" not in step and "name a base channel that has more" in step
    assert problem(catalogue, "pythn")[1] == "did you mean python?"
    assert problem(catalogue, "nvrtc")[1].startswith("did you mean cuda-nvrtc")


def test_a_package_with_a_recipe_that_was_not_built_says_how_to_get_it(catalogue: Catalogue) -> None:
    makers = {"libcublas": Maker("libcublas", False), "cuda-runtime": Maker("cuda-toolkit", True)}
    here = Catalogue(catalogue.channels, "linux-64", maker=makers.get)
    assert problem(here, "libcublas") == (
        "libcublas is not built here: it is made by the recipe libcublas, which the default build leaves out",
        "run `ctk build --recipe libcublas`, or `ctk build --all-components`",
    )
    assert problem(here, "cuda-runtime") == (
        "cuda-runtime is not built here: it is made by the recipe cuda-toolkit",
        "run `ctk build --recipe cuda-toolkit`",
    )


def test_the_commands_know_which_recipes_of_this_checkout_are_not_built(project: Workspace) -> None:
    maker = installable(project, "/base", this_platform()).maker
    assert maker("libcublas-dev") == Maker("libcublas", False)
    assert maker("cuda-core") == Maker("cuda-core", True)
    assert maker("pytorch") is None


def test_a_package_that_is_not_published_for_the_platform(catalogue: Catalogue) -> None:
    windows = Catalogue(catalogue.channels, "win-64")
    sentence, step = problem(windows, "only-linux", subdir="win-64")
    assert sentence == "only-linux is not published for win-64; it is for linux-64"
    assert "--platform linux-64" in step


def test_a_request_for_nvcc_with_cuda_12_gets_the_reason(catalogue: Catalogue) -> None:
    for request, driver in (("cuda-nvcc=12", None), ("cuda-nvcc cuda-version=12", None), ("cuda-nvcc", "12.9")):
        assert problem(catalogue, request, driver)[0].endswith(f"; {NO_NVCC}")
    for request, driver in (("cuda-nvcc=14", None), ("cuda-nvcc python=2", None), ("cuda-nvrtc=11", "12.9")):
        assert NO_NVCC not in problem(catalogue, request, driver)[0]


def test_a_toolkit_that_a_package_is_not_published_for(catalogue: Catalogue) -> None:
    assert problem(catalogue, "cuda-nvcc cuda-version=12.9")[0] == (
        "cuda-nvcc is not published for toolkit 12.9; it is for 13.0 and 13.4; " + NO_NVCC
    )
    windows = Catalogue(catalogue.channels, "win-64")
    assert problem(windows, "cuda-nvcc cuda-version=13.0", subdir="win-64")[0] == (
        "cuda-nvcc is not published for toolkit 13.0 on win-64 (it is on linux-64 and linux-aarch64); it is for 13.4"
    )


def test_a_platform_that_the_channel_has_nothing_for(catalogue: Catalogue) -> None:
    arm = Catalogue(catalogue.channels, "win-arm64")
    sentence, step = problem(arm, "cuda-core", subdir="win-arm64")
    assert sentence == "the channel has nothing for win-arm64"
    assert step == "build it: ctk build --platform win-arm64"


def test_pins_that_contradict_each_other(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-version=12 cuda-bindings=13 cuda-core", "13.0")
    assert sentence == "cuda-version=12 and cuda-bindings=13 contradict each other"
    assert step == (
        "drop the pin cuda-version=12, which gives toolkit 13.0 native, "
        "or drop the pin cuda-bindings=13, which gives toolkit 12.9 native"
    )
    # The pins are what the user can see; that without the second one cuda-nvcc 12 is still missing comes after it.
    with_nvcc, _ = problem(catalogue, "cuda-version=12 cuda-bindings=13 cuda-nvcc", "13.0")
    assert with_nvcc == f"{sentence}; {NO_NVCC}"
    assert problem(catalogue, "python=3.12 python=3.13")[0] == "python=3.12 and python=3.13 contradict each other"


def test_packages_that_cannot_be_had_together(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-core shares-only-1 shares-only-2", "13.0")
    assert sentence == "shares-only-1 and shares-only-2 cannot be had together"
    assert step == "leave out shares-only-1 or shares-only-2"
    assert problem(catalogue, "shares-a shares-b shares-c cuda-core", "13.0")[0] == (
        "shares-a, shares-b and shares-c cannot be had together; without any one of them the others can"
    )


def test_a_base_channel_that_has_nothing_for_the_platform(catalogue: Catalogue, tmp_path: Path) -> None:
    ours, _ = catalogue.channels
    linux_base = write(tmp_path / "base", (r for r in base() if r["subdir"] in ("linux-64", "noarch")))
    windows = Catalogue([ours, linux_base], "win-64")
    sentence, step = problem(windows, "cuda-core", "13.0", subdir="win-64")
    assert sentence == "cuda-core needs python from the base channel, which has nothing for win-64"
    assert step == "name another one, such as --base conda-forge"
    assert problem(windows, "cuda-core", "13.0", subdir="win-64", python="3.13")[0] == (
        "python would come from the base channel, which has nothing for win-64"
    )


def test_a_version_that_does_not_exist_with_those_that_do(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-version=13.7 cuda-core", "13.0")
    assert sentence == "there is no cuda-version 13.7 in the channels; there are 12.0, 12.9, 13.0 and 13.4"
    assert step == "ask for one of those"
    assert problem(catalogue, "cuda-core=7")[0] == "there is no cuda-core 7 in the channels; there is 1.2.0"
    assert problem(catalogue, "cuda-version=13.4=other*")[0] == (
        "there is no cuda-version 13.4 other* in the channels; there are "
        "12.0 compat_0, 12.0 native_100, 12.9 compat_0, 12.9 native_100, "
        "13.0 compat_0, 13.0 native_100, 13.4 compat_0 and 13.4 native_100"
    )


def test_what_a_package_needs_and_no_channel_has(catalogue: Catalogue) -> None:
    sentence, step = problem(catalogue, "cuda-core needs-gcc", "13.0")
    assert sentence == "needs-gcc needs gcc_linux-64 >=13, which the channels do not have"
    assert step == "name a base channel that has gcc_linux-64, such as --base conda-forge"
    assert problem(catalogue, "needs-numpy")[0] == "needs-numpy needs numpy >=2, of which the channels have only 1.26"
    assert problem(catalogue, "needs-glibc")[0].startswith("needs-glibc needs __glibc >=99, and this machine has 2.")


def test_a_request_that_cannot_be_read(catalogue: Catalogue) -> None:
    with pytest.raises(Unsolvable, match="the request cannot be read"):
        pick(catalogue, "cuda-core==")


def test_a_channel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unsolvable, match=f"there is no channel in {tmp_path}/nowhere") as error:
        pick(Catalogue([tmp_path / "nowhere"], "linux-64"), "cuda-core")
    assert error.value.step == "run `ctk build` first"
    with pytest.raises(Unsolvable, match="there is no channel"):
        Catalogue([tmp_path / "nowhere"], "linux-64").pick(Scenario(("cuda-core",), "linux-64"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unsolvable, match="a channel could not be read"):
        pick(Catalogue([tmp_path / "empty"], "linux-64"), "cuda-core")


# --- packages of other channels with CUDA and CPU builds


@pytest.fixture(scope="module")
def beside(catalogue: Catalogue, project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """The small channel above conda-forge's GPU packages."""
    foreign = write(tmp_path_factory.mktemp("conda-forge"), foreign_channel.records(project.variants))
    ours, base_channel = catalogue.channels
    return Catalogue([ours, foreign, base_channel], "linux-64")


def said(beside: Catalogue, specs: str, *machine: str | None) -> list[str]:
    return [choice.in_words(beside) for choice in choices(pick(beside, specs, *machine), beside)]


def test_a_cuda_build_that_costs_the_native_toolkit_is_said_with_what_to_type(beside: Catalogue) -> None:
    assert said(beside, "pytorch cuda-core", "12.6") == [
        "pytorch is the CUDA build here, and another client may take the CPU build: name the one you want. "
        f'"pytorch=*=cuda*" gives CUDA with toolkit 12.9, compat: {PTX_NOT}; '
        '"pytorch=*=cpu*" gives the CPU build with toolkit 12.0, native: the driver loads the PTX that it compiles'
    ]


def test_explain_says_that_an_older_native_toolkit_goes_with_the_cpu_build(beside: Catalogue) -> None:
    *_, oldest = explain(pick(beside, "pytorch cuda-core", "12.6"), beside)
    assert oldest == "12.0 native can be had too, with the CPU build of pytorch."


def test_a_cpu_build_where_cuda_can_be_had_is_said_with_what_gives_cuda(beside: Catalogue) -> None:
    """As conda and mamba pick, which take native first."""
    theirs = pick(beside, "pytorch=*=cpu* cuda-core", "12.6")
    theirs = replace(theirs, scenario=replace(theirs.scenario, specs=("pytorch", "cuda-core")))
    assert [choice.in_words(beside) for choice in choices(theirs, beside)] == [
        f'pytorch is the CPU build here; "pytorch=*=cuda*" gives CUDA with toolkit 12.9, compat: {PTX_NOT}'
    ]


def test_a_build_string_that_ends_in_cuda_is_asked_for_as_such(beside: Catalogue) -> None:
    (line,) = said(beside, "onnxruntime cuda-core", "12.6")
    assert '"onnxruntime=*=*cuda*"' in line and '"onnxruntime=*=*cpu*"' in line


def test_a_cuda_build_of_the_older_major_is_said_too(beside: Catalogue) -> None:
    (line,) = said(beside, "jaxlib cuda-core", "13.0")
    assert "gives CUDA with toolkit 12.9, native" in line and "the CPU build with toolkit 13.0, native" in line


def test_a_pin_that_keeps_every_cuda_build_out_is_named(beside: Catalogue) -> None:
    assert said(beside, "cuda-version=12.0 pytorch cuda-core", "12.6") == [
        "pytorch is the CPU build here: its CUDA builds do not go with your cuda-version=12.0"
    ]


def test_a_cuda_build_that_nothing_of_the_request_keeps_out_is_said_to_be_out_of_reach(
    beside: Catalogue, tmp_path: Path
) -> None:
    """A package of the first channel hides those of the same name in the others, whatever their versions."""
    _, foreign, base_channel = beside.channels
    newer = [record("cuda-cuobjdump", "13.4.1", "h0_0", "linux-64", depends=["cuda-version >=13.4,<13.5"])]
    hiding = write(tmp_path / "hiding", iter([*channel(), *newer]))
    assert said(Catalogue([hiding, foreign, base_channel], "linux-64"), "pytorch cuda-core", "12.9") == [
        "pytorch is the CPU build here: its CUDA builds do not go with these channels on this machine"
    ]


@pytest.mark.parametrize(
    ("specs", "driver"),
    [
        ("pytorch cuda-core", None),  # without a driver the CPU build is right
        ("pytorch cuda-core", "12.9"),  # CUDA and native: nothing to choose
        ("pytorch", "12.6"),  # nothing of CUDA but pytorch's own
        ("pytorch=*=cuda* cuda-core", "12.6"),  # chosen
        ("pytorch=*=cpu* cuda-core", "12.6"),
        ("pytorch-cpu cuda-core", "12.6"),
        ("onnxruntime-novec cuda-core", "12.6"),  # has CPU builds only
        ("cupy cudnn cuda-core", "12.6"),  # has CUDA builds only
        ("cuda-core", "12.6"),
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_choose_or_the_user_has_chosen(
    beside: Catalogue, specs: str, driver: str | None
) -> None:
    assert said(beside, specs, driver) == []
    if "pytorch" not in specs:
        assert native_instead(pick(beside, specs, driver), beside) == ""


def test_for_other_programs_both_ways_have_their_spec_and_toolkit(beside: Catalogue) -> None:
    (choice,) = choices(pick(beside, "pytorch cuda-core", "12.6"), beside)
    assert choice.as_json() == {
        "package": "pytorch",
        "build": "cuda",
        "cuda": {"spec": "pytorch=*=cuda*", "toolkit": "12.9", "fit": "compat"},
        "cpu": {"spec": "pytorch=*=cpu*", "toolkit": "12.0", "fit": "native"},
    }


def test_a_package_tied_to_a_minor_may_bring_compat_where_native_could_be_had(beside: Catalogue) -> None:
    tied = pick(beside, "cuda-gdb cuda-core", "12.6")
    assert (tied.toolkit, tied.fit) == ("12.9", "compat")
    assert native_instead(tied, beside) == "12.0"
    assert native_instead(pick(beside, "cuda-version=12.0 cuda-gdb cuda-core", "12.6"), beside) == ""
    assert native_instead(pick(beside, "pytorch", "12.6"), beside) == ""  # it would be the CPU build
    assert native_instead(pick(beside, "cuda-version=12.9 cuda-core", "12.6"), beside) == ""  # as asked for
