"""What a lock asks for, where it is no lock any more: versions, and no file of another channel."""

from __future__ import annotations

import re
from dataclasses import replace

from ctk.core.errors import BadValue
from ctk.envfile.model import FileEnvironment, Line, Tool
from ctk.envfile.shelf import CUDA_BUILD
from ctk.solve.solve import parse_spec


def without_builds(environment: FileEnvironment) -> FileEnvironment:
    """An environment of a lock, whose lines name versions: a build is a file of one channel.

    A build for CUDA stays one for CUDA: ``pytorch=2.5.1=*cuda*``.
    """
    lines = tuple(map(_without_build, environment.lines))
    return replace(environment, lines=lines)


def _without_build(line: Line) -> Line:
    if line.tool is Tool.PIP:
        return line
    try:
        spec = parse_spec(line.spec)
    except BadValue:
        return line
    if not spec.version or not spec.build:
        return line
    version = re.sub("^=+", "", spec.version)
    found = CUDA_BUILD.search(spec.build)
    build = f"=*{found[0]}*" if found else ""
    return replace(line, spec=f"{spec.name}={version}{build}")
