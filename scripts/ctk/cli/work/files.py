"""Files in the place of specs: what their lines are here, their pick, and the file rewritten."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rattler import Version, VersionSpec

from ctk.cli.options import Selection
from ctk.cli.work import machines
from ctk.cli.work.picks import (
    REASON_LINES,
    ChannelOptions,
    reason_for_programs,
    show_toolkit,
)
from ctk.core import console
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import BadValue, UnknownName, Unsolvable
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.versions import python_name
from ctk.envfile.answer import answers, cuda_lines
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.pixi import DEFAULT
from ctk.envfile.read import read_file
from ctk.envfile.rewrite import Edit, ForFirst, difference, name_of_new, rewritten, write_new
from ctk.envfile.rewrite_edits import readable_spec
from ctk.envfile.row import Answer, Row
from ctk.envfile.shelf import TOOLKIT, is_for_cuda_only, is_replaced
from ctk.envfile.solved import Part, Solved, solve_lines
from ctk.lock.components import unmeasured
from ctk.lock.model import release_locks
from ctk.package.records import spec_name
from ctk.plan.plan import python_tags
from ctk.solve.advice import checkout_of, has_conda_forge, planned_of
from ctk.solve.machine import Machine, refuse_impossible
from ctk.solve.machine import machine as find_machine
from ctk.solve.pixi import pixi_lines, toml, toml_key
from ctk.solve.solve import (
    ASKING,
    ASKS,
    Catalogue,
    Scenario,
    channel_name,
    channel_url,
    lasting,
    parse_spec,
)
from ctk.solve.why import solve_or_say_why

LABELS = {
    Answer.HERE: "here",
    Answer.OTHER_VERSION: "another version",
    Answer.OTHER_NAME: "another name",
    Answer.NOT_BUILT: "not built",
    Answer.BASE: "not ours",
    Answer.HIDDEN: "hidden",
    Answer.ELSEWHERE: "elsewhere",
    Answer.NOWHERE: "nowhere",
    Answer.PIP: "pip",
    Answer.LEFT: "left as it is",
}
_PATCHES = 40  # of a minor of Python: more than any has
_FEW = 5  # names in a sentence


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


# --- a file, read


def read_all(path: Path, order: Order, report: Reporter) -> Read:
    """Reads, answers and solves a file."""
    file = read_file(path)
    environment = environment_of(file, order.environment)
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


# --- ctk solve FILE


def solve_files(
    paths: Sequence[Path], order: Order, new: Path | None, *, with_reasons: bool
) -> None:
    """Shows what the lines of files are here, and what they give on a machine."""
    lines = None if with_reasons else REASON_LINES
    files: list[dict[str, Any]] = []
    for path in paths:
        with _document_of_file(files):
            report = Reporter()
            read = read_all(path, order, report)
            show_rows(read, report)
            if new is not None:
                _write(read, order.options, new, report)
            _show_pick(read, report, lines)


@contextmanager
def _document_of_file(files: list[dict[str, Any]]) -> Iterator[None]:
    """Moves what is said of a file from the document into an entry of its list of files."""
    document = console.mode().document
    document.clear()
    try:
        yield
    finally:
        files.append(dict(document))
        document.clear()
        document["files"] = files


def solve_fleet_of(path: Path, order: Order, fleet: machines.StatedMachines) -> None:
    """Shows the fewest environments for a fleet that have what a file asks for."""
    report = Reporter()
    read = read_all(path, order, report)
    show_rows(read, report)
    asked = read.solved.scenario.specs
    specs = tuple(spec for spec in asked if spec_name(spec) not in ASKING)
    if read.solved.part is Part.CUDA:
        report.line("the answers are for the packages about CUDA: add the others to each command")
    _show_elsewhere(read, report)
    machines.solve_fleet(specs, fleet, order.options)


def show_rows(read: Read, report: Reporter, *, is_building: bool = False) -> None:
    """Prints the answers to the lines about CUDA, and what else there is to say of a file.

    Args:
        read: The file.
        report: Where it is printed.
        is_building: Whether what is not built is built next, and no step is needed.
    """
    file, rows = read.file, read.rows
    lines = [line for line in read.environment.lines if line.is_for(read.catalogue.subdir)]
    report.result(**_as_json(read, lines))
    name = f"{file.path}"
    if read.environment.name:
        name = f"{name}, environment {read.environment.name}"
    others = len(lines) - len(rows)
    report.line(f"{name}: {count(len(lines), 'package')}, {len(rows)} of them about CUDA", "bold")
    if rows:
        shown = [_shown(row, read.catalogue) for row in rows]
        title = f"what this channel has of them for {read.machine.subdir}"
        report.table(title, ["line", "in the file", "here", "write"], shown, right=["line"])
    if (python := _python_of_none(read)) and not is_building:
        report.line(_no_python(python))
    if not is_building and _is_to_build(read):
        report.line(f"to build what this channel lacks: `{_build_line(read)}`")
    for line in (*_below(read), *_not_measured(read)):
        report.line(line)
    for line in _hints(lines) if rows else ():
        report.line(line)
    if others and rows:
        stay = "it stays as it is" if others == 1 else "they stay as they are"
        report.line(f"not about CUDA: {count(others, 'line')}, and {stay}")
    for note in file.notes:
        report.line(f"not read: {note}")
    for line in _about_unused(read):
        report.line(line)


def _about_unused(read: Read) -> Iterator[str]:
    """What is said of features of pixi that no environment has."""
    name = read.environment.name
    if read.environment.is_unused:
        yield f"no environment has the feature {name}: for pixi, add to [environments]:"
        yield f"  {toml_key(name)} = {toml([name])}"
        return
    unused = [one.name for one in read.file.environments if one.is_unused]
    if unused:
        yield f"pixi installs these features nowhere: {listing(unused, most=_FEW)}"


def _hints(lines: Iterable[Line]) -> Iterator[str]:
    """What the packages of a file need besides for their main use, and it does not name."""
    names = {line.name for line in lines}
    if "numba" in names and not any(name.startswith("numba-cuda") for name in names):
        yield "numba: for kernels on the GPU, add numba-cuda, which brings the compiler libNVVM"
    if "torchcodec" in names and "ffmpeg" not in names:
        yield "torchcodec: for videos and sound, add ffmpeg, which no package brings"


def _shown(row: Row, catalogue: Catalogue) -> tuple[object, ...]:
    """A row of the table."""
    here = f"{LABELS[row.answer]}: {row.words}"
    write = ""
    if row.specs is not None:
        write = "\n".join(row.specs) or "(nothing)"
    return row.line.number, row.line.text, here, _with_names(write, catalogue)


def _with_names(text: str, catalogue: Catalogue) -> str:
    """A text with the base channel's name in the place of its address."""
    base = channel_url(catalogue.channels[-1]).rstrip("/")
    return text.replace(f"{base}::", f"{channel_name(base)}::")


