"""Bad input for each command: the exit code of docs/errors.md, the cause, and the next step."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_origin

import pytest
from command_list import ALL, Typed, command, line

from ctk.cli.main import OF_OTHERS
from ctk.core.errors import (
    BadValue,
    ChannelMissing,
    CtkError,
    FileUnreadable,
    NoSpace,
    PublishFailed,
    UnknownName,
    Unsolvable,
)
from ctk.env.prefix import Note
from kit.next_steps import commands_in
from kit.world import World

pytest_plugins = ["command_fixtures"]

SPEC = "error: 'cuda-crt==' is not a spec: "
CHANNEL = "error: there is no channel in /no/place"
CASES: dict[str, tuple[type[CtkError], str]] = {
    "build --release 99.9": (UnknownName, "error: unknown release '99.9'"),
    "build no-package --all-releases": (UnknownName, "error: unknown package 'no-package'"),
    "build-recipe /no/place": (UnknownName, "error: there is no recipe in /no/place"),
    "check /no/place": (ChannelMissing, CHANNEL),
    "check {folder}": (UnknownName, "error: there are no packages in"),
    "check --check NoCheck": (UnknownName, "error: unknown check 'NoCheck'"),
    "check --rebuild no-number": (BadValue, "error: 'no-number' is not a number of packages"),
    "clean --no-option": (BadValue, "error: no such option: --no-option"),
    "doctor --driver 13.0": (BadValue, "error: --driver and --arch are for an environment"),
    "doctor /no/place": (BadValue, "error: /no/place is not an environment"),
    "env create cuda-crt== --prefix {folder}/env --base {base}": (BadValue, SPEC),
    "env create cuda-crt --prefix /proc/env --base {base}": (
        NoSpace,
        "error: cannot write /proc/env",
    ),
    "env add /no/place cuda-crt --base {base}": (
        BadValue,
        "error: /no/place is not an environment",
    ),
    "env module /no/place gpu/1 --to {folder}": (
        BadValue,
        "error: /no/place is not an environment",
    ),
    "env pack cuda-crt -o /no/place/crt.run --base {base}": (
        BadValue,
        "error: there is no folder /no/place",
    ),
    "env run /no/place -- true": (BadValue, "error: /no/place is not an environment"),
    "feedstock no-recipe {folder}/new": (UnknownName, "error: unknown recipe 'no-recipe'"),
    "build cuda-crt --fetch-only --all-releases --python 2.7": (
        UnknownName,
        "error: unknown Python '2.7'",
    ),
    "gpu-code /no/place": (UnknownName, "error: there is no /no/place"),
    "help solve cuda-crt": (BadValue, "error: ctk solve has no subcommands"),
    "solve cuda-crt --pin cuda-crt== --base {base}": (BadValue, SPEC),
    "solve cuda-crt --everywhere --driver 13.0": (
        BadValue,
        "error: --everywhere or --pin and --driver, --arch or --explain",
    ),
    "solve cuda-crt --platform linux-64 --platform win-64": (
        BadValue,
        "error: several platforms are for every machine",
    ),
    "solve ./mine --everywhere": (BadValue, "error: ./mine is a path, but this needs a spec"),
    "solve cuda-crt --prefix /no/place": (BadValue, "error: /no/place is not an environment"),
    "solve cuda-crt --prefix {folder} --everywhere": (
        BadValue,
        "error: --prefix and --everywhere, several machines",
    ),
    "solve no-package --everywhere --base {base}": (
        Unsolvable,
        "error: there is no package no-package",
    ),
    "build --dry-run --all-releases --platform linux-46": (
        UnknownName,
        "error: unknown platform 'linux-46'",
    ),
    "build --release 13.4 --all-releases": (
        BadValue,
        "error: --release and --all-releases exclude each other",
    ),
    "build a --all-components": (
        BadValue,
        "error: names of packages and --all-components exclude each",
    ),
    "build --recipe a": (BadValue, "error: no such option: --recipe"),
    "build --arch 7.0": (BadValue, "error: --arch has no effect without --driver"),
    "build --driver 11.8": (BadValue, "error: no locked release runs on"),
    "lint --planned --check NoCheck": (UnknownName, "error: unknown check 'NoCheck'"),
    "lint --planned --list": (
        BadValue,
        "error: --planned and --list and --format exclude each other",
    ),
    "publish": (BadValue, "error: there is no place to publish to"),
    "publish {folder}": (BadValue, "error: there is no place to publish to"),
    "publish --to http://localhost:1/cuda": (
        BadValue,
        "error: --to takes a folder, s3://BUCKET/PREFIX or KIND+https://HOST/CHANNEL, but"
        " http://localhost:1/cuda is none",
    ),
    "rollback http://localhost:1/cuda": (BadValue, "error: http://localhost:1/cuda is an address"),
    "solve cuda-core --driver 124": (
        BadValue,
        "error: '124' is not the CUDA version of a driver; 12.4 is one",
    ),
    "solve cuda-core --driver 580": (BadValue, "error: 580 is a driver's own version"),
    "publish {folder} --to {folder}/www": (
        PublishFailed,
        "error: there is no channel with packages in",
    ),
    "release add": (BadValue, "error: nothing says what to lock"),
    "release add python-14": (UnknownName, "error: unknown CUDA major '14'"),
    "release add no-release": (
        UnknownName,
        "error: 'no-release' is not a release, and no library or Python project here",
    ),
    "release add cupy": (BadValue, "error: a project is locked in one version, and 0 are named"),
    "release add cudart 13.0.0": (UnknownName, "error: cudart is a part of the CUDA Toolkit"),
    "release remove 13.5": (BadValue, "error: 13.5 is a toolkit release, and this command takes"),
    "release remove cupy 1.0": (UnknownName, "error: cupy 1.0 is not locked"),
    "release add 99.9": (UnknownName, "error: the package index has no CUDA Toolkit 99.9"),
    "release add 13.4 --newer": (BadValue, "error: --newer chooses what to lock"),
    "release check 99.9": (UnknownName, "error: the package index has no CUDA Toolkit 99.9"),
    "release diff 13.4 99.9": (UnknownName, "error: 99.9 is not locked"),
    "release diff 13.4 python-99": (UnknownName, "error: unknown release 'python-99'"),
    "release list --write-table": (BadValue, "error: no such option: --write-table"),
    "release measure 99.9": (UnknownName, "error: 99.9 is not locked"),
    "rollback /no/place": (ChannelMissing, CHANNEL),
    "rollback /no/place --to no-number": (BadValue, "error: invalid value for '--to'"),
    "site /proc/site": (NoSpace, "error: cannot write /proc/site"),
    "site {folder}/site --url notaurl": (BadValue, "error: notaurl is not an address on the web"),
    "site {folder}/site --package no-package --base {base}": (
        UnknownName,
        "error: unknown package 'no-package'",
    ),
    "solve Pipfile": (FileUnreadable, "error: Pipfile: there is no such file"),
    "solve cuda-crt==": (BadValue, SPEC),
    "solve cuda-crt --driver no-driver": (
        BadValue,
        "error: 'no-driver' is not the CUDA version of a driver",
    ),
    "solve cuda-crt --arch no-arch": (BadValue, "error: 'no-arch' is not a compute capability"),
    "solve cuda-crt --platform linux-46": (UnknownName, "error: unknown platform 'linux-46'"),
    "solve cuda-crt --python 3.x": (BadValue, "error: '3.x' is not a version of Python"),
    "solve cuda-crt --driver 12.4,13.0": (BadValue, "error: '12.4,13.0' is several drivers"),
    "solve cuda-crt --driver 13.0 --arch 7.0,9.0": (
        BadValue,
        "error: '7.0,9.0' is several compute capabilities",
    ),
    "build cuda-crt --driver 12.4:7.0,13.0:9.0 --dry-run": (
        BadValue,
        "error: '12.4:7.0,13.0:9.0' is several drivers",
    ),
    "solve cuda-crt --driver 12.4 13.0 --base {base}": (
        BadValue,
        "error: 13.0 is a version, but this needs the name of a package",
    ),
    "build cuda-gdb": (
        UnknownName,
        "error: cuda-gdb is NVIDIA's debugger; NVIDIA publishes no wheel of it",
    ),
    "build torch": (UnknownName, "error: torch is called pytorch here"),
    "build nvidia-cuda-crt-cu12": (
        UnknownName,
        "error: nvidia-cuda-crt-cu12 is ",
    ),
    "build cuda-crt --driver 12.4 13.0": (
        BadValue,
        "error: 13.0 is a version, but this needs the name of a package",
    ),
    "solve cuda-crt --arch 8.0 --arch 9.0 --base {base}": (
        BadValue,
        "error: several GPUs are for several machines, and no driver is stated",
    ),
    "verify --channel /no/place": (
        ChannelMissing,
        "error: there is no channel with packages for a platform in /no",
    ),
    "verify --request no-request": (UnknownName, "error: unknown request 'no-request'"),
    "verify --python 2.7": (UnknownName, "error: unknown Python '2.7'"),
    "version --no-option": (BadValue, "error: no such option: --no-option"),
}
"""Command line -> the error, and the beginning of its first line on stderr."""


@pytest.mark.parametrize(
    ("words", "said", "step"),
    [
        ("solve", "an argument is missing: what conda would be given", "as in `ctk solve "),
        (
            "solve cuda-core --driver",
            "option '--driver' requires an argument",
            "see ctk solve --help",
        ),
        (
            "env create cuda-core",
            "missing option '--prefix' / '-p': folder of the",
            "as in `ctk env create ",
        ),
        (
            "env pack numba-cuda cuda-version=12.6 --arch 7.0",
            "missing option '--output' / '-o': file",
            "as in `ctk env pack numba-cuda cuda-version=12.6 --arch 7.0 -o numba-cuda.run`; see",
        ),
        (
            "env pack --arch 7.0",
            "an argument is missing: what",
            "as in `ctk env pack cuda-core --driver 13.0",
        ),
        (
            "solve cuda-core -driver 13.0",
            "no such option: -driver. Did you mean --driver?",
            "see ctk solve --help",
        ),
        (
            "solve cuda-core -platform=linux-64",
            "no such option: -platform. Did you mean --platform?",
            "see ctk solve --help",
        ),
        (
            "solve 'cuda-core numba-cuda'",
            "'cuda-core numba-cuda' is several packages in one",
            "write them without: cuda",
        ),
        (
            "env add cupy",
            "an argument is missing: what conda would be",
            "as in `ctk env add ./my-env numba-cuda`",
        ),
        (
            "env install cupy",
            "there is no `ctk env install`",
            "`ctk env create cupy --prefix ./my-env` makes an environment, `ctk env add ./my-env"
            " cupy` adds to it",
        ),
        (
            "env module ./my-env",
            "an argument is missing: its name for",
            "as in `ctk env module ./my-env gpu/13.0 --to ./modules`",
        ),
        (
            "env pack cupy",
            "missing option '--output' / '-o'",
            "as in `ctk env pack cupy -o cupy.run`",
        ),
        (
            "env create numba-cuda ./my-env",
            "./my-env is not an environment, but this needs a spec",
            "name the packages that it should have, as in `ctk env create numba-cuda --prefix ./my-"
            "env`",
        ),
        (
            "env pack ./nosuch -o x.run",
            "./nosuch is not an environment, but this needs a spec",
            "name the packages that it should have, as in `ctk env pack cuda-core -o nosuch.run`",
        ),
        (
            "env create ./recipe.yaml --prefix ./e",
            "./recipe.yaml is a path",
            "for a recipe: ctk build-recipe ./recipe",
        ),
        (
            "doctor --arch 9.0",
            "--driver and --arch are for",
            "name its folder: ctk doctor ./my-env --arch 9.0",
        ),
        (
            "doctor './no env'",
            "no env is not an environment: it",
            "name one, or create one: `ctk env create cuda-core --prefix 'no",
        ),
        (
            "lint recipes/cuda-crt",
            "got unexpected extra argument(s) (recipes/cuda-crt)",
            "`ctk lint` reads all recipes",
        ),
        (
            "lint DevHasRunExports PinsSpanTheMajor",
            "got unexpected extra argument(s) (DevHasRunExports PinsSpanTheMajor)",
            "name a check as in `ctk lint --check DevHasRunExports --check PinsSpanTheMajor`",
        ),
        ("publish --keep 1 --to a", "--keep 1 would keep no state to return to", "name 2 or more"),
        ("prune", "there is no `ctk prune`", "`ctk clean` shows what nothing needs"),
        ("rollback http://x.org/cuda", "http://x.org/cuda is an address", "name the folder"),
        ("list", "there is no `ctk list`", "`ctk solve cuda-core` shows a package"),
        ("search cupy", "there is no `ctk search`", "`ctk solve cupy` shows a package"),
        (
            "install cupy jax",
            "there is no `ctk install`",
            "`ctk env create cupy jax --prefix ./my-env` makes an environment, `ctk env add"
            " ./my-env cupy jax` adds to it",
        ),
        (
            "install -n gpu cupy",
            "there is no `ctk install`",
            "`ctk env create cuda-core --prefix ./my-env` makes an",
        ),
        ("remove ./my-env", "there is no `ctk remove`", "to delete an environment, delete its"),
        (
            "env remove ./my-env",
            "there is no `ctk env remove`",
            "to delete an environment, delete its",
        ),
        ("activate ./my-env", "there is no `ctk activate`", "`. ./my-env/bin/activate`"),
        ("lst", "no such command 'lst'", "see ctk --help"),
        ("env creat", "no such command 'creat'. Did you mean 'create'?", "see ctk env --help"),
        (
            "env run ./my-env python -V",
            "no such option: -V",
            "write -- before the command and its options, as in ",
        ),
    ],
)
def test_a_command_line_that_lacks_something_is_answered_with_one_that_has_it(
    typed: Typed, words: str, said: str, step: str
) -> None:
    done = typed(*shlex.split(words))
    assert done.returncode == BadValue.exit_code
    assert f"error: {said}" in done.stderr and f"next: {step}" in done.stderr


def test_a_command_of_others_is_none_of_ours() -> None:
    """A name in the table would hide a command of the same name."""
    for group, names in OF_OTHERS.items():
        own = {name.removeprefix("env ") for name in ALL if name.startswith("env ")}
        assert not names.keys() & (own if group == "ctk env" else {name.split()[0] for name in ALL})


def numbers_and_choices() -> Iterator[tuple[str, str, str]]:
    """Command, option, and what is said of ``x``, for each option that takes one of these."""
    for name in ALL:
        for param in command(name).params:
            kind = param.type_descriptor.annotation
            option = max(param.opts, key=len)
            if kind is int:
                yield name, option, "it is not a whole number"
            elif get_origin(kind) is Literal:
                yield name, option, "'x' is not one of "


@pytest.mark.parametrize(("name", "option", "said"), [*numbers_and_choices()])
def test_a_wrong_number_or_choice_is_said_in_our_words(
    typed: Typed, name: str, option: str, said: str
) -> None:
    """The library that reads a number said: unable to parse string as an integer."""
    done = typed(*name.split(), option, "x")
    assert done.returncode == BadValue.exit_code
    cause, _ = done.stderr.splitlines()
    assert re.match(rf"error: invalid value for '{option}'.*: {said}", cause)
    assert "Input should" not in cause


@pytest.mark.parametrize(
    ("noted", "asked"),
    [
        ("python", "python"),
        ("cuda-version=13.0", "cuda-version=13.0"),
        ("numpy[version='>=2']", "'numpy[version='\"'\"'>=2'\"'\"']'"),
        ("file:///c/noarch::cuda-version==13.0=native_100", "cuda-core"),
        ("", "cuda-core"),
        (None, "cuda-core"),
        (["x"], "cuda-core"),
        ("-x", "cuda-core"),
    ],
)
def test_an_environment_of_another_client_is_answered_with_what_that_was_asked_for(
    typed: Typed, tmp_path: Path, noted: object, asked: str
) -> None:
    """An environment of jinja2 alone was answered with `ctk env pack cuda-core`."""
    (tmp_path / "e" / "conda-meta").mkdir(parents=True)
    record = {"name": "x", "version": "1", "requested_spec": noted}
    (tmp_path / "e" / "conda-meta" / "x-1-0.json").write_text(json.dumps(record))
    said = typed("env", "pack", str(tmp_path / "e")).stderr
    assert (
        f"next: name the packages that it should have, as in `ctk env pack {asked} -o e.run`\n"
        in said
    )


@pytest.mark.parametrize(
    ("command", "lost", "more", "step"),
    [
        (
            "env pack",
            "; a pack does not contain what pip installed: tool==1.0",
            " -o e.run",
            "; then copy the wheels",
        ),
        ("env create", "", " --prefix {}", ""),
        ("solve", "", "", ""),
    ],
)
def test_an_environment_in_place_of_a_spec_is_answered_with_its_request(
    typed: Typed, tmp_path: Path, command: str, lost: str, more: str, step: str
) -> None:
    """Of what pip installed, nothing was said, and no pack has it."""
    (prefix := tmp_path / "e" / "conda-meta").mkdir(parents=True)
    Note((), ("numba-cuda", "--driver", "12.6"), "1").write(prefix := prefix.parent)
    (prefix / "lib/python3.12/site-packages/tool-1.0.dist-info").mkdir(parents=True)
    (prefix / "conda-meta/pip-26.0-0.json").write_text('{"name": "pip", "version": "26.0"}')
    said = typed(*command.split(), str(prefix)).stderr
    assert f"error: {prefix} is an environment, but this needs a spec{lost}\n" in said
    line = f"as in `ctk {command} numba-cuda --driver 12.6{more.format(prefix)}`{step}"
    assert f"next: name the packages that it should have, {line}" in said
    assert ("pip download --no-deps -d wheels tool==1.0`" in said) is bool(step)


@pytest.mark.parametrize("made", ["without pip", "from a folder"])
def test_what_pip_cannot_fetch_again_is_said_without_a_command_for_it(
    typed: Typed, tmp_path: Path, made: str
) -> None:
    """`python -m pip` fails in an environment without pip, and a project from a folder is on no
    index.
    """
    (prefix := tmp_path / "e" / "conda-meta").mkdir(parents=True)
    (info := (prefix := prefix.parent) / "lib/python3.12/site-packages/tool-1.0.dist-info").mkdir(
        parents=True
    )
    if made == "from a folder":
        (prefix / "conda-meta/pip-26.0-0.json").write_text('{"name": "pip", "version": "26.0"}')
        (info / "direct_url.json").write_text("{}")
    said = typed("env", "pack", str(prefix)).stderr
    assert "; a pack does not contain what pip installed: tool" in said
    assert "pip download" not in said and "; then copy its wheels with the pack" in said


def test_every_command_is_given_something_that_it_cannot_take() -> None:
    assert [
        name for name in ALL if not any(f"{case} ".startswith(f"{name} ") for case in CASES)
    ] == []


ELSEWHERE = ("ctk env create ", "ctk build")
"""Commands that need a whole checkout; the tests of real channels run them."""


@pytest.fixture(scope="module")
def seen() -> set[str]:
    """The next steps that were typed already."""
    return set()


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_with_the_documented_exit_code_and_says_each_thing_once(
    case: str, world: World, typed: Typed, seen: set[str], tmp_path: Path
) -> None:
    error, said = CASES[case]
    done = typed(*line(world, case, tmp_path))
    told = done.stderr[done.stderr.find("error: ") :].splitlines()
    assert (done.returncode, told[0][: len(said)]) == (error.exit_code, said), done.stderr
    cause, _, step = "\n".join(told).partition("\nnext: ")
    assert step
    assert "Traceback" not in done.stderr
    # A command to type has the name again.
    said_once = cause + re.split("in your client: |; then ctk |`", step)[0]
    assert (
        max(said_once.count(word) for word in ("no-package", "/no/place", "cuda-crt==", "99.9"))
        <= 1
    )
    steps = {command for command in commands_in(step) if not command.startswith(ELSEWHERE)}
    for step in sorted(steps - seen):
        program, *words = shlex.split(step)
        if program == "ctk":
            done = typed(*words)
        else:
            done = subprocess.run(
                [program, *words], cwd=world.root, capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, f"{step}: {done.stderr}"
    seen |= steps
