"""Names that are no packages here: what is meant by each, and which of them another place has.

Three sources, and no guess: ``names.yaml``, which is kept by hand; the release locks, which know
the distribution of each component; and the recipes, which know the components that they read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.console import listing
from ctk.core.document import parse_by_hand
from ctk.core.errors import CtkError
from ctk.lock.components import LIBRARIES, PYTHON_PROJECTS
from ctk.lock.model import BASE, ReleaseLock, load, path_of, release_locks
from ctk.plan.recipes import Recipe, find_recipes, is_output

FILE = Path(__file__).with_name("names.yaml")
_MAJOR = re.compile(r"-cu(?:da)?(\d\d)x?(?=-|$)")
"""The CUDA major in the name of a wheel: ``nvidia-cublas-cu12``, ``cupy-cuda13x``,
``jax-cuda12-plugin``.
"""
_LIBRARY = re.compile(r"(?:\.so(?:\.\d+)*|\.a|\.dll|\.lib)$")
_A_FILE = re.compile(r"\.(?:ya?ml|toml|txt|lock|json|cfg)$")
_FILES_END = "-files"  # of the name of a package with the large files of another


@dataclass(frozen=True)
class Entry:
    """What ``names.yaml`` says of a name; the file says what each field means."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    what: Annotated[str, Field(alias="is")]
    here: str = ""
    ask: tuple[str, ...] = ()
    instead: str = ""
    do: str = ""
    source: str = ""


@dataclass(frozen=True)
class Elsewhere:
    """Where a package is that is not here.

    The feedstock of conda-forge, the project on pip's index or "", and whether it is about CUDA.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    conda_forge: str
    pip: str = ""
    cuda: bool = False


@dataclass(frozen=True)
class DriverLibrary:
    """A library of the driver that a linker looks for: what it is, and what to do."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    what: Annotated[str, Field(alias="is")]
    do: str


@dataclass(frozen=True)
class ForeignChannel:
    """A channel with packages for CUDA that no recipe here makes.

    The names of its packages; a star stands for any text.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    names: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Reviewed:
    """The content of ``names.yaml``."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    names: Mapping[str, Entry] = field(default_factory=dict)
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    libraries: Mapping[str, DriverLibrary] = field(default_factory=dict)
    substitutes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pip: Mapping[str, str | None] = field(default_factory=dict)
    channels: Mapping[str, ForeignChannel] = field(default_factory=dict)


@cache
def reviewed() -> Reviewed:
    """The names that are kept by hand; LockError lists all problems of the file."""
    text, shape = FILE.read_text(encoding="utf-8"), TypeAdapter(Reviewed)
    return parse_by_hand(text, shape, FILE.name, f"fix {FILE.name}: it is kept by hand")


@dataclass(frozen=True)
class OtherName:
    """What is meant by a name that is not a package here.

    Attributes:
        sentence: What it is, and what is here in its place.
        requests: Requests in its place, the best first. The first word of each takes the version
            that was typed.
        instead: The name to ask another place for.
        step: What to do where nothing takes its place; or "".
    """

    sentence: str
    requests: tuple[str, ...] = ()
    instead: str = ""
    step: str = ""


Wheel = Mapping[str, tuple[str, ...]]
"""CUDA major of the locks that have a distribution, oldest first -> the packages here that have its
files.
"""


def split_major(name: str) -> tuple[str, str]:
    """The name of a wheel without its CUDA major, and the major; "" if it has none."""
    found = _MAJOR.search(name)
    return (_MAJOR.sub("", name), found[1]) if found else (name, "")


