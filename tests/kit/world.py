"""A checkout of its own for the real commands: the repository's recipes, with two made-up releases
on localhost.

Its releases are small: wheels of a few files with the layout of NVIDIA's, served by an index on
localhost and locked by the code of `ctk release add`. The first one is built; the job that is
disturbed adds the second, so that every step has something to do: artefacts to fetch, builds to
make, packages to test, a channel to replace.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.index import IndexSettings
from ctk.index.client import Retry
from ctk.index.index import Index
from ctk.lock.model import Facts, ReleaseLock
from ctk.release import release, review
from kit import forked, tiny_packages
from kit.fake_ctk import EVERYWHERE_13, WHEELS_13, add_python_13, pins
from kit.fake_index import FakeIndex, Fault, serve
from kit.packages import Draft

__all__ = [
    "FakeIndex",
    "Fault",
    "World",
    "built_world",
    "command",
    "ctk",
    "new_world",
    "publish_release",
    "serve",
]

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("recipes", "conda_build_config.yaml", "conda-forge.yml", "pyproject.toml")
OLD, NEW = "13.4", "13.5"
VERSIONS = {OLD: "13.4.92", NEW: "13.5.37"}
RECIPES = (
    "cuda-arch",
    "cuda-crt",
    "cuda-pathfinder",
    "cuda-profiler-api",
    "cuda-version",
    "cuda-version-native",
)
HEADERS = {
    "crt": ("nvidia-cuda-crt", ("crt/host_defines.h", "crt/device_functions.h")),
    "profiler": ("nvidia-cuda-profiler-api", ("cuda_profiler_api.h", "cudaProfiler.h")),
}
_PYTHON = """#!/bin/sh
here=$(dirname "$0")/..
PYTHONPATH=$(echo "$here"/lib/python3.*/site-packages) exec "{}" "$@"
"""


@dataclass(frozen=True)
class World:
    """A checkout, the folder that serves as its base channel, and the index that its pip is
    configured for.

    Attributes:
        root: The checkout.
        base: The base channel; shared, and never written.
        index: What is served.
    """

    root: Path
    base: Path
    index: FakeIndex

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root)

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a command: pip knows this index only, and waits for seconds, not
        minutes.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "CTK_"))}
        pip = {
            "CONFIG_FILE": os.devnull,
            "INDEX_URL": self.index.url,
            "RETRIES": "1",
            "TIMEOUT": "2",
        }
        own = {"CTK_ROOT": str(self.root), "COLUMNS": "160", "NO_PROXY": "127.0.0.1"}
        own["XDG_CACHE_HOME"] = f"{self.root}-cache"  # where the checkout may only be read
        return {**kept, **own, **{f"PIP_{name}": value for name, value in pip.items()}, **more}

    def build(self, *releases: str) -> list[str]:
        """The arguments of the main job."""
        return ["build", "--base", str(self.base), *self.plan(*releases)]

    def plan(self, *releases: str) -> list[str]:
        """The options that say what to fetch or to build."""
        return [*RECIPES, *_options("--release", releases)]


def command(arguments: Sequence[str]) -> list[str]:
    """A command line of ctk as a process of this interpreter."""
    return [sys.executable, "-c", "from ctk.cli.main import main; main()", *arguments]


def ctk(
    world: World,
    *arguments: str,
    prefix: Sequence[str] = (),
    mounts: int | None = None,
    timeout: float = 900,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end: behind the words of ``prefix``, or with the mounts of
    a process.
    """
    if arguments[0] == "build":
        arguments = (*arguments, "--jobs", "1")  # each build process takes a second to start
    if not prefix:
        return forked.run(arguments, world.environment(**environment), timeout, mounts)
    return subprocess.run(
        [*prefix, *command(arguments)],
        env=world.environment(**environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def built_world(root: Path, index: FakeIndex) -> World:
    """Makes a checkout whose older release is built; the index must be serving."""
    world = new_world(root, index)
    done = ctk(world, *world.build(OLD))
    assert done.returncode == 0, done.stderr
    return world


def new_world(root: Path, index: FakeIndex) -> World:
    """Makes a checkout whose older release is locked; the index must be serving."""
    root.mkdir(parents=True)
    for name in COPIED:
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copyfile)(place, root / name)
    workspace = Workspace(root)
    project = root / "pyproject.toml"  # the licence of its wheels is of no known form
    project.write_text(
        project.read_text().replace("accept_redistribution = false", "accept_redistribution = true")
    )
    workspace.variants.mkdir()
    shutil.copyfile(ROOT / "variants" / "exclusions.yaml", workspace.variants / "exclusions.yaml")
    world = World(root, root.with_name(f"{root.name}-base"), index)
    tiny_packages.write_channel(world.base, _base_packages())
    add_python_13(index)
    # It has no module to be imported.
    del index.projects["cuda-pathfinder"]["cuda_pathfinder-1.10.0-py3-none-any.whl"]
    publish_release(world, OLD, "1.9.0")
    return world


def publish_release(world: World, minor: str, pathfinder: str) -> None:
    """Offers a CTK release and a version of cuda-pathfinder, and locks both as `ctk release add
    --write` would.
    """
    offer(world.index, minor, pathfinder)
    variants = world.workspace.variants
    with Index(IndexSettings(index_url=world.index.url), Retry(attempts=1)) as client:
        for name in (f"cuda-{minor}", "python-13"):
            made = with_facts(release.make(client, name, world.workspace))
            review.write([c for c in review.changes(variants, made) if c.is_needed])


def with_facts(lock: ReleaseLock) -> ReleaseLock:
    """A lock with facts as `ctk release measure` would write them.

    There is no NVRTC in it to be asked.
    """
    if not lock.is_ctk:
        return lock
    return replace(lock, facts=Facts(("7.5", "9.0", "12.1"), f"9.{lock.minor[-1]}", {}))


def offer(index: FakeIndex, minor: str, pathfinder: str) -> None:
    """A CTK release of two components, and a version of cuda-pathfinder that can be imported."""
    module = {
        "cuda/pathfinder/__init__.py": b"found = True\n",
        f"cuda_pathfinder-{pathfinder}.dist-info/licenses/LICENSE": (
            b"Apache License\nVersion 2.0\n"
        ),
    }
    index.add_wheel("cuda-pathfinder", pathfinder, files=module, requires_python=">=3.11")
    version = VERSIONS[minor]
    stated = pins("", dict.fromkeys(HEADERS, version), EVERYWHERE_13)
    index.add_wheel("cuda-toolkit", f"{minor}.0", "py2.py3-none-any", requires=stated)
    for distribution, names in HEADERS.values():
        files = {f"nvidia/cu13/include/{name}": _header(name, version) for name in names}
        for tag in WHEELS_13:
            index.add_wheel(distribution, version, f"py3-none-{tag}", files=files)


def _header(name: str, version: str) -> bytes:
    """Some kilobytes that hardly compress, so that a package is more than one block on disk."""
    noise = (hashlib.sha256(f"{name} {version} {n}".encode()).hexdigest() for n in range(1000))
    return "".join(f"// {line}\n" for line in noise).encode()


def _base_packages() -> list[Draft]:
    """What the set depends on and does not make: a Python that finds modules, and names."""
    program = _PYTHON.format(sys.executable).encode()
    version = f"{sys.version_info.major}.{sys.version_info.minor}.0"
    python = tiny_packages.tiny(
        "python", version, depends=("__glibc >=2.20",), files={"bin/python": program}
    )
    others = [
        tiny_packages.tiny(n, v)
        for n in ("cuda-crt-tools", "cuda-cudart-dev")
        for v in VERSIONS.values()
    ]
    # Without a program of its own, what lies on this machine's PATH would check its own packages.
    pip = {"bin/pip": b"#!/bin/sh\necho No broken requirements found.\n"}
    return [python, tiny_packages.tiny("pip", depends=("python",), files=pip), *others]


def _options(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
