"""What the lines of a file are here, and its pick, as tables and sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ctk.cli.work.files_read import (
    Read,
    better_toolkit,
    build_line,
    is_pixi,
    is_to_build,
    lacking_python,
    no_python,
    others_about_cuda,
    python_of_none,
    pythons_of,
    solve_line,
    with_names,
)
from ctk.cli.work.picks import reason_for_programs, show_toolkit
from ctk.core.checkout import workspace
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import Unsolvable
from ctk.envfile.model import EnvironmentFile, Line, Tool
from ctk.envfile.row import Answer, Row
from ctk.envfile.shelf import TOOLKIT
from ctk.envfile.solved import Part
from ctk.lock.components import unmeasured
from ctk.lock.model import release_locks
from ctk.package.records import spec_name
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.solve.advice import has_conda_forge, planned_of
from ctk.solve.pixi import pixi_lines, toml, toml_key
from ctk.solve.solve import ASKING, Catalogue, channel_name
from ctk.solve.why import explain, solve_or_say_why

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
_FEW = 5  # names in a sentence


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
    if (python := python_of_none(read)) and not is_building:
        report.line(no_python(python))
    if lacking := lacking_python(read):
        pythons = listing(pythons_of(lacking[0], read.catalogue))
        if pythons != "none":
            report.line(f"this channel has {listing(lacking, most=_FEW)} for Python {pythons} only")
    if not is_building and is_to_build(read):
        report.line(f"to build what this channel lacks: `{build_line(read)}`")
    for line in (*_below(read), *_not_measured(read)):
        report.line(line)
    for line in _hints(lines) if rows else ():
        report.line(line)
    if others and rows:
        report.line(f"not about CUDA: {count(others, 'line')}, and {_stays(others, file)}")
    for note in file.notes:
        report.line(f"not read: {note}")
    for line in _about_unused(read):
        report.line(line)


def _stays(others: int, file: EnvironmentFile) -> str:
    """What becomes of lines that are not about CUDA, in words."""
    if file.format.is_lock:
        return "a new file keeps name and version"
    return "it stays as it is" if others == 1 else "they stay as they are"


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
    return row.line.number, row.line.text, here, with_names(write, catalogue)


def _below(read: Read) -> Iterable[str]:
    """What is said below the table: what is hidden, what can be locked, other environments."""
    hidden = [with_names(spec, read.catalogue) for row in read.rows for spec in row.by_channel]
    if hidden:
        yield "conda and mamba find what is hidden; so does pixi 0.76 or newer, with"
        yield '  channel-priority = "flexible"'
        yield "or write in pixi.toml:"
        yield from (f"  {line}" for line in pixi_lines(hidden))
    if is_pixi(read.file) and (behind := _behind_conda_forge(read)):
        yield f"pixi does not find conda-forge's {listing(behind)} behind this channel: for lines"
        yield f"that name the channel, type `{solve_line(read, read.file.path)}`"
    locking = list(dict.fromkeys(row.lock for row in read.rows if row.lock))
    if locking:
        yield "to have the version of the file here, if the package index has a wheel of it (the"
        yield "command asks it), lock it, read the licences that the command names, measure it and"
        yield "build it. The files of a framework are gigabytes:"
        yield from (f"  {command}" for command in locking)
        yield "  `ctk release measure --write`"
        yield f"  `{build_line(read)}`"
    if not read.rows and (others := others_about_cuda(read)):
        yield f"lines about CUDA are in {listing(others)}: name one with --environment"


def _not_measured(read: Read) -> Iterator[str]:
    """What is said of releases of this checkout that are not measured, and have no plan."""
    if planned_of(read.catalogue) is None:
        return
    names = [name for name, lock in release_locks(workspace()).items() if unmeasured(lock)]
    if names:
        command = shlex.join(["ctk", "release", "measure", *names, "--write"])
        yield f"not measured, so not among what can be built: {listing(names)}. Type `{command}`"


def _behind_conda_forge(read: Read) -> list[str]:
    """The packages of conda-forge, which is not asked, that packages here of their names hide.

    With what can be built for the file as if it were.
    """
    if has_conda_forge(read.catalogue):
        return []
    ours = read.solved.catalogue.own_names
    found = []
    for row in read.rows:
        is_named = bool(row.line.channel) and row.specs is None
        if (row.answer is Answer.ELSEWHERE or row.is_elsewhere) and not is_named:
            names = [spec_name(spec) for spec in row.specs or ()] or [row.line.name]
            is_of_conda = row.line.tool is Tool.CONDA or bool(row.specs)
            found += [name for name in names if is_of_conda and name in ours and name != TOOLKIT]
    return list(dict.fromkeys(found))


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
                "by_channel": [with_names(spec, read.catalogue) for spec in row.by_channel],
                "step": row.step or None,
                "lock": row.lock or None,
            }
            for row in read.rows
        ],
        "others": len(lines) - len(read.rows),
        "notes": list(read.file.notes),
        "missing": list(read.solved.missing),
    }


def show_pick(read: Read, report: Reporter, lines: int | None) -> None:
    """Prints the pick of a file.

    Raises:
        Unsolvable: It has none, with the reason.
    """
    solved = read.solved
    if not solved.scenario.specs or not read.rows:
        show_elsewhere(read, report)
        return
    if solved.part is Part.CUDA and solved.missing:
        lacking = listing(solved.missing, most=_FEW)
        report.line(f"solved for the CUDA packages only: no channel here has {lacking}")
    elif solved.part is Part.CUDA:
        report.line("solved for the CUDA packages only: all lines together have no solution")
    show_elsewhere(read, report)
    if solved.is_planned and read.catalogue.channels != solved.catalogue.channels:
        report.line("solved as if all packages that can be built here were built")
    if solved.without and solved.pick:
        python = solved.pick.version("python")
        words = f"with Python {python}" if python else "without Python"
        report.line(f"{words}: {listing(solved.without)} is not available with it here")
        if read.base == "local":
            report.line(f"for another Python than this machine's, name --base {CONDA_FORGE}")
    report.result(part=solved.part)
    if solved.pick is None:
        with reason_for_programs():
            solve_or_say_why(solved.scenario, solved.catalogue, lines)
        raise Unsolvable(f"{read.file.path} has no solution", "ask again")
    reasons = explain(solved.pick, solved.catalogue) if lines is None else []
    report.result(explain=reasons)
    show_toolkit(solved.pick, read.machine, solved.catalogue, report, reasons)
    for sentence in _toolkit_of_other_names(read.rows):
        report.line(sentence)
    # What of `ctk build` makes that of the channel as it is, `show_toolkit` says.
    if solved.is_planned and (native := better_toolkit(read)):
        command = f"`{build_line(read)}`"
        report.line(f"toolkit {native} would be native, but is not built here: {command}")
    names = {row.line.name for row in read.rows}
    # What asks for CUDA builds is not in the file, and empty.
    names |= {spec_name(spec) for spec in solved.scenario.specs} - set(ASKING)
    shown = [
        (record.name.normalized, str(record.version), record.build, _channel(record))
        for record in solved.pick.records
        if record.name.normalized in names
    ]
    report.table("packages of the file", ["package", "version", "build", "channel"], shown)


def _toolkit_of_other_names(rows: Iterable[Row]) -> Iterator[str]:
    """Sentences with the toolkits that lines ask for which do not name cuda-version themselves."""
    found: dict[str, list[Line]] = {}
    for row in rows:
        for spec in row.asked:
            if spec_name(spec) == TOOLKIT and row.line.name != TOOLKIT:
                found.setdefault(spec, []).append(row.line)
    for spec, lines in found.items():
        where = "line" if len(lines) == 1 else "lines"
        numbers = listing([str(line.number) for line in lines], most=_FEW)
        names = listing([line.name for line in lines], most=_FEW)
        yield f"{spec} comes from {where} {numbers}: {names}"


def show_elsewhere(read: Read, report: Reporter) -> None:
    """Names the packages of a file that are not solved, because no channel of these has them."""
    elsewhere = [
        row.line.text for row in read.rows if row.answer is Answer.ELSEWHERE or row.is_elsewhere
    ]
    if elsewhere:
        names = listing([*dict.fromkeys(elsewhere)], most=_FEW)
        report.line(f"not solved, because another channel has it: {names}")


def _channel(record: Any) -> str:
    return channel_name(str(record.channel))
