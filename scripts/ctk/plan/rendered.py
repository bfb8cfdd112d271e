"""What one output of a recipe says for one variant: all of its package's metadata that is known before a build."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rattler import Version

from ctk.core.errors import RecipeError
from ctk.core.platforms import NOARCH

_ARTEFACT = re.compile(r"\.cache/artefacts/(?P<component>[^/]+)/(?P<version>[^/]+)/(?P<target>[^/]+)\.zip$")
# The kinds of run exports: as recipes name them -> as packages do.
_EXPORTS = {
    "weak": "weak",
    "strong": "strong",
    "noarch": "noarch",
    "weak_constraints": "weak_constrains",
    "strong_constraints": "strong_constrains",
}


@dataclass(frozen=True)
class Source:
    """What a rendered recipe reads: one artefact, by the three parts of its predictable path."""

    component: str
    version: str
    target: str


@dataclass(frozen=True)
class Rendered:
    """One output of a recipe for one variant.

    Attributes:
        name, version, build_string, build_number: Of the package.
        subdir: ``noarch`` or the platform's subdir.
        noarch: Kind of a noarch package (``generic`` or ``python``), or "".
        track_features: Names that make solvers take the package last.
        license: As an SPDX expression, or "".
        variant: The variant keys this output uses.
        depends, constrains: Its run requirements and constraints, as the package will state them: pins to other
            outputs of the recipe are resolved.
        run_exports: Kind (``weak``, ``strong_constrains`` ...) -> what the package adds to those built with it.
        environment: What is installed to build it. Its run exports, if it has any, are not in `depends`.
        sources: The artefacts it reads.
        files, left_files: Globs of the files that it takes, all if there is none, and of those that it leaves.
    """

    name: str
    version: str
    build_string: str
    build_number: int
    subdir: str
    noarch: str
    track_features: tuple[str, ...]
    license: str
    variant: Mapping[str, str]
    depends: tuple[str, ...]
    constrains: tuple[str, ...]
    run_exports: Mapping[str, tuple[str, ...]]
    environment: tuple[str, ...]
    sources: tuple[Source, ...]
    files: tuple[str, ...] = ()
    left_files: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}-{self.build_string}.conda"


def rendered_outputs(variants: Sequence[Any], subdir: str) -> list[Rendered]:
    """The outputs among rattler-build's rendered variants of one recipe.

    Args:
        variants: All that one call rendered: outputs may be pinned to each other.
        subdir: The target platform.

    Raises:
        RecipeError: For a pin to something that is no output of the recipe in that variant.
    """
    found = [_Output(v.recipe.to_dict(), v.variant, v.pin_subpackages) for v in variants]
    return [_rendered(output, _Siblings(output, found), subdir) for output in found]


@dataclass(frozen=True)
class _Output:
    """What rattler-build rendered: the recipe for one output, its variant keys, its exact pins."""

    recipe: Mapping[str, Any]
    variant: Mapping[str, str]
    pins: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.recipe["package"]["name"])

    @property
    def version(self) -> str:
        return str(self.recipe["package"]["version"])


def _rendered(output: _Output, siblings: _Siblings, subdir: str) -> Rendered:
    recipe = output.recipe
    build, requirements = recipe["build"], recipe.get("requirements") or {}
    caches = recipe.get("staging_caches") or ()
    exports = requirements.get("run_exports") or {}
    level = abs((build.get("variant") or {}).get("down_prioritize_variant") or 0)
    files = build.get("files") or {}
    globs = files if isinstance(files, dict) else {"include": files}
    environments = [requirements, *(cache.get("requirements") or {} for cache in caches)]
    return Rendered(
        name=output.name,
        version=output.version,
        build_string=build["string"],
        build_number=build.get("number") or 0,
        subdir=NOARCH if build.get("noarch") else subdir,
        noarch=build.get("noarch") or "",
        # rattler-build names them after the package, one for each level.
        track_features=tuple(f"{output.name}-p-{i}" for i in range(level)),
        license=(recipe.get("about") or {}).get("license") or "",
        variant=dict(output.variant),
        depends=siblings.resolve(requirements.get("run")),
        constrains=siblings.resolve(requirements.get("run_constraints")),
        run_exports={_EXPORTS[kind]: siblings.resolve(specs) for kind, specs in exports.items()},
        environment=tuple(str(spec) for e in environments for kind in ("build", "host") for spec in e.get(kind) or ()),
        sources=tuple(_sources(s for part in (recipe, *caches) for s in _as_list(part.get("source")))),
        files=tuple(_as_list(globs.get("include"))),
        left_files=tuple(_as_list(globs.get("exclude"))),
    )


class _Siblings:
    """The outputs that one output's pins can mean.

    Exact pins decide the output's hash, so rattler-build says at rendering what they are. For the others the version is
    enough, and any output of that name in the same variant has it.
    """

    def __init__(self, output: _Output, found: Sequence[_Output]) -> None:
        self.name = output.name
        self.exact = {name: f"{pin.version} {pin.build_string}" for name, pin in output.pins.items() if pin.exact}
        self.versions = {other.name: other.version for other in found if _agree(output.variant, other.variant)}

    def resolve(self, requirements: Iterable[Any] | None) -> tuple[str, ...]:
        """Requirements as the package will state them, each once."""
        return tuple(dict.fromkeys(r if isinstance(r, str) else self._pinned(r) for r in requirements or ()))

    def _pinned(self, requirement: Mapping[str, Any]) -> str:
        ((kind, pin),) = requirement.items()
        known = self.exact if pin.get("exact") else self.versions
        if kind != "pin_subpackage" or pin["name"] not in known:
            raise RecipeError(
                f"output {self.name} has a {kind} on {pin['name']}, which only a build could resolve",
                "pin to another output of the recipe that exists in the same variant",
            )
        return f"{pin['name']} =={known[pin['name']]}" if pin.get("exact") else pinned(pin, known[pin["name"]])


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two outputs can belong to the same variant. The platform of a noarch output is another one."""
    return all(one[key] == other[key] for key in one.keys() & other.keys() if key != "target_platform")


def pinned(pin: Mapping[str, Any], version: str) -> str:
    """A bounded pin as a requirement, the way rattler-build writes it.

    Args:
        pin: ``name``, and where given ``lower_bound``, ``upper_bound`` (``x.x``, or a version) and ``build``.
        version: The version that the pinned output has.
    """
    lower, upper = pin.get("lower_bound"), pin.get("upper_bound")
    bounds = []
    if lower:
        bounds.append(f">={_shortened(version, lower.count('x')) if _counts(lower) else lower}")
    if upper:
        bounds.append(f"<{_next(version, upper.count('x')) if _counts(upper) else upper}")
    return " ".join(part for part in (pin["name"], ",".join(bounds), pin.get("build")) if part)


def _counts(bound: str) -> bool:
    """Whether a bound is an expression such as ``x.x``, which counts segments."""
    return set(bound) <= {"x", "."}


def _shortened(version: str, segments: int) -> str:
    parsed = Version(version)
    return str(parsed.with_segments(0, min(segments, parsed.segment_count)))


def _next(version: str, segments: int) -> str:
    """The first version, pre-releases included, that differs in the given number of leading segments."""
    shortened = Version(_shortened(version, segments))
    return str(shortened.bump_segment(segments - 1).with_alpha().remove_local())


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _sources(sources: Iterable[Any]) -> Iterator[Source]:
    for source in sources:
        match = _ARTEFACT.search(str(source.get("path", ""))) if isinstance(source, dict) else None
        if match:
            yield Source(match["component"], match["version"], match["target"])
