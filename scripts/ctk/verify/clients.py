"""Solvers by name: rattler, libsolv, and users' clients, which run as programs.

Sources of flags, variables and answers: micromamba/src/common_options.cpp and
micromamba/tests/helpers.py of mamba-org/mamba; conda/cli/install.py (`handle_txn`),
conda/cli/helpers.py, conda/exceptions.py and conda/plugins/virtual_packages of conda/conda;
docs/workspace/multi_platform_configuration.md, docs/workspace/system_requirements.md and the
reference of `pixi lock` of prefix-dev/pixi.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, islice
from pathlib import Path

from ctk.core.address import open_gateway
from ctk.core.checkout import Workspace
from ctk.core.children import run_program
from ctk.core.document import load_yaml
from ctk.core.errors import SolverFailed, SolverMissing, refuse_unknown_names
from ctk.solve.pixi import pixi_lines, toml
from ctk.solve.solve import Catalogue, Pick, Scenario, channel_url, parse_spec
from ctk.verify.libsolv import Libsolv
from ctk.verify.run import Record, Solver, SolverAnswer

NAMES = (
    *("libsolv", "libsolv-2.8.1", "micromamba", "mamba"),
    *("conda", "conda-classic", "conda-libmamba", "conda-rattler", "pixi"),
)
"""The solvers beside rattler; ``conda`` is conda with its default solver."""
SAMPLE = {name: 200 for name in NAMES if not name.startswith("libsolv")}
"""The default number of scenarios of `ctk verify --solver`: libsolv takes a millisecond for each, a
client a second.
"""

Ran = subprocess.CompletedProcess[str]


def solver(name: str, workspace: Workspace) -> Solver:
    """Returns a solver by its name.

    Raises:
        UnknownName: There is no such solver.
        SolverMissing: It is not installed, or not built.
    """
    refuse_unknown_names("solver", [name], ("rattler", *NAMES))
    if name == "rattler":
        return RattlerSolver()
    if name.startswith("libsolv"):
        return Libsolv(workspace, lock=name == "libsolv")
    return (PixiSolver if name == "pixi" else CondaLike)(name)


class RattlerSolver:
    """rattler, as `ctk solve` uses it. A request is solved once for each class of machines."""

    name = "rattler"

    def solve_all(
        self, scenarios: Iterable[Scenario], channels: Sequence[Path]
    ) -> Iterator[SolverAnswer]:
        gateway = open_gateway()
        for subdir, group in groupby(sorted(scenarios, key=lambda s: s.subdir), lambda s: s.subdir):
            asked = list(group)
            names = {parse_spec(spec).name for scenario in asked for spec in scenario.specs}
            catalogue = Catalogue(channels, subdir, gateway).grouped(names)
            classes: dict[Hashable, list[Scenario]] = {}
            for scenario in asked:
                classes.setdefault(catalogue.key(scenario), []).append(scenario)
            left = iter(classes.values())
            # Enough classes to keep the cores busy, few enough to show progress.
            while batch := list(islice(left, 512)):
                catalogue.ask(members[0] for members in batch)
                for members in batch:
                    answer = _as_answer(members[0], catalogue.answer(members[0]))
                    yield from (replace(answer, scenario=member) for member in members)


def _as_answer(scenario: Scenario, pick: Pick | str) -> SolverAnswer:
    if isinstance(pick, str):
        return SolverAnswer(scenario, problem=pick)
    records = {
        record.name.normalized: Record(str(record.version), str(record.build), str(record.channel))
        for record in pick.records
    }
    return SolverAnswer(scenario, records)


# --- a client as a program: with its own environment, a time limit, and errors that quote it

# The variables that a program needs; others could change the client's answer (CONDA_*, MAMBA_*,
# PIXI_*, proxies).
_KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "COMSPEC", "PATHEXT", "TZ")
_FOLDERS = {
    **dict.fromkeys(("HOME", "USERPROFILE"), "home"),
    **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), "tmp"),
    "XDG_CONFIG_HOME": "config",
    "XDG_CACHE_HOME": "cache",
    "XDG_DATA_HOME": "data",
}


def find(name: str) -> str:
    """The path of a client on PATH.

    Raises:
        SolverMissing: It is not on PATH.
    """
    if program := shutil.which(name):
        return program
    install = "put its one file on PATH" if name in ("micromamba", "pixi") else "install Miniforge"
    step = f"{install}, or verify with another solver: --solver libsolv"
    raise SolverMissing(f"there is no {name} on PATH", step)


def environment(home: Path, **extra: str) -> dict[str, str]:
    """Variables with which a client finds nothing of the user, and writes below `home`.

    No configuration, no cache, no prefix.
    """
    for folder in set(_FOLDERS.values()):
        (home / folder).mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {name: str(home / folder) for name, folder in _FOLDERS.items()}
    return {**kept, **own, "NO_COLOR": "1", **extra}


def overrides(scenario: Scenario) -> dict[str, str]:
    """The variables that give a client the virtual packages of a scenario's machine.

    If ``CONDA_OVERRIDE_CUDA`` is empty, the machine has no driver; if ``CONDA_OVERRIDE_CUDA_ARCH``
    is, it has no GPU (CEP 30, CEP 46). The value for ``__archspec`` is the build string. The
    variable for ``__unix`` has no effect: it follows the platform.
    """
    variables = {
        "CONDA_SUBDIR": scenario.subdir,
        "CONDA_OVERRIDE_CUDA": "",
        "CONDA_OVERRIDE_CUDA_ARCH": "",
    }
    return variables | {
        f"CONDA_OVERRIDE_{name.upper()}": value for name, value in _machine(scenario).items()
    }


def _machine(scenario: Scenario) -> dict[str, str]:
    """A scenario's virtual packages, without underscores, with the values for clients."""
    named = {
        package.name.normalized.removeprefix("__"): package for package in scenario.virtual_packages
    }
    return {
        name: str(p.build_string if name == "archspec" else p.version) for name, p in named.items()
    }


