"""What the tests of `ctk release` share, besides the fixtures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.index.inside import parse_time
from ctk.lock.model import Artefact, Component, Facts, ReleaseLock, dump, variant_config

Run = Callable[..., str]
Have = Callable[..., dict[str, bytes]]
UPLOADED = parse_time("2025-08-04T12:34:56Z")
_WHEEL_TAGS = {
    "linux-64": "manylinux2014_x86_64",
    "linux-aarch64": "manylinux2014_aarch64",
    "win-64": "win_amd64",
    "win-arm64": "win_arm64",
}


def snapshot(here: Workspace) -> dict[str, bytes]:
    """Every file of the checkout's release locks."""
    return {p.name: p.read_bytes() for p in sorted(here.variants.glob("*"))} if here.variants.exists() else {}


def write(folder: Path, lock: ReleaseLock) -> Path:
    """Writes both halves of a release; returns the path of its lock."""
    path = folder / f"{lock.name}.lock"
    path.write_text(dump(lock))
    path.with_suffix(".yaml").write_text(variant_config(lock))
    return path


def cells(shown: str) -> set[tuple[str, ...]]:
    """The rows of the tables in an output."""
    return {tuple(c.strip() for c in line.split("│")[1:-1]) for line in shown.splitlines() if "│" in line}


def component(name: str = "cudart", version: str = "13.4.92", targets: Iterable[str] = PLATFORMS) -> Component:
    """A component with a wheel for each target, each with a sha256 of its own."""

    def artefact(target: str) -> Artefact:
        subdir, _, tag = target.partition("-cp")
        python = f"cp{tag.rstrip('t')}-cp{tag}" if tag else "py3-none"
        file = f"nvidia_{name}-{version}-{python}-{_WHEEL_TAGS[subdir]}.whl"
        sha256 = hashlib.sha256(file.encode()).hexdigest()
        return Artefact(name, f"nvidia-{name}", version, target, file, sha256, 12, UPLOADED)

    artefacts = {target: artefact(target) for target in targets}
    return Component(name, f"nvidia-{name}", version, artefacts, license_texts=("cd" * 32,))


def release(version: str = "13.4.3", *components: Component | str, facts: Facts | None = None) -> ReleaseLock:
    """A lock of these components, by default of one."""
    file = f"cuda_toolkit-{version}-py3-none-any.whl"
    manifest = Artefact("cuda-toolkit", "cuda-toolkit", version, NOARCH, file, "cd" * 32, 7)
    made = [component(c) if isinstance(c, str) else c for c in components or ("cudart",)]
    return ReleaseLock(version, manifest if version[0].isdigit() else None, {c.name: c for c in made}, facts)