def _below(read: Read) -> Iterable[str]:
    """What is said below the table: what is hidden, what can be locked, other environments."""
    hidden = [_with_names(spec, read.catalogue) for row in read.rows for spec in row.by_channel]
    if hidden:
        yield "conda and mamba find what is hidden; so does pixi 0.76 or newer, with"
        yield '  channel-priority = "flexible"'
        yield "or write in pixi.toml:"
        yield from (f"  {line}" for line in pixi_lines(hidden))
    if _is_pixi(read.file) and (behind := _behind_conda_forge(read)):
        yield f"pixi does not find conda-forge's {listing(behind)} behind this channel: for lines"
        yield f"that name the channel, type `{_solve_line(read)}`"
    locking = list(dict.fromkeys(row.lock for row in read.rows if row.lock))
    if locking:
        yield "to have the version of the file here, if the package index has a wheel of it (the"
        yield "command asks it), lock it, read the licences that the command names, measure it and"
        yield "build it. The files of a framework are gigabytes:"
        yield from (f"  {command}" for command in locking)
        yield "  `ctk release measure --write`"
        yield f"  `{_build_line(read)}`"
    if not read.rows and (others := _others_about_cuda(read)):
        verb = "is" if len(others) == 1 else "are"
        yield f"about CUDA {verb} {listing(others, most=_FEW)}: name one with --environment"


