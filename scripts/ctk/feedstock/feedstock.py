"""A recipe as a feedstock that stands alone: what conda-smithy takes over from there.

`conda smithy rerender` makes the rest (`.ci_support`, the CI files); nothing of that is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from packaging.version import Version
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, NoSpace, NotPublished, UnknownName, problems
from ctk.core.platforms import PLATFORMS
from ctk.feedstock.recipe import SCRIPT, Locate, Offer, standalone, with_unpacking
from ctk.index.index import IndexFile
from ctk.lock.lock import ReleaseLock
from ctk.lock.text import variant_keys
from ctk.plan.dag import Build
from ctk.plan.plan import Plan, Request, Set, plan
from ctk.plan.project import published_set, python_tags
from ctk.plan.recipes import Recipe

_README = """# {name}-feedstock

The recipe of {packages}, {version}, for {platforms}: exported from a repository that makes all of CUDA's packages.
The sources are NVIDIA's wheels, by address and sha256 of the index that was configured then.

`conda smithy rerender` writes the CI files. `rattler-build build --experimental --allow-symlinks-on-windows --recipe
recipe --variant-config recipe/conda_build_config.yaml` builds for this machine; `--target-platform` names another. The
first option is for outputs that share one tree, the second for libraries' links in noarch packages of Linux targets.
"""
_GITIGNORE = "/build_artifacts/\n/output/\n"
_GITATTRIBUTES = "* text=auto\n*.sh text eol=lf\n*.patch binary\n"


def feedstock(
    workspace: Workspace, name: str, releases: Sequence[str], maintainers: Sequence[str], locate: Locate
) -> dict[str, str]:
    """The files of a feedstock, by path.

    Args:
        workspace: The checkout.
        name: Of the recipe.
        releases: CTK minors, or names of locks. None given: the newest CTK release that has it, or every CUDA major.
        maintainers: Who conda-forge would ask.
        locate: Says where an artefact is.

    Raises:
        UnknownName: No such recipe or release.
        BadValue: No maintainer, or a recipe that no release given has.
        NotPublished: The index lacks artefacts; every one is named.
    """
    what = published_set(workspace)
    if name not in what.recipes:
        raise UnknownName.of("recipe", name, what.recipes)
    if not maintainers:
        raise BadValue("nobody is named as a maintainer", "name one with --maintainer, or in [tool.ctk.feedstock]")
    recipe = what.recipes[name]
    tags = python_tags(workspace.build_config)
    planned = _planned(what, recipe, releases, tags)
    locks = [what.locks[lock][0] for lock in dict.fromkeys(b.lock for b in planned.builds)]
    text = standalone(
        recipe.file.read_text(encoding="utf-8"),
        _offers(planned, locate),
        _skips(planned, recipe, locks, tags),
        {"recipe-maintainers": maintainers},
    )
    subdirs = _subdirs(planned)
    outputs = [o for b in planned.builds for o in b.outputs]
    files = {
        "recipe/recipe.yaml": text,
        "recipe/conda_build_config.yaml": _variants(workspace, recipe, locks),
        "conda-forge.yml": _smithy(workspace, recipe, subdirs),
        "LICENSE.txt": (workspace.root / "LICENSE").read_text(encoding="utf-8"),
        "README.md": _README.format(
            name=name,
            packages=", ".join(dict.fromkeys(o.name for o in outputs)),
            version=", ".join(dict.fromkeys(o.version for o in outputs)),
            platforms=", ".join(subdirs),
        ),
        ".gitignore": _GITIGNORE,
        ".gitattributes": _GITATTRIBUTES,
    }
    for script in SCRIPT.findall(recipe.file.read_text(encoding="utf-8")):
        shared = workspace.recipes / "common" / script
        files[f"recipe/{script}"] = with_unpacking(shared.read_text(encoding="utf-8"))
    for own in sorted(recipe.folder.iterdir()):  # its licence, scripts, and what they install
        if own.is_file() and own.name not in ("recipe.yaml", "conda-forge.yml"):
            files[f"recipe/{own.name}"] = own.read_text(encoding="utf-8")
    return files


def public_url(file: IndexFile) -> str:
    """Where a file is, without the name and password that the index may be reached with."""
    parts = urlsplit(file.url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def write(files: Mapping[str, str], folder: Path, workspace: Workspace, *, force: bool = False) -> None:
    """Writes a feedstock.

    Raises:
        BadValue: The folder is in this checkout, where addresses of an index must not be; or there is something in it.
        NoSpace: The folder cannot be written.
    """
    folder = folder.resolve()
    inside = folder.is_relative_to(workspace.root.resolve())
    if inside and not folder.is_relative_to(workspace.output.resolve() / "feedstocks"):
        raise BadValue(
            f"{folder} is in this checkout, which holds no address of an index",
            "name a folder elsewhere, or below output/feedstocks",
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
            raise BadValue(f"there is something in {folder}", "name another folder, or overwrite with --force")
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
            if name.endswith(".sh"):
                file.chmod(0o755)
    except OSError as error:
        raise NoSpace(
            f"{error.filename or folder} cannot be written: {error.strerror}", "name another folder"
        ) from error


def _planned(what: Set, recipe: Recipe, releases: Sequence[str], tags: Sequence[str]) -> Plan:
    """The builds of a recipe, on all platforms."""
    # What a toolkit is made of has one release, as a branch of conda-forge's has; the rest has a build for each major.
    tied = "cuda_version" in recipe.names_used
    newest = sorted((lock.minor for lock, _ in what.locks.values() if lock.is_ctk), key=Version, reverse=True)
    choices = [list(releases)] if releases else [[minor] for minor in newest] if tied else [list[str]()]
    for choice in choices:
        found = plan(what, Request(releases=choice, recipes=(recipe.name,), platforms=tuple(PLATFORMS)), tags)
        if found.builds:
            return replace(found, builds=tuple(b for b in found.builds if _is_newest(b, what.locks[b.lock][0])))
    reasons = [x.reason for x in found.left_out] or [f"no lock of {', '.join(releases) or 'any release'} has it"]
    raise problems(BadValue, recipe.name, list(dict.fromkeys(reasons)), "see `ctk plan` for what there is")


def _is_newest(build: Build, lock: ReleaseLock) -> bool:
    """Whether it is of a project's newest version: an older one is for another branch, as conda-forge has it."""
    newest = {
        component.variant_key: component.version
        for name, component in lock.components.items()
        if name == component.name
    }
    return all(newest[key] == version for key, version in build.versions.items())