def call(command: Sequence[str], variables: Mapping[str, str], folder: Path, timeout: float) -> Ran:
    """Runs a client in a folder; kills it after `timeout` seconds.

    Raises:
        SolverFailed: It did not end in time.
    """
    try:
        return run_program(command, env=variables, cwd=folder, timeout=timeout)
    except subprocess.TimeoutExpired:
        cause = f"{Path(command[0]).name} did not answer within {timeout:.0f} s"
        raise SolverFailed(cause, f"try it by hand: {shlex.join(command)}") from None


def _end(ran: Ran) -> str:
    code = ran.returncode
    return f"ended with {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def failure(ran: Ran, problem: str) -> SolverFailed:
    """The error for a client with an unexpected problem, with the last lines of its output."""
    lines = (ran.stderr.strip() or ran.stdout.strip() or "it wrote nothing").splitlines()[-5:]
    cause = "\n".join([f"{Path(ran.args[0]).name} {problem}:", *(f"  {line}" for line in lines)])
    return SolverFailed(cause, f"try it by hand: {shlex.join(ran.args)}")


class Client:
    """A client on PATH, which takes about a second for a solve.

    A client that does not detect GPUs (no ``__cuda_arch``) answers for the machine that it sees,
    which has no GPU.
    """

    def __init__(self, name: str, *, program: str = "", timeout: float = 300) -> None:
        self.name = name
        self._timeout = timeout
        family, _, self._solver = name.partition("-")
        self._program = program or find(family)

    def solve_all(
        self, scenarios: Iterable[Scenario], channels: Sequence[Path]
    ) -> Iterator[SolverAnswer]:
        """Solves scenarios in their order, each in its own process, and the same scenario once."""
        with tempfile.TemporaryDirectory(prefix="ctk-client-") as folder:
            home = Path(folder)
            sees_gpus, solve = (
                self._detects_gpus(home),
                cache(lambda asked: self._solve(asked, channels, home)),
            )
            for scenario in scenarios:
                answer = solve(scenario if sees_gpus else replace(scenario, arch=None))
                yield replace(answer, scenario=scenario, sees_gpus=sees_gpus)

    def _detects_gpus(self, home: Path) -> bool:
        raise NotImplementedError

    def _solve(self, scenario: Scenario, channels: Sequence[Path], home: Path) -> SolverAnswer:
        raise NotImplementedError

    def _variables(self, folder: Path) -> dict[str, str]:
        """The variables that keep the client away from the user's configuration and caches."""
        raise NotImplementedError

    def _run(self, folder: Path, *arguments: str, **variables: str) -> Ran:
        own = environment(folder, **self._variables(folder), **variables)
        return call([self._program, *arguments], own, folder, self._timeout)


