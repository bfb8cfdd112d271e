"""Recipes: reads and renders them with stock rattler-build, without any preprocessing."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import rattler_build
from pydantic import TypeAdapter

from ctk.core.checkout import workspace
from ctk.core.console import listing
from ctk.core.document import as_list
from ctk.core.errors import RecipeError
from ctk.core.files import (
    file_sha256,
    make_folder,
    open_plain,
    read_plain,
    read_plain_text,
    replace_file,
)
from ctk.core.memo import Memo, memo
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.similar import nearest
from ctk.lock.derived import KINDS
from ctk.plan.commits import last_commit
from ctk.plan.messages import MISSING_OUTPUT, message_of, shown, uneven_zip

_SHARED = re.compile(r"\bfile:\s*(\.\./[^\s,}]+)")
_OWN_SOURCE = re.compile(r"\bpath:\s*\.\./\.\./(?!\.cache/)([\w./-]+)")
"""A source of a recipe that is a part of the checkout, by its path there."""
SOURCES_KEY = "own_sources"
"""The variant key of `source_variants`, which such a recipe names in its `use_keys`."""
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_read = rattler_build.Stage0Recipe.from_file
_ZIP = ","  # between zipped keys, and between their values, which have none
_NAME = re.compile(r"\b[a-z_][a-z0-9_]*\b")
_DEFINED = re.compile(r"\b([a-z_][a-z0-9_]*) is defined\b")
_READS = re.compile(
    r"\.cache/artefacts/([\w-]+?)(?:-cu\$\{\{ *cuda_major *\}\})?/"
    # Nothing of the artefact but names is in what is made of it.
    rf"(?!.*-(?:{'|'.join(KINDS)})\.zip)"
)
_ARTEFACT = re.compile(
    r"\.cache/artefacts/(?P<component>[^/]+)/(?P<version>[^/]+)/(?P<target>[^/]+?)"
    rf"(-(?P<made>{'|'.join(KINDS)}))?\.zip$"
)


@dataclass(frozen=True)
class Recipe:
    """A feedstock folder."""

    name: str
    folder: Path
    commit: str | None = (
        None  # the last commit that changed it, if known without a checkout (`recipe_commit`)
    )

    @property
    def file(self) -> Path:
        return self.folder / "recipe.yaml"

    @cached_property
    def names_used(self) -> frozenset[str]:
        """The identifiers in the recipe's expressions and conditions, with its variant keys."""
        return frozenset(name for part in self._code for name in _NAME.findall(part))

    @cached_property
    def names_needed(self) -> frozenset[str]:
        """`names_used` without the names that a condition tests with ``is defined``."""
        return self.names_used - {name for part in self._code for name in _DEFINED.findall(part)}

    @cached_property
    def _code(self) -> tuple[str, ...]:
        return tuple(_code(self._stage0))

    @cached_property
    def _stage0(self) -> Mapping[str, Any]:
        """The recipe as rattler-build parses it, with unrendered expressions."""
        stage0: dict[str, Any] = _parse(self.file).to_dict()
        return stage0

    @property
    def output_names(self) -> tuple[str, ...]:
        """Unrendered names of all outputs."""
        outputs = self._stage0.get("outputs") or [self._stage0]
        return tuple(str(output["package"]["name"]) for output in outputs if "package" in output)

    @cached_property
    def skip_conditions(self) -> Mapping[str, str]:
        """Unrendered output name -> the condition under which the recipe skips the output."""
        found = {}
        for output in self._stage0.get("outputs") or [self._stage0]:
            skip = (output.get("build") or {}).get("skip") or (self._stage0.get("build") or {}).get(
                "skip"
            )
            if "package" in output and skip:
                found[str(output["package"]["name"])] = " or ".join(map(str, as_list(skip)))
        return found

    @cached_property
    def components(self) -> tuple[str, ...]:
        """The components whose artefacts it reads, without a CUDA major, in the file's order."""
        text = read_plain_text(self.file)
        return tuple(dict.fromkeys(_READS.findall(text)))

    def shared_folders(self) -> frozenset[Path]:
        """Other folders that the recipe takes scripts from; they may not exist."""
        text = read_plain_text(self.file)
        return frozenset((self.folder / name).resolve().parent for name in _SHARED.findall(text))

    @cached_property
    def own_sources(self) -> tuple[str, ...]:
        """The parts of the checkout that are sources of the recipe, by their paths there."""
        return tuple(_OWN_SOURCE.findall(read_plain_text(self.file)))

    def files(self) -> Iterator[Path]:
        """The files that can change the recipe's packages, also shared ones, in a fixed order."""
        yield from self._files

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        places = [self.folder, *sorted(self.shared_folders())]
        places += [self.folder.parents[1] / place for place in self.own_sources]
        found: list[Path] = []
        for place in places:
            found += sorted(_files_of(place))
        return tuple(found)