def _not_measured(read: Read) -> Iterator[str]:
    """What is said of releases of this checkout that are not measured, and have no plan."""
    if planned_of(read.catalogue) is None:
        return
    names = [name for name, lock in release_locks(workspace()).items() if unmeasured(lock)]
    if names:
        command = shlex.join(["ctk", "release", "measure", *names, "--write"])
        yield f"not measured, so not among what can be built: {listing(names)}. Type `{command}`"


def _behind_conda_forge(read: Read) -> list[str]:
    """The packages of conda-forge, which is not asked, that packages here of their names hide."""
    if has_conda_forge(read.catalogue):
        return []
    ours = checkout_of(read.catalogue).known_names().own | read.catalogue.own_names
    found = []
    for row in read.rows:
        is_named = bool(row.line.channel) and row.specs is None
        if (row.answer is Answer.ELSEWHERE or row.is_elsewhere) and not is_named:
            names = [spec_name(spec) for spec in row.specs or ()] or [row.line.name]
            is_of_conda = row.line.tool is Tool.CONDA or bool(row.specs)
            found += [name for name in names if is_of_conda and name in ours and name != TOOLKIT]
    return list(dict.fromkeys(found))


def _solve_line(read: Read) -> str:
    """The command that answers a file for the same machine with conda-forge as the base channel."""
    words = ["ctk", "solve", str(read.file.path)]
    if len(read.file.environments) > 1:
        words += ["--environment", read.environment.name]
    if read.machine.subdir != this_platform():
        words += ["--platform", read.machine.subdir]
    return shlex.join([*words, *_machine_words(read), "--base", "conda-forge"])


def _others_about_cuda(read: Read) -> list[str]:
    """The other environments of a file that have lines about CUDA."""
    return [
        environment.name
        for environment in read.file.environments
        if environment != read.environment and cuda_lines(environment.lines, read.catalogue)
    ]


def _is_to_build(read: Read) -> bool:
    """Whether recipes here make something that a file asks for and that is not built.

    What a channel of others lacks, nobody builds here. What has no solution even if it were built
    is worth no build.
    """
    if not checkout_of(read.catalogue).may_build:
        return False
    if read.solved.pick is None or _python_of_none(read):
        return False
    return any(row.answer is Answer.NOT_BUILT or row.step for row in read.rows)


def _python_of_none(read: Read) -> str:
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


def _no_python(python: str) -> str:
    """That nothing here is for a Python, in words."""
    return f"no build here is for {python}: recipes here are for Python {listing(_python_minors())}"


def _build_line(read: Read) -> str:
    """The command that builds what of a file recipes here make."""
    words = ["ctk", "build", "--file", str(read.file.path)]
    if len(read.file.environments) > 1:
        words += ["--environment", read.environment.name]
    if read.machine.subdir != this_platform():
        words += ["--platform", read.machine.subdir]
    if read.base != "local":
        words += ["--base", read.base]
    return shlex.join([*words, *_machine_words(read)])  # without it, every default release


def _show_pick(read: Read, report: Reporter, lines: int | None) -> None:
    """Prints the pick of a file.

    Raises:
        Unsolvable: It has none, with the reason.
    """
    solved = read.solved
    if not solved.scenario.specs or not read.rows:
        _show_elsewhere(read, report)
        return
    if solved.part is Part.CUDA and solved.missing:
        lacking = listing(solved.missing, most=_FEW)
        report.line(f"solved for the CUDA packages only: no channel here has {lacking}")
    elif solved.part is Part.CUDA:
        report.line("solved for the CUDA packages only: all lines together have no solution")
    _show_elsewhere(read, report)
    if solved.is_planned and read.catalogue.channels != solved.catalogue.channels:
        report.line("solved as if all packages that can be built here were built")
    if solved.without and solved.pick:
        python = solved.pick.version("python")
        words = f"with Python {python}" if python else "without Python"
        report.line(f"{words}: {listing(solved.without)} is not available with it here")
    report.result(part=solved.part)
    if solved.pick is None:
        with reason_for_programs():
            solve_or_say_why(solved.scenario, solved.catalogue, lines)
        raise Unsolvable(f"{read.file.path} has no solution", "ask again")
    show_toolkit(solved.pick, read.machine, solved.catalogue, report)
    names = {row.line.name for row in read.rows}
    # What asks for CUDA builds is not in the file, and empty.
    names |= {spec_name(spec) for spec in solved.scenario.specs} - set(ASKING)
    shown = [
        (record.name.normalized, str(record.version), record.build, _channel(record))
        for record in solved.pick.records
        if record.name.normalized in names
    ]
    report.table("packages of the file", ["package", "version", "build", "channel"], shown)