@dataclass(frozen=True)
class Names:
    """The names that are known beside those of packages.

    Attributes:
        wheels: Name of a distribution without its CUDA major -> its wheel.
        components: Name of a component of the toolkit, such as ``cudart`` -> its package.
        own: The packages of the recipes.
        base: The packages of the base channel, which are called as conda-forge calls them; an
            expression in a name stands for any text.
        pip: Distributions of the locks that pip may install beside conda's packages: none with
            CUDA's libraries.
        projects: Package -> the library or Python project whose files it has, which can be locked
            in several versions.
    """

    wheels: Mapping[str, Wheel] = field(default_factory=dict)
    components: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    base: tuple[str, ...] = ()
    pip: frozenset[str] = frozenset()
    projects: Mapping[str, str] = field(default_factory=dict)

    def meant_by(self, name: str) -> OtherName | None:
        """What is meant by a name.

        None for a package of the recipes, and for a name that nothing here knows.
        """
        plain = name.lower()
        if plain in self.own:
            return None
        if _A_FILE.search(plain):
            step = "name its packages, or see what they are: `ctk solve environment.yml`"
            return OtherName(f"{name} is the name of a file", step=step)
        return self.renamed(name) or self._component(name, _LIBRARY.sub("", plain))

    def renamed(self, name: str) -> OtherName | None:
        """What is meant by a name that other channels or pip have for a package.

        None for other names, also for those of components and their libraries.
        """
        plain = name.lower()
        library = _LIBRARY.sub("", plain)
        if entry := _entry(plain) or _entry(library):
            sentence = "; ".join(filter(None, [f"{name} is {entry.what}", entry.here]))
            return OtherName(sentence, entry.ask, entry.instead or plain, entry.do)
        return self._wheel(name, plain.replace("_", "-"))

    def _wheel(self, typed: str, name: str) -> OtherName | None:
        """The packages with the files of a wheel, for the CUDA major in its name.

        Args:
            typed: The name as somebody wrote it.
            name: The same as conda writes it, in lower case and with hyphens.
        """
        wheel = self.wheels.get(_MAJOR.sub("", name))
        if not wheel:
            return None
        found = _MAJOR.search(name)
        major = found[1] if found else [*wheel][-1]
        packages = wheel.get(major) or [*wheel.values()][-1]
        if [*packages] == [name]:  # such as numba_cuda
            return OtherName(f"{typed} is called {name} here", (name,))
        request, them = " ".join(packages), "packages" if packages[1:] else "package"
        if major not in wheel:
            others = (
                f"for CUDA {listing([*wheel], 'or')} its files are in the {them}"
                f" {listing([*packages])}"
            )
            return OtherName(f"{name} is a wheel, for pip, of CUDA {major}; {others}", (request,))
        sentence = f"{name} is a wheel, for pip; its files are in the {them} {listing([*packages])}"
        return OtherName(
            sentence, (f"{request} cuda-version={major}", request) if found else (request,)
        )

    def _component(self, name: str, library: str) -> OtherName | None:
        """The package of a component that is called by its bare name, or by that of its library."""
        bare = self.components.get(library)
        package = bare or self.components.get(library.removeprefix("lib"))
        if not package:
            return None
        if bare and library == name.lower():
            return OtherName(f"{name} is called {package} here", (package,))
        return OtherName(f"{name} is in the package {package}", (package,))

    def package_of_library(self, library: str) -> str:
        """The package with a component's library, by the name that linkers have for it.

        "" for another library.
        """
        return self.components.get(library.lower(), "")

    @property
    def elsewhere(self) -> list[str]:
        """The names that conda-forge is known to have, without those with an expression."""
        at_base = {name for name in self.base if "{" not in name}
        return sorted(at_base.union(reviewed().elsewhere))

    def at_conda_forge(self, name: str) -> bool:
        """Whether conda-forge is known to have a package."""
        return name in reviewed().elsewhere or any(is_output(name, output) for output in self.base)

    def pip_project(self, name: str) -> str:
        """The project that pip may install for a package that is not here.

        "" for a name that is on no list.
        """
        known = reviewed().elsewhere.get(name)
        if known:
            return known.pip
        return name if name in self.pip else ""


def _entry(name: str) -> Entry | None:
    known = reviewed().names
    patterns = (pattern for pattern in known if "*" in pattern and fnmatchcase(name, pattern))
    return known.get(name) or next((known[pattern] for pattern in patterns), None)


@dataclass(frozen=True)
class PipProject:
    """A project of pip that brings CUDA libraries, and the package that is the same, or ""."""

    package: str


def pip_project_with_cuda(name: str) -> PipProject | None:
    """A project that brings CUDA libraries of its own; None for others, and for NVIDIA's wheels."""
    known = reviewed().pip
    pattern = next((pattern for pattern in known if fnmatchcase(name, pattern)), None)
    return None if pattern is None else PipProject(known[pattern] or "")


def is_about_cuda_elsewhere(name: str) -> bool:
    """Whether conda-forge has a package of this name that is about CUDA."""
    known = reviewed().elsewhere.get(name)
    return known is not None and known.cuda