def _files_of(place: Path) -> Iterator[Path]:
    """A file, or the files below a folder, without what Python makes when it runs."""
    if place.is_file():
        yield place
    for file in place.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _code(part: Any) -> Iterator[str]:
    """The expressions and conditions in a part of an unrendered recipe."""
    if isinstance(part, str):
        yield from _EXPRESSION.findall(part)
    elif isinstance(part, list):
        for item in part:
            yield from _code(item)
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key in ("if", "skip"):
                yield from map(str, as_list(value))
            yield from _code(value)


def find_recipes(folder: Path) -> dict[str, Recipe]:
    """The feedstocks in a folder, by name."""
    return {
        p.parent.name: Recipe(p.parent.name, p.parent) for p in sorted(folder.glob("*/recipe.yaml"))
    }


def makers_of(package: str, recipes: Mapping[str, Recipe]) -> list[str]:
    """Names of the recipes that make a package.

    An expression in an output's name stands for any text.
    """
    return [
        name
        for name, recipe in recipes.items()
        if any(is_output(package, output) for output in recipe.output_names)
    ]


def is_output(package: str, output: str) -> bool:
    """Whether a package can be an output with an unrendered name.

    An expression in the name stands for any text.
    """
    pattern = ".+".join(map(re.escape, re.split(r"\$\{\{.*?\}\}", output)))
    return re.fullmatch(pattern, package) is not None


def maker_of(package: str, recipes: Mapping[str, Recipe]) -> str | None:
    """The first of `makers_of`, or None."""
    return next(iter(makers_of(package, recipes)), None)


# --- rendering


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


_OUTPUTS = TypeAdapter(list[Rendered])


def render(recipe: Recipe, variant_files: Sequence[Path], subdir: str) -> list[Rendered]:
    """The outputs of a recipe for one platform, in each variant, without skipped outputs.

    They are cached by the content of recipe and variant files, since rendering all recipes for all
    releases takes minutes. Only plans use this; a build renders its recipe again, so the cache
    cannot change a package.
    """
    digest = hashlib.sha256(renderer() + subdir.encode())
    for file in (recipe.file, *variant_files):
        # rattler-build takes the file's name into account; hashing fails here as rendering would.
        digest.update(f"{file.name}\0{file_sha256(file)}".encode())
    note = memo(workspace().notes / "rendered", digest.hexdigest(), _OUTPUTS)
    return _outputs(note, recipe, tuple(variant_files), subdir)


@lru_cache(maxsize=1024)
def _outputs(
    note: Memo[list[Rendered]], recipe: Recipe, variant_files: tuple[Path, ...], subdir: str
) -> list[Rendered]:
    return note.get(
        lambda: rendered_outputs(render_variants(recipe, variant_files, subdir), subdir)
    )


@cache
def renderer() -> bytes:
    """A digest of rattler-build's version and of this module: both decide how a recipe renders."""
    tools = f"{rattler_build.rattler_build_version()} {this_platform()}".encode()
    return hashlib.sha256(tools + Path(__file__).read_bytes()).digest()


def render_variants(recipe: Recipe, variant_files: Sequence[Path], subdir: str) -> list[Any]:
    """The rendered variants of a recipe, as rattler-build has them.

    Later variant files take precedence.

    Raises:
        RecipeError: The recipe does not render, with rattler-build's message.
    """
    variants = read_variants(variant_files, subdir)
    config = rattler_build.RenderConfig(platform=platform_config(subdir))
    parsed = _parse(recipe.file)
    try:
        return list(parsed.render(variants, config))
    except Exception as error:
        if "InvalidZipKeyLength" in str(error):
            said = uneven_zip(
                variant_files,
                variants.zip_keys or (),
                lambda key: len(variants.get_values(key) or ()),
            )
            raise RecipeError(said, "give each key of a zip as many values") from error
        said = message_of(recipe.file, error)
        used = listing([shown(file) for file in variant_files])
        step = (
            "correct it; a name in it is a key of these variant files, or of the recipe's context"
        )
        if pin := MISSING_OUTPUT.search(str(error)):
            step = _other_output(pin[1], recipe.output_names)
        said += f"\n  (recipe {recipe.name} for {subdir}, with the variants of {used})"
        raise RecipeError(said, step) from error


def variant_values(
    recipe: Recipe, variant_files: Sequence[Path], subdir: str, outputs: Iterable[Rendered]
) -> dict[str, tuple[str, ...]]:
    """Every variant key that a recipe can see -> its values.

    With them alone, it renders to the same outputs.

    Of the keys that its outputs use, the values are those that they have. Zipped keys that have
    more than one row are one entry: ``cuda_fit,fit_number`` -> ``compat,0`` and ``native,100``;
    `variant_config` takes them apart.
    """
    variants = read_variants(variant_files, subdir)
    used: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        for key, value in output.variant.items():
            used[key].add(str(value))
    found = {}
    for key in sorted(recipe.names_used | used.keys() - {"target_platform"}):
        # None for a name that is not a key: a package, a function, an exact pin.
        values = variants.get_values(key)
        if values:
            found[key] = tuple(sorted(used.get(key) or map(str, values)))
    for group in variants.zip_keys or []:
        keys = [key for key in group if key in found]
        columns = [map(str, variants.get_values(key) or ()) for key in keys]
        rows = {
            row
            for row in zip(*columns, strict=True)
            if all(v in found[k] for k, v in zip(keys, row, strict=True))
        }
        if len(rows) == 1:
            found |= {key: (value,) for key, value in zip(keys, *rows, strict=True)}
        elif len(keys) > 1:
            found = {key: values for key, values in found.items() if key not in keys}
            found[_ZIP.join(keys)] = tuple(sorted(map(_ZIP.join, rows)))
    return found


