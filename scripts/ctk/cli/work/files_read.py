"""A file in the place of specs: read, answered and solved for a machine, and facts about it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from rattler import Version, VersionSpec

from ctk.cli.work.picks import ChannelOptions
from ctk.core.checkout import workspace
from ctk.core.console import Reporter, listing
from ctk.core.errors import BadValue, UnknownName
from ctk.core.platforms import this_platform
from ctk.core.versions import python_name
from ctk.envfile.answer import answers, cuda_lines
from ctk.envfile.locked import without_builds
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Tool
from ctk.envfile.read import read_file
from ctk.envfile.row import Answer, Row
from ctk.envfile.solved import Part, Solved, solve_lines
from ctk.package.records import spec_name
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.plan.plan import python_tags
from ctk.solve.advice import checkout_of, planned_of
from ctk.solve.machine import Machine, refuse_impossible
from ctk.solve.machine import machine as find_machine
from ctk.solve.solve import Catalogue, Scenario, channel_name, channel_url, older, parse_spec

_PYTHON_ABI = re.compile(r"python_abi (\d+\.\d+)\.\*")
_PATCHES = 40  # of a minor of Python: more than any has


@dataclass(frozen=True)
class Order:
    """What is asked of files.

    Attributes:
        environment: The environment of each file; None for its default one.
        stated: The options for the machine: --platform, --driver and --arch.
        options: The options for the channels.
    """

    environment: str | None
    stated: tuple[str | None, str | None, str | None]
    options: ChannelOptions


@dataclass(frozen=True)
class Read:
    """A file, answered and solved for a machine."""

    file: EnvironmentFile
    environment: FileEnvironment
    rows: tuple[Row, ...]
    machine: Machine
    catalogue: Catalogue
    solved: Solved
    base: str


def read_all(path: Path, order: Order, report: Reporter) -> Read:
    """Reads, answers and solves a file."""
    file = read_file(path)
    environment = environment_of(file, order.environment)
    if file.format.is_lock:
        environment = without_builds(environment)
    machine = _machine_for(environment, order.stated, report)
    if machine.stated:
        refuse_impossible((machine.driver, machine.arch))
    catalogue = order.options.catalogue(workspace(), machine.subdir, report)
    scenario = Scenario((), machine.subdir, machine.driver, machine.arch)
    rows = answers(environment.lines, catalogue, scenario)
    solved = solve_lines(environment.lines, rows, catalogue, scenario)
    return Read(file, environment, rows, machine, catalogue, solved, order.options.base)


def environment_of(file: EnvironmentFile, name: str | None) -> FileEnvironment:
    """An environment of a file; its default one without a name.

    Raises:
        UnknownName: The file has no such environment.
    """
    if name is None:
        return file.environments[0]
    for environment in file.environments:
        if environment.name == name:
            return environment
    names = [environment.name for environment in file.environments if environment.name]
    if not names:
        raise BadValue(
            f"{file.path} has one environment, without a name", "leave out --environment"
        )
    raise UnknownName.of("environment", name, names)


def _machine_for(
    environment: FileEnvironment,
    stated: tuple[str | None, str | None, str | None],
    report: Reporter,
) -> Machine:
    """The machine that options state, or this one; without a driver, that which the file states."""
    platform, driver, arch = stated
    is_for_others = environment.subdirs and this_platform() not in environment.subdirs
    if platform is None and is_for_others:
        platform = environment.subdirs[0]
    if driver is None:
        here = find_machine(platform, None, None)
        in_file = environment.drivers.get(here.subdir)
        if in_file and not here.driver:
            gpu = arch or environment.archs.get(here.subdir)
            words = f"driver for CUDA {in_file}"
            if gpu and not arch:
                words = f"{words} and a GPU {gpu}"
            report.line(f"for a {words}, which the file states")
            return find_machine(platform, in_file, gpu)
    return find_machine(platform, driver, arch)


def is_pixi(file: EnvironmentFile) -> bool:
    return file.format in (Format.PIXI, Format.PYPROJECT)


def with_names(text: str, catalogue: Catalogue) -> str:
    """A text with the base channel's name in the place of its address."""
    base = channel_url(catalogue.channels[-1]).rstrip("/")
    return text.replace(f"{base}::", f"{channel_name(base)}::")


def others_about_cuda(read: Read) -> list[str]:
    """The other environments of a file that have lines about CUDA."""
    return [
        environment.name
        for environment in read.file.environments
        if environment.name != read.environment.name
        and cuda_lines(environment.lines, read.catalogue)
    ]


def not_here(read: Read) -> list[str]:
    """The lines about CUDA that conda is to install, and that nothing here takes the place of."""
    return [
        row.line.text
        for row in read.rows
        if row.line.tool is Tool.CONDA and not row.asked and row.specs != ()
    ]


