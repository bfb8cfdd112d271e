"""pixi: a workspace of its own for each scenario, locked and not installed.

pixi has no dry run for specs on the command line, so each scenario becomes a workspace whose one platform is the
machine. Where the forms are from: docs/workspace/multi_platform_configuration.md and
docs/workspace/system_requirements.md of prefix-dev/pixi, and its reference of `pixi lock`.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from packaging.version import InvalidVersion, Version
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ctk.solve.solve import Scenario, channel_url
from ctk.verify.clients import process
from ctk.verify.run import Record, SolverAnswer

# The first whose documentation states a platform's virtual packages in place of [system-requirements], and GPUs at all.
_RICH_PLATFORMS = Version("0.71.3")
# rattler's sentence; pixi draws lines around it and folds it.
_NO_SOLUTION = re.compile(r"Cannot solve the request because of")
_DRAWN = re.compile(r"[\s│├╰╭─▶×·]+")
_KEYS = {"linux": "linux", "glibc": "glibc", "win": "windows", "archspec": "archspec"}


class PixiSolver:
    """pixi, a second a solve; before 0.71 it knows no GPUs, and answers name the scenario without the GPU."""

    name = "pixi"

    def __init__(self, *, timeout: float = 300) -> None:
        self._timeout = timeout
        self._program = process.find("pixi")

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[SolverAnswer]:
        """Solves scenarios in the order given, each with a process of its own; the same question once."""
        solve = cache(lambda asked: self._solve(asked, channels))
        for scenario in scenarios:
            yield solve(scenario if self._rich else replace(scenario, arch=None))

    @cached_property
    def _rich(self) -> bool:
        with tempfile.TemporaryDirectory(prefix="ctk-client-") as folder:
            ran = self._run(["--version"], Path(folder), {})
        try:
            return Version(ran.out.split()[-1]) >= _RICH_PLATFORMS  # "pixi 0.75.0"
        except (IndexError, InvalidVersion):
            raise process.failure(ran, "does not say its version") from None

    def _solve(self, scenario: Scenario, channels: Sequence[Path]) -> SolverAnswer:
        with tempfile.TemporaryDirectory(prefix="ctk-client-") as name:
            folder = Path(name)
            (folder / "pixi.toml").write_text(manifest(scenario, channels, rich=self._rich), encoding="utf-8")
            arguments = ["lock", "--manifest-path", str(folder / "pixi.toml")]
            ran = self._run(arguments, folder, process.overrides(scenario))
            if ran.code:
                said = _DRAWN.sub(" ", ran.err).strip()
                if _NO_SOLUTION.search(said):
                    return SolverAnswer(scenario, problem=said)
                raise process.failure(ran, f"ended with {ran.code}")
            try:
                return SolverAnswer(scenario, locked(folder / "pixi.lock"))
            except (OSError, YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
                raise process.failure(ran, f"wrote a lock that cannot be read ({error!r})") from None

    def _run(self, arguments: Sequence[str], folder: Path, machine: Mapping[str, str]) -> process.Ran:
        own = {name: str(folder / "pixi") for name in ("PIXI_HOME", "PIXI_CACHE_DIR", "RATTLER_CACHE_DIR")}
        own |= {"PIXI_NO_CONFIG": "true", "PIXI_NO_PROGRESS": "true"}
        environment = process.environment(folder, **own, **machine)
        return process.run(self._program, arguments, environment, folder=folder, timeout=self._timeout)


def manifest(scenario: Scenario, channels: Sequence[Path], *, rich: bool) -> str:
    """The workspace that asks for a scenario; without `rich` platforms, the machine is in [system-requirements]."""
    lines = [
        "[workspace]",
        'name = "scenario"',
        f"channels = {_toml([channel_url(channel) for channel in channels])}",
        'channel-priority = "strict"',
        f"platforms = [{_platform(scenario) if rich else _toml(scenario.subdir)}]",
        "",
        "[dependencies]",
        *(_dependency(spec) for spec in scenario.specs),
    ]
    if not rich:
        lines += ["", "[system-requirements]", *_requirements(scenario)]
    return "\n".join(lines) + "\n"


def locked(path: Path) -> dict[str, Record]:
    """The packages of a pixi.lock with one environment and one platform.

    ``pixi list --json`` has the same, but how it wants a platform named differs between versions.
    """
    document = YAML(typ="safe").load(path)
    (platforms,) = (environment["packages"] for environment in document["environments"].values())
    (packages,) = platforms.values()
    records = {}
    for package in packages:
        address, _, file = package["conda"].rpartition("/")
        name, version, build = re.sub(r"\.conda$|\.tar\.bz2$", "", file).rsplit("-", 2)
        records[name] = Record(version, build, address.rpartition("/")[0])
    return records


def _platform(scenario: Scenario) -> str:
    pairs = {"platform": scenario.subdir} | _system(scenario)
    words = [f"{key} = {_toml(value)}" for key, value in pairs.items()]
    if scenario.driver and scenario.arch:
        words.append(f"cuda = {{ driver = {_toml(scenario.driver)}, arch = {_toml(scenario.arch)} }}")
    elif scenario.driver:
        words.append(f"cuda = {_toml(scenario.driver)}")
    return "{ " + ", ".join(words) + " }"


def _requirements(scenario: Scenario) -> list[str]:
    """As a table of the older form, which says less: nothing of Windows."""
    system = _system(scenario)
    lines = []
    if "glibc" in system:
        lines.append(f"linux = {_toml(system['linux'])}")
        lines.append(f'libc = {{ family = "glibc", version = {_toml(system["glibc"])} }}')
    return [*lines, *([f"cuda = {_toml(scenario.driver)}"] if scenario.driver else [])]


def _system(scenario: Scenario) -> dict[str, str]:
    """What of the machine is neither driver nor GPU, by pixi's keys."""
    found = {}
    for package in scenario.virtual_packages:
        key = _KEYS.get(package.name.normalized.removeprefix("__"))
        if key:
            found[key] = str(package.build_string if key == "archspec" else package.version)
    return found


def _dependency(spec: str) -> str:
    name, version, build = process.spec_parts(spec)
    wanted = {"version": version or "*", "build": build}
    return f"{_toml(name)} = {{ {', '.join(f'{key} = {_toml(value)}' for key, value in wanted.items() if value)} }}"


def _toml(value: str | Sequence[str]) -> str:
    """A string or a list of strings: JSON's form is one of TOML's."""
    return json.dumps(value, ensure_ascii=False)
