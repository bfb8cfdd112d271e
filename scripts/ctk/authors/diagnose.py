"""Says what a failed build means, what is wrong with a package that was built, and what to write.

`Diagnosis` compares three things: the log of a build (which `build_log` reads), the environments
that the solver gives it, and the files of the packages in the channels. So it can name the package
that has a missing header, or the one to require so that a library is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rattler.package_streaming import extract

from ctk.audit.packages import COMPILER_RUNTIME, PackageSet, needs
from ctk.authors.build_log import (
    calls_nvcc,
    lacks_compiler,
    lacks_licence,
    missing_headers,
    missing_libraries,
    other_toolkits,
    undefined_symbols,
)
from ctk.authors.order import Order, Variant, line_of
from ctk.base.base import BUILD_TOOLS
from ctk.channel.distribution import package_name
from ctk.core.console import listing
from ctk.core.document import as_list
from ctk.core.errors import Unsolvable
from ctk.core.mistake import Mistake
from ctk.core.platforms import NOARCH
from ctk.package.binaries import exported
from ctk.package.reader import read_info
from ctk.package.records import spec_name
from ctk.package.scan import PackageScan
from ctk.plan.names import driver_library
from ctk.solve.advice import CheckoutCatalogue, checkout_of
from ctk.solve.solve import Catalogue, Pick, Scenario, parse_spec
from ctk.solve.why import find_reason

_COMPILERS = {"gcc": "c", "gxx": "cxx"}
"""Name of a compiler's package -> the language that `compiler()` takes."""
_HEADERS = ("/include/", "/include/cccl/")
_OF_TARGETS = {"cuda_driver": "libcuda.so", "nvml": "libnvidia-ml.so"}
"""Target of CMake's CUDAToolkit whose name is not the library's -> the library."""
_FILES = "-files"  # the end of the name of a package with the large files of another


class Environment(NamedTuple):
    """What the solver puts into a build or host environment."""

    toolkit: str  # "" for none
    has_nvcc: bool


