"""Reads what is asked of `ctk build-recipe`: a recipe, its variants, and the builds to make.

`order` is the entry. It renders the recipe with its variant files against the channels, takes what
--cuda and --python choose, leaves out what the channels cannot serve, and refuses what
rattler-build would accept or explain badly. Nothing is built here: `run` builds an `Order`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rattler_build

from ctk.core.console import listing
from ctk.core.document import as_list, load_yaml
from ctk.core.errors import BadValue, RecipeError, UnknownName
from ctk.core.files import read_plain_text
from ctk.core.similar import nearest
from ctk.core.versions import version_key
from ctk.plan.messages import SELECTOR, message_at, shown
from ctk.plan.recipes import Recipe
from ctk.plan.render import render_variants
from ctk.plan.variants import read_variants
from ctk.solve.solve import Catalogue, older, parse_spec

CUDA_KEYS = ("cuda_version", "cuda_compiler_version")
"""The variant keys with the toolkit of a build.

On conda-forge, the second is ``None`` for a CPU build.
"""
WRITE_TOOLKIT = "write cuda-version ${{ cuda_version }}.* in host"
_NVCC = re.compile(r"""compiler\(["']cuda["']\)|^\s*- cuda-nvcc""", re.M)
_COMPILER = re.compile(r"[a-z]+_compiler(_version)?")  # the variant keys of `compiler()`
_VARIANT_FILES = ("conda_build_config.yaml", "variants.yaml")


@dataclass(frozen=True)
class Variant:
    """A rendered build of a recipe."""

    name: str  # of the package
    build: str
    values: Mapping[str, str]  # variant key -> value, for the keys that it uses
    content: Mapping[str, Any]  # the rendered recipe

    @classmethod
    def of(cls, rendered: Any) -> Variant:
        """The build that rattler-build has rendered."""
        content = rendered.recipe.to_dict()
        name = str(content["package"]["name"])
        return cls(name, content["build"]["string"], dict(rendered.variant), content)

    @property
    def id(self) -> str:
        return f"{self.name}-{self.content['package']['version']}-{self.build}"

    @property
    def cuda_key(self) -> str:
        """The variant key with its toolkit; "" if it uses none."""
        return next((key for key in CUDA_KEYS if key in self.values), "")

    @property
    def toolkit(self) -> str:
        """The toolkit of its variant, ``13.0``; "" if that names none."""
        value = self.values.get(self.cuda_key, "")
        return "" if value == "None" else value

    def specs(self, section: str, own: Collection[str] = ()) -> list[str]:
        """The specs of its build or host environment, without packages of the same recipe.

        As rattler-build does it, a name alone gets the version of its variant key.

        Args:
            section: ``build`` or ``host``.
            own: The packages of the recipe.
        """
        found = []
        for part in _parts(self.content):
            for spec in (part.get("requirements") or {}).get(section) or ():
                if not isinstance(spec, str):  # a pin on another output
                    continue
                parsed = parse_spec(spec)
                if parsed.name in own:
                    continue
                value = self.values.get(parsed.name.replace("-", "_"), "")
                if parsed.pinned or not value:
                    found.append(spec.rstrip())
                elif re.fullmatch("[0-9A-Za-z._]+", value):
                    found.append(f"{spec}={value}")
                else:
                    found.append(f"{spec} {value}".rstrip())
        return found


@dataclass(frozen=True)
class Order:
    """The builds to make.

    Attributes:
        recipe: The recipe.
        files: Variant files, in rising precedence.
        variants: Its builds, in rattler-build's order: an output comes after the outputs that it
            needs.
        notes: A sentence about each kind of build that is left out.
    """

    recipe: Recipe
    files: tuple[Path, ...]
    variants: tuple[Variant, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        """The packages that it makes."""
        return {variant.name for variant in self.variants}


def recipe_in(place: Path) -> Recipe:
    """The recipe of a folder, of a feedstock, or of a ``recipe.yaml``.

    Raises:
        UnknownName: There is no recipe, or a recipe for conda-build.
    """
    folders = [place, place / "recipe"]
    if place.name in ("recipe.yaml", "meta.yaml"):
        folders = [place.parent]
    for folder in folders:
        if (folder / "recipe.yaml").is_file():
            folder = folder.resolve()
            named = folder.parent if folder.name == "recipe" else folder
            return Recipe(named.name, folder)
    if any((folder / "meta.yaml").is_file() for folder in folders):
        raise UnknownName(
            f"{place} has a recipe for conda-build, meta.yaml, and no recipe.yaml",
            "write it as a recipe.yaml (the v1 format), as docs/recipe-authors.md shows, or convert"
            " it with conda-recipe-manager, which is on conda-forge and was not tried here",
        )
    raise UnknownName(
        f"there is no recipe in {place}",
        "name a recipe.yaml (the v1 format), or the folder that has it",
    )


def variant_files(recipe: Recipe, build_config: Path) -> list[Path]:
    """The variant file that all recipes of a checkout share, then the recipe's own."""
    candidates = [build_config, *(recipe.folder / name for name in _VARIANT_FILES)]
    return [file for file in candidates if file.is_file()]


def order(
    recipe: Recipe,
    files: Sequence[Path],
    channels: Catalogue,
    scratch: Path,
    cuda: Sequence[str] = (),
    pythons: Sequence[str] = (),
) -> Order:
    """The builds of a recipe for a platform.

    Args:
        recipe: The recipe.
        files: Its variant files, in rising precedence.
        channels: The channels that it is built against. Without `pythons`, Pythons that they lack
            are left out.
        scratch: A folder for a variant file of ours.
        cuda: Toolkits (12.6) and CUDA majors (12) to build for; without any, all toolkits of the
            recipe. Toolkits that its variant files do not have replace theirs.
        pythons: Such as 3.12 or 3.14t.

    Raises:
        RecipeError: It does not render, makes nothing here, or names a file that is not there.
        UnknownName: It has no build for a CUDA major, or for a Python, of these.
    """
    _refuse_missing_majors(cuda, channels)
    _refuse_missing_nvcc(recipe, cuda, channels)
    files, toolkits = _with_toolkits(recipe, files, channels.subdir, scratch, cuda)
    files, notes = _with_available(recipe, files, channels, scratch, toolkits, pythons)
    variants = _rendered(recipe, files, channels.subdir, toolkits)
    variants, left_out = _of_pythons(variants, recipe, channels, pythons)
    if left_out and not pythons:
        names = listing(list(map(_python, left_out)))
        notes.append(f"skipped Pythons that the channels lack: {names}")
    _refuse_missing_files(variants, recipe)
    _refuse_bad_specs(variants, recipe)
    return Order(recipe, tuple(files), tuple(_each_once(variants, recipe)), tuple(notes))


# --- which toolkits


def major(toolkit: str) -> str:
    """The CUDA major of a toolkit: ``12`` of ``12.6``."""
    return toolkit.partition(".")[0]


def _refuse_missing_majors(cuda: Sequence[str], channels: Catalogue) -> None:
    """Raises UnknownName for a CUDA major of which channels with toolkits have none."""
    majors = {major(toolkit.version) for toolkit in channels.toolkits}
    missing = [value for value in cuda if major(value) not in majors]
    if not majors or not missing:
        return
    newest = channels.toolkits[0].version
    raise UnknownName(
        f"the channels have no toolkit of CUDA {listing(missing, 'or')}; the newest is {newest}",
        f"leave --cuda out, or build for another one, such as --cuda {major(newest)}",
    )


def _refuse_missing_nvcc(recipe: Recipe, cuda: Sequence[str], channels: Catalogue) -> None:
    """Raises UnknownName for a CUDA major without nvcc, if the recipe compiles with it."""
    if not _NVCC.search(read_plain_text(recipe.file)):
        return
    records = channels.records(f"cuda-nvcc_{channels.subdir}")
    versions = sorted({str(record.version) for record in records}, key=version_key)
    majors = {major(version) for version in versions}
    missing = [value for value in cuda if major(value) not in majors]
    if versions and missing:
        newest = major(versions[-1])
        raise UnknownName(
            f"the channels have no nvcc for CUDA {listing(missing, 'or')}",
            f"leave --cuda out, or build for another one, such as --cuda {newest}",
        )


def _with_toolkits(
    recipe: Recipe, files: Sequence[Path], subdir: str, scratch: Path, cuda: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """The variant files, with one more for toolkits of `cuda` that these do not have.

    And the toolkits of `cuda`.
    """
    if not cuda:
        return [*files], []
    majors_only = [value for value in cuda if "." not in value]
    variants = []
    try:
        variants = _rendered(recipe, files, subdir)
    except RecipeError:
        if majors_only:
            raise
        # It may render with the toolkits that the files lack.
    stated = list(dict.fromkeys(v.toolkit for v in variants if v.toolkit))
    if variants and not stated and recipe.names_used.isdisjoint(CUDA_KEYS):
        raise RecipeError(
            f"{recipe.name} names no toolkit: it uses neither {listing(CUDA_KEYS, 'nor')}",
            f"leave out --cuda, or {WRITE_TOOLKIT}",
        )
    wanted = []
    for value in cuda:
        of_value = [toolkit for toolkit in stated if value in (toolkit, major(toolkit))]
        wanted += of_value or [value]
    if set(wanted) <= set(stated):
        return [*files], wanted
    if missing := [value for value in wanted if "." not in value]:
        raise UnknownName(
            f"no build of {recipe.name} is for CUDA {listing(missing, 'or')}: "
            f"it has {listing(stated or ['no toolkit'])}",
            "name a toolkit, such as --cuda 12.6, or add one to the recipe's"
            " conda_build_config.yaml",
        )
    values = _toolkit_values(wanted, read_variants(files, subdir))
    return [*files, _variant_file(scratch, values)], wanted


def _toolkit_values(
    toolkits: Sequence[str], config: rattler_build.VariantConfig
) -> dict[str, list[Any]]:
    """The variant keys for toolkits.

    Keys that are zipped with these have their last values for the same CUDA major.
    """
    values: dict[str, list[Any]] = {key: [*toolkits] for key in CUDA_KEYS}
    for group in config.zip_keys or ():
        for cuda_key in set(group).intersection(CUDA_KEYS):
            majors = [major(str(value)) for value in config.get_values(cuda_key) or ()]
            rows = [_last_row(majors, major(toolkit)) for toolkit in toolkits]
            for key in set(group).difference(CUDA_KEYS):
                column = config.get_values(key) or []
                values[key] = [column[row] for row in rows]
    return values


def _last_row(majors: Sequence[str], wanted: str) -> int:
    """The last row of a zip with a CUDA major; its last row (-1) if none has it."""
    rows = [row for row, of_row in enumerate(majors) if of_row == wanted]
    return rows[-1] if rows else -1


def _variant_file(scratch: Path, values: Mapping[str, Sequence[Any]]) -> Path:
    """A new variant file with these values."""
    file = scratch / f"{next(iter(values))}.yaml"
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in values.items()]
    file.write_text("".join(lines), encoding="utf-8")
    return file


# --- which Pythons, and which glibc


def _with_available(
    recipe: Recipe,
    files: Sequence[Path],
    channels: Catalogue,
    scratch: Path,
    toolkits: Sequence[str],
    pythons: Sequence[str],
) -> tuple[list[Path], list[str]]:
    """The variant files, with one more if the channels lack the Python or the glibc of these.

    And notes about that. Our base channel has one of each: those of this machine.
    """
    reason = "--python names it" if pythons else "the channels have no older Python"
    minors = [python for python in pythons or channels.pythons if not python.endswith("t")]
    glibcs = [str(record.version) for record in channels.records(f"sysroot_{channels.subdir}")]
    available = {
        "python_min": (minors, reason),
        "c_stdlib_version": (glibcs, "the channels have no compiler for an older glibc"),
    }
    found = [*files]
    notes = []
    variants = _rendered(recipe, files, channels.subdir, toolkits)
    for key, (versions, reason) in available.items():
        replaced = _replacements(variants, key, versions)
        if not replaced:
            continue
        for stated, other in replaced.items():
            notes.append(f"{key} is {other} in place of {stated}: {reason}")
        # As many values as before: it may be zipped with the toolkit.
        before = read_variants(files, channels.subdir).get_values(key) or ()
        values = [replaced.get(str(value), str(value)) for value in before]
        found.append(_variant_file(scratch, {key: values}))
    return found, notes


def _replacements(variants: Iterable[Variant], key: str, versions: Sequence[str]) -> dict[str, str]:
    """Value of a variant key that is none of `versions` -> the first of them that is not older."""
    found = {}
    for stated in dict.fromkeys(v.values[key] for v in variants if key in v.values):
        not_older = [version for version in versions if not older(version, stated)]
        if stated not in versions and not_older:
            found[stated] = not_older[0]
    return found


def _of_pythons(
    variants: list[Variant], recipe: Recipe, channels: Catalogue, pythons: Sequence[str]
) -> tuple[list[Variant], list[str]]:
    """The builds for some Pythons, or for those of the channels; and the values left out.

    A build without the key ``python`` is for every Python.

    Raises:
        UnknownName: No build is for one of these.
    """
    values = list(dict.fromkeys(v.values["python"] for v in variants if "python" in v.values))
    taken = [value for value in values if _is_wanted(value, pythons, channels)]
    if values and not taken:
        raise UnknownName(
            f"no build of {recipe.name} is for Python {listing(pythons or channels.pythons, 'or')}",
            f"its variants have {listing(list(map(_python, values)))}",
        )
    found = [variant for variant in variants if variant.values.get("python") in (None, *taken)]
    return found, [value for value in values if value not in taken]


def _is_wanted(value: str, pythons: Sequence[str], channels: Catalogue) -> bool:
    """Whether a value of the key ``python`` is one of `pythons`.

    Without these, whether the channels have it.
    """
    if pythons:
        return _python(value) in pythons
    match = parse_spec(f"python {value}").match
    return any(match.matches(record) for record in channels.records("python"))


def _python(value: str) -> str:
    """``3.14t`` for ``3.14.* *_cp314t``, a value of the key ``python``."""
    minor = value.partition(".*")[0]
    return f"{minor}t" if value.endswith("t") else minor


# --- rendering


def _rendered(
    recipe: Recipe, files: Sequence[Path], subdir: str, toolkits: Sequence[str] = ()
) -> list[Variant]:
    """The builds of a recipe, or those for some toolkits.

    Raises:
        RecipeError: It does not render, has a selector of conda-build, or makes nothing.
    """
    try:
        variants = _without_skipped(_variants(recipe, files, subdir), recipe, files, subdir)
    except RecipeError as error:
        keys = _keys(files)
        undefined = _undefined_key(recipe, keys)
        if not undefined:
            raise
        step = (
            f"name a toolkit, such as --cuda 13.0, or write {undefined} in a"
            " conda_build_config.yaml beside it"
        )
        own = [key for key in keys if key not in recipe.names_used and not _COMPILER.fullmatch(key)]
        if near := nearest(undefined, own):
            step = f"did you mean {undefined} in place of {near[0]}? Else {step}"
        cause = f"no variant file has {undefined}, which the recipe uses: {error.cause}"
        raise RecipeError(cause, step) from error
    _refuse_selectors(recipe)
    if toolkits:
        variants = [variant for variant in variants if variant.toolkit in toolkits]
    if not variants:
        raise _makes_nothing(recipe, subdir)
    return variants


def _variants(recipe: Recipe, files: Sequence[Path], subdir: str) -> list[Variant]:
    return [Variant.of(rendered) for rendered in render_variants(recipe, files, subdir)]


def _makes_nothing(recipe: Recipe, subdir: str) -> RecipeError:
    """The error for a recipe that skips all of its builds, with its conditions if it has any."""
    cause = f"{recipe.name} makes nothing for {subdir}"
    conditions = dict.fromkeys(recipe.skip_conditions.values())
    if not conditions:
        return RecipeError(cause, "see what its `skip` says")
    quoted = listing([f"`{condition}`" for condition in conditions])
    place = line_of(recipe, r"^\s*skip:")
    return RecipeError(f"{cause}: its skip is {quoted}", f"correct skip in {place}")


def _keys(files: Sequence[Path]) -> list[str]:
    """The variant keys of files, as they are written: those may not be read together."""
    texts = [read_plain_text(file) for file in files]
    return [key for text in texts for key in re.findall(r"^([\w-]+):", text, re.M)]


def _undefined_key(recipe: Recipe, keys: Sequence[str]) -> str:
    """A key with the toolkit that a recipe uses, and no variant file has; "" for none."""
    return next((key for key in CUDA_KEYS if key in recipe.names_used and key not in keys), "")


def _refuse_selectors(recipe: Recipe) -> None:
    """Raises RecipeError for a selector of conda-build, which is only a comment in this format."""
    for number, line in enumerate(read_plain_text(recipe.file).splitlines(), 1):
        if re.search(SELECTOR, line):
            raise RecipeError(
                message_at(recipe.file, number, line), "correct that line, or delete the comment"
            )


def _without_skipped(
    variants: list[Variant], recipe: Recipe, files: Sequence[Path], subdir: str
) -> list[Variant]:
    """The variants that `skip` leaves.

    rattler-build takes the others out only if the recipe has a list of outputs. So a recipe without
    this list is rendered once more, as the only output of another recipe.
    """
    if not recipe.skip_conditions:
        return variants
    content = load_yaml(recipe.file.read_bytes())
    if "outputs" in content:
        return variants
    whole = {}
    for key in ("schema_version", "context", "extra"):
        if key in content:
            whole[key] = content.pop(key)
    whole["outputs"] = [content]
    with TemporaryDirectory() as folder:
        Path(folder, "recipe.yaml").write_text(json.dumps(whole, default=str))
        left = _variants(Recipe(recipe.name, Path(folder)), files, subdir)
    kept = [variant.values for variant in left]
    return [variant for variant in variants if variant.values in kept]


def _each_once(variants: Sequence[Variant], recipe: Recipe) -> list[Variant]:
    """The builds without repetitions.

    A noarch package renders once for each Python, although it is one build.

    Raises:
        RecipeError: Two outputs have the same file name.
    """
    times = Counter(recipe.output_names)
    repeated = {name for name, number in times.items() if number > 1} - {*recipe.skip_conditions}
    found: dict[tuple[str, str], Variant] = {}
    for variant in variants:
        key = variant.id, variant.values.get("target_platform", "")
        first = found.setdefault(key, variant)
        if first is variant:
            continue
        if variant.name in repeated or variant.content != first.content:
            place = line_of(recipe, f"name: .*{re.escape(variant.name)}")
            raise RecipeError(
                f"{place}: two builds have one file name, {variant.id}.conda",
                "give one of the outputs another name or build string",
            )
    return [*found.values()]


# --- what is refused before rattler-build would build it, or explain it badly


def _refuse_missing_files(variants: Iterable[Variant], recipe: Recipe) -> None:
    """Raises RecipeError for a file that the recipe names and that is not there.

    rattler-build would not say which.
    """
    parts = [part for variant in variants for part in _parts(variant.content)]
    for name in [*_source_files(parts), *_scripts(parts)]:
        endings = ("", ".sh", ".bat")
        if any((recipe.folder / f"{name}{ending}").exists() for ending in endings):
            continue
        word = rf"(?<![\w-]){re.escape(Path(name).name)}(?![\w-])"
        place = line_of(recipe, f"(path|file): .*{word}", word)
        near = nearest(name, (file.name for file in recipe.folder.iterdir()))
        step = f"did you mean {listing(near, 'or')}?" if near else f"add it in {recipe.folder}"
        raise RecipeError(f"{place}: there is no {name}", step)


def _source_files(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The files that sources name: their own, and patches."""
    for part in parts:
        for source in as_list(part.get("source")):
            if isinstance(source, dict):
                yield from filter(None, (source.get("path"), *(source.get("patches") or ())))


def _scripts(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The scripts in files that builds name."""
    for part in parts:
        script = (part.get("build") or {}).get("script")
        if isinstance(script, dict) and "file" in script:
            yield script["file"]


def _refuse_bad_specs(variants: Iterable[Variant], recipe: Recipe) -> None:
    """Raises RecipeError for a name that gets a value of its variant key that is not a version.

    So it does for a compiler of CUDA without a version beside a toolkit: it would be the newest, of
    another toolkit.
    """
    for variant in variants:
        build = variant.specs("build")
        has_free_nvcc = any(re.fullmatch(r"cuda-nvcc_[^ ]+", spec) for spec in build)
        if "cuda_version" in variant.values and has_free_nvcc:
            raise RecipeError(
                f"{line_of(recipe, 'compiler.*cuda')}: the variants have cuda_version, and"
                ' compiler("cuda") takes its version from cuda_compiler_version',
                "name the key cuda_compiler_version in the variant file and in the recipe"
                " (docs/recipe-authors.md)",
            )
        for spec in [*build, *variant.specs("host")]:
            _refuse_bad_spec(spec, recipe)


def _refuse_bad_spec(spec: str, recipe: Recipe) -> None:
    try:
        parse_spec(spec)
    except BadValue as error:
        name = spec.split()[0]
        key = name.replace("-", "_")
        raise RecipeError(
            f"{line_of(recipe, rf'- {re.escape(name)}')}: {error.cause}",
            f"{name} alone has the value of the variant key {key}: correct it, as in {key}:"
            " ['12.6']",
        ) from None


# --- reading a recipe


def line_of(recipe: Recipe, *patterns: str) -> str:
    """``FILE:LINE`` of the last line of a recipe that has a pattern; line 1 if none has.

    The first of the patterns that a line has decides.
    """
    lines = read_plain_text(recipe.file).splitlines()
    for pattern in patterns:
        numbers = [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]
        if numbers:
            return f"{shown(recipe.file)}:{numbers[-1]}"
    return f"{shown(recipe.file)}:1"


def _parts(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A rendered output, and the staging outputs that it inherits."""
    yield content
    yield from content.get("staging_caches") or ()
