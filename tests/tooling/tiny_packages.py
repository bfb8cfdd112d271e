"""A channel of tiny real packages: what an environment is made of, without a megabyte of it."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

PLACEHOLDER = "/somewhere/else/host_env_" + "placehold_" * 20
# In a binary the path ends with a zero byte, and what is shorter is filled up with them.
BINARY = b"\x7f\x00before " + PLACEHOLDER.encode() + b"/lib\x00after"

NOISE = bytes(range(256)) + hashlib.sha512(b"noise").digest() * 8


@dataclass(frozen=True)
class Tiny:
    """A package.

    Attributes:
        files: Path -> content. What lies in ``bin`` can be run.
        symlinks, hardlinks: Path -> what it links to, as tar has it.
        rewritten: Files with the placeholder: path -> ``text`` or ``binary``.
        info: Other files under info/.
    """

    name: str
    version: str = "1.0"
    build: str = "0"
    subdir: str = "linux-64"
    depends: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    symlinks: Mapping[str, str] = field(default_factory=dict)
    hardlinks: Mapping[str, str] = field(default_factory=dict)
    rewritten: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, bytes] = field(default_factory=dict)
    noarch: str = ""

    def index(self) -> dict[str, Any]:
        kind = {"noarch": self.noarch} if self.noarch else {}
        return {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": 0,
            "subdir": self.subdir,
            "depends": list(self.depends),
            "timestamp": 1_700_000_000_000,
            **kind,
        }

    def paths(self) -> list[dict[str, Any]]:
        found = []
        for path, content in {**self.files, **{p: self.files[t] for p, t in self.hardlinks.items()}}.items():
            entry = {
                "_path": path,
                "path_type": "hardlink",
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_in_bytes": len(content),
            }
            if path in self.rewritten:
                entry |= {"prefix_placeholder": PLACEHOLDER, "file_mode": self.rewritten[path]}
            found.append(entry)
        return found + [
            {"_path": path, "path_type": "softlink", "sha256": hashlib.sha256(b"").hexdigest(), "size_in_bytes": 0}
            for path in self.symlinks
        ]

    def write(self, folder: Path) -> None:
        stem = f"{self.name}-{self.version}-{self.build}"
        info = {
            "index.json": json.dumps(self.index()).encode(),
            "paths.json": json.dumps({"paths": self.paths(), "paths_version": 1}).encode(),
            **self.info,
        }
        with zipfile.ZipFile(folder / f"{stem}.conda", "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
            archive.writestr(f"pkg-{stem}.tar.zst", _tar(self.files, self.symlinks, self.hardlinks))
            archive.writestr(f"info-{stem}.tar.zst", _tar({f"info/{n}": text for n, text in info.items()}, {}, {}))


def write_channel(folder: Path, packages: Sequence[Tiny]) -> None:
    """The packages with their repodata."""
    for subdir in ("noarch", *{p.subdir for p in packages}):
        place = folder / subdir
        place.mkdir(parents=True, exist_ok=True)
        records = {}
        for package in packages:
            if package.subdir == subdir:
                package.write(place)
                file = place / f"{package.name}-{package.version}-{package.build}.conda"
                content = file.read_bytes()
                records[file.name] = {
                    **package.index(),
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                }
        repodata = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": records}
        (place / "repodata.json").write_text(json.dumps(repodata))


def python(subdir: str = "linux-64", **more: Any) -> Tiny:
    """A Python that is the one of this process: it can do what unpacking needs."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}.0"
    files = {"bin/python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'.encode()}
    return Tiny("python", version, subdir=subdir, depends=("__glibc >=2.20",), files=files, **more)


def application(**files: bytes) -> Tiny:
    """A package with one of everything that is not just copied."""
    return Tiny(
        "application",
        depends=("python", "pure"),
        files={
            "etc/application.conf": f"home={PLACEHOLDER}/share\n".encode(),
            "lib/application.bin": BINARY,
            "lib/libapplication.so.1": b"not really\n" * 500,
            "etc/conda/activate.d/application.sh": b'export APPLICATION="active in $CONDA_PREFIX"\n',
            "bin/hello": b'#!/bin/sh\necho hello from "$APPLICATION"; exit 7\n',
            **files,
        },
        symlinks={"lib/libapplication.so": "libapplication.so.1", "lib64": "lib"},
        hardlinks={"lib/second.so": "lib/libapplication.so.1"},
        rewritten={"etc/application.conf": "text", "lib/application.bin": "binary"},
    )


def pure() -> Tiny:
    """A noarch Python package with a command."""
    link = {"noarch": {"type": "python", "entry_points": ["pure = pure:main"]}, "package_metadata_version": 1}
    return Tiny(
        "pure",
        subdir="noarch",
        depends=("python",),
        files={"site-packages/pure.py": b"def main():\n    print('pure')\n"},
        info={"link.json": json.dumps(link).encode()},
        noarch="python",
    )


def _tar(files: Mapping[str, bytes], symlinks: Mapping[str, str], hardlinks: Mapping[str, str]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755 if path.startswith("bin/") else 0o644
            tar.addfile(entry, io.BytesIO(content))
        for kind, links in ((tarfile.SYMTYPE, symlinks), (tarfile.LNKTYPE, hardlinks)):
            for path, target in links.items():
                entry = tarfile.TarInfo(path)
                entry.type, entry.linkname = kind, target
                tar.addfile(entry)
    return zstandard.ZstdCompressor(level=1).compress(plain.getvalue())
