"""Exports a recipe as a feedstock that stands alone.

Sources are named by address and sha256, scripts are beside the recipe, and variants in one file.
`conda smithy rerender` makes the rest (`.ci_support`, the CI files). In the recipe only what must
differ does; comments and layout stay the author's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.version import Version
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from ctk.core.address import public
from ctk.core.checkout import Workspace, git
from ctk.core.console import count, listing
from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue, NotPublished, RecipeError, UnknownName, problems
from ctk.core.files import read_plain, read_plain_text
from ctk.core.platforms import PLATFORMS
from ctk.core.secrets import hide_address
from ctk.lock.derived import KINDS, Derived
from ctk.lock.model import Artefact, ReleaseLock, variant_keys
from ctk.plan.plan import Build, Plan, Request, Set, plan, published_set, python_tags
from ctk.plan.recipes import Recipe

_README = """# {name}-feedstock

A feedstock for your own CI and your own channel: conda-forge cannot take it. It is exported
from {revision}.

It makes {count} of version {version}{for_what}: {packages}.

conda-forge cannot take it, because:

{reasons}

The repository's docs/upstream has what conda-forge can use: proposals, each with a command.

{sources}{channel}To install `rattler-build` and `conda smithy`:

    conda create -n smithy -c conda-forge conda-smithy rattler-build

To build for this machine (`--target-platform` names another):

    rattler-build build --experimental --allow-symlinks-on-windows --recipe recipe \\
      --variant-config recipe/conda_build_config.yaml -c CHANNEL -c conda-forge

The first option is for outputs that share one tree. The second is for libraries' links in noarch
packages of Linux targets.

{driver}{shared}\
To write the CI files, first add to recipe/conda_build_config.yaml where the CI takes packages
from, and where it uploads them. We have not run such a CI:

    channel_sources:
      - CHANNEL,conda-forge
    channel_targets:
      - OWNER main

Then run `conda smithy rerender`. This takes minutes if there is a build for each Python.

