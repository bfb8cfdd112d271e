"""Recipes, read and rendered with stock rattler-build: nothing of ours stands between a recipe and its outputs."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import rattler_build
from pydantic import TypeAdapter, ValidationError

from ctk.core.checkout import git, workspace
from ctk.core.errors import RecipeError
from ctk.core.files import file_sha256, make_folder, replace_file
from ctk.core.platforms import NOARCH, this_platform

_SHARED = re.compile(r"\bfile:\s*(\.\./[^\s,}]+)")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
# The value on the line of its key, or a list of values below it.
_CONDITION = re.compile(r"^[ \t]*(?:-[ \t]*)?(?:if|skip):(.*(?:\n[ \t]*(?:-.*|#.*)?$)*)", re.MULTILINE)
# Within braces a condition ends at a comma, unless it is in quotes.
_FLOW_CONDITION = re.compile(r"[{,]\s*(?:if|skip):\s*('[^'\n]*'|\"[^\"\n]*\"|\[[^]\n]*\]|[^,}\n]*)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAME = re.compile(r"\b[a-z_][a-z0-9_]*\b")
_ASKED = re.compile(r"\b([a-z_][a-z0-9_]*) is defined\b")
_ARTEFACT = re.compile(r"\.cache/artefacts/(?P<component>[^/]+)/(?P<version>[^/]+)/(?P<target>[^/]+)\.zip$")


@dataclass(frozen=True)
class Recipe:
    """One feedstock folder."""

    name: str
    folder: Path
    commit: str | None = None  # the last one that touched it, where a checkout is not there to ask (`recipe_commit`)

    @property
    def file(self) -> Path:
        return self.folder / "recipe.yaml"

    @cached_property
    def _text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def names_used(self) -> frozenset[str]:
        """Every identifier in the recipe's expressions and conditions: variant keys are among them."""
        found = (*_CONDITION.findall(self._text), *_FLOW_CONDITION.findall(self._text))
        conditions = (_COMMENT.sub("", condition) for condition in found)
        code = (*_EXPRESSION.findall(self._text), *conditions)
        return frozenset(name for part in code for name in _NAME.findall(part))

    @cached_property
    def names_needed(self) -> frozenset[str]:
        """Those of `names_used` without which it does not render: not what a condition asks ``is defined`` of."""
        return self.names_used - set(_ASKED.findall(self._text))

    @cached_property
    def _stage0(self) -> Mapping[str, Any]:
        """The recipe as rattler-build reads it, expressions unrendered."""
        stage0: dict[str, Any] = _parse(self.file).to_dict()
        return stage0

    @property
    def components(self) -> frozenset[str]:
        """The components whose artefacts its sources are."""
        return frozenset(re.findall(r"\.cache/artefacts/([\w-]+)/", self._text))

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of all outputs, unrendered."""
        outputs = self._stage0.get("outputs") or [self._stage0]
        return tuple(str(output["package"]["name"]) for output in outputs if "package" in output)

    @cached_property
    def skip_conditions(self) -> Mapping[str, str]:
        """Output name (unrendered) -> the condition under which the recipe leaves it out."""
        found = {}
        for output in self._stage0.get("outputs") or [self._stage0]:
            skip = (output.get("build") or {}).get("skip") or (self._stage0.get("build") or {}).get("skip")
            if "package" in output and skip:
                found[str(output["package"]["name"])] = " or ".join(map(str, _as_list(skip)))
        return found

    def shared_folders(self) -> frozenset[Path]:
        """The folders elsewhere that have a script of this recipe, there or not."""
        return frozenset((self.folder / name).resolve().parent for name in _SHARED.findall(self._text))

    def files(self) -> Iterator[Path]:
        """Every file that can change what this recipe builds, in a fixed order; shared folders count."""
        for folder in (self.folder, *sorted(s for s in self.shared_folders() if s.is_dir())):
            yield from sorted(p for p in folder.rglob("*") if p.is_file())


def find_recipes(folder: Path) -> dict[str, Recipe]:
    """Every feedstock below a folder, by name."""
    return {p.parent.name: Recipe(p.parent.name, p.parent) for p in sorted(folder.glob("*/recipe.yaml"))}


def makers_of(package: str, recipes: Mapping[str, Recipe]) -> list[str]:
    """Names of the recipes that make a package of this name; an expression in an output's name stands for any text."""

    def makes(output: str) -> bool:
        pattern = ".+".join(map(re.escape, re.split(r"\$\{\{.*?\}\}", output)))
        return re.fullmatch(pattern, package) is not None

    return [name for name, recipe in recipes.items() if any(map(makes, recipe.output_names))]


