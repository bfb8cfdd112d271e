"""conda and mamba themselves, asked what a later command would do to an environment.

The environment has records only, and no files: a dry run reads ``conda-meta`` and the channels, and
changes nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rattler import RepoDataRecord

from ctk.core.errors import SolverFailed
from ctk.solve.solve import Scenario, channel_url
from ctk.verify import clients
from ctk.verify.clients import CondaLike, Ran
from ctk.verify.life import REMOVE, Command, Environment, Outcome, Refused, World
from ctk.verify.life_models import request_after
from ctk.verify.run import Record

_DRY = ("--dry-run", "--json", "--yes")


class LifeProgram(CondaLike):
    """conda with a solver, or mamba, on records of an environment.

    Args:
        name: mamba, or conda with a solver, such as ``conda-rattler``.
        home: An empty folder for its settings, caches and environment.
        program: The program's path; what PATH has by default.
    """

    def __init__(self, name: str, home: Path, program: str = "") -> None:
        super().__init__(name, program=program)
        self._home = home

    def create(self, world: World, machine: Scenario) -> Outcome:
        shutil.rmtree(self._prefix, ignore_errors=True)
        words = ["create", "--prefix", str(self._prefix), *self._words(world), *machine.specs]
        ran = self._run_life(world, machine, words)
        return self._outcome(world, Environment((), {}), machine.specs, machine, ran)

    def change(
        self, world: World, environment: Environment, command: Command, machine: Scenario
    ) -> Outcome:
        shutil.rmtree(self._prefix, ignore_errors=True)
        write_records(environment, self._prefix)
        words = [*command.kind.split(), "--prefix", str(self._prefix), *command.specs]
        words += self._words(world) if self._solver or command.kind != REMOVE else _DRY
        ran = self._run_life(world, machine, words)
        return self._outcome(world, environment, request_after(environment, command), machine, ran)

    @property
    def _prefix(self) -> Path:
        return self._home / "env"

    def _words(self, world: World) -> list[str]:
        words = [*_DRY, "--override-channels"]
        for channel in world.channels:
            words += ["-c", channel_url(channel)]
        if self._solver:
            words += ["--solver", self._solver]
        return words

    def _run_life(self, world: World, machine: Scenario, words: Iterable[str]) -> Ran:
        priority = "strict" if world.strict else "flexible"
        variables = {"CONDA_CHANNEL_PRIORITY": priority, "MAMBA_CHANNEL_PRIORITY": priority}
        # mamba runs the pip that it finds in a record, and here are no files.
        no_pip = ("CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY", "MAMBA_ADD_PIP_AS_PYTHON_DEPENDENCY")
        variables |= dict.fromkeys(no_pip, "false")
        variables |= clients.overrides(machine)
        ran = self._run(self._home, *words, **variables)
        if ran.returncode < 0 and not ran.stdout:
            # py-rattler may crash while Python ends, before it has written anything (conda 26.7.1,
            # once in 30 runs).
            ran = self._run(self._home, *words, **variables)
        return ran

    def _outcome(
        self, world: World, before: Environment, specs: tuple[str, ...], machine: Scenario, ran: Ran
    ) -> Outcome:
        found = clients.answer(machine, ran)
        if not found.solved:
            return Refused(found.problem)
        records = dict(before.records)
        for name in _removed(ran):
            records.pop(name, None)
        for name, record in found.records.items():
            records[name] = _at(world, name, record)
        return Environment(specs, records)


def _at(world: World, name: str, wanted: Record) -> RepoDataRecord:
    for record in world.by_name[name]:
        if (str(record.version), str(record.build)) == (wanted.version, wanted.build):
            return record
    raise SolverFailed(
        f"no channel has {name} {wanted.version} {wanted.build}", "look at the client's answer"
    )


def _removed(ran: Ran) -> list[str]:
    document = json.loads(ran.stdout)
    return [package["name"] for package in document.get("actions", {}).get("UNLINK", [])]


def write_records(environment: Environment, prefix: Path) -> None:
    """Writes an environment of records without files."""
    folder = prefix / "conda-meta"
    folder.mkdir(parents=True)
    for record in environment.records.values():
        document: dict[str, Any] = json.loads(record.to_json())
        document |= {
            "fn": record.file_name,
            "url": record.url,
            "channel": record.channel,
            "files": [],
        }
        document |= {"paths_data": {"paths_version": 1, "paths": []}, "extracted_package_dir": ""}
        name = f"{record.name.normalized}-{record.version}-{record.build}"
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    history = ["==> 2026-01-01 00:00:00 <==", "# cmd: conda create", "# conda version: 24.1.0"]
    history.append(f"# update specs: {json.dumps(list(environment.specs))}")
    (folder / "history").write_text("\n".join(history) + "\n", encoding="utf-8")