`conda smithy recipe-lint --conda-forge recipe` reports the wheels. It may also report a version
of `python` in `run` (there is no `host` to take it from), the same in `noarch: python`, and a
licence that differs by platform.
"""
_SOURCES = (
    "The sources are the wheels of the package index that was configured for the export, with"
    " address and sha256.\n\n"
)
_OWN_CHANNEL = (
    "The packages need that repository's channel, whose `cuda-version` has native and compat\n"
    "builds. Name that channel before conda-forge when you build, test and install. `CHANNEL` is\n"
    "its address.\n\n"
)
_DRIVER = (
    "The tests of native packages need a driver. On a machine without one, first state the driver"
    " of\nthe newest release that you build, as in `export CONDA_OVERRIDE_CUDA={minor}`. The CI of"
    " conda-smithy\nstates one only for recipes that read `cuda_compiler_version`, so set this"
    " variable there, too.\n\n"
)
_SHARED = (
    "The native and the compat build each make {packages}, under the same file name. Their bytes"
    " may differ,\nso upload the package of one of them.\n\n"
)
_WHEELS = (
    "Its sources are wheels. conda-forge's linter refuses compiled ones, and its recipes of CUDA"
    " take archives."
)
_MADE_FILES = (
    "Nobody publishes the files in `recipe/made`. They were made for this export, from the names in"
    " NVIDIA's libraries and headers."
)
_VERSIONS = (
    "Its versions are in `recipe/conda_build_config.yaml`. conda-forge's bot raises them in the"
    " recipe."
)
_PINS = (
    "The same file has its pins (CUDA, Python, glibc). conda-forge has one place for those of all"
    " feedstocks."
)
_BUILDS = (
    "Its packages fit two builds of each `cuda-version`, native and compat. conda-forge has one"
    " build."
)
_GITIGNORE = "/build_artifacts/\n/output/\n"
_GITATTRIBUTES = "* text=auto\n*.sh text eol=lf\n*.patch binary\n"

# The order that conda-smithy's rule R-001 asks for, of recipes of one and of several outputs.
_ORDER = (
    *("schema_version", "context", "package", "recipe", "source", "build"),
    *("requirements", "tests", "outputs", "about", "extra"),
)
_SCRIPT = re.compile(r"\bfile: \.\./common/(\S+)")
_PATH = re.compile(
    r"\.cache/artefacts/(?P<component>[^/]+)/\$\{\{ *(?P<version>[^}]+?) *\}\}/(?P<target>.+)\.zip$"
)
_MADE = re.compile(rf"-({'|'.join(KINDS)})$")
_MAJOR = re.compile(r"\$\{\{ *cuda_major *\}\}")  # in the name of a component, as nccl-cu13
# A wheel is unpacked with Python's zipfile, and patchelf is what the scripts call for Linux. Both
# have a version, so that no variant of Python is made of them.
_TOOLS = ("patchelf >=0.17", "python >=3.11")
# Where nothing but the licence is taken from the wheel.
_UNPACK = "python -m zipfile -e *.whl ."
# The platform that has other values of some keys than all the others, and one of the others.
_WINDOWS_ON_ARM = "win-arm64"
_ANY_OTHER = "linux-64"
# conda-smithy builds for linux-64 whatever its settings are.
_NOT_LINUX_64 = 'target_platform == "linux-64"'
_GLIBC, _NOT_MACOS = "c_stdlib_version", "[linux or win]"
# The pinning of conda-forge zips `python` with this key only, and conda-build takes no key in two
# groups. So the keys that this checkout zips with `python` are computed from it, in the context of
# the recipe.
_PYTHON_ZIP = "is_python_min"
_FROM_PYTHON = {
    "python_tag": '${{ "cp3" ~ (python | split("."))[1] ~ ("t" if python[-1:] == "t" else "") }}',
    "python_number": (
        '${{ ((python | split("."))[1] | int - 10) * (1 if python[-1:] == "t" else 10) }}'
    ),
}

_COMMENTS = {
    _GLIBC: (
        "The oldest glibc for the packages. Without the selector, conda-smithy takes it for the"
        " oldest macOS."
    ),
    _PYTHON_ZIP: (
        "Zipped with python because conda-forge's pinning does so; the recipe does not read it."
    ),
}
"""Key of the variants -> the comment above it."""
_IS_DEFINED = re.compile(r"(\w+) is defined")
_NAME = r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"

Locate = Callable[[Artefact], str]
"""Gives the address of an artefact."""


Offer = tuple[Artefact, str]
"""An artefact and its address."""
Make = Callable[[Sequence[Derived]], Sequence[bytes]]
"""Makes sources that consist of names (`ctk.lock.derived`); the feedstock has them beside it."""


def refuse_place(folder: Path, workspace: Workspace, *, force: bool) -> None:
    """Refuses a folder with other files without `force`, and one in the checkout that git sees.

    Raises:
        BadValue: It is such a folder.
    """
    place = folder.resolve()
    is_in_checkout = place.is_relative_to(workspace.root.resolve())
    if is_in_checkout and not place.is_relative_to(workspace.output.resolve()):
        raise BadValue(
            f"{folder} is in this checkout, where addresses of an index have no place",
            f"name one outside, or one below {workspace.output}",
        )
    is_used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if is_used and not force:
        raise BadValue(
            f"there is something in {folder}",
            "name another folder, or overwrite our files with --force",
        )


@dataclass(frozen=True)
class _Export:
    """A recipe, and what is planned of it.

    Attributes:
        recipe: The recipe.
        plan: Its builds, on all platforms.
        locks: The releases of these builds.
        tags: The Pythons of the checkout.
        older: The versions that are locked, and not exported.
    """

    recipe: Recipe
    plan: Plan
    locks: Sequence[ReleaseLock]
    tags: Sequence[str]
    older: Sequence[str]

    @property
    def subdirs(self) -> list[str]:
        """The platforms of its builds; a noarch package is planned, and made, on the first."""
        planned = {build.subdir for build in self.plan.builds}
        return [subdir for subdir in PLATFORMS if subdir in planned]

    @property
    def packages(self) -> list[str]:
        return list(dict.fromkeys(o.name for build in self.plan.builds for o in build.outputs))

    @property
    def versions(self) -> list[str]:
        """The versions of its packages; the first is that of the first output."""
        return list(dict.fromkeys(o.version for build in self.plan.builds for o in build.outputs))


def feedstock(
    workspace: Workspace,
    name: str,
    releases: Sequence[str],
    maintainers: Sequence[str],
    locate: Locate,
    make: Make,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, str | bytes]:
    """The files of a feedstock, by path.

    It is for the releases given, as CTK minors or names of locks; for the newest CTK release that
    has it, or every CUDA major, otherwise. `say` is called with a line about each thing that is
    left out: a CUDA major, a release without a build, an older version.

    Raises:
        UnknownName: No such recipe or release.
        BadValue: No maintainer, or no name of one, a recipe that no release given has, one whose
            sources are parts of this repository, or releases that need a feedstock each.
        NotPublished: The index lacks artefacts; every one is named.
    """
    published = published_set(workspace)
    if name not in published.recipes:
        otherwise = (
            "name a recipe of this checkout's recipes/, such as cuda-core: the command exports"
            " these only, and a recipe of your own needs no export"
        )
        raise UnknownName.of("recipe", name, published.recipes, otherwise)
    _refuse_maintainers(maintainers)
    _refuse_own_sources(published.recipes[name])
    export = _export(workspace, published, published.recipes[name], releases)
    _refuse_unequal(export)
    for line in _left_out(export, published, releases):
        say(line)
    recipe = _standalone(export, _offers(export.plan, locate), maintainers)
    return {
        "recipe/recipe.yaml": recipe,
        "recipe/conda_build_config.yaml": _variants(workspace, export.recipe, export.locks),
        "conda-forge.yml": _smithy(workspace, export.recipe, export.subdirs),
        "LICENSE.txt": read_plain_text(workspace.root / "LICENSE"),
        "README.md": _readme(export, workspace.root, has_wheels="url: " in recipe),
        ".gitignore": _GITIGNORE,
        ".gitattributes": _GITATTRIBUTES,
        **_files_beside(export.recipe, workspace),
        **_made(export.plan.derived, make),
    }


def _refuse_own_sources(recipe: Recipe) -> None:
    name = recipe.name
    if recipe.own_sources:
        raise BadValue(
            f"{name} is made from {listing(recipe.own_sources)} of this repository, which a"
            " feedstock does not have",
            f"build it here: ctk build {name}",
        )


def _made(sources: Sequence[Derived], make: Make) -> dict[str, bytes]:
    """The sources that consist of names, which no index has."""
    names = [f"recipe/{_made_name(source)}" for source in sources]
    return dict(zip(names, make(sources), strict=True))


def _made_name(source: Derived) -> str:
    """The path of a source that consists of names, beside the exported recipe."""
    artefact = source.artefact
    return f"made/{artefact.component}-{artefact.version}-{source.target}.zip"


def _refuse_maintainers(maintainers: Sequence[str]) -> None:
    """Raises BadValue if there is no maintainer, or for a name that GitHub cannot have."""
    if not maintainers:
        raise BadValue(
            "nobody is named as a maintainer",
            "name one with --maintainer, or in [tool.ctk.feedstock]",
        )
    for maintainer in maintainers:
        if not re.fullmatch(rf"{_NAME}(?:/{_NAME})?", maintainer):
            step = (
                "write letters, digits and single hyphens, as in --maintainer some-name; a team is"
                " org/team"
            )
            raise BadValue(f"{maintainer!r} is not a GitHub name", step)


def _export(
    workspace: Workspace, published: Set, recipe: Recipe, releases: Sequence[str]
) -> _Export:
    tags = python_tags(workspace.build_config)
    planned = _planned(published, recipe, releases, tags)
    newest = [b for b in planned.builds if _is_newest(b, published.locks[b.lock][0])]
    older = [b.outputs[0].version for b in planned.builds if b not in newest]
    names = dict.fromkeys(build.lock for build in newest)
    return _Export(
        recipe,
        replace(planned, builds=tuple(newest)),
        [published.locks[name][0] for name in names],
        tags,
        tuple(dict.fromkeys(older)),
    )


def _refuse_unequal(export: _Export) -> None:
    """Raises BadValue for releases of which only some have what a recipe asks for by `is defined`.

    A variant file has each key for all of its builds, so they would lose it without a word.
    """
    asked = set(_IS_DEFINED.findall(read_plain_text(export.recipe.file)))
    for key in sorted(asked):
        having = [lock.name for lock in export.locks if key in variant_keys(lock, _ANY_OTHER)]
        if having and len(having) < len(export.locks):
            others = [lock.name for lock in export.locks if lock.name not in having]
            raise BadValue(
                f"{export.recipe.name} has {key} in {listing(having)}, and not in"
                f" {listing(others)}, and the variants of a feedstock cannot say this",
                "export each release into a feedstock of its own",
            )


def _left_out(export: _Export, published: Set, releases: Sequence[str]) -> Iterator[str]:
    """What an export leaves out, in sentences.

    CUDA majors that the releases given do not name, of a recipe with builds for each; releases
    given that have no build of their own; older versions that are locked, too.
    """
    recipe = export.recipe
    if releases and not _is_of_toolkit(recipe, published):
        everything = _planned(published, recipe, (), export.tags)
        majors = {published.locks[build.lock][0].major for build in everything.builds}
        others = sorted(majors - {lock.major for lock in export.locks}, key=int)
        if others:
            yield (
                f"CUDA {listing(others)} is left out, as --release names none of it; without"
                " --release it is there"
            )
    built = {word for lock in export.locks for word in (lock.name, lock.minor)}
    without = [release for release in releases if release not in built]
    if without and _is_of_toolkit(recipe, published):
        have = "have" if len(without) > 1 else "has"
        yield f"{listing(without)} {have} no build of {recipe.name} of its own"
    if export.older:
        yield f"older versions are left out, which are locked here, too: {listing(export.older)}"


def _is_of_toolkit(recipe: Recipe, published: Set) -> bool:
    """Whether a recipe packages a component of the toolkit, whose versions a release has."""
    locks = [lock for lock, _ in published.locks.values() if lock.is_ctk]
    keys = {part.variant_key for lock in locks for part in lock.components.values()}
    return not recipe.names_used.isdisjoint({"cuda_version", *keys})


def _readme(export: _Export, root: Path, *, has_wheels: bool) -> str:
    has_made = bool(export.plan.derived)
    why = _reasons(export.recipe, has_wheels=has_wheels, has_made=has_made)
    reasons = [f"- {reason}" for reason in why]
    return _README.format(
        name=export.recipe.name,
        revision=_revision(root),
        reasons="\n".join(reasons),
        sources=_SOURCES if has_wheels else "",
        channel="" if export.recipe.name == "cuda-version" else _OWN_CHANNEL,
        driver=_driver(export),
        shared=_shared(export),
        count=count(len(export.packages), "package"),
        packages=", ".join(export.packages),
        version=listing(export.versions),
        for_what=_for_what(export),
    )


def _driver(export: _Export) -> str:
    """That tests of native packages need a driver; "" for an export without any."""
    if "cuda_fit" not in export.recipe.names_used:
        return ""
    minors = [lock.minor for lock in export.locks if lock.minor]
    newest = max(minors, key=Version) if minors else f"{export.locks[-1].major}.X"
    return _DRIVER.format(minor=newest)


def _shared(export: _Export) -> str:
    """The packages that the native and the compat variant of a recipe both make, in a sentence."""
    if "cuda_fit" not in export.recipe.names_used:
        return ""
    outputs = [output for build in export.plan.builds for output in build.outputs]
    names = dict.fromkeys(o.name for o in outputs if "cuda_fit" not in o.variant)
    return _SHARED.format(packages=listing(list(names))) if names else ""


def _for_what(export: _Export) -> str:
    """The CUDA versions that the recipe has a build for, and the platforms of its packages."""
    cuda = ""
    if export.recipe.names_used & {"cuda_version", "cuda_major"}:
        versions = listing([lock.minor or lock.major for lock in export.locks])
        cuda = f" for CUDA {versions}"
    outputs = [output for build in export.plan.builds for output in build.outputs]
    if all(output.noarch for output in outputs):
        return f"{cuda}, for all platforms (noarch)"
    return f"{cuda} on {', '.join(export.subdirs)}"


def _files_beside(recipe: Recipe, workspace: Workspace) -> dict[str, str]:
    """The files beside a recipe: shared scripts, its licence, its scripts and what they install."""
    files = {}
    for script in _SCRIPT.findall(read_plain_text(recipe.file)):
        text = read_plain_text(workspace.recipes / "common" / script)
        files[f"recipe/{script}"] = _with_unpacking(text)
    for own in sorted(recipe.folder.iterdir()):
        if own.is_file() and own.name not in ("recipe.yaml", "conda-forge.yml"):
            files[f"recipe/{own.name}"] = read_plain_text(own)
    return files


def _revision(root: Path) -> str:
    """The last commit of a checkout and where it was cloned from, and whether files differ."""
    commit = git(root, "rev-parse", "HEAD")
    if not commit:
        return "files that are not in git"
    changes = ""
    if git(root, "status", "--porcelain"):
        changes = ", with changes that are not committed"
    address = git(root, "remote", "get-url", "origin")
    hide_address(address)
    origin = public(address)
    # Another address is none for a reader.
    place = f" ({origin})" if origin.startswith("http") else ""
    return f"commit {commit} of cuda-feedstocks{place}{changes}"


def _reasons(recipe: Recipe, *, has_wheels: bool, has_made: bool) -> Iterator[str]:
    """Why conda-forge cannot take the export of a recipe."""
    if has_wheels:
        yield _WHEELS
    if has_made:
        yield _MADE_FILES
    yield _VERSIONS
    yield _PINS
    if recipe.names_used & {"cuda_fit", "nvjitlink_fit"}:
        yield _BUILDS


def write(files: Mapping[str, str | bytes], folder: Path) -> None:
    """Writes a feedstock; NoSpace if the folder cannot be written."""
    with disk_errors(folder):
        for name, content in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
            if name.endswith(".sh"):
                file.chmod(0o755)


def _planned(published: Set, recipe: Recipe, releases: Sequence[str], tags: Sequence[str]) -> Plan:
    """The builds of a recipe, on all platforms."""
    for chosen in _choices(published, recipe, releases):
        request = Request(releases=chosen, recipes=(recipe.name,), platforms=tuple(PLATFORMS))
        planned = plan(published, request, tags)
        if planned.builds:
            return planned
    reasons = list(dict.fromkeys(entry.reason for entry in planned.left_out))
    if not reasons:
        reasons = [f"no lock of {', '.join(releases) or 'any release'} has it"]
    raise problems(BadValue, recipe.name, reasons, "see `ctk build --dry-run`")


def _choices(published: Set, recipe: Recipe, releases: Sequence[str]) -> list[list[str]]:
    """The releases to plan a recipe for: the first choice that has builds is taken.

    A component of the toolkit has one release, the newest, as a branch of conda-forge's has. The
    rest has a build for each major.
    """
    if releases:
        return [list(releases)]
    if not _is_of_toolkit(recipe, published):
        return [[]]
    minors = [lock.minor for lock, _ in published.locks.values() if lock.is_ctk]
    return [[minor] for minor in sorted(minors, key=Version, reverse=True)]


def _is_newest(build: Build, lock: ReleaseLock) -> bool:
    """Whether it is of a project's newest version.

    An older one is for another branch, as conda-forge has it.
    """
    newest = {c.variant_key: c.version for name, c in lock.components.items() if name == c.name}
    return all(newest[key] == version for key, version in build.versions.items())


def _offers(planned: Plan, locate: Locate) -> list[Offer]:
    """The artefacts of a plan with their addresses, by platform."""
    artefacts = {}
    for build in planned.builds:
        for artefact in build.artefacts:
            artefacts[artefact.component, artefact.version, artefact.target] = artefact
    offers = []
    lost = []
    for artefact in artefacts.values():
        try:
            offers.append((artefact, locate(artefact)))
        except NotPublished as error:
            lost.append(error.cause)
    if lost:
        raise problems(
            NotPublished, "the package index", lost, "a mirror may have to fetch them first"
        )

    def by_platform(offer: Offer) -> tuple[int, str]:
        target = offer[0].target
        numbers = [n for n, subdir in enumerate(PLATFORMS) if target.startswith(subdir)]
        return (numbers[0] if numbers else 0, target)

    return sorted(offers, key=by_platform)


def _skips(export: _Export) -> list[str]:
    """Conditions for what is left out: a wheel that is published on other platforms only."""
    # An output may have the name of its recipe.
    left_out = {entry.id for entry in export.plan.left_out} - set(export.plan.by_id)
    pythons = list(export.tags) if "python_tag" in export.recipe.names_used else [""]
    skips = [] if "linux-64" in export.subdirs else [_NOT_LINUX_64]
    for subdir in export.subdirs:
        lost = {
            lock.name: _lost(left_out, export.recipe, lock, pythons, subdir)
            for lock in export.locks
        }
        differ = len(set(map(tuple, lost.values()))) > 1
        for lock in export.locks:
            tags = lost[lock.name]
            if not tags:
                continue
            conditions = [f'target_platform == "{subdir}"']
            if differ:
                conditions.append(_is_of(lock, export.recipe))
            if tags != pythons:
                names = ", ".join(f'"{tag}"' for tag in tags)
                conditions.append(f"python_tag in [{names}]")
            skips.append(" and ".join(conditions))
    return list(dict.fromkeys(skips))


def _is_of(lock: ReleaseLock, recipe: Recipe) -> str:
    """The condition for builds of a release, by a key that the recipe reads."""
    if not lock.is_ctk:
        return f'cuda_major == "{lock.major}"'
    if "cuda_version" in recipe.names_used:
        return f'cuda_version == "{lock.minor}"'
    parts = lock.components.values()
    part = next(part for part in parts if part.variant_key in recipe.names_used)
    return f'{part.variant_key} == "{part.version}"'


def _lost(
    left_out: set[str], recipe: Recipe, lock: ReleaseLock, pythons: Iterable[str], subdir: str
) -> list[str]:
    """The Pythons without a build of a release, by the ids that the plan has for builds."""
    lost = []
    for tag in pythons:
        python = tag.replace("cp", "py", 1)
        for release in (f"cuda{lock.minor or lock.major}", ""):
            if "-".join(filter(None, (recipe.name, release, python, subdir))) in left_out:
                lost.append(tag)
                break
    return lost


def _variants(workspace: Workspace, recipe: Recipe, locks: Sequence[ReleaseLock]) -> str:
    """The matrix and the versions that the recipe reads, in one file."""
    shared: dict[str, Any] = YAML(typ="safe").load(workspace.build_config)
    zips = [group for group in shared.pop("zip_keys", []) if recipe.names_used & set(group)]
    shared[_PYTHON_ZIP] = ["false"] * len(shared["python"])
    zips = [["python", _PYTHON_ZIP] if "python" in group else group for group in zips]
    used = recipe.names_used.union(*zips) - _FROM_PYTHON.keys()
    rows = _release_rows(locks, used, _ANY_OTHER)
    own = _release_rows(locks, used, _WINDOWS_ON_ARM)
    every = [*rows.values(), *own.values()]
    has_row_for_each = all(len(values) == len(locks) for values in every)
    if len(locks) > 1 and has_row_for_each:
        if all(len(set(values)) == 1 for values in every):
            rows = {key: values[:1] for key, values in rows.items()}
            own = {key: values[:1] for key, values in own.items()}
        elif len(rows) > 1:
            zips.append(list(rows))
    else:
        rows = {key: list(dict.fromkeys(values)) for key, values in rows.items()}
        own = {key: list(dict.fromkeys(values)) for key, values in own.items()}
    keys = {key: values for key, values in shared.items() if key in used} | rows
    out = CommentedMap({key: CommentedSeq(map(Quoted, values)) for key, values in keys.items()})
    for key, values in rows.items():
        if own[key] != values:
            out[key] = _by_platform(values, own[key])
    if _GLIBC in out:
        out[_GLIBC].yaml_add_eol_comment(_NOT_MACOS, 0)
    for key in _COMMENTS.keys() & out.keys():
        out.yaml_set_comment_before_after_key(key, before=_COMMENTS[key])
    if zips:
        out["zip_keys"] = zips
    return _dumped(out)


def _release_rows(
    locks: Sequence[ReleaseLock], used: Collection[str], subdir: str
) -> dict[str, list[str]]:
    """The variant keys that a recipe uses, with the values that all releases have on a platform.

    The first of a project's versions is the newest, and the others are not exported. So a key of
    one release only, which a recipe asks with `is defined`, is not there. Each GPU is a variant of
    its own.
    """
    columns = [variant_keys(lock, subdir) for lock in locks]
    rows: dict[str, list[str]] = {}
    for key in columns[0]:
        if key in used and all(key in column for column in columns):
            most = None if key == "cuda_arch" else 1
            rows[key] = [value for column in columns for value in column[key][:most]]
    return rows


def _by_platform(values: Sequence[str], own: Sequence[str]) -> CommentedSeq:
    """The values of a key that Windows on ARM has others of, each with its selector."""
    both = CommentedSeq(map(Quoted, (*values, *own)))
    for place in range(len(both)):
        condition = "[not (win and arm64)]" if place < len(values) else "[win and arm64]"
        both.yaml_add_eol_comment(condition, place)
    return both


def _smithy(workspace: Workspace, recipe: Recipe, subdirs: Iterable[str]) -> str:
    """The settings of this checkout and the recipe's own, for the platforms of the recipe."""
    settings: dict[str, Any] = YAML(typ="safe").load(read_plain(workspace.root / "conda-forge.yml"))
    own = recipe.folder / "conda-forge.yml"
    if own.exists():
        settings |= YAML(typ="safe").load(own)
    names = [subdir.replace("-", "_") for subdir in subdirs]
    platforms = settings.get("build_platform", {})
    settings["build_platform"] = {k: v for k, v in platforms.items() if k in names}
    # Else a rerender replaces our instructions, and the licence, by its own.
    settings["skip_render"] = ["README.md", "LICENSE.txt"]
    # conda-smithy builds on these unless told otherwise.
    settings["provider"] |= {name: "None" for name in ("win_64", "osx_64") if name not in names}
    return _dumped({key: value for key, value in settings.items() if value})


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # nothing is folded that its author did not fold
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _dumped(data: Mapping[str, Any]) -> str:
    out = StringIO()
    _yaml().dump(data, out)
    return out.getvalue()


