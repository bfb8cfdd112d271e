"""What every output of every recipe renders to, in files that a reviewer can read: one for each
output.

Of the releases those that are built by default: the oldest and the newest of each CUDA major are
among them. Versions, platforms, Pythons and the two fits (native, compat) are put as placeholders,
so that variants which differ in nothing else share an entry, and a newer patch of a release changes
no file.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Build, Request, plan, published_set, python_tags, small
from ctk.plan.render import render_variants

FOLDER = Path(__file__).parent / "golden"
_PLACE = "${{ target_platform }}"
_variants = cache(render_variants)  # builds that differ in their Python share them


@dataclass
class Golden:
    """One output.

    Attributes:
        records: Variant (``13.4 linux-64``, ``13 linux-64 cp312``, ``13 5.3.0.16 linux-64`` of an
            older version) -> what it renders to. Where native and compat differ in more than their
            names, each is a variant of its own (``13.4 linux-64 native``).
        left_out: Variants for which the recipe leaves the output out.
    """

    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)


def rendered(workspace: Workspace) -> dict[str, Golden]:
    """Every output as the recipes render it now, by file name of its golden file.

    Takes seconds, and no package.
    """
    goldens: dict[str, Golden] = defaultdict(Golden)
    wanted = small(
        Request(platforms=list(PLATFORMS)), workspace, all_components=True, libraries=True
    )
    what = published_set(workspace)
    for build in plan(what, wanted, python_tags(workspace.build_config)).builds:
        release = build.arch or build.lock.partition("-")[2]
        lock, _ = what.locks[build.lock]
        beside = [c.version for key, c in lock.components.items() if key != c.name]
        older = [version for version in build.versions.values() if version in beside]
        label = " ".join(part for part in (release, *older, build.subdir, build.python) if part)
        made = set()
        files = {output.file_name for output in build.outputs}
        for output in _variants(build.recipe, build.variant_files, build.subdir):
            recipe = output.recipe.to_dict()
            if (
                "{name}-{version}-{build}.conda".format(
                    **recipe["package"], build=recipe["build"]["string"]
                )
                not in files
            ):
                continue
            name = _file_name(recipe["package"]["name"], build.subdir)
            made.add(name)
            fit = next(
                (value for key, value in dict(output.variant).items() if key.endswith("_fit")), ""
            )
            variant = f"{label} {fit}".strip()
            record = dict(
                _record(recipe, _names(build, recipe) | ({f"{fit}_*": "FIT_*"} if fit else {}))
            )
            twin = f"{label} {'compat' if fit == 'native' else 'native'}"
            if fit and goldens[name].records.get(twin) == record:
                del goldens[name].records[twin]
                variant = label
            goldens[name].records[variant] = record
        for written in build.recipe.output_names:
            name = _file_name(written.replace(_PLACE, build.subdir), build.subdir)
            if name not in made:
                goldens[name].left_out.add(label)
    return goldens


def _file_name(output: str, subdir: str) -> str:
    return output.replace(f"_{subdir}", "_SUBDIR")


def _names(build: Build, recipe: Mapping[str, Any]) -> dict[str, str]:
    """What a placeholder stands for in one variant: text -> placeholder."""
    version = recipe["package"]["version"]
    names = {version: "VERSION", build.subdir: "SUBDIR"}
    if PLATFORMS[build.subdir].target:
        names[PLATFORMS[build.subdir].target] = "TARGET"
    if build.python:
        tag = re.fullmatch(r"cp3(\d+)t?", build.python)
        assert tag is not None
        minor = int(tag[1])
        names |= {build.python: "TAG", f"3.{minor}": "3.N", f"3.{minor + 1}.0a0": "3.N+1.0a0"}
    else:
        major, _, minor_text = build.lock.partition("-")[2].partition(".")
        if minor_text and not build.arch:
            names |= {
                f"{major}.{minor_text}": "MINOR",
                f"{major}.{int(minor_text) + 1}.0a0": "NEXT_MINOR.0a0",
            }
    return names


def _put(text: str, names: Mapping[str, str]) -> str:
    """The text with placeholders. A version is one only where it is not a part of a longer one."""
    for old in sorted(names, key=len, reverse=True):
        pattern = re.escape(old)
        if old[0].isdigit():
            pattern = rf"(?<!\d)(?<!\d\.){pattern}(?!\d|\.\d)"
        text = re.sub(pattern, names[old], text)
    return text


def _record(recipe: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    requirements = recipe.get("requirements") or {}
    if recipe["build"].get("noarch"):
        yield "noarch", recipe["build"]["noarch"]
    for key, where in (("depends", "run"), ("constrains", "run_constraints")):
        if requirements.get(where):
            yield key, [_put(_spec(spec), names) for spec in requirements[where]]
    exports = requirements.get("run_exports") or {}
    if exports:
        yield (
            "run_exports",
            {
                kind: [_put(_spec(s), names) for s in specs]
                for kind, specs in sorted(exports.items())
            },
        )


def _spec(spec: Any) -> str:
    if isinstance(spec, str):
        return spec
    ((_, pin),) = spec.items()
    bound = (
        "its own build"
        if pin.get("exact")
        else f"from its own version, below the next {pin.get('upper_bound')}"
    )
    return f"{pin['name']} ({bound})"


def dump(golden: Golden) -> str:
    """A golden file's text: variants that are alike are one entry."""
    alike: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for variant in sorted(golden.records, key=_order):
        record = golden.records[variant]
        alike.setdefault(repr(record), ([], record))[0].append(variant)
    content: dict[str, Any] = {
        "variants": [{"of": variants, **record} for variants, record in alike.values()]
    }
    if golden.left_out:
        content["left_out"] = sorted(golden.left_out, key=_order)
    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style = False
    yaml.width = 4096  # no spec is cut, and no line ends in a space
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.ignore_aliases = lambda _: True
    yaml.dump(content, text)
    return text.getvalue()


def _order(variant: str) -> tuple[object, ...]:
    release, *rest = variant.split()
    return [int(part) for part in release.split(".")], rest  # type: ignore[return-value]
