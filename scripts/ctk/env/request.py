"""What was asked for in an environment, and by which client: our note, or conda's history.

A history is a file ``conda-meta/history``, to which each command adds a heading, its command line
and the specs that it was given. conda writes them as a list of Python, mamba as one of JSON.

Sources: conda/history.py of conda, and libmamba/src/core/history.cpp of mamba.
"""

from __future__ import annotations

import ast
import re
import shlex
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ctk.core.errors import BadValue
from ctk.env.prefix import Note, text_of
from ctk.package.records import spec_name
from ctk.solve.solve import Pick, parse_spec

HISTORY = Path("conda-meta", "history")
_SPECS = re.compile(r"#\s*(\w+)\s*specs:\s*(\[.*\])\s*")
_COMMAND = re.compile(r"#\s*cmd:\s*(\S+)")
_ADDS = ("update", "install", "create", "neutered")
"""First words of lines with specs that are asked for.

Those of all other lines are not asked for any more.
"""
_CLIENTS = ("conda", "mamba", "micromamba")
_OF_PIXI = Path("conda-meta", "pixi")


def specs_in_history(text: str) -> tuple[str, ...]:
    """The specs that a history asks for at its end, the last for each name.

    Lines that cannot be read are left out.
    """
    found: dict[str, str] = {}
    for action, listed in _SPECS.findall(text):
        for spec in _list(listed):
            name = spec_name(spec)
            if action not in _ADDS:
                found.pop(name, None)
            elif _is_spec(spec):
                found[name] = spec
    return tuple(found.values())


def write_history(pick: Pick, prefix: Path, now: time.struct_time) -> None:
    """Notes the request of a pick as conda does, with the time.

    Without requests, `conda remove` of a package removes all other packages too. Format:
    conda/history.py. conda adds the installed packages itself when it changes something.
    """
    specs = [spec for spec in pick.scenario.specs if not spec.startswith("__")]
    history = prefix / HISTORY
    if history.is_symlink() or not history.is_file():  # what is behind a link is of something else
        history.unlink(missing_ok=True)
    with history.open("a", encoding="utf-8") as file:
        file.write(f"==> {time.strftime('%Y-%m-%d %H:%M:%S', now)} <==\n")
        file.write(f"# cmd: ctk env create {shlex.join(specs)}\n# update specs: {specs}\n")


def _list(text: str) -> list[str]:
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [str(spec) for spec in found] if isinstance(found, list) else []


def _is_spec(text: str) -> bool:
    if text.startswith("__"):  # of a machine, and no package
        return False
    try:
        parse_spec(text)
    except BadValue:
        return False
    return True


def asked_for(prefix: Path, note: Note | None, installed: Collection[str]) -> tuple[str, ...]:
    """The specs that an environment was asked for.

    Args:
        prefix: Its folder.
        note: The note of `ctk env create`, if all of its packages are of that command.
        installed: The names of its packages. conda too leaves out a spec whose package is not
            there.
    """
    if note:
        return note.specs
    specs = specs_in_history(text_of(prefix / HISTORY))
    return tuple(spec for spec in specs if spec_name(spec) in installed)


def client_of(prefix: Path) -> str:
    """The client that made an environment: ``conda``, ``mamba``, ``micromamba`` or ``pixi``.

    Conda where none says.
    """
    if (prefix / _OF_PIXI).is_file():
        return "pixi"
    commands = [Path(command) for command in _COMMAND.findall(text_of(prefix / HISTORY))]
    for command in reversed(commands):
        # `python -m conda` is .../conda/__main__.py there.
        is_module = command.name == "__main__.py"
        name = command.parent.name if is_module else command.name
        if name in _CLIENTS:
            return name
    return "conda"


def merged(old: Iterable[str], new: Sequence[str]) -> tuple[str, ...]:
    """A request with more specs.

    A spec takes the place of those with its name, but a bare name changes nothing.
    """
    asked = [*old]
    names = {parse_spec(spec).name for spec in asked}
    added = [spec for spec in new if parse_spec(spec).pinned or parse_spec(spec).name not in names]
    replaced = {parse_spec(spec).name for spec in added}
    kept = [spec for spec in asked if parse_spec(spec).name not in replaced]
    return tuple(dict.fromkeys([*kept, *added]))


def with_more(
    asked: Sequence[str], specs: Sequence[str], options: Sequence[tuple[str, str]]
) -> list[str]:
    """The words of a request, as a note has them, with more specs and other options.

    Args:
        asked: The words until now.
        specs: The specs to add.
        options: Names and values of options, in place of those with the same name.
    """
    own, _ = _split(asked)
    replaces_python = any(
        parse_spec(spec).name == "python" and parse_spec(spec).pinned for spec in specs
    )
    kept = options_of(asked, options)
    if replaces_python:
        kept = [(name, value) for name, value in kept if name != "--python"]
    words = [word for pair in kept for word in pair]
    return [*merged(own, specs), *words]


def options_of(asked: Sequence[str], options: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The options of a request with their values.

    Others take the place of those with the same name.
    """
    replaced = {name for name, _ in options}
    if "--driver" in replaced:  # the GPU is of the same machine
        replaced.add("--arch")
    kept = [(name, value) for name, value in _split(asked)[1] if name not in replaced]
    return [*kept, *options]


def _split(asked: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The specs and the options of a request; each option has a value."""
    specs: list[str] = []
    options: list[tuple[str, str]] = []
    words = iter(asked)
    for word in words:
        if word.startswith("--"):
            options.append((word, next(words, "")))
        else:
            specs.append(word)
    return specs, options


def values_of(asked: Sequence[str], option: str) -> list[str]:
    """The values of an option in a request."""
    return [value for name, value in _split(asked)[1] if name == option]


def install_line(client: str, prefix: Path, channels: Sequence[str], specs: Sequence[str]) -> str:
    """The command that adds specs to an environment of a client."""
    if client == "pixi":  # its manifest says what is in the environment, and which channels
        return shlex.join(["pixi", "add", *specs])
    named = [word for channel in channels for word in ("-c", channel)]
    return shlex.join([client, "install", "-p", str(prefix), *named, *specs])