def _offers(planned: Plan, locate: Locate) -> list[Offer]:
    offers, lost = [], []
    artefacts = {(a.component, a.version, a.target): a for b in planned.builds for a in b.artefacts}
    for artefact in artefacts.values():
        try:
            offers.append(Offer(artefact, locate(artefact)))
        except NotPublished as error:
            lost.append(error.cause)
    if lost:
        raise problems(NotPublished, "the package index", lost, "a mirror may have to fetch them first")
    return sorted(offers, key=lambda offer: (list(PLATFORMS).index(_subdir(offer)), offer.artefact.target))


def _subdir(offer: Offer) -> str:
    return next((s for s in PLATFORMS if offer.artefact.target.startswith(s)), next(iter(PLATFORMS)))


def _skips(planned: Plan, recipe: Recipe, locks: Sequence[ReleaseLock], tags: Sequence[str]) -> list[str]:
    """Conditions for what is left out because a wheel is not published, on platforms that have others."""
    left_out = {entry.id for entry in planned.left_out} - set(
        planned.by_id
    )  # an output may have the name of its recipe
    pythons = list(tags) if "python_tag" in recipe.names_used else [""]
    subdirs = _subdirs(planned)
    # conda-smithy builds for linux-64 whatever its settings are.
    found = {} if "linux-64" in subdirs else {'target_platform == "linux-64"': None}
    for subdir in subdirs:
        lost = {}
        for lock in locks:
            labels = (f"cuda{lock.minor or lock.major}", "")
            lost[lock.name] = [
                tag for tag in pythons if any(_id(recipe, label, tag, subdir) in left_out for label in labels)
            ]
        alike = len({tuple(tags_lost) for tags_lost in lost.values()}) == 1
        for lock in locks:
            if not lost[lock.name]:
                continue
            conditions = [f'target_platform == "{subdir}"']
            if not alike:
                key, value = ("cuda_version", lock.minor) if lock.is_ctk else ("cuda_major", lock.major)
                conditions.append(f'{key} == "{value}"')
            if lost[lock.name] != pythons:
                names = ", ".join(f'"{tag}"' for tag in lost[lock.name])
                conditions.append(f"python_tag in [{names}]")
            found[" and ".join(conditions)] = None
    return list(found)


