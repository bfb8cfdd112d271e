"""The outputs of a rendered recipe: their metadata before a build, with resolved pins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctk.core.document import as_list
from ctk.core.errors import RecipeError
from ctk.core.platforms import NOARCH
from ctk.core.similar import nearest
from ctk.lock.derived import KINDS

_ARTEFACT = re.compile(
    r"\.cache/artefacts/(?P<component>[^/]+)/(?P<version>[^/]+)/(?P<target>[^/]+?)"
    rf"(-(?P<made>{'|'.join(KINDS)}))?\.zip$"
)


@dataclass(frozen=True)
class Source:
    """An artefact that a rendered recipe reads, by the three parts of its path.

    Attributes:
        made: The kind of a source that is made of the artefact's names (`ctk.lock.derived`), or "".
    """

    component: str
    version: str
    target: str
    made: str = ""
    folder: str = ""  # relative to the work folder


@dataclass(frozen=True)
class Script:
    """A script of a rendered recipe.

    Its path relative to the recipe's folder, and its environment variables.
    """

    file: str
    env: Mapping[str, str]


@dataclass(frozen=True)
class Rendered:
    """An output of a recipe for one variant, with all metadata that is known before a build."""

    name: str
    version: str
    build_string: str
    build_number: int
    subdir: str  # ``noarch`` or the platform's subdir
    noarch: str  # kind of a noarch package (``generic`` or ``python``), or ""
    track_features: tuple[str, ...]  # solvers take a package with features last
    license: str  # SPDX expression, or ""
    variant: Mapping[str, str]  # the variant keys that it uses
    depends: tuple[str, ...]  # as in the package: pins to other outputs of the recipe are resolved
    constrains: tuple[str, ...]
    # Kind (``weak``, ``strong_constrains`` ...) -> requirements.
    run_exports: Mapping[str, tuple[str, ...]]
    # Build and host requirements; their run-exports are not in `depends`.
    environment: tuple[str, ...]
    sources: tuple[Source, ...]  # the artefacts that it reads
    files: tuple[str, ...] = ()  # globs of the files that it includes; () for all files
    left_files: tuple[str, ...] = ()  # globs of the files that it excludes
    scripts: tuple[
        Script, ...
    ] = ()  # script files: of the staging output that it inherits, then its own
    contents: tuple[str, ...] = ()  # globs of its package_contents tests
    absent: tuple[str, ...] = ()  # globs of these tests that must match nothing
    may_edit: bool = (
        False  # whether rattler-build, or a script that is in no file, may edit binaries
    )

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}-{self.build_string}.conda"


# Kinds of run-exports: name in recipes -> name in packages.
_EXPORTS = {
    **{kind: kind for kind in ("weak", "strong", "noarch")},
    **{f"{kind}_constraints": f"{kind}_constrains" for kind in ("weak", "strong")},
}


def rendered_outputs(variants: Sequence[Any], subdir: str) -> list[Rendered]:
    """The outputs of all rendered variants of a recipe, with pins to each other resolved.

    Args:
        variants: From `render_variants`.
        subdir: The platform.

    Raises:
        RecipeError: A pin does not name an output of the recipe in that variant.
    """
    recipes = [v.recipe.to_dict() for v in variants]
    outputs = []
    for variant, recipe in zip(variants, recipes, strict=True):
        # Exact pins are part of the output's hash, so rattler-build resolves them at rendering.
        # Other pins need only the version, which any output of that name in the same variant has.
        exact = {
            n: f"{pin.version} {pin.build_string}"
            for n, pin in variant.pin_subpackages.items()
            if pin.exact
        }
        versions = {
            other["package"]["name"]: str(other["package"]["version"])
            for one, other in zip(variants, recipes, strict=True)
            if _agree(variant.variant, one.variant)
        }
        outputs.append(_rendered(recipe, variant.variant, subdir, exact, versions))
    return outputs


def _rendered(
    recipe: Mapping[str, Any],
    variant: Mapping[str, str],
    subdir: str,
    exact: Mapping[str, str],
    versions: Mapping[str, str],
) -> Rendered:
    name = str(recipe["package"]["name"])

    def resolved(requirements: Iterable[Any] | None) -> tuple[str, ...]:
        """Requirements as in the package, without duplicates."""
        pins = (
            r if isinstance(r, str) else _resolved_pin(name, r, exact, versions)
            for r in requirements or ()
        )
        return tuple(dict.fromkeys(pins))

    build, requirements = recipe["build"], recipe.get("requirements") or {}
    caches = recipe.get("staging_caches") or ()
    level = abs((build.get("variant") or {}).get("down_prioritize_variant") or 0)
    files = build.get("files") or {}
    globs = files if isinstance(files, dict) else {"include": files}
    scripts = [part.get("build", {}).get("script") for part in (*caches, recipe)]
    tests = _content_tests(recipe)
    return Rendered(
        name=name,
        version=str(recipe["package"]["version"]),
        build_string=build["string"],
        build_number=build.get("number") or 0,
        subdir=NOARCH if build.get("noarch") else subdir,
        noarch=build.get("noarch") or "",
        # rattler-build names the features after the package, one for each level.
        track_features=tuple(f"{name}-p-{i}" for i in range(level)),
        license=(recipe.get("about") or {}).get("license") or "",
        variant=dict(variant),
        depends=resolved(requirements.get("run")),
        constrains=resolved(requirements.get("run_constraints")),
        run_exports={
            _EXPORTS[k]: resolved(specs)
            for k, specs in (requirements.get("run_exports") or {}).items()
        },
        environment=_environment(requirements, caches),
        sources=tuple(
            _sources(s for part in (recipe, *caches) for s in as_list(part.get("source")))
        ),
        files=tuple(as_list(globs.get("include"))),
        left_files=tuple(as_list(globs.get("exclude"))),
        scripts=tuple(
            Script(script["file"], dict(script.get("env") or {}))
            for script in scripts
            if isinstance(script, Mapping) and "file" in script  # else it is a list of shell lines
        ),
        contents=tuple(glob for test in tests for glob in as_list(test.get("exists"))),
        absent=tuple(glob for test in tests for glob in as_list(test.get("not_exists"))),
        may_edit=_may_edit(build, scripts),
    )


def _content_tests(recipe: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the tests of a package's contents say of its files: globs under `exists`, for one."""
    parts = [
        test["package_contents"].get("files")
        for test in recipe.get("tests") or ()
        if "package_contents" in test
    ]
    return [part if isinstance(part, dict) else {"exists": part} for part in parts]