def _show_elsewhere(read: Read, report: Reporter) -> None:
    """Names the packages of a file that are not solved, because no channel of these has them."""
    elsewhere = [
        row.line.text for row in read.rows if row.answer is Answer.ELSEWHERE or row.is_elsewhere
    ]
    if elsewhere:
        report.line(f"not solved, because another channel has it: {listing(elsewhere, most=_FEW)}")


def _channel(record: Any) -> str:
    return channel_name(str(record.channel))


def _as_json(read: Read, lines: Sequence[Line]) -> dict[str, Any]:
    """What the document has of a file."""
    return {
        "file": str(read.file.path),
        "format": read.file.format,
        "environment": read.environment.name or None,
        "environments": [environment.name for environment in read.file.environments],
        "lines": [
            {
                "line": row.line.number,
                "text": row.line.text,
                "tool": row.line.tool,
                "package": row.line.name,
                "answer": row.answer,
                "words": row.words,
                "specs": None if row.specs is None else list(row.specs),
                "by_channel": [_with_names(spec, read.catalogue) for spec in row.by_channel],
                "step": row.step or None,
                "lock": row.lock or None,
            }
            for row in read.rows
        ],
        "others": len(lines) - len(read.rows),
        "notes": list(read.file.notes),
        "missing": list(read.solved.missing),
    }


# --- --write


def _write(read: Read, options: ChannelOptions, new: Path, report: Reporter) -> None:
    """Writes a file as it should be for this channel, and shows the difference.

    Raises:
        BadValue: The new name has another ending than the format, there is such a file, or another
            environment of the file is meant.
    """
    ending = name_of_new(read.file)
    if new.suffix.replace("yaml", "yml") != ending:
        what = "an environment.yml" if ending == ".yml" else "a pixi.toml"
        cause = f"of {read.file.path} becomes {what}, and {new} does not end in {ending}"
        raise BadValue(cause, f"name a file that does, such as {new.stem}{ending}")
    others = [] if read.rows else _others_about_cuda(read)
    if others:
        cause = (
            f"the environment {read.environment.name} of {read.file.path} has no line about CUDA"
        )
        raise BadValue(cause, f"name one that has, such as --environment {others[0]}")
    edits = [edit for row in read.rows if (edit := _edit(row, read))]
    channels = _channels_of(read, options, workspace())
    is_asking = any(spec_name(spec) in ASKING for spec in read.solved.scenario.specs)
    can_ask = not _is_pixi(read.file) or read.machine.subdir in read.environment.with_driver
    first = (ASKS,) if is_asking and can_ask else ()
    about = [row.line for row in read.rows]
    place = ForFirst(read.environment.name, about, read.environment.with_driver)
    text = rewritten(read.file, edits, channels, first, _projects(read), place)
    write_new(new, text)
    report.result(written=str(new))
    report.line(difference(read.file.text, text, str(read.file.path), str(new)).rstrip("\n"))
    report.line(f"written: {new}")
    removed = _of_removed_channels(read, edits)
    if removed:
        report.line(f"builds of {listing(_removed(read))}, which the new file does not name, are")
        report.line(f"in no other channel: leave out the build of {listing(removed, most=_FEW)}")
    elif how := _how_to_use(read, new):
        report.line(f"to use it, {how}")
    if ending == ".toml":
        for line in (*_about_driver(read), *_about_project(read, edits, new)):
            report.line(line)


def _removed(read: Read) -> list[str]:
    """The channels of a file that its new text does not name, if it has no others; else []."""
    channels = [name for name in read.environment.channels if name != "nodefaults"]
    removed = [name for name in channels if is_replaced(name)]
    return removed if len(removed) == len(channels) else []