# --- conda, mamba and micromamba: one create command, as a dry run that answers in JSON

# Names of the exceptions for "there is no solution": [LibMamba|Rattler]UnsatisfiableError,
# PackagesNotFoundError, PackagesNotFoundInChannelsError, ResolvePackageNotFound,
# SpecsConfigurationConflictError.
_NO_SOLUTION = re.compile(
    r"Unsatisfiable|Packages\w*NotFound|ResolvePackageNotFound|SpecsConfigurationConflict"
)
# For both families; --platform is an option of libmamba's programs, --solver and _CONDA are options
# of conda.
_DRY = (
    "create",
    "--dry-run",
    "--json",
    "--yes",
    "--override-channels",
    "--strict-channel-priority",
    "--prefix",
)
_CONDA = ("--no-default-packages", "--repodata-fn", "repodata.json")


class CondaLike(Client):
    """conda, mamba, micromamba, or conda with a named solver, such as ``conda-classic``."""

    def _detects_gpus(self, home: Path) -> bool:
        """Whether the client has ``__cuda_arch`` on a machine for which CEP 46 requires it."""
        machine = {"CONDA_OVERRIDE_CUDA": "13.0", "CONDA_OVERRIDE_CUDA_ARCH": "9.0"}
        return "__cuda_arch" in self._run(home, "info", "--json", **machine).stdout

    def _solve(self, scenario: Scenario, channels: Sequence[Path], home: Path) -> SolverAnswer:
        flags: Sequence[str] = _CONDA
        if Path(self._program).stem != "conda":
            flags = ("--root-prefix", str(home / "root"), "--platform", scenario.subdir)
        choice = ("--solver", self._solver) if self._solver else ()
        named = []
        for channel in channels:
            named += ["-c", channel_url(channel)]
        # libmamba until 2.8.1, and conda's default solver, may drop a virtual package that nothing
        # requires, and with it the constraints on it (mamba#4311, conda#10803).
        driver = ["__cuda"] if scenario.driver else []
        words = [*_DRY, str(home / "env"), *flags]
        words += [*choice, *named]
        words += [*scenario.specs, *driver]
        return answer(scenario, self._run(home, *words, **overrides(scenario)))

    def _variables(self, folder: Path) -> dict[str, str]:
        """The variables, among them CONDARC for an empty configuration file.

        libmamba's programs read the file that CONDARC names and no other
        (`Configuration::set_rc_values` and `rc_files` in libmamba/src/api/configuration.cpp), and
        refuse ``--no-rc`` beside it (`rc_files_hook`). conda reads it last, after the files of its
        installation (`SEARCH_PATH` in conda/base/constants.py); the user's are not in this home.
        """
        (folder / "condarc").touch()
        places = {"CONDARC": "condarc", "CONDA_PKGS_DIRS": "pkgs", "CONDA_ENVS_DIRS": "envs"}
        places |= {"MAMBA_ROOT_PREFIX": "root"} if self.name == "micromamba" else {}
        return {name: str(folder / place) for name, place in places.items()}