def _standalone(export: _Export, offers: Sequence[Offer], maintainers: Sequence[str]) -> str:
    """The text of a recipe with sources by address, which skips variants without an artefact."""
    recipe = export.recipe
    skips = _skips(export)
    document = _yaml().load(recipe.file)
    for key, expression in _FROM_PYTHON.items():
        if key in recipe.names_used:
            _section(document, "context").insert(0, key, expression)
    shared = document.get("build") or {}
    for block in (document, *document.get("outputs", ())):
        build = shared | (block.get("build") or {})
        if "source" in block:
            _take_wheels(block, build, offers, export.plan.derived)
        if skips and "package" in block:
            own = _as_list(build.get("skip") or [])
            _section(block, "build").insert(0, "skip", [*own, *skips])
    if _NOT_LINUX_64 in skips and "recipe" in document:
        # Where all of a platform is skipped, conda-smithy reads the version before it is rendered.
        document["recipe"]["version"] = Quoted(export.versions[0])
    _section(document, "extra")["recipe-maintainers"] = list(maintainers)
    return _SCRIPT.sub(r"file: \1", _dumped(document))


def _take_wheels(
    block: CommentedMap,
    build: Mapping[str, Any],
    offers: Sequence[Offer],
    made: Sequence[Derived],
) -> None:
    """Names the sources of a recipe or an output by address, and the tools that unpack them."""
    sources = [_addresses(source, offers, made) for source in _plain_sources(block["source"])]
    block["source"] = [*chain.from_iterable(sources)]
    requirements = _section(block, "requirements")
    own = requirements.pop("build", None) or ()
    requirements.insert(0, "build", [*_TOOLS, *own])
    if "script" not in build:
        _section(block, "build")["script"] = _UNPACK


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _section(block: CommentedMap, name: str) -> CommentedMap:
    """A section of a recipe or an output; made, in its place, where there is none."""
    if not block.get(name):
        block.pop(name, None)
        later = _ORDER[_ORDER.index(name) + 1 :]
        block.insert(sum(key not in later for key in block), name, CommentedMap())
    section: CommentedMap = block[name]
    return section