def _of_removed_channels(read: Read, edits: Iterable[Edit]) -> list[str]:
    """The lines that stay, and name a build of a channel that is removed."""
    if not _removed(read):
        return []
    edited = {edit.line for edit in edits}
    found = []
    for line in read.environment.lines:
        spec = readable_spec(line.spec)
        stays = line.tool is Tool.CONDA and line not in edited and not line.channel
        if stays and spec is not None and spec.build:
            found.append(line.text)
    return found


def _how_to_use(read: Read, new: Path) -> str:
    """What to type with the new file, in words; "" if nothing would work."""
    solved = read.solved
    if solved.pick is None or _python_of_none(read):
        return ""
    first = "build what this channel lacks, then " if _is_to_build(read) else ""
    if new.suffix == ".toml":
        words = ["pixi", "install"]
        if read.environment.name not in ("", DEFAULT):
            words += ["--environment", read.environment.name]
        place = f"put it in the place of {read.file.path}"
        return f"{first}{place}, and type `{shlex.join(words)}`"
    conda = shlex.join(["conda", "env", "create", "-n", "gpu", "-f", str(new)])
    if solved.part is not Part.WHOLE or first or _not_here(read):
        return f"{first}type `{conda}`"
    words = ["ctk", "env", "create", "--file", str(new), "--prefix", "./my-env"]
    words += _machine_words(read)
    if read.base != "local":
        words += ["--base", read.base]
    return f"type `{shlex.join(words)}`, or `{conda}`"


def _is_pixi(file: EnvironmentFile) -> bool:
    return file.format in (Format.PIXI, Format.PYPROJECT)


def _about_driver(read: Read) -> Iterator[str]:
    """What is said where the file states another driver than the one that it was solved for."""
    subdir = read.machine.subdir
    driver = read.machine.driver
    stated = read.environment.drivers.get(subdir, "")
    if not driver or stated == driver:
        return
    if stated:
        yield f"pixi locks this file for driver {stated}, which it states, and not for {driver}:"
        yield f'for that, write {driver} in its place, `cuda = "{driver}"`'
        return
    yield "pixi locks this file for a machine without a driver, because it states none: for driver"
    yield f"{driver}, add cuda-gpu to its dependencies, and in its table"
    yield f'[{_prefix_of_feature(read)}system-requirements] the line `cuda = "{driver}"`'


def _prefix_of_feature(read: Read) -> str:
    """What stands before the name of a table of pixi for what is about CUDA in an environment."""
    root = "tool.pixi." if read.file.format is Format.PYPROJECT else ""
    parts = [row.line.part.removeprefix(root) for row in read.rows]
    features = [part.split(".")[1] for part in parts if part.startswith("feature.")]
    if len(features) < len(parts) or not features:
        return root
    return f"{root}feature.{toml_key(features[0])}."


def _edit(row: Row, read: Read) -> Edit | None:
    """What becomes of a line; None if it stays."""
    is_pixi = _is_pixi(read.file)
    if row.by_channel and is_pixi:
        specs = tuple(_with_names(spec, read.catalogue) for spec in row.by_channel)
        return Edit(row.line, specs, "hidden by strict priority otherwise")
    is_same = row.line.tool is Tool.CONDA and row.specs == (row.line.text,)
    if row.specs is None or is_same:
        return None
    is_kept = is_pixi and _is_of_project(row.line)
    comment = f"for {row.line.text}" if is_kept else f"was {row.line.text}"
    written = pixi_lines(row.specs) if is_pixi else list(row.specs)
    if not is_kept and [_plain(line) for line in written] == [_plain(row.line.text)]:
        comment = "was for pip" if row.line.tool is Tool.PIP else ""
    is_everywhere = not is_for_cuda_only(row.line) or _is_pure_python(row, read)
    stays = row.line.tool is Tool.PIP and is_everywhere
    return Edit(row.line, row.specs, comment, stays_without_cuda=stays)


def _plain(text: str) -> str:
    """A line without what says nothing: spaces and quotes."""
    return re.sub(r"[\s\"']", "", text)


