"""Packs of a tiny environment, and what is done with them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conftest import ctk
from ctk.core.checkout import Workspace
from kit.packages import Draft
from kit.tiny_packages import python, write_channel

CLEAN = {"PATH": "/usr/bin:/bin"}


@dataclass(frozen=True)
class Made:
    """The pack of an environment."""

    workspace: Workspace  # the checkout they were made in
    whole: Path  # the program
    said: str  # what was printed


def checkout(root: Path, *packages: Draft, subdir: str = "linux-64") -> Workspace:
    """A channel with these packages, and a base channel in `base`."""
    write_channel(root / "output" / "channel", packages)
    write_channel(root / "base", [python(subdir)])
    return Workspace(root)


def create(where: Workspace, prefix: Path, *specs: str) -> subprocess.CompletedProcess[str]:
    """Makes an environment, or gives it another request; what that does not name may go."""
    words = (
        "env",
        "create",
        *specs,
        "--yes",
        "--prefix",
        str(prefix),
        "--base",
        str(where.root / "base"),
    )
    return ctk(where, *words, check=True)


def pack(where: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ctk(where, "env", "pack", "--base", str(where.root / "base"), *arguments)


def unpack(
    file: Path,
    *arguments: str | Path,
    shell: str = "sh",
    cwd: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    words = [shell, "sh"] if shell == "busybox" else [shell]
    return subprocess.run(
        [*words, file, *arguments],
        env={**CLEAN, **environment},
        cwd=cwd or file.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def pretend(folder: Path, **programs: str) -> Mapping[str, str]:
    """Programs that come before the real ones."""
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{CLEAN['PATH']}"}


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence with these words and a next step, and nothing else of importance."""
    assert done.returncode == 1
    (line,) = re.findall("^error: .*$", done.stderr, re.M)
    assert all(word in line for word in words), line
    assert len(re.findall("^next: .+$", done.stderr, re.M)) == 1


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")}