def _with_unpacking(script: str) -> str:
    """A build script that first unpacks the wheels of its sources.

    rattler-build itself unpacks only names in .zip.
    """
    head, line, tail = script.partition("set -euo pipefail\n")
    if not line:
        raise RecipeError(
            "a build script has no `set -euo pipefail`",
            "begin it like the others in recipes/common",
        )
    return f"""{head}{line}
for wheel in ./*.whl ./*/*.whl; do
  if [[ -f $wheel ]]; then
    python -m zipfile -e "$wheel" "${{wheel%/*}}"
    rm "$wheel"
  fi
done
{tail}"""


def _plain_sources(stated: Any) -> Iterator[Mapping[str, Any]]:
    """The sources of a recipe or an output; the conditions of each follow from its artefacts."""
    for source in _as_list(stated):
        yield source.get("then", source)


def _addresses(
    source: Mapping[str, Any], offers: Sequence[Offer], made: Sequence[Derived]
) -> Iterator[dict[str, Any]]:
    """The sources that the path of an artefact stands for: each file under its condition."""
    path = _PATH.search(source["path"])
    if not path:
        raise RecipeError(
            f"{source['path']} is not an artefact of a lock",
            "read it by `path: ../../.cache/artefacts/...`",
        )
    kind = _MADE.search(path["target"])
    if kind:
        read = [s for s in made if (s.artefact.component, s.kind) == (path["component"], kind[1])]
        yield from _made_beside(read, path["version"])
        return
    component = re.compile(_MAJOR.sub("(?P<cuda_major>[0-9]+)", path["component"]))
    named = [(component.fullmatch(artefact.component), artefact, url) for artefact, url in offers]
    mine = [(match, artefact, url) for match, artefact, url in named if match]
    has_versions = len({artefact.version for _, artefact, _ in mine}) > 1
    urls: dict[tuple[str, str], str] = {}
    for match, artefact, url in mine:
        subdir, _, python = artefact.target.partition("-cp")  # a target may have no Python
        values = match.groupdict()
        if has_versions and not values:
            values = {path["version"]: artefact.version}
        if "target_platform" in path["target"]:
            values["target_platform"] = subdir
        if python and "python_tag" in path["target"]:
            values["python_tag"] = f"cp{python}"
        condition = " and ".join(f'{name} == "{value}"' for name, value in values.items())
        urls.setdefault((condition, artefact.sha256), url)
    rest = {key: value for key, value in source.items() if key != "path"}
    for (condition, sha256), url in urls.items():
        file = {"url": url, "sha256": sha256, **rest}
        yield {"if": condition, "then": file} if condition else file


def _made_beside(sources: Sequence[Derived], version_key: str) -> Iterator[dict[str, Any]]:
    """The sources that consist of names, each under the condition of its platform and version."""
    has_versions = len({source.artefact.version for source in sources}) > 1
    for source in sources:
        condition = f'target_platform == "{source.artefact.subdir}"'
        if has_versions:
            condition += f' and {version_key} == "{source.artefact.version}"'
        yield {"if": condition, "then": {"path": _made_name(source)}}