def variant_config(values: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The content of a variant file that has the keys and values of `variant_values`."""
    config: dict[str, Any] = {}
    zips = []
    for name, entries in values.items():
        keys = name.split(_ZIP)
        rows = [entry.split(_ZIP) if len(keys) > 1 else [entry] for entry in entries]
        config |= {
            key: list(column) for key, column in zip(keys, zip(*rows, strict=True), strict=True)
        }
        if len(keys) > 1:
            zips.append(keys)
    return config | ({"zip_keys": zips} if zips else {})


def platform_config(subdir: str) -> rattler_build.PlatformConfig:
    """Settings that render for a subdir.

    `staging` outputs still need rattler-build's experimental switch.
    """
    return rattler_build.PlatformConfig(
        target_platform=subdir,
        build_platform=this_platform(),
        host_platform=subdir,
        experimental=True,
    )


def read_variants(files: Sequence[Path], subdir: str) -> rattler_build.VariantConfig:
    """The keys, values and zips of variant files; later files take precedence.

    Raises:
        RecipeError: A file cannot be read.
    """
    return _variants_at(
        tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in files), subdir
    )


@lru_cache(maxsize=256)  # each build of a plan asks for its own
def _variants_at(states: tuple[tuple[Path, int], ...], subdir: str) -> rattler_build.VariantConfig:
    """The variants of files as they are at these times."""
    config = rattler_build.JinjaConfig(platform=platform_config(subdir))
    read = partial(rattler_build.VariantConfig.from_files_with_context, jinja_config=config)
    try:
        return read([file for file, _ in states])
    except Exception as error:  # its parser has several kinds, and does not say which file
        for file, _ in states:
            try:
                read([file])
            except Exception as own:
                said = message_of(file, own)
                step = "correct it: a variant file has keys, each with a list"
                raise RecipeError(said, step) from error
        raise RecipeError(
            f"{listing([str(f) for f, _ in states])}: {error}", "compare their keys"
        ) from error


def _parse(file: Path) -> Any:
    with suppress(IsADirectoryError), open_plain(file):
        pass  # rattler-build would wait for a pipe
    try:
        return _read(file)
    except Exception as error:
        raise RecipeError(
            message_of(file, error), "correct it, and run the command again"
        ) from error


# --- rendered outputs

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
        raise RecipeError(cause, _other_output("", known))
    if pin["name"] not in known:
        cause = (
            f"output {output} has a {kind}, and no output is named {pin['name']} in this variant"
        )
        raise RecipeError(cause, _other_output(pin["name"], known))
    return (
        f"{pin['name']} =={known[pin['name']]}"
        if pin.get("exact")
        else pinned(pin, known[pin["name"]])
    )


def _other_output(name: str, outputs: Iterable[str]) -> str:
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


def recipe_digest(recipe: Recipe) -> str:
    """sha256 of the names and contents of a recipe's files, independent of the checkout's path."""
    digest = hashlib.sha256()
    for file in recipe.files():
        name = os.path.relpath(file, recipe.folder)
        digest.update(f"{name}\0{hashlib.sha256(read_plain(file)).hexdigest()}\1".encode())
    return digest.hexdigest()


def source_variants(recipe: Recipe) -> Path:
    """A variant file that gives the packages of a recipe with `own_sources` a name of their own.

    Their version stays while the sources change, and a published name is never reused. So one key
    stands for all that differs between two packages: the sources, and the commit in the SBOM.
    """
    stated = f"{recipe_digest(recipe)} {recipe_commit(recipe)}"
    digest = hashlib.sha256(stated.encode()).hexdigest()[:16]
    file = workspace().notes / "sources" / f"{digest}.yaml"
    if not file.is_file():
        make_folder(file.parent)
        replace_file(file, f'{SOURCES_KEY}: ["{digest}"]\n'.encode())
    return file


def recipe_commit(recipe: Recipe) -> str:
    """The last commit that changed a recipe's files.

    "" outside a git checkout, with uncommitted changes, and in a shallow clone without that commit,
    since a wrong commit would be worse than none.
    """
    if recipe.commit is not None:
        return recipe.commit
    return last_commit(recipe.folder.parent, tuple(recipe.files()))