def maker_of(package: str, recipes: Mapping[str, Recipe]) -> str | None:
    """The first of `makers_of`, or None."""
    return next(iter(makers_of(package, recipes)), None)


# --- rendering


@dataclass(frozen=True)
class Source:
    """What a rendered recipe reads: one artefact, by the three parts of its predictable path."""

    component: str
    version: str
    target: str
    folder: str = ""  # below the work folder


@dataclass(frozen=True)
class Script:
    """A script of a rendered recipe: its file, by a path from the recipe's folder, and what it finds in variables."""

    file: str
    env: Mapping[str, str]


@dataclass(frozen=True)
class Rendered:
    """One output of a recipe for one variant: all of its package's metadata that is known before a build."""

    name: str
    version: str
    build_string: str
    build_number: int
    subdir: str  # ``noarch`` or the platform's subdir
    noarch: str  # kind of a noarch package (``generic`` or ``python``), or ""
    track_features: tuple[str, ...]  # names that make solvers take the package last
    license: str  # as an SPDX expression, or ""
    variant: Mapping[str, str]  # the variant keys that this output uses
    depends: tuple[str, ...]  # as the package will state them: pins to other outputs of the recipe are resolved
    constrains: tuple[str, ...]
    run_exports: Mapping[str, tuple[str, ...]]  # kind (``weak``, ``strong_constrains`` ...) -> requirements
    environment: tuple[str, ...]  # what is installed to build it; its run exports are not in `depends`
    sources: tuple[Source, ...]  # the artefacts that it reads
    files: tuple[str, ...] = ()  # globs of the files that it takes, all if there is none
    left_files: tuple[str, ...] = ()  # globs of those that it leaves
    scripts: tuple[Script, ...] = ()  # the files that make its files: that of the tree it inherits, then its own
    contents: tuple[str, ...] = ()  # globs of its package_contents tests
    absent: tuple[str, ...] = ()  # those that shall match nothing
    may_edit: bool = False  # whether rattler-build may edit binaries, or a script that is in no file

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}-{self.build_string}.conda"


_OUTPUTS = TypeAdapter(list[Rendered])


def render(recipe: Recipe, variant_files: Sequence[Path], subdir: str) -> list[Rendered]:
    """The outputs of a recipe for one platform, every variant of them; skipped ones are absent.

    They are kept by the content of what they come from: rendering all recipes for all releases takes minutes. Only
    plans read that; a build renders its recipe itself, so nothing here can reach a package.
    """
    digest = hashlib.sha256(_renderer() + subdir.encode())
    for file in (recipe.file, *variant_files):
        # rattler-build takes the file's name into account; hashing fails here as rendering would.
        digest.update(f"{file.name}\0{file_sha256(file)}".encode())
    path = workspace().cache / "rendered" / f"{digest.hexdigest()[:32]}.json"
    with suppress(OSError, ValidationError):  # not there, or cut short
        return _kept(path)
    outputs = rendered_outputs(render_variants(recipe, variant_files, subdir), subdir)
    with suppress(OSError):  # a cache that cannot be written is none
        make_folder(path.parent)
        replace_file(path, _OUTPUTS.dump_json(outputs))
    return outputs


@lru_cache(maxsize=1024)
def _kept(path: Path) -> list[Rendered]:
    return _OUTPUTS.validate_json(path.read_bytes())


