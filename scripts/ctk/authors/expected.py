"""The repodata records that the packages of somebody's recipe will have, so that a solver can pick them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from rattler import RepoDataRecord

from ctk.core.console import count
from ctk.core.errors import UnknownName
from ctk.core.platforms import NOARCH
from ctk.plan.plan import record_of
from ctk.plan.recipes import Recipe, Rendered, agree, render_variants, rendered_outputs
from ctk.solve.solve import Catalogue, Pick, Scenario, parse_spec
from ctk.solve.why import find_reason

_FILES = ("conda_build_config.yaml", "variants.yaml")
# The run-exports that a package for a platform inherits from each environment; a noarch package inherits only `noarch`
# of the host environment.
_TAKEN = {
    "build": ("strong", "strong_constrains"),
    "host": ("strong", "weak", "strong_constrains", "weak_constrains"),
}


class ExpectedRecords(NamedTuple):
    """The records of a recipe's packages for a platform, as in ``repodata.json``."""

    records: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]  # sentences about builds that are left out, and run-exports that are not known


class _Export(NamedTuple):
    """A spec in the run-exports of a package."""

    package: str
    kind: str  # weak, strong, noarch ...
    spec: str


def recipe_at(word: str) -> Recipe | None:
    """The recipe that a word of the command line names by its path; None if the word is a spec.

    Raises:
        UnknownName: There is no recipe at the path.
    """
    if "::" in word or not (word in (".", "..") or "/" in word or "\\" in word or word.endswith(".yaml")):
        return None
    return recipe_in(Path(word))


def recipe_in(place: Path) -> Recipe:
    """The recipe of a folder, of a feedstock, or of a ``recipe.yaml``.

    Raises:
        UnknownName: There is no recipe, or a recipe for conda-build.
    """
    folders = (place.parent,) if place.name in ("recipe.yaml", "meta.yaml") else (place, place / "recipe")
    for folder in folders:
        if (folder / "recipe.yaml").is_file():
            folder = folder.resolve()
            return Recipe((folder.parent if folder.name == "recipe" else folder).name, folder)
    if any((folder / "meta.yaml").is_file() for folder in folders):
        raise UnknownName(
            f"{place} has a recipe of conda-build's, meta.yaml, and no recipe.yaml",
            "write it anew in the v1 format: conda-recipe-manager convert meta.yaml > recipe.yaml",
        )
    raise UnknownName(f"there is no recipe in {place}", "name a recipe.yaml (the v1 format), or the folder that has it")


def variant_files(recipe: Recipe, build_config: Path) -> list[Path]:
    """The variant file that all recipes of a checkout share, then the recipe's own."""
    return [file for file in (build_config, *(recipe.folder / name for name in _FILES)) if file.is_file()]


def expected_records(recipe: Recipe, files: Sequence[Path], target: Catalogue, builder: Catalogue) -> ExpectedRecords:
    """The records of a recipe's packages for the platform of `target`, built on the platform of `builder`.

    Run-exports are read from the packages that a solver picks for the build and host environments, on a machine without
    a driver. A variant whose host environment has no solution is left out.
    """
    variants = render_variants(recipe, files, target.subdir)
    contents = [v.recipe.to_dict() for v in variants]
    own = {str(content["package"]["name"]) for content in contents}
    notes: dict[str, list[str]] = {}  # note -> the reason for each build
    hosts: list[Mapping[str, str] | None] = []
    exports: list[list[_Export]] = []
    for variant, content in zip(variants, contents, strict=True):
        built = specs_of(content, "build", variant.variant, own)
        build = _environment(built, builder, notes, "without what the build environment adds, which has no solution")
        wanted, taken = (
            specs_of(content, "host", variant.variant, own),
            _taken(content, "build", _exports(build, built)),
        )
        strong = [export.spec for export in taken if export.kind == "strong"]
        host = _environment([*wanted, *strong], target, notes, "left out, the host environment having no solution")
        hosts.append({r.name.normalized: f"{r.version} {r.build}" for r in host.records} if host else None)
        exports.append([*taken, *_taken(content, "host", _exports(host, wanted))])
    outputs, records = rendered_outputs(variants, target.subdir, hosts), {}
    whole = [(c, e) for c, e, host in zip(contents, exports, hosts, strict=True) if host is not None]
    for output, (content, added) in zip(outputs, whole, strict=True):
        beside = [
            other for other in outputs if other.name in _names(content, own) and agree(output.variant, other.variant)
        ]
        mine = [_Export(o.name, kind, spec) for o in beside for kind, specs in o.run_exports.items() for spec in specs]
        record = record_of(_with(output, [*added, *_taken(content, "host", mine)], target.subdir))
        records[f"{output.name}-{output.version}-{output.build_string}"] = record
    if not variants:
        notes[f"the recipe makes nothing for {target.subdir}"] = []
    lines = [f"{count(len(why), 'build')} {note}: {why[0]}" if why else note for note, why in notes.items()]
    return ExpectedRecords(tuple(records.values()), tuple(lines))