@dataclass(frozen=True)
class Diagnosis:
    """What is known of an order when one of its builds, or of its packages, is judged.

    Attributes:
        order: The builds.
        channels: The channels that they are built against.
        folder: The channel of their packages, in which rattler-build works.
    """

    order: Order
    channels: Catalogue
    folder: Path

    # --- a build that failed

    def unsolvable(self, variant: Variant) -> Unsolvable | None:
        """The error if a build or host environment has no solution; else None."""
        for section in ("build", "host"):
            scenario = self._scenario(variant, section)
            if self.channels.pick(scenario) is None:
                cause, step = self._missing_tools(scenario, section)
                return Unsolvable(
                    f"{variant.id} cannot be built: in its {section} environment, {cause}", step
                )
        return None

    def _missing_tools(self, scenario: Scenario, section: str) -> tuple[str, str]:
        """Why an environment has no solution, and what to do: install compilers, or name them."""
        known = self.channels
        checkout = replace(checkout_of(known), is_for_recipe=True)
        channels = CheckoutCatalogue(known.channels, known.subdir, checkout, known.gateway)
        reason = find_reason(scenario, channels)
        cause, step = reason.cause, reason.step
        wanted = {parse_spec(spec).name for spec in scenario.specs}
        missing = sorted(wanted - self.channels.names([self.channels.subdir, NOARCH]))
        of_machine = filter(None, map(_debian_package, missing))
        if packages := list(dict.fromkeys(of_machine)):
            cause = f"there is no {listing(missing)}"
            step = (
                f"apt-get install {' '.join(packages)} on this machine, and run `ctk build`: its"
                " base channel then has what the machine has; or use --base conda-forge"
            )
        if compilers := [_COMPILERS[name] for name in missing if name in _COMPILERS]:
            step = f'write ${{{{ compiler("{compilers[0]}") }}}} in {section}'
        return cause, step

    def hints(self, variant: Variant, lines: Sequence[str]) -> Iterator[str]:
        """What the log of a failed build tells its author to write.

        A compiler that is missing, or is another one, comes first: it is why a header or a library
        is not found.
        """
        for mistake in (*other_toolkits(lines), *self._other_toolkits(variant, lines)):
            yield str(mistake)
        if lacks_compiler(lines):
            yield (
                'the name of a compiler is empty, such as $CXX: write ${{ compiler("cxx") }} in'
                " build"
            )
        for header in missing_headers(lines):
            yield from self._header_hints(header)
        for library in missing_libraries(lines):
            yield from self._library_hints(library)
        yield from _unlinked(lines, self.folder.glob("bld/*/host_env*/targets/*/lib/lib*.so"))
        if lacks_licence(lines):
            named = listing(as_list(variant.content["about"]["license_file"]), "or")
            place = line_of(self.order.recipe, "license_file")
            yield f"{place} names {named}, which is in neither the recipe's folder nor its source"

    def _header_hints(self, header: str) -> Iterator[str]:
        """Where a header is: in the host environment, or in a package that could be there."""
        for end in _HEADERS:
            for found in self.folder.glob(f"bld/*/host_env*/targets/*{end}{header}"):
                below = found.relative_to(self.folder).parts[3:]
                include = "/".join(("$PREFIX", *below)).removesuffix(f"/{header}")
                yield (
                    f'{header} is in {include}: give the compiler -I"{include}", or CMake'
                    " -DCUDAToolkit_BIN_DIR"
                )
                return
        if owner := self._owner(*(f"{end}{header}" for end in _HEADERS)):
            yield f"{header} is in {owner}: write {owner} in host"

    def _library_hints(self, library: str) -> Iterator[str]:
        """Where a library is: of the driver, or in a package, which may be in host already."""
        name = library.removeprefix("lib").partition(".")[0]
        if driver := driver_library(name):
            yield f"{_OF_TARGETS.get(name, library)} is {driver.what}: {driver.do}"
            return
        owner = self._owner(f"/lib/{library}")
        if not owner:
            checkout = checkout_of(self.channels)
            known = checkout.known_names()
            not_built = f"{known.package_of_library(name.removesuffix('_static'))}-dev"
            owner = not_built if checkout.maker(not_built) else ""
        if not owner:
            return
        step = f"write {owner} in host"
        if any(self.folder.glob(f"bld/*/host_env*/lib/{library}")):
            step = "give the linker $LDFLAGS, or call find_package(CUDAToolkit) in CMake"
        yield f"{library} is in {owner}: {step}"

    # --- a package that was built

    def mistakes(
        self, variant: Variant, lines: Sequence[str], package: Path
    ) -> tuple[Mistake, ...]:
        """The common mistakes that the log, the environments and the metadata of a package show."""
        return (
            *other_toolkits(lines),
            *self._other_toolkits(variant, lines),
            *self._without_fit(package),
        )

    def environment(self, variant: Variant, section: str) -> Environment:
        """The toolkit and nvcc in the build or host environment of a build."""
        scenario = self._scenario(variant, section)
        pick = self.channels.pick(scenario) if scenario.specs else None
        if pick is None:
            return Environment("", False)
        names = [record.name.normalized for record in pick.records]
        return Environment(pick.toolkit, any(name.startswith("cuda-nvcc") for name in names))

    def _scenario(self, variant: Variant, section: str) -> Scenario:
        return Scenario(tuple(variant.specs(section, self.order.names)), self.channels.subdir)

    def _other_toolkits(self, variant: Variant, lines: Sequence[str]) -> Iterator[Mistake]:
        """The remedy if the toolkit of nvcc, or that of host, is not the variant's."""
        build = self.environment(variant, "build")
        host = self.environment(variant, "host")
        key = variant.cuda_key
        wanted = variant.toolkit or host.toolkit
        own_nvcc = shutil.which("nvcc")
        if build.has_nvcc and wanted and not _alike(build.toolkit, wanted):
            yield Mistake(
                f"it is for toolkit {wanted}, but nvcc in its build environment is that of"
                f" {build.toolkit}",
                self._how_to_require_nvcc(key),
            )
        elif own_nvcc and not build.has_nvcc and calls_nvcc(lines):
            yield Mistake(
                f"it is compiled by {own_nvcc}, which is this machine's, because its build"
                " environment has no nvcc",
                self._how_to_require_nvcc(key),
            )
        if variant.toolkit and host.toolkit and not _alike(host.toolkit, variant.toolkit):
            place = line_of(self.order.recipe, "- cuda-version", "host:")
            yield Mistake(
                f"it is the build for {key} {variant.toolkit}, but its host environment has"
                f" toolkit {host.toolkit}",
                f"write cuda-version ${{{{ {key} }}}}.* in {place}",
            )

    def _how_to_require_nvcc(self, cuda_key: str) -> str:
        nvcc = '${{ compiler("cuda") }}'
        if cuda_key == "cuda_version":  # compiler("cuda") takes its version from the other key
            nvcc = "cuda-nvcc_${{ target_platform }} ${{ cuda_version }}.*"
        recipe = self.order.recipe
        place = line_of(recipe, "- (cuda-nvcc|nvcc$)", r"^\s+build:", "requirements:")
        return f"write {nvcc} in requirements: build ({place})"

    def _without_fit(self, package: Path) -> Iterator[Mistake]:
        """The remedy for each required package of ours that only has the files of another."""
        for name in map(spec_name, read_info(package).index.depends):
            # Without a maker, it is an output of somebody's recipe.
            if name.endswith(_FILES) and checkout_of(self.channels).maker(name):
                remedy = self._how_to_require(name.removesuffix(_FILES))
                yield Mistake(
                    f"it requires {name}, which has no native and compat builds to choose by",
                    f"take {name} out of requirements: {remedy}",
                )

    # --- an environment in which a package was tested

    def lacks(self, package: PackageScan, pick: Pick) -> tuple[Mistake, ...]:
        """The remedies for libraries that a package needs, its environment lacks, and a folder has.

        Libraries of packages elsewhere, such as those of conda-forge, are not known.
        """
        files = self._files
        provided: set[str] = set()
        elsewhere = set()
        for record in pick.records:
            if record.file_name in files:
                provided |= _libraries(files[record.file_name])
            else:
                elsewhere.add(record.name.normalized)
        found = []
        for _, file, _, library in needs(PackageSet([package])):
            if library in provided or COMPILER_RUNTIME.fullmatch(library):
                continue
            owners = _names_of(other for other in files.values() if library in _libraries(other))
            if owners and elsewhere.isdisjoint(owners):
                owner = owners[0].removesuffix(_FILES)
                cause = f"{file.path} needs {library} of {owner}"
                found.append(Mistake(cause, self._how_to_require(owner)))
        return tuple(found)

    def unlinked(self, lines: Sequence[str], pick: Pick) -> Iterator[str]:
        """Hints about the symbols that a package's tests did not find.

        They are looked for in the packages: the environments of the tests are removed.
        """
        if not undefined_symbols(lines):
            return
        files = self._files
        with TemporaryDirectory(dir=self.folder.parent) as folder:
            for name in (record.file_name for record in pick.records):
                if name in files and _libraries(files[name]):
                    extract(files[name], Path(folder, name))
            yield from _unlinked(lines, Path(folder).glob("*/targets/*/lib/lib*.so.*"))

    # --- the packages of the channels

    def _how_to_require(self, name: str) -> str:
        """What to write to require a package: in host, the one that has it as run-export if any."""
        bringing = []
        for file in self._files.values():
            exports = read_info(file).run_exports.values()
            if any(spec_name(spec) == name for specs in exports for spec in specs):
                bringing.append(file)
        if owners := _names_of(bringing):
            return (
                f"write {owners[0]} in host, and take {name} out of ignore_run_exports if it is"
                " there"
            )
        return f"write {name} in requirements: run"

    def _owner(self, *ends: str) -> str:
        """The package of a folder of the channels that has a file with one of these ends.

        "" if none has.
        """
        having = []
        for file in self._files.values():
            if any(entry.path.endswith(ends) for entry in read_info(file).paths):
                having.append(file)
        found = next(iter(_names_of(having)), "")
        subdirs = [self.channels.subdir, NOARCH]
        plain = found.removesuffix(f"_{self.channels.subdir}")  # which brings the other
        return plain if plain in self.channels.names(subdirs) else found

    @property
    def _files(self) -> dict[str, Path]:
        """The built packages, and those in folders of the channels, by their file names."""
        channels = [self.folder, *self.channels.channels]
        folders = [channel for channel in channels if isinstance(channel, Path)]
        return {file.name: file for folder in folders for file in sorted(folder.glob("*/*.conda"))}