@cache
def _renderer() -> bytes:
    """What turns a recipe into outputs: rattler-build, and our reading of what it rendered."""
    tools = f"{rattler_build.rattler_build_version()} {this_platform()}".encode()
    return hashlib.sha256(tools + Path(__file__).read_bytes()).digest()


def render_variants(
    recipe: Recipe, variant_files: Sequence[Path], subdir: str, narrow: Mapping[str, str] | None = None
) -> list[Any]:
    """rattler-build's own rendered variants of a recipe.

    Later variant files take precedence; each key in `narrow` is fixed to one value, and keys zipped with it are fixed
    along. A `RecipeError` has rattler-build's own message.
    """
    variants = _variants(tuple(map(_as_of, variant_files)), subdir)
    if narrow:
        variants = variants.merge(_narrowed(variants, narrow))
    try:
        return list(_parse(recipe.file).render(variants, rattler_build.RenderConfig(platform=platform_config(subdir))))
    except Exception as error:
        raise RecipeError(
            f"recipe {recipe.name} does not render for {subdir} with {variant_files[-1].name}: {error}",
            "check the keys that the recipe names against the variant file",
        ) from error


def variant_values(
    recipe: Recipe, variant_files: Sequence[Path], subdir: str, outputs: Iterable[Rendered]
) -> dict[str, tuple[str, ...]]:
    """Every variant key that a recipe can see -> its values: with them alone, it renders to the same outputs.

    Of the keys that its outputs use, the values are those that they have.
    """
    variants = _variants(tuple(map(_as_of, variant_files)), subdir)
    used: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        for key, value in output.variant.items():
            used[key].add(str(value))
    found = {}
    for key in sorted(recipe.names_used | used.keys() - {"target_platform"}):
        values = variants.get_values(key)  # None for what is no key: names of packages, functions, exact pins
        if values:
            found[key] = tuple(sorted(used.get(key) or map(str, values)))
    return found


def platform_config(subdir: str) -> rattler_build.PlatformConfig:
    """Cross rendering for a subdir; `staging` outputs are still behind rattler-build's experimental switch."""
    return rattler_build.PlatformConfig(
        target_platform=subdir, build_platform=this_platform(), host_platform=subdir, experimental=True
    )


def _as_of(file: Path) -> tuple[Path, bytes]:
    """A file and its content, to remember what was read of it: a lint, a test or an editor may write it again."""
    try:
        return file, hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return file, b""  # whoever reads it says what is wrong


@lru_cache(maxsize=256)
def _variants(states: tuple[tuple[Path, bytes], ...], subdir: str) -> rattler_build.VariantConfig:
    files = [file for file, _ in states]
    config = rattler_build.JinjaConfig(platform=platform_config(subdir))
    try:
        return rattler_build.VariantConfig.from_files_with_context([*files], config)
    except Exception as error:  # whatever its parser says
        names = " or ".join(file.name for file in files)
        raise RecipeError(f"rattler-build does not read {names}: {error}", "ctk lint says where") from error


def _parse(file: Path) -> Any:
    return _parsed_as_of(_as_of(file))


@lru_cache(maxsize=256)
def _parsed_as_of(state: tuple[Path, bytes]) -> Any:
    file, _ = state
    try:
        return rattler_build.Stage0Recipe.from_file(file)
    except Exception as error:
        raise RecipeError(f"{file.parent.name}/recipe.yaml: {error}", "mend the recipe") from error


def _narrowed(variants: rattler_build.VariantConfig, narrow: Mapping[str, str]) -> rattler_build.VariantConfig:
    fixed: dict[str, list[str]] = {}
    groups = variants.zip_keys or []
    for key, value in narrow.items():
        values = variants.get_values(key) or []
        if value not in values:
            raise RecipeError(f"{value!r} is no value of the variant key {key!r}", f"it has {', '.join(values)}")
        group = next((g for g in groups if key in g), [key])
        for other in group:
            fixed[other] = [(variants.get_values(other) or [])[values.index(value)]]
    return rattler_build.VariantConfig(fixed)


# --- what was rendered

