"""Measures the user's side beside pip's: time and bytes to install a request from local files, and
to import it.

Ours is `ctk env create` from the built channel and base channel, with an empty package cache, and
again with what that left there, as a second environment has it. Pip's is `python -m venv
--without-pip` and `pip --python` from a folder of wheels of the same versions, fetched before
through the configured index; it keeps no unpacked wheels, so both of ours stand beside the same
time. Neither environment gets pip. Ours gets a Python of its own, pip's links to the machine's:
times include that, bytes are given with Python and without. Pip compiles all modules while it
installs; most of ours come compiled, and `ctk env create` compiles the rest. Imports are whole
processes. No GPU is needed. Example: .venv/bin/python benchmarks/install.py --rounds 5

With --sizes nothing is installed: bytes and files of what would be. Ours are the archives that `ctk
solve` picks from the built channel and base channel, and their lists of paths; pip's the wheels of
`pip install --dry-run` for the same version and toolkit, and the directories in them. Left out are
Python itself and, on both sides, bytecode.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

from figures import RATIO, record

from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, megabytes
from ctk.index.index import Index, IndexFile
from ctk.index.inside import members
from ctk.package.reader import read_info

DRIVER = "13.9"
"""Newer than every toolkit of CUDA 13, so that the newest is picked, as pip does."""
KERNEL_OF_CORE = r"""
from cuda.core import Program, ProgramOptions
code = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }'
program = Program(code, "c++", ProgramOptions(arch="sm_90"))
assert program.compile("cubin").code.startswith(b"\x7fELF")
"""
KERNEL_OF_NUMBA = """
from numba import cuda, types
def twice(x):
    x[cuda.threadIdx.x] *= 2
