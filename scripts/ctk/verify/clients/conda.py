"""conda, mamba and micromamba: one create command, as a dry run that answers in JSON.

Where flags and answers are from: micromamba/src/common_options.cpp and micromamba/tests/helpers.py of mamba-org/mamba;
conda/cli/install.py (`handle_txn`), conda/exceptions.py and conda/plugins/virtual_packages of conda/conda.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ctk.solve.solve import Scenario, channel_url
from ctk.verify.clients import process
from ctk.verify.clients.process import Ran
from ctk.verify.run import Record, SolverAnswer

# How the exceptions are called that say "there is no solution": UnsatisfiableError, LibMambaUnsatisfiableError,
# PackagesNotFoundError, PackagesNotFoundInChannelsError, ResolvePackageNotFound, SpecsConfigurationConflictError.
_NO_SOLUTION = re.compile(r"Unsatisfiable|NotFound|SpecsConfigurationConflict")
# Beside each option the function that adds it: in libmamba's programs (micromamba/src/common_options.cpp), and in conda
# (conda/cli/helpers.py).
_DRY = (
    "create",
    "--dry-run",  # init_general_options; add_parser_json
    "--json",  # the same two
    "--yes",  # the same two
    "--override-channels",  # init_channel_parser; add_parser_channels
    "--strict-channel-priority",  # init_channel_parser; add_parser_solver_mode
    "--prefix",  # init_prefix_options; add_parser_prefix_to_group
)
_ROOT = "--root-prefix"  # init_prefix_options
_PLATFORM = "--platform"  # init_install_options
_CONDA = (
    "--no-default-packages",  # add_parser_default_packages
    "--repodata-fn",  # add_parser_channels
    "repodata.json",
)
DRIVER = "__cuda"
_CHANNEL = "-c"  # init_channel_parser; add_parser_channels
_CLASSIC = ("--solver", "classic")  # add_parser_solver


class CondaLike:
    """conda, mamba, micromamba, or conda with its classic solver: ``conda-classic``. A solve takes about a second.

    Clients that know nothing of GPUs (no ``__cuda_arch``) answer for the machine as they see it: their answers name the
    scenario without the GPU.
    """

    def __init__(self, name: str, *, timeout: float = 300) -> None:
        self.name, self._timeout = name, timeout
        self._program = process.find(name.removesuffix("-classic"))

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[SolverAnswer]:
        """Solves scenarios in the order given, each with a process of its own; the same question once."""
        with tempfile.TemporaryDirectory(prefix="ctk-client-") as folder:
            home = Path(folder)
            sees_gpus, solve = self._sees_gpus(home), cache(lambda asked: self._solve(asked, channels, home))
            for scenario in scenarios:
                yield solve(scenario if sees_gpus else replace(scenario, arch=None))

    @cached_property
    def _own_cli(self) -> bool:
        """Whether the program is libmamba's own (micromamba, mamba 2), and not Python on top of conda (mamba 1)."""
        if self._program.stem == "conda":
            return False
        with tempfile.TemporaryDirectory(prefix="ctk-client-") as folder:
            said = self._run(Path(folder), ["--version"])
        return not re.match(r"mamba 1\.", said.out)  # "mamba 1.5.8" and then conda's; version 2 says "2.0.5"

    def _sees_gpus(self, home: Path) -> bool:
        """Whether the client has ``__cuda_arch`` where CEP 46 says that it must, if it knows it at all."""
        machine = {"CONDA_OVERRIDE_CUDA": "13.0", "CONDA_OVERRIDE_CUDA_ARCH": "9.0"}
        return "__cuda_arch" in self._run(home, ["info", "--json"], machine).out

    def _solve(self, scenario: Scenario, channels: Sequence[Path], home: Path) -> SolverAnswer:
        flags = (_ROOT, str(home / "root"), _PLATFORM, scenario.subdir) if self._own_cli else _CONDA
        solver = _CLASSIC if self.name.endswith("-classic") else ()
        named = [word for channel in channels for word in (_CHANNEL, channel_url(channel))]
        arguments = [*_DRY, str(home / "env"), *flags, *solver, *named, *asked(scenario)]
        return answer(scenario, self._run(home, arguments, process.overrides(scenario)))

    def _run(self, home: Path, arguments: Sequence[str], machine: Mapping[str, str] | None = None) -> Ran:
        """Runs the program with an empty configuration file.

        libmamba's programs read the one that CONDARC names and no other (`Configuration::set_rc_values` and `rc_files`
        in libmamba/src/api/configuration.cpp), and refuse ``--no-rc`` beside it (`rc_files_hook`). conda reads it last,
        after those of its installation (`SEARCH_PATH` in conda/base/constants.py); the user's are not in this home.
        """
        (home / "condarc").touch()
        own = {
            "CONDARC": str(home / "condarc"),
            "CONDA_PKGS_DIRS": str(home / "pkgs"),
            "CONDA_ENVS_DIRS": str(home / "envs"),
        }
        if self._program.stem == "micromamba":
            own["MAMBA_ROOT_PREFIX"] = str(home / "root")
        environment = process.environment(home, **own, **(machine or {}))
        return process.run(self._program, arguments, environment, folder=home, timeout=self._timeout)


def asked(scenario: Scenario) -> tuple[str, ...]:
    """The specs to type: where the machine has a driver, ``__cuda`` with them.

    libmamba until 2.8.1, and conda's default solver, may drop a virtual package that nothing asks for, and with it what
    constraints say of it (mamba#4311, conda#10803).
    """
    return (*scenario.specs, DRIVER) if scenario.driver else scenario.specs


def answer(scenario: Scenario, ran: Ran) -> SolverAnswer:
    """Reads what a dry run of `create` wrote."""
    document = process.read_json(ran)
    if not isinstance(document, dict):
        raise process.failure(ran, f"ended with {ran.code} and wrote no JSON object")
    if problem := _problem(document):
        return SolverAnswer(scenario, problem=problem)
    if ran.code or not document.get("success"):
        raise process.failure(ran, f"ended with {ran.code} and does not say why there is no solution")
    try:
        links = document.get("actions", {}).get("LINK", [])
        records = {link["name"]: _record(link) for link in links}
    except (KeyError, TypeError, AttributeError) as error:
        raise process.failure(ran, f"wrote a transaction that cannot be read ({error!r})") from None
    return SolverAnswer(scenario, records)


def _record(link: Mapping[str, Any]) -> Record:
    """libmamba writes the build as ``build_string`` and ``build``, conda as ``build_string`` only."""
    return Record(link["version"], link.get("build_string") or link["build"], str(link.get("channel", "")))


def _problem(document: Mapping[str, Any]) -> str:
    """The client's reason for having no solution; "" where it has one, or failed otherwise."""
    if problems := document.get("solver_problems"):  # libmamba
        return "\n".join(map(str, problems))
    if _NO_SOLUTION.search(str(document.get("exception_name", ""))):  # conda
        return str(document.get("message") or document.get("error") or document["exception_name"])
    return ""
