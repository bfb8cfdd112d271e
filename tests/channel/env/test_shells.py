"""`bin/activate` and `deactivate` of an environment, in each shell: all of the activation is
undone.
"""

from __future__ import annotations

import shutil
import venv
from pathlib import Path

import pytest

from ctk.core.platforms import this_platform
from kit.packs import checkout, create, pack, unpack
from kit.shells import CLEAN, SHELLS, difference, run
from kit.tiny_packages import tiny

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64",
    reason=(
        "the tiny packages are for linux-64, where these scripts, which are the same on ARM, are"
        " tried"
    ),
)


def stacked(name: str) -> tuple[str, bytes]:
    """What a package's scripts set, which only scripts in the opposite order unset."""
    return f"etc/conda/activate.d/{name}.sh", f'export STACK="${{STACK-}}{name}"\n'.encode()


SCRIPTS = {
    **dict(map(stacked, "ab")),
    "etc/conda/deactivate.d/b.sh": b"STACK=${STACK%b}\n",
    "etc/conda/deactivate.d/a.sh": b'STACK=${STACK%a}\nif [ -z "$STACK" ]; then unset STACK; fi\n',
    "etc/conda/activate.d/a.fish": b"set -gx STACK ab\n",
    "etc/conda/deactivate.d/a.fish": b"set -e STACK\n",
    "bin/hello": b"#!/bin/sh\necho hello\n",
}


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One from `ctk env create`, under a path with a space and with a sign of patterns, and one
    from `ctk env pack`.
    """
    folder = tmp_path_factory.mktemp("the environments")
    where = checkout(folder / "c", tiny("scripts", depends=("python",), files=SCRIPTS))
    create(where, folder / "made [1]", "scripts")
    assert pack(where, "scripts", "-o", str(folder / "p.run")).returncode == 0
    assert unpack(folder / "p.run", folder / "packed").returncode == 0
    return [folder / "made [1]", folder / "packed"]


@pytest.fixture(params=[*SHELLS, "fish"])
def shell(request: pytest.FixtureRequest) -> str:
    if not shutil.which(request.param):
        pytest.skip(
            f"no {request.param} on this machine: sh and bash, which read the same file as zsh, are"
            " always there"
        )
    return str(request.param)


# Those that read `deactivate` as a file, too; in fish it is a function only.
posix = pytest.mark.parametrize("shell", SHELLS, indirect=True)


def activate(prefix: Path, shell: str) -> str:
    return (
        f"source '{prefix}/bin/activate.fish'" if shell == "fish" else f". '{prefix}/bin/activate'"
    )


def test_activation_sets_what_condas_does(environments: list[Path], shell: str) -> None:
    for prefix in environments:
        done = run(shell, f'{activate(prefix, shell)}; echo "$CONDA_PREFIX|$PATH|$STACK"; hello')
        assert done.stdout == f"{prefix}|{prefix}/bin:{CLEAN['PATH']}|ab\nhello\n", done.stderr


@pytest.mark.parametrize(
    "way", ["{first}; deactivate", "{first}; {first}; deactivate", "{first}; {second}; deactivate"]
)
def test_deactivate_leaves_the_shell_as_it_was(
    environments: list[Path], tmp_path: Path, shell: str, way: str
) -> None:
    restores(environments, tmp_path, shell, way)


@posix
def test_deactivate_can_be_read_as_conda_packs_is(
    environments: list[Path], tmp_path: Path, shell: str
) -> None:
    restores(environments, tmp_path, shell, "{first}; . deactivate")


def restores(environments: list[Path], tmp_path: Path, shell: str, way: str) -> None:
    first, second = (activate(prefix, shell) for prefix in environments)
    options = "" if shell == "fish" else "set -eu"
    for surroundings in ({"PS1": "$ "}, {"CONDA_PREFIX": "/opt/conda"}):
        assert difference(shell, options, first, tmp_path, **surroundings)
        assert not difference(
            shell, options, way.format(first=first, second=second), tmp_path, **surroundings
        )


@posix
def test_a_shell_that_an_activated_one_started_leaves_the_environment_too(
    environments: list[Path], shell: str
) -> None:
    """Functions are not inherited: what is on PATH is read."""
    ours = activate(environments[0], shell)
    code = f"""{ours}; {shell} -c '. deactivate; echo "$PATH|${{CONDA_PREFIX-}}"'"""
    assert run(shell, code, CONDA_PREFIX="/opt/conda").stdout == f"{CLEAN['PATH']}|/opt/conda\n"


def test_pythons_own_venv_is_left_first_and_can_be_left_without_the_environment(
    environments: list[Path], tmp_path: Path, shell: str
) -> None:
    venv.create(tmp_path / "v")
    prefix = environments[0]
    ours, other, path = activate(prefix, shell), activate(tmp_path / "v", shell), 'echo "$PATH"'
    done = run(
        shell, f"{other}; {ours}; {path}; deactivate; {path}; {ours}; {other}; deactivate; {path}"
    )
    inside = f"{prefix}/bin:{CLEAN['PATH']}"
    assert done.stdout.splitlines() == [inside, CLEAN["PATH"], inside], done.stderr


def test_a_shell_that_does_not_say_where_the_file_is_gets_an_error(
    environments: list[Path],
) -> None:
    done = run("sh", f"cat '{environments[0]}/bin/activate' | sh")
    assert (
        done.returncode == 1
        and "error: " in done.stderr
        and "\nnext: bin/run-in-environment" in done.stderr
    )
