"""Runs whole what README and docs promise, in pieces: `scripts/acceptance`.

The pieces run in a clone of the last commit, as somebody else would have it. What they made is
removed after the last of a platform, but for the base channel. A piece that passed runs again only
after a change of what it depends on, which git knows. What came out is in
docs/evidence/acceptance.json, which can be committed, so that another machine goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

from packaging.version import Version

from ctk.core.checkout import Workspace, git, settings, workspace
from ctk.core.console import count
from ctk.core.files import read_json, replace_file
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.model import release_locks
from ctk.plan.plan import Request, plan, published_set, python_tags
from ctk.plan.recipes import find_recipes

# What decides the outcome of a piece, besides the index and the machine.
TOOL = ("scripts", "pyproject.toml", "requirements.lock", "requirements-dev.lock")
PACKAGES = (*TOOL, "recipes", "base", "variants", "conda_build_config.yaml")
LINKING = (*PACKAGES, "tests")
ALL = (".",)
EVIDENCE = "docs/evidence/"  # what was seen, these results too: it decides nothing
CTK = ".venv/bin/ctk"
# Each test run links against the -dev packages of the default set; here all are in the channel.
LINKED = [
    ".venv/bin/python",
    "-m",
    "pytest",
    "-q",
    "tests/system/environments/test_dev_packages.py",
]
# What others' samples and tests are compiled and linked with, beside a compiler.
SAMPLES_NEED = [
    *("cuda-toolkit", "cuda-driver-dev", "cuda-nvml-dev", "cuda-nvtx-dev"),
    *("libcudss-dev", "cusparselt-dev", "cutensor", "libnvcomp-dev", "libnvjpeg2k-dev"),
]
# Programs of 13.5 for ARM say that they need a newer glibc than a machine of another platform is
# taken to have.
STATED_LIMIT = re.compile(
    r"^error: (.+ needs glibc 2\.3\d).*, and a .+ machine is taken to have 2\.28$", re.M
)


@dataclass(frozen=True)
class Piece:
    """Commands that all must succeed, one after another.

    Attributes:
        name: Of what is promised.
        commands: In a clone.
        reads: The parts of the checkout that decide whether they succeed.
        stays: Whether what they make is there for the next piece, which adds to it.
    """

    name: str
    commands: Sequence[Sequence[str]]
    reads: Sequence[str] = PACKAGES
    stays: bool = False


def pieces(where: Workspace, clones: Path | None = None) -> list[Piece]:
    """Everything that is promised, cheap pieces first.

    Args:
        where: The checkout.
        clones: A folder with git folders of others, or no pieces that need these.
    """
    samples = [_samples(where, clones.resolve())] if clones else []
    return [*_quick(where), *_builds(where), *samples, *_tests()]


def _quick(where: Workspace) -> Iterator[Piece]:
    yield Piece("lint", [[CTK, "lint"]], ALL)
    yield Piece("planned", [[CTK, "lint", "--planned"]])
    yield Piece("verify", [[CTK, "verify"]])
    for recipe, read in sorted(find_recipes(where.recipes).items()):
        if read.own_sources:  # it is made of this repository, and has no feedstock
            continue
        yield Piece(
            f"export:{recipe}",
            [[CTK, "feedstock", recipe, f"output/feedstocks/{recipe}", "--maintainer", "someone"]],
        )
    examples = sorted(file.parent.name for file in (where.root / "examples").glob("*/recipe.yaml"))
    made = [[CTK, "build-recipe", f"./examples/{name}"] for name in examples]
    yield Piece("examples", [["./scripts/build"], *made], (*PACKAGES, "examples"))


def _builds(where: Workspace) -> Iterator[Piece]:
    """What README builds, a platform after the other.

    The releases and the components add to the default channel, as they would for a user; the
    libraries, whose disk is as much again, have a channel of their own.
    """
    everything = plan(
        published_set(where), Request(platforms=PLATFORMS), python_tags(where.build_config)
    )
    libraries, here = settings(where.root).libraries.recipes, this_platform()
    minors = sorted(
        (b.lock.removeprefix("cuda-") for b in everything.builds if b.lock.startswith("cuda-")),
        key=Version,
    )
    for platform in sorted(PLATFORMS, key=lambda each: each != here):
        builds = [build for build in everything.builds if build.subdir == platform]
        groups: dict[str, set[str]] = {}
        for build in builds:
            if build.recipe.name == "cuda-toolkit":
                groups.setdefault(build.lock.removeprefix("cuda-"), set()).update(
                    output.name for output in build.outputs
                )
        others = {
            output.name
            for build in builds
            if build.recipe.name in libraries
            for output in build.outputs
        }
        made, linked, reads = [CTK, "build", "--all-pythons", "--platform", platform], [], PACKAGES
        if platform == here:
            linked, reads = [LINKED], LINKING
            # The least and the most that one release needs, each in a channel of its own.
            for minor in (minors[0], minors[-1]):
                words = [*made, "--all-components", "--release", minor]
                yield Piece(
                    f"components:{minor}:{platform}", [words, *_used(groups[minor], platform)]
                )
        together = [
            [CTK, "solve", *sorted(names), f"cuda-version={minor}", "--platform", platform]
            for minor, names in groups.items()
        ]
        yield Piece(f"default:{platform}", [made], stays=True)
        yield Piece(f"releases:{platform}", [[*made, "--all-releases"]], stays=True)
        whole = [*made, "--all-components", "--all-releases"]
        yield Piece(f"components:{platform}", [whole, *together])
        yield Piece(
            f"libraries:{platform}",
            [[*made, "--libraries"], *linked, *_used(others, platform)],
            reads,
        )


def _samples(where: Workspace, clones: Path) -> Piece:
    """NVIDIA's samples and conda-forge's test commands, with the newest toolkit.

    The programs of `benchmarks/` know what fails, and why; all else is a failure.
    """
    locks = [name for name in release_locks(where) if name.startswith("cuda-")]
    minor = max((name.removeprefix("cuda-") for name in locks), key=Version)
    libraries = f"libraries-{minor.partition('.')[0]}"
    build = [CTK, "build", *SAMPLES_NEED, "--release", minor, "--release", libraries]
    tools = ["gxx_linux-64", "cmake", "ninja"]
    prefix = "output/linked"
    specs = [f"cuda-version={minor}", *SAMPLES_NEED, *tools]
    samples = [
        *("--cuda-samples", str(clones / "cuda-samples.git")),
        *("--library-samples", str(clones / "CUDALibrarySamples.git")),
    ]
    # Not conda-forge's own tools, such as conda-forge-pinning, which test nothing of CUDA.
    found = set(clones.glob("*-feedstock")) - set(clones.glob("conda-forge-*"))
    feedstocks = sorted(map(str, found))
    python = ".venv/bin/python"
    # What tests of cuda-nvcc and cusparselt clone.
    cmake = f"https://gitlab.kitware.com/cmake/cmake.git={clones / 'CMake.git'}"
    cusparselt = f"https://github.com/NVIDIA/CUDALibrarySamples.git={samples[-1]}"
    options = ["--environment", prefix, "--instead", cmake, "--instead", cusparselt]
    commands = [minor, "output/channel", *feedstocks, *options]
    return Piece(
        "samples",
        [
            build,
            [CTK, "env", "create", "--prefix", prefix, *specs],
            [python, "benchmarks/cmake_targets.py", prefix],
            [python, "benchmarks/samples.py", prefix, *samples],
            [python, "benchmarks/conda_forge_commands.py", *commands],
        ],
        (*LINKING, "benchmarks"),
    )


def _used(packages: Iterable[str], platform: str) -> Iterator[list[str]]:
    """Each package in an environment of its own.

    For another platform the environment is only solved.
    """
    for name in sorted(packages):
        if platform == this_platform():
            yield [CTK, "env", "create", name, "--prefix", "output/used"]
            yield ["rm", "-r", "output/used"]
        else:
            yield [CTK, "solve", name, "--platform", platform]


def _tests() -> Iterator[Piece]:
    clone = ["git", "clone", "--quiet", ".", "output/fresh"]
    yield Piece(
        "readme", [clone, ["output/fresh/scripts/build"], ["output/fresh/scripts/test"]], ALL
    )
    yield Piece("sweeps", [["./scripts/build"], ["./scripts/test", "--all"]], ALL)
    yield Piece("reproduced", [["./scripts/build"], [CTK, "check", "--rebuild", "all"]])
    for script in ("test-browser", "test-downstream", "test-faults"):
        yield Piece(script, [["./scripts/build"], [f"./scripts/{script}"]], ALL)


class Run:
    """Runs pieces in a clone, and keeps what came out.

    Args:
        where: The checkout.
        folder: For the clone and a log of each piece. Below the checkout's output by default.
        file: piece -> its commit, seconds, gigabytes, and what it depends on if it passed.
    """

    def __init__(
        self, where: Workspace, folder: Path | None = None, file: Path | None = None
    ) -> None:
        self.where = where
        self.folder = folder or where.output / "acceptance"
        self.clone = self.folder / "clone"
        self.file = file or where.root / EVIDENCE / "acceptance.json"
        self.results: dict[str, dict[str, object]] = read_json(self.file) or {}
        self._kept: set[Path] = set()
        self._head = "HEAD"  # the commit of the clone: somebody may commit while pieces run

    def key(self, piece: Piece) -> str:
        """A digest of what the piece depends on: where it is the same, the outcome is the same."""
        files = git(self.where.root, "ls-tree", "-r", self._head, "--", *piece.reads).splitlines()
        decisive = [line for line in files if not line.partition("\t")[2].startswith(EVIDENCE)]
        words = json.dumps([decisive, piece.commands])
        return sha256(words.encode()).hexdigest()

    def has_passed(self, piece: Piece) -> bool:
        """Whether an earlier run of the same piece passed."""
        return self.results.get(piece.name, {}).get("passed") == self.key(piece)

    def prepare(self) -> None:
        """Makes the clone, or brings it to the last commit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._head = head = git(self.where.root, "rev-parse", "HEAD")
        if not (self.clone / ".git").is_dir():
            shutil.rmtree(self.clone, ignore_errors=True)
            _checked(["git", "clone", "--quiet", str(self.where.root), str(self.clone)])
        _checked(["git", "-C", str(self.clone), "fetch", "--quiet", "origin", head])
        _checked(["git", "-C", str(self.clone), "checkout", "--quiet", "--force", "--detach", head])
        # What a piece that was killed has left.
        shutil.rmtree(self.clone / "output", ignore_errors=True)
        shutil.rmtree(self.clone / ".cache", ignore_errors=True)
        _checked(["./scripts/setup"], cwd=self.clone)
        # The least that `ctk build` can be asked for makes the base channel too.
        _checked([CTK, "build", "cuda-arch"], cwd=self.clone)
        for file in self.clone.glob("output/*channel*"):
            file.unlink() if file.is_symlink() or file.is_file() else shutil.rmtree(file)
        self._kept = self._made()

    def run(self, piece: Piece) -> bool:
        """Runs one piece; one line says what came out. Returns whether all its commands succeeded.

        A package that another platform is too old for, as it says itself, is a line of its own and
        no failure.
        """
        began, log = time.monotonic(), self.folder / f"{piece.name.replace(':', '-')}.log"
        key, head = self.key(piece), git(self.where.root, "rev-parse", self._head)
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CTK_ROOT", "VIRTUAL_ENV")
        }
        failed: list[str] = []
        limits: list[str] = []
        with log.open("w") as stream:
            for command in piece.commands:
                print(f"$ {shlex.join(command)}", file=stream, flush=True)
                start = log.stat().st_size
                done = subprocess.run(
                    command,
                    cwd=self.clone,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                )
                is_refusal = done.returncode and "solve" in command  # of another platform: `_used`
                if found := (
                    STATED_LIMIT.findall(log.read_bytes()[start:].decode()) if is_refusal else ()
                ):
                    limits += found
                elif done.returncode:
                    failed.append(f"exit {done.returncode}: {shlex.join(command)}")
                    if command is piece.commands[0]:
                        break  # the others use what it makes
        seconds = time.monotonic() - began
        used = 0 if piece.stays else self._give_back()
        self.results[piece.name] = {
            "commit": head[:8],
            "seconds": round(seconds),
            "gigabytes": round(used / 1e9, 1),
            "passed": None if failed else key,
        }
        self._write()
        print(
            f"{'failed' if failed else 'passed'} {piece.name} ({seconds:.0f} s,"
            f" {used / 1e9:.1f} GB)",
            flush=True,
        )
        for line in failed:
            print(f"  {line}; {log}", flush=True)
        for line in limits:
            print(f"  as it says: {line}", flush=True)
        return not failed

    def _write(self) -> None:
        """Writes the results, a line for each piece."""
        lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in self.results.items()]
        replace_file(self.file, ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    def _give_back(self) -> int:
        """Removes what a piece made, but for what the base channel is made of.

        The bytes that this gave back.
        """
        before = shutil.disk_usage(self.folder).free
        for file in self._made() - self._kept:
            file.unlink()
            with suppress(OSError):  # it is not empty yet
                os.removedirs(file.parent)
        return max(0, shutil.disk_usage(self.folder).free - before)

    def _made(self) -> set[Path]:
        return {
            Path(parent, name)
            for folder in (self.clone / ".cache", self.clone / "output")
            for parent, folders, files in os.walk(folder)
            for name in (*files, *(f for f in folders if Path(parent, f).is_symlink()))
        }


def _checked(command: Sequence[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"error: {shlex.join(command)}: {done.stderr.strip()}\nnext: fix it, then run"
            " scripts/acceptance again"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the pieces that are chosen; the number of those that failed, at most 1."""
    parser = argparse.ArgumentParser(
        prog="scripts/acceptance", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        nargs="+",
        action="extend",
        help="pieces by name, such as 'components:13.*'",
    )
    parser.add_argument(
        "--list", action="store_true", help="name the pieces and what they run, and exit"
    )
    parser.add_argument(
        "--clones",
        type=Path,
        help="a folder with clones: cuda-samples.git, CUDALibrarySamples.git, CMake.git and"
        " conda-forge's feedstocks of CUDA. It runs their samples and tests as the piece `samples`",
    )
    parser.add_argument("--again", action="store_true", help="run also what has passed before")
    options = parser.parse_args(arguments)
    where = workspace()
    found = [
        p
        for p in pieces(where, options.clones)
        if not options.only or any(fnmatch(p.name, each) for each in options.only)
    ]
    if not found:
        parser.error(f"no piece is called {' or '.join(options.only)}; --list names them")
    if not options.clones and not options.only:
        print("note: without --clones, nobody else's samples are linked", file=sys.stderr)
    if options.list:
        for piece in found:
            others = (
                f", and {count(len(piece.commands) - 1, 'command')}" if piece.commands[1:] else ""
            )
            print(f"{piece.name}: {shlex.join(piece.commands[0])}{others}")
        return 0
    if git(where.root, "status", "--porcelain", "--", ".", f":!{EVIDENCE}"):
        print("note: what is not committed is not tried", file=sys.stderr)
    run = Run(where)
    earlier = [] if options.again else [piece for piece in found if run.has_passed(piece)]
    todo = [piece for piece in found if piece not in earlier]
    if todo:
        run.prepare()
    failed = [piece.name for piece in todo if not run.run(piece)]
    counts = f"{len(todo) - len(failed)} passed now, {len(earlier)} before, {len(failed)} failed"
    print(f"acceptance: {counts}{': ' if failed else ''}{', '.join(failed)}")
    return min(1, len(failed))


if __name__ == "__main__":
    sys.exit(main())
