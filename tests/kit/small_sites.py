"""A tiny checkout with a tiny channel: two toolkits, a package with a hostile text, and the site of
both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.lock.model import Facts, ReleaseLock, dump, variant_config
from ctk.site import Site, read
from kit.ctk_release import measured
from kit.packages import Draft
from kit.small_channels import build

HOSTILE = "<script>alert('taken over')</script> & \"more\""
MINORS = ("13.3", "13.4")


def checkout(root: Path) -> Workspace:
    """A checkout of locks alone."""
    workspace = Workspace(root)
    workspace.variants.mkdir(parents=True)
    for minor in MINORS:
        release = _release(minor)
        (workspace.variants / f"{release.name}.lock").write_text(dump(release))
        (workspace.variants / f"{release.name}.yaml").write_text(variant_config(release))
    return workspace


def _release(minor: str) -> ReleaseLock:
    facts = Facts(("7.5", "9.0"), f"9.{minor[-1]}", {"linux-64": {"cudart": "2.17"}})
    return replace(measured(f"{minor}.1", {"cudart": f"{minor}.92"}), facts=facts)


def drafts() -> list[Draft]:
    """The packages of a channel in which the driver decides: two builds of each cuda-version, and
    its users.
    """
    found = []
    for minor in MINORS:
        native, compat = f"__cuda >={minor}", "__cuda >=13"
        found.append(Draft("cuda-version", minor, "native_100", "noarch", (native,)))
        tracked = {"track_features": "cuda-version-compat", "constrains": [compat]}
        found.append(Draft("cuda-version", minor, "compat_0", "noarch", index=tracked))
    about = json.dumps({"summary": HOSTILE}).encode()
    sbom = json.dumps({"bomFormat": "CycloneDX"}).encode()
    found.append(
        Draft(
            "cuda-core",
            "1.10.0",
            "py313h0_0",
            depends=("cuda-version >=13,<14", "python_abi 3.13.* *_cp313", "nowhere >=1"),
            files={
                f"lib/python3.13/site-packages/cuda/core/{n}.py": b"x" * n for n in range(1, 40)
            },
            info={
                "about.json": about,
                "run_exports.json": b'{"weak": ["cuda-core >=1"]}',
                "sboms/cuda-core.json": sbom,
            },
        )
    )
    found.append(
        Draft(
            "cuda-core",
            "1.2.2",
            "py313h1_0",
            depends=("cuda-version >=13,<14", "python_abi 3.13.* *_cp313"),
        )
    )
    found.append(Draft("empty", "1.0", "h0_0", depends=("cuda-core",)))
    return found


def small_site(root: Path, packages: Iterable[Draft] | None = None) -> Site:
    """The site of a channel of these packages."""
    workspace = checkout(root / "checkout")
    site = read(workspace, build(root / "channel", *(drafts() if packages is None else packages)))
    return replace(site, channels=("https://example.org/cuda", "conda-forge"))
