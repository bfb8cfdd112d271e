"""The lines of `ctk solve --explain`, and the sentence for a request without a solution."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelMissing, Unsolvable
from ctk.core.platforms import this_platform
from ctk.lock.model import release_locks
from ctk.plan.names import known_names
from ctk.solve.advice import (
    Checkout,
    CheckoutCatalogue,
    Maker,
    asking_for_cuda,
    checkout_of,
    not_built,
)
from ctk.solve.builds import choices, native_instead
from ctk.solve.machine import python_specs
from ctk.solve.solve import ASKING, Catalogue, Pick, Scenario, channel_url
from ctk.solve.why import (
    TAKE_NVCC,
    explain,
    find_reason,
    fit_in_words,
    newer_nvjitlink,
    solve_or_say_why,
)
from kit import foreign_channel
from kit.small_channel import (
    TOOLKITS,
    Record,
    asking,
    base,
    channel,
    pair,
    record,
    toolkit,
    write,
)

NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel, only ptxas, libNVVM and headers"
PTX_NOT = "machine code and nvJitLink work, but the driver refuses its PTX with error 222"
LOADS = "native: the driver loads the PTX of this toolkit"


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory, project: Workspace) -> Catalogue:
    place = tmp_path_factory.mktemp("channels")
    channels = [write(place / "channel", channel()), write(place / "base", base())]
    return CheckoutCatalogue(
        channels, "linux-64", Checkout(known_names=partial(known_names, project))
    )


def read(name: str) -> list[tuple[str, list[str]]]:
    """The questions of a file, each with its indented lines."""
    blocks = re.findall(
        r"^([^#\s].*)\n((?:  .*\n)+)", Path(__file__).with_name(name).read_text(), re.M
    )
    return [(question, [line.strip() for line in lines.splitlines()]) for question, lines in blocks]


def asked(question: str) -> tuple[str, str | None, str | None]:
    """Specs, driver and GPU of ``13.0 none cuda-core``."""
    driver, gpu, specs = question.split(" ", 2)
    return specs, None if driver == "none" else driver, None if gpu == "none" else gpu


def pick(
    catalogue: Catalogue, specs: str, driver: str | None = None, arch: str | None = None
) -> Pick:
    """The pick for a request on the catalogue's platform.

    ``python:3.14t`` stands for --python 3.14t.
    """
    wanted = [
        one
        for s in specs.split()
        for one in (python_specs(s[7:]) if s.startswith("python:") else (s,))
    ]
    return solve_or_say_why(Scenario(tuple(wanted), catalogue.subdir, driver, arch), catalogue)


def problem(catalogue: Catalogue, specs: str, *machine: str | None) -> tuple[str, str]:
    """The sentence and the next step for a request without a solution."""
    with pytest.raises(Unsolvable) as error:
        pick(catalogue, specs, *machine)
    sentence, *solver = error.value.cause.splitlines()
    assert solver, "the solver's own text follows"
    assert error.value.exit_code == 10
    return sentence, error.value.step


# --- why this toolkit


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("12.4 9.0 cuda-core", "12.4"),  # instead of 12.0
        ("12.8 10.0 cuda-core", "12.8"),  # instead of 12.9 compat
        ("12.4 none cuda-core cuda-version=12", "12.4"),
        ("12.4 none cuda-core cuda-version=12.0", ""),  # as asked for
        ("13.0 none cuda-core", ""),  # the channel has it
        ("12.8 10.3 cuda-core", ""),  # no toolkit is native there
        ("none none cuda-core", ""),
        ("12.4 none python", ""),
    ],
)
def test_a_locked_toolkit_that_would_be_better_and_is_not_in_the_channel_is_named(
    question: str, best: str, catalogue: Catalogue, project: Workspace
) -> None:
    assert (
        not_built(pick(catalogue, *asked(question)), release_locks(project).values(), catalogue)
        == best
    )


@pytest.mark.parametrize(("question", "lines"), read("explained.txt"))
def test_each_toolkit_that_was_passed_over_has_a_line(
    catalogue: Catalogue, question: str, lines: list[str]
) -> None:
    assert explain(pick(catalogue, *asked(question)), catalogue) == lines


def test_a_library_of_a_newer_toolkit_is_named_with_the_driver_that_its_ptx_needs(
    tmp_path: Path,
) -> None:
    records = [
        *toolkit("12.0"),
        *pair("libnvjitlink", "12.3.101", "h", "linux-64", ">=12.0,<12.4"),
        *pair("libnvfatbin", "12.4.127", "h", "linux-64", ">=12.0,<12.5"),
    ]
    made = Catalogue([write(tmp_path / "channel", iter(records))], "linux-64")
    (line,) = explain(pick(made, "libnvjitlink libnvfatbin", "12.2", "9.0"), made)
    assert (
        line
        == f"12.0 is picked, {LOADS}. 12.0 has no nvJitLink that Python can use: libnvjitlink is"
        " 12.3's, and PTX that it links needs a driver for CUDA 12.3 (this one supports 12.2). 12.0"
        " has no nvFatbin that Python can use: libnvfatbin is 12.4's."
    )


@pytest.mark.parametrize(
    ("lost", "specs", "line"),
    [
        (
            ("cuda-nvcc", "13.4.20", ""),
            "cuda-nvcc",
            "cuda-nvcc is not published for toolkit 13.4; it is for 13.0.",
        ),
        (
            ("cuda-core", "1.2.0", "cuda13_py312"),
            "cuda-core python:3.12",
            (
                "cuda-core is not built for Python 3.12 with toolkit 13.4; it is for 3.13, 3.14 and"
                " 3.14t."
            ),
        ),
    ],
)
def test_what_a_newer_toolkit_lacks_is_named(
    tmp_path: Path, lost: tuple[str, ...], specs: str, line: str
) -> None:
    name, version, build = lost
    few = (
        r
        for r in channel()
        if not (r["name"] == name and r["version"] == version and build in r["build"])
    )
    made = Catalogue(
        [write(tmp_path / "channel", few), write(tmp_path / "base", base())], "linux-64"
    )
    assert explain(pick(made, specs, "13.4"), made)[0] == f"13.4: {line}"


def library_for(*versions: str) -> list[Record]:
    """The toolkits, and a library with builds for some of them."""
    records = [r for version in TOOLKITS for r in toolkit(version)]
    for version in versions:
        major, minor = version.split(".")
        on = f">={version},<{major}.{int(minor) + 1}"
        records += pair("library", "1.0", f"cuda{major}{minor}_", "linux-64", on)
    return records


@pytest.mark.parametrize(
    ("planned", "made"), [((*TOOLKITS,), "built here"), (("12.0",), "published")]
)
def test_what_the_machine_lacks_comes_before_what_a_package_is_not_made_for(
    tmp_path: Path, planned: tuple[str, ...], made: str
) -> None:
    all_of_it = Catalogue([write(tmp_path / "planned", iter(library_for(*planned)))], "linux-64")
    place = write(tmp_path / "channel", iter(library_for("12.0")))
    makers = {"library": Maker("library", is_default=True)}
    checkout = Checkout(maker=makers.get, planned=lambda: all_of_it)
    built = CheckoutCatalogue([place], "linux-64", checkout)
    old_driver = explain(pick(built, "library", "12.4", "8.9"), built)
    have = "this one supports 12.4"
    too_old = "Even minor-version compatibility needs a driver for CUDA 13.0."
    assert old_driver == [
        f"13.4 native needs a driver for CUDA 13.4; {have}. {too_old}",
        f"13.0 native needs a driver for CUDA 13.0; {have}. {too_old}",
        f"12.9 native needs a driver for CUDA 12.9; {have}."
        f" Besides, library is not {made} for toolkit 12.9; it is for 12.0.",
        f"12.0 is picked, {LOADS}.",
    ]
    newest, *_ = explain(pick(built, "library", "13.4", "8.9"), built)
    assert newest == f"13.4: library is not {made} for toolkit 13.4; it is for 12.0."


@pytest.mark.parametrize(
    ("planned", "made"), [(("13.0", "13.4"), "built here"), (("13.0",), "published")]
)
def test_a_package_that_is_not_built_for_other_toolkits_is_not_called_unpublished(
    tmp_path: Path, planned: tuple[str, ...], made: str
) -> None:
    all_of_it = Catalogue([write(tmp_path / "planned", iter(library_for(*planned)))], "linux-64")
    place = write(tmp_path / "channel", iter(library_for("13.0")))
    makers = {"library": Maker("library", is_default=True)}
    checkout = Checkout(maker=makers.get, planned=lambda: all_of_it)
    built = CheckoutCatalogue([place], "linux-64", checkout)
    sentence, _ = problem(built, "library", "12.9", "8.9")
    assert sentence.startswith(f"library is {made} for toolkit 13.0 only, which needs a driver")


def test_a_channel_with_one_build_of_each_toolkit_has_nothing_to_explain(tmp_path: Path) -> None:
    one = [
        {**r, "build": "h1_0"}
        for r in channel()
        if r["name"] == "cuda-version" and "compat" in r["build"]
    ]
    old = Catalogue([write(tmp_path / "old", iter(one))], "linux-64")
    picked = pick(old, "cuda-version", "13.0")
    assert (picked.fit, fit_in_words(picked, old)) == ("", "")
    assert explain(picked, old) == [
        "this channel's cuda-version has no native and compat builds to choose by"
    ]


# --- why there is no solution


@pytest.mark.parametrize(("question", "said"), read("unsolvable.txt"))
def test_a_request_without_a_solution_has_one_sentence_and_a_step(
    catalogue: Catalogue, question: str, said: list[str]
) -> None:
    subdir, _, rest = question.partition(" ")
    found = problem(
        CheckoutCatalogue(catalogue.channels, subdir, checkout_of(catalogue)), *asked(rest)
    )
    for text, wanted in zip(found, said, strict=True):
        assert fnmatchcase(text, wanted.replace("[", "[[]").replace("*", "[*]").replace("...", "*"))


def test_conda_forge_is_named_for_a_package_unless_it_was_asked_and_a_client_only_with_a_channel(
    tmp_path: Path,
) -> None:
    steps = {}
    for ours, theirs in (("planned/channel", "planned/base"), ("channel", "conda-forge")):
        places = [write(tmp_path / ours, channel()), write(tmp_path / theirs, base())]
        made = CheckoutCatalogue(
            places, "linux-64", Checkout(is_planned=ours.startswith("planned"))
        )
        steps[ours] = problem(made, "cuda-core pytorch")[1]
    assert steps["planned/channel"] == "conda-forge has pytorch: add --base conda-forge"
    assert (
        steps["channel"]
        == "see how its name is written, or name a channel that has it with --channel or --base"
    )


@pytest.mark.parametrize(
    ("request_", "command"),
    [
        ("12.9 none cuda-core cuda-nvcc", "cuda-gpu cuda-core cuda-nvcc"),
        ("none none cuda-nvcc cuda-version=12.9", "cuda-nvcc cuda-version=12.9"),
        ("13.0 none cuda-nvcc=12.9", "cuda-gpu cuda-nvcc=12.9"),
        ("13.0 7.0 cuda-nvcc", "cuda-gpu cuda-nvcc cuda-version=12"),
        ("11.8 none cuda-nvcc", ""),  # has no toolkit of CUDA 12
        ("13.0 3.5 cuda-nvcc", ""),
        ("13.0 7.0 cuda-nvcc=13.0", ""),  # contradicts CUDA 12
        ("12.9 none cuda-nvcc=13.0", ""),
    ],
)
def test_nvcc_of_cuda_12_is_at_conda_forge(
    catalogue: Catalogue, request_: str, command: str
) -> None:
    """`tests/system/verify/test_flexible.py` solves such lines.

    A page makes the command for each client itself, of what to ask for.
    """
    driver = request_.partition(" ")[0]
    state = "" if driver == "none" else f"CONDA_OVERRIDE_CUDA={driver} "
    page = Catalogue(catalogue.channels, "linux-64")
    known = CheckoutCatalogue(catalogue.channels, "linux-64", Checkout())
    place = channel_url(catalogue.channels[0])
    _, step = problem(known, *asked(request_))
    words = "conda-forge has nvcc of CUDA 12; in conda or mamba"
    line = f"{words}: {state}conda create -n gpu -c {place} -c conda-forge {command}"
    last = [text for text in step.splitlines() if text.startswith("conda-forge")]
    assert last == ([line] if command else [])
    specs, driver_, gpu = asked(request_)
    reason = find_reason(Scenario(tuple(specs.split()), page.subdir, driver_, gpu), page)
    assert " ".join(reason.nvcc) == command and "conda create" not in reason.step


@pytest.mark.parametrize(("driver", "gpu"), [("13.0", "7.0"), ("12.9", "7.0"), ("12.9", None)])
def test_nobody_needs_another_gpu_where_the_nvcc_of_conda_forge_compiles_for_it(
    catalogue: Catalogue, driver: str, gpu: str | None
) -> None:
    page = Catalogue(catalogue.channels, "linux-64")
    here = CheckoutCatalogue(catalogue.channels, "linux-64", Checkout())
    _, step = problem(here, "cuda-nvcc", driver, gpu)
    reason = find_reason(Scenario(("cuda-nvcc",), page.subdir, driver, gpu), page)
    assert "use a GPU" not in step and reason.nvcc
    # A driver can be updated.
    assert (reason.step == TAKE_NVCC) is (gpu is not None)
    assert step.endswith("cuda-nvcc" if driver == "12.9" else "cuda-nvcc cuda-version=12")


def test_only_what_helps_is_told_to_be_left_out(catalogue: Catalogue) -> None:
    """Without the toolkit, nvcc of CUDA 13 needs a newer driver than the machine has."""
    request = asked("12.9 none cuda-core cuda-version=12.9 cuda-nvcc")
    _, step = problem(catalogue, *request)
    assert step.splitlines()[0] == "leave out cuda-nvcc"


NOBODY = (
    "foobarx",
    "cub-client",
    "pytorch-cudax",
    "scipyy",
    "requests-oauth",
    "cpu-only-torch",
    "nvidia-no-such-cu12",
)


@pytest.mark.parametrize("name", NOBODY)
def test_a_name_of_no_list_is_never_a_command_that_fetches_it(
    catalogue: Catalogue, name: str
) -> None:
    """Anybody may register such a name at pip's index, or at a channel."""
    cause, step = problem(catalogue, f"cuda-core {name}")
    assert cause == f"there is no package {name} in the channels"
    assert not re.search("pip|conda-forge|conda create", step)


