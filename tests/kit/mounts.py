"""Small and read-only file systems for a command and its tests, without the rights of root where
the kernel allows it.

They are mounted in a namespace of their own, which ends with the block, and which other processes
never see.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Mounts:
    """Mounts that are in place.

    Attributes:
        pid: The process that holds them.
    """

    pid: int

    def see(self, path: Path) -> Path:
        """A path as the commands see it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def enlarge(self, place: Path) -> None:
        """Gives a small file system room."""
        enter = [
            "nsenter",
            "--target",
            str(self.pid),
            "--user",
            "--mount",
            "--preserve-credentials",
        ]
        words = ["mount", "-o", "remount,size=200m", str(place)]
        subprocess.run([*enter, *words], check=True, capture_output=True, text=True)


@contextmanager
def mounts(script: str, **places: Path) -> Iterator[Mounts]:
    """Runs a script of mounts, and keeps what it mounted until the end of the block.

    The test is skipped where no namespace can be made, as in many containers.

    Args:
        script: For sh; ``$name`` is a path.
        places: The paths by name.
    """
    words = [word for name, place in places.items() for word in (f"{name}={place}",)]
    holder = subprocess.Popen(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "env",
            *words,
            "sh",
            "-ec",
            f"{script}\necho ready; read _",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    try:
        if holder.stdout.readline().strip() != "ready":
            assert holder.stderr is not None
            pytest.skip(f"nothing can be mounted here: {holder.stderr.read().strip()}")
        yield Mounts(holder.pid)
    finally:
        holder.kill()
        holder.communicate()


def small(**room: int) -> str:
    """The script that gives each named folder a file system of its own, with that many
    bytes free.
    """
    lines = []
    for name, free in room.items():
        lines += [
            f'mkdir -p "${name}"; old=$(mktemp -d); cp -a "${name}/." "$old"',
            f'mount -t tmpfs -o size=$(($(du -s -B1 "$old" | cut -f1) + {free})) none "${name}"',
            f'cp -a "$old/." "${name}"; rm -rf "$old"',
        ]
    return "\n".join(lines)


def emptied(name: str) -> str:
    """The script that hides what is in a folder, and leaves hardly any room in it."""
    return f'mount -t tmpfs -o size=1m none "${name}"'


def read_only(name: str) -> str:
    """The script that makes a folder one that nobody can write."""
    return f'mount --bind "${name}" "${name}"; mount -o remount,bind,ro "${name}"'