# The kinds of run exports: as recipes name them -> as packages do.
_EXPORTS = {
    **{kind: kind for kind in ("weak", "strong", "noarch")},
    **{f"{kind}_constraints": f"{kind}_constrains" for kind in ("weak", "strong")},
}


def rendered_outputs(
    variants: Sequence[Any], subdir: str, hosts: Sequence[Mapping[str, str] | None] = ()
) -> list[Rendered]:
    """The outputs among all of rattler-build's rendered variants of one recipe; outputs may be pinned to each other.

    Args:
        variants: As `render_variants` gives them.
        subdir: The platform.
        hosts: Of each variant, name -> version and build of what is in its host environment, for ``pin_compatible``;
            None leaves its output out.

    Raises:
        RecipeError: For a pin to something that is no output of the recipe in that variant, and not in the environment.
    """
    recipes = [v.recipe.to_dict() for v in variants]
    outputs = []
    for variant, recipe, host in zip(variants, recipes, hosts or [{}] * len(variants), strict=True):
        if host is None:
            continue
        # Exact pins decide the output's hash, so rattler-build says at rendering what they are. For the others the
        # version is enough, and any output of that name in the same variant has it.
        exact = {n: f"{pin.version} {pin.build_string}" for n, pin in variant.pin_subpackages.items() if pin.exact}
        versions = {
            other["package"]["name"]: str(other["package"]["version"])
            for one, other in zip(variants, recipes, strict=True)
            if agree(variant.variant, one.variant)
        }
        outputs.append(_rendered(recipe, variant.variant, subdir, exact, versions, host))
    return outputs


def _rendered(
    recipe: Mapping[str, Any],
    variant: Mapping[str, str],
    subdir: str,
    exact: Mapping[str, str],
    versions: Mapping[str, str],
    host: Mapping[str, str],
) -> Rendered:
    name = str(recipe["package"]["name"])

    def resolved(requirements: Iterable[Any] | None) -> tuple[str, ...]:
        """Requirements as the package will state them, each once."""
        pins = (r if isinstance(r, str) else _resolved_pin(name, r, exact, versions, host) for r in requirements or ())
        return tuple(dict.fromkeys(pins))

    build, requirements = recipe["build"], recipe.get("requirements") or {}
    caches = recipe.get("staging_caches") or ()
    level = abs((build.get("variant") or {}).get("down_prioritize_variant") or 0)
    files = build.get("files") or {}
    globs = files if isinstance(files, dict) else {"include": files}
    relocates = (build.get("dynamic_linking") or {}).get("binary_relocation") is not False
    scripts = [part.get("build", {}).get("script") for part in (*caches, recipe)]
    parts = [test["package_contents"].get("files") for test in recipe.get("tests") or () if "package_contents" in test]
    tests = [part if isinstance(part, dict) else {"exists": part} for part in parts]
    environments = [requirements, *(cache.get("requirements") or {} for cache in caches)]
    return Rendered(
        name=name,
        version=str(recipe["package"]["version"]),
        build_string=build["string"],
        build_number=build.get("number") or 0,
        subdir=NOARCH if build.get("noarch") else subdir,
        noarch=build.get("noarch") or "",
        # rattler-build names them after the package, one for each level.
        track_features=tuple(f"{name}-p-{i}" for i in range(level)),
        license=(recipe.get("about") or {}).get("license") or "",
        variant=dict(variant),
        depends=resolved(requirements.get("run")),
        constrains=resolved(requirements.get("run_constraints")),
        run_exports={_EXPORTS[k]: resolved(specs) for k, specs in (requirements.get("run_exports") or {}).items()},
        environment=tuple(str(spec) for e in environments for kind in ("build", "host") for spec in e.get(kind) or ()),
        sources=tuple(_sources(s for part in (recipe, *caches) for s in _as_list(part.get("source")))),
        files=tuple(_as_list(globs.get("include"))),
        left_files=tuple(_as_list(globs.get("exclude"))),
        scripts=tuple(
            Script(script["file"], dict(script.get("env") or {}))
            for script in scripts
            if isinstance(script, Mapping) and "file" in script  # it may also be lines of a shell
        ),
        contents=tuple(glob for test in tests for glob in _as_list(test.get("exists"))),
        absent=tuple(glob for test in tests for glob in _as_list(test.get("not_exists"))),
        may_edit=any(
            script and (relocates or not isinstance(script, Mapping) or "file" not in script) for script in scripts
        ),
    )


