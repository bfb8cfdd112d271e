"""What becomes of the lines of a file, in any format: each spec once, and changes of its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ctk.core.errors import BadValue
from ctk.envfile.model import Line, Tool
from ctk.solve.solve import Spec, parse_spec


@dataclass(frozen=True)
class Edit:
    """What becomes of a line of a file.

    Attributes:
        line: The line, one of the file's.
        specs: The specs of conda in its place, such as ``cuda-version=12.6``; () and the line goes.
        comment: Why, in a few words. It is written beside the first spec, or in the place of a line
            that goes.
        stays_without_cuda: Whether a line of pip stays for the platforms that have no CUDA, such as
            macOS: a wheel of PyTorch is for them too.
    """

    line: Line
    specs: tuple[str, ...]
    comment: str = ""
    stays_without_cuda: bool = False


@dataclass(frozen=True)
class ForFirst:
    """Where in a file of pixi the specs that ask for CUDA builds stand.

    Attributes:
        environment: The environment that is asked about.
        lines: Its lines about CUDA.
        subdirs: The platforms for which it states a driver: pixi finds no solution for others.
    """

    environment: str
    lines: Sequence[Line]
    subdirs: Sequence[str]


# Each spec once


@dataclass(eq=False)
class _Slot:
    """A line of the new file's, while it is decided what it asks for."""

    line: Line
    specs: list[str]
    comment: str
    is_edited: bool


def without_duplicates(lines: Iterable[Line], edits: Sequence[Edit]) -> list[Edit]:
    """The edits, so that no spec of theirs asks again for what another line asks for.

    A spec that says no more than another line's is left out; one that says more takes the place of
    the other. Two that say different things both stay: which of them is wrong is not known here,
    and a solver refuses them. Lines that nobody edits are compared with edits only, not among each
    other; one that an edit's spec took the place of is among the edits returned.
    """
    edit_of = {edit.line: edit for edit in edits}
    slots = []
    for line in sorted({*lines, *edit_of}, key=lambda line: line.number):
        if line in edit_of:
            slots.append(_Slot(line, [], edit_of[line].comment, is_edited=True))
        elif line.tool is Tool.CONDA:
            slots.append(_Slot(line, [spec_of_line(line)], "", is_edited=False))
    slots_of: dict[str, list[_Slot]] = {}  # a lock has thousands of lines
    for slot in slots:
        if not slot.is_edited:
            slots_of.setdefault(slot.line.name, []).append(slot)
    for slot in slots:
        edit = edit_of.get(slot.line)
        for spec in edit.specs if edit else ():
            of_name = slots_of.setdefault(name_of_spec(spec), [])
            if not _has_place(of_name, slot, spec):
                slot.specs.append(spec)
                of_name.append(slot)
    return [_edit_of(slot, edit_of) for slot in slots if slot.is_edited]


def _edit_of(slot: _Slot, edit_of: Mapping[Line, Edit]) -> Edit:
    """The edit that a slot has become."""
    before = edit_of.get(slot.line, Edit(slot.line, ()))
    return replace(before, specs=tuple(slot.specs), comment=slot.comment)


def _has_place(slots: Sequence[_Slot], new: _Slot, spec: str) -> bool:
    """Whether a slot has a spec already, or takes it in the place of one that says less."""
    for slot in slots:
        is_there = any(says_all_of(other, spec) for other in slot.specs)
        if is_there and _is_wherever(slot.line, new.line):
            return True
    for slot in slots:
        if not _is_wherever(new.line, slot.line):
            continue
        for index, other in enumerate(slot.specs):
            if says_all_of(spec, other):
                _take(slot, index, new, spec)
                return True
    return False


def _take(slot: _Slot, index: int, new: _Slot, spec: str) -> None:
    slot.specs[index] = spec
    slot.is_edited = True
    if slot is not new and not slot.comment:
        # The reason stands where the spec does.
        slot.comment = new.comment
        new.comment = ""


def _is_wherever(line: Line, other: Line) -> bool:
    """Whether a line is for all environments and platforms that another one is for."""
    if _part(line) != _part(other):
        return False
    if not line.subdirs:
        return True
    return bool(other.subdirs) and set(other.subdirs) <= set(line.subdirs)


def _part(line: Line) -> str:
    """The table of a line; the ``pip:`` part of an environment.yml is for the same environment."""
    return "" if line.part == "pip" else line.part


def spec_of_line(line: Line) -> str:
    """The spec of a conda line, with its channel."""
    return f"{line.channel}::{line.spec}" if line.channel else line.spec


def readable_spec(text: str) -> Spec | None:
    """A spec in parts; None for one that cannot be read."""
    try:
        return parse_spec(text)
    except BadValue:
        return None


def says_all_of(text: str, other: str) -> bool:
    """Whether a spec names the package of another one, and all that the other says of it."""
    spec = readable_spec(text)
    less = readable_spec(other)
    if spec is None or less is None or spec.name != less.name:
        return False
    pairs = zip(_said(spec), _said(less), strict=True)
    return all(part in ("", whole) for whole, part in pairs)


def _said(spec: Spec) -> tuple[str, str, str]:
    channel = spec.match.channel
    name = ""
    if channel is not None:
        name = str(channel.name or channel.base_url)
    version = "" if spec.version == "*" else spec.version
    return name, version, spec.build


def missing_specs(specs: Iterable[str], names: Iterable[str]) -> list[str]:
    """The specs whose packages are not among the names."""
    present = set(names)
    return [spec for spec in specs if name_of_spec(spec) not in present]


def name_of_spec(text: str) -> str:
    """The package of a spec; "" for one that cannot be read."""
    spec = readable_spec(text)
    return spec.name if spec else ""


# Changes of a text


@dataclass(frozen=True)
class Change:
    """New text for a range of a text, from `start` up to and without `end`."""

    start: int
    end: int
    text: str


def changed(text: str, changes: Iterable[Change]) -> str:
    """A text after changes that do not overlap; those at one place stand in their order."""
    pieces = []
    position = 0
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        if change.start < position:
            raise ValueError(f"two changes of one text at {change.start}")
        pieces += [text[position : change.start], change.text]
        position = change.end
    pieces.append(text[position:])
    return "".join(pieces)


def line_end_of(text: str) -> str:
    """How the lines of a text end: as its first one does."""
    first = text.partition("\n")[0]
    return "\r\n" if first.endswith("\r") else "\n"


def start_of_line(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def end_of_line(text: str, position: int) -> int:
    """Where the line of a position ends: before its line end."""
    end = text.find("\n", position)
    if end < 0:
        return len(text)
    return end - 1 if end > position and text[end - 1] == "\r" else end


def start_of_next_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


# Comments

_BRACKETS = str.maketrans("[]", "()")


def yaml_comment_of(reason: str, own: str = "") -> str:
    """`comment_of` without square brackets of ours.

    conda-lock takes the last ones of a comment for a selector of platforms, and drops a line with
    ``# was jax[cuda12]`` everywhere (``conda_lock/src_parser/selectors.py``, ``sel_pat``).
    """
    return comment_of(reason.translate(_BRACKETS), own)


def comment_of(reason: str, own: str = "") -> str:
    """A reason as a comment, before the user's own comment of that line; "" for neither."""
    words = " ".join(reason.split())
    ours = f"# {words}" if words else ""
    return "  ".join(filter(None, (ours, own)))


def beside(content: str, comment: str) -> str:
    """A line with a comment behind it."""
    return f"{content}  {comment}" if comment else content
