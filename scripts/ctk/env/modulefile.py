"""Module files for an environment: `module load` activates it, `module unload` undoes that.

For Lmod, and for Environment Modules from 4.6 on. Both run the environment's own activation and
note what it sets, so packages may set whatever they like.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue
from ctk.core.files import replace_file
from ctk.env.activation import ACTIVATION, MODULE
from ctk.env.prefix import rewrite

_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)/(?P<version>[A-Za-z0-9][\w.+-]*)")
_IN_TCL = re.compile(r'[\\"$\[\]{};\s]')
_LUA = """\
help({about})
whatis({about})
source_sh("bash", {script})
"""
_TCL = """\
#%Module
proc ModulesHelp {{ }} {{
    puts stderr {about}
}}
module-whatis {about}
conflict {name}
source-sh bash {script}
"""


@dataclass(frozen=True)
class Module:
    """A module: its name and version, as in ``module load gpu/13.0``."""

    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Module:
        """The module of ``gpu/13.0``; BadValue for other texts."""
        found = _NAME.fullmatch(text)
        if found is None:
            raise BadValue(
                f"{text!r} is not the name and the version of a module", "write them as gpu/13.0"
            )
        return cls(found["name"], found["version"])


def texts(module: Module, prefix: Path, about: str) -> Mapping[str, str]:
    """Path below a folder of modules -> the file there, for Lmod and for Environment Modules.

    Raises:
        BadValue: The path of the environment has a character that module files cannot name, or it
            has no activation script of ctk.
    """
    script = str(script_of(prefix))
    if not script.isprintable():
        raise BadValue(
            f"{str(prefix)!r} has a character that no module file can name",
            "make the environment in another folder",
        )
    place = f"{module.name}/{module.version}"
    # Lmod gives the words to a shell.
    lua = _LUA.format(about=_in_lua(about), script=_in_lua(shlex.quote(script)))
    tcl = _TCL.format(name=module.name, about=_in_tcl(about), script=_in_tcl(script))
    return {f"{place}.lua": lua, place: tcl}


def script_of(prefix: Path) -> Path:
    """The script of an environment that module files run; one from an older ctk gets it now.

    Raises:
        BadValue: The environment is not activated by a script of ctk.
    """
    script = prefix / MODULE
    if not script.exists():
        if not (prefix / "bin/deactivate").exists():
            raise BadValue(
                f"{prefix} has no activation script of ctk",
                "make it with ctk env create, or unpack it from a pack",
            )
        rewrite(script, ACTIVATION[MODULE].read_bytes())
    return script


def write(folder: Path, files: Mapping[str, str], *, force: bool) -> list[Path]:
    """Writes module files below a folder; those that are there are replaced with `force` only.

    Raises:
        BadValue: A file is there with other content.
        NoSpace: The folder cannot be written.
    """
    for path, text in files.items():
        place = folder / path
        if place.exists() and not force and place.read_bytes() != text.encode():
            raise BadValue(
                f"{place} already exists with other content",
                "name another version, or replace it with --force",
            )
    written = []
    with disk_errors(folder):
        for path, text in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, text.encode())
            written.append(place)
    return written


def _in_lua(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _in_tcl(text: str) -> str:
    escaped = _IN_TCL.sub(lambda found: "\\" + found[0], text)
    return escaped or '""'
