"""Small valid release locks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import CTK_COMPONENTS
from ctk.lock.model import Artefact, Component, Facts, ReleaseLock

TAGS = {"linux-64": "manylinux2014_x86_64", "linux-aarch64": "manylinux2014_aarch64"}
TAGS |= {"win-64": "win_amd64", "win-arm64": "win_arm64"}
DISTRIBUTIONS = {c.name: c for c in CTK_COMPONENTS}
TIME = 1_757_000_000


def release_lock(
    release: str, versions: Mapping[str, str], published: Mapping[str, Sequence[str]] | None = None
) -> ReleaseLock:
    """A valid lock with an artefact of each component for each platform; those of Python projects are noarch."""
    ctk = release[0].isdigit()
    components = {}
    for name, version in sorted(versions.items()):
        known = DISTRIBUTIONS.get(name)
        distribution = known.distribution(release.split(".")[0]) if ctk and known else name
        targets = (published or {}).get(name, PLATFORMS if ctk else [NOARCH])
        artefacts = {t: artefact(name, distribution, version, t) for t in targets}
        licence = "LicenseRef-NVIDIA-Proprietary" if ctk else "Apache-2.0"
        texts = (hashlib.sha256(licence.encode()).hexdigest(),)
        components[name] = Component(name, distribution, version, artefacts, licence, texts)
    if not ctk:
        return ReleaseLock(release, None, components)
    manifest = artefact("cuda-toolkit", "cuda-toolkit", release, NOARCH)
    facts = Facts(("7.5", "9.0"), "9.4" if release.startswith("13") else "8.8", {s: {} for s in TAGS if "linux" in s})
    return ReleaseLock(release, manifest, components, facts, since=TIME)


def artefact(component: str, distribution: str, version: str, target: str) -> Artefact:
    subdir, _, python = target.partition("-cp")
    tag = f"cp{python}-cp{python}" if python else "py3-none"
    file = f"{distribution.replace('-', '_')}-{version}-{tag}-{TAGS.get(subdir, 'any')}.whl"
    return Artefact(component, distribution, version, target, file, hashlib.sha256(file.encode()).hexdigest(), 9, TIME)
