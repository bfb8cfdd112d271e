"""Makes ``.conda`` files and wheels, and a small set of packages that breaks no rule."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import zstandard

from kit.binaries import elf, pe

STAMP = 1_700_000_000_000  # November 2023
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Draft:
    """A package to be written. All that a test breaks can be said here.

    Attributes:
        licenses: Files under info/licenses.
        info: Other files under info/.
        index: Fields of index.json that differ from what the rest says.
        listed: Entries of paths.json that differ: path -> fields, None for an entry left out.
        links, hardlinks: Path -> what it links to, as tar has it.
        placeholders: Prefix placeholders that paths.json declares, by path.
        file_name: "" for the name that conda gives it.
    """

    name: str
    version: str = "1.0"
    build: str = "h0_0"
    subdir: str = "linux-64"
    depends: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    hardlinks: Mapping[str, str] = field(default_factory=dict)
    licenses: Mapping[str, bytes] = field(default_factory=lambda: {"LICENSE": b"You may.\n"})
    info: Mapping[str, bytes] = field(default_factory=dict)
    index: Mapping[str, Any] = field(default_factory=dict)
    listed: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    file_name: str = ""

    def with_(self, **changes: Any) -> Draft:
        """The same package with some attributes changed; mappings are added to, not replaced."""
        merged = {
            key: {**getattr(self, key), **value} if isinstance(value, Mapping) and value else value
            for key, value in changes.items()
        }
        return replace(self, **merged)

    def write(self, channel: Path) -> Path:
        """Writes the package into its subdir of a channel."""
        folder = channel / self.subdir
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name}-{self.version}-{self.build}"
        info = {
            "index.json": json.dumps(self.index_json()).encode(),
            "paths.json": json.dumps({"paths": self._paths(), "paths_version": 1}).encode(),
            "about.json": b"{}",
            **{f"licenses/{name}": text for name, text in self.licenses.items()},
            **self.info,
        }
        path = folder / (self.file_name or f"{stem}.conda")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, content in {
                "metadata.json": b'{"conda_pkg_format_version":2}',
                f"pkg-{stem}.tar.zst": _tar(self.files, self.links, self.hardlinks),
                f"info-{stem}.tar.zst": _tar({f"info/{name}": text for name, text in info.items()}),
            }.items():
                # Without the time: the same draft, the same bytes.
                archive.writestr(zipfile.ZipInfo(name), content)
        return path

    def index_json(self) -> dict[str, Any]:
        noarch = {"noarch": "generic"} if self.subdir == "noarch" else {}
        return {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": int(self.build.rpartition("_")[2]),
            "subdir": self.subdir,
            "depends": list(self.depends),
            "constrains": [],
            "license": "LicenseRef-Test",
            "timestamp": STAMP,
            **noarch,
            **self.index,
        }

    def _paths(self) -> list[dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {}
        for path, content in {
            **self.files,
            **{path: self.files[to] for path, to in self.hardlinks.items()},
        }.items():
            entries[path] = {
                "path_type": "hardlink",
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_in_bytes": len(content),
            }
            mode = "binary" if b"\0" in content else "text"
            if path in self.placeholders:
                entries[path] |= {"prefix_placeholder": self.placeholders[path], "file_mode": mode}
        entries |= {
            path: {"path_type": "softlink", "sha256": _EMPTY, "size_in_bytes": 0}
            for path in self.links
        }
        for path, fields in self.listed.items():
            if fields is None:
                del entries[path]
            else:
                entries[path] = {**entries.get(path, {"path_type": "hardlink"}), **fields}
        return [{"_path": path, **fields} for path, fields in entries.items()]


def _tar(
    files: Mapping[str, bytes],
    links: Mapping[str, str] | None = None,
    hardlinks: Mapping[str, str] | None = None,
) -> bytes:
    """Compressed, in the form in which `ctk.build.reproducible` writes it."""
    plain = b""
    for path, content in files.items():
        entry = tarfile.TarInfo(path)
        entry.size, entry.mtime = len(content), STAMP // 1000
        entry.mode = 0o755 if path.startswith("bin/") else 0o644
        plain += (
            entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
        )
    for kind, several in ((tarfile.SYMTYPE, links or {}), (tarfile.LNKTYPE, hardlinks or {})):
        for path, target in several.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname, entry.mode, entry.mtime = kind, target, 0o777, STAMP // 1000
            plain += entry.tobuf(tarfile.GNU_FORMAT)
    return zstandard.ZstdCompressor(level=1).compress(plain + bytes(2 * tarfile.BLOCKSIZE))


def wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    """A zip of some files, as wheels are.

    Of a project that the index offers, `kit.fake_index.wheel`.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


GLIBC = {"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.17"]}
SITE = "lib/python3.12/site-packages"
TARGET = "targets/x86_64-linux/lib"
INCLUDE = "targets/x86_64-linux/include"
CTK = "cuda-version >=13.4,<13.5.0a0"
SITE_WIN = "Lib/site-packages"
_LIBCUDART = elf(
    ("libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"),
    soname="libcudart.so.13",
    rpath="$ORIGIN",
    versions=GLIBC,
)