def _with(output: Rendered, added: Iterable[_Export], subdir: str) -> Rendered:
    """An output with these run-exports; a noarch output becomes a package of the platform, where solvers find it."""
    depends, constrains = dict.fromkeys(output.depends), dict.fromkeys(output.constrains)
    for export in added:
        (constrains if export.kind.endswith("_constrains") else depends)[export.spec] = None
    return replace(output, subdir=subdir, environment=(), depends=tuple(depends), constrains=tuple(constrains))


# --- environments, and their run-exports


def _requirements(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requirements of an output, and of the staging outputs that it takes files from."""
    return [part.get("requirements") or {} for part in (content, *(content.get("staging_caches") or ()))]


def specs_of(content: Mapping[str, Any], section: str, variant: Mapping[str, str], own: set[str]) -> list[str]:
    """The specs of an environment. As rattler-build does it, a name alone gets the version of its variant key."""
    found = []
    for spec in (s for part in _requirements(content) for s in part.get(section) or ()):
        if isinstance(spec, str) and (parsed := parse_spec(spec)).name not in own:
            value = "" if parsed.pinned else variant.get(parsed.name.replace("-", "_"), "")
            found.append(f"{spec}{'=' if re.fullmatch('[0-9A-Za-z._]+', value) else ' '}{value}".rstrip())
    return found


def _names(content: Mapping[str, Any], own: set[str]) -> set[str]:
    """The recipe's own outputs in the host requirements of an output."""
    specs = [s for part in _requirements(content) for s in part.get("host") or ()]
    names = (parse_spec(s).name if isinstance(s, str) else next(iter(s.values()))["name"] for s in specs)
    return own & set(names)


def _environment(specs: Sequence[str], catalogue: Catalogue, notes: dict[str, list[str]], lost: str) -> Pick | None:
    """Solves an environment. Packages in no channel are noted and left out, as most tools have no run-exports."""
    there = catalogue.names([catalogue.subdir, NOARCH])
    for name in sorted({parse_spec(spec).name for spec in specs} - there):
        notes[f"{name} is not in these channels: what its run-exports add is not known"] = []
    scenario = Scenario(tuple(s for s in specs if parse_spec(s).name in there), catalogue.subdir)
    pick = catalogue.pick(scenario)
    if pick is None:
        notes.setdefault(lost, []).append(find_reason(scenario, catalogue)[0])
    return pick


def _exports(pick: Pick | None, specs: Iterable[str]) -> Iterator[_Export]:
    for name in dict.fromkeys(parse_spec(spec).name for spec in specs):
        if pick and (record := pick.record(name)):
            for kind, lines in _run_exports(record).items():
                yield from (_Export(name, kind, line) for line in lines)


def _taken(content: Mapping[str, Any], section: str, exports: Iterable[_Export]) -> list[_Export]:
    """Run-exports that an output inherits, after `ignore_run_exports`."""
    kinds = _TAKEN[section]
    if content["build"].get("noarch"):
        kinds = ("noarch",) if section == "host" else ()
    ignored = [part.get("ignore_run_exports") or {} for part in _requirements(content)]
    names, packages = ({n for one in ignored for n in one.get(key) or ()} for key in ("by_name", "from_package"))
    return [
        e for e in exports if e.kind in kinds and e.package not in packages and parse_spec(e.spec).name not in names
    ]


def _run_exports(record: RepoDataRecord) -> Mapping[str, Sequence[str]]:
    """The run-exports of a package: from its record, or for a channel in a folder from ``run_exports.json``."""
    found = json.loads(record.to_json()).get("run_exports")
    place = urlsplit(str(record.channel))
    if found is None and place.scheme == "file":
        found = _exports_file(Path(url2pathname(place.path)) / record.subdir / "run_exports.json").get(record.file_name)
    return {kind: lines for kind, lines in (found or {}).items() if lines}


@lru_cache(maxsize=64)
def _exports_file(path: Path) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """File name -> run-exports, from a channel's ``run_exports.json`` (CEP 12); empty if there is no such file."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return {
        name: entry["run_exports"] for kind in ("packages", "packages.conda") for name, entry in content[kind].items()
    }
