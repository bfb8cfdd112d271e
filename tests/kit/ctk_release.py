"""What the tests of `ctk release` share, besides the fixtures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.times import parse_time
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
    return (
        {p.name: p.read_bytes() for p in sorted(here.variants.glob("*"))}
        if here.variants.exists()
        else {}
    )


def write(folder: Path, lock: ReleaseLock) -> Path:
    """Writes both halves of a release; returns the path of its lock."""
    path = folder / f"{lock.name}.lock"
    path.write_text(dump(lock))
    path.with_suffix(".yaml").write_text(variant_config(lock))
    return path


def component(
    name: str = "cudart", version: str = "13.4.92", targets: Iterable[str] = PLATFORMS
) -> Component:
    """A component with a wheel for each target, each with a sha256 of its own.

    One for all platforms is not from NVIDIA.
    """
    found = {}
    for target in targets:
        subdir, _, tag = target.partition("-cp")
        python = f"cp{tag.rstrip('t')}-cp{tag}" if tag else "py3-none"
        distribution = name if target == NOARCH else f"nvidia-{name}"
        project, platform = distribution.replace("-", "_"), _WHEEL_TAGS.get(subdir, "any")
        file = f"{project}-{version}-{python}-{platform}.whl"
        sha256 = hashlib.sha256(file.encode()).hexdigest()
        found[target] = Artefact(name, distribution, version, target, file, sha256, 12, UPLOADED)
    distribution = next((artefact.distribution for artefact in found.values()), name)
    return Component(name, distribution, version, found, license_texts=("cd" * 32,))


def release(
    version: str = "13.4.3", *components: Component | str, facts: Facts | None = None
) -> ReleaseLock:
    """A lock of these components, by default of one."""
    file = f"cuda_toolkit-{version}-py3-none-any.whl"
    manifest = Artefact("cuda-toolkit", "cuda-toolkit", version, NOARCH, file, "cd" * 32, 7)
    made = [component(c) if isinstance(c, str) else c for c in components or ("cudart",)]
    return ReleaseLock(
        version, manifest if version[0].isdigit() else None, {c.name: c for c in made}, facts
    )


def measured(
    version: str, versions: Mapping[str, str], targets: Mapping[str, Sequence[str]] | None = None
) -> ReleaseLock:
    """A lock of components in these versions, as it is after `ctk release measure`.

    Python projects are noarch.
    """
    ctk = version[0].isdigit()
    licence, everywhere = (
        ("LicenseRef-NVIDIA-Proprietary", PLATFORMS) if ctk else ("Apache-2.0", [NOARCH])
    )
    made = [
        component(name, of, (targets or {}).get(name, everywhere))
        for name, of in sorted(versions.items())
    ]
    facts = Facts(
        ("7.5", "9.0"),
        "9.4" if version.startswith("13") else "8.8",
        {"linux-64": {}, "linux-aarch64": {}},
    )
    texts = (hashlib.sha256(licence.encode()).hexdigest(),)
    licensed = [replace(one, license=licence, license_texts=texts) for one in made]
    lock = release(version, *licensed, facts=facts if ctk else None)
    return replace(lock, since=UPLOADED, gpu_code={name: {} for name in lock.components})
