"""What each command says of a word that it cannot take: the exit code of docs/errors.md, the cause, and what to do."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from command_list import ALL, line
from world import World, ctk

from ctk.core.errors import (
    BadValue,
    ChannelMissing,
    CtkError,
    NoSpace,
    PublishFailed,
    UnknownName,
    Unsolvable,
)
from next_steps import commands_in

pytest_plugins = ["command_fixtures"]

SPEC = "error: 'cuda-crt==' is no spec: "
CHANNEL = "error: there is no channel in /no/place"
CASES: dict[str, tuple[type[CtkError], str]] = {
    "audit /no/place": (UnknownName, "error: there is no /no/place"),
    "audit --check NoCheck": (UnknownName, "error: unknown check 'NoCheck'"),
    "audit --base /no/place": (UnknownName, "error: there is no /no/place"),
    "build --release 99.9": (UnknownName, "error: unknown release '99.9'"),
    "build --all-releases --recipe no-recipe": (UnknownName, "error: unknown recipe 'no-recipe'"),
    "rebuild --all --jobs 0": (BadValue, "error: invalid value for '--jobs' / '-j'"),
    "build-recipe /no/place": (UnknownName, "error: there is no recipe in /no/place"),
    "channel check /no/place": (ChannelMissing, CHANNEL),
    "channel history /no/place": (ChannelMissing, CHANNEL),
    "channel rollback /no/place": (ChannelMissing, CHANNEL),
    "channel rollback /no/place --to no-number": (BadValue, "error: invalid value for '--to'"),
    "clean --no-option": (BadValue, "error: no such option: --no-option"),
    "doctor --no-option": (BadValue, "error: no such option: --no-option"),
    "env check /no/place": (BadValue, "error: /no/place is no environment"),
    "env create cuda-crt== --prefix {folder}/env --base {base}": (BadValue, SPEC),
    "env create cuda-crt --prefix {folder}/env --base /no/place": (ChannelMissing, CHANNEL),
    "env create cuda-crt --prefix /proc/env --base {base}": (NoSpace, "error: cannot write /proc/env"),
    "env create no-package --prefix {folder}/env --base {base}": (Unsolvable, "error: there is no package no-package"),
    "env pack cuda-crt== -o {folder}/crt.run --base {base}": (BadValue, SPEC),
    "env pack cuda-crt -o /no/place/crt.run --base {base}": (BadValue, "error: there is no folder /no/place"),
    "env pack cuda-crt -o {folder}/crt.run --base /no/place": (ChannelMissing, CHANNEL),
    "env run /no/place -- true": (BadValue, "error: /no/place is no environment"),
    "feedstock export no-recipe {folder}/new": (UnknownName, "error: unknown recipe 'no-recipe'"),
    "feedstock export cuda-crt {folder}/new --release 99.9": (UnknownName, "error: unknown release '99.9'"),
    "fetch --all-releases --recipe cuda-crt --platform linux-46": (UnknownName, "error: unknown platform 'linux-46'"),
    "fetch --all-releases --recipe cuda-crt --python 2.7": (UnknownName, "error: unknown Python '2.7'"),
    "gpu-code /no/place": (UnknownName, "error: there is no /no/place"),
    "installable cuda-crt== --base {base}": (BadValue, SPEC),
    "installable cuda-crt --pin cuda-crt== --base {base}": (BadValue, SPEC),
    "installable cuda-crt --base /no/place": (ChannelMissing, CHANNEL),
    "installable no-package --base {base}": (Unsolvable, "error: there is no package no-package"),
    "lint no-recipe": (UnknownName, "error: unknown recipe 'no-recipe'"),
    "lint /no/place": (UnknownName, "error: there is no /no/place"),
    "lint --check NoCheck": (UnknownName, "error: unknown check 'NoCheck'"),
    "plan --release 99.9": (UnknownName, "error: unknown release '99.9'"),
    "plan --all-releases --recipe cuda-crt --platform linux-46": (UnknownName, "error: unknown platform 'linux-46'"),
    "plan --format no-format": (BadValue, "error: invalid value for '--format': 'no-format' is not one of"),
    "prove --base /no/place": (ChannelMissing, CHANNEL),
    "publish": (BadValue, "error: there is no place to publish to"),
    "publish --to": (BadValue, "error: option '--to' requires an argument"),
    "publish --to http://localhost:1/cuda": (BadValue, "error: --to takes a folder"),
    "publish /no/place --to {folder}/www": (ChannelMissing, CHANNEL),
    "publish {folder} --to {folder}/www": (PublishFailed, "error: there is no channel with packages in"),
    "rebuild no-package": (UnknownName, "error: unknown package 'no-package'"),
    "rebuild /no/place/a.conda": (UnknownName, "error: there is no /no/place/a.conda"),
    "rebuild cuda-crt --channel /no/place": (ChannelMissing, CHANNEL),
    "rebuild --all --channel /no/place": (ChannelMissing, CHANNEL),
    "release add no-release": (UnknownName, "error: 'no-release' names no release"),
    "release add 99.9": (UnknownName, "error: unknown CTK minor '99.9'"),
    "release add 13.4 --newer": (BadValue, "error: --newer chooses what to lock"),
    "release check 99.9": (UnknownName, "error: unknown CTK minor '99.9'"),
    "release diff 13.4 99.9": (UnknownName, "error: unknown release '99.9'"),
    "release diff 13.4 no-revision:13.4": (BadValue, "error: no-revision:variants/cuda-13.4.lock cannot be read"),
    "release diff 13.4 13.5 --component no-part": (UnknownName, "error: unknown component 'no-part'"),
    "release list --write-table --check-table": (BadValue, "error: --write-table and --check-table exclude"),
    "release measure 99.9": (UnknownName, "error: unknown release '99.9'"),
    "release measure python-1": (UnknownName, "error: unknown release 'python-1'"),
    "site build /proc/site": (NoSpace, "error: cannot write /proc/site"),
    "site build {folder}/site --package no-package --base {base}": (UnknownName, "error: unknown package 'no-package'"),
    "site build {folder}/site --package cuda-crt --base /no/place": (ChannelMissing, CHANNEL),
    "solve cuda-crt==": (BadValue, SPEC),
    "solve cuda-crt== --base /no/place": (BadValue, SPEC),
    "solve cuda-crt[ --base {base}": (BadValue, "error: 'cuda-crt[' is no spec: "),
    "solve cuda-crt --base /no/place": (ChannelMissing, CHANNEL),
    "solve cuda-crt --base ./no/place": (ChannelMissing, "error: there is no channel in /"),
    "solve cuda-crt --driver no-driver": (BadValue, "error: 'no-driver' is not the CUDA version of a driver"),
    "solve cuda-crt --arch no-arch": (BadValue, "error: 'no-arch' is not a compute capability"),
    "solve cuda-crt --platform linux-46": (UnknownName, "error: unknown platform 'linux-46'"),
    "solve cuda-crt --python 3.x": (BadValue, "error: '3.x' is not a version of Python"),
    "solve cuda-crt --drivers , --base {base}": (BadValue, "error: there are no machines"),
    "solve cuda-crt --archs 9.0 --base {base}": (BadValue, "error: --archs says nothing without --drivers"),
    "solve cuda-crt --machines /no/place --base {base}": (BadValue, "error: /no/place cannot be read"),
    "solve cuda-crt --drivers 13.0 --write /proc/x --base {base}": (NoSpace, "error: cannot write /proc/x"),
    "solve no-package --base {base}": (Unsolvable, "error: there is no package no-package"),
    "verify --channel /no/place": (ChannelMissing, "error: there is no channel with packages for a platform in /no"),
    "verify --request no-request": (UnknownName, "error: unknown request 'no-request'"),
    "verify --solver no-solver": (UnknownName, "error: unknown solver 'no-solver'"),
    "verify --python 2.7": (UnknownName, "error: unknown Python '2.7'"),
}
"""A command line -> the error, and the beginning of the first line on stderr that is no progress."""


def test_every_command_is_given_something_that_it_cannot_take() -> None:
    assert {name for name in ALL if any(case.split(" ")[: len(name.split())] == name.split() for case in CASES)} == {
        *ALL
    }


ELSEWHERE = ("ctk env create ", "ctk build", "ctk plan")
"""What needs a whole checkout: the tests of real channels build and plan, and make environments."""


@pytest.fixture(scope="module")
def typed() -> set[str]:
    """What was typed already."""
    return set()


def type_in(world: World, step: str, typed: set[str]) -> None:
    """Types the commands of a next step, each once; they must work."""
    for command in commands_in(step):
        if command in typed or command.startswith(ELSEWHERE):
            continue
        typed.add(command)
        program, *words = shlex.split(command)
        if program == "ctk":
            done = ctk(world, *words)
        else:
            done = subprocess.run([program, *words], cwd=world.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_what_is_typed_is_not_nothing(world: World, typed: set[str]) -> None:
    type_in(world, "see `git log -- variants`, or words", typed)
    type_in(world, "see ctk publish --help", typed)
    assert typed == {"git log -- variants", "ctk publish --help"}
    with pytest.raises(AssertionError, match="no such option"):
        type_in(world, "see ctk publish --no-option", typed)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_with_the_documented_exit_code_and_says_each_thing_once(
    case: str, world: World, tmp_path_factory: pytest.TempPathFactory, typed: set[str]
) -> None:
    error, said = CASES[case]
    done = ctk(world, *line(world, case, tmp_path_factory.mktemp("bad")))
    told = done.stderr[done.stderr.find("error: ") :].splitlines()
    assert (done.returncode, told[0][: len(said)]) == (error.exit_code, said), done.stderr
    assert told[-1].startswith("next: ") and len(told[-1]) > len("next: ")
    assert "Traceback" not in done.stderr
    type_in(world, told[-1].removeprefix("next: "), typed)
    assert max("\n".join(told).count(word) for word in ("no-package", "/no/place", "cuda-crt==", "99.9")) <= 1
