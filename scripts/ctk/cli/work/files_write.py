"""A file, written as it should be for this channel: `ctk solve FILE --write`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ctk.cli.work.files_read import (
    Read,
    is_contradiction,
    is_pixi,
    is_to_build,
    machine_words,
    not_here,
    others_about_cuda,
    python_of_none,
    solve_line,
    with_names,
)
from ctk.cli.work.picks import ChannelOptions
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, listing
from ctk.core.errors import BadValue
from ctk.core.platforms import NOARCH
from ctk.envfile.model import EnvironmentFile, Format, Line, Tool
from ctk.envfile.pixi import DEFAULT
from ctk.envfile.rewrite import Edit, ForFirst, difference, name_of_new, rewritten, write_new
from ctk.envfile.rewrite_edits import readable_spec
from ctk.envfile.row import Answer, Row
from ctk.envfile.shelf import is_for_cuda_only, is_replaced
from ctk.envfile.solved import Part
from ctk.package.records import spec_name
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.solve.advice import checkout_of, planned_of
from ctk.solve.machine import DRIVER
from ctk.solve.pixi import pixi_lines, toml_key
from ctk.solve.solve import ASKING, ASKS, channel_url, lasting

_FEW = 5  # names in a sentence
_NAME = re.compile(r"^name:\s*\S", re.MULTILINE)  # of an environment.yml: conda's `-n` changes it


def write_for_channel(read: Read, options: ChannelOptions, new: Path, report: Reporter) -> None:
    """Writes a file as it should be for this channel, and shows the difference.

    Raises:
        BadValue: The new name has another ending than the format, there is such a file, another
            environment of the file is meant, or nothing in it is about CUDA.
    """
    ending = name_of_new(read.file)
    if new.suffix.replace("yaml", "yml") != ending:
        what = "an environment.yml" if ending == ".yml" else "a pixi.toml"
        cause = f"{new} does not end in {ending}: {read.file.path} becomes {what}"
        raise BadValue(cause, f"name a file that does, such as {new.stem}{ending}")
    others = [] if read.rows else others_about_cuda(read)
    if others:
        cause = (
            f"the environment {read.environment.name} of {read.file.path} has no line about CUDA"
        )
        raise BadValue(cause, f"name one that has, such as --environment {others[0]}")
    if not read.rows:
        cause = f"no line of {read.file.path} is about CUDA, so this channel has nothing for it"
        raise BadValue(cause, "use the file as it is")
    edits = [edit for row in read.rows if (edit := _edit(row, read))]
    edits += _without_their_channel(read)
    channels = _channels_of(read, options, workspace())
    is_asking = any(spec_name(spec) in ASKING for spec in read.solved.scenario.specs)
    can_ask = not is_pixi(read.file) or read.machine.subdir in read.environment.with_driver
    first = (ASKS,) if is_asking and can_ask else ()
    about = [row.line for row in read.rows]
    place = ForFirst(read.environment.name, about, read.environment.with_driver)
    text = rewritten(_written_file(read), edits, channels, first, _projects(read), place)
    write_new(new, text)
    report.result(written=str(new))
    report.line(difference(read.file.text, text, str(read.file.path), str(new)).rstrip("\n"))
    report.line(f"written: {new}")
    if read.file.format.is_lock:
        report.line(
            "it pins what the lock has: if that has no solution, leave out the packages that"
        )
        report.line("others of them bring, and that you do not need yourself")
    removed = _of_removed_channels(read, edits)
    if removed:
        report.line(f"builds of {listing(_removed(read))}, which the new file does not name, are")
        report.line(f"in no other channel: leave out the build of {listing(removed, most=_FEW)}")
    elif is_contradiction(read):
        if read.base != CONDA_FORGE:
            step = f"`{solve_line(read, new)}`"
            report.line(f"to see whether all of it has a solution with {CONDA_FORGE}, type {step}")
    elif how := _how_to_use(read, new):
        report.line(f"to use it, {how}")
    if ending == ".toml":
        for line in (*_about_driver(read), *_about_project(read, edits, new)):
            report.line(line)


def _written_file(read: Read) -> EnvironmentFile:
    """The file of which the text is written: of a lock, the lines for one platform."""
    if not read.file.format.is_lock:
        return read.file
    subdir = read.machine.subdir
    lines = tuple(line for line in read.environment.lines if line.is_for(subdir))
    environment = replace(read.environment, lines=lines, subdirs=(subdir,))
    return replace(read.file, environments=(environment,))


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
    if solved.pick is None or python_of_none(read):
        return ""
    first = "build what this channel lacks, then " if is_to_build(read) else ""
    if new.suffix == ".toml":
        words = ["pixi", "install"]
        if read.environment.name not in ("", DEFAULT):
            words += ["--environment", read.environment.name]
        place = f"put it in the place of {read.file.path}"
        return f"{first}{place}, and type `{shlex.join(words)}`"
    has_name = read.file.format is Format.ENVIRONMENT and _NAME.search(read.file.text)
    name = [] if has_name else ["-n", "gpu"]
    conda = _for_the_machine(shlex.join(["conda", "env", "create", *name, "-f", str(new)]), read)
    is_elsewhere = any(row.answer is Answer.ELSEWHERE or row.is_elsewhere for row in read.rows)
    if solved.part is not Part.WHOLE or first or is_elsewhere or not_here(read):
        return f"{first}type `{conda}`"
    words = ["ctk", "env", "create", "--file", str(new), "--prefix", "./my-env"]
    words += machine_words(read)
    if read.base != "local":
        words += ["--base", read.base]
    return f"type `{shlex.join(words)}`, or `{conda}`"


def _for_the_machine(command: str, read: Read) -> str:
    """A command of conda, with the driver that is stated: on another machine, conda sees none."""
    machine = read.machine
    if not machine.stated or not machine.driver:
        return command
    return f"{DRIVER}={machine.driver} {command}"


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
    prefix = _prefix_of_feature(read)
    table = f"[{prefix}dependencies]"
    if len(read.environment.subdirs) > 1:  # others may have no CUDA
        table = f"[{prefix}target.{subdir}.dependencies]"
    yield "pixi locks this file for a machine without a driver, because it states none: for driver"
    yield f'{driver}, add to its table {table} the line `cuda-gpu = "*"`, and to'
    yield f'[{prefix}system-requirements] the line `cuda = "{driver}"`'


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
    is_for_pixi = is_pixi(read.file)
    if row.by_channel and is_for_pixi:
        specs = tuple(with_names(spec, read.catalogue) for spec in row.by_channel)
        return Edit(row.line, specs, "hidden by strict priority otherwise")
    is_same = row.line.tool is Tool.CONDA and row.specs == (row.line.text,)
    if row.specs is None or is_same:
        return None
    is_kept = is_for_pixi and _is_of_project(row.line)
    text = row.line.spec if read.file.format.is_lock else row.line.text
    comment = f"for {text}" if is_kept else f"was {text}"
    written = pixi_lines(row.specs) if is_for_pixi else list(row.specs)
    if not is_kept and [_plain(line) for line in written] == [_plain(text)]:
        comment = "was for pip" if row.line.tool is Tool.PIP else ""
    is_everywhere = not is_for_cuda_only(row.line) or _is_pure_python(row, read)
    stays = row.line.tool is Tool.PIP and is_everywhere
    return Edit(row.line, row.specs, comment, stays_without_cuda=stays)


def _without_their_channel(read: Read) -> list[Edit]:
    """What becomes of lines that are not about CUDA and name a channel that goes: torchaudio."""
    about = {row.line for row in read.rows}
    lines = [
        line
        for line in read.environment.lines
        if line.tool is Tool.CONDA and line not in about and is_replaced(line.channel)
    ]
    return [Edit(line, (line.spec,), f"was {line.text}") for line in lines]


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
