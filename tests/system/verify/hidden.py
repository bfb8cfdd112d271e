"""What this channel hides: lines of real files that it makes unsolvable.

A channel that comes first hides every other version of each name that it has. Run as a program,
this file writes ``hidden.txt`` anew: for several sets of packages, which specs a set has by name
and not by version, which requests cannot be solved any more, and the lines that let strict priority
solve them. Behind the channel is a stand-in for conda-forge and RAPIDS' channel with the versions
that they keep (tests/kit/kept_channel.py).

The requests are the lines about CUDA of tests/unit/envfile/files, and of RAPIDS' development files
(``rapids_lines.yaml``). Left out is what nobody has: CUDA 11, and channels that ended.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

from ctk.core.checkout import Workspace, workspace
from ctk.envfile.model import FileEnvironment, Tool
from ctk.envfile.read import read_file
from ctk.plan.conda_forge import other_channels
from ctk.plan.names import known_names
from ctk.plan.plan import Request, small, write_repodata
from ctk.plan.recipes import find_recipes
from ctk.solve.channels import planned, universe
from ctk.solve.solve import Catalogue, Scenario, channel_url, parse_spec
from ctk.verify.clients import RattlerSolver
from ctk.verify.libsolv import Libsolv
from ctk.verify.run import Solver
from kit import kept_channel
from kit.small_channel import write

HERE = Path(__file__).parent
GOLDEN = HERE / "hidden.txt"
FILES = workspace().root / "tests" / "unit" / "envfile" / "files"
RAPIDS = HERE / "rapids_lines.yaml"
SUBDIR = kept_channel.SUBDIR
# Channels that have nothing of today's CUDA, or that ended.
OTHER_CHANNELS = ("pytorch", "nvidia", "intel", "nvidia/label/cuda-12.1.0")
# Recipes of the toolkit of which NVIDIA publishes wheels for newer minors only, and which packages
# of conda-forge need for all minors.
NEWER_ONLY = ("cuda-cuobjdump", "cuda-nvdisasm")


class Machine(NamedTuple):
    """A driver and a GPU."""

    driver: str
    gpu: str

    def __str__(self) -> str:
        return f"{self.driver} {self.gpu}"


NEWER, OLDER = Machine("13.0", "9.0"), Machine("12.4", "8.0")
MACHINES = (NEWER, OLDER)


@dataclass(frozen=True)
class Asked:
    """The lines about CUDA of one environment of a file.

    Attributes:
        file: The number of the file, or the repository of RAPIDS.
        environment: "" in a file that has one.
        specs: As a solver takes them.
    """

    file: str
    environment: str
    specs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}/{self.environment}" if self.environment else self.file

    def on(self, machine: Machine, *lines: str) -> Scenario:
        """The request on a machine, with more lines."""
        return Scenario((*self.specs, *lines), SUBDIR, machine.driver, machine.gpu)


# --- the channels


def sets(project: Workspace) -> dict[str, Request]:
    """Name of a set -> the builds that it has."""
    default = small(Request(), project)
    before = [release for release in default.releases if release != "13.3"]
    libraries = small(Request(), project, libraries=True)
    toolkits = small(Request(), project, all_releases=True, all_components=True)
    less = [recipe for recipe in toolkits.recipes if recipe not in NEWER_ONLY]
    return {
        "default without 13.3": Request(before, default.recipes),
        "default": default,
        "default and libraries": Request(default.releases, libraries.recipes),
        "toolkits": toolkits,
        "toolkits, less": Request(toolkits.releases, less),
        "everything": Request((), tuple(find_recipes(project.recipes))),
    }


class Places:
    """The channels; each is written once."""

    def __init__(self, project: Workspace, folder: Path) -> None:
        self.project = project
        self.folder = folder
        self.foreign = write(folder / "conda-forge", kept_channel.records(project))
        self.base = write_repodata(universe(), folder / "base")
        self.sets = sets(project)

    def ours(self, name: str) -> Path:
        """The channel with a set of packages."""
        place = self.folder / name.replace(" ", "-")
        if not place.exists():
            write_repodata(planned(self.project, [SUBDIR], self.sets[name]), place)
        return place

    def behind(self, name: str) -> list[Path]:
        """A set of packages before the other channels."""
        return [self.ours(name), self.foreign, self.base]

    @cached_property
    def others(self) -> Catalogue:
        return Catalogue([self.foreign], SUBDIR)

    def solver(self, name: str) -> Solver:
        """One of the solvers, by name and priority."""
        if name == "rattler":
            return RattlerSolver()
        return Libsolv(self.project, strict=name != "flexible")


def has(catalogue: Catalogue, spec: str) -> bool:
    """Whether a channel has a package that fits a spec, for the platform or for all."""
    return any(catalogue.query([spec]))


# --- the requests


def lines_of_files() -> Iterator[Asked]:
    """The lines that conda installs, of each environment of each file."""
    for path in sorted(FILES.glob("[0-9]*")):
        for environment in read_file(path).environments:
            yield Asked(path.name[:2], environment.name, tuple(_specs(environment)))


def _specs(environment: FileEnvironment) -> Iterator[str]:
    for line in environment.lines:
        gone = line.channel in OTHER_CHANNELS
        if line.tool is Tool.CONDA and line.is_for(SUBDIR) and not gone:
            yield line.spec


def lines_of_rapids() -> Iterator[Asked]:
    """The lines of each repository, for each toolkit."""
    for repository, facts in YAML(typ="safe").load(RAPIDS).items():
        for minor, also in facts["also"].items():
            yield Asked(repository, minor, (*facts["lines"], *also))


@dataclass(frozen=True)
class Requests:
    """What is asked, and what is left out.

    Attributes:
        asked: The requests, each once for a file.
        nobody: Spec that nobody has -> the files.
    """

    asked: tuple[Asked, ...]
    nobody: Mapping[str, tuple[str, ...]]

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and the repositories of RAPIDS."""
        return tuple(dict.fromkeys(one.file for one in self.asked))


