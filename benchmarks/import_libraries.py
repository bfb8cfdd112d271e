"""Links a program with each import library that was made of a DLL's exports, and reads its imports.

For every derived source in the cache (`ctk build NAME --platform win-64 --fetch-only` makes them):
a program that refers to each name is linked with the library, and must import exactly these names
from the DLL. No program is run: that takes Windows. Example: .venv/bin/python
benchmarks/import_libraries.py
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import lief

from ctk.core.checkout import workspace
from ctk.core.platforms import PLATFORMS
from ctk.fetch.derive import ZIG_CACHES, Maker
from ctk.index.index import Index
from ctk.lock.derived import IMPORTS, NOTE

MACHINES = {"win-64": "x86_64", "win-arm64": "aarch64"}
LINKED = "linked.exe"


def names_of(library: Path) -> tuple[str, dict[str, bool]]:
    """The DLL of an import library, and its names; whether each is a function.

    The short import format: 20 bytes, then the symbol and the DLL, each ended by a zero (Microsoft,
    "PE Format", "Import Library Format").
    """
    dll = ""
    names: dict[str, bool] = {}
    content = library.read_bytes()
    at = 8  # after the magic of the archive
    while at < len(content):
        size = int(content[at + 48 : at + 58])
        member = content[at + 60 : at + 60 + size]
        if member[:4] == b"\0\0\xff\xff":
            name, dll_name = member[20:].split(b"\0")[:2]
            names[name.decode()] = member[18] & 3 == 0
            dll = dll_name.decode()
        at += 60 + size + size % 2
    return dll, names


def imports_of(program: Path) -> dict[str, set[str]]:
    parsed = lief.PE.parse(str(program))
    assert isinstance(parsed, lief.PE.Binary)
    return {str(each.name): {str(e.name) for e in each.entries} for each in parsed.imports}


def link(library: Path, subdir: str, zig: Path, folder: Path) -> tuple[str, int]:
    """Links a program with all names of an import library; returns its DLL and their number."""
    dll, names = names_of(library)
    # Of a function and of a variable alike, __imp_NAME is the place that the loader fills.
    lines = [f'.quad "__imp_{name}"' for name in names]
    text = ".text\n.globl start\nstart: ret\n" + '.section .rdata,"dr"\n' + "\n".join(lines)
    (folder / "main.s").write_text(f"{text}\n")
    words = [f"{MACHINES[subdir]}-windows-gnu", "-w", "-nostdlib"]
    files = ["-o", LINKED, "main.s", str(library)]
    command = [str(zig), "cc", "-target", *words, "-Wl,-e,start", *files]
    cache = dict.fromkeys(ZIG_CACHES, str(folder / "cache"))
    subprocess.run(command, cwd=folder, env=os.environ | cache, check=True)
    found = imports_of(folder / LINKED)
    assert found == {dll: set(names)}, (library.name, found.keys(), len(names))
    return dll, len(names)


def main() -> None:
    here = workspace()
    counts: Counter[str] = Counter()
    with ExitStack() as files:
        zig = Maker(here, partial(Index), files).zig
        folder = Path(files.enter_context(tempfile.TemporaryDirectory()))
        for subdir in PLATFORMS:
            for source in sorted(here.artefacts.glob(f"*/*/{subdir}-{IMPORTS}.zip")):
                with zipfile.ZipFile(source) as archive:
                    for member in archive.namelist():
                        if member == NOTE:
                            continue
                        library = folder / posixpath.basename(member)
                        library.write_bytes(archive.read(member))
                        dll, number = link(library, subdir, zig, folder)
                        place = source.relative_to(here.artefacts)
                        print(f"{place}: {library.name} -> {dll}, {number} names")
                        sys.stdout.flush()
                        counts[subdir] += 1
    print(", ".join(f"{subdir}: {number} import libraries" for subdir, number in counts.items()))


if __name__ == "__main__":
    main()