def _id(recipe: Recipe, label: str, tag: str, subdir: str) -> str:
    """The id that the plan has for a build."""
    return "-".join(part for part in (recipe.name, label, tag.replace("cp", "py", 1), subdir) if part)


def _subdirs(planned: Plan) -> list[str]:
    """The platforms to build on. What is the same on all of them is planned, and made, on the first."""
    return [subdir for subdir in PLATFORMS if any(b.subdir == subdir for b in planned.builds)]


def _variants(workspace: Workspace, recipe: Recipe, locks: Sequence[ReleaseLock]) -> str:
    """The matrix and the versions that the recipe reads, in one file."""
    shared: dict[str, Any] = YAML(typ="safe").load(workspace.build_config)
    zips = [group for group in shared.pop("zip_keys", []) if recipe.names_used & set(group)]
    used = recipe.names_used | {key for group in zips for key in group}
    found = {key: values for key, values in shared.items() if key in used}
    # The first of a project's versions is the newest, and each GPU is a variant of its own.
    columns = [
        {k: v if k == "cuda_arch" else v[:1] for k, v in variant_keys(lock).items() if k in used} for lock in locks
    ]
    rows = {key: [value for column in columns for value in column.get(key, [])] for column in columns for key in column}
    if len(columns) > 1 and all(len(values) == len(columns) for values in rows.values()):
        if all(len(set(values)) == 1 for values in rows.values()):
            rows = {key: values[:1] for key, values in rows.items()}
        elif len(rows) > 1:
            zips.append(list(rows))
    else:
        rows = {key: list(dict.fromkeys(values)) for key, values in rows.items()}
    found |= rows
    out: dict[str, Any] = {key: [Quoted(v) for v in values] for key, values in found.items()}
    if zips:
        out["zip_keys"] = zips
    return _yaml(out)


def _smithy(workspace: Workspace, recipe: Recipe, subdirs: Iterable[str]) -> str:
    """The settings of this checkout with the recipe's own, for the platforms that the recipe is for."""
    found: dict[str, Any] = YAML(typ="safe").load(workspace.root / "conda-forge.yml")
    own = recipe.folder / "conda-forge.yml"
    if own.exists():
        found |= YAML(typ="safe").load(own)
    names = [subdir.replace("-", "_") for subdir in subdirs]
    found["build_platform"] = {k: v for k, v in found.get("build_platform", {}).items() if k in names}
    for name in ("win_64", "osx_64"):  # what conda-smithy builds on unless told otherwise
        if name not in names:
            found["provider"] = {**found["provider"], name: "None"}
    # conda-forge's pinning would make more variants of `python` than there are wheels.
    found["exclusive_config_file"] = "recipe/conda_build_config.yaml"
    return _yaml({key: value for key, value in found.items() if value})


def _yaml(data: Mapping[str, Any]) -> str:
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = StringIO()
    yaml.dump(dict(data), out)
    return out.getvalue()