def _names_of(files: Iterable[Path]) -> list[str]:
    """The names of packages, the shortest first: that of what others are parts of."""
    return sorted(dict.fromkeys(package_name(file.name) for file in files), key=len)


def _unlinked(lines: Sequence[str], libraries: Iterable[Path]) -> Iterator[str]:
    """A hint for each library that defines a symbol which a log says is undefined."""
    undefined = undefined_symbols(lines)
    if not undefined:
        return
    # libnvrtc.alt.so after libnvrtc.so
    for file in sorted(libraries, key=lambda file: (len(file.name), file)):
        defined = undefined & exported(file)
        if defined:
            undefined -= defined
            name = file.name.partition(".so")[0]
            yield f"{min(defined)} is in {name}.so: give the linker -l{name.removeprefix('lib')}"


@cache
def _libraries(file: Path) -> frozenset[str]:
    """The names of the shared libraries in a package."""
    names = (entry.path.rpartition("/")[2] for entry in read_info(file).paths)
    return frozenset(name for name in names if ".so" in name or name.endswith(".dll"))


def _debian_package(name: str) -> str:
    """The Debian package with the program that a package of our base channel stands for.

    "" for other packages.
    """
    return "g++" if name.startswith(("gcc_", "gxx_")) else BUILD_TOOLS.get(name, "")


def _alike(toolkit: str, other: str) -> bool:
    """Whether toolkits are the same, as far as both say it: ``12.6`` and a variant's ``12``."""
    return all(a == b for a, b in zip(toolkit.split("."), other.split("."), strict=False))