def _environment(
    requirements: Mapping[str, Any], caches: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """The specs of the environments in which an output and its staging caches are built."""
    several = [requirements, *(cache.get("requirements") or {} for cache in caches)]
    specs = []
    for stated in several:
        for kind in ("build", "host"):
            specs += [str(spec) for spec in stated.get(kind) or ()]
    return tuple(specs)


def _may_edit(build: Mapping[str, Any], scripts: Iterable[Any]) -> bool:
    """Whether a build may change the files of its sources: by a script, or by relocation."""
    relocates = (build.get("dynamic_linking") or {}).get("binary_relocation") is not False
    for script in scripts:
        is_program = isinstance(script, Mapping) and "file" in script
        if script and (relocates or not is_program):
            return True
    return False


def _resolved_pin(
    output: str,
    requirement: Mapping[str, Any],
    exact: Mapping[str, str],
    versions: Mapping[str, str],
) -> str:
    ((kind, pin),) = requirement.items()
    known = exact if pin.get("exact") else versions
    if kind == "pin_compatible":
        cause = f"output {output} has a {kind} on {pin['name']}, which only a build could resolve"
        raise RecipeError(cause, other_output("", known))
    if pin["name"] not in known:
        cause = (
            f"output {output} has a {kind}, and no output is named {pin['name']} in this variant"
        )
        raise RecipeError(cause, other_output(pin["name"], known))
    return (
        f"{pin['name']} =={known[pin['name']]}"
        if pin.get("exact")
        else pinned(pin, known[pin["name"]])
    )


def other_output(name: str, outputs: Iterable[str]) -> str:
    """The step after a pin to an output that there is not."""
    near = nearest(name, {*outputs} - {name})
    return "pin to an output that exists in the same variant" + (
        f"; did you mean {near[0]}?" if near else ""
    )


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two outputs can belong to the same variant; a noarch output has another platform."""
    return all(
        one[key] == other[key] for key in one.keys() & other.keys() if key != "target_platform"
    )


def pinned(pin: Mapping[str, Any], version: str) -> str:
    """A bounded pin to a version as a requirement, in the form that rattler-build writes.

    The pin has a ``name``, and optionally ``lower_bound``, ``upper_bound`` (``x.x``, or a version)
    and ``build``.
    """
    from rattler import Version  # a plan from cached outputs does not need this import

    parsed, bounds = Version(version), []
    for sign, bound in ((">=", pin.get("lower_bound")), ("<", pin.get("upper_bound"))):
        if bound and set(bound) <= {"x", "."}:  # a number of segments
            segments = bound.count("x")
            counted = parsed.with_segments(0, min(segments, parsed.segment_count))
            if (
                sign == "<"
            ):  # the first version, pre-releases included, that differs in these segments
                counted = counted.bump_segment(segments - 1).with_alpha().remove_local()
            bound = str(counted)
        if bound:
            bounds.append(f"{sign}{bound}")
    return " ".join(part for part in (pin["name"], ",".join(bounds), pin.get("build")) if part)


def _sources(sources: Iterable[Any]) -> Iterator[Source]:
    for source in sources:
        match = _ARTEFACT.search(str(source.get("path", ""))) if isinstance(source, dict) else None
        if match:
            parts = match.groupdict(default="")
            yield Source(**parts, folder=source.get("target_directory") or "")
