"""Makes the lines of a file: what a spec of conda or a requirement of pip asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from ctk.envfile.model import Line, Tool
from ctk.envfile.subdirs import SUBDIRS, in_all, of_marker
from ctk.package.records import match_spec

_MOST_NOTES = 20
_LONGEST = 1000  # characters of a spec or requirement, without its hashes: more is not a package
_SHOWN = 80  # characters of a line in a note
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_ARCHIVE = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)-(?P<build>[^-]+)(?:\.conda|\.tar\.bz2)")
_REQUIREMENT_OPTION = re.compile(r"\s--?[a-z].*$", re.DOTALL)  # `--hash=` and others, of one line
# Options that name something that is read by pip and not here.
_INCLUDES = {
    "-r": "another file of requirements",
    "--requirement": "another file of requirements",
    "-c": "a file of constraints",
    "--constraint": "a file of constraints",
    "-e": "a project in a folder or a repository",
    "--editable": "a project in a folder or a repository",
    "-i": "the index of packages",
    "--index-url": "the index of packages",
    "--extra-index-url": "another index of packages",
    "-f": "a page of packages",
    "--find-links": "a page of packages",
}


@dataclass
class Collected:
    """The lines of a part of a file, and notes about what is not a line.

    A text that neither conda nor pip reads is a line if it begins with a name, as ``jax[cuda12]``
    among conda's packages does; else it is a note. It is never an error of the file: the other
    lines can be answered.
    """

    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, line: Line | None, number: int, text: str) -> None:
        """Adds a line, or a note about its text if there is none."""
        if line is None:
            self.note(number, f"`{shown(text)}` is not a package that conda or pip can read")
        else:
            self.lines.append(line)

    def note(self, number: int, sentence: str) -> None:
        """Adds a sentence about a line."""
        self.notes.append(f"line {number}: {sentence}")

    def add_conda(self, text: str, number: int, subdirs: tuple[str, ...] = ()) -> None:
        """Adds what conda is asked for."""
        self.add(conda_line(text, number, subdirs), number, text)

    def add_pip(
        self, text: str, number: int, subdirs: tuple[str, ...] = (), part: str = ""
    ) -> None:
        """Adds what pip is asked for; a note for an option of pip, such as ``-r``."""
        if not is_option(text):
            if line := pip_line(text, number, part):
                narrowed = narrow(line, subdirs)
                self.lines.extend([narrowed] if narrowed else [])
            else:
                self.add(None, number, text)
        elif named := _INCLUDES.get(_option_of(text)):
            self.note(number, f"`{shown(text)}` names {named}, which is not read")


def first_notes(notes: list[str]) -> tuple[str, ...]:
    """The notes, each once; of very many the first ones, and how many more there are."""
    each = list(dict.fromkeys(notes))
    rest = len(each) - _MOST_NOTES
    more = [f"{rest} more lines are not read"] if rest > 0 else []
    return (*each[:_MOST_NOTES], *more)


def shown(text: str) -> str:
    """A text of a file in a sentence: without what an address may keep secret, and not long."""
    plain = re.sub(r"(://)[^\s/]*@", r"\1", " ".join(text.split()))
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}..."


def is_option(text: str) -> bool:
    """Whether a line of a list of pip is an option, such as ``-r other.txt``."""
    return re.match(r"--?[a-z]", text) is not None


def _option_of(text: str) -> str:
    """The option of a line: ``-r`` also of ``-rother.txt``, as pip reads it."""
    return re.split(r"[\s=]", text)[0] if text.startswith("--") else text[:2]


def narrow(line: Line, subdirs: tuple[str, ...]) -> Line | None:
    """A line for those of its platforms that its part of the file is for; None if for none."""
    if not subdirs:
        return line
    both = tuple(subdir for subdir in subdirs if line.is_for(subdir))
    return replace(line, subdirs=both) if both else None


def conda_line(
    text: str, number: int, subdirs: tuple[str, ...] = (), part: str = ""
) -> Line | None:
    """What a text asks conda for: ``channel::name=1.2=build``, or the address of a package.

    A spec that rattler does not read has its name all the same, if it begins with one; None else.
    """
    channel, spec = _without_channel(text.strip())
    archive = of_address(spec)
    if archive:
        return replace(archive, number=number, text=text, subdirs=subdirs, part=part)
    name = _conda_name(spec) if len(spec) <= _LONGEST else ""
    if not name:
        return None
    return Line(number, text, Tool.CONDA, name, spec, channel, in_all(subdirs), part)


def _without_channel(text: str) -> tuple[str, str]:
    """The channel, without a platform behind it; and the spec."""
    head, colons, rest = text.partition("::")
    if not colons or "[" in head:
        return "", text
    channel, slash, subdir = head.rpartition("/")
    if slash and subdir in (*SUBDIRS, "noarch"):
        return channel, rest.strip()
    return head.strip(), rest.strip()


def _conda_name(spec: str) -> str:
    try:
        name = match_spec(spec).name
        return str(name.normalized) if name else ""
    except Exception:  # rattler's own, of many kinds
        found = _NAME.match(spec)
        return found[0].lower() if found else ""


def of_address(address: str) -> Line | None:
    """The package of conda at an address or path, with its channel; None if it is none.

    ``https://conda.example/x/linux-64/a-1.0-0.conda`` is ``a=1.0=0`` of
    ``https://conda.example/x``. It has no line number and no text yet.
    """
    if "/" not in address:
        return None
    plain = address.partition("#")[0]
    folder, _, file = plain.rpartition("/")
    archive = _ARCHIVE.fullmatch(file)
    if archive is None:
        return None
    channel = folder.rpartition("/")[0]
    spec = f"{archive['name']}={archive['version']}={archive['build']}"
    return Line(0, address, Tool.CONDA, archive["name"].lower(), spec, channel)


def pip_line(text: str, number: int, part: str = "") -> Line | None:
    """What a requirement of pip asks for: ``jax[cuda12]>=0.4``, or the address of a wheel.

    A marker sets its platforms. A text that `packaging` does not read, such as ``torch=2.5``, has
    its name all the same; None if it does not begin with one.
    """
    asked = _REQUIREMENT_OPTION.sub("", text).strip()
    if len(asked) > _LONGEST:
        return None
    shown_text = " ".join(asked.split())
    try:
        requirement = Requirement(asked)
    except (InvalidRequirement, RecursionError):
        name = _name_of_file(asked) or _first_name(asked)
        if not name:
            return None
        return Line(number, shown_text, Tool.PIP, name, asked, part=part)
    subdirs = of_marker(requirement.marker)
    requirement.marker = None
    name = canonicalize_name(requirement.name)
    return Line(number, shown_text, Tool.PIP, name, str(requirement), subdirs=subdirs, part=part)


def _name_of_file(address: str) -> str:
    """The project of a wheel or source archive at an address or path; "" if it is none."""
    if egg := re.search(r"[#&]egg=([A-Za-z0-9._-]+)", address):
        return canonicalize_name(egg[1])
    if "/" not in address and "\\" not in address:
        return ""
    try:
        file = PurePosixPath(urlsplit(address).path.replace("\\", "/")).name
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[0]
        return parse_sdist_filename(file)[0]
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        return ""


def _first_name(text: str) -> str:
    """The name before a version that is written wrongly, ``torch=2.5``; "" for anything else."""
    found = re.match(rf"({_NAME.pattern})\s*(?:\[[^\]]*\])?\s*(?:[=<>!~]|$)", text)
    return canonicalize_name(found[1]) if found else ""
