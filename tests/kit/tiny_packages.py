"""A channel of tiny real packages: what an environment is made of, without a megabyte of it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctk.build.reproducible import Edit, rewrite
from kit import small_channel
from kit.packages import Draft

PLACEHOLDER = "/somewhere/else/host_env_" + "placehold_" * 20
# In a binary the path ends with a zero byte, and what is shorter is filled up with them.
BINARY = b"\x7f\x00before " + PLACEHOLDER.encode() + b"/lib\x00after"

NOISE = bytes(range(256)) + hashlib.sha512(b"noise").digest() * 8


def tiny(name: str, version: str = "1.0", **more: Any) -> Draft:
    """A package; what lies in ``bin`` can be run."""
    return Draft(name, version, "0", **more)


def write_channel(folder: Path, packages: Sequence[Draft]) -> None:
    """The packages with their repodata."""
    records = []
    for package in packages:
        content = package.write(folder).read_bytes()
        hashes = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        records.append({**package.index_json(), **hashes})
    small_channel.write(folder, iter(records))


def rewrite_in_place(package: Path, time: int, edit: Edit = lambda files: files) -> None:
    rewrite(package, package.with_suffix(".new"), time=time, edit=edit)
    package.with_suffix(".new").replace(package)


def python(subdir: str = "linux-64", **more: Any) -> Draft:
    """A Python that is the one of this process: it can do what unpacking needs."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}.0"
    files = {"bin/python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'.encode()}
    return tiny("python", version, subdir=subdir, depends=("__glibc >=2.20",), files=files, **more)


def application(**files: bytes) -> Draft:
    """A package with one of everything that is not just copied."""
    return tiny(
        "application",
        depends=("python", "pure"),
        files={
            "etc/application.conf": f"home={PLACEHOLDER}/share\n".encode(),
            "lib/application.bin": BINARY,
            "lib/libapplication.so.1": b"not really\n" * 500,
            "etc/conda/activate.d/application.sh": (
                b'export APPLICATION="active in $CONDA_PREFIX"\n'
            ),
            "bin/hello": b'#!/bin/sh\necho hello from "$APPLICATION"; exit 7\n',
            **files,
        },
        links={"lib/libapplication.so": "libapplication.so.1", "lib64": "lib"},
        hardlinks={"lib/second.so": "lib/libapplication.so.1"},
        placeholders=dict.fromkeys(("etc/application.conf", "lib/application.bin"), PLACEHOLDER),
    )


def pure() -> Draft:
    """A noarch Python package with a command."""
    link = {
        "noarch": {"type": "python", "entry_points": ["pure = pure:main"]},
        "package_metadata_version": 1,
    }
    return tiny(
        "pure",
        subdir="noarch",
        depends=("python",),
        files={"site-packages/pure.py": b"def main():\n    print('pure')\n"},
        info={"link.json": json.dumps(link).encode()},
        index={"noarch": "python"},
    )