def requests(places: Places) -> Requests:
    """The lines about CUDA that somebody has."""
    everything = Catalogue([places.ours("everything")], SUBDIR)
    known, kept = known_names(places.project), other_channels(places.project)
    names = places.others.own_names | everything.own_names

    def is_cuda(name: str) -> bool:
        return name in names or bool(kept.kept(name) or known.meant_by(name))

    found: dict[Asked, None] = {}
    nobody: dict[str, dict[str, None]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for asked in (*lines_of_files(), *lines_of_rapids()):
        parsed = (parse_spec(text) for text in asked.specs)
        specs = [str(spec.match) for spec in parsed if is_cuda(spec.name)]
        had = tuple(spec for spec in specs if has(places.others, spec) or has(everything, spec))
        for spec in set(specs) - {*had}:
            nobody.setdefault(spec, {})[asked.file] = None
        if had and (asked.file, had) not in seen:
            seen.add((asked.file, had))
            found[Asked(asked.file, asked.environment, had)] = None
    return Requests(tuple(found), {spec: tuple(nobody[spec]) for spec in sorted(nobody)})


# --- the measurement


@dataclass(frozen=True)
class Measured:
    """What a set of packages hides.

    Attributes:
        hidden: Spec -> the files.
        broken: `strict`, `strict/libsolv` or `flexible` -> machine -> the requests that it makes
            unsolvable.
    """

    hidden: Mapping[str, tuple[str, ...]]
    broken: Mapping[str, Mapping[Machine, tuple[Asked, ...]]]


def measure(places: Places, name: str, asked: tuple[Asked, ...]) -> Measured:
    """What a set of packages hides of some requests."""
    strict = _broken(places, name, "rattler", asked)
    libsolv = _broken(places, name, "libsolv", asked)
    broken = {"strict": strict}
    if libsolv != strict:
        broken["strict/libsolv"] = libsolv
    broken["flexible"] = _broken(places, name, "flexible", asked)
    return Measured(_hidden_specs(places, name, asked), broken)


def _hidden_specs(places: Places, name: str, asked: Sequence[Asked]) -> dict[str, tuple[str, ...]]:
    catalogue = Catalogue([places.ours(name)], SUBDIR)
    hidden: dict[str, dict[str, None]] = {}
    for one in asked:
        for spec in one.specs:
            is_here = parse_spec(spec).name in catalogue.own_names
            if is_here and not has(catalogue, spec) and has(places.others, spec):
                hidden.setdefault(spec, {})[one.file] = None
    return {spec: tuple(hidden[spec]) for spec in sorted(hidden)}


def _broken(
    places: Places, name: str, solver: str, asked: tuple[Asked, ...]
) -> dict[Machine, tuple[Asked, ...]]:
    found = {}
    for machine in MACHINES:
        wanted = _solved_without_us(places, machine, asked)
        beside = _solved(places.solver(solver), places.behind(name), machine, wanted)
        found[machine] = tuple(one for one in wanted if one not in beside)
    return found


@cache
def _solved_without_us(
    places: Places, machine: Machine, asked: tuple[Asked, ...]
) -> tuple[Asked, ...]:
    solved = _solved(places.solver("rattler"), [places.foreign, places.base], machine, asked)
    return tuple(one for one in asked if one in solved)


def _solved(
    solver: Solver, channels: Sequence[Path], machine: Machine, asked: Iterable[Asked]
) -> set[Asked]:
    scenarios = {one: one.on(machine) for one in asked}
    answers = solver.solve_all(set(scenarios.values()), channels)
    solved = {answer.scenario for answer in answers if answer.solved}
    return {one for one in scenarios if scenarios[one] in solved}


Lines = Mapping[tuple[str, ...], tuple[Asked, ...]]
"""Names of packages, from conda-forge -> the requests that rattler solves with them."""


def all_lines(places: Places, name: str, measured: Measured) -> Lines:
    """The lines for each request that strict priority makes unsolvable.

    A toolkit that a set does not have does not count here: it can be built.

    They are packages that flexible priority takes from conda-forge, of which none can be left out;
    () if all of them do not help.
    """
    found: dict[tuple[str, ...], list[Asked]] = {}
    lacks_toolkit = {spec for spec in measured.hidden if spec.startswith("cuda-version ")}
    for one in measured.broken["strict"][NEWER]:
        if lacks_toolkit.intersection(one.specs):
            continue
        taken = _taken(places, name, one)
        # What helped another request, the fewest lines first, spares a search.
        known = (names for names in sorted(found, key=len) if names and {*names} <= {*taken})
        helping = (names for names in known if solves_with(places, name, one, names))
        names = next(helping, None) or _needed(places, name, one, taken)
        found.setdefault(names, []).append(one)
    return {names: tuple(found[names]) for names in sorted(found)}


def _taken(places: Places, name: str, asked: Asked) -> tuple[str, ...]:
    """The packages that flexible priority takes from conda-forge, and this channel has by name."""
    own = Catalogue([places.ours(name)], SUBDIR).own_names
    (answer,) = places.solver("flexible").solve_all([asked.on(NEWER)], places.behind(name))
    place = f"/{places.foreign.name}"
    return tuple(
        package
        for package, record in sorted(answer.records.items())
        if package in own and record.channel.rstrip("/").endswith(place)
    )


def _needed(places: Places, name: str, asked: Asked, taken: tuple[str, ...]) -> tuple[str, ...]:
    if not solves_with(places, name, asked, taken):
        return ()
    for package in taken:
        fewer = tuple(other for other in taken if other != package)
        if solves_with(places, name, asked, fewer):
            taken = fewer
    return taken


def solves_with(places: Places, name: str, asked: Asked, packages: Sequence[str]) -> bool:
    """Whether rattler solves a request with lines for packages of conda-forge."""
    lines = (f"{channel_url(places.foreign).rstrip('/')}::{package}" for package in packages)
    (answer,) = RattlerSolver().solve_all([asked.on(NEWER, *lines)], places.behind(name))
    return answer.solved


# --- the file


def written(name: str, measured: Measured, found: Requests) -> Iterator[str]:
    """The block of a set, without the lines that help."""
    yield f"set {name}"
    for spec, files in measured.hidden.items():
        yield f"  hidden {spec}: {' '.join(files)}"
    for priority, by_machine in measured.broken.items():
        for machine, broken in by_machine.items():
            yield f"  {priority} {machine}: {_short(broken, found)}"


def written_lines(lines: Lines, found: Requests) -> Iterator[str]:
    """The lines that help, at the end of a block."""
    for names, solved in lines.items():
        yield f"  lines {' '.join(names) or '?'}: {_short(solved, found)}"


def _short(asked: Sequence[Asked], found: Requests) -> str:
    """Requests, with one word for all repositories of RAPIDS."""
    words = [str(one) for one in asked]
    for minor in ("12.9", "13.3"):
        every = [str(one) for one in found.asked if one.environment == minor]
        if set(every) <= {*words}:
            words = [word for word in words if word not in every]
            words.append(f"rapids/{minor}")
    return " ".join(words) or "-"


def left_out(found: Requests) -> Iterator[str]:
    """The block of what nobody has."""
    yield f"requests: {len(found.asked)} of {len(found.files)}"
    for spec, files in found.nobody.items():
        yield f"  nobody has {spec}: {' '.join(files)}"


def blocks() -> dict[str, list[str]]:
    """First line of a block of ``hidden.txt`` -> its lines."""
    found: dict[str, list[str]] = {}
    first = ""
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            first = line
        found.setdefault(first, []).append(line)
    return found


def main() -> None:
    """Writes ``hidden.txt``. Needs libsolv."""
    head = [line for line in GOLDEN.read_text().splitlines() if line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        places = Places(workspace(), Path(folder))
        found = requests(places)
        lines = [*left_out(found)]
        for name in places.sets:
            measured = measure(places, name, found.asked)
            lines += written(name, measured, found)
            lines += written_lines(all_lines(places, name, measured), found)
    GOLDEN.write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    main()