assert ".target sm_90" in cuda.compile_ptx(twice, (types.float32[::1],), cc=(9, 0))[0]
"""
PROGRAMS = {  # request -> what is done with it
    "cuda-core": {"import": "import cuda.core", "import and compile a kernel": KERNEL_OF_CORE},
    "numba-cuda": {
        "import": "from numba import cuda",
        "import and compile a kernel": KERNEL_OF_NUMBA,
    },
}
PIPS_NAMES = {
    "pytorch": "torch",
    "jax": "jax[cuda13]",
    "cupy": "cupy-cuda13x[ctk]",
    "cuda-core": "cuda-core[cu13]",
    "numba-cuda": "numba-cuda[cu13]",
}
SIZED = [*((name,) for name in PIPS_NAMES), tuple(PIPS_NAMES)]
SIZED_FOR = ["--driver", "13.0", "--arch", "9.0"]
PYTHON_ITSELF = {"python", "python_abi"}  # not in pip's list, so not in ours
# The clock runs inside of what makes the environment read-only.
TIMER = """
import subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
print(time.perf_counter() - start)
"""
# Modes do not stop root from writing; such a mount does, in a namespace that ends with the command.
READ_ONLY = 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; test ! -w "$0"; exec "$@"'
Words = list[str | Path]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="installations of each kind")
    parser.add_argument(
        "--imports", type=int, default=10, help="of each kind after each installation"
    )
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    parser.add_argument(
        "--sizes", action="store_true", help="install nothing: a table of bytes and files"
    )
    options = parser.parse_args()
    if options.sizes:
        sizes()
        return
    rows: list[tuple[str, str, str, float]] = []
    for request in PROGRAMS:
        with tempfile.TemporaryDirectory(prefix="ctk-benchmark-") as folder:
            bench = Bench(request, Path(folder))
            for row, pairs in bench.seconds(options.rounds, options.imports).items():
                ours, pips = (f"{median(side):.2f} s" for side in zip(*pairs, strict=True))
                rows.append((f"{request}: {row}", ours, pips, median(a / b for a, b in pairs)))
            for row, a, b in bench.bytes():
                rows.append(
                    (f"{request}: {row}", f"{megabytes(a)} MB", f"{megabytes(b)} MB", a / b)
                )
    report, columns = Reporter(), ["what", "ours", "pip", "ours / pip"]
    shown = [(*cells, f"{ratio:.2f}") for *cells, ratio in rows]
    report.table(f"medians of {options.rounds} rounds", columns, shown, columns[1:])
    if not any("read-only" in row for row, *_ in rows):
        report.line("nothing can be mounted here, so there are no rows of a read-only environment")
    if options.record:
        record(
            workspace(),
            "install",
            ((f"{row}, ours / pip", ratio, RATIO) for row, _, _, ratio in rows),
        )


@dataclass(frozen=True)
class Size:
    """Bytes of archives, the files that they install, links too, and the bytes of these."""

    download: int = 0
    files: int = 0
    installed: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.download + other.download,
            self.files + other.files,
            self.installed + other.installed,
        )

    @property
    def cells(self) -> tuple[str, str, str]:
        return (
            f"{self.download / 1e6:,.0f} MB",
            f"{self.files:,}",
            f"{self.installed / 1e6:,.0f} MB",
        )


def sizes() -> None:
    rows = []
    with Index() as index:
        for request in SIZED:
            pick = json.loads(
                output(
                    [Path(sys.executable).with_name("ctk"), "solve", *request, *SIZED_FOR, "--json"]
                )
            )
            versions = {package["name"]: package["version"] for package in pick["packages"]}
            words = [
                "install",
                "--dry-run",
                "--ignore-installed",
                "-qq",
                "--only-binary",
                ":all:",
                "--report",
                "-",
            ]
            same = [f"{PIPS_NAMES[name]}=={versions[name]}" for name in request]
            same.append(f"cuda-toolkit=={pick['toolkit']}.*")
            report = json.loads(output([sys.executable, "-m", "pip", *words, *same]))
            ours, pips = of_packages(pick, workspace()), of_wheels(report, index)
            name, *more = request
            rows.append(
                (
                    "all" if more else f"{name} {versions[name]}, pip's {same[0]}",
                    *ours.cells,
                    *pips.cells,
                )
            )
    columns = ["ours: download", "files", "on disk", "pip: download", "files", "on disk"]
    title = f"toolkit {pick['toolkit']}, without Python itself and bytecode"
    Reporter().table(title, ["request", *columns], rows, columns)


def of_packages(pick: dict[str, Any], where: Workspace) -> Size:
    """What a document of `ctk solve --json` brings from the built channels of a checkout."""
    channels, found = {path.name: path for path in (where.channel, where.base_channel)}, Size()
    for package in pick["packages"]:
        if package["name"] not in PYTHON_ITSELF:
            archive = channels[package["channel"]] / package["subdir"] / package["file"]
            found += of_archive(
                package["size"], ((path.path, path.size) for path in read_info(archive).paths)
            )
    return found


def of_wheels(report: dict[str, Any], index: Index) -> Size:
    """What the wheels of a report of `pip install` bring.

    Of those on a server only the directories are read.
    """
    found = Size()
    for wheel in report["install"]:
        url, metadata = wheel["download_info"]["url"], wheel["metadata"]
        file = IndexFile(metadata["name"], metadata["version"], url.rpartition("/")[2], None, url)
        with index.opened(file) as stream, members(stream, file.file) as inside:
            found += of_archive(index.size(file), ((member.name, member.size) for member in inside))
    return found


def of_archive(download: int, files: Iterable[tuple[str, int]]) -> Size:
    """Of one package or wheel: its own bytes, and the path and bytes of each file inside."""
    kept = [size for path, size in files if "__pycache__/" not in path]
    return Size(download, len(kept), sum(kept))


def output(words: Words) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


class Bench:
    """One request, installed both ways in a folder."""

    def __init__(self, request: str, folder: Path) -> None:
        self.request, self.folder = request, folder
        self.ours, self.pips, self.wheels = folder / "ours", folder / "pip", folder / "wheels"
        # To ctk, it is a checkout with an empty cache.
        (folder / "output").symlink_to(workspace().output)
        self.install(self.ours)
        self.fetch_wheels()
        # Not counted: this reads the files from the disk for the first time.
        self.install(self.pips)

    def install(self, prefix: Path) -> float:
        """Makes an environment of ours or pip's; returns how many seconds that took."""
        request, python = self.request, sys.executable
        ctk: Words = [
            Path(python).with_name("ctk"),
            "env",
            "create",
            request,
            "--driver",
            DRIVER,
            "--json",
        ]
        pip: Words = [python, "-m", "pip", "--python", prefix, "install", "--quiet", "--no-index"]
        os.sync()  # what was written before is not to be written meanwhile
        start = time.perf_counter()
        if prefix == self.pips:
            self.run([python, "-m", "venv", "--without-pip", prefix])
            self.run(
                [*pip, "--find-links", self.wheels, f"{request}[cu13]"], PIP_CONFIG_FILE=os.devnull
            )
        else:
            self.picked = json.loads(
                self.run([*ctk, "--prefix", prefix], CTK_ROOT=str(self.folder))
            )
        return time.perf_counter() - start

    def fetch_wheels(self) -> None:
        """Fetches pip's wheels, in the versions that our environment has."""
        (modules,) = self.ours.glob("lib/python3*/site-packages")
        same = [f"{d.name}=={d.version}" for d in distributions(path=[str(modules)])]
        constraints = self.folder / "constraints.txt"
        constraints.write_text("\n".join([*same, f"cuda-toolkit=={self.picked['toolkit']}.*"]))
        pip: Words = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
        words = [*pip, "--constraint", constraints, "--dest", self.wheels, f"{self.request}[cu13]"]
        subprocess.run(words, check=True)

    def seconds(self, rounds: int, imports: int) -> dict[str, list[tuple[float, float]]]:
        """Pairs of ours and pip's by row; each is first in every second one."""
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)

        def measure(row: str, turn: int, seconds: Callable[[Path], float]) -> None:
            taken = {
                place: seconds(place) for place in (self.ours, self.pips)[:: -1 if turn % 2 else 1]
            }
            found[row].append((taken[self.ours], taken[self.pips]))

        def python(row: str, turn: int, code: str, mode: str = "") -> None:
            measure(f"{row}{mode}", turn, lambda prefix: self.python(prefix, code, mode))

        second, programs = self.folder / "second", PROGRAMS[self.request]
        tried = subprocess.run(
            ["env", *read_only(self.folder, ["true"])], capture_output=True, check=False
        )
        can_mount = tried.returncode == 0  # env fails where there is no unshare
        for number in range(rounds):
            for place in (self.ours, self.pips, self.folder / ".cache"):
                shutil.rmtree(place)
            measure("install", number, self.install)
            found["install again"].append((self.install(second), found["install"][-1][1]))
            shutil.rmtree(second)
            python("first import", number, programs["import"])
            for turn in range(number, number + imports):
                for mode in ["", ", read-only"] if can_mount else [""]:
                    for row, code in programs.items():
                        python(row, turn, code, mode)
        return found

    def bytes(self) -> Iterator[tuple[str, int, int]]:
        """Of the files read, and of the environments: ours and pip's by row."""
        (python,) = (p["size"] for p in self.picked["packages"] if p["name"] == "python")
        read, wheels = (
            self.picked["size"],
            sum(wheel.stat().st_size for wheel in self.wheels.iterdir()),
        )
        yield "packages and wheels", read, wheels
        yield "packages and wheels, without Python", read - python, wheels
        (note,) = self.ours.glob("conda-meta/python-[0-9]*.json")
        python = on_disk(
            self.ours / file for file in json.loads(note.read_text(encoding="utf-8"))["files"]
        )
        ours, pips = (on_disk([place, *place.rglob("*")]) for place in (self.ours, self.pips))
        yield "installed", ours, pips
        yield "installed, without Python", ours - python, pips

    def python(self, prefix: Path, code: str, mode: str) -> float:
        """Seconds of a program in an environment, activated as far as Python programs look
        at that.
        """
        words: Words = [sys.executable, "-c", TIMER, prefix / "bin" / "python", "-c", code]
        variable = "VIRTUAL_ENV" if prefix == self.pips else "CONDA_PREFIX"
        return float(
            self.run(read_only(prefix, words) if mode else words, **{variable: str(prefix)})
        )

    def run(self, words: Words, **variables: str) -> str:
        """What a program prints that has nothing of this process's environment."""
        clean = {"PATH": os.defpath, "HOME": str(self.folder), "LANG": "C.UTF-8", **variables}
        return subprocess.run(
            words, env=clean, stdout=subprocess.PIPE, text=True, check=True
        ).stdout


def read_only(folder: Path, words: Words) -> Words:
    return [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-ec",
        READ_ONLY,
        folder,
        *words,
    ]


def on_disk(files: Iterable[Path]) -> int:
    """Bytes that files and folders take up; those of a hard link once."""
    return 512 * sum({(s.st_dev, s.st_ino): s.st_blocks for s in map(os.lstat, files)}.values())


if __name__ == "__main__":
    main()
