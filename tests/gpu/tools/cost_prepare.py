"""The part of `cost.py` that needs this project and the network: both picks as a channel, and the wheels for pip."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlparse

from ctk.core.platforms import this_platform
from ctk.solve.machine import virtual_packages
from ctk.solve.solve import Catalogue, Pick, Scenario
from ctk.solve.why import solve_or_say_why

REQUESTS = ("cuda-core", "numba-cuda")
# What pip is held to, so that both install the same.
SAME = ("cuda-bindings", "cuda-pathfinder", "numba", "numpy", "llvmlite")


def prepare(options: argparse.Namespace) -> None:
    """Fills the folder."""
    folder: Path = options.folder
    subdir = this_platform()
    catalogue = Catalogue([options.channel, options.base], subdir)
    plan: dict[str, object] = {"platform": subdir, "requests": {}}
    plan["virtual"] = [
        f"{p.name.normalized}={p.version}" for p in virtual_packages(subdir, options.driver, options.arch)
    ]
    picks = {}
    for request in REQUESTS:
        specs = (f"cuda-version={options.toolkit}", request)
        pick = picks[request] = solve_or_say_why(Scenario(specs, subdir, options.driver, options.arch), catalogue)
        ours = [r for r in pick.records if _local(r.url).is_relative_to(options.channel.resolve())]
        plan["requests"][request] = {
            "specs": specs,
            "pip": _requirements(request, pick, options.toolkit),
            "cuda": sorted(r.name.normalized for r in ours),
            "bytes": {"all": pick.size, "cuda": sum(r.size or 0 for r in ours)},
        }
    _channel(folder / "channel", picks.values(), (options.channel, options.base), subdir)
    python = picks[REQUESTS[0]].version("python")
    for request in REQUESTS:
        _download(folder / "wheels", python, *plan["requests"][request]["pip"])
    _download(folder / "client", options.client_python, "--no-deps", f"py-rattler=={version('py-rattler')}")
    (folder / "plan.json").write_text(json.dumps(plan, indent=1) + "\n")
    total = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{folder}: {total / 1e6:.0f} MB; next: cost.py measure {folder}")


def _requirements(request: str, pick: Pick, toolkit: str) -> list[str]:
    """What a user of pip writes for the same: the project with its extra, and the toolkit."""
    extra = f"cu{toolkit.split('.')[0]}"
    same = [f"{name}=={pick.version(name)}" for name in SAME if pick.version(name)]
    return [f"{request}[{extra}]=={pick.version(request)}", f"cuda-toolkit=={toolkit}.*", *same]


def _channel(folder: Path, picks: object, sources: tuple[Path, ...], subdir: str) -> None:
    """A channel of these packages alone, with the repodata they have where they come from."""
    files = {_local(r.url) for pick in picks for r in pick.records}
    for part in (subdir, "noarch"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        packages: dict[str, object] = {}
        for source in sources:
            listed = json.loads((source / part / "repodata.json").read_text())
            for name, record in {**listed.get("packages", {}), **listed.get("packages.conda", {})}.items():
                if source.resolve() / part / name in files:
                    packages[name] = record
                    shutil.copy(source / part / name, folder / part / name)
        repodata = {"info": {"subdir": part}, "packages": {}, "packages.conda": packages, "repodata_version": 1}
        (folder / part / "repodata.json").write_text(json.dumps(repodata))


def _local(url: str) -> Path:
    return Path(unquote(urlparse(url).path)).resolve()


def _download(folder: Path, python: str, *requirements: str) -> None:
    words = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
    minor = ".".join(python.split(".")[:2])
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *words, "--python-version", minor, *requirements], check=True
    )