def _resolved_pin(
    output: str,
    requirement: Mapping[str, Any],
    exact: Mapping[str, str],
    versions: Mapping[str, str],
    host: Mapping[str, str],
) -> str:
    ((kind, pin),) = requirement.items()
    known = host if kind == "pin_compatible" else exact if pin.get("exact") else versions
    if pin["name"] not in known:
        raise RecipeError(
            f"output {output} has a {kind} on {pin['name']}, which only a build could resolve",
            "pin to another output of the recipe that exists in the same variant",
        )
    return f"{pin['name']} =={known[pin['name']]}" if pin.get("exact") else pinned(pin, known[pin["name"]].split()[0])


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two outputs can belong to the same variant. The platform of a noarch output is another one."""
    return all(one[key] == other[key] for key in one.keys() & other.keys() if key != "target_platform")


def pinned(pin: Mapping[str, Any], version: str) -> str:
    """A bounded pin to an output of this version as a requirement, the way rattler-build writes it.

    The pin has a ``name``, and where given ``lower_bound``, ``upper_bound`` (``x.x``, or a version) and ``build``.
    """
    from rattler import Version  # planning from what is kept does without it

    parsed, bounds = Version(version), []
    for sign, bound in ((">=", pin.get("lower_bound")), ("<", pin.get("upper_bound"))):
        if bound and set(bound) <= {"x", "."}:  # an expression, which counts segments
            segments = bound.count("x")
            counted = parsed.with_segments(0, min(segments, parsed.segment_count))
            if sign == "<":  # the first version, pre-releases included, that differs in these segments
                counted = counted.bump_segment(segments - 1).with_alpha().remove_local()
            bound = str(counted)
        if bound:
            bounds.append(f"{sign}{bound}")
    return " ".join(part for part in (pin["name"], ",".join(bounds), pin.get("build")) if part)


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _sources(sources: Iterable[Any]) -> Iterator[Source]:
    for source in sources:
        match = _ARTEFACT.search(str(source.get("path", ""))) if isinstance(source, dict) else None
        if match:
            yield Source(**match.groupdict(), folder=source.get("target_directory") or "")


def recipe_digest(recipe: Recipe) -> str:
    """sha256 over the names and contents of a recipe's files, wherever the checkout lies."""
    digest = hashlib.sha256()
    for file in recipe.files():
        name = os.path.relpath(file, recipe.folder)
        digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\1".encode())
    return digest.hexdigest()


def recipe_commit(recipe: Recipe) -> str:
    """The last commit that touched a recipe's files.

    "" outside a git checkout, with changes that are not committed, and in a shallow clone that does not reach back to
    that commit: a wrong commit would be worse than none.
    """
    if recipe.commit is not None:
        return recipe.commit
    return _commit(recipe.folder.resolve(), tuple(f.resolve() for f in recipe.files()))


@lru_cache
def _commit(folder: Path, files: tuple[Path, ...]) -> str:
    names = [os.path.relpath(f, folder) for f in files]
    status = git(folder, "status", "--porcelain", "--branch", "--", *names)
    if len(status.splitlines()) != 1:  # the branch, and no changed file
        return ""
    commit = git(folder, "log", "-1", "--format=%H", "--", *names)
    return "" if commit in _shallow(folder) else commit


@lru_cache
def _shallow(folder: Path) -> frozenset[str]:
    """The commits at which a shallow clone ends; git shows all files as added in them."""
    place = git(folder, "rev-parse", "--git-path", "shallow")
    file = folder / place if place else None
    return frozenset(file.read_text(encoding="ascii").split()) if file and file.is_file() else frozenset()