def answer(scenario: Scenario, ran: Ran) -> SolverAnswer:
    """Reads the output of a dry run of `create`.

    The answer counts even if the client crashed afterwards: py-rattler may crash while Python ends,
    before Python 3.14 ("PyGILState_Release", three of 25 runs of conda 26.7.1 with
    conda-rattler-solver 0.2.0 on Python 3.11).

    Raises:
        SolverFailed: The output is not an answer.
    """
    ended = f"{_end(ran)} and"
    try:
        document = json.loads(ran.stdout)
    except json.JSONDecodeError:
        raise failure(ran, f"{ended} wrote no JSON") from None
    if problems := document.get("solver_problems"):  # libmamba
        return SolverAnswer(scenario, problem="\n".join(map(str, problems)))
    if _NO_SOLUTION.search(str(document.get("exception_name", ""))):  # conda
        problem = document.get("message") or document.get("error") or document["exception_name"]
        return SolverAnswer(scenario, problem=str(problem))
    if ran.returncode > 0 or not document.get("success"):
        raise failure(ran, f"{ended} does not say why there is no solution")
    records = {}
    for link in document.get("actions", {}).get("LINK", []):
        # libmamba writes both, conda only the first.
        build = link.get("build_string") or link["build"]
        records[link["name"]] = Record(link["version"], build, str(link.get("channel", "")))
    return SolverAnswer(scenario, records)


# --- pixi has no dry run for specs on the command line: it locks a workspace for each scenario, and
# installs nothing

# pixi draws lines around rattler's sentence, and wraps it.
_REFUSED = "Cannot solve the request because of"
_DRAWN = re.compile(r"[\s│├╰╭─▶×·]+")
_KEYS = {"linux": "linux", "glibc": "glibc", "win": "windows", "archspec": "archspec"}


class PixiSolver(Client):
    """pixi 0.71 or newer: since then, a platform can state a GPU."""

    def _detects_gpus(self, home: Path) -> bool:
        return True

    def _solve(self, scenario: Scenario, channels: Sequence[Path], home: Path) -> SolverAnswer:
        with tempfile.TemporaryDirectory(prefix="ctk-client-") as name:
            folder = Path(name)
            workspace = folder / "pixi.toml"
            workspace.write_text(manifest(scenario, channels), encoding="utf-8")
            ran = self._run(
                folder, "lock", "--manifest-path", str(workspace), **overrides(scenario)
            )
            if not ran.returncode:
                return SolverAnswer(scenario, locked(folder / "pixi.lock"))
            problem = _DRAWN.sub(" ", ran.stderr).strip()
            if _REFUSED not in problem:
                raise failure(ran, _end(ran))
            return SolverAnswer(scenario, problem=problem)

    def _variables(self, folder: Path) -> dict[str, str]:
        places = dict.fromkeys(
            ("PIXI_HOME", "PIXI_CACHE_DIR", "RATTLER_CACHE_DIR"), str(folder / "pixi")
        )
        return {**places, "PIXI_NO_CONFIG": "true", "PIXI_NO_PROGRESS": "true"}


def manifest(scenario: Scenario, channels: Sequence[Path]) -> str:
    """The text of a pixi.toml that requests a scenario."""
    system = {_KEYS[name]: value for name, value in _machine(scenario).items() if name in _KEYS}
    cuda = {"driver": scenario.driver, "arch": scenario.arch} if scenario.arch else scenario.driver
    platform = {"platform": scenario.subdir, **system, "cuda": scenario.driver and cuda}
    lines = [
        "[workspace]",
        'name = "scenario"',
        f"channels = {toml([channel_url(channel) for channel in channels])}",
        'channel-priority = "strict"',
        f"platforms = [{toml(platform)}]",
        "",
        "[dependencies]",
        *pixi_lines(scenario.specs),
    ]
    return "\n".join(lines) + "\n"


def locked(path: Path) -> dict[str, Record]:
    """The packages of a pixi.lock with one environment and one platform.

    ``pixi list --json`` has the same, but versions of pixi differ in how its option names a
    platform.
    """
    document = load_yaml(path.read_bytes())
    (platforms,) = (environment["packages"] for environment in document["environments"].values())
    (packages,) = platforms.values()
    records = {}
    for package in packages:
        address, _, file = package["conda"].rpartition("/")
        name, version, build = re.sub(r"\.conda$|\.tar\.bz2$", "", file).rsplit("-", 2)
        records[name] = Record(version, build, address.rpartition("/")[0])
    return records