def foreign_channel(name: str) -> str:
    """The channel whose own packages have names like this; "" for other names."""
    for channel, known in reviewed().channels.items():
        if any(fnmatchcase(name, pattern) for pattern in known.names):
            return channel
    return ""


def known_substitutes(name: str) -> tuple[str, ...]:
    """Requests for toolkits that do not have a package, the best first."""
    return reviewed().substitutes.get(name, ())


def driver_library(library: str) -> DriverLibrary | None:
    """A library of the driver by the name that linkers and CMake have for it; None for others."""
    return reviewed().libraries.get(library)


@lru_cache(maxsize=4)
def known_names(workspace: Workspace) -> Names:
    """The names that the locks and recipes of a checkout know.

    None where one of them cannot be read.
    """
    try:
        return read_names(workspace)
    except CtkError:  # a command that needs them says what is wrong
        return Names()


def read_names(workspace: Workspace) -> Names:
    """The names that the locks and recipes of a checkout know now.

    Raises:
        LockError, RecipeError: One of them cannot be read.
    """
    base = path_of(workspace, BASE)
    projects = {c.distribution for c in load(base).components.values()} if base.exists() else set()
    known = names_of(release_locks(workspace).values(), find_recipes(workspace.recipes))
    outputs = [
        name
        for recipe in find_recipes(workspace.base_recipes).values()
        for name in recipe.output_names
    ]
    # Else it stands for every name.
    base_names = tuple(name for name in outputs if not name.startswith("${{"))
    return replace(known, base=base_names, pip=frozenset(projects))


def names_of(locks: Iterable[ReleaseLock], recipes: Mapping[str, Recipe]) -> Names:
    """The names that these locks and recipes know, without a base channel."""
    every, outputs = list(locks), readers(recipes)
    own = {name for recipe in recipes.values() for name in recipe.output_names}
    wheels, components = _wheels(every, outputs), _components(every, outputs)
    return Names(wheels, components, frozenset(own), projects=projects(recipes))


def projects(recipes: Mapping[str, Recipe]) -> dict[str, str]:
    """Package -> the library or Python project whose files it has, of the first recipe that can."""
    found: dict[str, str] = {}
    for recipe in recipes.values():
        read = [c for c in recipe.components if c in LIBRARIES or c in PYTHON_PROJECTS]
        for name in recipe.output_names:
            if read and "{" not in name:
                found.setdefault(name, read[0])
    return found


def readers(recipes: Mapping[str, Recipe]) -> dict[str, list[str]]:
    """Component of a release lock, without a CUDA major -> the outputs of recipes that read it."""
    found: dict[str, list[str]] = {}
    for recipe in recipes.values():
        for component in recipe.components:
            found.setdefault(component, []).extend(n for n in recipe.output_names if "{" not in n)
    return found


def package_of(component: str, outputs: Sequence[str]) -> str:
    """The output to ask for, of those of the recipes that read a component.

    What people call it, else the first one.

    Each of them has files of the component, or requires the package that has them.
    """
    called = (component, f"cuda-{component}", f"lib{component}")
    named = next((name for name in called if name in outputs), "")
    plain = [name for name in outputs if not name.endswith(_FILES_END)]
    alike = (name for name in plain if component.replace("-", "") in name.replace("-", ""))
    return named or next(alike, "") or next(iter(plain), "")


def _wheels(locks: Iterable[ReleaseLock], outputs: Mapping[str, Sequence[str]]) -> dict[str, Wheel]:
    found: dict[str, dict[str, dict[str, None]]] = {}
    for lock in locks:
        for component in lock.components.values():
            own = _MAJOR.sub("", component.name)
            if own in outputs:
                packages = found.setdefault(_MAJOR.sub("", component.distribution), {}).setdefault(
                    lock.major, {}
                )
                packages[package_of(own, outputs[own])] = None
    return {
        name: {major: tuple(wheel[major]) for major in sorted(wheel)}
        for name, wheel in found.items()
    }


def _components(
    locks: Iterable[ReleaseLock], outputs: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    names = {_MAJOR.sub("", component) for lock in locks for component in lock.components}
    return {name: package_of(name, outputs[name]) for name in sorted(names & outputs.keys())}
