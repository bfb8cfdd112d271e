"""Planned repodata: what the channel's index will say once a plan is built, without a build or a download.

Everything a solver looks at follows from recipes, locks and platforms, so all four platforms can be solved for on any
machine, in seconds. `tests/packages/test_planned_repodata.py` holds it against the index of the channel that was built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rattler import Subdir

from ctk.core.errors import RecipeError
from ctk.core.files import replace_file
from ctk.core.platforms import NOARCH
from ctk.plan.plan import Plan
from ctk.plan.recipes import Rendered

FROM_BUILD = frozenset({"size", "md5", "sha256", "timestamp"})
"""What only a built package, or its indexing, adds to a record."""


def planned(plan: Plan) -> dict[str, dict[str, Any]]:
    """Subdir -> what its ``repodata.json`` will say, for the subdirs of a plan's packages and ``noarch``.

    A record has the fields that the indexer writes except `FROM_BUILD`; a noarch package that several builds make
    appears once.

    Raises:
        RecipeError: For a package whose requirements only a build could know, or two packages of one name that differ.
    """
    packages: dict[str, dict[str, dict[str, Any]]] = {NOARCH: {}}
    makers: dict[tuple[str, str], str] = {}
    for build in plan.builds:
        for output in build.outputs:
            record = _record(output)
            earlier = packages.setdefault(output.subdir, {}).setdefault(output.file_name, record)
            maker = makers.setdefault((output.subdir, output.file_name), build.id)
            if earlier != record:
                differing = sorted(k for k in earlier.keys() | record.keys() if earlier.get(k) != record.get(k))
                raise RecipeError(
                    f"{maker} and {build.id} both make {output.file_name}, with different {', '.join(differing)}",
                    "let the build string tell them apart",
                )
    return {subdir: index(subdir, dict(sorted(records.items()))) for subdir, records in sorted(packages.items())}


def index(subdir: str, records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A ``repodata.json`` of records by file name."""
    return {"info": {"subdir": subdir}, "packages": {}, "packages.conda": records, "repodata_version": 1, "v3": {}}


def _record(output: Rendered) -> dict[str, Any]:
    """The record of one package; as in the indexer's, what is empty is absent, except `depends`."""
    if output.environment:
        raise RecipeError(
            f"{output.name} is built in an environment ({', '.join(output.environment)}), which may add requirements",
            "let the recipe repackage without build and host requirements",
        )
    platform = Subdir(output.subdir)
    record = {
        "arch": str(platform.arch) if platform.arch else None,
        "build": output.build_string,
        "build_number": output.build_number,
        "constrains": list(output.constrains),
        "depends": list(output.depends),
        "license": output.license,
        "name": output.name,
        "noarch": output.noarch,
        "platform": platform.only_platform,
        "run_exports": {kind: list(specs) for kind, specs in output.run_exports.items() if specs},
        "subdir": output.subdir,
        "track_features": " ".join(output.track_features),
        "version": output.version,
    }
    return {key: value for key, value in record.items() if value or key in ("build_number", "depends")}


def write(repodata: Mapping[str, Mapping[str, Any]], folder: Path) -> Path:
    """Writes the repodata of some subdirs, and no others, as a channel that solvers can read; there are no packages."""
    for subdir, content in repodata.items():
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        replace_file(folder / subdir / "repodata.json", json.dumps(content).encode())
    for stale in folder.glob("*/repodata.json"):
        if stale.parent.name not in repodata:
            stale.unlink()
    return folder