def is_contradiction(read: Read) -> bool:
    """Whether a file has a solution for its lines about CUDA alone, and each of its packages is."""
    solved = read.solved
    return solved.pick is not None and solved.part is Part.CUDA and not solved.missing


def is_to_build(read: Read) -> bool:
    """Whether recipes here make something that a file asks for and that is not built.

    What a channel of others lacks, nobody builds here. What has no solution even if it were built
    is worth no build.
    """
    if not checkout_of(read.catalogue).may_build:
        return False
    if read.solved.pick is None or python_of_none(read):
        return False
    if lacking_python(read):
        return True
    return any(row.answer is Answer.NOT_BUILT or row.step for row in read.rows)


def lacking_python(read: Read) -> list[str]:
    """The packages that recipes here make for the Python of a file, and that are for others yet."""
    wanted = python_of(read)
    planned = planned_of(read.catalogue)
    if not wanted or planned is None:
        return []
    names = {spec_name(spec): None for row in read.rows for spec in row.asked}
    return [
        name
        for name in names
        if wanted in pythons_of(name, planned) and wanted not in pythons_of(name, read.catalogue)
    ]


def python_of(read: Read) -> str:
    """The minor of Python that a file asks for; "" if it asks for none, or for one of no recipe."""
    asked = [line for line in read.environment.lines if line.name == "python"]
    if not asked or python_of_none(read):
        return ""
    if not read.solved.without:
        version = read.solved.pick.version("python") if read.solved.pick else ""
        return ".".join(version.split(".")[:2])
    bound = VersionSpec(parse_spec(read.solved.without[0]).version or "*")
    for minor in reversed(_python_minors()):
        if any(bound.matches(Version(f"{minor}.{patch}")) for patch in range(_PATCHES)):
            return minor
    return ""


def pythons_of(name: str, catalogue: Catalogue) -> list[str]:
    """The minors of Python that channels have a package for, oldest first."""
    needs = [need for record in catalogue.records(name) for need in record.depends]
    minors = {match[1] for match in map(_PYTHON_ABI.match, needs) if match}
    return sorted(minors, key=Version)


def better_toolkit(read: Read) -> str:
    """The toolkit that is native for a file on its machine if all that can be built were; or "".

    "" where that is the toolkit of the pick.
    """
    pick, planned = read.solved.pick, planned_of(read.catalogue)
    if pick is None or planned is None or not checkout_of(read.catalogue).may_build:
        return ""
    best = planned.pick(read.solved.scenario)
    if best is None or best.fit != "native" or best.toolkit == pick.toolkit:
        return ""
    is_better = pick.fit != "native" or older(pick.toolkit, best.toolkit)
    return best.toolkit if is_better else ""


def python_of_none(read: Read) -> str:
    """The Python of a file that no recipe here is for, if the pick has a Python; or ""."""
    pick = read.solved.pick
    if pick is None or not pick.version("python"):
        return ""
    versions = [
        Version(f"{minor}.{patch}") for minor in _python_minors() for patch in range(_PATCHES)
    ]
    for text in read.solved.without:
        bound = parse_spec(text).version
        if bound and not any(map(VersionSpec(bound).matches, versions)):
            return text
    return ""


def _python_minors() -> list[str]:
    """The minors of Python that recipes here are for."""
    names = map(python_name, python_tags(workspace().build_config))
    return list(dict.fromkeys(name.removesuffix("t") for name in names))


def no_python(python: str) -> str:
    """That nothing here is for a Python, in words."""
    return f"no build here is for {python}: recipes here are for Python {listing(_python_minors())}"


def build_line(read: Read) -> str:
    """The command that builds what of a file recipes here make."""
    words = ["ctk", "build", "--file", str(read.file.path)]
    if len(read.file.environments) > 1:
        words += ["--environment", read.environment.name]
    if read.machine.subdir != this_platform():
        words += ["--platform", read.machine.subdir]
    if read.base != "local":
        words += ["--base", read.base]
    return shlex.join([*words, *machine_words(read)])  # without it, every default release


def solve_line(read: Read, path: Path) -> str:
    """The command that answers a file for the same machine with conda-forge as the base channel."""
    words = ["ctk", "solve", str(path)]
    if len(read.file.environments) > 1 and path.suffix == read.file.path.suffix:
        words += ["--environment", read.environment.name]
    if read.machine.subdir != this_platform():
        words += ["--platform", read.machine.subdir]
    return shlex.join([*words, *machine_words(read), "--base", CONDA_FORGE])


def machine_words(read: Read) -> list[str]:
    """The options for the machine of a file, if it has a driver."""
    machine = read.machine
    if not machine.driver:
        return []
    gpu = ["--arch", machine.arch] if machine.arch else []
    return ["--driver", machine.driver, *gpu]