def _is_pure_python(row: Row, read: Read) -> bool:
    """Whether what takes the place of a wheel needs Python alone: its wheel is for every platform.

    It is a package without a platform, such as nvidia-ml-py.
    """
    if len(row.specs or ()) != 1:
        return False
    catalogue = planned_of(read.catalogue) or read.catalogue
    found = catalogue.records(spec_name(row.asked[0])) if row.asked else ()
    needs = {spec_name(need) for record in found for need in record.depends}
    return bool(found) and needs <= {"python"} and all(r.subdir == NOARCH for r in found)


def _is_of_project(line: Line) -> bool:
    """Whether a line is in the lists of a pyproject.toml that are not pixi's."""
    return line.tool is Tool.PIP and line.part.partition(".")[0] in ("project", "dependency-groups")


def _projects(read: Read) -> dict[str, str]:
    """Package of this channel -> the project of pip that it is, of lines that are the project's."""
    ours = checkout_of(read.catalogue).known_names().own | read.catalogue.own_names
    found = {}
    for row in read.rows:
        # The package of a wheel of NVIDIA has its files in another place: it is another project.
        is_wheel = row.line.name.startswith("nvidia-")
        if not row.specs or row.is_elsewhere or is_wheel or not _is_of_project(row.line):
            continue
        name = spec_name(row.specs[0])
        if name in ours:
            found[name] = row.line.name
    return found


def _about_project(read: Read, edits: Iterable[Edit], new: Path) -> Iterator[str]:
    """What is said of lines that stay in the project's own lists, beside conda's packages."""
    row_of = {row.line: row for row in read.rows}
    kept = [edit.line for edit in edits if _is_of_project(edit.line)]
    if not kept:
        return
    mapped = set(_projects(read).values())
    yield f"these lines of {new} stay, because they are metadata of the project:"
    for line in kept:
        row = row_of[line]
        remedy = f"pip would install {line.name} a second time: remove this line"
        if line.name in mapped:
            remedy = "pixi 0.71 or newer takes conda's package for it, by conda-pypi-map"
        elif row.is_elsewhere:
            remedy = "pixi takes conda-forge's package for it"
        if row.is_near:
            remedy = "conda's is another version, and pixi refuses both together: loosen this line"
        yield f"  line {line.number}, {line.text}: {remedy}"
    if mapped:
        yield "with an older pixi, remove these lines: pip's copies would stand beside conda's"


def _channels_of(read: Read, options: ChannelOptions, place: Workspace) -> list[str]:
    """The channels of the rewritten file: this one first, then its own that are not replaced."""
    ours = list(options.channels) or [lasting(channel_url(place.channel))]
    others = [name for name in read.environment.channels if name not in ours]
    kept = [name for name in others if not is_replaced(name)]
    if options.base != "local" and options.base not in kept:
        kept.append(options.base)
    if not any(name != "nodefaults" for name in kept):
        kept.append("conda-forge")
    return [*ours, *kept]


# --- other commands


def create_from(
    path: Path, prefix: Path, order: Order, create: Callable[[list[str]], None]
) -> None:
    """Creates an environment that has what a file asks for of conda.

    Args:
        path: The file.
        prefix: The folder of the new environment, for messages.
        order: Its environment in the file, and the machine.
        create: Creates an environment with specs.

    Raises:
        Unsolvable: The channels lack packages, or have no solution.
    """
    report = Reporter()
    read = read_all(path, order, report)
    show_rows(read, report)
    solved = read.solved
    lacking = [*solved.missing, *_not_here(read)]
    if lacking:
        raise _lacking(read, lacking, prefix)
    if solved.is_planned and read.catalogue.channels != solved.catalogue.channels:
        raise Unsolvable(
            f"not all of {path} is built here", f"build it first: `{_build_line(read)}`"
        )
    if not solved.scenario.specs:
        raise Unsolvable(f"{path} asks for no package of conda", "name packages of conda in it")
    create(list(solved.scenario.specs))
    left = _of_pip(read)
    if left:
        report.result(of_pip=left)
        report.line(f"not installed, as they are for pip: {listing(left, most=_FEW)}")


def _not_here(read: Read) -> list[str]:
    """The lines about CUDA that conda is to install, and that nothing here takes the place of."""
    return [
        row.line.text
        for row in read.rows
        if row.line.tool is Tool.CONDA and not row.asked and row.specs != ()
    ]