def good_set() -> dict[str, Draft]:
    """A few packages that break no rule, by name; between them they exercise every check."""
    half = Draft(
        "cuda-cudart_linux-64",
        "13.4.92",
        subdir="noarch",
        depends=(CTK,),
        files={f"{TARGET}/libcudart.so.13.4.92": _LIBCUDART},
        links={f"{TARGET}/libcudart.so.13": "libcudart.so.13.4.92"},
    )
    pin = f"{half.name} {half.version} {half.build}"
    drafts = [
        Draft("cuda-version", "13.4", subdir="noarch", licenses={}),
        half,
        Draft(
            "cuda-cudart",
            "13.4.92",
            depends=(
                CTK,
                pin.replace(" 13", " ==13"),
                "__glibc >=2.17,<3.0.a0",
                "libgcc",
                "libstdcxx",
            ),
            links={"lib/libcudart.so.13": f"../{TARGET}/libcudart.so.13"},
        ),
        Draft(
            "cuda-cudart-dev",
            "13.4.92",
            depends=(CTK, "cuda-cudart 13.4.92 h0_0"),
            files={
                f"{INCLUDE}/cuda_runtime.h": b"#pragma once\n",
                "lib/pkgconfig/cudart.pc": b"prefix=/opt/here\n",
            },
            links={"lib/libcudart.so": "libcudart.so.13"},
            info={
                "run_exports.json": json.dumps({"weak": ["cuda-cudart >=13.4.92,<14.0a0"]}).encode()
            },
            placeholders={"lib/pkgconfig/cudart.pc": "/opt/here"},
        ),
        Draft(
            "cuda-nvvm-impl",
            "13.4.92",
            depends=(CTK, "__glibc >=2.17,<3.0.a0"),
            files={
                "nvvm/lib64/libnvvm.so.4.0.0": elf(
                    ("libc.so.6",), soname="libnvvm.so.4", versions=GLIBC
                ),
                "nvvm/libdevice/libdevice.10.bc": b"BC",
                "nvvm/include/nvvm.h": b"",
                "nvvm/bin/cicc": elf(("libc.so.6",), versions=GLIBC),
                "bin/ptxas": elf(("libc.so.6",), versions=GLIBC, rpath="$ORIGIN/../lib"),
            },
            links={
                "nvvm/lib64/libnvvm.so.4": "libnvvm.so.4.0.0",
                "targets/x86_64-linux/nvvm": "../../nvvm",
            },
        ),
        Draft(
            "libcufile",
            "1.19.1",
            depends=("__glibc >=2.17,<3.0.a0", "libstdcxx", "rdma-core"),
            files={
                "lib/libcufile.so.0": elf(
                    ("libc.so.6",), soname="libcufile.so.0", versions=GLIBC, rpath="$ORIGIN"
                ),
                "lib/libcufile_rdma.so.1": elf(
                    ("libmlx5.so.1", "libcufile.so.0", "libstdc++.so.6", "libc.so.6"),
                    soname="libcufile_rdma.so.1",
                    versions=GLIBC,
                    rpath="$ORIGIN",
                ),
            },
        ),
        Draft(
            "cuda-bindings",
            "13.4.4",
            "cuda13_py312_native_h0_0",
            depends=("python_abi 3.12.* *_cp312", "__glibc >=2.17,<3.0.a0", "libgcc", "libstdcxx"),
            files={
                f"{SITE}/cuda/bindings/_internal/runtime.cpython-312-x86_64-linux-gnu.so": elf(
                    ("libstdc++.so.6", "libc.so.6"),
                    versions=GLIBC,
                    payload=b"startup failure in cuda runtime",
                ),
                f"{SITE}/cuda/bindings/__init__.py": b"",
            },
        ),
        Draft(
            "cuda-nvrtc",
            "13.4.92",
            subdir="win-64",
            depends=(CTK,),
            files={
                "Library/bin/nvrtc64_130_0.dll": pe(
                    ("KERNEL32.dll", "api-ms-win-core-file-l1-1-0.dll")
                )
            },
        ),
        Draft(
            "cuda-core",
            "1.2.2",
            "cuda13_py312_native_h0_0",
            "win-64",
            depends=("python_abi 3.12.* *_cp312", "python", "cuda-nvrtc"),
            files={
                f"{SITE_WIN}/cuda/core/_device.cp312-win_amd64.pyd": pe(
                    (
                        "python312.dll",
                        "VCRUNTIME140.dll",
                        "nvrtc64_130_0.dll",
                        "nvcuda.dll",
                        "msvcp140-0fa7.dll",
                    )
                ),
                f"{SITE_WIN}/cuda_core.libs/msvcp140-0fa7.dll": pe(("KERNEL32.dll",)),
                f"{SITE_WIN}/cuda/core/__init__.py": adds_dlls_of("cuda_core.libs"),
            },
        ),
    ]
    return {draft.name: draft for draft in drafts}


def adds_dlls_of(folder: str) -> bytes:
    """What wheels' repair tools write into a module."""
    return (
        "import os\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), os.pardir,"
        f" {folder!r}))\n".encode()
    )
