"""Runs a client as a program: with an environment of its own, a time limit, and errors with its own words."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rattler import MatchSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.core.errors import BadValue, SolverFailed, SolverMissing
from ctk.solve.solve import Scenario

# What a program needs of the machine; all else could change what a client does (CONDA_*, MAMBA_*, PIXI_*, proxies).
_KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "COMSPEC", "PATHEXT", "TZ")
_INSTALL = {
    "conda": "install Miniforge",
    "mamba": "install Miniforge",
    "micromamba": "put its one file on PATH",
    "pixi": "put its one file on PATH",
}


@dataclass(frozen=True)
class Ran:
    """A program that ended: its command line, exit status and output."""

    command: tuple[str, ...]
    code: int
    out: str
    err: str


def find(name: str) -> Path:
    """The client on PATH."""
    program = shutil.which(name)
    if program is None:
        raise SolverMissing(
            f"there is no {name} on PATH", f"{_INSTALL[name]}, or verify with another solver: --solver libsolv"
        )
    return Path(program)


def environment(home: Path, **extra: str) -> dict[str, str]:
    """An environment in which a client finds no configuration, cache or prefix of the user, and writes into `home`."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    folders = {"HOME": "home", "USERPROFILE": "home", "TMPDIR": "tmp", "TEMP": "tmp", "TMP": "tmp"}
    folders |= {"XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data"}
    for folder in set(folders.values()):
        (home / folder).mkdir(exist_ok=True)
    own = {name: str(home / folder) for name, folder in folders.items()}
    return {**kept, **own, "NO_COLOR": "1", **extra}


def overrides(scenario: Scenario) -> dict[str, str]:
    """The scenario's machine, as the variables by which clients take a virtual package for another one.

    Empty, ``CONDA_OVERRIDE_CUDA`` stands for a machine without a driver, and ``CONDA_OVERRIDE_CUDA_ARCH`` for one
    without a GPU (CEP 30, CEP 46). For ``__archspec`` it is the build string that is given. That of ``__unix`` has no
    effect: it follows the platform.
    """
    variables = {"CONDA_SUBDIR": scenario.subdir, "CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_CUDA_ARCH": ""}
    for package in scenario.virtual_packages:
        name = package.name.normalized.removeprefix("__").upper()
        variables[f"CONDA_OVERRIDE_{name}"] = str(package.build_string if name == "ARCHSPEC" else package.version)
    return variables


def run(
    program: Path, arguments: Sequence[str], environment: Mapping[str, str], *, folder: Path, timeout: float
) -> Ran:
    """Runs a client in a folder to its end, or kills it and what it started after so many seconds."""
    command = (str(program), *arguments)
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise SolverFailed(f"{program.name} does not start: {error.strerror}", f"try `{program} --version`") from error
    with child:
        try:
            out, err = child.communicate(timeout=timeout)
        except BaseException as error:
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)  # start_new_session made it the leader of its group
            else:
                child.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise SolverFailed(
                f"{program.name} did not answer within {timeout:.0f} s", f"try it by hand: {' '.join(command)}"
            ) from None
    ran = Ran(command, child.returncode, out, err)
    if ran.code < 0:
        raise failure(ran, f"was ended by {signal.Signals(-ran.code).name}")
    return ran


def read_json(ran: Ran) -> Any:
    """The JSON document that a client wrote to standard output."""
    try:
        return json.loads(ran.out)
    except json.JSONDecodeError:
        raise failure(ran, f"ended with {ran.code} and wrote no JSON") from None


def failure(ran: Ran, what: str) -> SolverFailed:
    """The error for a client that did something unexpected, with the last lines that it wrote."""
    lines = (ran.err.strip() or ran.out.strip() or "it wrote nothing").splitlines()[-5:]
    return SolverFailed(
        "\n".join([f"{Path(ran.command[0]).name} {what}:", *(f"  {line}" for line in lines)]),
        f"try it by hand: {' '.join(ran.command)}",
    )


@cache
def spec_parts(spec: str) -> tuple[str, str, str]:
    """Name, version and build that a spec asks for, "" for any: clients write these in different ways."""
    try:
        asked = MatchSpec(spec)
    except InvalidMatchSpecError as error:
        raise BadValue(
            f"{spec!r} cannot be read: {error}", "write it as for conda: name, name=1.2 or name>=1.2"
        ) from None
    version = "" if asked.version is None else str(asked.version)
    return asked.name.normalized, version, "" if asked.build is None else str(asked.build)