FETCHES = re.compile(r"pip install (\S+)|conda-forge has (\S+):|-c conda-forge (.+)")


@pytest.mark.parametrize(
    "name", ["pytorch-cuda", "cpuonly", "thrust", "environment.yml", "cub", "magma", "pytorch"]
)
def test_what_is_fetched_is_of_the_list_whatever_was_typed(catalogue: Catalogue, name: str) -> None:
    _, step = problem(catalogue, name)
    fetched = {
        word
        for found in FETCHES.findall(step)
        for word in " ".join(found).split()
        if "cuda-version" not in word
    }
    assert fetched <= {"pytorch", "pytorch-cpu", "libmagma"}
    assert "pip install" not in step, (
        "the projects of these names on the index are others, or bring a CUDA of their own"
    )


def test_pip_is_named_with_an_environment_that_has_it_and_the_rest_of_the_request(
    catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = CheckoutCatalogue(catalogue.channels, this_platform(), checkout_of(catalogue))
    *_, with_pip = problem(here, "cuda-core pandas", "13.0", "9.0")[1].splitlines()
    assert (
        with_pip
        == "with pip: ctk env create cuda-core pip --prefix ./my-env --driver 13.0 --arch 9.0 && "
        "ctk env run ./my-env -- python -m pip install pandas"
    )
    Path("my-env").mkdir()
    *_, with_pip = problem(here, "cuda-core pandas", "13.0", "9.0")[1].splitlines()
    assert with_pip.count("./my-env-2") == with_pip.count("./my-env") == 2


def test_a_package_that_needs_a_newer_glibc_with_one_toolkit_is_published_for_it_all_the_same(
    tmp_path: Path,
) -> None:
    records = [*toolkit("13.0"), *toolkit("13.4")]
    for version, on, glibc in (
        ("13.0.9", ">=13.0,<13.1", "2.17"),
        ("13.4.9", ">=13.4,<13.5", "2.34"),
    ):
        records += pair("programs", version, "h", "linux-aarch64", on, (f"__glibc >={glibc}",))
    made = Catalogue([write(tmp_path / "channel", iter(records))], "linux-aarch64")
    sentence, step = problem(made, "programs cuda-version=13.4", "13.4")
    taken = "a linux-aarch64 machine is taken to have 2.28"
    assert sentence == f"programs 13.4.9 needs glibc 2.34, and {taken}"
    say = "say what it has: `export CONDA_OVERRIDE_GLIBC=2.34`"
    assert step == f"ask for an older version, or {say}"


def test_every_package_that_needs_a_newer_glibc_is_named_with_the_glibc_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the base channel too, which is made of a machine's files."""

    def made_of(machine: str, of: str, *more: str) -> Record:
        return record(of, "1.0", "h_0", "linux-64", depends=[f"__glibc >={machine},<3.0.a0", *more])

    ours = [made_of("2.17", "app", "python", "libstdcxx")]
    theirs = [made_of("2.35", name) for name in ("python", "libgcc")]
    theirs.append(made_of("2.36", "libstdcxx", "libgcc"))
    channels = [write(tmp_path / "channel", iter(ours)), write(tmp_path / "base", iter(theirs))]
    steps = {}
    for stated, said in {
        "2.35": "libstdcxx 1.0 needs glibc 2.36, and CONDA_OVERRIDE_GLIBC states 2.35",
        "2.28": (
            "libstdcxx 1.0 needs glibc 2.36, libgcc 1.0 and python 1.0 need 2.35, "
            "and CONDA_OVERRIDE_GLIBC states 2.28"
        ),
    }.items():
        monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", stated)
        sentence, steps[stated] = problem(Catalogue(channels, "linux-64"), "app", "13.0")
        assert sentence == said
    assert steps["2.28"].startswith("make the base channel on the oldest system that will use it")
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.36")
    assert Catalogue(channels, "linux-64").solves(Scenario(("app",), "linux-64"))
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.16")
    assert problem(Catalogue(channels, "linux-64"), "app")[0].endswith(
        "app 1.0 needs 2.17, and CONDA_OVERRIDE_GLIBC states 2.16"
    )


def test_the_solver_s_text_follows_only_where_the_step_is_to_read_it(tmp_path: Path) -> None:
    library = [record("lib", version, "h_0", "linux-64") for version in ("1.0", "2.0")]
    helper = record("helper", "1.0", "h_0", "linux-64", depends=["lib <2"])
    app = record("app", "1.0", "h_0", "linux-64", depends=["lib >=2", "helper"])
    made = Catalogue([write(tmp_path / "channel", iter([*library, helper, app]))], "linux-64")

    def said(specs: str, lines: int | None) -> tuple[str, list[str], str]:
        with pytest.raises(Unsolvable) as error:
            solve_or_say_why(Scenario((specs,), "linux-64"), made, lines)
        cause, *solver = error.value.cause.splitlines()
        return cause, solver, error.value.step

    cause, solver, step = said("app", 2)
    assert (cause, step) == (
        "app needs lib >=2 and helper, which cannot be installed together",
        "read what the solver says",
    )
    assert solver[0].startswith("no set of packages satisfies app on linux-64")
    more = r"\.\.\. and \d+ lines more; `ctk solve` with --explain shows all"
    assert re.fullmatch(more, solver[2])
    whole = said("app", None)[1]
    assert len(whole) > len(solver) and not any("more;" in line for line in whole)
    assert said("lib=3", 2)[1] == []
    assert said("lib=3", None)[1]


def test_a_glibc_that_the_request_itself_excludes_is_no_reason(tmp_path: Path) -> None:
    records = [record("app", "1.0", "h_0", "linux-64")]
    made = Catalogue([write(tmp_path / "channel", iter(records))], "linux-64")
    sentence, _ = problem(made, "app __glibc<2")
    assert "needs glibc" not in sentence


@pytest.mark.parametrize(
    ("request_", "driver", "said"),
    [
        ("cuda-nvcc=12", None, True),
        ("cuda-nvcc cuda-version=12", None, True),
        ("cuda-nvcc", "12.9", True),
        ("cuda-nvcc=14", None, False),
        ("cuda-nvcc python=2", None, False),
        ("cuda-nvrtc=11", "12.9", False),
    ],
)
def test_a_request_for_nvcc_with_cuda_12_gets_the_reason(
    catalogue: Catalogue, request_: str, driver: str | None, said: bool
) -> None:
    assert problem(catalogue, request_, driver)[0].endswith(f"; {NO_NVCC}") is said


def test_for_a_recipe_s_environment_no_client_is_told_to_make_it(
    catalogue: Catalogue, project: Workspace
) -> None:
    checkout = Checkout(known_names=partial(known_names, project), is_for_recipe=True)
    recipe_s = CheckoutCatalogue(catalogue.channels, "linux-64", checkout)
    assert problem(recipe_s, "cuda-core zlib") == (
        "there is no package zlib in the channels",
        "conda-forge has zlib: add --base conda-forge",
    )


@pytest.mark.parametrize(
    ("pin", "options"),
    [(" cuda-version=13.0", " --release 13.0"), (" cuda-version=13.*", ""), ("", "")],
)
def test_what_is_built_for_one_toolkit_is_built_for_that_one_only(
    catalogue: Catalogue, pin: str, options: str
) -> None:
    makers = {"libcublas": Maker("libcublas", False)}
    here = CheckoutCatalogue(catalogue.channels, "linux-64", Checkout(maker=makers.get))
    assert problem(here, f"libcublas{pin}")[1] == f"run `ctk build libcublas{options}`"


def test_a_package_with_a_recipe_that_was_not_built_says_how_to_get_it(
    catalogue: Catalogue,
) -> None:
    makers = {"libcublas": Maker("libcublas", False), "cuda-runtime": Maker("cuda-toolkit", True)}
    here = CheckoutCatalogue(catalogue.channels, "linux-64", Checkout(maker=makers.get))
    assert problem(here, "libcublas") == (
        (
            "libcublas is not built here: it is made by the recipe libcublas, which the default"
            " build leaves out"
        ),
        "run `ctk build libcublas`",
    )
    assert problem(here, "cuda-runtime") == (
        "cuda-runtime is not built here: it is made by the recipe cuda-toolkit",
        "run `ctk build cuda-toolkit`",
    )


def test_a_build_is_proposed_only_of_a_version_that_the_recipes_make(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    more = [
        record("tools", v, "h_0", "linux-64", depends=[f"cuda-version {v}.*"])
        for v in ("12.9", "13.0")
    ]
    planned = Catalogue(
        [write(tmp_path / "planned", iter([*channel(), *more])), *catalogue.channels[1:]],
        "linux-64",
    )
    few = [r for r in channel() if r["version"] != "12.9"]
    few += [
        record(f"one{v}", "1", "h_0", "linux-64", depends=[f"tools {v}.*"])
        for v in ("12.8", "12.9", "13.0")
    ]
    few.append(
        record("two", "1", "h_0", "linux-64", depends=["cuda-version <13", "cuda-version >=13"])
    )
    places, makers = (
        [write(tmp_path / "channel", iter(few)), *catalogue.channels[1:]],
        {"tools": Maker("tools", False)},
    )
    here = CheckoutCatalogue(
        places, "linux-64", Checkout(maker=makers.get, planned=lambda: planned)
    )
    platform = "" if this_platform() == "linux-64" else " --platform linux-64"
    cause, step = problem(here, "one12.8")
    assert cause == "one12.8 needs tools 12.8.*, of which the recipes here make only 12.9 and 13.0"
    assert step.startswith("name a base channel that has tools")
    assert problem(here, "one12.9")[1] == f"run `ctk build tools --release 12.9{platform}`"
    assert problem(here, "one13.0")[1] == f"run `ctk build tools{platform}`"
    assert (
        problem(here, "two")[0]
        == "two needs cuda-version <13 and cuda-version >=13, which cannot be installed together"
    )


ONLY_13 = "cuda-core is not built here for this machine"
NOT_AT_ALL = "there is no cuda-bindings 12.10.1 in the channels; there is 13.5.1"


@pytest.mark.parametrize(
    ("question", "cause", "step"),
    [
        (
            "12.9 9.0 cuda-core cuda-nvrtc",
            ONLY_13,
            "run `ctk build cuda-core --driver 12.9 --arch 9.0`",
        ),
        ("12.9 none cuda-core", ONLY_13, "run `ctk build cuda-core --driver 12.9`"),
        # Toolkit 12.0 is not there either, so the rest of the request is built for it too.
        (
            "12.4 7.0 cuda-core cuda-nvrtc",
            ONLY_13,
            "run `ctk build cuda-core cuda-nvrtc --driver 12.4 --arch 7.0`",
        ),
        (
            "12.9 7.0 cuda-bindings==12.10.1",
            NOT_AT_ALL,
            "run `ctk build cuda-bindings --driver 12.9 --arch 7.0`",
        ),
        # `ctk build` makes 12.9 for this machine.
        (
            "12.9 9.0 cuda-core cuda-version=12.0",
            "there is no cuda-version 12.0 *",
            "run `ctk build --release 12.0`",
        ),
        (
            "none none cuda-version==12.0",
            "there is no cuda-version 12.0 *",
            "run `ctk build --release 12.0`",
        ),
        (
            "none none cuda-version=12.0.1",
            "*has three; there is no cuda-version 12.0 *",
            "run `ctk build --release 12.0`",
        ),
        (
            "11.8 none cuda-version=12.0",
            "the driver supports CUDA 11.8; *",
            "update the driver to one *",
        ),
        (
            "11.8 9.0 cuda-core",
            "the driver supports CUDA 11.8; *",
            "update the driver to one for CUDA 13.0 or newer",
        ),
    ],
)
def test_what_is_built_for_other_machines_only_is_built_for_this_one(
    catalogue: Catalogue, tmp_path: Path, question: str, cause: str, step: str
) -> None:
    few = (
        r
        for r in channel()
        if r["version"] not in ("12.0", "12.0.99") and "cuda12_" not in r["build"]
    )
    makers = {
        name: Maker(name, True)
        for name in ("cuda-core", "cuda-bindings", "cuda-nvrtc", "cuda-version")
    }
    places = [write(tmp_path / "channel", few), *catalogue.channels[1:]]
    here = CheckoutCatalogue(
        places, "linux-64", Checkout(maker=makers.get, planned=lambda: catalogue)
    )
    platform = "" if this_platform() == "linux-64" else " --platform linux-64"
    found = problem(here, *asked(question))
    assert fnmatchcase(found[0], cause)
    assert fnmatchcase(found[1], f"{step[:-1]}{platform}`" if step.startswith("run") else step)


def test_a_package_of_build_recipe_names_its_channel(tmp_path: Path) -> None:
    ours = write(tmp_path / "channel", channel())
    made = write(tmp_path / "recipes" / "one", iter([record("two", "1", "h_0", "linux-64")]))
    here = CheckoutCatalogue([ours, write(tmp_path / "base", base())], "linux-64", Checkout())
    said = f"two is in the channel {made}, which was not named"
    assert problem(here, "two") == (said, f"name the channels: --channel {made} --channel {ours}")
    assert "other" in problem(here, "other")[0]


def test_a_channel_of_build_recipe_alone_names_the_other_channels(tmp_path: Path) -> None:
    """Before, what output/channel and another recipe have was looked for at conda-forge, or
    in pip.
    """
    ours = write(tmp_path / "channel", channel())
    needs = ["cuda-core", "__linux"]
    below = write(
        tmp_path / "recipes" / "below", iter([record("below", "1", "h_0", "noarch", depends=needs)])
    )
    mine = [record("mine", "1", "h_0", "linux-64", depends=["below >=1"])]
    made = write(tmp_path / "recipes" / "mine", iter(mine))
    here = CheckoutCatalogue(
        [made, write(tmp_path / "base", base())], "linux-64", Checkout(is_named=True)
    )
    cause = f"cuda-core is in the channel {ours}, which was not named"
    assert problem(here, "cuda-core") == (
        cause,
        f"name the channels: --channel {made} --channel {ours}",
    )
    assert problem(here, "mien") == (
        "there is no package mien in the channels",
        "did you mean mine?",
    )
    cause = f"mine needs below >=1, and below is in the channel {below}, which was not named"
    every = f"name the channels: --channel {below} --channel {made} --channel {ours}"
    assert problem(here, "mine") == (cause, every)
    assert problem(here, "cuda-core below")[1] == every


def test_a_package_that_has_no_code_for_a_gpu_is_the_reason_and_not_its_toolkits(
    tmp_path: Path,
) -> None:
    mine = record("mine", "1", "h_0", "linux-64", depends=["cuda-arch 9.0.*", "cuda-version"])
    ours = write(tmp_path / "channel", iter([*channel(), mine]))
    here = Catalogue([ours, write(tmp_path / "base", base())], "linux-64")
    cause, step = problem(here, "mine", "13.0", "8.0")
    assert cause == "mine needs cuda-arch 9.0.*: it has no code for a GPU 8.0"
    assert step == "use a GPU of compute capability 9.0 or newer"


def test_a_base_channel_that_has_nothing_for_the_platform(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    ours, _ = catalogue.channels
    linux_base = write(
        tmp_path / "base", (r for r in base() if r["subdir"] in ("linux-64", "noarch"))
    )
    windows = CheckoutCatalogue([ours, linux_base], "win-64", checkout_of(catalogue))
    lacks = "the base channel, which has nothing for win-64"
    step = "name a base channel that has python, such as --base conda-forge"
    assert problem(windows, "cuda-core", "13.0") == (f"cuda-core needs python from {lacks}", step)
    assert problem(windows, "cuda-core python:3.13", "13.0")[0] == f"python would come from {lacks}"


def test_a_folder_without_an_index_is_a_missing_channel(tmp_path: Path) -> None:
    with pytest.raises(ChannelMissing, match="there is no channel in "):
        pick(Catalogue([tmp_path], "linux-64"), "cuda-core")


# --- packages of other channels with CUDA and CPU builds


@pytest.fixture(scope="module")
def beside(
    catalogue: Catalogue, project: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Catalogue:
    """The small channel above conda-forge's GPU packages."""
    foreign = write(
        tmp_path_factory.mktemp("conda-forge"), foreign_channel.records(project.variants)
    )
    ours, base_channel = catalogue.channels
    return Catalogue([ours, foreign, base_channel], "linux-64")


def said(beside: Catalogue, specs: str, *machine: str | None) -> list[str]:
    return [choice.line for choice in choices(pick(beside, specs, *machine), beside)]


def test_a_cuda_build_that_costs_the_native_toolkit_is_said_with_what_to_type(
    beside: Catalogue,
) -> None:
    assert said(beside, "pytorch cuda-core", "12.6") == [
        "pytorch is the CUDA build here, and another client may take the CPU build: name the one"
        " you want. "
        f'"pytorch=*=cuda*" gives CUDA with toolkit 12.9, compat: {PTX_NOT}; '
        '"pytorch=*=cpu*" gives the CPU build with toolkit 12.0, native: the driver loads the PTX'
        " of this toolkit"
    ]


def test_explain_says_that_an_older_native_toolkit_goes_with_the_cpu_build(
    beside: Catalogue,
) -> None:
    *_, oldest = explain(pick(beside, "pytorch cuda-core", "12.6"), beside)
    assert oldest == "12.0 native is possible too, with the CPU build of pytorch."


def test_a_cpu_build_where_cuda_can_be_had_is_said_with_what_gives_cuda(beside: Catalogue) -> None:
    """The pick of conda and mamba, which prefer native."""
    theirs = pick(beside, "pytorch=*=cpu* cuda-core", "12.6")
    theirs = replace(theirs, scenario=replace(theirs.scenario, specs=("pytorch", "cuda-core")))
    assert [choice.line for choice in choices(theirs, beside)] == [
        'pytorch is the CPU build here; "pytorch=*=cuda*" gives CUDA with toolkit 12.9, compat:'
        f" {PTX_NOT}"
    ]


def test_a_build_string_that_ends_in_cuda_is_asked_for_as_such(beside: Catalogue) -> None:
    (line,) = said(beside, "onnxruntime cuda-core", "12.6")
    assert '"onnxruntime=*=*cuda*"' in line and '"onnxruntime=*=*cpu*"' in line


def test_a_cuda_build_of_the_older_major_is_said_too(beside: Catalogue) -> None:
    (line,) = said(beside, "jaxlib cuda-core", "13.0")
    assert (
        "gives CUDA with toolkit 12.9, native" in line
        and "the CPU build with toolkit 13.0, native" in line
    )


def test_a_pin_that_keeps_every_cuda_build_out_is_named(beside: Catalogue) -> None:
    assert said(beside, "cuda-version=12.0 pytorch cuda-core", "12.6") == [
        "pytorch is the CPU build here: its CUDA builds do not work with your cuda-version=12.0"
    ]


def test_a_cuda_build_that_nothing_of_the_request_keeps_out_is_said_to_be_out_of_reach(
    beside: Catalogue, tmp_path: Path
) -> None:
    """A package of the first channel hides all versions of the same package in the others."""
    _, foreign, base_channel = beside.channels
    newer = [
        record(
            "cuda-cuobjdump", "13.4.1", "h0_0", "linux-64", depends=["cuda-version >=13.4,<13.5"]
        )
    ]
    hiding = write(tmp_path / "hiding", iter([*channel(), *newer]))
    assert said(
        Catalogue([hiding, foreign, base_channel], "linux-64"), "pytorch cuda-core", "12.9"
    ) == [
        "pytorch is the CPU build here: its CUDA builds do not work with these channels on this"
        " machine"
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


def test_the_package_that_asks_for_cuda_builds_is_what_to_type_for_those_it_knows(
    beside: Catalogue, tmp_path: Path
) -> None:
    _, foreign, base_channel = beside.channels
    ours = write(
        tmp_path / "asks", iter([*channel(), *asking("pytorch * cuda*", "jaxlib * cuda*")])
    )
    asks = Catalogue([ours, foreign, base_channel], "linux-64")
    (line,) = said(asks, "pytorch cuda-core", "12.6")
    assert f"cuda-gpu, named first, gives CUDA with toolkit 12.9, compat: {PTX_NOT};" in line
    (choice,) = choices(pick(asks, "pytorch cuda-core", "12.6"), asks)
    assert choice.as_json()["cuda"]["spec"] == "cuda-gpu"
    assert said(asks, "cuda-gpu pytorch cuda-core", "12.6") == []
    (line,) = said(asks, "cuda-gpu onnxruntime cuda-core", "12.6")  # which it does not know
    assert '"onnxruntime=*=*cuda*" gives' in line
    # Where a native toolkit serves, the environment keeps it with the other one.
    (line,) = said(asks, "pytorch cuda-core", "13.0")
    assert f"cuda-native, named first, gives CUDA with toolkit 12.9, {LOADS};" in line
    (choice,) = choices(pick(asks, "pytorch cuda-core", "13.0"), asks)
    assert choice.as_json()["cuda"] == {"spec": "cuda-native", "toolkit": "12.9", "fit": "native"}
    assert said(asks, "cuda-native pytorch cuda-core", "13.0") == []


@pytest.mark.parametrize(
    ("specs", "driver", "first"),
    [
        ("pytorch cuda-core", "12.6", "cuda-gpu"),  # CUDA builds for 12.9 and 13.4
        ("pytorch cuda-core", "12.9", "cuda-native"),
        ("pytorch cuda-core", "13.0", "cuda-native"),
        ("cuda-core", "12.6", "cuda-native"),
        ("cuda-core cuda-gpu", "12.6", "cuda-native"),
        ("cuda-native pytorch", "12.6", "cuda-gpu"),
        ("cuda-core cuda-version=13.4", "13.0", "cuda-gpu"),  # compat is asked for
        ("cuda-core", None, "cuda-gpu"),
    ],
)
def test_the_first_package_is_the_one_that_keeps_a_native_toolkit_where_one_serves(
    beside: Catalogue, tmp_path: Path, specs: str, driver: str | None, first: str
) -> None:
    _, foreign, base_channel = beside.channels
    ours = write(tmp_path / "asks", iter([*channel(), *asking("pytorch * cuda*")]))
    asks = Catalogue([ours, foreign, base_channel], "linux-64")
    typed = asking_for_cuda(Scenario(tuple(specs.split()), "linux-64", driver), asks)
    others = [spec for spec in specs.split() if spec not in ASKING]
    assert typed.specs == (first, *others)
    if driver:
        fit = "native" if first == "cuda-native" else "compat"
        assert pick(asks, " ".join(typed.specs), driver).fit == fit


def test_who_asks_for_a_native_toolkit_where_none_serves_is_told_the_name_that_admits_compat(
    beside: Catalogue, tmp_path: Path
) -> None:
    _, foreign, base_channel = beside.channels
    ours = write(tmp_path / "asks", iter([*channel(), *asking("pytorch * cuda*")]))
    asks = Catalogue([ours, foreign, base_channel], "linux-64")
    _, step = problem(asks, "cuda-native pytorch", "12.6")
    assert (
        "name cuda-gpu in place of cuda-native so that the solver can choose toolkit 12.9 compat"
        in step
    )
    _, step = problem(asks, "cuda-native cuda-core", None)
    assert step.endswith(
        "or leave out cuda-native so that the solver can choose toolkit 13.4 compat"
    )


def test_without_a_driver_the_package_that_asks_for_cuda_builds_may_be_left_out(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    asks = pair("cuda-gpu", "1", "h_", "linux-64", "*", ("__cuda",))
    channels = [write(tmp_path / "asks", iter([*channel(), *asks])), *catalogue.channels[1:]]
    page = Catalogue(channels, "linux-64")
    choose = "choose the driver of the machine, for CUDA 12.0 or newer"
    assert problem(page, "cuda-gpu", None)[1] == choose, "a page has no options"
    asked = CheckoutCatalogue(channels, "linux-64", Checkout())
    state = "state the driver of the machine, as in --driver 12.0"
    assert (
        problem(asked, "cuda-gpu cuda-core", None)[1]
        == f"{state}, or leave out cuda-gpu so that the solver can choose toolkit 13.4 compat"
    )
    assert problem(asked, "cuda-gpu", None)[1] == state


def test_a_toolkit_that_the_channel_lacks_is_named_where_a_cuda_build_needs_it(
    beside: Catalogue, tmp_path: Path
) -> None:
    _, foreign, base_channel = beside.channels
    small = write(tmp_path / "small", iter([*toolkit("12.0"), *toolkit("13.0")]))
    only = Catalogue([small, foreign, base_channel], "linux-64")
    picked = pick(only, "pytorch=*=cpu* cuda-version", "13.0")
    picked = replace(picked, scenario=replace(picked.scenario, specs=("pytorch", "cuda-version")))
    assert [choice.line for choice in choices(picked, only)] == [
        "pytorch is the CPU build here: its CUDA builds do not work with this channel, which lacks"
        " toolkit 12.9 and 13.4"
    ]


def test_a_newer_nvjitlink_is_said_with_what_it_costs(beside: Catalogue, tmp_path: Path) -> None:
    _, _, base_channel = beside.channels
    newer = record(
        "libnvjitlink",
        "13.4.92",
        "newer_h0_50",
        "linux-64",
        depends=["cuda-version >=13,<13.4 native_*"],
    )
    ours = write(tmp_path / "newer", iter([*channel(), newer]))
    found = pick(Catalogue([ours, base_channel], "linux-64"), "libnvjitlink=13.4.92", "13.0")
    assert list(newer_nvjitlink(found.records, found.scenario.specs, "13.0")) == [
        "nvJitLink is of toolkit 13.4, as asked for: machine code that it links runs, and PTX that"
        " it writes needs a driver for CUDA 13.4"
    ]
    assert newer_nvjitlink(found.records, ["cuda-core"], "13.0") == [], "nobody asked for it"
    assert newer_nvjitlink(pick(beside, "cuda-core", "13.0").records, ["cuda-core"], "13.0") == []


@pytest.mark.parametrize(("driver", "is_said"), [("12.0", True), ("12.3", False)])
def test_a_toolkit_without_its_own_nvjitlink_has_an_exception_on_an_older_driver(
    driver: str, is_said: bool, tmp_path: Path
) -> None:
    """Toolkits 12.0 to 12.2 are tied to that of 12.3."""
    tied = [*toolkit("12.0"), *pair("libnvjitlink", "12.3.101", "", "linux-64", ">=12.0,<12.4")]
    found = pick(
        Catalogue([write(tmp_path / "tied", iter(tied))], "linux-64"), "libnvjitlink", driver
    )
    exception = (
        "one exception: PTX that nvJitLink writes needs a driver for CUDA 12.3;"
        " machine code that it links runs"
    )
    said = newer_nvjitlink(found.records, found.scenario.specs, driver)
    assert said == ([exception] if is_said else [])


def test_a_package_tied_to_a_minor_may_bring_compat_where_native_could_be_had(
    beside: Catalogue,
) -> None:
    tied = pick(beside, "cuda-gdb cuda-core", "12.6")
    assert (tied.toolkit, tied.fit) == ("12.9", "compat")
    assert native_instead(tied, beside) == "12.0"
    assert (
        native_instead(pick(beside, "cuda-version=12.0 cuda-gdb cuda-core", "12.6"), beside) == ""
    )
    # It would be the CPU build.
    assert native_instead(pick(beside, "pytorch", "12.6"), beside) == ""
    # As asked for.
    assert native_instead(pick(beside, "cuda-version=12.9 cuda-core", "12.6"), beside) == ""