def _lacking(read: Read, names: Sequence[str], prefix: Path) -> Unsolvable:
    """The error for a file of which no channel has all packages."""
    lacking = listing(names, most=_FEW)
    step = "name a base channel that has more with --base"
    if read.solved.pick:
        words = ["ctk", "env", "create", *read.solved.scenario.specs, "--prefix", str(prefix)]
        words += _machine_words(read)
        step = f"{step}, or create what is about CUDA alone: `{shlex.join(words)}`"
    return Unsolvable(f"no channel has {lacking}", step)


def _machine_words(read: Read) -> list[str]:
    """The options for the machine of a file, if it has a driver."""
    machine = read.machine
    if not machine.driver:
        return []
    gpu = ["--arch", machine.arch] if machine.arch else []
    return ["--driver", machine.driver, *gpu]


def _of_pip(read: Read) -> list[str]:
    """The requirements of a file that pip is to install: no package takes their place."""
    answered = {row.line: row for row in read.rows}
    left = []
    for line in read.environment.lines:
        row = answered.get(line)
        if line.tool is Tool.PIP and (row is None or row.specs is None or row.is_elsewhere):
            left.append(line.text)
    return left


def selection(chosen: Selection, path: Path, base: str) -> Selection:
    """What of a file this checkout makes, as `ctk build` selects it: for --file.

    If the command line names no release, the releases are those that the file pins, or the one that
    the stated machine gets.

    Raises:
        Unsolvable: There is nothing to make.
    """
    report, place = Reporter(), workspace()
    driver, _, gpu = (chosen.drivers or [""])[0].partition(":")
    stated_gpu = gpu or (chosen.gpus or [""])[0]
    platform = chosen.platforms[0] if chosen.platforms else None
    options = ChannelOptions((), base, is_planned=False)
    order = Order(chosen.environment, (platform, driver or None, stated_gpu or None), options)
    read = read_all(path, order, report)
    show_rows(read, report, is_building=True)
    if python := _python_of_none(read):
        raise Unsolvable(_no_python(python), f"let {path} accept one of these")
    packages = _made_here(read)
    if not packages:
        raise Unsolvable(
            f"no recipe here makes a package that {path} asks for",
            f"see what its lines are: `{shlex.join(['ctk', 'solve', str(path)])}`",
        )
    report.line(f"to build: {listing(packages)}")
    chosen = replace(chosen, packages=packages)
    if chosen.releases or chosen.all_releases:
        return chosen
    known = [lock.minor for lock in release_locks(place).values()]
    if pinned := _pinned_releases(read, known):
        report.line(f"for toolkit {listing(pinned)}, which it pins")
        return replace(chosen, releases=pinned, drivers=None, gpus=None)
    solved = read.solved
    with reason_for_programs():
        pick = solved.pick or solve_or_say_why(solved.scenario, solved.catalogue, REASON_LINES)
    toolkit = pick.toolkit
    # The file may ask for less than the newest toolkit of the machine: `cuda-version=12`.
    is_one_machine = len(chosen.drivers or ()) == 1 and len(chosen.gpus or ()) < 2
    if toolkit and toolkit in known and is_one_machine:
        report.line(f"for toolkit {toolkit}, which this machine gets with it")
        return replace(chosen, releases=[toolkit], drivers=None, gpus=None)
    return chosen


def _made_here(read: Read) -> list[str]:
    """The packages of a file that recipes here make, and that are not of the base channel."""
    maker_of = checkout_of(read.catalogue).maker
    names = [
        spec_name(spec)
        for row in read.rows
        if row.answer not in (Answer.BASE, Answer.HIDDEN)
        for spec in row.asked
    ]
    return list(dict.fromkeys(name for name in names if maker_of(name)))


def _pinned_releases(read: Read, known: Collection[str]) -> list[str]:
    """The releases that a file pins, of those that are locked."""
    pins = [spec for row in read.rows for spec in row.asked if spec_name(spec) == "cuda-version"]
    minors = [minor for pin in pins for minor in re.findall(r"\d+\.\d+", pin)]
    return list(dict.fromkeys(minor for minor in minors if minor in known))
